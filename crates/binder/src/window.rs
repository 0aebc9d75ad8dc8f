//! Window functions and windows.

use catalog::{CastContext, Function, TypeId};
use model::{Error, Result, SqlState};
use parser::ast::{self, FrameBound, FrameExclude, FrameUnit, FunctionCall, Ident, Over, Pos, WindowSpec};
use rustc_hash::FxHashSet;
use scalar::{Call, Expr};

use crate::binder::{Binder, at_place, error};
use crate::scope::{Clause, Scope};
use crate::tree::{Bound, Frame, SortKey, WindowCall};

/// SQLSTATE of errors about windows.
const WINDOWING_ERROR: SqlState = SqlState("42P20");

impl Binder<'_> {
    /// A call with OVER: it becomes a column of its query.
    pub(crate) fn window_call(
        &mut self,
        scope: &Scope<'_>,
        function: &Function,
        call: Call,
        arguments: Vec<Expr>,
        written: &FunctionCall,
        over: &Over,
    ) -> Result<Expr> {
        let at = written.at;
        match scope.clause.get() {
            Clause::SelectList | Clause::OrderBy | Clause::DistinctOn => {}
            Clause::WindowArgument | Clause::WindowPartition | Clause::WindowOrder | Clause::WindowFrame => {
                return Err(error(WINDOWING_ERROR, "window function calls cannot be nested", at));
            }
            Clause::AggregateArgument => {
                let text = "aggregate function calls cannot contain window function calls";
                return Err(error(SqlState::GROUPING_ERROR, text, at));
            }
            clause => {
                let text = format!("window functions are not allowed in {}", clause.name());
                return Err(error(WINDOWING_ERROR, text, at));
            }
        }
        let refused = [
            (written.distinct, "DISTINCT is not implemented for window functions"),
            (
                !written.order_by.is_empty() && !written.within_group,
                "aggregate ORDER BY is not implemented for window functions",
            ),
        ];
        if let Some((_, text)) = refused.iter().find(|(is_there, _)| *is_there) {
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, *text, at));
        }
        let is_aggregate = matches!(function.kind, catalog::FunctionKind::Aggregate(_));
        if written.filter.is_some() && !is_aggregate {
            let text = "FILTER is not implemented for non-aggregate window functions";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at));
        }
        let filter = self.aggregate_filter(scope, written)?;
        let (partition_by, order_by, frame) = self.window(scope, over)?;
        let mut read = FxHashSet::default();
        arguments.iter().chain(&filter).for_each(|expr| self.outer.of_expr(expr, &mut read));
        if scope.sets.borrow().iter().any(|(column, ..)| read.contains(column)) {
            let text = "window function calls cannot contain set-returning function calls";
            let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, text, at).with_hint(hint));
        }
        let result = call.result;
        let window = WindowCall { call, arguments, filter, partition_by, order_by, frame };
        let column = self.column(function.name, result, -1);
        scope.windows.borrow_mut().push((column, window));
        Ok(self.column_expr(column, at))
    }

    /// Checks definitions of the WINDOW clause that no call uses.
    pub(crate) fn check_windows(&mut self, scope: &Scope<'_>) -> Result<()> {
        let names: Vec<(Ident, WindowSpec)> = scope.window_names.borrow().clone();
        for (name, spec) in names {
            self.window(scope, &Over::Window(name, spec.at))?;
        }
        Ok(())
    }

    fn window(&mut self, scope: &Scope<'_>, over: &Over) -> Result<(Vec<Expr>, Vec<SortKey>, Frame)> {
        let spec = match over {
            Over::Spec(spec) => self.complete_spec(scope, spec, usize::MAX)?,
            Over::Window(name, at) => self.named_window(scope, name, *at, usize::MAX)?,
        };
        let partition_by = self.in_clause(scope, Clause::WindowPartition, |binder| {
            let mut keys = Vec::with_capacity(spec.partition_by.len());
            for expr in &spec.partition_by {
                let key = binder.expr(scope, expr)?;
                let key = binder.known(key)?;
                binder.check_equality(key.ty, key.at)?;
                keys.push(key);
            }
            Ok(keys)
        })?;
        let order_by = self.in_clause(scope, Clause::WindowOrder, |binder| binder.sort_keys(scope, &spec.order_by))?;
        let frame = self.frame(scope, spec.frame.as_ref(), &order_by, spec.at)?;
        Ok((partition_by, order_by, frame))
    }

    /// The definition of a window's name. `before`: a definition may only refer to those before it.
    fn named_window(&self, scope: &Scope<'_>, name: &Ident, at: Pos, before: usize) -> Result<WindowSpec> {
        let names = scope.window_names.borrow();
        let found = names.iter().take(before).position(|(other, _)| other == name);
        let Some(number) = found else {
            let text = format!("window \"{name}\" does not exist");
            return Err(error(SqlState::UNDEFINED_OBJECT, text, at));
        };
        let spec = names[number].1.clone();
        drop(names);
        self.complete_spec(scope, &spec, number)
    }

    /// A definition with what it takes over from the window that it is made from.
    fn complete_spec(&self, scope: &Scope<'_>, spec: &WindowSpec, before: usize) -> Result<WindowSpec> {
        let Some(base_name) = &spec.base else { return Ok(spec.clone()) };
        let base = self.named_window(scope, base_name, spec.at, before)?;
        let refuse = |what: &str| Err(error(WINDOWING_ERROR, what, spec.at));
        if !spec.partition_by.is_empty() {
            return refuse(&format!("cannot override PARTITION BY clause of window \"{base_name}\""));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return refuse(&format!("cannot override ORDER BY clause of window \"{base_name}\""));
        }
        if base.frame.is_some() {
            let is_plain = spec.order_by.is_empty() && spec.frame.is_none();
            let text = format!("cannot copy window \"{base_name}\" because it has a frame clause");
            let error = error(WINDOWING_ERROR, text, spec.at);
            return Err(if is_plain { error.with_hint("Omit the parentheses in this OVER clause.") } else { error });
        }
        let order_by = if base.order_by.is_empty() { spec.order_by.clone() } else { base.order_by };
        Ok(WindowSpec { base: None, partition_by: base.partition_by, order_by, frame: spec.frame.clone(), at: spec.at })
    }

    fn frame(&mut self, scope: &Scope<'_>, frame: Option<&ast::Frame>, order_by: &[SortKey], at: Pos) -> Result<Frame> {
        let Some(frame) = frame else {
            return Ok(Frame {
                unit: FrameUnit::Range,
                start: Bound::UnboundedPreceding,
                end: Bound::CurrentRow,
                exclude: FrameExclude::NoOthers,
            });
        };
        let has_offset = |bound: &FrameBound| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_));
        let offsets = has_offset(&frame.start) || frame.end.as_ref().is_some_and(has_offset);
        if frame.unit == FrameUnit::Range && offsets && order_by.len() != 1 {
            let text = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
            return Err(error(WINDOWING_ERROR, text, at));
        }
        if frame.unit == FrameUnit::Groups && order_by.is_empty() {
            return Err(error(WINDOWING_ERROR, "GROUPS mode requires an ORDER BY clause", at));
        }
        let start = self.frame_bound(scope, &frame.start, frame.unit, order_by)?;
        let end = match &frame.end {
            Some(end) => self.frame_bound(scope, end, frame.unit, order_by)?,
            None => Bound::CurrentRow,
        };
        Ok(Frame { unit: frame.unit, start, end, exclude: frame.exclude })
    }

    fn frame_bound(
        &mut self,
        scope: &Scope<'_>,
        bound: &FrameBound,
        unit: FrameUnit,
        order_by: &[SortKey],
    ) -> Result<Bound> {
        let (offset, preceding) = match bound {
            FrameBound::UnboundedPreceding => return Ok(Bound::UnboundedPreceding),
            FrameBound::UnboundedFollowing => return Ok(Bound::UnboundedFollowing),
            FrameBound::CurrentRow => return Ok(Bound::CurrentRow),
            FrameBound::Preceding(offset) => (offset, true),
            FrameBound::Following(offset) => (offset, false),
        };
        let name = match unit {
            FrameUnit::Rows => "ROWS",
            FrameUnit::Range => "RANGE",
            FrameUnit::Groups => "GROUPS",
        };
        let offset = self.in_clause(scope, Clause::WindowFrame, |binder| binder.expr(scope, offset))?;
        let offset = match (unit, order_by) {
            (FrameUnit::Range, [key]) => self.range_offset(offset, key.expr.ty)?,
            _ => self.argument_of(offset, TypeId::INT8, name)?,
        };
        self.check_no_columns(scope, &offset, name)?;
        Ok(if preceding { Bound::Preceding(offset) } else { Bound::Following(offset) })
    }

    /// The offset of RANGE, of the type that is added to sort keys of type `key`.
    fn range_offset(&mut self, offset: Expr, key: TypeId) -> Result<Expr> {
        let types: &[TypeId] = match key {
            TypeId::INT2 | TypeId::INT4 => &[TypeId::INT4, TypeId::INT2, TypeId::INT8],
            TypeId::INT8 => &[TypeId::INT8],
            TypeId::FLOAT4 | TypeId::FLOAT8 => &[TypeId::FLOAT8],
            TypeId::NUMERIC => &[TypeId::NUMERIC],
            TypeId::DATE
            | TypeId::TIME
            | TypeId::TIMETZ
            | TypeId::TIMESTAMP
            | TypeId::TIMESTAMPTZ
            | TypeId::INTERVAL => &[TypeId::INTERVAL],
            _ => {
                let name = self.type_name(key);
                let text = format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {name}");
                return Err(at_place(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text), offset.at));
            }
        };
        if types.contains(&offset.ty) {
            return Ok(offset);
        }
        let (from, at) = (offset.ty, offset.at);
        match self.coerced(offset, types[0], -1, CastContext::Implicit)? {
            Some(offset) => Ok(offset),
            None => {
                let (key, from) = (self.type_name(key), self.type_name(from));
                let text = format!(
                    "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {key} and offset type {from}"
                );
                let hint = "Cast the offset value to an appropriate type.";
                Err(at_place(Error::new(SqlState::FEATURE_NOT_SUPPORTED, text).with_hint(hint), at))
            }
        }
    }
}
