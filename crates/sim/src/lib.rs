//! Simulation of the whole engine under power cuts, torn and reordered writes, failing and short
//! I/O, full disks and failing fsyncs.
//!
//! One seed determines everything: the workload, the order of background work, the faults, and the
//! state that a crash leaves. [`run`] drives a few sessions against an engine on
//! [`env::sim::SimEnv`], keeps a [`model::Database`] for every commit, and checks:
//! - every snapshot read equals the model at its LSN, including own uncommitted writes, even long
//!   after flush and compaction;
//! - reads of `rows` tables, by records and by each index, equal the model too, at the newest
//!   commit and at long-held snapshots;
//! - tables with history equal the model as of past commits, however often they were flushed,
//!   merged and recovered since;
//! - rows that retention dropped were old enough by some clock, never reappear, and due rows are
//!   dropped in the end;
//! - a sequence value that was shown to a client is never returned again;
//! - after a crash the database equals the model at some commit, not before the last one
//!   acknowledged at `sync`;
//! - no crash undoes a commit that a read at `sync` returned;
//! - nothing panics or deadlocks, and an engine that was not damaged on purpose opens again.

pub mod model;
mod workload;

pub use workload::{Config, Report, nth_io_call_fails, run};
