"""Parquet and Arrow between a server, DuckDB and pyarrow: python files_client.py postgres://user@host:port/database DIR

DIR is the folder that the server was started with (--files)."""

import datetime as dt
import decimal
import math
import os
import sys

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

url, folder = sys.argv[1:]
UTC = dt.timezone.utc
duck = duckdb.connect()
duck.execute("SET TimeZone = 'UTC'")


def check(seen, expected, what):
    if seen != expected:
        sys.exit(f"{what}: {seen!r}, expected {expected!r}")


def path(name):
    return os.path.join(folder, name)


def plain(value):
    """The common form of a value that the two drivers return differently."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else round(value, 9)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, memoryview):
        return bytes(value)
    return value


def rows(result):
    return [tuple(plain(value) for value in row) for row in result.fetchall()]


with psycopg.connect(url, autocommit=True) as us:
    us.execute("SET TimeZone = 'UTC'")

    # Files written by the server are read by others: all types, extreme values, NULLs, nanoseconds.
    us.execute(
        "CREATE TABLE wide (time timestamptz NOT NULL, k text, b boolean, i2 smallint, i4 integer, i8 bigint,"
        " u numeric(20), f4 real, f8 double precision, t text, y bytea) WITH (store = 'columns', key = 'k')"
    )
    us.execute(
        "INSERT INTO wide VALUES"
        " ('2024-01-01 00:00:00.123456789+00', 'a', true, -32768, -2147483648, -9223372036854775808,"
        "  18446744073709551615, -1.5, 1e300, 'é', '\\x00ff'),"
        " ('2024-01-02 00:00:00+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
        " ('2024-01-03 00:00:00+00', 'c', false, 32767, 2147483647, 9223372036854775807, 0, 1.5, 'NaN', '', '\\x')"
    )
    first = [1704067200123456789, "a", True, -(2**15), -(2**31), -(2**63), 2**64 - 1, -1.5, 1e300, "é", b"\0\xff"]
    for options in ["", "(COMPRESSION snappy)", "(COMPRESSION gzip)", "(COMPRESSION lz4)", "(COMPRESSION none)"]:
        us.execute(f"COPY (SELECT * FROM wide ORDER BY time) TO 'wide.parquet' {options}")
        table = pa.parquet.read_table(path("wide.parquet"))
        check(table.schema.field("time").type, pa.timestamp("ns", tz="UTC"), "type of time")
        check(table.schema.field("u").type, pa.uint64(), "type of u")
        check(table["time"].cast(pa.int64())[0].as_py(), first[0], "nanoseconds")
        check([column[0].as_py() for column in table.columns[1:]], first[1:], f"first row by pyarrow {options}")
        check([column[1].as_py() for column in table.columns[1:]], [None] * 10, "NULLs by pyarrow")
        seen = duck.execute(
            f"SELECT epoch_ns(time), k, b, i2, i4, i8, u, f4, f8, t, y FROM '{path('wide.parquet')}' LIMIT 1"
        ).fetchall()
        check(list(seen[0]), first, f"first row by DuckDB {options}")
    us.execute("COPY (SELECT * FROM wide ORDER BY time) TO 'wide.arrow'")
    us.execute("COPY (SELECT * FROM wide ORDER BY time) TO 'wide.arrows' (COMPRESSION lz4)")
    for read in [
        pa.ipc.open_file(path("wide.arrow")).read_all(),
        pa.ipc.open_stream(path("wide.arrows")).read_all(),
    ]:
        check([column[0].as_py() for column in read.columns[1:]], first[1:], "first row of Arrow")
        check(read["time"].cast(pa.int64())[0].as_py(), first[0], "nanoseconds of Arrow")

    # Files written by others are read by the server: DuckDB's types and codecs, in row groups of 2,048 rows.
    made = (
        "SELECT (CASE WHEN n % 11 = 0 THEN NULL ELSE 'k' || n % 7 END) AS k,"
        " TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL 1 SECOND * n AS tz,"
        " TIMESTAMP '2024-01-01 00:00:00' + INTERVAL 1 MILLISECOND * n AS ts,"
        " DATE '2024-01-01' + CAST(n % 400 AS INTEGER) AS d,"
        " TIME '00:00:00' + INTERVAL 1 SECOND * (n % 86400) AS tm,"
        " CAST(n % 200 - 100 AS TINYINT) AS i1, CAST(n % 256 AS UTINYINT) AS u1, CAST(n AS USMALLINT) AS u2,"
        " CAST(n * 100000 AS UINTEGER) AS u4, CAST(CAST(n AS UBIGINT) * 900000000000000 AS UBIGINT) AS u8,"
        " CAST(n AS INTEGER) - 5000 AS i4, CAST(n AS BIGINT) * -1000000000 AS i8,"
        " CAST(n AS DECIMAL(9, 2)) / 4 AS dec, CAST(n * 0.25 AS DECIMAL(18, 4)) AS dec18,"
        " CAST(n AS FLOAT) / 8 AS f4, CASE WHEN n = 777 THEN 'NaN'::DOUBLE ELSE n / 16.0 END AS f8,"
        " n % 2 = 0 AS b, CAST('x' || n AS BLOB) AS y"
        " FROM range(10000) AS s(n)"
    )
    duck.execute(f"CREATE TABLE made AS {made}")
    questions = [
        "SELECT count(*), count(k), min(tz), max(ts), min(d), max(tm) FROM made",
        "SELECT sum(i1), sum(u1), sum(u2), sum(u4), sum(i4), sum(i8), max(u8) FROM made",
        "SELECT k, count(*), sum(i4), min(f4), max(dec18) FROM made GROUP BY k ORDER BY k NULLS LAST",
        "SELECT count(*), sum(i4) FROM made WHERE tz >= TIMESTAMPTZ '2024-01-01 01:00:00+00' AND k = 'k3'",
        "SELECT * FROM made WHERE i4 BETWEEN 10 AND 14 ORDER BY i4",
        "SELECT count(*) FROM made WHERE f8 > 600",
        "SELECT count(*) FROM made WHERE u8 > 8000000000000000000",
        "SELECT count(*) FROM made WHERE k IS NULL OR NOT b",
        "SELECT count(*) FROM made WHERE d = DATE '2024-02-29'",
        "SELECT i4, f8 FROM made ORDER BY f8 DESC, i4 LIMIT 3",
        "SELECT count(*), sum(i4) FROM made WHERE dec < 10.5",
        "SELECT a.k, count(*) FROM made a JOIN made b ON a.i4 = b.i4 + 1 WHERE b.i1 = 5 GROUP BY a.k ORDER BY 1 NULLS LAST",
    ]
    for codec in ["snappy", "zstd", "gzip", "lz4_raw", "uncompressed"]:
        for version in ["V1", "V2"]:
            duck.execute(
                f"COPY made TO '{path('made.parquet')}'"
                f" (FORMAT parquet, COMPRESSION {codec}, ROW_GROUP_SIZE 2048, PARQUET_VERSION {version})"
            )
            # Both query the same file.
            for question in questions if codec == "snappy" else questions[:2]:
                ours = rows(us.execute(question.replace("made", "read_parquet('made.parquet')", 1)
                                       if "JOIN" not in question
                                       else question.replace("made", "read_parquet('made.parquet')")))
                check(ours, rows(duck.execute(question)), f"{codec} {version}: {question}")
    plan = "\n".join(row[0] for row in us.execute(
        "EXPLAIN SELECT k FROM read_parquet('made.parquet') WHERE i4 > 4990").fetchall())
    check("row groups=5 pruned=4" in plan, True, plan)

    # Loads into tables of both stores.
    us.execute(
        "CREATE TABLE series (tz timestamptz NOT NULL, k text, i4 int, f8 float8, u8 numeric(20), b boolean, y bytea)"
        " WITH (store = 'columns', key = 'k', time = 'tz')"
    )
    us.execute("CREATE TABLE plain (i4 int PRIMARY KEY, k text, d date, tm time, ts timestamp, dec18 numeric(18, 4), f4 real)")
    for table, columns in [("series", "tz, k, i4, f8, u8, b, y"), ("plain", "i4, k, d, tm, ts, dec18, f4")]:
        tag = us.execute(f"COPY {table} ({columns}) FROM 'made.parquet'").statusmessage
        check(tag, "COPY 10000", table)
        check(
            rows(us.execute(f"SELECT {columns} FROM {table} ORDER BY i4")),
            rows(duck.execute(f"SELECT {columns} FROM made ORDER BY i4")),
            f"rows of {table}",
        )

    # Over the client's connection, with pyarrow's types: dictionaries, large texts, lists of them, old timestamps.
    table = pa.table({
        "time": pa.array([1, 2, 3], pa.timestamp("us", tz="Europe/Berlin")),
        "k": pa.array(["a", "b", "a"]).dictionary_encode(),
        "v": pa.array([1.5, None, 2.5], pa.float32()),
        "t": pa.array(["x", "y", None], pa.large_string()),
    })
    us.execute("CREATE TABLE sent (time timestamptz NOT NULL, k text, v float8, t text) WITH (store = 'columns', key = 'k')")

    def as_parquet(sink):
        pa.parquet.write_table(table, sink, use_deprecated_int96_timestamps=False)

    def as_file(sink):
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    def as_stream(sink):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)

    for form, write in [("parquet", as_parquet), ("arrow", as_file), ("arrow_stream", as_stream)]:
        us.execute("DELETE FROM sent")
        sink = pa.BufferOutputStream()
        write(sink)
        with us.cursor().copy(f"COPY sent FROM STDIN (FORMAT {form})") as copy:
            copy.write(sink.getvalue().to_pybytes())
        seen = us.execute("SELECT epoch_ns(time), k, v, t FROM sent ORDER BY time").fetchall()
        check(seen, [(1000, "a", 1.5, "x"), (2000, "b", None, "y"), (3000, "a", 2.5, None)], form)
        got = b""
        with us.cursor().copy(f"COPY (SELECT k, v FROM sent ORDER BY time) TO STDOUT (FORMAT {form})") as copy:
            for piece in copy:
                got += bytes(piece)
        source = pa.BufferReader(got)
        back = {
            "parquet": pa.parquet.read_table,
            "arrow": lambda source: pa.ipc.open_file(source).read_all(),
            "arrow_stream": lambda source: pa.ipc.open_stream(source).read_all(),
        }[form](source)
        check(back.to_pydict(), {"k": ["a", "b", "a"], "v": [1.5, None, 2.5]}, f"{form} to STDOUT")

print("files: all passed")
