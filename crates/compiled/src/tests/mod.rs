//! Statements against a small database in memory: expected rows as text.

mod changes;
mod expressions;
mod golden;
mod isolation;
mod programs;
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
    /// How often statements may ask whether to go on; then they may not.
    questions: Cell<u32>,
}

impl Tables for Db {
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        let name = TableName { schema: schema.unwrap_or("public").into(), table: name.into() };
        self.tables.borrow().iter().find(|table| table.schema.name == name).cloned()
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

fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
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
    RowColumn { not_null, default, ..RowColumn::new(name, type_named(ty)) }
}

/// An empty table.
fn table_of(schema: RowSchema) -> Arc<RowTable> {
    let layout: Vec<ColumnLayout<'_>> =
        schema.columns.iter().map(|column| ColumnLayout::new(column.ty, column.not_null)).collect();
    Arc::new(RowTable {
        layout: Arc::new(RowLayout::new(&layout).unwrap()),
        records: Arc::new(Records::new()),
        primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
        secondary: schema.secondary.iter().map(|def| Arc::new(IndexData::new(&schema, def))).collect(),
        schema: Arc::new(schema),
    })
}

impl Db {
    fn new() -> Db {
        Db {
            store: Arc::new(Store::new()),
            tables: RefCell::default(),
            newest: Cell::new(0),
            questions: Cell::new(u32::MAX),
        }
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
            self.add_to(&mut schema, id.0 * 100 + at as u32, one);
        }
        self.tables.borrow_mut().push(table_of(schema));
    }

    /// Makes tables and indexes by SQL.
    fn ddl(&self, sql: &str) {
        for sql in sql.split(';').filter(|sql| !sql.trim().is_empty()) {
            match parse(sql) {
                ast::Statement::CreateTable(create) => self.create_table(&create),
                ast::Statement::CreateIndex(create) => self.create_index(&create),
                other => panic!("{other}"),
            }
        }
    }

    fn create_table(&self, create: &ast::CreateTable) {
        let (mut columns, mut more) = (Vec::new(), Vec::new());
        for column in &create.columns {
            let own = &column.name;
            let (mut not_null, mut default) = ("", String::new());
            for option in &column.options {
                match &option.option {
                    ast::ColumnOption::NotNull => not_null = " not null",
                    ast::ColumnOption::Default(value) => default = format!(" default {value}"),
                    ast::ColumnOption::PrimaryKey(_) => more.push(format!("primary {own}")),
                    ast::ColumnOption::Unique(_) => more.push(format!("unique {own}")),
                    other => panic!("{other}"),
                }
            }
            columns.push(format!("{own} {}{not_null}{default}", column.data_type));
        }
        for constraint in &create.constraints {
            more.push(match constraint {
                ast::TableConstraint::PrimaryKey(key) => format!("primary {}", list(&key.columns)),
                ast::TableConstraint::Unique(key) => format!("unique {}", list(&key.columns)),
                ast::TableConstraint::Check(check) => format!("check {}", check.expr),
                ast::TableConstraint::ForeignKey(key) => {
                    let referred = list(&key.referred_columns);
                    format!("references {} to {}({referred})", list(&key.columns), key.foreign_table)
                }
                other => panic!("{other}"),
            });
        }
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        self.create(&create.name.to_string(), &columns, &more);
    }

    fn create_index(&self, create: &ast::CreateIndex) {
        let kind = if create.unique { "unique" } else { "index" };
        self.add_index(&create.table_name.to_string(), &format!("{kind} {}", list(&create.columns)));
    }

    /// Adds an index, written as for `create`, to a table that has no rows yet.
    fn add_index(&self, name: &str, index: &str) {
        let table = self.table(None, name).unwrap();
        let mut schema = (*table.schema).clone();
        let number = schema.id.0 * 100 + 50 + schema.secondary.len() as u32;
        self.add_to(&mut schema, number, index);
        let mut tables = self.tables.borrow_mut();
        let at = tables.iter().position(|one| one.id() == schema.id).unwrap();
        tables[at] = table_of(schema);
    }

    fn add_to(&self, schema: &mut RowSchema, id: u32, text: &str) {
        let (kind, rest) = text.split_once(' ').unwrap();
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
        let parent = (!own).then(|| self.table(None, parent).unwrap());
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

    fn commit(&self, mut txn: Txn) {
        self.newest.set(self.newest.get() + 1);
        txn.commit(Lsn(self.newest.get()), &crossbeam_epoch::pin()).unwrap();
    }

    fn compile(&self, sql: &str) -> Result<Compiled> {
        compile(&parse(sql), self, &[])?.ok_or_else(|| Error::unsupported("another tier's"))
    }

    fn question(&self) -> Result<()> {
        let left = self.questions.get().checked_sub(1);
        self.questions.set(left.ok_or_else(|| Error::new(SqlState::QUERY_CANCELED, "canceling statement"))?);
        Ok(())
    }

    /// Runs a statement as a session would, once; what it did is undone where it fails or waits.
    fn run(&self, txn: &mut Txn, sql: &str, params: &[Datum<'_>]) -> Result<Outcome> {
        self.run_shown(txn, sql, params, shown)
    }

    fn run_shown(
        &self,
        txn: &mut Txn,
        sql: &str,
        params: &[Datum<'_>],
        show: fn(&Datum<'_>, Type) -> String,
    ) -> Result<Outcome> {
        let compiled = self.compile(sql)?;
        let guard = &crossbeam_epoch::pin();
        let savepoint = txn.savepoint();
        let mut rows = Vec::new();
        let types: Vec<Type> = compiled.columns().iter().map(|column| column.ty).collect();
        let session = Session { check: &|| self.question(), now: NOW, zone: &East };
        let ran = run(&compiled, txn, params, session, guard, &mut |row| {
            assert_eq!(row.len(), types.len(), "{sql}");
            rows.push(row.iter().zip(&types).map(|(value, ty)| show(value, *ty)).collect::<Vec<_>>().join("|"));
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
        self.try_shown(sql, params, shown)
    }

    fn try_shown(
        &self,
        sql: &str,
        params: &[Datum<'_>],
        show: fn(&Datum<'_>, Type) -> String,
    ) -> Result<(Vec<String>, u64)> {
        let mut txn = self.begin(Isolation::ReadCommitted);
        match self.run_shown(&mut txn, sql, params, show)? {
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
