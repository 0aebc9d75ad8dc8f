//! Transactions before their commit: their snapshots and the changes they collect. Nothing here
//! writes to the log.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use arrow_array::UInt32Array;
use columns::{OwnDelete, OwnEntry, OwnRowDeletes, OwnWrites, TableState, TableView};
use env::Event;
use model::{
    Datum, Error, Lsn, Result, RoutineRef, RowSchema, SequenceRef, SqlState, Table, TableId, TableName, TableOptions,
    TableRef, TimeRange, TypeSpecRef, ViewRef, limits, user_types,
};
use rows::{Access, Entered, RowTable};

use crate::catalog::{check_row_schema, check_table, check_view, with_columns, with_options};
use crate::catalog_object::{CatalogObject, CommentKey, NewState, ObjectKey};
use crate::commit::{Changes, Committing, OwnVersions, constrained_meanwhile};
use crate::db_version::{DbVersion, DbVersions, apply_ddl, dropped, dropped_sequence};
use crate::memory::{Reservation, Work};
use crate::record::Ddl;
use crate::routine::check_routine;
use crate::sequence::{Counter, NextValue, SequenceAccess, SequenceOps, SequenceState, SessionSequences};
use crate::{Batch, Catalog, ColumnSpec, Engine, Rows, TableSpec};

/// The point at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Acknowledged once it is durable.
    #[default]
    Sync,
    /// Acknowledged immediately. The log worker is never idle while records are pending, so the
    /// commit is durable after at most two log flushes.
    Async,
}

/// The snapshots of a transaction's statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement takes a new snapshot.
    #[default]
    ReadCommitted,
    /// All statements use the snapshot of the first.
    RepeatableRead,
    /// Like repeatable read, from the newest commit; and a commit is refused (40001) if the
    /// transaction's reads of `rows` tables are no longer valid. Such transactions are equivalent
    /// to a serial execution in the order of their commits.
    Serializable,
}

/// The database as one reader sees it. A snapshot keeps the memory and files of its version.
#[derive(Clone)]
pub struct Snapshot {
    db: Arc<DbVersion>,
    catalog: Arc<Catalog>,
    own: Own<OwnWrites>,
    own_rows: Own<Option<Arc<RowTable>>>,
}

/// A transaction's own objects by table; most transactions have none.
type Own<T> = Option<Arc<BTreeMap<TableId, T>>>;

impl Snapshot {
    pub(crate) fn new(db: Arc<DbVersion>) -> Snapshot {
        let catalog = Arc::clone(&db.catalog);
        Snapshot { db, catalog, own: None, own_rows: None }
    }

    /// LSN of the last commit that the snapshot shows.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.db.lsn
    }

    /// Wall time of the last commit that the snapshot shows, nanoseconds since 1970 UTC: whole
    /// microseconds, later for each commit.
    #[must_use]
    pub fn committed(&self) -> i64 {
        self.db.wall_ns
    }

    /// Schemas and tables, own uncommitted DDL included.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// A view of a `columns` table, own uncommitted writes included.
    ///
    /// # Errors
    /// 42P01 if the table does not exist in this snapshot.
    pub fn table(&self, name: &TableName) -> Result<TableView> {
        let table = self.catalog.expect(name)?;
        self.view(table)
    }

    /// Like [`Snapshot::table`], by number.
    ///
    /// # Errors
    /// 42P01 if the table does not exist in this snapshot.
    pub fn table_by_id(&self, id: TableId) -> Result<TableView> {
        let table = self.catalog.table_by_id(id).ok_or_else(|| dropped(id))?;
        self.view(table)
    }

    /// A view of a `columns` table as of wall time `time`, see [`TableView::as_of`].
    ///
    /// # Errors
    /// 42P01 if the table does not exist in this snapshot; 55000 if it keeps no history; 22023 if
    /// its history begins later.
    pub fn table_as_of(&self, id: TableId, time: i64) -> Result<TableView> {
        self.table_by_id(id)?.as_of(time)
    }

    /// A `rows` table, own uncommitted DDL included. Its rows are read through [`Txn::rows`], which
    /// uses this snapshot unless the transaction has taken another since.
    ///
    /// # Errors
    /// 42P01 if the table does not exist in this snapshot.
    pub fn row_table(&self, name: &TableName) -> Result<&Arc<RowTable>> {
        let table = self
            .catalog
            .row_table(name)
            .ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, format!("relation {name} does not exist")))?;
        self.row_table_by_id(table.id)
    }

    /// Like [`Snapshot::row_table`], by number.
    ///
    /// # Errors
    /// 42P01 if the table does not exist in this snapshot.
    pub fn row_table_by_id(&self, id: TableId) -> Result<&Arc<RowTable>> {
        match self.own_rows.as_ref().and_then(|own| own.get(&id)) {
            Some(own) => own.as_ref().ok_or_else(|| dropped(id)),
            None => self.db.row_table(id),
        }
    }

    fn view(&self, table: &TableRef) -> Result<TableView> {
        let state = match self.db.tables.get(&table.id) {
            Some(state) if state.table.version == table.version => Arc::clone(state),
            Some(state) => Arc::new(state.with_table(Arc::clone(table))),
            // Created by this transaction, or dropped by another since this one changed the
            // catalog. In the second case the table reads as empty and the commit is refused.
            None => Arc::new(TableState::empty(Arc::clone(table))),
        };
        Ok(match self.own.as_ref().and_then(|own| own.get(&table.id)) {
            Some(own) => TableView::with_own_writes(state, own),
            None => TableView::new(state),
        })
    }
}

/// With more bytes of uncommitted rows, a transaction takes milliseconds to commit.
const LARGE_BYTES: usize = 1 << 20;
/// With more changes of `rows` tables, a transaction takes milliseconds to commit or roll back.
const LARGE_CHANGES: usize = 1_000;

/// Changes that become one commit. Dropping it rolls back; nothing was logged.
pub struct Txn {
    engine: Engine,
    isolation: Isolation,
    seen: Lsn,
    /// The snapshot of the first statement, kept from REPEATABLE READ on.
    base: Option<Arc<DbVersion>>,
    /// The catalog on which own DDL was last applied, and the result; `None` without own DDL.
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    pub(crate) ddl: Vec<Ddl>,
    own: Own<OwnWrites>,
    /// Bytes of `own`.
    own_bytes: u64,
    /// Writes that are no longer in `own`, and their bytes: savepoints and snapshots may hold them.
    replaced: Vec<Replaced>,
    /// Memory of uncommitted writes of `columns` tables: `own_bytes`, and those of `replaced` that
    /// are held.
    memory: Reservation,
    /// Started by the first statement that touches `rows` tables.
    rows: Option<rows::Txn>,
    /// Own versions of `rows` tables; `None` for dropped ones.
    own_rows: Own<Option<Arc<RowTable>>>,
    /// Sequences created or restarted by this transaction.
    counters: BTreeMap<u32, Arc<Counter>>,
    /// See [`Txn::note_validated`].
    validated: BTreeMap<TableId, Lsn>,
    /// The version that the present statement reads `rows` tables from. It keeps the row versions
    /// that the statement may need.
    reading: Option<Arc<DbVersion>>,
}

/// A position in a transaction to roll back to; the default is the start of the transaction.
#[derive(Clone, Default)]
pub struct Savepoint {
    ddl: usize,
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    own: Own<OwnWrites>,
    own_bytes: u64,
    replaced: Vec<Replaced>,
    rows: rows::Savepoint,
    constraint_modes: rows::ConstraintModes,
    own_rows: Own<Option<Arc<RowTable>>>,
    counters: BTreeMap<u32, Arc<Counter>>,
    validated: BTreeMap<TableId, Lsn>,
}

/// Whether a table that is altered keeps its rows.
#[derive(Clone, Copy, Debug)]
pub enum RowData {
    /// The rows are kept. Added columns have the value of [`model::RowColumn::missing`] in them.
    Keep,
    /// The rows are removed: TRUNCATE, or a table that is about to be rewritten.
    Discard,
}

/// Memory that a transaction's rows may take: values are counted before they are computed.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    held: u64,
    limit: u64,
}

impl Room {
    /// Counts more bytes.
    ///
    /// # Errors
    /// 53200 if they exceed the transaction's share of memory.
    pub fn take(&mut self, bytes: u64) -> Result<()> {
        let (held, limit) = (self.held, self.limit);
        self.held += bytes;
        if self.held <= limit {
            return Ok(());
        }
        let text = format!(
            "the transaction holds {held} bytes of uncommitted rows and {bytes} more would exceed its limit of {limit}, a \
             quarter of the memory budget"
        );
        Err(Error::new(SqlState::OUT_OF_MEMORY, text)
            .with_hint("commit in smaller parts, or start the server with a larger --memory"))
    }
}

/// Result of a change of a `rows` table.
#[derive(Debug)]
pub enum Altered<T> {
    /// Done.
    Done(T),
    /// Other transactions use the table: nothing was changed; call again after the event.
    Wait(Event),
}

impl Txn {
    pub(crate) fn new(engine: Engine, isolation: Isolation, seen: Lsn) -> Txn {
        Txn {
            memory: engine.memory().reservation(Work::Transactions),
            engine,
            isolation,
            seen,
            base: None,
            catalog: None,
            ddl: Vec::new(),
            own: None,
            own_bytes: 0,
            replaced: Vec::new(),
            rows: None,
            own_rows: None,
            counters: BTreeMap::new(),
            validated: BTreeMap::new(),
            reading: None,
        }
    }

    /// The snapshot of the next statement if it reads `columns` tables only: durable commits, and
    /// this session's own. Under SERIALIZABLE it is that of [`Txn::snapshot_newest`].
    pub fn snapshot(&mut self) -> Snapshot {
        let db = self.db();
        self.snapshot_of(db)
    }

    fn snapshot_of(&mut self, db: Arc<DbVersion>) -> Snapshot {
        let catalog = self.catalog_over(&db);
        Snapshot { db, catalog, own: self.own.clone(), own_rows: self.own_rows.clone() }
    }

    /// The snapshot of the next statement if it reads `rows` tables: the newest commit, durable or
    /// not; from REPEATABLE READ on the snapshot of the first statement. [`Txn::rows`] reads from
    /// it too, until the next snapshot or [`Txn::end_statement`].
    ///
    /// Before it answers a session at `sync`, the caller must wait, by [`Engine::when_durable`],
    /// for `rows().newest_seen()`, and for the LSN of this snapshot if the statement read `columns`
    /// tables too.
    pub fn snapshot_newest(&mut self) -> Snapshot {
        let db = self.root_or(DbVersions::newest);
        let (store, isolation) = (&self.engine.inner.store, self.isolation);
        let rows = self.rows.get_or_insert_with(|| store.begin(isolation.of_rows()));
        rows.set_snapshot(db.lsn);
        rows.note_commit_seen(db.catalog_lsn);
        self.reading = Some(Arc::clone(&db));
        self.snapshot_of(db)
    }

    /// The part of the transaction that reads, locks and changes rows of `rows` tables.
    pub fn rows(&mut self) -> &mut rows::Txn {
        if self.reading.is_none() {
            self.snapshot_newest();
        }
        let (store, isolation) = (&self.engine.inner.store, self.isolation);
        self.rows.get_or_insert_with(|| store.begin(isolation.of_rows()))
    }

    /// Ends a statement: row versions that only it needed may be collected. Call it before a
    /// session waits for its client.
    pub fn end_statement(&mut self) {
        self.reading = None;
    }

    /// The present position.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            ddl: self.ddl.len(),
            catalog: self.catalog.clone(),
            own: self.own.clone(),
            own_bytes: self.own_bytes,
            replaced: self.replaced.iter().filter(|one| one.is_held()).cloned().collect(),
            rows: self.rows.as_ref().map_or(rows::Savepoint::START, rows::Txn::savepoint),
            constraint_modes: self.rows.as_ref().map(rows::Txn::constraint_modes).unwrap_or_default(),
            own_rows: self.own_rows.clone(),
            counters: self.counters.clone(),
            validated: self.validated.clone(),
        }
    }

    /// Undoes all changes since the savepoint, releases the row locks taken since, and restores the modes of
    /// constraints. The savepoint remains valid.
    ///
    /// # Errors
    /// XX000 only.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.roll_back_to(savepoint.rows, &crossbeam_epoch::pin())?;
            rows.restore_constraint_modes(savepoint.constraint_modes.clone());
        }
        self.restore(savepoint);
        Ok(())
    }

    /// Undoes all changes since the savepoint but keeps locks and the place in lock queues, so that
    /// the statement can be run again.
    ///
    /// # Errors
    /// XX000 only.
    pub fn undo_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.undo_all_to(savepoint.rows, &crossbeam_epoch::pin())?;
        }
        self.restore(savepoint);
        Ok(())
    }

    fn restore(&mut self, savepoint: &Savepoint) {
        let Savepoint { ddl, catalog, own, own_bytes, replaced, own_rows, counters, validated, .. } = savepoint.clone();
        self.validated = validated;
        assert!(ddl <= self.ddl.len(), "BUG: rolled back to a savepoint after {ddl} changes, of {}", self.ddl.len());
        self.ddl.truncate(ddl);
        (self.catalog, self.own, self.own_bytes, self.replaced) = (catalog, own, own_bytes, replaced);
        let bytes = self.own_bytes + self.replaced_bytes();
        self.memory.count(bytes);
        (self.own_rows, self.counters) = (own_rows, counters);
    }

    /// Returns the catalog of `db` with own DDL applied. If the DDL no longer applies (another
    /// transaction took the name, or altered or dropped the table), the catalog is kept as last
    /// seen; the commit will be refused.
    fn catalog_over(&mut self, db: &DbVersion) -> Arc<Catalog> {
        let Some((base, last)) = &self.catalog else { return Arc::clone(&db.catalog) };
        // Commits of rows leave the catalog unchanged, and may occur between any two changes of
        // this transaction.
        if Arc::ptr_eq(base, &db.catalog) {
            return Arc::clone(last);
        }
        let over = self.ddl.iter().try_fold((*db.catalog).clone(), |catalog, ddl| apply_ddl(&catalog, ddl));
        let catalog = over.map_or_else(|_| Arc::clone(last), Arc::new);
        self.catalog = Some((Arc::clone(&db.catalog), Arc::clone(&catalog)));
        catalog
    }

    fn db(&mut self) -> Arc<DbVersion> {
        let seen = self.seen;
        self.root_or(|versions| versions.visible(seen))
    }

    /// Returns the version that all statements of the transaction read, or a new one.
    fn root_or(&mut self, fresh: impl FnOnce(&DbVersions) -> Arc<DbVersion>) -> Arc<DbVersion> {
        let inner = &self.engine.inner;
        if self.isolation == Isolation::ReadCommitted {
            return fresh(&inner.versions);
        }
        if let Some(base) = &self.base {
            return Arc::clone(base);
        }
        let db = if self.isolation == Isolation::Serializable {
            // Under the commit lock: each commit is either in this version or knows that this
            // transaction's reads will be validated.
            let _lock = inner.commit.lock();
            let db = inner.versions.newest();
            self.rows.insert(inner.store.begin(self.isolation.of_rows())).set_snapshot(db.lsn);
            db
        } else {
            fresh(&inner.versions)
        };
        self.base = Some(Arc::clone(&db));
        db
    }

    /// Whether the transaction has no changes yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ddl.is_empty()
            && self.own.as_ref().is_none_or(|own| own.is_empty())
            && self.rows.as_ref().is_none_or(rows::Txn::is_empty)
    }

    /// Whether committing or rolling back takes milliseconds.
    #[must_use]
    pub fn is_large(&self) -> bool {
        let is_large = |rows: &rows::Txn| rows.changes_len() > LARGE_CHANGES || rows.changed_bytes() > LARGE_BYTES;
        self.memory_bytes() > LARGE_BYTES || self.rows.as_ref().is_some_and(is_large)
    }

    /// Bytes of uncommitted rows of `columns` tables.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// The isolation level with which the transaction was started.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Creates a schema.
    ///
    /// # Errors
    /// 42P06 if the name exists (checked again at commit).
    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        self.change(Ddl::Create(CatalogObject::Schema(name.to_owned()), NewState::Kept))
    }

    /// Drops an empty schema.
    ///
    /// # Errors
    /// 3F000 if the schema does not exist, 55000 if it contains tables.
    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        self.change(Ddl::Drop(ObjectKey::Schema(name.to_owned())))
    }

    /// Creates a `columns` table; visible to this transaction immediately.
    ///
    /// # Errors
    /// Those of [`TableSpec::build`]; 42P07 if the name exists (checked again at commit); 0A000 for a temporary table.
    pub fn create_table(&mut self, spec: &TableSpec) -> Result<TableRef> {
        if spec.name.is_temporary() {
            return Err(Error::unsupported("temporary columns tables are not supported: they are written to files")
                .with_hint("a temporary table is one of rows, in memory: leave out the store"));
        }
        let id = TableId(self.engine.inner.next_table.fetch_add(1, Ordering::Relaxed));
        let table = Arc::new(spec.build(id)?);
        self.change(Ddl::Create(CatalogObject::Table(Arc::clone(&table)), NewState::Kept))?;
        Ok(table)
    }

    /// Drops a `columns` table and the transaction's uncommitted rows of it.
    ///
    /// # Errors
    /// 42P01 if the table does not exist.
    pub fn drop_table(&mut self, name: &TableName) -> Result<()> {
        let id = self.snapshot().catalog.expect(name)?.id;
        self.change(Ddl::Drop(ObjectKey::Table(id)))?;
        Arc::make_mut(self.own.get_or_insert_default()).remove(&id);
        Ok(())
    }

    /// Adds columns, which are NULL in existing rows.
    ///
    /// # Errors
    /// 42P01, 42701, 42P16, 54011; at commit 40001 if the table changed since.
    pub fn add_columns(&mut self, name: &TableName, columns: &[ColumnSpec]) -> Result<TableRef> {
        let snapshot = self.snapshot();
        let next = with_columns(snapshot.catalog.expect(name)?, columns)?;
        self.alter_to(next)
    }

    /// Sets the options of a `columns` table: `ALTER TABLE … SET (…)`, even if they are unchanged.
    ///
    /// # Errors
    /// 42P01; 22023 for an invalid option; at commit 40001 if the table changed since.
    pub fn set_options(&mut self, name: &TableName, options: TableOptions) -> Result<TableRef> {
        let snapshot = self.snapshot();
        let next = with_options(snapshot.catalog.expect(name)?, options)?;
        self.alter_to(next)
    }

    /// Installs the next version of a `columns` table: another name, other names of columns, other
    /// fields, defaults or constraints. Values of removed fields are removed by compaction, and added
    /// fields are NULL. The caller validates constraints that are added.
    ///
    /// # Errors
    /// 42602, 42701, 42P16 for an invalid definition; 42P07 if a relation has the new name; 3F000;
    /// at commit 40001 if the table changed since.
    pub fn alter_table(&mut self, next: Table) -> Result<TableRef> {
        check_table(&next)?;
        self.alter_to(next)
    }

    fn alter_to(&mut self, next: Table) -> Result<TableRef> {
        let before = self.table_now(next.id).ok_or_else(|| dropped(next.id))?;
        self.check_own(&before)?;
        let table = Arc::new(next);
        self.change(Ddl::Alter(CatalogObject::Table(Arc::clone(&table)), NewState::Kept))?;
        // The caller validates the constraints that it adds, also for the transaction's rows.
        if let Some(own) = self.own.as_mut().filter(|own| own.contains_key(&table.id))
            && let Some(own) = Arc::make_mut(own).get_mut(&table.id)
            && own.checked.is_some()
        {
            own.checked = Some(Arc::clone(&table));
        }
        Ok(table)
    }

    /// Returns a number for a new table, index or sequence; numbers are never reused in this
    /// database.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.engine.inner.next_table.fetch_add(1, Ordering::Relaxed)
    }

    /// Creates a `rows` table; visible to this transaction immediately. Take its number and those
    /// of its indexes from [`Txn::next_number`]; its version is 1.
    ///
    /// # Errors
    /// 42602, 42701, 42P16, 54000, 54011 for an invalid schema; 42P07 if a name exists (checked
    /// again at commit).
    pub fn create_row_table(&mut self, schema: RowSchema) -> Result<Arc<RowTable>> {
        check_row_schema(&schema)?;
        let table = Arc::new(RowTable::new(Arc::new(schema))?);
        let snapshot = self.snapshot_newest();
        let object = CatalogObject::RowTable(Arc::clone(&table.schema));
        self.change_over(&snapshot, Ddl::Create(object, NewState::Kept))?;
        self.set_row_table(table.id(), Some(Arc::clone(&table)));
        Ok(table)
    }

    /// Installs the next version of a `rows` table: any change of its schema, keeping or discarding
    /// its rows. Indexes with a new number or name, or over changed columns, are built again from
    /// the existing rows; the others are kept. Visible to this transaction immediately. `show`
    /// formats a value for the error about a duplicate key.
    ///
    /// The transaction takes an exclusive lock on the table, and waits for all transactions that
    /// wrote to it; readers continue.
    ///
    /// # Errors
    /// Those of [`Txn::create_row_table`]; 42P01; 40001 if `next` is not the version after the
    /// newest one; 40P01; 23505 from a new unique index.
    pub fn alter_row_table(
        &mut self,
        next: RowSchema,
        data: RowData,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Altered<Arc<RowTable>>> {
        check_row_schema(&next)?;
        let (snapshot, current) = match self.lock_exclusively(next.id)? {
            Altered::Done(current) => current,
            Altered::Wait(event) => return Ok(Altered::Wait(event)),
        };
        if current.schema.version.checked_add(1) != Some(next.version) {
            return Err(altered(&current));
        }
        let next = Arc::new(next);
        let table = Arc::new(match data {
            RowData::Keep => current.altered(next, self.rows(), show)?,
            RowData::Discard => current.emptied(next)?,
        });
        let state = if matches!(data, RowData::Discard) { NewState::Emptied } else { NewState::Kept };
        self.change_over(&snapshot, Ddl::Alter(CatalogObject::RowTable(Arc::clone(&table.schema)), state))?;
        self.set_row_table(table.id(), Some(Arc::clone(&table)));
        Ok(Altered::Done(table))
    }

    /// Drops a `rows` table with its indexes and rows.
    ///
    /// # Errors
    /// 42P01, 40P01; 40001 from REPEATABLE READ on if the table was altered since the snapshot.
    pub fn drop_row_table(&mut self, id: TableId) -> Result<Altered<()>> {
        let snapshot = match self.lock_exclusively(id)? {
            Altered::Done((snapshot, _)) => snapshot,
            Altered::Wait(event) => return Ok(Altered::Wait(event)),
        };
        self.change_over(&snapshot, Ddl::Drop(ObjectKey::RowTable(id)))?;
        self.set_row_table(id, None);
        Ok(Altered::Done(()))
    }

    /// Locks a `rows` table against writers until the end of the transaction, and returns its newest version.
    ///
    /// # Errors
    /// 42P01; 40P01; 40001 from REPEATABLE READ on if the table was altered since the snapshot.
    pub fn lock_row_table(&mut self, id: TableId) -> Result<Altered<Arc<RowTable>>> {
        Ok(match self.lock_exclusively(id)? {
            Altered::Done((_, table)) => Altered::Done(table),
            Altered::Wait(event) => Altered::Wait(event),
        })
    }

    /// Locks a `rows` table exclusively and returns its newest version.
    fn lock_exclusively(&mut self, id: TableId) -> Result<Altered<(Snapshot, Arc<RowTable>)>> {
        // A new version may be committed while this waits for the lock, but not after.
        for _ in 0..2 {
            let snapshot = self.snapshot_newest();
            let current = Arc::clone(snapshot.row_table_by_id(id)?);
            match self.rows().enter(&current, Access::Alone)? {
                Entered::In => return Ok(Altered::Done((snapshot, current))),
                Entered::Wait(event) => return Ok(Altered::Wait(event)),
                Entered::Changed if self.isolation != Isolation::ReadCommitted => return Err(altered(&current)),
                Entered::Changed => {}
            }
        }
        Err(dropped(id))
    }

    fn set_row_table(&mut self, id: TableId, version: Option<Arc<RowTable>>) {
        self.rows().set_version(id, version.clone());
        Arc::make_mut(self.own_rows.get_or_insert_default()).insert(id, version);
    }

    /// Creates a sequence; usable by this transaction immediately. Take its number from
    /// [`Txn::next_number`].
    ///
    /// # Errors
    /// 22023 for an invalid definition; 42P07, 3F000 (checked again at commit).
    pub fn create_sequence(&mut self, sequence: SequenceRef) -> Result<()> {
        sequence.check()?;
        crate::catalog::check_name("sequence", &sequence.name.table)?;
        let snapshot = self.snapshot_newest();
        let state = sequence.initial();
        let object = CatalogObject::Sequence(Arc::clone(&sequence));
        self.change_over(&snapshot, Ddl::Create(object, NewState::Sequence(state)))?;
        self.counters.insert(sequence.id, Arc::new(Counter::new(state)));
        Ok(())
    }

    /// Changes a sequence; with `restart` it continues from that state.
    ///
    /// # Errors
    /// 22023, 42P01, 42P07.
    pub fn alter_sequence(&mut self, sequence: SequenceRef, restart: Option<SequenceState>) -> Result<()> {
        sequence.check()?;
        let snapshot = self.snapshot_newest();
        let object = CatalogObject::Sequence(Arc::clone(&sequence));
        self.change_over(&snapshot, Ddl::Alter(object, restart.map_or(NewState::Kept, NewState::Sequence)))?;
        if let Some(state) = restart {
            self.counters.insert(sequence.id, Arc::new(Counter::new(state)));
        }
        Ok(())
    }

    /// Drops a sequence.
    ///
    /// # Errors
    /// 42P01.
    pub fn drop_sequence(&mut self, id: u32) -> Result<()> {
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Drop(ObjectKey::Sequence(id)))?;
        self.counters.remove(&id);
        Ok(())
    }

    /// Creates a view; usable by this transaction immediately. Take its number from [`Txn::next_number`]; its version
    /// is 1.
    ///
    /// # Errors
    /// 42602, 42701, 54000, 54011 for an invalid definition; 42P07, 3F000, and those of what it reads: 2BP01, 54001
    /// (checked again at commit).
    pub fn create_view(&mut self, view: ViewRef) -> Result<()> {
        check_view(&view)?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Create(CatalogObject::View(view), NewState::Kept))
    }

    /// Replaces a view by its next version.
    ///
    /// # Errors
    /// As [`Txn::create_view`]; 42P01; 42P17 for a view that reads itself; 40001 if the view changed since.
    pub fn alter_view(&mut self, view: ViewRef) -> Result<()> {
        check_view(&view)?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Alter(CatalogObject::View(view), NewState::Kept))
    }

    /// Drops a view.
    ///
    /// # Errors
    /// 42P01; 2BP01 if another view reads it.
    pub fn drop_view(&mut self, id: u32) -> Result<()> {
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Drop(ObjectKey::View(id)))
    }

    /// Sets the comment on an object; `None` removes it.
    ///
    /// # Errors
    /// 54000 for a comment of more than [`limits::DEFINITION_BYTES_MAX`] bytes.
    pub fn set_comment(&mut self, key: CommentKey, text: Option<&str>) -> Result<()> {
        let ddl = match text {
            None => Ddl::Drop(ObjectKey::Comment(key)),
            Some(text) if text.len() > limits::DEFINITION_BYTES_MAX => {
                let limit = limits::DEFINITION_BYTES_MAX;
                let text = format!("comment of {} bytes is too long; the limit is {limit}", text.len());
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
            }
            Some(text) => Ddl::Create(CatalogObject::Comment(key, text.into()), NewState::Kept),
        };
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, ddl)
    }

    /// Creates a type; usable by this transaction immediately. Take its number from [`Txn::next_number`] and its OID
    /// from [`user_types::new_oid`]; its version is 1.
    ///
    /// # Errors
    /// 42602, 42710, 3F000, 54000.
    pub fn create_type(&mut self, spec: TypeSpecRef) -> Result<()> {
        spec.check()?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Create(CatalogObject::Type(Arc::clone(&spec)), NewState::Kept))?;
        // No other transaction knows the OID.
        user_types::register(&spec, false);
        Ok(())
    }

    /// Replaces a type by its next version, which statements use after the commit, or at once if it has a new OID.
    ///
    /// # Errors
    /// As [`Txn::create_type`]; 40001 if the type changed since; 0A000 for a new OID if anything depends on the type.
    pub fn alter_type(&mut self, spec: TypeSpecRef) -> Result<()> {
        spec.check()?;
        let snapshot = self.snapshot_newest();
        let is_new = snapshot.catalog().type_by_oid(spec.oid).is_none();
        self.change_over(&snapshot, Ddl::Alter(CatalogObject::Type(Arc::clone(&spec)), NewState::Kept))?;
        if is_new {
            // No other transaction knows the OID of the type with other attributes.
            user_types::register(&spec, false);
        }
        Ok(())
    }

    /// Drops a type.
    ///
    /// # Errors
    /// 2BP01 if a column has the type, or a domain constrains it.
    pub fn drop_type(&mut self, id: u32) -> Result<()> {
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Drop(ObjectKey::Type(id)))
    }

    /// Creates a function or procedure; usable by this transaction immediately. Take its number from [`Txn::next_number`].
    ///
    /// # Errors
    /// 42602, 54000, 54023 for an invalid definition; 42723, 3F000 (checked again at commit).
    pub fn create_routine(&mut self, routine: RoutineRef) -> Result<()> {
        check_routine(&routine)?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Create(CatalogObject::Routine(routine), NewState::Kept))
    }

    /// Replaces a routine by its next version.
    ///
    /// # Errors
    /// As [`Txn::create_routine`]; 42P01; 40001 if the routine changed since.
    pub fn alter_routine(&mut self, routine: RoutineRef) -> Result<()> {
        check_routine(&routine)?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Alter(CatalogObject::Routine(routine), NewState::Kept))
    }

    /// Drops a routine.
    ///
    /// # Errors
    /// 42P01.
    pub fn drop_routine(&mut self, id: u32) -> Result<()> {
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::Drop(ObjectKey::Routine(id)))
    }

    /// Returns the next value of a sequence: never returned twice, even after a rollback or a
    /// crash. Do not show it to a client before `rows().newest_seen()` is durable.
    ///
    /// # Errors
    /// 42P01, 2200H at the end of the sequence; those of [`Committing::poll`].
    pub fn next_value(&mut self, id: u32) -> Result<NextValue> {
        // The statement in progress keeps its snapshot.
        let db = match &self.reading {
            Some(db) => Arc::clone(db),
            None => self.snapshot_newest().db,
        };
        let catalog = self.catalog_over(&db);
        let sequence = catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        let next = match self.counters.get(&id) {
            // Only this transaction knows the sequence; its commit logs the state.
            Some(own) => own.next(sequence, |_| Ok(Ok(Lsn::ZERO)))?.map(|(value, lsn)| NextValue::Value { value, lsn }),
            None => Ok(self.engine.next_value_of(sequence)?),
        };
        let next = next.unwrap_or_else(NextValue::Wait);
        if let NextValue::Value { lsn, .. } = next {
            self.rows().note_commit_seen(lsn);
        }
        Ok(next)
    }

    /// Returns the two parts that a statement on `rows` tables needs at the same time. Afterwards
    /// call `note_commit_seen` with [`SequenceAccess::seen`], even if the statement failed.
    ///
    /// - `had`: the session's memory for `currval` and `lastval`.
    pub fn rows_and_sequences<'t>(
        &'t mut self,
        had: &'t mut SessionSequences,
    ) -> (&'t mut rows::Txn, SequenceAccess<'t>) {
        // The statement in progress keeps its snapshot.
        let db = match &self.reading {
            Some(db) => Arc::clone(db),
            None => self.snapshot_newest().db,
        };
        let catalog = self.catalog_over(&db);
        let Txn { engine, rows, counters, isolation, .. } = self;
        let rows = rows.get_or_insert_with(|| engine.inner.store.begin(isolation.of_rows()));
        (rows, SequenceAccess { engine, catalog, own: counters, had: RefCell::new(had), seen: Cell::new(Lsn::ZERO) })
    }

    fn change(&mut self, ddl: Ddl) -> Result<()> {
        let snapshot = self.snapshot();
        self.change_over(&snapshot, ddl)
    }

    fn change_over(&mut self, snapshot: &Snapshot, ddl: Ddl) -> Result<()> {
        let catalog = apply_ddl(&snapshot.catalog, &ddl)?;
        self.catalog = Some((Arc::clone(&snapshot.db.catalog), Arc::new(catalog)));
        self.ddl.push(ddl);
        Ok(())
    }

    /// The schema of a `columns` table as the next statement sees it.
    pub fn table_now(&mut self, table: TableId) -> Option<TableRef> {
        let db = self.db();
        self.catalog_over(&db).table_by_id(table).cloned()
    }

    /// The version of a `columns` table that the snapshot has, without the changes of this transaction; `None`: this
    /// transaction creates it.
    pub fn committed_table(&mut self, table: TableId) -> Option<TableRef> {
        self.db().catalog.table_by_id(table).cloned()
    }

    /// Adds rows to a `columns` table. The batch is validated completely before any row is kept.
    ///
    /// # Errors
    /// 22xxx, 23502, 54000 naming row and column; 53200 when the transaction exceeds its share of
    /// memory.
    pub fn write(&mut self, table: TableId, batch: Batch) -> Result<()> {
        let now = self.table_now(table).ok_or_else(|| dropped(table))?;
        self.write_to(&now, batch)
    }

    /// Like [`Txn::write`], for rows that satisfy the constraints of a version of the table.
    ///
    /// # Errors
    /// As [`Txn::write`]; 40001 if the table has other constraints now.
    pub fn write_checked(&mut self, checked: &TableRef, batch: Batch) -> Result<()> {
        let now = self.table_now(checked.id).ok_or_else(|| dropped(checked.id))?;
        if !checked.implies(&now) {
            return Err(constrained_meanwhile(&now.name));
        }
        self.write_to(&now, batch)
    }

    fn write_to(&mut self, definition: &TableRef, batch: Batch) -> Result<()> {
        let table = definition.id;
        batch.check(definition)?;
        self.check_own(definition)?;
        if batch.rows.is_empty() {
            return Ok(());
        }
        let batch = batch.arranged(|| self.db().tables.get(&table).map(|state| Arc::clone(&state.series)))?;
        self.set_own_bytes(self.own_bytes + batch.memory_bytes() as u64)?;
        let own = Arc::make_mut(self.own.get_or_insert_default()).entry(table).or_default();
        own.entries = own.entries.with([OwnEntry::Rows(Arc::new(batch))]);
        own.checked = Some(Arc::clone(definition));
        Ok(())
    }

    /// Checks that the transaction's rows of a table satisfy the constraints of its present version.
    ///
    /// # Errors
    /// 40001 if another transaction altered the table.
    fn check_own(&self, now: &Table) -> Result<()> {
        let own = self.own.as_ref().and_then(|own| own.get(&now.id));
        match own.and_then(|own| own.checked.as_ref()) {
            Some(checked) if !checked.implies(now) => Err(constrained_meanwhile(&now.name)),
            _ => Ok(()),
        }
    }

    /// Notes that all rows of a table that a snapshot showed satisfy the constraints that this transaction adds, or are written
    /// again by it: the commit is refused (40001) if another transaction writes or deletes rows after it.
    pub fn note_validated(&mut self, table: TableId, read: Lsn) {
        let first = self.validated.entry(table).or_insert(read);
        *first = read.min(*first);
    }

    /// Sets the bytes of `own`, which is about to have the writes that take them.
    ///
    /// # Errors
    /// 53200 when the transaction exceeds its share of memory; nothing was changed.
    fn set_own_bytes(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.own_bytes {
            self.room().take(bytes - self.own_bytes)?;
        }
        let held = self.replaced_bytes();
        self.memory.resize(bytes + held)?;
        self.own_bytes = bytes;
        Ok(())
    }

    /// Memory that is left to the transaction's rows.
    pub fn room(&mut self) -> Room {
        let held = self.own_bytes + self.replaced_bytes();
        Room { held, limit: self.engine.inner.options.memory_bytes / limits::TRANSACTION_MEMORY_SHARE }
    }

    /// Bytes of replaced writes that something holds.
    fn replaced_bytes(&mut self) -> u64 {
        self.replaced.retain(Replaced::is_held);
        self.replaced.iter().map(|one| one.bytes).sum()
    }

    /// Hides rows of `series` (numbers of `view`, sorted; `None` = all) with times in `times`, the
    /// transaction's own rows included.
    ///
    /// # Errors
    /// 42P01 when the table was dropped; 53200 when the transaction exceeds its share of memory.
    pub fn delete(&mut self, view: &TableView, series: Option<&[u32]>, times: TimeRange) -> Result<()> {
        let state = view.state();
        let id = state.table.id;
        if self.snapshot().catalog.table_by_id(id).is_none() {
            return Err(dropped(id));
        }
        if times.is_empty() || series.is_some_and(<[u32]>::is_empty) {
            return Ok(());
        }
        let series_keys = series.map(|numbers| view.keys_of(numbers).map(Arc::new)).transpose()?;
        let is_hit = |batch: &Batch| {
            let hit: Vec<bool> = batch
                .keys
                .iter()
                .map(|key| match (series, view.lookup(key)) {
                    (None, _) => true,
                    (Some(series), Some(number)) => series.binary_search(&number).is_ok(),
                    (Some(_), None) => false,
                })
                .collect();
            move |series: u32, time: i64| hit[series as usize] && times.contains(time)
        };
        let mut next = self.writes_without(id, is_hit)?;
        next.bytes += (DELETE_BYTES + series_keys.as_ref().map_or(0, |keys| keys.memory_bytes())) as u64;
        next.deletes.push(OwnEntry::Delete(Arc::new(OwnDelete { series: series_keys, times })));
        self.set_writes(id, next)
    }

    /// Hides single rows of a `columns` table, the transaction's own rows included. Rows that the
    /// transaction writes later are not hidden.
    ///
    /// # Errors
    /// 42P01 when the table was dropped; 53200 when the transaction exceeds its share of memory. At
    /// commit 40001 if another transaction changed rows of a table without a key since they were
    /// read ([`OwnRowDeletes::read_lsn`]).
    ///
    /// # Cost
    /// 80 bytes for each row until the commit. The log, the memtable and the manifest
    /// keep a delete for each row until compaction has applied it.
    pub fn delete_rows(&mut self, table: TableId, deletes: OwnRowDeletes) -> Result<()> {
        let rows = &deletes.rows;
        debug_assert!(rows.is_sorted_by(|a, b| a < b), "BUG: rows to delete out of order");
        if self.table_now(table).is_none() {
            return Err(dropped(table));
        }
        if rows.is_empty() {
            return Ok(());
        }
        let is_hit = |batch: &Batch| {
            let places: Vec<Option<u32>> = batch.keys.iter().map(|key| deletes.keys.find(key)).collect();
            move |series: u32, time: i64| {
                places[series as usize].is_some_and(|place| rows.binary_search(&(place, time)).is_ok())
            }
        };
        let mut next = self.writes_without(table, is_hit)?;
        let at = next.deletes.iter().position(|entry| matches!(entry, OwnEntry::DeleteRows(_)));
        let earlier = at.map(|at| next.deletes.remove(at));
        let all = match earlier {
            Some(OwnEntry::DeleteRows(earlier)) => {
                next.bytes = next.bytes.saturating_sub(row_deletes_bytes(&earlier));
                let all = earlier.merged(&deletes);
                next.replaced.push(Replaced::new(&earlier, row_deletes_bytes(&earlier)));
                all
            }
            _ => deletes,
        };
        next.bytes += row_deletes_bytes(&all);
        next.deletes.push(OwnEntry::DeleteRows(Arc::new(all)));
        self.set_writes(table, next)
    }

    /// The transaction's writes to a table without some rows. `is_hit` returns, for a batch, whether
    /// the row of a key of the batch and a time is left out.
    fn writes_without<F: Fn(u32, i64) -> bool>(
        &self,
        table: TableId,
        is_hit: impl Fn(&Batch) -> F,
    ) -> Result<NextWrites> {
        let mut next = NextWrites { bytes: self.own_bytes, ..NextWrites::default() };
        let Some(own) = self.own.as_ref().and_then(|own| own.get(&table)) else { return Ok(next) };
        for entry in own.entries.iter() {
            let OwnEntry::Rows(batch) = entry else {
                next.deletes.push(entry.clone());
                continue;
            };
            let Some(kept) = without_rows(batch, is_hit(batch))? else {
                next.rows.push(entry.clone());
                continue;
            };
            let bytes = batch.memory_bytes() as u64;
            next.bytes = next.bytes.saturating_sub(bytes);
            next.replaced.push(Replaced::new(batch, bytes));
            if !kept.is_empty() {
                next.bytes += kept.memory_bytes() as u64;
                next.rows.push(OwnEntry::Rows(Arc::new(kept)));
            }
        }
        Ok(next)
    }

    fn set_writes(&mut self, table: TableId, next: NextWrites) -> Result<()> {
        self.replaced.extend(next.replaced);
        self.set_own_bytes(next.bytes)?;
        let own = Arc::make_mut(self.own.get_or_insert_default()).entry(table).or_default();
        own.entries = next.deletes.into_iter().chain(next.rows).collect();
        let bytes = self.own_bytes + self.replaced_bytes();
        self.memory.shrink_to(bytes);
        Ok(())
    }

    /// Starts the commit; nothing happens until it is polled.
    #[must_use]
    pub fn commit(mut self, durability: Durability) -> Committing {
        let read_lsn = self.base.as_ref().map_or(self.seen, |db| db.lsn);
        self.memory.shrink_to(self.own_bytes);
        let changes = Changes {
            ddl: self.ddl,
            own: own(self.own),
            memory: self.memory,
            rows: self.rows,
            snapshot: self.base.filter(|_| self.isolation == Isolation::Serializable),
            own_versions: OwnVersions { tables: own(self.own_rows), counters: self.counters },
            validated: self.validated,
        };
        Committing::new(self.engine, changes, durability, read_lsn)
    }
}

fn own<T: Clone>(own: Own<T>) -> BTreeMap<TableId, T> {
    own.map(Arc::unwrap_or_clone).unwrap_or_default()
}

fn altered(table: &RowTable) -> Error {
    let text = format!("relation {} was altered by another transaction", table.schema.name);
    Error::new(SqlState::SERIALIZATION_FAILURE, text).with_hint("run the transaction again")
}

impl Isolation {
    fn of_rows(self) -> rows::Isolation {
        match self {
            Isolation::ReadCommitted => rows::Isolation::ReadCommitted,
            Isolation::RepeatableRead => rows::Isolation::RepeatableRead,
            Isolation::Serializable => rows::Isolation::Serializable,
        }
    }
}

/// Memory of a delete of a range without its keys, in bytes.
const DELETE_BYTES: usize = 100;
/// Memory of the delete of a single row, in bytes: in the list of the transaction, and in the views
/// that show it or in the commit.
pub(crate) const ROW_DELETE_BYTES: usize = 80;

fn row_deletes_bytes(deletes: &OwnRowDeletes) -> u64 {
    (deletes.rows.len() * ROW_DELETE_BYTES + deletes.keys.memory_bytes()) as u64
}

/// A write that a transaction has replaced.
#[derive(Clone)]
struct Replaced {
    write: Weak<dyn Any + Send + Sync>,
    bytes: u64,
}

impl Replaced {
    fn new<T: Any + Send + Sync>(write: &Arc<T>, bytes: u64) -> Replaced {
        let write: Weak<T> = Arc::downgrade(write);
        Replaced { write, bytes }
    }

    fn is_held(&self) -> bool {
        self.write.strong_count() > 0
    }
}

/// The next writes of a transaction to a table. Deletes come before all rows: own rows that they
/// hide are removed, so that only committed rows remain to be hidden; they must not hide rows that
/// the transaction writes later, and the log has deletes first.
#[derive(Default)]
struct NextWrites {
    deletes: Vec<OwnEntry>,
    rows: Vec<OwnEntry>,
    /// Writes that these replace.
    replaced: Vec<Replaced>,
    /// Bytes of all writes of the transaction with these.
    bytes: u64,
}

/// Returns `batch` without the rows for which `is_hit` is true, by the position of their key in the
/// batch and their time; `None` if it has no such rows.
fn without_rows(batch: &Batch, is_hit: impl Fn(u32, i64) -> bool) -> Result<Option<Batch>> {
    let rows = &batch.rows;
    let is_kept = |row: &u32| !is_hit(rows.series[*row as usize], rows.times[*row as usize]);
    let keep: Vec<u32> = (0..rows.len() as u32).filter(is_kept).collect();
    if keep.len() == rows.len() { Ok(None) } else { take(batch, &keep).map(Some) }
}

/// Returns the rows at indexes `keep` of a batch, with all its keys.
fn take(batch: &Batch, keep: &[u32]) -> Result<Batch> {
    let rows = &batch.rows;
    let indices = UInt32Array::from(keep.to_vec());
    let columns = rows
        .columns()
        .iter()
        .map(|(id, array)| Ok((*id, arrow_select::take::take(array, &indices, None).map_err(Error::bug)?)))
        .collect::<Result<Vec<_>>>()?;
    let series = keep.iter().map(|row| rows.series[*row as usize]).collect();
    let times = keep.iter().map(|row| rows.times[*row as usize]).collect();
    Ok(Batch::new(batch.keys.clone(), Rows::new(series, times, rows.ops.take(keep), columns)))
}
