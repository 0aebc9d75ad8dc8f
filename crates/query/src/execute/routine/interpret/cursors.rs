//! Cursors.

use catalog::TypeId;
use model::{Error, Result, SqlState};
use parser::plpgsql::{Direction, Fragment, Into, Open};
use scalar::Value;

use super::{Cursor, Kind, Run};
use crate::execute::routine::values::converted;
use crate::execute::routine::{Ran, run_statement};
use crate::routines::REFCURSOR;
use crate::session::Session;
use crate::statement::parse_within_routine;

fn cursor_error(name: &str) -> Error {
    Error::new(SqlState("22004"), format!("cursor variable \"{name}\" is null"))
}

impl Run {
    pub(super) fn cursor_slot(&self, name: &str) -> Result<usize> {
        let path = [name.to_owned()];
        let (slot, _) = self.expect(&path)?;
        match self.slots[slot].kind {
            Kind::Value(TypeId(REFCURSOR) | TypeId::TEXT, _) => Ok(slot),
            _ => {
                let text = format!("variable \"{name}\" must be of type cursor or refcursor");
                Err(Error::new(SqlState::DATATYPE_MISMATCH, text))
            }
        }
    }

    pub(super) fn cursor_name(&self, _: &Session, name: &str) -> Result<String> {
        match &self.slots[self.cursor_slot(name)?].value {
            Value::Text(text) => Ok(text.to_string()),
            _ => Err(cursor_error(name)),
        }
    }

    pub(super) async fn open(
        &mut self,
        session: &mut Session,
        name: &str,
        scroll: Option<bool>,
        how: &Open,
    ) -> Result<()> {
        let slot = self.cursor_slot(name)?;
        let (names, slots) = (self.names.len(), self.slots.len());
        let mut given = None;
        let (query, scroll) = match how {
            Open::Query(query) => (query.clone(), scroll),
            Open::Execute(query, using) => {
                let text = self.text(session, query).await?;
                let text =
                    text.ok_or_else(|| Error::new(SqlState("22004"), "query string argument of EXECUTE is null"))?;
                given = Some(self.using(session, using).await?);
                (Fragment { text, number: u32::MAX }, scroll)
            }
            Open::Bound(arguments) => {
                let Some(cursor) = self.slots[slot].cursor.clone() else {
                    let text = format!("cursor variable \"{name}\" has no query");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, text));
                };
                self.cursor_arguments(session, name, &cursor, arguments).await?;
                (cursor.query.clone(), scroll.or(cursor.scroll))
            }
        };
        let portal = match &self.slots[slot].value {
            Value::Text(text) => text.to_string(),
            _ if self.slots[slot].cursor.is_some() => name.to_owned(),
            _ => {
                let mut number = 1;
                while session.cursors.columns(&format!("<unnamed portal {number}>")).is_some() {
                    number += 1;
                }
                format!("<unnamed portal {number}>")
            }
        };
        if session.cursors.columns(&portal).is_some() {
            let text = format!("cursor \"{portal}\" already in use");
            return Err(Error::new(SqlState::DUPLICATE_CURSOR, text));
        }
        let quoted = format!("\"{}\"", portal.replace('"', "\"\""));
        let scroll = if scroll == Some(false) { "" } else { "SCROLL " };
        let text = format!("DECLARE {quoted} {scroll}CURSOR FOR {}", query.text);
        let opened = match given {
            // The text sees no variables.
            Some((values, types)) => {
                let statement = parse_within_routine(&text, None)?;
                let prepared = session.plan_statement(&statement, &types).map_err(Error::without_position)?;
                let opened = run_statement(session, &prepared, &values, usize::MAX).await;
                opened.map_err(Error::without_position)
            }
            None => self.ran(session, &Fragment { text, number: u32::MAX }, "").await,
        };
        self.leave(slots, names);
        opened?;
        self.slots[slot].value = Value::Text(portal.into());
        Ok(())
    }

    /// Declares the parameters of a cursor with their values.
    pub(super) async fn cursor_arguments(
        &mut self,
        session: &mut Session,
        name: &str,
        cursor: &Cursor,
        arguments: &[(Option<String>, Fragment)],
    ) -> Result<()> {
        if arguments.len() != cursor.parameters.len() {
            let what = if arguments.len() < cursor.parameters.len() { "not enough" } else { "too many" };
            let text = format!("{what} arguments for cursor \"{name}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
        let mut values = Vec::with_capacity(arguments.len());
        for (at, (parameter, ty, typmod)) in cursor.parameters.iter().enumerate() {
            let named = arguments.iter().find(|(given, _)| given.as_ref() == Some(parameter));
            let (_, fragment) = named.unwrap_or(&arguments[at]);
            let (value, from) = self.value(session, fragment).await?;
            values.push((parameter.clone(), *ty, *typmod, converted(session, value, from, *ty, *typmod)?));
        }
        for (parameter, ty, typmod, value) in values {
            self.declare(&parameter, Kind::Value(ty, typmod), value);
        }
        Ok(())
    }

    /// The rows of a cursor that a FOR loop names; `None` if it has a query of its own.
    pub(super) async fn cursor_rows(&mut self, session: &mut Session, query: &Fragment) -> Result<Option<Ran>> {
        let text = query.text.trim();
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), rest.strip_suffix(')')),
            None => (text, None),
        };
        let path = [name.to_ascii_lowercase()];
        let Some((slot, [])) = self.find(&path) else { return Ok(None) };
        let Some(cursor) = self.slots[slot].cursor.clone() else { return Ok(None) };
        let (names, slots) = (self.names.len(), self.slots.len());
        if let Some(arguments) = arguments.filter(|arguments| !arguments.trim().is_empty()) {
            // The arguments as the columns of one row.
            let fragment = Fragment { text: arguments.to_owned(), number: u32::MAX };
            let ran = self.ran(session, &fragment, "SELECT ").await?;
            let row = ran.rows.into_iter().next().unwrap_or_default();
            for ((value, column), (parameter, ty, typmod)) in row.into_iter().zip(&*ran.columns).zip(&cursor.parameters)
            {
                let value = converted(session, value, column.1, *ty, *typmod)?;
                self.declare(parameter, Kind::Value(*ty, *typmod), value);
            }
        }
        let fragment = Fragment { text: cursor.query.text.clone(), number: u32::MAX };
        let ran = self.ran(session, &fragment, "").await;
        self.leave(slots, names);
        ran.map(Some)
    }

    pub(super) async fn fetch(
        &mut self,
        session: &mut Session,
        cursor: &str,
        direction: &Direction,
        into: Option<&Into>,
    ) -> Result<()> {
        let name = self.cursor_name(session, cursor)?;
        let words = match direction {
            Direction::Next => "NEXT".to_owned(),
            Direction::Prior => "PRIOR".to_owned(),
            Direction::First => "FIRST".to_owned(),
            Direction::Last => "LAST".to_owned(),
            Direction::Absolute(count) => format!("ABSOLUTE {}", self.distance(session, count).await?),
            Direction::Relative(count) => format!("RELATIVE {}", self.distance(session, count).await?),
            Direction::Forward(None) => "FORWARD ALL".to_owned(),
            Direction::Backward(None) => "BACKWARD ALL".to_owned(),
            Direction::Forward(Some(count)) => format!("FORWARD {}", self.distance(session, count).await?),
            Direction::Backward(Some(count)) => format!("BACKWARD {}", self.distance(session, count).await?),
        };
        let verb = if into.is_some() { "FETCH" } else { "MOVE" };
        let text = format!("{verb} {words} FROM \"{}\"", name.replace('"', "\"\""));
        let ran = self.ran(session, &Fragment { text, number: u32::MAX }, "").await?;
        self.row_count = i64::try_from(ran.count).unwrap_or(i64::MAX);
        self.set_found(ran.count > 0);
        if let Some(into) = into {
            let Ran { columns, rows, .. } = ran;
            self.assign_row(session, &into.targets, &columns, rows.into_iter().next()).await?;
        }
        Ok(())
    }

    pub(super) async fn distance(&mut self, session: &mut Session, fragment: &Fragment) -> Result<i64> {
        let value = self.integer(session, fragment).await?;
        value.ok_or_else(|| Error::new(SqlState("22004"), "relative or absolute cursor position is null"))
    }
}
