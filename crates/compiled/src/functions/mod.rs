//! Scalar functions of the executor's own: `eval` computes them, `format` is PostgreSQL's `format`.

mod eval;
mod format;

pub(crate) use eval::call;
pub use format::formatted;
