//! Running a plan: nested loops that hand each joined row on as soon as it is there.

use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Ordering;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_epoch::Guard;
use env::Event;
use model::{Datum, Error, Result, SqlState, Type, limits};
use rows::key::KeyColumn;
use rows::{Direction, IndexData, LockMode, Locked, RecordId, RowTable, Txn, View, WaitPolicy, key};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::array::Array;
use crate::derived_tables::Derived;
use crate::expr::{Expr, Frame};
use crate::key_cast;
use crate::plan::{Access, End, KeyTest, Range, Step, Tested, Which};
use crate::sequences::Numbers;
use crate::statement::Session;
use crate::subquery::{Answer, Subquery};

fn formula_that_reads() -> Error {
    Error::bug("a formula that reads tables")
}

/// Whether to go on: a break means that there are rows enough.
pub(crate) type Flow = ControlFlow<()>;

/// So many rows are looked at between two questions whether to go on.
const ROWS_PER_CHECK: u32 = 1_024;

/// So many bytes of values are made between two questions whether to go on.
const BYTES_PER_CHECK: usize = 1 << 20;

/// Rows that could be looked at in the time in which one is changed.
const LOOKS_PER_CHANGE: u32 = 32;

/// So often that is asked in one part of a query: what is under the guard is let go some milliseconds later at most.
const QUESTIONS_PER_PART: u32 = 32;

/// What all queries of one run of a statement share.
pub(crate) struct World<'a> {
    params: Cell<&'a [Datum<'a>]>,
    /// Values for the same parameters again, of an INSERT of further rows.
    further: Cell<&'a [Datum<'a>]>,
    /// For values that are made.
    pub(crate) arena: &'a Bump,
    pub(crate) guard: &'a Guard,
    pub(crate) session: Session<'a>,
    /// The queries within the statement, by number.
    subqueries: &'a [Subquery],
    /// What those of them gave that stand alone.
    answers: Vec<OnceCell<Answer<'a>>>,
    /// The tables that queries make.
    derived: &'a [Derived],
    /// Rows of those that stand alone.
    made: Vec<Cell<Option<&'a [&'a [u8]]>>>,
    /// Tables by columns that no index has.
    hashed: Vec<OnceCell<Hashed<'a>>>,
    /// The array parameters that expressions use, and what they have; `None` for NULL.
    arrays: &'a [Array],
    elements: Vec<OnceCell<Option<Answer<'a>>>>,
    source: Reads<'a>,
    waits: RefCell<Option<Event>>,
    /// Rows that may be looked at before the next question.
    left: Cell<u32>,
    /// Bytes kept outside the arena.
    kept: Cell<usize>,
    /// Bytes with which it was asked last whether to go on.
    asked: Cell<usize>,
    /// Nothing where the whole is run at once.
    part: Option<Part>,
}

/// What is read.
pub(crate) enum Reads<'a> {
    /// Nothing: only formulas are evaluated.
    Nothing,
    /// A subquery reads in the midst of an expression, so that it is borrowed for single calls.
    Txn(RefCell<&'a mut Txn>),
    /// What a transaction reads, beside it; the scratch is for keys.
    View(View, RefCell<Vec<u8>>),
}

impl<'a> Reads<'a> {
    pub(crate) fn of(txn: &'a mut Txn) -> Reads<'a> {
        Reads::Txn(RefCell::new(txn))
    }
}

/// Where a query that is run by parts goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    Start,
    /// At this record of the first table.
    Record(u64),
    /// Behind this entry of the first table's index.
    Entry(Box<[u8]>),
    End,
}

/// The part of a query that is run now.
pub(crate) struct Part {
    /// Where it goes on; taken by the walk over the first table.
    from: Cell<Option<Place>>,
    /// Where that walk stopped.
    stopped: Cell<Option<Place>>,
    /// Is it to stop behind the first table's row of the moment?
    enough: Cell<bool>,
    /// Questions that may be asked before it is enough.
    questions: Cell<u32>,
}

impl Part {
    pub(crate) fn at(place: Place) -> Part {
        Part {
            from: Cell::new(Some(place)),
            stopped: Cell::new(None),
            enough: Cell::new(false),
            questions: Cell::new(QUESTIONS_PER_PART),
        }
    }

    pub(crate) fn stop_soon(&self) {
        self.enough.set(true);
    }

    /// Where it stopped.
    pub(crate) fn stopped(&self) -> Place {
        self.stopped.take().unwrap_or(Place::End)
    }
}

/// The queries within a statement.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    pub(crate) subqueries: &'a [Subquery],
    pub(crate) derived: &'a [Derived],
    /// How many tables are hashed.
    pub(crate) hashed: usize,
    pub(crate) arrays: &'a [Array],
}

impl<'a> World<'a> {
    pub(crate) fn new(
        params: &'a [Datum<'a>],
        arena: &'a Bump,
        guard: &'a Guard,
        session: Session<'a>,
        parts: Parts<'a>,
        source: Reads<'a>,
    ) -> World<'a> {
        World {
            params: Cell::new(params),
            further: Cell::new(&[]),
            arena,
            guard,
            session,
            subqueries: parts.subqueries,
            answers: parts.subqueries.iter().map(|_| OnceCell::new()).collect(),
            derived: parts.derived,
            made: parts.derived.iter().map(|_| Cell::new(None)).collect(),
            hashed: (0..parts.hashed).map(|_| OnceCell::new()).collect(),
            arrays: parts.arrays,
            elements: parts.arrays.iter().map(|_| OnceCell::new()).collect(),
            source,
            waits: RefCell::new(None),
            left: Cell::new(ROWS_PER_CHECK),
            kept: Cell::new(0),
            asked: Cell::new(0),
            part: None,
        }
    }

    /// The same, for an INSERT of one row that is run for several rows of parameters; `width`: the parameters of a row.
    pub(crate) fn with_rows_of(self, width: usize) -> World<'a> {
        let (first, further) = self.params().split_at(width);
        self.params.set(first);
        self.further.set(further);
        self
    }

    /// Values of the statement's parameters, `$1` first.
    pub(crate) fn params(&self) -> &'a [Datum<'a>] {
        self.params.get()
    }

    /// Goes on to the parameters of the next row, if there is one.
    pub(crate) fn next_row_of_params(&self) -> bool {
        let (next, further) = self.further.get().split_at(self.params().len().min(self.further.get().len()));
        if next.is_empty() {
            return false;
        }
        self.params.set(next);
        self.further.set(further);
        true
    }

    /// The same, for a part of a query.
    pub(crate) fn with_part(mut self, part: Part) -> World<'a> {
        self.part = Some(part);
        self
    }

    /// Where the walk over the first table begins; that is the first walk that asks.
    fn take_place(&self) -> Option<Place> {
        self.part.as_ref().and_then(|part| part.from.take())
    }

    /// Is it enough for this part? Then the next one goes on at `next`.
    fn stops(&self, next: impl FnOnce() -> Place) -> bool {
        let Some(part) = self.part.as_ref().filter(|part| part.enough.get()) else { return false };
        part.stopped.set(Some(next()));
        true
    }

    pub(crate) fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// Asks the transaction for more than rows.
    pub(crate) fn txn<T>(&self, ask: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        match &self.source {
            Reads::Txn(txn) => ask(&mut txn.borrow_mut()),
            Reads::Nothing | Reads::View(..) => Err(Error::bug("a transaction is asked where there is none")),
        }
    }

    /// As [`Txn::read_walked`].
    fn read(&self, table: &'a RowTable, record: RecordId) -> Result<Option<&'a [u8]>> {
        match &self.source {
            Reads::Txn(txn) => txn.borrow_mut().read_walked(table, record, self.guard),
            Reads::View(view, _) => Ok(view.row(table, record, self.guard)),
            Reads::Nothing => Err(formula_that_reads()),
        }
    }

    /// As [`Txn::get`].
    fn get(&self, table: &'a RowTable, key: &[u8]) -> Result<Option<Found<'a>>> {
        match &self.source {
            Reads::Txn(txn) => txn.borrow_mut().get(table, key, self.guard),
            Reads::View(view, _) => Ok(view.get(table, key, self.guard)),
            Reads::Nothing => Err(formula_that_reads()),
        }
    }

    /// As [`Txn::read_entry`].
    fn read_entry(
        &self,
        table: &'a RowTable,
        index: &IndexData,
        entry: &[u8],
        record: RecordId,
    ) -> Result<Option<&'a [u8]>> {
        match &self.source {
            Reads::Txn(txn) => txn.borrow_mut().read_entry(table, index, entry, record, self.guard),
            Reads::View(view, key) => {
                view.row_of_entry(table, index, (entry, record), &mut key.borrow_mut(), self.guard)
            }
            Reads::Nothing => Err(formula_that_reads()),
        }
    }

    /// All records of a table are about to be read. Of what is read beside the transaction it was told before.
    pub(crate) fn note_table(&self, table: &RowTable) {
        if let Reads::Txn(txn) = &self.source {
            txn.borrow_mut().note_table(table);
        }
    }

    /// Entries of an index between these bounds are read.
    pub(crate) fn note_range(&self, table: &RowTable, index: &Arc<IndexData>, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        if let Reads::Txn(txn) = &self.source {
            txn.borrow_mut().note_range(table, index, from, to);
        }
    }

    pub(crate) fn numbers(&self) -> Result<&'a dyn Numbers> {
        self.session.numbers.ok_or_else(|| Error::unsupported("a value that is other each time is not supported here"))
    }

    /// The error by which a statement ends that must wait; nobody sees it, because [`World::waits`] says for what.
    pub(crate) fn wait(&self, event: Event) -> Error {
        *self.waits.borrow_mut() = Some(event);
        Error::new(SqlState::LOCK_NOT_AVAILABLE, "the statement waits")
    }

    /// What the statement waits for, if that is why it ended.
    pub(crate) fn waits(&self) -> Option<Event> {
        self.waits.borrow_mut().take()
    }

    /// Counts a row that is looked at.
    pub(crate) fn look(&self) -> Result<()> {
        self.look_for(1)
    }

    /// Counts a row that is changed.
    pub(crate) fn change(&self) -> Result<()> {
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

    /// A value of so many bytes is about to be made in the arena.
    ///
    /// # Errors
    /// 54000 if no value may be so large; what the question whether to go on gives, which is asked with each MiB.
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
        (self.session.check)(all)
    }

    /// Counts bytes that the statement keeps outside the arena.
    pub(crate) fn keep(&self, bytes: usize) {
        self.kept.set(self.kept.get() + bytes);
    }

    /// The elements of an array parameter; `None` if it is NULL. They are read when they are first asked for.
    pub(crate) fn array(&'a self, of: usize) -> Result<Option<&'a Answer<'a>>> {
        if let Some(elements) = self.elements[of].get() {
            return Ok(elements.as_ref());
        }
        let elements = self.arrays[of].read(self.params(), self.session.zone, self.arena)?;
        Ok(self.elements[of].get_or_init(|| elements).as_ref())
    }

    /// What a subquery gives, as `read` has it. One that takes nothing from the query around it is run once.
    pub(crate) fn answer<T>(
        &'a self,
        of: usize,
        given: &'a [Expr],
        frame: &Frame<'a>,
        read: impl FnOnce(&Answer<'a>) -> T,
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
        self.answers[of].get().map(read).ok_or_else(|| Error::bug("an answer is lost"))
    }
}

impl<'a> World<'a> {
    /// The rows that a query makes. One that takes nothing from the query around it is run once.
    fn made(&'a self, of: usize, given: &'a [Expr], frame: &Frame<'a>) -> Result<&'a [&'a [u8]]> {
        if !given.is_empty() {
            let given = given.iter().map(|one| one.eval(frame)).collect::<Result<_>>()?;
            return self.derived[of].make(self, given);
        }
        if let Some(rows) = self.made[of].get() {
            return Ok(rows);
        }
        let rows = self.derived[of].make(self, Vec::new())?;
        self.made[of].set(Some(rows));
        Ok(rows)
    }
}

/// One run of one query.
pub(crate) struct Run<'a> {
    pub(crate) frame: Frame<'a>,
    /// Which record each slot's row is of.
    pub(crate) records: &'a [Cell<RecordId>],
    /// By slot.
    pub(crate) tables: &'a [Arc<RowTable>],
    /// For keys; those in use are not here.
    buffers: Vec<Vec<u8>>,
    /// Rows of right sides of outer joins that fitted one before, by slot and place in memory.
    matched: FxHashSet<(usize, usize)>,
}

/// The rows of a joined row, and which records they are of.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    rows: &'a [Option<&'a [u8]>],
    records: &'a [RecordId],
}

/// FOR UPDATE and its kin: how strongly, and what if somebody else has the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) mode: LockMode,
    pub(crate) policy: WaitPolicy,
}

/// What is done with each joined row.
pub(crate) type Each<'f, 'a> = &'f mut dyn FnMut(&mut Run<'a>) -> Result<Flow>;

impl<'a> Run<'a> {
    /// With no rows yet; `given` is what the query around it gives.
    pub(crate) fn new(tables: &'a [Arc<RowTable>], world: &'a World<'a>, given: Vec<Datum<'a>>) -> Run<'a> {
        let rows = world.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(None));
        Run {
            frame: Frame { rows, world, given, made: Vec::new(), element: Datum::Null },
            records: world.arena.alloc_slice_fill_with(tables.len(), |_| Cell::new(RecordId(0))),
            tables,
            buffers: Vec::new(),
            matched: FxHashSet::default(),
        }
    }

    pub(crate) fn world(&self) -> &'a World<'a> {
        self.frame.world
    }

    pub(crate) fn guard(&self) -> &'a Guard {
        self.frame.world.guard
    }

    pub(crate) fn txn<T>(&self, ask: impl FnOnce(&mut Txn) -> Result<T>) -> Result<T> {
        self.frame.world.txn(ask)
    }

    /// What every slot holds.
    pub(crate) fn held(&self) -> Held<'a> {
        let arena = self.frame.world.arena;
        let rows = arena.alloc_slice_fill_iter(self.frame.rows.iter().map(Cell::get));
        Held { rows, records: arena.alloc_slice_fill_iter(self.records.iter().map(Cell::get)) }
    }

    /// Has every slot hold again what it held.
    pub(crate) fn put_back(&self, held: Held<'a>) {
        self.frame.rows.iter().zip(held.rows).for_each(|(slot, row)| slot.set(*row));
        self.records.iter().zip(held.records).for_each(|(slot, record)| slot.set(*record));
    }

    fn look(&self) -> Result<()> {
        self.frame.world.look()
    }

    /// What tells the row in a slot from others of its table.
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

/// Runs all steps of a query.
pub(crate) fn joined<'a>(steps: &'a [Step], run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let mut flow = join(steps, run, each)?;
    // Rows that fitted none before come when those are through; they go on to later tables, and may fit rows there.
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

/// Runs these steps over the rows that the slots hold.
fn join<'a>(steps: &'a [Step], run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let Some((step, rest)) = steps.split_first() else { return each(run) };
    let mut found = false;
    let flow = candidates(step, &step.access, run, &mut |run| {
        for condition in step.outer.on() {
            if !condition.holds(&run.frame)? {
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
        if !condition.holds(&run.frame)? {
            return Ok(ControlFlow::Continue(()));
        }
    }
    join(rest, run, each)
}

/// Every visible row that the access finds, in its slot.
fn candidates<'a>(step: &'a Step, access: &'a Access, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    let table = &run.tables[step.slot];
    match access {
        Access::Points(keys) => points(table, step.slot, keys, run, each),
        Access::PointsOf { before, of, given, to } => points_of(table, step.slot, before, (*of, given, *to), run, each),
        Access::Range(part) => range(table, step.slot, part, run, each),
        Access::Beginnings { index, keys, tests } => beginnings(table, step.slot, (*index, tests), keys, run, each),
        Access::EachOf { index, key, array, tests } => {
            each_of(table, step.slot, (*index, key, tests), *array, run, each)
        }
        Access::Ranges(parts) => ranges(table, step.slot, parts, run, each),
        Access::Hashed { of, by, keys, filter, from, .. } => {
            let hashed = hashed(step, *of, (by, filter), from, run)?;
            let mut bytes = run.buffer();
            let known = hash_key(keys, &run.frame, &mut bytes)?;
            let found = if known { hashed.get(bytes.as_slice()) } else { None };
            run.buffers.push(bytes);
            among(found.map_or(&[], Vec::as_slice), step.slot, run, each)
        }
        Access::Made { of, given } => {
            let rows = run.world().made(*of, given, &run.frame)?;
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
        Access::All => all(table, step.slot, run, each),
    }
}

/// The rows that an access finds, by what expressions over each give, found once for the statement. Nothing is equal to NULL.
fn hashed<'a>(
    step: &'a Step,
    of: usize,
    (by, filter): (&'a [Expr], &'a [Expr]),
    from: &'a Access,
    run: &mut Run<'a>,
) -> Result<&'a Hashed<'a>> {
    let made = &run.world().hashed[of];
    if let Some(hashed) = made.get() {
        return Ok(hashed);
    }
    let mut hashed = Hashed::default();
    let mut key = Vec::new();
    let _: Flow = candidates(step, from, run, &mut |run| {
        for condition in filter {
            if !condition.holds(&run.frame)? {
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
            run.world().keep(taken);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(made.get_or_init(|| hashed))
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

/// A row, and which record it is of.
type Found<'a> = (RecordId, &'a [u8]);

/// Rows by values that no index has.
type Hashed<'a> = FxHashMap<Box<[u8]>, Vec<Found<'a>>>;

/// Appends the key of these values; false if one is NULL. Values that are compared have one type, so that equal ones have equal keys.
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
        };
        key::push(out, &KeyColumn::new(ty), &value)?;
    }
    Ok(true)
}

/// Appends what a key has that is equal to a value. Text beside char(n) is not without the blanks at its end: no key has those.
fn push_sought(out: &mut Vec<u8>, column: &KeyColumn, value: &Datum<'_>) -> Result<()> {
    match column.ty {
        Type::Char(_) => key::push(out, &KeyColumn { ty: Type::Text, ..*column }, value),
        _ => key::push(out, column, value),
    }
}

fn primary(table: &RowTable) -> Result<&IndexData> {
    table.primary.as_deref().ok_or_else(|| Error::bug("a table without primary key is looked up by it"))
}

/// The rows with these whole primary keys.
fn points<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    keys: &'a [Vec<Expr>],
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let primary = primary(table)?;
    // A key that stands in a list twice is one row.
    let mut seen = FxHashSet::default();
    for parts in keys {
        let mut bytes = run.buffer();
        let is_known = encode(parts, primary, run, &mut bytes)?;
        let is_new = is_known && (keys.len() == 1 || seen.insert(bytes.clone()));
        let found = if is_new { run.world().get(table, &bytes)? } else { None };
        run.buffers.push(bytes);
        let flow = point(slot, found, run, each)?;
        if flow.is_break() {
            return Ok(flow);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The rows whose primary key ends with something that a subquery gave.
fn points_of<'a>(
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
        let values = run.world().answer(of, given, &run.frame, |answer| answer.values.clone())?;
        for value in values {
            let value = to.map_or(value.clone(), |to| key_cast::equal(&value, to));
            if value.is_null() {
                continue;
            }
            bytes.truncate(prefix);
            push_sought(&mut bytes, last, &value)?;
            let found = run.world().get(table, &bytes)?;
            flow = point(slot, found, run, each)?;
            if flow.is_break() {
                break;
            }
        }
    }
    run.buffers.push(bytes);
    Ok(flow)
}

fn point<'a>(slot: usize, found: Option<(RecordId, &'a [u8])>, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    run.look()?;
    let Some((record, row)) = found else { return Ok(ControlFlow::Continue(())) };
    run.slot(slot).set(Some(row));
    run.records[slot].set(record);
    each(run)
}

fn all<'a>(table: &'a Arc<RowTable>, slot: usize, run: &mut Run<'a>, each: Each<'_, 'a>) -> Result<Flow> {
    run.world().note_table(table);
    let place = run.world().take_place();
    let first = if let Some(Place::Record(next)) = place { next } else { 0 };
    for record in first..table.records.bound() {
        run.look()?;
        if let Some(row) = run.world().read(table, RecordId(record))? {
            run.slot(slot).set(Some(row));
            run.records[slot].set(RecordId(record));
            let flow = each(run)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        if place.is_some() && run.world().stops(|| Place::Record(record + 1)) {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Appends the beginning of a key; false if a part is NULL, to which nothing is equal.
fn encode<'a>(parts: &'a [Expr], index: &IndexData, run: &Run<'a>, out: &mut Vec<u8>) -> Result<bool> {
    for (part, column) in parts.iter().zip(index.keys()) {
        let value = part.eval(&run.frame)?;
        if value.is_null() {
            return Ok(false);
        }
        push_sought(out, column, &value)?;
    }
    Ok(true)
}

fn index_of(table: &RowTable, which: Which) -> Result<&Arc<IndexData>> {
    let index = match which {
        Which::Primary => table.primary.as_ref(),
        Which::Secondary(at) => table.secondary.get(at),
    };
    index.ok_or_else(|| Error::bug("an index that the plan names is not there"))
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

/// The rows of several parts of one index, each once, in its order.
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
        // What overlaps or touches is one part.
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

/// The rows whose keys begin with one of these.
fn beginnings<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, tests): (Which, &'a [KeyTest]),
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

/// The rows whose keys begin with one of these, which have an element of an array among them.
fn each_of<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, key, tests): (Which, &'a [Expr], &'a [KeyTest]),
    array: usize,
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let is_point = which == Which::Primary && key.len() == index.keys().len();
    let elements = run.world().array(array)?.map_or(&[][..], |elements| &elements.values);
    for element in elements {
        run.frame.element = element.clone();
        let (mut low, mut high) = (run.buffer(), run.buffer());
        let mut flow = ControlFlow::Continue(());
        if encode(key, index, run, &mut low)? {
            if is_point {
                let found = run.world().get(table, &low)?;
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

/// The rows between two keys of an index.
fn between<'a>(
    table: &'a Arc<RowTable>,
    slot: usize,
    (which, tests): (Which, &'a [KeyTest]),
    (from, to, direction): (Bound<&[u8]>, Bound<&[u8]>, Direction),
    run: &mut Run<'a>,
    each: Each<'_, 'a>,
) -> Result<Flow> {
    let index = index_of(table, which)?;
    let tests = KeyTests::new(tests, index, run)?;
    let place = run.world().take_place();
    let (from, to) = match (&place, direction) {
        (Some(Place::Entry(last)), Direction::Forward) => (Bound::Excluded(&**last), to),
        (Some(Place::Entry(last)), Direction::Backward) => (from, Bound::Excluded(&**last)),
        _ => (from, to),
    };
    let (world, guard) = (run.world(), run.guard());
    let mut one = |entry: &[u8], record| {
        run.look()?;
        let row = match which {
            _ if !tests.hold(entry) => None,
            Which::Primary => run.world().read(table, record)?,
            Which::Secondary(_) => run.world().read_entry(table, index, entry, record)?,
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
        let stops = place.is_some() && run.world().stops(|| Place::Entry(entry.into()));
        Ok(if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let mut ended = Ok(ControlFlow::Continue(()));
    let mut noted = false;
    index.scan(from, to, direction, guard, |entry, record| {
        ended = one(entry, record);
        if matches!(ended, Ok(ControlFlow::Continue(()))) {
            return ControlFlow::Continue(());
        }
        // What comes after was not looked at.
        let (from, to) = match direction {
            Direction::Forward => (from, Bound::Included(entry)),
            Direction::Backward => (Bound::Included(entry), to),
        };
        world.note_range(table, index, from, to);
        noted = true;
        ControlFlow::Break(())
    });
    if !noted {
        world.note_range(table, index, from, to);
    }
    ended
}

/// One end of a range: `None` if nothing can be in it. `bytes` holds the equal part; afterwards a low end is these bytes, included,
/// and a high end these bytes, excluded, or nothing.
fn end<'b, 'a>(
    bound: Option<&'a End>,
    column: Option<&KeyColumn>,
    run: &Run<'a>,
    bytes: &'b mut Vec<u8>,
    high: bool,
) -> Result<Option<Bound<&'b [u8]>>> {
    let found = match (bound, column) {
        (Some(bound), Some(column)) => match fitted(bound, column.ty, high, run)? {
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
        // Whatever begins with the equal part. (NULLs are among it where nothing else bounds the column.)
        return Ok(Some(if key::prefix_end(bytes) { Bound::Excluded(bytes) } else { Bound::Unbounded }));
    };
    push_sought(bytes, column, &value)?;
    // Longer keys begin with this value: they belong to it.
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

/// An end of a range of a column of type `to`.
fn fitted<'a>(bound: &'a End, to: Type, high: bool, run: &Run<'a>) -> Result<key_cast::End<'a>> {
    let value: Datum<'a> = bound.value.eval(&run.frame)?;
    Ok(match value {
        Datum::Null => key_cast::End::Nothing,
        value if bound.fit => key_cast::end(&value, to, (high, bound.inclusive), run.world().session.zone),
        value => key_cast::End::At(value, bound.inclusive),
    })
}

/// Tests of an index's keys, with values for one walk over it.
struct KeyTests<'i> {
    index: &'i IndexData,
    /// By column of the index, ascending.
    tests: Vec<(usize, KeyTestBytes)>,
}

/// A test with the bytes that keys have of its values.
enum KeyTestBytes {
    /// In order.
    OneOf(Vec<Vec<u8>>),
    /// From here on, and up to there; whether the ends belong to it.
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

    /// May an entry's row hold what is tested?
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
    fn new<'a>(test: &'a Tested, column: &KeyColumn, run: &mut Run<'a>) -> Result<KeyTestBytes> {
        let bytes = |value: &Datum<'a>| -> Result<Vec<u8>> {
            let mut bytes = Vec::with_capacity(16);
            push_sought(&mut bytes, column, value)?;
            Ok(bytes)
        };
        let mut list = Vec::new();
        match test {
            Tested::OneOf(values) => {
                for value in values {
                    let value = value.eval(&run.frame)?;
                    if !value.is_null() {
                        list.push(bytes(&value)?);
                    }
                }
            }
            Tested::ElementOf(array, element) => {
                let elements = run.world().array(*array)?.map_or(&[][..], |elements| &elements.values);
                for one in elements {
                    run.frame.element = one.clone();
                    let value = element.eval(&run.frame)?;
                    if !value.is_null() {
                        list.push(bytes(&value)?);
                    }
                }
            }
            Tested::Between(low, high) => {
                let mut ends = [None, None];
                for ((end, at), high) in [low, high].into_iter().zip(&mut ends).zip([false, true]) {
                    let Some(end) = end else { continue };
                    match fitted(end, column.ty, high, run)? {
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

#[cfg(test)]
pub(crate) mod tests {
    thread_local! {
        /// Rows that walks over indexes read.
        pub(crate) static FETCHED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
}

/// Locks the rows in these slots, and looks again at the conditions where one has changed. False: the joined row is
/// out.
pub(crate) fn lock<'a>(locks: &[(usize, Lock)], conditions: &'a [Expr], run: &mut Run<'a>) -> Result<bool> {
    let mut again = false;
    for (slot, lock) in locks {
        if run.slot(*slot).get().is_none() {
            continue;
        }
        let record = run.records[*slot].get();
        run.world().change()?;
        let locked = run.txn(|txn| txn.lock_row(&run.tables[*slot], record, lock.mode, lock.policy, run.guard()))?;
        match locked {
            Locked::Row { row, changed } => {
                run.slot(*slot).set(Some(row));
                again |= changed;
            }
            Locked::Gone | Locked::Skipped => return Ok(false),
            Locked::Wait(event) => return Err(run.world().wait(event)),
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
