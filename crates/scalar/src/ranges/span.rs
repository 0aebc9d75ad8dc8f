//! Spans of values, of which ranges and multiranges are made.

use std::cmp::Ordering;
use std::sync::Arc;

use model::{Datum, Error, Range, RangeBound, Result, SqlState};

/// The first day behind the last one that a date can be, since 1970: the year 5874898.
const DATE_END: i32 = 2_145_042_906;

/// A bound as a place among values: whether it is the lower one of its span matters for exclusive and infinite ones.
#[derive(Clone, Debug)]
pub(super) struct Bound<'a> {
    /// NULL is infinite.
    pub(super) value: Datum<'a>,
    pub(super) inclusive: bool,
    pub(super) is_lower: bool,
}

/// The values between two bounds; never empty.
#[derive(Clone, Debug)]
pub(super) struct Span<'a> {
    pub(super) lower: Bound<'a>,
    pub(super) upper: Bound<'a>,
}

impl<'a> Bound<'a> {
    pub(super) fn is_infinite(&self) -> bool {
        self.value.is_null()
    }

    /// The same place as a bound of the span on the other side, which it does not overlap.
    pub(super) fn flipped(&self) -> Bound<'a> {
        Bound { value: self.value.clone(), inclusive: !self.inclusive, is_lower: !self.is_lower }
    }

    /// The order of the values of two bounds.
    fn compare_values(&self, other: &Bound<'_>) -> Result<Ordering> {
        // An infinite lower bound is before all values, an infinite upper one behind them.
        let rank = |bound: &Bound<'_>| match (bound.is_infinite(), bound.is_lower) {
            (true, true) => -1,
            (true, false) => 1,
            (false, _) => 0,
        };
        if self.is_infinite() || other.is_infinite() {
            return Ok(rank(self).cmp(&rank(other)));
        }
        compare_values(&self.value, &other.value)
    }

    /// The order of two bounds as places: an exclusive lower bound is just behind its value, an exclusive upper one just
    /// before it.
    pub(super) fn compare(&self, other: &Bound<'_>) -> Result<Ordering> {
        let offset = |bound: &Bound<'_>| match (bound.inclusive || bound.is_infinite(), bound.is_lower) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => -1,
        };
        Ok(self.compare_values(other)?.then(offset(self).cmp(&offset(other))))
    }

    /// Whether a span that ends here and one that begins at `lower` have nothing between them and do not overlap.
    ///
    /// Spans of whole numbers and dates are canonical, so that this is a matter of equal values for them too.
    pub(super) fn touches(&self, lower: &Bound<'_>) -> Result<bool> {
        Ok(self.compare_values(lower)?.is_eq() && !self.is_infinite() && self.inclusive != lower.inclusive)
    }
}

pub(super) fn compare_values(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    left.compare(right).ok_or_else(|| Error::bug("bounds of two types"))
}

impl<'a> Span<'a> {
    /// The span between two bounds in canonical form: spans of whole numbers and dates include the lower bound and
    /// exclude the upper one. `None` if no value is between them.
    ///
    /// # Errors
    /// 22000 if the lower bound is behind the upper one, 22003 and 22008 if the canonical bound is beyond the type's range.
    pub(super) fn new(lower: (Datum<'a>, bool), upper: (Datum<'a>, bool)) -> Result<Option<Span<'a>>> {
        let bound = |(value, inclusive): (Datum<'a>, bool), is_lower| {
            let inclusive = inclusive && !value.is_null();
            Bound { value, inclusive, is_lower }
        };
        let span = Span { lower: bound(lower, true), upper: bound(upper, false) };
        match span.lower.compare_values(&span.upper)? {
            Ordering::Greater => {
                let text = "range lower bound must be less than or equal to range upper bound";
                return Err(Error::new(SqlState::DATA_EXCEPTION, text));
            }
            Ordering::Equal if !(span.lower.inclusive && span.upper.inclusive) => return Ok(None),
            _ => {}
        }
        let span = Span { lower: canonical(span.lower, true)?, upper: canonical(span.upper, false)? };
        Ok((span.lower.compare_values(&span.upper)?.is_lt() || span.upper.inclusive).then_some(span))
    }

    pub(super) fn of(range: &Range<'a>) -> Option<Span<'a>> {
        let Range::Between(low, high) = range else { return None };
        let bound = |bound: &RangeBound<'a>, is_lower| Bound {
            value: bound.value.clone(),
            inclusive: bound.inclusive,
            is_lower,
        };
        Some(Span { lower: bound(low, true), upper: bound(high, false) })
    }

    pub(super) fn range(self) -> Range<'a> {
        let bound = |bound: Bound<'a>| RangeBound { value: bound.value, inclusive: bound.inclusive };
        Range::Between(bound(self.lower), bound(self.upper))
    }

    /// The span between two bounds that come from others, if it is not empty.
    pub(super) fn between(lower: &Bound<'a>, upper: &Bound<'a>) -> Result<Option<Span<'a>>> {
        let is_empty = match lower.compare_values(upper)? {
            Ordering::Less => false,
            Ordering::Equal => !(lower.inclusive && upper.inclusive),
            Ordering::Greater => true,
        };
        Ok((!is_empty).then(|| Span { lower: lower.clone(), upper: upper.clone() }))
    }

    pub(super) fn has(&self, value: &Datum<'_>) -> Result<bool> {
        let after = |order: Ordering, bound: &Bound<'_>| order.is_gt() || (order.is_eq() && bound.inclusive);
        let after_lower = self.lower.is_infinite() || after(compare_values(value, &self.lower.value)?, &self.lower);
        let before_upper = self.upper.is_infinite() || after(compare_values(&self.upper.value, value)?, &self.upper);
        Ok(after_lower && before_upper)
    }

    pub(super) fn contains(&self, other: &Span<'_>) -> Result<bool> {
        Ok(self.lower.compare(&other.lower)?.is_le() && self.upper.compare(&other.upper)?.is_ge())
    }

    pub(super) fn is_before(&self, other: &Span<'_>) -> Result<bool> {
        Ok(self.upper.compare(&other.lower)?.is_lt())
    }

    pub(super) fn overlaps(&self, other: &Span<'_>) -> Result<bool> {
        Ok(!self.is_before(other)? && !other.is_before(self)?)
    }

    pub(super) fn touches(&self, other: &Span<'_>) -> Result<bool> {
        Ok(self.upper.touches(&other.lower)? || other.upper.touches(&self.lower)?)
    }

    /// The span from the first lower to the last upper bound of both.
    pub(super) fn hull(&self, other: &Span<'a>) -> Result<Span<'a>> {
        let lower = if self.lower.compare(&other.lower)?.is_le() { &self.lower } else { &other.lower };
        let upper = if self.upper.compare(&other.upper)?.is_ge() { &self.upper } else { &other.upper };
        Ok(Span { lower: lower.clone(), upper: upper.clone() })
    }

    pub(super) fn intersection(&self, other: &Span<'a>) -> Result<Option<Span<'a>>> {
        let lower = if self.lower.compare(&other.lower)?.is_ge() { &self.lower } else { &other.lower };
        let upper = if self.upper.compare(&other.upper)?.is_le() { &self.upper } else { &other.upper };
        if lower.compare(upper)?.is_gt() { Ok(None) } else { Span::between(lower, upper) }
    }
}

/// A bound of whole numbers or dates as `[` or `)`: an exclusive lower bound and an inclusive upper one move to the next
/// value.
fn canonical(bound: Bound<'_>, inclusive: bool) -> Result<Bound<'_>> {
    if bound.inclusive == inclusive || bound.is_infinite() {
        return Ok(bound);
    }
    let beyond = |name: &str| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{name} out of range"));
    let value = match bound.value {
        Datum::Int4(value) => Datum::Int4(value.checked_add(1).ok_or_else(|| beyond("integer"))?),
        Datum::Int8(value) => Datum::Int8(value.checked_add(1).ok_or_else(|| beyond("bigint"))?),
        // No day is next to an infinite one.
        Datum::Date(i32::MIN | i32::MAX) => return Ok(bound),
        Datum::Date(day) if day + 1 >= DATE_END => {
            return Err(Error::new(SqlState::DATETIME_OVERFLOW, "date out of range"));
        }
        Datum::Date(day) => Datum::Date(day + 1),
        _ => return Ok(bound),
    };
    Ok(Bound { value, inclusive, ..bound })
}

/// The spans of a range or multirange, in order.
pub(super) fn spans<'a>(datum: &Datum<'a>) -> Result<Vec<Span<'a>>> {
    match datum {
        Datum::Range(range) => Ok(Span::of(range).into_iter().collect()),
        Datum::Multirange(ranges) => Ok(ranges.iter().filter_map(Span::of).collect()),
        _ => Err(Error::bug("a range that is none")),
    }
}

/// The spans of a union: in order, with those joined that touch or overlap.
pub(super) fn joined(mut spans: Vec<Span<'_>>) -> Result<Vec<Span<'_>>> {
    // Bounds of one type are always comparable.
    spans.sort_by(|left, right| {
        let lower = left.lower.compare(&right.lower).unwrap_or(Ordering::Equal);
        lower.then_with(|| left.upper.compare(&right.upper).unwrap_or(Ordering::Equal))
    });
    let mut all: Vec<Span<'_>> = Vec::with_capacity(spans.len());
    for span in spans {
        match all.last_mut() {
            Some(last) if last.overlaps(&span)? || last.upper.touches(&span.lower)? => *last = last.hull(&span)?,
            _ => all.push(span),
        }
    }
    Ok(all)
}

pub(super) fn range_datum(span: Option<Span<'_>>) -> Datum<'_> {
    Datum::Range(Arc::new(span.map_or(Range::Empty, Span::range)))
}

/// The multirange of spans that are in order and joined.
pub(super) fn multirange_datum(spans: Vec<Span<'_>>) -> Datum<'_> {
    Datum::Multirange(spans.into_iter().map(Span::range).collect())
}
