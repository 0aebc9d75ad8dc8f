//! The server, the database and the session as functions and system tables see them, from the environment of the running
//! statement.

use std::fmt;
use std::sync::Arc;

use engine::Engine;
use model::{Result, TableId};
use pg_catalog::StatementObjects;
use pg_catalog::facts::{
    Activity, AdvisoryLock, OpenCursor, RowTableSize, ServerFacts, Setting, Signal, StatementFacts,
};
use scalar::Session;

use super::context::{DATABASE, StatementContext};
use crate::routines::RoutineCalls;

/// Part of the memory budget that a single computed value may take. Several exist at once, in arguments and results.
const VALUE_PART: u64 = 16;

/// The facts of a session that expressions of a running statement depend on, with the database's objects.
pub(crate) fn facts(context: &Arc<StatementContext>) -> Arc<Session> {
    let objects: Arc<dyn scalar::Objects> = Arc::new(StatementObjects::new(statement_facts(context)));
    let routines: Arc<dyn scalar::Routines> = Arc::<RoutineCalls>::clone(&context.routines);
    Arc::new(Session { objects: Some(objects), routines: Some(routines), ..value_session(context) })
}

/// The facts of a session that results depend on.
pub(crate) fn value_session(context: &StatementContext) -> Session {
    Session {
        transaction_micros: context.now_ns.div_euclid(1_000),
        statement_micros: context.statement_ns.div_euclid(1_000),
        outside: Some(Arc::new(Outside(context.engine.clone()))),
        user: context.user.to_string(),
        database: DATABASE.to_owned(),
        schema: context.current_schema(),
        value_bytes_max: usize::try_from(context.engine.memory().total() / VALUE_PART).unwrap_or(usize::MAX),
        ..context.settings.value_session()
    }
}

/// The clock and the random numbers of the engine's environment.
struct Outside(Engine);

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outside")
    }
}

impl scalar::context::Outside for Outside {
    fn now_micros(&self) -> i64 {
        self.0.env().now_ns().div_euclid(1_000)
    }

    fn random(&self) -> u64 {
        self.0.env().random()
    }
}

/// The facts of a statement for catalog functions and tables.
pub(crate) fn statement_facts(context: &Arc<StatementContext>) -> Arc<StatementFacts> {
    Arc::new(StatementFacts {
        catalog: Arc::clone(context.reads.snapshot.catalog()),
        user: context.user.to_string(),
        database: DATABASE.to_owned(),
        backend_pid: context.backend_pid,
        trigger_depth: context.trigger_depth,
        search_path: context.settings.search_path(),
        creation_path: context.settings.creation_path(),
        temporary: context.settings.temporary().map(ToString::to_string),
        server: Arc::new(Live(Arc::clone(context))),
    })
}

/// Server information from the environment of the running statement.
struct Live(Arc<StatementContext>);

impl ServerFacts for Live {
    fn setting(&self, name: &str) -> Option<String> {
        let of_transaction = self.0.modes.shown(name).map(str::to_owned);
        of_transaction.or_else(|| self.0.settings.get(name))
    }

    fn set(&self, name: &str, value: &str, local: bool) -> Result<String> {
        let mut tried = (*self.0.settings).clone();
        tried.set(name, value)?;
        self.0.pending.lock().push((name.to_owned(), value.to_owned(), local));
        Ok(tried.get(name).unwrap_or_default())
    }

    fn notify(&self, channel: &str, payload: &str) -> Result<()> {
        self.0.outbox.lock().notify(channel, payload)
    }

    fn listening(&self) -> Vec<String> {
        self.0.database.channels().of(self.0.backend_pid)
    }

    fn notifications_used(&self) -> f64 {
        self.0.database.channels().usage()
    }

    fn settings(&self) -> Vec<Setting> {
        self.0.settings.rows()
    }

    fn table_bytes(&self, table: TableId) -> Option<i64> {
        let view = self.0.reads.snapshot.table_by_id(table).ok()?;
        let files: u64 = view.state().segments.iter().map(|segment| segment.meta().bytes).sum();
        i64::try_from(files).ok()?.checked_add(i64::try_from(view.state().memory_bytes()).ok()?)
    }

    fn row_table(&self, table: TableId) -> Option<RowTableSize> {
        let table = self.0.reads.snapshot.row_table_by_id(table).ok()?;
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let indexes = table.primary.iter().chain(&table.secondary);
        Some(RowTableSize {
            rows: bytes(table.records.rows()),
            bytes: bytes(table.memory_bytes()),
            indexes: indexes.map(|index| (index.def().id, bytes(index.memory_bytes()))).collect(),
        })
    }

    fn sequence_state(&self, sequence: u32) -> Option<(i64, bool)> {
        let state = self.0.engine.sequence_state(sequence).ok()?;
        Some((state.last, state.is_called))
    }

    fn activity(&self) -> Vec<Activity> {
        self.0.sessions.list()
    }

    fn signal(&self, pid: i32, signal: Signal) -> bool {
        self.0.sessions.signal(pid, signal)
    }

    fn database_bytes(&self) -> i64 {
        let stats = self.0.engine.stats();
        i64::try_from(stats.segment_bytes + stats.log_disk_bytes).unwrap_or(i64::MAX)
    }

    fn locks(&self) -> Vec<AdvisoryLock> {
        self.0.database.advisory().list()
    }

    fn cursors(&self) -> Vec<OpenCursor> {
        self.0.cursors.as_deref().unwrap_or_default().to_vec()
    }

    fn commits(&self) -> Option<i64> {
        i64::try_from(self.0.engine.stats().commits).ok()
    }

    fn started_ns(&self) -> i64 {
        self.0.database.started_ns()
    }

    fn lsn(&self) -> u64 {
        self.0.reads.snapshot.lsn().0
    }
}
