//! Union, intersection and difference.

use model::{Datum, Error, Result, SqlState};

use super::span::{Span, joined, multirange_datum, range_datum, spans};
use crate::context::Context;
use crate::expr::Call;

fn two<'r, 'a>(arguments: &'r [Datum<'a>]) -> Result<[&'r Datum<'a>; 2]> {
    match arguments {
        [left, right] => Ok([left, right]),
        _ => Err(Error::bug("a function of two ranges")),
    }
}

fn not_contiguous(what: &str) -> Error {
    Error::new(SqlState::DATA_EXCEPTION, format!("result of range {what} would not be contiguous"))
}

/// `range_union`
pub(super) fn range_union<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    let (Some(one), Some(other)) = (spans(left)?.pop(), spans(right)?.pop()) else {
        return Ok(if spans(left)?.is_empty() { right.clone() } else { left.clone() });
    };
    if !one.overlaps(&other)? && !one.touches(&other)? {
        return Err(not_contiguous("union"));
    }
    Ok(range_datum(Some(one.hull(&other)?)))
}

/// `range_merge`: the smallest range with all values of two ranges or of a multirange.
pub(super) fn range_merge<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let mut hull: Option<Span<'a>> = None;
    for argument in arguments {
        for span in spans(argument)? {
            hull = Some(match hull {
                Some(hull) => hull.hull(&span)?,
                None => span,
            });
        }
    }
    Ok(range_datum(hull))
}

/// `range_intersect`
pub(super) fn range_intersect<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    let (Some(left), Some(right)) = (spans(left)?.pop(), spans(right)?.pop()) else { return Ok(range_datum(None)) };
    left.intersection(&right).map(range_datum)
}

/// `range_minus`
pub(super) fn range_minus<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    let mut rest = difference(spans(left)?, &spans(right)?)?;
    if rest.len() > 1 {
        return Err(not_contiguous("difference"));
    }
    Ok(range_datum(rest.pop()))
}

/// `multirange_union`
pub(super) fn multirange_union<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    let mut all = spans(left)?;
    all.extend(spans(right)?);
    joined(all).map(multirange_datum)
}

/// `multirange_intersect`
pub(super) fn multirange_intersect<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    intersection(&spans(left)?, &spans(right)?).map(multirange_datum)
}

/// `multirange_minus`
pub(super) fn multirange_minus<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = two(arguments)?;
    difference(spans(left)?, &spans(right)?).map(multirange_datum)
}

/// The common parts of two lists of spans, which are both walked once.
pub(super) fn intersection<'a>(left: &[Span<'a>], right: &[Span<'a>]) -> Result<Vec<Span<'a>>> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        common.extend(one.intersection(other)?);
        if one.upper.compare(&other.upper)?.is_lt() {
            left.next();
        } else {
            right.next();
        }
    }
    Ok(common)
}

/// The rest of the spans of `left` without those of `right`.
fn difference<'a>(left: Vec<Span<'a>>, right: &[Span<'a>]) -> Result<Vec<Span<'a>>> {
    let mut rest = Vec::with_capacity(left.len());
    let mut first = 0;
    for mut span in left {
        while let Some(taken) = right.get(first) {
            if !taken.is_before(&span)? {
                break;
            }
            first += 1;
        }
        let mut remains = true;
        // The last span taken from this one may reach into the next one and is kept.
        for taken in &right[first..] {
            if span.is_before(taken)? {
                break;
            }
            if span.lower.compare(&taken.lower)?.is_lt() {
                rest.extend(Span::between(&span.lower, &taken.lower.flipped())?);
            }
            if taken.upper.compare(&span.upper)?.is_ge() {
                remains = false;
                break;
            }
            span.lower = taken.upper.flipped();
        }
        if remains {
            rest.push(span);
        }
    }
    Ok(rest)
}
