//! PostgreSQL's rules for operators, casts and comparisons of times: [`DateOperators`] while a query is planned, when
//! result types are decided, and [`DateCasts`] during analysis.

use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use model::Error;

use super::{LOCAL, SPAN, external, function, is_text};

/// Operators on times, dates and intervals, and `extract`.
#[derive(Debug)]
pub(crate) struct DateOperators {
    /// Time zone of the session.
    pub(crate) zone: Arc<str>,
}

fn call(name: &str, zone: &Arc<str>, arguments: Vec<Expr>) -> Result<Expr> {
    let function = function(name, zone).ok_or_else(|| external(Error::bug(format!("no function {name}"))))?;
    Ok(function.call(arguments))
}

fn is_span(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Interval(_) | Arrow::Duration(_))
}

fn is_zoned(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Timestamp(_, Some(_)))
}

fn is_time(ty: &Arrow) -> bool {
    matches!(ty, Arrow::Timestamp(..) | Arrow::Date32)
}

fn cast(expr: Expr, ty: Arrow) -> Expr {
    Expr::Cast(Cast::new(Box::new(expr), ty))
}

/// Converts a text constant to an interval.
fn as_span(expr: Expr, ty: &Arrow, zone: &Arc<str>) -> Result<Expr> {
    if is_text(ty) { call("millrace_span_in", zone, vec![expr]) } else { Ok(expr) }
}

fn is_text_constant(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _))
}

impl ExprPlanner for DateOperators {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(call("extract", &self.zone, args)?))
    }

    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        if ![&left, &right].into_iter().any(|ty| is_span(ty) || is_time(ty)) {
            return Ok(PlannerResult::Original(raw));
        }
        match raw.op {
            BinaryOperator::Plus | BinaryOperator::Minus => self.sum(raw, &left, &right),
            BinaryOperator::Multiply | BinaryOperator::Divide => self.product(raw, &left, &right),
            BinaryOperator::StringConcat => self.concatenation(raw, &left, &right),
            _ => self.comparison(raw, &left, &right),
        }
    }
}

impl DateOperators {
    fn sum(&self, raw: RawBinaryExpr, left: &Arrow, right: &Arrow) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left: a, right: b } = raw;
        let plus = matches!(op, BinaryOperator::Plus);
        // Addition of an interval and a time is commutative.
        if plus && is_span(left) && is_time(right) {
            return self.sum(RawBinaryExpr { op, left: b, right: a }, right, left);
        }
        if !plus && is_time(left) && is_time(right) && is_zoned(left) != is_zoned(right) {
            let (a, b) = (beside(a, left, right, &self.zone)?, beside(b, right, left, &self.zone)?);
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left: a, right: b }));
        }
        let spoken = plus && is_text(right) && is_text_constant(&b);
        if !is_time(left) || !(is_span(right) || spoken) {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left: a, right: b }));
        }
        let span = as_span(b, right, &self.zone)?;
        // Without a zone every day has 24 hours, and DataFusion's addition is right.
        let a = if *left == Arrow::Date32 { cast(a, LOCAL) } else { a };
        if !spoken && !matches!(right, Arrow::Duration(_)) && (!is_zoned(left) || self.zone.as_ref() == "UTC") {
            let op = if plus { Operator::Plus } else { Operator::Minus };
            return Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(Box::new(a), op, Box::new(span)))));
        }
        let name = if plus { "millrace_add" } else { "millrace_subtract" };
        Ok(PlannerResult::Planned(call(name, &self.zone, vec![a, span])?))
    }

    fn product(&self, raw: RawBinaryExpr, left: &Arrow, right: &Arrow) -> Result<PlannerResult<RawBinaryExpr>> {
        let number = |ty: &Arrow| ty.is_numeric() || ty.is_null();
        let planned = match raw.op {
            BinaryOperator::Multiply if is_span(left) && number(right) => {
                call("millrace_multiply", &self.zone, vec![raw.left, raw.right])
            }
            BinaryOperator::Multiply if number(left) && is_span(right) => {
                call("millrace_multiply", &self.zone, vec![raw.right, raw.left])
            }
            BinaryOperator::Divide if is_span(left) && number(right) => {
                call("millrace_divide", &self.zone, vec![raw.left, raw.right])
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        Ok(PlannerResult::Planned(planned?))
    }

    fn concatenation(&self, raw: RawBinaryExpr, left: &Arrow, right: &Arrow) -> Result<PlannerResult<RawBinaryExpr>> {
        let text = |expr: Expr, ty: &Arrow| {
            if is_span(ty) || is_time(ty) { call("millrace_text", &self.zone, vec![expr]) } else { Ok(expr) }
        };
        let (left, right) = (text(raw.left, left)?, text(raw.right, right)?);
        Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right }))
    }

    /// Compares intervals by length. DataFusion would compare months first, then days, then the rest.
    fn comparison(&self, raw: RawBinaryExpr, left: &Arrow, right: &Arrow) -> Result<PlannerResult<RawBinaryExpr>> {
        let comparable = |ty: &Arrow, expr: &Expr| is_span(ty) || (is_text(ty) && is_text_constant(expr));
        let compares = matches!(
            raw.op,
            BinaryOperator::Eq
                | BinaryOperator::NotEq
                | BinaryOperator::Lt
                | BinaryOperator::LtEq
                | BinaryOperator::Gt
                | BinaryOperator::GtEq
        );
        let durations = matches!((left, right), (Arrow::Duration(_), Arrow::Duration(_)));
        if !compares || durations || !comparable(left, &raw.left) || !comparable(right, &raw.right) {
            return Ok(PlannerResult::Original(raw));
        }
        let length = |expr: Expr, ty: &Arrow| {
            as_span(expr, ty, &self.zone).and_then(|span| call("millrace_span", &self.zone, vec![span]))
        };
        let (left, right) = (length(raw.left, left)?, length(raw.right, right)?);
        Ok(PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right }))
    }
}

/// Casts between times, to text and from text; comparisons of dates and local times with timestamptz.
#[derive(Debug)]
pub(crate) struct DateCasts;

impl FunctionRewrite for DateCasts {
    fn name(&self) -> &str {
        "date_casts"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
        let zone: Arc<str> = config.execution.time_zone.as_deref().unwrap_or("UTC").into();
        match expr {
            Expr::Cast(inner) => rewrite_cast(inner, schema, &zone),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let types = (left.get_type(schema), right.get_type(schema));
                let (Ok(left_ty), Ok(right_ty)) = types else {
                    return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
                };
                let left = Box::new(beside(*left, &left_ty, &right_ty, &zone)?);
                let right = Box::new(beside(*right, &right_ty, &left_ty, &zone)?);
                Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let Ok(ty) = expr.get_type(schema) else {
                    return Ok(Transformed::no(Expr::Between(Between { expr, negated, low, high })));
                };
                let low = Box::new(beside_typed(*low, &ty, schema, &zone)?);
                let high = Box::new(beside_typed(*high, &ty, schema, &zone)?);
                Ok(Transformed::yes(Expr::Between(Between { expr, negated, low, high })))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let Ok(ty) = expr.get_type(schema) else {
                    return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
                };
                let list =
                    list.into_iter().map(|item| beside_typed(item, &ty, schema, &zone)).collect::<Result<_>>()?;
                Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn beside_typed(expr: Expr, other: &Arrow, schema: &DFSchema, zone: &Arc<str>) -> Result<Expr> {
    match expr.get_type(schema) {
        Ok(ty) => beside(expr, &ty, other, zone),
        Err(_) => Ok(expr),
    }
}

/// Converts a date or local time that is compared with a timestamptz to timestamptz in the session's zone.
fn beside(expr: Expr, ty: &Arrow, other: &Arrow, zone: &Arc<str>) -> Result<Expr> {
    if is_zoned(other) && (*ty == Arrow::Date32 || matches!(ty, Arrow::Timestamp(_, None))) {
        return to_moment(expr, ty, zone);
    }
    Ok(expr)
}

fn to_moment(expr: Expr, ty: &Arrow, zone: &Arc<str>) -> Result<Expr> {
    let local = if *ty == LOCAL { expr } else { cast(expr, LOCAL) };
    call("timezone", zone, vec![zone_name(zone), local])
}

fn zone_name(zone: &Arc<str>) -> Expr {
    Expr::Literal(ScalarValue::Utf8(Some(zone.to_string())), None)
}

fn rewrite_cast(inner: Cast, schema: &DFSchema, zone: &Arc<str>) -> Result<Transformed<Expr>> {
    let Ok(from) = inner.expr.get_type(schema) else {
        return Ok(Transformed::no(Expr::Cast(inner)));
    };
    let local = |ty: &Arrow| matches!(ty, Arrow::Timestamp(_, None));
    let new = match (&from, inner.field.data_type()) {
        (from, to) if is_zoned(from) && local(to) => call("timezone", zone, vec![zone_name(zone), *inner.expr])?,
        (from, to) if (local(from) || *from == Arrow::Date32) && is_zoned(to) => to_moment(*inner.expr, from, zone)?,
        (from, to) if (is_span(from) || is_time(from)) && is_text(to) => {
            call("millrace_text", zone, vec![*inner.expr])?
        }
        (from, to) if is_text(from) && *to == SPAN => call("millrace_span_in", zone, vec![*inner.expr])?,
        _ => return Ok(Transformed::no(Expr::Cast(inner))),
    };
    Ok(Transformed::yes(new))
}
