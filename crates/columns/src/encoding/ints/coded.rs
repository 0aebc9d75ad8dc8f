//! Coded: values above a base, whose high bits are Huffman-coded symbols and whose low bits are packed; outliers are
//! in a list of escapes. For values that cluster.

use std::ops::Range;

use model::Result;

use super::super::bits::{GROUP, Groups, pack, packed_bytes};
use super::super::byte_io::{Reader, corrupt, push_signed, push_varint, signed_bytes};
use super::super::cpu::multiversion;
use super::super::features::Features;
use super::super::huffman::{self, Code};
use super::cost_model::{self, Encode, Offer, Stream, median, sample};
use super::packed::unpack_part;
use super::{Bounds, CODED_MIN, Encoding, Head, above, cycle, decode_at, delta, split, to_running_sums};

pub(super) const TAG: u8 = 69;
/// The symbol of an escape.
const ESCAPE: u8 = 255;

pub(super) const CODED: Encoding = Encoding {
    tags: TAG..=TAG,
    name: "coded",
    feature: Features::bit(5),
    offers: &[Offer::Exact(of_clusters)],
    decode,
    decode_range,
    decode_sums: Some(decode_sums),
    decode_line: None,
};

fn of_clusters<'a>(stream: &'a Stream<'a>) -> Option<(usize, Encode<'a>)> {
    let (values, bounds) = (stream.values, stream.bounds);
    // A code table takes some bytes, and each symbol at least one bit.
    if values.len() < CODED_MIN || bounds.width() <= 1 {
        return None;
    }
    let (base, low_bits) = base_and_low_bits(values, bounds);
    let mut symbols = vec![0; values.len()];
    let mut escapes = Vec::new();
    if base <= bounds.min && above(bounds.max, base) >> low_bits <= ESCAPE.into() {
        symbols_of(values, base, low_bits, &mut symbols);
    } else {
        symbols_or_escapes(values, base, low_bits, &mut symbols);
        find_escapes(&symbols, |at| escapes.push(values[at]));
    }
    assert!(low_bits <= 63, "BUG: {low_bits} low bits, at most 63 can be read");
    let code = Code::of(&huffman::histogram(&symbols));
    // An estimate if there are escapes.
    let escaped_bytes = packed_bytes(escapes.len(), bounds.width()) + if escapes.is_empty() { 0 } else { 8 };
    let bytes = 4 + signed_bytes(base) + escaped_bytes + code.bytes + packed_bytes(values.len(), low_bits);
    let encode: Encode<'a> = Box::new(move |options, out| {
        push_signed(out, base);
        out.push(low_bits as u8);
        push_varint(out, escapes.len() as u64);
        let mut features = Features::NONE;
        if !escapes.is_empty() {
            let others = delta::DELTA.feature | cycle::CYCLE.feature | split::SPLIT.feature;
            features = cost_model::write_best(&escapes, options.deeper().without(others), out);
        }
        code.write(&symbols, out);
        let mask = (1u64 << low_bits) - 1;
        pack(values.iter().map(|value| above(*value, base) & mask), low_bits, out);
        features
    });
    Some((bytes, encode))
}

/// Base and number of low bits for the values, chosen such that ten or more symbols share the bulk
/// of the values.
fn base_and_low_bits(values: &[i64], bounds: Bounds) -> (i64, u32) {
    if bounds.width() <= 8 {
        return (bounds.min, 0);
    }
    let mut sample = sample(values, 0, <[i64]>::to_vec);
    let middle = median(&mut sample);
    let mut spread: Vec<i64> = sample.iter().map(|value| value.abs_diff(middle).min(i64::MAX as u64) as i64).collect();
    let spread = median(&mut spread).cast_unsigned();
    let low_bits = (64 - spread.leading_zeros()).saturating_sub(if values.len() < 1_024 { 2 } else { 3 });
    if bounds.max.wrapping_sub(bounds.min).cast_unsigned() >> low_bits <= 255 {
        return (bounds.min, low_bits);
    }
    // 254 symbols plus the escape: center them on the median, unless there are no values so far
    // below.
    let below = (127u64 << low_bits).min(middle.abs_diff(bounds.min));
    (middle.wrapping_sub(below.cast_signed()), low_bits)
}

multiversion! {
/// The high bits of each value; all must fit a byte.
fn symbols_of(values: &[i64], base: i64, low_bits: u32, symbols: &mut [u8]) {
    for (symbol, value) in symbols.iter_mut().zip(values) {
        *symbol = (above(*value, base) >> low_bits) as u8;
    }
}

/// The high bits of each value, or [`ESCAPE`] if they do not fit.
fn symbols_or_escapes(values: &[i64], base: i64, low_bits: u32, symbols: &mut [u8]) {
    for (symbol, value) in symbols.iter_mut().zip(values) {
        *symbol = (above(*value, base) >> low_bits).min(ESCAPE.into()) as u8;
    }
}
}

/// Calls `found` with the position of each escape, in order.
#[inline(always)]
fn find_escapes(symbols: &[u8], mut found: impl FnMut(usize)) {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (eights, rest) = symbols.as_chunks::<8>();
    for (eight, symbols) in eights.iter().enumerate() {
        // Escapes are zero bytes of the complement. This marks the top bits of zero bytes, and no
        // others.
        let others = !u64::from_le_bytes(*symbols);
        let mut marks = !(((others & LOW) + LOW) | others | LOW);
        while marks != 0 {
            found(eight * 8 + (marks.trailing_zeros() / 8) as usize);
            marks &= marks - 1;
        }
    }
    let rest = rest.iter().enumerate().filter(|(_, symbol)| **symbol == ESCAPE);
    rest.for_each(|(at, _)| found(eights.len() * 8 + at));
}

fn decode(reader: &mut Reader<'_>, head: Head, out: &mut Vec<i64>) -> Result<()> {
    let coded = read_coded(reader, head)?;
    out.reserve(head.count);
    if coded.escapes.is_empty() {
        return combine(reader, &coded, None, out, |value| value);
    }
    combine_with_escapes(reader, &coded, out)
}

/// Combines the parts and adds up in one pass, if there are no escapes.
fn decode_sums(reader: &mut Reader<'_>, head: Head, first: i64, out: &mut Vec<i64>) -> Result<()> {
    let coded = read_coded(reader, head)?;
    let start = out.len();
    out.reserve(head.count);
    if coded.escapes.is_empty() {
        return combine(reader, &coded, Some(first), out, |value| value);
    }
    combine_with_escapes(reader, &coded, out)?;
    to_running_sums(first, &mut out[start..]);
    Ok(())
}

pub(super) fn read_coded(reader: &mut Reader<'_>, head: Head) -> Result<CodedParts> {
    let base = reader.signed("base")?;
    let low_bits = u32::from(reader.u8("low bits")?);
    if low_bits > 63 {
        return Err(corrupt(format!("{low_bits} low bits, at most 63 are possible")));
    }
    reader.note(|| format!("coded above {low_bits} bit"));
    let escaped = reader.count(head.count, "number of escapes")?;
    let mut escapes = Vec::with_capacity(escaped);
    if escaped > 0 {
        reader.note(|| format!(", {escaped} escapes ("));
        decode_at(reader, escaped, head.depth, &mut escapes)?;
        reader.note(|| ")".into());
    }
    Ok(CodedParts { symbols: huffman::decode(reader, head.count)?, base, low_bits, escapes })
}

/// Appends the values, with escapes replaced by their values.
pub(super) fn combine_with_escapes(reader: &mut Reader<'_>, coded: &CodedParts, out: &mut Vec<i64>) -> Result<()> {
    let start = out.len();
    combine(reader, coded, None, out, |value| value)?;
    fill_escapes(&coded.symbols, &coded.escapes, &mut out[start..])
}

/// The parts of a coded stream, except for the low bits, which are not read yet.
pub(super) struct CodedParts {
    symbols: Vec<u8>,
    base: i64,
    low_bits: u32,
    /// Values of the escapes.
    pub(super) escapes: Vec<i64>,
}

multiversion! {
/// Combines each symbol with its low bits and appends it, mapped by `map`. With `sum`: running
/// sums of them.
pub(super) fn combine[T, M: FnMut(i64) -> T](
    reader: &mut Reader<'_>, coded: &CodedParts, sum: Option<i64>, out: &mut Vec<T>, map: M,
) -> Result<()> {
    let (mut map, mut sum) = (map, sum);
    let CodedParts { symbols, base, low_bits, .. } = coded;
    let mut values = [0; GROUP];
    if *low_bits == 0 {
        for symbols in symbols.chunks(GROUP) {
            let put = values.iter_mut().zip(symbols);
            put.for_each(|(value, symbol)| *value = base.wrapping_add(i64::from(*symbol)));
            out.extend(running_sums(&mut values[..symbols.len()], &mut sum).iter().map(|value| map(*value)));
        }
        return Ok(());
    }
    let mut groups = Groups::new(reader, *low_bits, symbols.len())?;
    while let Some((at, low)) = groups.next() {
        let parts = low.iter().zip(&symbols[at..at + low.len()]);
        for (value, (low, high)) in values.iter_mut().zip(parts) {
            *value = base.wrapping_add((u64::from(*high) << low_bits | *low).cast_signed());
        }
        out.extend(running_sums(&mut values[..low.len()], &mut sum).iter().map(|value| map(*value)));
    }
    Ok(())
}
}

/// Replaces values by running sums if there is a sum.
#[inline(always)]
fn running_sums<'a>(values: &'a mut [i64], sum: &mut Option<i64>) -> &'a [i64] {
    if let Some(sum) = sum {
        to_running_sums(*sum, values);
        *sum = values.last().copied().unwrap_or(*sum);
    }
    values
}

fn fill_escapes(symbols: &[u8], escapes: &[i64], out: &mut [i64]) -> Result<()> {
    let mut escapes = escapes.iter();
    let mut missing = false;
    find_escapes(symbols, |at| match escapes.next() {
        Some(value) => out[at] = *value,
        None => missing = true,
    });
    if missing {
        return Err(corrupt("more escape symbols than escaped values"));
    }
    match escapes.len() {
        0 => Ok(()),
        left => Err(corrupt(format!("{left} escaped values without an escape symbol"))),
    }
}

/// Symbols have no known positions, so all of them are decoded; only those of the range are combined.
fn decode_range(reader: &mut Reader<'_>, head: Head, part: Range<usize>) -> Result<Vec<i64>> {
    let CodedParts { symbols, base, low_bits, escapes } = read_coded(reader, head)?;
    let high = &symbols[part.clone()];
    let low = if low_bits == 0 { Vec::new() } else { unpack_part(reader, low_bits, head.count, part.clone())? };
    let low = low.into_iter().chain(std::iter::repeat(0));
    let above = high.iter().zip(low).map(|(high, low)| (u64::from(*high) << low_bits | low).cast_signed());
    let mut values: Vec<i64> = above.map(|above| base.wrapping_add(above)).collect();
    if !escapes.is_empty() {
        let before = symbols[..part.start].iter().filter(|symbol| **symbol == ESCAPE).count();
        let mut escapes = escapes.iter().skip(before);
        for (_, value) in high.iter().zip(&mut values).filter(|(symbol, _)| **symbol == ESCAPE) {
            let Some(escape) = escapes.next() else { return Err(corrupt("more escape symbols than escaped values")) };
            *value = *escape;
        }
    }
    Ok(values)
}
