//! Samples and metadata of a process variable, whatever protocol or file they come from.

/// A time in nanoseconds since 1970 UTC.
pub type Nanos = i64;

/// Seconds from 1970 to 1990, the epoch of EPICS.
pub const EPICS_EPOCH_SECONDS: i64 = 631_152_000;

/// Alarm severity. Archivers of the Channel Archiver family use numbers above 3 for gaps; those are not severities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// `NO_ALARM`
    #[default]
    None = 0,
    /// `MINOR`
    Minor = 1,
    /// `MAJOR`
    Major = 2,
    /// `INVALID`
    Invalid = 3,
}

impl Severity {
    /// The severity of a number; `None` for one that EPICS does not have.
    #[must_use]
    pub fn of(number: i64) -> Option<Severity> {
        Some(match number {
            0 => Severity::None,
            1 => Severity::Minor,
            2 => Severity::Major,
            3 => Severity::Invalid,
            _ => return None,
        })
    }

    /// The name as in `alarm.h`, for example `NO_ALARM`.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["NO_ALARM", "MINOR", "MAJOR", "INVALID"][self as usize]
    }
}

/// Names of alarm conditions, by the number of a status in Channel Access (`alarm.h`).
pub const STATUS_NAMES: [&str; 22] = [
    "NO_ALARM",
    "READ",
    "WRITE",
    "HIHI",
    "HIGH",
    "LOLO",
    "LOW",
    "STATE",
    "COS",
    "COMM",
    "TIMEOUT",
    "HWLIMIT",
    "CALC",
    "SCAN",
    "LINK",
    "SOFT",
    "BAD_SUB",
    "UDF",
    "DISABLE",
    "SIMM",
    "READ_ACCESS",
    "WRITE_ACCESS",
];

/// Type of a PV in its server, whatever the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// Texts.
    Text,
    /// Truth values (PV Access only); values are [`Scalar::Int8`] of 0 or 1.
    Bool,
    /// 8-bit integers.
    Int8,
    /// 16-bit integers.
    Int16,
    /// 32-bit integers.
    Int32,
    /// 64-bit integers (PV Access only).
    Int64,
    /// 8-bit integers without sign (PV Access only); values are [`Scalar::Int16`].
    UInt8,
    /// 16-bit integers without sign (PV Access only); values are [`Scalar::Int32`].
    UInt16,
    /// 32-bit integers without sign (PV Access only); values are [`Scalar::Int64`].
    UInt32,
    /// 64-bit integers without sign (PV Access only); values are [`Scalar::Int64`], and [`Value::Structure`] from 2^63 on.
    UInt64,
    /// 32-bit floats.
    Float32,
    /// 64-bit floats.
    Float64,
    /// Index of a label.
    Enum,
    /// A structure (PV Access only).
    Structure,
}

impl ValueType {
    /// A short name, for example `float64`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ValueType::Text => "text",
            ValueType::Bool => "bool",
            ValueType::Int8 => "int8",
            ValueType::Int16 => "int16",
            ValueType::Int32 => "int32",
            ValueType::Int64 => "int64",
            ValueType::UInt8 => "uint8",
            ValueType::UInt16 => "uint16",
            ValueType::UInt32 => "uint32",
            ValueType::UInt64 => "uint64",
            ValueType::Float32 => "float32",
            ValueType::Float64 => "float64",
            ValueType::Enum => "enum",
            ValueType::Structure => "structure",
        }
    }
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number or text.
    Scalar(Scalar),
    /// A waveform: elements of one type.
    Array(Array),
    /// Bytes of a structure that is none of these, with its type ([`crate::pva::Structure`]).
    Structure(Vec<u8>),
}

/// One element.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `DBR_CHAR`
    Int8(i8),
    /// `DBR_SHORT`
    Int16(i16),
    /// `DBR_LONG`
    Int32(i32),
    /// 64-bit integer (PV Access only).
    Int64(i64),
    /// `DBR_FLOAT`
    Float32(f32),
    /// `DBR_DOUBLE`
    Float64(f64),
    /// `DBR_ENUM`: the index of a label.
    Enum(u16),
    /// `DBR_STRING`
    Text(String),
}

/// Elements of a waveform.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// `DBR_CHAR`
    Int8(Vec<i8>),
    /// `DBR_SHORT`
    Int16(Vec<i16>),
    /// `DBR_LONG`
    Int32(Vec<i32>),
    /// 64-bit integers (PV Access only).
    Int64(Vec<i64>),
    /// `DBR_FLOAT`
    Float32(Vec<f32>),
    /// `DBR_DOUBLE`
    Float64(Vec<f64>),
    /// `DBR_ENUM`
    Enum(Vec<u16>),
    /// `DBR_STRING`
    Text(Vec<String>),
}

impl Array {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Array::Int8(values) => values.len(),
            Array::Int16(values) => values.len(),
            Array::Int32(values) => values.len(),
            Array::Int64(values) => values.len(),
            Array::Float32(values) => values.len(),
            Array::Float64(values) => values.len(),
            Array::Enum(values) => values.len(),
            Array::Text(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time that the IOC stamped.
    pub time: Nanos,
    /// Value.
    pub value: Value,
    /// Severity of the alarm.
    pub severity: Severity,
    /// Number of the alarm condition: an index of [`STATUS_NAMES`], or 256 plus the class of PV Access where the server names
    /// no such condition ([`crate::pva::normative`]).
    pub status: u16,
}

/// Limits of a numeric PV; NaN where the IOC has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Limits of displays: `LOPR`, `HOPR`.
    pub display: (f64, f64),
    /// Limits of alarms: `LOLO`, `HIHI`.
    pub alarm: (f64, f64),
    /// Limits of warnings: `LOW`, `HIGH`.
    pub warning: (f64, f64),
    /// Limits of control: `DRVL`, `DRVH`.
    pub control: (f64, f64),
}

/// Description of a PV by its IOC.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// `EGU`
    pub units: Option<String>,
    /// `PREC`: digits behind the point.
    pub precision: Option<i16>,
    /// Absent for texts and enumerations.
    pub limits: Option<Limits>,
    /// Labels of an enumeration, by index.
    pub labels: Vec<String>,
}
