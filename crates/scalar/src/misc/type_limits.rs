//! Lengths and precisions of types, by the functions of `information_schema` that its views use, and jOOQ.

use catalog::TypeId;
use model::{Datum, Error, Result};

use crate::context::Context;
use crate::expr::Call;

/// The type modifier of a type without parameters.
const NONE: i32 = -1;
/// Bytes of a character of UTF-8.
const CHARACTER_BYTES_MAX: i32 = 4;
/// Bytes of a text without a declared length.
const TEXT_BYTES_MAX: i32 = 1 << 30;

/// The type and the type modifier that the arguments are.
pub(super) fn of(arguments: &[Datum<'_>]) -> Result<(TypeId, i32)> {
    match arguments {
        [Datum::Oid(ty), Datum::Int4(typmod)] => Ok((TypeId(*ty), *typmod)),
        _ => Err(Error::bug("arguments that are no type and type modifier")),
    }
}

fn number<'a>(value: Option<i32>) -> Result<Datum<'a>> {
    Ok(value.map_or(Datum::Null, Datum::Int4))
}

fn length((ty, typmod): (TypeId, i32)) -> Option<i32> {
    match ty {
        _ if typmod == NONE => None,
        TypeId::BPCHAR | TypeId::VARCHAR => Some(typmod - 4),
        TypeId::BIT | TypeId::VARBIT => Some(typmod),
        _ => None,
    }
}

/// `_pg_char_max_length`: the characters or bits of a type with a declared length.
pub(super) fn char_max_length<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    number(length(of(arguments)?))
}

/// `_pg_char_octet_length`: the most bytes of a type of texts.
pub(super) fn char_octet_length<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (ty, typmod) = of(arguments)?;
    number(match ty {
        TypeId::TEXT | TypeId::BPCHAR | TypeId::VARCHAR if typmod == NONE => Some(TEXT_BYTES_MAX),
        TypeId::BPCHAR | TypeId::VARCHAR => {
            length((ty, typmod)).and_then(|length| length.checked_mul(CHARACTER_BYTES_MAX))
        }
        _ => None,
    })
}

/// `_pg_numeric_precision`: digits of a type of numbers, to the base that `_pg_numeric_precision_radix` tells.
pub(super) fn numeric_precision<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (ty, typmod) = of(arguments)?;
    number(match ty {
        TypeId::INT2 => Some(16),
        TypeId::INT4 => Some(32),
        TypeId::INT8 => Some(64),
        TypeId::FLOAT4 => Some(24),
        TypeId::FLOAT8 => Some(53),
        TypeId::NUMERIC if typmod != NONE => Some(((typmod - 4) >> 16) & 0xffff),
        _ => None,
    })
}

/// `_pg_numeric_precision_radix`: 2 or 10.
pub(super) fn numeric_precision_radix<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    number(match of(arguments)?.0 {
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT4 | TypeId::FLOAT8 => Some(2),
        TypeId::NUMERIC => Some(10),
        _ => None,
    })
}

/// `_pg_numeric_scale`: digits after the point of an exact number.
pub(super) fn numeric_scale<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (ty, typmod) = of(arguments)?;
    number(match ty {
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 => Some(0),
        TypeId::NUMERIC if typmod != NONE => Some((typmod - 4) & 0xffff),
        _ => None,
    })
}

/// `_pg_datetime_precision`: digits of a second of a type of times.
pub(super) fn datetime_precision<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (ty, typmod) = of(arguments)?;
    number(match ty {
        TypeId::DATE => Some(0),
        TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ if typmod < 0 => Some(6),
        TypeId::TIME | TypeId::TIMETZ | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => Some(typmod),
        TypeId::INTERVAL if typmod < 0 || typmod & 0xffff == 0xffff => Some(6),
        TypeId::INTERVAL => Some(typmod & 0xffff),
        _ => None,
    })
}
