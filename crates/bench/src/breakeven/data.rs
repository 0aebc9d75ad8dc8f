//! Generated series of quarter-hourly values with flags, and their changes: pure functions of the
//! seed.

use crate::generate;

/// Values per block: one day, every 15 minutes.
pub(super) const BLOCK: usize = 96;
/// 2025-01-01 00:00 UTC, in microseconds since 2000.
const START_MICROS: i64 = 789_004_800_000_000;
/// 15 minutes, in microseconds.
const STEP_MICROS: i64 = 900_000_000;

/// TSM's flag numbers.
mod flag {
    pub(super) const MANUALLY_REPLACED: i16 = 5;
    pub(super) const FAULTY: i16 = 7;
    pub(super) const VALID: i16 = 9;
    pub(super) const ESTIMATED: i16 = 21;
}

/// The value of a series at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) flag: i16,
}

/// A value to write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) series: u32,
    /// Quarter of an hour since the start, from 0.
    pub(super) slot: usize,
    pub(super) point: Point,
}

/// A range of days of a range of series: the extent of one request. Both ranges are half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) series: (u32, u32),
    pub(super) days: (usize, usize),
}

/// Size and seed of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) seed: u64,
    pub(super) series: u32,
    pub(super) days: usize,
}

/// Time of a slot in PostgreSQL's binary form: microseconds since 2000-01-01 UTC.
pub(super) fn micros(slot: usize) -> i64 {
    START_MICROS + slot as i64 * STEP_MICROS
}

/// Slot of a time; `None` between slots or before the first.
pub(super) fn slot(micros: i64) -> Option<usize> {
    let since = micros - START_MICROS;
    (since >= 0 && since % STEP_MICROS == 0).then_some((since / STEP_MICROS) as usize)
}

impl Shape {
    /// Version `version` of a value: a load curve over the day, with two decimals. Consecutive
    /// versions differ in value, so that a stale read is detected.
    pub(super) fn point(&self, series: u32, slot: usize, version: u16) -> Point {
        let bits = generate::at(self.seed, u64::from(series), slot as u64, u64::from(version));
        let of_day = (slot % BLOCK) as f64 / BLOCK as f64 * std::f64::consts::TAU;
        let size = 2_000.0 * f64::from(1 + series % 7);
        let load = (size * (1.0 - 0.5 * of_day.cos())) as i64;
        let hundredths = 4 * (load + generate::below(bits, 100) as i64) + i64::from(version % 4);
        let draw = bits >> 32 & 127;
        let flag = match (version, draw) {
            (0, 0) => flag::FAULTY,
            (0, 1..4) => flag::ESTIMATED,
            (0, _) | (_, 0..32) => flag::VALID,
            _ => flag::MANUALLY_REPLACED,
        };
        Point { value: hundredths as f64 / 100.0, flag }
    }

    /// Number of changed values in a block, at least 1.
    pub(super) fn changed(share: u32) -> usize {
        (BLOCK * share as usize).div_ceil(100).clamp(1, BLOCK)
    }

    /// Slots to change: one run of consecutive slots at a pseudo-random place in the block.
    fn changed_of(&self, series: u32, day: usize, share: u32, pass: u64) -> std::ops::Range<usize> {
        let count = Shape::changed(share);
        let bits = generate::at(self.seed ^ 0xB10C, u64::from(series), day as u64, pass);
        let first = day * BLOCK + generate::below(bits, (BLOCK - count + 1) as u64) as usize;
        first..first + count
    }

    /// All values that a pass writes in a stretch, ordered by series and time. Advances their
    /// versions.
    pub(super) fn changes(&self, stretch: &Stretch, share: u32, pass: u64, truth: &mut Truth) -> Vec<Change> {
        let mut changes = Vec::new();
        for series in stretch.series.0..stretch.series.1 {
            for day in stretch.days.0..stretch.days.1 {
                for slot in self.changed_of(series, day, share, pass) {
                    let version = truth.next(self, series, slot);
                    changes.push(Change { series, slot, point: self.point(series, slot, version) });
                }
            }
        }
        changes
    }

    /// Stretches of one block each; neighbours are of different series.
    pub(super) fn blocks(&self) -> Vec<Stretch> {
        let days = 0..self.days;
        days.flat_map(|day| {
            (0..self.series).map(move |series| Stretch { series: (series, series + 1), days: (day, day + 1) })
        })
        .collect()
    }

    /// Stretches of all series, `days` days each.
    pub(super) fn bulks(&self, days: usize) -> Vec<Stretch> {
        let starts = (0..self.days).step_by(days.max(1));
        starts.map(|day| Stretch { series: (0, self.series), days: (day, (day + days).min(self.days)) }).collect()
    }
}

/// The last written version of each value.
pub(super) struct Truth {
    versions: Vec<u16>,
}

impl Truth {
    /// The state after the load: version 0 everywhere.
    pub(super) fn new(shape: &Shape) -> Truth {
        Truth { versions: vec![0; shape.series as usize * shape.days * BLOCK] }
    }

    fn at(shape: &Shape, series: u32, slot: usize) -> usize {
        series as usize * shape.days * BLOCK + slot
    }

    fn next(&mut self, shape: &Shape, series: u32, slot: usize) -> u16 {
        let version = &mut self.versions[Truth::at(shape, series, slot)];
        *version += 1;
        *version
    }

    /// Compares the values read for a stretch with the last written ones; describes the first
    /// difference.
    pub(super) fn check(
        &self,
        shape: &Shape,
        stretch: &Stretch,
        read: &[(u32, i64, Point)],
    ) -> std::result::Result<(), String> {
        let slots = stretch.days.0 * BLOCK..stretch.days.1 * BLOCK;
        let series = stretch.series.0..stretch.series.1;
        let mut seen = vec![false; series.len() * slots.len()];
        for (number, micros, point) in read {
            let found = slot(*micros).filter(|slot| slots.contains(slot) && series.contains(number));
            let Some(slot) = found else {
                return Err(format!("series {number} at {micros} µs was not requested"));
            };
            let place = (number - series.start) as usize * slots.len() + slot - slots.start;
            if std::mem::replace(&mut seen[place], true) {
                return Err(format!("series {number}, value {slot}: read twice"));
            }
            let expected = shape.point(*number, slot, self.versions[Truth::at(shape, *number, slot)]);
            if *point != expected {
                return Err(format!("series {number}, value {slot}: read {point:?}, written {expected:?}"));
            }
        }
        match seen.iter().filter(|seen| !**seen).count() {
            0 => Ok(()),
            missing => Err(format!("{missing} of {} values of {stretch:?} are missing", seen.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { seed: 1, series: 3, days: 5 };

    #[test]
    fn changed_values_match_the_share_and_are_at_least_one() {
        let counts = [1, 25, 50, 75, 100].map(Shape::changed);
        assert_eq!(counts, [1, 24, 48, 72, 96]);
        let mut truth = Truth::new(&SHAPE);
        for stretch in SHAPE.blocks().iter().chain(&SHAPE.bulks(2)) {
            let blocks = (stretch.days.1 - stretch.days.0) * (stretch.series.1 - stretch.series.0) as usize;
            let changes = SHAPE.changes(stretch, 25, 3, &mut truth);
            assert_eq!(changes.len(), 24 * blocks);
            let within = |change: &Change| (stretch.days.0..stretch.days.1).contains(&(change.slot / BLOCK));
            assert!(changes.iter().all(within));
        }
    }

    #[test]
    fn requests_of_either_kind_cover_every_block_once() {
        for stretches in [SHAPE.blocks(), SHAPE.bulks(2), SHAPE.bulks(100)] {
            let mut seen = [[0; 5]; 3];
            for stretch in stretches {
                for series in stretch.series.0..stretch.series.1 {
                    (stretch.days.0..stretch.days.1).for_each(|day| seen[series as usize][day] += 1);
                }
            }
            assert_eq!(seen, [[1; 5]; 3]);
        }
    }

    #[test]
    fn missing_duplicate_stale_and_unrequested_values_are_found() {
        let mut truth = Truth::new(&SHAPE);
        let stretch = Stretch { series: (1, 2), days: (2, 3) };
        SHAPE.changes(&stretch, 100, 0, &mut truth);
        type Read = (u32, i64, Point);
        let good: Vec<Read> = (2 * BLOCK..3 * BLOCK).map(|slot| (1, micros(slot), SHAPE.point(1, slot, 1))).collect();
        let check = |read: &[Read]| truth.check(&SHAPE, &stretch, read);
        assert_eq!(check(&good), Ok(()));
        let changed = |change: &dyn Fn(&mut Vec<Read>)| {
            let mut wrong = good.clone();
            change(&mut wrong);
            check(&wrong).unwrap_err()
        };
        assert!(changed(&|read| _ = read.pop()).contains("1 of 96 values"));
        assert!(changed(&|read| read.push(read[0])).contains("twice"));
        assert!(changed(&|read| read[3].2 = SHAPE.point(1, 2 * BLOCK + 3, 0)).contains("written"));
        assert!(changed(&|read| read[3].0 = 2).contains("not requested"));
        assert!(changed(&|read| read[3].1 += 1).contains("not requested"));
    }

    #[test]
    fn consecutive_versions_differ_in_value() {
        for slot in 0..2_000 {
            let (old, new) = (SHAPE.point(0, slot, 4), SHAPE.point(0, slot, 5));
            assert_ne!((old.value * 100.0).round() as i64 % 4, (new.value * 100.0).round() as i64 % 4);
        }
    }
}
