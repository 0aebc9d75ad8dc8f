//! `/retrieval`: samples as the Appliance's clients ask for them.
//!
//! | path | reply |
//! |---|---|
//! | `data/getData.EXT` | events of one PV, processed by an operator if one is asked for |
//! | `data/getDataForPVs.EXT` | events of several PVs |
//! | `data/getDataAtTime` | the newest sample of each PV at a time |
//! | `bpl/…` | names, gaps, metadata and versions |

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use epics::event::Event;
use epics::formats::{Format, Pv, Reply};
use epics::pb::Payload;
use epics::processors::{Operator, Span};
use epics::sample::{Nanos, Sample};
use model::{Error, Result, SqlState};
use query::client::SqlClient;
use serde_json::{Map, Value as Json, json};
use server::http::streamed::{self, gone};
use server::http::{Method, Request, Response, StatusCode};
use tokio::runtime::Handle;

use crate::history;
use crate::names;
use crate::parameters::{Parameters, invalid};
use crate::peers::{Coverage, OWN_ONLY, Peer};
use crate::reading::{self, Asked};
use crate::replies;
use crate::shared::Shared;
use crate::tables::Gap;
use crate::times;
use crate::type_info;
use crate::values;

const SECOND: Nanos = 1_000_000_000;
const HOUR: Nanos = 3_600 * SECOND;
const DAY: Nanos = 24 * HOUR;
/// Time that `getDataAtTime` looks back, by default.
const LOOK_BACK: Nanos = 31 * DAY;
/// Names of a request for a point in time, at most.
const NAMES_MAX: usize = 200_000;
/// PVs of one request, at most.
const PVS_MAX: usize = 10_000;

/// Replies to `data/ACTION.EXT`.
///
/// # Errors
/// 22023 for a parameter; 42704 (404) for a PV that is not known; those of SQL.
pub(crate) async fn data(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let action = request.parameter("action").unwrap_or_default();
    let (action, extension) = action.split_once('.').unwrap_or((action, ""));
    match action {
        "getDataAtTime" | "getDataAtTimeForAppliance" => at_time(shared, request).await,
        "getData" | "getDataForPVs" => {
            let format = Format::of(extension).ok_or_else(|| {
                Error::unsupported(format!("replies of type \"{extension}\": there are raw, json, qw, csv and txt"))
            })?;
            get_data(shared, request, action == "getDataForPVs", format).await
        }
        action => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("there is no data/{action}"))),
    }
}

async fn get_data(shared: &Arc<Shared>, request: &Request, several: bool, format: Format) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let spans = spans(&parameters, shared.now())?;
    let asked: Vec<&str> = if several {
        parameters.all("pv").flat_map(|names| names.split(',')).collect()
    } else {
        parameters.get("pv").into_iter().collect()
    };
    if asked.is_empty() {
        return Err(invalid("parameter pv is absent".to_owned()));
    }
    if asked.len() * spans.len() > PVS_MAX {
        return Err(invalid(format!("the request has {} PVs and ranges, at most {PVS_MAX} are allowed", asked.len())));
    }
    if asked.len() > 1 && !format.has_several_pvs() {
        return Err(invalid("this type of reply has one PV: use raw, json or qw".to_owned()));
    }
    let operator = parameters.get("pp").map(Operator::parse).transpose().map_err(|error| invalid(error.to_string()))?;
    let own_only = parameters.flag(OWN_ONLY)?;
    let mut all = Vec::new();
    for requested in asked {
        for span in &spans {
            all.push(reading::find(shared, requested, operator.clone(), *span, own_only).await?);
        }
    }
    // aapy accepts gzip and does not decode it in replies of type raw; the Appliance compresses none.
    let zip = format != Format::Raw && streamed::accepts_gzip(request.headers());
    let shared = Arc::clone(shared);
    let runtime = Handle::current();
    streamed::reply(format.mime(), zip, move |output| {
        let is_wanted = output.watch();
        let mut reply = Reply::new(format, output);
        for asked in &all {
            let events = reading::events(&shared, &runtime, asked, is_wanted.clone())?;
            write_events(asked, events, format, &mut reply)?;
        }
        reply.finish().map(drop).map_err(gone)
    })
    .await
}

/// The range of a request, or its ranges.
fn spans(parameters: &Parameters, now: Nanos) -> Result<Vec<Span>> {
    let span = |from: Nanos, to: Nanos| {
        if from <= to {
            return Ok(Span { from, to });
        }
        Err(invalid(format!("the range ends at {}, before it begins at {}", times::iso(to), times::iso(from))))
    };
    if let Some(ranges) = parameters.get("timeranges") {
        let times = ranges.split(',').map(|text| times::parse("timeranges", text)).collect::<Result<Vec<_>>>()?;
        let (pairs, []) = times.as_chunks::<2>() else {
            return Err(invalid("parameter timeranges has an odd number of times".to_owned()));
        };
        return pairs.iter().map(|[from, to]| span(*from, *to)).collect();
    }
    let time = |name: &str| parameters.get(name).map(|text| times::parse(name, text)).transpose();
    let to = time("to")?.unwrap_or_else(|| now.saturating_add(HOUR));
    let from = time("from")?.unwrap_or_else(|| to.saturating_sub(DAY));
    Ok(vec![span(from, to)?])
}

/// Writes the events of a PV. Replies of type raw have a new header where the metadata change; others have the newest.
fn write_events<W: Write>(
    asked: &Asked,
    events: impl Iterator<Item = Result<Event>>,
    format: Format,
    reply: &mut Reply<W>,
) -> Result<()> {
    let Asked { requested, name, span, versions, .. } = asked;
    let pv = |at: Nanos, ty: Option<i16>, time: Nanos| {
        let header = versions.read(|versions| {
            let version = history::version_at(versions, at);
            let ty = ty.or(version.map(|version| version.ty)).unwrap_or(Payload::Float64 as i16);
            history::header(name, version, ty, time)
        });
        Pv { header, requested: requested.clone(), source: "millrace".to_owned() }
    };
    let is_raw = format == Format::Raw;
    // The time from which the version of the last header is true, where there is a version.
    let mut current: Option<Option<Nanos>> = None;
    for event in events {
        let event = event?;
        let time = event.time();
        let at = if is_raw { time } else { span.to };
        if current.is_none() || is_raw {
            let since = versions.read(|versions| history::version_at(versions, at).map(|version| version.since));
            if current != Some(since) {
                reply.start(&pv(at, Some(values::type_of(&event.sample.value)), time)).map_err(gone)?;
                current = Some(since);
            }
        }
        reply.event(&event).map_err(gone)?;
    }
    if current.is_none() {
        reply.start(&pv(span.to, None, span.from)).map_err(gone)?;
    }
    Ok(())
}

async fn at_time(shared: &Shared, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let at = match parameters.get("at") {
        Some(text) => times::parse("at", text)?,
        None => shared.now(),
    };
    let back = match parameters.get("searchPeriod") {
        Some(text) => period(text)?,
        None => LOOK_BACK,
    };
    let asked = names_of(request, &parameters)?;
    if asked.len() > NAMES_MAX {
        return Err(invalid(format!("the request has {} names, at most {NAMES_MAX} are allowed", asked.len())));
    }
    let mut sql = SqlClient::new(&shared.database);
    // Real names, and the names that were asked for.
    let mut wanted: Vec<(String, String)> = Vec::with_capacity(asked.len());
    {
        let registry = shared.registry.lock().await;
        for name in asked {
            let normal = names::normal(&name);
            let real = registry.find(normal).map_or_else(|| normal.to_owned(), |pv| pv.definition.name.to_string());
            wanted.push((real, name));
        }
    }
    let real: Vec<String> = wanted.iter().map(|(real, _)| real.clone()).collect();
    let found = history::samples_at_time(&mut sql, real.clone(), at.saturating_sub(back), at).await?;
    let own = found.into_iter().map(|(name, sample)| (name, (sample.time, told(&sample))));
    let mut newest: HashMap<String, (Nanos, Json)> = own.collect();
    if !parameters.flag(OWN_ONLY)? {
        at_peers(shared, &mut sql, &real, at, back, &mut newest).await?;
    }
    let mut reply = Map::new();
    for (real, name) in wanted {
        if let Some((_, sample)) = newest.get(&real) {
            reply.insert(name, sample.clone());
        }
    }
    Ok(replies::json(&Json::Object(reply)))
}

/// A sample in a reply for a point in time.
fn told(sample: &Sample) -> Json {
    json!({
        "secs": sample.time.div_euclid(SECOND),
        "nanos": sample.time.rem_euclid(SECOND),
        "val": replies::value(&sample.value),
        "severity": sample.severity as u8,
        "status": sample.status,
        "meta": { "DBRType": Payload::of(&sample.value).dbr_name() },
    })
}

/// Adds samples of peers that are newer: of PVs that are not archived here, and of those that had a gap.
async fn at_peers(
    shared: &Shared,
    sql: &mut SqlClient,
    names: &[String],
    at: Nanos,
    back: Nanos,
    newest: &mut HashMap<String, (Nanos, Json)>,
) -> Result<()> {
    let peers = shared.peers.all();
    if peers.is_empty() {
        return Ok(());
    }
    let in_gap = history::unfilled_at(sql, at).await?;
    let asked: Vec<&String> = {
        let registry = shared.registry.lock().await;
        names.iter().filter(|name| registry.get(name).is_none() || in_gap.contains(*name)).collect()
    };
    let wanted: HashSet<&String> = asked.iter().copied().collect();
    let back = format!("PT{}S", back / SECOND);
    let ask = async |peer: &Arc<Peer>| {
        let names: Vec<String> = asked.iter().filter(|name| peer.has(name)).map(|name| (*name).clone()).collect();
        match (names.is_empty(), peer.problem()) {
            (true, _) => Ok(Map::new()),
            (false, None) => shared.peers.at_time(peer, &names, at, &back).await,
            (false, Some(problem)) => Err(Error::new(SqlState::CONNECTION_FAILURE, problem)),
        }
    };
    for found in futures::future::join_all(peers.iter().map(ask)).await {
        // The Appliance leaves out what it cannot reach; the newest sample of its own is not wrong.
        for (name, sample) in found.unwrap_or_default().into_iter().filter(|(name, _)| wanted.contains(name)) {
            let (Some(seconds), Some(nanos)) = (sample["secs"].as_i64(), sample["nanos"].as_i64()) else { continue };
            let time = seconds.saturating_mul(SECOND).saturating_add(nanos);
            if newest.get(&name).is_none_or(|(known, _)| *known < time) {
                newest.insert(name, (time, sample));
            }
        }
    }
    Ok(())
}

/// A period of ISO 8601, such as P31D.
fn period(text: &str) -> Result<Nanos> {
    let wrong = || invalid(format!("parameter searchPeriod is \"{text}\": expected a period such as P31D"));
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let total = span.total((jiff::Unit::Nanosecond, days)).or_else(|_| {
        // Months and years have a length from a date on.
        span.total((jiff::Unit::Nanosecond, jiff::civil::date(2024, 1, 1)))
    });
    total.map(|nanos| nanos as Nanos).map_err(|_| wrong())
}

/// Names of PVs in the body, a JSON list or lines, or in the parameter `pv`.
pub(crate) fn names_of(request: &Request, parameters: &Parameters) -> Result<Vec<String>> {
    let body = String::from_utf8_lossy(request.body());
    let trimmed = body.trim();
    if request.method() == Method::POST && trimmed.starts_with('[') {
        return serde_json::from_str(trimmed)
            .map_err(|error| invalid(format!("the body is no JSON list of names: {error}")));
    }
    let list = match parameters.get("pv") {
        Some(list) => list,
        None => trimmed,
    };
    Ok(list.split([',', '\n', '\r']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// Replies to `bpl/ACTION`.
///
/// # Errors
/// As [`data`].
pub(crate) async fn business(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    match request.parameter("action").unwrap_or_default() {
        "getVersion" => {
            // Tells an archiver that it asks itself.
            let instance = shared.started.to_string();
            Ok(replies::json(&json!({ "retrieval_version": replies::VERSION, "instance": instance })))
        }
        "getMatchingPVs" => {
            let limit = parameters.limit(Some(500))?;
            let names = matching(shared, &parameters, parameters.flag(OWN_ONLY)?).await?;
            Ok(replies::json(&json!(names.iter().take(limit).collect::<Vec<_>>())))
        }
        "searchForPVsRegex" => {
            let regex = parameters.expect("regex")?;
            let names = names::matching_regex(&all_names(shared, parameters.flag(OWN_ONLY)?).await, regex)?;
            let mut text = String::new();
            for name in names {
                text.push_str(&name);
                text.push('\n');
            }
            Ok(replies::text(text))
        }
        "areWeArchivingPV" => {
            let name = names::normal(parameters.expect("pv")?);
            let is = shared.registry.lock().await.find(name).is_some();
            Ok(replies::json(&json!({ "status": is.to_string() })))
        }
        "filterArchivedPVs" => {
            let names = names_of(request, &parameters)?;
            let registry = shared.registry.lock().await;
            let kept: Vec<&String> = names.iter().filter(|name| registry.find(names::normal(name)).is_some()).collect();
            Ok(replies::json(&json!(kept)))
        }
        "getGaps" => gaps(shared, &parameters).await,
        "getCoverage" => coverage(shared, &parameters).await,
        "getMetadata" => type_info::metadata(shared, parameters.expect("pv")?).await,
        "getClientConfig" => Ok(replies::json(&json!({}))),
        action => Ok(replies::unknown_action("retrieval/bpl", action)),
    }
}

/// Names that the parameters `pv` (a pattern) or `regex` match; all without either.
pub(crate) async fn matching(shared: &Shared, parameters: &Parameters, own_only: bool) -> Result<Vec<Arc<str>>> {
    let all = all_names(shared, own_only).await;
    match (parameters.get("pv"), parameters.get("regex")) {
        (Some(list), _) if list.contains(',') => names::expand(&all, list),
        (Some(pattern), _) => names::matching(&all, pattern),
        (None, Some(regex)) => names::matching_regex(&all, regex),
        (None, None) => {
            let own = shared.registry.lock().await.names();
            Ok(with_peers(shared, own, own_only))
        }
    }
}

/// Names and aliases of the PVs of this archiver and, unless only its own are wanted, of its peers, sorted.
pub(crate) async fn all_names(shared: &Shared, own_only: bool) -> Vec<Arc<str>> {
    with_peers(shared, shared.names().await, own_only)
}

fn with_peers(shared: &Shared, mut names: Vec<Arc<str>>, own_only: bool) -> Vec<Arc<str>> {
    let peers = shared.peers.all();
    if !own_only && !peers.is_empty() {
        for peer in peers.iter() {
            names.extend(peer.names().iter().map(|name| Arc::from(name.as_str())));
        }
        names.sort_unstable();
        names.dedup();
    }
    names
}

/// The PV and the range of a request for gaps.
async fn pv_and_span(shared: &Shared, parameters: &Parameters) -> Result<(String, Span)> {
    let name = names::normal(parameters.expect("pv")?);
    let span = match spans(parameters, shared.now())?.as_slice() {
        [span] => *span,
        _ => return Err(invalid("gaps have one range: from and to".to_owned())),
    };
    let mut sql = SqlClient::new(&shared.database);
    let real = reading::real_name(shared, &mut sql, name).await?;
    Ok((real.ok_or_else(|| reading::unknown(name))?, span))
}

/// Gaps of a PV, oldest first.
async fn gaps(shared: &Shared, parameters: &Parameters) -> Result<Response> {
    let (name, span) = pv_and_span(shared, parameters).await?;
    let gaps = history::gaps(&mut SqlClient::new(&shared.database), &name, span).await?;
    Ok(replies::json(&gaps.iter().map(gap).collect()))
}

/// The part of a range that this archiver vouches for: from when on and until when it has all that arrived, and its gaps.
async fn coverage(shared: &Shared, parameters: &Parameters) -> Result<Response> {
    let (name, span) = pv_and_span(shared, parameters).await?;
    let Coverage { from, until, gaps } = reading::coverage(shared, &name, span).await?;
    Ok(replies::json(&json!({
        "from": from.map(times::precise),
        "until": times::precise(until),
        "gaps": gaps.iter().map(gap).collect::<Vec<_>>(),
    })))
}

fn gap(gap: &Gap) -> Json {
    json!({
        "from": times::precise(gap.start),
        "to": gap.ended.map(times::precise),
        "reason": gap.reason,
        "samples": gap.samples,
        "detail": gap.detail,
        "filled": gap.filled,
    })
}

/// A reply with the status 404.
pub(crate) fn not_found(text: &str) -> Response {
    replies::status(StatusCode::NOT_FOUND, text)
}
