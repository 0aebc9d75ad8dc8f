//! `locf(value [, prev [, treat_null_as_missing]])` and `interpolate(value [, prev [, next]])`: values of columns in
//! the gaps of a gap-filled query.
//!
//! A call is removed from the select list: its arguments become columns below the [`GapFill`] node, which fills them
//! ([`super::gap_columns`]), and the call is replaced by the filled column. `prev` and `next` may be queries; a
//! record `(time, value)` is a struct of two fields.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, Projection, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility, cast,
};
use model::{Error, SqlState};

use super::gap_columns::{Filled, Method};
use super::gap_fill::{GapFill, Shape, is_null};
use crate::errors::external;

const LOCF: &str = "locf";
const INTERPOLATE: &str = "interpolate";

/// Function definitions for name resolution.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [LOCF, INTERPOLATE].map(|name| {
        let signature = Signature::new(TypeSignature::UserDefined, Volatility::Immutable);
        ScalarUDF::new_from_impl(Marker { name, signature })
    })
}

/// Placeholder that is replaced before evaluation.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let value = types.first().and_then(|ty| value_type(self.name, ty)).filter(|_| types.len() <= 3);
        let Some(value) = value else {
            let types: Vec<String> = types.iter().map(crate::types::sql_name).collect();
            let message = format!("function {}({}) does not exist", self.name, types.join(", "));
            let hint = match self.name {
                LOCF => "locf(value [, prev [, treat_null_as_missing boolean]])",
                _ => "interpolate(value [, prev record [, next record]]), where the value is a number",
            };
            return Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)));
        };
        Ok(std::iter::once(value).chain(types.iter().skip(1).cloned()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(misplaced(self.name))
    }
}

fn misplaced(name: &str) -> datafusion::common::DataFusionError {
    let message = format!("{name} can only be used in the select list of a query that groups by time_bucket_gapfill");
    external(Error::new(SqlState::GROUPING_ERROR, message))
}

/// Result type for a value of type `ty`: interpolation supports TimescaleDB's types, and `numeric` becomes float8, as
/// PostgreSQL would cast it there.
fn value_type(name: &str, ty: &DataType) -> Option<DataType> {
    use DataType::{Float16, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    match ty {
        ty if name == LOCF => Some(ty.clone()),
        Int16 | Int32 | Int64 | Float32 | Float64 => Some(ty.clone()),
        Int8 | UInt8 => Some(Int16),
        UInt16 => Some(Int32),
        UInt32 => Some(Int64),
        Float16 => Some(Float32),
        // UInt64 is numeric(20) in `columns` tables.
        ty if *ty == DataType::UInt64 || ty.is_decimal() || ty.is_null() => Some(Float64),
        _ => None,
    }
}

/// Replaces the calls in a select list.
///
/// # Errors
/// 42803 without a gap fill below; 22023 for an invalid argument; 42883 for one of the wrong type.
pub(super) fn fill_columns(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let mut calls: Vec<ScalarFunction> = Vec::new();
    for expr in &projection.expr {
        expr.apply(|part| {
            if let Expr::ScalarFunction(call) = part
                && is_call(call)
                && !calls.contains(call)
            {
                calls.push(call.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let Some(first) = calls.first() else { return Ok(Transformed::no(LogicalPlan::Projection(projection))) };
    let (input, above) = below_subqueries(&projection.input, &calls)?;
    let Some(fill) = GapFill::of(&input) else { return Err(misplaced(first.func.name())) };
    let mut below = Below { schema: fill.input.schema(), time: fill.shape.time, columns: Vec::new(), added: 0 };
    below.columns.extend(fill.input.schema().columns().into_iter().map(Expr::Column));
    let filled: Vec<Filled> = calls.iter().map(|call| below.add_call(call)).collect::<Result<_>>()?;
    let input = LogicalPlan::Projection(Projection::try_new(below.columns, Arc::new(fill.input.clone()))?);
    let names: Vec<String> = filled.iter().map(|filled| input.schema().field(filled.column).name().clone()).collect();
    let node = GapFill::new(input, Shape { filled, ..fill.shape.clone() }, fill.bounds.clone())?.into_plan();
    let node = above.into_iter().rev().try_fold(node, over)?;
    let expr = projection.expr.iter().map(|expr| without_calls(expr, &calls, &names)).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(expr, Arc::new(node))?)))
}

/// Moves operators that compute subqueries in the arguments of calls from above a gap fill to below it, where each group
/// has the rows that it needs. Returns the gap fill, and the operators that stay above it, the topmost first.
fn below_subqueries<'a>(
    plan: &'a LogicalPlan,
    calls: &[ScalarFunction],
) -> Result<(LogicalPlan, Vec<&'a LogicalPlan>)> {
    let mut wanted: HashSet<&Column> = HashSet::new();
    for argument in calls.iter().flat_map(|call| call.args.iter().skip(1)) {
        wanted.extend(argument.column_refs());
    }
    let (mut below, mut above, mut top) = (Vec::new(), Vec::new(), plan);
    while let Some(input) = crate::nodes::subquery_input(top) {
        let is_argument = |column: &Column| wanted.contains(column) && !input.schema().has_column(column);
        if top.schema().columns().iter().any(is_argument) {
            below.push(top)
        } else {
            above.push(top)
        }
        top = input;
    }
    let Some(fill) = GapFill::of(top) else { return Ok((top.clone(), above)) };
    let input = below.into_iter().rev().try_fold(fill.input.clone(), over)?;
    Ok((GapFill::new(input, fill.shape.clone(), fill.bounds.clone())?.into_plan(), above))
}

/// An operator that computes a subquery, over another input.
fn over(input: LogicalPlan, operator: &LogicalPlan) -> Result<LogicalPlan> {
    let others = operator.inputs().into_iter().skip(1).cloned();
    operator.with_new_exprs(operator.expressions(), std::iter::once(input).chain(others).collect())
}

fn is_call(call: &ScalarFunction) -> bool {
    [LOCF, INTERPOLATE].contains(&call.func.name())
}

/// Columns below the gap fill.
struct Below<'a> {
    schema: &'a DFSchemaRef,
    /// Position of the bucket column.
    time: usize,
    columns: Vec<Expr>,
    added: usize,
}

impl Below<'_> {
    fn add_call(&mut self, call: &ScalarFunction) -> Result<Filled> {
        let name = call.func.name();
        let [value, rest @ ..] = call.args.as_slice() else {
            return Err(external(Error::bug(format!("{name} without a value"))));
        };
        let ty = value.get_type(self.schema.as_ref())?;
        let ty = value_type(name, &ty).ok_or_else(|| external(Error::bug(format!("{name} of type {ty}"))))?;
        let column = self.add(value.clone(), &ty)?;
        let argument = |at: usize| rest.get(at).filter(|argument| !is_null(argument));
        let method = if name == LOCF {
            let before = argument(0).map(|prev| self.add(prev.clone(), &ty)).transpose()?;
            Method::Carry { nulls_are_gaps: argument(1).map_or(Ok(false), yes_or_no)?, before }
        } else {
            let before = argument(0).map(|prev| self.add_record(prev, &ty)).transpose()?;
            let after = argument(1).map(|next| self.add_record(next, &ty)).transpose()?;
            Method::Line { before, after }
        };
        Ok(Filled { column, method })
    }

    fn add(&mut self, expr: Expr, ty: &DataType) -> Result<usize> {
        let expr = if expr.get_type(self.schema.as_ref())? == *ty { expr } else { cast(expr, ty.clone()) };
        self.columns.push(expr.alias(format!("__filled_{}", self.added)));
        self.added += 1;
        Ok(self.columns.len() - 1)
    }

    /// Adds a record (time, value), cast to the types of the bucket and of the filled column.
    fn add_record(&mut self, record: &Expr, value: &DataType) -> Result<usize> {
        let time = self.schema.field(self.time).data_type();
        let wrong = |message: &str| external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message.to_owned()));
        let ty = record.get_type(self.schema.as_ref())?;
        let fields = match &ty {
            DataType::Struct(fields) if fields.len() == 2 => fields,
            DataType::Struct(_) => return Err(wrong("interpolate RECORD arguments must have 2 elements")),
            _ => return Err(wrong("interpolate: prev and next are records (time, value)")),
        };
        let parts = fields.iter().zip([time, value]).map(|(field, ty)| Field::new(field.name(), ty.clone(), true));
        self.add(record.clone(), &DataType::Struct(parts.collect()))
    }
}

fn yes_or_no(expr: &Expr) -> Result<bool> {
    match expr {
        Expr::Literal(ScalarValue::Boolean(Some(yes)), _) => Ok(*yes),
        _ => {
            let message = "invalid locf argument: treat_null_as_missing must be a BOOL literal";
            Err(external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        }
    }
}

/// Replaces calls in `expr` by columns and keeps the expression's name.
fn without_calls(expr: &Expr, calls: &[ScalarFunction], names: &[String]) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let replaced = expr.clone().transform_down(|part| match &part {
        Expr::ScalarFunction(call) => Ok(match calls.iter().position(|known| known == call) {
            Some(at) => {
                let column = Expr::Column(Column::from_name(names[at].clone()));
                Transformed::new(column, true, TreeNodeRecursion::Jump)
            }
            None => Transformed::no(part),
        }),
        _ => Ok(Transformed::no(part)),
    })?;
    let keeps_name = !replaced.transformed || matches!(expr, Expr::Alias(_));
    Ok(if keeps_name { replaced.data } else { replaced.data.alias(name) })
}
