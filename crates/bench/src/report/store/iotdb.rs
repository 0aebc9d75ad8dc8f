//! `TEST_DATA_PERSISTENCE=IoTDB`: time series `root.<TEST_DATA_STORE_DB>.<id>.<operation>.{okPoint,
//! failPoint, latency, remark, clientName}`, as in the original.
//!
//! A time series has one value for each millisecond. If operations of one kind end in the same
//! millisecond, the original keeps only the last. Here the further ones are written to additional
//! devices, `<operation>_2` and so on, so that no operation is lost and no time is altered;
//! `root.<db>.<id>.*` selects all of them. Configuration and final result are not stored there.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::{FinalValue, Run, Store, Stored};
use crate::drivers::iotdb::{Protocol, Session, SessionDialect, SessionOptions, literal, node};
use crate::error::Result;

/// Status codes for an existing database and an existing path.
const EXISTS: [i32; 2] = [501, 506];
/// Time that records of a millisecond are counted, because others of it may arrive late. A client
/// hands over its records at its next operation, so a long query may delay some.
const LATE_MS: i64 = 10 * 60 * 1_000;
/// Maximum rows of an INSERT statement.
const STATEMENT_ROWS: usize = 500;
const REMARK_CHARS_MAX: usize = 1_000;

pub(super) struct IotdbStore {
    options: SessionOptions,
    session: Option<Session>,
    timeout: Duration,
    /// `root.<db>.<id>`.
    path: String,
    /// Devices whose time series exist.
    known: HashSet<String>,
    /// (millisecond, operation) → number of records so far.
    met: BTreeMap<(i64, String), u32>,
}

impl IotdbStore {
    pub(super) fn open(run: &Run<'_>) -> Result<Self> {
        Self::open_within(run, None)
    }

    /// Opens the store. `network_of`: a process in whose network namespace the server is reachable.
    pub(super) fn open_within(run: &Run<'_>, network_of: Option<u32>) -> Result<Self> {
        let config = run.config;
        let timeout = Duration::from_millis(config.test_data_write_time_out);
        let options = SessionOptions {
            address: format!("{}:{}", config.test_data_store_ip, config.test_data_store_port),
            network_of,
            user: config.test_data_store_user.clone(),
            password: config.test_data_store_pw.clone(),
            dialect: SessionDialect::Tree,
            protocol: Protocol::Binary,
            connect_timeout: timeout,
            fetch_rows: 1,
        };
        let database = format!("root.{}", node(&config.test_data_store_db));
        let path = format!("{database}.{}", node(&run.id(5)));
        let mut store =
            IotdbStore { options, session: None, timeout, path, known: HashSet::new(), met: BTreeMap::new() };
        store.execute(&format!("CREATE DATABASE {database}"))?;
        Ok(store)
    }

    /// Runs a statement, in a new session if the last one broke. A statement is sent once, never
    /// retried.
    fn execute(&mut self, statement: &str) -> Result {
        let session = match self.session.take().filter(|session| session.broken().is_none()) {
            Some(session) => session,
            None => Session::open(&self.options).map_err(|error| error.during(self.location()))?,
        };
        let executed = self.session.insert(session).execute(statement, self.timeout, &EXISTS);
        executed.map_err(|error| error.during(self.location()))
    }

    /// Returns the device for a record: the operation's own, or an additional one.
    fn device(&mut self, stored: &Stored<'_>) -> String {
        let at_ms = stored.ended_us / 1_000;
        let met = self.met.entry((at_ms, stored.operation.to_owned())).or_insert(0);
        *met += 1;
        let name = if *met == 1 { stored.operation.to_owned() } else { format!("{}_{met}", stored.operation) };
        let newest_ms = self.met.last_key_value().map_or(at_ms, |((newest_ms, _), _)| *newest_ms);
        while self.met.first_key_value().is_some_and(|((oldest_ms, _), _)| newest_ms - oldest_ms > LATE_MS) {
            self.met.pop_first();
        }
        format!("{}.{}", self.path, node(&name))
    }

    fn insert(&mut self, device: &str, rows: &[String]) -> Result {
        if !self.known.contains(device) {
            const SERIES: &str = "okPoint INT32, failPoint INT32, latency DOUBLE, remark TEXT, clientName TEXT";
            self.execute(&format!("CREATE ALIGNED TIMESERIES {device}({SERIES})"))?;
            self.known.insert(device.to_owned());
        }
        for rows in rows.chunks(STATEMENT_ROWS) {
            let columns = "timestamp, okPoint, failPoint, latency, remark, clientName";
            self.execute(&format!("INSERT INTO {device}({columns}) ALIGNED VALUES {}", rows.join(",")))?;
        }
        Ok(())
    }
}

impl Store for IotdbStore {
    fn append(&mut self, operations: &[Stored<'_>]) -> Result {
        let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for stored in operations {
            rows.entry(self.device(stored)).or_default().push(row(stored));
        }
        rows.iter().try_for_each(|(device, rows)| self.insert(device, rows))
    }

    fn finish(&mut self, _: &[FinalValue]) -> Result {
        self.execute("FLUSH")?;
        self.session.take().map_or(Ok(()), |session| session.close(self.timeout))
    }

    fn location(&self) -> String {
        format!("IoTDB at {}, {}", self.options.address, self.path)
    }
}

/// Formats a record as `(time, okPoint, failPoint, latency, remark, clientName)`.
fn row(stored: &Stored<'_>) -> String {
    format!(
        "({},{},{},{:?},{},{})",
        stored.ended_us / 1_000,
        stored.ok_points,
        stored.failed_points,
        stored.latency_ms,
        literal(super::sql::cut(stored.remark, REMARK_CHARS_MAX)),
        literal(stored.client),
    )
}
