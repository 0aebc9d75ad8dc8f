//! Numeric forms against what PostgreSQL 15 gave (`testdata/numeric.tsv`), and round trips.

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
fn forms_are_what_postgresql_gives() {
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

#[test]
fn unsigned_64_bit_values_fit() {
    assert_eq!(text(i128::from(u64::MAX), 0), "18446744073709551615");
    assert_eq!(
        Numeric::parse_binary(&binary(i128::from(u64::MAX), 0)).unwrap(),
        Numeric::Finite { value: i128::from(u64::MAX), scale: 0 }
    );
}

#[test]
fn negative_scale_appends_zeros() {
    assert_eq!(text(-12, -3), "-12000");
    assert_eq!(binary(-12, -3), binary(-12_000, 0));
    assert_eq!(text(0, -3), "0");
    assert_eq!(text(i128::MIN, 0), i128::MIN.to_string());
}

#[test]
fn special_values_have_their_words() {
    for (name, hex_form) in
        [("NaN", "00000000c0000000"), ("Infinity", "00000000d0000020"), ("-Infinity", "00000000f0000020")]
    {
        let value = Numeric::parse_text(&format!(" {} ", name.to_lowercase())).unwrap();
        let (mut words, mut bytes) = (Vec::new(), Vec::new());
        value.write_text(&mut words);
        value.write_binary(&mut bytes);
        assert_eq!((words.as_slice(), hex(&bytes).as_str()), (name.as_bytes(), hex_form));
        assert_eq!(Numeric::parse_binary(&bytes).unwrap(), value);
    }
}

#[test]
fn text_is_read_with_exponents_and_refused_when_it_does_not_fit() {
    for (input, value, scale) in [
        ("1e3", 1_000, 0),
        ("1.50", 150, 2),
        (".5", 5, 1),
        ("5.", 5, 0),
        ("-12.5e-2", -125, 3),
        ("+7", 7, 0),
        ("0e99", 0, 0),
        ("1.25e1", 125, 1),
    ] {
        assert_eq!(Numeric::parse_text(input).unwrap(), Numeric::Finite { value, scale }, "{input}");
    }
    let digits = "1".repeat(60);
    for (input, state) in [
        ("", "22P02"),
        (".", "22P02"),
        ("1e", "22P02"),
        ("1.2.3", "22P02"),
        ("--1", "22P02"),
        ("1_0", "22P02"),
        ("1e40", "22003"),
        ("1e-99", "22003"),
        (&digits, "22003"),
        ("1e2147483647", "22003"),
        ("1e-2147483648", "22003"),
    ] {
        assert_eq!(Numeric::parse_text(input).unwrap_err().state().0, state, "{input}");
    }
}

#[test]
fn malformed_bytes_are_refused() {
    for (bytes, state) in [
        (&[0u8; 7][..], "22P03"),
        (&[0, 1, 0, 0, 0, 0, 0, 0], "22P03"),
        (&[0, 0, 0, 0, 0x12, 0x34, 0, 0], "22P03"),
        (&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], "22P03"),
        (&[0, 1, 0x7f, 0xff, 0, 0, 0, 0, 0, 1], "22003"),
    ] {
        assert_eq!(Numeric::parse_binary(bytes).unwrap_err().state().0, state, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn both_forms_read_back(value in -(10i128.pow(38) - 1)..10i128.pow(38), scale in 0u8..=38) {
        let expected = Numeric::Finite { value, scale };
        prop_assert_eq!(Numeric::parse_text(&text(value, scale as i8)).unwrap(), expected);
        prop_assert_eq!(Numeric::parse_binary(&binary(value, scale as i8)).unwrap(), expected);
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..30), input in "[-+0-9.eE]{0,12}", scale in any::<i8>(), value in any::<i128>()) {
        let _ = (Numeric::parse_binary(&bytes), Numeric::parse_text(&input), decimal_text_binary(&mut Vec::new(), &input));
        let _ = (text(value, scale), binary(value, scale));
    }
}
