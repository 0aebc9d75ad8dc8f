//! Packed: values above a base in a fixed number of bits, which is the tag. The result of last resort: no other
//! encoding is kept if it is larger.

use std::ops::Range;

use model::Result;

use super::super::bits::{GROUP, pack, packed_bytes, unpack, unpack_groups};
use super::super::byte_io::{Reader, push_signed};
use super::super::cpu::multiversion;
use super::super::features::Features;
use super::{Bounds, Encoding, Head, above, fill_line};

/// Tag of a constant stream: 0 bits.
pub(super) const CONSTANT: u8 = 0;

pub(super) const PACKED: Encoding = Encoding {
    tags: CONSTANT..=64,
    name: "packed",
    feature: Features::bit(0),
    offers: &[],
    decode,
    decode_range,
    decode_sums: Some(decode_sums),
    decode_line: None,
};

/// Appends `values`, whose minimum and maximum are `bounds`.
pub(in super::super) fn write(values: &[i64], bounds: Bounds, out: &mut Vec<u8>) -> Features {
    write_as(values, bounds.min, bounds.width(), out)
}

/// Appends `values`, each in `bits` bits above `base`; all of them must fit.
pub(super) fn write_as(values: &[i64], base: i64, bits: u32, out: &mut Vec<u8>) -> Features {
    out.push(bits as u8);
    push_signed(out, base);
    pack(values.iter().map(|value| above(*value, base)), bits, out);
    PACKED.feature
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let width = note_width(reader, head);
    let base = reader.signed("base")?;
    if width == 0 {
        out.resize(out.len() + head.count, base);
        return Ok(());
    }
    unpack(reader, width, head.count, out, |bits| base.wrapping_add(bits.cast_signed()))
}

fn note_width(reader: &mut Reader<'_>, head: Head) -> u32 {
    reader.note(|| if head.tag == CONSTANT { "constant".into() } else { format!("packed {} bit", head.tag) });
    u32::from(head.tag)
}

/// Unpacks and adds up in one pass.
fn decode_sums(reader: &mut Reader<'_>, head: Head, first: i64, out: &mut Vec<i64>) -> Result<()> {
    let width = note_width(reader, head);
    let base = reader.signed("base")?;
    if width == 0 {
        let start = out.len();
        out.resize(start + head.count, 0);
        fill_line(&mut out[start..], first.wrapping_add(base), base);
        return Ok(());
    }
    let mut sum = first;
    out.reserve(head.count);
    unpack_groups(reader, width, head.count, |_, group| {
        let mut values = [0; GROUP];
        let differences = group.iter().map(|bits| base.wrapping_add(bits.cast_signed()));
        sum = write_running_sums(differences, sum, &mut values);
        out.extend_from_slice(&values[..group.len()]);
    })
}

/// Writes the running sums of `differences`, starting after `sum`, to `out`; returns the last one.
#[inline(always)]
fn write_running_sums(differences: impl Iterator<Item = i64>, mut sum: i64, out: &mut [i64]) -> i64 {
    for (out, difference) in out.iter_mut().zip(differences) {
        sum = sum.wrapping_add(difference);
        *out = sum;
    }
    sum
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let base = reader.signed("base")?;
    if head.tag == CONSTANT {
        return Ok(vec![base; part.len()]);
    }
    let bits = unpack_part(reader, u32::from(head.tag), head.count, part)?;
    Ok(bits.into_iter().map(|bits| base.wrapping_add(bits.cast_signed())).collect())
}

/// Values `part` of `count` packed values: their positions are known, so no others are unpacked.
pub(super) fn unpack_part(reader: &mut Reader<'_>, width: u32, count: usize, part: Range<usize>) -> Result<Vec<u64>> {
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

multiversion! {
/// Appends `count` packed values (with this width and base), each mapped by `map`.
pub(super) fn map_packed[T, M: FnMut(i64) -> T](
    reader: &mut Reader<'_>, packed: (u32, i64), count: usize, out: &mut Vec<T>, map: M,
) -> Result<()> {
    let (mut map, (width, base)) = (map, packed);
    unpack_groups(reader, width, count, |_, group| {
        out.extend(group.iter().map(|bits| map(base.wrapping_add(bits.cast_signed()))));
    })
}
}
