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
        # It opens a file for each column of a table, and of its log for each client that writes. With the ten tables of
        # the file and two clients it fails where 20,000 files may be open; with one table and five clients it writes, but
        # had not applied 20 seconds of its log after four minutes. So: one table, two clients.
        questdb) options=(--seconds 600 --set GROUP_NUMBER=1 --set DATA_CLIENT_NUMBER=2) ;;
        # Ten minutes of it.
        *) options=(--seconds 600) ;;
    esac
    # A product that fails does not keep the others from being measured; its report says what happened.
    "${bench[@]}" iot --config "$here/comparison" --query-clients 10,100 --target "$product" "${options[@]}" \
        --json "$here/reports/$product.json" || echo "$product: exit $?"
done
"${bench[@]}" compare "$here"/reports/*.json --html "$here/comparison.html"
