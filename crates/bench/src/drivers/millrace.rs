//! Millrace, by PostgreSQL's protocol, line protocol or Arrow Flight SQL.
//!
//! **Tables.** One columns table (`store = 'columns'`) per table of the schema, in the SQL schema
//! `DB_NAME`, which a run drops and creates. The key is all tags, so that they are stored once per
//! series.
//!
//! **Writing.** `write=copy`, the default: `COPY … (FORMAT binary)`, one statement per table and
//! request; numbers are sent in binary and nothing is parsed from text. `write=line`: `POST
//! /write`, one request per batch. It merges the fields of a row, where COPY replaces the row, and
//! has nanoseconds, which PostgreSQL's protocol does not have: it is the path for sensors that are
//! not aligned and for nanoseconds. `write=flight`: bulk ingestion by Arrow Flight SQL, one DoPut
//! per batch; it replaces rows as COPY does, and has nanoseconds. On each path a request is one
//! commit. Queries use PostgreSQL's protocol, which needs one round trip where Flight needs two.
//!
//! Columns tables have no type `date`: dates are `integer`, by COPY as days since 2000 (its binary
//! format), otherwise as days since 1970. Line protocol has no values of type bytes or time: they
//! are `text` and `bigint`. Flight has both, but time fields are `bigint` in runs with nanoseconds,
//! because answers come by PostgreSQL's protocol.
//!
//! Main address: PostgreSQL's protocol (7432). Options: `write=copy|line|flight`,
//! `durability=sync|async` (`synchronous_commit`, `no_sync`; Flight has no such option),
//! `http=HOST:PORT` (line protocol; default: port 7480 of the same host), `flight=HOST:PORT`
//! (default: port 7470 of the same host).

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_flight::FlightData;

use super::flight::{Flight, Ingest, Scratch};
use super::http::{Http, push_encoded};
use super::line::{ALL_TYPED, Encoder};
use super::pgwire::{Login, Pg, push_copy};
use super::sql::{Answers, Dialect, Layout, Sql, identifier};
use super::{About, Connection, Driver, Entry, Opening, Proof, Target, copy, timeouts};
use crate::error::{Error, Result};
use crate::query::{Query, Rows};
use crate::schema::{Batch, Kind, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "millrace",
    summary: "Millrace: write=copy|line|flight, durability=sync|async, http=, flight=HOST:PORT",
    proof: Proof::Product("Millrace 0.0.0"),
    open: |opening| Ok(Box::new(Millrace::open(opening)?)),
};

/// Time-out of DDL, which waits for running commits.
const DEFINE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for flushing and compacting everything.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

const DIALECT: Dialect = Dialect {
    bucket: "time_bucket",
    first_and_last: true,
    latest_by_index: false,
    // The protocol has 16-bit column counts.
    fields_max: 32_000,
    narrow_sums: false,
    nanoseconds: Some("epoch_ns"),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Copy,
    Line,
    Flight,
}

/// State shared by all connections.
struct Shared {
    target: Target,
    schema: Arc<Schema>,
    sql: Sql,
    answers: Answers,
    path: Path,
    lines: Encoder,
    ingest: Ingest,
    synchronous: bool,
    timeouts: (Duration, Duration),
}

struct Millrace {
    shared: Arc<Shared>,
}

impl Millrace {
    fn open(opening: Opening) -> Result<Millrace> {
        let Opening { target, schema, config } = opening;
        target.only(&["write", "durability", "http", "flight"])?;
        if ["public", "pg_catalog", "information_schema"].contains(&schema.database.as_str()) {
            let name = &schema.database;
            return Err(Error::setup(format!(
                "DB_NAME={name}: the run would drop this schema; choose a different name"
            )));
        }
        let sparse = !config.is_sensor_ts_alignment;
        let synchronous = target.choice("durability", &["sync", "async"])? == "sync";
        let path = path(&target, sparse, schema.unit, synchronous)?;
        let dates_from = if path == Path::Copy { copy::EPOCH_DAYS } else { 0 };
        let sql = Sql::new(&schema, Layout::unsplit(&schema), DIALECT, sparse);
        let answers = Answers::new(&schema, dates_from);
        let lines = Encoder::new(&schema, ALL_TYPED);
        let ingest = Ingest::new(&schema);
        let timeouts = timeouts(&config);
        let shared = Shared { target, schema, sql, answers, path, lines, ingest, synchronous, timeouts };
        Ok(Millrace { shared: Arc::new(shared) })
    }
}

/// The requested write path, or by default one that supports the data.
fn path(target: &Target, sparse: bool, unit: Unit, synchronous: bool) -> Result<Path> {
    let whole_rows = |path: &str| {
        Error::unsupported(format!("write={path} replaces whole rows: use write=line for sensors that are not aligned"))
    };
    let is_requested = target.options.contains_key("write");
    match target.choice("write", &["copy", "line", "flight"])? {
        "copy" if sparse && is_requested => Err(whole_rows("copy")),
        "copy" if unit == Unit::Nanos && is_requested => {
            Err(Error::unsupported("write=copy has microseconds: use write=line or write=flight for nanoseconds"))
        }
        "copy" if !sparse && unit != Unit::Nanos => Ok(Path::Copy),
        "flight" if sparse => Err(whole_rows("flight")),
        "flight" if !synchronous => Err(Error::unsupported(
            "write=flight is acknowledged when it is on disk: use write=copy or write=line for durability=async",
        )),
        "flight" => Ok(Path::Flight),
        _ => Ok(Path::Line),
    }
}

impl Driver for Millrace {
    fn about(&self) -> About {
        let shared = &self.shared;
        let (path, why) = match shared.path {
            Path::Copy => (
                "COPY BINARY, one statement a request",
                "nothing is parsed from text; lowest server CPU per point of all write paths",
            ),
            Path::Line => {
                ("line protocol over HTTP, one request a batch", "merges the fields of a row, and has nanoseconds")
            }
            Path::Flight => (
                "Arrow Flight SQL, bulk ingest: one DoPut a batch",
                "columns are sent in their memory format: no parsing and no conversion of rows",
            ),
        };
        About {
            product: "Millrace",
            write_path: path.to_owned(),
            why,
            durability: match shared.synchronous {
                true => "after fsync of the log (synchronous_commit = on)".to_owned(),
                false => "before fsync (synchronous_commit = off)".to_owned(),
            },
            durable: shared.synchronous,
            // With `off`, a commit is acknowledged before other sessions see it.
            visible_at_once: shared.synchronous,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let shared = Arc::clone(&self.shared);
        let target = &shared.target;
        let address = target.address(client, 7432)?;
        let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
        let same_host = |option: &str, port: u16| target.option(option, &format!("{host}:{port}")).to_owned();
        let mut http = Http::new(same_host("http", 7480), target.network_of);
        let mut flight = Flight::new(same_host("flight", 7470), target.network_of);
        let login = Login {
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| "bench".to_owned()),
            password: target.password.clone(),
            database: target.database.clone().unwrap_or_else(|| "millrace".to_owned()),
            parameters: [
                ("application_name", "millrace bench".to_owned()),
                ("search_path", identifier(&shared.schema.database)),
                ("TimeZone", "UTC".to_owned()),
                ("synchronous_commit", if shared.synchronous { "on" } else { "off" }.to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
            address,
        };
        let mut pg = Pg::new(login);
        pg.open()?;
        match shared.path {
            Path::Copy => {}
            Path::Line => http.open()?,
            Path::Flight => flight.open()?,
        }
        let mut resource = format!("/write?precision={}&db=", shared.lines.precision());
        push_encoded(&shared.schema.database, &mut resource);
        if !shared.synchronous {
            resource.push_str("&no_sync=true");
        }
        // All lines or none: a partly stored batch would look like lost writes.
        resource.push_str("&atomic=true");
        let (buffer, messages) = (Vec::new(), Vec::new());
        let scratch = Scratch::default();
        Ok(Box::new(MillraceConnection { shared, pg, http, flight, resource, buffer, messages, scratch, rows: 0 }))
    }
}

struct MillraceConnection {
    shared: Arc<Shared>,
    pg: Pg,
    http: Http,
    flight: Flight,
    /// Path and query of the HTTP endpoint for lines.
    resource: String,
    /// Encoded request: COPY messages or lines.
    buffer: Vec<u8>,
    /// Encoded request of the Flight path.
    messages: Vec<FlightData>,
    scratch: Scratch,
    /// Number of rows in the request.
    rows: u64,
}

impl Connection for MillraceConnection {
    fn version(&mut self) -> Result<String> {
        self.pg.simple("SELECT version()", self.shared.timeouts.1)?;
        let row = self.pg.rows(0).next();
        let text = row.map(|mut row| row.column()).transpose()?.flatten();
        let text = text.map_or("unknown".into(), String::from_utf8_lossy);
        // The server reports `PostgreSQL 15.0 (Millrace 1.2.3 …)`; the version wanted here is
        // Millrace's.
        Ok(text.split_once("Millrace ").map_or(&*text, |(_, version)| version).trim_end_matches(')').to_owned())
    }

    fn clear(&mut self) -> Result<()> {
        let schema = identifier(&self.shared.schema.database);
        self.define(&[format!("DROP SCHEMA IF EXISTS {schema} CASCADE")])
    }

    fn create(&mut self, devices: Range<u32>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut tables: Vec<u32> = devices.map(|device| shared.schema.devices[device as usize].table).collect();
        tables.sort_unstable();
        tables.dedup();
        let mut statements = vec![format!("CREATE SCHEMA IF NOT EXISTS {}", identifier(&shared.schema.database))];
        statements.extend(tables.iter().map(|table| shared.definition(*table)));
        self.define(&statements)
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        let shared = &self.shared;
        self.buffer.clear();
        self.rows = batch.rows();
        match shared.path {
            Path::Copy => shared.copy(batch, &mut self.buffer),
            Path::Line => shared.lines.encode(batch, &mut self.buffer),
            Path::Flight => shared.ingest.encode(batch, &mut self.scratch, &mut self.messages)?,
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let timeout = self.shared.timeouts.0;
        let written = match self.shared.path {
            Path::Line => return self.http.post(&self.resource, "text/plain", &self.buffer, timeout),
            Path::Copy => {
                self.pg.send(&self.buffer, 1, timeout)?;
                self.pg.affected(0)
            }
            Path::Flight => self.flight.put(&self.messages, timeout)?,
        };
        if written == self.rows {
            return Ok(());
        }
        Err(Error::protocol(format!("sent {} rows, the server reports {written} written rows", self.rows)))
    }

    fn statement(&self, query: &Query) -> Result<String> {
        self.shared.sql.statement(query)
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        self.shared.sql.run(&mut self.pg, query, self.shared.timeouts.1)
    }

    fn points(&mut self, query: &Query) -> Result<u64> {
        self.shared.answers.points(&self.pg, query)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        self.shared.answers.answer(&self.pg, query)
    }

    /// Flushes and compacts everything; the server would only do it when necessary.
    fn settle(&mut self) -> Result<()> {
        self.pg.simple("VACUUM FULL", SETTLE_TIMEOUT)
    }
}

impl MillraceConnection {
    /// Runs DDL durably, so that afterwards every session sees its effect.
    fn define(&mut self, statements: &[String]) -> Result<()> {
        self.pg.simple("SET synchronous_commit = on", DEFINE_TIMEOUT)?;
        statements.iter().try_for_each(|sql| self.define_one(sql))?;
        if self.shared.synchronous { Ok(()) } else { self.pg.simple("SET synchronous_commit = off", DEFINE_TIMEOUT) }
    }

    /// Other connections may run the same DDL concurrently: while the first commit is being
    /// written, the others get a conflict, or an error that the object exists despite IF NOT
    /// EXISTS.
    fn define_one(&mut self, sql: &str) -> Result<()> {
        let deadline = Instant::now() + DEFINE_TIMEOUT;
        loop {
            let outcome = self.pg.simple(sql, DEFINE_TIMEOUT);
            let retry = [b"40001", b"42P06", b"42P07"].contains(&self.pg.sqlstate());
            if outcome.is_ok() || !retry || Instant::now() > deadline {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    /// Appends the COPY messages of a batch.
    fn copy(&self, batch: &Batch, out: &mut Vec<u8>) {
        let name = identifier(&self.schema.tables[batch.table as usize].name);
        let rows = |out: &mut Vec<u8>| {
            out.extend_from_slice(copy::HEADER);
            copy::rows(&self.schema, batch, 0..u32::MAX, out);
            out.extend_from_slice(&copy::TRAILER);
        };
        push_copy(&format!("COPY {name} FROM STDIN (FORMAT binary)"), rows, out);
    }

    fn definition(&self, table: u32) -> String {
        let table = &self.schema.tables[table as usize];
        let mut sql = format!("CREATE TABLE IF NOT EXISTS {} (time timestamptz NOT NULL", identifier(&table.name));
        for tag in &table.tags {
            _ = write!(sql, ", {} text", identifier(tag));
        }
        for field in &table.fields {
            _ = write!(sql, ", {} {}", identifier(&field.name), self.type_name(field.kind));
        }
        let key: Vec<String> = table.tags.iter().map(|tag| identifier(tag)).collect();
        _ = write!(sql, ") WITH (store = 'columns', key = '{}', time = 'time')", key.join(", ").replace('\'', "''"));
        sql
    }

    fn type_name(&self, kind: Kind) -> &'static str {
        match (kind, self.path) {
            (Kind::Bool, _) => "boolean",
            (Kind::Int32 | Kind::Date, _) => "integer",
            (Kind::Int64, _) | (Kind::Timestamp, Path::Line) => "bigint",
            (Kind::Float { .. }, _) => "real",
            (Kind::Double { .. }, _) => "double precision",
            (Kind::Text { .. } | Kind::String { .. }, _) | (Kind::Blob { .. }, Path::Line) => "text",
            (Kind::Blob { .. }, Path::Copy | Path::Flight) => "bytea",
            // PostgreSQL's protocol, by which answers come, has microseconds.
            (Kind::Timestamp, Path::Flight) if self.schema.unit == Unit::Nanos => "bigint",
            (Kind::Timestamp, Path::Copy | Path::Flight) => "timestamptz",
        }
    }
}

#[cfg(test)]
mod tests;
