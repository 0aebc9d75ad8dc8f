//! Integers: everything else (times, flags, decimals, dictionary indexes, lengths) comes down to these.
//!
//! A *stream* is n >= 1 integers, n known to the reader: packed into a fixed width above their minimum, or a delta,
//! runs or a dictionary made of streams. Bytes: docs/format/segment.md, "Integer streams".
//!
//! All arithmetic wraps, so any 64 bits round-trip. Regular timestamps are a delta of a constant. The choice is a plan
//! made from sizes known before anything is written.

use model::Result;

use super::bits::{pack, packed_bytes, unpack, width_of};
use super::wire::{Reader, corrupt, push_signed, push_varint, signed_bytes, varint_bytes};

const SCALED: u8 = 65;
const DELTA: u8 = 66;
const RUNS: u8 = 67;
const DICTIONARY: u8 = 68;

/// Deepest nesting a decoder follows. The encoder reaches 4, as no encoding contains itself.
const DEPTH_MAX: u32 = 4;
/// Most distinct values of a dictionary.
const DICTIONARY_VALUES_MAX: usize = 256;

/// How to write some integers, and how many bytes that takes.
pub(crate) struct Plan<'a> {
    /// Exact size of what [`Plan::write`] appends.
    pub(crate) bytes: usize,
    shape: Shape<'a>,
}

enum Shape<'a> {
    Packed {
        values: &'a [i64],
        base: i64,
        scale: u64,
        width: u32,
    },
    /// Already written: what these forms are made of lives only while planning.
    Written(Vec<u8>),
}

/// The encodings a plan may still use; none contains itself.
#[derive(Clone, Copy)]
struct Allowed {
    delta: bool,
    runs: bool,
    dictionary: bool,
}

/// Plans `values` (at least one).
pub(crate) fn plan(values: &[i64]) -> Plan<'_> {
    plan_with(values, Allowed { delta: true, runs: true, dictionary: true })
}

/// Appends `values` (at least one) in the smallest form.
pub(crate) fn encode(values: &[i64], out: &mut Vec<u8>) {
    plan(values).write(out);
}

fn plan_with(values: &[i64], allowed: Allowed) -> Plan<'_> {
    let mut best = plan_packed(values);
    let Shape::Packed { width, .. } = best.shape else { return best };
    // Below one bit a value there is little to win, and with a handful of values headers outweigh it.
    if width == 0 || values.len() < 3 {
        return best;
    }
    if allowed.runs {
        replace_if_smaller(&mut best, plan_runs(values, Allowed { runs: false, ..allowed }));
    }
    if allowed.delta {
        let beat = best.bytes;
        replace_if_smaller(&mut best, plan_delta(values, Allowed { delta: false, ..allowed }, beat));
    }
    if allowed.dictionary {
        replace_if_smaller(&mut best, plan_dictionary(values, width, Allowed { dictionary: false, ..allowed }));
    }
    best
}

fn replace_if_smaller<'a>(best: &mut Plan<'a>, other: Option<Plan<'a>>) {
    if let Some(other) = other
        && other.bytes < best.bytes
    {
        *best = other;
    }
}

fn plan_packed(values: &[i64]) -> Plan<'_> {
    let (base, max) = values.iter().fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(*value), max.max(*value)));
    let range = max.wrapping_sub(base).cast_unsigned();
    let scale = common_divisor(values, base, range);
    let width = width_of(range / scale);
    let head = if scale == 1 { 1 } else { 2 + varint_bytes(scale) };
    let bytes = head + signed_bytes(base) + packed_bytes(values.len(), width);
    Plan { bytes, shape: Shape::Packed { values, base, scale, width } }
}

/// The greatest number all `value - base` are multiples of; 1 when there is nothing to divide. Typical data reach 1
/// within a few values, data with a coarser unit (milliseconds in nanoseconds) pay one division a value.
fn common_divisor(values: &[i64], base: i64, range: u64) -> u64 {
    let mut divisor = range;
    for value in values {
        if divisor <= 1 {
            return 1;
        }
        let above = value.wrapping_sub(base).cast_unsigned();
        if !above.is_multiple_of(divisor) {
            divisor = gcd(above, divisor);
        }
    }
    divisor.max(1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn plan_runs(values: &[i64], allowed: Allowed) -> Option<Plan<'_>> {
    let count = 1 + values.windows(2).filter(|pair| pair[0] != pair[1]).count();
    if count * 2 > values.len() {
        return None;
    }
    let mut run_values = Vec::with_capacity(count);
    let mut lengths = Vec::with_capacity(count);
    for run in values.chunk_by(|a, b| a == b) {
        run_values.push(run[0]);
        lengths.push(run.len() as i64);
    }
    let mut written = vec![RUNS];
    push_varint(&mut written, count as u64);
    plan_with(&run_values, allowed).write(&mut written);
    plan_with(&lengths, allowed).write(&mut written);
    Some(written_plan(written))
}

fn plan_delta(values: &[i64], allowed: Allowed, beat: usize) -> Option<Plan<'_>> {
    let deltas: Vec<i64> = values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
    let inner = plan_with(&deltas, allowed);
    let bytes = 1 + signed_bytes(values[0]) + inner.bytes;
    if bytes >= beat {
        return None;
    }
    let mut written = Vec::with_capacity(bytes);
    written.push(DELTA);
    push_signed(&mut written, values[0]);
    inner.write(&mut written);
    Some(written_plan(written))
}

fn plan_dictionary(values: &[i64], packed_width: u32, allowed: Allowed) -> Option<Plan<'_>> {
    // An index must save at least two bits a value, or the dictionary cannot pay for itself.
    if packed_width < 3 {
        return None;
    }
    let most = DICTIONARY_VALUES_MAX.min(values.len() / 4).min(1 << (packed_width - 2).min(16));
    let distinct = distinct_values(values, most)?;
    let width = width_of(distinct.len() as u64 - 1);
    let mut written = vec![DICTIONARY];
    push_varint(&mut written, distinct.len() as u64);
    plan_with(&distinct, allowed).write(&mut written);
    written.push(width as u8);
    let index_of = |value: &i64| distinct.binary_search(value).map_or(0, |index| index as u64);
    pack(values.iter().map(index_of), width, &mut written);
    Some(written_plan(written))
}

/// The distinct values, sorted, if there are at most `most`. Gives up as soon as there are more.
fn distinct_values(values: &[i64], most: usize) -> Option<Vec<i64>> {
    let mut distinct: Vec<i64> = Vec::new();
    let mut previous = None;
    let mut seen = rustc_hash::FxHashSet::default();
    for value in values {
        if previous == Some(*value) || !seen.insert(*value) {
            previous = Some(*value);
            continue;
        }
        previous = Some(*value);
        distinct.push(*value);
        if distinct.len() > most {
            return None;
        }
    }
    distinct.sort_unstable();
    Some(distinct)
}

fn written_plan<'a>(written: Vec<u8>) -> Plan<'a> {
    Plan { bytes: written.len(), shape: Shape::Written(written) }
}

impl Plan<'_> {
    /// Appends the stream.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let before = out.len();
        match &self.shape {
            Shape::Packed { values, base, scale, width } => write_packed(values, *base, *scale, *width, out),
            Shape::Written(written) => out.extend_from_slice(written),
        }
        debug_assert_eq!(out.len() - before, self.bytes, "BUG: a plan must know its size");
    }
}

fn write_packed(values: &[i64], base: i64, scale: u64, width: u32, out: &mut Vec<u8>) {
    let above = values.iter().map(|value| value.wrapping_sub(base).cast_unsigned());
    if scale == 1 {
        out.push(width as u8);
        push_signed(out, base);
        pack(above, width, out);
    } else {
        out.push(SCALED);
        push_signed(out, base);
        push_varint(out, scale);
        out.push(width as u8);
        pack(above.map(|value| value / scale), width, out);
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

fn decode_at(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    let Some(deeper) = depth.checked_sub(1) else {
        return Err(corrupt("integers are nested too deeply"));
    };
    match reader.u8("integer encoding")? {
        width @ 0..=64 => decode_packed(reader, u32::from(width), count, out),
        SCALED => decode_scaled(reader, count, out),
        DELTA => decode_delta(reader, count, out, deeper),
        RUNS => decode_runs(reader, count, out, deeper),
        DICTIONARY => decode_dictionary(reader, count, out, deeper),
        other => Err(corrupt(format!("integer encoding is {other}, at most {DICTIONARY} is known"))),
    }
}

fn decode_packed(reader: &mut Reader<'_>, width: u32, count: usize, out: &mut Vec<i64>) -> Result<()> {
    reader.note(|| if width == 0 { "constant".into() } else { format!("packed {width} bit") });
    let base = reader.signed("base")?;
    unpack(reader, width, count, out, |bits| base.wrapping_add(bits.cast_signed()))
}

fn decode_scaled(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>) -> Result<()> {
    let base = reader.signed("base")?;
    let scale = reader.varint("scale")?.cast_signed();
    let width = u32::from(reader.u8("bit width")?);
    reader.note(|| format!("packed {width} bit x {scale}"));
    unpack(reader, width, count, out, |bits| base.wrapping_add(bits.cast_signed().wrapping_mul(scale)))
}

fn decode_delta(reader: &mut Reader<'_>, count: usize, out: &mut Vec<i64>, depth: u32) -> Result<()> {
    reader.note(|| "delta (".into());
    let Some(count) = count.checked_sub(1) else {
        return Err(corrupt("delta of no values"));
    };
    let mut sum = reader.signed("first value")?;
    out.push(sum);
    let start = out.len();
    decode_at(reader, count, out, depth)?;
    for value in &mut out[start..] {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
    reader.note(|| ")".into());
    Ok(())
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
    let mut values = Vec::with_capacity(distinct);
    decode_at(reader, distinct, &mut values, depth)?;
    let width = u32::from(reader.u8("bit width")?);
    reader.note(|| format!(", indexes packed {width} bit)"));
    let mut indexes: Vec<u64> = Vec::new();
    unpack(reader, width, count, &mut indexes, |bits| bits)?;
    let highest = indexes.iter().copied().max().unwrap_or(0);
    if highest >= distinct as u64 {
        return Err(corrupt(format!("dictionary index {highest} of a dictionary of {distinct}")));
    }
    out.extend(indexes.iter().map(|index| values[*index as usize]));
    Ok(())
}
