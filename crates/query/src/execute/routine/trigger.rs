//! Calls of trigger functions.
//!
//! The row executor calls those of rows before a change as it calls other functions, and notes those after it:
//! [`crate::session::known_calls`]. This file calls the noted ones, and those of whole statements.

use compiled::StatementTrigger;
use model::{Datum, Error, Result, RowSchemaRef, RowTrigger, SqlState, TableId, TriggerEvent, TriggerTiming};
use scalar::{Call, Value};

use super::call::trigger as call_function;
use crate::session::Session;

/// A trigger that runs: what its function sees.
pub(super) struct Fired {
    pub(super) table: RowSchemaRef,
    pub(super) trigger: RowTrigger,
    pub(super) event: TriggerEvent,
    pub(super) old: Value,
    pub(super) new: Value,
}

fn gone() -> Error {
    Error::new(SqlState::SERIALIZATION_FAILURE, "a trigger was dropped while its statement ran")
        .with_hint("run the transaction again")
}

/// The trigger with a number in the newest catalog.
fn found(session: &mut Session, table: TableId, id: u32) -> Result<(RowSchemaRef, RowTrigger)> {
    let snapshot = session.newest();
    let table = snapshot.catalog().row_table_by_id(table).cloned().ok_or_else(gone)?;
    let trigger = table.triggers.iter().find(|trigger| trigger.id == id).cloned().ok_or_else(gone)?;
    Ok((table, trigger))
}

/// Calls the function of a row trigger. The value is the row that it returns.
///
/// # Errors
/// Those of the function.
pub(super) async fn fire(session: &mut Session, arguments: Vec<Value>) -> Result<Value> {
    let number = |value: &Value| match value {
        Value::Plain(Datum::Int4(number)) => Ok(number.cast_unsigned()),
        _ => Err(Error::bug("a trigger without its number")),
    };
    let Ok([table, id, event, old, new]) = <[Value; 5]>::try_from(arguments) else {
        return Err(Error::bug("a trigger with other arguments"));
    };
    let (table, trigger) = found(session, TableId(number(&table)?), number(&id)?)?;
    let code = number(&event)?;
    let event = TriggerEvent::ALL.into_iter().find(|one| u32::from(*one as u8) == code);
    let event = event.ok_or_else(|| Error::bug("a trigger of an unknown event"))?;
    call_function(session, Fired { table, trigger, event, old, new }).await
}

/// Calls the functions of row triggers that a statement has noted, in order.
///
/// # Errors
/// Those of the functions.
pub(crate) async fn fire_noted(session: &mut Session, noted: Vec<(Call, Vec<Value>)>) -> Result<()> {
    for (_, arguments) in noted {
        fire(session, arguments).await?;
    }
    Ok(())
}

/// Calls the functions of triggers that run once before or after a statement.
///
/// # Errors
/// Those of the functions.
pub(crate) async fn fire_statement(
    session: &mut Session,
    triggers: &[StatementTrigger],
    timing: TriggerTiming,
) -> Result<()> {
    for one in triggers.iter().filter(|one| one.timing == timing) {
        let (table, trigger) = found(session, one.table, one.id)?;
        let fired = Fired { table, trigger, event: one.event, old: Value::NULL, new: Value::NULL };
        call_function(session, fired).await?;
    }
    Ok(())
}
