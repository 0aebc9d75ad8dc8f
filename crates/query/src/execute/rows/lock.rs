//! LOCK TABLE: acquires explicitly the table locks that writers, row lockers and DDL take.

use std::sync::Arc;

use ::rows::{Access, Entered, RowTable};
use model::{Error, Result, SqlState};
use parser::ast::Name;

use crate::session::Session;
use crate::session::database::wait;
use crate::statement::maintenance::LockMode;
use crate::tables::Named;

/// Locks tables in the order in which they are named, until the end of the transaction; each, unless with ONLY, before the
/// tables that inherit from it.
///
/// - `names`: names, and whether with ONLY.
///
/// # Errors
/// 25P01 outside a transaction; 42P01; 0A000 for a `columns` table unless the mode is ACCESS SHARE; 55P03 for
/// a conflicting lock after `lock_timeout`, or at once with `nowait`; 40P01.
pub(crate) async fn lock_tables(
    session: &mut Session,
    names: &[(Name, bool)],
    mode: LockMode,
    nowait: bool,
) -> Result<()> {
    if session.block.is_none() {
        let text = "LOCK TABLE can only be used in transaction blocks";
        return Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text));
    }
    let access = match mode {
        LockMode::AccessShare | LockMode::Shared => Access::Shared,
        LockMode::Alone => Access::Alone,
    };
    let patience = session.settings.lock_timeout();
    for (name, only) in names {
        let Some(table) = find(session, name)? else {
            // Readers of a `columns` table take no lock. pg_dump locks every table that it dumps in this
            // mode.
            if mode == LockMode::AccessShare {
                continue;
            }
            return Err(Error::unsupported(format!("LOCK TABLE is not supported on columns tables and views: {name}"))
                .with_hint("writers of a columns table do not wait for each other"));
        };
        let mut ids = vec![table.id()];
        let mut at = 0;
        while let Some(id) = ids.get(at).copied() {
            // A descendant may have been dropped in the meantime; a table that is named must exist.
            let table = match at {
                0 => find(session, name)?,
                _ => session.newest().row_table_by_id(id).ok().cloned(),
            };
            let Some(table) = table else {
                at += 1;
                continue;
            };
            match session.rows_txn()?.enter(&table, access)? {
                Entered::In => {
                    at += 1;
                    // Known when the table is locked: others may not change it any more.
                    for child in table.schema.lineage.children.iter().filter(|_| !only) {
                        if !ids.contains(child) {
                            ids.push(*child);
                        }
                    }
                }
                Entered::Wait(_) if nowait => {
                    let text = format!("could not obtain lock on relation \"{}\"", table.schema.name.table);
                    return Err(Error::new(SqlState::LOCK_NOT_AVAILABLE, text));
                }
                Entered::Wait(event) => wait(&event, patience).await?,
                // The table has been altered in the meantime: again.
                Entered::Changed => {}
            }
        }
    }
    Ok(())
}

/// Finds the `rows` table of this name; `None` for a `columns` table or a view.
///
/// # Errors
/// 42P01.
fn find(session: &mut Session, name: &Name) -> Result<Option<Arc<RowTable>>> {
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let named = Named { snapshot: &snapshot, settings: &settings };
    if let Some(table) = named.find(name) {
        return Ok(Some(table));
    }
    let context = session.context();
    if named.view(name).is_none() {
        crate::tables::find_table(&context, name)?;
    }
    Ok(None)
}
