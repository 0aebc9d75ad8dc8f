//! Values survive arrays and encodings, and keys have PostgreSQL's order.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::{TypeId, builtin};
use model::Datum;
use scalar::{Context, Session};

use super::{Builder, datum, decode, encode, key};

fn type_named(name: &str) -> TypeId {
    match name.strip_suffix("[]") {
        Some(element) => builtin().array_of(type_named(element)).unwrap(),
        None => builtin().type_named(name).unwrap(),
    }
}

/// Texts in ascending order; those of one group are equal.
const ASCENDING: &[(&str, &[&[&str]])] = &[
    ("bool", &[&["f"], &["t"]]),
    ("int4", &[&["-2147483648"], &["-1"], &["0"], &["7"], &["2147483647"]]),
    ("float8", &[&["-Infinity"], &["-1.5"], &["-0", "0"], &["1e-300"], &["2"], &["Infinity"], &["NaN"]]),
    (
        "numeric",
        &[
            &["-Infinity"],
            &["-123456789012345678901234567890123456789012345"],
            &["-10"],
            &["-9.5", "-9.50"],
            &["-0.001"],
            &["0", "0.00"],
            &["0.00001"],
            &["1", "1.0", "1.000"],
            &["1.01"],
            &["9"],
            &["10"],
            &["123456789012345678901234567890123456789012345.5"],
            &["Infinity"],
            &["NaN"],
        ],
    ),
    ("text", &[&[""], &["A"], &["a"], &["a "], &["ab"], &["é"]]),
    ("bytea", &[&["\\x"], &["\\x00"], &["\\x0000"], &["\\x00ff"], &["\\x01"]]),
    ("date", &[&["-infinity"], &["1999-12-31"], &["2026-01-01"], &["infinity"]]),
    ("timestamp", &[&["-infinity"], &["1999-12-31 23:59:59.999999"], &["2026-01-01"], &["infinity"]]),
    ("interval", &[&["-1 mon", "-30 days"], &["00:00:01"], &["24:00:00", "1 day"], &["1 mon", "30 days"]]),
    ("uuid", &[&["00000000-0000-0000-0000-000000000001"], &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]]),
    ("int4[]", &[&["{}"], &["{1}"], &["{1,2}"], &["{1,3}"], &["{2}"], &["{NULL}"]]),
    ("text[]", &[&["{}"], &["{a}"], &["{a,b}"], &["{aa}"], &["{b}"]]),
    (
        "jsonb",
        &[
            &["[]"],
            &["null"],
            &["\"a\""],
            &["\"b\""],
            &["-1"],
            &["1", "1.0"],
            &["2"],
            &["false"],
            &["true"],
            &["[null]"],
            &["[1]", "[1.0]"],
            &["[[]]"],
            &["[1, 2]"],
            &["{}"],
            &["{\"a\": 1}", "{\"a\": 1.0}"],
            &["{\"a\": 2}"],
            &["{\"b\": 1}"],
            &["{\"a\": 1, \"b\": 2}"],
        ],
    ),
];

#[test]
fn keys_have_the_order_and_equality_of_values() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    for (name, groups) in ASCENDING {
        let ty = type_named(name);
        let mut last: Option<Vec<u8>> = None;
        for group in *groups {
            let keys = group.iter().map(|text| {
                let mut key = Vec::new();
                let value = scalar::input(text, ty, -1, &ctx).unwrap();
                key::push(&value, ty, &mut key).unwrap();
                key
            });
            let keys: Vec<Vec<u8>> = keys.collect();
            assert!(keys.iter().all(|key| *key == keys[0]), "{name} {group:?}");
            assert!(last.is_none_or(|last| last < keys[0]), "{name} {group:?}");
            last = Some(keys[0].clone());
        }
    }
}

#[test]
fn values_survive_arrays() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let zone: Arc<str> = "UTC".into();
    for (name, groups) in ASCENDING {
        let ty = type_named(name);
        let texts: Vec<&str> = groups.iter().flat_map(|group| group.iter().copied()).collect();
        let mut builder = Builder::new(ty, &zone, texts.len());
        for text in &texts {
            builder.push(&scalar::input(text, ty, -1, &ctx).unwrap()).unwrap();
        }
        builder.push(&Datum::Null).unwrap();
        let array = builder.finish();
        let written = |value: &Datum<'_>| {
            let mut text = String::new();
            scalar::output(value, ty, &ctx, &mut text).unwrap();
            text
        };
        for (row, text) in texts.iter().enumerate() {
            let read = datum(array.as_ref(), row, ty).unwrap();
            assert_eq!(written(&read), written(&scalar::input(text, ty, -1, &ctx).unwrap()), "{name}");
        }
        assert!(datum(array.as_ref(), texts.len(), ty).unwrap().is_null());
    }
}

#[test]
fn damaged_encodings_are_refused_without_panic() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    for (name, text) in [
        ("numeric", "-12345.678"),
        ("numeric", "123456789012345678901234567890123456789012345678901.5"),
        ("int4[]", "[2:3][1:2]={{1,2},{3,NULL}}"),
        ("text[]", "{a,bc,\"\"}"),
        ("inet", "10.0.0.1/8"),
        ("int4range", "[1,5)"),
        ("varbit", "10101"),
        ("timetz", "10:00:00+02"),
    ] {
        let ty = type_named(name);
        let mut bytes = Vec::new();
        encode(&scalar::input(text, ty, -1, &ctx).unwrap(), &mut bytes);
        assert_eq!(decode(&bytes).unwrap(), scalar::input(text, ty, -1, &ctx).unwrap(), "{name}");
        for at in 0..bytes.len() {
            let _ = decode(&bytes[..at]).is_err();
            for value in [0, 1, 7, 26, 27, 29, 30, 31, 0x7f, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = decode(&damaged).is_err();
            }
        }
    }
}
