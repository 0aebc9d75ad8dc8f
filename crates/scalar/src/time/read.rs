//! Reads dates, timestamps and times of day from text.
//!
//! The meaning of a token depends on its form and on the fields that were read before it, and for numeric dates on
//! `DateStyle`. [`Reader`] has the rules for single tokens, [`moment`] and [`time`] those for the whole text.

use model::{Error, SqlState};

use crate::context::Session;

use super::calendar::{DAY, Fields, HOUR, MINUTE, SECOND, days_in_month};
use super::reader::Reader;
use super::tokens::{Form, Tokens, leading_int};
use super::words::{Word, word};
use super::zone;

/// Length of the tokens of a date or a time of day.
pub(super) const BYTES_MAX: usize = 128;
/// Length of the tokens of a timestamp.
pub(super) const TIMESTAMP_BYTES_MAX: usize = 152;
/// Largest offset of a zone in hours.
const OFFSET_HOURS_MAX: i64 = 15;

/// The reason why a text cannot be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// Another form than that of the type.
    Format,
    /// A field is out of range.
    Field,
    /// A month or day is out of range, which may be a matter of `DateStyle`.
    MonthOrDay,
    /// A field of an interval is out of range.
    Interval,
    /// The offset of a zone is out of range.
    Displacement,
    /// Another error.
    Other(Error),
}

impl ReadError {
    /// The error for a text and a type.
    pub(super) fn of(self, text: &str, type_name: &str) -> Error {
        let field =
            || Error::new(SqlState::DATETIME_OVERFLOW, format!("date/time field value out of range: \"{text}\""));
        match self {
            ReadError::Format => Error::new(
                SqlState::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {type_name}: \"{text}\""),
            ),
            ReadError::Field => field(),
            ReadError::MonthOrDay => field().with_hint("Perhaps you need a different \"datestyle\" setting."),
            ReadError::Interval => {
                Error::new(SqlState("22015"), format!("interval field value out of range: \"{text}\""))
            }
            ReadError::Displacement => {
                Error::new(SqlState("22009"), format!("time zone displacement out of range: \"{text}\""))
            }
            ReadError::Other(error) => error,
        }
    }
}

pub(super) type ReadResult<T> = Result<T, ReadError>;

/// A date with a time, or a special moment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Moment {
    /// A local time and the offset of its zone in seconds east of UTC. The time of day may be a day or more.
    At(Fields, i32),
    Epoch,
    Infinity,
    MinusInfinity,
}

/// Reads a date with or without a time and zone; longer texts than `bytes_max` are refused.
pub(super) fn moment(text: &str, bytes_max: usize, session: &Session) -> ReadResult<Moment> {
    if let Some((fields, offset)) = iso(text.as_bytes()) {
        let offset = offset.unwrap_or_else(|| zone::offset_at_local(&session.zone, fields.micros()));
        return Ok(Moment::At(fields, offset));
    }
    let tokens = Tokens::of(text, bytes_max)?;
    let mut reader = Reader::new(session);
    for at in 0..tokens.len() {
        let Some((form, text)) = tokens.get(at) else { break };
        let new = match form {
            Form::Date => reader.date_token(text)?,
            Form::Time => {
                reader.take_time_label()?;
                let new = reader.time_token(text)?;
                reader.time_of_day()?;
                new
            }
            Form::Signed => reader.offset_token(text)?,
            Form::Number if reader.has_label() => reader.labelled_number(text)?,
            Form::Number => reader.number_token(text)?,
            Form::Word | Form::SignedWord => {
                if word(text) == Some(Word::TimeFollows) && !(reader.has_date() && may_be_time(&tokens, at + 1)) {
                    return Err(ReadError::Format);
                }
                reader.word_token(text, false)?
            }
        };
        reader.add(new)?;
    }
    reader.into_moment()
}

/// Reads a time of day with or without a zone: microseconds since midnight, and seconds east of UTC.
pub(super) fn time(text: &str, session: &Session) -> ReadResult<(i64, i32)> {
    let tokens = Tokens::of(text, BYTES_MAX)?;
    let mut reader = Reader::new(session);
    // A date may stand before the time, so that the zone can have the offset of that date.
    let last = tokens.len().saturating_sub(1);
    let date_at_start = tokens.len() >= 2 && tokens.has_form(last, &[Form::Date]);
    for at in 0..tokens.len() {
        let Some((form, text)) = tokens.get(at) else { break };
        let new = match form {
            Form::Date if at == 0 && (date_at_start || tokens.has_form(1, &[Form::Time])) => reader.date(text)?,
            Form::Date => {
                reader.drop_label();
                reader.time_or_zone(text, true)?
            }
            // A label before the time is ignored.
            Form::Time => reader.time_token(text)?,
            Form::Signed => reader.offset_token(text)?,
            Form::Number if reader.has_label() => reader.labelled_number(text)?,
            Form::Number => match text.find('.') {
                Some(_) if at == 0 && date_at_start => reader.date(text)?,
                Some(point) if point > 2 => reader.joined_number(text, true)?,
                Some(_) => return Err(ReadError::Format),
                None if text.len() > 4 => reader.joined_number(text, true)?,
                None => reader.number(text, false, true)?,
            },
            Form::Word | Form::SignedWord => {
                if word(text) == Some(Word::TimeFollows) && !may_be_time(&tokens, at + 1) {
                    return Err(ReadError::Format);
                }
                reader.word_token(text, true)?
            }
        };
        reader.add(new)?;
    }
    reader.into_time()
}

/// Whether a token may be a time, as one after `T` must.
fn may_be_time(tokens: &Tokens, at: usize) -> bool {
    tokens.has_form(at, &[Form::Number, Form::Time, Form::Date])
}

/// Reads `2026-01-31`, `2026-01-31 04:05:06.789` or `2026-01-31T04:05:06+02:00`, with the offset in seconds east of UTC.
/// Most texts have this form, and this is several times faster than tokens. `None` for other texts, also wrong ones.
fn iso(text: &[u8]) -> Option<(Fields, Option<i32>)> {
    fn number(digits: &[u8]) -> Option<i64> {
        digits.iter().try_fold(0, |sum, c| c.is_ascii_digit().then(|| sum * 10 + i64::from(c - b'0')))
    }
    let (date, time) = text.split_at_checked(10)?;
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *date else { return None };
    let (year, month, day) = (number(&[y0, y1, y2, y3])?, number(&[m0, m1])? as u32, number(&[d0, d1])? as u32);
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let fields = Fields { year, month, day, of_day: 0 };
    if time.is_empty() {
        return Some((fields, None));
    }
    let (clock, rest) = time.split_at_checked(9)?;
    let [b' ' | b'T', h0, h1, b':', m0, m1, b':', s0, s1] = *clock else { return None };
    let (hour, minute, second) = (number(&[h0, h1])?, number(&[m0, m1])?, number(&[s0, s1])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, zone) = match rest {
        [b'.', digits @ ..] => {
            let count = digits.iter().take_while(|c| c.is_ascii_digit()).count();
            if count == 0 || count > 6 {
                return None;
            }
            (number(&digits[..count])? * 10_i64.pow(6 - count as u32), &digits[count..])
        }
        _ => (0, rest),
    };
    let offset = match *zone {
        [] => None,
        [sign @ (b'+' | b'-'), h0, h1, ref minutes @ ..] => {
            let hours = number(&[h0, h1])?;
            let minutes = match *minutes {
                [] => 0,
                [b':', m0, m1] => number(&[m0, m1])?,
                _ => return None,
            };
            if hours > OFFSET_HOURS_MAX || minutes > 59 {
                return None;
            }
            let east = (hours * 3_600 + minutes * 60) as i32;
            Some(if sign == b'-' { -east } else { east })
        }
        _ => return None,
    };
    let of_day = hour * HOUR + minute * MINUTE + second * SECOND + fraction;
    Some((Fields { of_day, ..fields }, offset))
}

/// Reads an offset such as `+02`, `-03:30` or `+0530`: seconds east of UTC.
pub(super) fn offset(text: &str) -> ReadResult<i32> {
    let negative = match text.as_bytes().first() {
        Some(b'+') => false,
        Some(b'-') => true,
        _ => return Err(ReadError::Format),
    };
    let number = |text| leading_int(text).ok_or(ReadError::Displacement);
    let (mut hours, mut rest) = number(&text[1..])?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minutes, rest) = number(after)?;
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = number(after)?;
        }
    } else if rest.is_empty() && text.len() > 3 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if !(0..=OFFSET_HOURS_MAX).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(ReadError::Displacement);
    }
    if !rest.is_empty() {
        return Err(ReadError::Format);
    }
    let seconds = ((hours * 60 + minutes) * 60 + seconds) as i32;
    Ok(if negative { -seconds } else { seconds })
}

/// Microseconds of a time of day; `None` beyond 24:00:00 or for a field out of its range.
pub(super) fn micros_of_day(hour: i64, minute: i64, second: i64, fraction: i64) -> Option<i64> {
    let valid = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..=SECOND).contains(&fraction);
    let micros = valid.then(|| hour * HOUR + minute * MINUTE + second * SECOND + fraction);
    micros.filter(|micros| *micros <= DAY)
}
