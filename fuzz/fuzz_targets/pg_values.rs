//! Parameter values of every type, in text and binary format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pg::types::{Form, Oid, Type, oid};
use pg::{Datum, value};

fuzz_target!(|bytes: &[u8]| {
    let [choice, form, value @ ..] = bytes else { return };
    let types = Type::all().count();
    let Some(ty) = Type::all().nth(usize::from(*choice) % types) else { return };
    let form = if form & 1 == 0 { Form::Text } else { Form::Binary };
    // The offset is irrelevant; unknown zones must be covered.
    let zones = |name: Option<&str>, _: i64| name.is_none_or(|name| name.len() % 2 == 0).then_some(3_600);
    if let Ok(datum) = pg::decode(ty.oid, form, value, &zones) {
        same_as_text(&datum, ty.oid);
    }
});

/// Checks that a value written as text is read as the same value.
fn same_as_text(datum: &Datum<'_>, ty: Oid) {
    let mut text = Vec::new();
    // The text of regclass and similar types may be a name, so integers are read as bigint.
    let ty = if matches!(datum, Datum::Int8(_)) { oid::INT8 } else { ty };
    match datum {
        Datum::Bool(value) => value::bool_text(&mut text, *value),
        Datum::Int2(value) => value::int_text(&mut text, i64::from(*value)),
        Datum::Int4(value) => value::int_text(&mut text, i64::from(*value)),
        Datum::Int8(value) => value::int_text(&mut text, *value),
        Datum::Float4(value) if !value.is_nan() => value::float4_text(&mut text, *value),
        Datum::Float8(value) if !value.is_nan() => value::float8_text(&mut text, *value),
        Datum::Numeric(value) => value.write_text(&mut text),
        Datum::Bytes(value) => value::bytea_text(&mut text, value),
        Datum::Uuid(value) => value::uuid_text(&mut text, value),
        _ => return,
    }
    let again = pg::decode(ty, Form::Text, &text, &|_, _| None).expect("what we write we read");
    assert_eq!(*datum, again, "{}", String::from_utf8_lossy(&text));
}
