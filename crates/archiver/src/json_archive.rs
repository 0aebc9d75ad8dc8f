//! `/archive`: the JSON archive of Phoebus's data browser (`json:http://HOST:PORT/`).
//!
//! | path | reply |
//! |---|---|
//! | `/archive/` | the archives: one, with the key 1 |
//! | `/archive/1/channels-by-pattern/P` | names that a pattern matches |
//! | `/archive/1/samples/PV?start=NS&end=NS[&count=N]` | samples, each with the metadata of its time; with a count and more samples, minimum, maximum and mean of N parts |
//!
//! A gap is a sample without a value: NaN, invalid, with the reason as its status.

use std::io::Write;
use std::sync::Arc;

use epics::event::Event;
use epics::processors::{Operator, Span};
use epics::sample::{Array, Limits, Nanos, STATUS_NAMES, Scalar, Severity, Value};
use model::Result;
use serde_json::{Value as Json, json};
use server::http::streamed::{self, Output, gone};
use server::http::{Request, Response};

use crate::history::{self, Interruption};
use crate::names;
use crate::parameters::{Parameters, invalid};
use crate::peers::OWN_ONLY;
use crate::reading::{self, Asked};
use crate::replies;
use crate::retrieval;
use crate::shared::Shared;
use crate::tables::Version;
use crate::values;

/// The list of archives.
pub(crate) fn archives() -> Response {
    replies::json(&json!([{ "key": 1, "name": "epics", "description": "EPICS process variables in Millrace" }]))
}

/// Names of PVs that the pattern of the path matches.
///
/// # Errors
/// 22023 for a pattern that is too long.
pub(crate) async fn channels(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let pattern = request.parameter("pattern").unwrap_or("*");
    let own_only = Parameters::of(request)?.flag(OWN_ONLY)?;
    Ok(replies::json(&json!(names::matching(&retrieval::all_names(shared, own_only).await, pattern)?)))
}

/// Samples of a PV.
///
/// # Errors
/// 22023 for a parameter; 42704 (404) for a PV that is not known; those of SQL.
pub(crate) async fn samples(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let time = |name: &str| -> Result<Nanos> {
        let text = parameters.expect(name)?;
        text.parse().map_err(|_| invalid(format!("parameter {name} is \"{text}\": expected nanoseconds since 1970")))
    };
    let span = Span { from: time("start")?, to: time("end")? };
    if span.to < span.from {
        return Err(invalid("the range ends before it begins".to_owned()));
    }
    let points = parameters.get("count").map(|count| {
        let points = count.parse::<i64>().ok().filter(|points| *points > 0);
        points.ok_or_else(|| invalid(format!("parameter count is \"{count}\": expected a number of points")))
    });
    let points = points.transpose()?;
    let pv = request.parameter("pv").unwrap_or_default();
    let mut asked = reading::find(shared, pv, None, span, parameters.flag(OWN_ONLY)?).await?;
    let mut is_summary = false;
    if let Some(points) = points {
        let are_numbers = |versions: &[Version]| versions.iter().all(|version| values::is_number(version.ty));
        is_summary = asked.versions.read(are_numbers) && reading::is_number(shared, &asked).await?;
        asked.operator = if is_summary {
            operator(&format!("optimizedSample_{points}"))
        } else {
            // Enumerations, texts and waveforms have no mean: every so many is shown.
            let every = reading::count(shared, &asked).await? / points + 1;
            if every > 1 { operator(&format!("nth_{every}")) } else { None }
        };
    }
    let gaps = history::interruptions(&reading::gaps(shared, &asked).await?);
    let shared = Arc::clone(shared);
    let runtime = tokio::runtime::Handle::current();
    let zip = streamed::accepts_gzip(request.headers());
    streamed::reply("application/json", zip, move |output| {
        let events = reading::events(&shared, &runtime, &asked, output.watch())?;
        write(&asked, events, is_summary, gaps, output)
    })
    .await
}

/// An operator by its name; none if a parameter is out of its range.
fn operator(text: &str) -> Option<Operator> {
    Operator::parse(text).ok()
}

/// - `is_summary`: five doubles are the statistics of a bin.
fn write(
    asked: &Asked,
    events: impl Iterator<Item = Result<Event>>,
    is_summary: bool,
    gaps: Vec<Interruption>,
    output: &mut Output,
) -> Result<()> {
    let mut gaps = gaps.into_iter().peekable();
    let mut is_first = true;
    let mut line = |output: &mut Output, sample: &Json| {
        let before: &[u8] = if std::mem::take(&mut is_first) { b"[\n" } else { b",\n" };
        let written = output.write_all(before).and_then(|()| serde_json::to_writer(output, sample).map_err(Into::into));
        written.map_err(gone)
    };
    for event in events {
        let event = event?;
        while let Some(gap) = gaps.next_if(|gap| gap.start < event.time()) {
            line(output, &without_value(&gap))?;
        }
        let told =
            asked.versions.read(|versions| sample(&event, history::version_at(versions, event.time()), is_summary));
        line(output, &told)?;
    }
    for gap in gaps {
        line(output, &without_value(&gap))?;
    }
    output.write_all(if is_first { b"[\n]\n" } else { b"\n]\n" }).map_err(gone)
}

fn without_value(gap: &Interruption) -> Json {
    let status = match (gap.paused, gap.stopped) {
        (true, _) => "Archive_Disabled",
        (false, true) => "Archive_Off",
        (false, false) => "Disconnected",
    };
    json!({
        "time": gap.start,
        "severity": { "level": "INVALID", "hasValue": false },
        "status": status,
        "quality": "Original",
        "type": "double",
        "value": ["NaN"],
    })
}

fn sample(event: &Event, version: Option<&Version>, is_summary: bool) -> Json {
    let severity = match event.sample.severity {
        Severity::None => "OK",
        severity => severity.name(),
    };
    let (ty, value) = value(&event.sample.value);
    let mut sample = json!({
        "time": event.time(),
        "severity": { "level": severity, "hasValue": true },
        "status": STATUS_NAMES.get(usize::from(event.sample.status)).copied().unwrap_or("UNKNOWN"),
        "quality": "Original",
        "type": ty,
        "value": value,
    });
    if is_summary
        && let Value::Array(Array::Float64(statistics)) = &event.sample.value
        && let [mean, _, minimum, maximum, _] = statistics[..]
    {
        sample["type"] = json!("minMaxDouble");
        sample["value"] = json!([replies::number(mean)]);
        sample["minimum"] = replies::number(minimum);
        sample["maximum"] = replies::number(maximum);
        sample["quality"] = json!("Interpolated");
    }
    match sample["type"].as_str() {
        Some("enum") => {
            let labels = version.map(|version| version.metadata.labels.as_slice()).unwrap_or_default();
            sample["metaData"] = json!({ "type": "enum", "states": labels });
        }
        Some("string") | None => {}
        Some(_) => {
            if let Some(limits) = version.and_then(|version| version.metadata.limits) {
                sample["metaData"] = display(version, &limits);
            }
        }
    }
    sample
}

fn display(version: Option<&Version>, limits: &Limits) -> Json {
    let metadata = version.map(|version| &version.metadata);
    json!({
        "type": "numeric",
        "precision": metadata.and_then(|metadata| metadata.precision).unwrap_or(0),
        "units": metadata.and_then(|metadata| metadata.units.as_deref()).unwrap_or(""),
        "displayLow": replies::number(limits.display.0),
        "displayHigh": replies::number(limits.display.1),
        "warnLow": replies::number(limits.warning.0),
        "warnHigh": replies::number(limits.warning.1),
        "alarmLow": replies::number(limits.alarm.0),
        "alarmHigh": replies::number(limits.alarm.1),
    })
}

/// The type of a value, and its elements.
fn value(value: &Value) -> (&'static str, Json) {
    let ty = match value {
        Value::Scalar(Scalar::Float32(_) | Scalar::Float64(_))
        | Value::Array(Array::Float32(_) | Array::Float64(_)) => "double",
        Value::Scalar(Scalar::Enum(_)) | Value::Array(Array::Enum(_)) => "enum",
        Value::Scalar(Scalar::Text(_)) | Value::Array(Array::Text(_)) => "string",
        Value::Scalar(_) | Value::Array(_) | Value::Structure(_) => "long",
    };
    let elements = match value {
        Value::Scalar(_) => json!([replies::value(value)]),
        value => replies::value(value),
    };
    (ty, elements)
}
