"""Reads samples with epicsarchiver-retrieval-client: HOST PORT FIRST LAST, the first and last value of T:CNT."""

import sys
from datetime import datetime, timedelta, timezone

from epicsarchiver.epicsarchiver import ArchiverRetrieval

host, port, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
now = datetime.now(timezone.utc) + timedelta(seconds=1)
start = now - timedelta(hours=1)
archiver = ArchiverRetrieval(host, port)
counts = archiver.get_data("T:CNT", start, now)
assert counts["val"].to_list() == list(range(first, last + 1)), counts
for name, kind in (("T:AI", float), ("T:STATE", int), ("T:TEXT", str), ("T:WF", list)):
    values = archiver.get_data(name, start, now)["val"].to_list()
    assert values and all(isinstance(value, kind) for value in values), (name, values[:3])
