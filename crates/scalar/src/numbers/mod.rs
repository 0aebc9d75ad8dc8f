//! Booleans and numbers: `bool`, `int2`, `int4`, `int8`, `float4`, `float8`, `numeric`, `oid`, `xid`, `cid`,
//! `xid8`, `pg_lsn`, `money`, `tid`.

mod aggregates;
mod boolean;
mod bucket;
mod call;
mod extremes;
mod extremes_by;
mod fixed_point;
pub(crate) mod float;
mod float_math;
pub(crate) mod hash;
mod histogram;
mod in_range;
mod integer;
mod money;
mod numeric;
mod numeric_math;
mod oid;
mod percentile;
mod picture;
mod regression;
mod series;
pub(crate) mod tid;
mod to_char;
mod to_number;
mod transitions;
mod unsigned;
mod variance;

pub use self::percentile::continuous as continuous_percentile;
pub use self::regression::{Pairs, pair_statistic};
pub use self::variance::{FloatMoments, moment_statistic};
use catalog::TypeId;

use crate::registry::{Aggregate, Family, Function, TypeSupport};

pub(crate) static FAMILY: Family = Family {
    types: &joined::<_, { length(TYPES) }>(TYPES),
    functions: &joined::<_, { length(FUNCTIONS) }>(FUNCTIONS),
    sets: series::SETS,
    aggregates: &joined::<_, { length(AGGREGATES) }>(AGGREGATES),
};

const TYPES: &[&[(TypeId, TypeSupport)]] = &[
    boolean::TYPES,
    integer::TYPES,
    float::TYPES,
    numeric::TYPES,
    oid::TYPES,
    oid::ALIASES,
    unsigned::TYPES,
    money::TYPES,
    tid::TYPES,
];

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
    float_math::FUNCTIONS,
    float_math::CONSTANTS,
    numeric::COMPARISONS,
    numeric::FUNCTIONS,
    numeric_math::FUNCTIONS,
    oid::COMPARISONS,
    oid::FUNCTIONS,
    unsigned::COMPARISONS,
    unsigned::FUNCTIONS,
    bucket::FUNCTIONS,
    in_range::FUNCTIONS,
    to_char::FUNCTIONS,
    to_number::FUNCTIONS,
    transitions::FUNCTIONS,
    hash::FUNCTIONS,
    hash::NUMERIC,
    money::COMPARISONS,
    money::FUNCTIONS,
    money::WORDS,
    tid::COMPARISONS,
    tid::FUNCTIONS,
];

const AGGREGATES: &[&[(&str, Aggregate)]] = &[
    aggregates::AGGREGATES,
    money::AGGREGATES,
    extremes::AGGREGATES,
    extremes_by::AGGREGATES,
    variance::AGGREGATES,
    regression::AGGREGATES,
    percentile::AGGREGATES,
    histogram::AGGREGATES,
];

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
