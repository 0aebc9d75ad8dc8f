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
use rustc_hash::FxHashSet;

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
    /// Asked now and then whether to go on.
    pub(crate) check: &'a dyn Fn() -> Result<()>,
}

/// So many rows are looked at between two questions whether to go on.
const ROWS_PER_CHECK: u32 = 1_024;

/// One run of a statement.
pub(crate) struct Run<'a, 't> {
    pub(crate) txn: &'t mut Txn,
    pub(crate) guard: &'a Guard,
    pub(crate) frame: Frame<'a>,
    /// Which record each slot's row is of.
    pub(crate) records: &'a [Cell<RecordId>],
    /// By slot.
    pub(crate) tables: &'a [Arc<RowTable>],
    check: &'a dyn Fn() -> Result<()>,
    /// Rows that may be looked at before the next question.
    left: u32,
    /// For keys; those in use are not here.
    buffers: Vec<Vec<u8>>,
}

/// The rows of a joined row, and which records they are of.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    rows: &'a [Option<&'a [u8]>],
    records: &'a [RecordId],
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
            rows: given.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(None)),
            params: given.params,
            arena: given.arena,
            now: given.now,
            zone: given.zone,
            results: answers,
            made: Vec::new(),
        };
        Run {
            txn,
            guard: given.guard,
            frame,
            records: given.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(RecordId(0))),
            tables,
            check: given.check,
            left: ROWS_PER_CHECK,
            buffers: Vec::new(),
        }
    }

    /// What every slot holds.
    pub(crate) fn held(&self) -> Held<'a> {
        let arena = self.frame.arena;
        let rows = arena.alloc_slice_fill_iter(self.frame.rows.iter().map(Cell::get));
        Held { rows, records: arena.alloc_slice_fill_iter(self.records.iter().map(Cell::get)) }
    }

    /// Has every slot hold again what it held.
    pub(crate) fn put_back(&self, held: Held<'a>) {
        self.frame.rows.iter().zip(held.rows).for_each(|(slot, row)| slot.set(*row));
        self.records.iter().zip(held.records).for_each(|(slot, record)| slot.set(*record));
    }

    /// Counts a row that is looked at.
    fn look(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = ROWS_PER_CHECK;
            return (self.check)();
        }
        Ok(())
    }

    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.buffers.pop().unwrap_or_default();
        buffer.clear();
        buffer
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
    match &step.access {
        Access::Points(keys) => points(table, step.slot, keys, run, each),
        Access::PointsOf { before, result } => points_of(table, step.slot, before, *result, run, each),
        Access::Range(part) => range(table, step.slot, part, run, each),
        Access::Beginnings { index, keys } => beginnings(table, step.slot, *index, keys, run, each),
        Access::All => all(table, step.slot, run, each),
    }
}

fn primary(table: &RowTable) -> Result<&IndexData> {
    table.primary.as_deref().ok_or_else(|| Error::bug("a table without primary key is looked up by it"))
}

/// The rows with these whole primary keys.
fn points<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    keys: &'a [Vec<Expr>],
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let primary = primary(table)?;
    // A key that stands in a list twice is one row.
    let mut seen = FxHashSet::default();
    for parts in keys {
        let mut bytes = run.buffer();
        let is_known = encode(parts, primary, run, &mut bytes)?;
        let is_new = is_known && (keys.len() == 1 || seen.insert(bytes.clone()));
        let found = if is_new { run.txn.get(table, &bytes, run.guard)? } else { None };
        run.buffers.push(bytes);
        let flow = point(slot, found, run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The rows whose primary key ends with something that a subquery gave.
fn points_of<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    before: &'a [Expr],
    result: usize,
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let primary = primary(table)?;
    let last = primary.keys().last().ok_or_else(|| Error::bug("a primary key without columns"))?;
    let mut bytes = run.buffer();
    let known = encode(before, primary, run, &mut bytes)?;
    let prefix = bytes.len();
    let mut flow = ControlFlow::Continue(());
    for at in 0..if known { run.frame.results[result].values.len() } else { 0 } {
        bytes.truncate(prefix);
        key::push(&mut bytes, last, &run.frame.results[result].values[at])?;
        let found = run.txn.get(table, &bytes, run.guard)?;
        flow = point(slot, found, run, each)?;
        if flow.is_break() {
            break;
        }
    }
    run.buffers.push(bytes);
    Ok(flow)
}

fn point<'a, 't>(
    slot: usize,
    found: Option<(RecordId, &'a [u8])>,
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    run.look()?;
    let Some((record, row)) = found else { return Ok(ControlFlow::Continue(())) };
    run.slot(slot).set(Some(row));
    run.records[slot].set(record);
    each(run)
}

fn all<'a, 't>(table: &'a Arc<RowTable>, slot: usize, run: &mut Run<'a, 't>, each: Each<'_, 'a, 't>) -> Result<Flow> {
    for record in table.records.all() {
        run.look()?;
        if let Some(row) = run.txn.read(table, record, run.guard)? {
            run.slot(slot).set(Some(row));
            run.records[slot].set(record);
            let flow = each(run)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }
    Ok(ControlFlow::Continue(()))
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

fn index_of(table: &RowTable, which: Which) -> Result<&IndexData> {
    let index = match which {
        Which::Primary => table.primary.as_ref(),
        Which::Secondary(at) => table.secondary.get(at),
    };
    index.map(|index| &**index).ok_or_else(|| Error::bug("an index that the plan names is not there"))
}

fn range<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    part: &'a Range,
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let index = index_of(table, part.index)?;
    let (mut low, mut high) = (run.buffer(), run.buffer());
    let mut flow = ControlFlow::Continue(());
    if encode(&part.equal, index, run, &mut low)? {
        high.extend_from_slice(&low);
        let column = index.keys().get(part.equal.len());
        let from = end(part.low.as_ref(), column, run, &mut low, false)?;
        let to = end(part.high.as_ref(), column, run, &mut high, true)?;
        let direction = if part.backwards { Direction::Backward } else { Direction::Forward };
        if let (Some(from), Some(to)) = (from, to) {
            flow = between(table, slot, part.index, (from, to, direction), run, each)?;
        }
    }
    run.buffers.extend([low, high]);
    Ok(flow)
}

/// The rows whose keys begin with one of these.
fn beginnings<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    which: Which,
    keys: &'a [Vec<Expr>],
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let mut seen = FxHashSet::default();
    for parts in keys {
        let (mut low, mut high) = (run.buffer(), run.buffer());
        let mut flow = ControlFlow::Continue(());
        if encode(parts, index, run, &mut low)? && seen.insert(low.clone()) {
            high.extend_from_slice(&low);
            let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
            flow = between(table, slot, which, (Bound::Included(&low), to, Direction::Forward), run, each)?;
        }
        run.buffers.extend([low, high]);
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The rows between two keys of an index.
fn between<'a, 't>(
    table: &'a Arc<RowTable>,
    slot: usize,
    which: Which,
    (from, to, direction): (Bound<&[u8]>, Bound<&[u8]>, Direction),
    run: &mut Run<'a, 't>,
    each: Each<'_, 'a, 't>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let guard = run.guard;
    let mut one = |entry: &[u8], record| {
        run.look()?;
        let row = match which {
            Which::Primary => run.txn.read(table, record, guard)?,
            Which::Secondary(_) => run.txn.read_entry(table, index, entry, record, guard)?,
        };
        if row.is_none() {
            return Ok(ControlFlow::Continue(()));
        }
        run.slot(slot).set(row);
        run.records[slot].set(record);
        each(run)
    };
    let mut ended = Ok(ControlFlow::Continue(()));
    index.scan(from, to, direction, guard, |entry, record| {
        ended = one(entry, record);
        if matches!(ended, Ok(ControlFlow::Continue(()))) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    ended
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
