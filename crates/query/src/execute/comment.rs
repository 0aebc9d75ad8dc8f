//! COMMENT ON.

use engine::Snapshot;
use model::{Error, Result, RowSchema, SqlState};
use parser::ast::{Comment, Name, ObjectKind as Kind, ObjectName};
use pg_catalog::comments::{self, RelationKind};

use super::{routine, rows};
use crate::result::Outcome;
use crate::session::Session;
use crate::session::context::DATABASE;

/// Runs COMMENT ON. An empty text removes the comment, as NULL does.
///
/// # Errors
/// PostgreSQL's for an object that does not exist, or is of another kind.
pub(crate) fn execute(session: &mut Session, comment: &Comment) -> Result<Outcome> {
    let snapshot = session.newest();
    let catalog = snapshot.catalog();
    let schema_of = |name: &Name| schema_of(session, &snapshot, name);
    let on_relation = |name: &Name, kind| comments::on_relation(catalog, schema_of(name).as_deref(), &name.name, kind);
    let key = match (comment.kind, &comment.object) {
        (Kind::Table | Kind::ForeignTable, ObjectName::Name(name)) => on_relation(name, RelationKind::Table)?,
        (Kind::Index, ObjectName::Name(name)) => on_relation(name, RelationKind::Index)?,
        (Kind::Sequence, ObjectName::Name(name)) => on_relation(name, RelationKind::Sequence)?,
        (Kind::View, ObjectName::Name(name)) => on_relation(name, RelationKind::View)?,
        (Kind::MaterializedView, ObjectName::Name(name)) => on_relation(name, RelationKind::MaterializedView)?,
        (Kind::Column, ObjectName::Name(column)) => {
            let Some((table, qualifier)) = column.qualifier.split_last() else {
                return Err(Error::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
            };
            let table = Name { qualifier: qualifier.into(), name: table.clone(), at: column.at };
            comments::on_column(catalog, schema_of(&table).as_deref(), &table.name, &column.name)?
        }
        (Kind::TableConstraint, ObjectName::On(constraint, table)) => {
            comments::on_constraint(catalog, schema_of(table).as_deref(), &table.name, constraint)?
        }
        (Kind::Trigger, ObjectName::On(trigger, table)) => {
            comments::on_trigger(catalog, schema_of(table).as_deref(), &table.name, trigger)?
        }
        (Kind::Schema, ObjectName::Name(name)) if catalog.has_schema(&name.name) => comments::on_schema(&name.name),
        (Kind::Schema, ObjectName::Name(name)) => {
            let text = format!("schema \"{}\" does not exist", name.name);
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
        }
        (Kind::Database, ObjectName::Name(name)) if *name.name == *DATABASE => comments::on_database(),
        (Kind::Database, ObjectName::Name(name)) => {
            let text = format!("database \"{}\" does not exist", name.name);
            return Err(Error::new(SqlState::INVALID_CATALOG_NAME, text));
        }
        (Kind::Type | Kind::Domain, ObjectName::Type(ty)) => {
            let found = rows::with_relations(session, |relations| compiled::find_type(&ty.name, relations));
            match found {
                Some(spec) if comment.kind == Kind::Domain && spec.domain().is_none() => {
                    let text = format!("\"{}\" is not a domain", ty.name.name);
                    return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
                }
                Some(spec) => comments::on_type(&spec),
                None if compiled::is_system_type(&ty.name) => return Ok(ignored(session)),
                None => return Err(compiled::no_type(&ty.name)),
            }
        }
        (Kind::DomainConstraint, ObjectName::On(constraint, domain)) => {
            let found = rows::with_relations(session, |relations| compiled::find_type(domain, relations));
            let spec = found.ok_or_else(|| compiled::no_type(domain))?;
            comments::on_domain_constraint(&spec, constraint)?
        }
        (Kind::Function | Kind::Procedure | Kind::Routine, ObjectName::Function(signature)) => {
            let routine = routine::define::find(session, comment.kind, signature)?;
            if routine.name.is_temporary() {
                session.notice("COMMENT is ignored: comments on temporary objects are not stored");
                return Ok(Outcome::command("COMMENT"));
            }
            comments::on_routine(&routine)
        }
        _ => return Ok(ignored(session)),
    };
    if comments::is_on_temporary(catalog, key) {
        session.notice("COMMENT is ignored: comments on temporary objects are not stored");
        return Ok(Outcome::command("COMMENT"));
    }
    let text = comment.text.as_ref().map(ToString::to_string).filter(|text| !text.is_empty());
    session.writer()?.set_comment(key, text.as_deref())?;
    Ok(Outcome::command("COMMENT"))
}

fn ignored(session: &mut Session) -> Outcome {
    session.notice("COMMENT is ignored: comments on objects of this kind are not stored");
    Outcome::command("COMMENT")
}

/// The schema of a relation: that of its name, or the first of the search path that has one of its name.
fn schema_of(session: &Session, snapshot: &Snapshot, name: &Name) -> Option<String> {
    match name.schema() {
        Some(schema) => Some(session.settings.schema(schema).to_owned()),
        None => {
            let catalog = snapshot.catalog();
            let has = |schema: &String| {
                let name = model::TableName { schema: schema.clone(), table: name.name.to_string() };
                catalog.has_relation(&name)
            };
            session.settings.search_path().into_iter().find(has)
        }
    }
}

/// Keeps the comments of the indexes and constraints of a table that get another number, because they are built again or get
/// another name.
///
/// # Errors
/// Those of a change of the catalog.
pub(crate) fn keep(session: &mut Session, before: &RowSchema, after: &RowSchema) -> Result<()> {
    let snapshot = session.newest();
    if snapshot.catalog().comments().next().is_none() {
        return Ok(());
    }
    for (from, to) in comments::renumbered(before, after) {
        if let Some(text) = snapshot.catalog().comment(&from) {
            session.writer()?.set_comment(to, Some(text))?;
            session.writer()?.set_comment(from, None)?;
        }
    }
    Ok(())
}

/// Removes the comments of objects that a definition dropped.
///
/// # Errors
/// Those of a change of the catalog.
pub(crate) fn remove_orphans(session: &mut Session) -> Result<()> {
    let snapshot = session.newest();
    if snapshot.catalog().comments().next().is_none() {
        return Ok(());
    }
    for key in comments::orphans(snapshot.catalog()) {
        session.writer()?.set_comment(key, None)?;
    }
    Ok(())
}
