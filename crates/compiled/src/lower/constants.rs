//! Constant parts of expressions.
//!
//! An immutable operator of constants is computed while a statement is lowered, as PostgreSQL's planner does. One that
//! fails stays as it is, and its error becomes that of the statement: it comes before the first row, and before the
//! first number of a sequence. Parts that PostgreSQL's planner removes, such as the branch of a false condition, are
//! not lowered at all.

use bumpalo::Bump;
use catalog::{TypeId, Volatility, builtin};
use model::{Datum, Error, Result, SqlState, Type};
use scalar::{Expr as Bound, ExprKind};

use super::natives::plain;
use super::{Lower, Lowering};
use crate::cast::Zone;
use crate::exec::{ExecContext, ReadSource, SubPlans};
use crate::expr::{Expr, Frame, Value, all_of, any_of};
use crate::statement::Session;
use crate::types::{is_moment, is_text};

impl Lowering<'_> {
    /// The value of an immutable operator of constants; any other expression as it is.
    pub(super) fn folded(&mut self, expr: Expr) -> Expr {
        if !is_of_constants(&expr) || !is_immutable(&expr) {
            return expr;
        }
        match value(&expr, self.session) {
            Ok(value) => Expr::Value(value),
            Err(error) => {
                self.fail(error);
                expr
            }
        }
    }

    /// Notes the error of a constant expression, unless it may be an error of this executor alone.
    pub(super) fn fail(&mut self, error: Error) {
        let own = [SqlState::FEATURE_NOT_SUPPORTED, SqlState::OUT_OF_MEMORY, SqlState::INTERNAL_ERROR];
        if !own.contains(&error.state()) {
            self.parts.failure.get_or_insert(error);
        }
    }

    /// AND and OR, without the constants that do not decide; `decisive` decides alone, and nothing after it is needed.
    pub(super) fn connected(&mut self, list: &[Bound], decisive: bool) -> Lower<Expr> {
        let mut kept = Vec::with_capacity(list.len());
        for one in list {
            let expr = self.expr(one)?;
            match constant(&expr) {
                Some(Datum::Bool(value)) if value == decisive => return Ok(expr),
                Some(Datum::Bool(_)) => {}
                _ => kept.push(expr),
            }
        }
        let connected = if decisive { any_of(kept) } else { all_of(kept) };
        Ok(connected.unwrap_or(Expr::Value(Value::Plain(Datum::Bool(!decisive)))))
    }

    /// COALESCE, up to the first constant that is not NULL.
    pub(super) fn coalesce(&mut self, list: &[Bound]) -> Lower<Expr> {
        let mut kept = Vec::with_capacity(list.len());
        for one in list {
            let expr = self.expr(one)?;
            let value = constant(&expr);
            if value.as_ref().is_some_and(Datum::is_null) {
                continue;
            }
            let is_last = value.is_some();
            kept.push(expr);
            if is_last {
                break;
            }
        }
        Ok(match kept.len() {
            0 => Expr::Value(Value::Plain(Datum::Null)),
            1 => kept.remove(0),
            _ => Expr::Coalesce(kept),
        })
    }
}

/// The value of a constant.
pub(super) fn constant(expr: &Expr) -> Option<Datum<'_>> {
    if let Expr::Value(value) = expr { Some(value.datum()) } else { None }
}

/// Whether it is an operator whose operands are all constants.
fn is_of_constants(expr: &Expr) -> bool {
    let is_value = |expr: &Expr| matches!(expr, Expr::Value(_));
    match expr {
        Expr::Arithmetic(_, sides)
        | Expr::Compare(_, sides)
        | Expr::Concat(sides)
        | Expr::IsDistinct { from: sides, .. }
        | Expr::NullIf(sides)
        | Expr::Like { what: sides, .. } => sides.iter().all(is_value),
        Expr::Not(of)
        | Expr::Negate(of)
        | Expr::IsNull { of, .. }
        | Expr::Cast { what: of, .. }
        | Expr::Padded { what: of, .. } => is_value(of),
        Expr::InList { what, list, .. } => is_value(what) && list.iter().all(is_value),
        Expr::Extreme { of, .. } | Expr::Scalar(_, of) | Expr::Computation(_, of) => of.iter().all(is_value),
        _ => false,
    }
}

/// Whether an operator gives the same value in all sessions and at all times.
fn is_immutable(expr: &Expr) -> bool {
    match expr {
        Expr::Cast { what, to, .. } => {
            let depends = |value: &Datum<'_>| {
                matches!(value, Datum::Timestamptz(_) | Datum::Timestamp(_) | Datum::Date(_) | Datum::Interval(_))
            };
            !is_moment(*to) && *to != Type::Date && !constant(what).is_some_and(|value| depends(&value))
        }
        Expr::Scalar(call, _) => is_immutable_function(call.function()),
        Expr::Computation(expr, _) => {
            let mut all = true;
            expr.visit(&mut |part| all &= is_immutable_part(part));
            all
        }
        _ => true,
    }
}

fn is_immutable_function(function: u32) -> bool {
    builtin().function_row(function).is_some_and(|row| row.volatility == Volatility::Immutable)
}

fn is_immutable_part(part: &Bound) -> bool {
    match &part.kind {
        ExprKind::Call(call, _)
        | ExprKind::Distinct(call, _)
        | ExprKind::NullIf(call, _)
        | ExprKind::Quantified { call, .. }
        | ExprKind::InList { call, .. } => is_immutable_function(call.function),
        ExprKind::RowCompare { calls, .. } => calls.iter().all(|call| is_immutable_function(call.function)),
        // Other types are read and written by the session's settings.
        ExprKind::ViaText(of) => part.ty == TypeId::JSONB && plain(of.ty).is_some_and(is_text),
        ExprKind::SqlValue(_) | ExprKind::Subquery(_) | ExprKind::Domain(..) => false,
        _ => true,
    }
}

/// Computes an expression without columns.
fn value(expr: &Expr, session: &scalar::Session) -> Result<Value> {
    let (arena, guard, zone) = (Bump::new(), crossbeam_epoch::pin(), NoZone(session));
    let session = Session { check: &|_| Ok(()), now: 0, zone: &zone, numbers: None };
    let ctx = ExecContext::new(&[], &arena, &guard, session, SubPlans::default(), ReadSource::Nothing);
    let frame = Frame {
        rows: &[],
        records: &[],
        ctx: &ctx,
        outer_values: Vec::new(),
        computed: Vec::new(),
        element: Datum::Null,
    };
    Ok(Value::from(scalar::Value::of(&expr.eval(&frame)?)))
}

/// The zone of constants. What depends on the session's one is never computed while lowering.
struct NoZone<'s>(&'s scalar::Session);

impl Zone for NoZone<'_> {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn input(&self, _: &str, ty: Type) -> Result<Datum<'static>> {
        Err(Error::bug(format!("a {} was read while lowering", ty.sql_name())))
    }

    fn facts(&self) -> Option<&scalar::Session> {
        Some(self.0)
    }
}
