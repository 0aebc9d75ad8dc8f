//! TPC-C's random numbers and texts (clauses 2.1.6, 4.3.2), as pure functions of a seed.

use crate::generate::{STEP, below, mix, stream, unit_interval};

/// Letters and digits: all texts of the population consist of them, so none needs escaping.
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Syllables of last names, one for each digit of the name's number.
const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// Customers of each district.
pub(super) const CUSTOMERS: i32 = 3000;
/// Number of items; each warehouse has stock of all of them.
pub(super) const ITEMS: i32 = 100_000;
/// Number of different last names.
pub(super) const NAMES: i32 = 1000;

/// A stream of random numbers. Equal seeds and coordinates give equal streams on every machine.
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Returns the stream at the coordinates `(a, b)`.
    pub(super) fn new(seed: u64, a: u64, b: u64) -> Random {
        Random { state: stream(seed, a, b) }
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform in `low ..= high`.
    pub(super) fn within(&mut self, low: i32, high: i32) -> i32 {
        low + below(self.bits(), (high - low + 1) as u64) as i32
    }

    /// Returns true with probability 1/n.
    pub(super) fn one_of(&mut self, n: i32) -> bool {
        self.within(1, n) == 1
    }

    /// Returns true with a probability of `share` percent.
    pub(super) fn percent(&mut self, share: i32) -> bool {
        self.within(1, 100) <= share
    }

    /// A delay in seconds with this mean, exponentially distributed, at most ten times the mean
    /// (clause 5.2.5.4).
    pub(super) fn delay_s(&mut self, mean_s: f64) -> f64 {
        let share = unit_interval(self.bits()).max(f64::MIN_POSITIVE);
        (-share.ln() * mean_s).min(mean_s * 10.0)
    }

    /// `NURand(a, low, high)` with the constant `c`: non-uniform, with hot spots that depend on
    /// `c`.
    fn uneven(&mut self, a: i32, c: i32, low: i32, high: i32) -> i32 {
        ((self.within(0, a) | self.within(low, high)) + c) % (high - low + 1) + low
    }

    /// Appends `low ..= high` random letters and digits.
    pub(super) fn letters(&mut self, low: i32, high: i32, out: &mut Vec<u8>) {
        let count = self.within(low, high) as usize;
        self.push_of(count, LETTERS, out);
    }

    /// Appends `count` random digits.
    pub(super) fn digits(&mut self, count: usize, out: &mut Vec<u8>) {
        self.push_of(count, b"0123456789", out);
    }

    fn push_of(&mut self, mut count: usize, alphabet: &[u8], out: &mut Vec<u8>) {
        while count > 0 {
            let mut bits = self.bits();
            // 16 bits for each character: the bias is below 0.1 %.
            for _ in 0..count.min(4) {
                out.push(alphabet[((bits & 0xffff) as usize * alphabet.len()) >> 16]);
                bits >>= 16;
            }
            count -= count.min(4);
        }
    }

    /// Shuffles uniformly.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, below(self.bits(), last as u64 + 1) as usize);
        }
    }
}

/// Constants of the non-uniform random numbers: one set for loading, another for runs (clause
/// 2.1.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constants {
    last_name: i32,
    customer: i32,
    item: i32,
}

impl Constants {
    /// Constants for loading with this seed.
    pub(super) fn of_load(seed: u64) -> Constants {
        let mut random = Random::new(seed, 0xC0, 0);
        Constants { last_name: random.within(0, 255), customer: random.within(0, 1023), item: random.within(0, 8191) }
    }

    /// Constants for a run on data loaded with this seed: the last names' constant differs by 65
    /// ..= 119, except 96 and 112.
    pub(super) fn of_run(seed: u64) -> Constants {
        let load = Constants::of_load(seed);
        let mut random = Random::new(seed, 0xC0, 1);
        let last_name = loop {
            let chosen = random.within(0, 255);
            let apart = (chosen - load.last_name).abs();
            if (65..=119).contains(&apart) && apart != 96 && apart != 112 {
                break chosen;
            }
        };
        Constants { last_name, customer: random.within(0, 1023), item: random.within(0, 8191) }
    }

    /// Number of a last name, non-uniform.
    pub(super) fn last_name(self, random: &mut Random) -> i32 {
        random.uneven(255, self.last_name, 0, NAMES - 1)
    }

    /// Number of a customer, non-uniform.
    pub(super) fn customer(self, random: &mut Random) -> i32 {
        random.uneven(1023, self.customer, 1, CUSTOMERS)
    }

    /// Number of an item, non-uniform.
    pub(super) fn item(self, random: &mut Random) -> i32 {
        random.uneven(8191, self.item, 1, ITEMS)
    }
}

/// Last name for a number in `0 .. 1000`: one syllable for each digit.
pub(super) fn last_name(number: i32) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_syllables_of_their_digits() {
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(999), "EINGEINGEING");
        let mut all: Vec<String> = (0..NAMES).map(last_name).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn non_uniform_numbers_are_in_range_and_non_uniform() {
        for seed in 0..20 {
            let (constants, mut random) = (Constants::of_run(seed), Random::new(seed, 9, 9));
            let mut seen = vec![0_u32; CUSTOMERS as usize + 1];
            for _ in 0..100_000 {
                seen[constants.customer(&mut random) as usize] += 1;
                assert!((1..=ITEMS).contains(&constants.item(&mut random)));
                assert!((0..NAMES).contains(&constants.last_name(&mut random)));
            }
            assert_eq!(seen[0], 0);
            assert!(seen[1..].iter().filter(|count| **count > 0).count() > 2400);
            // A uniform distribution would have a maximum near 60.
            assert!(seen.iter().max() > Some(&150), "{:?}", seen.iter().max());
        }
    }

    #[test]
    fn the_constants_of_load_and_run_differ_as_the_standard_requires() {
        for seed in 0..2000 {
            let apart = (Constants::of_run(seed).last_name - Constants::of_load(seed).last_name).abs();
            assert!((65..=119).contains(&apart) && apart != 96 && apart != 112, "seed {seed}: {apart}");
        }
    }

    #[test]
    fn delays_have_their_mean_and_their_limit() {
        let mut random = Random::new(1, 2, 3);
        let delays: Vec<f64> = (0..100_000).map(|_| random.delay_s(12.0)).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!(delays.iter().all(|delay| (0.0..=120.0).contains(delay)));
    }
}
