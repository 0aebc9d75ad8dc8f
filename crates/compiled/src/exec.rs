//! Running a plan: nested loops that hand each joined row on as soon as it is there.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result};
use rows::key::KeyColumn;
use rows::{Direction, IndexData, LockMode, Locked, RecordId, RowTable, Txn, WaitPolicy, key};

use crate::cast::Zone;
use crate::expr::{Answer, Expr, Frame};
use crate::plan::{Access, Range, Step, Which};

/// Why a statement stopped before its end.
pub(crate) enum Stop {
    /// Enough rows.
    Done,
    /// Undo it, wait, run it again.
    Wait(Event),
}

pub(crate) type Flow = ControlFlow<Stop>;

/// What a run is given from outside.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) params: &'a [Datum<'a>],
    pub(crate) arena: &'a Bump,
    pub(crate) now: i64,
    pub(crate) zone: &'a dyn Zone,
    pub(crate) guard: &'a Guard,
}

/// One run of a statement.
pub(crate) struct Run<'a, 't> {
    pub(crate) txn: &'t mut Txn,
    pub(crate) guard: &'a Guard,
    pub(crate) frame: Frame<'a>,
    /// Which record each slot's row is of.
    pub(crate) records: Vec<Cell<RecordId>>,
    /// By slot.
    pub(crate) tables: &'a [Arc<RowTable>],
}

/// FOR UPDATE and its kin: which slots, how strongly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) mode: LockMode,
    pub(crate) policy: WaitPolicy,
}

/// What is done with each joined row.
pub(crate) type Each<'f, 'a, 't> = &'f mut dyn FnMut(&mut Run<'a, 't>) -> Result<Flow>;

impl<'a, 't> Run<'a, 't> {
    /// With no rows yet; `answers` are those of subqueries.
    pub(crate) fn new(
        tables: &'a [Arc<RowTable>],
        answers: Vec<Answer<'a>>,
        given: Given<'a>,
        txn: &'t mut Txn,
    ) -> Run<'a, 't> {
        let frame = Frame {
            rows: vec![Cell::new(None); tables.len()],
            params: given.params,
            arena: given.arena,
            now: given.now,
            zone: given.zone,
            results: answers,
            made: Vec::new(),
        };
        Run { txn, guard: given.guard, frame, records: vec![Cell::new(RecordId(0)); tables.len()], tables }
    }

    /// What every slot holds.
    pub(crate) fn held(&self) -> (Vec<Option<&'a [u8]>>, Vec<RecordId>) {
        (self.frame.rows.iter().map(Cell::get).collect(), self.records.iter().map(Cell::get).collect())
    }

    /// Has every slot hold again what it held.
    pub(crate) fn put_back(&self, rows: &[Option<&'a [u8]>], records: &[RecordId]) {
        self.frame.rows.iter().zip(rows).for_each(|(slot, row)| slot.set(*row));
        self.records.iter().zip(records).for_each(|(slot, record)| slot.set(*record));
    }

    pub(crate) fn slot(&self, slot: usize) -> &Cell<Option<&'a [u8]>> {
        &self.frame.rows[slot]
    }
}

/// Runs the steps from `at` on, over the rows that the slots hold.
pub(crate) fn join<'a, 't>(steps: &'a [Step], run: &mut Run<'a, 't>, each: Each<'_, 'a, 't>) -> Result<Flow> {
    let Some((step, rest)) = steps.split_first() else { return each(run) };
    let mut found = false;
    let optional = step.optional.as_deref();
    let flow = candidates(step, run, &mut |run| {
        for condition in optional.into_iter().flatten() {
            if !condition.holds(&run.frame)? {
                return Ok(ControlFlow::Continue(()));
            }
        }
        found = true;
        onwards(step, rest, run, each)
    })?;
    if flow.is_continue() && !found && optional.is_some() {
        run.slot(step.slot).set(None);
        return onwards(step, rest, run, each);
    }
    Ok(flow)
}

fn onwards<'a, 't>(step: &'a Step, rest: &'a [Step], run: &mut Run<'a, 't>, each: Each<'_, 'a, 't>) -> Result<Flow> {
    for condition in &step.filter {
        if !condition.holds(&run.frame)? {
            return Ok(ControlFlow::Continue(()));
        }
    }
    join(rest, run, each)
}

/// Every visible row that the access finds, in its slot.
fn candidates<'a, 't>(step: &'a Step, run: &mut Run<'a, 't>, each: Each<'_, 'a, 't>) -> Result<Flow> {
    let table = &run.tables[step.slot];
    let primary =
        || table.primary.as_deref().ok_or_else(|| Error::bug("a table without primary key is looked up by it"));
    match &step.access {
        Access::Points(keys) => {
            let primary = primary()?;
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for parts in keys {
                let mut bytes = Vec::new();
                let known = encode(parts, primary, run, &mut bytes)?;
                // A key that stands in a list twice is one row.
                if !known || keys.len() > 1 && seen.contains(&bytes) {
                    continue;
                }
                let flow = point(table, step.slot, &bytes, run, each)?;
                if flow.is_break() {
                    return Ok(flow);
                }
                if keys.len() > 1 {
                    seen.push(bytes);
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Access::PointsOf { before, result } => {
            let primary = primary()?;
            let last = primary.keys().last().ok_or_else(|| Error::bug("a primary key without columns"))?;
            let mut bytes = Vec::new();
            if !encode(before, primary, run, &mut bytes)? {
                return Ok(ControlFlow::Continue(()));
            }
            let prefix = bytes.len();
            for at in 0..run.frame.results[*result].values.len() {
                bytes.truncate(prefix);
                key::push(&mut bytes, last, &run.frame.results[*result].values[at])?;
                let flow = point(table, step.slot, &bytes, run, each)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Access::Range(part) => range(table, step.slot, part, run, each),
        Access::All => {
            let mut flow = ControlFlow::Continue(());
            for record in table.records.all() {
                if let Some(row) = run.txn.read(table, record, run.guard)? {
                    run.slot(step.slot).set(Some(row));
                    run.records[step.slot].set(record);
                    flow = each(run)?;
                    if flow.is_break() {
                        break;
                    }
                }
            }
            Ok(flow)
        }
    }
}

/// Appends the beginning of a key; false if a part is NULL, to which nothing is equal.
fn encode<'a>(parts: &'a [Expr], index: &IndexData, run: &Run<'a, '_>, out: &mut Vec<u8>) -> Result<bool> {
    for (part, column) in parts.iter().zip(index.keys()) {
        let value = part.eval(&run.frame)?;
        if value.is_null() {
            return Ok(false);
        }
        key::push(out, column, &value)?;
    }
    Ok(true)
}

fn point<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    bytes: &[u8],
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let Some((record, row)) = run.txn.get(table, bytes, run.guard)? else { return Ok(ControlFlow::Continue(())) };
    run.slot(slot).set(Some(row));
    run.records[slot].set(record);
    each(run)
}

fn range<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    part: &'a Range,
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let index = match part.index {
        Which::Primary => table.primary.as_ref(),
        Which::Secondary(at) => table.secondary.get(at),
    };
    let index = index.ok_or_else(|| Error::bug("an index that the plan names is not there"))?;
    let mut low = Vec::new();
    if !encode(&part.equal, index, run, &mut low)? {
        return Ok(ControlFlow::Continue(()));
    }
    let mut high = low.clone();
    let column = index.keys().get(part.equal.len());
    let Some(from) = end(part.low.as_ref(), column, run, &mut low, false)? else {
        return Ok(ControlFlow::Continue(()));
    };
    let Some(to) = end(part.high.as_ref(), column, run, &mut high, true)? else { return Ok(ControlFlow::Continue(())) };
    let direction = if part.backwards { Direction::Backward } else { Direction::Forward };
    let (mut flow, mut failed) = (ControlFlow::Continue(()), None);
    let guard = run.guard;
    let primary = part.index == Which::Primary;
    index.scan(from, to, direction, guard, |entry, record| {
        let row = if primary {
            run.txn.read(table, record, guard)
        } else {
            run.txn.read_entry(table, index, entry, record, guard)
        };
        match row {
            Ok(Some(row)) => {
                run.slot(slot).set(Some(row));
                run.records[slot].set(record);
                match each(run) {
                    Ok(next) => flow = next,
                    Err(error) => failed = Some(error),
                }
            }
            Ok(None) => {}
            Err(error) => failed = Some(error),
        }
        if failed.is_some() || flow.is_break() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    failed.map_or(Ok(flow), Err)
}

/// One end of a range: `None` if nothing can be in it. `bytes` holds the equal part.
fn end<'b, 'a>(
    bound: Option<&'a (Expr, bool)>,
    column: Option<&KeyColumn>,
    run: &Run<'a, '_>,
    bytes: &'b mut Vec<u8>,
    high: bool,
) -> Result<Option<Bound<&'b [u8]>>> {
    let (Some((expr, inclusive)), Some(column)) = (bound, column) else {
        if !high {
            return Ok(Some(if bytes.is_empty() { Bound::Unbounded } else { Bound::Included(bytes) }));
        }
        // Whatever begins with the equal part. (NULLs are among it where nothing else bounds the column.)
        return Ok(Some(if key::prefix_end(bytes) { Bound::Excluded(bytes) } else { Bound::Unbounded }));
    };
    let value: Datum<'a> = expr.eval(&run.frame)?;
    if value.is_null() {
        return Ok(None);
    }
    key::push(bytes, column, &value)?;
    // Longer keys begin with this value: they belong to it.
    Ok(Some(match (high, *inclusive) {
        (false, true) => Bound::Included(bytes),
        (true, false) => Bound::Excluded(bytes),
        (false, false) => {
            if key::prefix_end(bytes) {
                Bound::Included(bytes)
            } else {
                return Ok(None);
            }
        }
        (true, true) => {
            if key::prefix_end(bytes) {
                Bound::Excluded(bytes)
            } else {
                Bound::Unbounded
            }
        }
    }))
}

/// Locks the rows in these slots, and looks again at the conditions where one has changed. `None`: the joined row is out.
pub(crate) fn lock<'a>(
    slots: &[usize],
    lock: Lock,
    conditions: &'a [Expr],
    run: &mut Run<'a, '_>,
) -> Result<std::result::Result<bool, Event>> {
    let mut again = false;
    for slot in slots {
        if run.slot(*slot).get().is_none() {
            continue;
        }
        let record = run.records[*slot].get();
        match run.txn.lock_row(&run.tables[*slot], record, lock.mode, lock.policy, run.guard)? {
            Locked::Row { row, changed } => {
                run.slot(*slot).set(Some(row));
                again |= changed;
            }
            Locked::Gone | Locked::Skipped => return Ok(Ok(false)),
            Locked::Wait(event) => return Ok(Err(event)),
        }
    }
    if again {
        for condition in conditions {
            if !condition.holds(&run.frame)? {
                return Ok(Ok(false));
            }
        }
    }
    Ok(Ok(true))
}
