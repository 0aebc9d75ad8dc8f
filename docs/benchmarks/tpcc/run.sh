#!/usr/bin/env bash
# The figures of docs/benchmarks/tpcc/README.md: TPC-C's transactions on private servers, ten minutes.
#
#   docs/benchmarks/tpcc/run.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=docs/benchmarks/tpcc
bench=(cargo run --release --quiet -- bench)

cargo xtask tools --peers
mkdir -p "$here/reports"
# One round trip per statement, by number of connections.
"${bench[@]}" tpcc --target millrace,postgres --warehouses 8 --clients 1,8,64,256,768 --seconds 6 --warm-up 2 \
    --json "$here/reports/connections.json" --html "$here/connections.html"
"${bench[@]}" tpcc --target mariadb --warehouses 4 --clients 8,64 --seconds 7 --warm-up 2
# One round trip per transaction.
"${bench[@]}" tpcc --target millrace,postgres,mariadb --warehouses 4 --clients 8,64 --seconds 7 --warm-up 2 --mode one-trip
# MOT's ingestion test.
"${bench[@]}" rowload --target millrace
