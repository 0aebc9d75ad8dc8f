//! Reads PostgreSQL's values from Arrow arrays.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use catalog::TypeId;
use model::{Datum, Error, Interval, Numeric, Result};

use super::{Form, decode, form};

/// The value of a row. Fractions of a microsecond are cut.
///
/// # Errors
/// XX000 for an array that does not represent the type; XX001 for bytes that are no encoded value.
pub(crate) fn datum<'a>(array: &'a dyn Array, row: usize, ty: TypeId) -> Result<Datum<'a>> {
    if array.is_null(row) {
        return Ok(Datum::Null);
    }
    let form = form(ty);
    Ok(match array.data_type() {
        DataType::Null => Datum::Null,
        DataType::Boolean => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int8 => integer(array.as_primitive::<Int8Type>().value(row).into(), form)?,
        DataType::UInt8 => integer(array.as_primitive::<UInt8Type>().value(row).into(), form)?,
        DataType::Int16 => integer(array.as_primitive::<Int16Type>().value(row).into(), form)?,
        DataType::UInt16 => integer(array.as_primitive::<UInt16Type>().value(row).into(), form)?,
        DataType::Int32 => integer(array.as_primitive::<Int32Type>().value(row).into(), form)?,
        DataType::UInt32 => integer(array.as_primitive::<UInt32Type>().value(row).into(), form)?,
        DataType::Int64 => integer(array.as_primitive::<Int64Type>().value(row), form)?,
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(row);
            match form {
                Form::Encoded => Datum::Numeric(Numeric::new(value.into(), 0)),
                form => integer(i64::try_from(value).map_err(Error::bug)?, form)?,
            }
        }
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into(), form)?,
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row), form)?,
        DataType::Decimal128(_, scale) => decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)?,
        DataType::Utf8 => text_value(array.as_string::<i32>().value(row), ty, form)?,
        DataType::LargeUtf8 => text_value(array.as_string::<i64>().value(row), ty, form)?,
        DataType::Utf8View => text_value(array.as_string_view().value(row), ty, form)?,
        DataType::Binary => bytes(array.as_binary::<i32>().value(row), form)?,
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(row), form)?,
        DataType::BinaryView => bytes(array.as_binary_view().value(row), form)?,
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(row), form)?,
        DataType::Date32 => Datum::Date(array.as_primitive::<Date32Type>().value(row)),
        DataType::Time64(TimeUnit::Nanosecond) => {
            Datum::Time(array.as_primitive::<Time64NanosecondType>().value(row).div_euclid(1_000))
        }
        DataType::Time64(_) => Datum::Time(array.as_primitive::<Time64MicrosecondType>().value(row)),
        DataType::Timestamp(unit, zone) => {
            let micros = match unit {
                TimeUnit::Nanosecond => match array.as_primitive::<TimestampNanosecondType>().value(row) {
                    infinite @ (i64::MIN | i64::MAX) => infinite,
                    ns => ns.div_euclid(1_000),
                },
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
                TimeUnit::Millisecond => {
                    array.as_primitive::<TimestampMillisecondType>().value(row).saturating_mul(1_000)
                }
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row).saturating_mul(1_000_000),
            };
            match form {
                Form::Timestamp => Datum::Timestamp(micros),
                Form::Timestamptz => Datum::Timestamptz(micros),
                _ if zone.is_some() => Datum::Timestamptz(micros),
                _ => Datum::Timestamp(micros),
            }
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let micros = value.nanoseconds.div_euclid(1_000);
            Datum::Interval(Interval { months: value.months, days: value.days, micros })
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let at = dictionary.normalized_keys_at(row);
            return match at {
                Some(at) => datum(dictionary.values().as_ref(), at, ty),
                None => Ok(Datum::Null),
            };
        }
        other => return Err(Error::bug(format!("values of Arrow type {other}"))),
    })
}

trait KeyAt {
    fn normalized_keys_at(&self, row: usize) -> Option<usize>;
}

impl KeyAt for dyn arrow_array::array::AnyDictionaryArray + '_ {
    fn normalized_keys_at(&self, row: usize) -> Option<usize> {
        let keys = self.keys();
        if keys.is_null(row) {
            return None;
        }
        let at = match keys.data_type() {
            DataType::Int8 => i64::from(keys.as_primitive::<Int8Type>().value(row)),
            DataType::Int16 => i64::from(keys.as_primitive::<Int16Type>().value(row)),
            DataType::Int32 => i64::from(keys.as_primitive::<Int32Type>().value(row)),
            DataType::Int64 => keys.as_primitive::<Int64Type>().value(row),
            DataType::UInt8 => i64::from(keys.as_primitive::<UInt8Type>().value(row)),
            DataType::UInt16 => i64::from(keys.as_primitive::<UInt16Type>().value(row)),
            DataType::UInt32 => i64::from(keys.as_primitive::<UInt32Type>().value(row)),
            _ => return None,
        };
        usize::try_from(at).ok()
    }
}

fn integer(value: i64, form: Form) -> Result<Datum<'static>> {
    let wrong = |_| Error::bug("an integer in a column of a smaller type");
    Ok(match form {
        Form::Int2 => Datum::Int2(i16::try_from(value).map_err(wrong)?),
        Form::Int4 => Datum::Int4(i32::try_from(value).map_err(wrong)?),
        Form::Oid => Datum::Oid(u32::try_from(value).map_err(wrong)?),
        Form::Encoded => Datum::Numeric(Numeric::new(value.into(), 0)),
        _ => Datum::Int8(value),
    })
}

fn float(value: f64, form: Form) -> Result<Datum<'static>> {
    Ok(match form {
        Form::Float4 => Datum::Float4(value as f32),
        Form::Float8 => Datum::Float8(value),
        _ => return Err(Error::bug("a float in a column of another type")),
    })
}

fn decimal(value: i128, scale: i8) -> Result<Datum<'static>> {
    let power = 10_i128.checked_pow(scale.min(0).unsigned_abs().into());
    let value =
        power.and_then(|power| value.checked_mul(power)).ok_or_else(|| Error::bug("a decimal of negative scale"))?;
    Ok(Datum::Numeric(Numeric::new(value, u32::from(scale.max(0).unsigned_abs()))))
}

fn text_value(text: &str, ty: TypeId, form: Form) -> Result<Datum<'_>> {
    Ok(match form {
        Form::Uuid => {
            let bytes = pg::value::parse_uuid(text)?;
            Datum::Uuid(bytes)
        }
        _ if catalog::builtin().base_type(ty) == TypeId::BPCHAR => Datum::Text(text.trim_end_matches(' ')),
        _ => Datum::Text(text),
    })
}

fn bytes(bytes: &[u8], form: Form) -> Result<Datum<'_>> {
    Ok(match form {
        Form::Encoded => decode(bytes)?,
        Form::Uuid => Datum::Uuid(bytes.try_into().map_err(|_| Error::corrupt("a uuid of other than 16 bytes"))?),
        Form::Text => Datum::Text(std::str::from_utf8(bytes).map_err(|_| Error::corrupt("text that is not UTF-8"))?),
        _ => Datum::Bytes(bytes),
    })
}
