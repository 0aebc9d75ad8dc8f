//! The data that a statement reads, handed to the scans that are planned.

use std::fmt;
use std::sync::Arc;

use engine::Snapshot;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use rows::View;

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

/// Passes the statement's snapshot to the scans that are being planned. An extension of DataFusion's configuration;
/// empty between statements, so that an idle session holds no snapshot.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Arc<ReadContext>>>);

impl Slot {
    pub(crate) fn set(&self, context: Option<Arc<ReadContext>>) {
        *self.0.lock() = context;
    }

    pub(crate) fn get(&self) -> Option<Arc<ReadContext>> {
        self.0.lock().clone()
    }
}
