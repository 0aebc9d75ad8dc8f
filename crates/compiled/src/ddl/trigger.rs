//! CREATE, ALTER, RENAME and DROP TRIGGER, and ALTER TABLE … ENABLE and DISABLE TRIGGER.

use std::sync::Arc;

use binder::Routine;
use model::{
    Error, Result, RowForeignKey, RowSchema, RowSchemaRef, RowTrigger, SqlState, TriggerEvent, TriggerFiring,
    TriggerTiming,
};
use parser::ast::{self, ExprKind, Ident, Name, TriggerName};

use super::draft::Draft;
use super::inheritance::with_descendants;
use super::{Catalog, Change, Definition, Notice, Object, names, no_column, no_relation};
use crate::statement::Session;

/// `trigger`, the result of trigger functions.
const TRIGGER: u32 = 2279;
const INVALID_OBJECT: SqlState = SqlState("42P17");

/// Plans a CREATE TRIGGER.
///
/// # Errors
/// 42P01 for an unknown table, 42809 for a view, 42883 and 42P17 for a wrong function, 42703 for an unknown column, 42710 for a
/// name that is taken; 0A000 for what is not supported.
pub(super) fn create(create: &ast::CreateTrigger, catalog: &dyn Catalog, session: Session<'_>) -> Result<Definition> {
    let table = table(&create.table, catalog)?;
    check_supported(create, &table)?;
    let mut events = model::TriggerEvents::default();
    let mut columns = Vec::new();
    for event in &create.events {
        let is_new = events.add(match event {
            ast::TriggerEvent::Insert => TriggerEvent::Insert,
            ast::TriggerEvent::Delete => TriggerEvent::Delete,
            ast::TriggerEvent::Update(_) => TriggerEvent::Update,
            ast::TriggerEvent::Truncate => TriggerEvent::Truncate,
        });
        if !is_new {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "duplicate trigger events specified"));
        }
        let ast::TriggerEvent::Update(names) = event else { continue };
        for name in names {
            let at = table.column(name).ok_or_else(|| no_column(name, &table.name.table))?;
            if columns.contains(&at) {
                let text = format!("column \"{name}\" specified more than once");
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
            }
            columns.push(at);
        }
    }
    columns.sort_unstable();
    let condition = create.when.as_ref().map(|when| condition(when, create, events, &table)).transpose()?;
    let trigger = RowTrigger {
        id: catalog.next_id(Object::Index),
        name: create.name.to_string(),
        timing: if create.timing == ast::TriggerTiming::After { TriggerTiming::After } else { TriggerTiming::Before },
        events,
        each_row: create.for_each_row,
        columns,
        condition,
        routine: function(&create.function, session)?,
        arguments: create.args.iter().map(ToString::to_string).collect(),
        firing: TriggerFiring::Origin,
        constraint: create.constraint,
    };
    let mut next = next_version(&table);
    if let Some(at) = next.triggers.iter().position(|one| one.name == trigger.name) {
        if !create.replace {
            let text = format!("trigger \"{}\" for relation \"{}\" already exists", trigger.name, table.name.table);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
        }
        let old = &next.triggers[at];
        if old.constraint || trigger.constraint {
            let text =
                format!("trigger \"{}\" for relation \"{}\" is a constraint trigger", old.name, table.name.table);
            return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
        }
        next.triggers[at] = RowTrigger { id: old.id, ..trigger };
    } else {
        next.triggers.push(trigger);
    }
    Ok(altered("CREATE TRIGGER", next))
}

/// The description with its triggers in order.
fn altered(tag: &'static str, mut next: RowSchema) -> Definition {
    next.triggers.sort_by(|a, b| a.name.cmp(&b.name));
    Definition { changes: vec![Change::Alter { next, work: Vec::new() }], ..Definition::new(tag) }
}

fn next_version(table: &RowSchema) -> RowSchema {
    RowSchema { version: table.version + 1, ..table.clone() }
}

fn table(name: &Name, catalog: &dyn Catalog) -> Result<RowSchemaRef> {
    let found = names::relation(name, catalog)?;
    if let Some(table) = catalog.table(&found) {
        if catalog.materialized_view(table.id).is_some() {
            let text = format!("relation \"{}\" cannot have triggers", found.table);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text)
                .with_detail("This operation is not supported for materialized views."));
        }
        return Ok(table);
    }
    if catalog.is_other(&found) {
        let text = format!("triggers on columns tables are not supported: \"{}\"", found.table);
        return Err(Error::unsupported(text).with_hint("Create the table WITH (store = rows)."));
    }
    if catalog.view(&found).is_some() {
        return Err(Error::unsupported(format!("triggers on views are not supported: \"{}\"", found.table)));
    }
    Err(no_relation(&found, name))
}

fn check_supported(create: &ast::CreateTrigger, table: &RowSchema) -> Result<()> {
    let relation = &table.name.table;
    if create.timing == ast::TriggerTiming::InsteadOf {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{relation}\" is a table"))
            .with_detail("Tables cannot have INSTEAD OF triggers."));
    }
    if !create.transitions.is_empty() {
        return Err(Error::unsupported("REFERENCING of transition tables is not supported")
            .with_hint("Use a trigger FOR EACH ROW."));
    }
    if create.constraint && (create.attributes.deferrable == Some(true) || create.from.is_some()) {
        return Err(Error::unsupported("deferrable constraint triggers are not supported"));
    }
    if create.for_each_row && create.events.contains(&ast::TriggerEvent::Truncate) {
        return Err(Error::unsupported("TRUNCATE FOR EACH ROW triggers are not supported"));
    }
    let is_partition = table.lineage.bound.is_some() || table.lineage.key.is_some();
    if create.for_each_row && is_partition {
        let text =
            format!("triggers FOR EACH ROW of partitioned tables and partitions are not supported: \"{relation}\"");
        return Err(Error::unsupported(text));
    }
    Ok(())
}

/// The text of WHEN, whose columns are those of `old` and `new`.
fn condition(
    when: &ast::Expr,
    create: &ast::CreateTrigger,
    events: model::TriggerEvents,
    table: &RowSchema,
) -> Result<String> {
    struct Names<'a> {
        events: model::TriggerEvents,
        each_row: bool,
        is_before: bool,
        table: &'a RowSchema,
    }
    impl ast::Visitor for Names<'_> {
        type Break = Error;

        fn enter_query(&mut self, _: &ast::Query) -> std::ops::ControlFlow<Error> {
            let text = "cannot use subquery in trigger WHEN condition";
            std::ops::ControlFlow::Break(Error::unsupported(text))
        }

        fn enter_expr(&mut self, expr: &ast::Expr) -> std::ops::ControlFlow<Error> {
            let checked = match &expr.kind {
                ExprKind::Path(parts) => match &parts[..] {
                    [of, column] => self.check(of, Some(column)),
                    _ => Ok(()),
                },
                ExprKind::Column(name) => self.check(name, None),
                ExprKind::Wildcard(parts) => match &parts[..] {
                    [of] => self.check(of, None),
                    _ => Ok(()),
                },
                _ => Ok(()),
            };
            checked.map_or_else(std::ops::ControlFlow::Break, std::ops::ControlFlow::Continue)
        }
    }
    impl Names<'_> {
        /// Generated columns have no values yet before the change.
        fn check_generated(&self, column: Option<&Ident>) -> Result<()> {
            let mut generated = self.table.shown().filter(|(_, one)| one.generated.is_some());
            let found = generated.find(|(_, one)| column.is_none_or(|column| *column.as_str() == one.name));
            let Some((_, found)) = found else { return Ok(()) };
            let detail = match column {
                Some(_) => format!("Column \"{}\" is a generated column.", found.name),
                None => "A whole-row reference is used and the table contains generated columns.".to_owned(),
            };
            let text = "BEFORE trigger's WHEN condition cannot reference NEW generated columns";
            Err(Error::new(INVALID_OBJECT, text).with_detail(detail))
        }

        fn check(&self, of: &Ident, column: Option<&Ident>) -> Result<()> {
            let invalid = |text: &str| Err(Error::new(INVALID_OBJECT, text));
            if self.is_before && of.as_str() == "new" {
                self.check_generated(column)?;
            }
            let is_known = match of.as_str() {
                "old" | "new" if !self.each_row => {
                    return invalid("statement trigger's WHEN condition cannot reference column values");
                }
                "old" if self.events.has(TriggerEvent::Insert) => {
                    return invalid("INSERT trigger's WHEN condition cannot reference OLD values");
                }
                "new" if self.events.has(TriggerEvent::Delete) => {
                    return invalid("DELETE trigger's WHEN condition cannot reference NEW values");
                }
                "old" | "new" => column.is_none_or(|column| self.table.column(column).is_some()),
                _ => false,
            };
            let shown = column.map_or_else(|| format!("\"{of}\""), |column| format!("{of}.{column}"));
            match (is_known, of.as_str(), column) {
                (true, ..) => Ok(()),
                (_, "old" | "new", Some(_)) | (_, _, None) => {
                    Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column {shown} does not exist")))
                }
                _ => {
                    let text = format!("missing FROM-clause entry for table \"{of}\"");
                    Err(Error::new(SqlState::UNDEFINED_TABLE, text))
                }
            }
        }
    }
    let is_before = create.timing == ast::TriggerTiming::Before;
    match ast::Visitor::visit_expr(&mut Names { events, each_row: create.for_each_row, is_before, table }, when) {
        std::ops::ControlFlow::Break(error) => Err(error),
        std::ops::ControlFlow::Continue(()) => Ok(when.to_string()),
    }
}

/// OID of the function of a trigger: one without parameters that returns `trigger`.
fn function(name: &Name, session: Session<'_>) -> Result<u32> {
    let missing = || Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}() does not exist"));
    let routines = session.facts()?.routines.as_ref().ok_or_else(missing)?;
    let named = routines.named(name.schema(), &name.name).into_iter();
    let mut fitting = named
        .filter_map(|one| one.downcast::<Routine>().ok())
        .filter(|one: &Arc<Routine>| one.signature.parameters.is_empty() && !one.is_procedure);
    let found = fitting.next().ok_or_else(missing)?;
    if found.signature.result.0 != TRIGGER {
        let text = format!("function {} must return type trigger", name.name);
        return Err(Error::new(INVALID_OBJECT, text));
    }
    Ok(found.oid)
}

/// Plans a DROP TRIGGER.
///
/// # Errors
/// 42704 without IF EXISTS if there is none.
pub(super) fn drop(drop: &ast::Drop, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new("DROP TRIGGER");
    for object in &drop.objects {
        let ast::ObjectName::On(name, of) = object else { continue };
        let found = names::relation(of, catalog)?;
        let Some(table) = catalog.table(&found) else {
            if drop.if_exists {
                let text = format!("relation \"{}\" does not exist, skipping", of.name);
                definition.notices.push(Notice::new(text));
                continue;
            }
            return Err(no_relation(&found, of));
        };
        let mut next = next_version(&table);
        let count = next.triggers.len();
        next.triggers.retain(|trigger| trigger.name != *name.as_str());
        if next.triggers.len() == count {
            let error = missing(name, &table);
            if !drop.if_exists {
                return Err(error);
            }
            definition.notices.push(Notice::new(format!("{}, skipping", error.message())));
            continue;
        }
        definition.changes.push(Change::Alter { next, work: Vec::new() });
    }
    Ok(definition)
}

fn missing(name: &str, table: &RowSchema) -> Error {
    let text = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name.table);
    Error::new(SqlState::UNDEFINED_OBJECT, text)
}

/// Plans an ALTER TRIGGER … RENAME TO.
///
/// # Errors
/// 42704 if there is none, 42710 if the new name is taken.
pub(super) fn rename(name: &Ident, of: &Name, to: &Ident, catalog: &dyn Catalog) -> Result<Definition> {
    let table = table(of, catalog)?;
    let mut next = next_version(&table);
    if next.triggers.iter().any(|trigger| trigger.name == *to.as_str()) {
        let text = format!("trigger \"{to}\" for relation \"{}\" already exists", table.name.table);
        return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
    }
    let found = next.triggers.iter_mut().find(|trigger| trigger.name == *name.as_str());
    found.ok_or_else(|| missing(name, &table))?.name = to.to_string();
    Ok(altered("ALTER TRIGGER", next))
}

/// ENABLE and DISABLE TRIGGER of ALTER TABLE. ALL includes the triggers that PostgreSQL has for foreign keys. `only`: partitions
/// do not follow.
///
/// # Errors
/// 42704 if there is none.
pub(super) fn set_firing(draft: &mut Draft<'_>, name: &TriggerName, firing: TriggerFiring, only: bool) -> Result<()> {
    match name {
        TriggerName::Name(name) => {
            let found = draft.next.triggers.iter_mut().find(|trigger| trigger.name == *name.as_str());
            let Some(found) = found else { return Err(missing(name, &draft.next)) };
            found.firing = firing;
        }
        TriggerName::User | TriggerName::All => {
            draft.next.triggers.iter_mut().for_each(|trigger| trigger.firing = firing);
        }
    }
    if *name == TriggerName::All {
        switch_foreign_keys(draft, firing == TriggerFiring::Disabled, only)?;
    }
    Ok(())
}

/// Switches the checks of a table's foreign keys, and the actions of those that reference it. Partitions have their own copies
/// of both.
fn switch_foreign_keys(draft: &mut Draft<'_>, disabled: bool, only: bool) -> Result<()> {
    let id = draft.next.id;
    for key in &mut draft.next.foreign_keys {
        key.check_disabled = disabled;
        if key.table == id {
            key.action_disabled = disabled;
        }
    }
    let catalog = draft.catalog;
    for table in catalog.tables().iter().filter(|table| table.id != id) {
        let is_switched = |key: &RowForeignKey| key.table == id && key.action_disabled != disabled;
        if table.foreign_keys.iter().any(is_switched) {
            let keys = draft.other(table).foreign_keys.iter_mut().filter(|key| key.table == id);
            keys.for_each(|key| key.action_disabled = disabled);
        }
    }
    let Some(old) = draft.old.clone().filter(|old| old.lineage.key.is_some() && !only) else { return Ok(()) };
    for table in with_descendants(&old, catalog)?.iter().filter(|table| table.id != id) {
        let is_switched =
            |key: &RowForeignKey| table.lineage.foreign_keys.contains(&key.name) && key.check_disabled != disabled;
        if table.foreign_keys.iter().any(is_switched) {
            draft.other(table).foreign_keys.iter_mut().filter(|key| is_switched(key)).for_each(|key| {
                key.check_disabled = disabled;
            });
        }
    }
    Ok(())
}

/// Gives a column of the conditions of triggers its new name.
pub(super) fn rename_column(next: &mut RowSchema, old: &str, new: &str) -> Result<()> {
    for condition in next.triggers.iter_mut().filter_map(|trigger| trigger.condition.as_mut()) {
        let mut expr = parser::parse_expr(condition)?;
        let mut is_changed = false;
        expr.visit_mut(&mut |part| {
            if let ExprKind::Path(parts) = &mut part.kind
                && let [of, column] = &mut parts[..]
                && matches!(of.as_str(), "old" | "new")
                && column.as_str() == old
            {
                *column = Ident::new(new);
                is_changed = true;
            }
        });
        if is_changed {
            *condition = expr.to_string();
        }
    }
    Ok(())
}

/// Drops the triggers that name a column; without CASCADE error 2BP01.
pub(super) fn drop_column(draft: &mut Draft<'_>, at: usize, what: &str, cascade: bool) -> Result<()> {
    let column = draft.next.columns[at].name.clone();
    let names_it = |trigger: &RowTrigger| {
        let mut found = trigger.columns.contains(&at);
        if let Some(Ok(expr)) = trigger.condition.as_deref().map(parser::parse_expr) {
            expr.clone().visit_mut(&mut |part| {
                if let ExprKind::Path(parts) = &part.kind
                    && let [of, name] = &parts[..]
                {
                    found |= matches!(of.as_str(), "old" | "new") && *name.as_str() == *column;
                }
            });
        }
        found
    };
    let Some(first) = draft.next.triggers.iter().find(|trigger| names_it(trigger)) else { return Ok(()) };
    if !cascade {
        let shown = format!("trigger {} on table {}", first.name, draft.next.name.table);
        return Err(super::drop::depended(what, std::iter::once((shown.as_str(), what))));
    }
    let dropped: Vec<String> =
        draft.next.triggers.iter().filter(|one| names_it(one)).map(|one| one.name.clone()).collect();
    for name in &dropped {
        let text = format!("drop cascades to trigger {name} on table {}", draft.next.name.table);
        draft.notices.push(Notice::new(text));
    }
    draft.next.triggers.retain(|trigger| !dropped.contains(&trigger.name));
    Ok(())
}
