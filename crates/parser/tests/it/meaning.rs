//! Trees are PostgreSQL's: texts and trees of `tests/data`, which `tests/oracle/generate.py` recorded from libpg_query.

use parser::parse_all;
use parser::print::sexpr;

/// A text and its tree, `error` for none.
pub(crate) fn cases(data: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = data.split('\n');
    std::iter::from_fn(move || {
        let (text, tree) = (lines.next()?, lines.next()?);
        lines.next();
        Some((text, tree))
    })
}

pub(crate) const EXPRESSIONS: &str = include_str!("../data/expressions.txt");
pub(crate) const QUERIES: &str = include_str!("../data/queries.txt");

fn check(data: &str, count: usize) {
    let (mut seen, mut wrong) = (0, Vec::new());
    for (text, expected) in cases(data) {
        seen += 1;
        let tree = match parse_all(text) {
            Ok(parsed) => sexpr::statement(&parsed[0].statement),
            Err(_) => "error".to_owned(),
        };
        if tree != expected {
            wrong.push(format!("{text}\n  PostgreSQL {expected}\n  here       {tree}"));
        }
    }
    assert_eq!(seen, count);
    assert!(wrong.is_empty(), "{} of {seen} differ:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}

#[test]
fn random_expressions_have_postgresqls_trees() {
    check(EXPRESSIONS, 5000);
}

#[test]
fn random_queries_and_changes_have_postgresqls_trees() {
    check(QUERIES, 1000);
}
