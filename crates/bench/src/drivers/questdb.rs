//! QuestDB 9.
//!
//! **Tables.** One WAL table per table of the schema, named `DB_NAME_TABLE`, with a row for each
//! device and time. Tags are `SYMBOL`s with capacity for all devices. Not one table per device:
//! each table has its own log, writer and memory for each column ("Optimize disk and memory usage
//! with many tables"), and queries over several devices would need a UNION. Partitions depend on
//! the rows per day, as "Schema design" advises: MONTH below 100,000, DAY up to 10 million, HOUR
//! above (`partition=…` overrides it). No index on the device (`index=on` creates one). `DEDUP
//! UPSERT KEYS(time, device)` only if the configuration rewrites rows, because it has a cost each
//! time the log is applied.
//!
//! **Writing.** `write=line`, the default: line protocol over HTTP, which the manual prefers
//! ("Ingestion"). It is acknowledged and atomic; version 2 has binary floats. (Its columnar
//! protocol needs version 10.) `write=tcp` is line protocol over port 9009: not acknowledged,
//! errors are only in the server's log. Rows can be read after the log has been applied, not at
//! once.
//!
//! **Queries.** Over PostgreSQL's protocol with parameters, so that a plan is compiled once per
//! text: with literals, the same range of rows took 2.5 ms instead of 0.3. Buckets are
//! `timestamp_floor(width, time, origin)`, which has the plan of `SAMPLE BY` without its sort (and
//! `SAMPLE BY … FROM` does not support keys).
//!
//! **Sensors that are not aligned** are rows with one field each, because a row is not merged with
//! an existing one. Queries for rows merge them by `last_not_null`. BOOLEAN has no null, so that a
//! missing value would look like false.
//!
//! Dates are `INT` (days since 1970), time fields `LONG` (the run's unit), and bytes `VARCHAR`:
//! QuestDB has no date type, and line protocol no bytes.
//!
//! Main address: PostgreSQL's protocol (8812). Options: `write=line|tcp`, `http=HOST:PORT`
//! (default: port 9000 of the same host), `ilp=HOST:PORT` (9009),
//! `partition=auto|hour|day|week|month|year`, `index=off|on`, `commit=nosync|sync` (must equal the
//! server's `cairo.commit.mode`).

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::http::Http;
use super::line::{ALL_TYPED, Encoder, Style};
use super::pgwire::{Login, Pg};
use super::sql::{Answers, Parameter, Statement, any_not_null, identifier, micros, order, quoted, where_all};
use super::{About, Connection, Driver, Entry, Opening, Proof, Target, socket, timeouts};
use crate::config::OutOfOrderMode;
use crate::error::{Class, Error, Result};
use crate::query::{Aggregate, Query, Rows, Shape};
use crate::schema::{Batch, Field, Kind, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "questdb",
    summary: "QuestDB: write=line|tcp, index=off|on, partition=auto|…, http=, ilp=HOST:PORT",
    proof: Proof::Product("QuestDB 9.3.4"),
    open: |opening| Ok(Box::new(QuestDb::open(opening)?)),
};

/// Time-out of DDL and of queries on the log's state.
const DEFINE_TIMEOUT: Duration = Duration::from_secs(120);

/// Earliest origin of buckets: 1653 in microseconds, far before that in milliseconds.
const EARLIEST: i64 = -10_000_000_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Line,
    Tcp,
}

/// State shared by all connections.
struct Shared {
    target: Target,
    /// The schema with the product's table names.
    schema: Arc<Schema>,
    answers: Answers,
    lines: Encoder,
    path: Path,
    /// Whether a second write of a row replaces it.
    dedup: bool,
    /// Whether each row has only one field.
    sparse: bool,
    index: bool,
    /// Partition unit of each table.
    partitions: Vec<&'static str>,
    /// The server's `cairo.commit.mode`, as declared by the target.
    commit: &'static str,
    timeouts: (Duration, Duration),
}

struct QuestDb {
    shared: Arc<Shared>,
}

impl QuestDb {
    fn open(opening: Opening) -> Result<QuestDb> {
        let Opening { target, schema, config } = opening;
        target.only(&["write", "http", "ilp", "partition", "index", "commit"])?;
        if schema.unit == Unit::Nanos {
            return Err(Error::unsupported(
                "queries to QuestDB have microseconds: expected TIMESTAMP_PRECISION ms or us",
            ));
        }
        let sparse = !config.is_sensor_ts_alignment;
        let rewrites = config.is_out_of_order && config.out_of_order_mode == OutOfOrderMode::Poisson;
        if sparse && rewrites {
            return Err(Error::unsupported(
                "QuestDB replaces whole rows only: POISSON with sensors that are not aligned would keep both versions",
            ));
        }
        let booleans = || schema.tables.iter().flat_map(|table| &table.fields).any(|field| field.kind == Kind::Bool);
        if sparse && booleans() {
            return Err(Error::unsupported("QuestDB's BOOLEAN has no null, which sensors that are not aligned need"));
        }
        let path = if target.choice("write", &["line", "tcp"])? == "line" { Path::Line } else { Path::Tcp };
        let index = target.choice("index", &["off", "on"])? == "on";
        let commit = target.choice("commit", &["nosync", "sync"])?;
        let partition = target.choice("partition", &["auto", "hour", "day", "week", "month", "year"])?;
        let table = |table: usize| {
            if partition == "auto" { partition_for(&schema, table, config.point_step) } else { partition }
        };
        let partitions = (0..schema.tables.len()).map(table).collect();
        let mut named = Schema::clone(&schema);
        for table in &mut named.tables {
            table.name = format!("{}_{}", named.database, table.name);
        }
        let schema = Arc::new(named);
        let nanos = schema.unit.nanos();
        let time_factor = if path == Path::Tcp { nanos } else { 1 };
        let lines = Encoder::new(&schema, Style { binary_floats: true, time_factor, ..ALL_TYPED });
        let (answers, timeouts) = (Answers::new(&schema, 0), timeouts(&config));
        let dedup = rewrites;
        let shared =
            Shared { target, schema, answers, lines, path, dedup, sparse, index, partitions, commit, timeouts };
        Ok(QuestDb { shared: Arc::new(shared) })
    }
}

/// Partition unit by rows per day. Source: QuestDB's manual, "Schema design".
fn partition_for(schema: &Schema, table: usize, point_step: i64) -> &'static str {
    let devices = schema.devices.iter().filter(|device| device.table as usize == table).count() as i128;
    let day = 86_400 * i128::from(schema.unit.per_second());
    match devices * day / i128::from(point_step.max(1)) {
        ..100_000 => "month",
        100_000..10_000_000 => "day",
        _ => "hour",
    }
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "BOOLEAN",
        Kind::Int32 | Kind::Date => "INT",
        Kind::Int64 | Kind::Timestamp => "LONG",
        Kind::Float { .. } => "FLOAT",
        Kind::Double { .. } => "DOUBLE",
        Kind::Text { .. } | Kind::String { .. } | Kind::Blob { .. } => "VARCHAR",
    }
}

impl Driver for QuestDb {
    fn about(&self) -> About {
        let shared = &self.shared;
        let (write_path, why) = match shared.path {
            Path::Line => (
                "line protocol over HTTP, version 2 (binary floats), one request a batch",
                "QuestDB's manual: line protocol over HTTP is the preferred way of ingesting data",
            ),
            Path::Tcp => (
                "line protocol over TCP, version 2 (binary floats), not acknowledged",
                "no answer to wait for; QuestDB's manual recommends it for legacy workloads only",
            ),
        };
        let durability = match (shared.path, shared.commit) {
            (Path::Tcp, _) => "not acknowledged: sent".to_owned(),
            (_, "sync") => "after fsync of the log (cairo.commit.mode = sync)".to_owned(),
            _ => "in the operating system's cache (cairo.commit.mode = nosync)".to_owned(),
        };
        About {
            product: "QuestDB",
            write_path: write_path.to_owned(),
            why,
            durability,
            durable: shared.path == Path::Line && shared.commit == "sync",
            visible_at_once: false,
            replaces: shared.dedup,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let shared = Arc::clone(&self.shared);
        let target = &shared.target;
        let address = target.address(client, 8812)?;
        let same_host = |port: u16| format!("{}:{port}", address.rsplit_once(':').map_or(&*address, |(host, _)| host));
        let mut http = Http::new(target.option("http", &same_host(9000)).to_owned(), target.network_of);
        let ilp = target.option("ilp", &same_host(9009)).to_owned();
        if shared.path == Path::Line {
            http.open()?;
        }
        let mut pg = Pg::new(Login {
            network_of: target.network_of,
            user: target.user.clone().unwrap_or_else(|| "admin".to_owned()),
            password: Some(target.password.clone().unwrap_or_else(|| "quest".to_owned())),
            database: target.database.clone().unwrap_or_else(|| "qdb".to_owned()),
            parameters: Vec::new(),
            address,
        });
        pg.open()?;
        let resource = format!("/write?precision={}", shared.lines.precision());
        Ok(Box::new(QuestDbConnection { shared, pg, http, ilp, stream: None, resource, buffer: Vec::new() }))
    }
}

struct QuestDbConnection {
    shared: Arc<Shared>,
    pg: Pg,
    http: Http,
    /// Address of `stream`.
    ilp: String,
    stream: Option<TcpStream>,
    /// Path and query of the HTTP endpoint for lines.
    resource: String,
    buffer: Vec<u8>,
}

impl Connection for QuestDbConnection {
    fn version(&mut self) -> Result<String> {
        // The answer is `Build Information: QuestDB 9.3.4, JDK …`.
        let text = self.query_one("SELECT build()")?.unwrap_or_default();
        let version = text.split_once("QuestDB ").map_or(text.as_str(), |(_, rest)| rest);
        Ok(version.split(',').next().unwrap_or(version).to_owned())
    }

    fn clear(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let sql = |table: &crate::schema::Table| format!("DROP TABLE IF EXISTS {}", identifier(&table.name));
        shared.schema.tables.iter().try_for_each(|table| self.pg.simple(&sql(table), DEFINE_TIMEOUT))
    }

    fn create(&mut self, devices: Range<u32>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        if devices.start == 0 {
            self.check_commit_mode()?;
        }
        let mut tables: Vec<u32> = devices.map(|device| shared.schema.devices[device as usize].table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables.iter().try_for_each(|table| self.pg.simple(&shared.definition(*table as usize), DEFINE_TIMEOUT))
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.shared.lines.encode(batch, &mut self.buffer);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let timeout = self.shared.timeouts.0;
        match self.shared.path {
            Path::Line => self.http.post(&self.resource, "text/plain", &self.buffer, timeout),
            Path::Tcp => self.send_unacknowledged(timeout),
        }
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Ok(self.shared.text(query, true)?.sql)
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        self.shared.text(query, false)?.run(&mut self.pg, self.shared.timeouts.1)
    }

    fn points(&mut self, query: &Query) -> Result<u64> {
        self.shared.answers.points(&self.pg, query)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        self.shared.answers.answer(&self.pg, query)
    }

    /// Whether the logs of tables have rows that were not applied yet. An error if a table is
    /// suspended: it stays behind until it is resumed.
    fn is_behind(&mut self) -> Result<bool> {
        let names: Vec<String> = self.shared.schema.tables.iter().map(|table| quoted(&table.name)).collect();
        let from_own_tables = format!("FROM wal_tables() WHERE name IN ({})", names.join(", "));
        let suspended =
            format!("SELECT concat(name, ': ', errorTag, ': ', errorMessage) {from_own_tables} AND suspended LIMIT 1");
        if let Some(why) = self.query_one(&suspended)? {
            return Err(Error::new(Class::Server, format!("the log of a table is no longer applied: {why}")));
        }
        let behind = format!("SELECT count() {from_own_tables} AND writerTxn <> sequencerTxn");
        Ok(self.query_one(&behind)?.as_deref() != Some("0"))
    }

    /// Merges the partitions that late rows have split.
    fn settle(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let squash =
            |table: &crate::schema::Table| format!("ALTER TABLE {} SQUASH PARTITIONS", identifier(&table.name));
        shared.schema.tables.iter().try_for_each(|table| self.pg.simple(&squash(table), DEFINE_TIMEOUT))
    }
}

impl QuestDbConnection {
    /// Checks the declared durability. QuestDB 9.3 sometimes answers the repeated query with a
    /// ClassCastException, hence the retries.
    fn check_commit_mode(&mut self) -> Result<()> {
        let sql = "SELECT value FROM (SHOW PARAMETERS) WHERE property_path = 'cairo.commit.mode'";
        let failed = |answer: &Result<Option<String>>| matches!(answer, Err(error) if error.class == Class::Server);
        let answer = (0..20).map(|_| self.query_one(sql)).find(|answer| !failed(answer));
        let (seen, declared) = (answer.transpose()?.flatten().unwrap_or_default(), self.shared.commit);
        if seen == declared {
            return Ok(());
        }
        Err(Error::setup(format!("the server's cairo.commit.mode is {seen:?}, the target says commit={declared}")))
    }

    /// First column of the first row, as text.
    fn query_one(&mut self, sql: &str) -> Result<Option<String>> {
        self.pg.simple(sql, DEFINE_TIMEOUT)?;
        let value = self.pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        Ok(value.map(|value| String::from_utf8_lossy(value).into_owned()))
    }

    fn send_unacknowledged(&mut self, timeout: Duration) -> Result<()> {
        let broken = |error: &std::io::Error| Error::socket("line protocol over TCP", error);
        if self.stream.is_none() {
            let stream = socket::connect(&self.ilp, self.shared.target.network_of, Duration::from_secs(10))?;
            stream.set_write_timeout(Some(timeout)).map_err(|error| broken(&error))?;
            self.stream = Some(stream);
        }
        let outcome = self.stream.as_mut().map_or(Ok(()), |stream| stream.write_all(&self.buffer));
        outcome.map_err(|error| {
            self.stream = None;
            broken(&error)
        })
    }
}

impl Shared {
    fn definition(&self, table: usize) -> String {
        let definition = &self.schema.tables[table];
        let devices = self.schema.devices.iter().filter(|device| device.table as usize == table).count();
        // The capacity is the number of distinct values; beyond it the table still works, but
        // slower.
        let capacity = devices.next_power_of_two().max(128);
        let mut sql = format!("CREATE TABLE IF NOT EXISTS {} (", identifier(&definition.name));
        for (index, tag) in definition.tags.iter().enumerate() {
            let indexed = if index == 0 && self.index { " INDEX" } else { "" };
            _ = write!(sql, "{} SYMBOL CAPACITY {capacity} CACHE{indexed}, ", identifier(tag));
        }
        sql.push_str("time TIMESTAMP");
        for field in &definition.fields {
            _ = write!(sql, ", {} {}", identifier(&field.name), type_name(field.kind));
        }
        _ = write!(sql, ") TIMESTAMP(time) PARTITION BY {} WAL", self.partitions[table].to_uppercase());
        if self.dedup {
            _ = write!(sql, " DEDUP UPSERT KEYS(time, {})", identifier(&definition.tags[0]));
        }
        sql
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Statements

    fn text<'q>(&self, query: &'q Query, literal: bool) -> Result<Statement<'q>> {
        let mut text = Statement::new(&self.schema, literal);
        let device = identifier(&self.schema.tables[query.table as usize].tags[0]);
        let devices = query.devices.as_deref();
        let names = self.names(query);
        match &query.shape {
            Shape::Rows if query.set.is_some() => self.set(query, &names, &mut text)?,
            Shape::Rows => {
                let source = self.source(query, devices, &mut text)?;
                _ = write!(text.sql, "SELECT {device}, time, {names}{source}");
                order(query, "time", &mut text);
            }
            Shape::Latest => {
                let source = self.source(query, devices, &mut text)?;
                _ = write!(text.sql, "SELECT {device}, time, {names}{source} LATEST ON time PARTITION BY {device}");
            }
            Shape::Aggregate { aggregate, by_device } => {
                let source = self.source(query, devices, &mut text)?;
                let key = if *by_device { format!("{device}, ") } else { String::new() };
                _ = write!(text.sql, "SELECT {key}{}{source}", self.aggregated(query, *aggregate));
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let source = self.source(query, devices, &mut text)?;
                let key = if *by_device { format!("{device}, ") } else { String::new() };
                let bucket = self.bucket(query, *width, *origin)?;
                _ = write!(text.sql, "SELECT {key}{bucket} AS bucket, {}{source}", self.aggregated(query, *aggregate));
                order(query, "bucket", &mut text);
            }
        }
        if let Some(limit) = query.limit {
            _ = write!(text.sql, " LIMIT {limit}");
        }
        Ok(text)
    }

    fn set<'q>(&self, query: &'q Query, names: &str, text: &mut Statement<'q>) -> Result<()> {
        let Some(set) = &query.set else { return Ok(()) };
        let others = set.others.iter().map(|other| Some(&other[..]));
        for (index, devices) in std::iter::once(query.devices.as_deref()).chain(others).enumerate() {
            if index > 0 {
                _ = write!(text.sql, " {}{} ", set.operator.name(), if set.all { " ALL" } else { "" });
            }
            let source = self.source(query, devices, text)?;
            _ = write!(text.sql, "(SELECT time, {names}{source})");
        }
        order(query, "time", text);
        Ok(())
    }

    fn field(&self, query: &Query, field: u32) -> &Field {
        &self.schema.tables[query.table as usize].fields[field as usize]
    }

    fn names(&self, query: &Query) -> String {
        let names: Vec<String> = query.fields.iter().map(|field| identifier(&self.field(query, *field).name)).collect();
        names.join(", ")
    }

    fn aggregated(&self, query: &Query, aggregate: Aggregate) -> String {
        let column = |field: &u32| {
            let Field { name, kind } = self.field(query, *field);
            let name = identifier(name);
            match aggregate {
                // BOOLEAN is never null, and `count` does not support it.
                Aggregate::Count if *kind == Kind::Bool => "count()".to_owned(),
                // `sum` of 32-bit floats is a 32-bit float.
                Aggregate::Sum if matches!(kind, Kind::Float { .. }) => format!("sum({name}::double)"),
                Aggregate::First | Aggregate::Last if self.sparse => format!("{}_not_null({name})", aggregate.name()),
                _ => format!("{}({name})", aggregate.name()),
            }
        };
        query.fields.iter().map(column).collect::<Vec<_>>().join(", ")
    }

    /// Times before the origin would all be in its bucket: moves the origin back to a bucket before
    /// all times.
    fn bucket(&self, query: &Query, width: i64, origin: i64) -> Result<String> {
        let start = query.window.as_ref().map_or(0, |window| window.start).clamp(EARLIEST, 0);
        let origin = start - (start - origin % width).rem_euclid(width);
        let micros = i128::from(width) * i128::from(self.schema.unit.nanos() / 1_000);
        let width = match micros {
            _ if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
            _ if micros % 1_000 == 0 => format!("{}T", micros / 1_000),
            _ => format!("{micros}U"),
        };
        Ok(format!("timestamp_floor('{width}', time, {})", self.time_literal(origin)))
    }

    /// ` FROM … WHERE …` for the rows of `devices`; `None`: of all.
    fn source<'q>(&self, query: &'q Query, devices: Option<&'q [u32]>, text: &mut Statement<'q>) -> Result<String> {
        let table = &self.schema.tables[query.table as usize];
        let (device, name) = (identifier(&table.tags[0]), identifier(&table.name));
        let mut conditions = Vec::new();
        if let Some(devices) = devices {
            let list: Vec<String> = devices.iter().map(|device| text.parameter(Parameter::Device(*device))).collect();
            conditions.push(match &list[..] {
                [one] => format!("{device} = {one}"),
                _ => format!("{device} IN ({})", list.join(", ")),
            });
        }
        self.window(query, text, &mut conditions)?;
        let mut filters = Vec::new();
        for filter in &query.filters {
            let field = self.field(query, filter.field);
            let bound = text.parameter(Parameter::Number(filter.above));
            // A literal would be compared as a 32-bit float; a parameter is not.
            let wide = if text.literal && matches!(field.kind, Kind::Float { .. }) { "::double" } else { "" };
            filters.push(format!("{} > {bound}{wide}", identifier(&field.name)));
        }
        let whole_rows = matches!(query.shape, Shape::Rows | Shape::Latest) || !query.filters.is_empty();
        if !self.sparse || !whole_rows {
            conditions.append(&mut filters);
            return Ok(format!(" FROM {name}{}", where_all(&conditions)));
        }
        let mut fields: Vec<u32> = query.fields.iter().copied().chain(query.filters.iter().map(|f| f.field)).collect();
        fields.sort_unstable();
        fields.dedup();
        if query.shape == Shape::Latest {
            filters.push(any_not_null(&self.names(query)));
        }
        let merged = fields.iter().map(|field| identifier(&self.field(query, *field).name));
        let merged: Vec<String> = merged.map(|name| format!("last_not_null({name}) AS {name}")).collect();
        let (merged, inner) = (merged.join(", "), where_all(&conditions));
        let rows = format!("(SELECT {device}, time, {merged} FROM {name}{inner} ORDER BY time) TIMESTAMP(time)");
        Ok(format!(" FROM ({rows}){}", where_all(&filters)))
    }

    fn window(&self, query: &Query, text: &mut Statement, conditions: &mut Vec<String>) -> Result<()> {
        let Some(window) = &query.window else { return Ok(()) };
        let mut compare = |operator: &str, time: i64| -> Result<()> {
            let time = if text.literal {
                self.time_literal(time)
            } else {
                text.parameter(Parameter::Time(micros(&self.schema, time)?))
            };
            conditions.push(format!("time {operator} {time}"));
            Ok(())
        };
        if window.start != i64::MIN && window.start.checked_add(1) == Some(window.end) {
            return compare("=", window.start);
        }
        if window.start != i64::MIN {
            compare(">=", window.start)?;
        }
        if window.end != i64::MAX {
            compare("<", window.end)?;
        }
        Ok(())
    }

    fn time_literal(&self, time: i64) -> String {
        let nanos = i128::from(time) * i128::from(self.schema.unit.nanos());
        let limit = if time < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        let time = jiff::Timestamp::from_nanosecond(nanos).unwrap_or(limit);
        quoted(&format!("{}", time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")))
    }
}

#[cfg(test)]
mod tests;
