//! PostgreSQL's values computed in DataFusion's operators: expressions of crate `scalar` as functions, its aggregates, keys for
//! sorting and grouping, and Arrow's kernels where they agree.

pub(crate) mod accumulate;
pub(crate) mod decimals;
pub(crate) mod evaluate;
pub(crate) mod kernels;
pub(crate) mod keys;
pub(crate) mod moments;
pub(crate) mod natives;
mod percentiles;
pub(crate) mod points;
pub(crate) mod stored;
