"""Arrow Flight SQL by its real clients: ADBC's driver with its DB-API, and pyarrow's Flight client underneath.

Arguments: a PostgreSQL URL of the server (for what only it can tell), and host:port of Flight.
"""

import datetime
import decimal
import subprocess
import sys
import time

import adbc_driver_flightsql.dbapi as flight_sql
import psycopg
import pyarrow
import pyarrow.compute
import pyarrow.flight

POSTGRES, FLIGHT = sys.argv[1], "grpc://" + sys.argv[2]
UTC = datetime.timezone.utc


def connect(**options):
    return flight_sql.connect(FLIGHT, **options)


def same(seen, expected, what=""):
    assert seen == expected, f"{what}: seen {seen!r}, expected {expected!r}"


def refused(run, *parts):
    """Runs a call that must fail; checks parts of its error."""
    try:
        run()
    except Exception as error:
        text = str(error)
        for part in parts:
            assert part in text, f"no {part!r} in {text!r}"
        return text
    raise AssertionError(f"nothing failed, expected {parts}")


def execute(sql, parameters=None):
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.rowcount


def table_of(sql, parameters=None):
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def rows_of(sql, parameters=None):
    return [tuple(row.values()) for row in table_of(sql, parameters).to_pylist()]


def ingest(table, data, mode, **options):
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        return cursor.adbc_ingest(table, data, mode=mode, **options)


def at(second, nanosecond=0):
    return 1_767_225_600_000_000_000 + second * 1_000_000_000 + nanosecond


def moments(values, zone="UTC"):
    return pyarrow.array(values, pyarrow.timestamp("ns", zone))


def readings(seconds, device, value, **more):
    """A small table of a device: nanoseconds, a category, a value."""
    columns = {
        "time": moments([at(second, 123) for second in seconds]),
        "device": pyarrow.array([device] * len(seconds), pyarrow.string()).dictionary_encode(),
        "value": pyarrow.array([value] * len(seconds), pyarrow.float64()),
    }
    return pyarrow.table(columns | more)


def queries():
    same(rows_of("SELECT 41 + 1 AS n, 'a' AS t"), [(42, "a")])
    same(rows_of("SELECT n FROM generate_series(1, 3) AS g(n) WHERE n > $1", [1]), [(2,), (3,)])
    same(rows_of("SELECT $1 + 1 AS n, $2::text AS t", [41, "x"])[0][1], "x")
    same(table_of("SELECT 1 AS n WHERE false").num_rows, 0)
    same(table_of("SHOW timezone").num_rows, 1)
    # A result far larger than the memory it may use.
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n, n * 2 AS twice FROM generate_series(1, 1000000) AS g(n)")
        rows, total, batches = 0, 0, 0
        for batch in cursor.fetch_record_batch():
            rows, batches = rows + batch.num_rows, batches + 1
            total += pyarrow.compute.sum(batch.column(1)).as_py()
        same((rows, total), (1_000_000, 1_000_001_000_000))
        assert batches > 10, batches


def types_of_columns_tables():
    execute(
        "CREATE TABLE every_type (time timestamptz NOT NULL, k text, b boolean, i2 smallint, i4 integer, i8 bigint, "
        "u8 numeric(20), f4 real, f8 double precision, t text, y bytea, z timestamptz) "
        "WITH (store = 'columns', key = 'k')"
    )
    data = pyarrow.table(
        {
            "time": moments([at(0, 1), at(1, 999_999_999)]),
            "k": pyarrow.array(["a", "b"]),
            "b": pyarrow.array([True, None]),
            "i2": pyarrow.array([-32768, None], pyarrow.int16()),
            "i4": pyarrow.array([2**31 - 1, None], pyarrow.int32()),
            "i8": pyarrow.array([-(2**63), None], pyarrow.int64()),
            "u8": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
            "f4": pyarrow.array([0.5, None], pyarrow.float32()),
            "f8": pyarrow.array([0.1, None], pyarrow.float64()),
            "t": pyarrow.array(["é\n", None]),
            "y": pyarrow.array([b"\x00\xff", None], pyarrow.binary()),
            "z": moments([at(2, 7), None]),
        }
    )
    same(ingest("every_type", data, "append"), 2)
    back = table_of("SELECT * FROM every_type ORDER BY time")
    same(back.schema.names, data.schema.names)
    same(back.schema.types, data.schema.types)
    assert back.equals(data), (back, data)
    # Nanosecond timestamps, also over the PostgreSQL protocol, which has microseconds only.
    with psycopg.connect(POSTGRES) as connection:
        seen = connection.execute("SELECT epoch_ns(time) FROM every_type ORDER BY 1").fetchall()
        same(seen, [(at(0, 1),), (at(1, 999_999_999),)])


def types_of_rows_tables():
    execute(
        "CREATE TABLE every_row (id bigint PRIMARY KEY, b boolean, i2 smallint, i4 integer, f4 real, f8 float8, "
        "n numeric(12, 3), free numeric, t text, v varchar(5), y bytea, d date, h time, w timestamp, z timestamptz, "
        "i interval, j json, u uuid)"
    )
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    data = pyarrow.table(
        {
            "id": pyarrow.array([1, 2], pyarrow.int32()),
            "b": pyarrow.array([True, None]),
            "i2": pyarrow.array([7, None], pyarrow.int64()),
            "i4": pyarrow.array([8, None], pyarrow.int8()),
            "f4": pyarrow.array([0.5, None], pyarrow.float32()),
            "f8": pyarrow.array([0.1, None], pyarrow.float64()),
            "n": pyarrow.array([decimal.Decimal("1.250"), None], pyarrow.decimal128(12, 3)),
            "free": pyarrow.array([decimal.Decimal("3.10"), None], pyarrow.decimal128(20, 2)),
            "t": pyarrow.array(["text", None]),
            "v": pyarrow.array(["short", None]).dictionary_encode(),
            "y": pyarrow.array([b"\x01", None], pyarrow.large_binary()),
            "d": pyarrow.array([datetime.date(2026, 2, 28), None], pyarrow.date32()),
            "h": pyarrow.array([datetime.time(12, 30, 1), None], pyarrow.time32("s")),
            "w": pyarrow.array([datetime.datetime(2026, 1, 2, 3, 4, 5), None], pyarrow.timestamp("us")),
            "z": pyarrow.array([datetime.datetime(2026, 1, 2, tzinfo=UTC), None], pyarrow.timestamp("s", "UTC")),
            "i": pyarrow.array([datetime.timedelta(hours=5), None], pyarrow.duration("us")),
            "j": pyarrow.array(['{"a": 1}', None], pyarrow.large_string()),
            "u": pyarrow.array([uuid, None]),
        }
    )
    same(ingest("every_row", data, "append"), 2)
    back = table_of("SELECT * FROM every_row ORDER BY id").to_pylist()
    expected = data.to_pylist()[0] | {"free": "3.10", "i": pyarrow.MonthDayNano([0, 0, 5 * 3600 * 10**9])}
    same(back[0], expected)
    same(set(list(back[1].values())[1:]), {None})
    # The same as over the other protocols.
    with psycopg.connect(POSTGRES) as connection:
        sql = "SELECT n, free, h, w, i, u::text, v FROM every_row WHERE id = 1"
        seen = connection.execute(sql).fetchone()
        expected = (decimal.Decimal("1.250"), decimal.Decimal("3.10"), datetime.time(12, 30, 1))
        expected += (datetime.datetime(2026, 1, 2, 3, 4, 5), datetime.timedelta(hours=5), uuid, "short")
        same(seen, expected)


def ingest_into_columns_tables():
    same(ingest("made", readings(range(10), "a", 1.0), "create"), 10)
    # The category column is the key, and the column named as time is the time: equal key and time replace a row.
    same(ingest("made", readings(range(5, 15), "a", 2.0), "append"), 10)
    same(rows_of("SELECT count(*), sum(value) FROM made"), [(15, 25.0)])
    same(ingest("made", readings(range(3), "b", 3.0), "create_append"), 3)
    same(rows_of("SELECT device, count(*) FROM made GROUP BY device ORDER BY device"), [("a", 15), ("b", 3)])
    # Columns are matched by name, in any order; missing ones are NULL.
    some = pyarrow.table({"device": ["c"], "time": moments([at(0)])})
    same(ingest("made", some, "append"), 1)
    same(rows_of("SELECT value FROM made WHERE device = 'c'"), [(None,)])
    same(ingest("made", readings(range(2), "z", 9.0), "replace"), 2)
    same(rows_of("SELECT count(*), max(device) FROM made"), [(2, "z")])
    same(ingest("only_made", readings(range(2), "z", 9.0), "create_append"), 2)
    # Schema metadata selects other table options.
    stated = pyarrow.table(
        {"at": moments([at(0), at(0)], None), "site": ["x", "y"], "note": ["one", "two"], "other": moments([at(1)] * 2)}
    ).replace_schema_metadata({"millrace.time": "at", "millrace.key": "site"})
    same(ingest("stated", stated, "create"), 2)
    same(ingest("stated", stated, "append"), 2)
    same(rows_of("SELECT site, note FROM stated ORDER BY site"), [("x", "one"), ("y", "two")])
    # Keys from a dictionary: NULL as a code and as a text, a text twice, one that is not used, and a dictionary without texts.
    execute("CREATE TABLE coded (time timestamptz NOT NULL, k text, v bigint) WITH (store = 'columns', key = 'k')")
    texts = pyarrow.array(["b", "a", None, "b", "unused"], pyarrow.large_string())
    codes = pyarrow.array([1, None, 2, 0, 3, 1], pyarrow.int8())
    keys = pyarrow.DictionaryArray.from_arrays(codes, texts)
    coded = pyarrow.table({"time": moments([at(n) for n in range(6)]), "k": keys, "v": range(6)})
    same(ingest("coded", coded, "append"), 6)
    nothing = pyarrow.DictionaryArray.from_arrays(pyarrow.array([None], pyarrow.int32()), pyarrow.array([], pyarrow.string()))
    same(ingest("coded", pyarrow.table({"time": moments([at(9)]), "k": nothing, "v": [9]}), "append"), 1)
    seen = rows_of("SELECT k, count(*), min(v), max(v) FROM coded GROUP BY k ORDER BY k")
    same(seen, [("a", 2, 0, 5), ("b", 2, 3, 4), (None, 3, 1, 9)])
    execute("CREATE TABLE strict (time timestamptz NOT NULL, k text NOT NULL, v bigint) WITH (store = 'columns', key = 'k')")
    for row in (1, 2):
        refused(lambda: ingest("strict", coded.slice(row, 1), "append"), "23502", "\"k\"")
    same(ingest("strict", coded.slice(3), "append"), 3)
    same(rows_of("SELECT k, count(*) FROM strict GROUP BY k ORDER BY k"), [("a", 1), ("b", 2)])
    # Many rows and many batches are one commit.
    rows = 200_000
    big = pyarrow.table(
        {
            "time": moments([at(n) for n in range(rows)]),
            "device": pyarrow.array([f"d{n % 100}" for n in range(rows)]).dictionary_encode(),
            "value": pyarrow.array(range(rows), pyarrow.int64()),
        }
    )
    reader = pyarrow.RecordBatchReader.from_batches(big.schema, big.to_batches(max_chunksize=10_000))
    same(ingest("big", reader, "create"), rows)
    same(rows_of("SELECT count(*), sum(value), count(DISTINCT device) AS devices FROM big"), [(rows, sum(range(rows)), 100)])


def ingest_into_rows_tables():
    orders = pyarrow.table(
        {
            "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
            "price": pyarrow.array([decimal.Decimal("9.99"), decimal.Decimal("0.01"), None], pyarrow.decimal128(10, 2)),
            "who": ["x", "y", None],
        }
    ).replace_schema_metadata({"millrace.key": "id"})
    same(ingest("orders", orders, "create"), 3)
    same(rows_of("SELECT id, price FROM orders WHERE id < 3 ORDER BY id"), [(1, decimal.Decimal("9.99")), (2, decimal.Decimal("0.01"))])
    refused(lambda: ingest("orders", orders, "append"), "23505", "row 1")
    same(rows_of("SELECT count(*) FROM orders"), [(3,)])
    same(ingest("orders", orders.slice(0, 2), "replace"), 2)
    execute("CREATE TABLE lines (id serial PRIMARY KEY, o bigint REFERENCES orders, kind text DEFAULT 'new')")
    same(ingest("lines", pyarrow.table({"o": [1, 2, 1]}), "append"), 3)
    same(rows_of("SELECT id, o, kind FROM lines ORDER BY id"), [(1, 1, "new"), (2, 2, "new"), (3, 1, "new")])
    refused(lambda: ingest("lines", pyarrow.table({"o": [1, 77]}), "append"), "23503")
    many = pyarrow.table({"id": pyarrow.array(range(10, 20_010), pyarrow.int64()), "who": ["n"] * 20_000})
    same(ingest("orders", many, "append"), 20_000)
    same(rows_of("SELECT count(*), max(id) FROM orders"), [(20_002, 20_009)])


def errors():
    before = rows_of("SELECT count(*) FROM made")
    refused(lambda: table_of("SELECT x FROM nowhere"), "nowhere", "42P01")
    refused(lambda: table_of("SELECT 1 FROM"), "42601")
    refused(lambda: table_of("SELECT 1; SELECT 2"), "42601", "several statements")
    refused(lambda: table_of("SELECT 1 / $1", [0]), "22012")
    refused(lambda: execute("BEGIN"), "0A000", "autocommit")
    refused(lambda: ingest("nowhere", readings([1], "a", 1.0), "append"), "42P01", "nowhere")
    refused(lambda: ingest("made", readings([1], "a", 1.0), "create"), "42P07", "already exists")
    text = pyarrow.table({"time": moments([at(0)]), "device": ["a"], "value": ["1.5"]})
    refused(lambda: ingest("made", text, "append"), "42804", '"value"', "double precision", "Utf8")
    refused(lambda: ingest("made", readings([1], "a", 1.0, speed=pyarrow.array([1])), "append"), "42703", "speed")
    nulls = pyarrow.table({"time": moments([at(0), None]), "device": ["a", "a"]})
    refused(lambda: ingest("made", nulls, "append"), "23502", "time")
    far = pyarrow.table({"time": pyarrow.array([2**60], pyarrow.timestamp("s")), "device": ["a"]})
    refused(lambda: ingest("made", far, "append"), "22008", '"time"')
    decimals = pyarrow.table({"time": moments([at(0)]), "d": pyarrow.array([decimal.Decimal("1.5")])})
    refused(lambda: ingest("decimals", decimals, "create"), "0A000", '"d"', "rows")
    # A bad batch after good ones: none of them is stored.
    execute("CREATE TABLE few (time timestamptz NOT NULL, n smallint) WITH (store = 'columns')")
    schema = pyarrow.schema([("time", pyarrow.timestamp("ns", "UTC")), ("n", pyarrow.int64())])
    batches = [pyarrow.record_batch([moments([at(n)]), pyarrow.array([n])], schema=schema) for n in (1, 2, 70_000)]
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches)
    refused(lambda: ingest("few", reader, "append"), "22003", '"n"', "70000")
    same(rows_of("SELECT count(*) FROM few"), [(0,)])
    same(rows_of("SELECT count(*) FROM made"), before)
    refused(lambda: table_of("SELECT count(*) FROM decimals"), "42P01")


def cursors_and_transactions():
    with connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE accounts (id bigint PRIMARY KEY, owner text, balance numeric(12, 2))")
            connection.commit()
            cursor.executemany(
                "INSERT INTO accounts VALUES ($1, $2, $3)",
                [(1, "x", decimal.Decimal("10.00")), (2, "y", decimal.Decimal("20.50")), (3, None, None)],
            )
            same(cursor.rowcount, 3)
            cursor.execute("SELECT id, owner, balance FROM accounts ORDER BY id")
            same([column[0] for column in cursor.description], ["id", "owner", "balance"])
            same(cursor.fetchone(), (1, "x", decimal.Decimal("10.00")))
            same(cursor.fetchmany(1), [(2, "y", decimal.Decimal("20.50"))])
            same(cursor.fetchall(), [(3, None, None)])
            # Other sessions see it only after the commit, and not after a rollback.
            same(rows_of("SELECT count(*) FROM accounts"), [(0,)])
            connection.commit()
            same(rows_of("SELECT count(*) FROM accounts"), [(3,)])
            cursor.execute("UPDATE accounts SET balance = balance + 1 WHERE id < 3")
            same(cursor.rowcount, 2)
            connection.rollback()
            same(rows_of("SELECT balance FROM accounts WHERE id = 1"), [(decimal.Decimal("10.00"),)])
            # A failed statement aborts its transaction.
            refused(lambda: cursor.execute("INSERT INTO accounts VALUES (1, 'z', 0)"), "23505")
            refused(lambda: cursor.execute("INSERT INTO accounts VALUES (4, 'z', 0)"), "25P02")
            connection.rollback()
            with connection.cursor() as other:
                other.execute("INSERT INTO accounts VALUES (9, 'r', 1) RETURNING id, owner")
                same(other.fetchall(), [(9, "r")])
            connection.commit()
    same(rows_of("SELECT owner FROM accounts WHERE id = 9"), [("r",)])
    # A prepared statement is planned once and executed with several values.
    with connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.adbc_prepare("SELECT owner FROM accounts WHERE id = $1")
        for number, owner in [(1, "x"), (2, "y"), (9, "r")]:
            cursor.execute("SELECT owner FROM accounts WHERE id = $1", [number])
            same(cursor.fetchall(), [(owner,)])
        refused(lambda: cursor.execute("SELECT owner FROM accounts WHERE id = $1", ["x"]), "22P02", "$1")
    # A lost connection rolls back its transaction and releases its locks.
    lost = connect()
    lost.cursor().execute("UPDATE accounts SET owner = 'lost' WHERE id = 1")
    lost.close()
    same(execute("UPDATE accounts SET owner = 'kept' WHERE id = 1"), 1)


def what_the_catalog_has():
    with connect(autocommit=True) as connection:
        schema = connection.adbc_get_table_schema("every_type")
        same(schema.field("time").type, pyarrow.timestamp("ns", "UTC"))
        same(schema.field("u8").type, pyarrow.uint64())
        same([type.lower() for type in connection.adbc_get_table_types()], ["table", "view"])
        same(connection.adbc_get_info()["vendor_name"], "Millrace")
        objects = connection.adbc_get_objects(depth="all", db_schema_filter="public").read_all().to_pylist()
        same([catalog["catalog_name"] for catalog in objects], ["millrace"])
        (public,) = objects[0]["catalog_db_schemas"]
        tables = {table["table_name"]: table for table in public["db_schema_tables"]}
        assert {"every_type", "made", "orders"} <= set(tables), tables.keys()
        same([column["column_name"] for column in tables["few"]["table_columns"]], ["time", "n"])
        some = connection.adbc_get_objects(depth="tables", table_name_filter="every%").read_all().to_pylist()
        names = {t["table_name"] for s in some[0]["catalog_db_schemas"] for t in s["db_schema_tables"] or []}
        same(names, {"every_type", "every_row"})
        cursor = connection.cursor()
        same(cursor.adbc_execute_schema("SELECT 1::int AS a, 'x' AS b").names, ["a", "b"])
        cursor.close()


def varint(number):
    if number < 128:
        return bytes([number])
    return bytes([number & 127 | 128]) + varint(number >> 7)


def field(number, value):
    """A field of a protocol buffer: a number, bytes or text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(name, body):
    return field(1, "type.googleapis.com/arrow.flight.protocol.sql." + name) + field(2, body)


def beneath_the_driver():
    client = pyarrow.flight.connect(FLIGHT)
    query = pyarrow.flight.FlightDescriptor.for_command(command("CommandStatementQuery", field(1, "SELECT 42 AS n")))
    info = client.get_flight_info(query)
    same(info.schema.names, ["n"])
    same(client.get_schema(query).schema.names, ["n"])
    ticket = info.endpoints[0].ticket
    same(client.do_get(ticket).read_all().to_pylist(), [{"n": 42}])
    refused(lambda: client.do_get(ticket).read_all(), "34000", "ticket")
    unknown = pyarrow.flight.Ticket(command("CommandPreparedStatementQuery", field(1, b"0123456789abcdef")))
    refused(lambda: client.do_get(unknown).read_all(), "26000", "prepared statement")
    for bad in [b"", b"\xff\xff", command("CommandStatementQuery", b"\x0a\xff"), command("Nonsense", b"")]:
        refused(lambda: client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(bad)))
        refused(lambda: client.do_get(pyarrow.flight.Ticket(bad)).read_all())
    # Changes are complete when the call returns, whether or not the rows are fetched.
    made = command("CommandStatementQuery", field(1, "CREATE TABLE by_flight (id int PRIMARY KEY)"))
    same(client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(made)).endpoints, [])
    same(rows_of("SELECT count(*) FROM by_flight"), [(0,)])
    # Options of an ingest that drivers do not expose.
    data = pyarrow.table({"time": moments([at(0)]), "name": ["n"]})
    create = field(1, field(1, 1) + field(2, 1)) + field(2, "by_options")
    for pair in [("store", "columns"), ("key", "name")]:
        create += field(1000, field(1, pair[0]) + field(2, pair[1]))
    descriptor = pyarrow.flight.FlightDescriptor.for_command(command("CommandStatementIngest", create))
    writer, reader = client.do_put(descriptor, data.schema)
    writer.write_table(data)
    writer.done_writing()
    same(reader.read().to_pybytes(), field(1, 1))
    writer.close()
    same(rows_of("SELECT name FROM by_options"), [("n",)])
    client.close()


def clients_that_are_no_more():
    """A process that exits in the middle of an ingest stores nothing."""
    append = command("CommandStatementIngest", field(1, field(1, 2) + field(2, 2)) + field(2, "by_options"))
    program = f"""
import os, pyarrow, pyarrow.flight
client = pyarrow.flight.connect({FLIGHT!r})
data = pyarrow.table({{"time": pyarrow.array([{at(9)}], pyarrow.timestamp("ns", "UTC")), "name": ["broken off"]}})
writer, reader = client.do_put(pyarrow.flight.FlightDescriptor.for_command({append!r}), data.schema)
for _ in range(100):
    writer.write_table(data)
os._exit(7)
"""
    same(subprocess.run([sys.executable, "-c", program], check=False).returncode, 7)
    same(rows_of("SELECT name FROM by_options"), [("n",)])
    time.sleep(0.2)
    same(rows_of("SELECT name FROM by_options"), [("n",)])


def running(part):
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()"
        return connection.execute(sql, [f"%{part}%"]).fetchone()[0]


def soon(what, condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def dropped_streams():
    sql = "SELECT a.n + b.n AS endless FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(n)"
    client = pyarrow.flight.connect(FLIGHT)
    query = pyarrow.flight.FlightDescriptor.for_command(command("CommandStatementQuery", field(1, sql)))
    reader = client.do_get(client.get_flight_info(query).endpoints[0].ticket)
    assert reader.read_chunk().data.num_rows > 0
    soon("it runs", lambda: running("endless") == 1)
    reader.cancel()
    soon("a cancelled stream ends its statement", lambda: running("endless") == 0)
    # The same for a client that has gone, and a statement that has not returned a row.
    connection = connect(autocommit=True)
    cursor = connection.cursor()
    cursor.execute("SELECT count(*) AS endless FROM generate_series(1, 100000) AS a(n), generate_series(1, 1000000) AS b(n) WHERE a.n * b.n % 7 = 9")
    soon("it runs", lambda: running("endless") == 1)
    cursor.adbc_cancel()
    cursor.close()
    connection.close()
    soon("a cancelled query ends", lambda: running("endless") == 0)
    client.close()


for test in [
    queries,
    types_of_columns_tables,
    types_of_rows_tables,
    ingest_into_columns_tables,
    ingest_into_rows_tables,
    errors,
    cursors_and_transactions,
    what_the_catalog_has,
    beneath_the_driver,
    clients_that_are_no_more,
    dropped_streams,
]:
    started = time.monotonic()
    test()
    print(f"{test.__name__}: {time.monotonic() - started:.2f} s", flush=True)
print("flight: all passed")
