//! The data that a statement reads, handed to the scans that are planned.

use std::fmt;
use std::sync::Arc;

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

/// Passes the statement's snapshot to the scans that are being planned. An extension of DataFusion's configuration;
/// empty between statements, so that an idle session holds no snapshot.
#[derive(Default)]
pub(crate) struct Slot(Mutex<Option<Arc<ReadContext>>>);

impl Slot {
    pub(crate) fn set(&self, context: Option<Arc<ReadContext>>) {
        *self.0.lock() = context;
    }

    /// The snapshot of the statement that a scan is planned for.
    ///
    /// # Errors
    /// XX000 outside of a statement.
    pub(crate) fn reads(state: &dyn Session) -> DfResult<Arc<ReadContext>> {
        let reads = state.config().get_extension::<Slot>().and_then(|slot| slot.0.lock().clone());
        reads.ok_or_else(|| external(Error::bug("a scan outside a statement")))
    }
}
