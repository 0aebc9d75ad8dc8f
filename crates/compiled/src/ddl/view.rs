//! ALTER VIEW and DROP VIEW. The query of a view is bound outside of this crate, so CREATE VIEW is there too.

use model::{Error, Result, SqlState, ViewSpec};
use parser::ast::{self, AlterTableAction, Ident, Name, RenamePart};

use super::{Catalog, Change, Definition, Notice, alter, exists_already, is_taken, names};

const TAG: &str = "ALTER VIEW";

/// The view that a statement on a view, or on a table, names. `None` if there is no view of this name.
pub(super) fn find(written: &Name, catalog: &dyn Catalog) -> Result<Option<ViewSpec>> {
    let name = names::relation(written, catalog)?;
    Ok(catalog.view(&name).map(|view| ViewSpec { version: view.version + 1, ..(*view).clone() }))
}

/// The definition of a statement on a view that does not exist.
///
/// # Errors
/// 42809 for another relation; 42P01 without IF EXISTS.
pub(super) fn missing(written: &Name, if_exists: bool, catalog: &dyn Catalog) -> Result<Definition> {
    let name = names::relation(written, catalog)?;
    if is_taken(catalog, &name) {
        let text = format!("\"{}\" is not a view", name.table);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text));
    }
    super::missing_relation(TAG, if_exists, &name, written)
}

/// Plans an ALTER VIEW, or an ALTER TABLE of a view.
pub(super) fn alter(view: &ViewSpec, actions: &[AlterTableAction]) -> Result<Definition> {
    match actions.iter().find(|action| !matches!(action, AlterTableAction::OwnerTo(_))) {
        None => Ok(Definition { notices: vec![Notice::new(alter::NO_OWNERS)], ..Definition::new(TAG) }),
        Some(action) => {
            let text =
                format!("ALTER action {} cannot be performed on relation \"{}\"", words(action), view.name.table);
            Err(not_for_views(text))
        }
    }
}

/// Error 42809 with PostgreSQL's detail.
pub(super) fn not_for_views(text: String) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_detail("This operation is not supported for views.")
}

/// The words of an action, without the names in it.
fn words(action: &AlterTableAction) -> String {
    let text = action.to_string();
    let words: Vec<&str> = text.split(' ').take_while(|word| word.chars().all(|c| c.is_ascii_uppercase())).collect();
    words.join(" ")
}

/// Plans a RENAME of a view or of one of its columns.
pub(super) fn rename(mut view: ViewSpec, rename: &ast::Rename, catalog: &dyn Catalog) -> Result<Definition> {
    match &rename.part {
        None => {
            view.name.table = rename.to.to_string();
            if is_taken(catalog, &view.name) {
                return Err(exists_already(&view.name.table));
            }
        }
        Some(RenamePart::Column(old) | RenamePart::Attribute(old)) => rename_column(&mut view, old, &rename.to)?,
        Some(RenamePart::Constraint(old)) => {
            let text = format!("constraint \"{old}\" for table \"{}\" does not exist", view.name.table);
            return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
        }
    }
    Ok(Definition { changes: vec![Change::AlterView(view)], ..Definition::new(TAG) })
}

fn rename_column(view: &mut ViewSpec, old: &Ident, new: &Ident) -> Result<()> {
    if view.columns.iter().any(|column| column.name == *new.as_str()) {
        let text = format!("column \"{new}\" of relation \"{}\" already exists", view.name.table);
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    match view.columns.iter_mut().find(|column| column.name == *old.as_str()) {
        Some(column) => {
            column.name = new.to_string();
            Ok(())
        }
        None => Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist"))),
    }
}

/// Plans an ALTER VIEW … SET SCHEMA.
pub(super) fn set_schema(mut view: ViewSpec, schema: &str, catalog: &dyn Catalog) -> Result<Definition> {
    if view.name.schema == schema {
        return Ok(Definition::new(TAG));
    }
    if !catalog.is_schema(schema) {
        let text = format!("schema \"{schema}\" does not exist");
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
    }
    view.name.schema = schema.to_owned();
    if is_taken(catalog, &view.name) {
        let text = format!("relation \"{}\" already exists in schema \"{schema}\"", view.name.table);
        return Err(Error::new(SqlState::DUPLICATE_TABLE, text));
    }
    Ok(Definition { changes: vec![Change::AlterView(view)], ..Definition::new(TAG) })
}
