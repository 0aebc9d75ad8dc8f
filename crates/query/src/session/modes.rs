//! Modes of a transaction: isolation level, READ ONLY and DEFERRABLE.

use engine::Isolation;
use model::{Error, Result, SqlState};
use parser::ast::{IsolationLevel, TransactionMode};

use super::block::Block;
use crate::session::Session;

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
    pub(crate) fn of(session: &mut Session, command: &str) -> Result<Modes> {
        let block = in_block(session, command)?;
        Ok(Modes { isolation: block.isolation, read_only: block.read_only, deferrable: block.deferrable })
    }

    /// Begins a block with these modes.
    pub(crate) fn begin(self, session: &mut Session) {
        session.begin(false, self.isolation);
        if let Some(block) = &mut session.block {
            (block.read_only, block.deferrable) = (self.read_only, self.deferrable);
        }
    }
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

/// The block of the client.
///
/// # Errors
/// 25P01 outside of one.
pub(crate) fn in_block<'a>(session: &'a mut Session, command: &str) -> Result<&'a mut Block> {
    session.block.as_mut().filter(|block| !block.implicit).ok_or_else(|| {
        let text = format!("{command} can only be used in transaction blocks");
        Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text)
    })
}
