//! Planning of `ASOF JOIN`: a node for joins whose condition calls the function [`NEAREST`].

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, Field, SortOptions};
use async_trait::async_trait;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef, JoinType, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Extension, Filter, Join, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, UserDefinedLogicalNode, UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use model::{Error, SqlState};

use super::nearest_exec::{Matching, NearestExec};
use crate::errors::external;

/// Marks the time comparison of an ASOF JOIN. Internal name, not meant for SQL.
pub(crate) const NEAREST: &str = "millrace_nearest";

/// Function definition for name resolution.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Marker(Signature::any(1, Volatility::Immutable)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker(Signature);

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &str {
        NEAREST
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(Error::bug("an ASOF JOIN that was not planned as one")))
    }
}

/// Inserts the nodes into a logical plan that comes from SQL, before analysis and optimization.
///
/// # Errors
/// 42601 for a comparison that is not one between both sides, and for a subquery in the condition.
pub(super) fn rewrite_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => nearest(join),
        LogicalPlan::Filter(filter) => below(filter),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn nearest(join: Join) -> Result<Transformed<LogicalPlan>> {
    let conjuncts: Vec<Expr> = join.filter.iter().flat_map(split_conjunction).cloned().collect();
    let Some(at) = conjuncts.iter().position(|one| marked(one).is_some()) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let mut conditions: Vec<Expr> = join.on.iter().map(|(left, right)| left.clone().eq(right.clone())).collect();
    conditions.extend(conjuncts.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| one.clone()));
    let time = marked(&conjuncts[at]).cloned().unwrap_or_else(|| conjuncts[at].clone());
    let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
    let mut node = Nearest::new(left, right, Condition { time, ..Condition::default() }, join.join_type)?;
    node.take(conditions)?;
    node.check()?;
    Ok(Transformed::yes(node.into_plan()))
}

fn marked(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == NEAREST => args.first(),
        _ => None,
    }
}

/// Pushes conditions on the left side below the join. The optimizer cannot know that this is allowed.
fn below(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let Some(node) = Nearest::of(&filter.input).filter(|node| !keeps_right(node.kind)) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let is_left = |one: &Expr| {
        let columns = one.column_refs();
        !columns.is_empty() && columns.iter().all(|column| node.left.schema().has_column(column)) && !has_subquery(one)
    };
    let (left, rest): (Vec<Expr>, Vec<Expr>) =
        split_conjunction(&filter.predicate).into_iter().cloned().partition(is_left);
    let Some(left) = conjunction(left) else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
    let side = LogicalPlan::Filter(Filter::try_new(left, Arc::new(node.left.clone()))?);
    let node = Nearest::new(side, node.right.clone(), node.condition.clone(), node.kind)?;
    let plan = node.into_plan();
    Ok(Transformed::yes(match conjunction(rest) {
        Some(rest) => LogicalPlan::Filter(Filter::try_new(rest, Arc::new(plan))?),
        None => plan,
    }))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |part: &Expr| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)))
    };
    expr.exists(is_one).unwrap_or(true)
}

/// Condition of an ASOF JOIN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Condition {
    /// Comparison of a time of the left side with one of the right side.
    time: Expr,
    /// Equalities between an expression of the left side and one of the right side.
    equal: Vec<Expr>,
    /// Conditions that the pair of a row with its nearest one must fulfil, such as a tolerance.
    also: Vec<Expr>,
    /// Conditions on the right side without which a row is not nearest to any, if its rows are kept without a match.
    candidates: Vec<Expr>,
}

/// Whether rows of the left side without a match are kept.
pub(super) fn keeps_left(kind: JoinType) -> bool {
    matches!(kind, JoinType::Left | JoinType::Full)
}

/// Whether rows of the right side that are nearest to none are kept.
pub(super) fn keeps_right(kind: JoinType) -> bool {
    matches!(kind, JoinType::Right | JoinType::Full)
}

impl Condition {
    fn parts(&self) -> impl Iterator<Item = &Expr> {
        self.equal.iter().chain(&self.also).chain(&self.candidates).chain([&self.time])
    }
}

/// Logical node. It has the columns of the left side, then those of the right side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Nearest {
    left: LogicalPlan,
    right: LogicalPlan,
    condition: Condition,
    /// Which rows without a match are kept.
    kind: JoinType,
    schema: DFSchemaRef,
}

impl Nearest {
    fn new(left: LogicalPlan, right: LogicalPlan, condition: Condition, kind: JoinType) -> Result<Nearest> {
        let fields_of = |side: &LogicalPlan, may_lack: bool| -> Vec<_> {
            let field = |field: &Arc<Field>| match may_lack {
                true => Arc::new(Field::clone(field).with_nullable(true)),
                false => Arc::clone(field),
            };
            side.schema().iter().map(|(table, one)| (table.cloned(), field(one))).collect()
        };
        let mut fields = fields_of(&left, keeps_right(kind));
        fields.extend(fields_of(&right, keeps_left(kind)));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, left.schema().metadata().clone())?);
        Ok(Nearest { left, right, condition, kind, schema })
    }

    /// Takes the conditions besides that of the times: those about the right side alone say which of its rows can be
    /// nearest.
    fn take(&mut self, conditions: Vec<Expr>) -> Result<()> {
        for one in conditions {
            let columns = one.column_refs();
            let is_of_right = !columns.is_empty()
                && columns.iter().all(|column| self.right.schema().has_column(column))
                && !has_subquery(&one);
            if is_of_right && keeps_right(self.kind) {
                self.condition.candidates.push(one);
            } else if is_of_right {
                self.right = LogicalPlan::Filter(Filter::try_new(one.clone(), Arc::new(self.right.clone()))?);
            } else if matches!(self.sides(&one), Some((_, Operator::Eq, _))) {
                self.condition.equal.push(one);
            } else {
                self.condition.also.push(one);
            }
        }
        Ok(())
    }

    fn of(plan: &LogicalPlan) -> Option<&Nearest> {
        match plan {
            LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref::<Nearest>(),
            _ => None,
        }
    }

    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// Sides of a comparison, the left table's expression first.
    fn sides<'e>(&self, expr: &'e Expr) -> Option<(&'e Expr, Operator, &'e Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
        let is_of = |expr: &Expr, side: &LogicalPlan| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|column| side.schema().has_column(column))
        };
        if is_of(left, &self.left) && is_of(right, &self.right) {
            return Some((left, *op, right));
        }
        (is_of(left, &self.right) && is_of(right, &self.left)).then_some((right, op.swap()?, left))
    }

    fn check(&self) -> Result<()> {
        let refused = |text: &str| Err(external(Error::new(SqlState::SYNTAX_ERROR, text)));
        if self.sides(&self.condition.time).is_none() {
            return refused(
                "the comparison of an ASOF JOIN must have a time of the left table on one side and one of the right on the other",
            );
        }
        if self.condition.also.iter().any(has_subquery) {
            return refused("the condition of an ASOF JOIN takes no subqueries");
        }
        Ok(())
    }
}

impl PartialOrd for Nearest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for Nearest {
    fn name(&self) -> &str {
        "AsOfJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.condition.parts().cloned().collect()
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.left.schema().fields().len();
        let mut sides = [Vec::new(), Vec::new()];
        output.iter().for_each(|at| if *at < width { sides[0].push(*at) } else { sides[1].push(at - width) });
        for column in self.condition.parts().flat_map(Expr::column_refs) {
            for (side, needed) in [&self.left, &self.right].into_iter().zip(&mut sides) {
                needed.extend(side.schema().maybe_index_of_column(column));
            }
        }
        Some(
            sides
                .map(|mut needed| {
                    needed.sort_unstable();
                    needed.dedup();
                    needed
                })
                .into(),
        )
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoin: {}, {}", self.kind, self.condition.time)?;
        let others = self.condition.equal.iter().chain(&self.condition.also).chain(&self.condition.candidates);
        others.into_iter().try_for_each(|one| write!(f, ", {one}"))
    }

    fn with_exprs_and_inputs(&self, mut exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Nearest> {
        let (Some(time), Ok([left, right])) = (exprs.pop(), <[LogicalPlan; 2]>::try_from(inputs)) else {
            return Err(external(Error::bug("an ASOF JOIN without its two sides")));
        };
        // The optimizer adds aliases to preserve the names of expressions that it changes.
        let mut equal: Vec<Expr> = exprs.into_iter().map(Expr::unalias).collect();
        let mut also = equal.split_off(self.condition.equal.len().min(equal.len()));
        let candidates = also.split_off(self.condition.also.len().min(also.len()));
        Nearest::new(left, right, Condition { time: time.unalias(), equal, also, candidates }, self.kind)
    }
}

/// Physical planner for the nodes.
#[derive(Debug)]
pub(super) struct Planner;

#[async_trait]
impl ExtensionPlanner for Planner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn datafusion::catalog::Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [left, right]) = (node.as_any().downcast_ref::<Nearest>(), inputs) else { return Ok(None) };
        let physical = |expr: &Expr, side: &LogicalPlan| -> Result<Arc<dyn PhysicalExpr>> {
            planner.create_physical_expr(expr, side.schema(), session, context)
        };
        let bug = || external(Error::bug("an ASOF JOIN whose condition fell apart"));
        let mut by = Vec::new();
        for one in &node.condition.equal {
            let (of_left, _, of_right) = node.sides(one).ok_or_else(bug)?;
            by.push((physical(of_left, &node.left)?, physical(of_right, &node.right)?));
        }
        let (of_left, op, of_right) = node.sides(&node.condition.time).ok_or_else(bug)?;
        by.push((physical(of_left, &node.left)?, physical(of_right, &node.right)?));
        // For later rows the first match is needed: in descending time order it is the last one before.
        let backwards = matches!(op, Operator::LtEq | Operator::Lt);
        let also = conjunction(node.condition.also.iter().cloned());
        let also = also.map(|also| planner.create_physical_expr(&also, &node.schema, session, context)).transpose()?;
        let candidates = conjunction(node.condition.candidates.iter().cloned());
        let candidates = candidates.map(|one| physical(&one, &node.right)).transpose()?;
        let matching = Matching {
            by,
            also,
            candidates,
            order: SortOptions { descending: backwards, nulls_first: true },
            strict: matches!(op, Operator::Gt | Operator::Lt),
            kind: node.kind,
        };
        let schema = Arc::clone(node.schema.inner());
        Ok(Some(Arc::new(NearestExec::new(Arc::clone(left), Arc::clone(right), schema, matching))))
    }
}
