//! Statements on a small in-memory database; expected rows as text.

mod arrays;
mod change_plans;
mod changes;
mod deferrable;
mod expression_indexes;
mod expressions;
mod golden;
mod inverted_indexes;
mod isolation;
mod loads;
mod lookups;
mod programs;
mod queries;
mod random;
mod schema;

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;

use env::Event;
use model::{Datum, Error, Lsn, Result, RowSchema, RowSchemaRef, SequenceRef, SqlState, TableId, TableName, Type};
use parser::ast::Statement;
use rows::row::RowLayout;
use rows::{IndexData, Isolation, Records, RowTable, Store, Txn};

use crate::cast::{Zone, text_of};
use crate::{Catalog, Change, Compiled, Numbers, Object, Ran, Reading, Session, Tables, define, run};

/// Time zone one hour ahead of UTC, all year.
struct East;

const HOUR_MICROS: i64 = 3_600_000_000;

impl Zone for East {
    fn local(&self, micros: i64) -> i64 {
        micros.saturating_add(if [i64::MIN, i64::MAX].contains(&micros) { 0 } else { HOUR_MICROS })
    }

    fn moment(&self, local: i64) -> i64 {
        local - HOUR_MICROS
    }

    fn input(&self, text: &str, ty: Type) -> Result<Datum<'static>> {
        Ok(match ty {
            Type::Timestamptz => Datum::Timestamptz(match text {
                "infinity" => i64::MAX,
                "-infinity" => i64::MIN,
                text => pg::time::parse_timestamp_micros(text)? - HOUR_MICROS,
            }),
            Type::Timestamp => Datum::Timestamp(match text {
                "infinity" => i64::MAX,
                "-infinity" => i64::MIN,
                text => pg::time::parse_timestamp_micros(text)?,
            }),
            Type::Date => Datum::Date(match text {
                "infinity" => i32::MAX,
                "-infinity" => i32::MIN,
                text => pg::time::parse_date(text)?,
            }),
            Type::Time => Datum::Time(pg::time::parse_time(text)?),
            _ => Datum::Interval(pg::time::parse_interval(text)?),
        })
    }
}

/// 2026-11-21 12:00:00 UTC.
const NOW: i64 = 1_795_262_400_000_000;

struct Db {
    store: Arc<Store>,
    tables: RefCell<Vec<Arc<RowTable>>>,
    counters: RefCell<Vec<Counter>>,
    /// The sequence used last.
    last: Cell<Option<u32>>,
    last_id: Cell<u32>,
    newest: Cell<u64>,
    /// Cancellation checks that statements may make before one fails.
    questions: Cell<u32>,
    /// If set, sequences wait for this event, as for the log.
    busy: RefCell<Option<Event>>,
    randoms: Cell<u64>,
}

/// A sequence with one session's state.
struct Counter {
    spec: SequenceRef,
    last: i64,
    is_called: bool,
    current: Option<i64>,
}

impl Tables for Db {
    fn table(&self, schema: Option<&str>, name: &str) -> Option<Arc<RowTable>> {
        let name = TableName { schema: schema.unwrap_or("public").into(), table: name.into() };
        self.tables.borrow().iter().find(|table| table.schema.name == name).cloned()
    }

    fn sequence(&self, schema: Option<&str>, name: &str) -> Option<SequenceRef> {
        Catalog::sequence(self, &TableName { schema: schema.unwrap_or("public").into(), table: name.into() })
    }

    fn sequence_of_oid(&self, oid: u32) -> Option<SequenceRef> {
        self.sequences().into_iter().find(|sequence| schema::oid(sequence.id) == oid)
    }

    fn by_id(&self, id: TableId) -> Option<Arc<RowTable>> {
        self.tables.borrow().iter().find(|table| table.id() == id).cloned()
    }

    fn referring(&self, id: TableId) -> Vec<Arc<RowTable>> {
        let refers = |table: &&Arc<RowTable>| table.schema.foreign_keys.iter().any(|key| key.table == id);
        self.tables.borrow().iter().filter(refers).cloned().collect()
    }
}

impl Catalog for Db {
    fn current_schema(&self) -> String {
        "public".into()
    }

    fn is_schema(&self, name: &str) -> bool {
        name == "public"
    }

    fn table(&self, name: &TableName) -> Option<RowSchemaRef> {
        Catalog::tables(self).into_iter().find(|table| table.name == *name)
    }

    fn tables(&self) -> Vec<RowSchemaRef> {
        self.tables.borrow().iter().map(|table| Arc::clone(&table.schema)).collect()
    }

    fn sequence(&self, name: &TableName) -> Option<SequenceRef> {
        self.sequences().into_iter().find(|sequence| sequence.name == *name)
    }

    fn sequences(&self) -> Vec<SequenceRef> {
        self.counters.borrow().iter().map(|counter| Arc::clone(&counter.spec)).collect()
    }

    fn is_other(&self, _: &TableName) -> bool {
        false
    }

    fn view(&self, _: &TableName) -> Option<model::ViewRef> {
        None
    }

    fn dependent_views(&self, _: &[u32]) -> Vec<model::ViewRef> {
        Vec::new()
    }

    fn next_id(&self, _: Object) -> u32 {
        self.last_id.set(self.last_id.get() + 1);
        self.last_id.get()
    }
}

impl Db {
    fn counter<T>(&self, id: u32, with: impl FnOnce(&mut Counter) -> T) -> T {
        let mut counters = self.counters.borrow_mut();
        with(counters.iter_mut().find(|counter| counter.spec.id == id).unwrap())
    }
}

impl Numbers for Db {
    fn next(&self, sequence: u32) -> Result<std::result::Result<i64, Event>> {
        if let Some(event) = self.busy.borrow().clone() {
            return Ok(Err(event));
        }
        let next = self.counter(sequence, |counter| {
            let spec = &counter.spec;
            let next = if counter.is_called { counter.last + spec.increment } else { counter.last };
            if next > spec.max {
                let text = format!("nextval: reached maximum value of sequence \"{}\" ({})", spec.name.table, spec.max);
                return Err(Error::new(SqlState::SEQUENCE_LIMIT_EXCEEDED, text));
            }
            (counter.last, counter.is_called, counter.current) = (next, true, Some(next));
            Ok(next)
        })?;
        self.last.set(Some(sequence));
        Ok(Ok(next))
    }

    fn current(&self, sequence: u32) -> Option<i64> {
        self.counter(sequence, |counter| counter.current)
    }

    fn last(&self) -> Option<i64> {
        self.current(self.last.get()?)
    }

    fn random(&self) -> u64 {
        self.randoms.set(self.randoms.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        self.randoms.get()
    }

    fn set(&self, sequence: u32, number: i64, is_called: bool) -> Result<std::result::Result<(), Event>> {
        self.counter(sequence, |counter| {
            let spec = &counter.spec;
            if !(spec.min..=spec.max).contains(&number) {
                let text = format!(
                    "setval: value {number} is out of bounds for sequence \"{}\" ({}..{})",
                    spec.name.table, spec.min, spec.max
                );
                return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text));
            }
            (counter.last, counter.is_called) = (number, is_called);
            counter.current = if is_called { Some(number) } else { counter.current };
            Ok(Ok(()))
        })
    }
}

/// The outcome of a statement.
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

/// Parses one statement.
fn parse(sql: &str) -> Statement {
    let parsed = parser::parse_all(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let [parsed] = <[_; 1]>::try_from(parsed).unwrap_or_else(|parsed| panic!("{sql}: {parsed:?}"));
    parsed.statement
}

/// An empty table.
fn table_of(schema: RowSchema) -> Arc<RowTable> {
    Arc::new(RowTable {
        layout: Arc::new(RowLayout::of(&schema).unwrap()),
        records: Arc::new(Records::new()),
        primary: schema.primary.as_ref().map(|def| Arc::new(IndexData::new(&schema, def))),
        secondary: schema.secondary.iter().map(|def| Arc::new(IndexData::new(&schema, def))).collect(),
        schema: Arc::new(schema),
        derived: rows::Derived::default(),
    })
}

impl Db {
    fn new() -> Db {
        Db {
            store: Arc::new(Store::default()),
            tables: RefCell::default(),
            counters: RefCell::default(),
            last: Cell::new(None),
            last_id: Cell::new(0),
            newest: Cell::new(0),
            questions: Cell::new(u32::MAX),
            busy: RefCell::new(None),
            randoms: Cell::new(1),
        }
    }

    /// Creates a table. Columns as in CREATE TABLE; then indexes and constraints: `primary a, b`, `unique a`,
    /// `index a, b`, `check a > 0`, `references a to table(b)`.
    fn create(&self, name: &str, columns: &[&str], more: &[&str]) {
        let mut parts: Vec<String> = columns.iter().map(|column| (*column).into()).collect();
        let mut indexes = Vec::new();
        for one in more {
            let (kind, rest) = one.split_once(' ').unwrap();
            match kind {
                "primary" => parts.push(format!("PRIMARY KEY ({rest})")),
                "unique" => parts.push(format!("UNIQUE ({rest})")),
                "check" => parts.push(format!("CONSTRAINT {name}_check CHECK ({rest})")),
                "index" => indexes.push(format!("CREATE INDEX ON {name} ({rest})")),
                "references" => {
                    let (columns, parent) = rest.split_once(" to ").unwrap();
                    parts.push(format!("CONSTRAINT {name}_fkey FOREIGN KEY ({columns}) REFERENCES {parent}"));
                }
                other => panic!("{other}"),
            }
        }
        self.ddl(&format!("CREATE TABLE {name} ({});{}", parts.join(", "), indexes.join(";")));
    }

    /// Runs definition statements on tables without rows.
    fn ddl(&self, sql: &str) {
        for sql in sql.split(';').filter(|sql| !sql.trim().is_empty()) {
            self.define(&parse(sql)).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        }
    }

    fn define(&self, sql: &Statement) -> Result<&'static str> {
        let zone = schema::Clocks::of(self);
        let session = Session { check: &|_| Ok(()), now: NOW, zone: &zone, numbers: None };
        let definition = define(sql, self, session)?.unwrap_or_else(|| panic!("{sql}: defines nothing"));
        for change in definition.changes {
            match change {
                Change::Create(schema) => self.tables.borrow_mut().push(table_of(schema)),
                Change::Alter { next, .. } => {
                    let mut tables = self.tables.borrow_mut();
                    let old = tables.iter_mut().find(|table| table.id() == next.id).unwrap();
                    assert!(old.records.all().next().is_none(), "{sql}: rows would be lost");
                    *old = table_of(next);
                }
                Change::CreateSequence(spec) => {
                    let (last, spec) = (spec.start, Arc::new(spec));
                    let counter = Counter { spec, last, is_called: false, current: None };
                    self.counters.borrow_mut().push(counter);
                }
                Change::AlterSequence { next, restart: None } => {
                    self.counter(next.id, |counter| counter.spec = Arc::new(next.clone()));
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
        Ok(definition.tag)
    }

    fn begin(&self, isolation: Isolation) -> Txn {
        let mut txn = self.store.begin(isolation);
        txn.set_snapshot(Lsn(self.newest.get()));
        txn
    }

    fn commit(&self, mut txn: Txn) {
        self.newest.set(self.newest.get() + 1);
        txn.prepare(&crossbeam_epoch::pin()).unwrap();
        txn.commit(Lsn(self.newest.get()), &crossbeam_epoch::pin());
    }

    fn question(&self) -> Result<()> {
        let left = self.questions.get().checked_sub(1);
        self.questions.set(left.ok_or_else(|| Error::new(SqlState::QUERY_CANCELED, "canceling statement"))?);
        Ok(())
    }

    /// Runs a statement once, like a session: its changes are undone if it fails or waits.
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
        let compiled = &self.plan(sql)?;
        let guard = &crossbeam_epoch::pin();
        let savepoint = txn.savepoint();
        let mut rows = Vec::new();
        let types: Vec<Type> = compiled.columns().iter().map(|column| column.ty).collect();
        let zone = schema::Clocks::of(self);
        let session = Session { check: &|_| self.question(), now: NOW, zone: &zone, numbers: Some(self) };
        let ran = run(compiled, txn, params, session, guard, &mut |row| {
            assert_eq!(row.len(), types.len(), "{sql}");
            rows.push(row.iter().zip(&types).map(|(value, ty)| show(value, *ty)).collect::<Vec<_>>().join("|"));
            Ok(())
        });
        match ran {
            Ok(Ran::Done { rows: count }) => {
                if compiled.is_read_only() && !sql.contains("random") {
                    assert_eq!(self.read_by_parts(txn, compiled, params, show), rows, "by parts: {sql}");
                }
                Ok(Outcome::Rows(rows, count))
            }
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

    /// Rows of a query run outside its transaction, in slices as short as possible.
    fn read_by_parts(
        &self,
        txn: &Txn,
        compiled: &Compiled,
        params: &[Datum<'_>],
        show: fn(&Datum<'_>, Type) -> String,
    ) -> Vec<String> {
        self.parts(txn, compiled, params, show).concat()
    }

    fn parts(
        &self,
        txn: &Txn,
        compiled: &Compiled,
        params: &[Datum<'_>],
        show: fn(&Datum<'_>, Type) -> String,
    ) -> Vec<Vec<String>> {
        let types: Vec<Type> = compiled.columns().iter().map(|column| column.ty).collect();
        let (mut parts, mut reading) = (Vec::new(), Reading::default());
        let zone = schema::Clocks::of(self);
        while !reading.is_done() {
            let mut rows = Vec::new();
            let session = Session { check: &|_| Ok(()), now: NOW, zone: &zone, numbers: Some(self) };
            let guard = &crossbeam_epoch::pin();
            let part = reading.part(compiled, &txn.view(), params, session, guard, &mut |row| {
                rows.push(row.iter().zip(&types).map(|(value, ty)| show(value, *ty)).collect::<Vec<_>>().join("|"));
                Ok(ControlFlow::Break(()))
            });
            part.unwrap();
            parts.push(rows);
        }
        parts
    }

    /// The maximum memory that a query reports to the cancellation check.
    fn most_kept(&self, sql: &str) -> usize {
        let compiled = self.plan(sql).unwrap();
        let mut txn = self.begin(Isolation::ReadCommitted);
        let most = Cell::new(0);
        let check = |bytes: usize| {
            most.set(most.get().max(bytes));
            Ok(())
        };
        let zone = schema::Clocks::of(self);
        let session = Session { check: &check, now: NOW, zone: &zone, numbers: Some(self) };
        run(&compiled, &mut txn, &[], session, &crossbeam_epoch::pin(), &mut |_| Ok(())).unwrap();
        most.get()
    }

    /// Runs a statement in its own transaction.
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

    /// Pairs of a statement and its rows: one on each line, values separated by bars.
    fn check(&self, cases: &[(&str, &str)]) {
        for (sql, expected) in cases {
            let expected: Vec<&str> = expected.lines().collect();
            assert_eq!(self.sql(sql), expected, "{sql}");
        }
    }
}

/// A value in PostgreSQL's text form. Panics if it has not the type `ty`.
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
