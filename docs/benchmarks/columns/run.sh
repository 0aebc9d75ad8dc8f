#!/usr/bin/env bash
# The figures of docs/benchmarks/columns/README.md: writes, sizes and queries of several products, each on a private server,
# one after the other. Needs an idle machine and 30 GB.
#
#   docs/benchmarks/columns/run.sh [PART …]      parts: wide size wider narrow rewrites late tsbs breakeven scans soak; default: all except
#                                                the last
#
# Environment: MILLRACE is a built program to use instead of building one, SECONDS_EACH the duration of the writes per product,
# TARGETS the products, QUESTIONS the number of queries of each kind.
set -euo pipefail
cd "$(dirname "$0")/../../.."
reports=${REPORTS:-docs/benchmarks/columns/reports}
program=${MILLRACE:-}
if [ -z "$program" ]; then
    cargo build --release --quiet -p millrace
    program=${CARGO_TARGET_DIR:-target}/release/millrace
fi
[ -n "${MILLRACE:-}" ] || cargo xtask tools --peers
mkdir -p "$reports"
seconds=${SECONDS_EACH:-15}
all=(millrace 'millrace?write=line' 'millrace?write=flight' questdb victoriametrics influxdb iotdb postgres)
[ -z "${TARGETS:-}" ] || read -ra all <<< "$TARGETS"

# measure NAME TARGETS… -- OPTIONS…: writes a report for each product. If a product fails, the others are still measured.
measure() {
    local name=$1 targets=()
    shift
    while [ "$1" != -- ]; do
        targets+=("$1")
        shift
    done
    shift
    for target in "${targets[@]}"; do
        local file="$reports/$name-${target//[^a-z0-9]/-}"
        "$program" bench "$@" --quiet --target "$target" --json "$file.json" > "$file.txt" 2>&1 || echo "$name $target: exit $?"
    done
    "$program" bench compare "$reports/$name"-*.json --html "$reports/$name.html" > "$reports/$name.txt" || true
}

# All fields are DOUBLE with two decimals, because one of the products stores only numbers. All devices are in one table, because
# another product keeps many files open per table.
data=(--set INSERT_DATATYPE_PROPORTION=0:0:0:0:1:0 --set GROUP_NUMBER=1 --set DATA_CLIENT_NUMBER=4)

# 100 devices x 300 fields; then each query 100 times by four clients.
wide() {
    measure wide "${all[@]}" -- iot --seconds "$seconds" --queries "${QUESTIONS:-400}" --query-clients 4 "${data[@]}" \
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=300 --set BATCH_SIZE_PER_WRITE=100
}
# The same 201 million points, for products that store them in few bytes.
size() {
    measure size millrace victoriametrics influxdb iotdb -- iot --queries 0 "${data[@]}" --set RUN_SECONDS=0 --set LOOP=67 \
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=300 --set BATCH_SIZE_PER_WRITE=100
}
# 100 devices x 3,000 fields.
wider() {
    measure wider "${all[@]}" -- iot --queries 0 --seconds "$seconds" "${data[@]}" \
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=3000 --set BATCH_SIZE_PER_WRITE=10
}
# 100,000 series of one field, 1,000 of them per request.
narrow() {
    measure narrow "${all[@]}" -- iot --queries 0 --seconds "$seconds" "${data[@]}" \
        --set DEVICE_NUMBER=100000 --set SENSOR_NUMBER=1 --set DEVICE_NUM_PER_WRITE=1000 --set BATCH_SIZE_PER_WRITE=1
}
# Every other row has the time of an earlier one and overwrites it.
rewrites() {
    measure rewrites "${all[@]}" -- iot --queries 0 --seconds "$seconds" "${data[@]}" \
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=300 --set BATCH_SIZE_PER_WRITE=100 \
        --set IS_OUT_OF_ORDER=true --set OUT_OF_ORDER_MODE=POISSON --set OUT_OF_ORDER_RATIO=0.5
}
# An hour at a fixed rate (80 % of the machine's peak), with queries during the writes and every tenth row late.
soak() {
    local mix=989:1:1:1:1:1:1:1:1:1:1:1:1
    "$program" bench iot --quiet --target millrace --seconds "${SOAK_SECONDS:-3600}" "${data[@]}" \
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=300 --set BATCH_SIZE_PER_WRITE=100 --set DOUBLE_LENGTH=0 \
        --set IS_OUT_OF_ORDER=true --set OUT_OF_ORDER_MODE=LATE --set OUT_OF_ORDER_RATIO=0.1 \
        --set OPERATION_PROPORTION=$mix --set POINT_RATE="${SOAK_RATE:-19000000}" \
        --json "$reports/soak.json" --html "$reports/soak.html" > "$reports/soak.txt" || echo "soak: exit $?"
}
# Millrace only, alternating: rows in order, and three rows of ten up to 1,000 rows late.
late() {
    local common=(iot --quiet --queries 0 --seconds "$seconds" "${data[@]}"
        --set DEVICE_NUMBER=100 --set SENSOR_NUMBER=300 --set BATCH_SIZE_PER_WRITE=100)
    for turn in 1 2 3; do
        for share in 0 0.3; do
            local file="$reports/late-$share-$turn"
            "$program" bench "${common[@]}" --target millrace --set IS_OUT_OF_ORDER=true --set OUT_OF_ORDER_MODE=LATE \
                --set OUT_OF_ORDER_RATIO=$share --json "$file.json" > "$file.txt" 2>&1 || echo "late $share: exit $?"
        done
    done
}
# TSBS's cpu-only: 100 hosts, three days, 25.9 million points; each kind of query 100 times.
tsbs() {
    measure tsbs ${TARGETS:-millrace questdb influxdb victoriametrics} -- tsbs --queries 100
}
# HAKOM's test: updates of shares of days, compressed and uncompressed; four minutes.
breakeven() {
    "$program" bench breakeven --target millrace --series 20 --days 120 --json "$reports/breakeven.json" \
        --html "$reports/breakeven.html" > "$reports/breakeven.txt"
}
# GROUP BYs over events, compared with DuckDB and ClickHouse. PYTHON must have their packages.
scans() {
    "${PYTHON:-python3}" docs/benchmarks/columns/scans.py "$program" "${SCAN_ROWS:-50000000}" > "$reports/scans.txt"
}

parts=("$@")
[ $# -gt 0 ] || parts=(wide size wider narrow rewrites late tsbs breakeven scans)
for part in "${parts[@]}"; do
    "$part"
done
