//! Stores that keep every operation of a run, its configuration and its results, in the original's
//! tables and columns.
//!
//! Clients pass records to one *recorder* thread through a bounded queue; the thread writes them in
//! batches. A client never waits for a store while its operation is being timed. If the queue is
//! full, the client waits after its operation, because no requested record is dropped. The summary
//! includes the number and duration of these waits: a run that waited for its recorder measured
//! less than it could.
//!
//! Always true: `stored + lost + left_out` is the number of records that clients passed.

mod csv;
mod iotdb;
mod mysql;
mod parquet;
mod postgres;
pub(crate) mod server;
mod sql;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use jiff::Zoned;
use jiff::tz::TimeZone;

use super::matrix::{elapsed_s, latency_values, throughput_shown};
use crate::config::{Config, Persistence};
use crate::error::{Error, Result};
use crate::result::{OperationRecord, RunResult};
use crate::schema::Schema;

/// Records that a client collects before it uses the queue, to reduce contention.
const HAND_OVER_RECORDS: usize = 64;
/// Age of a client's oldest record, in milliseconds, at which its records are handed over.
const HAND_OVER_MS: i64 = 1_000;
/// Capacity of the queue in hand-overs: 65,536 records, about 6 MiB.
const QUEUE_HAND_OVERS: usize = 1_024;
/// Maximum records written to a store at a time.
const APPEND_RECORDS: usize = 2_000;

/// A store of operations. It is called from one thread.
pub(crate) trait Store: Send {
    /// Stores operations in order. After an error, some of them may have been stored.
    fn append(&mut self, operations: &[Stored<'_>]) -> Result;

    /// Stores the final result and closes the store.
    fn finish(&mut self, results: &[FinalValue]) -> Result;

    /// Location of the stored operations, for the report.
    fn location(&self) -> String;
}

/// One operation, with names instead of indices.
pub(crate) struct Stored<'a> {
    /// End of the operation, microseconds since 1970.
    ended_us: i64,
    /// End of the operation as `yyyy-MM-dd HH:mm:ss.SSS` in the local time zone.
    time: String,
    /// First device of the operation: the original's column `clientName` has this content.
    client: &'a str,
    operation: &'a str,
    ok_points: u64,
    failed_points: u64,
    latency_ms: f64,
    /// Points per second of this operation.
    rate: f64,
    remark: &'a str,
}

/// One value of the final result.
#[derive(Debug, PartialEq)]
pub(crate) struct FinalValue {
    operation: String,
    key: &'static str,
    value: String,
}

/// Description of the run, needed to open a store.
pub(crate) struct Run<'a> {
    /// Configuration of the run.
    pub(crate) config: &'a Config,
    /// Wall clock at the start.
    pub(crate) started: &'a Zoned,
    /// Parent directory of `data/`.
    pub(crate) home: &'a Path,
}

impl Run<'_> {
    /// Identifier of the run: mode, database, remark and start time, each except the start cut to
    /// `part_max` characters.
    fn id(&self, part_max: usize) -> String {
        let cut = |text: &str| text.chars().take(part_max).collect::<String>();
        let mode = cut(self.config.benchmark_work_mode.name());
        let database = cut(&self.config.db_switch.text);
        format!("{mode}_{database}_{}_{}", self.config.remark, self.started.strftime("%Y_%m_%d_%H_%M_%S_%3f"))
    }

    /// Maximum rows of a table or file, after which a new one is started.
    fn rows_max(&self) -> u64 {
        if self.config.record_split { self.config.record_split_max_line } else { u64::MAX }
    }

    /// The configuration as the original stores it (some keys renamed), then all keys that the
    /// original does not store.
    fn configuration(&self, mode: &str) -> Vec<(String, String)> {
        const STORED: [&str; 10] = [
            "LOOP",
            "GROUP_NUMBER",
            "DEVICE_NUMBER",
            "SENSOR_NUMBER",
            "QUERY_DEVICE_NUM",
            "QUERY_SENSOR_NUM",
            "IS_OUT_OF_ORDER",
            "OUT_OF_ORDER_RATIO",
            "POINT_STEP",
            "DB_SWITCH",
        ];
        let value = |key: &str| self.config.display_value(key).unwrap_or_default();
        let mut items = vec![
            ("MODE".to_owned(), mode.to_owned()),
            ("ServerIP".to_owned(), value("HOST")),
            ("CLIENT".to_owned(), host_name()),
            ("DB_SWITCH".to_owned(), value("DB_SWITCH")),
            ("getDATA_CLIENT_NUMBER()".to_owned(), value("DATA_CLIENT_NUMBER")),
        ];
        items.extend(STORED.iter().filter(|key| **key != "DB_SWITCH").map(|key| ((*key).to_owned(), value(key))));
        let others = self.config.entries().filter(|(key, _)| !STORED.contains(key));
        items.extend(others.map(|(key, value)| (key.to_owned(), value)));
        items
    }
}

/// Host name of this machine, from the kernel.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

/// Opens the store that the configuration names, if it names one.
///
/// # Errors
/// The store cannot be reached or written. Opening it early reports this before the measurement.
pub(crate) fn open(run: &Run<'_>) -> Result<Option<Box<dyn Store>>> {
    let store: Box<dyn Store> = match run.config.test_data_persistence {
        Persistence::None => return Ok(None),
        Persistence::Csv => Box::new(csv::CsvStore::open(run)?),
        Persistence::Parquet => Box::new(parquet::ParquetStore::open(run)?),
        Persistence::MySQL => Box::new(mysql::open(run)?),
        Persistence::PostgreSQL => Box::new(postgres::open(run)?),
        Persistence::IoTDB => Box::new(iotdb::IotdbStore::open(run)?),
    };
    Ok(Some(store))
}

/// Names for the indices in records.
pub(crate) struct Labels {
    /// Names of operation kinds, by index.
    pub(crate) operations: Vec<String>,
    /// Names of devices.
    pub(crate) schema: Arc<Schema>,
}

#[derive(Default)]
struct Counts {
    waits: AtomicU64,
    waited_ns: AtomicU64,
    lost: AtomicU64,
}

/// Handle of the thread that writes to a store.
pub(crate) struct Recorder {
    sender: SyncSender<Vec<OperationRecord>>,
    counts: Arc<Counts>,
    thread: JoinHandle<(Summary, Box<dyn Store>)>,
}

/// A client's sender into the queue.
pub(crate) struct ClientRecorder {
    sender: SyncSender<Vec<OperationRecord>>,
    counts: Arc<Counts>,
    gathered: Vec<OperationRecord>,
}

/// Counts of the records of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// Records that were stored.
    pub(crate) stored: u64,
    /// Records that were not stored because the store failed. After a broken connection some may be
    /// stored nevertheless.
    pub(crate) lost: u64,
    /// Records skipped because of `MYSQL_REAL_INSERT_RATE`.
    pub(crate) left_out: u64,
    /// Number of times that a client waited for room in the queue.
    pub(crate) waits: u64,
    /// Total seconds that clients waited.
    pub(crate) waited_s: f64,
    /// Message of the first failure.
    pub(crate) error: Option<String>,
}

impl Recorder {
    /// Starts the thread. `share`: the first `10 * share` of every ten records are stored.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(crate) fn start(store: Box<dyn Store>, labels: Labels, share: f64) -> Result<Recorder> {
        let (sender, receiver) = sync_channel(QUEUE_HAND_OVERS);
        let counts = Arc::new(Counts::default());
        let writer = Writer { store, labels, share, number: 0, summary: Summary::default() };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || writer.run(&receiver));
        let thread = thread.map_err(|error| Error::setup(format!("recorder: no thread: {error}")))?;
        Ok(Recorder { sender, counts, thread })
    }

    /// Returns a sender into the queue for one client.
    pub(crate) fn client(&self) -> ClientRecorder {
        ClientRecorder { sender: self.sender.clone(), counts: Arc::clone(&self.counts), gathered: Vec::new() }
    }

    /// Waits until all records are written, and returns the store for [`Store::finish`]. Blocks
    /// until every [`ClientRecorder`] is dropped.
    ///
    /// # Errors
    /// The thread panicked.
    pub(crate) fn drain(self) -> Result<(Summary, Box<dyn Store>)> {
        drop(self.sender);
        let (mut summary, store) =
            self.thread.join().map_err(|_| Error::setup("recorder: its thread panicked".to_owned()))?;
        summary.lost += self.counts.lost.load(Ordering::Relaxed);
        summary.waits = self.counts.waits.load(Ordering::Relaxed);
        summary.waited_s = self.counts.waited_ns.load(Ordering::Relaxed) as f64 / 1e9;
        Ok((summary, store))
    }
}

impl ClientRecorder {
    /// Accepts one record. Call it after the operation was timed: it may wait for room in the
    /// queue.
    pub(crate) fn record(&mut self, record: OperationRecord) {
        let now_ms = record.ended_ms;
        self.gathered.push(record);
        let oldest_ms = self.gathered[0].ended_ms;
        if self.gathered.len() >= HAND_OVER_RECORDS || now_ms - oldest_ms >= HAND_OVER_MS {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let records = std::mem::replace(&mut self.gathered, Vec::with_capacity(HAND_OVER_RECORDS));
        let refused = match self.sender.try_send(records) {
            Ok(()) => return,
            Err(TrySendError::Disconnected(records)) => records,
            Err(TrySendError::Full(records)) => {
                let from = Instant::now();
                let sent = self.sender.send(records);
                let waited_ns = u64::try_from(from.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.counts.waits.fetch_add(1, Ordering::Relaxed);
                self.counts.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
                match sent {
                    Ok(()) => return,
                    Err(refused) => refused.0,
                }
            }
        };
        self.counts.lost.fetch_add(refused.len() as u64, Ordering::Relaxed);
    }
}

impl Drop for ClientRecorder {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Summary {
    /// Notes for the report; empty if all records were stored and no client waited.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lost > 0 {
            let error = self.error.as_deref().unwrap_or("the recorder ended early");
            notes.push(format!("{} of {} records were not stored: {error}", self.lost, self.lost + self.stored));
        }
        if self.waits > 0 {
            notes.push(format!(
                "clients waited for the recorder {} times, {:.2} s in total: the run was slower than without TEST_DATA_PERSISTENCE",
                self.waits, self.waited_s
            ));
        }
        notes
    }
}

/// State of the recorder's thread.
struct Writer {
    store: Box<dyn Store>,
    labels: Labels,
    share: f64,
    /// Number of the next record.
    number: u64,
    summary: Summary,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Vec<OperationRecord>>) -> (Summary, Box<dyn Store>) {
        let mut records = Vec::new();
        while let Ok(first) = receiver.recv() {
            records.extend(first);
            // Include whatever else is queued: one statement for many records.
            while records.len() < APPEND_RECORDS {
                let Ok(more) = receiver.try_recv() else { break };
                records.extend(more);
            }
            self.write(&records);
            records.clear();
        }
        (self.summary, self.store)
    }

    fn write(&mut self, records: &[OperationRecord]) {
        let kept: Vec<&OperationRecord> = records.iter().filter(|_| self.next_is_kept()).collect();
        self.summary.left_out += (records.len() - kept.len()) as u64;
        let operations: Vec<Stored<'_>> = kept.iter().map(|record| self.labels.stored(record)).collect();
        if operations.is_empty() {
            return;
        }
        match self.store.append(&operations) {
            Ok(()) => self.summary.stored += operations.len() as u64,
            Err(error) => {
                self.summary.lost += operations.len() as u64;
                self.summary.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn next_is_kept(&mut self) -> bool {
        let digit = self.number % 10;
        self.number += 1;
        (digit as f64) < 10.0 * self.share
    }
}

impl Labels {
    fn stored<'a>(&'a self, record: &'a OperationRecord) -> Stored<'a> {
        let latency_ms = record.latency_ns as f64 / 1e6;
        let rate = if latency_ms > 0.0 { record.ok_points as f64 * 1_000.0 / latency_ms } else { 0.0 };
        let known = (record.device as usize) < self.schema.devices.len();
        Stored {
            ended_us: record.ended_ms.saturating_mul(1_000),
            time: local_time(record.ended_ms),
            client: if known { self.schema.device_name(record.device) } else { "" },
            operation: self.operations.get(record.kind as usize).map_or("", String::as_str),
            ok_points: record.ok_points,
            failed_points: record.failed_points,
            latency_ms,
            rate,
            remark: record.remark.as_deref().unwrap_or(""),
        }
    }
}

fn local_time(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S.%3f").to_string()
}

/// The final result as the original stores it: `total`, then each of the run's kinds.
pub(crate) fn final_values(result: &RunResult) -> Vec<FinalValue> {
    let value = |operation: &str, key, value| FinalValue { operation: operation.to_owned(), key, value };
    let mut values = vec![
        value("total", "createSchemaTime", format!("{:.2}", result.schema_s)),
        value("total", "elapsedTime", format!("{:.2}", elapsed_s(result))),
    ];
    for group in super::matrix::groups(result) {
        for row in group.rows {
            let name = &row.stored_name;
            let counts = [
                ("okOperationNum", row.ok),
                ("okPointNum", row.ok_points),
                ("failOperationNum", row.failed),
                ("failPointNum", row.failed_points),
            ];
            values.extend(counts.map(|(key, count)| value(name, key, count.to_string())));
            if throughput_shown(result) {
                values.push(value(name, "throughput", format!("{:.2}", row.throughput)));
            }
            values.extend(latency_values(&row.latency_ms).map(|(key, ms)| value(name, key, format!("{ms:.2}"))));
        }
    }
    values
}

/// Splits rows among tables or files: piece 0 has its own name, the names of others end in
/// `_splitN`.
struct Pieces {
    rows_max: u64,
    rows: u64,
    number: u32,
}

impl Pieces {
    fn new(rows_max: u64) -> Self {
        Pieces { rows_max: rows_max.max(1), rows: 0, number: 0 }
    }

    /// Number of the `wanted` rows that fit into the current piece.
    fn room(&self, wanted: usize) -> usize {
        usize::try_from(self.rows_max - self.rows).unwrap_or(usize::MAX).min(wanted)
    }

    fn add(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    fn next(&mut self) {
        self.number += 1;
        self.rows = 0;
    }

    /// Returns `first` for piece 0, else `base_splitN`.
    fn name(&self, first: &str, base: &str) -> String {
        if self.number == 0 { first.to_owned() } else { format!("{base}_split{}", self.number) }
    }
}

#[cfg(test)]
mod product_tests;
#[cfg(test)]
mod tests;
