//! SET, SHOW, RESET and DISCARD.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    ContextModifier, DiscardObject, Expr, Ident, ObjectName, Reset, Set, TransactionAccessMode, TransactionMode,
    UnaryOperator, Value as Literal,
};
use model::{Error, Result, SqlState};
use pg::types::oid;

use crate::output::text_rows;
use crate::session::{Outcome, Session, TxnStatus};
use crate::settings::Settings;
use crate::statement::Parsed;
use crate::syntax_rewrites::folded;
use crate::types::OutputColumn;

/// SET in all its forms. `set` is the tree of `parsed`.
pub(crate) fn set(session: &mut Session, parsed: &Parsed, set: &Set) -> Result<Outcome> {
    match set {
        Set::SingleAssignment { scope, variable, values, .. } => {
            let name = dotted(variable);
            let local = matches!(scope, Some(ContextModifier::Local));
            if let Some(value) = value_of(values)? {
                assign(session, &name, &value, local)?;
            } else {
                change(session, local, |settings| settings.reset(&name))?;
            }
        }
        Set::SetTimeZone { local, value } => match value_of(std::slice::from_ref(value))? {
            Some(hours) if matches!(value, Expr::Interval(_)) => {
                let east = pg::time::parse_interval(&hours).ok().map(|span| span.micros / 1_000_000);
                let shown = east.and_then(|east| crate::zone::Zone::setting_of_offset(i32::try_from(east).ok()?));
                let zone = shown.map_or(hours, |(shown, _)| shown);
                assign(session, "TimeZone", &zone, *local)?;
            }
            Some(zone) if !zone.eq_ignore_ascii_case("local") => assign(session, "TimeZone", &zone, *local)?,
            _ => change(session, *local, |settings| settings.reset("TimeZone"))?,
        },
        Set::SetNames { charset_name, .. } => assign(session, "client_encoding", &charset_name.value, false)?,
        Set::SetNamesDefault {} => {}
        Set::SetTransaction { modes, snapshot, session: false } => {
            if snapshot.is_some() {
                return Err(Error::unsupported("SET TRANSACTION SNAPSHOT is not supported"));
            }
            if session.block.as_ref().is_none_or(|block| block.implicit) {
                session.warn(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    "SET TRANSACTION can only be used in transaction blocks",
                );
            }
            crate::transaction::set_modes(session, modes)?;
            if let Some(deferrable) = crate::transaction::deferrable(parsed)? {
                crate::transaction::set_deferrable(session, deferrable)?;
            }
        }
        Set::SetTransaction { modes, .. } => {
            set_characteristics(session, modes)?;
            if let Some(deferrable) = crate::transaction::deferrable(parsed)? {
                let value = if deferrable { "on" } else { "off" };
                assign(session, "default_transaction_deferrable", value, false)?;
            }
        }
        Set::SetRole { role_name: None, .. } => {}
        other => return Err(Error::unsupported(format!("{other} is not supported"))),
    }
    Ok(Outcome::command("SET"))
}

fn set_characteristics(session: &mut Session, modes: &[TransactionMode]) -> Result<()> {
    for mode in modes {
        match mode {
            TransactionMode::IsolationLevel(level) => {
                assign(session, "default_transaction_isolation", &level.to_string().to_lowercase(), false)?;
            }
            TransactionMode::AccessMode(mode) => {
                let value = if *mode == TransactionAccessMode::ReadOnly { "on" } else { "off" };
                assign(session, "default_transaction_read_only", value, false)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn assign(session: &mut Session, name: &str, value: &str, local: bool) -> Result<()> {
    if name.eq_ignore_ascii_case("transaction_isolation") {
        use datafusion::sql::sqlparser::ast::TransactionIsolationLevel as Level;
        let level = match value.to_ascii_lowercase().as_str() {
            "serializable" => Level::Serializable,
            "repeatable read" => Level::RepeatableRead,
            _ => Level::ReadCommitted,
        };
        return crate::transaction::set_modes(session, &[TransactionMode::IsolationLevel(level)]);
    }
    if name.eq_ignore_ascii_case("transaction_read_only") {
        let mode = if value.eq_ignore_ascii_case("on") || value.eq_ignore_ascii_case("true") {
            TransactionAccessMode::ReadOnly
        } else {
            TransactionAccessMode::ReadWrite
        };
        return crate::transaction::set_modes(session, &[TransactionMode::AccessMode(mode)]);
    }
    if name.eq_ignore_ascii_case("transaction_deferrable") {
        let is_on = value.eq_ignore_ascii_case("on") || value.eq_ignore_ascii_case("true");
        return crate::transaction::set_deferrable(session, is_on);
    }
    change(session, local, |settings| settings.set(name, value))
}

/// Changes the current settings and, unless `local`, the settings that COMMIT keeps.
fn change(session: &mut Session, local: bool, change: impl Fn(&mut Settings) -> Result<()>) -> Result<()> {
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

/// Name of a setting as written, with its parts joined by dots.
fn dotted(name: &ObjectName) -> String {
    name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect::<Vec<_>>().join(".")
}

/// Text of a value list; `None` for DEFAULT.
fn value_of(values: &[Expr]) -> Result<Option<String>> {
    if let [Expr::Identifier(ident)] = values
        && ident.quote_style.is_none()
        && ident.value.eq_ignore_ascii_case("default")
    {
        return Ok(None);
    }
    let texts: Vec<String> = values.iter().map(text_of).collect::<Result<_>>()?;
    Ok(Some(texts.join(", ")))
}

fn text_of(value: &Expr) -> Result<String> {
    Ok(match value {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text)
            | Literal::EscapedStringLiteral(text)
            | Literal::DoubleQuotedString(text) => text.clone(),
            Literal::Number(text, _) => text.clone(),
            Literal::Boolean(value) => if *value { "on" } else { "off" }.to_owned(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", text_of(expr)?),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => text_of(expr)?,
        Expr::Interval(interval) => text_of(&interval.value)?,
        Expr::CompoundIdentifier(parts) => parts.iter().map(|part| part.value.clone()).collect::<Vec<_>>().join("."),
        other => return Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    })
}

/// Executes RESET of one setting or ALL.
pub(crate) fn reset(session: &mut Session, reset: &Reset) -> Result<Outcome> {
    match reset {
        Reset::ALL => change(session, false, |settings| {
            settings.reset_all();
            Ok(())
        })?,
        Reset::ConfigurationParameter(name) => {
            let name = dotted(name);
            change(session, false, |settings| settings.reset(&name))?;
        }
    }
    Ok(Outcome::command("RESET"))
}

pub(crate) fn discard(session: &mut Session, what: &DiscardObject) -> Result<Outcome> {
    if matches!(what, DiscardObject::ALL | DiscardObject::SEQUENCES) {
        session.had = engine::SessionSequences::default();
    }
    if *what != DiscardObject::ALL {
        return Ok(Outcome::command(format!("DISCARD {what}")));
    }
    if session.status() != TxnStatus::Idle {
        return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, "DISCARD ALL cannot run inside a transaction block"));
    }
    session.named.clear();
    session.cursors.close_all();
    session.advisory.unlock_all();
    Arc::make_mut(&mut session.settings).reset_all();
    Ok(Outcome::command("DISCARD ALL"))
}

/// Name of the setting that SHOW reads.
fn shown(variable: &[Ident]) -> String {
    let words: Vec<String> = variable.iter().map(folded).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
        ["time", "zone"] => "TimeZone".to_owned(),
        ["session", "authorization"] => "session_authorization".to_owned(),
        _ => words.join("."),
    }
}

fn text_column(name: &str) -> OutputColumn {
    OutputColumn { name: name.to_owned(), oid: oid::TEXT, typmod: -1, origin: None }
}

/// Result columns of SHOW.
pub(crate) fn show_columns(variable: &[Ident]) -> Vec<OutputColumn> {
    let name = shown(variable);
    if name == "all" {
        return ["name", "setting", "description"].map(text_column).to_vec();
    }
    let known = Settings::default().all().into_keys().find(|known| known.eq_ignore_ascii_case(&name));
    vec![text_column(&known.unwrap_or(name))]
}

/// Executes SHOW of one setting or ALL.
pub(crate) fn show(session: &mut Session, variable: &[Ident]) -> Result<Outcome> {
    let name = shown(variable);
    let columns = show_columns(variable);
    let rows = if name == "all" {
        let all = session.settings.all().into_iter();
        all.map(|(name, value)| vec![Some(name), Some(value), Some(String::new())]).collect()
    } else {
        let value = session.setting(&name).ok_or_else(|| {
            Error::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
        })?;
        vec![vec![Some(value)]]
    };
    text_rows(columns, rows, "SHOW")
}
