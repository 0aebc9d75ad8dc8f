//! Decimal text of numbers, appended to a buffer. The values of a run are integers of decimal
//! units, so that floats are printed exactly from integers.

use crate::schema::Kind;

const PAIRS: &[u8; 200] =
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Appends `n` in decimal.
#[inline]
pub(crate) fn push_u64(mut n: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while n >= 100 {
        let pair = (n % 100) as usize * 2;
        n /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if n >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[n as usize * 2..n as usize * 2 + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + n as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends `n` in decimal.
#[inline]
pub(crate) fn push_i64(n: i64, out: &mut Vec<u8>) {
    if n < 0 {
        out.push(b'-');
    }
    push_u64(n.unsigned_abs(), out);
}

/// Appends `units` / 10^decimals with a point and all decimals, such as `-3.50`.
#[inline]
pub(crate) fn push_decimal(units: i64, decimals: u8, out: &mut Vec<u8>) {
    if units < 0 {
        out.push(b'-');
    }
    let magnitude = units.unsigned_abs();
    match decimals {
        0 => push_u64(magnitude, out),
        // Two decimals are the default: a division by a constant is faster.
        2 => {
            push_u64(magnitude / 100, out);
            let pair = (magnitude % 100) as usize * 2;
            out.extend_from_slice(&[b'.', PAIRS[pair], PAIRS[pair + 1]]);
        }
        _ => {
            let scale = 10u64.pow(u32::from(decimals));
            push_u64(magnitude / scale, out);
            out.push(b'.');
            let mut fraction = magnitude % scale;
            let from = out.len();
            out.resize(from + usize::from(decimals), b'0');
            for digit in out[from..].iter_mut().rev() {
                *digit = b'0' + (fraction % 10) as u8;
                fraction /= 10;
            }
        }
    }
}

/// Appends the value of `units` as a JSON number; booleans as 0 and 1. Not for texts.
#[inline]
pub(crate) fn push_number(kind: Kind, units: i64, out: &mut Vec<u8>) {
    push_decimal(units, kind.decimals(), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_by_the_standard_library() {
        for n in [0, 1, 9, 10, 99, 100, 101, 12_345, 999_999, 1_000_000, i64::MAX, i64::MIN, -1, -42, -100] {
            let mut out = Vec::new();
            push_i64(n, &mut out);
            assert_eq!(String::from_utf8(out).expect("digits"), n.to_string());
        }
    }

    #[test]
    fn decimals_keep_their_zeros_and_sign() {
        let cases =
            [(0, 2, "0.00"), (5, 2, "0.05"), (-5, 2, "-0.05"), (-350, 2, "-3.50"), (12, 0, "12"), (7, 3, "0.007")];
        for (units, decimals, text) in cases {
            let mut out = Vec::new();
            push_decimal(units, decimals, &mut out);
            assert_eq!(String::from_utf8(out).expect("digits"), text);
        }
    }
}
