//! Deparses defaults and CHECK conditions of `rows` tables as PostgreSQL shows them: with its implicit casts made
//! explicit, and in its two styles of parentheses.
//!
//! A table's schema stores them as SQL. `typed` resolves their operators and functions and adds the casts; `print`
//! writes the result: fully parenthesised, or, if pretty, with only the necessary parentheses. Unsupported expressions
//! are shown as stored.
//!
//! Both work on syntax trees, because [`pretty`] gets nothing but the text that [`default`] or [`condition`] wrote.
//! Their texts have the references of user types and the schemas of users' functions: [`with_names`] replaces them by
//! what a session sees.

mod literal;
mod print;
#[cfg(test)]
mod tests;
mod typed;
mod types;

use model::{Lineage, RowColumn, RowSchema, TableId, TableName, Type, user_types};
use parser::lexer::{Lexer, Token, TokenKind};
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

/// An expression over the columns of a table, fully parenthesised.
#[must_use]
pub fn expression(sql: &str, table: &RowSchema) -> String {
    let shown = || print::print(&Typer { table: Some(table) }.value(&parse_expr(sql).ok()?)?, false);
    shown().unwrap_or_else(|| sql.to_owned())
}

/// A CHECK condition of a domain over a base type; `is_pretty`: with few parentheses.
#[must_use]
pub fn domain_condition(sql: &str, base: Type, is_pretty: bool) -> String {
    let schema = RowSchema {
        id: TableId(0),
        name: TableName::public(""),
        version: 1,
        lineage: Lineage::default(),
        columns: vec![RowColumn::new(binder::VALUE, base)],
        primary: None,
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let text = condition(sql, &schema);
    let text = if is_pretty { pretty(&text) } else { text };
    let mut shown = String::with_capacity(text.len());
    let (mut lexer, mut done) = (Lexer::new(&text), 0);
    while let Ok(token) = lexer.next() {
        if token.kind == TokenKind::End {
            break;
        }
        let (start, end) = (token.start as usize, token.end as usize);
        if token.kind == TokenKind::Word && text.get(start..end) == Some(binder::VALUE) {
            shown.push_str(&text[done..start]);
            shown.push_str("VALUE");
            done = end;
        }
    }
    shown.push_str(&text[done..]);
    shown
}

/// A text of this module with the names of user types for their references, and without the schemas of those functions
/// that are visible by schema and name.
#[must_use]
pub fn with_names(
    sql: &str,
    type_name: impl Fn(u32) -> Option<String>,
    is_visible: impl Fn(&str, &str) -> bool,
) -> String {
    if !sql.contains('.') {
        return sql.to_owned();
    }
    let (mut lexer, mut tokens) = (Lexer::new(sql), Vec::new());
    while let Ok(token) = lexer.next() {
        if token.kind == TokenKind::End {
            break;
        }
        tokens.push(token);
    }
    let name = |token: &Token| match token.kind {
        TokenKind::Word | TokenKind::QuotedName => token.name(sql).ok(),
        _ => None,
    };
    let (mut shown, mut done) = (String::with_capacity(sql.len()), 0);
    for (at, three) in tokens.windows(3).enumerate() {
        let [schema, dot, own] = three else { continue };
        let (TokenKind::Dot, Some(schema_name), Some(own_name)) = (dot.kind, name(schema), name(own)) else { continue };
        let is_call = tokens.get(at + 3).is_some_and(|next| next.kind == TokenKind::LeftParen);
        let replaced = match user_types::referred(&own_name) {
            Some(oid) if schema_name == "pg_catalog" => type_name(oid),
            _ => (is_call && is_visible(&schema_name, &own_name)).then(|| own.text(sql).to_owned()),
        };
        let Some(replaced) = replaced else { continue };
        shown.push_str(&sql[done..schema.start as usize]);
        shown.push_str(&replaced);
        done = own.end as usize;
    }
    shown.push_str(&sql[done..]);
    shown
}

/// A text of this module for messages, which have no schemas.
pub(crate) fn without_schemas(sql: &str) -> String {
    with_names(sql, |oid| user_types::name(oid).map(str::to_owned), |_, _| true)
}

/// Reprints a result of [`default`] or [`condition`] with few parentheses.
#[must_use]
pub fn pretty(sql: &str) -> String {
    let shown = || print::print(&parse_expr(sql).ok()?, true);
    shown().unwrap_or_else(|| sql.to_owned())
}

/// The expression of a generated column, also of a hidden one, fully parenthesised; `None` for other columns.
#[must_use]
pub fn generated(column: &RowColumn, table: &RowSchema) -> Option<String> {
    let sql = column.generated.as_ref()?;
    let typer = Typer { table: Some(table) };
    let shown = || {
        let parsed = parse_expr(sql).ok()?;
        let typed = if column.is_hidden() { typer.value(&parsed) } else { typer.assigned(&parsed, &Ty::of(column.ty)) };
        print::print(&typed?, false)
    };
    Some(shown().unwrap_or_else(|| sql.clone()))
}

/// A key of an index: the name of a column, or an expression as it stands in a list of keys.
#[must_use]
pub fn key(table: &RowSchema, at: usize, is_pretty: bool) -> String {
    let column = &table.columns[at];
    let Some(text) = column.generated.as_ref().filter(|_| column.is_hidden()).and_then(|_| generated(column, table))
    else {
        return crate::ddl::quoted(&column.name);
    };
    let text = if is_pretty { pretty(&text) } else { text };
    use parser::ast::ExprKind as E;
    let is_call = |kind: &E| {
        let is_extreme = matches!(kind, E::Greatest(_) | E::Least(_));
        is_extreme || matches!(kind, E::Function(_) | E::Coalesce(_) | E::NullIf(_) | E::SqlValue(_))
    };
    if parse_expr(&text).is_ok_and(|expr| is_call(&expr.kind)) { text } else { format!("({text})") }
}

/// A key of an index in messages about its values.
pub(crate) fn key_name(table: &RowSchema, at: usize) -> String {
    match table.columns[at].is_hidden() {
        true => without_schemas(&key(table, at, true)),
        false => table.columns[at].name.clone(),
    }
}

/// Positions of the columns in a condition, without duplicates, in order of occurrence.
#[must_use]
pub fn columns(sql: &str, table: &RowSchema) -> Vec<usize> {
    stored_expressions::columns(sql, table).unwrap_or_default()
}
