//! CREATE INDEX and ALTER INDEX; `drop` has DROP INDEX.

use model::{Error, Result, SqlState};
use sqlparser::ast;

use super::draft::Draft;
use super::{Catalog, Definition, Notice, create, is_taken, names};
use crate::statement::Session;

/// Plans a CREATE INDEX; `None` for a table of the other store.
pub(super) fn create(
    create: &ast::CreateIndex,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let table_name = names::relation(&create.table_name, catalog)?;
    let Some(table) = catalog.table(&table_name) else {
        if catalog.is_other(&table_name) {
            return Ok(None);
        }
        return Err(super::no_relation(&table_name, &create.table_name));
    };
    refuse_kinds(create)?;
    let mut draft = Draft::of(&table, catalog, session);
    options(create, &mut draft)?;
    let name = create.name.as_ref().map(own_name).transpose()?;
    if let Some(name) = &name
        && let Err(error) = draft.check_relation(name)
    {
        if !create.if_not_exists {
            return Err(error);
        }
        let notice = Notice::new(format!("relation \"{name}\" already exists, skipping"));
        return Ok(Some(Definition { notices: vec![notice], ..Definition::new("CREATE INDEX") }));
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        columns.push(self::column(column, &draft)?);
    }
    if !is_one_direction(create) {
        let text = "the index is ascending in all columns: ORDER BY in mixed directions needs a sort";
        draft.notices.push(Notice::new(text.to_owned()));
    }
    draft.add_plain(name, columns, create.unique)?;
    draft.finish("CREATE INDEX").map(Some)
}

/// Whether all columns have one direction, so that an index scan returns rows in the declared order, forwards or
/// backwards.
///
/// Any other direction does not affect results, but queries in that order must sort.
fn is_one_direction(create: &ast::CreateIndex) -> bool {
    let all = |descending: bool| {
        let is = |column: &ast::IndexColumn| {
            let options = &column.column.options;
            let descends = options.asc == Some(false);
            // NULLs sort above all values, so they come first in descending order.
            descends == descending && options.nulls_first.unwrap_or(descends) == descends
        };
        create.columns.iter().all(is)
    };
    all(false) || all(true)
}

/// The index's name; it must be unqualified, because an index is in its table's schema.
fn own_name(name: &ast::ObjectName) -> Result<String> {
    match name.0.as_slice() {
        [ast::ObjectNamePart::Identifier(name)] => names::plain(name),
        _ => Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\"")),
    }
}

fn refuse_kinds(create: &ast::CreateIndex) -> Result<()> {
    match &create.using {
        None | Some(ast::IndexType::BTree) => {}
        Some(method) => {
            let text = format!(
                "access method \"{}\" is not supported on rows tables",
                method.to_string().to_ascii_lowercase()
            );
            return Err(Error::unsupported(text)
                .with_hint("indexes of rows tables are ordered: leave USING out, or say USING btree"));
        }
    }
    let what = if !create.include.is_empty() {
        "INCLUDE"
    } else if create.predicate.is_some() {
        "a partial index (WHERE)"
    } else if create.nulls_distinct == Some(false) {
        "NULLS NOT DISTINCT"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{what} is not supported on rows tables")))
}

fn options(create: &ast::CreateIndex, draft: &mut Draft<'_>) -> Result<()> {
    for option in &create.with {
        let name = match option {
            ast::Expr::BinaryOp { left, .. } => left.to_string().to_ascii_lowercase(),
            other => other.to_string().to_ascii_lowercase(),
        };
        if name != "deduplicate_items" && !create::is_ignored(&name) {
            let text = format!("unrecognized parameter \"{name}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        draft.notices.push(create::ignored(&name));
    }
    Ok(())
}

/// Position of an index column; expressions are refused, and the direction is not stored.
fn column(column: &ast::IndexColumn, draft: &Draft<'_>) -> Result<usize> {
    let ast::Expr::Identifier(name) = &column.column.expr else {
        return Err(Error::unsupported(format!(
            "an index over the expression {} is not supported on rows tables",
            column.column.expr
        )));
    };
    // All of these operator classes order text by its bytes, as this store does.
    let is_bytewise = |class: &ast::ObjectName| {
        let class = class.to_string().to_lowercase();
        ["text_ops", "varchar_ops", "bpchar_ops", "text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"]
            .contains(&class.as_str())
    };
    if let Some(class) = column.operator_class.as_ref().filter(|class| !is_bytewise(class)) {
        return Err(Error::unsupported(format!("operator class {class} is not supported on rows tables")));
    }
    let name = names::plain(name)?;
    draft
        .next
        .column(&name)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))
}

/// Plans ALTER INDEX … RENAME TO; `None` if the name belongs to the other store.
pub(super) fn alter(
    name: &ast::ObjectName,
    operation: &ast::AlterIndexOperation,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let ast::AlterIndexOperation::RenameIndex { index_name } = operation;
    let old = names::relation(name, catalog)?;
    let Some(table) = catalog.index(&old) else {
        if catalog.is_other(&old) {
            return Ok(None);
        }
        if is_taken(catalog, &old) {
            let text = format!("\"{}\" is not an index", old.table);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        return Err(super::no_relation(&old, name));
    };
    let new = own_name(index_name)?;
    let mut draft = Draft::of(&table, catalog, session);
    draft.check_relation(&new)?;
    let next = &mut draft.next;
    let all = next.primary.iter_mut().chain(&mut next.secondary);
    all.filter(|index| index.name == old.table).for_each(|index| index.name.clone_from(&new));
    draft.finish("ALTER INDEX").map(Some)
}
