//! Transactions before their commit: what they read, and the changes they collect. Nothing here touches the log.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::UInt32Array;
use columns::{OwnDelete, OwnEntry, OwnWrites, TableState, TableView};
use env::Event;
use model::{
    Datum, Error, Lsn, Result, RowSchema, SequenceRef, SqlState, TableId, TableName, TableOptions, TableRef, TimeRange,
    limits,
};
use rows::{Access, Entered, RowTable};

use crate::catalog::{check_row_schema, with_columns, with_options};
use crate::commit::{Changes, Committing, Made};
use crate::memory::{Reservation, Work};
use crate::record::Ddl;
use crate::root::{Root, Roots, apply_ddl, dropped, dropped_sequence};
use crate::sequence::{Counter, Counts, Had, NextValue, Numbers, SequenceState};
use crate::{Batch, Catalog, ColumnSpec, Engine, Rows, TableSpec};

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on disk.
    #[default]
    Sync,
    /// At once. The flusher is never idle while something is pending, so it is on disk after at most two flushes.
    Async,
}

/// What later statements of a transaction see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement a fresh snapshot.
    #[default]
    ReadCommitted,
    /// All statements the snapshot of the first.
    RepeatableRead,
    /// As that, of the newest commit; and a commit is refused (40001) if what was read of `rows` tables is not the same any more. So
    /// such transactions might as well have run one after the other, in the order of their commits.
    Serializable,
}

/// The database as one reader sees it. Holding one keeps its memory and files.
#[derive(Clone)]
pub struct Snapshot {
    root: Arc<Root>,
    catalog: Arc<Catalog>,
    own: Own<OwnWrites>,
    own_rows: Own<Option<Arc<RowTable>>>,
}

/// Something of a transaction's own by table; most have nothing.
type Own<T> = Option<Arc<BTreeMap<TableId, T>>>;

impl Snapshot {
    pub(crate) fn new(root: Arc<Root>) -> Snapshot {
        let catalog = Arc::clone(&root.catalog);
        Snapshot { root, catalog, own: None, own_rows: None }
    }

    /// The moment.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.root.lsn
    }

    /// The wall time of the last commit it shows, nanoseconds since 1970 UTC: whole microseconds, later for each commit.
    #[must_use]
    pub fn committed(&self) -> i64 {
        self.root.wall_ns
    }

    /// Schemas and tables, own uncommitted DDL included.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// A table's rows, own uncommitted writes included.
    ///
    /// # Errors
    /// 42P01 if it does not exist here.
    pub fn table(&self, name: &TableName) -> Result<TableView> {
        let table = self.catalog.expect(name)?;
        self.view(table)
    }

    /// As [`Snapshot::table`], by number.
    ///
    /// # Errors
    /// 42P01 if it does not exist here.
    pub fn table_by_id(&self, id: TableId) -> Result<TableView> {
        let table = self.catalog.table_by_id(id).ok_or_else(|| dropped(id))?;
        self.view(table)
    }

    /// A `columns` table as it was at wall time `time`, see [`TableView::as_of`].
    ///
    /// # Errors
    /// 42P01 if it does not exist here; 55000 if it keeps no history; 22023 if that begins later.
    pub fn table_as_of(&self, id: TableId, time: i64) -> Result<TableView> {
        self.table_by_id(id)?.as_of(time)
    }

    /// A `rows` table, own uncommitted versions of its description included. Its rows are read through [`Txn::rows`], which sees those of
    /// this snapshot if the transaction took no other since.
    ///
    /// # Errors
    /// 42P01 if it does not exist here.
    pub fn row_table(&self, name: &TableName) -> Result<&Arc<RowTable>> {
        let table = self
            .catalog
            .row_table(name)
            .ok_or_else(|| Error::new(SqlState::UNDEFINED_TABLE, format!("relation {name} does not exist")))?;
        self.row_table_by_id(table.id)
    }

    /// As [`Snapshot::row_table`], by number.
    ///
    /// # Errors
    /// 42P01 if it does not exist here.
    pub fn row_table_by_id(&self, id: TableId) -> Result<&Arc<RowTable>> {
        match self.own_rows.as_ref().and_then(|own| own.get(&id)) {
            Some(own) => own.as_ref().ok_or_else(|| dropped(id)),
            None => self.root.row_table(id),
        }
    }

    fn view(&self, table: &TableRef) -> Result<TableView> {
        let state = match self.root.tables.get(&table.id) {
            Some(state) if state.table.version == table.version => Arc::clone(state),
            Some(state) => Arc::new(state.with_table(Arc::clone(table))),
            // Made by this transaction, or dropped by another since this one changed the catalog; then it reads as empty and
            // the commit is refused.
            None => Arc::new(TableState::empty(Arc::clone(table))),
        };
        Ok(match self.own.as_ref().and_then(|own| own.get(&table.id)) {
            Some(own) => TableView::with_own_writes(state, own),
            None => TableView::new(state),
        })
    }
}

/// A transaction with more uncommitted rows of `columns` tables takes milliseconds to commit.
const LARGE_BYTES: usize = 1 << 20;
/// The same for changes of `rows` tables, to commit and to roll back.
const LARGE_CHANGES: usize = 1_000;

/// Changes that become one commit. Dropping it is ROLLBACK: nothing was written anywhere.
pub struct Txn {
    engine: Engine,
    isolation: Isolation,
    seen: Lsn,
    /// The snapshot of the first statement, kept from REPEATABLE READ on.
    base: Option<Arc<Root>>,
    /// What own DDL was put on top of last, and the catalog it gave; `None` without own DDL.
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    pub(crate) ddl: Vec<Ddl>,
    own: Own<OwnWrites>,
    /// Of uncommitted rows of `columns` tables.
    memory: Reservation,
    /// Begun with the first statement that touches `rows` tables.
    rows: Option<rows::Txn>,
    /// Versions of `rows` tables made here; `None` for those dropped.
    own_rows: Own<Option<Arc<RowTable>>>,
    /// Sequences made or begun anew here.
    counters: BTreeMap<u32, Arc<Counter>>,
    /// What the present statement reads of `rows` tables. Versions it may need stay for as long as it is here.
    reading: Option<Arc<Root>>,
}

/// A place in a transaction to go back to; by default its beginning.
#[derive(Clone, Default)]
pub struct Savepoint {
    ddl: usize,
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    own: Own<OwnWrites>,
    memory_bytes: usize,
    rows: rows::Savepoint,
    own_rows: Own<Option<Arc<RowTable>>>,
    counters: BTreeMap<u32, Arc<Counter>>,
}

/// What becomes of the rows of a table that is altered.
#[derive(Clone, Copy, Debug)]
pub enum RowData {
    /// They stay. Those that lack new columns have what the columns say ([`model::RowColumn::missing`]).
    Keep,
    /// They go: TRUNCATE, or a table that is about to be written anew.
    Discard,
}

/// What became of a change of a `rows` table.
#[derive(Debug)]
pub enum Altered<T> {
    /// Done.
    Done(T),
    /// Others use the table: nothing was done; call again after the event.
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
            rows: None,
            own_rows: None,
            counters: BTreeMap::new(),
            reading: None,
        }
    }

    /// What the next statement sees if it touches `columns` tables only: nothing that a crash could take back, but what this session
    /// committed itself. Under SERIALIZABLE it is what [`Txn::snapshot_newest`] gives.
    pub fn snapshot(&mut self) -> Snapshot {
        let root = self.root();
        self.snapshot_of(root)
    }

    fn snapshot_of(&mut self, root: Arc<Root>) -> Snapshot {
        let catalog = self.catalog_over(&root);
        Snapshot { root, catalog, own: self.own.clone(), own_rows: self.own_rows.clone() }
    }

    /// What the next statement sees if it touches `rows` tables: the newest commit, durable or not; from REPEATABLE READ on what the first
    /// statement saw. [`Txn::rows`] reads there too from now on, until the next one or [`Txn::end_statement`].
    ///
    /// Who answers a session at `sync` waits, by [`Engine::when_durable`], for `rows().newest_seen()`; and, if the statement read `columns`
    /// tables too, for the LSN of this snapshot.
    pub fn snapshot_newest(&mut self) -> Snapshot {
        let root = self.root_or(Roots::newest);
        let (store, isolation) = (&self.engine.inner.store, self.isolation);
        let rows = self.rows.get_or_insert_with(|| store.begin(isolation.of_rows()));
        rows.set_snapshot(root.lsn);
        rows.note_commit_seen(root.catalog_lsn);
        self.reading = Some(Arc::clone(&root));
        self.snapshot_of(root)
    }

    /// The transaction as `rows` tables know it: what reads, locks and changes their rows.
    pub fn rows(&mut self) -> &mut rows::Txn {
        if self.reading.is_none() {
            self.snapshot_newest();
        }
        let (store, isolation) = (&self.engine.inner.store, self.isolation);
        self.rows.get_or_insert_with(|| store.begin(isolation.of_rows()))
    }

    /// The statement is over: versions of rows that only it needed may go. To be called before a session waits for its client.
    pub fn end_statement(&mut self) {
        self.reading = None;
    }

    /// Where it is now.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            ddl: self.ddl.len(),
            catalog: self.catalog.clone(),
            own: self.own.clone(),
            memory_bytes: self.memory_bytes(),
            rows: self.rows.as_ref().map_or(rows::Savepoint::START, rows::Txn::savepoint),
            own_rows: self.own_rows.clone(),
            counters: self.counters.clone(),
        }
    }

    /// Takes back what was changed since; locks on rows taken since are let go. May be called again with the same place.
    ///
    /// # Errors
    /// XX000 only.
    pub fn roll_back_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.roll_back_to(savepoint.rows, &crossbeam_epoch::pin())?;
        }
        self.forget_since(savepoint);
        Ok(())
    }

    /// Takes back what was changed since, but keeps the locks, and the place among those who wait: the statement is run again.
    ///
    /// # Errors
    /// XX000 only.
    pub fn undo_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        if let Some(rows) = &mut self.rows {
            rows.undo_all_to(savepoint.rows, &crossbeam_epoch::pin())?;
        }
        self.forget_since(savepoint);
        Ok(())
    }

    fn forget_since(&mut self, savepoint: &Savepoint) {
        let Savepoint { ddl, catalog, own, memory_bytes, own_rows, counters, .. } = savepoint.clone();
        self.ddl.truncate(ddl);
        (self.catalog, self.own) = (catalog, own);
        self.memory.count(memory_bytes as u64);
        (self.own_rows, self.counters) = (own_rows, counters);
    }

    /// Own DDL on top of what is visible. Where the two do not fit (somebody took the name, altered or dropped the table) the catalog
    /// stays as it was seen last; the commit will be refused.
    fn catalog_over(&mut self, root: &Root) -> Arc<Catalog> {
        let Some((base, last)) = &self.catalog else { return Arc::clone(&root.catalog) };
        // Commits of rows leave the catalog as it is, and there may be one between any two changes of ours.
        if Arc::ptr_eq(base, &root.catalog) {
            return Arc::clone(last);
        }
        let over = self.ddl.iter().try_fold((*root.catalog).clone(), |catalog, ddl| apply_ddl(&catalog, ddl));
        let catalog = over.map_or_else(|_| Arc::clone(last), Arc::new);
        self.catalog = Some((Arc::clone(&root.catalog), Arc::clone(&catalog)));
        catalog
    }

    fn root(&mut self) -> Arc<Root> {
        let seen = self.seen;
        self.root_or(|roots| roots.visible(seen))
    }

    /// The root that all statements read by, or else a fresh one.
    fn root_or(&mut self, fresh: impl FnOnce(&Roots) -> Arc<Root>) -> Arc<Root> {
        let inner = &self.engine.inner;
        if self.isolation == Isolation::ReadCommitted {
            return fresh(&inner.roots);
        }
        if let Some(base) = &self.base {
            return Arc::clone(base);
        }
        let root = if self.isolation == Isolation::Serializable {
            // Under the lock of commits: each of them is in the root, or knows that this transaction will ask for it.
            let _lock = inner.commit.lock();
            let root = inner.roots.newest();
            self.rows.insert(inner.store.begin(self.isolation.of_rows())).set_snapshot(root.lsn);
            root
        } else {
            fresh(&inner.roots)
        };
        self.base = Some(Arc::clone(&root));
        root
    }

    /// Has nothing been changed yet?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ddl.is_empty()
            && self.own.as_ref().is_none_or(|own| own.is_empty())
            && self.rows.as_ref().is_none_or(rows::Txn::is_empty)
    }

    /// Does committing it, or taking it back, take milliseconds?
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.memory_bytes() > LARGE_BYTES || self.rows.as_ref().is_some_and(|rows| rows.changes_len() > LARGE_CHANGES)
    }

    /// Bytes of uncommitted rows of `columns` tables.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// The isolation it was begun with.
    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Makes a schema.
    ///
    /// # Errors
    /// 42P06 if the name is taken (also checked at commit).
    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        self.change(Ddl::CreateSchema(name.to_owned()))
    }

    /// Drops an empty schema.
    ///
    /// # Errors
    /// 3F000 if there is none, 55000 if it holds tables.
    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        self.change(Ddl::DropSchema(name.to_owned()))
    }

    /// Makes a table; visible to this transaction at once.
    ///
    /// # Errors
    /// Those of [`TableSpec::build`]; 42P07 if the name is taken (also checked at commit).
    pub fn create_table(&mut self, spec: &TableSpec) -> Result<TableRef> {
        let id = TableId(self.engine.inner.next_table.fetch_add(1, Ordering::Relaxed));
        let table = Arc::new(spec.build(id)?);
        self.change(Ddl::CreateTable(Arc::clone(&table)))?;
        Ok(table)
    }

    /// Drops a table and the uncommitted rows for it.
    ///
    /// # Errors
    /// 42P01.
    pub fn drop_table(&mut self, name: &TableName) -> Result<()> {
        let id = self.snapshot().catalog.expect(name)?.id;
        self.change(Ddl::DropTable(id))?;
        Arc::make_mut(self.own.get_or_insert_default()).remove(&id);
        Ok(())
    }

    /// Adds columns, NULL in rows that exist.
    ///
    /// # Errors
    /// 42P01, 42701, 42P16, 54011; at commit 40001 if the table changed since.
    pub fn add_columns(&mut self, name: &TableName, columns: &[ColumnSpec]) -> Result<TableRef> {
        let snapshot = self.snapshot();
        let table = Arc::new(with_columns(snapshot.catalog.expect(name)?, columns)?);
        self.change(Ddl::AlterTable(Arc::clone(&table)))?;
        Ok(table)
    }

    /// Gives a `columns` table other options: `ALTER TABLE … SET (…)`, also where they are what they were.
    ///
    /// # Errors
    /// 42P01; 22023 for an option that cannot be; at commit 40001 if the table changed since.
    pub fn set_options(&mut self, name: &TableName, options: TableOptions) -> Result<TableRef> {
        let snapshot = self.snapshot();
        let table = Arc::new(with_options(snapshot.catalog.expect(name)?, options)?);
        self.change(Ddl::AlterTable(Arc::clone(&table)))?;
        Ok(table)
    }

    /// A number for a new table, index or sequence, never given again in this database.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.engine.inner.next_table.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes a `rows` table; visible to this transaction at once. Its number and those of its indexes are from [`Txn::next_number`], its
    /// version is 1.
    ///
    /// # Errors
    /// 42602, 42701, 42P16, 54000, 54011 for what cannot be; 42P07 if a name is taken (also checked at commit).
    pub fn create_row_table(&mut self, schema: RowSchema) -> Result<Arc<RowTable>> {
        check_row_schema(&schema)?;
        let table = Arc::new(RowTable::new(Arc::new(schema))?);
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::CreateRowTable(Arc::clone(&table.schema)))?;
        self.set_row_table(table.id(), Some(Arc::clone(&table)));
        Ok(table)
    }

    /// Makes the next version of a `rows` table: any change of its description, with its rows or without. Indexes with a new number or name,
    /// or over columns that changed, are made anew from the rows that are there; the others stay. Visible to this transaction at once.
    /// `show` writes a value for the error about a key that is there twice.
    ///
    /// The transaction has the table alone from then on, and waits for all who wrote to it; readers go on.
    ///
    /// # Errors
    /// As [`Txn::create_row_table`]; 42P01; 40001 if `next` is not the version after the newest one; 40P01; 23505 from a new unique index.
    pub fn alter_row_table(
        &mut self,
        next: RowSchema,
        data: RowData,
        show: &dyn Fn(&Datum<'_>) -> String,
    ) -> Result<Altered<Arc<RowTable>>> {
        check_row_schema(&next)?;
        let (snapshot, current) = match self.have_alone(next.id)? {
            Altered::Done(current) => current,
            Altered::Wait(event) => return Ok(Altered::Wait(event)),
        };
        if current.schema.version.checked_add(1) != Some(next.version) {
            return Err(altered(&current));
        }
        let next = Arc::new(next);
        let anew = matches!(data, RowData::Discard);
        let table = Arc::new(match data {
            RowData::Keep => current.altered(next, self.rows(), show)?,
            RowData::Discard => current.emptied(next)?,
        });
        self.change_over(&snapshot, Ddl::AlterRowTable { schema: Arc::clone(&table.schema), anew })?;
        self.set_row_table(table.id(), Some(Arc::clone(&table)));
        Ok(Altered::Done(table))
    }

    /// Drops a `rows` table with its indexes and rows.
    ///
    /// # Errors
    /// 42P01, 40P01; 40001 if it was altered since the snapshot of a transaction that keeps one.
    pub fn drop_row_table(&mut self, id: TableId) -> Result<Altered<()>> {
        let snapshot = match self.have_alone(id)? {
            Altered::Done((snapshot, _)) => snapshot,
            Altered::Wait(event) => return Ok(Altered::Wait(event)),
        };
        self.change_over(&snapshot, Ddl::DropTable(id))?;
        self.set_row_table(id, None);
        Ok(Altered::Done(()))
    }

    /// The newest version of a `rows` table, when nobody else writes to it any more.
    fn have_alone(&mut self, id: TableId) -> Result<Altered<(Snapshot, Arc<RowTable>)>> {
        // Another version may come into force while the lock is waited for, but not after.
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

    /// Makes a sequence; it counts for this transaction at once. Its number is from [`Txn::next_number`].
    ///
    /// # Errors
    /// 22023 for one that cannot count; 42P07, 3F000 (also checked at commit).
    pub fn create_sequence(&mut self, sequence: SequenceRef) -> Result<()> {
        sequence.check()?;
        crate::catalog::check_name("sequence", &sequence.name.table)?;
        let snapshot = self.snapshot_newest();
        let state = sequence.initial();
        self.change_over(&snapshot, Ddl::CreateSequence(Arc::clone(&sequence), state))?;
        self.counters.insert(sequence.id, Arc::new(Counter::new(state)));
        Ok(())
    }

    /// Changes a sequence; with `restart` it goes on from there.
    ///
    /// # Errors
    /// 22023, 42P01, 42P07.
    pub fn alter_sequence(&mut self, sequence: SequenceRef, restart: Option<SequenceState>) -> Result<()> {
        sequence.check()?;
        let snapshot = self.snapshot_newest();
        self.change_over(&snapshot, Ddl::AlterSequence(Arc::clone(&sequence), restart))?;
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
        self.change_over(&snapshot, Ddl::DropSequence(id))?;
        self.counters.remove(&id);
        Ok(())
    }

    /// The next number of a sequence: given once only, whatever becomes of this transaction, also after a crash. Not to be shown before
    /// `rows().newest_seen()` is durable.
    ///
    /// # Errors
    /// 42P01, 2200H at its end; those of [`Committing::poll`].
    pub fn next_value(&mut self, id: u32) -> Result<NextValue> {
        // In the midst of a statement, which goes on reading where it is.
        let root = match &self.reading {
            Some(root) => Arc::clone(root),
            None => self.snapshot_newest().root,
        };
        let catalog = self.catalog_over(&root);
        let sequence = catalog.sequence_by_id(id).ok_or_else(|| dropped_sequence(id))?;
        let next = match self.counters.get(&id) {
            // Nobody else knows it, and the commit will say how far it is.
            Some(own) => own.next(sequence, |_| Ok(Ok(Lsn::ZERO)))?.map(|(value, lsn)| NextValue::Value { value, lsn }),
            None => Ok(self.engine.next_value_of(sequence)?),
        };
        let next = next.unwrap_or_else(NextValue::Wait);
        if let NextValue::Value { lsn, .. } = next {
            self.rows().note_commit_seen(lsn);
        }
        Ok(next)
    }

    /// What a statement on `rows` tables runs with, both at once. Afterwards [`Numbers::seen`] is to be noted by `note_commit_seen`, whatever
    /// became of the statement.
    ///
    /// - `had`: what the session remembers of numbers.
    pub fn rows_and_numbers<'t>(&'t mut self, had: &'t mut Had) -> (&'t mut rows::Txn, Numbers<'t>) {
        // In the midst of a statement, which goes on reading where it is.
        let root = match &self.reading {
            Some(root) => Arc::clone(root),
            None => self.snapshot_newest().root,
        };
        let catalog = self.catalog_over(&root);
        let Txn { engine, rows, counters, isolation, .. } = self;
        let rows = rows.get_or_insert_with(|| engine.inner.store.begin(isolation.of_rows()));
        (rows, Numbers { engine, catalog, own: counters, had: RefCell::new(had), seen: Cell::new(Lsn::ZERO) })
    }

    fn change(&mut self, ddl: Ddl) -> Result<()> {
        let snapshot = self.snapshot();
        self.change_over(&snapshot, ddl)
    }

    fn change_over(&mut self, snapshot: &Snapshot, ddl: Ddl) -> Result<()> {
        let catalog = apply_ddl(&snapshot.catalog, &ddl)?;
        self.catalog = Some((Arc::clone(&snapshot.root.catalog), Arc::new(catalog)));
        self.ddl.push(ddl);
        Ok(())
    }

    /// A `columns` table as the next statement sees it.
    pub fn table_now(&mut self, table: TableId) -> Option<TableRef> {
        let root = self.root();
        self.catalog_over(&root).table_by_id(table).cloned()
    }

    /// Adds rows. The batch is checked whole before anything is kept.
    ///
    /// # Errors
    /// 22xxx, 23502, 54000 naming row and column; 53200 when the transaction outgrows its share of memory.
    pub fn write(&mut self, table: TableId, batch: Batch) -> Result<()> {
        let definition = self.table_now(table).ok_or_else(|| dropped(table))?;
        batch.check(&definition)?;
        if batch.rows.is_empty() {
            return Ok(());
        }
        let batch = Batch::new(batch.keys, batch.rows.pack_if_small());
        let bytes = batch.memory_bytes();
        let limit = self.engine.inner.options.memory_bytes / limits::TRANSACTION_MEMORY_SHARE;
        if (self.memory_bytes() + bytes) as u64 > limit {
            return Err(Error::new(
                SqlState::OUT_OF_MEMORY,
                format!(
                    "the transaction holds {} bytes of uncommitted rows and {bytes} more would exceed its limit of {limit}, a \
                     quarter of the memory budget",
                    self.memory_bytes()
                ),
            )
            .with_hint("commit in smaller parts, or start the server with a larger --memory"));
        }
        self.memory.grow(bytes as u64)?;
        let own = Arc::make_mut(self.own.get_or_insert_default()).entry(table).or_default();
        own.entries = own.entries.with([OwnEntry::Rows(Arc::new(batch))]);
        Ok(())
    }

    /// Hides rows of `series` (numbers as `view` gives them, sorted; `None` = all) in `times`, the transaction's own included.
    ///
    /// # Errors
    /// 42P01 when the table is gone.
    pub fn delete(&mut self, view: &TableView, series: Option<&[u32]>, times: TimeRange) -> Result<()> {
        let state = view.state();
        let id = state.table.id;
        if self.snapshot().catalog.table_by_id(id).is_none() {
            return Err(dropped(id));
        }
        if times.is_empty() || series.is_some_and(<[u32]>::is_empty) {
            return Ok(());
        }
        let own = Arc::make_mut(self.own.get_or_insert_default()).entry(id).or_default();
        let mut bytes = self.memory.bytes();
        let mut changed: Vec<OwnEntry> = Vec::with_capacity(own.entries.len() + 1);
        for entry in own.entries.iter() {
            match entry {
                OwnEntry::Rows(batch) => {
                    let Some(kept) = without_rows(view, batch, series, times)? else {
                        changed.push(entry.clone());
                        continue;
                    };
                    bytes = bytes.saturating_sub(batch.memory_bytes() as u64);
                    if !kept.is_empty() {
                        bytes += kept.memory_bytes() as u64;
                        changed.push(OwnEntry::Rows(Arc::new(kept)));
                    }
                }
                OwnEntry::Delete(_) => changed.push(entry.clone()),
            }
        }
        // Own rows are dealt with; what is left to hide is committed rows. So the delete goes before all rows: it must not hide those
        // that this transaction writes after it, and in the log deletes come first.
        let series = series.map(|numbers| view.keys_of(numbers).map(Arc::new)).transpose()?;
        let at = changed.iter().take_while(|entry| matches!(entry, OwnEntry::Delete(_))).count();
        // Counted as memory until the next flush, as rows are.
        self.memory.count(bytes + (DELETE_BYTES + series.as_ref().map_or(0, |keys| keys.memory_bytes())) as u64);
        changed.insert(at, OwnEntry::Delete(Arc::new(OwnDelete { series, times })));
        own.entries = changed.into_iter().collect();
        Ok(())
    }

    /// Starts the commit; nothing happens until it is polled.
    #[must_use]
    pub fn commit(self, durability: Durability) -> Committing {
        let read_lsn = self.base.as_ref().map_or(self.seen, |root| root.lsn);
        let changes = Changes {
            ddl: self.ddl,
            own: own(self.own),
            memory: self.memory,
            rows: self.rows,
            snapshot: self.base.filter(|_| self.isolation == Isolation::Serializable),
            made: Made { tables: own(self.own_rows), counters: self.counters },
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

/// What a delete takes in memory, besides the keys it names.
const DELETE_BYTES: usize = 100;

/// `batch` without its rows of `series` in `times`; `None` if it has none.
fn without_rows(view: &TableView, batch: &Batch, series: Option<&[u32]>, times: TimeRange) -> Result<Option<Batch>> {
    let hit: Vec<bool> = batch
        .keys
        .iter()
        .map(|key| match (series, view.lookup(key)) {
            (None, _) => true,
            (Some(series), Some(number)) => series.binary_search(&number).is_ok(),
            (Some(_), None) => false,
        })
        .collect();
    let rows = &batch.rows;
    let keep: Vec<u32> = (0..rows.len() as u32)
        .filter(|row| {
            let row = *row as usize;
            !(hit[rows.series[row] as usize] && times.contains(rows.times[row]))
        })
        .collect();
    if keep.len() == rows.len() { Ok(None) } else { take(batch, &keep).map(Some) }
}

/// The rows at `keep` of a batch, with all its keys.
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
