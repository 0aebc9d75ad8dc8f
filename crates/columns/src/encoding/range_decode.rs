//! Decodes a range of an integer stream without the rest, for example one day of a block that spans
//! months.
//!
//! Packed values are at known bit positions, so only those of the range are unpacked. Encodings
//! made of nested streams decode the same range of each; sums start at the first value. Huffman
//! symbols have no known positions, so all of them are decoded (most of the remaining cost), but
//! only the range is converted to values. Checks are those of `ints`, except for skipped values,
//! which the chunk's checksum covers.

use std::ops::Range;

use model::Result;

use super::bits::{GROUP, packed_bytes, unpack_groups};
use super::byte_io::{Reader, corrupt};
use super::huffman;
use super::ints::{self, CODED, CYCLE, DELTA, DEPTH_MAX, DICTIONARY, ESCAPE, GROUPED, RUNS, SCALED, SPLIT};

/// Values `part` of a stream of `count` integers. The reader is then at the end of the stream.
pub(crate) fn decode(reader: &mut Reader<'_>, count: usize, part: Range<usize>) -> Result<Vec<i64>> {
    decode_at(reader, count, part, DEPTH_MAX)
}

fn decode_at(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(corrupt("integer streams are nested too deeply"));
    };
    match reader.u8("integer encoding")? {
        width @ 0..=64 => decode_packed(reader, u32::from(width), count, part),
        SCALED => decode_scaled(reader, count, part, deeper),
        DELTA => decode_delta(reader, count, part, deeper),
        RUNS => decode_runs(reader, count, &part),
        DICTIONARY => decode_dictionary(reader, count, part, deeper),
        CODED => decode_coded(reader, count, &part),
        GROUPED => decode_grouped(reader, count, part),
        CYCLE => decode_cycle(reader, count, part, deeper),
        SPLIT => decode_split(reader, count, part, deeper),
        other => Err(corrupt(format!("integer encoding is {other}, at most {SPLIT} is known"))),
    }
}

fn decode_packed(reader: &mut Reader<'_>, width: u32, count: usize, part: Range<usize>) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    if width == 0 {
        return Ok(vec![base; part.len()]);
    }
    let bits = unpack_part(reader, width, count, part)?;
    Ok(bits.into_iter().map(|bits| base.wrapping_add(bits.cast_signed())).collect())
}

fn unpack_part(reader: &mut Reader<'_>, width: u32, count: usize, part: Range<usize>) -> Result<Vec<u64>> {
    let bytes = reader.take(packed_bytes(count, width), "packed values")?;
    // A group is a whole number of bytes for every width.
    let first = part.start / GROUP;
    let skipped = part.start % GROUP;
    let mut rest = Reader::new(&bytes[first * GROUP / 8 * width as usize..]);
    let mut values = Vec::with_capacity(part.len() + skipped);
    unpack_groups(&mut rest, width, skipped + part.len(), |_, group| values.extend_from_slice(group))?;
    values.drain(..skipped);
    Ok(values)
}

fn decode_scaled(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    let mut values = decode_at(reader, count, part, depth)?;
    values.iter_mut().for_each(|value| *value = base.wrapping_add(value.wrapping_mul(scale)));
    Ok(values)
}

fn decode_delta(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let Some(count) = count.checked_sub(1) else {
        return Err(corrupt("delta stream of no values"));
    };
    let first = reader.signed("first value")?;
    if reader.rest().first() == Some(&0) {
        // All differences are equal.
        reader.u8("integer encoding")?;
        let step = reader.signed("base")?;
        let mut values = vec![0; part.len()];
        ints::fill_line(&mut values, first.wrapping_add(step.wrapping_mul(part.start as i64)), step);
        return Ok(values);
    }
    let steps = decode_at(reader, count, 0..part.end.saturating_sub(1), depth)?;
    let (before, within) = steps.split_at(part.start.saturating_sub(1).min(steps.len()));
    let mut sum = before.iter().fold(first, |sum, step| sum.wrapping_add(*step));
    let mut values = Vec::with_capacity(part.len());
    if part.start == 0 && part.end > 0 {
        values.push(first);
    }
    values.extend(within.iter().map(|step| {
        sum = sum.wrapping_add(*step);
        sum
    }));
    Ok(values)
}

fn decode_runs(reader: &mut Reader<'_>, count: usize, part: &Range<usize>) -> Result<Vec<i64>> {
    let runs = reader.count(count, "number of runs")?;
    let values = ints::decode_vec(reader, runs)?;
    let lengths = ints::decode_vec(reader, runs)?;
    let mut out = Vec::with_capacity(part.len());
    let mut at = 0;
    for (value, length) in values.iter().zip(&lengths) {
        let length = usize::try_from(*length).unwrap_or(0);
        if length == 0 || length > count - at {
            return Err(corrupt(format!("a run is {length} long with {} values left", count - at)));
        }
        let wanted = part.start.max(at)..part.end.min(at + length);
        out.resize(out.len() + wanted.len(), *value);
        at += length;
    }
    if at == count { Ok(out) } else { Err(corrupt(format!("runs end {} values early", count - at))) }
}

fn decode_dictionary(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let distinct = reader.count(count, "dictionary size")?;
    let entries = ints::decode_vec(reader, distinct)?;
    let mut values = decode_at(reader, count, part, depth)?;
    for value in &mut values {
        let entry = usize::try_from(*value).ok().and_then(|index| entries.get(index));
        let Some(entry) = entry else {
            return Err(corrupt(format!("dictionary index {value} of a dictionary of {distinct}")));
        };
        *value = *entry;
    }
    Ok(values)
}

fn decode_coded(reader: &mut Reader<'_>, count: usize, part: &Range<usize>) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    let low_bits = u32::from(reader.u8("low bits")?);
    if low_bits > 63 {
        return Err(corrupt(format!("{low_bits} low bits, at most 63 are possible")));
    }
    let escaped = reader.count(count, "number of escapes")?;
    let escapes = if escaped > 0 { ints::decode_vec(reader, escaped)? } else { Vec::new() };
    let symbols = huffman::decode(reader, count)?;
    let high = &symbols[part.clone()];
    let low = if low_bits == 0 { Vec::new() } else { unpack_part(reader, low_bits, count, part.clone())? };
    let low = low.into_iter().chain(std::iter::repeat(0));
    let above = high.iter().zip(low).map(|(high, low)| (u64::from(*high) << low_bits | low).cast_signed());
    let mut values: Vec<i64> = above.map(|above| base.wrapping_add(above)).collect();
    if escaped > 0 {
        let before = symbols[..part.start].iter().filter(|symbol| **symbol == ESCAPE).count();
        let mut escapes = escapes.iter().skip(before);
        for (_, value) in high.iter().zip(&mut values).filter(|(symbol, _)| **symbol == ESCAPE) {
            let Some(escape) = escapes.next() else { return Err(corrupt("more escape symbols than escaped values")) };
            *value = *escape;
        }
    }
    Ok(values)
}

fn decode_grouped(reader: &mut Reader<'_>, count: usize, part: Range<usize>) -> Result<Vec<i64>> {
    let width = u32::from(reader.u8("bit width")?);
    if ![1, 2, 4].contains(&width) {
        return Err(corrupt(format!("groups of {width} bit, expected 1, 2 or 4")));
    }
    let base = reader.signed("base")?;
    let symbols = huffman::decode(reader, packed_bytes(count, width))?;
    let bits = unpack_part(&mut Reader::new(&symbols), width, count, part)?;
    Ok(bits.into_iter().map(|bits| base.wrapping_add(bits.cast_signed())).collect())
}

fn decode_cycle(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let lag = reader.count(count, "length of the cycle")?;
    if lag == 0 {
        return Err(corrupt("cycle of length 0"));
    }
    let mut values = decode_at(reader, lag, 0..part.end.min(lag), depth)?;
    values.extend(decode_at(reader, count - lag, 0..part.end.saturating_sub(lag), depth)?);
    for at in lag..values.len() {
        values[at] = values[at].wrapping_add(values[at - lag]);
    }
    values.drain(..part.start);
    Ok(values)
}

fn decode_split(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    let mut values = decode_at(reader, count, part.clone(), depth)?;
    let rests = decode_at(reader, count, part, depth)?;
    for (value, rest) in values.iter_mut().zip(rests) {
        *value = base.wrapping_add(value.wrapping_mul(scale)).wrapping_add(rest);
    }
    Ok(values)
}
