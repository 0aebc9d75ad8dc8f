//! `time_weighted_average` and `time_weighted_integral`: a value counts for as long as it held.

use model::{Datum, Error, Result, SqlState};

use super::points::{Point, Steps, Walk, Walked};
use super::{Clock, changed, mismatch, time_of};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Accumulator;

/// `time_weighted_average(value, time [, method])`: the integral for each second; NULL without two times.
pub(super) fn average(call: &Call) -> Box<dyn Accumulator> {
    weighted(call, |integral, seconds| (seconds > 0.0).then(|| integral / seconds))
}

/// `time_weighted_integral(value, time [, method])`, in units of the value times seconds.
pub(super) fn integral(call: &Call) -> Box<dyn Accumulator> {
    weighted(call, |integral, _| Some(integral))
}

/// The value between two points.
#[derive(Clone, Copy, PartialEq)]
enum Method {
    /// The last value is carried forward.
    Locf,
    /// The value moves on a line.
    Linear,
}

impl Method {
    fn named(name: &str) -> Result<Method> {
        match name {
            name if name.eq_ignore_ascii_case("locf") => Ok(Method::Locf),
            name if name.eq_ignore_ascii_case("linear") => Ok(Method::Linear),
            name => {
                let text = format!("unknown method \"{name}\" of a time-weighted aggregate");
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint("The methods are locf and linear."))
            }
        }
    }
}

/// The area below the values.
#[derive(Clone)]
struct Area {
    method: Method,
    clock: Clock,
    sum: f64,
}

impl Steps for Area {
    fn step(&mut self, from: Point<f64>, to: Point<f64>) {
        let height = match self.method {
            Method::Locf => from.value,
            // The halves of the greatest floats have a sum.
            Method::Linear => from.value * 0.5 + to.value * 0.5,
        };
        self.sum += height * self.clock.seconds(from.time, to.time);
    }
}

struct Weighted {
    walk: Walk<Area>,
    clock: Clock,
    /// The result for an area and its length in seconds.
    outcome: fn(f64, f64) -> Option<f64>,
}

fn weighted(call: &Call, outcome: fn(f64, f64) -> Option<f64>) -> Box<dyn Accumulator> {
    let clock = Clock::of(call, 1);
    Box::new(Weighted { walk: Walk::new(Area { method: Method::Locf, clock, sum: 0.0 }), clock, outcome })
}

impl Weighted {
    fn set_method(&mut self, method: Method) -> Result<()> {
        if self.walk.is_empty() {
            self.walk = Walk::new(Area { method, clock: self.clock, sum: 0.0 });
        }
        if self.walk.start().method == method { Ok(()) } else { Err(changed("the method")) }
    }
}

impl Accumulator for Weighted {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [Datum::Float8(value), time, rest @ ..] = arguments else { return Err(mismatch()) };
        if let [Datum::Text(name)] = rest {
            self.set_method(Method::named(name)?)?;
        }
        self.walk.push(Point { time: time_of(time)?, value: *value });
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        let outcome = self
            .walk
            .walked()
            .and_then(|Walked { sum, first, last }| (self.outcome)(sum.sum, self.clock.seconds(first.time, last.time)));
        Ok(outcome.map_or(Datum::Null, Datum::Float8))
    }

    fn heap_size(&self) -> usize {
        self.walk.heap_size()
    }
}
