//! The one commit point: takes a transaction through admission, the log and into a new database
//! version.
//!
//! A commit is a state machine that never blocks. Its rows are encoded outside the lock. Rows that
//! do not fit one record are logged ahead of the commit record, one record at a time, so that small
//! commits can pass between them; a row that is larger than a record is logged in parts. Under the lock the catalog is checked, series get numbers, the
//! commit record is queued, row versions get its LSN, and the new database version is derived.
//! Nothing fails after the queueing; a broken invariant there refuses all later commits. Row locks are released after the commit lock and before the
//! log is durable: a reader of rows that may still be lost delays its own answer.
//!
//! The reads of a SERIALIZABLE transaction must still be valid: most are checked before taking the
//! lock, and under the lock only against later commits. docs/decisions/0008-validated-reads.md

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use columns::{Deletes, Entry, OwnDelete, OwnEntry, OwnRowDeletes, OwnWrites, TableState, Tombstone};
use env::Event;
use model::{Error, Lsn, Result, SequenceSpec, SqlState, TableId, TableRef, TimeRange, limits};
use rows::RowTable;
use wal::{Appended, Space};

use crate::catalog_object::{CatalogObject, NewState, ObjectKey};
use crate::covering_deletes::{CoveringDelete, CoveringDeletes};
use crate::db_version::DbVersion;
use crate::engine::{CommitState, Inner, WriteStall};
use crate::flush::Flush;
use crate::gc::RowGc;
use crate::jobs::broken_invariant;
use crate::memory::{Reservation, Work};
use crate::record::{self, Ddl, RowChanges, RowChangesItem};
use crate::sequence::{Counter, SequenceState};
use crate::{Batch, Durability, Engine, Rows};

/// Time that a writer waits for memory before it is refused.
const ADMISSION_NS_MAX: u64 = 30_000_000_000;
/// Time that a writer waits if memtables cannot be flushed for lack of disk space.
const FULL_DISK_NS_MAX: u64 = 1_000_000_000;
/// Time that a commit of deletes of ranges waits for memory. It is not refused: it may free the space
/// that a flush needs.
const RANGE_DELETE_NS_MAX: u64 = 20_000_000;
/// Interval at which a waiting writer checks again; a finished flush wakes it sooner.
const RECHECK_NS: u64 = 250_000_000;
/// Encoded rows of one item are split at about this size: the item fits a record with a margin for
/// estimation errors, unless it is a single row that is larger than a record.
const ROWS_ITEM_BYTES: usize = 768 << 10;
/// After commits of at most this many rows, only one in four looks for memtable entries to merge.
const SMALL_ROWS: usize = 16;
/// Entries that replay collects before it adds them to the table states.
const PENDING_ENTRIES_MAX: usize = 4_096;

/// Progress of a commit.
#[derive(Debug)]
pub enum Progress {
    /// Poll again after the event.
    Wait(Event),
    /// Acknowledged at the requested durability, with the LSN of the commit. An empty transaction
    /// returns the LSN it had read.
    Done(Lsn),
}

/// A commit in progress. Dropping it before its commit record is queued rolls back; after that the
/// commit happens anyway.
pub struct Committing {
    engine: Engine,
    ddl: Vec<Ddl>,
    tables: Vec<TableWrites>,
    /// Changes of `rows` tables, and the locks they hold.
    rows: Option<rows::Txn>,
    /// The version that a SERIALIZABLE transaction read, kept until its reads are validated so that
    /// row versions are not collected.
    snapshot: Option<Arc<DbVersion>>,
    /// New versions of `rows` tables and sequences made by the transaction's own DDL.
    own_versions: OwnVersions,
    /// Tables whose rows satisfy a constraint that the transaction adds, as of a commit.
    validated: BTreeMap<TableId, Lsn>,
    durability: Durability,
    stage: Stage,
    /// Number of the transaction in the log, drawn with its first record.
    txn: Option<u64>,
    /// An encoded item of which the busy log did not accept all records.
    unsent: Option<UnsentItem>,
    /// Row ranges of the batch that is being logged ahead.
    parts: Vec<Range<usize>>,
    /// Deletes of single rows, with series numbers: resolved once, before anything is logged.
    row_deletes: Vec<(TableId, Deletes)>,
    /// Encoded rows that are part of the commit record.
    inline: Vec<Vec<u8>>,
    /// Whether the changes of `rows` tables include rows, not only deletions.
    adds_rows: bool,
    /// Whether items have been logged ahead of the commit record.
    sent: bool,
    /// Payload bytes of these items.
    sent_bytes: usize,
    /// Memory of the rows of `columns` tables, until memtables hold them.
    memory: Reservation,
    /// Memory of the encoded item that is being logged, if it is larger than a record.
    item_memory: Reservation,
    waiting_since: Option<u64>,
}

/// An item that is being logged ahead of the commit record.
struct UnsentItem {
    bytes: Vec<u8>,
    /// Bytes that are in the log.
    sent: usize,
}

enum Stage {
    Admit,
    /// Logs deletes of single rows ahead: index in `row_deletes`, and its next span.
    RowDeletes {
        table: usize,
        from: usize,
    },
    /// Logs rows ahead: index of the batch over all tables, and its next part.
    Rows {
        batch: usize,
        part: usize,
    },
    /// Logs changes of `rows` tables ahead, from this position on.
    RowChanges(usize),
    Commit,
    Durable(Lsn),
    Done(Lsn),
}

struct TableWrites {
    table: TableId,
    deletes: Vec<Arc<OwnDelete>>,
    /// At most one list: [`crate::Txn::delete_rows`] keeps one.
    row_deletes: Option<Arc<OwnRowDeletes>>,
    /// The times at which all rows of a table without a key are replaced, sorted, and the commit at
    /// which they were read.
    replaced_times: Option<(Lsn, Vec<i64>)>,
    batches: Vec<Arc<Batch>>,
    /// The version of the table whose constraints the rows satisfy.
    checked: Option<TableRef>,
}

/// What a commit record has beside rows: changes of the catalog, the series of batches with the new ones, and deletes.
type Items<'a> = (&'a [&'a Ddl], &'a [Resolved], &'a NewSeriesByTable, &'a [(TableId, Tombstone)]);

/// Encodes all items except the rows, which were encoded before.
fn change_items((ddl, resolved, new_series, deletes): Items<'_>) -> Vec<Vec<u8>> {
    let mut items: Vec<Vec<u8>> = ddl.iter().map(|ddl| record::ddl_item(ddl)).collect();
    for (number, one) in resolved.iter().enumerate() {
        items.extend(series_items(number as u32, one, new_series));
    }
    for (table, delete) in deletes {
        items.extend(delete_items(*table, delete));
    }
    items
}

/// True for one commit in four, whichever sessions take turns.
fn merges_entries(lsn: Lsn) -> bool {
    lsn.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 == 0
}

/// The wall time of a commit: whole microseconds, which is the clients' resolution; not before the
/// clock's `now`; and after `last`, the time of the previous commit, so that a time identifies the
/// set of earlier commits.
fn commit_time(now: i64, last: i64) -> i64 {
    let micros = |ns: i64| ns.div_euclid(1_000);
    micros(now.saturating_add(999)).max(micros(last) + 1).saturating_mul(1_000)
}

/// All changes of a transaction.
pub(crate) struct Changes {
    pub(crate) ddl: Vec<Ddl>,
    pub(crate) own: BTreeMap<TableId, OwnWrites>,
    /// Memory of `own`.
    pub(crate) memory: Reservation,
    pub(crate) rows: Option<rows::Txn>,
    /// Only of a SERIALIZABLE transaction.
    pub(crate) snapshot: Option<Arc<DbVersion>>,
    pub(crate) own_versions: OwnVersions,
    /// See [`crate::Txn::note_validated`].
    pub(crate) validated: BTreeMap<TableId, Lsn>,
}

/// New versions of `rows` tables (`None`: dropped) and of sequences made by own DDL.
#[derive(Default)]
pub(crate) struct OwnVersions {
    pub(crate) tables: BTreeMap<TableId, Option<Arc<RowTable>>>,
    pub(crate) counters: BTreeMap<u32, Arc<Counter>>,
}

impl Committing {
    pub(crate) fn new(engine: Engine, changes: Changes, durability: Durability, read_lsn: Lsn) -> Committing {
        let Changes { mut ddl, own, memory, rows, snapshot, own_versions, validated } = changes;
        let tables: Vec<_> = own.into_iter().filter_map(|(table, own)| TableWrites::new(table, own)).collect();
        // The locks of a transaction without changes are released here.
        let rows = rows.filter(|rows| !rows.is_empty() || !ddl.is_empty() || !tables.is_empty());
        let is_empty = ddl.is_empty() && tables.is_empty() && rows.is_none();
        for ddl in &mut ddl {
            if let Ddl::Create(CatalogObject::Sequence(sequence), NewState::Sequence(state))
            | Ddl::Alter(CatalogObject::Sequence(sequence), NewState::Sequence(state)) = ddl
                && let Some(counter) = own_versions.counters.get(&sequence.id)
            {
                *state = counter.now();
            }
        }
        Committing {
            item_memory: engine.memory().reservation(Work::Transactions),
            engine,
            ddl,
            tables,
            rows,
            snapshot,
            own_versions,
            validated,
            durability,
            stage: if is_empty { Stage::Done(read_lsn) } else { Stage::Admit },
            txn: None,
            unsent: None,
            parts: Vec::new(),
            row_deletes: Vec::new(),
            inline: Vec::new(),
            adds_rows: false,
            sent: false,
            sent_bytes: 0,
            memory,
            waiting_since: None,
        }
    }

    /// Whether the commit record is in the log. If so, the commit happens even if the caller stops
    /// polling.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        matches!(self.stage, Stage::Durable(_) | Stage::Done(_))
    }

    /// Advances the commit as far as possible without blocking.
    ///
    /// # Errors
    /// 40001, 42P07, 42P01 when the catalog changed meanwhile; 40001 when the reads of a
    /// SERIALIZABLE transaction are no longer valid; 53100, 53200 when refused, to be retried
    /// later; 54000 when a table would have too many series. In all these cases nothing was
    /// committed. 58030: the log failed and the outcome is unknown.
    pub fn poll(&mut self) -> Result<Progress> {
        loop {
            let wait = match &self.stage {
                Stage::Admit => self.admit()?,
                Stage::RowDeletes { table, from } => self.send_row_deletes(*table, *from)?,
                Stage::Rows { .. } => self.send_rows()?,
                Stage::RowChanges(from) => self.send_row_changes(*from)?,
                Stage::Commit => at_commit_point(&Arc::clone(&self.engine.inner), || self.commit())?,
                Stage::Durable(lsn) => self.await_durable(*lsn)?,
                Stage::Done(lsn) => return Ok(Progress::Done(*lsn)),
            };
            if let Some(event) = wait {
                return Ok(Progress::Wait(event));
            }
        }
    }

    /// Returns the LSN of the commit record once it is queued. From then on the commit survives a
    /// restart, unless the log or the power fails before it is durable.
    #[must_use]
    pub fn lsn(&self) -> Option<Lsn> {
        match self.stage {
            Stage::Durable(lsn) | Stage::Done(lsn) => Some(lsn),
            Stage::Admit | Stage::RowDeletes { .. } | Stage::Rows { .. } | Stage::RowChanges(_) | Stage::Commit => None,
        }
    }

    /// Waits for memory, then decides whether rows are logged ahead of the commit record or inside
    /// it.
    fn admit(&mut self) -> Result<Option<Event>> {
        let inner = &self.engine.inner;
        inner.check_writable()?;
        if self.memory.bytes() > 0 {
            let needs_room =
                self.tables.iter().any(|writes| !writes.batches.is_empty() || writes.row_deletes.is_some());
            let now = inner.env.monotonic_ns();
            let waited = now.saturating_sub(*self.waiting_since.get_or_insert(now));
            match inner.write_stall() {
                WriteStall::Delay(_) | WriteStall::Stop if needs_room && let Some(error) = inner.jobs.gc.broken() => {
                    return Err(error);
                }
                WriteStall::Stop if !needs_room && waited < RANGE_DELETE_NS_MAX => {
                    inner.jobs.flush.wake();
                    return Ok(Some(RowGc::delay_writer(inner, RANGE_DELETE_NS_MAX - waited)));
                }
                WriteStall::Stop if !needs_room => {}
                WriteStall::Stop if let Some(error) = inner.jobs.flush.broken() => return Err(error),
                WriteStall::Delay(delay) if waited < delay => {
                    return Ok(Some(RowGc::delay_writer(inner, delay - waited)));
                }
                WriteStall::Stop if waited > ADMISSION_NS_MAX => return Err(inner.memory_refusal()),
                WriteStall::Stop => {
                    if waited > FULL_DISK_NS_MAX
                        && let Some(refusal) = inner.jobs.flush.full_disk_refusal()
                    {
                        return Err(refusal);
                    }
                    inner.jobs.flush.wake();
                    return Ok(Some(RowGc::delay_writer(inner, RECHECK_NS)));
                }
                WriteStall::Clear | WriteStall::Delay(_) => {}
            }
        }
        let mut encoded: usize = self.batches().map(|batch| batch.rows.encoded_bytes(0..batch.rows.len())).sum();
        self.resolve_row_deletes();
        encoded += self.row_deletes.iter().map(|(_, deletes)| deletes.len() * record::SPAN_BYTES_MAX).sum::<usize>();
        if let Some(rows) = &mut self.rows {
            rows.prepare(&crossbeam_epoch::pin())?;
        }
        let (changes, rest) = self.row_changes(0, false)?;
        if encoded + changes.len() > ROWS_ITEM_BYTES || rest.is_some() {
            self.stage = Stage::RowDeletes { table: 0, from: 0 };
            return Ok(None);
        }
        for (table, deletes) in &self.row_deletes {
            self.inline.push(record::delete_spans_item(*table, deletes.spans_from(0), usize::MAX).0);
        }
        if changes.len() > 0 {
            self.inline.push(changes.finish());
        }
        let mut number = 0;
        for writes in &self.tables {
            for batch in &writes.batches {
                self.inline.push(self.rows_item(writes.table, number, batch, 0..batch.rows.len()));
                number += 1;
            }
        }
        self.stage = Stage::Commit;
        Ok(None)
    }

    fn batches(&self) -> impl Iterator<Item = &Arc<Batch>> {
        self.tables.iter().flat_map(|writes| &writes.batches)
    }

    /// Looks up the series of the deletes of single rows. A series that has no number yet has no
    /// committed rows that the transaction read.
    fn resolve_row_deletes(&mut self) {
        let newest = self.engine.inner.versions.newest();
        for writes in &self.tables {
            let (Some(deletes), Some(state)) = (&writes.row_deletes, newest.tables.get(&writes.table)) else {
                continue;
            };
            let found = state.series.lookup_all(&deletes.keys).into_iter();
            let numbers: Vec<Option<u32>> = found.map(|id| id.map(|id| id.0)).collect();
            let deletes = Deletes::of_rows(&deletes.numbered(&numbers));
            if !deletes.is_empty() {
                self.row_deletes.push((writes.table, deletes));
            }
        }
    }

    /// Logs one record of deletes of single rows ahead of the commit.
    fn send_row_deletes(&mut self, number: usize, from: usize) -> Result<Option<Event>> {
        if let Some(item) = self.unsent.take() {
            return self.send(item);
        }
        let Some((table, deletes)) = self.row_deletes.get(number) else {
            self.stage = Stage::Rows { batch: 0, part: 0 };
            return Ok(None);
        };
        if from >= deletes.len() {
            self.stage = Stage::RowDeletes { table: number + 1, from: 0 };
            return Ok(None);
        }
        let (bytes, count) = record::delete_spans_item(*table, deletes.spans_from(from), ROWS_ITEM_BYTES);
        self.stage = Stage::RowDeletes { table: number, from: from + count };
        self.send(UnsentItem { bytes, sent: 0 })
    }

    /// Logs one record of rows ahead of the commit.
    fn send_rows(&mut self) -> Result<Option<Event>> {
        if let Some(item) = self.unsent.take() {
            return self.send(item);
        }
        let Stage::Rows { batch: number, part } = self.stage else {
            return Err(Error::bug("rows sent in another stage"));
        };
        let all = self.tables.iter().flat_map(|writes| writes.batches.iter().map(|batch| (writes.table, batch)));
        let Some((table, batch)) = all.clone().nth(number) else {
            self.stage = Stage::RowChanges(0);
            return Ok(None);
        };
        if part == 0 {
            self.parts = batch.split(ROWS_ITEM_BYTES);
        }
        let Some(range) = self.parts.get(part) else {
            self.stage = Stage::Rows { batch: number + 1, part: 0 };
            return Ok(None);
        };
        if range.len() == 1 {
            let bytes = batch.rows.encoded_bytes(range.clone());
            reserve_large(&mut self.item_memory, bytes)?;
        }
        let item = self.rows_item(table, number as u32, batch, range.clone());
        self.stage = Stage::Rows { batch: number, part: part + 1 };
        self.send(UnsentItem { bytes: item, sent: 0 })
    }

    /// Encodes rows `range` of a batch for the log.
    fn rows_item(&self, table: TableId, number: u32, batch: &Batch, range: Range<usize>) -> Vec<u8> {
        let mut item = record::begin_rows_item(table, number);
        if self.engine.inner.options.log_compression {
            batch.rows.encode_compressed(range, &mut item);
        } else {
            batch.rows.encode(range, &mut item);
        }
        item
    }

    /// Logs one record of changes of `rows` tables ahead of the commit.
    fn send_row_changes(&mut self, from: usize) -> Result<Option<Event>> {
        if let Some(item) = self.unsent.take() {
            return self.send(item);
        }
        if self.rows.as_ref().is_none_or(|rows| from >= rows.changes_len()) {
            self.stage = Stage::Commit;
            return Ok(None);
        }
        let (item, rest) = self.row_changes(from, true)?;
        // The last item keeps the stage too: a busy log leaves it unsent, and the commit must not overtake it.
        let end = self.rows.as_ref().map_or(0, rows::Txn::changes_len);
        self.stage = Stage::RowChanges(rest.unwrap_or(end));
        if item.len() == 0 {
            return Ok(None);
        }
        self.send(UnsentItem { bytes: item.finish(), sent: 0 })
    }

    /// Encodes changes of `rows` tables up to the size of an item, and returns the position of the
    /// next change if these are not all. A row that is larger is an item of its own, if `large` is
    /// set.
    fn row_changes(&mut self, from: usize, large: bool) -> Result<(RowChangesItem, Option<usize>)> {
        let mut item = RowChangesItem::default();
        let Some(rows) = &self.rows else { return Ok((item, None)) };
        let (mut adds_rows, mut reserved) = (false, Ok(()));
        let memory = &mut self.item_memory;
        let next = rows.changes(from, &crossbeam_epoch::pin(), |table, record, row| {
            adds_rows |= row.is_some();
            if table.schema.name.is_temporary() {
                return ControlFlow::Continue(());
            }
            let bytes = item.len() + row.map_or(0, <[u8]>::len);
            if bytes > ROWS_ITEM_BYTES {
                if item.len() > 0 || !large {
                    return ControlFlow::Break(());
                }
                reserved = reserve_large(memory, bytes);
                if reserved.is_err() {
                    return ControlFlow::Break(());
                }
            }
            item.push(table.id(), record, row);
            ControlFlow::Continue(())
        })?;
        reserved?;
        let rest = (next < rows.changes_len()).then_some(next);
        self.adds_rows |= adds_rows;
        Ok((item, rest))
    }

    /// Logs the records of an item, as many as the log accepts.
    fn send(&mut self, mut item: UnsentItem) -> Result<Option<Event>> {
        let txn = self.txn();
        self.sent = true;
        while item.sent < item.bytes.len() {
            let (header, range) = record::item_record(txn, &item.bytes, item.sent);
            if let Some(event) = self.send_record(txn, &[header.bytes(), &item.bytes[range.clone()]])? {
                self.unsent = Some(item);
                return Ok(Some(event));
            }
            item.sent = range.end;
        }
        self.item_memory.shrink_to(0);
        Ok(None)
    }

    fn send_record(&mut self, txn: u64, record: &[&[u8]]) -> Result<Option<Event>> {
        // Held while appending: a flush that looks for the oldest open transaction sees either this
        // transaction or none of its records.
        let mut open = self.engine.inner.open_txns.lock();
        self.engine.inner.check_writable()?;
        match self.engine.inner.wal.append(&[record], Space::Ordinary)? {
            Appended::At(lsn) => {
                let bytes: usize = record.iter().map(|part| part.len()).sum();
                self.engine.inner.counters.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                self.sent_bytes += bytes;
                open.entry(txn).or_insert(lsn);
                Ok(None)
            }
            Appended::Busy(event) => Ok(Some(event)),
        }
    }

    fn txn(&mut self) -> u64 {
        let inner = &self.engine.inner;
        *self.txn.get_or_insert_with(|| inner.next_txn.fetch_add(1, Ordering::Relaxed))
    }

    /// Commits under the lock.
    fn commit(&mut self) -> Result<Option<Event>> {
        let txn = self.txn();
        let inner = Arc::clone(&self.engine.inner);
        // Existing series are looked up before the lock is taken; only new ones are numbered under
        // it.
        let newest = inner.versions.newest();
        let mut resolved = self.resolve(&newest);
        let late_rows = self.late_rows(&newest);
        let deletes = self.deletes(&newest);
        let mut delete_entries = delete_entries(&deletes);
        let times = self.times_without_key(&newest);
        drop(newest);
        self.validate()?;

        let mut lock = inner.commit.lock();
        inner.check_writable()?;
        self.validate()?;
        let mut db = (*inner.versions.newest()).clone();
        db.wall_ns = commit_time(inner.env.now_ns(), db.wall_ns);
        let (mut dropped, mut logged) = (Vec::new(), Vec::with_capacity(self.ddl.len()));
        for ddl in &self.ddl {
            if !ddl.is_temporary(&db.catalog) {
                logged.push(ddl);
            }
            dropped.extend(db.apply(ddl)?);
        }
        self.check_constraints(&lock, &db)?;
        self.check_times(&lock, &db)?;
        let new_series = number_new_series(&db, &mut resolved)?;
        check_series(&db, &new_series)?;
        self.check_changes(&inner);
        let covering_deletes = CoveringDelete::of(&db, &deletes);
        if let Some(changes) = &mut self.rows {
            changes.prepare(&crossbeam_epoch::pin())?;
        }
        let row_changes = self.rows.as_ref().map_or(0, rows::Txn::changes_len);
        let space = if self.only_frees_space() { Space::Reserve } else { Space::Ordinary };
        let alters_catalog = !logged.is_empty();
        let items = (&logged[..], &resolved[..], &new_series, &deletes[..]);
        let (appended, bytes) = self.append(txn, db.wall_ns, items, space)?;
        let lsn = match appended {
            Appended::At(lsn) => lsn,
            Appended::Busy(event) => return Ok(Some(event)),
        };

        // From here on the commit is in the log, so it happens: nothing returns an error. If an
        // invariant breaks, no later commit builds on the result, and readers never see it.
        delete_entries.append(&mut self.row_deletes);
        times.into_iter().for_each(|(table, times)| lock.recent_times.entry(table).or_default().add(lsn, times));
        for writes in &self.tables {
            lock.last_rows.insert(writes.table, lsn);
        }
        for state in &dropped {
            lock.recent_times.remove(&state.table.id);
            lock.last_rows.remove(&state.table.id);
        }
        let deletes = delete_entries;
        self.apply(&mut lock, db, Logged { lsn, txn, deletes, resolved, new_series, dropped, alters_catalog });
        let frees_files = lock.frees_files();
        drop(lock);

        let rows_of = |writes: &TableWrites| writes.batches.iter().map(|batch| batch.rows.len()).sum();
        let touched: Vec<(TableId, usize)> = self.tables.iter().map(|writes| (writes.table, rows_of(writes))).collect();
        let ingested: usize = self.batches().map(|batch| batch.rows.encoded_bytes(0..batch.rows.len())).sum();
        let mut rows: usize = self.batches().map(|batch| batch.rows.len()).sum();
        rows += row_changes;
        let changed_rows = self.rows.is_some();
        // Dropping the transaction releases its locks.
        self.rows = None;
        self.snapshot = None;
        inner.counters.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        inner.counters.commits.fetch_add(1, Ordering::Relaxed);
        inner.counters.rows_written.fetch_add(rows as u64, Ordering::Relaxed);
        if ingested > 0 {
            inner.counters.ingested_bytes.fetch_add(ingested as u64, Ordering::Relaxed);
            inner.counters.ingest_log_bytes.fetch_add((self.sent_bytes + bytes) as u64, Ordering::Relaxed);
        }
        inner.jobs.retention.late_rows.add(late_rows);
        Flush::wake_if_due(&inner);
        CoveringDeletes::note(&inner, lsn, covering_deletes);
        if frees_files {
            inner.on_durable(lsn, |jobs| jobs.dropped_files.wake());
        }
        if !self.ddl.is_empty() {
            inner.jobs.catalog_changed();
        }
        self.tables.clear();
        self.inline.clear();
        self.own_versions = OwnVersions::default();
        if !touched.is_empty() && (rows > SMALL_ROWS || merges_entries(lsn)) {
            inner.jobs.flush.consolidate(&inner, &touched);
        }
        if changed_rows {
            RowGc::after_commit(&inner, rows);
        }
        self.stage = match self.durability {
            Durability::Sync => Stage::Durable(lsn),
            Durability::Async => Stage::Done(lsn),
        };
        Ok(None)
    }

    /// Asserts that replay will accept the changes.
    fn check_changes(&self, inner: &Inner) {
        let next = self.ddl.iter().map(Ddl::next_number).max().unwrap_or(0);
        let first_free = inner.next_table.load(Ordering::Relaxed);
        assert!(next <= first_free, "BUG: an object with a number that was not drawn: below {next}, not {first_free}");
        let tables = self.own_versions.tables.len();
        assert!(tables == 0 || !self.ddl.is_empty(), "BUG: versions of {tables} tables without DDL");
        assert!(self.unsent.is_none(), "BUG: rows logged ahead of the commit are not in the log");
    }

    /// Applies a logged commit: installs its changes in `db` and makes that the newest version.
    fn apply(&mut self, lock: &mut CommitState, mut db: DbVersion, logged: Logged) {
        let Logged { lsn, txn, deletes, resolved, new_series, dropped, alters_catalog } = logged;
        let inner = Arc::clone(&self.engine.inner);
        assert!(lsn > db.lsn, "BUG: commit {lsn} builds on commit {}", db.lsn);
        let before = (!self.ddl.is_empty()).then(|| inner.versions.newest());
        db.lsn = lsn;
        install(&mut db, lsn, deletes, resolved, &new_series);
        if let Some(changes) = &mut self.rows {
            // Before readers can see the new version.
            changes.commit(lsn, &crossbeam_epoch::pin());
        }
        if alters_catalog {
            db.catalog_lsn = lsn;
        }
        if let Some(before) = before
            && self.install_own_versions(&mut db, &before)
        {
            lock.row_files_obsolete_since = Some(lsn);
        }
        inner.versions.push(db);
        if self.sent {
            let first = inner.open_txns.lock().remove(&txn);
            assert!(first.is_some_and(|first| first < lsn), "BUG: records of commit {lsn} start at {first:?}");
        }
        lock.dropped.extend(dropped.into_iter().map(|state| (lsn, state)));
        // Under the lock, because a finished flush recounts under it: flushed bytes must not be
        // added afterwards.
        inner.memtable_bytes.fetch_add(self.memory.bytes(), Ordering::Relaxed);
        self.memory.shrink_to(0);
    }

    /// Checks that the reads of a SERIALIZABLE transaction are still valid after all known commits.
    fn validate(&mut self) -> Result<()> {
        self.rows.as_mut().map_or(Ok(()), rows::Txn::validate)
    }

    /// Queues the commit record; returns its payload bytes too.
    fn append(&self, txn: u64, wall_ns: i64, items: Items<'_>, space: Space) -> Result<(Appended, usize)> {
        let wal = &self.engine.inner.wal;
        let header = record::commit_header(txn, wall_ns);
        if self.tables.is_empty() && items.0.is_empty() {
            // The common case of a small change of rows: nothing is left to encode.
            let Some(item) = self.inline.first() else { return Ok((wal.append(&[&[&header]], space)?, header.len())) };
            let length = (item.len() as u32).to_le_bytes();
            let bytes = header.len() + length.len() + item.len();
            return Ok((wal.append(&[&[&header, &length, item]], space)?, bytes));
        }
        let own_versions = change_items(items);
        let items: Vec<&[u8]> = own_versions.iter().chain(&self.inline).map(Vec::as_slice).collect();
        let lengths: Vec<[u8; 4]> = items.iter().map(|item| (item.len() as u32).to_le_bytes()).collect();
        let ahead: Vec<_>;
        let (mut records, mut commit): (Vec<Vec<&[u8]>>, Vec<&[u8]>) = (Vec::new(), vec![header.as_slice()]);
        if record::commit_record_fits(&items) {
            commit.extend(lengths.iter().zip(&items).flat_map(|(length, item)| [length.as_slice(), *item]));
        } else {
            ahead = items.iter().flat_map(|item| record::item_records(txn, item)).collect();
            records.extend(ahead.iter().map(|(header, bytes)| vec![header.bytes(), *bytes]));
        }
        records.push(commit);
        let bytes = records.iter().flatten().map(|part| part.len()).sum();
        let records: Vec<&[&[u8]]> = records.iter().map(Vec::as_slice).collect();
        Ok((wal.append(&records, space)?, bytes))
    }

    /// Installs the transaction's versions of `rows` tables, with their indexes, and of sequences.
    /// Returns whether files may hold rows that were removed.
    fn install_own_versions(&mut self, db: &mut DbVersion, before: &DbVersion) -> bool {
        let mut removes_rows = false;
        for (id, version) in std::mem::take(&mut self.own_versions.tables) {
            let old = before.row_tables.get(&id);
            match version {
                Some(version) => {
                    version.take_effect();
                    if let Some(old) = old {
                        self.engine.inner.store.depart(db.lsn, old, Some(&version));
                    }
                    let is_logged = !version.schema.name.is_temporary();
                    removes_rows |= is_logged && old.is_some_and(|old| !Arc::ptr_eq(&old.records, &version.records));
                    db.row_tables.insert(id, version);
                }
                None => {
                    if let Some(old) = old {
                        old.go();
                        self.engine.inner.store.depart(db.lsn, old, None);
                        removes_rows |= !old.schema.name.is_temporary();
                    }
                }
            }
        }
        for (id, counter) in std::mem::take(&mut self.own_versions.counters) {
            if db.counters.contains_key(&id) {
                counter.note_logged();
                db.counters.insert(id, counter);
            }
        }
        removes_rows
    }

    /// Whether the commit only deletes or drops; such commits are accepted on a full disk.
    fn only_frees_space(&self) -> bool {
        let frees = |ddl: &Ddl| matches!(ddl, Ddl::Drop(_) | Ddl::Alter(_, NewState::Emptied));
        !self.adds_rows && self.tables.iter().all(|writes| writes.batches.is_empty()) && self.ddl.iter().all(frees)
    }

    /// Counts rows before the retention horizon: they are accepted and never returned.
    fn late_rows(&self, db: &DbVersion) -> u64 {
        let late = |writes: &TableWrites| {
            let kept_from = db.tables.get(&writes.table).map_or(i64::MIN, |state| state.kept_from);
            if kept_from == i64::MIN {
                return 0;
            }
            let times = writes.batches.iter().flat_map(|batch| &batch.rows.times);
            times.filter(|time| **time < kept_from).count() as u64
        };
        self.tables.iter().map(late).sum()
    }

    /// Looks up the series numbers of every batch; one list per batch, in order, unknown series
    /// marked.
    fn resolve(&self, db: &DbVersion) -> Vec<Resolved> {
        let mut all = Vec::new();
        for writes in &self.tables {
            let series = db.tables.get(&writes.table).map(|state| Arc::clone(&state.series));
            for batch in &writes.batches {
                let ids = match &series {
                    Some(series) => batch.numbers_in(series),
                    None => vec![None; batch.keys.len()],
                };
                all.push(Resolved {
                    table: writes.table,
                    batch: Arc::clone(batch),
                    ids: ids.into_iter().map(|id| id.map_or(UNKNOWN, |id| id.0)).collect(),
                });
            }
        }
        all
    }

    /// Resolves the series of the deletes of ranges to numbers. Keys that were never committed have
    /// nothing to hide.
    fn deletes(&self, db: &DbVersion) -> Vec<(TableId, Tombstone)> {
        let mut all = Vec::new();
        for writes in &self.tables {
            let Some(state) = db.tables.get(&writes.table) else { continue };
            for delete in &writes.deletes {
                let series = delete.series.as_ref().map(|keys| {
                    let mut ids: Vec<u32> =
                        state.series.lookup_all(keys).into_iter().flatten().map(|id| id.0).collect();
                    ids.sort_unstable();
                    Arc::from(ids)
                });
                all.push((writes.table, Tombstone { lsn: Lsn::ZERO, committed: 0, series, times: delete.times }));
            }
        }
        all.retain(|(_, delete)| delete.series.as_ref().is_none_or(|ids: &Arc<[u32]>| !ids.is_empty()));
        all
    }

    /// The range of the times that the transaction writes or deletes, of each table without a key.
    fn times_without_key(&self, db: &DbVersion) -> Vec<(TableId, TimeRange)> {
        let is_meant = |writes: &&TableWrites| db.tables.get(&writes.table).is_some_and(|state| !state.table.keyed);
        let times = |writes: &TableWrites| {
            let rows = writes.batches.iter().flat_map(|batch| &batch.rows.times);
            let row_deletes = writes.row_deletes.iter().flat_map(|deletes| &deletes.rows).map(|(_, time)| time);
            let single = rows.chain(row_deletes).map(|time| TimeRange { start: *time, last: *time });
            let ranges = writes.deletes.iter().map(|delete| delete.times);
            single.chain(ranges).fold(TimeRange::EMPTY, |all, times| all.union(&times))
        };
        self.tables.iter().filter(is_meant).map(|writes| (writes.table, times(writes))).collect()
    }

    /// Checks that the rows satisfy the constraints of their tables, and those of other transactions the constraints that
    /// this one adds.
    fn check_constraints(&self, lock: &CommitState, db: &DbVersion) -> Result<()> {
        for writes in &self.tables {
            let now = &db.state(writes.table)?.table;
            if writes.checked.as_ref().is_some_and(|checked| !Arc::ptr_eq(checked, now) && !checked.implies(now)) {
                return Err(constrained_meanwhile(&now.name));
            }
        }
        for (table, read) in &self.validated {
            if lock.last_rows.get(table).is_some_and(|last| last > read) {
                let name = &db.state(*table)?.table.name;
                let text = format!("relation {name} was written by another transaction while its rows were checked");
                let hint = "run the statement again, or ADD CONSTRAINT … NOT VALID, and then VALIDATE CONSTRAINT";
                return Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint(hint));
            }
        }
        Ok(())
    }

    /// Checks that no other transaction changed the times at which this one replaces the rows of a
    /// table without a key.
    fn check_times(&self, lock: &CommitState, db: &DbVersion) -> Result<()> {
        for writes in &self.tables {
            let Some((read, times)) = &writes.replaced_times else { continue };
            let Some(recent) = lock.recent_times.get(&writes.table) else { continue };
            if recent.may_touch(*read, times) {
                let name = &db.state(writes.table)?.table.name;
                return Err(Error::new(
                    SqlState::SERIALIZATION_FAILURE,
                    "could not serialize access due to concurrent update",
                )
                .with_detail(format!(
                    "Another transaction changed rows of table {name} at the same times. The table has no key, so all rows of \
                     a time are replaced together."
                ))
                .with_hint("run the transaction again"));
            }
        }
        Ok(())
    }

    fn await_durable(&mut self, lsn: Lsn) -> Result<Option<Event>> {
        let wal = &self.engine.inner.wal;
        if wal.durable() >= lsn {
            self.stage = Stage::Done(lsn);
            return Ok(None);
        }
        if let Some(error) = wal.failure() {
            return Err(error);
        }
        Ok(Some(wal.when_durable(lsn)))
    }
}

/// Error for rows that were not checked against the constraints that their table has now.
pub(crate) fn constrained_meanwhile(table: &model::TableName) -> Error {
    let text = format!("relation {table} was altered by another transaction since its rows were checked");
    Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again")
}

/// Reserves memory for an encoded item if it is larger than a record.
fn reserve_large(memory: &mut Reservation, bytes: usize) -> Result<()> {
    if bytes <= record::ITEM_BYTES_MAX { Ok(()) } else { memory.resize(bytes as u64) }
}

impl Drop for Committing {
    fn drop(&mut self) {
        if let Some(txn) = self.txn {
            self.engine.inner.open_txns.lock().remove(&txn);
        }
    }
}

impl TableWrites {
    fn new(table: TableId, own: OwnWrites) -> Option<TableWrites> {
        let mut writes = TableWrites {
            table,
            deletes: Vec::new(),
            row_deletes: None,
            replaced_times: None,
            batches: Vec::new(),
            checked: own.checked,
        };
        for entry in own.entries.iter() {
            match entry {
                OwnEntry::Rows(batch) => writes.batches.push(Arc::clone(batch)),
                OwnEntry::Delete(delete) => writes.deletes.push(Arc::clone(delete)),
                OwnEntry::DeleteRows(deletes) => {
                    debug_assert!(writes.row_deletes.is_none(), "BUG: several lists of deleted rows of a table");
                    let times = || deletes.rows.iter().map(|(_, time)| *time).collect();
                    writes.replaced_times = deletes.read_lsn.map(|read| (read, times()));
                    writes.row_deletes = Some(Arc::clone(deletes));
                }
            }
        }
        let is_empty = writes.deletes.is_empty() && writes.row_deletes.is_none() && writes.batches.is_empty();
        (!is_empty).then_some(writes)
    }
}

/// Runs a step of the commit point. After a panic the state under the commit lock cannot be trusted,
/// and a commit record may be in the log without its version: later commits are refused.
fn at_commit_point<T>(inner: &Inner, step: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let error = broken_invariant("the commit point", &*panic)
            .with_detail("It is unknown whether this commit happened; a restart shows it")
            .with_hint("report it with the server's log, then restart; reads are still served");
        inner.poison(&error);
        Err(error)
    })
}

/// Changes of a commit whose record is in the log.
struct Logged {
    lsn: Lsn,
    txn: u64,
    /// Their commit is set when they are applied.
    deletes: Vec<(TableId, Deletes)>,
    resolved: Vec<Resolved>,
    new_series: NewSeriesByTable,
    dropped: Vec<Arc<TableState>>,
    /// Whether a change of the catalog is in the log: a crash takes back no other.
    alters_catalog: bool,
}

/// Marks a series that has no number yet.
const UNKNOWN: u32 = u32::MAX;

/// A batch whose local series have table-wide numbers.
struct Resolved {
    table: TableId,
    batch: Arc<Batch>,
    ids: Vec<u32>,
}

/// Series that this commit creates, by table.
type NewSeriesByTable = BTreeMap<TableId, NewSeries>;

struct NewSeries {
    first: u32,
    keys: Vec<Box<[u8]>>,
    numbers: rustc_hash::FxHashMap<Box<[u8]>, u32>,
}

/// Assigns numbers to series that were unknown before the lock was taken; changes only `resolved`.
fn number_new_series(db: &DbVersion, resolved: &mut [Resolved]) -> Result<NewSeriesByTable> {
    let mut new_series = NewSeriesByTable::new();
    for one in resolved {
        let state = db.state(one.table)?;
        if one.ids.iter().all(|id| *id != UNKNOWN) {
            continue;
        }
        let found = state.series.lookup_all(&one.batch.keys);
        let new = new_series.entry(one.table).or_insert_with(|| NewSeries {
            first: state.series_count,
            keys: Vec::new(),
            numbers: rustc_hash::FxHashMap::default(),
        });
        for (local, key) in one.batch.keys.iter().enumerate() {
            if one.ids[local] == UNKNOWN {
                one.ids[local] = match found[local] {
                    Some(id) => id.0,
                    None => new.number(state, key)?,
                };
            }
        }
    }
    Ok(new_series)
}

impl NewSeries {
    fn number(&mut self, state: &TableState, key: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(key) {
            return Ok(*number);
        }
        let number = self.first + self.keys.len() as u32;
        if number >= limits::SERIES_PER_TABLE_MAX {
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("table {} has {number} series, which is the limit for one table", state.table.name),
            ));
        }
        self.keys.push(key.into());
        self.numbers.insert(key.into(), number);
        Ok(number)
    }
}

/// Encodes the series numbers of a batch in items that each fit a record.
fn series_items(number: u32, one: &Resolved, new_series: &NewSeriesByTable) -> Vec<Vec<u8>> {
    let new = new_series.get(&one.table);
    let key_of = |id: &u32| {
        let new = new?;
        let at = id.checked_sub(new.first)?;
        new.keys.get(at as usize).map(|key| (*id, &**key))
    };
    let mut items = Vec::new();
    let mut first = 0;
    while first < one.ids.len() {
        let (mut end, mut bytes) = (first, 0);
        while end < one.ids.len() && end - first < record::SERIES_PER_ITEM_MAX && bytes < ROWS_ITEM_BYTES {
            bytes += 4 + key_of(&one.ids[end]).map_or(0, |(_, key)| key.len() + 8);
            end += 1;
        }
        let ids = &one.ids[first..end];
        let new_keys: Vec<_> = ids.iter().filter_map(key_of).collect();
        items.push(record::series_item(one.table, number, first as u32, ids, &new_keys));
        first = end;
    }
    items
}

/// The deletes of ranges, one entry for each table.
fn delete_entries(deletes: &[(TableId, Tombstone)]) -> Vec<(TableId, Deletes)> {
    let of_tables = deletes.chunk_by(|a, b| a.0 == b.0);
    let entry = |deletes: &[(TableId, Tombstone)]| {
        let tombstones = deletes.iter().map(|(_, delete)| delete.clone());
        (deletes[0].0, Deletes::of(tombstones, true))
    };
    of_tables.map(entry).collect()
}

fn delete_items(table: TableId, delete: &Tombstone) -> Vec<Vec<u8>> {
    match &delete.series {
        None => vec![record::delete_item(table, None, delete.times)],
        Some(series) => series
            .chunks(record::SERIES_PER_ITEM_MAX)
            .map(|chunk| record::delete_item(table, Some(chunk), delete.times))
            .collect(),
    }
}

/// Checks that new series can be added under their numbers, so that adding them cannot fail.
fn check_series(db: &DbVersion, new_series: &NewSeriesByTable) -> Result<()> {
    for (table, new) in new_series {
        let state = db.state(*table)?;
        let (name, next, first) = (&state.table.name, state.series.len(), new.first);
        assert!(new.keys.is_empty() || next == first, "BUG: table {name} has {next} series, a commit adds {first}");
        assert!(state.series_count == next, "BUG: table {name} counts {} series, of {next}", state.series_count);
    }
    Ok(())
}

/// Installs the commit in the tables of the new version. Everything was checked before the append.
fn install(
    db: &mut DbVersion,
    lsn: Lsn,
    deletes: Vec<(TableId, Deletes)>,
    resolved: Vec<Resolved>,
    new_series: &NewSeriesByTable,
) {
    let state = |db: &DbVersion, id| Arc::clone(db.state(id).expect("BUG: a checked table is gone"));
    for (table, new) in new_series {
        let keys = new.keys.iter().map(|key| &**key);
        let added = state(db, *table).series.insert_all(model::SeriesId(new.first), keys);
        added.expect("BUG: a checked series is refused");
    }
    let committed = db.wall_ns;
    let mut entries: BTreeMap<TableId, Vec<Entry>> = BTreeMap::new();
    for (table, mut deletes) in deletes {
        deletes.set_commit(lsn, committed);
        entries.entry(table).or_default().push(Entry::Delete(Arc::new(deletes)));
    }
    for one in resolved {
        let rows = Arc::new(one.batch.numbered(&one.ids));
        entries.entry(one.table).or_default().push(Entry::Rows { lsns: (lsn, lsn), committed, rows });
    }
    for (table, entries) in entries {
        let state = state(db, table);
        let count = new_series.get(&table).map_or(0, |new| new.first + new.keys.len() as u32);
        let state = state.with_entries(entries, count.max(state.series_count));
        let (counted, listed) = (state.series_count, state.series.len());
        assert!(counted == listed, "BUG: table {} counts {counted} series, of {listed}", state.table.name);
        db.tables.insert(table, Arc::new(state));
    }
}

/// Replays commits from the log into a database version. Used by recovery and, later, by followers.
pub(crate) struct Replay {
    open: BTreeMap<u64, OpenTxn>,
    /// Entries not yet added to the table states, by table, in commit order. Adding copies the list
    /// of entries of a state, so it is done for many at once.
    pending: BTreeMap<TableId, Vec<Entry>>,
    pending_entries: usize,
    pub(crate) commits: u64,
    /// Above every transaction number read so far.
    pub(crate) next_txn: u64,
}

/// The records of a transaction without a commit record so far.
#[derive(Default)]
struct OpenTxn {
    items: Vec<Vec<u8>>,
    /// Parts of an item that is not complete yet.
    part: Vec<u8>,
}

impl OpenTxn {
    fn add_part(&mut self, bytes: &[u8], is_last: bool) {
        self.part.extend_from_slice(bytes);
        if is_last {
            self.items.push(std::mem::take(&mut self.part));
        }
    }

    /// The items; called with the commit record, and not before: replay may start between the parts
    /// of a transaction that is in the files.
    fn items(&self) -> Result<Vec<record::Item<'_>>> {
        if !self.part.is_empty() {
            let bytes = self.part.len();
            return Err(Error::corrupt(format!("an item lacks its last part: {bytes} bytes of it precede the commit")));
        }
        self.items.iter().map(|item| record::decode_item(item)).collect()
    }
}

impl Replay {
    pub(crate) fn new() -> Replay {
        Replay { open: BTreeMap::new(), pending: BTreeMap::new(), pending_entries: 0, commits: 0, next_txn: 1 }
    }

    /// Replays one record. Commits at or below `flushed` are in the files already. The version has
    /// all rows only after [`Replay::install`].
    pub(crate) fn record(
        &mut self,
        lsn: Lsn,
        payload: &[u8],
        flushed: Lsn,
        db: &mut DbVersion,
    ) -> Result<Option<Replayed>> {
        let record = record::Record::decode(lsn, payload)?;
        self.next_txn = self.next_txn.max(record.txn().saturating_add(1));
        match record {
            record::Record::Item { txn, .. } => {
                let open = self.open.entry(txn).or_default();
                if !open.part.is_empty() {
                    let text = format!("log record {lsn}: an item between the parts of another one");
                    return Err(Error::corrupt(text));
                }
                open.items.push(payload[record::ITEM_HEADER_BYTES..].to_vec());
                Ok(None)
            }
            record::Record::Part { txn, is_last, bytes } => {
                self.open.entry(txn).or_default().add_part(bytes, is_last);
                Ok(None)
            }
            record::Record::Commit { txn, wall_ns, items } => {
                let ahead = self.open.remove(&txn).unwrap_or_default();
                if lsn <= flushed {
                    return Ok(None);
                }
                self.commits += 1;
                db.wall_ns = db.wall_ns.max(wall_ns);
                let mut all = ahead.items().map_err(|error| error.context(format!("commit {lsn}")))?;
                all.extend(items);
                let replayed = self.commit(db, lsn, all).map_err(|error| error.context(format!("commit {lsn}")))?;
                debug_assert!(lsn > db.lsn, "BUG: commit {lsn} is replayed after {}", db.lsn);
                db.lsn = lsn;
                if self.pending_entries >= PENDING_ENTRIES_MAX {
                    self.install(db);
                }
                Ok(Some(replayed))
            }
        }
    }

    /// Adds the pending entries to the version, merged as commits merge them.
    pub(crate) fn install(&mut self, db: &mut DbVersion) {
        self.pending_entries = 0;
        for (id, entries) in std::mem::take(&mut self.pending) {
            let Some(state) = db.tables.get(&id) else { continue };
            let mut state = state.with_entries(entries, state.series_count);
            while let Some(merged) =
                state.consolidate(Lsn::ZERO, usize::MAX).and_then(|done| state.with_consolidated(&done))
            {
                state = merged;
            }
            db.tables.insert(id, Arc::new(state));
        }
    }

    fn push_pending(&mut self, table: TableId, entry: Entry) {
        self.pending.entry(table).or_default().push(entry);
        self.pending_entries += 1;
    }
}

impl Engine {
    /// Logs the state of a sequence in a commit of its own; that of a temporary one is not logged. Returns the event to
    /// wait for if the log is busy.
    ///
    /// # Errors
    /// 42P01 when the sequence was dropped, 40001 when another counter has replaced this one; those
    /// of [`Committing::poll`].
    pub(crate) fn log_sequence(
        &self,
        sequence: &SequenceSpec,
        counter: &Arc<Counter>,
        state: SequenceState,
    ) -> Result<std::result::Result<Lsn, Event>> {
        if sequence.name.is_temporary() {
            return Ok(Ok(Lsn::ZERO));
        }
        let (inner, id) = (&self.inner, sequence.id);
        let txn = inner.next_txn.fetch_add(1, Ordering::Relaxed);
        let item = record::sequence_item(id, state);
        let length = (item.len() as u32).to_le_bytes();
        at_commit_point(inner, || {
            let _lock = inner.commit.lock();
            inner.check_writable()?;
            let mut db = (*inner.versions.newest()).clone();
            let current = db.counters.get(&id).ok_or_else(|| crate::db_version::dropped_sequence(id))?;
            if !Arc::ptr_eq(current, counter) {
                let text = format!("sequence number {id} was altered by another transaction");
                return Err(Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again"));
            }
            db.wall_ns = commit_time(inner.env.now_ns(), db.wall_ns);
            let header = record::commit_header(txn, db.wall_ns);
            let lsn = match inner.wal.append(&[&[&header, &length, &item]], Space::Ordinary)? {
                Appended::At(lsn) => lsn,
                Appended::Busy(event) => return Ok(Err(event)),
            };
            db.lsn = lsn;
            inner.versions.push(db);
            let bytes = header.len() + length.len() + item.len();
            inner.counters.log_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            inner.counters.commits.fetch_add(1, Ordering::Relaxed);
            Ok(Ok(lsn))
        })
    }
}

/// Facts of a replayed commit that the engine needs after recovery.
pub(crate) struct Replayed {
    pub(crate) dropped: Vec<Arc<TableState>>,
    /// Above every table, index and sequence number of the commit.
    pub(crate) next_number: u32,
}

impl Replay {
    fn commit(&mut self, db: &mut DbVersion, lsn: Lsn, items: Vec<record::Item<'_>>) -> Result<Replayed> {
        let committed = db.wall_ns;
        let mut replayed = Replayed { dropped: Vec::new(), next_number: 0 };
        let mut ids: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for item in &items {
            match item {
                record::Item::Ddl(ddl) => {
                    replayed.next_number = replayed.next_number.max(ddl.next_number());
                    replayed.dropped.extend(db.apply(ddl)?);
                    db.catalog_lsn = lsn;
                    if let Ddl::Drop(ObjectKey::Table(id)) = ddl {
                        self.pending.remove(id);
                    }
                }
                record::Item::Series { batch, first, ids: numbers, .. } => {
                    let all = ids.entry(*batch).or_default();
                    if all.len() != *first as usize {
                        return Err(Error::corrupt(format!(
                            "series of batch {batch} start at {first}, not {}",
                            all.len()
                        )));
                    }
                    all.extend(numbers);
                }
                record::Item::SequenceValue { id, state } => {
                    // A sequence dropped since needs no state.
                    if db.counters.contains_key(id) {
                        db.counters.insert(*id, Arc::new(Counter::new(*state)));
                    }
                }
                record::Item::Rows { .. }
                | record::Item::Delete { .. }
                | record::Item::DeleteSpans { .. }
                | record::Item::RowChanges(_) => {}
            }
        }
        replay_series(db, &items)?;
        for (table, mut deletes) in replayed_deletes(db, &items)? {
            deletes.set_commit(lsn, committed);
            self.push_pending(table, Entry::Delete(Arc::new(deletes)));
        }
        for item in items {
            match item {
                record::Item::Rows { table, batch, rows } => {
                    db.state(table)?;
                    let rows = replay_rows(rows, ids.get(&batch).map_or(&[], Vec::as_slice))?;
                    self.push_pending(table, Entry::Rows { lsns: (lsn, lsn), committed, rows: Arc::new(rows) });
                }
                record::Item::RowChanges(changes) => replay_row_changes(db, lsn, changes)?,
                _ => {}
            }
        }
        Ok(replayed)
    }
}

fn replay_series(db: &mut DbVersion, items: &[record::Item<'_>]) -> Result<()> {
    for item in items {
        let record::Item::Series { table, new_keys, .. } = item else { continue };
        if new_keys.is_empty() {
            continue;
        }
        let mut state = (**db.state(*table)?).clone();
        for (number, key) in new_keys {
            state.series.insert(model::SeriesId(*number), key)?;
            state.series_count = state.series_count.max(number + 1);
        }
        db.tables.insert(*table, Arc::new(state));
    }
    Ok(())
}

/// The deletes of a commit: of each table one entry of ranges, and one of single rows.
fn replayed_deletes(db: &DbVersion, items: &[record::Item<'_>]) -> Result<Vec<(TableId, Deletes)>> {
    let mut ranges: BTreeMap<TableId, Vec<Tombstone>> = BTreeMap::new();
    let mut spans: BTreeMap<TableId, Vec<(u32, TimeRange)>> = BTreeMap::new();
    for item in items {
        match item {
            record::Item::Delete { table, series, times } => {
                db.state(*table)?;
                let series = series.as_ref().map(|series| series.as_slice().into());
                let tombstone = Tombstone { lsn: Lsn::ZERO, committed: 0, series, times: *times };
                ranges.entry(*table).or_default().push(tombstone);
            }
            record::Item::DeleteSpans { table, spans: bytes } => {
                db.state(*table)?;
                let of_table = spans.entry(*table).or_default();
                for span in record::DeletedSpans::new(bytes) {
                    of_table.push(span?);
                }
            }
            _ => {}
        }
    }
    let ranges = ranges.into_iter().map(|(table, tombstones)| Ok((table, Deletes::of(tombstones, true))));
    let spans = spans.into_iter().map(|(table, spans)| {
        let deletes = Deletes::of_spans(spans);
        let deletes =
            deletes.ok_or_else(|| Error::corrupt(format!("deleted spans of table {table} are out of order")))?;
        Ok((table, deletes))
    });
    ranges.chain(spans).collect()
}

/// The newest LSN wins, so replaying rows that a checkpoint file already has is harmless.
fn replay_row_changes(db: &DbVersion, lsn: Lsn, changes: &[u8]) -> Result<()> {
    let guard = &crossbeam_epoch::pin();
    let mut last: Option<&Arc<RowTable>> = None;
    for change in RowChanges::new(changes) {
        let (id, record, row) = change?;
        let table = match last.filter(|table| table.id() == id) {
            Some(table) => table,
            None => {
                db.row_table(id).map_err(|_| Error::corrupt(format!("rows for table {id}, which does not exist")))?
            }
        };
        last = Some(table);
        table.records.restoring().put(record, lsn, row.map(Box::from), guard)?;
        table.records.touch(record, lsn);
    }
    Ok(())
}

fn replay_rows(bytes: &[u8], ids: &[u32]) -> Result<Rows> {
    let rows = Rows::decode(bytes)?;
    let series = rows
        .series
        .iter()
        .map(|local| ids.get(*local as usize).copied())
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::corrupt("rows use a series number that their commit does not define"))?;
    Ok(rows.with_series(series))
}

#[cfg(test)]
mod tests {
    use columns::{Op, Ops};
    use model::{DataType, TableName, TableOptions};

    use super::*;
    use crate::{ColumnSpec, TableSpec};

    #[test]
    fn commit_times_are_whole_microseconds_and_increase() {
        let cases = [
            (5_000, 0, 5_000),
            (5_001, 0, 6_000),
            (5_000, 5_000, 6_000),
            (4_000, 9_999, 10_000),
            (-1, i64::MIN, 0),
            (i64::MAX, 0, i64::MAX / 1_000 * 1_000),
        ];
        for (now, last, expected) in cases {
            assert_eq!(commit_time(now, last), expected, "{now} after {last}");
        }
    }

    /// The bug: replay appended one entry a commit to the table's list, which each commit copies,
    /// and never merged any; opening took time quadratic in the number of commits, minutes for 8 MB
    /// of log. The fix: replay merges entries as commits do.
    #[test]
    fn replaying_many_small_commits_leaves_few_memtable_entries() {
        let column = |name: &str, ty, role| ColumnSpec { name: name.into(), ty, nullable: false, role };
        let columns = vec![
            column("time", DataType::Timestamp, model::ColumnRole::Time),
            column("v", DataType::Int64, model::ColumnRole::Field),
        ];
        let spec = TableSpec { name: TableName::public("t"), keyed: true, columns, options: TableOptions::default() };
        let table = Arc::new(spec.build(TableId(1)).unwrap());
        let (mut db, mut replay) = (DbVersion::default(), Replay::new());
        for at in 1..=5_000u64 {
            let mut items = vec![record::series_item(TableId(1), 0, 0, &[0], &[(0, b"")])];
            if at == 1 {
                items.insert(
                    0,
                    record::ddl_item(&Ddl::Create(CatalogObject::Table(Arc::clone(&table)), NewState::Kept)),
                );
            }
            let values: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![at.cast_signed()]));
            let rows =
                Rows::new(vec![0], vec![at.cast_signed()], Ops::All(Op::Replace), vec![(model::ColumnId(1), values)]);
            let mut item = record::begin_rows_item(TableId(1), 0);
            rows.encode(0..1, &mut item);
            items.push(item);
            let mut payload = Vec::new();
            record::encode_commit_record(at, 0, &items, &mut payload);
            replay.record(Lsn(at), &payload, Lsn::ZERO, &mut db).unwrap();
        }
        replay.install(&mut db);
        let state = db.state(TableId(1)).unwrap();
        let rows: usize = state
            .entries
            .iter()
            .map(|entry| match entry {
                Entry::Rows { rows, .. } => rows.len(),
                Entry::Delete(_) => 0,
            })
            .sum();
        assert_eq!(rows, 5_000);
        assert!(state.entries.len() < 100, "{} entries", state.entries.len());
        assert_eq!(replay.next_txn, 5_001);
    }

    /// The records of an item.
    fn parts(txn: u64, item: &[u8]) -> Vec<Vec<u8>> {
        let records = record::item_records(txn, item);
        records.map(|(header, bytes)| [header.bytes(), bytes].concat()).collect()
    }

    fn commit_record(txn: u64) -> Vec<u8> {
        let mut payload = Vec::new();
        record::encode_commit_record(txn, 0, &[], &mut payload);
        payload
    }

    /// The creation of a table, larger than a record because of a default.
    fn large_table(id: u32) -> Vec<u8> {
        let default = Some("1 + ".repeat(record::ITEM_BYTES_MAX / 4 + 1));
        let schema = model::RowSchema {
            lineage: model::Lineage::default(),
            id: TableId(id),
            name: TableName::public(format!("t{id}")),
            version: 1,
            columns: vec![model::RowColumn { default, ..model::RowColumn::new("a", model::Type::Int4) }],
            primary: None,
            secondary: vec![],
            checks: vec![],
            foreign_keys: vec![],
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
        };
        record::ddl_item(&Ddl::Create(CatalogObject::RowTable(Arc::new(schema)), NewState::Kept))
    }

    fn replay(records: &[Vec<u8>], flushed: Lsn) -> Result<DbVersion> {
        let (mut db, mut replay) = (DbVersion::default(), Replay::new());
        for (at, payload) in (1..).zip(records) {
            replay.record(Lsn(at), payload, flushed, &mut db)?;
        }
        replay.install(&mut db);
        Ok(db)
    }

    #[test]
    fn parts_of_transactions_may_alternate_and_those_without_a_commit_are_ignored() {
        let (a_parts, b_parts, c_parts) =
            (parts(11, &large_table(1)), parts(12, &large_table(2)), parts(13, &large_table(3)));
        assert_eq!((a_parts.len(), b_parts.len()), (3, 3));
        let mut records = Vec::new();
        for at in 0..3 {
            records.extend([a_parts[at].clone(), b_parts[at].clone(), c_parts[at].clone()]);
        }
        records.extend([commit_record(12), commit_record(11)]);
        let db = replay(&records, Lsn::ZERO).unwrap();
        assert_eq!([1, 2, 3].map(|id| db.row_table(TableId(id)).is_ok()), [true, true, false]);
    }

    #[test]
    fn an_item_without_its_last_part_is_corruption_unless_the_commit_is_in_the_files() {
        let whole = parts(11, &large_table(1));
        let small = record::ddl_item(&Ddl::Create(CatalogObject::Schema("s".into()), NewState::Kept));
        let cut = [whole[0].clone(), commit_record(11)];
        let mixed = [whole[0].clone(), parts(11, &small)[0].clone(), commit_record(11)];
        for (records, text) in [(&cut[..], "lacks its last part"), (&mixed[..], "between the parts")] {
            let error = replay(records, Lsn::ZERO).map(|_| ()).unwrap_err();
            assert_eq!(error.state(), SqlState::DATA_CORRUPTED);
            assert!(error.to_string().contains(text), "{error}");
        }
        // Replay may start after the first part of a transaction that was flushed.
        for first in 0..whole.len() {
            let records: Vec<_> = whole[first..].iter().cloned().chain([commit_record(11)]).collect();
            let db = replay(&records, Lsn(records.len() as u64)).unwrap();
            assert!(db.row_table(TableId(1)).is_err());
        }
    }
}
