//! The public surface; the bodies are being written.
#![allow(missing_docs, unused_variables, clippy::unused_async)]

use std::collections::BTreeMap;
use std::pin::Pin;

use arrow_array::RecordBatch;
use engine::Engine;
use futures::Stream;
use model::{Error, Lsn, Result};

/// How much the SQL runtime may use.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for sorts, joins and aggregates of all statements together; beyond it they spill to `Engine::spill_dir`, then fail with 53200.
    pub memory_bytes: u64,
    /// Partitions of one statement.
    pub threads: usize,
}

/// An engine with a SQL runtime. Cloning shares it.
#[derive(Clone)]
pub struct Database {}

impl Database {
    pub fn new(engine: Engine, options: Options) -> Result<Database> {
        unimplemented!()
    }

    pub fn engine(&self) -> &Engine {
        unimplemented!()
    }

    /// A new session with default settings. `user` is shown by `current_user`.
    pub fn session(&self, user: &str) -> Session {
        unimplemented!()
    }

    /// Waits (without holding a thread) until a commit is through.
    pub async fn finish(&self, committing: engine::Committing) -> Result<Lsn> {
        unimplemented!()
    }
}

/// A parameter or cell value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    Float32(f32),
    Float64(f64),
    /// Unscaled value and scale.
    Numeric(i128, u8),
    Text(String),
    Bytes(Vec<u8>),
    /// Nanoseconds since 1970 UTC.
    Timestamptz(i64),
    /// Nanoseconds since 1970, no zone.
    Timestamp(i64),
    /// Days since 1970.
    Date(i32),
    /// Nanoseconds since midnight.
    Time(i64),
    /// Months, days, nanoseconds.
    Interval(i32, i32, i64),
    Uuid([u8; 16]),
    Array(Vec<Value>),
}

/// One column of a result, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputColumn {
    pub name: String,
    /// PostgreSQL type OID (see crate `pg`).
    pub oid: u32,
    /// -1 when none.
    pub typmod: i32,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxnStatus {
    /// 'I'
    Idle,
    /// 'T'
    InBlock,
    /// 'E'
    Failed,
}

/// A parsed statement, not yet typed. Cloning is cheap.
#[derive(Clone)]
pub struct Statement {}

impl Statement {
    /// The text it came from, without the semicolon.
    pub fn sql(&self) -> &str {
        unimplemented!()
    }
}

/// Splits and parses a text of any number of statements (none gives an empty list).
///
/// # Errors
/// 42601 with the position in characters.
pub fn parse(sql: &str) -> Result<Vec<Statement>> {
    unimplemented!()
}

/// A parsed and typed statement. Valid as long as the catalog suits it; `Session::execute` plans again when it changed.
#[derive(Clone)]
pub struct Prepared {}

impl Prepared {
    /// OIDs of `$1 ..`.
    pub fn parameters(&self) -> &[u32] {
        unimplemented!()
    }

    /// Columns of the result; `None` for statements without one.
    pub fn columns(&self) -> Option<&[OutputColumn]> {
        unimplemented!()
    }
}

/// Rows as they come.
pub type Batches = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// What executing a statement gave.
pub enum Outcome {
    /// A result; the command tag is `tag` and, for SELECT, the number of rows.
    Rows { columns: Vec<OutputColumn>, batches: Batches, tag: &'static str },
    /// A finished command with its tag ("INSERT 0 3", "CREATE TABLE", "BEGIN" …).
    Command { tag: String },
    /// `COPY … FROM STDIN`: feed it.
    CopyIn(CopyIn),
    /// `COPY … TO STDOUT`: encoded chunks; `binary` tells the format. The tag is "COPY n" with the count of rows.
    CopyOut { binary: bool, columns: usize, chunks: Pin<Box<dyn Stream<Item = Result<CopyChunk>> + Send>> },
    /// The empty statement.
    Empty,
}

/// A part of COPY OUT.
pub struct CopyChunk {
    pub bytes: Vec<u8>,
    pub rows: u64,
}

/// A running COPY FROM STDIN. Dropping it abandons the rows.
pub struct CopyIn {}

impl CopyIn {
    pub fn binary(&self) -> bool {
        unimplemented!()
    }

    pub fn columns(&self) -> usize {
        unimplemented!()
    }

    /// Decodes a piece of the stream, cut anywhere.
    pub async fn data(&mut self, session: &mut Session, bytes: &[u8]) -> Result<()> {
        unimplemented!()
    }

    /// The end: commits unless in a block; gives the tag "COPY n".
    pub async fn done(self, session: &mut Session) -> Result<String> {
        unimplemented!()
    }
}

/// One client's settings and transaction.
pub struct Session {}

impl Session {
    pub fn status(&self) -> TxnStatus {
        unimplemented!()
    }

    /// Types a statement. `types`: OIDs the client declared, 0 = infer.
    pub async fn prepare(&mut self, statement: &Statement, types: &[u32]) -> Result<Prepared> {
        unimplemented!()
    }

    /// Executes. Rows of a SELECT are produced as the stream is polled and see the snapshot of this call. An error in a block fails the
    /// block (also one that comes later from the stream: report it with [`Session::fail`]).
    pub async fn execute(&mut self, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
        unimplemented!()
    }

    /// Marks the block as failed after an error met outside `execute` (in a stream, in COPY data).
    pub fn fail(&mut self) {
        unimplemented!()
    }

    /// Begins/ends the implicit transaction of a multi-statement simple query: all its statements commit together unless they say otherwise.
    pub fn begin_implicit(&mut self) {
        unimplemented!()
    }

    pub async fn end_implicit(&mut self) -> Result<()> {
        unimplemented!()
    }

    /// Rolls back whatever is open (connection lost).
    pub fn reset(&mut self) {
        unimplemented!()
    }

    /// A setting as SHOW gives it, e.g. `timezone`, `application_name`.
    pub fn setting(&self, name: &str) -> Option<String> {
        unimplemented!()
    }

    /// SET, for start-up parameters.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        unimplemented!()
    }

    /// Settings that changed since the last call and must be told to the client (ParameterStatus), with their values.
    pub fn changed_settings(&mut self) -> BTreeMap<String, String> {
        unimplemented!()
    }

    /// Notices raised since the last call.
    pub fn notices(&mut self) -> Vec<Error> {
        unimplemented!()
    }
}
