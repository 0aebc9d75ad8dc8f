//! Fills gaps from the pair: another archiver that samples the same PVs.
//!
//! A gap that has ended is asked about once. The samples that the pair has of it, and this archiver has not, become samples here;
//! the gap is marked as filled, and what the pair has as gaps in that time takes its place. What nobody has is a gap with its reason
//! in both archives, and all else is in both: either can be lost.
//!
//! Always true: a gap is marked in the transaction of its last samples. A gap that the pair could not be asked about stays as it is.

use std::sync::Arc;
use std::time::Duration;

use epics::event::Event;
use epics::processors::Span;
use epics::sample::Nanos;
use model::{Result, limits};
use query::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::peers::Peer;
use crate::sampling::reason;
use crate::shared::Shared;
use crate::sql::{Sql, there};
use crate::summaries;
use crate::tables::{Gap, Pending};
use crate::values;

/// Time between looks for gaps, and between visits of peers.
const INTERVAL: Duration = Duration::from_secs(5);
/// Looking takes at most this share of the time.
const SHARE: u32 = 10;
/// A gap must have ended so long ago: the pair commits what it had meanwhile.
const DELAY: Nanos = 5 * 1_000_000_000;
/// Gaps that are read at a time.
const GAPS: usize = 1_000;
/// A commit has at most about so many bytes.
const COMMIT_BYTES: usize = 8 << 20;
/// Events on their way from the pair.
const EVENTS: usize = 4_096;

/// A gap of a PV.
struct Open {
    pv: String,
    gap: Gap,
}

/// Visits peers and fills gaps until the archiver stops.
pub(crate) async fn fill(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut pause = Duration::ZERO;
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let began = Instant::now();
        let filled = tokio::select! {
            _ = stop.changed() => return,
            filled = query::computing(Box::pin(look(&shared))) => filled,
        };
        if let Err(error) = filled {
            tracing::warn!(%error, "gaps could not be filled");
        }
        pause = (began.elapsed() * SHARE).max(INTERVAL);
    }
}

/// Visits all peers, and fills the gaps that the pairs can be asked about.
async fn look(shared: &Arc<Shared>) -> Result<()> {
    let peers = shared.peers.all();
    futures::future::join_all(peers.iter().map(|peer| shared.peers.visit(peer))).await;
    let pairs: Vec<&Arc<Peer>> = peers.iter().filter(|peer| peer.pair).collect();
    if pairs.is_empty() {
        return Ok(());
    }
    let mut after = (Nanos::MIN, String::new());
    loop {
        let gaps = unfilled(shared, &after).await?;
        let Some(last) = gaps.last() else { return Ok(()) };
        after = (last.gap.start, last.pv.clone());
        for Open { pv, gap } in gaps {
            if pairs.iter().all(|peer| peer.problem().is_some()) {
                return Ok(());
            }
            fill_gap(shared, &pairs, &pv, gap).await?;
        }
    }
}

/// Gaps behind a start and PV that have ended, and that no pair was asked about; oldest first. Samples are not wanted in
/// some.
async fn unfilled(shared: &Shared, after: &(Nanos, String)) -> Result<Vec<Open>> {
    let mut sql = Sql::new(&shared.database);
    let text = format!(
        "SELECT pv, time, reason, ended, samples, detail FROM epics.gaps WHERE filled IS NULL AND ended < $1 AND time >= $2 \
         AND (time > $2 OR pv > $3) AND reason NOT IN ('{}', '{}') ORDER BY time, pv LIMIT {GAPS}",
        reason::MEANT[0],
        reason::MEANT[1]
    );
    let ended = Value::Timestamptz(shared.now().saturating_sub(DELAY));
    let values = [ended, Value::Timestamptz(after.0), Value::Text(after.1.clone())];
    let mut all = Vec::new();
    for rows in sql.rows(&text, &values).await? {
        let (mut pv, mut time, mut why, mut ended) = (rows.texts(0)?, rows.times(1)?, rows.texts(2)?, rows.times(3)?);
        let (mut samples, mut detail) = (rows.integers(4)?, rows.texts(5)?);
        for row in 0..rows.len() {
            let why = there(why.take(row))?;
            // Others may write this table; a reason that is not ours is not ours to fill.
            let Some(reason) = reason::ALL.into_iter().find(|own| *own == why) else { continue };
            let gap = Gap {
                start: there(time.take(row))?,
                reason,
                ended: ended.take(row),
                samples: samples.take(row),
                detail: detail.take(row),
                filled: None,
            };
            all.push(Open { pv: there(pv.take(row))?, gap });
        }
    }
    Ok(all)
}

/// Fills a gap from the first pair that has the PV, and what that one lacks from the next.
async fn fill_gap(shared: &Arc<Shared>, pairs: &[&Arc<Peer>], pv: &str, gap: Gap) -> Result<()> {
    let mut missing = vec![gap];
    for peer in pairs.iter().filter(|peer| peer.has(pv)) {
        if peer.problem().is_some() {
            return Ok(());
        }
        let mut still = Vec::new();
        for gap in missing {
            match fill_from(shared, peer, pv, gap).await {
                Ok(rest) => still.extend(rest),
                // It is logged, and the gap is asked about when the pair answers again.
                Err(error) if error.state() == model::SqlState::CONNECTION_FAILURE => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        missing = still;
    }
    Ok(())
}

/// Fills a gap from a pair, and returns the gaps that are left.
async fn fill_from(shared: &Arc<Shared>, peer: &Arc<Peer>, pv: &str, gap: Gap) -> Result<Vec<Gap>> {
    let Some(ended) = gap.ended else { return Ok(vec![gap]) };
    let margin = shared.registry.lock().await.get(pv).map_or(0, |pv| pv.definition.margin());
    let span = Span { from: gap.start.saturating_sub(margin), to: ended.saturating_add(margin) };
    let theirs = shared.peers.gaps(peer, pv, Span { from: gap.start, to: ended }).await?;
    let Some(events) = shared.peers.events(peer, pv, None, span).await? else { return Ok(vec![gap]) };
    let known = own_times(shared, pv, span).await?;
    // Reading blocks: events come from a thread of their own.
    let (sender, mut events_of_pair) = mpsc::channel::<Result<Event>>(EVENTS);
    let reading = tokio::task::spawn_blocking(move || {
        for event in events {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    let mut rows = Pending::default();
    let mut samples = 0;
    while let Some(event) = events_of_pair.recv().await {
        let event = event?;
        let time = event.time();
        if time <= span.from || time > span.to || known.binary_search(&time).is_ok() {
            continue;
        }
        let stored = values::store(&event.sample.value);
        if stored.varying_bytes() > limits::VALUE_BYTES_MAX {
            continue;
        }
        samples += 1;
        rows.samples.push(pv, &event.sample, &stored, None);
        if rows.bytes() >= COMMIT_BYTES {
            commit(shared, &mut rows).await?;
        }
    }
    reading.await.map_err(model::Error::bug)?;
    let rest = match theirs {
        Some(theirs) => parts(&gap, &theirs, &peer.url),
        // An Appliance does not tell: where it has samples, it was connected.
        None if samples > 0 => Vec::new(),
        None => return keep(shared, rows, pv, gap).await,
    };
    rows.gaps.push(pv, &Gap { filled: Some(true), ..gap });
    for part in &rest {
        rows.gaps.push(pv, part);
    }
    commit(shared, &mut rows).await?;
    tracing::debug!(pv, samples, peer = peer.url, "filled a gap");
    Ok(rest)
}

/// Marks a gap of which the pair has nothing.
async fn keep(shared: &Shared, mut rows: Pending, pv: &str, gap: Gap) -> Result<Vec<Gap>> {
    let gap = Gap { filled: Some(false), ..gap };
    rows.gaps.push(pv, &gap);
    commit(shared, &mut rows).await?;
    Ok(vec![gap])
}

async fn commit(shared: &Shared, rows: &mut Pending) -> Result<()> {
    let batches = rows.finish()?;
    summaries::commit(&mut Sql::new(&shared.database), &shared.watermarks, &batches, async |_| Ok(())).await
}

/// Times of the samples of a PV in a span, sorted.
async fn own_times(shared: &Shared, pv: &str, span: Span) -> Result<Vec<Nanos>> {
    let mut sql = Sql::new(&shared.database);
    let values = [Value::Text(pv.to_owned()), Value::Timestamptz(span.from), Value::Timestamptz(span.to)];
    let text = "SELECT time FROM epics.samples WHERE pv = $1 AND time > $2 AND time <= $3 ORDER BY time";
    let mut all = Vec::new();
    for rows in sql.rows(text, &values).await? {
        let mut times = rows.times(0)?;
        for row in 0..rows.len() {
            all.push(there(times.take(row))?);
        }
    }
    Ok(all)
}

/// The parts of a gap in which the pair had gaps too.
fn parts(gap: &Gap, theirs: &[Gap], url: &str) -> Vec<Gap> {
    let Some(ended) = gap.ended else { return Vec::new() };
    let part = |their: &Gap| {
        // The gap has the first nanosecond for itself: its mark as filled.
        let start = their.start.max(gap.start + 1);
        let end = their.ended.unwrap_or(ended).min(ended);
        (start < end).then(|| Gap {
            start,
            reason: their.reason,
            ended: Some(end),
            samples: None,
            detail: Some(format!(
                "here: {}; at {url}: {}",
                gap.reason,
                their.detail.as_deref().unwrap_or(their.reason)
            )),
            filled: Some(false),
        })
    };
    theirs.iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(start: Nanos, ended: Option<Nanos>, reason: &'static str) -> Gap {
        Gap { start, reason, ended, samples: None, detail: None, filled: None }
    }

    #[test]
    fn what_both_lack_stays_a_gap() {
        let own = gap(100, Some(200), reason::STOPPED);
        for (theirs, expected) in [
            (vec![], vec![]),
            (vec![gap(50, Some(90), reason::DISCONNECTED)], vec![]),
            (vec![gap(200, Some(300), reason::DISCONNECTED)], vec![]),
            (vec![gap(50, Some(150), reason::DISCONNECTED)], vec![(101, 150)]),
            (vec![gap(120, Some(130), reason::STOPPED), gap(150, None, reason::STOPPED)], vec![(120, 130), (150, 200)]),
        ] {
            let parts = parts(&own, &theirs, "http://a");
            let found: Vec<_> = parts.iter().map(|part| (part.start, part.ended.unwrap())).collect();
            assert_eq!(found, expected, "{theirs:?}");
            assert!(parts.iter().all(|part| part.filled == Some(false)));
        }
    }
}
