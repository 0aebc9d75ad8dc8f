//! Managed series of Millrace by REST, with bodies of JSON or Arrow.
//!
//! A request of one series is `…/timeseries/NAME/data`, one of several
//! `…/timeseriescollections/data`. The series are in a repository of their own.
//!
//! Arrow bodies are IPC streams with the columns `series` (name; only in requests of several),
//! `time` (nanoseconds, UTC), `value` and `flag`.

use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, TimestampNanosecondType};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int16Array, Int32Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use memchr::memmem;

use super::plan::{Part, Point, Seen, Shape, name, number};
use super::store::{Client, Store};
use super::{Format, SeriesKind};
use crate::drivers::digits::{push_decimal, push_i64};
use crate::drivers::http::{Http, class_of, excerpt};
use crate::drivers::pgwire::{Login, Pg};
use crate::error::{Error, Result};

/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
const JSON: &str = "application/json";
const ARROW: &str = "application/vnd.apache.arrow.stream";
/// Connections that create or delete definitions, so that their commits share syncs.
const DEFINERS: usize = 4;
/// Attempts to create a definition: concurrent commits can conflict.
const DEFINITION_ATTEMPTS: u32 = 10;
const DEFINITION_PAUSE: Duration = Duration::from_millis(20);

/// The database of a run.
pub(super) struct Millrace {
    /// `HOST:PORT` of the store, or of one of its front ends.
    address: String,
    /// Address of PostgreSQL's protocol, for CHECKPOINT; `None` if it is unknown.
    pg: Option<String>,
    /// Path of the repository.
    repository: String,
    format: Format,
}

impl Millrace {
    /// Creates a repository for the run.
    pub(super) fn open(address: String, pg: Option<String>, format: Format) -> Result<Millrace> {
        let unique = format!("bench-{}-{}", std::process::id(), jiff::Timestamp::now().as_millisecond());
        let mut http = Http::new(address.clone(), None);
        let body = format!("{{\"Name\":\"{unique}\"}}");
        expect(&mut http, "POST", "/repositories", JSON, body.as_bytes(), 201)?;
        Ok(Millrace { address, pg, repository: format!("/repositories/{unique}"), format })
    }

    /// An open connection that accepts the format of the run.
    fn open_http(&self, address: &str) -> Result<Http> {
        let mut http = Http::new(address.to_owned(), None);
        if self.format == Format::Arrow {
            http.accept(ARROW)?;
        }
        http.open()?;
        Ok(http)
    }

    /// Runs `one` for each series, on several connections.
    fn each_series(&self, series: &Range<u32>, one: impl Fn(&mut Http, u32) -> Result<()> + Sync) -> Result<()> {
        let (one, series) = (&one, series);
        std::thread::scope(|scope| {
            let share = |share: usize| {
                scope.spawn(move || {
                    let mut http = Http::new(self.address.clone(), None);
                    series.clone().skip(share).step_by(DEFINERS).try_for_each(|series| one(&mut http, series))
                })
            };
            let threads: Vec<_> = (0..DEFINERS).map(share).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    fn define(&self, http: &mut Http, shape: &Shape, series: u32) -> Result<()> {
        let body = format!(
            "{{\"Name\":\"{}\",\"Type\":\"Begin\",\"Interval\":{{\"Value\":\"Minute\",\"Multiplier\":{}}},\
             \"Unit\":\"kW\",\"TimeZone\":\"UTC\"{}}}",
            name(series),
            shape.step_minutes(),
            history(shape.kind)
        );
        let path = format!("{}/timeseries", self.repository);
        for _ in 1..DEFINITION_ATTEMPTS {
            let status = http.exchange("POST", &path, JSON, body.as_bytes(), ANSWER_TIMEOUT)?;
            match status {
                201 => return Ok(()),
                // A conflict with another commit; the name is not taken in a new repository.
                409 | 503 => std::thread::sleep(DEFINITION_PAUSE),
                status => return Err(refused(http, "POST", &path, status)),
            }
        }
        expect(http, "POST", &path, JSON, body.as_bytes(), 201)
    }
}

impl Store for Millrace {
    fn version(&self) -> Result<String> {
        // A private server's version is known from its program.
        Ok("unknown".to_owned())
    }

    fn create(&self, shape: &Shape) -> Result<()> {
        self.each_series(&shape.series, |http, series| self.define(http, shape, series))
    }

    fn drop_series(&self, shape: &Shape) -> Result<()> {
        self.each_series(&shape.series, |http, series| {
            http.delete(&format!("{}/timeseries/{}", self.repository, name(series)), ANSWER_TIMEOUT)
        })
    }

    fn settle(&self) -> Result<()> {
        let Some(address) = &self.pg else { return Ok(()) };
        let login = Login {
            address: address.clone(),
            network_of: None,
            user: "bench".to_owned(),
            password: None,
            database: "millrace".to_owned(),
            parameters: Vec::new(),
        };
        Pg::new(login).simple("CHECKPOINT", ANSWER_TIMEOUT)
    }

    fn connect(&self, client: usize, servers: &[String]) -> Result<Box<dyn Client>> {
        let servers = if servers.is_empty() { std::slice::from_ref(&self.address) } else { servers };
        let links = servers.iter().map(|address| self.open_http(address)).collect::<Result<_>>()?;
        let content_type = if self.format == Format::Arrow { ARROW } else { JSON };
        let repository = self.repository.clone();
        Ok(Box::new(Rest { links, next: client, repository, content_type, target: String::new() }))
    }

    fn encode(&self, shape: &Shape, part: &Part, version: u32, body: &mut Vec<u8>) -> Result<()> {
        body.clear();
        match self.format {
            Format::Json => {
                json(shape, part, version, body);
                Ok(())
            }
            Format::Arrow => arrow(shape, part, version, body)
                .map_err(|error| Error::setup(format!("BUG: a record batch is invalid: {error}"))),
        }
    }

    fn check(&self, answer: &[u8], seen: &mut Seen<'_>) -> std::result::Result<(), String> {
        match self.format {
            Format::Json => check_json(answer, seen),
            Format::Arrow => check_arrow(answer, seen),
        }
    }
}

/// Connections of one client: one to each front end, used in turn.
struct Rest {
    links: Vec<Http>,
    next: usize,
    repository: String,
    content_type: &'static str,
    /// Target of the request under construction.
    target: String,
}

impl Rest {
    fn link(&mut self) -> usize {
        self.next += 1;
        self.next % self.links.len()
    }

    fn set_target(&mut self, part: &Part) {
        self.target.clear();
        self.target.push_str(&self.repository);
        if part.is_single() {
            self.target.push_str("/timeseries/");
            self.target.push_str(&name(part.series.start));
            self.target.push_str("/data");
        } else {
            self.target.push_str("/timeseriescollections/data");
        }
    }
}

impl Client for Rest {
    fn write(&mut self, shape: &Shape, part: &Part, version: u32, body: &[u8]) -> Result<()> {
        self.set_target(part);
        if let Some(quotation) = shape.quotation(version) {
            self.target.push_str("?quotation=");
            self.target.push_str(&quotation);
        }
        let link = self.link();
        // 207 means that a part of the series was not written.
        expect(&mut self.links[link], "PUT", &self.target, self.content_type, body, 204)
    }

    fn read(&mut self, shape: &Shape, part: &Part, answer: &mut Vec<u8>) -> Result<()> {
        self.set_target(part);
        let (from, to) = (shape.stamp(part.slots.start), shape.stamp(part.slots.end));
        for piece in ["?from=", from, "&to=", to] {
            self.target.push_str(piece);
        }
        if !part.is_single() {
            for series in part.series.clone() {
                self.target.push_str("&name=");
                self.target.push_str(&name(series));
            }
        }
        let link = self.link();
        let http = &mut self.links[link];
        http.get(&self.target, ANSWER_TIMEOUT)?;
        http.swap_body(answer);
        Ok(())
    }
}

/// Members of a definition that keep history.
fn history(kind: SeriesKind) -> &'static str {
    match kind {
        SeriesKind::Plain => "",
        SeriesKind::Audit => ",\"Audit\":true",
        SeriesKind::Quotation => ",\"Audit\":true,\"Quotation\":true",
    }
}

/// Sends a request that must be answered with this status.
fn expect(http: &mut Http, method: &str, target: &str, content_type: &str, body: &[u8], expected: u16) -> Result<()> {
    let status = http.exchange(method, target, content_type, body, ANSWER_TIMEOUT)?;
    if status == expected { Ok(()) } else { Err(refused(http, method, target, status)) }
}

fn refused(http: &Http, method: &str, target: &str, status: u16) -> Error {
    let message = excerpt(http.body());
    Error::new(class_of(status, &message), format!("{method} {target}: HTTP {status}: {message}"))
}

// ---------------------------------------------------------------------------------------------------------------------
// JSON

fn json(shape: &Shape, part: &Part, version: u32, out: &mut Vec<u8>) {
    if part.is_single() {
        out.push(b'{');
        json_data(shape, part, part.series.start, version, out);
        return;
    }
    for series in part.series.clone() {
        out.push(if series == part.series.start { b'[' } else { b',' });
        out.extend_from_slice(b"{\"Name\":\"");
        out.extend_from_slice(name(series).as_bytes());
        out.extend_from_slice(b"\",");
        json_data(shape, part, series, version, out);
    }
    out.push(b']');
}

/// Appends the points of one series and the end of its object.
fn json_data(shape: &Shape, part: &Part, series: u32, version: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"Data\":[");
    for slot in part.slots.clone() {
        let point = shape.point(series, slot, version);
        out.extend_from_slice(if slot == part.slots.start { b"{\"From\":\"" } else { b",{\"From\":\"" });
        out.extend_from_slice(shape.stamp(slot).as_bytes());
        out.extend_from_slice(b"\",\"Value\":");
        push_decimal(point.hundredths, 2, out);
        out.extend_from_slice(b",\"Flag\":");
        push_i64(i64::from(point.flag), out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// A position in an answer.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl<'a> Scanner<'a> {
    fn malformed(&self, expected: &str) -> String {
        format!("malformed JSON: expected {expected}, got {:?}", excerpt(&self.rest[..self.rest.len().min(60)]))
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Skips everything up to the end of `pattern`; returns whether it was found.
    fn skip_past(&mut self, pattern: &[u8]) -> bool {
        let found = memmem::find(self.rest, pattern);
        if let Some(at) = found {
            self.rest = &self.rest[at + pattern.len()..];
        }
        found.is_some()
    }

    fn take(&mut self, byte: u8, expected: &str) -> std::result::Result<(), String> {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                Ok(())
            }
            _ => Err(self.malformed(expected)),
        }
    }

    /// Bytes up to one of the ends, which is not skipped.
    fn until(&mut self, is_end: impl Fn(u8) -> bool, expected: &str) -> std::result::Result<&'a [u8], String> {
        let at = self.rest.iter().position(|byte| is_end(*byte)).ok_or_else(|| self.malformed(expected))?;
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        Ok(taken)
    }

    /// The content of a string without escapes.
    fn string(&mut self, expected: &str) -> std::result::Result<&'a [u8], String> {
        self.take(b'"', expected)?;
        let content = self.until(|byte| byte == b'"' || byte == b'\\', expected)?;
        self.take(b'"', expected)?;
        Ok(content)
    }

    /// One point; `expected` is the text of its time.
    fn point(&mut self, expected: &str) -> std::result::Result<Point, String> {
        self.take(b'{', "a point")?;
        let (mut time, mut value, mut flag) = (None, None, None);
        loop {
            let key = self.string("a member of a point")?;
            self.take(b':', "the value of a member")?;
            match key {
                b"From" => time = Some(self.string("a time")?),
                b"Value" => value = Some(self.until(|byte| byte == b',' || byte == b'}', "a value")?),
                b"Flag" => flag = Some(self.until(|byte| byte == b',' || byte == b'}', "a flag")?),
                _ => return Err(format!("unknown member {:?} of a point", String::from_utf8_lossy(key))),
            }
            match self.peek() {
                Some(b',') => self.take(b',', "a comma")?,
                _ => break,
            }
        }
        self.take(b'}', "the end of a point")?;
        if time != Some(expected.as_bytes()) {
            let time = time.map(String::from_utf8_lossy);
            return Err(format!("read the time {time:?}, expected {expected}"));
        }
        let point = value.zip(flag).and_then(|(value, flag)| point_of(value, flag));
        point.ok_or_else(|| {
            format!("the point at {expected} was never written: value {:?}", value.map(String::from_utf8_lossy))
        })
    }
}

/// The point of two numbers in JSON.
fn point_of(value: &[u8], flag: &[u8]) -> Option<Point> {
    let flag = std::str::from_utf8(flag).ok()?.parse().ok()?;
    match decimal(value) {
        Some(hundredths) => Some(Point { hundredths, flag }),
        None => Point::of(std::str::from_utf8(value).ok()?.parse().ok()?, flag),
    }
}

/// Hundredths of a decimal such as `12`, `12.5` or `-12.34`; `None` for other forms.
fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    let (mut number, mut decimals, mut seen_point) = (0_i64, 0, false);
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    for byte in digits {
        match byte {
            b'0'..=b'9' if decimals < 2 => {
                number = number * 10 + i64::from(byte - b'0');
                decimals += u32::from(seen_point);
            }
            b'.' if !seen_point => seen_point = true,
            _ => return None,
        }
    }
    let hundredths = number * 10_i64.pow(2 - decimals);
    Some(if negative { -hundredths } else { hundredths })
}

fn check_json(answer: &[u8], seen: &mut Seen<'_>) -> std::result::Result<(), String> {
    let mut scanner = Scanner { rest: answer };
    let (part, shape) = (seen.part, seen.shape);
    for expected in part.series.clone() {
        if !part.is_single() {
            if !scanner.skip_past(b"\"Name\":") {
                return Err(format!("series {expected} is missing in the answer"));
            }
            let named = scanner.string("the name of a series")?;
            if number(named) != Some(expected) {
                let named = String::from_utf8_lossy(named);
                return Err(format!("read series {named:?}, expected {}", name(expected)));
            }
        }
        if !scanner.skip_past(b"\"Data\":") {
            return Err(format!("series {expected} has no Data in the answer"));
        }
        scanner.take(b'[', "a list of points")?;
        for slot in part.slots.clone() {
            if slot > part.slots.start {
                scanner.take(b',', "another point")?;
            }
            let point = scanner.point(shape.stamp(slot)).map_err(|wrong| format!("series {expected}: {wrong}"))?;
            seen.add(expected, slot, point)?;
        }
        scanner.take(b']', "the end of the points")?;
    }
    if memmem::find(scanner.rest, b"\"Data\":").is_some() {
        return Err("the answer has more series than requested".to_owned());
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------------------------------
// Arrow

fn schema(is_single: bool) -> Schema {
    let names = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let series = (!is_single).then(|| Field::new("series", names, false));
    let time = Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), false);
    let value = Field::new("value", DataType::Float64, true);
    let flag = Field::new("flag", DataType::Int16, false);
    Schema::new(series.into_iter().chain([time, value, flag]).collect::<Vec<Field>>())
}

fn arrow(shape: &Shape, part: &Part, version: u32, out: &mut Vec<u8>) -> std::result::Result<(), ArrowError> {
    let rows = part.values() as usize;
    let mut values = Vec::with_capacity(rows);
    let mut flags = Vec::with_capacity(rows);
    let mut times = Vec::with_capacity(rows);
    for series in part.series.clone() {
        for slot in part.slots.clone() {
            let point = shape.point(series, slot, version);
            times.push(shape.nanos(slot));
            values.push(point.value());
            flags.push(point.flag);
        }
    }
    let mut arrays: Vec<ArrayRef> = Vec::new();
    if !part.is_single() {
        let keys = (0..part.series.len() as i32).flat_map(|key| std::iter::repeat_n(key, part.slots.len()));
        let names = StringArray::from(part.series.clone().map(name).collect::<Vec<String>>());
        let keys = Int32Array::from(keys.collect::<Vec<i32>>());
        arrays.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::new(names))?));
    }
    arrays.push(Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")));
    arrays.push(Arc::new(Float64Array::from(values)));
    arrays.push(Arc::new(Int16Array::from(flags)));
    let schema = schema(part.is_single());
    let batch = RecordBatch::try_new(Arc::new(schema.clone()), arrays)?;
    let mut writer = StreamWriter::try_new(out, &schema)?;
    writer.write(&batch)?;
    writer.finish()
}

fn check_arrow(answer: &[u8], seen: &mut Seen<'_>) -> std::result::Result<(), String> {
    let malformed = |error: ArrowError| format!("malformed Arrow stream: {error}");
    let reader = StreamReader::try_new(Cursor::new(answer), None).map_err(malformed)?;
    for batch in reader {
        check_batch(&batch.map_err(malformed)?, seen)?;
    }
    Ok(())
}

fn check_batch(batch: &RecordBatch, seen: &mut Seen<'_>) -> std::result::Result<(), String> {
    let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("the stream has no column {name}"));
    let (time, value, flag) = (column("time")?, column("value")?, column("flag")?);
    let wrong = |name: &str, array: &ArrayRef| format!("column {name} has the type {}", array.data_type());
    let times = time.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| wrong("time", time))?;
    let values = value.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong("value", value))?;
    let flags = flag.as_primitive_opt::<Int16Type>().ok_or_else(|| wrong("flag", flag))?;
    if [time, value, flag].iter().any(|array| array.null_count() > 0) {
        return Err("the stream has nulls, and none was written".to_owned());
    }
    let series = if seen.part.is_single() { None } else { Some(numbers(column("series")?)?) };
    let single = seen.part.series.start;
    for row in 0..batch.num_rows() {
        let series = series.as_ref().map_or(single, |series| series[row]);
        seen.add_at(series, times.value(row), values.value(row), flags.value(row))?;
    }
    Ok(())
}

/// Numbers of the series that a column names.
fn numbers(names: &ArrayRef) -> std::result::Result<Vec<u32>, String> {
    let of_texts = |texts: &ArrayRef| -> std::result::Result<Vec<u32>, String> {
        let texts =
            texts.as_string_opt::<i32>().ok_or_else(|| format!("column series has the type {}", texts.data_type()))?;
        let of = |text: Option<&str>| text.and_then(|text| number(text.as_bytes()));
        texts.iter().map(|text| of(text).ok_or_else(|| format!("unknown series {text:?}"))).collect()
    };
    let Some(dictionary) = names.as_any_dictionary_opt() else { return of_texts(names) };
    let known = of_texts(dictionary.values())?;
    if names.null_count() > 0 || known.is_empty() {
        return if names.is_empty() { Ok(Vec::new()) } else { Err("column series has nulls".to_owned()) };
    }
    Ok(dictionary.normalized_keys().into_iter().map(|key| known[key]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape::new(7, 3..9, 1_800, 2)
    }

    fn parts() -> [Part; 2] {
        [Part { series: 4..5, slots: 48..96 }, Part { series: 3..9, slots: 0..96 }]
    }

    /// An answer as the server writes it.
    fn answer(part: &Part) -> Vec<u8> {
        let mut out = Vec::new();
        json(&shape(), part, 2, &mut out);
        let text = String::from_utf8(out).unwrap();
        let text =
            text.replace("\"Data\"", "\"Interval\":{\"Value\":\"Minute\",\"Multiplier\":30},\"Unit\":\"kW\",\"Data\"");
        // The server leaves out trailing zeros, but for one decimal.
        text.replace("0,\"Flag\"", ",\"Flag\"").replace(".,\"Flag\"", ".0,\"Flag\"").into_bytes()
    }

    fn checked(part: &Part, answer: &[u8], version: u32) -> std::result::Result<(), String> {
        let shape = shape();
        let mut seen = Seen::new(&shape, part);
        check_json(answer, &mut seen)?;
        seen.check(version)
    }

    #[test]
    fn json_of_the_server_is_checked() {
        for part in parts() {
            let answer = answer(&part);
            assert_eq!(checked(&part, &answer, 2), Ok(()));
            assert!(checked(&part, &answer, 1).is_err(), "stale");
            for (old, new) in [(",\"Value\":", ",\"Value\":1"), ("T12:00:00Z", "T12:00:01Z"), ("\"Data\"", "\"data\"")]
            {
                let wrong = String::from_utf8(answer.clone()).unwrap().replacen(old, new, 1);
                assert!(checked(&part, wrong.as_bytes(), 2).is_err(), "{old}");
            }
            assert!(checked(&part, &answer[..answer.len() / 2], 2).is_err());
        }
    }

    #[test]
    fn arrow_bodies_are_read_back() {
        let shape = shape();
        for part in parts() {
            let mut body = Vec::new();
            arrow(&shape, &part, 2, &mut body).unwrap();
            let mut seen = Seen::new(&shape, &part);
            check_arrow(&body, &mut seen).unwrap();
            assert_eq!(seen.check(2), Ok(()));
            assert!(seen.check(3).is_err());
            let mut seen = Seen::new(&shape, &part);
            assert!(check_arrow(&body[..body.len() / 2], &mut seen).is_err() || seen.check(2).is_err());
        }
    }

    #[test]
    fn decimals_are_hundredths() {
        let cases: [(&str, Option<i64>); 8] = [
            ("12", Some(1_200)),
            ("12.5", Some(1_250)),
            ("-0.07", Some(-7)),
            ("1234.0", Some(123_400)),
            ("1.005", None),
            ("1e3", None),
            ("null", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(point_of(b"1e3", b"9"), Some(Point { hundredths: 100_000, flag: 9 }));
        assert_eq!(point_of(b"null", b"19"), None);
    }
}
