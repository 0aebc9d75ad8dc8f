//! The manual's page about functions: every example returns the documented result.

use crate::server::{Server, folder};

const PAGE: &str = include_str!("../../../../docs/manual/functions.md");

/// Cells of a table row; `&#124;` is an escaped bar.
fn cells(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("| ")?.strip_suffix(" |")?;
    Some(line.split(" | ").map(|cell| cell.trim().replace("&#124;", "|")).collect())
}

#[test]
fn every_example_of_the_manual_gives_the_documented_result() {
    let (_folder, data) = folder();
    let server = Server::start(&data);
    // Functions run on two executors: without a table in one, over a columns table in the other.
    server.sql("CREATE TABLE one (time timestamptz NOT NULL, v int) WITH (store = 'columns')");
    server.sql("INSERT INTO one VALUES ('2026-01-01', 1)");
    let (mut from, mut checked, mut wrong) = (String::new(), 0, Vec::new());
    for line in PAGE.lines() {
        if line.starts_with("## ") {
            from.clear();
        }
        if let Some(found) = line.strip_prefix("Examples are over `").and_then(|line| line.split('`').next()) {
            from = found.to_owned();
        }
        let Some(cells) = cells(line) else { continue };
        let [_, _, example] = &cells[..] else { panic!("{line}") };
        let Some((expression, expected)) = example.split_once(" → ") else { continue };
        let (expression, expected) = (expression.trim_matches('`'), expected.trim_matches('`'));
        let over_table = if from.is_empty() { "FROM one".to_owned() } else { from.replacen("FROM ", "FROM one, ", 1) };
        for from in [&from, &over_table] {
            let got = server.sql(&format!("SELECT {expression} AS x {from}"));
            let got = got.lines().nth(1).unwrap_or_default().trim_matches('"').to_owned();
            if got != expected {
                wrong.push(format!("{expression} {from}: the page says {expected}, the server {got}"));
            }
        }
        checked += 1;
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(checked > 50, "{checked} examples");
    server.stop();
}
