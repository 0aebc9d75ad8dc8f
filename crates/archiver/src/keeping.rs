//! Work at intervals: summaries, the tables of definitions, samples that are not kept, and the marks of a run.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use epics::sample::Nanos;
use model::Result;
use query::Value;
use query::client::SqlClient;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::registry::Pv;
use crate::shared::Shared;
use crate::summaries::{self, window_of};

/// Time between looks at `epics.pvs`, and between marks of `epics.runs`.
const KEEP_INTERVAL: Duration = Duration::from_secs(2);
/// Looking at `epics.pvs` takes at most this share of the time, but it is done so often.
const KEEP_SHARE: u32 = 20;
const KEEP_INTERVAL_MAX: Duration = Duration::from_secs(30);
/// Time between deletions of samples that policies do not keep.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3_600);
/// Time between looks for samples that are not summarised.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(20);
const DAY: f64 = 86_400.0 * 1e9;

/// Summarises samples.
pub(crate) async fn summarise(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        let now = shared.now();
        let summarised = Box::pin(summaries::summarise(&shared.database, &shared.watermarks, now));
        tokio::select! {
            _ = stop.changed() => return,
            summarised = query::computing(summarised) => {
                if let Err(error) = summarised {
                    tracing::warn!(%error, "samples could not be summarised");
                }
            }
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(SUMMARY_INTERVAL) => {}
        }
    }
}

/// Follows the definitions, and marks that the archiver runs.
pub(crate) async fn keep(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut pause = KEEP_INTERVAL;
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let totals = shared.registry.lock().await.totals();
        if let Ok(mut known) = shared.totals.lock() {
            *known = totals;
        }
        let marked = shared.mark(None).await;
        let began = Instant::now();
        let followed = shared.follow(None).await;
        pause = (began.elapsed() * KEEP_SHARE).clamp(KEEP_INTERVAL, KEEP_INTERVAL_MAX);
        if let Err(error) = marked.and(followed) {
            tracing::warn!(%error, "the archiver could not follow its tables");
        }
    }
}

/// Deletes samples that are older than the policies of their PVs keep.
pub(crate) async fn retain(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            deleted = shared.delete_old() => {
                if let Err(error) = deleted {
                    tracing::warn!(%error, "the archiver could not delete old samples");
                }
            }
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(RETENTION_INTERVAL) => {}
        }
    }
}

impl Shared {
    /// Marks in `epics.runs` until when all that arrived is committed; nothing before the first commit.
    pub(crate) async fn mark(&self, ended: Option<Nanos>) -> Result<()> {
        let until = self.written.until.load(Ordering::Acquire);
        if until == 0 {
            return Ok(());
        }
        let values = [
            Value::Timestamptz(self.started),
            Value::Timestamptz(ended.unwrap_or(until)),
            ended.map_or(Value::Null, Value::Timestamptz),
        ];
        let text = "INSERT INTO epics.runs (started, seen, ended) VALUES ($1, $2, $3) \
                    ON CONFLICT (started) DO UPDATE SET seen = $2, ended = $3";
        SqlClient::new(&self.database).run(text, &values).await
    }

    async fn delete_old(&self) -> Result<()> {
        let kept: Vec<(Arc<str>, f64)> = {
            let registry = self.registry.lock().await;
            let policies = self.policies.lock().await;
            let days = |pv: &Pv| policies.named(pv.definition.policy.as_deref()?)?.keep_days;
            registry.all().filter_map(|pv| Some((Arc::clone(&pv.definition.name), days(pv)?))).collect()
        };
        let mut sql = SqlClient::new(&self.database);
        for (name, days) in kept {
            let kept = (days * DAY) as Nanos;
            // Whole windows, so that no summary is of half of them.
            let before = Value::Timestamptz(window_of(self.now().saturating_sub(kept)));
            let values = [Value::Text(name.to_string()), before];
            sql.run("DELETE FROM epics.samples WHERE pv = $1 AND time < $2", &values).await?;
            sql.run("DELETE FROM epics.summaries WHERE pv = $1 AND time < $2", &values).await?;
        }
        Ok(())
    }
}
