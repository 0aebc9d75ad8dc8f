//! Lowers window functions: a sort, and an operator for all calls with the same partitions and order.

use std::sync::Arc;

use binder::tree::{Bound, Rel, WindowCall};
use catalog::{FunctionKind, builtin};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{LogicalPlan, SortExpr};
use model::{Error, Result};
use scalar::{Expr, ExprKind};

use crate::errors::OrError;
use crate::evaluation::accumulate::Spec;
use crate::evaluation::evaluate::Program;
use crate::lower::functions::Inputs;
use crate::lower::leading::leading;
use crate::lower::lowering::Lowering;
use crate::lower::relations::sorted;
use crate::nodes::frames::{Edge, Frame, RangeKey};
use crate::nodes::window::{Call, Function, Window};
use crate::nodes::{Node, Operator};

impl Lowering<'_> {
    /// Window functions over an input.
    pub(crate) fn window(&self, input: &Rel, calls: &[(u32, WindowCall)]) -> Result<LogicalPlan> {
        let mut plan = self.rel(input)?;
        let mut calls = calls.to_vec();
        let mut slots: Vec<&mut Expr> = Vec::new();
        for (_, call) in &mut calls {
            slots.extend(call.arguments.iter_mut().chain(call.filter.iter_mut()).chain(call.partition_by.iter_mut()));
            slots.extend(call.order_by.iter_mut().map(|key| &mut key.expr));
        }
        let exprs = slots.iter().map(|expr| (**expr).clone()).collect();
        let (larger, exprs) = self.without_subqueries(plan, exprs)?;
        plan = larger;
        for (slot, expr) in slots.into_iter().zip(exprs) {
            *slot = expr;
        }
        while let Some((_, first)) = calls.first() {
            let (partition_by, order_by) = (first.partition_by.clone(), first.order_by.clone());
            let same = |call: &WindowCall| call.partition_by == partition_by && call.order_by == order_by;
            let (now, later): (Vec<_>, Vec<_>) = calls.iter().cloned().partition(|(_, call)| same(call));
            // An expression with NaN is not equal to itself.
            let (now, later) = if now.is_empty() { (vec![calls.remove(0)], calls.clone()) } else { (now, later) };
            plan = self.one_window(plan, &now)?;
            calls = later;
        }
        Ok(plan)
    }

    /// Calls with the same partitions and order.
    fn one_window(&self, input: LogicalPlan, calls: &[(u32, WindowCall)]) -> Result<LogicalPlan> {
        let Some((_, first)) = calls.first() else { return Ok(input) };
        let schema = Arc::clone(input.schema());
        let mut exprs = Vec::new();
        let mut order = Vec::new();
        for key in &first.partition_by {
            let expr = self.key(key, &schema)?;
            order.push(SortExpr { expr: expr.clone(), asc: true, nulls_first: false });
            exprs.push(expr);
        }
        let keys = self.sort_keys(&first.order_by, &schema)?;
        exprs.extend(keys.iter().map(|key| key.expr.clone()));
        order.extend(keys);
        let mut inputs = Inputs::default();
        let mut lowered = Vec::with_capacity(calls.len());
        let mut made = Vec::with_capacity(calls.len());
        for (number, call) in calls {
            lowered.push(self.window_call(call, &mut inputs, &schema)?);
            made.push(self.made(*number)?);
        }
        // Constants order nothing.
        order.retain(|key| !matches!(key.expr, datafusion::logical_expr::Expr::Literal(..)));
        let count = self.leading.borrow().get(&calls[0].0).copied();
        let input = match count {
            Some(count) => leading(input, &exprs, first.partition_by.len(), &order, count)?,
            None => input,
        };
        let input = if order.is_empty() { input } else { sorted(input, order) };
        let window = Window {
            partitions: first.partition_by.len(),
            orders: first.order_by.len(),
            columns: inputs.types.clone().into(),
            calls: lowered,
            session: Arc::clone(&self.session),
            zone: Arc::clone(&self.zone),
        };
        exprs.extend(inputs.exprs);
        Node::plan(Operator::Window(window), exprs, vec![input], true, made).or_error()
    }

    fn window_call(&self, call: &WindowCall, inputs: &mut Inputs, schema: &DFSchema) -> Result<Call> {
        let Some(row) = builtin().function_row(call.call.function) else {
            return Err(Error::unsupported("a window function that is not PostgreSQL's"));
        };
        let function = match row.kind {
            FunctionKind::Window => Function::named(row.name)
                .ok_or_else(|| Error::unsupported(format!("window function {} is not supported", row.name)))?,
            FunctionKind::Aggregate(_) if scalar::aggregate(call.call.function).is_some() => {
                let spec = Spec {
                    call: call.call.clone(),
                    arguments: call.arguments.iter().map(|argument| argument.ty).collect(),
                    order: Vec::new(),
                    distinct: false,
                    within_group: false,
                    is_strict: row.is_strict,
                    ty: call.call.result,
                    session: Arc::clone(&self.session),
                    zone: Arc::clone(&self.zone),
                };
                Function::Aggregate(Arc::new(spec))
            }
            _ => return Err(Error::unsupported(format!("aggregate {} is not supported", row.name))),
        };
        let mut program = |expr: &Expr| -> Result<Program> {
            let expr = Arc::new(inputs.add(self, expr, schema)?);
            // The columns are known once all calls have added theirs.
            Ok(Program {
                expr,
                columns: Arc::new([]),
                session: Arc::clone(&self.session),
                zone: Arc::clone(&self.zone),
            })
        };
        let arguments = call.arguments.iter().map(&mut program).collect::<Result<_>>()?;
        let filter = call.filter.as_ref().map(&mut program).transpose()?;
        let is_range = call.frame.unit == parser::ast::FrameUnit::Range;
        let has_offset = |bound: &Bound| matches!(bound, Bound::Preceding(_) | Bound::Following(_));
        let mut range = None;
        if is_range && (has_offset(&call.frame.start) || has_offset(&call.frame.end)) {
            let [key] = call.order_by.as_slice() else {
                return Err(Error::bug("a RANGE frame with an offset, without a single sort key"));
            };
            range = Some(RangeKey { value: program(&key.expr)?, descending: key.descending });
        }
        let frame = Frame {
            unit: call.frame.unit,
            start: self.edge(&call.frame.start)?,
            end: self.edge(&call.frame.end)?,
            exclude: call.frame.exclude,
            range,
        };
        Ok(Call { function, arguments, filter, frame, ty: call.call.result })
    }

    fn edge(&self, bound: &Bound) -> Result<Edge> {
        let offset = |expr: &Expr| -> Result<Program> {
            let mut is_constant = true;
            expr.visit(&mut |part| {
                let is_open = matches!(part.kind, ExprKind::Column(_) | ExprKind::Parameter(_) | ExprKind::Subquery(_));
                is_constant &= !is_open;
            });
            if !is_constant {
                return Err(Error::unsupported("an offset of a frame that is not constant is not supported here"));
            }
            Ok(self.program(expr, &DFSchema::empty())?.0)
        };
        Ok(match bound {
            Bound::UnboundedPreceding => Edge::UnboundedPreceding,
            Bound::Preceding(expr) => Edge::Preceding(offset(expr)?),
            Bound::CurrentRow => Edge::CurrentRow,
            Bound::Following(expr) => Edge::Following(offset(expr)?),
            Bound::UnboundedFollowing => Edge::UnboundedFollowing,
        })
    }
}
