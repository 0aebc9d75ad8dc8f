//! Network listeners.
//!
//! - [`pg`]: PostgreSQL's protocol, for every driver and `psql`.
//! - [`http`]: line protocol and SQL over HTTP.
//! - [`flight`]: Arrow Flight SQL: results and bulk ingest as record batches.
//! - [`health`]: health, readiness and metrics, on a separate listener.
//! - [`Server`]: all of them together.

mod accept;
pub mod flight;
pub mod health;
pub mod http;
mod metrics;
pub mod pg;
mod runtime;
mod serve;

pub use runtime::runtime;
pub use serve::{Options, Ready, Server};
