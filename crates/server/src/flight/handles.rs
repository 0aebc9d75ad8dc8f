//! Open handles of clients: statements, results to be fetched, transactions.
//!
//! Always true:
//! - A closed or expired handle is unknown: it runs nothing.
//! - Transactions and results end with their connection. Statements live until they are closed or
//!   expire, because clients reconnect silently.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use model::{Error, Result, SqlState};
use parking_lot::Mutex;
use query::{Batches, Database, Prepared, Session, Value};

use super::Options;

/// A session shared by several calls, one at a time.
pub(super) type SharedSession = Arc<tokio::sync::Mutex<Session>>;

/// A prepared statement.
pub(super) struct Statement {
    pub(super) session: SharedSession,
    /// Handle of its transaction; without one, each execution is a transaction.
    pub(super) transaction: Option<Bytes>,
    pub(super) prepared: Prepared,
    /// Result schema; `None` for statements without a result.
    pub(super) schema: Option<SchemaRef>,
    /// Parameter schema.
    pub(super) parameters: SchemaRef,
    /// Bound parameters: one list per execution.
    pub(super) values: Mutex<Vec<Vec<Value>>>,
}

/// A result of a statement that has been executed.
pub(super) struct Rows {
    pub(super) schema: SchemaRef,
    pub(super) batches: Batches,
    /// Keeps the session alive: rows may be computed while they are fetched.
    pub(super) session: SharedSession,
}

/// State behind a ticket.
pub(super) enum TicketState {
    /// A query, executed when its result is fetched.
    Query(Arc<Statement>),
    /// Rows returned by a statement with side effects.
    Rows(Rows),
}

/// State behind a handle.
enum HandleState {
    Statement(Arc<Statement>),
    TicketState(TicketState),
    Transaction(SharedSession),
}

struct Entry {
    what: HandleState,
    connection: u64,
    used: Instant,
}

/// All open handles.
pub(super) struct OpenHandles {
    entries: Mutex<HashMap<Bytes, Entry>>,
    /// Source of random handles.
    database: Database,
    entries_max: usize,
    statement_idle: Duration,
    result_idle: Duration,
}

impl OpenHandles {
    pub(super) fn new(database: &Database, options: &Options) -> OpenHandles {
        OpenHandles {
            entries: Mutex::default(),
            database: database.clone(),
            entries_max: options.open_max,
            statement_idle: options.statement_idle,
            result_idle: options.result_idle,
        }
    }

    /// Adds a statement and returns its handle.
    ///
    /// # Errors
    /// 53400 if too many handles are open.
    pub(super) fn add_statement(&self, connection: u64, statement: Arc<Statement>) -> Result<Bytes> {
        self.add(connection, HandleState::Statement(statement))
    }

    /// Adds the state of a ticket, which can be taken once.
    ///
    /// # Errors
    /// See [`OpenHandles::add_statement`].
    pub(super) fn add_pending(&self, connection: u64, pending: TicketState) -> Result<Bytes> {
        self.add(connection, HandleState::TicketState(pending))
    }

    /// Adds a transaction.
    ///
    /// # Errors
    /// See [`OpenHandles::add_statement`].
    pub(super) fn add_transaction(&self, connection: u64, session: SharedSession) -> Result<Bytes> {
        self.add(connection, HandleState::Transaction(session))
    }

    fn add(&self, connection: u64, what: HandleState) -> Result<Bytes> {
        if self.entries.lock().len() >= self.entries_max {
            self.sweep();
        }
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max {
            let text = format!("clients have {} statements and results open", self.entries_max);
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, text).with_hint("close unused ones"));
        }
        let random = || self.database.engine().env().random().to_le_bytes();
        let handle: Bytes = [random(), random()].concat().into();
        entries.insert(handle.clone(), Entry { what, connection, used: Instant::now() });
        Ok(handle)
    }

    /// Looks a statement up by its handle.
    ///
    /// # Errors
    /// 26000 if it is unknown; 25P01 if its transaction has ended.
    pub(super) fn statement(&self, handle: &Bytes) -> Result<Arc<Statement>> {
        let mut entries = self.entries.lock();
        let statement = match entries.get_mut(handle) {
            Some(Entry { what: HandleState::Statement(statement), used, .. }) => {
                *used = Instant::now();
                Arc::clone(statement)
            }
            _ => {
                let text = "unknown prepared statement: it was closed, or expired";
                return Err(Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, text).with_hint("prepare it again"));
            }
        };
        drop(entries);
        self.check(&statement)?;
        Ok(statement)
    }

    /// Takes the state of a ticket.
    ///
    /// # Errors
    /// 34000 if it is unknown or was taken; 25P01 if its transaction has ended.
    pub(super) fn take_pending(&self, handle: &Bytes) -> Result<TicketState> {
        let mut entries = self.entries.lock();
        let is_pending = entries.get(handle).is_some_and(|entry| matches!(entry.what, HandleState::TicketState(_)));
        let taken = if is_pending { entries.remove(handle) } else { None };
        drop(entries);
        let Some(Entry { what: HandleState::TicketState(pending), .. }) = taken else {
            let text = "unknown ticket: its result was fetched already, or expired";
            return Err(Error::new(SqlState::INVALID_CURSOR_NAME, text).with_hint("run the statement again"));
        };
        if let TicketState::Query(statement) = &pending {
            self.check(statement)?;
        }
        Ok(pending)
    }

    /// Fails if the statement's transaction has ended.
    fn check(&self, statement: &Statement) -> Result<()> {
        statement.transaction.as_ref().map_or(Ok(()), |handle| self.transaction(handle).map(drop))
    }

    /// Looks a transaction's session up by its handle.
    ///
    /// # Errors
    /// 25P01 if it is unknown.
    pub(super) fn transaction(&self, handle: &Bytes) -> Result<SharedSession> {
        match self.entries.lock().get(handle) {
            Some(Entry { what: HandleState::Transaction(session), .. }) => Ok(Arc::clone(session)),
            _ => {
                let text = "unknown transaction: it has ended, or its connection has";
                Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).with_hint("begin another one"))
            }
        }
    }

    /// Closes a handle.
    pub(super) fn close(&self, handle: &Bytes) {
        // Drop its state after unlocking.
        let closed = self.entries.lock().remove(handle);
        drop(closed);
    }

    /// Number of open handles.
    pub(super) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Closes idle statements and results.
    pub(super) fn sweep(&self) {
        self.remove_where(|entry| {
            let idle = entry.used.elapsed();
            match &entry.what {
                HandleState::Statement(statement) => idle > self.statement_idle && Arc::strong_count(statement) == 1,
                HandleState::TicketState(_) => idle > self.result_idle,
                HandleState::Transaction(_) => false,
            }
        });
    }

    /// Closes the transactions and results of a connection.
    pub(super) fn end_connection(&self, connection: u64) {
        self.remove_where(|entry| entry.connection == connection && !matches!(entry.what, HandleState::Statement(_)));
    }

    fn remove_where(&self, is_expired: impl Fn(&Entry) -> bool) {
        let mut entries = self.entries.lock();
        let expired: Vec<Bytes> =
            entries.iter().filter(|(_, entry)| is_expired(entry)).map(|(handle, _)| handle.clone()).collect();
        let removed: Vec<Entry> = expired.iter().filter_map(|handle| entries.remove(handle)).collect();
        drop(entries);
        drop(removed);
    }
}
