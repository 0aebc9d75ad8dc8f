//! PostgreSQL's values in Arrow arrays: the Arrow type of each PostgreSQL type, readers and builders.
//!
//! Computed values have the types of [`arrow_type`]. Stored columns may have other Arrow types for the same PostgreSQL
//! type (numeric as a decimal or as an unsigned integer, text as a dictionary); `datum` reads all of them.
//!
//! Types without an Arrow type that represents all their values (numeric, arrays, rows, ranges …) are Binary, in the
//! encoding of [`model::encoding`]. The infinities of timestamps are the smallest and largest numbers of nanoseconds.

mod builder;
pub(crate) mod key;
mod reader;
pub mod rows;
pub mod stored;

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_cast::cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use catalog::{TypeId, TypeKind, builtin};
use model::Result;

pub(crate) use builder::Builder;
pub(crate) use builder::check_room;
pub(crate) use model::encoding::{decode, encode};
pub(crate) use reader::datum;

/// Casts values by Arrow's rules.
///
/// # Errors
/// 22P02, 22003 for a value that the type does not have.
pub fn cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(values, to, &options).map_err(|error| crate::errors::arrow(&error))
}

/// Representation of a type's computed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Text,
    Uuid,
    Bytes,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Oid,
    Encoded,
}

/// The representation of a type.
pub(crate) fn form(ty: TypeId) -> Form {
    let ty = builtin().base_type(ty);
    match ty {
        TypeId::BOOL => Form::Bool,
        TypeId::INT2 => Form::Int2,
        TypeId::INT4 => Form::Int4,
        TypeId::INT8 => Form::Int8,
        TypeId::FLOAT4 => Form::Float4,
        TypeId::FLOAT8 => Form::Float8,
        TypeId::TEXT
        | TypeId::VARCHAR
        | TypeId::BPCHAR
        | TypeId::NAME
        | TypeId::CHAR
        | TypeId::JSON
        | TypeId::JSONB
        | TypeId::UNKNOWN
        | TypeId::CSTRING => Form::Text,
        TypeId::UUID => Form::Uuid,
        TypeId::BYTEA => Form::Bytes,
        TypeId::DATE => Form::Date,
        TypeId::TIME => Form::Time,
        TypeId::TIMESTAMP => Form::Timestamp,
        TypeId::TIMESTAMPTZ => Form::Timestamptz,
        TypeId::INTERVAL => Form::Interval,
        // oid, regproc, xid, cid, the other reg types.
        TypeId(26 | 24 | 28 | 29 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191) => Form::Oid,
        // xml, refcursor, pg_node_tree
        TypeId(142 | 1790 | 194) => Form::Text,
        _ if builtin().type_row(ty).is_some_and(|row| row.kind == TypeKind::Enum) => Form::Oid,
        _ => Form::Encoded,
    }
}

/// Whether computed values of a type are in an encoding of this crate.
#[must_use]
pub fn is_encoded(ty: TypeId) -> bool {
    form(ty) == Form::Encoded
}

/// Whether values of a type are numbers of catalog rows, such as those of `oid` and `regclass`.
#[must_use]
pub fn is_number(ty: TypeId) -> bool {
    form(ty) == Form::Oid
}

/// The Arrow type of computed values of a type; `zone` is the session's.
#[must_use]
pub fn arrow_type(ty: TypeId, zone: &Arc<str>) -> DataType {
    match form(ty) {
        Form::Bool => DataType::Boolean,
        Form::Int2 => DataType::Int16,
        Form::Int4 => DataType::Int32,
        Form::Int8 => DataType::Int64,
        Form::Float4 => DataType::Float32,
        Form::Float8 => DataType::Float64,
        Form::Text | Form::Uuid => DataType::Utf8,
        Form::Bytes | Form::Encoded => DataType::Binary,
        Form::Date => DataType::Date32,
        Form::Time => DataType::Time64(TimeUnit::Nanosecond),
        Form::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        Form::Timestamptz => DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(zone))),
        Form::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Form::Oid => DataType::UInt32,
    }
}

#[cfg(test)]
mod tests;
