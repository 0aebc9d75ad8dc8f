//! ALTER TABLE of `columns` tables: names, and the checks of what can be altered.

use std::sync::Arc;

use engine::CommentKey;
use model::{ColumnRole, Error, Result, RowSchema, SqlState, Table, TableName, TableRef};
use parser::ast::{
    AlterSchema, AlterTableAction, DropBehavior, ObjectName, Rename, RenamePart, Statement, TableConstraintKind,
};
use pg_catalog::oids::{Part, is_primary, key_name, of_table};

use super::column_constraints;
use super::definition::{column_spec, data_type, default_of_key};
use crate::result::Outcome;
use crate::session::Session;
use crate::tables::find_table;

/// Number of `pg_class` in `pg_class`.
const PG_CLASS: u32 = 1_259;

/// Runs ALTER TABLE … RENAME.
pub(super) fn rename(session: &mut Session, statement: &Statement, rename: &Rename) -> Result<Outcome> {
    let Some(table) = named(session, &rename.object, rename.if_exists)? else {
        return Ok(Outcome::command("ALTER TABLE"));
    };
    let mut next = next_version(&table);
    match &rename.part {
        None => next.name.table = rename.to.to_string(),
        Some(RenamePart::Constraint(old)) if is_primary(&table) && *old.as_str() == *key_name(&table) => {
            return Err(Error::unsupported("the key of a columns table cannot be renamed")
                .with_hint("it is named for the table"));
        }
        Some(_) => return column_constraints::change_names(session, statement, &table),
    }
    renamed(session, &table, next)
}

/// Runs ALTER TABLE … SET SCHEMA.
pub(super) fn set_schema(session: &mut Session, statement: &Statement, alter: &AlterSchema) -> Result<Outcome> {
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
    if table.rules.texts().any(|text| text.contains("nextval")) {
        return column_constraints::change_names(session, statement, &table);
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

/// Checks that an action can be applied to a `columns` table.
///
/// # Errors
/// 0A000 for actions that these tables do not have, and for changes of key and time; 42P16; 2BP01 for a column that a view
/// uses.
pub(super) fn check_action(session: &mut Session, table: &Table, action: &AlterTableAction) -> Result<()> {
    use AlterTableAction as A;
    match action {
        A::AddColumn { column, if_not_exists } => {
            if *if_not_exists && table.column(&column.name).is_some() {
                return Ok(());
            }
            let stored = column_constraints::with_stored_type(session, column)?;
            column_spec(&stored, ColumnRole::Field).map(|_| ())
        }
        A::DropColumn { name, behavior, .. } => match table.column(name) {
            Some(column) => check_is_free(session, table, column, *behavior),
            None => Ok(()),
        },
        A::DropNotNull(name) => {
            let Some(column) = table.column(name) else { return Ok(()) };
            if column.role != ColumnRole::Field && is_primary(table) {
                let text = format!("column \"{name}\" is in a primary key");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
            }
            if column.role == ColumnRole::Time {
                let text = format!("column \"{name}\" is the time, and must be NOT NULL");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
            }
            Ok(())
        }
        A::SetDefault { column, .. } => match table.column(column) {
            Some(found) if found.role == ColumnRole::Key => Err(default_of_key(column)),
            _ => Ok(()),
        },
        A::AlterColumnType { column, ty, .. } => {
            let Some(found) = table.column(column) else { return Ok(()) };
            if found.role != ColumnRole::Field {
                let what = if found.role == ColumnRole::Time { "the time" } else { "key columns" };
                return Err(Error::unsupported(format!("the type of {what} of a columns table cannot be changed"))
                    .with_hint("create another table, and copy the rows by INSERT … SELECT"));
            }
            if let Some(view) = view_of(session, table, found) {
                let detail = format!("rule _RETURN on view {view} depends on column \"{column}\"");
                let text = "cannot alter type of a column used by a view or rule";
                return Err(Error::unsupported(text).with_detail(detail));
            }
            match column_constraints::stored_type_name(session, column, ty)? {
                Some(_) => Ok(()),
                None => data_type(column, ty).map(|_| ()),
            }
        }
        A::AddConstraint(constraint) => match constraint.kind {
            TableConstraintKind::Check(_) => Ok(()),
            _ => Err(Error::unsupported("only CHECK constraints can be added to columns tables")
                .with_hint("the key of a columns table is that of CREATE TABLE")),
        },
        A::DropConstraint { name, .. } if is_primary(table) && *name.as_str() == *key_name(table) => {
            Err(Error::unsupported("the key of a columns table cannot be dropped"))
        }
        A::DropDefault(_)
        | A::SetNotNull(_)
        | A::DropConstraint { .. }
        | A::ValidateConstraint(_)
        | A::SetStatistics { .. }
        | A::SetStorage { .. }
        | A::SetCompression { .. }
        | A::SetColumnOptions { .. }
        | A::ResetColumnOptions { .. }
        | A::OwnerTo(_) => Ok(()),
        _ => Err(Error::unsupported("this ALTER TABLE is not supported on columns tables").with_hint(
            "ADD, DROP and RENAME of columns and CHECK constraints, ALTER COLUMN, RENAME, SET SCHEMA, SET (retention, \
             history) and RESET (retention) are",
        )),
    }
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
    let Some(view) = view_of(session, table, column) else { return Ok(()) };
    let name = &table.name.table;
    let text = format!("cannot drop column {} of table {name} because other objects depend on it", column.name);
    let error = Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
        .with_detail(format!("view {view} depends on column {} of table {name}", column.name));
    Err(match behavior {
        DropBehavior::Cascade => error.with_hint("CASCADE drops no views of columns tables: drop the view first."),
        DropBehavior::Restrict => error.with_hint("Drop the view first."),
    })
}

/// The name of a view that uses a column.
fn view_of(session: &mut Session, table: &Table, column: &model::Column) -> Option<String> {
    let context = session.context_of_newest();
    let uses = |view: &&model::ViewRef| {
        let reference = view.reference(table.id.0);
        reference.is_some_and(|reference| reference.columns.iter().any(|one| one.number == column.id.0))
    };
    context.reads.snapshot.catalog().views().find(uses).map(|view| view.name.table.clone())
}

/// Moves the comments of the columns after those that a statement drops: comments name columns by their place.
pub(super) fn move_comments_of_dropped(session: &mut Session, table: &Table, next: &RowSchema) -> Result<()> {
    let mut count = table.columns.len();
    for at in (0..count).rev().filter(|at| next.columns[*at].dropped) {
        count -= 1;
        move_comments(session, table, at, count)?;
    }
    Ok(())
}

/// Moves the comments of the columns after a dropped one. `count`: number of the other columns.
fn move_comments(session: &mut Session, table: &Table, dropped: usize, count: usize) -> Result<()> {
    let snapshot = session.newest();
    let object = of_table(table.id, Part::Table);
    let key = |at: usize| CommentKey { class: PG_CLASS, object, column: at as u32 + 1 };
    let comment = |at: usize| snapshot.catalog().comment(&key(at)).map(Arc::clone);
    for at in dropped..=count {
        let (here, after) = (comment(at), comment(at + 1));
        if here != after {
            session.writer()?.set_comment(key(at), after.as_deref())?;
        }
    }
    Ok(())
}
