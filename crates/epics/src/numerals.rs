//! Decimal text of numbers as Java prints it, which is the Appliance's text of a value in every format.
//!
//! Facts (`java.lang.Double.toString`, Java 19 and later): the shortest digits that read back as the same number, at
//! least one behind the point; plain notation from 10⁻³ up to 10⁷, else `d.dddE±n`; `NaN`, `Infinity`, `-Infinity`.
//! Where one digit would do, Java prints the two that come closest (`4.9E-324`).

use std::io::Write as _;

/// Appends the text of a double.
pub(crate) fn push_f64(out: &mut Vec<u8>, value: f64) {
    match special(f64::is_nan(value), f64::is_infinite(value), value.is_sign_negative()) {
        Some(text) => out.extend_from_slice(text),
        None if is_small_integer(value) => push_small_integer(out, value),
        None => push_digits(out, value, |out, value| write!(out, "{value:e}"), |out, value| write!(out, "{value:.1e}")),
    }
}

/// Appends the text of a float.
pub(crate) fn push_f32(out: &mut Vec<u8>, value: f32) {
    match special(f32::is_nan(value), f32::is_infinite(value), value.is_sign_negative()) {
        Some(text) => out.extend_from_slice(text),
        None if is_small_integer(f64::from(value)) => push_small_integer(out, f64::from(value)),
        None => push_digits(out, value, |out, value| write!(out, "{value:e}"), |out, value| write!(out, "{value:.1e}")),
    }
}

/// Appends the text of an integer.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The text of a double, for places that are not hot.
pub(crate) fn text_of(value: f64) -> String {
    let mut out = Vec::new();
    push_f64(&mut out, value);
    String::from_utf8(out).expect("digits are ASCII")
}

fn special(nan: bool, infinite: bool, negative: bool) -> Option<&'static [u8]> {
    match (nan, infinite, negative) {
        (true, ..) => Some(b"NaN"),
        (_, true, false) => Some(b"Infinity"),
        (_, true, true) => Some(b"-Infinity"),
        _ => None,
    }
}

/// Whether the value is an integer of plain notation: common, and an order of magnitude faster to print.
fn is_small_integer(value: f64) -> bool {
    value.abs() < 1e7 && value.trunc() == value
}

fn push_small_integer(out: &mut Vec<u8>, value: f64) {
    if value.is_sign_negative() {
        out.push(b'-');
    }
    push_int(out, value.abs() as i64);
    out.extend_from_slice(b".0");
}

/// Prints `value` by `shortest` (`d[.ddd]e±n`), or by `two_digits` if one digit is enough, and puts the point where
/// Java does.
fn push_digits<T: Copy + PartialEq + std::str::FromStr>(
    out: &mut Vec<u8>,
    value: T,
    shortest: impl Fn(&mut &mut [u8], T) -> std::io::Result<()>,
    two_digits: impl Fn(&mut &mut [u8], T) -> std::io::Result<()>,
) {
    let mut storage = [0; 32];
    let text = print(&mut storage, |buffer| shortest(buffer, value));
    let mut parts = Parts::of(text);
    let mut other = [0; 32];
    if parts.rest.is_empty() {
        let text = print(&mut other, |buffer| two_digits(buffer, value));
        if std::str::from_utf8(text).ok().and_then(|text| text.parse::<T>().ok()) == Some(value) {
            parts = Parts::of(text);
        }
    }
    parts.push(out);
}

fn print(storage: &mut [u8; 32], write: impl FnOnce(&mut &mut [u8]) -> std::io::Result<()>) -> &[u8] {
    let mut left = storage.as_mut_slice();
    write(&mut left).expect("17 digits, a sign, a point and an exponent of 3 digits fit in 32 bytes");
    let used = 32 - left.len();
    &storage[..used]
}

/// A number in scientific notation.
struct Parts<'a> {
    negative: bool,
    first: u8,
    /// Digits behind the point, without trailing zeros.
    rest: &'a [u8],
    exponent: i32,
}

impl<'a> Parts<'a> {
    fn of(text: &'a [u8]) -> Parts<'a> {
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |text| (true, text));
        let e = text.iter().rposition(|byte| *byte == b'e').expect("printed with an exponent");
        let exponent = std::str::from_utf8(&text[e + 1..]).ok().and_then(|text| text.parse().ok());
        let rest = text[1..e].strip_prefix(b".").unwrap_or(&[]);
        let zeros = rest.iter().rev().take_while(|digit| **digit == b'0').count();
        Parts {
            negative,
            first: text[0],
            rest: &rest[..rest.len() - zeros],
            exponent: exponent.expect("printed as an integer"),
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        match self.exponent {
            exponent @ 0..=6 => self.push_at_least_one(out, exponent as usize),
            exponent @ -3..=-1 => {
                out.extend_from_slice(&b"0.00"[..(1 - exponent) as usize]);
                out.push(self.first);
                out.extend_from_slice(self.rest);
            }
            exponent => {
                out.push(self.first);
                push_fraction(out, self.rest);
                out.push(b'E');
                push_int(out, i64::from(exponent));
            }
        }
    }

    /// Plain notation with `more` digits before the point behind the first.
    fn push_at_least_one(&self, out: &mut Vec<u8>, more: usize) {
        out.push(self.first);
        for place in 0..more {
            out.push(*self.rest.get(place).unwrap_or(&b'0'));
        }
        push_fraction(out, self.rest.get(more..).unwrap_or(&[]));
    }
}

fn push_fraction(out: &mut Vec<u8>, digits: &[u8]) {
    out.push(b'.');
    out.extend_from_slice(if digits.is_empty() { b"0" } else { digits });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_java() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-12345.0, "-12345.0"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (0.001, "0.001"),
            (0.012_5, "0.0125"),
            (0.000_999, "9.99E-4"),
            (0.1, "0.1"),
            (100.25, "100.25"),
            (1_234_567.5, "1234567.5"),
            (2e23, "2.0E23"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (std::f64::consts::PI, "3.141592653589793"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text_of(value), text);
        }
    }

    #[test]
    fn floats_print_as_in_java() {
        for (value, text) in [
            (0.1_f32, "0.1"),
            (3.402_823_5e38, "3.4028235E38"),
            (f32::from_bits(1), "1.4E-45"),
            (16_777_216.0, "1.6777216E7"),
            (-1.5, "-1.5"),
            (f32::NAN, "NaN"),
        ] {
            let mut out = Vec::new();
            push_f32(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn text_reads_back_as_the_same_bits() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(text_of(value).parse::<f64>().unwrap().to_bits(), bits);
            }
        }
    }

    #[test]
    fn integers_print_to_the_limits() {
        for value in [0, 7, -1, 10, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_int(&mut out, value);
            assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
