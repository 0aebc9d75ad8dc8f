//! `in_range`: whether a value lies on the inner side of a bound of a window's RANGE frame; and the distances of ranges.

use model::{Datum, Error, Interval, Result, SqlState, TimeTz};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::Function;

use super::arguments::{date, interval, timestamp, timestamptz};
use super::arithmetic::{Span, timestamp_plus, timestamptz_plus};
use super::calendar::{SECOND, date_to_timestamp};
use super::intervals::{minus, plus};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("in_range(date,date,interval,bool,bool)", in_range),
    ("in_range(timestamp,timestamp,interval,bool,bool)", in_range),
    ("in_range(timestamptz,timestamptz,interval,bool,bool)", in_range),
    ("in_range(interval,interval,interval,bool,bool)", in_range),
    ("in_range(time,time,interval,bool,bool)", in_range),
    ("in_range(timetz,timetz,interval,bool,bool)", in_range),
    ("daterange_subdiff", |a, _, _| Ok(Datum::Float8(f64::from(date(a, 0)?) - f64::from(date(a, 1)?)))),
    ("tsrange_subdiff", |a, _, _| Ok(seconds_between(timestamp(a, 0)?, timestamp(a, 1)?))),
    ("tstzrange_subdiff", |a, _, _| Ok(seconds_between(timestamptz(a, 0)?, timestamptz(a, 1)?))),
];

fn seconds_between<'a>(left: i64, right: i64) -> Datum<'a> {
    Datum::Float8((left as f64 - right as f64) / SECOND as f64)
}

/// The arguments are the value, the base of the bound, the offset from it, whether the offset is subtracted, and whether
/// the value must be at most the bound rather than at least.
fn in_range<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [value, base, _, Datum::Bool(subtract), Datum::Bool(less)] = arguments else {
        return Err(Error::bug("in_range"));
    };
    let offset = interval(arguments, 2)?;
    let is_clock = matches!(base, Datum::Time(_) | Datum::TimeTz(_));
    // Times of day take only the time of the offset.
    if if is_clock { offset.micros < 0 } else { offset.span_micros() < 0 } {
        return Err(Error::new(SqlState("22013"), "invalid preceding or following size in window function"));
    }
    let (value, bound) = match (value, base) {
        (Datum::Date(value), Datum::Date(base)) => {
            let bound = timestamp_plus(date_to_timestamp(*base)?, span(offset, *subtract))?;
            (Datum::Timestamp(date_to_timestamp(*value)?), Datum::Timestamp(bound))
        }
        (_, Datum::Timestamp(base)) => {
            (value.clone(), Datum::Timestamp(timestamp_plus(*base, span(offset, *subtract))?))
        }
        (_, Datum::Timestamptz(base)) => {
            (value.clone(), Datum::Timestamptz(timestamptz_plus(*base, span(offset, *subtract), ctx)?))
        }
        (_, Datum::Interval(base)) => {
            let bound = if *subtract { minus(*base, offset)? } else { plus(*base, offset)? };
            (value.clone(), Datum::Interval(bound))
        }
        // The bound does not turn around the clock.
        (_, Datum::Time(base)) => (value.clone(), Datum::Time(clock_bound(*base, offset, *subtract))),
        (_, Datum::TimeTz(base)) => {
            let micros = clock_bound(base.micros, offset, *subtract);
            (value.clone(), Datum::TimeTz(TimeTz { micros, ..*base }))
        }
        _ => return Err(Error::bug("in_range of another type")),
    };
    let order = value.compare(&bound).ok_or_else(|| Error::bug("in_range of different types"))?;
    Ok(Datum::Bool(if *less { order.is_le() } else { order.is_ge() }))
}

fn span(offset: Interval, subtract: bool) -> Span {
    let span = Span::of(offset);
    if subtract { span.negated() } else { span }
}

/// Half of the range of i64, which is beyond every time of day and can be moved by an offset from UTC.
const CLOCK_LIMIT: i64 = i64::MAX / 2;

fn clock_bound(base: i64, offset: Interval, subtract: bool) -> i64 {
    let bound = if subtract { base.saturating_sub(offset.micros) } else { base.saturating_add(offset.micros) };
    bound.clamp(-CLOCK_LIMIT, CLOCK_LIMIT)
}
