//! Writes dates, times, timestamps and intervals in the styles of the session.

use std::fmt::Write;

use jiff::tz::TimeZone;
use model::{Interval, TimeTz};

use crate::context::{DateOrder, DateStyle, IntervalStyle, Session};

use super::calendar::{DAY, Fields, HOUR, MINUTE, SECOND, date_of_days, weekday};
use super::zone;

/// English names, of which abbreviations are the first three letters.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// English names from Sunday.
pub(super) const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Appends a number with at least `width` digits. This is the inner loop of every output, so it does not format.
fn digits(text: &mut String, number: u64, width: usize) {
    let mut buffer = [b'0'; 20];
    let (mut rest, mut start) = (number, buffer.len());
    while rest > 0 || buffer.len() - start < width {
        start -= 1;
        buffer[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.extend(buffer[start..].iter().map(|digit| char::from(*digit)));
}

/// Appends `SS` or `SS.ffffff` without trailing zeros.
fn seconds(text: &mut String, second: u64, micros: u64, width: usize) {
    digits(text, second, width);
    if micros == 0 {
        return;
    }
    let (mut fraction, mut width) = (micros, 6);
    while fraction.is_multiple_of(10) {
        fraction /= 10;
        width -= 1;
    }
    text.push('.');
    digits(text, fraction, width);
}

/// Appends `HH:MM:SS.ffffff`.
fn clock(text: &mut String, micros: u64) {
    let [second, minute, hour] = [SECOND, MINUTE, HOUR].map(|unit| micros / unit as u64);
    digits(text, hour, 2);
    text.push(':');
    digits(text, minute % 60, 2);
    text.push(':');
    seconds(text, second % 60, micros % SECOND as u64, 2);
}

/// Appends an offset in seconds east of UTC: `+02`, `-03:30`, `+00:19:32`.
pub(super) fn offset(text: &mut String, east: i32) {
    let all = u64::from(east.unsigned_abs());
    text.push(if east < 0 { '-' } else { '+' });
    digits(text, all / 3_600, 2);
    if all % 3_600 != 0 {
        text.push(':');
        digits(text, all / 60 % 60, 2);
    }
    if all % 60 != 0 {
        text.push(':');
        digits(text, all % 60, 2);
    }
}

fn infinity(text: &mut String, is_positive: bool) {
    text.push_str(if is_positive { "infinity" } else { "-infinity" });
}

/// The year as it is written, where 0 is 1 BC.
fn year_of_era(year: i64) -> u64 {
    (if year > 0 { year } else { 1 - year }).unsigned_abs()
}

fn joined(text: &mut String, parts: [(u64, usize); 3], separator: char) {
    for (at, (number, width)) in parts.into_iter().enumerate() {
        if at > 0 {
            text.push(separator);
        }
        digits(text, number, width);
    }
}

fn calendar_day(text: &mut String, fields: &Fields, session: &Session, postgres_separator: char) {
    let year = (year_of_era(fields.year), 4);
    let [month, day] = [(fields.month.into(), 2), (fields.day.into(), 2)];
    let day_first = session.date_order == DateOrder::Dmy;
    let ordered = if day_first { [day, month, year] } else { [month, day, year] };
    match session.date_style {
        DateStyle::Iso => joined(text, [year, month, day], '-'),
        DateStyle::Sql => joined(text, ordered, '/'),
        DateStyle::German => joined(text, [day, month, year], '.'),
        DateStyle::Postgres => joined(text, ordered, postgres_separator),
    }
}

/// Appends a date in days since 1970.
pub(super) fn date(text: &mut String, days: i32, session: &Session) {
    if matches!(days, i32::MIN | i32::MAX) {
        return infinity(text, days > 0);
    }
    let (year, month, day) = date_of_days(days.into());
    calendar_day(text, &Fields { year, month, day, of_day: 0 }, session, '-');
    if year <= 0 {
        text.push_str(" BC");
    }
}

/// Appends a time of day in microseconds.
pub(super) fn time(text: &mut String, micros: i64) {
    clock(text, micros.clamp(0, DAY).unsigned_abs());
}

/// Appends a time of day with its offset.
pub(super) fn timetz(text: &mut String, value: TimeTz) {
    time(text, value.micros);
    offset(text, value.west.wrapping_neg());
}

/// Appends a timestamp in microseconds since 1970.
pub(super) fn timestamp(text: &mut String, micros: i64, session: &Session) {
    if matches!(micros, i64::MIN | i64::MAX) {
        return infinity(text, micros > 0);
    }
    moment(text, &Fields::of_micros(micros), None, session);
}

/// Appends a timestamp in microseconds since 1970 UTC as a local time of the session's zone.
pub(super) fn timestamptz(text: &mut String, micros: i64, session: &Session) {
    if matches!(micros, i64::MIN | i64::MAX) {
        return infinity(text, micros > 0);
    }
    let local = zone::local_of(&session.zone, micros);
    let days = local.div_euclid(DAY.into()) as i64;
    let (year, month, day) = date_of_days(days);
    let fields = Fields { year, month, day, of_day: local.rem_euclid(DAY.into()) as i64 };
    moment(text, &fields, Some((&session.zone, micros)), session);
}

fn moment(text: &mut String, fields: &Fields, zoned: Option<(&TimeZone, i64)>, session: &Session) {
    let of_day = fields.of_day.unsigned_abs();
    if session.date_style == DateStyle::Postgres {
        text.push_str(&WEEKDAYS[weekday(fields.days()) as usize][..3]);
        text.push(' ');
        let month = &MONTHS[fields.month as usize - 1][..3];
        let day_first = session.date_order == DateOrder::Dmy;
        if day_first {
            digits(text, fields.day.into(), 2);
            text.push(' ');
        }
        text.push_str(month);
        if !day_first {
            text.push(' ');
            digits(text, fields.day.into(), 2);
        }
        text.push(' ');
        clock(text, of_day);
        text.push(' ');
        digits(text, year_of_era(fields.year), 4);
    } else {
        calendar_day(text, fields, session, '-');
        text.push(' ');
        clock(text, of_day);
    }
    match zoned {
        Some((zone, micros)) if session.date_style == DateStyle::Iso => offset(text, zone::offset_at(zone, micros)),
        Some((zone, micros)) => {
            text.push(' ');
            text.push_str(&zone::abbreviation_at(zone, micros));
        }
        None => {}
    }
    if fields.year <= 0 {
        text.push_str(" BC");
    }
}

/// Fields of an interval. All of the time have the same sign.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
}

impl Parts {
    fn of(value: Interval) -> Parts {
        Parts {
            year: (value.months / 12).into(),
            month: (value.months % 12).into(),
            day: value.days.into(),
            hour: value.micros / HOUR,
            minute: value.micros / MINUTE % 60,
            second: value.micros / SECOND % 60,
            micros: value.micros % SECOND,
        }
    }

    fn has_seconds(&self) -> bool {
        self.second != 0 || self.micros != 0
    }

    /// Appends the seconds without sign.
    fn seconds(&self, text: &mut String, width: usize) {
        seconds(text, self.second.unsigned_abs(), self.micros.unsigned_abs(), width);
    }
}

/// Appends an interval in the session's style.
pub(super) fn interval(text: &mut String, value: Interval, session: &Session) {
    match session.interval_style {
        IntervalStyle::Postgres => interval_postgres(text, value),
        IntervalStyle::PostgresVerbose => interval_verbose(text, &Parts::of(value)),
        IntervalStyle::SqlStandard => interval_sql(text, value),
        IntervalStyle::Iso8601 => interval_iso(text, &Parts::of(value)),
    }
}

/// `1 year 2 mons -3 days +04:05:06.7`
fn interval_postgres(text: &mut String, value: Interval) {
    let start = text.len();
    // A positive field after a negative one gets a sign; it would be read as negative otherwise.
    let mut after_negative = false;
    for (number, unit) in [(value.months / 12, "year"), (value.months % 12, "mon"), (value.days, "day")] {
        if number == 0 {
            continue;
        }
        let space = if text.len() > start { " " } else { "" };
        let sign = if after_negative && number > 0 { "+" } else { "" };
        let plural = if number == 1 { "" } else { "s" };
        // Writing to a String cannot fail.
        let _ = write!(text, "{space}{sign}{number} {unit}{plural}");
        after_negative = number < 0;
    }
    if value.micros == 0 && text.len() > start {
        return;
    }
    if text.len() > start {
        text.push(' ');
    }
    if value.micros < 0 {
        text.push('-');
    } else if after_negative {
        text.push('+');
    }
    clock(text, value.micros.unsigned_abs());
}

/// `@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs ago`
fn interval_verbose(text: &mut String, parts: &Parts) {
    text.push('@');
    // The sign of the first field that is not zero is that of the whole.
    let mut is_ago = None;
    let units =
        [(parts.year, "year"), (parts.month, "mon"), (parts.day, "day"), (parts.hour, "hour"), (parts.minute, "min")];
    for (number, unit) in units.into_iter().filter(|(number, _)| *number != 0) {
        let ago = *is_ago.get_or_insert(number < 0);
        let number = if ago { -number } else { number };
        let plural = if number == 1 { "" } else { "s" };
        let _ = write!(text, " {number} {unit}{plural}");
    }
    if parts.has_seconds() {
        let negative = parts.second < 0 || parts.micros < 0;
        let ago = *is_ago.get_or_insert(negative);
        text.push_str(if negative == ago { " " } else { " -" });
        parts.seconds(text, 1);
        text.push_str(if parts.second.abs() != 1 || parts.micros != 0 { " secs" } else { " sec" });
    }
    match is_ago {
        None => text.push_str(" 0"),
        Some(true) => text.push_str(" ago"),
        Some(false) => {}
    }
}

/// `1-2`, `3 4:05:06.7`; `+1-2 -3 +4:05:06.7` for what SQL cannot express
fn interval_sql(text: &mut String, value: Interval) {
    let signs = [value.months.signum().into(), value.days.signum().into(), value.micros.signum()];
    let (has_negative, has_positive) = (signs.contains(&-1), signs.contains(&1));
    let has_both_kinds = value.months != 0 && (value.days != 0 || value.micros != 0);
    let parts = Parts::of(value);
    if !has_negative && !has_positive {
        text.push('0');
        return;
    }
    let time = |text: &mut String| {
        let _ = write!(text, "{}:{:02}:", parts.hour.unsigned_abs(), parts.minute.unsigned_abs());
        parts.seconds(text, 2);
    };
    let [year, month, day] = [parts.year, parts.month, parts.day].map(i64::unsigned_abs);
    if (has_negative && has_positive) || has_both_kinds {
        let [months_sign, days_sign, time_sign] = signs.map(|sign| if sign < 0 { '-' } else { '+' });
        let _ = write!(text, "{months_sign}{year}-{month} {days_sign}{day} {time_sign}");
        return time(text);
    }
    if has_negative {
        text.push('-');
    }
    if value.months != 0 {
        let _ = write!(text, "{year}-{month}");
        return;
    }
    if value.days != 0 {
        let _ = write!(text, "{day} ");
    }
    time(text);
}

/// `P1Y2M-3DT4H5M6.7S`
fn interval_iso(text: &mut String, parts: &Parts) {
    text.push('P');
    let start = text.len();
    let add = |text: &mut String, number: i64, unit: char| {
        if number != 0 {
            let _ = write!(text, "{number}{unit}");
        }
    };
    for (number, unit) in [(parts.year, 'Y'), (parts.month, 'M'), (parts.day, 'D')] {
        add(text, number, unit);
    }
    if parts.hour != 0 || parts.minute != 0 || parts.has_seconds() {
        text.push('T');
        add(text, parts.hour, 'H');
        add(text, parts.minute, 'M');
        if parts.has_seconds() {
            if parts.second < 0 || parts.micros < 0 {
                text.push('-');
            }
            parts.seconds(text, 1);
            text.push('S');
        }
    }
    if text.len() == start {
        text.push_str("T0S");
    }
}
