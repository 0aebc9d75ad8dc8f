//! Functions of `bytea`: parts, bits, search, hashes, and their text by `encode` and `decode`.

use bumpalo::collections::Vec;
use model::{Datum, Error, Result, SqlState};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::arguments::{bytes, int4, int8, invalid_parameter, length, overlaid_part, substring_part, text};
use super::digits;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("length(bytea)", |arguments, _, _| Ok(length(bytes(arguments, 0)?.len()))),
    ("octet_length(bytea)", |arguments, _, _| Ok(length(bytes(arguments, 0)?.len()))),
    ("bit_length(bytea)", |arguments, _, _| Ok(length(bytes(arguments, 0)?.len().saturating_mul(8)))),
    ("byteacat", |arguments, _, ctx| joined(&[bytes(arguments, 0)?, bytes(arguments, 1)?], ctx)),
    ("substr(bytea,int4)", |arguments, _, _| substring(arguments, None)),
    ("substr(bytea,int4,int4)", |arguments, _, _| substring(arguments, Some(int4(arguments, 2)?))),
    ("substring(bytea,int4)", |arguments, _, _| substring(arguments, None)),
    ("substring(bytea,int4,int4)", |arguments, _, _| substring(arguments, Some(int4(arguments, 2)?))),
    ("overlay(bytea,bytea,int4)", |arguments, _, ctx| {
        let replaced = i32::try_from(bytes(arguments, 1)?.len()).unwrap_or(i32::MAX);
        overlay(arguments, replaced, ctx)
    }),
    ("overlay(bytea,bytea,int4,int4)", |arguments, _, ctx| overlay(arguments, int4(arguments, 3)?, ctx)),
    ("position(bytea,bytea)", position),
    ("btrim(bytea,bytea)", |arguments, _, _| trimmed(arguments, true, true)),
    ("ltrim(bytea,bytea)", |arguments, _, _| trimmed(arguments, true, false)),
    ("rtrim(bytea,bytea)", |arguments, _, _| trimmed(arguments, false, true)),
    ("get_byte", get_byte),
    ("set_byte", set_byte),
    ("get_bit(bytea,int8)", get_bit),
    ("set_bit(bytea,int8,int4)", set_bit),
    ("bit_count(bytea)", |arguments, _, _| Ok(Datum::Int8(ones(bytes(arguments, 0)?)))),
    ("encode", encode),
    ("decode", decode),
    ("md5(text)", |arguments, _, ctx| md5(text(arguments, 0)?.as_bytes(), ctx)),
    ("md5(bytea)", |arguments, _, ctx| md5(bytes(arguments, 0)?, ctx)),
    ("sha224", |arguments, _, ctx| Ok(ctx.bytes(&Sha224::digest(bytes(arguments, 0)?)))),
    ("sha256", |arguments, _, ctx| Ok(ctx.bytes(&Sha256::digest(bytes(arguments, 0)?)))),
    ("sha384", |arguments, _, ctx| Ok(ctx.bytes(&Sha384::digest(bytes(arguments, 0)?)))),
    ("sha512", |arguments, _, ctx| Ok(ctx.bytes(&Sha512::digest(bytes(arguments, 0)?)))),
];

/// Byte strings one after the other.
fn joined<'a>(parts: &[&[u8]], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let total = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
    ctx.check_size(total)?;
    let mut out = Vec::with_capacity_in(total, ctx.arena);
    for part in parts {
        out.extend_from_slice(part);
    }
    Ok(Datum::Bytes(out.into_bump_slice()))
}

fn part(bytes: &[u8], skipped: usize, taken: Option<usize>) -> &[u8] {
    let rest = bytes.get(skipped..).unwrap_or_default();
    &rest[..taken.map_or(rest.len(), |taken| taken.min(rest.len()))]
}

fn substring<'a>(arguments: &[Datum<'a>], length: Option<i32>) -> Result<Datum<'a>> {
    let (skipped, taken) = substring_part(int4(arguments, 1)?, length)?;
    Ok(Datum::Bytes(part(bytes(arguments, 0)?, skipped, taken)))
}

fn overlay<'a>(arguments: &[Datum<'a>], replaced: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, with) = (bytes(arguments, 0)?, bytes(arguments, 1)?);
    let (before, end) = overlaid_part(int4(arguments, 2)?, replaced)?;
    joined(&[part(of, 0, Some(before)), with, part(of, end, None)], ctx)
}

/// The place of a byte string in another, from 1; 0 if it is not there.
fn position<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let found = memchr::memmem::find(bytes(arguments, 0)?, bytes(arguments, 1)?);
    Ok(length(found.map_or(0, |at| at + 1)))
}

/// The bytes without those of a set at their ends.
fn trimmed<'a>(arguments: &[Datum<'a>], at_start: bool, at_end: bool) -> Result<Datum<'a>> {
    let (mut rest, set) = (bytes(arguments, 0)?, bytes(arguments, 1)?);
    while let ([first, tail @ ..], true) = (rest, at_start) {
        if !set.contains(first) {
            break;
        }
        rest = tail;
    }
    while let ([head @ .., last], true) = (rest, at_end) {
        if !set.contains(last) {
            break;
        }
        rest = head;
    }
    Ok(Datum::Bytes(rest))
}

/// The index if it is one of `count` elements.
fn checked_index(index: i64, count: usize) -> Result<usize> {
    let found = usize::try_from(index).ok().filter(|index| *index < count);
    found.ok_or_else(|| {
        let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
        Error::new(SqlState("2202E"), format!("index {index} out of valid range, 0..{last}"))
    })
}

fn get_byte<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = bytes(arguments, 0)?;
    let at = checked_index(int4(arguments, 1)?.into(), of.len())?;
    Ok(Datum::Int4(of[at].into()))
}

fn set_byte<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = bytes(arguments, 0)?;
    let at = checked_index(int4(arguments, 1)?.into(), of.len())?;
    let changed = ctx.arena.alloc_slice_copy(of);
    changed[at] = int4(arguments, 2)?.to_le_bytes()[0];
    Ok(Datum::Bytes(changed))
}

/// The byte and the shift of a bit; bits are numbered from the lowest one of each byte.
fn bit_place(of: &[u8], bit: i64) -> Result<(usize, usize)> {
    let at = checked_index(bit, of.len().saturating_mul(8))?;
    Ok((at / 8, at % 8))
}

fn get_bit<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = bytes(arguments, 0)?;
    let (at, shift) = bit_place(of, int8(arguments, 1)?)?;
    Ok(Datum::Int4((of[at] >> shift & 1).into()))
}

fn set_bit<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = bytes(arguments, 0)?;
    let (at, shift) = bit_place(of, int8(arguments, 1)?)?;
    let bit = bit_value(int4(arguments, 2)?)?;
    let changed = ctx.arena.alloc_slice_copy(of);
    changed[at] = changed[at] & !(1 << shift) | bit << shift;
    Ok(Datum::Bytes(changed))
}

/// A bit as an argument.
pub(super) fn bit_value(bit: i32) -> Result<u8> {
    match bit {
        0 | 1 => Ok(bit as u8),
        _ => Err(invalid_parameter("new bit must be 0 or 1")),
    }
}

/// Number of bits that are set.
pub(super) fn ones(bytes: &[u8]) -> i64 {
    bytes.iter().map(|byte| i64::from(byte.count_ones())).sum()
}

fn encode<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, format) = (bytes(arguments, 0)?, text(arguments, 1)?);
    ctx.check_size(of.len().saturating_mul(2))?;
    let mut out = String::new();
    match format.to_ascii_lowercase().as_str() {
        "hex" => digits::push_hex(of, &mut out),
        "base64" => digits::push_base64(of, &mut out),
        "escape" => digits::push_encode_escapes(of, &mut out),
        _ => return Err(unrecognized_format(format)),
    }
    ctx.check_size(out.len())?;
    Ok(ctx.text(&out))
}

fn decode<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, format) = (text(arguments, 0)?, text(arguments, 1)?);
    let decoded = match format.to_ascii_lowercase().as_str() {
        "hex" => digits::hex_decoded(of, ctx),
        "base64" => digits::base64_decoded(of, ctx),
        "escape" => digits::escape_decoded(of, ctx),
        _ => Err(unrecognized_format(format)),
    };
    decoded.map(Datum::Bytes)
}

fn unrecognized_format(format: &str) -> Error {
    invalid_parameter(format!("unrecognized encoding: \"{format}\""))
}

fn md5<'a>(bytes: &[u8], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut out = String::new();
    digits::push_hex(&md5::Md5::digest(bytes), &mut out);
    Ok(ctx.text(&out))
}
