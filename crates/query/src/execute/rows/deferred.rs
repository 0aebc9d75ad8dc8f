//! Deferred constraints: SET CONSTRAINTS, and their checks at COMMIT.

use std::sync::Arc;

use engine::Catalog;
use model::{Deferral, Error, Result, RowForeignKey, RowSchemaRef, SqlState, TableId};
use parser::ast::Name;

use super::run::within;
use crate::result::Outcome;
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::database::wait;
use crate::tables::Named;

/// Runs SET CONSTRAINTS; without names, of all constraints. IMMEDIATE checks what was left to the end.
///
/// # Errors
/// 42704 for a constraint that does not exist, 42809 for one that is not deferrable; 23503 and 23505 for a row that violates
/// one.
pub(crate) async fn set_constraints(session: &mut Session, names: &[Name], deferred: bool) -> Result<Outcome> {
    let chosen = names.iter().map(|name| chosen(session, name)).collect::<Result<Vec<_>>>()?.concat();
    if session.block.is_none() {
        session.warn(SqlState("25P01"), "SET CONSTRAINTS can only be used in transaction blocks".to_owned());
        return Ok(Outcome::command("SET CONSTRAINTS"));
    }
    let txn = session.rows_txn()?;
    if names.is_empty() {
        txn.defer_all(deferred);
    }
    for (table, name) in &chosen {
        txn.defer(*table, name, deferred);
    }
    if !deferred {
        let is_chosen = |table: TableId, key: &RowForeignKey| {
            names.is_empty() || chosen.iter().any(|(id, name)| *id == table && *name == key.name)
        };
        // Others that are immediate were checked with their statements.
        check_keys(session, false).await?;
        check(session, &is_chosen).await?;
    }
    Ok(Outcome::command("SET CONSTRAINTS"))
}

/// The deferrable constraints of a name: all of that name in the first schema that has one.
fn chosen(session: &mut Session, name: &Name) -> Result<Vec<(TableId, String)>> {
    let snapshot = session.newest();
    let schemas = match name.schema() {
        Some(schema) => vec![schema.to_string()],
        None => session.settings.search_path(),
    };
    for schema in schemas {
        let tables = snapshot.catalog().row_tables().filter(|table| table.name.schema == schema);
        let (mut found, mut exists) = (Vec::new(), false);
        for table in tables {
            let own = |other: &str| other == name.name.as_str();
            for (index, _) in table.indexes().filter(|(index, _)| index.constraint && own(&index.name)) {
                exists = true;
                if index.is_deferrable() {
                    found.push((table.id, index.name.clone()));
                    add_partitions(snapshot.catalog(), table, index.id, &mut found);
                }
            }
            exists |= table.checks.iter().any(|check| own(&check.name));
            for key in table.foreign_keys.iter().filter(|key| own(&key.name)) {
                exists = true;
                if key.deferral != Deferral::Never {
                    found.push((table.id, key.name.clone()));
                }
            }
        }
        if exists && found.is_empty() {
            let text = format!("constraint \"{}\" is not deferrable", name.name);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        if exists {
            return Ok(found);
        }
    }
    let text = format!("constraint \"{}\" does not exist", name.name);
    Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
}

/// Adds the constraints of partitions that belong to one of the partitioned table.
fn add_partitions(catalog: &Catalog, table: &RowSchemaRef, index: u32, found: &mut Vec<(TableId, String)>) {
    for child in table.lineage.children.iter().filter_map(|id| catalog.row_table_by_id(*id)) {
        let Some(of_child) = child.lineage.index_of(index) else { continue };
        let name = child.indexes().find(|(own, _)| own.id == of_child).map(|(own, _)| own.name.clone());
        found.extend(name.map(|name| (child.id, name)));
        add_partitions(catalog, child, of_child, found);
    }
}

/// Checks all deferrable constraints at the end of the transaction. Their modes do not matter: a mode may have been changed
/// without a check of the rows that were changed before, by a constraint's new name.
///
/// # Errors
/// 23503 and 23505 for a row that violates one.
pub(crate) async fn check_deferred(session: &mut Session) -> Result<()> {
    check_keys(session, true).await?;
    check(session, &|_, _| true).await
}

/// Checks deferrable keys, `all` or those that are not deferred now.
async fn check_keys(session: &mut Session, all: bool) -> Result<()> {
    while session.rows_txn()?.has_unchecked_keys() {
        let context = session.context_of_newest();
        let clocks = Clocks::with_facts(session, &context);
        let is_done = |checked: &Result<_>| matches!(checked, Ok(Ok(())));
        let checked = within(session, &clocks, is_done, |txn, given, guard| match all {
            true => compiled::check_all_keys(txn, given.zone, guard),
            false => compiled::check_keys(txn, 0, given.zone, guard),
        })?;
        drop((context, clocks));
        match checked? {
            Ok(()) => break,
            Err(event) => wait(&event, session.settings.lock_timeout()).await?,
        }
    }
    Ok(())
}

async fn check(session: &mut Session, which: &(dyn Fn(TableId, &RowForeignKey) -> bool + Sync)) -> Result<()> {
    loop {
        let event = {
            let context = session.context_of_newest();
            let clocks = Clocks::with_facts(session, &context);
            let snapshot = session.newest();
            let settings = Arc::clone(&session.settings);
            let named = Named { snapshot: &snapshot, settings: &settings };
            let is_done = |checked: &Result<_>| matches!(checked, Ok(Ok(())));
            let checked = within(session, &clocks, is_done, |txn, given, guard| {
                compiled::check_postponed(txn, &named, which, given, guard)
            })?;
            match checked? {
                Ok(()) => return Ok(()),
                Err(event) => event,
            }
        };
        wait(&event, session.settings.lock_timeout()).await?;
    }
}
