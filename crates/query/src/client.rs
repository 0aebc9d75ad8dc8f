//! A client of SQL for applications: statements, and typed columns of the rows that they return. The database is in the process,
//! or elsewhere: see [`RemoteDatabase`].

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use futures::StreamExt;
use futures::future::BoxFuture;
use model::{Error, Result};
use parking_lot::Mutex;

use crate::settings::Settings;
use crate::{Batches, BulkTarget, Database, IfMissing, IfThere, Outcome, PlanCache, Prepared, Session, Value};

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

/// A session in the process, with plans of statements that earlier clients ran: planning one anew takes longer than a short
/// statement runs.
struct Here {
    session: Session,
    /// None if very many clients run statements at the same time.
    plans: Option<Plans>,
}

/// Plans, and the settings that they were made with: they hold in sessions that share them.
struct Plans {
    cache: PlanCache,
    settings: Arc<Settings>,
}

/// Stands for the types of the parameters, which applications do not declare: a text without parameters is found as a whole too.
const UNDECLARED: [u32; 1] = [0];

impl Here {
    async fn prepared(&mut self, text: &str) -> Result<Prepared> {
        let Here { session, plans } = self;
        if let Some(known) = plans.as_mut().and_then(|plans| plans.cache.recall(session, text, &UNDECLARED)) {
            return Ok(known);
        }
        let statements = session.database().parse(text)?;
        let [statement] = statements.as_slice() else { return Err(Error::bug(format!("not one statement: {text}"))) };
        let prepared = session.prepare(statement, &[]).await?;
        if let Some(plans) = plans {
            plans.cache.remember(session, text, &UNDECLARED, &prepared);
        }
        Ok(prepared)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        let Some(plans) = self.plans.take() else { return };
        let kept = self.session.database().kept::<Mutex<KeptPlans>>();
        let mut kept = kept.lock();
        if Arc::ptr_eq(&plans.settings, &self.session.settings) {
            kept.idle.push(plans);
        } else {
            kept.count -= 1;
        }
    }
}

/// Maximum number of plan caches of the sessions of applications: further sessions plan each statement. A cache may have a
/// megabyte.
const PLAN_CACHES_MAX: usize = 16;

/// Plans of the sessions of applications, for the next of them.
#[derive(Default)]
struct KeptPlans {
    /// Those that no session has.
    idle: Vec<Plans>,
    /// Number of all.
    count: usize,
}

impl KeptPlans {
    /// Plans for a new session; `None` if too many sessions have some.
    fn take(&mut self, session: &mut Session) -> Option<Plans> {
        if let Some(plans) = self.idle.pop() {
            session.settings = Arc::clone(&plans.settings);
            return Some(plans);
        }
        if self.count >= PLAN_CACHES_MAX {
            return None;
        }
        self.count += 1;
        Some(Plans { cache: PlanCache::default(), settings: Arc::clone(&session.settings) })
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
            None => {
                let mut session = database.session("millrace");
                let plans = database.kept::<Mutex<KeptPlans>>().lock().take(&mut session);
                Place::Here(Box::new(Here { session, plans }))
            }
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
