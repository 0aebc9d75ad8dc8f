//! The tables of samples in each product, and the statements that write and read them.
//!
//! | product | table | writing | reading |
//! |---|---|---|---|
//! | Millrace | `epics.samples`, one row per sample, and `epics.gaps`, one per lost connection | Flight ingest, or COPY binary | Flight, and PostgreSQL's protocol (prepared, binary) |
//! | PostgreSQL, MariaDB | the RDB archiver's schema | INSERTs of 500 rows, a transaction each | prepared, binary |
//!
//! Always true: a request is one transaction, and is acknowledged when its call returns.

mod millrace;
mod rdb;

use std::time::Duration;

use arrow_flight::FlightData;

use super::generator::Batch;
use super::pvs::Population;
use super::truth::{Digest, Interval, Sums};
use crate::drivers::Target;
use crate::drivers::pgwire::Login;
use crate::error::{Error, Result};

/// Longest wait for an answer. A scan of a month may take long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// Longest wait for the acknowledgement of a write, which may have to wait for compaction.
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest wait for maintenance of all data.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// Product that holds the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    Millrace,
    Postgres,
    MariaDb,
}

impl Product {
    pub(super) fn of(target: &Target) -> Result<Product> {
        match target.name.as_str() {
            "millrace" => Ok(Product::Millrace),
            "postgres" => Ok(Product::Postgres),
            "mariadb" | "mysql" => Ok(Product::MariaDb),
            other => Err(Error::setup(format!("--target {other}: expected millrace, postgres or mariadb"))),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Product::Millrace => "Millrace",
            Product::Postgres => "PostgreSQL",
            Product::MariaDb => "MariaDB",
        }
    }
}

/// Way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// Bulk ingest by Arrow Flight, with nanoseconds.
    Flight,
    /// COPY in binary format; times have microseconds.
    Copy,
    /// INSERTs of several rows.
    Insert,
}

impl Path {
    /// Path of a target: its option `write`, or the product's default.
    pub(super) fn of(target: &Target, product: Product) -> Result<Path> {
        if product != Product::Millrace {
            target.only(&[])?;
            return Ok(Path::Insert);
        }
        target.only(&["write", "flight", "http"])?;
        match target.choice("write", &["flight", "copy"])? {
            "copy" => Ok(Path::Copy),
            _ => Ok(Path::Flight),
        }
    }

    /// Name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Path::Flight => "Arrow Flight ingest, one DoPut per batch",
            Path::Copy => "COPY BINARY, one statement per batch",
            Path::Insert => "INSERT, one statement and transaction per 500 rows",
        }
    }
}

/// Protocol of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Flight,
    Postgres,
    MySql,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Protocol::Flight => "Flight SQL",
            Protocol::Postgres => "PostgreSQL, binary",
            Protocol::MySql => "MySQL, binary",
        }
    }
}

/// A query of the published test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    /// Time, value, status and severity of one PV, in order of time.
    OnePv {
        /// Index in the population.
        index: usize,
        /// Nanoseconds since 1970, half-open, in whole microseconds.
        from: i64,
        to: i64,
        /// Samples in this range.
        rows: u64,
    },
    /// All samples of all PVs in an interval.
    AllPvs(Interval),
    /// The newest sample of every PV.
    Newest,
    /// Sums over all samples, computed by the server.
    Scan,
    /// All samples of all PVs, sent to the client.
    Everything,
}

/// Contents of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Content {
    Samples(Digest),
    Sums(Sums),
}

/// A checked answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// From sending to the complete answer. Computing the digest does not count, except for
    /// [`Question::Everything`], whose answer is not kept.
    pub(super) took: Duration,
    pub(super) content: Content,
}

/// A write that is ready to be sent.
pub(super) struct Request {
    pub(super) rows: u64,
    body: Body,
}

enum Body {
    /// Messages of a DoPut.
    Flight(Vec<FlightData>),
    /// A COPY with its data.
    Copy(Vec<u8>),
    /// Parameters of a prepared INSERT.
    Parameters(Vec<u8>),
    /// A statement as text.
    Sql(String),
}

/// Converts batches to requests, on the generator's thread.
pub(super) trait Encoder: Send {
    /// Appends the requests with the rows of `batch`, in order of arrival.
    fn encode(&mut self, population: &Population, batch: &Batch, requests: &mut Vec<Request>) -> Result<()>;

    /// Appends the rows that did not fill a request.
    fn finish(&mut self, requests: &mut Vec<Request>) -> Result<()>;
}

/// A connection that sends requests.
pub(super) trait Writer: Send {
    /// Sends a request and waits until it is acknowledged.
    fn write(&mut self, request: &Request) -> Result<()>;
}

/// The tables in one product, with a connection for everything but writing.
pub(super) trait Store {
    fn version(&mut self) -> Result<String>;

    /// Creates the tables empty.
    fn create(&mut self, population: &Population) -> Result<()>;

    fn drop_tables(&mut self) -> Result<()>;

    /// Rows of the table of gaps; `None` if lost connections are samples.
    fn gaps(&mut self) -> Result<Option<u64>>;

    fn encoder(&self) -> Box<dyn Encoder>;

    fn writer(&self) -> Result<Box<dyn Writer>>;

    /// Runs the maintenance that the server would do later, and writes a checkpoint.
    fn settle(&mut self) -> Result<()>;

    /// Rewrites the tables in their smallest form.
    fn compact(&mut self) -> Result<()>;

    /// Protocols of a question; none if the product is not asked.
    fn protocols(&self, question: &Question) -> &'static [Protocol];

    /// The statement of a question, for the report.
    fn statement(&self, question: &Question) -> String;

    fn ask(&mut self, protocol: Protocol, question: &Question) -> Result<Answer>;

    /// Creates an empty table for blocks of text lines: time, PV, value, severity and status,
    /// separated by tabs.
    fn create_blocks(&mut self) -> Result<()>;

    /// Loads a block of lines as one statement.
    fn load_block(&mut self, lines: &[u8], rows: u64) -> Result<Duration>;

    fn drop_blocks(&mut self) -> Result<()>;
}

/// Connects to the product of `target`.
pub(super) fn open(target: &Target, product: Product, path: Path, population: &Population) -> Result<Box<dyn Store>> {
    Ok(match product {
        Product::Millrace => Box::new(millrace::Millrace::open(target, path, population)?),
        Product::Postgres => Box::new(rdb::Rdb::postgres(target, population)?),
        Product::MariaDb => Box::new(rdb::Rdb::mariadb(target, population)?),
    })
}

/// Login of PostgreSQL's protocol.
fn login(target: &Target, port: u16, user: &str, database: &str) -> Result<Login> {
    let parameters = [("application_name", "millrace bench"), ("TimeZone", "UTC")];
    Ok(Login {
        address: target.address(0, port)?,
        network_of: target.network_of,
        user: target.user.clone().unwrap_or_else(|| user.to_owned()),
        password: target.password.clone(),
        database: target.database.clone().unwrap_or_else(|| database.to_owned()),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
    })
}

/// Compares the acknowledged rows of a write with those sent.
fn expect_rows(seen: u64, expected: u64) -> Result<()> {
    if seen == expected {
        return Ok(());
    }
    Err(Error::protocol(format!("sent {expected} rows, the server reports {seen} written rows")))
}

/// Appends a value of a binary row: length, then bytes.
fn field(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a value, or null.
fn optional(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => field(bytes, out),
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}

/// Converts a column of a binary row to an array; `None` if it is null.
fn fixed<const N: usize>(column: Option<&[u8]>) -> Result<Option<[u8; N]>> {
    let wrong = |bytes: &[u8]| Error::protocol(format!("a column of {} bytes, expected {N}", bytes.len()));
    column.map(|bytes| bytes.try_into().map_err(|_| wrong(bytes))).transpose()
}
