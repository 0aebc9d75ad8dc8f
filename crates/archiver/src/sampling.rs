//! Turns the events of a PV into rows of samples, gaps and metadata.
//!
//! Always true: a sample that arrived is stored in `samples` or `misdated`, or repeats the one before, or is the newest of a
//! scan's period, or is within the deadband that is asked for, or is counted in a gap.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use epics::client::{DropReason, Event, Reason};
use epics::sample::{Metadata, Nanos, Sample};
use model::limits;
use rustc_hash::FxHasher;

use crate::registry::{Connection, Method, Pv};
use crate::tables::{Gap, Pending, Version};
use crate::values::{self, Stored};

/// 1991: an IOC that has no time counts from 1990.
const EARLIEST: Nanos = 662_688_000 * 1_000_000_000;
/// A stamp may be so far ahead of the time of arrival.
const AHEAD_MAX: Nanos = 30 * 60 * 1_000_000_000;

/// Second servers of a name that were logged since the start; no more are than the limit.
static ALSO_LOGGED: AtomicU64 = AtomicU64::new(0);
const ALSO_LOGGED_MAX: u64 = 100;

const NO_ACCESS: &str = "the IOC does not let this host read the PV";

/// Reasons of gaps.
pub(crate) mod reason {
    pub(crate) const CONNECTING: &str = "connecting";
    pub(crate) const DISCONNECTED: &str = "disconnected";
    pub(crate) const PAUSED: &str = "paused";
    pub(crate) const STOPPED: &str = "archiver stopped";
    pub(crate) const DROPPED: &str = "dropped";
    pub(crate) const WITHHELD: &str = "withheld";
    pub(crate) const REFUSED: &str = "refused";
    pub(crate) const OFF: &str = "switched off";

    /// The pair did not archive the PV; only where this archiver had a gap too.
    pub(crate) const ABSENT: &str = "not archived";

    /// All reasons.
    pub(crate) const ALL: [&str; 9] =
        [CONNECTING, DISCONNECTED, PAUSED, STOPPED, DROPPED, WITHHELD, REFUSED, OFF, ABSENT];
    /// Reasons of gaps in which samples are not wanted.
    pub(crate) const MEANT: [&str; 2] = [PAUSED, OFF];
}

/// A hash of all that a sample says beside its time.
fn hash_of(sample: &Sample, stored: &Stored<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    (stored.ty, stored.value.map(f64::to_bits), stored.exact, stored.string, &stored.elements).hash(&mut hasher);
    (sample.severity as u8, sample.status).hash(&mut hasher);
    hasher.finish()
}

impl Pv {
    /// Takes an event.
    pub(crate) fn take(&mut self, event: Event, received: Nanos, rows: &mut Pending) {
        match event {
            Event::Connected { host, count, access, .. } => {
                self.connected(host.to_string(), count, received, rows);
                if !access.read {
                    self.refuse(NO_ACCESS.to_owned(), received, rows);
                }
            }
            Event::AlsoAt(host) => {
                // A gateway has the names of all IOCs behind it: `archive why` tells the others.
                if ALSO_LOGGED.fetch_add(1, Ordering::Relaxed) < ALSO_LOGGED_MAX {
                    let by = self.connection.as_ref().map_or("another", |connection| connection.host.as_str());
                    let name = &self.definition.name;
                    tracing::warn!(pv = %name, archived_from = by, also_at = %host, "two IOCs serve a PV of this name");
                }
                self.also_at = Some(host);
            }
            Event::Disconnected(why) => {
                self.also_at = None;
                self.disconnected(why, received, rows);
            }
            Event::Sample(sample) => self.arrived(sample, received, rows),
            Event::Metadata(metadata) => self.described(*metadata, received, rows),
            Event::Dropped { count, reason: why } => {
                self.counts.dropped += count;
                let why = match why {
                    DropReason::ConsumerSlow => "the archiver was too slow",
                    DropReason::TooLarge => "larger than the limit of a message",
                    DropReason::Malformed => "not of its type and count",
                };
                self.lost(reason::DROPPED, i64::try_from(count).ok(), why.to_owned(), received, rows);
            }
            Event::Withheld => {
                let why = "the archiver was too slow and the IOC sent only the newest values";
                self.lost(reason::WITHHELD, None, why.to_owned(), received, rows);
            }
            Event::Overrun => {
                let why = "updates came faster than the archiver acknowledged them, and the IOC left some out";
                self.lost(reason::WITHHELD, None, why.to_owned(), received, rows);
            }
            // The message of an alarm and the tag of a pulse are not archived.
            Event::Annotations(_) => {}
            Event::Refused { command, text, .. } => {
                self.refuse(format!("command {command}: {text}"), received, rows);
            }
            Event::AccessChanged(access) if access.read => self.admit(received, rows),
            Event::AccessChanged(_) => self.refuse(NO_ACCESS.to_owned(), received, rows),
        }
    }

    /// Begins a gap: the IOC does not give samples.
    fn refuse(&mut self, why: String, received: Nanos, rows: &mut Pending) {
        if self.connection.is_some() && self.gap.is_none() {
            self.open_gap(reason::REFUSED, Some(why.clone()), received, rows);
        }
        self.number = None;
        self.refused = Some(why);
    }

    /// Ends such a gap.
    fn admit(&mut self, received: Nanos, rows: &mut Pending) {
        self.refused = None;
        if self.gap.as_ref().is_some_and(|gap| gap.reason == reason::REFUSED) {
            self.close_gap(received, rows);
            if self.is_off {
                self.open_gap(reason::OFF, None, received, rows);
            }
        }
    }

    fn connected(&mut self, host: String, count: u32, received: Nanos, rows: &mut Pending) {
        self.close_gap(received, rows);
        if self.is_off {
            self.open_gap(reason::OFF, None, received, rows);
        }
        // The value may have changed and come back meanwhile.
        self.stored_last = None;
        self.connected_first.get_or_insert(received);
        self.connected_last = Some(received);
        self.host_last = Some(host.clone());
        self.refused = None;
        self.metadata_pending = None;
        self.connection = Some(Connection { host, count, since: received, first: None, described: false });
    }

    fn disconnected(&mut self, why: Reason, received: Nanos, rows: &mut Pending) {
        if !self.is_off {
            self.flush_slot(rows);
        }
        self.number = None;
        let detail = match why {
            Reason::CircuitClosed => "the IOC closed the connection",
            Reason::Unresponsive => "the IOC did not answer",
            Reason::ChannelEnded => "the IOC ended the channel",
            Reason::Protocol => "the IOC sent bytes that are not of its protocol",
        };
        if self.connection.take().is_some() {
            self.counts.connections_lost += 1;
        }
        self.open_gap(reason::DISCONNECTED, Some(detail.to_owned()), received, rows);
    }

    /// Begins a gap; one that lasts ends here.
    pub(crate) fn open_gap(&mut self, reason: &'static str, detail: Option<String>, start: Nanos, rows: &mut Pending) {
        self.close_gap(start, rows);
        let gap = Gap { start, reason, ended: None, samples: None, detail, filled: None };
        rows.gaps.push(&self.definition.name, &gap);
        self.gap = Some(gap);
    }

    /// Ends the gap that lasts, if one does.
    pub(crate) fn close_gap(&mut self, ended: Nanos, rows: &mut Pending) {
        if let Some(mut gap) = self.gap.take() {
            // Clocks step: a gap never ends before it begins.
            gap.ended = Some(ended.max(gap.start));
            rows.gaps.push(&self.definition.name, &gap);
        }
    }

    /// Records a gap of lost samples, which is over.
    pub(crate) fn lost(
        &mut self,
        reason: &'static str,
        samples: Option<i64>,
        detail: String,
        received: Nanos,
        rows: &mut Pending,
    ) {
        let since = self.received_last.unwrap_or(received).max(self.lost_until + 1).min(received);
        self.lost_until = received;
        let gap = Gap { start: since, reason, ended: Some(received), samples, detail: Some(detail), filled: None };
        rows.gaps.push(&self.definition.name, &gap);
    }

    fn arrived(&mut self, sample: Sample, received: Nanos, rows: &mut Pending) {
        self.counts.events += 1;
        if self.refused.is_some() {
            self.admit(received, rows);
        }
        let ty = values::type_of(&sample.value);
        if self.connection.as_ref().is_some_and(|connection| connection.first.is_none()) {
            self.first_of_connection(&sample, ty, received, rows);
        }
        self.number = values::number(&sample.value);
        match self.definition.method {
            _ if self.is_off => {
                // The newest is stored when archiving is switched on; others are counted in the gap.
                if self.slot.replace(Box::new((sample, received))).is_some()
                    && let Some(gap) = &mut self.gap
                {
                    gap.samples = Some(gap.samples.unwrap_or(0) + 1);
                }
            }
            Method::Monitor => self.store(&sample, received, rows),
            // A clock that was set back would stop scans.
            Method::Scan if received >= self.due || self.due > received.saturating_add(self.definition.period_ns()) => {
                self.due = received.saturating_add(self.definition.period_ns());
                self.slot = None;
                self.store(&sample, received, rows);
            }
            Method::Scan => {
                if self.slot.replace(Box::new((sample, received))).is_some() {
                    self.counts.replaced += 1;
                }
            }
        }
        self.received_last = Some(received);
    }

    /// Stores the sample of a scan whose period is over.
    pub(crate) fn scan(&mut self, now: Nanos, rows: &mut Pending) {
        if now >= self.due && self.slot.is_some() && !self.is_off {
            self.due = now.saturating_add(self.definition.period_ns());
            self.flush_slot(rows);
        }
    }

    /// Switches archiving off, or on again.
    ///
    /// - `by`: name of the PV that switches it off.
    pub(crate) fn switch(&mut self, by: Option<Arc<str>>, received: Nanos, rows: &mut Pending) {
        if by.is_some() == self.is_off {
            return;
        }
        self.is_off = by.is_some();
        match by {
            Some(by) => {
                self.flush_slot(rows);
                if self.connection.is_some() && self.gap.is_none() {
                    self.open_gap(reason::OFF, Some(format!("by {by}")), received, rows);
                }
            }
            None => {
                if self.gap.as_ref().is_some_and(|gap| gap.reason == reason::OFF) {
                    self.close_gap(received, rows);
                }
                self.stored_last = None;
                self.flush_slot(rows);
                if let Some(why) = self.refused.take() {
                    self.refuse(why, received, rows);
                }
            }
        }
    }

    /// Ends sampling: stores what a scan has kept back, or counts in its gap what a PV that is switched off has.
    pub(crate) fn end(&mut self, rows: &mut Pending) {
        if !self.is_off {
            return self.flush_slot(rows);
        }
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.reason == reason::OFF) {
            gap.samples = gap.samples.or(Some(0)).map(|count| count + i64::from(self.slot.is_some()));
            rows.gaps.push(&self.definition.name, gap);
        }
        self.slot = None;
    }

    /// Stores what a scan has kept back.
    pub(crate) fn flush_slot(&mut self, rows: &mut Pending) {
        if let Some(slot) = self.slot.take() {
            self.store(&slot.0, slot.1, rows);
        }
    }

    fn store(&mut self, sample: &Sample, received: Nanos, rows: &mut Pending) {
        let stored = values::store(&sample.value);
        let bytes = stored.varying_bytes();
        if bytes > limits::VALUE_BYTES_MAX {
            self.counts.dropped += 1;
            let detail = format!("a value of {bytes} bytes is larger than the limit of {}", limits::VALUE_BYTES_MAX);
            return self.lost(reason::DROPPED, Some(1), detail, received, rows);
        }
        let hash = hash_of(sample, &stored);
        let misdated = match self.newest {
            _ if sample.time < EARLIEST => Some("before 1991"),
            _ if sample.time > received.saturating_add(AHEAD_MAX) => Some("more than 30 minutes ahead"),
            // The first sample after a start is that of the time which is stored.
            Some((time, known)) if sample.time == time && known.is_none_or(|known| known == hash) => {
                self.counts.repeated += 1;
                return;
            }
            Some((time, _)) if sample.time == time => Some("time of the sample before"),
            _ => None,
        };
        if let Some(why) = misdated {
            self.counts.misdated += 1;
            rows.misdated.push(&self.definition.name, sample, &stored, received, why);
            return;
        }
        let is_late = self.newest.is_some_and(|(time, _)| sample.time < time);
        if self.definition.deadband > 0.0
            && values::is_number(stored.ty)
            && !is_late
            && let (Some(number), Some((last, severity))) = (stored.value, self.stored_last)
            && severity == sample.severity
            && (number - last).abs() <= self.definition.deadband
        {
            self.counts.unchanged += 1;
            return;
        }
        if is_late {
            self.counts.late += 1;
        } else {
            self.stored_last = stored.value.map(|number| (number, sample.severity));
            self.newest = Some((sample.time, Some(hash)));
        }
        self.counts.stored += 1;
        self.counts.bytes += 8 + bytes as u64;
        rows.samples.push(&self.definition.name, sample, &stored, Some(received));
    }

    fn first_of_connection(&mut self, sample: &Sample, ty: i16, received: Nanos, rows: &mut Pending) {
        if self.version.as_ref().is_some_and(|version| version.ty != ty) {
            self.counts.type_changes += 1;
        }
        let time = if sample.time < EARLIEST { received } else { sample.time.min(received) };
        if let Some(connection) = &mut self.connection {
            connection.first = Some((time, ty));
        }
        if let Some(metadata) = self.metadata_pending.take() {
            self.describe(metadata, time, rows);
        }
    }

    fn described(&mut self, metadata: Metadata, received: Nanos, rows: &mut Pending) {
        let Some(connection) = &mut self.connection else { return };
        // The first metadata of a connection are those of its first sample; later ones are changes.
        let is_change = std::mem::replace(&mut connection.described, true);
        match connection.first {
            None => self.metadata_pending = Some(metadata),
            Some((time, _)) => self.describe(metadata, if is_change { received } else { time }, rows),
        }
    }

    /// Adds a version if something changed.
    fn describe(&mut self, metadata: Metadata, since: Nanos, rows: &mut Pending) {
        let Some(Connection { host, count, first: Some((_, ty)), .. }) = &self.connection else { return };
        let mut since = since - since.rem_euclid(1_000);
        let count = i32::try_from(*count).unwrap_or(i32::MAX);
        if let Some(known) = &self.version {
            let same = known.ty == *ty && known.count == count && known.host == *host;
            if same && same_metadata(&known.metadata, &metadata) {
                return;
            }
            since = since.max(known.since + 1_000);
        }
        let version = Version { since, ty: *ty, count, host: host.clone(), metadata };
        rows.metadata.push(&self.definition.name, &version);
        self.version = Some(version);
    }
}

/// Like `==`, with NaN equal to NaN.
fn same_metadata(a: &Metadata, b: &Metadata) -> bool {
    format!("{a:?}") == format!("{b:?}")
}
