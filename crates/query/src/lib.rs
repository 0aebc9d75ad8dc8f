//! SQL: sessions and statements over the engine, DataFusion for what is not compiled.
//!
//! Words: a [`Database`] is an engine with a SQL runtime; a [`Session`] is one client's settings and transaction; a [`Prepared`] is a
//! parsed, typed statement; an [`Outcome`] is what executing it gave.
//!
//! Always true:
//! - One statement reads one snapshot, own writes included.
//! - A failed statement outside a transaction block changes nothing; inside, the block accepts only ROLLBACK.
//! - No engine lock is held across an await; waits are parked on `env::Event`.

pub mod functions;
pub mod pg_catalog;
mod skeleton;
pub use skeleton::*;
