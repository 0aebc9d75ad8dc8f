//! The store of memory-optimised (`rows`) tables: multi-version records, ordered indexes, row locks
//! and transactions.
//!
//! - [`Store`]: state shared by all tables; [`Txn`]: one transaction; [`RowTable`]: one version of
//!   a table.
//! - [`coerce`]: PostgreSQL's assignment casts, applied when a value is stored in a column.
//! - [`row`]: the binary row format. [`key`]: order-preserving encoding of index keys.
//! - [`index`]: the B-link tree behind every index. [`inverted`]: the keys of inverted indexes.
//!
//! Not here: files, clock, the log, commit order (`engine`), SQL.

mod arena;
mod coerce;
#[cfg(test)]
mod coerce_tests;
pub mod index;
pub mod inverted;
pub mod key;
#[cfg(test)]
mod key_tests;
mod locks;
mod read_set;
mod readers;
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
mod table_ddl;
mod txn;

pub use coerce::coerce;
pub use index::Direction;
pub use locks::{LockMode, TxnId, WaitPolicy};
pub use readers::Readers;
pub use store::Store;
pub use table::{Derived, IndexData, RECORDS_MAX, RecordId, Records, Restoring, RowTable, SECONDARY_INDEXES_MAX};
pub use table_ddl::Recovered;
pub use txn::{Access, ConstraintModes, Entered, Isolation, KeysChecked, Locked, Put, RowChange, Savepoint, Txn, View};
