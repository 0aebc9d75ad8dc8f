//! Transactions before their commit: what they read, and the changes they collect. Nothing here touches the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::UInt32Array;
use columns::{OwnDelete, OwnEntry, OwnWrites, TableState, TableView};
use model::{Error, Lsn, Result, SqlState, TableId, TableName, TableRef, TimeRange, limits};

use crate::catalog::with_columns;
use crate::commit::Committing;
use crate::record::Ddl;
use crate::root::{Root, apply_ddl, dropped};
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
}

/// The database as one reader sees it. Holding one keeps its memory and files.
#[derive(Clone)]
pub struct Snapshot {
    root: Arc<Root>,
    catalog: Arc<Catalog>,
    own: Arc<BTreeMap<TableId, OwnWrites>>,
}

impl Snapshot {
    pub(crate) fn new(root: Arc<Root>) -> Snapshot {
        let catalog = Arc::clone(&root.catalog);
        Snapshot { root, catalog, own: Arc::default() }
    }

    /// The moment.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.root.lsn
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

    fn view(&self, table: &TableRef) -> Result<TableView> {
        let state = match self.root.tables.get(&table.id) {
            Some(state) if state.table.version == table.version => Arc::clone(state),
            Some(state) => Arc::new(state.with_table(Arc::clone(table))),
            // Made by this transaction, or dropped by another since this one changed the catalog; then it reads as empty and
            // the commit is refused.
            None => Arc::new(TableState::empty(Arc::clone(table))),
        };
        Ok(match self.own.get(&table.id) {
            Some(own) => TableView::with_own_writes(state, own),
            None => TableView::new(state),
        })
    }
}

/// Changes that become one commit. Dropping it is ROLLBACK: nothing was written anywhere.
pub struct Txn {
    engine: Engine,
    isolation: Isolation,
    seen: Lsn,
    /// The snapshot of the first statement, kept under REPEATABLE READ.
    base: Option<Arc<Root>>,
    /// What own DDL was put on top of last, and the catalog it gave; `None` without own DDL.
    catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    pub(crate) ddl: Vec<Ddl>,
    own: Arc<BTreeMap<TableId, OwnWrites>>,
    memory_bytes: usize,
}

impl Txn {
    pub(crate) fn new(engine: Engine, isolation: Isolation, seen: Lsn) -> Txn {
        Txn {
            engine,
            isolation,
            seen,
            base: None,
            catalog: None,
            ddl: Vec::new(),
            own: Arc::default(),
            memory_bytes: 0,
        }
    }

    /// What the next statement sees.
    pub fn snapshot(&mut self) -> Snapshot {
        let root = self.root();
        let catalog = self.catalog_over(&root);
        Snapshot { root, catalog, own: Arc::clone(&self.own) }
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
        if self.isolation == Isolation::ReadCommitted {
            return self.engine.inner.roots.visible(self.seen);
        }
        let (engine, seen) = (&self.engine, self.seen);
        Arc::clone(self.base.get_or_insert_with(|| engine.inner.roots.visible(seen)))
    }

    /// Has nothing been changed yet?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ddl.is_empty() && self.own.is_empty()
    }

    /// Bytes of uncommitted rows.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
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
        Arc::make_mut(&mut self.own).remove(&id);
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

    fn change(&mut self, ddl: Ddl) -> Result<()> {
        let snapshot = self.snapshot();
        let catalog = apply_ddl(&snapshot.catalog, &ddl)?;
        self.catalog = Some((Arc::clone(&snapshot.root.catalog), Arc::new(catalog)));
        self.ddl.push(ddl);
        Ok(())
    }

    /// Adds rows. The batch is checked whole before anything is kept.
    ///
    /// # Errors
    /// 22xxx, 23502, 54000 naming row and column; 53200 when the transaction outgrows its share of memory.
    pub fn write(&mut self, table: TableId, batch: Batch) -> Result<()> {
        let snapshot = self.snapshot();
        let definition = snapshot.catalog.table_by_id(table).ok_or_else(|| dropped(table))?;
        batch.check(definition)?;
        if batch.rows.is_empty() {
            return Ok(());
        }
        let batch = Batch::new(batch.keys, batch.rows.packed());
        let bytes = batch.memory_bytes();
        let limit = self.engine.inner.options.memory_bytes / limits::TRANSACTION_MEMORY_SHARE;
        if (self.memory_bytes + bytes) as u64 > limit {
            return Err(Error::new(
                SqlState::OUT_OF_MEMORY,
                format!(
                    "the transaction holds {} bytes of uncommitted rows and {bytes} more would exceed its limit of {limit}, a \
                     quarter of the memory budget",
                    self.memory_bytes
                ),
            )
            .with_hint("commit in smaller parts, or start the server with a larger --memory"));
        }
        self.memory_bytes += bytes;
        let own = Arc::make_mut(&mut self.own).entry(table).or_default();
        own.entries.push(OwnEntry::Rows(Arc::new(batch)));
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
        let own = Arc::make_mut(&mut self.own).entry(id).or_default();
        for entry in &mut own.entries {
            if let OwnEntry::Rows(batch) = entry {
                let kept = without_rows(view, batch, series, times)?;
                self.memory_bytes = self.memory_bytes.saturating_sub(batch.memory_bytes()) + kept.memory_bytes();
                *batch = Arc::new(kept);
            }
        }
        own.entries.retain(|entry| !matches!(entry, OwnEntry::Rows(batch) if batch.rows.is_empty()));
        // Own rows are dealt with; what is left to hide is committed rows. So the delete goes before all rows: it must not hide those
        // that this transaction writes after it, and in the log deletes come first.
        let series = series.map(|numbers| view.keys_of(numbers).map(Arc::new)).transpose()?;
        let at = own.entries.iter().take_while(|entry| matches!(entry, OwnEntry::Delete(_))).count();
        own.entries.insert(at, OwnEntry::Delete(Arc::new(OwnDelete { series, times })));
        Ok(())
    }

    /// Starts the commit; nothing happens until it is polled.
    #[must_use]
    pub fn commit(self, durability: Durability) -> Committing {
        let read_lsn = self.base.as_ref().map_or(self.seen, |root| root.lsn);
        let own = Arc::try_unwrap(self.own).unwrap_or_else(|shared| (*shared).clone());
        Committing::new(self.engine, self.ddl, own, self.memory_bytes, durability, read_lsn)
    }
}

/// `batch` without its rows of `series` in `times`.
fn without_rows(view: &TableView, batch: &Batch, series: Option<&[u32]>, times: TimeRange) -> Result<Batch> {
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
    if keep.len() == rows.len() { Ok(batch.clone()) } else { take(batch, &keep) }
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
