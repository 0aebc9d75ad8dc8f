//! Reads the samples of a PV, wherever they are: here, in summaries, or at peers.
//!
//! Samples that only peers have are theirs: of PVs that they archive and this archiver does not, and of the times in which this
//! archiver had none.

use std::io;
use std::sync::Arc;

use epics::event::Event;
use epics::pb::Payload;
use epics::processors::{Input, Operator, ProcessError, Span};
use epics::sample::{Nanos, Scalar, Value};
use model::{Error, Result, SqlState};
use query::Value as Parameter;
use query::client::SqlClient;
use server::http::streamed::gone;
use tokio::runtime::Handle;

use crate::history::{self, Events};
use crate::merging::{Merged, Sequence, Source};
use crate::names;
use crate::parameters::invalid;
use crate::peers::{Coverage, Peer, Peers, RemoteEvents, Versions};
use crate::shared::Shared;
use crate::summaries::{self, WINDOW, window_of};
use crate::tables::{Gap, Version};
use crate::values;

const DAY: f64 = 86_400.0 * 1e9;
/// Events between looks at the client.
const LOOK_EVENTS: usize = 1 << 14;

/// A PV of a request.
pub(crate) struct Asked {
    /// Name in the request.
    pub(crate) requested: String,
    /// Name under which samples are stored.
    pub(crate) name: String,
    pub(crate) operator: Option<Operator>,
    pub(crate) span: Span,
    pub(crate) versions: Versions,
    /// Whether this archiver has the PV.
    pub(crate) is_own: bool,
    /// Peers that have it too, or alone.
    peers: Vec<Arc<Peer>>,
}

impl Asked {
    /// The first peer that has the PV, if this archiver does not.
    pub(crate) fn elsewhere(&self) -> Option<&Arc<Peer>> {
        if self.is_own { None } else { self.peers.first() }
    }
}

/// The PV that a parameter names. Where a PV has the whole text as its name, this is it, even if it looks like an operator.
///
/// - `own_only`: whether no peer is asked.
///
/// # Errors
/// 22023 for an operator; 42704 for a PV that is not known; those of SQL.
pub(crate) async fn find(
    shared: &Shared,
    requested: &str,
    operator: Option<Operator>,
    span: Span,
    own_only: bool,
) -> Result<Asked> {
    let mut sql = SqlClient::new(&shared.database);
    if let Some(own) = real_name(shared, &mut sql, requested).await? {
        return own_pv(shared, &mut sql, requested, own, operator, span, own_only).await;
    }
    let parsed = epics::processors::Request::parse(requested).map_err(|error| invalid(error.to_string()))?;
    let operator = parsed.operator.clone().or(operator);
    if parsed.operator.is_some()
        && let Some(own) = real_name(shared, &mut sql, &parsed.pv).await?
    {
        return own_pv(shared, &mut sql, requested, own, operator, span, own_only).await;
    }
    let name = names::normal(&parsed.pv).to_owned();
    let peers = if own_only { Vec::new() } else { shared.peers.with(&name).await? };
    if peers.is_empty() {
        return Err(unknown(&parsed.pv));
    }
    let (requested, versions) = (requested.to_owned(), Versions::default());
    Ok(Asked { requested, name, operator, span, versions, is_own: false, peers })
}

/// A PV that this archiver has.
async fn own_pv(
    shared: &Shared,
    sql: &mut SqlClient,
    requested: &str,
    name: String,
    operator: Option<Operator>,
    span: Span,
    own_only: bool,
) -> Result<Asked> {
    let versions = Versions::new(history::versions_of(sql, &name).await?);
    let peers = if own_only { Vec::new() } else { shared.peers.known_with(&name) };
    Ok(Asked { requested: requested.to_owned(), name, operator, span, versions, is_own: true, peers })
}

/// An error for a PV that has never been archived.
pub(crate) fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("PV \"{name}\" is not archived"))
}

/// The name under which samples are stored: that of a PV that is archived, or of one that has samples.
pub(crate) async fn real_name(shared: &Shared, sql: &mut SqlClient, name: &str) -> Result<Option<String>> {
    let normal = names::normal(name);
    {
        let registry = shared.registry.lock().await;
        if let Some(pv) = registry.find(normal).or_else(|| registry.find(name)) {
            return Ok(Some(pv.definition.name.to_string()));
        }
    }
    let text = "SELECT 1 FROM epics.samples WHERE pv = $1 LIMIT 1";
    let found = sql.rows(text, &[Parameter::Text(normal.to_owned())]).await?;
    Ok(found.iter().any(|rows| rows.len() > 0).then(|| normal.to_owned()))
}

/// The events of a PV, processed by its operator. Operators may compute for long without a piece of the reply: they stop when
/// nobody waits for it.
///
/// # Errors
/// Those of SQL; 08006 if no peer answers that has the PV, and this archiver does not.
pub(crate) fn events(
    shared: &Arc<Shared>,
    runtime: &Handle,
    asked: &Asked,
    is_wanted: impl Fn() -> bool + 'static,
) -> Result<Sequence> {
    let elsewhere = Elsewhere { shared: Arc::clone(shared), runtime: runtime.clone() };
    if !asked.is_own {
        return elsewhere.events(asked, is_wanted);
    }
    let holes = if asked.peers.is_empty() { Holes::default() } else { runtime.block_on(holes(shared, asked))? };
    if holes.within.is_empty()
        && let Some(operator) = &asked.operator
        && let Some(binned) = operator.binned(summaries::UNIT, asked.span)
        && let Some(inputs) = runtime.block_on(summarised(shared, asked, binned.points()))?
    {
        // Summaries have no samples from before the PV was archived here.
        let before = elsewhere.sources(asked, &holes.before.into_iter().collect::<Vec<_>>());
        let before = watched(Box::new(Merged::new(before, asked.span.from)), is_wanted);
        let before = before.map(|event| event.map(Input::Event));
        let name = operator.name();
        let processed = binned.run(before.chain(inputs), asked.span);
        return Ok(Box::new(processed.map(move |event| event.map_err(|error| refused(name, error)))));
    }
    let own: Sequence = Box::new(runtime.block_on(Events::new(&shared.database, &asked.name, asked.span))?);
    let holes: Vec<Span> = holes.before.into_iter().chain(holes.within).collect();
    if holes.is_empty() {
        return Ok(process(asked, own, is_wanted));
    }
    let mut sources = vec![Source::new(Nanos::MIN, own)];
    sources.extend(elsewhere.sources(asked, &holes));
    Ok(process(asked, Box::new(Merged::new(sources, asked.span.from)), is_wanted))
}

/// Events, processed by the operator that is asked for.
fn process(asked: &Asked, events: Sequence, is_wanted: impl Fn() -> bool + 'static) -> Sequence {
    let events = watched(events, is_wanted);
    let Some(operator) = asked.operator.clone() else { return events };
    let name = operator.name();
    Box::new(operator.run(events, asked.span).map(move |event| event.map_err(|error| refused(name, error))))
}

/// Events, until nobody waits for them.
fn watched(events: Sequence, is_wanted: impl Fn() -> bool + 'static) -> Sequence {
    Box::new(events.enumerate().map(move |(at, event)| {
        if at % LOOK_EVENTS == 0 && !is_wanted() {
            return Err(gone(io::ErrorKind::BrokenPipe.into()));
        }
        event
    }))
}

/// Times of a request in which this archiver has no samples, and peers may.
#[derive(Default)]
struct Holes {
    /// Before the first sample here.
    before: Option<Span>,
    within: Vec<Span>,
}

/// Ranges that a peer is asked for in one request; more become one range.
const HOLES_MAX: usize = 32;

/// Gaps that were not filled yet, and the times before and behind all samples here.
async fn holes(shared: &Shared, asked: &Asked) -> Result<Holes> {
    let Asked { name, span, .. } = asked;
    let mut sql = SqlClient::new(&shared.database);
    let Some((first, last)) = history::ends(&mut sql, name).await? else {
        return Ok(Holes { before: Some(*span), within: Vec::new() });
    };
    let before = (span.from < first).then(|| Span { from: span.from, to: span.to.min(first - 1) });
    let mut within: Vec<Span> = Vec::new();
    let mut add = |from: Nanos, to: Nanos| {
        let hole = Span { from: from.max(span.from), to: to.min(span.to) };
        match within.last_mut() {
            Some(last) if last.to >= hole.from => last.to = last.to.max(hole.to),
            _ if hole.from <= hole.to => within.push(hole),
            _ => {}
        }
    };
    let (margin, is_archived) = match shared.registry.lock().await.get(name) {
        Some(pv) => (pv.definition.margin(), true),
        None => (0, false),
    };
    for (start, ended) in history::unfilled(&mut sql, name, *span).await? {
        let to = ended.map_or(Nanos::MAX, |ended| ended.saturating_add(margin));
        // The gap from the definition of a PV to its first sample is before it.
        if to.saturating_sub(2 * margin) > first {
            add(start.saturating_sub(margin), to);
        }
    }
    if !is_archived && last < span.to {
        add(last, span.to);
    }
    if let ([first, .., last], true) = (within.as_slice(), within.len() > HOLES_MAX) {
        within = vec![Span { from: first.from, to: last.to }];
    }
    Ok(Holes { before, within })
}

/// Whether the newest sample of a PV up to the end of the range is a number; true without one.
///
/// # Errors
/// Those of SQL, and of peers that alone have the PV, here and below.
pub(crate) async fn is_number(shared: &Arc<Shared>, asked: &Asked) -> Result<bool> {
    if asked.is_own {
        return history::is_number(&mut SqlClient::new(&shared.database), &asked.name, asked.span.to).await;
    }
    let newest = Span { from: asked.span.to, to: asked.span.to };
    let event = last_at_peers(shared, asked, None, newest).await?;
    Ok(event.is_none_or(|event| values::is_number(values::type_of(&event.sample.value))))
}

/// Number of the samples of the range.
pub(crate) async fn count(shared: &Arc<Shared>, asked: &Asked) -> Result<i64> {
    if asked.is_own {
        return history::count(&mut SqlClient::new(&shared.database), &asked.name, asked.span).await;
    }
    let event = last_at_peers(shared, asked, Some("ncount"), asked.span).await?;
    Ok(match event.map(|event| event.sample.value) {
        Some(Value::Scalar(Scalar::Int32(count))) => count.into(),
        _ => 0,
    })
}

/// Gaps of the range, oldest first: those that are known here or, of a PV that only peers have, to the first that answers.
pub(crate) async fn gaps(shared: &Shared, asked: &Asked) -> Result<Vec<Gap>> {
    if asked.is_own {
        return history::gaps(&mut SqlClient::new(&shared.database), &asked.name, asked.span).await;
    }
    let mut none = Ok(Vec::new());
    for peer in &asked.peers {
        match shared.peers.coverage(peer, &asked.name, asked.span).await {
            Ok(Some(coverage)) => return Ok(coverage.gaps),
            Ok(None) => {}
            Err(error) => none = Err(error),
        }
    }
    none
}

/// The part of a span of a PV that this archiver vouches for.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn coverage(shared: &Shared, pv: &str, span: Span) -> Result<Coverage> {
    // Read before all else: what is committed meanwhile is more than it says.
    let until = shared.written.until.load(std::sync::atomic::Ordering::Acquire);
    let mut sql = SqlClient::new(&shared.database);
    let ends = history::ends(&mut sql, pv).await?;
    let gaps = history::gaps(&mut sql, pv, span).await?;
    let now = shared.now();
    let known = {
        let registry = shared.registry.lock().await;
        let policies = shared.policies.lock().await;
        registry.get(pv).map(|pv| {
            let policy = pv.definition.policy.as_deref().and_then(|name| policies.named(name));
            (pv.definition.created, policy.and_then(|policy| policy.keep_days))
        })
    };
    let first = ends.map(|(first, _)| first).into_iter().chain(known.map(|(created, _)| created)).min();
    let kept = known.and_then(|(_, days)| Some(now.saturating_sub((days? * DAY) as Nanos)));
    // A PV that was deleted has its samples, and nothing behind them.
    let until = if known.is_some() { until } else { ends.map_or(Nanos::MIN, |(_, last)| last) };
    Ok(Coverage { from: first.map(|first| first.max(kept.unwrap_or(Nanos::MIN))), until, gaps })
}

/// The last event of the first peer that has one.
async fn last_at_peers(
    shared: &Arc<Shared>,
    asked: &Asked,
    operator: Option<&str>,
    span: Span,
) -> Result<Option<Event>> {
    let mut none = Ok(None);
    for peer in &asked.peers {
        match shared.peers.events(peer, &asked.name, operator, span).await {
            Ok(Some(events)) => {
                // Reading blocks.
                let last = tokio::task::spawn_blocking(move || events.last().transpose()).await;
                match last.map_err(Error::bug)? {
                    Ok(Some(event)) => return Ok(Some(event)),
                    Ok(None) => {}
                    Err(error) => none = Err(error),
                }
            }
            Ok(None) => {}
            Err(error) => none = Err(error),
        }
    }
    none
}

/// Samples of peers.
struct Elsewhere {
    shared: Arc<Shared>,
    runtime: Handle,
}

impl Elsewhere {
    /// Events of a PV that only peers have.
    fn events(&self, asked: &Asked, is_wanted: impl Fn() -> bool + 'static) -> Result<Sequence> {
        if let ([peer], Some(operator)) = (asked.peers.as_slice(), &asked.operator) {
            // The peer computes: it has summaries, and fewer events to send.
            let events = self.open(peer, &asked.name, Some(&operator.to_string()), asked.span)?;
            return Ok(match events {
                Some(events) => Box::new(events.with_versions(&asked.versions)),
                None => Box::new(std::iter::empty()),
            });
        }
        let mut sources = Vec::new();
        let mut problem = None;
        for peer in &asked.peers {
            match self.open(peer, &asked.name, None, asked.span) {
                Ok(Some(events)) => {
                    sources.push(Source::new(Nanos::MIN, Box::new(events.with_versions(&asked.versions))));
                }
                Ok(None) => {}
                Err(error) => problem = Some(error),
            }
        }
        match problem {
            Some(error) if sources.is_empty() => Err(error),
            _ => Ok(process(asked, Box::new(Merged::new(sources, asked.span.from)), is_wanted)),
        }
    }

    /// Asks for the events of a PV, or for those that an operator makes of them.
    fn open(&self, peer: &Arc<Peer>, pv: &str, operator: Option<&str>, span: Span) -> Result<Option<RemoteEvents>> {
        self.runtime.block_on(self.shared.peers.events(peer, pv, operator, span))
    }

    /// For each peer and span, its events. They are asked for when they are needed. A peer that does not answer has none, and the
    /// gap is told instead.
    fn sources(&self, asked: &Asked, spans: &[Span]) -> Vec<Source> {
        let source = |peer: &Arc<Peer>, span: Span| {
            let elsewhere = Elsewhere { shared: Arc::clone(&self.shared), runtime: self.runtime.clone() };
            let (peer, name) = (Arc::clone(peer), asked.name.clone());
            let versions = asked.versions.read(<[Version]>::is_empty).then(|| asked.versions.clone());
            // The peer gives the last event before the span too: it is wanted where the range begins.
            let is_start = span.from == asked.span.from;
            let open = move || -> Sequence {
                // A peer that has failed meanwhile is not asked again.
                if peer.problem().is_some() {
                    return Box::new(std::iter::empty());
                }
                let mut events = match elsewhere.open(&peer, &name, None, span) {
                    Ok(Some(events)) => events,
                    Ok(None) => return Box::new(std::iter::empty()),
                    Err(error) => {
                        Peers::note(&peer, &error);
                        return Box::new(std::iter::empty());
                    }
                };
                if let Some(versions) = &versions {
                    events = events.with_versions(versions);
                }
                let is_wanted = move |event: &Result<Event>| {
                    is_start || event.as_ref().map_or(true, |event| event.time() > span.from)
                };
                Box::new(events.filter(is_wanted))
            };
            let start = if is_start { Nanos::MIN } else { span.from };
            Source::new(start, Box::new(std::iter::once_with(open).flatten()))
        };
        let peers = asked.peers.iter().filter(|peer| peer.problem().is_none());
        peers.flat_map(|peer| spans.iter().map(move |span| source(peer, *span))).collect()
    }
}

/// Windows below which summaries save nothing.
const WINDOWS_MIN: Nanos = 6;

/// The events of a range, those of whole windows as summaries; `None` if these cannot be used, or would not help: `points`
/// events or fewer are given as they are.
async fn summarised(
    shared: &Shared,
    asked: &Asked,
    points: usize,
) -> Result<Option<impl Iterator<Item = Result<Input>> + use<>>> {
    let Asked { name, span, .. } = asked;
    // Operators that compute take the index of an enumeration as a number.
    let is_number = |version: &Version| values::is_number(version.ty) || version.ty == Payload::Enum as i16;
    // Behind the windows, a nanosecond before is the last time that is not read.
    let from = window_of(span.from.saturating_add(WINDOW - 1));
    let to = window_of(span.to.min(shared.watermarks.done()));
    let are_numbers = asked.versions.read(|versions| !versions.is_empty() && versions.iter().all(is_number));
    if !are_numbers || to.saturating_sub(from) < WINDOWS_MIN * WINDOW {
        return Ok(None);
    }
    let mut sql = SqlClient::new(&shared.database);
    let was_stale = summaries::is_stale(&mut sql, name, from, to).await?;
    let (mut parts, samples) = summaries::parts(&mut sql, name, from, to).await?;
    // Asked behind the parts too: what became stale meanwhile, or was when they were read, is seen.
    if samples <= points as u64 || was_stale || summaries::is_stale(&mut sql, name, from, to).await? {
        return Ok(None);
    }
    let interruptions = history::interruptions(&history::gaps(&mut sql, name, *span).await?);
    // A sample at the start of the range is in the first part if a window begins there.
    let head = Span { from: span.from.min(from - 1), to: from - 1 };
    let first = Events::new(&shared.database, name, head).await?.collect_within().await?;
    let last = first.last().map_or(Nanos::MIN, Event::time);
    let mut interruptions = interruptions.into_iter().skip_while(|gap| gap.start < last).peekable();
    for part in &mut parts {
        while let Some(gap) = interruptions.next_if(|gap| gap.start < part.last) {
            part.connection_changed |= gap.ended.is_some();
        }
    }
    let tail = Span { from: to - 1, to: span.to };
    let rest = Events::within(&shared.database, name, tail, interruptions.collect()).await?;
    let first = first.into_iter().map(|event| Ok(Input::Event(event)));
    let parts = parts.into_iter().map(|part| Ok(Input::Part(part)));
    Ok(Some(first.chain(parts).chain(rest.map(|event| event.map(Input::Event)))))
}

fn refused(operator: &str, error: ProcessError<Error>) -> Error {
    match error {
        ProcessError::Source(error) => error,
        error => invalid(format!("operator {operator}: {error}")),
    }
}
