//! Scalar expressions: values, types' input and output, functions, operators, casts and aggregates, by PostgreSQL's rules.
//!
//! - [`Expr`] is a typed expression. The binder makes it; [`eval()`] computes it for one row.
//! - [`Context`] is what an evaluation may use: an arena for computed values and the session's facts. [`Objects`] are the
//!   tables, roles and settings, for functions about them.
//! - [`input`], [`output`] and [`compare`] are the text forms and the order of every type.
//! - [`send`] and [`receive`] are the binary forms; [`with_typmod`] limits a value to the parameters of its type.
//! - [`assign_part`] computes an array or a jsonb after an assignment to a part of it.
//! - [`function`], [`set_function`] and [`aggregate`] find the implementation of a function by its number in `pg_proc`.
//!
//! Each family of types has a folder or file with its input, output, functions and aggregates, and lists them in tables that
//! [`registry`] collects. A function is added in one place and can then be used by every executor.
//!
//! Invariants: no I/O, no clock, no tables. No input causes a panic. A function that is strict is never called with NULL.

pub mod context;
pub mod eval;
pub mod expr;
pub mod json;
pub mod objects;
mod receive;
pub mod registry;
mod send;
mod typmod;
pub mod value;

mod arrays;
mod composite;
mod enums;
mod geometry;
mod misc;
mod network;
mod numbers;
mod ranges;
mod rows;
mod sketches;
mod text;
mod time;
mod time_series;

pub use arrays::{Part, assign_part};
pub use context::{Context, DateOrder, DateStyle, FIRST_ROUTINE, IntervalStyle, Routines, Session};
pub use eval::{Row, domain_null, domain_violation, eval};
pub use expr::{
    BooleanTest, Call, Comparison, DomainTest, Expr, ExprKind, Place, SqlValue, Subquery, SubqueryKind, Subscript,
};
pub use numbers::hash::hash_extended_of as hash_extended;
pub use numbers::tid::{record_of, tid_of};
pub use numbers::{FloatMoments, Pairs, continuous_percentile, moment_statistic, pair_statistic};
pub use objects::Objects;
pub use receive::receive;
pub use registry::{
    Accumulator, aggregate, compare, function, has_function, has_type, input, output, set_function, shown,
};
pub use send::send;
pub use time::{date_difference, date_plus_days, zone_abbreviations, zone_moment};
pub use typmod::with_typmod;
pub use value::{Value, copied};
