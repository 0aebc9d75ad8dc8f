//! The whole engine under simulated power cuts, torn and reordered writes, failing and short I/O, full disks and failing fsyncs.
//!
//! One seed decides everything: the workload, the order in which background work runs, what fails and what a crash leaves. [`run`] drives a few
//! sessions against an engine over [`env::sim::SimEnv`], keeps a [`model::Database`] for every commit, and checks:
//! - every snapshot read equals the model at its LSN, own uncommitted writes included, also long after flush and compaction;
//! - what `rows` tables show, by records and by each index, equals it too, at the newest commit and at snapshots held for long;
//! - tables with history equal it as of past commits, however often they were flushed, merged and recovered since;
//! - what retention dropped was old enough by some clock, never comes back, and goes in the end;
//! - a number of a sequence that was shown to somebody is never given again;
//! - after a crash the database is the model at some commit, not before the last one acknowledged at `sync`;
//! - reads at `sync` are never taken back;
//! - nothing panics, nothing dead-locks, and an engine that was not damaged on purpose opens again.

pub mod model;
mod workload;

pub use workload::{Config, Report, nth_io_call_fails, run};
