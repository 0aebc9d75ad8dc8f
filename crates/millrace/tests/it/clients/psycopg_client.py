"""psycopg 3 against a server: python psycopg_client.py postgres://user@host:port/database"""

import datetime as dt
import sys

import psycopg
from psycopg import errors, rows
from psycopg.types.composite import CompositeInfo, register_composite

UTC = dt.timezone.utc
url = sys.argv[1]


def check(seen, expected, what):
    if seen != expected:
        sys.exit(f"{what}: {seen!r}, expected {expected!r}")


with psycopg.connect(url) as connection:
    # psycopg opens a transaction by itself: DDL and rows commit together.
    connection.execute(
        "CREATE TABLE py (time timestamptz NOT NULL, device text, n int, v float8, ok bool, raw bytea)"
        " WITH (store = 'columns', key = 'device')"
    )
    times = [dt.datetime(2026, 1, 1, 0, 0, second, 123456, UTC) for second in range(5)]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO py (time, device, n, v, ok, raw) VALUES (%s, %s, %s, %s, %s, %s)",
            [(time, "é", n, n / 4, n % 2 == 0, bytes([n, 0, 255])) for n, time in enumerate(times)],
        )
        check(cursor.rowcount, 5, "rows inserted")

with psycopg.connect(url, autocommit=True) as connection:
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        cursor.execute("SELECT time, device, n, v, ok, raw FROM py WHERE n >= %s ORDER BY time", (3,))
        check([column.name for column in cursor.description], ["time", "device", "n", "v", "ok", "raw"], "names")
        expected = [
            (times[3], "é", 3, 0.75, False, b"\x03\x00\xff"),
            (times[4], "é", 4, 1.0, True, b"\x04\x00\xff"),
        ]
        check(cursor.fetchall(), expected, f"rows, binary={binary}")

    # Run often enough for psycopg to prepare it.
    for n in range(8):
        row = connection.execute("SELECT %s::int + 1 AS n", (n,)).fetchone()
        check(row, (n + 1,), "prepared")

    row = connection.cursor(row_factory=rows.dict_row).execute("SELECT max(v) AS v, count(*) AS n FROM py").fetchone()
    check(row, {"v": 1.0, "n": 5}, "dict row")
    check(connection.execute("SELECT NULL::float8, ''::text").fetchone(), (None, ""), "NULL is not the empty text")

    try:
        connection.execute("SELECT * FROM nowhere")
        sys.exit("a table that does not exist was read")
    except errors.UndefinedTable as error:
        check(error.diag.statement_position, "15", "position")

    with connection.cursor().copy("COPY py (time, device, n) FROM STDIN") as copy:
        for n in range(1000):
            copy.write_row((times[0] + dt.timedelta(minutes=n + 1), "copied\t\\x", n))
    check(connection.execute("SELECT count(*), sum(n) FROM py WHERE device = %s", ("copied\t\\x",)).fetchone(),
          (1000, 499500), "copied")
    with connection.cursor().copy("COPY (SELECT n, device FROM py WHERE device = 'é' ORDER BY n) TO STDOUT") as copy:
        copy.set_types(["int4", "text"])
        check(list(copy.rows()), [(n, "é") for n in range(5)], "copied out")

    # A failed transaction changes nothing, and refuses statements until it ends.
    try:
        with connection.transaction():
            connection.execute("INSERT INTO py (time, device) VALUES (now(), 'gone')")
            connection.execute("SELECT 1 / 0")
        sys.exit("a division by zero passed")
    except errors.DivisionByZero:
        pass
    check(connection.execute("SELECT count(*) FROM py WHERE device = 'gone'").fetchone(), (0,), "rolled back")

    # Server-side cursors.
    for binary in (False, True):
        with connection.transaction(), connection.cursor("among", binary=binary) as cursor:
            cursor.itersize = 7
            cursor.execute("SELECT n, device, v FROM py WHERE device = %s AND n < %s ORDER BY n", ("copied\t\\x", 30))
            check([column.name for column in cursor.description], ["n", "device", "v"], "names of a cursor")
            check(cursor.fetchone(), (0, "copied\t\\x", None), f"one, binary={binary}")
            check([row[0] for row in cursor], list(range(1, 30)), f"rows of a cursor, binary={binary}")
    # Many rows, up to and beyond the end; a prepared FETCH over cursors with different columns.
    connection.execute("CREATE TABLE IF NOT EXISTS many (id int PRIMARY KEY, note text)")
    connection.execute("INSERT INTO many SELECT n, 'note ' || n FROM generate_series(1, 60000) AS g(n)")
    for columns in ("id", "note, id", "id, id + 1") * 3:
        with connection.transaction(), connection.cursor("again") as cursor:
            cursor.execute(f"SELECT {columns} FROM many")
            seen = 0
            while rows_now := cursor.fetchmany(7000):
                check(len(rows_now[0]), columns.count(",") + 1, "columns of a cursor declared again")
                seen += len(rows_now)
            check((seen, cursor.fetchall()), (60000, []), "all rows, and then none")
    with connection.transaction():
        connection.execute("DECLARE counted CURSOR FOR SELECT max(id) FROM many GROUP BY id % 20000")
        check([connection.execute("MOVE ALL counted").statusmessage for _ in range(3)], ["MOVE 20000", "MOVE 0", "MOVE 0"], "moved")
    # A cursor cancelled in the middle reports it and returns no further rows.
    connection.execute("BEGIN")
    connection.execute("DECLARE stopped CURSOR FOR SELECT a.id FROM many a, many b WHERE a.id + b.id > 0")
    connection.execute("FETCH 3 FROM stopped").fetchall()
    connection.execute("SAVEPOINT s")
    connection.execute("SET LOCAL statement_timeout = 300")
    try:
        connection.execute("MOVE ALL stopped")
        sys.exit("3,600,000,000 rows in 300 ms")
    except errors.QueryCanceled:
        pass
    connection.execute("ROLLBACK TO s")
    try:
        connection.execute("FETCH 1 FROM stopped")
        sys.exit("a cursor went on after it was stopped")
    except errors.ObjectNotInPrerequisiteState as error:
        check('portal "stopped" cannot be run' in str(error), True, "stopped")
    connection.execute("ROLLBACK")
    connection.execute("DROP TABLE many")
    with connection.transaction(), connection.cursor(name="there and back", scrollable=True) as cursor:
        cursor.execute("SELECT n FROM py WHERE device = 'é' ORDER BY n")
        check(cursor.fetchall(), [(n,) for n in range(5)], "forward")
        cursor.scroll(1, mode="absolute")
        check(cursor.fetchmany(2), [(1,), (2,)], "back, and forward")
    connection.autocommit = True
    with connection.cursor("held", withhold=True) as cursor:
        cursor.execute("SELECT n FROM py WHERE device = 'é' ORDER BY n")
        connection.execute("SELECT 1")
        check(cursor.fetchmany(3), [(0,), (1,), (2,)], "held")
    connection.autocommit = False

    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int8", (n,)) for n in range(20)]
    check([cursor.fetchone()[0] for cursor in cursors], list(range(20)), "pipeline")

# Notifications arrive when their transaction commits, and composite values become tuples.
with psycopg.connect(url, autocommit=True) as listener, psycopg.connect(url) as sender:
    listener.execute("LISTEN py")
    sender.execute("SELECT pg_notify('py', n::text) FROM generate_series(1, 3) AS g(n)")
    check(list(listener.notifies(timeout=0.2)), [], "before the commit")
    sender.commit()
    got = [(one.channel, one.payload, one.pid) for one in listener.notifies(timeout=20, stop_after=3)]
    check(got, [("py", str(n), sender.info.backend_pid) for n in (1, 2, 3)], "notifications")
    listener.execute("UNLISTEN *")
    listener.execute("CREATE TYPE py_place AS (street text, number int)")
    place = CompositeInfo.fetch(listener, "py_place")
    check(tuple(place.field_names), ("street", "number"), "attributes")
    register_composite(place, listener)
    listener.execute("CREATE TABLE py_homes (id int PRIMARY KEY, home py_place)")
    home = place.python_type("Elm \"St\"", 3)
    for binary in (False, True):
        placeholder = "%b" if binary else "%t"
        listener.execute(f"INSERT INTO py_homes VALUES ({int(binary)}, {placeholder})", (home,))
        cursor = listener.cursor(binary=binary)
        check(cursor.execute("SELECT home FROM py_homes WHERE id = %s", (int(binary),)).fetchone()[0], home, "a row")

print("psycopg: all passed")
