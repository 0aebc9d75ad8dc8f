//! Removal of segments that a DELETE or TRUNCATE covers completely, as soon as the delete is
//! durable: by a manifest edit of its own, without reading the segments and without a flush, so
//! that it frees space on a full disk.
//!
//! The tombstone is kept in the memtable and the log until the next flush; after a crash it hides
//! rows that no longer exist. Tables with history keep such segments, because they show the rows
//! before the delete.

use std::sync::atomic::Ordering;

use columns::{Compacted, TableState, Tombstone};
use model::{Lsn, Result, TableId, TimeRange};

use crate::background::Doubtful;
use crate::engine::Inner;
use crate::root::Root;

/// A delete of all series of a table that covers at least one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden {
    table: TableId,
    lsn: Lsn,
    times: TimeRange,
}

impl Hidden {
    /// Returns the deletes of a commit that cover at least one segment.
    pub(crate) fn of(root: &Root, deletes: &[(TableId, Tombstone)]) -> Vec<(TableId, TimeRange)> {
        let covers_any = |(table, delete): &&(TableId, Tombstone)| {
            delete.series.is_none()
                && root
                    .tables
                    .get(table)
                    .is_some_and(|state| !covered(state, Lsn(u64::MAX), delete.times).inputs.is_empty())
        };
        deletes.iter().filter(covers_any).map(|(table, delete)| (*table, delete.times)).collect()
    }
}

/// Segments with only older commits than `lsn` and only times within `times`.
fn covered(state: &TableState, lsn: Lsn, times: TimeRange) -> Compacted {
    let has_history = state.history_from != i64::MAX;
    let is_covered = |meta: &columns::SegmentMeta| !has_history && meta.lsns.1 < lsn && times.covers(&meta.times);
    let inputs = state.segments.iter().filter(|segment| is_covered(segment.meta())).cloned().collect();
    Compacted { inputs, outputs: Vec::new() }
}

impl Inner {
    /// Registers the covering deletes of commit `lsn` with the compactor and wakes it once the
    /// commit is durable.
    pub(crate) fn note_hidden(self: &std::sync::Arc<Self>, lsn: Lsn, hidden: Vec<(TableId, TimeRange)>) {
        if hidden.is_empty() {
            return;
        }
        self.hidden.lock().extend(hidden.into_iter().map(|(table, times)| Hidden { table, lsn, times }));
        let waker = std::sync::Arc::downgrade(self);
        self.wal.when_durable(lsn).on_set(move || {
            if let Some(inner) = waker.upgrade() {
                inner.wake_compactor();
            }
        });
    }

    /// Removes segments covered by durable deletes and returns whether there were any. Called by
    /// the compactor, because the segments may be inputs of a compaction.
    pub(crate) fn drop_hidden(&self) -> Result<bool> {
        let durable = self.wal.durable();
        let due: Vec<Hidden> = self.hidden.lock().iter().filter(|hidden| hidden.lsn <= durable).copied().collect();
        let mut is_any = false;
        for hidden in due {
            is_any |= self.drop_hidden_by(hidden)?;
            self.hidden
                .lock()
                .retain(|other| (other.table, other.lsn, other.times) != (hidden.table, hidden.lsn, hidden.times));
        }
        Ok(is_any)
    }

    /// Order: manifest, database version, files.
    fn drop_hidden_by(&self, hidden: Hidden) -> Result<bool> {
        let mut manifest = self.manifest.lock();
        let newest = self.roots.newest();
        let (Some(state), true) = (newest.tables.get(&hidden.table), manifest.files.contains_key(&hidden.table)) else {
            return Ok(false);
        };
        let done = covered(state, hidden.lsn, hidden.times);
        if done.inputs.is_empty() {
            return Ok(false);
        }
        let mut next = manifest.clone();
        next.files.insert(hidden.table, state.with_compacted(&done).files());
        self.write_manifest(&mut manifest, next, Doubtful::default)?;
        drop(newest);

        let mut lock = self.commit.lock();
        let root = self.roots.newest();
        match root.tables.get(&hidden.table) {
            Some(state) => self.roots.replace_newest(root.with_state(hidden.table, state.with_compacted(&done))),
            None => lock.compacted_after_drop(hidden.table, &done),
        }
        drop(lock);
        drop(manifest);
        done.inputs.iter().for_each(|segment| segment.remove_when_unused());
        self.counters.compactions.fetch_add(1, Ordering::Relaxed);
        // A flush that failed for lack of space may succeed now.
        self.wake_flusher();
        Ok(true)
    }
}
