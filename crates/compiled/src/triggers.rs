//! Triggers, as writes of rows run them. The session calls their functions: see [`scalar::Routines`].
//!
//! A row trigger that runs before the change gets the row by a call whose value is the row to write, or NULL to leave the row
//! alone. One that runs after it is only noted: the session calls it when the statement is complete. Triggers of a whole
//! statement are the session's alone: see [`StatementTrigger`].

use std::borrow::Cow;
use std::sync::Arc;

use catalog::TypeId;
use model::{Datum, Error, Names, Record, Result, RowSchema, RowTrigger, TableId, TriggerEvent, TriggerTiming};
use rows::RowTable;
use scalar::Call;

use crate::constraints::Writer;
use crate::exec::Run;

/// `trigger`, the result of trigger functions.
const TRIGGER: TypeId = TypeId(2279);

/// Values of columns, by position.
type Assignments<'v, 'a> = Cow<'v, [(usize, Datum<'a>)]>;

/// The row triggers of a table.
pub(crate) struct RowTriggers {
    /// In the order of their names.
    triggers: Vec<RowTrigger>,
    /// Positions of the columns that rows show to the functions.
    shown: Vec<usize>,
    types: Box<[u32]>,
    names: Names,
}

/// A trigger that runs once for a statement.
#[derive(Clone, Debug)]
pub struct StatementTrigger {
    /// The table of the trigger.
    pub table: TableId,
    /// The number of the trigger.
    pub id: u32,
    /// When it runs.
    pub timing: TriggerTiming,
    /// What the statement does.
    pub event: TriggerEvent,
}

/// The triggers of a table that run once for a statement that does `event`, in the order of their names. `changed`: whether an
/// UPDATE sets the column at a position.
pub fn statement_triggers(
    table: &RowSchema,
    event: TriggerEvent,
    changed: impl Fn(usize) -> bool,
) -> impl Iterator<Item = StatementTrigger> {
    let fired = table.triggers.iter().filter(move |one| !one.each_row && one.fires(event, &changed));
    let id = table.id;
    fired.map(move |one| StatementTrigger { table: id, id: one.id, timing: one.timing, event })
}

impl RowTriggers {
    /// `None` for a table without enabled row triggers.
    pub(crate) fn of(table: &RowTable) -> Option<Arc<RowTriggers>> {
        let schema = &table.schema;
        let triggers: Vec<RowTrigger> =
            schema.triggers.iter().filter(|one| one.each_row && one.is_enabled()).cloned().collect();
        if triggers.is_empty() {
            return None;
        }
        let shown: Vec<usize> = schema.shown().map(|(at, _)| at).collect();
        let types = shown.iter().map(|at| schema.columns[*at].ty.oid()).collect();
        let names: Arc<[Box<str>]> = shown.iter().map(|at| Box::from(schema.columns[*at].name.as_str())).collect();
        Some(Arc::new(RowTriggers { triggers, shown, types, names: Some(names) }))
    }

    fn fired<'t>(
        &'t self,
        timing: TriggerTiming,
        event: TriggerEvent,
        changed: &'t dyn Fn(usize) -> bool,
    ) -> impl Iterator<Item = &'t RowTrigger> {
        self.triggers.iter().filter(move |one| one.timing == timing && one.fires(event, changed))
    }

    fn record<'a>(&self, values: &[Datum<'a>]) -> Datum<'a> {
        let values = self.shown.iter().map(|at| values[*at].clone()).collect();
        Datum::Record(Arc::new(Record { types: self.types.clone(), names: self.names.clone(), values }))
    }
}

/// The call of a trigger's function: the numbers of table and trigger, the event, the row before and the row after.
fn call(trigger: &RowTrigger) -> Call {
    let arguments = [TypeId::INT4, TypeId::INT4, TypeId::INT4, TypeId::RECORD, TypeId::RECORD];
    Call { function: trigger.id, operator: None, arguments: arguments.into(), result: TRIGGER }
}

fn arguments<'a>(
    table: &RowTable,
    trigger: &RowTrigger,
    event: TriggerEvent,
    old: Datum<'a>,
    new: Datum<'a>,
) -> [Datum<'a>; 5] {
    let number = |number: u32| Datum::Int4(number.cast_signed());
    [number(table.id().0), number(trigger.id), number(u32::from(event as u8)), old, new]
}

impl Writer {
    /// Runs the triggers before an event. The value is the row to write: `new` without triggers; `None` to leave the row alone.
    fn before<'a, 'v>(
        &'a self,
        event: TriggerEvent,
        old: Option<&[Datum<'a>]>,
        new: Cow<'v, [Datum<'a>]>,
        changed: &dyn Fn(usize) -> bool,
        run: &Run<'a>,
    ) -> Result<Option<Cow<'v, [Datum<'a>]>>> {
        let Some(triggers) = &self.triggers else { return Ok(Some(new)) };
        let mut new = new;
        for trigger in triggers.fired(TriggerTiming::Before, event, changed) {
            let before = old.map_or(Datum::Null, |old| triggers.record(old));
            let after = if event == TriggerEvent::Delete { Datum::Null } else { triggers.record(&new) };
            let given = arguments(&self.table, trigger, event, before, after);
            let value = run.ctx().routines()?.value(&call(trigger), &given)?;
            // The run is void, and goes on with the next row.
            if run.ctx().misses() {
                return Ok(None);
            }
            match scalar::copied(&value.datum(), run.ctx().arena) {
                Datum::Null => return Ok(None),
                Datum::Record(record) if event != TriggerEvent::Delete => {
                    if record.values.len() != triggers.shown.len() {
                        return Err(Error::bug("a trigger's row has another number of columns"));
                    }
                    let row = new.to_mut();
                    for (at, value) in triggers.shown.iter().zip(record.values.iter()) {
                        row[*at] = rows::coerce(self.table.schema.columns[*at].ty, value.clone())?;
                    }
                }
                _ => {}
            }
        }
        Ok(Some(new))
    }

    /// Runs the triggers before a row with these values is inserted; `None` to leave it out.
    pub(crate) fn before_insert<'a, 'v>(
        &'a self,
        values: &'v [Datum<'a>],
        run: &Run<'a>,
    ) -> Result<Option<Cow<'v, [Datum<'a>]>>> {
        self.before(TriggerEvent::Insert, None, Cow::Borrowed(values), &|_| false, run)
    }

    /// Runs the triggers before a row is updated. The value has the changes to make; `None` to leave the row alone.
    pub(crate) fn before_update<'a, 'v>(
        &'a self,
        old: &'a [u8],
        changes: &'v [(usize, Datum<'a>)],
        run: &Run<'a>,
    ) -> Result<Option<Assignments<'v, 'a>>> {
        let Some(triggers) = &self.triggers else { return Ok(Some(Cow::Borrowed(changes))) };
        let is_set = |at: usize| changes.iter().any(|(column, _)| *column == at);
        if triggers.fired(TriggerTiming::Before, TriggerEvent::Update, &is_set).next().is_none() {
            return Ok(Some(Cow::Borrowed(changes)));
        }
        let before = self.values(old)?;
        let mut values = before.clone();
        changes.iter().for_each(|(at, value)| values[*at] = value.clone());
        let after = self.before(TriggerEvent::Update, Some(&before), Cow::Owned(values), &is_set, run)?;
        let Some(after) = after else { return Ok(None) };
        let is_changed = |at: &usize| is_set(*at) || after[*at] != before[*at];
        let is_generated = |at: &usize| self.table.schema.columns[*at].generated.is_some();
        let changed = triggers.shown.iter().copied().filter(|at| is_changed(at) && !is_generated(at));
        Ok(Some(Cow::Owned(changed.map(|at| (at, after[at].clone())).collect())))
    }

    /// Runs the triggers before a row is deleted; false to leave it there.
    pub(crate) fn before_delete<'a>(&'a self, old: &'a [u8], run: &Run<'a>) -> Result<bool> {
        let Some(triggers) = &self.triggers else { return Ok(true) };
        if triggers.fired(TriggerTiming::Before, TriggerEvent::Delete, &|_| false).next().is_none() {
            return Ok(true);
        }
        let values = self.values(old)?;
        let ran = self.before(TriggerEvent::Delete, Some(&values), Cow::Borrowed(&[]), &|_| false, run)?;
        Ok(ran.is_some())
    }

    /// Notes the triggers to run for a change once the statement is complete. `set`: the changes of an UPDATE as written.
    pub(crate) fn note_change<'a>(
        &'a self,
        event: TriggerEvent,
        (old, new): (Option<&'a [u8]>, Option<&'a [u8]>),
        set: &[(usize, Datum<'a>)],
        run: &Run<'a>,
    ) -> Result<()> {
        let Some(triggers) = &self.triggers else { return Ok(()) };
        let is_set = |at: usize| set.iter().any(|(column, _)| *column == at);
        let row = |row: Option<&'a [u8]>| match row {
            Some(row) => self.values(row).map(|values| triggers.record(&values)),
            None => Ok(Datum::Null),
        };
        for trigger in triggers.fired(TriggerTiming::After, event, &is_set) {
            let given = arguments(&self.table, trigger, event, row(old)?, row(new)?);
            run.ctx().routines()?.note(&call(trigger), &given)?;
        }
        Ok(())
    }
}
