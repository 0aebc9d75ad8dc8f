//! Scaled: values are multiples of a scale above a base (milliseconds in nanoseconds).

use std::ops::Range;

use model::Result;

use super::super::byte_io::{Reader, push_signed, push_varint};
use super::super::cpu::multiversion;
use super::super::features::Features;
use super::cost_model::{self, Encode, Offer, Stream, sample};
use super::{Bounds, Encoding, Head, decode_line_at, decode_range_at};

pub(super) const SCALED: Encoding = Encoding {
    tags: 65..=65,
    name: "scaled",
    feature: Features::bit(1),
    offers: &[Offer::Certain(of_common_divisor)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

/// A common divisor makes every other encoding smaller, so no other is tried without it.
fn of_common_divisor<'a>(stream: &'a Stream<'a>) -> Option<Encode<'a>> {
    let bounds = stream.bounds;
    let (scale, quotients) = divide_by_common_divisor(stream.values, bounds)?;
    Some(Box::new(move |options, out| {
        push_signed(out, bounds.min);
        push_varint(out, scale);
        let max = (bounds.max.wrapping_sub(bounds.min).cast_unsigned() / scale).cast_signed();
        cost_model::write_best_in(&quotients, Bounds { min: 0, max }, options.deeper().without(SCALED.feature), out)
    }))
}

/// The greatest divisor above 1 of all distances from the minimum, and the quotients; `None` if
/// there is none. Typical data reach divisor 1 within a few values; data with a coarser unit
/// (milliseconds in nanoseconds) cost one multiplication per value.
fn divide_by_common_divisor(values: &[i64], bounds: Bounds) -> Option<(u64, Vec<i64>)> {
    let all = bounds.max.wrapping_sub(bounds.min).cast_unsigned();
    let divisor = common_divisor(&sample(values, 0, <[i64]>::to_vec), bounds.min, all)?;
    let mut quotients = vec![0; values.len()];
    if divide_exactly(values, bounds.min, &Exact::new(divisor), &mut quotients) {
        return Some((divisor, quotients));
    }
    let divisor = common_divisor(values, bounds.min, divisor)?;
    let exact = divide_exactly(values, bounds.min, &Exact::new(divisor), &mut quotients);
    assert!(exact, "BUG: {divisor} does not divide all distances from {}", bounds.min);
    Some((divisor, quotients))
}

/// The greatest common divisor of `divisor` and all distances of `values` from `base`; `None` if it
/// is 1.
fn common_divisor(values: &[i64], base: i64, mut divisor: u64) -> Option<u64> {
    let mut exact = Exact::new(divisor);
    for value in values {
        let above = value.wrapping_sub(base).cast_unsigned();
        if !exact.divides(above) {
            divisor = gcd(above, divisor);
            if divisor <= 1 {
                return None;
            }
            exact = Exact::new(divisor);
        }
    }
    (divisor > 1).then_some(divisor)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Exact division by multiplication: an odd number has an inverse modulo 2^64.
struct Exact {
    inverse: u64,
    twos: u32,
    most: u64,
}

impl Exact {
    /// Division by `divisor`, which must not be 0.
    fn new(divisor: u64) -> Exact {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Newton's method: each step doubles the number of correct bits. An odd number is its own
        // inverse modulo 8, so the first approximation has three.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        Exact { inverse, twos, most: u64::MAX / divisor }
    }

    /// The quotient if the division is exact; above `most` otherwise.
    #[inline(always)]
    fn quotient(&self, value: u64) -> u64 {
        value.wrapping_mul(self.inverse).rotate_right(self.twos)
    }

    #[inline(always)]
    fn divides(&self, value: u64) -> bool {
        self.quotient(value) <= self.most
    }
}

multiversion! {
/// Quotients of the distances from `base`. Returns whether all divisions are exact; otherwise the
/// quotients are invalid.
fn divide_exactly(values: &[i64], base: i64, exact: &Exact, quotients: &mut [i64]) -> bool {
    let mut all = true;
    for (quotient, value) in quotients.iter_mut().zip(values) {
        let found = exact.quotient(value.wrapping_sub(base).cast_unsigned());
        all &= found <= exact.most;
        *quotient = found.cast_signed();
    }
    all
}
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    reader.note(|| format!("{scale} x "));
    decode_line_at(reader, head.count, head.depth, (base, scale), out)
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    let mut values = decode_range_at(reader, head.count, part, head.depth)?;
    values.iter_mut().for_each(|value| *value = base.wrapping_add(value.wrapping_mul(scale)));
    Ok(values)
}
