//! Text constants beside timestamps, and as bytes, and numerics beside floats, read as PostgreSQL reads them.
//!
//! `time >= '2024-07-15 14:00'` compares a timestamp with a text that has no type yet; PostgreSQL reads it as a timestamp of the
//! session's zone, in any of its spellings. The planner would do so later, but knows few spellings. So such constants become values
//! here, when the query is analyzed; casts of text columns get a function that reads the same way.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, TimestampNanosecondArray};
use arrow_schema::{DataType as Arrow, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::errors::external;
use crate::zone::Zone;

/// Reads text constants, when a query is analyzed.
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
                let (left_ty, right_ty) = (moment_type(&left, schema), moment_type(&right, schema));
                let left = read_beside(*left, right_ty.as_ref(), zone)?;
                let right = read_beside(*right, left_ty.as_ref(), zone)?;
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let ty = moment_type(&expr, schema);
                let low = Box::new(read_beside(*low, ty.as_ref(), zone)?);
                let high = Box::new(read_beside(*high, ty.as_ref(), zone)?);
                Ok(Transformed::yes(Expr::Between(Between { expr, negated, low, high })))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let ty = moment_type(&expr, schema);
                let list = list.into_iter().map(|item| read_beside(item, ty.as_ref(), zone)).collect::<Result<_>>()?;
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            Expr::Cast(cast) if is_moment(cast.field.data_type()) => read_cast(cast, schema, zone),
            Expr::Cast(cast) if *cast.field.data_type() == Arrow::Binary => read_bytes(cast),
            // Whether it was changed or not: nobody asks again.
            other => Ok(Transformed::yes(other)),
        }
    }
}

/// A numeric beside a float becomes a float, as in PostgreSQL. The planner does it the other way round, and few floats fit a decimal.
fn floats_beside_decimals(mut expr: Expr, schema: &DFSchema) -> Expr {
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => float_all(vec![left, right], schema),
        Expr::Between(Between { expr, low, high, .. }) => float_all(vec![expr, low, high], schema),
        Expr::InList(InList { expr, list, .. }) => {
            let mut all: Vec<&mut Expr> = list.iter_mut().collect();
            all.push(expr);
            float_all(all, schema);
        }
        Expr::ScalarFunction(call) if ["coalesce", "greatest", "least", "nullif"].contains(&call.func.name()) => {
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

/// Makes the decimals among them floats, if there is a float among them.
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

/// A constant is changed at once: blocks are pruned by constants of the column's type.
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

fn moment_type(expr: &Expr, schema: &DFSchema) -> Option<Arrow> {
    expr.get_type(schema).ok().filter(is_moment)
}

/// A text constant beside something of type `ty` is of that type.
fn read_beside(expr: Expr, ty: Option<&Arrow>, zone: &str) -> Result<Expr> {
    match (&expr, ty) {
        (Expr::Literal(ScalarValue::Utf8(Some(text)), metadata), Some(ty)) => {
            let value = match (read(text, ty, zone), ty) {
                // A bound that no row can reach is as good as the last one that a row can.
                (Err(_), Arrow::Timestamp(_, own)) if year(text).is_some_and(|year| !(1677..=2262).contains(&year)) => {
                    let bound = if year(text) > Some(2262) { i64::MAX } else { i64::MIN };
                    ScalarValue::TimestampNanosecond(Some(bound), own.clone())
                }
                (read, _) => read?,
            };
            Ok(Expr::Literal(value, metadata.clone()))
        }
        _ => Ok(expr),
    }
}

/// The year of `9999-12-31`.
fn year(text: &str) -> Option<u32> {
    let (year, rest) = text.trim().split_once('-')?;
    let date = year.len() == 4
        && rest.len() >= 4
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b"-: .+Zz".contains(&byte));
    if date { year.parse().ok() } else { None }
}

fn read(text: &str, ty: &Arrow, zone: &str) -> Result<ScalarValue> {
    let Arrow::Timestamp(_, own) = ty else {
        return Ok(ScalarValue::Utf8(Some(text.to_owned())));
    };
    let value = moment(text, own.as_deref(), zone)?;
    Ok(ScalarValue::TimestampNanosecond(Some(value), own.clone()))
}

/// Nanoseconds since 1970: of a moment if the type has a zone, else of the wall's clock.
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
    let function = ScalarUDF::from(ReadTimestamp::new(cast.field.data_type().clone(), zone));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![*cast.expr]))))
}

/// `'\x00ff'::bytea`; the planner would take the text for the bytes.
fn read_bytes(cast: Cast) -> Result<Transformed<Expr>> {
    match cast.expr.as_ref() {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let bytes = pg::value::parse_bytea(text).map_err(external)?;
            Ok(Transformed::yes(Expr::Literal(ScalarValue::Binary(Some(bytes)), metadata.clone())))
        }
        _ => Ok(Transformed::no(Expr::Cast(cast))),
    }
}

/// `text::timestamptz` and `text::timestamp` for texts that are no constants.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ReadTimestamp {
    ty: Arrow,
    zone: String,
    signature: Signature,
}

impl ReadTimestamp {
    fn new(ty: Arrow, zone: &str) -> ReadTimestamp {
        ReadTimestamp { ty, zone: zone.to_owned(), signature: Signature::any(1, Volatility::Stable) }
    }

    fn read_all(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let texts = datafusion::arrow::compute::cast(array, &Arrow::Utf8)?;
        let Arrow::Timestamp(_, own) = &self.ty else {
            return Ok(texts);
        };
        let read = |text: Option<&str>| text.map(|text| moment(text, own.as_deref(), &self.zone)).transpose();
        let values = texts.as_string::<i32>().iter().map(read).collect::<Result<TimestampNanosecondArray>>()?;
        Ok(Arc::new(values.with_timezone_opt(own.clone())))
    }
}

impl ScalarUDFImpl for ReadTimestamp {
    fn name(&self) -> &str {
        "timestamp_from_text"
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
