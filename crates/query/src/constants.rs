//! Types text constants by the operand that they are compared with, and casts `numeric` operands next to floats to
//! float, as PostgreSQL does.
//!
//! `time >= '2024-07-15 14:00'` compares a timestamp with an untyped text; PostgreSQL reads it as a timestamp in the
//! session's zone, in any of its formats. DataFusion would coerce it later, but accepts few formats, takes the text
//! `'\x00ff'` for the bytes themselves, and compares numbers with texts as texts. Therefore the analyzer turns such
//! constants into typed values here; casts of text columns to timestamps and bytes become a function that uses the same
//! parser.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, TimestampNanosecondArray};
use arrow_schema::{DataType as Arrow, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use pg::types::oid;

use crate::errors::external;
use crate::types::oid_of;
use crate::zone::Zone;

/// The analyzer rule that types text constants.
#[derive(Debug)]
pub(crate) struct TextConstants;

impl FunctionRewrite for TextConstants {
    fn name(&self) -> &str {
        "text_constants"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
        let zone = config.execution.time_zone.as_deref().unwrap_or("UTC");
        let expr = floats_beside_decimals(expr, schema);
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let (left_kind, right_kind) = (Kind::of(&left, schema), Kind::of(&right, schema));
                let left = read_beside(*left, right_kind.as_ref(), zone)?;
                let right = read_beside(*right, left_kind.as_ref(), zone)?;
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let kind = Kind::of(&expr, schema);
                let low = Box::new(read_beside(*low, kind.as_ref(), zone)?);
                let high = Box::new(read_beside(*high, kind.as_ref(), zone)?);
                Ok(Transformed::yes(Expr::Between(Between { expr, negated, low, high })))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let kind = Kind::of(&expr, schema);
                let list = list.into_iter().map(|item| read_beside(item, kind.as_ref(), zone));
                let mut list = list.collect::<Result<Vec<_>>>()?;
                let items = list.len();
                list.retain(|item| !matches!(item, Expr::Literal(value, _) if value.is_null()));
                let has_null = list.len() < items;
                if let Some(Kind::Of(ty)) = &kind {
                    add_equals(&mut list, ty);
                }
                Ok(Transformed::yes(no_set(InList { expr, list, negated }, has_null)))
            }
            Expr::Case(mut case) => {
                read_case(&mut case, schema, zone)?;
                Ok(Transformed::yes(Expr::Case(case)))
            }
            Expr::ScalarFunction(mut call) if takes_one_type(call.func.name()) => {
                let kind = call.args.iter().find_map(|argument| Kind::of(argument, schema));
                let arguments = call.args.into_iter().map(|argument| read_beside(argument, kind.as_ref(), zone));
                call.args = arguments.collect::<Result<_>>()?;
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            Expr::Cast(cast) if is_moment(cast.field.data_type()) => read_cast(cast, schema, zone),
            Expr::Cast(cast) if *cast.field.data_type() == Arrow::Binary => read_bytes(cast, schema),
            // Reported as changed even if it was not: the analyzer ignores the flag.
            other => Ok(Transformed::yes(other)),
        }
    }
}

/// Hides an IN list from DataFusion's optimizer, which merges IN lists of one column as sets of constants and so makes
/// `x NOT IN (1, NULL) OR x NOT IN (2)` and `x NOT IN (y) OR x NOT IN (z)` true. A NULL is moved out of the list, and a
/// list with columns is wrapped in a function. A chain of comparisons would also be correct, but planning it takes time
/// quadratic in its length.
fn no_set(list: InList, has_null: bool) -> Expr {
    let (negated, is_empty) = (list.negated, list.list.is_empty());
    let has_columns = list.list.iter().any(Expr::any_column_refs);
    let list = Expr::InList(list);
    let list = if has_columns { ScalarUDF::from(Alone::default()).call(vec![list]) } else { list };
    let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
    match (has_null, is_empty) {
        (false, _) => list,
        (true, true) => unknown,
        (true, false) if negated => list.and(unknown),
        (true, false) => list.or(unknown),
    }
}

/// The identity function on booleans. It keeps the optimizer from merging its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Alone(Signature);

impl Default for Alone {
    fn default() -> Alone {
        Alone(Signature::exact(vec![Arrow::Boolean], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Alone {
    fn name(&self) -> &str {
        "millrace_alone"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _arguments: &[Arrow]) -> Result<Arrow> {
        Ok(Arrow::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut given = arguments.args;
        given.pop().ok_or_else(|| external(model::Error::bug("a function of one argument without it")))
    }
}

/// Types text constants compared with booleans during planning: for a select list DataFusion needs the type of a
/// comparison before the analyzer runs, and has none for `flag = 't'`.
#[derive(Debug)]
pub(crate) struct BesideBooleans;

impl ExprPlanner for BesideBooleans {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let RawBinaryExpr { op, mut left, mut right } = raw;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            let kind = Kind::Of(Arrow::Boolean);
            let is_boolean = |expr: &Expr| expr.get_type(schema).is_ok_and(|ty| ty == Arrow::Boolean);
            if is_boolean(&left) {
                right = read_beside(right, Some(&kind), "UTC")?;
            } else if is_boolean(&right) {
                left = read_beside(left, Some(&kind), "UTC")?;
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Casts a `numeric` next to a float to float, as in PostgreSQL. DataFusion casts the float to a decimal, and few
/// floats fit a decimal.
fn floats_beside_decimals(mut expr: Expr, schema: &DFSchema) -> Expr {
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => float_all(vec![left, right], schema),
        Expr::Between(Between { expr, low, high, .. }) => float_all(vec![expr, low, high], schema),
        Expr::InList(InList { expr, list, .. }) => {
            let mut all: Vec<&mut Expr> = list.iter_mut().collect();
            all.push(expr);
            float_all(all, schema);
        }
        Expr::ScalarFunction(call) if takes_one_type(call.func.name()) => {
            float_all(call.args.iter_mut().collect(), schema);
        }
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            float_all(branches.chain(case.else_expr.as_deref_mut()).collect(), schema);
        }
        _ => {}
    }
    expr
}

/// Casts the decimals to float if any of the expressions is a float.
fn float_all(all: Vec<&mut Expr>, schema: &DFSchema) {
    let types: Vec<Option<Arrow>> = all.iter().map(|expr| expr.get_type(schema).ok()).collect();
    if !types.iter().flatten().any(Arrow::is_floating) {
        return;
    }
    for (expr, ty) in all.into_iter().zip(types) {
        if matches!(ty, Some(Arrow::Decimal128(..) | Arrow::Decimal256(..))) {
            *expr = as_float(std::mem::take(expr));
        }
    }
}

/// Folds a constant at once: block pruning needs a constant of the column's type.
fn as_float(expr: Expr) -> Expr {
    if let Expr::Literal(value, metadata) = &expr
        && let Ok(float @ ScalarValue::Float64(_)) = value.cast_to(&Arrow::Float64)
    {
        return Expr::Literal(float, metadata.clone());
    }
    Expr::Cast(Cast::new(Box::new(expr), Arrow::Float64))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn is_moment(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Timestamp(TimeUnit::Nanosecond, _))
}

/// Adds the bit patterns of equal floats to an IN list, which is looked up by bits: zero adds the zero of the other
/// sign, NaN the NaN of the other sign.
pub(crate) fn add_equals(list: &mut Vec<Expr>, ty: &Arrow) {
    if !ty.is_floating() {
        return;
    }
    let values = list.iter().filter_map(|item| match item {
        Expr::Literal(value, _) => match value.cast_to(&Arrow::Float64) {
            Ok(ScalarValue::Float64(Some(value))) => Some(value),
            _ => None,
        },
        _ => None,
    });
    let values: Vec<f64> = values.collect();
    let mut add = |value: f64| {
        let value = if *ty == Arrow::Float32 { ScalarValue::from(value as f32) } else { ScalarValue::from(value) };
        list.push(Expr::Literal(value, None));
    };
    if values.iter().any(|value| *value == 0.0) {
        [0.0, -0.0].into_iter().for_each(&mut add);
    }
    if values.iter().any(|value| value.is_nan()) {
        [f64::NAN, -f64::NAN].into_iter().for_each(&mut add);
    }
}

/// Whether all arguments of the function have one type.
fn takes_one_type(name: &str) -> bool {
    ["coalesce", "greatest", "least", "nullif"].contains(&name)
}

/// The type that a text constant next to an expression takes.
#[derive(Clone, Debug)]
enum Kind {
    Of(Arrow),
    /// Text in the canonical form of a `uuid`.
    Uuid,
}

impl Kind {
    /// Returns `None` for text, and for types whose constants DataFusion parses itself.
    fn of(expr: &Expr, schema: &DFSchema) -> Option<Kind> {
        let ty = expr.get_type(schema).ok()?;
        let is_read = match &ty {
            Arrow::Boolean | Arrow::Binary | Arrow::Date32 | Arrow::Time64(TimeUnit::Nanosecond) => true,
            Arrow::Int16 | Arrow::Int32 | Arrow::Int64 | Arrow::UInt64 | Arrow::Float32 | Arrow::Float64 => true,
            Arrow::Decimal128(..) => true,
            ty => is_moment(ty),
        };
        if is_read {
            return Some(Kind::Of(ty));
        }
        (ty.is_string() && is_uuid(expr, schema)).then_some(Kind::Uuid)
    }
}

/// Whether it is a `uuid` column, or a function or CASE that returns one.
fn is_uuid(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Column(column) => {
            schema.qualified_field_from_column(column).is_ok_and(|(_, field)| oid_of(field) == oid::UUID)
        }
        Expr::ScalarFunction(call) if takes_one_type(call.func.name()) => {
            call.args.iter().any(|argument| is_uuid(argument, schema))
        }
        Expr::Case(case) => {
            let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            results.into_iter().any(|result| is_uuid(result, schema))
        }
        _ => false,
    }
}

/// Types the constants of `CASE b WHEN '…'`, and the results of a CASE of which one result has a type.
fn read_case(case: &mut Case, schema: &DFSchema, zone: &str) -> Result<()> {
    let read = |expr: &mut Expr, kind: Option<&Kind>| -> Result<()> {
        *expr = read_beside(std::mem::take(expr), kind, zone)?;
        Ok(())
    };
    if let Some(of) = &case.expr {
        let kind = Kind::of(of, schema);
        case.when_then_expr.iter_mut().try_for_each(|(when, _)| read(when, kind.as_ref()))?;
    }
    let results = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let kind = results.map(|result| Kind::of(result, schema)).find(Option::is_some).flatten();
    let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    for result in results {
        read(result, kind.as_ref())?;
    }
    Ok(())
}

/// Converts a text constant to the type of the other operand.
fn read_beside(expr: Expr, kind: Option<&Kind>, zone: &str) -> Result<Expr> {
    let (Expr::Literal(ScalarValue::Utf8(Some(text)), metadata), Some(kind)) = (&expr, kind) else { return Ok(expr) };
    let ty = match kind {
        Kind::Of(ty) => ty,
        Kind::Uuid => {
            let mut canonical = Vec::with_capacity(36);
            pg::value::uuid_text(&mut canonical, &pg::value::parse_uuid(text).map_err(external)?);
            let value = ScalarValue::Utf8(Some(String::from_utf8_lossy(&canonical).into_owned()));
            return Ok(Expr::Literal(value, metadata.clone()));
        }
    };
    let value = match (read(text, ty, zone), ty) {
        // A bound outside the range of timestamps is clamped to the range: no row lies beyond it.
        (Err(_), Arrow::Timestamp(_, own)) if year(text).is_some_and(|year| !(1677..=2262).contains(&year)) => {
            let bound = if year(text) > Some(2262) { i64::MAX } else { i64::MIN };
            ScalarValue::TimestampNanosecond(Some(bound), own.clone())
        }
        (read, _) => read?,
    };
    Ok(Expr::Literal(value, metadata.clone()))
}

/// The year of a date such as `9999-12-31`.
fn year(text: &str) -> Option<u32> {
    let (year, rest) = text.trim().split_once('-')?;
    let date = year.len() == 4
        && rest.len() >= 4
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b"-: .+Zz".contains(&byte));
    if date { year.parse().ok() } else { None }
}

/// Parses a text by PostgreSQL's input rules for a type.
fn read(text: &str, ty: &Arrow, zone: &str) -> Result<ScalarValue> {
    let int = |oid| pg::value::parse_int(oid, text);
    let value = match ty {
        Arrow::Timestamp(_, own) => {
            return Ok(ScalarValue::TimestampNanosecond(Some(moment(text, own.as_deref(), zone)?), own.clone()));
        }
        Arrow::Boolean => pg::value::parse_bool(text).map(|value| ScalarValue::Boolean(Some(value))),
        Arrow::Binary => pg::value::parse_bytea(text).map(|value| ScalarValue::Binary(Some(value))),
        // The parser has checked the range.
        Arrow::Int16 => int(oid::INT2).map(|value| ScalarValue::Int16(i16::try_from(value).ok())),
        Arrow::Int32 => int(oid::INT4).map(|value| ScalarValue::Int32(i32::try_from(value).ok())),
        Arrow::Int64 => int(oid::INT8).map(|value| ScalarValue::Int64(Some(value))),
        Arrow::Float32 => pg::value::parse_float4(text).map(|value| ScalarValue::Float32(Some(value))),
        Arrow::Float64 => pg::value::parse_float8(text).map(|value| ScalarValue::Float64(Some(value))),
        Arrow::UInt64 | Arrow::Decimal128(..) => numeric(text, ty),
        Arrow::Date32 => pg::time::parse_date(text).map(|value| ScalarValue::Date32(Some(value))),
        Arrow::Time64(_) => {
            pg::time::parse_time(text).map(|micros| ScalarValue::Time64Nanosecond(Some(micros * 1_000)))
        }
        _ => Ok(ScalarValue::Utf8(Some(text.to_owned()))),
    };
    value.map_err(external)
}

/// NaN, infinities and numbers of more than 38 digits remain texts, which DataFusion rejects.
fn numeric(text: &str, ty: &Arrow) -> model::Result<ScalarValue> {
    Ok(match pg::numeric::decimal128(&text.parse()?)? {
        Some((value, 0)) if *ty == Arrow::UInt64 && u64::try_from(value).is_ok() => {
            ScalarValue::UInt64(u64::try_from(value).ok())
        }
        Some((value, scale)) => ScalarValue::Decimal128(Some(value), 38, scale.cast_signed()),
        None => ScalarValue::Utf8(Some(text.to_owned())),
    })
}

/// Nanoseconds since 1970: UTC if the type has a zone, else local time.
fn moment(text: &str, own: Option<&str>, zone: &str) -> Result<i64> {
    let value = match own {
        Some(_) => Zone::new(zone).and_then(|zone| zone.parse_timestamptz(text)),
        None => pg::time::parse_timestamp(text),
    };
    value.map_err(external)
}

fn read_cast(cast: Cast, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = cast.expr.as_ref() {
        let value = read(text, cast.field.data_type(), zone)?;
        return Ok(Transformed::yes(Expr::Literal(value, metadata.clone())));
    }
    if !cast.expr.get_type(schema).is_ok_and(|ty| ty.is_string()) {
        return Ok(Transformed::no(Expr::Cast(cast)));
    }
    let function = ScalarUDF::from(ReadText::new(cast.field.data_type().clone(), zone));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![*cast.expr]))))
}

/// `'\x00ff'::bytea`; DataFusion would take the text for the bytes themselves.
fn read_bytes(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = cast.expr.as_ref() {
        return Ok(Transformed::yes(Expr::Literal(read(text, &Arrow::Binary, "UTC")?, metadata.clone())));
    }
    if !cast.expr.get_type(schema).is_ok_and(|ty| ty.is_string()) {
        return Ok(Transformed::no(Expr::Cast(cast)));
    }
    let function = ScalarUDF::from(ReadText::new(Arrow::Binary, "UTC"));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![*cast.expr]))))
}

/// Parses texts by the input rules of `bytea`.
pub(crate) fn bytes_of_texts(texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = datafusion::arrow::compute::cast(texts, &Arrow::Utf8)?;
    let read = |text: Option<&str>| text.map(pg::value::parse_bytea).transpose().map_err(external);
    let values = texts.as_string::<i32>().iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>()))
}

/// `text::timestamptz`, `text::timestamp` and `text::bytea` for texts that are not constants.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ReadText {
    ty: Arrow,
    zone: String,
    signature: Signature,
}

impl ReadText {
    fn new(ty: Arrow, zone: &str) -> ReadText {
        ReadText { ty, zone: zone.to_owned(), signature: Signature::any(1, Volatility::Stable) }
    }

    fn read_all(&self, array: &ArrayRef) -> Result<ArrayRef> {
        if self.ty == Arrow::Binary {
            return bytes_of_texts(array);
        }
        let texts = datafusion::arrow::compute::cast(array, &Arrow::Utf8)?;
        let Arrow::Timestamp(_, own) = &self.ty else {
            return Ok(texts);
        };
        let read = |text: Option<&str>| text.map(|text| moment(text, own.as_deref(), &self.zone)).transpose();
        let values = texts.as_string::<i32>().iter().map(read).collect::<Result<TimestampNanosecondArray>>()?;
        Ok(Arc::new(values.with_timezone_opt(own.clone())))
    }
}

impl ScalarUDFImpl for ReadText {
    fn name(&self) -> &str {
        if self.ty == Arrow::Binary { "bytea_from_text" } else { "timestamp_from_text" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[Arrow]) -> Result<Arrow> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let scalar = matches!(arguments.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let values = self.read_all(&arrays[0])?;
        if scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?));
        }
        Ok(ColumnarValue::Array(values))
    }
}
