//! PostgreSQL's semantics of floats in DataFusion plans: casts to text and `numeric`, and equality of keys.
//!
//! Casts: DataFusion writes `1e15` as `1000000000000000.0`, and multiplies by a power of ten to make a decimal, which
//! invents digits. PostgreSQL's text is the shortest that parses to the same value, and its `numeric` has 15 digits (6
//! for `real`).
//!
//! Keys: zeros of both signs are equal, and so are all NaNs, which are greater than all other values. DataFusion's
//! comparisons, GROUP BY and joins behave so; its sorts, windows, DISTINCT within aggregates and IN lists of constants
//! compare bits. There floats are wrapped in [`Canonical`].
//!
//! The rule runs after type coercion, which adds casts of its own (`f || ''`).

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, PrimitiveArray};
use arrow_schema::DataType as Arrow;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, Sort as SortKey};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use model::{Numeric, SqlState};

use crate::errors::external;
use crate::types::out_of_range;

/// The analyzer rule that replaces casts and wraps keys.
#[derive(Debug)]
pub(crate) struct Floats;

impl AnalyzerRule for Floats {
    fn name(&self) -> &str {
        "floats"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(node).map(|rewritten| rewritten.data)
    }
}

fn node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| expression(part, &schema))?;
        Ok(if rewritten.transformed { rewritten.update_data(|expr| name.restore(expr)) } else { rewritten })
    })?;
    match rewritten.data {
        LogicalPlan::Sort(mut sort) => {
            let changed = sort_keys(&mut sort.expr, &schema);
            Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), rewritten.transformed || changed))
        }
        data => Ok(Transformed { data, ..rewritten }),
    }
}

fn expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: inner, field }) => {
            let to = field.data_type();
            let is_ours = match (inner.get_type(schema).unwrap_or(Arrow::Null), to) {
                (from, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View) => from.is_floating() || from == Arrow::Binary,
                (from, Arrow::Decimal128(..)) => from.is_floating(),
                _ => false,
            };
            if !is_ours {
                return Ok(Transformed::no(Expr::Cast(Cast { expr: inner, field })));
            }
            let made = if matches!(to, Arrow::Decimal128(..)) { to.clone() } else { Arrow::Utf8 };
            let is_other = made != *to;
            let call = ScalarUDF::from(Written::new(made)).call(vec![*inner]);
            // The field's metadata may carry more than the type: the PostgreSQL type.
            let has_more = !field.metadata().is_empty();
            Ok(Transformed::yes(if is_other || has_more {
                Expr::Cast(Cast { expr: Box::new(call), field })
            } else {
                call
            }))
        }
        Expr::InList(list) => in_list(list, schema),
        Expr::AggregateFunction(mut call) if call.params.distinct => {
            let mut changed = false;
            for argument in &mut call.params.args {
                changed |= make_canonical(argument, schema);
            }
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), changed))
        }
        Expr::WindowFunction(mut call) => {
            let mut changed = sort_keys(&mut call.params.order_by, schema);
            for key in &mut call.params.partition_by {
                changed |= make_canonical(key, schema);
            }
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn sort_keys(keys: &mut [SortKey], schema: &DFSchema) -> bool {
    keys.iter_mut().fold(false, |changed, key| make_canonical(&mut key.expr, schema) || changed)
}

fn make_canonical(expr: &mut Expr, schema: &DFSchema) -> bool {
    let is_ready = matches!(expr, Expr::ScalarFunction(call) if call.func.name() == Canonical::NAME);
    if is_ready || matches!(expr, Expr::Literal(..)) || !expr.get_type(schema).is_ok_and(|ty| ty.is_floating()) {
        return false;
    }
    let inner = std::mem::take(expr);
    *expr = ScalarUDF::from(Canonical::default()).call(vec![inner]);
    true
}

/// Unwraps a float key; returns any other expression unchanged.
pub(crate) fn without_key(expr: &Expr) -> &Expr {
    match expr {
        Expr::ScalarFunction(call) if call.func.name() == Canonical::NAME => call.args.first().unwrap_or(expr),
        expr => expr,
    }
}

/// Rewrites an IN list of floats. Constants with a zero get both zeros. A list with a NaN, or with an item that is not
/// constant, becomes a chain of comparisons.
fn in_list(InList { expr, mut list, negated }: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !expr.get_type(schema).is_ok_and(|ty| ty.is_floating()) {
        return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
    }
    let is_simple = |item: &Expr| {
        matches!(item, Expr::Literal(ScalarValue::Float64(value), _) if value.is_none_or(|value| !value.is_nan()))
            || matches!(item, Expr::Literal(ScalarValue::Float32(value), _) if value.is_none_or(|value| !value.is_nan()))
            || matches!(item, Expr::Literal(ScalarValue::Null, _))
    };
    let constants = list.iter().map(constant).collect::<Option<Vec<Expr>>>();
    if let Some(constants) = constants
        && constants.iter().all(is_simple)
    {
        let mut constants = constants;
        let changed = add_other_zero(&mut constants);
        if changed {
            list = constants;
        }
        return Ok(Transformed::new_transformed(Expr::InList(InList { expr, list, negated }), changed));
    }
    let equal = list.into_iter().map(|item| expr.as_ref().clone().eq(item)).reduce(Expr::or);
    let Some(any) = equal else { return Ok(Transformed::no(Expr::InList(InList { expr, list: Vec::new(), negated }))) };
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(any)) } else { any }))
}

/// Adds the zero of the other sign to a list of constants with one of the zeros: IN lists are looked up by bits.
/// Returns whether the list changed.
fn add_other_zero(list: &mut Vec<Expr>) -> bool {
    let zero = |item: &Expr| match item {
        Expr::Literal(ScalarValue::Float64(Some(value)), metadata) if *value == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float64(Some(-value)), metadata.clone()))
        }
        Expr::Literal(ScalarValue::Float32(Some(value)), metadata) if *value == 0.0 => {
            Some(Expr::Literal(ScalarValue::Float32(Some(-value)), metadata.clone()))
        }
        _ => None,
    };
    let others: Vec<Expr> = list.iter().filter_map(zero).collect();
    let missing = others.into_iter().find(|other| !list.contains(other));
    let changed = missing.is_some();
    list.extend(missing);
    changed
}

/// The value of a constant, possibly cast or negated.
fn constant(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(..) => Some(expr.clone()),
        Expr::Cast(Cast { expr: inner, field }) => match inner.as_ref() {
            Expr::Literal(value, metadata) => {
                value.cast_to(field.data_type()).ok().map(|value| Expr::Literal(value, metadata.clone()))
            }
            _ => None,
        },
        Expr::Negative(inner) => match constant(inner)? {
            Expr::Literal(value, metadata) => {
                value.arithmetic_negate().ok().map(|value| Expr::Literal(value, metadata))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Maps equal floats to equal bits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Canonical {
    signature: Signature,
}

impl Default for Canonical {
    fn default() -> Canonical {
        Canonical { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Canonical {
    const NAME: &str = "float_key";
}

impl ScalarUDFImpl for Canonical {
    fn name(&self) -> &str {
        Canonical::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        Ok(arguments.first().cloned().unwrap_or(Arrow::Float64))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&arguments, |array| Ok(canonical(array)))
    }
}

/// Maps equal floats to equal bits; returns arrays of other types unchanged.
pub(crate) fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        Arrow::Float32 => {
            let floats: &PrimitiveArray<Float32Type> = array.as_primitive();
            Arc::new(floats.unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }))
        }
        Arrow::Float64 => {
            let floats: &PrimitiveArray<Float64Type> = array.as_primitive();
            Arc::new(floats.unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }))
        }
        _ => Arc::clone(array),
    }
}

/// Casts of floats to text and `numeric`, and of bytes to text.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    to: Arrow,
    signature: Signature,
}

impl Written {
    fn new(to: Arrow) -> Written {
        Written { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        if self.to == Arrow::Utf8 { "text" } else { "numeric" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[Arrow]) -> Result<Arrow> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        of_one(&arguments, |array| match &self.to {
            Arrow::Decimal128(precision, scale) => numerics(array, *precision, *scale),
            _ => Ok(texts(array)),
        })
    }
}

/// Applies a function to its only argument, an array or a constant.
fn of_one(arguments: &ScalarFunctionArgs, make: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ColumnarValue> {
    match arguments.args.as_slice() {
        [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(make(array)?)),
        [ColumnarValue::Scalar(scalar)] => {
            let made = make(&scalar.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
        }
        _ => Err(external(model::Error::bug("a cast of other than one value"))),
    }
}

fn texts(array: &ArrayRef) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * 12);
    let mut text = Vec::with_capacity(32);
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
            continue;
        }
        text.clear();
        match array.data_type() {
            Arrow::Float32 => pg::value::float4_text(&mut text, array.as_primitive::<Float32Type>().value(row)),
            Arrow::Float64 => pg::value::float8_text(&mut text, array.as_primitive::<Float64Type>().value(row)),
            Arrow::Binary => pg::value::bytea_text(&mut text, array.as_binary::<i32>().value(row)),
            _ => {}
        }
        builder.append_value(String::from_utf8_lossy(&text));
    }
    Arc::new(builder.finish())
}

fn numerics(array: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef> {
    let end = 10_i128.checked_pow(u32::from(precision)).unwrap_or(i128::MAX);
    let unscaled = |value: Numeric| -> Result<i128> {
        if !value.is_finite() {
            let text = "numeric has no NaN and no infinity in this query";
            return Err(external(model::Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text)));
        }
        let rounded = value.round(i32::from(scale)).map_err(external)?;
        let unscaled = rounded.unscaled(i32::from(scale)).filter(|value| value.unsigned_abs() < end.unsigned_abs());
        unscaled.ok_or_else(|| external(out_of_range("numeric")))
    };
    let values: Decimal128Array = match array.data_type() {
        Arrow::Float32 => {
            array.as_primitive::<Float32Type>().try_unary::<_, Decimal128Type, _>(|value| unscaled(value.into()))?
        }
        Arrow::Float64 => {
            array.as_primitive::<Float64Type>().try_unary::<_, Decimal128Type, _>(|value| unscaled(value.into()))?
        }
        other => return Err(external(model::Error::bug(format!("a numeric of {other}")))),
    };
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}
