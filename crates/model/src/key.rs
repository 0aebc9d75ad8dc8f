//! The canonical bytes of a series key: two rows belong to the same series exactly when these bytes
//! are equal.
//!
//! A key consists of the values of the table's key columns, in order. Each value is a tag byte (0 =
//! NULL, 1 = present) and, when present, its bytes: bool 1 byte; integers and timestamps 8 bytes
//! little-endian (all integers widened to 64 bits); text and bytes a LEB128 length and the bytes.
//! **Trailing NULLs are omitted**, so that a key written before a key column was added equals the
//! same key written after it. NULLs are equal; `''` is not NULL.

use crate::{DataType, Error, Result};

/// One value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyValue {
    /// NULL.
    Null,
    /// `boolean`
    Bool(bool),
    /// Any signed integer.
    Int(i64),
    /// `numeric(20)`
    UInt(u64),
    /// `text`
    Text(String),
    /// `bytea`
    Bytes(Vec<u8>),
    /// Nanoseconds since 1970 UTC.
    Timestamp(i64),
}

/// One value of a key, borrowed from the key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyRef<'a> {
    /// NULL.
    Null,
    /// `boolean`
    Bool(bool),
    /// Any signed integer.
    Int(i64),
    /// `numeric(20)`
    UInt(u64),
    /// `text`
    Text(&'a str),
    /// `bytea`
    Bytes(&'a [u8]),
    /// Nanoseconds since 1970 UTC.
    Timestamp(i64),
}

impl KeyValue {
    /// Borrows the value.
    #[must_use]
    pub fn borrowed(&self) -> KeyRef<'_> {
        match self {
            KeyValue::Null => KeyRef::Null,
            KeyValue::Bool(value) => KeyRef::Bool(*value),
            KeyValue::Int(value) => KeyRef::Int(*value),
            KeyValue::UInt(value) => KeyRef::UInt(*value),
            KeyValue::Text(value) => KeyRef::Text(value),
            KeyValue::Bytes(value) => KeyRef::Bytes(value),
            KeyValue::Timestamp(value) => KeyRef::Timestamp(*value),
        }
    }
}

impl From<KeyRef<'_>> for KeyValue {
    fn from(value: KeyRef<'_>) -> KeyValue {
        match value {
            KeyRef::Null => KeyValue::Null,
            KeyRef::Bool(value) => KeyValue::Bool(value),
            KeyRef::Int(value) => KeyValue::Int(value),
            KeyRef::UInt(value) => KeyValue::UInt(value),
            KeyRef::Text(value) => KeyValue::Text(value.to_owned()),
            KeyRef::Bytes(value) => KeyValue::Bytes(value.to_vec()),
            KeyRef::Timestamp(value) => KeyValue::Timestamp(value),
        }
    }
}

/// Appends a NULL. Remove trailing ones with [`finish`].
pub fn push_null(out: &mut Vec<u8>) {
    out.push(0);
}

/// Appends text or bytes.
pub fn push_bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.push(1);
    push_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends an integer, timestamp or (as its bits) unsigned integer.
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.push(1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a bool.
pub fn push_bool(out: &mut Vec<u8>, value: bool) {
    out.push(1);
    out.push(u8::from(value));
}

/// Appends any value.
pub fn push(out: &mut Vec<u8>, value: &KeyValue) {
    match value {
        KeyValue::Null => push_null(out),
        KeyValue::Bool(value) => push_bool(out, *value),
        KeyValue::Int(value) | KeyValue::Timestamp(value) => push_i64(out, *value),
        KeyValue::UInt(value) => push_i64(out, value.cast_signed()),
        KeyValue::Text(value) => push_bytes(out, value.as_bytes()),
        KeyValue::Bytes(value) => push_bytes(out, value),
    }
}

/// Makes the key that starts at `start` in `out` canonical by removing its last `trailing_nulls`
/// values, which must be NULL.
pub fn finish(out: &mut Vec<u8>, start: usize, trailing_nulls: usize) {
    debug_assert!(out[out.len() - trailing_nulls..].iter().all(|byte| *byte == 0));
    debug_assert!(out.len() - trailing_nulls >= start);
    out.truncate(out.len() - trailing_nulls);
}

/// Encodes `values` as canonical bytes.
#[must_use]
pub fn encode(values: &[KeyValue]) -> Vec<u8> {
    let kept = values.iter().rposition(|value| *value != KeyValue::Null).map_or(0, |last| last + 1);
    let mut out = Vec::new();
    for value in &values[..kept] {
        push(&mut out, value);
    }
    out
}

/// Decodes a key of columns with `types`; missing trailing values are NULL.
///
/// # Errors
/// XX001 when the bytes are not a key of these types.
pub fn decode(bytes: &[u8], types: &[DataType]) -> Result<Vec<KeyValue>> {
    let mut values = Vec::with_capacity(types.len());
    visit(bytes, types, |_, value| values.push(value.into()))?;
    Ok(values)
}

/// Calls `each` with the position and value of every key column, without allocating; missing
/// trailing ones are NULL.
///
/// # Errors
/// XX001 when the bytes are not a key of these types; `each` may have been called for the values
/// before the bad one.
pub fn visit<'a>(mut bytes: &'a [u8], types: &[DataType], mut each: impl FnMut(usize, KeyRef<'a>)) -> Result<()> {
    for (at, ty) in types.iter().enumerate() {
        each(at, take_value(&mut bytes, *ty)?);
    }
    if bytes.is_empty() { Ok(()) } else { Err(malformed("has more values than key columns")) }
}

/// Decodes only the value of key column `at` and skips those after it.
///
/// # Errors
/// XX001 when the bytes up to it are not a key of these types.
pub fn value_at<'a>(mut bytes: &'a [u8], types: &[DataType], at: usize) -> Result<KeyRef<'a>> {
    for ty in &types[..at] {
        take_value(&mut bytes, *ty)?;
    }
    take_value(&mut bytes, types[at])
}

fn take_value<'a>(bytes: &mut &'a [u8], ty: DataType) -> Result<KeyRef<'a>> {
    let Some((tag, rest)) = bytes.split_first() else {
        return Ok(KeyRef::Null);
    };
    *bytes = rest;
    match tag {
        0 => return Ok(KeyRef::Null),
        1 => {}
        _ => return Err(malformed("has an unknown tag byte")),
    }
    Ok(match ty {
        DataType::Bool => KeyRef::Bool(take(bytes, 1)?[0] != 0),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => KeyRef::Int(take_i64(bytes)?),
        DataType::UInt64 => KeyRef::UInt(take_i64(bytes)?.cast_unsigned()),
        DataType::Timestamp => KeyRef::Timestamp(take_i64(bytes)?),
        DataType::Text => {
            let text = take_varint_bytes(bytes)?;
            KeyRef::Text(std::str::from_utf8(text).map_err(|_| malformed("has text that is not UTF-8"))?)
        }
        DataType::Bytes => KeyRef::Bytes(take_varint_bytes(bytes)?),
        DataType::Float32 | DataType::Float64 => return Err(malformed("has a float column")),
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(count).ok_or_else(|| malformed("ends early"))?;
    *bytes = rest;
    Ok(head)
}

fn take_i64(bytes: &mut &[u8]) -> Result<i64> {
    let head = take(bytes, 8)?;
    Ok(i64::from_le_bytes(head.try_into().map_err(|_| malformed("ends early"))?))
}

fn take_varint_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let mut len = 0u64;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)?[0];
        if shift > 28 {
            return Err(malformed("has a wild length"));
        }
        len |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    take(bytes, usize::try_from(len).map_err(|_| malformed("has a wild length"))?)
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn malformed(what: &str) -> Error {
    Error::corrupt(format!("series key {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [DataType; 3] = [DataType::Text, DataType::Int32, DataType::Bool];

    #[test]
    fn keys_round_trip_without_trailing_nulls() {
        let values = vec![KeyValue::Text("a\0é".repeat(100)), KeyValue::Int(-7), KeyValue::Bool(true)];
        assert_eq!(decode(&encode(&values), &TYPES).unwrap(), values);
        for (at, value) in values.iter().enumerate() {
            assert_eq!(value_at(&encode(&values), &TYPES, at).unwrap(), value.borrowed());
        }
        let short = [KeyValue::Text("a".into())];
        let long = [KeyValue::Text("a".into()), KeyValue::Null, KeyValue::Null];
        assert_eq!(encode(&short), encode(&long));
        assert_eq!(decode(&encode(&short), &TYPES).unwrap(), long);
    }

    #[test]
    fn the_empty_text_is_not_null() {
        assert_ne!(encode(&[KeyValue::Text(String::new())]), encode(&[KeyValue::Null]));
    }

    #[test]
    fn incremental_building_gives_the_same_bytes() {
        let mut out = vec![9];
        push_bytes(&mut out, b"x");
        push_null(&mut out);
        push_null(&mut out);
        finish(&mut out, 1, 2);
        assert_eq!(out[1..], encode(&[KeyValue::Text("x".into())])[..]);
    }

    #[test]
    fn truncated_keys_are_refused() {
        let bytes = encode(&[KeyValue::Text("abc".into()), KeyValue::Int(1)]);
        for cut in [1, 3, bytes.len() - 1] {
            assert!(decode(&bytes[..cut], &TYPES).is_err(), "cut at {cut}");
        }
        assert!(decode(&[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &TYPES).is_err());
    }
}
