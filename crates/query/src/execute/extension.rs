//! CREATE EXTENSION: what there is of an extension is built in.

use model::{Error, Result, SqlState};
use parser::ast::CreateExtension;
use pg_catalog::extensions::{self, BUILT_IN};

use crate::result::Outcome;
use crate::session::Session;

/// Creates nothing. A notice says what is there.
///
/// # Errors
/// 42710 for PL/pgSQL, which every database has, without IF NOT EXISTS; 0A000 for an unknown extension.
pub(super) fn create(session: &mut Session, create: &CreateExtension) -> Result<Outcome> {
    let name = create.name.as_str();
    match (name, extensions::find(name)) {
        ("timescaledb", _) => {
            session.notice("what there is of \"timescaledb\" is built in: create_hypertable, time_bucket, first, last");
        }
        ("plpgsql", _) => {
            let text = "extension \"plpgsql\" already exists";
            if !create.if_not_exists {
                return Err(Error::new(SqlState::DUPLICATE_OBJECT, text));
            }
            session.notice(format!("{text}, skipping"));
        }
        (_, Some(found)) => {
            session.notice(format!("what there is of \"{name}\" is built in: {}", found.contents));
        }
        (_, None) => {
            let names: Vec<&str> = BUILT_IN.iter().map(|extension| extension.name).collect();
            let error = Error::unsupported(format!("extension \"{name}\" is not available"));
            return Err(error.with_hint(format!("There are {} and timescaledb.", names.join(", "))));
        }
    }
    Ok(Outcome::command("CREATE EXTENSION"))
}
