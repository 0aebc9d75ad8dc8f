//! Temporary objects: they are in a schema of the session, `pg_temp_` with its number, which is created with the first one.
//! The engine neither logs them nor writes them to a checkpoint. A commit may empty or drop tables (`ON COMMIT`), and the end
//! of the session drops all.

use std::sync::Arc;

use engine::{Altered, Catalog, Event, Isolation, RowData, Txn};
use model::{Error, Result, RowSchema, RowSchemaRef, TEMPORARY_SCHEMA, TableId};
use parser::ast::OnCommit;

use super::assign::change;
use super::database::{Database, wait};
use crate::session::Session;
use crate::settings::Settings;
use crate::threads::computing;

/// Temporary objects to drop.
#[derive(Default)]
struct Doomed {
    tables: Vec<TableId>,
    sequences: Vec<u32>,
    views: Vec<u32>,
    routines: Vec<u32>,
}

impl Doomed {
    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.sequences.is_empty() && self.views.is_empty() && self.routines.is_empty()
    }
}

impl Session {
    /// Creates the schema of temporary objects, unless it exists.
    pub(crate) fn create_temporary_schema(&mut self) -> Result<()> {
        let schema = format!("{TEMPORARY_SCHEMA}{}", self.pid);
        let exists = self.newest().catalog().has_schema(&schema);
        if exists && self.settings.temporary().is_some() {
            return Ok(());
        }
        if !exists {
            self.writer()?.create_schema(&schema)?;
        }
        // A rollback takes back the schema and the settings.
        change(self, false, |settings| {
            settings.set_temporary(&schema);
            Ok(())
        })
    }

    /// Notes what commits do to a new temporary table.
    pub(crate) fn note_on_commit(&mut self, table: TableId, action: OnCommit) {
        if action != OnCommit::PreserveRows {
            self.on_commit.push((table, action));
        }
    }

    /// Empties and drops the tables with `ON COMMIT DELETE ROWS` and `ON COMMIT DROP`.
    ///
    /// # Errors
    /// 0A000 for a table that is emptied while another refers to it.
    pub(super) async fn act_on_commit(&mut self) -> Result<()> {
        let catalog = Arc::clone(self.newest().catalog());
        let (mut doomed, mut emptied) = (Doomed::default(), Vec::new());
        // Not those that were dropped, or whose creation was rolled back.
        for (table, action) in self.on_commit.iter().filter(|(table, _)| catalog.row_table_by_id(*table).is_some()) {
            match action {
                OnCommit::PreserveRows => {}
                OnCommit::Drop => doomed.tables.push(*table),
                OnCommit::DeleteRows => emptied.push(*table),
            }
        }
        for table in &emptied {
            check_referring(&catalog, *table, &[&emptied[..], &doomed.tables[..]].concat())?;
            let is_empty = self.newest().row_table_by_id(*table)?.records.bound() == 0;
            if !is_empty {
                self.alter_row_table(*table, RowData::Discard, |_| {}).await?;
            }
        }
        self.drop_temporary(doomed).await
    }

    /// Forgets the tables of `ON COMMIT` that are gone.
    pub(super) fn settle_on_commit(&mut self) {
        if !self.on_commit.is_empty() {
            let catalog = Arc::clone(self.newest().catalog());
            self.on_commit.retain(|(table, _)| catalog.row_table_by_id(*table).is_some());
        }
    }

    /// Drops all temporary objects of the session, in the open transaction.
    pub(crate) async fn discard_temporary(&mut self) -> Result<()> {
        let Some(schema) = self.settings.temporary().cloned() else { return Ok(()) };
        let doomed = self.doomed(&schema, usize::MAX);
        self.drop_temporary(doomed).await
    }

    /// At most `most` objects of each kind of a schema.
    fn doomed(&mut self, schema: &str, most: usize) -> Doomed {
        let snapshot = self.newest();
        let catalog = snapshot.catalog();
        let tables = catalog.row_tables().filter(|table| *table.name.schema == *schema).map(|table| table.id);
        let sequences = catalog.sequences().filter(|one| *one.name.schema == *schema && one.owner.is_none());
        let views = catalog.views().filter(|view| *view.name.schema == *schema).map(|view| view.id);
        let routines = catalog.routines().filter(|routine| *routine.name.schema == *schema);
        Doomed {
            tables: tables.take(most).collect(),
            sequences: sequences.map(|sequence| sequence.id).take(most).collect(),
            views: views.take(most).collect(),
            routines: routines.map(|routine| routine.id).take(most).collect(),
        }
    }

    /// Drops objects, with the tables that inherit from them, the views and sequences that need them, and the foreign keys
    /// that refer to them.
    async fn drop_temporary(&mut self, doomed: Doomed) -> Result<()> {
        let Doomed { mut tables, mut sequences, views, routines } = doomed;
        let snapshot = self.newest();
        let catalog = snapshot.catalog();
        with_children(catalog, &mut tables);
        let read: Vec<u32> = tables.iter().map(|table| table.0).chain(views.iter().copied()).collect();
        let mut all = catalog.dependent_views(&read);
        all.extend(views.into_iter().filter_map(|view| catalog.view_by_id(view).cloned()));
        while let Some(last) = all.iter().rposition(|view| all.iter().all(|other| other.reference(view.id).is_none())) {
            self.own_writer()?.drop_view(all.swap_remove(last).id)?;
        }
        let owned = catalog.sequences().filter(|one| one.owner.is_some_and(|owner| tables.contains(&owner.table)));
        sequences.extend(owned.map(|sequence| sequence.id));
        let refers = |schema: &RowSchema| {
            let mut children = schema.lineage.children.iter();
            schema.foreign_keys.iter().any(|key| tables.contains(&key.table)) || children.any(|id| tables.contains(id))
        };
        let referring = catalog.row_tables().filter(|schema| !tables.contains(&schema.id) && refers(schema));
        for table in referring.map(|schema| schema.id).collect::<Vec<_>>() {
            self.alter_row_table(table, RowData::Keep, |next| {
                next.foreign_keys.retain(|key| !tables.contains(&key.table));
                next.lineage.children.retain(|id| !tables.contains(id));
            })
            .await?;
        }
        for table in tables {
            while let Altered::Wait(event) = self.own_writer()?.drop_row_table(table)? {
                self.wait_for(&event).await?;
            }
        }
        for sequence in sequences {
            self.own_writer()?.drop_sequence(sequence)?;
        }
        for routine in routines {
            self.own_writer()?.drop_routine(routine)?;
        }
        Ok(())
    }

    pub(crate) async fn alter_row_table(
        &mut self,
        table: TableId,
        rows: RowData,
        change: impl Fn(&mut RowSchema),
    ) -> Result<()> {
        loop {
            let mut next = (*self.newest().row_table_by_id(table)?.schema).clone();
            next.version += 1;
            change(&mut next);
            match self.own_writer()?.alter_row_table(next, rows, &|_| String::new())? {
                Altered::Done(_) => return Ok(()),
                Altered::Wait(event) => self.wait_for(&event).await?,
            }
        }
    }

    /// The transaction, also a read-only one: temporary objects are no data of the database.
    fn own_writer(&mut self) -> Result<&mut Txn> {
        self.txn().ok_or_else(|| Error::bug("a change of temporary objects outside a transaction"))
    }

    async fn wait_for(&self, event: &Event) -> Result<()> {
        wait(event, self.settings.lock_timeout()).await
    }
}

/// Adds the tables that inherit from others, and partitions.
fn with_children(catalog: &Catalog, tables: &mut Vec<TableId>) {
    let mut at = 0;
    while let Some(id) = tables.get(at) {
        let children = catalog.row_table_by_id(*id).map(|table| table.lineage.children.clone()).unwrap_or_default();
        let more: Vec<TableId> = children.into_iter().filter(|child| !tables.contains(child)).collect();
        tables.extend(more);
        at += 1;
    }
}

/// Checks that the tables that refer to one that is emptied are emptied or dropped too.
fn check_referring(catalog: &Catalog, table: TableId, with: &[TableId]) -> Result<()> {
    let refers =
        |schema: &&RowSchemaRef| !with.contains(&schema.id) && schema.foreign_keys.iter().any(|key| key.table == table);
    let Some(other) = catalog.row_tables().find(refers) else { return Ok(()) };
    let name = catalog.row_table_by_id(table).map_or("", |table| &table.name.table);
    let detail = format!(
        "Table \"{}\" references \"{name}\", but they do not have the same ON COMMIT setting.",
        other.name.table
    );
    Err(Error::unsupported("unsupported ON COMMIT and foreign key combination").with_detail(detail))
}

/// Drops the temporary objects of a session that has ended, and their schema.
pub(super) fn drop_all_later(database: &Database, user: &str, settings: &Settings) {
    let Some(schema) = settings.temporary().cloned() else { return };
    let mut settings = settings.clone();
    settings.forget_temporary();
    // Nobody waits for it, and after a crash there is nothing to drop. Any value of the setting is valid.
    let _ = settings.set("synchronous_commit", "off");
    let mut last = database.session_with(user, Arc::new(settings));
    let work = async move {
        // It fails when the database is being closed: then they are gone with the process.
        let _ = last.drop_temporary_schema(&schema).await;
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn(computing(Box::pin(work)))),
        Err(_) => futures::executor::block_on(work),
    }
}

/// Objects that one commit drops at the end of a session: others wait for a commit.
const DROPPED_AT_ONCE: usize = 100;
/// Attempts to drop them, while other sessions drop some too.
const ATTEMPTS: usize = 10;

impl Session {
    async fn drop_temporary_schema(&mut self, schema: &str) -> Result<()> {
        let mut attempts = ATTEMPTS;
        loop {
            match self.drop_some(schema).await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.roll_back();
                    attempts -= 1;
                    if attempts == 0 {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Drops some objects of the schema, or the empty schema. False if it does not exist.
    async fn drop_some(&mut self, schema: &str) -> Result<bool> {
        self.begin(true, Isolation::ReadCommitted);
        if !self.newest().catalog().has_schema(schema) {
            self.roll_back();
            return Ok(false);
        }
        let doomed = self.doomed(schema, DROPPED_AT_ONCE);
        let is_last = doomed.is_empty();
        self.drop_temporary(doomed).await?;
        if is_last {
            self.own_writer()?.drop_schema(schema)?;
        }
        self.end_implicit().await?;
        Ok(!is_last)
    }
}
