//! Reads intervals from text: with units, as in SQL, or as in ISO 8601.

use model::{Error, Interval, Result, SqlState};

use crate::context::{IntervalStyle, Session};

use super::calendar::{DAY, HOUR, MINUTE, MONTH_DAYS, SECOND, interval_out_of_range};
use super::read::ReadError;
use super::tokens::{Form, Tokens, fraction, fraction_micros, leading_int, leading_long};
use super::words::{Unit, unit};

/// Length of the tokens of an interval.
const BYTES_MAX: usize = 255;

/// Fields of an interval type, as bits of its type modifier.
mod mask {
    pub(super) const MONTH: i32 = 1 << 1;
    pub(super) const YEAR: i32 = 1 << 2;
    pub(super) const DAY: i32 = 1 << 3;
    pub(super) const HOUR: i32 = 1 << 10;
    pub(super) const MINUTE: i32 = 1 << 11;
    pub(super) const SECOND: i32 = 1 << 12;
    /// Every field.
    pub(super) const FULL: i32 = 0x7fff;
    /// A precision that is not given.
    pub(super) const FULL_PRECISION: i32 = 0xffff;
}

/// Fields of an interval type.
fn range_of(typmod: i32) -> i32 {
    if typmod < 0 { mask::FULL } else { (typmod >> 16) & mask::FULL }
}

/// Reads an interval. The type modifier gives a number without unit its unit, and limits fields and precision.
pub(super) fn interval(text: &str, typmod: i32, session: &Session) -> Result<Interval> {
    let read = match with_units(text, range_of(typmod), session) {
        Err(ReadError::Format) => iso(text),
        other => other,
    };
    let sum = read.map_err(|error| match error {
        ReadError::Field => ReadError::Interval.of(text, "interval"),
        other => other.of(text, "interval"),
    })?;
    let months =
        i32::try_from(i64::from(sum.years) * 12 + i64::from(sum.months)).map_err(|_| interval_out_of_range())?;
    limited(Interval { months, days: sum.days, micros: sum.micros }, typmod)
}

/// An interval with the fields and the precision of a type modifier.
pub(super) fn limited(value: Interval, typmod: i32) -> Result<Interval> {
    use mask::{DAY as D, HOUR as H, MINUTE as M, MONTH, YEAR};
    if typmod < 0 {
        return Ok(value);
    }
    let Interval { months, days, micros } = value;
    let cut = |unit: i64| Interval { micros: micros / unit * unit, ..value };
    let range = range_of(typmod);
    let value = if range == YEAR {
        Interval { months: months / 12 * 12, days: 0, micros: 0 }
    } else if range == MONTH || range == YEAR | MONTH {
        Interval { days: 0, micros: 0, ..value }
    } else if range == D {
        Interval { days, micros: 0, ..value }
    } else if range == H || range == D | H {
        cut(HOUR)
    } else if range == M || range == H | M || range == D | H | M {
        cut(MINUTE)
    } else {
        value
    };
    match typmod & mask::FULL_PRECISION {
        mask::FULL_PRECISION => Ok(value),
        precision @ 0..=6 => {
            let micros = rounded(value.micros, precision).ok_or_else(interval_out_of_range)?;
            Ok(Interval { micros, ..value })
        }
        precision => Err(Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("interval({precision}) precision must be between 0 and 6"),
        )),
    }
}

/// Microseconds rounded to decimal places of a second, halves away from zero; `None` on overflow.
pub(super) fn rounded(micros: i64, places: i32) -> Option<i64> {
    let unit = 10_i64.pow((6 - places.clamp(0, 6)).unsigned_abs());
    let half = if micros < 0 { -(unit / 2) } else { unit / 2 };
    micros.checked_add(half).map(|micros| micros / unit * unit)
}

/// The sum of the fields that were read.
#[derive(Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

/// A number of a unit: the whole part and the fraction, of the same sign.
#[derive(Clone, Copy)]
struct Amount {
    whole: i64,
    fraction: f64,
}

impl Sum {
    /// Adds an amount of a unit. A fraction of a year becomes months, of a month or week days, of a day microseconds.
    fn add(&mut self, amount: Amount, unit: Unit) -> Result<(), ReadError> {
        let done = match unit {
            Unit::Microsecond => self.add_micros(amount, 1),
            Unit::Millisecond => self.add_micros(amount, 1_000),
            Unit::Second => self.add_micros(amount, SECOND),
            Unit::Minute => self.add_micros(amount, MINUTE),
            Unit::Hour => self.add_micros(amount, HOUR),
            Unit::Day => self.add_days(amount.whole, 1).and_then(|()| self.add_fraction(amount.fraction, DAY)),
            Unit::Week => self.add_days(amount.whole, 7).and_then(|()| self.add_fraction_of_days(amount.fraction, 7)),
            Unit::Month => {
                self.add_months(amount.whole).and_then(|()| self.add_fraction_of_days(amount.fraction, MONTH_DAYS))
            }
            Unit::Year => self.add_years(amount, 1),
            Unit::Decade => self.add_years(amount, 10),
            Unit::Century => self.add_years(amount, 100),
            Unit::Millennium => self.add_years(amount, 1_000),
            _ => return Err(ReadError::Format),
        };
        done.ok_or(ReadError::Field)
    }

    fn add_years(&mut self, amount: Amount, years: i32) -> Option<()> {
        let whole = i32::try_from(amount.whole).ok()?.checked_mul(years)?;
        self.years = self.years.checked_add(whole)?;
        let months = (amount.fraction * f64::from(years) * 12.0).round_ties_even() as i32;
        self.months = self.months.checked_add(months)?;
        Some(())
    }

    fn add_months(&mut self, months: i64) -> Option<()> {
        self.months = self.months.checked_add(i32::try_from(months).ok()?)?;
        Some(())
    }

    fn add_days(&mut self, count: i64, days: i32) -> Option<()> {
        self.days = self.days.checked_add(i32::try_from(count).ok()?.checked_mul(days)?)?;
        Some(())
    }

    fn add_fraction_of_days(&mut self, fraction: f64, days: i32) -> Option<()> {
        let all = fraction * f64::from(days);
        self.days = self.days.checked_add(all as i32)?;
        self.add_fraction(all - f64::from(all as i32), DAY)
    }

    fn add_micros(&mut self, amount: Amount, unit: i64) -> Option<()> {
        self.micros = self.micros.checked_add(amount.whole.checked_mul(unit)?)?;
        self.add_fraction(amount.fraction, unit)
    }

    fn add_fraction(&mut self, fraction: f64, unit: i64) -> Option<()> {
        let micros = fraction * unit as f64;
        let rest = micros - micros.trunc();
        let carry = i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.micros = self.micros.checked_add((micros as i64).checked_add(carry)?)?;
        Some(())
    }

    fn negated(self) -> Option<Sum> {
        Some(Sum {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }
}

/// The bit of a unit, each of which may be there once.
fn bit(unit: Unit) -> u32 {
    1 << unit as u32
}

/// Bits of a time such as `04:05:06`.
const TIME_BITS: u32 = 1 << Unit::Hour as u32 | 1 << Unit::Minute as u32 | SECOND_BITS;
/// Bits of a second with a fraction.
const SECOND_BITS: u32 = 1 << Unit::Second as u32 | 1 << Unit::Millisecond as u32 | 1 << Unit::Microsecond as u32;

/// The unit of a number at the end without unit, by the fields of the type.
fn last_unit(range: i32) -> Unit {
    use mask::{DAY, HOUR, MINUTE, MONTH, YEAR};
    // The smallest field of the type counts.
    match range {
        YEAR => Unit::Year,
        DAY => Unit::Day,
        range if range == MONTH || range == YEAR | MONTH => Unit::Month,
        range if range == HOUR || range == DAY | HOUR => Unit::Hour,
        range if range == MINUTE || range == HOUR | MINUTE || range == DAY | HOUR | MINUTE => Unit::Minute,
        _ => Unit::Second,
    }
}

/// Reads `1 year 2 mons`, `-3 days 04:05:06.7`, `1-2 3 4:05:06`.
fn with_units(text: &str, range: i32, session: &Session) -> Result<Sum, ReadError> {
    let tokens = Tokens::of(text, BYTES_MAX)?;
    let is_signed = |at: usize| tokens.has_form(at, &[Form::Signed, Form::SignedWord]);
    let starts_negative = tokens.get(0).is_some_and(|(_, token)| token.starts_with('-'));
    // In SQL, a sign at the start that is the only one applies to every field.
    let all_negative =
        session.interval_style == IntervalStyle::SqlStandard && starts_negative && !(1..tokens.len()).any(is_signed);
    let mut sum = Sum::default();
    let mut found = 0;
    // Units follow their numbers, so tokens are read from the last one.
    let mut pending = None;
    let mut negate = false;
    for at in (0..tokens.len()).rev() {
        let Some((form, token)) = tokens.get(at) else { break };
        let new = match form {
            // A time replaces the fraction of a day that follows it, as in PostgreSQL.
            Form::Time => {
                let micros = time(token, range)?;
                sum.micros = if all_negative { negative(micros) } else { micros };
                pending = Some(Unit::Day);
                TIME_BITS
            }
            Form::Signed if signed_time(token, range).is_some() => {
                let micros = signed_time(token, range).unwrap_or_default();
                sum.micros = if all_negative { negative(micros) } else { micros };
                pending = Some(Unit::Day);
                TIME_BITS
            }
            Form::Number | Form::Date | Form::Signed => {
                let (mut amount, years_and_months) = amount(token)?;
                let unit = if years_and_months { Unit::Month } else { pending.unwrap_or_else(|| last_unit(range)) };
                if all_negative {
                    amount = Amount { whole: negative(amount.whole), fraction: -amount.fraction.abs() };
                }
                sum.add(amount, unit)?;
                pending = Some(if unit == Unit::Hour { Unit::Day } else { unit });
                if unit == Unit::Second && amount.fraction != 0.0 { SECOND_BITS } else { bit(unit) }
            }
            Form::Word | Form::SignedWord if token == "ago" => {
                negate = true;
                // A number directly before has no unit.
                pending = Some(Unit::Epoch);
                continue;
            }
            Form::Word | Form::SignedWord => {
                pending = Some(unit(token).ok_or(ReadError::Format)?);
                continue;
            }
        };
        if found & new != 0 {
            return Err(ReadError::Format);
        }
        found |= new;
    }
    if found == 0 {
        return Err(ReadError::Format);
    }
    if negate { sum.negated().ok_or(ReadError::Field) } else { Ok(sum) }
}

/// A number with a minus, if it has none.
fn negative(number: i64) -> i64 {
    if number > 0 { -number } else { number }
}

/// A time with a sign; `None` if the token has another form.
fn signed_time(token: &str, range: i32) -> Option<i64> {
    let unsigned = &token[1..];
    let micros = unsigned.contains(':').then(|| time(unsigned, range).ok()).flatten()?;
    if token.starts_with('-') { micros.checked_neg() } else { Some(micros) }
}

/// `HH:MM`, `HH:MM:SS` or `MM:SS.f` with any number of hours: microseconds.
fn time(text: &str, range: i32) -> Result<i64, ReadError> {
    let (first, rest) = leading_long(text).ok_or(ReadError::Field)?;
    let number = |text| leading_int(text).ok_or(ReadError::Field);
    let (second, rest) = number(rest.strip_prefix(':').ok_or(ReadError::Format)?)?;
    let (hours, minutes, seconds, micros) = match rest.as_bytes().first() {
        None if range == mask::MINUTE | mask::SECOND => (0, first, second, 0),
        None => (first, second, 0, 0),
        Some(b'.') => (0, first, second, fraction_micros(rest).ok_or(ReadError::Format)?),
        Some(b':') => {
            let (third, rest) = number(&rest[1..])?;
            let micros = if rest.is_empty() { Some(0) } else { fraction_micros(rest) };
            (first, second, third, micros.ok_or(ReadError::Format)?)
        }
        Some(_) => return Err(ReadError::Format),
    };
    if hours < 0 || !(0..60).contains(&minutes) || !(0..=60).contains(&seconds) {
        return Err(ReadError::Field);
    }
    let rest = minutes * MINUTE + seconds * SECOND + micros;
    hours.checked_mul(HOUR).and_then(|hours| hours.checked_add(rest)).ok_or(ReadError::Field)
}

/// A number, or years and months such as `1-2` (true) as months.
fn amount(token: &str) -> Result<(Amount, bool), ReadError> {
    let (whole, rest) = leading_long(token).ok_or(ReadError::Field)?;
    let negative = token.starts_with('-');
    match rest.as_bytes().first() {
        None => Ok((Amount { whole, fraction: 0.0 }, false)),
        Some(b'.') => {
            let fraction = fraction(rest).ok_or(ReadError::Format)?;
            Ok((Amount { whole, fraction: if negative { -fraction } else { fraction } }, false))
        }
        Some(b'-') => {
            let (months, rest) = leading_int(&rest[1..]).ok_or(ReadError::Field)?;
            if !(0..12).contains(&months) {
                return Err(ReadError::Field);
            }
            if !rest.is_empty() {
                return Err(ReadError::Format);
            }
            let months = if negative { -months } else { months };
            let whole = whole.checked_mul(12).and_then(|all| all.checked_add(months)).ok_or(ReadError::Field)?;
            Ok((Amount { whole, fraction: 0.0 }, true))
        }
        Some(_) => Err(ReadError::Format),
    }
}

/// Reads ISO 8601: `P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`, `P00010203T040506`.
fn iso(text: &str) -> Result<Sum, ReadError> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(ReadError::Format)?;
    let mut sum = Sum::default();
    let mut in_time = false;
    // Whether a field with a letter stands before; the alternative form has none.
    let mut has_field = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            (in_time, has_field, rest) = (true, false, after);
            continue;
        }
        let (number, after) = iso_number(rest)?;
        let width = rest.strip_prefix('-').unwrap_or(rest).bytes().take_while(u8::is_ascii_digit).count();
        let unit = match (after.as_bytes().first(), in_time) {
            (Some(b'Y'), false) => Unit::Year,
            (Some(b'M'), false) => Unit::Month,
            (Some(b'W'), false) => Unit::Week,
            (Some(b'D'), false) => Unit::Day,
            (Some(b'H'), true) => Unit::Hour,
            (Some(b'M'), true) => Unit::Minute,
            (Some(b'S'), true) => Unit::Second,
            (None | Some(b'T'), false) | (None, true) | (Some(b'-'), false) | (Some(b':'), true) if !has_field => {
                let separator = if in_time { ':' } else { '-' };
                let is_joined = !after.starts_with(separator) && width == if in_time { 6 } else { 8 };
                rest = match (is_joined, in_time) {
                    (true, in_time) => {
                        add_joined(&mut sum, number, in_time)?;
                        after
                    }
                    (false, true) => separated(&mut sum, rest, ':', [Unit::Hour, Unit::Minute, Unit::Second])?,
                    (false, false) => separated(&mut sum, rest, '-', [Unit::Year, Unit::Month, Unit::Day])?,
                };
                if !rest.is_empty() && (in_time || !rest.starts_with('T')) {
                    return Err(ReadError::Format);
                }
                continue;
            }
            _ => return Err(ReadError::Format),
        };
        sum.add(number, unit)?;
        (has_field, rest) = (true, &after[1..]);
    }
    Ok(sum)
}

/// Adds `YYYYMMDD` or `HHMMSS`.
fn add_joined(sum: &mut Sum, number: Amount, in_time: bool) -> Result<(), ReadError> {
    let whole = |whole| Amount { whole, fraction: 0.0 };
    let units = if in_time { [Unit::Hour, Unit::Minute, Unit::Second] } else { [Unit::Year, Unit::Month, Unit::Day] };
    for (unit, part) in units.iter().zip([number.whole / 10_000, number.whole / 100 % 100, number.whole % 100]) {
        sum.add(whole(part), *unit)?;
    }
    let rest = if in_time { Unit::Microsecond } else { Unit::Day };
    sum.add(Amount { whole: 0, ..number }, rest)
}

/// Adds up to three numbers with a separator between them; returns the rest.
fn separated<'t>(sum: &mut Sum, text: &'t str, separator: char, units: [Unit; 3]) -> Result<&'t str, ReadError> {
    let mut rest = text;
    for (at, unit) in units.into_iter().enumerate() {
        if at > 0 {
            match rest.strip_prefix(separator) {
                Some(after) => rest = after,
                None => return Ok(rest),
            }
        }
        let (number, after) = iso_number(rest)?;
        sum.add(number, unit)?;
        rest = after;
    }
    Ok(rest)
}

/// A number with an optional minus, fraction and exponent, and the rest.
fn iso_number(text: &str) -> Result<(Amount, &str), ReadError> {
    /// PostgreSQL reads a float, and refuses larger ones.
    const LIMIT: f64 = 1e15;
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mut end = usize::from(text.starts_with('-'));
    end += digits(end);
    if text[end..].starts_with('.') {
        end += 1 + digits(end + 1);
    }
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let (number, rest) = text.split_at(end);
    let value: f64 = number.parse().map_err(|_| ReadError::Format)?;
    if value.is_infinite() {
        return Err(ReadError::Format);
    }
    if value.abs() > LIMIT {
        return Err(ReadError::Field);
    }
    Ok((Amount { whole: value.trunc() as i64, fraction: value - value.trunc() }, rest))
}
