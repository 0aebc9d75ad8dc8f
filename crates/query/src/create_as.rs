//! CREATE TABLE … AS: creates a table from the result of a query, in either store.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use model::{Error, Result, SqlState, Type};
use pg::types::oid;

use crate::rows::Arguments;
use crate::session::{Outcome, Session};
use crate::statement::{Command, Parsed, Statement, is_blank, is_word, parse};
use crate::syntax_rewrites::folded;

/// Adds a dummy type to each name in `(a, b) AS`: the parser requires one, and [`execute`] ignores it.
pub(crate) fn prepare(tokens: &mut Vec<TokenWithSpan>) {
    if !is_word(&tokens[0], "create") {
        return;
    }
    let Some(open) = tokens.iter().position(|token| token.token == Token::LParen) else { return };
    if !tokens[..open].iter().any(|token| is_word(token, "table")) {
        return;
    }
    let mut places = Vec::new();
    let mut words = (open + 1..tokens.len()).filter(|at| !is_blank(&tokens[*at]));
    loop {
        let (Some(name), Some(next)) = (words.next(), words.next()) else { return };
        if !matches!(tokens[name].token, Token::Word(_)) {
            return;
        }
        places.push(name);
        match tokens[next].token {
            Token::Comma => {}
            Token::RParen => break,
            _ => return,
        }
    }
    if !words.next().is_some_and(|at| is_word(&tokens[at], "as")) {
        return;
    }
    drop(words);
    for name in places.into_iter().rev() {
        let span = tokens[name].span;
        let ty = Word { value: "text".into(), quote_style: None, keyword: Keyword::TEXT };
        let blank = Token::Whitespace(Whitespace::Space);
        tokens.splice(name + 1..=name, [blank, Token::Word(ty)].map(|token| TokenWithSpan { token, span }));
    }
}

/// Creates the table and fills it by INSERT.
///
/// # Errors
/// Those of the query, of CREATE TABLE and of INSERT; 42601 for more names than columns.
pub(crate) async fn execute(
    session: &mut Session,
    parsed: &Parsed,
    create: &ast::CreateTable,
    query: &ast::Query,
) -> Result<Outcome> {
    let made = ast::CreateTable { query: None, columns: columns(session, parsed, create, query)?, ..create.clone() };
    let made = ast::Statement::CreateTable(made);
    let before = Arc::clone(session.newest().catalog());
    if crate::rows::define(session, parsed, &made).await?.is_none() {
        crate::ddl::execute(session, parsed, &made)?;
    }
    // IF NOT EXISTS, and the table exists.
    if Arc::ptr_eq(&before, session.newest().catalog()) {
        return Ok(Outcome::command("CREATE TABLE AS"));
    }
    let insert = statement(&format!("INSERT INTO {} {query}", create.name))?;
    let prepared = session.plan_statement(&insert, &[])?;
    let executed = session.execute_into(&prepared, Arguments::Values(&[]), None).await?;
    let crate::rows::Executed::Outcome(Outcome::Command { tag }) = executed else {
        return Err(Error::bug("an INSERT that gives rows"));
    };
    Ok(Outcome::command(tag.replacen("INSERT 0", "SELECT", 1)))
}

/// The columns of the query as column definitions, with the given names.
fn columns(
    session: &mut Session,
    parsed: &Parsed,
    create: &ast::CreateTable,
    query: &ast::Query,
) -> Result<Vec<ast::ColumnDef>> {
    let query = ast::Statement::Query(Box::new(query.clone()));
    let planned = session.plan_statement(&Statement::within(query, parsed.sql.clone(), parsed.offset), &[])?;
    let found = planned.columns().unwrap_or_default();
    if create.columns.len() > found.len() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    let mut given = create.columns.iter().map(|column| folded(&column.name));
    let mut list = Vec::new();
    for column in found {
        let name = given.next().unwrap_or_else(|| column.name.clone());
        let ty = match column.oid {
            oid::UNKNOWN => Some(Type::Text),
            known => Type::from_oid(known, column.typmod),
        };
        let Some(ty) = ty else {
            let text = format!("column \"{name}\" has a type that a table cannot have (OID {})", column.oid);
            return Err(Error::unsupported(text));
        };
        list.push(format!("\"{}\" {ty}", name.replace('"', "\"\"")));
    }
    let definition = statement(&format!("CREATE TABLE t ({})", list.join(", ")))?;
    match &definition.0.command {
        Command::Sql(ast::Statement::CreateTable(create)) => Ok(create.columns.clone()),
        _ => Err(Error::bug("a definition that is none")),
    }
}

/// A generated statement; its errors carry no position.
fn statement(sql: &str) -> Result<Statement> {
    let statement = parse(sql)?.into_iter().next().ok_or_else(|| Error::bug("no statement"))?;
    Ok(statement.without_place())
}
