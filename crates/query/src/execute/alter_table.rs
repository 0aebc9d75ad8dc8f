//! ALTER TABLE of `columns` tables: names, and columns that are removed. Rows are not rewritten: readers and writers continue.

use std::sync::Arc;

use engine::CommentKey;
use model::{ColumnRole, Error, Result, SqlState, Table, TableName, TableRef};
use parser::ast::{AlterSchema, AlterTableAction, DropBehavior, ObjectName, Rename, RenamePart};
use pg_catalog::oids::{Part, is_primary, of_table};

use crate::result::Outcome;
use crate::session::Session;
use crate::tables::find_table;

/// Number of `pg_class` in `pg_class`.
const PG_CLASS: u32 = 1_259;

/// Runs ALTER TABLE … RENAME.
pub(super) fn rename(session: &mut Session, rename: &Rename) -> Result<Outcome> {
    let Some(table) = named(session, &rename.object, rename.if_exists)? else {
        return Ok(Outcome::command("ALTER TABLE"));
    };
    let mut next = next_version(&table);
    match &rename.part {
        None => next.name.table = rename.to.to_string(),
        Some(RenamePart::Column(old) | RenamePart::Attribute(old)) => {
            let at = next.columns.iter().position(|column| column.name == old.as_str());
            let at =
                at.ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")))?;
            if table.column(&rename.to).is_some() {
                let text = format!("column \"{}\" of relation \"{}\" already exists", rename.to, table.name.table);
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
            }
            next.columns[at].name = rename.to.to_string();
        }
        Some(RenamePart::Constraint(_)) => {
            return Err(Error::unsupported("RENAME CONSTRAINT is not supported on columns tables")
                .with_hint("the constraint of key and time is named for the table"));
        }
    }
    renamed(session, &table, next)
}

/// Runs ALTER TABLE … SET SCHEMA.
pub(super) fn set_schema(session: &mut Session, alter: &AlterSchema) -> Result<Outcome> {
    let Some(table) = named(session, &alter.object, alter.if_exists)? else {
        return Ok(Outcome::command("ALTER TABLE"));
    };
    let schema = session.settings.schema(&alter.schema).to_owned();
    if !session.newest().catalog().has_schema(&schema) {
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
    }
    if schema == table.name.schema {
        return Ok(Outcome::command("ALTER TABLE"));
    }
    let mut next = next_version(&table);
    next.name.schema = schema;
    if next.name.is_temporary() {
        return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
    }
    renamed(session, &table, next)
}

fn renamed(session: &mut Session, table: &Table, next: Table) -> Result<Outcome> {
    if next.name != table.name && session.newest().catalog().has_relation(&next.name) {
        return Err(taken(table, &next.name));
    }
    session.writer()?.alter_table(next)?;
    Ok(Outcome::command("ALTER TABLE"))
}

fn taken(table: &Table, name: &TableName) -> Error {
    let within =
        if name.schema == table.name.schema { String::new() } else { format!(" in schema \"{}\"", name.schema) };
    Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{}\" already exists{within}", name.table))
}

/// The table that a statement alters; `None` if it does not exist, with IF EXISTS.
fn named(session: &mut Session, object: &ObjectName, if_exists: bool) -> Result<Option<TableRef>> {
    let ObjectName::Name(name) = object else { return Err(Error::bug("a table that has no name")) };
    let context = session.context();
    match find_table(&context, name) {
        Ok(table) => Ok(Some(table)),
        Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
            session.notice(format!("{}, skipping", error.message()));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn next_version(table: &Table) -> Table {
    Table { version: table.version + 1, ..table.clone() }
}

/// Applies DROP COLUMN and DROP NOT NULL, and returns the table afterwards.
pub(super) fn without_columns(
    session: &mut Session,
    table: TableRef,
    actions: &[AlterTableAction],
) -> Result<TableRef> {
    let mut next = next_version(&table);
    let mut is_altered = false;
    for action in actions {
        match action {
            AlterTableAction::DropColumn { name, if_exists, behavior } => {
                let Some(at) = next.columns.iter().position(|column| column.name == name.as_str()) else {
                    let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.name.table);
                    if *if_exists {
                        session.notice(format!("{text}, skipping"));
                        continue;
                    }
                    return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
                };
                check_is_free(session, &table, &next.columns[at], *behavior)?;
                next.columns.remove(at);
                move_comments(session, &next, at)?;
                is_altered = true;
            }
            AlterTableAction::DropNotNull(name) => {
                let column = next.columns.iter_mut().find(|column| column.name == name.as_str());
                let column = column.ok_or_else(|| {
                    let text = format!("column \"{name}\" of relation \"{}\" does not exist", table.name.table);
                    Error::new(SqlState::UNDEFINED_COLUMN, text)
                })?;
                if column.role != ColumnRole::Field && is_primary(&table) {
                    let text = format!("column \"{name}\" is in a primary key");
                    return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                }
                if column.role == ColumnRole::Time {
                    let text = format!("column \"{name}\" is the time, and must be NOT NULL");
                    return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
                }
                is_altered |= !column.nullable;
                column.nullable = true;
            }
            _ => {}
        }
    }
    if !is_altered {
        return Ok(table);
    }
    session.writer()?.alter_table(next)
}

/// Checks that a column can be dropped: it is a field, and no view uses it.
fn check_is_free(session: &mut Session, table: &Table, column: &model::Column, behavior: DropBehavior) -> Result<()> {
    if column.role != ColumnRole::Field {
        let what = if column.role == ColumnRole::Time { "is the time" } else { "is part of the key" };
        return Err(Error::unsupported(format!(
            "column \"{}\" of columns table \"{}\" {what} and cannot be dropped",
            column.name, table.name.table
        )));
    }
    let context = session.context_of_newest();
    let uses = |view: &&model::ViewRef| {
        let reference = view.reference(table.id.0);
        reference.is_some_and(|reference| reference.columns.iter().any(|one| one.number == column.id.0))
    };
    let Some(view) = context.reads.snapshot.catalog().views().find(uses) else { return Ok(()) };
    let name = &table.name.table;
    let text = format!("cannot drop column {} of table {name} because other objects depend on it", column.name);
    let error = Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
        .with_detail(format!("view {} depends on column {} of table {name}", view.name.table, column.name));
    Err(match behavior {
        DropBehavior::Cascade => error.with_hint("CASCADE drops no views of columns tables: drop the view first."),
        DropBehavior::Restrict => error.with_hint("Drop the view first."),
    })
}

/// Moves the comments of the columns after a dropped one: comments name columns by their place.
fn move_comments(session: &mut Session, next: &Table, dropped: usize) -> Result<()> {
    let snapshot = session.newest();
    let object = of_table(next.id, Part::Table);
    let key = |at: usize| CommentKey { class: PG_CLASS, object, column: at as u32 + 1 };
    let comment = |at: usize| snapshot.catalog().comment(&key(at)).map(Arc::clone);
    for at in dropped..=next.columns.len() {
        let (here, after) = (comment(at), comment(at + 1));
        if here != after {
            session.writer()?.set_comment(key(at), after.as_deref())?;
        }
    }
    Ok(())
}
