//! PostgreSQL's system catalog as data: types, casts, operators and functions, and the rules that choose among them.
//!
//! - [`builtin`]: the tables, as PostgreSQL 15 has them; `cargo xtask catalog` writes their files. Functions that PostgreSQL
//!   lacks are in `data/millrace.tsv`.
//! - [`Catalog::operator`], [`Catalog::function`]: the operator or function that a name and argument types mean.
//! - [`Catalog::common_type`]: the type of CASE, UNION, ARRAY and their like.
//! - [`setting`]: what SET, SHOW and RESET know.
//! - [`Catalog::cast`]: how a value of one type becomes one of another, and in which contexts.
//!
//! Always true
//! - Every row that PostgreSQL's rules could choose is here, whether Millrace can run it or not: a candidate that is missing
//!   would change which of the others is chosen.
//! - Types, functions and operators have PostgreSQL's numbers (OIDs), by which drivers know them.
//!
//! Not here: what a function computes.

mod cast;
mod common;
mod function;
mod generic;
mod operator;
mod routine;
mod select;
mod settings;
mod tables;
mod types;
mod user;

pub use cast::{Cast, CastContext};
pub use function::{FunctionCall, Resolved};
pub use operator::OperatorCall;
pub use routine::{RoutineMatch, Signature};
pub use settings::{SettingContext, SettingKind, SettingRow, Unit, setting, settings};
pub use tables::{Aggregate, Catalog, Function, FunctionKind, Operator, Volatility, builtin};
pub use types::{TypeId, TypeKind, TypeRow};
