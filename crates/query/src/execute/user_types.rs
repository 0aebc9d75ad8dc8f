//! DROP TYPE and DROP DOMAIN. With CASCADE, views, columns, attributes, constraints, defaults and domains are dropped one after the other.

use std::sync::Arc;

use model::{Error, PartitionKeySource, Result, SqlState, TableName, TypeSpec, TypeSpecRef, user_types};
use parser::ast::{Drop, DropBehavior, Name, ObjectKind, ObjectName, Statement};

use super::routine::define as routines;
use super::rows;
use crate::errors::locate;
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::{Command, Parsed, parse};

/// Whether a statement drops types.
pub(super) fn is_drop(statement: &Statement) -> bool {
    matches!(statement, Statement::Drop(drop) if matches!(drop.kind, ObjectKind::Type | ObjectKind::Domain))
}

/// Runs DROP TYPE or DROP DOMAIN.
pub(super) async fn drop(session: &mut Session, parsed: &Parsed, drop: &Drop) -> Result<Outcome> {
    let dropped = dropped(session, parsed, drop).await;
    dropped.map_err(|error| locate(error, parsed))
}

async fn dropped(session: &mut Session, parsed: &Parsed, drop: &Drop) -> Result<Outcome> {
    let is_domain = drop.kind == ObjectKind::Domain;
    for object in &drop.objects {
        let name = match object {
            ObjectName::Name(name) => name,
            ObjectName::Type(ty) => &ty.name,
            _ => return Err(Error::bug("a type without a name")),
        };
        let spec = rows::with_relations(session, |relations| compiled::find_type(name, relations));
        let Some(spec) = spec else {
            refuse_other(session, name, is_domain)?;
            let error = compiled::no_type(name);
            if !drop.if_exists {
                return Err(error);
            }
            session.notice(format!("{}, skipping", error.message()));
            continue;
        };
        if is_domain && spec.domain().is_none() {
            return Err(not_a_domain(name));
        }
        drop_one(session, parsed, &spec, drop.behavior == DropBehavior::Cascade).await?;
    }
    Ok(Outcome::command(if is_domain { "DROP DOMAIN" } else { "DROP TYPE" }))
}

fn not_a_domain(name: &Name) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a domain", name.name))
}

/// Errors for types of the system and of the rows of tables.
fn refuse_other(session: &mut Session, name: &Name, is_domain: bool) -> Result<()> {
    let is_system = compiled::is_system_type(name);
    let relation = rows::with_relations(session, |relations| compiled::row_type(name, relations));
    if is_domain && (is_system || relation.is_some()) {
        return Err(not_a_domain(name));
    }
    if is_system {
        let shown = catalog::builtin().type_named(&name.name).map(|ty| catalog::builtin().type_name(ty));
        let text =
            format!("cannot drop type {} because it is required by the database system", shown.unwrap_or_default());
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text));
    }
    if let Some(relation) = relation {
        let text = format!("cannot drop type {} because {relation} requires it", name.name);
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_hint(format!("You can drop {relation} instead.")));
    }
    Ok(())
}

/// An object that depends on a type.
#[derive(Clone, PartialEq)]
enum Dependent {
    /// A table that is partitioned by a column or expression of the type.
    Table(TableName),
    Column(TableName, String),
    Default(TableName, String),
    Check(TableName, String),
    Index(TableName),
    View(TableName),
    Domain(TypeSpecRef),
    /// A function or procedure, by its number, and as messages name it.
    Routine(u32, String),
    /// An attribute of a composite type, by the names of both.
    Attribute(TableName, String),
}

/// The statement that drops an object.
enum Removal {
    Statement(String),
    /// A routine, by its number.
    Routine(u32),
}

impl Dependent {
    /// The object, and what it depends on.
    fn described(&self, spec: &TypeSpec, is_array: bool) -> (String, String) {
        let ty = format!("type {}{}", spec.name.table, if is_array { "[]" } else { "" });
        let own = match self {
            Dependent::Table(table) => format!("table {}", table.table),
            Dependent::Column(table, column) => format!("column {column} of table {}", table.table),
            Dependent::Default(table, column) => format!("default value for column {column} of table {}", table.table),
            Dependent::Check(table, check) => format!("constraint {check} on table {}", table.table),
            Dependent::Index(index) => format!("index {}", index.table),
            Dependent::View(view) => format!("view {}", view.table),
            Dependent::Domain(other) => format!("type {}", other.name.table),
            Dependent::Routine(_, shown) => shown.clone(),
            Dependent::Attribute(other, name) => format!("column {name} of composite type {}", other.table),
        };
        (own, ty)
    }

    /// Statement that drops the object with all that depends on it.
    fn removal(&self) -> Removal {
        let of_table = |table: &TableName, action: String| format!("ALTER TABLE {} {action}", qualified(table));
        Removal::Statement(match self {
            Dependent::Table(table) => format!("DROP TABLE {} CASCADE", qualified(table)),
            Dependent::Column(table, column) => of_table(table, format!("DROP COLUMN {} CASCADE", quoted(column))),
            Dependent::Default(table, column) => {
                of_table(table, format!("ALTER COLUMN {} DROP DEFAULT", quoted(column)))
            }
            Dependent::Check(table, check) => of_table(table, format!("DROP CONSTRAINT {}", quoted(check))),
            Dependent::Index(index) => format!("DROP INDEX {} CASCADE", qualified(index)),
            Dependent::View(view) => format!("DROP VIEW IF EXISTS {} CASCADE", qualified(view)),
            Dependent::Domain(other) => format!("DROP DOMAIN {} CASCADE", qualified(&other.name)),
            Dependent::Routine(id, _) => return Removal::Routine(*id),
            Dependent::Attribute(other, name) => {
                format!("ALTER TYPE {} DROP ATTRIBUTE {} CASCADE", qualified(other), quoted(name))
            }
        })
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn qualified(name: &TableName) -> String {
    format!("{}.{}", quoted(&name.schema), quoted(&name.table))
}

/// Objects that depend directly on a type, and whether on its array. Those that a table inherits are last: they are dropped
/// with the parent's.
fn dependents(session: &mut Session, spec: &TypeSpec) -> Vec<(Dependent, bool)> {
    let snapshot = session.newest();
    let catalog = snapshot.catalog();
    let is_named = |sql: &String| user_types::is_named_in(spec.oid, sql);
    let (mut found, mut inherited) = (Vec::new(), Vec::new());
    for table in catalog.row_tables().chain(catalog.tables_with_rules()) {
        let name = &table.name;
        let mut parts = table.lineage.key.iter().flat_map(|key| &key.parts);
        let is_key = parts.any(|part| match &part.source {
            PartitionKeySource::Expression(sql) => part.ty.oid() & !1 == spec.oid || is_named(sql),
            PartitionKeySource::Column(at) => table.columns[*at].user_type() == Some(spec.oid),
        });
        if is_key {
            found.push((Dependent::Table(name.clone()), false));
            continue;
        }
        let mut is_dropped = vec![false; table.columns.len()];
        for (at, column) in table.shown() {
            let is_inherited = table.lineage.column(at).is_some_and(|entry| entry.parents > 0);
            let found = if is_inherited { &mut inherited } else { &mut found };
            if column.user_type() == Some(spec.oid) || column.generated.as_ref().is_some_and(is_named) {
                let is_array = user_types::is_array(column.declared().0);
                found.push((Dependent::Column(name.clone(), column.name.clone()), is_array));
                is_dropped[at] = true;
            } else if column.default.as_ref().is_some_and(is_named) {
                found.push((Dependent::Default(name.clone(), column.name.clone()), false));
            }
        }
        for check in table.checks.iter().filter(|check| is_named(&check.condition)) {
            let is_inherited = table.lineage.checks.iter().any(|one| one.name == check.name && one.parents > 0);
            let found = if is_inherited { &mut inherited } else { &mut found };
            found.push((Dependent::Check(name.clone(), check.name.clone()), false));
        }
        for index in table.primary.iter().chain(&table.secondary) {
            let is_of_type = |at: usize| {
                let column = &table.columns[at];
                column.is_hidden()
                    && (column.user_type() == Some(spec.oid) || column.generated.as_ref().is_some_and(is_named))
            };
            if index.uses().any(is_of_type) && !index.uses().any(|at| is_dropped[at]) {
                let is_inherited = table.lineage.indexes.iter().any(|(own, _)| *own == index.id);
                let index = TableName { schema: name.schema.clone(), table: index.name.clone() };
                let found = if is_inherited { &mut inherited } else { &mut found };
                found.push((Dependent::Index(index), false));
            }
        }
    }
    found.append(&mut inherited);
    for view in catalog.views() {
        // The columns of tables that a view reads are dropped with the view.
        if is_named(&view.query) {
            found.push((Dependent::View(view.name.clone()), false));
        }
    }
    for routine in catalog.routines().filter(|routine| routine.types().any(|ty| ty & !1 == spec.oid)) {
        let what = if routine.is_procedure { "procedure" } else { "function" };
        let shown = format!("{what} {}", routines::shown(routine, catalog));
        found.push((Dependent::Routine(routine.id, shown), false));
    }
    for other in catalog.types() {
        for attribute in other.attributes().unwrap_or_default() {
            if attribute.ty.oid() & !1 == spec.oid {
                let dependent = Dependent::Attribute(other.name.clone(), attribute.name.clone());
                found.push((dependent, user_types::is_array(attribute.ty.oid())));
            }
        }
        let Some(domain) = other.domain() else { continue };
        let constrains = domain.over == spec.oid || domain.base.oid() & !1 == spec.oid && domain.over == 0;
        let names = domain.default.iter().chain(domain.checks.iter().map(|check| &check.condition)).any(is_named);
        if constrains || names {
            let is_array = user_types::is_array(domain.base.oid());
            found.push((Dependent::Domain(other.clone()), is_array));
        }
    }
    found
}

/// Drops a type; without CASCADE error 2BP01 if anything depends on it.
pub(super) async fn drop_one(session: &mut Session, parsed: &Parsed, spec: &TypeSpec, cascade: bool) -> Result<()> {
    let dependents = dependents(session, spec);
    let described: Vec<_> = dependents.iter().map(|(one, is_array)| one.described(spec, *is_array)).collect();
    if !dependents.is_empty() && !cascade {
        let text = format!("cannot drop type {} because other objects depend on it", spec.name.table);
        let lines: Vec<String> = described.iter().map(|(own, on)| format!("{own} depends on {on}")).collect();
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    let notices = session.notices.len();
    for (dependent, _) in &dependents {
        // Others that were dropped may have dropped it too.
        if !self::dependents(session, spec).iter().any(|(left, _)| left == dependent) {
            continue;
        }
        let sql = match dependent.removal() {
            Removal::Statement(sql) => sql,
            Removal::Routine(id) => {
                let routine = session.newest().catalog().routine_by_id(id).map(Arc::clone);
                let routine = routine.ok_or_else(|| Error::bug("a function that was dropped"))?;
                Box::pin(routines::drop_one(session, parsed, &routine, true)).await?;
                continue;
            }
        };
        let statement = parse(&sql)?.into_iter().next().ok_or_else(|| Error::bug("no statement"))?.without_place();
        let Command::Definition(change) = &statement.0.command else { return Err(Error::bug("no definition")) };
        match change {
            Statement::Drop(drop) if is_drop(change) => {
                Box::pin(dropped(session, parsed, drop)).await.map(std::mem::drop)?
            }
            change => {
                if Box::pin(rows::define(session, parsed, change)).await?.is_none() {
                    Box::pin(super::definition::execute(session, parsed, change)).await.map(std::mem::drop)?;
                }
            }
        }
    }
    session.notices.truncate(notices);
    let lines: Vec<String> = described.iter().map(|(own, _)| format!("drop cascades to {own}")).collect();
    match lines.as_slice() {
        [] => {}
        [only] => session.notice(only.clone()),
        lines => {
            let text = format!("drop cascades to {} other objects", lines.len());
            session.notices.push(Error::new(SqlState("00000"), text).with_detail(lines.join("\n")));
        }
    }
    session.writer()?.drop_type(spec.id)
}
