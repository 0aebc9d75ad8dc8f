//! The archiver: its start, its tasks and its end.
//!
//! Tasks: *sampling* turns events into rows and *writing* commits them (`writing`); *summarising* sums them up, *keeping* follows
//! `epics.pvs` and marks that the archiver runs, *retaining* deletes what policies do not keep (`keeping`), *filling* fills gaps
//! from the pair (`filling`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use epics::client::SettingError;
use epics::{ca, pva};
use model::{Error, Result, SqlState};
use query::Database;
use query::client::SqlClient;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::registry::Protocol;
use crate::shared::{Clients, Shared, not_started};
use crate::summaries::Watermarks;
use crate::tables::DEFINITIONS;
use crate::{filling, keeping, rdb_views, writing};

/// A running archiver.
pub struct Archiver {
    pub(crate) shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    sampling: JoinHandle<()>,
    writing: JoinHandle<()>,
    keeping: JoinHandle<()>,
    summarising: JoinHandle<()>,
    retaining: JoinHandle<()>,
    filling: JoinHandle<()>,
    visiting: JoinHandle<()>,
}

impl Archiver {
    /// Starts the archiver on the current tokio runtime: creates its tables where they are missing, and subscribes to all PVs
    /// of `epics.pvs` that are not paused.
    ///
    /// # Errors
    /// Those of SQL; 22023 for a setting of the environment that cannot be used; 58030 if the socket of searches cannot be
    /// opened.
    pub async fn start(database: &Database) -> Result<Archiver> {
        let settings =
            (ca::Settings::from_environment().map_err(invalid)?, pva::Settings::from_environment().map_err(invalid)?);
        let mut sql = SqlClient::new(database);
        for statement in DEFINITIONS {
            sql.run(statement, &[]).await.map_err(|error| error.context("archiver"))?;
        }
        // Objects of a user may have these names. Archiving matters more than the readers of the views.
        for statement in rdb_views::definitions() {
            if let Err(error) = sql.run(&statement, &[]).await {
                tracing::warn!(%error, "a view of the schema rdb is not as this version defines it");
            }
        }
        let engine = database.engine().clone();
        let clock = || {
            let engine = engine.clone();
            move || engine.env().now_ns()
        };
        let (ca, ca_events) = ca::Client::new(settings.0, clock()).map_err(not_started)?;
        let (pva, pva_events) = pva::Client::new(settings.1, clock()).map_err(not_started)?;
        let events = [(Protocol::Ca, ca_events), (Protocol::Pva, pva_events)];
        let started = engine.env().now_ns();
        let watermarks = Watermarks::load(&mut sql, started).await?;
        let shared = Arc::new(Shared::new(database.clone(), Clients { ca, pva }, watermarks, started));
        shared.resume(&mut sql).await?;
        let (stop, stopped) = watch::channel(false);
        let (batches, queue) = mpsc::channel(1);
        let sampling = tokio::spawn(writing::sample(Arc::clone(&shared), events, batches, stopped.clone()));
        let writing = tokio::spawn(writing::write(Arc::clone(&shared), queue, stopped.clone()));
        let summarising = tokio::spawn(keeping::summarise(Arc::clone(&shared), stopped.clone()));
        let retaining = tokio::spawn(keeping::retain(Arc::clone(&shared), stopped.clone()));
        let visiting = tokio::spawn(filling::visit(Arc::clone(&shared), stopped.clone()));
        let filling = tokio::spawn(filling::fill(Arc::clone(&shared), stopped.clone()));
        let keeping = tokio::spawn(keeping::keep(Arc::clone(&shared), stopped));
        tracing::info!(pvs = shared.registry.lock().await.len(), "archiving");
        Ok(Archiver { shared, stop, sampling, writing, keeping, summarising, retaining, filling, visiting })
    }

    /// Stops sampling, and returns when all that arrived is committed.
    pub async fn stop(self) {
        let Archiver { shared, stop, sampling, writing, keeping, summarising, retaining, filling, visiting } = self;
        let _ = stop.send(true);
        for task in [sampling, writing, keeping, summarising, retaining, filling, visiting] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the archiver failed");
                shared.written.lost.store(true, Ordering::Release);
            }
        }
        let is_whole = !shared.written.lost.load(Ordering::Acquire);
        if let Err(error) = shared.mark(is_whole.then(|| shared.now())).await {
            tracing::warn!(%error, "the archiver could not note its end");
        }
    }
}

fn invalid(error: SettingError) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string())
}
