//! CREATE INDEX and ALTER INDEX; `drop` has DROP INDEX.

use model::{Error, IndexMethod, Result, RowIndex, RowIndexKey, SqlState, Type};
use parser::ast::{
    self, AlterTableAction, ColumnRef, Expr, ExprKind, Ident, IndexElement, IndexKey, NullsOrder, Pos, SortDirection,
};

use super::column::check_collation;
use super::draft::Draft;
use super::inheritance::Following;
use super::{Catalog, Definition, Notice, alter, create, generated, inheritance, is_taken, names, partition, types};
use crate::statement::Session;

/// Plans a CREATE INDEX; `None` for a table of the other store.
pub(super) fn create(
    create: &ast::CreateIndex,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let table_name = names::relation(&create.table, catalog)?;
    let Some(table) = catalog.table(&table_name) else {
        if catalog.is_other(&table_name) {
            return Ok(None);
        }
        if catalog.view(&table_name).is_some() {
            let text = format!("cannot create index on relation \"{}\"", table_name.table);
            return Err(super::view::not_for_views(text));
        }
        return Err(super::no_relation(&table_name, &create.table));
    };
    let method = method(create)?;
    let mut draft = Draft::of(&table, catalog, session);
    options(create, &mut draft)?;
    let name = create.name.as_ref().map(Ident::to_string);
    if let Some(name) = &name
        && let Err(error) = draft.check_relation(name)
    {
        if !create.if_not_exists {
            return Err(error);
        }
        let notice = Notice::new(format!("relation \"{name}\" already exists, skipping"));
        return Ok(Some(Definition { notices: vec![notice], ..Definition::new("CREATE INDEX") }));
    }
    let exprs: Vec<Expr> = create.elements.iter().map(|element| expression(&element.key)).collect();
    let include: Vec<Expr> = create.include.iter().map(|element| expression(&element.key)).collect();
    let names = generated::key_names(&exprs.iter().chain(&include).collect::<Vec<_>>());
    let mut index =
        RowIndex { unique: create.unique, nulls_not_distinct: !create.nulls_distinct, method, ..RowIndex::default() };
    for ((element, expr), name) in create.elements.iter().zip(&exprs).zip(&names) {
        let (at, key) = key((method, element), expr, name, &mut draft)?;
        index.columns.push(at);
        index.keys.push(key);
    }
    if index.keys.iter().all(|key| *key == RowIndexKey::default()) {
        index.keys.clear();
    }
    for expr in &include {
        let ExprKind::Column(name) = &expr.kind else {
            return Err(Error::unsupported("expressions are not supported in included columns"));
        };
        index.include.push(column(name, &draft)?);
    }
    index.predicate = match &create.filter {
        None => None,
        Some(filter) => Some(draft.hidden_column(filter, "predicate", true)?),
    };
    if !is_one_direction(create) {
        let text = "the index is ascending in all columns: ORDER BY in mixed directions needs a sort";
        draft.notices.push(Notice::new(text.to_owned()));
    }
    draft.add_plain(name, &names::of_columns(&names), index)?;
    let following = Following { only: create.only, ..Following::default() };
    inheritance::finish(draft, "CREATE INDEX", &following).map(Some)
}

/// Whether all columns have one direction, so that an index scan returns rows in the declared order, forwards or
/// backwards.
///
/// Any other direction does not affect results, but queries in that order must sort.
fn is_one_direction(create: &ast::CreateIndex) -> bool {
    let all = |descending: bool| {
        let is = |element: &IndexElement| {
            let descends = element.direction == SortDirection::Desc;
            let nulls_first = match element.nulls {
                // NULLs sort above all values, so they come first in descending order.
                NullsOrder::Default => descends,
                order => order == NullsOrder::First,
            };
            descends == descending && nulls_first == descends
        };
        create.elements.iter().all(is)
    };
    all(false) || all(true)
}

/// The access method, with the limits that it has in PostgreSQL.
fn method(create: &ast::CreateIndex) -> Result<IndexMethod> {
    let method = match create.method.as_deref() {
        None | Some("btree") => return Ok(IndexMethod::Btree),
        Some("hash") => IndexMethod::Hash,
        Some("gin") => IndexMethod::Gin,
        Some(method @ ("gist" | "brin" | "spgist")) => {
            return Err(create::unsupported(&format!("access method \"{method}\""))
                .with_hint("indexes of rows tables are ordered (USING btree) or inverted (USING gin)"));
        }
        Some(method) => {
            let text = format!("access method \"{method}\" does not exist");
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
        }
    };
    let is_descending = |element: &IndexElement| element.direction != SortDirection::Default;
    let limits = [
        (create.unique, "unique indexes"),
        (!create.include.is_empty(), "included columns"),
        (method == IndexMethod::Hash && create.elements.len() > 1, "multicolumn indexes"),
        (method == IndexMethod::Gin && create.elements.iter().any(is_descending), "ASC/DESC options"),
        (
            method == IndexMethod::Gin && create.elements.iter().any(|one| one.nulls != NullsOrder::Default),
            "NULLS FIRST/LAST options",
        ),
    ];
    match limits.iter().find(|(is_exceeded, _)| *is_exceeded) {
        None => Ok(method),
        Some((_, what)) => {
            Err(Error::unsupported(format!("access method \"{}\" does not support {what}", method.name())))
        }
    }
}

/// The expression of a key, without parentheses around a name.
fn expression(key: &IndexKey) -> Expr {
    match key {
        IndexKey::Column(name) => Expr::new(ExprKind::Column(name.clone()), Pos(0)),
        IndexKey::Expr(expr) => expr.clone(),
    }
}

fn options(create: &ast::CreateIndex, draft: &mut Draft<'_>) -> Result<()> {
    for option in &create.options {
        let name = option.full_name();
        // Indexes have neither pages nor lists of pending entries here, so these have no effect.
        if !matches!(&*name, "deduplicate_items" | "fastupdate" | "gin_pending_list_limit") {
            draft.notices.push(create::ignored_option(&name)?);
        }
    }
    draft.notices.extend(create.tablespace.as_deref().map(create::tablespace));
    Ok(())
}

/// Position and properties of a key; an expression gets a hidden column called `name`.
fn key(
    (method, element): (IndexMethod, &IndexElement),
    expr: &Expr,
    name: &str,
    draft: &mut Draft<'_>,
) -> Result<(usize, RowIndexKey)> {
    let (mut expr, mut collation) = (expr, element.collation.as_ref());
    if let ExprKind::Collate(collate) = &expr.kind {
        (expr, collation) = (&collate.expr, collation.or(Some(&collate.collation)));
    }
    draft.check_system_columns(expr)?;
    let at = match &expr.kind {
        ExprKind::Column(name) => column(name, draft)?,
        _ => draft.hidden_column(expr, name, false)?,
    };
    let ty = draft.next.columns[at].ty;
    if let Some(collation) = collation {
        check_collation(collation, ty)?;
    }
    let descending = element.direction == SortDirection::Desc;
    let nulls_first = match element.nulls {
        NullsOrder::Default => descending,
        NullsOrder::First => true,
        NullsOrder::Last => false,
    };
    let operator_class = match method {
        IndexMethod::Gin => {
            types::inverted_class(element.operator_class.as_ref().map(|class| class.name.as_str()), ty)?
        }
        _ => element.operator_class.as_ref().map(|class| operator_class(class, ty)).transpose()?.flatten(),
    };
    let collation =
        collation.filter(|collation| collation.name != "default").map(|collation| collation.name.to_string());
    Ok((at, RowIndexKey { descending, nulls_first, operator_class, collation }))
}

/// Position of a column.
fn column(name: &str, draft: &Draft<'_>) -> Result<usize> {
    let missing = || Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"));
    draft.next.column(name).ok_or_else(missing)
}

/// The name of an operator class, unless it is the default of the type. All those of text order it by its bytes, as this
/// store does.
fn operator_class(class: &ast::Name, ty: Type) -> Result<Option<String>> {
    let others: &[&str] = match ty {
        Type::Text | Type::Varchar(_) => &["varchar_ops", "text_pattern_ops", "varchar_pattern_ops"],
        Type::Char(_) => &["bpchar_pattern_ops"],
        _ => &[],
    };
    let name = class.name.as_str();
    if Some(name) == types::default_operator_class(ty) {
        return Ok(None);
    }
    if others.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    Err(create::unsupported(&format!("operator class {class}")))
}

/// Plans ALTER INDEX … RENAME TO; `None` if the name belongs to the other store.
pub(super) fn rename(
    written: &ast::Name,
    if_exists: bool,
    to: &Ident,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    altered(written, if_exists, catalog, session, |draft, old| {
        draft.check_relation(to)?;
        let next = &mut draft.next;
        let all = next.primary.iter_mut().chain(&mut next.secondary);
        all.filter(|index| index.name == old).for_each(|index| index.name = to.to_string());
        Ok(())
    })
}

/// Plans an ALTER INDEX with the actions of tables; `None` if the name belongs to the other store.
pub(super) fn act(alter: &ast::AlterTable, catalog: &dyn Catalog, session: Session<'_>) -> Result<Option<Definition>> {
    if let [AlterTableAction::AttachPartition { name, bound: None }] = alter.actions.as_slice() {
        let index = names::relation(&alter.name, catalog)?;
        if let Some(table) = catalog.index(&index) {
            return partition::attach_index(&table, &index.table, name, catalog, session).map(Some);
        }
    }
    altered(&alter.name, alter.if_exists, catalog, session, |draft, name| {
        for action in &alter.actions {
            match action {
                AlterTableAction::OwnerTo(_) => draft.notices.push(Notice::new(alter::NO_OWNERS)),
                AlterTableAction::SetOptions(options) => alter::set_options(draft, options)?,
                AlterTableAction::SetStatistics { column, value } => check_statistics(draft, name, column, *value)?,
                // Indexes have no pages.
                AlterTableAction::ResetOptions(_) => {}
                _ => return Err(create::unsupported(&format!("ALTER INDEX … {action}"))),
            }
        }
        Ok(())
    })
}

/// Checks ALTER COLUMN … SET STATISTICS of an index. There are no statistics of expressions to change.
///
/// # Errors
/// PostgreSQL's: 42703 for a column that the index lacks, 0A000 for one that is no expression.
fn check_statistics(draft: &Draft<'_>, name: &str, column: &ColumnRef, value: i32) -> Result<()> {
    if value < -1 {
        let text = format!("statistics target {value} is too low");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    }
    let table = &draft.next;
    let Some((index, _)) = table.indexes().find(|(own, _)| own.name == name) else {
        return Err(Error::bug("an index of another table"));
    };
    let columns: Vec<usize> = index.columns.iter().chain(&index.include).copied().collect();
    let (found, shown) = match column {
        ColumnRef::Number(number) => {
            (usize::try_from(*number - 1).ok().filter(|at| *at < columns.len()), format!("number {number}"))
        }
        ColumnRef::Name(wanted) => {
            (columns.iter().position(|at| table.columns[*at].name == *wanted.as_str()), format!("\"{wanted}\""))
        }
    };
    let Some(place) = found else {
        let text = format!("column {shown} of relation \"{name}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, text));
    };
    let column = &table.columns[columns[place]];
    if place >= index.columns.len() {
        let text = format!("cannot alter statistics on included column \"{}\" of index \"{name}\"", column.name);
        return Err(Error::unsupported(text));
    }
    if column.is_hidden() {
        return Ok(());
    }
    let text = format!("cannot alter statistics on non-expression column \"{}\" of index \"{name}\"", column.name);
    Err(Error::unsupported(text).with_hint("Alter statistics on table column instead."))
}

/// Changes the table of the index of a name.
fn altered(
    written: &ast::Name,
    if_exists: bool,
    catalog: &dyn Catalog,
    session: Session<'_>,
    change: impl FnOnce(&mut Draft<'_>, &str) -> Result<()>,
) -> Result<Option<Definition>> {
    const TAG: &str = "ALTER INDEX";
    let name = names::relation(written, catalog)?;
    let Some(table) = catalog.index(&name) else {
        if catalog.is_other(&name) {
            return Ok(None);
        }
        if is_taken(catalog, &name) {
            let text = format!("\"{}\" is not an index", name.table);
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
        }
        return super::missing_relation(TAG, if_exists, &name, written).map(Some);
    };
    let mut draft = Draft::of(&table, catalog, session);
    change(&mut draft, &name.table)?;
    draft.finish(TAG).map(Some)
}
