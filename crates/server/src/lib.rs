//! The outside: what Millrace answers on its sockets.
//!
//! - [`pg`]: PostgreSQL wire, for every driver and `psql`.

pub mod pg;
