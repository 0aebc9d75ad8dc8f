//! BEGIN, COMMIT, ROLLBACK and savepoints.

use model::{Error, Result, SqlState};
use parser::ast::{Transaction, TransactionMode};

use super::rows::check_deferred;
use crate::result::Outcome;
use crate::session::Session;
use crate::session::block::{Block, TxnStatus};
use crate::session::modes::{Modes, in_block, set_modes};

/// Maximum number of savepoints in a transaction.
const SAVEPOINTS_MAX: usize = 10_000;

/// Runs a transaction command, if it can run without waiting.
///
/// # Errors
/// PostgreSQL's errors for a command that is invalid in the current state; 0A000 for two-phase commit.
pub(crate) fn at_once(session: &mut Session, command: &Transaction) -> Result<Option<Outcome>> {
    match command {
        Transaction::Begin(modes) => start(session, modes, "BEGIN"),
        Transaction::Start(modes) => start(session, modes, "START TRANSACTION"),
        Transaction::Commit { .. } => return Ok(None),
        Transaction::Rollback { chain } => rollback(session, *chain),
        Transaction::Savepoint(name) => savepoint(session, name.to_string()),
        Transaction::RollbackTo(name) => roll_back_to(session, name),
        Transaction::Release(name) => release(session, name),
        Transaction::Prepare(_) => Err(Error::unsupported("PREPARE TRANSACTION is not supported")),
        Transaction::CommitPrepared(_) => Err(Error::unsupported("COMMIT PREPARED is not supported")),
        Transaction::RollbackPrepared(_) => Err(Error::unsupported("ROLLBACK PREPARED is not supported")),
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
    block.release(at);
    session.advisory.release_savepoint(at);
    session.outbox.lock().release_savepoint(at);
    session.cursors.release(at);
    Ok(Outcome::command("RELEASE"))
}

/// Position of the last savepoint with this name.
fn position(block: &Block, name: &str) -> Result<usize> {
    block.savepoints.iter().rposition(|mark| mark.name == name).ok_or_else(|| {
        let text = format!("savepoint \"{name}\" does not exist");
        Error::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, text)
    })
}

fn start(session: &mut Session, modes: &[TransactionMode], tag: &'static str) -> Result<Outcome> {
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

impl Session {
    /// Commits the implicit transaction, if there still is one.
    ///
    /// # Errors
    /// Those of a commit; the transaction is then rolled back or, for 58030, its outcome is unknown.
    pub async fn end_implicit(&mut self) -> Result<()> {
        match &self.block {
            Some(block) if block.implicit => self.commit().await,
            _ => Ok(()),
        }
    }

    /// Commits the block of a COPY that ran outside a transaction.
    pub(crate) async fn end_single(&mut self) -> Result<()> {
        match &self.block {
            Some(block) if block.single => self.commit().await,
            _ => Ok(()),
        }
    }

    /// Commits the block, after the checks of deferred constraints.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        let txn = self.block.as_mut().and_then(|block| block.txn.as_mut());
        if txn.is_some_and(|txn| !txn.is_empty() && txn.rows().has_postponed())
            && let Err(error) = Box::pin(check_deferred(self)).await
        {
            self.roll_back();
            return Err(error);
        }
        self.commit_checked().await
    }
}

/// Runs COMMIT.
///
/// # Errors
/// 25P01 for AND CHAIN outside a transaction block; those of [`Session::end_implicit`].
pub(crate) async fn commit(session: &mut Session, chain: bool) -> Result<Outcome> {
    let next = if chain { Some(Modes::of(session, "COMMIT AND CHAIN")?) } else { None };
    let tag = match session.status() {
        TxnStatus::Failed => {
            session.roll_back();
            "ROLLBACK"
        }
        status => {
            if status == TxnStatus::Idle {
                session.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
            }
            session.commit().await?;
            "COMMIT"
        }
    };
    if let Some(modes) = next {
        modes.begin(session);
    }
    Ok(Outcome::command(tag))
}

fn rollback(session: &mut Session, chain: bool) -> Result<Outcome> {
    let next = if chain { Some(Modes::of(session, "ROLLBACK AND CHAIN")?) } else { None };
    if session.status() == TxnStatus::Idle {
        session.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress");
    }
    session.roll_back();
    if let Some(modes) = next {
        modes.begin(session);
    }
    Ok(Outcome::command("ROLLBACK"))
}
