//! Time buckets: the start of a time's bucket, and the start of the next bucket.
//!
//! Words: a *width* is an interval of months, days and nanoseconds; the *grid* is the sequence of local times at
//! which buckets would start if clocks never changed; a *start* is the time at which a bucket really starts.
//!
//! Always true, in every zone and across every change of its offset:
//! - `start(t) <= t < next(start(t))`, and `start(start(t)) == start(t)`: every time is in exactly one bucket.
//! - `start` is non-decreasing in `t`; the bucket after `s` starts at `next(s)`: no gap, no overlap.
//!
//! Without a zone the grid is in UTC, a day has 24 hours and a bucket is a plain division. With a zone:
//! - A width of a day or more (and every width in months): a bucket starts when the local clock first shows the grid
//!   point. Days then last 23, 24 or 25 hours. A grid point that the clock skips is the time of the skip.
//! - A shorter width: a bucket starts *whenever* the local clock shows a grid point, so the repeated hour of autumn
//!   has buckets of its own, and at a skip over a grid point. Buckets follow the wall clock (06:00, 12:00, 18:00 all
//!   year) and only the bucket that holds the change is longer or shorter. TimescaleDB maps both repeated hours to
//!   one bucket that starts after the first of them; such a bucket does not contain all of its rows.
//!
//! The default origin is TimescaleDB's: Monday 2000-01-03 00:00 for widths without months, 2000-01-01 with months.
//! For widths in months only the year and month of the origin are used.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};
use model::{Error, Result, SqlState};

const NS_PER_SECOND: i128 = 1_000_000_000;
const NS_PER_DAY: i64 = 86_400_000_000_000;
/// 2000-01-03T00:00:00, a Monday, so that weekly buckets start on Mondays.
const ORIGIN_NS: i64 = 946_857_600 * 1_000_000_000;
/// January 2000, in months since year 0.
const ORIGIN_MONTH: i64 = 2000 * 12;

/// An interval as in PostgreSQL: three parts that do not convert into each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Months, including years.
    pub months: i32,
    /// Days, including weeks.
    pub days: i32,
    /// Parts shorter than a day.
    pub nanoseconds: i64,
}

/// A division of time into buckets.
#[derive(Clone, Debug, PartialEq)]
pub struct Buckets {
    grid: Grid,
    zone: Option<TimeZone>,
}

/// Grid points, in nanoseconds of local time since 1970.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grid {
    /// Every `width`; `phase` is the first point at or after 1970, in `0 .. width`.
    Fixed { width: i64, phase: i64 },
    /// First day of every `months`th month, counted from month `origin`, shifted by `shift` nanoseconds.
    Months { months: i64, origin: i64, shift: i64 },
}

impl Buckets {
    /// - `width`: positive; months cannot be combined with days or shorter parts.
    /// - `zone`: an IANA name; `None` is UTC.
    /// - `origin`: a time at which some bucket starts.
    /// - `offset`: shifts all buckets; months only if the width is in months.
    ///
    /// # Errors
    /// 22023 naming the invalid argument.
    pub fn new(width: Interval, zone: Option<&str>, origin: Option<i64>, offset: Interval) -> Result<Buckets> {
        let zone = zone.map(time_zone).transpose()?.filter(|zone| *zone != TimeZone::UTC);
        let local_origin = match (&zone, origin) {
            (Some(zone), Some(origin)) => Some(narrow(local(zone, origin)?)?),
            (_, origin) => origin,
        };
        let shift = fixed_part(offset)?;
        let grid = match width {
            Interval { months: 0, .. } => fixed_grid(width, local_origin, offset, shift)?,
            Interval { days: 0, nanoseconds: 0, .. } => month_grid(width, local_origin, offset, shift)?,
            _ => return Err(invalid("width mixes months with days or shorter parts")),
        };
        Ok(Buckets { grid, zone })
    }

    /// Buckets of a width in a zone, shifted by an offset as in [`Buckets::new`].
    ///
    /// # Errors
    /// 22023 naming the invalid argument.
    pub fn in_zone(width: Interval, zone: &TimeZone, offset: Interval) -> Result<Buckets> {
        let plain = Buckets::new(width, None, None, offset)?;
        Ok(Buckets { zone: Some(zone.clone()).filter(|zone| *zone != TimeZone::UTC), ..plain })
    }

    /// Starts of the first `max` buckets that contain a time of `from .. to`, and the end of the last one; empty if the range
    /// is. All buckets of the range are there if the end of the last one is not before `to`.
    ///
    /// # Errors
    /// 22008 if a start is outside 1677-09-21 .. 2262-04-11.
    pub fn bounds(&self, from: i64, to: i64, max: usize) -> Result<Vec<i64>> {
        if from >= to || max == 0 {
            return Ok(Vec::new());
        }
        let mut bounds = vec![self.start(from)?];
        let mut start = bounds[0];
        while start < to && bounds.len() <= max {
            let plain_until = self.plain_until(start)?.min(to);
            if let Grid::Fixed { width, .. } = self.grid {
                let count = usize::try_from(plain_until.saturating_sub(start) / width).unwrap_or(0);
                let count = count.min(max + 1 - bounds.len());
                bounds.extend((1..=count).map(|at| start + at as i64 * width));
                start = bounds[bounds.len() - 1];
                if start >= to || bounds.len() > max {
                    break;
                }
            }
            start = self.next(start)?;
            bounds.push(start);
        }
        Ok(bounds)
    }

    /// Ends of the buckets that start at ascending times; `None` for a time at which no bucket starts. Some nanoseconds
    /// a time where the clock does not change.
    ///
    /// # Errors
    /// 22008 for an end outside 1677-09-21 .. 2262-04-11.
    pub fn ends(&self, starts: &[i64]) -> Result<Vec<Option<i64>>> {
        let width = match self.grid {
            Grid::Fixed { width, .. } => width,
            Grid::Months { .. } => i64::MAX,
        };
        // Buckets from `first` have the grid's width up to `plain_until`; `next` is the start of one of them.
        let (mut first, mut plain_until, mut next) = (0, i64::MIN, None);
        let end = |start: &i64| {
            let is_plain = |first: i64, until: i64| *start >= first && *start <= until.saturating_sub(width);
            let end = if is_plain(first, plain_until) {
                // A division takes longer than all else, and most starts are the end before.
                let is_start = next == Some(*start) || (start - first) % width == 0;
                is_start.then(|| start + width)
            } else if self.start(*start)? != *start {
                None
            } else {
                (first, plain_until) = (*start, self.plain_until(*start)?);
                Some(if is_plain(first, plain_until) { start + width } else { self.next(*start)? })
            };
            next = end;
            Ok(end)
        };
        starts.iter().map(end).collect()
    }

    /// A time up to which buckets after the one that starts at `start` have the grid's width: before the next change of
    /// the clock, because the bucket that holds it may be longer or shorter. `start` itself if that is not known.
    fn plain_until(&self, start: i64) -> Result<i64> {
        match (&self.zone, self.grid) {
            (None, Grid::Fixed { .. }) => Ok(i64::MAX),
            (Some(zone), Grid::Fixed { width, .. }) if width < NS_PER_DAY => {
                let local = local(zone, start)?;
                if self.grid.floor(local)? != local {
                    return Ok(start);
                }
                let change = change_after(zone, i128::from(start))?;
                // A bucket that ends at the change is left to `next`: the change may start a bucket, or not.
                Ok(change.map_or(i64::MAX, |change| i64::try_from(change - 1).unwrap_or(i64::MAX)))
            }
            _ => Ok(start),
        }
    }

    /// Start of the bucket that contains `time`.
    ///
    /// # Errors
    /// 22008 if the start is outside 1677-09-21 .. 2262-04-11.
    pub fn start(&self, time: i64) -> Result<i64> {
        match (&self.zone, self.grid) {
            (None, Grid::Fixed { width, phase }) => fixed_start(time, width, phase),
            (None, grid) => narrow(grid.floor(i128::from(time))?),
            (Some(zone), Grid::Fixed { width, .. }) if width < NS_PER_DAY => self.clock_start(zone, time),
            (Some(zone), grid) => calendar_start(zone, grid, time),
        }
    }

    /// Start of the bucket after the one that starts at `start`.
    ///
    /// # Errors
    /// 22008 if it is outside 1677-09-21 .. 2262-04-11.
    pub fn next(&self, start: i64) -> Result<i64> {
        match (&self.zone, self.grid) {
            (None, grid) => narrow(grid.after(grid.floor(i128::from(start))?)?),
            (Some(zone), Grid::Fixed { width, .. }) if width < NS_PER_DAY => self.clock_next(zone, start),
            (Some(zone), grid) => calendar_next(zone, grid, start),
        }
    }

    /// Bucket start for a width below a day: the latest time at or before `time` that shows a grid point or skips
    /// one.
    fn clock_start(&self, zone: &TimeZone, time: i64) -> Result<i64> {
        let mut time = i128::from(time);
        loop {
            let offset = offset_at(zone, time)?;
            let start = self.grid.floor(time + offset)? - offset;
            match change_in(zone, start, time)? {
                None => return narrow(start),
                Some(change) if self.starts_at_change(zone, change)? => return narrow(change),
                Some(change) => time = change - 1,
            }
        }
    }

    fn clock_next(&self, zone: &TimeZone, start: i64) -> Result<i64> {
        let mut time = i128::from(start);
        loop {
            let offset = offset_at(zone, time)?;
            let next = self.grid.after(self.grid.floor(time + offset)?)? - offset;
            match change_after(zone, time)? {
                Some(change) if change <= next => {
                    if self.starts_at_change(zone, change)? {
                        return narrow(change);
                    }
                    time = change;
                }
                _ => return narrow(next),
            }
        }
    }

    /// Whether a bucket starts at this change of the offset: the clock then shows a grid point, or has skipped one.
    fn starts_at_change(&self, zone: &TimeZone, change: i128) -> Result<bool> {
        let before = change + offset_at(zone, change - 1)?;
        let after = change + offset_at(zone, change)?;
        let floor = self.grid.floor(after)?;
        Ok(floor == after || (before <= floor && floor < after))
    }
}

impl Grid {
    /// Last grid point at or before `local`.
    fn floor(self, local: i128) -> Result<i128> {
        match self {
            Grid::Fixed { width, phase } => {
                let (width, phase) = (i128::from(width), i128::from(phase));
                Ok(local - (local - phase).rem_euclid(width))
            }
            Grid::Months { months, origin, shift } => {
                let month = month_of(local - i128::from(shift))?;
                month_point(month - (month - origin).rem_euclid(months), shift)
            }
        }
    }

    /// Grid point after `point`.
    fn after(self, point: i128) -> Result<i128> {
        match self {
            Grid::Fixed { width, .. } => Ok(point + i128::from(width)),
            Grid::Months { months, shift, .. } => month_point(month_of(point - i128::from(shift))? + months, shift),
        }
    }

    /// Grid point before `point`.
    fn before(self, point: i128) -> Result<i128> {
        match self {
            Grid::Fixed { width, .. } => Ok(point - i128::from(width)),
            Grid::Months { months, shift, .. } => month_point(month_of(point - i128::from(shift))? - months, shift),
        }
    }
}

/// Plain division, kept separate because it runs once per row.
fn fixed_start(time: i64, width: i64, phase: i64) -> Result<i64> {
    let mut rest = time.rem_euclid(width) - phase;
    if rest < 0 {
        rest += width;
    }
    time.checked_sub(rest).ok_or_else(out_of_range)
}

/// Bucket start for a width of a day or more. The floor of local time is right except within hours of a change near a
/// grid point.
fn calendar_start(zone: &TimeZone, grid: Grid, time: i64) -> Result<i64> {
    let time = i128::from(time);
    let mut point = grid.floor(time + offset_at(zone, time)?)?;
    while first_moment(zone, point)? > time {
        point = grid.before(point)?;
    }
    loop {
        let next = grid.after(point)?;
        if first_moment(zone, next)? > time {
            return narrow(first_moment(zone, point)?);
        }
        point = next;
    }
}

fn calendar_next(zone: &TimeZone, grid: Grid, start: i64) -> Result<i64> {
    let start = i128::from(start);
    let mut point = grid.floor(start + offset_at(zone, start)?)?;
    // A skipped whole day maps two grid points to one time; both are passed.
    while first_moment(zone, point)? <= start {
        point = grid.after(point)?;
    }
    narrow(first_moment(zone, point)?)
}

/// First time at which the clock shows `local` or skips it.
fn first_moment(zone: &TimeZone, local: i128) -> Result<i128> {
    let seconds = local.div_euclid(NS_PER_SECOND);
    let date_time = date_time_of(local)?;
    match zone.to_ambiguous_timestamp(date_time).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            Ok(local - i128::from(offset.seconds()) * NS_PER_SECOND)
        }
        AmbiguousOffset::Gap { after, .. } => {
            let before_gap = (seconds - i128::from(after.seconds())) * NS_PER_SECOND - 1;
            change_after(zone, before_gap)?.ok_or_else(|| Error::bug("a clock skips without a change of its offset"))
        }
    }
}

/// Local time minus UTC.
fn offset_at(zone: &TimeZone, time: i128) -> Result<i128> {
    Ok(i128::from(zone.to_offset(instant(time)?).seconds()) * NS_PER_SECOND)
}

fn local(zone: &TimeZone, time: i64) -> Result<i128> {
    Ok(i128::from(time) + offset_at(zone, i128::from(time))?)
}

/// Latest change of the offset in `(from, to]`.
fn change_in(zone: &TimeZone, from: i128, to: i128) -> Result<Option<i128>> {
    let mut changes = zone.preceding(instant(to + 1)?).map(|change| change.timestamp().as_nanosecond());
    // A zone's table also lists changes of name or rule that do not change the offset.
    loop {
        match changes.next() {
            Some(change) if change > from => {
                if offset_at(zone, change)? != offset_at(zone, change - 1)? {
                    return Ok(Some(change));
                }
            }
            _ => return Ok(None),
        }
    }
}

/// First change of the offset after `time`.
fn change_after(zone: &TimeZone, time: i128) -> Result<Option<i128>> {
    for change in zone.following(instant(time)?) {
        let change = change.timestamp().as_nanosecond();
        if offset_at(zone, change)? != offset_at(zone, change - 1)? {
            return Ok(Some(change));
        }
    }
    Ok(None)
}

fn instant(time: i128) -> Result<Timestamp> {
    Timestamp::from_nanosecond(time).map_err(|_| out_of_range())
}

fn date_time_of(local: i128) -> Result<jiff::civil::DateTime> {
    Ok(TimeZone::UTC.to_datetime(instant(local)?))
}

/// Months since year 0.
fn month_of(local: i128) -> Result<i64> {
    let date = date_time_of(local)?.date();
    Ok(i64::from(date.year()) * 12 + i64::from(date.month()) - 1)
}

fn month_point(month: i64, shift: i64) -> Result<i128> {
    let year = i16::try_from(month.div_euclid(12)).map_err(|_| out_of_range())?;
    let month = i8::try_from(month.rem_euclid(12) + 1).map_err(|_| out_of_range())?;
    let first = Date::new(year, month, 1).map_err(|_| out_of_range())?;
    let start = TimeZone::UTC.to_timestamp(first.at(0, 0, 0, 0)).map_err(|_| out_of_range())?;
    Ok(start.as_nanosecond() + i128::from(shift))
}

/// Looks up a time zone by IANA name.
///
/// # Errors
/// 22023 for an unknown name.
pub fn time_zone(name: &str) -> Result<TimeZone> {
    if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("z") {
        return Ok(TimeZone::UTC);
    }
    TimeZone::get(name).map_err(|_| invalid(format!("time zone \"{name}\" is not known")))
}

fn fixed_grid(width: Interval, origin: Option<i64>, offset: Interval, shift: i64) -> Result<Grid> {
    let width = fixed_part(width)?;
    if width <= 0 {
        return Err(invalid("width must be greater than zero"));
    }
    if offset.months != 0 {
        return Err(invalid("offset has months, the width has none"));
    }
    let origin = i128::from(origin.unwrap_or(ORIGIN_NS)) + i128::from(shift);
    Ok(Grid::Fixed { width, phase: narrow(origin.rem_euclid(i128::from(width)))? })
}

fn month_grid(width: Interval, origin: Option<i64>, offset: Interval, shift: i64) -> Result<Grid> {
    if width.months <= 0 {
        return Err(invalid("width must be greater than zero"));
    }
    let origin = origin.map_or(Ok(ORIGIN_MONTH), |origin| month_of(i128::from(origin)))?;
    Ok(Grid::Months { months: i64::from(width.months), origin: origin + i64::from(offset.months), shift })
}

/// Days as 24 hours, plus the nanoseconds.
fn fixed_part(interval: Interval) -> Result<i64> {
    let days = i128::from(interval.days) * i128::from(NS_PER_DAY);
    narrow(days + i128::from(interval.nanoseconds))
}

fn narrow(time: i128) -> Result<i64> {
    i64::try_from(time).map_err(|_| out_of_range())
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "bucket lies outside 1677-09-21 .. 2262-04-11")
}

fn invalid(what: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, what)
}

#[cfg(test)]
#[path = "buckets_tests.rs"]
mod tests;
