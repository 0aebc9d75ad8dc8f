//! SQL functions that PostgreSQL lacks: time buckets and gap filling, `first` and `last`, ASOF JOIN; `min` and `max` of floats.
//!
//! These functions do not depend on the session and are registered once; functions that do are in `pg_catalog`.
//! Errors carry an SQLSTATE: they are `model::Error` inside `DataFusionError::External`.

pub mod bucket;
mod context;
mod first_last;
mod gap_columns;
mod gap_fill;
mod gap_fill_exec;
mod gap_values;
mod min_max;
mod nearest;
mod nearest_exec;
mod planner;
mod time_bucket;

pub(crate) use nearest::NEAREST;
pub use planner::{Planner, gap_filled, with_nodes};

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
    for function in first_last::functions().into_iter().chain(min_max::functions()) {
        session.register_udaf(function);
    }
}

/// Wraps a `model::Error` for DataFusion.
pub(crate) fn external(error: model::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod gap_fill_tests;
