//! Measurements of the machine and of the server's processes, from `/proc` and the file system
//! alone.
//!
//! [`proc`] reads one file at one moment. [`tree`] sums counters over the processes of a server,
//! which may start and end. [`sampler`] samples both on a thread, and waits until a server is idle.
//! [`page_cache`] drops and fills the cache of files, and reads files at the disk's rate. [`fsync`]
//! measures the disk's sync latency.

pub(crate) mod fsync;
pub(crate) mod histogram;
pub(crate) mod page_cache;
pub(crate) mod proc;
pub(crate) mod sampler;
pub(crate) mod tree;
