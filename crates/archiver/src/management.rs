//! `/mgmt/bpl`: what is archived, and how, by the names of the Appliance's actions.
//!
//! Changes are rows of `epics.pvs` and `epics.aliases`, and are in effect when the reply is sent. Actions that have no meaning
//! here, such as those about stores of files and clusters, answer 501 with the reason.

use std::collections::HashSet;
use std::sync::Arc;

use epics::sample::Nanos;
use model::{Error, Result, SqlState};
use query::Value;
use query::client::SqlClient;
use serde_json::{Map, Value as Json, json};
use server::http::{Method as HttpMethod, Request, Response, StatusCode};

use crate::import;
use crate::names;
use crate::parameters::{Parameters, invalid};
use crate::peers::{OWN_ONLY, PEERS_MAX, Peer, normal_url};
use crate::policies::{Policies, Policy};
use crate::registry::{Definition, Method, Protocol, Pv};
use crate::replies::{self, IDENTITY};
use crate::reports;
use crate::retrieval::{all_names, matching, names_of, not_found};
use crate::shared::Shared;
use crate::summaries::Late;
use crate::tables::{DefinitionRow, DefinitionRows, SCHEMA, limit_columns};
use crate::times;
use crate::type_info::type_info;
use crate::why;

/// Shortest period of a scan, in seconds.
const PERIOD_MIN: f64 = 0.1;

/// Actions of the Appliance that are not done here, with the reason.
const ABSENT: [(&str, &str); 24] = [
    ("getStoresForPV", "samples are in one table, epics.samples: there are no stores"),
    ("modifyStoreURLForPV", "samples are in one table, epics.samples: there are no stores"),
    ("consolidateDataForPV", "samples are in one table: there is nothing to consolidate"),
    ("changeStore", "samples are in one table, epics.samples: there are no stores"),
    ("reshardPV", "archive the PV by another archiver, and pause it here: samples of both are found"),
    ("reassignAppliance", "archive the PV by another archiver, and pause it here: samples of both are found"),
    ("resetFailoverCaches", "names of peers are followed: nothing has to be reset"),
    ("changeTypeForPV", "a PV may have samples of several types: nothing has to be changed"),
    ("skipAliasCheck", "names are archived as they are requested: no alias is looked up"),
    ("mergeInData", "write samples into epics.samples by SQL: rows of the same PV and time replace each other"),
    ("appendAndAliasPV", "rename the old PV, or write its samples under the new name by SQL"),
    ("modifyMetaFields", "a field of a record is archived as a PV of its own: archive PV.FIELD"),
    ("getMetaGets", "metadata come with their changes: nothing is polled"),
    ("putPVTypeInfo", "change the row of epics.pvs by SQL"),
    ("importDataFromPlugin", "run millrace archive import where the files are"),
    ("importChannelArchiverConfiguration", "send the names to archivePV"),
    ("uploadChannelArchiverConfiguration", "send the names to archivePV"),
    ("importConfig", "send the names to archivePV"),
    ("importConfigForAppliance", "send the names to archivePV"),
    ("getNamedFlag", "there are no named flags"),
    ("setNamedFlag", "there are no named flags"),
    ("addExternalArchiverServerArchives", "a peer has one archive: use addExternalArchiverServer"),
    ("refreshPVDataFromChannelArchivers", "names of peers are followed: nothing has to be refreshed"),
    ("test/compareWithChannelArchiver", "Channel Archivers are not asked for samples: import their files"),
];

/// Replies to an action.
///
/// # Errors
/// 22023 for a parameter; those of SQL.
pub(crate) async fn action(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let action = request.parameter("action").unwrap_or_default();
    let parameters = Parameters::of(request)?;
    if let Some(reply) = reports::report(shared, action, &parameters).await? {
        return Ok(reply);
    }
    match action {
        "archivePV" => archive(shared, request, &parameters).await,
        "pauseArchivingPV" => pause(shared, request, &parameters, true).await,
        "resumeArchivingPV" => pause(shared, request, &parameters, false).await,
        "deletePV" => delete(shared, request, &parameters).await,
        "abortArchivingPV" | "abortArchivingPVForThisAppliance" => abort(shared, &parameters).await,
        "renamePV" => rename(shared, &parameters).await,
        "addAlias" => add_alias(shared, &parameters).await,
        "removeAlias" => remove_alias(shared, &parameters).await,
        "getAllAliases" => aliases(shared).await,
        "changeArchivalParameters" => change(shared, &parameters).await,
        "getAllPVs" | "getPVsForThisAppliance" | "getMatchingPVsForThisAppliance" => {
            let limit = parameters.limit(Some(500))?;
            let own_only = action != "getAllPVs" || parameters.flag(OWN_ONLY)?;
            let names = matching(shared, &parameters, own_only).await?;
            Ok(replies::json(&json!(names.iter().take(limit).collect::<Vec<_>>())))
        }
        "getAllExpandedPVNames" => {
            let registry = shared.registry.lock().await;
            let aliases = registry.aliases.keys().map(|alias| Arc::from(alias.as_str()));
            let names: Vec<Arc<str>> = registry.names().into_iter().chain(aliases).collect();
            Ok(replies::json(&json!(names)))
        }
        "getPVStatus" => status(shared, request, &parameters).await,
        "getPVTypeInfo" => match shared.registry.lock().await.find(names::normal(parameters.expect("pv")?)) {
            Some(pv) => Ok(replies::json(&type_info(pv, shared.now()))),
            None => Ok(not_found("the PV is not archived")),
        },
        "getTypeInfoKeys" => Ok(replies::json(&json!(shared.registry.lock().await.names()))),
        "getPVDetails" => details(shared, parameters.expect("pv")?).await,
        "summarize" => summarize(shared, &parameters).await,
        "importSamples" => import::samples(shared, request).await,
        "importProgress" => import::progress(shared, request).await,
        "whyNoSamples" => why::reply(shared, parameters.expect("pv")?).await,
        "archivedPVs" | "archivedPVsNotInList" | "unarchivedPVs" => lists(shared, request, &parameters, action).await,
        "exportConfig" | "exportConfigForAppliance" => {
            let registry = shared.registry.lock().await;
            let now = shared.now();
            let all: Vec<Json> =
                registry.names().iter().filter_map(|name| registry.get(name)).map(|pv| type_info(pv, now)).collect();
            Ok(replies::json(&json!(all)))
        }
        "getPolicyList" => policies(shared).await,
        "getPolicyText" => Ok(replies::text("SELECT * FROM epics.policies ORDER BY position;\n".to_owned())),
        "getVersions" => {
            let version = replies::VERSION;
            let keys = ["mgmt_version", "engine_version", "etl_version", "retrieval_version"];
            Ok(replies::json(&Json::Object(keys.map(|key| (key.to_owned(), json!(version))).into_iter().collect())))
        }
        "getApplianceInfo" => Ok(replies::json(&appliance(request))),
        "getAppliancesInCluster" => {
            let peers = shared.peers.all();
            let all = std::iter::once(appliance(request)).chain(peers.iter().map(|peer| peer_appliance(peer)));
            Ok(replies::json(&all.collect()))
        }
        "webAppReady" => Ok(replies::json(&json!({ "status": "ok" }))),
        "getAllNamedFlags" => Ok(replies::json(&json!({}))),
        "getExternalArchiverServers" => Ok(peers(shared)),
        "addExternalArchiverServer" => add_peer(shared, &parameters).await,
        "removeExternalArchiverServer" => remove_peer(shared, &parameters).await,
        action => Ok(match ABSENT.iter().find(|(absent, _)| *absent == action) {
            Some((_, reason)) => replies::status(StatusCode::NOT_IMPLEMENTED, reason),
            None => replies::unknown_action("mgmt/bpl", action),
        }),
    }
}

/// Addresses of this archiver, as the client reached it.
fn appliance(request: &Request) -> Json {
    let host = request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1");
    json!({
        "identity": IDENTITY,
        "version": replies::VERSION,
        "mgmtURL": format!("http://{host}/mgmt/bpl"),
        "engineURL": format!("http://{host}/mgmt/bpl"),
        "etlURL": format!("http://{host}/mgmt/bpl"),
        "retrievalURL": format!("http://{host}/retrieval/bpl"),
        "dataRetrievalURL": format!("http://{host}/retrieval"),
        "clusterInetPort": "",
    })
}

fn peer_appliance(peer: &Peer) -> Json {
    json!({ "identity": peer.url, "dataRetrievalURL": peer.url, "retrievalURL": format!("{}/bpl", peer.url) })
}

/// All peers. `CAUrl` is the Appliance's name for the address of any.
fn peers(shared: &Shared) -> Response {
    let peers = shared.peers.all();
    let all = peers.iter().map(|peer| {
        json!({
            "CAUrl": peer.url,
            "indexes": "pbraw",
            "pair": peer.pair,
            "pvs": peer.names().len(),
            "problem": peer.problem(),
        })
    });
    replies::json(&all.collect())
}

async fn add_peer(shared: &Shared, parameters: &Parameters) -> Result<Response> {
    let url = normal_url(parameters.expect("externalarchiverserverurl")?)?;
    let pair = parameters.flag("pair")?;
    let known = shared.peers.all();
    if known.len() >= PEERS_MAX && !known.iter().any(|peer| peer.url == url) {
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, format!("an archiver has at most {PEERS_MAX} peers")));
    }
    let mut sql = SqlClient::new(&shared.database);
    let text = "INSERT INTO epics.peers (url, pair) VALUES ($1, $2) ON CONFLICT (url) DO UPDATE SET pair = $2";
    sql.run(text, &[Value::Text(url.clone()), Value::Bool(pair)]).await?;
    shared.follow(Some(&[])).await?;
    let peers = shared.peers.all();
    let Some(peer) = peers.iter().find(|peer| peer.url == url) else {
        return Ok(not_found(&format!("peer {url} was removed meanwhile")));
    };
    shared.peers.visit(peer).await;
    let instance = if peer.problem().is_none() { shared.peers.instance(peer).await? } else { None };
    if instance.is_some_and(|instance| instance == shared.started.to_string()) {
        sql.run("DELETE FROM epics.peers WHERE url = $1", &[Value::Text(url.clone())]).await?;
        shared.follow(Some(&[])).await?;
        return Err(invalid(format!("{url} is this archiver itself")));
    }
    let desc = match peer.problem() {
        None => format!("Peer {url} has {} PVs", peer.names().len()),
        Some(problem) => format!("Added, but not reached: {problem}"),
    };
    Ok(replies::json(&json!({ "status": "ok", "desc": desc, "url": url })))
}

async fn remove_peer(shared: &Shared, parameters: &Parameters) -> Result<Response> {
    let url = normal_url(parameters.expect("externalarchiverserverurl")?)?;
    if !shared.peers.all().iter().any(|peer| peer.url == url) {
        return Ok(not_found(&format!("there is no peer {url}")));
    }
    let mut sql = SqlClient::new(&shared.database);
    // The table has the text of whoever wrote it.
    let written = parameters.expect("externalarchiverserverurl")?.trim().to_owned();
    let urls = [Value::Text(url.clone()), Value::Text(written)];
    sql.run("DELETE FROM epics.peers WHERE url = $1 OR url = $2", &urls).await?;
    shared.follow(Some(&[])).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("Removed the peer {url}") })))
}

/// The protocol that the prefix of a name asks for.
fn protocol_of(name: &str) -> Protocol {
    if name.trim().starts_with("pva://") { Protocol::Pva } else { Protocol::Ca }
}

/// A request to archive a PV.
struct Wanted {
    name: String,
    method: Option<Method>,
    period: Option<f64>,
    policy: Option<String>,
    aliases: Vec<String>,
    paused: bool,
    protocol: Protocol,
    /// PV while whose value is not 0 the PV is archived.
    enabled_by: Option<String>,
    /// PV while whose value is not 0 it is not.
    disabled_by: Option<String>,
    deadband: Option<f64>,
}

impl Wanted {
    fn new(name: &str, defaults: &Parameters) -> Result<Wanted> {
        let text = |key: &str| defaults.get(key).map(str::to_owned);
        let mut wanted = Wanted::of(name, text("samplingmethod"), defaults.number("samplingperiod")?, text("policy"))?;
        wanted.condition(text("controllingPV"), text("disablingPV"), defaults.number("deadband")?)?;
        Ok(wanted)
    }

    /// From an object of a JSON list.
    fn of_json(entry: &Json, defaults: &Parameters) -> Result<Wanted> {
        let text = |key: &str| match entry.get(key) {
            Some(Json::String(text)) if !text.is_empty() => Some(text.clone()),
            Some(Json::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let name = match entry {
            Json::String(name) => return Wanted::new(name, defaults),
            _ => text("pv").ok_or_else(|| invalid(format!("an entry without \"pv\": {entry}")))?,
        };
        let number = |key: &str| {
            let number = |text: String| {
                text.parse::<f64>()
                    .map_err(|_| invalid(format!("{key} of \"{name}\" is \"{text}\": expected a number")))
            };
            text(key).map(number).transpose()
        };
        let mut wanted = Wanted::of(&name, text("samplingmethod"), number("samplingperiod")?, text("policy"))?;
        wanted.condition(text("controllingPV"), text("disablingPV"), number("deadband")?)?;
        let aliases = entry.get("aliases").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        wanted.aliases = aliases.iter().filter_map(Json::as_str).map(str::to_owned).chain(text("alias")).collect();
        wanted.paused = entry.get("paused").is_some_and(|paused| *paused == true || *paused == "true");
        Ok(wanted)
    }

    fn of(name: &str, method: Option<String>, period: Option<f64>, policy: Option<String>) -> Result<Wanted> {
        let protocol = protocol_of(name);
        let method = method.map(|method| {
            let known = Method::of(&method);
            known.ok_or_else(|| invalid(format!("samplingmethod is \"{method}\": expected MONITOR or SCAN")))
        });
        let method = method.transpose()?;
        if let Some(period) = period.filter(|period| *period <= 0.0) {
            return Err(invalid(format!("samplingperiod is {period}: expected a number of seconds above 0")));
        }
        let name = names::normal(name).to_owned();
        names::check(&name)?;
        Ok(Wanted {
            name,
            method,
            period: period.map(|period| period.max(PERIOD_MIN)),
            policy,
            aliases: Vec::new(),
            paused: false,
            protocol,
            enabled_by: None,
            disabled_by: None,
            deadband: None,
        })
    }

    /// Sets what samples depend on.
    fn condition(
        &mut self,
        enabled_by: Option<String>,
        disabled_by: Option<String>,
        deadband: Option<f64>,
    ) -> Result<()> {
        for (by, place) in [(enabled_by, &mut self.enabled_by), (disabled_by, &mut self.disabled_by)] {
            let Some(by) = by else { continue };
            names::check(names::normal(&by))?;
            if names::normal(&by) == self.name {
                return Err(invalid(format!("PV {by} cannot switch its own archiving")));
            }
            *place = Some(by);
        }
        if let Some(deadband) = deadband.filter(|deadband| !(deadband.is_finite() && *deadband >= 0.0)) {
            return Err(invalid(format!("deadband is {deadband}: expected a number from 0 on")));
        }
        self.deadband = deadband;
        Ok(())
    }

    /// A PV that switches another: it must be archived, so that its value is known.
    fn switch(name: &str) -> Wanted {
        Wanted {
            name: names::normal(name).to_owned(),
            method: None,
            period: None,
            policy: None,
            aliases: Vec::new(),
            paused: false,
            protocol: protocol_of(name),
            enabled_by: None,
            disabled_by: None,
            deadband: None,
        }
    }
}

/// Policies by name, each in words.
async fn policies(shared: &Shared) -> Result<Response> {
    let policies = Policies::read(&mut SqlClient::new(&shared.database)).await?;
    let describe = |policy: &Policy| {
        let kept = policy.keep_days.map_or_else(String::new, |days| format!(", kept for {days} days"));
        format!("{} every {} s for {}{kept}", policy.method.name(), policy.period, policy.pattern)
    };
    let all = policies.all().iter().map(|policy| (policy.name.to_string(), json!(describe(policy))));
    Ok(replies::json(&Json::Object(all.collect())))
}

async fn archive(shared: &Arc<Shared>, request: &Request, parameters: &Parameters) -> Result<Response> {
    let body = String::from_utf8_lossy(request.body());
    let wanted: Vec<Wanted> = if request.method() == HttpMethod::POST && body.trim_start().starts_with('[') {
        let entries: Vec<Json> =
            serde_json::from_str(&body).map_err(|error| invalid(format!("the body is no JSON list: {error}")))?;
        entries.iter().map(|entry| Wanted::of_json(entry, parameters)).collect::<Result<_>>()?
    } else {
        let names = names_of(request, parameters)?;
        names.iter().map(|name| Wanted::new(name, parameters)).collect::<Result<_>>()?
    };
    if wanted.is_empty() {
        return Err(invalid("parameter pv is absent".to_owned()));
    }
    let asked = wanted.len();
    // PVs that are archived already stay as they are, and need no other.
    let switches: Vec<Wanted> = {
        let registry = shared.registry.lock().await;
        let new = wanted.iter().filter(|wanted| registry.find(&wanted.name).is_none());
        let names = new.flat_map(|wanted| [&wanted.enabled_by, &wanted.disabled_by]).flatten();
        names.map(|name| Wanted::switch(name)).collect()
    };
    let wanted: Vec<Wanted> = wanted.into_iter().chain(switches).collect();
    let mut sql = SqlClient::new(&shared.database);
    let policies = Policies::read(&mut sql).await?;
    let known: Vec<bool> = {
        let registry = shared.registry.lock().await;
        wanted.iter().map(|wanted| registry.find(&wanted.name).is_some()).collect()
    };
    // One transaction: all are archived, or none.
    sql.transaction(async |sql| insert(sql, &wanted, &known, &policies).await).await?;
    let names: Vec<String> = wanted.iter().map(|wanted| wanted.name.clone()).collect();
    shared.follow(Some(&names)).await?;
    let told = wanted.iter().zip(known).take(asked).map(|(wanted, known)| {
        let status = if known { "Already submitted" } else { "Archive request submitted" };
        json!({ "pvName": wanted.name, "status": status })
    });
    Ok(replies::json(&told.collect()))
}

async fn insert(sql: &mut SqlClient, wanted: &[Wanted], known: &[bool], policies: &Policies) -> Result<()> {
    let mut rows = DefinitionRows::default();
    let mut names = HashSet::new();
    for (wanted, known) in wanted.iter().zip(known) {
        if !known && names.insert(&wanted.name) {
            if let Some(name) = wanted.policy.as_deref().filter(|name| policies.named(name).is_none()) {
                return Err(invalid(format!("there is no policy \"{name}\" in epics.policies")));
            }
            rows.push(&DefinitionRow {
                name: &wanted.name,
                method: wanted.method.map(Method::name),
                period: wanted.period,
                policy: wanted.policy.as_deref(),
                protocol: wanted.protocol.name(),
                paused: wanted.paused,
                enabled_by: wanted.enabled_by.as_deref().map(names::normal),
                disabled_by: wanted.disabled_by.as_deref().map(names::normal),
                deadband: wanted.deadband,
            });
        }
    }
    sql.append(SCHEMA, &rows.finish()?).await?;
    for wanted in wanted {
        for alias in &wanted.aliases {
            insert_alias(sql, alias, &wanted.name).await?;
        }
    }
    Ok(())
}

/// Real names of the PVs of a request, each with the name that was asked for.
async fn real(
    shared: &Shared,
    request: &Request,
    parameters: &Parameters,
) -> Result<Vec<(String, Option<Definition>)>> {
    let list = names_of(request, parameters)?;
    let names = names::expand(&shared.names().await, &list.join(","))?;
    let registry = shared.registry.lock().await;
    let found = names.into_iter().map(|name| {
        let definition = registry.find(names::normal(&name)).map(|pv| pv.definition.clone());
        (name.to_string(), definition)
    });
    Ok(found.collect())
}

async fn pause(shared: &Arc<Shared>, request: &Request, parameters: &Parameters, pause: bool) -> Result<Response> {
    let asked = real(shared, request, parameters).await?;
    if asked.is_empty() {
        return Err(invalid("parameter pv is absent, or matches no PV".to_owned()));
    }
    let mut told = Vec::with_capacity(asked.len());
    let mut names = Vec::new();
    for (name, definition) in &asked {
        let status = match definition {
            None => json!({ "pvName": name, "validation": format!("PV {name} is not archived") }),
            Some(definition) if definition.paused == pause => {
                let is = if pause { "already paused" } else { "not paused" };
                json!({ "pvName": name, "validation": format!("PV {name} is {is}") })
            }
            Some(definition) => {
                names.push(definition.name.to_string());
                json!({ "pvName": name, "status": "ok", "engine_pvName": definition.name, "engine_status": "ok" })
            }
        };
        told.push(status);
    }
    let list = Value::Array(names.iter().cloned().map(Value::Text).collect());
    let text = "UPDATE epics.pvs SET paused = $1, modified = now() WHERE name = ANY($2)";
    SqlClient::new(&shared.database).run(text, &[Value::Bool(pause), list]).await?;
    shared.follow(Some(&names)).await?;
    Ok(replies::json(&if told.len() == 1 { told.remove(0) } else { Json::Array(told) }))
}

async fn delete(shared: &Arc<Shared>, request: &Request, parameters: &Parameters) -> Result<Response> {
    let with_data = parameters.flag("deleteData")?;
    let asked = real(shared, request, parameters).await?;
    if asked.is_empty() {
        return Err(invalid("parameter pv is absent, or matches no PV".to_owned()));
    }
    let (mut names, mut problems) = (Vec::new(), Vec::new());
    for (name, definition) in asked {
        match definition {
            None => problems.push(format!("PV {name} is not archived")),
            Some(definition) if !definition.paused => {
                problems.push(format!("PV {name} is archived: pause it before it is deleted"));
            }
            Some(definition) => names.push(definition.name.to_string()),
        }
    }
    let mut sql = SqlClient::new(&shared.database);
    let list = [Value::Array(names.iter().cloned().map(Value::Text).collect())];
    sql.transaction(async |sql| {
        sql.run("DELETE FROM epics.aliases WHERE pv = ANY($1)", &list).await?;
        sql.run("DELETE FROM epics.pvs WHERE name = ANY($1)", &list).await
    })
    .await?;
    shared.follow(Some(&names)).await?;
    // The last rows of these PVs may be on their way.
    shared.flushed().await;
    if with_data {
        for name in &names {
            delete_data(shared, &mut sql, name).await?;
        }
    }
    let mut told = Map::new();
    if problems.is_empty() {
        told.insert("status".to_owned(), json!("ok"));
    } else {
        told.insert("validation".to_owned(), json!(problems.join("\n")));
    }
    Ok(replies::json(&Json::Object(told)))
}

/// Deletes all that is stored of a PV. Its summaries are made anew, of nothing.
async fn delete_data(shared: &Shared, sql: &mut SqlClient, name: &str) -> Result<()> {
    let late = all_windows(sql, name).await?;
    let deleted = shared.watermarks.commit(async |_| {
        sql.transaction(async |sql| {
            for table in ["samples", "gaps", "metadata"] {
                let text = format!("DELETE FROM epics.{table} WHERE pv = $1");
                sql.run(&text, &[Value::Text(name.to_owned())]).await?;
            }
            late.write(sql).await
        })
        .await
    });
    deleted.await
}

/// The windows in which a PV has samples or summaries.
async fn all_windows(sql: &mut SqlClient, name: &str) -> Result<Late> {
    let mut late = Late::default();
    for table in ["samples", "summaries"] {
        let text = format!("SELECT min(time), max(time) FROM epics.{table} WHERE pv = $1");
        for rows in sql.rows(&text, &[Value::Text(name.to_owned())]).await? {
            if let (Some(first), Some(last)) = (rows.times(0)?.take(0), rows.times(1)?.take(0)) {
                late.add(name, first);
                late.add(name, last);
            }
        }
    }
    Ok(late)
}

async fn abort(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let name = names::normal(parameters.expect("pv")?).to_owned();
    let is_waiting = match shared.registry.lock().await.get(&name) {
        None => return Ok(not_found(&format!("PV {name} is not archived"))),
        Some(pv) => pv.connected_first.is_none() && pv.newest.is_none(),
    };
    if !is_waiting {
        let reason = format!("PV {name} has been connected: pause and delete it instead");
        return Ok(replies::json(&json!({ "validation": reason })));
    }
    let mut sql = SqlClient::new(&shared.database);
    sql.run("DELETE FROM epics.pvs WHERE name = $1", &[Value::Text(name.clone())]).await?;
    shared.follow(Some(std::slice::from_ref(&name))).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("PV {name} is not archived any more") })))
}

async fn rename(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let (old, new) = (names::normal(parameters.expect("pv")?), names::normal(parameters.expect("newname")?));
    names::check(new)?;
    let refused = |text: String| Ok(replies::json(&json!({ "validation": text })));
    {
        let registry = shared.registry.lock().await;
        match registry.get(old) {
            None => return Ok(not_found(&format!("PV {old} is not archived"))),
            Some(pv) if !pv.definition.paused => {
                return refused(format!("PV {old} is archived: pause it before it is renamed to {new}"));
            }
            Some(_) if registry.find(new).is_some() => return refused(format!("PV {new} exists")),
            Some(_) => {}
        }
    }
    let mut sql = SqlClient::new(&shared.database);
    let names = [Value::Text(old.to_owned()), Value::Text(new.to_owned())];
    copy_samples(shared, &mut sql, old, new).await?;
    let columns = limit_columns();
    let metadata = format!(
        "INSERT INTO epics.metadata SELECT $2, since, type, count, host, units, precision, {columns}, labels \
         FROM epics.metadata WHERE pv = $1 ON CONFLICT DO NOTHING"
    );
    // Gaps that last end here: the new PV has its own.
    let gaps = "INSERT INTO epics.gaps SELECT time, $2, reason, coalesce(ended, now()), samples, detail, filled \
                FROM epics.gaps WHERE pv = $1";
    let definition = "INSERT INTO epics.pvs (name, method, period, policy, paused, protocol, created, enabled_by, disabled_by, \
                      deadband) SELECT $2, method, period, policy, paused, protocol, created, enabled_by, disabled_by, deadband FROM epics.pvs WHERE name = $1";
    let enabled = "UPDATE epics.pvs SET enabled_by = $2 WHERE enabled_by = $1";
    let disabled = "UPDATE epics.pvs SET disabled_by = $2 WHERE disabled_by = $1";
    for text in [metadata.as_str(), gaps, definition, enabled, disabled] {
        sql.run(text, &names).await?;
    }
    shared.follow(Some(&[new.to_owned()])).await?;
    Ok(replies::json(
        &json!({ "status": "ok", "desc": format!("PV {new} has the samples of PV {old}, and is paused") }),
    ))
}

/// Copies the samples of a PV, a day at a time, or a quarter of an hour of waveforms: a transaction must fit into memory.
async fn copy_samples(shared: &Shared, sql: &mut SqlClient, old: &str, new: &str) -> Result<()> {
    const HOUR: Nanos = 3_600 * 1_000_000_000;
    let versions = crate::history::versions_of(sql, old).await?;
    let is_waveform = versions.iter().any(|version| version.count != 1);
    let step = if is_waveform { HOUR / 4 } else { 24 * HOUR };
    let mut next = Nanos::MIN;
    loop {
        let first = "SELECT time FROM epics.samples WHERE pv = $1 AND time >= $2 ORDER BY time LIMIT 1";
        let found = sql.rows(first, &[Value::Text(old.to_owned()), Value::Timestamptz(next)]).await?;
        let Some(time) = found.iter().find(|rows| rows.len() > 0).map(|rows| rows.times(0)).transpose()? else {
            return Ok(());
        };
        let Some(from) = { time }.take(0) else { return Ok(()) };
        next = from.saturating_add(step);
        let values = [
            Value::Text(old.to_owned()),
            Value::Text(new.to_owned()),
            Value::Timestamptz(from),
            Value::Timestamptz(next),
        ];
        let text = "INSERT INTO epics.samples (time, pv, value, exact, string, elements, severity, status, received, type) \
                    SELECT time, $2, value, exact, string, elements, severity, status, received, type \
                    FROM epics.samples WHERE pv = $1 AND time >= $3 AND time < $4";
        let mut late = Late::default();
        late.add(new, from);
        late.add(new, next);
        let copied = shared.watermarks.commit(async |_| {
            sql.transaction(async |sql| {
                sql.run(text, &values).await?;
                late.write(sql).await
            })
            .await
        });
        copied.await?;
    }
}

/// Makes the summaries of PVs anew.
async fn summarize(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let name = names::normal(parameters.expect("pv")?);
    let mut sql = SqlClient::new(&shared.database);
    let late = all_windows(&mut sql, name).await?;
    late.write(&mut sql).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("The summaries of PV {name} will be made anew") })))
}

async fn insert_alias(sql: &mut SqlClient, alias: &str, name: &str) -> Result<()> {
    let alias = names::normal(alias);
    names::check(alias)?;
    let text = "INSERT INTO epics.aliases (alias, pv) VALUES ($1, $2) ON CONFLICT (alias) DO UPDATE SET pv = $2";
    sql.run(text, &[Value::Text(alias.to_owned()), Value::Text(name.to_owned())]).await
}

async fn add_alias(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let (name, alias) = (names::normal(parameters.expect("pv")?), names::normal(parameters.expect("aliasname")?));
    {
        let registry = shared.registry.lock().await;
        if registry.get(name).is_none() {
            return Ok(not_found(&format!("PV {name} is not archived")));
        }
        if registry.get(alias).is_some() {
            return Err(invalid(format!("alias {alias} is the name of a PV that is archived")));
        }
    }
    insert_alias(&mut SqlClient::new(&shared.database), alias, name).await?;
    shared.follow(Some(&[])).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("Added an alias {alias} for PV {name}") })))
}

async fn remove_alias(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let (name, alias) = (names::normal(parameters.expect("pv")?), names::normal(parameters.expect("aliasname")?));
    let values = [Value::Text(alias.to_owned()), Value::Text(name.to_owned())];
    SqlClient::new(&shared.database).run("DELETE FROM epics.aliases WHERE alias = $1 AND pv = $2", &values).await?;
    shared.follow(Some(&[])).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("Removed the alias {alias} for PV {name}") })))
}

async fn aliases(shared: &Shared) -> Result<Response> {
    let registry = shared.registry.lock().await;
    let mut all: Vec<(&String, &Arc<str>)> = registry.aliases.iter().collect();
    all.sort();
    let all = all.into_iter().map(|(alias, name)| json!({ "aliasName": alias, "srcPVName": name }));
    Ok(replies::json(&all.collect()))
}

async fn change(shared: &Arc<Shared>, parameters: &Parameters) -> Result<Response> {
    let asked = parameters.expect("pv")?;
    let wanted = Wanted::new(asked, parameters)?;
    let period = wanted.period.ok_or_else(|| invalid("parameter samplingperiod is absent".to_owned()))?;
    let found = shared.registry.lock().await.find(&wanted.name).map(|pv| pv.definition.clone());
    let Some(definition) = found else {
        return Ok(replies::json(&json!({ "validation": format!("PV {asked} is not archived") })));
    };
    let method = wanted.method.unwrap_or(definition.method);
    let name = definition.name.to_string();
    let condition = |by: Option<&str>| by.map_or(Value::Null, |by| Value::Text(names::normal(by).to_owned()));
    let values = [
        Value::Text(name.clone()),
        Value::Text(method.name().to_owned()),
        Value::Float64(period),
        condition(wanted.enabled_by.as_deref()),
        condition(wanted.disabled_by.as_deref()),
        wanted.deadband.map_or(Value::Null, Value::Float64),
    ];
    // A parameter that is absent changes nothing.
    let text = "UPDATE epics.pvs SET method = $2, period = $3, enabled_by = coalesce($4, enabled_by), \
                disabled_by = coalesce($5, disabled_by), deadband = coalesce($6, deadband), modified = now() WHERE name = $1";
    SqlClient::new(&shared.database).run(text, &values).await?;
    shared.follow(Some(std::slice::from_ref(&name))).await?;
    Ok(replies::json(&json!({ "status": "ok", "desc": format!("Changed the parameters of PV {name}") })))
}

async fn status(shared: &Shared, request: &Request, parameters: &Parameters) -> Result<Response> {
    let list = names_of(request, parameters)?.join(",");
    let own_only = parameters.flag(OWN_ONLY)?;
    let all = all_names(shared, own_only).await;
    let mut names = match parameters.get("regex") {
        Some(regex) if list.is_empty() => names::matching_regex(&all, regex)?,
        _ => names::expand(&all, &list)?,
    };
    let registry = shared.registry.lock().await;
    names.truncate(parameters.limit(None)?);
    let all = names.iter().map(|name| match registry.find(names::normal(name)) {
        Some(pv) => status_of(pv, name, shared.now()),
        // A peer tells its names, not their state.
        None => match shared.peers.known_with(names::normal(name)).first() {
            Some(peer) if !own_only => json!({ "pvName": name, "status": "Being archived", "appliance": peer.url }),
            _ => json!({ "pvName": name, "status": "Not being archived" }),
        },
    });
    Ok(replies::json(&all.collect()))
}

fn status_of(pv: &Pv, asked: &str, now: Nanos) -> Json {
    let definition = &pv.definition;
    let status = match (definition.paused, pv.connected_first.is_some() || pv.newest.is_some()) {
        (true, _) => "Paused",
        (false, true) => "Being archived",
        (false, false) => "Initial sampling",
    };
    json!({
        "pvName": asked,
        "pvNameOnly": definition.name,
        "status": status,
        "appliance": IDENTITY,
        "isMonitored": (definition.method == Method::Monitor).to_string(),
        "samplingPeriod": definition.period.to_string(),
        "connectionState": pv.connection.is_some().to_string(),
        "lastEvent": times::human(pv.newest.map(|(time, _)| time)),
        "lastRotateLogs": "Never",
        "hostName": pv.host_last.as_deref().unwrap_or("N/A"),
        "eventRate": format!("{:.3}", pv.rate(now)),
        "connectionFirstEstablished": times::human(pv.connected_first),
        "connectionLastRestablished": times::human(pv.connected_last),
        "connectionLossRegainCount": pv.counts.connections_lost.to_string(),
    })
}

async fn details(shared: &Shared, name: &str) -> Result<Response> {
    let registry = shared.registry.lock().await;
    let Some(pv) = registry.find(names::normal(name)) else {
        return Ok(not_found(&format!("PV {name} is not archived")));
    };
    let now = shared.now();
    let counts = pv.counts;
    let yes = |is: bool| if is { "Yes" } else { "No" }.to_owned();
    let rows: Vec<(&str, String)> = vec![
        ("Channel Name", pv.definition.name.to_string()),
        ("Instance archiving PV", IDENTITY.to_owned()),
        ("Host name", pv.host_last.clone().unwrap_or_else(|| "N/A".to_owned())),
        ("Archived since", times::human(Some(pv.definition.created))),
        ("Is this PV paused:", yes(pv.definition.paused)),
        ("Sampling method:", pv.definition.method.name().to_ascii_uppercase()),
        ("Sampling period:", pv.definition.period.to_string()),
        ("Policy:", pv.definition.policy.as_deref().unwrap_or("none").to_owned()),
        ("Is the PV connected?", yes(pv.connection.is_some())),
        ("Connection first established:", times::human(pv.connected_first)),
        ("Connection last restablished:", times::human(pv.connected_last)),
        ("Connection loss/regain count:", counts.connections_lost.to_string()),
        ("Time of the newest sample:", times::human(pv.newest.map(|(time, _)| time))),
        ("Last sample arrived:", times::human(pv.received_last)),
        ("Events received:", counts.events.to_string()),
        ("Samples stored:", counts.stored.to_string()),
        ("Samples that repeat the one before:", counts.repeated.to_string()),
        ("Samples in epics.misdated:", counts.misdated.to_string()),
        ("Samples before the newest:", counts.late.to_string()),
        ("Samples that were lost:", counts.dropped.to_string()),
        ("Samples replaced within a scan's period:", counts.replaced.to_string()),
        ("Samples within the deadband:", counts.unchanged.to_string()),
        ("Type changes:", counts.type_changes.to_string()),
        ("Estimated event rate (events/sec)", format!("{:.3}", pv.rate(now))),
        ("Estimated storage rate (bytes/sec)", format!("{:.3}", pv.byte_rate(now))),
    ];
    let rows = rows.into_iter().map(|(name, value)| json!({ "source": IDENTITY, "name": name, "value": value }));
    Ok(replies::json(&rows.collect()))
}

/// Names of a list that are archived, or not; or names that are archived and not in the list.
async fn lists(shared: &Shared, request: &Request, parameters: &Parameters, action: &str) -> Result<Response> {
    let list = names_of(request, parameters)?;
    let registry = shared.registry.lock().await;
    let is_archived = |name: &str| registry.find(names::normal(name)).is_some();
    let names: Vec<String> = match action {
        "archivedPVsNotInList" => {
            let listed: HashSet<&str> = list.iter().map(|name| names::normal(name)).collect();
            let names = registry.names().into_iter().filter(|name| !listed.contains(&**name));
            names.map(|name| name.to_string()).collect()
        }
        action => list.into_iter().filter(|name| is_archived(name) == (action == "archivedPVs")).collect(),
    };
    Ok(replies::json(&json!(names)))
}
