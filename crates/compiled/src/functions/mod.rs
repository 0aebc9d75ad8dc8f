//! Scalar functions: `bind` resolves a call to a function and casts its arguments, `eval` computes it, `format` is PostgreSQL's `format`.

mod bind;
mod eval;
mod format;

pub(crate) use bind::function_name;
pub(crate) use eval::call;
pub use format::formatted;
