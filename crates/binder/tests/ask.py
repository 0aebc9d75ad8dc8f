"""Prints queries with PostgreSQL's descriptions of them: `ask.py CONNINFO`.

Queries are the first fields of the lines of `data/queries.tsv`; `data/tables.sql` makes their tables, in a database of its own. With `tables`
behind CONNINFO it prints the columns of these tables instead.
"""

import pathlib
import sys

import psycopg
from psycopg import pq

DATA = pathlib.Path(__file__).parent / "data"
COLUMNS = """SELECT 16384 + c.oid::bigint - min(c.oid::bigint) OVER (), n.nspname, c.relname, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey))
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON attrelid = c.oid
  WHERE attnum > 0 AND NOT attisdropped AND relkind = 'r' AND c.oid >= 16384 ORDER BY c.oid, attnum"""


def described(server, query):
    prepared = server.prepare(b"", query.encode())
    if prepared.status != pq.ExecStatus.COMMAND_OK:
        field = pq.DiagnosticField
        state, position, message = (
            prepared.error_field(one) or b"0"
            for one in (field.SQLSTATE, field.STATEMENT_POSITION, field.MESSAGE_PRIMARY)
        )
        return f"!{state.decode()} {position.decode()} {message.decode()}".replace("\n", " ")
    result = server.describe_prepared(b"")
    columns = [f"{result.fname(at).decode()}:{result.ftype(at)}:{result.fmod(at)}" for at in range(result.nfields)]
    parameters = ",".join(str(result.param_type(at)) for at in range(result.nparams))
    return ",".join(columns) + (f" ({parameters})" if parameters else "")


def main():
    with psycopg.connect(sys.argv[1], autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS binder")
        connection.execute("CREATE DATABASE binder")
    with psycopg.connect(sys.argv[1], dbname="binder", autocommit=True) as connection:
        connection.execute((DATA / "tables.sql").read_text())
        if sys.argv[2:] == ["tables"]:
            shown = {True: "t", False: "f"}
            for row in connection.execute(COLUMNS):
                print("\t".join(shown[one] if isinstance(one, bool) else str(one) for one in row))
            return
        for line in (DATA / "queries.tsv").read_text().splitlines():
            query = line.split("\t")[0]
            print(f"{query}\t{described(connection.pgconn, query)}")


main()
