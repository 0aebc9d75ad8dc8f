//! Builder for the rows of one table of a request.

use std::borrow::Cow;
use std::collections::HashMap;

use engine::{ColumnSpec, Op, TableSpec};
use model::stored::Stored;
use model::{ColumnId, ColumnRole, DataType, Error, SqlState, TableName, TableOptions, TableRef, Type, key, limits};
use pg::Form;

use super::head::Tag;
use super::{Budget, Fault, Parse, TableWrite, quoted, word};
use crate::Inputs;
use crate::batch_builder::{Column, Keys};

/// Time column of tables created by line protocol.
const TIME: &str = "time";
/// Linear searches for names in an existing table before a map of all its columns is built.
const SEARCHES_MAX: usize = 8;
/// Memory charged per name, in addition to its bytes.
const SLOT_BYTES: usize = 200;

/// A parsed field value.
pub(super) enum FieldValue<'a> {
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Bool(bool),
    /// Nanoseconds since 1970.
    Timestamp(i64),
    Text(&'a [u8]),
}

pub(super) struct TableBuilder<'a> {
    name: TableName,
    existing: Option<&'a TableRef>,
    inputs: &'a dyn Inputs,
    keyed: bool,
    slots: Vec<Slot>,
    slot_names: HashMap<Box<str>, u32>,
    search: Search<'a>,
    /// Raw field names in order of appearance: the fields of a line usually have the same order.
    pub(super) order: Vec<(&'a [u8], u32)>,
    /// Slots of the key columns, in key order.
    key_slots: Vec<u32>,
    /// NOT NULL fields.
    required: Vec<u32>,
    /// Number of columns that the table will have.
    columns: usize,
    keys: Keys,
    series: Vec<u32>,
    times: Vec<i64>,
    /// Start of each row's line in the body, if the table has rules.
    starts: Vec<usize>,
    line: Line,
}

/// Changes made by the current line, to undo them if it is refused.
#[derive(Default)]
struct Line {
    /// Slots with a value in this row.
    touched: Vec<u32>,
    /// Slots that became columns.
    added_columns: Vec<u32>,
    key_is_new: bool,
    text_bytes: usize,
}

/// A name and its meaning.
struct Slot {
    name: Box<str>,
    id: Option<ColumnId>,
    /// Position in `order`.
    place: Option<u32>,
    kind: Kind,
    /// The type of an existing column whose values are stored in another form.
    declared: Option<Type>,
}

enum Kind {
    /// Named by refused lines only: may still become any kind of column.
    Unassigned,
    Time,
    Key {
        ty: DataType,
        position: u32,
        nullable: bool,
    },
    Field {
        ty: DataType,
        column: Column,
    },
}

/// Lookup of names in an existing table.
#[derive(Default)]
struct Search<'a> {
    /// Likely position of the next name: lines usually name columns in the order of their creation.
    next: usize,
    searches: usize,
    map: HashMap<&'a str, usize>,
}

impl<'a> TableBuilder<'a> {
    pub(super) fn new(name: TableName, existing: Option<&'a TableRef>, inputs: &'a dyn Inputs) -> TableBuilder<'a> {
        let mut build = TableBuilder {
            name,
            existing,
            inputs,
            keyed: existing.is_none_or(|table| table.keyed),
            slots: Vec::new(),
            slot_names: HashMap::new(),
            search: Search::default(),
            order: Vec::new(),
            key_slots: Vec::new(),
            required: Vec::new(),
            columns: 1,
            keys: Keys::default(),
            series: Vec::new(),
            times: Vec::new(),
            starts: Vec::new(),
            line: Line::default(),
        };
        match existing {
            None => build.push_slot(TIME, None, Kind::Time),
            Some(table) => build.add_existing(table),
        };
        build
    }

    /// Adds the slots that every line needs: keys and NOT NULL fields. Others are added when they
    /// are named.
    fn add_existing(&mut self, table: &'a TableRef) -> usize {
        self.columns = table.columns.len();
        for at in 0..table.columns.len() {
            let column = &table.columns[at];
            if column.role == ColumnRole::Key || (column.role == ColumnRole::Field && !column.nullable) {
                self.add_existing_column(at);
            }
        }
        self.slots.len()
    }

    fn add_existing_column(&mut self, at: usize) -> usize {
        let Some(column) = self.existing.and_then(|table| table.columns.get(at)) else { return 0 };
        let slot = self.slots.len() as u32;
        let kind = match column.role {
            ColumnRole::Time => Kind::Time,
            ColumnRole::Key => {
                self.key_slots.push(slot);
                Kind::Key { ty: column.ty, position: self.key_slots.len() as u32 - 1, nullable: column.nullable }
            }
            ColumnRole::Field => {
                // A default is applied by the caller, who also checks what a domain refuses.
                if !column.nullable && self.existing.is_none_or(|table| table.rules.column(column.id).is_none()) {
                    self.required.push(slot);
                }
                Kind::Field { ty: column.ty, column: Column::new(column.ty) }
            }
        };
        let declared = self.existing.and_then(|table| table.declared(column));
        let slot = self.push_slot(&column.name, Some(column.id), kind);
        self.slots[slot].declared = declared;
        slot
    }

    fn push_slot(&mut self, name: &str, id: Option<ColumnId>, kind: Kind) -> usize {
        let slot = self.slots.len();
        self.slots.push(Slot { name: name.into(), id, place: None, kind, declared: None });
        self.slot_names.insert(name.into(), slot as u32);
        slot
    }

    /// Returns the slot of `name`, adding it if needed.
    pub(super) fn slot(&mut self, name: &str, budget: &mut Budget) -> Parse<usize> {
        if let Some(slot) = self.slot_names.get(name) {
            return Ok(*slot as usize);
        }
        budget.take(SLOT_BYTES + name.len()).map_err(Fault::Request)?;
        if let Some(table) = self.existing
            && let Some(at) = self.search.find(table, name)
        {
            return Ok(self.add_existing_column(at));
        }
        Ok(self.push_slot(name, None, Kind::Unassigned))
    }

    /// Notes that a field was written as `raw`; returns the position of the next field in `order`.
    pub(super) fn follow(&mut self, slot: usize, raw: &'a [u8]) -> usize {
        let order = &mut self.order;
        let place = *self.slots[slot].place.get_or_insert_with(|| {
            order.push((raw, slot as u32));
            order.len() as u32 - 1
        });
        place as usize + 1
    }

    pub(super) fn name_of(&self, slot: usize) -> &str {
        &self.slots[slot].name
    }

    /// Returns the number of the series key with these tags.
    pub(super) fn key(&mut self, tags: &[Tag<'_>], budget: &mut Budget) -> Parse<u32> {
        if !self.keyed && !tags.is_empty() {
            let message = format!("tag \"{}\" for table {}, which has no key columns", tags[0].0, self.name);
            return Err(Fault::line(SqlState::DATATYPE_MISMATCH, message));
        }
        let mut values = Vec::with_capacity(tags.len());
        for (name, value) in tags {
            let slot = self.slot(name, budget)?;
            let position = self.key_position(slot)?;
            let value = match self.slots[slot].declared {
                None => Cow::Borrowed(value.as_ref()),
                Some(ty) => Cow::Owned(self.stored_tag(slot, ty, value)?),
            };
            values.push((position, name.as_ref(), value));
        }
        values.sort_unstable_by_key(|(position, ..)| *position);
        if let Some(twice) = values.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Fault::line(SqlState::DUPLICATE_COLUMN, format!("tag \"{}\" is given twice", twice[0].1)));
        }
        self.check_required_keys(&values)?;
        let bytes = key_bytes(&values);
        if bytes.len() > limits::KEY_BYTES_MAX {
            let message =
                format!("the tags take {} bytes as a key; the limit is {}", bytes.len(), limits::KEY_BYTES_MAX);
            return Err(Fault::line(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        budget.take(2 * bytes.len()).map_err(Fault::Request)?;
        let (number, is_new) = self.keys.intern(&bytes);
        self.line.key_is_new = is_new;
        Ok(number)
    }

    /// Returns the position of a tag in the key; a new tag becomes a key column.
    fn key_position(&mut self, slot: usize) -> Parse<u32> {
        match &self.slots[slot].kind {
            Kind::Key { ty: DataType::Text, position, .. } => Ok(*position),
            Kind::Key { ty, .. } => {
                Err(self.mismatch(slot, "a tag", &format!("a key column of type {}", ty.sql_name())))
            }
            Kind::Field { ty, .. } => Err(self.mismatch(slot, "a tag", &format!("a field of type {}", ty.sql_name()))),
            Kind::Time => Err(self.mismatch(slot, "a tag", "the time column")),
            Kind::Unassigned => {
                let position = self.key_slots.len() as u32;
                self.add_column(slot, Kind::Key { ty: DataType::Text, position, nullable: true })?;
                self.key_slots.push(slot as u32);
                Ok(position)
            }
        }
    }

    /// The stored form of a tag of a key column with another type.
    #[cold]
    fn stored_tag(&self, slot: usize, ty: Type, value: &str) -> Parse<String> {
        match self.inputs.stored(ty, Form::Text, value.as_bytes()) {
            Ok(Stored::Made(text)) => Ok(text),
            Ok(other) => Err(Fault::Request(Error::bug(format!("{other:?} in a key column of type {ty}")))),
            Err(error) => Err(Fault::Line(self.in_column(slot, error))),
        }
    }

    fn in_column(&self, slot: usize, error: Error) -> Error {
        error.context(format_args!("column \"{}\" of table {}", self.name_of(slot), self.name))
    }

    fn check_required_keys(&self, values: &[(u32, &str, Cow<'_, str>)]) -> Parse<()> {
        for slot in &self.key_slots {
            let slot = &self.slots[*slot as usize];
            if let Kind::Key { position, nullable: false, .. } = slot.kind
                && values.binary_search_by_key(&position, |(position, ..)| *position).is_err()
            {
                let message = format!(
                    "key column \"{}\" of table {} is NOT NULL, but the line has no such tag",
                    slot.name, self.name
                );
                return Err(Fault::line(SqlState::NOT_NULL_VIOLATION, message));
            }
        }
        Ok(())
    }

    /// Makes the name of a slot a column.
    fn add_column(&mut self, slot: usize, kind: Kind) -> Parse<()> {
        if self.columns >= limits::COLUMNS_PER_TABLE_MAX {
            let message = format!(
                "column \"{}\" would be number {} of table {}; the limit is {}",
                self.name_of(slot),
                self.columns + 1,
                self.name,
                limits::COLUMNS_PER_TABLE_MAX
            );
            return Err(Fault::line(SqlState::TOO_MANY_COLUMNS, message));
        }
        self.columns += 1;
        self.slots[slot].kind = kind;
        self.line.added_columns.push(slot as u32);
        Ok(())
    }

    /// Writes a value to the current row. `text` starts with the value as written.
    #[inline]
    pub(super) fn put(&mut self, slot: usize, seen: FieldValue<'_>, text: &[u8], budget: &mut Budget) -> Parse<()> {
        let row = self.times.len();
        let Slot { kind, declared, .. } = &mut self.slots[slot];
        let Kind::Field { column, .. } = kind else {
            return self.put_first(slot, seen, text, budget);
        };
        if let Some(ty) = *declared {
            return self.put_declared(slot, ty, seen, text, budget);
        }
        let len = column.len();
        if len < row {
            budget.take(column.pad_bytes(row)).map_err(Fault::Request)?;
        }
        let done = match seen {
            FieldValue::Float(value) => column.put_f64(row, value),
            FieldValue::Integer(value) => column.put_i64(row, value),
            FieldValue::Unsigned(value) => column.put_u64(row, value),
            FieldValue::Bool(value) => column.put_bool(row, value),
            FieldValue::Timestamp(value) => column.put_timestamp(row, value),
            FieldValue::Text(value) => {
                self.line.text_bytes += value.len();
                is_text(&self.slots[slot].kind) && self.put_text(slot, row, value)
            }
        };
        if !done {
            self.put_narrow(slot, &seen, text)?;
        }
        // A duplicate field was noted already.
        if len <= row {
            self.line.touched.push(slot as u32);
        }
        Ok(())
    }

    /// Writes a value of a type that is stored in another form.
    #[cold]
    fn put_declared(
        &mut self,
        slot: usize,
        ty: Type,
        seen: FieldValue<'_>,
        text: &[u8],
        budget: &mut Budget,
    ) -> Parse<()> {
        let row = self.times.len();
        let is_json = matches!(ty.sql_name(), "json" | "jsonb");
        let is_number = matches!(ty, Type::Numeric(_)) || is_json;
        let given = match seen {
            FieldValue::Text(value) => Cow::Borrowed(value),
            // All digits that were written.
            FieldValue::Float(_) | FieldValue::Integer(_) | FieldValue::Unsigned(_)
                if matches!(ty, Type::Numeric(_)) =>
            {
                Cow::Owned(
                    word(text, 0).trim_ascii_end().iter().copied().filter(|byte| !b"iu".contains(byte)).collect(),
                )
            }
            FieldValue::Float(value) if is_number => Cow::Owned(value.to_string().into_bytes()),
            FieldValue::Integer(value) if is_number => Cow::Owned(value.to_string().into_bytes()),
            FieldValue::Unsigned(value) if is_number => Cow::Owned(value.to_string().into_bytes()),
            FieldValue::Bool(value) if is_json => Cow::Owned(value.to_string().into_bytes()),
            _ => {
                let seen = format!("{} {}", seen.what(), quoted(word(text, 0)));
                return Err(self.mismatch(slot, &seen, &ty.to_string()));
            }
        };
        let stored = self.inputs.stored(ty, Form::Text, &given);
        let stored = stored.map_err(|error| Fault::Line(self.in_column(slot, error)))?;
        let Kind::Field { column, ty: form } = &mut self.slots[slot].kind else {
            return Err(Fault::Request(Error::bug("a declared type of no field")));
        };
        let len = column.len();
        if len < row {
            budget.take(column.pad_bytes(row)).map_err(Fault::Request)?;
        }
        let put_bytes = |column: &mut Column, bytes: &[u8]| (column.put_bytes(row, bytes), bytes.len());
        let (done, bytes) = match (&stored, *form) {
            (Stored::Int(value), DataType::Int32) => {
                (i32::try_from(*value).is_ok_and(|value| column.put_i32(row, value)), 0)
            }
            (Stored::Int(value), _) => (column.put_i64(row, *value), 0),
            (Stored::Moment(ns), _) => (column.put_timestamp(row, *ns), 0),
            (Stored::Text(text), _) => put_bytes(column, text.as_bytes()),
            (Stored::Made(text), _) => put_bytes(column, text.as_bytes()),
            (Stored::Bytes(bytes), _) => put_bytes(column, bytes),
            (Stored::Encoded(bytes), _) => put_bytes(column, bytes),
            (Stored::Null, _) => (false, 0),
        };
        if !done {
            return Err(Fault::Request(Error::bug(format!("{stored:?} in a field of type {ty}"))));
        }
        self.line.text_bytes += bytes;
        // A duplicate field was noted already.
        if len <= row {
            self.line.touched.push(slot as u32);
        }
        Ok(())
    }

    fn put_text(&mut self, slot: usize, row: usize, value: &[u8]) -> bool {
        let Kind::Field { column, .. } = &mut self.slots[slot].kind else { return false };
        column.put_bytes(row, value)
    }

    /// The first value of a name makes it a field column.
    #[cold]
    fn put_first(&mut self, slot: usize, seen: FieldValue<'_>, text: &[u8], budget: &mut Budget) -> Parse<()> {
        match &self.slots[slot].kind {
            Kind::Unassigned => {
                let ty = seen.ty();
                self.add_column(slot, Kind::Field { ty, column: Column::new(ty) })?;
                self.put(slot, seen, text, budget)
            }
            Kind::Time => Err(self.mismatch(slot, "a field", "the time column")),
            _ => Err(self.mismatch(slot, "a field", "a tag")),
        }
    }

    /// A column created by SQL may have a narrower type than the value; accept values in its range.
    #[cold]
    fn put_narrow(&mut self, slot: usize, seen: &FieldValue<'_>, text: &[u8]) -> Parse<()> {
        let row = self.times.len();
        let Kind::Field { ty, column } = &mut self.slots[slot].kind else { return Ok(()) };
        let ty = *ty;
        let fits = match (seen, ty) {
            (FieldValue::Integer(value), DataType::Int32) => {
                i32::try_from(*value).is_ok_and(|value| column.put_i32(row, value))
            }
            (FieldValue::Integer(value), DataType::Int16) => {
                i16::try_from(*value).is_ok_and(|value| column.put_i16(row, value))
            }
            (FieldValue::Float(_), DataType::Float32) => {
                let value = crate::number::scan(text).map_or(f32::INFINITY, |decimal| decimal.to_f32(text));
                value.is_finite() && column.put_f32(row, value)
            }
            _ => {
                let value = match seen {
                    // Unescaped: the raw text has quotes and may contain spaces.
                    FieldValue::Text(value) => quoted(value),
                    _ => quoted(word(text, 0)),
                };
                let seen = format!("{} {value}", seen.what());
                return Err(self.mismatch(slot, &seen, ty.sql_name()));
            }
        };
        if fits {
            return Ok(());
        }
        let message = format!(
            "column \"{}\" of table {}: {} is out of range for {}",
            self.name_of(slot),
            self.name,
            quoted(word(text, 0)),
            ty.sql_name()
        );
        Err(Fault::line(SqlState::NUMERIC_OUT_OF_RANGE, message))
    }

    #[cold]
    fn mismatch(&self, slot: usize, seen: &str, expected: &str) -> Fault {
        let message = format!("column \"{}\" of table {} is {expected}, seen {seen}", self.name_of(slot), self.name);
        Fault::line(SqlState::DATATYPE_MISMATCH, message)
    }

    /// Completes the row; returns its number of values.
    pub(super) fn push_row(&mut self, key: u32, time: i64, budget: &mut Budget) -> Parse<usize> {
        let row = self.times.len();
        let values = self.line.touched.len();
        for slot in &self.required {
            let slot = &self.slots[*slot as usize];
            if matches!(&slot.kind, Kind::Field { column, .. } if column.len() <= row) {
                let message = format!(
                    "column \"{}\" of table {} is NOT NULL, but the line has no such field",
                    slot.name, self.name
                );
                return Err(Fault::line(SqlState::NOT_NULL_VIOLATION, message));
            }
        }
        // Upper bound: 8 bytes per value and as much for its column.
        let bytes = self.line.text_bytes + 16 * values;
        if bytes > limits::ROW_BYTES_MAX {
            let message = format!("the row takes {bytes} bytes; the limit is {}", limits::ROW_BYTES_MAX);
            return Err(Fault::line(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        budget.take(12 + 8 * values).map_err(Fault::Request)?;
        self.series.push(key);
        self.times.push(time);
        Ok(values)
    }

    /// Keeps the line's changes. `start`: its place in the body.
    pub(super) fn accept(&mut self, start: usize) {
        if self.existing.is_some_and(|table| !table.rules.is_empty()) {
            self.starts.push(start);
        }
        self.clear_line();
    }

    fn clear_line(&mut self) {
        self.line.touched.clear();
        self.line.added_columns.clear();
        self.line.key_is_new = false;
        self.line.text_bytes = 0;
    }

    /// Undoes the line's changes.
    #[cold]
    pub(super) fn refuse(&mut self) {
        let row = self.times.len();
        for slot in &self.line.touched {
            if let Kind::Field { column, .. } = &mut self.slots[*slot as usize].kind {
                column.truncate(row);
            }
        }
        for slot in std::mem::take(&mut self.line.added_columns) {
            let slot = &mut self.slots[slot as usize];
            if matches!(slot.kind, Kind::Key { .. }) {
                self.key_slots.pop();
            }
            slot.kind = Kind::Unassigned;
            self.columns -= 1;
        }
        if self.line.key_is_new {
            self.keys.pop();
        }
        self.clear_line();
    }

    /// Returns the rows of the table; `None` if no line was accepted.
    pub(super) fn finish(mut self, budget: &mut Budget) -> model::Result<Option<TableWrite>> {
        let rows = self.times.len();
        if rows == 0 {
            return Ok(None);
        }
        let new_columns = self.new_columns();
        let mut columns = Vec::new();
        for slot in self.slots {
            let Kind::Field { column, .. } = slot.kind else { continue };
            budget.take(column.pad_bytes(if column.len() == 0 { 0 } else { rows }))?;
            if let Some(array) = column.finish(rows)? {
                columns.push((slot.name.into(), slot.id, array));
            }
        }
        let (spec, new_columns) = match self.existing {
            Some(_) => (None, new_columns),
            None => (Some(table_spec(&self.name, new_columns)), Vec::new()),
        };
        Ok(Some(TableWrite {
            name: self.name,
            table: self.existing.cloned(),
            spec,
            new_columns,
            op: if self.keyed { Op::Merge } else { Op::Replace },
            keys: self.keys.finish(),
            series: std::mem::take(&mut self.series),
            times: std::mem::take(&mut self.times),
            starts: std::mem::take(&mut self.starts),
            columns,
            first: None,
        }))
    }

    /// Key columns first: their order is the order of values in keys.
    fn new_columns(&self) -> Vec<ColumnSpec> {
        let keys = self.key_slots.iter().map(|slot| &self.slots[*slot as usize]);
        let fields = self.slots.iter().filter(|slot| matches!(slot.kind, Kind::Field { .. }));
        let new = keys.chain(fields).filter(|slot| slot.id.is_none());
        new.map(|slot| {
            let (ty, role) = match &slot.kind {
                Kind::Field { ty, .. } => (*ty, ColumnRole::Field),
                _ => (DataType::Text, ColumnRole::Key),
            };
            ColumnSpec { name: slot.name.to_string(), ty, nullable: true, role }
        })
        .collect()
    }
}

impl<'a> Search<'a> {
    fn find(&mut self, table: &'a TableRef, name: &str) -> Option<usize> {
        let columns = &table.columns;
        let found = if columns.get(self.next).is_some_and(|column| column.name == name) {
            Some(self.next)
        } else if self.searches < SEARCHES_MAX {
            self.searches += 1;
            columns.iter().position(|column| column.name == name)
        } else {
            if self.map.is_empty() {
                self.map = columns.iter().enumerate().map(|(at, column)| (column.name.as_str(), at)).collect();
            }
            self.map.get(name).copied()
        };
        self.next = found.map_or(self.next, |at| at + 1);
        found
    }
}

impl FieldValue<'_> {
    /// Column type for a value of this kind.
    fn ty(&self) -> DataType {
        match self {
            FieldValue::Float(_) => DataType::Float64,
            FieldValue::Integer(_) => DataType::Int64,
            FieldValue::Unsigned(_) => DataType::UInt64,
            FieldValue::Bool(_) => DataType::Bool,
            FieldValue::Timestamp(_) => DataType::Timestamp,
            FieldValue::Text(_) => DataType::Text,
        }
    }

    fn what(&self) -> &'static str {
        match self {
            FieldValue::Float(_) => "float",
            FieldValue::Integer(_) => "integer",
            FieldValue::Unsigned(_) => "unsigned integer",
            FieldValue::Bool(_) => "boolean",
            FieldValue::Timestamp(_) => "timestamp",
            FieldValue::Text(_) => "string",
        }
    }
}

fn is_text(kind: &Kind) -> bool {
    matches!(kind, Kind::Field { ty: DataType::Text, .. })
}

/// Encodes a key from values sorted by position; missing values are NULL.
fn key_bytes(values: &[(u32, &str, Cow<'_, str>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut next = 0;
    for (position, _, value) in values {
        for _ in next..*position {
            key::push_null(&mut bytes);
        }
        key::push_bytes(&mut bytes, value.as_bytes());
        next = position + 1;
    }
    bytes
}

fn table_spec(name: &TableName, columns: Vec<ColumnSpec>) -> TableSpec {
    let time = ColumnSpec { name: TIME.into(), ty: DataType::Timestamp, nullable: false, role: ColumnRole::Time };
    TableSpec {
        name: name.clone(),
        keyed: true,
        columns: std::iter::once(time).chain(columns).collect(),
        options: TableOptions::default(),
    }
}
