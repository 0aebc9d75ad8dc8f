"""Asks a PostgreSQL 15 what operators, functions, casts and common types mean, for `resolution.rs`.

usage: ask.py 'host=127.0.0.1 port=5432 user=postgres dbname=postgres' > data/resolution.txt
Questions are the same each time. A statement is only described, never run.
"""
import itertools
import pathlib
import random
import sys

from psycopg import pq

DATA = pathlib.Path(__file__).parent.parent / "data"
TYPES = ["unknown", "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar", "char",
         "name", "bytea", "date", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "json", "jsonb", "oid",
         "regclass", "point", "bit", "int4range", "_int4", "_text", "_numeric", "record"]
chance = random.Random(1)
types = {int(line.split("\t")[0]): line.split("\t")[1] for line in (DATA / "types.tsv").read_text().splitlines()}
server = pq.PGconn.connect(sys.argv[1].encode())
assert server.status == pq.ConnStatus.OK, server.error_message


def value(ty):
    if ty == "unknown":
        return "NULL"
    return "(SELECT r FROM (SELECT 1) r)" if ty == "record" else f'NULL::"{ty}"'


def ask(expression):
    """Name of the result's type, `-` if nothing fits, or the SQLSTATE."""
    answer = server.prepare(b"", f"SELECT {expression}".encode())
    if answer.status == pq.ExecStatus.COMMAND_OK:
        return types.get(server.describe_prepared(b"").ftype(0), "?")
    state = answer.error_field(pq.DiagnosticField.SQLSTATE).decode()
    return "-" if state in ("42883", "42809") else state


def main():
    operators = [line.split("\t") for line in (DATA / "operators.tsv").read_text().splitlines()]
    for name in sorted({row[1] for row in operators if row[2] == "b"}):
        for left in TYPES:
            answers = [ask(f"{value(left)} {name} {value(right)}") for right in TYPES]
            if set(answers) != {"-"}:
                print("operator", name, left, *answers)
    for name in sorted({row[1] for row in operators if row[2] == "l"}):
        print("prefix", name, *[ask(f"{name} {value(right)}") for right in TYPES])
    functions = [line.split("\t") for line in (DATA / "functions.tsv").read_text().splitlines()]
    plain = [row for row in functions if row[2] == "f" or (row[2] == "a" and row[3] == "n")]
    # Ranges and enumerations are types that a catalog of built-in types cannot answer for.
    for name in sorted({row[1] for row in plain if "range" not in row[1] and "enum" not in row[1]}):
        counts = sorted({len(row[10].split()) + more for row in plain if row[1] == name for more in (-1, 0, 1)})
        for count in counts:
            if not 0 < count < 5:
                continue
            every = list(itertools.product(TYPES, repeat=count)) if count == 1 else []
            some = [tuple(chance.choice(TYPES) for _ in range(count)) for _ in range(4 if count > 1 else 0)]
            for row in plain:
                given = [types.get(int(ty), "") for ty in row[10].split()]
                if row[1] != name or len(given) != count or count == 1:
                    continue
                for _ in range(3):
                    near = [ty if ty in TYPES and chance.random() < 0.7 else chance.choice(["unknown", *TYPES]) for ty in given]
                    some.append(tuple(near))
            for given in every or dict.fromkeys(some):
                call = ", ".join(value(ty) for ty in given)
                answer = ask(f'pg_catalog."{name}"({call})')
                if answer != "-" or chance.random() < 0.1:
                    print("function", name, *given, "=", answer)
    for count in (2, 3):
        for _ in range(600):
            given = [chance.choice(TYPES) for _ in range(count)]
            print("common", *given, "=", ask(f"coalesce({', '.join(value(ty) for ty in given)})"))
    for left in TYPES[1:]:
        print("cast", left, *[ask(f'{value(left)}::"{right}"') for right in TYPES[1:-1]])


main()
