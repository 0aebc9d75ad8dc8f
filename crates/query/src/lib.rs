//! SQL: sessions and statements over the engine. `compiled` runs short statements on `rows` tables, `relational` all others.
//!
//! Terms: a [`Database`] is an engine with a SQL runtime; a [`Session`] is one client's settings and transaction; a
//! [`Prepared`] is a parsed and typed statement; an [`Outcome`] is the result of executing it.
//!
//! Modules, lowest first, none of which uses a later one: `zone`, `threads`, `settings`, `routines`, `statement`, `errors`, `encode`,
//! `builder`, `session`, `result`, `table_functions`, `tables`, `binding`, `plan`, `execute`, `bulk`, `plan_cache`, `result_schema`, `client`.
//!
//! Always true:
//! - One statement reads one snapshot, including its transaction's own writes.
//! - A failed statement outside a transaction block changes nothing. After a failure in a block, the block accepts only
//!   ROLLBACK.
//! - No engine lock is held across an await; tasks wait on `env::Event`.

mod binding;
mod builder;
mod bulk;
pub mod client;
pub mod encode;
mod errors;
mod execute;
mod plan;
mod plan_cache;
mod result;
mod result_schema;
mod routines;
mod session;
mod settings;
mod statement;
mod table_functions;
mod tables;
mod threads;
mod zone;

/// Stack size for threads that plan or run statements, enough for the deepest permitted expression tree. It is address
/// space, not resident memory.
pub const STACK_BYTES: usize = 32 << 20;

pub use bulk::{BulkIn, BulkTarget, IfMissing, IfThere};
pub use catalog::TypeId;
pub use execute::{Begun, Unfinished};
pub use pg_catalog::facts::Signal;
pub use plan::Prepared;
pub use plan_cache::{PlanCache, Recalled, RecalledStatement};
pub use relational::results::{Batches, Chunk, Chunks};
pub use relational::types::{OutputColumn, Value};
pub use result::{Arguments, Bound, CopyIn, Executed, Messages, Outcome};
pub use result_schema::conform;
pub use session::Session;
pub use session::block::TxnStatus;
pub use session::database::{Database, Options};
pub use session::notifications::{Notification, Wake};
pub use settings::Timeouts;
pub use statement::copy::CopyForm;
pub use statement::{Statement, parse};
pub use table_functions::ApplicationRows;
pub use threads::{StopFlag, compute, computing};
pub use zone::{Offsets, Zone};
