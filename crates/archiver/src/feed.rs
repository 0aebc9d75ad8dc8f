//! `/retrieval/data/follow`: samples from a time on, and then new ones as they are committed, as lines of JSON.
//!
//! ```text
//! {"pv":"A","secs":1795630072,"nanos":42146091,"val":1.5,"severity":0,"status":0}
//! {"pv":"A","gap":"disconnected","from":"2026-11-25T18:00:00.000Z","to":null,"detail":"the IOC closed the connection"}
//! ```
//!
//! The history of each PV comes first, without gaps. A client that is too slow for new samples gets them from the table instead. Empty lines
//! show that the connection is alive. Imported samples are history only. Lines of PVs that only peers have are those of the first peer
//! that has them.
//!
//! Always true: a sample comes once, those of a PV in the order of their commits, history in the order of time. None is left
//! out, but for samples older than the newest one that arrive while history is read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use epics::processors::Span;
use epics::sample::{Nanos, Sample};
use futures::stream;
use model::{Error, Result, SqlState};
use serde_json::{Value as Json, json};
use server::http::streamed::PATIENCE;
use server::http::{Body, Request, Response};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::history::{Decoded, Events};
use crate::parameters::{Parameters, invalid};
use crate::peers::{OWN_ONLY, Peer, Pieces};
use crate::reading;
use crate::replies;
use crate::shared::{Committed, Shared};
use crate::times;

/// Clients that follow at a time.
static FEEDS: Semaphore = Semaphore::const_new(FEEDS_MAX);
const FEEDS_MAX: usize = 256;
/// PVs of one client.
const PVS_MAX: usize = 10_000;
/// PVs of one request to a peer, whose address has a limited length.
const PVS_OF_A_REQUEST: usize = 200;
/// Bytes of a line of a peer.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Pieces that wait for a client.
const PIECES: usize = 4;
/// Size of a piece of history.
const PIECE_BYTES: usize = 64 << 10;
/// An empty line is sent after so much silence.
const SILENCE: Duration = Duration::from_secs(15);

/// Replies with the samples of the PVs `pv` after the time `from`, which is now if it is absent, and goes on.
///
/// # Errors
/// 22023 for a parameter; 42704 (404) for a PV that is not known; 53400 (503) if too many clients follow; 08006 (503) if a peer
/// does not answer that alone has a PV.
pub(crate) async fn follow(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let names: Vec<&str> = parameters.all("pv").flat_map(|names| names.split(',')).collect();
    if names.is_empty() || names.len() > PVS_MAX {
        return Err(invalid(format!("parameter pv names {} PVs: expected 1 to {PVS_MAX}", names.len())));
    }
    let now = shared.now();
    let from = parameters.get("from").map(|text| times::parse("from", text)).transpose()?.unwrap_or(now);
    let own_only = parameters.flag(OWN_ONLY)?;
    let (mut pvs, mut elsewhere) = (HashMap::new(), HashMap::new());
    for name in names {
        let asked = reading::find(shared, name, None, Span { from, to: Nanos::MAX }, own_only).await?;
        if asked.operator.is_some() {
            return Err(invalid(format!("\"{name}\": samples that are followed cannot be processed")));
        }
        match asked.elsewhere() {
            Some(peer) => {
                let at_peer = elsewhere.entry(peer.url.clone()).or_insert_with(|| (Arc::clone(peer), Vec::new()));
                at_peer.1.push(name.to_owned());
            }
            None => {
                pvs.insert(asked.name, Followed { name: name.to_owned(), last: from, commit: 0 });
            }
        }
    }
    let Ok(slot) = FEEDS.try_acquire() else {
        let text = format!("{FEEDS_MAX} clients follow samples, and no more may");
        return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, text));
    };
    let (pieces, queue) = mpsc::channel(PIECES);
    let mut opened = Vec::new();
    for (peer, names) in elsewhere.into_values() {
        for names in names.chunks(PVS_OF_A_REQUEST) {
            let Some(lines) = shared.peers.follow(&peer, names, from).await? else {
                return Err(peer.error(format!("it does not give new samples of {}", names.join(", "))));
            };
            opened.push((Arc::clone(&peer), lines));
        }
    }
    let mut relays = JoinSet::new();
    for (peer, lines) in opened {
        relays.spawn(relay(peer, lines, pieces.clone()));
    }
    let mut feed = Feed { shared: Arc::clone(shared), pvs, pieces };
    tokio::spawn(async move {
        let _slot = slot;
        // When one ends, all do: the client would miss its PVs without a sign.
        let ended = tokio::select! {
            ended = feed.run() => ended,
            Some(ended) = relays.join_next() => ended.unwrap_or_else(|error| Err(Error::bug(error))),
        };
        relays.shutdown().await;
        if let Err(error) = ended {
            // A client that is gone, or does not read, learns nothing.
            let _ = feed.pieces.send_timeout(Err(error), PATIENCE).await;
        }
    });
    let body = stream::unfold(queue, |mut queue| async move { Some((queue.recv().await?, queue)) });
    let mut response = Response::new(Body::from_stream(body));
    replies::content_type(&mut response, "application/x-ndjson");
    Ok(response)
}

/// Passes on the lines of a peer until the client is gone. Lines are passed on whole: others come between them.
///
/// # Errors
/// 08006 if the peer ends them, or sends a line that is too long.
async fn relay(peer: Arc<Peer>, mut lines: Pieces, pieces: mpsc::Sender<Result<Bytes>>) -> Result<()> {
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let next = tokio::select! {
            next = lines.next() => next,
            () = pieces.closed() => return Ok(()),
        };
        let piece = next.map_err(|error| peer.error(error))?.ok_or_else(|| peer.error("it ended the samples"))?;
        let end = piece.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        rest.extend_from_slice(&piece[..end]);
        let whole = if end > 0 { std::mem::take(&mut rest) } else { Vec::new() };
        rest.extend_from_slice(&piece[end..]);
        if rest.len() > LINE_BYTES_MAX {
            return Err(peer.error(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        if !whole.is_empty() && pieces.send_timeout(Ok(whole.into()), PATIENCE).await.is_err() {
            return Ok(());
        }
    }
}

/// Takes about [`PIECE_BYTES`] of lines: whole ones, because those of peers come between pieces.
fn whole_lines(lines: &mut Bytes) -> Bytes {
    let newline = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    let from = PIECE_BYTES.min(lines.len());
    let end = newline(&lines[from..]).map_or(lines.len(), |more| from + more);
    lines.split_to(end)
}

/// A PV of a client.
struct Followed {
    /// Name that the client used.
    name: String,
    /// Time of the newest sample that was sent.
    last: Nanos,
    /// Samples of commits up to this one are in the history, if their time is not later than `last`.
    commit: u64,
}

/// A client that follows.
struct Feed {
    shared: Arc<Shared>,
    /// By real name.
    pvs: HashMap<String, Followed>,
    pieces: mpsc::Sender<Result<Bytes>>,
}

impl Feed {
    async fn run(&mut self) -> Result<()> {
        // From here on no commit is missed.
        let mut commits = self.shared.committed.subscribe();
        if !self.history().await? {
            return Ok(());
        }
        loop {
            let next = tokio::select! {
                next = tokio::time::timeout(SILENCE, commits.recv()) => next,
                () = self.pieces.closed() => return Ok(()),
            };
            let lines = match next {
                Err(_) => b"\n".to_vec(),
                Ok(Ok(committed)) => self.lines(&committed)?,
                Ok(Err(RecvError::Lagged(_))) => {
                    // The table has what is in the queue.
                    commits = self.shared.committed.subscribe();
                    if !self.history().await? {
                        return Ok(());
                    }
                    continue;
                }
                Ok(Err(RecvError::Closed)) => return Ok(()),
            };
            let mut lines = Bytes::from(lines);
            while !lines.is_empty() {
                let piece = whole_lines(&mut lines);
                if self.pieces.send_timeout(Ok(piece), PATIENCE).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// Whether the client is still there, and reads.
    async fn send(&self, lines: Vec<u8>) -> bool {
        self.pieces.send_timeout(Ok(lines.into()), PATIENCE).await.is_ok()
    }

    /// Sends what is stored after the last sample of each PV; false if the client is gone.
    async fn history(&mut self) -> Result<bool> {
        let names: Vec<String> = self.pvs.keys().cloned().collect();
        for name in names {
            let Some(followed) = self.pvs.get(&name) else { continue };
            let span = Span { from: followed.last, to: Nanos::MAX };
            let mut events = Events::within(&self.shared.database, &name, span, Vec::new()).await?;
            let mut lines = Vec::new();
            while let Some(sample) = events.next_at_once().await {
                let sample = sample?;
                if let Some(followed) = self.pvs.get_mut(&name) {
                    line(&mut lines, &followed.name, &sample);
                    followed.last = followed.last.max(sample.time);
                }
                if lines.len() >= PIECE_BYTES && !self.send(std::mem::take(&mut lines)).await {
                    return Ok(false);
                }
            }
            // Commits that had begun may be in what was read; those that begin later are not.
            if let Some(followed) = self.pvs.get_mut(&name) {
                followed.commit = self.shared.commits.load(std::sync::atomic::Ordering::Acquire);
            }
            if !lines.is_empty() && !self.send(lines).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The lines of a commit.
    fn lines(&mut self, committed: &Committed) -> Result<Vec<u8>> {
        let mut lines = Vec::new();
        for (table, batch) in &committed.batches {
            match *table {
                "samples" => self.samples(committed.number, batch, &mut lines)?,
                "gaps" => self.gaps(batch, &mut lines),
                _ => {}
            }
        }
        Ok(lines)
    }

    fn samples(&mut self, number: u64, batch: &RecordBatch, lines: &mut Vec<u8>) -> Result<()> {
        let Some(names) = batch.column_by_name("pv").and_then(|array| array.as_string_opt::<i32>()) else {
            return Ok(());
        };
        let mut decoded = None;
        for row in 0..batch.num_rows() {
            let Some(followed) = self.pvs.get_mut(names.value(row)) else { continue };
            let decoded = match &decoded {
                Some(decoded) => decoded,
                None => decoded.insert(Decoded::by_name(batch)?),
            };
            let sample = decoded.sample(row);
            if number <= followed.commit && sample.time <= followed.last {
                continue;
            }
            followed.last = followed.last.max(sample.time);
            line(lines, &followed.name, &sample);
        }
        Ok(())
    }

    fn gaps(&self, batch: &RecordBatch, lines: &mut Vec<u8>) {
        let column = |name: &str| batch.column_by_name(name);
        let text = |name: &str| column(name).and_then(|array| array.as_string_opt::<i32>());
        let time = |name: &str| column(name).and_then(|array| array.as_primitive_opt::<TimestampNanosecondType>());
        let (Some(names), Some(reasons), Some(details)) = (text("pv"), text("reason"), text("detail")) else { return };
        let (Some(starts), Some(ends)) = (time("time"), time("ended")) else { return };
        let counts = column("samples").and_then(|array| array.as_primitive_opt::<Int64Type>());
        for row in 0..batch.num_rows() {
            let Some(followed) = self.pvs.get(names.value(row)) else { continue };
            let gap = json!({
                "pv": followed.name,
                "gap": reasons.value(row),
                "from": times::iso(starts.value(row)),
                "to": ends.is_valid(row).then(|| times::iso(ends.value(row))),
                "samples": counts.filter(|counts| counts.is_valid(row)).map(|counts| counts.value(row)),
                "detail": details.is_valid(row).then(|| details.value(row)),
            });
            push(lines, &gap);
        }
    }
}

fn line(lines: &mut Vec<u8>, name: &str, sample: &Sample) {
    let sample = json!({
        "pv": name,
        "secs": sample.time.div_euclid(1_000_000_000),
        "nanos": sample.time.rem_euclid(1_000_000_000),
        "val": replies::value(&sample.value),
        "severity": sample.severity as u8,
        "status": sample.status,
    });
    push(lines, &sample);
}

fn push(lines: &mut Vec<u8>, value: &Json) {
    lines.extend_from_slice(value.to_string().as_bytes());
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_with_lines() {
        for lengths in [&[5][..], &[70_000], &[40_000, 40_000, 1], &[PIECE_BYTES, 3], &[PIECE_BYTES - 1, 1, 200_000, 7]]
        {
            let text: String = lengths.iter().map(|length| "x".repeat(*length - 1) + "\n").collect();
            let mut rest = Bytes::from(text.clone());
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                pieces.push(whole_lines(&mut rest));
            }
            assert!(pieces.iter().all(|piece| piece.ends_with(b"\n")), "{lengths:?}");
            assert_eq!(pieces.concat(), text.as_bytes());
        }
    }
}
