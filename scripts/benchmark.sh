#!/bin/sh
# IoT-benchmark's launcher, for Millrace's benchmark tool: the same arguments, the same configuration directory.
#
#   benchmark.sh [-cf DIR] [-heapsize SIZE] [-maxheapsize SIZE] [arguments of `millrace bench iot`]
#
# DIR holds config.properties; without -cf it is `conf` in $BENCHMARK_HOME, or in the current directory.
# $MILLRACE names the program; without it `millrace` is looked for in PATH.
set -eu

MODE=${MODE:-iot}
conf=${BENCHMARK_HOME:-.}/conf
while [ $# -gt 0 ]; do
    case $1 in
    -cf | -heapsize | -maxheapsize)
        [ $# -ge 2 ] || { echo "$(basename "$0"): $1 needs a value" >&2; exit 2; }
        if [ "$1" = -cf ]; then
            conf=$2
        else
            echo "$(basename "$0"): note: $1 $2 has no effect: there is no Java heap here" >&2
        fi
        shift 2
        ;;
    *) break ;;
    esac
done
exec "${MILLRACE:-millrace}" bench "$MODE" --config "$conf" "$@"
