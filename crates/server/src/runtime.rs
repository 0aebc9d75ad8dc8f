//! The async runtime of the listeners.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Threads for blocking work, such as disk I/O.
const OTHER_THREADS: usize = 512;
/// Tasks that a worker runs between two polls for ready sockets. Small, because a task may run for
/// 0.1 ms.
const TASKS_PER_POLL: u32 = 16;

/// Creates the runtime for [`crate::Server`] with up to `max_connections` sessions per listener.
///
/// A session that computes for long moves to a thread of its own (`query::compute`). Threads are
/// started on demand.
///
/// # Errors
/// The system's error if no thread can be started.
pub fn runtime(max_connections: usize) -> io::Result<Runtime> {
    let listeners = crate::LISTENERS.iter().filter(|listener| listener.computes()).count();
    Builder::new_multi_thread()
        .thread_name("serve")
        .thread_stack_size(query::STACK_BYTES)
        .max_blocking_threads(max_connections.saturating_mul(listeners).saturating_add(OTHER_THREADS))
        .event_interval(TASKS_PER_POLL)
        .enable_all()
        .build()
}
