//! PostgreSQL, and TimescaleDB on top of it.
//!
//! **Tables.** One per table of the schema: `time timestamptz`, the tags and the fields, `PRIMARY
//! KEY (device, time)`. This one index serves every query (a device's range, its newest row) and
//! defines duplicates. The device is first, because all queries except those over all devices
//! select by device. Texts have `COLLATE "C"`, the cheapest comparison. Tables are logged. Tables
//! with more than 800 fields, or with rows near the page size, are split into `NAME_p0`, `NAME_p1`
//! … with the same key: a table has at most 1,600 columns, and a row at most one page of 8 KiB. All
//! tables are in the SQL schema `DB_NAME`, which a run drops and creates.
//!
//! **Writing.** `write=copy`, the default: `COPY … (FORMAT binary)`, one statement per table and
//! request, which the manual calls the fastest way to load rows ("Populating a Database"). If the
//! configuration rewrites rows (POISSON) or writes field by field (sensors not aligned), COPY would
//! violate the key. In these cases, and with `write=insert`, a request is one prepared `INSERT …
//! SELECT FROM unnest(array of each column) ON CONFLICT DO UPDATE`, which both products recommend
//! over lists of VALUES.
//!
//! **TimescaleDB.** The same with `create_hypertable` (chunks of 7 days, the default), no second
//! index, and compression by device (`compress=off` disables it): `settle` compresses all chunks,
//! as a policy would do later.
//!
//! Options: `write=copy|insert`, `durability=sync|async` (`synchronous_commit`), `compress=on|off` (TimescaleDB).

use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::pgwire::{Format, Login, Pg, oid, push_array, push_copy, push_query};
use super::sql::{Answers, Dialect, Layout, Sql, identifier, quoted};
use super::{About, Connection, Driver, Entry, Opening, Proof, Target, copy, timeouts};
use crate::config::OutOfOrderMode;
use crate::error::{Error, Result};
use crate::query::{Query, Rows};
use crate::schema::{Batch, Kind, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "postgres",
    summary: "PostgreSQL: write=copy|insert, durability=sync|async",
    proof: Proof::Product("PostgreSQL 15.18"),
    open: |opening| Ok(Box::new(Postgres::open(opening, false)?)),
};

pub(crate) const TIMESCALEDB: Entry = Entry {
    name: "timescaledb",
    summary: "TimescaleDB: as postgres, on hypertables; compress=on|off",
    proof: Proof::Peer("PostgreSQL 15.18 and imitations of the extension's functions"),
    open: |opening| Ok(Box::new(Postgres::open(opening, true)?)),
};

/// Most fields per table: half of PostgreSQL's limit. As doubles they fill most of a page.
const FIELDS_MAX: u32 = 800;
/// Most bytes of fields per row: a page minus its header, the row header, the key and the null
/// bitmap.
const ROW_BYTES_MAX: usize = 7_400;
/// Lock of connections that create or drop tables.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7432001)";
/// Time-out of vacuuming and compressing everything.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);

const DIALECT: Dialect = Dialect {
    bucket: "date_bin",
    first_and_last: false,
    latest_by_index: true,
    // Limit: "target lists can have at most 1664 entries", including device and time.
    fields_max: 1_660,
    narrow_sums: true,
    nanoseconds: None,
};

const DIALECT_TIMESCALEDB: Dialect = Dialect { bucket: "time_bucket", first_and_last: true, ..DIALECT };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Copy,
    Insert,
}

/// State shared by all connections.
struct Shared {
    target: Target,
    schema: Arc<Schema>,
    layout: Layout,
    sql: Sql,
    answers: Answers,
    path: Path,
    /// Whether the configuration rewrites rows or writes field by field.
    replaces: bool,
    hypertables: bool,
    compress: bool,
    /// Value of `synchronous_commit`.
    commit: &'static str,
    timeouts: (Duration, Duration),
}

struct Postgres {
    shared: Arc<Shared>,
}

impl Postgres {
    fn open(opening: Opening, hypertables: bool) -> Result<Postgres> {
        let Opening { target, schema, config } = opening;
        target.only(if hypertables { &["write", "durability", "compress"] } else { &["write", "durability"] })?;
        if schema.unit == Unit::Nanos {
            return Err(Error::unsupported(
                "PostgreSQL's times have microseconds: expected TIMESTAMP_PRECISION ms or us",
            ));
        }
        if ["public", "pg_catalog", "information_schema"].contains(&schema.database.as_str()) {
            let name = &schema.database;
            return Err(Error::setup(format!(
                "DB_NAME={name}: the run would drop this schema; choose a different name"
            )));
        }
        let sparse = !config.is_sensor_ts_alignment;
        let rewrites = config.is_out_of_order && config.out_of_order_mode == OutOfOrderMode::Poisson;
        let replaces = sparse || rewrites;
        let path = match target.choice("write", &["copy", "insert"])? {
            "copy" if !replaces => Path::Copy,
            _ => Path::Insert,
        };
        let commit = if target.choice("durability", &["sync", "async"])? == "sync" { "on" } else { "off" };
        let compress = target.choice("compress", &["on", "off"])? == "on";
        let layout = Layout::split(&schema, FIELDS_MAX, ROW_BYTES_MAX, stored_bytes);
        let dialect = if hypertables { DIALECT_TIMESCALEDB } else { DIALECT };
        let sql = Sql::new(&schema, layout.clone(), dialect, sparse);
        let answers = Answers::new(&schema, 0);
        let timeouts = timeouts(&config);
        let shared =
            Shared { target, schema, layout, sql, answers, path, replaces, hypertables, compress, commit, timeouts };
        Ok(Postgres { shared: Arc::new(shared) })
    }
}

/// Estimated bytes of a value in a row; long texts are moved out of line, leaving a pointer.
fn stored_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Bool => 1,
        Kind::Int32 | Kind::Float { .. } | Kind::Date => 4,
        Kind::Int64 | Kind::Double { .. } | Kind::Timestamp => 8,
        Kind::Text { length } | Kind::String { length } | Kind::Blob { length } => usize::from(length + 1).min(18),
    }
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "boolean",
        Kind::Int32 => "integer",
        Kind::Int64 => "bigint",
        Kind::Float { .. } => "real",
        Kind::Double { .. } => "double precision",
        Kind::Text { .. } | Kind::String { .. } => "text",
        Kind::Blob { .. } => "bytea",
        Kind::Timestamp => "timestamptz",
        Kind::Date => "date",
    }
}

impl Driver for Postgres {
    fn about(&self) -> About {
        let shared = &self.shared;
        let (path, why) = match shared.path {
            Path::Copy => (
                "COPY BINARY, one statement a request",
                "PostgreSQL's manual, \"Populating a Database\": COPY is the fastest way to load rows",
            ),
            Path::Insert => (
                "prepared INSERT from an array of each column, ON CONFLICT DO UPDATE where rows come again",
                "COPY cannot replace rows; arrays are parsed once, whatever the number of rows",
            ),
        };
        About {
            product: if shared.hypertables { "TimescaleDB" } else { "PostgreSQL" },
            write_path: path.to_owned(),
            why,
            durability: match shared.commit {
                "on" => "after fsync of the log (synchronous_commit = on)".to_owned(),
                _ => "before fsync, at most 0.6 s behind (synchronous_commit = off)".to_owned(),
            },
            durable: shared.commit == "on",
            visible_at_once: true,
            replaces: shared.replaces,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let shared = &self.shared;
        let target = &shared.target;
        let login = Login {
            address: target.address(client, 5432)?,
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| "postgres".to_owned()),
            password: target.password.clone(),
            database: target.database.clone().unwrap_or_else(|| "postgres".to_owned()),
            parameters: [
                ("application_name", "millrace bench".to_owned()),
                ("search_path", format!("{}, public", identifier(&shared.schema.database))),
                ("TimeZone", "UTC".to_owned()),
                ("synchronous_commit", shared.commit.to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .to_vec(),
        };
        let mut pg = Pg::new(login);
        pg.open()?;
        Ok(Box::new(PostgresConnection { shared: Arc::clone(shared), pg, request: Request::default() }))
    }
}

/// The encoded request.
#[derive(Default)]
struct Request {
    /// COPY: complete messages. INSERT: the parameters of all statements, one after the other.
    bytes: Vec<u8>,
    /// COPY: number of simple queries in `bytes`.
    queries: usize,
    /// INSERT: text, number of parameters, and their end in `bytes`.
    statements: Vec<(String, u16, usize)>,
    /// Expected row counts, by the number of the statement's result.
    rows: Vec<(usize, u64)>,
    /// Rows to write, as part and row: all, or the last of each device and time.
    selected: Vec<(usize, usize)>,
}

struct PostgresConnection {
    shared: Arc<Shared>,
    pg: Pg,
    request: Request,
}

impl Connection for PostgresConnection {
    fn version(&mut self) -> Result<String> {
        self.pg.open()?;
        let version = self.pg.setting("server_version").unwrap_or("unknown").to_owned();
        if !self.shared.hypertables {
            return Ok(version);
        }
        self.simple("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'")?;
        let row = self.pg.rows(0).next();
        let extension = row.map(|mut row| row.column()).transpose()?.flatten();
        let extension = extension.map_or("unknown".into(), String::from_utf8_lossy);
        Ok(format!("{extension} on PostgreSQL {version}"))
    }

    fn clear(&mut self) -> Result<()> {
        let schema = identifier(&self.shared.schema.database);
        self.simple(&format!("BEGIN; {LOCK}; DROP SCHEMA IF EXISTS {schema} CASCADE; COMMIT"))
    }

    fn create(&mut self, devices: Range<u32>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        if shared.hypertables {
            self.require_extension()?;
        }
        let mut tables: Vec<u32> = devices.map(|device| shared.schema.devices[device as usize].table).collect();
        tables.sort_unstable();
        tables.dedup();
        let schema = identifier(&shared.schema.database);
        let mut sql = format!("BEGIN; {LOCK}; CREATE SCHEMA IF NOT EXISTS {schema};");
        for table in tables {
            for part in 0..shared.layout.parts(table as usize) {
                shared.define(table as usize, part, &mut sql);
            }
        }
        sql.push_str(" COMMIT");
        self.simple(&sql).map_err(|error| error.during("creating tables"))
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        let request = &mut self.request;
        request.bytes.clear();
        request.statements.clear();
        request.rows.clear();
        match self.shared.path {
            Path::Copy => self.shared.encode_copy(batch, request),
            Path::Insert => self.shared.encode_insert(batch, request),
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let timeout = self.shared.timeouts.0;
        let request = &self.request;
        match self.shared.path {
            Path::Copy => self.pg.send(&request.bytes, request.queries, timeout)?,
            Path::Insert => {
                self.pg.begin()?;
                let mut begin = 0;
                for (text, values, end) in &request.statements {
                    let statement = self.pg.prepare(text, &[]);
                    self.pg.bind(statement, Format::Binary, |out| out.encoded(&request.bytes[begin..*end], *values));
                    begin = *end;
                }
                self.pg.finish(timeout)?;
            }
        }
        for (result, rows) in &request.rows {
            let written = self.pg.affected(*result);
            if written != *rows {
                return Err(Error::protocol(format!("sent {rows} rows, the server reports {written} written rows")));
            }
        }
        Ok(())
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

    fn settle(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        for (table, part) in shared.tables() {
            let name = shared.layout.name(&shared.schema, table, part);
            if shared.hypertables && shared.compress {
                let chunks = format!("show_chunks({}) AS chunk", quoted(&name));
                let sql = format!("SELECT compress_chunk(chunk, if_not_compressed => true) FROM {chunks}");
                self.pg.simple(&sql, SETTLE_TIMEOUT)?;
            }
            self.pg.simple(&format!("VACUUM ANALYZE {name}"), SETTLE_TIMEOUT)?;
        }
        match self.pg.simple("CHECKPOINT", SETTLE_TIMEOUT) {
            // Only superusers may run it; otherwise the next automatic checkpoint has to do.
            Err(_) if self.pg.sqlstate() == b"42501" => Ok(()),
            outcome => outcome,
        }
    }
}

impl PostgresConnection {
    fn simple(&mut self, sql: &str) -> Result<()> {
        let outcome = self.pg.simple(sql, self.shared.timeouts.0.max(Duration::from_secs(60)));
        if outcome.is_err() && sql.starts_with("BEGIN") {
            // The first error is the one to report.
            let _ = self.pg.simple("ROLLBACK", self.shared.timeouts.0);
        }
        outcome
    }

    fn require_extension(&mut self) -> Result<()> {
        self.simple("SELECT to_regproc('create_hypertable') IS NOT NULL")?;
        let present = self.pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        if present == Some(b"t") {
            return Ok(());
        }
        let created = self.simple(&format!("BEGIN; {LOCK}; CREATE EXTENSION IF NOT EXISTS timescaledb; COMMIT"));
        created.map_err(|error| {
            Error::setup(format!("this server has no TimescaleDB ({error}); use postgres://… for PostgreSQL"))
        })
    }
}

impl Shared {
    /// All tables of the product, as table of the schema and part.
    fn tables(&self) -> Vec<(usize, usize)> {
        let tables = 0..self.schema.tables.len();
        tables.flat_map(|table| (0..self.layout.parts(table)).map(move |part| (table, part))).collect()
    }

    fn define(&self, table: usize, part: usize, sql: &mut String) {
        let name = self.layout.name(&self.schema, table, part);
        let definition = &self.schema.tables[table];
        _ = write!(sql, " CREATE TABLE IF NOT EXISTS {name} (time timestamptz NOT NULL");
        for tag in &definition.tags {
            _ = write!(sql, ", {} text COLLATE \"C\" NOT NULL", identifier(tag));
        }
        for field in self.layout.fields(&self.schema, table, part) {
            let field = &definition.fields[field as usize];
            _ = write!(sql, ", {} {}", identifier(&field.name), type_name(field.kind));
        }
        _ = write!(sql, ", PRIMARY KEY ({}, time));", identifier(&definition.tags[0]));
        if !self.hypertables {
            return;
        }
        let literal = quoted(&name);
        _ = write!(
            sql,
            " SELECT create_hypertable({literal}, by_range('time', INTERVAL '7 days'), create_default_indexes => false, \
             if_not_exists => true);"
        );
        if self.compress {
            _ = write!(
                sql,
                " ALTER TABLE {name} SET (timescaledb.compress, timescaledb.compress_segmentby = {}, \
                 timescaledb.compress_orderby = 'time DESC');",
                quoted(&identifier(&definition.tags[0]))
            );
        }
    }

    /// Encodes a COPY per part, in one transaction if there are several.
    fn encode_copy(&self, batch: &Batch, request: &mut Request) {
        let table = batch.table as usize;
        let parts = self.layout.parts(table);
        request.queries = parts;
        if parts > 1 {
            push_query("BEGIN", &mut request.bytes);
            request.queries += 2;
        }
        for part in 0..parts {
            let sql = format!("COPY {} FROM STDIN (FORMAT binary)", self.layout.name(&self.schema, table, part));
            let fields = self.layout.fields(&self.schema, table, part);
            let rows = |out: &mut Vec<u8>| {
                out.extend_from_slice(copy::HEADER);
                copy::rows(&self.schema, batch, fields, out);
                out.extend_from_slice(&copy::TRAILER);
            };
            push_copy(&sql, rows, &mut request.bytes);
            request.rows.push((part + usize::from(parts > 1), batch.rows()));
        }
        if parts > 1 {
            push_query("COMMIT", &mut request.bytes);
        }
    }

    /// Encodes an INSERT per part of which the batch has fields.
    fn encode_insert(&self, batch: &Batch, request: &mut Request) {
        let table = batch.table as usize;
        self.select_rows(batch, &mut request.selected);
        for part in 0..self.layout.parts(table) {
            let all = self.layout.fields(&self.schema, table, part);
            let fields = all.start.max(batch.fields.start)..all.end.min(batch.fields.end);
            if fields.is_empty() {
                continue;
            }
            let values = self.arrays(batch, fields.clone(), request);
            let text = self.insert(table, part, fields);
            request.rows.push((request.statements.len(), request.selected.len() as u64));
            request.statements.push((text, values, request.bytes.len()));
        }
    }

    fn insert(&self, table: usize, part: usize, fields: Range<u32>) -> String {
        let definition = &self.schema.tables[table];
        let mut columns = vec![("time".to_owned(), "timestamptz")];
        columns.extend(definition.tags.iter().map(|tag| (identifier(tag), "text")));
        let fields = fields.map(|field| &definition.fields[field as usize]);
        let first = columns.len();
        columns.extend(fields.map(|field| (identifier(&field.name), type_name(field.kind))));
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let arrays: Vec<String> =
            columns.iter().enumerate().map(|(at, (_, kind))| format!("${}::{kind}[]", at + 1)).collect();
        let name = self.layout.name(&self.schema, table, part);
        let mut sql = format!("INSERT INTO {name} ({}) SELECT * FROM unnest({})", names.join(", "), arrays.join(", "));
        if self.replaces {
            let set: Vec<String> = names[first..].iter().map(|name| format!("{name} = excluded.{name}")).collect();
            _ = write!(
                sql,
                " ON CONFLICT ({}, time) DO UPDATE SET {}",
                identifier(&definition.tags[0]),
                set.join(", ")
            );
        }
        sql
    }

    /// Appends an array for time, each tag and each field; returns their number.
    fn arrays(&self, batch: &Batch, fields: Range<u32>, request: &mut Request) -> u16 {
        let Request { bytes, selected, .. } = request;
        let definition = &self.schema.tables[batch.table as usize];
        push_array(oid::TIMESTAMPTZ, selected.len(), bytes, |out| {
            for (part, row) in selected.iter() {
                out.extend_from_slice(&8u32.to_be_bytes());
                out.extend_from_slice(&copy::micros(&self.schema, batch.parts[*part].times[*row]).to_be_bytes());
            }
        });
        for tag in 0..definition.tags.len() {
            push_array(oid::TEXT, selected.len(), bytes, |out| {
                for (part, _) in selected.iter() {
                    let text = &self.schema.devices[batch.parts[*part].device as usize].tags[tag];
                    out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                    out.extend_from_slice(text.as_bytes());
                }
            });
        }
        for field in fields.clone() {
            let kind = definition.fields[field as usize].kind;
            let column = (field - batch.fields.start) as usize;
            push_array(element(kind), selected.len(), bytes, |out| {
                for (part, row) in selected.iter() {
                    copy::value(&self.schema, kind, &batch.parts[*part], column, *row, out);
                }
            });
        }
        (1 + definition.tags.len() + fields.len()) as u16
    }
}

impl Shared {
    /// Selects all rows, or the last of each device and time: one statement may not update a row
    /// twice.
    fn select_rows(&self, batch: &Batch, selected: &mut Vec<(usize, usize)>) {
        selected.clear();
        let parts = batch.parts.iter().enumerate();
        selected.extend(parts.flat_map(|(index, part)| (0..part.times.len()).map(move |row| (index, row))));
        if !self.replaces {
            return;
        }
        let mut seen = HashSet::with_capacity(selected.len());
        selected.reverse();
        selected.retain(|(part, row)| seen.insert((batch.parts[*part].device, batch.parts[*part].times[*row])));
        selected.reverse();
    }
}

/// Element type of arrays of values that [`copy::value`] appends.
fn element(kind: Kind) -> u32 {
    match kind {
        Kind::Bool => oid::BOOL,
        Kind::Int32 => oid::INT4,
        Kind::Int64 => oid::INT8,
        Kind::Float { .. } => oid::FLOAT4,
        Kind::Double { .. } => oid::FLOAT8,
        Kind::Text { .. } | Kind::String { .. } => oid::TEXT,
        Kind::Blob { .. } => oid::BYTEA,
        Kind::Timestamp => oid::TIMESTAMPTZ,
        Kind::Date => oid::DATE,
    }
}

#[cfg(test)]
mod tests;
