//! Tests of key encoding: key order equals value order, prefixes, limits, golden bytes.

use super::key::{KeyColumn, check_size, is_null, prefix_end, push, push_not_null_prefix, value_bytes};
use super::samples::{Sample, types, values};
use model::limits::INDEX_KEY_BYTES_MAX;
use model::{Datum, Interval, SqlState, Storage, Type};
use proptest::prelude::*;
use std::cmp::Ordering;

fn key(columns: &[KeyColumn], values: &[Datum<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (column, value) in columns.iter().zip(values) {
        push(&mut out, column, value).unwrap();
    }
    out
}

fn hex(ty: Type, value: Datum<'_>) -> String {
    key(&[KeyColumn::new(ty)], &[value]).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A type with N values of it.
fn alike<const N: usize>() -> impl Strategy<Value = (Type, [Sample; N])> {
    prop::sample::select(types()).prop_flat_map(|ty| {
        let samples = proptest::collection::vec(values(ty), N);
        (Just(ty), samples.prop_map(|samples| -> [Sample; N] { samples.try_into().unwrap() }))
    })
}

/// The sort order of an index with this column.
fn order(column: KeyColumn, a: &Datum<'_>, b: &Datum<'_>) -> Ordering {
    let order = a.compare(b).unwrap();
    if column.descending { order.reverse() } else { order }
}

#[test]
fn key_bytes_are_exactly_these() {
    let numeric = |text: &str| hex(Type::Numeric(None), Datum::Numeric(text.parse().unwrap()));
    let interval = |months, days| hex(Type::Interval, Datum::Interval(Interval { months, days, micros: 0 }));
    for (seen, expected) in [
        (hex(Type::Int2, Datum::Int2(-1)), "7fff"),
        (hex(Type::Int4, Datum::Int4(1)), "80000001"),
        (hex(Type::Int8, Datum::Int8(i64::MIN)), "0000000000000000"),
        (hex(Type::Bool, Datum::Bool(true)), "01"),
        (hex(Type::Float8, Datum::Float8(1.0)), "bff0000000000000"),
        (hex(Type::Float8, Datum::Float8(-0.0)), "8000000000000000"),
        (hex(Type::Float4, Datum::Float4(-f32::NAN)), "ffc00000"),
        (hex(Type::Text, Datum::Text("a\0b")), "6100ff620000"),
        (hex(Type::Char(Some(4)), Datum::Text("a  ")), "610000"),
        (hex(Type::Bytes, Datum::Bytes(&[])), "0000"),
        (hex(Type::Date, Datum::Date(0)), "80000000"),
        (numeric("0.000"), "02"),
        (numeric("1.50"), "03100001023300"),
        (numeric("-1.50"), "01effffefdccff"),
        (numeric("NaN"), "05"),
        (numeric("-Infinity"), "00"),
        (interval(1, 0), "80000000000000000000025b7f3d4000"),
        (interval(0, 30), "80000000000000000000025b7f3d4000"),
    ] {
        assert_eq!(seen, expected);
    }
}

#[test]
fn numerics_of_any_scale_have_one_key() {
    let key_of = |text: &str| hex(Type::Numeric(None), Datum::Numeric(text.parse().unwrap()));
    for (a, b) in [
        ("1.0", "1.00"),
        ("0", "-0.000"),
        ("1e40", "10000000000000000000000000000000000000000.0"),
        ("-12.5", "-12.5000000000"),
    ] {
        assert_eq!(key_of(a), key_of(b), "{a} and {b}");
    }
    let mut ascending: Vec<String> =
        "-Infinity -1e131071 -1e40 -10001 -10000 -9999.5 -9999 -1.1 -1 -0.1 -0.01 -1e-16383 0 1e-16383 0.00009999 \
        0.0001 0.01 0.1 0.11 1 1.1 9.99 10 99 100 9999 10000 10000.1 1e40 1.1e40 1e131071 Infinity NaN"
            .split_whitespace()
            .map(key_of)
            .collect();
    let written = ascending.clone();
    ascending.sort();
    assert_eq!(ascending, written);
}

#[test]
fn prefix_end_is_the_next_key_without_the_prefix() {
    for (prefix, end) in
        [(&[1, 2][..], Some(&[1, 3][..])), (&[1, 255, 255], Some(&[2])), (&[255, 255], None), (&[], None)]
    {
        let mut bytes = prefix.to_vec();
        assert_eq!(prefix_end(&mut bytes).then_some(&bytes[..]), end, "{prefix:?}");
    }
}

#[test]
fn keys_too_long_name_index_and_size() {
    check_size("i", &[0; INDEX_KEY_BYTES_MAX]).unwrap();
    let error = check_size("orders_pkey", &[0; INDEX_KEY_BYTES_MAX + 1]).unwrap_err();
    assert_eq!(error.state(), SqlState::PROGRAM_LIMIT_EXCEEDED);
    assert_eq!(error.message(), "key of 2001 bytes is too long for index \"orders_pkey\"; the limit is 2000");
}

#[test]
fn a_value_of_another_type_is_our_mistake_and_nothing_is_appended() {
    let nullable = KeyColumn { nullable: true, ..KeyColumn::new(Type::Int4) };
    for (column, value) in [
        (KeyColumn::new(Type::Int4), Datum::Int8(1)),
        (KeyColumn::new(Type::Int4), Datum::Null),
        (nullable, Datum::Int8(1)),
    ] {
        let mut out = vec![7];
        assert_eq!(push(&mut out, &column, &value).unwrap_err().state(), SqlState::INTERNAL_ERROR);
        assert_eq!(out, [7]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6_000))]

    #[test]
    fn key_order_is_value_order((ty, [a, b]) in alike::<2>(), nullable in any::<bool>(), descending in any::<bool>()) {
        let column = KeyColumn { ty, nullable, descending };
        let (a, b) = (a.datum(), b.datum());
        let (key_a, key_b) = (key(&[column], std::slice::from_ref(&a)), key(&[column], std::slice::from_ref(&b)));
        prop_assert_eq!(key_a.cmp(&key_b), order(column, &a, &b), "{:?} against {:?}", a, b);
        // No encoding of a column may be a prefix of another.
        prop_assert!(key_a == key_b || !(key_a.starts_with(&key_b) || key_b.starts_with(&key_a)));
        // The end of the first value is found whatever follows it.
        let both = [key_a.as_slice(), &key_b].concat();
        let is_encoded = matches!(ty.base(), Type::Other(other) if other.storage() != Storage::Oid) && !a.is_null();
        prop_assert_eq!(value_bytes(&column, &both), (!descending && !is_encoded).then_some(key_a.len()));
        prop_assert!(descending || is_null(&column, &both) == (nullable && a == Datum::Null));
    }

    #[test]
    fn columns_are_compared_in_order(
        (first, [a, b]) in alike::<2>(),
        (second, [c, d]) in alike::<2>(),
        descending in any::<(bool, bool)>(),
        equal in any::<bool>(),
    ) {
        let columns = [(first, descending.0), (second, descending.1)];
        let columns = columns.map(|(ty, descending)| KeyColumn { ty, nullable: false, descending });
        let b = if equal { a.clone() } else { b };
        let expected = order(columns[0], &a.datum(), &b.datum()).then(order(columns[1], &c.datum(), &d.datum()));
        let (one, other) = (key(&columns, &[a.datum(), c.datum()]), key(&columns, &[b.datum(), d.datum()]));
        prop_assert_eq!(one.cmp(&other), expected);
        // A range over the first column covers exactly the keys that share its value.
        let start = key(&columns[..1], &[a.datum()]);
        let mut end = start.clone();
        let bounded = prefix_end(&mut end);
        let inside = other >= start && (!bounded || other < end);
        prop_assert_eq!(inside, order(columns[0], &a.datum(), &b.datum()) == Ordering::Equal);
    }

    #[test]
    fn nulls_come_last_and_outside_of_a_range_over_values((ty, [a]) in alike::<1>(), descending in any::<bool>()) {
        let column = KeyColumn { ty, nullable: true, descending };
        let (value, null) = (key(&[column], &[a.datum()]), key(&[column], &[Datum::Null]));
        prop_assert_eq!(value < null, !descending);
        let mut prefix = Vec::new();
        push_not_null_prefix(&mut prefix, &column);
        prop_assert!(value.starts_with(&prefix) && !null.starts_with(&prefix));
    }
}
