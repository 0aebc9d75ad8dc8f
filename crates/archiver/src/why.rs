//! Explains why a PV has no recent samples.

use std::sync::Arc;

use epics::sample::Nanos;
use model::Result;
use query::Value;
use query::client::SqlClient;
use serde_json::{Value as Json, json};
use server::http::Response;

use crate::names;
use crate::registry::{Method, Protocol, Pv};
use crate::replies;
use crate::sampling::reason;
use crate::shared::Shared;
use crate::times;

/// Time back from now whose gaps are told.
const BACK: Nanos = 24 * 3_600 * 1_000_000_000;

/// Samples that arrived within so many seconds are recent.
const RECENT_SECONDS: Nanos = 10;

/// Replies with `answer`, one sentence; `findings`, all that is known; `gaps` of the last day.
///
/// # Errors
/// Those of SQL.
pub(crate) async fn reply(shared: &Arc<Shared>, asked: &str) -> Result<Response> {
    let name = names::normal(asked);
    let now = shared.now();
    let (name, answer, findings) = {
        let registry = shared.registry.lock().await;
        match registry.find(name) {
            Some(pv) => (pv.definition.name.to_string(), answer(pv, now), findings(shared, pv, now)),
            None => (name.to_owned(), format!("PV {name} is not archived: epics.pvs has no row of it"), Vec::new()),
        }
    };
    let mut sql = SqlClient::new(&shared.database);
    let text = "SELECT time, ended, reason, samples, detail FROM epics.gaps WHERE pv = $1 AND time >= $2 ORDER BY time";
    let values = [Value::Text(name.clone()), Value::Timestamptz(now.saturating_sub(BACK))];
    let mut gaps = Vec::new();
    for rows in sql.rows(text, &values).await? {
        let (mut time, mut ended, mut why) = (rows.times(0)?, rows.times(1)?, rows.texts(2)?);
        let (mut samples, mut detail) = (rows.integers(3)?, rows.texts(4)?);
        for row in 0..rows.len() {
            gaps.push(json!({
                "from": time.take(row).map(times::iso),
                "to": ended.take(row).map(times::iso),
                "reason": why.take(row),
                "samples": samples.take(row),
                "detail": detail.take(row),
            }));
        }
    }
    Ok(replies::json(&json!({ "pvName": name, "answer": answer, "findings": findings, "gaps": gaps })))
}

/// The cause, in one sentence.
fn answer(pv: &Pv, now: Nanos) -> String {
    let definition = &pv.definition;
    let name = &definition.name;
    let since = |time: Nanos| times::iso(time);
    if let Some(refused) = &pv.refused {
        return format!("the IOC refuses PV {name}: {refused}");
    }
    match (&pv.gap, &pv.connection) {
        (Some(gap), _) if gap.reason == reason::PAUSED => format!("PV {name} is paused since {}", since(gap.start)),
        (Some(gap), None) if gap.reason == reason::DISCONNECTED => {
            let detail = gap.detail.as_deref().unwrap_or("the connection was lost");
            format!(
                "PV {name} is disconnected since {}: {detail}. No IOC has answered a search for it since",
                since(gap.start)
            )
        }
        (_, None) => format!(
            "no IOC has answered a search for PV {name} since {}: is the name right, is the IOC running, and does \
             {} reach it?",
            since(pv.subscribed),
            if definition.protocol == Protocol::Pva { "EPICS_PVA_ADDR_LIST" } else { "EPICS_CA_ADDR_LIST" }
        ),
        (Some(gap), Some(_)) if gap.reason == reason::OFF => {
            let by = gap.detail.as_deref().unwrap_or("by another PV");
            format!("archiving of PV {name} is switched off {by} since {}", since(gap.start))
        }
        (_, Some(connection)) => connected(pv, connection.since, now),
    }
}

fn connected(pv: &Pv, since: Nanos, now: Nanos) -> String {
    let name = &pv.definition.name;
    let counts = &pv.counts;
    let Some(arrived) = pv.received_last else {
        return format!("PV {name} is connected since {}, and the IOC has not sent a sample yet", times::iso(since));
    };
    if counts.misdated > 0 && counts.stored == 0 {
        return format!(
            "the IOC's clock is wrong: {} samples of PV {name} have times that cannot be, and are in epics.misdated",
            counts.misdated
        );
    }
    let quiet = (now - arrived) / 1_000_000_000;
    let newest = pv.newest.map_or_else(|| "none".to_owned(), |(time, _)| times::iso(time));
    if quiet < RECENT_SECONDS {
        return format!("PV {name} has recent samples: the newest is of {newest}");
    }
    format!(
        "PV {name} is connected; nothing changed by more than its archive deadband (ADEL) for {quiet} s. \
         The newest sample is of {newest}"
    )
}

fn findings(shared: &Shared, pv: &Pv, now: Nanos) -> Vec<Json> {
    let definition = &pv.definition;
    let counts = &pv.counts;
    let mut all = Vec::new();
    let mut add = |name: &str, value: String| all.push(json!({ "name": name, "value": value }));
    let method = match definition.method {
        Method::Monitor => "every update is stored".to_owned(),
        Method::Scan => format!("the newest value is stored every {} s, if it has changed", definition.period),
    };
    add("method", method);
    add("archived since", times::iso(definition.created));
    for (name, by) in
        [("archived while not 0", &definition.enabled_by), ("not archived while not 0", &definition.disabled_by)]
    {
        if let Some(by) = by {
            add(name, by.to_string());
        }
    }
    if definition.deadband > 0.0 {
        add("deadband", definition.deadband.to_string());
    }
    match &pv.connection {
        Some(connection) => add("connected to", format!("{} since {}", connection.host, times::iso(connection.since))),
        None => add("last host", pv.host_last.clone().unwrap_or_else(|| "none".to_owned())),
    }
    if let Some(host) = pv.also_at {
        add("another IOC serves a PV of this name", host.to_string());
    }
    add("newest sample", pv.newest.map_or_else(|| "none".to_owned(), |(time, _)| times::iso(time)));
    add("last arrival", pv.received_last.map_or_else(|| "none since the start".to_owned(), times::iso));
    add("samples a second", format!("{:.3}", pv.rate(now)));
    for (name, count) in [
        ("stored", counts.stored),
        ("repeated", counts.repeated),
        ("late", counts.late),
        ("misdated", counts.misdated),
        ("lost", counts.dropped),
        ("replaced within a period", counts.replaced),
        ("within the deadband", counts.unchanged),
        ("connections lost", counts.connections_lost),
    ] {
        add(name, count.to_string());
    }
    if let Some(failing) = shared.failing.lock().ok().and_then(|failing| failing.clone()) {
        add("the archiver cannot write", failing);
    }
    all
}
