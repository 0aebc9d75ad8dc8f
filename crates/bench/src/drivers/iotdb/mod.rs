//! Apache IoTDB over its native RPC (Thrift), in its tree and its table dialect.
//!
//! Target options: `dialect=tree|table`, `write=tablet|record|records`, `rpc=binary|compact`.
//! Defaults come from the configuration: `IoTDB_DIALECT_MODE`, the mode in `DB_SWITCH`, and
//! `ENABLE_THRIFT_COMPRESSION`.
//!
//! Why tablets: IoTDB documents `insertTablet` as its fastest write path. Values are sent column by
//! column, big-endian and without per-value tags, so that neither side inspects a value before the
//! memtable; with aligned series, times are stored once per device. Records repeat the sensor names
//! and a type byte with each row; they are here because IoT-benchmark measures them.
//!
//! Tree dialect: `root.DB.GROUP.DEVICE`, one database per group. Table dialect: database
//! `DB_GROUP`, one table with the tags as `TAG` columns and the sensors as `FIELD` columns. The
//! configured encodings and compressor apply to the tree dialect only; SQL of the table dialect
//! (2.0) has no syntax for them.
//!
//! A broken session is replaced by the next call; encoded requests are then sent with the new
//! session's ID.

mod answer;
mod names;
mod rpc;
mod sql;
mod tablet;
mod thrift;
mod tsblock;
mod types;
mod write;

#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::{About, Connection, Driver, Entry, Opening, Proof, Target, timeouts};
use crate::config::{Config, Dialect as ConfigDialect, InsertMode, Product};
use crate::error::{Class, Error, Result};
use crate::query::{Query, Rows};
use crate::schema::{Batch, Kind, Schema, Unit};
use names::{Names, identifier};
use rpc::{Answer, Dialect, Options, Series};
use sql::Sql;
use types::{DataType, compressor_code, encoding_code};
use write::{Method, Writes};

// Used by the IoTDB store of operation records.
pub(crate) use names::{literal, node};
pub(crate) use rpc::{Dialect as SessionDialect, Options as SessionOptions, Session};
pub(crate) use thrift::Protocol;

pub(crate) const ENTRY: Entry = Entry {
    name: "iotdb",
    summary: "Apache IoTDB by native RPC (dialect=tree|table, write=tablet|record|records, rpc=binary|compact)",
    proof: Proof::Product("Apache IoTDB 2.0.1-beta"),
    open: |opening| Ok(Box::new(Iotdb { shared: Arc::new(Shared::new(opening)?) })),
};

/// Port of the native RPC.
const PORT: u16 = 6667;
/// Time-outs of connecting and opening a session, and of closing one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Rows per reply of a query, as in IoTDB's own clients.
const FETCH_ROWS: i32 = 5000;
/// Attempts to create a database or table, and the pause between them.
const CREATE_ATTEMPTS: u32 = 5;
const CREATE_PAUSE: Duration = Duration::from_millis(500);
/// Status codes: "database exists", "table exists", and "path (or database) does not exist".
const DATABASE_EXISTS: [i32; 2] = [501, 506];
const TABLE_EXISTS: [i32; 1] = [551];
const NOT_FOUND: [i32; 2] = [508, 500];

struct Iotdb {
    shared: Arc<Shared>,
}

/// State shared by all connections.
struct Shared {
    schema: Arc<Schema>,
    names: Names,
    target: Target,
    user: String,
    password: String,
    dialect: Dialect,
    method: Method,
    protocol: Protocol,
    aligned: bool,
    align_by_device: bool,
    /// Whether rows may lack fields.
    sparse: bool,
    compressor: i32,
    /// Encoding of each data type, in the order of [`encoding_of`].
    encodings: [i32; 10],
    write_limit: Duration,
    read_limit: Duration,
}

impl Shared {
    fn new(opening: Opening) -> Result<Shared> {
        let Opening { target, schema, config } = opening;
        target.only(&["dialect", "write", "rpc"])?;
        refuse_unsupported_keys(&config)?;
        let dialect = match (target.options.get("dialect"), config.iotdb_dialect_mode) {
            (None, ConfigDialect::Table) => Dialect::Table,
            _ if target.choice("dialect", &["tree", "table"])? == "table" => Dialect::Table,
            _ => Dialect::Tree,
        };
        let method = method(&target, &config)?;
        if dialect == Dialect::Table && method != Method::Tablet {
            return Err(Error::setup("IoTDB's table dialect supports tablets only: expected write=tablet".to_owned()));
        }
        let compact = match target.options.get("rpc") {
            None => config.enable_thrift_compression,
            Some(_) => target.choice("rpc", &["binary", "compact"])? == "compact",
        };
        let (write_limit, read_limit) = timeouts(&config);
        let names = if dialect == Dialect::Tree { Names::of_tree(&schema) } else { Names::of_tables(&schema)? };
        Ok(Shared {
            names,
            user: target.user.clone().unwrap_or_else(|| config.username.clone()),
            password: target.password.clone().unwrap_or_else(|| config.password.clone()),
            dialect,
            method,
            protocol: if compact { Protocol::Compact } else { Protocol::Binary },
            aligned: config.vector,
            align_by_device: config.align_by_device,
            sparse: !config.is_sensor_ts_alignment,
            compressor: compressor_code(&config.compressor).map_err(Error::setup)?,
            encodings: encodings(&config)?,
            write_limit,
            read_limit,
            schema,
            target,
        })
    }

    fn open_session(&self, client: usize) -> Result<Session> {
        Session::open(&Options {
            address: self.target.address(client, PORT)?,
            network_of: self.target.network_of,
            user: self.user.clone(),
            password: self.password.clone(),
            dialect: self.dialect,
            protocol: self.protocol,
            connect_timeout: CONNECT_TIMEOUT,
            fetch_rows: FETCH_ROWS,
        })
    }

    /// The first table of each database.
    fn databases(&self, tables: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut firsts: Vec<u32> = Vec::new();
        for table in tables {
            let name = |table: u32| &self.names.databases[table as usize];
            if !firsts.iter().any(|first| name(*first) == name(table)) {
                firsts.push(table);
            }
        }
        firsts
    }
}

/// Refuses keys for unsupported features, which would otherwise change what is measured.
fn refuse_unsupported_keys(config: &Config) -> Result {
    let requested = [
        ("USE_SSL", config.use_ssl),
        ("TEMPLATE", config.template),
        ("IoTDB_TABLE_WRITABLE_VIEW", config.iotdb_table_writable_view),
        ("IOTDB_USE_DEBUG", config.iotdb_use_debug),
        ("TABLE_TIME_COLUMN", config.table_time_column != "time"),
    ];
    match requested.iter().find(|(_, requested)| *requested) {
        Some((key, _)) => Err(Error::setup(format!("{key}: not supported by the IoTDB driver; remove the key"))),
        None => Ok(()),
    }
}

fn method(target: &Target, config: &Config) -> Result<Method> {
    let default = match config.db_switch.mode {
        _ if target.options.contains_key("write") || config.db_switch.product != Product::IoTDB => "tablet",
        Some(InsertMode::SessionByRecord) => "record",
        Some(InsertMode::SessionByRecords) => "records",
        Some(mode @ (InsertMode::Jdbc | InsertMode::Rest)) => {
            return Err(Error::setup(format!(
                "DB_SWITCH={}: the IoTDB driver supports the native RPC, not {}; use IoTDB-200-SESSION_BY_TABLET",
                config.db_switch.text,
                mode.name()
            )));
        }
        _ => "tablet",
    };
    let chosen = match target.options.get("write") {
        None => default,
        Some(_) => target.choice("write", &["tablet", "record", "records"])?,
    };
    Ok(match chosen {
        "record" => Method::Record,
        "records" => Method::Records,
        _ => Method::Tablet,
    })
}

fn encodings(config: &Config) -> Result<[i32; 10]> {
    let names = [
        &config.encoding_boolean,
        &config.encoding_int32,
        &config.encoding_int64,
        &config.encoding_float,
        &config.encoding_double,
        &config.encoding_text,
        &config.encoding_timestamp,
        &config.encoding_date,
        &config.encoding_blob,
        &config.encoding_string,
    ];
    let mut codes = [0; 10];
    for (code, name) in codes.iter_mut().zip(names) {
        *code = encoding_code(name).map_err(Error::setup)?;
    }
    Ok(codes)
}

/// Index of a type in [`encodings`].
fn encoding_of(kind: DataType) -> usize {
    match kind {
        DataType::Boolean => 0,
        DataType::Int32 => 1,
        DataType::Int64 => 2,
        DataType::Float => 3,
        DataType::Double => 4,
        DataType::Text => 5,
        DataType::Timestamp => 6,
        DataType::Date => 7,
        DataType::Blob => 8,
        DataType::String => 9,
    }
}

/// IoTDB's type of a field.
fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Bool => DataType::Boolean,
        Kind::Int32 => DataType::Int32,
        Kind::Int64 => DataType::Int64,
        Kind::Float { .. } => DataType::Float,
        Kind::Double { .. } => DataType::Double,
        Kind::Text { .. } => DataType::Text,
        Kind::String { .. } => DataType::String,
        Kind::Blob { .. } => DataType::Blob,
        Kind::Timestamp => DataType::Timestamp,
        Kind::Date => DataType::Date,
    }
}

impl Driver for Iotdb {
    fn about(&self) -> About {
        let shared = &self.shared;
        let dialect = if shared.dialect == Dialect::Tree { "tree dialect" } else { "table dialect" };
        let series = match (shared.dialect, shared.aligned) {
            (Dialect::Table, _) => "",
            (Dialect::Tree, true) => ", aligned series",
            (Dialect::Tree, false) => ", series that are not aligned",
        };
        let rpc = if shared.protocol == Protocol::Binary { "binary" } else { "compact" };
        About {
            product: "Apache IoTDB",
            write_path: format!("native RPC ({rpc} Thrift), {}, {dialect}{series}", shared.method.text()),
            why: "IoTDB documents tablets as its fastest write path: columns without per-value tags, times once per device",
            durability: "after the row is in the memtable and handed to the log, which is synced every second \
                         (wal_mode=ASYNC, the default)"
                .to_owned(),
            durable: false,
            visible_at_once: true,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut connection = IotdbConnection {
            shared: Arc::clone(&self.shared),
            client,
            session: Some(self.shared.open_session(client)?),
            database: None,
            writes: Writes::default(),
            answers: Vec::new(),
            set_operations: false,
        };
        connection.check_server()?;
        Ok(Box::new(connection))
    }
}

struct IotdbConnection {
    shared: Arc<Shared>,
    client: usize,
    session: Option<Session>,
    /// Table whose database is in use (table dialect).
    database: Option<u32>,
    writes: Writes,
    /// The last query, divided into pieces if necessary, with its answers.
    answers: Vec<(Query, Answer)>,
    set_operations: bool,
}

impl IotdbConnection {
    /// The current session, or a new one if it is broken.
    fn session(&mut self) -> Result<&mut Session> {
        if self.session.as_ref().is_none_or(|session| session.broken().is_some()) {
            self.session = None;
            self.database = None;
            self.session = Some(self.shared.open_session(self.client)?);
        }
        self.session.as_mut().ok_or_else(|| Error::new(Class::Connection, "no session"))
    }

    fn sql(&self) -> Sql<'_> {
        let Shared { schema, names, align_by_device, sparse, .. } = self.shared.as_ref();
        let (align_by_device, sparse) = (*align_by_device, *sparse);
        Sql { schema, names, align_by_device, sparse, set_operations: self.set_operations }
    }

    /// Checks the server's time unit, which must be the run's because times are sent as integers,
    /// and its support of set operations.
    fn check_server(&mut self) -> Result {
        let expected = match self.shared.schema.unit {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Nanos => "ns",
        };
        let (version, precision) = self.session()?.properties(CONNECT_TIMEOUT)?;
        self.set_operations = sql::has_set_operations(&version);
        if precision == expected {
            return Ok(());
        }
        Err(Error::setup(format!(
            "IoTDB stores times in {precision}, the run has TIMESTAMP_PRECISION={expected}; make them equal \
             (timestamp_precision in iotdb-system.properties, before the server's first start)"
        )))
    }

    fn execute(&mut self, statement: &str, allowed: &[i32]) -> Result {
        let limit = self.shared.write_limit;
        self.session()?.execute(statement, limit, allowed)
    }

    /// Retries an idempotent step while the server fails: a new database's regions are available a
    /// moment after its creation.
    fn with_retries(&mut self, mut step: impl FnMut(&mut Session) -> Result) -> Result {
        for _ in 1..CREATE_ATTEMPTS {
            match self.session().and_then(&mut step) {
                Err(error) if matches!(error.class, Class::Server | Class::Overloaded) => {
                    std::thread::sleep(CREATE_PAUSE);
                }
                outcome => return outcome,
            }
        }
        self.session().and_then(step)
    }

    fn create_tree(&mut self, devices: Range<u32>) -> Result {
        let shared = Arc::clone(&self.shared);
        let tables = devices.clone().map(|device| shared.schema.devices[device as usize].table);
        for table in shared.databases(tables) {
            self.execute(&format!("CREATE DATABASE {}", shared.names.databases[table as usize]), &DATABASE_EXISTS)?;
        }
        for device in devices {
            let table = shared.schema.devices[device as usize].table as usize;
            let path = &shared.names.devices[device as usize];
            let fields = &shared.names.fields[table];
            let paths: Vec<String> = match shared.aligned {
                true => Vec::new(),
                false => fields.iter().map(|field| format!("{path}.{field}")).collect(),
            };
            let names = if shared.aligned { fields } else { &paths };
            let kinds = shared.schema.tables[table].fields.iter().map(|field| data_type(field.kind));
            let encoding = |kind| shared.encodings[encoding_of(kind)];
            let series = |(name, kind): (&'_ String, _)| (name.clone(), kind);
            let series: Vec<(String, DataType)> = names.iter().zip(kinds).map(series).collect();
            let series: Vec<Series<'_>> = series
                .iter()
                .map(|(name, kind)| Series {
                    name,
                    kind: *kind,
                    encoding: encoding(*kind),
                    compressor: shared.compressor,
                })
                .collect();
            self.with_retries(|session| match shared.aligned {
                true => session.create_aligned_timeseries(path, &series, shared.write_limit),
                false => session.create_multi_timeseries(&series, shared.write_limit),
            })?;
        }
        Ok(())
    }

    fn create_tables(&mut self, devices: Range<u32>) -> Result {
        let shared = Arc::clone(&self.shared);
        let mut tables: Vec<u32> = devices.map(|device| shared.schema.devices[device as usize].table).collect();
        tables.sort_unstable();
        tables.dedup();
        for table in shared.databases(tables.iter().copied()) {
            let database = identifier(&shared.names.databases[table as usize]);
            self.execute(&format!("CREATE DATABASE IF NOT EXISTS {database}"), &DATABASE_EXISTS)?;
        }
        for table in tables {
            let database = identifier(&shared.names.databases[table as usize]);
            let what = &shared.schema.tables[table as usize];
            let names = &shared.names.fields[table as usize];
            let tags = what.tags.iter().map(|tag| format!("{} STRING TAG", identifier(tag)));
            let fields = names
                .iter()
                .zip(&what.fields)
                .map(|(name, field)| format!("{name} {} FIELD", data_type(field.kind).name()));
            let columns: Vec<String> = tags.chain(fields).collect();
            let table = identifier(&what.name);
            let statement = format!("CREATE TABLE IF NOT EXISTS {database}.{table} ({})", columns.join(", "));
            self.with_retries(|session| session.execute(&statement, shared.write_limit, &TABLE_EXISTS))?;
        }
        Ok(())
    }

    /// Selects the database, because tablets of the table dialect name tables in the current
    /// database.
    fn use_database(&mut self) -> Result {
        let (Dialect::Table, Some(table)) = (self.shared.dialect, self.writes.table()) else { return Ok(()) };
        let shared = Arc::clone(&self.shared);
        self.session()?;
        let name = |table: u32| &shared.names.databases[table as usize];
        if self.database.is_none_or(|current| name(current) != name(table)) {
            self.execute(&format!("USE {}", identifier(name(table))), &[])?;
            self.database = Some(table);
        }
        Ok(())
    }
}

impl Connection for IotdbConnection {
    fn version(&mut self) -> Result<String> {
        Ok(self.session()?.properties(CONNECT_TIMEOUT)?.0)
    }

    fn clear(&mut self) -> Result {
        let shared = Arc::clone(&self.shared);
        for table in shared.databases(0..shared.schema.tables.len() as u32) {
            let name = &shared.names.databases[table as usize];
            match shared.dialect {
                Dialect::Tree => self.execute(&format!("DROP DATABASE {name}"), &NOT_FOUND)?,
                Dialect::Table => self.execute(&format!("DROP DATABASE IF EXISTS {}", identifier(name)), &NOT_FOUND)?,
            }
        }
        self.database = None;
        Ok(())
    }

    fn create(&mut self, devices: Range<u32>) -> Result {
        match self.shared.dialect {
            Dialect::Tree => self.create_tree(devices),
            Dialect::Table => self.create_tables(devices),
        }
    }

    fn encode(&mut self, batch: &Batch) -> Result {
        let shared = Arc::clone(&self.shared);
        self.writes.encode(&shared, batch);
        Ok(())
    }

    fn send(&mut self) -> Result {
        self.use_database()?;
        let limit = self.shared.write_limit;
        let id = self.session()?.id();
        let protocol = self.shared.protocol;
        let mut writes = std::mem::take(&mut self.writes);
        let (method, frames) = writes.for_session(protocol, id);
        let outcome = self.session().and_then(|session| session.send(method, frames, limit));
        self.writes = writes;
        outcome
    }

    fn statement(&self, query: &Query) -> Result<String> {
        let dialect = self.shared.dialect;
        let pieces = self.sql().pieces(dialect, query);
        let statements: Vec<String> =
            pieces.iter().map(|piece| self.sql().statement(dialect, piece)).collect::<Result<_>>()?;
        Ok(statements.join(";\n"))
    }

    fn query(&mut self, query: &Query) -> Result {
        let (dialect, limit) = (self.shared.dialect, self.shared.read_limit);
        self.answers.clear();
        for piece in self.sql().pieces(dialect, query) {
            let statement = self.sql().statement(dialect, &piece)?;
            let answer = self.session()?.query(&statement, limit)?;
            self.answers.push((piece, answer));
        }
        Ok(())
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        if self.answers.is_empty() {
            return Err(Error::setup("no query has been answered"));
        }
        answer::merge_pieces(&self.sql(), self.shared.dialect, query, &self.answers)
    }

    fn settle(&mut self) -> Result {
        self.execute("FLUSH", &[])
    }
}

impl Drop for IotdbConnection {
    fn drop(&mut self) {
        if let Some(session) = self.session.take().filter(|session| session.broken().is_none()) {
            // The server also ends the session when the socket closes.
            let _ = session.close(CLOSE_TIMEOUT);
        }
    }
}
