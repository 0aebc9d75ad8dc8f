//! Defaults and constraints of `columns` tables, for all rows that statements write.
//!
//! [`write`] checks a batch and adds it to the transaction; no module calls [`engine::Txn::write`] for rows of statements.
//! A write of some columns of rows that may exist writes all fields of each constraint that reads one of them: whichever
//! of several transactions commits last, the stored row satisfies the constraint.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use columns::rows::arrow_type;
use compiled::RowRules;
use engine::{Batch, Op, Room, Rows};
use model::stored::{Stored, load, store};
use model::{
    Column, ColumnId, ColumnRole, DataType, Datum, Error, KeyRef, Numeric, Result, SqlState, Table, TableRef, Type, key,
};
use relational::arrow::rows::Builder;
use relational::arrow::stored::StoredBuilder;
use relational::types::Value;

use super::insert::{assign, value_of_stored};
use super::rows::run::numbered;
use crate::session::Session;
use crate::session::bound_rules::BoundRules;
use crate::session::clocks::Clocks;
use crate::tables::{Named, may_default};

/// The rules of a table, bound for the session.
///
/// # Errors
/// As [`RowRules::new`].
pub(crate) fn rules(session: &mut Session, table: &TableRef) -> Result<Arc<BoundRules>> {
    if let Some(rules) = session.rules.as_ref().filter(|rules| rules.are_of(table, &session.settings)) {
        return Ok(Arc::clone(rules));
    }
    let clocks = clocks(session);
    let rows = bound(session, table, &clocks)?;
    let rules = Arc::new(BoundRules { table: Arc::clone(table), settings: Arc::clone(&session.settings), rows });
    session.rules = Some(Arc::clone(&rules));
    Ok(rules)
}

fn clocks(session: &mut Session) -> Clocks {
    let context = session.context();
    Clocks::with_facts(session, &context)
}

/// Binds the rules of a table, which need not be committed.
///
/// # Errors
/// As [`RowRules::new`].
pub(crate) fn bound(session: &mut Session, table: &Table, clocks: &Clocks) -> Result<RowRules> {
    let context = session.context();
    let tables = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
    let now = session.now_ns().div_euclid(1_000);
    let given = compiled::Session { check: &|_| Ok(()), now, zone: clocks, numbers: None };
    RowRules::new(&table.as_row_schema(), &tables, given)
}

/// The defaults of a column for rows that give no value, as an array of the column's type.
///
/// # Errors
/// Those of evaluation; 22003 and others for a value that the column cannot hold; 53200 if the values exceed the
/// transaction's share of memory.
pub(crate) fn default_array(session: &mut Session, table: &TableRef, at: usize, rows: usize) -> Result<ArrayRef> {
    let zone = session.settings.time_zone();
    array_of_default(table, at, &zone, rows, |each| each_default(session, table, at, rows, each))
}

/// A function that takes the values of a default, one after the other.
pub(super) type Each<'e> = &'e mut dyn FnMut(&Datum<'_>) -> Result<()>;

/// The values of a column's default, which `compute` gives, as an array of the column's type.
///
/// # Errors
/// Those of `compute`; 22003 and others for a value that the column cannot hold.
pub(super) fn array_of_default(
    table: &Table,
    at: usize,
    zone: &str,
    rows: usize,
    compute: impl FnOnce(Each<'_>) -> Result<()>,
) -> Result<ArrayRef> {
    let column = &table.columns[at];
    if let Some(ty) = table.declared(column) {
        let mut values = StoredBuilder::new(column.ty, rows);
        compute(&mut |datum| values.push(&store(ty, datum)?))?;
        return Ok(values.finish());
    }
    let mut values = Builder::new(table.row_type(column), zone, rows);
    compute(&mut |datum| values.push(datum))?;
    assign(column, &values.finish(), zone)
}

/// Counts each value of a default before it is kept.
pub(super) fn counted(room: &mut Room, each: Each<'_>) -> impl FnMut(&Datum<'_>) -> Result<()> {
    /// Bytes of a value without those of its text.
    const VALUE_BYTES: u64 = 16;
    move |datum| {
        let text = match datum {
            Datum::Text(text) => text.len() as u64,
            Datum::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        };
        room.take(VALUE_BYTES + text)?;
        each(datum)
    }
}

/// Gives the columns of a table without values their defaults.
///
/// # Errors
/// As [`default_array`].
pub(crate) fn fill(
    session: &mut Session,
    table: &TableRef,
    arrays: &mut [Option<ArrayRef>],
    rows: usize,
) -> Result<()> {
    for (at, column) in table.columns.iter().enumerate() {
        if arrays[at].is_none() && may_default(table, column) {
            arrays[at] = Some(default_array(session, table, at, rows)?);
        }
    }
    Ok(())
}

/// Gives fields of a batch their defaults: those at these positions, of which its rows have no values.
///
/// # Errors
/// As [`default_array`].
pub(crate) fn complete(session: &mut Session, table: &TableRef, batch: Batch, absent: &[usize]) -> Result<Batch> {
    if absent.is_empty() || batch.is_empty() {
        return Ok(batch);
    }
    let rows = &batch.rows;
    let mut columns = rows.columns().into_owned();
    for at in absent {
        columns.push((table.columns[*at].id, default_array(session, table, *at, rows.len())?));
    }
    columns.sort_by_key(|(id, _)| *id);
    let rows = Rows::new(rows.series.clone(), rows.times.clone(), rows.ops.clone(), columns);
    Ok(Batch::new(batch.keys, rows))
}

/// Positions of the fields with defaults that are not among these columns.
pub(crate) fn absent_fields(table: &Table, given: &[usize]) -> Vec<usize> {
    let columns = table.columns.iter().enumerate();
    let is_absent = |at: usize, column: &Column| {
        column.role == ColumnRole::Field && may_default(table, column) && !given.contains(&at)
    };
    columns.filter(|(at, column)| is_absent(*at, column)).map(|(at, _)| at).collect()
}

/// Like [`default_values`], in the form in which the column stores them.
pub(super) fn stored_default_values(
    session: &mut Session,
    table: &TableRef,
    at: usize,
    rows: usize,
) -> Result<Vec<Value>> {
    let Some(ty) = table.declared(&table.columns[at]) else { return default_values(session, table, at, rows) };
    let mut values = Vec::with_capacity(rows);
    each_default(session, table, at, rows, &mut |datum| {
        values.push(value_of_stored(ty, store(ty, datum)?));
        Ok(())
    })?;
    Ok(values)
}

/// Like [`default_array`], as values of statements.
pub(crate) fn default_values(session: &mut Session, table: &TableRef, at: usize, rows: usize) -> Result<Vec<Value>> {
    let mut values = Vec::with_capacity(rows);
    each_default(session, table, at, rows, &mut |datum| {
        values.push(value_of(datum)?);
        Ok(())
    })?;
    Ok(values)
}

fn each_default(session: &mut Session, table: &TableRef, at: usize, rows: usize, each: Each<'_>) -> Result<()> {
    let rules = rules(session, table)?;
    let clocks = clocks(session);
    let now = session.now_ns().div_euclid(1_000);
    let given = compiled::Session { check: &|_| Ok(()), now, zone: &clocks, numbers: None };
    session.writer()?;
    let Session { database, block, had, .. } = session;
    let txn = block.as_mut().and_then(|block| block.txn.as_mut());
    let txn = txn.ok_or_else(|| Error::bug("a write outside a transaction"))?;
    let mut room = txn.room();
    let mut each = counted(&mut room, each);
    numbered(txn, had, database.engine().env(), |numbers| rules.rows.default(at, rows, given, numbers, &mut each))
}

fn value_of(datum: &Datum<'_>) -> Result<Value> {
    let out_of_range = || Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range");
    Ok(match datum {
        Datum::Null => Value::Null,
        Datum::Bool(value) => Value::Bool(*value),
        Datum::Int2(value) => Value::Int16(*value),
        Datum::Int4(value) => Value::Int32(*value),
        Datum::Int8(value) => Value::Int64(*value),
        Datum::Float4(value) => Value::Float32(*value),
        Datum::Float8(value) => Value::Float64(*value),
        Datum::Numeric(value) => {
            let decimal = value.as_decimal().and_then(|(digits, scale)| Some((digits, u8::try_from(scale).ok()?)));
            let (digits, scale) = decimal.ok_or_else(|| relational::types::out_of_range("numeric"))?;
            Value::Numeric(digits, scale)
        }
        Datum::Text(text) => Value::Text((*text).to_owned()),
        Datum::Oid(number) => Value::Int64(i64::from(*number)),
        Datum::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        Datum::Timestamptz(i64::MIN | i64::MAX) => return Err(out_of_range()),
        Datum::Timestamptz(micros) => Value::Timestamptz(micros.checked_mul(1_000).ok_or_else(out_of_range)?),
        other => return Err(Error::bug(format!("a default that is {}", other.type_name()))),
    })
}

/// Checks rows of a table and adds them to the session's transaction.
///
/// # Errors
/// 23502, 23514 and those of evaluation; as [`engine::Txn::write_checked`].
pub(crate) fn write(session: &mut Session, table: &TableRef, batch: Batch) -> Result<()> {
    if has_constraints(table) || batch.lacks_values(table) {
        let rules = rules(session, table)?;
        check_groups(table, &rules.rows, &batch)?;
        let clocks = clocks(session);
        let now = session.now_ns().div_euclid(1_000);
        let stop = Arc::clone(&session.stop);
        let check = |_| stop.check();
        let given = compiled::Session { check: &check, now, zone: &clocks, numbers: None };
        let rows = RowsOf::batch(table, &batch);
        let assigned = |at: usize| match batch.rows.ops.list() {
            [Op::Update(fields)] => fields.contains(&table.columns[at].id),
            _ => true,
        };
        let value = |row, at| rows.value(row, at);
        if let Some((_, error)) = rules.rows.violation(0..batch.len(), &value, &assigned, given)? {
            return Err(error);
        }
    }
    session.writer()?.write_checked(table, batch)
}

/// Whether a table has constraints besides NOT NULL.
pub(crate) fn has_constraints(table: &Table) -> bool {
    !table.rules.checks.is_empty() || table.rules.user_types().any(model::user_types::is_constrained)
}

/// Adds the fields that constraints read together with these: see the module.
pub(crate) fn with_constrained(session: &mut Session, table: &TableRef, fields: &mut Vec<ColumnId>) -> Result<()> {
    if table.rules.checks.is_empty() {
        return Ok(());
    }
    let rules = rules(session, table)?;
    let mut before = usize::MAX;
    while before != fields.len() {
        before = fields.len();
        for (_, reads) in rules.rows.checks() {
            let read: Vec<ColumnId> = fields_of(table, reads).map(|column| column.id).collect();
            if read.iter().any(|id| fields.contains(id)) {
                let new: Vec<ColumnId> = read.into_iter().filter(|id| !fields.contains(id)).collect();
                fields.extend(new);
            }
        }
    }
    Ok(())
}

fn fields_of<'t>(table: &'t Table, positions: &'t [usize]) -> impl Iterator<Item = &'t Column> {
    positions.iter().map(|at| &table.columns[*at]).filter(|column| column.role == ColumnRole::Field)
}

/// Refuses a change of some fields that a constraint reads, where the others are those of a row that is not known.
fn check_groups(table: &Table, rules: &RowRules, batch: &Batch) -> Result<()> {
    for op in batch.rows.ops.list() {
        let Op::Update(changed) = op else { continue };
        for (name, reads) in rules.checks() {
            let (given, missing): (Vec<&Column>, Vec<&Column>) =
                fields_of(table, reads).partition(|column| changed.contains(&column.id));
            if let ([_, ..], [first, ..]) = (&given[..], &missing[..]) {
                let text = format!(
                    "ON CONFLICT DO UPDATE of \"{}\" without \"{}\", which check constraint \"{name}\" reads too, is not \
                     supported on columns tables",
                    given[0].name, first.name
                );
                return Err(Error::unsupported(text).with_hint("set all columns of the constraint, or use UPDATE"));
            }
        }
    }
    Ok(())
}

/// Rows of a table as values of `rows` tables.
pub(crate) struct RowsOf<'b> {
    table: &'b Table,
    keys: &'b engine::KeyList,
    series: &'b [u32],
    times: &'b [i64],
    key_types: Vec<DataType>,
    sources: Vec<Source>,
    /// Types of the columns whose values are stored in another form.
    declared: Vec<Option<Type>>,
}

enum Source {
    /// The value of this key column.
    Key(usize),
    Time,
    Field(ArrayRef),
    Null,
}

impl<'b> RowsOf<'b> {
    fn batch(table: &'b Table, batch: &'b Batch) -> RowsOf<'b> {
        let fields = |id| batch.rows.column(id);
        RowsOf::new(table, (&batch.keys, &batch.rows.series, &batch.rows.times), &fields)
    }

    /// Rows with these keys, positions of keys, and times; `field` gives the values of a field.
    pub(crate) fn new(
        table: &'b Table,
        (keys, series, times): (&'b engine::KeyList, &'b [u32], &'b [i64]),
        field: &dyn Fn(ColumnId) -> Option<ArrayRef>,
    ) -> RowsOf<'b> {
        let mut key = 0;
        let sources = table.columns.iter().map(|column| match column.role {
            ColumnRole::Key => {
                key += 1;
                Source::Key(key - 1)
            }
            ColumnRole::Time => Source::Time,
            ColumnRole::Field => field(column.id).map_or(Source::Null, Source::Field),
        });
        let sources = sources.collect();
        let key_types = table.key_columns().map(|column| column.ty).collect();
        let declared = table.columns.iter().map(|column| table.declared(column)).collect();
        RowsOf { table, keys, series, times, key_types, sources, declared }
    }

    /// The value of a column of a row.
    ///
    /// # Errors
    /// XX000 and XX001 only.
    pub(crate) fn value(&self, row: usize, at: usize) -> Result<Datum<'_>> {
        let column = &self.table.columns[at];
        match &self.sources[at] {
            Source::Null => Ok(Datum::Null),
            Source::Time if column.ty == DataType::Int64 => Ok(Datum::Int8(self.times[row])),
            Source::Time => Ok(Datum::Timestamptz(self.times[row].div_euclid(1_000))),
            Source::Field(array) => match (field_value(array, column.ty, row)?, self.declared[at]) {
                (value, None) => Ok(value),
                (value, Some(ty)) => load(ty, &stored_of(&value, array, row)?),
            },
            Source::Key(number) => {
                let key = self.keys.get(self.series[row]);
                let value = key::value_at(key, &self.key_types, *number)?;
                match self.declared[at] {
                    None => key_value(value, column.ty),
                    Some(ty) => load(ty, &stored_key(value)),
                }
            }
        }
    }
}

/// A value of a key column, for [`load`].
fn stored_key(value: KeyRef<'_>) -> Stored<'_> {
    match value {
        KeyRef::Null => Stored::Null,
        KeyRef::Bool(value) => Stored::Int(value.into()),
        KeyRef::Int(value) => Stored::Int(value),
        KeyRef::UInt(value) => Stored::Int(value.cast_signed()),
        KeyRef::Text(text) => Stored::Text(text),
        KeyRef::Bytes(bytes) => Stored::Bytes(bytes),
        KeyRef::Timestamp(ns) => Stored::Moment(ns),
    }
}

fn key_value(value: KeyRef<'_>, ty: DataType) -> Result<Datum<'_>> {
    Ok(match value {
        KeyRef::Null => Datum::Null,
        KeyRef::Bool(value) => Datum::Bool(value),
        KeyRef::Int(value) => match ty {
            DataType::Int16 => Datum::Int2(i16::try_from(value).map_err(Error::bug)?),
            DataType::Int32 => Datum::Int4(i32::try_from(value).map_err(Error::bug)?),
            _ => Datum::Int8(value),
        },
        KeyRef::UInt(value) => Datum::Numeric(Numeric::new(value.into(), 0)),
        KeyRef::Text(text) => Datum::Text(text),
        KeyRef::Bytes(bytes) => Datum::Bytes(bytes),
        KeyRef::Timestamp(ns) => Datum::Timestamptz(ns.div_euclid(1_000)),
    })
}

/// A value of a stored type, for [`load`].
fn stored_of<'a>(value: &Datum<'a>, array: &ArrayRef, row: usize) -> Result<Stored<'a>> {
    Ok(match value {
        Datum::Null => Stored::Null,
        Datum::Int4(value) => Stored::Int((*value).into()),
        Datum::Int8(value) => Stored::Int(*value),
        Datum::Text(text) => Stored::Text(text),
        Datum::Bytes(bytes) => Stored::Bytes(bytes),
        Datum::Timestamptz(_) => Stored::Moment(array.as_primitive::<TimestampNanosecondType>().value(row)),
        other => return Err(Error::bug(format!("a declared type that is stored as {}", other.type_name()))),
    })
}

fn field_value(array: &ArrayRef, ty: DataType, row: usize) -> Result<Datum<'_>> {
    if array.is_null(row) {
        return Ok(Datum::Null);
    }
    if *array.data_type() != arrow_type(ty) {
        return Err(Error::bug(format!("values of type {} in a column of {}", array.data_type(), ty.sql_name())));
    }
    Ok(match ty {
        DataType::Bool => Datum::Bool(array.as_boolean().value(row)),
        DataType::Int16 => Datum::Int2(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => Datum::Int4(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Datum::Int8(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Datum::Numeric(Numeric::new(array.as_primitive::<UInt64Type>().value(row).into(), 0)),
        DataType::Float32 => Datum::Float4(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Datum::Float8(array.as_primitive::<Float64Type>().value(row)),
        DataType::Text => Datum::Text(array.as_string::<i32>().value(row)),
        DataType::Bytes => Datum::Bytes(array.as_binary::<i32>().value(row)),
        DataType::Timestamp => {
            Datum::Timestamptz(array.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000))
        }
    })
}
