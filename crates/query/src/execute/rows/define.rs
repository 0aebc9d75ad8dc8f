//! CREATE, ALTER, DROP and TRUNCATE of `rows` tables, their indexes and sequences: executes the changes that
//! `compiled` plans, atomically in the session's transaction.

use std::sync::Arc;

use ::rows::{Access, Entered, IndexData, KeysChecked, RecordId, RowTable};
use compiled::{Change, Definition, Notice, Object, StatementTrigger, Work, statement_triggers};
use engine::{Altered, Event, RowData, SequenceState, Snapshot};
use model::{
    Datum, Deferral, Error, Result, RowForeignKey, RowIndex, RowSchema, RowSchemaRef, SequenceRef, SequenceSpec,
    SqlState, TableId, TableName, TableRef, TriggerEvent, TriggerTiming, TypeSpecRef, ViewRef,
};
use parser::ast::{DropBehavior, Name, ObjectKind, ObjectName, Persistence, Statement, Truncate};

use crate::errors::locate;
use crate::execute::column_constraints::{self, Validation};
use crate::execute::{comment, routine, user_types};
use crate::result::Outcome;
use crate::session::Session;
use crate::session::block::TxnStatus;
use crate::session::clocks::Clocks;
use crate::settings::Settings;
use crate::statement::Parsed;
use crate::tables::Named;

/// Rows visited per epoch guard, so that memory that other threads retire can be freed in between.
const RECORDS_PER_GUARD: u64 = 1_024;

/// Runs a DDL statement on `rows` tables; `None` if the statement is another one.
pub(crate) async fn define(session: &mut Session, parsed: &Parsed, statement: &Statement) -> Result<Option<Outcome>> {
    check_concurrently(session, statement)?;
    match statement {
        Statement::Truncate(truncate) => truncated(session, parsed, truncate).await,
        Statement::Drop(drop) if drop.kind == ObjectKind::Schema => {
            let cascade = drop.behavior == DropBehavior::Cascade;
            for object in &drop.objects {
                if let ObjectName::Name(name) = object {
                    check_schema_of_users(&name.name)?;
                    empty(session, parsed, &name.name, cascade).await?;
                }
            }
            // The schema itself, and its tables of the other store, are dropped after this.
            Ok(None)
        }
        statement => carried_out(session, parsed, statement).await,
    }
}

/// CONCURRENTLY means that nobody waits, so that it is no part of a transaction.
///
/// # Errors
/// 25001 in a transaction block; 0A000 for several indexes, and with CASCADE.
fn check_concurrently(session: &Session, statement: &Statement) -> Result<()> {
    let what = match statement {
        Statement::CreateIndex(create) if create.concurrently => "CREATE INDEX CONCURRENTLY",
        Statement::Drop(drop) if drop.concurrently => {
            if drop.objects.len() > 1 {
                let text = "DROP INDEX CONCURRENTLY does not support dropping multiple objects";
                return Err(Error::unsupported(text));
            }
            if drop.behavior == DropBehavior::Cascade {
                return Err(Error::unsupported("DROP INDEX CONCURRENTLY does not support CASCADE"));
            }
            "DROP INDEX CONCURRENTLY"
        }
        _ => return Ok(()),
    };
    if session.status() == TxnStatus::Idle {
        return Ok(());
    }
    Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, format!("{what} cannot run inside a transaction block")))
}

/// Plans a definition statement; `None` if it is not about `rows` tables.
///
/// # Errors
/// Those of [`compiled::define`].
pub(crate) fn planned(session: &mut Session, statement: &Statement, clocks: &Clocks) -> Result<Option<Definition>> {
    planned_for(session, statement, clocks, None)
}

/// Like [`planned`], with a `columns` table that is taken for one of `rows`.
pub(crate) fn planned_for(
    session: &mut Session,
    statement: &Statement,
    clocks: &Clocks,
    table: Option<&TableRef>,
) -> Result<Option<Definition>> {
    let now = session.now_ns().div_euclid(1_000);
    let given = compiled::Session { check: &|_| Ok(()), now, zone: clocks, numbers: None };
    with_relations(session, |relations| {
        let relations = Relations { altered: table.map(|table| Arc::new(table.as_row_schema())), ..*relations };
        compiled::define(statement, &relations, given)
    })
}

/// A DROP TABLE or TRUNCATE of tables of both stores, as one statement for the `rows` tables and one for the others;
/// `None` for other statements.
pub(crate) fn parts(session: &mut Session, statement: &Statement) -> Option<[Statement; 2]> {
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let named = Named { snapshot: &snapshot, settings: &settings };
    let is_of_rows = |name: &Name| named.find(name).is_some();
    match statement {
        Statement::Drop(drop) if drop.kind == ObjectKind::Table && drop.objects.len() > 1 => {
            let is_of_rows = |object: &ObjectName| matches!(object, ObjectName::Name(name) if is_of_rows(name));
            let (rows, others) = split(&drop.objects, is_of_rows)?;
            let part = |objects| Statement::Drop(Box::new(parser::ast::Drop { objects, ..(**drop).clone() }));
            Some([part(rows), part(others)])
        }
        Statement::Truncate(truncate) if truncate.tables.len() > 1 => {
            let (rows, others) = split(&truncate.tables, |(name, _)| is_of_rows(name))?;
            let part = |tables| Statement::Truncate(Box::new(Truncate { tables, ..(**truncate).clone() }));
            Some([part(rows), part(others)])
        }
        _ => None,
    }
}

/// Splits a list; `None` if either part is empty.
fn split<T: Clone>(list: &[T], is_first: impl Fn(&T) -> bool) -> Option<(Vec<T>, Vec<T>)> {
    let (first, second): (Vec<T>, Vec<T>) = list.iter().cloned().partition(is_first);
    (!first.is_empty() && !second.is_empty()).then_some((first, second))
}

/// Refuses to drop a schema of the system, or of the temporary objects of a session.
///
/// # Errors
/// 2BP01.
fn check_schema_of_users(schema: &str) -> Result<()> {
    if schema.starts_with("pg_") || schema == "information_schema" {
        let text = format!("cannot drop schema {schema} because it is required by the database system");
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text));
    }
    Ok(())
}

/// Drops the views, `rows` tables and sequences of a schema that is about to be dropped.
///
/// # Errors
/// 2BP01 if there are any and `cascade` is false.
async fn empty(session: &mut Session, parsed: &Parsed, schema: &str, cascade: bool) -> Result<()> {
    let snapshot = session.newest();
    let catalog = snapshot.catalog();
    let kind = |view: &ViewRef| match view.materialized {
        Some(_) => ObjectKind::MaterializedView,
        None => ObjectKind::View,
    };
    let views = catalog.views().map(|view| (kind(view), &view.name));
    let plain = catalog.row_tables().filter(|table| catalog.materialized_view(table.id).is_none());
    let tables = plain.map(|table| (ObjectKind::Table, &table.name));
    let alone = catalog.sequences().filter(|spec| spec.owner.is_none());
    let sequences = alone.map(|spec| (ObjectKind::Sequence, &spec.name));
    let types = catalog.types().map(|spec| (ObjectKind::Type, &spec.name));
    let within: Vec<(ObjectKind, &TableName)> =
        views.chain(tables).chain(sequences).chain(types).filter(|(_, name)| name.schema == schema).collect();
    if let Some((kind, first)) = within.first()
        && !cascade
    {
        let text = format!("cannot drop schema {schema} because other objects depend on it");
        let kind = match kind {
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::MaterializedView => "materialized view",
            ObjectKind::Type => "type",
            _ => "sequence",
        };
        let detail = format!("{kind} {first} depends on schema \"{schema}\"");
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(detail)
            .with_hint("use DROP … CASCADE to drop the dependent objects too"));
    }
    let routines: Vec<model::RoutineRef> =
        catalog.routines().filter(|routine| routine.name.schema == schema).cloned().collect();
    if let Some(first) = routines.first()
        && !cascade
    {
        let text = format!("cannot drop schema {schema} because other objects depend on it");
        let what = if first.is_procedure { "procedure" } else { "function" };
        let detail = format!("{what} {schema}.{} depends on schema {schema}", routine::define::shown(first, catalog));
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(detail)
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    // Functions have types and rows of tables as parameters.
    for routine in &routines {
        routine::define::drop_one(session, parsed, routine, true).await?;
    }
    // Views read each other, and tables: they are dropped together, before all others.
    for kind in [ObjectKind::View, ObjectKind::MaterializedView, ObjectKind::Table] {
        // Those that are left: some of the second kind may depend on some of the first. Tables may inherit from each other.
        let now = session.newest();
        let is_left = |name: &&TableName| now.catalog().has_relation(name);
        let of_kind = within.iter().filter(|(other, _)| *other == kind).map(|(_, name)| *name);
        let names: Vec<&TableName> = of_kind.filter(is_left).collect();
        if !names.is_empty() {
            carried_out(session, parsed, &dropping(kind, &names)).await?;
        }
    }
    for (kind, name) in within.iter().filter(|(kind, _)| *kind == ObjectKind::Sequence) {
        carried_out(session, parsed, &dropping(*kind, &[name])).await?;
    }
    // A domain is dropped with the one that it constrains.
    loop {
        let now = session.newest();
        let Some(spec) = now.catalog().types().find(|spec| spec.name.schema == schema).cloned() else { break };
        user_types::drop_one(session, parsed, &spec, true).await?;
    }
    Ok(())
}

/// DROP … CASCADE of objects.
fn dropping(kind: ObjectKind, names: &[&TableName]) -> Statement {
    let object = |name: &&TableName| {
        let qualifier = Box::new([name.schema.as_str().into()]);
        ObjectName::Name(Name { qualifier, name: name.table.as_str().into(), ..Name::default() })
    };
    Statement::Drop(Box::new(parser::ast::Drop {
        kind,
        objects: names.iter().map(object).collect(),
        if_exists: false,
        concurrently: false,
        behavior: DropBehavior::Cascade,
    }))
}

async fn carried_out(session: &mut Session, parsed: &Parsed, statement: &Statement) -> Result<Option<Outcome>> {
    loop {
        let context = session.context_of_newest();
        let clocks = Clocks::with_facts(session, &context);
        let definition = planned(session, statement, &clocks).map_err(|error| locate(error, parsed))?;
        let Some(definition) = definition else { return Ok(None) };
        if !matches!(statement, Statement::Rename(_) | Statement::AlterSchema(_)) {
            check_postponed(session, &definition).map_err(|error| locate(error, parsed))?;
        }
        let savepoint = session.writer()?.savepoint();
        let mut validations = Vec::new();
        let waits = carry_out(session, &definition, &clocks, &mut validations);
        match waits {
            Ok(None) => {}
            // Keep the locks and the place in the lock queue during the wait.
            Ok(Some(_)) => session.writer()?.undo_to(&savepoint)?,
            Err(_) => session.writer()?.roll_back_to(&savepoint)?,
        }
        match waits.map_err(|error| locate(error, parsed))? {
            None => {
                column_constraints::validate(session, parsed, validations).await?;
                definition.notices.iter().for_each(|notice| tell(session, notice));
                return Ok(Some(Outcome::command(definition.tag)));
            }
            Some(event) => crate::session::database::wait(&event, session.settings.lock_timeout()).await?,
        }
    }
}

/// Refuses to change or drop tables with rows that are still to be checked: the change may rewrite the rows or end the
/// constraint.
///
/// # Errors
/// 55006.
fn check_postponed(session: &mut Session, definition: &Definition) -> Result<()> {
    for change in &definition.changes {
        let id = match change {
            Change::Alter { next, .. } => next.id,
            Change::Drop(id) => *id,
            _ => continue,
        };
        refuse_postponed(session, id, definition.tag)?;
    }
    Ok(())
}

/// Error 55006 for a table with a changed row that a deferred constraint is still to check.
fn refuse_postponed(session: &mut Session, id: TableId, tag: &str) -> Result<()> {
    let Some(txn) = session.block.as_mut().and_then(|block| block.txn.as_mut()) else { return Ok(()) };
    if txn.is_empty() || !txn.rows().has_postponed_of(id) && !txn.rows().has_unchecked_keys_of(id) {
        return Ok(());
    }
    let snapshot = session.newest();
    let txn = session.rows_txn()?;
    // Keys that are unique now need no further check.
    let is_of = |table: &RowTable, _: &RowIndex| table.id() == id;
    let is_unique = matches!(txn.check_keys(0, &is_of, &crossbeam_epoch::pin())?, KeysChecked::Unique);
    let is_pending = |table: &RowSchemaRef, key: &RowForeignKey| {
        (table.id == id || key.table == id)
            && key.deferral != Deferral::Never
            && txn.is_deferred(table.id, &key.name, key.deferral == Deferral::Deferred)
    };
    let mut tables = snapshot.catalog().row_tables();
    if is_unique && !tables.any(|table| table.foreign_keys.iter().any(|key| is_pending(table, key))) {
        return Ok(());
    }
    let name = snapshot.catalog().row_table_by_id(id).map_or("", |table| table.name.table.as_str());
    let text = format!("cannot {tag} \"{name}\" because it has pending trigger events");
    Err(Error::new(SqlState("55006"), text))
}

/// Runs TRUNCATE, if the tables it names are `rows` tables.
async fn truncated(session: &mut Session, parsed: &Parsed, truncate: &Truncate) -> Result<Option<Outcome>> {
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let named = Named { snapshot: &snapshot, settings: &settings };
    let found = truncate.tables.iter().map(|(name, _)| named.find(name)).collect::<Option<Vec<_>>>();
    let Some(mut tables) = found else { return Ok(None) };
    if let Some(view) = tables.iter().find_map(|table| snapshot.catalog().materialized_view(table.id())) {
        let text = format!("\"{}\" is not a table", view.name.table);
        return Err(locate(Error::new(SqlState::WRONG_OBJECT_TYPE, text), parsed));
    }
    with_children(&mut tables, truncate, &snapshot).map_err(|error| locate(error, parsed))?;
    if truncate.behavior == DropBehavior::Cascade {
        with_referring(&mut tables, &snapshot, session);
    }
    let ids: Vec<TableId> = tables.iter().map(|table| table.id()).collect();
    let schemas = tables.iter().map(|table| &table.schema);
    let triggers: Vec<StatementTrigger> =
        schemas.flat_map(|schema| statement_triggers(schema, TriggerEvent::Truncate, |_| false)).collect();
    routine::trigger::fire_statement(session, &triggers, TriggerTiming::Before).await?;
    let savepoint = session.writer()?.savepoint();
    for table in &tables {
        // Tables truncated together may reference each other.
        let refers = |other: &&RowSchemaRef| {
            !ids.contains(&other.id) && other.foreign_keys.iter().any(|key| key.table == table.id())
        };
        if let Some(other) = snapshot.catalog().row_tables().find(refers) {
            let text = "cannot truncate a table referenced in a foreign key constraint";
            let (name, referred) = (&other.name.table, &table.schema.name.table);
            return Err(locate(
                Error::unsupported(text)
                    .with_detail(format!("Table \"{name}\" references \"{referred}\"."))
                    .with_hint(format!("Truncate table \"{name}\" at the same time, or use TRUNCATE ... CASCADE.")),
                parsed,
            ));
        }
        refuse_postponed(session, table.id(), "TRUNCATE").map_err(|error| locate(error, parsed))?;
        loop {
            let mut next = (*session.newest().row_table_by_id(table.id())?.schema).clone();
            next.version += 1;
            match session.writer()?.alter_row_table(next, RowData::Discard, &shown)? {
                Altered::Done(_) => break,
                Altered::Wait(event) => {
                    let waited = crate::session::database::wait(&event, session.settings.lock_timeout()).await;
                    if let Err(error) = waited {
                        session.writer()?.roll_back_to(&savepoint)?;
                        return Err(error);
                    }
                }
            }
        }
    }
    if truncate.restart_identity {
        let owned = |spec: &&SequenceRef| spec.owner.as_ref().is_some_and(|owner| ids.contains(&owner.table));
        let sequences: Vec<SequenceRef> = session.newest().catalog().sequences().filter(owned).cloned().collect();
        for spec in sequences {
            alter_sequence(session, &spec, Some(spec.start))?;
        }
    }
    routine::trigger::fire_statement(session, &triggers, TriggerTiming::After).await?;
    Ok(Some(Outcome::command("TRUNCATE TABLE")))
}

/// Adds the tables that inherit from those that are named without ONLY.
///
/// # Errors
/// 42809 for ONLY of a partitioned table.
fn with_children(tables: &mut Vec<Arc<RowTable>>, truncate: &Truncate, snapshot: &Snapshot) -> Result<()> {
    let mut only = Vec::new();
    for ((_, is_only), table) in truncate.tables.iter().zip(tables.iter()) {
        if !is_only {
            continue;
        }
        if table.schema.lineage.key.is_some() {
            let error = Error::new(SqlState::WRONG_OBJECT_TYPE, "cannot truncate only a partitioned table");
            let hint = "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.";
            return Err(error.with_hint(hint));
        }
        only.push(table.id());
    }
    let mut at = 0;
    while let Some(table) = tables.get(at).cloned() {
        at += 1;
        if only.contains(&table.id()) {
            continue;
        }
        for id in &table.schema.lineage.children {
            if tables.iter().all(|known| known.id() != *id) {
                tables.push(Arc::clone(snapshot.row_table_by_id(*id)?));
            }
        }
    }
    Ok(())
}

/// Adds all tables that reference any of `tables`, directly or indirectly.
fn with_referring(tables: &mut Vec<Arc<RowTable>>, snapshot: &Snapshot, session: &mut Session) {
    let mut at = 0;
    while let Some(id) = tables.get(at).map(|table| table.id()) {
        for schema in snapshot.catalog().row_tables() {
            if schema.foreign_keys.iter().any(|key| key.table == id)
                && tables.iter().all(|known| known.id() != schema.id)
                && let Ok(table) = snapshot.row_table_by_id(schema.id)
            {
                session.notice(format!("truncate cascades to table \"{}\"", schema.name.table));
                tables.push(Arc::clone(table));
            }
        }
        at += 1;
    }
}

/// Sends a notice of a definition.
pub(crate) fn tell(session: &mut Session, notice: &Notice) {
    let text = Error::new(SqlState("00000"), notice.message.clone());
    session.notices.push(match &notice.detail {
        Some(detail) => text.with_detail(detail.clone()),
        None => text,
    });
}

pub(crate) fn with_relations<T>(session: &mut Session, ask: impl FnOnce(&Relations<'_>) -> T) -> T {
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let engine = session.database.engine().clone();
    let random = || engine.env().random();
    ask(&Relations {
        snapshot: &snapshot,
        settings: &settings,
        numbers: &|| engine.next_number(),
        random: &random,
        altered: None,
    })
}

/// The name of a new relation.
///
/// # Errors
/// Those of [`compiled::new_relation`].
pub(crate) fn new_relation(session: &mut Session, name: &Name, persistence: Persistence) -> Result<TableName> {
    with_relations(session, |relations| compiled::new_relation(name, persistence, relations))
}

/// Catalog lookups for DDL.
pub(crate) struct Relations<'a> {
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    numbers: &'a dyn Fn() -> u32,
    random: &'a dyn Fn() -> u64,
    /// A `columns` table that is altered, as one of `rows`.
    altered: Option<RowSchemaRef>,
}

impl Relations<'_> {
    fn altered(&self, name: &TableName) -> Option<&RowSchemaRef> {
        self.altered.as_ref().filter(|table| table.name == *name)
    }
}

impl compiled::Catalog for Relations<'_> {
    fn current_schema(&self) -> String {
        let catalog = self.snapshot.catalog();
        let mut path = self.settings.creation_path().into_iter();
        path.find(|schema| catalog.has_schema(schema)).unwrap_or_else(|| "public".to_owned())
    }

    fn search_path(&self) -> Vec<String> {
        self.settings.search_path()
    }

    fn schema(&self, qualifier: &str) -> String {
        self.settings.schema(qualifier).to_owned()
    }

    fn is_schema(&self, name: &str) -> bool {
        self.snapshot.catalog().has_schema(name)
    }

    fn table(&self, name: &TableName) -> Option<RowSchemaRef> {
        self.snapshot.catalog().row_table(name).or_else(|| self.altered(name)).cloned()
    }

    fn tables(&self) -> Vec<RowSchemaRef> {
        // Expressions of `columns` tables use sequences and types, too.
        let catalog = self.snapshot.catalog();
        catalog.row_tables().chain(catalog.tables_with_rules()).cloned().collect()
    }

    fn sequence(&self, name: &TableName) -> Option<SequenceRef> {
        self.snapshot.catalog().sequence(name).cloned()
    }

    fn sequences(&self) -> Vec<SequenceRef> {
        self.snapshot.catalog().sequences().cloned().collect()
    }

    fn is_other(&self, name: &TableName) -> bool {
        self.snapshot.catalog().table(name).is_some() && self.altered(name).is_none()
    }

    fn view(&self, name: &TableName) -> Option<ViewRef> {
        self.snapshot.catalog().view(name).cloned()
    }

    fn materialized_view(&self, table: TableId) -> Option<ViewRef> {
        self.snapshot.catalog().materialized_view(table).cloned()
    }

    fn user_type(&self, name: &TableName) -> Option<TypeSpecRef> {
        self.snapshot.catalog().user_type(name).cloned()
    }

    fn user_types(&self) -> Vec<TypeSpecRef> {
        self.snapshot.catalog().types().cloned().collect()
    }

    fn views(&self) -> Vec<ViewRef> {
        self.snapshot.catalog().views().cloned().collect()
    }

    fn random(&self) -> u64 {
        (self.random)()
    }

    fn dependent_views(&self, objects: &[u32]) -> Vec<ViewRef> {
        // Views name columns of `columns` tables by numbers that are no positions: `alter_table` checks them.
        match &self.altered {
            Some(table) if objects.contains(&table.id.0) => Vec::new(),
            _ => self.snapshot.catalog().dependent_views(objects),
        }
    }

    fn next_id(&self, _of: Object) -> u32 {
        (self.numbers)()
    }

    fn by_id(&self, id: TableId) -> Option<RowSchemaRef> {
        let altered = self.altered.as_ref().filter(|table| table.id == id);
        self.snapshot.catalog().row_table_by_id(id).or(altered).cloned()
    }
}

/// Executes the changes. Returns an event to wait for; the caller must then undo the changes, wait and retry.
fn carry_out(
    session: &mut Session,
    definition: &Definition,
    clocks: &Clocks,
    validations: &mut Vec<Validation>,
) -> Result<Option<Event>> {
    for change in &definition.changes {
        let waits = match change {
            Change::Create(schema) => match lock_referred(session, schema.id, &schema.foreign_keys)? {
                Some(event) => Some(event),
                None => session.writer()?.create_row_table(schema.clone()).map(|_| None)?,
            },
            Change::Alter { next, work } if session.newest().catalog().table_by_id(next.id).is_some() => {
                validations.extend(column_constraints::install(session, next, work)?);
                None
            }
            Change::Alter { next, work } => alter(session, next, work, clocks)?,
            Change::Drop(id) => match session.writer()?.drop_row_table(*id)? {
                Altered::Done(()) => None,
                Altered::Wait(event) => Some(event),
            },
            Change::CreateSequence(spec) => {
                session.writer()?.create_sequence(Arc::new(spec.clone()))?;
                None
            }
            Change::AlterSequence { next, restart } => {
                alter_sequence(session, next, *restart)?;
                None
            }
            Change::DropSequence(id) => {
                session.writer()?.drop_sequence(*id)?;
                None
            }
            Change::AlterView(view) => {
                session.writer()?.alter_view(Arc::new(view.clone()))?;
                None
            }
            Change::DropView(id) => {
                session.writer()?.drop_view(*id)?;
                None
            }
            Change::CreateType(spec) => {
                session.writer()?.create_type(Arc::new(spec.clone()))?;
                None
            }
            Change::AlterType(spec) => {
                session.writer()?.alter_type(Arc::new(spec.clone()))?;
                None
            }
        };
        if waits.is_some() {
            return Ok(waits);
        }
    }
    Ok(None)
}

fn alter_sequence(session: &mut Session, next: &SequenceSpec, restart: Option<i64>) -> Result<()> {
    let restart = restart.map(|last| SequenceState { last, is_called: false });
    session.writer()?.alter_sequence(Arc::new(next.clone()), restart)
}

fn alter(session: &mut Session, next: &RowSchema, work: &[Work], clocks: &Clocks) -> Result<Option<Event>> {
    let before = Arc::clone(&session.newest().row_table_by_id(next.id)?.schema);
    let rewritten = match work.iter().find(|one| matches!(one, Work::Rewrite(_))) {
        Some(Work::Rewrite(rewrite)) => match rewritten(session, next.id, rewrite, work, clocks)? {
            Ok(rows) => Some(rows),
            Err(event) => return Ok(Some(event)),
        },
        _ => None,
    };
    let is_rewritten = rewritten.is_some();
    if !is_rewritten && let Some(event) = check_new_key(session, &before, next, work, clocks)? {
        return Ok(Some(event));
    }
    let data = if is_rewritten { RowData::Discard } else { RowData::Keep };
    let table = match session.writer()?.alter_row_table(next.clone(), data, &shown)? {
        Altered::Done(table) => table,
        Altered::Wait(event) => return Ok(Some(event)),
    };
    comment::keep(session, &before, next)?;
    let written = session.writer()?.rows().changes_len();
    for row in rewritten.into_iter().flatten() {
        let guard = crossbeam_epoch::pin();
        for one in work {
            if let Work::NotNull(column) = one
                && table.layout.field(&row, *column)?.is_null()
            {
                return Err(one.violated(&table.schema));
            }
        }
        match session.writer()?.rows().insert(&table, row, &guard)? {
            ::rows::Put::Done(_) => {}
            ::rows::Put::Duplicate { index, .. } => return Err(twice(&table, index)),
            ::rows::Put::Wait(event) => return Ok(Some(event)),
        }
    }
    // A rewrite makes the indexes anew, and a deferred constraint has no duplicates then.
    match session.writer()?.rows().check_keys(written, &|_, _| true, &crossbeam_epoch::pin())? {
        KeysChecked::Unique => {}
        KeysChecked::Duplicate { table, index, .. } => return Err(twice(&table, Some(index))),
        KeysChecked::Wait(event) => return Ok(Some(event)),
    }
    for one in work.iter().filter(|one| !(is_rewritten && matches!(one, Work::Partition(_)))) {
        if let Work::ForeignKey(key) = one
            && let Some(event) = lock_referred(session, next.id, std::slice::from_ref(key))?
        {
            return Ok(Some(event));
        }
        check(session, &table, one, clocks)?;
    }
    Ok(None)
}

/// Checks the columns of a new primary key for NULLs before its index is built, which has no NULLs; returns an event to wait
/// for if other transactions are writing to the table.
fn check_new_key(
    session: &mut Session,
    before: &RowSchema,
    next: &RowSchema,
    work: &[Work],
    clocks: &Clocks,
) -> Result<Option<Event>> {
    if next.primary.is_none() || next.primary == before.primary {
        return Ok(None);
    }
    let table = Arc::clone(session.newest().row_table_by_id(next.id)?);
    if let Some(event) = enter_alone(session, &table)? {
        return Ok(Some(event));
    }
    for one in work {
        match one {
            Work::NotNull(column) if *column < before.columns.len() => check(session, &table, one, clocks)?,
            // Rows that are there have a new column's default, or NULL.
            Work::NotNull(column) if next.columns[*column].missing.is_none() => {
                let mut has_rows = false;
                every(session, &table, one, |_, _, _| {
                    has_rows = true;
                    Ok(true)
                })?;
                if has_rows {
                    return Err(one.violated(next));
                }
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Locks a table against all other transactions; returns an event to wait for if they are writing to it.
fn enter_alone(session: &mut Session, table: &Arc<RowTable>) -> Result<Option<Event>> {
    match session.writer()?.rows().enter(table, Access::Alone)? {
        Entered::In => Ok(None),
        Entered::Wait(event) => Ok(Some(event)),
        Entered::Changed => {
            Err(Error::new(SqlState::SERIALIZATION_FAILURE, "the table was altered by another transaction")
                .with_hint("run the transaction again"))
        }
    }
}

/// Locks the tables that new foreign keys of a table reference until the end of the transaction: writers that do not know the
/// keys would remove referenced rows.
fn lock_referred(session: &mut Session, own: TableId, keys: &[RowForeignKey]) -> Result<Option<Event>> {
    for key in keys.iter().filter(|key| key.table != own) {
        if let Altered::Wait(event) = session.writer()?.lock_row_table(key.table)? {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

fn twice(table: &RowTable, index: Option<usize>) -> Error {
    let index = match index {
        Some(at) => table.schema.secondary.get(at),
        None => table.schema.primary.as_ref(),
    };
    let name = index.map_or("", |index| index.name.as_str());
    let text = format!("could not create unique index \"{name}\"");
    Error::new(SqlState::UNIQUE_VIOLATION, text).about_constraint(&table.schema.name, name)
}

/// Rewrites all rows of a table for a DDL statement; returns an event to wait for if other transactions are
/// writing to it.
fn rewritten(
    session: &mut Session,
    id: TableId,
    rewrite: &compiled::Rewrite,
    work: &[Work],
    clocks: &Clocks,
) -> Result<std::result::Result<Vec<Box<[u8]>>, Event>> {
    let now = session.now_ns().div_euclid(1_000);
    let table = Arc::clone(session.newest().row_table_by_id(id)?);
    if let Some(event) = enter_alone(session, &table)? {
        return Ok(Err(event));
    }
    // Bounds are conditions on the rows as they are.
    for one in work.iter().filter(|one| matches!(one, Work::Partition(_))) {
        check(session, &table, one, clocks)?;
    }
    let given = compiled::Session { check: &|_| Ok(()), now, zone: clocks, numbers: None };
    let mut all = Vec::new();
    let env = Arc::clone(session.database.engine().env());
    let txn = session.writer()?;
    for record in 0..table.records.bound() {
        let old = {
            let guard = crossbeam_epoch::pin();
            txn.rows().newest(&table, RecordId(record), &guard)?.map(<[u8]>::to_vec)
        };
        let Some(old) = old else { continue };
        let mut row = Vec::new();
        let mut next = |sequence| match txn.next_value(sequence)? {
            engine::NextValue::Value { value, .. } => Ok(value),
            engine::NextValue::Wait(_) => Err(Error::new(SqlState::OUT_OF_MEMORY, "the log is busy; try again")),
        };
        rewrite.row(&old, given, &mut next, &|| env.random(), &mut row)?;
        all.push(row.into());
    }
    Ok(Ok(all))
}

/// Checks that all rows satisfy a new constraint.
fn check(session: &mut Session, table: &Arc<RowTable>, work: &Work, clocks: &Clocks) -> Result<()> {
    let now = session.now_ns().div_euclid(1_000);
    let given = compiled::Session { check: &|_| Ok(()), now, zone: clocks, numbers: None };
    match work {
        Work::Rewrite(_) | Work::Build(_) => Ok(()),
        Work::NotNull(column) => {
            every(session, table, work, |_, _, row| Ok(!table.layout.field(row, *column)?.is_null()))
        }
        Work::DomainNull(column, _) => {
            every(session, table, work, |_, _, row| Ok(!table.layout.field(row, *column)?.is_null()))
        }
        Work::Check(condition) | Work::Domain(condition, _) => {
            every(session, table, work, |_, _, row| condition.holds(row, given))
        }
        Work::Partition(condition) => every(session, table, work, |_, _, row| condition.holds(row, given)),
        Work::ForeignKey(key) => {
            let referred = match key.table == table.id() {
                true => Arc::clone(table),
                false => Arc::clone(session.newest().row_table_by_id(key.table)?),
            };
            every(session, table, work, |txn, guard, row| has_referred(txn, guard, table, &referred, key, row))
        }
    }
}

/// Whether the row referenced by a foreign key exists, or the key is NULL.
fn has_referred(
    txn: &::rows::Txn,
    guard: &crossbeam_epoch::Guard,
    table: &RowTable,
    referred: &RowTable,
    key: &RowForeignKey,
    row: &[u8],
) -> Result<bool> {
    let values: Vec<Datum<'_>> = key.columns.iter().map(|at| table.layout.field(row, *at)).collect::<Result<_>>()?;
    if values.iter().any(Datum::is_null) {
        return Ok(!key.match_full || values.iter().all(Datum::is_null));
    }
    let primary = referred.primary.iter().map(|index| (None, index));
    let secondary = referred.secondary.iter().enumerate().map(|(at, index)| (Some(at), index));
    let is_referred = |index: &IndexData| {
        let def = index.def();
        let is_over = def.columns.len() == key.referred.len() && def.columns.iter().all(|at| key.referred.contains(at));
        def.unique && def.predicate.is_none() && is_over
    };
    let Some((at, index)) = primary.chain(secondary).find(|(_, index)| is_referred(index)) else {
        return Err(Error::bug("a foreign key without an index that it refers to"));
    };
    let mut bytes = Vec::new();
    // The index may have its columns in another order than the key.
    for (to, column) in index.def().columns.iter().zip(index.keys()) {
        let value = key.referred.iter().position(|referred| referred == to).and_then(|at| values.get(at));
        let value = value.cloned().unwrap_or_default();
        // A value out of range for the referenced column is in none of its rows.
        let Ok(value) = ::rows::coerce(referred.schema.columns[*to].ty, value) else { return Ok(false) };
        ::rows::key::push(&mut bytes, column, &value)?;
    }
    txn.has_key(referred, at, &bytes, guard)
}

fn every(
    session: &mut Session,
    table: &Arc<RowTable>,
    work: &Work,
    mut holds: impl FnMut(&::rows::Txn, &crossbeam_epoch::Guard, &[u8]) -> Result<bool>,
) -> Result<()> {
    let txn = session.writer()?.rows();
    let bound = table.records.bound();
    for first in (0..bound).step_by(RECORDS_PER_GUARD as usize) {
        let guard = crossbeam_epoch::pin();
        for record in first..bound.min(first + RECORDS_PER_GUARD) {
            if let Some(row) = txn.newest(table, RecordId(record), &guard)?
                && !holds(txn, &guard, row)?
            {
                return Err(work.violated(&table.schema));
            }
        }
    }
    Ok(())
}

/// Formats a value for an error's detail.
fn shown(datum: &Datum<'_>) -> String {
    let mut out = Vec::new();
    let ty = model::Type::Text;
    match datum {
        Datum::Null => return "null".to_owned(),
        // Types without a variant of their own.
        Datum::Oid(_)
        | Datum::TimeTz(_)
        | Datum::Bits(_)
        | Datum::Network(_)
        | Datum::Mac(_)
        | Datum::Array(_)
        | Datum::Record(_)
        | Datum::Range(_)
        | Datum::Multirange(_)
        | Datum::Geometry(_) => {
            let (arena, session) = (bumpalo::Bump::new(), scalar::Session::default());
            return scalar::shown(datum, &scalar::Context { arena: &arena, session: &session });
        }
        datum => pg::row_value::write(&mut out, datum, ty, pg::Form::Text, &mut |_| 0),
    }
    String::from_utf8_lossy(&out).into_owned()
}
