//! Statements against a small database in memory: expected rows as text.

mod changes;
mod expressions;
mod queries;
mod random;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use env::Event;
use model::{
    Datum, Error, Lsn, Referential, Result, RowCheck, RowColumn, RowForeignKey, RowIndex, RowSchema, SqlState, TableId,
    TableName, Type,
};
use rows::row::{ColumnLayout, RowLayout};
use rows::{IndexData, Isolation, Records, RowTable, Store, Txn};
use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::cast::{Zone, rounded, text_of};
use crate::{Compiled, Ran, Session, Tables, compile, run};

/// Clocks one hour ahead of UTC, all year.
struct East;

const HOUR_MICROS: i64 = 3_600_000_000;

impl Zone for East {
    fn local(&self, micros: i64) -> i64 {
        micros + HOUR_MICROS
    }

    fn moment(&self, local: i64) -> i64 {
        local - HOUR_MICROS
    }

    fn parse(&self, text: &str) -> Result<i64> {
        Ok(rounded(pg::time::parse_timestamp(text)?) - HOUR_MICROS)
    }
}

/// 2026-11-21 12:00:00 UTC.
const NOW: i64 = 1_795_262_400_000_000;

struct Db {
    store: Arc<Store>,
    tables: RefCell<Vec<Arc<RowTable>>>,
    newest: Cell<u64>,
}

impl Tables for Db {
    fn table(&self, name: &TableName) -> Option<Arc<RowTable>> {
        self.tables.borrow().iter().find(|table| table.schema.name == *name).cloned()
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.tables.borrow().iter().find(|table| table.id() == id).cloned()
    }

    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>> {
        let refers = |table: &&Arc<RowTable>| table.schema.foreign_keys.iter().any(|key| key.table == id);
        self.tables.borrow().iter().filter(refers).cloned().collect()
    }
}

/// What became of a statement.
enum Outcome {
    Rows(Vec<String>, u64),
    Wait(Event),
}

impl Outcome {
    fn rows(self) -> Vec<String> {
        match self {
            Outcome::Rows(rows, _) => rows,
            Outcome::Wait(_) => panic!("it waits"),
        }
    }
}

fn parse(sql: &str) -> ast::Statement {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    statements.pop().unwrap()
}

fn type_named(name: &str) -> Type {
    let dialect = PostgreSqlDialect {};
    let parsed = Parser::new(&dialect).try_with_sql(name).unwrap().parse_data_type().unwrap();
    crate::bind::data_type(&parsed).unwrap_or_else(|_| panic!("type {name}"))
}

/// `name type [not null] [default …]`
fn column(text: &str) -> RowColumn {
    let (text, default) = match text.split_once(" default ") {
        Some((text, default)) => (text, Some(default.to_owned())),
        None => (text, None),
    };
    let (text, not_null) = text.strip_suffix(" not null").map_or((text, false), |text| (text, true));
    let (name, ty) = text.split_once(' ').unwrap();
    RowColumn { name: name.into(), ty: type_named(ty), not_null, default, dropped: false }
}

impl Db {
    fn new() -> Db {
        Db { store: Arc::new(Store::new()), tables: RefCell::default(), newest: Cell::new(0) }
    }

    /// Makes a table. Columns as in CREATE TABLE; then its indexes and checks, each by its kind: `primary a, b`, `unique a`,
    /// `index a, b`, `check a > 0`, `references a to table(b)`.
    fn create(&self, name: &str, columns: &[&str], more: &[&str]) {
        let id = TableId(self.tables.borrow().len() as u32 + 1);
        let mut schema = RowSchema {
            id,
            name: TableName::public(name),
            version: 1,
            columns: columns.iter().map(|text| column(text)).collect(),
            primary: None,
            secondary: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
        };
        for (at, one) in more.iter().enumerate() {
            let (kind, rest) = one.split_once(' ').unwrap();
            self.add_to(&mut schema, id.0 * 100 + at as u32, kind, rest);
        }
        let layout: Vec<ColumnLayout<'_>> =
            schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
        let table = RowTable {
            layout: Arc::new(RowLayout::new(&layout).unwrap()),
            records: Arc::new(Records::new()),
            primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
            secondary: schema.secondary.iter().map(|def| Arc::new(IndexData::new(&schema, def))).collect(),
            schema: Arc::new(schema),
        };
        self.tables.borrow_mut().push(Arc::new(table));
    }

    fn add_to(&self, schema: &mut RowSchema, id: u32, kind: &str, rest: &str) {
        let table = schema.name.table.clone();
        if kind == "check" {
            let name = format!("{table}_check");
            return schema.checks.push(RowCheck { name, condition: rest.into() });
        }
        if kind == "references" {
            return self.refer(schema, rest);
        }
        let names: Vec<&str> = rest.split(", ").collect();
        let columns: Vec<usize> = names.iter().map(|name| schema.column(name).unwrap()).collect();
        let def = |suffix: &str, unique| RowIndex {
            id,
            name: format!("{table}_{suffix}"),
            columns: columns.clone(),
            unique,
            constraint: unique,
        };
        match kind {
            "primary" => {
                columns.iter().for_each(|column| schema.columns[*column].not_null = true);
                schema.primary = Some(def("pkey", true));
            }
            "unique" => schema.secondary.push(def(&format!("{}_key", names.join("_")), true)),
            "index" => schema.secondary.push(def(&format!("{}_idx", names.join("_")), false)),
            other => panic!("{other}"),
        }
    }

    /// `columns to parent(columns)`
    fn refer(&self, schema: &mut RowSchema, text: &str) {
        let (columns, parent) = text.split_once(" to ").unwrap();
        let (parent, referred) = parent.trim_end_matches(')').split_once('(').unwrap();
        let positions = |schema: &RowSchema, names: &str| -> Vec<usize> {
            names.split(", ").map(|name| schema.column(name).unwrap()).collect()
        };
        let own = schema.name.table == parent;
        let parent = (!own).then(|| self.table(&TableName::public(parent)).unwrap());
        let of = parent.as_ref().map_or(&*schema, |parent| &parent.schema);
        let key = RowForeignKey {
            name: format!("{}_fkey", schema.name.table),
            columns: positions(schema, columns),
            table: of.id,
            referred: positions(of, referred),
            on_delete: Referential::NoAction,
            on_update: Referential::NoAction,
        };
        schema.foreign_keys.push(key);
    }

    fn begin(&self, isolation: Isolation) -> Txn {
        let mut txn = self.store.begin(isolation);
        txn.set_snapshot(Lsn(self.newest.get()));
        txn
    }

    fn commit(&self, txn: Txn) {
        self.newest.set(self.newest.get() + 1);
        txn.commit(Lsn(self.newest.get()), &crossbeam_epoch::pin()).unwrap();
    }

    fn compile(&self, sql: &str) -> Result<Compiled> {
        compile(&parse(sql), self, &[])?.ok_or_else(|| Error::unsupported("another tier's"))
    }

    /// Runs a statement as a session would, once; what it did is undone where it fails or waits.
    fn run(&self, txn: &mut Txn, sql: &str, params: &[Datum<'_>]) -> Result<Outcome> {
        let compiled = self.compile(sql)?;
        let guard = &crossbeam_epoch::pin();
        let savepoint = txn.savepoint();
        let mut rows = Vec::new();
        let types: Vec<Type> = compiled.columns().iter().map(|column| column.ty).collect();
        let session = Session { now: NOW, zone: &East };
        let ran = run(&compiled, txn, params, session, guard, &mut |row| {
            assert_eq!(row.len(), types.len(), "{sql}");
            rows.push(row.iter().zip(&types).map(|(value, ty)| shown(value, *ty)).collect::<Vec<_>>().join("|"));
            Ok(())
        });
        match ran {
            Ok(Ran::Done { rows: count }) => Ok(Outcome::Rows(rows, count)),
            Ok(Ran::Wait(event)) => {
                txn.undo_to(savepoint, guard).unwrap();
                Ok(Outcome::Wait(event))
            }
            Err(error) => {
                txn.undo_to(savepoint, guard).unwrap();
                Err(error)
            }
        }
    }

    /// In a transaction of its own.
    fn try_sql(&self, sql: &str, params: &[Datum<'_>]) -> Result<(Vec<String>, u64)> {
        let mut txn = self.begin(Isolation::ReadCommitted);
        match self.run(&mut txn, sql, params)? {
            Outcome::Rows(rows, count) => {
                self.commit(txn);
                Ok((rows, count))
            }
            Outcome::Wait(_) => panic!("{sql}: waits"),
        }
    }

    fn sql(&self, sql: &str) -> Vec<String> {
        self.try_sql(sql, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}")).0
    }

    fn error(&self, sql: &str) -> String {
        match self.try_sql(sql, &[]) {
            Ok((rows, _)) => panic!("{sql}: {rows:?}"),
            Err(error) => match error.detail() {
                Some(detail) => format!("{} {} ({detail})", error.state(), error.message()),
                None => format!("{} {}", error.state(), error.message()),
            },
        }
    }

    /// Each statement, and its rows: one a line, values between bars.
    fn check(&self, cases: &[(&str, &str)]) {
        for (sql, expected) in cases {
            let expected: Vec<&str> = expected.lines().collect();
            assert_eq!(self.sql(sql), expected, "{sql}");
        }
    }
}

/// A value as a client sees it in text, of a type that it must have.
fn shown(value: &Datum<'_>, ty: Type) -> String {
    if value.is_null() {
        return "null".into();
    }
    let fits = match ty {
        Type::Varchar(_) | Type::Char(_) | Type::Json => "text",
        ty => ty.sql_name(),
    };
    assert_eq!(value.type_name(), fits, "{value:?}");
    let text = text_of(value, &East);
    format!("{text}{}", " ".repeat(ty.padding(&text)))
}

fn state(result: Result<Outcome>) -> SqlState {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.state(),
    }
}
