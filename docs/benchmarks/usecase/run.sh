#!/usr/bin/env bash
# The comparison of docs/benchmarks/usecase/README.md, from nothing to its page: every product in turn on a server of its
# own, a report for each, and all of them side by side. Takes hours; wants a machine with nothing else to do and 60 GB.
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
        # In full.
        millrace | iotdb) ;;
        # It opens a file for each column of a table, of each of its partitions and of each segment of its log. Where 20,000
        # files may be open it fails with the ten tables of the file, and with one table as soon as several segments or
        # partitions are open: the table is then suspended and what was acknowledged is not found. So: one table, two clients,
        # few and large segments, no partitions split; and not ten minutes, because its log is applied much slower than
        # written (README.md has the figures).
        questdb)
            options=(--seconds 40 --set GROUP_NUMBER=1 --set DATA_CLIENT_NUMBER=2
                --server-set pg.net.connection.limit=1024
                --server-set cairo.wal.segment.rollover.size=2147483648
                --server-set cairo.wal.max.segment.file.descriptors.cache=1
                --server-set cairo.o3.partition.split.min.size=100G
                --server-set cairo.wal.purge.interval=1000)
            ;;
        # Ten minutes of it.
        *) options=(--seconds 600) ;;
    esac
    # A product that fails does not keep the others from being measured; its report says what happened.
    "${bench[@]}" iot --config "$here/comparison" --query-clients 10,100 --target "$product" "${options[@]}" \
        --json "$here/reports/$product.json" || echo "$product: exit $?"
done
"${bench[@]}" compare "$here"/reports/*.json --html "$here/comparison.html"
