//! Points in the tables of the schema `tsm`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use jiff::tz::TimeZone;
use model::{Error, Result};
use query::Value;
use query::client::{Rows, SqlClient};
use timeseries::flag::Flag;
use timeseries::points::Points;
use timeseries::stamp::{self, Form};

use crate::definitions::Series;
use crate::tables::SCHEMA;

/// Points with their times, ascending.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Timed {
    pub(crate) times: Vec<i64>,
    pub(crate) points: Points,
}

impl Timed {
    fn add(&mut self, rows: &Rows) -> Result<()> {
        let times = column(rows, 0, &instant())?;
        let values = column(rows, 1, &DataType::Float64)?;
        let flags = column(rows, 2, &DataType::Int16)?;
        let values = values.as_primitive::<Float64Type>();
        let flags = flags.as_primitive::<Int16Type>();
        self.times.extend_from_slice(times.as_primitive::<TimestampNanosecondType>().values());
        for row in 0..rows.len() {
            let value = values.is_valid(row).then(|| values.value(row));
            let flag = flags.is_valid(row).then(|| Flag::from_id(flags.value(row).into())).flatten();
            // Rows that SQL wrote may have no flag.
            self.points.push(value, flag.unwrap_or(if value.is_some() { Flag::Valid } else { Flag::Missing }));
        }
        Ok(())
    }
}

/// A column of a result, as a type.
fn column(rows: &Rows, at: usize, ty: &DataType) -> Result<ArrayRef> {
    let array = rows.0.column(at);
    if array.data_type() == ty { Ok(Arc::clone(array)) } else { arrow_cast::cast(array, ty).map_err(Error::bug) }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// A state of a table: now, or as of an earlier time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// Nanoseconds since 1970.
    pub(crate) as_of: Option<i64>,
}

/// The table of a series at a state, for FROM.
fn source(series: &Series, state: State) -> String {
    let table = series.table();
    match state.as_of {
        Some(time) => {
            let time = stamp::text(time, &TimeZone::UTC, Form::Utc);
            format!("{SCHEMA}.{table} FOR SYSTEM_TIME AS OF '{time}'")
        }
        None => format!("{SCHEMA}.{table}"),
    }
}

/// Points of a series whose times are in `from .. to`.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn read(sql: &mut SqlClient, series: &Series, from: i64, to: i64, state: State) -> Result<Timed> {
    let text = format!(
        "SELECT time, value, flag FROM {} WHERE series = $1 AND time >= $2 AND time < $3 ORDER BY time",
        source(series, state)
    );
    let values = [Value::Int64(series.id), Value::Timestamptz(from), Value::Timestamptz(to)];
    let mut timed = Timed::default();
    for rows in sql.rows(&text, &values).await? {
        timed.add(&rows)?;
    }
    Ok(timed)
}

/// The last point of a series before a time.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn last_before(sql: &mut SqlClient, series: &Series, time: i64, state: State) -> Result<Timed> {
    let text = format!(
        "SELECT time, value, flag FROM {} WHERE series = $1 AND time < $2 ORDER BY time DESC LIMIT 1",
        source(series, state)
    );
    let mut timed = Timed::default();
    for rows in sql.rows(&text, &[Value::Int64(series.id), Value::Timestamptz(time)]).await? {
        timed.add(&rows)?;
    }
    Ok(timed)
}

/// Times of the first and the last point of a series; `None` if it has none.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn ends(sql: &mut SqlClient, series: &Series, state: State) -> Result<Option<(i64, i64)>> {
    let text = format!("SELECT min(time), max(time) FROM {} WHERE series = $1", source(series, state));
    let rows = sql.rows(&text, &[Value::Int64(series.id)]).await?;
    let Some(rows) = rows.first() else { return Ok(None) };
    Ok(rows.times(0)?.take(0).zip(rows.times(1)?.take(0)))
}

/// Change of points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Modification {
    /// Range of the times.
    pub(crate) from: i64,
    pub(crate) to: i64,
    /// Points that were written; 0 for a deletion.
    pub(crate) points: usize,
    pub(crate) change: &'static str,
}

/// Writes points of series, in the open transaction: those of equal times are replaced.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn write(sql: &mut SqlClient, all: &[(&Series, &Timed)]) -> Result<()> {
    for table in ["points", "audited_points"] {
        let of_table: Vec<_> = all.iter().filter(|(series, _)| series.table() == table).collect();
        let len = of_table.iter().map(|(_, timed)| timed.times.len()).sum();
        if len == 0 {
            continue;
        }
        let (mut times, mut ids) = (Vec::with_capacity(len), Vec::with_capacity(len));
        let (mut values, mut flags) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for (series, timed) in of_table {
            times.extend_from_slice(&timed.times);
            ids.extend(std::iter::repeat_n(series.id, timed.times.len()));
            for (value, flag) in timed.points.iter() {
                values.push(value);
                flags.push(flag.id());
            }
        }
        let fields =
            [("time", instant()), ("series", DataType::Int64), ("value", DataType::Float64), ("flag", DataType::Int16)];
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
            Arc::new(Int64Array::from(ids)),
            Arc::new(Float64Array::from(values)),
            Arc::new(Int16Array::from(flags)),
        ];
        sql.append(SCHEMA, &[(table, batch(fields, arrays)?)]).await?;
    }
    Ok(())
}

/// Deletes the points of a series whose times are in `from .. to`, in the open transaction.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn delete(sql: &mut SqlClient, series: &Series, from: i64, to: i64) -> Result<()> {
    let text = format!("DELETE FROM {SCHEMA}.{} WHERE series = $1 AND time >= $2 AND time < $3", series.table());
    sql.run(&text, &[Value::Int64(series.id), Value::Timestamptz(from), Value::Timestamptz(to)]).await
}

/// Records changes of points, in the open transaction.
///
/// - `now`: time of the change.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn record(sql: &mut SqlClient, now: i64, user: &str, all: &[(i64, Modification)]) -> Result<()> {
    let fields = [
        ("time", instant()),
        ("series", DataType::Int64),
        ("changed_by", DataType::Utf8),
        ("change", DataType::Utf8),
        ("first", instant()),
        ("until", instant()),
        ("points", DataType::Int64),
    ];
    let times = |of: fn(&Modification) -> i64| {
        let times: Vec<i64> = all.iter().map(|(_, modification)| of(modification)).collect();
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
    };
    let points: Vec<i64> = all.iter().map(|(_, change)| i64::try_from(change.points).unwrap_or(i64::MAX)).collect();
    let arrays: Vec<ArrayRef> = vec![
        Arc::new(TimestampNanosecondArray::from(vec![now; all.len()]).with_timezone("UTC")),
        Arc::new(Int64Array::from_iter_values(all.iter().map(|(series, _)| *series))),
        Arc::new(StringArray::from(vec![user; all.len()])),
        Arc::new(StringArray::from_iter_values(all.iter().map(|(_, modification)| modification.change))),
        times(|modification| modification.from),
        times(|modification| modification.to),
        Arc::new(Int64Array::from(points)),
    ];
    sql.append(SCHEMA, &[("modifications", batch(fields, arrays)?)]).await
}

fn batch<const N: usize>(fields: [(&str, DataType); N], arrays: Vec<ArrayRef>) -> Result<RecordBatch> {
    let fields: Vec<Field> = fields.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)
}
