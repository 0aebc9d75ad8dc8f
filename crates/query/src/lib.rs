//! SQL: sessions and statements over the engine. `compiled` runs short statements on `rows` tables, `relational` all others.
//!
//! Terms: a [`Database`] is an engine with a SQL runtime; a [`Session`] is one client's settings and transaction; a
//! [`Prepared`] is a parsed and typed statement; an [`Outcome`] is the result of executing it.
//!
//! Always true:
//! - One statement reads one snapshot, including its transaction's own writes.
//! - A failed statement outside a transaction block changes nothing. After a failure in a block, the block accepts only
//!   ROLLBACK.
//! - No engine lock is held across an await; tasks wait on `env::Event`.

mod activity;
mod advisory_locks;
mod binding;
mod builder;
mod bulk;
mod call_statement;
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
mod insert;
mod maintenance;
mod option_values;
mod output;
mod pg_sleep;
mod plan_cache;
mod prepared_statements;
mod producer;
mod query;
mod result_schema;
mod rows;
mod server_facts;
mod session;
mod set;
mod settings;
mod statement;
mod stop_flag;
mod table_store;
mod transaction;
mod zone;

/// Stack size for threads that plan or run statements, enough for the deepest permitted expression tree. It is address
/// space, not resident memory.
pub const STACK_BYTES: usize = 32 << 20;

pub use bulk::{BulkIn, BulkTarget, IfMissing, IfThere};
pub use compute::{compute, computing};
pub use copy::{CopyForm, CopyIn};
pub use database::{Database, Options};
pub use pg_catalog::facts::Signal;
pub use plan_cache::{Recalled, RecalledStatement};
pub use relational::results::{Batches, Chunk, Chunks};
pub use relational::types::{OutputColumn, Value};
pub use result_schema::conform;
pub use rows::{Arguments, Bound, Executed, Messages};
pub use session::{Begun, Outcome, Prepared, Session, TxnStatus, Unfinished};
pub use settings::Timeouts;
pub use statement::{Statement, parse};
pub use stop_flag::StopFlag;
pub use zone::{Offsets, Zone};
