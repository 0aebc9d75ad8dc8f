//! Date and time functions and operators with PostgreSQL's results: `extract`, `AT TIME ZONE`, `to_char`, intervals.
//!
//! DataFusion has some of them with other types or other rules (whole seconds, casts that ignore the zone, other
//! format patterns). A function here is bound to the session's time zone when a statement is planned, so it needs no
//! session state at run time.
//!
//! - `fields`: `extract`, `date_part` and `date_trunc`.
//! - `spans`: interval arithmetic.
//! - `format`: templates of `to_char`, `to_timestamp` and `to_date`.
//! - `plan`: rewrites operators, casts and comparisons to these functions.

mod fields;
mod format;
mod plan;
mod spans;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, DurationNanosecondType, Float64Type, IntervalMonthDayNanoType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, IntervalMonthDayNanoArray, StringArray, TimestampNanosecondArray};
use arrow_schema::{DataType as Arrow, Field, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;
use model::{Error, SqlState};

use super::bucket::Interval;
use super::external;
use crate::zone::Zone;

pub(crate) use plan::{DateCasts, DateOperators};

/// Nanoseconds per day.
const DAY: i64 = 86_400_000_000_000;
const SECOND: i64 = 1_000_000_000;
const SPAN: Arrow = Arrow::Interval(IntervalUnit::MonthDayNano);
const LOCAL: Arrow = Arrow::Timestamp(TimeUnit::Nanosecond, None);

/// Looks up a function of this module and binds it to the session's time zone.
pub(crate) fn function(name: &str, zone: &Arc<str>) -> Option<Arc<ScalarUDF>> {
    let spec = SPECS.iter().find(|spec| spec.name == name)?;
    Some(Arc::new(ScalarUDF::new_from_impl(DateFunction::new(spec, zone))))
}

/// Coercion: parameter types for the given argument types and time zone.
type Takes = fn(&[Arrow], &str) -> Option<Vec<Arrow>>;
/// Result type for the given argument types, constant first argument and time zone.
type Gives = fn(&[Arrow], Option<&str>, &str) -> model::Result<Arrow>;
type Eval = fn(&Call<'_>) -> model::Result<ArrayRef>;

struct Spec {
    name: &'static str,
    takes: Takes,
    gives: Gives,
    eval: Eval,
}

const fn spec(name: &'static str, takes: Takes, gives: Gives, eval: Eval) -> Spec {
    Spec { name, takes, gives, eval }
}

const SPECS: &[Spec] = &[
    spec("extract", field_and_value, fields::numeric_type, fields::extract),
    spec("date_part", field_and_value, |_, _, _| Ok(Arrow::Float64), fields::date_part),
    spec("date_trunc", field_and_value, fields::truncated_type, fields::truncate),
    spec("timezone", zone_and_time, other_side, at_time_zone),
    spec("to_char", value_and_template, |_, _, _| Ok(Arrow::Utf8), format::to_char),
    spec("millrace_to_timestamp", two_texts, |_, _, zone| Ok(moment(zone)), format::to_timestamp),
    spec("millrace_to_date", two_texts, |_, _, _| Ok(Arrow::Date32), format::to_date),
    spec("millrace_age", two_times, |_, _, _| Ok(SPAN), spans::age),
    spec("millrace_add", time_and_span, |types, _, _| Ok(types[0].clone()), |call| spans::add(call, 1)),
    spec("millrace_subtract", time_and_span, |types, _, _| Ok(types[0].clone()), |call| spans::add(call, -1)),
    spec("millrace_multiply", span_and_number, |_, _, _| Ok(SPAN), |call| spans::scale(call, |part, by| part * by)),
    spec("millrace_divide", span_and_number, |_, _, _| Ok(SPAN), spans::divide),
    spec("millrace_span", one_span, |_, _, _| Ok(Arrow::Decimal128(38, 0)), spans::length),
    spec(
        "millrace_span_in",
        |types, _| is_text(types.first()?).then(|| vec![Arrow::Utf8]),
        |_, _, _| Ok(SPAN),
        spans::read,
    ),
    spec("millrace_text", one_time_or_span, |_, _, _| Ok(Arrow::Utf8), format::value_text),
    spec("justify_hours", one_span, |_, _, _| Ok(SPAN), |call| spans::each(call, spans::justify_hours)),
    spec("justify_days", one_span, |_, _, _| Ok(SPAN), |call| spans::each(call, spans::justify_days)),
    spec("justify_interval", one_span, |_, _, _| Ok(SPAN), |call| spans::each(call, spans::justify)),
    spec(
        "isfinite",
        one_time_or_span,
        |_, _, _| Ok(Arrow::Boolean),
        |call| {
            let value = call.array(0)?;
            Ok(Arc::new(BooleanArray::new(
                datafusion::arrow::buffer::BooleanBuffer::new_set(value.len()),
                value.nulls().cloned(),
            )))
        },
    ),
    spec("make_interval", up_to_seven_numbers, |_, _, _| Ok(SPAN), spans::make_interval),
    spec(
        "make_timestamp",
        |types, _| (types.len() == 6).then(|| vec![Arrow::Float64; 6]),
        |_, _, _| Ok(LOCAL),
        |call| spans::make_timestamp(call, false),
    ),
    spec(
        "make_timestamptz",
        six_numbers_and_zone,
        |_, _, zone| Ok(moment(zone)),
        |call| spans::make_timestamp(call, true),
    ),
];

fn moment(zone: &str) -> Arrow {
    crate::types::timestamptz(zone)
}

fn is_text(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View)
}

/// Type to which a time argument is coerced; NULL and text become timestamptz, as in PostgreSQL.
fn time(ty: &Arrow, zone: &str) -> Option<Arrow> {
    match ty {
        Arrow::Timestamp(_, Some(_)) | Arrow::Null => Some(moment(zone)),
        Arrow::Timestamp(_, None) => Some(LOCAL),
        Arrow::Date32 | Arrow::Date64 => Some(Arrow::Date32),
        ty if is_text(ty) => Some(moment(zone)),
        _ => None,
    }
}

fn span(ty: &Arrow) -> Option<Arrow> {
    match ty {
        Arrow::Interval(_) | Arrow::Null => Some(SPAN),
        Arrow::Duration(_) => Some(Arrow::Duration(TimeUnit::Nanosecond)),
        _ => None,
    }
}

fn time_or_span(ty: &Arrow, zone: &str) -> Option<Arrow> {
    match ty {
        Arrow::Time32(_) | Arrow::Time64(_) => Some(Arrow::Time64(TimeUnit::Nanosecond)),
        Arrow::Interval(_) | Arrow::Duration(_) => span(ty),
        other => time(other, zone),
    }
}

fn field_and_value(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [field, value] = types else { return None };
    Some(vec![is_text(field).then_some(Arrow::Utf8)?, time_or_span(value, zone)?])
}

fn zone_and_time(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [name, value] = types else { return None };
    let value = match time(value, zone)? {
        Arrow::Date32 => moment(zone),
        other => other,
    };
    Some(vec![is_text(name).then_some(Arrow::Utf8)?, value])
}

/// Result type of `AT TIME ZONE`: timestamptz to timestamp, and timestamp to timestamptz.
fn other_side(types: &[Arrow], _: Option<&str>, zone: &str) -> model::Result<Arrow> {
    Ok(if matches!(types[1], Arrow::Timestamp(_, Some(_))) { LOCAL } else { moment(zone) })
}

fn value_and_template(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [value, template] = types else { return None };
    Some(vec![time_or_span(value, zone)?, is_text(template).then_some(Arrow::Utf8)?])
}

fn two_texts(types: &[Arrow], _: &str) -> Option<Vec<Arrow>> {
    matches!(types, [a, b] if is_text(a) && is_text(b)).then(|| vec![Arrow::Utf8; 2])
}

fn two_times(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [a, b] = types else { return None };
    let local = |ty: &Arrow| matches!(ty, Arrow::Timestamp(_, None));
    let both = if local(a) && local(b) { LOCAL } else { moment(zone) };
    time(a, zone).and(time(b, zone)).map(|_| vec![both.clone(), both])
}

fn time_and_span(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [at, by] = types else { return None };
    Some(vec![time(at, zone)?, span(by)?])
}

fn span_and_number(types: &[Arrow], _: &str) -> Option<Vec<Arrow>> {
    let [value, number] = types else { return None };
    (number.is_numeric() || number.is_null()).then_some(vec![span(value)?, Arrow::Float64])
}

fn one_span(types: &[Arrow], _: &str) -> Option<Vec<Arrow>> {
    let [value] = types else { return None };
    Some(vec![span(value)?])
}

fn one_time_or_span(types: &[Arrow], zone: &str) -> Option<Vec<Arrow>> {
    let [value] = types else { return None };
    Some(vec![time_or_span(value, zone)?])
}

fn up_to_seven_numbers(types: &[Arrow], _: &str) -> Option<Vec<Arrow>> {
    let numbers = types.iter().all(|ty| ty.is_numeric() || ty.is_null());
    (types.len() <= 7 && numbers).then(|| vec![Arrow::Float64; types.len()])
}

fn six_numbers_and_zone(types: &[Arrow], _: &str) -> Option<Vec<Arrow>> {
    let mut taken = vec![Arrow::Float64; 6];
    match types.get(6) {
        Some(zone) if is_text(zone) => taken.push(Arrow::Utf8),
        Some(_) => return None,
        None => {}
    }
    (types.len() == taken.len()).then_some(taken)
}

fn at_time_zone(call: &Call<'_>) -> model::Result<ArrayRef> {
    let names = call.texts(0)?;
    let times = call.times(1)?;
    let mut zones = Zones::default();
    let local = matches!(times.data_type(), Arrow::Timestamp(_, None));
    let shifted = names.iter().zip(times.iter()).map(|(name, time)| {
        let (Some(name), Some(time)) = (name, time) else { return Ok(None) };
        let zone = zones.get(name)?;
        let shifted = if local { zone.moment_of_local(time) } else { zone.local_of(time) };
        shifted.map(Some).ok_or_else(out_of_range)
    });
    let shifted = shifted.collect::<model::Result<TimestampNanosecondArray>>()?;
    Ok(Arc::new(if local { shifted.with_timezone(call.zone_name) } else { shifted }))
}

/// Time zones by name; caches the last one.
#[derive(Default)]
struct Zones(Option<(String, Zone)>);

impl Zones {
    fn get(&mut self, name: &str) -> model::Result<&Zone> {
        if self.0.as_ref().is_none_or(|(known, _)| known != name) {
            self.0 = Some((name.to_owned(), Zone::read(name)?));
        }
        self.0.as_ref().map(|(_, zone)| zone).ok_or_else(|| Error::bug("a zone that was just found"))
    }
}

/// Error 22008.
fn out_of_range() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range")
        .with_hint("times are kept from 1677-09-21 to 2262-04-11")
}

/// Arguments of one invocation.
struct Call<'a> {
    args: &'a [ColumnarValue],
    rows: usize,
    zone: &'a Zone,
    zone_name: &'a str,
}

impl Call<'_> {
    fn array(&self, at: usize) -> model::Result<ArrayRef> {
        let arg = self.args.get(at).ok_or_else(|| Error::bug("an argument that is not there"))?;
        arg.to_array(self.rows).map_err(|error| crate::errors::convert(&error))
    }

    fn texts(&self, at: usize) -> model::Result<StringArray> {
        Ok(self.array(at)?.as_string::<i32>().clone())
    }

    fn numbers(&self, at: usize) -> model::Result<arrow_array::Float64Array> {
        Ok(self.array(at)?.as_primitive::<Float64Type>().clone())
    }

    /// Constant text argument; `None` for NULL.
    fn constant(&self, at: usize) -> model::Result<Option<&str>> {
        match self.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => Ok(value.try_as_str().flatten()),
            _ => Err(Error::unsupported("a unit or template that differs by row")),
        }
    }

    /// Timestamps in nanoseconds; a date is its midnight in local time.
    fn times(&self, at: usize) -> model::Result<TimestampNanosecondArray> {
        let array = self.array(at)?;
        match array.data_type() {
            Arrow::Date32 => {
                let midnight = |days: Option<i32>| {
                    days.map(|days| i64::from(days).checked_mul(DAY).ok_or_else(out_of_range)).transpose()
                };
                array.as_primitive::<Date32Type>().iter().map(midnight).collect()
            }
            _ => Ok(array.as_primitive::<TimestampNanosecondType>().clone()),
        }
    }

    fn spans(&self, at: usize) -> model::Result<Vec<Option<Interval>>> {
        let array = self.array(at)?;
        Ok(match array.data_type() {
            // Difference of two times: days of 24 hours and a remainder.
            Arrow::Duration(_) => array
                .as_primitive::<DurationNanosecondType>()
                .iter()
                .map(|value| value.map(spans::of_nanoseconds))
                .collect(),
            _ => array
                .as_primitive::<IntervalMonthDayNanoType>()
                .iter()
                .map(|value| {
                    value.map(|value| Interval {
                        months: value.months,
                        days: value.days,
                        nanoseconds: value.nanoseconds,
                    })
                })
                .collect(),
        })
    }
}

fn span_array(values: impl Iterator<Item = model::Result<Option<Interval>>>) -> model::Result<ArrayRef> {
    let value = |value: Option<Interval>| {
        value.map(|value| IntervalMonthDayNanoType::make_value(value.months, value.days, value.nanoseconds))
    };
    let values: Vec<_> = values.map(|found| found.map(value)).collect::<model::Result<_>>()?;
    Ok(Arc::new(IntervalMonthDayNanoArray::from(values)))
}

/// Function bound to a time zone.
#[derive(Debug)]
struct DateFunction {
    spec: &'static Spec,
    zone: Arc<str>,
    signature: Signature,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for DateFunction {
    fn eq(&self, other: &Self) -> bool {
        self.spec.name == other.spec.name && self.zone == other.zone
    }
}

impl Eq for DateFunction {}

impl Hash for DateFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.spec.name, &self.zone).hash(state);
    }
}

impl DateFunction {
    fn new(spec: &'static Spec, zone: &Arc<str>) -> DateFunction {
        let signature = Signature::new(TypeSignature::UserDefined, Volatility::Immutable);
        DateFunction { spec, zone: Arc::clone(zone), signature }
    }
}

impl ScalarUDFImpl for DateFunction {
    fn name(&self) -> &str {
        self.spec.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[Arrow]) -> Result<Vec<Arrow>> {
        (self.spec.takes)(types, &self.zone).ok_or_else(|| {
            let types: Vec<String> = types.iter().map(crate::types::sql_name).collect();
            let name = self.spec.name.trim_start_matches("millrace_");
            let message = format!("function {name}({}) does not exist", types.join(", "));
            external(Error::new(SqlState::UNDEFINED_FUNCTION, message))
        })
    }

    fn return_type(&self, types: &[Arrow]) -> Result<Arrow> {
        (self.spec.gives)(types, None, &self.zone).map_err(external)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<Arrow> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let first = args.scalar_arguments.first().copied().flatten().and_then(|value| value.try_as_str().flatten());
        let ty = (self.spec.gives)(&types, first, &self.zone).map_err(external)?;
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.spec.name == "date_trunc" && fields::is_plain_truncation(&args.args) {
            return datafusion::functions::datetime::date_trunc().invoke_with_args(args);
        }
        let zone = Zone::new(&self.zone).map_err(external)?;
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if scalar { 1 } else { args.number_rows };
        let call = Call { args: &args.args, rows, zone: &zone, zone_name: &self.zone };
        let values = (self.spec.eval)(&call).map_err(external)?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        match self.spec.name {
            "date_trunc" => datafusion::functions::datetime::date_trunc().output_ordering(inputs),
            _ => Ok(SortProperties::Unordered),
        }
    }
}
