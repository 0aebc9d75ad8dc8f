//! CREATE, ALTER, DROP and TRUNCATE of schemas and `columns` tables.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, AlterTableOperation, ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, ObjectName, ObjectType,
    SchemaName, SqlOption, Statement, TableConstraint, TimezoneInfo, Value as Literal,
};
use engine::{ColumnSpec, TableSpec};
use model::{ColumnRole, DataType, Error, Result, SqlState, TableName, TableOptions, TimeRange};

use crate::context::StatementContext;
use crate::errors::locate;
use crate::insert::find_table;
use crate::session::{Outcome, Session};
use crate::statement::Parsed;
use crate::syntax_rewrites::folded;

/// Types that a `columns` table can store, for messages.
const TYPES: &str = "boolean, smallint, integer, bigint, numeric(20), real, double precision, text, bytea, timestamptz";

/// Runs a DDL statement, or fails with 0A000 if it is not supported.
pub(crate) fn execute(session: &mut Session, parsed: &Parsed, sql: &Statement) -> Result<Outcome> {
    let result = match sql {
        Statement::CreateTable(create) => create_table(session, create),
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            create_schema(session, schema_name, *if_not_exists)
        }
        Statement::AlterTable(alter) => alter_table(session, alter),
        Statement::CreateIndex(create) => create_index(session, create),
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            drop_objects(session, *object_type, *if_exists, names, *cascade)
        }
        Statement::Truncate(truncate) => truncate_tables(session, truncate),
        // LISTEN is not supported, so nothing is listened to.
        Statement::UNLISTEN { .. } => Ok(Outcome::command("UNLISTEN")),
        Statement::DropFunction(ast::DropFunction { if_exists, func_desc, .. }) => {
            let names = func_desc.iter().map(|function| function.name.to_string());
            drop_nothing(session, "FUNCTION", "function", *if_exists, names, SqlState::UNDEFINED_FUNCTION)
        }
        Statement::DropProcedure { if_exists, proc_desc, .. } => {
            let names = proc_desc.iter().map(|procedure| procedure.name.to_string());
            drop_nothing(session, "PROCEDURE", "procedure", *if_exists, names, SqlState::UNDEFINED_FUNCTION)
        }
        Statement::DropTrigger(ast::DropTrigger { if_exists, trigger_name, .. }) => {
            let names = std::iter::once(trigger_name.to_string());
            drop_nothing(session, "TRIGGER", "trigger", *if_exists, names, SqlState::UNDEFINED_OBJECT)
        }
        Statement::DropExtension(ast::DropExtension { names, if_exists, .. }) => {
            let names = names.iter().map(folded);
            drop_nothing(session, "EXTENSION", "extension", *if_exists, names, SqlState::UNDEFINED_OBJECT)
        }
        // Statistics need no ANALYZE; tools send it unasked.
        Statement::Analyze(_) => Ok(Outcome::command("ANALYZE")),
        other => Err(Error::unsupported(format!("{} is not supported", words(&parsed.sql, other)))),
    };
    result.map_err(|error| locate(error, parsed))
}

/// The first words of a statement, which name it in messages.
fn words(sql: &str, _statement: &Statement) -> String {
    let words = sql.split_whitespace().take_while(|word| word.chars().all(|c| c.is_ascii_alphabetic()));
    let kind: Vec<String> = words
        .map(str::to_ascii_uppercase)
        // Names CREATE OR REPLACE VIEW as CREATE VIEW.
        .filter(|word| !["OR", "REPLACE", "TEMP", "TEMPORARY", "RECURSIVE", "CONSTRAINT"].contains(&word.as_str()))
        .take(2)
        .collect();
    if kind.is_empty() { "this statement".to_owned() } else { kind.join(" ") }
}

/// The qualified name of a new object.
fn new_name(context: &StatementContext, name: &ObjectName) -> Result<TableName> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    let (schema, table) = match parts.as_slice() {
        [table] => (context.current_schema(), table),
        [schema, table] => (Some(schema.clone()), table),
        [database, schema, table] if database == crate::context::DATABASE => (Some(schema.clone()), table),
        _ => return Err(Error::unsupported(format!("cross-database references are not implemented: \"{name}\""))),
    };
    let schema =
        schema.ok_or_else(|| Error::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))?;
    if schema == "pg_catalog" || schema == "information_schema" {
        return Err(Error::new(SqlState("42501"), format!("permission denied to create \"{schema}.{table}\"")));
    }
    Ok(TableName { schema, table: table.clone() })
}

fn create_table(session: &mut Session, create: &CreateTable) -> Result<Outcome> {
    let context = session.context();
    let name = new_name(&context, &create.name)?;
    refuse_kinds(create)?;
    if context.snapshot.catalog().table(&name).is_some() {
        if create.if_not_exists {
            session.notice(format!("relation \"{}\" already exists, skipping", name.table));
            return Ok(Outcome::command("CREATE TABLE"));
        }
        return Err(Error::new(SqlState::DUPLICATE_TABLE, format!("relation \"{}\" already exists", name.table)));
    }
    let spec = table_spec(name, create)?;
    session.writer()?.create_table(&spec)?;
    Ok(Outcome::command("CREATE TABLE"))
}

fn refuse_kinds(create: &CreateTable) -> Result<()> {
    let what = if create.temporary || create.global.is_some() {
        "temporary tables"
    } else if create.query.is_some() {
        "CREATE TABLE AS"
    } else if create.like.is_some() || create.inherits.is_some() || create.partition_of.is_some() {
        "LIKE, INHERITS and PARTITION OF"
    } else if create.partition_by.is_some() {
        "PARTITION BY"
    } else {
        return Ok(());
    };
    Err(Error::unsupported(format!("{what} are not supported"))
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
    if let Some(primary) = primary_key(create)? {
        let key: Vec<String> = primary.iter().filter(|column| **column != time).cloned().collect();
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
        if !create.columns.iter().any(|def| folded(&def.name) == *column) {
            return Err(Error::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" named in key does not exist"),
            ));
        }
    }
    let mut columns = Vec::with_capacity(create.columns.len());
    for def in &create.columns {
        let column = folded(&def.name);
        let role = if column == time {
            ColumnRole::Time
        } else if key.contains(&column) {
            ColumnRole::Key
        } else {
            ColumnRole::Field
        };
        columns.push(column_spec(def, role)?);
    }
    Ok(TableSpec { name, keyed: options.key.is_some(), columns, options: options.table })
}

fn column_spec(def: &ColumnDef, role: ColumnRole) -> Result<ColumnSpec> {
    let name = folded(&def.name);
    let mut nullable = role != ColumnRole::Time;
    for option in &def.options {
        match &option.option {
            ColumnOption::Null if role == ColumnRole::Time => {
                return Err(Error::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{name}\" is the time, and must be NOT NULL"),
                ));
            }
            ColumnOption::Null | ColumnOption::PrimaryKey(_) => {}
            ColumnOption::NotNull => nullable = false,
            ColumnOption::Default(Expr::Value(value)) if value.value == Literal::Null => {}
            other => {
                return Err(Error::unsupported(format!(
                    "{other} of column \"{name}\" is not supported on columns tables"
                ))
                .with_hint("only NULL and NOT NULL are"));
            }
        }
    }
    Ok(ColumnSpec { ty: data_type(&name, &def.data_type)?, name, nullable, role })
}

/// The stored type of a SQL type.
///
/// # Errors
/// 0A000 naming the supported types.
fn data_type(column: &str, ty: &ast::DataType) -> Result<DataType> {
    use ast::DataType as Sql;
    let custom = match ty {
        Sql::Custom(name, _) => name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default(),
        _ => String::new(),
    };
    Ok(match ty {
        Sql::Bool | Sql::Boolean => DataType::Bool,
        Sql::SmallInt(_) | Sql::Int2(_) => DataType::Int16,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) => DataType::Int32,
        Sql::BigInt(_) | Sql::Int8(_) => DataType::Int64,
        Sql::Real | Sql::Float4 => DataType::Float32,
        Sql::Float(ast::ExactNumberInfo::Precision(digits)) if *digits <= 24 => DataType::Float32,
        Sql::Float(_) | Sql::Float8 | Sql::Double(_) | Sql::DoublePrecision => DataType::Float64,
        Sql::Text
        | Sql::Varchar(_)
        | Sql::CharacterVarying(_)
        | Sql::Char(_)
        | Sql::Character(_)
        | Sql::CharVarying(_) => DataType::Text,
        Sql::Bytea => DataType::Bytes,
        Sql::Numeric(ast::ExactNumberInfo::Precision(20) | ast::ExactNumberInfo::PrecisionAndScale(20, 0))
        | Sql::Decimal(ast::ExactNumberInfo::Precision(20) | ast::ExactNumberInfo::PrecisionAndScale(20, 0)) => {
            DataType::UInt64
        }
        Sql::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => DataType::Timestamp,
        Sql::Timestamp(..) | Sql::Datetime(_) => {
            return Err(Error::unsupported(format!(
                "column \"{column}\": type timestamp without time zone is not supported on columns tables"
            ))
            .with_hint("use timestamptz; it stores the moment, and the session's TimeZone says how it is shown"));
        }
        Sql::Custom(..) if custom == "timestamptz" => DataType::Timestamp,
        Sql::Custom(..) if custom == "float8" => DataType::Float64,
        Sql::Custom(..) if custom == "float4" => DataType::Float32,
        other => {
            return Err(Error::unsupported(format!(
                "column \"{column}\": type {} is not supported on columns tables",
                other.to_string().to_lowercase()
            ))
            .with_hint(format!("supported types: {TYPES}")));
        }
    })
}

fn with_options(create: &CreateTable) -> Result<Options> {
    let mut found = Options::default();
    let list = match &create.table_options {
        CreateTableOptions::With(list) => list.as_slice(),
        _ => &[],
    };
    for option in list {
        let (name, value) = named_option(option)?;
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

fn named_option(option: &SqlOption) -> Result<(String, String)> {
    match option {
        SqlOption::KeyValue { key, value } => Ok((folded(key), option_text(value))),
        other => Err(Error::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{other}\""))),
    }
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

fn option_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => folded(ident),
        other => other.to_string(),
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
    let def = create.columns.iter().find(|def| folded(&def.name) == time);
    def.is_some_and(|def| data_type(time, &def.data_type).ok() == Some(DataType::Int64))
}

/// The partition length in units of a `bigint` time column.
fn steps(text: &str) -> Result<i64> {
    text.trim().parse().ok().filter(|steps| *steps > 0).ok_or_else(|| {
        Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("partition = '{text}': not a positive whole number"))
            .with_hint("the time is bigint: say how many of its steps a partition is to hold")
    })
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
        if create.columns.iter().any(|def| folded(&def.name) == named) {
            return Ok(named.to_owned());
        }
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{named}\" named in time does not exist")));
    }
    let moments = moments(create);
    match moments.as_slice() {
        _ if create.columns.iter().any(|def| folded(&def.name) == "time") => Ok("time".to_owned()),
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
    let is_moment = |def: &&ColumnDef| data_type("", &def.data_type).ok() == Some(DataType::Timestamp);
    create.columns.iter().filter(is_moment).map(|def| folded(&def.name)).collect()
}

/// The columns of the PRIMARY KEY, if there is one.
fn primary_key(create: &CreateTable) -> Result<Option<Vec<String>>> {
    let mut primary = None;
    for def in &create.columns {
        if def.options.iter().any(|option| matches!(option.option, ColumnOption::PrimaryKey(_))) {
            primary = Some(vec![folded(&def.name)]);
        }
    }
    for constraint in &create.constraints {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let name = |column: &ast::IndexColumn| match &column.column.expr {
                    Expr::Identifier(ident) => folded(ident),
                    other => other.to_string(),
                };
                primary = Some(key.columns.iter().map(name).collect());
            }
            other => {
                return Err(Error::unsupported(format!("constraint {other} is not supported on columns tables"))
                    .with_hint("only PRIMARY KEY (key columns, time) is"));
            }
        }
    }
    Ok(primary)
}

/// Accepts an index on key and time columns without building one: rows are sorted by key and time, and scans run in
/// both directions.
fn create_index(session: &mut Session, create: &ast::CreateIndex) -> Result<Outcome> {
    let context = session.context();
    let table = find_table(&context, &create.table_name)?;
    let mut is_there = !create.unique && create.predicate.is_none() && create.include.is_empty();
    is_there &= matches!(create.using, None | Some(ast::IndexType::BTree));
    for column in &create.columns {
        let Expr::Identifier(name) = &column.column.expr else {
            is_there = false;
            continue;
        };
        let name = folded(name);
        let Some(column) = table.column(&name) else {
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

fn create_schema(session: &mut Session, name: &SchemaName, if_not_exists: bool) -> Result<Outcome> {
    let name = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => {
            name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
        }
        SchemaName::UnnamedAuthorization(ident) => folded(ident),
    };
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(Error::new(SqlState::RESERVED_NAME, format!("unacceptable schema name \"{name}\""))
            .with_detail("the prefix \"pg_\" is reserved for system schemas"));
    }
    let context = session.context();
    if context.snapshot.catalog().has_schema(&name) {
        if if_not_exists {
            session.notice(format!("schema \"{name}\" already exists, skipping"));
            return Ok(Outcome::command("CREATE SCHEMA"));
        }
        return Err(Error::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists")));
    }
    session.writer()?.create_schema(&name)?;
    Ok(Outcome::command("CREATE SCHEMA"))
}

fn alter_table(session: &mut Session, alter: &ast::AlterTable) -> Result<Outcome> {
    let context = session.context();
    let table = match find_table(&context, &alter.name) {
        Ok(table) => table,
        Err(error) if alter.if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
            session.notice(format!("{}, skipping", error.message()));
            return Ok(Outcome::command("ALTER TABLE"));
        }
        Err(error) => return Err(error),
    };
    let (mut columns, mut options) = (Vec::new(), None);
    for operation in &alter.operations {
        if let AlterTableOperation::SetOptionsParens { options: list } = operation {
            set_options(options.get_or_insert_with(|| table.options.clone()), list)?;
            continue;
        }
        let AlterTableOperation::AddColumn { if_not_exists, column_def, .. } = operation else {
            return Err(Error::unsupported(format!("ALTER TABLE … {operation} is not supported"))
                .with_hint("ADD COLUMN and SET (retention, history) are"));
        };
        let spec = column_spec(column_def, ColumnRole::Field)?;
        if *if_not_exists && table.column(&spec.name).is_some() {
            session.notice(format!(
                "column \"{}\" of relation \"{}\" already exists, skipping",
                spec.name, table.name.table
            ));
        } else {
            columns.push(spec);
        }
    }
    if !columns.is_empty() {
        session.writer()?.add_columns(&table.name, &columns)?;
    }
    if let Some(options) = options {
        session.writer()?.set_options(&table.name, options)?;
    }
    Ok(Outcome::command("ALTER TABLE"))
}

/// Applies `ALTER TABLE … SET (…)`. `retention = 'none'` turns retention off, because sqlparser has no `RESET`.
fn set_options(options: &mut TableOptions, list: &[SqlOption]) -> Result<()> {
    for option in list {
        let (name, value) = named_option(option)?;
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

fn drop_objects(
    session: &mut Session,
    kind: ObjectType,
    if_exists: bool,
    names: &[ObjectName],
    cascade: bool,
) -> Result<Outcome> {
    for name in names {
        match kind {
            ObjectType::Table => drop_table(session, name, if_exists)?,
            ObjectType::Schema => drop_schema(session, name, if_exists, cascade)?,
            ObjectType::View | ObjectType::MaterializedView => drop_view(session, kind, name, if_exists)?,
            ObjectType::Type => {
                let names = std::iter::once(name.to_string());
                return drop_nothing(session, "TYPE", "type", if_exists, names, SqlState::UNDEFINED_OBJECT);
            }
            other => return Err(Error::unsupported(format!("DROP {other} is not supported"))),
        }
    }
    Ok(Outcome::command(format!("DROP {kind}")))
}

/// Drops a view. There are no views, so the name is either a table or does not exist.
fn drop_view(session: &mut Session, kind: ObjectType, name: &ObjectName, if_exists: bool) -> Result<()> {
    let context = session.context();
    let shown = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect::<Vec<_>>().join(".");
    let what = kind.to_string().to_lowercase();
    let named = crate::rows::Named { snapshot: &context.snapshot, settings: &context.settings };
    if named.find(name).is_some() || find_table(&context, name).is_ok() {
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a {what}"))
            .with_hint("use DROP TABLE to remove a table"));
    }
    drop_nothing(session, "VIEW", &what, if_exists, std::iter::once(shown), SqlState::UNDEFINED_TABLE).map(drop)
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

fn drop_table(session: &mut Session, name: &ObjectName, if_exists: bool) -> Result<()> {
    let context = session.context();
    match find_table(&context, name) {
        Ok(table) => session.writer()?.drop_table(&table.name),
        Err(error) if if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
            let shown = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
            session.notice(format!("table \"{shown}\" does not exist, skipping"));
            Ok(())
        }
        Err(error) if error.state() == SqlState::UNDEFINED_TABLE => {
            let shown = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect::<Vec<_>>().join(".");
            Err(Error::new(SqlState::UNDEFINED_TABLE, format!("table \"{shown}\" does not exist")))
        }
        Err(error) => Err(error),
    }
}

fn drop_schema(session: &mut Session, name: &ObjectName, if_exists: bool, cascade: bool) -> Result<()> {
    let schema = name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default();
    let context = session.context();
    let catalog = Arc::clone(context.snapshot.catalog());
    if !catalog.has_schema(&schema) {
        if if_exists {
            session.notice(format!("schema \"{schema}\" does not exist, skipping"));
            return Ok(());
        }
        return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
    }
    let tables: Vec<TableName> =
        catalog.tables().filter(|table| table.name.schema == schema).map(|table| table.name.clone()).collect();
    if let Some(first) = tables.first()
        && !cascade
    {
        return Err(Error::new(
            SqlState("2BP01"),
            format!("cannot drop schema {schema} because other objects depend on it"),
        )
        .with_detail(format!("table {first} depends on schema \"{schema}\""))
        .with_hint("use DROP … CASCADE to drop the dependent objects too"));
    }
    let txn = session.writer()?;
    for table in &tables {
        txn.drop_table(table)?;
    }
    txn.drop_schema(&schema)
}

fn truncate_tables(session: &mut Session, truncate: &ast::Truncate) -> Result<Outcome> {
    for target in &truncate.table_names {
        let context = session.context();
        let table = find_table(&context, &target.name)?;
        let view = context.snapshot.table_by_id(table.id)?;
        session.writer()?.delete(&view, None, TimeRange::ALL)?;
    }
    Ok(Outcome::command("TRUNCATE TABLE"))
}
