//! Numerics, compared with PostgreSQL 15 (`testdata/numeric.tsv`), and round trips.

use super::*;
use proptest::prelude::*;

fn text(value: i128, scale: i8) -> String {
    let mut out = Vec::new();
    numeric_text(&mut out, value, scale);
    String::from_utf8(out).unwrap()
}

fn binary(value: i128, scale: i8) -> Vec<u8> {
    let mut out = Vec::new();
    numeric_binary(&mut out, value, scale);
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn formats_equal_postgresqls() {
    for line in include_str!("testdata/numeric.tsv").lines() {
        let case: Vec<_> = line.split('\t').collect();
        let (value, scale): (i128, i8) = (case[0].parse().unwrap(), case[1].parse().unwrap());
        assert_eq!(text(value, scale), case[2]);
        assert_eq!(hex(&binary(value, scale)), case[3], "{}", case[2]);
        let mut from_text = Vec::new();
        decimal_text_binary(&mut from_text, case[2]).unwrap();
        assert_eq!(hex(&from_text), case[3], "{}", case[2]);
    }
}

fn numeric(text: &str) -> Numeric {
    text.parse().unwrap()
}

fn written(value: &Numeric) -> Vec<u8> {
    let mut out = Vec::new();
    write_binary(&mut out, value);
    out
}

#[test]
fn unsigned_64_bit_values_fit() {
    assert_eq!(text(i128::from(u64::MAX), 0), "18446744073709551615");
    assert_eq!(parse_binary(&binary(i128::from(u64::MAX), 0)).unwrap(), Numeric::from(u64::MAX));
}

#[test]
fn negative_scale_appends_zeros() {
    assert_eq!(text(-12, -3), "-12000");
    assert_eq!(binary(-12, -3), binary(-12_000, 0));
    assert_eq!(text(0, -3), "0");
    assert_eq!(text(i128::MIN, 0), i128::MIN.to_string());
}

#[test]
fn special_values_have_their_signs() {
    for (name, hex_form) in
        [("NaN", "00000000c0000000"), ("Infinity", "00000000d0000020"), ("-Infinity", "00000000f0000020")]
    {
        assert_eq!(hex(&written(&numeric(name))), hex_form);
        assert_eq!(parse_binary(&written(&numeric(name))).unwrap().to_string(), name);
    }
}

/// Bytes as sent by PostgreSQL 15's `numeric_send`.
#[test]
fn values_beyond_38_digits_have_a_binary_form() {
    for (value, hex_form) in [
        ("10000000000000000000000000000000000000000", "0001000a000000000001"),
        ("-170141183460469231731687303715884105728.5", "000b00094000000100aa0583209a01d5090d0c601c871bf620da16601388"),
    ] {
        assert_eq!(hex(&written(&numeric(value))), hex_form);
        assert_eq!(parse_binary(&written(&numeric(value))).unwrap().to_string(), value);
    }
}

#[test]
fn digits_below_the_scale_are_dropped() {
    let bytes = [0, 2, 0, 0, 0, 0, 0, 1, 0, 1, 0x26, 0xac];
    assert_eq!(parse_binary(&bytes).unwrap().to_string(), "1.9");
}

#[test]
fn malformed_bytes_are_refused() {
    for (bytes, state) in [
        (&[0u8; 7][..], "22P03"),
        (&[0, 1, 0, 0, 0, 0, 0, 0], "22P03"),
        (&[0, 0, 0, 0, 0x12, 0x34, 0, 0], "22P03"),
        (&[0, 0, 0, 0, 0, 0, 0x40, 0], "22P03"),
        (&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], "22P03"),
    ] {
        assert_eq!(parse_binary(bytes).unwrap_err().state().0, state, "{bytes:?}");
    }
    let largest = [0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1];
    assert_eq!(parse_binary(&largest).unwrap().to_string(), format!("1{}", "0".repeat(131_068)));
}

#[test]
fn decimal128_takes_up_to_38_digits() {
    for (value, expected) in [
        ("1.50", Ok(Some((150, 2)))),
        ("-7", Ok(Some((-7, 0)))),
        ("1e-40", Ok(Some((0, 38)))),
        (
            "0.123456789012345678901234567890123456789",
            Ok(Some((12_345_678_901_234_567_890_123_456_789_012_345_679, 38))),
        ),
        ("1.000000000000000000000000000000000000000", Ok(Some((10i128.pow(38), 38)))),
        ("10.00000000000000000000000000000000000000", Ok(Some((10, 0)))),
        ("NaN", Ok(None)),
        ("Infinity", Ok(None)),
        ("1e39", Err("22003")),
        ("12345.1234567890123456789012345678901234567", Err("22003")),
    ] {
        assert_eq!(decimal128(&numeric(value)).map_err(|error| error.state().0), expected, "{value}");
    }
}

proptest! {
    #[test]
    fn the_binary_form_reads_back(value in any::<i128>(), scale in 0u8..=38, more in "[0-9]{0,60}") {
        let read = parse_binary(&binary(value, scale as i8)).unwrap();
        prop_assert_eq!(read.to_string(), text(value, scale as i8));
        let wide = numeric(&format!("{value}{more}e-{scale}"));
        prop_assert_eq!(parse_binary(&written(&wide)).unwrap().to_string(), wide.to_string());
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..30), input in "[-+0-9.eE]{0,12}", scale in any::<i8>(), value in any::<i128>()) {
        let _ = (parse_binary(&bytes), decimal_text_binary(&mut Vec::new(), &input));
        let _ = (text(value, scale), binary(value, scale));
    }
}
