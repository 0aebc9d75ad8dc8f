//! What this tool sees of machine and server while it measures, from `/proc` and the file system alone.
//!
//! [`proc`] reads one thing at one moment; [`tree`] adds up the processes of a server over their coming and going;
//! [`sampler`] does both on a thread and waits until a server has come to rest.

pub(crate) mod histogram;
pub(crate) mod proc;
pub(crate) mod sampler;
pub(crate) mod tree;
