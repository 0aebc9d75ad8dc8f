//! Input and output of the types, comparison, and casts of `jsonb` to booleans and numbers.

use std::cmp::Ordering;

use bumpalo::Bump;
use catalog::TypeId;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::arguments::text;
use super::lexer::Escapes;
use super::parse::parse;
use super::scan::{Kind, kind};
use super::tree::{Json, numeric};
use crate::context::Context;
use crate::expr::Call;

pub(super) fn json_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    parse(text, Escapes::Keep, &mut ())?;
    Ok(ctx.text(text))
}

pub(super) fn jsonb_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut canonical = String::with_capacity(text.len());
    Json::parse(text, ctx.arena)?.write(&mut canonical);
    ctx.check_size(canonical.len())?;
    Ok(ctx.text(&canonical))
}

pub(super) fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, out: &mut String) -> Result<()> {
    if let Datum::Text(text) = datum {
        out.push_str(text);
    }
    Ok(())
}

/// The binary form: the text behind its version, if it has one.
pub(super) fn send<'a, const VERSION: u8>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let text = text(arguments, 0)?.as_bytes();
    let version: &[u8] = if VERSION == 0 { &[] } else { &[VERSION] };
    Ok(ctx.bytes(&[version, text].concat()))
}

/// The order of `jsonb`.
pub(super) fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    let (Datum::Text(left), Datum::Text(right)) = (left, right) else {
        return Err(Error::bug("a jsonb value that is no text"));
    };
    compare_texts(left, right, &Bump::new())
}

fn compare_texts(left: &str, right: &str, arena: &Bump) -> Result<Ordering> {
    if left == right {
        return Ok(Ordering::Equal);
    }
    Ok(Json::parse(left, arena)?.compare(Json::parse(right, arena)?))
}

fn order(arguments: &[Datum<'_>], ctx: &Context<'_>) -> Result<Ordering> {
    compare_texts(text(arguments, 0)?, text(arguments, 1)?, ctx.arena)
}

macro_rules! comparisons {
    ($($name:ident: $test:ident;)*) => {
        $(pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
            Ok(Datum::Bool(order(arguments, ctx)?.$test()))
        })*
    };
}

comparisons! {
    equal: is_eq;
    not_equal: is_ne;
    less: is_lt;
    less_equal: is_le;
    greater: is_gt;
    greater_equal: is_ge;
}

pub(super) fn cmp<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(order(arguments, ctx)? as i32))
}

fn not_castable(value: &str, target: &str) -> Error {
    let found = match kind(value) {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "numeric",
        Kind::Bool => "boolean",
        Kind::Null => "null",
    };
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("cannot cast jsonb {found} to type {target}"))
}

pub(super) fn to_bool<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    match text(arguments, 0)? {
        "true" => Ok(Datum::Bool(true)),
        "false" => Ok(Datum::Bool(false)),
        other => Err(not_castable(other, "boolean")),
    }
}

fn number(arguments: &[Datum<'_>], target: &str) -> Result<Numeric> {
    let value = text(arguments, 0)?;
    if kind(value) == Kind::Number { Ok(numeric(value)) } else { Err(not_castable(value, target)) }
}

macro_rules! numbers {
    ($($name:ident: $target:literal, $variant:ident, $convert:expr;)*) => {
        $(pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let convert: fn(Numeric) -> Result<_> = $convert;
            Ok(Datum::$variant(convert(number(arguments, $target)?)?))
        })*
    };
}

numbers! {
    to_int2: "smallint", Int2, |value| value.to_i16();
    to_int4: "integer", Int4, |value| value.to_i32();
    to_int8: "bigint", Int8, |value| value.to_i64();
    to_float4: "real", Float4, |value| value.to_f32();
    to_float8: "double precision", Float8, |value| value.to_f64();
    to_numeric: "numeric", Numeric, Ok;
}
