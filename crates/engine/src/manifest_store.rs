//! The current manifest, its replacement by the next, and files that no manifest names any more.
//!
//! Order that makes a crash harmless: files are written and synced, then the manifest names them,
//! then the new database version uses them, then the files they replace are removed. After a failed
//! manifest write nothing is removed, because the old or the new manifest may be on disk.
//!
//! Always true:
//! - Segments, series files and checkpoint files of database versions change only under the lock
//!   of the manifest.
//! - Neither the flushed LSN, nor the LSN where replay starts, nor file numbers ever go back.

use std::collections::BTreeSet;
use std::sync::Arc;

use columns::Segment;
use model::Result;
use parking_lot::{Mutex, MutexGuard};

use crate::engine::Inner;
use crate::manifest::Manifest;
use crate::rowfile::{RowFiles, row_file_path};

pub(crate) struct ManifestStore {
    current: Mutex<Manifest>,
    orphans: Mutex<OrphanFiles>,
}

/// Files of a flush or compaction whose manifest could not be written. The manifest on disk may
/// name them, so they are kept until a later manifest, which does not name them, is on disk.
#[derive(Default)]
pub(crate) struct OrphanFiles {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) series_files: Vec<u64>,
    pub(crate) row_files: Vec<u64>,
}

impl OrphanFiles {
    /// Orphans that are segments only.
    pub(crate) fn segments(segments: &[Arc<Segment>]) -> OrphanFiles {
        OrphanFiles { segments: segments.to_vec(), ..OrphanFiles::default() }
    }
}

impl ManifestStore {
    pub(crate) fn new(manifest: Manifest) -> ManifestStore {
        ManifestStore { current: Mutex::new(manifest), orphans: Mutex::default() }
    }

    /// Locks the current manifest. Lock order: see `Inner::commit`.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Manifest> {
        self.current.lock()
    }

    /// Makes `next` the manifest, then removes files that earlier failed attempts left. If that
    /// fails, `new` returns the files that only `next` names.
    pub(crate) fn replace(
        &self,
        inner: &Inner,
        manifest: &mut Manifest,
        mut next: Manifest,
        new: impl FnOnce() -> OrphanFiles,
    ) -> Result<()> {
        check_successor(inner, manifest, &next);
        let written = manifest.replace_by(&mut next, &*inner.env, &inner.dir);
        let mut orphans = self.orphans.lock();
        if let Err(error) = written {
            let new = new();
            orphans.segments.extend(new.segments);
            orphans.series_files.extend(new.series_files);
            orphans.row_files.extend(new.row_files);
            return Err(error);
        }
        let old = std::mem::replace(manifest, next);
        let mut removable = std::mem::take(&mut *orphans);
        drop(orphans);
        let named: BTreeSet<u64> = manifest.row_files.values().flat_map(RowFiles::files).collect();
        removable
            .row_files
            .extend(old.row_files.values().flat_map(RowFiles::files).filter(|file| !named.contains(file)));
        // Series files of existing tables are removed by the flush that replaced them.
        let dropped = old.files.iter().filter(|(id, _)| !manifest.files.contains_key(id));
        removable.series_files.extend(dropped.flat_map(|(_, files)| files.series_files.iter().map(|file| file.file)));
        check_removable(manifest, &removable, &named);
        remove_files(inner, removable);
        Ok(())
    }
}

/// Asserts the invariants between a manifest and its successor. Files and log are removed according
/// to it, so a wrong one must not be written.
fn check_successor(inner: &Inner, old: &Manifest, next: &Manifest) {
    let durable = inner.wal.durable();
    let (flushed, replay_from) = (next.flushed_lsn, next.replay_from);
    assert!(flushed >= old.flushed_lsn, "BUG: flushed up to {flushed} after {}", old.flushed_lsn);
    assert!(replay_from >= old.replay_from, "BUG: the log from {replay_from} after {}", old.replay_from);
    assert!(flushed <= durable, "BUG: flushed up to {flushed}, the log is durable up to {durable}");
    // Beyond the flushed commits the log may hold durable marks, which replay does not need.
    let end = if next.flushed_lsn == old.flushed_lsn { old.replay_from.max(flushed.next()) } else { durable.next() };
    assert!(replay_from <= end, "BUG: the log is wanted from {replay_from}, there may be commits from {end} on");
    assert!(next.next_file >= old.next_file, "BUG: files are numbered from {} again", next.next_file);
    let (tables, row_tables, sequences) = next.catalog.counts();
    assert!(next.files.len() == tables, "BUG: files of {} tables, of {tables}", next.files.len());
    assert!(next.row_files.len() == row_tables, "BUG: files of {} rows tables, of {row_tables}", next.row_files.len());
    assert!(next.sequences.len() == sequences, "BUG: {} sequences, of {sequences}", next.sequences.len());
    assert!(next.wall_ns >= old.wall_ns, "BUG: the commit time goes back to {}", next.wall_ns);
    assert!(next.next_table >= old.next_table, "BUG: tables are numbered from {} again", next.next_table);
    assert!(next.identity == old.identity, "BUG: the manifest is of database {:016x}", next.identity);
    assert!(next.retention_ns >= old.retention_ns, "BUG: the trusted time goes back to {}", next.retention_ns);
}

/// Asserts that the manifest names none of the files that are removed after it was written.
fn check_removable(manifest: &Manifest, files: &OrphanFiles, named_row_files: &BTreeSet<u64>) {
    let row_file = files.row_files.iter().find(|file| named_row_files.contains(file));
    assert!(row_file.is_none(), "BUG: file {row_file:?} of rows is in use and would be removed");
    if files.segments.is_empty() && files.series_files.is_empty() {
        return;
    }
    let all = || manifest.files.values();
    let segments: BTreeSet<u64> = all().flat_map(|files| &files.segments).map(|meta| meta.file).collect();
    let series_files: BTreeSet<u64> = all().flat_map(|files| &files.series_files).map(|file| file.file).collect();
    let segment = files.segments.iter().map(|segment| segment.meta().file).find(|file| segments.contains(file));
    assert!(segment.is_none(), "BUG: segment {segment:?} is in use and would be removed");
    let series_file = files.series_files.iter().find(|file| series_files.contains(file));
    assert!(series_file.is_none(), "BUG: series file {series_file:?} is in use and would be removed");
}

/// Removes files that no manifest on disk names, segments once no reader uses them.
pub(crate) fn remove_files(inner: &Inner, files: OrphanFiles) {
    files.segments.iter().for_each(|segment| segment.remove_when_unused());
    remove_series_files(inner, &files.series_files);
    for file in files.row_files {
        let path = row_file_path(&inner.data_dir(), file);
        match inner.env.remove(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "an unused checkpoint file could not be removed; the next start will retry");
            }
            _ => {}
        }
    }
}

pub(crate) fn remove_series_files<'a>(inner: &Inner, files: impl IntoIterator<Item = &'a u64>) {
    for file in files {
        let path = columns::series_path(&inner.data_dir(), *file);
        if let Err(error) = inner.env.remove(&path) {
            tracing::warn!(path = %path.display(), %error, "an unused series file could not be removed; the next start will retry");
        }
    }
}
