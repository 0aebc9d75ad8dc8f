//! The runtime whose threads serve sockets.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Other threads that may wait for disks at a time.
const OTHER_THREADS: usize = 512;
/// Sessions of each of the three listeners that may compute at a time, a thread each.
const LISTENERS: usize = 3;
/// Tasks that a thread runs before it asks for sockets that became ready. Small, as a task may run for 0.1 ms.
const TASKS_PER_POLL: u32 = 16;

/// A runtime for [`crate::Server`] with up to `max_connections` sessions on each listener.
///
/// A session that computes for long takes a thread for itself meanwhile (`query::compute`). Threads are started when they are needed.
///
/// # Errors
/// What the system says that gives no thread.
pub fn runtime(max_connections: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("serve")
        .thread_stack_size(query::STACK_BYTES)
        .max_blocking_threads(max_connections.saturating_mul(LISTENERS).saturating_add(OTHER_THREADS))
        .event_interval(TASKS_PER_POLL)
        .enable_all()
        .build()
}
