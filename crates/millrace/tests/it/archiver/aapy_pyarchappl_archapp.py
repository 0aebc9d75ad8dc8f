"""Reads samples with aapy, pyarchappl and archapp: HOST PORT FIRST LAST, the first and last value of T:CNT."""

import os
import sys
import tempfile
from datetime import datetime, timedelta, timezone

host, port, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
now = datetime.now(timezone.utc) + timedelta(seconds=1)
start = now - timedelta(hours=1)
expected = list(range(first, last + 1))


def severity_of(value):
    return 2 if abs(value) >= 8 else 1 if abs(value) >= 6 else 0


# aapy, both of its formats
from aa import js, pb

for fetcher in (pb.PbFetcher(host, port), js.JsonFetcher(host, port)):
    counts = fetcher.get_values("T:CNT", start, now)
    assert [int(value) for value in counts.values.flatten()] == expected, (type(fetcher), counts.values)
    amps = fetcher.get_values("T:AI", start, now)
    assert all(severity_of(value) == severity for value, severity in zip(amps.values.flatten(), amps.severities))
# aapy reads waveforms of numbers whose length does not change: mean, deviation, minimum, maximum, count
bins = pb.PbFetcher(host, port).get_values("stats_1(T:CNT)", start, now)
assert max(bins.values[:, 3]) == last and bins.values.shape[1] == 5, bins.values

# pyarchappl, with its management client
with tempfile.NamedTemporaryFile("w", suffix=".ini", delete=False) as file:
    file.write(f"[main]\nuse = test\n[test]\nurl = http://{host}:{port}\ndata_format = raw\nadmin_disabled = false\n")
os.environ["PYARCHAPPL_CONFIG_FILE"] = file.name
from archappl.client import ArchiverDataClient, ArchiverMgmtClient

for data_format in ("raw", "json"):
    client = ArchiverDataClient(f"http://{host}:{port}", format=data_format)
    frame = client.get_data("T:CNT", from_time=start.isoformat(), to_time=now.isoformat())
    assert [int(value) for value in frame["val"]] == expected, (data_format, frame)
newest = client.get_data_at_time(["T:CNT", "T:NONE"], now.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
assert newest["T:CNT"]["val"] == last and "T:NONE" not in newest, newest
management = ArchiverMgmtClient(f"http://{host}:{port}")
names = management.get_all_pvs(pv="T:C*")
assert sorted(names) == ["T:CHARS", "T:CNT"], names
assert management.get_pv_status(pv="T:CNT")["T:CNT"].status == "Being archived"
assert management.get_pv_type_info("T:AI").units == "mA"
assert len(management.get_pv_details("T:CNT")) > 10
os.unlink(file.name)

# archapp
from archapp.interactive import EpicsArchive

archive = EpicsArchive(host, port, port)
found = archive.search("T:C*", do_print=False)
assert sorted(found) == ["T:CHARS", "T:CNT"], found
values = archive.get("T:CNT", start=start.astimezone().replace(tzinfo=None), end=now.astimezone().replace(tzinfo=None))
assert [value for _, value in values] == expected, values
