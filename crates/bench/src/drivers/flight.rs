//! Synchronous bulk ingestion by Arrow Flight SQL: `CommandStatementIngest` over gRPC's DoPut, as
//! ADBC's `adbc_ingest` sends it. Queries by `CommandStatementQuery`: GetFlightInfo, then DoGet.
//!
//! A request is one DoPut: the table's schema, the record batches, the end of the stream. The
//! server commits and acknowledges an ingestion at its end only, so that each batch of the
//! benchmark needs its own DoPut; the connection stays open.
//!
//! Always true:
//! - A request is never repeated automatically. A connection that the server closed while it was
//!   idle is noticed *before* a request and replaced; one that fails during a request is dropped.
//! - A request ends by its time-out.
//!
//! Each connection has its own runtime, which runs on the client's thread and only during requests.
//! Messages are encoded before the measurement, except gRPC's framing, which copies them once.
//!
//! Source: Arrow's "Flight SQL" and "Arrow Flight RPC"; gRPC over HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, CommandStatementQuery, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions,
    TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor, PutResult, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::SchemaRef;
use futures::{StreamExt, TryStreamExt};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

use super::arrow::{Tables, bug};
use super::pgwire;
use super::socket::connect;
use crate::error::{Class, Error, Result};
use crate::schema::{Batch, Schema};

/// Time-out of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Approximate size limit of a message. Servers limit messages; larger batches are split within
/// their DoPut.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Largest message of an answer that is accepted.
const ANSWER_BYTES_MAX: usize = 256 << 20;
/// Metadata key with which Millrace sends an error's SQLSTATE.
const SQLSTATE: &str = "x-millrace-sqlstate";

/// Builds requests that append rows to the tables of one schema.
pub(crate) struct Ingest {
    tables: Tables,
    /// First message by table: the target table and its schema.
    heads: Vec<FlightData>,
    options: IpcWriteOptions,
}

/// Reused buffers of the encoder.
pub(crate) struct Scratch(IpcWriteContext);

impl Default for Scratch {
    fn default() -> Scratch {
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        Scratch(context)
    }
}

impl Ingest {
    /// Prepares requests for tables in the SQL schema named like the database, which must exist.
    pub(crate) fn new(schema: &Arc<Schema>) -> Ingest {
        let (tables, options) = (Tables::new(schema), IpcWriteOptions::default());
        let head = |(at, table): (u32, &crate::schema::Table)| {
            let head: FlightData = SchemaAsIpc::new(tables.columns(at), &options).into();
            head.with_descriptor(descriptor(&schema.database, &table.name))
        };
        let heads = (0..).zip(&schema.tables).map(head).collect();
        Ingest { tables, heads, options }
    }

    /// Replaces `request` by the messages of a DoPut with the rows of `batch`, which must have all
    /// fields of its table.
    ///
    /// # Errors
    /// As [`Tables::record_batch`].
    pub(crate) fn encode(&self, batch: &Batch, scratch: &mut Scratch, request: &mut Vec<FlightData>) -> Result<()> {
        let rows = self.tables.record_batch(batch)?;
        request.clear();
        request.push(self.heads[batch.table as usize].clone());
        for piece in pieces(&rows) {
            // No dictionaries are used: tags are sent as text.
            let mut none = DictionaryTracker::new(true);
            let encoded = IpcDataGenerator::default().encode(&piece, &mut none, &self.options, &mut scratch.0);
            request.push(encoded.map_err(|error| bug(&error))?.1.into());
        }
        Ok(())
    }
}

/// Replaces `request` by the messages of a DoPut that appends `rows` to `schema`.`table`, which
/// exists.
///
/// # Errors
/// `Setup` if Arrow cannot encode the rows.
pub(crate) fn encode_rows(
    schema: &str,
    table: &str,
    columns: &SchemaRef,
    rows: &RecordBatch,
    scratch: &mut Scratch,
    request: &mut Vec<FlightData>,
) -> Result<()> {
    let (options, generator) = (IpcWriteOptions::default(), IpcDataGenerator::default());
    let mut dictionaries = DictionaryTracker::new(false);
    let head = generator.schema_to_bytes_with_dictionary_tracker(columns, &mut dictionaries, &options);
    request.clear();
    request.push(FlightData::from(head).with_descriptor(descriptor(schema, table)));
    for piece in pieces(rows) {
        let encoded = generator.encode(&piece, &mut dictionaries, &options, &mut scratch.0);
        let (new, rows) = encoded.map_err(|error| bug(&error))?;
        request.extend(new.into_iter().map(FlightData::from));
        request.push(rows.into());
    }
    Ok(())
}

fn descriptor(schema: &str, table: &str) -> FlightDescriptor {
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        table: table.to_owned(),
        schema: Some(schema.to_owned()),
        ..CommandStatementIngest::default()
    };
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

/// Splits `rows` into as few slices as the size limit allows.
fn pieces(rows: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let count = rows.get_array_memory_size().div_ceil(MESSAGE_BYTES_MAX).max(1);
    let most = rows.num_rows().div_ceil(count).max(1);
    (0..rows.num_rows()).step_by(most).map(move |from| rows.slice(from, most.min(rows.num_rows() - from)))
}

/// A connection to one server. Connects on first use, and again after it broke.
pub(crate) struct Flight {
    address: String,
    network_of: Option<u32>,
    link: Option<Link>,
}

impl Flight {
    /// Creates a connection to `address` (`host:port`) without opening it. `network_of`: see
    /// [`connect`].
    pub(crate) fn new(address: String, network_of: Option<u32>) -> Flight {
        Flight { address, network_of, link: None }
    }

    /// Connects now, so that a wrong address is found before the measurement.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.address, self.network_of)?);
        }
        Ok(())
    }

    /// Sends one DoPut and waits for its commit. Returns the number of rows that the server
    /// reports.
    ///
    /// # Cost
    /// Messages are shared, not copied, up to gRPC's buffer.
    pub(crate) fn put(&mut self, request: &[FlightData], timeout: Duration) -> Result<u64> {
        self.open()?;
        // Moved out of `self` during the request: after a failure with unknown outcome, the
        // connection's state is unknown too.
        let mut link = self.link.take().ok_or_else(|| Error::setup("BUG: not connected"))?;
        let outcome = link.put(request.to_vec(), timeout);
        if !outcome.as_ref().is_err_and(|error| error.class.outcome_unknown()) {
            self.link = Some(link);
        }
        outcome.map_err(|error| error.during(format_args!("{} DoPut", self.address)))
    }

    /// Runs a query and passes its record batches to `each`, as they arrive.
    ///
    /// # Errors
    /// The server's, those of `each`, or `Timeout` if the answer is not complete in time.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        timeout: Duration,
        each: &mut dyn FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        self.open()?;
        let mut link = self.link.take().ok_or_else(|| Error::setup("BUG: not connected"))?;
        let outcome = link.query(sql, timeout, each);
        if !outcome.as_ref().is_err_and(|error| error.class.outcome_unknown()) {
            self.link = Some(link);
        }
        outcome.map_err(|error| error.during(format_args!("{} {sql}", self.address)))
    }
}

/// A gRPC channel with its runtime.
struct Link {
    // Dropped before the runtime, which owns the connection's tasks.
    client: FlightServiceClient<Channel>,
    runtime: Runtime,
}

impl Link {
    fn open(address: &str, network_of: Option<u32>) -> Result<Link> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::setup(format!("cannot create a runtime for Flight: {error}")))?;
        let wrong = |error: tonic::transport::Error| {
            Error::setup(format!("{address}: invalid gRPC address: {}", causes(&error)))
        };
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(wrong)?;
        let place = address.to_owned();
        let socket = move |_: Uri| std::future::ready(socket(&place, network_of).map(TokioIo::new));
        let channel = runtime.block_on(endpoint.connect_with_connector(tower::service_fn(socket)));
        let channel = channel.map_err(|error| Error::new(Class::Connection, causes(&error)))?;
        let client = FlightServiceClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        Ok(Link { client, runtime })
    }

    fn put(&mut self, request: Vec<FlightData>, timeout: Duration) -> Result<u64> {
        let client = &mut self.client;
        let put = async {
            // Lets the connection's task run first, to notice a connection that was closed while
            // idle.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            let mut results = client.do_put(futures::stream::iter(request)).await?.into_inner();
            let mut last = None;
            while let Some(result) = results.message().await? {
                last = Some(result);
            }
            Ok::<_, Status>(last)
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(timeout, put).await });
        let answer = ended.map_err(|_| Error::new(Class::Timeout, format!("no complete answer within {timeout:?}")))?;
        rows_of(answer.map_err(|status| failed(&status))?)
    }
}

impl Link {
    fn query(&mut self, sql: &str, timeout: Duration, each: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let client = &mut self.client;
        let command = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let run = async {
            let info = client.get_flight_info(descriptor).await.map_err(|status| failed(&status))?.into_inner();
            for endpoint in info.endpoint {
                let Some(ticket) = endpoint.ticket else { continue };
                let data = client.do_get(ticket).await.map_err(|status| failed(&status))?.into_inner();
                let mut batches = FlightRecordBatchStream::new_from_flight_data(data.map_err(FlightError::from));
                while let Some(batch) = batches.next().await {
                    each(&batch.map_err(answer_error)?)?;
                }
            }
            Ok(())
        };
        let ended = self.runtime.block_on(async { tokio::time::timeout(timeout, run).await });
        ended.map_err(|_| Error::new(Class::Timeout, format!("no complete answer within {timeout:?}")))?
    }
}

/// Converts an error of an answer's stream.
fn answer_error(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => failed(&status),
        other => Error::protocol(format!("invalid answer: {other}")),
    }
}

/// Connects. Blocks the runtime's thread, which has nothing else to do.
fn socket(address: &str, network_of: Option<u32>) -> Result<TcpStream> {
    let stream = connect(address, network_of, CONNECT_TIMEOUT)?;
    let ours = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
    ours.map_err(|error| Error::socket(address, &error))
}

/// Number of written rows in the server's answer.
fn rows_of(answer: Option<PutResult>) -> Result<u64> {
    let answer = answer.ok_or_else(|| Error::protocol("an ingestion ended without a result"))?;
    let result = DoPutUpdateResult::decode(answer.app_metadata);
    let result = result.map_err(|error| Error::protocol(format!("invalid result of an ingestion: {error}")))?;
    u64::try_from(result.record_count)
        .map_err(|_| Error::protocol("the server does not report the number of written rows"))
}

/// Converts a status to an error with its class.
fn failed(status: &Status) -> Error {
    let sqlstate = status.metadata().get(SQLSTATE).and_then(|value| value.to_str().ok());
    let class = match (sqlstate, status.code()) {
        (Some(sqlstate), _) => pgwire::class_of(sqlstate),
        // An error of the transport, not of the server.
        (None, _) if std::error::Error::source(status).is_some() => Class::Connection,
        (None, Code::Unavailable | Code::Cancelled | Code::Aborted) => Class::Connection,
        (None, Code::DeadlineExceeded) => Class::Timeout,
        (None, Code::ResourceExhausted) => Class::Overloaded,
        (None, Code::Internal | Code::Unknown | Code::DataLoss | Code::Ok) => Class::Server,
        (None, _) => Class::Refused,
    };
    let below = std::error::Error::source(status).map_or_else(String::new, |cause| format!(": {}", causes(cause)));
    Error::new(class, format!("{:?}: {}{below}", status.code(), status.message()))
}

/// An error with its causes: gRPC's own text is only `transport error`.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic::metadata::{MetadataMap, MetadataValue};

    use super::super::testing::{sample_batch, sample_schema};
    use super::*;

    #[test]
    fn error_class_is_of_the_sqlstate_or_of_the_code() {
        let class_of = |code, sqlstate: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(SQLSTATE, MetadataValue::from_static(sqlstate));
            failed(&Status::with_metadata(code, "why", metadata)).class
        };
        assert_eq!(class_of(Code::NotFound, "42P01"), Class::Refused);
        assert_eq!(class_of(Code::ResourceExhausted, "53100"), Class::DiskFull);
        assert_eq!(class_of(Code::ResourceExhausted, "53200"), Class::Overloaded);
        assert_eq!(class_of(Code::Internal, "XX000"), Class::Server);
        for (code, class) in [
            (Code::InvalidArgument, Class::Refused),
            (Code::OutOfRange, Class::Refused),
            (Code::Unavailable, Class::Connection),
            (Code::DeadlineExceeded, Class::Timeout),
            (Code::Unknown, Class::Server),
        ] {
            let error = failed(&Status::new(code, "why"));
            assert_eq!(error.class, class, "{code:?}");
            assert!(error.message.contains("why"), "{error}");
        }
    }

    #[test]
    fn request_starts_with_its_table_and_is_split_at_the_size_limit() {
        let schema = Arc::new(sample_schema().0);
        let ingest = Ingest::new(&schema);
        let (mut scratch, mut request) = (Scratch::default(), Vec::new());
        ingest.encode(&sample_batch(0..10), &mut scratch, &mut request).unwrap();
        assert_eq!(request.len(), 2);
        assert_eq!(request[0].flight_descriptor, Some(descriptor("sample", "g_0")));
        assert!(request[0].data_body.is_empty() && request[1].flight_descriptor.is_none());
        // Two devices with five columns: about 50 bytes per row.
        ingest.encode(&sample_batch(0..300_000), &mut scratch, &mut request).unwrap();
        let bodies: Vec<usize> = request[1..].iter().map(|message| message.data_body.len()).collect();
        assert!(bodies.len() > 1 && bodies.iter().all(|bytes| *bytes < MESSAGE_BYTES_MAX), "{bodies:?}");
    }

    #[test]
    fn silent_server_is_a_timeout_and_a_missing_one_a_connection_error() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let mut flight = Flight::new(address.clone(), None);
        let late = flight.put(&[FlightData::default()], Duration::from_millis(100)).unwrap_err();
        assert_eq!(late.class, Class::Timeout, "{late}");
        drop(silent);
        let gone = flight.put(&[FlightData::default()], Duration::from_secs(5)).unwrap_err();
        assert_eq!(gone.class, Class::Connection, "{gone}");
        assert!(gone.message.contains(&address) && gone.message.contains("refused"), "{gone}");
    }
}
