//! Periods: recurring parts of time, such as the peak hours of working days.

use std::collections::BTreeSet;
use std::str::FromStr;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use model::{Error, Result, SqlState};

/// Weekdays, Monday first.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Days of a week, written `Mon-Fri` or `Sat,Sun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weekdays([bool; 7]);

impl Weekdays {
    fn has(self, day: Weekday) -> bool {
        self.0[usize::from(day.to_monday_zero_offset().unsigned_abs())]
    }
}

impl FromStr for Weekdays {
    type Err = Error;

    fn from_str(text: &str) -> Result<Weekdays> {
        let refused = || invalid(format!("days \"{text}\": expected such as Mon-Fri or Sat,Sun"));
        let day = |name: &str| {
            let name = name.trim();
            DAYS.iter().position(|day| day.eq_ignore_ascii_case(name)).ok_or_else(refused)
        };
        let mut days = [false; 7];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (day(first)?, day(last)?);
            // A range may go over the end of the week.
            let mut at = first;
            days[at] = true;
            while at != last {
                at = (at + 1) % 7;
                days[at] = true;
            }
        }
        Ok(Weekdays(days))
    }
}

/// A recurring part of time in a time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Period {
    /// Days that it is part of.
    pub days: Weekdays,
    /// Days that it is not part of.
    pub holidays: BTreeSet<Date>,
    /// Local times between which it lasts; midnight as the end is that of the next day.
    pub from: Time,
    /// End of the period on its days.
    pub to: Time,
    /// Whether it is all other times instead: off-peak hours.
    pub inverse: bool,
    /// Time zone of days and times.
    pub zone: TimeZone,
}

impl Period {
    /// The parts of `from .. to` that belong to the period, ascending and apart from each other.
    ///
    /// # Errors
    /// 22008 for times outside 1677-09-21 .. 2262-04-11.
    ///
    /// # Cost
    /// Some hundred nanoseconds a day.
    pub fn ranges(&self, from: i64, to: i64) -> Result<Vec<(i64, i64)>> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        if from >= to {
            return Ok(ranges);
        }
        let mut day = self.date(from)?.checked_sub(1.day()).map_err(|_| out_of_range())?;
        let last = self.date(to)?.checked_add(1.day()).map_err(|_| out_of_range())?;
        while day <= last {
            let next = day.tomorrow().map_err(|_| out_of_range())?;
            if self.days.has(day.weekday()) && !self.holidays.contains(&day) {
                let end =
                    if self.to == Time::midnight() { self.instant(next, self.to) } else { self.instant(day, self.to) };
                let (start, end) = (self.instant(day, self.from).max(from), end.min(to));
                match ranges.last_mut() {
                    Some(before) if before.1 == start && start < end => before.1 = end,
                    _ if start < end => ranges.push((start, end)),
                    _ => {}
                }
            }
            day = next;
        }
        Ok(if self.inverse { others(&ranges, from, to) } else { ranges })
    }

    fn date(&self, time: i64) -> Result<Date> {
        let time = Timestamp::from_nanosecond(time.into()).map_err(|_| out_of_range())?;
        Ok(self.zone.to_datetime(time).date())
    }

    /// Nanoseconds of a local time; that after the change where the clock skips it, and the first where it is shown twice. Times
    /// beyond the range of the store are its ends.
    fn instant(&self, date: Date, time: Time) -> i64 {
        let instant = self.zone.to_ambiguous_timestamp(date.to_datetime(time)).compatible();
        let bound = if date.year() < 1970 { i64::MIN } else { i64::MAX };
        instant.map_or(bound, |instant| i64::try_from(instant.as_nanosecond()).unwrap_or(bound))
    }
}

/// The times of `from .. to` that are in none of the ranges.
fn others(ranges: &[(i64, i64)], from: i64, to: i64) -> Vec<(i64, i64)> {
    let starts = std::iter::once(from).chain(ranges.iter().map(|range| range.1));
    let ends = ranges.iter().map(|range| range.0).chain([to]);
    starts.zip(ends).filter(|(start, end)| start < end).collect()
}

fn invalid(text: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "a period is out of the range of times".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peak(inverse: bool, holidays: &[&str]) -> Period {
        Period {
            days: "Mon-Fri".parse().unwrap(),
            holidays: holidays.iter().map(|day| day.parse().unwrap()).collect(),
            from: "08:00".parse().unwrap(),
            to: "20:00".parse().unwrap(),
            inverse,
            zone: TimeZone::get("Europe/Vienna").unwrap(),
        }
    }

    fn ns(text: &str) -> i64 {
        i64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
    }

    fn hours(ranges: &[(i64, i64)]) -> i64 {
        ranges.iter().map(|(start, end)| (end - start) / 3_600_000_000_000).sum()
    }

    #[test]
    fn peak_and_off_peak_hours_are_all_hours_of_a_year() {
        let (from, to) = (ns("2024-12-31T23:00:00Z"), ns("2025-12-31T23:00:00Z"));
        let peak_hours = hours(&peak(false, &[]).ranges(from, to).unwrap());
        // 2025 has 261 days from Monday to Friday.
        assert_eq!(peak_hours, 261 * 12);
        assert_eq!(hours(&peak(true, &[]).ranges(from, to).unwrap()), 8760 - 261 * 12);
        // Christmas is a Thursday, and the other a Sunday.
        assert_eq!(hours(&peak(false, &["2025-12-25", "2025-12-28"]).ranges(from, to).unwrap()), 260 * 12);
    }

    #[test]
    fn a_range_in_the_middle_of_a_period_is_cut() {
        let (from, to) = (ns("2025-03-28T10:00:00Z"), ns("2025-03-31T07:00:00Z"));
        // Friday from 11:00 to 20:00, and Monday from 8:00 to 9:00 in summer time.
        let expected = [(from, ns("2025-03-28T19:00:00Z")), (ns("2025-03-31T06:00:00Z"), to)];
        assert_eq!(peak(false, &[]).ranges(from, to).unwrap(), expected);
        let others = [(expected[0].1, expected[1].0)];
        assert_eq!(peak(true, &[]).ranges(from, to).unwrap(), others);
        assert_eq!(peak(false, &[]).ranges(to, from).unwrap(), []);
    }

    #[test]
    fn whole_days_that_follow_each_other_are_one_range() {
        let weekend = Period {
            days: "Sat,Sun".parse().unwrap(),
            from: Time::midnight(),
            to: Time::midnight(),
            ..peak(false, &[])
        };
        // The night of the change: 47 hours.
        let ranges = weekend.ranges(ns("2025-03-24T23:00:00Z"), ns("2025-04-03T22:00:00Z")).unwrap();
        assert_eq!(ranges, [(ns("2025-03-28T23:00:00Z"), ns("2025-03-30T22:00:00Z"))]);
        assert_eq!(hours(&ranges), 47);
        assert_eq!(weekend.ranges(i64::MIN, i64::MIN + 1).unwrap_or_default(), []);
    }

    #[test]
    fn weekdays_are_parsed_or_refused() {
        let days = |text: &str| text.parse::<Weekdays>().map(|days| days.0.iter().filter(|day| **day).count());
        for (text, count) in [("Mon-Fri", 5), ("sat,sun", 2), ("Sat-Mon", 3), ("Mon", 1), ("Mon-Sun", 7)] {
            assert_eq!(days(text).unwrap(), count, "{text}");
        }
        for text in ["", "Monday", "Mon-", "Mon;Tue"] {
            assert!(days(text).is_err(), "{text}");
        }
    }
}
