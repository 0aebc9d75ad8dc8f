//! MERGE: each row of the source, joined with the table, takes the first action whose condition holds. All rows are found
//! before the first one is changed.

use std::ops::ControlFlow;
use std::sync::Arc;

use model::{Error, Result, SqlState, TriggerEvent};
use rows::{LockMode, Locked, Put, RecordId, RowTable, WaitPolicy};
use rustc_hash::FxHashSet;

use super::{Changes, Late, LateOf, Target, check_or_defer, is_in};
use crate::constraints::TARGET;
use crate::exec::{self, ExecContext, Flow, Run};
use crate::expr::Expr;
use crate::foreign_keys::Changed;
use crate::from::{self, From, Source};
use crate::plan::{self, Step};
use crate::triggers::{StatementTrigger, statement_triggers};

/// The plan of a MERGE.
pub(crate) struct Merge {
    target: Target,
    /// The table, for the slots of [`Target`].
    written: Vec<Arc<RowTable>>,
    /// Tables of the join; that of the statement is the last one.
    tables: Vec<Arc<RowTable>>,
    steps: Vec<Step>,
    /// The condition of the join, over its slots, as are all expressions of branches.
    on: Option<Expr>,
    branches: Vec<Branch>,
}

/// WHEN … THEN.
pub(crate) struct Branch {
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Nothing,
    Delete,
    /// SET: column positions, ascending, and values.
    Update(Vec<(usize, Expr)>),
    /// One value for each column.
    Insert(Vec<Expr>),
}

/// A MERGE without access paths.
pub(crate) struct MergeDraft {
    pub(crate) target: Target,
    pub(crate) from: From,
    pub(crate) on: Option<Expr>,
    pub(crate) branches: Vec<Branch>,
}

impl MergeDraft {
    /// Chooses the access paths. `hashed`: number of hash tables in the statement so far.
    pub(crate) fn planned(self, sources: &[Source], hashed: &mut usize) -> Merge {
        let MergeDraft { target, from, on, branches } = self;
        let joined = from::joined(sources, &from);
        let (steps, _) = plan::steps(&joined, from.conditions.clone(), &[], hashed);
        let tables = sources.iter().map(|source| Arc::clone(&source.table)).collect();
        let written = [TARGET, super::EXCLUDED].map(|_| Arc::clone(&target.writer.table)).into();
        Merge { target, written, tables, steps, on, branches }
    }
}

/// A MERGE that runs: the joined row, the row that is written, and what was done.
struct Running<'a> {
    join: Run<'a>,
    write: Run<'a>,
    changes: Changes<'a>,
    /// Records that were changed.
    touched: FxHashSet<RecordId>,
}

impl Merge {
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<RowTable>> {
        self.target.written()
    }

    /// The steps that find its rows, and the tables of their slots.
    pub(crate) fn steps(&self) -> (&[Step], &[Arc<RowTable>]) {
        (&self.steps, &self.tables)
    }

    pub(crate) fn statement_triggers(&self) -> Vec<StatementTrigger> {
        let table = &self.target.writer.table.schema;
        let mut triggers: Vec<StatementTrigger> = Vec::new();
        for event in [TriggerEvent::Insert, TriggerEvent::Update, TriggerEvent::Delete] {
            let mut sets: Vec<&[(usize, Expr)]> = Vec::new();
            let mut is_done = false;
            for branch in &self.branches {
                match (&branch.action, event) {
                    (Action::Update(set), TriggerEvent::Update) => sets.push(set),
                    (Action::Insert(_), TriggerEvent::Insert) | (Action::Delete, TriggerEvent::Delete) => {
                        is_done = true
                    }
                    _ => {}
                }
            }
            if is_done || !sets.is_empty() {
                triggers.extend(statement_triggers(table, event, |at| sets.iter().any(|set| is_in(set, at))));
            }
        }
        triggers
    }

    /// Returns the number of rows inserted, updated or deleted.
    pub(crate) fn run<'a>(&'a self, ctx: &'a ExecContext<'a>) -> Result<u64> {
        let mut running = Running {
            join: Run::new(&self.tables, ctx, Vec::new()),
            write: Run::new(&self.written, ctx, Vec::new()),
            changes: Changes::default(),
            touched: FxHashSet::default(),
        };
        let mut found = Vec::new();
        let _: Flow = exec::joined(&self.steps, &mut running.join, &mut |run| {
            found.push(run.save_row());
            Ok(ControlFlow::Continue(()))
        })?;
        let mut count = 0;
        for one in found {
            ctx.change()?;
            running.join.restore_row(one);
            count += u64::from(self.row(&mut running)?);
            ctx.misses();
        }
        ctx.check_values()?;
        let Running { write, changes, .. } = running;
        check_or_defer(Late { of: LateOf::Merge(self), changes, run: write })?;
        Ok(count)
    }

    pub(super) fn follow<'a>(&'a self, changes: Changes<'a>, run: &mut Run<'a>) -> Result<()> {
        self.target.foreign.follow(changes.changed, run)
    }

    /// Slot of the table in the join.
    fn slot(&self) -> usize {
        self.tables.len() - 1
    }

    /// Acts on the joined row; returns whether a row was changed.
    fn row<'a>(&'a self, running: &mut Running<'a>) -> Result<bool> {
        if running.join.slot(self.slot()).get().is_some() {
            match self.branch(true, &running.join)? {
                None => return Ok(false),
                Some(branch) => {
                    if let Some(changed) = self.matched(branch, running)? {
                        return Ok(changed);
                    }
                }
            }
            // The row was deleted by another transaction, or does not match any more.
            running.join.slot(self.slot()).set(None);
        }
        match self.branch(false, &running.join)? {
            Some(Branch { action: Action::Insert(values), .. }) => self.insert(values, running),
            _ => Ok(false),
        }
    }

    /// The first branch whose condition the joined row fulfils.
    fn branch<'a>(&'a self, matched: bool, join: &Run<'a>) -> Result<Option<&'a Branch>> {
        for branch in self.branches.iter().filter(|branch| branch.matched == matched) {
            if branch.condition.as_ref().map_or(Ok(true), |condition| condition.holds(&join.frame))? {
                return Ok(Some(branch));
            }
        }
        Ok(None)
    }

    /// Locks the matched row and changes it; `None` if there is no such row any more.
    fn matched<'a>(&'a self, branch: &'a Branch, running: &mut Running<'a>) -> Result<Option<bool>> {
        let record = running.join.records[self.slot()].get();
        if matches!(branch.action, Action::Nothing) {
            return Ok(Some(false));
        }
        let table = &running.join.tables[self.slot()];
        let is_changed_before = running.join.txn(|txn| Ok(txn.has_hidden(table, record)))?;
        if is_changed_before || running.touched.contains(&record) {
            let text = "MERGE command cannot affect row a second time";
            let hint = "Ensure that not more than one source row matches any one target row.";
            return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text).with_hint(hint));
        }
        let Some(is_changed) = self.lock(branch, record, running)? else { return Ok(None) };
        let mut branch = branch;
        if is_changed {
            if !self.on.as_ref().map_or(Ok(true), |on| on.holds(&running.join.frame))? {
                return Ok(None);
            }
            let Some(other) = self.branch(true, &running.join)? else { return Ok(Some(false)) };
            if !matches!(other.action, Action::Nothing) && self.lock(other, record, running)?.is_none() {
                return Ok(None);
            }
            branch = other;
        }
        let old = running.join.slot(self.slot()).get();
        running.write.slot(TARGET).set(old);
        let is_done = match &branch.action {
            Action::Update(set) => {
                let values = Target::changes(set, &running.join)?;
                self.target.update(&values, record, &mut running.write, &mut running.changes.changed)?
            }
            Action::Delete => self.target.delete(record, &running.write, &mut running.changes.changed)?,
            Action::Nothing | Action::Insert(_) => return Ok(Some(false)),
        };
        running.touched.insert(record);
        Ok(Some(is_done))
    }

    /// Locks the row for the action of a branch; the slot then has its newest version. Returns whether that is another one
    /// than the snapshot shows; `None` if the row is gone.
    fn lock<'a>(&'a self, branch: &Branch, record: RecordId, running: &Running<'a>) -> Result<Option<bool>> {
        let mode = if matches!(branch.action, Action::Delete) { LockMode::Update } else { LockMode::NoKeyUpdate };
        let (join, slot) = (&running.join, self.slot());
        let table = &join.tables[slot];
        match join.txn(|txn| txn.lock_row(table, record, mode, WaitPolicy::Wait, join.guard()))? {
            Locked::Row { row, changed } => {
                join.slot(slot).set(Some(row));
                Ok(Some(changed))
            }
            Locked::Gone | Locked::Skipped => Ok(None),
            Locked::Wait(event) => Err(join.ctx().wait(event)),
        }
    }

    fn insert<'a>(&'a self, values: &'a [Expr], running: &mut Running<'a>) -> Result<bool> {
        let values = values.iter().map(|value| value.eval(&running.join.frame)).collect::<Result<Vec<_>>>()?;
        let (writer, write) = (&self.target.writer, &running.write);
        let Some(values) = writer.before_insert(&values, write)? else { return Ok(false) };
        let row = writer.make(&values, write)?;
        match write.txn(|txn| txn.insert(&writer.table, row.into(), write.guard()))? {
            Put::Done(record) => {
                running.touched.insert(record);
                if !self.target.foreign.is_empty() {
                    running.changes.changed.push(Changed { record, old: None, new: Some(row) });
                }
                writer.note_change(TriggerEvent::Insert, (None, Some(row)), &[], write)?;
                Ok(true)
            }
            Put::Wait(event) => Err(write.ctx().wait(event)),
            Put::Duplicate { index, .. } => Err(writer.duplicate(index, &writer.values(row)?, &write.frame)),
        }
    }
}
