//! The data that a statement reads, handed to the scans that are planned.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::catalog::Session;
use datafusion::error::Result as DfResult;
use engine::Snapshot;
use jiff::tz::TimeZone;
use model::Error;
use parking_lot::Mutex;
use rows::View;

use crate::errors::external;

/// The snapshot of a statement.
pub struct ReadContext {
    /// Includes the transaction's own uncommitted writes and DDL.
    pub snapshot: Snapshot,
    /// Whether the transaction has written nothing.
    pub is_committed: bool,
    /// The view of `rows` tables; `None` for statements that name none.
    pub rows_view: Option<View>,
    /// The session's time zone, for messages.
    pub zone: TimeZone,
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadContext(lsn: {})", self.snapshot.lsn())
    }
}

/// Passes the statement's snapshot to the scans that are being planned, and the length of their values to the planner. An
/// extension of DataFusion's configuration; empty between statements, so that an idle session holds no snapshot.
#[derive(Default)]
pub(crate) struct Slot {
    context: Mutex<Option<Arc<ReadContext>>>,
    /// Bytes of the longest value that a planned scan may read; 0 if it is short.
    longest: AtomicUsize,
}

impl Slot {
    pub(crate) fn set(&self, context: Option<Arc<ReadContext>>) {
        *self.context.lock() = context;
    }

    /// Notes the longest value that a planned scan reads.
    pub(crate) fn note_longest(state: &dyn Session, bytes: usize) {
        if let Some(slot) = state.config().get_extension::<Slot>() {
            slot.longest.fetch_max(bytes, Ordering::Relaxed);
        }
    }

    /// The longest value that was noted since the last call.
    pub(crate) fn take_longest(&self) -> usize {
        self.longest.swap(0, Ordering::Relaxed)
    }

    /// The snapshot of the statement that a scan is planned for.
    ///
    /// # Errors
    /// XX000 outside of a statement.
    pub(crate) fn reads(state: &dyn Session) -> DfResult<Arc<ReadContext>> {
        let reads = state.config().get_extension::<Slot>().and_then(|slot| slot.context.lock().clone());
        reads.ok_or_else(|| external(Error::bug("a scan outside a statement")))
    }
}
