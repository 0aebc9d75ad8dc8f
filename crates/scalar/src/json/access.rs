//! Parts of `json` and `jsonb` values: fields, elements, paths, keys. Results are slices of the value's text.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::TypeId;
use model::{Datum, Error, Record, Result, SqlState};

use super::arguments::{int, text, texts};
use super::lexer::Escapes;
use super::parse::parse;
use super::scan::{Kind, elements, kind, members};
use super::text::{is_text, unquoted};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Rows;

/// Checks that the strings of a `json` value can be converted to text. Those of `jsonb` were converted by its input.
fn check_escapes(json: &str) -> Result<()> {
    if json.contains("\\u") { parse(json, Escapes::Convert, &mut ()) } else { Ok(()) }
}

/// A value as text: a string without quotes, null as NULL.
fn as_text<'a>(value: &'a str, arena: &'a Bump) -> Datum<'a> {
    match kind(value) {
        Kind::Null => Datum::Null,
        Kind::String => Datum::Text(unquoted(value.trim(), arena)),
        _ => Datum::Text(value),
    }
}

fn found<'a, const AS_TEXT: bool>(value: Option<&'a str>, ctx: &Context<'a>) -> Datum<'a> {
    match value {
        None => Datum::Null,
        Some(value) if AS_TEXT => as_text(value, ctx.arena),
        Some(value) => Datum::Text(value),
    }
}

/// The value of a field. A `json` object may have several of a name, of which the last one counts.
fn field<'t, const JSONB: bool>(object: &'t str, name: &str) -> Option<&'t str> {
    let mut fields = members(object).filter(|(key, _)| is_text(key, name)).map(|(_, value)| value);
    if JSONB { fields.next() } else { fields.last() }
}

/// The element of an array by its number; negative ones count from the end.
fn element(array: &str, index: i32) -> Option<&str> {
    let index = match usize::try_from(index) {
        Ok(index) => index,
        Err(_) => elements(array).count().checked_sub(index.unsigned_abs() as usize)?,
    };
    elements(array).nth(index)
}

/// The value at a path; an element of the path that is NULL leads nowhere.
fn at_path<'t, const JSONB: bool>(value: &'t str, path: &[Option<&str>]) -> Option<&'t str> {
    let mut value = value;
    for step in path {
        value = match kind(value) {
            Kind::Object => field::<JSONB>(value, (*step)?)?,
            Kind::Array => element(value, path_index((*step)?)?)?,
            _ => return None,
        };
    }
    Some(value)
}

/// A path's element as the number of an array's element: an integer, possibly after blanks.
pub(super) fn path_index(step: &str) -> Option<i32> {
    step.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).parse().ok()
}

pub(super) fn object_field<'a, const JSONB: bool, const AS_TEXT: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let object = text(arguments, 0)?;
    if !JSONB {
        check_escapes(object)?;
    }
    Ok(found::<AS_TEXT>(field::<JSONB>(object, text(arguments, 1)?), ctx))
}

pub(super) fn array_element<'a, const JSONB: bool, const AS_TEXT: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let array = text(arguments, 0)?;
    if !JSONB {
        check_escapes(array)?;
    }
    let index = int(arguments, 1)?;
    // PostgreSQL stores a scalar as an array of one, which only this operator shows.
    if JSONB && !matches!(kind(array), Kind::Object | Kind::Array) && matches!(index, 0 | -1) {
        return Ok(found::<AS_TEXT>(Some(array), ctx));
    }
    Ok(found::<AS_TEXT>(element(array, index), ctx))
}

pub(super) fn extract_path<'a, const JSONB: bool, const AS_TEXT: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let value = text(arguments, 0)?;
    if !JSONB {
        check_escapes(value)?;
    }
    let path = texts(&arguments[1..])?;
    let value = at_path::<JSONB>(value, &path);
    Ok(found::<AS_TEXT>(value, ctx))
}

pub(super) fn type_of<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Text(match kind(text(arguments, 0)?) {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Bool => "boolean",
        Kind::Null => "null",
    }))
}

pub(super) fn array_length<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let array = text(arguments, 0)?;
    match kind(array) {
        Kind::Array => Ok(Datum::Int4(i32::try_from(elements(array).count()).unwrap_or(i32::MAX))),
        Kind::Object => Err(refused("cannot get array length of a non-array")),
        _ => Err(refused("cannot get array length of a scalar")),
    }
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn object_keys<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Rows<'a>> {
    let object = text(arguments, 0)?;
    let name = if JSONB { "jsonb_object_keys" } else { "json_object_keys" };
    match kind(object) {
        Kind::Object => {}
        Kind::Array => return Err(refused(format!("cannot call {name} on an array"))),
        _ => return Err(refused(format!("cannot call {name} on a scalar"))),
    }
    if !JSONB {
        check_escapes(object)?;
    }
    let arena = ctx.arena;
    Ok(Box::new(members(object).map(move |(key, _)| Ok(Datum::Text(unquoted(key, arena))))))
}

pub(super) fn each<'a, const JSONB: bool, const AS_TEXT: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Rows<'a>> {
    let object = text(arguments, 0)?;
    match (kind(object), JSONB) {
        (Kind::Object, _) => {}
        (_, true) if AS_TEXT => return Err(refused("cannot call jsonb_each_text on a non-object")),
        (_, true) => return Err(refused("cannot call jsonb_each on a non-object")),
        (Kind::Array, false) => return Err(refused("cannot deconstruct an array as an object")),
        (_, false) => return Err(refused("cannot deconstruct a scalar")),
    }
    if !JSONB {
        check_escapes(object)?;
    }
    let value_type = match (AS_TEXT, JSONB) {
        (true, _) => TypeId::TEXT,
        (false, true) => TypeId::JSONB,
        (false, false) => TypeId::JSON,
    };
    let ctx = *ctx;
    Ok(Box::new(members(object).map(move |(key, value)| {
        let key = Datum::Text(unquoted(key, ctx.arena));
        let value = found::<AS_TEXT>(Some(value), &ctx);
        Ok(Datum::Record(Arc::new(Record {
            types: [TypeId::TEXT.0, value_type.0].into(),
            names: None,
            values: [key, value].into(),
        })))
    })))
}

pub(super) fn array_elements<'a, const JSONB: bool, const AS_TEXT: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Rows<'a>> {
    let array = text(arguments, 0)?;
    let name = if AS_TEXT { "json_array_elements_text" } else { "json_array_elements" };
    match (kind(array), JSONB) {
        (Kind::Array, _) => {}
        (Kind::Object, true) => return Err(refused("cannot extract elements from an object")),
        (_, true) => return Err(refused("cannot extract elements from a scalar")),
        (Kind::Object, false) => return Err(refused(format!("cannot call {name} on a non-array"))),
        (_, false) => return Err(refused(format!("cannot call {name} on a scalar"))),
    }
    if AS_TEXT && !JSONB {
        check_escapes(array)?;
    }
    let ctx = *ctx;
    Ok(Box::new(elements(array).map(move |value| Ok(found::<AS_TEXT>(Some(value), &ctx)))))
}

/// The value at subscripts, each of them a text or an integer, as `value[key][…]` gives it; NULL if there is none.
///
/// # Errors
/// 42804 for a subscript of another type.
pub fn subscript<'a>(value: &Datum<'a>, keys: &[Datum<'_>]) -> Result<Datum<'a>> {
    let Datum::Text(value) = value else { return Ok(Datum::Null) };
    let mut value = *value;
    for key in keys {
        let next = match key {
            Datum::Null => None,
            Datum::Int4(index) if kind(value) == Kind::Object => field::<true>(value, &index.to_string()),
            Datum::Int4(index) => element(value, *index),
            Datum::Text(key) => at_path::<true>(value, &[Some(key)]),
            _ => {
                let error = Error::new(
                    SqlState::DATATYPE_MISMATCH,
                    "jsonb subscript must be coercible to either integer or text",
                );
                return Err(error);
            }
        };
        let Some(next) = next else { return Ok(Datum::Null) };
        value = next;
    }
    Ok(Datum::Text(value))
}

/// Whether a key of an object, or a string among the elements of an array.
pub(super) fn has_key(value: &str, key: &str) -> bool {
    match kind(value) {
        Kind::Object => members(value).any(|(name, _)| is_text(name, key)),
        Kind::Array => elements(value).any(|element| kind(element) == Kind::String && is_text(element, key)),
        Kind::String => is_text(value, key),
        _ => false,
    }
}

pub(super) fn exists<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Bool(has_key(text(arguments, 0)?, text(arguments, 1)?)))
}

pub(super) fn exists_any<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let value = text(arguments, 0)?;
    let keys = texts(&arguments[1..])?;
    Ok(Datum::Bool(keys.iter().flatten().any(|key| has_key(value, key))))
}

pub(super) fn exists_all<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let value = text(arguments, 0)?;
    let keys = texts(&arguments[1..])?;
    Ok(Datum::Bool(keys.iter().flatten().all(|key| has_key(value, key))))
}
