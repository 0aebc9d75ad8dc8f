//! INSERT, UPDATE, DELETE and MERGE. Rows are found first, then locked and rechecked, then changed, so that a statement
//! never sees its own changes.

mod load;
pub(crate) mod merge;

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Datum, Error, Result, RowIndex, SqlState, TriggerEvent};
use rows::{Isolation, LockMode, Locked, Put, RecordId, RowTable, WaitPolicy};
use rustc_hash::FxHashSet;

use crate::constraints::{TARGET, Writer};
use crate::derived_tables::Derived;
use crate::exec::{self, ExecContext, Flow, Lock, Run, SavedRow};
use crate::expr::{Expr, Frame};
use crate::foreign_keys::{Changed, ForeignKeys};
use crate::from::{self, Source};
use crate::partitions::{Leaf, Movement, Routes};
use crate::plan::{self, Step};
use crate::select::{Output, Select};
use crate::sort_limit::{Emit, bytes_of};
use crate::subquery::Subquery;
use crate::triggers::{StatementTrigger, statement_triggers};

use self::merge::Merge;

pub use load::{Incoming, Load, Loaded, Refused};

/// Slot of `excluded`, the row proposed for insertion, in ON CONFLICT.
pub(crate) const EXCLUDED: usize = 1;

/// State common to INSERT, UPDATE and DELETE.
pub(crate) struct Target {
    pub(crate) writer: Writer,
    /// WITH CHECK OPTION: views, and what the row in slot [`TARGET`] must meet after the change.
    pub(crate) checks: Vec<(Box<str>, Expr)>,
    pub(crate) returning: Vec<Expr>,
    pub(crate) foreign: ForeignKeys,
}

/// The plan of an INSERT.
pub(crate) struct Insert {
    pub(crate) target: Target,
    pub(crate) tables: Vec<Arc<RowTable>>,
    pub(crate) rows: Rows,
    /// Positions of the values that call volatile functions. They are computed last, so that a row whose other values
    /// have errors takes no number of a sequence.
    pub(crate) late: Vec<usize>,
    /// Whether VALUES are evaluated for all rows before the first insert: subqueries in them must not see inserted
    /// rows.
    pub(crate) made_first: bool,
    pub(crate) conflict: Conflict,
    pub(crate) columns: Vec<Output>,
    /// The partitions of a partitioned table.
    pub(crate) routes: Option<Arc<Routes>>,
    /// OIDs of the partitions, in the order of `routes`, if an expression reads `tableoid` of the row: it is then the first
    /// of [`Expr::Computed`]. Else empty.
    pub(crate) tableoids: Vec<u32>,
}

/// The source of inserted rows; each list has one expression for each column of the table.
pub(crate) enum Rows {
    Values(Vec<Vec<Expr>>),
    Select(Box<Select>, Vec<Expr>),
    /// Rows passed in by [`Load`]; the expressions read them.
    External(Vec<Expr>),
}

impl Rows {
    /// Positions of the values that call volatile functions; none if a query gives the rows, whose functions run before.
    pub(crate) fn volatile(&self) -> Vec<usize> {
        let rows = match self {
            Rows::Values(rows) => rows.as_slice(),
            Rows::External(row) => std::slice::from_ref(row),
            Rows::Select(..) => &[],
        };
        let width = rows.first().map_or(0, Vec::len);
        (0..width).filter(|at| rows.iter().any(|row| row[*at].is_volatile())).collect()
    }
}

/// The effect of an equal key in a unique index.
pub(crate) enum Conflict {
    Error,
    Nothing(Arbiter),
    Update { arbiter: Arbiter, set: Vec<(usize, Expr)>, condition: Option<Expr> },
}

/// The index whose conflicts ON CONFLICT handles: `None` for the primary key, else a secondary index by position.
pub(crate) enum Arbiter {
    Any,
    Index(Option<usize>),
    /// A deferrable one, by name: error 55000 for the first row.
    Deferrable(String),
}

/// The plan of an UPDATE or DELETE.
pub(crate) struct Change {
    target: Target,
    tables: Vec<Arc<RowTable>>,
    steps: Vec<Step>,
    conditions: Vec<Expr>,
    /// SET: column positions, ascending, and values; `None` for DELETE.
    set: Option<Vec<(usize, Expr)>>,
    /// Whether SET is evaluated for all rows before the first change: subqueries in it must not see changed rows.
    made_first: bool,
    pub(crate) columns: Vec<Output>,
    /// The movement of rows to other partitions, if the statement names a partitioned table.
    movement: Option<Movement>,
}

/// Whether subqueries that run between changes read a changed table: the statement then hides its changes from them.
pub(crate) fn reads_changed<'t>(
    queries: &[Subquery],
    derived: &[Derived],
    mut written: impl Iterator<Item = &'t Arc<RowTable>>,
) -> bool {
    let mut selects: Vec<&Select> = queries.iter().map(|one| &one.select).collect();
    if selects.iter().any(|select| select.reads_derived()) {
        derived.iter().for_each(|one| one.rows.selects(&mut selects));
    }
    let reads = |table: &Arc<RowTable>| selects.iter().any(|select| select.reads(table.id()));
    written.any(reads)
}

/// Whether SET assigns to a column.
fn is_in(set: &[(usize, Expr)], column: usize) -> bool {
    set.iter().any(|(at, _)| *at == column)
}

/// Unique indexes: `None` for the primary key, secondary ones by position.
pub(crate) fn uniques(table: &RowTable) -> impl Iterator<Item = (Option<usize>, &RowIndex)> {
    let primary = table.primary.iter().map(|index| (None, index.def()));
    let secondary = table.secondary.iter().enumerate().map(|(at, index)| (Some(at), index.def()));
    primary.chain(secondary.filter(|(_, def)| def.unique))
}

/// An UPDATE or DELETE without access paths. Its table is in slot [`TARGET`].
pub(crate) struct ChangeDraft {
    pub(crate) target: Target,
    pub(crate) from: from::From,
    pub(crate) set: Option<Vec<(usize, Expr)>>,
    pub(crate) made_first: bool,
    pub(crate) columns: Vec<Output>,
    pub(crate) movement: Option<Movement>,
}

impl ChangeDraft {
    /// Chooses the access paths. `hashed`: number of hash tables in the statement so far.
    pub(crate) fn planned(self, sources: &[Source], hashed: &mut usize) -> Change {
        let ChangeDraft { target, from, set, made_first, columns, movement } = self;
        let joined = from::joined(sources, &from);
        let (steps, _) = plan::steps(&joined, from.conditions.clone(), &[], hashed);
        let conditions = from.conditions.into_iter().map(|(_, condition)| condition).collect();
        let tables = sources.iter().map(|source| Arc::clone(&source.table)).collect();
        Change { target, tables, steps, conditions, set, made_first, columns, movement }
    }
}

/// Changes made by an INSERT so far.
#[derive(Default)]
struct Done<'a> {
    /// Records that DO UPDATE must not change a second time.
    touched: FxHashSet<RecordId>,
    changed: Vec<Changed<'a>>,
    /// Changes of partitions, with the number of the partition.
    routed: Vec<(usize, Changed<'a>)>,
    /// Records of partitions, like `touched`.
    routed_touched: FxHashSet<(usize, RecordId)>,
}

/// Rows of a change that are locked, with the values of SET that were computed before the first change.
struct Prepared<'a> {
    rows: Vec<SavedRow<'a>>,
    made: Vec<Vec<(usize, Datum<'a>)>>,
}

/// The changes of a plan whose foreign keys are still to be checked.
pub(crate) struct Late<'a> {
    of: LateOf<'a>,
    changes: Changes<'a>,
    run: Run<'a>,
}

enum LateOf<'a> {
    Insert(&'a Insert),
    Change(&'a Change),
    Merge(&'a Merge),
}

impl Late<'_> {
    /// Checks the foreign keys, and runs the actions that they trigger.
    pub(crate) fn check(mut self) -> Result<()> {
        match self.of {
            LateOf::Insert(insert) => insert.follow(self.changes, &mut self.run),
            LateOf::Change(change) => change.follow(self.changes, &mut self.run),
            LateOf::Merge(merge) => merge.follow(self.changes, &mut self.run),
        }
    }
}

fn check_or_defer(late: Late<'_>) -> Result<()> {
    late.run.ctx().defer(late).map_or(Ok(()), Late::check)
}

/// Changed rows whose foreign keys are still to be checked.
#[derive(Default)]
struct Changes<'a> {
    changed: Vec<Changed<'a>>,
    /// Rows that were moved, with the number of their new partition.
    routed: Vec<(usize, Changed<'a>)>,
}

impl Change {
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.target.written()
    }

    pub(crate) fn statement_triggers(&self) -> Vec<StatementTrigger> {
        let table = &self.target.writer.table.schema;
        match &self.set {
            Some(set) => statement_triggers(table, TriggerEvent::Update, |at| is_in(set, at)).collect(),
            None => statement_triggers(table, TriggerEvent::Delete, |_| false).collect(),
        }
    }

    /// Partitions into which rows may be moved.
    pub(crate) fn routed(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.movement.iter().flat_map(|movement| movement.routes().written())
    }

    /// Whether subqueries that run between changes read a table that this changes.
    pub(crate) fn reads_changed(&self, queries: &[Subquery], derived: &[Derived]) -> bool {
        reads_changed(queries, derived, self.written())
    }

    /// The steps that find its rows, and the tables of their slots.
    pub(crate) fn steps(&self) -> (&[Step], &[Arc<RowTable>]) {
        (&self.steps, &self.tables)
    }

    /// Returns the number of changed rows.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        let mut run = Run::new(&self.tables, ctx, Vec::new());
        let found = self.find(&mut run)?;
        let prepared = self.locked(found, &mut run)?;
        let mut changed = Changes::default();
        let count = self.apply(prepared, &mut run, &mut changed, emit)?;
        check_or_defer(Late { of: LateOf::Change(self), changes: changed, run })?;
        Ok(count)
    }

    /// Runs the same change of several tables: the rows of all are found and locked before the first one is changed.
    pub(crate) fn run_all<'a>(all: &'a [Change], ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        let mut found = Vec::with_capacity(all.len());
        for one in all {
            let mut run = Run::new(&one.tables, ctx, Vec::new());
            let rows = one.find(&mut run)?;
            if !rows.is_empty() {
                found.push((one, run, rows));
            }
        }
        let mut locked = Vec::with_capacity(found.len());
        for (one, mut run, rows) in found {
            let prepared = one.locked(rows, &mut run)?;
            locked.push((one, run, prepared));
        }
        let (mut count, mut changed) = (0, Vec::with_capacity(locked.len()));
        for (one, mut run, prepared) in locked {
            let mut own = Changes::default();
            count += one.apply(prepared, &mut run, &mut own, emit)?;
            changed.push((one, run, own));
        }
        for (one, run, own) in changed {
            check_or_defer(Late { of: LateOf::Change(one), changes: own, run })?;
        }
        Ok(count)
    }

    /// Locks the rows that were found, and computes the values of SET that must not see changed rows.
    fn locked<'a>(&'a self, found: Vec<SavedRow<'a>>, run: &mut Run<'a>) -> Result<Prepared<'a>> {
        let mut prepared = Prepared { rows: self.lock(found, run)?, made: Vec::new() };
        if let (Some(set), true) = (&self.set, self.made_first) {
            for one in &prepared.rows {
                run.restore_row(*one);
                prepared.made.push(Target::changes(set, run)?);
                run.ctx().misses();
            }
            run.ctx().check_values()?;
        }
        Ok(prepared)
    }

    fn follow<'a>(&'a self, changes: Changes<'a>, run: &mut Run<'a>) -> Result<()> {
        run.ctx().check_values()?;
        self.target.foreign.follow(changes.changed, run)?;
        match &self.movement {
            Some(movement) => movement.routes().follow(changes.routed, run),
            None => Ok(()),
        }
    }

    /// Changes the rows.
    fn apply<'a>(
        &'a self,
        prepared: Prepared<'a>,
        run: &mut Run<'a>,
        changes: &mut Changes<'a>,
        emit: Emit<'_, 'a>,
    ) -> Result<u64> {
        let ctx = run.ctx();
        // An INSERT in WITH may have met one.
        ctx.note_conflict(false);
        let Prepared { rows: found, made } = prepared;
        let mut count = 0;
        let Changes { changed, routed } = changes;
        let mut made = made.into_iter();
        for one in found {
            ctx.change()?;
            run.restore_row(one);
            let record = run.records[TARGET].get();
            match &self.set {
                Some(set) => {
                    let values = made.next().map_or_else(|| Target::changes(set, run), Ok)?;
                    if ctx.misses() {
                        continue;
                    }
                    let is_done = self.moves(&values, record, run, changed, routed)?
                        || self.target.update(&values, record, run, changed)?;
                    if !is_done {
                        continue;
                    }
                }
                None => {
                    if !self.target.delete(record, run, changed)? {
                        continue;
                    }
                }
            }
            count += 1;
            self.target.give_back(&run.frame, emit)?;
        }
        Ok(count)
    }

    /// Moves the row in slot [`TARGET`] to another partition if its new values are out of the bounds of this one.
    fn moves<'a>(
        &'a self,
        values: &[(usize, Datum<'a>)],
        record: RecordId,
        run: &mut Run<'a>,
        changed: &mut Vec<Changed<'a>>,
        routed: &mut Vec<(usize, Changed<'a>)>,
    ) -> Result<bool> {
        let Some(movement) = &self.movement else { return Ok(false) };
        let old = run.slot(TARGET).get().ok_or_else(|| Error::bug("a moved row does not exist"))?;
        let writer = &self.target.writer;
        let new = writer.changed_values(old, values)?;
        if movement.stays(&new, run)? {
            return Ok(false);
        }
        movement.check_leaving()?;
        // The row may be referenced: no key must be lost.
        let (mode, policy) = (LockMode::Update, WaitPolicy::Wait);
        match run.txn(|txn| txn.lock_row(&writer.table, record, mode, policy, run.guard()))? {
            Locked::Row { .. } => {}
            Locked::Wait(event) => return Err(run.ctx().wait(event)),
            Locked::Gone | Locked::Skipped => return Err(Error::bug("a locked row is gone")),
        }
        self.target.delete(record, run, changed)?;
        movement.insert(&new, run, routed)?;
        // RETURNING and WITH CHECK OPTION read the row as one of the partition that it left.
        if !self.target.returning.is_empty() || !self.target.checks.is_empty() {
            let row = writer.placed(&new, run)?;
            self.target.check(row, run)?;
        }
        Ok(true)
    }

    fn find<'a>(&'a self, run: &mut Run<'a>) -> Result<Vec<SavedRow<'a>>> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let _: Flow = exec::joined(&self.steps, run, &mut |run| {
            // A row that several joined rows contain is changed once.
            if self.tables.len() == 1 || seen.insert(run.records[TARGET].get()) {
                found.push(run.save_row());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        run.ctx().check_values()?;
        Ok(found)
    }

    /// Locks all rows before the first change, so that a statement that must wait has less to undo.
    fn lock<'a>(&'a self, found: Vec<SavedRow<'a>>, run: &mut Run<'a>) -> Result<Vec<SavedRow<'a>>> {
        let mode = if self.set.is_some() { LockMode::NoKeyUpdate } else { LockMode::Update };
        let lock = Lock { mode, policy: WaitPolicy::Wait };
        let mut locked = Vec::with_capacity(found.len());
        for one in found {
            run.restore_row(one);
            let before = run.slot(TARGET).get();
            if exec::lock(&[(TARGET, lock)], &self.conditions, run)? {
                let same = run.slot(TARGET).get().map(<[u8]>::as_ptr) == before.map(<[u8]>::as_ptr);
                locked.push(if same { one } else { run.save_row() });
            }
        }
        Ok(locked)
    }
}

impl Insert {
    /// The SELECT whose rows it inserts, if any.
    pub(crate) fn query(&self) -> Option<&Select> {
        match &self.rows {
            Rows::Values(_) | Rows::External(_) => None,
            Rows::Select(select, _) => Some(select),
        }
    }

    /// Whether one run can insert several rows of parameters.
    pub(crate) fn takes_rows(&self) -> bool {
        // A trigger of the whole statement runs once for each statement.
        let is_whole = self.target.writer.table.schema.triggers.iter().any(|one| !one.each_row);
        matches!(&self.rows, Rows::Values(rows) if rows.len() == 1) && !self.made_first && !is_whole
    }

    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.target.written().chain(self.routes.iter().flat_map(|routes| routes.written()))
    }

    pub(crate) fn statement_triggers(&self) -> Vec<StatementTrigger> {
        let table = &self.target.writer.table.schema;
        let mut triggers: Vec<StatementTrigger> = statement_triggers(table, TriggerEvent::Insert, |_| false).collect();
        if let Conflict::Update { set, .. } = &self.conflict {
            triggers.extend(statement_triggers(table, TriggerEvent::Update, |at| is_in(set, at)));
        }
        triggers
    }

    /// Returns the number of rows inserted or updated.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>, emit: Emit<'_, 'a>) -> Result<u64> {
        let mut selected = Vec::new();
        if let Rows::Select(select, _) = &self.rows {
            select.run(ctx, Vec::new(), &mut |row| {
                ctx.keep(size_of::<Vec<Datum<'_>>>() + bytes_of(row));
                ctx.room(0)?;
                selected.push(row.to_vec());
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let mut run = Run::new(&self.tables, ctx, Vec::new());
        let (mut count, mut done) = (0, Done::default());
        let mut one = |values: &[Datum<'a>], run: &mut Run<'a>| -> Result<()> {
            if !ctx.misses() && self.row(values, run, &mut done)? {
                count += 1;
                self.target.give_back(&run.frame, emit)?;
            }
            Ok(())
        };
        match &self.rows {
            Rows::External(_) => return Err(Error::bug("an INSERT of external rows run without them")),
            Rows::Values(rows) if self.made_first => {
                let rows = rows.iter().map(|row| self.values(row, &run)).collect::<Result<Vec<_>>>()?;
                rows.iter().try_for_each(|row| one(row, &mut run))?;
            }
            Rows::Values(rows) => loop {
                for row in rows {
                    let row = self.values(row, &run)?;
                    one(&row, &mut run)?;
                }
                if !ctx.next_row_of_params() {
                    break;
                }
            },
            Rows::Select(_, exprs) => {
                for row in selected {
                    run.frame.computed = row;
                    let row = self.values(exprs, &run)?;
                    one(&row, &mut run)?;
                }
            }
        }
        ctx.check_values()?;
        let changes = Changes { changed: done.changed, routed: done.routed };
        check_or_defer(Late { of: LateOf::Insert(self), changes, run })?;
        Ok(count)
    }

    fn follow<'a>(&'a self, changes: Changes<'a>, run: &mut Run<'a>) -> Result<()> {
        self.target.foreign.follow(changes.changed, run)?;
        match &self.routes {
            Some(routes) => routes.follow(changes.routed, run),
            None => Ok(()),
        }
    }

    /// The values of a row.
    fn values<'a>(&self, exprs: &'a [Expr], run: &Run<'a>) -> Result<Vec<Datum<'a>>> {
        if self.late.is_empty() {
            return exprs.iter().map(|value| value.eval(&run.frame)).collect();
        }
        let mut values = vec![Datum::Null; exprs.len()];
        let early = (0..exprs.len()).filter(|at| !self.late.contains(at));
        for at in early.chain(self.late.iter().copied()) {
            values[at] = exprs[at].eval(&run.frame)?;
        }
        Ok(values)
    }

    /// Inserts one row or applies ON CONFLICT; returns false if no row was inserted or updated.
    fn row<'a>(&'a self, values: &[Datum<'a>], run: &mut Run<'a>, done: &mut Done<'a>) -> Result<bool> {
        if let Some(routes) = &self.routes {
            return self.routed_row(routes, values, run, done);
        }
        let Target { writer, foreign, .. } = &self.target;
        let Some(values) = writer.before_insert(values, run)? else { return Ok(false) };
        let row = writer.make(&values, run)?;
        run.ctx().change()?;
        run.ctx().note_conflict(false);
        loop {
            let put = run.txn(|txn| txn.insert(&writer.table, row.into(), run.guard()))?;
            self.refuse_deferrable(&writer.table, &put)?;
            let (index, record) = match self.decided(put, row, run)? {
                Put::Wait(event) => return Err(run.ctx().wait(event)),
                Put::Done(record) => {
                    if matches!(self.conflict, Conflict::Update { .. }) {
                        done.touched.insert(record);
                    }
                    if !foreign.is_empty() {
                        done.changed.push(Changed { record, old: None, new: Some(row) });
                    }
                    run.records[TARGET].set(record);
                    writer.note_change(TriggerEvent::Insert, (None, Some(row)), &[], run)?;
                    return self.target.check(row, run).map(|()| true);
                }
                Put::Duplicate { index, record } => (index, record),
            };
            match &self.conflict {
                Conflict::Nothing(arbiter) if arbiter.decides(index) => {
                    return self.is_seen(record, run).map(|()| false);
                }
                Conflict::Update { arbiter, set, condition } if arbiter.decides(index) => {
                    if done.touched.contains(&record) {
                        return Err(twice());
                    }
                    let (mode, policy) = (LockMode::NoKeyUpdate, WaitPolicy::Wait);
                    let lock = run.txn(|txn| txn.lock_row(&writer.table, record, mode, policy, run.guard()))?;
                    check_unchanged(&writer.table, record, run)?;
                    let old = match lock {
                        Locked::Row { row, .. } => row,
                        Locked::Wait(event) => return Err(run.ctx().wait(event)),
                        // Deleted in the meantime: the key is free.
                        Locked::Gone | Locked::Skipped => continue,
                    };
                    run.slot(TARGET).set(Some(old));
                    run.records[TARGET].set(record);
                    run.slot(EXCLUDED).set(Some(row));
                    if let Some(condition) = condition
                        && !condition.holds(&run.frame)?
                    {
                        return Ok(false);
                    }
                    run.ctx().note_conflict(true);
                    done.touched.insert(record);
                    let changes = Target::changes(set, run)?;
                    return self.target.update(&changes, record, run, &mut done.changed);
                }
                _ => return Err(writer.duplicate(index, &writer.values(row)?, &run.frame)),
            }
        }
    }
}

impl Insert {
    /// Does what [`Insert::row`] does, for a row of a partitioned table.
    fn routed_row<'a>(
        &'a self,
        routes: &'a Routes,
        values: &[Datum<'a>],
        run: &mut Run<'a>,
        done: &mut Done<'a>,
    ) -> Result<bool> {
        run.ctx().change()?;
        if matches!(self.conflict, Conflict::Error) {
            let at = routes.insert(values, run, &mut done.routed)?;
            self.note_partition(at, run);
            return self.check_placed(run).map(|()| true);
        }
        let at = routes.find(values, run)?;
        self.note_partition(at, run);
        let leaf = &routes.leaves[at];
        let own = leaf.values(values);
        let row = leaf.writer.make(&own, run)?;
        let table = leaf.table();
        loop {
            let put = run.txn(|txn| txn.insert(table, row.into(), run.guard()))?;
            self.refuse_deferrable(table, &put)?;
            let (put, wanted) = self.routed_conflict(leaf, put, row, run)?;
            let (index, record) = match put {
                Put::Wait(event) => return Err(run.ctx().wait(event)),
                Put::Done(record) => {
                    if matches!(self.conflict, Conflict::Update { .. }) {
                        done.routed_touched.insert((at, record));
                    }
                    if !leaf.foreign.is_empty() {
                        done.routed.push((at, Changed { record, old: None, new: Some(row) }));
                    }
                    run.slot(TARGET).set(Some(leaf.root_row(routes, row, run)?));
                    return self.check_placed(run).map(|()| true);
                }
                Put::Duplicate { index, record } => (index, record),
            };
            let decides = wanted.is_none_or(|wanted| wanted == index);
            match &self.conflict {
                Conflict::Nothing(_) if decides => return is_seen_in(table, record, run).map(|()| false),
                Conflict::Update { set, condition, .. } if decides => {
                    if done.routed_touched.contains(&(at, record)) {
                        return Err(twice());
                    }
                    let (mode, policy) = (LockMode::NoKeyUpdate, WaitPolicy::Wait);
                    check_unchanged(table, record, run)?;
                    let old = match run.txn(|txn| txn.lock_row(table, record, mode, policy, run.guard()))? {
                        Locked::Row { row, .. } => row,
                        Locked::Wait(event) => return Err(run.ctx().wait(event)),
                        // Deleted in the meantime: the key is free.
                        Locked::Gone | Locked::Skipped => continue,
                    };
                    run.slot(TARGET).set(Some(leaf.root_row(routes, old, run)?));
                    run.slot(EXCLUDED).set(Some(leaf.root_row(routes, row, run)?));
                    if let Some(condition) = condition
                        && !condition.holds(&run.frame)?
                    {
                        return Ok(false);
                    }
                    done.routed_touched.insert((at, record));
                    let changes = leaf.changes(Target::changes(set, run)?)?;
                    self.update_routed(routes, at, (&changes, old, record), run, done)?;
                    return self.check_placed(run).map(|()| true);
                }
                _ => return Err(leaf.writer.duplicate(index, &own, &run.frame)),
            }
        }
    }

    /// Gives `tableoid` its value: the partition at a position.
    fn note_partition(&self, at: usize, run: &mut Run<'_>) {
        if let Some(oid) = self.tableoids.get(at) {
            run.frame.computed = vec![Datum::Oid(*oid)];
        }
    }

    /// Error 55000 if ON CONFLICT must look at a deferrable key: of its target or, without one, of the table. PostgreSQL looks
    /// at indexes in the order of their creation, and a conflict in one ends the search.
    ///
    /// - `put`: result of the insert of a row; its changes are undone with the statement.
    fn refuse_deferrable(&self, table: &RowTable, put: &Put) -> Result<()> {
        let arbiter = match &self.conflict {
            Conflict::Nothing(arbiter) | Conflict::Update { arbiter, .. } => arbiter,
            Conflict::Error => return Ok(()),
        };
        let name = match (arbiter, put) {
            (Arbiter::Index(_), _) | (_, Put::Wait(_)) => return Ok(()),
            (Arbiter::Deferrable(name), _) => name,
            (Arbiter::Any, Put::Done(_) | Put::Duplicate { .. }) => {
                let deferrable = table.schema.secondary.iter().filter(|index| index.is_deferrable());
                let Some(first) = deferrable.min_by_key(|index| index.id) else { return Ok(()) };
                let met = match put {
                    Put::Duplicate { index: None, .. } => table.schema.primary.as_ref(),
                    Put::Duplicate { index: Some(at), .. } => table.schema.secondary.get(*at),
                    _ => None,
                };
                if met.is_some_and(|met| met.id < first.id) {
                    return Ok(());
                }
                &first.name
            }
        };
        let text = "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters";
        let error = Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
        Err(error.about_constraint(&table.schema.name, name))
    }

    /// Checks the row in slot [`TARGET`], which is one of the partitioned table.
    fn check_placed<'a>(&'a self, run: &Run<'a>) -> Result<()> {
        match run.slot(TARGET).get() {
            Some(row) => self.target.check(row, run),
            None => Err(Error::bug("an inserted row does not exist")),
        }
    }

    /// DO UPDATE of a row of a partition.
    fn update_routed<'a>(
        &'a self,
        routes: &'a Routes,
        at: usize,
        (changes, old, record): (&[(usize, Datum<'a>)], &'a [u8], RecordId),
        run: &mut Run<'a>,
        done: &mut Done<'a>,
    ) -> Result<()> {
        let leaf = &routes.leaves[at];
        let new = leaf.writer.changed_values(old, changes)?;
        if routes.find(&leaf.root_values(&new), run).ok() != Some(at) {
            let error = Error::unsupported("invalid ON UPDATE specification");
            let detail = "The result tuple would appear in a different partition than the original tuple.";
            return Err(error.with_detail(detail));
        }
        let row = leaf.writer.change(old, changes, run)?;
        match run.txn(|txn| txn.update(leaf.table(), record, row.into(), run.guard()))? {
            Put::Done(record) => {
                if !leaf.foreign.is_empty() {
                    done.routed.push((at, Changed { record, old: Some(old), new: Some(row) }));
                }
            }
            Put::Wait(event) => return Err(run.ctx().wait(event)),
            Put::Duplicate { index, .. } => {
                return Err(leaf.writer.duplicate(index, &leaf.writer.values(row)?, &run.frame));
            }
        }
        run.slot(TARGET).set(Some(leaf.root_row(routes, row, run)?));
        Ok(())
    }

    /// The conflict that decides, and the index of the partition that belongs to that of ON CONFLICT; `None` for any.
    fn routed_conflict(
        &self,
        leaf: &Leaf,
        put: Put,
        row: &[u8],
        run: &Run<'_>,
    ) -> Result<(Put, Option<Option<usize>>)> {
        let arbiter = match &self.conflict {
            Conflict::Nothing(arbiter) | Conflict::Update { arbiter, .. } => arbiter,
            Conflict::Error => return Ok((put, None)),
        };
        let Arbiter::Index(of_root) = arbiter else { return Ok((put, None)) };
        let wanted = leaf.index_of(&self.target.writer.table, *of_root)?;
        Ok(match &put {
            Put::Duplicate { index, .. } if *index != wanted => match wanted {
                Some(at) => {
                    let found = run.txn(|txn| txn.duplicate_in(leaf.table(), at, row, run.guard()))?;
                    (found.unwrap_or(put), Some(wanted))
                }
                None => (put, Some(wanted)),
            },
            _ => (put, Some(wanted)),
        })
    }

    /// A row may meet others in several indexes. The one of ON CONFLICT decides, whichever was looked at first.
    fn decided(&self, put: Put, row: &[u8], run: &Run<'_>) -> Result<Put> {
        let arbiter = match &self.conflict {
            Conflict::Nothing(arbiter) | Conflict::Update { arbiter, .. } => arbiter,
            Conflict::Error => return Ok(put),
        };
        match (&put, arbiter) {
            (Put::Duplicate { index, .. }, Arbiter::Index(Some(wanted))) if *index != Some(*wanted) => {
                let table = &self.target.writer.table;
                let found = run.txn(|txn| txn.duplicate_in(table, *wanted, row, run.guard()))?;
                Ok(found.unwrap_or(put))
            }
            _ => Ok(put),
        }
    }

    /// DO NOTHING is allowed if the snapshot shows the conflicting row. From REPEATABLE READ on, skipping for a row
    /// that the snapshot does not show is error 40001, as in PostgreSQL.
    fn is_seen(&self, record: RecordId, run: &Run<'_>) -> Result<()> {
        is_seen_in(&self.target.writer.table, record, run)
    }
}

fn is_seen_in(table: &RowTable, record: RecordId, run: &Run<'_>) -> Result<()> {
    let is_seen = run.txn(|txn| {
        let is_free = txn.isolation() < Isolation::RepeatableRead || txn.has_hidden(table, record);
        Ok(is_free || txn.read(table, record, run.guard())?.is_some())
    })?;
    if is_seen {
        return Ok(());
    }
    let text = "could not serialize access due to concurrent update";
    Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"))
}

impl Arbiter {
    fn decides(&self, index: Option<usize>) -> bool {
        match self {
            Arbiter::Any => true,
            Arbiter::Index(wanted) => *wanted == index,
            Arbiter::Deferrable(_) => false,
        }
    }
}

/// Error 21000 for a row that a change in WITH of the statement has changed.
fn check_unchanged(table: &RowTable, record: RecordId, run: &Run<'_>) -> Result<()> {
    if run.txn(|txn| Ok(txn.has_hidden(table, record)))? { Err(twice()) } else { Ok(()) }
}

fn twice() -> Error {
    let text = "ON CONFLICT DO UPDATE command cannot affect row a second time";
    let hint = "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.";
    Error::new(SqlState::CARDINALITY_VIOLATION, text).with_hint(hint)
}

impl Target {
    /// Tables whose rows the statement changes, including those changed by foreign key actions.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        std::iter::once(&self.writer.table).chain(self.foreign.written())
    }

    /// Evaluates SET for the row in slot `TARGET`.
    fn changes<'a>(set: &'a [(usize, Expr)], run: &Run<'a>) -> Result<Vec<(usize, Datum<'a>)>> {
        set.iter().map(|(column, value)| Ok((*column, value.eval(&run.frame)?))).collect()
    }

    /// Updates the row in slot `TARGET`; returns whether a trigger let it. Precondition: its record is locked.
    fn update<'a>(
        &'a self,
        changes: &[(usize, Datum<'a>)],
        record: RecordId,
        run: &mut Run<'a>,
        changed: &mut Vec<Changed<'a>>,
    ) -> Result<bool> {
        let table = &self.writer.table;
        let old = run.slot(TARGET).get().ok_or_else(|| Error::bug("an updated row does not exist"))?;
        let set = changes;
        let Some(changes) = self.writer.before_update(old, set, run)? else { return Ok(false) };
        let row = self.writer.change(old, &changes, run)?;
        let put = run.txn(|txn| txn.update(table, record, row.into(), run.guard()))?;
        match put {
            // A row with another primary key is in another record.
            Put::Done(record) => {
                run.records[TARGET].set(record);
                if !self.foreign.is_empty() {
                    changed.push(Changed { record, old: Some(old), new: Some(row) });
                }
                self.writer.note_change(TriggerEvent::Update, (Some(old), Some(row)), set, run)?;
                self.check(row, run).map(|()| true)
            }
            Put::Wait(event) => Err(run.ctx().wait(event)),
            Put::Duplicate { index, .. } => Err(self.writer.duplicate(index, &self.writer.values(row)?, &run.frame)),
        }
    }

    /// Deletes the row in slot `TARGET`; returns whether a trigger let it. Precondition: its record is locked.
    fn delete<'a>(&'a self, record: RecordId, run: &Run<'a>, changed: &mut Vec<Changed<'a>>) -> Result<bool> {
        let old = run.slot(TARGET).get().ok_or_else(|| Error::bug("a deleted row does not exist"))?;
        if !self.writer.before_delete(old, run)? {
            return Ok(false);
        }
        if !self.foreign.is_empty() {
            changed.push(Changed { record, old: Some(old), new: None });
        }
        if let Some(event) = run.txn(|txn| txn.delete(&self.writer.table, record, run.guard()))? {
            return Err(run.ctx().wait(event));
        }
        self.writer.note_change(TriggerEvent::Delete, (Some(old), None), &[], run)?;
        Ok(true)
    }

    /// Checks the row in slot `TARGET` for the views through which it was changed.
    fn check<'a>(&'a self, row: &'a [u8], run: &Run<'a>) -> Result<()> {
        for (view, condition) in &self.checks {
            if !condition.holds(&run.frame)? {
                let text = format!("new row violates check option for view \"{view}\"");
                let detail = self.writer.failing(&self.writer.values(row)?, &run.frame);
                return Err(Error::new(SqlState::WITH_CHECK_OPTION_VIOLATION, text).with_detail(detail));
            }
        }
        Ok(())
    }

    /// Evaluates RETURNING and emits the row.
    fn give_back<'a>(&'a self, frame: &Frame<'a>, emit: Emit<'_, 'a>) -> Result<()> {
        if self.returning.is_empty() {
            return Ok(());
        }
        let row = self.returning.iter().map(|expr| expr.eval(frame)).collect::<Result<Vec<_>>>()?;
        emit(&row).map(|_| ())
    }
}
