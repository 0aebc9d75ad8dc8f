//! Reports of `/mgmt/bpl`: lists of PVs by what happened to them.

use epics::sample::Nanos;
use model::Result;
use serde_json::{Value as Json, json};
use server::http::Response;

use crate::parameters::Parameters;
use crate::registry::Pv;
use crate::replies::{self, IDENTITY};
use crate::sampling::reason;
use crate::shared::Shared;
use crate::times;

/// Lines of a report, if a limit is asked for and no number is given.
const LIMIT: usize = 1_000;

/// The reply of an action that is a report; `None` for others.
///
/// # Errors
/// 22023 for a parameter.
pub(crate) async fn report(shared: &Shared, action: &str, parameters: &Parameters) -> Result<Option<Response>> {
    let now = shared.now();
    let registry = shared.registry.lock().await;
    let all = || registry.all();
    let limited = |default| parameters.limit(default);
    let name = |pv: &Pv| pv.definition.name.to_string();
    let rows: Vec<Json> = match action {
        "getNeverConnectedPVs" | "getNeverConnectedPVsForThisAppliance" => all()
            .filter(|pv| !pv.definition.paused && pv.connected_first.is_none() && pv.newest.is_none())
            .map(|pv| {
                json!({
                    "pvName": name(pv),
                    "requestTime": times::human(Some(pv.definition.created)),
                    "startOfWorkflow": times::human(Some(pv.subscribed)),
                    "currentState": "METAINFO_REQUESTED",
                    "appliance": IDENTITY,
                })
            })
            .collect(),
        "getCurrentlyDisconnectedPVs" => all()
            .filter(|pv| !pv.definition.paused && pv.connection.is_none())
            .map(|pv| {
                let lost = pv.gap.as_ref().filter(|gap| gap.reason != reason::CONNECTING).map(|gap| gap.start);
                json!({
                    "pvName": name(pv),
                    "instance": IDENTITY,
                    "connectionLostAt": times::human(lost),
                    "noConnectionAsOfEpochSecs": lost.unwrap_or(pv.definition.created).div_euclid(1_000_000_000).to_string(),
                    "lastKnownEvent": times::human(pv.newest.map(|(time, _)| time)),
                    "hostName": pv.host_last.as_deref().unwrap_or("N/A"),
                    "commandThreadID": "0",
                })
            })
            .collect(),
        "getEventRateReport" => sorted(all(), limited(Some(LIMIT))?, |pv| pv.rate(now), |pv| {
            json!({ "pvName": name(pv), "eventRate": pv.rate(now).to_string() })
        }),
        "getStorageRateReport" => sorted(all(), limited(Some(LIMIT))?, |pv| pv.byte_rate(now), |pv| {
            let rate = pv.byte_rate(now);
            json!({
                "pvName": name(pv),
                "storageRate_KBperHour": (rate * 3_600.0 / 1_024.0).to_string(),
                "storageRate_MBperDay": (rate * 86_400.0 / (1 << 20) as f64).to_string(),
                "storageRate_GBperYear": (rate * 365.0 * 86_400.0 / (1 << 30) as f64).to_string(),
            })
        }),
        "getLostConnectionsReport" => {
            let lost = all().filter(|pv| pv.counts.connections_lost > 0);
            sorted(lost, limited(Some(LIMIT))?, |pv| pv.counts.connections_lost as f64, |pv| {
                json!({
                    "pvName": name(pv),
                    "instance": IDENTITY,
                    "lostConnections": pv.counts.connections_lost.to_string(),
                    "currentlyConnected": if pv.connection.is_some() { "Yes" } else { "No" },
                })
            })
        }
        "getSilentPVsReport" => {
            let silent = |pv: &Pv| -(pv.newest.map_or(Nanos::MIN, |(time, _)| time) as f64);
            let connected = all().filter(|pv| pv.connection.is_some());
            sorted(connected, limited(Some(LIMIT))?, silent, |pv| {
                let newest = pv.newest.map(|(time, _)| time);
                json!({ "pvName": name(pv), "instance": IDENTITY, "lastKnownEvent": times::human(newest) })
            })
        }
        "getPVsByDroppedEventsTimestamp" => dropped(all(), limited(Some(LIMIT))?, |pv| pv.counts.misdated),
        "getPVsByDroppedEventsBuffer" | "getSlowChangingPVsWithDroppedEvents" => {
            dropped(all(), limited(Some(LIMIT))?, |pv| pv.counts.dropped)
        }
        "getPVsByDroppedEventsTypeChange" => dropped(all(), limited(Some(LIMIT))?, |pv| pv.counts.type_changes),
        "getPausedPVsReport" => all()
            .filter(|pv| pv.definition.paused)
            .take(limited(None)?)
            .map(|pv| {
                let modified = times::human(Some(pv.definition.modified));
                json!({ "pvName": name(pv), "instance": IDENTITY, "modificationTime": modified })
            })
            .collect(),
        "getPausedPVsForThisAppliance" => all().filter(|pv| pv.definition.paused).map(|pv| json!(name(pv))).collect(),
        "getArchivedWaveforms" => all()
            .filter(|pv| pv.version.as_ref().is_some_and(|version| version.count > 1))
            .map(|pv| {
                let count = pv.version.as_ref().map_or(1, |version| version.count);
                json!({ "pvName": name(pv), "elementCount": count.to_string(), "samplingPeriod": pv.definition.period.to_string() })
            })
            .collect(),
        "getRecentlyAddedPVs" | "getRecentlyAddedPVsForThisInstance" => {
            sorted(all(), limited(Some(LIMIT))?, |pv| pv.definition.created as f64, |pv| {
                let created = times::human(Some(pv.definition.created));
                json!({ "pvName": name(pv), "instance": IDENTITY, "creationTime": created })
            })
        }
        "getRecentlyModifiedPVs" | "getRecentlyModifiedPVsForThisInstance" => {
            sorted(all(), limited(Some(LIMIT))?, |pv| pv.definition.modified as f64, |pv| {
                let modified = times::human(Some(pv.definition.modified));
                json!({ "pvName": name(pv), "instance": IDENTITY, "modificationTime": modified })
            })
        }
        "getCreationReportForAppliance" => all()
            .map(|pv| {
                let created = pv.definition.created.div_euclid(1_000_000_000);
                json!({ "pvName": name(pv), "creationTS": created.to_string(), "paused": pv.definition.paused.to_string() })
            })
            .collect(),
        "getInstanceMetrics" | "getApplianceMetrics" | "getInstanceMetricsForAppliance" | "getApplianceMetricsForAppliance" => {
            metrics(shared, all(), registry.len(), now)
        }
        _ => return Ok(None),
    };
    Ok(Some(replies::json(&Json::Array(rows))))
}

/// The PVs with the highest rank first.
fn sorted<'a>(
    pvs: impl Iterator<Item = &'a Pv>,
    limit: usize,
    rank: impl Fn(&Pv) -> f64,
    row: impl Fn(&Pv) -> Json,
) -> Vec<Json> {
    let mut ranked: Vec<(f64, &Pv)> = pvs.map(|pv| (rank(pv), pv)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.definition.name.cmp(&b.1.definition.name)));
    ranked.into_iter().take(limit).map(|(_, pv)| row(pv)).collect()
}

fn dropped<'a>(pvs: impl Iterator<Item = &'a Pv>, limit: usize, count: impl Fn(&Pv) -> u64) -> Vec<Json> {
    let some = pvs.filter(|pv| count(pv) > 0);
    sorted(
        some,
        limit,
        |pv| count(pv) as f64,
        |pv| json!({ "pvName": pv.definition.name, "eventsDropped": count(pv).to_string() }),
    )
}

fn metrics<'a>(shared: &Shared, pvs: impl Iterator<Item = &'a Pv>, count: usize, now: Nanos) -> Vec<Json> {
    let (mut connected, mut paused, mut rate, mut byte_rate) = (0, 0, 0.0, 0.0);
    for pv in pvs {
        connected += usize::from(pv.connection.is_some());
        paused += usize::from(pv.definition.paused);
        rate += pv.rate(now);
        byte_rate += pv.byte_rate(now);
    }
    let failing = shared.failing.lock().ok().and_then(|failing| failing.clone());
    vec![json!({
        "instance": IDENTITY,
        "status": failing.as_deref().map_or("Working".to_owned(), |error| format!("Cannot write: {error}")),
        "pvCount": count.to_string(),
        "connectedPVCount": connected.to_string(),
        "disconnectedPVCount": (count - connected - paused).to_string(),
        "pausedPVCount": paused.to_string(),
        "eventRate": format!("{rate:.2}"),
        "dataRate": format!("{byte_rate:.2}"),
        "dataRateGBPerDay": format!("{:.3}", byte_rate * 86_400.0 / (1 << 30) as f64),
        "dataRateGBPerYear": format!("{:.3}", byte_rate * 365.0 * 86_400.0 / (1 << 30) as f64),
        "commits": shared.commits.load(std::sync::atomic::Ordering::Relaxed).to_string(),
    })]
}
