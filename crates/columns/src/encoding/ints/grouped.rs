//! Grouped: values of 1, 2 or 4 bits, packed into bytes that are Huffman-coded.

use std::ops::Range;

use model::Result;

use super::super::bits::{pack, packed_bytes, unpack};
use super::super::byte_io::{Reader, corrupt, push_signed, signed_bytes};
use super::super::features::Features;
use super::super::huffman::{self, Code};
use super::cost_model::{Encode, Offer, Stream};
use super::packed::unpack_part;
use super::{Encoding, Head, above};

pub(super) const TAG: u8 = 70;

pub(super) const GROUPED: Encoding = Encoding {
    tags: TAG..=TAG,
    name: "grouped",
    feature: Features::bit(6),
    offers: &[Offer::Exact(of_narrow_values)],
    decode,
    decode_range,
    decode_sums: None,
    decode_line: None,
};

fn of_narrow_values<'a>(stream: &'a Stream<'a>) -> Option<(usize, Encode<'a>)> {
    let (values, base) = (stream.values, stream.bounds.min);
    let width = stream.bounds.width().next_power_of_two();
    if width > 4 {
        return None;
    }
    let mut symbols = Vec::with_capacity(values.len() / 2 + 8);
    pack(values.iter().map(|value| above(*value, base)), width, &mut symbols);
    let code = Code::of(&huffman::histogram(&symbols));
    let bytes = 2 + signed_bytes(base) + code.bytes;
    let encode: Encode<'a> = Box::new(move |_, out| {
        out.push(width as u8);
        push_signed(out, base);
        code.write(&symbols, out);
        Features::NONE
    });
    Some((bytes, encode))
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let Groups { width, base, bytes } = read_groups(reader, head)?;
    unpack(&mut Reader::new(&bytes), width, head.count, out, |bits| base.wrapping_add(bits.cast_signed()))
}

/// A stream without its code: packed values.
pub(super) struct Groups {
    pub(super) width: u32,
    pub(super) base: i64,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn read_groups(reader: &mut Reader<'_>, head: Head) -> Result<Groups> {
    let width = u32::from(reader.u8("bit width")?);
    if ![1, 2, 4].contains(&width) {
        return Err(corrupt(format!("groups of {width} bit, expected 1, 2 or 4")));
    }
    reader.note(|| format!("coded groups of {width} bit"));
    let base = reader.signed("base")?;
    Ok(Groups { width, base, bytes: huffman::decode(reader, packed_bytes(head.count, width))? })
}

fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let Groups { width, base, bytes } = read_groups(reader, head)?;
    let bits = unpack_part(&mut Reader::new(&bytes), width, head.count, part)?;
    Ok(bits.into_iter().map(|bits| base.wrapping_add(bits.cast_signed())).collect())
}
