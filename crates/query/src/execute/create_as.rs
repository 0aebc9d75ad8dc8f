//! CREATE TABLE … AS: creates a table from the result of a query or of a prepared one, in either store.

use std::borrow::Cow;
use std::ops::ControlFlow;

use model::{Error, Result, SqlState, TableName, Type};
use parser::ast::{self as tree, CreateTableAs, CreateTableSource, Insert, Pos, TargetTable, Visitor};
use parser::print::{RelationText, Rewrites, quoted_name, rewritten};
use pg::types::oid;
use relational::types::Value;

use crate::binding;
use crate::execute::prepared_statements;
use crate::result::{Arguments, Outcome};
use crate::session::Session;
use crate::statement::{Command, Parsed, Purpose};

/// OIDs of the types of a query's parameters, and their values.
type Parameters<'a> = (&'a [u32], &'a [Value]);

/// Creates the table and fills it by INSERT.
///
/// # Errors
/// Errors of the query, of CREATE TABLE and of INSERT; 42601 for more names than columns; 42809 for EXECUTE of a statement that
/// is no query.
pub(crate) async fn execute(session: &mut Session, parsed: &Parsed, create: &CreateTableAs) -> Result<Outcome> {
    let execute = match &create.source {
        CreateTableSource::Query(query) => return made(session, parsed, create, (parsed, query), (&[], &[])).await,
        CreateTableSource::Execute(execute) => execute,
    };
    let prepared = session.plan_named(&execute.name)?;
    let statement = &prepared.0.statement.0;
    let Command::Query(query) = &statement.command else {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, "prepared statement is not a SELECT"));
    };
    let values = prepared_statements::values(session, &prepared, &execute.name, &execute.args).await?;
    made(session, parsed, create, (statement, query), (prepared.parameters(), &values)).await
}

/// Makes the table of a query, which is a part of a statement.
async fn made(
    session: &mut Session,
    parsed: &Parsed,
    create: &CreateTableAs,
    (statement, query): (&Parsed, &tree::Query),
    parameters: Parameters<'_>,
) -> Result<Outcome> {
    let columns = columns(session, statement, create, query, parameters.0)?;
    let source = settled(session, statement, create, query)?;
    let table = definition(create, &columns)?;
    match session.define_table(parsed, &table).await?.1 {
        Some(name) if !create.no_data => filled(session, statement, &name, &source, parameters).await,
        // WITH NO DATA, or IF NOT EXISTS and the table exists.
        _ => Ok(Outcome::command("CREATE TABLE AS")),
    }
}

/// The query, whose tables of the same name as the new one have schemas: it means those that there were before.
pub(super) fn settled<'q>(
    session: &mut Session,
    parsed: &Parsed,
    create: &CreateTableAs,
    query: &'q tree::Query,
) -> Result<Cow<'q, tree::Query>> {
    let mut found = SameName { name: &create.name.name, places: Vec::new(), is_in_with: false };
    let _ = found.visit_query(query);
    if found.places.is_empty() {
        return Ok(Cow::Borrowed(query));
    }
    let context = session.context_of_newest();
    if found.is_in_with {
        // Only binding tells which of the names are those of tables.
        let Ok(bound) = binding::bind_view(&context, parsed, query) else { return Ok(Cow::Borrowed(query)) };
        return read(&bound.query).map(Cow::Owned);
    }
    let Some(meant) = context.resolve(&create.name.name) else { return Ok(Cow::Borrowed(query)) };
    let name = format!("{}.{}", quoted_name(&meant.schema), quoted_name(&meant.table));
    let mut rewrites = Rewrites::default();
    for at in found.places {
        rewrites.set_relation(at, RelationText { name: name.clone(), alias: None });
    }
    read(&rewritten(query, &rewrites)).map(Cow::Owned)
}

/// The tree of a query that was printed.
fn read(text: &str) -> Result<tree::Query> {
    match parser::parse_all(text)?.pop().map(|one| one.statement) {
        Some(tree::Statement::Query(query)) => Ok(*query),
        _ => Err(Error::bug("a query that is none when it is printed")),
    }
}

/// Relations with a name that is not qualified.
struct SameName<'a> {
    name: &'a str,
    places: Vec<Pos>,
    /// Whether a query of WITH has the name.
    is_in_with: bool,
}

impl Visitor for SameName<'_> {
    type Break = ();

    fn enter_query(&mut self, query: &tree::Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.ctes);
        self.is_in_with |= ctes.into_iter().any(|cte| *cte.name == *self.name);
        ControlFlow::Continue(())
    }

    fn enter_table_expr(&mut self, table: &tree::TableExpr) -> ControlFlow<()> {
        if let tree::TableExpr::Relation(relation) = table
            && relation.name.qualifier.is_empty()
            && *relation.name.name == *self.name
        {
            self.places.push(relation.name.at);
        }
        ControlFlow::Continue(())
    }
}

/// A name as a statement has it.
fn written(name: &TableName) -> tree::Name {
    let qualifier = Box::new([name.schema.as_str().into()]);
    tree::Name { qualifier, name: name.table.as_str().into(), ..tree::Name::default() }
}

/// Inserts the rows of a query into a table.
pub(super) async fn filled(
    session: &mut Session,
    parsed: &Parsed,
    table: &TableName,
    query: &tree::Query,
    (types, values): Parameters<'_>,
) -> Result<Outcome> {
    let insert = Insert {
        with: None,
        table: TargetTable { name: written(table), only: false, alias: None },
        columns: Vec::new(),
        overriding: None,
        source: Some(Box::new(query.clone())),
        on_conflict: None,
        returning: Vec::new(),
    };
    let insert = parsed.part(Command::Change(tree::Statement::Insert(Box::new(insert))), Purpose::Shown);
    let prepared = session.plan_statement(&insert, types)?;
    let executed = match values {
        [] => session.execute_into(&prepared, Arguments::Values(&[]), None).await?,
        values => prepared_statements::run(session, &prepared, values, None).await?,
    };
    let crate::result::Executed::Outcome(Outcome::Command { tag }) = executed else {
        return Err(Error::bug("an INSERT that gives rows"));
    };
    Ok(Outcome::command(tag.replacen("INSERT 0", "SELECT", 1)))
}

/// The definition of the table.
pub(super) fn definition(create: &CreateTableAs, columns: &[String]) -> Result<tree::CreateTable> {
    let shell = parser::parse_all(&format!("CREATE TABLE t ({})", columns.join(", ")))?.pop();
    let Some(tree::Statement::CreateTable(shell)) = shell.map(|shell| shell.statement) else {
        return Err(Error::bug("a definition that is none"));
    };
    let CreateTableAs { name, persistence, if_not_exists, access_method, options, on_commit, tablespace, .. } =
        create.clone();
    Ok(tree::CreateTable { name, persistence, if_not_exists, access_method, options, on_commit, tablespace, ..*shell })
}

/// The columns of the query as definitions, with the given names. `types`: those of its parameters.
fn columns(
    session: &mut Session,
    parsed: &Parsed,
    create: &CreateTableAs,
    query: &tree::Query,
    types: &[u32],
) -> Result<Vec<String>> {
    let query = parsed.part(Command::Query(Box::new(query.clone())), Purpose::Shown);
    let planned = session.plan_statement(&query, types)?;
    let found = planned.columns().unwrap_or_default();
    column_list(&create.columns, found.iter().map(|column| (column.name.as_str(), column.oid, column.typmod)))
}

/// Columns as definitions, the first ones with the given names. `found`: names, OIDs of types, and type modifiers.
pub(super) fn column_list<'f>(
    given: &[tree::Ident],
    found: impl ExactSizeIterator<Item = (&'f str, u32, i32)>,
) -> Result<Vec<String>> {
    if given.len() > found.len() {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    let mut given = given.iter();
    let mut list = Vec::with_capacity(found.len());
    for (name, number, typmod) in found {
        let name = given.next().map_or(name, |name| name.as_str());
        let ty = match number {
            oid::UNKNOWN => Some(Type::Text),
            known => Type::from_oid(known, typmod),
        };
        let Some(ty) = ty else {
            let text = format!("column \"{name}\" has a type that a table cannot have (OID {number})");
            return Err(Error::unsupported(text));
        };
        list.push(format!("\"{}\" {}", name.replace('"', "\"\""), model::user_types::type_sql(ty.oid(), ty)));
    }
    Ok(list)
}
