//! `approx_percentile`: percentiles with a bounded relative error.
//!
//! A value belongs to the bucket of its logarithm, and a sketch is the number of values in each bucket. If there are too many
//! buckets, neighbours are joined in pairs, which doubles the error.
//!
//! Source: Epicoco, Melle, Cafaro, Pulimeno, Morleo, "UDDSketch: Accurate Tracking of Quantiles in Data Streams", IEEE
//! Access 8, 2020, which extends Masson, Rim, Lee, "DDSketch", VLDB 2019.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};

use super::{encoding, stored};
use crate::context::Context;
use crate::expr::Call;
use crate::numbers::float::order;
use crate::registry::Accumulator;
use crate::value::Value;

/// Relative error before buckets are joined.
const ERROR_START: f64 = 0.001;
/// Buckets of a sketch, 16 bytes each; one more fills the memory that a list of them doubles to. With [`ERROR_START`]
/// they cover values of one sign of which the greatest is 60 times the least; each join squares this factor. Both signs
/// share them.
pub(super) const BUCKETS_MAX: usize = 2_047;

/// Fractions of an array.
const FRACTIONS_MAX: usize = 1_000;

/// Values whose logarithm is in a range: the bucket's number and their count, in the order of the numbers.
pub(super) type Buckets = Vec<(i32, u64)>;

/// A sketch of floats.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sketch {
    /// Buckets of positive values.
    pub(super) positive: Buckets,
    /// Buckets of the absolute values of negative values.
    pub(super) negative: Buckets,
    pub(super) zeros: u64,
    /// Values that are `-Infinity`, `Infinity` and NaN.
    pub(super) beyond: [u64; 3],
    /// Least and greatest finite value.
    pub(super) ends: Option<[f64; 2]>,
    /// How many times buckets were joined in pairs.
    pub(super) joins: u32,
}

/// Natural logarithm of the ratio of a bucket's limits before any join.
fn log_width() -> f64 {
    ((1.0 + ERROR_START) / (1.0 - ERROR_START)).ln()
}

/// The bucket after some joins of one before them.
fn joined(bucket: i32, joins: u32) -> i32 {
    // Rounds up: bucket i has the values between the limits i - 1 and i.
    -((-bucket) >> joins.min(i32::BITS - 1))
}

impl Sketch {
    /// Adds a value.
    pub(super) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            let at = if value.is_nan() { 2 } else { usize::from(value > 0.0) };
            self.beyond[at] += 1;
            return;
        }
        let [least, greatest] = self.ends.unwrap_or([value; 2]);
        self.ends = Some([least.min(value), greatest.max(value)]);
        // Numbers below the least normal one have few digits, so that their logarithm says little.
        if value.abs() < f64::MIN_POSITIVE {
            self.zeros += 1;
            return;
        }
        let bucket = joined((value.abs().ln() / log_width()).ceil() as i32, self.joins);
        let buckets = if value > 0.0 { &mut self.positive } else { &mut self.negative };
        count(buckets, bucket, 1);
        self.shrink();
    }

    /// Adds the values of another sketch.
    pub(super) fn merge(&mut self, other: &Sketch) {
        let joins = self.joins.max(other.joins);
        while self.joins < joins {
            self.join();
        }
        let behind = joins - other.joins;
        for (mine, theirs) in [(&mut self.positive, &other.positive), (&mut self.negative, &other.negative)] {
            theirs.iter().for_each(|(bucket, values)| count(mine, joined(*bucket, behind), *values));
        }
        self.zeros = self.zeros.saturating_add(other.zeros);
        self.beyond.iter_mut().zip(other.beyond).for_each(|(mine, theirs)| *mine = mine.saturating_add(theirs));
        if let Some([low, high]) = other.ends {
            let [least, greatest] = self.ends.unwrap_or([low, high]);
            self.ends = Some([least.min(low), greatest.max(high)]);
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.positive.len() + self.negative.len() > BUCKETS_MAX {
            self.join();
        }
    }

    fn join(&mut self) {
        self.joins += 1;
        for buckets in [&mut self.positive, &mut self.negative] {
            for (bucket, _) in buckets.iter_mut() {
                *bucket = joined(*bucket, 1);
            }
            buckets.dedup_by(|next, kept| {
                let is_same = next.0 == kept.0;
                kept.1 = kept.1.saturating_add(if is_same { next.1 } else { 0 });
                is_same
            });
        }
    }

    /// Number of values.
    fn values(&self) -> u64 {
        let in_buckets = self.positive.iter().chain(&self.negative).map(|(_, values)| values);
        in_buckets.chain(&self.beyond).fold(self.zeros, |sum, values| sum.saturating_add(*values))
    }

    /// The value at a fraction of all values in order: that of the first one whose position is at least the fraction, as
    /// `percentile_disc` defines it. `None` without values.
    pub(super) fn percentile(&self, fraction: f64) -> Option<f64> {
        let values = self.values();
        if values == 0 {
            return None;
        }
        let position = ((fraction * values as f64).ceil() as u64).clamp(1, values);
        // The ends are known exactly.
        let [below, above, nan] = self.beyond;
        let (first, last) = (below.saturating_add(1), values.saturating_sub(above).saturating_sub(nan));
        match self.ends {
            Some([least, _]) if position == first => return Some(least),
            Some([_, greatest]) if position == last => return Some(greatest),
            _ => {}
        }
        let mut seen = 0_u64;
        self.in_order().find_map(|(value, values)| {
            seen = seen.saturating_add(values);
            (seen >= position).then_some(value)
        })
    }

    /// A value for each bucket, in order, and how many values it stands for.
    fn in_order(&self) -> impl Iterator<Item = (f64, u64)> {
        let [low, high] = self.ends.unwrap_or_default();
        let width = log_width() * f64::from(self.joins).exp2();
        // The middle of a bucket, from which both limits have the same relative distance.
        let middle = move |bucket: i32| 2.0 / (1.0 + (-width).exp()) * (f64::from(bucket - 1) * width).exp();
        let negative = self.negative.iter().rev().map(move |(bucket, values)| (-middle(*bucket), *values));
        let positive = self.positive.iter().map(move |(bucket, values)| (middle(*bucket), *values));
        let finite = negative.chain([(0.0, self.zeros)]).chain(positive);
        let finite = finite.map(move |(value, values)| (value.clamp(low, high), values));
        let [below, above, nan] = self.beyond;
        std::iter::once((f64::NEG_INFINITY, below)).chain(finite).chain([(f64::INFINITY, above), (f64::NAN, nan)])
    }

    pub(super) fn heap_size(&self) -> usize {
        (self.positive.capacity() + self.negative.capacity()) * size_of::<(i32, u64)>()
    }
}

fn count(buckets: &mut Buckets, bucket: i32, values: u64) {
    match buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
        // A stored sketch may have any counts.
        Ok(at) => buckets[at].1 = buckets[at].1.saturating_add(values),
        Err(at) => buckets.insert(at, (bucket, values)),
    }
}

/// `percentile_sketch(value)`
pub(super) fn sketch(_: &Call) -> Box<dyn Accumulator> {
    Box::new(OfValues(None))
}

/// The sketch of the values so far; `None` before the first one.
struct OfValues(Option<Sketch>);

impl Accumulator for OfValues {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [Datum::Float8(value)] = arguments else { return Err(Error::bug("a sketch of floats")) };
        self.0.get_or_insert_default().add(*value);
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Some(sketch) = &self.0 else { return Ok(Datum::Null) };
        Ok(stored::bytes(&encoding::Sketch::Percentile(sketch.clone()), ctx))
    }

    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, Sketch::heap_size)
    }
}

/// `approx_percentile(fraction, value)`, or several fractions as an array.
pub(super) fn percentile(_: &Call) -> Box<dyn Accumulator> {
    Box::new(Percentile { fractions: Value::NULL, sketch: Sketch::default() })
}

struct Percentile {
    /// A fraction or an array of fractions; NULL before the first row.
    fractions: Value,
    sketch: Sketch,
}

impl Percentile {
    /// Keeps the fractions of the first row.
    fn check(&mut self, fractions: &Datum<'_>) -> Result<()> {
        if self.fractions.is_null() {
            match fractions {
                Datum::Array(array) if array.items.len() > FRACTIONS_MAX => {
                    let text =
                        format!("there are {} fractions, at most {FRACTIONS_MAX} are possible", array.items.len());
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
                }
                Datum::Array(array) => array.items.iter().try_for_each(check_fraction)?,
                fraction => check_fraction(fraction)?,
            }
            self.fractions = Value::of(fractions);
        }
        if is_same(&self.fractions, fractions) {
            return Ok(());
        }
        let text = "the fraction must be the same for all rows of a group";
        Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text))
    }

    fn value(&self, fraction: &Datum<'_>) -> Datum<'static> {
        let Datum::Float8(fraction) = fraction else { return Datum::Null };
        self.sketch.percentile(*fraction).map_or(Datum::Null, Datum::Float8)
    }
}

/// Whether the fractions are those of the first row, which needs no copy of them.
fn is_same(first: &Value, fractions: &Datum<'_>) -> bool {
    match (first, fractions) {
        (Value::Plain(before), now) => before == now,
        (Value::Array { dimensions, items, .. }, Datum::Array(array)) => {
            *dimensions == array.dimensions
                && items.iter().zip(&array.items).all(|(before, now)| matches!(before, Value::Plain(one) if one == now))
        }
        _ => false,
    }
}

pub(super) fn check_fraction(fraction: &Datum<'_>) -> Result<()> {
    match fraction {
        Datum::Float8(fraction) if order(*fraction, 0.0).is_lt() || order(*fraction, 1.0).is_gt() => {
            let text = format!("percentile value {fraction} is not between 0 and 1");
            Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text))
        }
        _ => Ok(()),
    }
}

impl Accumulator for Percentile {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [fractions, Datum::Float8(value)] = arguments else {
            return Err(Error::bug("a percentile has two arguments"));
        };
        self.check(fractions)?;
        self.sketch.add(*value);
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(match self.fractions.datum() {
            Datum::Array(fractions) => {
                let items = fractions.items.iter().map(|fraction| self.value(fraction)).collect();
                let dimensions = fractions.dimensions.clone();
                Datum::Array(Arc::new(Array { element: TypeId::FLOAT8.0, dimensions, items }))
            }
            fraction => self.value(&fraction),
        })
    }

    fn heap_size(&self) -> usize {
        self.fractions.heap_size() + self.sketch.heap_size()
    }
}
