//! sqllogictest's file format, as much of it as the files use: `statement ok|count N|error REGEX-free text`, `query TYPES [sort]`,
//! `connection NAME`, `halt`, comments. Our own because the crate of that name would more than double what this test compiles.

use std::collections::BTreeMap;

use crate::client::{Client, Fixture, Output, Storage};

/// Runs one file.
pub(crate) async fn run(text: &str, fixture: &Fixture, storage: Storage) -> Result<(), String> {
    let mut clients: BTreeMap<String, Client> = BTreeMap::new();
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
                let client = clients.entry(connection.clone()).or_insert_with(|| Client::new(fixture, storage));
                record(client, line, &words, &block).await.map_err(|error| format!("line {}: {error}", number + 1))?;
            }
            _ => return Err(format!("line {}: what is {line:?}?", number + 1)),
        }
    }
    Ok(())
}

async fn record(client: &mut Client, line: &str, words: &[&str], block: &[&str]) -> Result<(), String> {
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

/// Columns are set apart by any blanks.
fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
