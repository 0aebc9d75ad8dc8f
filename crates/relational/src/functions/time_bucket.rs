//! `time_bucket(width, time [, origin] | [, zone [, origin [, offset]]] | [, offset])` and `epoch_ns(time)`.
//!
//! The argument order is TimescaleDB's; [`timeseries::buckets`] defines the buckets. `time_bucket(integer, integer [,
//! offset])` is for tables with an integer time column.

use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use model::{Error, SqlState};
use timeseries::buckets::{Buckets, Interval};

use crate::errors::external;
use crate::types::sql_name;

const NAME: &str = "time_bucket";
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// `time_bucket`, `epoch_ns`, and `date_trunc` with a zone.
pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        ScalarUDF::new_from_impl(TimeBucket::new()),
        ScalarUDF::new_from_impl(EpochNs::new()),
        ScalarUDF::new_from_impl(ZonedTrunc::new()),
    ]
}

/// `time_bucket`; see the module's documentation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeBucket {
    signature: Signature,
}

impl TimeBucket {
    fn new() -> TimeBucket {
        TimeBucket { signature: Signature::new(TypeSignature::UserDefined, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        coerce(NAME, types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        evaluate(&args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        // Buckets are non-decreasing in time, so rows sorted by time are sorted by bucket: aggregation can stream.
        let rest_is_constant =
            inputs.iter().enumerate().all(|(at, input)| at == 1 || input.sort_properties == SortProperties::Singleton);
        Ok(match inputs.get(1) {
            Some(time) if rest_is_constant => time.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

/// Evaluates `time_bucket`. The result is NULL if one of the first three arguments is; a NULL behind a zone is no origin
/// or offset.
pub(super) fn evaluate(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    if args.args.iter().take(3).any(is_null) {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
    }
    let time = &args.args[1];
    match time.data_type() {
        DataType::Date32 => return date_buckets(&args.args),
        ty if ty.is_integer() => return integer_buckets(&args.args),
        _ => {}
    }
    bucketed(&buckets_of(&args.args)?, time)
}

/// Buckets of dates, which are dates.
fn date_buckets(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    const DAY: i128 = 86_400_000_000_000;
    let width = interval(constant(&args[0])?)?;
    if width.months == 0 && (i128::from(width.days) * DAY + i128::from(width.nanoseconds)) % DAY != 0 {
        let message = "time_bucket: the width of buckets of dates must be a multiple of a day";
        return Err(external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)));
    }
    let times = args[1].cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, None), None)?;
    bucketed(&buckets_of(args)?, &times)?.cast_to(&DataType::Date32, None)
}

fn bucketed(buckets: &Buckets, time: &ColumnarValue) -> Result<ColumnarValue> {
    match time {
        ColumnarValue::Array(times) => Ok(ColumnarValue::Array(bucket_column(buckets, times)?)),
        ColumnarValue::Scalar(_) => {
            let starts = bucket_column(buckets, &time.to_array(1)?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?))
        }
    }
}

/// Coerces argument types for `function`, which has the arguments of `time_bucket`.
pub(super) fn coerce(function: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    if !(2..=5).contains(&types.len()) {
        return Err(undefined(function, types));
    }
    if types[0].is_integer() && types[1].is_integer() && types.len() <= 3 {
        return Ok(vec![DataType::Int64; types.len()]);
    }
    let mut coerced = Vec::with_capacity(types.len());
    for (at, ty) in types.iter().enumerate() {
        let is_date = at == 1 && function == NAME && matches!(ty, DataType::Date32 | DataType::Date64);
        let ty = if is_date { Some(DataType::Date32) } else { coerce_argument(at, ty, types.len()) };
        coerced.push(ty.ok_or_else(|| undefined(function, types))?);
    }
    Ok(coerced)
}

fn coerce_argument(at: usize, ty: &DataType, count: usize) -> Option<DataType> {
    let (text, interval) = (is_text(ty) || ty.is_null(), matches!(ty, DataType::Interval(_)));
    match at {
        0 if text || interval => Some(INTERVAL),
        1 => time_type(ty),
        2 if text => Some(DataType::Utf8),
        2 if interval && count == 3 => Some(INTERVAL),
        2 if count == 3 => time_type(ty),
        3 => time_type(ty),
        4 if text || interval => Some(INTERVAL),
        _ => None,
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn time_type(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Timestamp(_, zone) => Some(DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())),
        DataType::Date32 | DataType::Date64 => Some(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        DataType::Null => Some(DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))),
        ty if is_text(ty) => Some(DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()))),
        _ => None,
    }
}

fn undefined(function: &str, types: &[DataType]) -> datafusion::common::DataFusionError {
    let types: Vec<String> = types.iter().map(sql_name).collect();
    external(
        Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {function}({}) does not exist", types.join(", ")))
            .with_hint(format!(
                "{function}(width interval, time [, zone text [, origin timestamptz [, offset interval]]])"
            )),
    )
}

/// Buckets for constant arguments in the order of `time_bucket`.
fn buckets_of(args: &[ColumnarValue]) -> Result<Buckets> {
    let mut zone = None;
    let mut origin = None;
    let mut offset = Interval::default();
    for arg in &args[2..] {
        match constant(arg)? {
            value if value.is_null() => {}
            ScalarValue::Utf8(Some(name)) => zone = Some(name.clone()),
            ScalarValue::TimestampNanosecond(Some(time), _) => origin = Some(*time),
            value => offset = interval(value)?,
        }
    }
    let width = interval(constant(&args[0])?)?;
    Buckets::new(width, zone.as_deref(), origin, offset).map_err(|error| external(error.context(NAME)))
}

fn constant(arg: &ColumnarValue) -> Result<&ScalarValue> {
    match arg {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(_) => Err(external(Error::unsupported(
            "time_bucket: width, zone, origin and offset must be constants, but one of them differs by row",
        ))),
    }
}

/// Interval of a scalar value.
pub(super) fn interval(value: &ScalarValue) -> Result<Interval> {
    match value {
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            Ok(Interval { months: interval.months, days: interval.days, nanoseconds: interval.nanoseconds })
        }
        other => Err(external(Error::bug(format!("time_bucket: {} is no interval", other.data_type())))),
    }
}

fn is_null(arg: &ColumnarValue) -> bool {
    matches!(arg, ColumnarValue::Scalar(value) if value.is_null())
}

/// Bucket start of each time. Consecutive rows in one bucket, the usual case, cost two comparisons per row.
fn bucket_column(buckets: &Buckets, times: &ArrayRef) -> Result<ArrayRef> {
    let times = times.as_primitive::<TimestampNanosecondType>();
    let mut starts = PrimitiveBuilder::<TimestampNanosecondType>::with_capacity(times.len())
        .with_data_type(times.data_type().clone());
    let (mut start, mut end) = (0, 0);
    for (row, time) in times.values().iter().enumerate() {
        if times.is_null(row) {
            starts.append_null();
            continue;
        }
        if *time < start || *time >= end {
            start = buckets.start(*time).map_err(external)?;
            // The last bucket has no next one; then every row is looked up.
            end = buckets.next(start).unwrap_or(start);
        }
        starts.append_value(start);
    }
    Ok(Arc::new(starts.finish()))
}

fn integer_buckets(args: &[ColumnarValue]) -> Result<ColumnarValue> {
    let number = |at: usize| -> Result<i64> {
        match args.get(at).map(constant).transpose()? {
            Some(ScalarValue::Int64(Some(value))) => Ok(*value),
            _ => Ok(0),
        }
    };
    let (width, offset) = (number(0)?, number(2)?);
    if width <= 0 {
        let message = format!("time_bucket: width is {width}, it must be greater than zero");
        return Err(external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)));
    }
    let phase = offset.rem_euclid(width);
    let start = |time: i64| {
        let rest = time.rem_euclid(width) - phase;
        time.checked_sub(if rest < 0 { rest + width } else { rest }).ok_or_else(|| {
            external(Error::new(
                SqlState::NUMERIC_OUT_OF_RANGE,
                format!("time_bucket: bucket of {time} is out of range"),
            ))
        })
    };
    let times = ColumnarValue::values_to_arrays(&args[1..2])?;
    let starts: ArrayRef = Arc::new(times[0].as_primitive::<Int64Type>().try_unary::<_, Int64Type, _>(start)?);
    match &args[1] {
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(starts)),
        ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&starts, 0)?)),
    }
}

/// `epoch_ns(time)`: nanoseconds since 1970 as bigint, because the PostgreSQL protocol carries only microseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct EpochNs {
    signature: Signature,
}

impl EpochNs {
    fn new() -> EpochNs {
        EpochNs { signature: Signature::new(TypeSignature::UserDefined, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for EpochNs {
    fn name(&self) -> &str {
        "epoch_ns"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] => Ok(vec![time_type(ty).ok_or_else(|| undefined("epoch_ns", types))?]),
            _ => Err(undefined("epoch_ns", types)),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        args.args[0].cast_to(&DataType::Int64, None)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}

/// `date_trunc(field, time, zone)`: buckets of the field's length in the zone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ZonedTrunc {
    signature: Signature,
}

impl ZonedTrunc {
    fn new() -> ZonedTrunc {
        ZonedTrunc { signature: Signature::new(TypeSignature::UserDefined, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ZonedTrunc {
    fn name(&self) -> &str {
        "millrace_date_trunc"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [field, time, zone] if is_text(field) && is_text(zone) => {
                let time = time_type(time).ok_or_else(|| undefined("date_trunc", types))?;
                Ok(vec![DataType::Utf8, time, DataType::Utf8])
            }
            _ => Err(undefined("date_trunc", types)),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.iter().any(is_null) {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_field.data_type())?));
        }
        let text =
            |at: usize| -> Result<&str> { Ok(constant(&args.args[at])?.try_as_str().flatten().unwrap_or_default()) };
        let (width, origin) = truncation(text(0)?).map_err(external)?;
        let buckets = Buckets::new(width, Some(text(2)?), origin, Interval::default());
        let buckets = buckets.map_err(|error| external(error.context("date_trunc")))?;
        bucketed(&buckets, &args.args[1])
    }
}

/// Bucket width of a field, and its origin if it differs from the default.
pub(super) fn truncation(field: &str) -> model::Result<(Interval, Option<i64>)> {
    const MICROSECOND: i64 = 1_000;
    const SECOND: i64 = 1_000_000_000;
    // Noon, so that it is in January 2001 in every zone.
    const CENTURY: i64 = 979_560_000 * SECOND;
    let short = |nanoseconds: i64| (Interval { nanoseconds, ..Interval::default() }, None);
    let days = |days: i32| (Interval { days, ..Interval::default() }, None);
    let months = |months: i32| Interval { months, ..Interval::default() };
    Ok(match field.to_lowercase().as_str() {
        "microsecond" | "microseconds" => short(MICROSECOND),
        "millisecond" | "milliseconds" => short(1_000 * MICROSECOND),
        "second" => short(SECOND),
        "minute" => short(60 * SECOND),
        "hour" => short(3_600 * SECOND),
        "day" => days(1),
        "week" => days(7),
        "month" => (months(1), None),
        "quarter" => (months(3), None),
        "year" => (months(12), None),
        "decade" => (months(120), None),
        "century" => (months(1_200), Some(CENTURY)),
        "millennium" => (months(12_000), Some(CENTURY)),
        other => {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("date_trunc: unit \"{other}\" is not known"),
            ));
        }
    })
}
