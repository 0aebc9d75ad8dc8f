//! The store of memory-optimised (`rows`) tables: records with versions, indexes over them, locks, and transactions that
//! see, lock and change them.
//!
//! - [`Store`]: what all tables share; [`Txn`]: one transaction; [`RowTable`]: a table as a statement sees it.
//! - [`assign`]: what a value becomes when a column takes it.
//! - [`row`]: a row as bytes, read a field at a time. [`key`]: values as bytes that are compared as bytes.
//! - [`index`]: the ordered map beneath every index.
//!
//! Not here: files, clock, the log, the order of commits (`engine`), SQL.

mod arena;
mod assign;
#[cfg(test)]
mod assign_tests;
mod build;
pub mod index;
pub mod key;
#[cfg(test)]
mod key_tests;
mod locks;
mod readers;
mod reads;
mod reclaim;
mod record;
pub mod row;
#[cfg(test)]
mod row_tests;
#[cfg(test)]
mod samples;
mod store;
mod sync;
mod table;
mod txn;

pub use assign::assign;
pub use build::Recovered;
pub use index::Direction;
pub use locks::{LockMode, TxnId, WaitPolicy};
pub use readers::Readers;
pub use store::Store;
pub use table::{IndexData, RECORDS_MAX, RecordId, Records, Restoring, RowTable, SECONDARY_INDEXES_MAX};
pub use txn::{Access, Entered, Isolation, Locked, Put, Savepoint, Txn, View};
