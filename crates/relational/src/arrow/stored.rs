//! Conversion between stored columns of `columns` tables and computed values, for types that are stored in another form:
//! see [`model::stored`].

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, IntervalMonthDayNano};
use arrow_array::{Array, ArrayRef, Decimal128Array, IntervalMonthDayNanoArray, new_null_array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType as Arrow, IntervalUnit, TimeUnit};
use catalog::TypeId;
use columns::rows::arrow_type;
use model::stored::{Stored, interval, store};
use model::{DataType, Error, Result, SqlState, Type};

use super::{Form, cast, datum, form};

/// How a stored column becomes one of computed values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shown {
    /// By a cast to this type, which keeps the bytes of most arrays.
    Cast(Arrow),
    /// Whole numbers become decimals with as many digits after the point.
    Decimal(i8),
    /// Bytes become intervals.
    Interval,
}

impl Shown {
    /// The conversion of a column of this type and typmod; `None` if the stored values are computed ones.
    pub(crate) fn of(ty: TypeId, typmod: i32, stored: &Arrow) -> Option<Shown> {
        Some(match (stored, ty) {
            (Arrow::Int32, TypeId::DATE) => Shown::Cast(Arrow::Date32),
            (Arrow::Int64, TypeId::TIME) => Shown::Cast(Arrow::Time64(TimeUnit::Nanosecond)),
            (Arrow::Int64, TypeId::TIMESTAMP) => Shown::Cast(Arrow::Timestamp(TimeUnit::Nanosecond, None)),
            (Arrow::Int64, TypeId::NUMERIC) => match Type::from_oid(ty.0, typmod) {
                Some(Type::Numeric(Some(of))) => Shown::Decimal(i8::try_from(of.scale).ok()?),
                _ => return None,
            },
            (Arrow::Int64, ty) if form(ty) == Form::Oid => Shown::Cast(Arrow::UInt32),
            (Arrow::Binary, TypeId::INTERVAL) => Shown::Interval,
            _ => return None,
        })
    }

    /// The Arrow type of the result.
    pub(crate) fn arrow(&self) -> Arrow {
        match self {
            Shown::Cast(to) => to.clone(),
            Shown::Decimal(scale) => Arrow::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
            Shown::Interval => Arrow::Interval(IntervalUnit::MonthDayNano),
        }
    }

    /// Converts stored values.
    ///
    /// # Errors
    /// XX000 for an array of another type; XX001 for bytes that are no interval; 22008 for an interval beyond the range of
    /// nanoseconds.
    pub(crate) fn convert(&self, stored: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Shown::Cast(to) => cast(stored, to)?,
            Shown::Decimal(scale) => {
                let whole = stored.as_primitive_opt::<Int64Type>().ok_or_else(|| other_type(stored))?;
                let values: Decimal128Array = whole.unary(i128::from);
                Arc::new(values.with_precision_and_scale(DECIMAL128_MAX_PRECISION, *scale).map_err(Error::bug)?)
            }
            Shown::Interval => {
                let bytes = stored.as_binary_opt::<i32>().ok_or_else(|| other_type(stored))?;
                let one = |bytes: &[u8]| {
                    let of = interval(bytes)?;
                    let beyond = || Error::new(SqlState::DATETIME_OVERFLOW, "interval out of range");
                    let ns = of.micros.checked_mul(1_000).ok_or_else(beyond)?;
                    Ok(IntervalMonthDayNano::new(of.months, of.days, ns))
                };
                let values = bytes.iter().map(|bytes| bytes.map(one).transpose());
                Arc::new(values.collect::<Result<IntervalMonthDayNanoArray>>()?)
            }
        })
    }
}

fn other_type(array: &ArrayRef) -> Error {
    Error::bug(format!("stored values of Arrow type {}", array.data_type()))
}

/// Computed values of a type in its stored form.
///
/// # Errors
/// 42804 for values of another type; as [`store`], and those of an assignment.
pub fn to_stored(array: &ArrayRef, ty: Type) -> Result<ArrayRef> {
    let form = ty.stored().ok_or_else(|| Error::bug(format!("a stored {ty}")))?;
    let to = arrow_type(form);
    match (array.data_type(), ty.base()) {
        (Arrow::Null, _) => return Ok(new_null_array(&to, array.len())),
        (Arrow::Date32, Type::Date) | (Arrow::Timestamp(_, Some(_)), Type::Timestamptz) => return cast(array, &to),
        // Infinities are refused below, and parts of microseconds are cut.
        (Arrow::Time64(TimeUnit::Nanosecond), Type::Time)
        | (Arrow::Timestamp(TimeUnit::Nanosecond, None), Type::Timestamp) => {
            let numbers = cast(array, &to)?;
            let is_plain = |ns: i64| ns % 1_000 == 0 && !matches!(ns, i64::MIN | i64::MAX);
            if numbers.as_primitive::<Int64Type>().iter().flatten().all(is_plain) {
                return Ok(numbers);
            }
        }
        (Arrow::UInt32, Type::Other(_)) if form == DataType::Int64 => return cast(array, &to),
        (Arrow::Utf8, Type::Uuid | Type::Json | Type::Other(_)) if form == DataType::Text => {
            return Ok(Arc::clone(array));
        }
        (Arrow::Binary, Type::Numeric(_) | Type::Other(_)) if form == DataType::Bytes => return Ok(Arc::clone(array)),
        (Arrow::Decimal128(_, scale), Type::Numeric(Some(of)))
            if form == DataType::Int64 && i16::from(*scale) == of.scale =>
        {
            let largest = 10_i128.pow(of.digits.into());
            let fits = |value: i128| value.abs() < largest;
            let values = array.as_primitive::<Decimal128Type>();
            if values.iter().flatten().all(fits) {
                return Ok(Arc::new(values.unary::<_, Int64Type>(|value| value as i64)));
            }
        }
        _ => {}
    }
    let id = TypeId(ty.oid());
    let mut builder = StoredBuilder::new(form, array.len());
    for row in 0..array.len() {
        let value = rows::coerce(ty, datum(array.as_ref(), row, id)?)?;
        builder.push(&store(ty, &value)?)?;
    }
    Ok(builder.finish())
}

/// Builds an array of stored values.
pub struct StoredBuilder(Inner);

enum Inner {
    Int32(Int32Builder),
    Int64(Int64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Moment(TimestampNanosecondBuilder),
    /// A type that no other form has.
    Other(DataType),
}

impl StoredBuilder {
    /// A builder with room for a number of values.
    #[must_use]
    pub fn new(form: DataType, rows: usize) -> StoredBuilder {
        StoredBuilder(match form {
            DataType::Int32 => Inner::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => Inner::Int64(Int64Builder::with_capacity(rows)),
            DataType::Text => Inner::Text(StringBuilder::with_capacity(rows, rows * 8)),
            DataType::Bytes => Inner::Bytes(BinaryBuilder::with_capacity(rows, rows * 8)),
            DataType::Timestamp => {
                let builder = TimestampNanosecondBuilder::with_capacity(rows);
                Inner::Moment(builder.with_data_type(arrow_type(DataType::Timestamp)))
            }
            other => Inner::Other(other),
        })
    }

    /// Appends a value.
    ///
    /// # Errors
    /// 54000 for more than 2 GiB of texts; XX000 for a value of another form.
    pub fn push(&mut self, value: &Stored<'_>) -> Result<()> {
        match (&mut self.0, value) {
            (Inner::Int32(builder), Stored::Null) => builder.append_null(),
            (Inner::Int64(builder), Stored::Null) => builder.append_null(),
            (Inner::Text(builder), Stored::Null) => builder.append_null(),
            (Inner::Bytes(builder), Stored::Null) => builder.append_null(),
            (Inner::Moment(builder), Stored::Null) => builder.append_null(),
            (Inner::Int32(builder), Stored::Int(value)) => {
                builder.append_value(i32::try_from(*value).map_err(Error::bug)?);
            }
            (Inner::Int64(builder), Stored::Int(value)) => builder.append_value(*value),
            (Inner::Moment(builder), Stored::Moment(ns)) => builder.append_value(*ns),
            (Inner::Text(builder), Stored::Text(text)) => append_text(builder, text)?,
            (Inner::Text(builder), Stored::Made(text)) => append_text(builder, text)?,
            (Inner::Bytes(builder), Stored::Bytes(bytes)) => append_bytes(builder, bytes)?,
            (Inner::Bytes(builder), Stored::Encoded(bytes)) => append_bytes(builder, bytes)?,
            (Inner::Other(form), _) => {
                return Err(Error::bug(format!("declared values in a column of {}", form.sql_name())));
            }
            (_, value) => return Err(Error::bug(format!("a stored value {value:?} of another form"))),
        }
        Ok(())
    }

    /// The array of the values; the builder is empty afterwards.
    #[must_use]
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.0 {
            Inner::Int32(builder) => Arc::new(builder.finish()),
            Inner::Int64(builder) => Arc::new(builder.finish()),
            Inner::Text(builder) => Arc::new(builder.finish()),
            Inner::Bytes(builder) => Arc::new(builder.finish()),
            Inner::Moment(builder) => Arc::new(builder.finish()),
            Inner::Other(form) => new_null_array(&arrow_type(*form), 0),
        }
    }
}

fn append_text(builder: &mut StringBuilder, text: &str) -> Result<()> {
    super::check_room(builder.values_slice().len(), text.len())?;
    builder.append_value(text);
    Ok(())
}

fn append_bytes(builder: &mut BinaryBuilder, bytes: &[u8]) -> Result<()> {
    super::check_room(builder.values_slice().len(), bytes.len())?;
    builder.append_value(bytes);
    Ok(())
}
