//! The registry follows the tables: PVs are added, changed and removed, subscribed to and not.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use epics::sample::Nanos;
use model::Result;
use query::Value;
use query::client::{SqlClient, there};

use crate::history;
use crate::names;
use crate::peers::normal_url;
use crate::policies::Policies;
use crate::registry::{Definition, Method, Protocol, Pv};
use crate::sampling::reason;
use crate::shared::Shared;
use crate::tables::{Gap, Version};

/// Time behind the last mark of a run in which samples may have been committed.
const MARK_DELAY: Nanos = 10 * 1_000_000_000;

/// State of a PV that is stored.
#[derive(Default)]
struct Known {
    gap: Option<Gap>,
    version: Option<Version>,
    newest: Option<Nanos>,
}

/// State of all PVs, or of those of some names.
async fn known(sql: &mut SqlClient, names: Option<&[String]>) -> Result<HashMap<String, Known>> {
    let mut all: HashMap<String, Known> = HashMap::new();
    for (name, gap) in open_gaps(sql, names).await? {
        all.entry(name).or_default().gap = Some(gap);
    }
    for (name, version) in history::newest_versions(sql, names).await? {
        all.entry(name).or_default().version = Some(version);
    }
    for (name, time) in history::newest_times(sql, names).await? {
        all.entry(name).or_default().newest = Some(time);
    }
    Ok(all)
}

fn with_known(definition: Definition, known: Known) -> Pv {
    let mut pv = Pv::new(definition);
    (pv.gap, pv.version) = (known.gap, known.version);
    pv.newest = known.newest.map(|time| (time, None));
    pv
}

impl Shared {
    /// Takes up what an earlier run left, and subscribes. PVs without an open gap get one for the time in which no archiver
    /// ran.
    pub(crate) async fn resume(&self, sql: &mut SqlClient) -> Result<()> {
        let stopped = last_seen(sql).await?;
        let definitions = self.definitions(sql, None).await?;
        let mut known = known(sql, None).await?;
        {
            let mut registry = self.registry.lock().await;
            let mut pending = self.pending.lock().await;
            for definition in definitions {
                let known = known.remove(&*definition.name).unwrap_or_default();
                let mut pv = with_known(definition, known);
                // The PV that switched this one off may have changed meanwhile.
                if pv.gap.as_ref().is_none_or(|gap| gap.reason == reason::OFF) {
                    let seen = stopped.unwrap_or(self.started);
                    // Samples may have been committed after the last mark; times far beyond it are those of a wrong clock.
                    let newest = pv.newest.map_or(Nanos::MIN, |(time, _)| time.min(seen.saturating_add(MARK_DELAY)));
                    let start = seen.max(pv.definition.created).max(newest).min(self.started);
                    let why = if pv.definition.paused { reason::PAUSED } else { reason::STOPPED };
                    pv.open_gap(why, None, start, &mut pending);
                }
                registry.add(pv);
            }
        }
        self.follow_aliases(sql).await?;
        self.follow_peers(sql).await?;
        let names: Vec<Arc<str>> = {
            let registry = self.registry.lock().await;
            registry.all().filter(|pv| !pv.definition.paused).map(|pv| Arc::clone(&pv.definition.name)).collect()
        };
        self.follow_switches().await;
        for name in names {
            self.subscribe(&name).await?;
        }
        Ok(())
    }

    /// Subscribes to a PV.
    async fn subscribe(&self, name: &str) -> Result<()> {
        // The registry stays locked, so that no event of the channel comes before its number is known.
        let mut registry = self.registry.lock().await;
        let Some(pv) = registry.get_mut(name) else { return Ok(()) };
        let protocol = pv.definition.protocol;
        match self.clients.subscribe(protocol, name).await? {
            Ok(channel) => {
                pv.subscribed = self.now();
                registry.open(name, (protocol, channel));
            }
            Err(problem) => pv.refused = Some(problem),
        }
        Ok(())
    }

    /// Makes the registry agree with `epics.pvs`: with all rows, or those of some names.
    ///
    /// # Errors
    /// Those of SQL.
    pub(crate) async fn follow(&self, names: Option<&[String]>) -> Result<()> {
        let _one = self.following.lock().await;
        let mut sql = SqlClient::new(&self.database);
        self.follow_aliases(&mut sql).await?;
        self.follow_peers(&mut sql).await?;
        if names.is_some_and(<[String]>::is_empty) {
            return Ok(());
        }
        let definitions = self.definitions(&mut sql, names).await?;
        let wanted: BTreeSet<Arc<str>> = definitions.iter().map(|definition| Arc::clone(&definition.name)).collect();
        let (gone, new): (Vec<Arc<str>>, Vec<String>) = {
            let registry = self.registry.lock().await;
            let new = wanted.iter().filter(|name| registry.get(name).is_none()).map(|name| name.to_string());
            let gone = match names {
                None => registry.names().into_iter().filter(|name| !wanted.contains(name)).collect(),
                Some(names) => {
                    let known = names.iter().filter_map(|name| registry.get(name));
                    let known = known.map(|pv| Arc::clone(&pv.definition.name));
                    known.filter(|name| !wanted.contains(name)).collect()
                }
            };
            (gone, new.collect())
        };
        for name in gone {
            self.remove(&name).await?;
        }
        // PVs come back: with samples that were kept or imported, or under a new name.
        let mut known = if new.is_empty() { HashMap::new() } else { known(&mut sql, Some(&new)).await? };
        for definition in definitions {
            let known = known.remove(&*definition.name).unwrap_or_default();
            self.apply(definition, known).await?;
        }
        self.follow_switches().await;
        Ok(())
    }

    /// Definitions of all PVs, or of those of some names, with what their policies say.
    async fn definitions(&self, sql: &mut SqlClient, names: Option<&[String]>) -> Result<Vec<Definition>> {
        let columns = "SELECT name, method, period, policy, paused, protocol, created, modified, \
                       enabled_by, disabled_by, deadband FROM epics.pvs";
        let found = match names {
            None => sql.rows(columns, &[]).await?,
            Some(names) => {
                let names = Value::Array(names.iter().cloned().map(Value::Text).collect());
                sql.rows(&format!("{columns} WHERE name = ANY($1)"), &[names]).await?
            }
        };
        let new = Policies::read(sql).await?;
        let mut policies = self.policies.lock().await;
        policies.replace(new);
        let mut all = Vec::new();
        for rows in found {
            let (mut name, mut method, mut period) = (rows.texts(0)?, rows.texts(1)?, rows.numbers(2)?);
            let (mut policy, mut paused, mut protocol) = (rows.texts(3)?, rows.booleans(4)?, rows.texts(5)?);
            let (mut created, mut modified) = (rows.times(6)?, rows.times(7)?);
            let (mut enabled_by, mut disabled_by, mut deadband) = (rows.texts(8)?, rows.texts(9)?, rows.numbers(10)?);
            for row in 0..rows.len() {
                let name = there(name.take(row))?;
                let policy = policies.of(&name, policy.take(row).as_deref());
                let own = method.take(row).and_then(|method| Method::of(&method));
                all.push(Definition {
                    name: name.into(),
                    method: own.or(policy.map(|policy| policy.method)).unwrap_or(Method::Monitor),
                    period: finite(period.take(row)).or(policy.map(|policy| policy.period)).unwrap_or(1.0),
                    policy: policy.map(|policy| Arc::clone(&policy.name)),
                    paused: there(paused.take(row))?,
                    protocol: Protocol::of(&there(protocol.take(row))?).unwrap_or(Protocol::Ca),
                    enabled_by: enabled_by.take(row).map(|by| names::normal(&by).into()),
                    disabled_by: disabled_by.take(row).map(|by| names::normal(&by).into()),
                    deadband: finite(deadband.take(row)).or(policy.and_then(|policy| policy.deadband)).unwrap_or(0.0),
                    created: there(created.take(row))?,
                    modified: there(modified.take(row))?,
                });
            }
        }
        Ok(all)
    }

    async fn follow_aliases(&self, sql: &mut SqlClient) -> Result<()> {
        let mut aliases = Vec::new();
        for rows in sql.rows("SELECT alias, pv FROM epics.aliases", &[]).await? {
            let (mut alias, mut pv) = (rows.texts(0)?, rows.texts(1)?);
            for row in 0..rows.len() {
                aliases.push((there(alias.take(row))?, Arc::from(there(pv.take(row))?)));
            }
        }
        self.registry.lock().await.aliases = aliases.into_iter().collect();
        Ok(())
    }

    /// Makes PVs that switch others do so, as their values are now.
    async fn follow_switches(&self) {
        let now = self.now();
        let mut registry = self.registry.lock().await;
        let mut pending = self.pending.lock().await;
        let before = registry.switches();
        registry.note_switches();
        // PVs that nothing switches any more are on.
        for pv in registry.all_mut() {
            if pv.is_off && pv.definition.enabled_by.is_none() && pv.definition.disabled_by.is_none() {
                pv.switch(None, now, &mut pending);
            }
        }
        for name in before.into_iter().chain(registry.switches()) {
            registry.for_switched_by(&name, |pv, by| pv.switch(by, now, &mut pending));
        }
    }

    /// Makes the peers those of `epics.peers`.
    async fn follow_peers(&self, sql: &mut SqlClient) -> Result<()> {
        let mut peers = Vec::new();
        for rows in sql.rows("SELECT url, pair FROM epics.peers ORDER BY created, url", &[]).await? {
            let (mut url, mut pair) = (rows.texts(0)?, rows.booleans(1)?);
            for row in 0..rows.len() {
                let url = there(url.take(row))?;
                // Others write this table too.
                let url = normal_url(&url).unwrap_or(url);
                peers.push((url, there(pair.take(row))?));
            }
        }
        self.peers.set(peers);
        Ok(())
    }

    /// Adds a PV, or changes it to a new definition. What an earlier call left undone is done.
    async fn apply(&self, definition: Definition, known: Known) -> Result<()> {
        let name = Arc::clone(&definition.name);
        let now = self.now();
        let paused = definition.paused;
        let closed = {
            let mut registry = self.registry.lock().await;
            let mut pending = self.pending.lock().await;
            let Some(pv) = registry.get_mut(&name) else {
                let mut pv = with_known(definition, known);
                let why = if paused { reason::PAUSED } else { reason::CONNECTING };
                // A PV that comes back was not archived for a time that is not known.
                let start = pv.newest.map_or(pv.definition.created, |(time, _)| time).min(now);
                pv.open_gap(why, None, start, &mut pending);
                registry.add(pv);
                drop((registry, pending));
                return if paused { Ok(()) } else { self.subscribe(&name).await };
            };
            let moved = pv.definition.protocol != definition.protocol;
            let is_open = pv.channel.is_some() || pv.refused.is_some();
            if pv.definition == definition && is_open != paused {
                return Ok(());
            }
            if pv.definition != definition {
                if !pv.is_off {
                    pv.flush_slot(&mut pending);
                }
                pv.definition = definition;
                pv.due = 0;
            }
            if !is_open || !(paused || moved) {
                None
            } else {
                pv.connection = None;
                pv.refused = None;
                pv.number = None;
                let why = if paused { reason::PAUSED } else { reason::CONNECTING };
                pv.open_gap(why, None, now, &mut pending);
                registry.close(&name)
            }
        };
        if let Some(channel) = closed {
            self.clients.unsubscribe(channel).await?;
        }
        let is_closed = self.registry.lock().await.get(&name).is_some_and(|pv| pv.channel.is_none());
        if !paused && is_closed { self.subscribe(&name).await } else { Ok(()) }
    }

    async fn remove(&self, name: &str) -> Result<()> {
        let now = self.now();
        let removed = {
            let mut registry = self.registry.lock().await;
            let mut pending = self.pending.lock().await;
            let mut removed = registry.remove(name);
            if let Some(pv) = &mut removed {
                pv.end(&mut pending);
                pv.close_gap(now, &mut pending);
            }
            removed
        };
        match removed.and_then(|pv| pv.channel) {
            Some(channel) => self.clients.unsubscribe(channel).await,
            None => Ok(()),
        }
    }
}

/// A number; NaN and infinities, which a CHECK admits, are none.
fn finite(number: Option<f64>) -> Option<f64> {
    number.filter(|number| number.is_finite())
}

/// Time at which an archiver was last seen.
async fn last_seen(sql: &mut SqlClient) -> Result<Option<Nanos>> {
    for rows in sql.rows("SELECT max(seen) FROM epics.runs", &[]).await? {
        if rows.len() > 0 {
            return Ok(rows.times(0)?.take(0));
        }
    }
    Ok(None)
}

/// Gaps that last, each with its PV: of all PVs, or of those of some names.
async fn open_gaps(sql: &mut SqlClient, names: Option<&[String]>) -> Result<Vec<(String, Gap)>> {
    let (condition, values) = history::of_names(names);
    let text = format!(
        "SELECT pv, reason, time, samples, detail FROM epics.gaps WHERE ended IS NULL AND {condition} ORDER BY time"
    );
    let mut gaps = Vec::new();
    for rows in sql.rows(&text, &values).await? {
        let (mut pv, mut why, mut time) = (rows.texts(0)?, rows.texts(1)?, rows.times(2)?);
        let (mut samples, mut detail) = (rows.integers(3)?, rows.texts(4)?);
        for row in 0..rows.len() {
            let why = there(why.take(row))?;
            // Others may write this table; a reason that is not ours is not ours to end.
            let Some(reason) = reason::ALL.into_iter().find(|own| *own == why) else { continue };
            let start = there(time.take(row))?;
            let (samples, detail) = (samples.take(row), detail.take(row));
            let gap = Gap { start, reason, ended: None, samples, detail, filled: None };
            gaps.push((there(pv.take(row))?, gap));
        }
    }
    Ok(gaps)
}
