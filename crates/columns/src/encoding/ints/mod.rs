//! Integer streams, to which all other types (times, flags, decimals, dictionary indexes, lengths)
//! are reduced.
//!
//! A *stream* is n >= 1 integers; the reader knows n. It starts with a tag, which selects one of [`ENCODINGS`]:
//! bit-packed above a minimum, Huffman-coded, or composed of nested streams (differences, runs, dictionary and
//! others). Each encoding has a module with its entry in the table: everything that encoder and decoder know of it.
//! `cost_model` chooses among the entries. Bytes: docs/format/segment.md, "Integer streams"; how to add one:
//! docs/how-to/add-an-encoding.md.
//!
//! Always true:
//! - A tag and a feature belong to one encoding (checked by the compiler).
//! - A decoder returns as many values as were asked for, or an error.
//! - Decoding gives the values that were encoded, and uses only the features that the encoder has stated.
//! - No stream is larger than packed, and none is nested deeper than [`DEPTH_MAX`].
//!
//! All arithmetic wraps, so any 64-bit values round-trip.

mod coded;
pub(super) mod cost_model;
mod cycle;
pub(super) mod delta;
mod dictionary;
mod grouped;
pub(super) mod packed;
mod runs;
mod scaled;
mod split;

use std::ops::{Range, RangeInclusive};

use arrow_buffer::{BooleanBuffer, Buffer};
use model::{Error, Result};

use super::bits::{packed_bytes, width_of};
use super::byte_io::{Reader, corrupt, signed_bytes};
use super::cpu::multiversion;
use super::features::Features;
use super::huffman;
use cost_model::Offer;

/// All encodings, in the order in which the cost model looks at them.
const ENCODINGS: &[&Encoding] = &[
    &packed::PACKED,
    &delta::DELTA,
    &scaled::SCALED,
    &runs::RUNS,
    &dictionary::DICTIONARY,
    &cycle::CYCLE,
    &split::SPLIT,
    &grouped::GROUPED,
    &coded::CODED,
];

/// The features of all encodings.
pub(super) const FEATURES: Features = all_features();

/// An encoding: everything that encoder and decoder know of it.
struct Encoding {
    /// First byte of a stream. Only `packed` has several.
    tags: RangeInclusive<u8>,
    /// Name in errors.
    name: &'static str,
    /// Stated in the footer of the segments that use the encoding.
    feature: Features,
    /// When and how the cost model uses the encoding; none for `packed`, which is the last resort.
    offers: &'static [Offer],
    /// Appends the values of a stream; the tag is read.
    decode: fn(&mut Reader<'_>, Head, &mut Vec<i64>) -> Result<()>,
    /// Returns the values of a range, which are far fewer than all. The reader is then at the end of the stream.
    /// Values outside of the range need not be verified: the chunk's checksum covers them.
    decode_range: fn(&mut Reader<'_>, Head, Range<usize>) -> Result<Vec<i64>>,
    /// A faster way to decode differences.
    decode_sums: Option<DecodeSums>,
    /// A faster way to decode a scaled stream.
    decode_line: Option<DecodeLine>,
}

/// Appends the running sums of the values, which start after the given one.
type DecodeSums = fn(&mut Reader<'_>, Head, i64, &mut Vec<i64>) -> Result<()>;
/// Appends base + scale * value for each value; receives base and scale.
type DecodeLine = fn(&mut Reader<'_>, Head, (i64, i64), &mut Vec<i64>) -> Result<()>;

/// A stream to decode.
#[derive(Clone, Copy)]
struct Head {
    tag: u8,
    /// Number of values.
    count: usize,
    /// Levels left for nested streams.
    depth: u32,
}

/// Deepest nesting of streams, for encoder and decoder.
const DEPTH_MAX: u32 = 8;
/// Shorter streams are not Huffman-coded, because the code table would cost more than it saves, and not searched
/// for patterns.
const CODED_MIN: usize = 48;

/// The encoding of each tag.
static BY_TAG: [Option<&Encoding>; 256] = by_tag();

const fn by_tag() -> [Option<&'static Encoding>; 256] {
    let mut table: [Option<&Encoding>; 256] = [None; 256];
    let mut at = 0;
    while at < ENCODINGS.len() {
        let mut tag = *ENCODINGS[at].tags.start() as usize;
        while tag <= *ENCODINGS[at].tags.end() as usize {
            assert!(table[tag].is_none(), "two encodings of integers have the same tag");
            table[tag] = Some(ENCODINGS[at]);
            tag += 1;
        }
        at += 1;
    }
    table
}

const fn all_features() -> Features {
    let (mut all, mut at) = (Features::NONE, 0);
    while at < ENCODINGS.len() {
        assert!(all.is_disjoint(ENCODINGS[at].feature), "two encodings of integers have the same feature");
        all = all.union(ENCODINGS[at].feature);
        at += 1;
    }
    all
}

/// Appends `values` (at least one) in the smallest encoding found; returns the features that a reader needs.
pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) -> Features {
    assert!(!values.is_empty(), "BUG: no integers to encode");
    let start = out.len();
    let features = cost_model::write(values, out);
    debug_assert_eq!(reencoded(values, features, &out[start..]), Ok(()), "BUG: encoded integers differ");
    features
}

/// Appends `values`, each in `bits` bits above `base`; all of them must fit.
pub(crate) fn encode_plain(values: &[i64], base: i64, bits: u32, out: &mut Vec<u8>) -> Features {
    debug_assert!(values.iter().all(|value| width_of(above(*value, base)) <= bits), "BUG: more than {bits} bits");
    let start = out.len();
    let features = packed::write_as(values, base, bits, out);
    debug_assert_eq!(reencoded(values, features, &out[start..]), Ok(()), "BUG: packed integers differ");
    features
}

/// Checks that `bytes` are `values` and use `features`, no more and no fewer. For debug assertions.
fn reencoded(values: &[i64], features: Features, bytes: &[u8]) -> Result<()> {
    let mut reader = Reader::new(bytes);
    let decoded = decode_vec(&mut reader, values.len())?;
    reader.finish("stream")?;
    if let Some(at) = (0..values.len()).find(|at| decoded[*at] != values[*at]) {
        return Err(Error::bug(format!("value {at} is {}, expected {}", decoded[at], values[at])));
    }
    if reader.features() != features {
        return Err(Error::bug(format!("features are {}, stated {features}", reader.features())));
    }
    Ok(())
}

/// Minimum and maximum of values.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) min: i64,
    pub(super) max: i64,
}

impl Bounds {
    fn of(values: &[i64]) -> Bounds {
        let (min, max) = min_and_max(values);
        Bounds { min, max }
    }

    pub(super) fn width(&self) -> u32 {
        width_of(self.max.wrapping_sub(self.min).cast_unsigned())
    }

    /// Whether the distance from the minimum to `value`, which wraps, is within the bounds.
    fn contains(&self, value: i64) -> bool {
        above(value, self.min) <= above(self.max, self.min)
    }

    /// Size of the packed stream of `count` values.
    pub(super) fn packed_bytes(&self, count: usize) -> usize {
        1 + signed_bytes(self.min) + packed_bytes(count, self.width())
    }
}

multiversion! {
/// Minimum and maximum; `(i64::MAX, i64::MIN)` for no values.
pub(crate) fn min_and_max(values: &[i64]) -> (i64, i64) {
    // Sixteen lanes, so that comparisons do not depend on each other.
    let mut low = [i64::MAX; 16];
    let mut high = [i64::MIN; 16];
    let parts = values.chunks_exact(16);
    for value in parts.remainder() {
        (low[0], high[0]) = (low[0].min(*value), high[0].max(*value));
    }
    for part in parts {
        for lane in 0..16 {
            low[lane] = low[lane].min(part[lane]);
            high[lane] = high[lane].max(part[lane]);
        }
    }
    (low.into_iter().fold(i64::MAX, i64::min), high.into_iter().fold(i64::MIN, i64::max))
}

/// The difference of each value from the one `lag` positions before.
fn differences(values: &[i64], lag: usize) -> Vec<i64> {
    values[lag..].iter().zip(values).map(|(value, before)| value.wrapping_sub(*before)).collect()
}
}

#[inline(always)]
fn above(value: i64, base: i64) -> u64 {
    value.wrapping_sub(base).cast_unsigned()
}

multiversion! {
/// Fills `out` with the line `first`, `first + step` and so on.
fn fill_line(out: &mut [i64], first: i64, step: i64) {
    // Eight lanes, so that additions do not depend on each other.
    let mut lanes: [i64; 8] = std::array::from_fn(|lane| first.wrapping_add(step.wrapping_mul(lane as i64)));
    let mut parts = out.chunks_exact_mut(8);
    for part in &mut parts {
        for lane in 0..8 {
            part[lane] = lanes[lane];
            lanes[lane] = lanes[lane].wrapping_add(step.wrapping_mul(8));
        }
    }
    parts.into_remainder().iter_mut().zip(lanes).for_each(|(out, value)| *out = value);
}
}

/// Replaces differences by running sums.
#[inline(always)]
fn to_running_sums(first: i64, differences: &mut [i64]) {
    let mut sum = first;
    for value in differences {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
}

/// Reads a stream of `count` integers and appends them to `out`.
pub(crate) fn decode(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>) -> Result<()> {
    let expected = out.len() + count;
    decode_at(reader, count, DEPTH_MAX, out)?;
    assert!(out.len() == expected, "BUG: {} values after decoding, expected {expected}", out.len());
    Ok(())
}

/// Reads a stream of `count` integers.
pub(crate) fn decode_vec(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>> {
    let mut values = Vec::with_capacity(count);
    decode(reader, count, &mut values)?;
    Ok(values)
}

/// Reads values `part` of a stream of `count` integers, without the rest, for example one day of a block that spans
/// months. The reader is then at the end of the stream.
pub(crate) fn decode_range(reader: &mut Reader<'_>, count: usize, part: Range<usize>) -> Result<Vec<i64>> {
    let expected = part.len();
    let values = decode_range_at(reader, count, part, DEPTH_MAX)?;
    assert!(values.len() == expected, "BUG: {} values of a range, expected {expected}", values.len());
    Ok(values)
}

/// Reads a tag. `depth`: levels left for this stream and those in it.
fn read_head(reader: &mut Reader<'_>, count: usize, depth: u32) -> Result<(&'static Encoding, Head)> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(corrupt("integer streams are nested too deeply"));
    };
    let tag = reader.u8("integer encoding")?;
    let encoding = BY_TAG[usize::from(tag)].ok_or_else(|| unknown_tag(tag))?;
    reader.see(encoding.feature);
    Ok((encoding, Head { tag, count, depth }))
}

#[cold]
fn unknown_tag(tag: u8) -> Error {
    let known = ENCODINGS.iter().map(|encoding| match (encoding.tags.start(), encoding.tags.end()) {
        (first, last) if first == last => format!("{first} ({})", encoding.name),
        (first, last) => format!("{first} to {last} ({})", encoding.name),
    });
    corrupt(format!("integer encoding is {tag}, known are {}", known.collect::<Vec<_>>().join(", ")))
}

fn decode_at(reader: &mut Reader<'_>, count: usize, depth: u32, out: &mut Vec<i64>) -> Result<()> {
    let (encoding, head) = read_head(reader, count, depth)?;
    let expected = out.len() + count;
    (encoding.decode)(reader, head, out)?;
    debug_assert!(out.len() == expected, "BUG: {} {} values, expected {expected}", out.len(), encoding.name);
    Ok(())
}

fn decode_range_at(reader: &mut Reader<'_>, count: usize, part: Range<usize>, depth: u32) -> Result<Vec<i64>> {
    let (encoding, head) = read_head(reader, count, depth)?;
    let expected = part.len();
    let values = (encoding.decode_range)(reader, head, part)?;
    debug_assert!(values.len() == expected, "BUG: {} {} values, expected {expected}", values.len(), encoding.name);
    Ok(values)
}

/// Reads differences and appends their running sums.
fn decode_sums_at(reader: &mut Reader<'_>, count: usize, depth: u32, first: i64, out: &mut Vec<i64>) -> Result<()> {
    let (encoding, head) = read_head(reader, count, depth)?;
    if let Some(decode_sums) = encoding.decode_sums {
        return decode_sums(reader, head, first, out);
    }
    let start = out.len();
    (encoding.decode)(reader, head, out)?;
    to_running_sums(first, &mut out[start..]);
    Ok(())
}

/// Reads values and appends base + scale * value.
fn decode_line_at(
    reader: &mut Reader<'_>,
    count: usize,
    depth: u32,
    (base, scale): (i64, i64),
    out: &mut Vec<i64>,
) -> Result<()> {
    let (encoding, head) = read_head(reader, count, depth)?;
    if let Some(decode_line) = encoding.decode_line {
        return decode_line(reader, head, (base, scale), out);
    }
    let start = out.len();
    (encoding.decode)(reader, head, out)?;
    multiply(&mut out[start..], base, scale);
    Ok(())
}

multiversion! {
fn multiply(values: &mut [i64], base: i64, scale: i64) {
    values.iter_mut().for_each(|value| *value = base.wrapping_add(value.wrapping_mul(scale)));
}
}

/// Whether [`decode_mapped`] reads the next stream without an intermediate buffer.
pub(crate) fn maps_directly(reader: &Reader<'_>) -> bool {
    reader.rest().first().is_some_and(|tag| matches!(*tag, 1..=64 | grouped::TAG | coded::TAG))
}

/// Reads a stream of `count` integers, each mapped by `map`. The most common encodings are mapped
/// without an intermediate buffer; all others go through the table.
pub(crate) fn decode_mapped<T>(reader: &mut Reader<'_>, count: usize, map: impl FnMut(i64) -> T) -> Result<Vec<T>> {
    let (encoding, head) = read_head(reader, count, DEPTH_MAX)?;
    let mut out = Vec::with_capacity(count);
    match head.tag {
        width @ 1..=64 => {
            reader.note(|| format!("packed {width} bit"));
            let base = reader.signed("base")?;
            packed::map_packed(reader, (width.into(), base), count, &mut out, map)?;
        }
        grouped::TAG => {
            let grouped::Groups { width, base, bytes } = grouped::read_groups(reader, head)?;
            packed::map_packed(&mut Reader::new(&bytes), (width, base), count, &mut out, map)?;
        }
        coded::TAG => {
            let coded = coded::read_coded(reader, head)?;
            if coded.escapes.is_empty() {
                coded::combine(reader, &coded, None, &mut out, map)?;
            } else {
                let mut values = Vec::with_capacity(count);
                coded::combine_with_escapes(reader, &coded, &mut values)?;
                out.extend(values.into_iter().map(map));
            }
        }
        _ => {
            let mut values = Vec::with_capacity(count);
            (encoding.decode)(reader, head, &mut values)?;
            out.extend(values.into_iter().map(map));
        }
    }
    assert!(out.len() == count, "BUG: {} values after decoding, expected {count}", out.len());
    Ok(out)
}

/// The value of a constant stream; `None`, and nothing is read, for other streams.
pub(crate) fn decode_constant(reader: &mut Reader<'_>) -> Result<Option<i64>> {
    if reader.rest().first() != Some(&packed::CONSTANT) {
        return Ok(None);
    }
    reader.u8("integer encoding")?;
    reader.see(packed::PACKED.feature);
    reader.note(|| "constant".into());
    reader.signed("base").map(Some)
}

/// Reads a stream of `count` zeros and ones. Two encodings store the flags as a bitmap.
pub(crate) fn decode_flags(reader: &mut Reader<'_>, count: usize) -> Result<BooleanBuffer> {
    let (encoding, head) = read_head(reader, count, DEPTH_MAX)?;
    let bytes = match (head.tag, reader.rest()) {
        (1, [0, ..]) => {
            reader.note(|| "packed 1 bit".into());
            reader.take(1, "integer encoding")?;
            reader.take(count.div_ceil(8), "flags")?.to_vec()
        }
        (grouped::TAG, [1, 0, ..]) => {
            reader.note(|| "coded groups of 1 bit".into());
            reader.take(2, "integer encoding")?;
            huffman::decode(reader, count.div_ceil(8))?
        }
        _ => {
            let mut flags = Vec::with_capacity(count);
            (encoding.decode)(reader, head, &mut flags)?;
            if let Some(other) = flags.iter().find(|flag| !(0..=1).contains(*flag)) {
                return Err(corrupt(format!("a flag is {other}, expected 0 or 1")));
            }
            return Ok(BooleanBuffer::collect_bool(count, |index| flags[index] != 0));
        }
    };
    Ok(BooleanBuffer::new(Buffer::from_vec(bytes), 0, count))
}

#[cfg(test)]
mod tests;
