"""Prints statements with PostgreSQL's descriptions of them: `ask.py CONNINFO FILE`.

Statements are the first fields of the lines of `data/FILE.tsv`; `data/tables.sql` makes their tables, in a database of its own. With
`tables` or `indexes` instead of a file it prints the columns or the unique indexes of these tables.
"""

import pathlib
import sys

import psycopg
from psycopg import pq

DATA = pathlib.Path(__file__).parent / "data"
FIRST_OWN_OID = 16384
RECORD = 2249
COLUMNS = """SELECT 16384 + c.oid::bigint - min(c.oid::bigint) OVER (), n.nspname, c.relname, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
    CASE WHEN attidentity <> '' THEN format('nextval(%L)', pg_get_serial_sequence(c.oid::regclass::text, attname))
      WHEN attgenerated = '' THEN pg_get_expr(adbin, adrelid) END,
    attidentity::text, CASE WHEN attgenerated <> '' THEN pg_get_expr(adbin, adrelid) END
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute a ON attrelid = c.oid
    LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
  WHERE attnum > 0 AND NOT attisdropped AND relkind = 'r' AND c.oid >= 16384 ORDER BY c.oid, attnum"""
INDEXES = """SELECT t.relname, c.relname, EXISTS (SELECT FROM pg_constraint WHERE conindid = c.oid), pg_get_expr(indpred, indrelid),
    (SELECT string_agg(pg_get_indexdef(c.oid, n, true), '|' ORDER BY n) FROM generate_series(1, indnkeyatts) n)
  FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_class t ON t.oid = indrelid
  WHERE indisunique AND t.relkind = 'r' AND c.oid >= 16384 ORDER BY c.oid"""

def shown(value):
    if value is None:
        return ""
    return "ft"[value] if isinstance(value, bool) else str(value)


def refusal(result):
    field = pq.DiagnosticField
    state, position, message, hint = (
        (result.error_field(one) or b"").decode()
        for one in (field.SQLSTATE, field.STATEMENT_POSITION, field.MESSAGE_PRIMARY, field.MESSAGE_HINT)
    )
    return f"!{state} {position or 0} {message}", hint


def described(server, statement, is_change):
    server.exec_(b"DEALLOCATE ALL")
    prepared = server.prepare(b"p", statement.encode())
    if prepared.status == pq.ExecStatus.COMMAND_OK:
        result = server.describe_prepared(b"p")
        if "ON CONFLICT" in statement:
            # Arbiters are found by the planner.
            values = f"({', '.join(['NULL'] * result.nparams)})" if result.nparams else ""
            prepared = server.exec_(f"EXPLAIN EXECUTE p{values}".encode())
    if prepared.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        text, hint = refusal(prepared)
        return (f"{text} ~ {hint}" if hint and is_change else text).replace("\n", " ")
    # The types of tables' rows are not known to the binder.
    types = [result.ftype(at) if result.ftype(at) < FIRST_OWN_OID else RECORD for at in range(result.nfields)]
    columns = [f"{result.fname(at).decode()}:{ty}:{result.fmod(at)}" for at, ty in enumerate(types)]
    parameters = ",".join(str(result.param_type(at)) for at in range(result.nparams))
    return ",".join(columns) + (f" ({parameters})" if parameters else "")


def main():
    conninfo, name = sys.argv[1:]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS binder")
        connection.execute("CREATE DATABASE binder")
    with psycopg.connect(conninfo, dbname="binder", autocommit=True) as connection:
        connection.execute((DATA / "tables.sql").read_text())
        if name in ("tables", "indexes"):
            for row in connection.execute(COLUMNS if name == "tables" else INDEXES):
                print("\t".join(shown(one) for one in row))
            return
        for line in (DATA / f"{name}.tsv").read_text().splitlines():
            statement = line.split("\t")[0]
            print(f"{statement}\t{described(connection.pgconn, statement, name == 'changes')}")


main()
