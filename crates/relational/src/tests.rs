//! Queries give the rows that PostgreSQL gives. A line of `queries.tsv` is a query and, behind a tab, PostgreSQL's answer:
//! fields separated by `|`, rows by `; `, or `!` and the code of an error. `tables.tsv` has the tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema};
use binder::tree::{Table, TableColumn};
use bumpalo::Bump;
use catalog::{TypeId, builtin};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::prelude::{SessionConfig, SessionContext};
use model::{Datum, Error, Result};
use parser::ast::Statement;
use scalar::{Context, Session};

use crate::arrow::{Builder, arrow_type, datum};
use crate::errors::OrError;
use crate::functions::Planner;
use crate::lower::lower;
use crate::{Environment, TableSource};

/// Rows of the batches of tables, few so that operators see several.
const TABLE_BATCH_ROWS: usize = 3;

struct Database {
    tables: BTreeMap<String, (Arc<Table>, Arc<MemTable>)>,
    session: Arc<Session>,
}

impl binder::Schema for Database {
    fn table(&self, _: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.tables.get(name).map(|(table, _)| Arc::clone(table)))
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

impl Environment for Database {
    fn table(&self, table: &Table, _: Option<i64>, _: &dyn Fn(&str) -> bool) -> Result<TableSource> {
        let (_, rows) = self.tables.get(&*table.name).ok_or_else(|| Error::bug("no such table"))?;
        Ok(TableSource::of(Arc::clone(rows) as Arc<_>))
    }

    fn is_text(&self, _: TypeId) -> bool {
        false
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }
}

fn database() -> Database {
    let session = Arc::new(Session::default());
    let mut tables = BTreeMap::new();
    let parts = include_str!("../testdata/tables.tsv").split('=').filter(|part| !part.is_empty());
    for (oid, part) in (16_384..).zip(parts) {
        // A value with the separator would be cut.
        let mut lines = part.lines();
        let mut head = lines.next().unwrap().split('\t');
        let name = head.next().unwrap().to_owned();
        let columns: Vec<TableColumn> = head
            .map(|column| {
                let (name, ty) = column.split_once(' ').unwrap();
                let ty = match ty.strip_suffix("[]") {
                    Some(element) => builtin().array_of(builtin().type_named(element).unwrap()).unwrap(),
                    None => builtin().type_named(ty).unwrap(),
                };
                TableColumn { name: name.into(), ty, typmod: -1, ..TableColumn::default() }
            })
            .collect();
        let rows: Vec<Vec<&str>> = lines.map(|line| line.split('\t').collect()).collect();
        let (schema, shown) = ("public".into(), name.clone().into());
        let table = Table { oid, schema, name: shown, columns, ..Table::default() };
        tables.insert(name, (Arc::new(table.clone()), Arc::new(rows_of(&table, &rows, &session))));
    }
    Database { tables, session }
}

fn rows_of(table: &Table, rows: &[Vec<&str>], session: &Session) -> MemTable {
    let zone: Arc<str> = session.zone_name.as_str().into();
    let field = |column: &TableColumn| Field::new(&*column.name, arrow_type(column.ty, &zone), true);
    let schema = Arc::new(ArrowSchema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
    let mut partitions = vec![Vec::new(), Vec::new()];
    for (at, rows) in rows.chunks(TABLE_BATCH_ROWS).enumerate() {
        let arena = Bump::new();
        let ctx = Context { arena: &arena, session };
        let column = |(at, column): (usize, &TableColumn)| {
            let mut builder = Builder::new(column.ty, &zone, rows.len());
            for row in rows {
                let value = match row[at] {
                    "\\N" => Datum::Null,
                    text => scalar::input(text, column.ty, -1, &ctx).unwrap(),
                };
                builder.push(&value).unwrap();
            }
            builder.finish()
        };
        let columns = table.columns.iter().enumerate().map(column).collect();
        partitions[at % 2].push(RecordBatch::try_new(Arc::clone(&schema), columns).unwrap());
    }
    MemTable::try_new(schema, partitions).unwrap()
}

fn state(partitions: usize) -> SessionState {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(2);
    // Rows stay in their order, as in crate `query`.
    let config = config.with_round_robin_repartition(false);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    builder.with_query_planner(Arc::new(Planner)).build()
}

async fn answer(database: &Database, state: &SessionState, sql: &str) -> Result<Vec<String>> {
    let parsed = parser::parse_all(sql)?;
    let Some(Statement::Query(query)) = parsed.first().map(|one| &one.statement) else { panic!("no query: {sql}") };
    let bound = binder::bind(database, sql, query, &[])?;
    let plan = lower(&bound, database)?;
    let context = SessionContext::new_with_state(state.clone());
    let frame = context.execute_logical_plan(plan).await.or_error()?;
    let batches = frame.collect().await.or_error()?;
    let types: Vec<TypeId> = bound.output.iter().map(|output| output.ty).collect();
    let arena = Bump::new();
    let ctx = Context { arena: &arena, session: &database.session };
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for (at, (column, ty)) in batch.columns().iter().zip(&types).enumerate() {
                if at > 0 {
                    line.push('|');
                }
                if datafusion::arrow::array::Array::is_null(column, row) {
                    line.push_str("\\N");
                }
                // Values without an Arrow type of their own are texts already.
                let is_text = *datafusion::arrow::array::Array::data_type(column) == arrow_schema::DataType::Utf8;
                let ty = if is_text { TypeId::TEXT } else { *ty };
                scalar::output(&datum(column.as_ref(), row, ty)?, ty, &ctx, &mut line)?;
            }
            rows.push(line);
        }
    }
    Ok(rows)
}

/// Lines whose answers differ, for a session of some partitions.
fn wrong(partitions: usize) -> Vec<String> {
    let database = database();
    let state = state(partitions);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut wrong = Vec::new();
    for line in include_str!("../testdata/queries.tsv").lines() {
        let (sql, expected) = line.split_once('\t').expect("a query and its answer");
        let seen = match runtime.block_on(answer(&database, &state, sql)) {
            Ok(mut rows) => {
                let mut wanted: Vec<&str> = expected.split("; ").filter(|row| !row.is_empty()).collect();
                if !sql.contains("ORDER BY") {
                    rows.sort();
                    wanted.sort_unstable();
                }
                rows.retain(|row| !row.is_empty());
                if rows == wanted {
                    continue;
                }
                rows.join("; ")
            }
            Err(error) if expected == format!("!{}", error.state()) => continue,
            Err(error) => format!("!{} {} {}", error.state(), error.message(), error.detail().unwrap_or_default()),
        };
        wrong.push(format!("{sql}\n  is   {expected}\n  here {seen}"));
    }
    wrong
}

#[test]
fn queries_give_the_rows_of_postgresql_in_one_partition() {
    let wrong = wrong(1);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn queries_give_the_rows_of_postgresql_in_several_partitions() {
    let wrong = wrong(4);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_volatile_query_of_with_is_read_once() {
    let (database, state) = (database(), state(1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let once = "WITH q AS (SELECT clock_timestamp() AS x) SELECT count(*) FROM q";
    assert_eq!(runtime.block_on(answer(&database, &state, once)).unwrap(), ["1"]);
    for twice in [
        "WITH q AS (SELECT clock_timestamp() AS x) SELECT count(*) FROM (SELECT * FROM q UNION SELECT * FROM q) s",
        "WITH q AS (SELECT clock_timestamp() AS x), r AS (SELECT x FROM q) SELECT count(*) FROM r, r AS s",
    ] {
        let error = runtime.block_on(answer(&database, &state, twice)).unwrap_err();
        assert!(error.message().contains("read more than once"), "{error}");
    }
}

/// Bug: two portals of one prepared statement had each other's outer rows. Fix: such plans are made for each execution.
#[test]
fn plans_that_hold_outer_rows_serve_one_execution() {
    let database = database();
    for (sql, is_shared) in [
        ("SELECT (SELECT max(x) FROM (VALUES (1)) t(x) WHERE x = y) FROM (VALUES (1), (2)) v(y)", false),
        ("SELECT * FROM (VALUES (1)) v(y), LATERAL (SELECT max(x) + y FROM (VALUES (1)) t(x)) s", false),
        ("SELECT y FROM (VALUES (1)) v(y) WHERE y > (SELECT avg(x) FROM (VALUES (1)) t(x) WHERE x < y)", false),
        ("SELECT (SELECT max(x) FROM (VALUES (1)) t(x)) FROM (VALUES (1), (2)) v(y)", true),
        ("SELECT y FROM (VALUES (1)) v(y) WHERE y IN (SELECT x FROM (VALUES (1)) t(x))", true),
    ] {
        let parsed = parser::parse_all(sql).unwrap();
        let Some(Statement::Query(query)) = parsed.first().map(|one| &one.statement) else { panic!("no query: {sql}") };
        let bound = binder::bind(&database, sql, query, &[]).unwrap();
        assert_eq!(crate::Plan::new(&bound, &database).unwrap().is_shared(), is_shared, "{sql}");
    }
}
