//! Constructors of ranges and multiranges, and the ranges of a multirange.

use std::sync::Arc;

use model::{Datum, Error, Result, SqlState};

use super::span::{Span, joined, multirange_datum, range_datum, spans};
use crate::arrays::NULL_NOT_ALLOWED;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Rows;

/// `int4range(lower, upper)` and its like, with the form of the bounds as third argument.
pub(super) fn range<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [lower, upper, form @ ..] = arguments else { return Err(Error::bug("a range's constructor")) };
    let form = match form {
        [] => "[)",
        [Datum::Text(form)] => *form,
        _ => {
            let text = "range constructor flags argument must not be null";
            return Err(Error::new(SqlState::DATA_EXCEPTION, text));
        }
    };
    if !matches!(form, "[]" | "[)" | "(]" | "()") {
        let hint = "Valid values are \"[]\", \"[)\", \"(]\", and \"()\".";
        return Err(Error::new(SqlState::SYNTAX_ERROR, "invalid range bound flags").with_hint(hint));
    }
    let (lower, upper) = ((lower.clone(), form.starts_with('[')), (upper.clone(), form.ends_with(']')));
    Span::new(lower, upper).map(range_datum)
}

/// `int4range_canonical` and its like.
pub(super) fn canonical<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [range] = arguments else { return Err(Error::bug("a canonical range")) };
    let Some(Span { lower, upper }) = spans(range)?.pop() else { return Ok(range.clone()) };
    Span::new((lower.value, lower.inclusive), (upper.value, upper.inclusive)).map(range_datum)
}

/// `int4multirange(…)` and its like: of no range, of one, or of an array of ranges.
pub(super) fn multirange<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let mut all = Vec::new();
    for argument in arguments {
        let Datum::Array(array) = argument else {
            all.extend(spans(argument)?);
            continue;
        };
        if array.dimensions.len() > 1 {
            let text = "multiranges cannot be constructed from multidimensional arrays";
            return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text));
        }
        for range in &array.items {
            if range.is_null() {
                return Err(Error::new(NULL_NOT_ALLOWED, "multirange values cannot contain null members"));
            }
            all.extend(spans(range)?);
        }
    }
    joined(all).map(multirange_datum)
}

/// `unnest(anymultirange)`
pub(super) fn unnest<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let Some(Datum::Multirange(ranges)) = arguments.first() else { return Ok(Box::new(std::iter::empty())) };
    let ranges = Arc::clone(ranges);
    Ok(Box::new((0..ranges.len()).map(move |at| Ok(Datum::Range(Arc::new(ranges[at].clone()))))))
}
