//! Booleans and numbers: `bool`, `int2`, `int4`, `int8`, `float4`, `float8`, `numeric`, `oid`, `xid`, `cid`.

mod aggregates;
mod boolean;
mod call;
mod extremes;
mod fixed_point;
mod float;
mod integer;
mod numeric;
mod numeric_math;
mod oid;
mod regression;
mod variance;

use catalog::TypeId;

use crate::registry::{Aggregate, Family, Function, TypeSupport};

pub(crate) static FAMILY: Family = Family {
    types: &joined::<_, { length(TYPES) }>(TYPES),
    functions: &joined::<_, { length(FUNCTIONS) }>(FUNCTIONS),
    sets: &[],
    aggregates: &joined::<_, { length(AGGREGATES) }>(AGGREGATES),
};

const TYPES: &[&[(TypeId, TypeSupport)]] = &[boolean::TYPES, integer::TYPES, float::TYPES, numeric::TYPES, oid::TYPES];

const FUNCTIONS: &[&[(&str, Function)]] = &[
    boolean::COMPARISONS,
    boolean::FUNCTIONS,
    boolean::TO_TEXT,
    integer::ARITHMETIC,
    integer::COMPARISONS,
    integer::OF_EACH_TYPE,
    integer::FUNCTIONS,
    integer::TO_HEX,
    float::COMPARISONS,
    float::ARITHMETIC,
    float::FUNCTIONS,
    numeric::COMPARISONS,
    numeric::FUNCTIONS,
    numeric_math::FUNCTIONS,
    oid::COMPARISONS,
    oid::FUNCTIONS,
];

const AGGREGATES: &[&[(&str, Aggregate)]] =
    &[aggregates::AGGREGATES, extremes::AGGREGATES, variance::AGGREGATES, regression::AGGREGATES];

const fn length<T>(tables: &[&[T]]) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < tables.len() {
        sum += tables[at].len();
        at += 1;
    }
    sum
}

/// The rows of several tables as one table of `N` rows.
const fn joined<T: Copy, const N: usize>(tables: &[&[T]]) -> [T; N] {
    let mut rows = [tables[0][0]; N];
    let (mut at, mut table) = (0, 0);
    while table < tables.len() {
        let mut row = 0;
        while row < tables[table].len() {
            rows[at] = tables[table][row];
            at += 1;
            row += 1;
        }
        table += 1;
    }
    rows
}
