"""Monitors PVs by libca: SECONDS PV... Prints time in nanoseconds, PV, value, severity and status of each update."""

import asyncio
import sys

from aioca import DBE_ALARM, DBE_LOG, FORMAT_TIME, camonitor

EPICS_EPOCH = 631_152_000
updates = []


def take(value):
    seconds, nanos = value.raw_stamp
    updates.append((seconds * 1_000_000_000 + nanos, value.name, float(value), value.severity, value.status))


async def main():
    monitors = [camonitor(name, take, events=DBE_LOG | DBE_ALARM, format=FORMAT_TIME, all_updates=True)
                for name in sys.argv[2:]]
    print("up", flush=True)
    await asyncio.sleep(float(sys.argv[1]))
    for monitor in monitors:
        monitor.close()
    for time, name, value, severity, status in sorted(updates):
        print(f"{time},{name},{value:.17g},{severity},{status}")


asyncio.run(main())
