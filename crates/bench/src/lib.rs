//! The benchmark tool for time-series databases: sees what a client sees, checks every kind of answer, and says how it measured.

pub mod config;
pub mod java_random;
