//! Network listeners.
//!
//! - [`LISTENERS`]: the list of all of them; [`Listener`] says what is known about each.
//! - [`pg`]: PostgreSQL's protocol, for every driver and `psql`.
//! - [`http`]: line protocol and SQL over HTTP, and applications under prefixes of their own.
//! - [`flight`]: Arrow Flight SQL: results and bulk ingest as record batches.
//! - [`record_batches`]: the stream format of Arrow, for bodies of requests.
//! - [`health`]: health, readiness and metrics, on a separate listener.
//! - [`Server`]: all of them together.

mod connections;
pub mod flight;
pub mod health;
pub mod http;
mod listener;
mod metrics;
pub mod pg;
pub mod record_batches;
mod runtime;
mod serve;

pub use connections::Limits;
pub use listener::{LISTENERS, Listener};
pub use runtime::runtime;
pub use serve::{Options, Ready, Server};
