//! A client of Flight SQL: statements of applications whose database is in another process.
//!
//! A statement is sent with its values in its text, because that needs two exchanges where a prepared statement needs five.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, EndTransaction, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use arrow_schema::ArrowError;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt, stream};
use jiff::Timestamp;
use model::{Error, Result, SqlState};
use query::Value;
use query::client::{RemoteDatabase, RemoteSession};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::status::SQLSTATE;

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest message that is received.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Bytes of a result that are on their way.
const WINDOW_BYTES: u32 = 16 << 20;

/// A database that serves Flight SQL.
#[derive(Clone, Debug)]
pub struct FlightDatabase {
    channel: Channel,
    address: String,
}

impl FlightDatabase {
    /// A database at an address such as `grpc://127.0.0.1:7470`. Connections are made when they are needed, and again after one
    /// was lost.
    ///
    /// # Errors
    /// 22023 for another address.
    pub fn new(address: &str) -> Result<FlightDatabase> {
        let host = address.strip_prefix("grpc://").or_else(|| address.strip_prefix("http://")).unwrap_or(address);
        let refused = |error: tonic::transport::Error| {
            let text = format!("address \"{address}\" of a database: {error}; expected such as grpc://127.0.0.1:7470");
            Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
        };
        let endpoint = Endpoint::from_shared(format!("http://{host}")).map_err(refused)?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        Ok(FlightDatabase { channel: endpoint.connect_lazy(), address: address.to_owned() })
    }
}

impl RemoteDatabase for FlightDatabase {
    fn session(&self) -> Box<dyn RemoteSession> {
        let service = FlightServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let client = FlightSqlServiceClient::new_from_inner(service);
        Box::new(FlightSession { client, address: self.address.clone(), transaction: None })
    }
}

/// A session: its statements are those of its transaction while it has one.
struct FlightSession {
    client: FlightSqlServiceClient<Channel>,
    address: String,
    transaction: Option<Bytes>,
}

impl RemoteSession for FlightSession {
    fn rows<'a>(&'a mut self, text: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<RecordBatch>>> {
        self.run(text, values).boxed()
    }

    fn append<'a>(&'a mut self, schema: &'a str, table: &'a str, batch: &'a RecordBatch) -> BoxFuture<'a, Result<()>> {
        async move {
            let command = CommandStatementIngest {
                table_definition_options: Some(TableDefinitionOptions {
                    if_not_exist: TableNotExistOption::Fail.into(),
                    if_exists: TableExistsOption::Append.into(),
                }),
                table: table.to_owned(),
                schema: Some(schema.to_owned()),
                transaction_id: self.transaction.clone(),
                ..CommandStatementIngest::default()
            };
            let rows: Vec<std::result::Result<RecordBatch, FlightError>> = vec![Ok(batch.clone())];
            let sent = self.client.execute_ingest(command, stream::iter(rows)).await;
            sent.map(drop).map_err(|error| self.error(&error))
        }
        .boxed()
    }
}

impl FlightSession {
    async fn run(&mut self, text: &str, values: &[Value]) -> Result<Vec<RecordBatch>> {
        let word = text.split_whitespace().next().unwrap_or_default();
        match word {
            "BEGIN" => {
                let begun = self.client.begin_transaction().await;
                let id = begun.map_err(|error| self.error(&error))?;
                self.transaction = Some(id);
                if let Some(modes) = text.strip_prefix("BEGIN ") {
                    self.update(format!("SET TRANSACTION {modes}")).await?;
                }
                Ok(Vec::new())
            }
            "COMMIT" | "ROLLBACK" => {
                let id = self.transaction.take().ok_or_else(|| Error::bug("the end of no transaction"))?;
                let end = if word == "COMMIT" { EndTransaction::Commit } else { EndTransaction::Rollback };
                let ended = self.client.end_transaction(id, end).await;
                ended.map(|()| Vec::new()).map_err(|error| self.error(&error))
            }
            "SELECT" => self.query(with_values(text, values)?).await,
            _ if text.contains(" RETURNING ") => self.query(with_values(text, values)?).await,
            _ => self.update(with_values(text, values)?).await.map(|()| Vec::new()),
        }
    }

    async fn update(&mut self, text: String) -> Result<()> {
        let done = self.client.execute_update(text, self.transaction.clone()).await;
        done.map(drop).map_err(|error| self.error(&error))
    }

    async fn query(&mut self, text: String) -> Result<Vec<RecordBatch>> {
        let found = self.client.execute(text, self.transaction.clone()).await;
        let found = found.map_err(|error| self.error(&error))?;
        let mut all = Vec::new();
        for endpoint in found.endpoint {
            let ticket = endpoint.ticket.ok_or_else(|| Error::bug("an endpoint without a ticket"))?;
            let rows = self.client.do_get(ticket).await.map_err(|error| self.error(&error))?;
            let rows: std::result::Result<Vec<RecordBatch>, FlightError> = rows.try_collect().await;
            all.extend(rows.map_err(|error| self.error(&error))?);
        }
        Ok(all)
    }

    /// The error that the server sent, or that of the connection.
    fn error(&self, error: &FlightError) -> Error {
        match status_of(error) {
            Some(status) => sent(status, &self.address),
            None => Error::bug(format!("the database at {}: {error}", self.address)),
        }
    }
}

impl Drop for FlightSession {
    /// Ends the transaction of a request that was not completed.
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.transaction.take(), tokio::runtime::Handle::try_current()) else { return };
        let mut client = FlightSqlServiceClient::new_from_inner(self.client.inner().clone());
        runtime.spawn(async move {
            // The server ends it by itself if it cannot be told.
            let _ = client.end_transaction(id, EndTransaction::Rollback).await;
        });
    }
}

/// The status inside of an error of the client.
fn status_of(error: &FlightError) -> Option<&Status> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(FlightError::Tonic(status)) = error.downcast_ref::<FlightError>() {
            return Some(status);
        }
        source = match error.downcast_ref::<ArrowError>() {
            Some(ArrowError::ExternalError(inner)) => Some(inner.as_ref()),
            _ => error.source(),
        };
        if let Some(status) = source.and_then(|source| source.downcast_ref::<Status>()) {
            return Some(status);
        }
    }
    None
}

fn sent(status: &Status, address: &str) -> Error {
    let code = status.metadata().get(SQLSTATE).and_then(|code| code.to_str().ok());
    let Some(state) = code.and_then(state_of) else {
        let text = format!("the database at {address} cannot be reached: {}", status.message());
        return Error::new(SqlState::CONNECTION_FAILURE, text);
    };
    let text = status.message();
    let text = text.strip_suffix(&format!(" (SQLSTATE {state})")).unwrap_or(text);
    Error::new(state, text)
}

/// States that applications tell apart. Of another one its class is enough: see [`state_of`].
const STATES: [SqlState; 16] = [
    SqlState::UNDEFINED_OBJECT,
    SqlState::UNDEFINED_TABLE,
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::UNIQUE_VIOLATION,
    SqlState::FOREIGN_KEY_VIOLATION,
    SqlState::SERIALIZATION_FAILURE,
    SqlState::INVALID_PARAMETER_VALUE,
    SqlState::INVALID_TEXT_REPRESENTATION,
    SqlState::INVALID_DATETIME_FORMAT,
    SqlState::DATETIME_OVERFLOW,
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    SqlState::PROGRAM_LIMIT_EXCEEDED,
    SqlState::OUT_OF_MEMORY,
    SqlState::DISK_FULL,
    SqlState::QUERY_CANCELED,
    SqlState::CONNECTION_FAILURE,
];

/// The state with a code. A code that no application asks for is one of invalid input if its class is, or else an internal error.
fn state_of(code: &str) -> Option<SqlState> {
    if code.len() != 5 {
        return None;
    }
    let known = STATES.into_iter().find(|state| state.0 == code);
    let is_of_input = ["22", "23", "42"].iter().any(|class| code.starts_with(class));
    Some(known.unwrap_or(if is_of_input { SqlState::INVALID_PARAMETER_VALUE } else { SqlState::INTERNAL_ERROR }))
}

/// A statement with its values in place of `$1`, `$2` …
fn with_values(text: &str, values: &[Value]) -> Result<String> {
    let mut out = String::with_capacity(text.len() + 32 * values.len());
    let (mut rest, mut is_quoted) = (text, false);
    while let Some(at) = rest.find(['$', '\'']) {
        out.push_str(&rest[..at]);
        let is_quote = rest.as_bytes()[at] == b'\'';
        rest = &rest[at + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if is_quote || is_quoted || digits == 0 {
            is_quoted ^= is_quote;
            out.push(if is_quote { '\'' } else { '$' });
            continue;
        }
        let number: usize = rest[..digits].parse().map_err(Error::bug)?;
        let value = number.checked_sub(1).and_then(|at| values.get(at));
        write_literal(&mut out, value.ok_or_else(|| Error::bug(format!("no value of ${number}")))?)?;
        rest = &rest[digits..];
    }
    out.push_str(rest);
    Ok(out)
}

fn write_literal(out: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::Null => out.push_str("NULL"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int16(value) => out.push_str(&format!("({value})::int2")),
        Value::Int32(value) => out.push_str(&format!("({value})::int4")),
        // The least number has no literal without a sign.
        Value::Int64(value) => out.push_str(&format!("'{value}'::int8")),
        Value::Float64(value) => out.push_str(&format!("'{value:?}'::float8")),
        Value::Text(text) if text.contains('\0') => {
            return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "a text has the character NUL".to_owned()));
        }
        Value::Text(text) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        Value::Timestamptz(time) => {
            let time = Timestamp::from_nanosecond((*time).into()).map_err(Error::bug)?;
            out.push_str(&format!("timestamptz '{time}'"));
        }
        Value::Date(days) => {
            let date = jiff::civil::date(1970, 1, 1).checked_add(jiff::Span::new().days(*days)).map_err(Error::bug)?;
            out.push_str(&format!("date '{date}'"));
        }
        Value::Array(items) if items.is_empty() => out.push_str("'{}'"),
        Value::Array(items) => {
            out.push_str("ARRAY[");
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_literal(out, item)?;
            }
            out.push(']');
        }
        other => return Err(Error::bug(format!("a value that no application sends: {other:?}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_where_a_statement_has_their_numbers() {
        let text = |text: &str| Value::Text(text.to_owned());
        let values = [
            text("it's $1"),
            Value::Int64(i64::MIN),
            Value::Timestamptz(1_743_289_200_000_000_001),
            Value::Array(vec![text("a"), Value::Null]),
            Value::Array(Vec::new()),
            Value::Float64(f64::NEG_INFINITY),
            Value::Null,
            Value::Bool(true),
            Value::Date(20_000),
        ];
        let statement = "SELECT '$1 it''s', $1, $2, $3 WHERE x = ANY($4) AND y = ANY($5) OR $6 < $7 AND $8 AND d = $9";
        let expected = "SELECT '$1 it''s', 'it''s $1', '-9223372036854775808'::int8, \
                        timestamptz '2025-03-29T23:00:00.000000001Z' WHERE x = ANY(ARRAY['a',NULL]) AND y = ANY('{}') \
                        OR '-inf'::float8 < NULL AND true AND d = date '2024-10-04'";
        assert_eq!(with_values(statement, &values).unwrap(), expected);
        assert!(with_values("SELECT $10", &values).is_err());
        assert!(with_values("SELECT $1", &[text("a\0")]).is_err());
    }
}
