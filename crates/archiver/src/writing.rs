//! Sampling and writing: events become rows, and rows become commits.
//!
//! Rows of events and of commands are collected in one place, in the order in which they happen. A slow or full disk stops
//! writing, then sampling; then the clients make the IOCs withhold updates, and each loss becomes a gap.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use epics::client::{Batch, Events};
use epics::sample::Nanos;
use futures::FutureExt;
use model::{ErrorKind, SqlState};
use query::client::SqlClient;
use tokio::sync::{mpsc, oneshot, watch};

use crate::registry::Protocol;
use crate::shared::{Batches, Committed, Shared};
use crate::summaries;

/// Time between commits while samples arrive.
const COMMIT_INTERVAL: Duration = Duration::from_millis(100);
/// A commit has at most about so many bytes.
const COMMIT_BYTES: usize = 16 << 20;
/// Rows that are committed at once, at most.
const COMMIT_ROWS: usize = 1 << 17;
/// Time between attempts to write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Attempts to write after the archiver was told to stop.
const LAST_ATTEMPTS: u32 = 3;

/// Rows on their way to a commit.
pub(crate) struct Outgoing {
    batches: Batches,
    /// Requests that wait for the commit.
    waiters: Vec<oneshot::Sender<()>>,
    /// All that arrived before this time is in these rows, or in those before.
    until: Nanos,
}

impl Shared {
    /// Returns when all rows that are collected are committed.
    pub(crate) async fn flushed(&self) {
        let (sender, done) = oneshot::channel();
        self.pending.lock().await.waiters.push(sender);
        // The archiver has stopped if there is no answer.
        let _ = done.await;
    }
}

/// Turns events into rows, and sends these to be written.
pub(crate) async fn sample(
    shared: Arc<Shared>,
    [mut first, mut second]: [(Protocol, Events); 2],
    queue: mpsc::Sender<Outgoing>,
    mut stop: watch::Receiver<bool>,
) {
    let mut tick = tokio::time::interval(COMMIT_INTERVAL);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_full = false;
    // Time of arrival of what was taken last.
    let mut arrived = 0;
    loop {
        tokio::select! {
            _ = stop.changed() => break,
            batch = first.1.next_batch(), if !is_full => match batch {
                Some(batch) => is_full = take(&shared, first.0, batch, &mut arrived).await,
                None => return shared.failed("the client of Channel Access has ended"),
            },
            batch = second.1.next_batch(), if !is_full => match batch {
                Some(batch) => is_full = take(&shared, second.0, batch, &mut arrived).await,
                None => return shared.failed("the client of PV Access has ended"),
            },
            _ = tick.tick(), if !is_full => {
                let now = shared.now();
                let mut registry = shared.registry.lock().await;
                let mut rows = shared.pending.lock().await;
                registry.all_mut().filter(|pv| pv.slot.is_some()).for_each(|pv| pv.scan(now, &mut rows));
                drop((registry, rows));
                if let Ok(permit) = queue.try_reserve() {
                    permit.send(outgoing(&shared, now).await);
                }
            }
            // Updates wait in the clients until there is room.
            permit = queue.reserve(), if is_full => match permit {
                Ok(permit) => {
                    permit.send(outgoing(&shared, arrived).await);
                    is_full = false;
                }
                Err(_) => return shared.failed("the writer of samples has ended"),
            },
        }
    }
    for (protocol, events) in [&mut first, &mut second] {
        while let Some(Some(batch)) = events.next_batch().now_or_never() {
            if take(&shared, *protocol, batch, &mut arrived).await
                && let Ok(permit) = queue.reserve().await
            {
                permit.send(outgoing(&shared, arrived).await);
            }
        }
    }
    {
        let mut registry = shared.registry.lock().await;
        let mut rows = shared.pending.lock().await;
        registry.all_mut().for_each(|pv| pv.end(&mut rows));
    }
    if let Ok(permit) = queue.reserve().await {
        permit.send(outgoing(&shared, shared.now()).await);
    }
}

/// Turns a batch of events into rows; true if there are enough for a commit.
async fn take(shared: &Shared, protocol: Protocol, batch: Batch, arrived: &mut Nanos) -> bool {
    let mut registry = shared.registry.lock().await;
    let mut rows = shared.pending.lock().await;
    for update in batch.into_updates() {
        *arrived = update.received;
        // Events of a PV that was removed or paused meanwhile are nobody's.
        let Some(pv) = registry.of_channel((protocol, update.channel)) else { continue };
        let before = pv.switches();
        pv.take(update.event, update.received, &mut rows);
        if pv.is_switch && pv.switches() != before {
            let name = Arc::clone(&pv.definition.name);
            registry.for_switched_by(&name, |pv, by| pv.switch(by, update.received, &mut rows));
        }
    }
    rows.bytes() >= COMMIT_BYTES || rows.rows() >= COMMIT_ROWS
}

/// The rows that are collected; none is sent too, and marks the time.
async fn outgoing(shared: &Shared, until: Nanos) -> Outgoing {
    let mut rows = shared.pending.lock().await;
    let waiters = std::mem::take(&mut rows.waiters);
    let batches = rows.finish().unwrap_or_else(|error| {
        tracing::error!(%error, "rows of the archiver are lost");
        Vec::new()
    });
    Outgoing { batches, waiters, until }
}

/// Commits rows until there are no more.
pub(crate) async fn write(shared: Arc<Shared>, mut queue: mpsc::Receiver<Outgoing>, stop: watch::Receiver<bool>) {
    let mut sql = SqlClient::new(&shared.database);
    while let Some(Outgoing { batches, waiters, until }) = queue.recv().await {
        if !batches.is_empty() {
            commit(&shared, &mut sql, batches, &stop).await;
        }
        if !shared.written.lost.load(Ordering::Acquire) {
            shared.written.until.store(until, Ordering::Release);
        }
        // A request that went away does not wait any more.
        for waiter in waiters {
            let _ = waiter.send(());
        }
    }
}

/// Commits batches. What cannot be written now is tried again, for a limited time once the archiver stops; what can never be
/// written is left out, row by row, and logged.
async fn commit(shared: &Shared, sql: &mut SqlClient, batches: Batches, stop: &watch::Receiver<bool>) {
    let mut parts = vec![batches];
    let mut last_attempts = LAST_ATTEMPTS;
    while let Some(part) = parts.pop() {
        // Counted before: a reader that sees the rows of a commit knows its number.
        let number = shared.commits.fetch_add(1, Ordering::AcqRel) + 1;
        let written = summaries::commit(sql, &shared.watermarks, &part, async |_| Ok(()));
        let error = match query::computing(Box::pin(written)).await {
            Ok(()) => {
                if shared.committed.receiver_count() > 0 {
                    // Without a receiver meanwhile, nobody misses it.
                    let _ = shared.committed.send(Arc::new(Committed { number, batches: part }));
                }
                shared.works();
                continue;
            }
            Err(error) => error,
        };
        // A part may be too large for the memory of a transaction, or have one row that cannot be.
        let may_help = error.kind() == ErrorKind::Invalid || error.state() == SqlState::OUT_OF_MEMORY;
        match halves(&part).filter(|_| may_help) {
            Some([first, second]) => parts.extend([second, first]),
            None if error.kind() == ErrorKind::Invalid => {
                tracing::error!(%error, table = part[0].0, row = ?part[0].1, "a row was refused and is lost");
            }
            None => {
                shared.failed(&error.to_string());
                if *stop.borrow() {
                    last_attempts -= 1;
                }
                if last_attempts == 0 {
                    let rows: usize = part.iter().map(|(_, batch)| batch.num_rows()).sum();
                    tracing::error!(%error, rows, "the archiver stops and could not write its last rows: they are lost");
                    shared.written.lost.store(true, Ordering::Release);
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
