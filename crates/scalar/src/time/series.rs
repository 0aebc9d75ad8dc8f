//! `generate_series` of timestamps.

use model::{Datum, Error, Interval, Result, SqlState};

use crate::context::Context;
use crate::registry::{Rows, SetFunction};

use super::arguments::{interval, timestamp, timestamptz};
use super::arithmetic::{Span, timestamp_plus, timestamptz_plus};

pub(super) const SETS: &[(&str, SetFunction)] = &[
    ("generate_series(timestamp,timestamp,interval)", |a, _, _| {
        let rows = series(timestamp(a, 0)?, timestamp(a, 1)?, interval(a, 2)?, timestamp_plus)?;
        Ok(Box::new(rows.map(|row| row.map(Datum::Timestamp))))
    }),
    ("generate_series(timestamptz,timestamptz,interval)", zoned_series),
];

fn zoned_series<'a>(arguments: &[Datum<'a>], _: &crate::expr::Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    let ctx = *ctx;
    let plus = move |micros, span| timestamptz_plus(micros, span, &ctx);
    let rows = series(timestamptz(arguments, 0)?, timestamptz(arguments, 1)?, interval(arguments, 2)?, plus)?;
    Ok(Box::new(rows.map(|row| row.map(Datum::Timestamptz))))
}

/// Moments from a first to a last one, computed when they are asked for.
fn series(
    first: i64,
    last: i64,
    step: Interval,
    plus: impl Fn(i64, Span) -> Result<i64>,
) -> Result<impl Iterator<Item = Result<i64>>> {
    let sign = step.span_micros().signum();
    if sign == 0 {
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
    }
    let mut next = Some(first);
    Ok(std::iter::from_fn(move || {
        let current = next.take()?;
        if if sign > 0 { current > last } else { current < last } {
            return None;
        }
        match plus(current, Span::of(step)) {
            Ok(following) => {
                next = Some(following);
                Some(Ok(current))
            }
            Err(error) => Some(Err(error)),
        }
    }))
}
