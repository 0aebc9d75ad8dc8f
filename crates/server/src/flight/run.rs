//! Prepares and executes statements, and encodes their results as Flight data.

use std::sync::Arc;

use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use model::{Error, Result, SqlState};
use query::{Batches, Outcome, Prepared, Session, TxnStatus, Value, compute, computing};
use tokio::sync::OwnedMutexGuard;
use tonic::Status;

use super::Context;
use super::handles::{Rows, SharedSession, Statement};
use super::status::status;

/// A stream of Flight data to a client.
pub(super) type Sent = BoxStream<'static, std::result::Result<FlightData, Status>>;

/// Limit for results on `rows` tables within a transaction, which are materialised before the next
/// statement.
const COLLECTED_BYTES_MAX: usize = 256 << 20;

/// A locked session. If it is dropped before [`LockedSession::settle`], because the client disconnected, its
/// transaction fails.
pub(super) struct LockedSession {
    session: OwnedMutexGuard<Session>,
    settled: bool,
}

impl LockedSession {
    pub(super) async fn lock(session: &SharedSession) -> LockedSession {
        LockedSession { session: Arc::clone(session).lock_owned().await, settled: false }
    }

    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Marks the work as complete.
    pub(super) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for LockedSession {
    fn drop(&mut self) {
        if !self.settled {
            self.session.fail();
        }
    }
}

/// Result of executing a statement.
pub(super) enum RunResult {
    Rows(Rows),
    /// Number of rows changed; `None` for statements that change none.
    Done(Option<i64>),
}

impl Context {
    /// A new session.
    pub(super) fn session(&self) -> SharedSession {
        Arc::new(tokio::sync::Mutex::new(self.database.session("millrace")))
    }

    /// The session of a transaction, or a new one.
    ///
    /// # Errors
    /// 25P01 for an unknown transaction.
    pub(super) fn session_of(&self, transaction: Option<&Bytes>) -> Result<SharedSession> {
        match transaction {
            Some(handle) => self.open.transaction(handle),
            None => Ok(self.session()),
        }
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Errors of parsing and planning; 42601 for several statements.
    pub(super) async fn prepare(&self, sql: &str, transaction: Option<Bytes>) -> Result<Statement> {
        let mut statements = self.database.parse(sql)?.into_iter();
        let statement =
            statements.next().ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "the request has no statement"))?;
        if statements.next().is_some() {
            let text = "cannot run several statements in one call";
            return Err(Error::new(SqlState::SYNTAX_ERROR, text).with_hint("send them one by one, in one transaction"));
        }
        let shared = self.session_of(transaction.as_ref())?;
        let mut used = LockedSession::lock(&shared).await;
        let prepared = computing(Box::pin(used.session().prepare(&statement, &[]))).await;
        let (schema, parameters) = match &prepared {
            Ok(prepared) => (prepared.arrow_schema(used.session()), prepared.arrow_parameters(used.session())),
            Err(_) => (None, Arc::new(arrow_schema::Schema::empty())),
        };
        used.settle();
        Ok(Statement {
            session: shared,
            transaction,
            prepared: prepared?,
            schema,
            parameters,
            values: Default::default(),
        })
    }

    /// Executes a statement once, with its bound parameters.
    ///
    /// # Errors
    /// Errors of the statement; 0A000 for several lists of parameters.
    pub(super) async fn run(&self, statement: &Statement) -> Result<RunResult> {
        let values = match statement.values.lock().as_slice() {
            [] => Vec::new(),
            [values] => values.clone(),
            more => {
                let text = format!("a query takes one row of parameters, but {} are bound", more.len());
                return Err(Error::unsupported(text).with_hint("bind one row, or execute it as an update"));
            }
        };
        let mut used = LockedSession::lock(&statement.session).await;
        let result = computing(Box::pin(self.run_with(used.session(), statement, &values))).await;
        used.settle();
        result
    }

    async fn run_with(&self, session: &mut Session, statement: &Statement, values: &[Value]) -> Result<RunResult> {
        let outcome = within(session, &statement.prepared, values).await?;
        refuse_begin(session, statement)?;
        let batches = match outcome {
            Outcome::Rows { batches, .. } => batches,
            Outcome::Command { tag } => return Ok(RunResult::Done(changed(&tag))),
            Outcome::Empty => return Ok(RunResult::Done(None)),
            Outcome::CopyIn(_) | Outcome::CopyOut { .. } => {
                return Err(
                    Error::unsupported("COPY is not supported over Flight").with_hint("use bulk ingest, or a query")
                );
            }
        };
        let schema = statement.schema.clone().ok_or_else(|| Error::bug("rows of a statement without columns"))?;
        // The rows may include the transaction's own changes so far, and must not include later
        // ones.
        let in_transaction = statement.transaction.is_some() && statement.prepared.is_compiled();
        let batches = if in_transaction { collected(batches).await.inspect_err(|_| session.fail())? } else { batches };
        Ok(RunResult::Rows(Rows { schema, batches, session: Arc::clone(&statement.session) }))
    }

    /// Executes a statement once per list of bound parameters, in one transaction; returns the
    /// number of rows changed.
    ///
    /// # Errors
    /// Errors of the statement.
    pub(super) async fn update(&self, statement: &Statement) -> Result<Option<i64>> {
        let values = std::mem::take(&mut *statement.values.lock());
        let _slot = self.statement_slots.take().await?;
        let mut used = LockedSession::lock(&statement.session).await;
        let result = computing(Box::pin(self.update_with(used.session(), statement, &values))).await;
        used.settle();
        result
    }

    async fn update_with(
        &self,
        session: &mut Session,
        statement: &Statement,
        values: &[Vec<Value>],
    ) -> Result<Option<i64>> {
        if values.is_empty() {
            let ran = self.run_with(session, statement, &[]).await?;
            return count(ran).await;
        }
        let many = values.len() > 1;
        let mut total = None;
        for values in values {
            if many {
                session.begin_implicit();
            }
            let ran = self.run_with(session, statement, values).await?;
            let rows = count(ran).await.inspect_err(|_| session.fail())?;
            total = rows.map(|rows| total.unwrap_or(0) + rows).or(total);
        }
        session.end_implicit().await?;
        Ok(total)
    }

    /// Encodes rows for the client.
    pub(super) fn send(self: &Arc<Self>, rows: Rows) -> Sent {
        let Rows { schema, batches, session } = rows;
        let (context, result_schema) = (Arc::clone(self), Arc::clone(&schema));
        let batches = batches.map(move |batch| {
            // Keep the session alive while its statement runs.
            let _ = &session;
            let batch = batch.and_then(|batch| query::conform(&batch, &result_schema));
            match &batch {
                Ok(batch) => context.counters.rows_sent.add(batch.num_rows() as u64),
                Err(error) => context.counters.errors.add(error.state().0),
            }
            batch.map_err(|error| FlightError::from(status(&error)))
        });
        encoded(schema, batches.boxed())
    }
}

/// Encodes batches, preceded by their schema.
pub(super) fn encoded(
    schema: SchemaRef,
    batches: BoxStream<'static, std::result::Result<arrow_array::RecordBatch, FlightError>>,
) -> Sent {
    let mut data = FlightDataEncoderBuilder::new().with_schema(schema).build(batches).map_err(Status::from).boxed();
    // Batches are computed and encoded on demand.
    futures::stream::poll_fn(move |context| compute(|| data.poll_next_unpin(context))).boxed()
}

/// Executes a statement under `statement_timeout`.
async fn within(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
    session.stop_flag().arm(session.timeouts().statement);
    let Some(timeout) = session.timeouts().statement else { return session.execute(prepared, values).await };
    let executed = tokio::time::timeout(timeout, session.execute(prepared, values)).await;
    executed.unwrap_or_else(|_| {
        session.fail();
        Err(Error::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout"))
    })
}

/// Refuses BEGIN as a statement: the transaction could not be continued by later calls.
fn refuse_begin(session: &mut Session, statement: &Statement) -> Result<()> {
    if statement.transaction.is_some() || session.status() == TxnStatus::Idle {
        return Ok(());
    }
    session.reset();
    Err(Error::unsupported("BEGIN is not supported as a statement over Flight: each call may use another connection")
        .with_hint("use the protocol's transactions; in ADBC, switch autocommit off"))
}

async fn collected(batches: Batches) -> Result<Batches> {
    let mut bytes = 0;
    let batches: Vec<_> = batches
        .and_then(|batch| {
            bytes += batch.get_array_memory_size();
            futures::future::ready(if bytes <= COLLECTED_BYTES_MAX { Ok(batch) } else { Err(too_large()) })
        })
        .try_collect()
        .await?;
    Ok(futures::stream::iter(batches.into_iter().map(Ok)).boxed())
}

fn too_large() -> Error {
    let text = format!("a result in a transaction exceeds {} MiB", COLLECTED_BYTES_MAX >> 20);
    Error::new(SqlState::OUT_OF_MEMORY, text).with_hint("read it with autocommit on: results are streamed then")
}

/// Number of rows changed or returned.
async fn count(ran: RunResult) -> Result<Option<i64>> {
    match ran {
        RunResult::Done(rows) => Ok(rows),
        RunResult::Rows(rows) => {
            let counted = rows.batches.try_fold(0, |total, batch| async move { Ok(total + batch.num_rows()) }).await?;
            Ok(i64::try_from(counted).ok())
        }
    }
}

/// Number at the end of a command tag.
fn changed(tag: &str) -> Option<i64> {
    tag.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_count_is_at_the_end_of_the_tag() {
        for (tag, expected) in [
            ("INSERT 0 3", Some(3)),
            ("UPDATE 12", Some(12)),
            ("CREATE TABLE", None),
            ("SELECT 7", Some(7)),
            ("", None),
        ] {
            assert_eq!(changed(tag), expected, "{tag}");
        }
    }
}
