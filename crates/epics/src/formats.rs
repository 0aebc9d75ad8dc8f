//! Replies of the Appliance to `getData`: `.raw`, `.json`, `.qw`, `.csv` and `.txt`.
//!
//! [`Reply`] writes the bytes that the Appliance writes for the same events. Facts (from its source):
//!
//! | | `.json` | `.qw` | `.csv` | `.txt` |
//! |---|---|---|---|---|
//! | event | `{ "secs": …, "val": …, "nanos": …, "severity":…, "status":… }` | `{ "millis": …, "val": … }` | `secs,val,severity,status,nanos` | time, value, severity, status and nanoseconds, separated by tabs |
//! | between events | `,` LF | `,` LF | LF | LF |
//! | fields of an event | `, "fields": { "name": "value",… }` behind the status | the same behind the value | not written | not written |
//! | head | `{ "meta": { "name": "PV" , "EGU": "mA" },` LF `"data": [ ` | the same, with `, "waveform": false ` behind the name | none | `Beginning data for PV` |
//! | end | LF behind the last event | none | empty line | none |
//! | several PVs | yes | yes | no | no |
//!
//! - Numbers are texts of Java: `1.0`, `1.0E7`, a float's digits for a float. Bytes and enumerations are integers.
//! - Arrays are `[a,b]` everywhere. Metadata are texts, and those without a text are left out.
//! - Texts of events are escaped as by json-simple: `/` as `\/`, and as `\uXXXX` what is 00-1F, 7F-9F or 2000-20FF.
//! - `.json` has `NaN` and `Infinity`, which JSON does not know, and Python reads. `.qw` has `null` for NaN.
//! - `name` in `.json` is the PV's own name, in `.qw` the name of the request.
//! - Times of `.txt` are of the server's time zone, `MMM/dd/yyyy HH:mm:ss z`, `Never` for 1970-01-01; ours are UTC.
//!
//! We differ where the Appliance writes what cannot be read: names and metadata are escaped, as far as JSON needs it;
//! infinities and NaN in arrays are `null` in `.qw`; a text in `.csv` with a comma, a quote or a line break is quoted
//! (RFC 4180); of an array of texts in JSON only empty texts at its end are left out, where the Appliance leaves out all
//! and so moves the others. Structures of PV Access are `{}`, which the Appliance writes if it cannot decode them.

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::calendar::{SECOND, date_of};
use crate::event::Event;
use crate::numerals::{push_f32, push_f64, push_int};
use crate::pb::{self, Header};
use crate::sample::{Array, Nanos, Scalar, Value};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `.raw`: see [`pb`].
    Raw,
    /// `.json`
    Json,
    /// `.qw`: JSON for plots in a browser.
    Qw,
    /// `.csv`, without a line of names.
    Csv,
    /// `.txt`
    Text,
}

impl Format {
    /// The format of a file name extension, without the dot.
    #[must_use]
    pub fn of(extension: &str) -> Option<Format> {
        Some(match extension {
            "raw" => Format::Raw,
            "json" => Format::Json,
            "qw" => Format::Qw,
            "csv" => Format::Csv,
            "txt" => Format::Text,
            _ => return None,
        })
    }

    /// Content type.
    #[must_use]
    pub fn mime(self) -> &'static str {
        match self {
            Format::Raw => "application/x-protobuf",
            Format::Json | Format::Qw => "application/json",
            Format::Csv => "text/csv",
            Format::Text => "text/plain",
        }
    }

    /// Whether a reply may have several PVs (`getDataForPVs`).
    #[must_use]
    pub fn has_several_pvs(self) -> bool {
        matches!(self, Format::Raw | Format::Json | Format::Qw)
    }
}

/// Description of a PV in a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Pv {
    /// Name, type, metadata, and the year of a reply without events.
    pub header: Header,
    /// Name in the request, which may be an alias, or end in `.VAL`.
    pub requested: String,
    /// Origin of the events, which `.txt` names.
    pub source: String,
}

impl Pv {
    /// A PV that was requested by its name.
    #[must_use]
    pub fn new(header: Header) -> Pv {
        Pv { requested: header.pv.clone(), header, source: "millrace".into() }
    }
}

/// Writes a reply: `start` for each PV, its events, and `finish`.
pub struct Reply<W: Write> {
    writer: Writer<W>,
}

enum Writer<W: Write> {
    Raw(pb::Writer<W>),
    Lines(Lines<W>),
}

impl<W: Write> Reply<W> {
    /// A reply to `output`.
    pub fn new(format: Format, output: W) -> Reply<W> {
        let writer = match format {
            Format::Raw => Writer::Raw(pb::Writer::new(output)),
            format => Writer::Lines(Lines::new(format, output)),
        };
        Reply { writer }
    }

    /// Starts a PV.
    ///
    /// # Errors
    /// - `InvalidInput`: the format has one PV only, and this is the second.
    /// - Those of the output.
    pub fn start(&mut self, pv: &Pv) -> io::Result<()> {
        match &mut self.writer {
            Writer::Raw(writer) => writer.start(pv.header.clone()),
            Writer::Lines(lines) => lines.start(pv),
        }
    }

    /// Writes an event of the PV that was started last.
    ///
    /// # Errors
    /// - `InvalidInput`: no PV was started; in `.raw`, the time is not in the years 1678 to 2261.
    /// - Those of the output.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match &mut self.writer {
            Writer::Raw(writer) => writer.event(event),
            Writer::Lines(lines) => lines.event(event),
        }
    }

    /// Writes the end of the reply and returns the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(self) -> io::Result<W> {
        match self.writer {
            Writer::Raw(writer) => writer.finish(),
            Writer::Lines(lines) => lines.finish(),
        }
    }
}

/// Place in a reply.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    BeforePvs,
    BeforeEvents,
    Events,
}

/// Writer of formats of text.
struct Lines<W> {
    format: Format,
    output: W,
    /// Bytes not yet written.
    buffer: Vec<u8>,
    place: Place,
}

impl<W: Write> Lines<W> {
    fn new(format: Format, output: W) -> Lines<W> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 1024);
        if matches!(format, Format::Json | Format::Qw) {
            buffer.extend_from_slice(b"[ \n");
        }
        Lines { format, output, buffer, place: Place::BeforePvs }
    }

    fn start(&mut self, pv: &Pv) -> io::Result<()> {
        let first = self.place == Place::BeforePvs;
        if !first && !self.format.has_several_pvs() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this format has one PV: use .raw, .json or .qw"));
        }
        self.place = Place::BeforeEvents;
        let out = &mut self.buffer;
        match self.format {
            Format::Json | Format::Qw => {
                out.extend_from_slice(if first { b"" } else { b"] },\n" });
                push_meta(out, pv, self.format);
            }
            Format::Text => {
                for (label, name) in [("Beginning data for ", &pv.header.pv), ("Data from stream ", &pv.source)] {
                    out.extend_from_slice(label.as_bytes());
                    out.extend_from_slice(name.as_bytes());
                    out.push(b'\n');
                }
            }
            Format::Csv | Format::Raw => {}
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let out = &mut self.buffer;
        match (self.format, self.place) {
            (_, Place::BeforePvs) => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "event before the first PV"));
            }
            (Format::Json | Format::Qw, Place::Events) => out.extend_from_slice(b",\n"),
            _ => {}
        }
        self.place = Place::Events;
        match self.format {
            Format::Json => push_json(out, event),
            Format::Qw => push_qw(out, event),
            Format::Csv => push_csv(out, event),
            Format::Text | Format::Raw => push_text_line(out, event),
        }
        if out.len() >= BUFFER_BYTES {
            self.output.write_all(out)?;
            out.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<W> {
        let out = &mut self.buffer;
        match self.format {
            Format::Json | Format::Qw => {
                if self.place != Place::BeforePvs {
                    out.extend_from_slice(if self.format == Format::Json { b"\n] }\n" } else { b"] }\n" });
                }
                out.extend_from_slice(b" ]\n");
            }
            Format::Csv => out.push(b'\n'),
            Format::Text | Format::Raw => {}
        }
        self.output.write_all(&self.buffer)?;
        self.output.flush()?;
        Ok(self.output)
    }
}

/// Seconds since 1970, and nanoseconds.
fn split(time: Nanos) -> (i64, i64) {
    (time.div_euclid(SECOND), time.rem_euclid(SECOND))
}

fn push_meta(out: &mut Vec<u8>, pv: &Pv, format: Format) {
    let quoted = |out: &mut Vec<u8>, text: &str| {
        out.push(b'"');
        push_json_text(out, text, needs_escape);
        out.push(b'"');
    };
    out.extend_from_slice(b"{ \"meta\": { \"name\": ");
    quoted(out, if format == Format::Qw { &pv.requested } else { &pv.header.pv });
    if format == Format::Qw {
        out.extend_from_slice(b" , \"waveform\": ");
        out.extend_from_slice(if pv.header.payload.is_waveform() { b"true" } else { b"false" });
    }
    for (name, value) in pv.header.fields.iter().filter(|(_, value)| !value.is_empty()) {
        out.extend_from_slice(b" , ");
        quoted(out, name);
        out.extend_from_slice(b": ");
        quoted(out, value);
    }
    out.extend_from_slice(b" },\n\"data\": [ \n");
}

fn push_json(out: &mut Vec<u8>, event: &Event) {
    let (seconds, nanos) = split(event.time());
    out.extend_from_slice(b"{ \"secs\": ");
    push_int(out, seconds);
    out.extend_from_slice(b", \"val\": ");
    push_json_value(out, &event.sample.value, push_f64, push_f32);
    out.extend_from_slice(b", \"nanos\": ");
    push_int(out, nanos);
    out.extend_from_slice(b", \"severity\":");
    push_int(out, event.sample.severity as i64);
    out.extend_from_slice(b", \"status\":");
    push_int(out, i64::from(event.sample.status));
    push_fields(out, event);
    out.extend_from_slice(b" }");
}

fn push_qw(out: &mut Vec<u8>, event: &Event) {
    out.extend_from_slice(b"{ \"millis\": ");
    push_int(out, event.time().div_euclid(1_000_000));
    out.extend_from_slice(b", \"val\": ");
    push_json_value(
        out,
        &event.sample.value,
        |out, value| if value.is_finite() { push_f64(out, value) } else { out.extend_from_slice(b"null") },
        |out, value| if value.is_finite() { push_f32(out, value) } else { out.extend_from_slice(b"null") },
    );
    push_fields(out, event);
    out.extend_from_slice(b" }");
}

fn push_csv(out: &mut Vec<u8>, event: &Event) {
    let (seconds, nanos) = split(event.time());
    push_int(out, seconds);
    out.push(b',');
    match &event.sample.value {
        Value::Scalar(Scalar::Text(text)) if text.bytes().any(|byte| b",\"\r\n".contains(&byte)) => {
            out.push(b'"');
            out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        }
        value => push_plain_value(out, value),
    }
    push_alarm_and_nanos(out, event, nanos, b',');
}

fn push_text_line(out: &mut Vec<u8>, event: &Event) {
    let (seconds, nanos) = split(event.time());
    push_time(out, seconds);
    out.push(b'\t');
    push_plain_value(out, &event.sample.value);
    push_alarm_and_nanos(out, event, nanos, b'\t');
}

fn push_alarm_and_nanos(out: &mut Vec<u8>, event: &Event, nanos: i64, separator: u8) {
    for number in [event.sample.severity as i64, i64::from(event.sample.status), nanos] {
        out.push(separator);
        push_int(out, number);
    }
    out.push(b'\n');
}

/// A time of whole seconds as `Jan/31/2024 23:59:59 UTC`.
fn push_time(out: &mut Vec<u8>, seconds: i64) {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    if seconds == 0 {
        return out.extend_from_slice(b"Never");
    }
    let (year, month, day) = date_of(seconds.div_euclid(86_400));
    let of_day = seconds.rem_euclid(86_400);
    let two = |out: &mut Vec<u8>, number: i64| {
        out.extend_from_slice(&[b'0' + (number / 10) as u8, b'0' + (number % 10) as u8])
    };
    out.extend_from_slice(MONTHS[month - 1]);
    out.push(b'/');
    two(out, i64::from(day));
    out.push(b'/');
    push_int(out, i64::from(year));
    for (separator, number) in [(b' ', of_day / 3600), (b':', of_day / 60 % 60), (b':', of_day % 60)] {
        out.push(separator);
        two(out, number);
    }
    out.extend_from_slice(b" UTC");
}

/// `, "fields": { … }`, if there are any.
fn push_fields(out: &mut Vec<u8>, event: &Event) {
    if event.fields.is_empty() {
        return;
    }
    out.extend_from_slice(b", \"fields\": { ");
    for (at, (name, value)) in event.fields.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
        push_json_text(out, name, needs_escape);
        out.extend_from_slice(b"\": \"");
        push_json_text(out, value, is_escaped_in_values);
        out.push(b'"');
    }
    out.push(b'}');
}

/// A value in JSON, with the numbers that may not be finite printed by `double` and `float`.
fn push_json_value(
    out: &mut Vec<u8>,
    value: &Value,
    double: impl Fn(&mut Vec<u8>, f64),
    float: impl Fn(&mut Vec<u8>, f32),
) {
    let quoted = |out: &mut Vec<u8>, text: &str| {
        out.push(b'"');
        push_json_text(out, text, is_escaped_in_values);
        out.push(b'"');
    };
    match value {
        Value::Scalar(Scalar::Text(text)) => quoted(out, text),
        Value::Array(Array::Text(texts)) => {
            let used = texts.iter().rposition(|text| !text.is_empty()).map_or(0, |last| last + 1);
            push_array(out, &texts[..used], |out, text| quoted(out, text));
        }
        Value::Structure(_) => out.extend_from_slice(b"{}"),
        value => push_numbers(out, value, double, float),
    }
}

/// A value as Java prints it, without quotes.
fn push_plain_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Scalar(Scalar::Text(text)) => out.extend_from_slice(text.as_bytes()),
        Value::Array(Array::Text(texts)) => push_array(out, texts, |out, text| out.extend_from_slice(text.as_bytes())),
        Value::Structure(_) => out.extend_from_slice(b"{}"),
        value => push_numbers(out, value, push_f64, push_f32),
    }
}

/// A value of numbers; nothing of another.
fn push_numbers(
    out: &mut Vec<u8>,
    value: &Value,
    double: impl Fn(&mut Vec<u8>, f64),
    float: impl Fn(&mut Vec<u8>, f32),
) {
    match value {
        Value::Scalar(scalar) => match scalar {
            Scalar::Int8(value) => push_int(out, i64::from(*value)),
            Scalar::Int16(value) => push_int(out, i64::from(*value)),
            Scalar::Int32(value) => push_int(out, i64::from(*value)),
            Scalar::Int64(value) => push_int(out, *value),
            Scalar::Enum(value) => push_int(out, i64::from(*value)),
            Scalar::Float32(value) => float(out, *value),
            Scalar::Float64(value) => double(out, *value),
            Scalar::Text(_) => {}
        },
        Value::Array(array) => match array {
            Array::Int8(values) => push_array(out, values, |out, value| push_int(out, i64::from(*value))),
            Array::Int16(values) => push_array(out, values, |out, value| push_int(out, i64::from(*value))),
            Array::Int32(values) => push_array(out, values, |out, value| push_int(out, i64::from(*value))),
            Array::Int64(values) => push_array(out, values, |out, value| push_int(out, *value)),
            Array::Enum(values) => push_array(out, values, |out, value| push_int(out, i64::from(*value))),
            Array::Float32(values) => push_array(out, values, |out, value| float(out, *value)),
            Array::Float64(values) => push_array(out, values, |out, value| double(out, *value)),
            Array::Text(_) => {}
        },
        Value::Structure(_) => {}
    }
}

fn push_array<T>(out: &mut Vec<u8>, values: &[T], push: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push(out, value);
    }
    out.push(b']');
}

/// Whether a character must not stand in a text of JSON as it is.
fn needs_escape(char: char) -> bool {
    matches!(char, '"' | '\\' | '\0'..='\x1f')
}

/// Whether json-simple escapes a character.
fn is_escaped_in_values(char: char) -> bool {
    needs_escape(char) || matches!(char, '/' | '\x7f'..='\u{9f}' | '\u{2000}'..='\u{20ff}')
}

fn push_json_text(out: &mut Vec<u8>, text: &str, is_escaped: impl Fn(char) -> bool) {
    let mut rest = text;
    while let Some((at, char)) = rest.char_indices().find(|(_, char)| is_escaped(*char)) {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at + char.len_utf8()..];
        out.push(b'\\');
        match char {
            '"' | '\\' | '/' => out.push(char as u8),
            '\x08' => out.push(b'b'),
            '\x0c' => out.push(b'f'),
            '\n' => out.push(b'n'),
            '\r' => out.push(b'r'),
            '\t' => out.push(b't'),
            char => {
                out.push(b'u');
                for shift in [12, 8, 4, 0] {
                    out.push(b"0123456789ABCDEF"[(char as usize >> shift) & 15]);
                }
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
}
