//! Assignment casts: converts a value to a column's type by PostgreSQL's rules for INSERT and
//! UPDATE.
//!
//! The SQL layer does the casts that depend on more than the two types before it calls this module:
//! any type to text (dates depend on the session's DateStyle), text to any type (unquoted literals
//! already have a type), timestamp to and from timestamptz, and all casts to types without a variant of
//! their own, also the rounding to a declared precision of seconds.

use model::limits::VALUE_BYTES_MAX;
use std::sync::Arc;

use model::{
    Array, ArrayDimension, Attribute, Datum, Error, Geometry, Numeric, OtherType, Record, Result, SqlState, Storage,
    Type, user_types,
};

/// Microseconds per day.
const DAY_MICROS: i64 = 86_400_000_000;

/// Casts `datum` to column type `ty`. The result borrows from `datum`. Does not allocate for text,
/// nor for numbers of up to 38 digits.
///
/// # Errors
/// 22001: text too long. 22003: number out of range. 22008: date out of range. 0A000: NaN or
/// infinity to an integer type. 54000: more than [`VALUE_BYTES_MAX`] bytes. 42804: PostgreSQL has
/// no such assignment cast.
pub fn coerce<'a>(ty: Type, datum: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (ty.base(), datum) {
        (_, Datum::Null) => Datum::Null,
        (Type::Bool, Datum::Bool(value)) => Datum::Bool(value),
        (Type::Int2, datum) => Datum::Int2(match datum {
            Datum::Int2(value) => value,
            Datum::Numeric(value) => value.to_i16()?,
            other => narrow(ty, to_integer(ty, &other)?)?,
        }),
        (Type::Int4, datum) => Datum::Int4(match datum {
            Datum::Int4(value) => value,
            Datum::Numeric(value) => value.to_i32()?,
            other => narrow(ty, to_integer(ty, &other)?)?,
        }),
        (Type::Int8, datum) => Datum::Int8(match datum {
            Datum::Numeric(value) => value.to_i64()?,
            other => to_integer(ty, &other)?,
        }),
        (Type::Float4, datum) => Datum::Float4(to_float4(ty, &datum)?),
        (Type::Float8, datum) => Datum::Float8(to_float8(ty, &datum)?),
        (Type::Numeric(precision), datum) => {
            let value = to_numeric(ty, datum)?;
            Datum::Numeric(match precision {
                Some(precision) => value.with_precision(precision)?,
                None => value,
            })
        }
        (Type::Text | Type::Varchar(None) | Type::Json, Datum::Text(text)) => {
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Varchar(Some(characters)), Datum::Text(text)) => {
            let text = truncate_blanks(ty, text, characters)?;
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Char(characters), Datum::Text(text)) => {
            let text = characters.map_or(Ok(text), |characters| truncate_blanks(ty, text, characters))?;
            let text = text.trim_end_matches(' ');
            check_length(text.len())?;
            Datum::Text(text)
        }
        (Type::Bytes, Datum::Bytes(bytes)) => {
            check_length(bytes.len())?;
            Datum::Bytes(bytes)
        }
        (Type::Uuid, Datum::Uuid(uuid)) => Datum::Uuid(uuid),
        (Type::Timestamptz, Datum::Timestamptz(micros)) => Datum::Timestamptz(micros),
        (Type::Other(other), datum) => of_other(other, datum)?,
        (ty, datum) => datetime(ty, datum)?,
    })
}

/// A value of a type without a variant of its own: the SQL layer has cast it already.
fn of_other(ty: OtherType, datum: Datum<'_>) -> Result<Datum<'_>> {
    match (&datum, ty.element().map(Type::oid)) {
        (Datum::Array(array), Some(element)) => {
            check_length(datum.heap_size())?;
            check_dimensions(array)?;
            if !array.items.iter().all(|item| item.is_null() || is_value_of(element, item)) {
                return Err(mismatch(Type::Other(ty), &datum));
            }
            // An array of a type with the same representation: `varchar[]` for `text[]`.
            if element != array.element {
                return Ok(Datum::Array(Arc::new(Array { element, ..Array::clone(array) })));
            }
        }
        (Datum::Array(array), None) if is_value_of(ty.oid, &datum) => {
            check_length(datum.heap_size())?;
            check_dimensions(array)?;
        }
        (Datum::Text(text), None) if is_value_of(ty.oid, &datum) => check_length(text.len())?,
        // The type has the names.
        (Datum::Record(record), None) if is_composite_value(ty.oid, record) => {
            check_length(datum.heap_size())?;
            if record.names.is_some() {
                return Ok(Datum::Record(Arc::new(Record { names: None, ..Record::clone(record) })));
            }
        }
        (_, None) if is_value_of(ty.oid, &datum) => check_length(datum.heap_size())?,
        _ => return Err(mismatch(Type::Other(ty), &datum)),
    }
    Ok(datum)
}

/// Whether a value that is not NULL has the representation of the type with this OID, which is no array. A row must not
/// have another one: it could not be read again.
fn is_value_of(oid: u32, datum: &Datum<'_>) -> bool {
    match datum {
        Datum::Bool(_) => oid == 16,
        Datum::Bytes(_) => oid == 17,
        Datum::Text(_) => matches!(oid, 18 | 19 | 25 | 114 | 1042 | 1043 | 3802 | 4072),
        Datum::Int2(_) => oid == 21,
        Datum::Int4(_) => oid == 23,
        Datum::Int8(_) => matches!(oid, 20 | 27 | 790),
        Datum::Float4(_) => oid == 700,
        Datum::Float8(_) => oid == 701,
        Datum::Numeric(_) => oid == 1700,
        Datum::Uuid(_) => oid == 2950,
        Datum::Date(_) => oid == 1082,
        Datum::Time(_) => oid == 1083,
        Datum::TimeTz(_) => oid == 1266,
        Datum::Timestamp(_) => oid == 1114,
        Datum::Timestamptz(_) => oid == 1184,
        Datum::Interval(_) => oid == 1186,
        Datum::Bits(_) => matches!(oid, 1560 | 1562),
        Datum::Network(_) => matches!(oid, 650 | 869),
        Datum::Mac(_) => matches!(oid, 774 | 829),
        Datum::Geometry(geometry) => oid == geometry_type(geometry),
        Datum::Range(_) => matches!(oid, 3904 | 3906 | 3908 | 3910 | 3912 | 3926),
        Datum::Multirange(_) => matches!(oid, 4451 | 4532..=4536),
        Datum::Array(array) => {
            let (item, is_vector) = if oid == 30 { (26, true) } else { (21, oid == 22) };
            is_vector && array.element == item && array.items.iter().all(|datum| is_value_of(item, datum))
        }
        Datum::Oid(_) => {
            matches!(Type::from_oid(oid, -1), Some(Type::Other(other)) if other.storage() == Storage::Oid)
        }
        Datum::Record(record) => is_composite_value(oid, record),
        Datum::Null => false,
    }
}

/// Whether a row has the columns of the composite type with this OID.
fn is_composite_value(oid: u32, record: &Record<'_>) -> bool {
    let Some(attributes) = user_types::attributes(oid) else { return false };
    let is_value = |(attribute, (ty, value)): (&Attribute, (&u32, &Datum<'_>))| {
        attribute.ty.oid() == *ty && (value.is_null() || is_of(attribute.ty, value))
    };
    attributes.len() == record.values.len()
        && attributes.iter().zip(record.types.iter().zip(&record.values)).all(is_value)
}

/// Whether a value that is not NULL has the representation of a type.
fn is_of(ty: Type, value: &Datum<'_>) -> bool {
    let element = if let Type::Other(other) = ty { other.element() } else { None };
    match (element, value) {
        (Some(element), Datum::Array(array)) => {
            array.element == element.oid() && array.items.iter().all(|item| item.is_null() || is_of(element, item))
        }
        (Some(_), _) => false,
        (None, value) => is_value_of(ty.oid(), value),
    }
}

fn geometry_type(geometry: &Geometry) -> u32 {
    match geometry {
        Geometry::Point(_) => 600,
        Geometry::Segment(_) => 601,
        Geometry::Path { .. } => 602,
        Geometry::Box(_) => 603,
        Geometry::Polygon(_) => 604,
        Geometry::Line(_) => 628,
        Geometry::Circle(..) => 718,
    }
}

/// Refuses bounds of an array that [`model::encoding::decode`] refuses.
fn check_dimensions(array: &Array<'_>) -> Result<()> {
    let is_too_large = |side: &&ArrayDimension| side.lower.checked_add(side.length).is_none();
    match array.dimensions.iter().find(is_too_large) {
        None => Ok(()),
        Some(side) => {
            let text = format!("array lower bound is too large: {}", side.lower);
            Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
        }
    }
}

fn mismatch(ty: Type, datum: &Datum<'_>) -> Error {
    let text = format!("a value of type {} cannot be assigned to a column of type {ty}", datum.type_name());
    Error::new(SqlState::DATATYPE_MISMATCH, text).with_hint("cast the value to the column's type")
}

fn out_of_range(ty: Type) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{} out of range", ty.sql_name()))
}

fn narrow<T: TryFrom<i64>>(ty: Type, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| out_of_range(ty))
}

/// Casts an integer or float to i64. Floats are rounded half to even, like PostgreSQL.
fn to_integer(ty: Type, datum: &Datum<'_>) -> Result<i64> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let float = match datum {
        Datum::Int2(value) => return Ok((*value).into()),
        Datum::Int4(value) => return Ok((*value).into()),
        Datum::Int8(value) => return Ok(*value),
        Datum::Float4(value) => f64::from(*value),
        Datum::Float8(value) => *value,
        other => return Err(mismatch(ty, other)),
    };
    let rounded = float.round_ties_even();
    if (-END..END).contains(&rounded) { Ok(rounded as i64) } else { Err(out_of_range(ty)) }
}

fn to_float4(ty: Type, datum: &Datum<'_>) -> Result<f32> {
    match datum {
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok(*value as f32),
        Datum::Int8(value) => Ok(*value as f32),
        Datum::Float4(value) => Ok(*value),
        Datum::Float8(value) => narrow_float(*value),
        Datum::Numeric(value) => value.to_f32(),
        other => Err(mismatch(ty, other)),
    }
}

fn narrow_float(value: f64) -> Result<f32> {
    let short = value as f32;
    let lost = |what: &str| Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("value out of range: {what}")));
    if short.is_infinite() && value.is_finite() {
        return lost("overflow");
    }
    if short == 0.0 && value != 0.0 {
        return lost("underflow");
    }
    Ok(short)
}

fn to_float8(ty: Type, datum: &Datum<'_>) -> Result<f64> {
    match datum {
        Datum::Int2(value) => Ok((*value).into()),
        Datum::Int4(value) => Ok((*value).into()),
        Datum::Int8(value) => Ok(*value as f64),
        Datum::Float4(value) => Ok((*value).into()),
        Datum::Float8(value) => Ok(*value),
        Datum::Numeric(value) => value.to_f64(),
        other => Err(mismatch(ty, other)),
    }
}

fn to_numeric(ty: Type, datum: Datum<'_>) -> Result<Numeric> {
    match datum {
        Datum::Int2(value) => Ok(value.into()),
        Datum::Int4(value) => Ok(value.into()),
        Datum::Int8(value) => Ok(value.into()),
        Datum::Float4(value) => Ok(value.into()),
        Datum::Float8(value) => Ok(value.into()),
        Datum::Numeric(value) => Ok(value),
        other => Err(mismatch(ty, &other)),
    }
}

/// Truncates trailing blanks beyond the declared length; other characters there are an error
/// (22001).
fn truncate_blanks(ty: Type, text: &str, characters: u32) -> Result<&str> {
    let characters = characters as usize;
    if text.len() <= characters {
        return Ok(text);
    }
    let Some((end, _)) = text.char_indices().nth(characters) else { return Ok(text) };
    let (kept, beyond) = text.split_at(end);
    if beyond.bytes().all(|byte| byte == b' ') {
        return Ok(kept);
    }
    Err(Error::new(SqlState::STRING_TOO_LONG, format!("value too long for type {ty}")))
}

fn check_length(bytes: usize) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let text = format!("value of {bytes} bytes is too long; the limit is {VALUE_BYTES_MAX}");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
}

/// Assignment casts among date, time, timestamp and interval.
fn datetime<'a>(ty: Type, datum: Datum<'a>) -> Result<Datum<'a>> {
    Ok(match (ty, datum) {
        (Type::Date, Datum::Date(days)) => Datum::Date(days),
        (Type::Date, Datum::Timestamp(micros)) => Datum::Date(date_of(micros)),
        (Type::Time, Datum::Time(micros)) => Datum::Time(micros),
        // PostgreSQL casts an infinite timestamp to a NULL time.
        (Type::Time, Datum::Timestamp(i64::MIN | i64::MAX)) => Datum::Null,
        (Type::Time, Datum::Timestamp(micros)) => Datum::Time(micros.rem_euclid(DAY_MICROS)),
        (Type::Time, Datum::Interval(interval)) => Datum::Time(interval.micros.rem_euclid(DAY_MICROS)),
        (Type::Timestamp, Datum::Timestamp(micros)) => Datum::Timestamp(micros),
        (Type::Timestamp, Datum::Date(days)) => Datum::Timestamp(midnight_of(days)?),
        (Type::Interval, Datum::Interval(interval)) => Datum::Interval(interval),
        (Type::Interval, Datum::Time(micros)) => Datum::Interval(model::Interval { micros, ..Default::default() }),
        (ty, datum) => return Err(mismatch(ty, &datum)),
    })
}

fn date_of(micros: i64) -> i32 {
    match micros {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        // Fits: an i64 of microseconds spans ±106,751,992 days.
        _ => micros.div_euclid(DAY_MICROS) as i32,
    }
}

fn midnight_of(days: i32) -> Result<i64> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        _ => i64::from(days)
            .checked_mul(DAY_MICROS)
            .ok_or_else(|| Error::new(SqlState::DATETIME_OVERFLOW, "date out of range for timestamp")),
    }
}
