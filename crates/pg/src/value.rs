//! Text and binary formats of booleans, integers, floats, bytea and uuid, identical to
//! PostgreSQL's.
//!
//! `…_text` appends text; `parse_…` parses like PostgreSQL's input functions (surrounding white
//! space is ignored). The binary format of a fixed-size type is its big-endian bytes and needs no
//! function here.

use model::{Error, Result, SqlState};

use crate::types::{Oid, Type, oid};

/// `00` to `99`: one division yields two digits.
const PAIRS: &[u8; 200] =
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Error 22P02 of an input function.
pub(crate) fn invalid(ty: Oid, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {}: \"{}\"", Type::sql_name(ty), excerpt(text)),
    )
}

/// Error 22003 for a number out of range.
fn out_of_range(ty: Oid, text: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_OUT_OF_RANGE,
        format!("value \"{}\" is out of range for type {}", excerpt(text), Type::sql_name(ty)),
    )
}

/// The first 64 characters of a value, to keep messages short.
pub(crate) fn excerpt(text: &str) -> &str {
    match text.char_indices().nth(64) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Trims white space as defined by C's `isspace`.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

/// Appends `t` or `f`.
pub fn bool_text(out: &mut Vec<u8>, value: bool) {
    out.push(if value { b't' } else { b'f' });
}

/// Parses a boolean: 1, 0, or an unambiguous prefix of true, false, yes, no, on, off.
///
/// # Errors
/// 22P02.
pub fn parse_bool(text: &str) -> Result<bool> {
    let word = trim(text).to_ascii_lowercase();
    let starts = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
    if starts("true", 1) || starts("yes", 1) || word == "on" || word == "1" {
        Ok(true)
    } else if starts("false", 1) || starts("no", 1) || starts("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid(oid::BOOL, text))
    }
}

/// Appends an unsigned integer in decimal.
pub fn uint_text(out: &mut Vec<u8>, value: u64) {
    let mut buffer = [0; 20];
    out.extend_from_slice(uint_digits(&mut buffer, value));
}

/// Writes the digits of `value` to the end of `buffer` and returns them.
fn uint_digits(buffer: &mut [u8; 20], mut value: u64) -> &[u8] {
    let mut at = buffer.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        at -= 2;
        buffer[at..at + 2].copy_from_slice(&PAIRS[value as usize * 2..value as usize * 2 + 2]);
    } else {
        at -= 1;
        buffer[at] = b'0' + value as u8;
    }
    &buffer[at..]
}

/// Appends an integer in decimal.
pub fn int_text(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    uint_text(out, value.unsigned_abs());
}

/// Appends `value` with leading zeros, at least `width` digits.
pub(crate) fn padded_text(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut buffer = [0; 20];
    let digits = uint_digits(&mut buffer, value);
    for _ in digits.len()..width {
        out.push(b'0');
    }
    out.extend_from_slice(digits);
}

/// Parses an integer of type `int2`, `int4`, `int8` or `oid`.
///
/// # Errors
/// 22P02; 22003 for a number outside the type's range.
pub fn parse_int(ty: Oid, text: &str) -> Result<i64> {
    let range = match ty {
        oid::INT2 => i64::from(i16::MIN)..=i64::from(i16::MAX),
        oid::INT4 => i64::from(i32::MIN)..=i64::from(i32::MAX),
        oid::OID => i64::from(i32::MIN)..=i64::from(u32::MAX),
        _ => i64::MIN..=i64::MAX,
    };
    let number = trim(text);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid(ty, text));
    }
    let value = number.parse().ok().filter(|value| range.contains(value)).ok_or_else(|| out_of_range(ty, text))?;
    // PostgreSQL wraps a negative oid to 32 bits unsigned.
    Ok(if ty == oid::OID { i64::from(value as u32) } else { value })
}

/// Appends the shortest text that parses to the same `float8`, in PostgreSQL's layout.
pub fn float8_text(out: &mut Vec<u8>, value: f64) {
    if !value.is_finite() || value == 0.0 {
        return special_text(out, value);
    }
    if let Some((digits, scale)) = short_decimal(value) {
        return decimal_text(out, value < 0.0, digits, scale);
    }
    shortest_text(out, value, Neighbours::new(value.to_bits(), 52, 1_075), 15);
}

/// Appends the shortest text that parses to the same `float4`, in PostgreSQL's layout.
pub fn float4_text(out: &mut Vec<u8>, value: f32) {
    if !value.is_finite() || value == 0.0 {
        return special_text(out, f64::from(value));
    }
    shortest_text(out, value, Neighbours::new(u64::from(value.to_bits()), 23, 150), 6);
}

fn special_text(out: &mut Vec<u8>, value: f64) {
    let text = if value.is_nan() {
        "NaN"
    } else if value == 0.0 {
        if value.is_sign_negative() { "-0" } else { "0" }
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    out.extend_from_slice(text.as_bytes());
}

/// Returns |`value`| as an integer below 10^15 and a small power of ten to divide it by, if that is
/// exact.
///
/// Fast path: most measurements are such numbers. Two decimals of at most 15 digits never round to
/// the same double, so the one that parses back is the shortest text; it costs a multiplication and
/// a division.
fn short_decimal(value: f64) -> Option<(u64, u32)> {
    const POWERS: [f64; 7] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
    let value = value.abs();
    if !(1e-4..1e15).contains(&value) {
        return None;
    }
    POWERS.iter().enumerate().find_map(|(scale, power)| {
        let digits = (value * power).round();
        (digits < 1e15 && digits / power == value).then_some((digits as u64, scale as u32))
    })
}

/// Appends `digits / 10^scale`. The last digit is not zero unless `scale` is 0.
fn decimal_text(out: &mut Vec<u8>, negative: bool, digits: u64, scale: u32) {
    if negative {
        out.push(b'-');
    }
    let power = 10u64.pow(scale);
    uint_text(out, digits / power);
    if scale > 0 {
        out.push(b'.');
        padded_text(out, digits % power, scale as usize);
    }
}

/// Appends the shortest digits that parse to `value`; in exponent notation below 10^-4 and from
/// 10^`plain_max`.
///
/// Rust's shortest digits may lie exactly half-way to the next float, so that parsing depends on
/// round-half-even (`1e23`); PostgreSQL uses one more digit then. If two shortest texts are equally
/// near, Rust chooses the larger one, PostgreSQL the even one.
fn shortest_text<F>(out: &mut Vec<u8>, value: F, neighbours: Neighbours, plain_max: i32)
where
    F: std::fmt::LowerExp + std::str::FromStr + PartialEq,
{
    let mut decimal = Decimal::new(format_args!("{value:e}"));
    for precision in decimal.count..17 {
        if !neighbours.is_midpoint(&decimal) {
            break;
        }
        let longer = Decimal::new(format_args!("{value:.precision$e}"));
        if longer.text().parse().is_ok_and(|read: F| read == value) {
            decimal = longer;
        }
    }
    if neighbours.tie(&decimal) {
        decimal.round_to_even(|read: F| read == value);
    }
    if decimal.negative {
        out.push(b'-');
    }
    let digits = &decimal.digits[..decimal.count];
    if (-4..plain_max).contains(&decimal.exponent) {
        plain_text(out, digits, decimal.exponent);
    } else {
        exponent_text(out, digits, decimal.exponent);
    }
}

/// `d.ddd` times 10^`exponent`.
struct Decimal {
    scratch: StackText,
    negative: bool,
    digits: [u8; 20],
    count: usize,
    exponent: i32,
}

impl Decimal {
    /// Parses the output of `{:e}`.
    fn new(scientific: std::fmt::Arguments<'_>) -> Decimal {
        let mut scratch = StackText::default();
        // Cannot fail: sign, 17 digits, point and exponent fit into the buffer.
        let _ = std::fmt::Write::write_fmt(&mut scratch, scientific);
        let mut decimal = Decimal { scratch, negative: false, digits: [0; 20], count: 0, exponent: 0 };
        let text = decimal.scratch.text();
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        decimal.exponent = exponent.parse().unwrap_or(0);
        decimal.negative = mantissa.starts_with('-');
        for (to, digit) in decimal.digits.iter_mut().zip(mantissa.bytes().filter(u8::is_ascii_digit)) {
            *to = digit;
            decimal.count += 1;
        }
        decimal
    }

    fn text(&self) -> &str {
        self.scratch.text()
    }

    /// Decrements the odd last digit, if the result still parses to the same float; below a power
    /// of two it may not.
    fn round_to_even<F: std::str::FromStr>(&mut self, reads_back: impl Fn(F) -> bool) {
        let end = self.text().find('e').unwrap_or(self.scratch.len);
        self.scratch.buffer[end - 1] -= 1;
        if self.text().parse().is_ok_and(reads_back) {
            self.digits[self.count - 1] -= 1;
        }
    }

    /// The digits as an integer, and the exponent of the power of ten to multiply it by.
    fn integer(&self) -> (u128, i32) {
        let digits = &self.digits[..self.count];
        (digits.iter().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0')), self.exponent + 1 - self.count as i32)
    }
}

/// Midpoints between a float and its neighbours, each an odd number times a power of two.
struct Neighbours {
    /// Whether the midpoints round to this float, by round-half-even.
    even: bool,
    midpoints: [(u128, i32); 2],
    /// Twice the float.
    double: (u128, i32),
}

impl Neighbours {
    /// From IEEE bits with `fraction_bits` fraction bits; `bias` treats the fraction as an integer.
    fn new(bits: u64, fraction_bits: u32, bias: i32) -> Neighbours {
        let fraction = bits & ((1 << fraction_bits) - 1);
        let biased = (bits >> fraction_bits) as i32 & if fraction_bits == 52 { 0x7ff } else { 0xff };
        let hidden = u128::from(biased > 0) << fraction_bits;
        let (mantissa, exponent) = (u128::from(fraction) | hidden, biased.max(1) - bias);
        // The neighbour below a power of two is half as far away.
        let below = if fraction == 0 && biased > 1 {
            (4 * mantissa - 1, exponent - 2)
        } else {
            ((2 * mantissa).saturating_sub(1), exponent - 1)
        };
        Neighbours {
            even: fraction.is_multiple_of(2),
            midpoints: [below, (2 * mantissa + 1, exponent - 1)],
            double: odd(mantissa, exponent + 1),
        }
    }

    /// Whether the decimal is exactly a midpoint.
    fn is_midpoint(&self, decimal: &Decimal) -> bool {
        let (digits, power) = decimal.integer();
        self.even && self.midpoints.iter().any(|half| is_equal(digits, power, *half))
    }

    /// Whether the decimal and its predecessor, whose last digit is even, are equally near to the
    /// float.
    fn tie(&self, decimal: &Decimal) -> bool {
        let (digits, power) = decimal.integer();
        digits % 2 == 1 && is_equal(2 * digits - 1, power, self.double)
    }
}

/// Whether `digits * 10^power` equals `number * 2^exponent`. On overflow they differ: one side has
/// a larger power of five than the other can have.
fn is_equal(digits: u128, power: i32, (number, exponent): (u128, i32)) -> bool {
    let fives = |number: u128, power: i32| 5u128.checked_pow(power.max(0).unsigned_abs())?.checked_mul(number);
    let (Some(ours), Some(theirs)) = (fives(digits, power), fives(number, -power)) else { return false };
    odd(ours, power) == odd(theirs, exponent)
}

/// Normalises `number * 2^exponent` to an odd number.
fn odd(number: u128, exponent: i32) -> (u128, i32) {
    let zeros = if number == 0 { 0 } else { number.trailing_zeros() };
    (number >> zeros, exponent + zeros as i32)
}

/// A string of at most 32 bytes on the stack.
#[derive(Default)]
struct StackText {
    buffer: [u8; 32],
    len: usize,
}

impl StackText {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.buffer[..self.len]).unwrap_or("0e0")
    }
}

impl std::fmt::Write for StackText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.buffer.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

fn plain_text(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize));
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

fn exponent_text(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.extend_from_slice(&digits[..1]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    padded_text(out, u64::from(exponent.unsigned_abs()), 2);
}

/// Parses a `float8`.
///
/// # Errors
/// 22P02; 22003 on overflow or underflow.
pub fn parse_float8(text: &str) -> Result<f64> {
    let number = trim(text);
    let value: f64 = number.parse().map_err(|_| invalid(oid::FLOAT8, text))?;
    check_float(oid::FLOAT8, text, number, value.is_infinite(), value == 0.0)?;
    Ok(value)
}

/// Parses a `float4`.
///
/// # Errors
/// 22P02; 22003 on overflow or underflow.
pub fn parse_float4(text: &str) -> Result<f32> {
    let number = trim(text);
    let value: f32 = number.parse().map_err(|_| invalid(oid::FLOAT4, text))?;
    check_float(oid::FLOAT4, text, number, value.is_infinite(), value == 0.0)?;
    Ok(value)
}

/// Refuses a number that was rounded to infinity or zero.
fn check_float(ty: Oid, text: &str, number: &str, infinite: bool, zero: bool) -> Result<()> {
    let mantissa = number.split(['e', 'E']).next().unwrap_or("");
    let overflow = infinite && number.bytes().any(|byte| byte.is_ascii_digit());
    let underflow = zero && mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if overflow || underflow {
        return Err(Error::new(
            SqlState::NUMERIC_OUT_OF_RANGE,
            format!("\"{}\" is out of range for type {}", excerpt(text), Type::sql_name(ty)),
        ));
    }
    Ok(())
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn hex_text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]));
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

/// Appends `\x` and hexadecimal digits.
pub fn bytea_text(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(2 + 2 * bytes.len());
    out.extend_from_slice(b"\\x");
    hex_text(out, bytes);
}

/// Parses a `bytea` in hex or escape format.
///
/// # Errors
/// 22023 for an invalid hexadecimal digit, 22P02 for an invalid escape.
pub fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(hex) => parse_hex(hex),
        None => parse_escapes(text),
    }
}

fn parse_hex(hex: &str) -> Result<Vec<u8>> {
    let bad = |message: String| Error::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(hex.len() / 2);
    let mut chars = hex.chars();
    while let Some(high) = chars.next() {
        if high.is_ascii_whitespace() {
            continue;
        }
        let low = chars.next().ok_or_else(|| bad("invalid hexadecimal data: odd number of digits".into()))?;
        let digit = |c: char| c.to_digit(16).ok_or_else(|| bad(format!("invalid hexadecimal digit: \"{c}\"")));
        out.push((digit(high)? << 4 | digit(low)?) as u8);
    }
    Ok(out)
}

fn parse_escapes(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => return Err(invalid(oid::BYTEA, text)),
            (byte, tail) => {
                out.push(*byte);
                tail
            }
        };
    }
    Ok(out)
}

/// Appends a `"char"`, whose byte is the number of the first character of `text`: a byte above 127 as an octal escape.
pub fn char_text(out: &mut Vec<u8>, text: &str) {
    match char_byte(text) {
        byte @ 128.. => out.extend([b'\\', b'0' + (byte >> 6), b'0' + ((byte >> 3) & 7), b'0' + (byte & 7)]),
        _ => out.extend_from_slice(text.as_bytes()),
    }
}

/// The byte of a `"char"`; 0 for the empty text.
#[must_use]
pub fn char_byte(text: &str) -> u8 {
    text.chars().next().map_or(0, |one| u8::try_from(one).unwrap_or(b'?'))
}

/// Appends a uuid as `8-4-4-4-12` hexadecimal digits.
pub fn uuid_text(out: &mut Vec<u8>, uuid: &[u8; 16]) {
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        hex_text(out, &[*byte]);
    }
}

/// Parses a uuid: 32 hexadecimal digits, with optional hyphens after every fourth digit and
/// optional braces around.
///
/// # Errors
/// 22P02.
pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    uuid_bytes(text).ok_or_else(|| invalid(oid::UUID, text))
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let text = text.strip_prefix('{').map_or(Some(text), |inner| inner.strip_suffix('}'))?;
    let mut rest = text.as_bytes();
    let mut out = [0; 16];
    for (at, byte) in out.iter_mut().enumerate() {
        let [high, low, tail @ ..] = rest else { return None };
        *byte = hex_digit(*high)? << 4 | hex_digit(*low)?;
        rest = match tail {
            [b'-', tail @ ..] if at % 2 == 1 && at < 15 => tail,
            tail => tail,
        };
    }
    rest.is_empty().then_some(out)
}

#[cfg(test)]
#[path = "value_tests.rs"]
mod tests;
