//! KairosDB: JSON over HTTP. One metric per field, named `TABLE.FIELD`, with the device's tags.
//!
//! Targets: `kairosdb://[user:password@]host[:8080]`.
//!
//! Limits of the product, and how this driver handles them:
//! - Times are milliseconds since 1970. Booleans are written as 0 and 1, texts with KairosDB's type
//!   `string`.
//! - It has series but no rows: samples are joined while the answer is decoded, which is not timed
//!   for any product. Value filters are KairosDB's aggregator `filter`, applied to each field
//!   separately; a row is returned if all filtered fields have a sample left. Aggregates over rows
//!   that other fields filter are refused.
//! - Aggregators only work on samples in ascending order (in descending order, 1.3.0 puts all into
//!   one bucket): buckets are sorted here.
//! - Buckets start at multiples of their width if that is whole seconds, or at the start of the
//!   window; others are refused.
//!
//! Tested against the product on its H2 store, which verifies the protocol. In production it runs
//! on Cassandra, whose speed cannot be measured here.
//!
//! Sources: KairosDB's REST API ("Add Data Points", "Query Metrics", "Aggregators", "Delete Metric").

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
use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Order, Query, Row, Rows, Shape};
use crate::schema::{Batch, Kind, Schema, Unit, text_of};

pub(crate) const ENTRY: Entry = Entry {
    name: "kairosdb",
    summary: "KairosDB: JSON over HTTP",
    proof: Proof::Product("KairosDB 1.3.0 on its H2 store (no Cassandra)"),
    open: |opening| Ok(Box::new(Kairos::open(opening)?)),
};

const PORT: u16 = 8080;
/// End of unbounded windows, in milliseconds: 2100.
const LAST: i64 = 4_102_444_800_000;

struct Kairos {
    opening: Opening,
    names: Arc<Names>,
}

/// Encoded names and tags, prepared once for all connections.
struct Names {
    schema: Arc<Schema>,
    /// `{"name":"TABLE.FIELD",…"tags":`, by table and field.
    heads: Vec<Vec<Box<[u8]>>>,
    /// `{"device":…},"datapoints":[`, by device.
    tags: Vec<Box<[u8]>>,
    devices: Devices,
}

impl Kairos {
    fn open(opening: Opening) -> Result<Kairos> {
        opening.target.only(&[])?;
        if opening.schema.unit != Unit::Millis {
            let advice = "KairosDB stores times in milliseconds: run with --set TIMESTAMP_PRECISION=ms";
            return Err(Error::unsupported(advice));
        }
        let names = Arc::new(Names::new(&opening.schema));
        Ok(Kairos { opening, names })
    }
}

/// Name of a field's metric.
fn metric(schema: &Schema, table: u32, field: u32) -> String {
    let table = &schema.tables[table as usize];
    format!("{}.{}", table.name, table.fields[field as usize].name)
}

impl Names {
    fn new(schema: &Arc<Schema>) -> Names {
        let head = |table: usize, field: usize| {
            let name = Value::from(metric(schema, table as u32, field as u32));
            let text = schema.tables[table].fields[field].kind.text_length().is_some();
            let kind = if text { "\"type\":\"string\"," } else { "" };
            format!("{{\"name\":{name},{kind}\"tags\":").into_bytes().into_boxed_slice()
        };
        let heads = (0..schema.tables.len())
            .map(|table| (0..schema.tables[table].fields.len()).map(|field| head(table, field)).collect())
            .collect();
        let tags = schema.devices.iter().map(|device| {
            let keys = &schema.tables[device.table as usize].tags;
            let pairs = keys.iter().zip(&device.tags).map(|(key, value)| (key.clone(), Value::from(value.as_str())));
            let tags = Value::Object(pairs.collect());
            format!("{tags},\"datapoints\":[").into_bytes().into_boxed_slice()
        });
        Names { heads, tags: tags.collect(), devices: Devices::new(schema), schema: Arc::clone(schema) }
    }

    fn encode(&self, batch: &Batch, out: &mut Vec<u8>) {
        let fields = &self.schema.tables[batch.table as usize].fields;
        out.push(b'[');
        for part in &batch.parts {
            for (column, field) in batch.fields.clone().enumerate() {
                out.extend_from_slice(&self.heads[batch.table as usize][field as usize]);
                out.extend_from_slice(&self.tags[part.device as usize]);
                let kind = fields[field as usize].kind;
                for (time, units) in part.times.iter().zip(part.column(column)) {
                    out.push(b'[');
                    push_i64(*time, out);
                    out.push(b',');
                    value(kind, *units, out);
                    out.extend_from_slice(b"],");
                }
                out.pop();
                out.extend_from_slice(b"]},");
            }
        }
        out.pop();
        out.push(b']');
    }
}

fn value(kind: Kind, units: i64, out: &mut Vec<u8>) {
    match kind.text_length() {
        None => push_number(kind, units, out),
        // Generated texts are letters and digits: nothing to escape.
        Some(length) => {
            out.push(b'"');
            text_of(units, length, out);
            out.push(b'"');
        }
    }
}

impl Driver for Kairos {
    fn about(&self) -> About {
        About {
            product: "KairosDB",
            write_path: "JSON, POST /api/v1/datapoints, one request a batch with the points of a series together, \
                         keep-alive, not compressed"
                .to_owned(),
            why: "the alternative, telnet's put, has one line per value and no acknowledgement; the documentation recommends \
                  many points in one request, and gzip only for slow networks",
            durability: "in the queue's mapped file (operating system's cache); the store follows".to_owned(),
            durable: false,
            visible_at_once: false,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        Ok(Box::new(KairosConnection {
            http,
            write_timeout,
            read_timeout,
            names: Arc::clone(&self.names),
            buffer: Vec::new(),
        }))
    }
}

struct KairosConnection {
    http: Http,
    write_timeout: Duration,
    read_timeout: Duration,
    names: Arc<Names>,
    buffer: Vec<u8>,
}

impl Connection for KairosConnection {
    fn version(&mut self) -> Result<String> {
        self.http.get("/api/v1/version", self.read_timeout)?;
        let answer: Value = serde_json::from_slice(self.http.body()).map_err(|error| invalid_json(&error))?;
        let version = answer["version"].as_str().map(|text| text.trim_start_matches("KairosDB ").to_owned());
        version.ok_or_else(|| Error::protocol("KairosDB reports no version"))
    }

    fn clear(&mut self) -> Result<()> {
        let names = Arc::clone(&self.names);
        for (table, definition) in names.schema.tables.iter().enumerate() {
            for field in 0..definition.fields.len() {
                let mut target = "/api/v1/metric/".to_owned();
                super::http::push_encoded(&metric(&names.schema, table as u32, field as u32), &mut target);
                self.http.delete(&target, self.read_timeout)?;
            }
        }
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        // The first write creates a series.
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.names.encode(batch, &mut self.buffer);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        self.http.post("/api/v1/datapoints", "application/json", &self.buffer, self.write_timeout)
    }

    fn statement(&self, query: &Query) -> Result<String> {
        Ok(format!("POST /api/v1/datapoints/query {}", QueryRequest { schema: &self.names.schema, query }.body()?))
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let body = QueryRequest { schema: &self.names.schema, query }.body()?.to_string();
        self.http.post("/api/v1/datapoints/query", "application/json", body.as_bytes(), self.read_timeout)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        Reader { names: &self.names, query }.rows(self.http.body())
    }
}

fn invalid_json(error: &serde_json::Error) -> Error {
    Error::protocol(format!("an answer of KairosDB is not the expected JSON: {error}"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

struct QueryRequest<'a> {
    schema: &'a Schema,
    query: &'a Query,
}

impl QueryRequest<'_> {
    fn body(&self) -> Result<Value> {
        let query = self.query;
        if query.set.is_some() {
            return Err(Error::unsupported("KairosDB has no set operations on rows"));
        }
        let metrics = match &query.shape {
            Shape::Latest => self.newest()?,
            Shape::Rows if query.limit.is_some() => self.limited()?,
            Shape::Rows => series::columns(query).into_iter().map(|field| self.samples(field)).collect(),
            Shape::Aggregate { aggregate, by_device } => {
                // Longer than any window.
                let sampling = json!({"value": 1000, "unit": "years"});
                self.aggregated(json!({"name": aggregate.name(), "sampling": sampling}), *by_device)?
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                self.aggregated(self.bucket(*aggregate, *width, *origin)?, *by_device)?
            }
        };
        let (start, end) = self.window();
        // Both ends are inclusive.
        Ok(json!({"start_absolute": start, "end_absolute": end - 1, "metrics": metrics}))
    }

    fn window(&self) -> (i64, i64) {
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let start = window.start.clamp(0, LAST - 1);
        (start, window.end.clamp(start + 1, LAST))
    }

    fn metric(&self, field: u32, devices: Option<&[u32]>) -> Value {
        let mut metric = json!({"name": metric(self.schema, self.query.table, field)});
        if let Some(devices) = devices {
            let names: Vec<&str> = devices.iter().map(|device| self.schema.device_name(*device)).collect();
            metric["tags"] = json!({ self.tag(): names });
        }
        metric
    }

    fn tag(&self) -> &str {
        &self.schema.tables[self.query.table as usize].tags[0]
    }

    fn by_device(&self, metric: &mut Value) {
        metric["group_by"] = json!([{"name": "tag", "tags": [self.tag()]}]);
    }

    /// Samples of one field that pass its own filters, by device.
    fn samples(&self, field: u32) -> Value {
        let mut metric = self.metric(field, self.query.devices.as_deref());
        self.by_device(&mut metric);
        let filters = self.filters(field);
        if !filters.is_empty() {
            metric["aggregators"] = Value::Array(filters);
        } else if self.query.order == Order::Descending {
            metric["order"] = "desc".into();
        }
        metric
    }

    /// Aggregators that remove samples at or below the bounds.
    fn filters(&self, field: u32) -> Vec<Value> {
        let own = self.query.filters.iter().filter(|filter| filter.field == field);
        own.map(|filter| json!({"name": "filter", "filter_op": "lte", "threshold": filter.above})).collect()
    }

    /// The first rows are among the first samples of each field and device.
    fn limited(&self) -> Result<Vec<Value>> {
        if !self.query.filters.is_empty() {
            return Err(Error::unsupported("KairosDB applies limits before filters"));
        }
        let order = if self.query.order == Order::Descending { "desc" } else { "asc" };
        Ok(self.each_series(order, self.query.limit.unwrap_or(1).max(1)))
    }

    /// A limit applies to a metric: each device and field is a metric of the query.
    fn newest(&self) -> Result<Vec<Value>> {
        if !self.query.filters.is_empty() || self.query.limit.is_some() {
            return Err(Error::unsupported("KairosDB applies limits before filters, and to each metric"));
        }
        Ok(self.each_series("desc", 1))
    }

    fn each_series(&self, order: &str, limit: u64) -> Vec<Value> {
        let mut metrics = Vec::new();
        for device in series::devices(self.schema, self.query) {
            for field in &self.query.fields {
                let mut metric = self.metric(*field, Some(&[device]));
                metric["order"] = order.into();
                metric["limit"] = limit.into();
                metrics.push(metric);
            }
        }
        metrics
    }

    fn aggregated(&self, aggregator: Value, by_device: bool) -> Result<Vec<Value>> {
        let query = self.query;
        if query.limit.is_some() {
            return Err(Error::unsupported("KairosDB applies limits before aggregators"));
        }
        if !query.filters.iter().all(|filter| query.fields == [filter.field]) {
            return Err(Error::unsupported("KairosDB can only filter a field by its own values"));
        }
        let one = |field: &u32| {
            let mut metric = self.metric(*field, query.devices.as_deref());
            if by_device {
                self.by_device(&mut metric);
            }
            let mut aggregators = self.filters(*field);
            aggregators.push(aggregator.clone());
            metric["aggregators"] = Value::Array(aggregators);
            metric
        };
        Ok(query.fields.iter().map(one).collect())
    }

    /// Buckets of whole seconds start at multiples of their width since 1970, those of milliseconds
    /// at the start of the window.
    fn bucket(&self, aggregate: Aggregate, width: i64, origin: i64) -> Result<Value> {
        let (start, _) = self.window();
        let seconds = width % 1000 == 0 && origin.rem_euclid(width) == 0;
        if !seconds && (start - origin).rem_euclid(width) != 0 {
            return Err(Error::unsupported(
                "KairosDB's buckets start at multiples of their width in seconds, or at the start of the window",
            ));
        }
        let sampling = match seconds {
            true => json!({"value": width / 1000, "unit": "seconds"}),
            false => json!({"value": width, "unit": "milliseconds"}),
        };
        let name = aggregate.name();
        Ok(json!({"name": name, "sampling": sampling, "align_sampling": seconds, "align_start_time": true}))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    queries: Vec<QueryAnswer<'a>>,
}

#[derive(Deserialize)]
struct QueryAnswer<'a> {
    #[serde(borrow)]
    results: Vec<Series<'a>>,
}

#[derive(Deserialize)]
struct Series<'a> {
    name: String,
    #[serde(default)]
    tags: std::collections::HashMap<String, Vec<String>>,
    #[serde(borrow)]
    values: Vec<(&'a RawValue, &'a RawValue)>,
}

struct Reader<'a> {
    names: &'a Names,
    query: &'a Query,
}

impl Reader<'_> {
    fn rows(&self, body: &[u8]) -> Result<Rows> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| invalid_json(&error))?;
        let query = self.query;
        let schema = &self.names.schema;
        let mut joiner = Joiner::new(query);
        let kinds = CellKind::of(schema, query);
        let by_device =
            !matches!(query.shape, Shape::Aggregate { by_device: false, .. } | Shape::Buckets { by_device: false, .. });
        let fields = series::columns(query);
        for series in
            answer.queries.iter().flat_map(|answer| &answer.results).filter(|series| !series.values.is_empty())
        {
            let named = |field: &&u32| metric(schema, query.table, **field) == series.name;
            let field = *fields.iter().find(named).ok_or_else(|| {
                Error::protocol(format!("an answer has the metric {:?}, which was not selected", series.name))
            })?;
            let device = if by_device { Some(self.device(series)?) } else { None };
            let column = joiner.column(field).unwrap_or(0);
            let kind = schema.tables[query.table as usize].fields[field as usize].kind;
            let wanted = kinds.get(column).copied().unwrap_or(CellKind::Value(kind));
            for (at, value) in &series.values {
                let at = time(at.get())?;
                let at = match query.shape {
                    Shape::Aggregate { .. } => None,
                    Shape::Buckets { width, origin, .. } => Some(origin + (at - origin).div_euclid(width) * width),
                    _ => Some(at),
                };
                joiner.put(device, at, column, wanted.json(value.get())?);
            }
        }
        let missing = kinds.first().map_or(Cell::Null, |wanted| wanted.missing());
        let mut rows = joiner.finish(query, &missing);
        if query.shape == Shape::Latest {
            rows.rows = newest(rows.rows);
        }
        if query.shape == Shape::Rows && query.limit.is_some() {
            if query.order == Order::Any {
                rows.rows.sort_by_key(|row| row.time);
            }
            rows.rows.truncate(query.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX));
        }
        Ok(rows)
    }

    fn device(&self, series: &Series) -> Result<u32> {
        let tag = &self.names.schema.tables[self.query.table as usize].tags[0];
        match series.tags.get(tag).map(Vec::as_slice) {
            Some([name]) => self.names.devices.find(self.query.table, name),
            other => Err(Error::protocol(format!("an answer's series has the devices {other:?}, expected one"))),
        }
    }
}

/// Selects the newest row of each device; fields whose newest value is older are null in it.
fn newest(rows: Vec<Row>) -> Vec<Row> {
    let mut newest: std::collections::BTreeMap<Option<u32>, Row> = Default::default();
    for row in rows {
        match newest.get(&row.device) {
            Some(other) if other.time >= row.time => {}
            _ => drop(newest.insert(row.device, row)),
        }
    }
    newest.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{self, ABLE, Abilities};
    use super::super::testing::{Private, START, ask, sample_batch, sample_schema};
    use super::*;
    use crate::error::Class;
    use crate::peers::Product;
    use crate::query::Filter;

    const UNSUPPORTED: &[&str] = &[
        "set/",
        "buckets/count/origin",
        "buckets/sum/origin",
        "buckets/avg/origin",
        "buckets/min/origin",
        "buckets/max/origin",
        "buckets/first/origin",
        "buckets/last/origin",
        "buckets/count/late origin",
        "buckets/sum/late origin",
        "buckets/avg/late origin",
        "buckets/min/late origin",
        "buckets/max/late origin",
        "buckets/first/late origin",
        "buckets/last/late origin",
    ];

    #[test]
    fn kairosdb_answers_every_query_as_brute_force_does() {
        let server = Private::start(Product::KairosDb);
        let target = server.target("kairosdb", "http");
        conformance::check(&target, &Abilities { float32: false, unsupported: UNSUPPORTED, ..ABLE });
        conformance::check_wide(&target, 300);
        buckets_begin_at_the_start_of_the_window(&server);
    }

    fn buckets_begin_at_the_start_of_the_window(server: &Private) {
        let (driver, _) = server.driver("kairosdb", "http");
        let mut connection = driver.connect(0).expect("connects");
        connection.clear().expect("cleared");
        connection.encode(&sample_batch(0..20)).expect("encoded");
        connection.send().expect("accepted");
        let shape = |aggregate| Shape::Buckets { aggregate, width: 7_500, origin: START + 1_500, by_device: true };
        let window = Some(START + 1_500..START + 19_000);
        let query = Query { window, shape: shape(Aggregate::Count), fields: vec![0], ..sample_schema().1 };
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let mut rows = ask(connection.as_mut(), &query).rows;
        while rows.len() < 3 && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
            rows = ask(connection.as_mut(), &query).rows;
        }
        let seen: Vec<(i64, &Cell)> =
            rows.iter().map(|row| (row.time.expect("a time") - START, &row.cells[0])).collect();
        assert_eq!(seen, [(1_500, &Cell::Int(7)), (9_000, &Cell::Int(8)), (16_500, &Cell::Int(2))]);
        connection.clear().expect("cleared");
    }

    #[test]
    fn a_batch_is_exactly_this_json() {
        let (schema, _) = sample_schema();
        let names = Names::new(&Arc::new(schema));
        let mut batch = sample_batch(1..3);
        batch.parts.remove(0);
        let mut out = Vec::new();
        names.encode(&batch, &mut out);
        let expected = [
            r#"[{"name":"g_0.s_0","tags":{"device":"d_1","tag_0":"v"},"#,
            r#""datapoints":[[1667059201000,-1],[1667059202000,-2]]},"#,
            r#"{"name":"g_0.s_1","tags":{"device":"d_1","tag_0":"v"},"#,
            r#""datapoints":[[1667059201000,-1.25],[1667059202000,-2.25]]}]"#,
        ];
        assert_eq!(String::from_utf8(out).expect("text"), expected.concat());
    }

    #[test]
    fn unsupported_queries_are_refused() {
        let (schema, query) = sample_schema();
        let shape = Shape::Aggregate { aggregate: Aggregate::Sum, by_device: true };
        let filters = vec![Filter { field: 1, above: 0.0 }];
        let other = Query { shape: shape.clone(), fields: vec![0], filters: filters.clone(), ..query.clone() };
        let limited = Query { limit: Some(5), filters, ..query.clone() };
        let nth = Query { limit: Some(5), shape, ..query };
        for query in [other, limited, nth] {
            let refused = QueryRequest { schema: &schema, query: &query }.body().expect_err("refused");
            assert_eq!(refused.class, Class::Unsupported, "{query:?}");
        }
    }
}
