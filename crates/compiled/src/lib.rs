//! Compiled statements: SQL over `rows` tables, bound once to typed expressions and a fixed way of finding rows, and then
//! run in microseconds.
//!
//! - [`compile`], [`run`]: the whole of it.
//! - `bind`, `scope`: names and types, by PostgreSQL's rules.
//! - `expr`, `cast`, `functions`, `moment`, `aggregate`: evaluation.
//! - `plan`, `exec`: which rows, in which order; nested loops.
//! - `select`, `dml`, `foreign`: statements.
//!
//! Always true: nothing here waits or does I/O; a statement that must wait says so and is run again. Nothing here takes a
//! savepoint: whoever runs a statement undoes it when it fails or waits.

mod aggregate;
mod bind;
mod cast;
mod define;
mod dml;
mod exec;
mod expr;
mod foreign;
mod functions;
mod moment;
mod plan;
mod scope;
mod select;
mod statement;
#[cfg(test)]
mod tests;

pub use cast::Zone;
pub use define::{
    Catalog, Change, Condition, Definition, Notice, Object, Rewrite, SequenceAction, SequenceStatement, Work, define,
    define_sequence, prepared, sequence,
};
pub use scope::Tables;
pub use select::Output;
pub use statement::{Compiled, Ran, Session, compile, run};
