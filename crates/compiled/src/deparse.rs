//! Deparses defaults and CHECK conditions of `rows` tables as PostgreSQL shows them: with its implicit casts made
//! explicit, and in its two styles of parentheses.
//!
//! A table's schema stores them as SQL. `typed` resolves their operators and functions and adds the casts; `print`
//! writes the result: fully parenthesised, or, if pretty, with only the necessary parentheses. Unsupported expressions
//! are shown as stored.
//!
//! Both work on syntax trees, because [`pretty`] gets nothing but the text that [`default`] or [`condition`] wrote.

mod literal;
mod print;
#[cfg(test)]
mod tests;
mod typed;
mod types;

use model::{RowColumn, RowSchema};
use parser::parse_expr;

use self::typed::Typer;
use self::types::Ty;
use crate::stored_expressions;

/// A column's default, fully parenthesised, as in `pg_attrdef`.
#[must_use]
pub fn default(column: &RowColumn) -> Option<String> {
    // The default of an identity column is not listed: its sequence provides it.
    let sql = column.default.as_ref().filter(|_| column.identity.is_none())?;
    let shown = || print::print(&Typer { table: None }.assigned(&parse_expr(sql).ok()?, &Ty::of(column.ty))?, false);
    Some(shown().unwrap_or_else(|| sql.clone()))
}

/// A CHECK condition, fully parenthesised.
#[must_use]
pub fn condition(sql: &str, table: &RowSchema) -> String {
    let shown = || print::print(&Typer { table: Some(table) }.condition(&parse_expr(sql).ok()?)?, false);
    shown().unwrap_or_else(|| sql.to_owned())
}

/// Reprints a result of [`default`] or [`condition`] with few parentheses.
#[must_use]
pub fn pretty(sql: &str) -> String {
    let shown = || print::print(&parse_expr(sql).ok()?, true);
    shown().unwrap_or_else(|| sql.to_owned())
}

/// Positions of the columns in a condition, without duplicates, in order of occurrence.
#[must_use]
pub fn columns(sql: &str, table: &RowSchema) -> Vec<usize> {
    stored_expressions::columns(sql, table).unwrap_or_default()
}
