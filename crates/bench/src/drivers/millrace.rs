//! Millrace, over PostgreSQL's wire, line protocol and Arrow Flight SQL.
//!
//! **Tables.** One for each table of the schema, `store = 'columns'`, in the SQL schema `DB_NAME`, which a run drops and
//! makes anew. All tags are the key, so that they are kept once a series.
//!
//! **Writing.** `write=copy`, the default: `COPY … (FORMAT binary)`, one statement a table and request; numbers go over
//! as they are and nothing is parsed from text. `write=line`: `POST /write`, one request a batch; it merges fields of a
//! row, where COPY replaces the row, and so it is the path of sensors that are not aligned, and of nanoseconds, which
//! PostgreSQL's wire has not. `write=flight`: bulk ingest by Arrow Flight SQL, one DoPut a batch; it replaces rows as
//! COPY does, and has nanoseconds. Either way a request is one commit, and questions go over PostgreSQL's wire, which
//! answers in one round trip where Flight needs two.
//!
//! There is no type `date`: dates are an `integer`, days since 2000 by COPY (whose form it is), else since 1970. Line
//! protocol has no bytes and no times as values either: they are `text` and `bigint` there. Flight has both, but times
//! that are values are `bigint` in a run that counts nanoseconds, because PostgreSQL's wire brings them back.
//!
//! Main address: PostgreSQL's wire (7432). Options: `write=copy|line|flight`, `durability=sync|async`
//! (`synchronous_commit`, `no_sync`; Flight has no way to say it), `http=HOST:PORT` (line protocol; the same host's
//! 7480), `flight=HOST:PORT` (the same host's 7470).

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

/// For tables, which wait for commits under way.
const DEFINE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for everything to be flushed and merged.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

const DIALECT: Dialect = Dialect {
    bucket: "time_bucket",
    first_and_last: true,
    latest_by_index: false,
    // The protocol counts columns in 16 bits.
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

/// What all connections share.
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
            return Err(Error::setup(format!("DB_NAME={name}: the run would drop this schema; choose another name")));
        }
        let sparse = !config.is_sensor_ts_alignment;
        let synchronous = target.choice("durability", &["sync", "async"])? == "sync";
        let path = path(&target, sparse, schema.unit, synchronous)?;
        let dates_from = if path == Path::Copy { copy::EPOCH_DAYS } else { 0 };
        let sql = Sql::new(&schema, Layout::whole(&schema), DIALECT, sparse);
        let answers = Answers::new(&schema, dates_from);
        let lines = Encoder::new(&schema, ALL_TYPED);
        let ingest = Ingest::new(&schema);
        let timeouts = timeouts(&config);
        let shared = Shared { target, schema, sql, answers, path, lines, ingest, synchronous, timeouts };
        Ok(Millrace { shared: Arc::new(shared) })
    }
}

/// The way in that was asked for, or, where nobody asked, the one that can carry the data.
fn path(target: &Target, sparse: bool, unit: Unit, synchronous: bool) -> Result<Path> {
    let whole_rows = |path: &str| {
        Error::unsupported(format!("write={path} replaces whole rows: sensors that are not aligned go by write=line"))
    };
    let is_asked = target.options.contains_key("write");
    match target.choice("write", &["copy", "line", "flight"])? {
        "copy" if sparse && is_asked => Err(whole_rows("copy")),
        "copy" if unit == Unit::Nanos && is_asked => {
            Err(Error::unsupported("write=copy has microseconds: nanoseconds go by write=line or write=flight"))
        }
        "copy" if !sparse && unit != Unit::Nanos => Ok(Path::Copy),
        "flight" if sparse => Err(whole_rows("flight")),
        "flight" if !synchronous => Err(Error::unsupported(
            "write=flight is acknowledged when it is on disk: durability=async goes by write=copy or write=line",
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
                "nothing is parsed from text; least server CPU a point of the paths there are",
            ),
            Path::Line => {
                ("line protocol over HTTP, one request a batch", "merges the fields of a row, and has nanoseconds")
            }
            Path::Flight => (
                "Arrow Flight SQL, bulk ingest: one DoPut a batch",
                "columns go over as they are stored: nothing is parsed, and no row is taken apart",
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
            // At `off` a commit is acknowledged before other sessions see it.
            visible_at_once: shared.synchronous,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let shared = Arc::clone(&self.shared);
        let target = &shared.target;
        let address = target.address(client, 7432)?;
        let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
        let beside = |option: &str, port: u16| target.option(option, &format!("{host}:{port}")).to_owned();
        let mut http = Http::new(beside("http", 7480), target.network_of);
        let mut flight = Flight::new(beside("flight", 7470), target.network_of);
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
        // All lines or none: half of a batch cannot be told from a lost one.
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
    /// Where lines go.
    resource: String,
    /// The request: messages of COPY, or lines.
    buffer: Vec<u8>,
    /// The request by Flight.
    messages: Vec<FlightData>,
    scratch: Scratch,
    /// In the request.
    rows: u64,
}

impl Connection for MillraceConnection {
    fn version(&mut self) -> Result<String> {
        self.pg.simple("SELECT version()", self.shared.timeouts.1)?;
        let row = self.pg.rows(0).next();
        let text = row.map(|mut row| row.column()).transpose()?.flatten();
        let text = text.map_or("unknown".into(), String::from_utf8_lossy);
        // `PostgreSQL 15.0 (Millrace 1.2.3 …)`: clients look for the former, we for the latter.
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
        Err(Error::protocol(format!("{} rows were sent, the server says it wrote {written}", self.rows)))
    }

    fn statement(&self, query: &Query) -> Result<String> {
        self.shared.sql.statement(query)
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        self.shared.sql.ask(&mut self.pg, query, self.shared.timeouts.1)
    }

    fn points(&mut self, query: &Query) -> Result<u64> {
        self.shared.answers.points(&self.pg, query)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        self.shared.answers.answer(&self.pg, query)
    }

    /// Memory is flushed and files are merged by themselves, but not until something makes it necessary.
    fn settle(&mut self) -> Result<()> {
        self.pg.simple("VACUUM FULL", SETTLE_TIMEOUT)
    }
}

impl MillraceConnection {
    /// Runs statements that define something, durably, so that every session sees it when they are done.
    fn define(&mut self, statements: &[String]) -> Result<()> {
        self.pg.simple("SET synchronous_commit = on", DEFINE_TIMEOUT)?;
        statements.iter().try_for_each(|sql| self.define_one(sql))?;
        if self.shared.synchronous { Ok(()) } else { self.pg.simple("SET synchronous_commit = off", DEFINE_TIMEOUT) }
    }

    /// Others may do the same at the same time: while the first one's commit is on its way to the disk, the others are
    /// told of a conflict, or that it is there, in spite of IF NOT EXISTS.
    fn define_one(&mut self, sql: &str) -> Result<()> {
        let deadline = Instant::now() + DEFINE_TIMEOUT;
        loop {
            let outcome = self.pg.simple(sql, DEFINE_TIMEOUT);
            let again = [b"40001", b"42P06", b"42P07"].contains(&self.pg.sqlstate());
            if outcome.is_ok() || !again || Instant::now() > deadline {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    /// Appends COPY's messages with the rows of a batch.
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
            // PostgreSQL's wire has microseconds, and answers come by it.
            (Kind::Timestamp, Path::Flight) if self.schema.unit == Unit::Nanos => "bigint",
            (Kind::Timestamp, Path::Copy | Path::Flight) => "timestamptz",
        }
    }
}

#[cfg(test)]
mod tests;
