//! CHECKPOINT, VACUUM and LOCK TABLE: background work done synchronously, and explicit locks. REINDEX and
//! CLUSTER have no effect and send a NOTICE that says so; SET CONSTRAINTS.

use engine::Pending;
use model::{Error, Result, SqlState};
use parser::ast::{Name, ReindexKind};

use crate::result::Outcome;
use crate::session::Session;
use crate::session::block::TxnStatus;
use crate::session::context::DATABASE;
use crate::statement::maintenance::Maintenance;
use crate::tables::{Named, find_table};

/// Checks that the tables exist, in either store, or are views.
///
/// # Errors
/// 42P01.
fn check_tables<'a>(session: &mut Session, tables: impl IntoIterator<Item = &'a Name>) -> Result<()> {
    // Dropped before any wait: a snapshot keeps files and memory alive.
    let context = session.context();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let columns = tables.into_iter().filter(|table| named.find(table).is_none() && named.view(table).is_none());
    columns.map(|table| find_table(&context, table)).try_for_each(|found| found.map(drop))
}

/// Whether a name means a relation of `pg_catalog` or `information_schema`. `pg_catalog` is searched first.
fn is_system(name: &Name) -> bool {
    match name.schema() {
        None => pg_catalog::system_relation("pg_catalog", &name.name).is_some(),
        Some(schema @ ("pg_catalog" | "information_schema")) => {
            pg_catalog::system_relation(schema, &name.name).is_some()
        }
        Some(_) => false,
    }
}

/// Runs a maintenance statement.
///
/// # Errors
/// The error of the flush or compaction, whose inputs are kept; 42P01 for a table that does not exist; 25001 for VACUUM
/// in a transaction block.
pub(crate) async fn execute(session: &mut Session, maintenance: &Maintenance) -> Result<Outcome> {
    let database = session.database().clone();
    let engine = database.engine();
    match maintenance {
        Maintenance::Constraints { names, deferred } => {
            Box::pin(super::rows::set_constraints(session, names, *deferred)).await
        }
        Maintenance::Compress { table, if_exists } => {
            match find_table(&session.context(), table) {
                Err(error) if *if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                    session.notice(format!("{}, skipping", error.message()));
                    return Ok(Outcome::command("ALTER TABLE"));
                }
                found => found?,
            };
            session.notice(format!("hypertable \"{table}\" is always compressed: its options are ignored"));
            Ok(Outcome::command("ALTER TABLE"))
        }
        Maintenance::Cluster { tables } => {
            check_tables(session, tables)?;
            session.notice("CLUSTER is ignored: rows and indexes are in order at all times");
            Ok(Outcome::command("CLUSTER"))
        }
        Maintenance::Reindex { kind, name, concurrently } => reindex(session, *kind, name, *concurrently),
        Maintenance::Checkpoint => {
            finished(engine.start_flush()).await?;
            Ok(Outcome::command("CHECKPOINT"))
        }
        Maintenance::Lock { tables, mode, nowait } => {
            super::rows::lock_tables(session, tables, *mode, *nowait).await?;
            Ok(Outcome::command("LOCK TABLE"))
        }
        Maintenance::Analyze { tables } => {
            check_tables(session, tables.iter().filter(|table| !is_system(table)))?;
            Ok(Outcome::command("ANALYZE"))
        }
        Maintenance::Vacuum { full, tables } => {
            if session.block.is_some() {
                let message = "VACUUM cannot run inside a transaction block";
                return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            // vacuumdb also names system catalogs, which are not stored.
            check_tables(session, tables.iter().filter(|table| !is_system(table)))?;
            if *full {
                finished(engine.start_flush()).await?;
                finished(engine.start_settle()).await?;
            }
            Ok(Outcome::command("VACUUM"))
        }
    }
}

/// REINDEX changes nothing: indexes are kept in memory, and built from the rows when the database is opened.
///
/// # Errors
/// 42P01 for a relation that does not exist, 42809 for one of another kind, 3F000 for a schema; 25001 in a transaction
/// block.
fn reindex(session: &mut Session, kind: ReindexKind, name: &Name, concurrently: bool) -> Result<Outcome> {
    let what = match kind {
        _ if concurrently => Some("CONCURRENTLY"),
        ReindexKind::Schema => Some("SCHEMA"),
        ReindexKind::Database => Some("DATABASE"),
        ReindexKind::System => Some("SYSTEM"),
        ReindexKind::Table | ReindexKind::Index => None,
    };
    if let Some(what) = what.filter(|_| session.status() != TxnStatus::Idle) {
        let text = format!("REINDEX {what} cannot run inside a transaction block");
        return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, text));
    }
    match kind {
        ReindexKind::Table => check_tables(session, [name])?,
        ReindexKind::Index => check_index(session, name)?,
        ReindexKind::Schema if !session.context().reads.snapshot.catalog().has_schema(&name.name) => {
            let text = format!("schema \"{}\" does not exist", name.name);
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
        }
        ReindexKind::Database | ReindexKind::System if *name.name != *DATABASE => {
            return Err(Error::unsupported("can only reindex the currently open database"));
        }
        _ => {}
    }
    session.notice("REINDEX has nothing to do: indexes are in memory, and built from the rows at each start");
    Ok(Outcome::command("REINDEX"))
}

/// Checks that an index exists.
fn check_index(session: &mut Session, name: &Name) -> Result<()> {
    let context = session.context();
    let catalog = context.reads.snapshot.catalog();
    let schemas = match name.schema() {
        Some(schema) => vec![schema.to_string()],
        None => context.settings.search_path(),
    };
    let has = |schema: &String| {
        let mut tables = catalog.row_tables().filter(|table| table.name.schema == *schema);
        tables.any(|table| table.primary.iter().chain(&table.secondary).any(|index| *index.name == *name.name))
    };
    if schemas.iter().any(has) {
        return Ok(());
    }
    let is_other = schemas
        .iter()
        .any(|schema| catalog.has_relation(&model::TableName { schema: schema.clone(), table: name.name.to_string() }));
    Err(match is_other {
        true => Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not an index", name.name)),
        false => Error::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", name.name)),
    })
}

/// Waits without holding a thread.
async fn finished(pending: Pending) -> Result<()> {
    crate::session::database::when_set(&pending.event).await;
    pending.result()
}
