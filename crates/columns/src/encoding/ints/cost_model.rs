//! Chooses the encoding of an integer stream from the offers in the table of encodings.
//!
//! Sizes that are cheap to compute are exact: packed and Huffman-coded sizes follow from bounds and
//! histogram, and runs and dictionaries are written if they are small. Transforms (differences,
//! cycles, splits) cost a pass over all values each, so a sample decides: it estimates the
//! Huffman-coded size from the bit lengths of the values. If the result is larger than bit packing,
//! it is replaced by that, so no stream is larger than packed.

use std::cell::OnceCell;
use std::sync::LazyLock;

use super::super::cpu::multiversion;
use super::super::features::Features;
use super::{Bounds, DEPTH_MAX, ENCODINGS, Encoding, packed};

/// Stretches of the sample.
const STRETCHES: usize = 4;
/// Values of a stretch.
pub(super) const STRETCH: usize = 64;
/// Values of the sample.
pub(super) const SAMPLE: usize = STRETCHES * STRETCH;
/// Huffman coding must save 1/32 of the packed size, because packed values are several times faster
/// to read.
const CODED_GAIN: usize = 32;
/// Streams that are expected to take at most this many bits per value are not searched for patterns.
pub(super) const PATTERN_BITS_MIN: f64 = 1.5;

/// A reason to use an encoding. The functions return `None` if there is none for the stream.
pub(super) enum Offer {
    /// No other encoding is looked at.
    Certain(for<'a> fn(&'a Stream<'a>) -> Option<Encode<'a>>),
    /// A transform: its expected bits per value. Only the transform with the fewest is written. The second argument
    /// is the number to beat: see [`saves`].
    Estimate(for<'a> fn(&'a Stream<'a>, f64) -> Option<(f64, Encode<'a>)>),
    /// Written, and kept if it is the smallest. The second argument is the number of bits per value that the best
    /// transform is expected to take.
    Attempt(for<'a> fn(&'a Stream<'a>, f64) -> Option<Encode<'a>>),
    /// No nested streams: the exact size in bytes. The smallest one is written if no transform is better.
    Exact(for<'a> fn(&'a Stream<'a>) -> Option<(usize, Encode<'a>)>),
}

/// Appends a stream without its tag; returns the features of nested streams.
pub(super) type Encode<'a> = Box<dyn FnOnce(Options, &mut Vec<u8>) -> Features + 'a>;

/// Values to encode: at least three, not all equal.
pub(super) struct Stream<'a> {
    pub(super) values: &'a [i64],
    pub(super) bounds: Bounds,
    pub(super) options: Options,
    changes: OnceCell<usize>,
}

impl Stream<'_> {
    /// Number of values that differ from their predecessor.
    pub(super) fn changes(&self) -> usize {
        *self.changes.get_or_init(|| changes(self.values))
    }
}

/// The encodings that may be used for a stream, given those that enclose it.
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// Remaining levels of nesting.
    depth: u32,
    /// Remaining levels of differences.
    pub(super) deltas: u32,
    /// Encodings that are not looked at.
    without: Features,
}

impl Options {
    /// Options of a stream inside of one with these options.
    pub(super) fn deeper(self) -> Options {
        assert!(self.depth > 0, "BUG: a stream nested deeper than {DEPTH_MAX}");
        Options { depth: self.depth - 1, ..self }
    }

    pub(super) fn without(self, encodings: Features) -> Options {
        Options { without: self.without | encodings, ..self }
    }

    pub(super) fn with_fewer_deltas(self) -> Options {
        Options { deltas: self.deltas.saturating_sub(1), ..self }
    }

    /// Offers of the encodings that may be used.
    fn offers(self) -> impl Iterator<Item = (&'static Encoding, &'static Offer)> {
        let allowed = ENCODINGS.iter().filter(move |encoding| encoding.feature.is_disjoint(self.without));
        allowed.flat_map(|encoding| encoding.offers.iter().map(|offer| (*encoding, offer)))
    }
}

/// Estimated bits per value (at least one): the minimum for Huffman coding of the values, of their
/// differences or second differences, or for dictionary indexes.
pub(in super::super) fn expected_bits(values: &[i64]) -> f64 {
    let plain = sample(values, 0, <[i64]>::to_vec);
    let deltas = estimated_bits(&sample(values, 1, neighbour_differences));
    let twice = estimated_bits(&sample(values, 2, |stretch| neighbour_differences(&neighbour_differences(stretch))));
    estimated_bits(&plain).min(index_bits(&plain)).min(deltas).min(twice)
}

/// Whether a transform of `bits` per value is worth it: it costs a pass when it is read, so it must save 1/32.
pub(super) fn saves(bits: f64, beat: f64) -> bool {
    bits < beat * (1.0 - 1.0 / 32.0)
}

/// Appends `values` (at least one) in the smallest encoding found.
pub(super) fn write(values: &[i64], out: &mut Vec<u8>) -> Features {
    write_best(values, Options { depth: DEPTH_MAX - 1, deltas: 6, without: Features::NONE }, out)
}

pub(super) fn write_best(values: &[i64], options: Options, out: &mut Vec<u8>) -> Features {
    write_best_in(values, Bounds::of(values), options, out)
}

/// Like [`write_best`], for values whose bounds are known.
pub(super) fn write_best_in(values: &[i64], bounds: Bounds, options: Options, out: &mut Vec<u8>) -> Features {
    if bounds.width() == 0 || values.len() < 3 || options.depth == 0 {
        return packed::write(values, bounds, out);
    }
    debug_assert!(values.iter().all(|value| bounds.contains(*value)), "BUG: a value outside of its bounds");
    let start = out.len();
    let features = write_unpacked(&Stream { values, bounds, options, changes: OnceCell::new() }, out);
    if out.len() - start > bounds.packed_bytes(values.len()) {
        out.truncate(start);
        return packed::write(values, bounds, out);
    }
    features
}

/// Appends a stream by an encoding that may be larger than packed.
fn write_unpacked(stream: &Stream<'_>, out: &mut Vec<u8>) -> Features {
    let mut options = stream.options;
    for (encoding, offer) in options.offers() {
        if let Offer::Certain(of) = offer
            && let Some(encode) = of(stream)
        {
            return write_as(encoding, encode, options, out);
        }
    }
    let (bits, transform) = best_transform(stream);
    let expected = (bits * stream.values.len() as f64 / 8.0) as usize;
    let start = out.len();
    let mut kept = Features::NONE;
    let mut other = Vec::with_capacity(expected + 256);
    for (encoding, offer) in stream.options.offers() {
        if let Offer::Attempt(of) = offer
            && let Some(encode) = of(stream, bits)
        {
            let features = write_as(encoding, encode, options, &mut other);
            if keep_smaller(out, start, &mut other) {
                kept = features;
                // The encoding that suits the values hardly suits their transform too.
                options = options.without(encoding.feature);
            }
        }
    }
    // Skip the transforms if the current result is at most half of their estimate.
    if out.len() == start || expected < 2 * (out.len() - start) {
        let features = match transform {
            Some((encoding, encode)) => write_as(encoding, encode, options, &mut other),
            None => write_untransformed(stream, options, &mut other),
        };
        if keep_smaller(out, start, &mut other) {
            kept = features;
        }
    }
    kept
}

/// Appends tag and stream.
fn write_as(encoding: &Encoding, encode: Encode<'_>, options: Options, out: &mut Vec<u8>) -> Features {
    out.push(*encoding.tags.start());
    encoding.feature | encode(options, out)
}

/// Replaces the contents of `out` from `start` on by `other` if they are empty or larger; clears
/// `other`. Returns whether it did.
fn keep_smaller(out: &mut Vec<u8>, start: usize, other: &mut Vec<u8>) -> bool {
    let is_smaller = out.len() == start || other.len() < out.len() - start;
    if is_smaller {
        out.truncate(start);
        out.append(other);
    }
    other.clear();
    assert!(out.len() > start, "BUG: an attempt to encode wrote nothing");
    is_smaller
}

/// A transform, with its expected bits per value; `None` if the values are better without.
type Transform<'a> = Option<(&'static Encoding, Encode<'a>)>;

fn best_transform<'a>(stream: &'a Stream<'a>) -> (f64, Transform<'a>) {
    let mut best: (f64, Transform<'a>) = (estimated_bits(&sample(stream.values, 0, <[i64]>::to_vec)), None);
    for (encoding, offer) in stream.options.offers() {
        if let Offer::Estimate(of) = offer
            && let Some((bits, encode)) = of(stream, best.0)
            && saves(bits, best.0)
        {
            best = (bits, Some((encoding, encode)));
        }
    }
    best
}

/// Appends `values` packed or Huffman-coded.
fn write_untransformed(stream: &Stream<'_>, options: Options, out: &mut Vec<u8>) -> Features {
    let packed_bytes = stream.bounds.packed_bytes(stream.values.len());
    let mut beat = packed_bytes - packed_bytes / CODED_GAIN;
    let mut best = None;
    for (encoding, offer) in options.offers() {
        if let Offer::Exact(of) = offer
            && let Some((bytes, encode)) = of(stream)
            && bytes < beat
        {
            (beat, best) = (bytes, Some((encoding, encode)));
        }
    }
    match best {
        Some((encoding, encode)) => write_as(encoding, encode, options, out),
        None => packed::write(stream.values, stream.bounds, out),
    }
}

multiversion! {
/// Number of values that differ from their predecessor.
fn changes(values: &[i64]) -> usize {
    let pairs = values.iter().zip(&values[1..]);
    pairs.map(|(before, value)| u64::from(before != value)).sum::<u64>() as usize
}
}

/// Entropy of dictionary indexes, in bits per value; infinite if most values occur once.
pub(super) fn index_bits(values: &[i64]) -> f64 {
    let mut table = Distinct::new(values.len());
    let mut counts = vec![0u32; values.len()];
    values
        .iter()
        .filter_map(|value| table.index_of(*value, values.len()))
        .for_each(|index| counts[index as usize] += 1);
    if table.values.len() * 4 > values.len() * 3 {
        return f64::INFINITY;
    }
    entropy(&counts, values.len())
}

/// Entropy in bits per item, for `all` items with these counts per class.
fn entropy(counts: &[u32], all: usize) -> f64 {
    let taken: f64 = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) * log2(*count)).sum();
    log2(all as u32) - taken / all as f64
}

/// Base-2 logarithms of counts in a sample.
static LOGARITHMS: LazyLock<[f64; 512]> = LazyLock::new(|| std::array::from_fn(|count| (count as f64).log2()));

fn log2(count: u32) -> f64 {
    LOGARITHMS.get(count as usize).copied().unwrap_or_else(|| f64::from(count).log2())
}

/// A hash table that numbers distinct values in order of first appearance.
pub(super) struct Distinct {
    pub(super) values: Vec<i64>,
    /// Open addressing: value and 1 + number; 0 marks a free slot.
    places: Vec<(i64, u32)>,
    shift: u32,
}

impl Distinct {
    /// A table for up to `most` values.
    pub(super) fn new(most: usize) -> Distinct {
        let bits = (most * 2).next_power_of_two().ilog2().max(4);
        Distinct { values: Vec::new(), places: vec![(0, 0); 1 << bits], shift: 64 - bits }
    }

    /// The number of `value`; `None` if it would exceed `most` values.
    #[inline]
    pub(super) fn index_of(&mut self, value: i64, most: usize) -> Option<i64> {
        let mut place = (value.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        loop {
            match self.places[place] {
                (_, 0) if self.values.len() == most => return None,
                (_, 0) => {
                    self.values.push(value);
                    self.places[place] = (value, self.values.len() as u32);
                    return Some(self.values.len() as i64 - 1);
                }
                (other, index) if other == value => return Some(i64::from(index) - 1),
                _ => place = (place + 1) & (self.places.len() - 1),
            }
        }
    }

    /// Sorts the values; returns the new number for each old one.
    pub(super) fn sort(&mut self) -> Vec<i64> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_unstable_by_key(|index| self.values[*index]);
        let mut ranks = vec![0; order.len()];
        order.iter().enumerate().for_each(|(rank, index)| ranks[*index] = rank as i64);
        self.values.sort_unstable();
        ranks
    }
}

/// Applies `of` to each stretch of the sample, or to all values if there are few, and concatenates
/// the results. `before` values are added in front of each stretch.
pub(super) fn sample(values: &[i64], before: usize, of: impl Fn(&[i64]) -> Vec<i64>) -> Vec<i64> {
    if values.len() <= SAMPLE + before {
        return of(values);
    }
    let step = (values.len() - STRETCH - before) / (STRETCHES - 1);
    (0..STRETCHES).flat_map(|stretch| of(&values[stretch * step..][..before + STRETCH])).collect()
}

/// Differences of neighbours.
pub(super) fn neighbour_differences(values: &[i64]) -> Vec<i64> {
    values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
}

/// Estimated bits per value of Huffman coding: the entropy of the bit lengths of the distances from
/// the median, plus these lengths.
pub(super) fn estimated_bits(values: &[i64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = approximate_median(values);
    let mut counts = [0u32; 65];
    for value in values {
        counts[(64 - value.abs_diff(middle).leading_zeros()) as usize] += 1;
    }
    let lengths: u64 = counts.iter().zip(0..).map(|(count, length)| u64::from(*count) * length).sum();
    entropy(&counts, values.len()) + lengths as f64 / values.len() as f64
}

/// The median of a few of the values.
fn approximate_median(values: &[i64]) -> i64 {
    const SOME: usize = 48;
    let mut some: Vec<i64> = values.iter().step_by(values.len().div_ceil(SOME)).copied().collect();
    median(&mut some)
}

pub(super) fn median(values: &mut [i64]) -> i64 {
    let half = values.len() / 2;
    *values.select_nth_unstable(half).1
}
