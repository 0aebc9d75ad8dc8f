//! Checks of single values. `run/tests.rs` checks whole answers of every kind, correct ones and
//! ones with a single fault.

use super::*;

const DOUBLE: Kind = Kind::Double { decimals: 2 };

fn value(aggregate: Aggregate, kind: Kind, values: &[(i64, i64, bool)], cell: Cell) -> &'static str {
    let mut summary = Summary::default();
    values.iter().for_each(|(time, units, certain)| summary.add(*time, *units, *certain));
    match check_value(aggregate, kind, &summary, &cell) {
        Verdict::Right => "right",
        Verdict::Wrong(_) => "wrong",
        Verdict::Undecided => "undecided",
    }
}

#[test]
fn an_aggregate_is_correct_if_some_state_of_the_target_explains_it() {
    let known = [(1, 150, true), (2, 250, true), (3, -100, true)];
    let partly = [(1, 150, true), (2, 250, false)];
    let cases = [
        (Aggregate::Count, &known[..], Cell::Int(3), "right"),
        (Aggregate::Count, &known, Cell::Int(2), "wrong"),
        (Aggregate::Count, &known, Cell::Int(4), "wrong"),
        (Aggregate::Count, &[], Cell::Null, "right"),
        (Aggregate::Count, &partly, Cell::Int(1), "undecided"),
        (Aggregate::Count, &partly, Cell::Int(2), "undecided"),
        (Aggregate::Count, &partly, Cell::Int(0), "wrong"),
        (Aggregate::Count, &partly, Cell::Int(3), "wrong"),
        (Aggregate::Sum, &known, Cell::Float(3.0), "right"),
        (Aggregate::Sum, &known, Cell::Float(3.0000001), "wrong"),
        (Aggregate::Sum, &known, Cell::Null, "wrong"),
        (Aggregate::Sum, &[], Cell::Null, "right"),
        (Aggregate::Sum, &partly, Cell::Float(9.0), "undecided"),
        (Aggregate::Avg, &known, Cell::Float(1.0), "right"),
        (Aggregate::Avg, &known, Cell::Int(1), "right"),
        (Aggregate::Min, &known, Cell::Float(-1.0), "right"),
        (Aggregate::Max, &known, Cell::Float(2.5), "right"),
        (Aggregate::Max, &known, Cell::Float(2.51), "wrong"),
        (Aggregate::First, &known, Cell::Float(1.5), "right"),
        (Aggregate::Last, &known, Cell::Float(-1.0), "right"),
        (Aggregate::Last, &known, Cell::Float(2.5), "wrong"),
    ];
    for (aggregate, values, cell, verdict) in cases {
        assert_eq!(value(aggregate, DOUBLE, values, cell.clone()), verdict, "{aggregate:?} {values:?} {cell:?}");
    }
}

#[test]
fn a_value_may_have_the_products_representation_of_its_type() {
    let float = Kind::Float { decimals: 2 };
    let mut text = Vec::new();
    text_of(77, 5, &mut text);
    let cases = [
        (DOUBLE, 12_345, Cell::Float(123.45), true),
        (DOUBLE, 12_345, Cell::Float(123.450_000_000_000_01), false),
        (DOUBLE, 12_300, Cell::Int(123), true),
        (float, 12_345, Cell::Float(f64::from(123.45f32)), true),
        (float, 12_345, Cell::Float(123.45), true),
        (float, 12_345, Cell::Float(123.46), false),
        (Kind::Bool, 1, Cell::Bool(true), true),
        (Kind::Bool, 1, Cell::Int(1), true),
        (Kind::Bool, 1, Cell::Bool(false), false),
        (Kind::Int64, i64::MAX, Cell::Int(i64::MAX), true),
        (Kind::Text { length: 5 }, 77, Cell::Text(text), true),
        (Kind::Text { length: 5 }, 77, Cell::Text(b"other".to_vec()), false),
        (DOUBLE, 0, Cell::Null, false),
    ];
    for (kind, units, cell, same) in cases {
        assert_eq!(equals(kind, units, &cell), same, "{kind:?} {units} {cell:?}");
    }
}

#[test]
fn set_operations_count_duplicates_as_sql_does() {
    let child = |rows: &[(&str, i64)]| rows.iter().map(|(row, count)| ((*row).to_owned(), *count)).collect();
    let children = [child(&[("a", 2), ("b", 1)]), child(&[("a", 1), ("c", 1)])];
    let cases = [
        (SetOperator::Union, false, vec![("a", 1), ("b", 1), ("c", 1)]),
        (SetOperator::Union, true, vec![("a", 3), ("b", 1), ("c", 1)]),
        (SetOperator::Intersect, false, vec![("a", 1)]),
        (SetOperator::Intersect, true, vec![("a", 1)]),
        (SetOperator::Except, false, vec![("b", 1)]),
        (SetOperator::Except, true, vec![("a", 1), ("b", 1)]),
    ];
    for (operator, all, expected) in cases {
        assert_eq!(combined(&children, operator, all), child(&expected), "{operator:?} {all}");
    }
}
