//! Arguments of functions as Rust values, and the errors that many functions of texts share.

use model::{Bits, Datum, Error, Result, SqlState};

/// The text at a place. The binder has checked the types, so another kind of value is a bug.
pub(super) fn text<'a>(arguments: &[Datum<'a>], at: usize) -> Result<&'a str> {
    match arguments.get(at) {
        Some(Datum::Text(text)) => Ok(text),
        other => Err(unexpected(other, "a text")),
    }
}

/// The text at a place, or `None` for NULL.
pub(super) fn text_or_null<'a>(arguments: &[Datum<'a>], at: usize) -> Result<Option<&'a str>> {
    match arguments.get(at) {
        Some(Datum::Null) => Ok(None),
        _ => text(arguments, at).map(Some),
    }
}

pub(super) fn bytes<'a>(arguments: &[Datum<'a>], at: usize) -> Result<&'a [u8]> {
    match arguments.get(at) {
        Some(Datum::Bytes(bytes)) => Ok(bytes),
        other => Err(unexpected(other, "bytes")),
    }
}

pub(super) fn bits<'a>(arguments: &[Datum<'a>], at: usize) -> Result<Bits<'a>> {
    match arguments.get(at) {
        Some(Datum::Bits(bits)) => Ok(*bits),
        other => Err(unexpected(other, "a bit string")),
    }
}

pub(super) fn uuid(arguments: &[Datum<'_>], at: usize) -> Result<[u8; 16]> {
    match arguments.get(at) {
        Some(Datum::Uuid(uuid)) => Ok(*uuid),
        other => Err(unexpected(other, "a uuid")),
    }
}

pub(super) fn int4(arguments: &[Datum<'_>], at: usize) -> Result<i32> {
    match arguments.get(at) {
        Some(Datum::Int4(value)) => Ok(*value),
        other => Err(unexpected(other, "an integer")),
    }
}

pub(super) fn int8(arguments: &[Datum<'_>], at: usize) -> Result<i64> {
    match arguments.get(at) {
        Some(Datum::Int8(value)) => Ok(*value),
        other => Err(unexpected(other, "a bigint")),
    }
}

pub(super) fn bool(arguments: &[Datum<'_>], at: usize) -> Result<bool> {
    match arguments.get(at) {
        Some(Datum::Bool(value)) => Ok(*value),
        other => Err(unexpected(other, "a boolean")),
    }
}

fn unexpected(argument: Option<&Datum<'_>>, wanted: &str) -> Error {
    let found = argument.map_or("nothing", Datum::type_name);
    Error::bug(format_args!("{wanted} was expected as an argument, found {found}"))
}

/// 22023
pub(super) fn invalid_parameter(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// 54000 for a text that would be longer than a value can be.
pub(super) fn too_long() -> Error {
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// A length as PostgreSQL's integer.
pub(super) fn length(count: usize) -> Datum<'static> {
    Datum::Int4(i32::try_from(count).unwrap_or(i32::MAX))
}

/// The part that `substring(value, start, length)` takes of a value: units to skip and to take, where `None` is all.
///
/// # Errors
/// 22011 for a negative length.
pub(super) fn substring_part(start: i32, length: Option<i32>) -> Result<(usize, Option<usize>)> {
    let skipped = usize::try_from(start.saturating_sub(1)).unwrap_or(0);
    let Some(length) = length else { return Ok((skipped, None)) };
    if length < 0 {
        return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let end = i64::from(start) + i64::from(length) - 1;
    let taken = usize::try_from(end).map_or(0, |end| end.saturating_sub(skipped));
    Ok((skipped, Some(taken)))
}

/// The part of a value that `overlay(value, with, start, length)` replaces: units before it and its end.
///
/// # Errors
/// 22011 for a start before the value, 22003 for an end beyond the integers.
pub(super) fn overlaid_part(start: i32, length: i32) -> Result<(usize, usize)> {
    let before = usize::try_from(start.saturating_sub(1)).ok().filter(|_| start > 0);
    let before =
        before.ok_or_else(|| Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"))?;
    let end = start.checked_add(length);
    let end = end.ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "integer out of range"))?;
    Ok((before, usize::try_from(end.saturating_sub(1)).unwrap_or(0)))
}
