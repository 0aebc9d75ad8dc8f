//! `FROM t FOR SYSTEM_TIME AS OF moment [[AS] alias]`: a `columns` table with history as it was.
//!
//! The parser knows these words in other dialects only. So they leave the statement before it is parsed, and the table's
//! name says the moment, behind a mark; who looks up tables finds it there. The table keeps its name as an alias, unless
//! it has another.
//!
//! A moment is a time, or `now()` less or plus an interval of fixed length.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, Value as Literal};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use engine::TableView;
use model::{Error, Result, SqlState, TableId};

use crate::context::StatementContext;
use crate::statement::{is_blank, is_word};

/// Before and behind the moment, in the name of a table.
const MARK: char = '\u{2}';
/// What a moment begins with, in such a name: a time as text, nanoseconds after `now()`, something else.
const TIME: char = 't';
const NOW: char = 'n';
const OTHER: char = 'x';

/// When a table is to be shown as of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Nanoseconds since 1970 UTC.
    At(i64),
    /// So many nanoseconds after the transaction began.
    AfterNow(i64),
}

/// Moves moments into the names of their tables.
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

/// The moment of a clause that begins at `at`, and where it ends.
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

/// The text of a time that is written out.
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

/// Nanoseconds of an interval, if it has a fixed length.
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

/// The moment that the name of a table says, and the table's own name; `None` where it says none.
///
/// # Errors
/// 22007 and 22008 for a time that cannot be read, 0A000 for what is no time.
pub(crate) fn read<'a>(name: &'a str, context: &StatementContext) -> Result<Option<(Moment, &'a str)>> {
    let Some((moment, table)) = name.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)) else {
        return Ok(None);
    };
    let unreadable = || {
        let shown = moment.strip_prefix(OTHER).unwrap_or(moment);
        Error::unsupported(format!("FOR SYSTEM_TIME AS OF {shown} is not supported"))
            .with_hint("give a time, or now() less an interval of fixed length")
    };
    let moment = if let Some(text) = moment.strip_prefix(TIME) {
        Moment::At(context.settings.zone().parse_timestamptz(text)?)
    } else {
        let ns = moment.strip_prefix(NOW).and_then(|ns| ns.parse().ok());
        Moment::AfterNow(ns.ok_or_else(unreadable)?)
    };
    Ok(Some((moment, table)))
}

/// The table as it was then.
///
/// # Errors
/// 55000 when it keeps no history; 22023 when that begins later, naming when.
pub(crate) fn view(context: &StatementContext, table: TableId, moment: Moment) -> Result<TableView> {
    let time = match moment {
        Moment::At(time) => time,
        Moment::AfterNow(ns) => context.now_ns.saturating_add(ns),
    };
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
