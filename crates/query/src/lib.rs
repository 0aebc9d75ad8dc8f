//! SQL: sessions and statements over the engine; DataFusion runs the statements that the row executor does not.
//!
//! Terms: a [`Database`] is an engine with a SQL runtime; a [`Session`] is one client's settings and transaction; a
//! [`Prepared`] is a parsed and typed statement; an [`Outcome`] is the result of executing it.
//!
//! Always true:
//! - One statement reads one snapshot, including its transaction's own writes.
//! - A failed statement outside a transaction block changes nothing. After a failure in a block, the block accepts only
//!   ROLLBACK.
//! - No engine lock is held across an await; tasks wait on `env::Event`.
//! - No message to a client names DataFusion: `errors` translates all of its errors.

mod advisory;
mod announced;
mod asof;
mod binding;
mod builder;
mod bulk;
mod compare;
mod compute;
mod context;
mod copy;
mod copy_file;
mod copy_in;
mod create_as;
mod cursor;
mod database;
mod ddl;
mod delete;
pub mod encode;
mod errors;
mod explain;
mod facts;
mod files;
pub mod functions;
mod guards;
mod insert;
mod interrupt;
mod keep;
mod key_filter;
mod maintenance;
mod memory;
mod named;
mod output;
mod parameters;
mod past;
pub mod pg_catalog;
mod produce;
mod provider;
mod query;
mod recall;
mod rows;
mod scan;
mod series;
mod session;
mod sessions;
mod set;
mod settings;
mod sleep;
mod slices;
mod statement;
mod stop;
mod summary;
mod syntax;
mod table_store;
mod transaction;
mod types;
mod zone;

/// Stack size for threads that plan or run statements, enough for the deepest permitted expression tree. It is address
/// space, not resident memory.
pub const STACK_BYTES: usize = 32 << 20;

pub use announced::conform;
pub use bulk::{BulkIn, BulkTarget, IfMissing, IfThere};
pub use compute::{compute, computing};
pub use copy::{Chunk, Chunks, CopyForm, CopyIn};
pub use database::{Database, Options};
pub use functions::Signal;
pub use recall::{Recalled, RecalledStatement};
pub use rows::{Arguments, Bound, Executed, Messages};
pub use session::{Batches, Begun, Outcome, Prepared, Session, TxnStatus, Unfinished};
pub use settings::Timeouts;
pub use statement::{Statement, parse};
pub use stop::StopFlag;
pub use types::{OutputColumn, Value};
pub use zone::{Offsets, Zone};
