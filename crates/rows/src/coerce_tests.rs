//! Assignment casts, compared with PostgreSQL 15.

use std::sync::Arc;

use super::coerce;
use super::samples::numeric;
use model::limits::VALUE_BYTES_MAX;
use model::{Array, ArrayDimension, Datum, Interval, Type};

fn number(text: &str) -> Datum<'static> {
    Datum::Numeric(text.parse().unwrap())
}

/// The cast value, or SQLSTATE and message.
fn outcome(ty: Type, datum: Datum<'_>) -> String {
    match coerce(ty, datum) {
        Ok(kept) => format!("{kept:?}"),
        Err(error) => format!("{} {}", error.state(), error.message()),
    }
}

#[test]
fn numbers_are_rounded_or_out_of_range() {
    for (ty, datum, expected) in [
        (Type::Int2, Datum::Int8(32_767), "Int2(32767)"),
        (Type::Int2, Datum::Int4(32_768), "22003 smallint out of range"),
        (Type::Int4, Datum::Int8(-2_147_483_649), "22003 integer out of range"),
        (Type::Int8, Datum::Int2(-5), "Int8(-5)"),
        // Floats round half to even, numerics half away from zero.
        (Type::Int4, Datum::Float8(2.5), "Int4(2)"),
        (Type::Int4, Datum::Float8(-3.5), "Int4(-4)"),
        (Type::Int4, number("2.5"), "Int4(3)"),
        (Type::Int4, Datum::Float4(2_147_483_600.0), "22003 integer out of range"),
        (Type::Int2, Datum::Float8(f64::NAN), "22003 smallint out of range"),
        (Type::Int8, Datum::Float8(9_223_372_036_854_775_808.0), "22003 bigint out of range"),
        (Type::Int8, Datum::Float8(-9_223_372_036_854_775_808.0), "Int8(-9223372036854775808)"),
        (Type::Int2, number("-32768.5"), "22003 smallint out of range"),
        (Type::Int4, number("NaN"), "0A000 cannot convert NaN to integer"),
        (Type::Float4, Datum::Float8(1e39), "22003 value out of range: overflow"),
        (Type::Float4, Datum::Float8(1e-50), "22003 value out of range: underflow"),
        (Type::Float4, Datum::Float8(f64::INFINITY), "Float4(inf)"),
        (Type::Float4, Datum::Int4(16_777_217), "Float4(16777216.0)"),
        (Type::Float8, Datum::Float4(0.5), "Float8(0.5)"),
        (Type::Float8, number("0.1"), "Float8(0.1)"),
        (Type::Numeric(None), Datum::Float8(0.1), "Numeric(0.1)"),
        (Type::Numeric(None), Datum::Int8(-7), "Numeric(-7)"),
        (numeric(5, 2), Datum::Int4(7), "Numeric(7.00)"),
        (numeric(5, 2), number("1.005"), "Numeric(1.01)"),
        (numeric(5, 2), number("999.995"), "22003 numeric field overflow"),
        (numeric(5, 2), number("NaN"), "Numeric(NaN)"),
        (numeric(5, 2), number("Infinity"), "22003 numeric field overflow"),
        (numeric(3, -2), number("12345"), "Numeric(12300)"),
        (numeric(12, 2), Datum::Float4(1.1), "Numeric(1.10)"),
    ] {
        assert_eq!(outcome(ty, datum.clone()), expected, "{datum:?} as {ty}");
    }
}

#[test]
fn overlong_text_loses_trailing_blanks_only() {
    let (varchar, character) = (Type::Varchar(Some(3)), Type::Char(Some(3)));
    for (ty, text, expected) in [
        (varchar, "abc", "Text(\"abc\")"),
        (varchar, "ab ", "Text(\"ab \")"),
        (varchar, "ab   ", "Text(\"ab \")"),
        (varchar, "abc  ", "Text(\"abc\")"),
        (varchar, "abcd", "22001 value too long for type character varying(3)"),
        (varchar, "abc d", "22001 value too long for type character varying(3)"),
        (varchar, "abc\t", "22001 value too long for type character varying(3)"),
        (varchar, "éàü", "Text(\"éàü\")"),
        (varchar, "éàü ", "Text(\"éàü\")"),
        (varchar, "éàüé", "22001 value too long for type character varying(3)"),
        (character, "a", "Text(\"a\")"),
        (character, "a     ", "Text(\"a\")"),
        (character, "   ", "Text(\"\")"),
        (character, "abcd", "22001 value too long for type character(3)"),
        (Type::Char(None), "ab  ", "Text(\"ab\")"),
        (Type::Varchar(None), "ab  ", "Text(\"ab  \")"),
        (Type::Json, "{}", "Text(\"{}\")"),
    ] {
        assert_eq!(outcome(ty, Datum::Text(text)), expected, "{text:?} as {ty}");
    }
}

#[test]
fn values_too_long_for_a_row_are_refused() {
    let text = "x".repeat(VALUE_BYTES_MAX + 1);
    for (ty, datum) in [(Type::Text, Datum::Text(&text)), (Type::Bytes, Datum::Bytes(text.as_bytes()))] {
        assert!(outcome(ty, datum).starts_with("54000 "), "{ty}");
    }
    let fits = Datum::Text(&text[1..]);
    assert_eq!(coerce(Type::Text, fits.clone()).unwrap(), fits);
}

fn array(element: u32, items: Vec<Datum<'static>>) -> Datum<'static> {
    Datum::Array(Arc::new(Array::of(element, items)))
}

#[test]
fn values_of_other_types_have_the_representation_of_their_type() {
    let (inet, oid, money) = (869, 26, 790);
    let ty = |oid| Type::from_oid(oid, -1).unwrap();
    for (of, datum) in [
        (oid, Datum::Oid(5)),
        (money, Datum::Int8(5)),
        (27, Datum::Int8(5)),
        (1028, array(oid, vec![Datum::Oid(1), Datum::Null])),
        (1007, array(23, Vec::new())),
        (30, array(oid, vec![Datum::Oid(1)])),
    ] {
        assert_eq!(coerce(ty(of), datum.clone()).unwrap(), datum, "{}", ty(of));
    }
    for (of, datum) in [
        (inet, Datum::Int4(5)),
        (inet, Datum::Text("10.0.0.1")),
        (oid, Datum::Int4(5)),
        (money, Datum::Int4(5)),
        (1028, array(23, vec![Datum::Int4(1)])),
        (1007, array(23, vec![Datum::Int4(1), Datum::Text("2")])),
        (1007, Datum::Int4(1)),
        (30, array(23, vec![Datum::Int4(1)])),
        (3904, array(23, Vec::new())),
    ] {
        assert!(outcome(ty(of), datum.clone()).starts_with("42804 "), "{datum:?} as {}", ty(of));
    }
    let words = coerce(ty(1009), array(1043, vec![Datum::Text("a")])).unwrap();
    assert_eq!(words, array(25, vec![Datum::Text("a")]));
}

#[test]
fn arrays_that_could_not_be_read_again_are_refused() {
    let ty = Type::from_oid(1007, -1).unwrap();
    let dimension = ArrayDimension { length: 2, lower: i32::MAX - 1 };
    let items = Box::new([Datum::Int4(1), Datum::Int4(2)]);
    let at_end = Datum::Array(Arc::new(Array { element: 23, dimensions: Box::new([dimension]), items }));
    assert_eq!(outcome(ty, at_end), "54000 array lower bound is too large: 2147483646");
    // An element takes 32 bytes of memory, however short it is in the row.
    let nulls = |count| array(23, vec![Datum::Null; count]);
    assert!(outcome(ty, nulls(VALUE_BYTES_MAX / size_of::<Datum<'_>>())).starts_with("54000 "));
    assert!(coerce(ty, nulls(VALUE_BYTES_MAX / size_of::<Datum<'_>>() - 4)).is_ok());
}

#[test]
fn dates_and_times_are_cast_if_no_zone_is_needed() {
    let day = 86_400_000_000;
    for (ty, datum, expected) in [
        (Type::Date, Datum::Timestamp(-1), "Date(-1)"),
        (Type::Date, Datum::Timestamp(i64::MAX), "Date(2147483647)"),
        (Type::Time, Datum::Timestamp(-1), "Time(86399999999)"),
        (Type::Time, Datum::Timestamp(i64::MIN), "Null"),
        (Type::Time, Datum::Interval(Interval { months: 5, days: 5, micros: day + 1 }), "Time(1)"),
        (Type::Timestamp, Datum::Date(2), "Timestamp(172800000000)"),
        (Type::Timestamp, Datum::Date(i32::MIN), "Timestamp(-9223372036854775808)"),
        (Type::Timestamp, Datum::Date(i32::MAX - 1), "22008 date out of range for timestamp"),
        (Type::Interval, Datum::Time(3), "Interval(Interval { months: 0, days: 0, micros: 3 })"),
    ] {
        assert_eq!(outcome(ty, datum.clone()), expected, "{datum:?} as {ty}");
    }
}

#[test]
fn an_impossible_cast_names_both_types() {
    for (ty, datum, expected) in [
        (Type::Int4, Datum::Text("1"), "42804 a value of type text cannot be assigned to a column of type integer"),
        (Type::Bool, Datum::Int4(1), "42804 a value of type integer cannot be assigned to a column of type boolean"),
        (
            numeric(5, 2),
            Datum::Bool(true),
            "42804 a value of type boolean cannot be assigned to a column of type numeric(5,2)",
        ),
        (
            Type::Timestamptz,
            Datum::Timestamp(1),
            "42804 a value of type timestamp without time zone cannot be assigned to a column of type timestamp with time zone",
        ),
    ] {
        assert_eq!(outcome(ty, datum), expected);
    }
    for ty in super::samples::types() {
        assert_eq!(outcome(ty, Datum::Null), "Null");
    }
}
