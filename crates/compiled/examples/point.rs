//! Cost of compiled statements: nanoseconds of processor time for each run, on one thread, without a log. Each run
//! is its own transaction.
//!
//! `cargo run --release -p compiled --example point -- [start of a name] [runs]`

use std::hint::black_box;
use std::sync::Arc;

use binder::tree::{Table, TableColumn};
use catalog::TypeId;
use compiled::{Compiled, Lowered, Ran, Session, Tables, Zone, prepare, prepare_change, run};
use model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, SequenceRef, TableId, TableName, Type};
use parser::ast;
use rows::row::{ColumnLayout, RowLayout};
use rows::{IndexData, Isolation, Readers, Records, RowTable, Store};

/// The same allocator as in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The start of the names to measure, and the number of runs.
struct Options {
    start: String,
    runs: u32,
}

struct Utc(scalar::Session);

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

    fn facts(&self) -> Option<&scalar::Session> {
        Some(&self.0)
    }
}

/// TPC-C's tables stock, with one of its ten text columns, item and warehouse.
struct Stock {
    tables: Vec<Arc<RowTable>>,
    store: Arc<Store>,
    newest: u64,
    rows: u32,
    zone: Utc,
}

impl Tables for Stock {
    fn table(&self, _: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        self.tables.iter().find(|table| table.schema.name.table == name).cloned()
    }

    fn sequence(&self, _: Option<&str>, _: &str) -> Option<SequenceRef> {
        None
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.tables.iter().find(|table| table.id() == id).cloned()
    }

    fn referring(&self, _: TableId) -> Vec<Arc<RowTable>> {
        Vec::new()
    }
}

impl binder::Schema for Stock {
    fn table(&self, schema: Option<&str>, name: &str) -> Result<Option<Arc<Table>>> {
        let Some(table) = Tables::table(self, schema, name) else { return Ok(None) };
        let columns = table.schema.columns.iter().map(|column| TableColumn {
            name: column.name.as_str().into(),
            ty: TypeId(column.ty.oid()),
            typmod: column.ty.typmod(),
            not_null: column.not_null,
            ..TableColumn::default()
        });
        Ok(Some(Arc::new(Table {
            oid: table.id().0,
            schema: "public".into(),
            name: name.into(),
            columns: columns.collect(),
            primary_key: table.schema.primary.iter().flat_map(|key| &key.columns).copied().collect(),
            ..Table::default()
        })))
    }

    fn session(&self) -> &scalar::Session {
        &self.zone.0
    }
}

/// A table whose first `key` columns are its primary key.
fn table(id: u32, name: &str, columns: &[(&str, Type)], key: usize) -> Result<Arc<RowTable>> {
    let column = |(name, ty): &(&str, Type)| RowColumn::new(*name, *ty);
    let mut columns: Vec<RowColumn> = columns.iter().map(column).collect();
    columns[..key].iter_mut().for_each(|column| column.not_null = true);
    let columns_of_key = (0..key).collect();
    let primary = RowIndex {
        id,
        name: format!("{name}_pkey"),
        columns: columns_of_key,
        unique: true,
        constraint: true,
        ..RowIndex::default()
    };
    let schema = RowSchema {
        id: TableId(id),
        name: TableName::public(name),
        version: 1,
        lineage: model::Lineage::default(),
        columns,
        primary: Some(primary),
        secondary: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        triggers: Vec::new(),
        replica_identity: model::ReplicaIdentity::default(),
    };
    let layout: Vec<ColumnLayout<'_>> =
        schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
    Ok(Arc::new(RowTable {
        layout: Arc::new(RowLayout::new(&layout)?),
        records: Arc::new(Records::new()),
        primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
        secondary: Vec::new(),
        schema: Arc::new(schema),
        derived: rows::Derived::default(),
    }))
}

fn tables() -> Result<Vec<Arc<RowTable>>> {
    let stock = [
        ("s_w_id", Type::Int4),
        ("s_i_id", Type::Int4),
        ("s_quantity", Type::Int4),
        ("s_dist_01", Type::Char(Some(24))),
        ("s_ytd", Type::Int4),
        ("s_order_cnt", Type::Int4),
        ("s_remote_cnt", Type::Int4),
        ("s_data", Type::Varchar(Some(50))),
    ];
    let item = [
        ("i_id", Type::Int4),
        ("i_im_id", Type::Int4),
        ("i_name", Type::Varchar(Some(24))),
        ("i_price", Type::Numeric(None)),
        ("i_data", Type::Varchar(Some(50))),
    ];
    let warehouse = [("w_id", Type::Int4), ("w_name", Type::Varchar(Some(10))), ("w_tax", Type::Numeric(None))];
    Ok(vec![table(1, "stock", &stock, 2)?, table(2, "item", &item, 1)?, table(3, "warehouse", &warehouse, 1)?])
}

/// Processor time of this thread in nanoseconds; independent of other processes.
fn spent() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|error| Error::bug(error.to_string()))?;
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).ok_or_else(|| Error::bug("no number"))
}

fn parsed(sql: &str) -> Result<ast::Statement> {
    let parsed = parser::parse_all(sql)?.pop();
    parsed.map(|one| one.statement).ok_or_else(|| Error::bug("no statement"))
}

impl Options {
    /// Repeats a function and prints the time for each call.
    fn measure(&self, name: &str, mut each: impl FnMut(u32) -> Result<()>) -> Result<()> {
        if !name.starts_with(&self.start) {
            return Ok(());
        }
        let before = spent()?;
        for at in 0..self.runs {
            each(at)?;
        }
        println!("  {name}: {} ns", (spent()? - before) / u64::from(self.runs));
        Ok(())
    }

    fn measure_compilation(&self, stock: &Stock, name: &str, sql: &str) -> Result<()> {
        let tree = parsed(sql)?;
        self.measure(&format!("parsing the {name}"), |_| parsed(sql).map(|parsed| drop(black_box(parsed))))?;
        self.measure(&format!("compiling the {name}"), |_| {
            stock.lowered(sql, &tree).map(|compiled| drop(black_box(compiled)))
        })
    }
}

impl Stock {
    fn new(rows: u32) -> Result<Stock> {
        let zone = Utc(scalar::Session::default());
        let mut stock = Stock { tables: tables()?, store: Arc::new(Store::default()), newest: 0, rows, zone };
        let inserts = [
            "INSERT INTO stock VALUES (1, $1, 50, 'text of twenty-four char', 0, 0, 0, 'more text')",
            "INSERT INTO item VALUES ($1, 7, 'name of the item', 12.34, 'data of the item')",
        ];
        for sql in inserts {
            let insert = stock.compiled(sql)?;
            for item in 0..rows {
                stock.run(&insert, &[Datum::Int4(item as i32)], true)?;
            }
        }
        let insert = stock.compiled("INSERT INTO warehouse VALUES (1, 'first', 0.1)")?;
        stock.run(&insert, &[], true)?;
        Ok(stock)
    }

    fn compiled(&self, sql: &str) -> Result<Compiled> {
        self.lowered(sql, &parsed(sql)?)
    }

    fn lowered(&self, sql: &str, parsed: &ast::Statement) -> Result<Compiled> {
        let lowered = match parsed {
            ast::Statement::Query(query) => prepare(sql, query, self, self, &[])?,
            change => prepare_change(sql, change, self, self, &[])?,
        };
        match lowered {
            Lowered::Plan(compiled) => Ok(*compiled),
            Lowered::Refused(why) => Err(Error::unsupported(why.reason)),
        }
    }

    /// Runs a statement in its own transaction; commits if it writes.
    fn run(&mut self, statement: &Compiled, params: &[Datum<'_>], writes: bool) -> Result<u64> {
        let guard = &crossbeam_epoch::pin();
        let mut txn = self.store.begin(Isolation::ReadCommitted);
        txn.set_snapshot(Lsn(self.newest));
        let session = Session { check: &|_| Ok(()), now: 0, zone: &self.zone, numbers: None };
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

/// Queries with the parameters warehouse and item.
const QUERIES: [(&str, &str); 6] = [
    ("point select", "SELECT s_quantity, s_dist_01 FROM stock WHERE s_w_id = $1 AND s_i_id = $2"),
    (
        "range of ten",
        "SELECT s_i_id, s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id >= $2 ORDER BY s_i_id LIMIT 10",
    ),
    (
        "join of three",
        "SELECT s_quantity, i_name, i_price, w_name
            FROM stock JOIN item ON i_id = s_i_id JOIN warehouse ON w_id = s_w_id
            WHERE s_w_id = $1 AND s_i_id BETWEEN $2 AND $2 + 4 ORDER BY s_i_id",
    ),
    (
        "sums of a hundred",
        "SELECT s_quantity, count(*), sum(s_ytd), avg(s_order_cnt) FROM stock
            WHERE s_w_id = $1 AND s_i_id BETWEEN $2 AND $2 + 99 AND s_data LIKE 'more%' GROUP BY s_quantity",
    ),
    (
        "texts of a hundred",
        "SELECT upper(s_data), length(s_dist_01), substring(s_data, 2, 3), s_data || 'x', lower(s_dist_01) FROM stock
            WHERE s_w_id = $1 AND s_i_id BETWEEN $2 AND $2 + 99",
    ),
    (
        "numbers of a hundred",
        "SELECT abs(s_quantity - 70), round(i_price * 1.1, 1), mod(s_i_id, 7), coalesce(s_ytd, 0) + 1, i_price::float8
            FROM stock JOIN item ON i_id = s_i_id WHERE s_w_id = $1 AND s_i_id BETWEEN $2 AND $2 + 99",
    ),
];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let start = args.next().unwrap_or_default();
    let runs = args.next().and_then(|runs| runs.parse().ok()).unwrap_or(100_000);
    let options = Options { start, runs };
    let update = "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + $3 WHERE s_w_id = $4 AND s_i_id = $5";
    let one = Datum::Int4(1);
    for rows in [1_000, 100_000] {
        println!("{rows} rows");
        let mut stock = Stock::new(rows)?;
        options.measure("a transaction that does nothing", |_| {
            let guard = &crossbeam_epoch::pin();
            black_box((stock.store.begin(Isolation::ReadCommitted), guard));
            Ok(())
        })?;
        for (name, sql) in QUERIES {
            let statement = stock.compiled(sql)?;
            options.measure(name, |at| {
                let item = stock.item(at);
                black_box(stock.run(&statement, &[one.clone(), item], false)?);
                Ok(())
            })?;
        }
        let statement = stock.compiled(update)?;
        options.measure("update of four columns, and commit", |at| {
            let params =
                [Datum::Int4(at as i32 % 90 + 10), Datum::Int4(5), Datum::Int4(0), one.clone(), stock.item(at)];
            black_box(stock.run(&statement, &params, true)?);
            Ok(())
        })?;
    }
    println!("compilation");
    let stock = Stock::new(20)?;
    for (name, sql) in QUERIES[..3].iter().chain(&[("update", update)]) {
        options.measure_compilation(&stock, name, sql)?;
    }
    for count in [1, 100, 10_000] {
        let rows: Vec<String> = (0..count).map(|row| format!("(1, {row}, 50, 'text', 0, -1, 0, 'more')")).collect();
        let sql = format!("INSERT INTO stock VALUES {}", rows.join(", "));
        let options = Options { start: options.start.clone(), runs: (runs / count).max(1) };
        options.measure_compilation(&stock, &format!("insert of {count} rows"), &sql)?;
    }
    Ok(())
}
