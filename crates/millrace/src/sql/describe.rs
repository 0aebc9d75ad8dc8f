//! `\d` and the other catalog commands.

use std::fmt::Write;

use super::session::Session;
use crate::failure::Failure;

const OWN_SCHEMAS: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema')";
/// A table's store, by its access method.
const STORE: &str = "CASE am.amname WHEN 'heap' THEN 'rows' ELSE am.amname END";
const RELATIONS: &str = "\
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam";

type Cells = Vec<Option<String>>;

/// Lists: `\d`, `\dt`, `\di`, `\ds`, `\dn`, `\df`, `\du`, `\l`. Returns false for an unknown command.
pub(super) async fn list(session: &Session, what: &str, pattern: &str, more: bool) -> Result<bool, Failure> {
    let matching = |column: &str| condition(pattern, column);
    match what {
        "" | "t" | "v" | "m" => {
            let kinds = match what {
                "" => "'r', 'v', 'm', 'S', 'p'",
                "t" => "'r', 'p'",
                "v" => "'v'",
                _ => "'m'",
            };
            let rows = session.ask(&relations(kinds, &matching("c.relname"))).await?;
            let titles: &[&str] = match (what, more) {
                ("", _) => &["schema", "name", "type", "store", "size"],
                (_, false) => &["schema", "name", "store", "size"],
                (_, true) => &["schema", "name", "store", "size", "key", "time", "partition", "retention", "history"],
            };
            let rows: Vec<Cells> = rows.into_iter().map(|row| relation_row(row, what.is_empty(), more)).collect();
            session.show(titles, &rows)?;
            if rows.is_empty() && pattern.is_empty() && what.is_empty() {
                println!(
                    "No tables yet. `\\h CREATE TABLE` shows how to create one; `millrace write --create` loads a file."
                );
            }
        }
        "i" => {
            let sql = format!(
                "SELECT n.nspname, c.relname, t.relname, pg_size_pretty(pg_relation_size(c.oid)), \
                 pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
                 JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_class t ON t.oid = i.indrelid \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE {OWN_SCHEMAS}{} ORDER BY 1, 2",
                matching("c.relname")
            );
            session.show(&["schema", "name", "table", "size", "definition"], &session.ask(&sql).await?)?;
        }
        "s" => {
            let sql = format!(
                "SELECT schemaname, sequencename, start_value, increment_by, last_value FROM pg_catalog.pg_sequences \
                 WHERE true{} ORDER BY 1, 2",
                matching("sequencename")
            );
            session.show(&["schema", "name", "start", "increment", "last value"], &session.ask(&sql).await?)?;
        }
        "n" => {
            let sql = format!(
                "SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname NOT LIKE 'pg_toast%'{} ORDER BY 1",
                matching("n.nspname")
            );
            session.show(&["schema"], &session.ask(&sql).await?)?;
        }
        "f" => functions(session, pattern)?,
        "u" | "g" => {
            let sql =
                "SELECT rolname, CASE WHEN rolsuper THEN 'superuser' ELSE '' END FROM pg_catalog.pg_roles ORDER BY 1";
            session.show(&["role", "attributes"], &session.ask(sql).await?)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

pub(super) async fn databases(session: &Session) -> Result<(), Failure> {
    let sql = "SELECT datname, pg_size_pretty(pg_database_size(oid)) FROM pg_catalog.pg_database ORDER BY 1";
    session.show(&["name", "size"], &session.ask(sql).await?)
}

pub(super) async fn connection(session: &Session) -> Result<(), Failure> {
    let sql = "SELECT current_database(), current_user, version(), current_setting('TimeZone')";
    let rows = session.ask(sql).await?;
    let cell = |at: usize| rows.first().and_then(|row| row.get(at)?.as_deref()).unwrap_or_default();
    println!("Database {:?} as user {:?}, time zone {}.\n{}", cell(0), cell(1), cell(3), cell(2));
    Ok(())
}

pub(super) async fn relation(session: &Session, name: &str) -> Result<(), Failure> {
    if name.contains(['*', '?']) {
        return list(session, "", name, false).await.map(|_| ());
    }
    let (schema, table) = split_name(name);
    let in_schema = match &schema {
        Some(schema) => format!("n.nspname = {}", literal(schema)),
        None => "pg_table_is_visible(c.oid)".to_owned(),
    };
    let sql = format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, {STORE}, array_to_string(c.reloptions, '|'), \
         pg_total_relation_size(c.oid) {RELATIONS} WHERE c.relname = {} AND {in_schema} ORDER BY 2",
        literal(&table)
    );
    let found = session.ask(&sql).await?;
    let Some(row) = found.first() else {
        return Err(Failure::new(format!("there is no table {name:?}")).with_hint("\\d lists all relations"));
    };
    let cell = |at: usize| row.get(at).and_then(|cell| cell.as_deref()).unwrap_or_default();
    let (oid, options) = (cell(0), Options::read(cell(5)));
    match cell(3) {
        "i" | "I" => {
            let rows = session.ask(&format!("SELECT pg_get_indexdef({oid})")).await?;
            println!("Index {}.{}: {}", cell(1), cell(2), text(&rows, 0, 0));
            return Ok(());
        }
        "S" => return list(session, "s", &table, false).await.map(|_| ()),
        _ => {}
    }
    println!("Table {}.{}", cell(1), cell(2));
    columns(session, oid, &options).await?;
    let mut out = String::new();
    let bytes: u64 = cell(6).parse().unwrap_or(0);
    facts(&mut out, cell(4), &options, bytes);
    keys_and_constraints(session, oid, &mut out).await?;
    println!("{out}");
    Ok(())
}

async fn columns(session: &Session, oid: &str, options: &Options) -> Result<(), Failure> {
    let sql = format!(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END, \
         a.attidentity, pg_get_expr(d.adbin, d.adrelid) FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let rows = session.ask(&sql).await?.into_iter().map(|row| {
        let cell = |at: usize| row.get(at).and_then(|cell| cell.clone()).unwrap_or_default();
        let name = cell(0);
        let last = match (&options.time, options.keys.iter().position(|key| *key == name)) {
            (Some(time), _) if *time == name => "time".to_owned(),
            (_, Some(at)) if options.keys.len() > 1 => format!("key {}", at + 1),
            (_, Some(_)) => "key".to_owned(),
            _ => match cell(3).as_str() {
                "a" => "generated always as identity".to_owned(),
                "d" => "generated by default as identity".to_owned(),
                _ => cell(4),
            },
        };
        vec![Some(name), Some(cell(1)), Some(cell(2)), Some(last)]
    });
    let last = if options.time.is_some() { "role" } else { "default" };
    session.show(&["column", "type", "nullable", last], &rows.collect::<Vec<_>>())
}

/// Options of a `columns` table, from `reloptions`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    time: Option<String>,
    keys: Vec<String>,
    partition: Option<String>,
    retention: Option<String>,
    history: bool,
}

impl Options {
    /// Parses `name=value` pairs separated by bars.
    fn read(text: &str) -> Options {
        let mut options = Options::default();
        for (name, value) in text.split('|').filter_map(|option| option.split_once('=')) {
            match name {
                "time" => options.time = Some(value.to_owned()),
                "key" => options.keys = value.split(',').map(|key| key.trim().to_owned()).collect(),
                "partition" => options.partition = Some(duration(value)),
                "retention" => options.retention = Some(duration(value)),
                "history" => options.history = value == "on",
                _ => {}
            }
        }
        options
    }
}

/// `86400 s` as `1 day`.
fn duration(text: &str) -> String {
    let Some(seconds) = text.strip_suffix(" s").and_then(|seconds| seconds.parse::<u64>().ok()) else {
        return text.to_owned();
    };
    for (unit, length) in [("day", 86_400), ("hour", 3_600), ("minute", 60)] {
        if seconds > 0 && seconds.is_multiple_of(length) {
            let count = seconds / length;
            return format!("{count} {unit}{}", if count == 1 { "" } else { "s" });
        }
    }
    text.to_owned()
}

/// Properties of a table, one a line.
fn facts(out: &mut String, store: &str, options: &Options, bytes: u64) {
    let size = crate::size::show(bytes);
    if store == "columns" {
        let key = if options.keys.is_empty() { "none".to_owned() } else { options.keys.join(", ") };
        let _ = writeln!(out, "Store:      columns (time series and events, on disk)");
        let _ = writeln!(out, "Key:        {key}");
        let _ = writeln!(out, "Time:       {}", options.time.as_deref().unwrap_or("none"));
        let _ = writeln!(out, "Partition:  {}", options.partition.as_deref().unwrap_or("none"));
        let _ = writeln!(out, "Retention:  {}", options.retention.as_deref().unwrap_or("unlimited"));
        let _ = writeln!(out, "History:    {}", if options.history { "on" } else { "off" });
        let _ = writeln!(out, "Size:       {size} in segments; rows not yet flushed are in memory and in the log");
    } else {
        let _ = writeln!(
            out,
            "Store:      {store}{}",
            if store == "rows" { " (in memory, durable by the log)" } else { "" }
        );
        let _ = writeln!(out, "Size:       {size}");
    }
}

async fn keys_and_constraints(session: &Session, oid: &str, out: &mut String) -> Result<(), Failure> {
    let sql = format!(
        "SELECT c.relname, CASE WHEN i.indisprimary THEN ' PRIMARY KEY' WHEN i.indisunique THEN ' UNIQUE' ELSE '' END, \
         pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         WHERE i.indrelid = {oid} ORDER BY i.indisprimary DESC, 1"
    );
    let indexes = session.ask(&sql).await?;
    section(out, "Indexes", &indexes, |row| {
        let definition = text(row, 0, 2);
        let columns = definition.find(" USING ").map_or(definition, |at| definition[at + 7..].trim());
        format!("{}{} {columns}", text(row, 0, 0), text(row, 0, 1))
    });
    let constraints = |condition: String| {
        format!(
            "SELECT k.conname, pg_get_constraintdef(k.oid), t.relname FROM pg_catalog.pg_constraint k \
             JOIN pg_catalog.pg_class t ON t.oid = k.conrelid WHERE {condition} ORDER BY 1"
        )
    };
    let line = |row: &[Cells]| format!("{} {}", text(row, 0, 0), text(row, 0, 1));
    for (title, kind) in [("Check constraints", "c"), ("Foreign keys", "f")] {
        let rows = session.ask(&constraints(format!("k.conrelid = {oid} AND k.contype = '{kind}'"))).await?;
        section(out, title, &rows, line);
    }
    let rows = session.ask(&constraints(format!("k.confrelid = {oid} AND k.contype = 'f'"))).await?;
    section(out, "Referenced by", &rows, |row| format!("table {}, {}", text(row, 0, 2), line(row)));
    Ok(())
}

fn section(out: &mut String, title: &str, rows: &[Cells], line: impl Fn(&[Cells]) -> String) {
    if !rows.is_empty() {
        let _ = writeln!(out, "{title}:");
    }
    for row in rows {
        let _ = writeln!(out, "    {}", line(std::slice::from_ref(row)));
    }
}

fn text(rows: &[Cells], row: usize, column: usize) -> &str {
    rows.get(row).and_then(|row| row.get(column)?.as_deref()).unwrap_or_default()
}

/// The manual's page about functions.
const FUNCTIONS: &str = include_str!("../../../../docs/manual/functions.md");

/// The functions in the manual: signature and description.
fn documented() -> impl Iterator<Item = (String, String)> {
    FUNCTIONS.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let plain = |cell: &str| cell.replace('`', "").replace("&#124;", "|");
        Some((plain(cells.next()?), plain(cells.next()?)))
    })
}

/// Function names in a text such as `sum(x), avg(x)`.
fn names_in(calls: &str) -> impl Iterator<Item = &str> {
    calls.match_indices('(').filter_map(|(at, _)| {
        let start = calls[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |before| before + 1);
        Some(&calls[start..at]).filter(|name| !name.is_empty() && name.chars().all(|c| !c.is_ascii_uppercase()))
    })
}

/// Names of the manual's functions, for completion.
pub(super) fn function_names() -> Vec<String> {
    let mut names: Vec<String> =
        documented().flat_map(|(calls, _)| names_in(&calls).map(str::to_owned).collect::<Vec<_>>()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn functions(session: &Session, pattern: &str) -> Result<(), Failure> {
    let (_, pattern) = split_name(pattern);
    let is_wanted = |calls: &str| pattern.is_empty() || names_in(calls).any(|name| is_like(name, &pattern));
    let rows: Vec<Cells> =
        documented().filter(|(calls, _)| is_wanted(calls)).map(|(calls, what)| vec![Some(calls), Some(what)]).collect();
    session.show(&["function", "what it gives"], &rows)
}

/// Whether `name` matches a pattern with `*` and `?`.
fn is_like(name: &str, pattern: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => (0..=name.len()).any(|at| name.is_char_boundary(at) && is_like(&name[at..], &pattern[1..])),
        Some(wanted) => {
            let mut rest = name.chars();
            let fits = rest.next().is_some_and(|c| wanted == '?' || wanted == c);
            fits && is_like(rest.as_str(), &pattern[wanted.len_utf8()..])
        }
    }
}

/// The query of `\d`, `\dt` and so on.
fn relations(kinds: &str, matching: &str) -> String {
    format!(
        "SELECT n.nspname, c.relname, CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END, \
         {STORE}, pg_total_relation_size(c.oid), array_to_string(c.reloptions, '|') \
         {RELATIONS} WHERE c.relkind IN ({kinds}) AND {OWN_SCHEMAS}{matching} ORDER BY 1, 2"
    )
}

fn relation_row(row: Cells, with_type: bool, more: bool) -> Cells {
    let cell = |at: usize| row.get(at).and_then(|cell| cell.clone()).unwrap_or_default();
    let size = match cell(2).as_str() {
        "table" => crate::size::show(cell(4).parse().unwrap_or(0)),
        _ => String::new(),
    };
    let mut cells = vec![cell(0), cell(1)];
    if with_type {
        cells.push(cell(2));
    }
    cells.extend([cell(3), size]);
    if more {
        let options = Options::read(&cell(5));
        let history = if options.history { "on" } else { "" };
        cells.extend([
            options.keys.join(", "),
            options.time.unwrap_or_default(),
            options.partition.unwrap_or_default(),
            options.retention.unwrap_or_default(),
            history.to_owned(),
        ]);
    }
    cells.into_iter().map(Some).collect()
}

/// ` AND column …` for a pattern with `*` and `?`, as in psql; empty for an empty pattern.
fn condition(pattern: &str, column: &str) -> String {
    if pattern.is_empty() {
        return String::new();
    }
    let (schema, name) = split_name(pattern);
    let like = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
        literal(&text.replace('*', "%").replace('?', "_"))
    };
    let schema = schema.map(|schema| format!(" AND n.nspname LIKE {}", like(&schema))).unwrap_or_default();
    format!("{schema} AND {column} LIKE {}", like(&name))
}

/// Schema and name; unquoted ones are folded to lower case.
fn split_name(name: &str) -> (Option<String>, String) {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in name.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            _ => {
                let part = parts.last_mut();
                if let Some(part) = part {
                    if quoted { part.push(c) } else { part.extend(c.to_lowercase()) }
                }
            }
        }
    }
    let name = parts.pop().unwrap_or_default();
    (parts.pop(), name)
}

/// A text as an SQL literal.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_and_folded_as_in_sql() {
        for (text, schema, name) in
            [("Weather", None, "weather"), ("s.T", Some("s"), "t"), ("\"S.x\".\"T\"", Some("S.x"), "T")]
        {
            assert_eq!(split_name(text), (schema.map(str::to_owned), name.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_pattern_cannot_break_out_of_its_query() {
        assert_eq!(condition("a'_*", "c"), " AND c LIKE 'a''\\_%'");
        assert_eq!(condition("", "c"), "");
    }

    #[test]
    fn functions_are_those_of_the_manual() {
        let names = function_names();
        for name in ["time_bucket", "last", "regexp_replace", "row_number", "percentile_cont"] {
            assert!(names.iter().any(|found| found == name), "{name}");
        }
        assert!(is_like("time_bucket", "time*") && is_like("lag", "l?g") && !is_like("lag", "la"));
    }

    #[test]
    fn options_of_a_table_are_shown_in_readable_units() {
        let options =
            Options::read("store=columns|time=at|key=site,device|partition=86400 s|retention=5400 s|history=on");
        assert_eq!(options.keys, ["site", "device"]);
        assert_eq!(options.partition.as_deref(), Some("1 day"));
        assert_eq!(options.retention.as_deref(), Some("90 minutes"));
        let mut out = String::new();
        facts(&mut out, "columns", &options, 2 << 20);
        assert!(
            out.contains("Key:        site, device") && out.contains("2.0 MiB") && out.contains("90 minutes"),
            "{out}"
        );
    }
}
