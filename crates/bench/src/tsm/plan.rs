//! Generated series of equidistant values with flags, the requests that cover them, and the check of
//! answers. Values are pure functions of seed, series, slot and version.

use std::ops::Range;

use super::SeriesKind;
use crate::generate;

/// 2025-01-01T00:00:00Z, in seconds since 1970.
const START_S: i64 = 1_735_689_600;
const DAY_S: u32 = 86_400;
/// 2024-01-01T00:00:00Z, in seconds since 1970: version 0 of quotation series. Versions are an hour apart.
const FIRST_QUOTATION_S: i64 = 1_704_067_200;
const QUOTATION_STEP_S: i64 = 3_600;
/// Loads of the daily profile in hundredths: 1,000.00 at night to 3,000.00 at noon.
const PROFILE_MEAN: f64 = 200_000.0;
const PROFILE_SWING: f64 = 0.5;
/// Largest noise on top of the profile, in hundredths.
const NOISE: u64 = 10_000;

/// TSM's flag numbers.
const VALID: i16 = 9;
const ESTIMATED: i16 = 21;
/// One value of this many is flagged as estimated.
const ESTIMATED_EVERY: u64 = 64;

/// The value of a series at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Value times 100. Integers are summed exactly.
    pub(super) hundredths: i64,
    pub(super) flag: i16,
}

impl Point {
    /// The `f64` closest to the decimal, as a parser of its text returns it.
    pub(super) fn value(self) -> f64 {
        self.hundredths as f64 / 100.0
    }

    /// `None` if `value` is not the closest `f64` to a decimal with two digits: it was not written by
    /// this tool.
    pub(super) fn of(value: f64, flag: i16) -> Option<Point> {
        let hundredths = (value * 100.0).round() as i64;
        let point = Point { hundredths, flag };
        (point.value().to_bits() == value.to_bits()).then_some(point)
    }
}

/// Series and slots of one request. Both ranges are half-open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) series: Range<u32>,
    pub(super) slots: Range<usize>,
}

impl Part {
    pub(super) fn values(&self) -> u64 {
        u64::from(self.series.end - self.series.start) * self.slots.len() as u64
    }

    pub(super) fn is_single(&self) -> bool {
        self.series.end - self.series.start == 1
    }
}

/// Size and seed of a set of series.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    seed: u64,
    /// Numbers of the series. Sets of one run have different numbers.
    pub(super) series: Range<u32>,
    pub(super) kind: SeriesKind,
    step_s: u32,
    pub(super) days: u32,
    /// Daily profile by slot of the day, in hundredths.
    profile: Vec<i64>,
    /// Start of each slot, `2025-01-01T00:00:00Z`, and at last the end of the last one.
    stamps: Vec<String>,
}

impl Shape {
    /// Plain series.
    ///
    /// - `step_s`: seconds between values; a divisor of a day.
    pub(super) fn new(seed: u64, series: Range<u32>, step_s: u32, days: u32) -> Shape {
        assert!(DAY_S.is_multiple_of(step_s), "BUG: {step_s} s do not divide a day");
        let per_day = (DAY_S / step_s) as usize;
        let profile = |slot: usize| {
            let of_day = slot as f64 / per_day as f64 * std::f64::consts::TAU;
            (PROFILE_MEAN * (1.0 - PROFILE_SWING * of_day.cos())) as i64
        };
        let stamp = |slot: usize| {
            let second = START_S + slot as i64 * i64::from(step_s);
            jiff::Timestamp::from_second(second).map_or_else(|_| String::new(), |time| time.to_string())
        };
        Shape {
            seed,
            series,
            kind: SeriesKind::Plain,
            step_s,
            days,
            profile: (0..per_day).map(profile).collect(),
            stamps: (0..=per_day * days as usize).map(stamp).collect(),
        }
    }

    /// The same series, defined as `kind`.
    pub(super) fn of_kind(self, kind: SeriesKind) -> Shape {
        Shape { kind, ..self }
    }

    /// Time that names version `version` of quotation series, as text; `None` for other series.
    pub(super) fn quotation(&self, version: u32) -> Option<String> {
        let second = FIRST_QUOTATION_S + i64::from(version) * QUOTATION_STEP_S;
        let time = jiff::Timestamp::from_second(second).ok().filter(|_| self.kind == SeriesKind::Quotation);
        time.map(|time| time.to_string())
    }

    /// Values per series and day.
    pub(super) fn per_day(&self) -> usize {
        self.profile.len()
    }

    /// Values per series.
    pub(super) fn slots(&self) -> usize {
        self.per_day() * self.days as usize
    }

    pub(super) fn step_minutes(&self) -> u32 {
        self.step_s / 60
    }

    /// Start of a slot as text; `slots()` is the end of the last one.
    pub(super) fn stamp(&self, slot: usize) -> &str {
        &self.stamps[slot]
    }

    /// Start of a slot in nanoseconds since 1970.
    pub(super) fn nanos(&self, slot: usize) -> i64 {
        (START_S + slot as i64 * i64::from(self.step_s)) * 1_000_000_000
    }

    /// Slot of a time; `None` between slots, before the first and after the last.
    pub(super) fn slot(&self, nanos: i64) -> Option<usize> {
        let since = nanos.checked_sub(self.nanos(0))?;
        let step = i64::from(self.step_s) * 1_000_000_000;
        let slot = (since >= 0 && since % step == 0).then_some((since / step) as usize)?;
        (slot < self.slots()).then_some(slot)
    }

    /// Version `version` of a value: a load curve with two decimals. Consecutive versions differ, so
    /// that a stale read is detected.
    pub(super) fn point(&self, series: u32, slot: usize, version: u32) -> Point {
        let bits = generate::draw(generate::stream(self.seed, u64::from(series), u64::from(version)), slot as u64);
        let load = self.profile[slot % self.per_day()] * i64::from(1 + series % 7);
        let noise = generate::below(bits, NOISE / 4) as i64 * 4 + i64::from(version % 4);
        let flag = if bits.is_multiple_of(ESTIMATED_EVERY) { ESTIMATED } else { VALID };
        Point { hundredths: load + noise, flag }
    }

    /// Requests of up to `series` series that cover everything.
    pub(super) fn parts(&self, series: u32) -> Vec<Part> {
        let starts = self.series.clone().step_by(series.max(1) as usize);
        let end = |start: u32| start.saturating_add(series.max(1)).min(self.series.end);
        starts.map(|start| Part { series: start..end(start), slots: 0..self.slots() }).collect()
    }

    /// The request for one day of one series that `bits` selects.
    pub(super) fn day_of(&self, bits: u64) -> Part {
        let series = self.series.start + generate::below(bits, u64::from(self.series.end - self.series.start)) as u32;
        let day = generate::below(generate::mix(bits), u64::from(self.days)) as usize;
        Part { series: series..series + 1, slots: day * self.per_day()..(day + 1) * self.per_day() }
    }
}

/// Name of a series.
pub(super) fn name(series: u32) -> String {
    format!("S{series:07}")
}

/// Number of a series with this name.
pub(super) fn number(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name.strip_prefix(b"S")?).ok()?.parse().ok()
}

/// Count and sums of the values of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    count: u64,
    hundredths: i64,
    /// Each value times the number of its slot: two values with exchanged times change it.
    places: i64,
    flags: i64,
}

impl Sums {
    #[inline]
    fn add(&mut self, slot: usize, point: Point) {
        self.count += 1;
        self.hundredths += point.hundredths;
        self.places = self.places.wrapping_add(point.hundredths.wrapping_mul(slot as i64 + 1));
        self.flags += i64::from(point.flag);
    }
}

/// Values of an answer, to compare with those that were written.
pub(super) struct Seen<'a> {
    pub(super) shape: &'a Shape,
    pub(super) part: &'a Part,
    sums: Vec<Sums>,
}

impl<'a> Seen<'a> {
    pub(super) fn new(shape: &'a Shape, part: &'a Part) -> Seen<'a> {
        Seen { shape, part, sums: vec![Sums::default(); part.series.len()] }
    }

    /// Adds a value that was read.
    ///
    /// # Errors
    /// A finding if it was not requested.
    #[inline]
    pub(super) fn add(&mut self, series: u32, slot: usize, point: Point) -> std::result::Result<(), String> {
        if !self.part.series.contains(&series) || !self.part.slots.contains(&slot) {
            return Err(format!("series {series}, value {slot}: not requested"));
        }
        self.sums[(series - self.part.series.start) as usize].add(slot, point);
        Ok(())
    }

    /// Adds a value by its time.
    ///
    /// # Errors
    /// A finding if it was not requested, or if no such value was ever written.
    #[inline]
    pub(super) fn add_at(&mut self, series: u32, nanos: i64, value: f64, flag: i16) -> std::result::Result<(), String> {
        let slot = self.shape.slot(nanos).ok_or_else(|| format!("series {series}: {nanos} ns was never written"))?;
        let point = Point::of(value, flag)
            .ok_or_else(|| format!("series {series}, value {slot}: {value} was never written"))?;
        self.add(series, slot, point)
    }

    /// Compares count and sums of each series with those of version `version`.
    ///
    /// # Errors
    /// A finding about the first series that differs.
    pub(super) fn check(&self, version: u32) -> std::result::Result<(), String> {
        for (series, seen) in self.part.series.clone().zip(&self.sums) {
            let mut expected = Sums::default();
            self.part.slots.clone().for_each(|slot| expected.add(slot, self.shape.point(series, slot, version)));
            if *seen != expected {
                return Err(format!(
                    "series {series}, values {:?}: read {seen:?}, written {expected:?}",
                    self.part.slots
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::new(1, 10..23, 900, 3)
    }

    #[test]
    fn requests_cover_every_series_once() {
        let shape = shape();
        for size in [1, 5, 100] {
            let parts = shape.parts(size);
            let series: Vec<u32> = parts.iter().flat_map(|part| part.series.clone()).collect();
            assert_eq!(series, (10..23).collect::<Vec<u32>>(), "{size}");
            assert_eq!(parts.iter().map(Part::values).sum::<u64>(), 13 * 3 * 96);
        }
        for bits in (0..1_000).map(generate::mix) {
            let day = shape.day_of(bits);
            assert!(day.is_single() && shape.series.contains(&day.series.start), "{day:?}");
            assert!(
                day.values() == 96 && day.slots.start.is_multiple_of(96) && day.slots.end <= shape.slots(),
                "{day:?}"
            );
        }
    }

    #[test]
    fn times_have_texts_and_slots() {
        let shape = shape();
        assert_eq!((shape.stamp(0), shape.stamp(1)), ("2025-01-01T00:00:00Z", "2025-01-01T00:15:00Z"));
        assert_eq!(shape.stamp(shape.slots()), "2025-01-04T00:00:00Z");
        assert_eq!(shape.slot(shape.nanos(7)), Some(7));
        for wrong in [shape.nanos(7) + 1, shape.nanos(0) - 900_000_000_000, shape.nanos(shape.slots())] {
            assert_eq!(shape.slot(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn versions_of_quotation_series_are_an_hour_apart() {
        let quoted = shape().of_kind(SeriesKind::Quotation);
        assert_eq!(quoted.quotation(0).as_deref(), Some("2024-01-01T00:00:00Z"));
        assert_eq!(quoted.quotation(25).as_deref(), Some("2024-01-02T01:00:00Z"));
        for kind in [SeriesKind::Plain, SeriesKind::Audit] {
            assert_eq!(shape().of_kind(kind).quotation(1), None);
        }
    }

    #[test]
    fn values_survive_their_double_and_versions_differ() {
        let shape = shape();
        for slot in 0..shape.slots() {
            let point = shape.point(11, slot, 3);
            assert_eq!(Point::of(point.value(), point.flag), Some(point));
            assert_ne!(shape.point(11, slot, 3).hundredths, shape.point(11, slot, 4).hundredths);
        }
        assert_eq!(Point::of(1.001, VALID), None);
        assert_eq!(Point::of(f64::NAN, VALID), None);
    }

    #[test]
    fn missing_stale_exchanged_and_unrequested_values_are_found() {
        type Sent = (u32, usize, Point);
        let shape = shape();
        let part = Part { series: 11..13, slots: 96..192 };
        let all: Vec<Sent> = part
            .series
            .clone()
            .flat_map(|series| part.slots.clone().map(move |slot| (series, slot)))
            .map(|(series, slot)| (series, slot, shape.point(series, slot, 5)))
            .collect();
        let check = |change: &dyn Fn(&mut Vec<Sent>)| {
            let mut values = all.clone();
            change(&mut values);
            let mut seen = Seen::new(&shape, &part);
            values.iter().try_for_each(|(series, slot, point)| seen.add(*series, *slot, *point))?;
            seen.check(5)
        };
        assert_eq!(check(&|_| {}), Ok(()));
        assert!(check(&|values| _ = values.pop()).is_err());
        assert!(check(&|values| values[3].2 = shape.point(11, 99, 4)).is_err());
        assert!(check(&|values| (values[3].1, values[4].1) = (values[4].1, values[3].1)).is_err());
        assert!(check(&|values| values[3].2.flag += 1).is_err());
        assert!(check(&|values| values.push((13, 96, shape.point(13, 96, 5)))).unwrap_err().contains("not requested"));
    }

    #[test]
    fn names_have_numbers() {
        assert_eq!(number(name(12_345).as_bytes()), Some(12_345));
        assert_eq!(number(b"X1"), None);
    }
}
