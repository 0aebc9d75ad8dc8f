//! Natural numbers of any size in decimal limbs, for numerics beyond 38 digits
//! ([`super::Numeric`]).
//!
//! A limb holds nine decimal digits. With a decimal base the common operations of numerics (align
//! two scales, round, print, count digits) are linear; a binary big number would need a base
//! conversion each time. Multiplication and division use the schoolbook algorithms: PostgreSQL's
//! numerics are limited to 147,455 digits.

use std::cmp::Ordering;

const BASE: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;
/// Powers of ten within a limb.
static LIMB_POWERS: [u32; LIMB_DIGITS] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
/// Powers of ten that fit a u128.
pub(super) static POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// Number of decimal digits of `value`; 0 for 0.
pub(super) fn digits_of(value: u128) -> usize {
    let bits = (u128::BITS - value.leading_zeros()) as usize;
    // log10(2) = 1233 / 4096, which is precise enough up to 128 bits: the guess is right or one too
    // small.
    let guess = (bits * 1_233) >> 12;
    guess + usize::from(value >= POWERS[guess])
}

/// A natural number, least significant limb first; the last limb is not 0, so 0 has no limbs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Natural {
    limbs: Vec<u32>,
}

impl From<u128> for Natural {
    fn from(mut value: u128) -> Natural {
        let mut limbs = Vec::with_capacity(5);
        while value > 0 {
            limbs.push((value % u128::from(BASE)) as u32);
            value /= u128::from(BASE);
        }
        Natural { limbs }
    }
}

impl Natural {
    fn trimmed(mut limbs: Vec<u32>) -> Natural {
        while limbs.last() == Some(&0) {
            limbs.pop();
        }
        Natural { limbs }
    }

    /// Creates a number from limbs, least significant first; `None` when a limb is too large or the
    /// last is 0.
    pub(super) fn from_limbs(limbs: Vec<u32>) -> Option<Natural> {
        let valid = limbs.iter().all(|limb| u64::from(*limb) < BASE) && limbs.last() != Some(&0);
        valid.then_some(Natural { limbs })
    }

    /// The limbs, least significant first.
    pub(super) fn limbs(&self) -> &[u32] {
        &self.limbs
    }

    /// Parses ASCII digits, most significant first; leading zeros are permitted.
    pub(super) fn from_decimal(digits: &[u8]) -> Natural {
        let limb = |digits: &[u8]| digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        Natural::trimmed(digits.rchunks(LIMB_DIGITS).map(limb).collect())
    }

    /// Appends ASCII digits without leading zeros; nothing for 0.
    pub(super) fn push_decimal(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for limb in self.limbs.iter().rev() {
            out.extend(LIMB_POWERS.iter().rev().map(|power| b'0' + (limb / power % 10) as u8));
        }
        let zeros = out[start..].iter().take_while(|digit| **digit == b'0').count();
        out.drain(start..start + zeros);
    }

    /// The number as a u128, if it fits.
    pub(super) fn to_u128(&self) -> Option<u128> {
        self.limbs
            .iter()
            .rev()
            .try_fold(0u128, |sum, limb| sum.checked_mul(u128::from(BASE))?.checked_add(u128::from(*limb)))
    }

    pub(super) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Number of decimal digits; 0 for 0.
    pub(super) fn digits(&self) -> usize {
        self.limbs.last().map_or(0, |top| (self.limbs.len() - 1) * LIMB_DIGITS + digits_of(u128::from(*top)))
    }

    pub(super) fn add(&self, other: &Natural) -> Natural {
        let (long, short) = if self.limbs.len() >= other.limbs.len() { (self, other) } else { (other, self) };
        let mut limbs = Vec::with_capacity(long.limbs.len() + 1);
        let mut carry = 0;
        for (at, limb) in long.limbs.iter().enumerate() {
            let sum = limb + short.limbs.get(at).unwrap_or(&0) + carry;
            carry = u32::from(u64::from(sum) >= BASE);
            limbs.push(sum - carry * BASE as u32);
        }
        limbs.push(carry);
        Natural::trimmed(limbs)
    }

    /// `self - other`; `other` must not be larger.
    pub(super) fn sub(&self, other: &Natural) -> Natural {
        assert!(*self >= *other, "BUG: a natural number minus a larger one");
        let mut limbs = Vec::with_capacity(self.limbs.len());
        let mut borrow = 0;
        for (at, limb) in self.limbs.iter().enumerate() {
            let less = other.limbs.get(at).unwrap_or(&0) + borrow;
            borrow = u32::from(*limb < less);
            limbs.push(limb + borrow * BASE as u32 - less);
        }
        Natural::trimmed(limbs)
    }

    pub(super) fn mul(&self, other: &Natural) -> Natural {
        let mut limbs = vec![0u32; self.limbs.len() + other.limbs.len()];
        for (at, ours) in self.limbs.iter().enumerate() {
            let mut carry = 0;
            for (to, theirs) in limbs[at..].iter_mut().zip(&other.limbs) {
                let sum = u64::from(*to) + u64::from(*ours) * u64::from(*theirs) + carry;
                *to = (sum % BASE) as u32;
                carry = sum / BASE;
            }
            limbs[at + other.limbs.len()] = carry as u32;
        }
        Natural::trimmed(limbs)
    }

    fn mul_limb(&self, factor: u32) -> Natural {
        let mut carry = 0;
        let mut limbs: Vec<u32> = Vec::with_capacity(self.limbs.len() + 1);
        for limb in &self.limbs {
            let sum = u64::from(*limb) * u64::from(factor) + carry;
            limbs.push((sum % BASE) as u32);
            carry = sum / BASE;
        }
        limbs.push(carry as u32);
        Natural::trimmed(limbs)
    }

    /// Quotient and remainder by one nonzero limb.
    fn div_limb(&self, divisor: u32) -> (Natural, u32) {
        let mut rest = 0;
        let mut limbs = vec![0; self.limbs.len()];
        for (to, limb) in limbs.iter_mut().zip(&self.limbs).rev() {
            let head = rest * BASE + u64::from(*limb);
            *to = (head / u64::from(divisor)) as u32;
            rest = head % u64::from(divisor);
        }
        (Natural::trimmed(limbs), rest as u32)
    }

    /// Quotient and remainder by a nonzero `divisor`. Knuth, The Art of Computer Programming,
    /// volume 2, algorithm 4.3.1 D.
    pub(super) fn div_rem(&self, divisor: &Natural) -> (Natural, Natural) {
        let Some(top) = divisor.limbs.last() else { panic!("BUG: a natural number divided by zero") };
        if *self < *divisor {
            return (Natural { limbs: Vec::new() }, self.clone());
        }
        if let [only] = divisor.limbs[..] {
            let (quotient, rest) = self.div_limb(only);
            return (quotient, Natural::from(u128::from(rest)));
        }
        // If the divisor's top limb is at least half the base, a quotient limb estimated from two
        // limbs is at most two too large.
        let factor = BASE as u32 / (top + 1);
        let mut rest = self.mul_limb(factor).limbs;
        rest.resize(self.limbs.len() + 1, 0);
        let divisor = divisor.mul_limb(factor).limbs;
        let mut quotient = vec![0; rest.len() - divisor.len()];
        for (at, limb) in quotient.iter_mut().enumerate().rev() {
            *limb = subtract_multiple(&mut rest[at..=at + divisor.len()], &divisor);
        }
        rest.truncate(divisor.len());
        (Natural::trimmed(quotient), Natural::trimmed(rest).div_limb(factor).0)
    }

    /// Multiplies by 10^`power`.
    pub(super) fn shift_up(&self, power: usize) -> Natural {
        if self.is_zero() {
            return self.clone();
        }
        let shifted = self.mul_limb(LIMB_POWERS[power % LIMB_DIGITS]).limbs;
        let mut limbs = vec![0; power / LIMB_DIGITS];
        limbs.extend_from_slice(&shifted);
        Natural { limbs }
    }

    /// Divides by 10^`power`, truncated.
    pub(super) fn shift_down(&self, power: usize) -> Natural {
        let kept = self.limbs.get(power / LIMB_DIGITS..).unwrap_or_default().to_vec();
        Natural { limbs: kept }.div_limb(LIMB_POWERS[power % LIMB_DIGITS]).0
    }

    /// The digit with weight 10^`power`.
    pub(super) fn digit(&self, power: usize) -> u32 {
        let limb = self.limbs.get(power / LIMB_DIGITS).unwrap_or(&0);
        limb / LIMB_POWERS[power % LIMB_DIGITS] % 10
    }

    /// Number of trailing zeros; 0 for 0.
    pub(super) fn trailing_zeros(&self) -> usize {
        let Some(at) = self.limbs.iter().position(|limb| *limb != 0) else { return 0 };
        let within = LIMB_POWERS.iter().rposition(|power| self.limbs[at].is_multiple_of(*power)).unwrap_or(0);
        at * LIMB_DIGITS + within
    }
}

/// One step of the division: subtracts the largest multiple of `divisor` from `rest`, which is one
/// limb longer and less than the base times the divisor, and returns the factor.
fn subtract_multiple(rest: &mut [u32], divisor: &[u32]) -> u32 {
    let size = divisor.len();
    let (first, second) = (u64::from(divisor[size - 1]), u64::from(divisor[size - 2]));
    let head = u64::from(rest[size]) * BASE + u64::from(rest[size - 1]);
    let (mut guess, mut left) = (head / first, head % first);
    while guess >= BASE || guess * second > left * BASE + u64::from(rest[size - 2]) {
        guess -= 1;
        left += first;
        if left >= BASE {
            break;
        }
    }
    let mut carry = 0;
    let mut borrow = 0;
    for (to, limb) in rest.iter_mut().zip(divisor.iter().map(|limb| u64::from(*limb)).chain([0])) {
        let product = limb * guess + carry;
        carry = product / BASE;
        let less = (product % BASE) as u32 + borrow;
        borrow = u32::from(*to < less);
        *to = *to + borrow * BASE as u32 - less;
    }
    if borrow > 0 {
        // The estimate was one too large: add one divisor back. The carry out of the top cancels
        // the borrow.
        guess -= 1;
        let mut carry = 0;
        for (to, limb) in rest.iter_mut().zip(divisor.iter().chain([&0])) {
            let sum = *to + limb + carry;
            carry = u32::from(u64::from(sum) >= BASE);
            *to = sum - carry * BASE as u32;
        }
    }
    guess as u32
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    /// Digits with many runs of 0 and 9, where carries and borrows propagate far.
    fn digits() -> impl Strategy<Value = String> {
        let run = prop_oneof!["[0-9]{1,12}", "0{1,20}", "9{1,20}", "1"];
        proptest::collection::vec(run, 0..12).prop_map(|runs| runs.concat())
    }

    fn natural(digits: &str) -> Natural {
        Natural::from_decimal(digits.as_bytes())
    }

    fn big(digits: &str) -> BigUint {
        BigUint::parse_bytes(format!("0{digits}").as_bytes(), 10).unwrap()
    }

    fn text(value: &Natural) -> String {
        let mut out = Vec::new();
        value.push_decimal(&mut out);
        if out.is_empty() { "0".to_owned() } else { String::from_utf8(out).unwrap() }
    }

    #[test]
    fn digits_are_counted_at_every_power_of_ten() {
        assert_eq!(digits_of(0), 0);
        for (at, power) in POWERS.into_iter().enumerate() {
            assert_eq!(digits_of(power), at + 1);
            assert_eq!(digits_of(power - 1), at);
        }
        assert_eq!(digits_of(u128::MAX), 39);
    }

    /// Operands of the rare case in which the estimate is too large even after both corrections.
    #[test]
    fn division_corrects_an_estimate_that_is_too_large() {
        let (divisor, quotient) = ("500000000000000000999999999", "999999999999999999");
        let product = (big(divisor) * big(quotient) - 1u32).to_string();
        let (q, r) = natural(&product).div_rem(&natural(divisor));
        assert_eq!(text(&q), (big(&product) / big(divisor)).to_string());
        assert_eq!(text(&r), (big(&product) % big(divisor)).to_string());
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_num_bigint(a in digits(), b in digits()) {
            let (x, y, p, q) = (natural(&a), natural(&b), big(&a), big(&b));
            prop_assert_eq!(text(&x), p.to_string());
            prop_assert_eq!(x.cmp(&y), p.cmp(&q));
            prop_assert_eq!(text(&x.add(&y)), (&p + &q).to_string());
            prop_assert_eq!(text(&x.mul(&y)), (&p * &q).to_string());
            if x >= y {
                prop_assert_eq!(text(&x.sub(&y)), (&p - &q).to_string());
            }
            if !y.is_zero() {
                let (quotient, rest) = x.div_rem(&y);
                prop_assert_eq!((text(&quotient), text(&rest)), ((&p / &q).to_string(), (&p % &q).to_string()));
            }
        }

        #[test]
        fn shifts_move_decimal_digits(a in digits(), power in 0usize..60) {
            let value = natural(&a);
            let written = text(&value);
            prop_assert_eq!(value.digits(), if value.is_zero() { 0 } else { written.len() });
            let kept = &written[..written.len().saturating_sub(power)];
            prop_assert_eq!(text(&value.shift_down(power)), if kept.is_empty() { "0" } else { kept });
            prop_assert_eq!(value.shift_up(power).shift_down(power), value.clone());
            let digit = written.bytes().rev().nth(power).map_or(0, |digit| u32::from(digit - b'0'));
            prop_assert_eq!(value.digit(power), digit);
            let zeros = if value.is_zero() { 0 } else { written.bytes().rev().take_while(|digit| *digit == b'0').count() };
            prop_assert_eq!(value.trailing_zeros(), zeros);
        }

        #[test]
        fn small_numbers_round_trip_through_u128(value in any::<u128>()) {
            prop_assert_eq!(Natural::from(value).to_u128(), Some(value));
            prop_assert_eq!(Natural::from(u128::MAX).add(&Natural::from(1)).to_u128(), None);
        }
    }
}
