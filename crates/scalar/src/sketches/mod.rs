//! Aggregates that estimate from a sketch of bounded size: percentiles and numbers of distinct values.
//!
//! A sketch depends on the set of rows and not on their order. It is a value too: a table can hold the sketches of hours, and
//! merge those of a day.

mod distinct;
mod encoding;
mod percentile;
mod stored;
#[cfg(test)]
mod tests;

use crate::registry::{Aggregate, Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: AGGREGATES };

const AGGREGATES: &[(&str, Aggregate)] = &[
    ("approx_percentile(float8,float8)", percentile::percentile),
    ("approx_percentile(float8[],float8)", percentile::percentile),
    ("approx_count_distinct", distinct::count),
    ("percentile_sketch", percentile::sketch),
    ("distinct_sketch", distinct::sketch),
    ("merge_sketches", stored::merged),
];

const FUNCTIONS: &[(&str, Function)] =
    &[("sketch_percentile", stored::percentile), ("sketch_count_distinct", stored::count_distinct)];
