//! Builds Arrow arrays of PostgreSQL's values.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, IntervalMonthDayNanoBuilder, StringBuilder, Time64NanosecondBuilder, TimestampNanosecondBuilder,
    UInt32Builder,
};
use arrow_array::types::IntervalMonthDayNano;
use catalog::TypeId;
use model::{Datum, Error, Result};

use super::{Form, arrow_type, encode, form};

/// Builds an array of one type's values.
pub(crate) struct Builder(Inner);

enum Inner {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Moment(TimestampNanosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Oid(UInt32Builder),
    Encoded(BinaryBuilder, Vec<u8>),
}

impl Builder {
    /// A builder with room for a number of values.
    #[must_use]
    pub(crate) fn new(ty: TypeId, zone: &Arc<str>, rows: usize) -> Builder {
        let moment = || TimestampNanosecondBuilder::with_capacity(rows).with_data_type(arrow_type(ty, zone));
        Builder(match form(ty) {
            Form::Bool => Inner::Bool(BooleanBuilder::with_capacity(rows)),
            Form::Int2 => Inner::Int2(Int16Builder::with_capacity(rows)),
            Form::Int4 => Inner::Int4(Int32Builder::with_capacity(rows)),
            Form::Int8 => Inner::Int8(Int64Builder::with_capacity(rows)),
            Form::Float4 => Inner::Float4(Float32Builder::with_capacity(rows)),
            Form::Float8 => Inner::Float8(Float64Builder::with_capacity(rows)),
            Form::Text | Form::Uuid => Inner::Text(StringBuilder::with_capacity(rows, rows * 8)),
            Form::Bytes => Inner::Bytes(BinaryBuilder::with_capacity(rows, rows * 8)),
            Form::Date => Inner::Date(Date32Builder::with_capacity(rows)),
            Form::Time => Inner::Time(Time64NanosecondBuilder::with_capacity(rows)),
            Form::Timestamp | Form::Timestamptz => Inner::Moment(moment()),
            Form::Interval => Inner::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows)),
            Form::Oid => Inner::Oid(UInt32Builder::with_capacity(rows)),
            Form::Encoded => Inner::Encoded(BinaryBuilder::with_capacity(rows, rows * 8), Vec::new()),
        })
    }

    /// Appends a value.
    ///
    /// # Errors
    /// 0A000 for a timestamp or interval beyond the range of nanoseconds; XX000 for a value of another type.
    pub(crate) fn push(&mut self, datum: &Datum<'_>) -> Result<()> {
        match (&mut self.0, datum) {
            (inner, Datum::Null) => inner.push_null(),
            (Inner::Bool(builder), Datum::Bool(value)) => builder.append_value(*value),
            (Inner::Int2(builder), Datum::Int2(value)) => builder.append_value(*value),
            (Inner::Int4(builder), Datum::Int4(value)) => builder.append_value(*value),
            (Inner::Int8(builder), Datum::Int8(value)) => builder.append_value(*value),
            // Comparisons of DataFusion distinguish NaNs by their sign.
            (Inner::Float4(builder), Datum::Float4(value)) => {
                builder.append_value(if value.is_nan() { f32::NAN } else { *value });
            }
            (Inner::Float8(builder), Datum::Float8(value)) => {
                builder.append_value(if value.is_nan() { f64::NAN } else { *value });
            }
            (Inner::Text(builder), Datum::Text(value)) => {
                check_room(builder.values_slice().len(), value.len())?;
                builder.append_value(value);
            }
            (Inner::Text(builder), Datum::Uuid(value)) => {
                let mut text = Vec::with_capacity(36);
                pg::value::uuid_text(&mut text, value);
                builder.append_value(String::from_utf8_lossy(&text));
            }
            (Inner::Bytes(builder), Datum::Bytes(value)) => {
                check_room(builder.values_slice().len(), value.len())?;
                builder.append_value(value);
            }
            (Inner::Date(builder), Datum::Date(value)) => builder.append_value(*value),
            (Inner::Time(builder), Datum::Time(micros)) => builder.append_value(micros.saturating_mul(1_000)),
            (Inner::Moment(builder), Datum::Timestamp(micros) | Datum::Timestamptz(micros)) => {
                builder.append_value(nanos(*micros)?);
            }
            (Inner::Interval(builder), Datum::Interval(value)) => {
                let ns = value.micros.checked_mul(1_000).ok_or_else(|| beyond("interval"))?;
                builder.append_value(IntervalMonthDayNano::new(value.months, value.days, ns));
            }
            (Inner::Oid(builder), Datum::Oid(value)) => builder.append_value(*value),
            (Inner::Encoded(builder, bytes), datum) => {
                bytes.clear();
                encode(datum, bytes);
                check_room(builder.values_slice().len(), bytes.len())?;
                builder.append_value(bytes.as_slice());
            }
            (_, other) => return Err(Error::bug(format!("a {} in a column of another type", other.type_name()))),
        }
        Ok(())
    }

    /// Bytes of the text and bytes values so far.
    pub(crate) fn text_bytes(&self) -> usize {
        match &self.0 {
            Inner::Text(builder) => builder.values_slice().len(),
            Inner::Bytes(builder) | Inner::Encoded(builder, _) => builder.values_slice().len(),
            _ => 0,
        }
    }

    /// The array of the values; the builder is empty afterwards.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        match &mut self.0 {
            Inner::Bool(builder) => Arc::new(builder.finish()),
            Inner::Int2(builder) => Arc::new(builder.finish()),
            Inner::Int4(builder) => Arc::new(builder.finish()),
            Inner::Int8(builder) => Arc::new(builder.finish()),
            Inner::Float4(builder) => Arc::new(builder.finish()),
            Inner::Float8(builder) => Arc::new(builder.finish()),
            Inner::Text(builder) => Arc::new(builder.finish()),
            Inner::Bytes(builder) | Inner::Encoded(builder, _) => Arc::new(builder.finish()),
            Inner::Date(builder) => Arc::new(builder.finish()),
            Inner::Time(builder) => Arc::new(builder.finish()),
            Inner::Moment(builder) => Arc::new(builder.finish()),
            Inner::Interval(builder) => Arc::new(builder.finish()),
            Inner::Oid(builder) => Arc::new(builder.finish()),
        }
    }
}

impl Inner {
    fn push_null(&mut self) {
        match self {
            Inner::Bool(builder) => builder.append_null(),
            Inner::Int2(builder) => builder.append_null(),
            Inner::Int4(builder) => builder.append_null(),
            Inner::Int8(builder) => builder.append_null(),
            Inner::Float4(builder) => builder.append_null(),
            Inner::Float8(builder) => builder.append_null(),
            Inner::Text(builder) => builder.append_null(),
            Inner::Bytes(builder) | Inner::Encoded(builder, _) => builder.append_null(),
            Inner::Date(builder) => builder.append_null(),
            Inner::Time(builder) => builder.append_null(),
            Inner::Moment(builder) => builder.append_null(),
            Inner::Interval(builder) => builder.append_null(),
            Inner::Oid(builder) => builder.append_null(),
        }
    }
}

/// Arrays of text and bytes have offsets of 32 bits; a longer one would panic.
pub(crate) fn check_room(used: usize, more: usize) -> Result<()> {
    if used.saturating_add(more) <= i32::MAX as usize {
        return Ok(());
    }
    Err(crate::errors::too_long())
}

fn nanos(micros: i64) -> Result<i64> {
    if matches!(micros, i64::MIN | i64::MAX) {
        return Ok(micros);
    }
    micros.checked_mul(1_000).ok_or_else(|| beyond("timestamp"))
}

fn beyond(what: &str) -> Error {
    Error::unsupported(format!("a computed {what} is out of the range of this query, 292 years around 1970"))
}
