//! Write amplification: bytes written for each byte committed.

use crate::stats::Stats;

/// Bytes written for each byte of rows of `columns` tables that was committed, since start. Flushes
/// and compactions may also write rows committed before the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WriteAmplification {
    /// Bytes written to the log.
    pub log: f64,
    /// Bytes written by flushes.
    pub flushes: f64,
    /// Bytes written by compactions.
    pub compactions: f64,
}

impl WriteAmplification {
    /// The sum of all three.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.log + self.flushes + self.compactions
    }
}

impl Stats {
    /// Returns the write amplification; 0 before the first commit of rows.
    #[must_use]
    pub fn write_amplification(&self) -> WriteAmplification {
        let over = |bytes: u64| if self.ingested_bytes == 0 { 0.0 } else { bytes as f64 / self.ingested_bytes as f64 };
        WriteAmplification {
            log: over(self.ingest_log_bytes),
            flushes: over(self.metric("flush_bytes")),
            compactions: over(self.metric("compaction_bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobState, JobStats, MetricKind, MetricValue};

    #[test]
    fn each_part_is_divided_by_ingested_bytes_and_zero_without_ingest() {
        let metric = |name, value| MetricValue { name, help: "", kind: MetricKind::Total, value };
        let job = JobStats {
            name: "job",
            state: JobState::Idle,
            steps: 1,
            failures: 0,
            last_error: None,
            metrics: vec![metric("flush_bytes", 250), metric("compaction_bytes", 500)],
        };
        let stats = Stats {
            ingested_bytes: 1_000,
            ingest_log_bytes: 1_100,
            jobs: vec![job],
            // From other commits, and from recovery.
            log_bytes: 9_000,
            ..Stats::default()
        };
        let amplification = stats.write_amplification();
        assert_eq!(amplification, WriteAmplification { log: 1.1, flushes: 0.25, compactions: 0.5 });
        assert!((amplification.total() - 1.85).abs() < 1e-9);
        assert_eq!(Stats { ingested_bytes: 0, ..stats }.write_amplification(), WriteAmplification::default());
    }
}
