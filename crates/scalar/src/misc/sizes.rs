//! `pg_size_pretty` and `pg_size_bytes`.

use model::{Datum, Error, Numeric, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;

/// A unit: its name, and the power of two that it is.
const UNITS: [(&str, u32); 6] = [("bytes", 0), ("kB", 10), ("MB", 20), ("GB", 30), ("TB", 40), ("PB", 50)];
/// Sizes below are shown in bytes.
const BYTES_MAX: i64 = 10 * 1024;
/// Sizes in halves of a unit below are shown in that unit.
const HALVES_MAX: i64 = 20 * 1024 - 1;

/// `pg_size_pretty(int8)`: in a unit of which there are fewer than 10240, rounded.
pub(super) fn pg_size_pretty<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Int8(size)] = arguments else { return Err(Error::bug("pg_size_pretty")) };
    if size.unsigned_abs() < BYTES_MAX as u64 {
        return Ok(ctx.text(&format!("{size} bytes")));
    }
    // Halves of the unit: the last bit rounds.
    let mut halves = size / (1 << 9);
    for (unit, power) in &UNITS[1..] {
        if halves.unsigned_abs() < HALVES_MAX as u64 || *power == 50 {
            return Ok(ctx.text(&format!("{} {unit}", (halves + halves.signum()) / 2)));
        }
        halves /= 1 << 10;
    }
    Err(Error::bug("a size without unit"))
}

/// `pg_size_pretty(numeric)`
pub(super) fn pg_size_pretty_numeric<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Numeric(size)] = arguments else { return Err(Error::bug("pg_size_pretty")) };
    if size.abs() < integer(BYTES_MAX) {
        return Ok(ctx.text(&format!("{} bytes", text(size))));
    }
    let mut halves = quotient(size, 1 << 9)?;
    for (unit, power) in &UNITS[1..] {
        if halves.abs() < integer(HALVES_MAX) || *power == 50 {
            let one = integer(if halves.signum() < 0 { -1 } else { 1 });
            let rounded = quotient(&halves.add(&one)?, 2)?;
            return Ok(ctx.text(&format!("{} {unit}", text(&rounded))));
        }
        halves = quotient(&halves, 1 << 10)?;
    }
    Err(Error::bug("a size without unit"))
}

fn integer(value: i64) -> Numeric {
    Numeric::new(value.into(), 0)
}

fn text(value: &Numeric) -> String {
    let mut bytes = Vec::new();
    value.write_text(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The integer part of a quotient, exactly: division alone would round.
fn quotient(value: &Numeric, divisor: i64) -> Result<Numeric> {
    if !value.is_finite() {
        return Ok(value.clone());
    }
    let (value, divisor) = (value.trunc(0)?, integer(divisor));
    value.sub(&value.rem(&divisor)?)?.div(&divisor)?.trunc(0)
}

/// `pg_size_bytes`: a number and perhaps a unit.
pub(super) fn pg_size_bytes<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Text(size)] = arguments else { return Err(Error::bug("pg_size_bytes")) };
    let is_space = |one: char| one.is_ascii_whitespace() || one == '\x0b';
    let invalid = || Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid size: \"{size}\""));
    let trimmed = size.trim_matches(is_space);
    let length = number_length(trimmed).ok_or_else(invalid)?;
    let (number, unit) = trimmed.split_at(length);
    let unit = unit.trim_start_matches(is_space);
    let known = UNITS.iter().find(|(name, _)| unit.is_empty() || name.eq_ignore_ascii_case(unit));
    let Some((_, power)) = known else {
        let hint = "Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
        return Err(invalid().with_detail(format!("Invalid size unit: \"{unit}\".")).with_hint(hint));
    };
    let number: Numeric = number.parse()?;
    number.mul(&integer(1 << power))?.to_i64().map(Datum::Int8)
}

/// Length of the number at the start of a text; `None` if there is none.
fn number_length(text: &str) -> Option<usize> {
    let digits = |from: &str| from.bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    let whole = digits(&text[sign..]);
    let mut end = sign + whole;
    let mut fraction = 0;
    if let Some(rest) = text[end..].strip_prefix('.') {
        fraction = digits(rest);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if let Some(rest) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(rest.starts_with(['+', '-']));
        let exponent = digits(&rest[sign..]);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    Some(end)
}
