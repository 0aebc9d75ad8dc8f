//! Queries that only call functions, such as `SELECT f(1)` and `SELECT * FROM f(1)`. Functions that wait or change the catalog
//! run as statements of their own.

use parser::ast::{Expr, ExprKind, FunctionCall, Name, Query, QueryBody, Select, TableExpr};

/// A function that a query calls.
pub(crate) struct CallItem<'q> {
    pub(crate) call: &'q FunctionCall,
    /// Name of the result column.
    pub(crate) column: &'q str,
    /// `SELECT * FROM f(…)` instead of `SELECT f(…)`.
    pub(crate) spread: bool,
}

impl<'q> CallItem<'q> {
    /// Name of the function.
    pub(crate) fn name(&self) -> &'q str {
        &self.call.name.name
    }
}

/// The functions that a query calls, if it does nothing else.
pub(crate) fn calls(query: &Query) -> Option<Vec<CallItem<'_>>> {
    let QueryBody::Select(select) = &query.body else { return None };
    let has_clauses = query.with.is_some()
        || !query.order_by.is_empty()
        || query.limit.is_some()
        || query.offset.is_some()
        || !query.locking.is_empty();
    if has_clauses || !is_plain(select) {
        return None;
    }
    match (select.targets.as_slice(), select.from.as_slice()) {
        ([star], [from]) if matches!(&star.expr.kind, ExprKind::Wildcard(of) if of.is_empty()) => {
            from_item(from).map(|call| vec![call])
        }
        (targets @ [_, ..], []) => targets
            .iter()
            .map(|target| {
                let call = plain_call(&target.expr)?;
                Some(CallItem { call, column: target.alias.as_deref().unwrap_or(&call.name.name), spread: false })
            })
            .collect(),
        _ => None,
    }
}

/// The function that a query calls, if it calls one and does nothing else.
pub(crate) fn only_call(query: &Query) -> Option<CallItem<'_>> {
    let [call]: [CallItem<'_>; 1] = calls(query)?.try_into().ok()?;
    Some(call)
}

fn is_plain(select: &Select) -> bool {
    select.distinct.is_none()
        && select.into.is_none()
        && select.filter.is_none()
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty()
}

fn from_item(from: &TableExpr) -> Option<CallItem<'_>> {
    let TableExpr::Function(item) = from else { return None };
    let [rows] = item.functions.as_slice() else { return None };
    if item.rows_from || item.ordinality || !item.columns.is_empty() || !rows.columns.is_empty() {
        return None;
    }
    let call = plain_call(&rows.function)?;
    let column = item.alias.as_ref().map_or(call.name.name.as_str(), |alias| &alias.name);
    Some(CallItem { call, column, spread: true })
}

fn plain_call(expr: &Expr) -> Option<&FunctionCall> {
    let ExprKind::Function(call) = &expr.kind else { return None };
    let is_own = |name: &Name| name.schema().is_none_or(|schema| matches!(schema, "pg_catalog" | "public"));
    let is_plain = call.over.is_none() && call.filter.is_none() && call.order_by.is_empty() && !call.distinct;
    (is_plain && !call.star && !call.variadic && is_own(&call.name)).then_some(call)
}

/// The expression without casts.
pub(crate) fn without_casts(mut expr: &Expr) -> &Expr {
    while let ExprKind::Cast(cast) = &expr.kind {
        expr = &cast.expr;
    }
    expr
}
