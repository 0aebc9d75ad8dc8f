//! Evaluation order of conditions: `id <> 3 AND 10 / (id - 3) > 1` computes the quotient only for rows that pass the
//! first condition.
//!
//! DataFusion evaluates a condition on the whole batch unless the conditions before it let few rows pass. This rule
//! moves conditions that may fail (a division, a cast of text) behind those that cannot, into the branches of a CASE,
//! which are evaluated only for the rows that reach them.

use std::sync::Arc;

use arrow_schema::{DataType as Arrow, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, IsNotNullExpr, NotExpr, case, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

/// The physical optimizer rule that orders the conditions of filters. It runs last, because other rules inspect
/// conditions.
#[derive(Debug)]
pub(crate) struct Guards;

impl PhysicalOptimizerRule for Guards {
    fn name(&self) -> &str {
        "guards"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
            match guarded(filter.predicate(), &filter.input().schema())? {
                Some(predicate) => {
                    let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
                    Ok(Transformed::yes(Arc::new(filter) as Arc<dyn ExecutionPlan>))
                }
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(rewritten.data)
    }
}

/// The guarded condition; `None` if no part of it can fail. NULL and false are equivalent here.
pub(crate) fn guarded(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if !may_fail(predicate, schema)? {
        return Ok(None);
    }
    let (mut safe, mut unsafe_) = (Vec::new(), Vec::new());
    for condition in split_conjunction(predicate) {
        if may_fail(condition, schema)? {
            unsafe_.push(within(condition, schema)?);
        } else {
            safe.push(Arc::clone(condition));
        }
    }
    if !safe.is_empty() {
        unsafe_.insert(0, conjunction(safe));
    }
    // From the last condition backward: each one is evaluated only where all earlier ones hold.
    let Some(mut all) = unsafe_.pop() else { return Ok(None) };
    while let Some(guard) = unsafe_.pop() {
        all = case(None, vec![(guard, all)], Some(lit(false)))?;
    }
    Ok(Some(all))
}

/// AND and OR within a condition: the right side is evaluated only where the left side does not decide.
fn within(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let rewritten = Arc::clone(expr).transform_up(|part| {
        let Some(both) = part.downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(part)) };
        let decides = match both.op() {
            Operator::And => Arc::new(NotExpr::new(Arc::clone(both.left()))) as Arc<dyn PhysicalExpr>,
            Operator::Or => Arc::clone(both.left()),
            _ => return Ok(Transformed::no(part)),
        };
        if !may_fail(both.right(), schema)? {
            return Ok(Transformed::no(part));
        }
        let is_known: Arc<dyn PhysicalExpr> = Arc::new(IsNotNullExpr::new(Arc::clone(both.left())));
        let decides: Arc<dyn PhysicalExpr> = Arc::new(BinaryExpr::new(is_known, Operator::And, decides));
        let answer = lit(*both.op() == Operator::Or);
        Ok(Transformed::yes(case(None, vec![(decides, answer)], Some(part))?))
    })?;
    Ok(rewritten.data)
}

/// Common functions and operators that fail for some values of their argument types.
const FAILING: [&str; 10] = ["/", "%", "sqrt", "ln", "log", "log2", "log10", "power", "pow", "evaluate"];

pub(crate) fn may_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    expr.exists(|part| {
        if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>() {
            return Ok(FAILING.contains(&call.name()));
        }
        if let Some(both) = part.downcast_ref::<BinaryExpr>() {
            return Ok(matches!(both.op(), Operator::Divide | Operator::Modulo));
        }
        if let Some(cast) = part.downcast_ref::<CastExpr>() {
            let is_text = |ty: &Arrow| matches!(ty, Arrow::Utf8 | Arrow::LargeUtf8 | Arrow::Utf8View);
            return Ok(is_text(&cast.expr().data_type(schema)?) && !is_text(cast.cast_type()));
        }
        Ok(false)
    })
}
