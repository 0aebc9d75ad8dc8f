//! Hash functions of types whose values are numbers or bytes, with PostgreSQL's results.

use model::{Datum, Error, Numeric, Result};

use super::call::{Argument, Returned, argument};
use crate::registry::Function;

/// A value of which the hash functions of a type are computed.
enum Hashed<'d> {
    Word(u32),
    Double([u8; 8]),
    Bytes(&'d [u8]),
    /// Zero of the float types.
    Zero,
}

/// The hash function of a type and its extended form with a seed.
macro_rules! hashes {
    ($($name:literal, $extended:literal: $hashed:expr;)*) => {
        &[$(
            ($name, |arguments, _, _| hash(arguments, $hashed)),
            ($extended, |arguments, _, _| hash_extended(arguments, $hashed)),
        )*]
    };
}

pub(super) const FUNCTIONS: &[(&str, Function)] = hashes! {
    "hashint2", "hashint2extended": |value: i16| Hashed::Word(i32::from(value) as u32);
    "hashint4", "hashint4extended": |value: i32| Hashed::Word(value as u32);
    "hashint8", "hashint8extended": |value: i64| Hashed::Word(folded(value));
    "hashoid", "hashoidextended": Hashed::Word;
    "hashfloat4", "hashfloat4extended": |value: f32| of_float(value.into());
    "hashfloat8", "hashfloat8extended": of_float;
    "hashtext", "hashtextextended": of_text;
    "hashname", "hashnameextended": of_text;
    "hashbpchar", "hashbpcharextended": of_text;
    "hashchar", "hashcharextended": of_char;
};

pub(super) const NUMERIC: &[(&str, Function)] = &[
    ("hash_numeric", |arguments, _, _| {
        let (hash, weight) = numeric_hash(argument(arguments, 0)?, 0)?;
        hash.map_or(weight as i32, |hash| hash as u32 as i32 ^ weight as i32).returned()
    }),
    ("hash_numeric_extended", |arguments, _, _| {
        let seed: i64 = argument(arguments, 1)?;
        let (hash, weight) = numeric_hash(argument(arguments, 0)?, seed as u64)?;
        hash.map_or(seed.wrapping_add(weight), |hash| hash as i64 ^ weight).returned()
    }),
];

fn hash<'d, T: Argument<'d>>(
    arguments: &'d [Datum<'_>],
    hashed: impl FnOnce(T) -> Hashed<'d>,
) -> Result<Datum<'static>> {
    (of_hashed(hashed(argument(arguments, 0)?), 0) as i32).returned()
}

fn hash_extended<'d, T: Argument<'d>>(
    arguments: &'d [Datum<'_>],
    hashed: impl FnOnce(T) -> Hashed<'d>,
) -> Result<Datum<'static>> {
    let seed: i64 = argument(arguments, 1)?;
    (of_hashed(hashed(argument(arguments, 0)?), seed as u64) as i64).returned()
}

/// PostgreSQL's 64-bit hash of a value with a seed, by which it is assigned to a hash partition; `None` for NULL.
#[must_use]
pub fn hash_extended_of(value: &Datum<'_>, seed: u64) -> Option<u64> {
    /// Days and microseconds from 1970 to 2000.
    const DAYS: i32 = 10_957;
    const MICROS: i64 = DAYS as i64 * 86_400_000_000;
    let since_2000 = |micros: i64| if micros == i64::MIN || micros == i64::MAX { micros } else { micros - MICROS };
    let hashed = match value {
        Datum::Null => return None,
        Datum::Bool(value) => Hashed::Word(u32::from(*value)),
        Datum::Int2(value) => Hashed::Word(i32::from(*value) as u32),
        Datum::Int4(value) => Hashed::Word(*value as u32),
        Datum::Int8(value) => Hashed::Word(folded(*value)),
        Datum::Oid(value) => Hashed::Word(*value),
        Datum::Float4(value) => of_float(f64::from(*value)),
        Datum::Float8(value) => of_float(*value),
        Datum::Text(text) => of_text(text),
        Datum::Bytes(bytes) => Hashed::Bytes(bytes),
        Datum::Uuid(uuid) => return Some(hash_bytes(&uuid[..], seed)),
        Datum::Date(days) if *days == i32::MIN || *days == i32::MAX => Hashed::Word(*days as u32),
        Datum::Date(days) => Hashed::Word(days.wrapping_sub(DAYS) as u32),
        Datum::Time(micros) => Hashed::Word(folded(*micros)),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => Hashed::Word(folded(since_2000(*micros))),
        Datum::Interval(interval) => Hashed::Word(folded(interval.span_micros() as i64)),
        Datum::Numeric(value) => {
            let (hash, weight) = numeric_hash(value, seed).ok()?;
            return Some(hash.map_or(seed.wrapping_add(weight as u64), |hash| hash ^ weight as u64));
        }
        _ => return None,
    };
    Some(of_hashed(hashed, seed))
}

/// Hash of a bigint.
pub(super) fn hash_bigint(value: i64, seed: u64) -> u64 {
    of_hashed(Hashed::Word(folded(value)), seed)
}

fn of_hashed(hashed: Hashed<'_>, seed: u64) -> u64 {
    match hashed {
        Hashed::Word(word) => hash_bytes(&word.to_le_bytes(), seed),
        Hashed::Double(bytes) => hash_bytes(&bytes, seed),
        Hashed::Bytes(bytes) => hash_bytes(bytes, seed),
        Hashed::Zero => seed,
    }
}

/// The halves of a bigint in a word, so that small numbers hash like those of the smaller types.
fn folded(value: i64) -> u32 {
    let (low, high) = (value as u32, (value >> 32) as u32);
    low ^ if value >= 0 { high } else { !high }
}

/// Equal floats have equal hashes: -0 is 0, all NaN are the same, a real is hashed as double precision.
fn of_float<'d>(value: f64) -> Hashed<'d> {
    if value == 0.0 {
        Hashed::Zero
    } else if value.is_nan() {
        Hashed::Double(f64::NAN.to_le_bytes())
    } else {
        Hashed::Double(value.to_le_bytes())
    }
}

fn of_text(value: &str) -> Hashed<'_> {
    Hashed::Bytes(value.as_bytes())
}

fn of_char<'d>(value: &str) -> Hashed<'d> {
    let byte = value.bytes().next().unwrap_or(0);
    Hashed::Word(i32::from(byte as i8) as u32)
}

/// Hash of the digits of a numeric, and the weight of the first one to combine it with. For zero there is -1 instead,
/// for NaN and the infinities 0.
pub(crate) fn numeric_hash(value: &Numeric, seed: u64) -> Result<(Option<u64>, i64)> {
    if !value.is_finite() {
        return Ok((None, 0));
    }
    if value.signum() == 0 {
        return Ok((None, -1));
    }
    let mut binary = Vec::new();
    pg::numeric::write_binary(&mut binary, value);
    // Count, weight, sign and scale precede the digits to base 10,000.
    let (words, _) = binary.as_chunks::<2>();
    let [_, weight, _, _, digits @ ..] = words else { return Err(Error::bug("a numeric without header")) };
    let bytes: Vec<u8> = digits.iter().flat_map(|[high, low]| [*low, *high]).collect();
    Ok((Some(hash_bytes(&bytes, seed)), i64::from(i16::from_be_bytes(*weight))))
}

/// Bob Jenkins' hash `lookup3` of bytes; without seed, the lower half is the result of PostgreSQL's 32-bit functions.
pub(crate) fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    const START: u32 = 0x9e37_79b9;
    /// PostgreSQL's own start value.
    const INITIAL: u32 = 3_923_095;
    let start = START.wrapping_add(bytes.len() as u32).wrapping_add(INITIAL);
    let mut state = [start; 3];
    if seed != 0 {
        state[0] = state[0].wrapping_add((seed >> 32) as u32);
        state[1] = state[1].wrapping_add(seed as u32);
        mix(&mut state);
    }
    let (blocks, rest) = bytes.as_chunks::<12>();
    for block in blocks {
        add_block(&mut state, block);
        mix(&mut state);
    }
    // The lowest byte of the last word stands for the length.
    let mut last = [0; 12];
    let (head, tail) = rest.split_at(rest.len().min(8));
    last[..head.len()].copy_from_slice(head);
    last[9..9 + tail.len()].copy_from_slice(tail);
    add_block(&mut state, &last);
    finish(&mut state);
    u64::from(state[1]) << 32 | u64::from(state[2])
}

fn add_block(state: &mut [u32; 3], block: &[u8; 12]) {
    let (words, _) = block.as_chunks::<4>();
    for (sum, word) in state.iter_mut().zip(words) {
        *sum = sum.wrapping_add(u32::from_le_bytes(*word));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    for rotations in [[4, 6, 8], [16, 19, 4]] {
        a = a.wrapping_sub(c) ^ c.rotate_left(rotations[0]);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(rotations[1]);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(rotations[2]);
        b = b.wrapping_add(a);
    }
    *state = [a, b, c];
}

fn finish(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    *state = [a, b, c];
}
