//! InfluxDB 2.x: line protocol and Flux over HTTP.
//!
//! Targets: `influxdb2://host[:8086][/bucket]`, options `org=` and `token=` (otherwise INFLUXDB_ORG and TOKEN of the
//! configuration). Measurement = table, tags = tags, fields = fields.
//!
//! Differences from IoT-benchmark: integers are written with `i`, so that they are stored as
//! integers; a query is one Flux program, not several per device and field that are reported as
//! one; a failed query is a failure.
//!
//! Never run against the product, which is not available here. Writes are tested with
//! VictoriaMetrics, which accepts `/api/v2/write`; queries are written from the documentation.
//!
//! Sources: InfluxDB OSS v2 API reference (`/api/v2/write`, `/api/v2/query`, `/api/v2/buckets`), "Optimize writes to
//! InfluxDB", "Annotated CSV", and the reference of Flux's `universe` package.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::cells::{CellKind, Devices, csv_fields};
use super::http::{Http, form};
use super::line::{ALL_TYPED, Encoder};
use super::series::{self, Joiner};
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Class, Error, Result};
use crate::query::{Aggregate, Filter, Order, Query, Rows, Shape};
use crate::schema::{Batch, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "influxdb2",
    summary: "InfluxDB 2.x: line protocol, Flux (org=, token=)",
    proof: Proof::Peer("VictoriaMetrics 1.79.5 for writes; Flux from its documentation"),
    open: |opening| Ok(Box::new(Influx2::open(opening)?)),
};

const PORT: u16 = 8086;
/// Range of InfluxDB's times in nanoseconds.
const TIMES: Range<i64> = i64::MIN + 2..i64::MAX - 1;

struct Influx2 {
    opening: Opening,
    bucket: String,
    organisation: String,
    token: String,
    lines: Arc<Encoder>,
    devices: Arc<Devices>,
}

impl Influx2 {
    fn open(opening: Opening) -> Result<Influx2> {
        opening.target.only(&["org", "token"])?;
        let bucket = opening.target.database.clone().unwrap_or_else(|| opening.schema.database.clone());
        let organisation = opening.target.option("org", &opening.config.influxdb_org).to_owned();
        let token = opening.target.option("token", &opening.config.token).to_owned();
        let lines = Arc::new(Encoder::new(&opening.schema, ALL_TYPED));
        let devices = Arc::new(Devices::new(&opening.schema));
        Ok(Influx2 { opening, bucket, organisation, token, lines, devices })
    }
}

impl Driver for Influx2 {
    fn about(&self) -> About {
        About {
            product: "InfluxDB 2.x",
            write_path: "line protocol over HTTP, POST /api/v2/write, one request a batch, keep-alive, not compressed"
                .to_owned(),
            why: "the only write path; its documentation recommends batches, the coarsest precision and tags sorted by key, \
                  all of which apply here. It recommends gzip for slow networks; on a fast one it costs both sides more",
            durability: "after fsync of the write-ahead log (storage-wal-fsync-delay = 0, the default)".to_owned(),
            durable: true,
            visible_at_once: true,
            replaces: true,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.header("Authorization", &format!("Token {}", self.token))?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        let parameters =
            [("org", self.organisation.as_str()), ("bucket", &self.bucket), ("precision", self.lines.precision())];
        Ok(Box::new(Influx2Connection {
            http,
            write_target: format!("/api/v2/write?{}", form(&parameters)),
            query_target: format!("/api/v2/query?{}", form(&parameters[..1])),
            write_timeout,
            read_timeout,
            schema: Arc::clone(&self.opening.schema),
            bucket: self.bucket.clone(),
            organisation: self.organisation.clone(),
            lines: Arc::clone(&self.lines),
            devices: Arc::clone(&self.devices),
            buffer: Vec::new(),
        }))
    }
}

struct Influx2Connection {
    http: Http,
    write_target: String,
    query_target: String,
    write_timeout: Duration,
    read_timeout: Duration,
    schema: Arc<Schema>,
    bucket: String,
    organisation: String,
    lines: Arc<Encoder>,
    devices: Arc<Devices>,
    buffer: Vec<u8>,
}

/// A bucket or an organisation in the API's answers.
#[derive(Deserialize)]
struct Named {
    id: String,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    buckets: Vec<Named>,
    #[serde(default)]
    orgs: Vec<Named>,
}

#[derive(Deserialize)]
struct Health {
    version: String,
}

impl Connection for Influx2Connection {
    fn version(&mut self) -> Result<String> {
        self.http.get("/health", self.read_timeout)?;
        self.json::<Health>("GET /health").map(|health| health.version)
    }

    fn clear(&mut self) -> Result<()> {
        let target = format!("/api/v2/buckets?{}", form(&[("org", &self.organisation), ("name", &self.bucket)]));
        if self.http.exchange("GET", &target, "", &[], self.read_timeout)? == 404 {
            return Ok(());
        }
        self.http.get(&target, self.read_timeout)?;
        for bucket in self.json::<List>(&target)?.buckets {
            self.http.delete(&format!("/api/v2/buckets/{}", bucket.id), self.read_timeout)?;
        }
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        let target = format!("/api/v2/orgs?{}", form(&[("org", &self.organisation)]));
        self.http.get(&target, self.read_timeout)?;
        let organisation = self.json::<List>(&target)?.orgs.into_iter().next();
        let organisation = organisation
            .ok_or_else(|| Error::setup(format!("InfluxDB has no organisation {:?}", self.organisation)))?;
        let bucket = serde_json::json!({"orgID": organisation.id, "name": self.bucket, "retentionRules": []});
        let body = bucket.to_string();
        match self.http.post("/api/v2/buckets", "application/json", body.as_bytes(), self.read_timeout) {
            // Another connection has created it.
            Err(error) if error.class == Class::Refused && error.message.contains("already exists") => Ok(()),
            outcome => outcome,
        }
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
        Program { schema: &self.schema, bucket: &self.bucket, query }.text()
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let dialect = serde_json::json!({"header": true, "annotations": ["datatype"], "dateTimeFormat": "RFC3339Nano"});
        let request = serde_json::json!({"type": "flux", "query": self.statement(query)?, "dialect": dialect});
        let body = request.to_string();
        self.http.post(&self.query_target, "application/json", body.as_bytes(), self.read_timeout)?;
        failure_in(self.http.body())
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        Reader { schema: &self.schema, devices: &self.devices, query }.rows(&self.http.text())
    }
}

impl Influx2Connection {
    fn json<T: serde::de::DeserializeOwned>(&self, what: &str) -> Result<T> {
        serde_json::from_slice(self.http.body())
            .map_err(|error| Error::protocol(format!("{what}: the answer is not the expected JSON: {error}")))
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

/// A query as one Flux program.
struct Program<'a> {
    schema: &'a Schema,
    bucket: &'a str,
    query: &'a Query,
}

impl Program<'_> {
    fn text(&self) -> Result<String> {
        let query = self.query;
        if query.set.is_some() {
            return Err(Error::unsupported("Flux has unions of tables only, no set operations on rows"));
        }
        match &query.shape {
            Shape::Rows => Ok(format!("{}{}{}{}", self.source(), ROWS, self.filtered(), self.finish())),
            Shape::Latest if query.filters.is_empty() => {
                Ok(format!("{}\n  |> last(){ROWS}{NEWEST}{}", self.source(), self.finish()))
            }
            Shape::Latest => Ok(format!("{}{ROWS}{}{NEWEST}{}", self.source(), self.filtered(), self.finish())),
            Shape::Aggregate { by_device: true, .. } if query.limit.is_some() && !self.one_device() => {
                Err(Error::unsupported("in Flux a limit applies to each device's table, not to the aggregates of all"))
            }
            Shape::Aggregate { aggregate, by_device } => {
                let function = function(*aggregate);
                Ok(self.each_field(*aggregate, *by_device, &|column| match column {
                    None => format!("{function}()"),
                    Some(column) => format!("{function}(column: {column})"),
                }))
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                let function = function(*aggregate);
                let suffix = self.suffix();
                let offset = origin.rem_euclid(*width);
                let window = |column: Option<&str>| {
                    let column = column.map_or(String::new(), |column| format!(", column: {column}"));
                    format!(
                        "aggregateWindow(every: {width}{suffix}, offset: {offset}{suffix}, fn: {function}{column}, \
                         timeSrc: \"_start\", createEmpty: false)"
                    )
                };
                if !query.filters.is_empty() && query.limit.is_some() && query.fields.len() > 1 {
                    return Err(Error::unsupported("Flux cannot limit buckets of several filtered fields"));
                }
                Ok(self.each_field(*aggregate, *by_device, &window))
            }
        }
    }

    /// Applies an aggregate to every field. `apply` receives the column, or `None` for `_value`.
    fn each_field(&self, aggregate: Aggregate, by_device: bool, apply: &dyn Fn(Option<&str>) -> String) -> String {
        let device = string(self.tag());
        let in_order = matches!(aggregate, Aggregate::First | Aggregate::Last);
        let ordered = if in_order { "\n  |> sort(columns: [\"_time\"])" } else { "" };
        let in_time = matches!(self.query.shape, Shape::Buckets { .. });
        if self.query.filters.is_empty() {
            let together =
                if by_device { String::new() } else { "\n  |> group(columns: [\"_field\"])".to_owned() + ordered };
            let finish = if in_time { ROWS.to_owned() + &self.finish() } else { String::new() };
            return format!("{}{together}\n  |> {}{finish}", self.source(), apply(None));
        }
        // Filters apply to rows, so that rows are built first; then each field is a separate
        // result.
        let by = if by_device { format!("[{device}]") } else { "[]".to_owned() };
        let mut text =
            format!("data = {}{ROWS}{}\n  |> group(columns: {by}){ordered}\n", self.source(), self.filtered());
        for field in &self.query.fields {
            let column = string(&self.field(*field));
            text.push_str(&format!(
                "data\n  |> filter(fn: (r) => exists r[{column}])\n  |> {}{}\n  |> yield(name: {column})\n",
                apply(Some(&column)),
                if in_time { self.finish() } else { String::new() },
            ));
        }
        text
    }

    fn one_device(&self) -> bool {
        self.query.devices.as_ref().is_some_and(|devices| devices.len() == 1)
    }

    fn tag(&self) -> &str {
        &self.schema.tables[self.query.table as usize].tags[0]
    }

    fn field(&self, field: u32) -> String {
        self.schema.tables[self.query.table as usize].fields[field as usize].name.clone()
    }

    /// `from` … `filter`: the points of the selected devices and fields.
    fn source(&self) -> String {
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let nanos = |time: i64| time.saturating_mul(self.schema.unit.nanos()).clamp(TIMES.start, TIMES.end);
        let measurement = string(&self.schema.tables[self.query.table as usize].name);
        let mut conditions = vec![format!("r[\"_measurement\"] == {measurement}")];
        if let Some(devices) = &self.query.devices {
            let names: Vec<String> = devices.iter().map(|device| self.schema.device_name(*device).to_owned()).collect();
            conditions.push(any_of(self.tag(), &names));
        }
        let fields: Vec<String> = series::columns(self.query).into_iter().map(|field| self.field(field)).collect();
        conditions.push(any_of("_field", &fields));
        format!(
            "from(bucket: {})\n  |> range(start: time(v: {}), stop: time(v: {}))\n  |> filter(fn: (r) => {})",
            string(self.bucket),
            nanos(window.start),
            nanos(window.end),
            conditions.join(" and ")
        )
    }

    /// Filters on values.
    fn filtered(&self) -> String {
        if self.query.filters.is_empty() {
            return String::new();
        }
        let one = |filter: &Filter| format!("r[{}] > {}", string(&self.field(filter.field)), self.bound(filter));
        let all: Vec<String> = self.query.filters.iter().map(one).collect();
        format!("\n  |> filter(fn: (r) => {})", all.join(" and "))
    }

    /// Flux compares values of the same type: integers are compared with the next lower integer.
    fn bound(&self, filter: &Filter) -> String {
        let kind = self.schema.tables[self.query.table as usize].fields[filter.field as usize].kind;
        if kind.decimals() == 0
            && !matches!(kind, crate::schema::Kind::Double { .. } | crate::schema::Kind::Float { .. })
        {
            return format!("{}", filter.above.floor() as i64);
        }
        let text = format!("{}", filter.above);
        if text.contains('.') { text } else { text + ".0" }
    }

    /// Selects columns, order and limit.
    fn finish(&self) -> String {
        let mut names = vec!["_time".to_owned(), self.tag().to_owned()];
        names.extend(self.query.fields.iter().map(|field| self.field(*field)));
        let names: Vec<String> = names.iter().map(|name| string(name)).collect();
        let mut text = format!("\n  |> keep(columns: [{}])", names.join(", "));
        if self.query.limit.is_some() {
            text.push_str("\n  |> group()");
        }
        match self.query.order {
            Order::Descending => text.push_str("\n  |> sort(columns: [\"_time\"], desc: true)"),
            Order::Ascending => text.push_str("\n  |> sort(columns: [\"_time\"])"),
            Order::Any => {}
        }
        if let Some(limit) = self.query.limit {
            text.push_str(&format!("\n  |> limit(n: {limit})"));
        }
        text
    }

    /// Unit suffix of intervals.
    fn suffix(&self) -> &'static str {
        match self.schema.unit {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Nanos => "ns",
        }
    }
}

/// Joins points into rows.
const ROWS: &str = "\n  |> pivot(rowKey: [\"_time\"], columnKey: [\"_field\"], valueColumn: \"_value\")";
/// Selects the newest row of each device.
const NEWEST: &str = "\n  |> sort(columns: [\"_time\"])\n  |> tail(n: 1)";

fn function(aggregate: Aggregate) -> &'static str {
    if aggregate == Aggregate::Avg { "mean" } else { aggregate.name() }
}

fn any_of(column: &str, values: &[String]) -> String {
    let one = |value: &String| format!("r[{}] == {}", string(column), string(value));
    let all: Vec<String> = values.iter().map(one).collect();
    if all.len() == 1 { all.join("") } else { format!("({})", all.join(" or ")) }
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "\\${").replace('\n', "\\n"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

struct Reader<'a> {
    schema: &'a Schema,
    devices: &'a Devices,
    query: &'a Query,
}

impl Reader<'_> {
    fn rows(&self, text: &str) -> Result<Rows> {
        let mut joiner = Joiner::new(self.query);
        let wanted = CellKind::of(self.schema, self.query);
        let mut header: Option<Vec<String>> = None;
        for line in text.lines() {
            if line.is_empty() {
                header = None;
                continue;
            }
            if line.starts_with('#') {
                header = None;
                continue;
            }
            let values = csv_fields(line);
            match &header {
                None => header = Some(values),
                Some(names) if names.len() == values.len() => self.record(names, &values, &wanted, &mut joiner)?,
                Some(names) => {
                    let (expected, seen) = (names.len(), values.len());
                    return Err(Error::protocol(format!("a line of CSV has {seen} values, expected {expected}")));
                }
            }
        }
        let missing = wanted.first().map_or(crate::query::Cell::Null, |wanted| wanted.missing());
        Ok(joiner.finish(self.query, &missing))
    }

    fn record(&self, names: &[String], values: &[String], wanted: &[CellKind], joiner: &mut Joiner) -> Result<()> {
        let of = |name: &str| names.iter().position(|other| other == name).map(|at| values[at].as_str());
        let table = &self.schema.tables[self.query.table as usize];
        let device = of(&table.tags[0]).filter(|name| !name.is_empty());
        let device = device.map(|name| self.devices.find(self.query.table, name)).transpose()?;
        let time = match self.query.shape {
            Shape::Aggregate { .. } => None,
            Shape::Buckets { width, origin, .. } => {
                let time = self.time(of("_time"))?;
                // The start of the first bucket may be cut to the window's.
                Some(origin + (time - origin).div_euclid(width) * width)
            }
            _ => Some(self.time(of("_time"))?),
        };
        let column = |name: &str| self.query.fields.iter().position(|field| table.fields[*field as usize].name == name);
        if let (Some(field), Some(value)) = (of("_field"), of("_value")) {
            let at = column(field)
                .ok_or_else(|| Error::protocol(format!("an answer has field {field:?}, which was not selected")))?;
            joiner.put(device, time, at, wanted[at].plain(value)?);
            return Ok(());
        }
        for (name, value) in names.iter().zip(values) {
            if let (Some(at), false) = (column(name), value.is_empty()) {
                joiner.put(device, time, at, wanted[at].plain(value)?);
            }
        }
        Ok(())
    }

    fn time(&self, text: Option<&str>) -> Result<i64> {
        let text = text.ok_or_else(|| Error::protocol("an answer has no column _time"))?;
        let time: jiff::Timestamp =
            text.parse().map_err(|_| Error::protocol(format!("an answer has {text:?}, expected a time")))?;
        let units = time.as_nanosecond().div_euclid(i128::from(self.schema.unit.nanos()));
        i64::try_from(units).map_err(|_| Error::protocol(format!("an answer's time {text} is out of range")))
    }
}

/// Finds an error after the start of an answer: a separate table with the columns `error` and
/// `reference`.
fn failure_in(body: &[u8]) -> Result<()> {
    let Some(at) = memchr::memmem::find(body, b"error,reference") else { return Ok(()) };
    let text = String::from_utf8_lossy(&body[at..]);
    let message = text.lines().nth(1).unwrap_or_default().to_owned();
    let class =
        if message.contains("timeout") || message.contains("deadline") { Class::Timeout } else { Class::Server };
    Err(Error::new(class, format!("the query failed after the start of its answer: {message}")))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Private, START, ask, driver_for, sample_batch, sample_schema};
    use super::*;
    use crate::peers::Product;
    use crate::query::{Cell, Row};

    fn program(change: impl FnOnce(&mut Query)) -> Result<String> {
        let (schema, mut query) = sample_schema();
        change(&mut query);
        Program { schema: &schema, bucket: "b", query: &query }.text()
    }

    /// VictoriaMetrics accepts `/api/v2/write`; the rows are read back with its own driver.
    #[test]
    fn writes_are_accepted_by_another_server_of_the_protocol() {
        let server = Private::start(Product::VictoriaMetrics);
        let (driver, _) = server.driver("influxdb2", "http");
        let mut connection = driver.connect(0).expect("connects");
        connection.encode(&sample_batch(0..10)).expect("encoded");
        connection.send().expect("accepted");
        let (reader, _) = driver_for(server.target("victoriametrics", "http"));
        let mut reader = reader.connect(0).expect("connects");
        reader.settle().expect("flushed");
        std::thread::sleep(Duration::from_secs(2));
        let window = Some(START..START + 100_000);
        let rows = ask(
            reader.as_mut(),
            &Query { window, devices: Some(vec![1]), order: Order::Ascending, ..sample_schema().1 },
        );
        assert_eq!(rows.rows.len(), 10);
        let third = Row { device: Some(1), time: Some(START + 3000), cells: vec![Cell::Int(-3), Cell::Float(-3.25)] };
        assert_eq!(rows.rows[3], third);
    }

    #[test]
    fn rows_are_selected_by_one_program_with_an_exact_window() {
        let text = program(|query| {
            query.devices = Some(vec![0, 1]);
            query.window = Some(START..START + 5);
            query.filters = vec![Filter { field: 0, above: -5.5 }, Filter { field: 1, above: -5.0 }];
            query.order = Order::Descending;
            query.limit = Some(7);
        });
        let expected = "from(bucket: \"b\")\n  \
             |> range(start: time(v: 1667059200000000000), stop: time(v: 1667059200005000000))\n  \
             |> filter(fn: (r) => r[\"_measurement\"] == \"g_0\" and (r[\"device\"] == \"d_0\" or r[\"device\"] == \"d_1\") \
             and (r[\"_field\"] == \"s_0\" or r[\"_field\"] == \"s_1\"))\n  \
             |> pivot(rowKey: [\"_time\"], columnKey: [\"_field\"], valueColumn: \"_value\")\n  \
             |> filter(fn: (r) => r[\"s_0\"] > -6 and r[\"s_1\"] > -5.0)\n  \
             |> keep(columns: [\"_time\", \"device\", \"s_0\", \"s_1\"])\n  \
             |> group()\n  |> sort(columns: [\"_time\"], desc: true)\n  |> limit(n: 7)";
        assert_eq!(text.expect("can be asked"), expected);
    }

    #[test]
    fn aggregates_of_filtered_rows_are_results_of_one_program() {
        let text = program(|query| {
            query.shape = Shape::Aggregate { aggregate: Aggregate::Avg, by_device: true };
            query.filters = vec![Filter { field: 1, above: 2.0 }];
            query.window = None;
        });
        let text = text.expect("can be asked");
        assert!(
            text.starts_with("data = from(bucket: \"b\")\n  |> range(start: time(v: -9223372036854775806), stop: ")
        );
        assert!(
            text.contains("|> group(columns: [\"device\"])\ndata\n  |> filter(fn: (r) => exists r[\"s_0\"])"),
            "{text}"
        );
        assert!(text.contains("|> mean(column: \"s_0\")\n  |> yield(name: \"s_0\")"), "{text}");
        assert!(text.ends_with("|> mean(column: \"s_1\")\n  |> yield(name: \"s_1\")\n"), "{text}");
    }

    #[test]
    fn buckets_begin_at_their_origin() {
        let text = program(|query| {
            let aggregate = Aggregate::Count;
            query.shape = Shape::Buckets { aggregate, width: 20_000, origin: START + 7, by_device: false };
        });
        let window = "|> group(columns: [\"_field\"])\n  |> aggregateWindow(every: 20000ms, offset: 7ms, fn: count, timeSrc: \
                      \"_start\", createEmpty: false)\n  |> pivot(";
        assert!(text.as_ref().expect("can be asked").contains(window), "{text:?}");
    }

    #[test]
    fn answers_in_annotated_csv_become_rows() {
        let (schema, query) = sample_schema();
        let devices = Devices::new(&schema);
        let read = |query: &Query, text: &str| Reader { schema: &schema, devices: &devices, query }.rows(text);
        let text = "#datatype,string,long,dateTime:RFC3339,string,long,double\r\n,result,table,_time,device,s_0,s_1\r\n\
                    ,_result,0,2022-10-29T16:00:00.25Z,d_0,-7,1.5\r\n,_result,0,2022-10-29T16:00:01Z,d_1,,\"2.25\"\r\n\r\n\
                    #datatype,string,long,dateTime:RFC3339,string,double\r\n,result,table,_time,device,s_1\r\n\
                    ,_result,1,2022-10-29T16:00:02Z,d_0,3\r\n\r\n";
        let rows = read(&query, text).expect("rows").rows;
        assert_eq!(rows.len(), 3);
        let first = Row { device: Some(0), time: Some(START + 250), cells: vec![Cell::Int(-7), Cell::Float(1.5)] };
        assert_eq!(rows[0], first);
        assert_eq!(rows[1].cells, [Cell::Null, Cell::Float(3.0)]);
        let shape = Shape::Aggregate { aggregate: Aggregate::Count, by_device: true };
        let counts = ",result,table,device,_field,_value\n,_result,0,d_1,s_0,5\n,_result,1,d_1,s_1,6\n";
        let rows = read(&Query { shape, ..query.clone() }, counts).expect("rows").rows;
        assert_eq!(rows, [Row { device: Some(1), time: None, cells: vec![Cell::Int(5), Cell::Int(6)] }]);
        for wrong in
            [",result,table,_time,device\n,a,b\n", ",_time,device,s_0\n,yesterday,d_0,1\n", ",_time,device\n,,nobody\n"]
        {
            assert_eq!(read(&query, wrong).expect_err(wrong).class, Class::Protocol);
        }
    }

    #[test]
    fn error_after_the_first_rows_is_a_failure() {
        let body =
            b"#datatype,string,long\r\n,result,table\r\n,a,0\r\n\r\n#datatype,string,string\r\n,error,reference\r\n\
                     ,Failed to parse query,897\r\n";
        let error = failure_in(body).expect_err("failed");
        assert!(error.message.contains("Failed to parse query"), "{error}");
        failure_in(b",result,table\r\n").expect("no error");
    }
}
