//! What clients have open, by handle: statements, results that are there to be fetched, transactions.
//!
//! Always true:
//! - A handle that was closed, or forgotten, is unknown: nothing is run by it.
//! - Transactions and results end with the connection that began them; statements live on until they are closed or idle for too long,
//!   because clients connect again without saying so.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use model::{Error, Result, SqlState};
use parking_lot::Mutex;
use query::{Batches, Database, Prepared, Session, Value};

use super::Options;

/// A session that several calls use, one after the other.
pub(super) type SharedSession = Arc<tokio::sync::Mutex<Session>>;

/// A statement that was planned.
pub(super) struct Statement {
    pub(super) session: SharedSession,
    /// The transaction it belongs to; without it, each run is one.
    pub(super) transaction: Option<Bytes>,
    pub(super) prepared: Prepared,
    /// Of its result; `None` for statements without one.
    pub(super) schema: Option<SchemaRef>,
    /// Of its parameters.
    pub(super) parameters: SchemaRef,
    /// For its parameters: one list for each time it is to run.
    pub(super) values: Mutex<Vec<Vec<Value>>>,
}

/// A result of a statement that was run already.
pub(super) struct Rows {
    pub(super) schema: SchemaRef,
    pub(super) batches: Batches,
    /// The rows may be made while they are fetched.
    pub(super) session: SharedSession,
}

/// What a ticket stands for.
pub(super) enum Pending {
    /// A query, run when it is asked for.
    Query(Arc<Statement>),
    /// What a change gave back.
    Rows(Rows),
}

/// One of them.
enum What {
    Statement(Arc<Statement>),
    Pending(Pending),
    Transaction(SharedSession),
}

struct Entry {
    what: What,
    connection: u64,
    used: Instant,
}

/// All of them.
pub(super) struct Open {
    entries: Mutex<HashMap<Bytes, Entry>>,
    /// For its random numbers.
    database: Database,
    entries_max: usize,
    statement_idle: Duration,
    result_idle: Duration,
}

impl Open {
    pub(super) fn new(database: &Database, options: &Options) -> Open {
        Open {
            entries: Mutex::default(),
            database: database.clone(),
            entries_max: options.open_max,
            statement_idle: options.statement_idle,
            result_idle: options.result_idle,
        }
    }

    /// Keeps a statement; gives its handle.
    ///
    /// # Errors
    /// 53400 when clients have too much open.
    pub(super) fn add_statement(&self, connection: u64, statement: Arc<Statement>) -> Result<Bytes> {
        self.add(connection, What::Statement(statement))
    }

    /// Keeps what a ticket stands for, to be taken once.
    ///
    /// # Errors
    /// As [`Open::add_statement`].
    pub(super) fn add_pending(&self, connection: u64, pending: Pending) -> Result<Bytes> {
        self.add(connection, What::Pending(pending))
    }

    /// Keeps a transaction.
    ///
    /// # Errors
    /// As [`Open::add_statement`].
    pub(super) fn add_transaction(&self, connection: u64, session: SharedSession) -> Result<Bytes> {
        self.add(connection, What::Transaction(session))
    }

    fn add(&self, connection: u64, what: What) -> Result<Bytes> {
        if self.entries.lock().len() >= self.entries_max {
            self.sweep();
        }
        let mut entries = self.entries.lock();
        if entries.len() >= self.entries_max {
            let text = format!("clients have {} statements and results open", self.entries_max);
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, text).with_hint("close what is not needed"));
        }
        let random = || self.database.engine().env().random().to_le_bytes();
        let handle: Bytes = [random(), random()].concat().into();
        entries.insert(handle.clone(), Entry { what, connection, used: Instant::now() });
        Ok(handle)
    }

    /// The statement of a handle.
    ///
    /// # Errors
    /// 26000 if there is none; 25P01 if its transaction ended.
    pub(super) fn statement(&self, handle: &Bytes) -> Result<Arc<Statement>> {
        let mut entries = self.entries.lock();
        let statement = match entries.get_mut(handle) {
            Some(Entry { what: What::Statement(statement), used, .. }) => {
                *used = Instant::now();
                Arc::clone(statement)
            }
            _ => {
                let text = "the prepared statement is unknown: it was closed, or not used for long";
                return Err(Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, text).with_hint("prepare it again"));
            }
        };
        drop(entries);
        self.check(&statement)?;
        Ok(statement)
    }

    /// Takes what a ticket stands for.
    ///
    /// # Errors
    /// 34000 if it is unknown or was taken before; 25P01 if its transaction ended.
    pub(super) fn take_pending(&self, handle: &Bytes) -> Result<Pending> {
        let mut entries = self.entries.lock();
        let is_pending = entries.get(handle).is_some_and(|entry| matches!(entry.what, What::Pending(_)));
        let taken = if is_pending { entries.remove(handle) } else { None };
        drop(entries);
        let Some(Entry { what: What::Pending(pending), .. }) = taken else {
            let text = "the ticket is unknown: its result was fetched before, or not asked for in time";
            return Err(Error::new(SqlState::INVALID_CURSOR_NAME, text).with_hint("run the statement again"));
        };
        if let Pending::Query(statement) = &pending {
            self.check(statement)?;
        }
        Ok(pending)
    }

    /// Is the statement's transaction still there?
    fn check(&self, statement: &Statement) -> Result<()> {
        statement.transaction.as_ref().map_or(Ok(()), |handle| self.transaction(handle).map(drop))
    }

    /// The session of a transaction.
    ///
    /// # Errors
    /// 25P01 if there is none.
    pub(super) fn transaction(&self, handle: &Bytes) -> Result<SharedSession> {
        match self.entries.lock().get(handle) {
            Some(Entry { what: What::Transaction(session), .. }) => Ok(Arc::clone(session)),
            _ => {
                let text = "the transaction is unknown: it ended, or its connection did";
                Err(Error::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).with_hint("begin another one"))
            }
        }
    }

    /// Forgets a handle.
    pub(super) fn close(&self, handle: &Bytes) {
        // Whatever it was is dropped without the lock.
        let closed = self.entries.lock().remove(handle);
        drop(closed);
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Forgets what nobody asked for in a while.
    pub(super) fn sweep(&self) {
        self.forget(|entry| {
            let idle = entry.used.elapsed();
            match &entry.what {
                What::Statement(statement) => idle > self.statement_idle && Arc::strong_count(statement) == 1,
                What::Pending(_) => idle > self.result_idle,
                What::Transaction(_) => false,
            }
        });
    }

    /// Ends what is bound to a connection.
    pub(super) fn end_connection(&self, connection: u64) {
        self.forget(|entry| entry.connection == connection && !matches!(entry.what, What::Statement(_)));
    }

    fn forget(&self, is_over: impl Fn(&Entry) -> bool) {
        let mut entries = self.entries.lock();
        let over: Vec<Bytes> =
            entries.iter().filter(|(_, entry)| is_over(entry)).map(|(handle, _)| handle.clone()).collect();
        let gone: Vec<Entry> = over.iter().filter_map(|handle| entries.remove(handle)).collect();
        drop(entries);
        drop(gone);
    }
}
