//! Parameters in text and binary format.

use super::*;
use proptest::prelude::*;

fn utc(_: Option<&str>, _: i64) -> Option<i32> {
    Some(0)
}

fn text(ty: Oid, text: &str) -> Datum<'_> {
    decode(ty, Form::Text, text.as_bytes(), &utc).unwrap()
}

fn binary(ty: Oid, bytes: &[u8]) -> Datum<'_> {
    decode(ty, Form::Binary, bytes, &utc).unwrap()
}

#[test]
fn text_and_binary_forms_give_the_same_value() {
    let day = 946_684_800_000_000_000 + 86_400_000_000_000;
    for (ty, words, bytes, expected) in [
        (oid::BOOL, "t", &[1][..], Datum::Bool(true)),
        (oid::INT2, "-2", &(-2i16).to_be_bytes(), Datum::Int2(-2)),
        (oid::INT4, "7", &7i32.to_be_bytes(), Datum::Int4(7)),
        (oid::INT8, "7", &7i64.to_be_bytes(), Datum::Int8(7)),
        (oid::OID, "4294967295", &[255; 4], Datum::Int8(4_294_967_295)),
        (oid::FLOAT4, "1.5", &1.5f32.to_be_bytes(), Datum::Float4(1.5)),
        (oid::FLOAT8, "1.5", &1.5f64.to_be_bytes(), Datum::Float8(1.5)),
        (oid::VARCHAR, "x", b"x", Datum::Text("x".into())),
        (0, "x", b"x", Datum::Text("x".into())),
        (oid::BYTEA, "\\x01ff", &[1, 255], Datum::Bytes(vec![1, 255].into())),
        (oid::TIMESTAMPTZ, "2000-01-02 00:00:00+00", &86_400_000_000i64.to_be_bytes(), Datum::Timestamptz(day)),
        (oid::TIMESTAMP, "2000-01-02", &86_400_000_000i64.to_be_bytes(), Datum::Timestamp(day)),
        (oid::DATE, "2000-01-02", &1i32.to_be_bytes(), Datum::Date(10_958)),
        (oid::TIME, "00:00:01", &1_000_000i64.to_be_bytes(), Datum::Time(1_000_000)),
        (oid::UUID, "01010101-0101-0101-0101-010101010101", &[1; 16], Datum::Uuid([1; 16])),
        (oid::NUMERIC, "1.5", &[0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x13, 0x88], Datum::Numeric(Numeric::new(15, 1))),
    ] {
        assert_eq!(text(ty, words), expected);
        assert_eq!(binary(ty, bytes), expected);
    }
    assert_eq!(binary(oid::JSONB, b"\x01{}"), Datum::Text("{}".into()));
}

#[test]
fn arrays_decode_their_elements() {
    let expected = Datum::Array { element: oid::INT4, values: vec![Datum::Int4(1), Datum::Null] };
    assert_eq!(text(1007, "{1,NULL}"), expected);
    let bytes = b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x01\xff\xff\xff\xff";
    assert_eq!(binary(1007, bytes), expected);
    let quoted = Datum::Array { element: oid::TEXT, values: vec![Datum::Text("a\"b".into())] };
    assert_eq!(text(1009, r#"{"a\"b"}"#), quoted);
    assert_eq!(decode(1016, Form::Binary, bytes, &utc).unwrap_err().state(), SqlState::DATATYPE_MISMATCH);
}

#[test]
fn bad_parameters_are_refused_with_their_state() {
    for (ty, form, bytes, state) in [
        (oid::INT4, Form::Binary, &[0, 1][..], "22P03"),
        (oid::INT4, Form::Text, b"x", "22P02"),
        (oid::TEXT, Form::Text, b"\xff", "22021"),
        (oid::TEXT, Form::Binary, b"\xff", "22021"),
        (oid::TIMESTAMPTZ, Form::Text, b"x", "22007"),
        (oid::TIMESTAMPTZ, Form::Binary, &[0x7f, 255, 255, 255, 255, 255, 255, 255], "22008"),
        (oid::DATE, Form::Binary, &[0x7f, 255, 255, 255], "22008"),
        (oid::TIME, Form::Binary, &[255; 8], "22008"),
        (oid::JSONB, Form::Binary, b"\x02{}", "22P03"),
        (oid::ACLITEM, Form::Binary, b"x", "0A000"),
        (1007, Form::Text, b"{x}", "22P02"),
    ] {
        assert_eq!(decode(ty, form, bytes, &utc).unwrap_err().state().0, state, "{ty} {bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_parameter_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for ty in Type::all() {
            let _ = decode(ty.oid, Form::Text, &bytes, &utc);
            let _ = decode(ty.oid, Form::Binary, &bytes, &utc);
        }
    }
}
