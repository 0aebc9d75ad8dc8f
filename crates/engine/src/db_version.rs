//! The whole database at one LSN, and which version each reader sees.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use columns::{SegmentCache, TableState};
use imbl::OrdMap;
use model::{
    Column, ColumnRole, Error, Lsn, Result, RowSchemaRef, Table, TableId, TableName, TableRef, TypeSpecRef, ViewSpec,
    user_types,
};
use parking_lot::Mutex;
use rows::{Readers, Records, RowTable};

use crate::Catalog;
use crate::catalog_object::{CatalogObject, NewState, ObjectKey};
use crate::record::Ddl;
use crate::sequence::Counter;

/// The whole database at one LSN. The next version shares all that did not change.
#[derive(Clone, Default)]
pub(crate) struct DbVersion {
    /// LSN of the last commit in it.
    pub(crate) lsn: Lsn,
    /// Wall time of that commit, nanoseconds since 1970 UTC.
    pub(crate) wall_ns: i64,
    pub(crate) catalog: Arc<Catalog>,
    /// LSN of the last commit that changed the catalog.
    pub(crate) catalog_lsn: Lsn,
    pub(crate) tables: OrdMap<TableId, Arc<TableState>>,
    /// `rows` tables are shared by all database versions; each row version carries the LSN that
    /// decides its visibility.
    pub(crate) row_tables: OrdMap<TableId, Arc<RowTable>>,
    pub(crate) counters: OrdMap<u32, Arc<Counter>>,
    /// Wall time of the last commit that set a table's retention, which vouches for the clock; 0 =
    /// none.
    pub(crate) retention_ns: i64,
    /// Cache for segments of all tables.
    pub(crate) cache: SegmentCache,
}

impl DbVersion {
    /// Returns this database version with one table's state replaced.
    pub(crate) fn with_state(&self, id: TableId, state: TableState) -> DbVersion {
        let mut next = self.clone();
        next.tables.insert(id, Arc::new(state));
        next
    }

    /// This version without temporary objects: what a crash leaves once it is durable.
    pub(crate) fn lasting(&self) -> DbVersion {
        let mut lasting = self.clone();
        if let Some(catalog) = self.catalog.lasting() {
            let (tables, counters) = (std::mem::take(&mut lasting.row_tables), std::mem::take(&mut lasting.counters));
            let is_lasting = |id: &TableId| catalog.row_table_by_id(*id).is_some();
            lasting.row_tables = tables.into_iter().filter(|(id, _)| is_lasting(id)).collect();
            lasting.counters = counters.into_iter().filter(|(id, _)| catalog.sequence_by_id(*id).is_some()).collect();
            lasting.catalog = Arc::new(catalog);
            lasting.check();
        }
        lasting
    }

    pub(crate) fn state(&self, id: TableId) -> Result<&Arc<TableState>> {
        self.tables.get(&id).ok_or_else(|| dropped(id))
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.tables.values().map(|state| state.memory_bytes() as u64).sum()
    }

    /// Bytes of all `rows` tables.
    pub(crate) fn rows_bytes(&self) -> u64 {
        self.row_tables.values().map(|table| table.memory_bytes()).sum()
    }

    /// Records that the clock can be trusted: setting a table's retention, or creating the first
    /// table with one, vouches for it.
    fn note_retention(&mut self, table: &TableRef, old: Option<&TableRef>) {
        let vouches = match old {
            None => self.retention_ns == 0,
            // Ingest adds columns without asking; that vouches for nothing.
            Some(old) => old.columns.len() == table.columns.len(),
        };
        if vouches && table.options.retention_ns.is_some() {
            self.retention_ns = self.retention_ns.max(self.wall_ns);
        }
    }

    /// Applies one catalog change of a commit at `wall_ns`, if [`apply_ddl`] accepts it. Returns
    /// the state of a dropped table. Indexes of `rows` tables are left empty; the committing
    /// transaction has built them.
    pub(crate) fn apply(&mut self, ddl: &Ddl) -> Result<Option<Arc<TableState>>> {
        self.catalog = Arc::new(apply_ddl(&self.catalog, ddl)?);
        match ddl {
            Ddl::Create(CatalogObject::Table(table), _) => {
                let state = TableState { cache: self.cache.clone(), ..TableState::empty(Arc::clone(table)) };
                self.tables.insert(table.id, Arc::new(state.altered(Arc::clone(table), self.wall_ns)));
                self.note_retention(table, None);
            }
            Ddl::Alter(CatalogObject::Table(table), _) => {
                let old = Arc::clone(self.state(table.id)?);
                self.tables.insert(table.id, Arc::new(old.altered(Arc::clone(table), self.wall_ns)));
                self.note_retention(table, Some(&old.table));
            }
            Ddl::Create(CatalogObject::RowTable(schema), _) => self.put_row_table(schema, Arc::default())?,
            Ddl::Alter(CatalogObject::RowTable(schema), state) => {
                let old = &self.row_table(schema.id)?.records;
                let is_emptied = *state == NewState::Emptied;
                let records = if is_emptied { Arc::new(old.emptied(schema.version)) } else { Arc::clone(old) };
                self.put_row_table(schema, records)?;
            }
            Ddl::Create(CatalogObject::Sequence(sequence), NewState::Sequence(state))
            | Ddl::Alter(CatalogObject::Sequence(sequence), NewState::Sequence(state)) => {
                self.counters.insert(sequence.id, Arc::new(Counter::new(*state)));
            }
            Ddl::Drop(ObjectKey::Table(id)) => return Ok(self.tables.remove(id)),
            Ddl::Drop(ObjectKey::RowTable(id)) => drop(self.row_tables.remove(id)),
            Ddl::Drop(ObjectKey::Sequence(id)) => drop(self.counters.remove(id)),
            // Other objects have no state in memory.
            Ddl::Create(..) | Ddl::Alter(..) | Ddl::Drop(_) => {}
        }
        Ok(None)
    }

    fn put_row_table(&mut self, schema: &RowSchemaRef, records: Arc<Records>) -> Result<()> {
        self.row_tables.insert(schema.id, Arc::new(RowTable::over(Arc::clone(schema), records)?));
        Ok(())
    }

    /// Asserts that the version has exactly the objects of its catalog.
    fn check(&self) {
        let (tables, row_tables, sequences) = self.catalog.counts();
        assert!(self.tables.len() == tables, "BUG: {} table states for {tables} tables", self.tables.len());
        assert!(self.row_tables.len() == row_tables, "BUG: {} of {row_tables} rows tables", self.row_tables.len());
        assert!(self.counters.len() == sequences, "BUG: {} of {sequences} sequences", self.counters.len());
        debug_assert!(self.tables.iter().all(|(id, state)| state.table.id == *id), "BUG: a state of another table");
        debug_assert!(
            self.tables.values().all(|state| self.catalog.table_by_id(state.table.id) == Some(&state.table)),
            "BUG: a table state has another definition than the catalog"
        );
    }

    /// Asserts that `other` shows the same commits, so that it may replace this version.
    fn check_replacement(&self, other: &DbVersion) {
        assert!(self.lsn == other.lsn, "BUG: version {} replaces version {}", other.lsn, self.lsn);
        assert!(self.wall_ns == other.wall_ns, "BUG: version {} with another commit time", self.lsn);
        assert!(Arc::ptr_eq(&self.catalog, &other.catalog), "BUG: version {} with another catalog", self.lsn);
        assert!(self.tables.len() == other.tables.len(), "BUG: version {} with other tables", self.lsn);
        debug_assert!(
            self.tables.iter().all(|(id, state)| other.tables.get(id).is_some_and(|other| {
                other.kept_from >= state.kept_from && other.series_count == state.series_count
            })),
            "BUG: version {} with another retention horizon or other series",
            self.lsn
        );
    }

    pub(crate) fn row_table(&self, id: TableId) -> Result<&Arc<RowTable>> {
        self.row_tables.get(&id).ok_or_else(|| dropped(id))
    }
}

/// Returns the catalog after one change.
///
/// # Errors
/// 42P07, 42P06, 3F000 for names; those of [`Catalog::check_views`]; 40001 when the table has changed since the change was made; 42P01
/// when it was dropped; XX001 for a change that no transaction makes.
pub(crate) fn apply_ddl(catalog: &Catalog, ddl: &Ddl) -> Result<Catalog> {
    let next = changed(catalog, ddl)?;
    next.check_views()?;
    Ok(next)
}

fn changed(catalog: &Catalog, ddl: &Ddl) -> Result<Catalog> {
    match ddl {
        Ddl::Create(object, _) => {
            let key = object.key();
            if catalog.has_number_of(object) {
                return Err(Error::corrupt(format!("{key} is created, and its number is taken")));
            }
            catalog.with_object(object.clone())
        }
        Ddl::Alter(object, state) => {
            check_alteration(catalog, object, *state)?;
            catalog.with_object(object.clone())
        }
        Ddl::Drop(key) => {
            // Two transactions that drop a table each, with the views of both, drop a view twice.
            if key.number().is_some() && !matches!(key, ObjectKey::View(_)) {
                expect_object(catalog, key)?;
            }
            catalog.without_object(key)
        }
    }
}

/// Checks that an object may become `next`.
fn check_alteration(catalog: &Catalog, next: &CatalogObject, state: NewState) -> Result<()> {
    match (expect_object(catalog, &next.key())?, next) {
        (CatalogObject::Table(old), CatalogObject::Table(table)) => {
            check_version(&table.name, old.version, table.version)?;
            if !keeps_rows(&old, table) {
                return Err(Error::corrupt(format!(
                    "table {} becomes table {}, whose rows would have another key, time or type of a column",
                    old.name, table.name
                )));
            }
        }
        (CatalogObject::RowTable(old), CatalogObject::RowTable(table)) => {
            check_version(&table.name, old.version, table.version)?;
            if state != NewState::Emptied && table.columns.len() < old.columns.len() {
                return Err(Error::corrupt(format!("table {} loses columns but keeps its rows", table.name)));
            }
        }
        (CatalogObject::View(old), CatalogObject::View(view)) => {
            check_version(&view.name, old.version, view.version)?;
            let types = |view: &ViewSpec| view.columns.iter().map(|one| (one.ty, one.typmod)).collect::<Vec<_>>();
            if !types(view).starts_with(&types(&old)) {
                return Err(Error::corrupt(format!("view {} loses columns or changes their types", view.name)));
            }
        }
        (CatalogObject::Type(old), CatalogObject::Type(spec)) => check_version(&spec.name, old.version, spec.version)?,
        (CatalogObject::Routine(old), CatalogObject::Routine(routine)) => {
            check_version(&routine.name, old.version, routine.version)?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether the rows of a table are rows of its next version: columns keep their roles and types, fields may be removed, and
/// columns may be added.
fn keeps_rows(old: &Table, next: &Table) -> bool {
    let is_kept = |column: &Column| match next.column_by_id(column.id) {
        Some(now) => (now.ty, now.role) == (column.ty, column.role),
        None => column.role == ColumnRole::Field,
    };
    let is_known = |column: &Column| match old.column_by_id(column.id) {
        Some(_) => true,
        None => (old.next_column_id..next.next_column_id).contains(&column.id) && column.role != ColumnRole::Time,
    };
    old.keyed == next.keyed
        && old.next_column_id <= next.next_column_id
        && old.columns.iter().all(is_kept)
        && next.columns.iter().all(is_known)
}

fn check_version(name: &TableName, old: u32, new: u32) -> Result<()> {
    if old.checked_add(1) == Some(new) {
        return Ok(());
    }
    Err(Error::new(
        model::SqlState::SERIALIZATION_FAILURE,
        format!(
            "relation {name} was altered by another transaction: version {old} seen, {} expected",
            new.saturating_sub(1)
        ),
    )
    .with_hint("run the transaction again"))
}

pub(crate) fn dropped_sequence(id: u32) -> Error {
    Error::new(model::SqlState::UNDEFINED_TABLE, format!("sequence number {id} was dropped by another transaction"))
        .with_hint("run the transaction again")
}

fn expect_object(catalog: &Catalog, key: &ObjectKey) -> Result<CatalogObject> {
    catalog.object(key).ok_or_else(|| match key {
        ObjectKey::Table(id) | ObjectKey::RowTable(id) => dropped(*id),
        key => Error::new(model::SqlState::UNDEFINED_TABLE, format!("{key} was dropped by another transaction"))
            .with_hint("run the transaction again"),
    })
}

/// 42P01 for a table that another transaction dropped.
pub(crate) fn dropped(id: TableId) -> Error {
    Error::new(model::SqlState::UNDEFINED_TABLE, format!("table number {id} was dropped by another transaction"))
        .with_hint("run the transaction again")
}

/// Database versions in use: the newest durable one for all readers, and newer ones for the
/// sessions that committed them.
pub(crate) struct DbVersions(Mutex<Inner>);

struct Inner {
    durable_lsn: Lsn,
    /// The newest version at or below `durable_lsn`.
    durable: Arc<DbVersion>,
    /// Versions above `durable_lsn`, oldest first.
    ahead: VecDeque<Arc<DbVersion>>,
    /// Versions that may still have readers, oldest first; some of the references are dead.
    living: VecDeque<(Lsn, Weak<DbVersion>)>,
    /// Length of `living` at which dead references are removed.
    living_max: usize,
}

/// Lower limit for the number of references kept before dead ones are removed.
const LIVING_MIN: usize = 1_024;

/// Makes the types of a catalog known to the process, before a reader sees the catalog. `before`: the catalog that it replaces.
fn register_types(catalog: &Arc<Catalog>, before: Option<&Arc<Catalog>>) {
    if before.is_some_and(|before| Arc::ptr_eq(before, catalog)) {
        return;
    }
    let is_known = |spec: &&TypeSpecRef| {
        before.and_then(|before| before.type_by_oid(spec.oid)).is_some_and(|old| Arc::ptr_eq(old, spec))
    };
    catalog.types().filter(|spec| !is_known(spec)).for_each(|spec| user_types::register(spec, true));
}

impl DbVersions {
    pub(crate) fn new(db: DbVersion, durable_lsn: Lsn) -> DbVersions {
        assert!(db.lsn <= durable_lsn, "BUG: version {} opened with a log durable up to {durable_lsn}", db.lsn);
        db.check();
        register_types(&db.catalog, None);
        let durable = Arc::new(db);
        let living = VecDeque::from([(durable.lsn, Arc::downgrade(&durable))]);
        DbVersions(Mutex::new(Inner { durable_lsn, durable, ahead: VecDeque::new(), living, living_max: LIVING_MIN }))
    }

    /// Returns the lowest LSN at which any present or future reader reads.
    pub(crate) fn horizon(&self) -> Lsn {
        self.0.lock().horizon()
    }

    /// Returns every LSN at which a reader reads or may yet read, and the wall time of the oldest
    /// version in use that is not the newest.
    pub(crate) fn readers(&self) -> (Readers, Option<i64>) {
        self.0.lock().readers()
    }

    /// Returns the newest version, durable or not. Only the holder of the commit lock may derive
    /// the next version from it.
    pub(crate) fn newest(&self) -> Arc<DbVersion> {
        let inner = self.0.lock();
        Arc::clone(inner.ahead.back().unwrap_or(&inner.durable))
    }

    /// Returns the version for a reader whose own last commit is `seen`: the newest at or below
    /// max(durable, seen).
    pub(crate) fn visible(&self, seen: Lsn) -> Arc<DbVersion> {
        let inner = self.0.lock();
        let ahead = if seen <= inner.durable_lsn { 0 } else { inner.ahead.partition_point(|db| db.lsn <= seen) };
        let db = if ahead == 0 { &inner.durable } else { &inner.ahead[ahead - 1] };
        let most = inner.durable_lsn.max(seen);
        assert!(db.lsn <= most, "BUG: a reader of commits up to {most} would see commit {}", db.lsn);
        Arc::clone(db)
    }

    /// Adds the version of a new commit.
    pub(crate) fn push(&self, db: DbVersion) {
        let mut inner = self.0.lock();
        let newest = inner.ahead.back().unwrap_or(&inner.durable);
        assert!(db.lsn > newest.lsn, "BUG: version {} after {}", db.lsn, newest.lsn);
        assert!(db.wall_ns > newest.wall_ns, "BUG: commit time {} after {}", db.wall_ns, newest.wall_ns);
        assert!(db.catalog_lsn <= db.lsn, "BUG: version {} has the catalog of {}", db.lsn, db.catalog_lsn);
        db.check();
        register_types(&db.catalog, Some(&newest.catalog));
        let db = Arc::new(db);
        inner.remember(&db);
        inner.ahead.push_back(db);
        inner.promote();
    }

    /// Replaces the newest version by an equivalent one (after flush, memtable merge, compaction).
    pub(crate) fn replace_newest(&self, db: DbVersion) {
        let mut inner = self.0.lock();
        let db = Arc::new(db);
        inner.remember(&db);
        let Inner { ahead, durable, .. } = &mut *inner;
        let newest = ahead.back_mut().unwrap_or(durable);
        newest.check_replacement(&db);
        *newest = db;
    }

    /// Notes that the log is durable up to `lsn`.
    pub(crate) fn advance(&self, lsn: Lsn) {
        let mut inner = self.0.lock();
        assert!(lsn >= inner.durable_lsn, "BUG: durable up to {lsn} after {}", inner.durable_lsn);
        inner.durable_lsn = lsn;
        inner.promote();
    }
}

impl Inner {
    fn remember(&mut self, db: &Arc<DbVersion>) {
        if self.living.len() >= self.living_max {
            // A version with a long-lived reader must not keep all later references in the list.
            self.living.retain(|(_, db)| db.strong_count() > 0);
            self.living_max = (2 * self.living.len()).max(LIVING_MIN);
        }
        self.living.push_back((db.lsn, Arc::downgrade(db)));
    }

    fn horizon(&mut self) -> Lsn {
        while let Some((lsn, db)) = self.living.front() {
            if db.strong_count() > 0 {
                return *lsn;
            }
            self.living.pop_front();
        }
        self.ahead.back().unwrap_or(&self.durable).lsn
    }

    /// # Cost
    /// Visits all references in `living`, dead ones too: at most twice the live ones, or
    /// [`LIVING_MIN`].
    fn readers(&mut self) -> (Readers, Option<i64>) {
        let newest = self.ahead.back().unwrap_or(&self.durable).lsn;
        let snapshots: Vec<Lsn> =
            self.living.iter().filter(|(_, db)| db.strong_count() > 0).map(|(lsn, _)| *lsn).collect();
        let oldest = self.living.iter().filter(|(lsn, _)| *lsn < newest).find_map(|(_, db)| db.upgrade());
        debug_assert!(snapshots.is_sorted(), "BUG: versions in use out of commit order");
        debug_assert!(snapshots.last() <= Some(&newest), "BUG: a reader beyond the newest version {newest}");
        (Readers::new(snapshots, newest), oldest.map(|db| db.wall_ns))
    }

    fn promote(&mut self) {
        while self.ahead.front().is_some_and(|db| db.lsn <= self.durable_lsn) {
            if let Some(db) = self.ahead.pop_front() {
                self.durable = db;
            }
        }
        assert!(self.durable.lsn <= self.durable_lsn, "BUG: version {} is visible too early", self.durable.lsn);
    }
}

#[cfg(test)]
mod tests {
    use model::{ColumnId, DataType, ErrorKind, TableOptions};

    use super::*;

    fn table(name: &str) -> Table {
        let column = |id, ty, role| Column { id: ColumnId(id), name: format!("c{id}"), ty, nullable: false, role };
        Table {
            id: TableId(1),
            name: TableName::public(name),
            version: 1,
            keyed: true,
            columns: vec![
                column(0, DataType::Timestamp, ColumnRole::Time),
                column(1, DataType::Float64, ColumnRole::Field),
            ],
            next_column_id: ColumnId(2),
            options: TableOptions::default(),
            rules: Arc::default(),
        }
    }

    /// The bug: a log record that altered a table's name left the table in the catalog under both
    /// names; the fuzzer found it. The fix: the old name is removed, and catalog changes are checked
    /// against what transactions can do.
    #[test]
    fn impossible_catalog_changes_are_refused() {
        let catalog = Catalog::default().with_table(Arc::new(table("t"))).unwrap();
        let altered = |change: &dyn Fn(&mut Table)| {
            let mut next = Table { version: 2, ..table("t") };
            change(&mut next);
            let next = CatalogObject::Table(Arc::new(next));
            apply_ddl(&catalog, &Ddl::Alter(next, NewState::Kept)).map_err(|error| error.kind())
        };
        let altered = |change: &dyn Fn(&mut Table)| altered(change).map(|catalog| catalog.tables().count());
        assert_eq!(altered(&|_| ()), Ok(1));
        assert_eq!(altered(&|table| table.name = TableName::public("u")), Ok(1));
        assert_eq!(altered(&|table| drop(table.columns.pop())), Ok(1));
        assert_eq!(altered(&|table| table.columns[1].nullable = true), Ok(1));
        assert_eq!(altered(&|table| table.keyed = false), Err(ErrorKind::Corrupt));
        assert_eq!(altered(&|table| table.columns[1].ty = DataType::Text), Err(ErrorKind::Corrupt));
        assert_eq!(altered(&|table| drop(table.columns.remove(0))), Err(ErrorKind::Corrupt));
        assert_eq!(altered(&|table| table.columns[1].id = ColumnId(5)), Err(ErrorKind::Corrupt));
        let again = CatalogObject::Table(Arc::new(table("u")));
        let again = apply_ddl(&catalog, &Ddl::Create(again, NewState::Kept));
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
