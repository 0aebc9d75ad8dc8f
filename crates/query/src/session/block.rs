//! Transaction blocks: begin, commit, rollback and savepoints.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::{Isolation, Txn};
use model::{Error, Result, SqlState};

use super::assign::assign;
use crate::session::Session;
use crate::settings::Settings;
use crate::threads::{compute, computing};

/// Transaction status of a session, as in ReadyForQuery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// 'I'
    Idle,
    /// 'T'
    InBlock,
    /// 'E'
    Failed,
}

/// A transaction block.
pub(crate) struct Block {
    /// Started by the first statement that reads or writes.
    pub(crate) txn: Option<Txn>,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
    pub(crate) failed: bool,
    pub(crate) implicit: bool,
    /// Implicit, and of one statement, which may commit it and go on in the next one: a CALL.
    pub(crate) alone: bool,
    /// The block belongs to a single statement that is still running (COPY FROM STDIN).
    pub(crate) single: bool,
    /// `now()`
    pub(crate) started_ns: i64,
    /// Settings that ROLLBACK restores.
    before: Arc<Settings>,
    /// Settings that COMMIT keeps, without SET LOCAL.
    pub(crate) after: Arc<Settings>,
    /// Savepoints, outermost first.
    pub(crate) savepoints: Vec<Mark>,
}

/// A savepoint.
pub(crate) struct Mark {
    pub(crate) name: String,
    /// Absent if nothing had been read or written.
    place: Option<engine::Savepoint>,
    read_only: bool,
    settings: Arc<Settings>,
    after: Arc<Settings>,
}

impl Block {
    /// Whether the transaction cannot write at any time. A mode that is set after a savepoint ends with the savepoint.
    fn only_reads(&self) -> bool {
        self.savepoints.first().map_or(self.read_only, |mark| mark.read_only)
    }

    /// Removes savepoint number `at` and later ones; their changes are kept, their access mode is not.
    pub(crate) fn release(&mut self, at: usize) {
        if let Some(mark) = self.savepoints.get(at) {
            self.read_only = mark.read_only;
        }
        self.savepoints.truncate(at);
    }

    /// Rolls back to the last savepoint, or everything if there is none.
    fn undo_to_mark(&mut self) -> Result<()> {
        match (self.savepoints.last().map(|mark| mark.place.as_ref()), &mut self.txn) {
            (Some(Some(place)), Some(txn)) => txn.roll_back_to(place),
            // The snapshot was taken after the savepoint and is kept.
            (Some(None), Some(txn)) if self.isolation != Isolation::ReadCommitted => {
                txn.roll_back_to(&engine::Savepoint::default())
            }
            _ => {
                self.txn = None;
                Ok(())
            }
        }
    }

    /// Whether rolling back takes milliseconds.
    fn is_large(&self) -> bool {
        self.txn.as_ref().is_some_and(Txn::is_large)
    }
}

impl Session {
    /// Refuses statements in a failed block.
    pub(crate) fn check_not_failed(&self) -> Result<()> {
        if self.status() != TxnStatus::Failed {
            return Ok(());
        }
        Err(Error::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// Cleans up after the previous statement: the block of a COPY that neither finished nor failed, and
    /// settings of `set_config`.
    pub(crate) fn settle(&mut self) {
        if self.block.as_ref().is_some_and(|block| block.single) {
            self.fail();
        }
        self.fetching = None;
        self.input = None;
        // A statement whose future was dropped may have left some.
        self.routine_depth = 0;
        self.trigger_depth = 0;
        self.served = 0;
        if self.block.is_none() {
            // Left over from a commit whose future was dropped.
            self.advisory.end_transaction(0);
            self.outbox.lock().undo(0);
        }
        self.assign_pending();
    }

    /// Applies the settings requested by `set_config`.
    pub(crate) fn assign_pending(&mut self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        for (name, value, local) in pending {
            // A local setting ended with the statement's own transaction.
            if !local || self.block.is_some() {
                // The function has validated the value already.
                let _ = assign(self, &name, &value, local);
            }
        }
    }

    /// Marks the block as failed after an error outside `execute` (in a stream, in COPY data). An implicit
    /// block is rolled back.
    pub fn fail(&mut self) {
        self.pending.lock().clear();
        if let Some((name, ended)) = self.fetching.take()
            && !ended.load(Ordering::Acquire)
        {
            self.cursors.fail(&name);
        }
        match &mut self.block {
            Some(block) if block.implicit => self.roll_back(),
            Some(block) => {
                block.failed = true;
                self.advisory.end_transaction(block.savepoints.len());
                self.outbox.lock().undo(block.savepoints.len());
                // Release its locks now, not only when the client sends ROLLBACK.
                let undone = if block.is_large() { compute(|| block.undo_to_mark()) } else { block.undo_to_mark() };
                if undone.is_err() {
                    block.txn = None;
                    block.savepoints.clear();
                }
            }
            None => {}
        }
    }

    /// Starts the implicit transaction of a multi-statement simple query: all its statements commit together
    /// unless they control the transaction themselves. Does nothing inside a block.
    pub fn begin_implicit(&mut self) {
        if self.block.is_none() {
            let isolation = self.settings.isolation();
            self.begin(true, isolation);
        }
    }

    pub(crate) fn begin(&mut self, implicit: bool, isolation: Isolation) {
        self.begin_at(implicit, isolation, self.database.engine().env().now_ns());
    }

    pub(crate) fn begin_at(&mut self, implicit: bool, isolation: Isolation, started_ns: i64) {
        self.block = Some(Block {
            txn: None,
            isolation,
            read_only: self.settings.read_only(),
            deferrable: self.settings.deferrable(),
            failed: false,
            implicit,
            single: false,
            alone: false,
            started_ns,
            before: Arc::clone(&self.settings),
            after: Arc::clone(&self.settings),
            savepoints: Vec::new(),
        });
    }

    /// Adds a savepoint to the block.
    pub(crate) fn mark(&mut self, name: String) {
        let settings = Arc::clone(&self.settings);
        if let Some(block) = &mut self.block {
            let place = block.txn.as_ref().map(Txn::savepoint);
            let after = Arc::clone(&block.after);
            block.savepoints.push(Mark { name, place, read_only: block.read_only, settings, after });
            self.outbox.lock().add_savepoint();
        }
    }

    /// Rolls back to savepoint number `at`, which is kept; later savepoints are removed.
    pub(crate) fn roll_back_to(&mut self, at: usize) -> Result<()> {
        let Some(block) = &mut self.block else { return Ok(()) };
        block.savepoints.truncate(at + 1);
        self.advisory.end_transaction(at + 1);
        self.outbox.lock().undo(at + 1);
        self.cursors.roll_back_to(at);
        if block.is_large() { compute(|| block.undo_to_mark()) } else { block.undo_to_mark() }?;
        block.failed = false;
        if let Some(mark) = block.savepoints.last() {
            self.settings = Arc::clone(&mark.settings);
            block.after = Arc::clone(&mark.after);
            block.read_only = mark.read_only;
        }
        Ok(())
    }

    /// Ends the block if it has no changes; returns false if it must be committed.
    pub(crate) fn end_unchanged(&mut self) -> bool {
        let Some(block) = &self.block else { return true };
        if block.txn.as_ref().is_some_and(|txn| !txn.is_empty()) {
            return false;
        }
        let after = Arc::clone(&block.after);
        self.keep_settings(&after);
        // Assigned in place, because the block is large.
        self.block = None;
        self.tell();
        self.advisory.end_transaction(0);
        self.cursors.end_transaction(true);
        true
    }

    /// Does what the session planned about channels, without other changes to commit.
    pub(crate) fn tell(&mut self) {
        let mut outbox = self.outbox.lock();
        if let Some(outgoing) = outbox.begin_commit() {
            let lsn = self.database.engine().snapshot(self.seen).lsn();
            outbox.end_commit(outgoing, lsn);
        }
    }

    /// Commits the block. Deferred constraints were checked.
    pub(crate) async fn commit_checked(&mut self) -> Result<()> {
        if self.end_unchanged() {
            return Ok(());
        }
        if !self.on_commit.is_empty()
            && let Err(error) = Box::pin(self.act_on_commit()).await
        {
            self.roll_back();
            return Err(error);
        }
        let Some(block) = self.block.take() else {
            return Ok(());
        };
        let durability = self.settings.durability();
        let before = block.before;
        if let Some(txn) = block.txn.filter(|txn| !txn.is_empty()) {
            // Settings are restored if the commit fails; a dropped future leaves them unchanged.
            let database = self.database.clone();
            let is_large = txn.is_large();
            let outgoing = self.outbox.lock().begin_commit();
            let work = Box::pin(database.finish_telling(txn.commit(durability), &self.decided));
            let committed = if is_large { computing(work).await } else { work.await };
            self.decided.store(false, Ordering::Release);
            match committed {
                Ok(lsn) => {
                    self.seen = self.seen.max(lsn);
                    if let Some(outgoing) = outgoing {
                        self.outbox.lock().end_commit(outgoing, lsn);
                    }
                }
                Err(error) => {
                    self.settings = before;
                    self.advisory.end_transaction(0);
                    self.cursors.end_transaction(false);
                    return Err(error);
                }
            }
        }
        self.keep_settings(&block.after);
        self.advisory.end_transaction(0);
        self.cursors.end_transaction(true);
        self.settle_on_commit();
        Ok(())
    }

    /// Applies the settings that COMMIT keeps.
    fn keep_settings(&mut self, after: &Arc<Settings>) {
        // Equal settings keep their address: cached plans compare it to check that they are valid.
        if !Arc::ptr_eq(&self.settings, after) && *self.settings != **after {
            self.settings = Arc::clone(after);
        }
    }

    pub(crate) fn roll_back(&mut self) {
        if let Some(block) = self.block.take() {
            self.settings = Arc::clone(&block.before);
            self.outbox.lock().undo(0);
            self.advisory.end_transaction(0);
            self.cursors.end_transaction(false);
            if block.is_large() { compute(|| drop(block)) } else { drop(block) }
        }
    }

    /// Rolls back any open transaction (connection lost).
    pub fn reset(&mut self) {
        self.roll_back();
    }

    /// The transaction of the block; started now if necessary.
    ///
    /// # Errors
    /// 25006 in a read-only transaction.
    pub(crate) fn writer(&mut self) -> Result<&mut Txn> {
        match &self.block {
            Some(block) if block.read_only => {
                return Err(Error::new(SqlState::READ_ONLY_SQL_TRANSACTION, "cannot write in a read-only transaction"));
            }
            Some(_) => {}
            None => return Err(Error::bug("a write outside a transaction")),
        }
        self.txn().ok_or_else(|| Error::bug("a write outside a transaction"))
    }

    pub(crate) fn txn(&mut self) -> Option<&mut Txn> {
        let (engine, seen) = (self.database.engine(), self.seen);
        let block = self.block.as_mut()?;
        // A snapshot is a state after all transactions up to some commit, and no others: read-only
        // transactions need no more.
        let isolation = match block.isolation {
            Isolation::Serializable if block.only_reads() => Isolation::RepeatableRead,
            isolation => isolation,
        };
        Some(block.txn.get_or_insert_with(|| engine.begin(isolation, seen)))
    }

    /// `now()`: start of the transaction in nanoseconds since 1970 UTC.
    pub(crate) fn now_ns(&self) -> i64 {
        match &self.block {
            Some(block) => block.started_ns,
            None => self.database.engine().env().now_ns(),
        }
    }

    /// `statement_timestamp()` of the next statement in nanoseconds since 1970 UTC.
    pub(super) fn statement_ns(&self) -> i64 {
        match &self.block {
            Some(block) if block.implicit => block.started_ns,
            _ => self.database.engine().env().now_ns(),
        }
    }
}
