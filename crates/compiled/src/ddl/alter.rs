//! ALTER TABLE.

use model::{Error, Result, SqlState};
use sqlparser::ast::{self, AlterColumnOperation as C, AlterTableOperation as A};

use super::draft::Draft;
use super::{Catalog, Definition, Notice, constraints, create, is_taken, names, types};
use crate::statement::Session;

const TAG: &str = "ALTER TABLE";
const NO_OWNERS: &str = "OWNER TO is ignored: every user has all privileges";

/// Execution order of the actions of one statement. Source: PostgreSQL's `AlterTablePass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    Type,
    AddColumn,
    Column,
    Constraint,
    Other,
}

/// Plans an ALTER TABLE; `None` for a table of the other store.
pub(super) fn alter(
    alter: &ast::AlterTable,
    catalog: &dyn Catalog,
    session: Session<'_>,
) -> Result<Option<Definition>> {
    let name = names::relation(&alter.name, catalog)?;
    let Some(table) = catalog.table(&name) else {
        if catalog.is_other(&name) {
            return Ok(None);
        }
        if is_taken(catalog, &name) {
            return of_another_kind(alter, &name.table).map(Some);
        }
        if !alter.if_exists {
            return Err(super::no_relation(&name, &alter.name));
        }
        let text = format!("relation \"{}\" does not exist, skipping", names::as_written(&name, &alter.name));
        return Ok(Some(Definition { notices: vec![Notice::new(text)], ..Definition::new(TAG) }));
    };
    let mut draft = Draft::of(&table, catalog, session);
    let mut actions: Vec<&A> = alter.operations.iter().collect();
    let renames =
        |action: &&A| matches!(action, A::RenameColumn { .. } | A::RenameTable { .. } | A::RenameConstraint { .. });
    if actions.len() > 1 && actions.iter().any(renames) {
        let text = "RENAME cannot be combined with other actions in one ALTER TABLE";
        return Err(Error::new(SqlState::SYNTAX_ERROR, text));
    }
    actions.sort_by_key(|action| pass(action));
    let mut new_constraints = Vec::new();
    for action in actions {
        match action {
            A::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
                let name = names::plain(&column_def.name)?;
                if *if_not_exists && draft.next.column(&name).is_some() {
                    let relation = &draft.next.name.table;
                    let text = format!("column \"{name}\" of relation \"{relation}\" already exists, skipping");
                    draft.notices.push(Notice::new(text));
                    continue;
                }
                draft.add_column(column_def, &mut new_constraints)?;
            }
            A::AddConstraint { constraint, not_valid: false } => {
                new_constraints.push(create::new_constraint(constraint)?)
            }
            A::AddConstraint { .. } => {
                return Err(Error::unsupported("NOT VALID is not supported on rows tables")
                    .with_hint("leave NOT VALID out: existing rows are always checked"));
            }
            action => act(&mut draft, action)?,
        }
    }
    draft.add_all(new_constraints)?;
    draft.finish(TAG).map(Some)
}

/// ALTER TABLE on an index or sequence: only OWNER TO, which dumps contain, is accepted.
fn of_another_kind(alter: &ast::AlterTable, name: &str) -> Result<Definition> {
    if alter.operations.iter().all(|action| matches!(action, A::OwnerTo { .. })) {
        return Ok(Definition { notices: vec![Notice::new(NO_OWNERS)], ..Definition::new(TAG) });
    }
    Err(Error::unsupported(format!("ALTER TABLE cannot be used on \"{name}\""))
        .with_hint("use ALTER INDEX or ALTER SEQUENCE"))
}

fn pass(action: &A) -> Pass {
    match action {
        A::DropColumn { .. } | A::DropConstraint { .. } => Pass::Drop,
        A::AlterColumn { op: C::DropNotNull | C::DropDefault, .. } => Pass::Drop,
        A::AlterColumn { op: C::SetDataType { .. }, .. } => Pass::Type,
        A::AddColumn { .. } => Pass::AddColumn,
        A::AlterColumn { .. } => Pass::Column,
        A::AddConstraint { .. } => Pass::Constraint,
        _ => Pass::Other,
    }
}

/// Applies any action except adding columns and constraints.
fn act(draft: &mut Draft<'_>, action: &A) -> Result<()> {
    let cascades = |behavior: &Option<ast::DropBehavior>| *behavior == Some(ast::DropBehavior::Cascade);
    match action {
        A::DropColumn { column_names, if_exists, drop_behavior, .. } => {
            for name in column_names {
                drop_column(draft, &names::plain(name)?, *if_exists, cascades(drop_behavior))?;
            }
            Ok(())
        }
        A::DropConstraint { if_exists, name, drop_behavior } => {
            let name = names::plain(name)?;
            if draft.drop_constraint(&name, cascades(drop_behavior))? {
                return Ok(());
            }
            let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", draft.next.name.table);
            if !if_exists {
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
            }
            draft.notices.push(Notice::new(format!("{text}, skipping")));
            Ok(())
        }
        A::AlterColumn { column_name, op } => alter_column(draft, &names::plain(column_name)?, op),
        A::RenameColumn { old_column_name, new_column_name } => {
            rename_column(draft, &names::plain(old_column_name)?, names::plain(new_column_name)?)
        }
        A::RenameTable { table_name: ast::RenameTableNameKind::To(name) } => rename_table(draft, name),
        A::RenameConstraint { old_name, new_name } => {
            rename_constraint(draft, &names::plain(old_name)?, names::plain(new_name)?)
        }
        A::ValidateConstraint { name } => {
            let name = names::plain(name)?;
            if constraints(&draft.next).any(|one| one == name) {
                return Ok(());
            }
            let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", draft.next.name.table);
            Err(Error::new(SqlState::UNDEFINED_OBJECT, text))
        }
        A::SetOptionsParens { options } => set_options(draft, options),
        A::OwnerTo { .. } => {
            draft.notices.push(Notice::new(NO_OWNERS));
            Ok(())
        }
        other => Err(Error::unsupported(format!("ALTER TABLE … {other} is not supported on rows tables"))),
    }
}

fn drop_column(draft: &mut Draft<'_>, name: &str, if_exists: bool, cascade: bool) -> Result<()> {
    match draft.next.column(name) {
        Some(at) => draft.drop_column(at, cascade),
        None if if_exists => {
            let relation = &draft.next.name.table;
            let text = format!("column \"{name}\" of relation \"{relation}\" does not exist, skipping");
            draft.notices.push(Notice::new(text));
            Ok(())
        }
        None => Err(super::no_column(name, &draft.next.name.table)),
    }
}

fn alter_column(draft: &mut Draft<'_>, name: &str, op: &C) -> Result<()> {
    let at = draft.column(name)?;
    let is_identity = draft.next.columns[at].identity.is_some();
    let table = &draft.next.name.table;
    let identity = |text: &str| Err(Error::new(SqlState::SYNTAX_ERROR, text));
    let is_one = format!("column \"{name}\" of relation \"{table}\" is an identity column");
    match op {
        C::SetNotNull => draft.set_not_null(at),
        C::DropNotNull if is_identity => return identity(&is_one),
        C::DropNotNull => {
            if draft.next.primary.as_ref().is_some_and(|primary| primary.columns.contains(&at)) {
                let text = format!("column \"{name}\" is in a primary key");
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
            }
            draft.drop_not_null(at);
        }
        C::SetDefault { .. } if is_identity => return identity(&is_one),
        C::DropDefault if is_identity => {
            let hint = "Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.";
            return identity(&is_one).map_err(|error| error.with_hint(hint));
        }
        C::SetDefault { value } => {
            draft.set_default(at, value)?;
        }
        C::DropDefault => draft.next.columns[at].default = None,
        C::SetDataType { data_type, using, .. } => {
            let declared = types::declared(data_type, &mut draft.notices)?;
            if declared.is_serial {
                let text = format!("type \"{}\" does not exist", data_type.to_string().to_ascii_lowercase());
                return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
            }
            draft.set_type(at, declared.ty, using.as_ref())?;
        }
        C::AddGenerated { generated_as: Some(kind), sequence_options } => {
            draft.add_identity(at, *kind, sequence_options.as_deref())?;
        }
        C::AddGenerated { generated_as: None, .. } => {
            return Err(Error::unsupported("generated columns are not supported on rows tables"));
        }
    }
    Ok(())
}

fn rename_column(draft: &mut Draft<'_>, old: &str, new: String) -> Result<()> {
    let at = draft
        .next
        .column(old)
        .ok_or_else(|| Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist")))?;
    if draft.next.column(&new).is_some() {
        let text = format!("column \"{new}\" of relation \"{}\" already exists", draft.next.name.table);
        return Err(Error::new(SqlState::DUPLICATE_COLUMN, text));
    }
    draft.rename_column(at, new)
}

fn rename_table(draft: &mut Draft<'_>, name: &ast::ObjectName) -> Result<()> {
    let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return Err(Error::new(SqlState::SYNTAX_ERROR, "syntax error at or near \".\""));
    };
    let name = names::plain(name)?;
    draft.check_relation(&name)?;
    draft.next.name.table = name;
    Ok(())
}

fn rename_constraint(draft: &mut Draft<'_>, old: &str, new: String) -> Result<()> {
    let table = &draft.next.name.table;
    if constraints(&draft.next).all(|name| name != old) {
        let text = format!("constraint \"{old}\" for table \"{table}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, text));
    }
    draft.check_constraint(&new)?;
    if super::has_index(&draft.next, old) {
        draft.check_relation(&new)?;
    }
    let next = &mut draft.next;
    let keys = next.primary.iter_mut().chain(&mut next.secondary).filter(|index| index.constraint);
    let all = keys.map(|index| &mut index.name);
    let checks = next.checks.iter_mut().map(|check| &mut check.name);
    for name in all.chain(checks).chain(next.foreign_keys.iter_mut().map(|key| &mut key.name)) {
        if name == old {
            *name = new;
            break;
        }
    }
    Ok(())
}

fn set_options(draft: &mut Draft<'_>, options: &[ast::SqlOption]) -> Result<()> {
    for option in options {
        let name = match option {
            ast::SqlOption::KeyValue { key, .. } | ast::SqlOption::Ident(key) => crate::dialect::fold_ident(key),
            other => other.to_string(),
        };
        if !create::is_ignored(&name) {
            let text = format!("unrecognized parameter \"{name}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        draft.notices.push(create::ignored(&name));
    }
    Ok(())
}
