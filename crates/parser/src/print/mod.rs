//! Trees as text.

pub mod sexpr;
