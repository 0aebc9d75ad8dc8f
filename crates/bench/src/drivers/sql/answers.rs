//! Decoder of answers in PostgreSQL's protocol. Columns are device, time or bucket, and fields, as
//! far as the query has them.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::drivers::copy::{EPOCH_DAYS, EPOCH_MICROS};
use crate::drivers::pgwire::{Pg, oid};
use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Query, Row, Rows, Shape};
use crate::schema::{Kind, Schema, Unit};

/// Decodes answers to queries on one schema.
pub(crate) struct Answers {
    schema: Arc<Schema>,
    /// Devices by name; several tables may have the same name.
    devices: HashMap<Box<[u8]>, Vec<u32>>,
    /// Epoch of dates that are stored as integers, in days since 1970.
    dates_from: i64,
}

impl Answers {
    /// - `dates_from`: epoch of dates that are stored as integers, in days since 1970.
    pub(crate) fn new(schema: &Arc<Schema>, dates_from: i64) -> Answers {
        let mut devices: HashMap<Box<[u8]>, Vec<u32>> = HashMap::new();
        for device in 0..schema.devices.len() as u32 {
            devices.entry(schema.device_name(device).as_bytes().into()).or_default().push(device);
        }
        Answers { schema: Arc::clone(schema), devices, dates_from }
    }

    /// Whether an answer has columns for device and time, before the fields.
    fn head(query: &Query) -> (bool, bool) {
        match query.shape {
            Shape::Rows => (query.set.is_none(), true),
            Shape::Latest => (true, true),
            Shape::Aggregate { by_device, .. } => (by_device, false),
            Shape::Buckets { by_device, .. } => (by_device, true),
        }
    }

    /// Number of non-null values in the last answer.
    pub(crate) fn points(&self, pg: &Pg, query: &Query) -> Result<u64> {
        let (device, time) = Answers::head(query);
        let mut points = 0;
        for mut row in pg.rows(0) {
            for _ in 0..usize::from(device) + usize::from(time) {
                row.column()?;
            }
            for _ in &query.fields {
                points += u64::from(row.column()?.is_some());
            }
        }
        Ok(points)
    }

    /// Decodes the last answer.
    pub(crate) fn answer(&self, pg: &Pg, query: &Query) -> Result<Rows> {
        let types = pg.columns(0)?;
        let (has_device, has_time) = Answers::head(query);
        let heads = usize::from(has_device) + usize::from(has_time);
        if types.len() != heads + query.fields.len() {
            let expected = heads + query.fields.len();
            return Err(Error::protocol(format!("an answer of {} columns, expected {expected}", types.len())));
        }
        let mut rows = Vec::with_capacity(pg.row_count(0) as usize);
        for mut columns in pg.rows(0) {
            let device = if has_device { Some(self.device(query, columns.column()?)?) } else { None };
            let time = if has_time { Some(self.time(types[heads - 1], columns.column()?)?) } else { None };
            let mut cells = Vec::with_capacity(query.fields.len());
            for (field, kind) in query.fields.iter().zip(&types[heads..]) {
                let value = columns.column()?;
                cells.push(self.cell(
                    query,
                    self.schema.tables[query.table as usize].fields[*field as usize].kind,
                    *kind,
                    value,
                )?);
            }
            if !columns.is_empty() {
                return Err(Error::protocol("a row has more columns than were described"));
            }
            rows.push(Row { device, time, cells });
        }
        Ok(Rows { rows })
    }

    fn device(&self, query: &Query, name: Option<&[u8]>) -> Result<u32> {
        let name = name.ok_or_else(|| Error::protocol("a row without a device"))?;
        let known = self.devices.get(name).into_iter().flatten();
        let mut known = known.filter(|device| self.schema.devices[**device as usize].table == query.table);
        let unknown = || Error::protocol(format!("a row of an unknown device {:?}", String::from_utf8_lossy(name)));
        known.next().copied().ok_or_else(unknown)
    }

    pub(super) fn time(&self, kind: u32, value: Option<&[u8]>) -> Result<i64> {
        let value = value.ok_or_else(|| Error::protocol("a row without a time"))?;
        match kind {
            oid::TIMESTAMPTZ | oid::TIMESTAMP => self.units_of_micros(i64::from_be_bytes(sized(value)?)),
            oid::INT8 if self.schema.unit == Unit::Nanos => Ok(i64::from_be_bytes(sized(value)?)),
            _ => Err(Error::protocol(format!("a time of type {kind}"))),
        }
    }

    /// Converts microseconds since 2000-01-01 to the run's unit.
    fn units_of_micros(&self, micros: i64) -> Result<i64> {
        let wrong = || {
            Error::protocol(format!(
                "the time {micros} µs since 2000 is not a multiple of the run's unit {:?}",
                self.schema.unit
            ))
        };
        let micros = micros.checked_add(EPOCH_MICROS).ok_or_else(wrong)?;
        let nanos = self.schema.unit.nanos();
        if nanos < 1_000 {
            return micros.checked_mul(1_000 / nanos).ok_or_else(wrong);
        }
        if micros % (nanos / 1_000) == 0 { Ok(micros / (nanos / 1_000)) } else { Err(wrong()) }
    }

    pub(super) fn cell(&self, query: &Query, kind: Kind, column: u32, value: Option<&[u8]>) -> Result<Cell> {
        let Some(value) = value else { return Ok(Cell::Null) };
        let counted = matches!(
            query.shape,
            Shape::Aggregate { aggregate: Aggregate::Count, .. } | Shape::Buckets { aggregate: Aggregate::Count, .. }
        );
        Ok(match column {
            oid::BOOL => Cell::Bool(sized::<1>(value)? != [0]),
            oid::INT2 => self.whole(kind, counted, i64::from(i16::from_be_bytes(sized(value)?))),
            oid::INT4 => self.whole(kind, counted, i64::from(i32::from_be_bytes(sized(value)?))),
            oid::INT8 => self.whole(kind, counted, i64::from_be_bytes(sized(value)?)),
            oid::FLOAT4 => Cell::Float(f64::from(f32::from_be_bytes(sized(value)?))),
            oid::FLOAT8 => Cell::Float(f64::from_be_bytes(sized(value)?)),
            oid::NUMERIC => numeric(value)?,
            oid::TIMESTAMPTZ | oid::TIMESTAMP => Cell::Int(self.units_of_micros(i64::from_be_bytes(sized(value)?))?),
            oid::DATE => Cell::Int(i64::from(i32::from_be_bytes(sized(value)?)) + EPOCH_DAYS),
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::BYTEA => Cell::Text(value.to_vec()),
            _ => return Err(Error::protocol(format!("a value of unsupported type {column}"))),
        })
    }

    fn whole(&self, kind: Kind, counted: bool, number: i64) -> Cell {
        let from = if kind == Kind::Date && !counted { self.dates_from } else { 0 };
        Cell::Int(number.saturating_add(from))
    }
}

fn sized<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value.try_into().map_err(|_| Error::protocol(format!("a value of {} bytes, expected {N}", value.len())))
}

/// Decodes a binary `numeric`: groups of four decimal digits. An integer if it has no decimals.
///
/// Source: PostgreSQL's `numeric_send`: number of groups, weight of the first, sign, display scale,
/// groups.
pub(super) fn numeric(value: &[u8]) -> Result<Cell> {
    let truncated = || Error::protocol("a truncated numeric value");
    let (head, groups) = value.split_at_checked(8).ok_or_else(truncated)?;
    let count = usize::from(u16::from_be_bytes([head[0], head[1]]));
    let weight = i32::from(i16::from_be_bytes([head[2], head[3]]));
    if groups.len() != count * 2 {
        return Err(truncated());
    }
    let negative = match u16::from_be_bytes([head[4], head[5]]) {
        0 => false,
        0x4000 => true,
        _ => return Err(Error::protocol("a numeric value that is not a number")),
    };
    let group = |index: usize| u16::from_be_bytes([groups[index * 2], groups[index * 2 + 1]]);
    if count as i32 <= weight + 1 && weight < 9 {
        let mut whole: i128 = 0;
        for index in 0..(weight + 1).max(0) as usize {
            whole = whole * 10_000 + if index < count { i128::from(group(index)) } else { 0 };
        }
        if let Ok(whole) = i64::try_from(if negative { -whole } else { whole }) {
            return Ok(Cell::Int(whole));
        }
    }
    // Parsing the text rounds once; summing groups would round with each.
    let mut text = String::from(if negative { "-0." } else { "0." });
    (0..count).for_each(|index| _ = write!(text, "{:04}", group(index)));
    _ = write!(text, "e{}", (weight + 1) * 4);
    text.parse().map(Cell::Float).map_err(|_| Error::protocol(format!("a numeric value cannot be parsed: {text}")))
}
