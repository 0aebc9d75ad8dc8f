//! `histogram`: the number of values in each of some equal buckets, as in TimescaleDB.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};
use rustc_hash::FxHashMap;

use super::bucket::float_bucket;
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

pub(super) const AGGREGATES: &[(&str, Aggregate)] =
    &[("histogram", |_| Box::new(Histogram { bounds: None, counts: FxHashMap::default() }))];

/// The limits of the buckets, which are the same for all rows.
#[derive(Clone, Copy, PartialEq)]
struct Bounds {
    low: f64,
    high: f64,
    buckets: i32,
}

struct Histogram {
    bounds: Option<Bounds>,
    /// Only buckets with values have a count: a group may have few of many.
    counts: FxHashMap<i32, i64>,
}

impl Histogram {
    fn check(&mut self, bounds: Bounds) -> Result<()> {
        if self.bounds.is_some_and(|before| before != bounds) {
            let text = "the bounds and the number of buckets must be the same for all rows of a group";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        self.bounds = Some(bounds);
        if bounds.low > bounds.high {
            return Err(Error::new(SqlState("2201G"), "lower bound cannot exceed upper bound"));
        }
        Ok(())
    }
}

impl Accumulator for Histogram {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [Datum::Float8(value), Datum::Float8(low), Datum::Float8(high), Datum::Int4(buckets)] = arguments else {
            return Err(Error::bug("a histogram has four arguments"));
        };
        self.check(Bounds { low: *low, high: *high, buckets: *buckets })?;
        // NaN is greater than every number.
        let value = if value.is_nan() { f64::INFINITY } else { *value };
        *self.counts.entry(float_bucket(value, *low, *high, *buckets)?).or_insert(0) += 1;
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Some(Bounds { buckets, .. }) = self.bounds else { return Ok(Datum::Null) };
        let length = usize::try_from(buckets).unwrap_or(0).saturating_add(2);
        ctx.check_size(length.saturating_mul(size_of::<Datum<'_>>()))?;
        let mut items = vec![Datum::Int8(0); length];
        for (bucket, count) in &self.counts {
            items[*bucket as usize] = Datum::Int8(*count);
        }
        Ok(Datum::Array(Arc::new(Array::of(TypeId::INT8.0, items))))
    }

    /// Memory in bytes, with that of the result.
    fn heap_size(&self) -> usize {
        let buckets = self.bounds.and_then(|bounds| usize::try_from(bounds.buckets).ok()).map_or(0, |count| count + 2);
        self.counts.capacity() * size_of::<(i32, i64)>() + buckets * size_of::<i64>()
    }
}
