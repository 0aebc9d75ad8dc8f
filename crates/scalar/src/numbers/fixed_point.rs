//! Logarithm and exponential function of numbers with any count of binary places, for `numeric`.
//!
//! A fixed-point number is an integer that stands for itself over 2^`bits`. Results have an error of a few units of the
//! last place; callers ask for more places than they use.

use std::sync::LazyLock;

use num_bigint::{BigInt, BigUint};

/// Places beyond those asked for, which take up the errors of intermediate results.
const GUARD_BITS: u64 = 32;
/// Places of ln 2 that are computed once.
const LN2_BITS: u64 = 1_024;

static LN2: LazyLock<BigInt> = LazyLock::new(|| computed_ln2(LN2_BITS));

fn ln2(bits: u64) -> BigInt {
    if bits <= LN2_BITS { &*LN2 >> (LN2_BITS - bits) } else { computed_ln2(bits) }
}

/// ln 2 = 18 atanh(1/26) - 2 atanh(1/4801) + 8 atanh(1/8749), a formula in the manner of Machin.
fn computed_ln2(bits: u64) -> BigInt {
    let bits_inside = bits + GUARD_BITS;
    let inverse = |n: u32| atanh_of_inverse(n, bits_inside);
    (inverse(26) * 18 - inverse(4_801) * 2 + inverse(8_749) * 8) >> GUARD_BITS
}

fn atanh_of_inverse(n: u32, bits: u64) -> BigInt {
    let mut power = (BigInt::from(1) << bits) / n;
    let mut sum = BigInt::ZERO;
    let mut divisor = 1_u32;
    while power != BigInt::ZERO {
        sum += &power / divisor;
        power /= u64::from(n) * u64::from(n);
        divisor += 2;
    }
    sum
}

/// e^`exponent` as `(mantissa, power)`: the mantissa, with `bits` places, is from 1 to below 2 and is multiplied by
/// 2^`power`. The exponent's absolute value must be below 2^16.
pub(super) fn exp(exponent: &BigInt, bits: u64) -> (BigUint, i64) {
    // e^r is computed as (e^(r / 2^halvings))^(2^halvings): few terms of the series for some squarings.
    let halvings = bits.isqrt();
    let bits_inside = bits + halvings + GUARD_BITS;
    let exponent = exponent << (bits_inside - bits);
    let ln2 = ln2(bits_inside);
    let power: BigInt = floor_quotient(&exponent, &ln2);
    let reduced = (&exponent - &power * &ln2) >> halvings;
    let one = BigInt::from(1) << bits_inside;
    let (mut sum, mut term) = (one.clone(), one);
    let mut n = 1_u32;
    while term != BigInt::ZERO {
        term = ((term * &reduced) >> bits_inside) / n;
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        sum = (&sum * &sum) >> bits_inside;
    }
    let mantissa = (sum >> (bits_inside - bits)).magnitude().clone();
    (mantissa, i64::try_from(&power).unwrap_or_default())
}

fn floor_quotient(dividend: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = dividend / divisor;
    if dividend.sign() == num_bigint::Sign::Minus { quotient - 1 } else { quotient }
}

/// The natural logarithm of `numerator / denominator`, which are not 0, with `bits` places.
pub(super) fn ln(numerator: &BigUint, denominator: &BigUint, bits: u64) -> BigInt {
    // The number is m * 2^power with m from 1/2 to 2. ln m is 2^roots times the logarithm of m's 2^roots-th root, whose
    // series needs few terms.
    let roots = bits.isqrt() / 2;
    let bits_inside = bits + roots + GUARD_BITS;
    let power = numerator.bits() as i64 - denominator.bits() as i64;
    let shift = bits_inside as i64 - power;
    let mut root = if shift >= 0 {
        (numerator << shift.unsigned_abs()) / denominator
    } else {
        numerator / (denominator << shift.unsigned_abs())
    };
    for _ in 0..roots {
        root = (root << bits_inside).sqrt();
    }
    let one = BigInt::from(1) << bits_inside;
    let root = BigInt::from(root);
    let argument = ((&root - &one) << bits_inside) / (&root + &one);
    let logarithm = atanh(&argument, bits_inside) << (roots + 1);
    (logarithm + ln2(bits_inside) * power) >> (bits_inside - bits)
}

fn atanh(argument: &BigInt, bits: u64) -> BigInt {
    let square = (argument * argument) >> bits;
    let mut power = argument.clone();
    let mut sum = BigInt::ZERO;
    let mut divisor = 1_u32;
    // A negative number never becomes 0 by shifts: it ends at -1.
    while power.magnitude() > &BigUint::from(1_u32) {
        sum += &power / divisor;
        power = (power * &square) >> bits;
        divisor += 2;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_f64(value: &BigInt, bits: u64) -> f64 {
        i64::try_from(&(value >> (bits - 50))).unwrap() as f64 / 2_f64.powi(50)
    }

    #[test]
    fn logarithms_of_small_fractions_are_those_of_floats() {
        for (numerator, denominator) in
            [(1_u32, 1_u32), (2, 1), (1, 3), (1_000_001, 1_000_000), (7, 10), (4_000_000_000, 3)]
        {
            for bits in [64, 200, 3_000] {
                let seen = as_f64(&ln(&numerator.into(), &denominator.into(), bits), bits);
                let expected = (f64::from(numerator) / f64::from(denominator)).ln();
                assert!((seen - expected).abs() < 1e-13, "ln {numerator}/{denominator}: {seen}, expected {expected}");
            }
        }
    }

    #[test]
    fn the_exponential_function_inverts_the_logarithm() {
        for number in [2_u32, 3, 10, 999_999_937] {
            let bits = 500;
            let (mantissa, power) = exp(&ln(&number.into(), &1_u32.into(), bits), bits);
            let difference = BigInt::from(mantissa << power.unsigned_abs()) - (BigInt::from(number) << bits);
            assert!(difference.magnitude().bits() < 40, "{number}: {difference}");
        }
    }
}
