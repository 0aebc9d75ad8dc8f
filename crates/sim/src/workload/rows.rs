//! Statements on `rows` tables, and their checks.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use ::model::{Datum, Error, Lsn, Result, RowColumn, RowIndex, RowSchema, SqlState, TableId, TableName, Type};
use engine::{Altered, Isolation, NextValue, RowData, Savepoint, Snapshot, Txn};
use rows::{Direction, LockMode, Locked, Put, RowTable, WaitPolicy};

use super::{Driver, is_expected_error};
use crate::model::{Change, Database, LARGE_SEEDS, RowFields, large_text, of_large_text};

const TABLES: [&str; 2] = ["accounts", "stock"];
const SEQUENCE: &str = "numbers";
/// Few keys, so that transactions conflict.
const KEYS: u64 = 40;

/// State of an open transaction.
#[derive(Default)]
pub(super) struct Session {
    /// The statement that waits for a lock and will be run again.
    waiting: Option<(&'static str, Statement)>,
    /// Savepoints, and the number of changes at each.
    savepoints: Vec<(Savepoint, usize)>,
}

#[derive(Clone, Debug)]
enum Statement {
    Insert(i32, RowFields),
    Update(i32, RowFields),
    Delete(i32),
    Lock(i32, LockMode),
    Truncate,
    AddColumn(Option<i64>),
    /// Creates an index on this column, or drops the last one created so.
    Index(usize),
    Drop,
}

/// Outcome of a statement.
enum Outcome {
    Changed(Change),
    Nothing,
    Wait,
}

impl Driver {
    /// Runs one statement on a `rows` table; false when the transaction failed.
    pub(super) fn row_statement(&mut self, txn: &mut Txn, changes: &mut Vec<Change>, session: &mut Session) -> bool {
        if self.random.chance(12) {
            return self.savepoint(txn, changes, session);
        }
        let (name, statement) = match session.waiting.take() {
            Some(again) if self.random.chance(80) => again,
            Some(_) => {
                txn.rows().give_up_wait();
                return true;
            }
            None if self.random.chance(10) => return self.number(txn, changes),
            None => (TABLES[self.random.below(TABLES.len() as u64) as usize], self.statement()),
        };
        let snapshot = txn.snapshot_newest();
        let Ok(table) = snapshot.row_table(&TableName::public(name)).map(Arc::clone) else {
            return self.create_rows(txn, name, changes);
        };
        let guard = &crossbeam_epoch::pin();
        let before = txn.rows().savepoint();
        match run(txn, &table, &statement, guard) {
            Ok(Outcome::Changed(change)) => {
                self.report.row_statements += 1;
                changes.push(change);
            }
            Ok(Outcome::Nothing) => txn.rows().undo_to(before, guard).expect("undo"),
            Ok(Outcome::Wait) => {
                self.report.waits += 1;
                txn.rows().undo_to(before, guard).expect("undo");
                session.waiting = Some((name, statement));
            }
            Err(error) => {
                assert!(
                    is_expected_error(&error) || error.state() == SqlState::UNIQUE_VIOLATION,
                    "{statement:?}: {error}"
                );
                txn.rows().undo_to(before, guard).expect("undo");
                return error.state() != SqlState::SERIALIZATION_FAILURE
                    && error.state() != SqlState::DEADLOCK_DETECTED;
            }
        }
        if self.random.chance(30) {
            txn.end_statement();
        }
        true
    }

    fn statement(&mut self) -> Statement {
        let id = self.random.below(KEYS) as i32;
        let code = self.random.chance(60).then(|| self.random.below(KEYS) as i64);
        let fields =
            vec![Some(i64::from(id)), code, Some(self.random.below(if self.with_large { 40 } else { 5 }) as i64)];
        match self.random.below(100) {
            0..40 => Statement::Insert(id, fields),
            40..70 => Statement::Update(id, fields),
            70..88 => Statement::Delete(id),
            88..94 => Statement::Lock(id, [LockMode::KeyShare, LockMode::Share, LockMode::Update][id as usize % 3]),
            94 => Statement::Truncate,
            95..97 => Statement::AddColumn(code),
            // Large values have no index.
            97..99 if self.with_large => Statement::Index(1),
            97..99 => Statement::Index(1 + self.random.below(2) as usize),
            _ => Statement::Drop,
        }
    }

    fn savepoint(&mut self, txn: &mut Txn, changes: &mut Vec<Change>, session: &mut Session) -> bool {
        if session.savepoints.is_empty() || self.random.chance(50) {
            session.savepoints.push((txn.savepoint(), changes.len()));
            return true;
        }
        let at = self.random.below(session.savepoints.len() as u64) as usize;
        session.savepoints.truncate(at + 1);
        let (savepoint, count) = &session.savepoints[at];
        txn.roll_back_to(savepoint).expect("roll back");
        changes.truncate(*count);
        session.waiting = None;
        true
    }

    fn create_rows(&mut self, txn: &mut Txn, name: &str, changes: &mut Vec<Change>) -> bool {
        let column = |name: &str, ty, not_null| RowColumn { not_null, ..RowColumn::new(name, ty) };
        let index = |name: String, column, unique| RowIndex {
            id: txn.next_number(),
            name,
            columns: vec![column],
            unique,
            constraint: unique,
            ..RowIndex::default()
        };
        let schema = RowSchema {
            id: TableId(txn.next_number()),
            name: TableName::public(name),
            version: 1,
            lineage: model::Lineage::default(),
            columns: vec![
                column("id", Type::Int4, true),
                column("code", Type::Int8, false),
                column("v", if self.with_large { Type::Text } else { Type::Int8 }, false),
            ],
            primary: Some(index(format!("{name}_pkey"), 0, true)),
            secondary: vec![index(format!("{name}_code"), 1, true)],
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            triggers: Vec::new(),
            replica_identity: model::ReplicaIdentity::default(),
        };
        match txn.create_row_table(schema) {
            Ok(table) => changes.push(Change::CreateRows { name: name.to_owned(), id: table.id() }),
            Err(error) => assert!(is_expected_error(&error), "create: {error}"),
        }
        true
    }

    /// Takes a value of the sequence, which is created if it does not exist.
    fn number(&mut self, txn: &mut Txn, changes: &mut Vec<Change>) -> bool {
        let snapshot = txn.snapshot_newest();
        let Some(sequence) = snapshot.catalog().sequence(&TableName::public(SEQUENCE)) else {
            let (id, name) = (txn.next_number(), TableName::public(SEQUENCE));
            // A sequence created again after a crash continues after the values shown before, so
            // that the check treats it as one.
            let (start, increment, min, max) = (self.sequence_values.0 + 1, 1, 1, i64::MAX);
            let (ty, cache, cycle, owner) = (Type::Int8, 1, false, None);
            let sequence = model::SequenceSpec { id, name, ty, start, increment, min, max, cache, cycle, owner };
            match txn.create_sequence(Arc::new(sequence)) {
                Ok(()) => changes.push(Change::Sequence),
                Err(error) => assert!(is_expected_error(&error), "create sequence: {error}"),
            }
            return true;
        };
        // A sequence of this transaction may be rolled back together with its values.
        if self.engine().snapshot(Lsn::ZERO).catalog().sequence_by_id(sequence.id).is_none() {
            return true;
        }
        match txn.next_value(sequence.id) {
            Ok(NextValue::Value { value, lsn }) => {
                self.report.sequence_values += 1;
                assert!(value > self.sequence_values.0, "number {value} after {:?}", self.sequence_values);
                self.sequence_values.0 = value;
                // The reservation is a commit of its own, which changes nothing that reads show.
                let (last, state) = self.history.last_key_value().expect("history is never empty");
                if lsn > *last {
                    let state = state.clone();
                    self.history.insert(lsn, state);
                }
                if matches!(self.engine().when_durable(lsn), Ok(None)) {
                    self.sequence_values.1 = value;
                }
            }
            Ok(NextValue::Wait(_)) => {}
            Err(error) => assert!(is_expected_error(&error), "next value: {error}"),
        }
        true
    }

    /// Compares `rows` tables at the newest snapshot with the model.
    pub(super) fn check_rows(&mut self) {
        let mut txn = self.engine().begin(Isolation::ReadCommitted, Lsn::ZERO);
        let snapshot = txn.snapshot_newest();
        let expected = self.model_at(snapshot.lsn());
        self.compare_rows(&snapshot, &mut txn, &expected);
        let seen = txn.rows().newest_seen();
        assert!(seen <= snapshot.lsn(), "saw {seen} at {}", snapshot.lsn());
        // An answer at this point has waited for this commit.
        if matches!(self.engine().when_durable(seen), Ok(None)) {
            self.promised = self.promised.max(seen);
        }
    }

    pub(super) fn compare_rows(&mut self, snapshot: &Snapshot, txn: &mut Txn, expected: &Database) {
        let mut names: Vec<_> = snapshot.catalog().row_tables().map(|table| table.name.table.clone()).collect();
        names.sort();
        let mut expected_names: Vec<_> = expected.row_tables.values().map(|table| table.name.clone()).collect();
        expected_names.sort();
        assert_eq!(names, expected_names, "rows tables at {}", snapshot.lsn());
        for (id, wanted) in &expected.row_tables {
            self.report.reads += 1;
            let table = snapshot.row_table_by_id(*id).expect("the table is there");
            let wanted: BTreeMap<i32, RowFields> = wanted.rows.iter().map(|(id, row)| (*id, row.clone())).collect();
            for (how, seen) in read(txn, table) {
                assert_eq!(seen, wanted, "table {} at {}, {how}", table.schema.name, snapshot.lsn());
            }
        }
    }
}

fn run(txn: &mut Txn, table: &Arc<RowTable>, statement: &Statement, guard: &crossbeam_epoch::Guard) -> Result<Outcome> {
    let id = table.id();
    let changed = |fields: Option<RowFields>, key| Outcome::Changed(Change::Row { table: id, id: key, fields });
    match statement {
        Statement::Insert(key, fields) => {
            let fields = with_added_columns(table, fields);
            let row = row(table, *key, &fields);
            Ok(match txn.rows().insert(table, row, guard)? {
                Put::Done(_) => changed(Some(fields), *key),
                Put::Duplicate { .. } => Outcome::Nothing,
                Put::Wait(_) => Outcome::Wait,
            })
        }
        Statement::Update(key, fields) => {
            let record = match lock(txn, table, *key, LockMode::NoKeyUpdate, guard)? {
                Ok(record) => record,
                Err(outcome) => return Ok(outcome),
            };
            let fields = with_added_columns(table, fields);
            Ok(match txn.rows().update(table, record, row(table, *key, &fields), guard)? {
                Put::Done(_) => changed(Some(fields), *key),
                Put::Duplicate { .. } => Outcome::Nothing,
                Put::Wait(_) => Outcome::Wait,
            })
        }
        Statement::Delete(key) => {
            let record = match lock(txn, table, *key, LockMode::Update, guard)? {
                Ok(record) => record,
                Err(outcome) => return Ok(outcome),
            };
            let waits = txn.rows().delete(table, record, guard)?.is_some();
            Ok(if waits { Outcome::Wait } else { changed(None, *key) })
        }
        Statement::Lock(key, mode) => Ok(lock(txn, table, *key, *mode, guard)?.err().unwrap_or(Outcome::Nothing)),
        Statement::Truncate => alter(txn, next(table), RowData::Discard, Change::Truncate(id)),
        Statement::AddColumn(value) => {
            let mut next = next(table);
            if next.columns.len() >= 6 {
                return Ok(Outcome::Nothing);
            }
            let name = format!("more{}", next.columns.len());
            let missing = rows::row::alone(Type::Int8, &value.map_or(Datum::Null, Datum::Int8))?;
            next.columns.push(RowColumn { missing, ..RowColumn::new(&name, Type::Int8) });
            alter(txn, next, RowData::Keep, Change::AddRowColumn(id, *value))
        }
        Statement::Index(column) => {
            let mut next = next(table);
            if next.secondary.len() > 1 {
                next.secondary.truncate(1);
            } else {
                let name = format!("{}_more", next.name.table);
                let (id, columns) = (txn.next_number(), vec![*column]);
                // Refused if there are duplicates.
                next.secondary.push(RowIndex {
                    id,
                    name,
                    columns,
                    unique: *column == 1,
                    constraint: false,
                    ..RowIndex::default()
                });
            }
            alter(txn, next, RowData::Keep, Change::Index)
        }
        Statement::Drop => Ok(match txn.drop_row_table(id)? {
            Altered::Done(()) => Outcome::Changed(Change::DropRows(id)),
            Altered::Wait(_) => Outcome::Wait,
        }),
    }
}

fn next(table: &RowTable) -> RowSchema {
    RowSchema { version: table.schema.version + 1, ..(*table.schema).clone() }
}

fn alter(txn: &mut Txn, next: RowSchema, data: RowData, change: Change) -> Result<Outcome> {
    Ok(match txn.alter_row_table(next, data, &|value| format!("{value:?}"))? {
        Altered::Done(_) => Outcome::Changed(change),
        Altered::Wait(_) => Outcome::Wait,
    })
}

/// Locks the row with a key; returns its record, or the outcome if that is impossible.
fn lock(
    txn: &mut Txn,
    table: &Arc<RowTable>,
    key: i32,
    mode: LockMode,
    guard: &crossbeam_epoch::Guard,
) -> Result<std::result::Result<rows::RecordId, Outcome>> {
    let mut bytes = Vec::new();
    let primary = table.primary.as_ref().ok_or_else(|| Error::bug("no primary key"))?;
    rows::key::push(&mut bytes, &primary.keys()[0], &Datum::Int4(key))?;
    let Some((record, _)) = txn.rows().get(table, &bytes, guard)? else { return Ok(Err(Outcome::Nothing)) };
    Ok(match txn.rows().lock_row(table, record, mode, WaitPolicy::Wait, guard)? {
        Locked::Row { .. } => Ok(record),
        Locked::Wait(_) => Err(Outcome::Wait),
        Locked::Gone | Locked::Skipped => Err(Outcome::Nothing),
    })
}

/// Appends a value for each added column.
fn with_added_columns(table: &RowTable, fields: &[Option<i64>]) -> RowFields {
    let mut fields = fields.to_vec();
    fields.resize(table.layout.columns(), Some(3));
    fields
}

fn row(table: &RowTable, key: i32, fields: &[Option<i64>]) -> Box<[u8]> {
    let is_image = |at: usize| table.schema.columns[at].ty == Type::Text;
    let image_at = |(at, field): (usize, &Option<i64>)| field.filter(|_| is_image(at)).map(image);
    let images: Vec<Option<String>> = fields.iter().enumerate().map(image_at).collect();
    let mut values = vec![Datum::Int4(key)];
    values.extend(fields.iter().zip(&images).skip(1).map(|(field, image)| match (field, image) {
        (None, _) => Datum::Null,
        (Some(_), Some(image)) => Datum::Text(image),
        (Some(number), None) => Datum::Int8(*number),
    }));
    let mut out = Vec::new();
    table.layout.encode(&values, &mut out).expect("a row");
    out.into()
}

fn fields(table: &RowTable, row: &[u8]) -> RowFields {
    let field = |at| match table.layout.field(row, at).expect("a field") {
        Datum::Int4(value) => Some(value.into()),
        Datum::Int8(value) => Some(value),
        Datum::Text(text) => Some(of_image(text)),
        _ => None,
    };
    (0..table.layout.columns()).map(field).collect()
}

/// The text that stands for a number in tables with large values: one in eight is larger than a log record.
fn image(number: i64) -> String {
    let bytes = if number % 8 == 7 { 1_300_000 } else { 20 };
    large_text(bytes + number as u32, (number % i64::from(LARGE_SEEDS)) as u8)
}

fn of_image(text: &str) -> i64 {
    let (bytes, _) = of_large_text(text).expect("a large text");
    let number = i64::from(bytes % 1_300_000);
    if bytes < 1_300_000 { number - 20 } else { number }
}

/// Reads all rows by records and by each index.
fn read(txn: &mut Txn, table: &RowTable) -> Vec<(String, BTreeMap<i32, RowFields>)> {
    let guard = &crossbeam_epoch::pin();
    let mut all = BTreeMap::new();
    let note = |into: &mut BTreeMap<i32, RowFields>, row: &[u8]| {
        let fields = fields(table, row);
        let key = fields[0].and_then(|key| i32::try_from(key).ok()).expect("a key");
        assert!(into.insert(key, fields).is_none(), "key {key} twice");
    };
    for record in table.records.all() {
        if let Some(row) = txn.rows().read(table, record, guard).expect("a row") {
            note(&mut all, row);
        }
    }
    let mut ways = vec![("by records".to_owned(), all)];
    for (at, index) in table.primary.iter().chain(&table.secondary).enumerate() {
        let mut seen = BTreeMap::new();
        index.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward, guard, |entry, record| {
            let rows = txn.rows();
            let row = match at {
                0 => rows.read(table, record, guard),
                _ => rows.read_entry(table, index, entry, record, guard),
            };
            if let Some(row) = row.expect("a row") {
                note(&mut seen, row);
            }
            ControlFlow::Continue(())
        });
        ways.push((format!("by {}", index.def().name), seen));
    }
    ways
}
