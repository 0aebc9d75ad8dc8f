//! Arrow record batches, built in one pass over the values of each column.
//!
//! Columns are time, tags and fields, named as in the schema. Times are nanoseconds since 1970 UTC.
//! Fields of type time are too, except in runs with nanoseconds, where they are integers, because
//! answers come over protocols with microseconds. Dates are integers, days since 1970. There are no
//! nulls.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_buffer::{Buffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema as Columns, SchemaRef, TimeUnit};

use crate::error::{Error, Result};
use crate::schema::{Batch, Kind, Part, Schema, Table, Unit, text_of};

/// Builds the record batches of one schema.
pub(crate) struct Tables {
    schema: Arc<Schema>,
    /// Arrow schema of each table.
    columns: Vec<SchemaRef>,
}

impl Tables {
    pub(crate) fn new(schema: &Arc<Schema>) -> Tables {
        let columns = schema.tables.iter().map(|table| Arc::new(columns(table, schema.unit))).collect();
        Tables { schema: Arc::clone(schema), columns }
    }

    /// Arrow schema of a table.
    pub(crate) fn columns(&self, table: u32) -> &SchemaRef {
        &self.columns[table as usize]
    }

    /// Converts `batch`, which must have all fields of its table. Rows are in the order of the
    /// parts.
    ///
    /// # Errors
    /// `Setup` if a time overflows 64-bit nanoseconds.
    ///
    /// # Cost
    /// One allocation and one pass per column, two for texts.
    pub(crate) fn record_batch(&self, batch: &Batch) -> Result<RecordBatch> {
        let table = &self.schema.tables[batch.table as usize];
        let whole = 0..table.fields.len() as u32;
        assert!(batch.fields == whole, "BUG: fields {:?} of rows that have {whole:?}", batch.fields);
        let columns = self.columns(batch.table);
        let mut arrays = Vec::with_capacity(columns.fields().len());
        arrays.push(timestamps(self.schema.unit, batch, |part| &part.times)?);
        for tag in 0..table.tags.len() {
            arrays.push(self.tag(batch, tag)?);
        }
        for (at, field) in table.fields.iter().enumerate() {
            arrays.push(values(field.kind, self.schema.unit, batch, at)?);
        }
        RecordBatch::try_new(Arc::clone(columns), arrays).map_err(|error| bug(&error))
    }

    fn tag(&self, batch: &Batch, tag: usize) -> Result<ArrayRef> {
        let texts = || {
            batch.parts.iter().flat_map(|part| {
                let text = self.schema.devices[part.device as usize].tags[tag].as_str();
                std::iter::repeat_n(text, part.times.len())
            })
        };
        let ends = OffsetBuffer::from_lengths(texts().map(str::len));
        let mut bytes = Vec::new();
        texts().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
        Ok(Arc::new(StringArray::try_new(ends, Buffer::from(bytes), None).map_err(|error| bug(&error))?))
    }
}

/// Error for a record batch of ours that Arrow refuses.
pub(super) fn bug(error: &arrow_schema::ArrowError) -> Error {
    Error::setup(format!("BUG: a record batch is invalid: {error}"))
}

fn columns(table: &Table, unit: Unit) -> Columns {
    let mut fields = vec![Field::new("time", timestamp_type(), false)];
    fields.extend(table.tags.iter().map(|tag| Field::new(tag, DataType::Utf8, true)));
    fields.extend(table.fields.iter().map(|field| Field::new(&field.name, data_type(field.kind, unit), true)));
    Columns::new(fields)
}

fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

fn data_type(kind: Kind, unit: Unit) -> DataType {
    match kind {
        Kind::Bool => DataType::Boolean,
        Kind::Int32 | Kind::Date => DataType::Int32,
        Kind::Int64 => DataType::Int64,
        Kind::Float { .. } => DataType::Float32,
        Kind::Double { .. } => DataType::Float64,
        Kind::Text { .. } | Kind::String { .. } => DataType::Utf8,
        Kind::Blob { .. } => DataType::Binary,
        Kind::Timestamp if unit == Unit::Nanos => DataType::Int64,
        Kind::Timestamp => timestamp_type(),
    }
}

/// One field of all rows as an array.
fn values(kind: Kind, unit: Unit, batch: &Batch, at: usize) -> Result<ArrayRef> {
    Ok(match kind {
        Kind::Bool => Arc::new(BooleanArray::from(each(batch, at, |units| units != 0))),
        Kind::Int32 | Kind::Date => Arc::new(Int32Array::from(each(batch, at, |units| units as i32))),
        Kind::Int64 => Arc::new(Int64Array::from(each(batch, at, |units| units))),
        Kind::Float { .. } => Arc::new(Float32Array::from(each(batch, at, |units| kind.number(units) as f32))),
        Kind::Double { .. } => Arc::new(Float64Array::from(each(batch, at, |units| kind.number(units)))),
        Kind::Text { length } | Kind::String { length } => {
            let (ends, bytes) = texts(batch, at, length);
            Arc::new(StringArray::try_new(ends, bytes, None).map_err(|error| bug(&error))?)
        }
        Kind::Blob { length } => {
            let (ends, bytes) = texts(batch, at, length);
            Arc::new(BinaryArray::try_new(ends, bytes, None).map_err(|error| bug(&error))?)
        }
        Kind::Timestamp if unit == Unit::Nanos => Arc::new(Int64Array::from(each(batch, at, |units| units))),
        Kind::Timestamp => timestamps(unit, batch, |part| part.column(at))?,
    })
}

#[inline]
fn each<T>(batch: &Batch, at: usize, value: impl Fn(i64) -> T) -> Vec<T> {
    let mut values = Vec::with_capacity(batch.rows() as usize);
    for part in &batch.parts {
        values.extend(part.column(at).iter().map(|units| value(*units)));
    }
    values
}

fn timestamps<'b>(unit: Unit, batch: &'b Batch, of: impl Fn(&'b Part) -> &'b [i64]) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(batch.rows() as usize);
    for time in batch.parts.iter().flat_map(of) {
        let nanos = time.checked_mul(unit.nanos());
        let beyond =
            || Error::setup(format!("the time {time} ({unit:?} since 1970) is out of range for 64-bit nanoseconds"));
        values.push(nanos.ok_or_else(beyond)?);
    }
    Ok(Arc::new(TimestampNanosecondArray::from(values).with_data_type(timestamp_type())))
}

fn texts(batch: &Batch, at: usize, length: u16) -> (OffsetBuffer<i32>, Buffer) {
    let (rows, length_bytes) = (batch.rows() as usize, usize::from(length));
    let mut bytes = Vec::with_capacity(rows * length_bytes);
    for units in batch.parts.iter().flat_map(|part| part.column(at)) {
        text_of(*units, length, &mut bytes);
    }
    (OffsetBuffer::from_repeated_length(length_bytes, rows), Buffer::from(bytes))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType};

    use super::super::conformance::EVERY_KIND;
    use super::*;
    use crate::schema::{self, Device};

    /// A table with a field of each type and two devices, and rows of both: 3 of the second, then 2
    /// of the first.
    fn example(unit: Unit) -> (Arc<Schema>, Batch) {
        let field = |(at, kind): (usize, &Kind)| schema::Field { name: format!("s_{at}"), kind: *kind };
        let table = Table {
            name: "g_0".to_owned(),
            group: "g_0".to_owned(),
            tags: vec!["device".to_owned(), "place".to_owned()],
            fields: EVERY_KIND.iter().enumerate().map(field).collect(),
        };
        let device = |n: u32| Device { table: 0, tags: vec![format!("d_{n}"), format!("p_{n}")] };
        let devices = (0..2).map(device).collect();
        let part = |device: u32, rows: i64| {
            let units = (0..EVERY_KIND.len() as i64).flat_map(|field| (0..rows).map(move |row| (field + row) % 2));
            let times = (0..rows).map(|row| 1_000 * i64::from(device) + row).collect();
            Part { device, times, units: units.collect() }
        };
        let batch = Batch { table: 0, fields: 0..EVERY_KIND.len() as u32, parts: vec![part(1, 3), part(0, 2)] };
        (Arc::new(Schema { database: "d".to_owned(), unit, tables: vec![table], devices }), batch)
    }

    #[test]
    fn every_type_has_its_values_part_after_part() {
        let (schema, batch) = example(Unit::Millis);
        let converted = Tables::new(&schema).record_batch(&batch).unwrap();
        assert_eq!((converted.num_rows(), converted.num_columns()), (5, 3 + EVERY_KIND.len()));
        let times = converted["time"].as_primitive::<TimestampNanosecondType>().values();
        assert_eq!(times[..], [1_000, 1_001, 1_002, 0, 1].map(|millis| millis * 1_000_000));
        let devices: Vec<_> = converted["device"].as_string::<i32>().iter().flatten().collect();
        assert_eq!(devices, ["d_1", "d_1", "d_1", "d_0", "d_0"]);
        let places: Vec<_> = converted["place"].as_string::<i32>().iter().flatten().collect();
        assert_eq!(places, ["p_1", "p_1", "p_1", "p_0", "p_0"]);
        for (at, kind) in EVERY_KIND.iter().enumerate() {
            let array = &converted[format!("s_{at}").as_str()];
            let units = each(&batch, at, |units| units);
            for (row, units) in units.into_iter().enumerate() {
                let same = match kind {
                    Kind::Bool => array.as_boolean().value(row) == (units == 1),
                    Kind::Int32 | Kind::Date => i64::from(array.as_primitive::<Int32Type>().value(row)) == units,
                    Kind::Int64 => array.as_primitive::<Int64Type>().value(row) == units,
                    Kind::Float { .. } => {
                        f64::from(array.as_primitive::<Float32Type>().value(row)) == kind.number(units)
                    }
                    Kind::Double { .. } => array.as_primitive::<Float64Type>().value(row) == kind.number(units),
                    Kind::Text { length } | Kind::String { length } => {
                        array.as_string::<i32>().value(row).as_bytes() == text(units, *length)
                    }
                    Kind::Blob { length } => array.as_binary::<i32>().value(row) == text(units, *length),
                    Kind::Timestamp => array.as_primitive::<TimestampNanosecondType>().value(row) == units * 1_000_000,
                };
                assert!(same, "{kind:?}: row {row} of {array:?} is not of {units} units");
            }
        }
    }

    fn text(units: i64, length: u16) -> Vec<u8> {
        let mut text = Vec::new();
        text_of(units, length, &mut text);
        text
    }

    #[test]
    fn nanosecond_runs_keep_times_and_send_time_fields_as_integers() {
        let (schema, batch) = example(Unit::Nanos);
        let converted = Tables::new(&schema).record_batch(&batch).unwrap();
        assert_eq!(converted["time"].as_primitive::<TimestampNanosecondType>().values()[..3], [1_000, 1_001, 1_002]);
        let at = EVERY_KIND.iter().position(|kind| *kind == Kind::Timestamp).unwrap();
        assert_eq!(*converted[format!("s_{at}").as_str()].data_type(), DataType::Int64);
    }

    #[test]
    fn a_time_that_nanoseconds_cannot_hold_is_refused() {
        let (schema, mut batch) = example(Unit::Millis);
        batch.parts[0].times[1] = i64::MAX / 1_000;
        let error = Tables::new(&schema).record_batch(&batch).unwrap_err();
        assert!(error.message.contains("9223372036854775 (Millis since 1970)"), "{error}");
    }
}
