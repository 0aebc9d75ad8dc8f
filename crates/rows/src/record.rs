//! A record: a chain of versions, newest first.
//!
//! Always true: versions are linked from newest to oldest. At most one transaction, the holder of
//! the record's lock, has uncommitted versions in the chain; they are on top, and below them LSNs
//! descend. A version is immutable except for `begin`, which changes from the transaction number to
//! the commit's LSN, and `prev`, which skips versions that no reader sees: those between two
//! snapshots and those older than all.
//!
//! A version has a stamp, which SQL shows as `xmin`: the number of the transaction that made it. A commit does not change it,
//! so a client can compare it with the one that its own transaction returned.

use std::sync::atomic::Ordering;

use crossbeam_epoch::{Guard, Owned, Shared};
use model::Lsn;

use crate::locks::TxnId;
use crate::readers::{Readers, SeenAt};
use crate::reclaim::{Retired, VERSIONS};
use crate::sync::{Atomic, AtomicU64};

/// Flag in `begin` of an uncommitted version; the other bits are the transaction number.
const UNCOMMITTED: u64 = 1 << 63;

/// Least stamp; PostgreSQL's clients know the numbers below as "none", "bootstrap" and "frozen".
const STAMP_MIN: u32 = 3;

/// One version of a record.
pub(crate) struct Version {
    begin: AtomicU64,
    prev: Atomic<Version>,
    content: Content,
}

// Memory of small rows is mostly that of their versions: the stamp takes none.
const _: () = assert!(size_of::<Content>() == size_of::<Option<Box<[u8]>>>());

/// The row of a version, and its stamp in the space that the length of a row leaves.
struct Content {
    /// From [`Box::into_raw`]; null for a deletion.
    row: *mut u8,
    bytes: u32,
    stamp: u32,
}

// SAFETY: the row is owned, and never written.
unsafe impl Send for Content {}
// SAFETY: see above.
unsafe impl Sync for Content {}

impl Content {
    fn new(row: Option<Box<[u8]>>, stamp: u32) -> Content {
        let bytes = row.as_ref().map_or(0, |row| row.len());
        assert!(u32::try_from(bytes).is_ok(), "BUG: a row of {bytes} bytes, which is more than a row may have");
        let row = row.map_or(std::ptr::null_mut(), |row| Box::into_raw(row).cast());
        Content { row, bytes: bytes as u32, stamp: stamp.max(STAMP_MIN) }
    }

    fn row(&self) -> Option<&[u8]> {
        // SAFETY: pointer and length are those of a box that only `drop` frees.
        (!self.row.is_null()).then(|| unsafe { std::slice::from_raw_parts(self.row, self.bytes as usize) })
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        if !self.row.is_null() {
            let row = std::ptr::slice_from_raw_parts_mut(self.row, self.bytes as usize);
            // SAFETY: made by `Box::into_raw`, and freed once.
            drop(unsafe { Box::from_raw(row) });
        }
    }
}

/// The stamp of the versions that transaction `txn` makes.
pub(crate) fn stamp_of(txn: TxnId) -> u32 {
    (txn.0 as u32).max(STAMP_MIN)
}

/// The stamp of a version that recovery restored: numbers of transactions are not stored. Commits that follow each other have
/// stamps far apart, so that one is unlikely to be the number of a transaction that is remembered from before.
fn restored_stamp(lsn: Lsn) -> u32 {
    (lsn.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Head of the version chain, and the lock word.
#[derive(Default)]
pub(crate) struct Record {
    head: Atomic<Version>,
    pub(crate) lock: AtomicU64,
}

/// An unlinked version; dropping it frees it.
pub(crate) struct RetiredVersion(*const Version);

impl RetiredVersion {
    /// # Safety
    /// The caller alone has just unlinked the version, and it is dropped when no guard can have it.
    unsafe fn retire(version: Shared<'_, Version>, bytes: usize, guard: &Guard) {
        VERSIONS.retire(Retired::Version(RetiredVersion(version.as_raw())), bytes, guard);
    }
}

impl Drop for RetiredVersion {
    fn drop(&mut self) {
        // SAFETY: made by `Owned::new`, and exclusively ours by the contract of `retire`.
        drop(unsafe { Owned::from_raw(self.0.cast_mut()) });
    }
}

/// Start of a version: the commit's LSN, or the transaction that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    Committed(Lsn),
    By(TxnId),
}

impl Version {
    pub(crate) fn begin(&self) -> Begin {
        let begin = self.begin.load(Ordering::Acquire);
        if begin & UNCOMMITTED == 0 { Begin::Committed(Lsn(begin)) } else { Begin::By(TxnId(begin & !UNCOMMITTED)) }
    }

    /// The row; `None` for a deletion.
    pub(crate) fn row(&self) -> Option<&[u8]> {
        self.content.row()
    }

    /// Number of the transaction that made it, see the module; at least 3.
    pub(crate) fn stamp(&self) -> u32 {
        self.content.stamp
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Version>() + self.content.bytes as usize
    }
}

impl Record {
    /// The newest version, committed or not.
    pub(crate) fn newest<'g>(&'g self, guard: &'g Guard) -> Option<&'g Version> {
        // SAFETY: a version is freed only by the epoch, after it was unlinked; the guard protects
        // whatever was linked when it was loaded.
        unsafe { self.head.load(Ordering::Acquire, guard).as_ref() }
    }

    /// All versions, newest first.
    pub(crate) fn versions<'g>(&'g self, guard: &'g Guard) -> impl Iterator<Item = &'g Version> {
        std::iter::successors(self.newest(guard), |version| version.prev(guard))
    }

    /// The version that transaction `me` sees at `snapshot`: its own, or the newest one committed
    /// by then.
    pub(crate) fn seen<'g>(&'g self, me: TxnId, snapshot: Lsn, guard: &'g Guard) -> Option<&'g Version> {
        self.versions(guard).find(|version| match version.begin() {
            Begin::Committed(lsn) => lsn <= snapshot,
            Begin::By(txn) => txn == me,
        })
    }

    /// Returns what [`Record::seen`] does, without the `hidden` newest versions, which `me` made.
    pub(crate) fn seen_below<'g>(
        &'g self,
        me: TxnId,
        snapshot: Lsn,
        hidden: usize,
        guard: &'g Guard,
    ) -> Option<&'g Version> {
        self.versions(guard).skip(hidden).find(|version| match version.begin() {
            Begin::Committed(lsn) => lsn <= snapshot,
            Begin::By(txn) => txn == me,
        })
    }

    /// The version that the lock holder `me` works on: its own, or the newest committed one.
    pub(crate) fn current<'g>(&'g self, me: TxnId, guard: &'g Guard) -> Option<&'g Version> {
        self.seen(me, Lsn(u64::MAX), guard)
    }

    /// The newest committed version.
    pub(crate) fn committed<'g>(&'g self, guard: &'g Guard) -> Option<&'g Version> {
        self.versions(guard).find(|version| matches!(version.begin(), Begin::Committed(_)))
    }

    /// Adds a version on top and returns its bytes. `me` holds the lock.
    pub(crate) fn push(&self, me: TxnId, row: Option<Box<[u8]>>, guard: &Guard) -> usize {
        let top = self.head.load(Ordering::Relaxed, guard);
        if let Some(Begin::By(other)) = self.newest(guard).map(Version::begin) {
            assert!(other == me, "BUG: {me:?} changes a record that {other:?} has changed");
        }
        let content = Content::new(row, stamp_of(me));
        let begin = AtomicU64::new(me.0 | UNCOMMITTED);
        let version = Owned::new(Version { begin, prev: Atomic::from(top), content });
        let bytes = version.memory_bytes();
        self.head.store(version, Ordering::Release);
        bytes
    }

    /// Removes the top version, which `me` made, and returns its bytes.
    pub(crate) fn pop(&self, me: TxnId, guard: &Guard) -> usize {
        let top = self.head.load(Ordering::Acquire, guard);
        // SAFETY: see `newest`.
        let Some(version) = (unsafe { top.as_ref() }) else { return 0 };
        assert_eq!(version.begin(), Begin::By(me), "BUG: undo of another transaction's version");
        self.head.store(version.prev.load(Ordering::Acquire, guard), Ordering::Release);
        let bytes = version.memory_bytes();
        // SAFETY: the version is unlinked, and only the lock holder unlinks the top.
        unsafe { RetiredVersion::retire(top, bytes, guard) };
        bytes
    }

    /// Commits the top version, which `me` made, at `lsn`, and removes other versions of `me` below
    /// it. Returns the bytes removed.
    pub(crate) fn commit(&self, me: TxnId, lsn: Lsn, guard: &Guard) -> usize {
        let Some(top) = self.newest(guard) else { return 0 };
        assert_eq!(top.begin(), Begin::By(me), "BUG: commit of another transaction's version");
        assert!(lsn.0 & UNCOMMITTED == 0, "BUG: LSN {lsn} is that of no commit");
        let mut dropped = 0;
        let mut below = top.prev.load(Ordering::Acquire, guard);
        // SAFETY: see `newest`.
        while let Some(version) = unsafe { below.as_ref() }
            && version.begin() == Begin::By(me)
        {
            let bytes = version.memory_bytes();
            dropped += bytes;
            let next = version.prev.load(Ordering::Acquire, guard);
            top.prev.store(next, Ordering::Release);
            // SAFETY: see `pop`.
            unsafe { RetiredVersion::retire(below, bytes, guard) };
            below = next;
        }
        // SAFETY: see `newest`.
        if let Some(before) = unsafe { below.as_ref() } {
            let before = before.begin();
            let older = matches!(before, Begin::Committed(before) if before < lsn);
            assert!(older, "BUG: a version of commit {lsn} above one of {before:?}");
        }
        top.begin.store(lsn.0, Ordering::Release);
        dropped
    }

    /// Removes the versions that no reader sees, including those between two snapshots. Needs no
    /// lock, but only one thread may prune a store at a time: uncommitted versions and the newest
    /// committed one are never removed. Returns the bytes removed. For every version kept by live
    /// snapshots only, pushes the oldest such snapshot and the version's bytes to `held`.
    pub(crate) fn prune(&self, readers: &Readers, held: &mut Vec<(Lsn, usize)>, guard: &Guard) -> usize {
        let mut versions = self.versions(guard);
        let newest = versions.find_map(|version| match version.begin() {
            Begin::Committed(lsn) => Some((version, lsn)),
            Begin::By(_) => None,
        });
        let Some((mut above, mut until)) = newest else { return 0 };
        let mut dropped = 0;
        loop {
            let next = above.prev.load(Ordering::Acquire, guard);
            // SAFETY: see `newest`.
            let Some(version) = (unsafe { next.as_ref() }) else { return dropped };
            let Begin::Committed(since) = version.begin() else { return dropped };
            debug_assert!(since < until, "BUG: a version of commit {since} below one of {until}");
            let seen_at = readers.first_in(since, until);
            match seen_at {
                None => {
                    above.prev.store(version.prev.load(Ordering::Acquire, guard), Ordering::Release);
                    let bytes = version.memory_bytes();
                    dropped += bytes;
                    // SAFETY: the version is unlinked, and only this function unlinks below the
                    // newest committed version.
                    unsafe { RetiredVersion::retire(next, bytes, guard) };
                    continue;
                }
                Some(SeenAt::Snapshot(snapshot)) => held.push((snapshot, version.memory_bytes())),
                Some(SeenAt::Later) => {}
            }
            (above, until) = (version, since);
        }
    }

    /// Removes all versions and returns their bytes. No other thread may change the record meanwhile.
    pub(crate) fn clear(&self, guard: &Guard) -> usize {
        free(self.head.swap(Shared::null(), Ordering::AcqRel, guard), guard)
    }

    /// Recovery: sets the record's only version, unless a newer one was restored. Returns the
    /// change in bytes.
    ///
    /// Recovery threads may race on one record; there are no readers yet.
    pub(crate) fn restore(&self, lsn: Lsn, row: Option<Box<[u8]>>, guard: &Guard) -> i64 {
        assert!(lsn.0 & UNCOMMITTED == 0, "BUG: a version of LSN {lsn}, which is that of no commit, is restored");
        let content = Content::new(row, restored_stamp(lsn));
        let mut version = Owned::new(Version { begin: AtomicU64::new(lsn.0), prev: Atomic::null(), content });
        let bytes = version.memory_bytes() as i64;
        loop {
            let top = self.head.load(Ordering::Acquire, guard);
            // SAFETY: see `newest`.
            let old = unsafe { top.as_ref() };
            if old.is_some_and(|old| old.begin.load(Ordering::Relaxed) >= lsn.0) {
                return 0;
            }
            match self.head.compare_exchange(top, version, Ordering::AcqRel, Ordering::Relaxed, guard) {
                Ok(_) => {
                    let before = old.map_or(0, Version::memory_bytes);
                    if old.is_some() {
                        // SAFETY: unlinked by the compare-exchange, which only one thread wins.
                        unsafe { RetiredVersion::retire(top, before, guard) };
                    }
                    return bytes - before as i64;
                }
                Err(failed) => version = failed.new,
            }
        }
    }
}

impl Version {
    fn prev<'g>(&'g self, guard: &'g Guard) -> Option<&'g Version> {
        // SAFETY: see `Record::newest`.
        unsafe { self.prev.load(Ordering::Acquire, guard).as_ref() }
    }
}

/// Retires an unlinked chain and returns its bytes.
fn free<'g>(mut chain: Shared<'g, Version>, guard: &'g Guard) -> usize {
    let mut bytes = 0;
    // SAFETY: see `Record::newest`.
    while let Some(version) = unsafe { chain.as_ref() } {
        let one = version.memory_bytes();
        bytes += one;
        let next = version.prev.load(Ordering::Acquire, guard);
        // SAFETY: a swap unlinked the chain, so this thread alone retires it.
        unsafe { RetiredVersion::retire(chain, one, guard) };
        chain = next;
    }
    bytes
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: exclusive access: no other thread has the record or its versions.
        let mut chain = std::mem::replace(&mut self.head, Atomic::null());
        loop {
            // SAFETY: see above; each version is taken once.
            let Some(version) = (unsafe { chain.try_into_owned() }) else { return };
            let version = *version.into_box();
            chain = version.prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: TxnId = TxnId(7);
    const OTHER: TxnId = TxnId(8);

    fn row(text: &str) -> Option<Box<[u8]>> {
        Some(text.as_bytes().into())
    }

    fn seen<'g>(record: &'g Record, me: TxnId, at: u64, guard: &'g Guard) -> Option<&'g str> {
        record.seen(me, Lsn(at), guard).and_then(Version::row).map(|row| std::str::from_utf8(row).unwrap())
    }

    /// A record with versions at 10, 20 (deleted) and 30.
    fn with_history(guard: &Guard) -> Record {
        let record = Record::default();
        for (text, lsn) in [(Some("a"), 10), (None, 20), (Some("c"), 30)] {
            record.push(ME, text.and_then(row), guard);
            record.commit(ME, Lsn(lsn), guard);
        }
        record
    }

    #[test]
    fn a_reader_sees_the_newest_version_of_its_snapshot() {
        let guard = &crossbeam_epoch::pin();
        let record = with_history(guard);
        for (at, expected) in [(9, None), (10, Some("a")), (19, Some("a")), (20, None), (29, None), (30, Some("c"))] {
            assert_eq!(seen(&record, ME, at, guard), expected, "at {at}");
        }
    }

    #[test]
    fn an_uncommitted_version_is_visible_to_its_transaction_only_and_can_be_undone() {
        let guard = &crossbeam_epoch::pin();
        let record = with_history(guard);
        let bytes = record.push(ME, row("mine"), guard);
        assert_eq!(seen(&record, ME, 15, guard), Some("mine"));
        assert_eq!(seen(&record, OTHER, 99, guard), Some("c"));
        assert_eq!(record.pop(ME, guard), bytes);
        assert_eq!(seen(&record, ME, 99, guard), Some("c"));
    }

    #[test]
    fn the_stamp_of_a_version_is_its_transaction_before_and_after_the_commit() {
        let guard = &crossbeam_epoch::pin();
        let record = Record::default();
        record.push(ME, row("a"), guard);
        assert_eq!(record.newest(guard).map(Version::stamp), Some(7));
        record.commit(ME, Lsn(10), guard);
        record.push(OTHER, row(""), guard);
        let versions: Vec<_> = record.versions(guard).map(|version| (version.stamp(), version.row())).collect();
        assert_eq!(versions, [(8, Some(&b""[..])), (7, Some(&b"a"[..]))]);
        assert_eq!(stamp_of(TxnId(1 << 32)), STAMP_MIN);
    }

    #[test]
    fn a_commit_keeps_the_last_version_of_its_transaction() {
        let guard = &crossbeam_epoch::pin();
        let record = with_history(guard);
        for text in ["x", "y", "z"] {
            record.push(ME, row(text), guard);
        }
        assert!(record.commit(ME, Lsn(40), guard) > 0);
        assert_eq!(record.versions(guard).count(), 4);
        assert_eq!(seen(&record, OTHER, 40, guard), Some("z"));
    }

    #[test]
    fn pruning_keeps_visible_versions() {
        let guard = &crossbeam_epoch::pin();
        for (horizon, left) in [(9, 3), (10, 3), (20, 2), (25, 2), (30, 1), (99, 1)] {
            let record = with_history(guard);
            record.prune(&Readers::since(Lsn(horizon)), &mut Vec::new(), guard);
            assert_eq!(record.versions(guard).count(), left, "at {horizon}");
        }
    }

    #[test]
    fn pruning_removes_versions_between_snapshots_and_reports_the_holding_ones() {
        let guard = &crossbeam_epoch::pin();
        let record = Record::default();
        for lsn in 1..=100 {
            record.push(ME, row(&lsn.to_string()), guard);
            record.commit(ME, Lsn(lsn * 10), guard);
        }
        record.push(OTHER, row("mine"), guard);
        let left = |record: &Record| record.versions(guard).map(|version| version.row().unwrap().to_vec()).collect();
        let texts = |texts: &[&str]| -> Vec<Vec<u8>> { texts.iter().map(|text| text.as_bytes().to_vec()).collect() };
        // Readers at 5 (before the first version), 57 and 59 (same version) and 500; new readers at
        // 980 or later.
        let readers = Readers::new(vec![Lsn(500), Lsn(59), Lsn(57), Lsn(5)], Lsn(980));
        let mut held = Vec::new();
        assert!(record.prune(&readers, &mut held, guard) > 0);
        let kept: Vec<Vec<u8>> = left(&record);
        assert_eq!(kept, texts(&["mine", "100", "99", "98", "50", "5"]));
        assert_eq!(held.iter().map(|held| held.0).collect::<Vec<_>>(), [Lsn(500), Lsn(57)]);
        for (at, expected) in [(5, None), (57, Some("5")), (59, Some("5")), (500, Some("50")), (985, Some("98"))] {
            assert_eq!(seen(&record, ME, at, guard), expected, "at {at}");
        }
        assert_eq!(record.prune(&readers, &mut Vec::new(), guard), 0, "again");
        held.clear();
        record.prune(&Readers::new(vec![Lsn(59)], Lsn(1_000)), &mut held, guard);
        let kept: Vec<Vec<u8>> = left(&record);
        assert_eq!((kept, held[0].0), (texts(&["mine", "100", "5"]), Lsn(59)));
    }

    #[test]
    fn recovery_keeps_the_newest_version_in_any_order() {
        let guard = &crossbeam_epoch::pin();
        for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
            let record = Record::default();
            let bytes: i64 = order.iter().map(|lsn| record.restore(Lsn(*lsn), row("x"), guard)).sum();
            assert_eq!(record.versions(guard).count(), 1);
            assert_eq!(record.newest(guard).map(Version::begin), Some(Begin::Committed(Lsn(3))));
            assert_eq!(bytes, record.newest(guard).unwrap().memory_bytes() as i64);
        }
    }
}
