//! Statement parameters from record batches, converted to the parameter types.
//!
//! Clients send parameters in the types of their language: numbers as int64, dates as text. A value
//! is converted to a related type, with range checks; text is parsed like an SQL literal.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, Time64NanosecondType,
    TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use model::{Error, Result, SqlState};
use pg::types::oid;
use query::Value;

/// Nanoseconds per day.
const DAY_NS: i64 = 86_400_000_000_000;

/// Returns one list of parameters per row of the batch.
///
/// - `oids`: the parameter types.
///
/// # Errors
/// 08P01 for a wrong number of columns; 22xxx and 42804, with the parameter.
pub(super) fn rows(batch: &RecordBatch, oids: &[u32]) -> Result<Vec<Vec<Value>>> {
    if batch.num_columns() != oids.len() {
        let text = format!("got {} columns for {} parameters", batch.num_columns(), oids.len());
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, text));
    }
    let mut rows = vec![Vec::with_capacity(oids.len()); batch.num_rows()];
    for (at, (array, oid)) in batch.columns().iter().zip(oids).enumerate() {
        let in_place = |error: Error| error.context(format_args!("parameter ${}", at + 1));
        let array = widest(array).map_err(in_place)?;
        for (row, values) in rows.iter_mut().enumerate() {
            let value = to_value(&array, row).and_then(|value| convert(value, *oid)).map_err(in_place)?;
            values.push(value);
        }
    }
    Ok(rows)
}

/// Casts an array to the widest type of its kind.
fn widest(array: &ArrayRef) -> Result<ArrayRef> {
    let to = match array.data_type() {
        Arrow::Dictionary(_, values) => (**values).clone(),
        Arrow::UInt64 => Arrow::Decimal128(38, 0),
        ty if ty.is_integer() => Arrow::Int64,
        Arrow::Float16 => Arrow::Float32,
        Arrow::Decimal32(digits, scale) | Arrow::Decimal64(digits, scale) => Arrow::Decimal128(*digits, *scale),
        Arrow::Decimal256(_, scale) => Arrow::Decimal128(38, *scale),
        Arrow::LargeUtf8 | Arrow::Utf8View => Arrow::Utf8,
        Arrow::LargeBinary | Arrow::BinaryView | Arrow::FixedSizeBinary(_) => Arrow::Binary,
        Arrow::Timestamp(_, zone) => Arrow::Timestamp(TimeUnit::Nanosecond, zone.clone()),
        Arrow::Date64 => Arrow::Date32,
        Arrow::Time32(_) | Arrow::Time64(_) => Arrow::Time64(TimeUnit::Nanosecond),
        Arrow::Duration(_) | Arrow::Interval(_) => Arrow::Interval(IntervalUnit::MonthDayNano),
        Arrow::LargeList(item) => Arrow::List(Arc::clone(item)),
        _ => return Ok(Arc::clone(array)),
    };
    if *array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &to, &options)
        .map_err(|error| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error.to_string()))
}

/// Converts a cell to a value without changing its type.
fn to_value(array: &ArrayRef, row: usize) -> Result<Value> {
    if array.is_null(row) || *array.data_type() == Arrow::Null {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        Arrow::Boolean => Value::Bool(array.as_boolean().value(row)),
        Arrow::Int64 => Value::Int64(array.as_primitive::<Int64Type>().value(row)),
        Arrow::Float32 => Value::Float32(array.as_primitive::<Float32Type>().value(row)),
        Arrow::Float64 => Value::Float64(array.as_primitive::<Float64Type>().value(row)),
        Arrow::Decimal128(_, scale) => decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)?,
        Arrow::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        Arrow::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_vec()),
        Arrow::Timestamp(_, Some(_)) => Value::Timestamptz(array.as_primitive::<TimestampNanosecondType>().value(row)),
        Arrow::Timestamp(_, None) => Value::Timestamp(array.as_primitive::<TimestampNanosecondType>().value(row)),
        Arrow::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        Arrow::Time64(_) => Value::Time(array.as_primitive::<Time64NanosecondType>().value(row)),
        Arrow::Interval(_) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Value::Interval(value.months, value.days, value.nanoseconds)
        }
        Arrow::List(_) => {
            let items = widest(&array.as_list::<i32>().value(row))?;
            Value::Array((0..items.len()).map(|item| to_value(&items, item)).collect::<Result<_>>()?)
        }
        other => return Err(Error::unsupported(format!("a value of type {other} is not supported as a parameter"))),
    })
}

fn decimal(value: i128, scale: i8) -> Result<Value> {
    match u8::try_from(scale) {
        Ok(scale) => Ok(Value::Numeric(value, scale)),
        Err(_) => {
            let factor = 10_i128.checked_pow(u32::from(scale.unsigned_abs()));
            let value = factor.and_then(|factor| value.checked_mul(factor)).ok_or_else(|| out_of_range("numeric"))?;
            Ok(Value::Numeric(value, 0))
        }
    }
}

/// Converts a value to parameter type `oid`.
fn convert(value: Value, oid: u32) -> Result<Value> {
    Ok(match (value, oid) {
        (Value::Null, _) => Value::Null,
        (Value::Text(text), oid) if !is_text(oid) => {
            let datum = pg::decode(oid, pg::Form::Text, text.as_bytes(), &crate::http::offset)?;
            crate::pg::value_of(datum)?
        }
        (Value::Int64(value), oid::INT2) => Value::Int16(value.try_into().map_err(|_| out_of_range("smallint"))?),
        (Value::Int64(value), oid::INT4) => Value::Int32(value.try_into().map_err(|_| out_of_range("integer"))?),
        (Value::Int64(value), oid::FLOAT4) => Value::Float32(value as f32),
        (Value::Int64(value), oid::FLOAT8) => Value::Float64(value as f64),
        (Value::Int64(value), oid::NUMERIC) => Value::Numeric(value.into(), 0),
        (Value::Float32(value), oid::FLOAT8) => Value::Float64(value.into()),
        (Value::Float64(value), oid::FLOAT4) => Value::Float32(value as f32),
        (Value::Numeric(value, scale), oid::FLOAT8 | oid::FLOAT4) => {
            let value = value as f64 / 10_f64.powi(scale.into());
            if oid == oid::FLOAT8 { Value::Float64(value) } else { Value::Float32(value as f32) }
        }
        (Value::Numeric(value, 0), oid::INT8) => Value::Int64(value.try_into().map_err(|_| out_of_range("bigint"))?),
        (Value::Timestamp(ns), oid::TIMESTAMPTZ) => Value::Timestamptz(ns),
        (Value::Timestamptz(ns), oid::TIMESTAMP) => Value::Timestamp(ns),
        (Value::Date(days), oid::TIMESTAMPTZ | oid::TIMESTAMP) => {
            let ns = i64::from(days)
                .checked_mul(DAY_NS)
                .ok_or_else(|| Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range"))?;
            if oid == oid::TIMESTAMP { Value::Timestamp(ns) } else { Value::Timestamptz(ns) }
        }
        (Value::Array(values), oid) => {
            let element = pg::types::Type::by_oid(oid).map_or(0, |ty| ty.element);
            Value::Array(values.into_iter().map(|value| convert(value, element)).collect::<Result<_>>()?)
        }
        (value, oid) if fits(&value, oid) => value,
        (value, oid) => {
            let text =
                format!("the statement expects type {}, but {value:?} was bound", pg::types::Type::sql_name(oid));
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
    })
}

fn is_text(oid: u32) -> bool {
    [0, oid::UNKNOWN, oid::TEXT, oid::VARCHAR, oid::BPCHAR, oid::NAME, oid::CHAR, oid::JSON].contains(&oid)
}

/// Whether the value can be passed for this type unchanged.
fn fits(value: &Value, oid: u32) -> bool {
    match value {
        Value::Bool(_) => oid == oid::BOOL,
        Value::Int64(_) => oid == oid::INT8 || oid == oid::OID,
        Value::Float32(_) => oid == oid::FLOAT4,
        Value::Float64(_) => oid == oid::FLOAT8,
        Value::Numeric(..) => oid == oid::NUMERIC,
        Value::Text(_) => is_text(oid),
        Value::Bytes(_) => oid == oid::BYTEA,
        Value::Timestamptz(_) => oid == oid::TIMESTAMPTZ,
        Value::Timestamp(_) => oid == oid::TIMESTAMP,
        Value::Date(_) => oid == oid::DATE,
        Value::Time(_) => oid == oid::TIME,
        Value::Interval(..) => oid == oid::INTERVAL,
        _ => false,
    }
}

fn out_of_range(ty: &str) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range"))
}

#[cfg(test)]
mod tests {
    use arrow_array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int8Array, Int64Array, StringArray,
        TimestampSecondArray, UInt64Array,
    };

    use super::*;

    fn bound(array: ArrayRef, oid: u32) -> std::result::Result<Value, &'static str> {
        let batch = RecordBatch::try_from_iter_with_nullable([("0", array, true)]).unwrap();
        rows(&batch, &[oid]).map(|mut rows| rows.remove(0).remove(0)).map_err(|error| {
            assert!(error.message().starts_with("parameter $1: "), "{error}");
            error.state().0
        })
    }

    #[test]
    fn values_are_converted_to_parameter_types_or_refused() {
        let cases: [(ArrayRef, u32, std::result::Result<Value, &str>); 14] = [
            (Arc::new(Int64Array::from(vec![7])), oid::INT4, Ok(Value::Int32(7))),
            (Arc::new(Int64Array::from(vec![1 << 40])), oid::INT4, Err("22003")),
            (Arc::new(Int8Array::from(vec![7])), oid::FLOAT8, Ok(Value::Float64(7.0))),
            (Arc::new(Float64Array::from(vec![1.5])), oid::INT8, Err("42804")),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), oid::NUMERIC, Ok(Value::Numeric(u64::MAX.into(), 0))),
            (Arc::new(UInt64Array::from(vec![5])), oid::INT8, Ok(Value::Int64(5))),
            (
                Arc::new(Decimal128Array::from(vec![125]).with_precision_and_scale(9, 2).unwrap()),
                oid::NUMERIC,
                Ok(Value::Numeric(125, 2)),
            ),
            (Arc::new(StringArray::from(vec!["5"])), oid::INT8, Ok(Value::Int64(5))),
            (Arc::new(StringArray::from(vec!["x"])), oid::INT8, Err("22P02")),
            (Arc::new(StringArray::from(vec!["x"])), oid::TEXT, Ok(Value::Text("x".into()))),
            (Arc::new(BooleanArray::from(vec![true])), oid::TEXT, Err("42804")),
            (Arc::new(TimestampSecondArray::from(vec![1])), oid::TIMESTAMPTZ, Ok(Value::Timestamptz(1_000_000_000))),
            (Arc::new(Date32Array::from(vec![1])), oid::TIMESTAMPTZ, Ok(Value::Timestamptz(DAY_NS))),
            (Arc::new(Int64Array::from(vec![None])), oid::TEXT, Ok(Value::Null)),
        ];
        for (array, oid, expected) in cases {
            let shown = format!("{array:?} as {oid}");
            assert_eq!(bound(array, oid), expected, "{shown}");
        }
    }

    #[test]
    fn a_batch_of_another_width_is_refused() {
        let batch = RecordBatch::try_from_iter([("0", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
        assert_eq!(rows(&batch, &[]).unwrap_err().state().0, "08P01");
    }
}
