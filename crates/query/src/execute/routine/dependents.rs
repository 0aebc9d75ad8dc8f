//! Objects that call a function: views, and the expressions of tables. Their texts name the function with its schema.

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::Catalog;
use model::{Error, Result, RoutineSpec, SqlState, TableName};
use parser::ast::{self, DropBehavior, ObjectKind, ObjectName, Statement};
use parser::print::quoted_name;
use pg_catalog::oids::{Part, of_table};

use super::define::shown;
use crate::binding;
use crate::execute::rows;
use crate::session::Session;
use crate::statement::Parsed;

/// An object that calls a function.
pub(super) struct Dependent {
    /// The name in messages.
    pub(super) shown: String,
    /// The statement that removes it.
    removal: String,
    /// Whether its text has the function's name.
    by_name: bool,
}

/// Looks for calls of a function.
struct Calls<'a>(&'a RoutineSpec);

impl ast::Visitor for Calls<'_> {
    type Break = ();

    fn enter_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let ast::ExprKind::Function(call) = &expr.kind else { return ControlFlow::Continue(()) };
        if self.is_called(call) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Calls<'_> {
    /// Whether a call may be one of the function: its schema, name and number of arguments fit.
    fn is_called(&self, call: &ast::FunctionCall) -> bool {
        let routine = self.0;
        let inputs = routine.inputs().count();
        let required = routine.inputs().filter(|parameter| parameter.default.is_none()).count();
        let is_variadic = routine.inputs().any(|parameter| parameter.mode == model::RoutineMode::Variadic);
        let given = call.args.len();
        *call.name.name.as_str() == *routine.name.table
            && call.name.schema() == Some(routine.name.schema.as_str())
            && (is_variadic || (required..=inputs).contains(&given))
    }

    fn in_expr(&mut self, sql: &str) -> bool {
        parser::parse_expr(sql).is_ok_and(|expr| ast::Visitor::visit_expr(self, &expr).is_break())
    }

    fn in_query(&mut self, sql: &str) -> bool {
        let parsed = parser::parse_all(sql).ok().and_then(|mut statements| statements.pop());
        match parsed.map(|one| one.statement) {
            Some(Statement::Query(query)) => ast::Visitor::visit_query(self, &query).is_break(),
            _ => false,
        }
    }
}

/// The objects that call a function.
pub(super) fn dependents(routine: &RoutineSpec, catalog: &Catalog) -> Vec<Dependent> {
    let mut calls = Calls(routine);
    let mut found = Vec::new();
    // Texts without the name need not be parsed.
    let name = routine.name.table.as_str();
    let qualified = |name: &TableName| format!("{}.{}", quoted_name(&name.schema), quoted_name(&name.table));
    for table in catalog.row_tables() {
        for (_, column) in table.shown() {
            let (of, on) = (&column.name, &table.name.table);
            let (own, column_name) = (qualified(&table.name), quoted_name(&column.name));
            if column.default.as_deref().is_some_and(|sql| sql.contains(name) && calls.in_expr(sql)) {
                found.push(Dependent {
                    shown: format!("default value for column {of} of table {on}"),
                    removal: format!("ALTER TABLE {own} ALTER COLUMN {column_name} DROP DEFAULT"),
                    by_name: true,
                });
            }
            if column.generated.as_deref().is_some_and(|sql| sql.contains(name) && calls.in_expr(sql)) {
                found.push(Dependent {
                    shown: format!("column {of} of table {on}"),
                    removal: format!("ALTER TABLE {own} DROP COLUMN {column_name}"),
                    by_name: true,
                });
            }
        }
        let oid = crate::routines::oid_of(routine.id);
        for trigger in table.triggers.iter().filter(|trigger| trigger.routine == oid) {
            let (own, trigger_name) = (qualified(&table.name), quoted_name(&trigger.name));
            found.push(Dependent {
                shown: format!("trigger {} on table {}", trigger.name, table.name.table),
                removal: format!("DROP TRIGGER {trigger_name} ON {own}"),
                by_name: false,
            });
        }
        for check in &table.checks {
            if check.condition.contains(name) && calls.in_expr(&check.condition) {
                let (own, constraint) = (qualified(&table.name), quoted_name(&check.name));
                found.push(Dependent {
                    shown: format!("constraint {} on table {}", check.name, table.name.table),
                    removal: format!("ALTER TABLE {own} DROP CONSTRAINT {constraint}"),
                    by_name: true,
                });
            }
        }
    }
    for view in catalog.views() {
        if view.query.contains(name) && calls.in_query(&view.query) {
            let kind = if view.materialized.is_some() { "materialized view" } else { "view" };
            found.push(Dependent {
                shown: format!("{kind} {}", view.name.table),
                removal: format!("DROP {} {} CASCADE", kind.to_uppercase(), qualified(&view.name)),
                by_name: true,
            });
        }
    }
    found
}

/// Removes the objects that call a function, or refuses.
///
/// # Errors
/// 2BP01 without CASCADE if there are any.
pub(super) async fn remove(
    session: &mut Session,
    parsed: &Parsed,
    routine: &RoutineSpec,
    is_cascade: bool,
) -> Result<()> {
    let snapshot = session.newest();
    let found = dependents(routine, snapshot.catalog());
    if found.is_empty() {
        return Ok(());
    }
    let what = if routine.is_procedure { "procedure" } else { "function" };
    let shown = shown(routine, snapshot.catalog());
    drop(snapshot);
    if !is_cascade {
        let lines: Vec<String> = found.iter().map(|one| format!("{} depends on {what} {shown}", one.shown)).collect();
        let text = format!("cannot drop {what} {shown} because other objects depend on it");
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    match found.as_slice() {
        [one] => session.notice(format!("drop cascades to {}", one.shown)),
        all => {
            let lines: Vec<String> = all.iter().map(|one| format!("drop cascades to {}", one.shown)).collect();
            let notice = Error::new(SqlState("00000"), format!("drop cascades to {} other objects", all.len()));
            session.notices.push(notice.with_detail(lines.join("\n")));
        }
    }
    for one in found {
        for statement in parser::parse_all(&one.removal)? {
            // A view may have been dropped with another one.
            match Box::pin(rows::define(session, parsed, &statement.statement)).await {
                Ok(_) => {}
                Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Before tables or views are dropped: drops the functions and procedures with their rows as parameters or results, or
/// refuses.
///
/// # Errors
/// 2BP01 without CASCADE if there are any.
pub(crate) async fn remove_those_with_rows(session: &mut Session, parsed: &Parsed, drop: &ast::Drop) -> Result<()> {
    if !matches!(drop.kind, ObjectKind::Table | ObjectKind::View | ObjectKind::MaterializedView) {
        return Ok(());
    }
    let context = session.context_of_newest();
    let catalog = context.reads.snapshot.catalog();
    if !catalog.has_routines() {
        return Ok(());
    }
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    let kind = match drop.kind {
        ObjectKind::Table => "table",
        ObjectKind::View => "view",
        _ => "materialized view",
    };
    let mut first = None;
    for object in &drop.objects {
        let ObjectName::Name(name) = object else { continue };
        let Some(id) = binding::relation(&context, name) else { continue };
        let types = [Part::RowType, Part::RowArray].map(|part| of_table(id, part));
        for routine in catalog.routines().filter(|routine| routine.types().any(|ty| types.contains(&ty))) {
            let what = if routine.is_procedure { "procedure" } else { "function" };
            lines.push(format!("{what} {} depends on type {}", shown(routine, catalog), name.name));
            first = first.or(Some(name));
            found.push(Arc::clone(routine));
        }
    }
    let Some(first) = first else { return Ok(()) };
    if drop.behavior != DropBehavior::Cascade {
        let text = format!("cannot drop {kind} {} because other objects depend on it", first.name);
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for routine in found {
        let what = if routine.is_procedure { "procedure" } else { "function" };
        session.notice(format!("drop cascades to {what} {}", shown(&routine, context.reads.snapshot.catalog())));
        Box::pin(super::define::drop_one(session, parsed, &routine, true)).await?;
    }
    Ok(())
}

/// Refuses to give a function another name: what calls it has its name.
///
/// # Errors
/// 0A000.
pub(super) fn refuse_renaming(session: &mut Session, routine: &RoutineSpec) -> Result<()> {
    let snapshot = session.newest();
    let found = dependents(routine, snapshot.catalog());
    let Some(first) = found.iter().find(|one| one.by_name) else { return Ok(()) };
    let shown = shown(routine, snapshot.catalog());
    let text = format!("cannot rename function {shown} because {} uses it", first.shown);
    Err(Error::unsupported(text).with_hint("Drop the object, rename the function, and create the object again."))
}
