//! `ALTER TABLE … SET (store = …)` and `SET ACCESS METHOD`: moves a table to the other store.
//!
//! The table is renamed, one of the other store is made under its name, the rows are copied by INSERT … SELECT, views that read the
//! table are bound again, and the old table is dropped, all in one transaction. Sessions read the old table until its
//! commit. Writers of a `rows` table wait for the commit; a `columns` table has no locks, and the commit is refused if another
//! transaction wrote rows since the copy began.
//!
//! What the other store does not have is refused before anything is done, and rows that it would lose are found by their number.

use std::sync::Arc;

use ::rows::RowTable;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use engine::{CommentKey, Isolation};
use futures::StreamExt;
use model::{ColumnRole, DataType, Error, Result, RowSchema, SqlState, Table, TableId, TableName, TableRef, Type};
use parser::ast::{AlterTable, AlterTableAction as Action, OptionValue, RelOption};
use parser::print::{quoted_name, quoted_text};
use pg_catalog::oids::{Part, is_primary, of_table};

use super::hypertable::{self, Layout};
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::maintenance::LockMode;
use crate::statement::parse;
use crate::tables::{Named, find_table};

/// Number of `pg_class` in `pg_class`.
const PG_CLASS: u32 = 1_259;

/// What the statement asks for.
pub(crate) struct Change<'a> {
    alter: &'a AlterTable,
    store: String,
    /// The other options.
    options: Vec<(String, String)>,
}

/// The change of the store that a statement asks for; `None` if it does not.
///
/// # Errors
/// 0A000 for other actions beside it; 22023 for a store that does not exist.
pub(crate) fn of(alter: &AlterTable) -> Result<Option<Change<'_>>> {
    let store_of = |list: &[RelOption]| list.iter().any(|option| option.full_name() == "store");
    let is_it = |action: &Action| match action {
        Action::SetAccessMethod(_) => true,
        Action::SetOptions(list) => store_of(list),
        _ => false,
    };
    if !alter.actions.iter().any(is_it) {
        return Ok(None);
    }
    let [action] = &alter.actions[..] else {
        return Err(Error::unsupported("SET (store = …) with other actions is not supported")
            .with_hint("run it as a statement of its own"));
    };
    let mut options: Vec<(String, String)> = match action {
        Action::SetAccessMethod(method) => vec![("store".to_owned(), method.to_string())],
        Action::SetOptions(list) => list.iter().map(named).collect(),
        _ => return Ok(None),
    };
    let at = options.iter().position(|(name, _)| name == "store").unwrap_or(0);
    let store = match options.remove(at).1.as_str() {
        "rows" | "heap" => "rows",
        "columns" => "columns",
        other => {
            let text = format!("store \"{other}\" does not exist");
            return Err(
                Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint("the stores are rows and columns")
            );
        }
    };
    Ok(Some(Change { alter, store: store.to_owned(), options }))
}

fn named(option: &RelOption) -> (String, String) {
    let value = option.value.as_ref().map_or_else(|| "true".to_owned(), OptionValue::text);
    (option.full_name().into_owned(), value)
}

/// A table that is moved.
enum Source {
    Rows(Arc<RowTable>),
    Columns(TableRef),
}

impl Source {
    fn id(&self) -> TableId {
        match self {
            Source::Rows(table) => table.schema.id,
            Source::Columns(table) => table.id,
        }
    }

    fn name(&self) -> &TableName {
        match self {
            Source::Rows(table) => &table.schema.name,
            Source::Columns(table) => &table.name,
        }
    }

    /// Name and number of each column.
    fn columns(&self) -> Vec<(&str, u32)> {
        match self {
            Source::Rows(table) => {
                table.schema.shown().map(|(at, column)| (column.name.as_str(), at as u32 + 1)).collect()
            }
            Source::Columns(table) => {
                (1..).zip(&table.columns).map(|(number, one)| (one.name.as_str(), number)).collect()
            }
        }
    }
}

impl Change<'_> {
    /// Moves the table.
    ///
    /// # Errors
    /// 0A000 for what the other store does not have; 23505 for rows with equal key and time; 25001 in REPEATABLE READ; those of
    /// INSERT. COMMIT fails if rows of a `columns` table were written meanwhile.
    pub(crate) async fn execute(&self, session: &mut Session) -> Result<Outcome> {
        let done = || Ok(Outcome::command("ALTER TABLE"));
        if session.block.as_ref().is_some_and(|block| block.isolation == Isolation::RepeatableRead) {
            // The copy would miss what others have committed since the snapshot.
            let text = "ALTER TABLE … SET (store = …) cannot run in a REPEATABLE READ transaction";
            return Err(Error::new(SqlState::ACTIVE_SQL_TRANSACTION, text).with_hint("use READ COMMITTED"));
        }
        let Some(source) = self.source(session).await? else { return done() };
        match (&source, self.store.as_str()) {
            (Source::Rows(_), "rows") | (Source::Columns(_), "columns") => {
                if !self.options.is_empty() {
                    let text = "key, time and partition of a table that is there cannot be changed";
                    return Err(Error::unsupported(text).with_hint("SET (retention = …) and SET (history = …) can"));
                }
                let name = &source.name().table;
                session.notice(format!("table \"{name}\" is in the store \"{}\" already", self.store));
                return done();
            }
            _ => {}
        }
        let definition = match &source {
            Source::Rows(table) => self.for_columns(session, table)?,
            Source::Columns(table) => self.for_rows(table)?,
        };
        refuse_dependents(session, source.id())?;
        let comments = comments(session, &source);
        let views = views(session, &source).await?;
        if let Source::Columns(table) = &source {
            refuse_nanoseconds(session, table).await?;
            let read = session.writer()?.snapshot().lsn();
            session.writer()?.note_validated(table.id, read);
        }
        let name = source.name();
        let aside =
            TableName { schema: name.schema.clone(), table: format!("........moved.{}........", source.id().0) };
        let (here, there) = (written(name), written(&aside));
        run(session, &format!("ALTER TABLE {here} RENAME TO {}", quoted_name(&aside.table))).await?;
        run(session, &format!("CREATE TABLE {here} {}", definition.table)).await?;
        let list = source.columns().iter().map(|(name, _)| quoted_name(name)).collect::<Vec<_>>().join(", ");
        run(session, &format!("INSERT INTO {here} ({list}) SELECT {list} FROM {there}")).await?;
        let (before, after) = (count(session, &there).await?, count(session, &here).await?);
        if before != after {
            let text = format!("{before} rows of table \"{}\" have {after} different keys and times", name.table);
            return Err(Error::new(SqlState::UNIQUE_VIOLATION, text)
                .with_hint("name other columns as the key, or leave the option key out: then rows need not differ"));
        }
        for statement in definition.behind.iter().chain(&views) {
            run(session, statement).await?;
        }
        for statement in &definition.released {
            run(session, statement).await?;
        }
        for (column, text) in comments {
            let of =
                column.map_or_else(|| format!("TABLE {here}"), |name| format!("COLUMN {here}.{}", quoted_name(&name)));
            run(session, &format!("COMMENT ON {of} IS {}", quoted_text(&text))).await?;
        }
        run(session, &format!("DROP TABLE {there}")).await?;
        done()
    }

    /// The table. One of `rows` is locked; `None` if there is none, with IF EXISTS.
    async fn source(&self, session: &mut Session) -> Result<Option<Source>> {
        let name = &self.alter.name;
        let context = session.context();
        let is_of_rows =
            (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).find(name).is_some();
        if !is_of_rows {
            return match find_table(&context, name) {
                Ok(table) => Ok(Some(Source::Columns(table))),
                Err(error) if self.alter.if_exists && error.state() == SqlState::UNDEFINED_TABLE => {
                    session.notice(format!("{}, skipping", error.message()));
                    Ok(None)
                }
                Err(error) => Err(error),
            };
        }
        if self.store == "columns" {
            super::rows::lock_tables(session, &[(name.clone(), true)], LockMode::Alone, false).await?;
        }
        let context = session.context_of_newest();
        let found = (Named { snapshot: &context.reads.snapshot, settings: &context.settings }).find(name);
        found.map(|table| Some(Source::Rows(table))).ok_or_else(|| Error::bug("a locked table that is gone"))
    }

    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The definition as a `columns` table.
    fn for_columns(&self, session: &mut Session, table: &RowTable) -> Result<Definition> {
        let schema = &table.schema;
        let name = &schema.name.table;
        hypertable::refuse_relatives(table)?;
        let refused =
            |what: &str| Error::unsupported(format!("table \"{name}\" has {what}, which columns tables do not have"));
        crate::tables::refuse_materialized(session, table)?;
        for (_, column) in schema.shown() {
            if matches!(column.ty, Type::Varchar(Some(_)) | Type::Char(Some(_))) {
                let text =
                    format!("the length of column \"{}\", {}, is not kept in columns tables", column.name, column.ty);
                session.notice(text);
            }
        }
        if schema.name.is_temporary() {
            return Err(Error::unsupported("temporary tables are rows tables"));
        }
        if !schema.triggers.is_empty() {
            return Err(refused("triggers").with_hint("drop them first"));
        }
        if let Some((_, column)) = schema.shown().find(|(_, column)| column.identity.is_some()) {
            return Err(refused("an identity column")
                .with_hint(format!("ALTER COLUMN \"{}\" DROP IDENTITY, and set a default", column.name)));
        }
        let time = self.option("time").map_or_else(|| time_of(schema), |time| Ok(time.to_owned()))?;
        let mut options = Vec::new();
        for (name, value) in &self.options {
            match name.as_str() {
                "time" | "key" => {}
                "partition" | "retention" | "history" | "compression" => {
                    options.push(format!("{name} = {}", quoted_text(value)));
                }
                other => {
                    let text = format!("unrecognized parameter \"{other}\"");
                    let hint =
                        "options of a columns table: store, key, time, partition, compression, retention, history";
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint(hint));
                }
            }
        }
        let layout = Layout { time: &time, key: self.option("key"), options, keeps_sequences: true };
        let definition = hypertable::definition(table, &layout).map_err(|error| match error.state() {
            hypertable::NO_TIME_IN_KEY => {
                let text = format!("a unique index of table \"{name}\" is without its time, column \"{time}\"");
                Error::unsupported(text)
                    .with_hint("in a columns table (key, time) identifies a row: drop the index first")
            }
            _ => error,
        })?;
        for index in schema.secondary.iter().filter(|index| !index.unique) {
            session.notice(format!("index \"{}\" is not needed in a columns table, and is dropped", index.name));
        }
        let catalog = Arc::clone(session.newest().catalog());
        let owned = catalog.sequences().filter(|sequence| sequence.owner.is_some_and(|owner| owner.table == schema.id));
        let released =
            owned.map(|sequence| format!("ALTER SEQUENCE {} OWNED BY NONE", written(&sequence.name))).collect();
        Ok(Definition { table: definition, behind: Vec::new(), released })
    }

    /// The definition as a `rows` table.
    fn for_rows(&self, table: &Table) -> Result<Definition> {
        let name = &table.name.table;
        if let Some((option, _)) = self.options.first() {
            let text = format!("unrecognized parameter \"{option}\"");
            return Err(
                Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint("rows tables have no such option")
            );
        }
        for (option, is_set) in
            [("retention", table.options.retention_ns.is_some()), ("history", table.options.history)]
        {
            if is_set {
                return Err(Error::unsupported(format!(
                    "table \"{name}\" has {option}, which rows tables do not have"
                ))
                .with_hint(format!("ALTER TABLE {name} RESET ({option}) first")));
            }
        }
        let schema = table.as_row_schema();
        let mut parts = Vec::new();
        for column in &schema.columns {
            let default = column.default.as_ref().map_or_else(String::new, |default| format!(" DEFAULT {default}"));
            let not_null = if column.not_null { " NOT NULL" } else { "" };
            parts.push(format!("{} {}{default}{not_null}", quoted_name(&column.name), column.type_sql()));
        }
        parts.extend(schema.checks.iter().map(hypertable::check));
        let time = quoted_name(&table.time_column().name);
        let mut behind = Vec::new();
        if table.keyed {
            let keys = table.key_columns().map(|column| quoted_name(&column.name)).chain([time]);
            let keys = keys.collect::<Vec<_>>().join(", ");
            let is_nullable = table.key_columns().any(|column| column.nullable);
            parts.push(match (is_primary(table), is_nullable) {
                (true, false) => format!("PRIMARY KEY ({keys})"),
                (false, false) => format!("UNIQUE ({keys})"),
                (_, true) => format!("UNIQUE NULLS NOT DISTINCT ({keys})"),
            });
        } else {
            behind.push(format!("CREATE INDEX ON {} ({time})", written(&table.name)));
        }
        let table = format!("({}) WITH (store = 'rows')", parts.join(", "));
        Ok(Definition { table, behind, released: Vec::new() })
    }
}

/// The new table.
struct Definition {
    /// Columns and options.
    table: String,
    /// Statements after the rows are there.
    behind: Vec<String>,
    /// Statements that keep what would be dropped with the old table.
    released: Vec<String>,
}

/// The time column: the last `timestamptz` of the primary key, the column `time`, or the only `timestamptz`.
fn time_of(schema: &RowSchema) -> Result<String> {
    let is_moment = |at: &usize| schema.columns[*at].ty == Type::Timestamptz;
    let of_key = schema.primary.as_ref().and_then(|key| key.columns.iter().copied().rfind(is_moment));
    let moments: Vec<usize> = schema.shown().map(|(at, _)| at).filter(is_moment).collect();
    let named = moments.iter().copied().find(|at| schema.columns[*at].name == "time");
    let only = match moments[..] {
        [only] => Some(only),
        _ => None,
    };
    let found = of_key.or(named).or(only).map(|at| schema.columns[at].name.clone());
    found.ok_or_else(|| {
        let text = format!("which column of table \"{}\" is the time?", schema.name.table);
        Error::new(SqlState::INVALID_TABLE_DEFINITION, text)
            .with_hint("name one of type timestamptz or bigint: SET (store = 'columns', time = '…')")
    })
}

/// Refuses a table that foreign keys of other tables or materialized views refer to.
fn refuse_dependents(session: &mut Session, id: TableId) -> Result<()> {
    let catalog = Arc::clone(session.newest().catalog());
    let refers = |table: &&model::RowSchemaRef| table.id != id && table.foreign_keys.iter().any(|key| key.table == id);
    if let Some(table) = catalog.row_tables().find(refers) {
        let text = format!("a foreign key of table \"{}\" refers to the table", table.name.table);
        return Err(
            Error::unsupported(text).with_hint("columns tables have no foreign keys: drop the constraint first")
        );
    }
    let is_materialized = |view: &&model::ViewRef| view.materialized.is_some() && view.reference(id.0).is_some();
    match catalog.views().find(is_materialized) {
        None => Ok(()),
        Some(view) => Err(Error::unsupported(format!("materialized view \"{}\" reads the table", view.name.table))
            .with_hint("drop it first, and create it again afterwards")),
    }
}

/// Statements that bind the views which read the table again.
async fn views(session: &mut Session, source: &Source) -> Result<Vec<String>> {
    let catalog = Arc::clone(session.newest().catalog());
    let mut statements = Vec::new();
    for view in catalog.dependent_views(&[source.id().0]).iter().filter(|view| view.reference(source.id().0).is_some())
    {
        let oid = of_table(TableId(view.id), Part::Table);
        let query = text(session, &format!("SELECT pg_get_viewdef({oid}::oid)")).await?;
        let query = query.trim_end().trim_end_matches(';').to_owned();
        let columns: Vec<String> = view.columns.iter().map(|column| quoted_name(&column.name)).collect();
        let check = match view.check {
            None => "",
            Some(model::CheckOption::Local) => " WITH LOCAL CHECK OPTION",
            Some(model::CheckOption::Cascaded) => " WITH CASCADED CHECK OPTION",
        };
        let (name, columns) = (written(&view.name), columns.join(", "));
        statements.push(format!("CREATE OR REPLACE VIEW {name} ({columns}) AS {query}{check}"));
    }
    Ok(statements)
}

/// Comments of the table and its columns.
fn comments(session: &mut Session, source: &Source) -> Vec<(Option<String>, String)> {
    let catalog = Arc::clone(session.newest().catalog());
    let object = of_table(source.id(), Part::Table);
    let text = |column| catalog.comment(&CommentKey { class: PG_CLASS, object, column }).map(ToString::to_string);
    let of_table = text(0).map(|text| (None, text));
    let of_column = |(name, number): (&str, u32)| text(number).map(|text| (Some(name.to_owned()), text));
    of_table.into_iter().chain(source.columns().into_iter().filter_map(of_column)).collect()
}

/// Refuses times with nanoseconds, of which a `rows` table keeps the microseconds only.
async fn refuse_nanoseconds(session: &mut Session, table: &Table) -> Result<()> {
    let is_moment = |column: &&model::Column| column.ty == DataType::Timestamp;
    for column in table.columns.iter().filter(is_moment) {
        let (name, relation) = (quoted_name(&column.name), written(&table.name));
        let sql = format!("SELECT count(*) FROM {relation} WHERE epoch_ns({name}) % 1000 <> 0");
        let found = number(session, &sql).await?;
        if found > 0 {
            let text = format!("column \"{}\" has {found} times with nanoseconds", column.name);
            let role = if column.role == ColumnRole::Time { "the time" } else { "the column" };
            return Err(Error::new(SqlState::DATETIME_OVERFLOW, text)
                .with_hint(format!("rows tables have microseconds: round {role} by an UPDATE first")));
        }
    }
    Ok(())
}

async fn count(session: &mut Session, relation: &str) -> Result<i64> {
    number(session, &format!("SELECT count(*) FROM {relation}")).await
}

/// The number that a query gives.
async fn number(session: &mut Session, sql: &str) -> Result<i64> {
    let value = text(session, &format!("SELECT ({sql})::text")).await?;
    value.parse().map_err(Error::bug)
}

/// The text that a query gives.
async fn text(session: &mut Session, sql: &str) -> Result<String> {
    let statement = parse(sql)?.into_iter().next().ok_or_else(|| Error::bug("no statement"))?.without_place();
    let prepared = session.plan_statement(&statement, &[])?;
    let outcome = Box::pin(session.execute(&prepared, &[])).await?;
    let Outcome::Rows { mut batches, .. } = outcome else { return Err(Error::bug("a query without rows")) };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        if batch.num_rows() > 0 {
            let array = batch.column(0);
            return match array.as_string_opt::<i32>() {
                Some(texts) => Ok(texts.value(0).to_owned()),
                None => Ok(array.as_primitive::<Int64Type>().value(0).to_string()),
            };
        }
    }
    Err(Error::bug("a query of a value without one"))
}

/// Runs a generated statement in the transaction.
async fn run(session: &mut Session, sql: &str) -> Result<()> {
    for statement in parse(sql)? {
        // The text is generated, so errors carry no position in it.
        let prepared = session.plan_statement(&statement.without_place(), &[])?;
        Box::pin(session.execute(&prepared, &[])).await?;
    }
    Ok(())
}

fn written(name: &TableName) -> String {
    format!("{}.{}", quoted_name(&name.schema), quoted_name(&name.table))
}
