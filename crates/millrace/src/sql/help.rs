//! Texts of `\?` and `\h`.

/// The backslash commands.
pub(super) const COMMANDS: &str = "\
Catalog
  \\d                        tables, views and sequences
  \\d TABLE                  columns, store, key, time column, partition, retention, indexes, constraints
  \\dt[+] [PATTERN]          tables with store and size; + adds key, time column, partition and retention
  \\di \\ds \\dn               indexes, sequences, schemas
  \\df [PATTERN]             functions
  \\l \\du \\conninfo          databases, roles, this connection

Results
  \\x [on|off|auto]          one value a line; auto: when the table is wider than the screen
  \\g [FILE or |COMMAND]     run the pending or the last statement; result to a file or command
  \\gx                       the same, one value a line
  \\format [FORMAT]          table, csv, json, ndjson or markdown
  \\pset null TEXT           text for NULL
  \\pset pager on|off|CMD    show results larger than the screen with a pager (PAGER, less)
  \\pset rows N|all          rows of a long table to show without a pager
  \\o [FILE or |COMMAND]     send results to a file or command; without one, to the screen again
  \\timing [on|off]          print the duration of each statement
  \\watch [SECONDS]          repeat the last statement until Ctrl-C

Statements
  \\?   \\h [STATEMENT]       this list; syntax of a statement
  \\p \\r                     print or discard the pending statement
  \\e [FILE]                 edit the pending or last statement, or a file, in EDITOR and run it
  \\i FILE                   run statements from a file
  \\copy T FROM 'FILE'       load a file (COPY's options after it); \\copy T TO 'FILE' writes one
  \\set [NAME VALUE]         set a variable: :NAME, :'NAME' (a text) and :\"NAME\" (a name) stand for it
  \\unset NAME   \\echo TEXT  remove a variable; print a text
  \\! [COMMAND]              run a system command
  \\q                        quit; so do exit, quit and Ctrl-D

A statement ends with a semicolon and may have several lines. Tab completes commands, keywords, tables, columns and
functions; Ctrl-R searches the history; Ctrl-C discards the pending statement or cancels the running one. Commands in
~/.millracerc run when the shell starts.
";

/// Text of `help`.
pub(super) const HELP: &str = "\
Type SQL and end it with a semicolon:  SELECT * FROM weather LIMIT 5;
  \\?             the shell's commands
  \\h SELECT      syntax of a statement
  \\d             tables;  \\d TABLE describes one
  \\q             leave
";

/// Syntax of the supported statements.
const SYNTAX: &[(&str, &str)] = &[
    ("ALTER TABLE", "\
ALTER TABLE table ADD COLUMN column type [constraint …]
ALTER TABLE table SET (option = value, …)             retention, history and others; see CREATE TABLE
rows tables also: RENAME, DROP COLUMN, ALTER COLUMN … SET/DROP DEFAULT | NOT NULL | TYPE, ADD/DROP CONSTRAINT"),
    ("BEGIN", "\
BEGIN [ISOLATION LEVEL READ COMMITTED | REPEATABLE READ | SERIALIZABLE] [READ ONLY]"),
    ("COMMIT", "COMMIT [AND [NO] CHAIN]"),
    ("COPY", "\
COPY table [(column, …)] FROM STDIN [WITH (FORMAT text|csv|binary|parquet|arrow, HEADER, DELIMITER 'c', NULL 'text')]
COPY table | (query) TO STDOUT [WITH (…)]
in this shell: \\copy table FROM 'file' WITH (FORMAT csv, HEADER)"),
    ("CREATE INDEX", "CREATE [UNIQUE] INDEX [name] ON table (column [ASC|DESC], …)        rows tables"),
    ("CREATE SCHEMA", "CREATE SCHEMA [IF NOT EXISTS] name"),
    ("CREATE SEQUENCE", "CREATE SEQUENCE name [START n] [INCREMENT n] [MINVALUE n] [MAXVALUE n] [CYCLE]"),
    ("CREATE TABLE", "\
CREATE TABLE [IF NOT EXISTS] table (column type [constraint …], …)
    a rows table: in memory and durable, with keys, indexes and constraints
CREATE TABLE table (time timestamptz NOT NULL, device text, value float8)
    WITH (store = 'columns', key = 'device' [, time = 'time', partition = '1 day', retention = '90 days', history = 'on'])
    a columns table: time series and events, compressed on disk
CREATE TABLE table [WITH (…)] AS query"),
    ("DECLARE", "DECLARE name CURSOR [WITH HOLD] FOR query;  FETCH [n | ALL] FROM name;  CLOSE name"),
    ("DELETE", "\
DELETE FROM table [WHERE condition] [RETURNING …]
columns tables: the condition compares key columns and the time"),
    ("DROP TABLE", "DROP TABLE [IF EXISTS] table, … [CASCADE]"),
    ("EXPLAIN", "EXPLAIN [ANALYZE] statement"),
    ("INSERT", "\
INSERT INTO table [(column, …)] VALUES (value, …), … | query
    [ON CONFLICT [(column, …)] DO NOTHING | DO UPDATE SET column = value, … [WHERE condition]] [RETURNING …]"),
    ("ROLLBACK", "ROLLBACK [TO SAVEPOINT name]"),
    ("SAVEPOINT", "SAVEPOINT name;  ROLLBACK TO SAVEPOINT name;  RELEASE SAVEPOINT name"),
    ("SELECT", "\
[WITH [RECURSIVE] name AS (query), …]
SELECT [DISTINCT [ON (expression, …)]] expression [AS name], …
    FROM table [FOR SYSTEM_TIME AS OF time] [alias]
    [[LEFT | RIGHT | FULL | CROSS] JOIN table ON condition | ASOF JOIN table ON equality AND a.time >= b.time]
    [WHERE condition] [GROUP BY expression, …] [HAVING condition] [WINDOW …]
    [UNION | INTERSECT | EXCEPT [ALL] query]
    [ORDER BY expression [DESC] [NULLS FIRST|LAST], …] [LIMIT n] [OFFSET n] [FOR UPDATE]
time: time_bucket('1 hour', time [, zone]), time_bucket_gapfill, locf, interpolate, first(value, time), last(value, time)
counters: increase(value, time), rate(value, time), delta(value, time); means: time_weighted_average(value, time [, method])"),
    ("SET", "SET [LOCAL] name = value;  SHOW name;  RESET name        for example TimeZone, statement_timeout"),
    ("TRUNCATE", "TRUNCATE [TABLE] table, …"),
    ("UPDATE", "UPDATE table SET column = value, … [FROM table …] [WHERE condition] [RETURNING …]        rows tables"),
    ("VALUES", "VALUES (value, …), …"),
];

/// Names of statements, for completion.
pub(super) fn statements() -> impl Iterator<Item = &'static str> {
    SYNTAX.iter().map(|(name, _)| *name)
}

/// Syntax of the statements whose names start with `wanted`; a list of all names if it is empty.
pub(super) fn syntax(wanted: &str) -> String {
    let wanted = wanted.trim().trim_end_matches(';').to_uppercase();
    if wanted.is_empty() {
        let names: Vec<&str> = statements().collect();
        return format!("\\h STATEMENT shows the syntax of one of:\n{}\n", names.join(", "));
    }
    let found: Vec<String> = SYNTAX
        .iter()
        .filter(|(name, _)| name.starts_with(&wanted))
        .map(|(name, text)| format!("{name}\n  {}\n", text.replace('\n', "\n  ")))
        .collect();
    match found.is_empty() {
        true => format!("No syntax of {wanted:?}; \\h lists the statements. The manual is docs/manual/sql.md.\n"),
        false => found.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_is_found_by_the_prefix_of_a_statement() {
        assert!(syntax("insert;").contains("ON CONFLICT"));
        assert!(syntax("create").contains("CREATE INDEX") && syntax("create").contains("store = 'columns'"));
        assert!(syntax("").contains("SAVEPOINT") && syntax("nope").contains("No syntax"));
    }

    #[test]
    fn texts_fit_a_wide_terminal() {
        for line in COMMANDS.lines().chain(SYNTAX.iter().flat_map(|(_, text)| text.lines())) {
            assert!(line.chars().count() <= 126, "{line}");
        }
    }
}
