//! Events of channels, and the bounded queue that carries them from the circuits to the consumer.
//!
//! The queue is bounded in bytes: a circuit acquires permits for a batch before it sends it, and the consumer releases them when it
//! has taken the batch. A circuit that gets none keeps a bounded number of updates, and then drops and counts samples.
//!
//! Always true: events other than samples are never dropped; a dropped sample is counted in a later [`Event::Dropped`] of its channel.

use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::sample::{Metadata, Nanos, Sample, ValueType};

/// Number of a channel of a client; never used again after `unsubscribe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// Rights of a client to a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Right to read and subscribe.
    pub read: bool,
    /// Right to write.
    pub write: bool,
}

/// Conditions under which a server sends an update: a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMask(pub u16);

impl EventMask {
    /// The value changed by more than `MDEL`.
    pub const VALUE: EventMask = EventMask(1);
    /// The value changed by more than `ADEL`, the archive deadband.
    pub const LOG: EventMask = EventMask(2);
    /// Status or severity changed.
    pub const ALARM: EventMask = EventMask(4);
    /// Metadata changed.
    pub const PROPERTY: EventMask = EventMask(8);
}

impl std::ops::BitOr for EventMask {
    type Output = EventMask;
    fn bitor(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }
}

/// An event of a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The channel.
    pub channel: ChannelId,
    /// Time of reception, by the clock that the client was given.
    pub received: Nanos,
    /// The event.
    pub event: Event,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The channel is open. After a reconnection, type and count may be others.
    Connected {
        /// Address of the server.
        host: SocketAddrV4,
        /// Type of the PV in its server.
        native: ValueType,
        /// Largest number of elements; 1 for scalars and structures, 0 where the protocol does not tell (arrays of PV Access).
        count: u32,
        /// Rights of this client. PV Access does not tell them: reading is granted, writing is not.
        access: Access,
    },
    /// The rights of this client changed.
    AccessChanged(Access),
    /// Another server has a PV of this name, too. It comes at most once between two disconnections, and perhaps before
    /// `Connected`.
    AlsoAt(SocketAddrV4),
    /// The channel is closed, and searched for again.
    Disconnected(Reason),
    /// An update. The first after `Connected` is the current value.
    Sample(Sample),
    /// Metadata: after `Connected`, and whenever they changed.
    Metadata(Box<Metadata>),
    /// Facts of the samples that follow, until the next event of this kind or `Disconnected` (PV Access only).
    Annotations(Box<Annotations>),
    /// Samples of this channel were dropped here since its last sample.
    Dropped {
        /// Number of samples.
        count: u64,
        /// Cause.
        reason: DropReason,
    },
    /// Since the last sample of this channel, the server was for some time asked to withhold updates, because the consumer is slow.
    /// It then sends only the newest. The number of updates in between is not known, and may be 0.
    Withheld,
    /// Since the last sample of this channel, the server lost updates, because its queue for this channel was full (PV Access only).
    /// It merges them into the next. Their number is not known, and is 1 or more.
    Overrun,
    /// The server refused a request.
    Refused {
        /// Number of the request's command: [`crate::ca::protocol::command`] or [`crate::pva::protocol::command`].
        command: u16,
        /// Status of the server: [`crate::ca::protocol::status_name`]; in PV Access 1 warning, 2 error, 3 fatal error.
        status: u32,
        /// Text of the server; often empty.
        text: String,
    },
}

/// Facts about samples that seldom change and have no place in a [`Sample`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Text of the alarm, where it is not just the name of the status.
    pub alarm_message: String,
    /// `userTag` of the time stamp; 0 where the server has none.
    pub user_tag: i32,
}

/// Cause of a disconnection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The server closed the circuit, or its machine did.
    CircuitClosed,
    /// The server did not answer for the time of `connection_timeout`.
    Unresponsive,
    /// The server ended this channel.
    ChannelEnded,
    /// The server sent bytes that are not of its protocol.
    Protocol,
}

/// Cause of dropped samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The queue of updates is full.
    ConsumerSlow,
    /// The payload is larger than the client's limit.
    TooLarge,
    /// The payload is not of its type.
    Malformed,
}

/// Updates of a circuit, oldest first.
#[derive(Debug)]
pub struct Batch {
    updates: Vec<Update>,
    _permit: OwnedSemaphorePermit,
}

impl Batch {
    /// The updates.
    #[must_use]
    pub fn updates(&self) -> &[Update] {
        &self.updates
    }

    /// The updates, owned. Their share of the queue is free from now on.
    #[must_use]
    pub fn into_updates(self) -> Vec<Update> {
        self.updates
    }
}

/// The consumer's end of the queue. Dropping it ends the client.
#[derive(Debug)]
pub struct Events {
    batches: mpsc::UnboundedReceiver<Batch>,
    budget: Arc<Semaphore>,
    current: std::vec::IntoIter<Update>,
}

impl Events {
    /// The next update; `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Update> {
        loop {
            if let Some(update) = self.current.next() {
                return Some(update);
            }
            self.current = self.batches.recv().await?.into_updates().into_iter();
        }
    }

    /// The next batch of updates, in which no batch is empty; `None` after the client has ended. Cancel safe.
    pub async fn next_batch(&mut self) -> Option<Batch> {
        if self.current.len() == 0 {
            return self.batches.recv().await;
        }
        let updates = std::mem::take(&mut self.current).collect();
        let none = Arc::clone(&self.budget).try_acquire_many_owned(0).ok()?;
        Some(Batch { updates, _permit: none })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.budget.close();
    }
}

/// The circuits' end of the queue.
#[derive(Clone)]
pub(crate) struct Queue {
    batches: mpsc::UnboundedSender<Batch>,
    budget: Arc<Semaphore>,
    bytes: u32,
}

impl Queue {
    pub(crate) fn new(bytes: usize) -> (Queue, Events) {
        let bytes = u32::try_from(bytes.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let budget = Arc::new(Semaphore::new(bytes as usize));
        // Each batch holds permits of the budget, so that the budget bounds this queue.
        let (sender, batches) = mpsc::unbounded_channel();
        let events = Events { batches, budget: Arc::clone(&budget), current: Vec::new().into_iter() };
        (Queue { batches: sender, budget, bytes }, events)
    }

    /// Returns when the consumer is gone.
    pub(crate) async fn closed(&self) {
        self.batches.closed().await;
    }
}

/// Bytes that a circuit keeps while the queue is full. More samples are dropped.
const KEPT_BYTES_MAX: usize = 1 << 20;

type Grant = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// Updates of one circuit on their way into the queue.
pub(crate) struct Outbox {
    queue: Queue,
    current: Vec<Update>,
    current_bytes: usize,
    /// A batch that waits for its permits.
    waiting: Option<(Vec<Update>, Grant)>,
    /// Samples dropped since the last sample of their channel, and the last cause.
    dropped: FxHashMap<u32, (u64, DropReason)>,
}

impl Outbox {
    pub(crate) fn new(queue: Queue) -> Outbox {
        Outbox { queue, current: Vec::new(), current_bytes: 0, waiting: None, dropped: FxHashMap::default() }
    }

    /// Adds an event. `payload_bytes`: bytes that it came in, as an estimate of its size.
    pub(crate) fn push(&mut self, update: Update, payload_bytes: usize) {
        self.current_bytes += size_of::<Update>() + payload_bytes;
        self.current.push(update);
    }

    /// Counts a sample of a channel that is not delivered.
    pub(crate) fn drop_sample(&mut self, channel: u32, reason: DropReason) {
        let (count, last_reason) = self.dropped.entry(channel).or_insert((0, reason));
        *count += 1;
        *last_reason = reason;
    }

    /// Reports the dropped samples of a channel, if there are any: before its next sample, and before its end.
    pub(crate) fn report_dropped(&mut self, channel: u32, received: Nanos) {
        if self.dropped.is_empty() {
            return;
        }
        if let Some((count, reason)) = self.dropped.remove(&channel) {
            let event = Event::Dropped { count, reason };
            self.push(Update { channel: ChannelId(channel), received, event }, 0);
        }
    }

    /// Reports all dropped samples and sends what has been pushed, unless updates still wait for the consumer.
    pub(crate) fn report_all_dropped(&mut self, received: Nanos) {
        if self.waiting.is_some() {
            return;
        }
        for (channel, (count, reason)) in std::mem::take(&mut self.dropped) {
            let event = Event::Dropped { count, reason };
            self.push(Update { channel: ChannelId(channel), received, event }, 0);
        }
        self.flush();
    }

    /// Whether dropped samples have not been reported.
    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// The channel has ended, and nobody wants to know of its dropped samples.
    pub(crate) fn forget_dropped(&mut self, channel: u32) {
        self.dropped.remove(&channel);
    }

    /// Whether samples have to be dropped.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_some() && self.current_bytes >= KEPT_BYTES_MAX
    }

    /// Whether even events that cannot be dropped are so many that no more should be read.
    pub(crate) fn is_overfull(&self) -> bool {
        self.current_bytes >= 8 * KEPT_BYTES_MAX
    }

    /// Whether updates wait for the consumer.
    pub(crate) fn is_blocked(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether the consumer has caught up by half.
    pub(crate) fn is_relaxed(&self) -> bool {
        self.waiting.is_none() && self.queue.budget.available_permits() >= self.queue.bytes as usize / 2
    }

    /// Sends what has been pushed, if the queue has room and nothing waits before it.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_some() || self.current.is_empty() {
            return;
        }
        let permits = u32::try_from(self.current_bytes).unwrap_or(u32::MAX).min(self.queue.bytes);
        let updates = std::mem::take(&mut self.current);
        self.current_bytes = 0;
        match Arc::clone(&self.queue.budget).try_acquire_many_owned(permits) {
            Ok(permit) => self.send(updates, permit),
            Err(_) => {
                let grant = Arc::clone(&self.queue.budget).acquire_many_owned(permits);
                self.waiting = Some((updates, Box::pin(grant)));
            }
        }
    }

    /// Waits until the waiting batch has its permits, and sends it; for ever if none waits. Cancel safe.
    ///
    /// # Errors
    /// The consumer is gone.
    pub(crate) async fn granted(&mut self) -> Result<(), AcquireError> {
        let Some((_, grant)) = &mut self.waiting else { return std::future::pending().await };
        let permit = grant.await?;
        if let Some((updates, _)) = self.waiting.take() {
            self.send(updates, permit);
        }
        self.flush();
        Ok(())
    }

    /// Sends all, waiting as long as it takes.
    pub(crate) async fn drain(&mut self) -> Result<(), AcquireError> {
        self.flush();
        while self.waiting.is_some() {
            self.granted().await?;
        }
        Ok(())
    }

    fn send(&self, updates: Vec<Update>, permit: OwnedSemaphorePermit) {
        // Without a consumer there is nobody to lose anything; the client ends soon.
        let _ = self.queue.batches.send(Batch { updates, _permit: permit });
    }
}
