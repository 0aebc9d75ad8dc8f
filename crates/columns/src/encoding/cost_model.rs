//! Chooses the encoding of an integer stream.
//!
//! Sizes that are cheap to compute are exact: packed and Huffman-coded sizes follow from range and
//! histogram, and runs and dictionaries are written if they are small. Transforms (differences,
//! cycles, splits) cost a pass over all values each, so a sample decides: it estimates the
//! Huffman-coded size from the bit lengths of the values. If the result is larger than bit packing,
//! it is replaced by that, so no stream is larger than packed.

use std::sync::LazyLock;

use super::cpu::multiversion;
use super::ints::{self, Coded, DEPTH_MAX, Grouped, Range};

/// Stretches of the sample.
const STRETCHES: usize = 4;
/// Values of a stretch.
const STRETCH: usize = 64;
/// Most distinct values of a dictionary.
const DICTIONARY_MAX: usize = 2_048;
/// Values of at most this many estimated bits are not tried as a dictionary.
const DICTIONARY_BITS_MIN: f64 = 5.0;
/// Shorter streams are not Huffman-coded: the code table would cost more than it saves.
const CODED_MIN: usize = 48;
/// Huffman coding must save 1/32 of the packed size, because packed values are several times faster
/// to read.
const CODED_GAIN: usize = 32;

/// Encodings that may be used for a stream, given those that enclose it.
#[derive(Clone, Copy)]
struct Options {
    /// Remaining levels of nesting.
    depth: u32,
    deltas: u32,
    scale: bool,
    runs: bool,
    dictionary: bool,
    /// Cycles and splits.
    patterns: bool,
}

impl Options {
    fn deeper(self) -> Options {
        Options { depth: self.depth - 1, ..self }
    }
}

/// Estimated bits per value (at least one): the minimum for Huffman coding of the values, of their
/// differences or second differences, or for dictionary indexes.
pub(super) fn expected_bits(values: &[i64]) -> f64 {
    let plain = sample(values, 0, <[i64]>::to_vec);
    let deltas = estimated_bits(&sample(values, 1, differences));
    let twice = estimated_bits(&sample(values, 2, |stretch| differences(&differences(stretch))));
    estimated_bits(&plain).min(index_bits(&plain)).min(deltas).min(twice)
}

/// Appends `values` (at least one) in the smallest encoding found.
pub(super) fn write(values: &[i64], out: &mut Vec<u8>) {
    let all = Options { depth: DEPTH_MAX - 1, deltas: 6, scale: true, runs: true, dictionary: true, patterns: true };
    write_best(values, all, out);
}

fn write_best(values: &[i64], options: Options, out: &mut Vec<u8>) {
    write_best_in(values, Range::of(values), options, out);
}

/// Like [`write_best`], for values whose range is known.
fn write_best_in(values: &[i64], range: Range, options: Options, out: &mut Vec<u8>) {
    if range.width() == 0 || values.len() < 3 || options.depth == 0 {
        return ints::write_packed(values, range, out);
    }
    let start = out.len();
    write_unpacked(values, range, options, out);
    if out.len() - start > range.packed_bytes(values.len()) {
        out.truncate(start);
        ints::write_packed(values, range, out);
    }
}

/// Appends `values`, which are not all equal, in an encoding that may be larger than packed.
fn write_unpacked(values: &[i64], range: Range, options: Options, out: &mut Vec<u8>) {
    let deeper = options.deeper();
    if options.deltas > 0 && is_regular(values) {
        return ints::write_delta(values, out, |deltas, out| write_best(deltas, deeper, out));
    }
    if options.scale
        && let Some((scale, quotients)) = divide_by_common_divisor(values, range)
    {
        ints::write_scaled(range.min, scale, out);
        let range = Range { min: 0, max: (range.max.wrapping_sub(range.min).cast_unsigned() / scale).cast_signed() };
        return write_best_in(&quotients, range, Options { scale: false, ..deeper }, out);
    }
    let start = out.len();
    let changes = changes(values);
    if options.runs && changes <= values.len() / 3 {
        let within = Options { runs: false, scale: false, patterns: false, ..deeper };
        ints::write_runs(values, out, |part, out| write_best(part, within, out));
        // Hardly any encoding is smaller than so few runs.
        if changes <= values.len() / 64 {
            return;
        }
    }
    let next = if out.len() > start { Options { runs: false, ..options } } else { options };
    let (bits, transform) = best_transform(values, range, options);
    let expected = (bits * values.len() as f64 / 8.0) as usize;
    let mut other = Vec::with_capacity(expected + 256);
    if options.dictionary
        && range.width() > 8
        && bits > DICTIONARY_BITS_MIN
        && write_dictionary(values, bits, next, &mut other)
    {
        keep_smaller(out, start, &mut other);
    }
    // Skip the transforms if the current result is at most half of their estimate.
    if out.len() == start || expected < 2 * (out.len() - start) {
        write_transformed(values, range, transform, next, &mut other);
        keep_smaller(out, start, &mut other);
    }
}

/// Replaces the contents of `out` from `start` on by `other` if they are empty or larger; clears
/// `other`.
fn keep_smaller(out: &mut Vec<u8>, start: usize, other: &mut Vec<u8>) {
    if out.len() == start || other.len() < out.len() - start {
        out.truncate(start);
        out.append(other);
    }
    other.clear();
}

fn is_regular(values: &[i64]) -> bool {
    let step = values[1].wrapping_sub(values[0]);
    values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step)
}

/// The greatest divisor above 1 of all distances from the minimum, and the quotients; `None` if
/// there is none. Typical data reach divisor 1 within a few values; data with a coarser unit
/// (milliseconds in nanoseconds) cost one multiplication per value.
fn divide_by_common_divisor(values: &[i64], range: Range) -> Option<(u64, Vec<i64>)> {
    let all = range.max.wrapping_sub(range.min).cast_unsigned();
    let divisor = common_divisor(&sample(values, 0, <[i64]>::to_vec), range.min, all)?;
    let mut quotients = vec![0; values.len()];
    if divide_exactly(values, range.min, &Exact::new(divisor), &mut quotients) {
        return Some((divisor, quotients));
    }
    let divisor = common_divisor(values, range.min, divisor)?;
    divide_exactly(values, range.min, &Exact::new(divisor), &mut quotients);
    Some((divisor, quotients))
}

/// The greatest common divisor of `divisor` and all distances of `values` from `base`; `None` if it
/// is 1.
fn common_divisor(values: &[i64], base: i64, mut divisor: u64) -> Option<u64> {
    let mut exact = Exact::new(divisor);
    for value in values {
        let above = value.wrapping_sub(base).cast_unsigned();
        if !exact.divides(above) {
            divisor = gcd(above, divisor);
            if divisor <= 1 {
                return None;
            }
            exact = Exact::new(divisor);
        }
    }
    (divisor > 1).then_some(divisor)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Exact division by multiplication: an odd number has an inverse modulo 2^64.
struct Exact {
    inverse: u64,
    twos: u32,
    most: u64,
}

impl Exact {
    /// Division by `divisor`, which must not be 0.
    fn new(divisor: u64) -> Exact {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // Newton's method: each step doubles the number of correct bits. An odd number is its own
        // inverse modulo 8, so the first approximation has three.
        let inverse = (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse))));
        Exact { inverse, twos, most: u64::MAX / divisor }
    }

    /// The quotient if the division is exact; above `most` otherwise.
    #[inline(always)]
    fn quotient(&self, value: u64) -> u64 {
        value.wrapping_mul(self.inverse).rotate_right(self.twos)
    }

    #[inline(always)]
    fn divides(&self, value: u64) -> bool {
        self.quotient(value) <= self.most
    }
}

multiversion! {
/// Quotients of the distances from `base`. Returns whether all divisions are exact; otherwise the
/// quotients are invalid.
fn divide_exactly(values: &[i64], base: i64, exact: &Exact, quotients: &mut [i64]) -> bool {
    let mut all = true;
    for (quotient, value) in quotients.iter_mut().zip(values) {
        let found = exact.quotient(value.wrapping_sub(base).cast_unsigned());
        all &= found <= exact.most;
        *quotient = found.cast_signed();
    }
    all
}

/// Number of values that differ from their predecessor.
fn changes(values: &[i64]) -> usize {
    let pairs = values.iter().zip(&values[1..]);
    pairs.map(|(before, value)| u64::from(before != value)).sum::<u64>() as usize
}
}

/// Appends `values` as a dictionary if it may pay off: if values repeat so often that an index is
/// estimated to need two bits less than `bits`, the estimate without a dictionary. Returns whether
/// it did.
fn write_dictionary(values: &[i64], bits: f64, options: Options, out: &mut Vec<u8>) -> bool {
    let most = DICTIONARY_MAX.min(values.len() / 4);
    if values.len() > 2 * STRETCHES * STRETCH && index_bits(&sample(values, 0, <[i64]>::to_vec)) + 2.0 > bits {
        return false;
    }
    let mut table = Distinct::new(most);
    let mut indexes = vec![0; values.len()];
    for (index, value) in indexes.iter_mut().zip(values) {
        let Some(found) = table.index_of(*value, most) else { return false };
        *index = found;
    }
    let ranks = table.sort();
    indexes.iter_mut().for_each(|index| *index = ranks[*index as usize]);
    let within = Options { dictionary: false, scale: false, patterns: false, ..options.deeper() };
    ints::write_dictionary(&table.values, &indexes, out, |part, out| write_best(part, within, out));
    true
}

/// Entropy of dictionary indexes, in bits per value; infinite if most values occur once.
fn index_bits(values: &[i64]) -> f64 {
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
struct Distinct {
    values: Vec<i64>,
    /// Open addressing: value and 1 + number; 0 marks a free slot.
    places: Vec<(i64, u32)>,
    shift: u32,
}

impl Distinct {
    /// A table for up to `most` values.
    fn new(most: usize) -> Distinct {
        let bits = (most * 2).next_power_of_two().ilog2().max(4);
        Distinct { values: Vec::new(), places: vec![(0, 0); 1 << bits], shift: 64 - bits }
    }

    /// The number of `value`; `None` if it would exceed `most` values.
    #[inline]
    fn index_of(&mut self, value: i64, most: usize) -> Option<i64> {
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
    fn sort(&mut self) -> Vec<i64> {
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
fn sample(values: &[i64], before: usize, of: impl Fn(&[i64]) -> Vec<i64>) -> Vec<i64> {
    if values.len() <= STRETCHES * STRETCH + before {
        return of(values);
    }
    let step = (values.len() - STRETCH - before) / (STRETCHES - 1);
    (0..STRETCHES).flat_map(|stretch| of(&values[stretch * step..][..before + STRETCH])).collect()
}

fn differences(values: &[i64]) -> Vec<i64> {
    values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect()
}

/// Estimated bits per value of Huffman coding: the entropy of the bit lengths of the distances from
/// the median, plus these lengths.
fn estimated_bits(values: &[i64]) -> f64 {
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

fn median(values: &mut [i64]) -> i64 {
    let half = values.len() / 2;
    *values.select_nth_unstable(half).1
}

/// A transform to apply to the values before they are encoded.
enum Transform {
    Nothing,
    Delta,
    Cycle(usize),
    Split { base: i64, scale: u64 },
}

fn write_transformed(values: &[i64], range: Range, transform: Transform, options: Options, out: &mut Vec<u8>) {
    let within = options.deeper();
    match transform {
        Transform::Nothing => write_plain(values, range, within, out),
        Transform::Delta => {
            let within = Options { deltas: options.deltas - 1, patterns: false, scale: false, ..within };
            ints::write_delta(values, out, |deltas, out| write_best(deltas, within, out));
        }
        Transform::Cycle(lag) => {
            let within = Options { patterns: false, ..within };
            ints::write_cycle(values, lag, out, |part, out| write_best(part, within, out));
        }
        Transform::Split { base, scale } => {
            let within = Options { patterns: false, scale: false, ..within };
            ints::write_split(values, range, base, scale, out, |part, out| write_best(part, within, out));
        }
    }
}

/// The transform with the smallest estimate for the sample, and this estimate in bits per value.
fn best_transform(values: &[i64], range: Range, options: Options) -> (f64, Transform) {
    let mut best = (estimated_bits(&sample(values, 0, <[i64]>::to_vec)), Transform::Nothing);
    // A transform costs a pass when it is read, so it must save 1/32.
    let mut offer = |bits: f64, transform: Transform| {
        if bits < best.0 * (1.0 - 1.0 / 32.0) {
            best = (bits, transform);
        }
    };
    if options.deltas > 0 {
        let deltas = sample(values, 1, differences);
        offer(estimated_bits(&deltas), Transform::Delta);
        if options.deltas > 1 {
            offer(estimated_bits(&sample(values, 2, |stretch| differences(&differences(stretch)))), Transform::Delta);
        }
    }
    if options.patterns && best.0 > 1.5 && values.len() >= CODED_MIN {
        if let Some(lag) = cycle(values) {
            let changes =
                |stretch: &[i64]| stretch[lag..].iter().zip(stretch).map(|(a, b)| a.wrapping_sub(*b)).collect();
            let first = lag as f64 / values.len() as f64 * best.0;
            let bits = first + estimated_bits(&sample(values, lag, changes));
            if bits < best.0 * (1.0 - 1.0 / 32.0) {
                best = (bits, Transform::Cycle(lag));
            }
        }
        if let Some((base, scale)) = split(values, range) {
            let bits = split_bits(values, base, scale);
            if bits < best.0 * (1.0 - 1.0 / 32.0) {
                best = (bits, Transform::Split { base, scale });
            }
        }
    }
    best
}

/// The distance at which the values in the middle occurred before: a candidate for the period.
fn cycle(values: &[i64]) -> Option<usize> {
    const PROBE: usize = 4;
    let at = values.len() / 2;
    let probe = &values[at..at + PROBE];
    let found = (0..at).rev().find(|other| values[*other] == probe[0] && values[*other..*other + PROBE] == *probe)?;
    let lag = at - found;
    (lag > 1 && lag * 3 < values.len()).then_some(lag)
}

/// For values close to multiples of a step (jittering times, readings of A/D converters): a base
/// and the step. The base is such that remainders do not wrap.
fn split(values: &[i64], range: Range) -> Option<(i64, u64)> {
    // Prevents overflow of differences.
    if range.min < i64::MIN / 4 || range.max > i64::MAX / 4 {
        return None;
    }
    let mut deltas: Vec<i64> =
        sample(values, 1, differences).into_iter().map(i64::abs).filter(|delta| *delta > 0).collect();
    if deltas.len() < STRETCH / 4 {
        return None;
    }
    let rough = median(&mut deltas) as f64;
    if rough < 64.0 {
        return None;
    }
    // Each round with a longer reach makes the step more precise.
    let near = refine(values, rough, 1);
    let far = refine(values, refine(values, near, STRETCH / 4), STRETCH);
    let step = refine(values, far, values.len() - 1);
    let rest = |value: i64, step: f64| {
        let steps = (value - values[0]) as f64 / step;
        (steps - steps.round()) * step
    };
    let mut rests: Vec<i64> =
        sample(values, 0, <[i64]>::to_vec).iter().map(|value| rest(*value, step).abs() as i64).collect();
    let spread = median(&mut rests) as f64;
    if spread * 8.0 > step {
        return None;
    }
    // Prefer a round step within the error: steps in practice are round numbers.
    let drift = spread.max(1.0) / ((range.max - range.min) as f64 / step);
    let powers = (0..18).rev().map(|power| 10f64.powi(power));
    let rounded = powers.map(|power| (step / power).round() * power).find(|rounded| (rounded - step).abs() <= drift);
    let scale = rounded.unwrap_or(step).round() as i64;
    if scale < 2 {
        return None;
    }
    // Halfway between two steps there are almost no values.
    let base = values[0] - scale / 2;
    let below = (base - range.min).max(0) / scale + i64::from(base > range.min);
    Some((base.checked_sub(below.checked_mul(scale)?)?, scale as u64))
}

/// Improves the precision of `step` with pairs of values that are `reach` apart.
fn refine(values: &[i64], step: f64, reach: usize) -> f64 {
    let (mut sum, mut steps) = (0.0, 0.0);
    let reach = reach.min(values.len() - 1);
    let pairs = values.len() - reach;
    for at in (0..pairs).step_by((pairs / STRETCH).max(1)) {
        let distance = (values[at + reach] - values[at]) as f64;
        let count = (distance / step).round();
        sum += distance * count.signum();
        steps += count.abs();
    }
    if steps > 0.0 { sum / steps } else { step }
}

fn split_bits(values: &[i64], base: i64, scale: u64) -> f64 {
    let above = |value: i64| value.wrapping_sub(base).cast_unsigned();
    // Divisions are slow, so each is done once: the quotients of a stretch, followed by its
    // remainders.
    let parts = |stretch: &[i64]| {
        let quotients = stretch.iter().map(|value| (above(*value) / scale).cast_signed());
        let mut parts: Vec<i64> = quotients.collect();
        let rest = |(value, quotient): (&i64, &i64)| value - base - quotient * scale.cast_signed();
        parts.extend(stretch.iter().zip(&parts.clone()).map(rest));
        parts
    };
    let parts = sample(values, 1, parts);
    // The sample may consist of all values.
    let stretch = if parts.len() == 2 * values.len() { values.len() } else { STRETCH + 1 };
    let mut each: [Vec<i64>; 3] = Default::default();
    for parts in parts.chunks(stretch * 2) {
        let (quotients, rests) = parts.split_at(parts.len() / 2);
        each[0].extend(differences(quotients));
        each[1].extend(rests);
        each[2].extend(differences(rests));
    }
    let [quotients, rests, deltas] = each.map(|values| estimated_bits(&values));
    quotients + rests.min(deltas)
}

/// Appends `values` packed or Huffman-coded.
fn write_plain(values: &[i64], range: Range, within: Options, out: &mut Vec<u8>) {
    let packed = range.packed_bytes(values.len());
    let enough = packed - packed / CODED_GAIN;
    let grouped = Grouped::of(values, range).filter(|grouped| grouped.bytes < enough);
    let beat = grouped.as_ref().map_or(enough, |grouped| grouped.bytes);
    // A code table takes some bytes, and each symbol at least one bit.
    if values.len() >= CODED_MIN && range.width() > 1 {
        let (base, low_bits) = code_base(values, range);
        let coded = Coded::of(values, range, base, low_bits);
        if coded.bytes < beat {
            let within = Options { patterns: false, deltas: 0, ..within };
            return coded.write(values, out, |escapes, out| write_best(escapes, within, out));
        }
    }
    match grouped {
        Some(grouped) => grouped.write(out),
        None => ints::write_packed(values, range, out),
    }
}

/// Base and number of low bits for [`Coded`], chosen such that ten or more symbols share the bulk
/// of the values.
fn code_base(values: &[i64], range: Range) -> (i64, u32) {
    if range.width() <= 8 {
        return (range.min, 0);
    }
    let mut sample = sample(values, 0, <[i64]>::to_vec);
    let middle = median(&mut sample);
    let mut spread: Vec<i64> = sample.iter().map(|value| value.abs_diff(middle).min(i64::MAX as u64) as i64).collect();
    let spread = median(&mut spread).cast_unsigned();
    let low_bits = (64 - spread.leading_zeros()).saturating_sub(if values.len() < 1_024 { 2 } else { 3 });
    if range.max.wrapping_sub(range.min).cast_unsigned() >> low_bits <= 255 {
        return (range.min, low_bits);
    }
    // 254 symbols plus the escape: center them on the median, unless there are no values so far
    // below.
    let below = (127u64 << low_bits).min(middle.abs_diff(range.min));
    (middle.wrapping_sub(below.cast_signed()), low_bits)
}
