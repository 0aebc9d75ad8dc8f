//! Cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor reads the snapshot at its DECLARE. Rows are produced on FETCH and discarded. DECLARE materialises the rows
//! of:
//! - SCROLL and WITH HOLD cursors;
//! - cursors that lock rows;
//! - cursors in a transaction that has written, because the snapshot does not keep later writes out;
//! - any further cursor while `PASSING_MAX` cursors of the database stream their rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::StreamExt;
use model::{Error, Result, SqlState};
use pg_catalog::facts::OpenCursor;
use relational::results::Batches;
use relational::types::Value;
use tokio::sync::Mutex;

use super::{query, routine, rows};
use crate::plan::rows::Verb;
use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Executed, Outcome};
use crate::session::Session;
use crate::session::cursors::{Cursor, Kept, Life, Passing, Rows, elsewhere, failed, unknown};
use crate::statement::cursor::{CursorStatement, Direction};

/// Maximum number of open cursors of a session.
const CURSORS_MAX: usize = 10_000;

/// Runs FETCH, MOVE or CLOSE.
pub(crate) async fn execute(session: &mut Session, statement: &CursorStatement) -> Result<Outcome> {
    match statement {
        CursorStatement::Fetch { name, direction, only_move } => {
            let ended = Arc::new(AtomicBool::new(false));
            session.fetching = Some((name.clone(), Arc::clone(&ended)));
            match fetch(name, session.cursors.get_mut(name)?, *direction, *only_move).await? {
                Outcome::Rows { columns, batches, tag } => {
                    let end = futures::stream::poll_fn(move |_| {
                        ended.store(true, Ordering::Release);
                        Poll::Ready(None)
                    });
                    Ok(Outcome::Rows { columns, batches: Box::pin(batches.chain(end)), tag })
                }
                outcome => {
                    ended.store(true, Ordering::Release);
                    Ok(outcome)
                }
            }
        }
        CursorStatement::Close(Some(name)) if session.cursors.close(name) => Ok(Outcome::command("CLOSE CURSOR")),
        CursorStatement::Close(Some(name)) => Err(unknown(name)),
        CursorStatement::Close(None) => {
            session.cursors.close_all();
            Ok(Outcome::command("CLOSE CURSOR ALL"))
        }
        CursorStatement::Declare { .. } => Err(Error::bug("a cursor declared without its query")),
    }
}

/// Runs DECLARE. `query` is the planned query of the cursor.
pub(crate) async fn declare(
    session: &mut Session,
    (statement, sql): (&CursorStatement, &str),
    query: &Prepared,
    values: &[Value],
) -> Result<Outcome> {
    let CursorStatement::Declare { name, scroll, hold, .. } = statement else {
        return Err(Error::bug("a query of a cursor that is not declared"));
    };
    let Some(block) = &session.block else {
        return Err(Error::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    };
    let savepoints = block.savepoints.len();
    if session.cursors.0.contains_key(name) {
        return Err(Error::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
    }
    if session.cursors.0.len() >= CURSORS_MAX {
        return Err(Error::new(
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!("this session has {CURSORS_MAX} cursors already"),
        ));
    }
    let mut locks = false;
    let executed = match &query.0.plan {
        Plan::Rows(plan) if plan.changes_in_with() => {
            let text = "DECLARE CURSOR must not contain data-modifying statements in WITH";
            return Err(Error::unsupported(text));
        }
        Plan::Rows(plan) if plan.verb == Verb::Select => {
            locks = !plan.is_read_only();
            rows::execute(session, query, plan, Arguments::Values(values), None).await?
        }
        Plan::Query(_) => Executed::Outcome(query::execute(session, query, values).await?),
        Plan::Row(plan) => {
            Executed::Outcome(Box::pin(routine::call::execute_rows(session, query, plan, values)).await?)
        }
        _ => {
            return Err(Error::unsupported(
                "DECLARE CURSOR must not contain pg_sleep, advisory locks or data-modifying statements",
            ));
        }
    };
    let Executed::Outcome(Outcome::Rows { columns, batches, .. }) = executed else {
        return Err(Error::bug("a query without rows"));
    };
    let shows_own = session.txn().is_some_and(|txn| !txn.is_empty());
    let keeps = *scroll || *hold || shows_own || locks;
    let rows = match session.database.passing().filter(|_| !keeps) {
        Some(room) => Rows::Passing(Arc::new(Mutex::new(Passing::new(batches, room)))),
        None => {
            let held = session.database.runtime().reserved("cursor");
            Rows::Kept(Kept::of(batches, held, *scroll).await?)
        }
    };
    let life = if *hold { Life::Hold { savepoints } } else { Life::Transaction { savepoints } };
    let shown = OpenCursor {
        name: name.clone(),
        statement: sql.to_owned(),
        holdable: *hold,
        scrollable: *scroll,
        created_ns: session.database.engine().env().now_ns(),
    };
    session.cursors.0.insert(name.clone(), Cursor { columns, rows, life, shown });
    Ok(Outcome::command("DECLARE CURSOR"))
}

async fn fetch(name: &str, cursor: &mut Cursor, direction: Direction, only_move: bool) -> Result<Outcome> {
    let columns = cursor.columns.clone();
    let moved = |rows: u64| Ok(Outcome::command(format!("MOVE {rows}")));
    let batches: Batches = match &mut cursor.rows {
        Rows::Kept(kept) => {
            let fetched = kept.fetch(direction)?;
            if only_move {
                return moved(fetched.rows());
            }
            let rows = kept.rows(&fetched);
            Box::pin(futures::stream::iter(rows))
        }
        Rows::Passing(passing) => {
            let (skipped, rows) = passing.lock().await.way(name, direction)?;
            if skipped > 0 {
                elsewhere(counted(Passing::rows(passing, skipped))).await?;
            }
            Passing::rows(passing, rows)
        }
        Rows::Failed => return Err(failed(name)),
    };
    if only_move {
        return moved(elsewhere(counted(batches)).await?);
    }
    Ok(Outcome::Rows { columns, batches, tag: "FETCH".into() })
}

async fn counted(mut batches: Batches) -> Result<u64> {
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}
