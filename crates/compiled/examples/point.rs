//! Cost of compiled statements: nanoseconds of processor time for each run, on one thread, without a log. Each run
//! is its own transaction.
//!
//! `cargo run --release -p compiled --example point`

use std::hint::black_box;
use std::sync::Arc;

use compiled::{Compiled, Ran, Session, Tables, Zone, compile, run};
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, SequenceRef, TableId, TableName, Type};
use rows::row::{ColumnLayout, RowLayout};
use rows::{IndexData, Isolation, Readers, Records, RowTable, Store};
use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// The same allocator as in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: u32 = 300_000;

struct Utc;

impl Zone for Utc {
    fn local(&self, micros: i64) -> i64 {
        micros
    }

    fn moment(&self, local: i64) -> i64 {
        local
    }

    fn input(&self, _: &str, _: Type) -> Result<Datum<'static>> {
        Err(Error::unsupported("no moments here"))
    }
}

/// TPC-C's stock table, with one of its ten text columns.
struct Stock {
    table: Arc<RowTable>,
    store: Arc<Store>,
    newest: u64,
    rows: u32,
}

impl Tables for Stock {
    fn table(&self, _: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        (self.table.schema.name.table == name).then(|| Arc::clone(&self.table))
    }

    fn sequence(&self, _: Option<&str>, _: &str) -> Option<SequenceRef> {
        None
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        (self.table.id() == id).then(|| Arc::clone(&self.table))
    }

    fn referring(&self, _: TableId) -> Vec<Arc<RowTable>> {
        Vec::new()
    }
}

fn table() -> Result<Arc<RowTable>> {
    let column = |(name, ty): &(&str, Type)| RowColumn::new(*name, *ty);
    let columns = [
        ("s_w_id", Type::Int4),
        ("s_i_id", Type::Int4),
        ("s_quantity", Type::Int4),
        ("s_dist_01", Type::Char(Some(24))),
        ("s_ytd", Type::Int4),
        ("s_order_cnt", Type::Int4),
        ("s_remote_cnt", Type::Int4),
        ("s_data", Type::Varchar(Some(50))),
    ];
    let mut columns: Vec<RowColumn> = columns.iter().map(column).collect();
    columns[..2].iter_mut().for_each(|column| column.not_null = true);
    let primary = RowIndex { id: 1, name: "stock_pkey".into(), columns: vec![0, 1], unique: true, constraint: true };
    let schema = RowSchema {
        id: TableId(1),
        name: TableName::public("stock"),
        version: 1,
        columns,
        primary: Some(primary),
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
    };
    let layout: Vec<ColumnLayout<'_>> =
        schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::new(&layout)?),
        records: Arc::new(Records::new()),
        primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
        secondary: Vec::new(),
        schema: Arc::new(schema),
    }))
}

fn parsed(sql: &str) -> Result<Statement> {
    let mut parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| Error::bug(error.to_string()))?;
    parsed.pop().ok_or_else(|| Error::bug("no statement"))
}

/// Processor time of this thread in nanoseconds; independent of other processes.
fn spent() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|error| Error::bug(error.to_string()))?;
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).ok_or_else(|| Error::bug("no number"))
}

/// Repeats a function and prints the time for each call.
fn measure(name: &str, mut each: impl FnMut(u32) -> Result<()>) -> Result<()> {
    let before = spent()?;
    for at in 0..RUNS {
        each(at)?;
    }
    println!("{name}: {} ns", (spent()? - before) / u64::from(RUNS));
    Ok(())
}

impl Stock {
    fn new(rows: u32) -> Result<Stock> {
        let mut stock = Stock { table: table()?, store: Arc::new(Store::new()), newest: 0, rows };
        let insert =
            stock.compiled("INSERT INTO stock VALUES (1, $1, 50, 'text of twenty-four char', 0, 0, 0, 'more text')")?;
        for item in 0..rows {
            stock.run(&insert, &[Datum::Int4(item as i32)], true)?;
        }
        Ok(stock)
    }

    fn compiled(&self, sql: &str) -> Result<Compiled> {
        compile(&parsed(sql)?, self, &[])?.ok_or_else(|| Error::unsupported(sql))
    }

    /// Runs a statement in its own transaction; commits if it writes.
    fn run(&mut self, statement: &Compiled, params: &[Datum<'_>], writes: bool) -> Result<u64> {
        let guard = &crossbeam_epoch::pin();
        let mut txn = self.store.begin(Isolation::ReadCommitted);
        txn.set_snapshot(Lsn(self.newest));
        let session = Session { check: &|_| Ok(()), now: 0, zone: &Utc, numbers: None };
        let ran = run(statement, &mut txn, params, session, guard, &mut |row| {
            black_box(row);
            Ok(())
        })?;
        let Ran::Done { rows } = ran else { return Err(Error::bug("it waits")) };
        if writes {
            self.newest += 1;
            txn.prepare(guard)?;
            txn.commit(Lsn(self.newest), guard);
            if self.newest.is_multiple_of(1_000) {
                self.store.collect(&Readers::since(Lsn(self.newest)), 2_000)?;
            }
        }
        Ok(rows)
    }

    /// A pseudo-random item number, far from the previous one.
    fn item(&self, at: u32) -> Datum<'static> {
        Datum::Int4((u64::from(at) * 7_919 % u64::from(self.rows - 10)) as i32)
    }
}

fn main() -> Result<()> {
    let point = "SELECT s_quantity, s_dist_01 FROM stock WHERE s_w_id = $1 AND s_i_id = $2";
    let update = "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + $3 WHERE s_w_id = $4 AND s_i_id = $5";
    let range = "SELECT s_i_id, s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id >= $2 ORDER BY s_i_id LIMIT 10";
    let one = Datum::Int4(1);
    for rows in [1_000, 100_000] {
        println!("{rows} rows");
        let mut stock = Stock::new(rows)?;
        measure("  a transaction that does nothing", |_| {
            let guard = &crossbeam_epoch::pin();
            black_box((stock.store.begin(Isolation::ReadCommitted), guard));
            Ok(())
        })?;
        let statement = stock.compiled(point)?;
        measure("  point select", |at| {
            let item = stock.item(at);
            black_box(stock.run(&statement, &[one.clone(), item], false)?);
            Ok(())
        })?;
        let statement = stock.compiled(range)?;
        measure("  range of ten", |at| {
            let item = stock.item(at);
            black_box(stock.run(&statement, &[one.clone(), item], false)?);
            Ok(())
        })?;
        let statement = stock.compiled(update)?;
        measure("  update of four columns, and commit", |at| {
            let params =
                [Datum::Int4(at as i32 % 90 + 10), Datum::Int4(5), Datum::Int4(0), one.clone(), stock.item(at)];
            black_box(stock.run(&statement, &params, true)?);
            Ok(())
        })?;
    }
    let (stock, sql) = (Stock::new(20)?, parsed(update)?);
    measure("compiling the update", |_| compile(&sql, &stock, &[]).map(|compiled| drop(black_box(compiled))))?;
    measure("parsing the update", |_| parsed(update).map(|parsed| drop(black_box(parsed))))
}
