//! Tests of numerics against the answers of PostgreSQL 15 (`testdata/numeric.tsv`) and against
//! num-bigint.

use super::*;
use num_bigint::BigInt;
use proptest::prelude::*;
use std::hash::DefaultHasher;

/// Result in the format of the golden file: an error is its SQLSTATE and the text that clients see.
fn text(result: Result<Numeric>) -> String {
    answer(result.map(|value| value.to_string()))
}

fn answer(result: Result<String>) -> String {
    result.unwrap_or_else(|error| format!("{} {error}", error.state()))
}

fn hash(value: &Numeric) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Evaluates one line of the golden file.
fn evaluate(operation: &str, a: &str, b: &str) -> String {
    let value = || a.parse::<Numeric>().unwrap();
    let other = || b.parse::<Numeric>().unwrap();
    match operation {
        "parse" => text(a.parse()),
        "add" => text(value().add(&other())),
        "sub" => text(value().sub(&other())),
        "mul" => text(value().mul(&other())),
        "div" => text(value().div(&other())),
        "rem" => text(value().rem(&other())),
        "compare" => (value().cmp(&other()) as i32).to_string(),
        "neg" => value().neg().to_string(),
        "abs" => value().abs().to_string(),
        "sign" => value().sign().to_string(),
        "ceil" => text(value().ceil()),
        "floor" => text(value().floor()),
        "round" => text(value().round(b.parse().unwrap())),
        "trunc" => text(value().trunc(b.parse().unwrap())),
        "trim_scale" => value().trim_scale().to_string(),
        "int2" => answer(value().to_i16().map(|value| value.to_string())),
        "int4" => answer(value().to_i32().map(|value| value.to_string())),
        "int8" => answer(value().to_i64().map(|value| value.to_string())),
        "from_float4" => Numeric::from(a.parse::<f32>().unwrap()).to_string(),
        "from_float8" => Numeric::from(a.parse::<f64>().unwrap()).to_string(),
        "precision" => {
            let (digits, scale) = b.split_once(',').unwrap();
            let precision = Precision::new(digits.parse().unwrap(), scale.parse().unwrap());
            text(precision.and_then(|precision| value().with_precision(precision)))
        }
        other => panic!("no operation {other}"),
    }
}

/// Compares floats as floats, because formatting them is not tested here.
fn check_float(operation: &str, a: &str, expected: &str) {
    let value: Numeric = a.parse().unwrap();
    let bits = match operation {
        "float4" => value.to_f32().map(|value| u64::from(value.to_bits())),
        _ => value.to_f64().map(f64::to_bits),
    };
    match bits {
        Err(error) => assert_eq!(format!("{} {error}", error.state()), expected, "{operation}({a})"),
        Ok(bits) if operation == "float4" => {
            assert_eq!(bits, u64::from(expected.parse::<f32>().unwrap().to_bits()), "{operation}({a}) = {expected}");
        }
        Ok(bits) => assert_eq!(bits, expected.parse::<f64>().unwrap().to_bits(), "{operation}({a}) = {expected}"),
    }
}

#[test]
fn every_result_equals_postgresql() {
    let mut wrong = Vec::new();
    let lines: Vec<&str> = include_str!("../testdata/numeric.tsv").lines().collect();
    for line in &lines {
        let [operation, a, b, expected] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if operation.starts_with("float") {
            check_float(operation, a, expected);
            continue;
        }
        let seen = evaluate(operation, a, b);
        if seen != expected {
            wrong.push(format!("{operation}({a}, {b}): {seen}, expected {expected}"));
        }
    }
    assert!(lines.len() > 500, "only {} lines", lines.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

#[test]
fn the_largest_numbers_are_accepted_and_larger_ones_refused() {
    for (input, state) in [
        ("1e131071", ""),
        ("1e131072", "22003"),
        ("1e-16383", ""),
        ("1e-16384", "22003"),
        ("0e-16384", "22003"),
        ("1e2147483647", "22003"),
        ("1e-2147483648", "22003"),
        ("1e99999999999999999999", "22003"),
    ] {
        let state_seen = input.parse::<Numeric>().map_or_else(|error| error.state().0, |_| "");
        assert_eq!(state_seen, state, "{input}");
    }
    let largest: Numeric = "1e131071".parse().unwrap();
    assert_eq!(largest.mul(&Numeric::from(10)).unwrap_err().state(), SqlState::NUMERIC_OUT_OF_RANGE);
    let smallest: Numeric = "1e-16383".parse().unwrap();
    assert_eq!(smallest.mul(&smallest).unwrap().to_string(), format!("0.{}", "0".repeat(16_383)));
}

#[test]
fn numbers_near_the_limit_of_i128_use_both_representations() {
    let largest = Numeric::new(i128::MAX, 0);
    let above = largest.add(&Numeric::from(1)).unwrap();
    assert_eq!(above.to_string(), "170141183460469231731687303715884105728");
    assert!(above.as_decimal().is_none());
    assert_eq!(above.sub(&Numeric::from(1)).unwrap().as_decimal(), Some((i128::MAX, 0)));
    assert_eq!(Numeric::new(i128::MIN, 0), above.neg());
    assert_eq!(Numeric::new(i128::MIN, 0).neg().to_string(), above.to_string());
    assert!(above > largest && above.neg() < largest.neg());
}

#[test]
fn unscaled_returns_only_exact_integers() {
    let value: Numeric = "12.50".parse().unwrap();
    assert_eq!([value.unscaled(2), value.unscaled(1), value.unscaled(0)], [Some(1_250), Some(125), None]);
    assert_eq!(Numeric::from(1_200).unscaled(-2), Some(12));
    assert_eq!(Numeric::from(0).unscaled(-1_000), Some(0));
    assert_eq!(Numeric::from(1).unscaled(39), None);
    assert_eq!(Numeric::NAN.unscaled(0), None);
}

#[test]
fn stored_bytes_are_exactly_these() {
    for (value, hex) in [
        ("0", "00000000"),
        ("1.50", "0002009600"),
        ("-1", "000000ff"),
        ("127", "0000007f"),
        ("128", "0000008000"),
        ("NaN", "03"),
        ("Infinity", "04"),
        ("-Infinity", "05"),
        ("1000000000000000000000000000000000000000.5", "0101000500000000000000000000000000000010270000"),
    ] {
        let mut bytes = Vec::new();
        value.parse::<Numeric>().unwrap().write_bytes(&mut bytes);
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), hex, "{value}");
    }
}

/// An integer of up to 60 digits with many zeros and nines, and a scale.
fn parts() -> impl Strategy<Value = (String, u32)> {
    let digits = prop_oneof!["-?[0-9]{1,12}", "-?[1-9][09]{0,50}", "-?[0-9]{30,60}"];
    (digits, prop_oneof![0u32..4, 0u32..45])
}

fn numeric((digits, scale): &(String, u32)) -> Numeric {
    format!("{digits}e-{scale}").parse().unwrap()
}

fn power(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The integer at `scale`, which is not less than the scale of the number.
fn integer((digits, own): &(String, u32), scale: u32) -> BigInt {
    digits.parse::<BigInt>().unwrap() * power(scale - own)
}

/// Checks that `value` is `integer / 10^scale` with that scale.
fn check(value: &Numeric, integer: &BigInt, scale: u32) {
    assert_eq!(value.scale(), scale);
    assert_eq!(value.to_string(), shown(integer, scale));
}

/// The text of `integer / 10^scale`, computed without `digits_text`.
fn shown(integer: &BigInt, scale: u32) -> String {
    let (whole, fraction) = (integer / power(scale), integer % power(scale));
    let sign = if *integer < BigInt::from(0) { "-" } else { "" };
    let unsigned = |value: BigInt| value.to_string().trim_start_matches('-').to_owned();
    if scale == 0 {
        return format!("{sign}{}", unsigned(whole));
    }
    format!("{sign}{}.{:0>width$}", unsigned(whole), unsigned(fraction), width = scale as usize)
}

proptest! {
    #[test]
    fn arithmetic_agrees_with_integers(a in parts(), b in parts()) {
        let (x, y, scale) = (numeric(&a), numeric(&b), a.1.max(b.1));
        let (p, q) = (integer(&a, scale), integer(&b, scale));
        check(&x.add(&y).unwrap(), &(&p + &q), scale);
        check(&x.sub(&y).unwrap(), &(&p - &q), scale);
        check(&x.mul(&y).unwrap(), &(integer(&a, a.1) * integer(&b, b.1)), a.1 + b.1);
        prop_assert_eq!(x.cmp(&y), p.cmp(&q));
        if y.signum() != 0 {
            check(&x.rem(&y).unwrap(), &(&p % &q), scale);
            let quotient = x.div(&y).unwrap();
            // Twice the exact quotient, moved a half away from zero, truncated to an integer.
            let negative = (p < BigInt::from(0)) != (q < BigInt::from(0));
            let (p, q) = (BigInt::from(p.magnitude().clone()) * power(quotient.scale()), BigInt::from(q.magnitude().clone()));
            let rounded: BigInt = (p * 2 + &q) / (q * 2);
            check(&quotient, &if negative { -rounded } else { rounded }, quotient.scale());
        }
    }

    #[test]
    fn both_representations_give_the_same_results(a in parts(), b in parts(), scale in -50i32..50) {
        let (x, y) = (numeric(&a), numeric(&b));
        let (wide_x, wide_y) = (x.to_wide().unwrap(), y.to_wide().unwrap());
        let same = |one: Result<Numeric>, other: Wide| assert_eq!(text(one), text(other.finish()));
        same(x.add(&y), wide_x.add(&wide_y));
        same(x.mul(&y), wide_x.mul(&wide_y));
        prop_assert_eq!(x.cmp(&y), wide_x.compare(&wide_y));
        same(x.round(scale), wide_x.rescale(scale, Rounding::Half));
        same(x.trunc(scale), wide_x.rescale(scale, Rounding::Cut));
        if y.signum() != 0 {
            same(x.rem(&y), wide_x.rem(&wide_y));
            let quotient = x.div(&y).unwrap();
            same(Ok(quotient.clone()), wide_x.div(&wide_y, quotient.scale()));
        }
    }

    #[test]
    fn equal_values_have_equal_hashes(a in parts(), zeros in 0u32..50) {
        let value = numeric(&a);
        let same = value.rescale((value.scale() + zeros) as i32, Rounding::Cut).unwrap();
        prop_assert_eq!(&value, &same);
        prop_assert_eq!(hash(&value), hash(&same));
        prop_assert_eq!(value.trim_scale().to_string(), same.trim_scale().to_string());
        let more = value.add(&Numeric::new(1, value.scale())).unwrap();
        prop_assert!(more > same && more != value);
    }

    #[test]
    fn text_and_stored_bytes_round_trip(a in parts()) {
        let value = numeric(&a);
        prop_assert_eq!(value.to_string().parse::<Numeric>().unwrap().to_string(), value.to_string());
        let mut bytes = Vec::new();
        value.write_bytes(&mut bytes);
        prop_assert_eq!(bytes.len(), value.bytes_len());
        prop_assert_eq!(Numeric::from_bytes(&bytes).unwrap().to_string(), value.to_string());
    }

    #[test]
    fn i128_values_round_trip(value in any::<i128>(), scale in 0u32..100) {
        let numeric = Numeric::new(value, scale);
        if value != i128::MIN {
            prop_assert_eq!(numeric.as_decimal(), Some((value, scale)));
        }
        check(&numeric, &BigInt::from(value), scale);
    }

    #[test]
    fn doubles_with_15_digits_round_trip(value in -999_999_999_999_999i64..=999_999_999_999_999, scale in 0u32..40) {
        let numeric = Numeric::new(value.into(), scale);
        let float = numeric.to_f64().unwrap();
        prop_assert_eq!(float, format!("{value}e-{scale}").parse::<f64>().unwrap());
        prop_assert_eq!(Numeric::from(float), numeric);
    }

    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..30), input in "[-+0-9.eE ]{0,14}", any_text in ".{0,8}") {
        let _ = (input.parse::<Numeric>(), any_text.parse::<Numeric>());
        if let Some(value) = Numeric::from_bytes(&bytes) {
            let _ = (value.to_string(), value.to_f64(), value.to_i64(), value.trim_scale());
        }
    }
}
