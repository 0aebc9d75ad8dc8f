//! Decoding of bound parameters, from text or binary format to typed values.

use std::borrow::Cow;

use model::{Error, Result, SqlState};

use crate::array::{parse_array_binary, parse_array_text};
use crate::frontend::utf8;
use crate::numeric::{self, Numeric};
use crate::time::{self, EPOCH_DAYS, Interval, ZoneLookup};
use crate::types::{Form, Oid, Type, oid};
use crate::value;

/// A parameter value from a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum<'a> {
    /// NULL
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`; also `oid` and the reg types, which are unsigned
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `char(n)`, `name`, `json`, and text of any other type
    Text(Cow<'a, str>),
    /// `bytea`
    Bytes(Cow<'a, [u8]>),
    /// `timestamptz`: nanoseconds since 1970 UTC
    Timestamptz(i64),
    /// `timestamp`: nanoseconds since 1970, no zone
    Timestamp(i64),
    /// `date`: days since 1970
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// A one-dimensional array
    Array {
        /// OID of the element type.
        element: Oid,
        /// The elements; none of them is an array.
        values: Vec<Datum<'a>>,
    },
}

/// Decodes `bytes`, sent as type `ty` in format `form`.
///
/// # Errors
/// 22P02, 22003, 22007, 22008, 22021, 22023 for invalid text; 22P03 for invalid bytes; 0A000 for a
/// type without binary input here, and for a binary array with several dimensions.
pub fn decode<'a>(ty: Oid, form: Form, bytes: &'a [u8], zones: ZoneLookup<'_>) -> Result<Datum<'a>> {
    match form {
        Form::Text => decode_text(ty, utf8(bytes)?, zones),
        Form::Binary => decode_binary(ty, bytes),
    }
}

fn decode_text<'a>(ty: Oid, text: &'a str, zones: ZoneLookup<'_>) -> Result<Datum<'a>> {
    Ok(match ty {
        oid::BOOL => Datum::Bool(value::parse_bool(text)?),
        // No truncation: `parse_int` checked the type's range.
        oid::INT2 => Datum::Int2(value::parse_int(ty, text)? as i16),
        oid::INT4 => Datum::Int4(value::parse_int(ty, text)? as i32),
        oid::INT8 | oid::OID => Datum::Int8(value::parse_int(ty, text)?),
        oid::FLOAT4 => Datum::Float4(value::parse_float4(text)?),
        oid::FLOAT8 => Datum::Float8(value::parse_float8(text)?),
        oid::NUMERIC => Datum::Numeric(text.parse()?),
        oid::BYTEA => Datum::Bytes(Cow::Owned(value::parse_bytea(text)?)),
        oid::TIMESTAMPTZ => Datum::Timestamptz(time::parse_timestamptz(text, zones)?),
        oid::TIMESTAMP => Datum::Timestamp(time::parse_timestamp(text)?),
        oid::DATE => Datum::Date(time::parse_date(text)?),
        oid::TIME => Datum::Time(time::parse_time(text)?),
        oid::INTERVAL => Datum::Interval(time::parse_interval(text)?),
        oid::UUID => Datum::Uuid(value::parse_uuid(text)?),
        _ => match array_element(ty) {
            Some(element) => match decode_array_text(element, text, zones) {
                // An array with several dimensions or bounds.
                Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => Datum::Text(Cow::Borrowed(text)),
                array => array?,
            },
            None => Datum::Text(Cow::Borrowed(text)),
        },
    })
}

/// Element type of an array type; `int2vector` and `oidvector` are handled as text.
fn array_element(ty: Oid) -> Option<Oid> {
    Type::by_oid(ty).filter(|ty| ty.element != 0 && ty.name.starts_with('_')).map(|ty| ty.element)
}

fn decode_array_text<'a>(element: Oid, text: &'a str, zones: ZoneLookup<'_>) -> Result<Datum<'a>> {
    let decode_element = |text: Option<Cow<'a, str>>| match text {
        None => Ok(Datum::Null),
        Some(Cow::Borrowed(text)) => decode_text(element, text, zones),
        Some(Cow::Owned(text)) => decode_text(element, &text, zones).map(into_owned),
    };
    let values = parse_array_text(text)?.into_iter().map(decode_element).collect::<Result<_>>()?;
    Ok(Datum::Array { element, values })
}

/// Copies borrowed text and bytes.
fn into_owned<'b>(datum: Datum<'_>) -> Datum<'b> {
    match datum {
        Datum::Text(text) => Datum::Text(Cow::Owned(text.into_owned())),
        Datum::Bytes(bytes) => Datum::Bytes(Cow::Owned(bytes.into_owned())),
        Datum::Array { element, values } => {
            Datum::Array { element, values: values.into_iter().map(into_owned).collect() }
        }
        Datum::Null => Datum::Null,
        Datum::Bool(value) => Datum::Bool(value),
        Datum::Int2(value) => Datum::Int2(value),
        Datum::Int4(value) => Datum::Int4(value),
        Datum::Int8(value) => Datum::Int8(value),
        Datum::Float4(value) => Datum::Float4(value),
        Datum::Float8(value) => Datum::Float8(value),
        Datum::Numeric(value) => Datum::Numeric(value),
        Datum::Timestamptz(value) => Datum::Timestamptz(value),
        Datum::Timestamp(value) => Datum::Timestamp(value),
        Datum::Date(value) => Datum::Date(value),
        Datum::Time(value) => Datum::Time(value),
        Datum::Interval(value) => Datum::Interval(value),
        Datum::Uuid(value) => Datum::Uuid(value),
    }
}

fn decode_binary(ty: Oid, bytes: &[u8]) -> Result<Datum<'_>> {
    Ok(match ty {
        oid::BOOL => Datum::Bool(fixed::<1>(ty, bytes)? != [0]),
        oid::INT2 => Datum::Int2(i16::from_be_bytes(fixed(ty, bytes)?)),
        oid::INT4 => Datum::Int4(i32::from_be_bytes(fixed(ty, bytes)?)),
        oid::INT8 => Datum::Int8(i64::from_be_bytes(fixed(ty, bytes)?)),
        oid::OID | oid::REGCLASS | oid::REGTYPE | oid::REGPROC | oid::REGNAMESPACE | oid::XID => {
            Datum::Int8(i64::from(u32::from_be_bytes(fixed(ty, bytes)?)))
        }
        oid::FLOAT4 => Datum::Float4(f32::from_be_bytes(fixed(ty, bytes)?)),
        oid::FLOAT8 => Datum::Float8(f64::from_be_bytes(fixed(ty, bytes)?)),
        oid::NUMERIC => Datum::Numeric(numeric::parse_binary(bytes)?),
        oid::BYTEA => Datum::Bytes(Cow::Borrowed(bytes)),
        oid::TIMESTAMPTZ => Datum::Timestamptz(time::ns_of_micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
        oid::TIMESTAMP => Datum::Timestamp(time::ns_of_micros(i64::from_be_bytes(fixed(ty, bytes)?))?),
        oid::DATE => decode_date(i32::from_be_bytes(fixed(ty, bytes)?))?,
        oid::TIME => decode_time(i64::from_be_bytes(fixed(ty, bytes)?))?,
        oid::INTERVAL => Datum::Interval(time::parse_interval_binary(bytes)?),
        oid::UUID => Datum::Uuid(fixed(ty, bytes)?),
        oid::JSONB => decode_jsonb(bytes)?,
        0
        | oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::CHAR
        | oid::JSON
        | oid::UNKNOWN
        | oid::CSTRING => Datum::Text(Cow::Borrowed(utf8(bytes)?)),
        _ => match array_element(ty) {
            Some(element) => decode_array_binary(element, bytes)?,
            None => return Err(Error::unsupported(format!("no binary input for type {}", Type::sql_name(ty)))),
        },
    })
}

fn fixed<const N: usize>(ty: Oid, bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        Error::new(
            SqlState::INVALID_BINARY_REPRESENTATION,
            format!("invalid binary {}: {} bytes, expected {N}", Type::sql_name(ty), bytes.len()),
        )
    })
}

fn decode_date(pg_days: i32) -> Result<Datum<'static>> {
    pg_days.checked_add(EPOCH_DAYS).filter(|_| pg_days != i32::MIN).map(Datum::Date).ok_or_else(|| {
        Error::new(SqlState::DATETIME_OVERFLOW, format!("date out of range: {pg_days} days since 2000-01-01"))
    })
}

fn decode_time(micros: i64) -> Result<Datum<'static>> {
    if (0..=time::DAY_MICROS).contains(&micros) {
        return Ok(Datum::Time(micros));
    }
    Err(Error::new(SqlState::DATETIME_OVERFLOW, format!("time out of range: {micros} microseconds since midnight")))
}

/// `jsonb` in binary format starts with version byte 1.
fn decode_jsonb(bytes: &[u8]) -> Result<Datum<'_>> {
    match bytes.split_first() {
        Some((1, text)) => Ok(Datum::Text(Cow::Borrowed(utf8(text)?))),
        _ => Err(Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "invalid binary jsonb: version is not 1")),
    }
}

fn decode_array_binary(element: Oid, bytes: &[u8]) -> Result<Datum<'_>> {
    let array = parse_array_binary(bytes)?;
    if array.element != element {
        let [sent, expected] = [array.element, element].map(Type::sql_name);
        let text = format!("binary array of {sent}, expected elements of type {expected}");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    if !array.is_list() {
        return Err(Error::unsupported("arrays with several dimensions or bounds are not supported"));
    }
    let decode_element = |value: Option<_>| value.map_or(Ok(Datum::Null), |bytes| decode_binary(element, bytes));
    let values = array.elements.into_iter().map(decode_element).collect::<Result<_>>()?;
    Ok(Datum::Array { element, values })
}

#[cfg(test)]
#[path = "datum_tests.rs"]
mod tests;
