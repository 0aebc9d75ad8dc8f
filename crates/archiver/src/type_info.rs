//! Type information and metadata of a PV, as the Appliance tells them: almost all values are texts.

use epics::pb::Payload;
use epics::sample::Nanos;
use model::Result;
use serde_json::{Value as Json, json};
use server::http::{Response, StatusCode};

use crate::history;
use crate::names;
use crate::registry::{Protocol, Pv};
use crate::replies::{self, IDENTITY};
use crate::shared::Shared;
use crate::times;
use crate::values;

/// Type information of a PV, in the Appliance's form.
pub(crate) fn type_info(pv: &Pv, now: Nanos) -> Json {
    let definition = &pv.definition;
    let version = pv.version.as_ref();
    let limits = version.and_then(|version| version.metadata.limits);
    let limit = |of: fn(&epics::sample::Limits) -> f64| limits.as_ref().map_or(f64::NAN, of).to_string();
    let payload = version.map_or(Payload::Float64, |version| values::payload(version.ty));
    json!({
        "pvName": definition.name,
        "DBRType": payload.dbr_name(),
        "scalar": (!payload.is_waveform()).to_string(),
        "elementCount": version.map_or(1, |version| version.count).to_string(),
        "applianceIdentity": IDENTITY,
        "chunkKey": definition.name,
        "hostName": pv.host_last.as_deref().or(version.map(|version| version.host.as_str())).unwrap_or("N/A"),
        "paused": definition.paused.to_string(),
        "creationTime": times::iso(definition.created),
        "modificationTime": times::iso(definition.modified),
        "samplingMethod": definition.method.name().to_ascii_uppercase(),
        "samplingPeriod": definition.period.to_string(),
        "controllingPV": definition.enabled_by.as_deref().unwrap_or(""),
        "policyName": definition.policy.as_deref().unwrap_or(""),
        "units": version.and_then(|version| version.metadata.units.as_deref()).unwrap_or(""),
        "precision": version.and_then(|version| version.metadata.precision).unwrap_or(0).to_string(),
        "lowerDisplayLimit": limit(|limits| limits.display.0),
        "upperDisplayLimit": limit(|limits| limits.display.1),
        "lowerAlarmLimit": limit(|limits| limits.alarm.0),
        "upperAlarmLimit": limit(|limits| limits.alarm.1),
        "lowerWarningLimit": limit(|limits| limits.warning.0),
        "upperWarningLimit": limit(|limits| limits.warning.1),
        "lowerCtrlLimit": limit(|limits| limits.control.0),
        "upperCtrlLimit": limit(|limits| limits.control.1),
        "computedEventRate": pv.rate(now).to_string(),
        "computedStorageRate": pv.byte_rate(now).to_string(),
        "computedBytesPerEvent": (pv.counts.bytes / pv.counts.stored.max(1)).to_string(),
        "userSpecifiedEventRate": "0.0",
        "usePVAccess": (definition.protocol == Protocol::Pva).to_string(),
        "useDBEProperties": "true",
        "hasReducedDataSet": "false",
        "dataStores": ["millrace://epics.samples"],
        "archiveFields": [],
        "extraFields": {},
    })
}

/// Type information and metadata of a PV, as texts.
pub(crate) async fn metadata(shared: &Shared, name: &str) -> Result<Response> {
    let registry = shared.registry.lock().await;
    let Some(pv) = registry.find(names::normal(name)) else {
        return Ok(replies::status(StatusCode::NOT_FOUND, &format!("PV {name} is not archived")));
    };
    let mut info = type_info(pv, shared.now());
    let ty = pv.version.as_ref().map_or(Payload::Float64 as i16, |version| version.ty);
    let header = history::header(&pv.definition.name, pv.version.as_ref(), ty, shared.now());
    for (name, value) in header.fields {
        info[name] = json!(value);
    }
    Ok(replies::json(&info))
}
