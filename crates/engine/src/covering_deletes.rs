//! Removal of segments that a DELETE or TRUNCATE covers completely, as soon as the delete is
//! durable: by a manifest edit of its own, without reading the segments and without a flush, so
//! that it frees space on a full disk.
//!
//! The tombstone is kept in the memtable and the log until the next flush; after a crash it hides
//! rows that no longer exist. Tables with history keep such segments, because they show the rows
//! before the delete.

use std::sync::Arc;

use columns::{Compacted, TableState, Tombstone};
use model::{Lsn, Result, TableId, TimeRange};
use parking_lot::Mutex;

use crate::compaction::compacted;
use crate::db_version::DbVersion;
use crate::engine::Inner;
use crate::jobs::Priority;
use crate::manifest_store::OrphanFiles;

/// A delete of all series of a table that covers at least one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoveringDelete {
    table: TableId,
    lsn: Lsn,
    times: TimeRange,
}

impl CoveringDelete {
    /// Returns the deletes of a commit that cover at least one segment.
    pub(crate) fn of(db: &DbVersion, deletes: &[(TableId, Tombstone)]) -> Vec<(TableId, TimeRange)> {
        let covers_any = |(table, delete): &&(TableId, Tombstone)| {
            delete.series.is_none()
                && db
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

/// Covering deletes of recent commits.
#[derive(Default)]
pub(crate) struct CoveringDeletes(Mutex<Vec<CoveringDelete>>);

impl CoveringDeletes {
    /// Registers the covering deletes of commit `lsn` with the compaction job and wakes it once the
    /// commit is durable.
    pub(crate) fn note(inner: &Arc<Inner>, lsn: Lsn, deletes: Vec<(TableId, TimeRange)>) {
        if deletes.is_empty() {
            return;
        }
        let deletes = deletes.into_iter().map(|(table, times)| CoveringDelete { table, lsn, times });
        inner.jobs.compaction.covering_deletes.0.lock().extend(deletes);
        inner.on_durable(lsn, |jobs| jobs.compaction.wake_worker(Priority::Normal));
    }

    /// Removes segments covered by durable deletes and returns whether there were any. Called by
    /// the compaction job, because the segments may be inputs of a compaction.
    pub(crate) fn drop_segments(&self, inner: &Inner) -> Result<bool> {
        let durable = inner.wal.durable();
        let due: Vec<CoveringDelete> = self.0.lock().iter().filter(|delete| delete.lsn <= durable).copied().collect();
        let mut is_any = false;
        for delete in due {
            is_any |= drop_segments_covered_by(inner, delete)?;
            self.0
                .lock()
                .retain(|other| (other.table, other.lsn, other.times) != (delete.table, delete.lsn, delete.times));
        }
        Ok(is_any)
    }
}

/// Order: manifest, database version, files.
fn drop_segments_covered_by(inner: &Inner, delete: CoveringDelete) -> Result<bool> {
    let durable = inner.wal.durable();
    assert!(delete.lsn <= durable, "BUG: delete {} could be undone, the log is durable up to {durable}", delete.lsn);
    let mut manifest = inner.manifests.lock();
    let newest = inner.versions.newest();
    let (Some(state), true) = (newest.tables.get(&delete.table), manifest.files.contains_key(&delete.table)) else {
        return Ok(false);
    };
    let done = covered(state, delete.lsn, delete.times);
    if done.inputs.is_empty() {
        return Ok(false);
    }
    let mut next = manifest.clone();
    next.files.insert(delete.table, compacted(state, &done).files());
    inner.manifests.replace(inner, &mut manifest, next, OrphanFiles::default)?;
    drop(newest);

    let mut lock = inner.commit.lock();
    let db = inner.versions.newest();
    match db.tables.get(&delete.table) {
        Some(state) => inner.versions.replace_newest(db.with_state(delete.table, compacted(state, &done))),
        None => lock.compacted_after_drop(delete.table, &done),
    }
    drop(lock);
    drop(manifest);
    done.inputs.iter().for_each(|segment| segment.remove_when_unused());
    inner.jobs.compaction.compactions.add(1);
    // A flush that failed for lack of space may succeed now.
    inner.jobs.flush.retry_now();
    Ok(true)
}
