//! Stores that keep every operation of a run, its configuration and its results, in the original's tables and columns.
//!
//! Clients hand records to one *recorder* thread through a bounded queue; the thread writes many at a time. A client
//! never waits for a store while its operation is being timed. When the queue is full, the client waits after its
//! operation: a record that was asked for is not dropped. How often and how long clients waited is part of the
//! summary, because a run that waited for its recorder measured less than it could.
//!
//! Always true: `stored + lost + left_out` is the number of records that clients gave.

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

/// Records that a client gathers before it touches the queue; keeps clients out of each other's way.
const HAND_OVER_RECORDS: usize = 64;
/// A client's records are handed over when its oldest is as old as this.
const HAND_OVER_MS: i64 = 1_000;
/// Hand-overs that fit into the queue: 65,536 records, some 6 MiB.
const QUEUE_HAND_OVERS: usize = 1_024;
/// Records written to a store at a time.
const APPEND_RECORDS: usize = 2_000;

/// Where operations are kept. Called from one thread.
pub(crate) trait Store: Send {
    /// Keeps some operations, in order. After an error some of them may be there.
    fn append(&mut self, operations: &[Stored<'_>]) -> Result;

    /// Keeps the final result and closes the store.
    fn finish(&mut self, results: &[FinalValue]) -> Result;

    /// Where the operations went, for the report.
    fn place(&self) -> String;
}

/// One operation, with names instead of numbers.
pub(crate) struct Stored<'a> {
    /// Its end, microseconds since 1970.
    ended_us: i64,
    /// The same as `yyyy-MM-dd HH:mm:ss.SSS` of the local zone.
    time: String,
    /// The first device it concerned: the original's column `clientName` holds that.
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

/// What a store must know of the run before it begins.
pub(crate) struct Run<'a> {
    /// Keys.
    pub(crate) config: &'a Config,
    /// Start.
    pub(crate) started: &'a Zoned,
    /// `data/` is written under it.
    pub(crate) home: &'a Path,
}

impl Run<'_> {
    /// Mode, database, remark and start, each cut to `part_max` characters but the start.
    fn id(&self, part_max: usize) -> String {
        let cut = |text: &str| text.chars().take(part_max).collect::<String>();
        let mode = cut(self.config.benchmark_work_mode.name());
        let database = cut(&self.config.db_switch.text);
        format!("{mode}_{database}_{}_{}", self.config.remark, self.started.strftime("%Y_%m_%d_%H_%M_%S_%3f"))
    }

    /// Rows of a table or file before the next begins.
    fn rows_max(&self) -> u64 {
        if self.config.record_split { self.config.record_split_max_line } else { u64::MAX }
    }

    /// The configuration as the original stores it (some under names of its own), then all keys that it leaves out.
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

/// This machine's name, as its kernel knows it.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

/// The store that the configuration asks for, opened and ready, if it asks for one.
///
/// # Errors
/// It cannot be reached or written. Better now than after an hour of measuring.
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

/// Names for the numbers in records.
pub(crate) struct Labels {
    /// Of kinds, by index.
    pub(crate) operations: Vec<String>,
    /// Of devices.
    pub(crate) schema: Arc<Schema>,
}

#[derive(Default)]
struct Counts {
    waits: AtomicU64,
    waited_ns: AtomicU64,
    lost: AtomicU64,
}

/// The thread that writes to a store, and the way to it.
pub(crate) struct Recorder {
    sender: SyncSender<Vec<OperationRecord>>,
    counts: Arc<Counts>,
    thread: JoinHandle<(Summary, Box<dyn Store>)>,
}

/// A client's end of the queue.
pub(crate) struct ClientRecorder {
    sender: SyncSender<Vec<OperationRecord>>,
    counts: Arc<Counts>,
    gathered: Vec<OperationRecord>,
}

/// What became of the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// Kept.
    pub(crate) stored: u64,
    /// Not kept, because the store failed; after a broken connection some may be there nevertheless.
    pub(crate) lost: u64,
    /// Not kept, because `MYSQL_REAL_INSERT_RATE` says so.
    pub(crate) left_out: u64,
    /// How often a client waited for room in the queue.
    pub(crate) waits: u64,
    /// How long clients waited, together.
    pub(crate) waited_s: f64,
    /// The first failure.
    pub(crate) error: Option<String>,
}

impl Recorder {
    /// Starts the thread. `share`: of every ten records the first `10 * share` are kept.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(store: Box<dyn Store>, labels: Labels, share: f64) -> Result<Recorder> {
        let (sender, receiver) = sync_channel(QUEUE_HAND_OVERS);
        let counts = Arc::new(Counts::default());
        let writer = Writer { store, labels, share, number: 0, summary: Summary::default() };
        let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || writer.run(&receiver));
        let thread = thread.map_err(|error| Error::setup(format!("recorder: no thread: {error}")))?;
        Ok(Recorder { sender, counts, thread })
    }

    /// An end of the queue for one client.
    pub(crate) fn client(&self) -> ClientRecorder {
        ClientRecorder { sender: self.sender.clone(), counts: Arc::clone(&self.counts), gathered: Vec::new() }
    }

    /// Waits until everything is written, and gives the store back for [`Store::finish`]. Every [`ClientRecorder`]
    /// must have been dropped, or this waits for it.
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
    /// Takes one record. Call it after the operation was timed: it may wait for room in the queue.
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
    /// What a reader of the report must know; nothing if all is well.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lost > 0 {
            let error = self.error.as_deref().unwrap_or("the recorder ended early");
            notes.push(format!("{} of {} records were not stored: {error}", self.lost, self.lost + self.stored));
        }
        if self.waits > 0 {
            notes.push(format!(
                "clients waited for the recorder {} times, {:.2} s together: the run was slower than without TEST_DATA_PERSISTENCE",
                self.waits, self.waited_s
            ));
        }
        notes
    }
}

/// The recorder's thread.
struct Writer {
    store: Box<dyn Store>,
    labels: Labels,
    share: f64,
    /// Of the next record.
    number: u64,
    summary: Summary,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Vec<OperationRecord>>) -> (Summary, Box<dyn Store>) {
        let mut records = Vec::new();
        while let Ok(first) = receiver.recv() {
            records.extend(first);
            // Whatever else waits goes with it: one statement for many records.
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

/// The final result as the original stores it: `total`, then each kind that the run knows.
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

/// Where rows go when tables or files are split: piece 0 has a name of its own, others end in `_splitN`.
struct Pieces {
    rows_max: u64,
    rows: u64,
    number: u32,
}

impl Pieces {
    fn new(rows_max: u64) -> Self {
        Pieces { rows_max: rows_max.max(1), rows: 0, number: 0 }
    }

    /// How many of `wanted` rows the present piece has room for.
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

    /// `first` for piece 0, else `base_splitN`.
    fn name(&self, first: &str, base: &str) -> String {
        if self.number == 0 { first.to_owned() } else { format!("{base}_split{}", self.number) }
    }
}

#[cfg(test)]
mod product_tests;
#[cfg(test)]
mod tests;
