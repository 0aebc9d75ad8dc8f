//! `OVERLAPS` of two periods.

use std::cmp::Ordering;

use model::{Datum, Error, Result};

use crate::context::Context;
use crate::registry::Function;

use super::arithmetic::{Span, timestamp_plus, timestamptz_plus, turned};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("overlaps(time,time,time,time)", overlaps),
    ("overlaps(time,interval,time,interval)", overlaps),
    ("overlaps(time,time,time,interval)", overlaps),
    ("overlaps(time,interval,time,time)", overlaps),
    ("overlaps(timetz,timetz,timetz,timetz)", overlaps),
    ("overlaps(timestamp,timestamp,timestamp,timestamp)", overlaps),
    ("overlaps(timestamp,interval,timestamp,interval)", overlaps),
    ("overlaps(timestamp,timestamp,timestamp,interval)", overlaps),
    ("overlaps(timestamp,interval,timestamp,timestamp)", overlaps),
    ("overlaps(timestamptz,timestamptz,timestamptz,timestamptz)", overlaps),
    ("overlaps(timestamptz,interval,timestamptz,interval)", overlaps),
    ("overlaps(timestamptz,timestamptz,timestamptz,interval)", overlaps),
    ("overlaps(timestamptz,interval,timestamptz,timestamptz)", overlaps),
];

fn overlaps<'a>(arguments: &[Datum<'a>], _: &crate::expr::Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [first, first_end, second, second_end] = arguments else { return Err(Error::bug("overlaps")) };
    let first_end = end(first, first_end, ctx)?;
    let second_end = end(second, second_end, ctx)?;
    let (Some(first), Some(second)) = (period(first, &first_end)?, period(second, &second_end)?) else {
        return Ok(Datum::Null);
    };
    Ok(match compare(first.0, second.0)? {
        // With equal starts, the result is known if both ends are.
        Ordering::Equal if first.1.is_none() || second.1.is_none() => Datum::Null,
        Ordering::Equal => Datum::Bool(true),
        Ordering::Less => starts_within(second.0, first.1, second.1)?,
        Ordering::Greater => starts_within(first.0, second.1, first.1)?,
    })
}

/// The end of a period that is given as an end or as a length.
fn end<'a>(start: &Datum<'a>, end: &Datum<'a>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Datum::Interval(length) = end else { return Ok(end.clone()) };
    Ok(match start {
        Datum::Null => Datum::Null,
        Datum::Time(micros) => Datum::Time(turned(*micros, *length, 1)),
        Datum::Timestamp(micros) => Datum::Timestamp(timestamp_plus(*micros, Span::of(*length))?),
        Datum::Timestamptz(micros) => Datum::Timestamptz(timestamptz_plus(*micros, Span::of(*length), ctx)?),
        _ => return Err(Error::bug("a period of a type without length")),
    })
}

type Period<'d, 'a> = (&'d Datum<'a>, Option<&'d Datum<'a>>);

/// The earlier end, and the later one if it is known; `None` if neither is.
fn period<'d, 'a>(start: &'d Datum<'a>, end: &'d Datum<'a>) -> Result<Option<Period<'d, 'a>>> {
    Ok(match (start.is_null(), end.is_null()) {
        (true, true) => None,
        (true, false) => Some((end, None)),
        (false, true) => Some((start, None)),
        (false, false) if compare(start, end)?.is_gt() => Some((end, Some(start))),
        (false, false) => Some((start, Some(end))),
    })
}

fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    left.compare(right).ok_or_else(|| Error::bug("periods of different types"))
}

/// Whether the later period starts before the end of the earlier one.
fn starts_within<'a>(start: &Datum<'a>, end: Option<&Datum<'a>>, own_end: Option<&Datum<'a>>) -> Result<Datum<'a>> {
    Ok(match end {
        None => Datum::Null,
        Some(end) if compare(start, end)?.is_lt() => Datum::Bool(true),
        Some(_) if own_end.is_none() => Datum::Null,
        Some(_) => Datum::Bool(false),
    })
}
