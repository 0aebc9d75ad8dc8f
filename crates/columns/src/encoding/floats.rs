//! Floats: as decimals (scaled integers) if possible, else as their bits.
//!
//! Measurements are mostly decimals of a few digits. A value `v` is stored as the integer `i` with
//! `i / 10^e == v`, bit for bit. A value without such an integer (NaN, infinities, -0.0, more
//! digits) is an *exception*, stored separately as bits.
//!
//! Source: the idea of Afroozeh, Kuffo, Boncz, "ALP: Adaptive Lossless floating-Point Compression",
//! SIGMOD 2024. We differ: decoding divides by an exact power of ten, which rounds correctly, so
//! every decimal of up to 15 digits is exact with a single exponent.

use std::marker::PhantomData;
use std::ops::Range;

use model::Result;

use super::byte_io::{Reader, corrupt, push_varint};
use super::cpu::multiversion;
use super::features::Features;
use super::ints::{self, cost_model};
use super::{kind, log_encoding};

/// Powers of ten; all are exact as f64 (up to 10^22).
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
/// 1.5 * 2^52: adding it to a float of magnitude below 2^51 leaves the rounded integer in the low
/// bits. This rounds and converts both ways without branches, which the compiler can vectorise.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// Set in the exponent byte if exceptions follow.
const HAS_EXCEPTIONS: u8 = 0x20;
/// Encodings with an estimated size of at most this factor times the smallest estimate are tried
/// too.
const NEAR: f64 = 1.15;
/// Size of the sample for the exponents.
const SAMPLE: usize = 32;
/// Size of the sample of [`encode_fast`].
const FAST_SAMPLE: usize = 4;
/// Highest exponent of [`encode_fast`].
const FAST_EXPONENT_MAX: usize = 9;
/// [`encode_fast`] accepts one exception per this many values.
const FAST_EXCEPTIONS: usize = 16;

/// A float type.
pub(crate) trait Real: Copy + 'static {
    /// Size in bytes.
    const BYTES: usize;
    /// Larger integers are not tried: with so many digits every float is a decimal, or rounding by
    /// [`MAGIC`] is inexact.
    const INTEGER_MAX: f64;
    /// Exact conversion.
    fn widen(self) -> f64;
    /// The inverse of [`Real::widen`].
    fn narrow(value: f64) -> Self;
    /// The bit pattern.
    fn bits(self) -> u64;
    /// The bits as an integer with the order of the floats; negative numbers count down from zero.
    /// Close values are therefore close integers, and values of lower precision have trailing
    /// zeros, negative ones too.
    fn ordered(self) -> i64;
    /// The inverse of [`Real::ordered`].
    fn of_ordered(ordered: i64) -> Self;
    /// The bits as an integer with the order of the magnitudes, the sign in the lowest bit: values
    /// around zero are then close.
    fn magnitude(self) -> i64;
    /// The inverse of [`Real::magnitude`].
    fn of_magnitude(magnitude: i64) -> Self;
    /// Appends `values` in little-endian order.
    fn write_raw(values: &[Self], out: &mut Vec<u8>);
    /// The inverse of [`Real::write_raw`].
    fn read_raw(bytes: &[u8]) -> Vec<Self>;
}

impl Real for f64 {
    const BYTES: usize = 8;
    const INTEGER_MAX: f64 = (1u64 << 51) as f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn ordered(self) -> i64 {
        let bits = self.to_bits().cast_signed();
        // -0.0 would collide with 0.0. It takes the integer that no other value has.
        let negative = bits.wrapping_neg() ^ i64::MIN;
        if bits >= 0 || bits == i64::MIN { bits } else { negative }
    }
    #[inline(always)]
    fn of_ordered(ordered: i64) -> f64 {
        let magnitude = if ordered < 0 { ordered.wrapping_neg() | i64::MIN } else { ordered };
        f64::from_bits(magnitude.cast_unsigned())
    }
    #[inline(always)]
    fn magnitude(self) -> i64 {
        self.to_bits().rotate_left(1).cast_signed() ^ i64::MIN
    }
    #[inline(always)]
    fn of_magnitude(magnitude: i64) -> f64 {
        f64::from_bits((magnitude ^ i64::MIN).cast_unsigned().rotate_right(1))
    }
    fn write_raw(values: &[f64], out: &mut Vec<u8>) {
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    fn read_raw(bytes: &[u8]) -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
    }
}

impl Real for f32 {
    const BYTES: usize = 4;
    const INTEGER_MAX: f64 = 1e7;
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline(always)]
    fn ordered(self) -> i64 {
        let bits = self.to_bits().cast_signed();
        let negative = bits.wrapping_neg() ^ i32::MIN;
        i64::from(if bits >= 0 || bits == i32::MIN { bits } else { negative })
    }
    #[inline(always)]
    fn of_ordered(ordered: i64) -> f32 {
        let ordered = ordered as i32;
        let magnitude = if ordered < 0 { ordered.wrapping_neg() | i32::MIN } else { ordered };
        f32::from_bits(magnitude.cast_unsigned())
    }
    #[inline(always)]
    fn magnitude(self) -> i64 {
        i64::from(self.to_bits().rotate_left(1))
    }
    #[inline(always)]
    fn of_magnitude(magnitude: i64) -> f32 {
        f32::from_bits((magnitude as u32).rotate_right(1))
    }
    fn write_raw(values: &[f32], out: &mut Vec<u8>) {
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    fn read_raw(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

/// `value * power` rounded to an integer. Valid only if [`from_integer`] returns the value again.
#[inline(always)]
fn to_integer(value: f64, power: f64) -> i64 {
    (value * power + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed()
}

#[inline(always)]
fn from_integer<T: Real>(integer: i64, power: f64) -> T {
    T::narrow((f64::from_bits(MAGIC.to_bits().wrapping_add(integer.cast_unsigned())) - MAGIC) / power)
}

#[inline(always)]
fn is_exact<T: Real>(value: T, integer: i64, power: f64) -> bool {
    ((value.widen() * power).abs() < T::INTEGER_MAX) & (from_integer::<T>(integer, power).bits() == value.bits())
}

/// The integer that represents `value` with this exponent, if it is a decimal.
pub(crate) fn decimal(value: f64, exponent: usize) -> Option<i64> {
    let power = POWERS[exponent];
    let integer = to_integer(value, power);
    is_exact(value, integer, power).then_some(integer)
}

/// The inverse of [`decimal`]; `None` for an invalid exponent.
pub(crate) fn from_decimal(integer: i64, exponent: usize) -> Option<f64> {
    POWERS.get(exponent).map(|power| from_integer(integer, *power))
}

/// The lowest exponent with which all of `values` are decimals.
pub(crate) fn common_exponent(values: &[f64]) -> Option<usize> {
    (0..POWERS.len()).find(|exponent| values.iter().all(|value| decimal(*value, *exponent).is_some()))
}

/// An encoding of floats: everything that encoder and decoder know of it.
struct Encoding<T: 'static> {
    /// In the first byte of a chunk.
    kind: u8,
    /// Name in errors.
    name: &'static str,
    feature: Features,
    /// Whether [`Encoding::candidates`] is called only if those of the others save less than half.
    is_fallback: bool,
    /// Ways to encode the values, with estimated sizes; none for `raw`, which is the last resort.
    candidates: for<'a> fn(&'a [T]) -> Vec<Candidate<'a>>,
    /// Reads this many values.
    decode: fn(&mut Reader<'_>, usize) -> Result<Vec<T>>,
    /// Reads a range of this many values: see `ints`.
    decode_range: fn(&mut Reader<'_>, usize, Range<usize>) -> Result<Vec<T>>,
}

/// All encodings of a type of floats.
struct Table<T>(PhantomData<T>);

impl<T: Real> Table<T> {
    const ENCODINGS: &[Encoding<T>] = &[
        Encoding {
            kind: kind::DECIMAL,
            name: "decimal",
            feature: Features::bit(9),
            is_fallback: false,
            candidates: decimals,
            decode: decode_decimal,
            decode_range: decode_decimal_range,
        },
        Encoding {
            kind: kind::ORDERED,
            name: "bits",
            feature: Features::bit(10),
            is_fallback: true,
            candidates: |values| vec![Candidate::of_integers(values, to_ordered)],
            decode: |reader, count| {
                reader.note(|| "bits: ".into());
                ints::decode_mapped(reader, count, T::of_ordered)
            },
            decode_range: |reader, count, part| {
                Ok(ints::decode_range(reader, count, part)?.into_iter().map(T::of_ordered).collect())
            },
        },
        Encoding {
            kind: kind::MAGNITUDES,
            name: "bits, sign last",
            feature: Features::bit(12),
            is_fallback: true,
            candidates: magnitudes,
            decode: |reader, count| {
                reader.note(|| "bits, sign last: ".into());
                ints::decode_mapped(reader, count, T::of_magnitude)
            },
            decode_range: |reader, count, part| Ok(from_magnitudes(&ints::decode_range(reader, count, part)?)),
        },
        Encoding {
            kind: kind::RAW,
            name: "raw",
            feature: RAW_FEATURE,
            is_fallback: true,
            candidates: |_| Vec::new(),
            decode: |reader, count| {
                reader.note(|| "raw".into());
                Ok(T::read_raw(reader.take(count * T::BYTES, "raw floats")?))
            },
            decode_range: |reader, count, part| {
                let bytes = reader.take(count * T::BYTES, "raw floats")?;
                Ok(T::read_raw(&bytes[part.start * T::BYTES..part.end * T::BYTES]))
            },
        },
    ];

    fn of_kind(reader: &mut Reader<'_>, kind: u8) -> Result<&'static Encoding<T>> {
        let encoding = Self::ENCODINGS.iter().find(|encoding| encoding.kind == kind).ok_or_else(|| {
            let known = Self::ENCODINGS.iter().map(|encoding| format!("{} ({})", encoding.kind, encoding.name));
            corrupt(format!("float encoding is {kind}, known are {}", known.collect::<Vec<_>>().join(", ")))
        })?;
        reader.see(encoding.feature);
        Ok(encoding)
    }
}

const RAW_FEATURE: Features = Features::bit(11);

/// The features of all encodings.
pub(super) const FEATURES: Features = {
    let (mut all, mut at) = (Features::NONE, 0);
    while at < Table::<f64>::ENCODINGS.len() {
        let feature = Table::<f64>::ENCODINGS[at].feature;
        assert!(all.is_disjoint(feature), "two encodings of floats have the same feature");
        all = all.union(feature);
        at += 1;
    }
    all
};

/// Appends `values` (at least one) in the smallest encoding; returns its kind and the features that a reader needs.
///
/// Sizes are estimated from samples; encodings with similar estimates are all tried.
pub(crate) fn encode<T: Real>(values: &[T], out: &mut Vec<u8>) -> (u8, Features) {
    assert!(!values.is_empty(), "BUG: no floats to encode");
    let raw_bytes = values.len() * T::BYTES;
    let mut candidates = Vec::new();
    let mut least = f64::INFINITY;
    for is_fallback in [false, true] {
        // If decimals save more than half, the other encodings are rarely better and not worth trying.
        if is_fallback && least * 2.0 <= raw_bytes as f64 {
            break;
        }
        for encoding in Table::<T>::ENCODINGS.iter().filter(|encoding| encoding.is_fallback == is_fallback) {
            candidates.extend((encoding.candidates)(values).into_iter().map(|candidate| (encoding, candidate)));
        }
        least = candidates.iter().map(|(_, candidate)| candidate.bytes).fold(f64::INFINITY, f64::min);
    }
    let (start, mut best) = (out.len(), None);
    for (encoding, candidate) in candidates.into_iter().filter(|(_, candidate)| candidate.bytes <= least * NEAR) {
        let written = out.len();
        let features = encoding.feature | (candidate.encode)(out);
        let beat = if best.is_none() { raw_bytes } else { written - start };
        if out.len() - written < beat {
            out.drain(start..written);
            best = Some((encoding.kind, features));
        } else {
            out.truncate(written);
        }
    }
    let best = best.unwrap_or_else(|| encode_raw(values, out));
    let bytes = out.len() - start;
    assert!(bytes <= raw_bytes, "BUG: {} floats take {bytes} bytes, raw {raw_bytes}", values.len());
    best
}

/// Whether at least a tenth of a sample is negative, and a tenth positive.
fn has_both_signs<T: Real>(values: &[T]) -> bool {
    let sample = || values.iter().step_by(values.len().div_ceil(2 * SAMPLE));
    let below = sample().filter(|value| value.widen() < 0.0).count();
    let above = sample().filter(|value| value.widen() > 0.0).count();
    below.min(above) * 10 > sample().count()
}

/// Appends the values; returns the features of their streams.
type Encode<'a> = Box<dyn FnOnce(&mut Vec<u8>) -> Features + 'a>;

/// A way to encode floats.
struct Candidate<'a> {
    /// Estimated encoded size.
    bytes: f64,
    encode: Encode<'a>,
}

/// Decimals with each exponent that fits most of a sample.
fn decimals<T: Real>(values: &[T]) -> Vec<Candidate<'_>> {
    exponents(values).into_iter().flatten().map(|exponent| decimal_candidate(values, exponent)).collect()
}

fn decimal_candidate<T: Real>(values: &[T], exponent: usize) -> Candidate<'_> {
    let mut integers = vec![0; values.len()];
    let exact = to_integers(values, POWERS[exponent], &mut integers);
    let exceptions = values.len() - exact;
    let exception_bytes = exceptions as f64 * (T::BYTES + 1) as f64;
    let bytes = cost_model::expected_bits(&integers) * values.len() as f64 / 8.0 + exception_bytes;
    let encode = Box::new(move |out: &mut Vec<u8>| {
        let mut features = Features::NONE;
        if exceptions > 0 {
            out.push(exponent as u8 | HAS_EXCEPTIONS);
            let part = |part: &[i64], out: &mut Vec<u8>| features |= ints::encode(part, out);
            let written = write_exceptions(values, &mut integers, POWERS[exponent], out, part);
            assert!(written == exceptions, "BUG: {written} exceptions of exponent {exponent}, counted {exceptions}");
        } else {
            out.push(exponent as u8);
        }
        features | ints::encode(&integers, out)
    });
    Candidate { bytes, encode }
}

/// Bits with the sign last: only worth a try for values around zero.
fn magnitudes<T: Real>(values: &[T]) -> Vec<Candidate<'_>> {
    if !has_both_signs(values) {
        return Vec::new();
    }
    vec![Candidate::of_integers(values, to_magnitudes)]
}

impl<'a> Candidate<'a> {
    /// The stream of what `map` makes of the values.
    fn of_integers<T: Real>(values: &'a [T], map: fn(&[T], &mut [i64])) -> Candidate<'a> {
        let mut integers = vec![0; values.len()];
        map(values, &mut integers);
        let bytes = cost_model::expected_bits(&integers) * values.len() as f64 / 8.0;
        Candidate { bytes, encode: Box::new(move |out| ints::encode(&integers, out)) }
    }
}

multiversion! {
/// Maps `values` to decimals; returns how many are exact.
fn to_integers[T: Real](values: &[T], power: f64, integers: &mut [i64]) -> usize {
    let mut exact = 0u64;
    for (integer, value) in integers.iter_mut().zip(values) {
        *integer = to_integer(value.widen(), power);
        exact += u64::from(is_exact(*value, *integer, power));
    }
    exact as usize
}

fn to_ordered[T: Real](values: &[T], integers: &mut [i64]) {
    integers.iter_mut().zip(values).for_each(|(integer, value)| *integer = value.ordered());
}

fn to_magnitudes[T: Real](values: &[T], integers: &mut [i64]) {
    integers.iter_mut().zip(values).for_each(|(integer, value)| *integer = value.magnitude());
}

fn from_magnitudes[T: Real](integers: &[i64]) -> Vec<T> {
    integers.iter().map(|integer| T::of_magnitude(*integer)).collect()
}

fn from_integers[T: Real](integers: &[i64], power: f64) -> Vec<T> {
    integers.iter().map(|integer| from_integer(*integer, power)).collect()
}
}

/// Candidate exponents: the one that fits most of a sample, and the lowest one that fits at least
/// 19/20 as many.
fn exponents<T: Real>(values: &[T]) -> [Option<usize>; 2] {
    let step = values.len().div_ceil(SAMPLE);
    let sample = || values.iter().step_by(step);
    let size = sample().count();
    let mut fits = [0; POWERS.len()];
    for (exponent, fit) in fits.iter_mut().enumerate() {
        let power = POWERS[exponent];
        *fit = sample().filter(|value| is_exact(**value, to_integer(value.widen(), power), power)).count();
        if *fit == size {
            break;
        }
    }
    let most = fits.iter().copied().max().unwrap_or(0);
    if most * 2 < size {
        return [None, None];
    }
    let full = fits.iter().position(|fit| *fit == most);
    let nearly = fits.iter().position(|fit| *fit * 20 >= most * 19);
    [full, nearly.filter(|_| nearly != full)]
}

/// Writes the exceptions and replaces them in `integers` by their predecessor, so that they cost
/// almost nothing there. Returns their number.
fn write_exceptions<T: Real>(
    values: &[T],
    integers: &mut [i64],
    power: f64,
    out: &mut Vec<u8>,
    mut part: impl FnMut(&[i64], &mut Vec<u8>),
) -> usize {
    let mut positions = Vec::new();
    let mut bits = Vec::new();
    let is_exact_at = |index: usize, integer: i64| is_exact(values[index], integer, power);
    let first_exact = (0..values.len()).find(|index| is_exact_at(*index, integers[*index]));
    let mut fill = first_exact.map_or(0, |index| integers[index]);
    for (index, value) in values.iter().enumerate() {
        if is_exact_at(index, integers[index]) {
            fill = integers[index];
        } else {
            positions.push(index as i64);
            bits.push(value.ordered());
            integers[index] = fill;
        }
    }
    push_varint(out, positions.len() as u64);
    part(&positions, out);
    part(&bits, out);
    positions.len()
}

/// Appends `values` (at least one) as bit-packed decimals, with the exponent of a small sample, or
/// raw; returns the kind. `integers` is a buffer to reuse.
pub(super) fn encode_fast<T: Real>(values: &[T], integers: &mut Vec<i64>, out: &mut Vec<u8>) -> u8 {
    let Some(mut exponent) = fast_exponent(values) else { return encode_raw(values, out).0 };
    integers.resize(values.len(), 0);
    let mut exact = to_integers(values, POWERS[exponent], integers);
    if exact < values.len()
        && let Some(higher) = exponent_of_rest(values, integers, exponent)
    {
        exponent = higher;
        exact = to_integers(values, POWERS[exponent], integers);
    }
    let exceptions = values.len() - exact;
    if exceptions * FAST_EXCEPTIONS > values.len() {
        return encode_raw(values, out).0;
    }
    if exceptions > 0 {
        out.push(exponent as u8 | HAS_EXCEPTIONS);
        let written = write_exceptions(values, integers, POWERS[exponent], out, log_encoding::write_ints);
        assert!(written == exceptions, "BUG: {written} exceptions of exponent {exponent}, counted {exceptions}");
    } else {
        out.push(exponent as u8);
    }
    log_encoding::write_ints(integers, out);
    kind::DECIMAL
}

/// The lowest exponent that fits a small sample with at most one exception.
fn fast_exponent<T: Real>(values: &[T]) -> Option<usize> {
    let (mut exponent, mut others) = (0, 0);
    for value in values.iter().step_by(values.len().div_ceil(FAST_SAMPLE)) {
        match lowest_exponent(*value, exponent) {
            Some(fits) => exponent = fits,
            None => others += 1,
        }
        if others > 1 {
            return None;
        }
    }
    Some(exponent)
}

/// A higher exponent, chosen for the first value that does not fit `exponent`.
fn exponent_of_rest<T: Real>(values: &[T], integers: &[i64], exponent: usize) -> Option<usize> {
    let power = POWERS[exponent];
    let rest = values.iter().zip(integers).find(|(value, integer)| !is_exact(**value, **integer, power));
    lowest_exponent(*rest?.0, exponent + 1)
}

/// The lowest exponent from `from` to [`FAST_EXPONENT_MAX`] with which `value` is a decimal.
fn lowest_exponent<T: Real>(value: T, from: usize) -> Option<usize> {
    let is_exact_at = |exponent: usize| {
        let power = POWERS[exponent];
        is_exact(value, to_integer(value.widen(), power), power)
    };
    if is_exact_at(from) {
        return Some(from);
    }
    // A decimal fits every higher exponent too, until integers overflow. One test of the highest
    // rejects most values.
    let in_range = |exponent: &usize| (value.widen() * POWERS[*exponent]).abs() < T::INTEGER_MAX;
    let highest = (from + 1..=FAST_EXPONENT_MAX).rev().find(in_range)?;
    if !is_exact_at(highest) {
        return None;
    }
    (from + 1..=highest).find(|exponent| is_exact_at(*exponent))
}

/// Appends `values` uncompressed; returns this kind and its feature.
pub(crate) fn encode_raw<T: Real>(values: &[T], out: &mut Vec<u8>) -> (u8, Features) {
    T::write_raw(values, out);
    (kind::RAW, RAW_FEATURE)
}

/// Decodes `count` floats of encoding `kind`.
pub(crate) fn decode<T: Real>(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Vec<T>> {
    let encoding = Table::<T>::of_kind(reader, kind)?;
    let values = (encoding.decode)(reader, count)?;
    assert!(values.len() == count, "BUG: {} {} floats, expected {count}", values.len(), encoding.name);
    Ok(values)
}

/// Decodes floats `part` of `count` floats of encoding `kind`.
pub(super) fn decode_range<T: Real>(
    reader: &mut Reader<'_>,
    kind: u8,
    count: usize,
    part: Range<usize>,
) -> Result<Vec<T>> {
    let expected = part.len();
    let encoding = Table::<T>::of_kind(reader, kind)?;
    let values = (encoding.decode_range)(reader, count, part)?;
    assert!(values.len() == expected, "BUG: {} {} floats, expected {expected}", values.len(), encoding.name);
    Ok(values)
}

fn decode_decimal_range<T: Real>(reader: &mut Reader<'_>, count: usize, part: Range<usize>) -> Result<Vec<T>> {
    let (power, exceptions) = decode_decimal_head(reader, count)?;
    let integers = ints::decode_range(reader, count, part.clone())?;
    let mut values: Vec<T> = integers.into_iter().map(|integer| from_integer(integer, power)).collect();
    for (position, bits) in exceptions {
        let at = usize::try_from(position).ok().and_then(|position| position.checked_sub(part.start));
        if let Some(slot) = at.and_then(|at| values.get_mut(at)) {
            *slot = T::of_ordered(bits);
        }
    }
    Ok(values)
}

/// Position and ordered bits of an exception.
type Exception = (i64, i64);

/// Reads the power of ten and the exceptions, which precede the integers.
fn decode_decimal_head(reader: &mut Reader<'_>, count: usize) -> Result<(f64, Vec<Exception>)> {
    let head = reader.u8("exponent")?;
    let exponent = usize::from(head & !HAS_EXCEPTIONS);
    let Some(power) = POWERS.get(exponent).copied() else {
        return Err(corrupt(format!("exponent is {exponent}, at most {} is known", POWERS.len() - 1)));
    };
    let mut exceptions = Vec::new();
    if head & HAS_EXCEPTIONS != 0 {
        let (positions, bits) = decode_exceptions(reader, count)?;
        exceptions = positions.into_iter().zip(bits).collect();
    }
    reader.note(|| format!("decimal {exponent}: "));
    Ok((power, exceptions))
}

fn decode_decimal<T: Real>(reader: &mut Reader<'_>, count: usize) -> Result<Vec<T>> {
    let (power, exceptions) = decode_decimal_head(reader, count)?;
    let integers = ints::decode_vec(reader, count)?;
    let mut values: Vec<T> = from_integers(&integers, power);
    for (position, bits) in exceptions {
        let slot = usize::try_from(position).ok().and_then(|position| values.get_mut(position));
        let Some(slot) = slot else {
            return Err(corrupt(format!("exception at {position} of {count} values")));
        };
        *slot = T::of_ordered(bits);
    }
    Ok(values)
}

fn decode_exceptions(reader: &mut Reader<'_>, count: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let exceptions = reader.count(count, "number of exceptions")?;
    reader.note(|| format!("{exceptions} exceptions (at "));
    let positions = ints::decode_vec(reader, exceptions)?;
    reader.note(|| ", bits ".into());
    let bits = ints::decode_vec(reader, exceptions)?;
    reader.note(|| "), ".into());
    Ok((positions, bits))
}
/// Statistics of floats. The extremes require at least one value that is not NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatSummary {
    pub(crate) has_nan: bool,
    /// Minimum without NaN, in total order: equal extremes have equal bits (-0.0 sorts before 0.0).
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// Sum; the order of additions depends on the number of values only, so it is reproducible.
    pub(crate) sum: f64,
}

impl FloatSummary {
    pub(crate) fn of(values: &[f64]) -> FloatSummary {
        let (has_nan, mut least, mut greatest, sum) = summarize(values);
        if has_nan {
            let keys = || values.iter().filter(|value| !value.is_nan()).map(|value| ordered(*value));
            (least, greatest) = (keys().min().unwrap_or(0), keys().max().unwrap_or(0));
        }
        let value = |key: i64| f64::from_bits(flip_negative(key).cast_unsigned());
        FloatSummary { has_nan, least: value(least), greatest: value(greatest), sum }
    }
}

/// An integer with the total order of the floats.
#[inline(always)]
fn ordered(value: f64) -> i64 {
    flip_negative(value.to_bits().cast_signed())
}

/// Inverts the other bits of negative floats, whose order is reversed. Its own inverse.
#[inline(always)]
fn flip_negative(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

multiversion! {
/// Whether a value is NaN, the minimum and maximum of [`ordered`], and the sum.
fn summarize(values: &[f64]) -> (bool, i64, i64, f64) {
    // Sixteen lanes, so that comparisons and additions do not depend on each other.
    let mut low = [i64::MAX; 16];
    let mut high = [i64::MIN; 16];
    let mut sums = [0.0; 16];
    let mut nans = [0u64; 16];
    let parts = values.chunks_exact(16);
    let rest = parts.remainder();
    for part in parts {
        for lane in 0..16 {
            let value = part[lane];
            let key = ordered(value);
            low[lane] = low[lane].min(key);
            high[lane] = high[lane].max(key);
            nans[lane] |= u64::from(value.is_nan());
            sums[lane] += value;
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        let key = ordered(*value);
        low[lane] = low[lane].min(key);
        high[lane] = high[lane].max(key);
        nans[lane] |= u64::from(value.is_nan());
        sums[lane] += value;
    }
    let has_nan = nans.into_iter().any(|nan| nan != 0);
    let (least, greatest) = (low.into_iter().fold(i64::MAX, i64::min), high.into_iter().fold(i64::MIN, i64::max));
    (has_nan, least, greatest, sums.into_iter().sum())
}
}
