//! Functions that make arrays: `array_append`, `array_cat`, `array_remove`, `array_fill` and their like.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, ArrayDimension, Datum, Error, Result, SqlState};

use super::compare::items_equal;
use super::{
    ARRAY_SUBSCRIPT, Arguments, DIMENSIONS_MAX, NULL_NOT_ALLOWED, array, array_datum, check_bounds, check_size,
    element_count, result_element, too_many_dimensions,
};
use crate::context::Context;
use crate::expr::Call;

/// `array_append`
pub(super) fn array_append<'a>(arguments: Arguments<'_, 'a>, call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [of, item] = arguments else { return Err(Error::bug("array_append")) };
    with_item(of, item, false, call, ctx)
}

/// `array_prepend`
pub(super) fn array_prepend<'a>(arguments: Arguments<'_, 'a>, call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [item, of] = arguments else { return Err(Error::bug("array_prepend")) };
    with_item(of, item, true, call, ctx)
}

/// An array with another element at one end. The lower bound stays; NULL is the empty array.
fn with_item<'a>(of: &Datum<'a>, item: &Datum<'a>, front: bool, call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (dimension, items): (_, &[Datum<'a>]) = match of {
        Datum::Array(array) if array.dimensions.len() > 1 => {
            let text = "argument must be empty or one-dimensional array";
            return Err(Error::new(SqlState::DATA_EXCEPTION, text));
        }
        Datum::Array(array) if !array.items.is_empty() => (array.dimensions.first().copied(), &array.items),
        _ => (None, &[]),
    };
    let ArrayDimension { length, lower } = dimension.unwrap_or(ArrayDimension { length: 0, lower: 1 });
    let beyond = || Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "integer out of range");
    let end = if front { lower.checked_sub(1) } else { lower.checked_add(length) };
    end.ok_or_else(beyond)?;
    let dimensions = [ArrayDimension { length: length.saturating_add(1), lower }];
    check_bounds(&dimensions)?;
    check_size(element_count(&dimensions)?, ctx)?;
    let mut all = Vec::with_capacity(items.len() + 1);
    all.extend(front.then(|| item.clone()));
    all.extend_from_slice(items);
    all.extend((!front).then(|| item.clone()));
    Ok(array_datum(result_element(call), Box::new(dimensions), all))
}

fn incompatible(detail: impl Into<String>) -> Error {
    Error::new(ARRAY_SUBSCRIPT, "cannot concatenate incompatible arrays").with_detail(detail)
}

/// `array_cat`: appends the elements of arrays with the same inner dimensions, or an array to an array of such arrays.
pub(super) fn array_cat<'a>(arguments: Arguments<'_, 'a>, call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (left, right) = match arguments {
        [Datum::Null, other] | [other, Datum::Null] => return Ok(other.clone()),
        [Datum::Array(left), Datum::Array(right)] => (left, right),
        _ => return Err(Error::bug("array_cat")),
    };
    if left.items.is_empty() || right.items.is_empty() {
        return Ok(arguments[usize::from(left.items.is_empty())].clone());
    }
    let dimensions = concatenated(&left.dimensions, &right.dimensions)?;
    check_bounds(&dimensions)?;
    check_size(element_count(&dimensions)?, ctx)?;
    let items = left.items.iter().chain(&right.items).cloned().collect();
    Ok(array_datum(result_element(call), dimensions, items))
}

fn concatenated(left: &[ArrayDimension], right: &[ArrayDimension]) -> Result<Box<[ArrayDimension]>> {
    let (outer, inner, added) = if left.len() == right.len() {
        let detail = "Arrays with differing element dimensions are not compatible for concatenation.";
        if left[1..] != right[1..] {
            return Err(incompatible(detail));
        }
        (left[0], &left[1..], right[0].length)
    } else {
        let (deep, flat) = if left.len() > right.len() { (left, right) } else { (right, left) };
        if deep.len() != flat.len() + 1 {
            let (left, right) = (left.len(), right.len());
            let detail = format!("Arrays of {left} and {right} dimensions are not compatible for concatenation.");
            return Err(incompatible(detail));
        }
        if deep[1..] != *flat {
            return Err(incompatible("Arrays with differing dimensions are not compatible for concatenation."));
        }
        (deep[0], flat, 1)
    };
    let outer = ArrayDimension { length: outer.length.saturating_add(added), ..outer };
    Ok(std::iter::once(outer).chain(inner.iter().copied()).collect())
}

/// `array_remove`
pub(super) fn array_remove<'a>(arguments: Arguments<'_, 'a>, call: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [of, item] = arguments else { return Err(Error::bug("array_remove")) };
    let Datum::Array(array) = of else { return Ok(Datum::Null) };
    if array.dimensions.len() > 1 {
        return Err(Error::unsupported("removing elements from multidimensional arrays is not supported"));
    }
    let mut kept = Vec::with_capacity(array.items.len());
    for other in &array.items {
        if !equal_or_both_null(array, other, item)? {
            kept.push(other.clone());
        }
    }
    if kept.len() == array.items.len() {
        return Ok(of.clone());
    }
    let element = result_element(call);
    let Some(dimension) = array.dimensions.first().filter(|_| !kept.is_empty()) else {
        return Ok(Datum::Array(Arc::new(Array::of(element, Vec::new()))));
    };
    let dimensions = Box::new([ArrayDimension { length: kept.len() as i32, ..*dimension }]);
    Ok(array_datum(element, dimensions, kept))
}

fn equal_or_both_null(array: &Array<'_>, left: &Datum<'_>, right: &Datum<'_>) -> Result<bool> {
    match (left.is_null(), right.is_null()) {
        (false, false) => items_equal(TypeId(array.element), left, right),
        (left, right) => Ok(left && right),
    }
}

/// `array_replace`
pub(super) fn array_replace<'a>(arguments: Arguments<'_, 'a>, call: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [of, from, to] = arguments else { return Err(Error::bug("array_replace")) };
    let Datum::Array(array) = of else { return Ok(Datum::Null) };
    let replaced = array.items.iter().map(|item| {
        let replaced = if equal_or_both_null(array, item, from)? { to } else { item };
        Ok(replaced.clone())
    });
    Ok(array_datum(result_element(call), array.dimensions.clone(), replaced.collect::<Result<_>>()?))
}

/// `trim_array`: without its last elements.
pub(super) fn trim_array<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [of, Datum::Int4(count)] = arguments else { return Err(Error::bug("trim_array")) };
    let array = array(of)?;
    let length = array.dimensions.first().map_or(0, |dimension| dimension.length);
    if !(0..=length).contains(count) {
        let text = format!("number of elements to trim must be between 0 and {length}");
        return Err(Error::new(ARRAY_SUBSCRIPT, text));
    }
    let Some(first) = array.dimensions.first() else { return Ok(of.clone()) };
    let last = i64::from(first.lower) + i64::from(length) - 1 - i64::from(*count);
    Ok(Datum::Array(Arc::new(crate::eval::slice(array, &[(i64::from(first.lower), last)]))))
}

/// `array_fill`: an array of one value, with dimensions and lower bounds.
pub(super) fn array_fill<'a>(arguments: Arguments<'_, 'a>, call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [value, lengths, lowers @ ..] = arguments else { return Err(Error::bug("array_fill")) };
    if lengths.is_null() || lowers.iter().any(Datum::is_null) {
        let text = "dimension array or low bound array cannot be null";
        return Err(Error::new(NULL_NOT_ALLOWED, text));
    }
    let lengths = numbers(lengths, "Dimension array must be one dimensional.")?;
    if lengths.len() > DIMENSIONS_MAX {
        return Err(too_many_dimensions(lengths.len()));
    }
    let lowers = match lowers.first() {
        Some(lowers) => numbers(lowers, "Dimension array must be one dimensional.")?,
        None => vec![1; lengths.len()],
    };
    if lowers.len() != lengths.len() {
        let detail = "Low bound array has different size than dimensions array.";
        return Err(Error::new(ARRAY_SUBSCRIPT, "wrong number of array subscripts").with_detail(detail));
    }
    let dimensions = lengths.into_iter().zip(lowers).map(|(length, lower)| ArrayDimension { length, lower });
    let dimensions: Box<[ArrayDimension]> = dimensions.collect();
    let count = element_count(&dimensions)?;
    check_size(count, ctx)?;
    if count == 0 {
        return Ok(Datum::Array(Arc::new(Array::of(result_element(call), Vec::new()))));
    }
    check_bounds(&dimensions)?;
    Ok(array_datum(result_element(call), dimensions, vec![value.clone(); count]))
}

/// The numbers of an array of one dimension.
fn numbers(of: &Datum<'_>, detail: &str) -> Result<Vec<i32>> {
    let array = array(of)?;
    if array.dimensions.len() > 1 {
        return Err(Error::new(ARRAY_SUBSCRIPT, "wrong number of array subscripts").with_detail(detail));
    }
    let number = |item: &Datum<'_>| match item {
        Datum::Int4(number) => Ok(*number),
        _ => Err(Error::new(NULL_NOT_ALLOWED, "dimension values cannot be null")),
    };
    array.items.iter().map(number).collect()
}
