//! InfluxDB 1.x: line protocol and InfluxQL over HTTP.
//!
//! Targets: `influxdb://[user:password@]host[:8086][/database]`. Measurement = table, tags = tags, fields = fields.
//!
//! Differences from IoT-benchmark: an error in an answer of status 200 counts as a failure; `count`
//! of nothing is 0; rows have their device, so that they can be verified; the end of a window is
//! exclusive, as specified.
//!
//! Sources: InfluxDB 1.6 manual, "InfluxDB API reference" (`/write`, `/query`), "InfluxQL reference", "Line protocol
//! reference", "Optimize writes" of InfluxData's documents.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::cells::{CellKind, Devices, time};
use super::http::{FORM, Http, form};
use super::line::{ALL_TYPED, Encoder};
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Class, Error, Result};
use crate::query::{Aggregate, Filter, Order, Query, Row, Rows, Shape};
use crate::schema::{Batch, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "influxdb",
    summary: "InfluxDB 1.x: line protocol, InfluxQL",
    proof: Proof::Product("InfluxDB 1.6.7"),
    open: |opening| Ok(Box::new(Influx::open(opening)?)),
};

const PORT: u16 = 8086;

struct Influx {
    opening: Opening,
    database: String,
    lines: Arc<Encoder>,
    devices: Arc<Devices>,
}

impl Influx {
    fn open(opening: Opening) -> Result<Influx> {
        opening.target.only(&[])?;
        let database = opening.target.database.clone().unwrap_or_else(|| opening.schema.database.clone());
        let lines = Arc::new(Encoder::new(&opening.schema, ALL_TYPED));
        let devices = Arc::new(Devices::new(&opening.schema));
        Ok(Influx { opening, database, lines, devices })
    }
}

impl Driver for Influx {
    fn about(&self) -> About {
        About {
            product: "InfluxDB 1.x",
            write_path: "line protocol over HTTP, POST /write, one request a batch, keep-alive, not compressed"
                .to_owned(),
            why: "the only acknowledged write path; its documentation recommends batches, the coarsest precision and tags \
                  sorted by key, all of which apply here. Compression would cost the server more than the loopback",
            durability: "after fsync of the write-ahead log (wal-fsync-delay = 0, the default)".to_owned(),
            durable: true,
            visible_at_once: true,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        // InfluxDB 1.x has "n" and "u" for 2.x's "ns" and "us".
        let precision = self.lines.precision().trim_end_matches('s');
        let precision = if precision == "m" { "ms" } else { precision };
        Ok(Box::new(InfluxConnection {
            write_target: format!("/write?{}", form(&[("db", &self.database), ("precision", precision)])),
            query_target: format!(
                "/query?{}",
                form(&[("db", &self.database), ("epoch", precision), ("chunked", "true")])
            ),
            http,
            write_timeout,
            read_timeout,
            schema: Arc::clone(&self.opening.schema),
            database: self.database.clone(),
            lines: Arc::clone(&self.lines),
            devices: Arc::clone(&self.devices),
            buffer: Vec::new(),
        }))
    }
}

struct InfluxConnection {
    http: Http,
    write_target: String,
    query_target: String,
    write_timeout: Duration,
    read_timeout: Duration,
    schema: Arc<Schema>,
    database: String,
    lines: Arc<Encoder>,
    devices: Arc<Devices>,
    buffer: Vec<u8>,
}

impl Connection for InfluxConnection {
    fn version(&mut self) -> Result<String> {
        self.run("SHOW DIAGNOSTICS")?;
        let mut version = None;
        each_series(self.http.body(), &mut |series| {
            let at = series.columns.iter().position(|column| column == "Version");
            if let (true, Some(at), Some(row)) = (series.name == "build", at, series.values.first()) {
                version = row.get(at).and_then(|value| serde_json::from_str(value.get()).ok());
            }
            Ok(())
        })?;
        version.ok_or_else(|| Error::protocol("SHOW DIAGNOSTICS of InfluxDB has no version"))
    }

    fn clear(&mut self) -> Result<()> {
        self.run(&format!("DROP DATABASE {}", name(&self.database)))
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        self.run(&format!("CREATE DATABASE {}", name(&self.database)))
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.lines.encode(batch, &mut self.buffer);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.http.post(&self.write_target, "text/plain; charset=utf-8", &self.buffer, self.write_timeout);
        sent.map_err(|mut error| {
            // A partial write: the other lines were applied, so it is not `Refused`.
            if error.message.contains("partial write") {
                error.class = Class::Server;
            }
            error
        })
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Statement { schema: &self.schema, query }.text()
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let statement = self.statement(query)?;
        self.run(&statement)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        let wanted = CellKind::of(&self.schema, query);
        let mut rows = Vec::new();
        let tag = &self.schema.tables[query.table as usize].tags[0];
        each_series(self.http.body(), &mut |series| {
            let series_device = match series.tags.as_ref().and_then(|tags| tags.get(tag)) {
                Some(name) => Some(self.devices.find(query.table, name)?),
                None => None,
            };
            // The device is a tag of the series, or the column after the time.
            let column = usize::from(series.columns.get(1) == Some(tag));
            if series.columns.len() != 1 + column + wanted.len() {
                let columns = &series.columns;
                return Err(Error::protocol(format!(
                    "an answer has columns {columns:?}, expected {}",
                    wanted.len() + 1
                )));
            }
            for values in &series.values {
                if values.len() != series.columns.len() {
                    return Err(Error::protocol("a row of an answer has a wrong number of values"));
                }
                let device = match column {
                    0 => series_device,
                    _ => Some(self.devices.find(query.table, &unquoted(values[1])?)?),
                };
                let time =
                    if matches!(query.shape, Shape::Aggregate { .. }) { None } else { Some(time(values[0].get())?) };
                let cells = wanted.iter().zip(&values[1 + column..]).map(|(wanted, value)| wanted.json(value.get()));
                rows.push(Row { device, time, cells: cells.collect::<Result<_>>()? });
            }
            Ok(())
        })?;
        Ok(Rows { rows })
    }
}

impl InfluxConnection {
    /// Runs a statement; the HTTP body has its answer. An error in an answer of status 200 is an
    /// error.
    fn run(&mut self, statement: &str) -> Result<()> {
        let body = form(&[("q", statement)]);
        self.http.post(&self.query_target, FORM, body.as_bytes(), self.read_timeout)?;
        if memmem::find(self.http.body(), b"\"error\":").is_none() {
            return Ok(());
        }
        each_series(self.http.body(), &mut |_| Ok(())).map_err(|error| error.during(statement))
    }
}

/// A JSON document; long answers have several.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, default)]
    results: Vec<Outcome<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Outcome<'a> {
    #[serde(borrow, default)]
    series: Vec<Series<'a>>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Series<'a> {
    #[serde(default)]
    name: String,
    tags: Option<std::collections::HashMap<String, String>>,
    columns: Vec<String>,
    #[serde(borrow, default)]
    values: Vec<Vec<&'a RawValue>>,
}

fn each_series(body: &[u8], visit: &mut dyn FnMut(&Series) -> Result<()>) -> Result<()> {
    for document in serde_json::Deserializer::from_slice(body).into_iter::<Document>() {
        let document = document
            .map_err(|error| Error::protocol(format!("an answer of InfluxDB is not the expected JSON: {error}")))?;
        let errors = document.results.iter().map(|outcome| &outcome.error).chain([&document.error]);
        if let Some(error) = errors.flatten().next() {
            let class = if error.contains("timeout") { Class::Timeout } else { super::http::class_of(400, error) };
            return Err(Error::new(class, error.clone()));
        }
        for series in document.results.iter().flat_map(|outcome| &outcome.series) {
            visit(series)?;
        }
    }
    Ok(())
}

fn unquoted(value: &RawValue) -> Result<String> {
    serde_json::from_str(value.get())
        .map_err(|_| Error::protocol(format!("an answer has {}, expected a device", value.get())))
}

/// A query in InfluxQL.
struct Statement<'a> {
    schema: &'a Schema,
    query: &'a Query,
}

impl Statement<'_> {
    fn text(&self) -> Result<String> {
        let query = self.query;
        if query.set.is_some() {
            return Err(Error::unsupported("InfluxQL has no UNION, INTERSECT or EXCEPT"));
        }
        if query.limit == Some(0) {
            return Err(Error::unsupported("InfluxQL's LIMIT 0 means no limit"));
        }
        let device = name(&self.schema.tables[query.table as usize].tags[0]);
        let source = self.source();
        let order = if query.order == Order::Descending { " ORDER BY time DESC" } else { "" };
        let limit = |word: &str| query.limit.map_or(String::new(), |limit| format!(" {word} {limit}"));
        Ok(match &query.shape {
            Shape::Rows if query.limit.is_none() => {
                format!("SELECT {}{source} GROUP BY {device}{order}", self.fields())
            }
            // With several series LIMIT applies to each, so that the device must be a column.
            Shape::Rows => format!("SELECT {device},{}{source}{order}{}", self.fields(), limit("LIMIT")),
            Shape::Latest => {
                let newest = " ORDER BY time DESC LIMIT 1";
                format!("SELECT {}{source} GROUP BY {device}{newest}{}", self.fields(), limit("SLIMIT"))
            }
            Shape::Aggregate { aggregate, by_device: true } => {
                format!("SELECT {}{source} GROUP BY {device}{}", self.aggregates(*aggregate, false), limit("SLIMIT"))
            }
            Shape::Aggregate { aggregate, by_device: false } => {
                format!("SELECT {}{source}", self.aggregates(*aggregate, false))
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let suffix = self.suffix();
                let offset = origin.rem_euclid(*width);
                let by = format!(" GROUP BY time({width}{suffix},{offset}{suffix})");
                if !by_device {
                    let aggregates = self.aggregates(*aggregate, false);
                    return Ok(format!("SELECT {aggregates}{source}{by} fill(none){order}{}", limit("LIMIT")));
                }
                let inner =
                    |named| format!("SELECT {}{source}{by},{device} fill(none)", self.aggregates(*aggregate, named));
                if query.limit.is_none() {
                    return Ok(inner(false) + order);
                }
                let columns: Vec<String> = (0..query.fields.len()).map(|at| format!("\"c{at}\"")).collect();
                format!("SELECT {device},{} FROM ({}){order}{}", columns.join(","), inner(true), limit("LIMIT"))
            }
        })
    }

    fn field(&self, field: u32) -> String {
        name(&self.schema.tables[self.query.table as usize].fields[field as usize].name)
    }

    fn fields(&self) -> String {
        let fields: Vec<String> = self.query.fields.iter().map(|field| self.field(*field)).collect();
        fields.join(",")
    }

    fn aggregates(&self, aggregate: Aggregate, named: bool) -> String {
        let function = if aggregate == Aggregate::Avg { "mean" } else { aggregate.name() };
        let one = |(at, field): (usize, &u32)| {
            let alias = if named { format!(" AS \"c{at}\"") } else { String::new() };
            format!("{function}({}){alias}", self.field(*field))
        };
        let all: Vec<String> = self.query.fields.iter().enumerate().map(one).collect();
        all.join(",")
    }

    /// ` FROM … WHERE …`.
    fn source(&self) -> String {
        let query = self.query;
        let table = &self.schema.tables[query.table as usize];
        let mut text = format!(" FROM {}", name(&table.name));
        let mut conditions = Vec::new();
        if let Some(devices) = &query.devices {
            let tag = name(&table.tags[0]);
            let one = |device: &u32| format!("{tag} = {}", string(self.schema.device_name(*device)));
            let all: Vec<String> = devices.iter().map(one).collect();
            conditions.push(if all.len() == 1 { all.join("") } else { format!("({})", all.join(" OR ")) });
        }
        let window = query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let suffix = self.suffix();
        if window.start != i64::MIN {
            conditions.push(format!("time >= {}{suffix}", window.start));
        }
        if window.end != i64::MAX {
            conditions.push(format!("time < {}{suffix}", window.end));
        } else if matches!(query.shape, Shape::Buckets { .. }) {
            // Without an upper bound GROUP BY time() ends at the current time.
            conditions.push(format!("time < {}", i64::MAX - 1));
        }
        let above = |Filter { field, above }: &Filter| format!("{} > {above}", self.field(*field));
        conditions.extend(query.filters.iter().map(above));
        if !conditions.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, " WHERE {}", conditions.join(" AND "));
        }
        text
    }

    /// Unit suffix of times and intervals.
    fn suffix(&self) -> &'static str {
        match self.schema.unit {
            Unit::Millis => "ms",
            Unit::Micros => "u",
            Unit::Nanos => "ns",
        }
    }
}

/// Quotes an identifier.
fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Quotes a string literal.
fn string(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, ABLE, Abilities};
    use super::super::testing::{Private, START, ask, sample_batch, sample_schema};
    use super::*;
    use crate::peers::Product;
    use crate::query::Cell;

    const UNSUPPORTED: &[&str] = &["set/"];

    #[test]
    fn influxdb_answers_every_query_as_brute_force_does() {
        let server = Private::start(Product::InfluxDb);
        let target = server.target("influxdb", "http");
        for unit in [Unit::Millis, Unit::Micros, Unit::Nanos] {
            conformance::check(&target, &Abilities { unit, float32: false, unsupported: UNSUPPORTED, ..ABLE });
        }
        conformance::check_wide(&target, 2000);
        errors_in_answers_are_errors(&server);
        limits_hold_over_all_series(&server);
    }

    /// IoT-benchmark counts both as successes.
    fn errors_in_answers_are_errors(server: &Private) {
        let (driver, _) = server.driver("influxdb", "http");
        let influx = driver.connect(0);
        let mut connection = influx.expect("connects");
        connection.clear().expect("cleared");
        let query = sample_schema().1;
        let error = connection.query(&query).expect_err("the database is not there");
        assert_eq!(error.class, Class::Refused, "{error}");
        assert!(error.message.contains("database not found"), "{error}");
        connection.encode(&sample_batch(0..3)).expect("encoded");
        let error = connection.send().expect_err("the database is not there");
        assert_eq!(error.class, Class::Refused, "{error}");
    }

    fn limits_hold_over_all_series(server: &Private) {
        let (driver, schema) = server.driver("influxdb", "http");
        let mut connection = driver.connect(0).expect("connects");
        connection.clear().expect("cleared");
        connection.create(0..schema.devices.len() as u32).expect("created");
        connection.encode(&sample_batch(0..20)).expect("encoded");
        connection.send().expect("sent");
        let base = Query { devices: None, window: Some(START..START + 20_000), ..sample_schema().1 };
        let buckets = Shape::Buckets { aggregate: Aggregate::Count, width: 5_000, origin: 0, by_device: true };
        let count = Shape::Aggregate { aggregate: Aggregate::Count, by_device: true };
        for shape in [Shape::Rows, buckets, count, Shape::Latest] {
            let limit = if matches!(shape, Shape::Aggregate { .. } | Shape::Latest) { 1 } else { 3 };
            let rows = ask(connection.as_mut(), &Query { limit: Some(limit), shape: shape.clone(), ..base.clone() });
            assert_eq!(rows.rows.len() as u64, limit, "{shape:?}");
            assert!(rows.rows.iter().all(|row| row.device.is_some() && row.cells[0] != Cell::Null), "{rows:?}");
        }
        connection.clear().expect("cleared");
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(name("a\"b\\c"), "\"a\\\"b\\\\c\"");
        assert_eq!(string("o'b\\"), "'o\\'b\\\\'");
    }

    #[test]
    fn an_error_in_any_part_of_an_answer_is_found() {
        let body = br#"{"results":[{"statement_id":0,"series":[{"name":"g","columns":["time"],"values":[[1]]}],"partial":true}]}
{"results":[{"statement_id":0,"error":"query timeout reached"}]}"#;
        let error = each_series(body, &mut |_| Ok(())).expect_err("the second part");
        assert_eq!(error.class, Class::Timeout);
        assert!(each_series(b"{\"results\":[{", &mut |_| Ok(())).is_err());
    }
}
