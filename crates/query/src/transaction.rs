//! BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

use engine::Isolation;
use model::{Error, Result, SqlState};
use parser::ast::{IsolationLevel, Transaction, TransactionMode};

use crate::session::{Block, Outcome, Session, TxnStatus};

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

/// Sets `transaction_deferrable` of the current block. The value is only shown: no snapshot of a read-only transaction
/// has to wait here.
///
/// # Errors
/// 25001 after the first statement and after a savepoint.
fn set_deferrable(session: &mut Session, deferrable: bool) -> Result<()> {
    let fresh = session.is_fresh();
    let Some(block) = &mut session.block else { return Ok(()) };
    let refused = |text: &str| Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, text));
    if !block.savepoints.is_empty() {
        return refused("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction");
    }
    if !fresh {
        return refused("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
    }
    block.deferrable = deferrable;
    Ok(())
}

/// Applies the modes of SET TRANSACTION and BEGIN to the current block.
///
/// # Errors
/// 25001 for an isolation level after the first statement, and for READ WRITE in a READ ONLY transaction after its first
/// statement or a savepoint.
pub(crate) fn set_modes(session: &mut Session, modes: &[TransactionMode]) -> Result<()> {
    let fresh = session.is_fresh();
    for mode in modes {
        match mode {
            TransactionMode::Isolation(level) => {
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
            TransactionMode::Deferrable(deferrable) => set_deferrable(session, *deferrable)?,
            TransactionMode::ReadOnly(read_only) => {
                if let Some(block) = &mut session.block {
                    let is_settled = !fresh || !block.savepoints.is_empty();
                    // Reads of a read-only transaction are not recorded for conflict detection.
                    if is_settled && block.read_only && !read_only {
                        return Err(Error::new(
                            SqlState::ACTIVE_SQL_TRANSACTION,
                            "transaction read-write mode must be set before any query",
                        ));
                    }
                    block.read_only = *read_only;
                }
            }
        }
    }
    Ok(())
}

/// Isolation level that Millrace uses for a level; READ UNCOMMITTED is READ COMMITTED, as in PostgreSQL.
fn isolation(level: IsolationLevel) -> Isolation {
    match level {
        IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
        IsolationLevel::Serializable => Isolation::Serializable,
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

/// Modes of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modes {
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    pub(crate) deferrable: bool,
}

impl Modes {
    /// The value of `transaction_isolation` and its like; `None` for other settings.
    pub(crate) fn shown(&self, name: &str) -> Option<&'static str> {
        let switch = |is_on: bool| if is_on { "on" } else { "off" };
        Some(match name.to_ascii_lowercase().as_str() {
            "transaction_isolation" => match self.isolation {
                Isolation::ReadCommitted => "read committed",
                Isolation::RepeatableRead => "repeatable read",
                Isolation::Serializable => "serializable",
            },
            "transaction_read_only" => switch(self.read_only),
            "transaction_deferrable" => switch(self.deferrable),
            _ => return None,
        })
    }

    /// Modes of the current block.
    ///
    /// # Errors
    /// 25P01 outside a transaction block.
    fn of(session: &mut Session, command: &str) -> Result<Modes> {
        let block = in_block(session, command)?;
        Ok(Modes { isolation: block.isolation, read_only: block.read_only, deferrable: block.deferrable })
    }

    /// Begins a block with these modes.
    fn begin(self, session: &mut Session) {
        session.begin(false, self.isolation);
        if let Some(block) = &mut session.block {
            (block.read_only, block.deferrable) = (self.read_only, self.deferrable);
        }
    }
}
