//! `ASOF JOIN`: joins each row of the left table with the right row nearest in time, in one direction.
//!
//! Two syntaxes are accepted, each with the meaning of its origin:
//! - `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k` (Snowflake): a left join; every row of `a` is returned.
//! - `a ASOF [LEFT] JOIN b ON a.k = b.k AND a.t >= b.t` (DuckDB): without LEFT an inner join; rows of `a` without a
//!   match are dropped.
//!
//! Queries with it are bound from the tree of our own parser. The other parser accepts only the first syntax and would take
//! the second for a join of a table with the alias `asof`, so the second is rewritten to the first before it.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::statement::{is_blank, is_word};

/// Marker strings for the MATCH_CONDITION of the DuckDB syntax.
const INNER: &str = "asof inner";
const LEFT: &str = "asof left";

/// Rewrites joins in the DuckDB syntax to the Snowflake syntax that the parser accepts.
pub(crate) fn prepare(tokens: &mut Vec<TokenWithSpan>) {
    let has = |word: &str| tokens.iter().any(|token| is_word(token, word));
    if !has("asof") || !has("join") {
        return;
    }
    tokens.retain(|token| !is_blank(token));
    let mut at = 0;
    while at < tokens.len() {
        let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| is_word(token, word));
        let mut mark = INNER;
        let mut after = at + 1;
        if is(after, "left") {
            mark = LEFT;
            after += 1 + usize::from(is(after + 1, "outer"));
        }
        if !is(at, "asof") || !is(after, "join") {
            at += 1;
            continue;
        }
        tokens.drain(at + 1..after);
        at += 2;
        if let Some(on) = condition(tokens, at) {
            let span = tokens[on].span;
            let word =
                |value: &str, quote_style, keyword| Token::Word(Word { value: value.into(), quote_style, keyword });
            let made = [
                word("MATCH_CONDITION", None, Keyword::MATCH_CONDITION),
                Token::LParen,
                word(mark, Some('"'), Keyword::NoKeyword),
                Token::RParen,
            ];
            tokens.splice(on..on, made.into_iter().map(|token| TokenWithSpan { token, span }));
        }
    }
}

/// The token of the ON or USING clause of the join whose table begins at `at`; `None` if the join has a
/// MATCH_CONDITION.
fn condition(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(at) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ if is_word(token, "on") || is_word(token, "using") => return Some(at),
            _ if ["match_condition", "join", "where", "group", "order"].iter().any(|word| is_word(token, word)) => {
                return None;
            }
            _ => {}
        }
    }
    None
}
