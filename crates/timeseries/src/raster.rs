//! Rasters: time divided into intervals of a step and a multiplier, in a calendar.
//!
//! A raster of an hour or less follows the clock of its zone, and an interval is longer or shorter only where the clock changes by
//! less than the interval, as on Lord Howe Island. A day has 23, 24 or 25 hours. [`crate::buckets`] has the exact rules.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;
use model::{Error, Result, SqlState};

use crate::buckets::{Buckets, Interval, time_zone};

/// Intervals that a range may have: a century of minutes.
pub const INTERVALS_MAX: i64 = 53_000_000;
const NS_PER_DAY: i64 = 86_400_000_000_000;

/// A unit of calendar time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A thousandth of a second.
    Millisecond,
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day of the calendar: 23, 24 or 25 hours where clocks change.
    Day,
    /// Seven days, from Monday.
    Week,
    /// A month.
    Month,
    /// Three months, from January, April, July and October.
    Quarter,
    /// A year.
    Year,
}

const STEPS: [(Step, &str); 9] = [
    (Step::Millisecond, "Millisecond"),
    (Step::Second, "Second"),
    (Step::Minute, "Minute"),
    (Step::Hour, "Hour"),
    (Step::Day, "Day"),
    (Step::Week, "Week"),
    (Step::Month, "Month"),
    (Step::Quarter, "Quarter"),
    (Step::Year, "Year"),
];

impl Step {
    /// Name of the step, such as `Minute`.
    #[must_use]
    pub fn name(self) -> &'static str {
        STEPS[self as usize].1
    }

    /// Length in nanoseconds of a step that always has the same: a millisecond to an hour.
    fn nanoseconds(self) -> Option<i64> {
        match self {
            Step::Millisecond => Some(1_000_000),
            Step::Second => Some(1_000_000_000),
            Step::Minute => Some(60_000_000_000),
            Step::Hour => Some(3_600_000_000_000),
            _ => None,
        }
    }
}

impl FromStr for Step {
    type Err = Error;

    /// Case does not matter, and a plural is accepted.
    fn from_str(text: &str) -> Result<Step> {
        let text = text.trim();
        let singular = text.strip_suffix(['s', 'S']).unwrap_or(text);
        let found = STEPS.iter().find(|(_, name)| name.eq_ignore_ascii_case(singular));
        found.map(|(step, _)| *step).ok_or_else(|| {
            let names: Vec<&str> = STEPS.iter().map(|(_, name)| *name).collect();
            invalid(format!("interval \"{text}\" is not known: expected {}", names.join(", ")))
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Largest multiplier of a step.
pub const MULTIPLIER_MAX: u32 = 1_000_000;

/// Intervals of `multiplier` steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raster {
    step: Step,
    multiplier: u32,
}

impl Raster {
    /// # Errors
    /// 22023 for a multiplier of 0 or more than [`MULTIPLIER_MAX`].
    pub fn new(step: Step, multiplier: u32) -> Result<Raster> {
        if multiplier == 0 || multiplier > MULTIPLIER_MAX {
            return Err(invalid(format!("interval multiplier {multiplier}: expected 1 to {MULTIPLIER_MAX}")));
        }
        Ok(Raster { step, multiplier })
    }

    /// The step.
    #[must_use]
    pub fn step(self) -> Step {
        self.step
    }

    /// Steps of an interval.
    #[must_use]
    pub fn multiplier(self) -> u32 {
        self.multiplier
    }

    /// Length in nanoseconds of an interval below a day, which all intervals have unless clocks change by less.
    #[must_use]
    pub fn nanoseconds(self) -> Option<i64> {
        self.step.nanoseconds()?.checked_mul(self.multiplier.into())
    }

    /// Upper bound of the intervals in a range, short of those at its ends. Days, weeks, months and years are taken to be as
    /// short as they can be.
    #[must_use]
    pub fn count_max(self, from: i64, to: i64) -> i64 {
        let length = self.nanoseconds().unwrap_or_else(|| NS_PER_DAY.saturating_mul(self.multiplier.into()));
        to.saturating_sub(from) / length
    }

    /// Refuses a range with too many intervals, by [`Raster::count_max`].
    ///
    /// # Errors
    /// 54000 beyond [`INTERVALS_MAX`].
    pub fn check_range(self, from: i64, to: i64) -> Result<()> {
        if self.count_max(from, to) <= INTERVALS_MAX {
            return Ok(());
        }
        let message = format!("the range has more than {INTERVALS_MAX} intervals of {self}");
        Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }

    /// The intervals of the raster in a calendar.
    ///
    /// # Errors
    /// 22023 if an interval is longer than time.
    pub fn intervals(self, calendar: &Calendar) -> Result<Buckets> {
        let too_long = || invalid(format!("an interval of {self} is too long"));
        let count = i32::try_from(self.multiplier).map_err(|_| too_long())?;
        let times = |steps: i32| count.checked_mul(steps).ok_or_else(too_long);
        let width = match self.step {
            Step::Day => Interval { days: count, ..Interval::default() },
            Step::Week => Interval { days: times(7)?, ..Interval::default() },
            Step::Month => Interval { months: count, ..Interval::default() },
            Step::Quarter => Interval { months: times(3)?, ..Interval::default() },
            Step::Year => Interval { months: times(12)?, ..Interval::default() },
            _ => Interval { nanoseconds: self.nanoseconds().ok_or_else(too_long)?, ..Interval::default() },
        };
        Buckets::in_zone(width, &calendar.zone, Interval { nanoseconds: calendar.day_start, ..Interval::default() })
    }
}

impl fmt::Display for Raster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.multiplier == 1 {
            write!(out, "{}", self.step)
        } else {
            write!(out, "{} {}", self.multiplier, self.step)
        }
    }
}

/// A time zone, and the local time at which its days start.
#[derive(Clone, Debug, PartialEq)]
pub struct Calendar {
    name: String,
    zone: TimeZone,
    /// Nanoseconds after midnight.
    day_start: i64,
}

impl Calendar {
    /// UTC, with days from midnight.
    #[must_use]
    pub fn utc() -> Calendar {
        Calendar { name: "UTC".to_owned(), zone: TimeZone::UTC, day_start: 0 }
    }

    /// Parses the name of an IANA zone, with the start of days if it is not midnight: `Europe/Vienna`, or
    /// `Europe/Vienna 06:00` for gas days.
    ///
    /// # Errors
    /// 22023 for an unknown zone, or a start that is no time of a day.
    pub fn parse(text: &str) -> Result<Calendar> {
        let text = text.trim();
        let (zone, start) = match text.rsplit_once([' ', '+']) {
            Some((zone, start)) if start.contains(':') && !zone.is_empty() => (zone.trim_end(), Some(start)),
            _ => (text, None),
        };
        let day_start = start.map_or(Ok(0), day_start)?;
        Ok(Calendar { name: text.to_owned(), zone: time_zone(zone)?, day_start })
    }

    /// Text that [`Calendar::parse`] understands.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The zone.
    #[must_use]
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }
}

/// Nanoseconds after midnight.
fn day_start(text: &str) -> Result<i64> {
    let refused = || invalid(format!("day start \"{text}\": expected a time of a day such as 06:00"));
    let time: jiff::civil::Time = text.parse().map_err(|_| refused())?;
    let start = time.duration_since(jiff::civil::Time::midnight()).as_nanos();
    i64::try_from(start).ok().filter(|start| *start < NS_PER_DAY).ok_or_else(refused)
}

fn invalid(text: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

#[cfg(test)]
#[path = "raster_tests.rs"]
mod tests;
