//! `ASOF JOIN`: joins each row of the left table with the right row nearest in time, in one direction.
//!
//! Two syntaxes are accepted, each with the meaning of its origin:
//! - `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t) ON a.k = b.k` (Snowflake): a left join; every row of `a` is returned.
//! - `a ASOF [LEFT] JOIN b ON a.k = b.k AND a.t >= b.t` (DuckDB): without LEFT an inner join; rows of `a` without a
//!   match are dropped.
//!
//! The parser accepts only the first syntax, so the second is rewritten to it with a marker string as its condition.
//! Then both become ordinary joins with the comparison of times wrapped in a function call, which [`crate::functions`]
//! recognises in the plan.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName, Select,
    VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};
use model::{Error, Result, SqlState};

use crate::functions::NEAREST;
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

/// Rewrites ASOF joins to ordinary joins.
///
/// # Errors
/// 42601 for a condition without exactly one comparison of times; 0A000 for USING.
pub(crate) fn rewrite(statement: &mut ast::Statement) -> Result<()> {
    match statement.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
        for join in joins {
            if let JoinOperator::AsOf { match_condition, constraint } = &join.join_operator {
                match ordinary(match_condition, constraint) {
                    Ok(operator) => join.join_operator = operator,
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

fn ordinary(matching: &Expr, constraint: &JoinConstraint) -> Result<JoinOperator> {
    let mut equal = match constraint {
        JoinConstraint::On(on) => conjuncts(on),
        JoinConstraint::None => Vec::new(),
        JoinConstraint::Using(_) | JoinConstraint::Natural => {
            let hint = "write ON left.key = right.key";
            return Err(Error::unsupported("ASOF JOIN with USING or NATURAL is not supported").with_hint(hint));
        }
    };
    let mark = match matching {
        Expr::Identifier(Ident { value, quote_style: Some('"'), .. }) => Some(value.as_str()),
        _ => None,
    };
    let is_inner = mark == Some(INNER);
    let time = if is_inner || mark == Some(LEFT) { of_times(&mut equal)? } else { matching.clone() };
    if !is_of_times(&time) {
        return Err(no_comparison());
    }
    let on = equal.into_iter().fold(nearest(time), |all, one| Expr::BinaryOp {
        left: Box::new(one),
        op: BinaryOperator::And,
        right: Box::new(all),
    });
    let on = JoinConstraint::On(on);
    Ok(if is_inner { JoinOperator::Inner(on) } else { JoinOperator::LeftOuter(on) })
}

fn no_comparison() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "ASOF JOIN needs one comparison of times by >=, >, <= or <")
        .with_hint("for example: a ASOF JOIN b ON a.device = b.device AND a.time >= b.time")
}

fn conjuncts(on: &Expr) -> Vec<Expr> {
    match on {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => [conjuncts(left), conjuncts(right)].concat(),
        Expr::Nested(inner) => conjuncts(inner),
        other => vec![other.clone()],
    }
}

/// Removes the only inequality from the conjuncts and returns it.
fn of_times(conjuncts: &mut Vec<Expr>) -> Result<Expr> {
    let at = conjuncts.iter().position(is_of_times).ok_or_else(no_comparison)?;
    let time = conjuncts.remove(at);
    if conjuncts.iter().any(is_of_times) { Err(no_comparison()) } else { Ok(time) }
}

fn is_of_times(expr: &Expr) -> bool {
    use BinaryOperator as O;
    matches!(expr, Expr::BinaryOp { op: O::GtEq | O::Gt | O::LtEq | O::Lt, .. })
}

/// Wraps the comparison in the marker function.
fn nearest(time: Expr) -> Expr {
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(NEAREST)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(time))],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
