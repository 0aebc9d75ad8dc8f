"""Serves an embedded database (DuckDB, ClickHouse as chdb) to the benchmark's clients.

HTTP/1.1 over loopback, one thread for each connection; requests are answered in order:

  GET  /version   the engine's version, as text
  POST /run       SQL; the result is discarded
  POST /query     SQL; the response is the result as CSV without a header
  POST /write     a line of JSON, then columns; inserts them as rows of a table

JSON of a write: "table" (quoted), "tags" (names), "parts" ([rows, tag values] for each device), "time" (name of the time
column) and "columns" ([name, type]). It is followed by the times as int64 and every column, little-endian, without gaps.
Values are not parsed: the received buffers are used as columns of an Arrow table.

Usage: inprocess.py ENGINE FOLDER PORT MEMORY_MIB [NAME=VALUE ...]; 0 MiB means the engine's default.
"""

import io
import json
import socket
import sys
import threading

import pyarrow
import pyarrow.csv

HEAD_BYTES_MAX = 64 << 10
# DDL statements are serialised, because the engines report concurrent ones as conflicts.
CHANGING = threading.Lock()


class DuckDB:
    def __init__(self, folder, memory_mib, settings):
        import duckdb

        self.version = duckdb.__version__
        self.database = duckdb.connect(folder + "/bench.duckdb", config=settings)
        if memory_mib:
            self.database.execute(f"SET memory_limit = '{memory_mib}MiB'")

    def session(self):
        return DuckDBSession(self.database.cursor())


class DuckDBSession:
    def __init__(self, connection):
        self.connection = connection

    def run(self, sql):
        self.connection.execute(sql)

    def query(self, sql):
        out = io.BytesIO()
        table = self.connection.sql(sql).to_arrow_table()
        pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(include_header=False))
        return out.getbuffer()

    def write(self, table, batch):
        # DuckDB resolves `batch` to the local variable of this function.
        self.connection.execute(f"INSERT INTO {table} SELECT * FROM batch")


class ClickHouse:
    def __init__(self, folder, memory_mib, settings):
        import chdb
        from chdb import session

        self.engine = session.Session(folder + "/chdb")
        # One session, which runs one statement at a time; a statement uses all processors.
        self.lock = threading.Lock()
        server = self.engine.query("SELECT version()", "TSV").bytes().decode().strip()
        self.version = f"{server} (chdb {chdb.__version__})"
        if memory_mib:
            self.run(f"SET max_memory_usage = {memory_mib << 20}")
        for name, value in settings.items():
            self.run(f"SET {name} = {value}")

    def session(self):
        return self

    def run(self, sql):
        with self.lock:
            self.engine.query(sql)

    def query(self, sql):
        with self.lock:
            return self.engine.query(sql, "CSV").bytes()

    def write(self, table, batch):
        with self.lock:
            # chdb resolves `batch` to the local variable of this function.
            self.engine.query(f"INSERT INTO {table} SELECT * FROM Python(batch)")


NUMBERS = {
    "int32": pyarrow.int32(),
    "int64": pyarrow.int64(),
    "float": pyarrow.float32(),
    "double": pyarrow.float64(),
    "date": pyarrow.date32(),
}


class Columns:
    """Reads the columns of a request's body in order."""

    def __init__(self, body, rows):
        self.body, self.at, self.rows = body, 0, rows

    def take(self, width):
        part = self.body[self.at : self.at + width * self.rows]
        if len(part) != width * self.rows:
            raise ValueError(f"a column of {len(part)} bytes, expected {width * self.rows}")
        self.at += width * self.rows
        return pyarrow.py_buffer(part)

    def column(self, kind):
        if kind == "boolean":
            return pyarrow.Array.from_buffers(pyarrow.uint8(), self.rows, [None, self.take(1)]).cast(pyarrow.bool_())
        if kind.startswith("text:"):
            length = int(kind[5:])
            fixed = pyarrow.binary(length)
            array = pyarrow.Array.from_buffers(fixed, self.rows, [None, self.take(length)])
            return array.cast(pyarrow.binary()).cast(pyarrow.string())
        number = NUMBERS[kind]
        return pyarrow.Array.from_buffers(number, self.rows, [None, self.take(number.bit_width // 8)])


def repeated(values, parts):
    """A column with one value for each part, dictionary-encoded."""
    indices = io.BytesIO()
    for number, (rows, _) in enumerate(parts):
        indices.write(number.to_bytes(4, "little") * rows)
    count = sum(rows for rows, _ in parts)
    indices = pyarrow.Array.from_buffers(pyarrow.int32(), count, [None, pyarrow.py_buffer(indices.getvalue())])
    return pyarrow.DictionaryArray.from_arrays(indices, pyarrow.array(values, pyarrow.string()))


def write(session, body):
    end = body.index(b"\n")
    head = json.loads(body[:end])
    parts = head["parts"]
    columns = Columns(memoryview(body)[end + 1 :], sum(rows for rows, _ in parts))
    names, arrays = [head["time"]], [columns.column("int64")]
    for number, tag in enumerate(head["tags"]):
        names.append(tag)
        arrays.append(repeated([tags[number] for _, tags in parts], parts))
    for name, kind in head["columns"]:
        names.append(name)
        arrays.append(columns.column(kind))
    session.write(head["table"], pyarrow.Table.from_arrays(arrays, names=names))


def answer(database, session, path, body):
    if path == "/version":
        return database.version.encode()
    if path == "/query":
        return session.query(body.decode())
    if path == "/run":
        with CHANGING:
            session.run(body.decode())
    elif path == "/write":
        write(session, body)
    else:
        raise ValueError(f"no path {path}")
    return b""


def status_of(error):
    text = str(error)
    if "No space left" in text or "NOT_ENOUGH_SPACE" in text:
        return "507 Insufficient Storage"
    if "Out of Memory" in text or "MEMORY_LIMIT_EXCEEDED" in text:
        return "503 Service Unavailable"
    # A failed statement has no effect.
    return "400 Bad Request"


def requests(connection):
    """Yields the path and body of each request."""
    stream = connection.makefile("rb", buffering=1 << 16)
    while True:
        line = stream.readline(HEAD_BYTES_MAX)
        if not line:
            return
        path, length = line.split()[1].decode(), 0
        while True:
            line = stream.readline(HEAD_BYTES_MAX)
            if not line.strip():
                break
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        body, at = bytearray(length), 0
        while at < length:
            got = stream.readinto(memoryview(body)[at:])
            if not got:
                return
            at += got
        yield path, body


def serve(database, connection):
    session = database.session()
    with connection:
        for path, body in requests(connection):
            try:
                status, result = "200 OK", answer(database, session, path, body)
            except Exception as error:  # any exception of the engine is reported to the client
                status, result = status_of(error), f"{type(error).__name__}: {error}".encode()
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(result)}\r\n\r\n".encode()
            if len(result) < 4096:
                # One write, so that a short response is one packet.
                connection.sendall(head + bytes(result))
            else:
                connection.sendall(head)
                connection.sendall(result)


def guarded(database, connection):
    try:
        serve(database, connection)
    except OSError:
        pass  # the client disconnected


def main():
    engine, folder, port, memory_mib = sys.argv[1:5]
    settings = dict(argument.split("=", 1) for argument in sys.argv[5:])
    database = {"duckdb": DuckDB, "clickhouse": ClickHouse}[engine](folder, int(memory_mib), settings)
    listener = socket.create_server(("127.0.0.1", int(port)))
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=guarded, args=(database, connection), daemon=True).start()


main()
