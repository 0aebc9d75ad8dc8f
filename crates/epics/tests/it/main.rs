//! Tests of the crate's public parts.

mod client;
mod dbr;
mod fake_server;
mod load;
mod protocol;
mod settings;
mod soft_ioc;
mod watch;
