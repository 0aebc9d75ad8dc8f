//! Integer streams, to which all other types (times, flags, decimals, dictionary indexes, lengths)
//! are reduced.
//!
//! A *stream* is n >= 1 integers; the reader knows n. It is bit-packed above its minimum,
//! Huffman-coded, or composed of nested streams (differences, runs, dictionary and others).
//! `cost_model` chooses. Bytes: docs/format/segment.md, "Integer streams".
//!
//! All arithmetic wraps, so any 64-bit values round-trip.

use arrow_buffer::{BooleanBuffer, Buffer};
use model::Result;

use super::bits::{GROUP, Groups, pack, packed_bytes, unpack, unpack_groups, width_of};
use super::byte_io::{Reader, corrupt, push_signed, push_varint, signed_bytes};
use super::cost_model;
use super::cpu::multiversion;
use super::huffman::{self, Code};

pub(super) const SCALED: u8 = 65;
pub(super) const DELTA: u8 = 66;
pub(super) const RUNS: u8 = 67;
pub(super) const DICTIONARY: u8 = 68;
pub(super) const CODED: u8 = 69;
pub(super) const GROUPED: u8 = 70;
pub(super) const CYCLE: u8 = 71;
pub(super) const SPLIT: u8 = 72;

/// Deepest nesting of streams, for encoder and decoder.
pub(super) const DEPTH_MAX: u32 = 8;
const TOO_DEEP: &str = "integer streams are nested too deeply";
/// The symbol of an escape: the value is stored in a separate list.
pub(super) const ESCAPE: u8 = 255;

/// Appends `values` (at least one) in the smallest encoding found.
pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) {
    cost_model::write(values, out);
}

/// Appends `values`, each in `bits` bits above `base`; all of them must fit.
pub(crate) fn encode_plain(values: &[i64], base: i64, bits: u32, out: &mut Vec<u8>) {
    out.push(bits as u8);
    push_signed(out, base);
    pack(values.iter().map(|value| above(*value, base)), bits, out);
}

/// Minimum and maximum of values.
#[derive(Clone, Copy)]
pub(super) struct Range {
    pub(super) min: i64,
    pub(super) max: i64,
}

impl Range {
    pub(super) fn of(values: &[i64]) -> Range {
        let (min, max) = min_and_max(values);
        Range { min, max }
    }

    pub(super) fn width(&self) -> u32 {
        width_of(self.max.wrapping_sub(self.min).cast_unsigned())
    }

    /// Size of [`write_packed`] for `count` values.
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
pub(super) fn differences(values: &[i64], lag: usize) -> Vec<i64> {
    values[lag..].iter().zip(values).map(|(value, before)| value.wrapping_sub(*before)).collect()
}
}

#[inline(always)]
fn above(value: i64, base: i64) -> u64 {
    value.wrapping_sub(base).cast_unsigned()
}

pub(super) fn write_packed(values: &[i64], range: Range, out: &mut Vec<u8>) {
    out.push(range.width() as u8);
    push_signed(out, range.min);
    pack(values.iter().map(|value| above(*value, range.min)), range.width(), out);
}

/// A stream of differences of neighbours, encoded by `rest`.
pub(super) fn write_delta(values: &[i64], out: &mut Vec<u8>, rest: impl FnOnce(&[i64], &mut Vec<u8>)) {
    out.push(DELTA);
    push_signed(out, values[0]);
    rest(&differences(values, 1), out);
}

/// A periodic stream: the first `lag` values, then differences from the value `lag` positions
/// before.
pub(super) fn write_cycle(values: &[i64], lag: usize, out: &mut Vec<u8>, mut part: impl FnMut(&[i64], &mut Vec<u8>)) {
    out.push(CYCLE);
    push_varint(out, lag as u64);
    part(&values[..lag], out);
    part(&differences(values, lag), out);
}

/// Head of a scaled stream: values are `base + scale * quotient`; the stream of quotients follows.
pub(super) fn write_scaled(base: i64, scale: u64, out: &mut Vec<u8>) {
    out.push(SCALED);
    push_signed(out, base);
    push_varint(out, scale);
}

/// A split stream: quotients, then remainders, of the values above `base` divided by `scale`. No
/// value is below `base`.
pub(super) fn write_split(
    values: &[i64],
    range: Range,
    base: i64,
    scale: u64,
    out: &mut Vec<u8>,
    mut part: impl FnMut(&[i64], &mut Vec<u8>),
) {
    out.push(SPLIT);
    push_signed(out, base);
    push_varint(out, scale);
    let mut quotients = vec![0; values.len()];
    if above(range.max, base) < ROUNDED_MAX {
        divide_small(values, base, scale, &mut quotients);
    } else {
        divide(values, base, scale, &mut quotients);
    }
    part(&quotients, out);
    to_remainders(values, base, scale, &mut quotients);
    part(&quotients, out);
}

/// The bits of 2^52. Adding 2^52 to a float below 2^51 leaves its rounded value in the low bits;
/// the reverse converts back.
const MAGIC: u64 = 0x4330_0000_0000_0000;
/// Integers below this can be converted with [`MAGIC`].
const ROUNDED_MAX: u64 = 1 << 51;

multiversion! {
// A quotient that is off by one is as good: the remainder compensates.

/// Quotients of values less than [`ROUNDED_MAX`] above `base`, without conversions that vector
/// units lack.
fn divide_small(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    let (inverse, magic) = (1.0 / scale as f64, f64::from_bits(MAGIC));
    for (quotient, value) in quotients.iter_mut().zip(values) {
        let distance = f64::from_bits(MAGIC | above(*value, base)) - magic;
        // Rounds down. Rounding to the nearest would be one too high for half of the values.
        let rounded = (distance * inverse - 0.5).max(0.0) + magic;
        *quotient = rounded.to_bits().wrapping_sub(MAGIC).cast_signed();
    }
}

fn divide(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    let inverse = 1.0 / scale as f64;
    for (quotient, value) in quotients.iter_mut().zip(values) {
        *quotient = (value.wrapping_sub(base) as f64 * inverse) as i64;
    }
}

/// Replaces quotients by remainders.
fn to_remainders(values: &[i64], base: i64, scale: u64, quotients: &mut [i64]) {
    for (quotient, value) in quotients.iter_mut().zip(values) {
        *quotient = value.wrapping_sub(base).wrapping_sub(quotient.wrapping_mul(scale.cast_signed()));
    }
}
}

pub(super) fn write_runs(values: &[i64], out: &mut Vec<u8>, mut part: impl FnMut(&[i64], &mut Vec<u8>)) {
    let mut run_values = Vec::new();
    let mut lengths = Vec::new();
    for run in values.chunk_by(|a, b| a == b) {
        run_values.push(run[0]);
        lengths.push(run.len() as i64);
    }
    out.push(RUNS);
    push_varint(out, lengths.len() as u64);
    part(&run_values, out);
    part(&lengths, out);
}

pub(super) fn write_dictionary(
    entries: &[i64],
    indexes: &[i64],
    out: &mut Vec<u8>,
    mut part: impl FnMut(&[i64], &mut Vec<u8>),
) {
    out.push(DICTIONARY);
    push_varint(out, entries.len() as u64);
    part(entries, out);
    part(indexes, out);
}

/// Values of 1, 2 or 4 bits, packed into bytes that are Huffman-coded.
pub(super) struct Grouped {
    base: i64,
    width: u32,
    symbols: Vec<u8>,
    code: Code,
    pub(super) bytes: usize,
}

impl Grouped {
    /// Packs and codes the values; `None` if they need more than four bits.
    pub(super) fn of(values: &[i64], range: Range) -> Option<Grouped> {
        let width = range.width().next_power_of_two();
        if width > 4 {
            return None;
        }
        let mut symbols = Vec::with_capacity(values.len() / 2 + 8);
        pack(values.iter().map(|value| above(*value, range.min)), width, &mut symbols);
        let code = Code::of(&huffman::histogram(&symbols));
        let bytes = 2 + signed_bytes(range.min) + code.bytes;
        Some(Grouped { base: range.min, width, symbols, code, bytes })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(GROUPED);
        out.push(self.width as u8);
        push_signed(out, self.base);
        self.code.write(&self.symbols, out);
    }
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

/// Values above a base: high bits Huffman-coded, low bits packed, outliers in a list of escapes.
pub(super) struct Coded {
    base: i64,
    low_bits: u32,
    symbols: Vec<u8>,
    escapes: Vec<i64>,
    code: Code,
    /// Encoded size; an estimate if there are escapes.
    pub(super) bytes: usize,
}

impl Coded {
    /// Encodes the bits above the lowest `low_bits` of the distance from `base` as symbols.
    pub(super) fn of(values: &[i64], range: Range, base: i64, low_bits: u32) -> Coded {
        let mut symbols = vec![0; values.len()];
        let mut escapes = Vec::new();
        if base <= range.min && above(range.max, base) >> low_bits <= ESCAPE.into() {
            symbols_of(values, base, low_bits, &mut symbols);
        } else {
            symbols_or_escapes(values, base, low_bits, &mut symbols);
            find_escapes(&symbols, |at| escapes.push(values[at]));
        }
        let code = Code::of(&huffman::histogram(&symbols));
        let escaped_bytes = packed_bytes(escapes.len(), range.width()) + if escapes.is_empty() { 0 } else { 8 };
        let bytes = 4 + signed_bytes(base) + escaped_bytes + code.bytes + packed_bytes(values.len(), low_bits);
        Coded { base, low_bits, symbols, escapes, code, bytes }
    }

    pub(super) fn write(&self, values: &[i64], out: &mut Vec<u8>, part: impl FnOnce(&[i64], &mut Vec<u8>)) {
        out.push(CODED);
        push_signed(out, self.base);
        out.push(self.low_bits as u8);
        push_varint(out, self.escapes.len() as u64);
        if !self.escapes.is_empty() {
            part(&self.escapes, out);
        }
        self.code.write(&self.symbols, out);
        let mask = (1u64 << self.low_bits) - 1;
        pack(values.iter().map(|value| above(*value, self.base) & mask), self.low_bits, out);
    }
}

/// Reads a stream of `count` integers and appends them to `out`.
pub(crate) fn decode(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>) -> Result<()> {
    decode_at(reader, count, out, DEPTH_MAX)
}

/// Reads a stream of `count` integers.
pub(crate) fn decode_vec(reader: &mut Reader<'_>, count: usize) -> Result<Vec<i64>> {
    let mut values = Vec::with_capacity(count);
    decode(reader, count, &mut values)?;
    Ok(values)
}

/// Reads a stream of `count` integers, each mapped by `map`. The most common encodings are mapped
/// without an intermediate buffer.
pub(crate) fn decode_mapped<T>(reader: &mut Reader<'_>, count: usize, map: impl FnMut(i64) -> T) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(count);
    match reader.rest().first() {
        Some(width @ 1..=64) => {
            let width = u32::from(*width);
            reader.u8("integer encoding")?;
            reader.note(|| format!("packed {width} bit"));
            let base = reader.signed("base")?;
            map_packed(reader, (width, base), count, &mut out, map)?;
        }
        Some(&GROUPED) => {
            reader.u8("integer encoding")?;
            let (width, base, bytes) = read_grouped(reader, count)?;
            map_packed(&mut Reader::new(&bytes), (width, base), count, &mut out, map)?;
        }
        Some(&CODED) => {
            reader.u8("integer encoding")?;
            let coded = read_coded(reader, count, DEPTH_MAX - 1)?;
            if coded.escapes.is_empty() {
                combine(reader, &coded, None, &mut out, map)?;
            } else {
                let mut values = Vec::with_capacity(count);
                combine_with_escapes(reader, &coded, &mut values)?;
                out.extend(values.into_iter().map(map));
            }
        }
        _ => out.extend(decode_vec(reader, count)?.into_iter().map(map)),
    }
    Ok(out)
}

multiversion! {
/// Appends `count` packed values (with this width and base), each mapped by `map`.
fn map_packed[T, M: FnMut(i64) -> T](
    reader: &mut Reader<'_>, packed: (u32, i64), count: usize, out: &mut Vec<T>, map: M,
) -> Result<()> {
    let (mut map, (width, base)) = (map, packed);
    unpack_groups(reader, width, count, |_, group| {
        out.extend(group.iter().map(|bits| map(base.wrapping_add(bits.cast_signed()))));
    })
}
}

/// The value of a constant stream; `None`, and nothing is read, for other streams.
pub(crate) fn decode_constant(reader: &mut Reader<'_>) -> Result<Option<i64>> {
    if reader.rest().first() != Some(&0) {
        return Ok(None);
    }
    reader.u8("integer encoding")?;
    reader.note(|| "constant".into());
    reader.signed("base").map(Some)
}

/// Reads a stream of `count` zeros and ones.
pub(crate) fn decode_flags(reader: &mut Reader<'_>, count: usize) -> Result<BooleanBuffer> {
    // Two encodings store the flags as a bitmap.
    let bytes = match reader.rest() {
        [1, 0, ..] => {
            reader.note(|| "packed 1 bit".into());
            reader.take(2, "integer encoding")?;
            reader.take(count.div_ceil(8), "flags")?.to_vec()
        }
        [GROUPED, 1, 0, ..] => {
            reader.note(|| "coded groups of 1 bit".into());
            reader.take(3, "integer encoding")?;
            huffman::decode(reader, count.div_ceil(8))?
        }
        _ => {
            let flags = decode_vec(reader, count)?;
            if let Some(other) = flags.iter().find(|flag| !(0..=1).contains(*flag)) {
                return Err(corrupt(format!("a flag is {other}, expected 0 or 1")));
            }
            return Ok(BooleanBuffer::collect_bool(count, |index| flags[index] != 0));
        }
    };
    Ok(BooleanBuffer::new(Buffer::from_vec(bytes), 0, count))
}

fn decode_at(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(corrupt(TOO_DEEP));
    };
    match reader.u8("integer encoding")? {
        width @ 0..=64 => decode_packed(reader, u32::from(width), count, out, None),
        SCALED => decode_scaled(reader, count, out, deeper),
        DELTA => decode_delta(reader, count, out, deeper),
        RUNS => decode_runs(reader, count, out, deeper),
        DICTIONARY => decode_dictionary(reader, count, out, deeper),
        CODED => decode_coded(reader, count, out, deeper, None),
        GROUPED => decode_grouped(reader, count, out),
        CYCLE => decode_cycle(reader, count, out, deeper),
        SPLIT => decode_split(reader, count, out, deeper, (0, 1)),
        other => Err(corrupt(format!("integer encoding is {other}, at most {SPLIT} is known"))),
    }
}

/// With `sum`, the values are differences, and their running sums from `sum` on are appended, in
/// the same pass.
fn decode_packed(
    reader: &mut Reader<'_>,
    width: u32,
    count: usize,
    out: &mut Vec<i64>,
    sum: Option<i64>,
) -> Result<()> {
    reader.note(|| if width == 0 { "constant".into() } else { format!("packed {width} bit") });
    let base = reader.signed("base")?;
    match sum {
        None if width == 0 => {
            out.resize(out.len() + count, base);
            Ok(())
        }
        None => unpack(reader, width, count, out, |bits| base.wrapping_add(bits.cast_signed())),
        Some(sum) if width == 0 => {
            let start = out.len();
            out.resize(start + count, 0);
            fill_line(&mut out[start..], sum.wrapping_add(base), base);
            Ok(())
        }
        Some(mut sum) => {
            out.reserve(count);
            unpack_groups(reader, width, count, |_, group| {
                let mut values = [0; GROUP];
                sum = write_running_sums(
                    group.iter().map(|bits| base.wrapping_add(bits.cast_signed())),
                    sum,
                    &mut values,
                );
                out.extend_from_slice(&values[..group.len()]);
            })
        }
    }
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

multiversion! {
/// Fills `out` with the line `first`, `first + step` and so on.
pub(super) fn fill_line(out: &mut [i64], first: i64, step: i64) {
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

fn multiply(values: &mut [i64], base: i64, scale: i64) {
    values.iter_mut().for_each(|value| *value = base.wrapping_add(value.wrapping_mul(scale)));
}

fn multiply_and_add(values: &mut [i64], line: (i64, i64), rests: &[i64], unit: i64) {
    let (base, scale) = line;
    for (value, rest) in values.iter_mut().zip(rests) {
        *value = base.wrapping_add(value.wrapping_mul(scale)).wrapping_add(rest.wrapping_mul(unit));
    }
}

/// Multiplies each value by `unit` and adds the line `first`, `first + step` and so on.
fn add_line(values: &mut [i64], unit: i64, first: i64, step: i64) {
    let mut line = first;
    for value in values {
        *value = value.wrapping_mul(unit).wrapping_add(line);
        line = line.wrapping_add(step);
    }
}

/// Adds `before[i]` to `values[i]`.
fn add_each(values: &mut [i64], before: &[i64]) {
    values.iter_mut().zip(before).for_each(|(value, before)| *value = value.wrapping_add(*before));
}
}

fn decode_scaled(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    reader.note(|| format!("{scale} x "));
    let Some(deeper) = depth.checked_sub(1) else { return Err(corrupt(TOO_DEEP)) };
    if reader.rest().first() == Some(&SPLIT) {
        reader.u8("integer encoding")?;
        return decode_split(reader, count, out, deeper, (base, scale));
    }
    let start = out.len();
    decode_at(reader, count, out, depth)?;
    multiply(&mut out[start..], base, scale);
    Ok(())
}

fn decode_delta(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    reader.note(|| "delta (".into());
    let Some(count) = count.checked_sub(1) else {
        return Err(corrupt("delta stream of no values"));
    };
    let first = reader.signed("first value")?;
    out.push(first);
    match reader.rest() {
        [width @ 0..=64, ..] => {
            reader.u8("integer encoding")?;
            decode_packed(reader, u32::from(*width), count, out, Some(first))?;
        }
        [CODED, ..] => {
            reader.u8("integer encoding")?;
            decode_coded(reader, count, out, depth.saturating_sub(1), Some(first))?;
        }
        _ => {
            let start = out.len();
            decode_at(reader, count, out, depth)?;
            to_running_sums(first, &mut out[start..]);
        }
    }
    reader.note(|| ")".into());
    Ok(())
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

fn decode_cycle(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let lag = reader.count(count, "length of the cycle")?;
    if lag == 0 {
        return Err(corrupt("cycle of length 0"));
    }
    reader.note(|| format!("cycle of {lag} ("));
    let start = out.len();
    decode_at(reader, lag, out, depth)?;
    reader.note(|| ", changes ".into());
    decode_at(reader, count - lag, out, depth)?;
    reader.note(|| ")".into());
    let mut before = &mut out[start..];
    while before.len() > lag {
        let (first, rest) = before.split_at_mut(lag);
        add_each(rest, first);
        before = rest;
    }
    Ok(())
}

/// `outer` is the base and scale of an enclosing scaled stream, applied in the same pass.
fn decode_split(
    reader: &mut Reader<'_>,
    count: usize,
    out: &mut Vec<i64>,
    depth: u32,
    outer: (i64, i64),
) -> Result<()> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    reader.note(|| format!("{scale} x ("));
    let base = outer.0.wrapping_add(base.wrapping_mul(outer.1));
    let scale = scale.wrapping_mul(outer.1);
    let start = out.len();
    if let Some((first, step)) = read_constant_delta(reader, count)? {
        reader.note(|| "delta (constant)) + (".into());
        decode_at(reader, count, out, depth)?;
        let first = base.wrapping_add(first.wrapping_mul(scale));
        add_line(&mut out[start..], outer.1, first, step.wrapping_mul(scale));
    } else {
        decode_at(reader, count, out, depth)?;
        reader.note(|| ") + (".into());
        let mut rests = Vec::with_capacity(count);
        decode_at(reader, count, &mut rests, depth)?;
        multiply_and_add(&mut out[start..], (base, scale), &rests, outer.1);
    }
    reader.note(|| ")".into());
    Ok(())
}

/// Reads a delta stream with a constant difference: first value and difference. Reads nothing from
/// other streams.
fn read_constant_delta(reader: &mut Reader<'_>, count: usize) -> Result<Option<(i64, i64)>> {
    if count == 0 || reader.rest().first() != Some(&DELTA) {
        return Ok(None);
    }
    let mut ahead = Reader::new(reader.rest());
    ahead.u8("integer encoding")?;
    let first = ahead.signed("first value")?;
    if ahead.rest().first() != Some(&0) {
        return Ok(None);
    }
    ahead.u8("integer encoding")?;
    let step = ahead.signed("base")?;
    reader.take(reader.remaining() - ahead.remaining(), "line")?;
    Ok(Some((first, step)))
}

fn decode_runs(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let runs = reader.count(count, "number of runs")?;
    reader.note(|| format!("{runs} runs ("));
    let mut values = Vec::with_capacity(runs);
    decode_at(reader, runs, &mut values, depth)?;
    reader.note(|| ", lengths ".into());
    let mut lengths = Vec::with_capacity(runs);
    decode_at(reader, runs, &mut lengths, depth)?;
    reader.note(|| ")".into());
    let mut left = count;
    for (value, length) in values.iter().zip(&lengths) {
        let length = usize::try_from(*length).unwrap_or(0);
        if length == 0 || length > left {
            return Err(corrupt(format!("a run is {length} long with {left} values left")));
        }
        left -= length;
        out.resize(out.len() + length, *value);
    }
    if left == 0 { Ok(()) } else { Err(corrupt(format!("runs end {left} values early"))) }
}

fn decode_dictionary(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let distinct = reader.count(count, "dictionary size")?;
    reader.note(|| format!("dictionary of {distinct} ("));
    let mut entries = Vec::with_capacity(distinct);
    decode_at(reader, distinct, &mut entries, depth)?;
    reader.note(|| ", indexes ".into());
    let start = out.len();
    decode_at(reader, count, out, depth)?;
    reader.note(|| ")".into());
    let Some(last) = distinct.checked_sub(1) else { return Err(corrupt("empty dictionary")) };
    let mut highest = 0;
    for value in &mut out[start..] {
        let index = value.cast_unsigned();
        highest = highest.max(index);
        *value = entries[(index as usize).min(last)];
    }
    if highest > last as u64 {
        return Err(corrupt(format!("dictionary index {highest} of a dictionary of {distinct}")));
    }
    Ok(())
}

fn decode_grouped(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>) -> Result<()> {
    let (width, base, bytes) = read_grouped(reader, count)?;
    unpack(&mut Reader::new(&bytes), width, count, out, |bits| base.wrapping_add(bits.cast_signed()))
}

/// Bit width, base, and packed values.
fn read_grouped(reader: &mut Reader<'_>, count: usize) -> Result<(u32, i64, Vec<u8>)> {
    let width = u32::from(reader.u8("bit width")?);
    if ![1, 2, 4].contains(&width) {
        return Err(corrupt(format!("groups of {width} bit, expected 1, 2 or 4")));
    }
    reader.note(|| format!("coded groups of {width} bit"));
    let base = reader.signed("base")?;
    Ok((width, base, huffman::decode(reader, packed_bytes(count, width))?))
}

/// `sum`: see [`decode_packed`].
fn decode_coded(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32, sum: Option<i64>) -> Result<()> {
    let coded = read_coded(reader, count, depth)?;
    let start = out.len();
    out.reserve(count);
    if coded.escapes.is_empty() {
        return combine(reader, &coded, sum, out, |value| value);
    }
    combine_with_escapes(reader, &coded, out)?;
    if let Some(sum) = sum {
        to_running_sums(sum, &mut out[start..]);
    }
    Ok(())
}

fn read_coded(reader: &mut Reader<'_>, count: usize, depth: u32) -> Result<CodedParts> {
    let base = reader.signed("base")?;
    let low_bits = u32::from(reader.u8("low bits")?);
    if low_bits > 63 {
        return Err(corrupt(format!("{low_bits} low bits, at most 63 are possible")));
    }
    reader.note(|| format!("coded above {low_bits} bit"));
    let escaped = reader.count(count, "number of escapes")?;
    let mut escapes = Vec::with_capacity(escaped);
    if escaped > 0 {
        reader.note(|| format!(", {escaped} escapes ("));
        decode_at(reader, escaped, &mut escapes, depth)?;
        reader.note(|| ")".into());
    }
    Ok(CodedParts { symbols: huffman::decode(reader, count)?, base, low_bits, escapes })
}

/// Appends the values, with escapes replaced by their values.
fn combine_with_escapes(reader: &mut Reader<'_>, coded: &CodedParts, out: &mut Vec<i64>) -> Result<()> {
    let start = out.len();
    combine(reader, coded, None, out, |value| value)?;
    fill_escapes(&coded.symbols, &coded.escapes, &mut out[start..])
}

/// The parts of a coded stream, except for the low bits, which are not read yet.
struct CodedParts {
    symbols: Vec<u8>,
    base: i64,
    low_bits: u32,
    /// Values of the escapes.
    escapes: Vec<i64>,
}

multiversion! {
/// Combines each symbol with its low bits and appends it, mapped by `map`. With `sum`: running
/// sums, as in [`decode_packed`].
fn combine[T, M: FnMut(i64) -> T](
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
