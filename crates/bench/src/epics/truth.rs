//! Expected answers, and digests of the answers that were read.

use super::generator::{Batch, Sample};
use super::pvs::{Class, Population};
use crate::generate::{STEP, mix};

/// Count and checksum of a set of samples, independent of their order.
///
/// Times count in whole microseconds, because PostgreSQL's protocol has no nanoseconds. Texts and
/// elements do not count: the queries ask for time, value, status and severity, as the published
/// ones do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) rows: u64,
    pub(super) sum: u64,
}

impl Digest {
    /// Adds a sample.
    ///
    /// - `pv`: [`identity`] of the name.
    /// - `micros`: stamp in microseconds since 1970, rounded down.
    /// - `value`: as a double; `None` for texts and waveforms.
    #[inline]
    pub(super) fn add(&mut self, pv: u64, micros: i64, value: Option<f64>, severity: i64, status: i64) {
        let bits = value.map_or(0x7E87, f64::to_bits);
        let states = (severity as u64) << 32 ^ status as u64;
        let row = mix(pv ^ micros as u64) ^ mix(bits.wrapping_add(STEP) ^ states.wrapping_mul(STEP));
        self.rows += 1;
        self.sum = self.sum.wrapping_add(mix(row));
    }

    pub(super) fn add_sample(&mut self, pv: u64, sample: &Sample) {
        let micros = sample.time.div_euclid(1_000);
        self.add(pv, micros, sample.number(), i64::from(sample.severity), i64::from(sample.status));
    }
}

/// Number that stands for a PV's name in digests.
pub(super) fn identity(name: &[u8]) -> u64 {
    name.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3))
}

/// Sums that a scan of the whole table must give.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(super) rows: u64,
    /// Sum of the values that a double holds, and of their sizes, which bounds the rounding error
    /// of any order of addition.
    pub(super) value: f64,
    /// The sum of what additions to `value` have rounded off. Without it, billions of small values beside a few large ones lose 10^-8 of the
    /// whole.
    pub(super) rounded_off: f64,
    pub(super) size: f64,
    pub(super) severity: i64,
    pub(super) status: i64,
}

impl Sums {
    /// Largest relative error of a sum in another order.
    const ROUNDING: f64 = 1e-9;

    #[inline]
    fn add(&mut self, sample: &Sample) {
        self.rows += 1;
        if sample.exact().is_none() {
            self.add_value(sample.number().unwrap_or(0.0));
        }
        self.severity += i64::from(sample.severity);
        self.status += i64::from(sample.status);
    }

    /// Adds a value as in A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen", 1974.
    #[inline]
    fn add_value(&mut self, value: f64) {
        let sum = self.value + value;
        let (large, small) = if self.value.abs() >= value.abs() { (self.value, value) } else { (value, self.value) };
        self.rounded_off += large - sum + small;
        self.value = sum;
        self.size += value.abs();
    }

    /// Describes the difference of `read` from the expected sums.
    pub(super) fn check(&self, read: &Sums) -> std::result::Result<(), String> {
        let value = self.value + self.rounded_off;
        let near = (read.value - value).abs() <= Sums::ROUNDING * self.size.max(1.0);
        let same = (read.rows, read.severity, read.status) == (self.rows, self.severity, self.status);
        if near && same {
            return Ok(());
        }
        Err(format!(
            "read {} samples with sums {} of values, {} of severities, {} of statuses; written {}, {}, {}, {}",
            read.rows, read.value, read.severity, read.status, self.rows, value, self.severity, self.status
        ))
    }
}

/// Interval of stamps, whose samples are counted while they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// Nanoseconds since 1970, half-open, in whole microseconds.
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Everything that was written, as far as answers depend on it.
pub(super) struct Truth {
    /// Whether a sample with the PV and stamp of an earlier one replaces it.
    replaces: bool,
    /// By name of the population.
    identities: Vec<u64>,
    /// Samples with a value.
    pub(super) sent: u64,
    /// Samples of lost connections. Where the archiver's tables are, each is a gap instead.
    pub(super) lost: u64,
    pub(super) repeats: u64,
    /// Samples sent by class.
    pub(super) of_class: [u64; Class::ALL.len()],
    pub(super) alarms: u64,
    /// The whole table.
    pub(super) all: Digest,
    pub(super) sums: Sums,
    /// The samples of an interval.
    pub(super) interval: Interval,
    pub(super) within: Digest,
    newest: Vec<Option<Sample>>,
}

impl Truth {
    pub(super) fn new(population: &Population, replaces: bool, interval: Interval) -> Truth {
        Truth {
            replaces,
            identities: population.names.iter().map(|name| identity(name.as_bytes())).collect(),
            sent: 0,
            lost: 0,
            repeats: 0,
            of_class: [0; Class::ALL.len()],
            alarms: 0,
            all: Digest::default(),
            sums: Sums::default(),
            interval,
            within: Digest::default(),
            newest: vec![None; population.names.len()],
        }
    }

    /// Adds a batch that is being written.
    pub(super) fn add(&mut self, population: &Population, batch: &Batch) {
        for sample in &batch.samples {
            let of_sample = &population.pvs[sample.pv as usize];
            let pv = of_sample.name as usize;
            let lost = sample.lost_until().is_some();
            if lost {
                self.lost += 1;
            } else {
                self.sent += 1;
                self.of_class[of_sample.class as usize] += 1;
            }
            self.repeats += u64::from(sample.repeats);
            if (sample.repeats || lost) && self.replaces {
                continue;
            }
            self.alarms += u64::from(sample.severity > 0);
            self.all.add_sample(self.identities[pv], sample);
            self.sums.add(sample);
            if (self.interval.from..self.interval.to).contains(&sample.time) {
                self.within.add_sample(self.identities[pv], sample);
            }
            let newest = &mut self.newest[pv];
            if newest.is_none_or(|newest| newest.time <= sample.time) {
                *newest = Some(*sample);
            }
        }
    }

    /// Rows that the table must have.
    pub(super) fn stored(&self) -> u64 {
        self.all.rows
    }

    /// The newest sample of every PV that has one.
    pub(super) fn newest(&self) -> Digest {
        let mut digest = Digest::default();
        let known = self.newest.iter().zip(&self.identities);
        known.for_each(|(sample, pv)| {
            if let Some(sample) = sample {
                digest.add_sample(*pv, sample);
            }
        });
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_not_lost_beside_a_large_sum() {
        let mut sums = Sums::default();
        sums.add_value(1e17);
        (0..1_000).for_each(|_| sums.add_value(1.0));
        assert_eq!(sums.value + sums.rounded_off, 1e17 + 1_000.0);
        let read = |value: f64| Sums { rows: 0, value, ..Sums::default() };
        assert_eq!(sums.check(&read(1e17 + 1e7)), Ok(()), "rounded in another order");
        assert!(sums.check(&read(1e17 + 1e9)).is_err());
    }
}
