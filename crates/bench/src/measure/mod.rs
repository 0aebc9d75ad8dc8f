//! What this tool sees of machine and server while it measures, from `/proc` and the file system alone.
//!
//! [`proc`] reads one thing at one moment; [`tree`] adds up the processes of a server over their coming and going;
//! [`sampler`] does both on a thread and waits until a server has come to rest; [`page_cache`] empties and fills the cache
//! of files and reads them at the disk's rate; [`fsync`] tells how long the disk itself makes a writer wait.

pub(crate) mod fsync;
pub(crate) mod histogram;
pub(crate) mod page_cache;
pub(crate) mod proc;
pub(crate) mod sampler;
pub(crate) mod tree;
