//! Aggregates of pairs of floats: `regr_…` except `regr_count`, `corr`, `covar_…`. The first argument is the dependent
//! variable y.

use model::{Datum, Error, Result};

use super::aggregates::float;
use super::float::overflow;
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("regr_sxx", |_| boxed(Pairs::sum_xx)),
    ("regr_syy", |_| boxed(Pairs::sum_yy)),
    ("regr_sxy", |_| boxed(Pairs::sum_xy)),
    ("regr_avgx", |_| boxed(Pairs::average_x)),
    ("regr_avgy", |_| boxed(Pairs::average_y)),
    ("covar_pop", |_| boxed(Pairs::covariance)),
    ("covar_samp", |_| boxed(Pairs::covariance_of_sample)),
    ("corr", |_| boxed(Pairs::correlation)),
    ("regr_r2", |_| boxed(Pairs::determination)),
    ("regr_slope", |_| boxed(Pairs::slope)),
    ("regr_intercept", |_| boxed(Pairs::intercept)),
];

/// The statistic of pairs that an aggregate returns, by its name in `pg_proc`; NULL is `None`.
#[must_use]
pub fn pair_statistic(name: &str) -> Option<fn(&Pairs) -> Option<f64>> {
    Some(match name {
        "regr_sxx" => Pairs::sum_xx,
        "regr_syy" => Pairs::sum_yy,
        "regr_sxy" => Pairs::sum_xy,
        "regr_avgx" => Pairs::average_x,
        "regr_avgy" => Pairs::average_y,
        "covar_pop" => Pairs::covariance,
        "covar_samp" => Pairs::covariance_of_sample,
        "corr" => Pairs::correlation,
        "regr_r2" => Pairs::determination,
        "regr_slope" => Pairs::slope,
        "regr_intercept" => Pairs::intercept,
        _ => return None,
    })
}

/// Sums over pairs, and sums of products of differences from the means, updated by the method of Youngs and Cramer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pairs {
    pub(super) count: f64,
    pub(super) sum_x: f64,
    pub(super) sum_y: f64,
    pub(super) xx: f64,
    pub(super) yy: f64,
    pub(super) xy: f64,
}

impl Pairs {
    /// Adds a pair.
    ///
    /// # Errors
    /// 22003 for finite values whose sums are not.
    pub fn add(&mut self, x: f64, y: f64) -> Result<()> {
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
    fn any(&self, value: f64) -> Option<f64> {
        (self.count > 0.0).then_some(value)
    }

    /// A statistic of the regression line, which needs different x.
    fn line(&self, value: f64) -> Option<f64> {
        if self.xx == 0.0 { None } else { self.any(value) }
    }

    pub(super) fn sum_xx(&self) -> Option<f64> {
        self.any(self.xx)
    }

    pub(super) fn sum_yy(&self) -> Option<f64> {
        self.any(self.yy)
    }

    pub(super) fn sum_xy(&self) -> Option<f64> {
        self.any(self.xy)
    }

    pub(super) fn average_x(&self) -> Option<f64> {
        self.any(self.sum_x / self.count)
    }

    pub(super) fn average_y(&self) -> Option<f64> {
        self.any(self.sum_y / self.count)
    }

    pub(super) fn covariance(&self) -> Option<f64> {
        self.any(self.xy / self.count)
    }

    pub(super) fn covariance_of_sample(&self) -> Option<f64> {
        (self.count > 1.0).then(|| self.xy / (self.count - 1.0))
    }

    pub(super) fn slope(&self) -> Option<f64> {
        self.line(self.xy / self.xx)
    }

    pub(super) fn intercept(&self) -> Option<f64> {
        self.line((self.sum_y - self.sum_x * self.xy / self.xx) / self.count)
    }

    pub(super) fn correlation(&self) -> Option<f64> {
        if self.yy == 0.0 { None } else { self.line(self.xy / (self.xx * self.yy).sqrt()) }
    }

    /// `regr_r2`, the square of the correlation.
    pub(super) fn determination(&self) -> Option<f64> {
        let value = if self.yy == 0.0 { 1.0 } else { (self.xy * self.xy) / (self.xx * self.yy) };
        self.line(value)
    }
}

/// An aggregate of pairs with its statistic.
struct Regression {
    pairs: Pairs,
    statistic: fn(&Pairs) -> Option<f64>,
}

fn boxed(statistic: fn(&Pairs) -> Option<f64>) -> Box<dyn Accumulator> {
    Box::new(Regression { pairs: Pairs::default(), statistic })
}

impl Accumulator for Regression {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [y, x] = arguments else { return Err(Error::bug("an aggregate of pairs has two arguments")) };
        match (float(x)?, float(y)?) {
            (Some(x), Some(y)) => self.pairs.add(x, y),
            _ => Ok(()),
        }
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok((self.statistic)(&self.pairs).map_or(Datum::Null, Datum::Float8))
    }
}
