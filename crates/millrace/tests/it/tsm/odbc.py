"""Managed series as Excel reads them, by psqlODBC and by Power Query's statements: odbc.py HTTP_ADDRESS PG_ADDRESS

pyodbc has no scrollable cursors, SQLDescribeParam, SQLSetPos and statement timeouts: `Raw` calls these functions of the
driver manager itself. docs/manual/excel.md says what is tested here.
"""

import ctypes
import datetime
import decimal
import gzip
import json
import math
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
import uuid

import pyodbc

BASE = f"http://{sys.argv[1]}/tsm/v1/default"
HOST, PORT = sys.argv[2].rsplit(":", 1)
UNICODE, ANSI = "PostgreSQL Unicode", "PostgreSQL ANSI"
METER, QUARTERS, MINUTES = "Zähler Süd €", 31 * 96, 100_000
# Takes longer than any timeout of this program.
ENDLESS = "SELECT count(*) FROM generate_series(1, 4000000000)"
OPTIONS = [
    "",
    "UpdatableCursors=0",
    "UseDeclareFetch=1;Fetch=1000",
    "UseServerSidePrepare=0",
    "UseServerSidePrepare=0;Protocol=7.4-0",
    "Protocol=7.4-2",
    "ByteaAsLongVarBinary=1;TextAsLongVarchar=0;MaxVarcharSize=255;UnknownSizes=2",
    "ReadOnly=1;ShowSystemTables=1;FetchRefcursors=1;LFConversion=1;SSLmode=disable",
]

wrong = []


def check(fact, seen, expected):
    print(f"{fact}: {seen!r}"[:200])
    if seen != expected:
        wrong.append(f"{fact}: saw {seen!r}, expected {expected!r}")


def connection_string(options="", driver=UNICODE):
    return f"Driver={{{driver}}};Server={HOST};Port={PORT};Database=millrace;Uid=ada;{options}"


def connect(options="", driver=UNICODE, autocommit=True):
    return pyodbc.connect(connection_string(options, driver), autocommit=autocommit)


def rows(cursor):
    return [tuple(row) for row in cursor]


def state_of(run):
    """SQLSTATE of the error with which a call ends."""
    try:
        return f"no error, {run()!r}"
    except pyodbc.Error as error:
        return error.args[0]


def call(method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(BASE + path, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request) as response:
        return response.headers, response.read()


def write_series():
    def define(name, step, multiplier=1):
        raster = {"Value": step, "Multiplier": multiplier}
        definition = {"Name": name, "Interval": raster, "Unit": "kW", "TimeZone": "Europe/Vienna"}
        call("POST", "/timeseries", json.dumps(definition).encode())

    def regular(name, minutes, count, value):
        start = datetime.datetime(2024, 12, 31, 23, tzinfo=datetime.timezone.utc)
        stamps = (start + datetime.timedelta(minutes=minutes * at) for at in range(count))
        lines = (f"{stamp:%Y-%m-%dT%H:%M:%SZ},{value(at)}\n" for at, stamp in enumerate(stamps))
        call("PUT", f"/timeseries/{name}/data", ("From,Value\n" + "".join(lines)).encode(), Content_Type="text/csv")

    define(METER, "Hour")
    define("P", "Minute", 15)
    define("Long", "Minute")
    values = [("01:00:00", 1.5), ("02:00:00A", 2.5), ("02:00:00B", 3.5), ("03:00:00", "NaN"), ("04:00:00", None)]
    data = [{"From": f"2025-10-26T{clock}", "Value": value} for clock, value in values]
    call("PUT", f"/timeseries/{urllib.parse.quote(METER)}/data", json.dumps({"Data": data}).encode())
    regular("P", 15, QUARTERS, lambda at: at / 4)
    regular("Long", 1, MINUTES, lambda at: at / 8)


def catalog_functions(options):
    """Functions with which MS Query and Access look for tables, columns and keys."""
    cursor = connect(options).cursor()
    tables = {row.table_name: row.table_type for row in cursor.tables(schema="tsm")}
    check("kinds of tables", [tables.get(name) for name in ("data", "points", "series")], ["VIEW", "TABLE", "TABLE"])
    views = [row.table_name for row in cursor.tables(schema="tsm", tableType="VIEW")]
    check("views", views, ["data"])
    schemas = [row[1] for row in cursor.tables(catalog="", schema="%", table="")]
    check("schema in the list", "tsm" in schemas, True)
    columns = [(row.column_name, row.type_name) for row in cursor.columns(table="data", schema="tsm")]
    expected = [("repository", "text"), ("name", "text"), ("time", "timestamptz"), ("value", "float8"), ("flag", "int2"),
                ("series", "int8")]
    check("columns", [(name, kind.split()[0]) for name, kind in columns], expected)
    check("primary key", [row.column_name for row in cursor.primaryKeys(table="series", schema="tsm")], ["id"])
    unique = [row.column_name for row in cursor.statistics("points", schema="tsm", unique=True) if row.column_name]
    check("unique index of points", unique, ["series", "time"])
    keys = {(row.fkcolumn_name, row.pktable_name) for row in cursor.foreignKeys(foreignTable="series", foreignSchema="tsm")}
    check("foreign keys", keys, {("repository", "repositories"), ("unit", "units")})
    kinds = {row.type_name for row in cursor.getTypeInfo()}
    check("kinds of types", {"int8", "float8", "numeric", "timestamptz", "bytea", "uuid"} <= kinds, True)
    check("row identifiers", rows(cursor.rowIdColumns("points", schema="tsm")), [])


def reads(options, driver=UNICODE):
    connection = connect(options, driver)
    if driver == ANSI:
        connection.setencoding("utf-8", ctype=pyodbc.SQL_CHAR)
        for kind in (pyodbc.SQL_CHAR, pyodbc.SQL_WCHAR):
            connection.setdecoding(kind, encoding="utf-8", ctype=pyodbc.SQL_CHAR)
    cursor = connection.cursor()
    stored = rows(cursor.execute("SELECT time, value, flag FROM tsm.data WHERE name = ? ORDER BY time", METER))
    hours = [datetime.datetime(2025, 10, 25, 23) + datetime.timedelta(hours=hour) for hour in range(5)]
    check("times are UTC", [time for time, _, _ in stored], hours)
    check("numbers", [value for _, value, _ in stored[:3]], [1.5, 2.5, 3.5])
    check("NaN and NULL", (math.isnan(stored[3][1]), stored[4][1:]), (True, (None, 19)))
    read = "SELECT local, value FROM tsm.read(?, ?, ?)"
    clock = [local for local, _ in cursor.execute(read, METER, "2025-10-26T01:00", "2025-10-26T04:00")]
    expected = ["2025-10-26T01:00:00", "2025-10-26T02:00:00A", "2025-10-26T02:00:00B", "2025-10-26T03:00:00"]
    check("the two hours of autumn", clock, expected)
    month = rows(cursor.execute("SELECT * FROM tsm.read('P', '2025-01-01', '2025-02-01')"))
    check("a month", (len(month), month[0]), (QUARTERS, (datetime.datetime(2024, 12, 31, 23), 0.0, 9, "2025-01-01T00:00:00")))
    day = "SELECT sum(value) FROM tsm.read(?, ?, ?, step => ?, unit => ?)"
    times = datetime.datetime(2025, 1, 1), datetime.datetime(2025, 1, 2)
    check("parameters of tsm.read", cursor.execute(day, "P", *times, "Hour", "kWh").fetchval(), 95 / 4 / 2 * 24)
    untimed = "SELECT min(local), max(local) FROM tsm.read('P', date '2025-01-01', timestamp '2025-01-02 00:00:00')"
    clock = ("2025-01-01T00:00:00", "2025-01-01T23:45:00")
    check("a timestamp is of the series' zone", tuple(cursor.execute(untimed).fetchone()), clock)
    escapes = "SELECT count(*) FROM tsm.data WHERE name = 'P' AND time >= {ts '2025-01-01 00:00:00'} AND time < {d '2025-01-02'}"
    check("ODBC's escapes", cursor.execute(escapes).fetchval(), 96)
    query = 'SELECT data.name, data."time", data.value FROM millrace.tsm.data data WHERE (data.name=\'P\') ORDER BY data."time"'
    check("a statement of MS Query", cursor.execute(query).fetchone()[2], 0.0)


def long_results(options):
    values = [value for value, in connect(options).execute("SELECT value FROM tsm.data WHERE name = 'Long'")]
    check("rows", (len(values), sum(values)), (MINUTES, MINUTES * (MINUTES - 1) / 16))
    blocks = Raw(options).block_sum("SELECT value FROM tsm.data WHERE name = 'Long'", 1000)
    check("blocks of rows", blocks, (MINUTES, MINUTES * (MINUTES - 1) / 16))


def zones():
    cursor = connect("ConnSettings={SET TimeZone TO 'Europe/Vienna'}").cursor()
    cursor.execute("SELECT time FROM tsm.data WHERE name = ? ORDER BY time", METER)
    check("times of a zone", [time.hour for time, in cursor], [1, 2, 2, 3, 4])


def parameters(options):
    """A row of every type, written and found by parameters; then changed as Access changes it."""
    connection = connect(options)
    cursor = connection.cursor()
    cursor.execute("DROP TABLE IF EXISTS deals")
    cursor.execute(
        "CREATE TABLE deals (id bigint PRIMARY KEY, ok boolean, small smallint, whole int, short real, price float8,"
        " amount numeric(12,3), note text, code varchar(20), raw bytea, day date, clock time, at timestamp, tz timestamptz,"
        " key uuid) WITH (store = 'rows')"
    )
    at = datetime.datetime(2025, 1, 2, 3, 4, 5, 123456)
    values = (1, True, 2, 3, 1.5, 2.5, decimal.Decimal("1234.567"), "Zähler €𝄞", "x", b"\x00\x01\xff", at.date(),
              datetime.time(10, 11, 12), at, at, uuid.UUID(int=5))
    insert = f"INSERT INTO deals VALUES ({', '.join('?' * len(values))})"
    check("inserted", cursor.execute(insert, values).rowcount, 1)
    check("inserted NULLs", cursor.execute(insert, (2,) + (None,) * (len(values) - 1)).rowcount, 1)
    found = [column[0] for column in cursor.execute("SELECT * FROM deals WHERE false").description]
    for column, value in zip(found, values):
        check(f"found by {column}", rows(cursor.execute(f"SELECT id FROM deals WHERE {column} = ?", value)), [(1,)])
    # psqlODBC gives boolean and uuid as text unless it is told otherwise.
    read = cursor.execute("SELECT * FROM deals WHERE id = 1").fetchone()
    check("the row", tuple(read), (1, "1") + values[2:-1] + (str(values[-1]),))
    check("NULLs", set(cursor.execute("SELECT * FROM deals WHERE id = 2").fetchone()[1:]), {None})
    update = 'UPDATE "public"."deals" SET "price" = ? WHERE "id" = ? AND "price" = ? AND "code" = ?'
    check("changed", cursor.execute(update, 7.25, 1, 2.5, "x").rowcount, 1)
    check("changed by another", cursor.execute(update, 8.25, 1, 2.5, "x").rowcount, 0)
    cursor.fast_executemany = True
    cursor.executemany("INSERT INTO deals (id, price, note) VALUES (?, ?, ?)", [(id, id / 2, f"n{id}") for id in range(10, 210)])
    check("an array of parameters", rows(cursor.execute("SELECT count(*), sum(price) FROM deals WHERE id >= 10")), [(200, 10950.0)])


def transactions():
    connection = connect(autocommit=False)
    cursor = connection.cursor()
    count = "SELECT count(*) FROM deals WHERE id = 10"
    cursor.execute("DELETE FROM deals WHERE id = 10")
    connection.rollback()
    check("rolled back", cursor.execute(count).fetchval(), 1)
    cursor.execute("DELETE FROM deals WHERE id = 10")
    check("an error", state_of(lambda: cursor.execute("SELECT 1 / 0").fetchall()), "22012")
    check("the statement alone is undone", cursor.execute(count).fetchval(), 0)
    connection.commit()
    for level, name in ((pyodbc.SQL_TXN_READ_COMMITTED, "read committed"), (pyodbc.SQL_TXN_SERIALIZABLE, "serializable")):
        connection.set_attr(pyodbc.SQL_ATTR_TXN_ISOLATION, level)
        check("isolation", cursor.execute("SHOW transaction_isolation").fetchval(), name)
        connection.rollback()
    strict = connect("Protocol=7.4-0", autocommit=False).cursor()
    state_of(lambda: strict.execute("SELECT 1 / 0").fetchall())
    check("Protocol=7.4-0 undoes no statement", state_of(lambda: strict.execute(count)), "25P02")
    cursor.execute("UPDATE deals SET price = 1 WHERE id = 1")
    other = connect("ConnSettings={SET lock_timeout = '200ms'}").cursor()
    check("a locked row", state_of(lambda: other.execute("UPDATE deals SET price = 2 WHERE id = 1")), "55P03")
    connection.rollback()


def errors():
    cursor = connect().cursor()
    check("no series", state_of(lambda: cursor.execute("SELECT * FROM tsm.read('none', '2025-01-01', '2025-02-01')")), "42704")
    check("no table", state_of(lambda: cursor.execute("SELECT * FROM nowhere")), "42P01")
    check("a view is not written", state_of(lambda: cursor.execute("INSERT INTO tsm.data (name) VALUES ('P')")), "55000")
    check("TLS", state_of(lambda: connect("SSLmode=require")), "08001")
    check("another encoding", state_of(lambda: connect("ConnSettings={SET client_encoding = 'WIN1252'}", ANSI)), "22023")
    threading.Timer(0.5, cursor.cancel).start()
    fetching = connect("UseDeclareFetch=1").cursor()
    check("pg_sleep in a cursor", state_of(lambda: fetching.execute("SELECT pg_sleep(0)")), "0A000")
    check("SQLCancel", state_of(lambda: cursor.execute(ENDLESS)), "57014")
    check("after it", cursor.execute("SELECT 41 + 1").fetchval(), 42)


class Raw:
    """ODBC 3 of the driver manager: a connection."""

    ATTRIBUTES = {"timeout": 0, "cursor": 6, "concurrency": 7, "rows": 27}
    STATIC, KEYSET, BY_VERSIONS = 3, 1, 3
    FIRST, LAST, PRIOR, ABSOLUTE, RELATIVE, NEXT = 2, 3, 4, 5, 6, 1

    def __init__(self, options=""):
        self.odbc = ctypes.CDLL("libodbc.so.2")
        environment, self.connection = ctypes.c_void_p(), ctypes.c_void_p()
        self.odbc.SQLAllocHandle(ctypes.c_short(1), None, ctypes.byref(environment))
        self.odbc.SQLSetEnvAttr(environment, ctypes.c_int(200), ctypes.c_void_p(3), ctypes.c_int(0))
        self.odbc.SQLAllocHandle(ctypes.c_short(2), environment, ctypes.byref(self.connection))
        text = connection_string(options).encode()
        code = self.odbc.SQLDriverConnect(self.connection, None, text, ctypes.c_short(-3), None, 0, None, ctypes.c_ushort(0))
        assert ctypes.c_short(code).value in (0, 1), self.state(2, self.connection)

    def state(self, kind, handle):
        state, text = ctypes.create_string_buffer(6), ctypes.create_string_buffer(1000)
        self.odbc.SQLGetDiagRec(ctypes.c_short(kind), handle, ctypes.c_short(1), state, None, text, ctypes.c_short(1000), None)
        return state.value.decode()

    def statement(self, **attributes):
        self.handle = ctypes.c_void_p()
        self.odbc.SQLAllocHandle(ctypes.c_short(3), self.connection, ctypes.byref(self.handle))
        for name, value in attributes.items():
            self.run("SQLSetStmtAttr", ctypes.c_int(self.ATTRIBUTES[name]), ctypes.c_void_p(value), ctypes.c_int(0))
        return self

    def run(self, function, *arguments):
        """Whether there is a row; an error is raised with its SQLSTATE."""
        code = ctypes.c_short(getattr(self.odbc, function)(self.handle, *arguments)).value
        if code not in (0, 1, 100):
            raise pyodbc.Error(self.state(3, self.handle), function)
        return code != 100

    def execute(self, sql):
        self.run("SQLExecDirect", sql.encode(), ctypes.c_int(-3))
        return self

    def scroll(self, direction, offset=0):
        """First column of the row there; None after the last."""
        if not self.run("SQLFetchScroll", ctypes.c_short(direction), ctypes.c_long(offset)):
            return None
        value = ctypes.c_double()
        self.run("SQLGetData", ctypes.c_ushort(1), ctypes.c_short(8), ctypes.byref(value), ctypes.c_long(8), None)
        return value.value

    def parameter_types(self, sql):
        self.run("SQLPrepare", sql.encode(), ctypes.c_int(-3))
        count, kinds = ctypes.c_short(), []
        self.run("SQLNumParams", ctypes.byref(count))
        for number in range(1, count.value + 1):
            kind, size, digits, nullable = ctypes.c_short(), ctypes.c_ulong(), ctypes.c_short(), ctypes.c_short()
            out = map(ctypes.byref, (kind, size, digits, nullable))
            self.run("SQLDescribeParam", ctypes.c_ushort(number), *out)
            kinds.append(kind.value)
        return kinds

    def block_sum(self, sql, size):
        """Number and sum of the first column, fetched in blocks of `size` rows."""
        self.statement(rows=size)
        fetched, values, lengths = ctypes.c_ulong(), (ctypes.c_double * size)(), (ctypes.c_long * size)()
        self.run("SQLSetStmtAttr", ctypes.c_int(26), ctypes.byref(fetched), ctypes.c_int(0))
        self.execute(sql).run("SQLBindCol", ctypes.c_ushort(1), ctypes.c_short(8), values, ctypes.c_long(8), lengths)
        count, total = 0, 0.0
        while self.run("SQLFetchScroll", ctypes.c_short(self.NEXT), ctypes.c_long(0)):
            count, total = count + fetched.value, total + sum(values[: fetched.value])
        return count, total

    def change_first_row(self, sql, price):
        """Changes the second column of the first row through the cursor, as `change_row`."""
        self.price, self.length = ctypes.c_double(), ctypes.c_long(8)
        pointers = ctypes.byref(self.price), ctypes.c_long(8), ctypes.byref(self.length)
        self.execute(sql).run("SQLBindCol", ctypes.c_ushort(2), ctypes.c_short(8), *pointers)
        self.run("SQLFetchScroll", ctypes.c_short(self.FIRST), ctypes.c_long(0))
        return self.change_row(price)

    def change_row(self, price):
        """The state of a warning; 00000 without one."""
        self.price.value = price
        self.run("SQLSetPos", ctypes.c_ulong(1), ctypes.c_ushort(2), ctypes.c_ushort(0))
        return self.state(3, self.handle)


def cursors(options):
    raw = Raw(options)
    moves = [(Raw.NEXT, 0), (Raw.LAST, 0), (Raw.PRIOR, 0), (Raw.ABSOLUTE, 10), (Raw.RELATIVE, 5), (Raw.RELATIVE, -3), (Raw.ABSOLUTE, -2),
             (Raw.FIRST, 0), (Raw.LAST, 0), (Raw.NEXT, 0)]
    last = QUARTERS - 1
    expected = [number and number / 4 for number in (0, last, last - 1, 9, 14, 11, last - 1, 0, last, None)]
    for source in ("tsm.data WHERE name = 'P'", "tsm.read('P', '2025-01-01', '2025-02-01')"):
        raw.statement(cursor=Raw.STATIC).execute(f"SELECT value, time FROM {source} ORDER BY time")
        check("a scrollable cursor", [raw.scroll(*move) for move in moves], expected)
    # The driver sends a query with a timeout as it is, and statement_timeout ends it.
    check("a timeout", state_of(lambda: raw.statement(timeout=1).execute(ENDLESS)), "57014")
    check("after it", raw.statement().execute("SELECT 42").scroll(Raw.NEXT), 42.0)


def cursors_that_change_rows(options):
    """psqlODBC finds a row by its ctid, and changes none that somebody else has changed in the meantime."""
    other = connect().cursor()
    other.execute("DROP TABLE IF EXISTS quotes")
    other.execute("CREATE TABLE quotes (id int PRIMARY KEY, price float8)")
    other.execute("INSERT INTO quotes VALUES (1, 1), (2, 2)")
    prices = lambda: [price for (price,) in rows(other.execute("SELECT price FROM quotes ORDER BY id"))]
    raw = Raw(options).statement(cursor=Raw.KEYSET, concurrency=Raw.BY_VERSIONS)
    check("a row is changed", raw.change_first_row("SELECT id, price FROM quotes ORDER BY id", 10.0), "00000")
    check("and once more", (raw.change_row(11.0), prices()), ("00000", [11.0, 2.0]))
    other.execute("UPDATE quotes SET price = 99 WHERE id = 1")
    check("a row that another session changed", (raw.change_row(12.0), prices()), ("01001", [99.0, 2.0]))


def limits_of_cursors():
    """What does not work; docs/manual/excel.md says so."""
    rows_of_deals = "SELECT id, price FROM deals WHERE id = 1"
    kinds = Raw().statement().parameter_types("SELECT id FROM deals WHERE id = ? AND price > ? AND tz < ?")
    check("types of parameters", kinds, [-5, 6, 93])
    raw = Raw("UpdatableCursors=0").statement(cursor=Raw.KEYSET, concurrency=Raw.BY_VERSIONS)
    check("UpdatableCursors=0 makes it read-only", state_of(lambda: raw.change_first_row(rows_of_deals, 9.0)), "HYC00")


def power_query():
    """Statements of Power Query's PostgreSQL connector; docs/manual/excel.md says how they were found."""
    cursor = connect().cursor()
    run = lambda sql: rows(cursor.execute(sql))
    check("encodings", run("select character_set_name from INFORMATION_SCHEMA.character_sets"), [("UTF8",)])
    tables = run("select TABLE_NAME, TABLE_TYPE from INFORMATION_SCHEMA.tables where TABLE_SCHEMA = 'tsm'")
    check("list of tables", {("data", "VIEW"), ("points", "BASE TABLE")} <= set(tables), True)
    columns = run("select COLUMN_NAME, case when (data_type like '%unsigned%') then DATA_TYPE || ' unsigned' else DATA_TYPE end"
                  " as DATA_TYPE from INFORMATION_SCHEMA.columns where TABLE_SCHEMA = 'tsm' and TABLE_NAME = 'data'"
                  " order by TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION")
    check("list of columns", columns[2:4], [("time", "timestamp with time zone"), ("value", "double precision")])
    references = run("select pk.TABLE_NAME, pk.COLUMN_NAME, fk.COLUMN_NAME from (select distinct constraint_schema, constraint_name,"
                     " unique_constraint_schema, unique_constraint_name from INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS) r"
                     " inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE fk on r.CONSTRAINT_SCHEMA = fk.CONSTRAINT_SCHEMA"
                     " and r.CONSTRAINT_NAME = fk.CONSTRAINT_NAME inner join INFORMATION_SCHEMA.KEY_COLUMN_USAGE pk"
                     " on r.UNIQUE_CONSTRAINT_SCHEMA = pk.CONSTRAINT_SCHEMA and r.UNIQUE_CONSTRAINT_NAME = pk.CONSTRAINT_NAME"
                     " where fk.TABLE_SCHEMA = 'tsm' and fk.TABLE_NAME = 'series'"
                     " and pk.ORDINAL_POSITION = fk.ORDINAL_POSITION order by 1")
    check("references", references, [("repositories", "name", "repository"), ("units", "name", "unit")])
    preview = run('select "$Table"."name" as "name", "$Table"."value" as "value" from "tsm"."data" "$Table" limit 1000')
    check("preview", len(preview), 1000)
    data = 'from "tsm"."data" "_" where "_"."name" = \'P\' and "_"."name" is not null'
    folded = run(f'select "_"."time", "_"."value" {data} and "_"."time" >= timestamp \'2025-01-01 00:00:00\''
                 ' and "_"."time" < timestamptz \'2025-01-02 00:00:00+00:00\' order by "_"."time" desc limit 5')
    check("folded", [value for _, value in folded], [24.75, 24.5, 24.25, 24.0, 23.75])
    check("count of rows", run(f'select count(1) as "$Item" from (select "_"."time" {data}) "rows"'), [(QUARTERS,)])
    total = run(f'select "rows"."name" as "name", max("rows"."value") as "a0" from (select "_"."name", "_"."value" {data}) "rows"'
                ' group by "name" limit 1000001')
    check("grouped", total, [("P", (QUARTERS - 1) / 4)])
    native = "select \"_\".\"local\", \"_\".\"value\" from (select * from tsm.read('P', '2025-01-01', '2025-01-02')) \"_\" limit 1"
    check("own statement", run(native), [("2025-01-01T00:00:00", 0.0)])


def web_contents():
    """A request of Web.Contents: percent-encoded, compressed, with a user whom the server records."""
    query = urllib.parse.urlencode({"from": "2025-10-26T01:00:00", "to": "2025-10-26T05:00:00", "format": "csv", "stamps": "local"})
    path = f"/timeseries/{urllib.parse.quote(METER)}/data?{query}"
    headers, body = call("GET", path, Accept_Encoding="gzip, deflate", Authorization="Basic YWRhOng=")
    lines = (gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body).decode().split()
    check("CSV", lines[:4], ["From,Value,Flag", "2025-10-26T01:00:00,1.5,9", "2025-10-26T02:00:00A,2.5,9", "2025-10-26T02:00:00B,3.5,9"])
    check("CSV without a value", lines[4:], ["2025-10-26T03:00:00,NaN,9", "2025-10-26T04:00:00,,19"])
    _, body = call("GET", f"/timeseriescollections/data?name=P&name={urllib.parse.quote(METER)}&from=2025-01-01&to=2025-01-01T00:15&format=csv")
    check("CSV of several series", body.decode().split()[:2], ["Name,From,Value,Flag", "P,2024-12-31T23:00:00Z,0.0,9"])


def isql():
    """unixODBC's shell, with a query on standard input."""
    query = f"SELECT local, value FROM tsm.read('{METER}', '2025-10-26T02:00:00B', '2025-10-26T03:00')\n"
    shell = subprocess.run(["isql", "-k", connection_string(), "-b", "-d,"], input=query.encode(), capture_output=True, timeout=60)
    check("isql", shell.stdout.decode().split(), ["2025-10-26T02:00:00B,3.5"])


missing = {UNICODE, ANSI} - set(pyodbc.drivers()) | ({"isql"} if shutil.which("isql") is None else set())
if missing:
    sys.exit(f"{sorted(missing)} missing; install: sudo apt-get install -y unixodbc odbc-postgresql")
write_series()
for options in OPTIONS:
    print(f"-- {options or 'default options'}")
    catalog_functions(options.replace("ShowSystemTables=1", "ShowSystemTables=0"))
    reads(options)
    if "ReadOnly=1" not in options:
        parameters(options)
reads("", ANSI)
zones()
transactions()
errors()
for options in ("", "UseDeclareFetch=1;Fetch=1000", "UpdatableCursors=0"):
    cursors(options)
    long_results(options)
for options in ("", "RowVersioning=1"):
    cursors_that_change_rows(options)
limits_of_cursors()
power_query()
web_contents()
isql()
if wrong:
    sys.exit("\n".join(["", *wrong]))
print("all facts hold")
