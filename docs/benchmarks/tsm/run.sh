#!/usr/bin/env bash
# The figures of docs/benchmarks/tsm/README.md: HAKOM's load and scaling tests on private servers, 30 minutes.
#
#   docs/benchmarks/tsm/run.sh
set -euo pipefail
cd "$(dirname "$0")/../../.."
here=docs/benchmarks/tsm
bench=(cargo run --release --quiet -- bench)

cargo xtask tools --peers
mkdir -p "$here/reports"
targets=millrace,postgres-rows,postgres-blocks
"${bench[@]}" tsm scaling --target "$targets" --format json,arrow --json "$here/reports/scaling.json"
"${bench[@]}" tsm scaling --front-ends 0,1,2,4 --front-end-cpus 0.4 --format json,arrow --requests bulk --json "$here/reports/front_ends.json"
"${bench[@]}" tsm scaling --matrix 2x8,2x4,1x8,1x4 --matrix-scale 0.1 --format arrow --json "$here/reports/matrix.json"
"${bench[@]}" tsm scaling --kind plain,audit,quotation --requests bulk --service parallel --format arrow --json "$here/reports/kinds.json"
"${bench[@]}" tsm load --target "$targets" --format json,arrow --json "$here/reports/load.json"
"${bench[@]}" tsm latency --target millrace,postgres-rows --json "$here/reports/latency.json"
"${bench[@]}" published hakom --from "$here"/reports/*.json
cargo run --release --package tsm --example in_process 10
