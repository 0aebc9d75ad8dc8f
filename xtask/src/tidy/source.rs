//! Restricted words: names that only some files may use, searched for outside comments and strings.

use super::{Finding, SourceFile, mask};

/// Words that are not allowed in some files.
struct Ban {
    /// Whether the rule applies to a file.
    applies: fn(&str) -> bool,
    /// Whether it applies to tests too.
    in_tests: bool,
    words: &'static [&'static str],
    reason: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        applies: |path| {
            in_crates(path, &["model", "wal", "columns", "rows", "compiled", "engine", "ingest", "parser", "pg"])
        },
        in_tests: false,
        words: &["std::fs", "fs::File", "fs::read", "fs::write", "File::open", "File::create", "OpenOptions"],
        reason: "below `query` only `env` opens a file",
    },
    Ban {
        applies: |path| {
            in_crates(
                path,
                &["model", "wal", "columns", "rows", "compiled", "engine", "ingest", "parser", "pg", "query"],
            )
        },
        in_tests: false,
        words: &["Instant", "SystemTime", "UNIX_EPOCH", "Timestamp::now", "Zoned::now", "Utc::now", "Local::now"],
        reason: "only `env` reads the clock",
    },
    Ban {
        applies: |path| {
            in_crates(path, &["model", "wal", "columns", "rows", "compiled", "engine", "ingest", "parser", "pg"])
        },
        in_tests: false,
        words: &["std::thread", "thread::spawn", "thread::sleep", "Condvar", "mpsc", "Barrier", "rayon"],
        reason: "at and below `engine` only `env` starts a thread, sleeps or blocks",
    },
    Ban {
        applies: |path| in_crates(path, &["model", "wal", "columns", "rows", "compiled", "engine"]),
        in_tests: false,
        words: &["rand::", "getrandom", "RandomState", "collections::HashMap", "collections::HashSet"],
        reason: "only `env` draws random numbers, and std's maps are seeded at random (use rustc_hash)",
    },
    Ban {
        applies: |path| {
            in_crates(
                path,
                &["model", "env", "wal", "columns", "rows", "compiled", "engine", "ingest", "parser", "pg", "sim"],
            )
        },
        in_tests: true,
        words: &["tokio", "async fn", "futures"],
        reason: "engine calls are synchronous; tokio is named in `query` and above",
    },
    Ban {
        applies: |path| path.starts_with("crates/") && !in_crates(path, &["query", "relational"]),
        in_tests: true,
        words: &["datafusion::"],
        reason: "DataFusion is named only in `query` and `relational`",
    },
    Ban {
        applies: |path| path.starts_with("crates/"),
        in_tests: true,
        words: &["sqlparser::", "datafusion::sql"],
        reason: "SQL is parsed by `parser` alone",
    },
    Ban {
        applies: |path| path.starts_with("crates/") && !in_crates(path, &["server", "epics", "millrace", "bench"]),
        in_tests: false,
        words: &["TcpListener", "TcpStream", "UdpSocket", "UnixStream", "UnixListener"],
        reason: "sockets are the server's (and those of EPICS's clients, of the client commands and of `bench`)",
    },
    Ban {
        applies: |path| path.starts_with("crates/millrace/src/"),
        in_tests: false,
        words: &["TcpListener", "UdpSocket", "UnixListener"],
        reason: "the binary's client side connects; only `server` listens",
    },
    Ban {
        applies: |path| in_crates(path, &["wal"]),
        in_tests: true,
        words: &["columns", "engine", "arrow", "Schema", "SeriesId", "TableId"],
        reason: "`wal` cannot decode a record",
    },
    Ban {
        applies: |path| in_crates(path, &["columns"]),
        in_tests: true,
        words: &["wal::", "engine::", "rows_store::", "search::"],
        reason: "stores do not know each other",
    },
    Ban {
        applies: |path| in_crates(path, &["columns"]),
        in_tests: false,
        words: &["Open::ReadWrite", "set_bytes"],
        reason: "a segment never changes after its rename: `columns` makes files and reads them",
    },
    Ban {
        applies: |path| in_crates(path, &["engine"]) && !path.starts_with("crates/engine/src/commit"),
        in_tests: false,
        words: &["wal.append", "log.append", "Wal::append"],
        reason: "there is one commit point, `engine::commit`",
    },
    Ban {
        applies: |path| path.ends_with(".rs"),
        in_tests: true,
        words: &["todo!", "dbg!", "unimplemented!"],
        reason: "what is not there yet is not stubbed",
    },
];

fn in_crates(path: &str, crates: &[&str]) -> bool {
    let Some(rest) = path.strip_prefix("crates/") else { return false };
    let Some((name, file)) = rest.split_once('/') else { return false };
    crates.contains(&name) && file.ends_with(".rs")
}

/// Recognises test files by path; tests inside other files are recognised by their attribute.
pub(super) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.ends_with("_test.rs")
        || path.contains("/benches/")
        || path.contains("/examples/")
        || path.starts_with("crates/sim/")
}

/// Checks all rules about words.
pub(super) fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some(text) = &file.text else { continue };
        check_file(&file.path, text, &mut findings);
    }
    findings
}

fn check_file(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let code = mask::code(text);
    let shipped = mask::without_tests(&code);
    for ban in BANS.iter().filter(|ban| (ban.applies)(path)) {
        if !ban.in_tests && is_test_file(path) {
            continue;
        }
        let searched = if ban.in_tests { &code } else { &shipped };
        for (number, line) in searched.lines().enumerate() {
            if let Some(word) = ban.words.iter().find(|word| has_word(line, word)) {
                findings.push(Finding::new(path, number + 1, format!("names `{word}`: {}", ban.reason)));
            }
        }
    }
    if path.contains("/src/") && !text.trim_start().starts_with("//!") {
        findings.push(Finding::new(path, 1, "does not start with `//!`: describe the module and its invariants"));
    }
}

/// Whether `line` contains `word`, not as part of a longer name. Lists in braces count: `std::{fs, thread}`
/// contains both.
fn has_word(line: &str, word: &str) -> bool {
    if plain_word(line, word) {
        return true;
    }
    match word.rsplit_once("::") {
        Some((parent, leaf)) if !leaf.is_empty() => {
            let open = format!("{parent}::{{");
            line.split(&open).skip(1).any(|rest| {
                let inside = rest.split('}').next().unwrap_or(rest);
                inside.split(',').any(|item| item.trim() == leaf || item.trim().starts_with(&format!("{leaf}::")))
            })
        }
        _ => false,
    }
}

fn plain_word(line: &str, word: &str) -> bool {
    let name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let open_end = word.ends_with(|last: char| !last.is_alphanumeric() && last != '_');
        !name(before) && (open_end || !name(bytes.get(at + word.len())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check_file(path, &format!("//! x\n{text}"), &mut findings);
        findings.len()
    }

    #[test]
    fn each_rule_catches_its_case_and_spares_the_allowed_place() {
        let cases = [
            ("crates/engine/src/flush.rs", "use std::fs;", 1),
            ("crates/engine/src/flush.rs", "use std::{fs, sync::Arc};", 1),
            ("crates/env/src/real.rs", "use std::fs;", 0),
            ("crates/engine/src/flush.rs", "// std::fs is env's\nlet x = \"std::fs\";", 0),
            ("crates/engine/src/flush.rs", "#[cfg(test)]\nmod tests { use std::fs; }", 0),
            ("crates/columns/src/state.rs", "let now = Instant::now();", 1),
            ("crates/columns/src/state.rs", "struct InstantValue;", 0),
            ("crates/wal/src/lib.rs", "use columns::Rows;", 1),
            ("crates/server/src/pg.rs", "use datafusion::prelude::*;", 1),
            ("crates/server/src/pg.rs", "use tokio::net::TcpListener;", 0),
            ("crates/query/src/lib.rs", "use tokio::net::TcpListener;", 1),
            ("crates/engine/src/flush.rs", "self.wal.append(&records, Space::Ordinary)?;", 1),
            ("crates/engine/src/commit.rs", "self.wal.append(&records, Space::Ordinary)?;", 0),
            ("crates/engine/src/flush.rs", "use std::collections::HashMap;", 1),
            ("crates/relational/src/lib.rs", "use datafusion::sql::sqlparser::ast;", 1),
            ("crates/query/src/lib.rs", "todo!()", 1),
        ];
        for (path, text, expected) in cases {
            assert_eq!(problems(path, text), expected, "{path}: {text}");
        }
    }
}
