//! Parser for decimal numbers, exactly rounded.
//!
//! Most numbers from machines are short decimals. If the digits are below 2^53 and the power of ten
//! is at most 22, the value is one exact integer divided or multiplied by one exact power, hence
//! correctly rounded (Clinger, PLDI 1990). Other numbers are parsed by the standard library, which
//! is exact too.

/// Powers of ten that a double represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// Numbers with more digits may overflow 64 bits.
const DIGITS_MAX: usize = 19;

/// A scanned number, `[+-]digits[.digits][e[+-]digits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    /// All digits as an integer; valid if `exact`.
    pub(crate) mantissa: u64,
    /// Power of ten to multiply the mantissa by; valid if `exact`.
    pub(crate) exponent: i32,
    /// Whether mantissa and exponent are in range.
    pub(crate) exact: bool,
    /// Whether there is neither a point nor an exponent.
    pub(crate) integer: bool,
    /// Length in bytes.
    pub(crate) len: usize,
}

/// Scans the number at the start of `text`; `None` if there is none.
#[inline]
pub(crate) fn scan(text: &[u8]) -> Option<Decimal> {
    let mut at = 0;
    let negative = text.first() == Some(&b'-');
    if negative || text.first() == Some(&b'+') {
        at = 1;
    }
    let mut mantissa = 0u64;
    let whole = digits(text, &mut at, &mut mantissa);
    let mut fraction = 0;
    let mut integer = true;
    if text.get(at) == Some(&b'.') {
        at += 1;
        integer = false;
        fraction = digits(text, &mut at, &mut mantissa);
    }
    if whole + fraction == 0 {
        return None;
    }
    let mut exponent = -(fraction as i32);
    let mut exact = whole + fraction <= DIGITS_MAX;
    if let Some(b'e' | b'E') = text.get(at)
        && let Some((power, len)) = scan_exponent(&text[at + 1..])
    {
        at += 1 + len;
        integer = false;
        exponent = exponent.saturating_add(power);
        exact &= power.abs() < 1_000;
    }
    Some(Decimal { negative, mantissa, exponent, exact, integer, len: at })
}

/// Appends the digits at `at` to `mantissa`; returns their number. Beyond 19 digits the value
/// wraps; callers check.
#[inline]
fn digits(text: &[u8], at: &mut usize, mantissa: &mut u64) -> usize {
    let start = *at;
    while let Some(digit) = text.get(*at).map(|byte| byte.wrapping_sub(b'0'))
        && digit < 10
    {
        *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        *at += 1;
    }
    *at - start
}

#[cold]
fn scan_exponent(text: &[u8]) -> Option<(i32, usize)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let start = at;
    let mut power = 0i32;
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        power = power.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
        at += 1;
    }
    if at == start {
        return None;
    }
    Some((if negative { -power } else { power }, at))
}

impl Decimal {
    /// Value as f64; infinite on overflow. `text` is the scanned text.
    #[inline]
    pub(crate) fn to_f64(self, text: &[u8]) -> f64 {
        let power = self.exponent.unsigned_abs() as usize;
        if !self.exact || self.mantissa > 1 << 53 || power >= POWERS.len() {
            return self.to_f64_slow(text);
        }
        let value = self.mantissa as f64;
        let value = if self.exponent < 0 { value / POWERS[power] } else { value * POWERS[power] };
        if self.negative { -value } else { value }
    }

    #[cold]
    fn to_f64_slow(self, text: &[u8]) -> f64 {
        self.text(text).parse().unwrap_or(f64::NAN)
    }

    /// Value as f32, rounded once; infinite on overflow.
    pub(crate) fn to_f32(self, text: &[u8]) -> f32 {
        self.text(text).parse().unwrap_or(f32::NAN)
    }

    fn text(self, text: &[u8]) -> &str {
        std::str::from_utf8(&text[..self.len]).unwrap_or("")
    }

    /// Value as i64, if it is an integer in range.
    #[inline]
    pub(crate) fn to_i64(self, text: &[u8]) -> Option<i64> {
        if !self.integer {
            return None;
        }
        match (self.negative, self.mantissa) {
            _ if !self.exact => self.text(text).parse().ok(),
            (false, magnitude) => i64::try_from(magnitude).ok(),
            (true, magnitude) if magnitude <= i64::MIN.unsigned_abs() => Some((magnitude as i64).wrapping_neg()),
            _ => None,
        }
    }

    /// Value as u64, if it is a non-negative integer in range.
    #[inline]
    pub(crate) fn to_u64(self, text: &[u8]) -> Option<u64> {
        if !self.integer || (self.negative && (!self.exact || self.mantissa != 0)) {
            return None;
        }
        if self.exact { Some(self.mantissa) } else { self.text(text).parse().ok() }
    }
}

/// Parses the integer at the start of `text`: value and length; `None` if there is none or it
/// overflows. Optimised for timestamps: eight digits at a time.
#[inline]
pub(crate) fn scan_i64(text: &[u8]) -> Option<(i64, usize)> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(negative);
    let start = at;
    let mut magnitude = 0u64;
    while let Some(eight) = text.get(at..at + 8).and_then(eight_digits) {
        magnitude = magnitude.checked_mul(100_000_000)?.checked_add(eight)?;
        at += 8;
    }
    while let Some(digit) = text.get(at).filter(|byte| byte.is_ascii_digit()) {
        magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        at += 1;
    }
    if at == start {
        return None;
    }
    let value = if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    Some((value?, at))
}

/// Value of eight digits with three multiplications; `None` if a byte is not a digit.
#[inline]
fn eight_digits(bytes: &[u8]) -> Option<u64> {
    let word = u64::from_le_bytes(bytes.try_into().ok()?);
    let digits = word ^ 0x3030_3030_3030_3030;
    // A digit has a zero high nibble now, even after adding 6.
    if ((digits.wrapping_add(0x0606_0606_0606_0606)) | digits) & 0xf0f0_f0f0_f0f0_f0f0 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Option<f64> {
        let decimal = scan(text.as_bytes()).filter(|decimal| decimal.len == text.len())?;
        Some(decimal.to_f64(text.as_bytes()))
    }

    #[test]
    fn decimals_are_rounded_exactly_at_every_edge_of_the_fast_path() {
        for text in [
            "0",
            "-0",
            "1.",
            ".5",
            "0.1",
            "-273.15",
            "9007199254740992",
            "9007199254740993",
            "1e22",
            "1e23",
            "8.5e-22",
            "123456789012345678901234567890",
            "0.000000000000000000000000000001",
            "1.7976931348623157e308",
            "5e-324",
            "2.2250738585072011e-308",
            "1e-400",
            "00000000000000000000001.5",
            "179769313486231580793e289",
            "6.02214076E+23",
        ] {
            let expected: f64 = text.parse().unwrap();
            assert_eq!(value(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        assert_eq!(value("1e400"), Some(f64::INFINITY));
        assert_eq!(value("1e99999999999"), Some(f64::INFINITY));
    }

    #[test]
    fn text_without_a_number_is_not_scanned() {
        for text in ["", "-", "+", ".", "e5", "-.", "x1", "inf", "nan"] {
            assert_eq!(scan(text.as_bytes()), None, "{text}");
        }
        // An exponent without digits does not belong to the number.
        assert_eq!(scan(b"1e").map(|decimal| decimal.len), Some(1));
        assert_eq!(scan(b"1e+x").map(|decimal| decimal.len), Some(1));
    }

    #[test]
    fn integers_end_at_their_limits() {
        let int = |text: &str| scan(text.as_bytes()).and_then(|decimal| decimal.to_i64(text.as_bytes()));
        assert_eq!(int("9223372036854775807"), Some(i64::MAX));
        assert_eq!(int("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(int("9223372036854775808"), None);
        assert_eq!(int("-000000000000000000000000012"), Some(-12));
        assert_eq!(int("-9223372036854775809"), None);
        let uint = |text: &str| scan(text.as_bytes()).and_then(|decimal| decimal.to_u64(text.as_bytes()));
        assert_eq!(uint("18446744073709551615"), Some(u64::MAX));
        assert_eq!(uint("18446744073709551616"), None);
        assert_eq!(uint("-1"), None);
        assert_eq!(uint("-0"), Some(0));
    }

    proptest! {
        #[test]
        fn any_double_round_trips(bits in any::<u64>()) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            prop_assert_eq!(value(&format!("{number:?}")).map(f64::to_bits), Some(bits));
        }

        #[test]
        fn any_decimal_equals_the_standard_library(whole in 0u64.., fraction in "[0-9]{0,20}", power in -30i32..30) {
            let text = format!("{whole}.{fraction}e{power}");
            prop_assert_eq!(value(&text), text.parse().ok());
        }

        #[test]
        fn any_integer_round_trips(number in any::<i64>(), tail in "[^0-9]{0,9}") {
            let text = format!("{number}{tail}");
            prop_assert_eq!(scan_i64(text.as_bytes()), Some((number, text.len() - tail.len())));
        }

        #[test]
        fn digit_runs_of_any_length_never_panic(text in "-?[0-9]{0,40}[x]?") {
            let _ = scan_i64(text.as_bytes());
            let digits = text.trim_end_matches('x');
            prop_assert_eq!(scan_i64(text.as_bytes()).map(|found| found.0), digits.parse().ok());
        }
    }
}
