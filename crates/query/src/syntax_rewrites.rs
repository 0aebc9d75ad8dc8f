//! Token rewrites, before parsing, of syntax of PostgreSQL and of other databases' shells that the parser
//! does not support.
//!
//! | written                                      | becomes                                          |
//! |----------------------------------------------|--------------------------------------------------|
//! | `a OPERATOR(pg_catalog.=) b`                 | `a = b`                                          |
//! | `CURRENT_SCHEMA`, `CURRENT_ROLE` as values   | `current_schema()`, `current_role()`             |
//! | `CREATE TABLE t (…) USING columns`           | `CREATE TABLE t (…) WITH (store = 'columns')`    |
//! | `millrace.public.t`                          | `public.t`: there is one database                |
//! | `BEGIN … [NOT] DEFERRABLE`, `SET TRANSACTION`| the same without it                              |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Ident, ObjectName, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use model::{Error, Result};

use crate::context::DATABASE;
use crate::statement::{is_blank, is_word};

/// Query of SHOW TABLES: all tables outside the system schemas.
const TABLES: &str = "SELECT n.nspname AS schema, c.relname AS name, \
    CASE a.amname WHEN 'heap' THEN 'rows' ELSE a.amname END AS store \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_catalog.pg_am a ON a.oid = c.relam \
    WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2";
/// Query of DESCRIBE; the table's name, as a string literal, is inserted between the two parts.
const COLUMNS: [&str; 2] = [
    "SELECT a.attname AS column, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, NOT a.attnotnull AS nullable \
     FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = ",
    "::regclass ORDER BY a.attnum",
];

/// An identifier in SQL's case folding: lower case unless quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// Rewrites the tokens of one statement.
pub(crate) fn prepare(tokens: &mut Vec<TokenWithSpan>) {
    plain_operators(tokens);
    keyword_functions(tokens);
    access_method(tokens);
    deferrable_transactions(tokens);
}

fn word(value: &str) -> Token {
    Token::make_word(value, None)
}

/// Positions of the first `count` tokens that are not blank.
fn heads(tokens: &[TokenWithSpan], count: usize) -> Vec<usize> {
    (0..tokens.len()).filter(|at| !is_blank(&tokens[*at]) && tokens[*at].token != Token::EOF).take(count).collect()
}

/// The query of the catalog that SHOW TABLES, DESCRIBE, DESC and SHOW COLUMNS FROM stand for; `None` for other statements.
pub(crate) fn listing(tokens: &[TokenWithSpan]) -> Option<String> {
    if !["show", "describe", "desc"].iter().any(|word| is_word(&tokens[0], word)) {
        return None;
    }
    let heads = heads(tokens, 16);
    let is = |at: usize, name: &str| heads.get(at).is_some_and(|at| is_word(&tokens[*at], name));
    let name_from = if is(0, "show") && is(1, "tables") && heads.len() == 2 {
        None
    } else if is(0, "describe") || is(0, "desc") {
        Some(if is(1, "table") { 2 } else { 1 })
    } else if is(0, "show") && (is(1, "columns") || is(1, "fields")) && (is(2, "from") || is(2, "in")) {
        Some(3)
    } else {
        return None;
    };
    match name_from.map(|from| heads.get(from..).unwrap_or_default()) {
        None => Some(TABLES.to_owned()),
        // A name: words separated by dots.
        Some(name) if !name.is_empty() && name.len() <= 5 => {
            let mut written = String::new();
            for (at, token) in name.iter().map(|at| &tokens[*at].token).enumerate() {
                match (at % 2, token) {
                    (0, Token::Word(_)) | (1, Token::Period) => written.push_str(&token.to_string()),
                    _ => return None,
                }
            }
            Some(format!("{}'{}'{}", COLUMNS[0], written.replace('\'', "''"), COLUMNS[1]))
        }
        Some(_) => None,
    }
}

/// Rewrites `OPERATOR(schema.op)` to `op`.
fn plain_operators(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at], "operator") {
            let rest: Vec<usize> = (at + 1..tokens.len()).filter(|at| !is_blank(&tokens[*at])).take(5).collect();
            if let [open, schema, period, operator, close] = rest[..]
                && tokens[open].token == Token::LParen
                && is_word(&tokens[schema], "pg_catalog")
                && tokens[period].token == Token::Period
                && tokens[close].token == Token::RParen
            {
                let operator = tokens[operator].token.clone();
                tokens[at].token = operator;
                tokens.drain(at + 1..=close);
            }
        }
        at += 1;
    }
}

/// Moves `USING method` of CREATE TABLE into the WITH clause.
fn access_method(tokens: &mut Vec<TokenWithSpan>) {
    if !is_word(&tokens[0], "create") || !heads(tokens, 4).iter().any(|at| is_word(&tokens[*at], "table")) {
        return;
    }
    let (mut depth, mut found) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth == 0 && is_word(token, "as") => break,
            _ if depth == 0 && is_word(token, "using") => {
                found = Some(at);
                break;
            }
            _ => {}
        }
    }
    let Some(using) = found else { return };
    let rest: Vec<usize> = (using + 1..tokens.len()).filter(|at| !is_blank(&tokens[*at])).take(3).collect();
    let Some((at, Token::Word(method))) = rest.first().map(|at| (*at, &tokens[*at].token)) else { return };
    // PostgreSQL's only method, `heap`, is the catalog's name for `rows`.
    let method = method.value.to_lowercase();
    let store = Token::SingleQuotedString(if method == "heap" { "rows".to_owned() } else { method });
    let span = tokens[using].span;
    let mut with = vec![word("WITH"), Token::LParen, word("store"), Token::Eq, store];
    let end = match rest.get(1..3) {
        Some([keyword, open]) if is_word(&tokens[*keyword], "with") && tokens[*open].token == Token::LParen => {
            with.push(Token::Comma);
            *open
        }
        _ => {
            with.push(Token::RParen);
            at
        }
    };
    let with = with.into_iter().map(|token| TokenWithSpan { token, span });
    tokens.splice(using..=end, with);
}

/// Removes `[NOT] DEFERRABLE` from BEGIN, START TRANSACTION, SET TRANSACTION and SET SESSION CHARACTERISTICS,
/// with one adjacent comma. The clause only controls whether a transaction waits for a safe snapshot in
/// PostgreSQL, and no transaction does so here.
fn deferrable_transactions(tokens: &mut Vec<TokenWithSpan>) {
    const STARTS: [&[&str]; 4] = [
        &["begin"],
        &["start", "transaction"],
        &["set", "transaction"],
        &["set", "session", "characteristics", "as", "transaction"],
    ];
    let begins = ["begin", "start", "set"].iter().any(|word| is_word(&tokens[0], word));
    if !begins || !tokens.iter().any(|token| is_word(token, "deferrable")) {
        return;
    }
    let first = heads(tokens, 5);
    let starts = |words: &&[&str]| {
        words.iter().enumerate().all(|(at, word)| first.get(at).is_some_and(|at| is_word(&tokens[*at], word)))
    };
    let Some(start) = STARTS.iter().copied().find(|words| starts(words)) else { return };
    let from = first[start.len() - 1] + 1;
    while let Some(at) = (from..tokens.len()).find(|at| is_word(&tokens[*at], "deferrable")) {
        let before = |at: usize| (from..at).rev().find(|at| !is_blank(&tokens[*at]));
        let after =
            |at: usize| (at + 1..tokens.len()).find(|at| !is_blank(&tokens[*at]) && tokens[*at].token != Token::EOF);
        let not = before(at).filter(|at| is_word(&tokens[*at], "not"));
        let (mut start, mut end) = (not.unwrap_or(at), at);
        let comma = |at: &usize| tokens[*at].token == Token::Comma;
        // A leading or trailing comma is kept, so that the parser reports it.
        if let Some(comma) = after(end).filter(comma)
            && after(comma).is_some()
        {
            end = comma;
        } else if let Some(comma) = before(start).filter(comma)
            && before(comma).is_some()
        {
            start = comma;
        }
        tokens.drain(start..=end);
    }
}

/// Adds parentheses to functions that are called without them, which the parser would read as columns.
fn keyword_functions(tokens: &mut Vec<TokenWithSpan>) {
    const NAMES: [&str; 2] = ["current_schema", "current_role"];
    let is_named = |token: &TokenWithSpan| NAMES.iter().any(|name| is_word(token, name));
    if !tokens.iter().any(is_named) {
        return;
    }
    // In these statements the word is a role, or the name of a setting.
    if ["set", "show", "reset", "grant", "revoke", "alter", "create", "drop"]
        .iter()
        .any(|word| is_word(&tokens[0], word))
    {
        return;
    }
    let mut at = 0;
    let mut before = Token::EOF;
    while at < tokens.len() {
        let here = tokens[at].token.clone();
        if is_blank(&tokens[at]) {
            at += 1;
            continue;
        }
        if is_named(&tokens[at]) {
            let after = (at + 1..tokens.len()).find(|at| !is_blank(&tokens[*at])).map(|at| &tokens[at].token);
            let is_alias = matches!(&before, Token::Word(word) if word.keyword == Keyword::AS);
            if before != Token::Period && !is_alias && !matches!(after, Some(Token::LParen | Token::Period)) {
                let span = tokens[at].span;
                let parentheses = [Token::LParen, Token::RParen].map(|token| TokenWithSpan { token, span });
                tokens.splice(at + 1..at + 1, parentheses);
                at += 2;
            }
        }
        before = here;
        at += 1;
    }
}

/// Removes the database from three-part table names.
///
/// # Errors
/// 0A000 for another database.
pub(crate) fn without_database(tokens: &[TokenWithSpan], statement: &mut ast::Statement) -> Result<()> {
    // Three-part names are rare, and scanning the tokens costs less than visiting the tree.
    let is_part = |token: Option<&TokenWithSpan>| token.is_some_and(|token| matches!(token.token, Token::Word(_)));
    let is_period = |token: Option<&TokenWithSpan>| token.is_some_and(|token| token.token == Token::Period);
    let is_long = |at: usize| {
        let of = |more: usize| tokens.get(at + more);
        is_part(of(0)) && is_period(of(1)) && is_part(of(2)) && is_period(of(3)) && is_part(of(4))
    };
    if !(0..tokens.len().saturating_sub(4)).any(is_long) {
        return Ok(());
    }
    match statement.visit(&mut Databases) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Removes the database from a three-part name.
///
/// # Errors
/// 0A000 for another database.
pub(crate) fn local(name: &mut ObjectName) -> Result<()> {
    if name.0.len() != 3 {
        return Ok(());
    }
    if name.0[0].as_ident().is_some_and(is_database) {
        name.0.remove(0);
        return Ok(());
    }
    Err(Error::unsupported(format!("cross-database references are not implemented: \"{name}\"")))
}

fn is_database(ident: &Ident) -> bool {
    folded(ident) == DATABASE
}

struct Databases;

impl VisitorMut for Databases {
    type Break = Error;

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<Error> {
        match local(name) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() == 4
            && is_database(&parts[0])
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}
