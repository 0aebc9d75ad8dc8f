//! CREATE SEQUENCE and ALTER SEQUENCE.

use model::{
    Error, Result, RowSchema, SequenceBound, SequenceOptions, SequenceOwner, SequenceSpec, SqlState, TableName, Type,
};
use sqlparser::ast;

use super::{Catalog, Change, Definition, Notice, Object, expressions, is_taken, names, types};

/// A parsed CREATE SEQUENCE or ALTER SEQUENCE.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceStatement {
    /// CREATE or ALTER, with its clauses.
    pub action: SequenceAction,
    /// Name of the sequence.
    pub name: ast::ObjectName,
    /// Options such as INCREMENT and CACHE.
    pub options: SequenceOptions,
    /// `OWNED BY table.column`; an empty name for `OWNED BY NONE`.
    pub owner: Option<ast::ObjectName>,
}

/// The kind of sequence statement.
#[derive(Clone, Debug, PartialEq)]
pub enum SequenceAction {
    /// CREATE SEQUENCE.
    Create {
        /// `IF NOT EXISTS`
        if_not_exists: bool,
    },
    /// ALTER SEQUENCE.
    Alter {
        /// `IF EXISTS`
        if_exists: bool,
        /// `RESTART`, with or without a value.
        restart: Option<Option<i64>>,
        /// `RENAME TO`
        rename: Option<ast::Ident>,
    },
}

impl SequenceStatement {
    /// Converts the parser's CREATE SEQUENCE.
    pub(super) fn of(sql: &ast::Statement) -> Result<SequenceStatement> {
        let ast::Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            sql
        else {
            return Err(Error::bug("no CREATE SEQUENCE"));
        };
        if *temporary {
            return Err(Error::unsupported("temporary sequences are not supported"));
        }
        let mut options = options(sequence_options)?;
        options.ty = data_type.as_ref().map(|ty| Ok(types::declared(ty, &mut Vec::new())?.ty)).transpose()?;
        // The parser represents NONE as this name.
        let owner =
            owned_by.clone().map(|owner| if owner.to_string() == "NONE" { ast::ObjectName(Vec::new()) } else { owner });
        let action = SequenceAction::Create { if_not_exists: *if_not_exists };
        Ok(SequenceStatement { action, name: name.clone(), options, owner })
    }
}

/// Converts the parser's sequence options.
pub(super) fn options(given: &[ast::SequenceOptions]) -> Result<SequenceOptions> {
    let mut options = SequenceOptions::default();
    let bound = |value: &Option<ast::Expr>| match value {
        None => Ok(SequenceBound::Default),
        Some(value) => number(value).map(SequenceBound::At),
    };
    for one in given {
        match one {
            ast::SequenceOptions::IncrementBy(value, _) => options.increment = Some(number(value)?),
            ast::SequenceOptions::MinValue(value) => options.min = Some(bound(value)?),
            ast::SequenceOptions::MaxValue(value) => options.max = Some(bound(value)?),
            ast::SequenceOptions::StartWith(value, _) => options.start = Some(number(value)?),
            ast::SequenceOptions::Cache(value) => options.cache = Some(number(value)?),
            // The parser's flag is true for NO CYCLE.
            ast::SequenceOptions::Cycle(not) => options.cycle = Some(!not),
        }
    }
    Ok(options)
}

fn number(value: &ast::Expr) -> Result<i64> {
    let text = value.to_string();
    text.parse().map_err(|_| out_of_range(&text))
}

pub(super) fn out_of_range(text: &str) -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("value \"{text}\" is out of range for type bigint"))
}

/// The type after AS.
pub(super) fn type_named(name: &str) -> Result<Type> {
    match name {
        "smallint" | "int2" => Ok(Type::Int2),
        "integer" | "int" | "int4" => Ok(Type::Int4),
        "bigint" | "int8" => Ok(Type::Int8),
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "sequence type must be smallint, integer, or bigint")),
    }
}

pub(super) fn define(statement: &SequenceStatement, catalog: &dyn Catalog) -> Result<Definition> {
    match &statement.action {
        SequenceAction::Create { if_not_exists } => create(statement, *if_not_exists, catalog),
        SequenceAction::Alter { if_exists, restart, rename } => {
            alter(statement, *if_exists, *restart, rename.as_ref(), catalog)
        }
    }
}

fn create(statement: &SequenceStatement, if_not_exists: bool, catalog: &dyn Catalog) -> Result<Definition> {
    let mut definition = Definition::new("CREATE SEQUENCE");
    let name = names::new_relation(&statement.name, catalog)?;
    if is_taken(catalog, &name) {
        if !if_not_exists {
            return Err(super::exists_already(&name.table));
        }
        definition.notices.push(Notice::new(format!("relation \"{}\" already exists, skipping", name.table)));
        return Ok(definition);
    }
    let mut made = SequenceSpec::new(catalog.next_id(Object::Sequence), name, &statement.options)?;
    if let Some(owner) = &statement.owner {
        made.owner = self::owner(owner, &made.name, catalog)?;
    }
    definition.changes.push(Change::CreateSequence(made));
    Ok(definition)
}

fn alter(
    statement: &SequenceStatement,
    if_exists: bool,
    restart: Option<Option<i64>>,
    rename: Option<&ast::Ident>,
    catalog: &dyn Catalog,
) -> Result<Definition> {
    let mut definition = Definition::new("ALTER SEQUENCE");
    let name = names::relation(&statement.name, catalog)?;
    let Some(old) = catalog.sequence(&name) else {
        if is_taken(catalog, &name) {
            return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a sequence", name.table)));
        }
        let error = super::no_relation(&name, &statement.name);
        if !if_exists {
            return Err(error);
        }
        definition.notices.push(Notice::new(format!("{}, skipping", error.message())));
        return Ok(definition);
    };
    let mut next = old.altered(&statement.options)?;
    if let Some(owner) = &statement.owner {
        refuse_identity(&old, catalog)?;
        next.owner = self::owner(owner, &name, catalog)?;
    }
    if let Some(new) = rename {
        next.name.table = names::plain(new)?;
        if is_taken(catalog, &next.name) {
            return Err(super::exists_already(&next.name.table));
        }
        definition.changes.extend(renamed_defaults(&name, &next.name, catalog));
    }
    let restart = restart.map(|value| value.unwrap_or(next.start));
    if let Some(value) = restart {
        next.check_restart(value)?;
    }
    definition.changes.push(Change::AlterSequence { next, restart });
    Ok(definition)
}

/// Changes defaults to the sequence's new name.
fn renamed_defaults(old: &TableName, new: &TableName, catalog: &dyn Catalog) -> Vec<Change> {
    let (old, new) = (expressions::next_value(old, catalog), expressions::next_value(new, catalog));
    let mut changes = Vec::new();
    for table in catalog.tables() {
        if table.columns.iter().any(|column| column.default.as_ref() == Some(&old)) {
            let mut next = RowSchema { version: table.version + 1, ..RowSchema::clone(&table) };
            let users = next.columns.iter_mut().filter(|column| column.default.as_ref() == Some(&old));
            users.for_each(|column| column.default = Some(new.clone()));
            changes.push(Change::Alter { next, work: Vec::new() });
        }
    }
    changes
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
fn owner(written: &ast::ObjectName, sequence: &TableName, catalog: &dyn Catalog) -> Result<Option<SequenceOwner>> {
    let parts: Vec<&ast::Ident> = written.0.iter().filter_map(|part| part.as_ident()).collect();
    let (column, table) = match parts.as_slice() {
        [] => return Ok(None),
        [_] => {
            return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
        [table @ .., column] => (names::plain(column)?, table),
    };
    let written = ast::ObjectName::from(table.iter().map(|part| (*part).clone()).collect::<Vec<_>>());
    let name = names::relation(&written, catalog)?;
    let table = catalog.table(&name).ok_or_else(|| super::no_relation(&name, &written))?;
    if name.schema != sequence.schema {
        let text = "sequence must be in same schema as table it is linked to";
        return Err(Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text));
    }
    let at = table.column(&column).ok_or_else(|| super::no_column(&column, &name.table))?;
    Ok(Some(SequenceOwner { table: table.id, column: at }))
}
