//! VictoriaMetrics: writes by Prometheus remote write, queries by MetricsQL and raw exports. One
//! series per device and field.
//!
//! Targets: `victoriametrics://host[:8428]`, option `write=remote|line`. A series is named
//! `TABLE_FIELD`, as VictoriaMetrics names those of line protocol, and has the tags as labels;
//! `write=line` creates the same series.
//!
//! Limits of the product, and how this driver handles them:
//! - It stores only numbers with times in milliseconds: other schemas are refused. Booleans are
//!   written as 0 and 1.
//! - A sample that is written twice is stored twice (unless the server runs with
//!   `-dedup.minScrapeInterval`): nothing is replaced.
//! - It has no value filters for raw samples, no order and no rows: raw samples are exported by
//!   series, then joined, filtered and sorted while the answer is decoded, which is not timed for
//!   any product.
//! - A range `[d]` at time t is (t - d, t]. Windows are [start, end) in whole milliseconds, so that
//!   t = end - 1 ms is exact. Times are sent half a millisecond late, because the server truncates
//!   fractions of floats.
//!
//! Queries have `nocache=1`: otherwise the server rounds the ends of range queries, and answers
//! repeated queries from its cache. It must run with `-search.latencyOffset=0s`, or it hides the
//! newest 30 seconds.
//!
//! Sources: the manual of VictoriaMetrics 1.79 ("How to import time series data", "How to export data in JSON line
//! format", "How to delete time series", "Forced merge", "MetricsQL"); remote write: the Prometheus Remote-Write 1.0
//! specification; Snappy's "format_description.txt".

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::cells::{CellKind, Devices, time};
use super::http::{FORM, Http, form};
use super::line::{Encoder, Style};
use super::series::{self, Joiner};
use super::{About, Connection, Driver, Entry, Opening, Proof};
use crate::error::{Error, Result};
use crate::query::{Aggregate, Cell, Query, Row, Rows, Shape};
use crate::schema::{Batch, Kind, Part, Schema, Unit};

pub(crate) const ENTRY: Entry = Entry {
    name: "victoriametrics",
    summary: "VictoriaMetrics: remote write or line protocol (write=remote|line), MetricsQL",
    proof: Proof::Product("VictoriaMetrics 1.79.5"),
    open: |opening| Ok(Box::new(Victoria::open(opening)?)),
};

const PORT: u16 = 8428;
/// Start of unbounded windows, in milliseconds. Ranges that reach back to 1970 return nothing.
const FIRST: i64 = 86_400_000;
/// End of unbounded windows, in milliseconds: 2100; the server refuses later times.
const LAST: i64 = 4_102_444_800_000;
/// Most values per series in a range query (`-search.maxPointsPerTimeseries`).
const BUCKETS_MAX: i64 = 30_000;
/// A remote write request ends before the series that exceeds this size; the server's limit is 32
/// MiB.
const REQUEST_BYTES: usize = 8 << 20;

struct Victoria {
    opening: Opening,
    write: &'static str,
    names: Arc<Names>,
}

/// Encoded labels and names, prepared once for all connections.
struct Names {
    schema: Arc<Schema>,
    lines: Option<Encoder>,
    /// Encoded labels except the name, by device.
    labels: Vec<Box<[u8]>>,
    /// Encoded name labels, by table and field.
    series: Vec<Vec<Box<[u8]>>>,
    /// Table and field by series name.
    fields: HashMap<String, (u32, u32)>,
    devices: Devices,
}

impl Victoria {
    fn open(opening: Opening) -> Result<Victoria> {
        opening.target.only(&["write"])?;
        let write = opening.target.choice("write", &["remote", "line"])?;
        let schema = &opening.schema;
        if schema.unit != Unit::Millis {
            return Err(Error::unsupported(
                "VictoriaMetrics stores times in milliseconds: run with --set TIMESTAMP_PRECISION=ms",
            ));
        }
        let fields = schema.tables.iter().flat_map(|table| &table.fields);
        if let Some(field) = fields.into_iter().find(|field| field.kind.text_length().is_some()) {
            return Err(Error::unsupported(format!(
                "VictoriaMetrics stores only numbers, and field {} is a text: run with --set \
                 INSERT_DATATYPE_PROPORTION=1:1:1:1:1:0:0:0:0:0:0",
                field.name
            )));
        }
        let names = Arc::new(Names::new(schema, write == "line"));
        Ok(Victoria { opening, write, names })
    }
}

impl Names {
    fn new(schema: &Arc<Schema>, with_lines: bool) -> Names {
        // Integers without `i`: the server parses them faster, and has no types.
        let style = Style { integer_suffix: "", time_factor: 1, binary_floats: false, texts: false };
        let mut fields = HashMap::new();
        let mut series = Vec::new();
        for (number, table) in schema.tables.iter().enumerate() {
            let mut labels = Vec::new();
            for (field, definition) in table.fields.iter().enumerate() {
                let name = format!("{}_{}", table.name, definition.name);
                labels.push(label("__name__", &name).into_boxed_slice());
                fields.insert(name, (number as u32, field as u32));
            }
            series.push(labels);
        }
        let labels = schema.devices.iter().map(|device| {
            let tags = schema.tables[device.table as usize].tags.iter().zip(&device.tags);
            tags.flat_map(|(tag, value)| label(tag, value)).collect()
        });
        Names {
            lines: with_lines.then(|| Encoder::new(schema, style)),
            labels: labels.collect(),
            series,
            fields,
            devices: Devices::new(schema),
            schema: Arc::clone(schema),
        }
    }
}

impl Driver for Victoria {
    fn about(&self) -> About {
        let write_path = match self.write {
            "line" => "line protocol, POST /write, one request a batch, keep-alive, not compressed",
            _ => {
                "Prometheus remote write, POST /api/v1/write, one request a batch (8 MiB at most), keep-alive; Snappy \
                  as literals, that is without compression"
            }
        };
        About {
            product: "VictoriaMetrics",
            write_path: write_path.to_owned(),
            why: "its documentation calls /import/native the fastest, but its format private; therefore all were \
                  measured, 6 million values in batches of 100 rows, million values per server-CPU-second with 20 and 300 \
                  fields: remote write 2.4 and 2.7, native 2.3 and 2.1, JSON lines 2.2 and 1.8, line protocol 2.0 and \
                  1.5, CSV 1.8 (20 fields)",
            durability: "in the server's memory; it has no log, and writes parts to disk within seconds".to_owned(),
            durable: false,
            visible_at_once: false,
            replaces: false,
        }
    }

    fn connect(&self, client: usize) -> Result<Box<dyn Connection>> {
        let mut http = Http::to(&self.opening.target, client, PORT)?;
        http.header("X-Prometheus-Remote-Write-Version", "0.1.0")?;
        http.open()?;
        let (write_timeout, read_timeout) = super::timeouts(&self.opening.config);
        Ok(Box::new(VictoriaConnection {
            http,
            write_timeout,
            read_timeout,
            names: Arc::clone(&self.names),
            buffer: Vec::new(),
            requests: Vec::new(),
            samples: Samples::default(),
        }))
    }
}

struct VictoriaConnection {
    http: Http,
    write_timeout: Duration,
    read_timeout: Duration,
    names: Arc<Names>,
    buffer: Vec<u8>,
    /// Ranges of the remote write requests in `buffer`.
    requests: Vec<Range<usize>>,
    samples: Samples,
}

impl Connection for VictoriaConnection {
    fn version(&mut self) -> Result<String> {
        self.http.get("/metrics", self.read_timeout)?;
        let text = self.http.text();
        let line = text.lines().find(|line| line.starts_with("vm_app_version{")).unwrap_or_default();
        let label = |name: &str| {
            let value = line.split_once(&format!("{name}=\""))?.1.split('"').next()?;
            Some(value.to_owned()).filter(|value| !value.is_empty())
        };
        // Debian's build has no version there.
        Ok(label("short_version")
            .or_else(|| label(" version"))
            .unwrap_or_else(|| "unknown (it does not say)".to_owned()))
    }

    fn clear(&mut self) -> Result<()> {
        let names: Vec<String> = self.names.schema.tables.iter().map(|table| escaped(&table.name)).collect();
        for some in names.chunks(500) {
            let selector = format!("{{__name__=~{}}}", string(&format!("({})_.*", some.join("|"))));
            let body = form(&[("match[]", &selector)]);
            self.http.post("/api/v1/admin/tsdb/delete_series", FORM, body.as_bytes(), self.read_timeout)?;
        }
        Ok(())
    }

    fn create(&mut self, _devices: Range<u32>) -> Result<()> {
        // The first write creates a series.
        Ok(())
    }

    fn encode(&mut self, batch: &Batch) -> Result<()> {
        self.buffer.clear();
        self.requests.clear();
        let times = batch.parts.iter().flat_map(|part| &part.times);
        if let Some(time) = times.into_iter().find(|time| !(FIRST..LAST).contains(*time)) {
            return Err(Error::unsupported(format!(
                "VictoriaMetrics cannot store time {time}: expected milliseconds in {FIRST}..{LAST}"
            )));
        }
        match &self.names.lines {
            Some(lines) => lines.encode(batch, &mut self.buffer),
            None => remote_write(&self.names, batch, &mut self.samples, &mut self.buffer, &mut self.requests),
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.names.lines.is_some() {
            return self.http.post("/write?precision=ms", "text/plain", &self.buffer, self.write_timeout);
        }
        for request in &self.requests {
            let body = &self.buffer[request.clone()];
            self.http.post("/api/v1/write", "application/x-protobuf", body, self.write_timeout)?;
        }
        Ok(())
    }

    fn statement(&self, query: &Query) -> Result<String> {
        let request = Request::of(&self.names.schema, query)?;
        let pairs: Vec<String> = request.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Ok(format!("{} {}", request.path, pairs.join("&")))
    }

    fn query(&mut self, query: &Query) -> Result<()> {
        let request = Request::of(&self.names.schema, query)?;
        let pairs: Vec<(&str, &str)> = request.pairs.iter().map(|(key, value)| (*key, value.as_str())).collect();
        self.http.post(request.path, FORM, form(&pairs).as_bytes(), self.read_timeout)
    }

    fn answer(&mut self, query: &Query) -> Result<Rows> {
        let reader = Reader { names: &self.names, query };
        match query.shape {
            Shape::Rows => reader.export(self.http.body()),
            _ => reader.values(self.http.body()),
        }
    }

    fn settle(&mut self) -> Result<()> {
        self.http.get("/internal/force_flush", self.read_timeout)?;
        // Returns at once while the merge continues; the caller waits until the server is idle.
        self.http.get("/internal/force_merge", self.read_timeout)
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Remote write
//
// WriteRequest { repeated TimeSeries timeseries = 1 }, TimeSeries { repeated Label labels = 1, repeated Sample samples =
// 2 }, Label { string name = 1, value = 2 }, Sample { double value = 1, int64 timestamp = 2 }; as Snappy's block format.

/// Reserved bytes before a request, for Snappy's length and the tag of its only literal.
const SNAPPY_HEAD_BYTES: usize = 5 + 5;

/// The samples of one series with times, but without values: the same for all fields of a device.
#[derive(Default)]
struct Samples {
    bytes: Vec<u8>,
    /// Offsets of the values.
    values: Vec<usize>,
}

impl Samples {
    fn prepare(&mut self, times: &[i64]) {
        self.bytes.clear();
        self.values.clear();
        for time in times {
            let before = self.bytes.len();
            self.bytes.extend_from_slice(&[2 << 3 | 2, 0, 1 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0, 2 << 3]);
            varint(*time as u64, &mut self.bytes);
            self.bytes[before + 1] = (self.bytes.len() - before - 2) as u8;
            self.values.push(before + 3);
        }
    }
}

fn remote_write(
    names: &Names,
    batch: &Batch,
    samples: &mut Samples,
    out: &mut Vec<u8>,
    requests: &mut Vec<Range<usize>>,
) {
    let fields = &names.schema.tables[batch.table as usize].fields;
    let mut start = begin_request(out);
    for part in &batch.parts {
        samples.prepare(&part.times);
        let labels = &names.labels[part.device as usize];
        for (column, field) in batch.fields.clone().enumerate() {
            if out.len() - start > REQUEST_BYTES {
                requests.push(end_request(start, out));
                start = begin_request(out);
            }
            let name = &names.series[batch.table as usize][field as usize];
            out.push(1 << 3 | 2);
            varint((name.len() + labels.len() + samples.bytes.len()) as u64, out);
            out.extend_from_slice(name);
            out.extend_from_slice(labels);
            push_samples(samples, fields[field as usize].kind, part, column, out);
        }
    }
    requests.push(end_request(start, out));
}

fn push_samples(samples: &Samples, kind: Kind, part: &Part, column: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.extend_from_slice(&samples.bytes);
    // Sends the decimal value, not its 32-bit float, as text formats do.
    let kind = if let Kind::Float { decimals } = kind { Kind::Double { decimals } } else { kind };
    for (at, units) in samples.values.iter().zip(part.column(column)) {
        out[from + at..from + at + 8].copy_from_slice(&kind.number(*units).to_le_bytes());
    }
}

fn begin_request(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.resize(start + SNAPPY_HEAD_BYTES, 0);
    start
}

/// Writes Snappy's length and the literal's tag directly before the bytes; returns the range
/// without the unused reserve.
fn end_request(start: usize, out: &mut [u8]) -> Range<usize> {
    let length = out.len() - start - SNAPPY_HEAD_BYTES;
    let mut head = Vec::with_capacity(SNAPPY_HEAD_BYTES);
    varint(length as u64, &mut head);
    if length > 0 {
        // A literal with its length minus one in the next four bytes.
        head.push(63 << 2);
        head.extend_from_slice(&(length as u32 - 1).to_le_bytes());
    }
    let start = start + SNAPPY_HEAD_BYTES - head.len();
    out[start..start + head.len()].copy_from_slice(&head);
    start..out.len()
}

fn label(name: &str, value: &str) -> Vec<u8> {
    let mut inside = Vec::new();
    for (number, text) in [(1u8, name), (2, value)] {
        inside.push(number << 3 | 2);
        varint(text.len() as u64, &mut inside);
        inside.extend_from_slice(text.as_bytes());
    }
    let mut label = vec![1 << 3 | 2];
    varint(inside.len() as u64, &mut label);
    label.extend(inside);
    label
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

// ---------------------------------------------------------------------------------------------------------------------
// Queries

/// Path and form of a query.
struct Request {
    path: &'static str,
    pairs: Vec<(&'static str, String)>,
}

impl Request {
    fn of(schema: &Schema, query: &Query) -> Result<Request> {
        QueryRequest { schema, query }.request()
    }
}

struct QueryRequest<'a> {
    schema: &'a Schema,
    query: &'a Query,
}

impl QueryRequest<'_> {
    fn request(&self) -> Result<Request> {
        let query = self.query;
        if query.set.is_some() {
            return Err(Error::unsupported("MetricsQL has no set operations on rows"));
        }
        if query.limit.is_some() {
            return Err(Error::unsupported("VictoriaMetrics cannot limit rows"));
        }
        let (start, end) = self.window();
        match &query.shape {
            Shape::Rows => Ok(self.export(start, end)),
            Shape::Latest if !query.filters.is_empty() => Err(no_filter("the newest row")),
            Shape::Latest => {
                let range = format!("{}[{}ms]", self.selector(&query.fields), end - start);
                let newest = format!(
                    "union(last_over_time({range}) keep_metric_names, \
                     label_set(tlast_over_time({range}) keep_metric_names, \"is\", \"time\"))"
                );
                Ok(instant(newest, end))
            }
            Shape::Aggregate { aggregate, by_device } => {
                let text = self.aggregated(*aggregate, *by_device, &format!("[{}ms]", end - start))?;
                Ok(instant(text, end))
            }
            Shape::Buckets { aggregate, width, origin, by_device } => {
                self.buckets(*aggregate, *by_device, *width, *origin, start, end)
            }
        }
    }

    /// Start and end (exclusive) of the query's window, clamped to the supported range.
    fn window(&self) -> (i64, i64) {
        let window = self.query.window.clone().unwrap_or(i64::MIN..i64::MAX);
        let start = window.start.clamp(FIRST, LAST);
        (start, window.end.clamp(start, LAST))
    }

    fn export(&self, start: i64, end: i64) -> Request {
        let selector = self.selector(&series::columns(self.query));
        // Both ends are inclusive; an end before the start finds nothing.
        let pairs = vec![("match[]", selector), ("start", seconds(start)), ("end", seconds(end - 1))];
        Request { path: "/api/v1/export", pairs }
    }

    /// Selector of the series of some fields of the query's devices.
    fn selector(&self, fields: &[u32]) -> String {
        let table = &self.schema.tables[self.query.table as usize];
        let name = |field: &u32| format!("{}_{}", table.name, table.fields[*field as usize].name);
        let prefix = format!("{}_", table.name);
        let alone = !self.schema.tables.iter().any(|other| other.name.starts_with(&prefix));
        let all = fields.len() == table.fields.len() && fields.len() > 1 && alone;
        let mut text = match all {
            // Queries are limited to 16 KiB (`-search.maxQueryLen`), and tables may have thousands
            // of fields.
            true => format!("{{__name__=~{}", string(&format!("{}.+", escaped(&prefix)))),
            false => format!("{{__name__{}", matches(&fields.iter().map(name).collect::<Vec<_>>())),
        };
        if let Some(devices) = &self.query.devices {
            let names: Vec<String> = devices.iter().map(|device| self.schema.device_name(*device).to_owned()).collect();
            text.push_str(&format!(",{}{}", table.tags[0], matches(&names)));
        } else {
            // Excludes series of other programs with that name, which have no device.
            text.push_str(&format!(",{}!=\"\"", table.tags[0]));
        }
        text.push('}');
        text
    }

    /// An aggregate of each field over a range such as `[5000ms]`.
    fn aggregated(&self, aggregate: Aggregate, by_device: bool, range: &str) -> Result<String> {
        let samples = format!("{}{range}", self.selector(&self.query.fields));
        let over_time = |function: &str| format!("{function}_over_time({samples}) keep_metric_names");
        let each = match self.filter()? {
            None => over_time(aggregate.name()),
            Some(above) => match aggregate {
                Aggregate::Count => format!("count_gt_over_time({samples}, {above}) keep_metric_names"),
                // The greatest value above a bound is the greatest of all, if that is above it.
                Aggregate::Max => format!("(max_over_time({samples}) keep_metric_names) > {above}"),
                _ => return Err(no_filter(aggregate.name())),
            },
        };
        let one_device = self.query.devices.as_ref().is_some_and(|devices| devices.len() == 1);
        if by_device || one_device {
            return Ok(each);
        }
        Ok(match aggregate {
            Aggregate::Count | Aggregate::Sum => format!("sum({each}) by (__name__)"),
            Aggregate::Min => format!("min({each}) by (__name__)"),
            Aggregate::Max => format!("max({each}) by (__name__)"),
            Aggregate::Avg => self.mean_over_devices(range),
            Aggregate::First | Aggregate::Last => {
                return Err(Error::unsupported(format!("MetricsQL has no {} over several series", aggregate.name())));
            }
        })
    }

    /// A division drops the names, so that each field's name is set again.
    fn mean_over_devices(&self, range: &str) -> String {
        let one = |field: &u32| {
            let table = &self.schema.tables[self.query.table as usize];
            let name = string(&format!("{}_{}", table.name, table.fields[*field as usize].name));
            let samples = format!("{}{range}", self.selector(&[*field]));
            format!("label_set(sum(sum_over_time({samples})) / sum(count_over_time({samples})), \"__name__\", {name})")
        };
        let all: Vec<String> = self.query.fields.iter().map(one).collect();
        if all.len() == 1 { all.join("") } else { format!("union({})", all.join(", ")) }
    }

    /// The lower bound of the only field, if any; other filters are unsupported.
    fn filter(&self) -> Result<Option<f64>> {
        let query = self.query;
        match (query.filters.as_slice(), query.fields.as_slice()) {
            ([], _) => Ok(None),
            ([filter], [field]) if filter.field == *field => Ok(Some(filter.above)),
            _ => Err(no_filter("values of several fields")),
        }
    }

    /// A range query: at t the function covers (t - width, t], which is a bucket if t is its last
    /// millisecond. Buckets that the window cuts get shorter ranges.
    fn buckets(
        &self,
        aggregate: Aggregate,
        by_device: bool,
        width: i64,
        origin: i64,
        start: i64,
        end: i64,
    ) -> Result<Request> {
        let bucket = |time: i64| origin + (time - origin).div_euclid(width) * width;
        let (first, last) = (bucket(start), bucket(end.max(start + 1) - 1));
        if (last - first) / width >= BUCKETS_MAX {
            return Err(Error::unsupported(format!(
                "VictoriaMetrics returns at most {BUCKETS_MAX} buckets, and the window has {}",
                (last - first) / width + 1
            )));
        }
        let over = |from: i64, until: i64, evaluated: i64| {
            let offset = evaluated + 1 - until;
            let offset = if offset == 0 { String::new() } else { format!(" offset {offset}ms") };
            self.aggregated(aggregate, by_device, &format!("[{}ms]{offset}", until - from))
        };
        let at = |time: i64| time + width - 1;
        let mut parts = Vec::new();
        let cut_first = start > first || end < first + width;
        let cut_last = end < last + width && last > first;
        if cut_first {
            let text = over(start, end.min(first + width), at(first))?;
            parts.push(format!("(({text}) if on() (time() <= {}))", seconds(at(first))));
        }
        let whole = if cut_first { first + width } else { first }..if cut_last { last } else { last + width };
        if whole.start < whole.end {
            let text = over(0, width, width - 1)?;
            let from = whole.start;
            let until = at(whole.end - width);
            parts.push(match (cut_first, cut_last) {
                (false, false) => text,
                _ => format!("(({text}) if on() (time() > {} and time() <= {}))", seconds(from), seconds(until)),
            });
        }
        if cut_last {
            let text = over(last, end, at(last))?;
            parts.push(format!("(({text}) if on() (time() > {}))", seconds(last)));
        }
        // A label distinguishes the parts: `or` treats series that differ only in their names as
        // equal.
        let part = |(number, text): (usize, &String)| format!("label_set({text}, \"part\", \"{number}\")");
        let text = match parts.as_slice() {
            [one] => one.clone(),
            _ => format!("union({})", parts.iter().enumerate().map(part).collect::<Vec<_>>().join(", ")),
        };
        let pairs = vec![
            ("query", text),
            ("start", seconds(at(first))),
            ("end", seconds(at(last))),
            ("step", format!("{width}ms")),
            ("nocache", "1".to_owned()),
        ];
        Ok(Request { path: "/api/v1/query_range", pairs })
    }
}

fn no_filter(what: &str) -> Error {
    Error::unsupported(format!(
        "MetricsQL cannot filter raw samples by value for {what}, only for count and max of one field by its own value"
    ))
}

/// Evaluates a function at the last millisecond of a window that ends before `end`.
fn instant(text: String, end: i64) -> Request {
    let pairs = vec![("query", text), ("time", seconds(end - 1)), ("nocache", "1".to_owned())];
    Request { path: "/api/v1/query", pairs }
}

/// Milliseconds as seconds, half a millisecond late: see the module's documentation.
fn seconds(millis: i64) -> String {
    format!("{}.{:03}5", millis.div_euclid(1000), millis.rem_euclid(1000))
}

/// Matcher `="a"` or `=~"a|b"`.
fn matches(values: &[String]) -> String {
    if let [value] = values {
        return format!("={}", string(value));
    }
    let escaped: Vec<String> = values.iter().map(|value| escaped(value)).collect();
    format!("=~{}", string(&escaped.join("|")))
}

/// Escapes a text for a regular expression.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if letter.is_ascii_punctuation() && letter != '_' {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

// ---------------------------------------------------------------------------------------------------------------------
// Answers

/// A series in an export, one line each.
#[derive(Deserialize)]
struct Exported<'a> {
    metric: HashMap<String, String>,
    #[serde(borrow)]
    values: Vec<&'a RawValue>,
    #[serde(borrow)]
    timestamps: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Data<'a>,
    #[serde(default, rename = "isPartial")]
    is_partial: bool,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    result: Vec<Series<'a>>,
}

/// The value of an instant query, or the values of a range query.
#[derive(Deserialize)]
struct Series<'a> {
    metric: HashMap<String, String>,
    #[serde(borrow)]
    value: Option<(&'a RawValue, &'a RawValue)>,
    #[serde(borrow, default)]
    values: Vec<(&'a RawValue, &'a RawValue)>,
}

struct Reader<'a> {
    names: &'a Names,
    query: &'a Query,
}

impl Reader<'_> {
    fn export(&self, body: &[u8]) -> Result<Rows> {
        let mut joiner = Joiner::new(self.query);
        let fields = &self.names.schema.tables[self.query.table as usize].fields;
        for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let series: Exported = serde_json::from_slice(line).map_err(|error| invalid_json(&error))?;
            let (device, column) = self.locate(&series.metric, &joiner)?;
            let wanted = CellKind::Value(fields[self.field_of(&series.metric)? as usize].kind);
            if series.values.len() != series.timestamps.len() {
                return Err(Error::protocol("an export has different numbers of values and timestamps"));
            }
            for (value, at) in series.values.iter().zip(&series.timestamps) {
                joiner.put(device, Some(time(at.get())?), column, wanted.json(value.get())?);
            }
        }
        Ok(joiner.finish(self.query, &Cell::Null))
    }

    fn values(&self, body: &[u8]) -> Result<Rows> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| invalid_json(&error))?;
        if answer.is_partial {
            return Err(Error::protocol("the answer is marked as partial"));
        }
        if self.query.shape == Shape::Latest {
            return self.latest(&answer.data.result);
        }
        let mut joiner = Joiner::new(self.query);
        let wanted = CellKind::of(&self.names.schema, self.query);
        let by_device = matches!(
            self.query.shape,
            Shape::Aggregate { by_device: true, .. } | Shape::Buckets { by_device: true, .. }
        );
        for series in &answer.data.result {
            let (device, column) = self.locate(&series.metric, &joiner)?;
            for (at, value) in series.value.iter().chain(&series.values) {
                let at = match self.query.shape {
                    Shape::Buckets { width, .. } => Some(millis(at.get())? - (width - 1)),
                    _ => None,
                };
                joiner.put(device.filter(|_| by_device), at, column, wanted[column].json(value.get())?);
            }
        }
        Ok(joiner.finish(self.query, &wanted[0].missing()))
    }

    /// Decodes newest values and their times. Fields whose newest value is older than the newest
    /// row are null in it.
    fn latest(&self, result: &[Series]) -> Result<Rows> {
        let wanted = CellKind::of(&self.names.schema, self.query);
        let joiner = Joiner::new(self.query);
        let mut devices: std::collections::BTreeMap<u32, Vec<(Option<i64>, Cell)>> = Default::default();
        for series in result {
            let (device, column) = self.locate(&series.metric, &joiner)?;
            let device = device.ok_or_else(|| Error::protocol("an answer's series has no device"))?;
            let value = series.value.ok_or_else(|| Error::protocol("an answer's series has no value"))?.1.get();
            let row = devices.entry(device).or_insert_with(|| vec![(None, Cell::Null); wanted.len()]);
            match series.metric.get("is") {
                Some(_) => row[column].0 = Some(millis(value.trim_matches('"'))?),
                None => row[column].1 = wanted[column].json(value)?,
            }
        }
        let rows = devices.into_iter().map(|(device, fields)| {
            let newest = fields.iter().filter_map(|(time, _)| *time).max();
            let cell = |(time, cell)| if time == newest { cell } else { Cell::Null };
            Row { device: Some(device), time: newest, cells: fields.into_iter().map(cell).collect() }
        });
        Ok(Rows { rows: rows.collect() })
    }

    fn field_of(&self, metric: &HashMap<String, String>) -> Result<u32> {
        let name = metric.get("__name__").map_or("", String::as_str);
        match self.names.fields.get(name) {
            Some((table, field)) if *table == self.query.table => Ok(*field),
            _ => Err(Error::protocol(format!("an answer has a series {name:?}, which was not selected"))),
        }
    }

    fn locate(&self, metric: &HashMap<String, String>, joiner: &Joiner) -> Result<(Option<u32>, usize)> {
        let field = self.field_of(metric)?;
        let column = joiner.column(field);
        let column =
            column.ok_or_else(|| Error::protocol(format!("an answer has field {field}, which was not selected")))?;
        let tag = &self.names.schema.tables[self.query.table as usize].tags[0];
        let device = metric.get(tag).map(|name| self.names.devices.find(self.query.table, name)).transpose()?;
        Ok((device, column))
    }
}

fn invalid_json(error: &serde_json::Error) -> Error {
    Error::protocol(format!("an answer of VictoriaMetrics is not the expected JSON: {error}"))
}

/// Parses seconds with up to three decimals.
fn millis(seconds: &str) -> Result<i64> {
    let value = seconds.parse::<f64>().ok().filter(|value| value.abs() < 1e12);
    let value = value.ok_or_else(|| Error::protocol(format!("an answer has {seconds:?}, expected a time")))?;
    Ok((value * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::super::conformance::{self, ABLE, Abilities};
    use super::super::testing::{Private, START, sample_batch, sample_schema};
    use super::*;
    use crate::config::Config;
    use crate::error::Class;
    use crate::peers::Product;

    const KINDS: &[Kind] = &[
        Kind::Bool,
        Kind::Int32,
        Kind::Int64,
        Kind::Float { decimals: 2 },
        Kind::Double { decimals: 2 },
        Kind::Timestamp,
        Kind::Date,
    ];
    const UNSUPPORTED: &[&str] = &[
        "set/",
        "rows/limit/",
        "aggregate/sum/filter",
        "aggregate/avg/filter",
        "aggregate/min/filter",
        "aggregate/first/filter",
        "aggregate/last/filter",
        "buckets/max/no range",
        "single fields/buckets/sum",
    ];

    // The server caches for ten seconds that a series does not exist, which accounts for the
    // duration of these two tests.
    #[test]
    fn remote_write_is_answered_as_brute_force_does() {
        check("remote");
    }

    #[test]
    fn line_protocol_is_answered_as_brute_force_does() {
        check("line");
    }

    fn check(write: &str) {
        let server = Private::start(Product::VictoriaMetrics);
        let mut target = server.target("victoriametrics", "http");
        target.options.insert("write".to_owned(), write.to_owned());
        conformance::check(&target, &Abilities { kinds: KINDS, float32: false, unsupported: UNSUPPORTED, ..ABLE });
        conformance::check_wide(&target, 2000);
    }

    fn open(schema: Schema) -> Result<Box<dyn Driver>> {
        let target = Target::parse("victoriametrics://h").expect("valid");
        super::super::open(Opening { target, schema: Arc::new(schema), config: Arc::new(Config::default()) })
    }

    #[test]
    fn unsupported_schemas_are_refused_with_a_solution() {
        let (mut schema, _) = sample_schema();
        schema.unit = Unit::Nanos;
        let error = open(schema).map(|_| ()).expect_err("nanoseconds");
        assert_eq!((error.class, error.message.contains("TIMESTAMP_PRECISION=ms")), (Class::Unsupported, true));
        let (mut schema, _) = sample_schema();
        schema.tables[0].fields[1].kind = Kind::Text { length: 2 };
        let error = open(schema).map(|_| ()).expect_err("texts");
        assert_eq!((error.class, error.message.contains("INSERT_DATATYPE_PROPORTION")), (Class::Unsupported, true));
    }

    #[test]
    fn a_request_of_remote_write_is_exactly_these_bytes() {
        let (mut schema, _) = sample_schema();
        schema.tables[0].tags.truncate(1);
        schema.devices.iter_mut().for_each(|device| device.tags.truncate(1));
        let names = Names::new(&Arc::new(schema), false);
        let mut batch = sample_batch(1..2);
        batch.parts.truncate(1);
        batch.fields = 1..2;
        batch.parts[0].units = vec![125];
        let (mut out, mut requests) = (Vec::new(), Vec::new());
        remote_write(&names, &batch, &mut Samples::default(), &mut out, &mut requests);
        let mut series = b"\x0a\x14\x0a\x08__name__\x12\x08g_0_s_1x".to_vec();
        series.truncate(series.len() - 1);
        series[1] = 0x13;
        series[13] = 7;
        series.extend_from_slice(b"\x0a\x0d\x0a\x06device\x12\x03d_0");
        let mut sample = b"\x12\x10\x09".to_vec();
        sample.extend_from_slice(&1.25f64.to_le_bytes());
        sample.push(0x10);
        varint((START + 1000) as u64, &mut sample);
        series.extend_from_slice(&sample);
        let length = series.len() as u8;
        let expected = [&[length + 2, 0xfc, length + 1, 0, 0, 0, 0x0a, length], series.as_slice()].concat();
        assert_eq!(&out[requests[0].clone()], expected.as_slice());
    }

    #[test]
    fn a_large_batch_is_several_requests() {
        let (schema, _) = sample_schema();
        let names = Names::new(&Arc::new(schema), false);
        let batch = sample_batch(0..300_000);
        let (mut out, mut requests) = (Vec::new(), Vec::new());
        remote_write(&names, &batch, &mut Samples::default(), &mut out, &mut requests);
        assert_eq!(requests.len(), 2, "four series of 5.4 MB");
        assert_eq!(requests[1].end, out.len());
    }

    #[test]
    fn patterns_are_escaped() {
        assert_eq!(matches(&["a.b".to_owned()]), "=\"a.b\"");
        assert_eq!(matches(&["a.b".to_owned(), "c|\"".to_owned()]), "=~\"a\\\\.b|c\\\\|\\\\\\\"\"");
        assert_eq!(seconds(1_640_966_405_001), "1640966405.0015");
    }

    #[test]
    fn malformed_answers_are_protocol_errors() {
        let (schema, query) = sample_schema();
        let names = Names::new(&Arc::new(schema), false);
        let reader = Reader { names: &names, query: &query };
        for body in [
            "{",
            r#"{"metric":{"__name__":"g_0_s_0","device":"d_0"},"values":[1],"timestamps":[]}"#,
            r#"{"metric":{"__name__":"other","device":"d_0"},"values":[1],"timestamps":[1]}"#,
            r#"{"metric":{"__name__":"g_0_s_0","device":"nobody"},"values":[1],"timestamps":[1]}"#,
            r#"{"metric":{"__name__":"g_0_s_0","device":"d_0"},"values":["x"],"timestamps":[1]}"#,
        ] {
            assert_eq!(reader.export(body.as_bytes()).expect_err(body).class, Class::Protocol);
        }
    }
}
