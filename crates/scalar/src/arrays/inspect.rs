//! Functions that look into arrays: dimensions, positions, `array_to_string`.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, ArrayDimension, Datum, Error, Result};

use super::compare::items_equal;
use super::text::write_bounds;
use super::{Arguments, NULL_NOT_ALLOWED, array};
use crate::context::Context;
use crate::expr::Call;
use crate::registry;

fn first<'r, 'a>(arguments: Arguments<'r, 'a>) -> Result<&'r Array<'a>> {
    arguments.first().map_or_else(|| Err(Error::bug("a function of an array")), array)
}

/// The dimension of a number from 1.
fn dimension(arguments: Arguments<'_, '_>) -> Result<Option<ArrayDimension>> {
    let Some(Datum::Int4(number)) = arguments.get(1) else { return Err(Error::bug("a dimension's number")) };
    let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
    Ok(at.and_then(|at| first(arguments).ok()?.dimensions.get(at).copied()))
}

fn optional<'a>(number: Option<i32>) -> Datum<'a> {
    number.map_or(Datum::Null, Datum::Int4)
}

/// `array_ndims`
pub(super) fn array_ndims<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let count = first(arguments)?.dimensions.len() as i32;
    Ok(optional((count > 0).then_some(count)))
}

/// `array_dims`
pub(super) fn array_dims<'a>(arguments: Arguments<'_, 'a>, _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let array = first(arguments)?;
    if array.dimensions.is_empty() {
        return Ok(Datum::Null);
    }
    let mut text = String::new();
    write_bounds(&array.dimensions, &mut text);
    Ok(ctx.text(&text))
}

/// `array_lower`
pub(super) fn array_lower<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(optional(dimension(arguments)?.map(|dimension| dimension.lower)))
}

/// `array_upper`
pub(super) fn array_upper<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let upper = |dimension: ArrayDimension| dimension.lower.saturating_add(dimension.length - 1);
    Ok(optional(dimension(arguments)?.map(upper)))
}

/// `array_length`
pub(super) fn array_length<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(optional(dimension(arguments)?.map(|dimension| dimension.length)))
}

/// `cardinality`
pub(super) fn cardinality<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(first(arguments)?.items.len() as i32))
}

/// Calls `each` with the subscript of every element that is equal to `item`, or NULL like it, until that returns false.
fn find(array: &Array<'_>, item: &Datum<'_>, mut each: impl FnMut(i32) -> bool) -> Result<()> {
    if array.dimensions.len() > 1 {
        return Err(Error::unsupported("searching for elements in multidimensional arrays is not supported"));
    }
    let lower = array.dimensions.first().map_or(1, |dimension| dimension.lower);
    for (at, other) in array.items.iter().enumerate() {
        let found = match (item.is_null(), other.is_null()) {
            (false, false) => items_equal(TypeId(array.element), other, item)?,
            (item, other) => item && other,
        };
        if found && !each(lower.saturating_add(at as i32)) {
            break;
        }
    }
    Ok(())
}

/// `array_position`
pub(super) fn array_position<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [of, item, start @ ..] = arguments else { return Err(Error::bug("array_position")) };
    let Datum::Array(array) = of else { return Ok(Datum::Null) };
    // Without a match by NULL, PostgreSQL does not look at the start.
    let may_match = !array.items.is_empty() && (!item.is_null() || array.items.iter().any(Datum::is_null));
    if array.dimensions.len() <= 1 && !may_match {
        return Ok(Datum::Null);
    }
    let start = match start {
        [] => i32::MIN,
        [Datum::Int4(start)] => *start,
        _ if array.dimensions.len() <= 1 => {
            return Err(Error::new(NULL_NOT_ALLOWED, "initial position must not be null"));
        }
        _ => i32::MIN,
    };
    let mut found = None;
    find(array, item, |at| {
        found = (at >= start).then_some(at);
        found.is_none()
    })?;
    Ok(optional(found))
}

/// `array_positions`
pub(super) fn array_positions<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [of, item] = arguments else { return Err(Error::bug("array_positions")) };
    let Datum::Array(array) = of else { return Ok(Datum::Null) };
    let mut found = Vec::new();
    find(array, item, |at| {
        found.push(Datum::Int4(at));
        true
    })?;
    Ok(Datum::Array(Arc::new(Array::of(TypeId::INT4.0, found))))
}

/// `array_to_string`: NULL elements are left out, or shown as the third argument.
pub(super) fn array_to_string<'a>(arguments: Arguments<'_, 'a>, _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (Some(of), Some(Datum::Text(delimiter))) = (arguments.first(), arguments.get(1)) else {
        return Ok(Datum::Null);
    };
    let Datum::Array(array) = of else { return Ok(Datum::Null) };
    let null_text = if let Some(Datum::Text(text)) = arguments.get(2) { Some(*text) } else { None };
    let mut text = String::new();
    let mut is_first = true;
    for item in &array.items {
        if item.is_null() && null_text.is_none() {
            continue;
        }
        if !is_first {
            text.push_str(delimiter);
        }
        is_first = false;
        match null_text {
            Some(null_text) if item.is_null() => text.push_str(null_text),
            _ => registry::output(item, TypeId(array.element), ctx, &mut text)?,
        }
        ctx.check_size(text.len())?;
    }
    Ok(ctx.text(&text))
}
