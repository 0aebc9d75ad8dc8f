//! The archiver at work: it follows the definitions, takes the events of the PVs, and commits their rows.
//!
//! Tasks: *sampling* turns events into rows, *writing* commits them, *summarising* sums them up, *keeping* follows `epics.pvs`, deletes what policies do
//! not keep, and notes that the archiver runs. A slow or full disk stops writing, then sampling; then the client makes the
//! IOCs withhold updates, and each loss becomes a gap.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use epics::client::{Batch, ChannelId, Events, SettingError};
use epics::sample::Nanos;
use epics::{ca, pva};
use model::{Error, ErrorKind, Result, SqlState};
use query::{Database, Value};
use tokio::sync::{Mutex, broadcast, mpsc, watch};
use tokio::task::JoinHandle;

use crate::history;
use crate::registry::{Definition, Method, Protocol, Pv, Registry};
use crate::sampling::{hash_of, reason};
use crate::sql::{Sql, there};
use crate::summaries::{self, Watermarks};
use crate::tables::{DEFINITIONS, Gap, Pending};

/// Time between commits while samples arrive.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// A commit has at most about so many bytes.
const COMMIT_BYTES: usize = 16 << 20;
/// Rows that are committed at once, at most.
const COMMIT_ROWS: usize = 1 << 17;
/// Time between looks at `epics.pvs`, and between marks of `epics.runs`.
const KEEP_INTERVAL: Duration = Duration::from_secs(2);
/// Looking at `epics.pvs` takes at most this share of the time.
const KEEP_SHARE: u32 = 20;
/// Time between deletions of samples that policies do not keep.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3_600);
/// Time between looks for samples that are not summarised.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(20);
/// Time between attempts to write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to write after the archiver was told to stop.
const LAST_ATTEMPTS: u32 = 3;
/// Commits that a client which follows may be behind.
const FOLLOWED_COMMITS: usize = 64;
const DAY: f64 = 86_400.0 * 1e9;

/// State that all tasks and requests share.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) registry: Mutex<Registry>,
    clients: Clients,
    /// Rows of gaps that commands make, on their way to the next commit.
    pending: Mutex<Pending>,
    pub(crate) watermarks: Watermarks,
    /// One look at the definitions at a time.
    following: Mutex<()>,
    pub(crate) started: Nanos,
    /// Commits of samples that have begun.
    pub(crate) commits: AtomicU64,
    /// Rows that were committed, for clients that follow them.
    pub(crate) committed: broadcast::Sender<Arc<Committed>>,
    /// Error of the last attempt to write, while none succeeds.
    pub(crate) failing: std::sync::Mutex<Option<String>>,
}

/// A running archiver.
pub struct Archiver {
    pub(crate) shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    sampling: JoinHandle<()>,
    writing: JoinHandle<()>,
    keeping: JoinHandle<()>,
    summarising: JoinHandle<()>,
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
        let mut sql = Sql::new(database);
        for statement in DEFINITIONS {
            sql.run(statement, &[]).await.map_err(|error| error.context("archiver"))?;
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
        let shared = Arc::new(Shared {
            database: database.clone(),
            registry: Mutex::default(),
            clients: Clients { ca, pva },
            pending: Mutex::default(),
            watermarks: Watermarks::load(&mut sql, started).await?,
            following: Mutex::default(),
            started,
            commits: AtomicU64::new(0),
            committed: broadcast::Sender::new(FOLLOWED_COMMITS),
            failing: std::sync::Mutex::new(None),
        });
        shared.resume(&mut sql).await?;
        let (stop, stopped) = watch::channel(false);
        let (batches, queue) = mpsc::channel(1);
        let sampling = tokio::spawn(sample(Arc::clone(&shared), events, batches, stopped.clone()));
        let writing = tokio::spawn(write(Arc::clone(&shared), queue, stopped.clone()));
        let summarising = tokio::spawn(summarise(Arc::clone(&shared), stopped.clone()));
        let keeping = tokio::spawn(keep(Arc::clone(&shared), stopped));
        tracing::info!(pvs = shared.registry.lock().await.len(), "archiving");
        Ok(Archiver { shared, stop, sampling, writing, keeping, summarising })
    }

    /// Stops sampling, and returns when all that arrived is committed.
    pub async fn stop(self) {
        let Archiver { shared, stop, sampling, writing, keeping, summarising } = self;
        let _ = stop.send(true);
        for task in [sampling, writing, keeping, summarising] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the archiver failed");
            }
        }
        let now = shared.now();
        let values = [Value::Timestamptz(shared.started), Value::Timestamptz(now)];
        let ended = "UPDATE epics.runs SET seen = $2, ended = $2 WHERE started = $1";
        if let Err(error) = Sql::new(&shared.database).run(ended, &values).await {
            tracing::warn!(%error, "the archiver could not note its end");
        }
    }
}

fn invalid(error: SettingError) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string())
}

fn not_started(error: impl std::fmt::Display) -> Error {
    Error::new(SqlState::IO_ERROR, error.to_string())
}

/// The clients of all protocols.
struct Clients {
    ca: ca::Client,
    pva: pva::Client,
}

impl Clients {
    /// Subscribes to a PV. The outer error is that of a client which has ended, the inner one that of a name which cannot be.
    async fn subscribe(&self, protocol: Protocol, name: &str) -> Result<std::result::Result<ChannelId, String>> {
        match protocol {
            Protocol::Ca => match self.ca.subscribe(name, ca::Options::default()).await {
                Err(error @ ca::Error::Name { .. }) => Ok(Err(error.to_string())),
                other => other.map(Ok).map_err(not_started),
            },
            Protocol::Pva => match self.pva.subscribe(name, pva::Options::default()).await {
                Err(error @ pva::Error::Name { .. }) => Ok(Err(error.to_string())),
                other => other.map(Ok).map_err(not_started),
            },
        }
    }

    async fn unsubscribe(&self, (protocol, channel): (Protocol, ChannelId)) -> Result<()> {
        match protocol {
            Protocol::Ca => self.ca.unsubscribe(channel).await.map_err(not_started),
            Protocol::Pva => self.pva.unsubscribe(channel).await.map_err(not_started),
        }
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Nanos {
        self.database.engine().env().now_ns()
    }

    /// Reads what an earlier run left: newest samples, open gaps, metadata. PVs without an open gap get one for the time in
    /// which no archiver ran.
    async fn resume(&self, sql: &mut Sql) -> Result<()> {
        let stopped = last_seen(sql).await?;
        let started = Value::Timestamptz(self.started);
        let run = "INSERT INTO epics.runs (started, seen) VALUES ($1, $1) ON CONFLICT (started) DO NOTHING";
        sql.run(run, &[started]).await?;
        let definitions = definitions(sql, None).await?;
        let mut registry = self.registry.lock().await;
        for definition in definitions {
            registry.add(Pv::new(definition));
        }
        for (name, gap) in open_gaps(sql).await? {
            if let Some(pv) = registry.get_mut(&name) {
                pv.gap = Some(gap);
            }
        }
        for (name, version) in history::newest_versions(sql).await? {
            if let Some(pv) = registry.get_mut(&name) {
                pv.version = Some(version);
            }
        }
        for (name, sample) in history::newest_samples(sql).await? {
            if let Some(pv) = registry.get_mut(&name) {
                pv.newest = Some((sample.time, hash_of(&sample)));
            }
        }
        let mut pending = self.pending.lock().await;
        for pv in registry.all_mut() {
            let is_paused = pv.definition.paused;
            if pv.gap.is_none() && !is_paused {
                // Samples may be newer than the last mark of the run.
                let newest = pv.newest.map_or(Nanos::MIN, |(time, _)| time.min(self.started));
                let start = stopped.unwrap_or(self.started).max(pv.definition.created).max(newest);
                pv.open_gap(reason::STOPPED, None, start, &mut pending);
            }
        }
        drop((registry, pending));
        self.follow_aliases(sql).await?;
        let names: Vec<Arc<str>> = {
            let registry = self.registry.lock().await;
            registry.all().filter(|pv| !pv.definition.paused).map(|pv| Arc::clone(&pv.definition.name)).collect()
        };
        for name in names {
            self.subscribe(&name).await?;
        }
        Ok(())
    }

    /// Subscribes to a PV.
    async fn subscribe(&self, name: &str) -> Result<()> {
        // The registry stays locked, so that no event of the channel comes before its number is known.
        let mut registry = self.registry.lock().await;
        let Some(pv) = registry.get_mut(name) else { return Ok(()) };
        let protocol = pv.definition.protocol;
        match self.clients.subscribe(protocol, name).await? {
            Ok(channel) => {
                pv.subscribed = self.now();
                registry.open(name, (protocol, channel));
            }
            Err(problem) => pv.refused = Some(problem),
        }
        Ok(())
    }

    /// Makes the registry agree with `epics.pvs`: with all rows, or those of some names.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn follow(&self, names: Option<&[String]>) -> Result<()> {
        let _one = self.following.lock().await;
        let mut sql = Sql::new(&self.database);
        self.follow_aliases(&mut sql).await?;
        if names.is_some_and(<[String]>::is_empty) {
            return Ok(());
        }
        let definitions = definitions(&mut sql, names).await?;
        let wanted: BTreeSet<Arc<str>> = definitions.iter().map(|definition| Arc::clone(&definition.name)).collect();
        let gone: Vec<Arc<str>> = {
            let registry = self.registry.lock().await;
            match names {
                None => registry.names().into_iter().filter(|name| !wanted.contains(name)).collect(),
                Some(names) => {
                    let known = names.iter().filter_map(|name| registry.get(name));
                    let known = known.map(|pv| Arc::clone(&pv.definition.name));
                    known.filter(|name| !wanted.contains(name)).collect()
                }
            }
        };
        for name in gone {
            self.remove(&name).await?;
        }
        for definition in definitions {
            self.apply(definition).await?;
        }
        Ok(())
    }

    async fn follow_aliases(&self, sql: &mut Sql) -> Result<()> {
        let mut aliases = Vec::new();
        for rows in sql.rows("SELECT alias, pv FROM epics.aliases", &[]).await? {
            let (mut alias, mut pv) = (rows.texts(0)?, rows.texts(1)?);
            for row in 0..rows.len() {
                aliases.push((there(alias.take(row))?, Arc::from(there(pv.take(row))?)));
            }
        }
        self.registry.lock().await.aliases = aliases.into_iter().collect();
        Ok(())
    }

    /// Adds a PV, or changes it to a new definition.
    async fn apply(&self, definition: Definition) -> Result<()> {
        let name = Arc::clone(&definition.name);
        let now = self.now();
        let (close, open);
        {
            let mut registry = self.registry.lock().await;
            let mut pending = self.pending.lock().await;
            match registry.get_mut(&name) {
                Some(pv) if pv.definition == definition => return Ok(()),
                Some(pv) => {
                    let was_paused = pv.definition.paused;
                    let moved = pv.definition.protocol != definition.protocol;
                    close = !was_paused && (definition.paused || moved);
                    open = !definition.paused && (was_paused || moved);
                    pv.flush_slot(&mut pending);
                    pv.definition = definition;
                    pv.due = 0;
                    if close {
                        let why = if open { reason::CONNECTING } else { reason::PAUSED };
                        pv.connection = None;
                        pv.open_gap(why, None, now, &mut pending);
                    }
                }
                None => {
                    (close, open) = (false, !definition.paused);
                    let mut pv = Pv::new(definition);
                    let why = if open { reason::CONNECTING } else { reason::PAUSED };
                    let created = pv.definition.created;
                    pv.open_gap(why, None, created.min(now), &mut pending);
                    registry.add(pv);
                }
            }
        }
        if close {
            let channel = self.registry.lock().await.close(&name);
            if let Some(channel) = channel {
                self.clients.unsubscribe(channel).await?;
            }
        }
        if open { self.subscribe(&name).await } else { Ok(()) }
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let now = self.now();
        let removed = {
            let mut registry = self.registry.lock().await;
            let mut pending = self.pending.lock().await;
            let mut removed = registry.remove(name);
            if let Some(pv) = &mut removed {
                pv.flush_slot(&mut pending);
                pv.close_gap(now, &mut pending);
            }
            removed
        };
        match removed.and_then(|pv| pv.channel) {
            Some(channel) => self.clients.unsubscribe(channel).await,
            None => Ok(()),
        }
    }
}

/// The end of the last run: when it was last seen.
async fn last_seen(sql: &mut Sql) -> Result<Option<Nanos>> {
    for rows in sql.rows("SELECT max(seen) FROM epics.runs", &[]).await? {
        if rows.len() > 0 {
            return Ok(rows.times(0)?.take(0));
        }
    }
    Ok(None)
}

/// Definitions of all PVs, or of those of some names. A row that cannot be used is logged.
async fn definitions(sql: &mut Sql, names: Option<&[String]>) -> Result<Vec<Definition>> {
    let columns = "SELECT name, method, period, policy, paused, protocol, created, modified FROM epics.pvs";
    let found = match names {
        None => sql.rows(columns, &[]).await?,
        Some(names) => {
            let names = Value::Array(names.iter().cloned().map(Value::Text).collect());
            sql.rows(&format!("{columns} WHERE name = ANY($1)"), &[names]).await?
        }
    };
    let mut all = Vec::new();
    for rows in found {
        let (mut name, mut method, mut period) = (rows.texts(0)?, rows.texts(1)?, rows.numbers(2)?);
        let (mut policy, mut paused, mut protocol) = (rows.texts(3)?, rows.flags(4)?, rows.texts(5)?);
        let (mut created, mut modified) = (rows.times(6)?, rows.times(7)?);
        for row in 0..rows.len() {
            let method = there(method.take(row))?;
            all.push(Definition {
                name: there(name.take(row))?.into(),
                // The table's CHECK admits no other.
                method: Method::of(&method).ok_or_else(|| Error::bug(format!("method \"{method}\" of a PV")))?,
                period: there(period.take(row))?,
                policy: policy.take(row),
                paused: there(paused.take(row))?,
                protocol: Protocol::of(&there(protocol.take(row))?).unwrap_or(Protocol::Ca),
                created: there(created.take(row))?,
                modified: there(modified.take(row))?,
            });
        }
    }
    Ok(all)
}

/// Gaps that lasted when the archiver stopped, each with its PV.
async fn open_gaps(sql: &mut Sql) -> Result<Vec<(String, Gap)>> {
    let mut gaps = Vec::new();
    let text = "SELECT pv, reason, time, samples, detail FROM epics.gaps WHERE ended IS NULL ORDER BY time";
    for rows in sql.rows(text, &[]).await? {
        let (mut pv, mut why, mut time) = (rows.texts(0)?, rows.texts(1)?, rows.times(2)?);
        let (mut samples, mut detail) = (rows.integers(3)?, rows.texts(4)?);
        for row in 0..rows.len() {
            let why = there(why.take(row))?;
            // Others may write this table; a reason that is not ours is not ours to end.
            let Some(reason) = reason::ALL.into_iter().find(|own| *own == why) else { continue };
            let start = there(time.take(row))?;
            let gap = Gap { start, reason, ended: None, samples: samples.take(row), detail: detail.take(row) };
            gaps.push((there(pv.take(row))?, gap));
        }
    }
    Ok(gaps)
}

type Batches = Vec<(&'static str, RecordBatch)>;

/// Rows that were committed, with the number of their commit.
pub(crate) struct Committed {
    pub(crate) number: u64,
    pub(crate) batches: Batches,
}

/// Turns events into rows, and sends these to be written.
async fn sample(
    shared: Arc<Shared>,
    [mut first, mut second]: [(Protocol, Events); 2],
    batches: mpsc::Sender<Batches>,
    mut stop: watch::Receiver<bool>,
) {
    let mut tick = tokio::time::interval(COMMIT_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut rows = Pending::default();
    loop {
        let is_full = rows.samples.bytes() >= COMMIT_BYTES || rows.samples.rows() >= COMMIT_ROWS;
        tokio::select! {
            _ = stop.changed() => break,
            batch = first.1.next_batch(), if !is_full => {
                let Some(batch) = batch else { break };
                take(&shared, first.0, batch, &mut rows).await;
            }
            batch = second.1.next_batch(), if !is_full => {
                let Some(batch) = batch else { break };
                take(&shared, second.0, batch, &mut rows).await;
            }
            _ = tick.tick(), if !is_full => {
                let now = shared.now();
                let mut registry = shared.registry.lock().await;
                registry.all_mut().filter(|pv| pv.slot.is_some()).for_each(|pv| pv.scan(now, &mut rows));
                drop(registry);
                send(&shared, &mut rows, &batches, false).await;
            }
            () = async {}, if is_full => send(&shared, &mut rows, &batches, true).await,
        }
    }
    let mut registry = shared.registry.lock().await;
    registry.all_mut().for_each(|pv| pv.flush_slot(&mut rows));
    drop(registry);
    send(&shared, &mut rows, &batches, true).await;
}

/// Turns a batch of events into rows.
async fn take(shared: &Shared, protocol: Protocol, batch: Batch, rows: &mut Pending) {
    let mut registry = shared.registry.lock().await;
    for update in batch.into_updates() {
        // Events of a PV that was removed or paused meanwhile are nobody's.
        if let Some(pv) = registry.of_channel((protocol, update.channel)) {
            pv.take(update.event, update.received, rows);
        }
    }
}

/// Sends rows to be written, if the writer is free or this has to wait for it.
async fn send(shared: &Shared, rows: &mut Pending, batches: &mpsc::Sender<Batches>, wait: bool) {
    let permit = if wait { batches.reserve().await.ok() } else { batches.try_reserve().ok() };
    let Some(permit) = permit else { return };
    // Gaps that commands made come first: they are older.
    let mut all = Vec::new();
    for rows in [&mut *shared.pending.lock().await, rows] {
        if rows.is_empty() {
            continue;
        }
        match rows.finish() {
            Ok(batches) => all.extend(batches),
            Err(error) => tracing::error!(%error, "rows of the archiver are lost"),
        }
    }
    if !all.is_empty() {
        permit.send(all);
    }
}

/// Commits batches until there are no more.
async fn write(shared: Arc<Shared>, mut queue: mpsc::Receiver<Batches>, stop: watch::Receiver<bool>) {
    let mut sql = Sql::new(&shared.database);
    while let Some(batches) = queue.recv().await {
        commit(&shared, &mut sql, batches, &stop).await;
    }
}

/// Commits batches. What cannot be written now is tried again, for a limited time once the archiver stops; what can never be
/// written is left out, row by row, and logged.
async fn commit(shared: &Shared, sql: &mut Sql, batches: Batches, stop: &watch::Receiver<bool>) {
    let mut parts = vec![batches];
    let mut last_attempts = LAST_ATTEMPTS;
    while let Some(part) = parts.pop() {
        // Counted before: a reader that sees the rows of a commit knows its number.
        let number = shared.commits.fetch_add(1, Ordering::AcqRel) + 1;
        let written = summaries::commit(sql, &shared.watermarks, &part, async |_| Ok(()));
        match query::computing(Box::pin(written)).await {
            Ok(()) => {
                if shared.committed.receiver_count() > 0 {
                    // Without a receiver meanwhile, nobody misses it.
                    let _ = shared.committed.send(Arc::new(Committed { number, batches: part }));
                }
                if let Ok(mut failing) = shared.failing.lock() {
                    *failing = None;
                }
            }
            Err(error) if error.kind() == ErrorKind::Invalid => match halves(&part) {
                Some([first, second]) => parts.extend([second, first]),
                None => tracing::error!(%error, table = part[0].0, row = ?part[0].1, "a row was refused and is lost"),
            },
            Err(error) => {
                if let Ok(mut failing) = shared.failing.lock()
                    && failing.replace(error.to_string()).is_none()
                {
                    tracing::error!(%error, "the archiver cannot write, and tries again");
                }
                if *stop.borrow() {
                    last_attempts -= 1;
                }
                if last_attempts == 0 {
                    let rows: usize = part.iter().map(|(_, batch)| batch.num_rows()).sum();
                    tracing::error!(%error, rows, "the archiver stops and could not write its last rows: they are lost");
                    return;
                }
                parts.push(part);
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }
}

/// Two halves of batches; `None` if there is one row.
fn halves(batches: &Batches) -> Option<[Batches; 2]> {
    if let [(table, batch)] = batches.as_slice() {
        let (rows, half) = (batch.num_rows(), batch.num_rows() / 2);
        return (half > 0)
            .then(|| [vec![(*table, batch.slice(0, half))], vec![(*table, batch.slice(half, rows - half))]]);
    }
    let (first, second) = batches.split_at(batches.len() / 2);
    Some([first.to_vec(), second.to_vec()])
}

/// Summarises samples.
async fn summarise(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
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

/// Follows the definitions, deletes what policies do not keep, and notes that the archiver runs.
async fn keep(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut sql = Sql::new(&shared.database);
    let mut pause = KEEP_INTERVAL;
    let mut retention = tokio::time::Instant::now();
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let began = tokio::time::Instant::now();
        if let Err(error) = shared.keep_once(&mut sql, &mut retention).await {
            tracing::warn!(%error, "the archiver could not follow its tables");
        }
        pause = KEEP_INTERVAL.max(began.elapsed() * KEEP_SHARE);
    }
}

impl Shared {
    async fn keep_once(&self, sql: &mut Sql, retention: &mut tokio::time::Instant) -> Result<()> {
        let values = [Value::Timestamptz(self.started), Value::Timestamptz(self.now())];
        sql.run("UPDATE epics.runs SET seen = $2 WHERE started = $1", &values).await?;
        self.follow(None).await?;
        if tokio::time::Instant::now() >= *retention {
            *retention = tokio::time::Instant::now() + RETENTION_INTERVAL;
            self.delete_old(sql).await?;
        }
        Ok(())
    }

    /// Deletes samples that are older than the policy of their PV keeps.
    async fn delete_old(&self, sql: &mut Sql) -> Result<()> {
        let text = "SELECT p.keep_days, v.name FROM epics.pvs v JOIN epics.policies p ON p.name = coalesce(v.policy, 'default') \
                    WHERE p.keep_days IS NOT NULL";
        for rows in sql.rows(text, &[]).await? {
            let (mut days, mut name) = (rows.numbers(0)?, rows.texts(1)?);
            for row in 0..rows.len() {
                let kept = (there(days.take(row))? * DAY) as Nanos;
                let before = Value::Timestamptz(self.now().saturating_sub(kept));
                let pv = Value::Text(there(name.take(row))?);
                let values = [pv, before];
                sql.run("DELETE FROM epics.samples WHERE pv = $1 AND time < $2", &values).await?;
                sql.run("DELETE FROM epics.summaries WHERE pv = $1 AND time < $2", &values).await?;
            }
        }
        Ok(())
    }
}
