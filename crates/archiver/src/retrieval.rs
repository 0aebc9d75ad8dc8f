//! `/retrieval`: samples as the Appliance's clients ask for them.
//!
//! | path | reply |
//! |---|---|
//! | `data/getData.EXT` | events of one PV, processed by an operator if one is asked for |
//! | `data/getDataForPVs.EXT` | events of several PVs |
//! | `data/getDataAtTime` | the newest sample of each PV at a time |
//! | `bpl/…` | names, metadata and versions |

use std::io::{self, Write};
use std::sync::Arc;

use epics::event::Event;
use epics::formats::{Format, Pv, Reply};
use epics::pb::Payload;
use epics::processors::{Input, Operator, ProcessError, Span};
use epics::sample::Nanos;
use model::{Error, Result, SqlState};
use query::Value;
use serde_json::{Map, Value as Json, json};
use server::http::{Method, Request, Response, StatusCode};
use tokio::runtime::Handle;

use crate::history::{self, Events};
use crate::names;
use crate::parameters::{Parameters, invalid};
use crate::replies;
use crate::shared::Shared;
use crate::sql::Sql;
use crate::streams::{self, gone};
use crate::summaries::{self, WINDOW, window_of};
use crate::tables::Version;
use crate::times;
use crate::type_info;
use crate::values;

const HOUR: Nanos = 3_600 * 1_000_000_000;
const DAY: Nanos = 24 * HOUR;
/// Time that `getDataAtTime` looks back, by default.
const LOOK_BACK: Nanos = 31 * DAY;
/// Events between looks at the client.
const LOOK_EVENTS: usize = 1 << 14;
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

/// A PV of a request.
pub(crate) struct Asked {
    /// Name in the request.
    requested: String,
    /// Name under which samples are stored.
    pub(crate) name: String,
    pub(crate) operator: Option<Operator>,
    pub(crate) span: Span,
    pub(crate) versions: Vec<Version>,
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
    let mut all = Vec::new();
    for requested in asked {
        for span in &spans {
            all.push(find(shared, requested, operator.clone(), *span).await?);
        }
    }
    // aapy accepts gzip and does not decode it in replies of type raw; the Appliance compresses none.
    let zip = format != Format::Raw && streams::accepts_gzip(request);
    let shared = Arc::clone(shared);
    let runtime = Handle::current();
    streams::reply(format.mime(), zip, move |output| {
        let is_wanted = output.watch();
        let mut reply = Reply::new(format, output);
        for asked in &all {
            let events = events(&shared, &runtime, asked, is_wanted.clone())?;
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

/// The PV that a parameter names. Where a PV has the whole text as its name, this is it, even if it looks like an operator.
///
/// # Errors
/// 22023 for an operator; 42704 for a PV that is not known; those of SQL.
pub(crate) async fn find(shared: &Shared, requested: &str, operator: Option<Operator>, span: Span) -> Result<Asked> {
    let mut sql = Sql::new(&shared.database);
    let (name, operator) = match real_name(shared, &mut sql, requested).await? {
        Some(name) => (name, operator),
        None => {
            let parsed = epics::processors::Request::parse(requested).map_err(|error| invalid(error.to_string()))?;
            let found = match &parsed.operator {
                Some(_) => real_name(shared, &mut sql, &parsed.pv).await?,
                None => None,
            };
            let name = found.ok_or_else(|| unknown(&parsed.pv))?;
            (name, parsed.operator.or(operator))
        }
    };
    let versions = history::versions_of(&mut sql, &name).await?;
    Ok(Asked { requested: requested.to_owned(), name, operator, span, versions })
}

/// An error for a PV that has never been archived.
pub(crate) fn unknown(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("PV \"{name}\" is not archived"))
}

/// The name under which samples are stored: that of a PV that is archived, or of one that has samples.
async fn real_name(shared: &Shared, sql: &mut Sql, name: &str) -> Result<Option<String>> {
    let normal = names::normal(name);
    {
        let registry = shared.registry.lock().await;
        if let Some(pv) = registry.find(normal).or_else(|| registry.find(name)) {
            return Ok(Some(pv.definition.name.to_string()));
        }
    }
    let text = "SELECT 1 FROM epics.samples WHERE pv = $1 LIMIT 1";
    let found = sql.rows(text, &[Value::Text(normal.to_owned())]).await?;
    Ok(found.iter().any(|rows| rows.len() > 0).then(|| normal.to_owned()))
}

/// The events of a PV, processed by its operator. Operators may compute for long without a piece of the reply: they stop when
/// nobody waits for it.
///
/// # Errors
/// Those of SQL.
pub(crate) fn events(
    shared: &Shared,
    runtime: &Handle,
    asked: &Asked,
    is_wanted: impl Fn() -> bool + 'static,
) -> Result<Box<dyn Iterator<Item = Result<Event>>>> {
    let named =
        |name: &'static str| move |event: std::result::Result<_, _>| event.map_err(|error| refused(name, error));
    if let Some(operator) = &asked.operator
        && let Some(binned) = operator.binned(summaries::UNIT, asked.span)
        && let Some(inputs) = runtime.block_on(summarised(shared, asked, binned.points()))?
    {
        return Ok(Box::new(binned.run(inputs, asked.span).map(named(operator.name()))));
    }
    let events = runtime.block_on(Events::new(&shared.database, &asked.name, asked.span))?;
    let events = events.enumerate().map(move |(at, event)| {
        if at % LOOK_EVENTS == 0 && !is_wanted() {
            return Err(gone(io::ErrorKind::BrokenPipe.into()));
        }
        event
    });
    let Some(operator) = asked.operator.clone() else { return Ok(Box::new(events)) };
    let name = operator.name();
    Ok(Box::new(operator.run(events, asked.span).map(named(name))))
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
    let Asked { name, span, versions, .. } = asked;
    // Operators that compute take the index of an enumeration as a number.
    let is_number = |version: &Version| values::is_number(version.ty) || version.ty == Payload::Enum as i16;
    // Behind the windows, a nanosecond before is the last time that is not read.
    let from = window_of(span.from.saturating_add(WINDOW - 1));
    let to = window_of(span.to.min(shared.watermarks.done()));
    if versions.is_empty() || !versions.iter().all(is_number) || to.saturating_sub(from) < WINDOWS_MIN * WINDOW {
        return Ok(None);
    }
    let mut sql = Sql::new(&shared.database);
    let was_stale = summaries::is_stale(&mut sql, name, from, to).await?;
    let (mut parts, samples) = summaries::parts(&mut sql, name, from, to).await?;
    // Asked behind the parts too: what became stale meanwhile, or was when they were read, is seen.
    if samples <= points as u64 || was_stale || summaries::is_stale(&mut sql, name, from, to).await? {
        return Ok(None);
    }
    let interruptions = history::interruptions(&mut sql, name, *span).await?;
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

/// Writes the events of a PV. Replies of type raw have a new header where the metadata change; others have the newest.
fn write_events<W: Write>(
    asked: &Asked,
    events: impl Iterator<Item = Result<Event>>,
    format: Format,
    reply: &mut Reply<W>,
) -> Result<()> {
    let Asked { requested, name, span, versions, .. } = asked;
    let pv = |version: Option<&Version>, ty: i16, time: Nanos| {
        let header = history::header(name, version, ty, time);
        Pv { header, requested: requested.clone(), source: "millrace".to_owned() }
    };
    let is_raw = format == Format::Raw;
    let mut current: Option<Option<&Version>> = None;
    for event in events {
        let event = event?;
        let time = event.time();
        let version = history::version_at(versions, if is_raw { time } else { span.to });
        // Versions have addresses in one list: they are compared by identity.
        let is_new =
            current.is_none_or(|known| is_raw && known.map(std::ptr::from_ref) != version.map(std::ptr::from_ref));
        if is_new {
            reply.start(&pv(version, values::type_of(&event.sample.value), time)).map_err(gone)?;
            current = Some(version);
        }
        reply.event(&event).map_err(gone)?;
    }
    if current.is_none() {
        let version = history::version_at(versions, span.to);
        let ty = version.map_or(Payload::Float64 as i16, |version| version.ty);
        reply.start(&pv(version, ty, span.from)).map_err(gone)?;
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
    let mut sql = Sql::new(&shared.database);
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
    let real = wanted.iter().map(|(real, _)| real.clone()).collect();
    let found = history::samples_at_time(&mut sql, real, at.saturating_sub(back), at).await?;
    let found: std::collections::HashMap<String, epics::sample::Sample> = found.into_iter().collect();
    let mut reply = Map::new();
    for (real, name) in wanted {
        let Some(sample) = found.get(&real) else { continue };
        let seconds = sample.time.div_euclid(1_000_000_000);
        let value = json!({
            "secs": seconds,
            "nanos": sample.time.rem_euclid(1_000_000_000),
            "val": replies::value(&sample.value),
            "severity": sample.severity as u8,
            "status": sample.status,
            "meta": { "DBRType": Payload::of(&sample.value).dbr_name() },
        });
        reply.insert(name, value);
    }
    Ok(replies::json(&Json::Object(reply)))
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
        "getVersion" => Ok(replies::json(&json!({ "retrieval_version": replies::VERSION }))),
        "getMatchingPVs" => {
            let limit = parameters.limit(Some(500))?;
            let names = matching(shared, &parameters).await?;
            Ok(replies::json(&json!(names.iter().take(limit).collect::<Vec<_>>())))
        }
        "searchForPVsRegex" => {
            let regex = parameters.expect("regex")?;
            let names = names::matching_regex(&shared.names().await, regex)?;
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
        "getMetadata" => type_info::metadata(shared, parameters.expect("pv")?).await,
        "getClientConfig" => Ok(replies::json(&json!({}))),
        action => Ok(replies::unknown_action("retrieval/bpl", action)),
    }
}

/// Names that the parameters `pv` (a pattern) or `regex` match; all without either.
pub(crate) async fn matching(shared: &Shared, parameters: &Parameters) -> Result<Vec<Arc<str>>> {
    let all = shared.names().await;
    match (parameters.get("pv"), parameters.get("regex")) {
        (Some(list), _) if list.contains(',') => names::expand(&all, list),
        (Some(pattern), _) => names::matching(&all, pattern),
        (None, Some(regex)) => names::matching_regex(&all, regex),
        (None, None) => Ok(shared.registry.lock().await.names()),
    }
}

/// A reply with the status 404.
pub(crate) fn not_found(text: &str) -> Response {
    replies::status(StatusCode::NOT_FOUND, text)
}
