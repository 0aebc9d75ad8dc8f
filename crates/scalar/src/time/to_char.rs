//! `to_char` of timestamps and intervals.

use std::borrow::Cow;
use std::fmt::Write;

use bumpalo::collections::String;
use jiff::tz::TimeZone;
use model::{Datum, Error, Interval, Result, SqlState};

use crate::context::Context;
use crate::registry::Function;

use super::arguments::{interval, text, timestamp, timestamptz};
use super::arithmetic::local_fields;
use super::calendar::{
    Fields, HOUR, JULIAN_1970, MINUTE, MONTH_DAYS, SECOND, day_of_year, is_finite, iso_week, monday_of_iso_week,
    weekday,
};
use super::template::{Case, Field, Item, Node, Nodes};
use super::write::{MONTHS, WEEKDAYS};
use super::zone;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("to_char(timestamp,text)", |a, _, ctx| {
        let micros = timestamp(a, 0)?;
        formatted(is_finite(micros), text(a, 1)?, || Parts::of_local(local_fields(micros.into()), None), ctx)
    }),
    ("to_char(timestamptz,text)", |a, _, ctx| {
        let micros = timestamptz(a, 0)?;
        let zone = &ctx.session.zone;
        let parts = || Parts::of_local(local_fields(zone::local_of(zone, micros)), Some((zone, micros)));
        formatted(is_finite(micros), text(a, 1)?, parts, ctx)
    }),
    ("to_char(interval,text)", |a, _, ctx| {
        let value = interval(a, 0)?;
        formatted(true, text(a, 1)?, || Parts::of_interval(value), ctx)
    }),
];

/// Roman numbers of the months.
pub(super) const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// Bytes of the longest text of a pattern, for the check of the size.
const ITEM_BYTES_MAX: usize = 12;

/// Fields of a value.
struct Parts<'z> {
    is_interval: bool,
    /// Year; that of a timestamp is astronomical, where 0 is 1 BC.
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    /// Days since 1970.
    days: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// Microseconds of the second.
    fraction: i64,
    zone: Option<(&'z TimeZone, i64)>,
}

impl<'z> Parts<'z> {
    fn of_local(fields: Fields, zone: Option<(&'z TimeZone, i64)>) -> Parts<'z> {
        let days = fields.days();
        Parts {
            is_interval: false,
            year: fields.year,
            month: fields.month.into(),
            day: fields.day.into(),
            day_of_year: day_of_year(days),
            days,
            zone,
            ..Parts::of_time(fields.of_day)
        }
    }

    fn of_time(micros: i64) -> Parts<'z> {
        Parts {
            is_interval: true,
            year: 0,
            month: 0,
            day: 0,
            day_of_year: 0,
            days: 0,
            hour: micros / HOUR,
            minute: micros / MINUTE % 60,
            second: micros / SECOND % 60,
            fraction: micros % SECOND,
            zone: None,
        }
    }

    fn of_interval(value: Interval) -> Parts<'z> {
        let (year, month, day) = (i64::from(value.months / 12), i64::from(value.months % 12), i64::from(value.days));
        // The day of the year is the whole length in days. Weeks and years of ISO 8601 are those of the date with these
        // fields; PostgreSQL gives other ones for a negative month, and beyond the range of 32 bits.
        let day_of_year = i64::from(value.months) * i64::from(MONTH_DAYS) + day;
        let days = julian(year, month, day) - JULIAN_1970;
        Parts { year, month, day, day_of_year, days, ..Parts::of_time(value.micros) }
    }

    /// The year as it is written: BC without sign.
    fn year_of_era(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn century(&self) -> i64 {
        match self.year {
            year if self.is_interval => year / 100,
            year if year > 0 => (year - 1) / 100 + 1,
            year => year / 100 - 1,
        }
    }

    fn day_of_iso_year(&self) -> i64 {
        self.days - monday_of_iso_week(iso_week(self.days).0, 1) + 1
    }

    /// Seconds east of UTC.
    fn offset(&self) -> i32 {
        self.zone.map_or(0, |(zone, micros)| zone::offset_at(zone, micros))
    }

    /// The month by its number in the name tables.
    fn month_at(&self) -> Option<usize> {
        usize::try_from(self.month - 1).ok()
    }

    /// Month; negative months of an interval count back from December, and whole years are December or January.
    fn roman_month(&self) -> Option<&'static str> {
        let at = match (self.month, self.year) {
            (0, 0) => return None,
            (0, 1..) => 11,
            (0, _) => 0,
            (month, _) if month < 0 => 12 + month,
            (month, _) => month - 1,
        };
        usize::try_from(at).ok().and_then(|at| ROMAN.get(at).copied())
    }
}

/// The Julian day of a date, also for months that do not exist, as an interval may have them.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year + 4_800, month + 1) } else { (year + 4_799, month + 13) };
    let century = year / 100;
    year * 365 - 32_167 + year / 4 - century + century / 4 + 7_834 * month / 256 + day
}

fn formatted<'a, 'z>(
    is_finite: bool,
    template: &str,
    parts: impl FnOnce() -> Parts<'z>,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    if !is_finite || template.is_empty() {
        return Ok(Datum::Null);
    }
    ctx.check_size(template.len().saturating_mul(ITEM_BYTES_MAX))?;
    let parts = parts();
    let mut out = String::new_in(ctx.arena);
    for node in Nodes::of(template) {
        match node {
            Node::Field(field) => write_field(&mut out, &field, &parts)?,
            Node::Space(text) | Node::Separator(text) | Node::Text(text) => out.push_str(text),
        }
    }
    Ok(Datum::Text(out.into_bump_str()))
}

fn write_field(out: &mut String<'_>, field: &Field<'_>, parts: &Parts<'_>) -> Result<()> {
    if let Some((value, digits)) = number(field.item, parts) {
        // A minus widens some numbers; that of an ISO year counts if the year itself is negative.
        let has_sign = match field.item {
            Item::Hour24 | Item::Hour12 | Item::Minute | Item::Second | Item::Month | Item::Century => value < 0,
            Item::Year(2..) | Item::IsoYear(2..) => parts.year_of_era(parts.year) < 0,
            _ => false,
        };
        write_number(out, field, value, digits, has_sign);
        return Ok(());
    }
    if parts.is_interval && is_of_calendar(field.item) {
        let text = "invalid format specification for an interval value";
        let hint = "Intervals are not tied to specific calendar dates.";
        return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, text).with_hint(hint));
    }
    let name = |names: &[&'static str], at: Option<usize>| at.and_then(|at| names.get(at).copied()).unwrap_or_default();
    let short = |name: &'static str| name.get(..3).unwrap_or_default();
    let day_name = WEEKDAYS[weekday(parts.days) as usize];
    let pad = |width| if field.is_tight { 0 } else { width };
    let name_width = if field.is_translated { 0 } else { pad(9) };
    let era = parts.year <= 0;
    let afternoon = parts.hour % 24 >= 12;
    match field.item {
        Item::Half => write_name(out, field, if afternoon { "PM" } else { "AM" }, 0),
        Item::HalfWithPoints => write_name(out, field, if afternoon { "P.M." } else { "A.M." }, 0),
        Item::Era => write_name(out, field, if era { "BC" } else { "AD" }, 0),
        Item::EraWithPoints => write_name(out, field, if era { "B.C." } else { "A.D." }, 0),
        Item::MonthName => write_name(out, field, name(&MONTHS, parts.month_at()), name_width),
        Item::MonthNameShort => write_name(out, field, short(name(&MONTHS, parts.month_at())), 0),
        Item::DayName => write_name(out, field, day_name, name_width),
        Item::DayNameShort => write_name(out, field, short(day_name), 0),
        Item::MonthRoman => write_name(out, field, parts.roman_month().unwrap_or_default(), pad(4)),
        Item::YearWithComma => {
            let year = parts.year_of_era(parts.year);
            let start = out.len();
            // Writing to a String cannot fail.
            let _ = write!(out, "{},{:03}", year / 1_000, year % 1_000);
            write_ordinal(out, field, start);
        }
        Item::Zone => {
            let name: Cow<'_, str> =
                parts.zone.map_or(Cow::Borrowed(""), |(zone, micros)| zone::abbreviation_at(zone, micros));
            write_name(out, field, &name, 0);
        }
        Item::ZoneHour | Item::ZoneMinute | Item::Offset => write_offset(out, field, parts.offset()),
        _ => {}
    }
    Ok(())
}

/// Whether an item has no meaning for intervals.
fn is_of_calendar(item: Item) -> bool {
    matches!(
        item,
        Item::Era
            | Item::EraWithPoints
            | Item::MonthName
            | Item::MonthNameShort
            | Item::DayName
            | Item::DayNameShort
            | Item::DayOfWeek
            | Item::DayOfIsoWeek
            | Item::Zone
            | Item::ZoneHour
            | Item::ZoneMinute
            | Item::Offset
    )
}

/// The value of an item that is a number, and its digits; 0 digits for a number without leading zeros.
fn number(item: Item, parts: &Parts<'_>) -> Option<(i64, usize)> {
    Some(match item {
        Item::Hour24 => (parts.hour, 2),
        Item::Hour12 => (if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 }, 2),
        Item::Minute => (parts.minute, 2),
        Item::Second => (parts.second, 2),
        Item::Fraction(digits) => (parts.fraction / 10_i64.pow(6 - digits), digits as usize),
        Item::Millisecond => (parts.fraction / 1_000, 3),
        Item::Microsecond => (parts.fraction, 6),
        Item::SecondOfDay => (parts.hour * 3_600 + parts.minute * 60 + parts.second, 0),
        Item::Month => (parts.month, 2),
        Item::Day => (parts.day, 2),
        Item::DayOfYear => (parts.day_of_year, 3),
        Item::DayOfIsoYear => (parts.day_of_iso_year(), 3),
        Item::DayOfWeek if !parts.is_interval => (weekday(parts.days) + 1, 0),
        Item::DayOfIsoWeek if !parts.is_interval => ((weekday(parts.days) + 6) % 7 + 1, 0),
        Item::WeekOfYear => ((parts.day_of_year - 1) / 7 + 1, 2),
        Item::WeekOfIsoYear => (iso_week(parts.days).1, 2),
        Item::WeekOfMonth => ((parts.day - 1) / 7 + 1, 0),
        Item::Quarter if parts.month != 0 => ((parts.month - 1) / 3 + 1, 0),
        Item::Century => (parts.century(), 2),
        Item::Year(4) => (parts.year_of_era(parts.year), 4),
        Item::Year(digits) => (parts.year_of_era(parts.year) % 10_i64.pow(digits), digits as usize),
        Item::IsoYear(4) => (parts.year_of_era(iso_week(parts.days).0), 4),
        Item::IsoYear(digits) => (parts.year_of_era(iso_week(parts.days).0) % 10_i64.pow(digits), digits as usize),
        Item::Julian => (parts.days + JULIAN_1970, 0),
        _ => return None,
    })
}

fn write_number(out: &mut String<'_>, field: &Field<'_>, value: i64, digits: usize, has_sign: bool) {
    // The fraction of a second keeps its zeros.
    let is_fraction = matches!(field.item, Item::Fraction(_) | Item::Millisecond | Item::Microsecond);
    let digits = if field.is_tight && !is_fraction { 0 } else { digits + usize::from(has_sign) };
    let start = out.len();
    let _ = write!(out, "{value:0digits$}");
    write_ordinal(out, field, start);
}

/// Appends the ending of the ordinal number that begins at `start`, if the template has one.
fn write_ordinal(out: &mut String<'_>, field: &Field<'_>, start: usize) {
    let Some(case) = field.ordinal else { return };
    let ending = match &out.as_bytes()[start..] {
        [.., b'1', _] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    };
    write_cased(out, ending, case);
}

/// Appends a name in the case of the pattern, with blanks up to a width.
fn write_name(out: &mut String<'_>, field: &Field<'_>, name: &str, width: usize) {
    if name.is_empty() {
        return;
    }
    write_cased(out, name, field.case);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(name.len())));
}

fn write_cased(out: &mut String<'_>, name: &str, case: Case) {
    match case {
        Case::Upper => out.extend(name.chars().map(|c| c.to_ascii_uppercase())),
        Case::Lower => out.extend(name.chars().map(|c| c.to_ascii_lowercase())),
        Case::Title => out.push_str(name),
    }
}

fn write_offset(out: &mut String<'_>, field: &Field<'_>, east: i32) {
    let (hours, minutes) = (east.abs() / 3_600, east.abs() / 60 % 60);
    let sign = if east < 0 { '-' } else { '+' };
    let width = if field.is_tight && field.item == Item::Offset { 0 } else { 2 };
    let _ = match field.item {
        Item::ZoneMinute => write!(out, "{minutes:02}"),
        Item::Offset if east % 3_600 != 0 => write!(out, "{sign}{hours:0width$}:{minutes:02}"),
        _ => write!(out, "{sign}{hours:0width$}"),
    };
}
