//! The PVs that are archived: their definitions and what is known of each while the archiver runs.
//!
//! The table `epics.pvs` has the definitions. The registry follows it, whoever writes it.

use std::net::SocketAddrV4;
use std::sync::Arc;

use epics::client::ChannelId;
use epics::sample::{Metadata, Nanos, Sample, Severity};
use rustc_hash::FxHashMap;

use crate::tables::{Gap, Version};

/// Choice of the samples that are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Every update that the IOC sends.
    Monitor,
    /// The newest value once a period, if it has changed.
    Scan,
}

impl Method {
    pub(crate) const NAMES: [&str; 2] = ["monitor", "scan"];

    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        Method::NAMES[self as usize]
    }

    /// The method of a name, in any case.
    pub(crate) fn of(name: &str) -> Option<Method> {
        [Method::Monitor, Method::Scan].into_iter().find(|method| method.name().eq_ignore_ascii_case(name))
    }
}

/// Protocol by which an IOC is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// Channel Access.
    Ca,
    /// PV Access.
    Pva,
}

impl Protocol {
    /// The name in the table.
    pub(crate) fn name(self) -> &'static str {
        ["ca", "pva"][self as usize]
    }

    /// The protocol of a name.
    pub(crate) fn of(name: &str) -> Option<Protocol> {
        [Protocol::Ca, Protocol::Pva].into_iter().find(|protocol| protocol.name() == name)
    }
}

/// A row of `epics.pvs`, with what its policy says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) method: Method,
    /// Seconds of a scan.
    pub(crate) period: f64,
    pub(crate) policy: Option<Arc<str>>,
    pub(crate) paused: bool,
    pub(crate) protocol: Protocol,
    /// PV while whose value is not 0 samples are stored.
    pub(crate) enabled_by: Option<Arc<str>>,
    /// PV while whose value is not 0 no samples are stored.
    pub(crate) disabled_by: Option<Arc<str>>,
    /// Numbers that differ by no more from the one that was stored last are left out.
    pub(crate) deadband: f64,
    pub(crate) created: Nanos,
    pub(crate) modified: Nanos,
}

impl Definition {
    /// Samples of a gap may have stamps from so long before it and behind it: its ends are times of arrival. Another archiver
    /// scans at other times, or leaves out other values of a deadband, and what it has near the gap is not missing here.
    pub(crate) fn margin(&self) -> Nanos {
        match self.method {
            Method::Monitor if self.deadband == 0.0 => 10 * 1_000_000_000,
            _ => 0,
        }
    }

    pub(crate) fn period_ns(&self) -> Nanos {
        // `as` saturates.
        (self.period * 1e9) as Nanos
    }
}

/// A connection that is open.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) host: String,
    /// Largest number of elements.
    pub(crate) count: u32,
    pub(crate) since: Nanos,
    /// Time and type of its first sample.
    pub(crate) first: Option<(Nanos, i16)>,
    /// Whether its first metadata have arrived.
    pub(crate) described: bool,
}

/// Counts since the archiver started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Samples that arrived.
    pub(crate) events: u64,
    pub(crate) stored: u64,
    /// Bytes of values that were stored.
    pub(crate) bytes: u64,
    /// Samples that repeat the one before, as after a reconnection.
    pub(crate) repeated: u64,
    /// Samples in `misdated`.
    pub(crate) misdated: u64,
    /// Samples before the newest one.
    pub(crate) late: u64,
    /// Samples within the deadband.
    pub(crate) unchanged: u64,
    /// Samples that were lost before they could be stored.
    pub(crate) dropped: u64,
    /// Samples of a scan that a newer one replaced.
    pub(crate) replaced: u64,
    pub(crate) type_changes: u64,
    pub(crate) connections_lost: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.events += other.events;
        self.stored += other.stored;
        self.bytes += other.bytes;
        self.repeated += other.repeated;
        self.misdated += other.misdated;
        self.late += other.late;
        self.unchanged += other.unchanged;
        self.dropped += other.dropped;
        self.replaced += other.replaced;
        self.type_changes += other.type_changes;
        self.connections_lost += other.connections_lost;
    }
}

/// All PVs at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) pvs: u64,
    pub(crate) connected: u64,
    pub(crate) paused: u64,
    /// Sums over all PVs, also those that were removed.
    pub(crate) counts: Counts,
}

/// A PV.
#[derive(Debug)]
pub(crate) struct Pv {
    pub(crate) definition: Definition,
    /// Number in the client of its protocol.
    pub(crate) channel: Option<(Protocol, ChannelId)>,
    pub(crate) connection: Option<Connection>,
    pub(crate) connected_first: Option<Nanos>,
    pub(crate) connected_last: Option<Nanos>,
    pub(crate) host_last: Option<String>,
    /// Another server that has a PV of this name, since the last disconnection.
    pub(crate) also_at: Option<SocketAddrV4>,
    /// Since when it is subscribed.
    pub(crate) subscribed: Nanos,
    /// The gap that lasts.
    pub(crate) gap: Option<Gap>,
    /// End of the last gap of lost samples.
    pub(crate) lost_until: Nanos,
    /// Time of the newest sample that was stored, and a hash of it unless an earlier run stored it.
    pub(crate) newest: Option<(Nanos, Option<u64>)>,
    pub(crate) received_last: Option<Nanos>,
    /// The newest sample of a scan that is not stored yet, and its time of arrival.
    pub(crate) slot: Option<Box<(Sample, Nanos)>>,
    /// Whether it switches other PVs.
    pub(crate) is_switch: bool,
    /// Whether another PV has switched archiving off. The slot has the newest sample then.
    pub(crate) is_off: bool,
    /// Newest value, if it is a number and the PV is connected.
    pub(crate) number: Option<f64>,
    /// Number and severity that were stored last.
    pub(crate) stored_last: Option<(f64, Severity)>,
    /// Time from which the next sample of a scan may be stored.
    pub(crate) due: Nanos,
    pub(crate) version: Option<Version>,
    /// Metadata that wait for the first sample of their connection.
    pub(crate) metadata_pending: Option<Metadata>,
    /// The last thing that the server refused.
    pub(crate) refused: Option<String>,
    pub(crate) counts: Counts,
}

impl Pv {
    pub(crate) fn new(definition: Definition) -> Pv {
        Pv {
            definition,
            channel: None,
            connection: None,
            connected_first: None,
            connected_last: None,
            host_last: None,
            also_at: None,
            subscribed: 0,
            gap: None,
            lost_until: 0,
            newest: None,
            received_last: None,
            slot: None,
            is_switch: false,
            is_off: false,
            number: None,
            stored_last: None,
            due: 0,
            version: None,
            metadata_pending: None,
            refused: None,
            counts: Counts::default(),
        }
    }

    /// Whether the value is 0, which is all that matters to PVs that this one switches; `None` if it is not known.
    pub(crate) fn switches(&self) -> Option<bool> {
        self.number.map(|number| number == 0.0)
    }

    /// Samples a second since the PV was subscribed.
    pub(crate) fn rate(&self, now: Nanos) -> f64 {
        self.counts.events as f64 / seconds_of(self.subscribed, now)
    }

    /// Bytes of values a second.
    pub(crate) fn byte_rate(&self, now: Nanos) -> f64 {
        self.counts.bytes as f64 / seconds_of(self.subscribed, now)
    }
}

fn seconds_of(from: Nanos, to: Nanos) -> f64 {
    (to.saturating_sub(from) as f64 / 1e9).max(1.0)
}

/// All PVs.
#[derive(Default)]
pub(crate) struct Registry {
    pvs: FxHashMap<Arc<str>, usize>,
    slots: Vec<Option<Pv>>,
    free: Vec<usize>,
    channels: FxHashMap<(Protocol, ChannelId), usize>,
    /// Counts of PVs that were removed.
    removed: Counts,
    /// PVs that a PV switches, by its name.
    switched: FxHashMap<Arc<str>, Vec<usize>>,
    /// Real names by alias.
    pub(crate) aliases: FxHashMap<String, Arc<str>>,
}

impl Registry {
    pub(crate) fn len(&self) -> usize {
        self.pvs.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Pv> {
        self.slots[*self.pvs.get(name)?].as_ref()
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Pv> {
        self.slots[*self.pvs.get(name)?].as_mut()
    }

    pub(crate) fn of_channel(&mut self, channel: (Protocol, ChannelId)) -> Option<&mut Pv> {
        self.slots[*self.channels.get(&channel)?].as_mut()
    }

    pub(crate) fn add(&mut self, pv: Pv) {
        let name = Arc::clone(&pv.definition.name);
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.slots.push(None);
                self.slots.len() - 1
            }
        };
        self.slots[at] = Some(pv);
        self.pvs.insert(name, at);
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Pv> {
        let at = self.pvs.remove(name)?;
        let pv = self.slots[at].take()?;
        self.removed.add(&pv.counts);
        self.free.push(at);
        if let Some(channel) = pv.channel {
            self.channels.remove(&channel);
        }
        Some(pv)
    }

    /// Notes the channel of a PV.
    pub(crate) fn open(&mut self, name: &str, channel: (Protocol, ChannelId)) {
        if let Some(at) = self.pvs.get(name)
            && let Some(pv) = &mut self.slots[*at]
        {
            pv.channel = Some(channel);
            self.channels.insert(channel, *at);
        }
    }

    /// Forgets the channel of a PV and returns it.
    pub(crate) fn close(&mut self, name: &str) -> Option<(Protocol, ChannelId)> {
        let channel = self.get_mut(name)?.channel.take()?;
        self.channels.remove(&channel);
        Some(channel)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Pv> {
        self.slots.iter().flatten()
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Pv> {
        self.slots.iter_mut().flatten()
    }

    /// Notes which PVs switch others; after definitions have changed.
    pub(crate) fn note_switches(&mut self) {
        let mut switched: FxHashMap<Arc<str>, Vec<usize>> = FxHashMap::default();
        for (at, pv) in self.slots.iter().enumerate().filter_map(|(at, pv)| Some((at, pv.as_ref()?))) {
            for name in [&pv.definition.enabled_by, &pv.definition.disabled_by].into_iter().flatten() {
                let real = self.find(name).map_or(name, |pv| &pv.definition.name);
                switched.entry(Arc::clone(real)).or_default().push(at);
            }
        }
        self.switched = switched;
        for pv in self.slots.iter_mut().flatten() {
            pv.is_switch = self.switched.contains_key(&pv.definition.name);
        }
    }

    /// Calls a function with each PV that a PV switches, and the name of the PV that switches it off, if one does.
    pub(crate) fn for_switched_by(&mut self, name: &str, mut change: impl FnMut(&mut Pv, Option<Arc<str>>)) {
        let Some(places) = self.switched.get(name).cloned() else { return };
        for at in places {
            let Some(definition) = self.slots[at].as_ref().map(|pv| &pv.definition) else { continue };
            // A PV whose value is not known switches nothing off: rather a sample too many.
            let is_zero = |name: &Arc<str>| self.find(name)?.switches();
            let switches = [(&definition.enabled_by, true), (&definition.disabled_by, false)];
            let is_off =
                |(by, off): &(&Option<Arc<str>>, bool)| by.as_ref().is_some_and(|by| is_zero(by) == Some(*off));
            let off_by = switches.into_iter().find(is_off).and_then(|(by, _)| by.clone());
            if let Some(pv) = &mut self.slots[at] {
                change(pv, off_by);
            }
        }
    }

    /// Names of PVs that switch others.
    pub(crate) fn switches(&self) -> Vec<Arc<str>> {
        self.switched.keys().cloned().collect()
    }

    /// The PV that a name of a request means: itself, or the PV of an alias.
    pub(crate) fn find(&self, name: &str) -> Option<&Pv> {
        self.get(name).or_else(|| self.get(self.aliases.get(name)?))
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals { counts: self.removed, ..Totals::default() };
        for pv in self.all() {
            totals.pvs += 1;
            totals.connected += u64::from(pv.connection.is_some());
            totals.paused += u64::from(pv.definition.paused);
            totals.counts.add(&pv.counts);
        }
        totals
    }

    /// Names of all PVs, sorted.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = self.pvs.keys().cloned().collect();
        names.sort_unstable();
        names
    }
}
