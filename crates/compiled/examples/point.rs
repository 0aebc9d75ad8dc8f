//! What a compiled statement costs: nanoseconds per point SELECT, point UPDATE and range of ten rows, one thread, no log.
//!
//! `cargo run --release -p compiled --example point`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use compiled::{Compiled, Output, Ran, Session, Tables, Zone, compile, run};
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, TableId, TableName, Type};
use rows::row::{ColumnLayout, RowLayout};
use rows::{IndexData, Isolation, Records, RowTable, Store};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: i32 = 100_000;
const RUNS: i32 = 500_000;

struct Utc;

impl Zone for Utc {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn parse(&self, _: &str) -> Result<i64> {
        Err(Error::unsupported("no moments here"))
    }
}

struct One(Arc<RowTable>);

impl Tables for One {
    fn table(&self, _: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        (self.0.schema.name.table == name).then(|| Arc::clone(&self.0))
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        (self.0.id() == id).then(|| Arc::clone(&self.0))
    }

    fn referring(&self, _: TableId) -> Vec<Arc<RowTable>> {
        Vec::new()
    }
}

/// A table like pgbench's accounts.
fn table() -> Result<Arc<RowTable>> {
    let column =
        |name: &str, ty, not_null| RowColumn { name: name.into(), ty, not_null, default: None, dropped: false };
    let primary = RowIndex { id: 1, name: "t_pkey".into(), columns: vec![0], unique: true, constraint: true };
    let schema = RowSchema {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        columns: vec![
            column("id", Type::Int4, true),
            column("branch", Type::Int4, false),
            column("balance", Type::Int4, false),
            column("filler", Type::Char(Some(84)), false),
        ],
        primary: Some(primary),
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
    };
    let columns: Vec<ColumnLayout<'_>> =
        schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::new(&columns)?),
        records: Arc::new(Records::new()),
        primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
        secondary: Vec::new(),
        schema: Arc::new(schema),
    }))
}

fn compiled(sql: &str, tables: &One) -> Result<Compiled> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| Error::bug(error.to_string()))?;
    let statement = parsed.first().ok_or_else(|| Error::bug("no statement"))?;
    compile(statement, tables, &[])?.ok_or_else(|| Error::unsupported(sql))
}

/// Runs a statement in transactions of its own, one commit a run if it writes, and says what a run took.
fn measure(name: &str, sql: &str, tables: &One, store: &Arc<Store>, lsn: &mut u64, writes: bool) -> Result<()> {
    let statement = compiled(sql, tables)?;
    let session = Session { check: &|| Ok(()), now: 0, zone: &Utc };
    let columns: &[Output] = statement.columns();
    let started = Instant::now();
    let mut rows = 0_u64;
    for at in 0..RUNS {
        let guard = &crossbeam_epoch::pin();
        let mut txn = store.begin(Isolation::ReadCommitted);
        txn.set_snapshot(Lsn(*lsn));
        // Spread over the table, so that neighbours are not in the cache.
        let id = (i64::from(at) * 7_919 % i64::from(ROWS - 10)) as i32;
        let ran = run(&statement, &mut txn, &[Datum::Int4(id)], session, guard, &mut |row| {
            black_box((row, columns));
            Ok(())
        })?;
        let Ran::Done { rows: count } = ran else { return Err(Error::bug("it waits")) };
        rows += count;
        if writes {
            *lsn += 1;
            txn.commit(Lsn(*lsn), guard)?;
            if at % 1_000 == 0 {
                store.collect(Lsn(*lsn), 2_000)?;
            }
        }
    }
    let nanos = started.elapsed().as_nanos() / u128::from(RUNS.unsigned_abs());
    println!("{name}: {nanos} ns, {} rows a run", rows / u64::from(RUNS.unsigned_abs()));
    Ok(())
}

fn load(tables: &One, store: &Arc<Store>, lsn: &mut u64) -> Result<()> {
    let insert = compiled("INSERT INTO t VALUES ($1, $1 % 10, 0, 'x')", tables)?;
    let session = Session { check: &|| Ok(()), now: 0, zone: &Utc };
    for id in 0..ROWS {
        let guard = &crossbeam_epoch::pin();
        let mut txn = store.begin(Isolation::ReadCommitted);
        run(&insert, &mut txn, &[Datum::Int4(id)], session, guard, &mut |_| Ok(()))?;
        *lsn += 1;
        txn.commit(Lsn(*lsn), guard)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let tables = One(table()?);
    let store = Arc::new(Store::new());
    let mut lsn = 0;
    let started = Instant::now();
    load(&tables, &store, &mut lsn)?;
    println!("insert: {} ns", started.elapsed().as_nanos() / u128::from(ROWS.unsigned_abs()));
    let point = "SELECT balance FROM t WHERE id = $1";
    let update = "UPDATE t SET balance = balance + 1 WHERE id = $1";
    let range = "SELECT id, balance FROM t WHERE id >= $1 ORDER BY id LIMIT 10";
    measure("point select", point, &tables, &store, &mut lsn, false)?;
    measure("point update and commit", update, &tables, &store, &mut lsn, true)?;
    measure("range of 10", range, &tables, &store, &mut lsn, false)
}
