//! Rewrites comparisons of rows, `(a, b) < (1, 2)`, to comparisons of their values.
//!
//! DataFusion compares rows as single values in which NULLs are equal and sort first. SQL defines row
//! comparison by the comparison of the fields, including NULLs, and this rewrite expands it so before
//! planning. The store can also extract bounds from the result: `(time, id) > (t, i)` implies `time >= t`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, UnaryOperator};
use datafusion::sql::sqlparser::ast::{VisitMut, VisitorMut};
use model::{Error, Result, SqlState};

/// Expands all row comparisons of a statement.
///
/// # Errors
/// 42601 for rows of different lengths.
pub(crate) fn rewrite(statement: &mut ast::Statement) -> Result<()> {
    match statement.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match written_out(expr) {
            Ok(Some(made)) => {
                *expr = made;
                ControlFlow::Continue(())
            }
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn written_out(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::BinaryOp { left, op, right } => match (values(left), values(right)) {
            (Some(left), Some(right)) => compared(&left, op, &right)?,
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            let (Some(left), Some(right)) = (values(left), values(right)) else { return Ok(None) };
            same_length(&left, &right)?;
            let differ = |(a, b): (&Expr, &Expr)| Expr::IsDistinctFrom(Box::new(a.clone()), Box::new(b.clone()));
            let any = all_of(left.iter().zip(&right).map(differ), BinaryOperator::Or);
            let is_negated = matches!(expr, Expr::IsNotDistinctFrom(..));
            any.map(|any| if is_negated { not(any) } else { any })
        }
        // IS NULL and IS NOT NULL are not complements: neither is true for a row with some NULLs.
        Expr::IsNull(inner) => values(inner)
            .and_then(|all| all_of(all.into_iter().map(|one| Expr::IsNull(Box::new(one))), BinaryOperator::And)),
        Expr::IsNotNull(inner) => values(inner)
            .and_then(|all| all_of(all.into_iter().map(|one| Expr::IsNotNull(Box::new(one))), BinaryOperator::And)),
        Expr::InList { expr: row, list, negated } => {
            let Some(row) = values(row) else { return Ok(None) };
            let mut equal = Vec::with_capacity(list.len());
            for item in list {
                let Some(item) = values(item) else { return Ok(None) };
                equal.extend(compared(&row, &BinaryOperator::Eq, &item)?);
            }
            let any = all_of(equal.into_iter(), BinaryOperator::Or);
            any.map(|any| if *negated { not(any) } else { any })
        }
        Expr::Between { expr: row, negated, low, high } => {
            let (Some(row), Some(low), Some(high)) = (values(row), values(low), values(high)) else { return Ok(None) };
            let from = compared(&row, &BinaryOperator::GtEq, &low)?;
            let to = compared(&row, &BinaryOperator::LtEq, &high)?;
            let both = all_of(from.into_iter().chain(to), BinaryOperator::And);
            both.map(|both| if *negated { not(both) } else { both })
        }
        _ => None,
    })
}

/// Fields of a row: `(a, b)` or `ROW(a, b)`.
fn values(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Nested(inner) => values(inner),
        Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("row") && call.over.is_none() => {
            let ast::FunctionArguments::List(list) = &call.args else { return None };
            let value = |argument: &FunctionArg| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            list.args.iter().map(value).collect()
        }
        _ => None,
    }
}

fn same_length(left: &[Expr], right: &[Expr]) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(Error::new(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions"))
}

/// Expands the comparison of two rows; `None` for other operators and for empty rows.
fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Result<Option<Expr>> {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return Ok(None);
    }
    same_length(left, right)?;
    let pairs = left.iter().zip(right);
    Ok(match op {
        Eq => all_of(pairs.map(|(a, b)| binary(a.clone(), Eq, b.clone())), And),
        NotEq => all_of(pairs.map(|(a, b)| binary(a.clone(), NotEq, b.clone())), Or),
        _ => {
            let strict = if matches!(op, Lt | LtEq) { Lt } else { Gt };
            let loose = if matches!(op, Lt | LtEq) { LtEq } else { GtEq };
            // The first pair of fields that differ, or that contain a NULL, decides.
            pairs.rev().fold(None, |rest: Option<Expr>, (a, b)| {
                Some(match rest {
                    None => binary(a.clone(), op.clone(), b.clone()),
                    Some(rest) => {
                        let equal = binary(binary(a.clone(), Eq, b.clone()), And, rest);
                        let decided = binary(binary(a.clone(), strict.clone(), b.clone()), Or, equal);
                        // Redundant, but a bound that the store can use.
                        binary(binary(a.clone(), loose.clone(), b.clone()), And, decided)
                    }
                })
            })
        }
    })
}

fn all_of(exprs: impl Iterator<Item = Expr>, op: BinaryOperator) -> Option<Expr> {
    exprs.reduce(|all, one| binary(all, op.clone(), one))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

fn not(expr: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{Command, parse};

    fn rewritten(condition: &str) -> String {
        let parsed = parse(&format!("SELECT 1 FROM t WHERE {condition}")).unwrap();
        let Command::Sql(statement) = &parsed[0].0.command else { panic!("not SQL") };
        let mut statement = statement.clone();
        match rewrite(&mut statement) {
            Ok(()) => statement.to_string().split(" WHERE ").nth(1).unwrap().to_owned(),
            Err(error) => error.state().0.to_owned(),
        }
    }

    /// NULLs in row comparisons were equal, and smaller than every other value (F3).
    #[test]
    fn comparisons_of_rows_become_comparisons_of_their_values() {
        for (condition, expected) in [
            ("(a, b) = (1, NULL)", "((a = 1) AND (b = NULL))"),
            ("ROW(a, b) <> (1, 2)", "((a <> 1) OR (b <> 2))"),
            ("(a, b) > ($1, $2)", "((a >= $1) AND ((a > $1) OR ((a = $1) AND (b > $2))))"),
            ("(a, b) <= (1, 2)", "((a <= 1) AND ((a < 1) OR ((a = 1) AND (b <= 2))))"),
            ("(a, b) IN ((1, 2), (3, NULL))", "(((a = 1) AND (b = 2)) OR ((a = 3) AND (b = NULL)))"),
            ("(a, b) NOT IN ((1, 2))", "(NOT ((a = 1) AND (b = 2)))"),
            ("(a, b) IS NULL", "(a IS NULL AND b IS NULL)"),
            ("(a, b) IS NOT NULL", "(a IS NOT NULL AND b IS NOT NULL)"),
            ("(a, b) IS DISTINCT FROM (1, 2)", "(a IS DISTINCT FROM 1 OR b IS DISTINCT FROM 2)"),
            ("(a, b) = (1, 2, 3)", "42601"),
            ("a = 1 AND (b) IS NULL", "a = 1 AND (b) IS NULL"),
        ] {
            assert_eq!(rewritten(condition), expected, "{condition}");
        }
    }
}
