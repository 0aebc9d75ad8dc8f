//! DISTINCT, ORDER BY, OFFSET and LIMIT: from joined or grouped rows to the result.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use model::{Datum, Error, Result, SqlState, Type};
use rows::key;
use rustc_hash::FxHashSet;

use crate::aggregate::nullable;
use crate::exec::{self, Flow, Run, SavedRow};
use crate::expr::Expr;
use crate::plan::Order;
use crate::select::Select;

/// Callback for result rows.
pub(crate) type Emit<'f, 'a> = &'f mut dyn FnMut(&[Datum<'a>]) -> Result<Flow>;

/// State of DISTINCT, ORDER BY, OFFSET and LIMIT for one run.
pub(crate) struct SortLimit<'a> {
    select: &'a Select,
    skip: i64,
    pub(crate) left: i64,
    seen: FxHashSet<Vec<u8>>,
    /// DISTINCT ON: sort keys of the previous row.
    before: Option<Vec<Datum<'a>>>,
    kept: Vec<SortRow<'a>>,
    /// Number of buffered rows whose memory has been counted.
    counted: usize,
    /// OFFSET + LIMIT: the number of sorted rows needed.
    most: usize,
    /// Whether the first `most` buffered rows are sorted and precede all discarded rows.
    cut: bool,
    row: bumpalo::collections::Vec<'a, Datum<'a>>,
    pub(crate) emitted: u64,
}

/// A buffered row: its output, or the input rows if output is computed after locking.
struct SortRow<'a> {
    keys: Vec<Datum<'a>>,
    computed: Vec<Datum<'a>>,
    saved: Option<SavedRow<'a>>,
}

impl<'a> SortLimit<'a> {
    pub(crate) fn new(select: &'a Select, run: &Run<'a>) -> Result<SortLimit<'a>> {
        let number = |expr: &'a Option<Expr>, state, what: &str| {
            let Some(expr) = expr else { return Ok(None) };
            match expr.eval(&run.frame)? {
                Datum::Int8(..0) => Err(Error::new(state, format!("{what} must not be negative"))),
                Datum::Int8(value) => Ok(Some(value)),
                _ => Ok(None),
            }
        };
        let left = number(&select.limit, SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?.unwrap_or(i64::MAX);
        let skip = number(&select.offset, SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")?.unwrap_or(0);
        // Rows locked after sorting may be gone, so the number needed is not known in advance.
        let most = if select.made_last || select.distinct_on > 0 {
            usize::MAX
        } else {
            usize::try_from(skip.saturating_add(left)).unwrap_or(usize::MAX)
        };
        Ok(SortLimit {
            select,
            left,
            skip,
            seen: FxHashSet::default(),
            before: None,
            kept: Vec::new(),
            counted: 0,
            most,
            cut: false,
            row: bumpalo::collections::Vec::with_capacity_in(select.output.len(), run.frame.ctx.arena),
            emitted: 0,
        })
    }

    /// Takes a joined row. It is locked now, unless the sort decides which rows are locked.
    pub(crate) fn joined(&mut self, run: &mut Run<'a>, emit: Emit<'_, 'a>) -> Result<Flow> {
        if self.select.made_last && !self.select.ordered {
            let keys = self.keys(run)?;
            self.push(run, SortRow { keys, computed: Vec::new(), saved: Some(run.save_row()) })?;
            return Ok(ControlFlow::Continue(()));
        }
        if exec::lock(&self.select.locks, &self.select.conditions, run)? {
            self.row(run, emit)
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }

    fn keys(&self, run: &Run<'a>) -> Result<Vec<Datum<'a>>> {
        self.select.order.iter().map(|one| one.by.eval(&run.frame)).collect()
    }

    /// Sort keys of the current output row; output columns are not evaluated again.
    fn keys_of_made(&self, run: &Run<'a>) -> Result<Vec<Datum<'a>>> {
        let key = |one: &'a Order| match one.output {
            Some(at) => Ok(self.row[at].clone()),
            None => one.by.eval(&run.frame),
        };
        self.select.order.iter().map(key).collect()
    }

    /// Takes the row in the frame.
    pub(crate) fn row(&mut self, run: &mut Run<'a>, emit: Emit<'_, 'a>) -> Result<Flow> {
        // Rows skipped by OFFSET are evaluated too, as in PostgreSQL, so their errors are reported.
        self.make(run)?;
        if self.select.distinct && !self.is_new(run)? {
            return Ok(ControlFlow::Continue(()));
        }
        if self.select.ordered {
            if self.select.distinct_on > 0 {
                let keys = self.keys_of_made(run)?;
                if !self.is_first(keys) {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            return self.emit(run, emit);
        }
        let keys = self.keys_of_made(run)?;
        self.keep(run, keys)?;
        Ok(ControlFlow::Continue(()))
    }

    fn push(&mut self, run: &Run<'a>, one: SortRow<'a>) -> Result<()> {
        if self.kept.len() == self.counted {
            self.counted += 1;
            run.ctx().keep(size_of::<SortRow<'_>>() + bytes_of(&one.keys) + bytes_of(&one.computed));
            run.ctx().room(0)?;
        }
        self.kept.push(one);
        Ok(())
    }

    /// DISTINCT ON: whether a row is the first of its group; rows come in order.
    fn is_first(&mut self, keys: Vec<Datum<'a>>) -> bool {
        let told = &self.select.order[..self.select.distinct_on];
        let same = self.before.as_ref().is_some_and(|before| in_order(told, before, &keys).is_eq());
        if !same {
            self.before = Some(keys);
        }
        !same
    }

    /// Buffers the current row if it can be among the first `most`. Of equal rows the earlier one is kept.
    fn keep(&mut self, run: &Run<'a>, keys: Vec<Datum<'a>>) -> Result<()> {
        let order = &self.select.order;
        if self.cut && in_order(order, &keys, &self.kept[self.most - 1].keys).is_ge() {
            return Ok(());
        }
        let computed = self.row.to_vec();
        self.push(run, SortRow { keys, computed, saved: None })?;
        if self.kept.len() >= self.most.saturating_mul(2) {
            self.kept.sort_by(|a, b| in_order(order, &a.keys, &b.keys));
            self.kept.truncate(self.most);
            self.cut = true;
        }
        Ok(())
    }

    fn make(&mut self, run: &Run<'a>) -> Result<()> {
        self.row.clear();
        for expr in &self.select.output {
            self.row.push(expr.eval(&run.frame)?);
        }
        Ok(())
    }

    fn is_new(&mut self, run: &Run<'a>) -> Result<bool> {
        let mut bytes = Vec::new();
        for (at, (value, column)) in self.row.iter().zip(&self.select.columns).enumerate() {
            let as_text = self.select.texts.iter().find(|text| text.at == at);
            let ty = as_text.and_then(|text| Type::from_oid(text.ty.0, -1)).unwrap_or(column.ty);
            key::push(&mut bytes, &nullable(ty), value)?;
        }
        let taken = bytes.len() + size_of::<Vec<u8>>();
        let is_new = self.seen.insert(bytes);
        if is_new {
            run.ctx().keep(taken);
        }
        Ok(is_new)
    }

    fn emit(&mut self, run: &Run<'a>, emit: Emit<'_, 'a>) -> Result<Flow> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.left -= 1;
        self.emitted += 1;
        for column in &self.select.texts {
            let value = &mut self.row[column.at];
            if !value.is_null() {
                let (ctx, mut text) = (run.ctx().values()?, String::new());
                scalar::output(value, column.ty, ctx, &mut text)?;
                *value = ctx.text(&text);
                run.ctx().room(0)?;
            }
        }
        let flow = emit(&self.row)?;
        Ok(if flow.is_continue() && self.left == 0 { ControlFlow::Break(()) } else { flow })
    }

    /// Sorts the buffered rows and emits them.
    pub(crate) fn end(&mut self, run: &mut Run<'a>, emit: Emit<'_, 'a>) -> Result<Flow> {
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_by(|a, b| in_order(&self.select.order, &a.keys, &b.keys));
        for one in kept {
            if self.select.distinct_on > 0 && !self.is_first(one.keys) {
                continue;
            }
            match one.saved {
                Some(saved) => {
                    run.restore_row(saved);
                    if !exec::lock(&self.select.locks, &self.select.conditions, run)? {
                        continue;
                    }
                    self.make(run)?;
                }
                None => {
                    self.row.clear();
                    self.row.extend(one.computed);
                }
            }
            let flow = self.emit(run, emit)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Memory of buffered values.
pub(crate) fn bytes_of(values: &[Datum<'_>]) -> usize {
    size_of_val(values) + values.iter().map(Datum::heap_size).sum::<usize>()
}

pub(crate) fn in_order(order: &[Order], left: &[Datum<'_>], right: &[Datum<'_>]) -> Ordering {
    for ((one, left), right) in order.iter().zip(left).zip(right) {
        let found = match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => {
                if one.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if one.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let found = left.compare(right).unwrap_or(Ordering::Equal);
                if one.descending { found.reverse() } else { found }
            }
        };
        if found.is_ne() {
            return found;
        }
    }
    Ordering::Equal
}
