//! Random choices that a seed repeats.

use crate::random_rows::now;

/// Seed of short runs. It is fixed: a failure found by chance must not block an unrelated change.
const SEED: u64 = 11;

/// The seed of `MILLRACE_RANDOM_SEED` (`now`: a new one), or the fixed one. Printed, so that a failure can be repeated.
pub(super) fn seed() -> u64 {
    let seed = match std::env::var("MILLRACE_RANDOM_SEED").as_deref() {
        Ok("now") => now(),
        Ok(text) => text.parse().unwrap_or(SEED),
        Err(_) => SEED,
    };
    println!("MILLRACE_RANDOM_SEED={seed}");
    seed
}

/// The number of an environment variable, or a default.
pub(super) fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A sequence of pseudo-random numbers.
pub(super) struct Random(u64);

impl Random {
    /// - `sequence`: different ones are independent.
    pub(super) fn new(seed: u64, sequence: u64) -> Random {
        let mut random =
            Random(seed.wrapping_mul(0xA24B_AED4_963E_E407) ^ sequence.wrapping_mul(0x9FB2_1C65_1E98_DF25));
        // The first states of neighbouring seeds are alike.
        for _ in 0..4 {
            random.below(2);
        }
        random
    }

    /// A number below `end`, which is greater than 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Puts all elements into random order.
    pub(super) fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}
