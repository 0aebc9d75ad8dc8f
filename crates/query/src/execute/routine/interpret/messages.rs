//! RAISE and GET DIAGNOSTICS.

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};
use parser::plpgsql::{Condition, Level, Raise, Target};
use scalar::Value;

use super::Run;
use crate::execute::routine::conditions;
use crate::session::Session;

/// Maximum number of notices of a statement.
const NOTICES_MAX: usize = 100_000;
/// Maximum size of the notices of a statement.
const NOTICE_BYTES_MAX: usize = 16 << 20;

impl Run {
    pub(super) async fn raise(&mut self, session: &mut Session, raise: &Raise) -> Result<()> {
        let is_bare = raise.condition.is_none() && raise.message.is_none() && raise.options.is_empty();
        if is_bare {
            return Err(match self.errors.last() {
                Some(error) => {
                    self.is_raised_again = true;
                    error.clone()
                }
                None => Error::new(
                    SqlState("0Z002"),
                    "RAISE without parameters cannot be used outside an exception handler",
                ),
            });
        }
        let mut state = match (&raise.condition, raise.level) {
            (Some(Condition::Name(name)), _) => Some(conditions::raised(name)?),
            (Some(Condition::State(state)), _) => Some(conditions::raised(state)?),
            (None, _) => None,
        };
        let mut message = match (&raise.message, &raise.condition) {
            (Some(format), _) => {
                let mut values = Vec::with_capacity(raise.parameters.len());
                for parameter in &raise.parameters {
                    values.push(self.text(session, parameter).await?.unwrap_or_else(|| "<NULL>".to_owned()));
                }
                Some(formatted(format, &values))
            }
            (None, Some(Condition::Name(name) | Condition::State(name))) => Some(name.clone()),
            (None, None) => None,
        };
        let (mut detail, mut hint) = (None, None);
        for (name, value) in &raise.options {
            let text = self.text(session, value).await?;
            let text = text.ok_or_else(|| Error::new(SqlState("22004"), "RAISE statement option cannot be null"))?;
            match name.as_str() {
                "message" => {
                    if raise.message.is_some() {
                        let text = "RAISE option already specified: MESSAGE";
                        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
                    }
                    message = Some(text);
                }
                "detail" => detail = Some(text),
                "hint" => hint = Some(text),
                "errcode" => state = Some(conditions::raised(&text)?),
                _ => {}
            }
        }
        let default = match raise.level {
            Level::Exception => SqlState("P0001"),
            Level::Warning => SqlState("01000"),
            _ => SqlState("00000"),
        };
        let message = message.unwrap_or_else(|| state.unwrap_or(default).0.to_owned());
        let state = if raise.level == Level::Exception { state.unwrap_or(default) } else { default };
        let mut error = Error::new(state, message);
        if let Some(detail) = detail {
            error = error.with_detail(detail);
        }
        if let Some(hint) = hint {
            error = error.with_hint(hint);
        }
        if raise.level == Level::Exception {
            return Err(error);
        }
        let shown = match session.setting("client_min_messages").as_deref() {
            Some("error") => Level::Exception,
            Some("warning") => Level::Warning,
            Some("log") => Level::Log,
            Some(setting) if setting.starts_with("debug") => Level::Debug,
            _ => Level::Notice,
        };
        if raise.level >= shown || raise.level == Level::Info {
            session.notice_bytes += error.message().len() + error.detail().map_or(0, str::len);
            if session.notices.len() >= NOTICES_MAX || session.notice_bytes > NOTICE_BYTES_MAX {
                let text = format!("a statement raises at most {NOTICES_MAX} notices of {NOTICE_BYTES_MAX} bytes");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
            }
            session.notices.push(error);
        }
        Ok(())
    }

    pub(super) async fn diagnostics(
        &mut self,
        session: &mut Session,
        stacked: bool,
        items: &[(Target, String)],
    ) -> Result<()> {
        for (target, item) in items {
            let text = |text: Option<&str>| Value::Text(text.unwrap_or_default().into());
            let error = self.errors.last();
            if stacked && error.is_none() {
                let text = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
                return Err(Error::new(SqlState("0Z002"), text));
            }
            let subject = |wanted: bool| {
                error.and_then(Error::subject).map(|subject| match (&subject.part, wanted) {
                    (model::Part::Column(name), true) | (model::Part::Constraint(name), false) => name.clone(),
                    _ => String::new(),
                })
            };
            let (value, ty) = match item.as_str() {
                "row_count" => (Value::Plain(Datum::Int8(self.row_count)), TypeId::INT8),
                "returned_sqlstate" => (text(error.map(|error| error.state().0)), TypeId::TEXT),
                "message_text" => (text(error.map(Error::message)), TypeId::TEXT),
                "pg_exception_detail" => (text(error.and_then(Error::detail)), TypeId::TEXT),
                "pg_exception_hint" => (text(error.and_then(Error::hint)), TypeId::TEXT),
                "pg_exception_context" => (text(error.and_then(Error::place)), TypeId::TEXT),
                "column_name" => (text(subject(true).as_deref()), TypeId::TEXT),
                "constraint_name" => (text(subject(false).as_deref()), TypeId::TEXT),
                "table_name" => {
                    (text(error.and_then(Error::subject).map(|subject| subject.table.table.as_str())), TypeId::TEXT)
                }
                "schema_name" => {
                    (text(error.and_then(Error::subject).map(|subject| subject.table.schema.as_str())), TypeId::TEXT)
                }
                "pg_context" => {
                    let place = Error::new(SqlState("00000"), "");
                    let place = self.in_context(session, place);
                    (text(place.place()), TypeId::TEXT)
                }
                "pg_routine_oid" => {
                    let oid = self.body.routine.as_ref().map_or(0, |routine| crate::routines::oid_of(routine.id));
                    (Value::Plain(Datum::Oid(oid)), TypeId(26))
                }
                _ => (text(None), TypeId::TEXT),
            };
            self.assign(session, target, value, ty).await?;
        }
        Ok(())
    }
}

/// The message of RAISE with values in place of its `%`.
fn formatted(format: &str, values: &[String]) -> String {
    let (mut text, mut values) = (String::with_capacity(format.len()), values.iter());
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '%' if letters.peek() == Some(&'%') => {
                letters.next();
                text.push('%');
            }
            '%' => text.push_str(values.next().map_or("", String::as_str)),
            letter => text.push(letter),
        }
    }
    text
}
