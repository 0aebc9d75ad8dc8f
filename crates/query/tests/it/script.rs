//! Subset of sqllogictest's file format: `statement ok|count N|error REGEX-free text`, `query TYPES [sort]`,
//! `connection NAME`, `halt`, comments. Own implementation, because the crate of that name would more than double the
//! code compiled for this test.

//! Shared with the tests of the binary, which run the same files over the wire.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A client that runs statements.
pub(crate) trait Connection: Sized {
    /// Runs a text with any number of statements; errors are formatted as `SQLSTATE: message [position] (hint)`.
    async fn run(&mut self, sql: &str) -> Result<Output, String>;
}

/// Result of a statement as scripts see it.
#[derive(Debug)]
pub(crate) enum Output {
    /// Column kinds, one letter each (I integer, R other number, T anything else), and the rows as lines.
    Rows(String, Vec<String>),
    /// Row count of the command tag.
    Done(u64),
}

/// All `.slt` files of `tests/sql`, sorted by path; `SLT_ONLY=part of a path` selects those whose path contains it.
pub(crate) fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql");
    let mut found = Vec::new();
    collect(&root, &mut found);
    assert!(!found.is_empty(), "no tests in {}", root.display());
    if let Ok(only) = std::env::var("SLT_ONLY") {
        found.retain(|path| path.to_string_lossy().contains(&only));
    }
    found
}

fn collect(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "slt") {
            out.push(path);
        }
    }
}

/// Column kind for a type's OID.
pub(crate) fn kind(oid: u32) -> char {
    match oid {
        20 | 21 | 23 => 'I',
        700 | 701 | 1700 => 'R',
        _ => 'T',
    }
}

/// Cell in the file's format, in which blanks separate columns.
pub(crate) fn shown_cell(cell: Option<&str>) -> String {
    match cell {
        None => "NULL".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(text) => text.split_whitespace().collect::<Vec<_>>().join("_"),
    }
}

/// Runs one file; `connect` opens its connections.
pub(crate) async fn run<C: Connection>(path: &Path, mut connect: impl AsyncFnMut() -> C) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap();
    let failed = |error| format!("{}: {error}", path.display());
    run_text(&text, &mut connect).await.map_err(failed)
}

async fn run_text<C: Connection>(text: &str, connect: &mut impl AsyncFnMut() -> C) -> Result<(), String> {
    let mut clients: BTreeMap<String, C> = BTreeMap::new();
    let mut connection = String::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["halt"] => return Ok(()),
            ["connection", name] => connection = (*name).to_owned(),
            ["statement" | "query", ..] => {
                let mut block = Vec::new();
                while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
                    block.push(line);
                }
                if !clients.contains_key(&connection) {
                    clients.insert(connection.clone(), connect().await);
                }
                let client = clients.get_mut(&connection).unwrap();
                record(client, line, &words, &block).await.map_err(|error| format!("line {}: {error}", number + 1))?;
            }
            _ => return Err(format!("line {}: what is {line:?}?", number + 1)),
        }
    }
    Ok(())
}

async fn record(client: &mut impl Connection, line: &str, words: &[&str], block: &[&str]) -> Result<(), String> {
    let cut = block.iter().position(|line| *line == "----").unwrap_or(block.len());
    let sql = block[..cut].join("\n");
    let output = client.run(&sql).await;
    match words {
        ["statement", "ok"] => output.map(drop).map_err(|error| format!("{sql}\n  failed: {error}")),
        ["statement", "count", count] => match output {
            Ok(Output::Done(found)) if found.to_string() == **count => Ok(()),
            other => Err(format!("{sql}\n  expected count {count}, got {other:?}")),
        },
        ["statement" | "query", "error", ..] => {
            let expected = line.split_once("error").map_or("", |(_, rest)| rest.trim());
            match output {
                Err(error) if error.contains(expected) => Ok(()),
                other => Err(format!("{sql}\n  expected error: {expected}\n  got: {other:?}")),
            }
        }
        ["query", types, rest @ ..] => {
            let (found_types, mut rows) = match output {
                Ok(Output::Rows(types, rows)) => (types, rows),
                other => return Err(format!("{sql}\n  expected rows, got {other:?}")),
            };
            let mut expected: Vec<String> =
                block.get(cut + 1..).unwrap_or_default().iter().map(|line| squeeze(line)).collect();
            if rest.contains(&"rowsort") {
                rows.sort();
                expected.sort();
            }
            if found_types != **types {
                return Err(format!("{sql}\n  expected types {types}, got {found_types}"));
            }
            if rows != expected {
                return Err(format!("{sql}\n  expected:\n{}\n  got:\n{}", expected.join("\n"), rows.join("\n")));
            }
            Ok(())
        }
        _ => Err(format!("what is {line:?}?")),
    }
}

/// Normalises the blanks between columns.
fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
