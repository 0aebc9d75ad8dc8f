//! CREATE VIEW, and views that depend on `columns` tables. `compiled` plans ALTER VIEW and DROP VIEW.

use std::sync::Arc;

use binder::NewView;
use catalog::TypeId;
use engine::{Altered, Catalog};
use model::{
    CheckOption, Error, Result, SqlState, TEMPORARY_SCHEMA, Table, TableId, TableName, Type, ViewBase, ViewColumn,
    ViewReference, ViewReferenceColumn, ViewSpec,
};
use parser::ast::{CheckOption as Check, CreateView, CteBody, Ident, Persistence, Query, QueryBody};
use pg_catalog::oids::table_of;

use super::rows::new_relation;
use crate::binding;
use crate::result::Outcome;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::session::database::wait;
use crate::statement::{Command, Parsed, Statement};

/// Runs CREATE [OR REPLACE] VIEW.
pub(super) fn create(session: &mut Session, parsed: &Parsed, create: &CreateView) -> Result<Outcome> {
    if create.persistence == Persistence::Unlogged {
        let text = "views cannot be unlogged because they do not have storage";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    refuse_query(&create.query)?;
    let context = session.context_of_newest();
    let (bound, given) = match create.recursive {
        false => (binding::bind_view(&context, parsed, &create.query)?, create.columns.as_slice()),
        true => (bind_recursive(&context, create)?, &[][..]),
    };
    // By the catalog in which the query was bound.
    let catalog = context.reads.snapshot.catalog();
    let (references, base) = (references(&bound, catalog)?, base(&bound, catalog));
    let reads_temporary = bound.tables.iter().any(|(table, _)| table.schema.starts_with(TEMPORARY_SCHEMA));
    let persistence = match reads_temporary && !compiled::is_temporary(&create.name, create.persistence) {
        true => {
            session.notice(format!("view \"{}\" will be a temporary view", create.name.name));
            Persistence::Temporary
        }
        false => create.persistence,
    };
    let name = new_relation(session, &create.name, persistence)?;
    let context = session.context_of_newest();
    let catalog = context.reads.snapshot.catalog();
    let columns = columns(given, &bound)?;
    let reason = bound.base.as_ref().err().copied();
    let check = create.check.map(|check| match check {
        Check::Local => CheckOption::Local,
        Check::Cascaded => CheckOption::Cascaded,
    });
    let query = bound.query;
    let mut view = ViewSpec { id: 0, name, version: 1, columns, query, references, base, check, materialized: None };
    for option in &create.options {
        let notice = compiled::set_option(&mut view, option)?;
        notice.into_iter().for_each(|notice| session.notice(notice.message));
    }
    compiled::check_is_updatable(&view, reason)?;
    match catalog.view(&view.name) {
        Some(old) if create.replace => {
            (view.id, view.version) = (old.id, old.version + 1);
            check_replacement(old, &view)?;
            session.writer()?.alter_view(Arc::new(view))?;
        }
        None if create.replace && catalog.has_relation(&view.name) => {
            let text = format!("\"{}\" is not a view", view.name.table);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        _ if catalog.has_relation(&view.name) => {
            let text = format!("relation \"{}\" already exists", view.name.table);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
        }
        _ => {
            view.id = session.writer()?.next_number();
            session.writer()?.create_view(Arc::new(view))?;
        }
    }
    Ok(Outcome::command("CREATE VIEW"))
}

/// Binds CREATE RECURSIVE VIEW: the query can refer to the view.
fn bind_recursive(context: &Arc<StatementContext>, create: &CreateView) -> Result<NewView> {
    let name = parser::print::quoted_name(&create.name.name);
    let columns: Vec<String> = create.columns.iter().map(|column| parser::print::quoted_name(column)).collect();
    let columns = columns.join(", ");
    let text = format!("WITH RECURSIVE {name} ({columns}) AS ({}) SELECT {columns} FROM {name}", create.query);
    let statement = crate::statement::parse(&text)?.pop().map(Statement::without_place);
    let bound = match statement.as_ref().map(|statement| (statement, &statement.0.command)) {
        Some((statement, Command::Query(query))) => binding::bind_view(context, &statement.0, query),
        _ => Err(Error::bug("a recursive view that is no query")),
    };
    bound.map_err(Error::without_position)
}

/// The relation that changes of the view change.
fn base(bound: &NewView, catalog: &Catalog) -> Option<ViewBase> {
    let (table, columns) = bound.base.as_ref().ok()?;
    let (TableId(object), _) = table_of(table.oid)?;
    let number = |at: &Option<usize>| at.and_then(|at| column_number(catalog, TableId(object), at));
    Some(ViewBase { object, columns: columns.iter().map(number).collect() })
}

pub(super) fn refuse_query(query: &Query) -> Result<()> {
    let ctes = query.with.iter().flat_map(|with| &with.ctes);
    if ctes.into_iter().any(|cte| !matches!(cte.body, CteBody::Query(_))) {
        return Err(Error::unsupported("views must not contain data-modifying statements in WITH"));
    }
    if matches!(&query.body, QueryBody::Select(select) if select.into.is_some()) {
        return Err(Error::unsupported("views must not contain SELECT INTO"));
    }
    Ok(())
}

/// The columns of a new view: those of its query, the first ones with the names of the statement.
pub(super) fn columns(given: &[Ident], bound: &NewView) -> Result<Vec<ViewColumn>> {
    if given.len() > bound.output.len() {
        let text = "CREATE VIEW specifies more column names than columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    let mut given = given.iter();
    let mut columns = Vec::with_capacity(bound.output.len());
    for output in &bound.output {
        let name = given.next().map_or_else(|| output.name.to_string(), ToString::to_string);
        if is_pseudo_type(output.ty) {
            let text = format!("column \"{name}\" has pseudo-type {}", catalog::builtin().type_name(output.ty));
            return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
        }
        columns.push(ViewColumn { name, ty: output.ty.0, typmod: output.typmod });
    }
    Ok(columns)
}

fn is_pseudo_type(ty: TypeId) -> bool {
    catalog::builtin().type_row(ty).is_some_and(|row| row.kind == catalog::TypeKind::Pseudo)
}

/// What the query of a new view reads.
pub(super) fn references(bound: &NewView, catalog: &Catalog) -> Result<Vec<ViewReference>> {
    let mut references = Vec::with_capacity(bound.tables.len());
    for (table, positions) in &bound.tables {
        let (TableId(object), _) = table_of(table.oid).ok_or_else(|| Error::bug("a table without number"))?;
        if catalog.sequence_by_id(object).is_some() {
            return Err(Error::unsupported(format!("views of sequences are not supported: \"{}\"", table.name)));
        }
        let mut columns = Vec::with_capacity(positions.len());
        for at in positions {
            let number = column_number(catalog, TableId(object), *at);
            let found = number.and_then(|number| Some((number, catalog.column_of(object, number)?)));
            let (number, (name, ty, typmod)) = found.ok_or_else(|| Error::bug("a column without number"))?;
            columns.push(ViewReferenceColumn { number, name: name.to_owned(), ty, typmod });
        }
        let name = TableName { schema: table.schema.to_string(), table: table.name.to_string() };
        references.push(ViewReference { name, object, columns });
    }
    Ok(references)
}

/// The number of the column at a position among those that statements see.
fn column_number(catalog: &Catalog, table: TableId, at: usize) -> Option<u32> {
    if let Some(columns) = catalog.table_by_id(table) {
        return columns.columns.get(at).map(|column| column.id.0);
    }
    match catalog.row_table_by_id(table) {
        Some(rows) => rows.shown().nth(at).and_then(|(number, _)| u32::try_from(number).ok()),
        None => u32::try_from(at).ok(),
    }
}

/// Checks that the columns of a view keep their names and types.
fn check_replacement(old: &ViewSpec, next: &ViewSpec) -> Result<()> {
    let wrong = |text: String| Error::new(SqlState::INVALID_TABLE_DEFINITION, text);
    if next.columns.len() < old.columns.len() {
        return Err(wrong("cannot drop columns from view".to_owned()));
    }
    for (old, next) in old.columns.iter().zip(&next.columns) {
        if old.name != next.name {
            let text = format!("cannot change name of view column \"{}\" to \"{}\"", old.name, next.name);
            let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return Err(wrong(text).with_hint(hint));
        }
        if (old.ty, old.typmod) != (next.ty, next.typmod) {
            let shown = |column: &ViewColumn| match Type::from_oid(column.ty, column.typmod) {
                Some(ty) => ty.to_string(),
                None => catalog::builtin().type_name(TypeId(column.ty)),
            };
            return Err(wrong(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name,
                shown(old),
                shown(next)
            )));
        }
    }
    Ok(())
}

/// Drops the views that read a `columns` table which is about to be dropped.
///
/// # Errors
/// 2BP01 if there are any and `cascade` is false.
pub(super) async fn drop_dependents(session: &mut Session, table: &Table, cascade: bool) -> Result<()> {
    let context = session.context_of_newest();
    let catalog = context.reads.snapshot.catalog();
    let views = catalog.dependent_views(&[table.id.0]);
    let current = context.current_schema();
    let shown = |name: &TableName| match current.as_ref() == Some(&name.schema) {
        true => parser::print::quoted_name(&name.table),
        false => {
            format!("{}.{}", parser::print::quoted_name(&name.schema), parser::print::quoted_name(&name.table))
        }
    };
    if views.is_empty() {
        return Ok(());
    }
    if !cascade {
        let needed = |view: &ViewSpec| match view.reference(table.id.0) {
            Some(_) => format!("table {}", shown(&table.name)),
            None => {
                let below = views.iter().find(|other| view.reference(other.id).is_some());
                format!("view {}", below.map_or_else(String::new, |below| shown(&below.name)))
            }
        };
        let lines: Vec<String> =
            views.iter().map(|view| format!("view {} depends on {}", shown(&view.name), needed(view))).collect();
        let text = format!("cannot drop table {} because other objects depend on it", shown(&table.name));
        return Err(Error::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    let names: Vec<String> = views
        .iter()
        .map(|view| {
            let kind = if view.materialized.is_some() { "materialized view" } else { "view" };
            format!("drop cascades to {kind} {}", shown(&view.name))
        })
        .collect();
    for view in views.iter().rev() {
        session.writer()?.drop_view(view.id)?;
        if view.materialized.is_some() {
            drop_rows(session, TableId(view.id)).await?;
        }
    }
    match names.as_slice() {
        [only] => session.notice(only.clone()),
        several => {
            let text = format!("drop cascades to {} other objects", several.len());
            session.notices.push(Error::new(SqlState("00000"), text).with_detail(several.join("\n")));
        }
    }
    Ok(())
}

/// Drops the table with the rows of a materialized view.
async fn drop_rows(session: &mut Session, table: TableId) -> Result<()> {
    while let Altered::Wait(event) = session.writer()?.drop_row_table(table)? {
        wait(&event, session.settings.lock_timeout()).await?;
    }
    Ok(())
}
