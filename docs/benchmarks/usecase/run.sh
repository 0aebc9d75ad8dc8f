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
        # Ten tables of 3,000 columns, and a log of as many files for each client that writes: it wants few clients, and
        # more open files (`ulimit -n`) than 20,000, with which it fails.
        questdb) options=(--seconds 600 --set DATA_CLIENT_NUMBER=4) ;;
        # Ten minutes of it.
        *) options=(--seconds 600) ;;
    esac
    # A product that fails does not keep the others from being measured; its report says what happened.
    "${bench[@]}" iot --config "$here/comparison" --query-clients 10,100 --target "$product" "${options[@]}" \
        --json "$here/reports/$product.json" || echo "$product: exit $?"
done
"${bench[@]}" compare "$here"/reports/*.json --html "$here/comparison.html"
