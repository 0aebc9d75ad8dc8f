#!/bin/sh
# IoT-benchmark's launcher of its server monitor, for Millrace's: samples this machine until it is stopped.
# Arguments as for benchmark.sh; those left over go to `millrace bench monitor`.
set -eu

MODE=monitor exec "$(dirname "$0")/benchmark.sh" "$@"
