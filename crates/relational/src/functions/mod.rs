//! SQL functions that PostgreSQL lacks: time buckets and gap filling, `first` and `last`, ASOF JOIN; `min` and `max` of floats.
//!
//! These functions do not depend on the session.
//! Errors carry an SQLSTATE: they are `model::Error` inside `DataFusionError::External`.

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

pub(crate) use planner::{Planner, gap_filled, with_nodes};
use std::sync::{Arc, LazyLock};

use datafusion::common::config::ConfigOptions;
use datafusion::functions::datetime;
use datafusion::functions_aggregate::{approx_median, first_last as ends, median};
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF};
use rustc_hash::FxHashMap;

/// The functions that plans call by name: those of this module, and the few of DataFusion that are used. All others stay out
/// of the program.
static SCALARS: LazyLock<FxHashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut options = ConfigOptions::default();
    options.execution.time_zone = Some("UTC".to_owned());
    let own = time_bucket::functions().into_iter().chain([gap_fill::function(), nearest::function()]);
    let own = own.chain(gap_values::functions()).map(Arc::new);
    let theirs = [
        datetime::date_trunc(),
        datetime::date_bin(),
        datetime::now(&options),
        datetime::to_timestamp_seconds(&options),
        datetime::to_timestamp_millis(&options),
        datetime::to_timestamp_micros(&options),
        datetime::to_timestamp_nanos(&options),
    ];
    own.chain(theirs).map(|function| (function.name().to_owned(), function)).collect()
});

/// The aggregates that plans call by name; DataFusion's optimizer finds `first_value` so, for DISTINCT ON.
static AGGREGATES: LazyLock<FxHashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let own = first_last::functions().into_iter().chain(min_max::functions()).map(Arc::new);
    let theirs = [median::median_udaf(), approx_median::approx_median_udaf(), ends::first_value_udaf()];
    own.chain(theirs).map(|function| (function.name().to_owned(), function)).collect()
});

/// The scalar function of a name.
pub(crate) fn scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    SCALARS.get(name).cloned()
}

/// The aggregate of a name.
pub(crate) fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(name).cloned()
}

/// All scalar functions, for DataFusion's registry.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    SCALARS.values().cloned().collect()
}

/// All aggregates, for DataFusion's registry.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    AGGREGATES.values().cloned().collect()
}

/// The condition by which [`with_nodes`] recognises a join with the nearest row.
pub(crate) fn nearest(comparison: Expr) -> Option<Expr> {
    Some(scalar(nearest::NEAREST)?.call(vec![comparison]))
}

#[cfg(test)]
mod gap_fill_tests;
