//! TimescaleDB's functions: `create_hypertable` turns an empty `rows` table into a `columns` table, and
//! retention policies set its table options. Other common functions raise a notice or warning that they have
//! no effect.
//!
//! Like `pg_sleep`, each is a statement of its own: a function that changes the catalog cannot run within a
//! query.

use std::sync::Arc;

use ::rows::{RecordId, RowTable};
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use model::{Error, Result, SqlState, TableOptions, Type};
use parser::ast::{Expr, ExprKind, Name, Statement};
use parser::print::{quoted_name, quoted_text};

use crate::errors::locate;
use crate::plan::hypertable::{Call, is_by_range};
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::calls::without_casts;
use crate::statement::{Command, Parsed, parse};
use crate::tables::{Named, find_table};

/// Positional arguments of `create_hypertable` if the second is a column name.
const BY_NAME: &[&str] = &[
    "relation",
    "time_column_name",
    "partitioning_column",
    "number_partitions",
    "associated_schema_name",
    "associated_table_prefix",
    "chunk_time_interval",
    "create_default_indexes",
    "if_not_exists",
    "partitioning_func",
    "migrate_data",
];
/// Positional arguments if the second is a dimension, `by_range(…)`.
const BY_DIMENSION: &[&str] = &["relation", "dimension", "create_default_indexes", "if_not_exists", "migrate_data"];
/// TimescaleDB's code for a unique index without the time.
pub(super) const NO_TIME_IN_KEY: SqlState = SqlState("TS103");
/// Days per month in chunk intervals, as in TimescaleDB.
const CHUNK_MONTH_DAYS: i64 = 30;
/// Days per month in retention intervals, so that no row is dropped too early.
const LONGEST_MONTH_DAYS: i64 = 31;

impl Call {
    pub(crate) async fn execute(&self, session: &mut Session, parsed: &Parsed) -> Result<Outcome> {
        let given = Given::of(self)?;
        let row: Vec<ArrayRef> = match self.name.as_str() {
            "create_hypertable" => {
                let made = create(session, parsed, &given).await.map_err(|error| locate(error, parsed))?;
                made.row(self.spread, self.has_dimension())
            }
            name => {
                set_policy(session, name, &given)?;
                match name {
                    "set_chunk_time_interval" | "remove_retention_policy" => vec![text("")],
                    // Job number; no such job exists.
                    _ => vec![Arc::new(Int32Array::from(vec![1_000]))],
                }
            }
        };
        let columns = self.columns();
        let fields: Vec<Field> = columns
            .iter()
            .zip(&row)
            .map(|(column, array)| Field::new(&column.name, array.data_type().clone(), true))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), row).map_err(Error::bug)?;
        Ok(Outcome::Rows { columns, batches: Box::pin(futures::stream::iter([Ok(batch)])), tag: "SELECT".into() })
    }
}

fn text(text: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![text]))
}

/// Arguments by name.
#[derive(Default)]
struct Given<'a>(Vec<(String, &'a Expr)>);

impl<'a> Given<'a> {
    fn of(call: &'a Call) -> Result<Given<'a>> {
        let order: &[&str] = match call.name.as_str() {
            "create_hypertable" if call.has_dimension() => BY_DIMENSION,
            "create_hypertable" => BY_NAME,
            "add_retention_policy" => &["relation", "drop_after", "if_not_exists"],
            "remove_retention_policy" => &["relation", "if_exists"],
            _ => &["relation", "interval"],
        };
        let mut given = Given::default();
        for (at, (name, value)) in call.arguments.iter().enumerate() {
            let name = match (name.as_deref(), order.get(at)) {
                (Some("main_table" | "hypertable"), _) => "relation",
                (Some(name), _) => name,
                (None, Some(name)) => *name,
                (None, None) => {
                    let text = format!("function {}() has at most {} arguments here", call.name, order.len());
                    return Err(Error::new(SqlState::UNDEFINED_FUNCTION, text));
                }
            };
            let ExprKind::Function(range) = &value.kind else {
                given.0.push((name.to_owned(), value));
                continue;
            };
            if !is_by_range(range) {
                return Err(constant(name));
            }
            let names = ["time_column_name", "chunk_time_interval"];
            for (argument, name) in range.args.iter().zip(names) {
                let value = match &argument.kind {
                    ExprKind::NamedArgument(named) => &named.value,
                    _ => argument,
                };
                given.0.push((name.to_owned(), value));
            }
        }
        Ok(given)
    }

    fn value(&self, name: &str) -> Option<&'a ExprKind> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| &without_casts(value).kind)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.value(name) {
            None | Some(ExprKind::Null) => Ok(None),
            Some(ExprKind::String(text)) => Ok(Some(text)),
            Some(_) => Err(constant(name)),
        }
    }

    fn flag(&self, name: &str) -> Result<bool> {
        match self.value(name) {
            None => Ok(false),
            Some(ExprKind::Bool(value)) => Ok(*value),
            Some(ExprKind::String(text)) => pg::value::parse_bool(text),
            Some(_) => Err(constant(name)),
        }
    }

    /// Name of the table argument.
    fn relation(&self) -> Result<Name> {
        let text = self.text("relation")?.ok_or_else(|| constant("relation"))?;
        // A text that is one name, whatever word it is.
        match parser::parse_all(&format!("DESCRIBE {text}")).as_deref() {
            Ok([parser::ast::Parsed { statement: Statement::Describe(name), .. }]) => Ok((**name).clone()),
            _ => Err(Error::new(SqlState::INVALID_NAME, format!("invalid name syntax: \"{text}\""))),
        }
    }

    /// Chunk interval as a table option, for an integer time column.
    fn steps(&self) -> Result<String> {
        match self.value("chunk_time_interval") {
            Some(ExprKind::Integer(number)) => Ok(number.to_string()),
            Some(ExprKind::Number(number)) => Ok(number.to_string()),
            Some(ExprKind::Null) | None => Err(unknown_steps("integer dimensions require an explicit interval")),
            Some(_) => Err(unknown_steps("invalid interval type for bigint dimension")),
        }
    }

    /// Chunk interval as a table option, for a timestamp time column; `None`: the default.
    fn partition(&self) -> Result<Option<String>> {
        let span = self.span("chunk_time_interval")?;
        Ok(span.map(|Span { months, days, micros }| {
            format!("{} days {micros} microseconds", months * CHUNK_MONTH_DAYS + days)
        }))
    }

    /// Retention in nanoseconds: at least the longest duration that the interval may have.
    fn drop_after(&self) -> Result<i64> {
        let Span { months, days, micros } = self.span("drop_after")?.ok_or_else(|| constant("drop_after"))?;
        let days = days + months * LONGEST_MONTH_DAYS;
        let micros = days.checked_mul(pg::time::DAY_MICROS).and_then(|days| days.checked_add(micros));
        let ns = micros.and_then(|micros| micros.checked_mul(1_000)).filter(|ns| *ns > 0);
        ns.ok_or_else(|| constant("drop_after"))
    }

    /// The unit of `INTERVAL '1' DAY`, with a blank before it; empty for other intervals.
    fn unit(&self, name: &str) -> &'static str {
        use parser::ast::interval::{DAY, HOUR, MINUTE, MONTH, SECOND, YEAR};
        let Some((_, value)) = self.0.iter().find(|(own, _)| own == name) else { return "" };
        let ExprKind::Cast(cast) = &value.kind else { return "" };
        let [Expr { kind: ExprKind::Integer(fields), .. }, ..] = cast.ty.modifiers.as_slice() else { return "" };
        let units = [
            (YEAR, " year"),
            (MONTH, " month"),
            (DAY, " day"),
            (HOUR, " hour"),
            (MINUTE, " minute"),
            (SECOND, " second"),
        ];
        units.iter().find(|(unit, _)| unit == fields).map_or("", |(_, word)| word)
    }

    /// An interval argument; `None` if it is missing or NULL. Integers are microseconds, as for timestamps.
    fn span(&self, name: &str) -> Result<Option<Span>> {
        let text = match self.value(name) {
            None | Some(ExprKind::Null) => return Ok(None),
            Some(ExprKind::Integer(number)) => format!("{number} microseconds"),
            Some(ExprKind::Number(number)) => format!("{number} microseconds"),
            Some(ExprKind::String(text)) => format!("{text}{}", self.unit(name)),
            Some(_) => return Err(constant(name)),
        };
        let interval = pg::time::parse_interval(&text)?;
        Ok(Some(Span { months: interval.months.into(), days: interval.days.into(), micros: interval.micros }))
    }
}

struct Span {
    months: i64,
    days: i64,
    micros: i64,
}

fn unknown_steps(text: &str) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint(
        "say how many steps of the time a chunk holds: chunk_time_interval => 86400000, a day of milliseconds",
    )
}

fn constant(name: &str) -> Error {
    let text = format!("the argument {name} must be a constant of its type");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

/// Result of `create_hypertable`.
struct Made {
    id: u32,
    schema: String,
    table: String,
    created: bool,
}

impl Made {
    /// The result as columns, or as the text of a record.
    fn row(&self, spread: bool, has_dimension: bool) -> Vec<ArrayRef> {
        let created = if self.created { "t" } else { "f" };
        let id: ArrayRef = Arc::new(Int32Array::from(vec![i32::try_from(self.id).unwrap_or(i32::MAX)]));
        let made: ArrayRef = Arc::new(BooleanArray::from(vec![self.created]));
        match (spread, has_dimension) {
            (true, true) => vec![id, made],
            (true, false) => vec![id, text(&self.schema), text(&self.table), made],
            (false, true) => vec![text(&format!("({},{created})", self.id))],
            (false, false) => vec![text(&format!("({},{},{},{created})", self.id, self.schema, self.table))],
        }
    }
}

/// Refuses a table that has partitions, children or parents: only its own rows are looked at.
///
/// # Errors
/// 42809 and the message of TimescaleDB.
pub(super) fn refuse_relatives(table: &RowTable) -> Result<()> {
    let lineage = &table.schema.lineage;
    if lineage.parents.is_empty() && lineage.children.is_empty() && lineage.key.is_none() {
        return Ok(());
    }
    let kind = if lineage.key.is_some() { "partitioned tables" } else { "tables that use inheritance" };
    let text = format!("table \"{}\" is already partitioned", table.schema.name.table);
    let detail = format!("It is not possible to turn {kind} into columns tables.");
    Err(Error::new(SqlState::WRONG_OBJECT_TYPE, text).with_detail(detail))
}

async fn create(session: &mut Session, parsed: &Parsed, given: &Given<'_>) -> Result<Made> {
    let name = given.relation()?;
    let context = session.context();
    let is_row_table = (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).find(&name).is_some();
    if !is_row_table {
        let table = find_table(&context, &name)?;
        let text = format!("table \"{}\" is already a hypertable", table.name.table);
        if !given.flag("if_not_exists")? {
            return Err(Error::new(SqlState("TS110"), text));
        }
        session.notice(format!("{text}, skipping"));
        let (schema, name) = (table.name.schema.clone(), table.name.table.clone());
        return Ok(Made { id: table.id.0, schema, table: name, created: false });
    }
    // Block other writers from now on.
    super::rows::lock_tables(session, &[(name.clone(), true)], crate::statement::maintenance::LockMode::Alone, false)
        .await?;
    let context = session.context_of_newest();
    let named = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let table = named.find(&name).ok_or_else(|| Error::bug("a locked table that is gone"))?;
    let view = context.reads.rows_view.clone().ok_or_else(|| Error::bug("a table without its snapshot"))?;
    refuse_relatives(&table)?;
    let is_empty = {
        let guard = crossbeam_epoch::pin();
        (0..table.records.bound()).all(|record| view.row(&table, RecordId(record), &guard).is_none())
    };
    if !is_empty {
        let text = format!("table \"{}\" is not empty", table.schema.name.table);
        return Err(Error::unsupported(text)
            .with_hint("make the hypertable first, and INSERT the rows into it; migrate_data is not supported"));
    }
    let time = given.text("time_column_name")?.ok_or_else(|| constant("time_column_name"))?;
    let partition = match table.schema.column(time).map(|at| table.schema.columns[at].ty) {
        Some(Type::Int8) => Some(given.steps()?),
        _ => given.partition()?,
    };
    let options = partition.map(|width| format!("partition = '{width}'")).into_iter().collect();
    let making = definition(&table, &Layout { time, key: None, options, keeps_sequences: false })?;
    drop((context, view));
    let target = format!("{}.{}", quoted_name(&table.schema.name.schema), quoted_name(&table.schema.name.table));
    for sql in [format!("DROP TABLE {target}"), format!("CREATE TABLE {target} {making}")] {
        let statement = parse(&sql)?.into_iter().next().ok_or_else(|| Error::bug("no statement"))?.without_place();
        let Command::Definition(sql) = &statement.0.command else { return Err(Error::bug("no definition")) };
        if super::rows::define(session, parsed, sql).await?.is_none() {
            Box::pin(super::definition::execute(session, &statement.0, sql)).await?;
        }
    }
    let (schema, name) = (table.schema.name.schema.clone(), table.schema.name.table.clone());
    let made = session.context();
    let id = made.reads.snapshot.catalog().table(&table.schema.name).map_or(0, |table| table.id.0);
    Ok(Made { id, schema, table: name, created: true })
}

/// What a `columns` table has that the `rows` table before it does not tell.
pub(super) struct Layout<'a> {
    pub(super) time: &'a str,
    /// Names of the key columns, as the option has them; the unique index of the table, if there is one, tells them too.
    pub(super) key: Option<&'a str>,
    /// Other options, as SQL.
    pub(super) options: Vec<String>,
    /// Whether defaults may call sequences, which outlive the table.
    pub(super) keeps_sequences: bool,
}

/// Columns and options of the `columns` table that replaces the `rows` table.
///
/// # Errors
/// 42703; 0A000 and 42809 for what `columns` tables do not have.
pub(super) fn definition(table: &RowTable, layout: &Layout<'_>) -> Result<String> {
    let schema = &table.schema;
    let time = layout.time;
    let Some(at) = schema.column(time) else {
        return Err(Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{time}\" does not exist")));
    };
    match schema.columns[at].ty {
        Type::Timestamptz | Type::Int8 => {}
        ty => {
            let text = format!("column \"{time}\": times of type {ty} are not supported");
            return Err(Error::unsupported(text).with_hint("make it timestamptz or bigint"));
        }
    }
    if !schema.foreign_keys.is_empty() {
        let text = format!("table \"{}\" has FOREIGN KEY constraints", schema.name.table);
        return Err(Error::unsupported(text).with_hint("columns tables have none"));
    }
    let mut columns = Vec::new();
    for (place, column) in schema.shown() {
        let default = column.default.as_deref().filter(|default| !default.eq_ignore_ascii_case("null"));
        // The sequence may belong to the column, and so be dropped with the table.
        if !layout.keeps_sequences && default.is_some_and(|default| default.contains("nextval")) {
            let text = format!("column \"{}\" has a default that calls a sequence", column.name);
            return Err(Error::unsupported(text).with_hint("drop the default, and set it again afterwards"));
        }
        if column.generated.is_some() {
            let text = format!("column \"{}\" is generated, and columns of columns tables are not", column.name);
            return Err(Error::unsupported(text));
        }
        let ty = column.type_sql();
        let not_null = if column.not_null || place == at { " NOT NULL" } else { "" };
        let default = default.map_or_else(String::new, |default| format!(" DEFAULT {default}"));
        columns.push(format!("{} {ty}{default}{not_null}", quoted_name(&column.name)));
    }
    columns.extend(schema.checks.iter().map(check));
    let mut options = vec!["store = 'columns'".to_owned(), format!("time = {}", quoted_text(time))];
    match (key(table, at)?, layout.key) {
        (Some(key), None) => options.push(format!("key = {}", quoted_text(&key.join(", ")))),
        (None, Some(given)) => options.push(format!("key = {}", quoted_text(given))),
        (None, None) => {}
        (Some(key), Some(given)) => {
            let mut names: Vec<&str> = given.split(',').map(|name| name.trim().trim_matches('"')).collect();
            names.sort_unstable();
            let mut own: Vec<&str> = key.iter().map(String::as_str).collect();
            own.sort_unstable();
            if names != own {
                let text = format!("table \"{}\" has a unique index of other columns", schema.name.table);
                let hint = format!("the key is {}", key.join(", "));
                return Err(Error::new(SqlState::INVALID_TABLE_DEFINITION, text).with_hint(hint));
            }
            options.push(format!("key = {}", quoted_text(given)));
        }
    }
    options.extend(layout.options.iter().cloned());
    Ok(format!("({}) WITH ({})", columns.join(", "), options.join(", ")))
}

/// A CHECK constraint as SQL.
pub(super) fn check(check: &model::RowCheck) -> String {
    format!("CONSTRAINT {} CHECK ({})", quoted_name(&check.name), check.condition)
}

/// Key columns that identify a row in addition to the time; `None` if there are none.
fn key(table: &RowTable, time: usize) -> Result<Option<Vec<String>>> {
    let schema = &table.schema;
    let mut found: Option<Vec<usize>> = None;
    if let Some(index) = schema.secondary.iter().find(|index| index.is_deferrable()) {
        let text = format!("constraint \"{}\" is deferrable", index.name);
        return Err(Error::unsupported(text).with_hint("drop it: the key of a columns table is unique at all times"));
    }
    for index in schema.primary.iter().chain(schema.secondary.iter().filter(|index| index.unique)) {
        if !index.columns.contains(&time) {
            let column = &schema.columns[time].name;
            let text = format!("cannot create a unique index without the column \"{column}\" (used in partitioning)");
            return Err(Error::new(NO_TIME_IN_KEY, text)
                .with_hint("make the time a part of the primary key, and of every unique index"));
        }
        if index.predicate.is_some() || index.columns.iter().any(|at| schema.columns[*at].is_hidden()) {
            let text = format!("unique index \"{}\" is partial or has expressions", index.name);
            return Err(Error::unsupported(text).with_hint("drop it: a columns table has one key of columns"));
        }
        let mut own: Vec<usize> = index.columns.iter().copied().filter(|column| *column != time).collect();
        own.sort_unstable();
        if found.as_ref().is_some_and(|found| *found != own) {
            let text = format!("table \"{}\" has several unique indexes, of different columns", schema.name.table);
            return Err(Error::unsupported(text).with_hint("a columns table has one key"));
        }
        found = Some(own);
    }
    Ok(found.map(|columns| columns.into_iter().map(|column| schema.columns[column].name.clone()).collect()))
}

/// Sets or removes the retention in the table's options; raises a notice or warning for functions without
/// effect.
fn set_policy(session: &mut Session, name: &str, given: &Given<'_>) -> Result<()> {
    let relation = given.relation()?;
    let table = find_table(&session.context(), &relation)?;
    match name {
        "add_retention_policy" => {
            let options = TableOptions { retention_ns: Some(given.drop_after()?), ..table.options.clone() };
            session.writer()?.set_options(&table.name, options)?;
        }
        "remove_retention_policy" => {
            let options = TableOptions { retention_ns: None, ..table.options.clone() };
            session.writer()?.set_options(&table.name, options)?;
        }
        "add_compression_policy" => {
            session.notice(format!("hypertable \"{relation}\" is always compressed: no policy is needed"));
        }
        _ => {
            let text = format!("the partitions of hypertable \"{relation}\" stay as they are");
            session.warn(SqlState("01000"), text);
        }
    }
    Ok(())
}
