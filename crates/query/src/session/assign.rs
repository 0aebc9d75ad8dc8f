//! Changes of settings by SET, `set_config` and RESET.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{IsolationLevel, TransactionMode};

use super::modes::set_modes;
use crate::session::Session;
use crate::settings::Settings;

/// Sets a setting; `local`: until the transaction ends.
///
/// # Errors
/// 42704 for an unknown setting, 22023 for an invalid value; those of [`set_modes`].
pub(crate) fn assign(session: &mut Session, name: &str, value: &str, local: bool) -> Result<()> {
    let mode = match name.to_ascii_lowercase().as_str() {
        "transaction_isolation" => TransactionMode::Isolation(match value.to_ascii_lowercase().as_str() {
            "serializable" => IsolationLevel::Serializable,
            "repeatable read" => IsolationLevel::RepeatableRead,
            "read committed" => IsolationLevel::ReadCommitted,
            "read uncommitted" => IsolationLevel::ReadUncommitted,
            _ => {
                let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
                    .with_hint("Available values: serializable, repeatable read, read committed, read uncommitted."));
            }
        }),
        "transaction_read_only" => TransactionMode::ReadOnly(switch(name, value)?),
        "transaction_deferrable" => TransactionMode::Deferrable(switch(name, value)?),
        _ => return change(session, local, |settings| settings.set(name, value)),
    };
    set_modes(session, &[mode])
}

fn switch(name: &str, value: &str) -> Result<bool> {
    pg::value::parse_bool(value).map_err(|_| {
        let text = format!("parameter \"{name}\" requires a Boolean value");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
    })
}

/// Changes the current settings and, unless `local`, the settings that COMMIT keeps.
pub(crate) fn change(session: &mut Session, local: bool, change: impl Fn(&mut Settings) -> Result<()>) -> Result<()> {
    match &mut session.block {
        None if local => {
            session.warn(SqlState::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
            return Ok(());
        }
        Some(block) if !local => change(Arc::make_mut(&mut block.after))?,
        _ => {}
    }
    change(Arc::make_mut(&mut session.settings))
}
