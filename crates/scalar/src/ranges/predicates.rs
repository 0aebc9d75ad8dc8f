//! Facts about ranges and multiranges, and comparisons of them.

use model::{Datum, Error, Result};

use super::compare;
use super::span::{Span, spans};
use crate::context::Context;
use crate::expr::Call;

fn first<'a>(arguments: &[Datum<'a>]) -> Result<Vec<Span<'a>>> {
    arguments.first().map_or_else(|| Err(Error::bug("a function of a range")), spans)
}

fn both<'a>(arguments: &[Datum<'a>]) -> Result<[Vec<Span<'a>>; 2]> {
    match arguments {
        [left, right] => Ok([spans(left)?, spans(right)?]),
        _ => Err(Error::bug("a function of two ranges")),
    }
}

/// `lower`: NULL without values or if they have no lower bound.
pub(super) fn lower<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(first(arguments)?.first().map_or(Datum::Null, |span| span.lower.value.clone()))
}

/// `upper`
pub(super) fn upper<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(first(arguments)?.last().map_or(Datum::Null, |span| span.upper.value.clone()))
}

macro_rules! facts {
    ($($name:ident, $spans:ident => $value:expr;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let $spans = first(arguments)?;
            Ok(Datum::Bool($value))
        }
    )*};
}

facts! {
    is_empty, spans => spans.is_empty();
    lower_inc, spans => spans.first().is_some_and(|span| span.lower.inclusive);
    upper_inc, spans => spans.last().is_some_and(|span| span.upper.inclusive);
    lower_inf, spans => spans.first().is_some_and(|span| span.lower.is_infinite());
    upper_inf, spans => spans.last().is_some_and(|span| span.upper.is_infinite());
}

macro_rules! comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let [left, right] = arguments else { return Err(Error::bug("a comparison of two ranges")) };
            Ok(Datum::Bool(compare(left, right)?.$test()))
        }
    )*};
}

comparisons! {
    equal => is_eq;
    not_equal => is_ne;
    less => is_lt;
    less_equal => is_le;
    greater => is_gt;
    greater_equal => is_ge;
}

/// `range_cmp`, `multirange_cmp`
pub(super) fn order<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = arguments else { return Err(Error::bug("a comparison of two ranges")) };
    Ok(Datum::Int4(compare(left, right)? as i32))
}

/// `range_contains_elem`, `multirange_contains_elem`
pub(super) fn contains_element<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [range, value] = arguments else { return Err(Error::bug("contains_elem")) };
    has(range, value).map(Datum::Bool)
}

/// `elem_contained_by_range`, `elem_contained_by_multirange`
pub(super) fn element_contained<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [value, range] = arguments else { return Err(Error::bug("elem_contained")) };
    has(range, value).map(Datum::Bool)
}

fn has(range: &Datum<'_>, value: &Datum<'_>) -> Result<bool> {
    for span in spans(range)? {
        if span.has(value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

macro_rules! predicates {
    ($($name:ident, $left:ident, $right:ident => $value:expr;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let [$left, $right] = both(arguments)?;
            Ok(Datum::Bool($value))
        }
    )*};
}

predicates! {
    contains, left, right => has_all(&left, &right)?;
    contained, left, right => has_all(&right, &left)?;
    overlaps, left, right => have_common(&left, &right)?;
    before, left, right => ends(&left, &right, |left, right| left.1.is_before(right.0))?;
    after, left, right => ends(&right, &left, |right, left| right.1.is_before(left.0))?;
    overleft, left, right => ends(&left, &right, |left, right| Ok(left.1.upper.compare(&right.1.upper)?.is_le()))?;
    overright, left, right => ends(&left, &right, |left, right| Ok(left.0.lower.compare(&right.0.lower)?.is_ge()))?;
    adjacent, left, right => ends(&left, &right, |left, right| {
        Ok(left.1.upper.touches(&right.0.lower)? || right.1.upper.touches(&left.0.lower)?)
    })?;
}

/// The first and the last span.
type Ends<'r, 'a> = (&'r Span<'a>, &'r Span<'a>);

/// A test of the first and last spans of both; false if one has none.
fn ends<'r, 'a>(
    left: &'r [Span<'a>],
    right: &'r [Span<'a>],
    test: impl FnOnce(Ends<'r, 'a>, Ends<'r, 'a>) -> Result<bool>,
) -> Result<bool> {
    let ends = |spans: &'r [Span<'a>]| Some((spans.first()?, spans.last()?));
    match (ends(left), ends(right)) {
        (Some(left), Some(right)) => test(left, right),
        _ => Ok(false),
    }
}

/// Whether each span of `right` is within one of `left`. Both are in order and are walked once.
fn has_all(left: &[Span<'_>], right: &[Span<'_>]) -> Result<bool> {
    let mut left = left.iter().peekable();
    for wanted in right {
        while let Some(span) = left.peek() {
            if !span.is_before(wanted)? {
                break;
            }
            left.next();
        }
        match left.peek() {
            Some(span) if span.contains(wanted)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Whether a span of `left` overlaps one of `right`.
fn have_common(left: &[Span<'_>], right: &[Span<'_>]) -> Result<bool> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        if one.is_before(other)? {
            left.next();
        } else if other.is_before(one)? {
            right.next();
        } else {
            return Ok(true);
        }
    }
    Ok(false)
}
