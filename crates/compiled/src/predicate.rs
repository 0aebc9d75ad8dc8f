//! Implication between conditions, for partial indexes: an index serves a query if the query's conditions imply the
//! index's predicate. Source: PostgreSQL's `predicate_implied_by`, for conditions of one row.
//!
//! A condition implies another one here if, for every row for which the first is true, the second is true.

use std::cmp::Ordering;

use crate::expr::{Comparison, Expr, Value};

/// Whether all of `conditions` together imply `predicate`.
pub(crate) fn implies(conditions: &[&Expr], predicate: &Expr) -> bool {
    match predicate {
        Expr::And(sides) => sides.iter().all(|side| implies(conditions, side)),
        Expr::Or(sides) if sides.iter().any(|side| implies(conditions, side)) => true,
        _ => conditions.iter().any(|condition| one_implies(condition, predicate)),
    }
}

fn one_implies(condition: &Expr, predicate: &Expr) -> bool {
    if condition == predicate {
        return true;
    }
    match condition {
        Expr::And(sides) => return sides.iter().any(|side| one_implies(side, predicate)),
        Expr::Or(sides) => return sides.iter().all(|side| implies(&[side], predicate)),
        Expr::InList { what, list, not: false } => {
            let equal = |one: &Expr| Expr::Compare(Comparison::Equal, Box::new([(**what).clone(), one.clone()]));
            return !list.is_empty() && list.iter().all(|one| simple(&equal(one), predicate));
        }
        _ => {}
    }
    simple(condition, predicate)
}

/// Whether a comparison or test implies another one.
fn simple(condition: &Expr, predicate: &Expr) -> bool {
    match predicate {
        Expr::And(sides) => sides.iter().all(|side| simple(condition, side)),
        Expr::Or(sides) => sides.iter().any(|side| simple(condition, side)),
        Expr::IsNull { of, not: true } => is_strict_in(condition, of),
        Expr::InList { what, list, not: false } => {
            let equal = |one: &Expr| Expr::Compare(Comparison::Equal, Box::new([(**what).clone(), one.clone()]));
            list.iter().any(|one| condition == &equal(one) || compared(condition, &equal(one)))
        }
        // A boolean column is true where it equals true, and false where it equals false.
        _ => compared(condition, predicate) || truth(condition).is_some_and(|own| truth(predicate) == Some(own)),
    }
}

/// The tested expression of `x`, `x = true`, `NOT x` and `x = false`, and the value that it has then.
fn truth(condition: &Expr) -> Option<(&Expr, bool)> {
    match condition {
        Expr::Not(of) => truth(of).map(|(of, value)| (of, !value)),
        Expr::Compare(Comparison::Equal, sides) => {
            let [left, right] = &**sides;
            match (left, right) {
                (of, Expr::Value(Value::Plain(model::Datum::Bool(value))))
                | (Expr::Value(Value::Plain(model::Datum::Bool(value))), of) => Some((of, *value)),
                _ => None,
            }
        }
        Expr::Field { .. } => Some((condition, true)),
        _ => None,
    }
}

/// Whether a condition is not true when `of` is NULL.
fn is_strict_in(condition: &Expr, of: &Expr) -> bool {
    let is_it = |side: &Expr| side == of || matches!(side, Expr::Cast { what, .. } if **what == *of);
    match condition {
        Expr::Compare(_, sides) => sides.iter().any(is_it),
        Expr::Like { what, .. } => is_it(&what[0]),
        Expr::InList { what, .. }
        | Expr::InArray { what, not: false, .. }
        | Expr::InResult { what, not: false, .. } => is_it(what),
        condition => is_it(condition) || matches!(condition, Expr::Not(inner) if is_it(inner)),
    }
}

/// Whether a comparison with a constant implies another one of the same expression.
fn compared(condition: &Expr, predicate: &Expr) -> bool {
    let (Some((of, own, low)), Some((same, other, high))) = (with_constant(condition), with_constant(predicate)) else {
        return false;
    };
    if of != same {
        return false;
    }
    let (low, high) = (low.datum(), high.datum());
    let Some(order) = low.compare(&high) else { return false };
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    match (own, other) {
        (Equal, other) => other.holds(order),
        (NotEqual, NotEqual) => order.is_eq(),
        (Less, Less | LessEqual) | (LessEqual, LessEqual) => order.is_le(),
        (LessEqual, Less) => order.is_lt(),
        (Greater, Greater | GreaterEqual) | (GreaterEqual, GreaterEqual) => order.is_ge(),
        (GreaterEqual, Greater) => order.is_gt(),
        (Less, NotEqual) => order.is_le(),
        (LessEqual, NotEqual) => order == Ordering::Less,
        (Greater, NotEqual) => order.is_ge(),
        (GreaterEqual, NotEqual) => order == Ordering::Greater,
        _ => false,
    }
}

/// An expression compared with a constant that is not NULL, with the expression on the left.
fn with_constant(condition: &Expr) -> Option<(&Expr, Comparison, &Value)> {
    let Expr::Compare(comparison, sides) = condition else { return None };
    let [left, right] = &**sides;
    let (of, comparison, value) = match (left, right) {
        (Expr::Value(value), of) => (of, comparison.mirrored(), value),
        (of, Expr::Value(value)) => (of, *comparison, value),
        _ => return None,
    };
    (!value.datum().is_null()).then_some((of, comparison, value))
}

#[cfg(test)]
mod tests {
    use model::Datum;

    use super::*;

    fn number(value: i32) -> Expr {
        Expr::Value(Value::Plain(Datum::Int4(value)))
    }

    fn compare(comparison: Comparison, value: i32) -> Expr {
        Expr::Compare(comparison, Box::new([Expr::Param(0), number(value)]))
    }

    #[test]
    fn comparisons_with_constants_imply_weaker_ones() {
        use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        let all = [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual];
        for own in all {
            for other in all {
                for (low, high) in [(4, 5), (5, 5), (6, 5)] {
                    let implied = implies(&[&compare(own, low)], &compare(other, high));
                    let holds = (0..=10).all(|value: i32| !own.holds(value.cmp(&low)) || other.holds(value.cmp(&high)));
                    // Integers have no value between two neighbours, which the rules do not know.
                    assert!(!implied || holds, "{own:?} {low} implies {other:?} {high}");
                    if low == high {
                        assert_eq!(implied, holds, "{own:?} {low} implies {other:?} {high}");
                    }
                }
            }
        }
    }

    #[test]
    fn lists_alternatives_and_null_tests_are_implied() {
        let of = || Box::new(Expr::Param(0));
        let not_null = Expr::IsNull { of: of(), not: true };
        let list =
            |list: &[i32], not| Expr::InList { what: of(), list: list.iter().map(|one| number(*one)).collect(), not };
        let (one, two) = (compare(Comparison::Equal, 1), compare(Comparison::Equal, 2));
        let either = Expr::Or(Box::new([one.clone(), two.clone()]));
        for (condition, predicate, expected) in [
            (&one, &not_null, true),
            (&list(&[1, 2], false), &not_null, true),
            (&list(&[1, 2], false), &either, true),
            (&either, &list(&[2, 1, 3], false), true),
            (&list(&[1, 4], false), &either, false),
            (&list(&[1, 2], false), &compare(Comparison::Less, 3), true),
            (&list(&[1, 3], false), &compare(Comparison::Less, 3), false),
            (&not_null, &one, false),
            (&either, &one, false),
            (&one, &either, true),
        ] {
            assert_eq!(implies(&[condition], predicate), expected, "{condition:?} implies {predicate:?}");
        }
    }
}
