//! Samples of other archives, as bodies in the Appliance's PB format: its files, its replies, and what `millrace archive
//! import` makes of others.
//!
//! A request is one transaction. It may name its `source`, a file for example, and the place `until` which the body goes, as
//! the sender counts: both are stored in `epics.imports` by the same transaction, so that an import goes on where it was interrupted.
//!
//! Always true: the same body twice leaves the same rows as once. Samples of a PV and time that exist are replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use epics::event::{CONNECTION_LOST, CONNECTION_REGAINED, Event};
use epics::pb::{Header, KnownFields, Reader, Record};
use epics::sample::Nanos;
use model::{Result, limits};
use query::Value;
use query::client::SqlClient;
use serde_json::json;
use server::http::{Request, Response};

use crate::history::versions_of;
use crate::names;
use crate::parameters::{Parameters, invalid};
use crate::replies;
use crate::sampling::reason;
use crate::shared::Shared;
use crate::summaries;
use crate::tables::{Gap, Pending, Version};
use crate::values;

/// Lines of damage that a reply tells.
const TOLD_MAX: usize = 20;
const SECOND: Nanos = 1_000_000_000;
/// Writes the samples of a body.
///
/// # Errors
/// 22023 for a parameter, or a body without a header; those of SQL. Nothing is stored then.
pub(crate) async fn samples(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let until = parameters.get("until").map(|text| {
        let until = text.parse::<i64>().ok().filter(|until| *until >= 0);
        until.ok_or_else(|| invalid(format!("parameter until is \"{text}\": expected a whole number from 0 on")))
    });
    let progress = match (parameters.get("source"), until.transpose()?) {
        (Some(source), Some(until)) => Some((source.to_owned(), until)),
        (None, None) => None,
        _ => return Err(invalid("parameters source and until belong together".to_owned())),
    };
    let mut import = Import::default();
    import.read(request.body())?;
    let Import { mut rows, versions, samples, damaged, told, .. } = import;
    let mut sql = SqlClient::new(&shared.database);
    let mut kept = Vec::new();
    for (pv, versions) in versions {
        let known = versions_of(&mut sql, &pv).await?;
        let is_new = |version: &Version| known.binary_search_by_key(&version.since, |known| known.since).is_err();
        kept.extend(versions.into_values().filter(is_new).map(|version| (pv.clone(), version)));
    }
    for (pv, version) in &kept {
        rows.metadata.push(pv, version);
    }
    let batches = rows.finish()?;
    summaries::commit(&mut sql, &shared.watermarks, &batches, async |sql| {
        if let Some((source, until)) = progress {
            let text = "INSERT INTO epics.imports (source, until, samples) VALUES ($1, $2, $3) ON CONFLICT (source) DO UPDATE \
                        SET until = $2, samples = epics.imports.samples + $3, modified = now()";
            sql.run(text, &[Value::Text(source), Value::Int64(until), Value::Int64(samples as i64)]).await?;
        }
        Ok(())
    })
    .await?;
    Ok(replies::json(&json!({ "status": "ok", "samples": samples, "damaged": damaged, "problems": told })))
}

/// Replies with the last `until` of a source, and the number of its samples.
///
/// # Errors
/// 22023 without the parameter `source`; those of SQL.
pub(crate) async fn progress(shared: &Arc<Shared>, request: &Request) -> Result<Response> {
    let parameters = Parameters::of(request)?;
    let source = Value::Text(parameters.expect("source")?.to_owned());
    let text = "SELECT until, samples FROM epics.imports WHERE source = $1";
    let (mut until, mut samples) = (0, 0);
    for rows in SqlClient::new(&shared.database).rows(text, &[source]).await? {
        if rows.len() > 0 {
            until = rows.integers(0)?.take(0).unwrap_or_default();
            samples = rows.integers(1)?.take(0).unwrap_or_default();
        }
    }
    Ok(replies::json(&json!({ "until": until, "samples": samples })))
}

/// Contents of a body.
#[derive(Default)]
struct Import {
    rows: Pending,
    /// By PV and time.
    versions: BTreeMap<String, BTreeMap<Nanos, Version>>,
    samples: u64,
    damaged: u64,
    /// The first problems, as texts.
    told: Vec<String>,
    /// Fields of the present PV.
    fields: KnownFields,
}

impl Import {
    fn read(&mut self, body: &[u8]) -> Result<()> {
        let mut header: Option<Header> = None;
        for record in Reader::new(body) {
            match record {
                Ok(Record::Header(next)) => {
                    names::check(&next.pv)?;
                    if header.as_ref().is_none_or(|known| known.pv != next.pv) {
                        self.fields = KnownFields::default();
                    }
                    self.fields.learn(&next.fields);
                    header = Some(next);
                }
                Ok(Record::Event(event)) => {
                    if let Some(header) = &header {
                        self.event(header, event);
                    }
                }
                Ok(Record::Damaged(damage)) => self.problem(damage.to_string()),
                Err(error) => return Err(invalid(format!("the body cannot be read: {error}"))),
            }
        }
        match header {
            Some(_) => Ok(()),
            None => Err(invalid("the body has no header of the Appliance's PB format".to_owned())),
        }
    }

    fn problem(&mut self, text: String) {
        self.damaged += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(text);
        }
    }

    fn event(&mut self, header: &Header, event: Event) {
        let stored = values::store(&event.sample.value);
        let bytes = stored.varying_bytes();
        if bytes > limits::VALUE_BYTES_MAX {
            let limit = limits::VALUE_BYTES_MAX;
            return self.problem(format!("PV {}: a value of {bytes} bytes is larger than {limit}", header.pv));
        }
        self.gap(&header.pv, &event);
        self.fields.learn(&event.fields);
        if self.fields.take_change() {
            let time = event.time();
            let version = Version {
                since: time - time.rem_euclid(1_000),
                ty: stored.ty,
                count: header.elements.unwrap_or(1),
                host: String::new(),
                metadata: self.fields.metadata(),
            };
            self.versions.entry(header.pv.clone()).or_default().insert(version.since, version);
        }
        self.samples += 1;
        self.rows.samples.push(&header.pv, &event.sample, &stored, None);
    }

    /// The gap that an event ends, by its fields.
    fn gap(&mut self, pv: &str, event: &Event) {
        let seconds = |name: &str| event.field(name)?.parse::<i64>().ok()?.checked_mul(SECOND);
        let (Some(start), Some(ended)) = (seconds(CONNECTION_LOST), seconds(CONNECTION_REGAINED)) else { return };
        let reason = match (event.field("startup"), event.field("resume")) {
            (Some(_), _) => reason::STOPPED,
            (None, Some(_)) => reason::PAUSED,
            (None, None) => reason::DISCONNECTED,
        };
        // After a start, the Appliance does not know when the connection was lost, and writes 0.
        if start > 0 && start <= ended {
            self.rows
                .gaps
                .push(pv, &Gap { start, reason, ended: Some(ended), samples: None, detail: None, filled: Some(false) });
        }
    }
}
