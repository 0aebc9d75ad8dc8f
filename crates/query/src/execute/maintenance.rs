//! CHECKPOINT, VACUUM and LOCK TABLE: background work done synchronously, and explicit locks. REINDEX, CLUSTER and
//! COMMENT have no effect and send a NOTICE that says so.

use engine::Pending;
use model::{Error, Result, SqlState};
use parser::ast::Name;

use crate::result::Outcome;
use crate::session::Session;
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
        Maintenance::Constraints { deferred } => {
            if *deferred {
                session.notice("SET CONSTRAINTS is ignored: constraints are looked at when a statement ends");
            }
            Ok(Outcome::command("SET CONSTRAINTS"))
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
        Maintenance::Reorder { tag, tables } => {
            check_tables(session, tables)?;
            session.notice(format!("{tag} is ignored: rows and indexes are in order at all times"));
            Ok(Outcome::command(*tag))
        }
        Maintenance::Comment { table } => {
            check_tables(session, table)?;
            session.notice("COMMENT is ignored: comments are not stored");
            Ok(Outcome::command("COMMENT"))
        }
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

/// Waits without holding a thread.
async fn finished(pending: Pending) -> Result<()> {
    crate::session::database::when_set(&pending.event).await;
    pending.result()
}
