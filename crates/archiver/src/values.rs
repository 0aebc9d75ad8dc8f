//! Values of samples as columns of `epics.samples`, both ways.
//!
//! | column | has a value for |
//! |---|---|
//! | `type` | every sample: number of the type, as the Appliance counts; 15 and 16 for 64-bit integers and arrays of them |
//! | `value` | numbers, and the index of an enumeration |
//! | `exact` | 64-bit integers that a double cannot hold |
//! | `string` | texts |
//! | `elements` | waveforms: elements in little-endian order, texts as u32 length and bytes; structures: their bytes |
//!
//! Always true: a value that is stored and read is the same, bit by bit, with the same type.

use epics::pb::Payload;
use epics::sample::{Array, Scalar, Value};

/// Type number of a 64-bit integer.
const INT64: i16 = 15;
/// Type number of an array of 64-bit integers.
const INT64S: i16 = 16;
/// Integers up to this magnitude are exact as doubles.
const EXACT_MAX: u64 = 1 << 53;

/// A value as columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored<'a> {
    pub(crate) ty: i16,
    pub(crate) value: Option<f64>,
    pub(crate) exact: Option<i64>,
    pub(crate) string: Option<&'a str>,
    pub(crate) elements: Option<Vec<u8>>,
}

impl Stored<'_> {
    /// Bytes of the parts that have no fixed size.
    pub(crate) fn varying_bytes(&self) -> usize {
        self.string.map_or(0, str::len) + self.elements.as_ref().map_or(0, Vec::len)
    }
}

/// Type number of a value.
pub(crate) fn type_of(value: &Value) -> i16 {
    match value {
        Value::Scalar(Scalar::Int64(_)) => INT64,
        Value::Array(Array::Int64(_)) => INT64S,
        value => Payload::of(value) as i16,
    }
}

/// The Appliance's type of a type number; 64-bit integers are doubles there.
pub(crate) fn payload(ty: i16) -> Payload {
    match ty {
        INT64 => Payload::Float64,
        INT64S => Payload::Float64s,
        ty => Payload::ALL.into_iter().find(|payload| *payload as i16 == ty).unwrap_or(Payload::Float64),
    }
}

/// Whether values of a type are numbers; the index of an enumeration is none.
pub(crate) fn is_number(ty: i16) -> bool {
    matches!(ty, 1 | 2 | 4..=6 | INT64)
}

/// A scalar number, or the index of an enumeration.
pub(crate) fn number(value: &Value) -> Option<f64> {
    if matches!(value, Value::Scalar(_)) { store(value).value } else { None }
}

/// Splits a value into columns.
pub(crate) fn store(value: &Value) -> Stored<'_> {
    let mut stored = Stored { ty: type_of(value), value: None, exact: None, string: None, elements: None };
    match value {
        Value::Scalar(scalar) => match scalar {
            Scalar::Int8(number) => stored.value = Some(f64::from(*number)),
            Scalar::Int16(number) => stored.value = Some(f64::from(*number)),
            Scalar::Int32(number) => stored.value = Some(f64::from(*number)),
            Scalar::Int64(number) => {
                stored.value = Some(*number as f64);
                stored.exact = (number.unsigned_abs() > EXACT_MAX).then_some(*number);
            }
            Scalar::Float32(number) => stored.value = Some(f64::from(*number)),
            Scalar::Float64(number) => stored.value = Some(*number),
            Scalar::Enum(index) => stored.value = Some(f64::from(*index)),
            Scalar::Text(text) => stored.string = Some(text),
        },
        Value::Array(array) => stored.elements = Some(elements(array)),
        Value::Structure(bytes) => stored.elements = Some(bytes.clone()),
    }
    stored
}

fn elements(array: &Array) -> Vec<u8> {
    fn all<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|value| bytes(*value)).collect()
    }
    match array {
        Array::Int8(values) => all(values, i8::to_le_bytes),
        Array::Int16(values) => all(values, i16::to_le_bytes),
        Array::Int32(values) => all(values, i32::to_le_bytes),
        Array::Int64(values) => all(values, i64::to_le_bytes),
        Array::Float32(values) => all(values, f32::to_le_bytes),
        Array::Float64(values) => all(values, f64::to_le_bytes),
        Array::Enum(values) => all(values, u16::to_le_bytes),
        Array::Text(texts) => {
            let mut bytes = Vec::new();
            for text in texts {
                bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
            bytes
        }
    }
}

/// Columns of a row that was read. `ty` is absent in rows that others wrote without it.
pub(crate) struct Read<'a> {
    pub(crate) ty: Option<i16>,
    pub(crate) value: Option<f64>,
    pub(crate) exact: Option<i64>,
    pub(crate) string: Option<&'a str>,
    pub(crate) elements: Option<&'a [u8]>,
}

/// The value of a row. A row without a type, or whose columns do not fit its type, is the double, text or bytes that it has;
/// a row without any is NaN.
pub(crate) fn load(read: &Read<'_>) -> Value {
    read.ty.and_then(|ty| typed(ty, read)).unwrap_or_else(|| untyped(read))
}

fn untyped(read: &Read<'_>) -> Value {
    match (read.exact, read.value, read.string, read.elements) {
        (Some(exact), ..) => Value::Scalar(Scalar::Int64(exact)),
        (None, Some(value), ..) => Value::Scalar(Scalar::Float64(value)),
        (None, None, Some(string), _) => Value::Scalar(Scalar::Text(string.to_owned())),
        (None, None, None, Some(bytes)) => Value::Structure(bytes.to_vec()),
        (None, None, None, None) => Value::Scalar(Scalar::Float64(f64::NAN)),
    }
}

fn typed(ty: i16, read: &Read<'_>) -> Option<Value> {
    // Doubles that were stored from integers are integers; `as` saturates others.
    let scalar = match ty {
        INT64 => Scalar::Int64(match read.exact {
            Some(exact) => exact,
            None => read.value? as i64,
        }),
        INT64S => return Some(Value::Array(Array::Int64(split(read.elements?, i64::from_le_bytes)))),
        ty => match Payload::ALL.into_iter().find(|payload| *payload as i16 == ty)? {
            Payload::Text => Scalar::Text(read.string?.to_owned()),
            Payload::Int8 => Scalar::Int8(read.value? as i8),
            Payload::Int16 => Scalar::Int16(read.value? as i16),
            Payload::Int32 => Scalar::Int32(read.value? as i32),
            Payload::Float32 => Scalar::Float32(read.value? as f32),
            Payload::Float64 => Scalar::Float64(read.value?),
            Payload::Enum => Scalar::Enum(read.value? as u16),
            payload => return array(payload, read.elements?),
        },
    };
    Some(Value::Scalar(scalar))
}

fn split<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| value(*chunk)).collect()
}

fn array(payload: Payload, bytes: &[u8]) -> Option<Value> {
    Some(Value::Array(match payload {
        Payload::Int8s => Array::Int8(split(bytes, i8::from_le_bytes)),
        Payload::Int16s => Array::Int16(split(bytes, i16::from_le_bytes)),
        Payload::Int32s => Array::Int32(split(bytes, i32::from_le_bytes)),
        Payload::Float32s => Array::Float32(split(bytes, f32::from_le_bytes)),
        Payload::Float64s => Array::Float64(split(bytes, f64::from_le_bytes)),
        Payload::Enums => Array::Enum(split(bytes, u16::from_le_bytes)),
        Payload::Texts => Array::Text(texts(bytes)?),
        _ => return Some(Value::Structure(bytes.to_vec())),
    }))
}

fn texts(mut bytes: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        texts.push(String::from_utf8(text.to_vec()).ok()?);
        bytes = rest;
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(value: &Value) -> Value {
        let stored = store(value);
        load(&Read {
            ty: Some(stored.ty),
            value: stored.value,
            exact: stored.exact,
            string: stored.string,
            elements: stored.elements.as_deref(),
        })
    }

    #[test]
    fn values_of_every_type_are_the_same_after_storing() {
        let scalars = [
            Scalar::Int8(-128),
            Scalar::Int16(i16::MIN),
            Scalar::Int32(i32::MAX),
            Scalar::Int64(i64::MAX),
            Scalar::Int64(i64::MIN),
            Scalar::Int64(-7),
            Scalar::Int64((1 << 53) + 1),
            Scalar::Float32(0.1),
            Scalar::Float32(f32::NEG_INFINITY),
            Scalar::Float64(-0.0),
            Scalar::Float64(5e-324),
            Scalar::Enum(u16::MAX),
            Scalar::Text(String::new()),
            Scalar::Text("Öffnung".into()),
        ];
        let arrays = [
            Array::Int8(vec![-1, 0, 127]),
            Array::Int16(vec![]),
            Array::Int32(vec![1 << 30]),
            Array::Int64(vec![i64::MIN, i64::MAX]),
            Array::Float32(vec![1.5, f32::INFINITY]),
            Array::Float64(vec![-0.0, 1e300]),
            Array::Enum(vec![3, 0]),
            Array::Text(vec!["".into(), "ab".into(), "ü".into()]),
        ];
        let all = scalars.into_iter().map(Value::Scalar).chain(arrays.into_iter().map(Value::Array));
        for value in all.chain([Value::Structure(vec![1, 2, 3])]) {
            assert_eq!(format!("{:?}", again(&value)), format!("{value:?}"));
        }
        let nan = again(&Value::Scalar(Scalar::Float64(f64::NAN)));
        assert!(matches!(nan, Value::Scalar(Scalar::Float64(number)) if number.is_nan()));
    }

    #[test]
    fn rows_that_do_not_fit_their_type_are_read_as_what_they_have() {
        let none = Read { ty: None, value: None, exact: None, string: None, elements: None };
        let number = Read { ty: Some(0), value: Some(2.5), ..none };
        assert_eq!(load(&number), Value::Scalar(Scalar::Float64(2.5)));
        let bad = [5, 0, 0, 0, b'a'];
        let texts = Read { ty: Some(7), elements: Some(&bad), value: None, exact: None, string: None };
        assert_eq!(load(&texts), Value::Structure(bad.to_vec()));
        let unknown = Read { ty: Some(99), string: Some("x"), value: None, exact: None, elements: None };
        assert_eq!(load(&unknown), Value::Scalar(Scalar::Text("x".into())));
    }
}
