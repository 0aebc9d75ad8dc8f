//! SET, SHOW, RESET and DISCARD.

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{
    Discard, IsolationLevel, Name, NumericValue, Set, SetAction, SetScope, SetValue, Show, TransactionMode,
};

use crate::plan::show_columns;
use crate::result::{Outcome, text_rows};
use crate::session::Session;
use crate::session::assign::{assign, change};
use crate::session::block::TxnStatus;
use crate::session::modes::set_modes;

/// SET and RESET in all their forms.
pub(crate) fn set(session: &mut Session, set: &Set) -> Result<Outcome> {
    let local = set.scope == SetScope::Local;
    match &set.action {
        SetAction::Values(name, values) => set_values(session, name, values, local)?,
        SetAction::Default(name) => reset_one(session, name, local)?,
        SetAction::Transaction(modes) => {
            if session.block.as_ref().is_none_or(|block| block.implicit) {
                session.warn(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION can only be used in transaction blocks",
                );
            }
            set_modes(session, modes)?;
        }
        SetAction::SessionCharacteristics(modes) => set_characteristics(session, modes)?,
        SetAction::TransactionSnapshot(_) => {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT is not supported"));
        }
        SetAction::Current(name) => {
            return Err(Error::unsupported(format!("SET {name} FROM CURRENT is not supported")));
        }
        SetAction::Reset(name) => {
            reset_one(session, name, false)?;
            return Ok(Outcome::command("RESET"));
        }
        SetAction::ResetAll => {
            change(session, false, |settings| {
                settings.reset_all();
                Ok(())
            })?;
            return Ok(Outcome::command("RESET"));
        }
    }
    Ok(Outcome::command("SET"))
}

fn set_values(session: &mut Session, name: &str, values: &[SetValue], local: bool) -> Result<()> {
    if let [SetValue::Interval(text, _)] = values {
        let seconds = pg::time::parse_interval(text).ok().map(|span| span.micros / 1_000_000);
        let zone = seconds.and_then(|seconds| crate::zone::Zone::setting_of_offset(i32::try_from(seconds).ok()?));
        return assign(session, name, &zone.map_or_else(|| text.to_string(), |(zone, _)| zone), local);
    }
    let texts: Vec<String> = values.iter().map(text_of).collect();
    if is_role(name) {
        return set_role(session, name, texts.first().map_or("", String::as_str), local);
    }
    // Each value is the name of one schema, whatever characters are in it.
    let texts = if name == "search_path" { texts.into_iter().map(quoted).collect() } else { texts };
    assign(session, name, &texts.join(", "), local)
}

/// SET ROLE and SET SESSION AUTHORIZATION: the session's own role is the only one to act as. Programs that set the role again
/// which they found, such as Flyway, name it.
///
/// # Errors
/// 22023 for another role.
fn set_role(session: &mut Session, name: &str, role: &str, local: bool) -> Result<()> {
    let is_setting = name == "role";
    if is_setting && role.eq_ignore_ascii_case("none") {
        return reset_one(session, name, local);
    }
    if session.setting("session_authorization").as_deref() != Some(role) {
        let text = format!("role \"{role}\" does not exist");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
            .with_hint("The session's own role is the only one; every user has all privileges."));
    }
    if is_setting { assign(session, name, role, local) } else { Ok(()) }
}

/// An identifier, quoted where necessary.
fn quoted(name: String) -> String {
    Name { name: name.into(), ..Name::default() }.to_string()
}

/// Whether the name is that of a setting for the current role.
fn is_role(name: &str) -> bool {
    matches!(name, "role" | "session_authorization")
}

fn reset_one(session: &mut Session, name: &str, local: bool) -> Result<()> {
    match name {
        // That of the connection.
        "session_authorization" => Ok(()),
        _ => change(session, local, |settings| settings.reset(name)),
    }
}

fn text_of(value: &SetValue) -> String {
    match value {
        SetValue::Text(text) | SetValue::Interval(text, _) | SetValue::Number(NumericValue::Number(text)) => {
            text.to_string()
        }
        SetValue::Number(NumericValue::Integer(number)) => number.to_string(),
    }
}

fn set_characteristics(session: &mut Session, modes: &[TransactionMode]) -> Result<()> {
    let switch = |is_on: bool| if is_on { "on" } else { "off" };
    for mode in modes {
        let (name, value) = match mode {
            TransactionMode::Isolation(level) => ("default_transaction_isolation", name_of(*level)),
            TransactionMode::ReadOnly(is_on) => ("default_transaction_read_only", switch(*is_on)),
            TransactionMode::Deferrable(is_on) => ("default_transaction_deferrable", switch(*is_on)),
        };
        assign(session, name, value, false)?;
    }
    Ok(())
}

fn name_of(level: IsolationLevel) -> &'static str {
    match level {
        IsolationLevel::ReadUncommitted => "read uncommitted",
        IsolationLevel::ReadCommitted => "read committed",
        IsolationLevel::RepeatableRead => "repeatable read",
        IsolationLevel::Serializable => "serializable",
    }
}

/// Runs DISCARD, which drops temporary objects in a transaction of its own unless there is one.
pub(crate) async fn discard(session: &mut Session, what: Discard) -> Result<Outcome> {
    if matches!(what, Discard::All | Discard::Sequences) {
        session.had = engine::SessionSequences::default();
    }
    let tag = match what {
        Discard::All => "DISCARD ALL",
        Discard::Temp => {
            discard_temporary(session).await?;
            return Ok(Outcome::command("DISCARD TEMP"));
        }
        Discard::Plans => return Ok(Outcome::command("DISCARD PLANS")),
        Discard::Sequences => return Ok(Outcome::command("DISCARD SEQUENCES")),
    };
    if session.status() != TxnStatus::Idle {
        return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, "DISCARD ALL cannot run inside a transaction block"));
    }
    session.named.clear();
    session.cursors.close_all();
    session.advisory.unlock_all();
    super::notify::unlisten(session, None);
    Arc::make_mut(&mut session.settings).reset_all();
    discard_temporary(session).await?;
    Ok(Outcome::command(tag))
}

async fn discard_temporary(session: &mut Session) -> Result<()> {
    if session.settings.temporary().is_none() {
        return Ok(());
    }
    let is_alone = session.block.is_none();
    session.begin_implicit();
    session.discard_temporary().await?;
    if is_alone { session.end_implicit().await } else { Ok(()) }
}

/// Executes SHOW of one setting or ALL.
pub(crate) fn show(session: &mut Session, show: &Show) -> Result<Outcome> {
    let rows = match show {
        Show::All => {
            let all = session.settings.all().into_iter();
            all.map(|(name, value)| vec![Some(name), Some(value), Some(String::new())]).collect()
        }
        Show::Variable(name) => {
            let value = session.setting(name).ok_or_else(|| {
                Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
            })?;
            vec![vec![Some(value)]]
        }
    };
    text_rows(show_columns(show), rows, "SHOW")
}
