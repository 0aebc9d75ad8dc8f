//! Pseudo-random numbers that depend on their coordinates only: the same on every machine, in any
//! order of calls, from any thread.

/// Mixes 64 bits so that similar inputs give unrelated outputs.
///
/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
/// 2014), with the multipliers of Stafford's variant 13.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Increment of SplitMix64: odd, and far from any small multiple.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the number at the coordinates `(seed, a, b, c)`.
#[inline]
pub(crate) fn at(seed: u64, a: u64, b: u64, c: u64) -> u64 {
    let stream = mix(mix(seed ^ a.wrapping_mul(STEP)).wrapping_add(b.wrapping_mul(STEP)));
    mix(stream.wrapping_add(c.wrapping_mul(STEP)))
}

/// Returns the key of the stream of numbers that differ in the last coordinate only:
/// `at(seed, a, b, c) == draw(stream(seed, a, b), c)`.
#[inline]
pub(crate) fn stream(seed: u64, a: u64, b: u64) -> u64 {
    mix(mix(seed ^ a.wrapping_mul(STEP)).wrapping_add(b.wrapping_mul(STEP)))
}

/// The `n`-th number of a stream.
#[inline]
pub(crate) fn draw(stream: u64, n: u64) -> u64 {
    mix(stream.wrapping_add(n.wrapping_mul(STEP)))
}

/// Maps 64 random bits to a uniform number in [0, 1) with 53 bits of precision.
#[inline]
pub(crate) fn unit_interval(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Maps 64 random bits to a uniform number in `0..n`; n ≥ 1. The bias is below n / 2^64.
#[inline]
pub(crate) fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_the_number_at_its_coordinates() {
        for n in 0..100 {
            assert_eq!(at(7, 3, 5, n), draw(stream(7, 3, 5), n));
        }
    }

    #[test]
    fn draws_are_spread_evenly() {
        let mut buckets = [0u32; 16];
        for n in 0..160_000 {
            let u = unit_interval(draw(stream(666, 1, 2), n));
            buckets[(u * 16.0) as usize] += 1;
        }
        assert!(buckets.iter().all(|count| (9_500..10_500).contains(count)), "{buckets:?}");
    }
}
