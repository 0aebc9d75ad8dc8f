//! Points in the tables of the schema `tsm`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int64Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, Float64Array, Int16Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray, TimestampNanosecondArray,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use jiff::tz::TimeZone;
use model::{Error, Result};
use query::Value;
use query::client::{Rows, SqlClient, there};
use timeseries::flag::Flag;
use timeseries::points::Points;
use timeseries::stamp::{self, Form};

use crate::definitions::Series;
use crate::tables::SCHEMA;

/// Points with their times, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timed {
    pub(crate) times: Vec<i64>,
    pub(crate) points: Points,
}

impl Timed {
    fn reserve(&mut self, more: usize) {
        self.times.reserve(more);
        self.points.reserve(more);
    }

    fn truncate(&mut self, len: usize) {
        self.times.truncate(len);
        self.points.truncate(len);
    }

    fn add(&mut self, rows: &Rows) -> Result<()> {
        PointColumns::of(rows, 0)?.append(self, 0..rows.len());
        Ok(())
    }
}

/// Columns `time`, `value` and `flag` of a result.
#[derive(Clone, Debug)]
pub(crate) struct PointColumns {
    pub(crate) times: ArrayRef,
    pub(crate) values: ArrayRef,
    pub(crate) flags: ArrayRef,
}

impl PointColumns {
    /// - `at`: place of the first of them.
    fn of(rows: &Rows, at: usize) -> Result<PointColumns> {
        Ok(PointColumns {
            times: compact::<TimestampNanosecondType>(column(rows, at, &instant())?),
            values: compact::<Float64Type>(column(rows, at + 1, &DataType::Float64)?),
            flags: compact::<Int16Type>(column(rows, at + 2, &DataType::Int16)?),
        })
    }

    fn slice(&self, rows: &Range<usize>) -> PointColumns {
        let slice = |column: &ArrayRef| column.slice(rows.start, rows.len());
        PointColumns { times: slice(&self.times), values: slice(&self.values), flags: slice(&self.flags) }
    }

    fn times(&self) -> &[i64] {
        self.times.as_primitive::<TimestampNanosecondType>().values()
    }

    fn append(&self, timed: &mut Timed, rows: Range<usize>) {
        let values = self.values.as_primitive::<Float64Type>();
        let flags = self.flags.as_primitive::<Int16Type>();
        timed.reserve(rows.len());
        timed.times.extend_from_slice(&self.times()[rows.clone()]);
        if values.null_count() == 0 && flags.null_count() == 0 {
            let points = &mut timed.points;
            points.values.extend_from_slice(&values.values()[rows.clone()]);
            points.present.extend(std::iter::repeat_n(true, rows.len()));
            let flag = |id: &i16| Flag::from_id((*id).into()).unwrap_or_default();
            points.flags.extend(flags.values()[rows].iter().map(flag));
            return;
        }
        for row in rows {
            let value = values.is_valid(row).then(|| values.value(row));
            let flag = flags.is_valid(row).then(|| Flag::from_id(flags.value(row).into())).flatten();
            // Rows that SQL wrote may have no flag.
            timed.points.push(value, flag.unwrap_or(if value.is_some() { Flag::Valid } else { Flag::Missing }));
        }
    }
}

/// Points of one series in parts of a result, which they share.
#[derive(Debug, Default)]
pub(crate) struct Stored(Vec<PointColumns>);

impl Stored {
    /// A copy; `None` if the points are not in the order of their times.
    pub(crate) fn timed(&self) -> Option<Timed> {
        let mut timed = Timed::default();
        self.0.iter().for_each(|part| part.append(&mut timed, 0..part.times.len()));
        timed.times.is_sorted().then_some(timed)
    }

    /// Whether there is a point with a value and a flag at each of some times, and no other point.
    pub(crate) fn is_complete(&self, times: &[i64]) -> bool {
        let mut rest = times;
        let is_next = |part: &PointColumns| {
            let is_full = part.values.null_count() == 0 && part.flags.null_count() == 0;
            let after = rest.strip_prefix(part.times());
            rest = after.unwrap_or_default();
            is_full && after.is_some() && Flag::are_ids(part.flags.as_primitive::<Int16Type>().values())
        };
        self.0.iter().all(is_next) && rest.is_empty()
    }

    /// The parts of the result, ascending.
    pub(crate) fn parts(&self) -> &[PointColumns] {
        &self.0
    }
}

/// A column, or a copy if it is a small part of what it keeps in memory: a result may share columns of the store.
fn compact<T: ArrowPrimitiveType>(column: ArrayRef) -> ArrayRef {
    let own = column.as_primitive::<T>();
    if own.get_buffer_memory_size() <= 4 * size_of_val(&**own.values()) {
        return column;
    }
    let copy = PrimitiveArray::<T>::new(own.values().to_vec().into(), own.nulls().cloned());
    Arc::new(copy.with_data_type(own.data_type().clone()))
}

/// A column of a result, as a type.
fn column(rows: &Rows, at: usize, ty: &DataType) -> Result<ArrayRef> {
    let array = rows.0.column(at);
    if array.data_type() == ty { Ok(Arc::clone(array)) } else { arrow_cast::cast(array, ty).map_err(Error::bug) }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))
}

/// The points of a series that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) as_of: AsOf,
    pub(crate) version: Version,
}

/// A state in time. Times are those of commits: whole microseconds, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum AsOf {
    /// The present state.
    #[default]
    Now,
    /// The state after the last commit up to a time.
    Time(i64),
    /// Only the points that the commit at a time changed.
    ChangedAt(i64),
}

/// Versions of a series with quotation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Version {
    /// For each time the newest version that has a point.
    #[default]
    Newest,
    /// One version.
    Exact(i64),
    /// For each time the newest version up to this one that has a point.
    UpTo(i64),
    /// No version, because there is none that the request means.
    None,
}

/// The table of a series at a state, for FROM.
fn source(series: &Series, as_of: AsOf) -> String {
    let table = series.table();
    match as_of {
        AsOf::Time(time) | AsOf::ChangedAt(time) => {
            let time = stamp::text(time, &TimeZone::UTC, Form::Utc);
            format!("{SCHEMA}.{table} FOR SYSTEM_TIME AS OF '{time}'")
        }
        AsOf::Now => format!("{SCHEMA}.{table}"),
    }
}

/// Condition of the versions, behind other parameters.
fn version_condition(series: &Series, state: State, values: &mut Vec<Value>) -> String {
    let (operator, version) = match state.version {
        _ if !series.quotation => return String::new(),
        Version::Newest => return String::new(),
        Version::None => return " AND false".to_owned(),
        Version::Exact(version) => ("=", version),
        Version::UpTo(version) => ("<=", version),
    };
    values.push(Value::Timestamptz(version));
    format!(" AND quotation {operator} ${}", values.len())
}

/// Rows of a page. Greater than a window of intervals.
pub(crate) const PAGE_ROWS: usize = 1 << 16;
/// Rows of a statement for several series, which are less than these.
pub(crate) const TOGETHER_ROWS: usize = 1 << 15;
/// Series that one statement reads.
pub(crate) const TOGETHER_MAX: usize = 256;

/// Points of a series in a range of times, page by page.
pub(crate) struct Pages {
    /// Range that was not read.
    from: i64,
    to: i64,
}

impl Pages {
    pub(crate) fn new(from: i64, to: i64) -> Pages {
        Pages { from, to }
    }

    /// Whether all points were read.
    pub(crate) fn is_done(&self) -> bool {
        self.from >= self.to
    }

    /// The next points, some ten thousand; `None` at the end. Points of one time are in one page.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn next(&mut self, sql: &mut SqlClient, series: &Series, state: State) -> Result<Option<Timed>> {
        if self.is_done() {
            return Ok(None);
        }
        // Statements on one series never wait: without this, a client that has gone away is not noticed.
        tokio::task::yield_now().await;
        let mut after = read(sql, series, (self.from, self.to), state, Some(PAGE_ROWS)).await?;
        let read_until = match (after.times.first().copied(), after.times.last().copied()) {
            (Some(first), Some(last)) if after.times.len() == PAGE_ROWS => {
                if series.quotation && first < last {
                    // Other versions of the last time may be missing.
                    after.truncate(after.times.partition_point(|time| *time < last));
                    last
                } else if series.quotation {
                    after = read(sql, series, (first, first + 1), state, None).await?;
                    first + 1
                } else {
                    last + 1
                }
            }
            _ => self.to,
        };
        let range = (std::mem::replace(&mut self.from, read_until), read_until);
        let after = if series.quotation { newest(&after) } else { after };
        let AsOf::ChangedAt(time) = state.as_of else { return Ok(Some(after)) };
        let as_of = AsOf::Time(time - MICROSECOND);
        let before = read(sql, series, range, State { as_of, ..state }, None).await?;
        Ok(Some(changed(&if series.quotation { newest(&before) } else { before }, &after)))
    }
}

/// The present points of series of one table without quotation, in a range of times, by the numbers of the series. A statement
/// for each series would take longer than its points. `None` if they are [`TOGETHER_ROWS`].
///
/// # Errors
/// Those of SQL.
pub(crate) async fn read_together(
    sql: &mut SqlClient,
    table: &str,
    ids: &[i64],
    (from, to): (i64, i64),
) -> Result<Option<HashMap<i64, Stored>>> {
    let text = format!(
        "SELECT series, time, value, flag FROM {SCHEMA}.{table} WHERE time >= $1 AND time < $2 AND series = ANY($3) \
         LIMIT {TOGETHER_ROWS}"
    );
    let list = Value::Array(ids.iter().copied().map(Value::Int64).collect());
    let batches = sql.rows(&text, &[Value::Timestamptz(from), Value::Timestamptz(to), list]).await?;
    if batches.iter().map(Rows::len).sum::<usize>() >= TOGETHER_ROWS {
        return Ok(None);
    }
    let mut all: HashMap<i64, Stored> = ids.iter().map(|id| (*id, Stored::default())).collect();
    batches.iter().try_for_each(|rows| add_together(&mut all, rows))?;
    Ok(Some(all))
}

/// Adds rows with the columns `series`, `time`, `value` and `flag`.
fn add_together(all: &mut HashMap<i64, Stored>, rows: &Rows) -> Result<()> {
    let columns = PointColumns::of(rows, 1)?;
    let series = column(rows, 0, &DataType::Int64)?;
    let mut start = 0;
    for same in series.as_primitive::<Int64Type>().values().chunk_by(|a, b| a == b) {
        all.entry(same[0]).or_default().0.push(columns.slice(&(start..start + same.len())));
        start += same.len();
    }
    Ok(())
}

/// Points of a range of times, also those of several versions; at most `limit`.
async fn read(
    sql: &mut SqlClient,
    series: &Series,
    (from, to): (i64, i64),
    state: State,
    limit: Option<usize>,
) -> Result<Timed> {
    let mut values = vec![Value::Int64(series.id), Value::Timestamptz(from), Value::Timestamptz(to)];
    let condition = version_condition(series, state, &mut values);
    let order = if series.quotation { "time, quotation" } else { "time" };
    let limit = limit.map_or_else(String::new, |limit| format!(" LIMIT {limit}"));
    let text = format!(
        "SELECT time, value, flag FROM {} WHERE series = $1 AND time >= $2 AND time < $3{condition} ORDER BY {order}{limit}",
        source(series, state.as_of)
    );
    points_of(sql, &text, &values, state).await
}

/// Points of a query.
async fn points_of(sql: &mut SqlClient, text: &str, values: &[Value], state: State) -> Result<Timed> {
    let mut timed = Timed::default();
    rows_of(sql, text, values, state.as_of).await?.iter().try_for_each(|rows| timed.add(rows))?;
    Ok(timed)
}

async fn rows_of(sql: &mut SqlClient, text: &str, values: &[Value], as_of: AsOf) -> Result<Vec<Rows>> {
    match sql.rows(text, values).await {
        // Tables have their history from their creation on: nothing was there before.
        Err(error) if as_of != AsOf::Now && error.message().starts_with("the history of table") => Ok(Vec::new()),
        rows => rows,
    }
}

/// The points of a state that another one does not have.
fn changed(before: &Timed, after: &Timed) -> Timed {
    let mut all = Timed::default();
    let mut at = 0;
    for (row, time) in after.times.iter().enumerate() {
        while before.times.get(at).is_some_and(|earlier| earlier < time) {
            at += 1;
        }
        let (value, flag) = after.points.get(row);
        let is_same = before.times.get(at) == Some(time) && {
            let (earlier, earlier_flag) = before.points.get(at);
            earlier.map(f64::to_bits) == value.map(f64::to_bits) && earlier_flag == flag
        };
        if !is_same {
            all.times.push(*time);
            all.points.push(value, flag);
        }
    }
    all
}

/// The last point of each time: that of the newest version.
fn newest(timed: &Timed) -> Timed {
    let mut all = Timed::default();
    for (at, time) in timed.times.iter().enumerate() {
        if timed.times.get(at + 1) != Some(time) {
            let (value, flag) = timed.points.get(at);
            all.times.push(*time);
            all.points.push(value, flag);
        }
    }
    all
}

/// The last point of a series before a time; none among the points that a commit changed.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn last_before(sql: &mut SqlClient, series: &Series, time: i64, state: State) -> Result<Timed> {
    if let AsOf::ChangedAt(_) = state.as_of {
        return Ok(Timed::default());
    }
    let mut values = vec![Value::Int64(series.id), Value::Timestamptz(time)];
    let condition = version_condition(series, state, &mut values);
    let order = if series.quotation { "time DESC, quotation DESC" } else { "time DESC" };
    let text = format!(
        "SELECT time, value, flag FROM {} WHERE series = $1 AND time < $2{condition} ORDER BY {order} LIMIT 1",
        source(series, state.as_of)
    );
    points_of(sql, &text, &values, state).await
}

/// Times of the first and the last point of a series at a state; `None` if it has none.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn ends(sql: &mut SqlClient, series: &Series, as_of: AsOf) -> Result<Option<(i64, i64)>> {
    let text = format!("SELECT min(time), max(time) FROM {} WHERE series = $1", source(series, as_of));
    let rows = rows_of(sql, &text, &[Value::Int64(series.id)], as_of).await?;
    let Some(rows) = rows.first() else { return Ok(None) };
    Ok(rows.times(0)?.take(0).zip(rows.times(1)?.take(0)))
}

/// The newest version that has a point with a time in `from .. to`.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn newest_version(
    sql: &mut SqlClient,
    series: &Series,
    (from, to): (i64, i64),
    as_of: AsOf,
) -> Result<Option<i64>> {
    let text =
        format!("SELECT max(quotation) FROM {} WHERE series = $1 AND time >= $2 AND time < $3", source(series, as_of));
    let values = [Value::Int64(series.id), Value::Timestamptz(from), Value::Timestamptz(to)];
    let rows = rows_of(sql, &text, &values, as_of).await?;
    rows.first().map_or(Ok(None), |rows| Ok(rows.times(0)?.take(0)))
}

/// All versions of a series that have a point at a state, ascending.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn versions(sql: &mut SqlClient, series: &Series, as_of: AsOf) -> Result<Vec<i64>> {
    let text = format!("SELECT DISTINCT quotation FROM {} WHERE series = $1 ORDER BY quotation", source(series, as_of));
    let mut versions = Vec::new();
    for rows in rows_of(sql, &text, &[Value::Int64(series.id)], as_of).await? {
        let mut times = rows.times(0)?;
        versions.extend((0..rows.len()).filter_map(|row| times.take(row)));
    }
    Ok(versions)
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

/// Points that are written to a series.
pub(crate) struct Written<'a> {
    pub(crate) series: &'a Series,
    pub(crate) timed: &'a Timed,
    /// The version, for series with quotation.
    pub(crate) version: Option<i64>,
}

/// Writes points of series, in the open transaction: those of equal times are replaced.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn write(sql: &mut SqlClient, all: &[Written<'_>]) -> Result<()> {
    for table in ["points", "audited_points", "quoted_points"] {
        let of_table: Vec<_> = all.iter().filter(|written| written.series.table() == table).collect();
        let len = of_table.iter().map(|written| written.timed.times.len()).sum();
        if len == 0 {
            continue;
        }
        let (mut times, mut ids, mut versions) = (Vec::with_capacity(len), Vec::with_capacity(len), Vec::new());
        let (mut values, mut present) = (Vec::with_capacity(len), Vec::with_capacity(len));
        let mut flags: Vec<i16> = Vec::with_capacity(len);
        for Written { series, timed, version } in of_table {
            times.extend_from_slice(&timed.times);
            ids.extend(std::iter::repeat_n(series.id, timed.times.len()));
            if series.quotation {
                versions.extend(std::iter::repeat_n(*version, timed.times.len()));
            }
            values.extend_from_slice(&timed.points.values);
            present.extend_from_slice(&timed.points.present);
            flags.extend(timed.points.flags.iter().map(|flag| flag.id()));
        }
        let mut columns: Vec<(&str, ArrayRef)> = vec![
            ("time", Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))),
            ("series", Arc::new(Int64Array::from(ids))),
            ("value", Arc::new(nullable(values, &present))),
            ("flag", Arc::new(Int16Array::from(flags))),
        ];
        if !versions.is_empty() {
            columns.push(("quotation", Arc::new(TimestampNanosecondArray::from(versions).with_timezone("UTC"))));
        }
        sql.append(SCHEMA, &[(table, batch(columns)?)]).await?;
    }
    Ok(())
}

/// Values as a column: NULL where none is present.
pub(crate) fn nullable(values: Vec<f64>, present: &[bool]) -> Float64Array {
    let nulls = present.contains(&false).then(|| NullBuffer::new(BooleanBuffer::from(present)));
    Float64Array::new(values.into(), nulls)
}

/// Deletes the points of a series whose times are in `from .. to`, in the open transaction.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn delete(sql: &mut SqlClient, series: &Series, from: i64, to: i64, state: State) -> Result<()> {
    let mut values = vec![Value::Int64(series.id), Value::Timestamptz(from), Value::Timestamptz(to)];
    let condition = version_condition(series, state, &mut values);
    let table = series.table();
    let text = format!("DELETE FROM {SCHEMA}.{table} WHERE series = $1 AND time >= $2 AND time < $3{condition}");
    sql.run(&text, &values).await
}

/// Records changes of points, in the open transaction.
///
/// - `now`: time of the change.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn record(sql: &mut SqlClient, now: i64, user: &str, all: &[(i64, Modification)]) -> Result<()> {
    let times = |of: fn(&Modification) -> i64| {
        let times: Vec<i64> = all.iter().map(|(_, modification)| of(modification)).collect();
        Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))
    };
    let points = all.iter().map(|(_, change)| i64::try_from(change.points).unwrap_or(i64::MAX));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(TimestampNanosecondArray::from(vec![now; all.len()]).with_timezone("UTC"))),
        ("series", Arc::new(Int64Array::from_iter_values(all.iter().map(|(series, _)| *series)))),
        ("changed_by", Arc::new(StringArray::from(vec![user; all.len()]))),
        ("change", Arc::new(StringArray::from_iter_values(all.iter().map(|(_, modification)| modification.change)))),
        ("first", times(|modification| modification.from)),
        ("until", times(|modification| modification.to)),
        ("points", Arc::new(Int64Array::from_iter_values(points))),
    ];
    sql.append(SCHEMA, &[("modifications", batch(columns)?)]).await
}

/// A recorded change of the points of a series.
#[derive(Debug, PartialEq)]
pub(crate) struct Recorded {
    /// Time of the request; the commit is later.
    pub(crate) time: i64,
    pub(crate) user: String,
    pub(crate) change: String,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) points: i64,
}

/// Changes of a series whose times are in `since .. until`, ascending.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn modifications(
    sql: &mut SqlClient,
    series: &Series,
    (since, until): (i64, i64),
) -> Result<Vec<Recorded>> {
    let text = "SELECT time, changed_by, change, first, until, points FROM tsm.modifications \
                WHERE series = $1 AND time >= $2 AND time < $3 ORDER BY time";
    let mut all = Vec::new();
    let values = [Value::Int64(series.id), Value::Timestamptz(since), Value::Timestamptz(until)];
    for rows in sql.rows(text, &values).await? {
        let (mut times, mut froms, mut tos) = (rows.times(0)?, rows.times(3)?, rows.times(4)?);
        let (mut users, mut changes, mut points) = (rows.texts(1)?, rows.texts(2)?, rows.integers(5)?);
        for row in 0..rows.len() {
            all.push(Recorded {
                time: there(times.take(row))?,
                user: there(users.take(row))?,
                change: there(changes.take(row))?,
                from: there(froms.take(row))?,
                to: there(tos.take(row))?,
                points: there(points.take(row))?,
            });
        }
    }
    Ok(all)
}

const MICROSECOND: i64 = 1_000;
/// A commit is seldom later than its request by more.
const COMMIT_DELAY: i64 = 1_000_000;
const YEAR_MICROS: i64 = 366 * 86_400 * 1_000_000;

/// The commit time of a recorded change: the first time as of which its record is there. Some 20 short statements.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn commit_time(sql: &mut SqlClient, series: &Series, recorded: &Recorded) -> Result<i64> {
    let micros = |time: i64| time.div_euclid(MICROSECOND);
    let (mut before, mut step) = (micros(recorded.time), micros(COMMIT_DELAY));
    let mut after = before + step;
    while !is_recorded_as_of(sql, series, recorded.time, after * MICROSECOND).await? {
        // Commit times only grow: they are ahead of a clock that was set back.
        if step > YEAR_MICROS {
            return Err(Error::bug("a change without a commit"));
        }
        before = after;
        step *= 4;
        after += step;
    }
    while after - before > 1 {
        let middle = before + (after - before) / 2;
        if is_recorded_as_of(sql, series, recorded.time, middle * MICROSECOND).await? {
            after = middle;
        } else {
            before = middle;
        }
    }
    Ok(after * MICROSECOND)
}

async fn is_recorded_as_of(sql: &mut SqlClient, series: &Series, time: i64, as_of: i64) -> Result<bool> {
    let as_of = stamp::text(as_of, &TimeZone::UTC, Form::Utc);
    let text = format!(
        "SELECT 1 FROM tsm.modifications FOR SYSTEM_TIME AS OF '{as_of}' WHERE series = $1 AND time >= $2 AND time < $3"
    );
    let values = [Value::Int64(series.id), Value::Timestamptz(time), Value::Timestamptz(time + 1)];
    Ok(sql.rows(&text, &values).await?.iter().any(|rows| rows.len() > 0))
}

/// Columns by name, as a batch.
///
/// # Errors
/// XX000 if they have different lengths.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let fields: Vec<Field> = fields.collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(Error::bug)
}
