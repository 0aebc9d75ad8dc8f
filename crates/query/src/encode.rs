//! Encodes result values in PostgreSQL's text and binary formats, for DataRow, COPY TO and the shell.
//!
//! The encoding of a value depends on the column's OID and on the type of its array: an `oid` may be stored as int64, a
//! `numeric(20)` as uint64. An [`Encoder`] is built for the columns of a result; [`Rows`] resolves the array types of
//! one batch, so that each value costs one match.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Decimal256Array, RecordBatch};
use arrow_schema::{DataType as Arrow, IntervalUnit, TimeUnit};
use model::{Error, Result, Type};
use pg::time::Interval;
use pg::types::oid;
use relational::types::{NUMERIC_SCALE, OutputColumn, oid_of};

use crate::zone::Zone;

/// Days from 1970-01-01 to 2000-01-01, the epoch of PostgreSQL's binary dates.
const PG_EPOCH_DAYS: i32 = 10_957;

/// The Arrow type of a `numeric` without a declared scale.
const UNSCALED: Arrow = Arrow::Decimal128(38, NUMERIC_SCALE);

/// Encodes the batches of a result.
#[derive(Clone, Debug)]
pub struct Encoder {
    shown: Vec<Shown>,
    zone: Zone,
}

/// Properties of a column that determine its encoding.
#[derive(Clone, Copy, Debug)]
struct Shown {
    oid: u32,
    /// The length of a `char(n)`, to which values are padded with blanks; 0 for other types.
    characters: usize,
}

impl Shown {
    fn of(column: &OutputColumn) -> Shown {
        let characters = match Type::from_oid(column.oid, column.typmod) {
            Some(Type::Char(Some(characters))) => characters as usize,
            _ => 0,
        };
        Shown { oid: column.oid, characters }
    }
}

impl Encoder {
    /// `zone`: the session's `TimeZone`.
    ///
    /// # Errors
    /// 22023 for an unknown zone.
    pub fn new(columns: &[OutputColumn], zone: &str) -> Result<Encoder> {
        Ok(Encoder { shown: columns.iter().map(Shown::of).collect(), zone: Zone::new(zone)? })
    }

    /// Prepares a batch of the result.
    ///
    /// # Errors
    /// XX000 if the batch does not have these columns, or has a type without a PostgreSQL encoding.
    pub fn batch<'a>(&'a self, batch: &'a RecordBatch) -> Result<Rows<'a>> {
        if batch.num_columns() != self.shown.len() {
            return Err(Error::bug(format!(
                "{} columns where {} were announced",
                batch.num_columns(),
                self.shown.len()
            )));
        }
        let columns = batch.columns().iter().zip(&self.shown).map(|(array, shown)| Column::new(array, *shown));
        Ok(Rows { columns: columns.collect::<Result<_>>()?, zone: &self.zone })
    }
}

/// One batch, ready to be encoded value by value.
pub struct Rows<'a> {
    columns: Vec<Column<'a>>,
    zone: &'a Zone,
}

impl Rows<'_> {
    /// Appends the text format of a value; returns `false` and appends nothing for NULL.
    pub fn text(&self, row: usize, column: usize, out: &mut Vec<u8>) -> Result<bool> {
        self.columns[column].text(row, self.zone, out)
    }

    /// Appends the binary format of a value, without its length; returns `false` and appends nothing for NULL.
    pub fn binary(&self, row: usize, column: usize, out: &mut Vec<u8>) -> Result<bool> {
        self.columns[column].binary(row, self.zone, out)
    }
}

struct Column<'a> {
    array: &'a dyn Array,
    oid: u32,
    characters: usize,
    cell: Cell<'a>,
}

/// Reads the values of an array.
enum Cell<'a> {
    Null,
    Bool(&'a arrow_array::BooleanArray),
    /// Any signed integer.
    Int(Box<dyn Fn(usize) -> i64 + 'a>),
    UInt(Box<dyn Fn(usize) -> u64 + 'a>),
    Float4(&'a [f32]),
    Float8(&'a [f64]),
    Decimal(Box<dyn Fn(usize) -> i128 + 'a>, i8),
    Decimal256(&'a Decimal256Array),
    Text(Box<dyn Fn(usize) -> &'a str + 'a>),
    Bytes(Box<dyn Fn(usize) -> &'a [u8] + 'a>),
    /// Nanoseconds since 1970; true if the type has a time zone.
    Moment(Box<dyn Fn(usize) -> i64 + 'a>, bool),
    /// Days since 1970.
    Date(Box<dyn Fn(usize) -> i64 + 'a>),
    /// Microseconds since midnight.
    Time(Box<dyn Fn(usize) -> i64 + 'a>),
    Interval(Box<dyn Fn(usize) -> Interval + 'a>),
    List(Box<dyn Fn(usize) -> ArrayRef + 'a>, u32),
    /// Any other type, in Arrow's display format.
    Shown,
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> &[T::Native] {
    array.as_primitive::<T>().values()
}

fn ints<'a, T: ArrowPrimitiveType>(array: &'a dyn Array) -> Box<dyn Fn(usize) -> i64 + 'a>
where
    T::Native: Into<i64>,
{
    let values = values::<T>(array);
    Box::new(move |row| values[row].into())
}

fn scaled<'a, T: ArrowPrimitiveType>(array: &'a dyn Array, factor: i64) -> Box<dyn Fn(usize) -> i64 + 'a>
where
    T::Native: Into<i64>,
{
    let values = values::<T>(array);
    Box::new(move |row| values[row].into().saturating_mul(factor))
}

fn divided<'a, T: ArrowPrimitiveType>(array: &'a dyn Array, divisor: i64) -> Box<dyn Fn(usize) -> i64 + 'a>
where
    T::Native: Into<i64>,
{
    let values = values::<T>(array);
    Box::new(move |row| values[row].into().div_euclid(divisor))
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, Shown { oid, characters }: Shown) -> Result<Column<'a>> {
        let array: &'a dyn Array = array.as_ref();
        let cell = cell(array)?;
        Ok(Column { array, oid, characters, cell })
    }

    fn text(&self, row: usize, zone: &Zone, out: &mut Vec<u8>) -> Result<bool> {
        if self.array.is_null(row) {
            return Ok(false);
        }
        match &self.cell {
            Cell::Null => return Ok(false),
            Cell::Bool(values) => pg::value::bool_text(out, values.value(row)),
            Cell::Int(value) => pg::value::int_text(out, value(row)),
            Cell::UInt(value) => pg::value::uint_text(out, value(row)),
            Cell::Float4(values) => pg::value::float4_text(out, values[row]),
            Cell::Float8(values) => pg::value::float8_text(out, values[row]),
            Cell::Decimal(value, scale) => {
                let (value, scale) = self.decimal(value(row), *scale);
                pg::numeric::numeric_text(out, value, scale);
            }
            Cell::Decimal256(values) => out.extend_from_slice(values.value_as_string(row).as_bytes()),
            Cell::Text(value) if self.oid == oid::CHAR => pg::value::char_text(out, value(row)),
            Cell::Text(value) => self.padded(value(row), out),
            Cell::Bytes(value) => pg::value::bytea_text(out, value(row)),
            Cell::Moment(value, true) => {
                let ns = value(row);
                pg::time::timestamptz_text(out, pg_micros(ns), zone.offset_at(ns));
            }
            Cell::Moment(value, false) => pg::time::timestamp_text(out, pg_micros(value(row))),
            Cell::Date(value) => pg::time::date_text(out, pg_days(value(row))),
            Cell::Time(value) => pg::time::time_text(out, value(row)),
            Cell::Interval(value) => pg::time::interval_text(out, value(row)),
            Cell::List(value, item) => return self.list_text(&value(row), *item, zone, out),
            Cell::Shown => out.extend_from_slice(self.shown(row)?.as_bytes()),
        }
        Ok(true)
    }

    fn binary(&self, row: usize, zone: &Zone, out: &mut Vec<u8>) -> Result<bool> {
        if self.array.is_null(row) {
            return Ok(false);
        }
        match &self.cell {
            Cell::Null => return Ok(false),
            Cell::Bool(values) => out.push(u8::from(values.value(row))),
            Cell::Int(value) => self.int_binary(value(row), out),
            Cell::UInt(value) => pg::numeric::numeric_binary(out, i128::from(value(row)), 0),
            Cell::Float4(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Cell::Float8(values) => out.extend_from_slice(&values[row].to_be_bytes()),
            Cell::Decimal(value, scale) => {
                let (value, scale) = self.decimal(value(row), *scale);
                pg::numeric::numeric_binary(out, value, scale);
            }
            Cell::Decimal256(values) => pg::numeric::decimal_text_binary(out, &values.value_as_string(row))?,
            Cell::Text(value) => self.text_binary(value(row), out)?,
            Cell::Bytes(value) => out.extend_from_slice(value(row)),
            Cell::Moment(value, _) => out.extend_from_slice(&pg_micros(value(row)).to_be_bytes()),
            Cell::Date(value) => out.extend_from_slice(&pg_days(value(row)).to_be_bytes()),
            Cell::Time(value) => out.extend_from_slice(&value(row).to_be_bytes()),
            Cell::Interval(value) => out.extend_from_slice(&pg::time::interval_binary(value(row))),
            Cell::List(value, item) => return self.list_binary(&value(row), *item, zone, out),
            Cell::Shown => out.extend_from_slice(self.shown(row)?.as_bytes()),
        }
        Ok(true)
    }

    /// An integer with the width of its PostgreSQL type.
    fn int_binary(&self, value: i64, out: &mut Vec<u8>) {
        match pg::types::Type::len_of(self.oid) {
            1 => out.push(value as u8),
            2 => out.extend_from_slice(&(value as i16).to_be_bytes()),
            4 => out.extend_from_slice(&(value as i32).to_be_bytes()),
            8 => out.extend_from_slice(&value.to_be_bytes()),
            _ => pg::value::int_text(out, value),
        }
    }

    /// The binary format of text is the text itself, except for types that are stored as text, such as `uuid`.
    fn text_binary(&self, value: &str, out: &mut Vec<u8>) -> Result<()> {
        match self.oid {
            oid::UUID => out.extend_from_slice(&pg::value::parse_uuid(value)?),
            oid::CHAR => out.push(pg::value::char_byte(value)),
            oid::JSONB => {
                out.push(1);
                out.extend_from_slice(value.as_bytes());
            }
            ty if ty == oid::BYTEA || has_text_transport(ty) => {
                binary_of_text(value, ty, &scalar::Session::default(), out)?;
            }
            _ => self.padded(value, out),
        }
        Ok(())
    }

    /// Removes trailing zeros from a `numeric` without a declared scale: the scale of the original value is not stored.
    fn decimal(&self, mut value: i128, mut scale: i8) -> (i128, i8) {
        if *self.array.data_type() == UNSCALED {
            while scale > 0 && value % 10 == 0 {
                (value, scale) = (value / 10, scale - 1);
            }
        }
        (value, scale)
    }

    fn padded(&self, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(text.as_bytes());
        if self.characters > 0 {
            let blanks = self.characters.saturating_sub(text.chars().count());
            out.resize(out.len() + blanks, b' ');
        }
    }

    fn item_oid(&self, item: u32) -> u32 {
        pg::types::Type::by_oid(self.oid).map(|ty| ty.element).filter(|oid| *oid != 0).unwrap_or(item)
    }

    fn list_text(&self, items: &ArrayRef, item: u32, zone: &Zone, out: &mut Vec<u8>) -> Result<bool> {
        let column = Column::new(items, Shown { oid: self.item_oid(item), characters: 0 })?;
        if self.oid == oid::INT2VECTOR || self.oid == oid::OIDVECTOR {
            for row in 0..items.len() {
                if row > 0 {
                    out.push(b' ');
                }
                column.text(row, zone, out)?;
            }
            return Ok(true);
        }
        let mut array = pg::array::array_text(out);
        let mut result = Ok(true);
        for row in 0..items.len() {
            match &column.cell {
                _ if items.is_null(row) => array.null(),
                Cell::List(..) => array.nested(|out| result = column.text(row, zone, out)),
                _ => array.element(|out| result = column.text(row, zone, out)),
            }
            std::mem::replace(&mut result, Ok(true))?;
        }
        array.finish();
        Ok(true)
    }

    fn list_binary(&self, items: &ArrayRef, item: u32, zone: &Zone, out: &mut Vec<u8>) -> Result<bool> {
        let item = self.item_oid(item);
        let column = Column::new(items, Shown { oid: item, characters: 0 })?;
        if matches!(column.cell, Cell::List(..)) {
            return Err(Error::unsupported("arrays of arrays have no binary form here"));
        }
        pg::array::array_binary_header(out, item, items.len(), items.null_count() > 0);
        for row in 0..items.len() {
            if items.is_null(row) {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let mut result = Ok(true);
            pg::backend::value(out, |out| result = column.binary(row, zone, out));
            result?;
        }
        Ok(true)
    }

    fn shown(&self, row: usize) -> Result<String> {
        arrow_cast::display::array_value_to_string(self.array, row).map_err(Error::bug)
    }
}

/// Whether values of a type may be texts in a batch because Arrow has no type for them.
#[must_use]
pub fn has_text_transport(oid: u32) -> bool {
    relational::arrow::is_encoded(catalog::TypeId(oid)) || model::user_types::is_user(oid)
}

/// Whether texts stand for the numbers of objects of a type, such as `regclass`, when a client sees them.
#[must_use]
pub fn is_named_oid(oid: u32) -> bool {
    matches!(oid, 2202..=2206 | 4089 | 4096)
}

/// Whether the texts of a type depend on settings, so that a client may see its values as texts in the styles of its session.
#[must_use]
pub fn has_styles(oid: u32) -> bool {
    use catalog::TypeId;
    matches!(
        TypeId(oid),
        TypeId::DATE
            | TypeId::TIMESTAMP
            | TypeId::TIMESTAMPTZ
            | TypeId::INTERVAL
            | TypeId::FLOAT4
            | TypeId::FLOAT8
            | TypeId::BYTEA
    )
}

/// Reads texts of a result to send them in binary format. Texts for clients have the styles of the session, and names of
/// objects, which only the session finds.
#[derive(Clone, Debug, Default)]
pub struct TextReader(Arc<scalar::Session>);

impl TextReader {
    pub(crate) fn new(session: Arc<scalar::Session>) -> TextReader {
        TextReader(session)
    }

    /// Appends the binary format of a value that is given as its text.
    ///
    /// # Errors
    /// 0A000 for a type without binary format.
    pub fn binary(&self, text: &str, oid: u32, out: &mut Vec<u8>) -> Result<()> {
        binary_of_text(text, oid, &self.0, out)
    }
}

/// Appends the binary format of a value that is given as its text, which was written with the styles of `session`.
///
/// # Errors
/// 0A000 for a type without binary format.
pub(crate) fn binary_of_text(text: &str, oid: u32, session: &scalar::Session, out: &mut Vec<u8>) -> Result<()> {
    let arena = bumpalo::Bump::new();
    let ctx = scalar::Context { arena: &arena, session };
    let ty = catalog::TypeId(oid);
    if model::user_types::is_enum(oid) {
        out.extend_from_slice(text.as_bytes());
        return Ok(());
    }
    scalar::send(&scalar::input(text, ty, -1, &ctx)?, ty, out)
}

/// The text of a value in binary format, in ISO styles, which every session reads alike.
///
/// # Errors
/// 22P03 for malformed bytes; 0A000 for a type without binary format.
pub fn text_of_binary(bytes: &[u8], oid: u32) -> Result<String> {
    let (arena, session) = (bumpalo::Bump::new(), scalar::Session::default());
    let ctx = scalar::Context { arena: &arena, session: &session };
    let (ty, mut text) = (catalog::TypeId(oid), String::new());
    let bytes = arena.alloc_slice_copy(bytes);
    scalar::output(&scalar::receive(bytes, ty, &ctx)?, ty, &ctx, &mut text)?;
    Ok(text)
}

/// Days since 2000; the extremes are infinities and stay what they are.
fn pg_days(days: i64) -> i32 {
    match i32::try_from(days).unwrap_or(i32::MAX) {
        infinite @ (i32::MIN | i32::MAX) => infinite,
        days => days.saturating_sub(PG_EPOCH_DAYS),
    }
}

/// Microseconds since 2000; the extremes are infinities and stay what they are.
fn pg_micros(ns: i64) -> i64 {
    if matches!(ns, i64::MIN | i64::MAX) { ns } else { pg::time::micros_of_ns(ns) }
}

fn cell<'a>(array: &'a dyn Array) -> Result<Cell<'a>> {
    Ok(match array.data_type() {
        Arrow::Null => Cell::Null,
        Arrow::Boolean => Cell::Bool(array.as_boolean()),
        Arrow::Int8 => Cell::Int(ints::<Int8Type>(array)),
        Arrow::Int16 => Cell::Int(ints::<Int16Type>(array)),
        Arrow::Int32 => Cell::Int(ints::<Int32Type>(array)),
        Arrow::Int64 => Cell::Int(ints::<Int64Type>(array)),
        Arrow::UInt8 => Cell::Int(ints::<UInt8Type>(array)),
        Arrow::UInt16 => Cell::Int(ints::<UInt16Type>(array)),
        Arrow::UInt32 => Cell::Int(ints::<UInt32Type>(array)),
        Arrow::UInt64 => {
            let values = values::<UInt64Type>(array);
            Cell::UInt(Box::new(move |row| values[row]))
        }
        Arrow::Float32 => Cell::Float4(values::<Float32Type>(array)),
        Arrow::Float64 => Cell::Float8(values::<Float64Type>(array)),
        Arrow::Decimal32(_, scale) => {
            let values = values::<Decimal32Type>(array);
            Cell::Decimal(Box::new(move |row| i128::from(values[row])), *scale)
        }
        Arrow::Decimal64(_, scale) => {
            let values = values::<Decimal64Type>(array);
            Cell::Decimal(Box::new(move |row| i128::from(values[row])), *scale)
        }
        Arrow::Decimal128(_, scale) => {
            let values = values::<Decimal128Type>(array);
            Cell::Decimal(Box::new(move |row| values[row]), *scale)
        }
        Arrow::Decimal256(..) => Cell::Decimal256(array.as_primitive()),
        Arrow::Utf8 => {
            let array = array.as_string::<i32>();
            Cell::Text(Box::new(|row| array.value(row)))
        }
        Arrow::LargeUtf8 => {
            let array = array.as_string::<i64>();
            Cell::Text(Box::new(|row| array.value(row)))
        }
        Arrow::Utf8View => {
            let array = array.as_string_view();
            Cell::Text(Box::new(|row| array.value(row)))
        }
        Arrow::Binary => {
            let array = array.as_binary::<i32>();
            Cell::Bytes(Box::new(|row| array.value(row)))
        }
        Arrow::LargeBinary => {
            let array = array.as_binary::<i64>();
            Cell::Bytes(Box::new(|row| array.value(row)))
        }
        Arrow::BinaryView => {
            let array = array.as_binary_view();
            Cell::Bytes(Box::new(|row| array.value(row)))
        }
        Arrow::FixedSizeBinary(_) => {
            let array = array.as_fixed_size_binary();
            Cell::Bytes(Box::new(|row| array.value(row)))
        }
        Arrow::Timestamp(unit, zone) => Cell::Moment(moments(array, *unit), zone.is_some()),
        Arrow::Date32 => Cell::Date(ints::<Date32Type>(array)),
        Arrow::Date64 => Cell::Date(divided::<Date64Type>(array, 86_400_000)),
        Arrow::Time32(TimeUnit::Second) => Cell::Time(scaled::<Time32SecondType>(array, 1_000_000)),
        Arrow::Time32(_) => Cell::Time(scaled::<Time32MillisecondType>(array, 1_000)),
        Arrow::Time64(TimeUnit::Nanosecond) => Cell::Time(divided::<Time64NanosecondType>(array, 1_000)),
        Arrow::Time64(_) => Cell::Time(ints::<Time64MicrosecondType>(array)),
        Arrow::Interval(unit) => Cell::Interval(intervals(array, *unit)),
        Arrow::Duration(unit) => Cell::Interval(durations(array, *unit)),
        Arrow::List(item) => {
            let array = array.as_list::<i32>();
            Cell::List(Box::new(|row| array.value(row)), oid_of(item))
        }
        Arrow::LargeList(item) => {
            let array = array.as_list::<i64>();
            Cell::List(Box::new(|row| array.value(row)), oid_of(item))
        }
        Arrow::FixedSizeList(item, _) => {
            let array = array.as_fixed_size_list();
            Cell::List(Box::new(|row| array.value(row)), oid_of(item))
        }
        _ => Cell::Shown,
    })
}

fn moments<'a>(array: &'a dyn Array, unit: TimeUnit) -> Box<dyn Fn(usize) -> i64 + 'a> {
    match unit {
        TimeUnit::Second => scaled::<TimestampSecondType>(array, 1_000_000_000),
        TimeUnit::Millisecond => scaled::<TimestampMillisecondType>(array, 1_000_000),
        TimeUnit::Microsecond => scaled::<TimestampMicrosecondType>(array, 1_000),
        TimeUnit::Nanosecond => ints::<TimestampNanosecondType>(array),
    }
}

fn intervals<'a>(array: &'a dyn Array, unit: IntervalUnit) -> Box<dyn Fn(usize) -> Interval + 'a> {
    match unit {
        IntervalUnit::YearMonth => {
            let values = values::<IntervalYearMonthType>(array);
            Box::new(move |row| Interval { months: values[row], days: 0, micros: 0 })
        }
        IntervalUnit::DayTime => {
            let values = values::<IntervalDayTimeType>(array);
            Box::new(move |row| {
                let value = values[row];
                Interval { months: 0, days: value.days, micros: i64::from(value.milliseconds) * 1_000 }
            })
        }
        IntervalUnit::MonthDayNano => {
            let values = values::<IntervalMonthDayNanoType>(array);
            Box::new(move |row| {
                let value = values[row];
                Interval { months: value.months, days: value.days, micros: value.nanoseconds / 1_000 }
            })
        }
    }
}

/// Differences of timestamps as intervals. As in PostgreSQL, they have days and a remainder, and no months.
fn durations<'a>(array: &'a dyn Array, unit: TimeUnit) -> Box<dyn Fn(usize) -> Interval + 'a> {
    let micros = match unit {
        TimeUnit::Second => scaled::<DurationSecondType>(array, 1_000_000),
        TimeUnit::Millisecond => scaled::<DurationMillisecondType>(array, 1_000),
        TimeUnit::Microsecond => ints::<DurationMicrosecondType>(array),
        TimeUnit::Nanosecond => divided::<DurationNanosecondType>(array, 1_000),
    };
    Box::new(move |row| {
        let micros = micros(row);
        let days = micros / pg::time::DAY_MICROS;
        Interval { months: 0, days: i32::try_from(days).unwrap_or(i32::MAX), micros: micros % pg::time::DAY_MICROS }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int64Array, ListArray, StringArray, TimestampNanosecondArray, UInt64Array};
    use arrow_schema::{Field, Schema};

    use super::*;
    use relational::types::{oid_of, typmod_of};

    fn texts(array: ArrayRef, zone: &str) -> Vec<String> {
        let field = Field::new("c", array.data_type().clone(), true);
        let columns = [OutputColumn { name: "c".into(), oid: oid_of(&field), typmod: typmod_of(&field), origin: None }];
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap();
        let encoder = Encoder::new(&columns, zone).unwrap();
        let rows = encoder.batch(&batch).unwrap();
        let text = |row| {
            let mut out = Vec::new();
            if rows.text(row, 0, &mut out).unwrap() { String::from_utf8(out).unwrap() } else { "NULL".to_owned() }
        };
        (0..batch.num_rows()).map(text).collect()
    }

    #[test]
    fn cells_look_as_in_postgresql() {
        assert_eq!(texts(Arc::new(Float64Array::from(vec![Some(1.0), Some(0.1), None])), "UTC"), ["1", "0.1", "NULL"]);
        assert_eq!(texts(Arc::new(UInt64Array::from(vec![u64::MAX])), "UTC"), ["18446744073709551615"]);
        let moments = TimestampNanosecondArray::from(vec![1_721_037_600_123_456_789]).with_timezone("Europe/Berlin");
        assert_eq!(texts(Arc::new(moments), "Europe/Berlin"), ["2024-07-15 12:00:00.123456+02"]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
        assert_eq!(texts(Arc::new(lists), "UTC"), ["{1,NULL}"]);
        assert_eq!(texts(Arc::new(StringArray::from(vec![""])), "UTC"), [""]);
    }

    #[test]
    fn a_char_is_a_byte() {
        let column = OutputColumn { name: "c".into(), oid: oid::CHAR, typmod: -1, origin: None };
        let schema = Schema::new(vec![Field::new("c", Arrow::Utf8, false)]);
        let array = StringArray::from(vec!["a", "\u{ff}", ""]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(array)]).unwrap();
        let encoder = Encoder::new(&[column], "UTC").unwrap();
        let rows = encoder.batch(&batch).unwrap();
        for (row, (text, byte)) in [("a", 97), ("\\377", 255), ("", 0)].into_iter().enumerate() {
            let (mut as_text, mut as_binary) = (Vec::new(), Vec::new());
            assert!(rows.text(row, 0, &mut as_text).unwrap() && rows.binary(row, 0, &mut as_binary).unwrap());
            assert_eq!((as_text.as_slice(), as_binary.as_slice()), (text.as_bytes(), &[byte][..]));
        }
    }

    #[test]
    fn an_oid_carried_by_int64_has_four_bytes() {
        let column = OutputColumn { name: "oid".into(), oid: oid::OID, typmod: -1, origin: None };
        let schema = Schema::new(vec![Field::new("oid", Arrow::Int64, false)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(vec![16_384]))]).unwrap();
        let encoder = Encoder::new(&[column], "UTC").unwrap();
        let mut out = Vec::new();
        assert!(encoder.batch(&batch).unwrap().binary(0, 0, &mut out).unwrap());
        assert_eq!(out, [0, 0, 0x40, 0]);
    }
}
