//! CREATE, ALTER, DROP and TRUNCATE of schemas and `columns` tables.

use std::borrow::Cow;
use std::sync::Arc;

use engine::{ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, Error, Result, SqlState, TableName, TableOptions, TableRef, TimeRange};
use parser::ast::{
    AlterTable, AlterTableAction, ColumnConstraintKind, ColumnDef, CreateIndex, CreateSchema, CreateTable, Drop,
    DropBehavior, Expr, ExprKind, FunctionSignature, Ident, IndexKey, IndexParameters, Name, ObjectKind, ObjectName,
    OptionValue, RelOption, RoleSpec, Statement, TableConstraintKind, TableElement, TableShape, Truncate, TypeName,
};

use super::table_store::{columns, primary_key, primary_keys};
use super::{alter_table, column_constraints, materialized_view, notify, privilege, view};
use crate::errors::locate;
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::Parsed;
use crate::tables::find_table;

/// Types that a `columns` table can store, for messages.
const TYPES: &str = "boolean, the numbers, text, bytea, uuid, json and jsonb, dates, times and intervals, enum types, domains, ranges, \
     inet, bit varying, and arrays of these";

/// Runs a DDL statement, or fails with 0A000 if it is not supported.
pub(crate) async fn execute(session: &mut Session, parsed: &Parsed, statement: &Statement) -> Result<Outcome> {
    let result = match statement {
        Statement::CreateTable(create) => create_table(session, create),
        Statement::CreateSchema(create) => create_schema(session, create),
        Statement::CreateView(create) => view::create(session, parsed, create),
        Statement::AlterTable(alter) if alter.kind == ObjectKind::Table => {
            Box::pin(alter_columns_table(session, parsed, alter)).await
        }
        Statement::Rename(rename) if rename.kind == ObjectKind::Table => {
            alter_table::rename(session, statement, rename)
        }
        Statement::AlterSchema(alter) if alter.kind == ObjectKind::Table => {
            alter_table::set_schema(session, statement, alter)
        }
        Statement::CreateIndex(create) => create_index(session, create),
        Statement::Drop(drop) => drop_objects(session, drop).await,
        Statement::Truncate(truncate) => truncate_tables(session, truncate),
        Statement::Grant(grant) => privilege::execute(session, grant),
        Statement::AlterOwner(alter) if alter.kind == ObjectKind::Schema => {
            privilege::own_schema(session, &alter.object)
        }
        Statement::AlterDefaultPrivileges(_) => Ok(privilege::ignored(session, "ALTER DEFAULT PRIVILEGES")),
        Statement::Listen(channel) => notify::listen(session, channel),
        Statement::Unlisten(channel) => Ok(notify::unlisten(session, channel.as_deref())),
        Statement::Notify(notify) => notify::notify(session, notify),
        Statement::CreateTableAs(create) => Box::pin(materialized_view::create(session, parsed, create)).await,
        Statement::RefreshMaterializedView(refresh) => {
            Box::pin(materialized_view::refresh(session, parsed, refresh)).await
        }
        other => Err(Error::unsupported(format!("{} is not supported", words(&parsed.sql, other)))),
    };
    result.map_err(|error| locate(error, parsed))
}

/// The first words of a statement, which name it in messages.
fn words(sql: &str, statement: &Statement) -> String {
    let count = match statement {
        Statement::Unsupported { command } => return (*command).to_owned(),
        Statement::Do(_) | Statement::Load(_) | Statement::Call(_) | Statement::Grant(_) | Statement::GrantRole(_) => 1,
        _ => 2,
    };
    let words = sql.split_whitespace().take_while(|word| word.chars().all(|c| c.is_ascii_alphabetic()));
    let kind: Vec<String> = words
        .map(str::to_ascii_uppercase)
        // Names CREATE OR REPLACE VIEW as CREATE VIEW.
        .filter(|word| !["OR", "REPLACE", "TEMP", "TEMPORARY", "RECURSIVE", "CONSTRAINT"].contains(&word.as_str()))
        .take(count)
        .collect();
    if kind.is_empty() { "this statement".to_owned() } else { kind.join(" ") }
}

fn create_table(session: &mut Session, create: &CreateTable) -> Result<Outcome> {
    let context = session.context();
    let name = super::rows::new_relation(session, &create.name, create.persistence)?;
    refuse_kinds(create)?;
    if context.reads.snapshot.catalog().table(&name).is_some() {
        if create.if_not_exists {
            session.notice(format!("relation \"{}\" already exists, skipping", name.table));
            return Ok(Outcome::command("CREATE TABLE"));
        }
        return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{}\" already exists", name.table)));
    }
    let (stored, declared) = with_stored_types(session, create)?;
    let is_declared = |name: &str| declared.iter().any(|declared| *declared.as_str() == *name);
    let time = time_column(create, with_options(create)?.time.as_deref())?;
    if is_declared(&time) {
        return Err(only_of_fields(create, &time));
    }
    let spec = table_spec(name, &stored)?;
    for key in spec.columns.iter().filter(|one| one.role == ColumnRole::Key && is_declared(&one.name)) {
        let ty = columns(create).find(|column| column.name == *key.name).and_then(|column| column.ty.as_ref());
        let base = ty.and_then(|ty| column_constraints::base_type(session, ty));
        // A type of a user that is dropped takes its columns with it, but key columns cannot be dropped.
        let is_user = ty.is_some_and(|ty| column_constraints::is_user_type(session, ty));
        if is_user || !base.is_some_and(model::Type::is_stored_alike) {
            return Err(only_of_fields(create, &key.name));
        }
    }
    let rules = column_constraints::of_new_table(session, create, &declared)?;
    let table = session.writer()?.create_table(&spec)?;
    if let Some(rules) = rules {
        column_constraints::set_rules(session, &table, &rules)?;
    }
    Ok(Outcome::command("CREATE TABLE"))
}

/// Error for a key column or time of a type that only fields have.
fn only_of_fields(create: &CreateTable, name: &str) -> Error {
    let ty = columns(create).find(|column| column.name == *name).and_then(|column| column.ty.as_ref());
    let ty = ty.map(ToString::to_string).unwrap_or_default();
    let text = format!("column \"{name}\": type {ty} is not supported for key and time of columns tables");
    Error::unsupported(text).with_hint(match ty.as_str() {
        ty if ty.starts_with("timestamp ") => "use timestamptz; it stores the moment, and the session's TimeZone says how it is shown",
        _ => "the time is timestamptz or bigint; types with several forms of equal values, such as json and arrays, are not those of keys",
    })
}

/// The statement with the types in which values are stored, and the names of the columns where these are others.
fn with_stored_types<'c>(session: &mut Session, create: &'c CreateTable) -> Result<(Cow<'c, CreateTable>, Vec<Ident>)> {
    let mut stored = Cow::Borrowed(create);
    let mut names = Vec::new();
    for (at, element) in create.elements.iter().enumerate() {
        let TableElement::Column(column) = element else { continue };
        let other = column_constraints::with_stored_type(session, column)?;
        if other.ty != column.ty {
            names.push(column.name.clone());
            stored.to_mut().elements[at] = TableElement::Column(other);
        }
    }
    Ok((stored, names))
}

fn refuse_kinds(create: &CreateTable) -> Result<()> {
    let is_like = create.elements.iter().any(|element| matches!(element, TableElement::Like(_)));
    let what = if create.foreign.is_some() {
        "foreign tables are"
    } else if is_like || !create.inherits.is_empty() || matches!(create.shape, TableShape::PartitionOf(..)) {
        "LIKE, INHERITS and PARTITION OF are"
    } else if matches!(create.shape, TableShape::Of(_)) {
        "OF is"
    } else if create.partition_by.is_some() {
        "PARTITION BY is"
    } else if create.on_commit.is_some() {
        "ON COMMIT is"
    } else {
        return Ok(());
    };
    if create.partition_by.is_some() || matches!(create.shape, TableShape::PartitionOf(..)) {
        let text = format!("{what} not supported on columns tables, which partition their rows by time by themselves");
        return Err(Error::unsupported(text).with_hint("WITH (partition = '1 day') sets the length of a partition"));
    }
    Err(Error::unsupported(format!("{what} not supported on columns tables"))
        .with_hint("create a columns table WITH (store = 'columns', …) and fill it by INSERT"))
}

/// The options in WITH (…).
#[derive(Default)]
struct Options {
    key: Option<Vec<String>>,
    time: Option<String>,
    /// The text as written: its meaning depends on the type of the time column.
    partition: Option<String>,
    table: TableOptions,
}

fn table_spec(name: TableName, create: &CreateTable) -> Result<TableSpec> {
    let mut options = with_options(create)?;
    let time = time_column(create, options.time.as_deref())?;
    let counted = is_counted(create, &time);
    match &options.partition {
        Some(text) if counted => options.table.partition_length = steps(text)?,
        Some(text) => options.table.partition_length = length("partition", text)?,
        None if counted => return Err(unknown_partition(&time)),
        None => {}
    }
    refuse_constraints(create)?;
    if let Some(primary) = primary_key(create) {
        let key: Vec<String> = primary.iter().filter(|column| **column != time).map(ToString::to_string).collect();
        if key.len() == primary.len() {
            return Err(Error::unsupported(format!(
                "a primary key without the time column \"{time}\" is not supported"
            ))
            .with_hint("in a columns table (key, time) identifies a row"));
        }
        options.key.get_or_insert(key);
    }
    let key = options.key.clone().unwrap_or_default();
    for column in &key {
        if !columns(create).any(|def| def.name == *column) {
            return Err(Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" named in key does not exist"),
            ));
        }
    }
    let role = |column: &str| match column {
        column if column == time => ColumnRole::Time,
        column if key.iter().any(|name| name == column) => ColumnRole::Key,
        _ => ColumnRole::Field,
    };
    let columns = columns(create).map(|def| column_spec(def, role(&def.name))).collect::<Result<_>>()?;
    Ok(TableSpec { name, keyed: options.key.is_some(), columns, options: options.table })
}

/// The description of a column.
///
/// # Errors
/// 0A000 for clauses and types that `columns` tables do not have.
pub(super) fn column_spec(def: &ColumnDef, role: ColumnRole) -> Result<ColumnSpec> {
    let name = def.name.to_string();
    let mut nullable = role != ColumnRole::Time;
    let clauses = [
        ("COLLATE", def.collation.as_ref().is_some_and(|collation| collation.name != "default")),
        ("COMPRESSION", def.compression.as_ref().is_some_and(|method| method != "default")),
        ("OPTIONS", !def.options.is_empty()),
    ];
    if let Some((clause, _)) = clauses.iter().find(|(_, is_written)| *is_written) {
        return Err(Error::unsupported(format!("{clause} of column \"{name}\" is not supported on columns tables")));
    }
    for constraint in &def.constraints {
        match &constraint.kind {
            ColumnConstraintKind::Null if role == ColumnRole::Time => {
                return Err(Error::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{name}\" is the time, and must be NOT NULL"),
                ));
            }
            // A column that is added to a table cannot be part of its key.
            ColumnConstraintKind::PrimaryKey { index } if role != ColumnRole::Field => refuse_parameters(index)?,
            ColumnConstraintKind::Null
            | ColumnConstraintKind::NotDeferrable
            | ColumnConstraintKind::InitiallyImmediate => {}
            ColumnConstraintKind::NotNull => nullable = false,
            ColumnConstraintKind::Default(value) if value.kind == ExprKind::Null => {}
            ColumnConstraintKind::Default(_) if role == ColumnRole::Key => return Err(default_of_key(&name)),
            ColumnConstraintKind::Default(_) | ColumnConstraintKind::Check { .. } => {}
            other => {
                return Err(Error::unsupported(format!(
                    "{} of column \"{name}\" is not supported on columns tables",
                    clause(other)
                ))
                .with_hint("NOT NULL, DEFAULT and CHECK are"));
            }
        }
    }
    let ty = def.ty.as_ref().ok_or_else(|| Error::bug("a column without a type"))?;
    Ok(ColumnSpec { ty: data_type(&name, ty)?, name, nullable, role })
}

/// Error for a default of a key column: a row without its key would be one of another series.
pub(super) fn default_of_key(column: &str) -> Error {
    Error::unsupported(format!("DEFAULT of key column \"{column}\" is not supported on columns tables"))
        .with_hint("fields and the time can have defaults")
}

/// The words of a column's constraint, for messages.
fn clause(kind: &ColumnConstraintKind) -> &'static str {
    match kind {
        ColumnConstraintKind::NotNull => "NOT NULL",
        ColumnConstraintKind::Null => "NULL",
        ColumnConstraintKind::Unique { .. } => "UNIQUE",
        ColumnConstraintKind::PrimaryKey { .. } => "PRIMARY KEY",
        ColumnConstraintKind::Check { .. } => "CHECK",
        ColumnConstraintKind::Default(_) => "DEFAULT",
        ColumnConstraintKind::Identity { .. } | ColumnConstraintKind::Generated(_) => "GENERATED",
        ColumnConstraintKind::References(_) => "REFERENCES",
        ColumnConstraintKind::Deferrable | ColumnConstraintKind::NotDeferrable => "DEFERRABLE",
        ColumnConstraintKind::InitiallyDeferred | ColumnConstraintKind::InitiallyImmediate => "INITIALLY",
    }
}

/// The stored type of a SQL type.
///
/// # Errors
/// 0A000 naming the supported types.
pub(super) fn data_type(column: &str, ty: &TypeName) -> Result<DataType> {
    let is_plain = ty.name.schema().is_none_or(|schema| schema == "pg_catalog")
        && ty.dimensions.is_empty()
        && !ty.is_set
        && !ty.is_column_type;
    let name = if is_plain { ty.name.name.as_str() } else { "" };
    Ok(match name {
        "bool" => DataType::Bool,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "text" | "varchar" | "bpchar" => DataType::Text,
        "bytea" => DataType::Bytes,
        "numeric" if is_integer_of_20_digits(&ty.modifiers) => DataType::UInt64,
        "timestamptz" => DataType::Timestamp,
        "timestamp" => {
            return Err(Error::unsupported(format!(
                "column \"{column}\": type timestamp without time zone is not supported on columns tables"
            ))
            .with_hint("use timestamptz; it stores the moment, and the session's TimeZone says how it is shown"));
        }
        _ => {
            return Err(unsupported_type(column, &ty.to_string()));
        }
    })
}

/// Error for a type that `columns` tables do not have.
pub(super) fn unsupported_type(column: &str, ty: &str) -> Error {
    let text = format!("column \"{column}\": type {ty} is not supported on columns tables");
    Error::unsupported(text).with_hint(format!("supported types: {TYPES}"))
}

/// Whether the modifiers of numeric are `(20)` or `(20, 0)`.
fn is_integer_of_20_digits(modifiers: &[Expr]) -> bool {
    let is = |modifier: &Expr, number: i32| modifier.kind == ExprKind::Integer(number);
    match modifiers {
        [digits] => is(digits, 20),
        [digits, scale] => is(digits, 20) && is(scale, 0),
        _ => false,
    }
}

fn with_options(create: &CreateTable) -> Result<Options> {
    let mut found = Options::default();
    for option in &create.options {
        let (name, value) = named_option(option);
        match name.as_str() {
            // Only `columns` tables and tables with an unknown store reach this match.
            "store" if value == "columns" => {}
            "store" => {
                return Err(Error::unsupported(format!("store = '{value}' is not supported"))
                    .with_hint("the stores are 'rows', the default, and 'columns' for time series and events"));
            }
            "key" => found.key = Some(names(&value)),
            "time" => found.time = Some(value),
            "partition" => found.partition = Some(value),
            "compression" => found.table.compression = switch("compression", &value)?,
            _ if set_option(&mut found.table, &name, &value)? => {}
            _ => {
                return Err(unrecognized(&name).with_hint(
                    "options of a columns table: store, key, time, partition, compression, retention, history",
                ));
            }
        }
    }
    Ok(found)
}

/// Name and value of an option; one without a value is switched on.
fn named_option(option: &RelOption) -> (String, String) {
    (option.full_name().into_owned(), option.value.as_ref().map_or_else(|| "true".to_owned(), OptionValue::text))
}

fn unrecognized(name: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized parameter \"{name}\""))
}

/// Sets an option that ALTER TABLE can change; false for other options.
fn set_option(options: &mut TableOptions, name: &str, value: &str) -> Result<bool> {
    match name {
        "retention" => options.retention_ns = Some(length("retention", value)?),
        "history" => options.history = boolean("history", value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn boolean(option: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Ok(true),
        "off" | "false" | "no" | "0" => Ok(false),
        _ => {
            let text = format!("invalid value for boolean option \"{option}\": {value}");
            Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
        }
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
}

fn switch(name: &str, text: &str) -> Result<bool> {
    match text {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("{name} = '{text}': neither on nor off"))),
    }
}

/// Whether the time column is a `bigint`.
fn is_counted(create: &CreateTable, time: &str) -> bool {
    columns(create).any(|def| def.name == time && stored_as(def, DataType::Int64))
}

/// The partition length in units of a `bigint` time column.
fn steps(text: &str) -> Result<i64> {
    text.trim().parse().ok().filter(|steps| *steps > 0).ok_or_else(|| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("partition = '{text}': not a positive whole number"))
            .with_hint("the time is bigint: say how many of its steps a partition is to hold")
    })
}

fn stored_as(def: &ColumnDef, wanted: DataType) -> bool {
    def.ty.as_ref().is_some_and(|ty| data_type("", ty).ok() == Some(wanted))
}

fn unknown_partition(time: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("how long is a partition? column \"{time}\" is bigint"))
        .with_hint(
            "say how many steps of the time one is to hold, e.g. partition = '86400000' for a day of milliseconds",
        )
}

/// An interval option in nanoseconds.
fn length(option: &str, text: &str) -> Result<i64> {
    let interval = pg::time::parse_interval(text)?;
    let bad = |why: &str| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("{option} = '{text}': {why}"))
            .with_hint("give a positive number of hours, days or weeks, e.g. '1 day'")
    };
    if interval.months != 0 {
        return Err(bad("months and years have no fixed length"));
    }
    let micros =
        i64::from(interval.days).checked_mul(pg::time::DAY_MICROS).and_then(|days| days.checked_add(interval.micros));
    let ns = micros.and_then(|micros| micros.checked_mul(1_000)).ok_or_else(|| bad("too long"))?;
    if ns > 0 { Ok(ns) } else { Err(bad("not positive")) }
}

/// The time column: the one named in WITH, else the one called `time`, else the only `timestamptz` column.
fn time_column(create: &CreateTable, named: Option<&str>) -> Result<String> {
    let name = &create.name;
    if let Some(named) = named {
        if columns(create).any(|def| def.name == named) {
            return Ok(named.to_owned());
        }
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{named}\" named in time does not exist")));
    }
    let moments = moments(create);
    match moments.as_slice() {
        _ if columns(create).any(|def| def.name == "time") => Ok("time".to_owned()),
        [only] => Ok(only.clone()),
        [] => Err(Error::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("relation \"{name}\" has no time column; a columns table needs one of type timestamptz NOT NULL"),
        )),
        several => Err(Error::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!("relation \"{name}\" has several timestamptz columns: {}", several.join(", ")),
        )
        .with_hint(format!("say which is the time: WITH (store = 'columns', time = '{}')", several[0]))),
    }
}

fn moments(create: &CreateTable) -> Vec<String> {
    let moments = columns(create).filter(|def| stored_as(def, DataType::Timestamp));
    moments.map(|def| def.name.to_string()).collect()
}

/// Refuses INCLUDE, WITH and USING INDEX TABLESPACE of a key.
fn refuse_parameters(index: &IndexParameters) -> Result<()> {
    match *index == IndexParameters::default() {
        true => Ok(()),
        false => Err(Error::unsupported("index parameters of a key are not supported on columns tables")),
    }
}

/// Refuses constraints other than one PRIMARY KEY.
fn refuse_constraints(create: &CreateTable) -> Result<()> {
    if primary_keys(create).count() > 1 {
        let text = format!("multiple primary keys for table \"{}\" are not allowed", create.name.name);
        return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
    let what = create.elements.iter().find_map(|element| match element {
        TableElement::Constraint(constraint) => match constraint.kind {
            TableConstraintKind::PrimaryKey { .. }
                if constraint.attributes.deferrable == Some(true)
                    || constraint.attributes.initially_deferred == Some(true) =>
            {
                Some("DEFERRABLE")
            }
            TableConstraintKind::PrimaryKey { ref index, .. } if *index != IndexParameters::default() => {
                Some("PRIMARY KEY with index parameters")
            }
            TableConstraintKind::PrimaryKey { .. } => None,
            TableConstraintKind::Check(_) => None,
            TableConstraintKind::Unique { .. } | TableConstraintKind::UniqueUsingIndex(_) => Some("UNIQUE"),
            TableConstraintKind::PrimaryKeyUsingIndex(_) => Some("PRIMARY KEY USING INDEX"),
            TableConstraintKind::Exclude(_) => Some("EXCLUDE"),
            TableConstraintKind::ForeignKey { .. } => Some("FOREIGN KEY"),
        },
        _ => None,
    });
    match what {
        None => Ok(()),
        Some(what) => Err(Error::unsupported(format!("constraint {what} is not supported on columns tables"))
            .with_hint("PRIMARY KEY (key columns, time) and CHECK are")),
    }
}

/// Accepts an index on key and time columns without building one: rows are sorted by key and time, and scans run in
/// both directions.
fn create_index(session: &mut Session, create: &CreateIndex) -> Result<Outcome> {
    let context = session.context();
    let table = find_table(&context, &create.table)?;
    let mut is_there = !create.unique && create.filter.is_none() && create.include.is_empty();
    is_there &= matches!(create.method.as_deref(), None | Some("btree"));
    for element in &create.elements {
        let IndexKey::Column(name) = &element.key else {
            is_there = false;
            continue;
        };
        let Some(column) = table.column(name) else {
            return Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")));
        };
        is_there &= column.role != ColumnRole::Field;
    }
    if !is_there {
        return Err(Error::unsupported("indexes are not supported on columns tables")
            .with_hint("rows are found by key and time, and by the statistics of blocks of each column"));
    }
    session.notice(format!("relation \"{}\" is sorted by its key and time: no index is made", table.name.table));
    Ok(Outcome::command("CREATE INDEX"))
}

fn create_schema(session: &mut Session, create: &CreateSchema) -> Result<Outcome> {
    if !create.elements.is_empty() {
        return Err(Error::unsupported("CREATE SCHEMA with elements is not supported")
            .with_hint("create the objects by statements of their own"));
    }
    let name = match (&create.name, &create.owner) {
        (Some(name), _) | (None, Some(RoleSpec::Name(name))) => name.to_string(),
        _ => session.setting("session_authorization").unwrap_or_default(),
    };
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(Error::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{name}\""))
            .with_detail("the prefix \"pg_\" is reserved for system schemas"));
    }
    let context = session.context();
    if context.reads.snapshot.catalog().has_schema(&name) {
        if create.if_not_exists {
            session.notice(format!("schema \"{name}\" already exists, skipping"));
            return Ok(Outcome::command("CREATE SCHEMA"));
        }
        return Err(Error::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
    }
    session.writer()?.create_schema(&name)?;
    Ok(Outcome::command("CREATE SCHEMA"))
}

async fn alter_columns_table(session: &mut Session, parsed: &Parsed, alter: &AlterTable) -> Result<Outcome> {
    let context = session.context();
    let table = match find_table(&context, &alter.name) {
        Ok(table) => table,
        Err(error) if alter.if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
            session.notice(format!("{}, skipping", error.message()));
            return Ok(Outcome::command("ALTER TABLE"));
        }
        Err(error) => return Err(error),
    };
    let table = column_constraints::alter(session, parsed, alter, &table).await?;
    let mut options = None;
    for action in &alter.actions {
        match action {
            AlterTableAction::SetOptions(list) => {
                set_options(options.get_or_insert_with(|| table.options.clone()), list)?;
            }
            AlterTableAction::ResetOptions(list) => {
                reset_options(options.get_or_insert_with(|| table.options.clone()), list)?;
            }
            _ => {}
        }
    }
    if let Some(options) = options {
        session.writer()?.set_options(&table.name, options)?;
    }
    Ok(Outcome::command("ALTER TABLE"))
}

/// Applies `ALTER TABLE … SET (…)`. `retention = 'none'` turns retention off, as `RESET (retention)` does.
fn set_options(options: &mut TableOptions, list: &[RelOption]) -> Result<()> {
    for option in list {
        let (name, value) = named_option(option);
        if name == "retention" && value.eq_ignore_ascii_case("none") {
            options.retention_ns = None;
        } else if ["store", "key", "time", "partition"].contains(&name.as_str()) {
            return Err(Error::unsupported(format!("the option {name} of a table that is there cannot be changed")));
        } else if !set_option(options, &name, &value)? {
            return Err(unrecognized(&name).with_hint("retention and history can be set"));
        }
    }
    Ok(())
}

/// Applies `ALTER TABLE … RESET (…)`.
fn reset_options(options: &mut TableOptions, list: &[RelOption]) -> Result<()> {
    for option in list {
        match named_option(option).0.as_str() {
            "retention" => options.retention_ns = None,
            "history" => options.history = TableOptions::default().history,
            name => return Err(unrecognized(name).with_hint("retention and history can be reset")),
        }
    }
    Ok(())
}

async fn drop_objects(session: &mut Session, drop: &Drop) -> Result<Outcome> {
    let if_exists = drop.if_exists;
    let (tag, what, state) = match drop.kind {
        ObjectKind::Table | ObjectKind::Schema => {
            return drop_relations(session, drop).await;
        }
        ObjectKind::Function => ("FUNCTION", "function", SqlState::UNDEFINED_FUNCTION),
        ObjectKind::Procedure => ("PROCEDURE", "procedure", SqlState::UNDEFINED_FUNCTION),
        ObjectKind::Trigger => ("TRIGGER", "trigger", SqlState::UNDEFINED_OBJECT),
        ObjectKind::Extension => ("EXTENSION", "extension", SqlState::UNDEFINED_OBJECT),
        kind => return Err(Error::unsupported(format!("DROP {} is not supported", name_of(kind)))),
    };
    let names = drop.objects.iter().map(|object| match object {
        ObjectName::Name(name) | ObjectName::Function(FunctionSignature { name, .. }) => name.to_string(),
        ObjectName::On(name, _) => name.to_string(),
        _ => String::new(),
    });
    drop_nothing(session, tag, what, if_exists, names, state)
}

/// The words of a kind of objects that cannot be dropped.
fn name_of(kind: ObjectKind) -> String {
    // Rust writes `ForeignTable`.
    let mut words = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_uppercase());
    }
    words
}

async fn drop_relations(session: &mut Session, drop: &Drop) -> Result<Outcome> {
    let cascade = drop.behavior == DropBehavior::Cascade;
    let mut tag = "DROP TABLE";
    for object in &drop.objects {
        let ObjectName::Name(name) = object else { return Err(Error::bug("a relation that has no name")) };
        match drop.kind {
            ObjectKind::Schema => {
                tag = "DROP SCHEMA";
                drop_schema(session, name, drop.if_exists, cascade).await?;
            }
            _ => drop_table(session, name, drop.if_exists, cascade).await?,
        }
    }
    Ok(Outcome::command(tag))
}

/// Drops an object of a kind that does not exist in this database: an error, or a notice with IF EXISTS.
fn drop_nothing(
    session: &mut Session,
    tag: &str,
    what: &str,
    if_exists: bool,
    names: impl Iterator<Item = String>,
    state: SqlState,
) -> Result<Outcome> {
    for name in names {
        if !if_exists {
            return Err(Error::new(state, format!("{what} \"{name}\" does not exist")));
        }
        session.notice(format!("{what} \"{name}\" does not exist, skipping"));
    }
    Ok(Outcome::command(format!("DROP {tag}")))
}

/// A name with its parts joined by dots.
fn shown(name: &Name) -> String {
    name.parts().map(|part| part.as_str()).collect::<Vec<_>>().join(".")
}

async fn drop_table(session: &mut Session, name: &Name, if_exists: bool, cascade: bool) -> Result<()> {
    let context = session.context();
    match find_table(&context, name) {
        Ok(table) => {
            view::drop_dependents(session, &table, cascade).await?;
            session.writer()?.drop_table(&table.name)
        }
        Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
            session.notice(format!("table \"{}\" does not exist, skipping", name.name));
            Ok(())
        }
        Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {
            Err(Error::new(SqlState::UNDEFINED_TABLE, format!("table \"{}\" does not exist", shown(name))))
        }
        Err(error) => Err(error),
    }
}

async fn drop_schema(session: &mut Session, name: &Name, if_exists: bool, cascade: bool) -> Result<()> {
    let schema = name.name.to_string();
    let context = session.context();
    let catalog = Arc::clone(context.reads.snapshot.catalog());
    if !catalog.has_schema(&schema) {
        if if_exists {
            session.notice(format!("schema \"{schema}\" does not exist, skipping"));
            return Ok(());
        }
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
    }
    let tables: Vec<TableRef> = catalog.tables().filter(|table| table.name.schema == schema).cloned().collect();
    if let Some(first) = tables.first()
        && !cascade
    {
        return Err(Error::new(
            SqlState("2BP01"),
            format!("cannot drop schema {schema} because other objects depend on it"),
        )
        .with_detail(format!("table {} depends on schema \"{schema}\"", first.name))
        .with_hint("use DROP … CASCADE to drop the dependent objects too"));
    }
    for table in &tables {
        view::drop_dependents(session, table, cascade).await?;
        session.writer()?.drop_table(&table.name)?;
    }
    session.writer()?.drop_schema(&schema)
}

fn truncate_tables(session: &mut Session, truncate: &Truncate) -> Result<Outcome> {
    for (name, _) in &truncate.tables {
        let context = session.context();
        let table = find_table(&context, name)?;
        let view = context.reads.snapshot.table_by_id(table.id)?;
        session.writer()?.delete(&view, None, TimeRange::ALL)?;
    }
    Ok(Outcome::command("TRUNCATE TABLE"))
}
