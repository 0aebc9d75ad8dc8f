//! Executor: nested loops over the steps of a plan. Each joined row is passed on at once; nothing is materialised
//! except hash tables and derived tables.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, SqlState, Type, limits};
use rows::inverted::Postings;
use rows::key::KeyColumn;
use rows::{Direction, IndexData, LockMode, Locked, RecordId, RowTable, Txn, View, WaitPolicy, key};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::array::Array;
use crate::derived_tables::Derived;
use crate::dml::Late;
use crate::expr::{Expr, Frame};
use crate::inverted::Seek;
use crate::key_cast;
use crate::plan::{Access, IndexRef, KeyCondition, KeyTest, Range, RangeEnd, RecordKeys, Step};
use crate::sequences::Numbers;
use crate::statement::Session;
use crate::subquery::{Subquery, SubqueryResult};

fn expression_that_reads() -> Error {
    Error::bug("an expression without tables reads one")
}

/// `Break` ends the scan: no more rows are needed.
pub(crate) type Flow = ControlFlow<()>;

/// Rows read between two calls of the session's cancellation check.
const ROWS_PER_CHECK: u32 = 1_024;

/// Bytes allocated between two calls of the session's cancellation check.
const BYTES_PER_CHECK: usize = 1 << 20;

/// Cost of changing a row, in units of one row read.
const LOOKS_PER_CHANGE: u32 = 32;

/// Cancellation checks in one slice of a query. Bounds the time an epoch guard is held to some milliseconds.
const QUESTIONS_PER_PART: u32 = 32;

/// Execution context: state shared by all queries of one run of a statement.
pub(crate) struct ExecContext<'a> {
    params: Cell<&'a [Datum<'a>]>,
    /// Parameters of the remaining rows of a batched INSERT.
    further: Cell<&'a [Datum<'a>]>,
    /// Memory for computed values; freed when the run ends.
    pub(crate) arena: &'a Bump,
    pub(crate) guard: &'a Guard,
    pub(crate) session: Session<'a>,
    /// The environment of expressions of crate `scalar`; filled on first use.
    values: OnceCell<scalar::Context<'a>>,
    /// Subqueries in expressions, by number.
    subqueries: &'a [Subquery],
    /// Results of uncorrelated subqueries; filled on first use.
    answers: Vec<OnceCell<SubqueryResult<'a>>>,
    /// Derived tables, by number.
    derived: &'a [Derived],
    /// Rows of uncorrelated derived tables; filled on first use.
    derived_rows: Vec<Cell<Option<&'a [&'a [u8]]>>>,
    /// Hash tables, by number; built on first use.
    hashed: Vec<OnceCell<Hashed<'a>>>,
    /// `arrays`: array parameters; `elements`: their decoded elements, `None` if the array is NULL.
    arrays: &'a [Array],
    elements: Vec<OnceCell<Option<SubqueryResult<'a>>>>,
    source: ReadSource<'a>,
    waits: RefCell<Option<Event>>,
    /// Checks of foreign keys that wait for the end of the statement; `None` if each change checks its own.
    late: Option<RefCell<Vec<Late<'a>>>>,
    /// Rows until the next cancellation check.
    left: Cell<u32>,
    /// Bytes allocated outside the arena.
    kept: Cell<usize>,
    /// Total bytes at the last cancellation check.
    asked: Cell<usize>,
    /// The current slice; `None` if the query runs in one piece.
    part: Option<Slice>,
    /// Functions of users, if the statement may call any.
    routines: Option<&'a dyn scalar::Routines>,
    /// Whether the run is void, because a function's value is not known yet.
    is_void: Cell<bool>,
    /// Whether the current row of an INSERT exists already, and is changed by DO UPDATE.
    met_conflict: Cell<bool>,
}

/// The source of rows.
pub(crate) enum ReadSource<'a> {
    /// No rows: only expressions are evaluated.
    Nothing,
    /// The running transaction. A `RefCell`, because a subquery reads while an expression is evaluated; each borrow
    /// is one call.
    Txn(RefCell<&'a mut Txn>),
    /// A transaction's snapshot, read from another thread; the buffer is for keys.
    View(View, RefCell<Vec<u8>>),
}

impl<'a> ReadSource<'a> {
    pub(crate) fn of(txn: &'a mut Txn) -> ReadSource<'a> {
        ReadSource::Txn(RefCell::new(txn))
    }
}

/// Position at which the next slice of a query starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResumePoint {
    #[default]
    Start,
    /// This record of the first table.
    Record(u64),
    /// The entry after this one in the first table's index.
    Entry(Box<[u8]>),
    End,
}

/// The slice of a query that runs now.
pub(crate) struct Slice {
    /// Start; taken by the scan of the first table.
    from: Cell<Option<ResumePoint>>,
    /// Position at which that scan stopped.
    stopped: Cell<Option<ResumePoint>>,
    /// Whether to stop after the first table's current row.
    enough: Cell<bool>,
    /// Cancellation checks left in this slice.
    questions: Cell<u32>,
}

impl Slice {
    pub(crate) fn at(place: ResumePoint) -> Slice {
        Slice {
            from: Cell::new(Some(place)),
            stopped: Cell::new(None),
            enough: Cell::new(false),
            questions: Cell::new(QUESTIONS_PER_PART),
        }
    }

    pub(crate) fn stop_soon(&self) {
        self.enough.set(true);
    }

    /// Start of the next slice.
    pub(crate) fn stopped(&self) -> ResumePoint {
        self.stopped.take().unwrap_or(ResumePoint::End)
    }
}

/// Plans nested in a statement.
#[derive(Clone, Copy, Default)]
pub(crate) struct SubPlans<'a> {
    pub(crate) subqueries: &'a [Subquery],
    pub(crate) derived: &'a [Derived],
    /// Number of hash tables.
    pub(crate) hashed: usize,
    pub(crate) arrays: &'a [Array],
}

impl<'a> ExecContext<'a> {
    pub(crate) fn new(
        params: &'a [Datum<'a>],
        arena: &'a Bump,
        guard: &'a Guard,
        session: Session<'a>,
        parts: SubPlans<'a>,
        source: ReadSource<'a>,
    ) -> ExecContext<'a> {
        ExecContext {
            params: Cell::new(params),
            further: Cell::new(&[]),
            arena,
            guard,
            routines: session.zone.facts().and_then(|facts| facts.routines.as_deref()),
            is_void: Cell::new(false),
            met_conflict: Cell::new(false),
            session,
            values: OnceCell::new(),
            subqueries: parts.subqueries,
            answers: parts.subqueries.iter().map(|_| OnceCell::new()).collect(),
            derived: parts.derived,
            derived_rows: parts.derived.iter().map(|_| Cell::new(None)).collect(),
            hashed: (0..parts.hashed).map(|_| OnceCell::new()).collect(),
            arrays: parts.arrays,
            elements: parts.arrays.iter().map(|_| OnceCell::new()).collect(),
            source,
            waits: RefCell::new(None),
            late: None,
            left: Cell::new(ROWS_PER_CHECK),
            kept: Cell::new(0),
            asked: Cell::new(0),
            part: None,
        }
    }

    /// For a batched INSERT: splits the parameters into rows of `width`.
    pub(crate) fn with_rows_of(self, width: usize) -> ExecContext<'a> {
        let (first, further) = self.params().split_at(width);
        self.params.set(first);
        self.further.set(further);
        self
    }

    /// The parameters of the current row, `$1` first.
    pub(crate) fn params(&self) -> &'a [Datum<'a>] {
        self.params.get()
    }

    /// Advances a batched INSERT to its next row of parameters; false after the last.
    pub(crate) fn next_row_of_params(&self) -> bool {
        let (next, further) = self.further.get().split_at(self.params().len().min(self.further.get().len()));
        if next.is_empty() {
            return false;
        }
        self.params.set(next);
        self.further.set(further);
        true
    }

    /// Foreign keys are checked at the end of the statement.
    pub(crate) fn with_late_checks(mut self) -> ExecContext<'a> {
        self.late = Some(RefCell::default());
        self
    }

    /// Keeps the checks of a change for later; returns them if they are due.
    pub(crate) fn defer(&self, late: Late<'a>) -> Option<Late<'a>> {
        match &self.late {
            Some(all) => {
                all.borrow_mut().push(late);
                None
            }
            None => Some(late),
        }
    }

    /// The checks that [`ExecContext::defer`] kept.
    pub(crate) fn deferred(&self) -> Vec<Late<'a>> {
        self.late.as_ref().map(RefCell::take).unwrap_or_default()
    }

    /// Sets the rows of a derived table.
    pub(crate) fn give_rows(&self, of: usize, rows: &[&'a [u8]]) {
        self.derived_rows[of].set(Some(self.arena.alloc_slice_copy(rows)));
    }

    /// Limits the run to one slice.
    pub(crate) fn with_slice(mut self, part: Slice) -> ExecContext<'a> {
        self.part = Some(part);
        self
    }

    /// Start of the first table's scan. The first scan takes it; later ones get `None`.
    fn take_resume_point(&self) -> Option<ResumePoint> {
        self.part.as_ref().and_then(|part| part.from.take())
    }

    /// Whether the slice ends here; if so, `next` is where the next one starts.
    fn stops(&self, next: impl FnOnce() -> ResumePoint) -> bool {
        let Some(part) = self.part.as_ref().filter(|part| part.enough.get()) else { return false };
        part.stopped.set(Some(next()));
        true
    }

    pub(crate) fn part(&self) -> Option<&Slice> {
        self.part.as_ref()
    }

    /// Notes whether the current row of an INSERT exists already.
    pub(crate) fn note_conflict(&self, is_met: bool) {
        self.met_conflict.set(is_met);
    }

    pub(crate) fn met_conflict(&self) -> bool {
        self.met_conflict.get()
    }

    /// Calls the transaction for more than reading rows.
    pub(crate) fn txn<T>(&self, ask: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        match &self.source {
            ReadSource::Txn(txn) => ask(&mut txn.borrow_mut()),
            ReadSource::Nothing | ReadSource::View(..) => Err(Error::bug("a transaction is used where there is none")),
        }
    }

    /// See [`Txn::read_walked`].
    fn read(&self, table: &'a RowTable, record: RecordId) -> Result<Option<&'a [u8]>> {
        match &self.source {
            ReadSource::Txn(txn) => txn.borrow_mut().read_walked(table, record, self.guard),
            ReadSource::View(view, _) => Ok(view.row(table, record, self.guard)),
            ReadSource::Nothing => Err(expression_that_reads()),
        }
    }

    /// See [`Txn::read`].
    fn read_alone(&self, table: &'a RowTable, record: RecordId) -> Result<Option<&'a [u8]>> {
        match &self.source {
            ReadSource::Txn(txn) => txn.borrow_mut().read(table, record, self.guard),
            ReadSource::View(view, _) => Ok(view.row(table, record, self.guard)),
            ReadSource::Nothing => Err(expression_that_reads()),
        }
    }

    /// See [`Txn::get`].
    fn get(&self, table: &'a RowTable, key: &[u8]) -> Result<Option<Found<'a>>> {
        match &self.source {
            ReadSource::Txn(txn) => txn.borrow_mut().get(table, key, self.guard),
            ReadSource::View(view, _) => Ok(view.get(table, key, self.guard)),
            ReadSource::Nothing => Err(expression_that_reads()),
        }
    }

    /// See [`Txn::read_entry`].
    fn read_entry(
        &self,
        table: &'a RowTable,
        index: &IndexData,
        entry: &[u8],
        record: RecordId,
    ) -> Result<Option<&'a [u8]>> {
        match &self.source {
            ReadSource::Txn(txn) => txn.borrow_mut().read_entry(table, index, entry, record, self.guard),
            ReadSource::View(view, key) => {
                view.row_of_entry(table, index, (entry, record), &mut key.borrow_mut(), self.guard)
            }
            ReadSource::Nothing => Err(expression_that_reads()),
        }
    }

    /// Adds a full scan of the table to the transaction's read set. For a [`View`] the caller has done so before.
    pub(crate) fn note_table(&self, table: &RowTable) {
        if let ReadSource::Txn(txn) = &self.source {
            txn.borrow_mut().note_table(table);
        }
    }

    /// Adds a range of an index to the transaction's read set.
    pub(crate) fn note_range(&self, table: &RowTable, index: &Arc<IndexData>, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        if let ReadSource::Txn(txn) = &self.source {
            txn.borrow_mut().note_range(table, index, from, to);
        }
    }

    pub(crate) fn numbers(&self) -> Result<&'a dyn Numbers> {
        self.session.numbers.ok_or_else(|| Error::unsupported("volatile functions are not supported here"))
    }

    /// The environment of expressions of crate `scalar`.
    pub(crate) fn values(&self) -> Result<&scalar::Context<'a>> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let facts = self.session.facts()?;
        Ok(self.values.get_or_init(|| scalar::Context { arena: self.arena, session: facts }))
    }

    /// Ends the statement with an error that callers replace by [`crate::Ran::Wait`] for this event.
    pub(crate) fn wait(&self, event: Event) -> Error {
        *self.waits.borrow_mut() = Some(event);
        Error::new(SqlState::LOCK_NOT_AVAILABLE, "the statement waits")
    }

    /// The functions of users.
    ///
    /// # Errors
    /// 0A000 where a statement calls none.
    pub(crate) fn routines(&self) -> Result<&'a dyn scalar::Routines> {
        self.routines.ok_or_else(|| Error::unsupported("functions of users are not supported here"))
    }

    /// Whether a function of a user had no value yet since the last question. What was computed since is void: the caller
    /// goes on with the next row, so that one run finds the calls of all rows.
    pub(crate) fn misses(&self) -> bool {
        let misses = self.routines.is_some_and(scalar::Routines::missed);
        if misses {
            self.is_void.set(true);
        }
        misses
    }

    /// Ends a run that is void, with an error that no client sees.
    pub(crate) fn check_values(&self) -> Result<()> {
        if self.misses() || self.is_void.get() {
            return Err(Error::bug("a statement that was not run again with the values of its functions"));
        }
        Ok(())
    }

    /// The event to wait for, if the run ended by [`ExecContext::wait`].
    pub(crate) fn waits(&self) -> Option<Event> {
        self.waits.borrow_mut().take()
    }

    /// Counts a row read. Runs the cancellation check when it is due.
    pub(crate) fn look(&self) -> Result<()> {
        self.look_for(1)
    }

    /// Counts a row change, which costs like [`LOOKS_PER_CHANGE`] reads.
    pub(crate) fn change(&self) -> Result<()> {
        self.misses();
        self.look_for(LOOKS_PER_CHANGE)
    }

    fn look_for(&self, looks: u32) -> Result<()> {
        let left = self.left.get().saturating_sub(looks);
        if left == 0 {
            self.left.set(ROWS_PER_CHECK);
            if let Some(part) = &self.part {
                part.questions.set(part.questions.get().saturating_sub(1));
                part.enough.set(part.enough.get() || part.questions.get() == 0);
            }
            return (self.session.check)(self.kept.get() + self.arena.allocated_bytes());
        }
        self.left.set(left);
        Ok(())
    }

    /// Called before a value of `bytes` is allocated in the arena. Runs the cancellation check once for each MiB.
    ///
    /// # Errors
    /// 54000 above `COMPUTED_BYTES_MAX`; the error of the cancellation check.
    pub(crate) fn room(&self, bytes: usize) -> Result<()> {
        if bytes > limits::COMPUTED_BYTES_MAX {
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large").with_hint(format!(
                "the value would have {bytes} bytes; the limit is {}",
                limits::COMPUTED_BYTES_MAX
            )));
        }
        let all = self.kept.get() + self.arena.allocated_bytes() + bytes;
        if all < self.asked.get() + BYTES_PER_CHECK {
            return Ok(());
        }
        self.asked.set(all);
        if let Some(part) = &self.part {
            // The next slice has an arena of its own.
            part.stop_soon();
        }
        (self.session.check)(all)
    }

    /// Counts memory allocated outside the arena.
    pub(crate) fn keep(&self, bytes: usize) {
        self.kept.set(self.kept.get() + bytes);
    }

    /// The elements of an array parameter, decoded on first use; `None` if it is NULL.
    pub(crate) fn array(&'a self, of: usize) -> Result<Option<&'a SubqueryResult<'a>>> {
        if let Some(elements) = self.elements[of].get() {
            return Ok(elements.as_ref());
        }
        let elements = self.arrays[of].read(self.params(), self.session.zone, self.arena)?;
        Ok(self.elements[of].get_or_init(|| elements).as_ref())
    }

    /// Applies `read` to the result of a subquery. An uncorrelated one (`given` is empty) runs once; a correlated
    /// one runs on each call.
    pub(crate) fn subquery_result<T>(
        &'a self,
        of: usize,
        given: &'a [Expr],
        frame: &Frame<'a>,
        read: impl FnOnce(&SubqueryResult<'a>) -> T,
    ) -> Result<T> {
        let subquery = &self.subqueries[of];
        if !given.is_empty() {
            let given = given.iter().map(|one| one.eval(frame)).collect::<Result<_>>()?;
            return subquery.run(self, given).map(|answer| read(&answer));
        }
        if self.answers[of].get().is_none() {
            let answer = subquery.run(self, Vec::new())?;
            return Ok(read(self.answers[of].get_or_init(|| answer)));
        }
        self.answers[of].get().map(read).ok_or_else(|| Error::bug("a subquery's result is missing"))
    }
}

impl<'a> ExecContext<'a> {
    /// The rows of a derived table. An uncorrelated one (`given` is empty) runs once; a correlated one runs on each
    /// call.
    fn derived_rows(&'a self, of: usize, given: &'a [Expr], frame: &Frame<'a>) -> Result<&'a [&'a [u8]]> {
        if !given.is_empty() {
            let given = given.iter().map(|one| one.eval(frame)).collect::<Result<_>>()?;
            return self.derived[of].make(self, given);
        }
        if let Some(rows) = self.derived_rows[of].get() {
            return Ok(rows);
        }
        let rows = self.derived[of].make(self, Vec::new())?;
        self.derived_rows[of].set(Some(rows));
        Ok(rows)
    }
}

/// One run of one query: its current row in each slot.
pub(crate) struct Run<'a> {
    pub(crate) frame: Frame<'a>,
    /// Record number of each slot's row.
    pub(crate) records: &'a [Cell<RecordId>],
    /// Tables by slot.
    pub(crate) tables: &'a [Arc<RowTable>],
    /// Free buffers for keys.
    buffers: Vec<Vec<u8>>,
    /// Right-side rows of RIGHT and FULL joins that had a match: slot and address.
    matched: FxHashSet<(usize, usize)>,
}

/// The rows and record numbers of all slots.
#[derive(Clone, Copy)]
pub(crate) struct SavedRow<'a> {
    rows: &'a [Option<&'a [u8]>],
    records: &'a [RecordId],
}

/// Row lock of FOR UPDATE and its variants: strength, and behaviour if the row is locked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) mode: LockMode,
    pub(crate) policy: WaitPolicy,
}

/// Callback for each joined row.
pub(crate) type Each<'f, 'a> = &'f mut dyn FnMut(&mut Run<'a>) -> Result<Flow>;

impl<'a> Run<'a> {
    /// A run with empty slots; `given` are the outer values.
    pub(crate) fn new(tables: &'a [Arc<RowTable>], ctx: &'a ExecContext<'a>, given: Vec<Datum<'a>>) -> Run<'a> {
        let rows = ctx.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(None));
        let records = &*ctx.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(RecordId(0)));
        Run {
            frame: Frame { rows, records, ctx, outer_values: given, computed: Vec::new(), element: Datum::Null },
            records,
            tables,
            buffers: Vec::new(),
            matched: FxHashSet::default(),
        }
    }

    pub(crate) fn ctx(&self) -> &'a ExecContext<'a> {
        self.frame.ctx
    }

    pub(crate) fn guard(&self) -> &'a Guard {
        self.frame.ctx.guard
    }

    pub(crate) fn txn<T>(&self, ask: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.frame.ctx.txn(ask)
    }

    /// Copies the state of all slots.
    pub(crate) fn save_row(&self) -> SavedRow<'a> {
        let arena = self.frame.ctx.arena;
        let rows = arena.alloc_slice_fill_iter(self.frame.rows.iter().map(Cell::get));
        SavedRow { rows, records: arena.alloc_slice_fill_iter(self.records.iter().map(Cell::get)) }
    }

    /// Restores a state copied by [`Run::save_row`].
    pub(crate) fn restore_row(&self, saved: SavedRow<'a>) {
        self.frame.rows.iter().zip(saved.rows).for_each(|(slot, row)| slot.set(*row));
        self.records.iter().zip(saved.records).for_each(|(slot, record)| slot.set(*record));
    }

    fn look(&self) -> Result<()> {
        self.frame.ctx.look()
    }

    /// Identifies the row in a slot: rows have unique addresses.
    fn place(&self, slot: usize) -> (usize, usize) {
        (slot, self.slot(slot).get().map_or(0, |row| row.as_ptr().addr()))
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

/// Runs all steps of a plan.
pub(crate) fn joined<'a>(steps: &'a [Step], run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let mut flow = join(steps, run, each)?;
    // Right-side rows without a match come last. They are joined with later tables and may have matches there.
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.outer.all_right()) {
        if flow.is_break() {
            break;
        }
        steps[..at].iter().for_each(|before| run.slot(before.slot).set(None));
        flow = candidates(step, &step.whole, run, &mut |run| {
            if run.matched.contains(&run.place(step.slot)) {
                return Ok(ControlFlow::Continue(()));
            }
            onwards(step, &steps[at + 1..], run, each)
        })?;
    }
    Ok(flow)
}

/// Runs the remaining steps for the rows in the slots.
fn join<'a>(steps: &'a [Step], run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let Some((step, rest)) = steps.split_first() else { return each(run) };
    let mut found = false;
    let flow = candidates(step, &step.access, run, &mut |run| {
        for condition in step.outer.on() {
            if !condition.holds(&run.frame)? || run.ctx().misses() {
                return Ok(ControlFlow::Continue(()));
            }
        }
        found = true;
        if step.outer.all_right() {
            let place = run.place(step.slot);
            run.matched.insert(place);
        }
        onwards(step, rest, run, each)
    })?;
    if flow.is_continue() && !found && step.outer.all_left() {
        run.slot(step.slot).set(None);
        return onwards(step, rest, run, each);
    }
    Ok(flow)
}

fn onwards<'a>(step: &'a Step, rest: &'a [Step], run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    for condition in &step.filter {
        if !condition.holds(&run.frame)? || run.ctx().misses() {
            return Ok(ControlFlow::Continue(()));
        }
    }
    join(rest, run, each)
}

/// Puts every visible row of the access path into its slot and calls `each`.
fn candidates<'a>(step: &'a Step, access: &'a Access, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let table = &run.tables[step.slot];
    match access {
        Access::Points(keys) => points(table, step.slot, keys, run, each),
        Access::SubqueryPoints { before, of, given, to } => {
            subquery_points(table, step.slot, before, (*of, given, *to), run, each)
        }
        Access::Range(part) => range(table, step.slot, part, run, each),
        Access::Prefixes { index, keys, tests } => prefixes(table, step.slot, (*index, tests), keys, run, each),
        Access::ArrayPrefixes { index, key, array, tests } => {
            array_prefixes(table, step.slot, (*index, key, tests), *array, run, each)
        }
        Access::Ranges(parts) => ranges(table, step.slot, parts, run, each),
        Access::Inverted { index, seek, otherwise } => inverted(step, (*index, seek), otherwise, run, each),
        Access::Hashed { of, by, keys, filter, from, .. } => {
            let hashed = hashed(step, *of, (by, filter), from, run)?;
            let mut bytes = run.buffer();
            let known = hash_key(keys, &run.frame, &mut bytes)?;
            let found = if known { hashed.get(bytes.as_slice()) } else { None };
            run.buffers.push(bytes);
            among(found.map_or(&[], Vec::as_slice), step.slot, run, each)
        }
        Access::Derived { of, given } => {
            let rows = run.ctx().derived_rows(*of, given, &run.frame)?;
            for row in rows {
                run.look()?;
                run.slot(step.slot).set(Some(row));
                let flow = each(run)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            Ok(ControlFlow::Continue(()))
        }
        Access::Records(keys) => records(table, step.slot, keys, run, each),
        Access::All => all(table, step.slot, run, each),
    }
}

/// The hash table of a step, built on first use: rows of access path `from` that pass `filter`, by the values of
/// `by`. Rows with a NULL key are left out, because NULL equals nothing.
fn hashed<'a>(
    step: &'a Step,
    of: usize,
    (by, filter): (&'a [Expr], &'a [Expr]),
    from: &'a Access,
    run: &mut Run<'a>,
) -> Result<&'a Hashed<'a>> {
    let built = &run.ctx().hashed[of];
    if let Some(hashed) = built.get() {
        return Ok(hashed);
    }
    let mut hashed = Hashed::default();
    let mut key = Vec::new();
    let _: Flow = candidates(step, from, run, &mut |run| {
        for condition in filter {
            if !condition.holds(&run.frame)? || run.ctx().misses() {
                return Ok(ControlFlow::Continue(()));
            }
        }
        key.clear();
        if let Some(row) = run.slot(step.slot).get()
            && hash_key(by, &run.frame, &mut key)?
        {
            let taken = key.len() + size_of::<(Box<[u8]>, Vec<Found<'_>>)>() + size_of::<Found<'_>>();
            let found = (run.records[step.slot].get(), row);
            match hashed.get_mut(key.as_slice()) {
                Some(rows) => rows.push(found),
                None => drop(hashed.insert(key.as_slice().into(), vec![found])),
            }
            run.ctx().keep(taken);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(built.get_or_init(|| hashed))
}

fn among<'a>(rows: &'a [Found<'a>], slot: usize, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    for (record, row) in rows {
        let flow = point(slot, Some((*record, row)), run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Record number and row.
type Found<'a> = (RecordId, &'a [u8]);

/// Rows by encoded key.
type Hashed<'a> = FxHashMap<Box<[u8]>, Vec<Found<'a>>>;

/// Appends the encoded key; false if a value is NULL. Both sides of a comparison have the same type, so equal
/// values have equal keys.
fn hash_key<'a>(parts: &'a [Expr], frame: &Frame<'a>, out: &mut Vec<u8>) -> Result<bool> {
    for part in parts {
        let value = part.eval(frame)?;
        let ty = match &value {
            Datum::Null => return Ok(false),
            Datum::Bool(_) => Type::Bool,
            Datum::Int2(_) => Type::Int2,
            Datum::Int4(_) => Type::Int4,
            Datum::Int8(_) => Type::Int8,
            Datum::Float4(_) => Type::Float4,
            Datum::Float8(_) => Type::Float8,
            Datum::Numeric(_) => Type::Numeric(None),
            Datum::Text(_) => Type::Text,
            Datum::Bytes(_) => Type::Bytes,
            Datum::Uuid(_) => Type::Uuid,
            Datum::Date(_) => Type::Date,
            Datum::Time(_) => Type::Time,
            Datum::Timestamp(_) => Type::Timestamp,
            Datum::Timestamptz(_) => Type::Timestamptz,
            Datum::Interval(_) => Type::Interval,
            // Only types whose order is that of their values are joined by keys.
            other => {
                model::sort_key::push(other, 0, out)?;
                continue;
            }
        };
        key::push(out, &KeyColumn::new(ty), &value)?;
    }
    Ok(true)
}

/// Appends the encoding of a value to look up. For char(n) trailing blanks are kept: text with them equals no
/// stored key.
fn push_key_value(out: &mut Vec<u8>, column: &KeyColumn, value: &Datum<'_>) -> Result<()> {
    match column.ty {
        Type::Char(_) => key::push(out, &KeyColumn { ty: Type::Text, ..*column }, value),
        _ => key::push(out, column, value),
    }
}

fn primary(table: &RowTable) -> Result<&IndexData> {
    table.primary.as_deref().ok_or_else(|| Error::bug("a table without primary key is looked up by it"))
}

/// Rows by full primary keys.
fn points<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    keys: &'a [Vec<Expr>],
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let primary = primary(table)?;
    // A key listed twice gives one row.
    let mut seen = FxHashSet::default();
    for parts in keys {
        let mut bytes = run.buffer();
        let is_known = encode(parts, primary, run, &mut bytes)?;
        let is_new = is_known && (keys.len() == 1 || seen.insert(bytes.clone()));
        let found = if is_new { run.ctx().get(table, &bytes)? } else { None };
        run.buffers.push(bytes);
        let flow = point(slot, found, run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Rows by primary keys whose last column is a value of a subquery.
fn subquery_points<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    before: &'a [Expr],
    (of, given, to): (usize, &'a [Expr], Option<Type>),
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let primary = primary(table)?;
    let last = primary.keys().last().ok_or_else(|| Error::bug("a primary key without columns"))?;
    let mut bytes = run.buffer();
    let mut flow = ControlFlow::Continue(());
    if encode(before, primary, run, &mut bytes)? {
        let prefix = bytes.len();
        let values = run.ctx().subquery_result(of, given, &run.frame, |answer| answer.values.clone())?;
        for value in values {
            let value = to.map_or(value.clone(), |to| key_cast::equal(&value, to));
            if value.is_null() {
                continue;
            }
            bytes.truncate(prefix);
            push_key_value(&mut bytes, last, &value)?;
            let found = run.ctx().get(table, &bytes)?;
            flow = point(slot, found, run, each)?;
            if flow.is_break() {
                break;
            }
        }
    }
    run.buffers.push(bytes);
    Ok(flow)
}

/// Rows by the records that their `ctid` names, each once. The condition is evaluated for each: the row may be another version.
fn records<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    keys: &'a RecordKeys,
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let ctx = run.ctx();
    let mut values = Vec::new();
    match keys {
        RecordKeys::Values(keys) => {
            for key in keys {
                values.push(key.eval(&run.frame)?);
            }
        }
        RecordKeys::Subquery { of, given } => {
            ctx.subquery_result(*of, given, &run.frame, |answer| values.clone_from(&answer.values))?;
        }
        RecordKeys::Array(array) => {
            values.extend(ctx.array(*array)?.into_iter().flat_map(|elements| &elements.values).cloned());
        }
    }
    let mut records: Vec<RecordId> = Vec::with_capacity(values.len());
    for value in values {
        match value {
            Datum::Int8(tid) => records.push(RecordId(scalar::record_of(tid))),
            Datum::Null => {}
            other => return Err(Error::bug(format!("a ctid is compared with {other:?}"))),
        }
    }
    records.sort_unstable();
    records.dedup();
    for record in records.into_iter().filter(|record| record.0 < table.records.bound()) {
        let row = ctx.read_alone(table, record)?;
        let flow = point(slot, row.map(|row| (record, row)), run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn point<'a>(slot: usize, found: Option<(RecordId, &'a [u8])>, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    run.look()?;
    let Some((record, row)) = found else { return Ok(ControlFlow::Continue(())) };
    run.slot(slot).set(Some(row));
    run.records[slot].set(record);
    each(run)
}

fn all<'a>(table: &'a Arc<RowTable>, slot: usize, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    run.ctx().note_table(table);
    let place = run.ctx().take_resume_point();
    let first = if let Some(ResumePoint::Record(next)) = place { next } else { 0 };
    for record in first..table.records.bound() {
        run.look()?;
        if let Some(row) = run.ctx().read(table, RecordId(record))? {
            run.slot(slot).set(Some(row));
            run.records[slot].set(RecordId(record));
            let flow = each(run)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if place.is_some() && run.ctx().stops(|| ResumePoint::Record(record + 1)) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Encodes a key prefix; false if a value is NULL, which no key equals.
fn encode<'a>(parts: &'a [Expr], index: &IndexData, run: &Run<'a>, out: &mut Vec<u8>) -> Result<bool> {
    for (part, column) in parts.iter().zip(index.keys()) {
        let value = part.eval(&run.frame)?;
        if value.is_null() {
            return Ok(false);
        }
        push_key_value(out, column, &value)?;
    }
    Ok(true)
}

fn index_of(table: &RowTable, which: IndexRef) -> Result<&Arc<IndexData>> {
    which.of(table).ok_or_else(|| Error::bug("an index of the plan does not exist"))
}

fn range<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    part: &'a Range,
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
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
            flow = between(table, slot, (part.index, &part.tests), (from, to, direction), run, each)?;
        }
    }
    run.buffers.extend([low, high]);
    Ok(flow)
}

/// Rows in several ranges of one index, each row once, in index order.
fn ranges<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    parts: &'a [Range],
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let Some(which) = parts.first().map(|part| part.index) else { return Ok(ControlFlow::Continue(())) };
    let index = index_of(table, which)?;
    let mut ends: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::with_capacity(parts.len());
    for part in parts {
        let mut low = Vec::new();
        if !encode(&part.equal, index, run, &mut low)? {
            continue;
        }
        let mut high = low.clone();
        let column = index.keys().get(part.equal.len());
        let from = end(part.low.as_ref(), column, run, &mut low, false)?.is_some();
        let to = end(part.high.as_ref(), column, run, &mut high, true)?.map(|to| to != Bound::Unbounded);
        match to {
            Some(bounded) if from => ends.push((low, bounded.then_some(high))),
            _ => {}
        }
    }
    ends.sort_unstable();
    let mut at = 0;
    while let Some((low, mut high)) = ends.get(at).cloned() {
        at += 1;
        // Merge ranges that overlap or touch.
        while let Some((next, end)) = ends.get(at)
            && high.as_ref().is_none_or(|high| next <= high)
        {
            high = match (high, end) {
                (Some(high), Some(end)) => Some(high.max(end.clone())),
                _ => None,
            };
            at += 1;
        }
        let to = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (tests, range) = (&parts[0].tests, (Bound::Included(low.as_slice()), to, Direction::Forward));
        let flow = between(table, slot, (which, tests), range, run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Rows by several key prefixes.
fn prefixes<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, tests): (IndexRef, &'a [KeyTest]),
    keys: &'a [Vec<Expr>],
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let mut seen = FxHashSet::default();
    for parts in keys {
        let (mut low, mut high) = (run.buffer(), run.buffer());
        let mut flow = ControlFlow::Continue(());
        if encode(parts, index, run, &mut low)? && seen.insert(low.clone()) {
            high.extend_from_slice(&low);
            let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
            flow = between(table, slot, (which, tests), (Bound::Included(&low), to, Direction::Forward), run, each)?;
        }
        run.buffers.extend([low, high]);
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Rows by key prefixes that contain one element of an array each.
fn array_prefixes<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, key, tests): (IndexRef, &'a [Expr], &'a [KeyTest]),
    array: usize,
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let is_point = which == IndexRef::Primary && key.len() == index.keys().len();
    let elements = run.ctx().array(array)?.map_or(&[][..], |elements| &elements.values);
    for element in elements {
        run.frame.element = element.clone();
        let (mut low, mut high) = (run.buffer(), run.buffer());
        let mut flow = ControlFlow::Continue(());
        if encode(key, index, run, &mut low)? {
            if is_point {
                let found = run.ctx().get(table, &low)?;
                flow = point(slot, found, run, each)?;
            } else {
                high.extend_from_slice(&low);
                let to = if key::prefix_end(&mut high) { Bound::Excluded(high.as_slice()) } else { Bound::Unbounded };
                flow =
                    between(table, slot, (which, tests), (Bound::Included(&low), to, Direction::Forward), run, each)?;
            }
        }
        run.buffers.extend([low, high]);
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Rows that an inverted index has for some keys, in the order of their records; those of `otherwise` if the operands give no
/// keys.
fn inverted<'a>(
    step: &'a Step,
    (which, seek): (IndexRef, &'a Seek),
    otherwise: &'a Access,
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let (table, slot) = (&run.tables[step.slot], step.slot);
    let index = index_of(table, which)?;
    let sought = seek.sought(index, &run.frame)?;
    let Some(mut postings) = Postings::new(index, &sought) else { return candidates(step, otherwise, run, each) };
    let (ctx, guard) = (run.ctx(), run.guard());
    sought.ranges(&mut |from, to| ctx.note_range(table, index, Bound::Included(from), Bound::Included(to)));
    let mut least = RecordId(0);
    while let Some(record) = postings.seek(least, guard, &mut || ctx.look())? {
        run.look()?;
        let row = ctx.read(table, record)?;
        #[cfg(test)]
        tests::FETCHED.set(tests::FETCHED.get() + u32::from(row.is_some()));
        if row.is_some() {
            run.slot(slot).set(row);
            run.records[slot].set(record);
            let flow = each(run)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        least = RecordId(record.0 + 1);
    }
    Ok(ControlFlow::Continue(()))
}

/// Scans an index between two keys. Also adds the range to the read set, up to the last entry read.
fn between<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, tests): (IndexRef, &'a [KeyTest]),
    (from, to, direction): (Bound<&[u8]>, Bound<&[u8]>, Direction),
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let tests = KeyTests::new(tests, index, run)?;
    let place = run.ctx().take_resume_point();
    let (from, to) = match (&place, direction) {
        (Some(ResumePoint::Entry(last)), Direction::Forward) => (Bound::Excluded(&**last), to),
        (Some(ResumePoint::Entry(last)), Direction::Backward) => (from, Bound::Excluded(&**last)),
        _ => (from, to),
    };
    let (ctx, guard) = (run.ctx(), run.guard());
    let mut one = |entry: &[u8], record| {
        run.look()?;
        let row = match which {
            _ if !tests.hold(entry) => None,
            IndexRef::Primary => run.ctx().read(table, record)?,
            IndexRef::Secondary(_) => run.ctx().read_entry(table, index, entry, record)?,
        };
        #[cfg(test)]
        tests::FETCHED.set(tests::FETCHED.get() + u32::from(row.is_some()));
        if row.is_some() {
            run.slot(slot).set(row);
            run.records[slot].set(record);
            let flow = each(run)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        let stops = place.is_some() && run.ctx().stops(|| ResumePoint::Entry(entry.into()));
        Ok(if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let mut ended = Ok(ControlFlow::Continue(()));
    let mut noted = false;
    index.scan(from, to, direction, guard, |entry, record| {
        ended = one(entry, record);
        if matches!(ended, Ok(ControlFlow::Continue(()))) {
            return ControlFlow::Continue(());
        }
        // Entries beyond this one were not read.
        let (from, to) = match direction {
            Direction::Forward => (from, Bound::Included(entry)),
            Direction::Backward => (Bound::Included(entry), to),
        };
        ctx.note_range(table, index, from, to);
        noted = true;
        ControlFlow::Break(())
    });
    if !noted {
        ctx.note_range(table, index, from, to);
    }
    ended
}

/// One bound of a range scan; `None` if the range is empty. `bytes` holds the encoded equality prefix and is
/// extended. A low bound is inclusive, a high bound is exclusive or absent.
fn end<'b, 'a>(
    bound: Option<&'a RangeEnd>,
    column: Option<&KeyColumn>,
    run: &Run<'a>,
    bytes: &'b mut Vec<u8>,
    high: bool,
) -> Result<Option<Bound<&'b [u8]>>> {
    let found = match (bound, column) {
        (Some(bound), Some(column)) => match key_range_end(bound, column.ty, high, run)? {
            key_cast::End::Nothing => return Ok(None),
            key_cast::End::Open => None,
            key_cast::End::At(value, inclusive) => Some((column, value, inclusive)),
        },
        _ => None,
    };
    let Some((column, value, inclusive)) = found else {
        if !high {
            return Ok(Some(if bytes.is_empty() { Bound::Unbounded } else { Bound::Included(bytes) }));
        }
        // Every key with the equality prefix. (This includes NULLs if the next column has no bound.)
        return Ok(Some(if key::prefix_end(bytes) { Bound::Excluded(bytes) } else { Bound::Unbounded }));
    };
    push_key_value(bytes, column, &value)?;
    // Longer keys with this value as prefix count as equal to it.
    Ok(Some(match (high, inclusive) {
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

/// Evaluates a range bound and converts it to the column's type.
fn key_range_end<'a>(bound: &'a RangeEnd, to: Type, high: bool, run: &Run<'a>) -> Result<key_cast::End<'a>> {
    let value: Datum<'a> = bound.value.eval(&run.frame)?;
    Ok(match value {
        Datum::Null => key_cast::End::Nothing,
        value if bound.fit => key_cast::end(&value, to, (high, bound.inclusive), run.ctx().session.zone),
        value => key_cast::End::At(value, bound.inclusive),
    })
}

/// Filters on index columns, evaluated for one scan.
struct KeyTests<'i> {
    index: &'i IndexData,
    /// Index column and filter, by ascending column.
    tests: Vec<(usize, KeyTestBytes)>,
}

/// A filter with its values encoded like keys.
enum KeyTestBytes {
    /// Sorted.
    OneOf(Vec<Vec<u8>>),
    /// Bounds; the flag says whether the bound is inclusive.
    Between(Option<(Vec<u8>, bool)>, Option<(Vec<u8>, bool)>),
    Nothing,
}

impl<'i> KeyTests<'i> {
    fn new<'a>(tests: &'a [KeyTest], index: &'i IndexData, run: &mut Run<'a>) -> Result<KeyTests<'i>> {
        let mut all = Vec::with_capacity(tests.len());
        for test in tests {
            let column = &index.keys()[test.at];
            all.push((test.at, KeyTestBytes::new(&test.what, column, run)?));
        }
        Ok(KeyTests { index, tests: all })
    }

    /// Whether an entry passes. True if the entry cannot be decoded: the row itself is tested as well.
    fn hold(&self, entry: &[u8]) -> bool {
        if self.tests.is_empty() {
            return true;
        }
        let (mut rest, mut column) = (entry, 0);
        for (at, test) in &self.tests {
            let mut value = rest;
            while column <= *at {
                let Some(length) = key::value_bytes(&self.index.keys()[column], rest) else { return true };
                (value, rest) = rest.split_at(length);
                column += 1;
            }
            if !test.holds(&self.index.keys()[*at], value) {
                return false;
            }
        }
        true
    }
}

impl KeyTestBytes {
    fn new<'a>(test: &'a KeyCondition, column: &KeyColumn, run: &mut Run<'a>) -> Result<KeyTestBytes> {
        let bytes = |value: &Datum<'a>| -> Result<Vec<u8>> {
            let mut bytes = Vec::with_capacity(16);
            push_key_value(&mut bytes, column, value)?;
            Ok(bytes)
        };
        let mut list = Vec::new();
        match test {
            KeyCondition::OneOf(values) => {
                for value in values {
                    let value = value.eval(&run.frame)?;
                    if !value.is_null() {
                        list.push(bytes(&value)?);
                    }
                }
            }
            KeyCondition::ElementOf(array, element) => {
                let elements = run.ctx().array(*array)?.map_or(&[][..], |elements| &elements.values);
                for one in elements {
                    run.frame.element = one.clone();
                    let value = element.eval(&run.frame)?;
                    if !value.is_null() {
                        list.push(bytes(&value)?);
                    }
                }
            }
            KeyCondition::Between(low, high) => {
                let mut ends = [None, None];
                for ((end, at), high) in [low, high].into_iter().zip(&mut ends).zip([false, true]) {
                    let Some(end) = end else { continue };
                    match key_range_end(end, column.ty, high, run)? {
                        key_cast::End::Nothing => return Ok(KeyTestBytes::Nothing),
                        key_cast::End::Open => {}
                        key_cast::End::At(value, inclusive) => *at = Some((bytes(&value)?, inclusive)),
                    }
                }
                let [low, high] = ends;
                return Ok(KeyTestBytes::Between(low, high));
            }
        }
        list.sort_unstable();
        Ok(KeyTestBytes::OneOf(list))
    }

    fn holds(&self, column: &KeyColumn, value: &[u8]) -> bool {
        if key::is_null(column, value) {
            return false;
        }
        match self {
            KeyTestBytes::Nothing => false,
            KeyTestBytes::OneOf(list) => list.binary_search_by(|one| one.as_slice().cmp(value)).is_ok(),
            KeyTestBytes::Between(low, high) => {
                let above = |(low, inclusive): &(Vec<u8>, bool)| match value.cmp(low.as_slice()) {
                    Ordering::Equal => *inclusive,
                    order => order.is_gt(),
                };
                let below = |(high, inclusive): &(Vec<u8>, bool)| match value.cmp(high.as_slice()) {
                    Ordering::Equal => *inclusive,
                    order => order.is_lt(),
                };
                low.as_ref().is_none_or(above) && high.as_ref().is_none_or(below)
            }
        }
    }
}

/// A function that the statement calls changed a row that it changes itself.
fn written_by_call() -> Error {
    let text = "tuple to be updated was already modified by an operation triggered by the current command";
    Error::new(SqlState::TRIGGERED_DATA_CHANGE_VIOLATION, text)
        .with_hint("Change the row in one place: in the function, or in the statement that calls it.")
}

/// Locks the rows in these slots. If one has changed since it was read, evaluates the conditions again. Returns
/// false if the joined row no longer qualifies.
pub(crate) fn lock<'a>(locks: &[(usize, Lock)], conditions: &'a [Expr], run: &mut Run<'a>) -> Result<bool> {
    let mut again = false;
    for (slot, lock) in locks {
        if run.slot(*slot).get().is_none() {
            continue;
        }
        let record = run.records[*slot].get();
        run.ctx().change()?;
        let locked = run.txn(|txn| txn.lock_row(&run.tables[*slot], record, lock.mode, lock.policy, run.guard()))?;
        match locked {
            Locked::Row { .. } if run.txn(|txn| Ok(txn.is_written_by_call(&run.tables[*slot], record)))? => {
                return Err(written_by_call());
            }
            // Changed by this statement before: the first change stays, as in PostgreSQL.
            Locked::Row { .. } if run.txn(|txn| Ok(txn.has_hidden(&run.tables[*slot], record)))? => return Ok(false),
            Locked::Row { row, changed } => {
                run.slot(*slot).set(Some(row));
                again |= changed;
            }
            Locked::Gone | Locked::Skipped => return Ok(false),
            Locked::Wait(event) => return Err(run.ctx().wait(event)),
        }
    }
    if again {
        for condition in conditions {
            if !condition.holds(&run.frame)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
pub(crate) mod tests {
    thread_local! {
        /// Rows fetched by index scans.
        pub(crate) static FETCHED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
}
