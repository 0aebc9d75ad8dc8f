//! Finds queries that need only the first rows of groups: conditions on `row_number`, and DISTINCT ON.

use arrow_schema::SortOptions;
use binder::tree::{Rel, WindowCall};
use catalog::builtin;
use datafusion::logical_expr::{Expr as DfExpr, LogicalPlan, Sort, SortExpr};
use model::{Datum, Result};
use scalar::{Expr, ExprKind, Value};

use crate::errors::OrError;
use crate::lower::lowering::Lowering;
use crate::lower::relations::sorted;
use crate::nodes::leading::Leading;
use crate::nodes::{Node, Operator};

/// Most rows of a group; more are sorted with all.
const COUNT_MAX: i64 = 32;

impl Lowering<'_> {
    /// Notes the window functions of an input of which a condition accepts only the first rows of each partition.
    pub(crate) fn note_leading(&self, input: &Rel, condition: &Expr) {
        for (column, count) in limits(condition) {
            let Some((column, calls)) = numbered(input, column) else { continue };
            let Some((_, first)) = calls.first() else { continue };
            // Every function of the operator sees fewer rows.
            let is_same = |(_, call): &(u32, WindowCall)| {
                call.partition_by == first.partition_by && call.order_by == first.order_by && is_row_number(call)
            };
            if !calls.iter().all(is_same) || !calls.iter().any(|(number, _)| *number == column) {
                continue;
            }
            let mut noted = self.leading.borrow_mut();
            for (number, _) in calls {
                let known = noted.entry(*number).or_insert(count);
                *known = count.min(*known);
            }
        }
    }

    /// Drops rows below the sort of DISTINCT ON that are not the first of their keys.
    pub(crate) fn first_of_each(&self, plan: LogicalPlan, keys: &[DfExpr]) -> Result<LogicalPlan> {
        let LogicalPlan::Sort(Sort { expr, input, fetch: None }) = &plan else { return Ok(plan) };
        let (own, rest) = expr.split_at(keys.len().min(expr.len()));
        let is_key = |sort: &SortExpr| keys.contains(&sort.expr);
        if own.len() < keys.len() || !own.iter().all(is_key) || rest.is_empty() {
            return Ok(plan);
        }
        let exprs: Vec<DfExpr> = keys.iter().cloned().chain(rest.iter().map(|key| key.expr.clone())).collect();
        let below = leading(input.as_ref().clone(), &exprs, keys.len(), expr, 1)?;
        Ok(sorted(below, expr.clone()))
    }
}

/// The rows that may be among the first ones of their groups. `exprs`: the keys of the groups, then those of the order;
/// `order`: all of them that are not constant.
pub(crate) fn leading(
    input: LogicalPlan,
    exprs: &[DfExpr],
    groups: usize,
    order: &[SortExpr],
    count: usize,
) -> Result<LogicalPlan> {
    let (groups, keys) = exprs.split_at(groups.min(exprs.len()));
    let varies = |expr: &&DfExpr| !matches!(expr, DfExpr::Literal(..));
    let groups: Vec<DfExpr> = groups.iter().filter(varies).cloned().collect();
    let mut exprs = groups.clone();
    let mut options = Vec::new();
    for key in keys.iter().filter(varies) {
        // A key that was there before orders nothing more.
        if exprs.contains(key) {
            continue;
        }
        let Some(sort) = order.iter().find(|sort| sort.expr == *key) else { continue };
        options.push(SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first });
        exprs.push(key.clone());
    }
    if options.is_empty() {
        return Ok(input);
    }
    let operator = Operator::Leading(Leading { groups: groups.len(), order: options, count });
    Node::plan(operator, exprs, vec![input], true, Vec::new()).or_error()
}

fn is_row_number(call: &WindowCall) -> bool {
    let name = builtin().function_row(call.call.function).map_or("", |row| row.name);
    name == "row_number" && call.filter.is_none() && !call.order_by.is_empty()
}

/// The window functions below projections of an input, and the number that a column of the input has there.
fn numbered(input: &Rel, column: u32) -> Option<(u32, &[(u32, WindowCall)])> {
    match input {
        Rel::Window { calls, .. } => Some((column, calls)),
        Rel::Project { input, columns } => {
            let (_, value) = columns.iter().find(|(number, _)| *number == column)?;
            let ExprKind::Column(below) = value.kind else { return None };
            numbered(input, below)
        }
        _ => None,
    }
}

/// Columns that a condition limits from above by a constant.
fn limits(condition: &Expr) -> Vec<(u32, usize)> {
    match &condition.kind {
        ExprKind::And(all) => all.iter().flat_map(limits).collect(),
        ExprKind::Call(call, operands) => {
            let operator = call.operator.and_then(|operator| builtin().operator_row(operator));
            let ([left, right], Some(operator)) = (operands.as_slice(), operator) else { return Vec::new() };
            let below = |(column, number): (u32, i64)| (column, number.saturating_sub(1));
            let limit = match operator.name {
                "<=" | "=" => column_and_number(left, right),
                "<" => column_and_number(left, right).map(below),
                ">=" => column_and_number(right, left),
                ">" => column_and_number(right, left).map(below),
                _ => None,
            };
            let limit = limit.filter(|(_, number)| (1..=COUNT_MAX).contains(number));
            limit.into_iter().map(|(column, number)| (column, number as usize)).collect()
        }
        _ => Vec::new(),
    }
}

fn column_and_number(column: &Expr, number: &Expr) -> Option<(u32, i64)> {
    let number = match &number.kind {
        ExprKind::Constant(Value::Plain(Datum::Int2(number))) => i64::from(*number),
        ExprKind::Constant(Value::Plain(Datum::Int4(number))) => i64::from(*number),
        ExprKind::Constant(Value::Plain(Datum::Int8(number))) => *number,
        _ => return None,
    };
    match column.kind {
        ExprKind::Column(column) => Some((column, number)),
        _ => None,
    }
}
