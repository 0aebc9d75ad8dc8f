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

use super::wire::{Reader, corrupt, push_varint};
use super::{ints, kind, part};

/// Powers of ten; all are exact as f64 (up to 10^22).
const POWERS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
/// 1.5 * 2^52: adding it to a float of magnitude below 2^51 leaves the rounded integer in the low bits. This rounds and
/// converts both ways without branches, which the compiler can vectorise.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// The exponent byte has this bit when exceptions follow.
const HAS_EXCEPTIONS: u8 = 0x20;
/// Values looked at to find exponents.
const SAMPLE: usize = 32;

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
    /// Back from the bits.
    fn of_bits(bits: u64) -> Self;
    /// Its bits as an integer that is ordered as floats are: those below zero count down from it. So neighbours are
    /// near each other and what was narrower has zeros at the end, also below zero.
    fn ordered(self) -> i64;
    /// Back from [`Real::ordered`].
    fn of_ordered(ordered: i64) -> Self;
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
    fn of_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
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
    fn of_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
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
    (value.widen() * power).abs() < T::INTEGER_MAX && from_integer::<T>(integer, power).bits() == value.bits()
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
pub(crate) fn encode<T: Real>(values: &[T], out: &mut Vec<u8>) -> u8 {
    let raw_bytes = values.len() * T::BYTES;
    let start = out.len();
    let mut best = kind::RAW;
    if write_decimal(values, raw_bytes, out) {
        best = kind::DECIMAL;
        // Decimals that took less than half are not beaten by the general form often enough to pay for trying.
        if (out.len() - start) * 2 <= raw_bytes {
            return best;
        }
    }
    let ordered: Vec<i64> = values.iter().map(|value| value.ordered()).collect();
    let mut written = Vec::with_capacity(raw_bytes);
    ints::encode(&ordered, &mut written);
    let beat = if best == kind::RAW { raw_bytes } else { out.len() - start };
    if written.len() < beat {
        out.truncate(start);
        out.extend_from_slice(&written);
        return kind::ORDERED;
    }
    if best == kind::RAW { encode_raw(values, out) } else { best }
}

/// Appends `values` as decimals if they are and that takes less than `beat` bytes.
fn write_decimal<T: Real>(values: &[T], beat: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    let mut best: Option<Vec<u8>> = None;
    for exponent in exponents(values).into_iter().flatten() {
        write_decimal_at(values, exponent, out);
        if out.len() - start < best.as_ref().map_or(beat, Vec::len) {
            best = Some(out[start..].to_vec());
        }
        out.truncate(start);
    }
    best.is_some_and(|bytes| {
        out.extend_from_slice(&bytes);
        true
    })
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

fn write_decimal_at<T: Real>(values: &[T], exponent: usize, out: &mut Vec<u8>) {
    let power = POWERS[exponent];
    let mut integers = Vec::with_capacity(values.len());
    let mut exact = 0;
    integers.extend(values.iter().map(|value| {
        let integer = to_integer(value.widen(), power);
        exact += usize::from(is_exact(*value, integer, power));
        integer
    }));
    if exact == values.len() {
        out.push(exponent as u8);
    } else {
        out.push(exponent as u8 | HAS_EXCEPTIONS);
        write_exceptions(values, &mut integers, power, out);
    }
    ints::encode(&integers, out);
}

/// Moves what is not exact out of `integers`, repeating the neighbour there so that the hole costs nothing.
fn write_exceptions<T: Real>(values: &[T], integers: &mut [i64], power: f64, out: &mut Vec<u8>) {
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
    ints::encode(&positions, out);
    ints::encode(&bits, out);
}

/// Appends `values` as they are and returns that kind.
pub(crate) fn encode_raw<T: Real>(values: &[T], out: &mut Vec<u8>) -> u8 {
    out.reserve(values.len() * T::BYTES);
    values.iter().for_each(|value| out.extend_from_slice(&value.bits().to_le_bytes()[..T::BYTES]));
    kind::RAW
}

/// Reads `count` floats written as `kind`.
pub(crate) fn decode<T: Real>(reader: &mut Reader<'_>, kind: u8, count: usize) -> Result<Vec<T>> {
    match kind {
        kind::DECIMAL => decode_decimal(reader, count),
        kind::ORDERED => {
            reader.note(|| "bits: ".into());
            Ok(ints::decode_vec(reader, count)?.into_iter().map(T::of_ordered).collect())
        }
        kind::RAW => {
            reader.note(|| "raw".into());
            Ok(reader.take(count * T::BYTES, "raw floats")?.chunks_exact(T::BYTES).map(from_le).collect())
        }
        other => Err(corrupt(format!("float encoding is {other}, which is not known"))),
    }
}

/// Reads floats `part` of `count` written as `kind`.
pub(super) fn decode_part<T: Real>(
    reader: &mut Reader<'_>,
    kind: u8,
    count: usize,
    part: Range<usize>,
) -> Result<Vec<T>> {
    match kind {
        kind::DECIMAL => {
            let (power, exceptions) = decode_decimal_head(reader, count)?;
            let integers = part::decode(reader, count, part.clone())?;
            let mut values: Vec<T> = integers.into_iter().map(|integer| from_integer(integer, power)).collect();
            for (position, bits) in exceptions {
                let at = usize::try_from(position).ok().and_then(|position| position.checked_sub(part.start));
                if let Some(slot) = at.and_then(|at| values.get_mut(at)) {
                    *slot = T::of_ordered(bits);
                }
            }
            Ok(values)
        }
        kind::ORDERED => Ok(part::decode(reader, count, part)?.into_iter().map(T::of_ordered).collect()),
        kind::RAW => {
            let bytes = reader.take(count * T::BYTES, "raw floats")?;
            Ok(bytes[part.start * T::BYTES..part.end * T::BYTES].chunks_exact(T::BYTES).map(from_le).collect())
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
    let mut values: Vec<T> = integers.into_iter().map(|integer| from_integer(integer, power)).collect();
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

fn from_le<T: Real>(bytes: &[u8]) -> T {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    T::of_bits(u64::from_le_bytes(word))
}
