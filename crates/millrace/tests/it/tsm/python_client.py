"""A client as users of pandas, pyarrow and openpyxl write it: python_client.py HTTP_ADDRESS PG_ADDRESS"""

import datetime
import io
import sys
import urllib.error
import urllib.request

import openpyxl
import psycopg
import pyarrow as pa
import pyarrow.csv

BASE = f"http://{sys.argv[1]}/tsm/v1/default"
ARROW, CSV = "application/vnd.apache.arrow.stream", "text/csv"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
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
    # A date and a timestamp without offset are of the series' zone.
    dates = datetime.date(2025, 1, 1), datetime.date(2025, 2, 1)
    clock = datetime.datetime(2025, 1, 1), datetime.datetime(2025, 2, 1)
    for start, finish in (("2025-01-01", "2025-02-01"), times, dates, clock):
        count, total = connection.execute(statement, ["M07", start, finish, "Day", "MWh"]).fetchone()
        energy = sum(value for name, value in zip(changed["series"], changed["value"]) if name == "M07" and value is not None)
        assert count == DAYS and abs(total - energy / 4000) < 1e-9, (count, total, energy / 4000)


def saved(book):
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


# Workbooks of Excel: what is read has dates of the clock, and what openpyxl writes is read.
def sheet_of(body):
    (sheet,) = openpyxl.load_workbook(io.BytesIO(body)).worksheets
    return list(sheet.iter_rows(values_only=True))


now = sorted_rows(pa.ipc.open_stream(call("GET", f"/timeseriescollections/data?{names}&{period}", Accept=ARROW)).read_all()).to_pydict()
body = call("GET", f"/timeseriescollections/data?{names}&{period}&format=xlsx")
header, *points = sheet_of(body)
assert header == ("Name", "From", "Value", "Flag") and len(points) == SERIES * QUARTERS, (header, len(points))
clock = datetime.timedelta(hours=1)  # January in Vienna
for row, (name, start, value, flag) in enumerate(points):
    shown = now["time"][row].replace(tzinfo=None) + clock
    assert (name, start, value, flag) == (now["series"][row], shown, now["value"][row], now["flag"][row]), (row, name, start, value, flag)

book = openpyxl.Workbook()
first = book.active
first.title = "My data"
first.append(["value", "FROM"])
days = [datetime.datetime(2025, 10, 25, 23, 45), "2025-10-26T02:00:00A", "2025-10-26T02:00:00B", datetime.datetime(2025, 10, 26, 3)]
for number, day in enumerate(days):
    first.append([number + 0.25, day])
second = book.create_sheet("More")
second.append(["From", "Value", "Flag"])
second.append([datetime.datetime(2025, 10, 27), "NaN", 9])
second.append([datetime.date(2025, 10, 28), None, None])
call("PUT", "/timeseries/M00/data", saved(book), Content_Type=XLSX)
_, *points = sheet_of(call("GET", "/timeseries/M00/data?from=2025-10-25T23:45&to=2025-10-28T00:15", Accept=XLSX))
found = {start: (value, flag) for start, value, flag in points if flag != 19 or start == datetime.datetime(2025, 10, 28)}
assert found == {
    datetime.datetime(2025, 10, 25, 23, 45): (0.25, 9), "2025-10-26T02:00:00+02:00": (1.25, 9), "2025-10-26T02:00:00+01:00": (2.25, 9),
    datetime.datetime(2025, 10, 26, 3): (3.25, 9), datetime.datetime(2025, 10, 27): ("NaN", 9), datetime.datetime(2025, 10, 28): (None, 19),
}, found
first["B3"] = datetime.datetime(2025, 10, 26, 2)
try:
    call("PUT", "/timeseries/M00/data", saved(book), Content_Type=XLSX)
    raise AssertionError("a time that the clock shows twice was taken")
except urllib.error.HTTPError as error:
    text = error.read().decode()
    assert error.code == 400 and "'My data'!B3" in text and "shown twice" in text, text
first["B3"] = "=B2"
try:
    call("PUT", "/timeseries/M00/data", saved(book), Content_Type=XLSX)
    raise AssertionError("a formula without a value was taken")
except urllib.error.HTTPError as error:
    text = error.read().decode()
    assert "'My data'!B3: a formula without a value" in text, text

# Definitions: a list is read, changed as a spreadsheet does it, and written.
book = openpyxl.load_workbook(io.BytesIO(call("GET", "/timeseries?name=M0%25&format=xlsx")))
sheet = book.active
columns = {cell.value: cell.column for cell in sheet[1]}
for row in range(2, sheet.max_row + 1):
    assert sheet.cell(row, columns["Interval"]).value == "15 Minute"
    sheet.cell(row, columns["Description"]).value = f"of row {row}"
    sheet.cell(row, columns["Audit"]).value = True
call("POST", "/timeseries?existing=change", saved(book), Content_Type=XLSX)
header, *rows = sheet_of(call("GET", "/timeseries?name=M0%25", Accept=XLSX))
described = [(row[header.index("Description")], row[header.index("Audit")]) for row in rows]
assert described == [(f"of row {row}", True) for row in range(2, 12)], described
book = openpyxl.Workbook()
book.active.append(["Name", "BaseUnit", "Factor"])
book.active.append(["kcal/h", "W", 1.163])
call("POST", "/units", saved(book), Content_Type=XLSX)
header, *rows = sheet_of(call("GET", "/units?format=xlsx"))
assert ("kcal/h", "W", 1.163) in [row[:3] for row in rows], rows
print("all points came back")
