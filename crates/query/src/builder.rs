//! Builds a batch from single values, row by row. This is the path of prepared INSERT: it uses neither DataFusion nor
//! an intermediate row.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use columns::rows::{Ops, SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX, SmallBatch, SmallBatchBuilder};
use engine::{Batch, KeyList, Op, Rows};
use model::{Column, ColumnId, ColumnRole, DataType, Error, Result, SqlState, Table, TableRef, key};
use pg::types::oid;
use relational::types::{Value, out_of_range};

use crate::zone::Zone;

/// Collects rows of one table.
pub(crate) struct RowBuilder<'a> {
    table: &'a TableRef,
    zone: &'a Zone,
    /// For each key column in order: the position of its value in a row.
    key_places: Vec<(Option<usize>, &'a Column)>,
    time_place: Option<usize>,
    fields: Fields<'a>,
    keys: KeyList,
    series: Vec<u32>,
    times: Vec<i64>,
    key: Vec<u8>,
    last_key: Vec<u8>,
}

impl<'a> RowBuilder<'a> {
    /// `targets`: for each value of a row in order, the position of its column in the table.
    ///
    /// # Errors
    /// 23502 if a key column that is NOT NULL, or the time, is not among the targets. Fields are checked with the rows.
    pub(crate) fn new(table: &'a TableRef, targets: &[usize], zone: &'a Zone, rows: usize) -> Result<RowBuilder<'a>> {
        let mut places = vec![None; table.columns.len()];
        targets.iter().enumerate().for_each(|(place, target)| places[*target] = Some(place));
        let few = rows <= SMALL_BATCH_ROWS_MAX && rows * targets.len() <= FEW_VALUES_MAX;
        let cells = if few { Vec::with_capacity(rows * targets.len()) } else { Vec::new() };
        let mut builder = RowBuilder {
            table,
            zone,
            key_places: Vec::new(),
            time_place: None,
            fields: match few {
                true => Fields::Few { columns: Vec::with_capacity(targets.len()), cells, texts: Vec::new() },
                false => Fields::Many(Vec::new()),
            },
            keys: KeyList::default(),
            series: Vec::with_capacity(rows),
            times: Vec::with_capacity(rows),
            key: Vec::new(),
            last_key: Vec::new(),
        };
        for (column, place) in table.columns.iter().zip(places) {
            if place.is_none() && !column.nullable && column.role != ColumnRole::Field {
                return Err(null_error(table, column));
            }
            match (column.role, place) {
                (ColumnRole::Key, place) => builder.key_places.push((place, column)),
                (ColumnRole::Time, place) => builder.time_place = place,
                (ColumnRole::Field, Some(place)) => match &mut builder.fields {
                    Fields::Few { columns, .. } => columns.push((place, column)),
                    Fields::Many(fields) => fields.push((place, column, FieldBuilder::new(column.ty, rows))),
                },
                (ColumnRole::Field, None) => {}
            }
        }
        Ok(builder)
    }

    /// Appends a row; `value` returns the value at a position of the row.
    pub(crate) fn push<'v>(&mut self, value: &impl Fn(usize) -> &'v Value) -> Result<()> {
        self.push_key(value)?;
        let time = self.table.time_column();
        let at = self.time_place.map_or(&Value::Null, value);
        if *at == Value::Null {
            return Err(null_error(self.table, time));
        }
        self.times.push(match time.ty {
            DataType::Int64 => integer(time, at)?,
            _ => timestamp(time, at, self.zone)?,
        });
        match &mut self.fields {
            Fields::Few { columns, cells, texts } => {
                for (place, column) in columns {
                    cells.push(cell(column, value(*place), self.zone, texts)?);
                }
            }
            Fields::Many(fields) => {
                for (place, column, builder) in fields {
                    builder.push(column, value(*place), self.zone)?;
                }
            }
        }
        Ok(())
    }

    fn push_key<'v>(&mut self, value: &impl Fn(usize) -> &'v Value) -> Result<()> {
        self.key.clear();
        let mut nulls = 0;
        for (place, column) in &self.key_places {
            let value = place.map_or(&Value::Null, value);
            if *value == Value::Null {
                if !column.nullable {
                    return Err(null_error(self.table, column));
                }
                key::push_null(&mut self.key);
                nulls += 1;
            } else {
                push_key_value(&mut self.key, column, value, self.zone)?;
                nulls = 0;
            }
        }
        key::finish(&mut self.key, 0, nulls);
        // Consecutive rows usually belong to one series.
        match self.series.last() {
            Some(last) if self.key == self.last_key => self.series.push(*last),
            _ => {
                self.series.push(self.keys.intern(&self.key));
                std::mem::swap(&mut self.key, &mut self.last_key);
            }
        }
        Ok(())
    }

    /// Returns the batch; every row has the operation `op`.
    ///
    /// # Errors
    /// XX000 only.
    pub(crate) fn finish(self, op: Op) -> Result<Batch> {
        let RowBuilder { keys, series, times, fields, .. } = self;
        let rows = match fields {
            Fields::Few { columns, cells, texts } => {
                let packed = packed(times.len(), &columns, &cells, &texts)?;
                let rows = Rows::from_small_batch(series, times, Ops::All(op), packed);
                if texts.len() > SMALL_BATCH_BYTES_MAX / 2 {
                    let columns = rows.columns().into_owned();
                    Rows::new(rows.series, rows.times, rows.ops, columns)
                } else {
                    rows
                }
            }
            Fields::Many(fields) => {
                let fields = fields.into_iter().map(|(_, column, mut builder)| (column.id, builder.finish()));
                let mut fields: Vec<(ColumnId, ArrayRef)> = fields.collect();
                fields.sort_by_key(|(id, _)| *id);
                Rows::new(series, times, Ops::All(op), fields)
            }
        };
        Ok(Batch::new(keys, rows))
    }
}

/// Most values of a statement whose rows are packed directly: together they must stay far below
/// [`SMALL_BATCH_BYTES_MAX`].
const FEW_VALUES_MAX: usize = 8 << 10;

/// The field values collected so far.
enum Fields<'a> {
    /// For a small batch, which is stored packed: position in the row and column of each field, the values row by row,
    /// and the bytes of their texts.
    Few {
        columns: Vec<(usize, &'a Column)>,
        cells: Vec<FewCell>,
        texts: Vec<u8>,
    },
    Many(Vec<(usize, &'a Column, FieldBuilder)>),
}

/// A field value of a small batch.
#[derive(Clone, Copy)]
enum FewCell {
    Null,
    /// The bits of a fixed-width value.
    Word(u64),
    /// The range of the value's bytes in `texts`.
    Text(usize, usize),
}

fn cell(column: &Column, value: &Value, zone: &Zone, texts: &mut Vec<u8>) -> Result<FewCell> {
    if *value == Value::Null {
        return Ok(FewCell::Null);
    }
    let word = match column.ty {
        DataType::Bool => u64::from(boolean(column, value)?),
        DataType::Int16 => u64::from(narrow::<i16>(column, integer(column, value)?)?.cast_unsigned()),
        DataType::Int32 => u64::from(narrow::<i32>(column, integer(column, value)?)?.cast_unsigned()),
        DataType::Int64 => integer(column, value)?.cast_unsigned(),
        DataType::UInt64 => unsigned(column, value)?,
        DataType::Float32 => u64::from(single(column, value)?.to_bits()),
        DataType::Float64 => double(column, value)?.to_bits(),
        DataType::Timestamp => timestamp(column, value, zone)?.cast_unsigned(),
        DataType::Text | DataType::Bytes => {
            let from = texts.len();
            match (column.ty, value) {
                (DataType::Text, Value::Text(text)) => texts.extend_from_slice(text.as_bytes()),
                (DataType::Text, other) => texts.extend_from_slice(text_of(column, other, zone)?.as_bytes()),
                (_, Value::Bytes(bytes)) => texts.extend_from_slice(bytes),
                (_, other) => texts.extend_from_slice(&bytes(column, other)?),
            }
            return Ok(FewCell::Text(from, texts.len()));
        }
    };
    Ok(FewCell::Word(word))
}

fn packed(rows: usize, columns: &[(usize, &Column)], cells: &[FewCell], texts: &[u8]) -> Result<SmallBatch> {
    let mut builder = SmallBatchBuilder::new(rows, columns.len(), columns.len() * (6 + 8 * rows) + texts.len());
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns[*at].1.id);
    for at in order {
        let column = columns[at].1;
        let own = cells.iter().skip(at).step_by(columns.len());
        let is_valid = |(row, cell): (usize, &FewCell)| u16::from(!matches!(cell, FewCell::Null)) << row;
        let valid = own.clone().enumerate().map(is_valid).sum();
        match column.ty {
            DataType::Text | DataType::Bytes => {
                let values = own.filter_map(|cell| match cell {
                    FewCell::Text(from, to) => Some(&texts[*from..*to]),
                    _ => None,
                });
                builder.varying(column.id, column.ty, valid, values)?;
            }
            _ => {
                let values = own.filter_map(|cell| match cell {
                    FewCell::Word(word) => Some(*word),
                    _ => None,
                });
                builder.fixed(column.id, column.ty, valid, values);
            }
        }
    }
    Ok(builder.finish())
}

/// The 23502 error.
pub(crate) fn null_error(table: &Table, column: &Column) -> Error {
    Error::new(
        SqlState::NOT_NULL_VIOLATION,
        format!("null value in column \"{}\" of relation {} violates not-null constraint", column.name, table.name),
    )
}

fn mismatch(column: &Column, value: &Value) -> Error {
    Error::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {} but expression is of type {}",
            column.name,
            column.ty.sql_name(),
            kind(value)
        ),
    )
    .with_hint("rewrite or cast the expression")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "unknown",
        Value::Bool(_) => "boolean",
        Value::Int16(_) => "smallint",
        Value::Int32(_) => "integer",
        Value::Int64(_) => "bigint",
        Value::Float32(_) => "real",
        Value::Float64(_) => "double precision",
        Value::Numeric(..) => "numeric",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytea",
        Value::Timestamptz(_) => "timestamp with time zone",
        Value::Timestamp(_) => "timestamp without time zone",
        Value::Date(_) => "date",
        Value::Time(_) => "time without time zone",
        Value::Interval(..) => "interval",
        Value::Uuid(_) => "uuid",
        Value::Array(_) => "array",
    }
}

fn push_key_value(out: &mut Vec<u8>, column: &Column, value: &Value, zone: &Zone) -> Result<()> {
    match column.ty {
        DataType::Text => match value {
            Value::Text(text) => key::push_bytes(out, text.as_bytes()),
            other => key::push_bytes(out, text_of(column, other, zone)?.as_bytes()),
        },
        DataType::Bool => key::push_bool(out, boolean(column, value)?),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => key::push_i64(out, integer(column, value)?),
        DataType::UInt64 => key::push_i64(out, unsigned(column, value)?.cast_signed()),
        DataType::Bytes => key::push_bytes(out, &bytes(column, value)?),
        DataType::Timestamp => key::push_i64(out, timestamp(column, value, zone)?),
        DataType::Float32 | DataType::Float64 => return Err(Error::bug("a key of a float type")),
    }
    Ok(())
}

/// The values of one field.
enum FieldBuilder {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
    Timestamp(TimestampNanosecondBuilder),
}

impl FieldBuilder {
    fn new(ty: DataType, rows: usize) -> FieldBuilder {
        match ty {
            DataType::Bool => FieldBuilder::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => FieldBuilder::Int16(Int16Builder::with_capacity(rows)),
            DataType::Int32 => FieldBuilder::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => FieldBuilder::Int64(Int64Builder::with_capacity(rows)),
            DataType::UInt64 => FieldBuilder::UInt64(UInt64Builder::with_capacity(rows)),
            DataType::Float32 => FieldBuilder::Float32(Float32Builder::with_capacity(rows)),
            DataType::Float64 => FieldBuilder::Float64(Float64Builder::with_capacity(rows)),
            DataType::Text => FieldBuilder::Text(StringBuilder::with_capacity(rows, 16 * rows)),
            DataType::Bytes => FieldBuilder::Bytes(BinaryBuilder::with_capacity(rows, 16 * rows)),
            DataType::Timestamp => FieldBuilder::Timestamp(
                TimestampNanosecondBuilder::with_capacity(rows).with_data_type(columns::rows::arrow_type(ty)),
            ),
        }
    }

    fn push(&mut self, column: &Column, value: &Value, zone: &Zone) -> Result<()> {
        if *value == Value::Null {
            self.push_null();
            return Ok(());
        }
        match self {
            FieldBuilder::Bool(builder) => builder.append_value(boolean(column, value)?),
            FieldBuilder::Int16(builder) => builder.append_value(narrow(column, integer(column, value)?)?),
            FieldBuilder::Int32(builder) => builder.append_value(narrow(column, integer(column, value)?)?),
            FieldBuilder::Int64(builder) => builder.append_value(integer(column, value)?),
            FieldBuilder::UInt64(builder) => builder.append_value(unsigned(column, value)?),
            FieldBuilder::Float32(builder) => builder.append_value(single(column, value)?),
            FieldBuilder::Float64(builder) => builder.append_value(double(column, value)?),
            FieldBuilder::Text(builder) => match value {
                Value::Text(text) => builder.append_value(text),
                other => builder.append_value(text_of(column, other, zone)?),
            },
            FieldBuilder::Bytes(builder) => builder.append_value(bytes(column, value)?),
            FieldBuilder::Timestamp(builder) => builder.append_value(timestamp(column, value, zone)?),
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match self {
            FieldBuilder::Bool(builder) => builder.append_null(),
            FieldBuilder::Int16(builder) => builder.append_null(),
            FieldBuilder::Int32(builder) => builder.append_null(),
            FieldBuilder::Int64(builder) => builder.append_null(),
            FieldBuilder::UInt64(builder) => builder.append_null(),
            FieldBuilder::Float32(builder) => builder.append_null(),
            FieldBuilder::Float64(builder) => builder.append_null(),
            FieldBuilder::Text(builder) => builder.append_null(),
            FieldBuilder::Bytes(builder) => builder.append_null(),
            FieldBuilder::Timestamp(builder) => builder.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let builder: &mut dyn ArrayBuilder = match self {
            FieldBuilder::Bool(builder) => builder,
            FieldBuilder::Int16(builder) => builder,
            FieldBuilder::Int32(builder) => builder,
            FieldBuilder::Int64(builder) => builder,
            FieldBuilder::UInt64(builder) => builder,
            FieldBuilder::Float32(builder) => builder,
            FieldBuilder::Float64(builder) => builder,
            FieldBuilder::Text(builder) => builder,
            FieldBuilder::Bytes(builder) => builder,
            FieldBuilder::Timestamp(builder) => builder,
        };
        Arc::clone(&builder.finish())
    }
}

fn boolean(column: &Column, value: &Value) -> Result<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        Value::Text(text) => pg::value::parse_bool(text),
        other => Err(mismatch(column, other)),
    }
}

fn type_oid(ty: DataType) -> u32 {
    match ty {
        DataType::Int16 => oid::INT2,
        DataType::Int32 => oid::INT4,
        _ => oid::INT8,
    }
}

fn narrow<T: TryFrom<i64>>(column: &Column, value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| out_of_range(column.ty.sql_name()))
}

/// Converts to an integer. Fractions are rounded as in PostgreSQL: floats half to even, decimals half away from zero.
fn integer(column: &Column, value: &Value) -> Result<i64> {
    let name = column.ty.sql_name();
    match value {
        Value::Int16(value) => Ok(i64::from(*value)),
        Value::Int32(value) => Ok(i64::from(*value)),
        Value::Int64(value) => Ok(*value),
        Value::Float32(value) => float_to_int(f64::from(*value), name),
        Value::Float64(value) => float_to_int(*value, name),
        Value::Numeric(value, scale) => {
            i64::try_from(round_decimal(*value, scale.cast_signed())).map_err(|_| out_of_range(name))
        }
        Value::Text(text) => pg::value::parse_int(type_oid(column.ty), text),
        other => Err(mismatch(column, other)),
    }
}

fn float_to_int(value: f64, name: &str) -> Result<i64> {
    let rounded = value.round_ties_even();
    // 2^63 itself does not fit; NaN fails both comparisons.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(out_of_range(name))
    }
}

/// `value / 10^scale` rounded to an integer, halves away from zero.
pub(crate) fn round_decimal(value: i128, scale: i8) -> i128 {
    let Some(unit) = 10_i128.checked_pow(u32::from(scale.unsigned_abs())) else {
        return 0;
    };
    if scale <= 0 {
        return value.saturating_mul(unit);
    }
    let (whole, rest) = (value / unit, value % unit);
    // Twice the remainder may overflow, so the remainder is compared with the difference.
    if rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs() { whole + value.signum() } else { whole }
}

fn unsigned(column: &Column, value: &Value) -> Result<u64> {
    let name = column.ty.sql_name();
    match value {
        Value::Numeric(value, scale) => {
            u64::try_from(round_decimal(*value, scale.cast_signed())).map_err(|_| out_of_range(name))
        }
        Value::Text(text) => match pg::numeric::decimal128(&text.parse()?)? {
            Some((value, scale)) => {
                u64::try_from(round_decimal(value, scale.cast_signed())).map_err(|_| out_of_range(name))
            }
            None => Err(out_of_range(name)),
        },
        other => u64::try_from(integer(column, other)?).map_err(|_| out_of_range(name)),
    }
}

fn double(column: &Column, value: &Value) -> Result<f64> {
    match value {
        Value::Float64(value) => Ok(*value),
        Value::Float32(value) => Ok(f64::from(*value)),
        Value::Int16(value) => Ok(f64::from(*value)),
        Value::Int32(value) => Ok(f64::from(*value)),
        Value::Int64(value) => Ok(*value as f64),
        Value::Numeric(value, scale) => decimal_to_float(*value, *scale),
        Value::Text(text) => pg::value::parse_float8(text),
        other => Err(mismatch(column, other)),
    }
}

/// Converts through text: integer-to-float and division would round twice.
fn decimal_to_float(value: i128, scale: u8) -> Result<f64> {
    if scale == 0 && value.unsigned_abs() < 1 << 53 {
        return Ok(value as f64);
    }
    let mut text = Vec::with_capacity(48);
    pg::numeric::numeric_text(&mut text, value, scale.cast_signed());
    pg::value::parse_float8(&String::from_utf8_lossy(&text))
}

fn single(column: &Column, value: &Value) -> Result<f32> {
    match value {
        Value::Float32(value) => Ok(*value),
        Value::Text(text) => pg::value::parse_float4(text),
        other => {
            let wide = double(column, other)?;
            let narrow = wide as f32;
            if narrow.is_infinite() && wide.is_finite() {
                return Err(out_of_range("real"));
            }
            Ok(narrow)
        }
    }
}

fn bytes(column: &Column, value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Ok(bytes.clone()),
        Value::Text(text) => pg::value::parse_bytea(text),
        other => Err(mismatch(column, other)),
    }
}

fn timestamp(column: &Column, value: &Value, zone: &Zone) -> Result<i64> {
    match value {
        Value::Timestamptz(value) => Ok(*value),
        Value::Text(text) => zone.parse_timestamptz(text),
        Value::Timestamp(value) => zone.moment_of_local(*value).ok_or_else(too_far),
        Value::Date(days) => {
            let local = i64::from(*days).checked_mul(86_400_000_000_000).ok_or_else(too_far)?;
            zone.moment_of_local(local).ok_or_else(too_far)
        }
        other => Err(mismatch(column, other)),
    }
}

fn too_far() -> Error {
    Error::new(SqlState::DATETIME_OVERFLOW, "timestamp out of range: it must lie within 1677-09-21 .. 2262-04-11")
}

/// PostgreSQL casts any type to text on assignment.
fn text_of(column: &Column, value: &Value, zone: &Zone) -> Result<String> {
    let mut out = Vec::new();
    match value {
        Value::Text(text) => return Ok(text.clone()),
        Value::Bool(value) => return Ok(if *value { "true" } else { "false" }.to_owned()),
        Value::Int16(value) => pg::value::int_text(&mut out, i64::from(*value)),
        Value::Int32(value) => pg::value::int_text(&mut out, i64::from(*value)),
        Value::Int64(value) => pg::value::int_text(&mut out, *value),
        Value::Float32(value) => pg::value::float4_text(&mut out, *value),
        Value::Float64(value) => pg::value::float8_text(&mut out, *value),
        Value::Numeric(value, scale) => pg::numeric::numeric_text(&mut out, *value, scale.cast_signed()),
        Value::Timestamptz(ns) => {
            pg::time::timestamptz_text(&mut out, pg::time::micros_of_ns(*ns), zone.offset_at(*ns))
        }
        Value::Timestamp(ns) => pg::time::timestamp_text(&mut out, pg::time::micros_of_ns(*ns)),
        Value::Uuid(bytes) => pg::value::uuid_text(&mut out, bytes),
        other => return Err(mismatch(column, other)),
    }
    String::from_utf8(out).map_err(Error::bug)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(ty: DataType) -> Column {
        Column { id: ColumnId(1), name: "c".into(), ty, nullable: true, role: ColumnRole::Field }
    }

    fn put(ty: DataType, value: Value) -> String {
        let zone = Zone::new("UTC").unwrap();
        let mut builder = FieldBuilder::new(ty, 1);
        match builder.push(&column(ty), &value, &zone) {
            Ok(()) => {
                let array = builder.finish();
                assert_eq!(*array.data_type(), columns::rows::arrow_type(ty));
                arrow_cast::display::array_value_to_string(&array, 0).unwrap()
            }
            Err(error) => error.state().0.to_owned(),
        }
    }

    /// Stores values in a small batch and returns the last one as stored, or the error.
    fn put_few(ty: DataType, values: &[Value]) -> String {
        let zone = Zone::new("UTC").unwrap();
        let (column, mut texts) = (column(ty), Vec::new());
        let cells: Result<Vec<FewCell>> = values.iter().map(|value| cell(&column, value, &zone, &mut texts)).collect();
        let packed = match cells {
            Ok(cells) => packed(values.len(), &[(0, &column)], &cells, &texts).unwrap(),
            Err(error) => return error.state().0.to_owned(),
        };
        let rows = values.len();
        let rows = Rows::from_small_batch(vec![0; rows], vec![0; rows], Ops::All(Op::Replace), packed);
        let array = rows.column(column.id).unwrap();
        assert_eq!(*array.data_type(), columns::rows::arrow_type(ty));
        arrow_cast::display::array_value_to_string(&array, values.len() - 1).unwrap()
    }

    #[test]
    fn values_are_assigned_as_postgresql_assigns_them() {
        for (ty, value, expected) in [
            (DataType::Int32, Value::Numeric(25, 1), "3"),
            (DataType::Int32, Value::Numeric(-25, 1), "-3"),
            (DataType::Int32, Value::Float64(2.5), "2"),
            (DataType::Int32, Value::Int64(1 << 40), "22003"),
            (DataType::Int16, Value::Text("40000".into()), "22003"),
            (DataType::Int32, Value::Text("abc".into()), "22P02"),
            (DataType::Int64, Value::Float64(f64::NAN), "22003"),
            (DataType::UInt64, Value::Int32(-1), "22003"),
            (DataType::UInt64, Value::Text("18446744073709551615".into()), "18446744073709551615"),
            (DataType::Bool, Value::Text("yes".into()), "true"),
            (DataType::Bool, Value::Int32(1), "42804"),
            (DataType::Text, Value::Int32(7), "7"),
            (DataType::Float32, Value::Float64(1e300), "22003"),
            (DataType::Float64, Value::Numeric(1, 1), "0.1"),
            (DataType::Timestamp, Value::Text("2024-01-01 00:00".into()), "2024-01-01T00:00:00Z"),
            (DataType::Timestamp, Value::Date(0), "1970-01-01T00:00:00Z"),
            (DataType::Timestamp, Value::Text("soon".into()), "22007"),
            (DataType::Bytes, Value::Text("\\x0aff".into()), "0aff"),
        ] {
            assert_eq!(put(ty, value.clone()), expected, "{value:?} into {ty:?}");
            assert_eq!(put_few(ty, &[Value::Null, value.clone()]), expected, "{value:?} into {ty:?}, one of few");
        }
    }
}
