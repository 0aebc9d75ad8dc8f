//! Bulk ingest by Arrow Flight SQL, synchronous: `CommandStatementIngest` over gRPC's DoPut, as ADBC's `adbc_ingest`.
//!
//! A request is one DoPut: the columns of the table, the record batches, the end. An ingest is a transaction that is
//! acknowledged at its end and nowhere before, so each batch of the benchmark needs a DoPut of its own; the connection
//! below stays open.
//!
//! Always true:
//! - A request is never sent twice by itself. A connection that the server closed while it was idle is noticed *before*
//!   a request and made anew; one that fails during a request is dropped.
//! - A request ends by its time-out.
//!
//! Each connection has a runtime of its own that runs on its client's thread, and only while a request is under way.
//! Messages are encoded before the clock runs, but for gRPC's frame around them, which copies them once.
//!
//! Source: Arrow's "Flight SQL" and "Arrow Flight RPC"; gRPC over HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor, PutResult, SchemaAsIpc};
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
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

/// For connecting alone.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// One message is at most about so large: servers bound messages, and what is larger goes in several within its DoPut.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Millrace tells an error's SQLSTATE under this name.
const SQLSTATE: &str = "x-millrace-sqlstate";

/// Makes requests that append to the tables of one schema.
pub(crate) struct Ingest {
    tables: Tables,
    /// By table: the first message, which says where to and has the columns.
    heads: Vec<FlightData>,
    options: IpcWriteOptions,
}

/// What encoding uses again.
pub(crate) struct Scratch(IpcWriteContext);

impl Default for Scratch {
    fn default() -> Scratch {
        let mut context = IpcWriteContext::default();
        context.set_reserve_scratch(true);
        Scratch(context)
    }
}

impl Ingest {
    /// For tables of the SQL schema that is called as the database, which must be there.
    pub(crate) fn new(schema: &Arc<Schema>) -> Ingest {
        let (tables, options) = (Tables::new(schema), IpcWriteOptions::default());
        let head = |(at, table): (u32, &crate::schema::Table)| {
            let head: FlightData = SchemaAsIpc::new(tables.columns(at), &options).into();
            head.with_descriptor(descriptor(&schema.database, &table.name))
        };
        let heads = (0..).zip(&schema.tables).map(head).collect();
        Ingest { tables, heads, options }
    }

    /// Replaces `request` by the messages of a DoPut with the rows of `batch`, which carry all fields of their table.
    ///
    /// # Errors
    /// As [`Tables::record_batch`].
    pub(crate) fn encode(&self, batch: &Batch, scratch: &mut Scratch, request: &mut Vec<FlightData>) -> Result<()> {
        let rows = self.tables.record_batch(batch)?;
        request.clear();
        request.push(self.heads[batch.table as usize].clone());
        for piece in pieces(&rows) {
            // There are no dictionaries: tags go as texts.
            let mut none = DictionaryTracker::new(true);
            let encoded = IpcDataGenerator::default().encode(&piece, &mut none, &self.options, &mut scratch.0);
            request.push(encoded.map_err(|error| bug(&error))?.1.into());
        }
        Ok(())
    }
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

/// As few parts as are small enough.
fn pieces(rows: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let count = rows.get_array_memory_size().div_ceil(MESSAGE_BYTES_MAX).max(1);
    let most = rows.num_rows().div_ceil(count).max(1);
    (0..rows.num_rows()).step_by(most).map(move |from| rows.slice(from, most.min(rows.num_rows() - from)))
}

/// A connection to one server. Connects when first needed and again after it broke.
pub(crate) struct Flight {
    address: String,
    network_of: Option<u32>,
    link: Option<Link>,
}

impl Flight {
    /// For `address` (`host:port`). Does not connect. `network_of`: see [`connect`].
    pub(crate) fn new(address: String, network_of: Option<u32>) -> Flight {
        Flight { address, network_of, link: None }
    }

    /// Connects now, so that a wrong address is known before the clock runs.
    pub(crate) fn open(&mut self) -> Result<()> {
        if self.link.is_none() {
            self.link = Some(Link::open(&self.address, self.network_of)?);
        }
        Ok(())
    }

    /// Sends one DoPut and waits until the server has committed it; gives the number of rows that it says it wrote.
    ///
    /// # Cost
    /// The stream's messages are shared, not copied, up to gRPC's own buffer.
    pub(crate) fn put(&mut self, request: &[FlightData], timeout: Duration) -> Result<u64> {
        self.open()?;
        // Out of `self` while in use: after a failure whose outcome is unknown, so is the connection's state.
        let mut link = self.link.take().ok_or_else(|| Error::setup("BUG: not connected"))?;
        let outcome = link.put(request.to_vec(), timeout);
        if !outcome.as_ref().is_err_and(|error| error.class.outcome_unknown()) {
            self.link = Some(link);
        }
        outcome.map_err(|error| error.during(format_args!("{} DoPut", self.address)))
    }
}

/// A channel of gRPC and what runs it.
struct Link {
    // Before the runtime, whose end takes the connection's tasks with it.
    client: FlightServiceClient<Channel>,
    runtime: Runtime,
}

impl Link {
    fn open(address: &str, network_of: Option<u32>) -> Result<Link> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| Error::setup(format!("cannot make a runtime for Flight: {error}")))?;
        let wrong =
            |error: tonic::transport::Error| Error::setup(format!("{address}: no address of gRPC: {}", causes(&error)));
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(wrong)?;
        let place = address.to_owned();
        let socket = move |_: Uri| std::future::ready(socket(&place, network_of).map(TokioIo::new));
        let channel = runtime.block_on(endpoint.connect_with_connector(tower::service_fn(socket)));
        let channel = channel.map_err(|error| Error::new(Class::Connection, causes(&error)))?;
        Ok(Link { client: FlightServiceClient::new(channel), runtime })
    }

    fn put(&mut self, request: Vec<FlightData>, timeout: Duration) -> Result<u64> {
        let client = &mut self.client;
        let put = async {
            // The connection's own task sees first what came while nothing was under way: its end, most of all.
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
        let told = ended.map_err(|_| Error::new(Class::Timeout, format!("no whole answer within {timeout:?}")))?;
        rows_of(told.map_err(|status| failed(&status))?)
    }
}

/// Connects, on the thread of the runtime, which has nothing else to do.
fn socket(address: &str, network_of: Option<u32>) -> Result<TcpStream> {
    let stream = connect(address, network_of, CONNECT_TIMEOUT)?;
    let ours = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
    ours.map_err(|error| Error::socket(address, &error))
}

/// Rows that the server says it wrote.
fn rows_of(told: Option<PutResult>) -> Result<u64> {
    let told = told.ok_or_else(|| Error::protocol("an ingest that ended without a word"))?;
    let result = DoPutUpdateResult::decode(told.app_metadata);
    let result = result.map_err(|error| Error::protocol(format!("the result of an ingest: {error}")))?;
    u64::try_from(result.record_count).map_err(|_| Error::protocol("the server does not say how many rows it wrote"))
}

/// What a status says about the target.
fn failed(status: &Status) -> Error {
    let sqlstate = status.metadata().get(SQLSTATE).and_then(|value| value.to_str().ok());
    let class = match (sqlstate, status.code()) {
        (Some(sqlstate), _) => pgwire::class_of(sqlstate),
        // From below gRPC, not from the server.
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

/// An error and what it comes from: gRPC's own say `transport error` first.
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
    fn a_status_is_classed_by_its_sqlstate_and_without_one_by_its_code() {
        let told = |code, sqlstate: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(SQLSTATE, MetadataValue::from_static(sqlstate));
            failed(&Status::with_metadata(code, "why", metadata)).class
        };
        assert_eq!(told(Code::NotFound, "42P01"), Class::Refused);
        assert_eq!(told(Code::ResourceExhausted, "53100"), Class::DiskFull);
        assert_eq!(told(Code::ResourceExhausted, "53200"), Class::Overloaded);
        assert_eq!(told(Code::Internal, "XX000"), Class::Server);
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
    fn a_request_names_its_table_first_and_is_cut_where_a_message_would_be_too_large() {
        let schema = Arc::new(sample_schema().0);
        let ingest = Ingest::new(&schema);
        let (mut scratch, mut request) = (Scratch::default(), Vec::new());
        ingest.encode(&sample_batch(0..10), &mut scratch, &mut request).unwrap();
        assert_eq!(request.len(), 2);
        assert_eq!(request[0].flight_descriptor, Some(descriptor("sample", "g_0")));
        assert!(request[0].data_body.is_empty() && request[1].flight_descriptor.is_none());
        // Two devices, five columns: about 50 bytes a row.
        ingest.encode(&sample_batch(0..300_000), &mut scratch, &mut request).unwrap();
        let bodies: Vec<usize> = request[1..].iter().map(|message| message.data_body.len()).collect();
        assert!(bodies.len() > 1 && bodies.iter().all(|bytes| *bytes < MESSAGE_BYTES_MAX), "{bodies:?}");
    }

    #[test]
    fn who_does_not_answer_is_told_from_who_is_not_there() {
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
