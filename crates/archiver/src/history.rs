//! Reads what is archived: samples as events of the Appliance, metadata as of their time, gaps.

use std::collections::HashSet;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use epics::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use epics::pb::{Header, fields_of};
use epics::processors::Span;
use epics::sample::{Metadata, Nanos, Sample, Severity};
use futures::StreamExt;
use model::{Error, Result};
use query::client::{Rows, SqlClient, there};
use query::{Batches, Database, Value};
use tokio::runtime::Handle;

use crate::sampling::reason;
use crate::tables::{Gap, Version, limit_columns, limits_of};
use crate::values::{self, Read};

/// Columns of a sample, in the order that [`Decoded`] reads.
const COLUMNS: &str = "time, type, value, exact, string, elements, severity, status";
const SECOND: Nanos = 1_000_000_000;

/// A batch of samples whose columns have their types.
pub(crate) struct Decoded {
    rows: usize,
    columns: Vec<ArrayRef>,
}

impl Decoded {
    /// Reads columns from position `from` on.
    fn new(batch: &RecordBatch, from: usize) -> Result<Decoded> {
        let zone = Some("UTC".into());
        let types = [
            DataType::Timestamp(TimeUnit::Nanosecond, zone),
            DataType::Int16,
            DataType::Float64,
            DataType::Int64,
            DataType::Utf8,
            DataType::Binary,
            DataType::Int16,
            DataType::Int16,
        ];
        let column = |(at, ty): (usize, DataType)| {
            let array = batch.column(from + at);
            arrow_cast::cast(array, &ty).map_err(Error::bug)
        };
        let columns = types.into_iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Decoded { rows: batch.num_rows(), columns })
    }

    /// Reads the columns of a batch that has them by name.
    pub(crate) fn by_name(batch: &RecordBatch) -> Result<Decoded> {
        let positions = COLUMNS.split(", ").map(|name| batch.schema().index_of(name).map_err(Error::bug));
        let positions = positions.collect::<Result<Vec<_>>>()?;
        Decoded::new(&batch.project(&positions).map_err(Error::bug)?, 0)
    }

    pub(crate) fn sample(&self, row: usize) -> Sample {
        let column = |at: usize| Some(&self.columns[at]).filter(|array| array.is_valid(row));
        let small = |at| column(at).map(|array| array.as_primitive::<Int16Type>().value(row));
        let value = values::load(&Read {
            ty: small(1),
            value: column(2).map(|array| array.as_primitive::<Float64Type>().value(row)),
            exact: column(3).map(|array| array.as_primitive::<Int64Type>().value(row)),
            string: column(4).map(|array| array.as_string::<i32>().value(row)),
            elements: column(5).map(|array| array.as_binary::<i32>().value(row)),
        });
        Sample {
            time: self.columns[0].as_primitive::<TimestampNanosecondType>().value(row),
            value,
            severity: small(6).and_then(|number| Severity::of(number.into())).unwrap_or_default(),
            status: small(7).and_then(|number| u16::try_from(number).ok()).unwrap_or_default(),
        }
    }
}

/// A condition for PVs: all, or those of some names; and its values.
pub(crate) fn of_names(names: Option<&[String]>) -> (&'static str, Vec<Value>) {
    match names {
        None => ("true", Vec::new()),
        Some(names) => ("pv = ANY($1)", vec![Value::Array(names.iter().cloned().map(Value::Text).collect())]),
    }
}

/// Time of the newest sample of each PV, or of each of some names. Statistics of blocks have it, so that no sample is read.
///
/// # Errors
/// Those of SQL, here and below.
pub(crate) async fn newest_times(sql: &mut SqlClient, names: Option<&[String]>) -> Result<Vec<(String, Nanos)>> {
    let (condition, values) = of_names(names);
    let text = format!("SELECT pv, max(time) FROM epics.samples WHERE {condition} GROUP BY pv");
    let mut times = Vec::new();
    for rows in sql.rows(&text, &values).await? {
        let (mut names, mut newest) = (rows.texts(0)?, rows.times(1)?);
        for row in 0..rows.len() {
            times.push((there(names.take(row))?, there(newest.take(row))?));
        }
    }
    Ok(times)
}

/// Whether the newest sample of a PV up to a time is a number, not an enumeration, a text or a waveform; true without one.
pub(crate) async fn is_number(sql: &mut SqlClient, pv: &str, until: Nanos) -> Result<bool> {
    let text =
        format!("SELECT pv, {COLUMNS} FROM epics.samples WHERE pv = $1 AND time <= $2 ORDER BY time DESC LIMIT 1");
    let newest = samples_at(sql, &text, &[Value::Text(pv.to_owned()), Value::Timestamptz(until)]).await?.pop();
    Ok(newest.is_none_or(|(_, sample)| values::is_number(values::type_of(&sample.value))))
}

/// Number of the samples of a PV in a span.
pub(crate) async fn count(sql: &mut SqlClient, pv: &str, span: Span) -> Result<i64> {
    let values = [Value::Text(pv.to_owned()), Value::Timestamptz(span.from), Value::Timestamptz(span.to)];
    let text = "SELECT count(*) FROM epics.samples WHERE pv = $1 AND time > $2 AND time <= $3";
    for rows in sql.rows(text, &values).await? {
        if rows.len() > 0 {
            return there(rows.integers(0)?.take(0));
        }
    }
    Ok(0)
}

/// The newest sample of each of these PVs at or before a time, and not before another.
pub(crate) async fn samples_at_time(
    sql: &mut SqlClient,
    names: Vec<String>,
    from: Nanos,
    at: Nanos,
) -> Result<Vec<(String, Sample)>> {
    let text = format!(
        "SELECT DISTINCT ON (pv) pv, {COLUMNS} FROM epics.samples WHERE pv = ANY($1) AND time >= $2 AND time <= $3 \
         ORDER BY pv, time DESC"
    );
    let names = Value::Array(names.into_iter().map(Value::Text).collect());
    samples_at(sql, &text, &[names, Value::Timestamptz(from), Value::Timestamptz(at)]).await
}

async fn samples_at(sql: &mut SqlClient, text: &str, values: &[Value]) -> Result<Vec<(String, Sample)>> {
    let mut samples = Vec::new();
    for rows in sql.rows(text, values).await? {
        let mut names = rows.texts(0)?;
        let decoded = Decoded::new(&rows.0, 1)?;
        for row in 0..rows.len() {
            samples.push((there(names.take(row))?, decoded.sample(row)));
        }
    }
    Ok(samples)
}

/// The newest version of the metadata of each PV, or of each of some names.
pub(crate) async fn newest_versions(sql: &mut SqlClient, names: Option<&[String]>) -> Result<Vec<(String, Version)>> {
    let (condition, values) = of_names(names);
    let text = format!(
        "SELECT DISTINCT ON (pv) pv, since, type, count, host, units, precision, labels, {} FROM epics.metadata \
         WHERE {condition} ORDER BY pv, since DESC",
        limit_columns()
    );
    versions(sql, &text, &values).await
}

/// All versions of a PV's metadata, oldest first.
pub(crate) async fn versions_of(sql: &mut SqlClient, pv: &str) -> Result<Vec<Version>> {
    let text = format!(
        "SELECT pv, since, type, count, host, units, precision, labels, {} FROM epics.metadata WHERE pv = $1 ORDER BY since",
        limit_columns()
    );
    let versions = versions(sql, &text, &[Value::Text(pv.to_owned())]).await?;
    Ok(versions.into_iter().map(|(_, version)| version).collect())
}

async fn versions(sql: &mut SqlClient, text: &str, values: &[Value]) -> Result<Vec<(String, Version)>> {
    let mut all = Vec::new();
    for rows in sql.rows(text, values).await? {
        read_versions(&rows, &mut all)?;
    }
    Ok(all)
}

fn read_versions(rows: &Rows, all: &mut Vec<(String, Version)>) -> Result<()> {
    let (mut pv, mut since, mut ty, mut count) = (rows.texts(0)?, rows.times(1)?, rows.integers(2)?, rows.integers(3)?);
    let (mut host, mut units, mut precision, mut labels) =
        (rows.texts(4)?, rows.texts(5)?, rows.integers(6)?, rows.texts(7)?);
    let mut limits = (8..16).map(|at| rows.numbers(at)).collect::<Result<Vec<_>>>()?;
    for row in 0..rows.len() {
        let mut limit = |at: usize| limits[at].take(row);
        let all_limits: [Option<f64>; 8] = std::array::from_fn(&mut limit);
        let metadata = Metadata {
            units: units.take(row),
            precision: precision.take(row).and_then(|digits| i16::try_from(digits).ok()),
            limits: all_limits.iter().any(Option::is_some).then(|| limits_of(all_limits)),
            labels: labels.take(row).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        };
        let version = Version {
            since: there(since.take(row))?,
            ty: ty.take(row).and_then(|ty| i16::try_from(ty).ok()).unwrap_or_default(),
            count: count.take(row).and_then(|count| i32::try_from(count).ok()).unwrap_or(1),
            host: host.take(row).unwrap_or_default(),
            metadata,
        };
        all.push((there(pv.take(row))?, version));
    }
    Ok(())
}

/// The version that is true at a time: the newest that is not later, or the first.
pub(crate) fn version_at(versions: &[Version], time: Nanos) -> Option<&Version> {
    let later = versions.partition_point(|version| version.since <= time);
    versions.get(later.saturating_sub(1))
}

/// A gap without samples, as the Appliance writes it into the first sample behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interruption {
    pub(crate) start: Nanos,
    /// `None` while it lasts.
    pub(crate) ended: Option<Nanos>,
    /// Whether the archiver was not running.
    pub(crate) stopped: bool,
    pub(crate) paused: bool,
}

/// Gaps in which a PV was not connected, without those whose cause lies elsewhere.
pub(crate) fn interruptions(gaps: &[Gap]) -> Vec<Interruption> {
    let reasons = [reason::DISCONNECTED, reason::STOPPED, reason::PAUSED, reason::REFUSED, reason::OFF];
    let found = gaps.iter().filter(|gap| reasons.contains(&gap.reason)).map(|gap| Interruption {
        start: gap.start,
        ended: gap.ended,
        stopped: gap.reason == reason::STOPPED,
        paused: reason::MEANT.contains(&gap.reason),
    });
    found.collect()
}

/// Times of the first and the last sample of a PV; `None` without one.
pub(crate) async fn ends(sql: &mut SqlClient, pv: &str) -> Result<Option<(Nanos, Nanos)>> {
    let text = "SELECT min(time), max(time) FROM epics.samples WHERE pv = $1";
    for rows in sql.rows(text, &[Value::Text(pv.to_owned())]).await? {
        if rows.len() > 0 {
            return Ok(rows.times(0)?.take(0).zip(rows.times(1)?.take(0)));
        }
    }
    Ok(None)
}

/// Gaps of a PV that touch a span, oldest first, without those that were filled.
pub(crate) async fn gaps(sql: &mut SqlClient, pv: &str, span: Span) -> Result<Vec<Gap>> {
    let values = [Value::Text(pv.to_owned()), Value::Timestamptz(span.to), Value::Timestamptz(span.from)];
    let text = "SELECT time, ended, reason, samples, detail, filled FROM epics.gaps WHERE pv = $1 AND time <= $2 \
                AND (ended >= $3 OR ended IS NULL) AND filled IS NOT TRUE ORDER BY time";
    let mut all = Vec::new();
    for rows in sql.rows(text, &values).await? {
        let (mut time, mut ended, mut why) = (rows.times(0)?, rows.times(1)?, rows.texts(2)?);
        let (mut samples, mut detail, mut filled) = (rows.integers(3)?, rows.texts(4)?, rows.booleans(5)?);
        for row in 0..rows.len() {
            let why = there(why.take(row))?;
            all.push(Gap {
                start: there(time.take(row))?,
                // Others may write this table.
                reason: reason::ALL.into_iter().find(|own| *own == why).unwrap_or(reason::DISCONNECTED),
                ended: ended.take(row),
                samples: samples.take(row),
                detail: detail.take(row),
                filled: filled.take(row),
            });
        }
    }
    Ok(all)
}

/// Starts and ends of gaps of a PV that touch a span and that no pair was asked about, oldest first.
pub(crate) async fn unfilled(sql: &mut SqlClient, pv: &str, span: Span) -> Result<Vec<(Nanos, Option<Nanos>)>> {
    // No samples are wanted while another PV switches archiving off; a pause may be that of a PV that moves.
    let gaps = gaps(sql, pv, span).await?.into_iter().filter(|gap| gap.filled.is_none() && gap.reason != reason::OFF);
    Ok(gaps.map(|gap| (gap.start, gap.ended)).collect())
}

/// PVs that have such a gap at a time.
pub(crate) async fn unfilled_at(sql: &mut SqlClient, at: Nanos) -> Result<HashSet<String>> {
    let text = "SELECT pv FROM epics.gaps WHERE time <= $1 AND (ended >= $1 OR ended IS NULL) AND filled IS NULL";
    let mut names = HashSet::new();
    for rows in sql.rows(text, &[Value::Timestamptz(at)]).await? {
        let mut pv = rows.texts(0)?;
        for row in 0..rows.len() {
            names.insert(there(pv.take(row))?);
        }
    }
    Ok(names)
}

/// The events of a PV: the last at or before the start of a span, then those of the span, by increasing time. Reading blocks
/// the thread, which must be one that may.
pub(crate) struct Events {
    runtime: Handle,
    /// Keeps the statement running.
    _sql: SqlClient,
    first: Option<Sample>,
    batches: Batches,
    batch: Option<(Decoded, usize)>,
    interruptions: std::iter::Peekable<std::vec::IntoIter<Interruption>>,
}

impl Events {
    /// Starts to read.
    ///
    /// # Errors
    /// Those of SQL, here and below.
    pub(crate) async fn new(database: &Database, pv: &str, span: Span) -> Result<Events> {
        let interruptions = interruptions(&gaps(&mut SqlClient::new(database), pv, span).await?);
        let mut events = Events::within(database, pv, span, interruptions).await?;
        let text =
            format!("SELECT pv, {COLUMNS} FROM epics.samples WHERE pv = $1 AND time <= $2 ORDER BY time DESC LIMIT 1");
        let values = [Value::Text(pv.to_owned()), Value::Timestamptz(span.from)];
        let first = samples_at(&mut SqlClient::new(database), &text, &values).await?.pop();
        events.first = first.map(|(_, sample)| sample);
        Ok(events)
    }

    /// Starts to read the events after the start of a span, and up to its end.
    pub(crate) async fn within(
        database: &Database,
        pv: &str,
        span: Span,
        interruptions: Vec<Interruption>,
    ) -> Result<Events> {
        let mut sql = SqlClient::new(database);
        let (from, to) = (Value::Timestamptz(span.from), Value::Timestamptz(span.to));
        let text =
            format!("SELECT {COLUMNS} FROM epics.samples WHERE pv = $1 AND time > $2 AND time <= $3 ORDER BY time");
        let batches = sql.stream(&text, &[Value::Text(pv.to_owned()), from, to]).await?;
        let batches = batches.ok_or_else(|| Error::bug("a query without rows"))?;
        Ok(Events {
            runtime: Handle::current(),
            _sql: sql,
            first: None,
            batches,
            batch: None,
            interruptions: interruptions.into_iter().peekable(),
        })
    }

    /// All events; for spans that are short.
    pub(crate) async fn collect_within(mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        let mut samples: Vec<Sample> = self.first.take().into_iter().collect();
        while let Some(batch) = self.batches.next().await {
            let decoded = Decoded::new(&batch?, 0)?;
            samples.extend((0..decoded.rows).map(|row| decoded.sample(row)));
        }
        for sample in samples {
            events.push(self.event(sample));
        }
        Ok(events)
    }

    /// The next sample, without the gaps before it.
    pub(crate) async fn next_at_once(&mut self) -> Option<Result<Sample>> {
        loop {
            if let Some((decoded, row)) = &mut self.batch
                && *row < decoded.rows
            {
                *row += 1;
                return Some(Ok(decoded.sample(*row - 1)));
            }
            let batch = self.batches.next().await?;
            match batch.and_then(|batch| Decoded::new(&batch, 0)) {
                Ok(decoded) => self.batch = Some((decoded, 0)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn next_sample(&mut self) -> Option<Result<Sample>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        let runtime = self.runtime.clone();
        runtime.block_on(self.next_at_once())
    }
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let sample = self.next_sample()?;
        Some(sample.map(|sample| self.event(sample)))
    }
}

impl Events {
    /// The event of a sample, with the gap before it.
    fn event(&mut self, sample: Sample) -> Event {
        let mut event = Event::from(sample);
        // The first of several gaps before a sample begins the time without samples, and the last ends it.
        while let Some(gap) = self.interruptions.next_if(|gap| gap.start < event.time()) {
            // A sample whose time is ahead of the clock ends no gap.
            let Some(ended) = gap.ended else { continue };
            let seconds = |time: Nanos| time.div_euclid(SECOND).to_string();
            if event.fields.is_empty() {
                event.fields.push((CONNECTION_LOST.to_owned(), seconds(gap.start)));
                event.fields.push((CONNECTION_REGAINED.to_owned(), seconds(ended)));
            } else {
                event.fields[1].1 = seconds(ended);
            }
            for (name, is_so) in [("startup", gap.stopped), ("resume", gap.paused)] {
                if is_so && event.field(name).is_none() {
                    event.fields.push((name.to_owned(), "true".to_owned()));
                }
            }
        }
        event
    }
}

/// The header of a reply: name, type and metadata of a PV as of a time.
pub(crate) fn header(pv: &str, version: Option<&Version>, ty: i16, time: Nanos) -> Header {
    let fields = version.map(|version| fields_of(&version.metadata)).unwrap_or_default();
    Header {
        payload: values::payload(ty),
        pv: pv.to_owned(),
        year: jiff::Timestamp::from_nanosecond(time.into())
            .map_or(1970, |time| time.to_zoned(jiff::tz::TimeZone::UTC).year().into()),
        elements: version.map(|version| version.count),
        fields,
    }
}
