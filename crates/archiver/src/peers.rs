//! Other archivers: the PVs that they have, and requests to them.
//!
//! A *peer* answers the Appliance's API at its retrieval URL: another archiver of ours, or an Appliance. The table `epics.peers`
//! lists them. One that is the *pair* of this archiver samples the same PVs, and gaps are filled from it (see `filling`).
//!
//! A request to a peer asks for its own samples only, so that peers of each other do not ask in a circle.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use epics::event::Event;
use epics::pb::{KnownFields, Reader, Record};
use epics::processors::Span;
use epics::sample::Nanos;
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use model::{Error, Result, SqlState};
use serde_json::{Map, Value as Json};
use server::http::{Body, StatusCode, Uri};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::names::NAME_BYTES_MAX;
use crate::parameters::invalid;
use crate::sampling::reason;
use crate::tables::{Gap, Version};
use crate::times;
use crate::values;

/// Parameter of a request that asks an archiver for its own samples only.
pub(crate) const OWN_ONLY: &str = "skipExternalServers";
/// Path of retrieval below an address without a path.
const PATH: &str = "/retrieval";
/// Peers of an archiver.
pub(crate) const PEERS_MAX: usize = 64;
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Time in which a peer begins its reply, and between pieces of it.
const REPLY_TIME: Duration = Duration::from_secs(30);
/// Bytes of a reply that is no stream: the names of a million PVs.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Time of a reply that is no stream, in all.
const CALL_TIME: Duration = Duration::from_secs(60);
/// Time in which a peer tells whether it has a name.
const LOOK_UP_TIME: Duration = Duration::from_secs(5);
/// Time of a stream, in all.
const STREAM_TIME: Duration = Duration::from_secs(3_600);
/// Headers of a stream without an event between them.
const HEADERS_MAX: usize = 1_000;
/// Versions of metadata that a stream may bring.
const VERSIONS_MAX: usize = 10_000;
/// Bytes of the reason for which a peer refuses a request.
const REFUSAL_BYTES_MAX: usize = 1_000;
/// Bytes of a gap's detail that are taken over.
const DETAIL_BYTES_MAX: usize = 200;
/// Time between two requests for the names of a peer, in durations of the first: names are at most 2 % of the work of both.
const NAMES_PAUSE: u32 = 50;
const MILLISECOND: Nanos = 1_000_000;

/// All peers.
pub(crate) struct Peers {
    client: Client<HttpConnector, Body>,
    list: RwLock<Arc<[Arc<Peer>]>>,
}

/// A peer.
pub(crate) struct Peer {
    /// URL of its retrieval, without a slash at its end.
    pub(crate) url: String,
    pub(crate) pair: bool,
    state: Mutex<State>,
    /// One visit at a time.
    visiting: tokio::sync::Mutex<()>,
}

/// State of a peer as it was when it was asked last.
#[derive(Clone, Default)]
struct State {
    /// `None` until it told them.
    names: Option<Arc<HashSet<String>>>,
    /// Reason why it cannot be asked.
    problem: Option<String>,
    /// Time from which the names are asked for again.
    names_due: Option<Instant>,
}

impl Peer {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of the PVs that it has.
    pub(crate) fn names(&self) -> Arc<HashSet<String>> {
        self.state().names.clone().unwrap_or_default()
    }

    /// Reason why it did not answer the last request.
    pub(crate) fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.state().names.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Whether it has never told its names.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state().names.is_none()
    }

    /// The address of a request for its own samples.
    fn address(&self, path: &str, parameters: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters).append_pair(OWN_ONLY, "true");
        format!("{}/{path}?{}", self.url, query.finish())
    }

    pub(crate) fn error(&self, problem: impl std::fmt::Display) -> Error {
        Error::new(SqlState::CONNECTION_FAILURE, format!("peer {}: {problem}", self.url))
    }
}

/// The URL of a peer's retrieval, from what a user gives.
///
/// # Errors
/// 22023 for what is no URL; 0A000 for a protocol other than HTTP.
pub(crate) fn normal_url(text: &str) -> Result<String> {
    let text = text.trim().trim_end_matches('/');
    let uri: Uri = text.parse().map_err(|error| invalid(format!("\"{text}\" is no URL of an archiver: {error}")))?;
    let (Some(scheme), Some(_)) = (uri.scheme_str(), uri.host()) else {
        return Err(invalid(format!("\"{text}\" is no URL of an archiver: expected http://HOST:PORT/retrieval")));
    };
    if scheme != "http" {
        return Err(Error::unsupported(format!("peers by {scheme}: \"{text}\"; archivers ask each other by http")));
    }
    if uri.query().is_some() {
        return Err(invalid(format!("\"{text}\" has parameters: expected http://HOST:PORT/retrieval")));
    }
    Ok(if uri.path() == "/" { format!("{text}{PATH}") } else { text.to_owned() })
}

impl Peers {
    pub(crate) fn new() -> Peers {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIME));
        connector.set_nodelay(true);
        Peers { client: Client::builder(TokioExecutor::new()).build(connector), list: RwLock::new(Arc::new([])) }
    }

    pub(crate) fn all(&self) -> Arc<[Arc<Peer>]> {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes these the peers. What is known of those that stay is kept.
    pub(crate) fn set(&self, rows: impl IntoIterator<Item = (String, bool)>) {
        let known = self.all();
        let peer = |(url, pair): (String, bool)| {
            let same = known.iter().find(|peer| peer.url == url && peer.pair == pair);
            let new = |url| Peer { url, pair, state: Mutex::default(), visiting: tokio::sync::Mutex::default() };
            same.cloned().unwrap_or_else(|| Arc::new(new(url)))
        };
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = rows.into_iter().map(peer).collect();
    }

    /// Peers that have a PV: those that are known to have it or, if there are none, those that say so now.
    ///
    /// # Errors
    /// 08006 if none has it, and one that never told its names does not answer.
    pub(crate) async fn with(&self, name: &str) -> Result<Vec<Arc<Peer>>> {
        let known = self.known_with(name);
        if !known.is_empty() {
            return Ok(known);
        }
        let peers = self.all();
        let asked = peers.iter().filter(|peer| peer.problem().is_none() || peer.is_unknown());
        let answers = futures::future::join_all(asked.map(|peer| self.look_up(peer, name))).await;
        let (mut found, mut problem) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Ok(peer) => found.extend(peer),
                Err(error) => problem = Some(error),
            }
        }
        let is_unknown = peers.iter().any(|peer| peer.is_unknown());
        match problem {
            Some(error) if found.is_empty() && is_unknown => Err(error),
            _ => Ok(found),
        }
    }

    /// The peer, if it says that it has a name.
    async fn look_up(&self, peer: &Arc<Peer>, name: &str) -> Result<Option<Arc<Peer>>> {
        let has = timeout(LOOK_UP_TIME, self.has_now(peer, name)).await;
        let late = |_| Err(peer.error(format!("no reply within {} s", LOOK_UP_TIME.as_secs())));
        Ok(has.unwrap_or_else(late)?.then(|| Arc::clone(peer)))
    }

    async fn has_now(&self, peer: &Peer, name: &str) -> Result<bool> {
        let pattern = regex::escape(name);
        let found = self.json(peer, "bpl/getMatchingPVs", &[("regex", &pattern), ("limit", "1")], None).await?;
        Ok(found.as_ref().and_then(Json::as_array).is_some_and(|names| names.iter().any(|found| found == name)))
    }

    /// Peers that are known to have a PV.
    pub(crate) fn known_with(&self, name: &str) -> Vec<Arc<Peer>> {
        self.all().iter().filter(|peer| peer.has(name)).cloned().collect()
    }

    /// Asks a peer for its names. One that does not answer keeps those that it had.
    pub(crate) async fn visit(&self, peer: &Peer) {
        let _one = peer.visiting.lock().await;
        let began = Instant::now();
        match self.names_of(peer).await {
            Ok(names) => {
                let mut state = peer.state();
                state.names = Some(Arc::new(names));
                state.names_due = Some(Instant::now() + began.elapsed() * NAMES_PAUSE);
                if state.problem.take().is_some() {
                    tracing::info!(peer = peer.url, "a peer answers again");
                }
            }
            Err(error) => Peers::mark(peer, &error),
        }
    }

    /// Asks a peer for its names, or, if these took long and not long ago, whether it answers.
    pub(crate) async fn look_after(&self, peer: &Peer) {
        let is_due = {
            let state = peer.state();
            state.problem.is_some() || state.names_due.is_none_or(|due| due <= Instant::now())
        };
        if is_due {
            return self.visit(peer).await;
        }
        let _one = peer.visiting.lock().await;
        if let Err(error) = self.instance(peer).await {
            Peers::mark(peer, &error);
        }
    }

    async fn names_of(&self, peer: &Peer) -> Result<HashSet<String>> {
        let path = "bpl/getMatchingPVs";
        match self.json(peer, path, &[("regex", ".*"), ("limit", "-1")], None).await? {
            Some(Json::Array(names)) => Ok(names
                .into_iter()
                .filter_map(|name| if let Json::String(name) = name { Some(name) } else { None })
                .filter(|name| name.len() <= NAME_BYTES_MAX)
                .collect()),
            _ => Err(peer.error(format!("the reply to {path} is no list of names"))),
        }
    }

    /// The mark by which a running archiver knows itself; `None` if the peer has none, as an Appliance.
    pub(crate) async fn instance(&self, peer: &Peer) -> Result<Option<String>> {
        let version = self.json(peer, "bpl/getVersion", &[], None).await?;
        Ok(version.and_then(|version| version["instance"].as_str().map(str::to_owned)))
    }

    /// Notes that a peer does not answer as it should, and logs it the first time. It is not asked until the next visit. A request
    /// that it refuses is a mistake of the client, and not noted.
    pub(crate) fn note(peer: &Peer, error: &Error) {
        if error.state() == SqlState::CONNECTION_FAILURE {
            Peers::mark(peer, error);
        }
    }

    fn mark(peer: &Peer, error: &Error) {
        if peer.state().problem.replace(error.message().to_owned()).is_none() {
            tracing::warn!(%error, "a peer does not answer");
        }
    }

    /// Sends a request; `None` if the peer does not have what is asked for.
    ///
    /// # Errors
    /// 08006 if it does not answer, here and below. It is noted then. 22023 for a request that it refuses.
    async fn send(&self, peer: &Peer, address: &str, body: Option<String>) -> Result<Option<Pieces>> {
        let request = match body {
            None => http::Request::get(address).body(Body::empty()),
            Some(body) => http::Request::post(address).header("content-type", "application/json").body(body.into()),
        };
        let request = request.map_err(|error| peer.error(error))?;
        let sent = match timeout(REPLY_TIME, self.client.request(request)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(peer.error(cause(&error))),
            Err(_) => Err(peer.error(format!("no reply within {} s", REPLY_TIME.as_secs()))),
        };
        let reply = sent.inspect_err(|error| Peers::note(peer, error))?;
        let (status, until) = (reply.status(), Some(Instant::now() + STREAM_TIME));
        let stream =
            Body::new(reply.into_body()).into_data_stream().map(|piece| piece.map_err(io::Error::other)).boxed();
        let mut pieces = Pieces { runtime: Handle::current(), stream, piece: Bytes::new(), until };
        match status {
            StatusCode::OK => Ok(Some(pieces)),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::BAD_REQUEST => {
                // The first piece has the reason.
                let text = pieces.next().await.ok().flatten().unwrap_or_default();
                let text = String::from_utf8_lossy(&text[..text.len().min(REFUSAL_BYTES_MAX)]);
                Err(invalid(format!("peer {}: {}", peer.url, text.trim())))
            }
            status => Err(peer.error(format!("status {status} for {address}"))),
        }
    }

    /// The JSON of a reply; `None` if the peer does not have what is asked for.
    async fn json(
        &self,
        peer: &Peer,
        path: &str,
        parameters: &[(&str, &str)],
        body: Option<String>,
    ) -> Result<Option<Json>> {
        let call = async {
            let address = peer.address(path, parameters);
            let Some(mut pieces) = self.send(peer, &address, body).await? else { return Ok(None) };
            let mut text = Vec::new();
            while let Some(piece) = pieces.next().await.map_err(|error| peer.error(error))? {
                text.extend_from_slice(&piece);
                if text.len() > REPLY_BYTES_MAX {
                    return Err(peer.error(format!("the reply to {path} has more than {REPLY_BYTES_MAX} bytes")));
                }
            }
            let json = serde_json::from_slice(&text);
            json.map(Some).map_err(|error| peer.error(format!("the reply to {path} is no JSON: {error}")))
        };
        let late = || Err(peer.error(format!("{path} took more than {} s", CALL_TIME.as_secs())));
        timeout(CALL_TIME, call).await.unwrap_or_else(|_| late())
    }

    /// The newest sample of each of these PVs at or before a time, by name, as the Appliance tells it.
    pub(crate) async fn at_time(
        &self,
        peer: &Peer,
        names: &[String],
        at: Nanos,
        back: &str,
    ) -> Result<Map<String, Json>> {
        let body = serde_json::json!(names).to_string();
        let at = times::precise(at);
        match self.json(peer, "data/getDataAtTime", &[("at", &at), ("searchPeriod", back)], Some(body)).await? {
            Some(Json::Object(found)) => Ok(found),
            None => Ok(Map::new()),
            Some(_) => Err(peer.error("the reply to data/getDataAtTime is no JSON object")),
        }
    }

    /// The samples of PVs from a time on, as lines of JSON without an end; `None` if the peer does not have one of the PVs.
    pub(crate) async fn follow(&self, peer: &Peer, names: &[String], from: Nanos) -> Result<Option<Pieces>> {
        let from = times::precise(from);
        let names = names.iter().map(|name| ("pv", name.as_str()));
        let parameters: Vec<(&str, &str)> = names.chain([("from", from.as_str())]).collect();
        let pieces = self.send(peer, &peer.address("data/follow", &parameters), None).await?;
        Ok(pieces.map(|pieces| Pieces { until: None, ..pieces }))
    }

    /// Asks how much of a span of a PV a peer vouches for; `None` if it does not tell, as an Appliance.
    pub(crate) async fn coverage(&self, peer: &Peer, pv: &str, span: Span) -> Result<Option<Coverage>> {
        let (from, to) = (times::precise(span.from), times::precise(span.to));
        let path = "bpl/getCoverage";
        let Some(found) = self.json(peer, path, &[("pv", pv), ("from", &from), ("to", &to)], None).await? else {
            return Ok(None);
        };
        let wrong = |what: &Json| peer.error(format!("{what} in the reply to {path}"));
        let time = |of: &Json, name: &str| {
            of[name].as_str().map(|text| times::parse(name, text).map_err(|_| wrong(of))).transpose()
        };
        let gap = |gap: &Json| -> Result<Gap> {
            let reason = gap["reason"].as_str().unwrap_or_default();
            let reason = reason::ALL.into_iter().find(|own| *own == reason);
            let detail = gap["detail"].as_str().map(|text| &text[..text.floor_char_boundary(DETAIL_BYTES_MAX)]);
            Ok(Gap {
                start: time(gap, "from")?.ok_or_else(|| wrong(gap))?,
                reason: reason.unwrap_or(reason::DISCONNECTED),
                ended: time(gap, "to")?,
                samples: gap["samples"].as_i64(),
                detail: detail.map(str::to_owned),
                filled: None,
            })
        };
        let gaps = found["gaps"].as_array().ok_or_else(|| wrong(&found))?;
        Ok(Some(Coverage {
            from: time(&found, "from")?,
            until: time(&found, "until")?.ok_or_else(|| wrong(&found))?,
            gaps: gaps.iter().map(gap).collect::<Result<_>>()?,
        }))
    }

    /// The last event of a PV at or before the start of a span, and those of the span; `None` if the peer does not have the PV.
    ///
    /// - `operator`: what the peer makes of them.
    pub(crate) async fn events(
        &self,
        peer: &Arc<Peer>,
        pv: &str,
        operator: Option<&str>,
        span: Span,
    ) -> Result<Option<RemoteEvents>> {
        // An Appliance cuts times to milliseconds. What is behind the span is left out here; an operator needs its exact end.
        let to = if operator.is_none() { span.to.saturating_add(MILLISECOND) } else { span.to };
        let (from, to) = (times::precise(span.from), times::precise(to));
        let asked = operator.map_or_else(|| pv.to_owned(), |operator| format!("{operator}({pv})"));
        let parameters = [("pv", asked.as_str()), ("from", &from), ("to", &to)];
        let pieces = self.send(peer, &peer.address("data/getData.raw", &parameters), None).await?;
        Ok(pieces.map(|pieces| RemoteEvents {
            peer: Arc::clone(peer),
            records: Reader::new(pieces),
            fields: KnownFields::default(),
            count: 1,
            // An operator may date its last event behind the span.
            to: if operator.is_none() { span.to } else { Nanos::MAX },
            last: Nanos::MIN,
            headers: 0,
            versions: Versions::default(),
            ended: false,
        }))
    }
}

/// The part of a span of a PV that an archiver vouches for.
pub(crate) struct Coverage {
    /// It has no samples from before, and does not know whether there were any; `None` if it never archived the PV.
    pub(crate) from: Option<Nanos>,
    /// All that arrived before is stored.
    pub(crate) until: Nanos,
    pub(crate) gaps: Vec<Gap>,
}

/// The text of the innermost error.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The body of a reply. Reading it blocks the thread, which must be one that may.
pub(crate) struct Pieces {
    runtime: Handle,
    stream: BoxStream<'static, io::Result<Bytes>>,
    piece: Bytes,
    /// Time at which the reply must have ended; `None` for one without an end.
    until: Option<Instant>,
}

impl Pieces {
    pub(crate) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let end = Instant::now() + REPLY_TIME;
        let end = self.until.map_or(end, |until| until.min(end));
        match timeout_at(end, self.stream.next()).await {
            Ok(piece) => piece.transpose(),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the reply stopped")),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let runtime = self.runtime.clone();
            match runtime.block_on(self.next())? {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let bytes = self.piece.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.piece.split_to(bytes));
        Ok(bytes)
    }
}

/// Versions of a PV's metadata, oldest first. Those of a peer come with its events.
#[derive(Clone, Default)]
pub(crate) struct Versions(Arc<Mutex<Vec<Version>>>);

impl Versions {
    pub(crate) fn new(versions: Vec<Version>) -> Versions {
        Versions(Arc::new(Mutex::new(versions)))
    }

    /// Lets `read` see the versions.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&[Version]) -> T) -> T {
        read(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a version, if it differs from the one before it.
    fn add(&self, version: Version) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.partition_point(|known| known.since <= version.since);
        let is_same = at > 0 && all[at - 1].metadata == version.metadata && all[at - 1].ty == version.ty;
        if !is_same && all.len() < VERSIONS_MAX {
            all.insert(at, version);
        }
    }
}

/// Events of a PV at a peer, by increasing time. Reading blocks the thread, which must be one that may.
pub(crate) struct RemoteEvents {
    peer: Arc<Peer>,
    records: Reader<Pieces>,
    fields: KnownFields,
    /// Largest number of elements.
    count: i32,
    to: Nanos,
    /// Time of the event before.
    last: Nanos,
    /// Headers since the event before.
    headers: usize,
    versions: Versions,
    ended: bool,
}

impl RemoteEvents {
    /// Makes the versions of the metadata those of a request.
    pub(crate) fn with_versions(mut self, versions: &Versions) -> RemoteEvents {
        self.versions = versions.clone();
        self
    }

    fn fail(&mut self, problem: impl std::fmt::Display) -> Option<Result<Event>> {
        self.ended = true;
        let error = self.peer.error(problem);
        Peers::note(&self.peer, &error);
        Some(Err(error))
    }
}

impl Iterator for RemoteEvents {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        while !self.ended {
            match self.records.next()? {
                Ok(Record::Header(header)) => {
                    self.headers += 1;
                    if self.headers > HEADERS_MAX {
                        return self.fail(format!("{HEADERS_MAX} headers without an event"));
                    }
                    self.fields.learn(&header.fields);
                    self.count = header.elements.unwrap_or(1);
                }
                Ok(Record::Event(event)) if event.time() < self.last => {
                    let (time, last) = (times::precise(event.time()), times::precise(self.last));
                    return self.fail(format!("an event of {time} behind one of {last}"));
                }
                Ok(Record::Event(event)) if event.time() <= self.to => {
                    (self.last, self.headers) = (event.time(), 0);
                    self.fields.learn(&event.fields);
                    if self.fields.take_change() {
                        self.versions.add(Version {
                            since: event.time() - event.time().rem_euclid(1_000),
                            ty: values::type_of(&event.sample.value),
                            count: self.count,
                            host: String::new(),
                            metadata: self.fields.metadata(),
                        });
                    }
                    return Some(Ok(event));
                }
                Ok(Record::Event(_)) => self.ended = true,
                // A reply that is cut off, or no reply of an archiver.
                Ok(Record::Damaged(damage)) => return self.fail(damage),
                Err(error) => return self.fail(error),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gets_the_path_of_retrieval_and_must_be_http() {
        for (text, expected) in [
            ("http://a:8080", "http://a:8080/retrieval"),
            ("http://a:8080/", "http://a:8080/retrieval"),
            (" http://a:17668/retrieval/ ", "http://a:17668/retrieval"),
            ("http://[::1]:1/x/y", "http://[::1]:1/x/y"),
        ] {
            assert_eq!(normal_url(text).unwrap(), expected);
        }
        for (text, state) in [
            ("a:8080", SqlState::INVALID_PARAMETER_VALUE),
            ("/retrieval", SqlState::INVALID_PARAMETER_VALUE),
            ("http://a b", SqlState::INVALID_PARAMETER_VALUE),
            ("http://a/x?y=z", SqlState::INVALID_PARAMETER_VALUE),
            ("https://a", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(normal_url(text).unwrap_err().state(), state, "{text}");
        }
    }
}
