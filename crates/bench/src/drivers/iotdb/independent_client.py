"""Reads and writes IoTDB with its own Python client, to check our client against it.

Arguments: address, "binary" or "compact", "tree" or "table", "read" or "write", and a statement or
the target of the write (a device, or DATABASE.TABLE). Rows are lines on standard input and output,
separated by tabs: time, then each column as `-` (null), `t`, `f`, an integer, the bits of a double
in hex, or `x` and bytes in hex.
"""

import struct
import sys
from datetime import date

from iotdb.Session import Session
from iotdb.utils.IoTDBConstants import TSDataType as Type
from iotdb.utils.Tablet import ColumnType, Tablet

TYPES = [Type.BOOLEAN, Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE, Type.TEXT, Type.STRING, Type.BLOB, Type.TIMESTAMP]
TYPES.append(Type.DATE)
WHOLE = (Type.INT32, Type.INT64, Type.TIMESTAMP)


def to_text(field):
    if field.is_null():
        return "-"
    kind = field.get_data_type()
    if kind == Type.BOOLEAN:
        return "t" if field.get_bool_value() else "f"
    if kind in (Type.FLOAT, Type.DOUBLE):
        return struct.pack(">d", float(field.value)).hex()
    if kind in (Type.TEXT, Type.STRING, Type.BLOB):
        return "x" + bytes(field.value).hex()
    return str(int(field.value))


def from_text(text, kind):
    if text == "-":
        return None
    if kind == Type.BOOLEAN:
        return text == "t"
    if kind in WHOLE:
        return int(text)
    if kind in (Type.FLOAT, Type.DOUBLE):
        return struct.unpack(">d", bytes.fromhex(text))[0]
    if kind == Type.DATE:
        number = int(text)
        return date(number // 10000, number // 100 % 100, number % 100)
    raw = bytes.fromhex(text[1:])
    return raw if kind == Type.BLOB else raw.decode()


def read(session, statement, in_table):
    answer = session.execute_query_statement(statement)
    while answer.has_next():
        row = answer.next()
        time = [] if in_table else [str(row.get_timestamp())]
        print("\t".join(time + [to_text(field) for field in row.get_fields()]))


def write(session, target, in_table):
    names = [f"s_{number}" for number in range(len(TYPES))]
    lines = [line.rstrip("\n").split("\t") for line in sys.stdin]
    times = [int(line[0]) for line in lines]
    rows = [[from_text(text, kind) for text, kind in zip(line[1:], TYPES)] for line in lines]
    if in_table:
        categories = [ColumnType.FIELD] * len(TYPES) + [ColumnType.TAG]
        rows = [row + ["theirs"] for row in rows]
        tablet = Tablet(target, names + ["device_id"], TYPES + [Type.STRING], rows, times, categories)
        session.insert_relational_tablet(tablet)
    else:
        session.insert_aligned_tablet(Tablet(target, names, TYPES, rows, times))


address, encoding, dialect, what, argument = sys.argv[1:]
host, port = address.split(":")
session = Session(host, int(port), "root", "root")
session.sql_dialect = dialect
session.open(encoding == "compact")
if dialect == "table" and what == "write":
    database, argument = argument.split(".")
    session.execute_non_query_statement(f"use {database}")
(read if what == "read" else write)(session, argument, dialect == "table")
session.close()
