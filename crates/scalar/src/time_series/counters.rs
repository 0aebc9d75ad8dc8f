//! `increase`, `rate` and `delta`: how much a counter or a gauge has changed.
//!
//! A fall of a counter is a reset: it began again at 0, so the whole new value is a rise. This is the rule of Prometheus and
//! of TimescaleDB's `counter_agg`. Nothing is extrapolated to the limits of a range, which Prometheus does.

use model::{Datum, Result};

use super::points::{Point, Steps, Walk, Walked};
use super::{Clock, mismatch, time_of};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Accumulator;

/// `increase(value, time)`
pub(super) fn increase(call: &Call) -> Box<dyn Accumulator> {
    counter(call, |walked, _| Some(walked.sum.0))
}

/// `rate(value, time)`: the increase for each second; NULL without two times.
pub(super) fn rate(call: &Call) -> Box<dyn Accumulator> {
    counter(call, |walked, clock| {
        let seconds = clock.seconds(walked.first.time, walked.last.time);
        (seconds > 0.0).then(|| walked.sum.0 / seconds)
    })
}

/// `delta(value, time)`: the last value less the first one.
pub(super) fn delta(call: &Call) -> Box<dyn Accumulator> {
    counter(call, |walked, _| Some(walked.last.value - walked.first.value))
}

/// The rises of a counter.
#[derive(Clone)]
struct Rises(f64);

impl Steps for Rises {
    fn step(&mut self, from: Point<f64>, to: Point<f64>) {
        // A comparison with NaN is false, so NaN makes the sum NaN.
        self.0 += if to.value < from.value { to.value } else { to.value - from.value };
    }
}

/// The result of a walk; `None` is NULL.
type Outcome = fn(&Walked<Rises>, Clock) -> Option<f64>;

struct Counter {
    walk: Walk<Rises>,
    clock: Clock,
    outcome: Outcome,
}

fn counter(call: &Call, outcome: Outcome) -> Box<dyn Accumulator> {
    Box::new(Counter { walk: Walk::new(Rises(0.0)), clock: Clock::of(call, 1), outcome })
}

impl Accumulator for Counter {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [Datum::Float8(value), time] = arguments else { return Err(mismatch()) };
        self.walk.push(Point { time: time_of(time)?, value: *value });
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        let outcome = self.walk.walked().and_then(|walked| (self.outcome)(&walked, self.clock));
        Ok(outcome.map_or(Datum::Null, Datum::Float8))
    }

    fn heap_size(&self) -> usize {
        self.walk.heap_size()
    }
}
