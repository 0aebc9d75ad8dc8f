//! Summaries of samples: what statistics of long ranges are computed from.
//!
//! A row of `epics.summaries` has the number, mean, deviation, extremes and highest severity of a PV's samples in ten minutes. A
//! *window* is such a time for all PVs. A job summarises each window by one statement, some time after its end; windows up
//! to the *watermark* are done. Samples that are committed later into a window that is done make its part *stale*, in the same
//! transaction, and the job does it again. Until then, readers take the samples themselves.
//!
//! Always true: a summary that is not stale agrees with the samples. Rows that others write or delete in `epics.samples` by
//! SQL are not seen; the action `summarize` makes a PV's summaries anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use epics::processors::{Moments, Part};
use epics::sample::{Nanos, Severity};
use model::Result;
use query::client::{SqlClient, there};
use query::{Database, Value};
use tokio::sync::RwLock;

use crate::tables::SCHEMA;

/// Seconds of a window.
pub(crate) const UNIT: i32 = 600;
/// Nanoseconds of a window.
pub(crate) const WINDOW: Nanos = UNIT as Nanos * 1_000_000_000;
/// Time after its end after which a window is summarised: most samples have arrived by then.
const DELAY: Nanos = 60 * 1_000_000_000;
/// A statement that takes longer is for fewer windows the next time.
const STATEMENT_TIME: Duration = Duration::from_millis(500);
/// Windows of a statement at most.
const WINDOWS_MAX: Nanos = 4_096;
/// Stale parts that one round of the job does at most.
const STALE_MAX: usize = 1_000;

/// Watermarks, on which the writers and the job must agree.
#[derive(Debug)]
pub(crate) struct Watermarks {
    /// Samples before this time are late: their windows are being summarised, or are done.
    closing: AtomicI64,
    /// Windows before this time are done.
    done: AtomicI64,
    /// Held while `closing` is compared and the samples are committed; the job takes it alone to move `closing`.
    commits: RwLock<()>,
}

impl Watermarks {
    /// The watermarks that an earlier run left.
    ///
    /// # Errors
    /// Those of SQL, here and below.
    pub(crate) async fn load(sql: &mut SqlClient, now: Nanos) -> Result<Watermarks> {
        let mut done = None;
        for rows in sql.rows("SELECT until FROM epics.summarized WHERE id = 1", &[]).await? {
            if rows.len() > 0 {
                done = rows.times(0)?.take(0);
            }
        }
        let done = match done {
            Some(done) => done,
            None => {
                // Older samples were there before there were summaries: they are summarised with all others.
                let first = first_sample(sql, Nanos::MIN).await?.unwrap_or(now);
                window_of(first.min(now))
            }
        };
        let commits = RwLock::new(());
        Ok(Watermarks { closing: AtomicI64::new(done), done: AtomicI64::new(done), commits })
    }

    /// Windows before this time are done.
    pub(crate) fn done(&self) -> Nanos {
        self.done.load(Ordering::Acquire)
    }

    /// Runs a commit of samples; `run` gets the time before which they are late.
    pub(crate) async fn commit<T>(&self, run: impl AsyncFnOnce(Nanos) -> T) -> T {
        let _commit = self.commits.read().await;
        run(self.closing.load(Ordering::Acquire)).await
    }

    /// Makes samples before a time late, once no commit is under way.
    async fn close(&self, until: Nanos) {
        let _alone = self.commits.write().await;
        self.closing.store(until, Ordering::Release);
    }
}

/// Begin of the window of a time.
pub(crate) fn window_of(time: Nanos) -> Nanos {
    time.div_euclid(WINDOW) * WINDOW
}

/// Time of the first sample from a time on.
async fn first_sample(sql: &mut SqlClient, from: Nanos) -> Result<Option<Nanos>> {
    for rows in sql.rows("SELECT min(time) FROM epics.samples WHERE time >= $1", &[Value::Timestamptz(from)]).await? {
        if rows.len() > 0 {
            return Ok(rows.times(0)?.take(0));
        }
    }
    Ok(None)
}

/// Late samples of a commit: for each PV the windows from the first to the last.
#[derive(Default)]
pub(crate) struct Late(BTreeMap<Arc<str>, (Nanos, Nanos)>);

impl Late {
    /// Notes a sample that is late.
    pub(crate) fn add(&mut self, pv: &str, time: Nanos) {
        let window = window_of(time);
        match self.0.get_mut(pv) {
            Some((from, to)) => (*from, *to) = (window.min(*from), (window + WINDOW).max(*to)),
            None => drop(self.0.insert(pv.into(), (window, window + WINDOW))),
        }
    }

    /// Notes the late samples of a batch of `samples`.
    pub(crate) fn of(batches: &[(&'static str, RecordBatch)], closing: Nanos) -> Late {
        let mut late = Late::default();
        for (_, batch) in batches.iter().filter(|(table, _)| *table == "samples") {
            let times =
                batch.column_by_name("time").and_then(|array| array.as_primitive_opt::<TimestampNanosecondType>());
            let names = batch.column_by_name("pv").and_then(|array| array.as_string_opt::<i32>());
            let (Some(times), Some(names)) = (times, names) else { continue };
            for (row, time) in times.values().iter().enumerate().filter(|(_, time)| **time < closing) {
                late.add(names.value(row), *time);
            }
        }
        late
    }

    /// Makes the windows stale, in the open transaction.
    pub(crate) async fn write(&self, sql: &mut SqlClient) -> Result<()> {
        let text = "INSERT INTO epics.stale (pv, since, until) VALUES ($1, $2, $3) ON CONFLICT (pv, since) DO UPDATE \
                    SET until = greatest(epics.stale.until, $3), changes = epics.stale.changes + 1";
        for (pv, (from, to)) in &self.0 {
            let values = [Value::Text(pv.to_string()), Value::Timestamptz(*from), Value::Timestamptz(*to)];
            sql.run(text, &values).await?;
        }
        Ok(())
    }
}

/// Columns of a summary, and the aggregates that make them. NaN is no number.
const COLUMNS: &str = "time, pv, samples, numbers, mean, squares, minimum, maximum, last_number, first_time, last_time, \
                       severity, last_severity";
const AGGREGATES: &str = "count(*), count(number), avg(number), var_pop(number) * count(number), min(number), max(number), \
                          last(number, time) FILTER (WHERE number IS NOT NULL), min(time), max(time), max(severity), \
                          last(severity, time)";
const NUMBERS: &str = "SELECT time, pv, severity, CASE WHEN value <> 'NaN' THEN value END AS number FROM epics.samples \
                       WHERE value IS NOT NULL";

/// The statement that summarises the samples of a condition.
fn statement(condition: &str) -> String {
    format!(
        "INSERT INTO epics.summaries ({COLUMNS}) SELECT time_bucket('10 minutes', time), pv, {AGGREGATES} \
         FROM ({NUMBERS} AND {condition}) s GROUP BY 1, 2"
    )
}

/// Commits batches, in one transaction with what `more` does, and makes the windows of late samples stale.
///
/// # Errors
/// Those of the statements and of COMMIT. Nothing is changed then.
pub(crate) async fn commit(
    sql: &mut SqlClient,
    marks: &Watermarks,
    batches: &[(&'static str, RecordBatch)],
    more: impl AsyncFnOnce(&mut SqlClient) -> Result<()>,
) -> Result<()> {
    marks
        .commit(async |closing| {
            let late = Late::of(batches, closing);
            sql.transaction(async |sql| {
                sql.append(SCHEMA, batches).await?;
                late.write(sql).await?;
                more(sql).await
            })
            .await
        })
        .await
}

/// Summarises windows that have ended, and those that are stale.
pub(crate) async fn summarise(database: &Database, marks: &Watermarks, now: Nanos) -> Result<()> {
    let mut sql = SqlClient::new(database);
    let end = window_of(now.saturating_sub(DELAY));
    if marks.done() < end {
        marks.close(end).await;
        let mut window = marks.done();
        // After a long time without summaries, a statement for each window would cost more than its samples.
        let mut windows = 1;
        while window < end {
            // Times without samples may be long.
            let Some(first) = first_sample(&mut sql, window).await? else { break };
            window = window_of(first).max(window);
            if window >= end {
                break;
            }
            let next = end.min(window.saturating_add(WINDOW * windows));
            let began = Instant::now();
            let times = [Value::Timestamptz(window), Value::Timestamptz(next)];
            sql.run(&statement("time >= $1 AND time < $2"), &times).await?;
            finish(&mut sql, marks, next).await?;
            window = next;
            windows =
                if began.elapsed() < STATEMENT_TIME { (windows * 2).min(WINDOWS_MAX) } else { (windows / 2).max(1) };
        }
        finish(&mut sql, marks, end).await?;
    }
    renew(&mut sql).await
}

/// Moves the watermark.
async fn finish(sql: &mut SqlClient, marks: &Watermarks, until: Nanos) -> Result<()> {
    let text = "INSERT INTO epics.summarized (id, until) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET until = $1";
    sql.run(text, &[Value::Timestamptz(until)]).await?;
    marks.done.store(until, Ordering::Release);
    Ok(())
}

/// Summarises stale windows again.
async fn renew(sql: &mut SqlClient) -> Result<()> {
    let mut stale = Vec::new();
    let text = format!("SELECT pv, since, until, changes FROM epics.stale ORDER BY since LIMIT {STALE_MAX}");
    for rows in sql.rows(&text, &[]).await? {
        let (mut pv, mut since, mut until) = (rows.texts(0)?, rows.times(1)?, rows.times(2)?);
        let mut changes = rows.integers(3)?;
        for row in 0..rows.len() {
            let times = (there(since.take(row))?, there(until.take(row))?);
            stale.push((there(pv.take(row))?, times, there(changes.take(row))?));
        }
    }
    for (pv, (since, until), changes) in stale {
        let pv = Value::Text(pv);
        let values = [pv.clone(), Value::Timestamptz(since), Value::Timestamptz(until)];
        sql.transaction(async |sql| {
            sql.run("DELETE FROM epics.summaries WHERE pv = $1 AND time >= $2 AND time < $3", &values).await?;
            sql.run(&statement("pv = $1 AND time >= $2 AND time < $3"), &values).await?;
            // A row that changed meanwhile stays: samples were committed that these statements may not have seen.
            let done = "DELETE FROM epics.stale WHERE pv = $1 AND since = $2 AND changes = $3";
            sql.run(done, &[pv.clone(), Value::Timestamptz(since), Value::Int64(changes)]).await
        })
        .await?;
    }
    Ok(())
}

/// Whether a PV has stale windows in a time.
pub(crate) async fn is_stale(sql: &mut SqlClient, pv: &str, from: Nanos, to: Nanos) -> Result<bool> {
    let text = "SELECT 1 FROM epics.stale WHERE pv = $1 AND since < $3 AND until > $2 LIMIT 1";
    let values = [Value::Text(pv.to_owned()), Value::Timestamptz(from), Value::Timestamptz(to)];
    Ok(sql.rows(text, &values).await?.iter().any(|rows| rows.len() > 0))
}

/// Summaries of a PV from a window on and before another, oldest first, and the number of their samples.
pub(crate) async fn parts(sql: &mut SqlClient, pv: &str, from: Nanos, to: Nanos) -> Result<(Vec<Part>, u64)> {
    let text =
        format!("SELECT {COLUMNS} FROM epics.summaries WHERE pv = $1 AND time >= $2 AND time < $3 ORDER BY time");
    let values = [Value::Text(pv.to_owned()), Value::Timestamptz(from), Value::Timestamptz(to)];
    let (mut parts, mut samples) = (Vec::new(), 0);
    for rows in sql.rows(&text, &values).await? {
        let (mut number_of_samples, mut count) = (rows.integers(2)?, rows.integers(3)?);
        let mut numbers = (4..9).map(|at| rows.numbers(at)).collect::<Result<Vec<_>>>()?;
        let (mut first, mut last) = (rows.times(9)?, rows.times(10)?);
        let (mut severity, mut last_severity) = (rows.integers(11)?, rows.integers(12)?);
        for row in 0..rows.len() {
            let mut number = |at: usize| numbers[at].take(row);
            let alarm = |number: Option<i64>| number.and_then(Severity::of).unwrap_or_default();
            let moments = Moments {
                count: count.take(row).and_then(|count| u64::try_from(count).ok()).unwrap_or_default(),
                mean: number(0).unwrap_or_default(),
                squares: number(1).unwrap_or_default(),
                min: number(2).unwrap_or(f64::NAN),
                max: number(3).unwrap_or(f64::NAN),
            };
            samples += number_of_samples.take(row).and_then(|count| u64::try_from(count).ok()).unwrap_or_default();
            parts.push(Part {
                first: there(first.take(row))?,
                last: there(last.take(row))?,
                moments,
                last_value: number(4).unwrap_or(f64::NAN),
                severity: alarm(severity.take(row)),
                last_severity: alarm(last_severity.take(row)),
                connection_changed: false,
            });
        }
    }
    Ok((parts, samples))
}
