//! Column pruning by name: collects the names in a statement, so that planning sees only these columns of a table with
//! thousands of columns.
//!
//! Always true: every column that the statement may refer to is in the set. The set may have more names, because every
//! word of the text is added, whatever its role.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, SelectItem, Statement, TableFactor, Visit, Visitor,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use rustc_hash::FxHashSet;

/// The columns that a statement may refer to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mentions {
    /// All columns: the statement has a `*`, or another construct that refers to columns without naming them.
    All,
    /// At most these names; not all of them are columns.
    Named(FxHashSet<String>),
}

impl Mentions {
    /// Collects the names of a statement. `sql` contains the text of the statement, or the text from which it was
    /// derived without any new name except `*`.
    pub(crate) fn of(sql: &str, statement: &Statement) -> Mentions {
        if statement.visit(&mut Unnamed).is_break() {
            return Mentions::All;
        }
        let Ok(tokens) = compiled::tokenize(sql) else { return Mentions::All };
        let mut named = FxHashSet::default();
        for token in tokens {
            let Token::Word(word) = token.token else { continue };
            if word.quote_style.is_none() {
                if stands_for_columns(word.keyword) {
                    return Mentions::All;
                }
                named.insert(word.value.to_ascii_lowercase());
                named.insert(word.value.to_lowercase());
            }
            named.insert(word.value);
        }
        Mentions::Named(named)
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        match self {
            Mentions::All => true,
            Mentions::Named(names) => names.contains(column),
        }
    }
}

fn stands_for_columns(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::NATURAL | Keyword::TABLE | Keyword::PIVOT | Keyword::UNPIVOT | Keyword::COLUMNS)
}

/// Breaks at a construct that refers to columns without naming them; [`stands_for_columns`] covers keywords.
struct Unnamed;

impl Visitor for Unnamed {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let is_wildcard =
            |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        break_if(select.projection.iter().any(is_wildcard))
    }

    /// `t(a, b)` refers to columns by position.
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { alias, .. }
            | TableFactor::Derived { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::TableFunction { alias, .. }
            | TableFactor::NestedJoin { alias, .. } => {
                break_if(alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()))
            }
            TableFactor::UNNEST { .. } => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        break_if(match expr {
            Expr::Wildcard(_) | Expr::QualifiedWildcard(..) => true,
            Expr::Function(function) => match &function.args {
                // `count(*)` counts rows and needs no column; `count(t.*)` counts rows that are not NULL.
                FunctionArguments::List(list) => list
                    .args
                    .iter()
                    .any(|argument| matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))),
                _ => false,
            },
            _ => false,
        })
    }
}

fn break_if(condition: bool) -> ControlFlow<()> {
    if condition { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    fn mentions(sql: &str) -> Mentions {
        let parsed = parse(sql).unwrap();
        let Command::Sql(statement) = &parsed[0].0.command else { panic!("not SQL") };
        Mentions::of(sql, statement)
    }

    #[test]
    fn every_word_is_a_mention_in_both_cases() {
        let mentions =
            mentions("SELECT Max(S_1), \"S_2\", count(*), 2 * a * (b) * c, ÄB FROM t WHERE x = 's_3' -- s_4");
        for name in ["s_1", "S_1", "S_2", "a", "b", "c", "t", "x", "max", "Äb", "äb"] {
            assert!(mentions.has(name), "{name}");
        }
        for name in ["s_2", "s_3", "s_4"] {
            assert!(!mentions.has(name), "{name}");
        }
    }

    #[test]
    fn what_stands_for_columns_without_their_names_needs_all() {
        for sql in [
            "SELECT * FROM t",
            "SELECT DISTINCT * FROM t",
            "SELECT DISTINCT ON (dev) * FROM t",
            "SELECT a, t.* FROM t",
            "SELECT - -1 AS k, * FROM t",
            "SELECT 'a''' AS l, * FROM t WHERE s <> 'b'''",
            "SELECT a FROM t WHERE EXISTS (SELECT * FROM u)",
            "SELECT a FROM t NATURAL JOIN u",
            "SELECT f7 FROM t AS w(a, b, f7)",
            "SELECT count(t.*) FROM t",
            "INSERT INTO u SELECT * FROM t",
        ] {
            assert_eq!(mentions(sql), Mentions::All, "{sql}");
        }
        assert_ne!(mentions("SELECT value * 2, count(*) FROM t AS w"), Mentions::All);
    }
}
