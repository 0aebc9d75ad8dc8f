//! Tab completion: commands, keywords, functions, tables, columns, files.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::describe;
use super::help;
use super::meta;

/// Maximum age of cached names.
const NAMES_AGE_MAX: Duration = Duration::from_secs(3);
/// Maximum time that a Tab waits for the server.
const NAMES_WAIT_MAX: Duration = Duration::from_millis(700);
/// Maximum number of columns to read; a database may have millions.
const COLUMNS_MAX: usize = 20_000;

const KEYWORDS: &str = "\
ADD ALL ALTER ANALYZE AND AS ASC ASOF AT BEGIN BETWEEN BY CASE CAST CHECK COLUMN COMMIT CONFLICT CONSTRAINT COPY CREATE CROSS \
DEFAULT DELETE DESC DISTINCT DO DROP ELSE END EXCEPT EXISTS EXPLAIN FALSE FETCH FOR FOREIGN FROM FULL GROUP HAVING IF ILIKE IN \
INDEX INNER INSERT INTERSECT INTERVAL INTO IS ISOLATION JOIN KEY LEFT LEVEL LIKE LIMIT NOT NOTHING NULL OFFSET ON OR ORDER OVER \
PARTITION PRIMARY READ REFERENCES RETURNING RIGHT ROLLBACK SAVEPOINT SCHEMA SELECT SEQUENCE SERIALIZABLE SET SHOW STDIN STDOUT \
TABLE THEN TIME TIMESTAMPTZ TO TRANSACTION TRUE TRUNCATE UNION UNIQUE UPDATE USING VALUES WHEN WHERE WINDOW WITH ZONE \
BIGINT BOOLEAN BYTEA DATE DOUBLE FLOAT8 INT INTEGER JSON NUMERIC PRECISION REAL SMALLINT TEXT TIMESTAMP UUID VARCHAR";

/// Options of commands with a fixed set.
const OPTIONS: &[(&str, &[&str])] = &[
    ("\\x", &["on", "off", "auto"]),
    ("\\timing", &["on", "off"]),
    ("\\format", &["table", "csv", "json", "ndjson", "markdown"]),
    ("\\pset", &["null", "pager", "rows", "format", "expanded"]),
];

/// Names in the database.
#[derive(Clone, Default)]
struct Names {
    /// Schema, table, column.
    columns: Vec<(String, String, String)>,
}

/// Completes what the user types.
pub(super) struct Assistant {
    client: Arc<Client>,
    /// Whether no transaction is open.
    idle: Arc<AtomicBool>,
    /// Earlier lines of the statement being typed.
    pub(super) pending: String,
    names: RefCell<(Names, Option<Instant>)>,
    files: FilenameCompleter,
}

impl Assistant {
    pub(super) fn new(client: Arc<Client>, idle: Arc<AtomicBool>) -> Assistant {
        Assistant { client, idle, pending: String::new(), names: RefCell::default(), files: FilenameCompleter::new() }
    }

    /// The database's names, refreshed on Tab; not inside a transaction, because the query would be part of it.
    fn names(&self) -> Names {
        let mut cached = self.names.borrow_mut();
        let (names, read_at) = &mut *cached;
        let is_fresh = read_at.is_some_and(|at| at.elapsed() < NAMES_AGE_MAX);
        if !is_fresh && self.idle.load(Ordering::Relaxed) {
            let read = tokio::task::block_in_place(|| {
                let handle = tokio::runtime::Handle::current();
                handle.block_on(async { tokio::time::timeout(NAMES_WAIT_MAX, read_names(&self.client)).await })
            });
            if let Ok(Some(read)) = read {
                *names = read;
            }
            *read_at = Some(Instant::now());
        }
        names.clone()
    }
}

async fn read_names(client: &Client) -> Option<Names> {
    let sql = format!(
        "SELECT table_schema, table_name, column_name FROM information_schema.columns \
         WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2, ordinal_position \
         LIMIT {COLUMNS_MAX}"
    );
    let mut names = Names::default();
    for message in client.simple_query(&sql).await.ok()? {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let cell = |at: usize| row.get(at).unwrap_or_default().to_owned();
        names.columns.push((cell(0), cell(1), cell(2)));
    }
    Some(names)
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..pos];
        if takes_file(typed) {
            return self.files.complete_path(line, pos);
        }
        let (start, found) = match fixed(typed) {
            Some(found) => found,
            None => candidates(&self.pending, typed, &self.names()),
        };
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;
}

impl Highlighter for Assistant {}
impl Validator for Assistant {}
impl Helper for Assistant {}

/// Whether a file name is expected at the end of `typed`.
fn takes_file(typed: &str) -> bool {
    let Some((command, argument)) = typed.trim_start().split_once(char::is_whitespace) else { return false };
    let words: Vec<&str> = argument.split_whitespace().collect();
    match command {
        "\\i" | "\\o" | "\\e" | "\\g" => !argument.starts_with('|'),
        "\\copy" => {
            let is_last = |word: &str| word.eq_ignore_ascii_case("from") || word.eq_ignore_ascii_case("to");
            let before = if typed.ends_with(' ') { words.last() } else { words.iter().rev().nth(1) };
            words.len() > 1 && before.is_some_and(|word| is_last(word))
        }
        _ => false,
    }
}

/// Commands and their options, which need no names.
fn fixed(typed: &str) -> Option<(usize, Vec<String>)> {
    let start = typed.len() - typed.trim_start().len();
    let command = &typed[start..];
    if !command.starts_with('\\') {
        return None;
    }
    let Some((command, _)) = command.split_once(char::is_whitespace) else {
        let names = meta::NAMES.iter().filter(|name| name.starts_with(command));
        return Some((start, names.map(|name| (*name).to_owned()).collect()));
    };
    if command == "\\h" {
        let at = typed.find("\\h").unwrap_or(0) + 2;
        let wanted = typed[at..].trim_start();
        let from = typed.len() - wanted.len();
        let upper = wanted.to_uppercase();
        return Some((from, help::statements().filter(|name| name.starts_with(&upper)).map(str::to_owned).collect()));
    }
    let (_, options) = OPTIONS.iter().find(|(name, _)| *name == command)?;
    let word = word_start(typed);
    Some((word, options.iter().filter(|option| option.starts_with(&typed[word..])).map(|o| (*o).to_owned()).collect()))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '"' | '$')
}

fn word_start(typed: &str) -> usize {
    typed.rfind(|c| !is_word(c)).map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8))
}

/// Names that complete the last word of `typed`, and the position of that word.
fn candidates(pending: &str, typed: &str, names: &Names) -> (usize, Vec<String>) {
    let start = word_start(typed);
    let word = &typed[start..];
    let before = format!("{pending}\n{}", &typed[..start]);
    let words: Vec<String> =
        before.split(|c| !is_word(c)).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let mut found = BTreeSet::new();
    let matching = |name: &str| name.to_lowercase().starts_with(&word.to_lowercase());
    if let Some((qualifier, column)) = word.rsplit_once('.') {
        let owner = qualifier.trim_matches('"').to_lowercase();
        let table = table_of(&owner, &words, names);
        for (schema, of, name) in &names.columns {
            if table.as_deref() == Some(of.as_str()) && name.to_lowercase().starts_with(&column.to_lowercase()) {
                found.insert(format!("{qualifier}.{}", quoted(name)));
            }
            if *schema == owner && of.to_lowercase().starts_with(&column.to_lowercase()) {
                found.insert(format!("{qualifier}.{}", quoted(of)));
            }
        }
        return (start, found.into_iter().collect());
    }
    let last = words.last().map(String::as_str).unwrap_or_default();
    let is_command = typed.trim_start().starts_with('\\');
    let wants_table = is_command || matches!(last, "from" | "join" | "into" | "update" | "table" | "truncate" | "copy");
    for (schema, table, _) in &names.columns {
        if matching(table) {
            found.insert(if schema == "public" { quoted(table) } else { format!("{schema}.{}", quoted(table)) });
        }
    }
    if wants_table {
        return (start, found.into_iter().collect());
    }
    // Columns of the tables that the statement mentions come first; right after `SELECT` all columns are possible.
    let mentioned: Vec<&str> = names
        .columns
        .iter()
        .map(|(_, table, _)| table.as_str())
        .filter(|table| words.iter().any(|w| w == table))
        .collect();
    for (_, table, column) in &names.columns {
        if matching(column) && (mentioned.is_empty() || mentioned.contains(&table.as_str())) {
            found.insert(quoted(column));
        }
    }
    if !word.is_empty() {
        let is_lower = word.chars().all(|c| !c.is_uppercase());
        let keywords = KEYWORDS.split(' ').filter(|keyword| matching(keyword));
        found.extend(keywords.map(|keyword| if is_lower { keyword.to_lowercase() } else { keyword.to_owned() }));
        let functions = describe::function_names().into_iter().filter(|name| matching(name));
        found.extend(functions.map(|name| format!("{name}(")));
    }
    (start, found.into_iter().collect())
}

/// The table that `name` denotes: itself, or the table with this alias.
fn table_of(name: &str, words: &[String], names: &Names) -> Option<String> {
    let is_table = |name: &str| names.columns.iter().find(|(_, table, _)| table.to_lowercase() == name);
    if let Some((_, table, _)) = is_table(name) {
        return Some(table.clone());
    }
    let at = words.iter().enumerate().find(|(at, word)| {
        *word == name && *at > 0 && words[at - 1] != "from" && words[at - 1] != "join" && words[at - 1] != "by"
    });
    let (at, _) = at?;
    let before = match words[at - 1].as_str() {
        "as" => words.get(at.checked_sub(2)?)?,
        other => other,
    };
    let plain = before.rsplit('.').next().unwrap_or(before);
    is_table(plain.trim_matches('"')).map(|(_, table, _)| table.clone())
}

/// A name quoted for SQL where necessary.
fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let column = |schema: &str, table: &str, column: &str| (schema.to_owned(), table.to_owned(), column.to_owned());
        Names {
            columns: vec![
                column("public", "weather", "time"),
                column("public", "weather", "temp_c"),
                column("public", "weather", "Wind"),
                column("public", "orders", "id"),
                column("public", "orders", "temporary"),
                column("plant", "motors", "torque"),
            ],
        }
    }

    #[test]
    fn tab_offers_valid_completions() {
        for (pending, typed, expected) in [
            ("", "sel", vec!["select"]),
            ("", "SEL", vec!["SELECT"]),
            ("", "SELECT * FROM w", vec!["weather"]),
            ("", "SELECT * FROM ", vec!["orders", "plant.motors", "weather"]),
            ("", "SELECT * FROM weather WHERE temp", vec!["temp_c"]),
            ("SELECT *\nFROM weather", "WHERE temp", vec!["temp_c"]),
            ("", "SELECT temp", vec!["temp_c", "temporary"]),
            ("", "SELECT * FROM weather w WHERE w.t", vec!["w.temp_c", "w.time"]),
            ("", "SELECT * FROM weather AS w WHERE w.W", vec!["w.\"Wind\""]),
            ("", "SELECT * FROM plant.m", vec!["plant.motors"]),
            ("", "SELECT to_h", vec!["to_hex("]),
            ("", "SELECT regexp_m", vec!["regexp_match("]),
            ("", "\\d wea", vec!["weather"]),
        ] {
            assert_eq!(candidates(pending, typed, &names()).1, expected, "{typed}");
        }
        assert_eq!(candidates("", "SELECT * FROM w", &names()).0, 14);
    }

    #[test]
    fn commands_and_their_options_need_no_server() {
        assert_eq!(fixed("\\ti"), Some((0, vec!["\\timing".to_owned()])));
        assert_eq!(fixed("\\x a"), Some((3, vec!["auto".to_owned()])));
        assert_eq!(fixed("\\h create t"), Some((3, vec!["CREATE TABLE".to_owned()])));
        assert_eq!(fixed("\\d w"), None);
        assert_eq!(fixed("SELECT"), None);
        assert!(
            takes_file("\\i se") && takes_file("\\copy t FROM ") && !takes_file("\\copy t") && !takes_file("\\d t")
        );
    }
}
