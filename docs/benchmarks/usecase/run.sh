#!/usr/bin/env bash
# The comparison of docs/benchmarks/usecase/README.md: runs each product on a private server, one after the other, and writes a
# report for each and a page that compares them. Takes hours; needs an idle machine and 60 GB.
#
#   docs/benchmarks/usecase/run.sh [PRODUCT …]
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=docs/benchmarks/usecase
bench=(cargo run --release --quiet -- bench)
products=("$@")
[ $# -gt 0 ] || products=(millrace iotdb questdb victoriametrics influxdb kairosdb postgres)

cargo xtask tools --peers
mkdir -p "$here/reports"
for product in "${products[@]}"; do
    options=()
    case "$product" in
        # The whole workload.
        millrace | iotdb) ;;
        # QuestDB opens a file for each column of a table, of each partition and of each segment of its log. With a limit of
        # 20,000 open files it fails with the configuration's ten tables, and with one table when several segments or partitions
        # are open: the table is suspended and acknowledged rows are not found. So the run uses one table, two clients, few and
        # large segments and one partition, and less than ten minutes, because the log is applied much slower than it is
        # written (README.md has the figures).
        questdb)
            options=(--seconds 40 --set GROUP_NUMBER=1 --set DATA_CLIENT_NUMBER=2
                --server-set pg.net.connection.limit=1024
                --server-set cairo.wal.segment.rollover.size=2147483648
                --server-set cairo.wal.max.segment.file.descriptors.cache=1
                --server-set cairo.o3.partition.split.min.size=100G
                --server-set cairo.wal.purge.interval=1000)
            ;;
        # Ten minutes of the workload.
        *) options=(--seconds 600) ;;
    esac
    # If a product fails, the others are still measured; its report has the failure.
    "${bench[@]}" iot --config "$here/comparison" --query-clients 10,100 --target "$product" "${options[@]}" \
        --json "$here/reports/$product.json" || echo "$product: exit $?"
done
"${bench[@]}" compare "$here"/reports/*.json --html "$here/comparison.html"
