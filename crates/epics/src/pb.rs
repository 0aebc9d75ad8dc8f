//! The Appliance's PB format: files of its stores, and replies to `getData.raw`.
//!
//! ```text
//! stream  = chunk { blank-line chunk }        a file has one chunk; a reply has one or more per PV and year
//! chunk   = header LF { event LF }
//! header  = escape(protobuf PayloadInfo)      event = escape(protobuf message of the header's payload type)
//! escape  = 1B -> 1B 01,  0A -> 1B 02,  0D -> 1B 03
//! ```
//!
//! | `PayloadInfo`  | number | type          | event             | number | type                            |
//! |----------------|-------:|---------------|-------------------|-------:|---------------------------------|
//! | `type`         |      1 | enum          | `secondsintoyear` |      1 | uint32                          |
//! | `pvname`       |      2 | string        | `nano`            |      2 | uint32                          |
//! | `year`         |      3 | int32         | `val`             |      3 | by payload type, see [`Payload`] |
//! | `elementCount` |      4 | int32         | `severity`        |      4 | int32, absent if 0              |
//! | `headers`      |     15 | `FieldValue`s | `status`          |      5 | int32, absent if 0              |
//! |                |        |               | `repeatcount`     |      6 | uint32, optional                |
//! | `FieldValue`   |        |               | `fieldvalues`     |      7 | `FieldValue`s                   |
//! | `name`         |      1 | string        | `fieldactualchange` |    8 | bool, optional                  |
//! | `val`          |      2 | string        | `userTag`         |      9 | uint32, structures only         |
//!
//! Source: `EPICSEvent.proto` of the Appliance, and bytes that it wrote.
//!
//! Escaping removes every line feed from a message, so a line feed always ends a line. Within a file, times increase
//! strictly, which makes binary search possible ([`Reader::open_at`]).

mod metadata;
mod reader;
mod seek;
#[cfg(test)]
mod tests;
mod wire;
mod writer;

pub use metadata::{KnownFields, fields_of};
pub use reader::{Damage, Reader, Record, Report};
pub use wire::Fault;
pub use writer::Writer;

use crate::sample::{Array, Scalar, Value};

/// Longest line that a reader accepts by default, in bytes before unescaping: a waveform of 64 MiB, each byte of it escaped.
pub const LINE_BYTES_MAX: usize = 129 << 20;

/// Type of the values of a chunk; the numbers are those of the protobuf enumeration `PayloadType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Payload {
    /// `SCALAR_STRING`: string
    Text = 0,
    /// `SCALAR_SHORT`: sint32
    Int16 = 1,
    /// `SCALAR_FLOAT`: float
    Float32 = 2,
    /// `SCALAR_ENUM`: sint32
    Enum = 3,
    /// `SCALAR_BYTE`: bytes, of which the first is the value
    Int8 = 4,
    /// `SCALAR_INT`: sfixed32
    Int32 = 5,
    /// `SCALAR_DOUBLE`: double
    Float64 = 6,
    /// `WAVEFORM_STRING`: repeated string
    Texts = 7,
    /// `WAVEFORM_SHORT`: packed sint32
    Int16s = 8,
    /// `WAVEFORM_FLOAT`: packed float
    Float32s = 9,
    /// `WAVEFORM_ENUM`: packed sint32
    Enums = 10,
    /// `WAVEFORM_BYTE`: bytes
    Int8s = 11,
    /// `WAVEFORM_INT`: packed sfixed32
    Int32s = 12,
    /// `WAVEFORM_DOUBLE`: packed double
    Float64s = 13,
    /// `V4_GENERIC_BYTES`: bytes, a serialised structure of PV Access
    Structure = 14,
}

impl Payload {
    /// Every type, by number.
    pub const ALL: [Payload; 15] = [
        Payload::Text,
        Payload::Int16,
        Payload::Float32,
        Payload::Enum,
        Payload::Int8,
        Payload::Int32,
        Payload::Float64,
        Payload::Texts,
        Payload::Int16s,
        Payload::Float32s,
        Payload::Enums,
        Payload::Int8s,
        Payload::Int32s,
        Payload::Float64s,
        Payload::Structure,
    ];

    /// The type whose lines carry `value`. 64-bit integers are carried as doubles, as Channel Access does.
    #[must_use]
    pub fn of(value: &Value) -> Payload {
        match value {
            Value::Scalar(scalar) => match scalar {
                Scalar::Text(_) => Payload::Text,
                Scalar::Int8(_) => Payload::Int8,
                Scalar::Int16(_) => Payload::Int16,
                Scalar::Int32(_) => Payload::Int32,
                Scalar::Float32(_) => Payload::Float32,
                Scalar::Int64(_) | Scalar::Float64(_) => Payload::Float64,
                Scalar::Enum(_) => Payload::Enum,
            },
            Value::Array(array) => match array {
                Array::Text(_) => Payload::Texts,
                Array::Int8(_) => Payload::Int8s,
                Array::Int16(_) => Payload::Int16s,
                Array::Int32(_) => Payload::Int32s,
                Array::Float32(_) => Payload::Float32s,
                Array::Int64(_) | Array::Float64(_) => Payload::Float64s,
                Array::Enum(_) => Payload::Enums,
            },
            Value::Structure(_) => Payload::Structure,
        }
    }

    /// Whether values have elements.
    #[must_use]
    pub fn is_waveform(self) -> bool {
        (Payload::Texts as u8..=Payload::Float64s as u8).contains(&(self as u8))
    }

    /// The name in configuration and in replies of the Appliance, for example `DBR_SCALAR_DOUBLE`.
    #[must_use]
    pub fn dbr_name(self) -> &'static str {
        [
            "DBR_SCALAR_STRING",
            "DBR_SCALAR_SHORT",
            "DBR_SCALAR_FLOAT",
            "DBR_SCALAR_ENUM",
            "DBR_SCALAR_BYTE",
            "DBR_SCALAR_INT",
            "DBR_SCALAR_DOUBLE",
            "DBR_WAVEFORM_STRING",
            "DBR_WAVEFORM_SHORT",
            "DBR_WAVEFORM_FLOAT",
            "DBR_WAVEFORM_ENUM",
            "DBR_WAVEFORM_BYTE",
            "DBR_WAVEFORM_INT",
            "DBR_WAVEFORM_DOUBLE",
            "DBR_V4_GENERIC_BYTES",
        ][self as usize]
    }
}

/// First line of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Type of the events that follow.
    pub payload: Payload,
    /// Name of the process variable.
    pub pv: String,
    /// Year in UTC that the events' seconds count from; 1678 to 2261.
    pub year: i32,
    /// Elements of a waveform, 1 of a scalar. Replies have it, files of the Appliance do not.
    pub elements: Option<i32>,
    /// Metadata as names and values: `EGU`, `PREC`, `ENUM_0`, …
    pub fields: Vec<(String, String)>,
}
