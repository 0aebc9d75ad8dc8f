//! Lowers UNION, INTERSECT and EXCEPT: the rows of both inputs with a mark, grouped, and filtered by how often a row is
//! in each.

use std::sync::Arc;

use binder::tree::{Rel, Subplan};
use catalog::TypeId;
use datafusion::functions_aggregate::{first_last, sum};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{AggregateUDF, Expr as DfExpr, LogicalPlan, LogicalPlanBuilder, Union, col, lit, when};
use model::{Error, Result};
use parser::ast::SetOperator;
use scalar::{Expr, ExprKind, Place};

use crate::arrow::arrow_type;
use crate::errors::OrError;
use crate::evaluation::keys;
use crate::lower::lowering::Lowering;
use crate::nodes::{Node, Operator};

impl Lowering<'_> {
    /// A set operation.
    pub(crate) fn set_operation(
        &self,
        op: SetOperator,
        all: bool,
        left: &Subplan,
        right: &Subplan,
        columns: &[u32],
    ) -> Result<LogicalPlan> {
        let types: Vec<TypeId> = columns.iter().map(|column| self.type_of(*column)).collect::<Result<_>>()?;
        if op == SetOperator::Union && all {
            return self.union_all(left, right, columns, &types);
        }
        let (left, right) = (self.side(left, columns, &types)?, self.side(right, columns, &types)?);
        for (column, ty) in columns.iter().zip(&types) {
            self.computed(*column, arrow_type(*ty, &self.zone));
        }
        let plan = match op {
            SetOperator::Union => LogicalPlanBuilder::from(left).union(right).or_error()?,
            SetOperator::Intersect | SetOperator::Except => {
                return self.counted(op, all, [left, right], columns, &types);
            }
        };
        let plan = plan.build().or_error()?;
        let key =
            |(column, ty): (&u32, &TypeId)| keys::keyed(col(Self::name(*column)), *ty, &arrow_type(*ty, &self.zone));
        let keys: Vec<DfExpr> = columns.iter().zip(&types).map(key).collect();
        let is_native = keys.iter().all(|key| matches!(key, DfExpr::Column(_)));
        if is_native && !columns.is_empty() {
            return LogicalPlanBuilder::from(plan).distinct().and_then(LogicalPlanBuilder::build).or_error();
        }
        Node::plan(Operator::Distinct, keys, vec![plan], true, Vec::new()).or_error()
    }

    /// UNION ALL. A chain of them is one operator, however long it is.
    fn union_all(&self, left: &Subplan, right: &Subplan, columns: &[u32], types: &[TypeId]) -> Result<LogicalPlan> {
        let (mut sides, mut first) = (vec![right], left);
        while let Rel::SetOperation { op: SetOperator::Union, all: true, left, right, columns: own } = &first.rel
            && *own == first.columns
        {
            sides.push(right);
            first = left;
        }
        sides.push(first);
        let sides = sides.into_iter().rev().map(|side| Ok(Arc::new(self.side(side, columns, types)?)));
        let union = Union::try_new(sides.collect::<Result<_>>()?).or_error()?;
        for (column, ty) in columns.iter().zip(types) {
            self.computed(*column, arrow_type(*ty, &self.zone));
        }
        Ok(LogicalPlan::Union(union))
    }

    /// An input with the columns of the result.
    pub(crate) fn side(&self, side: &Subplan, columns: &[u32], types: &[TypeId]) -> Result<LogicalPlan> {
        let plan = self.rel(&side.rel)?;
        let mut exprs = Vec::with_capacity(columns.len());
        for ((from, to), ty) in side.columns.iter().zip(columns).zip(types) {
            let found = self.type_of(*from)?;
            if crate::arrow::form(found) != crate::arrow::form(*ty) {
                return Err(Error::unsupported(
                    "a set operation of columns with different types is not supported here",
                ));
            }
            let (expr, _) =
                self.canonical(&Expr::new(ExprKind::Column(*from), *ty, Place::default()), plan.schema())?;
            exprs.push(expr.alias(Self::name(*to)));
        }
        LogicalPlanBuilder::from(plan).project(exprs).and_then(LogicalPlanBuilder::build).or_error()
    }

    fn counted(
        &self,
        op: SetOperator,
        all: bool,
        sides: [LogicalPlan; 2],
        columns: &[u32],
        types: &[TypeId],
    ) -> Result<LogicalPlan> {
        let names: Vec<String> = columns.iter().map(|column| Self::name(*column)).collect();
        let mut marked = Vec::with_capacity(2);
        for (at, side) in sides.into_iter().enumerate() {
            let exprs = names.iter().map(col);
            let marks = [lit(i64::from(at == 0)).alias("left_rows"), lit(i64::from(at == 1)).alias("right_rows")];
            let plan = LogicalPlanBuilder::from(side).project(exprs.chain(marks));
            marked.push(plan.and_then(LogicalPlanBuilder::build).or_error()?);
        }
        let (Some(right), Some(left)) = (marked.pop(), marked.pop()) else { return Err(Error::bug("no two sides")) };
        let union = LogicalPlanBuilder::from(left).union(right).or_error()?;
        let call = |function: Arc<AggregateUDF>, of: DfExpr, filter: Option<Box<DfExpr>>| {
            DfExpr::AggregateFunction(AggregateFunction::new_udf(function, vec![of], false, filter, Vec::new(), None))
        };
        // Every row of the result is in the left input, and has its value: 10.50 and 10.5 are equal.
        let is_left = || Some(Box::new(col("left_rows").gt(lit(0_i64))));
        let mut group = Vec::with_capacity(columns.len());
        let mut calls = vec![
            call(sum::sum_udaf(), col("left_rows"), None).alias("left_count"),
            call(sum::sum_udaf(), col("right_rows"), None).alias("right_count"),
        ];
        for (name, ty) in names.iter().zip(types) {
            let arrow = arrow_type(*ty, &self.zone);
            let key = keys::keyed(col(name), *ty, &arrow);
            if matches!(key, DfExpr::Column(_)) {
                group.push(key);
            } else {
                group.push(key.alias(format!("k{name}")));
                calls.push(call(first_last::first_value_udaf(), col(name), is_left()).alias(name.as_str()));
            }
        }
        let (left, right) = (col("left_count"), col("right_count"));
        let wanted = match op {
            SetOperator::Intersect => left.clone().gt(lit(0_i64)).and(right.clone().gt(lit(0_i64))),
            _ if all => left.clone().gt(right.clone()),
            _ => left.clone().gt(lit(0_i64)).and(right.clone().eq(lit(0_i64))),
        };
        let plan = union.aggregate(group, calls).and_then(|plan| plan.filter(wanted)).or_error()?;
        let mut plan = plan.build().or_error()?;
        if all {
            let times = match op {
                SetOperator::Intersect => when(left.clone().lt(right.clone()), left).otherwise(right).or_error()?,
                _ => left - right,
            };
            plan = Node::plan(Operator::Repeat, vec![times], vec![plan], true, Vec::new()).or_error()?;
        }
        LogicalPlanBuilder::from(plan).project(names.iter().map(col)).and_then(LogicalPlanBuilder::build).or_error()
    }
}
