//! CREATE INDEX and ALTER INDEX; `drop` has DROP INDEX.

use model::{Error, Result, SqlState};
use parser::ast::{self, AlterTableAction, Expr, ExprKind, Ident, IndexElement, IndexKey, NullsOrder, SortDirection};

use super::column::check_collation;
use super::draft::Draft;
use super::{Catalog, Definition, Notice, alter, create, is_taken, names};
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
    refuse_kinds(create)?;
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
    let mut columns = Vec::with_capacity(create.elements.len());
    for element in &create.elements {
        columns.push(column(element, &draft)?);
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

fn refuse_kinds(create: &ast::CreateIndex) -> Result<()> {
    if let Some(method) = create.method.as_deref().filter(|method| *method != "btree") {
        return Err(create::unsupported(&format!("access method \"{method}\""))
            .with_hint("indexes of rows tables are ordered: leave USING out, or say USING btree"));
    }
    let what = if !create.include.is_empty() {
        "INCLUDE"
    } else if create.filter.is_some() {
        "a partial index (WHERE)"
    } else if !create.nulls_distinct {
        "NULLS NOT DISTINCT"
    } else {
        return Ok(());
    };
    Err(create::unsupported(what))
}

fn options(create: &ast::CreateIndex, draft: &mut Draft<'_>) -> Result<()> {
    for option in &create.options {
        let name = option.full_name();
        // Indexes have no pages here, so it has no effect.
        if name != "deduplicate_items" {
            draft.notices.push(create::ignored_option(&name)?);
        }
    }
    draft.notices.extend(create.tablespace.as_deref().map(create::tablespace));
    Ok(())
}

/// Position of an index column; expressions are refused, and the direction is not stored.
fn column(element: &IndexElement, draft: &Draft<'_>) -> Result<usize> {
    let name = match &element.key {
        IndexKey::Column(name) | IndexKey::Expr(Expr { kind: ExprKind::Column(name), .. }) => name,
        IndexKey::Expr(expr) => {
            let text = match &expr.kind {
                ExprKind::Function(_) => expr.to_string(),
                _ => format!("({expr})"),
            };
            return Err(create::unsupported(&format!("an index over the expression {text}")));
        }
    };
    // All of these operator classes order text by its bytes, as this store does.
    let is_bytewise = |class: &ast::Name| {
        ["text_ops", "varchar_ops", "bpchar_ops", "text_pattern_ops", "varchar_pattern_ops", "bpchar_pattern_ops"]
            .contains(&class.name.as_str())
    };
    if let Some(class) = element.operator_class.as_ref().filter(|class| !is_bytewise(class)) {
        return Err(create::unsupported(&format!("operator class {class}")));
    }
    let at = draft
        .next
        .column(name)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))?;
    if let Some(collation) = &element.collation {
        check_collation(collation, draft.next.columns[at].ty)?;
    }
    Ok(at)
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
    altered(&alter.name, alter.if_exists, catalog, session, |draft, _| {
        for action in &alter.actions {
            match action {
                AlterTableAction::OwnerTo(_) => draft.notices.push(Notice::new(alter::NO_OWNERS)),
                AlterTableAction::SetOptions(options) => alter::set_options(draft, options)?,
                _ => return Err(create::unsupported(&format!("ALTER INDEX … {action}"))),
            }
        }
        Ok(())
    })
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
