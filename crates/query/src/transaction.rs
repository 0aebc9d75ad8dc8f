//! BEGIN, COMMIT, ROLLBACK, savepoints, and transaction modes.

use datafusion::sql::sqlparser::ast::{Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode};
use engine::Isolation;
use model::{Error, Result, SqlState};

use crate::session::{Block, Outcome, Session, TxnStatus};
use crate::statement::Parsed;
use crate::syntax_rewrites::folded;

/// Maximum number of savepoints in a transaction.
const SAVEPOINTS_MAX: usize = 10_000;

/// Runs a transaction command, if it can run without waiting. `sql` is the tree of `parsed`.
///
/// # Errors
/// PostgreSQL's errors for a command that is invalid in the current state.
pub(crate) fn at_once(session: &mut Session, parsed: &Parsed, sql: &Statement) -> Result<Option<Outcome>> {
    match sql {
        Statement::StartTransaction { modes, begin, .. } => start(session, parsed, modes, *begin),
        Statement::Rollback { chain, savepoint: None } => rollback(session, *chain),
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

fn start(session: &mut Session, parsed: &Parsed, modes: &[TransactionMode], begin: bool) -> Result<Outcome> {
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
    let set = set_modes(session, modes).and_then(|()| match deferrable(parsed)? {
        Some(deferrable) => set_deferrable(session, deferrable),
        None => Ok(()),
    });
    if let Err(error) = set {
        session.roll_back();
        return Err(error);
    }
    Ok(Outcome::command(tag))
}

/// The value of `[NOT] DEFERRABLE` in BEGIN, SET TRANSACTION and SET SESSION CHARACTERISTICS, which the crate sqlparser
/// does not know: module `syntax` removes it from the tokens.
///
/// # Errors
/// 42601 for a text that is not one statement.
pub(crate) fn deferrable(parsed: &Parsed) -> Result<Option<bool>> {
    use parser::ast::{SetAction, Statement, Transaction, TransactionMode};
    let word = b"deferrable";
    if !parsed.sql.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)) {
        return Ok(None);
    }
    let statement = parser::parse_all(&parsed.sql)?.pop().ok_or_else(|| Error::bug("no statement"))?.statement;
    let modes = match statement {
        Statement::Transaction(Transaction::Begin(modes) | Transaction::Start(modes)) => modes,
        Statement::Set(set) => match set.action {
            SetAction::Transaction(modes) | SetAction::SessionCharacteristics(modes) => modes,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(modes.iter().rev().find_map(|mode| match mode {
        TransactionMode::Deferrable(deferrable) => Some(*deferrable),
        _ => None,
    }))
}

/// Sets `transaction_deferrable` of the current block. The value is only shown: no snapshot of a read-only transaction
/// has to wait here.
///
/// # Errors
/// 25001 after the first statement and after a savepoint.
pub(crate) fn set_deferrable(session: &mut Session, deferrable: bool) -> Result<()> {
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
                    let is_settled = !fresh || !block.savepoints.is_empty();
                    // Reads of a read-only transaction are not recorded for conflict detection.
                    if is_settled && block.read_only && *mode == TransactionAccessMode::ReadWrite {
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
