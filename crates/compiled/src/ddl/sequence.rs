//! CREATE SEQUENCE and ALTER SEQUENCE.

use std::sync::Arc;

use model::{
    Error, Result, RowSchema, SequenceBound, SequenceOptions, SequenceOwner, SequenceRef, SequenceSpec, SqlState,
    TableId, TableName, Type,
};
use parser::ast::{self, AlterTableAction, Ident, NumericValue, Persistence, SequenceOption};

use super::{Catalog, Change, Definition, Notice, Object, alter, create, expressions, is_taken, names};
use crate::statement::Session;
use crate::stored_expressions::named_type;

const TAG: &str = "ALTER SEQUENCE";

/// Options of a sequence, each at most once.
#[derive(Default)]
pub(super) struct Given<'s> {
    pub(super) options: SequenceOptions,
    /// `RESTART`, with or without a value.
    pub(super) restart: Option<Option<i64>>,
    /// `OWNED BY table.column`, or `none`.
    pub(super) owner: Option<&'s ast::Name>,
    /// `SEQUENCE NAME`, which dumps of identity columns have.
    pub(super) name: Option<&'s ast::Name>,
}

impl<'s> Given<'s> {
    /// Reads options in any order.
    ///
    /// # Errors
    /// 42601 for an option that is given twice; 22003 for a number that is no bigint; 22023 for a type that is not one
    /// of integers.
    pub(super) fn of(list: &'s [SequenceOption], session: Session<'_>) -> Result<Given<'s>> {
        let mut given = Given::default();
        let options = &mut given.options;
        for one in list {
            match one {
                SequenceOption::As(ty) => once(&mut options.ty, type_of(ty, session)?)?,
                SequenceOption::Cache(value) => once(&mut options.cache, number(value)?)?,
                SequenceOption::Cycle(cycle) => once(&mut options.cycle, *cycle)?,
                SequenceOption::Increment(value) => once(&mut options.increment, number(value)?)?,
                SequenceOption::MaxValue(value) => once(&mut options.max, bound(value.as_ref())?)?,
                SequenceOption::MinValue(value) => once(&mut options.min, bound(value.as_ref())?)?,
                SequenceOption::Start(value) => once(&mut options.start, number(value)?)?,
                SequenceOption::Restart(value) => {
                    once(&mut given.restart, value.as_ref().map(number).transpose()?)?;
                }
                SequenceOption::OwnedBy(name) => once(&mut given.owner, name)?,
                SequenceOption::SequenceName(name) => once(&mut given.name, name)?,
                // Every sequence is logged.
                SequenceOption::Logged(_) => {}
                SequenceOption::Generated { .. } => return Err(Error::bug("SET GENERATED of a sequence")),
            }
        }
        Ok(given)
    }

    /// Like [`Given::of`], for a sequence that has its own name.
    fn of_sequence(list: &'s [SequenceOption], session: Session<'_>) -> Result<Given<'s>> {
        let given = Given::of(list, session)?;
        match given.name {
            Some(_) => Err(Error::new(SqlState::SYNTAX_ERROR, "invalid sequence option SEQUENCE NAME")),
            None => Ok(given),
        }
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<()> {
    match place.replace(value) {
        Some(_) => Err(conflicting()),
        None => Ok(()),
    }
}

/// Error for an option that is given twice.
pub(super) fn conflicting() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")
}

fn bound(value: Option<&NumericValue>) -> Result<SequenceBound> {
    value.map_or(Ok(SequenceBound::Default), |value| number(value).map(SequenceBound::At))
}

fn number(value: &NumericValue) -> Result<i64> {
    match value {
        NumericValue::Integer(value) => Ok(i64::from(*value)),
        NumericValue::Number(text) => pg::value::parse_int(Type::Int8.oid(), text),
    }
}

/// The type after AS.
fn type_of(ty: &ast::TypeName, session: Session<'_>) -> Result<Type> {
    let (oid, typmod) = named_type(ty, session.facts()?)?;
    match Type::from_oid(oid.0, typmod) {
        Some(ty @ (Type::Int2 | Type::Int4 | Type::Int8)) => Ok(ty),
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "sequence type must be smallint, integer, or bigint")),
    }
}

/// Plans a CREATE SEQUENCE.
pub(super) fn create(create: &ast::CreateSequence, catalog: &dyn Catalog, session: Session<'_>) -> Result<Definition> {
    let mut definition = Definition::new("CREATE SEQUENCE");
    if create.persistence == Persistence::Unlogged {
        definition.notices.push(create::unlogged());
    }
    let given = Given::of_sequence(&create.options, session)?;
    if given.restart.is_some() {
        return Err(Error::unsupported("RESTART of a new sequence is not supported").with_hint("use START"));
    }
    let name = names::new_relation(&create.name, create.persistence, catalog)?;
    if is_taken(catalog, &name) {
        if !create.if_not_exists {
            return Err(super::exists_already(&name.table));
        }
        definition.notices.push(Notice::new(format!("relation \"{}\" already exists, skipping", name.table)));
        return Ok(definition);
    }
    let mut made = SequenceSpec::new(catalog.next_id(Object::Sequence), name, &given.options)?;
    if let Some(owner) = given.owner {
        made.owner = self::owner(owner, &made.name, catalog)?;
    }
    definition.changes.push(Change::CreateSequence(made));
    Ok(definition)
}

/// Plans an ALTER SEQUENCE with options.
pub(super) fn alter(alter: &ast::AlterSequence, catalog: &dyn Catalog, session: Session<'_>) -> Result<Definition> {
    let mut definition = Definition::new(TAG);
    let given = Given::of_sequence(&alter.options, session)?;
    let Some(old) = found(&alter.name, alter.if_exists, catalog, &mut definition)? else { return Ok(definition) };
    let mut next = old.altered(&given.options)?;
    if let Some(owner) = given.owner {
        refuse_identity(&old, catalog)?;
        next.owner = self::owner(owner, &old.name, catalog)?;
    }
    let restart = given.restart.map(|value| value.unwrap_or(next.start));
    if let Some(value) = restart {
        next.check_restart(value)?;
    }
    definition.changes.push(Change::AlterSequence { next, restart });
    Ok(definition)
}

/// Plans an ALTER SEQUENCE … RENAME TO.
pub(super) fn rename(written: &ast::Name, if_exists: bool, to: &Ident, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new(TAG);
    let Some(old) = found(written, if_exists, catalog, &mut definition)? else { return Ok(definition) };
    let mut next = SequenceSpec::clone(&old);
    next.name.table = to.to_string();
    if is_taken(catalog, &next.name) {
        return Err(super::exists_already(&next.name.table));
    }
    definition.changes.extend(renamed_defaults(&[(&old.name, &next.name)], None, catalog)?);
    definition.changes.push(Change::AlterSequence { next, restart: None });
    Ok(definition)
}

/// Plans an ALTER SEQUENCE with the actions of tables: only OWNER TO is accepted.
pub(super) fn act(alter: &ast::AlterTable, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new(TAG);
    if found(&alter.name, alter.if_exists, catalog, &mut definition)?.is_none() {
        return Ok(definition);
    }
    for action in &alter.actions {
        let AlterTableAction::OwnerTo(_) = action else {
            return Err(Error::unsupported(format!("ALTER SEQUENCE … {action} is not supported")));
        };
        definition.notices.push(Notice::new(alter::NO_OWNERS));
    }
    Ok(definition)
}

/// The sequence of a name. If there is none, a notice with IF EXISTS.
fn found(
    written: &ast::Name,
    if_exists: bool,
    catalog: &dyn Catalog,
    definition: &mut Definition,
) -> Result<Option<SequenceRef>> {
    let name = names::relation(written, catalog)?;
    if let Some(sequence) = catalog.sequence(&name) {
        return Ok(Some(Arc::clone(&sequence)));
    }
    if is_taken(catalog, &name) {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", name.table)));
    }
    let error = super::no_relation(&name, written);
    if !if_exists {
        return Err(error);
    }
    definition.notices.push(Notice::new(format!("{}, skipping", error.message())));
    Ok(None)
}

/// Plans an ALTER SEQUENCE … SET SCHEMA.
pub(super) fn set_schema(alter: &ast::AlterSchema, written: &ast::Name, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new(TAG);
    let Some(sequence) = found(written, alter.if_exists, catalog, &mut definition)? else { return Ok(definition) };
    if let Some(table) = sequence.owner.and_then(|owner| catalog.by_id(owner.table)) {
        let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name.table, table.name.table);
        return Err(Error::unsupported("cannot move an owned sequence into another schema").with_detail(detail));
    }
    if sequence.name.schema != alter.schema.as_str() {
        names::check_move(&sequence.name, &alter.schema, catalog)?;
        let next = moved(&sequence, &alter.schema, catalog)?;
        definition.changes = renamed_defaults(&[(&sequence.name, &next.name)], None, catalog)?;
        definition.changes.push(Change::AlterSequence { next, restart: None });
    }
    Ok(definition)
}

/// A sequence in another schema.
///
/// # Errors
/// 42P07 if that has a relation of its name.
pub(super) fn moved(sequence: &SequenceSpec, schema: &str, catalog: &dyn Catalog) -> Result<SequenceSpec> {
    let name = TableName { schema: schema.to_owned(), table: sequence.name.table.clone() };
    names::check_free(&name, catalog)?;
    Ok(SequenceSpec { name, ..sequence.clone() })
}

/// Changes defaults to the new names of sequences, except those of one table. `names`: old and new ones.
pub(super) fn renamed_defaults(
    names: &[(&TableName, &TableName)],
    except: Option<TableId>,
    catalog: &dyn Catalog,
) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for table in catalog.tables().into_iter().filter(|table| Some(table.id) != except) {
        let mut next = RowSchema { version: table.version + 1, ..RowSchema::clone(&table) };
        let mut is_changed = false;
        for default in next.columns.iter_mut().filter_map(|column| column.default.as_mut()) {
            for (old, new) in names {
                if let Some(renamed) = expressions::renamed_sequence(default, &table.name, [*old, *new], catalog)? {
                    (*default, is_changed) = (renamed, true);
                }
            }
        }
        if is_changed {
            changes.push(Change::Alter { next, work: Vec::new() });
        }
    }
    Ok(changes)
}

fn refuse_identity(sequence: &SequenceSpec, catalog: &dyn Catalog) -> Result<()> {
    let Some(owner) = sequence.owner else { return Ok(()) };
    let Some(table) = catalog.by_id(owner.table) else { return Ok(()) };
    if table.columns[owner.column].identity.is_none() {
        return Ok(());
    }
    let detail = format!("Sequence \"{}\" is linked to table \"{}\".", sequence.name.table, table.name.table);
    Err(Error::unsupported("cannot change ownership of identity sequence").with_detail(detail))
}

/// Resolves OWNED BY; `None` for NONE.
fn owner(written: &ast::Name, sequence: &TableName, catalog: &dyn Catalog) -> Result<Option<SequenceOwner>> {
    let Some((table, qualifier)) = written.qualifier.split_last() else {
        if written.name == "none" {
            return Ok(None);
        }
        return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
    };
    let column = written.name.as_str();
    let written = ast::Name { qualifier: qualifier.into(), name: table.clone(), at: written.at };
    let name = names::relation(&written, catalog)?;
    let table = catalog.table(&name).ok_or_else(|| super::no_relation(&name, &written))?;
    if catalog.materialized_view(table.id).is_some() {
        let text = format!("sequence cannot be owned by relation \"{}\"", name.table);
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text)
            .with_detail("This operation is not supported for materialized views."));
    }
    if name.schema != sequence.schema {
        let text = "sequence must be in same schema as table it is linked to";
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
    }
    let at = table.column(column).ok_or_else(|| super::no_column(column, &name.table))?;
    Ok(Some(SequenceOwner { table: table.id, column: at }))
}
