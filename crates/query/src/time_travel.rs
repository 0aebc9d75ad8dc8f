//! Time travel: `FROM t FOR SYSTEM_TIME AS OF moment [[AS] alias]` reads an earlier version of a `columns`
//! table that keeps history.
//!
//! The parser knows this clause in other dialects only. The clause is therefore removed before parsing, and
//! its moment is encoded in the table's name between two mark characters; the table lookup decodes it. The
//! table's own name becomes its alias unless the statement gives one.
//!
//! A moment is a time, or `now()` plus or minus an interval of fixed length.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, Value as Literal};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use engine::TableView;
use model::{Error, Result, SqlState, TableId};

use crate::context::StatementContext;
use crate::statement::{is_blank, is_word};

/// Delimits the moment in a table name: one mark before it and one after it.
const MARK: char = '\u{2}';
/// First character of an encoded moment: `t` a time as text, `n` nanoseconds after `now()`, `x` any other
/// expression.
const TIME: char = 't';
const NOW: char = 'n';
const OTHER: char = 'x';

/// Encodes each FOR SYSTEM_TIME clause in the name of its table.
pub(crate) fn prepare(tokens: &mut Vec<TokenWithSpan>) {
    if !tokens.iter().any(|token| is_word(token, "system_time")) {
        return;
    }
    tokens.retain(|token| !is_blank(token));
    let mut at = 1;
    while at < tokens.len() {
        if let Token::Word(table) = tokens[at - 1].token.clone()
            && let Some((moment, end)) = clause(tokens, at)
        {
            let name = folded(&table);
            let alias = if has_alias(tokens, end) { Vec::new() } else { alias(&name) };
            let span = tokens[at - 1].span;
            tokens[at - 1].token = quoted(format!("{MARK}{}{MARK}{name}", written(&moment)));
            tokens.splice(at..end, alias.into_iter().map(|token| TokenWithSpan { token, span }));
        }
        at += 1;
    }
}

/// Parses a clause at `at`. Returns its moment and the position after it.
fn clause(tokens: &[TokenWithSpan], at: usize) -> Option<(Expr, usize)> {
    let words = ["for", "system_time", "as", "of"];
    let is = |(place, word): (usize, &&str)| tokens.get(at + place).is_some_and(|token| is_word(token, word));
    if !words.iter().enumerate().all(is) {
        return None;
    }
    let rest = tokens[at + words.len()..].to_vec();
    let mut parser = compiled::parser(rest);
    let moment = parser.parse_expr().ok()?;
    Some((moment, at + words.len() + parser.index()))
}

fn has_alias(tokens: &[TokenWithSpan], at: usize) -> bool {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) => word.keyword == Keyword::AS || word.keyword == Keyword::NoKeyword,
        _ => false,
    }
}

fn alias(name: &str) -> Vec<Token> {
    let word = Token::Word(Word { value: "AS".into(), quote_style: None, keyword: Keyword::AS });
    vec![word, quoted(name.to_owned())]
}

fn quoted(value: String) -> Token {
    Token::Word(Word { value, quote_style: Some('"'), keyword: Keyword::NoKeyword })
}

fn folded(word: &Word) -> String {
    if word.quote_style.is_some() { word.value.clone() } else { word.value.to_lowercase() }
}

fn written(moment: &Expr) -> String {
    if let Some(text) = time_text(moment) {
        return format!("{TIME}{text}");
    }
    match after_now(moment) {
        Some(ns) => format!("{NOW}{ns}"),
        None => format!("{OTHER}{moment}"),
    }
}

/// Text of a time literal.
fn time_text(moment: &Expr) -> Option<&str> {
    match moment {
        Expr::Nested(inner) => time_text(inner),
        Expr::Value(value) => text_of(&value.value),
        Expr::TypedString(typed) if matches!(typed.data_type, ast::DataType::Timestamp(..)) => {
            text_of(&typed.value.value)
        }
        Expr::Cast { expr, data_type: ast::DataType::Timestamp(..), .. } => time_text(expr),
        _ => None,
    }
}

fn text_of(value: &Literal) -> Option<&str> {
    match value {
        Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

fn after_now(moment: &Expr) -> Option<i64> {
    match moment {
        Expr::Nested(inner) => after_now(inner),
        Expr::Function(function) if function.over.is_none() => {
            let name = function.name.to_string().to_ascii_lowercase();
            ["now", "current_timestamp", "transaction_timestamp"].contains(&name.as_str()).then_some(0)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => after_now(left)?.checked_sub(length(right)?),
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => after_now(left)?.checked_add(length(right)?),
        _ => None,
    }
}

/// Nanoseconds of an interval of fixed length; `None` for other intervals.
fn length(interval: &Expr) -> Option<i64> {
    let (text, unit) = match interval {
        Expr::Interval(interval) => {
            let Expr::Value(value) = interval.value.as_ref() else { return None };
            (text_of(&value.value)?, interval.leading_field.as_ref())
        }
        Expr::Cast { expr, data_type: ast::DataType::Interval { .. }, .. } => {
            let Expr::Value(value) = expr.as_ref() else { return None };
            (text_of(&value.value)?, None)
        }
        _ => return None,
    };
    let text = unit.map_or_else(|| text.to_owned(), |unit| format!("{text} {unit}"));
    let read = pg::time::parse_interval(&text).ok().filter(|read| read.months == 0)?;
    let days = i64::from(read.days).checked_mul(pg::time::DAY_MICROS)?;
    days.checked_add(read.micros)?.checked_mul(1_000)
}

/// Returns the table's view at a time, in nanoseconds since 1970 UTC.
///
/// # Errors
/// 55000 if the table keeps no history; 22023 if its history starts later, with that time in the message.
pub(crate) fn view(context: &StatementContext, table: TableId, time: i64) -> Result<TableView> {
    let view = context.snapshot.table_by_id(table)?;
    let from = view.state().history_from;
    if from == i64::MAX || time >= from {
        return view.as_of(time);
    }
    let mut shown = Vec::new();
    let zone = context.settings.zone();
    pg::time::timestamptz_text(&mut shown, pg::time::micros_of_ns(from), zone.offset_at(from));
    let text =
        format!("the history of table {} begins at {}", view.state().table.name, String::from_utf8_lossy(&shown));
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn prepared(sql: &str) -> String {
        let mut tokens = compiled::tokenize(sql).unwrap();
        prepare(&mut tokens);
        let words: Vec<String> =
            tokens.iter().filter(|token| !is_blank(token)).map(|token| token.token.to_string()).collect();
        words.join(" ").replace(MARK, "|")
    }

    #[test]
    fn moments_move_into_the_names_of_their_tables() {
        for (sql, expected) in [
            ("SELECT * FROM t", "SELECT * FROM t"),
            ("SELECT * FROM T FOR SYSTEM_TIME AS OF '2026-01-01'", r#"SELECT * FROM "|t2026-01-01|t" AS "t""#),
            (
                "SELECT v FROM s.t FOR SYSTEM_TIME AS OF timestamptz '2026-01-01' WHERE v > 1",
                r#"SELECT v FROM s . "|t2026-01-01|t" AS "t" WHERE v > 1"#,
            ),
            (
                "SELECT * FROM t FOR SYSTEM_TIME AS OF '2026-01-01'::timestamptz x JOIN u ON true",
                r#"SELECT * FROM "|t2026-01-01|t" x JOIN u ON true"#,
            ),
            (
                "SELECT * FROM a FOR SYSTEM_TIME AS OF now() - interval '1 hour' AS x, b FOR SYSTEM_TIME AS OF now()",
                r#"SELECT * FROM "|n-3600000000000|a" AS x , "|n0|b" AS "b""#,
            ),
            ("SELECT * FROM t FOR SYSTEM_TIME AS OF $1", r#"SELECT * FROM "|x$1|t" AS "t""#),
        ] {
            assert_eq!(prepared(sql), expected, "{sql}");
        }
    }
}
