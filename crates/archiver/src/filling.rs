//! Fills gaps from the pair: another archiver that samples the same PVs.
//!
//! The pair is asked about a gap that has ended. The samples that it has of it, and this archiver has not, become samples here;
//! the gap is marked as filled, and the times of which the pair knows nothing take its place. What nobody has is a gap with its
//! reason in both archives, and all else is in both: either can be lost.
//!
//! Always true: a gap is marked in the transaction of its last samples. A gap that the pair could not be asked about, or of which it
//! has not stored all yet, stays as it is.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use epics::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use epics::processors::Span;
use epics::sample::Nanos;
use futures::StreamExt;
use model::{Error, Result, limits};
use query::Value;
use query::client::{SqlClient, there};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::history;
use crate::peers::{Coverage, Peer, Peers, Versions};
use crate::sampling::reason;
use crate::shared::Shared;
use crate::summaries;
use crate::tables::{Gap, Pending};
use crate::values;

/// Time between looks for gaps, and between visits of peers.
const INTERVAL: Duration = Duration::from_secs(5);
/// A look that fills nothing takes at most this share of the time.
const SHARE: u32 = 10;
/// A gap must have ended so long ago.
const DELAY: Nanos = 5 * SECOND;
/// The pair must have stored what arrived until so long after a gap: its clock may be behind.
const BEHIND: Nanos = SECOND;
/// Gaps that are read at a time.
const GAPS: usize = 1_000;
/// Gaps that are filled at a time.
const AT_ONCE: usize = 8;
/// A commit has at most about so many bytes.
const COMMIT_BYTES: usize = 4 << 20;
/// Bytes of events that come from the pair at once, about, and their number.
const PIECE_BYTES: usize = 1 << 20;
const PIECE_EVENTS: usize = 1_024;
/// Answers of pairs that are kept in mind.
const ASKED_MAX: usize = 1 << 16;
const SECOND: Nanos = 1_000_000_000;

/// A gap of a PV.
struct Open {
    pv: String,
    gap: Gap,
}

/// Pairs that were asked about a gap, by PV, start and reason of the gap.
type Asked = HashMap<(String, Nanos, &'static str), HashSet<String>>;

/// Visits peers until the archiver stops.
pub(crate) async fn visit(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    loop {
        let peers = shared.peers.all();
        let visits = futures::future::join_all(peers.iter().map(|peer| shared.peers.look_after(peer)));
        tokio::select! {
            _ = stop.changed() => return,
            _ = visits => {}
        }
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Fills gaps until the archiver stops.
pub(crate) async fn fill(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let filler = Filler { shared, asked: Mutex::default() };
    loop {
        let began = Instant::now();
        let filled = tokio::select! {
            _ = stop.changed() => return,
            filled = query::computing(Box::pin(filler.look())) => filled,
        };
        let pause = match filled {
            Ok(0) => (began.elapsed() * SHARE).max(INTERVAL),
            Ok(_) => INTERVAL,
            Err(error) => {
                tracing::warn!(%error, "gaps could not be filled");
                (began.elapsed() * SHARE).max(INTERVAL)
            }
        };
        tokio::select! {
            _ = stop.changed() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Filler {
    shared: Arc<Shared>,
    asked: Mutex<Asked>,
}

impl Filler {
    /// Fills the gaps that the pairs can be asked about, and returns their number.
    async fn look(&self) -> Result<usize> {
        let peers = self.shared.peers.all();
        let pairs: Vec<Arc<Peer>> = peers.iter().filter(|peer| peer.pair).cloned().collect();
        let mut filled = 0;
        let mut after: Option<Open> = None;
        while pairs.iter().any(|pair| pair.problem().is_none()) {
            let (gaps, is_last) = unfilled(&self.shared, after.as_ref()).await?;
            after = gaps.last().map(|last| Open { pv: last.pv.clone(), gap: last.gap.clone() }).or(after);
            let gaps = gaps.into_iter().filter(|open| pairs.iter().any(|pair| pair.has(&open.pv)));
            let gaps: Vec<Open> = gaps.collect();
            let fills: Vec<_> = gaps.iter().map(|open| self.fill_gap(&pairs, open)).collect();
            let counts: Vec<usize> = futures::stream::iter(fills).buffer_unordered(AT_ONCE).collect().await;
            let count: usize = counts.into_iter().sum();
            self.shared.filled.fetch_add(count as u64, Ordering::Relaxed);
            filled += count;
            if is_last {
                break;
            }
        }
        Ok(filled)
    }

    /// Fills a gap, and returns the number of gaps that it filled.
    async fn fill_gap(&self, pairs: &[Arc<Peer>], open: &Open) -> usize {
        match self.try_gap(pairs, open).await {
            Ok(filled) => usize::from(filled),
            Err(error) => {
                tracing::warn!(%error, pv = open.pv, "a gap could not be filled");
                0
            }
        }
    }

    /// Fills a gap from the first pair that has not been asked about it and can be. What that one lacks is a gap for the next.
    async fn try_gap(&self, pairs: &[Arc<Peer>], open: &Open) -> Result<bool> {
        let key = (open.pv.clone(), open.gap.start, open.gap.reason);
        let mut asked = self.lock().get(&key).cloned().unwrap_or_default();
        let having: Vec<&Arc<Peer>> = pairs.iter().filter(|pair| pair.has(&open.pv)).collect();
        let next = having.iter().find(|pair| !asked.contains(&pair.url) && pair.problem().is_none());
        let Some(pair) = next else { return Ok(false) };
        asked.insert(pair.url.clone());
        let are_all_asked = having.iter().all(|pair| asked.contains(&pair.url));
        let rest = match fill_from(&self.shared, pair, &open.pv, &open.gap, are_all_asked).await {
            Ok(Some(rest)) => rest,
            // It has not stored all yet, or does not have the PV any more.
            Ok(None) => return Ok(false),
            Err(error) => {
                Peers::note(pair, &error);
                return Err(error);
            }
        };
        if !are_all_asked {
            let mut known = self.lock();
            if known.len() >= ASKED_MAX {
                known.clear();
            }
            known.extend(rest.iter().map(|part| ((open.pv.clone(), part.start, part.reason), asked.clone())));
        }
        Ok(true)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gaps behind another that have ended, and that not all pairs were asked about, by start, PV and reason; and whether there are no
/// more. Samples are not wanted in some.
async fn unfilled(shared: &Shared, after: Option<&Open>) -> Result<(Vec<Open>, bool)> {
    let mut sql = SqlClient::new(&shared.database);
    let wanted: Vec<String> = reason::ALL
        .iter()
        .filter(|reason| !reason::MEANT.contains(reason))
        .map(|reason| format!("'{reason}'"))
        .collect();
    let text = format!(
        "SELECT pv, time, reason, ended, samples, detail FROM epics.gaps WHERE filled IS NULL AND ended < $1 AND time >= $2 \
         AND (time > $2 OR pv > $3 OR (pv = $3 AND reason > $4)) AND reason IN ({}) ORDER BY time, pv, reason LIMIT {GAPS}",
        wanted.join(", ")
    );
    let (start, pv, why) =
        after.map_or((Nanos::MIN, "", ""), |open| (open.gap.start, open.pv.as_str(), open.gap.reason));
    let ended = Value::Timestamptz(shared.now().saturating_sub(DELAY));
    let values = [ended, Value::Timestamptz(start), Value::Text(pv.to_owned()), Value::Text(why.to_owned())];
    let mut all = Vec::new();
    for rows in sql.rows(&text, &values).await? {
        let (mut pv, mut time, mut why, mut ended) = (rows.texts(0)?, rows.times(1)?, rows.texts(2)?, rows.times(3)?);
        let (mut samples, mut detail) = (rows.integers(4)?, rows.texts(5)?);
        for row in 0..rows.len() {
            let why = there(why.take(row))?;
            let reason = reason::ALL.into_iter().find(|own| *own == why);
            let gap = Gap {
                start: there(time.take(row))?,
                reason: reason.ok_or_else(|| Error::bug(format!("a gap for the reason \"{why}\"")))?,
                ended: ended.take(row),
                samples: samples.take(row),
                detail: detail.take(row),
                filled: None,
            };
            all.push(Open { pv: there(pv.take(row))?, gap });
        }
    }
    let is_last = all.len() < GAPS;
    Ok((all, is_last))
}

/// Fills a gap from a pair, and returns the gaps that are left; `None` if the pair cannot tell yet.
///
/// - `are_all_asked`: whether no other pair will be asked about these.
async fn fill_from(
    shared: &Arc<Shared>,
    pair: &Arc<Peer>,
    pv: &str,
    gap: &Gap,
    are_all_asked: bool,
) -> Result<Option<Vec<Gap>>> {
    let Some(ended) = gap.ended else { return Ok(None) };
    let margin = shared.registry.lock().await.get(pv).map_or(0, |pv| pv.definition.margin());
    let inner = Span { from: gap.start, to: ended };
    let span = Span { from: gap.start.saturating_sub(margin), to: ended.saturating_add(margin) };
    let coverage = shared.peers.coverage(pair, pv, inner).await?;
    if coverage.as_ref().is_some_and(|coverage| coverage.until < ended.saturating_add(BEHIND)) {
        return Ok(None);
    }
    let Some(events) = shared.peers.events(pair, pv, None, span).await? else { return Ok(None) };
    let known = own_times(shared, pv, span).await?;
    let versions = Versions::default();
    let mut pieces = read(events.with_versions(&versions));
    let mut rows = Pending::default();
    let mut told = Vec::new();
    let mut samples = 0;
    while let Some(piece) = pieces.recv().await {
        for event in piece? {
            told.extend(told_gap(&event));
            let time = event.time();
            if time <= span.from || time > span.to || known.binary_search(&time).is_ok() {
                continue;
            }
            let stored = values::store(&event.sample.value);
            if stored.varying_bytes() > limits::VALUE_BYTES_MAX {
                continue;
            }
            samples += usize::from(inner.from <= time && time <= inner.to);
            rows.samples.push(pv, &event.sample, &stored, None);
        }
        if rows.bytes() >= COMMIT_BYTES {
            commit(shared, &mut rows).await?;
        }
    }
    let coverage = match coverage {
        Some(coverage) => coverage,
        // An Appliance does not tell. Where it has samples, it was connected, but for the gaps that its samples tell.
        None if samples > 0 => Coverage { from: None, until: Nanos::MAX, gaps: told },
        None => Coverage { from: Some(Nanos::MAX), until: Nanos::MAX, gaps: Vec::new() },
    };
    let rest = parts(gap, &coverage, &pair.url, if are_all_asked { Some(false) } else { None });
    rows.gaps.push(pv, &Gap { filled: Some(true), ..gap.clone() });
    for part in &rest {
        rows.gaps.push(pv, part);
    }
    metadata(shared, pv, inner, &versions, &mut rows).await?;
    commit(shared, &mut rows).await?;
    tracing::debug!(pv, samples, peer = pair.url, "filled a gap");
    Ok(Some(rest))
}

/// Reads events on a thread of their own, because reading blocks. They come in pieces, so that few are in memory.
fn read(events: impl Iterator<Item = Result<Event>> + Send + 'static) -> mpsc::Receiver<Result<Vec<Event>>> {
    let (sender, pieces) = mpsc::channel(1);
    tokio::task::spawn_blocking(move || {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for event in events {
            let event = match event {
                Ok(event) => event,
                // Without a receiver nobody wants to know.
                Err(error) => return drop(sender.blocking_send(Err(error))),
            };
            bytes += values::store(&event.sample.value).varying_bytes();
            piece.push(event);
            if bytes >= PIECE_BYTES || piece.len() >= PIECE_EVENTS {
                bytes = 0;
                if sender.blocking_send(Ok(std::mem::take(&mut piece))).is_err() {
                    return;
                }
            }
        }
        let _ = sender.blocking_send(Ok(piece));
    });
    pieces
}

/// The gap that an event of an Appliance tells.
fn told_gap(event: &Event) -> Option<Gap> {
    let time = |name: &str| event.field(name)?.parse::<Nanos>().ok()?.checked_mul(SECOND);
    let (start, ended) = (time(CONNECTION_LOST)?, time(CONNECTION_REGAINED)?);
    let gap =
        Gap { start, reason: reason::DISCONNECTED, ended: Some(ended), samples: None, detail: None, filled: None };
    // After a start, an Appliance does not know when the connection was lost, and writes 0.
    Some(gap).filter(|gap| gap.start < ended)
}

/// Adds the versions of a PV's metadata that the pair has of a gap.
async fn metadata(shared: &Shared, pv: &str, gap: Span, versions: &Versions, rows: &mut Pending) -> Result<()> {
    let own = history::versions_of(&mut SqlClient::new(&shared.database), pv).await?;
    versions.read(|versions| {
        for version in versions.iter().filter(|version| gap.from <= version.since && version.since <= gap.to) {
            let is_known = own.iter().any(|own| own.since == version.since);
            let is_same = history::version_at(&own, version.since)
                .is_some_and(|own| own.metadata == version.metadata && own.ty == version.ty);
            if !is_known && !is_same {
                rows.metadata.push(pv, version);
            }
        }
    });
    Ok(())
}

async fn commit(shared: &Shared, rows: &mut Pending) -> Result<()> {
    let batches = rows.finish()?;
    summaries::commit(&mut SqlClient::new(&shared.database), &shared.watermarks, &batches, async |_| Ok(())).await
}

/// Times of the samples of a PV in a span, sorted.
async fn own_times(shared: &Shared, pv: &str, span: Span) -> Result<Vec<Nanos>> {
    let mut sql = SqlClient::new(&shared.database);
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

/// The parts of a gap of which the pair knows nothing either.
fn parts(gap: &Gap, coverage: &Coverage, url: &str, filled: Option<bool>) -> Vec<Gap> {
    let Some(ended) = gap.ended else { return Vec::new() };
    let absent = Gap {
        start: Nanos::MIN,
        reason: reason::ABSENT,
        ended: coverage.from,
        samples: None,
        detail: None,
        filled: None,
    };
    let absent = coverage.from.map(|_| absent);
    let part = |their: &Gap| {
        // The gap has the first nanosecond for itself: its mark as filled.
        let start = their.start.max(gap.start + 1);
        let end = their.ended.unwrap_or(ended).min(ended);
        (start < end).then(|| Gap {
            start,
            reason: if their.reason == reason::ABSENT { gap.reason } else { their.reason },
            ended: Some(end),
            samples: None,
            detail: Some(format!(
                "here: {}; at {url}: {}",
                gap.reason,
                their.detail.as_deref().unwrap_or(their.reason)
            )),
            filled,
        })
    };
    absent.iter().chain(&coverage.gaps).filter_map(part).collect()
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
        let from = Some(Nanos::MIN);
        for (from, theirs, expected) in [
            (from, vec![], vec![]),
            (from, vec![gap(50, Some(90), reason::DISCONNECTED)], vec![]),
            (from, vec![gap(200, Some(300), reason::DISCONNECTED)], vec![]),
            (from, vec![gap(50, Some(150), reason::DISCONNECTED)], vec![(101, 150)]),
            (
                from,
                vec![gap(120, Some(130), reason::STOPPED), gap(150, None, reason::STOPPED)],
                vec![(120, 130), (150, 200)],
            ),
            // The pair archives the PV since a time.
            (Some(160), vec![], vec![(101, 160)]),
            (Some(Nanos::MAX), vec![], vec![(101, 200)]),
        ] {
            let coverage = Coverage { from, until: Nanos::MAX, gaps: theirs.clone() };
            let parts = parts(&own, &coverage, "http://a", Some(false));
            let found: Vec<_> = parts.iter().map(|part| (part.start, part.ended.unwrap())).collect();
            assert_eq!(found, expected, "{from:?} {theirs:?}");
            assert!(parts.iter().all(|part| part.filled == Some(false)));
        }
    }

    #[test]
    fn an_event_of_an_appliance_tells_the_gap_before_it() {
        use epics::sample::{Sample, Scalar, Severity};
        let value = epics::sample::Value::Scalar(Scalar::Float64(1.0));
        let mut event = Event::from(Sample { time: 9 * SECOND, value, severity: Severity::None, status: 0 });
        assert_eq!(told_gap(&event), None);
        event.fields.push((CONNECTION_LOST.to_owned(), "3".to_owned()));
        event.fields.push((CONNECTION_REGAINED.to_owned(), "8".to_owned()));
        assert_eq!(told_gap(&event), Some(gap(3 * SECOND, Some(8 * SECOND), reason::DISCONNECTED)));
    }
}
