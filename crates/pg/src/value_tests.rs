//! Scalars, compared with the output of PostgreSQL 15 (`testdata/`), and round trips.

use super::*;
use proptest::prelude::*;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

/// Lines of a case table, split at tabs.
fn cases(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().map(|line| line.split('\t').collect())
}

#[test]
fn float8_text_equals_postgresqls() {
    for case in cases(include_str!("testdata/float8.tsv")) {
        let value = f64::from_bits(u64::from_str_radix(case[0], 16).unwrap());
        assert_eq!(text(|out| float8_text(out, value)), case[1]);
        assert_eq!(parse_float8(case[1]).unwrap().to_bits(), value.to_bits());
    }
}

#[test]
fn float4_text_equals_postgresqls() {
    for case in cases(include_str!("testdata/float4.tsv")) {
        let value = f32::from_bits(u32::from_str_radix(case[0], 16).unwrap());
        assert_eq!(text(|out| float4_text(out, value)), case[1]);
        assert_eq!(parse_float4(case[1]).unwrap().to_bits(), value.to_bits());
    }
}

#[test]
fn special_floats_have_their_names() {
    for (value, expected) in
        [(f64::NAN, "NaN"), (f64::INFINITY, "Infinity"), (f64::NEG_INFINITY, "-Infinity"), (0.0, "0"), (-0.0, "-0")]
    {
        assert_eq!(text(|out| float8_text(out, value)), expected);
        assert_eq!(text(|out| float4_text(out, value as f32)), expected);
        let back = parse_float8(expected).unwrap();
        assert!(back == value || back.is_nan() && value.is_nan());
    }
}

#[test]
fn bad_numbers_are_refused_with_their_state() {
    const SYNTAX: SqlState = SqlState::INVALID_TEXT_REPRESENTATION;
    const RANGE: SqlState = SqlState::NUMERIC_OUT_OF_RANGE;
    for (ty, input, state) in [
        (oid::INT4, "", SYNTAX),
        (oid::INT4, "1.5", SYNTAX),
        (oid::INT4, "+-1", SYNTAX),
        (oid::INT4, "2147483648", RANGE),
        (oid::INT2, "-32769", RANGE),
        (oid::INT8, "9223372036854775808", RANGE),
        (oid::INT8, "99999999999999999999999", RANGE),
        (oid::OID, "4294967296", RANGE),
    ] {
        assert_eq!(parse_int(ty, input).unwrap_err().state(), state, "{input}");
    }
    for (input, state) in
        [("", SYNTAX), ("1e", SYNTAX), ("x", SYNTAX), ("1e400", RANGE), ("-1e400", RANGE), ("1e-400", RANGE)]
    {
        assert_eq!(parse_float8(input).unwrap_err().state(), state, "{input}");
    }
    assert_eq!(parse_float4("1e39").unwrap_err().state(), RANGE);
    assert_eq!(parse_float8("0e-500").unwrap(), 0.0);
}

#[test]
fn booleans_are_read_from_any_unambiguous_start() {
    for yes in ["t", "TRUE", " tru ", "y", "yes", "on", "1"] {
        assert!(parse_bool(yes).unwrap(), "{yes}");
    }
    for no in ["f", "False", "n", "no", "of", "off", "0"] {
        assert!(!parse_bool(no).unwrap(), "{no}");
    }
    for bad in ["", "o", "2", "truee", "yess", "\u{e9}"] {
        assert_eq!(parse_bool(bad).unwrap_err().state(), SqlState::INVALID_TEXT_REPRESENTATION, "{bad}");
    }
}

#[test]
fn bytea_is_read_in_both_forms() {
    for (input, expected) in [
        ("\\x00ff10", &[0, 255, 16][..]),
        ("\\x 00 FF ", &[0, 255]),
        ("\\x", &[]),
        ("", &[]),
        ("\\000a\\\\b", b"\0a\\b"),
        ("plain", b"plain"),
    ] {
        assert_eq!(parse_bytea(input).unwrap(), expected, "{input}");
    }
    for (input, state) in
        [("\\x0", "22023"), ("\\x0g", "22023"), ("\\x\u{e9}0", "22023"), ("a\\", "22P02"), ("\\400", "22P02")]
    {
        assert_eq!(parse_bytea(input).unwrap_err().state().0, state, "{input}");
    }
}

#[test]
fn a_char_above_127_is_an_octal_escape() {
    for (value, byte, expected) in
        [("", 0, ""), ("a", 97, "a"), ("\\", 92, "\\"), ("\u{80}", 128, "\\200"), ("\u{ff}", 255, "\\377")]
    {
        assert_eq!((char_byte(value), text(|out| char_text(out, value)).as_str()), (byte, expected));
    }
}

#[test]
fn uuid_is_read_in_every_layout_and_written_in_one() {
    let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for input in [
        canonical,
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
    ] {
        assert_eq!(text(|out| uuid_text(out, &parse_uuid(input).unwrap())), canonical);
    }
    for bad in [
        "",
        "a0eebc99",
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
        "g0eebc999c0b4ef8bb6d6bb9bd380a11",
    ] {
        assert_eq!(parse_uuid(bad).unwrap_err().state().0, "22P02", "{bad}");
    }
}

proptest! {
    #[test]
    fn floats_read_back_bit_for_bit(bits in any::<u64>()) {
        let (double, single) = (f64::from_bits(bits), f32::from_bits(bits as u32));
        if !double.is_nan() {
            prop_assert_eq!(parse_float8(&text(|out| float8_text(out, double))).unwrap().to_bits(), double.to_bits());
        }
        if !single.is_nan() {
            prop_assert_eq!(parse_float4(&text(|out| float4_text(out, single))).unwrap().to_bits(), single.to_bits());
        }
    }

    #[test]
    fn decimal_readings_round_trip(whole in -9_999_999i64..9_999_999, fraction in 0u32..10_000) {
        let value = (whole as f64 * 10_000.0 + f64::from(fraction)) / 10_000.0;
        prop_assert_eq!(text(|out| float8_text(out, value)), format!("{value}"));
    }

    #[test]
    fn integers_read_back(value in any::<i64>()) {
        prop_assert_eq!(text(|out| int_text(out, value)), value.to_string());
        prop_assert_eq!(parse_int(oid::INT8, &value.to_string()).unwrap(), value);
    }

    #[test]
    fn bytes_and_uuids_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..40), uuid in any::<[u8; 16]>()) {
        prop_assert_eq!(parse_bytea(&text(|out| bytea_text(out, &bytes))).unwrap(), bytes);
        prop_assert_eq!(parse_uuid(&text(|out| uuid_text(out, &uuid))).unwrap(), uuid);
    }

    #[test]
    fn no_text_panics(input in "\\PC{0,20}", hex in "\\\\x[0-9a-g ]{0,9}") {
        let _ = (parse_bool(&input), parse_int(oid::INT4, &input), parse_float8(&input), parse_uuid(&input));
        let _ = (parse_bytea(&input), parse_bytea(&hex));
    }
}
