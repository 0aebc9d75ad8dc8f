//! The log's job: writes pending records and syncs once for all waiting commits.

use std::sync::Arc;

use env::Step;
use model::Result;

use crate::engine::Inner;
use crate::jobs::{Job, Priority};

pub(crate) struct LogWriter;

impl Job for LogWriter {
    fn name(&self) -> &'static str {
        "log"
    }

    fn step(&self, inner: &Arc<Inner>, _: Priority) -> Result<Step> {
        let step = inner.wal.flush_step(&|lsn| inner.versions.advance(lsn));
        if inner.jobs.flush.log_is_out_of_space(inner) {
            inner.jobs.flush.wake();
        }
        Ok(step)
    }

    /// Commits wait in `wal` for their records. Recovery from the log is safe; acknowledging more
    /// commits would not be.
    fn ends_process(&self) -> bool {
        true
    }
}
