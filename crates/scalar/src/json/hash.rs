//! Hashes of `jsonb` with PostgreSQL's results: equal values have equal ones, although their texts may differ.

use model::{Datum, Error, Result};

use super::arguments::text;
use super::parse::Container;
use super::tree::{Event, Events, Json, numeric};
use crate::context::Context;
use crate::expr::Call;
use crate::numbers::hash::{hash_bytes, numeric_hash};

const ARRAY: u32 = 0x4000_0000;
const OBJECT: u32 = 0x2000_0000;

pub(super) fn hash<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let value = Json::parse(text(arguments, 0)?, ctx.arena)?;
    let mut hash = 0_u32;
    for_each_part(value, |part| {
        hash = match part {
            Part::Container(bits) => hash ^ bits,
            Part::Null => hash.rotate_left(1) ^ 1,
            Part::Bool(value) => hash.rotate_left(1) ^ if value { 2 } else { 4 },
            Part::Text(text) => hash.rotate_left(1) ^ hash_bytes(text.as_bytes(), 0) as u32,
            Part::Number(number) => {
                let (digits, weight) = numeric_hash(&numeric(number), 0)?;
                hash.rotate_left(1) ^ digits.map_or(weight as u32, |digits| digits as u32 ^ weight as u32)
            }
        };
        Ok(())
    })?;
    Ok(Datum::Int4(hash as i32))
}

pub(super) fn hash_extended<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let value = Json::parse(text(arguments, 0)?, ctx.arena)?;
    let Some(Datum::Int8(seed)) = arguments.get(1) else { return Err(Error::bug("a seed that is no bigint")) };
    let seed = *seed as u64;
    // Only the hash of an empty container begins with the seed.
    let mut hash = if is_empty(value) { seed } else { 0 };
    for_each_part(value, |part| {
        hash = match part {
            Part::Container(bits) => hash ^ (u64::from(bits) << 32 | u64::from(bits)),
            Part::Null => rotated(hash) ^ seed.wrapping_add(1),
            Part::Bool(value) if seed == 0 => rotated(hash) ^ if value { 2 } else { 4 },
            Part::Bool(value) => rotated(hash) ^ hash_bytes(&u32::from(value).to_le_bytes(), seed),
            Part::Text(text) => rotated(hash) ^ hash_bytes(text.as_bytes(), seed),
            Part::Number(number) => {
                let (digits, weight) = numeric_hash(&numeric(number), seed)?;
                rotated(hash) ^ digits.map_or(seed.wrapping_add(weight as u64), |digits| digits ^ weight as u64)
            }
        };
        Ok(())
    })?;
    Ok(Datum::Int8(hash as i64))
}

/// Both halves rotated by a bit, so that the lower one is that of the hash without seed.
fn rotated(hash: u64) -> u64 {
    let (high, low) = ((hash >> 32) as u32, hash as u32);
    u64::from(high.rotate_left(1)) << 32 | u64::from(low.rotate_left(1))
}

enum Part<'t> {
    Container(u32),
    Null,
    Bool(bool),
    Number(&'t str),
    /// A string or key.
    Text(&'t str),
}

fn is_empty(value: Json<'_>) -> bool {
    matches!(value, Json::Array([]) | Json::Object([]))
}

/// Calls `each` with the parts of a value that its hash depends on. A scalar counts as an array of one; an empty
/// array or object has none.
fn for_each_part<'t>(value: Json<'t>, mut each: impl FnMut(Part<'t>) -> Result<()>) -> Result<()> {
    if is_empty(value) {
        return Ok(());
    }
    if value.is_scalar() {
        each(Part::Container(ARRAY))?;
    }
    let mut events = Events::new(value);
    while let Some(event) = events.next() {
        match event {
            Event::Open(Container::Array) => each(Part::Container(ARRAY))?,
            Event::Open(Container::Object) => each(Part::Container(OBJECT))?,
            Event::Key(key) => each(Part::Text(key))?,
            Event::Scalar(Json::Bool(value)) => each(Part::Bool(value))?,
            Event::Scalar(Json::Number(number)) => each(Part::Number(number))?,
            Event::Scalar(Json::String(text)) => each(Part::Text(text))?,
            Event::Scalar(_) => each(Part::Null)?,
            Event::Close(_) => {}
        }
    }
    Ok(())
}
