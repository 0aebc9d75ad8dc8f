//! Builds batches for a `columns` table from the fields of a COPY stream, in any format.

use std::borrow::Cow;

use engine::{Batch, Op, Ops, Rows, SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX};
use model::stored::Stored;
use model::{
    Column as TableColumn, ColumnId, ColumnRole, DataType, Error, Result, SqlState, Table, TableRef, Type, key, limits,
};
use pg::types::oid;
use pg::{Datum, Form, Oid};

use super::Settings;
use super::sink::Sink;
use crate::batch_builder::{Column, Keys};
use crate::number::{self, Decimal};
use crate::small_batch::RowBuffer;

/// Limits of a batch.
const BATCH_ROWS_MAX: usize = 65_536;
const BATCH_BYTES_MAX: usize = 8 << 20;

pub(super) struct RowSet {
    table: TableRef,
    settings: Settings,
    targets: Vec<Target>,
    /// A NOT NULL column that is not in the column list: every row is an error.
    missing: Option<ColumnId>,
    /// Current line, from 1.
    line: u64,
    count: u64,
    keys: Keys,
    series: Vec<u32>,
    times: Vec<i64>,
    /// Field values while the batch is small …
    small: RowBuffer,
    /// … and columns once it is not; empty until then.
    fields: Vec<(ColumnId, Column)>,
    row: Row,
    /// Number and bytes of the previous row's key: devices send runs of rows.
    last_key: Option<(u32, Vec<u8>)>,
    batch_bytes: usize,
    full: Vec<Batch>,
}

/// The current row, except its values in columns.
#[derive(Default)]
struct Row {
    time: Option<i64>,
    /// Encoded key values by position; empty: NULL.
    key_values: Vec<Vec<u8>>,
    key: Vec<u8>,
    bytes: usize,
}

/// Destination of a field of the stream.
struct Target {
    id: ColumnId,
    ty: DataType,
    oid: Oid,
    nullable: bool,
    /// The type whose values are stored in another form.
    declared: Option<Type>,
    destination: Destination,
}

#[derive(Clone, Copy)]
enum Destination {
    Key(usize),
    Time,
    Field(usize),
}

/// A decoded value.
enum Cell<'a> {
    Bool(bool),
    Int(i64),
    UInt(u64),
    Float32(f32),
    Float64(f64),
    Bytes(Cow<'a, [u8]>),
    Time(i64),
}

impl RowSet {
    pub(super) fn new(table: TableRef, columns: &[ColumnId], settings: Settings) -> Result<RowSet> {
        let mut targets = Vec::with_capacity(columns.len());
        let mut seen = vec![false; table.next_column_id.0 as usize];
        for id in columns {
            let column = table.column_by_id(*id).ok_or_else(|| {
                Error::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("relation {} has no column with number {id}", table.name),
                )
            })?;
            if std::mem::replace(&mut seen[id.0 as usize], true) {
                let message = format!("column \"{}\" specified more than once", column.name);
                return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
            }
            targets.push(Target::new(&table, column));
        }
        // Fields with a default get it from the caller.
        let has_value = |column: &TableColumn| {
            column.nullable
                || seen[column.id.0 as usize]
                || (column.role == ColumnRole::Time && settings.time.is_some())
                || (column.role == ColumnRole::Field && table.rules.column(column.id).is_some())
        };
        let missing = table.columns.iter().find(|column| !has_value(column)).map(|column| column.id);
        let small = assign_destinations(&table, &mut targets);
        Ok(RowSet {
            settings,
            targets,
            missing,
            line: 0,
            count: 0,
            keys: Keys::default(),
            series: Vec::new(),
            times: Vec::new(),
            small,
            fields: Vec::new(),
            row: Row { key_values: vec![Vec::new(); table.key_columns().count()], ..Row::default() },
            last_key: None,
            batch_bytes: 0,
            full: Vec::new(),
            table,
        })
    }

    /// Moves finished batches to `out`.
    pub(super) fn take(&mut self, out: &mut Vec<Batch>) {
        out.append(&mut self.full);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let fields: usize = self.fields.iter().map(|(_, column)| column.memory_bytes()).sum();
        fields + self.small.memory_bytes() + self.keys.memory_bytes() + self.series.len() * 12
    }

    #[inline]
    fn put(&mut self, field: usize, cell: Cell<'_>) -> Result<()> {
        if let Cell::Bytes(bytes) = &cell {
            self.row.bytes += bytes.len();
        }
        match self.targets[field].destination {
            Destination::Field(at) => {
                let row = self.times.len();
                let is_large = || matches!(&cell, Cell::Bytes(bytes) if bytes.len() > SMALL_BATCH_BYTES_MAX);
                if self.fields.is_empty() && (row == SMALL_BATCH_ROWS_MAX || is_large()) {
                    // The row may have values already.
                    self.fields = self.small.spill(SMALL_BATCH_ROWS_MAX.min(row + 1));
                }
                match self.fields.get_mut(at) {
                    None => cell.put_small(&mut self.small, at, row),
                    Some((_, column)) => cell.put(column, self.targets[field].ty, row),
                }
            }
            Destination::Time => self.row.time = cell.time(),
            Destination::Key(position) => cell.encode(&mut self.row.key_values[position]),
        }
        Ok(())
    }

    fn check_nulls(&self) -> Result<()> {
        if let Some(column) = self.missing.and_then(|id| self.table.column_by_id(id)) {
            return Err(self.null_violation(&column.name));
        }
        let row = self.times.len();
        for target in self.targets.iter().filter(|target| !target.nullable) {
            let there = match target.destination {
                Destination::Key(position) => !self.row.key_values[position].is_empty(),
                Destination::Time => self.row.time.is_some(),
                Destination::Field(at) => match self.fields.get(at) {
                    None => self.small.has(at, row),
                    Some((_, column)) => column.len() > row,
                },
            };
            if !there {
                let name = self.table.column_by_id(target.id).map_or("", |column| &column.name);
                return Err(self.null_violation(name));
            }
        }
        Ok(())
    }

    #[cold]
    fn null_violation(&self, column: &str) -> Error {
        let message =
            format!("null value in column \"{column}\" of relation {} violates not-null constraint", self.table.name);
        self.at_line(Error::new(SqlState::NOT_NULL_VIOLATION, message))
    }

    /// Returns the number of the row's key in this batch.
    fn key_number(&mut self) -> Result<u32> {
        let key = &mut self.row.key;
        key.clear();
        let kept = self.row.key_values.iter().rposition(|value| !value.is_empty()).map_or(0, |last| last + 1);
        for value in &self.row.key_values[..kept] {
            match value.as_slice() {
                [] => key::push_null(key),
                value => key.extend_from_slice(value),
            }
        }
        if let Some((number, last)) = &self.last_key
            && last == key
        {
            return Ok(*number);
        }
        if key.len() > limits::KEY_BYTES_MAX {
            let message = format!("the key takes {} bytes; the limit is {}", key.len(), limits::KEY_BYTES_MAX);
            return Err(self.at_line(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        let (number, is_new) = self.keys.intern(key);
        self.batch_bytes += if is_new { 2 * key.len() + 48 } else { 0 };
        let mut last = self.last_key.take().unwrap_or_default().1;
        last.clone_from(key);
        self.last_key = Some((number, last));
        Ok(number)
    }

    /// Ends the current batch, if it has rows.
    pub(super) fn finish(&mut self) -> Result<()> {
        let rows = self.times.len();
        if rows == 0 {
            return Ok(());
        }
        let keys = std::mem::take(&mut self.keys).finish();
        let (series, times) = (std::mem::take(&mut self.series), std::mem::take(&mut self.times));
        let ops = Ops::All(Op::Replace);
        let rows = if self.fields.is_empty() && rows <= SMALL_BATCH_ROWS_MAX {
            Rows::from_small_batch(series, times, ops, self.small.pack(rows)?)
        } else {
            let mut columns = Vec::with_capacity(self.fields.len());
            for (id, column) in std::mem::take(&mut self.fields) {
                columns.extend(column.finish(rows)?.map(|array| (id, array)));
            }
            columns.sort_unstable_by_key(|(id, _)| *id);
            Rows::new(series, times, ops, columns)
        };
        self.full.push(Batch::new(keys, rows));
        self.last_key = None;
        self.batch_bytes = 0;
        Ok(())
    }
}

impl Sink for RowSet {
    fn table_name(&self) -> &str {
        &self.table.name.table
    }

    fn width(&self) -> usize {
        self.targets.len()
    }

    fn column_name(&self, field: usize) -> &str {
        self.table.column_by_id(self.targets[field].id).map_or("", |column| &column.name)
    }

    fn count(&self) -> u64 {
        self.count
    }

    fn line(&self) -> u64 {
        self.line
    }

    fn set_line(&mut self, line: u64) {
        self.line = line;
    }

    fn put_text(&mut self, field: usize, text: &[u8]) -> Result<()> {
        let target = &self.targets[field];
        match target.read_text(text, &self.settings).and_then(|cell| check_size(cell, text.len())) {
            Ok(cell) => self.put(field, cell),
            Err(error) => Err(self.at_field(error, field, Some(text))),
        }
    }

    #[inline]
    fn put_binary(&mut self, field: usize, bytes: &[u8]) -> Result<()> {
        match self.targets[field].read_binary(bytes, &self.settings) {
            Ok(cell) => self.put(field, cell),
            Err(error) => Err(self.at_field(error, field, None)),
        }
    }

    fn end_row(&mut self) -> Result<()> {
        self.check_nulls()?;
        let bytes = self.row.bytes + 16 * self.targets.len();
        if bytes > limits::ROW_BYTES_MAX {
            let message = format!("the row takes {bytes} bytes; the limit is {}", limits::ROW_BYTES_MAX);
            return Err(self.at_line(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        let series = self.key_number()?;
        self.series.push(series);
        self.times.push(self.row.time.take().or(self.settings.time).unwrap_or_default());
        self.row.key_values.iter_mut().for_each(Vec::clear);
        self.batch_bytes += 12 + self.row.bytes + 8 * self.targets.len();
        self.row.bytes = 0;
        self.count += 1;
        if self.fields.is_empty() && self.small.is_large() {
            self.fields = self.small.spill(self.times.len());
        }
        if self.times.len() >= BATCH_ROWS_MAX || self.batch_bytes >= BATCH_BYTES_MAX {
            self.finish()?;
        }
        Ok(())
    }
}

/// Sets the destination of each field, and creates the builder for the table's field columns.
fn assign_destinations(table: &TableRef, targets: &mut [Target]) -> RowBuffer {
    let key_ids: Vec<ColumnId> = table.key_columns().map(|column| column.id).collect();
    let time_id = table.time_column().id;
    let mut fields = Vec::with_capacity(targets.len());
    for target in targets {
        target.destination = match key_ids.iter().position(|id| *id == target.id) {
            Some(position) => Destination::Key(position),
            None if target.id == time_id => Destination::Time,
            None => {
                fields.push((target.id, target.ty));
                Destination::Field(fields.len() - 1)
            }
        };
    }
    RowBuffer::new(fields.into_iter())
}

fn check_size(cell: Cell<'_>, text_bytes: usize) -> Result<Cell<'_>> {
    if text_bytes <= limits::VALUE_BYTES_MAX {
        return Ok(cell);
    }
    let bytes = match &cell {
        Cell::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes <= limits::VALUE_BYTES_MAX {
        return Ok(cell);
    }
    let message = format!("the value has {bytes} bytes; the limit is {}", limits::VALUE_BYTES_MAX);
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
}

impl Target {
    fn new(table: &Table, column: &TableColumn) -> Target {
        // The constraints of a domain are checked by the caller, who also knows its default.
        let nullable = column.nullable && column.role != ColumnRole::Time;
        let (oid, destination, declared) = (oid_of(column.ty), Destination::Time, table.declared(column));
        Target { id: column.id, ty: column.ty, oid, nullable, declared, destination }
    }

    /// A value of a type that is stored in another form.
    #[cold]
    fn declared(ty: Type, form: Form, bytes: &[u8], settings: &Settings) -> Result<Cell<'static>> {
        Ok(match settings.inputs.stored(ty, form, bytes)? {
            Stored::Int(value) => Cell::Int(value),
            Stored::Made(text) => Cell::Bytes(Cow::Owned(text.into_bytes())),
            Stored::Encoded(bytes) => Cell::Bytes(Cow::Owned(bytes)),
            Stored::Moment(ns) => Cell::Time(ns),
            Stored::Text(text) => Cell::Bytes(Cow::Borrowed(text.as_bytes())),
            Stored::Bytes(bytes) => Cell::Bytes(Cow::Borrowed(bytes)),
            Stored::Null => return Err(Error::bug(format!("a value of type {ty} that is NULL"))),
        })
    }

    /// Fast path for integers and floats. Anything else is parsed by `pg`, which knows all formats
    /// and errors.
    fn read_text<'a>(&self, text: &'a [u8], settings: &Settings) -> Result<Cell<'a>> {
        if let Some(ty) = self.declared {
            return Target::declared(ty, Form::Text, text, settings);
        }
        let number = || number::scan(text).filter(|decimal| decimal.len == text.len());
        let cell = match self.ty {
            DataType::Float64 => number().and_then(|decimal| float_cell(decimal, text)),
            DataType::Int64 => number().and_then(|decimal| decimal.to_i64(text)).map(Cell::Int),
            _ => None,
        };
        match cell {
            Some(cell) => Ok(cell),
            None => self.cell(pg::decode(self.oid, Form::Text, text, settings.zones.as_ref())?),
        }
    }

    #[inline]
    fn read_binary<'a>(&self, bytes: &'a [u8], settings: &Settings) -> Result<Cell<'a>> {
        if let Some(ty) = self.declared {
            return Target::declared(ty, Form::Binary, bytes, settings);
        }
        match (self.ty, bytes.as_chunks::<8>()) {
            (DataType::Float64, ([chunk], [])) => Ok(Cell::Float64(f64::from_be_bytes(*chunk))),
            (DataType::Int64, ([chunk], [])) => Ok(Cell::Int(i64::from_be_bytes(*chunk))),
            _ => self.cell(pg::decode(self.oid, Form::Binary, bytes, settings.zones.as_ref())?),
        }
    }

    fn cell<'a>(&self, datum: Datum<'a>) -> Result<Cell<'a>> {
        Ok(match datum {
            Datum::Bool(value) => Cell::Bool(value),
            Datum::Int2(value) => Cell::Int(value.into()),
            Datum::Int4(value) => Cell::Int(value.into()),
            Datum::Int8(value) => Cell::Int(value),
            Datum::Float4(value) => Cell::Float32(value),
            Datum::Float8(value) => Cell::Float64(value),
            Datum::Numeric(value) => Cell::UInt(unsigned(&value)?),
            Datum::Timestamptz(value) => Cell::Time(value),
            Datum::Bytes(value) => Cell::Bytes(value),
            Datum::Text(value) => Cell::Bytes(text_cell(value)?),
            other => return Err(Error::bug(format!("{other:?} for a column of type {:?}", self.ty))),
        })
    }
}

/// Returns `None` for a result that is zero, subnormal or infinite from a non-zero input: `pg` decides
/// whether it is an error.
fn float_cell(decimal: Decimal, text: &[u8]) -> Option<Cell<'static>> {
    let value = decimal.to_f64(text);
    let zero = decimal.exact && decimal.mantissa == 0;
    (value.is_normal() || zero).then_some(Cell::Float64(value))
}

fn text_cell(text: Cow<'_, str>) -> Result<Cow<'_, [u8]>> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        let message = "invalid byte sequence for encoding \"UTF8\": 0x00";
        return Err(Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    Ok(match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    })
}

/// Converts a numeric to u64, rounding half away from zero like `numeric(20)`.
fn unsigned(value: &pg::numeric::Numeric) -> Result<u64> {
    let rounded = value.round(0).ok().and_then(|rounded| rounded.as_decimal()).map(|(value, _)| value);
    rounded.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| {
        Error::new(
            SqlState::NUMERIC_OUT_OF_RANGE,
            "value is out of range for an unsigned 64-bit integer (0 to 18446744073709551615)",
        )
    })
}

/// The PostgreSQL type that clients see for a stored type.
#[must_use]
pub fn oid_of(ty: DataType) -> Oid {
    match ty {
        DataType::Bool => oid::BOOL,
        DataType::Int16 => oid::INT2,
        DataType::Int32 => oid::INT4,
        DataType::Int64 => oid::INT8,
        DataType::UInt64 => oid::NUMERIC,
        DataType::Float32 => oid::FLOAT4,
        DataType::Float64 => oid::FLOAT8,
        DataType::Text => oid::TEXT,
        DataType::Bytes => oid::BYTEA,
        DataType::Timestamp => oid::TIMESTAMPTZ,
    }
}

impl Cell<'_> {
    /// Writes the value at `row`. `Target` decoded it to the column's type.
    #[inline]
    fn put(&self, column: &mut Column, ty: DataType, row: usize) {
        let done = match (self, ty) {
            (Cell::Float64(value), _) => column.put_f64(row, *value),
            (Cell::Int(value), DataType::Int16) => column.put_i16(row, *value as i16),
            (Cell::Int(value), DataType::Int32) => column.put_i32(row, *value as i32),
            (Cell::Int(value), _) => column.put_i64(row, *value),
            (Cell::Bool(value), _) => column.put_bool(row, *value),
            (Cell::UInt(value), _) => column.put_u64(row, *value),
            (Cell::Float32(value), _) => column.put_f32(row, *value),
            (Cell::Time(value), _) => column.put_timestamp(row, *value),
            (Cell::Bytes(value), _) => column.put_bytes(row, value),
        };
        debug_assert!(done, "BUG: a value for a column of another type");
    }

    /// Writes the value at `row` of a small batch.
    #[inline]
    fn put_small(&self, small: &mut RowBuffer, field: usize, row: usize) {
        let word = match self {
            Cell::Float64(value) => value.to_bits(),
            Cell::Int(value) | Cell::Time(value) => value.cast_unsigned(),
            Cell::Bool(value) => u64::from(*value),
            Cell::UInt(value) => *value,
            Cell::Float32(value) => u64::from(value.to_bits()),
            Cell::Bytes(value) => return small.put_bytes(field, row, value),
        };
        small.put(field, row, word);
    }

    fn time(&self) -> Option<i64> {
        match self {
            Cell::Time(value) | Cell::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// Encodes the value as a key part.
    fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Cell::Bool(value) => key::push_bool(out, *value),
            Cell::Int(value) | Cell::Time(value) => key::push_i64(out, *value),
            Cell::UInt(value) => key::push_i64(out, value.cast_signed()),
            Cell::Bytes(value) => key::push_bytes(out, value),
            // Key columns are never floats.
            Cell::Float32(_) | Cell::Float64(_) => {}
        }
    }
}
