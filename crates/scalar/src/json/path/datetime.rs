//! Dates and times in a `jsonpath`: `.datetime()` with and without a template, and their comparison.

use std::cmp::Ordering;

use jiff::tz::TimeZone;
use model::{Error, Result, SqlState, TimeTz};
use pg::time::{days_in_month, days_of_date};

use crate::context::Session;
use crate::json::moment::{date_text, offset_at, time_text, timestamp_text, timestamptz_text_at, timetz_text};

const SECOND_MICROS: i64 = 1_000_000;
const HOUR_MICROS: i64 = 3_600 * SECOND_MICROS;
const DAY_MICROS: i64 = 24 * HOUR_MICROS;
/// The last day of a timestamp, in days since 1970; dates go further.
const TIMESTAMP_DAYS_MAX: i32 = 106_762_939;

/// A date or time, as [`model::Datum`] has them; one with a time zone keeps the offset that it was written with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    Date(i32),
    Time(i64),
    TimeTz(TimeTz),
    Timestamp(i64),
    /// Microseconds UTC, and seconds east.
    Timestamptz(i64, i32),
}

impl Moment {
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Moment::Date(_) => "date",
            Moment::Time(_) => "time without time zone",
            Moment::TimeTz(_) => "time with time zone",
            Moment::Timestamp(_) => "timestamp without time zone",
            Moment::Timestamptz(..) => "timestamp with time zone",
        }
    }

    /// The name of the type in an error of a conversion.
    fn short_name(self) -> &'static str {
        match self {
            Moment::Date(_) => "date",
            Moment::Time(_) => "time",
            Moment::TimeTz(_) => "timetz",
            Moment::Timestamp(_) => "timestamp",
            Moment::Timestamptz(..) => "timestamptz",
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Moment::Date(days) => date_text(days),
            Moment::Time(micros) => time_text(micros),
            Moment::TimeTz(time) => timetz_text(time.micros, time.west),
            Moment::Timestamp(micros) => timestamp_text(micros),
            Moment::Timestamptz(micros, offset) => timestamptz_text_at(micros, offset),
        }
    }
}

/// Orders two moments; `None` for a date and a time.
///
/// # Errors
/// 0A000 if the session's time zone is needed and `session` is `None`.
pub(super) fn compare_moments(left: Moment, right: Moment, session: Option<&Session>) -> Result<Option<Ordering>> {
    // A date beyond the timestamps is beyond every one of them.
    let midnight = |days: i32| i64::from(days).saturating_mul(DAY_MICROS);
    let in_zone = |from: Moment, to: Moment| {
        session.ok_or_else(|| {
            let (from, to) = (from.short_name(), to.short_name());
            let text = format!("cannot convert value from {from} to {to} without time zone usage");
            Error::unsupported(text).with_hint("Use *_tz() function for time zone support.")
        })
    };
    Ok(Some(match (left, right) {
        (Moment::Date(a), Moment::Date(b)) => a.cmp(&b),
        (Moment::Time(a), Moment::Time(b)) | (Moment::Timestamp(a), Moment::Timestamp(b)) => a.cmp(&b),
        (Moment::TimeTz(a), Moment::TimeTz(b)) => (a.utc_micros(), a.west).cmp(&(b.utc_micros(), b.west)),
        (Moment::Timestamptz(a, _), Moment::Timestamptz(b, _)) => a.cmp(&b),
        (Moment::Date(a), Moment::Timestamp(b)) => midnight(a).cmp(&b),
        (Moment::Date(a), Moment::Timestamptz(b, _)) => utc_of(midnight(a), &in_zone(left, right)?.zone).cmp(&b),
        (Moment::Timestamp(a), Moment::Timestamptz(b, _)) => utc_of(a, &in_zone(left, right)?.zone).cmp(&b),
        (Moment::Time(a), Moment::TimeTz(b)) => {
            let session = in_zone(left, right)?;
            let west = -offset_at(session.transaction_micros, &session.zone);
            let a = TimeTz { micros: a, west };
            (a.utc_micros(), a.west).cmp(&(b.utc_micros(), b.west))
        }
        (Moment::Timestamp(_) | Moment::Timestamptz(..), Moment::Date(_))
        | (Moment::Timestamptz(..), Moment::Timestamp(_))
        | (Moment::TimeTz(_), Moment::Time(_)) => {
            return Ok(compare_moments(right, left, session)?.map(Ordering::reverse));
        }
        _ => return Ok(None),
    }))
}

/// The moment of a local time in a zone, in microseconds UTC.
fn utc_of(local: i64, zone: &TimeZone) -> i64 {
    // The offset before and behind a change differ by less than a day.
    let guess = local.saturating_sub(i64::from(offset_at(local, zone)) * SECOND_MICROS);
    local.saturating_sub(i64::from(offset_at(guess, zone)) * SECOND_MICROS)
}

/// The forms of a date or time that `.datetime()` knows without a template.
const DATES: [&str; 3] = ["", "yyyy-mm-dd ", "yyyy-mm-dd\"T\""];
const TIMES: [&str; 6] =
    ["HH24:MI:SS.USTZH:TZM", "HH24:MI:SS.USTZH", "HH24:MI:SS.US", "HH24:MI:SSTZH:TZM", "HH24:MI:SSTZH", "HH24:MI:SS"];

/// Reads a date or time.
///
/// # Errors
/// 22007 and 22008 for text that does not fit the template; 22007 for an unknown form without one.
pub(super) fn parse_moment(text: &str, template: Option<&str>) -> Result<Moment> {
    if let Some(template) = template {
        return parse_by(text, template);
    }
    if let Ok(moment) = parse_by(text, "yyyy-mm-dd") {
        return Ok(moment);
    }
    for date in DATES {
        for time in TIMES {
            if let Ok(moment) = parse_by(text, &format!("{date}{time}")) {
                return Ok(moment);
            }
        }
    }
    let hint = "Use a datetime template argument to specify the input data format.";
    let text = format!("datetime format is not recognized: \"{text}\"");
    Err(Error::new(SqlState("22031"), text).with_hint(hint))
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Year,
    /// The last digits of a year, of the century around 2020.
    PartialYear,
    Month,
    Day,
    DayOfYear,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondOfDay,
    /// A number of digits after the point.
    Fraction(u32),
    Afternoon,
    ZoneHour,
    ZoneMinute,
}

/// Fields by their names in a template, longer ones before those that they begin with, and their largest number of
/// digits.
const FIELDS: [(&str, Field, usize); 30] = [
    ("YYYY", Field::Year, 4),
    ("RRRR", Field::Year, 4),
    ("YYY", Field::PartialYear, 3),
    ("YY", Field::PartialYear, 2),
    ("RR", Field::PartialYear, 2),
    ("Y", Field::PartialYear, 1),
    ("MM", Field::Month, 2),
    ("DDD", Field::DayOfYear, 3),
    ("DD", Field::Day, 2),
    ("HH24", Field::Hour24, 2),
    ("HH12", Field::Hour12, 2),
    ("HH", Field::Hour12, 2),
    ("MI", Field::Minute, 2),
    ("SSSSS", Field::SecondOfDay, 5),
    ("SSSS", Field::SecondOfDay, 5),
    ("SS", Field::Second, 2),
    ("MS", Field::Fraction(3), 3),
    ("US", Field::Fraction(6), 6),
    ("FF1", Field::Fraction(1), 1),
    ("FF2", Field::Fraction(2), 2),
    ("FF3", Field::Fraction(3), 3),
    ("FF4", Field::Fraction(4), 4),
    ("FF5", Field::Fraction(5), 5),
    ("FF6", Field::Fraction(6), 6),
    ("A.M.", Field::Afternoon, 0),
    ("P.M.", Field::Afternoon, 0),
    ("AM", Field::Afternoon, 0),
    ("PM", Field::Afternoon, 0),
    ("TZH", Field::ZoneHour, 2),
    ("TZM", Field::ZoneMinute, 2),
];

/// A part of a template.
enum Part<'p> {
    /// A field with its name and its largest number of digits.
    Field(Field, &'p str, usize),
    /// A character that must stand here.
    Separator(&'p str),
    /// Text in quotes, which must stand here.
    Quoted(&'p str),
}

fn parts(template: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (text, behind) = quoted.split_once('"').unwrap_or((quoted, ""));
            parts.push(Part::Quoted(text));
            rest = behind;
            continue;
        }
        let named = |name: &str| rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
        if let Some((name, field, digits)) = FIELDS.iter().find(|(name, ..)| named(name)) {
            parts.push(Part::Field(*field, &rest[..name.len()], *digits));
            rest = &rest[name.len()..];
        } else if first.is_ascii_alphanumeric() || !first.is_ascii() {
            return Err(invalid(format!("invalid datetime format separator: \"{first}\"")));
        } else {
            parts.push(Part::Separator(&rest[..1]));
            rest = &rest[1..];
        }
    }
    Ok(parts)
}

/// The fields that were read.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: Option<i64>,
    is_12_hour: bool,
    is_afternoon: bool,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    fraction: Option<i64>,
    zone_hour: Option<i64>,
    zone_minute: i64,
    is_west: bool,
}

fn parse_by(text: &str, template: &str) -> Result<Moment> {
    let parts = parts(template)?;
    let mut fields = Fields::default();
    let mut rest = text;
    for (at, part) in parts.iter().enumerate() {
        if rest.is_empty() {
            return Err(invalid("input string is too short for datetime format"));
        }
        match part {
            Part::Separator(expected) => rest = after(rest, expected, "separator")?,
            Part::Quoted(expected) => rest = after(rest, expected, "character")?,
            Part::Field(field, name, digits) => {
                // A number before a separator may have any number of digits.
                let is_bounded = match parts.get(at + 1) {
                    Some(Part::Field(next, ..)) => {
                        !matches!(next, Field::Afternoon | Field::ZoneHour | Field::ZoneMinute)
                    }
                    _ => false,
                };
                let is_fraction = matches!(field, Field::Fraction(_));
                let shown = rest.char_indices().nth(*digits).map_or(rest, |(end, _)| &rest[..end]);
                let digits = if is_bounded || is_fraction { *digits } else { usize::MAX };
                rest = fields.read(*field, rest, digits).ok_or_else(|| {
                    let error = invalid(format!("invalid value \"{shown}\" for \"{name}\""));
                    error.with_detail("Value must be an integer.")
                })?;
            }
        }
    }
    if !rest.is_empty() {
        return Err(invalid("trailing characters remain in input string after datetime format"));
    }
    fields.moment(text)
}

/// The text behind what must stand at its beginning.
fn after<'t>(text: &'t str, expected: &str, kind: &str) -> Result<&'t str> {
    text.strip_prefix(expected).ok_or_else(|| {
        let shown = expected.chars().next().unwrap_or_default();
        invalid(format!("unmatched format {kind} \"{shown}\""))
    })
}

impl Fields {
    /// Reads a field; returns the text behind it, or `None` if it is not there.
    fn read<'t>(&mut self, field: Field, text: &'t str, digits_max: usize) -> Option<&'t str> {
        if field == Field::Afternoon {
            let dotted = text.get(1..2) == Some(".");
            let length = if dotted { 4 } else { 2 };
            self.is_afternoon = match text.get(..length).map(str::to_ascii_lowercase).as_deref() {
                Some("pm" | "p.m.") => true,
                Some("am" | "a.m.") => false,
                _ => return None,
            };
            return Some(&text[length..]);
        }
        let mut rest = text;
        if let (Field::ZoneHour, Some(sign @ ('+' | '-' | ' '))) = (field, text.chars().next()) {
            self.is_west = sign == '-';
            rest = &rest[1..];
        }
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let sign = usize::from(rest.starts_with(['+', '-']));
        let digits =
            rest.bytes().skip(sign).take(digits_max.saturating_sub(sign)).take_while(u8::is_ascii_digit).count();
        let length = sign + digits;
        let value = i64::from(rest.get(..length)?.parse::<i32>().ok()?);
        match field {
            Field::Year => self.year = Some(value),
            Field::PartialYear => {
                let century = match value {
                    ..70 | 100..520 => 2000,
                    70..100 => 1900,
                    520..1000 => 1000,
                    _ => 0,
                };
                self.year = Some(value + century);
            }
            Field::Month => self.month = Some(value),
            Field::Day => self.day = Some(value),
            Field::DayOfYear => self.day_of_year = Some(value),
            Field::Hour24 => self.hour = Some(value),
            Field::Hour12 => {
                self.hour = Some(value);
                self.is_12_hour = true;
            }
            Field::Minute => self.minute = Some(value),
            Field::Second => self.second = Some(value),
            Field::SecondOfDay => self.second_of_day = Some(value),
            Field::Fraction(_) => self.fraction = Some(value * 10_i64.pow(6_u32.saturating_sub(length as u32))),
            Field::ZoneHour => self.zone_hour = Some(value),
            Field::ZoneMinute => self.zone_minute = value,
            Field::Afternoon => {}
        }
        Some(&rest[length..])
    }

    fn moment(&self, text: &str) -> Result<Moment> {
        let out_of_range =
            || Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""));
        let has_date = self.year.or(self.month).or(self.day).or(self.day_of_year).is_some();
        let has_time = self.hour.or(self.minute).or(self.second).or(self.second_of_day).or(self.fraction).is_some();
        if let Some(hour) = self.hour.filter(|hour| self.is_12_hour && !(1..=12).contains(hour)) {
            let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
            return Err(invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock")).with_hint(hint));
        }
        let days = if has_date { self.days().ok_or_else(out_of_range)? } else { 0 };
        let micros = self.time_micros().ok_or_else(out_of_range)?;
        let offset = match self.zone_hour {
            None => None,
            Some(hours) if hours.abs() <= 15 && (0..60).contains(&self.zone_minute) => {
                let east = (hours * 3_600 + self.zone_minute * 60) as i32;
                Some(if self.is_west { -east } else { east })
            }
            Some(_) => return Err(out_of_range()),
        };
        if has_time && days > TIMESTAMP_DAYS_MAX {
            return Err(out_of_range());
        }
        let local = || i64::from(days) * DAY_MICROS + micros;
        match (has_date, has_time, offset) {
            (true, false, _) => Ok(Moment::Date(days)),
            (true, true, None) => Ok(Moment::Timestamp(local())),
            (true, true, Some(east)) => Ok(Moment::Timestamptz(local() - i64::from(east) * SECOND_MICROS, east)),
            (false, true, None) => Ok(Moment::Time(micros)),
            (false, true, Some(east)) => Ok(Moment::TimeTz(TimeTz { micros, west: -east })),
            (false, false, _) => Err(invalid("datetime format is not dated and not timed")),
        }
    }

    fn days(&self) -> Option<i32> {
        let year = self.year.unwrap_or(0);
        if !(0..=5_874_897).contains(&year) {
            return None;
        }
        if let (Some(day), None) = (self.day_of_year, self.month) {
            let first = days_of_date(year, 1, 1);
            let length = days_of_date(year + 1, 1, 1) - first;
            return if (1..=length).contains(&day) { i32::try_from(first + day - 1).ok() } else { None };
        }
        // Zero is as if the field were not there.
        let given = |field: Option<i64>| field.filter(|value| *value != 0).unwrap_or(1);
        let month = u32::try_from(given(self.month)).ok().filter(|month| (1..=12).contains(month))?;
        let day = u32::try_from(given(self.day)).ok()?;
        if !(1..=days_in_month(year, month)).contains(&day) {
            return None;
        }
        i32::try_from(days_of_date(year, month, day)).ok()
    }

    fn time_micros(&self) -> Option<i64> {
        let mut hour = self.hour.unwrap_or(0);
        if self.is_12_hour {
            hour = hour % 12 + if self.is_afternoon { 12 } else { 0 };
        }
        let (minute, second) = (self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
            return None;
        }
        let seconds = self.second_of_day.unwrap_or(hour * 3_600 + minute * 60 + second);
        let micros = seconds.checked_mul(SECOND_MICROS)? + self.fraction.unwrap_or(0);
        (0..DAY_MICROS).contains(&micros).then_some(micros)
    }
}
