//! Parser for dates, times, timestamps and intervals; accepts the same variants of ISO formats as
//! PostgreSQL.
//!
//! A timestamp is a date, an optional time after blanks or `T`, an optional zone (`Z`, `+02`,
//! `+02:00`, `+0200`, a name) and an optional `BC`. Fractions of a second are rounded to
//! nanoseconds. The caller looks zone names up in its time zone database.

use model::{Error, Result, SqlState};

use crate::time::{DAY_MICROS, Interval, days_in_month, days_of_date, out_of_range};
use crate::types::{Oid, Type, oid};
use crate::value::{excerpt, trim};

const SECOND_NS: i64 = 1_000_000_000;
const DAY_NS: i64 = 86_400 * SECOND_NS;
/// Largest UTC offset, as in PostgreSQL: less than 16 hours.
const OFFSET_SECONDS_MAX: i32 = 16 * 3_600 - 1;

/// Returns a zone's UTC offset, in seconds east, at a local time in seconds since 1970. Zone `None`
/// is the session's. Returns `None` for an unknown zone.
pub type ZoneLookup<'a> = &'a dyn Fn(Option<&str>, i64) -> Option<i32>;

/// A parse error, before the target type is known.
#[derive(Debug)]
enum ParseError {
    /// 22007
    Syntax,
    /// 22008
    Range,
}

type ParseResult<T> = std::result::Result<T, ParseError>;

fn to_error(ty: Oid, text: &str, error: ParseError) -> Error {
    let text = excerpt(text);
    match error {
        ParseError::Syntax => Error::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {}: \"{text}\"", Type::sql_name(ty)),
        ),
        ParseError::Range => {
            Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""))
        }
    }
}

/// A parsed date and time, before the zone is applied.
#[derive(Debug)]
struct ParsedTimestamp<'a> {
    days: i64,
    day_ns: i64,
    zone: Zone<'a>,
}

#[derive(Debug)]
enum Zone<'a> {
    None,
    Offset(i32),
    Name(&'a str),
}

/// Parses a `timestamptz` to nanoseconds since 1970. Text without a zone is in the session's zone.
///
/// # Errors
/// 22007: malformed. 22008: a field or the result out of range. 22023: unknown zone.
pub fn parse_timestamptz(text: &str, zones: ZoneLookup<'_>) -> Result<i64> {
    i64::try_from(zoned(text, zones)?).map_err(|_| out_of_range(text))
}

/// Like [`parse_timestamptz`], but rounded to microseconds; valid up to the year 294247.
///
/// # Errors
/// See [`parse_timestamptz`].
pub fn parse_timestamptz_micros(text: &str, zones: ZoneLookup<'_>) -> Result<i64> {
    round_to_micros(zoned(text, zones)?).ok_or_else(|| out_of_range(text))
}

/// A UTC timestamp in nanoseconds since 1970.
fn zoned(text: &str, zones: ZoneLookup<'_>) -> Result<i128> {
    let parsed = parse_date_time(text).map_err(|error| to_error(oid::TIMESTAMPTZ, text, error))?;
    let local = parsed.days * 86_400 + parsed.day_ns / SECOND_NS;
    let unknown = |name: &str| match is_zone_path(name) {
        true => {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("time zone \"{}\" not recognized", excerpt(name)))
        }
        false => to_error(oid::TIMESTAMPTZ, text, ParseError::Syntax),
    };
    let offset = match parsed.zone {
        Zone::Offset(offset) => offset,
        Zone::Name(name) => zones(Some(name), local).ok_or_else(|| unknown(name))?,
        Zone::None => zones(None, local).ok_or_else(|| unknown("session/zone"))?,
    };
    Ok(timestamp_ns(&parsed, offset))
}

/// Whether an unknown name was surely meant as a zone, like `Europe/Berlin`. Any other unknown word
/// is a syntax error.
fn is_zone_path(name: &str) -> bool {
    name.contains('/')
}

/// Parses a type without time zone. A zone in the text is ignored, as in PostgreSQL; an unknown
/// word is an error.
fn parse_zoneless(text: &str) -> ParseResult<ParsedTimestamp<'_>> {
    match parse_date_time(text)? {
        ParsedTimestamp { zone: Zone::Name(name), .. } if !is_zone_path(name) => Err(ParseError::Syntax),
        parsed => Ok(parsed),
    }
}

/// Parses a `timestamp` to nanoseconds since 1970. A zone in the text is ignored, as in PostgreSQL.
///
/// # Errors
/// 22007: malformed. 22008: out of range.
pub fn parse_timestamp(text: &str) -> Result<i64> {
    i64::try_from(zoneless(text)?).map_err(|_| out_of_range(text))
}

/// Like [`parse_timestamp`], but rounded to microseconds; valid up to the year 294247.
///
/// # Errors
/// See [`parse_timestamp`].
pub fn parse_timestamp_micros(text: &str) -> Result<i64> {
    round_to_micros(zoneless(text)?).ok_or_else(|| out_of_range(text))
}

/// A local timestamp in nanoseconds since 1970.
fn zoneless(text: &str) -> Result<i128> {
    let parsed = parse_zoneless(text).map_err(|error| to_error(oid::TIMESTAMP, text, error))?;
    Ok(timestamp_ns(&parsed, 0))
}

/// Parses a `date` to days since 1970. A time after it is ignored, as in PostgreSQL.
///
/// # Errors
/// 22007: malformed. 22008: out of range.
pub fn parse_date(text: &str) -> Result<i32> {
    let parsed = parse_zoneless(text).map_err(|error| to_error(oid::DATE, text, error))?;
    i32::try_from(parsed.days).map_err(|_| to_error(oid::DATE, text, ParseError::Range))
}

/// Parses a `time` to microseconds since midnight, rounded. A zone after it is ignored, as in
/// PostgreSQL.
///
/// # Errors
/// 22007: malformed. 22008: out of range.
pub fn parse_time(text: &str) -> Result<i64> {
    let parse = || {
        let (ns, rest) = parse_clock(trim(text).trim_start_matches(['T', 't']))?;
        parse_zone(rest)?;
        Ok(((ns + 500) / 1_000).min(DAY_MICROS))
    };
    parse().map_err(|error| to_error(oid::TIME, text, error))
}

fn timestamp_ns(parsed: &ParsedTimestamp<'_>, offset: i32) -> i128 {
    i128::from(parsed.days) * i128::from(DAY_NS) + i128::from(parsed.day_ns)
        - i128::from(offset) * i128::from(SECOND_NS)
}

/// Rounds to microseconds; `None` if out of range or equal to an infinity.
fn round_to_micros(ns: i128) -> Option<i64> {
    let micros = i64::try_from((ns + 500).div_euclid(1_000)).ok()?;
    (!matches!(micros, i64::MIN | i64::MAX)).then_some(micros)
}

fn parse_date_time(text: &str) -> ParseResult<ParsedTimestamp<'_>> {
    let text = trim(text);
    if text.eq_ignore_ascii_case("epoch") {
        return Ok(ParsedTimestamp { days: 0, day_ns: 0, zone: Zone::Offset(0) });
    }
    if text.trim_start_matches(['-', '+']).eq_ignore_ascii_case("infinity") {
        return Err(ParseError::Range);
    }
    let (text, bc) = match text.len().checked_sub(2).and_then(|at| text.split_at_checked(at)) {
        Some((before, era)) if era.eq_ignore_ascii_case("BC") => (trim(before), true),
        Some((before, era)) if era.eq_ignore_ascii_case("AD") => (trim(before), false),
        _ => (text, false),
    };
    let (days, rest) = parse_calendar(text, bc)?;
    let (day_ns, rest) = match rest.as_bytes() {
        [b'T' | b't', ..] => parse_clock(&rest[1..])?,
        [b' ' | b'\t', ..] if trim(rest).starts_with(|c: char| c.is_ascii_digit()) => parse_clock(trim(rest))?,
        // `2024-01-31-01`: the rest cannot be a zone.
        [b'-', ..] => return Err(ParseError::Syntax),
        _ => (0, rest),
    };
    Ok(ParsedTimestamp { days, day_ns, zone: parse_zone(rest)? })
}

/// Parses leading digits: their value, their number, and the rest.
fn digits(text: &str) -> ParseResult<(i64, usize, &str)> {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    let value = match text[..count].parse() {
        Ok(value) => value,
        Err(_) if count == 0 => return Err(ParseError::Syntax),
        Err(_) => return Err(ParseError::Range),
    };
    Ok((value, count, &text[count..]))
}

/// Like [`digits`], for a field of one or two digits.
fn two_digits(text: &str) -> ParseResult<(i64, &str)> {
    match digits(text)? {
        (value, 1..=2, rest) => Ok((value, rest)),
        _ => Err(ParseError::Syntax),
    }
}

/// `2024-01-31`, `2024/1/31`, `20240131`, and `1/31/2024` (DateStyle MDY).
fn parse_calendar(text: &str, bc: bool) -> ParseResult<(i64, &str)> {
    let (first, width, rest) = digits(text)?;
    if width == 8 && !rest.starts_with(['-', '/']) {
        return Ok((day_number(first / 10_000, first / 100 % 100, first % 100, bc)?, rest));
    }
    let separator = rest.chars().next().filter(|c| matches!(c, '-' | '/' | '.')).ok_or(ParseError::Syntax)?;
    let (second, second_width, rest) = digits(&rest[1..])?;
    let (third, third_width, rest) = digits(rest.strip_prefix(separator).ok_or(ParseError::Syntax)?)?;
    if second_width > 2 {
        return Err(ParseError::Syntax);
    }
    match (width > 2, third_width > 2) {
        (true, false) => Ok((day_number(first, second, third, bc)?, rest)),
        (false, true) => Ok((day_number(third, first, second, bc)?, rest)),
        (false, false) => Ok((day_number(century(third), first, second, bc)?, rest)),
        (true, true) => Err(ParseError::Syntax),
    }
}

/// Two-digit years are in 1970 .. 2069.
fn century(year: i64) -> i64 {
    if year < 70 { year + 2_000 } else { year + 1_900 }
}

fn day_number(year: i64, month: i64, day: i64, bc: bool) -> ParseResult<i64> {
    let astronomical = if bc { 1 - year } else { year };
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month)).ok_or(ParseError::Range)?;
    let last = days_in_month(astronomical, month);
    let day = u32::try_from(day).ok().filter(|day| (1..=last).contains(day)).ok_or(ParseError::Range)?;
    // PostgreSQL's range of dates; callers check the narrower range of timestamps. There is no year
    // 0.
    if year == 0 || !(-4_713..=5_874_897).contains(&astronomical) {
        return Err(ParseError::Range);
    }
    Ok(days_of_date(astronomical, month, day))
}

/// Parses `10:00`, `10:00:00.5`, `100000` or `1000`, with an optional AM or PM: nanoseconds since
/// midnight, and the rest.
fn parse_clock(text: &str) -> ParseResult<(i64, &str)> {
    let (first, width, rest) = digits(text)?;
    let (hour, minute, second, rest) = match (width, rest.strip_prefix(':')) {
        (1..=2, Some(rest)) => {
            let (minute, rest) = two_digits(rest)?;
            match rest.strip_prefix(':') {
                Some(rest) => {
                    let (second, rest) = two_digits(rest)?;
                    (first, minute, second, rest)
                }
                None => (first, minute, 0, rest),
            }
        }
        (4, None) => (first / 100, first % 100, 0, rest),
        (6, None) => (first / 10_000, first / 100 % 100, first % 100, rest),
        _ => return Err(ParseError::Syntax),
    };
    let (fraction, rest) = parse_fraction(rest)?;
    let (hour, rest) = parse_am_pm(hour, rest)?;
    // 24:00:00 is the end of the day; second 60 is the start of the next minute.
    let ns = ((hour * 60 + minute) * 60 + second) * SECOND_NS + fraction;
    if hour > 24 || minute > 59 || second > 60 || ns > DAY_NS {
        return Err(ParseError::Range);
    }
    Ok((ns, rest))
}

/// Parses `.123456789`, rounded to nanoseconds.
fn parse_fraction(text: &str) -> ParseResult<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Ok((0, text)) };
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let digit = |at: usize| if at < count { i64::from(rest.as_bytes()[at] - b'0') } else { 0 };
    let ns = (0..9).fold(0, |sum, at| sum * 10 + digit(at));
    Ok((ns + i64::from(digit(9) >= 5), &rest[count..]))
}

/// Applies an optional AM or PM to `hour`.
fn parse_am_pm(hour: i64, text: &str) -> ParseResult<(i64, &str)> {
    let rest = text.trim_start();
    let Some((marker, after)) = rest.split_at_checked(2) else { return Ok((hour, text)) };
    let pm = marker.eq_ignore_ascii_case("PM");
    if !(pm || marker.eq_ignore_ascii_case("AM")) || after.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Ok((hour, text));
    }
    if !(1..=12).contains(&hour) {
        return Err(ParseError::Range);
    }
    Ok((hour % 12 + if pm { 12 } else { 0 }, after))
}

fn parse_zone(text: &str) -> ParseResult<Zone<'_>> {
    let text = trim(text);
    let named = |name: &str| ["Z", "UTC", "GMT", "UT", "ZULU"].iter().any(|utc| name.eq_ignore_ascii_case(utc));
    match text.as_bytes() {
        [] => Ok(Zone::None),
        [b'+', ..] => parse_offset(&text[1..]).map(Zone::Offset),
        [b'-', ..] => parse_offset(&text[1..]).map(|offset| Zone::Offset(-offset)),
        _ if named(text) => Ok(Zone::Offset(0)),
        _ => zone_name(text).map(Zone::Name).ok_or(ParseError::Syntax),
    }
}

/// A zone name starts with a letter and consists of letters, digits and a few signs.
fn zone_name(text: &str) -> Option<&str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+' | ':');
    (text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain)).then_some(text)
}

/// `02`, `0200`, `02:00`, `02:00:30`.
fn parse_offset(text: &str) -> ParseResult<i32> {
    let (first, width, mut rest) = digits(text)?;
    let mut parts = match width {
        1 | 2 => [first, 0, 0],
        3 | 4 => [first / 100, first % 100, 0],
        6 => [first / 10_000, first / 100 % 100, first % 100],
        _ => return Err(ParseError::Syntax),
    };
    for part in &mut parts[1..] {
        let Some(after) = rest.strip_prefix(':').filter(|_| width <= 2) else { break };
        (*part, rest) = two_digits(after)?;
    }
    if !rest.is_empty() {
        return Err(ParseError::Syntax);
    }
    let seconds = parts[0] * 3_600 + parts[1] * 60 + parts[2];
    i32::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds <= OFFSET_SECONDS_MAX && parts[1] < 60 && parts[2] < 60)
        .ok_or(ParseError::Range)
}

/// Parses an `interval`: `1 year 2 mons`, `-3 days 04:05:06.7`, `1.5 hours ago`, `P1Y2M3DT4H5M6S`.
///
/// # Errors
/// 22007: malformed. 22008: out of range.
pub fn parse_interval(text: &str) -> Result<Interval> {
    let trimmed = trim(text);
    let parsed = match trimmed.strip_prefix(['P', 'p']) {
        Some(iso) => parse_iso(iso),
        None => parse_verbose(trimmed),
    };
    parsed.and_then(|sum| sum.interval()).map_err(|error| to_error(oid::INTERVAL, text, error))
}

/// Sum of the fields parsed so far, in i128: only the result is checked for overflow.
#[derive(Default)]
struct IntervalSum {
    months: i128,
    days: i128,
    micros: i128,
    /// Units of the verbose form that were there, each of which may be there once.
    units: u32,
}

/// A number with up to nine decimal places, in billionths.
#[derive(Clone, Copy)]
struct Amount(i128);

const BILLION: i128 = 1_000_000_000;
/// Larger amounts are out of range in every unit; the limit prevents overflow in the arithmetic.
const AMOUNT_MAX: i128 = 1 << 63;

impl IntervalSum {
    /// Adds `amount` units. A fraction of a unit is carried to the next smaller one; a month has 30
    /// days here.
    fn add(&mut self, amount: Amount, unit: &str) -> ParseResult<()> {
        let months = |factor: i128| (factor, 0, 0);
        let micros = |factor: i128| (0, 0, factor);
        let (month, day, micro) = match unit {
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => micros(1),
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => micros(1_000),
            "second" | "seconds" | "sec" | "secs" | "s" => micros(1_000_000),
            "minute" | "minutes" | "min" | "mins" | "m" => micros(60_000_000),
            "hour" | "hours" | "hr" | "hrs" | "h" => micros(3_600_000_000),
            "day" | "days" | "d" => (0, 1, 0),
            "week" | "weeks" | "w" => (0, 7, 0),
            "month" | "months" | "mon" | "mons" => months(1),
            "year" | "years" | "yr" | "yrs" | "y" => months(12),
            "decade" | "decades" => months(120),
            "century" | "centuries" | "c" => months(1_200),
            "millennium" | "millennia" | "mil" | "mils" => months(12_000),
            _ => return Err(ParseError::Syntax),
        };
        let whole_months = amount.0 * month / BILLION;
        self.months += whole_months;
        // Years keep whole months only; a fraction of a month becomes days.
        let month_rest = if month == 1 { amount.0 - whole_months * BILLION } else { 0 };
        let day_amount = amount.0 * day + month_rest * 30;
        self.days += day_amount / BILLION;
        let micro_amount = amount.0 * micro + day_amount % BILLION * i128::from(DAY_MICROS);
        self.micros += round_billionths(micro_amount);
        Ok(())
    }

    /// Refuses a unit that was there already.
    fn once(&mut self, units: u32) -> ParseResult<()> {
        if self.units & units != 0 {
            return Err(ParseError::Syntax);
        }
        self.units |= units;
        Ok(())
    }

    fn interval(&self) -> ParseResult<Interval> {
        let months = i32::try_from(self.months).map_err(|_| ParseError::Range)?;
        let days = i32::try_from(self.days).map_err(|_| ParseError::Range)?;
        let micros = i64::try_from(self.micros).map_err(|_| ParseError::Range)?;
        Ok(Interval { months, days, micros })
    }

    fn negate(&mut self) {
        (self.months, self.days, self.micros) = (-self.months, -self.days, -self.micros);
    }
}

fn round_billionths(value: i128) -> i128 {
    (value + value.signum() * (BILLION / 2)) / BILLION
}

/// Parses a signed decimal number; returns it and the rest.
fn parse_amount(text: &str) -> ParseResult<(Amount, &str)> {
    let (negative, unsigned) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let count = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if count == 0 && !unsigned.starts_with('.') {
        return Err(ParseError::Syntax);
    }
    let whole: i128 = if count == 0 { 0 } else { unsigned[..count].parse().map_err(|_| ParseError::Range)? };
    if whole > AMOUNT_MAX {
        return Err(ParseError::Range);
    }
    let (fraction, rest) = parse_fraction(&unsigned[count..])?;
    let value = whole * BILLION + i128::from(fraction);
    Ok((Amount(if negative { -value } else { value }), rest))
}

fn parse_verbose(text: &str) -> ParseResult<IntervalSum> {
    let mut sum = IntervalSum::default();
    let mut rest = trim(text.strip_prefix('@').unwrap_or(text));
    if rest.is_empty() {
        return Err(ParseError::Syntax);
    }
    while !rest.is_empty() {
        if rest.eq_ignore_ascii_case("ago") {
            sum.negate();
            break;
        }
        rest = trim(verbose_part(&mut sum, rest)?);
    }
    Ok(sum)
}

/// Parses one of `3 days`, `04:05:06.7`, `1-2` (years and months), or a number without a unit: days before a time,
/// seconds at the end.
fn verbose_part<'a>(sum: &mut IntervalSum, text: &'a str) -> ParseResult<&'a str> {
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    let word = &text[..end];
    if word.contains(':') {
        sum.once(TIME)?;
        sum.micros += parse_span(word)?;
        return Ok(&text[end..]);
    }
    if let Some((years, months)) = word.trim_start_matches(['-', '+']).split_once('-') {
        let sign = if word.starts_with('-') { -1 } else { 1 };
        let number = |text: &str| text.parse::<u32>().map(i128::from).map_err(|_| ParseError::Syntax);
        sum.once(MONTH)?;
        sum.months += sign * (number(years)? * 12 + number(months)?);
        return Ok(&text[end..]);
    }
    let (amount, rest) = parse_amount(text)?;
    let rest = trim(rest);
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let unit = match rest[..end].to_ascii_lowercase() {
        word if word.is_empty() || word == "ago" => return number_alone(sum, amount, rest),
        unit => unit,
    };
    sum.once(unit_bits(&unit))?;
    sum.add(amount, &unit)?;
    Ok(&rest[end..])
}

/// A number without unit and what follows it.
fn number_alone<'a>(sum: &mut IntervalSum, amount: Amount, rest: &'a str) -> ParseResult<&'a str> {
    let next = rest.split([' ', '\t']).next().unwrap_or_default();
    let unit = match next {
        "" => "second",
        word if word.contains(':') => "day",
        _ => return Err(ParseError::Syntax),
    };
    sum.once(unit_bits(unit))?;
    sum.add(amount, unit)?;
    Ok(rest)
}

const SECOND: u32 = 1 << 2;
const MINUTE: u32 = 1 << 3;
const HOUR: u32 = 1 << 4;
const MONTH: u32 = 1 << 7;
/// Hours, minutes and seconds written with colons.
const TIME: u32 = HOUR | MINUTE | SECOND;

/// The bit of a unit in [`IntervalSum::units`].
fn unit_bits(unit: &str) -> u32 {
    let singular = unit.strip_suffix('s').filter(|_| unit.len() > 2).unwrap_or(unit);
    match singular {
        "microsecond" | "us" | "usec" => 1,
        "millisecond" | "ms" | "msec" => 1 << 1,
        "second" | "sec" | "s" => SECOND,
        "minute" | "min" | "m" => MINUTE,
        "hour" | "hr" | "h" => HOUR,
        "day" | "d" => 1 << 5,
        "week" | "w" => 1 << 6,
        "month" | "mon" => MONTH,
        "year" | "yr" | "y" => 1 << 8,
        "decade" => 1 << 9,
        "century" | "centurie" | "c" => 1 << 10,
        _ => 1 << 11,
    }
}

/// Parses `[-]HH:MM[:SS[.f]]` with any number of hours, to microseconds.
fn parse_span(word: &str) -> ParseResult<i128> {
    let (sign, unsigned) = match word.as_bytes() {
        [b'-', ..] => (-1, &word[1..]),
        [b'+', ..] => (1, &word[1..]),
        _ => (1, word),
    };
    let (hours, _, rest) = digits(unsigned)?;
    let (minutes, rest) = two_digits(rest.strip_prefix(':').ok_or(ParseError::Syntax)?)?;
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => two_digits(rest)?,
        None => (0, rest),
    };
    let (fraction, rest) = parse_fraction(rest)?;
    if !rest.is_empty() {
        return Err(ParseError::Syntax);
    }
    if minutes > 59 || seconds > 60 {
        return Err(ParseError::Range);
    }
    let ns =
        (i128::from(hours) * 3_600 + i128::from(minutes) * 60 + i128::from(seconds)) * BILLION + i128::from(fraction);
    Ok(sign * ((ns + 500) / 1_000))
}

/// Parses ISO 8601 after the `P`: `1Y2M3DT4H5M6.7S`.
fn parse_iso(text: &str) -> ParseResult<IntervalSum> {
    let mut sum = IntervalSum::default();
    let mut rest = text;
    let mut in_time = false;
    if rest.is_empty() {
        return Err(ParseError::Syntax);
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']).filter(|_| !in_time) {
            in_time = true;
            rest = after;
            continue;
        }
        let (amount, after) = parse_amount(rest)?;
        let letter = after.chars().next().ok_or(ParseError::Syntax)?.to_ascii_uppercase();
        let unit = match (letter, in_time) {
            ('Y', false) => "year",
            ('M', false) => "month",
            ('W', false) => "week",
            ('D', false) => "day",
            ('H', true) => "hour",
            ('M', true) => "minute",
            ('S', true) => "second",
            _ => return Err(ParseError::Syntax),
        };
        sum.add(amount, unit)?;
        rest = &after[1..];
    }
    Ok(sum)
}
