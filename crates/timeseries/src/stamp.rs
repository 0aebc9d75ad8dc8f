//! Texts of times: in UTC, with an offset, or as the clock of a zone shows them.
//!
//! In autumn a clock shows an hour twice. Energy markets call the first A and the second B: `2025-10-26T02:30:00A` is summer
//! time, and `2025-10-26T02:30:00B` is an hour later. The letter may stand after the hour too: `2025-10-26T02A:30`.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use model::{Error, Result, SqlState};

const NS_PER_DAY: i64 = 86_400_000_000_000;
/// Longest text that is a time.
const TEXT_BYTES_MAX: usize = 64;

/// Which of two equal local times is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    A,
    B,
}

/// Parses a time: with `Z` or an offset from UTC, or without one as the clock of a zone shows it.
///
/// # Errors
/// 22007 for another text, a local time that the clock skips, and one that it shows twice without a letter; 22008 outside
/// 1677-09-21 .. 2262-04-11.
pub fn parse(text: &str, zone: &TimeZone) -> Result<i64> {
    let text = text.trim();
    if text.len() > TEXT_BYTES_MAX || !text.is_ascii() {
        return Err(malformed(text));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return nanoseconds(time);
    }
    let (local, letter) = split_letter(text);
    let local: DateTime = local.parse().map_err(|_| malformed(text))?;
    let ambiguous = zone.to_ambiguous_timestamp(local);
    let time = match (ambiguous.offset(), letter) {
        (AmbiguousOffset::Unambiguous { .. }, None) => ambiguous.unambiguous(),
        (AmbiguousOffset::Fold { .. }, Some(Letter::A)) => ambiguous.earlier(),
        (AmbiguousOffset::Fold { .. }, Some(Letter::B)) => ambiguous.later(),
        (AmbiguousOffset::Fold { .. }, None) => {
            let message = format!("time \"{text}\" is shown twice in {}", name_of(zone));
            return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
                .with_hint("append A for the first or B for the second, or write an offset such as +01:00"));
        }
        (AmbiguousOffset::Gap { .. }, _) => {
            let message = format!("time \"{text}\" does not exist in {}: the clock skips it", name_of(zone));
            return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message));
        }
        (AmbiguousOffset::Unambiguous { .. }, Some(_)) => {
            let message = format!("time \"{text}\" is shown once in {}: expected no letter", name_of(zone));
            return Err(Error::new(SqlState::INVALID_DATETIME_FORMAT, message));
        }
    };
    nanoseconds(time.map_err(|_| out_of_range(text))?)
}

/// The text without the letter A or B at its end or after its hour, and the letter.
fn split_letter(text: &str) -> (String, Option<Letter>) {
    let bytes = text.as_bytes();
    let hour = bytes.iter().position(|byte| b"Tt ".contains(byte)).map(|at| at + 3);
    let follows_digit = |at: usize| at > 0 && bytes.get(at - 1).is_some_and(u8::is_ascii_digit);
    let is_after_hour = |at: &usize| matches!(bytes.get(at + 1), None | Some(b':')) && follows_digit(*at);
    let places = [hour, bytes.len().checked_sub(1)];
    for at in places.into_iter().flatten().filter(is_after_hour) {
        let letter = match bytes.get(at) {
            Some(b'A' | b'a') => Letter::A,
            Some(b'B' | b'b') => Letter::B,
            _ => continue,
        };
        let mut rest = text.to_owned();
        rest.remove(at);
        return (rest, Some(letter));
    }
    (text.to_owned(), None)
}

/// Form of a time's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// `2025-10-26T00:00:00Z`
    #[default]
    Utc,
    /// `2025-10-26T02:00:00+02:00`
    Offset,
    /// `2025-10-26T02:00:00A`
    Local,
}

/// Appends a time's text, with as many digits of a second as it needs: none, 3, 6 or 9.
pub fn write(out: &mut Vec<u8>, time: i64, zone: &TimeZone, form: Form) {
    let (seconds, fraction) = (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000));
    // Every i64 of nanoseconds is within the range of a timestamp.
    let instant = Timestamp::from_second(seconds).unwrap_or_default();
    let offset = if form == Form::Utc { jiff::tz::Offset::UTC } else { zone.to_offset(instant) };
    let local = offset.to_datetime(instant);
    write_date(out, local);
    out.push(b'T');
    for (at, part) in [local.hour(), local.minute(), local.second()].into_iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        write_digits(out, part.unsigned_abs().into(), 2);
    }
    write_fraction(out, fraction.unsigned_abs());
    match form {
        Form::Utc => out.push(b'Z'),
        Form::Offset => write_offset(out, offset.seconds()),
        Form::Local => out.extend(letter_of(local, offset, zone)),
    }
}

/// Reads many times in UTC of the forms `2025-10-26T00:00:00Z`, `2025-10-26T00:00:00.000Z` and `2025-10-26T00:00:00+00:00`: the day of
/// the time before is kept, which makes it ten times as fast as [`parse()`].
#[derive(Debug, Default)]
pub struct UtcReader {
    /// Text of a day, with the `T`.
    date: [u8; 11],
    /// The start of that day; `None` before the first one.
    midnight: Option<i64>,
}

impl UtcReader {
    /// The time of a text; `None` for one of another form, which [`parse()`] may read.
    pub fn read(&mut self, text: &str) -> Option<i64> {
        let (date, clock) = text.as_bytes().split_first_chunk::<11>()?;
        let &[h1, h2, b':', m1, m2, b':', s1, s2, ref rest @ ..] = clock else { return None };
        let [hour, minute, second] = [(h1, h2, 23), (m1, m2, 59), (s1, s2, 59)].map(two_digits);
        let (hour, minute, second) = (hour?, minute?, second?);
        let fraction = match rest {
            b"Z" | b"+00:00" => 0,
            [b'.', rest @ ..] => fraction(rest.strip_suffix(b"Z").or_else(|| rest.strip_suffix(b"+00:00"))?)?,
            _ => return None,
        };
        if *date != self.date {
            let &[_, _, _, _, b'-', _, _, b'-', _, _, b'T'] = date else { return None };
            let day = text.parse::<Timestamp>().ok()?.as_second().div_euclid(86_400);
            (self.date, self.midnight) = (*date, day.checked_mul(NS_PER_DAY));
        }
        self.midnight?.checked_add((hour * 3600 + minute * 60 + second) * 1_000_000_000 + fraction)
    }
}

/// The number that two digits are, up to a greatest one.
fn two_digits((tens, ones, max): (u8, u8, i64)) -> Option<i64> {
    let number = 10 * i64::from(digit(tens)?) + i64::from(digit(ones)?);
    (number <= max).then_some(number)
}

fn digit(byte: u8) -> Option<u8> {
    byte.is_ascii_digit().then(|| byte - b'0')
}

/// Nanoseconds of up to nine digits behind the point of a second.
fn fraction(digits: &[u8]) -> Option<i64> {
    if !(1..=9).contains(&digits.len()) {
        return None;
    }
    let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
    padded.copied().try_fold(0, |number, byte| Some(10 * number + i64::from(digit(byte)?)))
}

/// Writes many times in UTC: the date of the time before is kept, which makes it ten times as fast as [`write()`].
pub struct UtcWriter {
    /// Days since 1970.
    day: i64,
    /// Text of the day, with the `T`.
    date: Vec<u8>,
}

impl Default for UtcWriter {
    fn default() -> UtcWriter {
        UtcWriter { day: i64::MIN, date: Vec::with_capacity(11) }
    }
}

impl UtcWriter {
    /// Appends a time's text; see [`Form::Utc`].
    pub fn write(&mut self, out: &mut Vec<u8>, time: i64) {
        let (day, rest) = (time.div_euclid(NS_PER_DAY), time.rem_euclid(NS_PER_DAY).unsigned_abs());
        if day != self.day {
            let midnight = Timestamp::from_second(day * 86_400).unwrap_or_default();
            self.day = day;
            self.date.clear();
            write_date(&mut self.date, jiff::tz::Offset::UTC.to_datetime(midnight));
            self.date.push(b'T');
        }
        out.extend_from_slice(&self.date);
        let seconds = rest / 1_000_000_000;
        let two = |number: u64| {
            let number = u8::try_from(number).unwrap_or(0);
            [b'0' + number / 10, b'0' + number % 10]
        };
        let ([h, g], [m, n], [s, t]) = (two(seconds / 3600), two(seconds / 60 % 60), two(seconds % 60));
        out.extend_from_slice(&[h, g, b':', m, n, b':', s, t]);
        write_fraction(out, rest % 1_000_000_000);
        out.push(b'Z');
    }
}

/// A time's text; see [`write()`].
#[must_use]
pub fn text(time: i64, zone: &TimeZone, form: Form) -> String {
    let mut out = Vec::with_capacity(32);
    write(&mut out, time, zone, form);
    String::from_utf8(out).unwrap_or_default()
}

fn letter_of(local: DateTime, offset: jiff::tz::Offset, zone: &TimeZone) -> Option<u8> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Fold { before, .. } => Some(if offset == before { b'A' } else { b'B' }),
        _ => None,
    }
}

fn write_date(out: &mut Vec<u8>, local: DateTime) {
    write_digits(out, local.year().unsigned_abs().into(), 4);
    for part in [local.month(), local.day()] {
        out.push(b'-');
        write_digits(out, part.unsigned_abs().into(), 2);
    }
}

fn write_digits(out: &mut Vec<u8>, number: u32, digits: u32) {
    for at in (0..digits).rev() {
        out.push(b'0' + u8::try_from(number / 10u32.pow(at) % 10).unwrap_or(0));
    }
}

fn write_fraction(out: &mut Vec<u8>, nanoseconds: u64) {
    let (number, digits) = match nanoseconds {
        0 => return,
        all if all % 1_000_000 == 0 => (all / 1_000_000, 3),
        all if all % 1_000 == 0 => (all / 1_000, 6),
        all => (all, 9),
    };
    out.push(b'.');
    write_digits(out, u32::try_from(number).unwrap_or(0), digits);
}

fn write_offset(out: &mut Vec<u8>, seconds: i32) {
    out.push(if seconds < 0 { b'-' } else { b'+' });
    let seconds = seconds.unsigned_abs();
    write_digits(out, seconds / 3600, 2);
    out.push(b':');
    write_digits(out, seconds / 60 % 60, 2);
    // Local mean times before 1900 and a few later zones have seconds.
    if !seconds.is_multiple_of(60) {
        out.push(b':');
        write_digits(out, seconds % 60, 2);
    }
}

fn nanoseconds(time: Timestamp) -> Result<i64> {
    i64::try_from(time.as_nanosecond()).map_err(|_| out_of_range(&time.to_string()))
}

fn name_of(zone: &TimeZone) -> &str {
    zone.iana_name().unwrap_or("its time zone")
}

fn malformed(text: &str) -> Error {
    let shown: String = text.chars().take(TEXT_BYTES_MAX).collect();
    let message =
        format!("time \"{shown}\": expected a form such as 2025-10-26T02:00:00Z, with +01:00 or without an offset");
    Error::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn out_of_range(text: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("time \"{text}\" is outside 1677-09-21 .. 2262-04-11"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).unwrap()
    }

    #[test]
    fn texts_are_parsed_to_one_time_or_refused() {
        let vienna = zone("Europe/Vienna");
        for (given, expected) in [
            ("2025-10-26T00:30:00Z", Ok("2025-10-26T00:30:00Z")),
            ("2025-10-26 02:30:00+02:00", Ok("2025-10-26T00:30:00Z")),
            ("2025-10-26T02:30:00A", Ok("2025-10-26T00:30:00Z")),
            ("2025-10-26T02:30:00b", Ok("2025-10-26T01:30:00Z")),
            ("2025-10-26T02B:30", Ok("2025-10-26T01:30:00Z")),
            ("2025-10-26 02a:30:00.5", Ok("2025-10-26T00:30:00.500Z")),
            ("2025-10-26T03:00", Ok("2025-10-26T02:00:00Z")),
            ("2025-10-26", Ok("2025-10-25T22:00:00Z")),
            ("2025-10-26T02:30:00", Err("shown twice in Europe/Vienna")),
            ("2025-10-26T03:30:00A", Err("shown once")),
            ("2025-03-30T02:30:00", Err("the clock skips it")),
            ("2025-03-30T02:30:00A", Err("the clock skips it")),
            ("2025-13-01", Err("expected a form")),
            ("", Err("expected a form")),
            ("A", Err("expected a form")),
            ("2025-10-26T0", Err("expected a form")),
            ("2025-10-26TA", Err("expected a form")),
            ("9000-01-01T00:00:00Z", Err("outside 1677")),
            ("é", Err("expected a form")),
        ] {
            match (parse(given, &vienna), expected) {
                (Ok(time), Ok(expected)) => assert_eq!(text(time, &vienna, Form::Utc), expected, "{given}"),
                (Err(error), Err(expected)) => assert!(error.message().contains(expected), "{given}: {error}"),
                (result, expected) => panic!("{given}: {result:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn every_form_is_parsed_back() {
        for name in ["Europe/Vienna", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Apia"] {
            let zone = zone(name);
            let (mut writer, mut reader) = (UtcWriter::default(), UtcReader::default());
            for step in 0..40_000_i64 {
                // 1970 to 2060, by a step that is no multiple of an hour, with every number of digits.
                let time = step * 71_234 * 1_000_000_000 + [0, 5_000_000, 7_000, 9][(step % 4) as usize];
                for form in [Form::Utc, Form::Offset, Form::Local] {
                    let text = text(time, &zone, form);
                    assert_eq!(parse(&text, &zone).unwrap(), time, "{name}: {text}");
                }
                let mut fast = Vec::new();
                writer.write(&mut fast, time);
                let fast = String::from_utf8(fast).unwrap();
                assert_eq!(fast, text(time, &zone, Form::Utc));
                assert_eq!(reader.read(&fast), Some(time), "{fast}");
                assert_eq!(reader.read(&fast.replace('Z', "+00:00")), Some(time), "{fast}");
            }
        }
    }

    #[test]
    fn a_reader_of_utc_reads_what_parse_reads_or_nothing() {
        let mut reader = UtcReader::default();
        for text in [
            "1677-09-22T00:00:00Z",
            "1969-12-31T00:00:00.000000001Z",
            "2024-02-29T23:59:59Z",
            "2025-10-26T00:00:00.1Z",
            "2262-04-11T23:47:16.854775807Z",
        ] {
            assert_eq!(reader.read(text), Some(parse(text, &TimeZone::UTC).unwrap()), "{text}");
        }
        for text in [
            "2025-02-29T00:00:00Z",
            "2025-10-26T24:00:00Z",
            "2025-10-26T00:60:00Z",
            "2025-10-26T00:00:60Z",
            "2025-10-26T00:00:00",
            "2025-10-26T00:00:00.Z",
            "2025-10-26T00:00:00.0000000001Z",
            "2025-10-26T00:00:00+02:00",
            "2025-10-26 00:00:00Z",
            "2025-10-26T0a:00:00Z",
            // The day's start is outside.
            "1677-09-21T00:12:43.145224193Z",
            "2262-04-11T23:47:16.854775808Z",
            "2262-04-12T00:00:00Z",
            "9000-01-01T00:00:00Z",
            "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0000:00:00Z",
            "2025-10-26Té0:00:00Z",
            "",
        ] {
            assert_eq!(reader.read(text), None, "{text}");
        }
    }
}
