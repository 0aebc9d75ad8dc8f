//! Encodes record batches as DataRow messages.
//!
//! The writer of a column (by Arrow type, PostgreSQL type and format) is chosen once per batch;
//! each value costs one indirect call.

use std::sync::Arc;

use ::pg::array::{array_binary_header, array_text, record_text};
use ::pg::backend::{data_row, value};
use ::pg::time::{
    DAY_MICROS, EPOCH_DAYS, EPOCH_MICROS, Interval, date_text, interval_binary, interval_text, time_text,
    timestamp_text, timestamptz_text,
};
use ::pg::types::oid;
use ::pg::value::{
    bool_text, bytea_text, char_byte, char_text, float4_text, float8_text, int_text, uint_text, uuid_text,
};
use ::pg::{Form, Oid, Type, numeric};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use model::{Error, Result, SqlState};
use query::OutputColumn;
use query::encode::TextReader;

use super::zone::Zone;

/// Buffered bytes at which rows are flushed.
pub(super) const FLUSH_BYTES: usize = 64 << 10;
/// Largest row, as in PostgreSQL.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Appends the value of a row, without its length. Not called for NULL.
type Write = Box<dyn FnMut(&mut Vec<u8>, usize) + Send>;

struct Column {
    nulls: Option<NullBuffer>,
    write: Write,
}

impl Column {
    fn new(array: &ArrayRef, oid: Oid, form: Form, zone: &Zone) -> Result<Column> {
        let write = match form {
            Form::Text => text_writer(array, oid, zone)?,
            Form::Binary => binary_writer(array, oid, zone)?,
        };
        Ok(Column { nulls: array.logical_nulls(), write })
    }

    /// The binary format of values that are given as texts.
    fn binary_of_texts(array: &ArrayRef, oid: Oid, texts: &TextReader) -> Column {
        let (nulls, array, texts) = (array.logical_nulls(), array.as_string::<i32>().clone(), texts.clone());
        let write = move |out: &mut Vec<u8>, row: usize| {
            // The text is one that the type's output made; a type without binary format is sent as text.
            let before = out.len();
            if texts.binary(array.value(row), oid, out).is_err() {
                out.truncate(before);
                out.extend_from_slice(array.value(row).as_bytes());
            }
        };
        Column { nulls, write: Box::new(write) }
    }

    /// Pads the values with blanks to a number of characters.
    fn padded(self, characters: usize) -> Column {
        let Column { nulls, mut write } = self;
        let write = move |out: &mut Vec<u8>, row: usize| {
            let start = out.len();
            write(out, row);
            // Each character has one byte that does not continue another one.
            let count = out[start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
            out.resize(out.len() + characters.saturating_sub(count), b' ');
        };
        Column { nulls, write: Box::new(write) }
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// Encoder of one batch.
pub(super) struct Encoder {
    columns: Vec<Column>,
    rows: usize,
    next: usize,
}

impl Encoder {
    /// `forms`: format of each column. `texts` reads columns with [`has_texts`].
    ///
    /// # Errors
    /// 0A000 if a column has no binary format; XX000 (a bug) if the batch does not match `columns`.
    pub(super) fn new(
        batch: &RecordBatch,
        columns: &[OutputColumn],
        forms: &[Form],
        zone: &Zone,
        texts: &TextReader,
    ) -> Result<Encoder> {
        if batch.num_columns() != columns.len() || forms.len() != columns.len() {
            return Err(Error::bug(format!(
                "a batch of {} columns for a result of {} with {} forms",
                batch.num_columns(),
                columns.len(),
                forms.len()
            )));
        }
        let column = |((array, column), form): ((&ArrayRef, &OutputColumn), &Form)| {
            if *form == Form::Binary && *array.data_type() == DataType::Utf8 && has_texts(column.oid) {
                return Ok(Column::binary_of_texts(array, column.oid, texts));
            }
            let found = Column::new(array, column.oid, *form, zone)
                .map_err(|error| error.context(format!("column \"{}\"", column.name)))?;
            Ok(match model::Type::from_oid(column.oid, column.typmod) {
                Some(model::Type::Char(Some(characters))) => found.padded(characters as usize),
                _ => found,
            })
        };
        let writers = batch.columns().iter().zip(columns).zip(forms).map(column).collect::<Result<_>>()?;
        Ok(Encoder { columns: writers, rows: batch.num_rows(), next: 0 })
    }

    /// Whether all rows are encoded.
    pub(super) fn is_done(&self) -> bool {
        self.next == self.rows
    }

    /// Appends rows until the batch ends, `rows_max` are appended or `out` has [`FLUSH_BYTES`];
    /// returns their number.
    ///
    /// # Errors
    /// 54000 if a row is too long; `out` then ends with the previous row.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, rows_max: u64) -> Result<u64> {
        let first = self.next;
        let last = usize::try_from(rows_max).map_or(self.rows, |max| self.rows.min(first.saturating_add(max)));
        while self.next < last && out.len() < FLUSH_BYTES {
            self.write_row(out)?;
            self.next += 1;
        }
        Ok((self.next - first) as u64)
    }

    /// Appends all remaining rows; returns their number.
    ///
    /// # Errors
    /// See [`Encoder::write`].
    pub(super) fn write_all(&mut self, out: &mut Vec<u8>) -> Result<u64> {
        let first = self.next;
        while self.next < self.rows {
            self.write_row(out)?;
            self.next += 1;
        }
        Ok((self.next - first) as u64)
    }

    fn write_row(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let before = out.len();
        let mut row = data_row(out, self.columns.len());
        for column in &mut self.columns {
            if column.is_null(self.next) {
                row.null();
            } else {
                row.value(|out| (column.write)(out, self.next));
            }
        }
        let length = row.buffer().len() - before;
        if length > ROW_BYTES_MAX {
            row.abandon();
            return Err(Error::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                format!("a result row of {length} bytes, the limit is {ROW_BYTES_MAX}"),
            ));
        }
        row.finish();
        Ok(())
    }
}

/// Cells of a batch in text format, for results outside of the PostgreSQL protocol. Timestamps are
/// in UTC.
pub(crate) struct TextCells {
    columns: Vec<Column>,
}

impl TextCells {
    /// # Errors
    /// XX000 (a bug) if the batch does not match `columns`.
    pub(crate) fn new(batch: &RecordBatch, columns: &[OutputColumn]) -> Result<TextCells> {
        let forms = vec![Form::Text; columns.len()];
        Encoder::new(batch, columns, &forms, &Zone::utc(), &TextReader::default())
            .map(|encoder| TextCells { columns: encoder.columns })
    }

    /// Appends a cell; false, without appending, for NULL.
    pub(crate) fn write(&mut self, row: usize, column: usize, out: &mut Vec<u8>) -> bool {
        let column = &mut self.columns[column];
        let there = !column.is_null(row);
        if there {
            (column.write)(out, row);
        }
        there
    }
}

/// A writer for a primitive array. The typed copy shares the buffers.
macro_rules! primitive {
    ($array:expr, $ty:ty, |$out:ident, $value:ident| $write:expr) => {{
        let array = $array.as_primitive::<$ty>().clone();
        Box::new(move |$out: &mut Vec<u8>, row: usize| {
            let $value = array.value(row);
            $write;
        }) as Write
    }};
}

/// A writer for an array of strings or byte slices.
macro_rules! slices {
    ($array:expr, $cast:ident $(::<$generic:ty>)?, |$out:ident, $value:ident| $write:expr) => {{
        let array = $array.$cast$(::<$generic>)?().clone();
        Box::new(move |$out: &mut Vec<u8>, row: usize| {
            let $value = array.value(row);
            $write;
        }) as Write
    }};
}

/// One arm per time unit; `$micros` is the value in microseconds.
macro_rules! by_unit {
    ($unit:expr, $array:expr, [$s:ty, $ms:ty, $us:ty, $ns:ty], |$out:ident, $micros:ident| $write:expr) => {
        match $unit {
            TimeUnit::Second => primitive!($array, $s, |$out, v| {
                let $micros = i64::from(v).saturating_mul(1_000_000);
                $write
            }),
            TimeUnit::Millisecond => primitive!($array, $ms, |$out, v| {
                let $micros = i64::from(v).saturating_mul(1_000);
                $write
            }),
            TimeUnit::Microsecond => primitive!($array, $us, |$out, v| {
                let $micros = v;
                $write
            }),
            TimeUnit::Nanosecond => primitive!($array, $ns, |$out, v| {
                // The extremes are the infinities.
                let $micros = if matches!(v, i64::MIN | i64::MAX) { v } else { v.div_euclid(1_000) };
                $write
            }),
        }
    };
}

fn text_writer(array: &ArrayRef, ty: Oid, zone: &Zone) -> Result<Write> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, _| ()),
        DataType::Boolean => slices!(array, as_boolean, |out, v| bool_text(out, v)),
        DataType::Int8 => primitive!(array, Int8Type, |out, v| int_text(out, v.into())),
        DataType::Int16 => primitive!(array, Int16Type, |out, v| int_text(out, v.into())),
        DataType::Int32 => primitive!(array, Int32Type, |out, v| int_text(out, v.into())),
        DataType::Int64 => primitive!(array, Int64Type, |out, v| int_text(out, v)),
        DataType::UInt8 => primitive!(array, UInt8Type, |out, v| uint_text(out, v.into())),
        DataType::UInt16 => primitive!(array, UInt16Type, |out, v| uint_text(out, v.into())),
        DataType::UInt32 if matches!(ty, oid::REGPROC | oid::REGTYPE) => {
            primitive!(array, UInt32Type, |out, v| match ::pg::type_functions::object_name(ty, v) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => uint_text(out, v.into()),
            })
        }
        DataType::UInt32 => primitive!(array, UInt32Type, |out, v| uint_text(out, v.into())),
        DataType::UInt64 => primitive!(array, UInt64Type, |out, v| uint_text(out, v)),
        DataType::Float32 => primitive!(array, Float32Type, |out, v| float4_text(out, v)),
        DataType::Float64 => primitive!(array, Float64Type, |out, v| float8_text(out, v)),
        DataType::Utf8 if ty == oid::CHAR => slices!(array, as_string::<i32>, |out, v| char_text(out, v)),
        DataType::Utf8 => slices!(array, as_string::<i32>, |out, v| out.extend_from_slice(v.as_bytes())),
        DataType::LargeUtf8 => slices!(array, as_string::<i64>, |out, v| out.extend_from_slice(v.as_bytes())),
        DataType::Utf8View => slices!(array, as_string_view, |out, v| out.extend_from_slice(v.as_bytes())),
        DataType::Binary => slices!(array, as_binary::<i32>, |out, v| bytes_text(out, v, ty)),
        DataType::LargeBinary => slices!(array, as_binary::<i64>, |out, v| bytes_text(out, v, ty)),
        DataType::BinaryView => slices!(array, as_binary_view, |out, v| bytes_text(out, v, ty)),
        DataType::FixedSizeBinary(_) => slices!(array, as_fixed_size_binary, |out, v| bytes_text(out, v, ty)),
        DataType::Date32 => primitive!(array, Date32Type, |out, v| date_text(out, days_since_2000(v))),
        DataType::Date64 => primitive!(array, Date64Type, |out, v| date_text(out, days_of_millis(v))),
        DataType::Time32(_) | DataType::Time64(_) => time_writer(array, time_text),
        DataType::Timestamp(_, _) => timestamp_text_writer(array, ty, zone),
        DataType::Interval(_) | DataType::Duration(_) => interval_writer(array, interval_text),
        DataType::Decimal32(_, scale) => decimal_writer::<Decimal32Type>(array, *scale, numeric::numeric_text),
        DataType::Decimal64(_, scale) => decimal_writer::<Decimal64Type>(array, *scale, numeric::numeric_text),
        DataType::Decimal128(_, scale) => decimal_writer::<Decimal128Type>(array, *scale, numeric::numeric_text),
        DataType::Decimal256(_, _) => wide_decimal_writer(array, |out, text| out.extend_from_slice(text.as_bytes())),
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => {
            list_text_writer(array, ty, zone)?
        }
        DataType::Struct(_) => record_text_writer(array, zone)?,
        DataType::Dictionary(_, _) => dictionary_writer(array, |values| text_writer(values, ty, zone))?,
        // Types that our functions do not return: readable, but not PostgreSQL's format.
        _ => {
            let array = Arc::clone(array);
            Box::new(move |out, row| {
                let text = arrow_cast::display::array_value_to_string(&array, row).unwrap_or_default();
                out.extend_from_slice(text.as_bytes());
            })
        }
    })
}

fn bytes_text(out: &mut Vec<u8>, bytes: &[u8], ty: Oid) {
    match bytes.try_into() {
        Ok(uuid) if ty == oid::UUID => uuid_text(out, uuid),
        _ => bytea_text(out, bytes),
    }
}

/// Days since 2000; the infinities stay as they are.
fn days_since_2000(days: i32) -> i32 {
    if matches!(days, i32::MIN | i32::MAX) { days } else { days.saturating_sub(EPOCH_DAYS) }
}

fn days_of_millis(millis: i64) -> i32 {
    let days = millis.div_euclid(86_400_000) - i64::from(EPOCH_DAYS);
    i32::try_from(days).unwrap_or(if days < 0 { i32::MIN } else { i32::MAX })
}

fn time_writer(array: &ArrayRef, write: impl Fn(&mut Vec<u8>, i64) + Send + 'static) -> Write {
    let unit = match array.data_type() {
        DataType::Time32(unit) | DataType::Time64(unit) => *unit,
        other => unreachable!("BUG: {other} is no time of day"),
    };
    by_unit!(
        unit,
        array,
        [Time32SecondType, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType],
        |out, micros| write(out, micros)
    )
}

/// A writer that passes pg micros to `write`.
fn timestamp_writer(array: &ArrayRef, mut write: impl FnMut(&mut Vec<u8>, i64) + Send + 'static) -> Write {
    let DataType::Timestamp(unit, _) = array.data_type() else {
        unreachable!("BUG: {} is no timestamp", array.data_type())
    };
    by_unit!(
        unit,
        array,
        [TimestampSecondType, TimestampMillisecondType, TimestampMicrosecondType, TimestampNanosecondType],
        |out, micros| match micros {
            i64::MIN | i64::MAX => write(out, micros),
            micros => write(out, micros.saturating_sub(EPOCH_MICROS)),
        }
    )
}

fn timestamp_text_writer(array: &ArrayRef, ty: Oid, zone: &Zone) -> Write {
    match ty {
        oid::TIMESTAMP => timestamp_writer(array, timestamp_text),
        oid::DATE => timestamp_writer(array, |out, micros| date_text(out, micros.div_euclid(DAY_MICROS) as i32)),
        _ => {
            let mut zone = zone.clone();
            timestamp_writer(array, move |out, micros| {
                let seconds = micros.div_euclid(1_000_000) + EPOCH_MICROS / 1_000_000;
                timestamptz_text(out, micros, zone.offset_at(seconds));
            })
        }
    }
}

fn interval_writer(array: &ArrayRef, write: impl Fn(&mut Vec<u8>, Interval) + Send + 'static) -> Write {
    match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => primitive!(array, IntervalYearMonthType, |out, v| {
            write(out, Interval { months: v, days: 0, micros: 0 })
        }),
        DataType::Interval(IntervalUnit::DayTime) => primitive!(array, IntervalDayTimeType, |out, v| {
            write(out, Interval { months: 0, days: v.days, micros: i64::from(v.milliseconds) * 1_000 })
        }),
        DataType::Duration(unit) => by_unit!(
            unit,
            array,
            [DurationSecondType, DurationMillisecondType, DurationMicrosecondType, DurationNanosecondType],
            // The difference of two timestamps: PostgreSQL returns days and time.
            |out, micros| write(
                out,
                Interval {
                    months: 0,
                    days: (micros / pg::time::DAY_MICROS) as i32,
                    micros: micros % pg::time::DAY_MICROS
                }
            )
        ),
        _ => primitive!(array, IntervalMonthDayNanoType, |out, v| {
            // Truncates towards zero, so that an interval keeps its sign.
            write(out, Interval { months: v.months, days: v.days, micros: v.nanoseconds / 1_000 })
        }),
    }
}

fn decimal_writer<T>(array: &ArrayRef, scale: i8, write: fn(&mut Vec<u8>, i128, i8)) -> Write
where
    T: arrow_array::ArrowPrimitiveType,
    T::Native: Into<i128>,
{
    primitive!(array, T, |out, v| write(out, v.into(), scale))
}

/// Decimals beyond i128 are converted through text.
fn wide_decimal_writer(array: &ArrayRef, write: fn(&mut Vec<u8>, &str)) -> Write {
    let array = array.as_primitive::<Decimal256Type>().clone();
    Box::new(move |out, row| write(out, &array.value_as_string(row)))
}

/// Offsets of a list array's rows, and its values.
fn list_parts(array: &ArrayRef) -> (Vec<usize>, ArrayRef) {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.value_offsets().iter().map(|at| *at as usize).collect(), Arc::clone(list.values()))
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.value_offsets().iter().map(|at| *at as usize).collect(), Arc::clone(list.values()))
        }
        _ => {
            let list = array.as_fixed_size_list();
            let width = list.value_length() as usize;
            ((0..=list.len()).map(|row| row * width).collect(), Arc::clone(list.values()))
        }
    }
}

/// Element type of an array type; 0 if `ty` is not an array.
fn element_of(ty: Oid) -> Oid {
    Type::by_oid(ty).map_or(0, |ty| ty.element)
}

fn list_text_writer(array: &ArrayRef, ty: Oid, zone: &Zone) -> Result<Write> {
    let (offsets, values) = list_parts(array);
    let nested = values.data_type().is_list();
    let mut element = Column::new(&values, if nested { ty } else { element_of(ty) }, Form::Text, zone)?;
    let vector = matches!(ty, oid::INT2VECTOR | oid::OIDVECTOR);
    Ok(Box::new(move |out, row| {
        let range = offsets[row]..offsets[row + 1];
        if vector {
            return vector_text(out, range, &mut element);
        }
        let mut text = array_text(out);
        for at in range {
            if element.is_null(at) {
                text.null();
            } else if nested {
                text.nested(|out| (element.write)(out, at));
            } else {
                text.element(|out| (element.write)(out, at));
            }
        }
        text.finish();
    }))
}

fn vector_text(out: &mut Vec<u8>, range: std::ops::Range<usize>, element: &mut Column) {
    for (nth, at) in range.enumerate() {
        if nth > 0 {
            out.push(b' ');
        }
        (element.write)(out, at);
    }
}

fn record_text_writer(array: &ArrayRef, zone: &Zone) -> Result<Write> {
    let fields = array.as_struct().columns().iter().map(|field| Column::new(field, 0, Form::Text, zone));
    let mut fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Box::new(move |out, row| {
        let mut record = record_text(out);
        for field in &mut fields {
            if field.is_null(row) {
                record.null();
            } else {
                record.field(|out| (field.write)(out, row));
            }
        }
        record.finish();
    }))
}

fn dictionary_writer(array: &ArrayRef, writer: impl FnOnce(&ArrayRef) -> Result<Write>) -> Result<Write> {
    fn over<K: ArrowDictionaryKeyType>(array: &ArrayRef, mut write: Write) -> Write {
        let keys = array.as_dictionary::<K>().keys().clone();
        Box::new(move |out, row| write(out, arrow_buffer::ArrowNativeType::as_usize(keys.value(row))))
    }
    let write = writer(array.as_any_dictionary().values())?;
    let DataType::Dictionary(key, _) = array.data_type() else {
        return Err(Error::bug(format!("{} is not a dictionary", array.data_type())));
    };
    Ok(match key.as_ref() {
        DataType::Int8 => over::<Int8Type>(array, write),
        DataType::Int16 => over::<Int16Type>(array, write),
        DataType::Int32 => over::<Int32Type>(array, write),
        DataType::Int64 => over::<Int64Type>(array, write),
        DataType::UInt8 => over::<UInt8Type>(array, write),
        DataType::UInt16 => over::<UInt16Type>(array, write),
        DataType::UInt32 => over::<UInt32Type>(array, write),
        _ => over::<UInt64Type>(array, write),
    })
}

/// Whether texts may stand for the values of a type in a batch.
pub(super) fn has_texts(ty: Oid) -> bool {
    query::encode::has_text_transport(ty) || query::encode::is_named_oid(ty) || query::encode::has_styles(ty)
}

fn binary_writer(array: &ArrayRef, ty: Oid, zone: &Zone) -> Result<Write> {
    if let DataType::Dictionary(_, _) = array.data_type() {
        return dictionary_writer(array, |values| binary_writer(values, ty, zone));
    }
    let writer = match ty {
        _ if *array.data_type() == DataType::Null => Some(Box::new(|_: &mut Vec<u8>, _: usize| ()) as Write),
        oid::CHAR if *array.data_type() == DataType::Utf8 => {
            Some(slices!(array, as_string::<i32>, |out, v| out.push(char_byte(v))))
        }
        oid::BOOL => bool_binary(array),
        oid::INT2 | oid::INT4 | oid::INT8 | oid::OID | oid::XID | oid::CID => int_binary(array, ty),
        oid::REGCLASS | oid::REGTYPE | oid::REGPROC | oid::REGPROCEDURE | oid::REGNAMESPACE => int_binary(array, ty),
        oid::FLOAT4 | oid::FLOAT8 => float_binary(array, ty),
        oid::NUMERIC => numeric_binary(array),
        oid::BYTEA | oid::UUID => bytes_binary(array),
        oid::DATE => date_binary(array),
        oid::TIME => is(array, |ty| matches!(ty, DataType::Time32(_) | DataType::Time64(_)))
            .map(|array| time_writer(array, |out, micros| out.extend_from_slice(&micros.to_be_bytes()))),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => is(array, |ty| matches!(ty, DataType::Timestamp(_, _)))
            .map(|array| timestamp_writer(array, |out, micros| out.extend_from_slice(&micros.to_be_bytes()))),
        oid::INTERVAL => is(array, |ty| matches!(ty, DataType::Interval(_) | DataType::Duration(_)))
            .map(|array| interval_writer(array, |out, v| out.extend_from_slice(&interval_binary(v)))),
        oid::JSONB => {
            let mut text = text_writer(array, ty, zone)?;
            Some(Box::new(move |out: &mut Vec<u8>, row: usize| {
                out.push(1);
                text(out, row);
            }) as Write)
        }
        // Types whose binary format is their text.
        oid::TEXT
        | oid::VARCHAR
        | oid::BPCHAR
        | oid::NAME
        | oid::CHAR
        | oid::JSON
        | oid::UNKNOWN
        | oid::CSTRING
        | oid::VOID => Some(text_writer(array, ty, zone)?),
        oid::PG_NODE_TREE | oid::ACLITEM => Some(text_writer(array, ty, zone)?),
        _ if element_of(ty) != 0 => list_binary(array, ty, zone)?,
        _ => None,
    };
    writer.ok_or_else(|| {
        Error::unsupported(format!("no binary format of type {} from {}", Type::sql_name(ty), array.data_type()))
            .with_hint("request the text format")
    })
}

/// Returns the array if its type passes the test.
fn is(array: &ArrayRef, test: impl FnOnce(&DataType) -> bool) -> Option<&ArrayRef> {
    test(array.data_type()).then_some(array)
}

fn bool_binary(array: &ArrayRef) -> Option<Write> {
    is(array, |ty| *ty == DataType::Boolean).map(|array| slices!(array, as_boolean, |out, v| out.push(u8::from(v))))
}

/// Integers with the width of PostgreSQL type `ty`.
fn int_binary(array: &ArrayRef, ty: Oid) -> Option<Write> {
    let wide = match ty {
        oid::INT2 => 2,
        oid::INT8 => 8,
        _ => 4,
    };
    // The planner has checked the range: the upper bytes are sign extension.
    macro_rules! cut {
        ($arrow:ty) => {
            primitive!(array, $arrow, |out, v| out.extend_from_slice(&i64::from(v).to_be_bytes()[8 - wide..]))
        };
    }
    Some(match array.data_type() {
        DataType::Int16 if wide == 2 => primitive!(array, Int16Type, |out, v| out.extend_from_slice(&v.to_be_bytes())),
        DataType::Int32 if wide == 4 => primitive!(array, Int32Type, |out, v| out.extend_from_slice(&v.to_be_bytes())),
        DataType::UInt32 if wide == 4 => {
            primitive!(array, UInt32Type, |out, v| out.extend_from_slice(&v.to_be_bytes()))
        }
        DataType::Int64 if wide == 8 => primitive!(array, Int64Type, |out, v| out.extend_from_slice(&v.to_be_bytes())),
        DataType::Int8 => cut!(Int8Type),
        DataType::Int16 => cut!(Int16Type),
        DataType::Int32 => cut!(Int32Type),
        DataType::Int64 => cut!(Int64Type),
        DataType::UInt8 => cut!(UInt8Type),
        DataType::UInt16 => cut!(UInt16Type),
        DataType::UInt32 => cut!(UInt32Type),
        _ => return None,
    })
}

fn float_binary(array: &ArrayRef, ty: Oid) -> Option<Write> {
    Some(match (array.data_type(), ty) {
        (DataType::Float64, oid::FLOAT8) => {
            primitive!(array, Float64Type, |out, v| out.extend_from_slice(&v.to_be_bytes()))
        }
        (DataType::Float32, oid::FLOAT4) => {
            primitive!(array, Float32Type, |out, v| out.extend_from_slice(&v.to_be_bytes()))
        }
        (DataType::Float32, _) => {
            primitive!(array, Float32Type, |out, v| out.extend_from_slice(&f64::from(v).to_be_bytes()))
        }
        (DataType::Float64, _) => {
            primitive!(array, Float64Type, |out, v| out.extend_from_slice(&(v as f32).to_be_bytes()))
        }
        _ => return None,
    })
}

fn numeric_binary(array: &ArrayRef) -> Option<Write> {
    Some(match array.data_type() {
        DataType::Decimal32(_, scale) => decimal_writer::<Decimal32Type>(array, *scale, numeric::numeric_binary),
        DataType::Decimal64(_, scale) => decimal_writer::<Decimal64Type>(array, *scale, numeric::numeric_binary),
        DataType::Decimal128(_, scale) => decimal_writer::<Decimal128Type>(array, *scale, numeric::numeric_binary),
        DataType::Decimal256(_, _) => wide_decimal_writer(array, |out, text| {
            // Cannot fail: the text is plain decimal.
            let _ = numeric::decimal_text_binary(out, text);
        }),
        DataType::UInt64 => primitive!(array, UInt64Type, |out, v| numeric::numeric_binary(out, v.into(), 0)),
        DataType::Int64 => primitive!(array, Int64Type, |out, v| numeric::numeric_binary(out, v.into(), 0)),
        DataType::Int32 => primitive!(array, Int32Type, |out, v| numeric::numeric_binary(out, v.into(), 0)),
        DataType::Float64 => primitive!(array, Float64Type, |out, v| numeric_of_float(out, v)),
        _ => return None,
    })
}

fn numeric_of_float(out: &mut Vec<u8>, float: f64) {
    let mut text = Vec::new();
    float8_text(&mut text, float);
    let parsed = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    numeric::write_binary(out, &parsed.unwrap_or(numeric::Numeric::NAN));
}

fn bytes_binary(array: &ArrayRef) -> Option<Write> {
    Some(match array.data_type() {
        DataType::Binary => slices!(array, as_binary::<i32>, |out, v| out.extend_from_slice(v)),
        DataType::LargeBinary => slices!(array, as_binary::<i64>, |out, v| out.extend_from_slice(v)),
        DataType::BinaryView => slices!(array, as_binary_view, |out, v| out.extend_from_slice(v)),
        DataType::FixedSizeBinary(_) => slices!(array, as_fixed_size_binary, |out, v| out.extend_from_slice(v)),
        _ => return None,
    })
}

fn date_binary(array: &ArrayRef) -> Option<Write> {
    Some(match array.data_type() {
        DataType::Date32 => primitive!(array, Date32Type, |out, v| {
            out.extend_from_slice(&v.saturating_sub(EPOCH_DAYS).to_be_bytes());
        }),
        DataType::Date64 => {
            primitive!(array, Date64Type, |out, v| out.extend_from_slice(&days_of_millis(v).to_be_bytes()))
        }
        _ => return None,
    })
}

fn list_binary(array: &ArrayRef, ty: Oid, zone: &Zone) -> Result<Option<Write>> {
    if !array.data_type().is_list() {
        return Ok(None);
    }
    let (offsets, values) = list_parts(array);
    if values.data_type().is_list() {
        return Ok(None);
    }
    let element_type = element_of(ty);
    let mut element = Column::new(&values, element_type, Form::Binary, zone)?;
    let vector = matches!(ty, oid::INT2VECTOR | oid::OIDVECTOR);
    Ok(Some(Box::new(move |out, row| {
        let range = offsets[row]..offsets[row + 1];
        let nulls = range.clone().any(|at| element.is_null(at));
        array_binary_header(out, element_type, range.len(), nulls);
        if vector && !range.is_empty() {
            // Vectors have lower bound 0: the last word of the header.
            let end = out.len();
            out[end - 4..].fill(0);
        }
        for at in range {
            if element.is_null(at) {
                out.extend_from_slice(&(-1i32).to_be_bytes());
            } else {
                value(out, |out| (element.write)(out, at));
            }
        }
    })))
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
