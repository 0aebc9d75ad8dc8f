//! BEGIN, COMMIT, ROLLBACK and what they say of isolation.

use datafusion::sql::sqlparser::ast::{Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use engine::Isolation;
use model::{Error, Result, SqlState};

use crate::session::{Outcome, Session, TxnStatus};

/// Runs a transaction command.
pub(crate) async fn execute(session: &mut Session, sql: &Statement) -> Result<Outcome> {
    match sql {
        Statement::StartTransaction { modes, begin, .. } => start(session, modes, *begin),
        Statement::Commit { chain, .. } => commit(session, *chain).await,
        Statement::Rollback { chain, savepoint: None } => Ok(rollback(session, *chain)),
        _ => Err(Error::unsupported("savepoints are not supported yet")
            .with_hint("split the work into transactions of its own, or run it again from the start when it fails")),
    }
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
            let isolation = default_isolation(session);
            session.begin(false, isolation);
        }
    }
    if let Err(error) = set_modes(session, modes) {
        session.roll_back();
        return Err(error);
    }
    Ok(Outcome::command(tag))
}

fn default_isolation(session: &Session) -> Isolation {
    match session.settings.get("default_transaction_isolation").as_deref() {
        Some("repeatable read") => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    }
}

/// What SET TRANSACTION and BEGIN say of the running block.
///
/// # Errors
/// 0A000 for SERIALIZABLE; 25001 for a level after the first statement.
pub(crate) fn set_modes(session: &mut Session, modes: &[TransactionMode]) -> Result<()> {
    let fresh = session.is_fresh();
    for mode in modes {
        match mode {
            TransactionMode::IsolationLevel(level) => {
                let level = isolation(*level)?;
                let Some(block) = &mut session.block else { continue };
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
                    block.read_only = *mode == TransactionAccessMode::ReadOnly;
                }
            }
        }
    }
    Ok(())
}

/// The isolation we give for a level; the weakest one PostgreSQL strengthens too.
pub(crate) fn isolation(level: TransactionIsolationLevel) -> Result<Isolation> {
    match level {
        TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
            Ok(Isolation::ReadCommitted)
        }
        TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => {
            Ok(Isolation::RepeatableRead)
        }
        TransactionIsolationLevel::Serializable => Err(Error::unsupported(
            "isolation level SERIALIZABLE is not supported yet",
        )
        .with_hint("use REPEATABLE READ: all statements of the transaction read one snapshot, and later commits win")),
    }
}

async fn commit(session: &mut Session, chain: bool) -> Result<Outcome> {
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
