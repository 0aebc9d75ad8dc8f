//! Runs bound queries on DataFusion, and series statements on an executor of their own. No other crate names DataFusion.
//!
//! - [`Plan::new`] lowers a [`binder::tree::Query`] to a plan, directly: no name is resolved and no type is chosen again.
//!   DataFusion executes joins, sorts and aggregation; values are PostgreSQL's, computed by crate `scalar` unless Arrow's kernels
//!   agree (`evaluation`).
//! - [`Runtime`] has the memory, spill directory and optimizer rules of all sessions; an [`Executor`] plans and runs the
//!   statements of one session over the snapshot of a [`ReadContext`].
//! - [`series`] matches plans over one `columns` table and runs them synchronously.
//! - [`arrow`] has PostgreSQL's values in Arrow arrays, for parameters and results.
//!
//! Modules, lowest first, none of which uses a later one: `errors`, `types`, `results`, `memory`, `arrow`, `evaluation`,
//! `nodes`, `functions`, `scan`, `files`, `series`, `lower`, `run`.
//!
//! Invariants: what cannot be lowered is refused with 0A000, never computed otherwise. No input causes a panic. Memory that
//! grows is reserved, and every loop can be cancelled. No error of DataFusion leaves the crate untranslated.

pub mod arrow;
mod errors;
mod evaluation;
pub mod files;
mod functions;
mod lower;
mod memory;
mod nodes;
pub mod results;
mod run;
pub mod scan;
pub mod series;
pub mod types;

pub use lower::{Environment, is_reusable};
pub use memory::{RESULT_BYTES, Reserved, counted};
pub use run::{Execution, Executor, Parameters, PhysicalPlan, Plan, Runtime};
pub use scan::{FunctionRows, ReadContext, TableSource, argument_columns};

#[cfg(test)]
mod tests;
