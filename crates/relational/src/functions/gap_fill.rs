//! `time_bucket_gapfill(width, time [, zone] [, start, finish])`: grouping that also returns buckets without rows.
//!
//! A query that groups by `time_bucket_gapfill` is planned as if it grouped by `time_bucket`; then a [`GapFill`] node
//! above the aggregate (and above HAVING) adds, for each combination of the other group columns, a row for each
//! missing bucket of `[start, finish)`. Its columns are NULL except those filled by `locf` and `interpolate`; see
//! [`super::gap_values`].
//!
//! Bounds come from the arguments, otherwise from WHERE: comparisons of the same time column with constants, joined
//! by AND. Buckets are those of [`super::bucket`], so filling across a clock change adds exactly the buckets that
//! rows would have. Rows outside the bounds pass unchanged. Without any rows there is no group to fill.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, IntervalUnit};
use async_trait::async_trait;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Extension, Filter, LogicalPlan, Operator, Projection, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, Volatility,
    cast,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use model::{Error, SqlState};
use timeseries::buckets::{Buckets, Interval};

use super::gap_columns::Filled;
use super::gap_fill_exec::{Fill, GapFillExec};
use super::gap_values;
use super::time_bucket::{coerce, evaluate, interval};
use crate::errors::external;

const GAPFILL: &str = "time_bucket_gapfill";

/// Function definition for name resolution.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Marker { signature: Signature::new(TypeSignature::UserDefined, Volatility::Immutable) })
}

/// Evaluates as `time_bucket`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    signature: Signature,
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        GAPFILL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.get(1).is_some_and(DataType::is_integer) {
            let text = format!("{GAPFILL} of times that are whole numbers is not supported");
            return Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, text)));
        }
        let bounds = types.len().saturating_sub(2) / 2 * 2;
        let zoned = types.len().saturating_sub(2) % 2 == 1;
        // Start and finish are coerced like an origin, the fourth argument of `time_bucket`.
        let head = if zoned { 3 } else { 2 };
        let mut coerced = coerce(GAPFILL, &types[..head.min(types.len())])?;
        for bound in types.iter().skip(head).take(bounds) {
            let as_origin = [types[0].clone(), types[1].clone(), DataType::Utf8, bound.clone()];
            coerced.push(coerce(GAPFILL, &as_origin)?[3].clone());
        }
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.get(1).cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let head = if args.args.len() % 2 == 1 { 3 } else { 2 };
        args.args.truncate(head);
        if matches!(args.args.get(2), Some(ColumnarValue::Scalar(zone)) if zone.is_null()) {
            let message = format!("{GAPFILL}: the time zone must not be NULL");
            return Err(external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)));
        }
        evaluate(&args)
    }
}

/// Completes the nodes of a plan that has them already.
///
/// # Errors
/// 42803 for `locf` and `interpolate` that are not directly above a gap fill; 22023 for invalid arguments.
pub(super) fn complete(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(around_node)?.data)
}

fn around_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Filter(filter) => having(filter),
        LogicalPlan::Projection(projection) => gap_values::fill_columns(projection),
        other => Ok(Transformed::no(other)),
    }
}

/// Puts a node above groups if one of `keys`, which are the first columns of `groups`, is a call of the function.
pub(super) fn above_groups(
    groups: LogicalPlan,
    keys: &[Expr],
    input: &LogicalPlan,
) -> Result<Transformed<LogicalPlan>> {
    let calls: Vec<(usize, &ScalarFunction)> =
        keys.iter().enumerate().filter_map(|(at, key)| Some((at, gapfill_call(key)?))).collect();
    let (time, call) = match calls.as_slice() {
        [] => return Ok(Transformed::no(groups)),
        [one] => *one,
        _ => return Err(external(Error::unsupported("only one time_bucket_gapfill can be grouped by"))),
    };
    let bounds = Bounds::of(call, input)?;
    let keys = (0..keys.len()).filter(|at| *at != time).collect();
    let node = GapFill::new(groups, Shape { time, keys, filled: Vec::new() }, bounds)?;
    Ok(Transformed::yes(node.into_plan()))
}

/// Moves HAVING below the node: it filters groups, not gaps.
fn having(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Some(fill) = GapFill::of(&filter.input) else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
    let below = LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(fill.input.clone()))?);
    Ok(Transformed::yes(GapFill::new(below, fill.shape.clone(), fill.bounds.clone())?.into_plan()))
}

fn gapfill_call(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::Alias(alias) => gapfill_call(&alias.expr),
        Expr::ScalarFunction(call) if call.func.name() == GAPFILL => Some(call),
        _ => None,
    }
}

/// Kind of a parameter of the gap fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bound {
    Width,
    Zone,
    /// `time >= x`
    From,
    /// `time > x`
    After,
    /// `time < x`
    Before,
    /// `time <= x`
    UpTo,
}

/// Width, zone and bounds, as expressions that are constant at run time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Bounds(Vec<(Bound, Expr)>);

impl Bounds {
    fn of(call: &ScalarFunction, input: &LogicalPlan) -> Result<Bounds> {
        let args = &call.args;
        let time_type = {
            use datafusion::logical_expr::ExprSchemable;
            args[1].get_type(input.schema())?
        };
        let mut bounds = vec![(Bound::Width, cast(args[0].clone(), DataType::Interval(IntervalUnit::MonthDayNano)))];
        let (zone, ends) = match args.len() {
            3 => (args.get(2), None),
            4 => (None, Some((&args[2], &args[3]))),
            5 => (args.get(2), Some((&args[3], &args[4]))),
            _ => (None, None),
        };
        bounds.extend(zone.filter(|zone| !is_null(zone)).map(|zone| (Bound::Zone, zone.clone())));
        let time = |expr: &Expr| cast(expr.clone(), time_type.clone());
        let (start, finish) = ends.unwrap_or((&NULL, &NULL));
        let found = constraints(&args[1], input);
        let mut end = |argument: &Expr, by_argument: Bound, by_where: [Bound; 2]| {
            if !is_null(argument) {
                bounds.push((by_argument, time(argument)));
                return true;
            }
            let matching = found.iter().filter(|(bound, _)| by_where.contains(bound));
            let before = bounds.len();
            bounds.extend(matching.map(|(bound, expr)| (*bound, time(expr))));
            bounds.len() > before
        };
        let missing = match (
            end(start, Bound::From, [Bound::From, Bound::After]),
            end(finish, Bound::Before, [Bound::Before, Bound::UpTo]),
        ) {
            (true, true) => return Ok(Bounds(bounds)),
            (false, _) => "start",
            (true, false) => "finish",
        };
        Err(external(
            Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("time_bucket_gapfill: cannot tell the {missing} of the range to fill"),
            )
            .with_hint(format!(
                "compare the time column with constants in WHERE (time >= … AND time < …), or pass {missing} => …"
            )),
        ))
    }

    /// Buckets, and the start (inclusive) and finish (exclusive) of the range to fill.
    fn values(&self, session: &SessionState) -> Result<(Buckets, i64, i64)> {
        let mut width = None;
        let mut zone = None;
        let (mut from, mut before) = (i64::MIN, i64::MAX);
        for (bound, expr) in &self.0 {
            let value = constant(expr, session)?;
            match bound {
                Bound::Width => width = Some(interval(&value)?),
                Bound::Zone => zone = value.try_as_str().flatten().map(str::to_owned),
                Bound::From => from = from.max(moment(&value)?),
                Bound::After => from = from.max(moment(&value)?.saturating_add(1)),
                Bound::Before => before = before.min(moment(&value)?),
                Bound::UpTo => before = before.min(moment(&value)?.saturating_add(1)),
            }
        }
        let width = width.ok_or_else(|| external(Error::bug("a gap fill without a width")))?;
        let buckets = Buckets::new(width, zone.as_deref(), None, Interval::default());
        let buckets = buckets.map_err(|error| external(error.context("time_bucket_gapfill")))?;
        Ok((buckets, from, before))
    }
}

static NULL: Expr = Expr::Literal(ScalarValue::Null, None);

pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

fn moment(value: &ScalarValue) -> Result<i64> {
    match value {
        ScalarValue::TimestampNanosecond(Some(time), _) => Ok(*time),
        other => {
            let message = format!("time_bucket_gapfill: a bound is {other}, not a time");
            Err(external(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)))
        }
    }
}

fn constant(expr: &Expr, session: &SessionState) -> Result<ScalarValue> {
    let schema = DFSchema::empty();
    let batch = arrow_array::RecordBatch::try_new_with_options(
        Arc::clone(schema.inner()),
        Vec::new(),
        &arrow_array::RecordBatchOptions::new().with_row_count(Some(1)),
    )?;
    let value = session.create_physical_expr(expr.clone(), &schema)?.evaluate(&batch)?;
    ScalarValue::try_from_array(&value.into_array(1)?, 0)
}

/// Bounds on `time` from the filters below.
fn constraints(time: &Expr, below: &LogicalPlan) -> Vec<(Bound, Expr)> {
    let Expr::Column(time) = time else { return Vec::new() };
    let mut found = Vec::new();
    let mut plan = below;
    loop {
        match plan {
            LogicalPlan::Filter(filter) => {
                conjuncts(time, &filter.predicate, &mut found);
                plan = &filter.input;
            }
            // A derived table that passes the column through under its name.
            LogicalPlan::SubqueryAlias(alias) => plan = &alias.input,
            LogicalPlan::Projection(projection) if passes(projection, &time.name) => plan = &projection.input,
            _ => return found,
        }
    }
}

fn passes(projection: &Projection, name: &str) -> bool {
    projection.expr.iter().any(|expr| matches!(expr, Expr::Column(column) if column.name == name))
}

fn conjuncts(time: &Column, predicate: &Expr, found: &mut Vec<(Bound, Expr)>) {
    match predicate {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conjuncts(time, left, found);
            conjuncts(time, right, found);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let pair = match (is_time(time, left), is_time(time, right)) {
                (true, false) => Some((*op, right)),
                (false, true) => op.swap().map(|op| (op, left)),
                _ => None,
            };
            if let Some((op, value)) = pair.filter(|(_, value)| !value.any_column_refs()) {
                found.extend(bound_of(op).map(|bound| (bound, (**value).clone())));
            }
        }
        Expr::Between(between) if !between.negated && is_time(time, &between.expr) => {
            let ends = [(Bound::From, &between.low), (Bound::UpTo, &between.high)];
            found.extend(
                ends.into_iter().filter(|(_, end)| !end.any_column_refs()).map(|(bound, end)| (bound, (**end).clone())),
            );
        }
        _ => {}
    }
}

fn is_time(time: &Column, expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == time.name)
}

fn bound_of(op: Operator) -> Option<Bound> {
    match op {
        Operator::GtEq => Some(Bound::From),
        Operator::Gt => Some(Bound::After),
        Operator::Lt => Some(Bound::Before),
        Operator::LtEq => Some(Bound::UpTo),
        _ => None,
    }
}

/// Roles of the columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub(super) time: usize,
    pub(super) keys: Vec<usize>,
    pub(super) filled: Vec<Filled>,
}

/// Logical node. It has the columns of its input, all nullable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct GapFill {
    pub(super) input: LogicalPlan,
    schema: DFSchemaRef,
    pub(super) shape: Shape,
    pub(super) bounds: Bounds,
}

impl GapFill {
    pub(super) fn new(input: LogicalPlan, shape: Shape, bounds: Bounds) -> Result<GapFill> {
        let nullable = |(qualifier, field): (Option<&datafusion::common::TableReference>, &arrow_schema::FieldRef)| {
            (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(true)))
        };
        let fields = input.schema().iter().map(nullable).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(GapFill { input, schema, shape, bounds })
    }

    pub(super) fn of(plan: &LogicalPlan) -> Option<&GapFill> {
        match plan {
            LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref::<GapFill>(),
            _ => None,
        }
    }

    pub(super) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for GapFill {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for GapFill {
    fn name(&self) -> &str {
        "GapFill"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.bounds.0.iter().map(|(_, expr)| expr.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GapFill: bucket={}", self.schema.field(self.shape.time).name())?;
        for (bound, expr) in &self.bounds.0 {
            write!(f, ", {bound:?} {expr}")?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<GapFill> {
        let bounds = self.bounds.0.iter().zip(exprs).map(|((bound, _), expr)| (*bound, expr)).collect();
        let input = inputs.pop().ok_or_else(|| external(Error::bug("a gap fill without input")))?;
        GapFill::new(input, self.shape.clone(), Bounds(bounds))
    }
}

/// Physical planner for gap fills.
#[derive(Debug)]
pub(super) struct Planner;

#[async_trait]
impl ExtensionPlanner for Planner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn datafusion::catalog::Session,
        _context: &datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<GapFill>(), inputs) else { return Ok(None) };
        let state = session.as_any().downcast_ref::<SessionState>();
        let state = state.ok_or_else(|| external(Error::bug("a session of another kind")))?;
        let (buckets, start, finish) = node.bounds.values(state)?;
        let Shape { time, keys, filled } = node.shape.clone();
        let fill = Fill { buckets, start, finish, time, keys, filled };
        let schema = Arc::clone(node.schema.inner());
        Ok(Some(Arc::new(GapFillExec::try_new(Arc::clone(input), schema, fill)?)))
    }
}
