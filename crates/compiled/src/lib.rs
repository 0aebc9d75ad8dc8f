//! Compiled statements: SQL over `rows` tables, bound once to typed expressions and a fixed way of finding rows, and then
//! run in microseconds.
//!
//! - [`compile`], [`run`]: the whole of it; [`Load`]: rows from outside.
//! - `dialect`: PostgreSQL's lexical rules and precedence for the parser.
//! - `bind`, `calls`, `array`, `types`, `scope`: names and types, by PostgreSQL's rules.
//! - `expr`, `cast`, `functions`, `moment`, `number`, `aggregate`: evaluation.
//! - `plan`, `fit`, `exec`: which rows, in which order; nested loops.
//! - `select`, `from`, `tail`, `subquery`, `derived`, `dml`, `write`, `foreign`: statements.
//!
//! Always true: nothing here waits or does I/O; a statement that must wait says so and is run again. Nothing here takes a
//! savepoint: whoever runs a statement undoes it when it fails or waits.

mod aggregate;
mod array;
mod bind;
mod calls;
mod cast;
mod define;
mod derived;
mod dialect;
mod dml;
mod exec;
mod expr;
mod fit;
mod foreign;
mod from;
mod functions;
mod moment;
mod number;
mod plan;
mod scope;
mod select;
mod statement;
mod subquery;
mod tail;
#[cfg(test)]
mod tests;
mod types;
mod write;

pub use array::{ParamType, array_of, array_of_binary, array_of_text};
pub use cast::{Zone, parse};
pub use define::{
    Catalog, Change, Condition, Definition, Notice, Object, Rewrite, SequenceAction, SequenceStatement, Work, define,
    define_sequence, prepared, sequence,
};
pub use dialect::{PostgreSql, parser, parser_of, tokenize};
pub use dml::{Incoming, Load, Loaded, Refused};
pub use functions::formatted;
pub use number::Numbers;
pub use scope::Tables;
pub use select::{Output, WEAKER_LOCK};
pub use statement::{Compiled, Ran, Reading, Session, compile, counts, names_no_table, run};
