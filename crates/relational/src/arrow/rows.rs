//! Conversion of values of `rows` tables to Arrow arrays: columns that DataFusion reads, and results.
//!
//! Some Arrow types have a smaller range: timestamps are nanoseconds there (1677 to 2262), and in results a `numeric`
//! without scale keeps [`NUMERIC_SCALE`] digits after the point. A value that does not fit is an error
//! (22008, 22003), never another value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, StringBuilder, Time64NanosecondBuilder,
    TimestampNanosecondBuilder,
};
use arrow_array::types::IntervalMonthDayNano;
use arrow_schema::{DataType as Arrow, Field, IntervalUnit, TimeUnit};
use catalog::TypeId;
use model::numeric::Precision;
use model::{Datum, Error, Numeric, Result, RowColumn, SqlState, Type};

use crate::types::{NUMERIC_SCALE, OID_KEY, TYPMOD_KEY, timestamptz};

/// Maximum number of digits of Arrow's 128-bit decimals.
const DIGITS_MAX: u16 = 38;

/// Arrow field of a column.
pub(crate) fn field(column: &RowColumn, zone: &str) -> Field {
    let field = Field::new(&column.name, scanned(column.ty, zone), !column.not_null);
    // Several SQL types map to Arrow's Utf8.
    let mut metadata = HashMap::from([(OID_KEY.to_owned(), column.ty.oid().to_string())]);
    if matches!(column.ty, Type::Char(_)) {
        // The length of the type, to pad values with blanks on output.
        metadata.insert(TYPMOD_KEY.to_owned(), column.ty.typmod().to_string());
    }
    field.with_metadata(metadata)
}

/// Arrow type of a column that DataFusion reads: as [`arrow_of`], but a `numeric` that is no decimal keeps all its digits.
fn scanned(ty: Type, zone: &str) -> Arrow {
    match ty {
        Type::Numeric(precision) if !is_decimal(precision) => super::arrow_type(TypeId(ty.oid()), &zone.into()),
        Type::Other(other) if ty.base().is_other() => super::arrow_type(TypeId(other.oid), &zone.into()),
        ty => arrow_of(ty, zone),
    }
}

/// Whether Arrow's decimals of one scale have all values of a `numeric`.
fn is_decimal(precision: Option<Precision>) -> bool {
    let digits = DIGITS_MAX as i16;
    precision.is_some_and(|of| of.digits <= DIGITS_MAX && (0..=digits).contains(&of.scale))
}

/// Arrow type that represents a type's values; text for types that Arrow lacks.
pub fn arrow_of(ty: Type, zone: &str) -> Arrow {
    match ty.base() {
        Type::Bool => Arrow::Boolean,
        Type::Int2 => Arrow::Int16,
        Type::Int4 => Arrow::Int32,
        Type::Int8 => Arrow::Int64,
        Type::Float4 => Arrow::Float32,
        Type::Float8 => Arrow::Float64,
        Type::Numeric(precision) => Arrow::Decimal128(DIGITS_MAX as u8, scale(precision)),
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Json | Type::Uuid | Type::Other(_) => Arrow::Utf8,
        Type::Bytes => Arrow::Binary,
        Type::Date => Arrow::Date32,
        Type::Time => Arrow::Time64(TimeUnit::Nanosecond),
        Type::Timestamp => Arrow::Timestamp(TimeUnit::Nanosecond, None),
        Type::Timestamptz => timestamptz(zone),
        Type::Interval => Arrow::Interval(IntervalUnit::MonthDayNano),
    }
}

fn scale(precision: Option<Precision>) -> i8 {
    match precision {
        Some(Precision { scale, .. }) => scale.clamp(0, DIGITS_MAX as i16) as i8,
        None => NUMERIC_SCALE,
    }
}

/// Builds the Arrow array of one column.
pub struct Builder(Values);

enum Values {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, i8),
    Text(StringBuilder, Type),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64NanosecondBuilder),
    Moment(TimestampNanosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    /// Values for DataFusion: infinite times, NaNs of one sign, exact numerics.
    Relational(super::Builder),
}

impl Builder {
    /// Builder for values of a type, with capacity for `rows` values.
    pub fn new(ty: Type, zone: &str, rows: usize) -> Builder {
        let arrow = arrow_of(ty, zone);
        Builder(match ty.base() {
            Type::Bool => Values::Bool(BooleanBuilder::with_capacity(rows)),
            Type::Int2 => Values::Int2(Int16Builder::with_capacity(rows)),
            Type::Int4 => Values::Int4(Int32Builder::with_capacity(rows)),
            Type::Int8 => Values::Int8(Int64Builder::with_capacity(rows)),
            Type::Float4 => Values::Float4(Float32Builder::with_capacity(rows)),
            Type::Float8 => Values::Float8(Float64Builder::with_capacity(rows)),
            Type::Numeric(precision) => {
                Values::Numeric(Decimal128Builder::with_capacity(rows).with_data_type(arrow), scale(precision))
            }
            Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Json | Type::Uuid | Type::Other(_) => {
                Values::Text(StringBuilder::with_capacity(rows, rows * 16), ty)
            }
            Type::Bytes => Values::Bytes(BinaryBuilder::with_capacity(rows, rows * 16)),
            Type::Date => Values::Date(Date32Builder::with_capacity(rows)),
            Type::Time => Values::Time(Time64NanosecondBuilder::with_capacity(rows)),
            Type::Timestamp | Type::Timestamptz => {
                Values::Moment(TimestampNanosecondBuilder::with_capacity(rows).with_data_type(arrow))
            }
            Type::Interval => Values::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows)),
        })
    }

    /// Builder for the values of a column that DataFusion reads.
    pub(crate) fn scanned(ty: Type, zone: &Arc<str>, rows: usize) -> Builder {
        let is_relational = match ty.base() {
            Type::Numeric(precision) => !is_decimal(precision),
            Type::Float4 | Type::Float8 | Type::Date | Type::Timestamp | Type::Timestamptz | Type::Other(_) => true,
            _ => false,
        };
        match is_relational {
            true => Builder(Values::Relational(super::Builder::new(TypeId(ty.oid()), zone, rows))),
            false => Builder::new(ty, zone, rows),
        }
    }

    /// Appends a value of the builder's type.
    ///
    /// # Errors
    /// 22003, 22008 for a value out of the Arrow type's range; XX000 for a value of another type.
    pub fn push(&mut self, datum: &Datum<'_>) -> Result<()> {
        match (&mut self.0, datum) {
            (Values::Relational(builder), datum) => builder.push(datum)?,
            (values, Datum::Null) => values.push_null()?,
            (Values::Bool(builder), Datum::Bool(value)) => builder.append_value(*value),
            (Values::Int2(builder), Datum::Int2(value)) => builder.append_value(*value),
            (Values::Int4(builder), Datum::Int4(value)) => builder.append_value(*value),
            (Values::Int8(builder), Datum::Int8(value)) => builder.append_value(*value),
            (Values::Float4(builder), Datum::Float4(value)) => builder.append_value(*value),
            (Values::Float8(builder), Datum::Float8(value)) => builder.append_value(*value),
            (Values::Numeric(builder, scale), Datum::Numeric(value)) => builder.append_value(decimal(value, *scale)?),
            (Values::Text(builder, ty), Datum::Text(text)) => match ty.padding(text) {
                0 => builder.append_value(text),
                blanks => builder.append_value(format!("{text}{}", " ".repeat(blanks))),
            },
            (Values::Text(builder, _), Datum::Numeric(value)) => builder.append_value(value.to_string()),
            (Values::Text(builder, _), Datum::Uuid(uuid)) => {
                let mut text = Vec::with_capacity(36);
                pg::value::uuid_text(&mut text, uuid);
                builder.append_value(String::from_utf8_lossy(&text));
            }
            (Values::Bytes(builder), Datum::Bytes(bytes)) => builder.append_value(bytes),
            (Values::Date(builder), Datum::Date(days)) => {
                if matches!(*days, i32::MIN | i32::MAX) {
                    return Err(infinite());
                }
                builder.append_value(*days);
            }
            (Values::Time(builder), Datum::Time(micros)) => builder.append_value(micros * 1_000),
            (Values::Moment(builder), Datum::Timestamp(micros) | Datum::Timestamptz(micros)) => {
                builder.append_value(nanos(*micros)?);
            }
            (Values::Interval(builder), Datum::Interval(value)) => {
                let ns = value.micros.checked_mul(1_000).ok_or_else(|| out_of_range("interval"))?;
                builder.append_value(IntervalMonthDayNano::new(value.months, value.days, ns));
            }
            (_, other) => return Err(Error::bug(format!("a {} in a column of another type", other.type_name()))),
        }
        Ok(())
    }

    /// Returns the array of the appended values and resets the builder.
    #[must_use]
    pub fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

impl Values {
    fn push_null(&mut self) -> Result<()> {
        match self {
            Values::Bool(builder) => builder.append_null(),
            Values::Int2(builder) => builder.append_null(),
            Values::Int4(builder) => builder.append_null(),
            Values::Int8(builder) => builder.append_null(),
            Values::Float4(builder) => builder.append_null(),
            Values::Float8(builder) => builder.append_null(),
            Values::Numeric(builder, _) => builder.append_null(),
            Values::Text(builder, _) => builder.append_null(),
            Values::Bytes(builder) => builder.append_null(),
            Values::Date(builder) => builder.append_null(),
            Values::Time(builder) => builder.append_null(),
            Values::Moment(builder) => builder.append_null(),
            Values::Interval(builder) => builder.append_null(),
            Values::Relational(builder) => builder.push(&Datum::Null)?,
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Values::Bool(builder) => Arc::new(builder.finish()),
            Values::Int2(builder) => Arc::new(builder.finish()),
            Values::Int4(builder) => Arc::new(builder.finish()),
            Values::Int8(builder) => Arc::new(builder.finish()),
            Values::Float4(builder) => Arc::new(builder.finish()),
            Values::Float8(builder) => Arc::new(builder.finish()),
            Values::Numeric(builder, _) => Arc::new(builder.finish()),
            Values::Text(builder, _) => Arc::new(builder.finish()),
            Values::Bytes(builder) => Arc::new(builder.finish()),
            Values::Date(builder) => Arc::new(builder.finish()),
            Values::Time(builder) => Arc::new(builder.finish()),
            Values::Moment(builder) => Arc::new(builder.finish()),
            Values::Interval(builder) => Arc::new(builder.finish()),
            Values::Relational(builder) => builder.finish(),
        }
    }
}

/// Converts a number exactly to a decimal of a fixed scale.
fn decimal(value: &Numeric, scale: i8) -> Result<i128> {
    let refused = || {
        let text = format!("numeric value {value} does not fit {DIGITS_MAX} digits, {scale} of them after the point");
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text)
            .with_hint("numeric is limited to 38 digits in this result; cast it to text")
    };
    let (digits, has) = value.as_decimal().ok_or_else(refused)?;
    let missing = i32::from(scale) - has as i32;
    if missing >= 0 {
        return 10i128.checked_pow(missing as u32).and_then(|factor| digits.checked_mul(factor)).ok_or_else(refused);
    }
    let factor = 10i128.checked_pow(missing.unsigned_abs()).ok_or_else(refused)?;
    if digits % factor == 0 { Ok(digits / factor) } else { Err(refused()) }
}

fn nanos(micros: i64) -> Result<i64> {
    if matches!(micros, i64::MIN | i64::MAX) {
        return Err(infinite());
    }
    micros.checked_mul(1_000).ok_or_else(|| out_of_range("timestamp"))
}

fn infinite() -> Error {
    Error::unsupported("infinite dates and timestamps are not supported in this result")
}

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, format!("{what} is out of the range of this result, 292 years around 1970"))
}
