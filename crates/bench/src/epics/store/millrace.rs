//! Millrace: the archiver's tables `epics.samples` and `epics.gaps`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int16Type, Int32Type, TimestampNanosecondType};
use arrow_array::{Array, DictionaryArray, Int16Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::super::generator::{Batch, Sample};
use super::super::pvs::Population;
use super::super::truth::{Digest, Sums, identity};
use super::{
    ANSWER_TIMEOUT, Answer, Body, Content, Encoder, Path, Protocol, Question, Request, SETTLE_TIMEOUT, Store,
    WRITE_TIMEOUT, Writer, expect_rows, field, fixed, login, optional,
};
use crate::drivers::Target;
use crate::drivers::copy::{EPOCH_MICROS, HEADER, TRAILER};
use crate::drivers::flight::{Flight, Scratch, encode_rows};
use crate::drivers::pgwire::{Format, Login, Pg, oid, push_copy};
use crate::error::{Error, Result};

const SCHEMA: &str = "epics";
const TABLE: &str = "samples";
/// The archiver's tables.
const DEFINITIONS: [&str; 2] = [
    "CREATE TABLE epics.samples (time timestamptz NOT NULL, pv text NOT NULL, value float8, \
     exact int8, string text, elements bytea, severity int2, status int2, received timestamptz, type int2) \
     WITH (store = 'columns', key = 'pv', time = 'time', partition = '1 day')",
    "CREATE TABLE epics.gaps (time timestamptz NOT NULL, pv text NOT NULL, reason text NOT NULL, \
     ended timestamptz, samples int8, detail text, filled boolean) \
     WITH (store = 'columns', key = 'pv, reason', time = 'time', partition = '7 days')",
];
const GAPS: &str = "SELECT count(*) FROM epics.gaps";
const BLOCKS: &str = "CREATE TABLE epics.blocks (time timestamptz NOT NULL, pv text NOT NULL, value float8, \
     severity int2, status int2) WITH (store = 'columns', key = 'pv', time = 'time', partition = '1 day')";
const ONE_PV: &str = "SELECT time, value, status, severity FROM epics.samples \
     WHERE pv = $1 AND time >= $2 AND time < $3 ORDER BY time";
const ALL_PVS: &str = "SELECT pv, time, value, status, severity FROM epics.samples WHERE time >= $1 AND time < $2";
const NEWEST: &str =
    "SELECT DISTINCT ON (pv) pv, time, value, status, severity FROM epics.samples ORDER BY pv, time DESC";
/// The condition on `exact` makes the server read both columns; sums of a whole column could come
/// from the statistics of blocks.
const SCAN: &str = "SELECT count(*), sum(value) FILTER (WHERE exact IS NULL), sum(severity), sum(status) \
     FROM epics.samples";
const EVERYTHING: &str = "SELECT pv, time, value, status, severity FROM epics.samples";

pub(super) struct Millrace {
    path: Path,
    names: Vec<String>,
    login: Login,
    flight_address: String,
    network_of: Option<u32>,
    pg: Pg,
    flight: Flight,
}

impl Millrace {
    pub(super) fn open(target: &Target, path: Path, population: &Population) -> Result<Millrace> {
        let login = login(target, 7432, "bench", "millrace")?;
        let host = login.address.rsplit_once(':').map_or(login.address.as_str(), |(host, _)| host);
        let flight_address = target.option("flight", &format!("{host}:7470")).to_owned();
        let mut pg = Pg::new(login.clone());
        pg.open()?;
        let mut flight = Flight::new(flight_address.clone(), target.network_of);
        flight.open()?;
        let (names, network_of) = (population.names.clone(), target.network_of);
        Ok(Millrace { path, names, login, flight_address, network_of, pg, flight })
    }

    /// SQL of a question with literals, as Flight sends it.
    fn literal(&self, question: &Question) -> String {
        let time = |nanos: i64| format!("'{}'", time_text(nanos));
        let sql = statement(question).to_owned();
        match question {
            Question::OnePv { index, from, to, .. } => sql
                .replace("$1", &format!("'{}'", self.names[*index]))
                .replace("$2", &time(*from))
                .replace("$3", &time(*to)),
            Question::AllPvs(interval) => sql.replace("$1", &time(interval.from)).replace("$2", &time(interval.to)),
            _ => sql,
        }
    }

    fn ask_flight(&mut self, question: &Question) -> Result<Answer> {
        let sql = self.literal(question);
        let pv = self.pv_of(question);
        let mut digest = Digest::default();
        let mut kept = Vec::new();
        let streams = *question == Question::Everything;
        let began = Instant::now();
        self.flight.query(&sql, ANSWER_TIMEOUT, &mut |rows| {
            if streams {
                return add_rows(pv, rows, &mut digest);
            }
            kept.push(rows.clone());
            Ok(())
        })?;
        let took = began.elapsed();
        kept.iter().try_for_each(|rows| add_rows(pv, rows, &mut digest))?;
        Ok(Answer { took, content: Content::Samples(digest) })
    }

    fn ask_pg(&mut self, question: &Question) -> Result<Answer> {
        let types: &[u32] = match question {
            Question::OnePv { .. } => &[oid::TEXT, oid::TIMESTAMPTZ, oid::TIMESTAMPTZ],
            Question::AllPvs(_) => &[oid::TIMESTAMPTZ, oid::TIMESTAMPTZ],
            _ => &[],
        };
        let micros = |nanos: i64| nanos.div_euclid(1_000) - EPOCH_MICROS;
        let began = Instant::now();
        let statement = self.pg.prepare(statement(question), types);
        self.pg.begin()?;
        self.pg.bind(statement, Format::Binary, |out| match question {
            Question::OnePv { index, from, to, .. } => {
                out.text(&self.names[*index]);
                out.int8(micros(*from));
                out.int8(micros(*to));
            }
            Question::AllPvs(interval) => {
                out.int8(micros(interval.from));
                out.int8(micros(interval.to));
            }
            _ => {}
        });
        self.pg.finish(ANSWER_TIMEOUT)?;
        let took = began.elapsed();
        let content = match question {
            Question::Scan => Content::Sums(self.sums()?),
            _ => Content::Samples(self.digest(self.pv_of(question))?),
        };
        Ok(Answer { took, content })
    }

    fn pv_of(&self, question: &Question) -> Option<u64> {
        match question {
            Question::OnePv { index, .. } => Some(identity(self.names[*index].as_bytes())),
            _ => None,
        }
    }

    /// Digest of the rows of the last answer. `pv`: of all rows; otherwise the first column has the
    /// name.
    fn digest(&self, pv: Option<u64>) -> Result<Digest> {
        let mut digest = Digest::default();
        for mut row in self.pg.rows(0) {
            let pv = match pv {
                Some(pv) => pv,
                None => identity(row.column()?.unwrap_or_default()),
            };
            let micros = fixed(row.column()?)?.map_or(i64::MIN, i64::from_be_bytes);
            let value = fixed(row.column()?)?.map(f64::from_be_bytes);
            let status = fixed(row.column()?)?.map_or(-1, i16::from_be_bytes);
            let severity = fixed(row.column()?)?.map_or(-1, i16::from_be_bytes);
            digest.add(pv, micros.wrapping_add(EPOCH_MICROS), value, severity.into(), status.into());
        }
        Ok(digest)
    }

    fn sums(&self) -> Result<Sums> {
        let mut row = self.pg.rows(0).next().ok_or_else(|| Error::protocol("a scan without a row"))?;
        let rows = fixed(row.column()?)?.map_or(0, i64::from_be_bytes) as u64;
        let value = fixed(row.column()?)?.map_or(0.0, f64::from_be_bytes);
        let severity = fixed(row.column()?)?.map_or(0, i64::from_be_bytes);
        let status = fixed(row.column()?)?.map_or(0, i64::from_be_bytes);
        Ok(Sums { rows, value, severity, status, ..Sums::default() })
    }

    fn run(&mut self, sql: &str, timeout: Duration) -> Result<()> {
        self.pg.simple(sql, timeout)
    }
}

fn statement(question: &Question) -> &'static str {
    match question {
        Question::OnePv { .. } => ONE_PV,
        Question::AllPvs(_) => ALL_PVS,
        Question::Newest => NEWEST,
        Question::Scan => SCAN,
        Question::Everything => EVERYTHING,
    }
}

/// A time as SQL and RFC 3339 write it.
fn time_text(nanos: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(nanos)).map_or_else(|_| String::new(), |time| time.to_string())
}

/// Adds the rows of a record batch to `digest`; columns are those of [`statement`].
fn add_rows(pv: Option<u64>, rows: &RecordBatch, digest: &mut Digest) -> Result<()> {
    let column = |name: &str| {
        rows.column_by_name(name).ok_or_else(|| Error::protocol(format!("the answer has no column {name:?}")))
    };
    let wrong = |name: &str| Error::protocol(format!("the column {name:?} has another type"));
    let times = column("time")?.as_primitive_opt::<TimestampNanosecondType>().ok_or_else(|| wrong("time"))?;
    let values = column("value")?.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong("value"))?;
    let statuses = column("status")?.as_primitive_opt::<Int16Type>().ok_or_else(|| wrong("status"))?;
    let severities = column("severity")?.as_primitive_opt::<Int16Type>().ok_or_else(|| wrong("severity"))?;
    let names = match pv {
        Some(_) => None,
        None => Some(column("pv")?.as_string_opt::<i32>().ok_or_else(|| wrong("pv"))?),
    };
    // Neighbouring rows are mostly of one PV: its name is hashed once.
    let (mut last, mut number) = ("", pv.unwrap_or_default());
    for row in 0..rows.num_rows() {
        if let Some(name) = names.map(|names| names.value(row)).filter(|name| *name != last) {
            (last, number) = (name, identity(name.as_bytes()));
        }
        let value = (!values.is_null(row)).then(|| values.value(row));
        let micros = times.value(row).div_euclid(1_000);
        digest.add(number, micros, value, severities.value(row).into(), statuses.value(row).into());
    }
    Ok(())
}

impl Store for Millrace {
    fn version(&mut self) -> Result<String> {
        self.run("SELECT version()", ANSWER_TIMEOUT)?;
        let cell = self.pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        let text = cell.map_or("unknown".into(), String::from_utf8_lossy);
        // The server reports `PostgreSQL 15.0 (Millrace 1.2.3 …)`.
        Ok(text.split_once("Millrace ").map_or(&*text, |(_, version)| version).trim_end_matches(')').to_owned())
    }

    fn create(&mut self, _: &Population) -> Result<()> {
        self.run("CREATE SCHEMA IF NOT EXISTS epics", ANSWER_TIMEOUT)?;
        self.drop_tables()?;
        DEFINITIONS.iter().try_for_each(|definition| self.run(definition, ANSWER_TIMEOUT))
    }

    fn drop_tables(&mut self) -> Result<()> {
        self.run("DROP TABLE IF EXISTS epics.samples, epics.gaps", ANSWER_TIMEOUT)
    }

    fn gaps(&mut self) -> Result<Option<u64>> {
        self.run(GAPS, ANSWER_TIMEOUT)?;
        let text = self.pg.rows(0).next().map(|mut row| row.column()).transpose()?.flatten();
        let count = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        count.map(Some).ok_or_else(|| Error::protocol("count(*) is not a number"))
    }

    fn encoder(&self) -> Box<dyn Encoder> {
        match self.path {
            Path::Flight => Box::new(FlightEncoder::new()),
            Path::Copy | Path::Insert => Box::new(CopyEncoder { bytes_max: 0 }),
        }
    }

    fn writer(&self) -> Result<Box<dyn Writer>> {
        let mut pg = Pg::new(self.login.clone());
        let mut flight = Flight::new(self.flight_address.clone(), self.network_of);
        pg.open()?;
        if self.path == Path::Flight {
            flight.open()?;
        }
        Ok(Box::new(MillraceWriter { pg, flight }))
    }

    fn settle(&mut self) -> Result<()> {
        self.run("CHECKPOINT", SETTLE_TIMEOUT)
    }

    fn compact(&mut self) -> Result<()> {
        self.run("VACUUM FULL epics.samples", SETTLE_TIMEOUT)?;
        self.settle()
    }

    fn protocols(&self, question: &Question) -> &'static [Protocol] {
        match question {
            Question::Scan => &[Protocol::Postgres],
            Question::Everything => &[Protocol::Flight],
            _ => &[Protocol::Flight, Protocol::Postgres],
        }
    }

    fn statement(&self, question: &Question) -> String {
        self.literal(question)
    }

    fn ask(&mut self, protocol: Protocol, question: &Question) -> Result<Answer> {
        match protocol {
            Protocol::Flight => self.ask_flight(question),
            Protocol::Postgres | Protocol::MySql => self.ask_pg(question),
        }
    }

    fn create_blocks(&mut self) -> Result<()> {
        self.drop_blocks()?;
        self.run(BLOCKS, ANSWER_TIMEOUT)
    }

    fn load_block(&mut self, lines: &[u8], rows: u64) -> Result<Duration> {
        let mut request = Vec::with_capacity(lines.len() + 256);
        let sql = "COPY epics.blocks (time, pv, value, severity, status) FROM STDIN";
        push_copy(sql, |out| out.extend_from_slice(lines), &mut request);
        let began = Instant::now();
        self.pg.send(&request, 1, WRITE_TIMEOUT)?;
        expect_rows(self.pg.affected(0), rows)?;
        Ok(began.elapsed())
    }

    fn drop_blocks(&mut self) -> Result<()> {
        self.run("DROP TABLE IF EXISTS epics.blocks", ANSWER_TIMEOUT)
    }
}

struct MillraceWriter {
    pg: Pg,
    flight: Flight,
}

impl Writer for MillraceWriter {
    fn write(&mut self, request: &Request) -> Result<()> {
        let written = match &request.body {
            Body::Flight(messages) => self.flight.put(messages, WRITE_TIMEOUT)?,
            Body::Copy(bytes) => {
                self.pg.send(bytes, 1, WRITE_TIMEOUT)?;
                self.pg.affected(0)
            }
            Body::Parameters(_) | Body::Sql(_) => return Err(Error::setup("BUG: a request of another product")),
        };
        expect_rows(written, request.rows)
    }
}

struct FlightEncoder {
    columns: SchemaRef,
    scratch: Scratch,
    codes: Codes,
}

/// Codes of the names of a batch, in the order in which they occur.
#[derive(Default)]
struct Codes {
    of_pv: Vec<Code>,
    batch: u32,
    names: Vec<u32>,
}

/// Code and type of a PV. The encoder looks them up for each sample, so that they are few bytes.
#[derive(Clone, Copy, Default)]
struct Code {
    /// The batch that has this code.
    batch: u32,
    code: i32,
    archived_type: i16,
}

impl Codes {
    fn begin(&mut self, population: &Population) {
        self.of_pv.resize(population.pvs.len(), Code::default());
        self.batch += 1;
        self.names.clear();
    }

    fn of(&mut self, population: &Population, pv: u32) -> (i32, i16) {
        let code = &mut self.of_pv[pv as usize];
        if code.batch != self.batch {
            let pv = &population.pvs[pv as usize];
            *code = Code { batch: self.batch, code: self.names.len() as i32, archived_type: pv.archived_type() };
            self.names.push(pv.name);
        }
        (code.code, code.archived_type)
    }
}

impl FlightEncoder {
    fn new() -> FlightEncoder {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let columns = [
            Field::new("time", time, false),
            Field::new("pv", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), false),
            Field::new("value", DataType::Float64, true),
            Field::new("exact", DataType::Int64, true),
            Field::new("string", DataType::Utf8, true),
            Field::new("elements", DataType::Binary, true),
            Field::new("severity", DataType::Int16, true),
            Field::new("status", DataType::Int16, true),
            Field::new("type", DataType::Int16, true),
        ];
        FlightEncoder {
            columns: Arc::new(Schema::new(columns.to_vec())),
            scratch: Scratch::default(),
            codes: Codes::default(),
        }
    }

    fn rows(&mut self, population: &Population, batch: &Batch) -> Result<RecordBatch> {
        let count = batch.samples.len();
        let mut times = Vec::with_capacity(count);
        let mut codes = Vec::with_capacity(count);
        let mut values = Float64Builder::with_capacity(count);
        let mut exacts = Int64Builder::with_capacity(count);
        let mut texts = StringBuilder::with_capacity(count, count);
        let mut elements = BinaryBuilder::with_capacity(count, batch.heap.len());
        let mut severities: Vec<i16> = Vec::with_capacity(count);
        let mut statuses: Vec<i16> = Vec::with_capacity(count);
        let mut types = Vec::with_capacity(count);
        self.codes.begin(population);
        for sample in values_of(batch) {
            let (code, archived_type) = self.codes.of(population, sample.pv);
            times.push(sample.time);
            codes.push(code);
            types.push(archived_type);
            values.append_option(sample.number());
            exacts.append_option(sample.exact());
            texts.append_option(sample.text(&batch.heap));
            elements.append_option(sample.elements(&batch.heap));
            severities.push(sample.severity.into());
            statuses.push(sample.status.into());
        }
        let names: StringArray =
            self.codes.names.iter().map(|name| Some(population.names[*name as usize].as_str())).collect();
        let pvs = DictionaryArray::<Int32Type>::new(codes.into(), Arc::new(names));
        let arrays: Vec<Arc<dyn Array>> = vec![
            Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
            Arc::new(pvs),
            Arc::new(values.finish()),
            Arc::new(exacts.finish()),
            Arc::new(texts.finish()),
            Arc::new(elements.finish()),
            Arc::new(Int16Array::from(severities)),
            Arc::new(Int16Array::from(statuses)),
            Arc::new(Int16Array::from(types)),
        ];
        let invalid = |error| Error::setup(format!("BUG: a record batch is invalid: {error}"));
        RecordBatch::try_new(Arc::clone(&self.columns), arrays).map_err(invalid)
    }
}

impl Encoder for FlightEncoder {
    fn encode(&mut self, population: &Population, batch: &Batch, requests: &mut Vec<Request>) -> Result<()> {
        if batch.samples.is_empty() {
            return Ok(());
        }
        let rows = self.rows(population, batch)?;
        if rows.num_rows() > 0 {
            let mut messages = Vec::new();
            encode_rows(SCHEMA, TABLE, &self.columns, &rows, &mut self.scratch, &mut messages)?;
            requests.push(Request { rows: rows.num_rows() as u64, body: Body::Flight(messages) });
        }
        requests.extend(gaps(population, batch));
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<Request>) -> Result<()> {
        Ok(())
    }
}

/// The samples with a value, in order of arrival.
fn values_of(batch: &Batch) -> impl Iterator<Item = &Sample> {
    batch.arrived.iter().filter(|sample| sample.lost_until().is_none())
}

/// The gaps that the archiver writes for the lost connections of a batch.
fn gaps(population: &Population, batch: &Batch) -> Option<Request> {
    if batch.lost == 0 {
        return None;
    }
    let mut lines = String::new();
    for sample in &batch.arrived {
        let Some(until) = sample.lost_until() else { continue };
        let (from, until) = (time_text(sample.time), time_text(until));
        lines.push_str(&format!("{from}\t{}\tdisconnected\t{until}\n", population.name(sample.pv)));
    }
    let mut bytes = Vec::new();
    let sql = "COPY epics.gaps (time, pv, reason, ended) FROM STDIN";
    push_copy(sql, |out| out.extend_from_slice(lines.as_bytes()), &mut bytes);
    Some(Request { rows: batch.lost as u64, body: Body::Copy(bytes) })
}

struct CopyEncoder {
    /// Size of the largest request so far.
    bytes_max: usize,
}

impl Encoder for CopyEncoder {
    fn encode(&mut self, population: &Population, batch: &Batch, requests: &mut Vec<Request>) -> Result<()> {
        if batch.samples.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(self.bytes_max);
        let sql = "COPY epics.samples (time, pv, value, exact, string, elements, severity, status, type) FROM STDIN \
                   (FORMAT binary)";
        let mut count = 0;
        let rows = |out: &mut Vec<u8>| {
            out.extend_from_slice(HEADER);
            for sample in values_of(batch) {
                count += 1;
                let pv = &population.pvs[sample.pv as usize];
                out.extend_from_slice(&9_i16.to_be_bytes());
                field(&(sample.time.div_euclid(1_000) - EPOCH_MICROS).to_be_bytes(), out);
                field(population.names[pv.name as usize].as_bytes(), out);
                optional(sample.number().map(f64::to_be_bytes).as_ref().map(|bytes| &bytes[..]), out);
                optional(sample.exact().map(i64::to_be_bytes).as_ref().map(|bytes| &bytes[..]), out);
                optional(sample.text(&batch.heap).map(str::as_bytes), out);
                optional(sample.elements(&batch.heap), out);
                field(&i16::from(sample.severity).to_be_bytes(), out);
                field(&i16::from(sample.status).to_be_bytes(), out);
                field(&pv.archived_type().to_be_bytes(), out);
            }
            out.extend_from_slice(&TRAILER);
        };
        push_copy(sql, rows, &mut bytes);
        self.bytes_max = self.bytes_max.max(bytes.len());
        requests.push(Request { rows: count, body: Body::Copy(bytes) });
        requests.extend(gaps(population, batch));
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<Request>) -> Result<()> {
        Ok(())
    }
}
