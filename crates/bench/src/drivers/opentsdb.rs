//! OpenTSDB 2.x: JSON over HTTP. One metric per field, named `TABLE.FIELD`, with the device's tags.
//!
//! Targets: `opentsdb://host[:4242]`, option `sync=off|on`.
//!
//! Limits of the product, and how this driver handles them:
//! - Times are milliseconds. Only numbers are stored: texts are refused, booleans are written as 0
//!   and 1.
//! - It has series but no rows, and no value filters, order or limits: samples are joined, filtered
//!   and sorted while the answer is decoded, which is not timed for any product.
//! - Buckets start at multiples of their width since 1970, and the window does not cut the first
//!   and last: other windows are refused.
//! - Over several devices it has count, sum, min and max (`zimsum`, `mimmin`, `mimmax`, which do
//!   not interpolate).
//! - The newest values come from `/api/query/last`, which needs
//!   `tsd.core.meta.enable_tsuid_tracking` or a similar setting.
//! - `clear` deletes by `/api/query` with `delete`, which needs `tsd.http.query.allow_delete = true`.
//! - Requests of more than 4 KiB need `tsd.http.request.enable_chunked = true` and `tsd.http.request.max_chunk` above
//!   the size of a batch.
//!
//! Never run against the product: it needs HBase, and was never started here. Writes are tested
//! with VictoriaMetrics, which accepts `/api/put`; queries are written from the documentation.
//!
//! Sources: OpenTSDB 2.4's documentation: "/api/put", "/api/query", "/api/query/last",
//! "Downsampling", "Aggregators".

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::cells::{CellKind, Devices, time};
use super::digits::{push_i64, push_number};
use super::http::Http;
use super::series::{self, Joiner};
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Class, Error, Result};
use crate::query::{Aggregate, Cell, Query, Row, Rows, Shape};
use crate::schema::{Batch, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "opentsdb",
    summary: "OpenTSDB 2.x: JSON over HTTP (sync=off|on)",
    proof: Proof::Peer("VictoriaMetrics 1.79.5 for writes; queries from its documentation"),
    open: |opening| Ok(Box::new(OpenTsdb::open(opening)?)),
};

const PORT: u16 = 4242;
/// Start of unbounded windows, in milliseconds: 0 means "not given".
const FIRST: i64 = 1;
/// End of unbounded windows, in milliseconds: 2100.
const LAST: i64 = 4_102_444_800_000;

struct OpenTsdb {
    opening: Opening,
    sync: &'static str,
    names: Arc<Names>,
}

/// Encoded names and tags, prepared once for all connections.
struct Names {
    schema: Arc<Schema>,
    /// `{"metric":"TABLE.FIELD","timestamp":`, by table and field.
    heads: Vec<Vec<Box<[u8]>>>,
    /// `,"tags":{…}},`, by device.
    tags: Vec<Box<[u8]>>,
    devices: Devices,
}

impl OpenTsdb {
    fn open(opening: Opening) -> Result<OpenTsdb> {
        opening.target.only(&["sync"])?;
        let sync = opening.target.choice("sync", &["off", "on"])?;
        let schema = &opening.schema;
        if schema.unit != Unit::Millis {
            let advice = "OpenTSDB stores times in milliseconds: run with --set TIMESTAMP_PRECISION=ms";
            return Err(Error::unsupported(advice));
        }
        let fields = schema.tables.iter().flat_map(|table| &table.fields);
        if let Some(field) = fields.into_iter().find(|field| field.kind.text_length().is_some()) {
            return Err(Error::unsupported(format!(
                "OpenTSDB stores only numbers, and field {} is a text: run with --set \
                 INSERT_DATATYPE_PROPORTION=1:1:1:1:1:0:0:0:0:0:0",
                field.name
            )));
        }
        let names = Arc::new(Names::new(schema));
        Ok(OpenTsdb { opening, sync, names })
    }
}

/// Name of a field's metric.
fn metric(schema: &Schema, table: u32, field: u32) -> String {
    let table = &schema.tables[table as usize];
    format!("{}.{}", table.name, table.fields[field as usize].name)
}

fn tags(schema: &Schema, device: u32) -> Value {
    let keys = &schema.table_of(device).tags;
    let pairs = keys.iter().zip(&schema.devices[device as usize].tags);
    Value::Object(pairs.map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect())
}

impl Names {
    fn new(schema: &Arc<Schema>) -> Names {
        let head = |table: usize, field: usize| {
            let name = Value::from(metric(schema, table as u32, field as u32));
            format!("{{\"metric\":{name},\"timestamp\":").into_bytes().into_boxed_slice()
        };
        let heads = (0..schema.tables.len())
            .map(|table| (0..schema.tables[table].fields.len()).map(|field| head(table, field)).collect())
            .collect();
        let tail = |device: u32| format!(",\"tags\":{}}},", tags(schema, device)).into_bytes().into_boxed_slice();
        let tags = (0..schema.devices.len() as u32).map(tail).collect();
        Names { heads, tags, devices: Devices::new(schema), schema: Arc::clone(schema) }
    }

    fn encode(&self, batch: &Batch, out: &mut Vec<u8>) {
        let fields = &self.schema.tables[batch.table as usize].fields;
        out.push(b'[');
        for part in &batch.parts {
            for (column, field) in batch.fields.clone().enumerate() {
                let kind = fields[field as usize].kind;
                for (time, units) in part.times.iter().zip(part.column(column)) {
                    out.extend_from_slice(&self.heads[batch.table as usize][field as usize]);
                    push_i64(*time, out);
                    out.extend_from_slice(b",\"value\":");
                    push_number(kind, *units, out);
                    out.extend_from_slice(&self.tags[part.device as usize]);
                }
            }
        }
        out.pop();
        out.push(b']');
    }
}

impl Driver for OpenTsdb {
    fn about(&self) -> About {
        let (waits, durability) = match self.sync {
            "on" => ("?sync", "after HBase has taken it (sync=on)"),
            _ => ("", "in the daemon's memory, on its way to HBase (sync=off; sync=on waits for HBase)"),
        };
        About {
            product: "OpenTSDB 2.x",
            write_path: format!("JSON, POST /api/put{waits}, one request a batch, keep-alive, not compressed"),
            why: "telnet's put is never acknowledged; without `summary` and `details` the answer to a valid request is empty, \
                  which its documentation calls the fastest",
            durability: durability.to_owned(),
            durable: false,
            visible_at_once: false,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        Ok(Box::new(OpenTsdbConnection {
            http,
            put: if self.sync == "on" { "/api/put?sync" } else { "/api/put" },
            write_timeout,
            read_timeout,
            names: Arc::clone(&self.names),
            buffer: Vec::new(),
        }))
    }
}

struct OpenTsdbConnection {
    http: Http,
    put: &'static str,
    write_timeout: Duration,
    read_timeout: Duration,
    names: Arc<Names>,
    buffer: Vec<u8>,
}

impl Connection for OpenTsdbConnection {
    fn version(&mut self) -> Result<String> {
        self.http.get("/api/version", self.read_timeout)?;
        let answer: Value = serde_json::from_slice(self.http.body()).map_err(|error| invalid_json(&error))?;
        answer["version"].as_str().map(str::to_owned).ok_or_else(|| Error::protocol("OpenTSDB reports no version"))
    }

    fn clear(&mut self) -> Result<()> {
        let names = Arc::clone(&self.names);
        for (table, definition) in names.schema.tables.iter().enumerate() {
            for field in 0..definition.fields.len() {
                let name = metric(&names.schema, table as u32, field as u32);
                let queries = json!([{"aggregator": "none", "metric": name}]);
                let body = json!({"start": FIRST, "end": LAST, "delete": true, "queries": queries}).to_string();
                match self.http.post("/api/query", "application/json", body.as_bytes(), self.read_timeout) {
                    Err(error) if error.class == Class::Refused && error.message.contains("No such name") => {}
                    outcome => outcome?,
                }
            }
        }
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        // The first write creates a metric (tsd.core.auto_create_metrics).
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.names.encode(batch, &mut self.buffer);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.http.post(self.put, "application/json", &self.buffer, self.write_timeout);
        sent.map_err(|mut error| {
            // Valid points of the request are stored, the others refused.
            if error.class == Class::Refused && error.message.contains("data points had errors") {
                error.class = Class::Server;
            }
            error
        })
    }

    fn statement(&self, query: &Query) -> Result<String> {
        let (path, body) = QueryRequest { schema: &self.names.schema, query }.request()?;
        Ok(format!("POST {path} {body}"))
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let (path, body) = QueryRequest { schema: &self.names.schema, query }.request()?;
        self.http.post(path, "application/json", body.to_string().as_bytes(), self.read_timeout)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        let reader = Reader { names: &self.names, query };
        match query.shape {
            Shape::Latest => reader.newest(self.http.body()),
            _ => reader.rows(self.http.body()),
        }
    }
}

fn invalid_json(error: &serde_json::Error) -> Error {
    Error::protocol(format!("an answer of OpenTSDB is not the expected JSON: {error}"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

struct QueryRequest<'a> {
    schema: &'a Schema,
    query: &'a Query,
}

impl QueryRequest<'_> {
    /// Path and body of the request.
    fn request(&self) -> Result<(&'static str, Value)> {
        let query = self.query;
        if query.set.is_some() || query.limit.is_some() {
            return Err(Error::unsupported("OpenTSDB has no set operations and no limit"));
        }
        if query.shape != Shape::Rows && !query.filters.is_empty() {
            return Err(Error::unsupported("OpenTSDB cannot filter by value before it aggregates"));
        }
        let (start, end) = self.window();
        let queries: Vec<Value> = match &query.shape {
            Shape::Latest => return self.newest(),
            Shape::Rows => series::columns(query).into_iter().map(|field| self.part(field, "none", true)).collect(),
            Shape::Aggregate { aggregate, by_device } => {
                self.downsampled(*aggregate, *by_device, &format!("0all-{}", aggregate.name()))?
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                if [*origin, start, end].iter().any(|time| time % width != 0) {
                    return Err(Error::unsupported(
                        "OpenTSDB's buckets start at multiples of their width since 1970 and are not cut by the window: \
                         START_TIME and QUERY_INTERVAL must be multiples of GROUP_BY_TIME_UNIT",
                    ));
                }
                self.downsampled(*aggregate, *by_device, &format!("{width}ms-{}", aggregate.name()))?
            }
        };
        // Both ends are inclusive.
        Ok((
            "/api/query?arrays=true",
            json!({"start": start, "end": end - 1, "msResolution": true, "queries": queries}),
        ))
    }

    fn window(&self) -> (i64, i64) {
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let start = window.start.clamp(FIRST, LAST - 1);
        (start, window.end.clamp(start + 1, LAST))
    }

    fn part(&self, field: u32, aggregator: &str, by_device: bool) -> Value {
        let tag = &self.schema.tables[self.query.table as usize].tags[0];
        let filter = match &self.query.devices {
            None => json!({"type": "wildcard", "tagk": tag, "filter": "*", "groupBy": by_device}),
            Some(devices) => {
                let names: Vec<&str> = devices.iter().map(|device| self.schema.device_name(*device)).collect();
                json!({"type": "literal_or", "tagk": tag, "filter": names.join("|"), "groupBy": by_device})
            }
        };
        json!({
            "metric": metric(self.schema, self.query.table, field),
            "aggregator": aggregator,
            "filters": [filter],
        })
    }

    fn downsampled(&self, aggregate: Aggregate, by_device: bool, downsample: &str) -> Result<Vec<Value>> {
        let one_device = self.query.devices.as_ref().is_some_and(|devices| devices.len() == 1);
        let aggregator = match aggregate {
            _ if by_device || one_device => "none",
            Aggregate::Count | Aggregate::Sum => "zimsum",
            Aggregate::Min => "mimmin",
            Aggregate::Max => "mimmax",
            Aggregate::Avg | Aggregate::First | Aggregate::Last => {
                let name = aggregate.name();
                return Err(Error::unsupported(format!("OpenTSDB has no {name} over several series")));
            }
        };
        let one = |field: &u32| {
            let mut part = self.part(*field, aggregator, by_device);
            part["downsample"] = downsample.into();
            part
        };
        Ok(self.query.fields.iter().map(one).collect())
    }

    fn newest(&self) -> Result<(&'static str, Value)> {
        if self.query.window.is_some() {
            return Err(Error::unsupported("OpenTSDB's last value is not limited to a window"));
        }
        let mut queries = Vec::new();
        for device in series::devices(self.schema, self.query) {
            for field in &self.query.fields {
                let metric = metric(self.schema, self.query.table, *field);
                queries.push(json!({"metric": metric, "tags": tags(self.schema, device)}));
            }
        }
        Ok(("/api/query/last", json!({"queries": queries, "resolveNames": true, "backScan": 0})))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

#[derive(Deserialize)]
struct Series<'a> {
    metric: String,
    tags: HashMap<String, String>,
    #[serde(borrow)]
    dps: Vec<(&'a RawValue, &'a RawValue)>,
}

#[derive(Deserialize)]
struct Newest<'a> {
    metric: String,
    tags: HashMap<String, String>,
    timestamp: i64,
    #[serde(borrow)]
    value: &'a RawValue,
}

struct Reader<'a> {
    names: &'a Names,
    query: &'a Query,
}

impl Reader<'_> {
    fn rows(&self, body: &[u8]) -> Result<Rows> {
        let answer: Vec<Series> = serde_json::from_slice(body).map_err(|error| invalid_json(&error))?;
        let query = self.query;
        let mut joiner = Joiner::new(query);
        let kinds = CellKind::of(&self.names.schema, query);
        let by_device =
            !matches!(query.shape, Shape::Aggregate { by_device: false, .. } | Shape::Buckets { by_device: false, .. });
        for series in &answer {
            let (column, kind) = self.column(&series.metric)?;
            let wanted = kinds.get(column).copied().unwrap_or(kind);
            let device = if by_device { Some(self.device(&series.tags)?) } else { None };
            for (at, value) in &series.dps {
                let at = if matches!(query.shape, Shape::Aggregate { .. }) { None } else { Some(time(at.get())?) };
                joiner.put(device, at, column, wanted.json(value.get())?);
            }
        }
        let missing = kinds.first().map_or(Cell::Null, |wanted| wanted.missing());
        Ok(joiner.finish(query, &missing))
    }

    /// Decodes the newest row of each device; fields whose newest value is older are null in it.
    fn newest(&self, body: &[u8]) -> Result<Rows> {
        let answer: Vec<Newest> = serde_json::from_slice(body).map_err(|error| invalid_json(&error))?;
        let mut rows: std::collections::BTreeMap<u32, Row> = Default::default();
        for value in &answer {
            let (column, wanted) = self.column(&value.metric)?;
            let device = self.device(&value.tags)?;
            let empty = || Row { device: Some(device), time: None, cells: vec![Cell::Null; self.query.fields.len()] };
            let row = rows.entry(device).or_insert_with(empty);
            if row.time < Some(value.timestamp) {
                *row = Row { time: Some(value.timestamp), ..empty() };
            }
            if row.time == Some(value.timestamp) {
                row.cells[column] = wanted.json(value.value.get())?;
            }
        }
        Ok(Rows { rows: rows.into_values().collect() })
    }

    /// Column of a metric, and the kind of its samples.
    fn column(&self, name: &str) -> Result<(usize, CellKind)> {
        let schema = &self.names.schema;
        let fields = series::columns(self.query);
        let found = fields.iter().position(|field| metric(schema, self.query.table, *field) == name);
        let column = found
            .ok_or_else(|| Error::protocol(format!("an answer has the metric {name:?}, which was not selected")))?;
        let kind = schema.tables[self.query.table as usize].fields[fields[column] as usize].kind;
        Ok((column, CellKind::Value(kind)))
    }

    fn device(&self, tags: &HashMap<String, String>) -> Result<u32> {
        let tag = &self.names.schema.tables[self.query.table as usize].tags[0];
        let name = tags.get(tag).ok_or_else(|| Error::protocol(format!("an answer's series has no tag {tag:?}")))?;
        self.names.devices.find(self.query.table, name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Private, START, driver_for, sample_batch, sample_schema};
    use super::*;
    use crate::peers::Product;
    use crate::query::{Filter, Order};

    fn body(change: impl FnOnce(&mut Query)) -> Result<Value> {
        let (schema, mut query) = sample_schema();
        change(&mut query);
        QueryRequest { schema: &schema, query: &query }.request().map(|(_, body)| body)
    }

    /// VictoriaMetrics accepts `/api/put`; its export returns the stored points.
    #[test]
    fn writes_are_accepted_by_another_server_of_the_protocol() {
        let server = Private::start(Product::VictoriaMetrics);
        let (driver, _) = server.driver("opentsdb", "opentsdb_http");
        let mut connection = driver.connect(0).expect("connects");
        connection.encode(&sample_batch(0..10)).expect("encoded");
        connection.send().expect("accepted");
        let (reader, _) = driver_for(server.target("victoriametrics", "http"));
        reader.connect(0).expect("connects").settle().expect("flushed");
        let mut http = Http::to(&server.target("victoriametrics", "http"), 0, 0).expect("an address");
        let timeout = Duration::from_secs(10);
        let deadline = std::time::Instant::now() + timeout;
        let mut lines = Vec::new();
        while lines.len() < 4 && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            http.get("/api/v1/export?match%5B%5D=%7Bdevice%21%3D%22%22%7D", timeout).expect("exported");
            lines = http.text().lines().map(str::to_owned).collect();
        }
        let negative = lines.iter().find(|line| line.contains("g_0.s_1") && line.contains("d_1")).expect("the series");
        assert!(negative.contains("\"values\":[-0.25,-1.25,-2.25,-3.25"), "{negative}");
        assert!(negative.contains(&format!("\"timestamps\":[{START},{}", START + 1000)), "{negative}");
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn a_batch_is_exactly_this_json() {
        let (schema, _) = sample_schema();
        let names = Names::new(&Arc::new(schema));
        let mut batch = sample_batch(1..2);
        batch.parts.remove(0);
        let mut out = Vec::new();
        names.encode(&batch, &mut out);
        let expected = r#"[{"metric":"g_0.s_0","timestamp":1667059201000,"value":-1,"tags":{"device":"d_1","tag_0":"v"}},{"metric":"g_0.s_1","timestamp":1667059201000,"value":-1.25,"tags":{"device":"d_1","tag_0":"v"}}]"#;
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }

    #[test]
    fn queries_are_exactly_this_json() {
        let raw = body(|query| {
            query.devices = Some(vec![0, 1]);
            query.filters = vec![Filter { field: 1, above: 0.5 }];
            query.fields = vec![0];
            query.order = Order::Descending;
        });
        let filter = json!({"type": "literal_or", "tagk": "device", "filter": "d_0|d_1", "groupBy": true});
        let part = |metric: &str| json!({"metric": metric, "aggregator": "none", "filters": [filter]});
        let expected = json!({"start": START, "end": START, "msResolution": true,
            "queries": [part("g_0.s_0"), part("g_0.s_1")]});
        assert_eq!(raw.expect("can be kinds"), expected);
        let sums = body(|query| {
            query.devices = None;
            query.fields = vec![1];
            query.window = Some(START..START + 40_000);
            query.shape = Shape::Buckets { aggregate: Aggregate::Sum, width: 20_000, origin: START, by_device: false };
        });
        let filter = json!({"type": "wildcard", "tagk": "device", "filter": "*", "groupBy": false});
        let part =
            json!({"metric": "g_0.s_1", "aggregator": "zimsum", "filters": [filter], "downsample": "20000ms-sum"});
        let expected = json!({"start": START, "end": START + 39_999, "msResolution": true, "queries": [part]});
        assert_eq!(sums.expect("can be kinds"), expected);
    }

    #[test]
    fn unsupported_queries_are_refused() {
        let uncut = Shape::Buckets { aggregate: Aggregate::Sum, width: 20_000, origin: START + 1, by_device: true };
        let mean = Shape::Aggregate { aggregate: Aggregate::Avg, by_device: false };
        let refused = [
            body(|query| query.shape = uncut),
            body(|query| (query.shape, query.devices) = (mean, None)),
            body(|query| query.limit = Some(1)),
            body(|query| query.shape = Shape::Latest),
        ];
        for outcome in refused {
            assert_eq!(outcome.expect_err("refused").class, Class::Unsupported);
        }
    }

    #[test]
    fn documented_answers_become_rows() {
        let (schema, mut query) = sample_schema();
        let names = Names::new(&Arc::new(schema));
        let body = r#"[{"metric":"g_0.s_1","tags":{"device":"d_0","tag_0":"v"},"aggregateTags":[],"dps":[[1667059200000,1.25],[1667059201000,2]]},
            {"metric":"g_0.s_0","tags":{"device":"d_0"},"aggregateTags":[],"dps":[[1667059200000,7]]}]"#;
        let rows = Reader { names: &names, query: &query }.rows(body.as_bytes()).expect("rows").rows;
        assert_eq!(rows[0].cells, [Cell::Int(7), Cell::Float(1.25)]);
        assert_eq!((rows[1].time, &rows[1].cells[..]), (Some(START + 1000), &[Cell::Null, Cell::Float(2.0)][..]));
        query.shape = Shape::Latest;
        let body = r#"[{"metric":"g_0.s_0","timestamp":1667059200000,"value":"7","tags":{"device":"d_1"},"tsuid":"00"},
            {"metric":"g_0.s_1","timestamp":1667059201000,"value":"2.5","tags":{"device":"d_1"},"tsuid":"01"}]"#;
        let rows = Reader { names: &names, query: &query }.newest(body.as_bytes()).expect("rows").rows;
        assert_eq!(
            rows,
            [Row { device: Some(1), time: Some(START + 1000), cells: vec![Cell::Null, Cell::Float(2.5)] }]
        );
        let reader = Reader { names: &names, query: &query };
        assert!(reader.rows(br#"[{"metric":"x","tags":{},"dps":[[1,1]]}]"#).is_err());
        assert!(reader.rows(b"{").is_err());
    }
}
