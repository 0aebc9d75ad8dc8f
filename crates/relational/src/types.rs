//! Conversion of types and values between clients (PostgreSQL OIDs), DataFusion (Arrow) and tables.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Field, IntervalUnit, TimeUnit};
use model::{DataType, Error, SqlState};
use pg::types::oid;

/// Metadata key of a field's PostgreSQL type OID, which overrides the OID of its Arrow type.
pub(crate) const OID_KEY: &str = "pg:oid";
/// Metadata key of a field's type modifier.
pub(crate) const TYPMOD_KEY: &str = "pg:typmod";
/// Type modifier of `numeric(20)`: 20 digits before the point, none after.
pub const UINT64_TYPMOD: i32 = (20 << 16) + 4;
/// Digits after the point that a `numeric` without a scale has in Arrow.
pub const NUMERIC_SCALE: i8 = 10;

/// A parameter or cell value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int16(i16),
    /// `integer`
    Int32(i32),
    /// `bigint`
    Int64(i64),
    /// `real`
    Float32(f32),
    /// `double precision`
    Float64(f64),
    /// `numeric`: unscaled value and scale.
    Numeric(i128, u8),
    /// `text` and related types.
    Text(String),
    /// `bytea`
    Bytes(Vec<u8>),
    /// Nanoseconds since 1970 UTC.
    Timestamptz(i64),
    /// Nanoseconds since 1970, no zone.
    Timestamp(i64),
    /// Days since 1970.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Months, days, nanoseconds.
    Interval(i32, i32, i64),
    /// `uuid`
    Uuid([u8; 16]),
    /// An array.
    Array(Vec<Value>),
}

/// A column of a result as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    /// Name that PostgreSQL would give it.
    pub name: String,
    /// PostgreSQL type OID (see crate `pg`).
    pub oid: u32,
    /// Type modifier; -1 for none.
    pub typmod: i32,
    /// Catalog numbers of the table and column that the values come from, if known.
    pub origin: Option<(u32, i16)>,
}

/// PostgreSQL type OID of a field.
pub fn oid_of(field: &Field) -> u32 {
    match field.metadata().get(OID_KEY).and_then(|text| text.parse().ok()) {
        Some(oid) => oid,
        None => oid_of_arrow(field.data_type()),
    }
}

/// PostgreSQL type OID of an Arrow type; `text` for types that PostgreSQL does not have.
pub(crate) fn oid_of_arrow(ty: &Arrow) -> u32 {
    match ty {
        Arrow::Boolean => oid::BOOL,
        Arrow::Int8 | Arrow::UInt8 | Arrow::Int16 => oid::INT2,
        Arrow::UInt16 | Arrow::Int32 => oid::INT4,
        // Only catalog columns have this type.
        Arrow::UInt32 => oid::OID,
        Arrow::Int64 => oid::INT8,
        Arrow::UInt64 | Arrow::Decimal32(..) | Arrow::Decimal64(..) | Arrow::Decimal128(..) | Arrow::Decimal256(..) => {
            oid::NUMERIC
        }
        Arrow::Float16 | Arrow::Float32 => oid::FLOAT4,
        Arrow::Float64 => oid::FLOAT8,
        Arrow::Binary | Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => oid::BYTEA,
        Arrow::Timestamp(_, Some(_)) => oid::TIMESTAMPTZ,
        Arrow::Timestamp(_, None) => oid::TIMESTAMP,
        Arrow::Date32 | Arrow::Date64 => oid::DATE,
        Arrow::Time32(_) | Arrow::Time64(_) => oid::TIME,
        Arrow::Interval(_) | Arrow::Duration(_) => oid::INTERVAL,
        Arrow::List(item) | Arrow::LargeList(item) | Arrow::FixedSizeList(item, _) => {
            pg::types::Type::array_of(oid_of(item)).unwrap_or(oid::TEXT)
        }
        Arrow::Dictionary(_, value) => oid_of_arrow(value),
        Arrow::Struct(_) => oid::RECORD,
        _ => oid::TEXT,
    }
}

/// PostgreSQL type modifier of a field.
pub fn typmod_of(field: &Field) -> i32 {
    let written = field.metadata().get(TYPMOD_KEY).and_then(|text| text.parse().ok());
    written.unwrap_or(if *field.data_type() == Arrow::UInt64 { UINT64_TYPMOD } else { -1 })
}

/// Arrow type of a parameter with type `oid`; `None` for 0 and unknown types.
pub fn arrow_of_oid(oid: u32, zone: &str) -> Option<Arrow> {
    Some(match oid {
        oid::BOOL => Arrow::Boolean,
        oid::INT2 => Arrow::Int16,
        oid::INT4 => Arrow::Int32,
        oid::INT8 => Arrow::Int64,
        oid::OID | oid::REGCLASS | oid::REGPROC | oid::REGTYPE | oid::REGNAMESPACE | oid::XID => Arrow::UInt32,
        oid::FLOAT4 => Arrow::Float32,
        oid::FLOAT8 => Arrow::Float64,
        oid::NUMERIC => Arrow::Decimal128(38, NUMERIC_SCALE),
        oid::BYTEA => Arrow::Binary,
        oid::TIMESTAMPTZ => timestamptz(zone),
        oid::TIMESTAMP => Arrow::Timestamp(TimeUnit::Nanosecond, None),
        oid::DATE => Arrow::Date32,
        oid::TIME => Arrow::Time64(TimeUnit::Nanosecond),
        oid::INTERVAL => Arrow::Interval(IntervalUnit::MonthDayNano),
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::JSON | oid::JSONB | oid::UUID => {
            Arrow::Utf8
        }
        0 | oid::UNKNOWN => return None,
        other => {
            let element = pg::types::Type::by_oid(other).map_or(0, |ty| ty.element);
            array_of(arrow_of_oid(element, zone)?)
        }
    })
}

/// Arrow type of arrays with this element type.
pub fn array_of(element: Arrow) -> Arrow {
    Arrow::List(Arc::new(Field::new_list_field(element, true)))
}

/// Arrow type of `timestamptz` in statements, with the session's time zone, which calendar functions use.
pub fn timestamptz(zone: &str) -> Arrow {
    Arrow::Timestamp(TimeUnit::Nanosecond, Some(zone.into()))
}

/// Arrow type of a stored column in statements.
pub fn arrow_of(ty: DataType, zone: &str) -> Arrow {
    match ty {
        DataType::Timestamp => timestamptz(zone),
        other => columns::rows::arrow_type(other),
    }
}

/// Error 22003 for the type.
pub fn out_of_range(ty: &str) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range"))
}

/// PostgreSQL's name of an Arrow type, for messages.
pub fn sql_name(ty: &Arrow) -> String {
    match ty {
        Arrow::Null => "unknown".to_owned(),
        Arrow::UInt64 => "numeric(20)".to_owned(),
        ty => pg::types::Type::sql_name(oid_of_arrow(ty)).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_types_have_the_same_oid_by_both_roads() {
        for ty in DataType::ALL {
            assert_eq!(oid_of_arrow(&arrow_of(ty, "UTC")), ingest::copy::oid_of(ty), "{ty:?}");
        }
    }

    #[test]
    fn metadata_overrides_the_oid() {
        let field =
            Field::new("oid", Arrow::Int64, false).with_metadata([(OID_KEY.to_owned(), "26".to_owned())].into());
        assert_eq!(oid_of(&field), 26);
    }
}
