//! Operators that DataFusion lacks: one logical node and one physical operator, with an [`Operator`] that says what they do.
//!
//! The output is the columns of the first input, if they are kept, and the operator's own. An input is one partition in
//! the order that it has, so that operators may rely on a sort below them.

mod aggregate;
pub(crate) mod apply;
mod distinct;
mod exec;
pub(crate) mod frames;
mod keyed;
pub(crate) mod leading;
mod planner;
pub(crate) mod repeat;
pub(crate) mod sets;
pub(crate) mod window;
mod window_functions;

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_schema::FieldRef;
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, TableReference};
use datafusion::logical_expr::{Expr, Extension, InvariantLevel, LogicalPlan, UserDefinedLogicalNode};

pub(crate) use planner::Planner;

/// The work of a node.
#[derive(Debug)]
pub(crate) enum Operator {
    /// Functions of sets.
    Sets(sets::Sets),
    /// Window functions.
    Window(window::Window),
    /// The first one of the rows with equal expressions.
    Distinct,
    /// LIMIT WITH TIES; the last two expressions are limit and offset, the others the sort keys.
    Ties,
    /// Each row as often as the last expression, a bigint, says.
    Repeat,
    /// A subquery for each row.
    Apply(apply::Apply),
    /// The input in one partition, in its order, which optimizations above must not lose.
    Ordered,
    /// Groups, in one phase.
    Aggregate(Groups),
    /// Rows that may be among the first of their groups.
    Leading(leading::Leading),
}

/// Groups of [`Operator::Aggregate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// Number of keys among the expressions.
    pub(crate) keys: usize,
    /// Whether an aggregate takes the rows in the order of the input, as `array_agg` does.
    pub(crate) in_order: bool,
}

impl Operator {
    fn name(&self) -> &'static str {
        match self {
            Operator::Sets(_) => "Sets",
            Operator::Window(_) => "Window",
            Operator::Distinct => "DistinctOn",
            Operator::Ties => "LimitWithTies",
            Operator::Repeat => "Repeat",
            Operator::Apply(_) => "Apply",
            Operator::Ordered => "Ordered",
            Operator::Aggregate(_) => "SinglePhaseAggregate",
            Operator::Leading(_) => "LeadingRows",
        }
    }
}

/// A column that a node makes.
pub(crate) type Made = (Option<TableReference>, FieldRef);

/// The logical node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    operator: Arc<Operator>,
    expressions: Vec<Expr>,
    inputs: Vec<LogicalPlan>,
    /// Whether the output has the columns of the first input.
    keeps: bool,
    made: Vec<Made>,
    schema: DFSchemaRef,
}

impl Node {
    /// A plan of one node.
    pub(crate) fn plan(
        operator: Operator,
        expressions: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
        keeps: bool,
        made: Vec<Made>,
    ) -> DfResult<LogicalPlan> {
        let schema = schema(&inputs, keeps, &made)?;
        let node = Node { operator: Arc::new(operator), expressions, inputs, keeps, made, schema };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }
}

/// The input of a node that keeps the first one of equal rows; `None` for any other plan, and if only some columns count.
#[must_use]
pub(crate) fn distinct_input(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return None };
    let node = node.as_any().downcast_ref::<Node>()?;
    let is_whole = matches!(*node.operator, Operator::Distinct) && node.expressions.len() == node.schema.fields().len();
    node.inputs.first().filter(|_| is_whole)
}

/// Whether the node runs a subquery for outer rows. The plan holds the row, so two executions of it at a time would mix theirs.
#[must_use]
pub(crate) fn holds_outer_row(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Extension(Extension { node }) = plan else { return false };
    let operator = node.as_any().downcast_ref::<Node>().map(|node| &*node.operator);
    matches!(operator, Some(Operator::Apply(apply)) if !apply.outer.is_empty())
}

/// The input of a node that adds the value of a subquery to each row; `None` for any other plan.
#[must_use]
pub(crate) fn subquery_input(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return None };
    let node = node.as_any().downcast_ref::<Node>()?;
    let is_value = matches!(&*node.operator, Operator::Apply(apply) if !matches!(apply.kind, apply::Kind::Rows { .. }));
    node.inputs.first().filter(|_| is_value)
}

fn schema(inputs: &[LogicalPlan], keeps: bool, made: &[Made]) -> DfResult<DFSchemaRef> {
    let kept = inputs.first().filter(|_| keeps);
    let fields = kept.into_iter().flat_map(|input| input.schema().iter());
    let fields = fields.map(|(relation, field)| (relation.cloned(), Arc::clone(field))).chain(made.iter().cloned());
    DFSchema::new_with_metadata(fields.collect(), Default::default()).map(Arc::new)
}

impl UserDefinedLogicalNode for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.operator.name()
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn check_invariants(&self, _: InvariantLevel) -> DfResult<()> {
        Ok(())
    }

    fn expressions(&self) -> Vec<Expr> {
        self.expressions.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operator.name())?;
        for (at, expr) in self.expressions.iter().enumerate() {
            write!(f, "{}{expr}", if at == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }

    fn with_exprs_and_inputs(
        &self,
        expressions: Vec<Expr>,
        inputs: Vec<LogicalPlan>,
    ) -> DfResult<Arc<dyn UserDefinedLogicalNode>> {
        let schema = schema(&inputs, self.keeps, &self.made)?;
        let (operator, made) = (Arc::clone(&self.operator), self.made.clone());
        Ok(Arc::new(Node { operator, expressions, inputs, keeps: self.keeps, made, schema }))
    }

    fn necessary_children_exprs(&self, output: &[usize]) -> Option<Vec<Vec<usize>>> {
        // DataFusion adds the columns of the expressions.
        let of_input = |(at, input): (usize, &LogicalPlan)| {
            let count = input.schema().fields().len();
            match (at, self.keeps) {
                (0, true) => output.iter().copied().filter(|column| *column < count).collect(),
                (0, false) => Vec::new(),
                _ => (0..count).collect(),
            }
        };
        Some(self.inputs.iter().enumerate().map(of_input).collect())
    }

    fn dyn_hash(&self, mut state: &mut dyn Hasher) {
        Arc::as_ptr(&self.operator).hash(&mut state);
        self.expressions.hash(&mut state);
        self.inputs.hash(&mut state);
    }

    fn dyn_eq(&self, other: &dyn UserDefinedLogicalNode) -> bool {
        other.as_any().downcast_ref::<Node>().is_some_and(|other| {
            Arc::ptr_eq(&self.operator, &other.operator)
                && self.expressions == other.expressions
                && self.inputs == other.inputs
        })
    }

    fn dyn_ord(&self, other: &dyn UserDefinedLogicalNode) -> Option<Ordering> {
        self.dyn_eq(other).then_some(Ordering::Equal)
    }
}
