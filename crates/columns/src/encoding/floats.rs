//! Floats: decimals as integers where the data are decimals, else their bits.
//!
//! Measurements are mostly decimals of a few digits. A value `v` is written as the integer `i` with `i / 10^e == v`,
//! bit for bit; what has no such integer (NaN, infinities, -0.0, more digits) is an *exception*, kept apart as bits.
//!
//! Source: the idea of Afroozeh, Kuffo, Boncz, "ALP: Adaptive Lossless floating-Point Compression", SIGMOD 2024. We
//! differ: decoding divides by an exact power of ten, which rounds correctly, so every decimal of up to 15 digits is
//! exact with a single exponent.

use std::ops::Range;

use model::Result;

use super::byte_io::{Reader, corrupt, push_varint};
use super::cpu::multiversion;
use super::{cost_model, ints, kind, log_encoding, range_decode};

/// Powers of ten; all are exact as f64 (up to 10^22).
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
/// 1.5 * 2^52: adding it to a float of magnitude below 2^51 leaves the rounded integer in the low bits. This rounds and
/// converts both ways without branches, which the compiler can vectorise.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// The exponent byte has this bit when exceptions follow.
const HAS_EXCEPTIONS: u8 = 0x20;
/// A form that is expected to take up to so many times what the best one is expected to take is tried too.
const NEAR: f64 = 1.15;
/// Values looked at to find exponents.
const SAMPLE: usize = 32;
/// Values looked at where it has to be quick.
const FAST_SAMPLE: usize = 4;
/// The highest exponent where it has to be quick.
const FAST_EXPONENT_MAX: usize = 9;
/// One value in so many may be an exception where it has to be quick.
const FAST_EXCEPTIONS: usize = 16;

/// A float type.
pub(crate) trait Real: Copy {
    /// Size.
    const BYTES: usize;
    /// Integers from here on are not tried: of so many digits any number is a decimal, or rounding by [`MAGIC`] is not
    /// exact.
    const INTEGER_MAX: f64;
    /// Widened; exact.
    fn widen(self) -> f64;
    /// Narrowed again.
    fn narrow(value: f64) -> Self;
    /// All bits.
    fn bits(self) -> u64;
    /// Its bits as an integer that is ordered as floats are: those below zero count down from it. So neighbours are
    /// near each other and what was narrower has zeros at the end, also below zero.
    fn ordered(self) -> i64;
    /// Back from [`Real::ordered`].
    fn of_ordered(ordered: i64) -> Self;
    /// Its bits as an integer that is ordered as magnitudes are, the sign last. So what varies around zero is together.
    fn magnitude(self) -> i64;
    /// Back from [`Real::magnitude`].
    fn of_magnitude(magnitude: i64) -> Self;
    /// Appends the bytes of `values`, little-endian.
    fn write_raw(values: &[Self], out: &mut Vec<u8>);
    /// Back from [`Real::write_raw`].
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
        // -0.0 would be 0: it is the one number that nothing else is.
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

/// `value * power` rounded to an integer. Meaningless unless [`from_integer`] gives the value back.
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

/// The integer that stands for `value` at `10^exponent`, if one does.
pub(crate) fn decimal(value: f64, exponent: usize) -> Option<i64> {
    let power = POWERS[exponent];
    let integer = to_integer(value, power);
    is_exact(value, integer, power).then_some(integer)
}

/// The float that [`decimal`] made `integer` of; `None` for an exponent that does not exist.
pub(crate) fn undecimal(integer: i64, exponent: usize) -> Option<f64> {
    POWERS.get(exponent).map(|power| from_integer(integer, *power))
}

/// The lowest exponent at which all of `values` are decimals.
pub(crate) fn common_exponent(values: &[f64]) -> Option<usize> {
    (0..POWERS.len()).find(|exponent| values.iter().all(|value| decimal(*value, *exponent).is_some()))
}

/// Appends `values` (at least one) in the smallest form and returns its kind.
///
/// Which form is expected from samples; what comes near is written too.
pub(crate) fn encode<T: Real>(values: &[T], out: &mut Vec<u8>) -> u8 {
    let raw_bytes = values.len() * T::BYTES;
    let mut candidates: Vec<Candidate<'_, T>> =
        exponents(values).into_iter().flatten().map(|exponent| Candidate::decimal(values, exponent)).collect();
    let least = |candidates: &[Candidate<'_, T>]| candidates.iter().map(|c| c.bytes).fold(f64::INFINITY, f64::min);
    // Decimals that take less than half are not beaten by the general form often enough to pay for trying.
    if least(&candidates) * 2.0 > raw_bytes as f64 {
        candidates.push(Candidate::of_bits(values, Form::Ordered));
        if has_both_signs(values) {
            candidates.push(Candidate::of_bits(values, Form::Magnitudes));
        }
    }
    let near = least(&candidates) * NEAR;
    let (start, mut best) = (out.len(), kind::RAW);
    for candidate in candidates.iter().filter(|candidate| candidate.bytes <= near) {
        let written = out.len();
        candidate.write(out);
        let beat = if best == kind::RAW { raw_bytes } else { written - start };
        if out.len() - written < beat {
            out.drain(start..written);
            best = candidate.kind();
        } else {
            out.truncate(written);
        }
    }
    if best == kind::RAW { encode_raw(values, out) } else { best }
}

/// Whether a tenth of a sample is below zero, and a tenth above.
fn has_both_signs<T: Real>(values: &[T]) -> bool {
    let sample = || values.iter().step_by(values.len().div_ceil(2 * SAMPLE));
    let below = sample().filter(|value| value.widen() < 0.0).count();
    let above = sample().filter(|value| value.widen() > 0.0).count();
    below.min(above) * 10 > sample().count()
}

/// How floats are turned into integers.
#[derive(Clone, Copy)]
enum Form {
    Decimal(usize),
    Ordered,
    Magnitudes,
}

/// Floats turned into integers.
struct Candidate<'a, T> {
    values: &'a [T],
    integers: Vec<i64>,
    form: Form,
    /// How many values the integers stand for.
    exact: usize,
    /// What writing it takes, as far as a sample tells.
    bytes: f64,
}

impl<'a, T: Real> Candidate<'a, T> {
    fn decimal(values: &'a [T], exponent: usize) -> Candidate<'a, T> {
        let mut integers = vec![0; values.len()];
        let exact = to_integers(values, POWERS[exponent], &mut integers);
        let exceptions = (values.len() - exact) as f64 * (T::BYTES + 1) as f64;
        let bytes = cost_model::expected_bits(&integers) * values.len() as f64 / 8.0 + exceptions;
        Candidate { values, integers, form: Form::Decimal(exponent), exact, bytes }
    }

    /// Of the bits in one of their orders.
    fn of_bits(values: &'a [T], form: Form) -> Candidate<'a, T> {
        let mut integers = vec![0; values.len()];
        match form {
            Form::Magnitudes => to_magnitudes(values, &mut integers),
            _ => to_ordered(values, &mut integers),
        }
        let bytes = cost_model::expected_bits(&integers) * values.len() as f64 / 8.0;
        Candidate { values, integers, form, exact: values.len(), bytes }
    }

    fn kind(&self) -> u8 {
        match self.form {
            Form::Decimal(_) => kind::DECIMAL,
            Form::Ordered => kind::ORDERED,
            Form::Magnitudes => kind::MAGNITUDES,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self.form {
            Form::Decimal(exponent) if self.exact < self.values.len() => {
                out.push(exponent as u8 | HAS_EXCEPTIONS);
                let mut integers = self.integers.clone();
                write_exceptions(self.values, &mut integers, POWERS[exponent], out, ints::encode);
                ints::encode(&integers, out);
            }
            Form::Decimal(exponent) => {
                out.push(exponent as u8);
                ints::encode(&self.integers, out);
            }
            Form::Ordered | Form::Magnitudes => ints::encode(&self.integers, out),
        }
    }
}

multiversion! {
/// Integers that stand for `values` at a power of ten; says how many do.
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

/// Exponents worth trying: the one most of a sample fits, and a lower one that leaves at most a twentieth of them as
/// exceptions.
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

/// Moves what is not exact out of `integers`, repeating the neighbour there so that the hole costs nothing.
fn write_exceptions<T: Real>(
    values: &[T],
    integers: &mut [i64],
    power: f64,
    out: &mut Vec<u8>,
    part: fn(&[i64], &mut Vec<u8>),
) {
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
}

/// Appends `values` (at least one) as decimals of the exponent that a few of them show, packed, or as they are; returns its
/// kind. `integers` is memory to work in.
pub(super) fn encode_fast<T: Real>(values: &[T], integers: &mut Vec<i64>, out: &mut Vec<u8>) -> u8 {
    let Some(mut exponent) = fast_exponent(values) else { return encode_raw(values, out) };
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
        return encode_raw(values, out);
    }
    if exceptions > 0 {
        out.push(exponent as u8 | HAS_EXCEPTIONS);
        write_exceptions(values, integers, POWERS[exponent], out, log_encoding::write_ints);
    } else {
        out.push(exponent as u8);
    }
    log_encoding::write_ints(integers, out);
    kind::DECIMAL
}

/// The exponent at which a few values from all over are decimals, but for one of them.
fn fast_exponent<T: Real>(values: &[T]) -> Option<usize> {
    let (mut exponent, mut others) = (0, 0);
    for value in values.iter().step_by(values.len().div_ceil(FAST_SAMPLE)) {
        match fitting(*value, exponent) {
            Some(fits) => exponent = fits,
            None => others += 1,
        }
        if others > 1 {
            return None;
        }
    }
    Some(exponent)
}

/// The higher exponent that the first value which is no decimal at `exponent` asks for, if one does.
fn exponent_of_rest<T: Real>(values: &[T], integers: &[i64], exponent: usize) -> Option<usize> {
    let power = POWERS[exponent];
    let rest = values.iter().zip(integers).find(|(value, integer)| !is_exact(**value, **integer, power));
    fitting(*rest?.0, exponent + 1)
}

/// The lowest exponent from `from` on, of those that are tried where it has to be quick, at which `value` is a decimal.
fn fitting<T: Real>(value: T, from: usize) -> Option<usize> {
    let is_exact_at = |exponent: usize| {
        let power = POWERS[exponent];
        is_exact(value, to_integer(value.widen(), power), power)
    };
    if is_exact_at(from) {
        return Some(from);
    }
    // A decimal is one at every higher exponent too, up to where integers end: most others need a single look.
    let in_range = |exponent: &usize| (value.widen() * POWERS[*exponent]).abs() < T::INTEGER_MAX;
    let highest = (from + 1..=FAST_EXPONENT_MAX).rev().find(in_range)?;
    if !is_exact_at(highest) {
        return None;
    }
    (from + 1..=highest).find(|exponent| is_exact_at(*exponent))
}

/// Appends `values` as they are and returns that kind.
pub(crate) fn encode_raw<T: Real>(values: &[T], out: &mut Vec<u8>) -> u8 {
    T::write_raw(values, out);
    kind::RAW
}

/// Reads `count` floats written as `kind`.
pub(crate) fn decode<T: Real>(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Vec<T>> {
    match kind {
        kind::DECIMAL => decode_decimal(reader, count),
        kind::ORDERED => {
            reader.note(|| "bits: ".into());
            ints::decode_mapped(reader, count, T::of_ordered)
        }
        kind::MAGNITUDES => {
            reader.note(|| "bits, sign last: ".into());
            ints::decode_mapped(reader, count, T::of_magnitude)
        }
        kind::RAW => {
            reader.note(|| "raw".into());
            Ok(T::read_raw(reader.take(count * T::BYTES, "raw floats")?))
        }
        other => Err(corrupt(format!("float encoding is {other}, which is not known"))),
    }
}

/// ColumnReads floats `part` of `count` written as `kind`.
pub(super) fn decode_part<T: Real>(
    reader: &mut Reader<'_>,
    kind: u8,
    count: usize,
    part: Range<usize>,
) -> Result<Vec<T>> {
    match kind {
        kind::DECIMAL => {
            let (power, exceptions) = decode_decimal_head(reader, count)?;
            let integers = range_decode::decode(reader, count, part.clone())?;
            let mut values: Vec<T> = integers.into_iter().map(|integer| from_integer(integer, power)).collect();
            for (position, bits) in exceptions {
                let at = usize::try_from(position).ok().and_then(|position| position.checked_sub(part.start));
                if let Some(slot) = at.and_then(|at| values.get_mut(at)) {
                    *slot = T::of_ordered(bits);
                }
            }
            Ok(values)
        }
        kind::ORDERED => Ok(range_decode::decode(reader, count, part)?.into_iter().map(T::of_ordered).collect()),
        kind::MAGNITUDES => Ok(from_magnitudes(&range_decode::decode(reader, count, part)?)),
        kind::RAW => {
            let bytes = reader.take(count * T::BYTES, "raw floats")?;
            Ok(T::read_raw(&bytes[part.start * T::BYTES..part.end * T::BYTES]))
        }
        other => Err(corrupt(format!("float encoding is {other}, which is not known"))),
    }
}

/// Position and ordered bits of a value that is no decimal.
type Exception = (i64, i64);

/// The power of ten, and the exceptions; the integers are next.
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
/// What is said of some floats (at least one that is no NaN, for the extremes).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FloatSummary {
    pub(crate) has_nan: bool,
    /// Of those that are no NaN, in total order, so that equal extremes mean equal bits (-0.0 sorts before 0.0).
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    /// In an order of additions that depends on their number alone.
    pub(crate) sum: f64,
}

impl FloatSummary {
    pub(crate) fn of(values: &[f64]) -> FloatSummary {
        let (has_nan, mut least, mut greatest, sum) = summarized(values);
        if has_nan {
            let keys = || values.iter().filter(|value| !value.is_nan()).map(|value| ordered(*value));
            (least, greatest) = (keys().min().unwrap_or(0), keys().max().unwrap_or(0));
        }
        let value = |key: i64| f64::from_bits(swapped(key).cast_unsigned());
        FloatSummary { has_nan, least: value(least), greatest: value(greatest), sum }
    }
}

/// An integer that orders as the float does in total order.
#[inline(always)]
fn ordered(value: f64) -> i64 {
    swapped(value.to_bits().cast_signed())
}

/// Negative floats order the wrong way round by their other bits. Its own inverse.
#[inline(always)]
fn swapped(bits: i64) -> i64 {
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

multiversion! {
/// Is any of them NaN, the least and the greatest key by [`ordered`], and the sum.
fn summarized(values: &[f64]) -> (bool, i64, i64, f64) {
    // Sixteen of each, so that neither comparisons nor additions wait for each other.
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
