//! ALTER VIEW and DROP VIEW. The query of a view is bound outside of this crate, so CREATE VIEW is there too.

use model::{CheckOption, Error, Result, SqlState, ViewSpec};
use parser::ast::{self, AlterTableAction, Ident, Name, OptionValue, RelOption, RenamePart};

use super::{Catalog, Change, Definition, Notice, alter, exists_already, is_taken, names};

const TAG: &str = "ALTER VIEW";

/// The view that a statement on a view, or on a table, names. `None` if there is no view of this name.
pub(super) fn find(written: &Name, catalog: &dyn Catalog) -> Result<Option<ViewSpec>> {
    let name = names::relation(written, catalog)?;
    Ok(catalog.view(&name).map(|view| next_version(&view)))
}

/// The next version of a view.
pub(super) fn next_version(view: &ViewSpec) -> ViewSpec {
    ViewSpec { version: view.version + 1, ..view.clone() }
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
    let mut next = view.clone();
    let mut notices = Vec::new();
    for action in actions {
        match action {
            AlterTableAction::OwnerTo(_) => notices.push(Notice::new(alter::NO_OWNERS)),
            AlterTableAction::SetOptions(options) => {
                for option in options {
                    notices.extend(set_option(&mut next, option)?);
                }
            }
            AlterTableAction::ResetOptions(options) => {
                if options.iter().any(|option| option.full_name() == "check_option") {
                    next.check = None;
                }
            }
            action => {
                let text =
                    format!("ALTER action {} cannot be performed on relation \"{}\"", words(action), view.name.table);
                return Err(not_for_views(text));
            }
        }
    }
    let changes = if next == *view { Vec::new() } else { vec![Change::AlterView(next)] };
    Ok(Definition { changes, notices, ..Definition::new(TAG) })
}

/// Sets an option of a view. Returns the notice for one without effect.
///
/// # Errors
/// 22023 for an unknown option or value; 0A000 for `check_option` of a view that cannot be changed.
pub fn set_option(view: &mut ViewSpec, option: &RelOption) -> Result<Option<Notice>> {
    let (name, value) = (option.full_name(), option.value.as_ref().map(OptionValue::text));
    let is_off = value.as_ref().is_some_and(|value| matches!(&**value, "false" | "off"));
    match &*name {
        "check_option" => {
            let value = value.unwrap_or_default();
            view.check = Some(match &*value.to_ascii_lowercase() {
                "local" => CheckOption::Local,
                "cascaded" => CheckOption::Cascaded,
                _ => {
                    let text = format!("invalid value for enum option \"check_option\": {value}");
                    let error = Error::new(SqlState::INVALID_PARAMETER_VALUE, text);
                    return Err(error.with_detail("Valid values are \"local\" and \"cascaded\"."));
                }
            });
            check_is_updatable(view, None)?;
            Ok(None)
        }
        "security_barrier" | "security_invoker" if is_off => {
            Ok(Some(Notice::new(format!("{name} is off for every view"))))
        }
        "security_barrier" | "security_invoker" => {
            let text = format!("{name} is ignored: every user has all privileges, and no rows are hidden");
            Ok(Some(Notice::new(text)))
        }
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))),
    }
}

/// Checks that a view with WITH CHECK OPTION can be changed. `reason`: why it cannot, if that is known.
///
/// # Errors
/// 0A000.
pub fn check_is_updatable(view: &ViewSpec, reason: Option<&str>) -> Result<()> {
    if view.check.is_none() || view.base.is_some() {
        return Ok(());
    }
    let text = "WITH CHECK OPTION is supported only on automatically updatable views";
    let error = Error::unsupported(text);
    Err(match reason {
        Some(reason) => error.with_hint(reason),
        None => error,
    })
}

/// Error 42809 with PostgreSQL's detail.
pub(super) fn not_for_views(text: String) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_detail("This operation is not supported for views.")
}

/// The words of an action, without the names in it.
pub(super) fn words(action: &AlterTableAction) -> String {
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

pub(super) fn rename_column(view: &mut ViewSpec, old: &Ident, new: &Ident) -> Result<()> {
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
    names::check_move(&view.name, schema, catalog)?;
    view.name.schema = schema.to_owned();
    names::check_free(&view.name, catalog)?;
    Ok(Definition { changes: vec![Change::AlterView(view)], ..Definition::new(TAG) })
}
