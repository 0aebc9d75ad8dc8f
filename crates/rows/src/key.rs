//! Index keys: an encoding of values whose byte order is the order of the values.
//!
//! A key is the concatenation of its columns' encodings. No encoding of a column is a prefix of
//! another of that column. The encoding of the first columns is therefore a prefix of exactly those
//! keys that have these values.
//!
//! | column                                | bytes                                                                             |
//! |---------------------------------------|-----------------------------------------------------------------------------------|
//! | nullable                              | 1 and the value, or 2 for NULL: NULLS LAST                                        |
//! | bool                                  | 0 or 1                                                                            |
//! | integers, date, time, timestamps      | big-endian, sign bit flipped                                                      |
//! | floats                                | big-endian IEEE bits; positive: sign bit flipped, negative: all bits flipped; -0 as 0, one NaN |
//! | numeric                               | see `push_numeric`; equal for 1.0 and 1.00                                        |
//! | text, bytea                           | the bytes (collation C) with 00 escaped as 00 FF, then 00 00; char(n) without trailing blanks |
//! | uuid                                  | its 16 bytes                                                                      |
//! | interval                              | its length as a 128-bit integer: one month equals thirty days, as in PostgreSQL   |
//! | oid and similar; other types           | big-endian; `model::sort_key`                                                     |
//! | descending                            | all of the above with every bit flipped: NULLS FIRST, PostgreSQL's default for DESC |

use model::limits::INDEX_KEY_BYTES_MAX;
use model::{Datum, Error, Numeric, Result, SqlState, Storage, Type, sort_key};

const PRESENT: u8 = 1;
const NULL: u8 = 2;

/// Type and sort order of one index column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's type.
    pub ty: Type,
    /// Whether the column may be NULL; a nullable column has a marker byte before the value.
    pub nullable: bool,
    /// Whether the column is sorted in descending order.
    pub descending: bool,
}

impl KeyColumn {
    /// An ascending NOT NULL column.
    #[must_use]
    pub fn new(ty: Type) -> KeyColumn {
        KeyColumn { ty, nullable: false, descending: false }
    }
}

/// Appends the encoding of `value`, which must have the column's type as [`crate::coerce`] returns
/// it; a numeric may have any scale, a `char(n)` may have trailing blanks.
///
/// # Errors
/// XX000 (a bug) for a value of another type, or for NULL in a column that is not nullable. 0A000 for a `jsonb` value that
/// nests too deeply to have a key.
///
/// # Cost
/// Appends at most 17 bytes for fixed types, without allocating if `out` has room.
pub fn push(out: &mut Vec<u8>, column: &KeyColumn, value: &Datum<'_>) -> Result<()> {
    let start = out.len();
    let mut pushed = true;
    if column.nullable {
        out.push(if value.is_null() { NULL } else { PRESENT });
    }
    match (column.ty, value) {
        (_, Datum::Null) => pushed = column.nullable,
        (Type::Other(other), value) if !column.ty.base().is_other() => {
            debug_assert!(other.typmod >= 0, "BUG: {other} is a type of its own");
            pushed = push_value(out, column.ty.base(), value);
        }
        (Type::Other(other), value) => {
            if let Err(error) = sort_key::push(value, other.oid, out) {
                out.truncate(start);
                return Err(error);
            }
        }
        (ty, value) => pushed = push_value(out, ty, value),
    }
    if !pushed {
        out.truncate(start);
        return Err(Error::bug(format!("{value:?} in a key column of type {}", column.ty)));
    }
    if column.descending {
        flip(&mut out[start..]);
    }
    Ok(())
}

/// Appends the prefix of all encodings of `column` that are not NULL; nothing if the column is not
/// nullable. It bounds a half-open range of non-NULL values: from this prefix, or up to its
/// [`prefix_end`].
pub fn push_not_null_prefix(out: &mut Vec<u8>, column: &KeyColumn) {
    if column.nullable {
        out.push(if column.descending { !PRESENT } else { PRESENT });
    }
}

/// Length of the encoding of `column` at the start of `key`; `None` for a descending column, a
/// malformed key, or a type whose keys end only with their last part.
#[must_use]
pub fn value_bytes(column: &KeyColumn, key: &[u8]) -> Option<usize> {
    if column.descending {
        return None;
    }
    let mark = usize::from(column.nullable);
    if is_null(column, key) {
        return Some(mark);
    }
    let value = key.get(mark..)?;
    let length = match column.ty.base() {
        Type::Bool => 1,
        Type::Int2 => 2,
        Type::Int4 | Type::Float4 | Type::Date => 4,
        Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::Timestamptz => 8,
        Type::Uuid | Type::Interval => 16,
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Json | Type::Bytes => {
            let mut at = 0;
            loop {
                at += value.get(at..)?.iter().position(|byte| *byte == 0)? + 2;
                if *value.get(at - 1)? == 0 {
                    break at;
                }
            }
        }
        Type::Numeric(_) => {
            let end = match *value.first()? {
                class::NEGATIVE => u8::MAX,
                class::POSITIVE => 0,
                _ => return Some(mark + 1),
            };
            3 + value.get(3..)?.iter().position(|byte| *byte == end)? + 1
        }
        Type::Other(other) if other.storage() == Storage::Oid => 4,
        Type::Other(_) => return None,
    };
    (value.len() >= length).then_some(mark + length)
}

/// Whether `key` starts with NULL in an ascending column.
#[must_use]
pub fn is_null(column: &KeyColumn, key: &[u8]) -> bool {
    column.nullable && key.first() == Some(&NULL)
}

/// Replaces a prefix by the smallest key above all keys with that prefix. False, and the prefix
/// empty, if there is none: then the range ends with the index.
pub fn prefix_end(prefix: &mut Vec<u8>) -> bool {
    while let Some(last) = prefix.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return true;
        }
        prefix.pop();
    }
    false
}

/// Checks the length limit of index keys.
///
/// # Errors
/// 54000 for more than [`INDEX_KEY_BYTES_MAX`] bytes.
pub fn check_size(index: &str, key: &[u8]) -> Result<()> {
    if key.len() <= INDEX_KEY_BYTES_MAX {
        return Ok(());
    }
    let text =
        format!("key of {} bytes is too long for index \"{index}\"; the limit is {INDEX_KEY_BYTES_MAX}", key.len());
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text).with_hint("index fewer or shorter columns"))
}

fn flip(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}

/// False, without appending anything, if the value does not have the type.
fn push_value(out: &mut Vec<u8>, ty: Type, value: &Datum<'_>) -> bool {
    match (ty, value) {
        (Type::Int4, Datum::Int4(value)) | (Type::Date, Datum::Date(value)) => {
            out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
        }
        (Type::Int2, Datum::Int2(value)) => out.extend_from_slice(&(value ^ i16::MIN).to_be_bytes()),
        (Type::Int8, Datum::Int8(value))
        | (Type::Time, Datum::Time(value))
        | (Type::Timestamp, Datum::Timestamp(value))
        | (Type::Timestamptz, Datum::Timestamptz(value)) => {
            out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
        }
        (Type::Bool, Datum::Bool(value)) => out.push(u8::from(*value)),
        (Type::Float4, Datum::Float4(value)) => push_float4(out, *value),
        (Type::Float8, Datum::Float8(value)) => push_float8(out, *value),
        (Type::Numeric(_), Datum::Numeric(value)) => push_numeric(out, value),
        (Type::Char(_), Datum::Text(value)) => push_bytes(out, value.trim_end_matches(' ').as_bytes()),
        (Type::Text | Type::Varchar(_) | Type::Json, Datum::Text(value)) => push_bytes(out, value.as_bytes()),
        (Type::Bytes, Datum::Bytes(value)) => push_bytes(out, value),
        (Type::Uuid, Datum::Uuid(value)) => out.extend_from_slice(value),
        (Type::Interval, Datum::Interval(value)) => {
            out.extend_from_slice(&(value.span_micros() ^ i128::MIN).to_be_bytes());
        }
        _ => return false,
    }
    true
}

fn push_float4(out: &mut Vec<u8>, value: f32) {
    let bits = if value.is_nan() { f32::NAN.to_bits() & (u32::MAX >> 1) } else { (value + 0.0).to_bits() };
    let negative = bits >> 31 == 1;
    out.extend_from_slice(&(if negative { !bits } else { bits | 1 << 31 }).to_be_bytes());
}

fn push_float8(out: &mut Vec<u8>, value: f64) {
    // `+ 0.0` turns -0 into 0.
    let bits = if value.is_nan() { f64::NAN.to_bits() & (u64::MAX >> 1) } else { (value + 0.0).to_bits() };
    let negative = bits >> 63 == 1;
    out.extend_from_slice(&(if negative { !bits } else { bits | 1 << 63 }).to_be_bytes());
}

fn push_bytes(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(at) = bytes.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&bytes[..=at]);
        out.push(0xff);
        bytes = &bytes[at + 1..];
    }
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0, 0]);
}

/// First byte of a numeric: its class, in sort order.
mod class {
    pub(super) const MINUS_INFINITY: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const ZERO: u8 = 2;
    pub(super) const POSITIVE: u8 = 3;
    pub(super) const PLUS_INFINITY: u8 = 4;
    pub(super) const NAN: u8 = 5;
}

/// Bias that makes weights non-negative: a numeric has at most 16,383 decimal places.
const WEIGHT_BIAS: i32 = 4_096;

/// Appends a numeric: one byte for its class; for positive numbers the *weight*, the exponent of
/// the largest power of 10,000 not above the number (u16, big-endian, biased), then the decimal
/// digits from that power down, two per byte plus 1, without trailing zeros, and a final 0; for
/// negative numbers the same with all these bits flipped.
fn push_numeric(out: &mut Vec<u8>, value: &Numeric) {
    let finite = value.with_digits(|negative, digits, scale| push_finite(out, negative, digits, scale));
    if finite.is_none() {
        out.push(match value.signum() {
            0 => class::NAN,
            1.. => class::PLUS_INFINITY,
            _ => class::MINUS_INFINITY,
        });
    }
}

fn push_finite(out: &mut Vec<u8>, negative: bool, digits: &[u8], scale: u32) {
    let Some(last) = digits.iter().rposition(|digit| *digit != b'0') else { return out.push(class::ZERO) };
    out.push(if negative { class::NEGATIVE } else { class::POSITIVE });
    let start = out.len();
    // Decimal exponent of the first digit.
    let first = digits.len() as i32 - 1 - scale as i32;
    let weight = first.div_euclid(4);
    out.extend_from_slice(&((weight + WEIGHT_BIAS) as u16).to_be_bytes());
    // Leading zeros that align the first digit to a power of 10,000.
    let zeros = (4 * weight + 3 - first) as usize;
    let digit = |at: usize| at.checked_sub(zeros).and_then(|at| digits.get(at)).map_or(0, |digit| digit - b'0');
    let pairs = (zeros + last + 1).div_ceil(2);
    out.extend((0..pairs).map(|pair| digit(2 * pair) * 10 + digit(2 * pair + 1) + 1));
    out.push(0);
    if negative {
        flip(&mut out[start..]);
    }
}
