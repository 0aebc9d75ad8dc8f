//! Aggregates of pairs of floats: `regr_…` except `regr_count`, `corr`, `covar_…`. The first argument is the dependent variable y.

use model::{Datum, Error, Result};

use super::aggregates::float;
use super::float::overflow;
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("regr_sxx", |_| Pairs::boxed(|pairs| pairs.any(pairs.xx))),
    ("regr_syy", |_| Pairs::boxed(|pairs| pairs.any(pairs.yy))),
    ("regr_sxy", |_| Pairs::boxed(|pairs| pairs.any(pairs.xy))),
    ("regr_avgx", |_| Pairs::boxed(|pairs| pairs.any(pairs.sum_x / pairs.count))),
    ("regr_avgy", |_| Pairs::boxed(|pairs| pairs.any(pairs.sum_y / pairs.count))),
    ("covar_pop", |_| Pairs::boxed(|pairs| pairs.any(pairs.xy / pairs.count))),
    ("covar_samp", |_| Pairs::boxed(Pairs::covariance_of_sample)),
    ("corr", |_| Pairs::boxed(Pairs::correlation)),
    ("regr_r2", |_| Pairs::boxed(Pairs::determination)),
    ("regr_slope", |_| Pairs::boxed(|pairs| pairs.line(pairs.slope()))),
    ("regr_intercept", |_| Pairs::boxed(|pairs| pairs.line((pairs.sum_y - pairs.sum_x * pairs.slope()) / pairs.count))),
];

/// Sums over pairs, and sums of products of differences from the means, updated by the method of Youngs and Cramer.
struct Pairs {
    count: f64,
    sum_x: f64,
    sum_y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
    result: fn(&Pairs) -> Option<Datum<'static>>,
}

impl Pairs {
    fn boxed(result: fn(&Pairs) -> Option<Datum<'static>>) -> Box<dyn Accumulator> {
        Box::new(Pairs { count: 0.0, sum_x: 0.0, sum_y: 0.0, xx: 0.0, yy: 0.0, xy: 0.0, result })
    }

    fn add(&mut self, x: f64, y: f64) -> Result<()> {
        let (count, sum_x, sum_y) = (self.count, self.sum_x, self.sum_y);
        self.count += 1.0;
        self.sum_x += x;
        self.sum_y += y;
        if count == 0.0 {
            // An infinity has no distance from the mean.
            let distance = |value: f64| if value.is_finite() { 0.0 } else { f64::NAN };
            (self.xx, self.yy, self.xy) = (distance(x), distance(y), distance(x) + distance(y));
            return Ok(());
        }
        let (dx, dy) = (x * self.count - self.sum_x, y * self.count - self.sum_y);
        let scale = 1.0 / (self.count * count);
        self.xx += dx * dx * scale;
        self.yy += dy * dy * scale;
        self.xy += dx * dy * scale;
        let finite_x = !sum_x.is_infinite() && !x.is_infinite();
        let finite_y = !sum_y.is_infinite() && !y.is_infinite();
        let overflows = finite_x && (self.sum_x.is_infinite() || self.xx.is_infinite())
            || finite_y && (self.sum_y.is_infinite() || self.yy.is_infinite())
            || finite_x && finite_y && self.xy.is_infinite();
        if overflows {
            return Err(overflow());
        }
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    /// A statistic that needs one pair.
    fn any(&self, value: f64) -> Option<Datum<'static>> {
        (self.count > 0.0).then_some(Datum::Float8(value))
    }

    /// A statistic of the regression line, which needs different x.
    fn line(&self, value: f64) -> Option<Datum<'static>> {
        if self.xx == 0.0 { None } else { self.any(value) }
    }

    fn slope(&self) -> f64 {
        self.xy / self.xx
    }

    fn covariance_of_sample(&self) -> Option<Datum<'static>> {
        (self.count > 1.0).then(|| Datum::Float8(self.xy / (self.count - 1.0)))
    }

    fn correlation(&self) -> Option<Datum<'static>> {
        if self.yy == 0.0 { None } else { self.line(self.xy / (self.xx * self.yy).sqrt()) }
    }

    /// `regr_r2`, the square of the correlation.
    fn determination(&self) -> Option<Datum<'static>> {
        let value = if self.yy == 0.0 { 1.0 } else { (self.xy * self.xy) / (self.xx * self.yy) };
        self.line(value)
    }
}

impl Accumulator for Pairs {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [y, x] = arguments else { return Err(Error::bug("an aggregate of pairs has two arguments")) };
        match (float(x)?, float(y)?) {
            (Some(x), Some(y)) => self.add(x, y),
            _ => Ok(()),
        }
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok((self.result)(self).unwrap_or(Datum::Null))
    }
}
