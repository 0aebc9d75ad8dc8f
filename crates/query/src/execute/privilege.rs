//! GRANT, REVOKE and owners. Every user has all privileges, so both change nothing and say so; the objects must exist, as in a dump
//! that is loaded.

use model::{Error, Result, SqlState};
use parser::ast::{Grant, GrantTarget, Name, ObjectKind, ObjectName};

use crate::result::Outcome;
use crate::session::Session;
use crate::tables::{Named, find_table};

/// Warning for a privilege that is not taken away.
const NOT_REVOKED: SqlState = SqlState("01006");

/// Runs GRANT and REVOKE.
///
/// # Errors
/// 42P01 and 3F000 for a table or schema that does not exist.
pub(super) fn execute(session: &mut Session, grant: &Grant) -> Result<Outcome> {
    match &grant.target {
        GrantTarget::Objects(ObjectKind::Table | ObjectKind::Sequence, names) => {
            names.iter().try_for_each(|name| check_relation(session, name))?;
        }
        GrantTarget::Objects(ObjectKind::Schema, names) => {
            names.iter().try_for_each(|name| check_schema(session, &name.name))?;
        }
        GrantTarget::AllInSchema(_, schemas) => {
            schemas.iter().try_for_each(|schema| check_schema(session, schema))?;
        }
        _ => {}
    }
    Ok(ignored(session, if grant.revoke { "REVOKE" } else { "GRANT" }))
}

/// Runs ALTER SCHEMA … OWNER TO, which dumps have: no object has an owner.
///
/// # Errors
/// 3F000 for a schema that does not exist.
pub(super) fn own_schema(session: &mut Session, object: &ObjectName) -> Result<Outcome> {
    if let ObjectName::Name(name) = object {
        check_schema(session, &name.name)?;
    }
    session.notice("OWNER TO is ignored: every user has all privileges");
    Ok(Outcome::command("ALTER SCHEMA"))
}

/// Tells that a command about privileges has no effect.
pub(super) fn ignored(session: &mut Session, tag: &'static str) -> Outcome {
    let text = format!("{tag} is ignored: every user has all privileges");
    if tag == "REVOKE" {
        session.warn(NOT_REVOKED, text)
    } else {
        session.notice(text)
    }
    Outcome::command(tag)
}

fn check_relation(session: &mut Session, name: &Name) -> Result<()> {
    let context = session.context_of_newest();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let is_sequence = || compiled::Tables::sequence(&named, name.schema(), &name.name).is_some();
    if named.find(name).is_some() || named.view(name).is_some() || is_sequence() {
        return Ok(());
    }
    match find_table(&context, name) {
        // Privileges on the system catalog are as good as all others.
        Err(error) if error.state() == SqlState("42501") => Ok(()),
        found => found.map(drop),
    }
}

fn check_schema(session: &mut Session, schema: &str) -> Result<()> {
    let context = session.context_of_newest();
    let is_system = matches!(schema, "pg_catalog" | "information_schema");
    if is_system || context.reads.snapshot.catalog().has_schema(schema) {
        return Ok(());
    }
    Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")))
}
