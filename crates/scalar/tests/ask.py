"""Prints a file of calls with PostgreSQL's answers: `ask.py CONNINFO FILE`.

A line is a call: the function with the types of its arguments, the arguments, and the answer, separated by tabs. `;` stands between the rows
of an aggregate, `|` between the rows of a set.
"""

import sys

import psycopg

TYPES = {"char": '"char"', "bit": "varbit", "any": "text"}
SETTINGS = "SET timezone = 'America/Los_Angeles'; SET datestyle = 'ISO, MDY'; SET intervalstyle = postgres; SET bytea_output = hex"
ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}


def unescaped(field):
    text, rest = [], iter(field)
    for one in rest:
        following = next(rest, "") if one == "\\" else None
        text.append(one if following is None else ESCAPES.get(following, following))
    return "".join(text)


def escaped(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def type_name(name):
    element = name.removesuffix("[]")
    return TYPES.get(element, element) + ("[]" if name.endswith("[]") else "")


def literal(field, ty):
    if field == "\\N":
        return f"NULL::{ty}"
    text = unescaped(field).replace("'", "''")
    return f"'{text}'::{ty}"


class Functions:
    """The kinds of functions by name."""

    def __init__(self, connection):
        def names(condition):
            rows = connection.execute(f"SELECT proname FROM pg_proc WHERE {condition}")
            return {name for (name,) in rows}

        self.aggregates = names("prokind = 'a'")
        self.sets = names("proretset")
        self.direct = dict(
            connection.execute(
                "SELECT proname, aggnumdirectargs FROM pg_aggregate JOIN pg_proc p ON p.oid = aggfnoid WHERE aggkind <> 'n'"
            ).fetchall()
        )

    def query(self, signature, arguments):
        name, types = signature.removesuffix(")").split("(", 1)
        types = [type_name(ty) for ty in types.split(",")] if types else []
        call = f'pg_catalog."{name}"'
        if name in self.aggregates:
            return self.aggregate(name, call, types, arguments)
        call += "(" + ",".join(literal(field, ty) for field, ty in zip(arguments, types)) + ")"
        if name not in self.sets:
            return f"SELECT {call}"
        rows = f"SELECT row_number() OVER () AS k, r FROM (SELECT ({call})::text AS r) AS s"
        return f"SELECT coalesce(string_agg(coalesce(r, '\\N'), '|' ORDER BY k), '') FROM ({rows}) AS z"

    def aggregate(self, name, call, types, arguments):
        rows, row = [], []
        for field in [*arguments, ";"]:
            if field != ";":
                row.append(field)
            elif row:
                rows.append(row)
                row = []
        columns = [f"c{at}" for at in range(len(types))]
        values = [f"({k}," + ",".join(map(literal, row, types)) + ")" for k, row in enumerate(rows)]
        nulls = ",".join(f"NULL::{ty} AS {column}" for ty, column in zip(types, columns))
        empty = f"(SELECT 0 AS k, {nulls} WHERE false) AS v"
        source = f"(VALUES {','.join(values)}) AS v(k,{','.join(columns)})" if rows else empty
        if name not in self.direct:
            inner = f"({','.join(columns)} ORDER BY k)" if types else "(*)"
            return f"SELECT {call}{inner} FROM {source}"
        direct = self.direct[name]
        group = f" GROUP BY {','.join(columns[:direct])}" if direct else ""
        inner = f"({','.join(columns[:direct])}) WITHIN GROUP (ORDER BY {','.join(columns[direct:])})"
        return f"SELECT {call}{inner} FROM {source}{group}"


def answer(connection, query, is_set):
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            found = cursor.pgresult.get_value(0, 0) if cursor.pgresult.ntuples else b""
    except psycopg.Error as error:
        return f"!{error.sqlstate}"
    if found is None:
        return "\\N"
    text = escaped(found.decode())
    return text.replace("\\\\N", "\\N") if is_set else text


def main():
    conninfo, path = sys.argv[1:]
    connection = psycopg.connect(conninfo, autocommit=True)
    connection.execute(SETTINGS)
    functions = Functions(connection)
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = file.read().split("\n")
    for at, line in enumerate(lines):
        if line and not line.startswith("#"):
            signature, *arguments, _ = line.split("\t")
            query = functions.query(signature, arguments)
            is_set = signature.split("(")[0] in functions.sets
            lines[at] = "\t".join([signature, *arguments, answer(connection, query, is_set)])
    sys.stdout.write("\n".join(lines))


main()
