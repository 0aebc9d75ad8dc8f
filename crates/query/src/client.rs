//! A client of SQL for applications: statements, and typed columns of the rows that they return. The database is in the process,
//! or elsewhere: see [`RemoteDatabase`].

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use futures::StreamExt;
use futures::future::BoxFuture;
use model::{Error, Lsn, Result, TableId, TableName};
use parking_lot::Mutex;

use crate::settings::Settings;
use crate::{
    Batches, BulkTarget, Database, IfMissing, IfThere, Outcome, PlanCache, Prepared, Session, TxnStatus, Value,
};

/// A database in another process, which an application of this one uses.
pub trait RemoteDatabase: Send + Sync {
    /// A new session.
    fn session(&self) -> Box<dyn RemoteSession>;
}

/// A session of a database in another process. Transactions are begun and ended by statements.
pub trait RemoteSession: Send {
    /// Runs a statement and collects its rows.
    fn rows<'a>(&'a mut self, text: &'a str, values: &'a [Value]) -> BoxFuture<'a, Result<Vec<RecordBatch>>>;

    /// Appends a batch to a table, in the open transaction or in its own.
    fn append<'a>(&'a mut self, schema: &'a str, table: &'a str, batch: &'a RecordBatch) -> BoxFuture<'a, Result<()>>;
}

/// A session that runs one statement at a time.
pub struct SqlClient(Place);

enum Place {
    Here(Box<Here>),
    Elsewhere(Box<dyn RemoteSession>),
}

/// A session in the process, with plans of statements that other clients ran: planning one anew takes longer than a short
/// statement runs.
struct Here {
    session: Session,
    plans: Arc<SharedPlans>,
}

/// Plans of the statements of applications, and the settings that they were made with: they hold in sessions that share them.
#[derive(Default)]
struct SharedPlans {
    settings: OnceLock<Arc<Settings>>,
    cache: Mutex<PlanCache>,
}

/// The user of applications.
const USER: &str = "millrace";

/// Stands for the types of the parameters, which applications do not declare: a text without parameters is found as a whole too.
const UNDECLARED: [u32; 1] = [0];

impl Here {
    fn new(database: &Database) -> Here {
        let plans = database.kept::<SharedPlans>();
        let settings = plans.settings.get_or_init(|| Session::first_settings(database, USER));
        Here { session: database.session_with(USER, Arc::clone(settings)), plans }
    }

    async fn prepared(&mut self, text: &str) -> Result<Prepared> {
        let plans = Arc::clone(&self.plans);
        if self.has_shared_settings()
            && let Some(known) = plans.cache.lock().recall(&mut self.session, text, &UNDECLARED)
        {
            return Ok(known);
        }
        let statements = self.session.database().parse(text)?;
        let [statement] = statements.as_slice() else { return Err(Error::bug(format!("not one statement: {text}"))) };
        let prepared = crate::computing(Box::pin(self.session.prepare(statement, &[]))).await?;
        if self.has_shared_settings() {
            plans.cache.lock().remember(&mut self.session, text, &UNDECLARED, &prepared);
        }
        Ok(prepared)
    }

    /// Whether the plans hold in the session: it may have changed its settings.
    fn has_shared_settings(&self) -> bool {
        self.plans.settings.get().is_some_and(|shared| Arc::ptr_eq(shared, &self.session.settings))
    }
}

/// Values that applications computed from `rows` tables, one of each type, with the state of the tables then.
#[derive(Default)]
struct KeptValues(Mutex<HashMap<TypeId, (TableStates, KeptValue)>>);

type KeptValue = Arc<dyn Any + Send + Sync>;

/// Number, version and newest commit of tables.
type TableStates = Vec<(TableId, u32, Lsn)>;

impl Here {
    /// The states of some tables; `None` in a transaction, which may have changed them, while a commit that changed one is not durable, and
    /// if one does not exist.
    fn states(&self, schema: &str, tables: &[&str]) -> Option<TableStates> {
        if self.session.status() != TxnStatus::Idle {
            return None;
        }
        // Taken before the states are read, which cover all commits of both.
        let engine = self.session.database().engine();
        let (durable, newest) = (engine.snapshot(Lsn::ZERO), engine.snapshot(Lsn(u64::MAX)));
        let state = |table: &&str| {
            let name = TableName { schema: schema.to_owned(), table: (*table).to_owned() };
            let table = durable.row_table(&name).ok()?;
            // The table was not emptied or altered since.
            newest.row_table(&name).ok().filter(|newest| Arc::ptr_eq(newest, table))?;
            let changed = (0..table.records.parts()).map(|part| table.records.part_changed(part)).max();
            let changed = changed.unwrap_or(Lsn::ZERO);
            // Only then does a statement that starts now see the commit. A value without it would be kept until the next one.
            (changed <= durable.lsn()).then(|| (table.id(), table.schema.version, changed))
        };
        tables.iter().map(state).collect()
    }
}

/// The database in another process that applications use, if they do.
#[derive(Default)]
struct Remote(OnceLock<Arc<dyn RemoteDatabase>>);

impl Database {
    /// Lets applications use a database in another process instead of this one, once, before the first request.
    ///
    /// # Panics
    /// If they do already.
    pub fn set_remote(&self, remote: Arc<dyn RemoteDatabase>) {
        assert!(self.kept::<Remote>().0.set(remote).is_ok(), "applications have one database elsewhere");
    }

    /// The database in another process that applications use, if they do.
    #[must_use]
    pub fn remote(&self) -> Option<Arc<dyn RemoteDatabase>> {
        self.kept::<Remote>().0.get().cloned()
    }
}

impl SqlClient {
    /// A client with a session of its own.
    #[must_use]
    pub fn new(database: &Database) -> SqlClient {
        SqlClient(match database.remote() {
            None => Place::Here(Box::new(Here::new(database))),
            Some(remote) => Place::Elsewhere(remote.session()),
        })
    }

    /// Runs a statement, and returns its rows as they are produced; none for a command.
    ///
    /// # Errors
    /// Those of the statement; 0A000 if the database is elsewhere.
    pub async fn stream(&mut self, text: &str, values: &[Value]) -> Result<Option<Batches>> {
        let Place::Here(here) = &mut self.0 else {
            return Err(Error::unsupported("rows as they are produced, of a database elsewhere".to_owned()));
        };
        let prepared = here.prepared(text).await?;
        match here.session.execute(&prepared, values).await? {
            Outcome::Rows { batches, .. } => Ok(Some(batches)),
            _ => Ok(None),
        }
    }

    /// Runs a statement and collects its rows.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn rows(&mut self, text: &str, values: &[Value]) -> Result<Vec<Rows>> {
        if let Place::Elsewhere(session) = &mut self.0 {
            return Ok(session.rows(text, values).await?.into_iter().map(Rows).collect());
        }
        let mut all = Vec::new();
        if let Some(mut batches) = self.stream(text, values).await? {
            while let Some(batch) = batches.next().await {
                all.push(Rows(batch?));
            }
        }
        Ok(all)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Those of the statement.
    pub async fn run(&mut self, text: &str, values: &[Value]) -> Result<()> {
        self.rows(text, values).await.map(drop)
    }

    /// Returns what `make` computes from some `rows` tables of a schema, and from nothing else that changes. It is kept for all clients, one value of
    /// each type, until a commit changes one of the tables.
    ///
    /// # Errors
    /// Those of `make`.
    ///
    /// # Cost
    /// Less than a microsecond; that of `make` after a change, in a transaction, and always if the database is elsewhere.
    pub async fn kept<T: Send + Sync + 'static>(
        &mut self,
        (schema, tables): (&str, &[&str]),
        make: impl AsyncFnOnce(&mut SqlClient) -> Result<T>,
    ) -> Result<Arc<T>> {
        let Place::Here(here) = &self.0 else { return make(self).await.map(Arc::new) };
        let Some(states) = here.states(schema, tables) else { return make(self).await.map(Arc::new) };
        let values = here.session.database().kept::<KeptValues>();
        if let Some((known, value)) = values.0.lock().get(&TypeId::of::<T>())
            && *known == states
            && let Ok(value) = Arc::downcast(Arc::clone(value))
        {
            return Ok(value);
        }
        let value = Arc::new(make(self).await?);
        let kept: KeptValue = Arc::<T>::clone(&value);
        let old = values.0.lock().insert(TypeId::of::<T>(), (states, kept));
        if old.is_some() {
            // It may be large, and the last reference to it.
            crate::compute(|| drop(old));
        }
        Ok(value)
    }

    /// Runs statements in one transaction.
    ///
    /// # Errors
    /// Those of the statements and of COMMIT. Nothing is changed then.
    pub async fn transaction(&mut self, run: impl AsyncFnOnce(&mut SqlClient) -> Result<()>) -> Result<()> {
        self.run("BEGIN", &[]).await?;
        let mut done = run(self).await;
        if done.is_ok() {
            done = self.run("COMMIT", &[]).await;
        }
        if done.is_err() {
            // The first error is the one to report.
            let _ = self.run("ROLLBACK", &[]).await;
        }
        done
    }

    /// Appends batches, each to its table of a schema, in the open transaction or each in its own.
    ///
    /// # Errors
    /// Those of INSERT.
    pub async fn append(&mut self, schema: &str, batches: &[(&'static str, RecordBatch)]) -> Result<()> {
        for (table, batch) in batches {
            let session = match &mut self.0 {
                Place::Here(here) => &mut here.session,
                Place::Elsewhere(session) => {
                    session.append(schema, table, batch).await?;
                    continue;
                }
            };
            let target = BulkTarget {
                schema: Some(schema.to_owned()),
                table: (*table).to_owned(),
                if_missing: IfMissing::Fail,
                if_there: IfThere::Append,
                options: BTreeMap::new(),
            };
            let mut bulk = session.bulk(&target, &batch.schema()).await?;
            bulk.batch(session, batch).await?;
            bulk.done(session).await?;
        }
        Ok(())
    }
}

/// Rows of a result.
pub struct Rows(pub RecordBatch);

impl Rows {
    /// Number of rows.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "batches of a result are seldom empty, and nobody asks")]
    pub fn len(&self) -> usize {
        self.0.num_rows()
    }

    fn cast(&self, at: usize, ty: &DataType) -> Result<ArrayRef> {
        arrow_cast::cast(self.0.column(at), ty).map_err(Error::bug)
    }

    /// A column of texts.
    ///
    /// # Errors
    /// XX000 if it is none, here and below.
    pub fn texts(&self, at: usize) -> Result<Column<String>> {
        let array = self.cast(at, &DataType::Utf8)?;
        let texts = array.as_string::<i32>();
        Ok(Column(texts.iter().map(|text| text.map(str::to_owned)).collect()))
    }

    /// A column of times, in nanoseconds.
    pub fn times(&self, at: usize) -> Result<Column<i64>> {
        let zone = match self.0.column(at).data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        let array = self.cast(at, &DataType::Timestamp(TimeUnit::Nanosecond, zone))?;
        Ok(Column(array.as_primitive::<TimestampNanosecondType>().iter().collect()))
    }

    /// A column of integers.
    pub fn integers(&self, at: usize) -> Result<Column<i64>> {
        let array = self.cast(at, &DataType::Int64)?;
        Ok(Column(array.as_primitive::<Int64Type>().iter().collect()))
    }

    /// A column of numbers.
    pub fn numbers(&self, at: usize) -> Result<Column<f64>> {
        let array = self.cast(at, &DataType::Float64)?;
        Ok(Column(array.as_primitive::<Float64Type>().iter().collect()))
    }

    /// A column of truth values.
    pub fn booleans(&self, at: usize) -> Result<Column<bool>> {
        let array = self.cast(at, &DataType::Boolean)?;
        Ok(Column(array.as_boolean().iter().collect()))
    }
}

/// Values of a column.
pub struct Column<T>(Vec<Option<T>>);

impl<T> Column<T> {
    /// Takes a value out.
    pub fn take(&mut self, row: usize) -> Option<T> {
        self.0[row].take()
    }
}

/// A text that must be there.
///
/// # Errors
/// XX000 if it is NULL.
pub fn there<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::bug("NULL in a column that has none"))
}
