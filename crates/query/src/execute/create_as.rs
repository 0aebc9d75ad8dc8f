//! CREATE TABLE … AS: creates a table from the result of a query, in either store.

use std::sync::Arc;

use model::{Error, Result, SqlState, Type};
use parser::ast::{self as tree, CreateTableAs, CreateTableSource, Insert, TargetTable};
use pg::types::oid;

use crate::result::{Arguments, Outcome};
use crate::session::Session;
use crate::statement::{Command, Parsed, Purpose};

/// Creates the table and fills it by INSERT.
///
/// # Errors
/// Those of the query, of CREATE TABLE and of INSERT; 42601 for more names than columns.
pub(crate) async fn execute(session: &mut Session, parsed: &Parsed, create: &CreateTableAs) -> Result<Outcome> {
    let CreateTableSource::Query(query) = &create.source else {
        return Err(Error::unsupported("CREATE TABLE … AS EXECUTE is not supported"));
    };
    let columns = columns(session, parsed, create, query)?;
    let table = definition(create, &columns)?;
    let before = Arc::clone(session.newest().catalog());
    session.define_table(parsed, &table).await?;
    // IF NOT EXISTS, and the table exists.
    if create.no_data || Arc::ptr_eq(&before, session.newest().catalog()) {
        return Ok(Outcome::command("CREATE TABLE AS"));
    }
    let insert = Insert {
        with: None,
        table: TargetTable { name: create.name.clone(), only: false, alias: None },
        columns: Vec::new(),
        overriding: None,
        source: Some(query.clone()),
        on_conflict: None,
        returning: Vec::new(),
    };
    let insert = parsed.part(Command::Change(tree::Statement::Insert(Box::new(insert))), Purpose::Shown);
    let prepared = session.plan_statement(&insert, &[])?;
    let executed = session.execute_into(&prepared, Arguments::Values(&[]), None).await?;
    let crate::result::Executed::Outcome(Outcome::Command { tag }) = executed else {
        return Err(Error::bug("an INSERT that gives rows"));
    };
    Ok(Outcome::command(tag.replacen("INSERT 0", "SELECT", 1)))
}

/// The definition of the table.
fn definition(create: &CreateTableAs, columns: &[String]) -> Result<tree::CreateTable> {
    let shell = parser::parse_all(&format!("CREATE TABLE t ({})", columns.join(", ")))?.pop();
    let Some(tree::Statement::CreateTable(shell)) = shell.map(|shell| shell.statement) else {
        return Err(Error::bug("a definition that is none"));
    };
    let CreateTableAs { name, persistence, if_not_exists, access_method, options, on_commit, tablespace, .. } =
        create.clone();
    Ok(tree::CreateTable { name, persistence, if_not_exists, access_method, options, on_commit, tablespace, ..*shell })
}

/// The columns of the query as definitions, with the given names.
fn columns(session: &mut Session, parsed: &Parsed, create: &CreateTableAs, query: &tree::Query) -> Result<Vec<String>> {
    let query = parsed.part(Command::Query(Box::new(query.clone())), Purpose::Shown);
    let planned = session.plan_statement(&query, &[])?;
    let found = planned.columns().unwrap_or_default();
    if create.columns.len() > found.len() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    let mut given = create.columns.iter();
    let mut list = Vec::new();
    for column in found {
        let name = given.next().map_or(column.name.as_str(), |name| name.as_str());
        let ty = match column.oid {
            oid::UNKNOWN => Some(Type::Text),
            known => Type::from_oid(known, column.typmod),
        };
        let Some(ty) = ty else {
            let text = format!("column \"{name}\" has a type that a table cannot have (OID {})", column.oid);
            return Err(Error::unsupported(text));
        };
        list.push(format!("\"{}\" {ty}", name.replace('"', "\"\"")));
    }
    Ok(list)
}
