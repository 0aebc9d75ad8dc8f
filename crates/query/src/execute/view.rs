//! CREATE VIEW, and views that depend on `columns` tables. `compiled` plans ALTER VIEW and DROP VIEW.

use std::sync::Arc;

use binder::NewView;
use catalog::TypeId;
use engine::Catalog;
use model::{
    Error, Result, SqlState, Table, TableId, TableName, Type, ViewColumn, ViewReference, ViewReferenceColumn, ViewSpec,
};
use parser::ast::{CreateView, CteBody, OptionValue, Persistence, Query, QueryBody, RelOption};
use pg_catalog::oids::table_of;

use super::definition::new_name;
use crate::binding;
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::Parsed;

/// Runs CREATE [OR REPLACE] VIEW.
pub(super) fn create(session: &mut Session, parsed: &Parsed, create: &CreateView) -> Result<Outcome> {
    refuse_kinds(create)?;
    refuse_query(&create.query)?;
    for option in &create.options {
        let notice = ignored_option(option)?;
        session.notice(notice);
    }
    let context = session.context_of_newest();
    let catalog = context.reads.snapshot.catalog();
    let name = new_name(&context, &create.name)?;
    let bound = binding::bind_view(&context, parsed, &create.query)?;
    let columns = columns(create, &bound)?;
    let references = references(&bound, catalog)?;
    let view = |id, version| ViewSpec { id, name: name.clone(), version, columns, query: bound.query, references };
    match catalog.view(&name) {
        Some(old) if create.replace => {
            let next = view(old.id, old.version + 1);
            check_replacement(old, &next)?;
            session.writer()?.alter_view(Arc::new(next))?;
        }
        None if create.replace && catalog.has_relation(&name) => {
            let text = format!("\"{}\" is not a view", name.table);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        _ if catalog.has_relation(&name) => {
            let text = format!("relation \"{}\" already exists", name.table);
            return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
        }
        _ => {
            let id = session.writer()?.next_number();
            session.writer()?.create_view(Arc::new(view(id, 1)))?;
        }
    }
    Ok(Outcome::command("CREATE VIEW"))
}

fn refuse_kinds(create: &CreateView) -> Result<()> {
    let what = match create.persistence {
        Persistence::Temporary => "temporary views are",
        Persistence::Unlogged => {
            let text = "views cannot be unlogged because they do not have storage";
            return Err(Error::new(SqlState::SYNTAX_ERROR, text));
        }
        Persistence::Permanent if create.recursive => "CREATE RECURSIVE VIEW is",
        Persistence::Permanent if create.check.is_some() => "WITH CHECK OPTION is",
        Persistence::Permanent => return Ok(()),
    };
    let error = Error::unsupported(format!("{what} not supported"));
    Err(match create.recursive {
        true => error.with_hint("CREATE VIEW … AS WITH RECURSIVE … SELECT is"),
        false => error,
    })
}

fn refuse_query(query: &Query) -> Result<()> {
    let ctes = query.with.iter().flat_map(|with| &with.ctes);
    if ctes.into_iter().any(|cte| !matches!(cte.body, CteBody::Query(_))) {
        return Err(Error::unsupported("views must not contain data-modifying statements in WITH"));
    }
    if matches!(&query.body, QueryBody::Select(select) if select.into.is_some()) {
        return Err(Error::unsupported("views must not contain SELECT INTO"));
    }
    Ok(())
}

/// The notice for an option without effect.
///
/// # Errors
/// 0A000 for `check_option`; 22023 for an unknown option.
fn ignored_option(option: &RelOption) -> Result<String> {
    let name = option.full_name();
    let is_off = option.value.as_ref().is_some_and(|value: &OptionValue| matches!(&*value.text(), "false" | "off"));
    match &*name {
        "check_option" => Err(Error::unsupported("WITH CHECK OPTION is not supported")),
        "security_barrier" | "security_invoker" if is_off => Ok(format!("{name} is off for every view")),
        "security_barrier" | "security_invoker" => {
            Ok(format!("{name} is ignored: every user has all privileges, and no rows are hidden"))
        }
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))),
    }
}

/// The columns of a new view: those of its query, the first ones with the names of the statement.
fn columns(create: &CreateView, bound: &NewView) -> Result<Vec<ViewColumn>> {
    if create.columns.len() > bound.output.len() {
        let text = "CREATE VIEW specifies more column names than columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    let mut given = create.columns.iter();
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
fn references(bound: &NewView, catalog: &Catalog) -> Result<Vec<ViewReference>> {
    let mut references = Vec::with_capacity(bound.tables.len());
    for (table, positions) in &bound.tables {
        let (TableId(object), _) = table_of(table.oid).ok_or_else(|| Error::bug("a table without number"))?;
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
pub(super) fn drop_dependents(session: &mut Session, table: &Table, cascade: bool) -> Result<()> {
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
    let names: Vec<String> = views.iter().map(|view| format!("drop cascades to view {}", shown(&view.name))).collect();
    for view in views.iter().rev() {
        session.writer()?.drop_view(view.id)?;
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
