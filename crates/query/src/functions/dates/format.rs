//! Templates such as `YYYY-MM-DD HH24:MI:SS`: output by `to_char`, input by `to_timestamp` and `to_date`; and the
//! plain text of a value for `value::text`.

use std::fmt::Write;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Time64NanosecondType;
use arrow_array::{ArrayRef, Date32Array, StringArray, TimestampNanosecondArray};
use arrow_schema::DataType as Arrow;
use model::{Error, Result, SqlState};
use pg::time::{date_of_days, days_in_month, days_of_date};

use super::fields::{Clock, day_of_year, iso_week, julian, weekday};
use super::{Call, DAY, Interval, SECOND};

/// PostgreSQL's template patterns; a longer pattern precedes its own prefixes.
const WORDS: &[&str] = &[
    "Y,YYY", "SSSSS", "SSSS", "MONTH", "YYYY", "IYYY", "IDDD", "HH24", "HH12", "A.M.", "P.M.", "B.C.", "A.D.", "YYY",
    "IYY", "DAY", "DDD", "MON", "TZH", "TZM", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "AM", "PM", "AD", "BC", "CC",
    "DD", "DY", "HH", "ID", "IW", "IY", "MI", "MM", "MS", "OF", "RM", "SS", "TZ", "US", "WW", "YY", "D", "I", "J", "Q",
    "W", "Y",
];
const MONTHS: [&str; 12] = [
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
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Element of a parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Word {
        /// In upper case.
        word: &'static str,
        /// Spelling in the template, which determines the case of names.
        written: String,
        /// `FM`: suppresses leading zeros and padding blanks.
        tight: bool,
        /// Suffix `TH` or `th`.
        ordinal: Option<String>,
    },
}

fn pieces(template: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            text(&mut pieces, &quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or("");
            continue;
        }
        let tight = starts(rest, "FM") && word_at(&rest[2..]).is_some();
        let from = if tight { &rest[2..] } else { rest };
        match word_at(from) {
            Some(word) => {
                let (written, after) = from.split_at(word.len());
                let ordinal = starts(after, "TH").then(|| after[..2].to_owned());
                rest = &after[ordinal.as_ref().map_or(0, String::len)..];
                pieces.push(Piece::Word { word, written: written.to_owned(), tight, ordinal });
            }
            None => {
                let (one, after) = rest.split_at(first.len_utf8());
                text(&mut pieces, one);
                rest = after;
            }
        }
    }
    pieces
}

fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn word_at(text: &str) -> Option<&'static str> {
    WORDS.iter().copied().find(|word| starts(text, word))
}

fn text(pieces: &mut Vec<Piece>, more: &str) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push_str(more),
        _ => pieces.push(Piece::Text(more.to_owned())),
    }
}

/// Fields of the value to format.
#[derive(Default)]
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 1970; `None` for times of day and intervals.
    days: Option<i64>,
    hour: i64,
    /// Nanoseconds within the hour.
    of_hour: i64,
    /// Offset in seconds east of UTC, and the zone's abbreviation at that time.
    zone: Option<(i32, String)>,
}

impl Parts {
    fn of_local(local: i64) -> Parts {
        let (days, of_day) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, day) = date_of_days(days);
        Parts { year, month: month.into(), day: day.into(), days: Some(days), ..Parts::of_day(of_day) }
    }

    fn of_day(of_day: i64) -> Parts {
        let hour = 3_600 * SECOND;
        Parts { hour: of_day / hour, of_hour: of_day % hour, ..Parts::default() }
    }

    fn of_span(span: Interval) -> Parts {
        let (year, month, day) = (i64::from(span.months / 12), i64::from(span.months % 12), i64::from(span.days));
        Parts { year, month, day, ..Parts::of_day(span.nanoseconds) }
    }

    fn minute(&self) -> i64 {
        self.of_hour / (60 * SECOND)
    }

    fn second(&self) -> i64 {
        self.of_hour / SECOND % 60
    }

    /// First `digits` digits of the fraction of a second.
    fn fraction(&self, digits: u32) -> i64 {
        self.of_hour.abs() % SECOND / 10_i64.pow(9 - digits)
    }

    fn hour_of_12(&self) -> i64 {
        if self.hour % 12 == 0 { 12 } else { self.hour % 12 }
    }

    fn iso(&self) -> (i64, i64) {
        self.days.map_or((self.year, 0), iso_week)
    }
}

pub(super) fn to_char(call: &Call<'_>) -> Result<ArrayRef> {
    let templates = call.texts(1)?;
    let mut last: Option<(String, Vec<Piece>)> = None;
    let mut write = |row: usize, parts: Option<Parts>| -> Option<String> {
        use arrow_array::Array;
        let (parts, template) = (parts?, templates.is_valid(row).then(|| templates.value(row))?);
        if last.as_ref().is_none_or(|(known, _)| known != template) {
            last = Some((template.to_owned(), pieces(template)));
        }
        let mut out = String::new();
        last.iter().flat_map(|(_, pieces)| pieces).for_each(|piece| write_piece(&mut out, piece, &parts));
        Some(out)
    };
    let parts = parts_of(call)?;
    let texts: StringArray = parts.into_iter().enumerate().map(|(row, parts)| write(row, parts)).collect();
    Ok(Arc::new(texts))
}

fn parts_of(call: &Call<'_>) -> Result<Vec<Option<Parts>>> {
    Ok(match call.args[0].data_type() {
        Arrow::Interval(_) | Arrow::Duration(_) => {
            call.spans(0)?.into_iter().map(|span| span.map(Parts::of_span)).collect()
        }
        Arrow::Time64(_) => {
            let times = call.array(0)?;
            times.as_primitive::<Time64NanosecondType>().iter().map(|time| time.map(Parts::of_day)).collect()
        }
        ty => {
            let zoned = matches!(ty, Arrow::Timestamp(_, Some(_)));
            let mut clock = Clock::new(call.zone, zoned);
            let mut parts = |ns: i64| {
                let offset = clock.offset(ns);
                let zone = zoned.then(|| (offset, call.zone.abbreviation_at(ns)));
                Parts { zone, ..Parts::of_local(ns.saturating_add(i64::from(offset) * SECOND)) }
            };
            call.times(0)?.iter().map(|time| time.map(&mut parts)).collect()
        }
    })
}

fn write_piece(out: &mut String, piece: &Piece, parts: &Parts) {
    let (word, written, tight, ordinal) = match piece {
        Piece::Text(text) => return out.push_str(text),
        Piece::Word { word, written, tight, ordinal } => (*word, written, *tight, ordinal),
    };
    match number(word, parts) {
        Some((value, width)) => {
            let width = if tight { 0 } else { width };
            // Writing to a String cannot fail.
            let _ = if value < 0 { write!(out, "-{:0width$}", -value) } else { write!(out, "{value:0width$}") };
            if let Some(ordinal) = ordinal {
                out.push_str(&in_case(ordinal_of(value), ordinal));
            }
        }
        None => write_name(out, word, written, tight, parts),
    }
}

fn ordinal_of(value: i64) -> &'static str {
    match (value.abs() % 100, value.abs() % 10) {
        (11..=13, _) => "TH",
        (_, 1) => "ST",
        (_, 2) => "ND",
        (_, 3) => "RD",
        _ => "TH",
    }
}

/// Number for a template pattern, and the width to which it is padded with zeros.
fn number(word: &str, parts: &Parts) -> Option<(i64, usize)> {
    let days = parts.days.unwrap_or_default();
    let of_year = if parts.days.is_some() { day_of_year(days) } else { 0 };
    Some(match word {
        "YYYY" => (parts.year, 4),
        "YYY" => (parts.year % 1_000, 3),
        "YY" => (parts.year % 100, 2),
        "Y" => (parts.year % 10, 1),
        "IYYY" => (parts.iso().0, 4),
        "IYY" => (parts.iso().0 % 1_000, 3),
        "IY" => (parts.iso().0 % 100, 2),
        "I" => (parts.iso().0 % 10, 1),
        "CC" => ((parts.year + 99).div_euclid(100), 2),
        "Q" => ((parts.month - 1) / 3 + 1, 1),
        "MM" => (parts.month, 2),
        "WW" => ((of_year - 1) / 7 + 1, 2),
        "IW" => (parts.iso().1, 2),
        "W" => ((parts.day - 1) / 7 + 1, 1),
        "DDD" => (of_year, 3),
        "IDDD" => ((parts.iso().1 - 1) * 7 + weekday(days), 3),
        "DD" => (parts.day, 2),
        "D" => (weekday(days) % 7 + 1, 1),
        "ID" => (weekday(days), 1),
        "J" => (julian(days), 1),
        "HH24" => (parts.hour, 2),
        "HH" | "HH12" => (parts.hour_of_12(), 2),
        "MI" => (parts.minute(), 2),
        "SS" => (parts.second(), 2),
        "SSSS" | "SSSSS" => (parts.hour * 3_600 + parts.minute() * 60 + parts.second(), 1),
        "MS" | "FF3" => (parts.fraction(3), 3),
        "US" | "FF6" => (parts.fraction(6), 6),
        "FF1" => (parts.fraction(1), 1),
        "FF2" => (parts.fraction(2), 2),
        "FF4" => (parts.fraction(4), 4),
        "FF5" => (parts.fraction(5), 5),
        _ => return None,
    })
}

fn write_name(out: &mut String, word: &str, written: &str, tight: bool, parts: &Parts) {
    let named = |list: &[&'static str], number: i64| {
        usize::try_from(number - 1).ok().and_then(|at| list.get(at).copied()).unwrap_or_default()
    };
    let month = named(&MONTHS, parts.month);
    let day = parts.days.map_or("", |days| named(&DAYS, weekday(days)));
    let width = if tight { 0 } else { 9 };
    let (offset, abbreviation) = parts.zone.as_ref().map_or((0, ""), |(offset, name)| (*offset, name.as_str()));
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 3_600, offset.abs() / 60 % 60);
    let _ = match word {
        "MONTH" => write!(out, "{:<width$}", in_case(month, written)),
        "MON" => write!(out, "{}", in_case(month.get(..3).unwrap_or_default(), written)),
        "DAY" => write!(out, "{:<width$}", in_case(day, written)),
        "DY" => write!(out, "{}", in_case(day.get(..3).unwrap_or_default(), written)),
        "RM" => {
            let width = if tight { 0 } else { 4 };
            write!(out, "{:<width$}", in_case(named(&ROMAN, parts.month), written))
        }
        "AM" | "PM" => write!(out, "{}", in_case(if parts.hour % 24 < 12 { "AM" } else { "PM" }, written)),
        "A.M." | "P.M." => write!(out, "{}", in_case(if parts.hour % 24 < 12 { "A.M." } else { "P.M." }, written)),
        "AD" | "BC" => write!(out, "{}", in_case("AD", written)),
        "A.D." | "B.C." => write!(out, "{}", in_case("A.D.", written)),
        "Y,YYY" => write!(out, "{},{:03}", parts.year / 1_000, parts.year % 1_000),
        "TZ" => write!(out, "{}", in_case(abbreviation, written)),
        "TZH" => write!(out, "{sign}{hours:02}"),
        "TZM" => write!(out, "{minutes:02}"),
        _ if minutes == 0 => write!(out, "{sign}{hours:02}"),
        _ => write!(out, "{sign}{hours:02}:{minutes:02}"),
    };
}

/// Converts a name to the case of the pattern: `MONTH`, `Month` or `month`.
fn in_case(name: &str, written: &str) -> String {
    let mut letters = written.chars().filter(|c| c.is_alphabetic());
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_lowercase() => name.to_lowercase(),
        (Some(_), Some(second)) if second.is_lowercase() => name.to_owned(),
        _ => name.to_uppercase(),
    }
}

/// Fields parsed so far.
#[derive(Default)]
struct Read {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// Seconds of the day, in place of hour, minute and second.
    of_day: Option<i64>,
    afternoon: Option<bool>,
    offset: Option<i64>,
}

fn bad(text: &str, why: &str) -> Error {
    Error::new(SqlState::INVALID_DATETIME_FORMAT, format!("invalid value in \"{text}\": {why}"))
}

pub(super) fn to_timestamp(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, templates) = (call.texts(0)?, call.texts(1)?);
    let read = |(text, template): (Option<&str>, Option<&str>)| {
        let (Some(text), Some(template)) = (text, template) else { return Ok(None) };
        let read = read(text, template)?;
        let local = read.days(text)?.checked_mul(DAY).and_then(|days| days.checked_add(read.of_day()));
        let moment = match read.offset {
            Some(offset) => local.and_then(|local| local.checked_sub(offset * SECOND)),
            None => local.and_then(|local| call.zone.moment_of_local(local)),
        };
        moment.map(Some).ok_or_else(super::out_of_range)
    };
    let times = texts.iter().zip(templates.iter()).map(read).collect::<Result<TimestampNanosecondArray>>()?;
    Ok(Arc::new(times.with_timezone(call.zone_name)))
}

pub(super) fn to_date(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, templates) = (call.texts(0)?, call.texts(1)?);
    let read = |(text, template): (Option<&str>, Option<&str>)| {
        let (Some(text), Some(template)) = (text, template) else { return Ok(None) };
        let days = read(text, template)?.days(text)?;
        i32::try_from(days).map(Some).map_err(|_| super::out_of_range())
    };
    let dates = texts.iter().zip(templates.iter()).map(read).collect::<Result<Date32Array>>()?;
    Ok(Arc::new(dates))
}

impl Read {
    fn days(&self, text: &str) -> Result<i64> {
        let year = self.year.unwrap_or(0);
        if let Some(of_year) = self.of_year {
            return Ok(days_of_date(year, 1, 1) + of_year - 1);
        }
        let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
        let valid = (1..=12).contains(&month) && (1..=i64::from(days_in_month(year, month as u32))).contains(&day);
        if !valid || self.hour > 24 || self.minute > 59 || self.second > 59 {
            let message = format!("date/time field value out of range: \"{text}\"");
            return Err(Error::new(SqlState::DATETIME_OVERFLOW, message));
        }
        Ok(days_of_date(year, month as u32, day as u32))
    }

    fn of_day(&self) -> i64 {
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour,
        };
        let seconds = self.of_day.unwrap_or(hour * 3_600 + self.minute * 60 + self.second);
        seconds * SECOND + self.nanosecond
    }
}

fn read(text: &str, template: &str) -> Result<Read> {
    let pieces = pieces(template);
    let mut read = Read::default();
    let mut rest = text.trim_start();
    for (at, piece) in pieces.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        match piece {
            Piece::Text(separator) => rest = after_separator(rest, separator),
            Piece::Word { word, ordinal, .. } => {
                let bound = matches!(pieces.get(at + 1), Some(Piece::Word { .. }));
                rest = read_word(&mut read, word, rest, bound).map_err(|why| bad(text, why))?;
                if ordinal.is_some() {
                    rest = rest.get(2..).unwrap_or("");
                }
            }
        }
    }
    Ok(read)
}

/// Skips the input for template text. A separator matches any separator; another character of the template skips one
/// character.
fn after_separator<'a>(text: &'a str, separator: &str) -> &'a str {
    let mut rest = text;
    for c in separator.chars() {
        let same = if c.is_alphanumeric() {
            rest.chars().next()
        } else {
            rest.chars().next().filter(|next| !next.is_alphanumeric() && !matches!(next, '+' | '-') || *next == c)
        };
        rest = &rest[same.map_or(0, char::len_utf8)..];
    }
    rest.trim_start()
}

/// Parses the value of one pattern; returns the rest of the text.
fn read_word<'a>(
    read: &mut Read,
    word: &str,
    text: &'a str,
    bound: bool,
) -> std::result::Result<&'a str, &'static str> {
    let text = text.trim_start();
    let digits = |most: usize| digits(text, most).ok_or("a number was expected");
    let (value, rest) = match word {
        "YYYY" | "IYYY" => digits(if bound { 4 } else { 9 })?,
        "Y,YYY" => return read_thousands(read, text).ok_or("a year was expected"),
        "YYY" | "DDD" | "MS" | "FF3" => digits(3)?,
        "YY" | "MM" | "DD" | "HH" | "HH12" | "HH24" | "MI" | "SS" | "CC" | "WW" | "IW" | "TZM" | "FF2" => digits(2)?,
        "US" | "FF6" => digits(6)?,
        "SSSS" | "SSSSS" | "FF5" => digits(5)?,
        "FF4" => digits(4)?,
        "J" => digits(9)?,
        "Y" | "Q" | "W" | "D" | "ID" | "I" | "FF1" => digits(1)?,
        _ => return read_name(read, word, text),
    };
    let length = (text.len() - rest.len()) as u32;
    match word {
        "YYYY" => read.year = Some(value),
        // Two-digit years are those nearest to 2020.
        "YY" | "Y" => read.year = Some(if value < 70 { 2000 + value } else { 1900 + value }),
        "YYY" => read.year = Some(if value < 520 { 2000 + value } else { 1000 + value }),
        "MM" => read.month = Some(value),
        "DD" => read.day = Some(value),
        "DDD" => read.of_year = Some(value),
        "HH24" => read.hour = value,
        "HH" | "HH12" if (1..=12).contains(&value) => read.hour = value,
        "HH" | "HH12" => return Err("the hour of a 12-hour clock is 1 to 12"),
        "MI" => read.minute = value,
        "SS" => read.second = value,
        "SSSS" | "SSSSS" => read.of_day = Some(value),
        "MS" | "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
            read.nanosecond = value * 10_i64.pow(9_u32.saturating_sub(length));
        }
        "TZM" => read.offset = read.offset.map(|offset| offset + offset.signum() * value * 60),
        "J" => {
            let (year, month, day) = date_of_days(value - julian(0));
            (read.year, read.month, read.day) = (Some(year), Some(month.into()), Some(day.into()));
        }
        "Q" | "W" | "D" | "ID" | "CC" => {}
        _ => return Err("weeks and years of ISO 8601 are only written, not read"),
    }
    Ok(rest)
}

fn digits(text: &str, most: usize) -> Option<(i64, &str)> {
    let end = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    text[..end].parse().ok().map(|value| (value, &text[end..]))
}

fn read_thousands<'a>(read: &mut Read, text: &'a str) -> Option<&'a str> {
    let (thousands, rest) = digits(text, 3)?;
    let (units, rest) = digits(rest.strip_prefix(',')?, 3)?;
    read.year = Some(thousands * 1_000 + units);
    Some(rest)
}

fn read_name<'a>(read: &mut Read, word: &str, text: &'a str) -> std::result::Result<&'a str, &'static str> {
    let letters = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let found = |list: &[&str], whole: bool| {
        let position = list.iter().position(|name| starts(text, if whole { name } else { &name[..3] }))?;
        Some((position, if whole { list[position].len() } else { 3 }))
    };
    match word {
        "MONTH" | "MON" => {
            let (at, length) =
                found(&MONTHS, word == "MONTH").or_else(|| found(&MONTHS, false)).ok_or("no such month")?;
            read.month = Some(at as i64 + 1);
            Ok(&text[length..])
        }
        "DAY" | "DY" => {
            let (_, length) = found(&DAYS, word == "DAY").or_else(|| found(&DAYS, false)).ok_or("no such day")?;
            Ok(&text[length..])
        }
        "RM" => {
            let at =
                ROMAN.iter().position(|name| name.eq_ignore_ascii_case(&text[..letters])).ok_or("no such month")?;
            read.month = Some(at as i64 + 1);
            Ok(&text[letters..])
        }
        "AM" | "PM" | "A.M." | "P.M." => {
            let afternoon = starts(text, "p");
            if !afternoon && !starts(text, "a") {
                return Err("AM or PM was expected");
            }
            read.afternoon = Some(afternoon);
            Ok(text.get(word.len()..).unwrap_or(""))
        }
        "AD" | "A.D." => Ok(text.get(word.len()..).unwrap_or("")),
        "TZH" | "OF" => read_offset(read, word == "OF", text).ok_or("an offset was expected"),
        "TZ" => {
            let zone = crate::zone::Zone::read(&text[..letters]).map_err(|_| "no such time zone")?;
            read.offset = Some(i64::from(zone.offset_at(0)));
            Ok(&text[letters..])
        }
        _ => Err("years before Christ are out of range"),
    }
}

fn read_offset<'a>(read: &mut Read, minutes_too: bool, text: &'a str) -> Option<&'a str> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, mut rest) = digits(text.trim_start_matches(['+', '-']), 2)?;
    let mut offset = hours * 3_600;
    if let Some((minutes, after)) = rest.strip_prefix(':').filter(|_| minutes_too).and_then(|rest| digits(rest, 2)) {
        (offset, rest) = (offset + minutes * 60, after);
    }
    read.offset = Some(sign * offset);
    Some(rest)
}

/// `value::text`
pub(super) fn value_text(call: &Call<'_>) -> Result<ArrayRef> {
    let ty = call.args[0].data_type();
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let texts: StringArray = match ty {
        Arrow::Interval(_) | Arrow::Duration(_) => {
            let span = |span: Interval| {
                let micros = span.nanoseconds.div_euclid(1_000);
                let span = pg::time::Interval { months: span.months, days: span.days, micros };
                written(&|out| pg::time::interval_text(out, span))
            };
            call.spans(0)?.into_iter().map(|value| value.map(span)).collect()
        }
        Arrow::Time64(_) => {
            let times = call.array(0)?;
            let time = |ns: i64| written(&|out| pg::time::time_text(out, ns / 1_000));
            times.as_primitive::<Time64NanosecondType>().iter().map(|value| value.map(time)).collect()
        }
        Arrow::Timestamp(_, Some(_)) => {
            let mut clock = Clock::new(call.zone, true);
            let mut time = |ns: i64| {
                let offset = clock.offset(ns);
                written(&|out| pg::time::timestamptz_text(out, pg::time::micros_of_ns(ns), offset))
            };
            call.times(0)?.iter().map(|value| value.map(&mut time)).collect()
        }
        Arrow::Date32 => {
            let date = |ns: i64| written(&|out| pg::time::date_text(out, (ns / DAY) as i32 - pg::time::EPOCH_DAYS));
            call.times(0)?.iter().map(|value| value.map(date)).collect()
        }
        _ => {
            let time = |ns: i64| written(&|out| pg::time::timestamp_text(out, pg::time::micros_of_ns(ns)));
            call.times(0)?.iter().map(|value| value.map(time)).collect()
        }
    };
    Ok(Arc::new(texts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(template: &str) -> String {
        // 2026-03-29 14:34:56.789012, a Sunday, in Berlin's time zone.
        let local = days_of_date(2026, 3, 29) * DAY + 52_496 * SECOND + 789_012_000;
        let parts = Parts { zone: Some((7_200, "CEST".to_owned())), ..Parts::of_local(local) };
        let mut out = String::new();
        pieces(template).iter().for_each(|piece| write_piece(&mut out, piece, &parts));
        out
    }

    #[test]
    fn templates_write_what_postgresql_writes() {
        for (template, expected) in [
            ("YYYY-MM-DD HH24:MI:SS.MS", "2026-03-29 14:34:56.789"),
            ("YYYY-MM-DD\"T\"HH24:MI:SS.USOF", "2026-03-29T14:34:56.789012+02"),
            ("Day|FMDay|DAY|dy|FMMonth|Mon", "Sunday   |Sunday|SUNDAY   |sun|March|Mar"),
            ("HH:MI AM, HH12:MI p.m.", "02:34 PM, 02:34 p.m."),
            ("FMDDth \"of\" FMmonth, FMYYYY", "29th of march, 2026"),
            ("IYYY-IW-ID WW W Q DDD D J", "2026-13-7 13 5 1 088 1 2461129"),
            ("TZ tz TZH:TZM", "CEST cest +02:00"),
            ("RM|FMRM|Y,YYY|CC|SSSS", "III |III|2,026|21|52496"),
            ("at HH24 o'clock", "at 14 o'clock"),
        ] {
            assert_eq!(shown(template), expected, "{template}");
        }
    }

    #[test]
    fn templates_read_what_they_write() {
        for (text, template, expected) in [
            ("2026-03-29 14:34:56.789", "YYYY-MM-DD HH24:MI:SS.MS", "2026-03-29 14:34:56.789"),
            ("29 Mar 2026 2:34 pm", "DD Mon YYYY HH:MI AM", "2026-03-29 14:34:00"),
            ("20260329T143456", "YYYYMMDD\"T\"HH24MISS", "2026-03-29 14:34:56"),
            ("March 9, 2026", "FMMonth DD, YYYY", "2026-03-09 00:00:00"),
            ("2026-088", "YYYY-DDD", "2026-03-29 00:00:00"),
            ("29/03/26", "DD/MM/YY", "2026-03-29 00:00:00"),
        ] {
            let read = read(text, template).unwrap();
            let local = read.days(text).unwrap() * DAY + read.of_day();
            let mut out = Vec::new();
            pg::time::timestamp_text(&mut out, pg::time::micros_of_ns(local));
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text} by {template}");
        }
        for (text, template) in
            [("2026-13-01", "YYYY-MM-DD"), ("x", "YYYY"), ("13:00", "HH12:MI"), ("2026-02-30", "YYYY-MM-DD")]
        {
            assert!(read(text, template).and_then(|read| read.days(text)).is_err(), "{text} by {template}");
        }
    }
}
