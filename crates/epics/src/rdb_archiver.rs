//! Rows of the RDB archiver (CS-Studio, Phoebus), whose samples are in a relational database.
//!
//! A row of its table `sample` has a time (`smpl_time`, and `nanosecs` except in Oracle), the numbers of a severity and of a
//! status, whose names are in tables of these names, and one of `float_val`, `num_val` and `str_val`.
//!
//! | row                                                            | item                                               |
//! |----------------------------------------------------------------|----------------------------------------------------|
//! | status `Disconnected`, `Archive_Off`, `Archive_Disabled`, `Write_Error` | gap; `str_val` repeats the status          |
//! | status `NaN`, `float_val` 0                                     | sample NaN, `INVALID`, `UDF`: databases refuse NaN  |
//! | `datatype` `d`, `array_val`: `i32` count, doubles, big-endian    | waveform of doubles                                |
//! | `float_val`                                                     | double; of a PV with labels an enumeration's index |
//! | `num_val`                                                       | 64-bit integer; of a PV with labels an index       |
//! | `str_val`                                                       | text                                               |
//!
//! Severities are named `OK` or `NONE`, `MINOR`, `MAJOR`, `INVALID`, `UNDEFINED`; a status is named as in Channel Access, with
//! or without `_ALARM`. Other names are found in archives of other sources: a severity counts as `INVALID`, a status is kept
//! as the field `STAT` of the event.
//!
//! Source: the archive engine and the archive reader of Phoebus, read for the facts of the format.
//!
//! Always true, whatever the row: no panic; memory is bounded by that of the row.

#[cfg(test)]
mod tests;

use crate::channel_archiver::{GapKind, Item};
use crate::event::Event;
use crate::sample::{Array, Nanos, STATUS_NAMES, Sample, Scalar, Severity, Value};

/// Field of an event whose status Channel Access does not have.
pub const STATUS_FIELD: &str = "STAT";

/// Status `UDF`, which EPICS gives to values that are not a number.
const UNDEFINED: u16 = 17;

/// A row of the table `sample`, joined with the names of its severity and status.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row<'a> {
    /// Nanoseconds since 1970 UTC.
    pub time: Nanos,
    /// Name of the severity.
    pub severity: &'a str,
    /// Name of the status.
    pub status: &'a str,
    /// Column `num_val`.
    pub num_val: Option<i64>,
    /// Column `float_val`.
    pub float_val: Option<f64>,
    /// Column `str_val`.
    pub str_val: Option<&'a str>,
    /// Column `datatype` of newer schemas.
    pub datatype: Option<&'a str>,
    /// Column `array_val` of newer schemas.
    pub array_val: Option<&'a [u8]>,
}

/// A row that is no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowError {
    /// No column has a value.
    NoValue,
    /// The type of `array_val`.
    DataType {
        /// Column `datatype`; expected `d`.
        seen: String,
    },
    /// Length of `array_val`.
    ArrayBytes {
        /// Bytes in the row.
        seen: usize,
        /// Elements that it announces.
        elements: u32,
    },
}

impl std::fmt::Display for RowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RowError::NoValue => {
                f.write_str("num_val, float_val and str_val are null, expected a value in one of them")
            }
            RowError::DataType { seen } => write!(f, "datatype {seen:?}, expected \"d\" or a blank"),
            RowError::ArrayBytes { seen, elements } => {
                write!(f, "array_val of {elements} elements has {seen} bytes, expected 4 and 8 for each element")
            }
        }
    }
}

impl std::error::Error for RowError {}

/// The sample or the gap that a row stands for.
///
/// - `has_labels`: whether the table `enum_metadata` has labels for the PV.
///
/// # Errors
/// The row has no value, or an array of another form.
pub fn item(row: &Row<'_>, has_labels: bool) -> Result<Item, RowError> {
    if let Some(kind) = gap_of(row.status) {
        return Ok(Item::Gap { time: row.time, kind });
    }
    if row.status.eq_ignore_ascii_case("NaN") && row.float_val == Some(0.0) && scalar(row) {
        let value = Value::Scalar(Scalar::Float64(f64::NAN));
        let sample = Sample { time: row.time, value, severity: Severity::Invalid, status: UNDEFINED };
        return Ok(Item::Sample(sample.into()));
    }
    let value = value_of(row, has_labels)?;
    let status = status_of(row.status);
    let sample =
        Sample { time: row.time, value, severity: severity_of(row.severity), status: status.unwrap_or_default() };
    let mut event = Event::from(sample);
    if status.is_none() {
        event.fields.push((STATUS_FIELD.to_owned(), row.status.to_owned()));
    }
    Ok(Item::Sample(event))
}

/// Whether the row has no array.
fn scalar(row: &Row<'_>) -> bool {
    row.datatype.is_none_or(|name| name.trim().is_empty())
}

fn value_of(row: &Row<'_>, has_labels: bool) -> Result<Value, RowError> {
    if !scalar(row) {
        return array_of(row.datatype.unwrap_or_default().trim(), row.array_val.unwrap_or_default());
    }
    let index = |number: i64| u16::try_from(number).ok().filter(|_| has_labels).map(Scalar::Enum);
    let scalar = match (row.float_val, row.num_val, row.str_val) {
        // The cast saturates; an index that is no whole number stays a double.
        (Some(value), ..) => index(value as i64).filter(|_| value.fract() == 0.0).unwrap_or(Scalar::Float64(value)),
        (None, Some(number), _) => index(number).unwrap_or(Scalar::Int64(number)),
        (None, None, Some(text)) => Scalar::Text(text.to_owned()),
        (None, None, None) => return Err(RowError::NoValue),
    };
    Ok(Value::Scalar(scalar))
}

fn array_of(datatype: &str, bytes: &[u8]) -> Result<Value, RowError> {
    if datatype != "d" {
        return Err(RowError::DataType { seen: datatype.to_owned() });
    }
    let (count, doubles) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let elements = u32::from_be_bytes(*count);
    let (doubles, rest) = doubles.as_chunks::<8>();
    if bytes.len() < 4 || doubles.len() as u64 != u64::from(elements) || !rest.is_empty() {
        return Err(RowError::ArrayBytes { seen: bytes.len(), elements });
    }
    Ok(Value::Array(Array::Float64(doubles.iter().map(|double| f64::from_be_bytes(*double)).collect())))
}

fn gap_of(status: &str) -> Option<GapKind> {
    [GapKind::Disconnected, GapKind::ArchiveOff, GapKind::Disabled, GapKind::WriteError]
        .into_iter()
        .find(|kind| kind.name().eq_ignore_ascii_case(status))
}

fn severity_of(name: &str) -> Severity {
    let is = |known: &str| name.trim().eq_ignore_ascii_case(known);
    if ["", "OK", "NONE", "NO_ALARM"].into_iter().any(is) {
        Severity::None
    } else if is("MINOR") {
        Severity::Minor
    } else if is("MAJOR") {
        Severity::Major
    } else {
        Severity::Invalid
    }
}

/// Number of a status; `None` for a name that Channel Access does not have.
fn status_of(name: &str) -> Option<u16> {
    let name = name.trim();
    if ["", "OK", "NONE"].into_iter().any(|none| name.eq_ignore_ascii_case(none)) {
        return Some(0);
    }
    let short = name.len().checked_sub("_ALARM".len()).filter(|at| {
        name.is_char_boundary(*at)
            && name[*at..].eq_ignore_ascii_case("_ALARM")
            && !name.eq_ignore_ascii_case("NO_ALARM")
    });
    let name = short.map_or(name, |end| &name[..end]);
    STATUS_NAMES.iter().position(|known| known.eq_ignore_ascii_case(name)).and_then(|number| u16::try_from(number).ok())
}
