//! Removal of the files of dropped and truncated tables, by a manifest edit of its own, so that it
//! frees space on a disk too full to flush the other tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use columns::{SegmentMeta, TableState};
use env::Step;
use model::{Lsn, Result};

use crate::engine::{CommitState, Inner};
use crate::jobs::{Job, Priority};
use crate::manifest_store::OrphanFiles;
use crate::rowfile::RowFiles;

pub(crate) struct DroppedFiles;

impl Job for DroppedFiles {
    fn name(&self) -> &'static str {
        "drop-files"
    }

    fn step(&self, inner: &Arc<Inner>, _: Priority) -> Result<Step> {
        if inner.commit.lock().frees_files() && free_dropped(inner)? {
            // A flush that failed for lack of space may succeed now.
            inner.jobs.flush.retry_now();
        }
        Ok(Step::Idle)
    }
}

/// Removes the files of tables whose DROP or TRUNCATE is durable. The tables stay in the manifest,
/// without files, until the next flush, because log replay starts before the record of their drop.
/// Returns whether there was anything to remove.
fn free_dropped(inner: &Inner) -> Result<bool> {
    let mut manifest = inner.manifests.lock();
    // All tables of the manifest exist in some older database version.
    let durable = inner.versions.visible(Lsn::ZERO);
    if !inner.commit.lock().frees_files_by(durable.lsn) {
        return Ok(false);
    }
    let mut next = manifest.clone();
    let mut removed = Vec::new();
    for (id, files) in &mut next.files {
        if !durable.tables.contains_key(id) {
            removed.append(&mut files.segments);
        }
    }
    let mut has_rows = false;
    for (id, files) in &mut next.row_files {
        if is_obsolete(files, durable.row_tables.get(id)) {
            has_rows = true;
            files.parts.clear();
        }
    }
    let is_any = has_rows || !removed.is_empty();
    if is_any {
        // Segments that the last flush wrote for a table dropped meanwhile are in no database
        // version.
        inner.manifests.replace(inner, &mut manifest, next, OrphanFiles::default)?;
    }
    let mut lock = inner.commit.lock();
    let (obsolete, kept) = std::mem::take(&mut lock.dropped).into_iter().partition(|(lsn, _)| *lsn <= durable.lsn);
    lock.dropped = kept;
    lock.row_files_obsolete_since.take_if(|lsn| *lsn <= durable.lsn);
    drop(lock);
    drop(manifest);
    discard_tables(inner, obsolete, &removed);
    Ok(is_any)
}

/// Removes the segments of dropped tables, and those of `removed` that belong to no database
/// version.
pub(crate) fn discard_tables(inner: &Inner, obsolete: Vec<(Lsn, Arc<TableState>)>, removed: &[SegmentMeta]) {
    debug_assert!(
        obsolete.iter().all(|(_, state)| !inner.versions.newest().tables.contains_key(&state.table.id)),
        "BUG: segments of a table that exists would be removed"
    );
    let mut known = BTreeSet::new();
    for segment in obsolete.iter().flat_map(|(_, state)| state.segments.iter()) {
        known.insert(segment.meta().file);
        segment.remove_when_unused();
    }
    for meta in removed.iter().filter(|meta| !known.contains(&meta.file)) {
        let path = columns::segment_path(&inner.data_dir(), meta.file);
        if let Err(error) = inner.env.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "an unused segment could not be removed; the next start will retry");
        }
    }
}

/// Whether the files hold rows that the table no longer has, because it was dropped or truncated.
pub(crate) fn is_obsolete(files: &RowFiles, table: Option<&Arc<rows::RowTable>>) -> bool {
    !files.parts.is_empty() && table.is_none_or(|table| table.records.since() != files.since)
}

impl CommitState {
    /// Whether there may be files of dropped or truncated tables.
    pub(crate) fn frees_files(&self) -> bool {
        !self.dropped.is_empty() || self.row_files_obsolete_since.is_some()
    }

    /// Whether there may be files of tables dropped or truncated by a commit up to `lsn`.
    fn frees_files_by(&self, lsn: Lsn) -> bool {
        self.dropped.iter().any(|(dropped, _)| *dropped <= lsn)
            || self.row_files_obsolete_since.is_some_and(|obsolete| obsolete <= lsn)
    }
}
