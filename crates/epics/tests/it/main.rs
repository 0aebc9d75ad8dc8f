//! Tests of the crate's public parts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod client;
mod dbr;
mod fake_server;
mod ioc;
mod load;
mod misbehaving_ioc;
mod protocol;
mod pva_client;
mod pva_data;
mod pva_fake;
mod pva_load;
mod pva_protocol;
mod pva_soft_ioc;
mod settings;
mod soft_ioc;
mod stopping_router;
mod watch;
