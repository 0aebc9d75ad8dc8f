//! `session_window(time, gap)` as an item of GROUP BY: the rows of the other keys, in order of time, are one group until no row
//! follows within the gap. The value is the time of the first row.
//!
//! Two window functions under the aggregate compute it: the time before that of a row tells whether the row starts a session,
//! and the greatest start up to a row is that of its session.

use catalog::TypeId;
use model::Result;
use parser::ast::{FrameExclude, FrameUnit, Pos};
use scalar::{Expr, ExprKind};

use crate::binder::{Binder, unsupported};
use crate::tree::{Bound, Frame, Rel, SortKey, WindowCall};

const NAME: &str = "session_window";

impl Binder<'_> {
    /// Computes the session windows among the keys of an aggregate of `input`.
    pub(crate) fn session_windows(&mut self, input: Rel, keys: &mut [(u32, Expr)], has_sets: bool) -> Result<Rel> {
        let Some(at) = keys.iter().position(|(_, key)| self.is_session_window(key)) else { return Ok(input) };
        let place = Pos(keys[at].1.at.0);
        if has_sets {
            return Err(unsupported("session_window with grouping sets", place));
        }
        if keys[at + 1..].iter().any(|(_, key)| self.is_session_window(key)) {
            return Err(unsupported("session_window twice in GROUP BY", place));
        }
        let others = keys.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, (_, key))| key.clone());
        let others: Vec<Expr> = others.collect();
        let key = std::mem::replace(&mut keys[at].1, Expr::null(TypeId::UNKNOWN, scalar::Place(place.0)));
        let ExprKind::Call(_, arguments) = key.kind else { return Ok(input) };
        let Ok([time, gap]) = <[Expr; 2]>::try_from(arguments) else { return Ok(input) };
        let sessions = Sessions { others, time: time.clone(), place };
        let (input, previous) = self.over(&sessions, input, "lag", time.clone())?;
        let since = self.compared("-", time.clone(), previous, place)?;
        let goes_on = self.compared("<=", since, gap, place)?;
        let start = either(goes_on, Expr::null(time.ty, time.at), time.clone());
        let (input, first) = self.over(&sessions, input, "max", start)?;
        let is_null = Expr::new(ExprKind::IsNull(Box::new(time.clone())), TypeId::BOOL, time.at);
        keys[at].1 = either(is_null, Expr::null(time.ty, time.at), first);
        Ok(input)
    }

    fn is_session_window(&self, expr: &Expr) -> bool {
        let ExprKind::Call(call, _) = &expr.kind else { return false };
        self.catalog.function_row(call.function).is_some_and(|function| function.name == NAME)
    }

    /// A window function of a value, over the rows of the other keys up to each row in order of time.
    fn over(&mut self, sessions: &Sessions, input: Rel, name: &'static str, value: Expr) -> Result<(Rel, Expr)> {
        let Sessions { others, time, place } = sessions;
        let (call, arguments) = self.named_call(name, vec![value], *place)?;
        let column = self.column(name, time.ty, time.typmod);
        let call = WindowCall {
            call,
            arguments,
            filter: None,
            partition_by: others.clone(),
            order_by: vec![SortKey { expr: time.clone(), descending: false, nulls_first: false }],
            frame: Frame {
                unit: FrameUnit::Rows,
                start: Bound::UnboundedPreceding,
                end: Bound::CurrentRow,
                exclude: FrameExclude::NoOthers,
            },
        };
        let rel = Rel::Window { input: Box::new(input), calls: vec![(column, call)] };
        Ok((rel, self.column_expr(column, *place)))
    }
}

/// The window functions of sessions have this in common.
struct Sessions {
    /// The other keys of GROUP BY.
    others: Vec<Expr>,
    time: Expr,
    place: Pos,
}

/// CASE WHEN … THEN … ELSE … END
fn either(condition: Expr, value: Expr, otherwise: Expr) -> Expr {
    let (ty, typmod, at) = (otherwise.ty, otherwise.typmod, otherwise.at);
    let kind =
        ExprKind::Case { operand: None, branches: vec![(condition, value)], otherwise: Some(Box::new(otherwise)) };
    Expr { kind, ty, typmod, at }
}
