//! Binds parsed statements: from names and syntax to a tree of typed expressions and relational operators, by PostgreSQL's rules.
//!
//! - [`bind`] binds a query. [`Schema`] is what it asks the database: tables, and the session's facts.
//! - [`tree`] is the result, which executors lower to their own plans.
//!
//! Invariants: no I/O, no executor. All types, names of columns, errors and their places come from here. A bound tree is well
//! typed: operands have exactly the types that their operator takes, and every cast is in the tree.

pub mod tree;
