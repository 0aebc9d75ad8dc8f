//! `sum` and `avg` of intervals.

use model::{Datum, Interval, Result};

use crate::context::Context;
use crate::registry::{Accumulator, Aggregate};

use super::arguments::interval;
use super::intervals::{divided, plus};

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("sum(interval)", |_| Box::new(Sum { average: false, sum: Interval::default(), count: 0 })),
    ("avg(interval)", |_| Box::new(Sum { average: true, sum: Interval::default(), count: 0 })),
];

/// `sum` and `avg` of intervals.
struct Sum {
    average: bool,
    sum: Interval,
    count: u64,
}

impl Accumulator for Sum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        // These aggregates are not strict: their NULLs are left out here.
        if matches!(arguments, [Datum::Null]) {
            return Ok(());
        }
        self.sum = plus(self.sum, interval(arguments, 0)?)?;
        self.count += 1;
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(match self.count {
            0 => Datum::Null,
            count if self.average => Datum::Interval(divided(self.sum, count as f64)?),
            _ => Datum::Interval(self.sum),
        })
    }
}
