//! Payloads of Channel Access: values with status, severity and time (`DBR_TIME_*`), metadata (`DBR_CTRL_*`).
//!
//! Offset of the value, and bytes of an element:
//!
//! | native type | number | element | `DBR_TIME_*` (+14) | `DBR_CTRL_*` (+28) |
//! |-------------|-------:|--------:|-------------------:|-------------------:|
//! | `STRING`    |      0 |      40 |                 12 |                  4 |
//! | `SHORT`     |      1 |       2 |                 14 |                 28 |
//! | `FLOAT`     |      2 |       4 |                 12 |                 48 |
//! | `ENUM`      |      3 |       2 |                 14 |                422 |
//! | `CHAR`      |      4 |       1 |                 15 |                 21 |
//! | `LONG`      |      5 |       4 |                 12 |                 44 |
//! | `DOUBLE`    |      6 |       8 |                 16 |                 80 |
//!
//! Both begin with status and severity, 2 bytes each; `DBR_TIME_*` continues with seconds since 1990 and nanoseconds, 4 bytes each.
//! `DBR_CHAR` is read as signed, its limits too.
//!
//! Always true: a decoder allocates at most four times the bytes of its payload.

use std::fmt;

use super::protocol::{u16_at, u32_at, until_zero};
use crate::sample::{Array, EPICS_EPOCH_SECONDS, Limits, Metadata, Sample, Scalar, Severity, Value, ValueType};

/// Bytes of a `DBR_STRING`, with its final zero.
const STRING_BYTES: usize = 40;
/// Bytes of units.
const UNITS_BYTES: usize = 8;
/// Labels of an enumeration: their number and bytes each.
const LABELS_MAX: usize = 16;
const LABEL_BYTES: usize = 26;

/// Type of a channel in its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NativeType {
    /// Text of up to 39 bytes.
    String = 0,
    /// 16-bit integer.
    Short = 1,
    /// 32-bit float.
    Float = 2,
    /// Index of a label.
    Enum = 3,
    /// 8-bit integer.
    Char = 4,
    /// 32-bit integer.
    Long = 5,
    /// 64-bit float.
    Double = 6,
}

impl From<NativeType> for ValueType {
    fn from(native: NativeType) -> ValueType {
        match native {
            NativeType::String => ValueType::Text,
            NativeType::Short => ValueType::Int16,
            NativeType::Float => ValueType::Float32,
            NativeType::Enum => ValueType::Enum,
            NativeType::Char => ValueType::Int8,
            NativeType::Long => ValueType::Int32,
            NativeType::Double => ValueType::Float64,
        }
    }
}

impl NativeType {
    /// All, by number.
    pub const ALL: [NativeType; 7] = [
        NativeType::String,
        NativeType::Short,
        NativeType::Float,
        NativeType::Enum,
        NativeType::Char,
        NativeType::Long,
        NativeType::Double,
    ];

    /// The type of a number, 0 ..= 6.
    #[must_use]
    pub fn of(number: u16) -> Option<NativeType> {
        NativeType::ALL.get(usize::from(number)).copied()
    }

    /// Name as `caget -d` takes it, for example `DBR_DOUBLE`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["DBR_STRING", "DBR_SHORT", "DBR_FLOAT", "DBR_ENUM", "DBR_CHAR", "DBR_LONG", "DBR_DOUBLE"][self as usize]
    }

    /// Number of the `DBR_TIME_*` type.
    #[must_use]
    pub fn time_type(self) -> u16 {
        self as u16 + 14
    }

    /// Number of the `DBR_CTRL_*` type.
    #[must_use]
    pub fn control_type(self) -> u16 {
        self as u16 + 28
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(self) -> usize {
        [STRING_BYTES, 2, 4, 2, 1, 4, 8][self as usize]
    }

    fn time_value_at(self) -> usize {
        [12, 14, 12, 14, 15, 12, 16][self as usize]
    }

    fn control_value_at(self) -> usize {
        [4, 28, 48, 422, 21, 44, 80][self as usize]
    }
}

/// Whether a channel has one element or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An update of one element is a [`Scalar`].
    Scalar,
    /// Every update is an [`Array`], whatever its length.
    Array,
}

/// A payload that is not of its type and count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadError {
    /// The number is no type that is decoded here.
    Type {
        /// Number of the DBR type.
        data_type: u16,
    },
    /// The payload is shorter than its count says.
    Short {
        /// Number of the DBR type.
        data_type: u16,
        /// Elements that the header announces.
        count: u32,
        /// Bytes of the payload.
        seen: usize,
        /// Bytes that the elements need.
        expected: usize,
    },
}

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PayloadError::Type { data_type } => {
                write!(
                    f,
                    "payload of type {data_type}: expected DBR_TIME (14 to 20), DBR_GR_ENUM (24) or DBR_CTRL (28 to 34)"
                )
            }
            PayloadError::Short { data_type, count, seen, expected } => {
                write!(
                    f,
                    "payload of type {data_type} with {count} elements has {seen} bytes: expected {expected} or more"
                )
            }
        }
    }
}

impl std::error::Error for PayloadError {}

/// Decodes an update.
///
/// - `data_type`: 14 ..= 20.
/// - `count`: elements that the header announces; may be 0.
///
/// A severity above 3 is decoded as `INVALID`. Texts that are not UTF-8 are decoded as Latin-1.
///
/// # Errors
/// The type is another one, or the payload is too short.
pub fn decode_time(data_type: u16, count: u32, shape: Shape, payload: &[u8]) -> Result<Sample, PayloadError> {
    let native = data_type.checked_sub(14).and_then(NativeType::of).ok_or(PayloadError::Type { data_type })?;
    let elements = elements(native, data_type, count, native.time_value_at(), payload)?;
    let (Some(status), Some(severity), Some(seconds), Some(nanos)) =
        (u16_at(payload, 0), u16_at(payload, 2), u32_at(payload, 4), u32_at(payload, 8))
    else {
        return Err(PayloadError::Short { data_type, count, seen: payload.len(), expected: 12 });
    };
    Ok(Sample {
        time: (i64::from(seconds) + EPICS_EPOCH_SECONDS) * 1_000_000_000 + i64::from(nanos),
        value: value(native, count, shape, elements),
        severity: Severity::of(severity.into()).unwrap_or(Severity::Invalid),
        status,
    })
}

/// Decodes metadata.
///
/// - `data_type`: 28 ..= 34, or 24 (`DBR_GR_ENUM`, of the same form as `DBR_CTRL_ENUM`).
///
/// # Errors
/// The type is another one, or the payload is too short.
pub fn decode_control(data_type: u16, payload: &[u8]) -> Result<Metadata, PayloadError> {
    let native = control_native(data_type)?;
    let end = native.control_value_at();
    let short = PayloadError::Short { data_type, count: 1, seen: payload.len(), expected: end };
    let mut reader = Reader(payload.get(4..end).ok_or(short)?);
    Ok(match native {
        NativeType::String => Metadata::default(),
        NativeType::Enum => Metadata { labels: reader.labels(), ..Metadata::default() },
        NativeType::Float | NativeType::Double => {
            let precision = reader.take(2).and_then(|b| u16_at(b, 0)).map(u16::cast_signed);
            reader.take(2);
            Metadata { precision, units: reader.units(), limits: Some(reader.limits(native)), labels: Vec::new() }
        }
        NativeType::Short | NativeType::Char | NativeType::Long => {
            Metadata { precision: None, units: reader.units(), limits: Some(reader.limits(native)), labels: Vec::new() }
        }
    })
}

/// Appends the payload of an update in the type of its value, which is returned with the number of elements.
/// `None` for values that Channel Access cannot carry: 64-bit integers and structures.
pub fn encode_time(sample: &Sample, out: &mut Vec<u8>) -> Option<(NativeType, u32)> {
    let native = native_type(&sample.value)?;
    let start = out.len();
    out.extend_from_slice(&sample.status.to_be_bytes());
    out.extend_from_slice(&(sample.severity as u16).to_be_bytes());
    let (seconds, nanos) = (sample.time.div_euclid(1_000_000_000), sample.time.rem_euclid(1_000_000_000));
    out.extend_from_slice(&((seconds - EPICS_EPOCH_SECONDS) as u32).to_be_bytes());
    out.extend_from_slice(&(nanos as u32).to_be_bytes());
    out.resize(start + native.time_value_at(), 0);
    Some((native, encode_value(&sample.value, out)))
}

/// Appends metadata and one element of zeros as the `DBR_CTRL_*` payload of `native`.
pub fn encode_control(native: NativeType, metadata: &Metadata, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    match native {
        NativeType::String => {}
        NativeType::Enum => {
            let labels = &metadata.labels[..metadata.labels.len().min(LABELS_MAX)];
            out.extend_from_slice(&(labels.len() as u16).to_be_bytes());
            for label in labels {
                encode_text(label, LABEL_BYTES, out);
            }
        }
        _ => {
            if matches!(native, NativeType::Float | NativeType::Double) {
                out.extend_from_slice(&metadata.precision.unwrap_or(0).to_be_bytes());
                out.extend_from_slice(&[0; 2]);
            }
            encode_text(metadata.units.as_deref().unwrap_or(""), UNITS_BYTES, out);
            encode_limits(native, metadata.limits.as_ref(), out);
        }
    }
    out.resize(start + native.control_value_at() + native.element_bytes(), 0);
}

fn control_native(data_type: u16) -> Result<NativeType, PayloadError> {
    if data_type == 24 {
        return Ok(NativeType::Enum);
    }
    data_type.checked_sub(28).and_then(NativeType::of).ok_or(PayloadError::Type { data_type })
}

/// The bytes of `count` elements. The last text may be cut short: servers leave out its padding.
fn elements(native: NativeType, data_type: u16, count: u32, at: usize, payload: &[u8]) -> Result<&[u8], PayloadError> {
    let whole = (count as usize).saturating_mul(native.element_bytes());
    let optional = if native == NativeType::String && count > 0 { STRING_BYTES - 1 } else { 0 };
    let expected = at.saturating_add(whole - optional);
    let short = PayloadError::Short { data_type, count, seen: payload.len(), expected };
    if payload.len() < expected {
        return Err(short);
    }
    Ok(&payload[at..payload.len().min(at + whole)])
}

fn value(native: NativeType, count: u32, shape: Shape, bytes: &[u8]) -> Value {
    if shape == Shape::Scalar
        && count == 1
        && let Some(scalar) = scalar(native, bytes)
    {
        return Value::Scalar(scalar);
    }
    Value::Array(match native {
        NativeType::String => Array::Text(bytes.chunks(STRING_BYTES).map(text).collect()),
        NativeType::Short => Array::Int16(numbers(bytes, i16::from_be_bytes)),
        NativeType::Float => Array::Float32(numbers(bytes, f32::from_be_bytes)),
        NativeType::Enum => Array::Enum(numbers(bytes, u16::from_be_bytes)),
        NativeType::Char => Array::Int8(numbers(bytes, i8::from_be_bytes)),
        NativeType::Long => Array::Int32(numbers(bytes, i32::from_be_bytes)),
        NativeType::Double => Array::Float64(numbers(bytes, f64::from_be_bytes)),
    })
}

fn scalar(native: NativeType, bytes: &[u8]) -> Option<Scalar> {
    Some(match native {
        NativeType::String => Scalar::Text(text(bytes)),
        NativeType::Short => Scalar::Int16(i16::from_be_bytes(*bytes.first_chunk()?)),
        NativeType::Float => Scalar::Float32(f32::from_be_bytes(*bytes.first_chunk()?)),
        NativeType::Enum => Scalar::Enum(u16::from_be_bytes(*bytes.first_chunk()?)),
        NativeType::Char => Scalar::Int8(i8::from_be_bytes(*bytes.first_chunk()?)),
        NativeType::Long => Scalar::Int32(i32::from_be_bytes(*bytes.first_chunk()?)),
        NativeType::Double => Scalar::Float64(f64::from_be_bytes(*bytes.first_chunk()?)),
    })
}

fn numbers<T, const N: usize>(bytes: &[u8], of: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| of(*chunk)).collect()
}

/// The text before the first zero; bytes that are not UTF-8 are Latin-1, which IOCs use for units such as °C.
fn text(bytes: &[u8]) -> String {
    let bytes = until_zero(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&b| char::from(b)).collect(),
    }
}

/// Reads fields one after another; missing ones are empty.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(field)
    }

    fn units(&mut self) -> Option<String> {
        self.take(UNITS_BYTES).map(text)
    }

    fn labels(&mut self) -> Vec<String> {
        let count = self.take(2).and_then(|b| u16_at(b, 0)).unwrap_or(0);
        let count = usize::from(count).min(LABELS_MAX);
        (0..count).map_while(|_| self.take(LABEL_BYTES)).map(text).collect()
    }

    /// Upper before lower for displays; then `HIHI`, `HIGH`, `LOW`, `LOLO`; then control.
    fn limits(&mut self, native: NativeType) -> Limits {
        let fields: [f64; 8] = std::array::from_fn(|_| self.number(native));
        let [display_high, display_low, hihi, high, low, lolo, control_high, control_low] = fields;
        Limits {
            display: (display_low, display_high),
            alarm: (lolo, hihi),
            warning: (low, high),
            control: (control_low, control_high),
        }
    }

    fn number(&mut self, native: NativeType) -> f64 {
        match self.take(native.element_bytes()).and_then(|bytes| scalar(native, bytes)) {
            Some(Scalar::Int8(n)) => n.into(),
            Some(Scalar::Int16(n)) => n.into(),
            Some(Scalar::Int32(n)) => n.into(),
            Some(Scalar::Float32(n)) => n.into(),
            Some(Scalar::Float64(n)) => n,
            _ => f64::NAN,
        }
    }
}

fn native_type(value: &Value) -> Option<NativeType> {
    Some(match value {
        Value::Scalar(Scalar::Text(_)) | Value::Array(Array::Text(_)) => NativeType::String,
        Value::Scalar(Scalar::Int16(_)) | Value::Array(Array::Int16(_)) => NativeType::Short,
        Value::Scalar(Scalar::Float32(_)) | Value::Array(Array::Float32(_)) => NativeType::Float,
        Value::Scalar(Scalar::Enum(_)) | Value::Array(Array::Enum(_)) => NativeType::Enum,
        Value::Scalar(Scalar::Int8(_)) | Value::Array(Array::Int8(_)) => NativeType::Char,
        Value::Scalar(Scalar::Int32(_)) | Value::Array(Array::Int32(_)) => NativeType::Long,
        Value::Scalar(Scalar::Float64(_)) | Value::Array(Array::Float64(_)) => NativeType::Double,
        Value::Scalar(Scalar::Int64(_)) | Value::Array(Array::Int64(_)) | Value::Structure(_) => return None,
    })
}

/// Appends the elements and returns their number; none for values that [`native_type`] refuses.
fn encode_value(value: &Value, out: &mut Vec<u8>) -> u32 {
    fn numbers<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N], out: &mut Vec<u8>) -> usize {
        values.iter().for_each(|&v| out.extend_from_slice(&bytes(v)));
        values.len()
    }
    let count = match value {
        Value::Scalar(Scalar::Text(v)) => {
            encode_text(v, STRING_BYTES, out);
            1
        }
        Value::Scalar(Scalar::Int16(v)) => numbers(&[*v], i16::to_be_bytes, out),
        Value::Scalar(Scalar::Float32(v)) => numbers(&[*v], f32::to_be_bytes, out),
        Value::Scalar(Scalar::Enum(v)) => numbers(&[*v], u16::to_be_bytes, out),
        Value::Scalar(Scalar::Int8(v)) => numbers(&[*v], i8::to_be_bytes, out),
        Value::Scalar(Scalar::Int32(v)) => numbers(&[*v], i32::to_be_bytes, out),
        Value::Scalar(Scalar::Float64(v)) => numbers(&[*v], f64::to_be_bytes, out),
        Value::Array(Array::Text(v)) => {
            v.iter().for_each(|text| encode_text(text, STRING_BYTES, out));
            v.len()
        }
        Value::Array(Array::Int16(v)) => numbers(v, i16::to_be_bytes, out),
        Value::Array(Array::Float32(v)) => numbers(v, f32::to_be_bytes, out),
        Value::Array(Array::Enum(v)) => numbers(v, u16::to_be_bytes, out),
        Value::Array(Array::Int8(v)) => numbers(v, i8::to_be_bytes, out),
        Value::Array(Array::Int32(v)) => numbers(v, i32::to_be_bytes, out),
        Value::Array(Array::Float64(v)) => numbers(v, f64::to_be_bytes, out),
        Value::Scalar(Scalar::Int64(_)) | Value::Array(Array::Int64(_)) | Value::Structure(_) => 0,
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Appends a text of exactly `bytes` bytes: cut to leave a final zero, padded with zeros.
fn encode_text(text: &str, bytes: usize, out: &mut Vec<u8>) {
    let end = out.len() + bytes;
    out.extend_from_slice(&text.as_bytes()[..text.len().min(bytes - 1)]);
    out.resize(end, 0);
}

fn encode_limits(native: NativeType, limits: Option<&Limits>, out: &mut Vec<u8>) {
    let Some(limits) = limits else { return };
    let Limits { display, alarm, warning, control } = limits;
    for limit in [display.1, display.0, alarm.1, warning.1, warning.0, alarm.0, control.1, control.0] {
        match native {
            NativeType::Short => out.extend_from_slice(&(limit as i16).to_be_bytes()),
            NativeType::Char => out.extend_from_slice(&(limit as i8).to_be_bytes()),
            NativeType::Long => out.extend_from_slice(&(limit as i32).to_be_bytes()),
            NativeType::Float => out.extend_from_slice(&(limit as f32).to_be_bytes()),
            NativeType::Double => out.extend_from_slice(&limit.to_be_bytes()),
            NativeType::String | NativeType::Enum => {}
        }
    }
}
