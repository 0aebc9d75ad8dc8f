//! Ordered-set aggregates: `percentile_cont`, `percentile_disc`, `mode`. Rows arrive in the order of WITHIN GROUP; the
//! last argument is the value, the first one of percentiles the fraction.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};

use super::float::{self, append_rounded};
use crate::context::Context;
use crate::eval::apply;
use crate::expr::Call;
use crate::registry::{self, Accumulator, Aggregate};
use crate::value::{Value, copied};

/// Digits of a fraction in a message.
const MESSAGE_DIGITS: i32 = 6;

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("percentile_cont(float8,float8)", |call| Percentile::boxed(call, interpolated_float)),
    ("percentile_cont(float8[],float8)", |call| Percentile::boxed(call, interpolated_float)),
    ("percentile_cont(float8,interval)", |call| Percentile::boxed(call, interpolated_interval)),
    ("percentile_cont(float8[],interval)", |call| Percentile::boxed(call, interpolated_interval)),
    ("percentile_disc(float8,anyelement)", |call| Percentile::boxed(call, discrete)),
    ("percentile_disc(float8[],anyelement)", |call| Percentile::boxed(call, discrete)),
    ("mode", |call| {
        let ty = call.arguments.last().copied().unwrap_or_default();
        Box::new(Mode { ty, current: Value::NULL, count: 0, best: Value::NULL, best_count: 0, current_is_best: false })
    }),
];

/// Computes the percentile of a fraction from the values in order, of which there is one at least.
type Pick = for<'a> fn(&[Value], f64, &Context<'a>) -> Result<Datum<'a>>;

struct Percentile {
    pick: Pick,
    /// Type of the values.
    ty: TypeId,
    /// A fraction or an array of fractions.
    fractions: Value,
    values: Vec<Value>,
    heap_size: usize,
}

impl Percentile {
    fn boxed(call: &Call, pick: Pick) -> Box<dyn Accumulator> {
        let ty = call.arguments.last().copied().unwrap_or_default();
        Box::new(Percentile { pick, ty, fractions: Value::NULL, values: Vec::new(), heap_size: 0 })
    }

    fn percentile<'a>(&self, fraction: &Datum<'_>, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Datum::Float8(fraction) = fraction else { return Ok(Datum::Null) };
        check_fraction(*fraction)?;
        (self.pick)(&self.values, *fraction, ctx)
    }
}

impl Accumulator for Percentile {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [fractions, value] = arguments else { return Err(Error::bug("a percentile has two arguments")) };
        if value.is_null() {
            return Ok(());
        }
        if self.values.is_empty() {
            self.fractions = Value::of(fractions);
        }
        let value = Value::of(value);
        self.heap_size += size_of::<Value>() + value.heap_size();
        self.values.push(value);
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        match self.fractions.datum() {
            Datum::Array(fractions) => {
                let items = fractions.items.iter().map(|fraction| self.percentile(fraction, ctx));
                let items = items.collect::<Result<_>>()?;
                let dimensions = fractions.dimensions.clone();
                Ok(Datum::Array(Arc::new(Array { element: self.ty.0, dimensions, items })))
            }
            fraction => self.percentile(&fraction, ctx),
        }
    }

    fn heap_size(&self) -> usize {
        self.heap_size
    }
}

fn check_fraction(fraction: f64) -> Result<()> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(());
    }
    let mut message = "percentile value ".to_owned();
    append_rounded(&mut message, fraction, MESSAGE_DIGITS);
    message.push_str(" is not between 0 and 1");
    Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message))
}

/// `percentile_cont` of floats, of which there is one at least, in time linear in their number. Reorders them.
///
/// # Errors
/// 22003 for a fraction outside of 0 to 1.
pub fn continuous(values: &mut [f64], fraction: f64, is_descending: bool) -> Result<f64> {
    check_fraction(fraction)?;
    let Some(last) = values.len().checked_sub(1) else { return Err(Error::bug("a percentile of no values")) };
    let position = fraction * last as f64;
    let (at, share) = ((position.floor() as usize).min(last), position - position.floor());
    let order = |left: &f64, right: &f64| {
        let order = float::order(*left, *right);
        if is_descending { order.reverse() } else { order }
    };
    let (_, low, rest) = values.select_nth_unstable_by(at, order);
    let low = *low;
    if share == 0.0 {
        return Ok(low);
    }
    let high = rest.iter().copied().min_by(order).unwrap_or(low);
    Ok(interpolated(low, high, share))
}

fn interpolated(low: f64, high: f64, share: f64) -> f64 {
    if share == 0.0 { low } else { low + share * (high - low) }
}

/// The first value whose position is at least the fraction of all.
fn discrete<'a>(values: &[Value], fraction: f64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let position = (fraction * values.len() as f64).ceil() as usize;
    Ok(copied(&values[position.clamp(1, values.len()) - 1].datum(), ctx.arena))
}

/// The two values around the position of the fraction, and the share of the second one.
fn neighbours(values: &[Value], fraction: f64) -> (&Value, &Value, f64) {
    let position = fraction * (values.len() - 1) as f64;
    let last = values.len() - 1;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    (&values[low.min(last)], &values[high.min(last)], position - position.floor())
}

fn interpolated_float<'a>(values: &[Value], fraction: f64, _: &Context<'a>) -> Result<Datum<'a>> {
    let (low, high, share) = neighbours(values, fraction);
    let (Datum::Float8(low), Datum::Float8(high)) = (low.datum(), high.datum()) else {
        return Err(Error::bug("percentile_cont of another type"));
    };
    Ok(Datum::Float8(interpolated(low, high, share)))
}

fn interpolated_interval<'a>(values: &[Value], fraction: f64, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (low, high, share) = neighbours(values, fraction);
    let (low, high) = (copied(&low.datum(), ctx.arena), copied(&high.datum(), ctx.arena));
    if share == 0.0 {
        return Ok(low);
    }
    let call = |name: &str, types: [TypeId; 2], arguments: [Datum<'a>; 2]| {
        apply(&registry::resolve(name, &types)?, &arguments, ctx)
    };
    let both = [TypeId::INTERVAL; 2];
    let difference = call("interval_mi", both, [high, low.clone()])?;
    let part = call("interval_mul", [TypeId::INTERVAL, TypeId::FLOAT8], [difference, Datum::Float8(share)])?;
    call("interval_pl", both, [part, low])
}

/// The most frequent value; the first one of several. Equal values are neighbours.
struct Mode {
    ty: TypeId,
    current: Value,
    count: u64,
    best: Value,
    best_count: u64,
    /// `best` is a copy of `current`.
    current_is_best: bool,
}

impl Accumulator for Mode {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let Some(value) = arguments.last().filter(|value| !value.is_null()) else { return Ok(()) };
        if self.count > 0 && registry::compare(self.ty, value, &self.current.datum())?.is_eq() {
            self.count += 1;
        } else {
            self.current = Value::of(value);
            self.count = 1;
            self.current_is_best = false;
        }
        if self.count > self.best_count {
            self.best_count = self.count;
            if !self.current_is_best {
                self.best = self.current.clone();
                self.current_is_best = true;
            }
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(copied(&self.best.datum(), ctx.arena))
    }

    fn heap_size(&self) -> usize {
        self.current.heap_size() + self.best.heap_size()
    }
}
