//! Binary row format: any field can be read without decoding the others.
//!
//! Little-endian. *Slots* are in column order, so a column's slot has the same offset in every row
//! of a table, including rows written before later columns were added.
//!
//! | part   | size                     | meaning                                                                  |
//! |--------|-------------------------:|--------------------------------------------------------------------------|
//! | count  |                        2 | fields in this row: the table's columns when it was written              |
//! | slots  |     by type, table below | fixed-size: the value; variable: end offset of the value in the row (u32) |
//! | nulls  | count / 8, rounded up    | bit `c % 8` of byte `c / 8`: column c is NULL; its slot is zero or, if variable, denotes an empty value |
//! | values | the rest                 | variable values in column order, without gaps                            |
//!
//! | type                                        | slot | value                                                              |
//! |---------------------------------------------|-----:|--------------------------------------------------------------------|
//! | bool                                        |    1 | 0 or 1                                                             |
//! | smallint; integer, date; bigint, time, timestamp(tz) | 2; 4; 8 | two's complement                                       |
//! | real; double precision                      | 4; 8 | IEEE bits                                                          |
//! | numeric(p, s), 0 <= s, p <= 18; p <= 38     | 8; 16 | value × 10^s; the largest integer of that size is NaN             |
//! | other numeric                               |    4 | variable: `Numeric::write_bytes`                                   |
//! | interval                                    |   16 | microseconds (8), days (4), months (4)                             |
//! | uuid                                        |   16 | its 16 bytes                                                       |
//! | text, varchar, char, json; bytea            |    4 | variable: UTF-8; bytes. char without trailing blanks               |
//! | name, "char", jsonb, jsonpath               |    4 | variable: UTF-8; jsonb in its canonical text                       |
//! | oid, xid, cid, regclass and other reg types |    4 | unsigned                                                           |
//! | arrays, ranges, bit strings and other types |    4 | variable: `model::encoding`                                        |
//!
//! Always true: bytes that are not a row of the layout cause an error (XX001), never a panic,
//! because rows are also read from the log.

use model::limits::{COLUMNS_PER_TABLE_MAX, ROW_BYTES_MAX};
use model::{
    Datum, Error, Interval, Numeric, Precision, Result, RowColumn, RowSchema, SqlState, Storage, Type, encoding,
};

/// Bytes of the field count.
const COUNT_BYTES: usize = 2;
/// Bytes of a variable-size value's slot.
const END_BYTES: usize = 4;
/// Numerics with up to this many digits are stored as a scaled i64.
const DIGITS_64: u16 = 18;
/// Numerics with up to this many digits are stored as a scaled i128.
const DIGITS_128: u16 = 38;

const _: () = assert!(COLUMNS_PER_TABLE_MAX <= u16::MAX as usize && ROW_BYTES_MAX <= u32::MAX as usize);

/// Type, nullability and missing value of one column.
#[derive(Clone, Debug)]
pub struct ColumnLayout<'a> {
    /// The column's type.
    pub ty: Type,
    /// Whether the column is NOT NULL.
    pub not_null: bool,
    /// Value in rows written before the column was added (`ADD COLUMN … DEFAULT`); of the column's
    /// type, or NULL.
    pub missing: Datum<'a>,
}

impl ColumnLayout<'_> {
    /// A column that every row has.
    #[must_use]
    pub fn new(ty: Type, not_null: bool) -> ColumnLayout<'static> {
        ColumnLayout { ty, not_null, missing: Datum::Null }
    }
}

/// Storage form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// i64: value × 10^scale.
    Scaled64(u32),
    /// i128: value × 10^scale.
    Scaled128(u32),
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Numeric,
    Text,
    Bytes,
    Oid,
    /// Bytes of [`encoding`].
    Encoded,
}

impl Form {
    fn of(ty: Type) -> Form {
        match ty.base() {
            Type::Bool => Form::Bool,
            Type::Int2 => Form::Int2,
            Type::Int4 => Form::Int4,
            Type::Int8 => Form::Int8,
            Type::Float4 => Form::Float4,
            Type::Float8 => Form::Float8,
            Type::Numeric(Some(Precision { digits, scale: scale @ 0.. })) if digits <= DIGITS_128 => {
                let scale = u32::from(scale.unsigned_abs());
                if digits <= DIGITS_64 { Form::Scaled64(scale) } else { Form::Scaled128(scale) }
            }
            Type::Numeric(_) => Form::Numeric,
            Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Json => Form::Text,
            Type::Bytes => Form::Bytes,
            Type::Uuid => Form::Uuid,
            Type::Date => Form::Date,
            Type::Time => Form::Time,
            Type::Timestamp => Form::Timestamp,
            Type::Timestamptz => Form::Timestamptz,
            Type::Interval => Form::Interval,
            Type::Other(other) => match other.storage() {
                Storage::Oid => Form::Oid,
                Storage::Text => Form::Text,
                Storage::Encoded => Form::Encoded,
            },
        }
    }

    fn is_variable(self) -> bool {
        matches!(self, Form::Numeric | Form::Text | Form::Bytes | Form::Encoded)
    }

    fn slot_bytes(self) -> usize {
        match self {
            Form::Bool => 1,
            Form::Int2 => 2,
            Form::Int4 | Form::Float4 | Form::Date | Form::Oid => 4,
            Form::Int8 | Form::Float8 | Form::Scaled64(_) | Form::Time | Form::Timestamp | Form::Timestamptz => 8,
            Form::Scaled128(_) | Form::Interval | Form::Uuid => 16,
            Form::Numeric | Form::Text | Form::Bytes | Form::Encoded => END_BYTES,
        }
    }
}

#[derive(Debug)]
struct Field {
    form: Form,
    not_null: bool,
    /// Offset of the slot.
    slot: usize,
    /// Slot of the previous variable-size field; its end offset is the start of this field's value.
    before: Option<usize>,
}

/// Encodes `value` as a row with this single field, the representation of [`RowColumn::missing`].
/// `None` for NULL.
///
/// # Errors
/// 54000 if the value is too long for a row.
pub fn alone(ty: Type, value: &Datum<'_>) -> Result<Option<Box<[u8]>>> {
    if value.is_null() {
        return Ok(None);
    }
    let mut row = Vec::new();
    RowLayout::new(&[ColumnLayout::new(ty, true)])?.encode(std::slice::from_ref(value), &mut row)?;
    Ok(Some(row.into()))
}

/// Whether values of the two types are stored identically. If so, changing a column from one type
/// to the other rewrites no rows, provided that the values fit.
#[must_use]
pub fn is_same_form(one: Type, other: Type) -> bool {
    Form::of(one) == Form::of(other)
}

/// Offsets of the fields in a table's rows.
#[derive(Debug)]
pub struct RowLayout {
    fields: Box<[Field]>,
    /// Columns with variable-size values.
    variable: Box<[usize]>,
    /// End of the slots in a row with n fields, by n.
    slot_ends: Box<[usize]>,
    /// A full row that has the missing values of all columns.
    missing: Box<[u8]>,
}

impl RowLayout {
    /// Returns the layout of a table's rows.
    ///
    /// # Errors
    /// XX001 if a missing value does not have its column's type; 54000 if the missing values
    /// together exceed a row's size.
    pub fn of(schema: &RowSchema) -> Result<RowLayout> {
        let alone = |column: &RowColumn| RowLayout::new(&[ColumnLayout::new(column.ty, false)]);
        let layouts = schema.columns.iter().map(alone).collect::<Result<Vec<_>>>()?;
        let mut columns = Vec::with_capacity(layouts.len());
        for (column, layout) in schema.columns.iter().zip(&layouts) {
            let missing = match &column.missing {
                Some(row) => {
                    layout.check(row)?;
                    layout.field(row, 0)?
                }
                None => Datum::Null,
            };
            columns.push(ColumnLayout { ty: column.ty, not_null: column.not_null && !column.dropped, missing });
        }
        RowLayout::new(&columns)
    }

    /// Returns the layout for these columns, at most [`COLUMNS_PER_TABLE_MAX`].
    ///
    /// # Errors
    /// 54000 if the missing values together exceed a row's size.
    pub fn new(columns: &[ColumnLayout<'_>]) -> Result<RowLayout> {
        assert!(columns.len() <= COLUMNS_PER_TABLE_MAX, "BUG: a row of {} columns", columns.len());
        let mut slot_ends = vec![COUNT_BYTES];
        let mut fields = Vec::with_capacity(columns.len());
        let mut before = None;
        let mut slot = COUNT_BYTES;
        for column in columns {
            let form = Form::of(column.ty);
            fields.push(Field { form, not_null: column.not_null, slot, before });
            if form.is_variable() {
                before = Some(slot);
            }
            slot += form.slot_bytes();
            slot_ends.push(slot);
        }
        let variable = (0..fields.len()).filter(|column| fields[*column].form.is_variable()).collect();
        let mut layout =
            RowLayout { fields: fields.into(), variable, slot_ends: slot_ends.into(), missing: Box::default() };
        let missing: Vec<Datum<'_>> = columns.iter().map(|column| column.missing.clone()).collect();
        let mut row = Vec::new();
        layout.write(&missing, &mut row)?;
        layout.missing = row.into();
        Ok(layout)
    }

    /// Number of columns of the table.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.fields.len()
    }

    /// Offset of the variable-size values in a row with `count` fields.
    fn fixed_bytes(&self, count: usize) -> usize {
        self.slot_ends[count] + count.div_ceil(8)
    }

    /// Appends the row of `values`: one per column, each as returned by [`crate::coerce`].
    ///
    /// # Errors
    /// 23502 for NULL in a NOT NULL column; 54000 if the row exceeds [`ROW_BYTES_MAX`] bytes.
    /// Nothing is appended.
    pub fn encode(&self, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<()> {
        if let Some(column) =
            self.fields.iter().zip(values).position(|(field, value)| field.not_null && value.is_null())
        {
            return Err(refused_null(column));
        }
        self.write(values, out)
    }

    /// Like [`RowLayout::encode`], with NULL in NOT NULL columns too: for a row that lacks the values which are computed
    /// from its others.
    ///
    /// # Errors
    /// 54000 if the row exceeds [`ROW_BYTES_MAX`] bytes. Nothing is appended.
    pub fn encode_incomplete(&self, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<()> {
        self.write(values, out)
    }

    fn write(&self, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<()> {
        assert!(values.len() == self.columns(), "BUG: {} values for {} columns", values.len(), self.columns());
        let fixed = self.fixed_bytes(values.len());
        // The length of an encoded value is known when it is written.
        let is_encoded = |column: &usize| self.fields[*column].form == Form::Encoded;
        let known = self.variable.iter().filter(|column| !is_encoded(column));
        let variable: usize = known.map(|column| variable_bytes(&values[*column])).sum();
        check_size(fixed + variable)?;
        let start = out.len();
        out.reserve(fixed + variable);
        out.resize(start + fixed, 0);
        out[start..start + COUNT_BYTES].copy_from_slice(&(values.len() as u16).to_le_bytes());
        let mut encoded = 0;
        for (column, (field, value)) in self.fields.iter().zip(values).enumerate() {
            let before = out.len();
            if value.is_null() {
                out[start + self.slot_ends[values.len()] + column / 8] |= 1 << (column % 8);
            } else if !write_value(field.form, value, start + field.slot, out) {
                out.truncate(start);
                return Err(Error::bug(format!("column {} is {:?}, its value {value:?}", column + 1, field.form)));
            }
            if field.form == Form::Encoded {
                encoded += out.len() - before;
            }
            if field.form.is_variable() {
                let end = (out.len() - start) as u32;
                put(out, start + field.slot, end.to_le_bytes());
            }
        }
        let (bytes, expected) = (out.len() - start, fixed + variable + encoded);
        assert!(bytes == expected, "BUG: a row of {bytes} bytes, expected {expected}");
        if let (true, Err(error)) = (encoded > 0, check_size(bytes)) {
            out.truncate(start);
            return Err(error);
        }
        debug_assert!(self.has_nulls_of(&out[start..], values), "BUG: a row with other NULLs than {values:?}");
        Ok(())
    }

    /// Whether a row can be read, and is NULL where these values are. For debug assertions.
    fn has_nulls_of(&self, row: &[u8], values: &[Datum<'_>]) -> bool {
        let reads = |column| self.read(row, values.len(), column).map(|read: Datum<'_>| read.is_null());
        values.iter().enumerate().all(|(column, value)| reads(column) == Ok(value.is_null()))
    }

    /// Appends row `old` with some columns changed. `changes` has each column at most once, with
    /// values as returned by [`crate::coerce`]. Copies the bytes of the other columns where
    /// possible.
    ///
    /// # Errors
    /// See [`RowLayout::encode`]; XX001 if the inspected parts of `old` are damaged.
    pub fn change(&self, old: &[u8], changes: &[(usize, Datum<'_>)], out: &mut Vec<u8>) -> Result<()> {
        if let Some((column, _)) = changes.iter().find(|(at, value)| self.fields[*at].not_null && value.is_null()) {
            return Err(refused_null(*column));
        }
        let has_all = self.count(old)? == self.columns() && old.len() >= self.fixed_bytes(self.columns());
        if !has_all || changes.iter().any(|(column, _)| self.fields[*column].form.is_variable()) {
            let mut values =
                (0..self.columns()).map(|column| self.field(old, column)).collect::<Result<Vec<Datum<'_>>>>()?;
            changes.iter().for_each(|(column, value)| values[*column] = value.clone());
            return self.write(&values, out);
        }
        let start = out.len();
        out.extend_from_slice(old);
        for (column, value) in changes {
            let field = &self.fields[*column];
            let (nulls, bit) = (start + self.slot_ends[self.columns()] + column / 8, 1 << (column % 8));
            if value.is_null() {
                out[nulls] |= bit;
                let slot = start + field.slot;
                out[slot..slot + field.form.slot_bytes()].fill(0);
                continue;
            }
            out[nulls] &= !bit;
            debug_assert!(!field.form.is_variable(), "BUG: column {} has no fixed place", column + 1);
            if !write_value(field.form, value, start + field.slot, out) {
                out.truncate(start);
                return Err(Error::bug(format!("column {} is {:?}, its value {value:?}", column + 1, field.form)));
            }
        }
        Ok(())
    }

    /// Number of fields in `row`; the columns after them take their missing values.
    ///
    /// # Errors
    /// XX001 if the row has more fields than the table has columns.
    pub fn count(&self, row: &[u8]) -> Result<usize> {
        let count = usize::from(u16::from_le_bytes(take(row, 0)?));
        if count <= self.columns() {
            return Ok(count);
        }
        Err(Error::corrupt(format!("row has {count} fields; its table has {}", self.columns())))
    }

    /// Returns the value of a column, counted from 0; the missing value if the row lacks the
    /// column.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    ///
    /// # Cost
    /// A few loads; text is validated as UTF-8; numerics beyond 38 digits allocate.
    pub fn field<'a>(&'a self, row: &'a [u8], column: usize) -> Result<Datum<'a>> {
        let count = self.count(row)?;
        if column < count { self.read(row, count, column) } else { self.read(&self.missing, self.columns(), column) }
    }

    /// The columns of a row whose texts, bytes or encoded values have at least `bytes` bytes.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    pub(crate) fn longer_than(&self, row: &[u8], bytes: usize) -> Result<impl Iterator<Item = usize>> {
        let mut found = Vec::new();
        for column in self.variable.iter().copied() {
            let length = match self.field(row, column)? {
                Datum::Text(text) => text.len(),
                Datum::Bytes(value) => value.len(),
                Datum::Null | Datum::Numeric(_) => 0,
                // A missing value of a column that was added is not in the row.
                _ => {
                    let count = self.count(row)?;
                    if column < count { self.variable_value(row, count, column)?.len() } else { 0 }
                }
            };
            if length >= bytes {
                found.push(column);
            }
        }
        Ok(found.into_iter())
    }

    /// Validates a whole row. Afterwards reading its fields cannot fail.
    ///
    /// # Errors
    /// XX001 if the row is damaged.
    pub fn check(&self, row: &[u8]) -> Result<()> {
        let count = self.count(row)?;
        let mut end = self.fixed_bytes(count);
        for (column, field) in self.fields[..count].iter().enumerate() {
            let null = self.read(row, count, column)?.is_null();
            if !field.form.is_variable() {
                continue;
            }
            let own = u32::from_le_bytes(take(row, field.slot)?) as usize;
            // A field that is not NULL was read above, which verified its bounds.
            if null && own != end {
                return Err(damaged(column, format_args!("NULL of {} bytes", own.abs_diff(end))));
            }
            end = own;
        }
        if end == row.len() {
            return Ok(());
        }
        Err(Error::corrupt(format!("row has {} bytes, its fields {end}", row.len())))
    }

    /// Whether two rows have the same bytes in a column, counted from 0. If not, or if a row lacks
    /// the column, the values may still be equal.
    ///
    /// # Errors
    /// XX001 if a row is damaged.
    pub(crate) fn is_same(&self, one: &[u8], other: &[u8], column: usize) -> Result<bool> {
        let counts = (self.count(one)?, self.count(other)?);
        Ok(column < counts.0.min(counts.1)
            && self.bytes(one, counts.0, column)? == self.bytes(other, counts.1, column)?)
    }

    /// Bytes of a column's value, without the slot if it is variable-size; `None` for NULL.
    fn bytes<'a>(&self, row: &'a [u8], count: usize, column: usize) -> Result<Option<&'a [u8]>> {
        if self.is_null(row, count, column)? {
            return Ok(None);
        }
        let Field { form, slot, .. } = self.fields[column];
        if form.is_variable() {
            return self.variable_value(row, count, column).map(Some);
        }
        let end = slot + form.slot_bytes();
        row.get(slot..end).map(Some).ok_or_else(|| short(row, end))
    }

    fn is_null(&self, row: &[u8], count: usize, column: usize) -> Result<bool> {
        let nulls = u8::from_le_bytes(take(row, self.slot_ends[count] + column / 8)?);
        Ok(nulls >> (column % 8) & 1 == 1)
    }

    fn read<'a>(&self, row: &'a [u8], count: usize, column: usize) -> Result<Datum<'a>> {
        let field = &self.fields[column];
        if self.is_null(row, count, column)? {
            return Ok(Datum::Null);
        }
        let slot = field.slot;
        Ok(match field.form {
            Form::Bool => match take(row, slot)? {
                [0] => Datum::Bool(false),
                [1] => Datum::Bool(true),
                [other] => return Err(damaged(column, format_args!("bool {other}"))),
            },
            Form::Int2 => Datum::Int2(i16::from_le_bytes(take(row, slot)?)),
            Form::Int4 => Datum::Int4(i32::from_le_bytes(take(row, slot)?)),
            Form::Int8 => Datum::Int8(i64::from_le_bytes(take(row, slot)?)),
            Form::Float4 => Datum::Float4(f32::from_le_bytes(take(row, slot)?)),
            Form::Float8 => Datum::Float8(f64::from_le_bytes(take(row, slot)?)),
            Form::Scaled64(scale) => Datum::Numeric(match i64::from_le_bytes(take(row, slot)?) {
                i64::MAX => Numeric::NAN,
                value => Numeric::new(value.into(), scale),
            }),
            Form::Scaled128(scale) => Datum::Numeric(match i128::from_le_bytes(take(row, slot)?) {
                i128::MAX => Numeric::NAN,
                value => Numeric::new(value, scale),
            }),
            Form::Date => Datum::Date(i32::from_le_bytes(take(row, slot)?)),
            Form::Time => Datum::Time(i64::from_le_bytes(take(row, slot)?)),
            Form::Timestamp => Datum::Timestamp(i64::from_le_bytes(take(row, slot)?)),
            Form::Timestamptz => Datum::Timestamptz(i64::from_le_bytes(take(row, slot)?)),
            Form::Interval => Datum::Interval(Interval {
                micros: i64::from_le_bytes(take(row, slot)?),
                days: i32::from_le_bytes(take(row, slot + 8)?),
                months: i32::from_le_bytes(take(row, slot + 12)?),
            }),
            Form::Uuid => Datum::Uuid(take(row, slot)?),
            Form::Numeric => {
                let bytes = self.variable_value(row, count, column)?;
                Datum::Numeric(Numeric::from_bytes(bytes).ok_or_else(|| damaged(column, "no numeric"))?)
            }
            Form::Text => {
                let bytes = self.variable_value(row, count, column)?;
                Datum::Text(std::str::from_utf8(bytes).map_err(|_| damaged(column, "text that is not UTF-8"))?)
            }
            Form::Bytes => Datum::Bytes(self.variable_value(row, count, column)?),
            Form::Oid => Datum::Oid(u32::from_le_bytes(take(row, slot)?)),
            Form::Encoded => encoding::decode(self.variable_value(row, count, column)?)
                .map_err(|error| damaged(column, error.message()))?,
        })
    }

    fn variable_value<'a>(&self, row: &'a [u8], count: usize, column: usize) -> Result<&'a [u8]> {
        let field = &self.fields[column];
        let end = u32::from_le_bytes(take(row, field.slot)?) as usize;
        let start = match field.before {
            Some(slot) => u32::from_le_bytes(take(row, slot)?) as usize,
            None => self.fixed_bytes(count),
        };
        row.get(start..end)
            .ok_or_else(|| damaged(column, format_args!("bytes {start}..{end} of a row of {} bytes", row.len())))
    }
}

#[cold]
fn refused_null(column: usize) -> Error {
    let text = format!("null value in column {} violates not-null constraint", column + 1);
    Error::new(SqlState::NOT_NULL_VIOLATION, text)
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes <= ROW_BYTES_MAX {
        return Ok(());
    }
    let text = format!("row of {bytes} bytes is too large; the limit is {ROW_BYTES_MAX}");
    Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
}

/// Length of a variable-size value.
fn variable_bytes(value: &Datum<'_>) -> usize {
    match value {
        Datum::Text(text) => text.len(),
        Datum::Bytes(bytes) => bytes.len(),
        Datum::Numeric(numeric) => numeric.bytes_len(),
        _ => 0,
    }
}

/// Writes a value to its slot or, if it is variable-size, appends it. False if the value does not
/// have this form.
fn write_value(form: Form, value: &Datum<'_>, slot: usize, out: &mut Vec<u8>) -> bool {
    match (form, value) {
        (Form::Bool, Datum::Bool(value)) => out[slot] = u8::from(*value),
        (Form::Int2, Datum::Int2(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Int4, Datum::Int4(value)) | (Form::Date, Datum::Date(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Int8, Datum::Int8(value))
        | (Form::Time, Datum::Time(value))
        | (Form::Timestamp, Datum::Timestamp(value))
        | (Form::Timestamptz, Datum::Timestamptz(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Float4, Datum::Float4(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Float8, Datum::Float8(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Scaled64(scale), Datum::Numeric(value)) => {
            let Some(scaled) = scaled(value, scale, i64::MAX.into()) else { return false };
            put(out, slot, (scaled as i64).to_le_bytes());
        }
        (Form::Scaled128(scale), Datum::Numeric(value)) => {
            let Some(scaled) = scaled(value, scale, i128::MAX) else { return false };
            put(out, slot, scaled.to_le_bytes());
        }
        (Form::Interval, Datum::Interval(value)) => {
            put(out, slot, value.micros.to_le_bytes());
            put(out, slot + 8, value.days.to_le_bytes());
            put(out, slot + 12, value.months.to_le_bytes());
        }
        (Form::Uuid, Datum::Uuid(value)) => put(out, slot, *value),
        (Form::Numeric, Datum::Numeric(value)) => value.write_bytes(out),
        (Form::Text, Datum::Text(value)) => out.extend_from_slice(value.as_bytes()),
        (Form::Bytes, Datum::Bytes(value)) => out.extend_from_slice(value),
        (Form::Oid, Datum::Oid(value)) => put(out, slot, value.to_le_bytes()),
        (Form::Encoded, value) => encoding::encode(value, out),
        _ => return false,
    }
    true
}

/// The value × 10^`scale` as an integer; `nan` for NaN; `None` if its magnitude is `nan` or more.
fn scaled(value: &Numeric, scale: u32, nan: i128) -> Option<i128> {
    if value.is_nan() {
        return Some(nan);
    }
    value.unscaled(scale as i32).filter(|scaled| (1 - nan..nan).contains(scaled))
}

fn put<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

fn take<const N: usize>(row: &[u8], at: usize) -> Result<[u8; N]> {
    row.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or_else(|| short(row, at + N))
}

#[cold]
fn short(row: &[u8], expected: usize) -> Error {
    Error::corrupt(format!("row has {} bytes, expected at least {expected}", row.len()))
}

#[cold]
fn damaged(column: usize, what: impl std::fmt::Display) -> Error {
    Error::corrupt(format!("column {} of a row is damaged: {what}", column + 1))
}
