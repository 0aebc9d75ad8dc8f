//! A tree as text parses to the same tree, and that one to the same text.

use parser::parse_all;

use crate::meaning::{EXPRESSIONS, QUERIES, cases};

fn check(sql: &str) {
    let Ok(parsed) = parse_all(sql) else { return };
    let text = parsed[0].statement.to_string();
    let again = parse_all(&text).unwrap_or_else(|error| panic!("{error}\n  {sql}\n  {text}"));
    assert_eq!(again[0].statement, parsed[0].statement, "{sql}\n  {text}");
    assert_eq!(again[0].statement.to_string(), text);
}

#[test]
fn random_queries_are_what_they_were() {
    cases(EXPRESSIONS).chain(cases(QUERIES)).for_each(|(sql, _)| check(sql));
}

#[test]
fn every_kind_of_statement_is_what_it_was() {
    let statements = include_str!("../data/statements.sql");
    let mut count = 0;
    for sql in statements.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()) {
        let parsed = parse_all(sql);
        assert!(parsed.is_ok(), "{}\n  {sql}", parsed.unwrap_err());
        check(sql);
        count += 1;
    }
    assert!(count > 250, "{count}");
}
