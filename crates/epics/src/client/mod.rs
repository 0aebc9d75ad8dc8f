//! Parts that the clients of both protocols share: events and their queue, counters, the schedule of searches, connections.
//!
//! Updates of Channel Access and of PV Access have the same type, so that one consumer handles both.

pub(crate) mod backoff;
pub(crate) mod connection;
pub(crate) mod event;
pub(crate) mod search;
pub(crate) mod statistics;
pub(crate) mod variables;

use std::sync::Arc;

use crate::sample::Nanos;

pub use event::{Access, Annotations, Batch, ChannelId, DropReason, Event, EventMask, Events, Reason, Update};
pub use statistics::{Counter, Statistics};
pub use variables::SettingError;

/// Source of receive times.
pub(crate) type Clock = Arc<dyn Fn() -> Nanos + Send + Sync>;
