//! Triggers of users: their rows in the catalog, and their definitions as text.

use model::{RowSchema, RowTrigger, TableId, TriggerEvent, TriggerTiming};

use crate::cells::{Cell, Row, row};
use crate::classes::Class;
use crate::facts::StatementFacts;
use crate::names::{self, quote_ident};
use crate::oids::{self, Oid, Part};
use crate::routines;

pub(crate) fn oid(trigger: &RowTrigger) -> Oid {
    oids::of_table(TableId(trigger.id), Part::Table)
}

fn all(facts: &StatementFacts) -> impl Iterator<Item = (&RowSchema, &RowTrigger)> {
    facts.catalog.row_tables().flat_map(|table| table.triggers.iter().map(move |trigger| (&**table, trigger)))
}

/// `tgtype`
fn kind(trigger: &RowTrigger) -> i64 {
    let events = [
        (TriggerEvent::Insert, 4),
        (TriggerEvent::Delete, 8),
        (TriggerEvent::Update, 16),
        (TriggerEvent::Truncate, 32),
    ];
    let events: i64 = events.iter().filter(|(event, _)| trigger.events.has(*event)).map(|(_, bit)| bit).sum();
    let before = if trigger.timing == TriggerTiming::Before { 2 } else { 0 };
    i64::from(trigger.each_row) + before + events
}

/// Rows of `pg_trigger`.
pub(crate) fn rows(facts: &StatementFacts) -> Vec<Row> {
    let one = |(table, trigger): (&RowSchema, &RowTrigger)| {
        let columns: Vec<i64> = trigger.columns.iter().map(|at| *at as i64 + 1).collect();
        row! {
            oid: oid(trigger),
            tgrelid: oids::of_table(table.id, Part::Table),
            tgparentid: 0,
            tgname: trigger.name.as_str(),
            tgfoid: trigger.routine,
            tgtype: kind(trigger),
            tgenabled: trigger.firing.letter(),
            tgisinternal: false,
            tgconstrrelid: 0,
            tgconstrindid: 0,
            tgconstraint: 0,
            tgdeferrable: false,
            tginitdeferred: false,
            tgnargs: trigger.arguments.len() as i64,
            tgattr: Cell::Ints(columns),
            tgqual: trigger.condition.as_ref().map_or(Cell::Null, |condition| Cell::Text(condition.clone())),
            tgoldtable: Cell::Null,
            tgnewtable: Cell::Null,
            tableoid: 2620,
        }
    };
    all(facts).map(one).collect()
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The function and its arguments.
fn statement(facts: &StatementFacts, trigger: &RowTrigger) -> String {
    let name = match routines::by_oid(facts, trigger.routine) {
        Some(routine) => routines::name(facts, routine, false),
        None => trigger.routine.to_string(),
    };
    let arguments: Vec<String> = trigger.arguments.iter().map(|argument| literal(argument)).collect();
    format!("EXECUTE FUNCTION {name}({})", arguments.join(", "))
}

/// `pg_get_triggerdef`; `short`: as psql shows it.
pub(crate) fn definition(facts: &StatementFacts, number: Oid, short: bool) -> Option<String> {
    let (table, trigger) = all(facts).find(|(_, trigger)| oid(trigger) == number)?;
    let event = |event: TriggerEvent| match (event, trigger.columns.as_slice()) {
        (TriggerEvent::Update, columns) if !columns.is_empty() => {
            let names: Vec<String> = columns.iter().map(|at| quote_ident(&table.columns[*at].name)).collect();
            format!("UPDATE OF {}", names.join(", "))
        }
        (event, _) => event.word().to_owned(),
    };
    let events: Vec<String> = TriggerEvent::ALL.into_iter().filter(|one| trigger.events.has(*one)).map(event).collect();
    let kind = if trigger.constraint { "CONSTRAINT TRIGGER" } else { "TRIGGER" };
    let relation = match short {
        true => facts
            .catalog
            .row_table_by_id(table.id)
            .map_or_else(String::new, |table| names::relation_name(facts, Class::Rows(table))),
        false => format!("{}.{}", quote_ident(&table.name.schema), quote_ident(&table.name.table)),
    };
    let deferral = if trigger.constraint { " NOT DEFERRABLE INITIALLY IMMEDIATE" } else { "" };
    let level = if trigger.each_row { "ROW" } else { "STATEMENT" };
    let when = match (&trigger.condition, short) {
        (None, _) => String::new(),
        (Some(text), true) => format!(" WHEN ({text})"),
        (Some(text), false) => format!(" WHEN ({})", condition(text)),
    };
    Some(format!(
        "CREATE {kind} {} {} {} ON {relation}{deferral} FOR EACH {level}{when} {}",
        quote_ident(&trigger.name),
        trigger.timing.word(),
        events.join(" OR "),
        statement(facts, trigger),
    ))
}

/// A condition as PostgreSQL prints it: an operator has parentheses, a constant, a column and a call have none.
fn condition(sql: &str) -> String {
    use parser::ast::ExprKind as Kind;
    match parser::parse_expr(sql).map(|expr| expr.kind) {
        Ok(
            Kind::Operator(_)
            | Kind::Quantified(_)
            | Kind::And(_)
            | Kind::Or(_)
            | Kind::Not(_)
            | Kind::IsNull(_)
            | Kind::IsNotNull(_)
            | Kind::BooleanTest(..)
            | Kind::Distinct(_)
            | Kind::In(_)
            | Kind::Like(_)
            | Kind::Between(_),
        ) => format!("({sql})"),
        _ => sql.to_owned(),
    }
}

/// Rows of `information_schema.triggers`.
pub(crate) fn information(facts: &StatementFacts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (table, trigger) in all(facts) {
        let before = |other: &&RowTrigger| {
            (other.timing, other.each_row) == (trigger.timing, trigger.each_row) && other.name <= trigger.name
        };
        for event in TriggerEvent::ALL {
            // The standard has no TRUNCATE.
            if !trigger.events.has(event) || event == TriggerEvent::Truncate {
                continue;
            }
            let order = table.triggers.iter().filter(before).filter(|other| other.events.has(event)).count();
            rows.push(row! {
                trigger_catalog: facts.database.as_str(),
                trigger_schema: table.name.schema.as_str(),
                trigger_name: trigger.name.as_str(),
                event_manipulation: event.word(),
                event_object_catalog: facts.database.as_str(),
                event_object_schema: table.name.schema.as_str(),
                event_object_table: table.name.table.as_str(),
                action_order: order as i64,
                action_condition: trigger.condition.as_deref().map_or(Cell::Null, |one| Cell::Text(condition(one))),
                action_statement: statement(facts, trigger),
                action_orientation: if trigger.each_row { "ROW" } else { "STATEMENT" },
                action_timing: trigger.timing.word(),
                // Transition tables do not exist here, and PostgreSQL has no names for rows.
                action_reference_old_table: Cell::Null,
                action_reference_new_table: Cell::Null,
                action_reference_old_row: Cell::Null,
                action_reference_new_row: Cell::Null,
                created: Cell::Null,
            });
        }
    }
    rows
}
