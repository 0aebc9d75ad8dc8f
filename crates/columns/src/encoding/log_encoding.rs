//! Fast encoding of chunks for the log, where compression must not cost more time than writing raw
//! bytes.
//!
//! The format is that of other chunks, restricted to encodings that need no search: integers
//! bit-packed above their minimum, or their differences if those are narrower; decimals with one
//! exponent as such integers; other floats and text raw. A single outlier can make its whole column
//! as wide as itself.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use model::{DataType, Result};

use super::bits::pack;
use super::byte_io::{Reader, corrupt, push_signed};
use super::bytes::BLOB_RAW;
use super::cpu::multiversion;
use super::ints::delta::TAG as DELTA;
use super::ints::{self, Bounds, packed};
use super::{Dense, NULLS_ALL, NULLS_NONE, NULLS_SOME, decode_chunk, floats, kind};
use crate::rows::value_offsets;

/// Differences are used if they save at least this many bytes.
const DELTA_SAVES_MIN: usize = 16;

/// Appends `values` (at least one, of the array type of `ty`), lossless; values of NULL slots are
/// not stored. `scratch` is a buffer to reuse.
///
/// # Panics
/// If `values` does not have the array type of `ty`: a bug of the caller.
pub(crate) fn encode(ty: DataType, values: &ArrayRef, scratch: &mut Vec<i64>, out: &mut Vec<u8>) {
    let head = out.len();
    out.push(NULLS_NONE);
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    if let Some(nulls) = nulls {
        if nulls.null_count() == nulls.len() {
            out[head] = NULLS_ALL;
            return;
        }
        out[head] = NULLS_SOME;
        write_bits(nulls.inner(), out);
    }
    let kind = match (values.as_boolean_opt(), value_offsets(values)) {
        (Some(bools), _) if nulls.is_none() => {
            write_bits(bools.values(), out);
            kind::INTS
        }
        (_, Some(offsets)) => {
            write_text(values, offsets, scratch, out);
            kind::PLAIN
        }
        _ => write_numbers(ty, values, scratch, out),
    };
    out[head] |= kind << 2;
    debug_assert!(
        decode(ty, values.len(), &out[head..], usize::MAX).is_ok_and(|decoded| super::is_same(ty, &decoded, values)),
        "BUG: {} values of type {} for the log differ",
        values.len(),
        ty.sql_name()
    );
}

fn write_numbers(ty: DataType, values: &ArrayRef, scratch: &mut Vec<i64>, out: &mut Vec<u8>) -> u8 {
    match Dense::of(ty, values) {
        Ok(Dense::Ints(values)) => {
            write_ints(&values, out);
            kind::INTS
        }
        Ok(Dense::F32(values)) => floats::encode_fast(&values, scratch, out),
        Ok(Dense::F64(values)) => floats::encode_fast(&values, scratch, out),
        Ok(Dense::Bytes(_)) => panic!("BUG: {} is not a type of numbers", ty.sql_name()),
        Err(error) => panic!("{error}"),
    }
}

/// Appends a bitmap as a packed stream of 1-bit integers.
fn write_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    out.push(1);
    push_signed(out, 0);
    let end = out.len() + bits.len().div_ceil(8);
    out.extend(bits.bit_chunks().iter_padded().flat_map(u64::to_le_bytes));
    out.truncate(end);
}

/// Appends lengths, then the raw bytes.
fn write_text(values: &ArrayRef, offsets: &[i32], scratch: &mut Vec<i64>, out: &mut Vec<u8>) {
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    scratch.clear();
    match nulls {
        Some(nulls) => {
            scratch.extend(nulls.valid_indices().map(|row| i64::from(offsets[row + 1] - offsets[row])));
        }
        None => scratch.extend(offsets.windows(2).map(|ends| i64::from(ends[1] - ends[0]))),
    }
    write_ints(scratch, out);
    out.push(BLOB_RAW);
    let bytes = match values.as_string_opt::<i32>() {
        Some(values) => values.value_data(),
        None => values.as_binary::<i32>().value_data(),
    };
    let span = |from: usize, to: usize| &bytes[offsets[from] as usize..offsets[to] as usize];
    match nulls {
        Some(nulls) => nulls.valid_slices().for_each(|(from, to)| out.extend_from_slice(span(from, to))),
        None => out.extend_from_slice(span(0, values.len())),
    }
}

/// Appends `values` (at least one) as an integer stream.
pub(crate) fn write_ints(values: &[i64], out: &mut Vec<u8>) {
    assert!(!values.is_empty(), "BUG: no integers for the log");
    let start = out.len();
    let (range, steps) = ranges(values);
    let saved = range.packed_bytes(values.len()).saturating_sub(steps.packed_bytes(values.len()));
    if saved < DELTA_SAVES_MIN {
        packed::write(values, range, out);
        return;
    }
    out.push(DELTA);
    push_signed(out, values[0]);
    let width = steps.width();
    out.push(width as u8);
    push_signed(out, steps.min);
    let pairs = values[1..].iter().zip(values);
    pack(pairs.map(|(value, before)| value.wrapping_sub(*before).wrapping_sub(steps.min).cast_unsigned()), width, out);
    let (bytes, packed) = (out.len() - start, range.packed_bytes(values.len()));
    assert!(bytes <= packed, "BUG: differences take {bytes} bytes, the values {packed}");
}

const LANES: usize = 8;

multiversion! {
/// The range of `values`, and of the differences of neighbours (0 for a single value).
fn ranges(values: &[i64]) -> (Bounds, Bounds) {
    let first = values[0];
    let (mut low, mut high) = ([first; LANES], [first; LANES]);
    let step = if values.len() > 1 { values[1].wrapping_sub(first) } else { 0 };
    let (mut step_low, mut step_high) = ([step; LANES], [step; LANES]);
    let (parts, rest) = values[1..].as_chunks::<LANES>();
    let before_parts = values.as_chunks::<LANES>().0;
    for (part, before) in parts.iter().zip(before_parts) {
        for lane in 0..LANES {
            let step = part[lane].wrapping_sub(before[lane]);
            low[lane] = low[lane].min(part[lane]);
            high[lane] = high[lane].max(part[lane]);
            step_low[lane] = step_low[lane].min(step);
            step_high[lane] = step_high[lane].max(step);
        }
    }
    let last = &values[values.len() - 1 - rest.len()..];
    for pair in last.windows(2) {
        let step = pair[1].wrapping_sub(pair[0]);
        (low[0], high[0]) = (low[0].min(pair[1]), high[0].max(pair[1]));
        (step_low[0], step_high[0]) = (step_low[0].min(step), step_high[0].max(step));
    }
    let least = |lanes: [i64; LANES]| lanes.into_iter().fold(i64::MAX, i64::min);
    let greatest = |lanes: [i64; LANES]| lanes.into_iter().fold(i64::MIN, i64::max);
    (
        Bounds { min: least(low), max: greatest(high) },
        Bounds { min: least(step_low), max: greatest(step_high) },
    )
}
}

/// Decodes a chunk of `rows` rows; numbers may have any encoding, text only lengths and at most
/// `text_bytes_max` bytes. The arguments therefore limit the allocations.
///
/// # Errors
/// XX001 when the bytes are not such a chunk.
pub(crate) fn decode(ty: DataType, rows: usize, bytes: &[u8], text_bytes_max: usize) -> Result<ArrayRef> {
    let kind = bytes.first().map_or(0, |head| head >> 2);
    if matches!(ty, DataType::Text | DataType::Bytes) && kind != kind::PLAIN {
        return Err(corrupt(format!("text encoding is {kind}, expected {}", kind::PLAIN)));
    }
    decode_chunk(ty, rows, &mut Reader::bounded(bytes, text_bytes_max))
}

/// Decodes `count` integers, which must take all of `bytes`.
///
/// # Errors
/// XX001 when they do not.
pub(crate) fn decode_ints(count: usize, bytes: &[u8]) -> Result<Vec<i64>> {
    let mut reader = Reader::new(bytes);
    let values = ints::decode_vec(&mut reader, count)?;
    reader.finish("integers")?;
    Ok(values)
}
