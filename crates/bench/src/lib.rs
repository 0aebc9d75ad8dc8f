//! The benchmark tool for time-series databases: sees what a client sees, checks every kind of answer, and says how it
//! measured.
//!
//! A run: a [`config`] and a workload give a schema, data and questions, all as pure functions (`workload`,
//! `generate`). A driver (`drivers`) puts them into a product's language. The engine lets clients send them and times
//! it (`engine`), the oracle says what the right answers are (`oracle`), the `result` is what reports are made from.
//!
//! Always true: no crate of ours is linked, so that the database and what measures it cannot share a mistake.

mod breakeven;
pub mod cli;
mod cluster;
pub mod config;
mod dataset;
mod drivers;
mod engine;
pub mod error;
mod generate;
pub mod java_random;
mod ledger;
mod measure;
pub mod monitor;
mod oracle;
pub mod peers;
mod published;
pub mod query;
mod report;
pub mod result;
mod run;
pub mod schema;
mod tpcc;
mod workload;
