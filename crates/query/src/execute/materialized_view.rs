//! CREATE and REFRESH MATERIALIZED VIEW. A materialized view is a `rows` table with the rows of a query, and a view of the
//! same number and name with the query.

use std::sync::Arc;

use engine::RowData;
use model::{Error, ErrorKind, Materialized, Result, SqlState, TEMPORARY_SCHEMA, TableId, TableName, ViewSpec};
use parser::ast::{
    CreateTableAs, CreateTableSource, Name, OptionValue, Persistence, Pos, RefreshMaterializedView, RelOption,
};

use super::{create_as, view};
use crate::binding;
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::Parsed;
use crate::tables::Named;

/// The statement with store `rows`.
///
/// # Errors
/// 0A000 for the other store.
fn with_store(create: &CreateTableAs) -> Result<CreateTableAs> {
    let is_store = |option: &&RelOption| option.full_name() == "store";
    let written = create.options.iter().find(is_store).and_then(|option| option.value.as_ref().map(OptionValue::text));
    let store = create.access_method.as_ref().map(ToString::to_string).or(written);
    if store.is_some_and(|store| !matches!(store.as_str(), "rows" | "heap")) {
        return Err(Error::unsupported("a materialized view is a table of rows: its store cannot be another"));
    }
    let mut create = create.clone();
    if !create.options.iter().any(|option| is_store(&option)) {
        let value = Some(OptionValue::Text("rows".into()));
        create.options.push(RelOption { namespace: None, name: "store".into(), value, at: Pos::default() });
    }
    create.access_method = None;
    Ok(create)
}

const CREATE: &str = "CREATE MATERIALIZED VIEW";

/// Creates the table, fills it, and makes it a materialized view.
///
/// # Errors
/// Those of the query and of CREATE TABLE; 0A000 for temporary tables in the query.
pub(super) async fn create(session: &mut Session, parsed: &Parsed, create: &CreateTableAs) -> Result<Outcome> {
    let CreateTableSource::Query(query) = &create.source else {
        return Err(Error::bug("a materialized view of no query"));
    };
    if create.persistence == Persistence::Unlogged {
        return Err(Error::unsupported("materialized views cannot be unlogged"));
    }
    view::refuse_query(query)?;
    let context = session.context_of_newest();
    let bound = binding::bind_view(&context, parsed, query)?;
    if bound.tables.iter().any(|(table, _)| table.schema.starts_with(TEMPORARY_SCHEMA)) {
        return Err(Error::unsupported("materialized views must not use temporary tables or views"));
    }
    // By the catalog in which the query was bound: another session may change its tables meanwhile.
    let references = view::references(&bound, context.reads.snapshot.catalog())?;
    let found = bound.output.iter().map(|output| (&*output.name, output.ty.0, output.typmod));
    let columns = create_as::column_list(&create.columns, found)?;
    let source = create_as::settled(session, parsed, create, query)?;
    let table = create_as::definition(&with_store(create)?, &columns)?;
    let Some(name) = session.define_table(parsed, &table).await?.1 else {
        // IF NOT EXISTS, and the relation exists.
        return Ok(Outcome::command(CREATE));
    };
    let outcome = match create.no_data {
        true => Outcome::command(CREATE),
        false => create_as::filled(session, parsed, &name, &source, (&[], &[])).await?,
    };
    let context = session.context_of_newest();
    let rows = context.reads.snapshot.row_table(&name)?;
    let state = if create.no_data { Materialized::Unpopulated } else { Materialized::Populated };
    let spec = ViewSpec {
        id: rows.id().0,
        name: rows.schema.name.clone(),
        version: 1,
        columns: view::columns(&create.columns, &bound)?,
        references,
        query: bound.query,
        base: None,
        check: None,
        materialized: Some(state),
    };
    session.writer()?.create_view(Arc::new(spec))?;
    Ok(outcome)
}

/// Replaces the rows by those of the query. Others read the former rows until the commit, so CONCURRENTLY does the same.
///
/// # Errors
/// 42809 for another relation; 55000 for CONCURRENTLY without a unique index; those of the query.
pub(super) async fn refresh(
    session: &mut Session,
    parsed: &Parsed,
    refresh: &RefreshMaterializedView,
) -> Result<Outcome> {
    if refresh.concurrently && refresh.no_data {
        let text = "CONCURRENTLY and WITH NO DATA options cannot be used together";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    let view = found(session, &refresh.name)?;
    if refresh.concurrently {
        check_concurrently(session, &view)?;
    }
    // The lock on the table first: a concurrent refresh has then changed the view before it is read again.
    session.alter_row_table(TableId(view.id), RowData::Discard, |_| {}).await?;
    let view = found(session, &refresh.name)?;
    // While the rows are written, the query is a view of its own, and the table an ordinary one.
    let query = TableName { schema: view.name.schema.clone(), table: format!("pg_refresh_{}", view.id) };
    let next = |version: u32, name: &TableName, materialized: Option<Materialized>| {
        let name = name.clone();
        Arc::new(ViewSpec { version: view.version + version, name, materialized, ..view.clone() })
    };
    session.writer()?.alter_view(next(1, &query, None))?;
    let state = match refresh.no_data {
        true => Materialized::Unpopulated,
        false => {
            let text = format!("SELECT * FROM {}", qualified(&query));
            let statement = parser::parse_all(&text)?.pop().map(|one| one.statement);
            let Some(parser::ast::Statement::Query(select)) = statement else {
                return Err(Error::bug("no query of a materialized view"));
            };
            let filled = create_as::filled(session, parsed, &view.name, &select, (&[], &[])).await;
            filled.map_err(Error::without_position)?;
            Materialized::Populated
        }
    };
    session.writer()?.alter_view(next(2, &view.name, Some(state)))?;
    Ok(Outcome::command("REFRESH MATERIALIZED VIEW"))
}

fn qualified(name: &TableName) -> String {
    format!("{}.{}", parser::print::quoted_name(&name.schema), parser::print::quoted_name(&name.table))
}

/// The materialized view of a name.
fn found(session: &mut Session, name: &Name) -> Result<ViewSpec> {
    let context = session.context_of_newest();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let other = |text: String| Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    let shown = &name.name;
    match named.find(name) {
        Some(rows) => match context.reads.snapshot.catalog().materialized_view(rows.id()) {
            Some(view) => Ok((**view).clone()),
            None => other(format!("\"{shown}\" is not a materialized view")),
        },
        None if named.view(name).is_some() => other(format!("\"{shown}\" is not a materialized view")),
        None => {
            crate::tables::find_table(&context, name)?;
            other(format!("\"{shown}\" is not a materialized view"))
        }
    }
}

fn check_concurrently(session: &mut Session, view: &ViewSpec) -> Result<()> {
    if view.materialized == Some(Materialized::Unpopulated) {
        let text = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(Error::unsupported(text));
    }
    let rows = Arc::clone(session.newest().row_table_by_id(TableId(view.id))?);
    if rows.schema.primary.is_some() || rows.schema.secondary.iter().any(|index| index.unique) {
        return Ok(());
    }
    let TableName { schema, table } = &view.name;
    let text = format!("cannot refresh materialized view \"{schema}.{table}\" concurrently");
    let hint = "Create a unique index with no WHERE clause on one or more columns of the materialized view.";
    Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).with_kind(ErrorKind::Invalid).with_hint(hint))
}
