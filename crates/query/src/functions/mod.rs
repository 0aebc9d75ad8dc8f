//! SQL functions that DataFusion lacks or implements with other results: time buckets and gap filling,
//! `first`/`last`, PostgreSQL's date and interval functions.
//!
//! These functions do not depend on the session and are registered once; functions that do are in `pg_catalog`.
//! Errors carry an SQLSTATE: they are `model::Error` inside `DataFusionError::External`.

pub mod bucket;
mod capped;
mod context;
pub(crate) mod dates;
mod first_last;
mod gap_columns;
mod gap_fill;
mod gap_fill_exec;
mod gap_values;
mod general;
mod min_max;
pub(crate) mod moving;
mod nearest;
mod nearest_exec;
mod planner;
mod sign;
mod time_bucket;

pub(crate) use capped::{is_growing, is_too_large};
pub(crate) use nearest::NEAREST;
pub use planner::{Planner, gap_filled, rewrite_plan, with_nodes};

pub use context::{
    Activity, CopyActivity, NoServer, OpenCursor, RowTableSize, ServerFacts, Setting, Signal, StatementFacts,
};

use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;

/// Registers all functions of this module that depend on neither session nor statement.
pub fn register(session: &SessionContext) {
    for function in time_bucket::functions() {
        session.register_udf(function);
    }
    session.register_udf(gap_fill::function());
    for function in gap_values::functions() {
        session.register_udf(function);
    }
    session.register_udf(nearest::function());
    for function in capped::functions().into_iter().chain(general::functions()) {
        session.register_udf(function);
    }
    for function in first_last::functions().into_iter().chain(min_max::functions()) {
        session.register_udaf(function);
    }
    session.register_udf(sign::function());
    let variance = datafusion::functions_aggregate::variance::var_samp_udaf();
    session.register_udaf(variance.as_ref().clone().with_aliases(["variance"]));
    let bool_and = datafusion::functions_aggregate::bool_and_or::bool_and_udaf();
    session.register_udaf(bool_and.as_ref().clone().with_aliases(["every"]));
}

/// Wraps a `model::Error` for DataFusion.
pub(crate) fn external(error: model::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests;
