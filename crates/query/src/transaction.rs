//! BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

use datafusion::sql::sqlparser::ast::{Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use engine::Isolation;
use model::{Error, Result, SqlState};

use crate::rewrite::folded;
use crate::session::{Block, Outcome, Session, TxnStatus};

/// Maximum number of savepoints in a transaction.
const SAVEPOINTS_MAX: usize = 10_000;

/// Runs a transaction command, if it can run without waiting.
///
/// # Errors
/// PostgreSQL's errors for a command that is invalid in the current state.
pub(crate) fn at_once(session: &mut Session, sql: &Statement) -> Result<Option<Outcome>> {
    match sql {
        Statement::StartTransaction { modes, begin, .. } => start(session, modes, *begin),
        Statement::Rollback { chain, savepoint: None } => Ok(rollback(session, *chain)),
        Statement::Savepoint { name } => savepoint(session, folded(name)),
        Statement::Rollback { savepoint: Some(name), .. } => roll_back_to(session, &folded(name)),
        Statement::ReleaseSavepoint { name } => release(session, &folded(name)),
        _ => return Ok(None),
    }
    .map(Some)
}

fn savepoint(session: &mut Session, name: String) -> Result<Outcome> {
    let block = in_block(session, "SAVEPOINT")?;
    if block.savepoints.len() >= SAVEPOINTS_MAX {
        return Err(Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("a transaction has at most {SAVEPOINTS_MAX} savepoints"),
        )
        .with_hint("RELEASE those that are needed no longer"));
    }
    session.mark(name);
    Ok(Outcome::command("SAVEPOINT"))
}

fn roll_back_to(session: &mut Session, name: &str) -> Result<Outcome> {
    let block = in_block(session, "ROLLBACK TO SAVEPOINT")?;
    let at = position(block, name)?;
    session.roll_back_to(at)?;
    Ok(Outcome::command("ROLLBACK"))
}

fn release(session: &mut Session, name: &str) -> Result<Outcome> {
    let block = in_block(session, "RELEASE SAVEPOINT")?;
    let at = position(block, name)?;
    block.savepoints.truncate(at);
    session.advisory.release_savepoint(at);
    session.cursors.release(at);
    Ok(Outcome::command("RELEASE"))
}

fn in_block<'a>(session: &'a mut Session, command: &str) -> Result<&'a mut Block> {
    session.block.as_mut().filter(|block| !block.implicit).ok_or_else(|| {
        let text = format!("{command} can only be used in transaction blocks");
        Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text)
    })
}

/// Position of the last savepoint with this name.
fn position(block: &Block, name: &str) -> Result<usize> {
    block.savepoints.iter().rposition(|mark| mark.name == name).ok_or_else(|| {
        let text = format!("savepoint \"{name}\" does not exist");
        Error::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, text)
    })
}

fn start(session: &mut Session, modes: &[TransactionMode], begin: bool) -> Result<Outcome> {
    let tag = if begin { "BEGIN" } else { "START TRANSACTION" };
    match &mut session.block {
        Some(block) if block.implicit => block.implicit = false,
        Some(_) => {
            session.warn(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress");
            return Ok(Outcome::command(tag));
        }
        None => {
            let isolation = session.settings.isolation();
            session.begin(false, isolation);
        }
    }
    if let Err(error) = set_modes(session, modes) {
        session.roll_back();
        return Err(error);
    }
    Ok(Outcome::command(tag))
}

/// Applies the modes of SET TRANSACTION and BEGIN to the current block.
///
/// # Errors
/// 25001 for an isolation level after the first statement, and for READ WRITE after a first statement that
/// was READ ONLY.
pub(crate) fn set_modes(session: &mut Session, modes: &[TransactionMode]) -> Result<()> {
    let fresh = session.is_fresh();
    for mode in modes {
        match mode {
            TransactionMode::IsolationLevel(level) => {
                let level = isolation(*level);
                let Some(block) = &mut session.block else { continue };
                if !block.savepoints.is_empty() && block.isolation != level {
                    return Err(Error::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction",
                    ));
                }
                if !fresh && block.isolation != level {
                    return Err(Error::new(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                    ));
                }
                block.isolation = level;
            }
            TransactionMode::AccessMode(mode) => {
                if let Some(block) = &mut session.block {
                    // Reads of a read-only transaction are not recorded for conflict detection.
                    if !fresh && block.read_only && *mode == TransactionAccessMode::ReadWrite {
                        return Err(Error::new(
                            SqlState::ACTIVE_SQL_TRANSACTION,
                            "transaction read-write mode must be set before any query",
                        ));
                    }
                    block.read_only = *mode == TransactionAccessMode::ReadOnly;
                }
            }
        }
    }
    Ok(())
}

/// Isolation level that Millrace uses for a level; READ UNCOMMITTED is READ COMMITTED, as in PostgreSQL.
fn isolation(level: TransactionIsolationLevel) -> Isolation {
    match level {
        TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
            Isolation::ReadCommitted
        }
        TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => Isolation::RepeatableRead,
        TransactionIsolationLevel::Serializable => Isolation::Serializable,
    }
}

/// Runs COMMIT.
///
/// # Errors
/// Those of [`Session::end_implicit`].
pub(crate) async fn commit(session: &mut Session, chain: bool) -> Result<Outcome> {
    refuse_chain(chain)?;
    match session.status() {
        TxnStatus::Failed => {
            session.roll_back();
            return Ok(Outcome::command("ROLLBACK"));
        }
        TxnStatus::Idle => session.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress"),
        TxnStatus::InBlock => {}
    }
    session.commit().await?;
    Ok(Outcome::command("COMMIT"))
}

fn rollback(session: &mut Session, chain: bool) -> Outcome {
    if session.status() == TxnStatus::Idle {
        session.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
    }
    session.roll_back();
    if chain {
        session.begin(false, Isolation::ReadCommitted);
    }
    Outcome::command("ROLLBACK")
}

fn refuse_chain(chain: bool) -> Result<()> {
    if chain {
        Err(Error::unsupported("COMMIT AND CHAIN is not supported").with_hint("say COMMIT, then BEGIN"))
    } else {
        Ok(())
    }
}
