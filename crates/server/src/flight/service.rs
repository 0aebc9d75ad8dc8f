//! The calls of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionBeginTransactionResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, ActionEndTransactionRequest, Any,
    Command, CommandGetCatalogs, CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys,
    CommandGetImportedKeys, CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, EndTransaction, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use model::{Error, Result, SqlState};
use prost::Message;
use query::TxnStatus;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::decode::Incoming;
use super::handles::{Rows, SharedSession, Statement, TicketState};
use super::run::{LockedSession, RunResult, Sent, encoded};
use super::status::status;
use super::{Connection, Context, metadata, parameters};

type Answer<T> = std::result::Result<Response<T>, Status>;
type Many<T> = Pin<Box<dyn Stream<Item = std::result::Result<T, Status>> + Send>>;

/// Token returned for any user name and password: there is no authentication yet.
const TOKEN: &str = "Bearer millrace";

/// Flight service: counts calls, and implements those that Flight SQL leaves out.
pub(super) struct Front {
    service: Service,
}

impl Front {
    pub(super) fn new(context: Arc<Context>) -> Front {
        Front { service: Service { context } }
    }

    fn count(&self, call: &'static str) {
        self.service.context.counters.calls.add(call);
    }
}

#[tonic::async_trait]
impl FlightService for Front {
    type HandshakeStream = Many<HandshakeResponse>;
    type ListFlightsStream = Many<FlightInfo>;
    type DoGetStream = Sent;
    type DoPutStream = Many<PutResult>;
    type DoActionStream = Many<arrow_flight::Result>;
    type ListActionsStream = Many<ActionType>;
    type DoExchangeStream = Many<FlightData>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        self.count("Handshake");
        self.service.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.count("ListFlights");
        self.service.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.count("GetFlightInfo");
        self.service.get_flight_info(request).await
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.count("PollFlightInfo");
        self.service.poll_flight_info(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        self.count("GetSchema");
        let schema = self.service.schema_of(&request.get_ref().cmd).await;
        let schema = schema.and_then(|schema| metadata::schema_bytes(&schema));
        Ok(Response::new(SchemaResult { schema: self.service.respond(schema)? }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        self.count("DoGet");
        self.service.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.count("DoPut");
        self.service.do_put(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.count("DoAction");
        self.service.do_action(request).await
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        self.count("ListActions");
        let actions = ["CreatePreparedStatement", "ClosePreparedStatement", "BeginTransaction", "EndTransaction"];
        let action =
            |name: &str| Ok(ActionType { r#type: name.to_owned(), description: format!("Flight SQL's {name}") });
        let actions: Vec<_> = actions.into_iter().map(action).collect();
        Ok(Response::new(futures::stream::iter(actions).boxed()))
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        self.count("DoExchange");
        self.service.do_exchange(request).await
    }
}

/// Flight SQL service.
#[derive(Clone)]
struct Service {
    context: Arc<Context>,
}

impl Service {
    /// Converts an error to a gRPC status and counts it.
    fn respond<T>(&self, result: Result<T>) -> std::result::Result<T, Status> {
        result.map_err(|error| {
            self.context.counters.errors.add(error.state().0);
            status(&error)
        })
    }

    /// Result schema of a command.
    async fn schema_of(&self, command: &[u8]) -> Result<SchemaRef> {
        let malformed = |error: &dyn std::fmt::Display| {
            Error::new(SqlState::PROTOCOL_VIOLATION, format!("not a Flight SQL command: {error}"))
        };
        let any = Any::decode(command).map_err(|error| malformed(&error))?;
        let none = || Arc::new(Schema::empty());
        Ok(match Command::try_from(any).map_err(|error| malformed(&error))? {
            Command::CommandStatementQuery(query) => {
                let statement = self.context.prepare(&query.query, query.transaction_id).await?;
                statement.schema.unwrap_or_else(none)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.context.open.statement(&query.prepared_statement_handle)?;
                statement.schema.clone().unwrap_or_else(none)
            }
            Command::CommandGetCatalogs(command) => command.into_builder().schema(),
            Command::CommandGetDbSchemas(command) => command.into_builder().schema(),
            Command::CommandGetTables(command) => command.into_builder().schema(),
            Command::CommandGetTableTypes(command) => command.into_builder().schema(),
            Command::CommandGetSqlInfo(_) => metadata::server_info()?.schema(),
            Command::CommandGetPrimaryKeys(_) => metadata::primary_keys_schema(),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => metadata::foreign_keys_schema(),
            other => return Err(Error::unsupported(format!("{} is not supported", other.type_url()))),
        })
    }

    /// FlightInfo for a statement. Statements with side effects are executed now, because the
    /// client may never fetch rows.
    async fn info(
        &self,
        request: &Request<FlightDescriptor>,
        statement: Arc<Statement>,
        prepared: Option<&Bytes>,
    ) -> Result<FlightInfo> {
        let connection = connection(request);
        let descriptor = request.get_ref().clone();
        if statement.prepared.only_reads() {
            let schema = statement.schema.clone().unwrap_or_else(|| Arc::new(Schema::empty()));
            let ticket = match prepared {
                Some(handle) => {
                    CommandPreparedStatementQuery { prepared_statement_handle: handle.clone() }.as_any().encode_to_vec()
                }
                None => ticket(self.context.open.add_pending(connection, TicketState::Query(statement))?),
            };
            return info(&schema, descriptor, Some(ticket), -1);
        }
        let _slot = self.context.statement_slots.take().await?;
        match self.context.run(&statement).await? {
            RunResult::Done(rows) => info(&Schema::empty(), descriptor, None, rows.unwrap_or(-1)),
            RunResult::Rows(rows) => {
                let schema = Arc::clone(&rows.schema);
                let handle = self.context.open.add_pending(connection, TicketState::Rows(rows))?;
                info(&schema, descriptor, Some(ticket(handle)), -1)
            }
        }
    }

    /// Executes a query and streams its rows.
    async fn fetch(&self, statement: &Statement) -> Result<Sent> {
        let slot = self.context.statement_slots.take().await?;
        let rows = match self.context.run(statement).await? {
            RunResult::Rows(rows) => rows,
            RunResult::Done(_) => return Err(Error::bug("a query without rows")),
        };
        let batches = rows.batches.inspect(move |_| _ = &slot).boxed();
        Ok(self.context.send(Rows { batches, ..rows }))
    }

    /// FlightInfo for a metadata command: the ticket is the command itself.
    fn about(&self, request: Request<FlightDescriptor>, schema: &Schema) -> Answer<FlightInfo> {
        let descriptor = request.into_inner();
        let ticket = descriptor.cmd.to_vec();
        self.respond(info(schema, descriptor, Some(ticket), -1)).map(Response::new)
    }

    fn one(&self, batch: Result<RecordBatch>) -> Answer<Sent> {
        let batch = self.respond(batch)?;
        let schema = batch.schema();
        Ok(Response::new(encoded(schema, futures::stream::iter([Ok::<_, FlightError>(batch)]).boxed())))
    }

    async fn bind(&self, statement: &Statement, stream: PeekableFlightDataStream) -> Result<()> {
        let mut incoming = Incoming::new(stream);
        let Some(schema) = incoming.schema().await? else { return Ok(()) };
        let mut values = Vec::new();
        while let Some(batch) = incoming.batch(&self.context.counters.bytes_ingested).await? {
            values.extend(parameters::rows(&batch, statement.prepared.parameters())?);
            if values.len() > BOUND_ROWS_MAX {
                let text = format!("more than {BOUND_ROWS_MAX} rows of parameters for one statement");
                return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
                    .with_hint("use bulk ingest, or bind fewer rows at a time"));
            }
        }
        // Some clients send an empty schema if there is nothing to bind.
        if !schema.fields().is_empty() || !statement.prepared.parameters().is_empty() {
            *statement.values.lock() = values;
        }
        Ok(())
    }

    async fn end(&self, request: ActionEndTransactionRequest) -> Result<()> {
        let session = self.context.open.transaction(&request.transaction_id)?;
        // Close the handle first, so that no other call can use it.
        self.context.open.close(&request.transaction_id);
        let mut used = LockedSession::lock(&session).await;
        let failed = used.session().status() == TxnStatus::Failed;
        let commit = request.action == i32::from(EndTransaction::Commit);
        control(&mut used, if commit { "COMMIT" } else { "ROLLBACK" }).await?;
        used.settle();
        if commit && failed {
            let text = "the transaction was rolled back, because one of its statements had failed";
            return Err(Error::new(SqlState::IN_FAILED_SQL_TRANSACTION, text).with_hint("run it again"));
        }
        Ok(())
    }

    async fn begin(&self, connection: u64) -> Result<Bytes> {
        let session: SharedSession = self.context.session();
        let mut used = LockedSession::lock(&session).await;
        control(&mut used, "BEGIN").await?;
        used.settle();
        self.context.open.add_transaction(connection, session)
    }
}

/// Most rows of parameters bound to a statement.
const BOUND_ROWS_MAX: usize = 1 << 20;

/// Runs a transaction control statement.
async fn control(used: &mut LockedSession, sql: &str) -> Result<()> {
    let statement = query::parse(sql)?.pop().ok_or_else(|| Error::bug("no statement"))?;
    let prepared = used.session().prepare(&statement, &[]).await?;
    used.session().execute(&prepared, &[]).await.map(drop)
}

fn connection<T>(request: &Request<T>) -> u64 {
    request.extensions().get::<Connection>().map_or(0, |connection| connection.0)
}

fn ticket(handle: Bytes) -> Vec<u8> {
    TicketStatementQuery { statement_handle: handle }.as_any().encode_to_vec()
}

fn info(schema: &Schema, descriptor: FlightDescriptor, ticket: Option<Vec<u8>>, rows: i64) -> Result<FlightInfo> {
    let mut info = FlightInfo::new().with_descriptor(descriptor).with_total_records(rows).with_total_bytes(-1);
    info.schema = metadata::schema_bytes(schema)?;
    Ok(match ticket {
        Some(ticket) => info.with_ordered(true).with_endpoint(FlightEndpoint::new().with_ticket(Ticket::new(ticket))),
        None => info,
    })
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Service;

    async fn do_handshake(&self, _: Request<Streaming<HandshakeRequest>>) -> Answer<Many<HandshakeResponse>> {
        let response = HandshakeResponse { protocol_version: 0, payload: Bytes::new() };
        let stream: Many<HandshakeResponse> = futures::stream::iter([Ok(response)]).boxed();
        let mut response = Response::new(stream);
        response.metadata_mut().insert("authorization", MetadataValue::from_static(TOKEN));
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let found = async {
            let statement = self.context.prepare(&query.query, query.transaction_id).await?;
            if !statement.prepared.parameters().is_empty() {
                let text = "the statement has parameters but is not prepared";
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, text)
                    .with_hint("prepare it and bind parameters; in ADBC, use execute(sql, parameters)"));
            }
            self.info(&request, Arc::new(statement), None).await
        };
        self.respond(found.await).map(Response::new)
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let handle = &query.prepared_statement_handle;
        let found = async { self.info(&request, self.context.open.statement(handle)?, Some(handle)).await };
        self.respond(found.await).map(Response::new)
    }

    async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &command.into_builder().schema())
    }

    async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &command.into_builder().schema())
    }

    async fn get_flight_info_tables(
        &self,
        command: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &command.into_builder().schema())
    }

    async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &command.into_builder().schema())
    }

    async fn get_flight_info_sql_info(
        &self,
        _: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let info = self.respond(metadata::server_info())?;
        self.about(request, &info.schema())
    }

    async fn get_flight_info_primary_keys(
        &self,
        _: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &metadata::primary_keys_schema())
    }

    async fn get_flight_info_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &metadata::foreign_keys_schema())
    }

    async fn get_flight_info_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &metadata::foreign_keys_schema())
    }

    async fn get_flight_info_cross_reference(
        &self,
        _: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        self.about(request, &metadata::foreign_keys_schema())
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, _: Request<Ticket>) -> Answer<Sent> {
        let found = async {
            match self.context.open.take_pending(&ticket.statement_handle)? {
                TicketState::Query(statement) => self.fetch(&statement).await,
                TicketState::Rows(rows) => Ok(self.context.send(rows)),
            }
        };
        self.respond(found.await).map(Response::new)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        _: Request<Ticket>,
    ) -> Answer<Sent> {
        let found = async {
            let statement = self.context.open.statement(&query.prepared_statement_handle)?;
            if !statement.prepared.only_reads() {
                return Err(Error::unsupported(
                    "a statement that changes data must be executed by GetFlightInfo or as an update",
                ));
            }
            self.fetch(&statement).await
        };
        self.respond(found.await).map(Response::new)
    }

    async fn do_get_catalogs(&self, command: CommandGetCatalogs, _: Request<Ticket>) -> Answer<Sent> {
        self.one(metadata::catalogs(command))
    }

    async fn do_get_schemas(&self, command: CommandGetDbSchemas, _: Request<Ticket>) -> Answer<Sent> {
        self.one(self.context.schemas(command).await)
    }

    async fn do_get_tables(&self, command: CommandGetTables, _: Request<Ticket>) -> Answer<Sent> {
        self.one(self.context.tables(command).await)
    }

    async fn do_get_table_types(&self, command: CommandGetTableTypes, _: Request<Ticket>) -> Answer<Sent> {
        self.one(metadata::table_types(command))
    }

    async fn do_get_sql_info(&self, command: CommandGetSqlInfo, _: Request<Ticket>) -> Answer<Sent> {
        self.one(metadata::sql_info(command))
    }

    async fn do_get_primary_keys(&self, command: CommandGetPrimaryKeys, _: Request<Ticket>) -> Answer<Sent> {
        self.one(self.context.primary_keys(command).await)
    }

    async fn do_get_exported_keys(&self, _: CommandGetExportedKeys, _: Request<Ticket>) -> Answer<Sent> {
        self.one(Ok(RecordBatch::new_empty(metadata::foreign_keys_schema())))
    }

    async fn do_get_imported_keys(&self, _: CommandGetImportedKeys, _: Request<Ticket>) -> Answer<Sent> {
        self.one(Ok(RecordBatch::new_empty(metadata::foreign_keys_schema())))
    }

    async fn do_get_cross_reference(&self, _: CommandGetCrossReference, _: Request<Ticket>) -> Answer<Sent> {
        self.one(Ok(RecordBatch::new_empty(metadata::foreign_keys_schema())))
    }

    async fn do_put_statement_update(
        &self,
        command: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> std::result::Result<i64, Status> {
        let updated = async {
            let statement = self.context.prepare(&command.query, command.transaction_id).await?;
            self.context.update(&statement).await
        };
        self.respond(updated.await).map(|rows| rows.unwrap_or(-1))
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> std::result::Result<i64, Status> {
        self.respond(self.context.ingest(command, Incoming::new(request.into_inner())).await)
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> std::result::Result<DoPutPreparedStatementResult, Status> {
        let bound = async {
            let statement = self.context.open.statement(&query.prepared_statement_handle)?;
            self.bind(&statement, request.into_inner()).await
        };
        self.respond(bound.await)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> std::result::Result<i64, Status> {
        let updated = async {
            let statement = self.context.open.statement(&query.prepared_statement_handle)?;
            self.bind(&statement, request.into_inner()).await?;
            self.context.update(&statement).await
        };
        self.respond(updated.await).map(|rows| rows.unwrap_or(-1))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> std::result::Result<ActionCreatePreparedStatementResult, Status> {
        let created = async {
            let statement = Arc::new(self.context.prepare(&query.query, query.transaction_id).await?);
            let bytes = |schema: &SchemaRef| metadata::schema_bytes(schema);
            // Clients take an update for a query if there are any bytes, even an empty schema.
            let dataset_schema = statement.schema.as_ref().map(bytes).transpose()?.unwrap_or_default();
            let parameter_schema = match statement.parameters.fields().is_empty() {
                true => Bytes::new(),
                false => bytes(&statement.parameters)?,
            };
            let prepared_statement_handle = self.context.open.add_statement(connection(&request), statement)?;
            Ok(ActionCreatePreparedStatementResult { prepared_statement_handle, dataset_schema, parameter_schema })
        };
        self.respond(created.await)
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> std::result::Result<(), Status> {
        // Closing an unknown handle is no error.
        self.context.open.close(&query.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        request: Request<Action>,
    ) -> std::result::Result<ActionBeginTransactionResult, Status> {
        let transaction_id = self.respond(self.begin(connection(&request)).await)?;
        Ok(ActionBeginTransactionResult { transaction_id })
    }

    async fn do_action_end_transaction(
        &self,
        request: ActionEndTransactionRequest,
        _: Request<Action>,
    ) -> std::result::Result<(), Status> {
        self.respond(self.end(request).await)
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}
