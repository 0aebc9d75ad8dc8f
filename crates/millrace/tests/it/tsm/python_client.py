"""A client as users of pandas and pyarrow write it: python_client.py HTTP_ADDRESS PG_ADDRESS"""

import io
import sys
import urllib.request

import psycopg
import pyarrow as pa
import pyarrow.csv

BASE = f"http://{sys.argv[1]}/tsm/v1/default"
ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
SERIES, DAYS = 30, 31
QUARTERS = DAYS * 96


def call(method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(BASE + path, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request) as response:
        return response.read()


def table_of(values):
    """Points of all series, mixed as a data frame that is sorted by time has them."""
    start = 1_735_686_000_000_000_000  # 2025-01-01 in Vienna
    rows = [(f"M{series:02}", start + quarter * 900_000_000_000, values(series, quarter), 9)
            for quarter in range(QUARTERS) for series in range(SERIES)]
    names, times, numbers, flags = zip(*rows)
    return pa.table({
        "series": pa.array(names).dictionary_encode(),
        "time": pa.array(times, pa.timestamp("ns", "UTC")).cast(pa.timestamp("us", "UTC")),
        "value": pa.array(numbers, pa.float64()),
        "flag": pa.array(flags, pa.int8()),
    })


def stream_of(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10_000)
    return sink.getvalue()


def sorted_rows(table):
    columns = {"series": table["series"].cast(pa.string()), "time": table["time"].cast(pa.timestamp("us", "UTC")),
               "value": table["value"], "flag": table["flag"].cast(pa.int16())}
    return pa.table(columns).sort_by([("series", "ascending"), ("time", "ascending")])


for series in range(SERIES):
    definition = f'{{"Name": "M{series:02}", "Interval": {{"Value": "Minute", "Multiplier": 15}}, "Unit": "kW", "TimeZone": "Europe/Vienna"}}'
    call("POST", "/timeseries", definition.encode())

written = table_of(lambda series, quarter: None if quarter % 97 == 5 else series * 1000 + quarter / 4)
call("PUT", "/timeseriescollections/data?atomic=true", stream_of(written), Content_Type=ARROW)

names = "&".join(f"name=M{series:02}" for series in range(SERIES))
period = "from=2025-01-01&to=2025-02-01&timeZone=Europe/Vienna"
read = pa.ipc.open_stream(call("GET", f"/timeseriescollections/data?{names}&{period}", Accept=ARROW)).read_all()
expected = sorted_rows(written)
# A missing value has the flag of missing ones where the client gave another; here it gave one.
assert sorted_rows(read).equals(expected), (sorted_rows(read).slice(0, 10), expected.slice(0, 10))

one = pa.ipc.open_stream(call("GET", f"/timeseries/M07/data?{period}&interval=Hour&unit=kWh&format=arrow"))
assert one.schema.metadata == {b"name": b"M07", b"unit": b"kWh", b"interval": b"Hour"}, one.schema.metadata
hours = one.read_all()
assert hours.num_rows == DAYS * 24
first = sum(7000 + quarter / 4 for quarter in range(4)) / 4
assert abs(hours["value"][0].as_py() - first) < 1e-9, hours["value"][0]

text = call("GET", f"/timeseriescollections/data?{names}&{period}", Accept=CSV)
as_csv = pyarrow.csv.read_csv(io.BytesIO(text))
assert as_csv.num_rows == SERIES * QUARTERS and as_csv.column_names == ["Name", "From", "Value", "Flag"]
# What was read is written, also by a spreadsheet with semicolons and decimal commas.
call("PUT", "/timeseriescollections/data", text, Content_Type=CSV)
spreadsheet = "Name;From;Value\n" + "".join(f"M{series:02};2025-01-01T00:00;{series},5\n" for series in range(SERIES))
call("PUT", "/timeseriescollections/data", spreadsheet.encode(), Content_Type=CSV)
again = pa.ipc.open_stream(call("GET", f"/timeseriescollections/data?{names}&{period}", Accept=ARROW)).read_all()
changed = sorted_rows(again).to_pydict()
before = expected.to_pydict()
for row, (name, value) in enumerate(zip(changed["series"], changed["value"])):
    is_first = row % QUARTERS == 0
    assert value == (int(name[1:]) + 0.5 if is_first else before["value"][row]), (row, name, value)

host, port = sys.argv[2].rsplit(":", 1)
with psycopg.connect(f"host={host} port={port} user=ada dbname=millrace") as connection:
    # Values as parameters of the server, of several types.
    statement = "SELECT count(*), sum(value) FROM tsm.read(%s, %s, %s, step => %s, unit => %s)"
    times = connection.execute("SELECT timestamptz '2024-12-31 23:00+00', timestamptz '2025-01-31 23:00+00'").fetchone()
    for start, finish in (("2025-01-01", "2025-02-01"), times):
        count, total = connection.execute(statement, ["M07", start, finish, "Day", "MWh"]).fetchone()
        energy = sum(value for name, value in zip(changed["series"], changed["value"]) if name == "M07" and value is not None)
        assert count == DAYS and abs(total - energy / 4000) < 1e-9, (count, total, energy / 4000)
print("all points came back")
