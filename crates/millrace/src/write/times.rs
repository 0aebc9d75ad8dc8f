//! Times in a CSV file: their columns, format, and conversion for COPY.

use jiff::civil::Time;
use jiff::fmt::strtime;
use jiff::{Timestamp, ToSpan};

use crate::failure::Failure;

/// Format of the file's times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeFormat {
    /// Text that the server reads: `2026-01-31 12:00:00`, with or without a zone.
    Plain,
    /// A number since 1970, in units of this many nanoseconds.
    Epoch(i128),
    /// Year, month, day, hour, minute and second in separate columns.
    Parts,
    /// A `strptime` pattern.
    Pattern(String),
}

/// Unit names and their length in nanoseconds.
const UNITS: [(&str, i128); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Plausible times in seconds since 1970 for a column named like a time: 1990 to 2100.
const LIKELY_SECONDS: std::ops::Range<i128> = 631_152_000..4_102_444_800;

/// Patterns to suggest if they match the first rows.
const SUGGESTED: [&str; 14] = [
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y",
    "%d/%m/%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d",
    "%Y%m%d%H%M%S",
    "%Y%m%d",
];

/// Column names for parts of a time, from the largest unit.
const PARTS: [&[&str]; 6] = [
    &["year", "yr", "yyyy"],
    &["month", "mon", "mm", "mo"],
    &["day", "dy", "dd", "mday"],
    &["hour", "hr", "hh"],
    &["minute", "min"],
    &["second", "sec"],
];

impl TimeFormat {
    /// Parses `--time-format`. `columns`: those of `--time`.
    pub(super) fn read(text: Option<&str>, columns: &[String]) -> Result<TimeFormat, Failure> {
        match text {
            None if columns.len() > 1 && are_parts(columns) => Ok(TimeFormat::Parts),
            None => Ok(TimeFormat::Plain),
            Some(text) => match UNITS.iter().find(|(name, _)| *name == text) {
                Some((_, length)) => Ok(TimeFormat::Epoch(*length)),
                None if text.contains('%') => Ok(TimeFormat::Pattern(text.to_owned())),
                None => Err(Failure::usage(format!("--time-format: invalid format {text:?}"))
                    .with_hint("expected a pattern like '%d.%m.%Y %H:%M', or s, ms, us or ns for numbers since 1970")),
            },
        }
    }

    /// Converts the fields of the time columns for COPY; `None` if the time is missing.
    pub(super) fn convert(&self, fields: &[String]) -> Result<Option<String>, String> {
        if fields.iter().all(|field| field.trim().is_empty()) {
            return Ok(None);
        }
        let joined = fields.iter().map(|field| field.trim()).collect::<Vec<_>>().join(" ");
        match self {
            TimeFormat::Plain => Ok(Some(joined)),
            TimeFormat::Epoch(length) => epoch(&joined, *length).map(Some),
            TimeFormat::Parts => parts(fields).map(Some),
            TimeFormat::Pattern(pattern) => by_pattern(pattern, &joined).map(Some),
        }
    }
}

/// Whether the columns are a year, a month and so on, in this order.
fn are_parts(columns: &[String]) -> bool {
    columns.len() <= PARTS.len()
        && columns.iter().zip(PARTS).all(|(column, names)| names.contains(&column.to_lowercase().as_str()))
}

/// `1767225600.5` in units of `length` nanoseconds.
fn epoch(text: &str, length: i128) -> Result<String, String> {
    let wrong = || format!("{text:?} is not a number since 1970");
    let (digits, negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let whole: i128 = whole.parse().map_err(|_| wrong())?;
    let scale = 10_i128.pow(fraction.len() as u32);
    let fraction: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
    let ns = whole.checked_mul(length).ok_or_else(wrong)? + fraction * length / scale;
    let time = Timestamp::from_nanosecond(if negative { -ns } else { ns }).map_err(|error| error.to_string())?;
    Ok(time.to_string())
}

/// Year, month and the rest as `2010-01-02 03:00:00`; the server checks ranges.
fn parts(fields: &[String]) -> Result<String, String> {
    let number = |at: usize, default: &str| {
        let text = fields.get(at).map_or(default, |field| field.trim());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        // pandas writes whole numbers as 3.0 in a column with missing values.
        let fraction = fraction.trim_end_matches('0');
        let value: u32 = whole.parse().map_err(|_| format!("{text:?} is not a whole number"))?;
        match (fraction.is_empty(), at) {
            (true, _) => Ok(format!("{value:02}")),
            (false, 5) => Ok(format!("{value:02}.{fraction}")),
            (false, _) => Err(format!("{text:?} is not a whole number")),
        }
    };
    let (year, month, day) = (number(0, "")?, number(1, "1")?, number(2, "1")?);
    Ok(format!("{year:0>4}-{month}-{day} {}:{}:{}", number(3, "0")?, number(4, "0")?, number(5, "0")?))
}

/// Converts text by a pattern: to UTC if it has an offset, else to local time.
fn by_pattern(pattern: &str, text: &str) -> Result<String, String> {
    let parsed = match strtime::parse(pattern, text) {
        Ok(parsed) => parsed,
        // Hour 24 is midnight at the end of the day, in weather files and in PostgreSQL.
        Err(error) => {
            let midnight = text.contains("24:00").then(|| text.replacen("24:00", "00:00", 1));
            let parsed = midnight.and_then(|text| strtime::parse(pattern, text).ok()?.to_datetime().ok());
            let next = parsed.and_then(|day| day.checked_add(1.day()).ok());
            return next
                .map(|next| next.to_string())
                .ok_or_else(|| format!("{text:?} does not fit {pattern:?}: {error}"));
        }
    };
    if parsed.offset().is_some()
        && let Ok(time) = parsed.to_timestamp()
    {
        return Ok(time.to_string());
    }
    let local = parsed.to_datetime().or_else(|_| parsed.to_date().map(|date| date.to_datetime(Time::midnight())));
    local.map(|local| local.to_string()).map_err(|error| format!("{text:?} by {pattern:?}: {error}"))
}

/// Whether the server can read `value` as a time: `2013-01-01`, optionally with time of day and zone.
pub(super) fn looks_like_time(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digits =
        |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|part| part.iter().all(u8::is_ascii_digit));
    let date =
        digits(0..4) && bytes.get(4) == Some(&b'-') && digits(5..7) && bytes.get(7) == Some(&b'-') && digits(8..10);
    let clock = matches!(bytes.get(10), Some(b'T' | b' ' | b't')) && digits(11..13) && bytes.get(13) == Some(&b':');
    date && (bytes.len() == 10 || clock)
}

/// Whether it is a time without an offset.
pub(super) fn is_local(value: &str) -> bool {
    let clock = value.get(10..).unwrap_or_default();
    looks_like_time(value) && !clock.ends_with(['Z', 'z']) && !clock.contains(['+', '-'])
}

/// Whether the column is named like a time.
pub(super) fn is_named_like_time(name: &str) -> bool {
    let name = name.to_lowercase();
    matches!(name.as_str(), "time" | "timestamp" | "ts" | "datetime" | "date" | "epoch" | "unixtime" | "date_time")
}

/// The unit for which all these numbers are plausible times.
pub(super) fn likely_unit<'a>(values: impl Iterator<Item = &'a str> + Clone) -> Option<(&'static str, TimeFormat)> {
    values.clone().next()?;
    let (name, length) = UNITS.into_iter().find(|(_, length)| {
        values.clone().all(|value| {
            let whole = value.split('.').next().and_then(|whole| whole.parse::<i128>().ok());
            whole.is_some_and(|whole| LIKELY_SECONDS.contains(&(whole * length / 1_000_000_000)))
        })
    })?;
    Some((name, TimeFormat::Epoch(length)))
}

/// Patterns that match all these texts, for a hint.
pub(super) fn fitting_patterns(values: &[String]) -> Vec<&'static str> {
    let fits =
        |pattern: &&str| !values.is_empty() && values.iter().all(|value| by_pattern(pattern, value.trim()).is_ok());
    SUGGESTED.into_iter().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(format: Option<&str>, columns: &str, fields: &str) -> Result<Option<String>, String> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let format = TimeFormat::read(format, &list(columns)).map_err(|failure| failure.text())?;
        format.convert(&list(fields))
    }

    #[test]
    fn times_are_converted_for_copy() {
        for (format, columns, fields, expected) in [
            (None, "t", "2026-01-31 12:00", "2026-01-31 12:00"),
            (None, "date,time", "2026-01-31,12:00", "2026-01-31 12:00"),
            (None, "year,month,day,hour", "2010,1,2,3", "2010-01-02 03:00:00"),
            (None, "year,month,day", "2010,1.0,2", "2010-01-02 00:00:00"),
            (Some("s"), "t", "1767225600", "2026-01-01T00:00:00Z"),
            (Some("s"), "t", "1767225600.25", "2026-01-01T00:00:00.25Z"),
            (Some("ms"), "t", "-1", "1969-12-31T23:59:59.999Z"),
            (Some("ns"), "t", "1767225600000000001", "2026-01-01T00:00:00.000000001Z"),
            (Some("%d.%m.%Y %H:%M"), "t", "31.01.2026 12:30", "2026-01-31T12:30:00"),
            (Some("%d.%m.%Y"), "t", "31.01.2026", "2026-01-31T00:00:00"),
            (Some("%m/%d/%Y %H:%M"), "d,t", "01/31/1997,24:00", "1997-02-01T00:00:00"),
            (Some("%Y-%m-%d %H:%M %z"), "t", "2026-01-31 12:00 +0100", "2026-01-31T11:00:00Z"),
            (Some("%Y %m %d %H"), "a,b,c,d", "2010,1,2,3", "2010-01-02T03:00:00"),
        ] {
            assert_eq!(convert(format, columns, fields), Ok(Some(expected.to_owned())), "{format:?} {fields}");
        }
        assert_eq!(convert(Some("s"), "t", ""), Ok(None));
        for (format, fields) in
            [(Some("s"), "x"), (Some("%Y"), "x"), (Some("nope"), "1"), (Some("%d.%m.%Y"), "32.01.2026")]
        {
            assert!(convert(format, "t", fields).is_err(), "{format:?} {fields}");
        }
    }

    #[test]
    fn units_and_patterns_are_guessed_from_values() {
        let unit = |values: &[&str]| likely_unit(values.iter().copied()).map(|(name, _)| name);
        assert_eq!(unit(&["1767225600", "1767225601.5"]), Some("s"));
        assert_eq!(unit(&["1767225600000"]), Some("ms"));
        assert_eq!(unit(&["1767225600000000000"]), Some("ns"));
        assert_eq!(unit(&["17"]), None);
        assert_eq!(unit(&[]), None);
        let patterns = |values: &[&str]| fitting_patterns(&values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>());
        assert_eq!(patterns(&["31.01.2026 12:00"]), ["%d.%m.%Y %H:%M"]);
        assert_eq!(patterns(&["01/02/1997 24:00"]), ["%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M"]);
        assert!(patterns(&["soon"]).is_empty());
    }

    #[test]
    fn a_time_without_offset_is_local() {
        for (value, local) in [
            ("2026-01-01", true),
            ("2026-01-01 12:00:00", true),
            ("2026-01-01T12:00:00Z", false),
            ("2026-01-01 12:00:00+01", false),
            ("2026-01-01 12:00:00-05", false),
            ("x", false),
        ] {
            assert_eq!(is_local(value), local, "{value}");
        }
    }
}
