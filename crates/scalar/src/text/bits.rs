//! Functions of bit strings.

use model::{Bits, Datum, Error, Result, SqlState};

use super::arguments::{bits, bool, int4, int8, length, overlaid_part, substring_part};
use super::bytes::{bit_value, ones};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("length(bit)", |arguments, _, _| Ok(length(bits(arguments, 0)?.length as usize))),
    ("bit_length(bit)", |arguments, _, _| Ok(length(bits(arguments, 0)?.length as usize))),
    ("octet_length(bit)", |arguments, _, _| Ok(length(bits(arguments, 0)?.bytes.len()))),
    ("bit_count(bit)", |arguments, _, _| Ok(Datum::Int8(ones(bits(arguments, 0)?.bytes)))),
    ("bitand", |arguments, _, ctx| combined(arguments, "AND", |left, right| left & right, ctx)),
    ("bitor", |arguments, _, ctx| combined(arguments, "OR", |left, right| left | right, ctx)),
    ("bitxor", |arguments, _, ctx| combined(arguments, "XOR", |left, right| left ^ right, ctx)),
    ("bitnot", negated),
    ("bitcat", |arguments, _, ctx| joined(&[whole(bits(arguments, 0)?), whole(bits(arguments, 1)?)], ctx)),
    ("bitshiftleft", |arguments, _, ctx| shifted(arguments, i64::from(int4(arguments, 1)?), ctx)),
    ("bitshiftright", |arguments, _, ctx| shifted(arguments, -i64::from(int4(arguments, 1)?), ctx)),
    ("substring(bit,int4)", |arguments, _, ctx| substring(arguments, None, ctx)),
    ("substring(bit,int4,int4)", |arguments, _, ctx| substring(arguments, Some(int4(arguments, 2)?), ctx)),
    ("overlay(bit,bit,int4)", |arguments, _, ctx| {
        let replaced = i32::try_from(bits(arguments, 1)?.length).unwrap_or(i32::MAX);
        overlay(arguments, replaced, ctx)
    }),
    ("overlay(bit,bit,int4,int4)", |arguments, _, ctx| overlay(arguments, int4(arguments, 3)?, ctx)),
    ("position(bit,bit)", position),
    ("get_bit(bit,int4)", get_bit),
    ("set_bit(bit,int4,int4)", set_bit),
    ("bit(bit,int4,bool)", limited),
    ("varbit(varbit,int4,bool)", limited_varying),
    ("bit(int4,int4)", |arguments, _, ctx| of_number(int4(arguments, 0)?.into(), 32, int4(arguments, 1)?, ctx)),
    ("bit(int8,int4)", |arguments, _, ctx| of_number(int8(arguments, 0)?, 64, int4(arguments, 1)?, ctx)),
    ("int4(bit)", |arguments, _, _| {
        let number = number(bits(arguments, 0)?, 32, "integer out of range")?;
        Ok(Datum::Int4((number as u32).cast_signed()))
    }),
    ("int8(bit)", |arguments, _, _| {
        number(bits(arguments, 0)?, 64, "bigint out of range").map(|number| Datum::Int8(number.cast_signed()))
    }),
];

/// Maximum number of bits: their number is rounded up to whole bytes as an integer.
const BITS_MAX: usize = i32::MAX as usize - 7;

/// Bits of a string: the string, the first one and their number.
type Part<'a> = (&'a [u8], usize, usize);

/// Whether a bit is set.
pub(super) fn is_set(bytes: &[u8], at: usize) -> bool {
    bytes.get(at / 8).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1)
}

/// Bytes for a number of bits, all of them 0.
pub(super) fn zeros<'a>(count: usize, ctx: &Context<'a>) -> Result<&'a mut [u8]> {
    ctx.check_size(count.div_ceil(8))?;
    if count > BITS_MAX {
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "bit string length exceeds the maximum allowed"));
    }
    Ok(ctx.arena.alloc_slice_fill_copy(count.div_ceil(8), 0))
}

fn whole(bits: Bits<'_>) -> Part<'_> {
    (bits.bytes, 0, bits.length as usize)
}

/// The part of a string behind the skipped bits, with at most the taken ones.
fn part(bits: Bits<'_>, skipped: usize, taken: Option<usize>) -> Part<'_> {
    let skipped = skipped.min(bits.length as usize);
    let rest = bits.length as usize - skipped;
    (bits.bytes, skipped, taken.map_or(rest, |taken| taken.min(rest)))
}

/// The parts one after the other.
fn joined<'a>(parts: &[Part<'_>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    padded(parts, parts.iter().map(|(_, _, count)| count).fold(0, |sum: usize, count| sum.saturating_add(*count)), ctx)
}

/// The parts one after the other, followed by zeros up to a length.
fn padded<'a>(parts: &[Part<'_>], length: usize, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let bytes = zeros(length, ctx)?;
    let mut at = 0;
    for (from, first, count) in parts {
        if at % 8 == 0 && first % 8 == 0 {
            let full = count / 8;
            bytes[at / 8..at / 8 + full].copy_from_slice(&from[first / 8..first / 8 + full]);
            copy_bits(bytes, at + full * 8, from, first + full * 8, count % 8);
        } else {
            copy_bits(bytes, at, from, *first, *count);
        }
        at += count;
    }
    Ok(Datum::Bits(Bits { length: length as u32, bytes }))
}

fn copy_bits(to: &mut [u8], at: usize, from: &[u8], first: usize, count: usize) {
    for bit in 0..count {
        if is_set(from, first + bit) {
            to[(at + bit) / 8] |= 0x80 >> ((at + bit) % 8);
        }
    }
}

fn combined<'a>(
    arguments: &[Datum<'a>],
    verb: &str,
    combine: fn(u8, u8) -> u8,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let (left, right) = (bits(arguments, 0)?, bits(arguments, 1)?);
    if left.length != right.length {
        return Err(Error::new(SqlState("22026"), format!("cannot {verb} bit strings of different sizes")));
    }
    let mut pairs = left.bytes.iter().zip(right.bytes).map(|(left, right)| combine(*left, *right));
    let bytes = ctx.arena.alloc_slice_fill_with(left.bytes.len(), |_| pairs.next().unwrap_or(0));
    Ok(Datum::Bits(Bits { length: left.length, bytes }))
}

fn negated<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = bits(arguments, 0)?;
    let bytes = ctx.arena.alloc_slice_copy(of.bytes);
    bytes.iter_mut().for_each(|byte| *byte = !*byte);
    clear_unused(bytes, of.length as usize);
    Ok(Datum::Bits(Bits { length: of.length, bytes }))
}

fn clear_unused(bytes: &mut [u8], length: usize) {
    if let (Some(last), 1..) = (bytes.last_mut(), length % 8) {
        *last &= !(0xff >> (length % 8));
    }
}

/// The bits moved to the left by a number of places, or to the right if it is negative; the length is kept.
fn shifted<'a>(arguments: &[Datum<'a>], places: i64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = bits(arguments, 0)?;
    let length = of.length as usize;
    let distance = usize::try_from(places.unsigned_abs()).unwrap_or(usize::MAX).min(length);
    let zeros = zeros(distance, ctx)?;
    let kept = length - distance;
    match places {
        0.. => padded(&[(of.bytes, distance, kept)], length, ctx),
        _ => padded(&[(zeros, 0, distance), (of.bytes, 0, kept)], length, ctx),
    }
}

fn substring<'a>(arguments: &[Datum<'a>], length: Option<i32>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (skipped, taken) = substring_part(int4(arguments, 1)?, length)?;
    joined(&[part(bits(arguments, 0)?, skipped, taken)], ctx)
}

fn overlay<'a>(arguments: &[Datum<'a>], replaced: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, with) = (bits(arguments, 0)?, bits(arguments, 1)?);
    let (before, end) = overlaid_part(int4(arguments, 2)?, replaced)?;
    joined(&[part(of, 0, Some(before)), whole(with), part(of, end, None)], ctx)
}

/// The place of a bit string in another, from 1; 0 if it is not there.
fn position<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (of, wanted) = (bits(arguments, 0)?, bits(arguments, 1)?);
    let (count, wanted_count) = (of.length as usize, wanted.length as usize);
    if count == 0 || wanted_count > count {
        return Ok(Datum::Int4(0));
    }
    let is_at = |at: &usize| (0..wanted_count).all(|bit| is_set(of.bytes, at + bit) == is_set(wanted.bytes, bit));
    Ok(length((0..=count - wanted_count).find(is_at).map_or(0, |at| at + 1)))
}

/// The index of a bit of the string.
fn checked_bit(of: Bits<'_>, bit: i32) -> Result<usize> {
    let found = usize::try_from(bit).ok().filter(|bit| *bit < of.length as usize);
    found.ok_or_else(|| {
        let last = i64::from(of.length) - 1;
        Error::new(SqlState("2202E"), format!("bit index {bit} out of valid range (0..{last})"))
    })
}

fn get_bit<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = bits(arguments, 0)?;
    let at = checked_bit(of, int4(arguments, 1)?)?;
    Ok(Datum::Int4(is_set(of.bytes, at).into()))
}

fn set_bit<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = bits(arguments, 0)?;
    let at = checked_bit(of, int4(arguments, 1)?)?;
    let bit = bit_value(int4(arguments, 2)?)?;
    let bytes = ctx.arena.alloc_slice_copy(of.bytes);
    bytes[at / 8] = bytes[at / 8] & !(0x80 >> (at % 8)) | bit << (7 - at % 8);
    Ok(Datum::Bits(Bits { length: of.length, bytes }))
}

/// The bits as `bit(n)`: an explicit cast cuts them or adds zeros.
fn limited<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, modifier, is_explicit) = (bits(arguments, 0)?, int4(arguments, 1)?, bool(arguments, 2)?);
    let Some(wanted) = usize::try_from(modifier)
        .ok()
        .filter(|wanted| (1..=BITS_MAX).contains(wanted) && *wanted != of.length as usize)
    else {
        return Ok(Datum::Bits(of));
    };
    if !is_explicit {
        let text = format!("bit string length {} does not match type bit({wanted})", of.length);
        return Err(Error::new(SqlState("22026"), text));
    }
    padded(&[part(of, 0, Some(wanted))], wanted, ctx)
}

/// The bits as `varbit(n)`: an explicit cast cuts them.
fn limited_varying<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, modifier, is_explicit) = (bits(arguments, 0)?, int4(arguments, 1)?, bool(arguments, 2)?);
    let Some(limit) = usize::try_from(modifier).ok().filter(|limit| *limit > 0 && *limit < of.length as usize) else {
        return Ok(Datum::Bits(of));
    };
    if !is_explicit {
        let text = format!("bit string too long for type bit varying({limit})");
        return Err(Error::new(SqlState::STRING_TOO_LONG, text));
    }
    joined(&[part(of, 0, Some(limit))], ctx)
}

/// The lowest bits of a number of `width` bits, with its sign before them if more are wanted.
fn of_number<'a>(number: i64, width: usize, modifier: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let wanted = usize::try_from(modifier).ok().filter(|wanted| (1..=BITS_MAX).contains(wanted)).unwrap_or(1);
    let bytes = zeros(wanted, ctx)?;
    for at in 0..wanted {
        // The sign fills the places above the number.
        let place = (wanted - 1 - at).min(width - 1);
        if number >> place & 1 == 1 {
            bytes[at / 8] |= 0x80 >> (at % 8);
        }
    }
    Ok(Datum::Bits(Bits { length: wanted as u32, bytes }))
}

/// The bits as a number of `width` bits.
fn number(of: Bits<'_>, width: u32, too_long: &str) -> Result<u64> {
    if of.length > width {
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, too_long));
    }
    let value = of.bytes.iter().fold(0, |value: u64, byte| value << 8 | u64::from(*byte));
    Ok(value >> (of.bytes.len() as u32 * 8 - of.length))
}
