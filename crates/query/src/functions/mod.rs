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

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::common::config::ConfigOptions;
use datafusion::functions::datetime;
use datafusion::functions_aggregate::{approx_median, first_last as ends, median};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

/// The scalar functions that plans find by name: those of this module, and the few of DataFusion that are used. All
/// others stay out of the program.
pub(crate) fn scalars(options: &ConfigOptions) -> Vec<Arc<ScalarUDF>> {
    let own = time_bucket::functions().into_iter().chain([gap_fill::function(), nearest::function()]);
    let own = own.chain(gap_values::functions()).map(Arc::new);
    let theirs = [
        datetime::date_trunc(),
        datetime::date_bin(),
        datetime::now(options),
        datetime::to_timestamp_seconds(options),
        datetime::to_timestamp_millis(options),
        datetime::to_timestamp_micros(options),
        datetime::to_timestamp_nanos(options),
    ];
    own.chain(theirs).collect()
}

/// The aggregate functions that plans find by name; DataFusion's optimizer finds `first_value` so, for DISTINCT ON.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let own = first_last::functions().into_iter().chain(min_max::functions()).map(Arc::new);
    own.chain([median::median_udaf(), approx_median::approx_median_udaf(), ends::first_value_udaf()]).collect()
}

/// Wraps a `model::Error` for DataFusion.
pub(crate) fn external(error: model::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod gap_fill_tests;
