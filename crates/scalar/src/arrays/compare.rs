//! Comparisons of arrays, and whether one contains another.

use std::cmp::Ordering;

use catalog::{TypeId, builtin};
use model::{Array, Datum, Error, Result, SqlState};

use super::{Arguments, array};
use crate::context::Context;
use crate::expr::Call;
use crate::registry;

/// The order of two arrays: elements, number of elements, number of dimensions, lengths, lower bounds. NULL is equal to
/// NULL and after everything else.
pub(super) fn order(left: &Array<'_>, right: &Array<'_>) -> Result<Ordering> {
    check_same_element(left, right)?;
    let element = TypeId(left.element);
    for (left, right) in left.items.iter().zip(&right.items) {
        let order = item_order(element, left, right)?;
        if order.is_ne() {
            return Ok(order);
        }
    }
    let count = left.items.len().cmp(&right.items.len());
    let dimensions = left.dimensions.len().cmp(&right.dimensions.len());
    let pairs = left.dimensions.iter().zip(&right.dimensions);
    let lengths = pairs.clone().map(|(left, right)| left.length.cmp(&right.length));
    let lowers = pairs.map(|(left, right)| left.lower.cmp(&right.lower));
    Ok(lengths.chain(lowers).fold(count.then(dimensions), Ordering::then))
}

fn check_same_element(left: &Array<'_>, right: &Array<'_>) -> Result<()> {
    if left.element == right.element {
        return Ok(());
    }
    Err(Error::new(SqlState::DATATYPE_MISMATCH, "cannot compare arrays of different element types"))
}

fn item_order(element: TypeId, left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    match (left.is_null(), right.is_null()) {
        (false, false) => value_order(element, left, right),
        (left, right) => Ok(left.cmp(&right)),
    }
}

/// The order of two values of a type that are not NULL. Numbers and times have one order whatever their type, so that
/// elements of arrays and columns of rows are compared without a look-up for each.
pub(crate) fn value_order(ty: TypeId, left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    let plain = match left {
        Datum::Bool(_)
        | Datum::Int2(_)
        | Datum::Int4(_)
        | Datum::Int8(_)
        | Datum::Float4(_)
        | Datum::Float8(_)
        | Datum::Numeric(_)
        | Datum::Uuid(_)
        | Datum::Date(_)
        | Datum::Time(_)
        | Datum::Timestamp(_)
        | Datum::Timestamptz(_) => left.compare(right),
        _ => None,
    };
    plain.map_or_else(|| registry::compare(ty, left, right).map_err(|error| without_order(ty, error)), Ok)
}

/// Whether two elements are equal, where NULL is equal to NULL.
pub(super) fn items_equal(element: TypeId, left: &Datum<'_>, right: &Datum<'_>) -> Result<bool> {
    item_order(element, left, right).map(Ordering::is_eq).map_err(|error| no_equality(element, error))
}

fn without_order(ty: TypeId, error: Error) -> Error {
    if error.state() != SqlState::UNDEFINED_FUNCTION {
        return error;
    }
    let name = builtin().type_name(ty);
    Error::new(SqlState::UNDEFINED_FUNCTION, format!("could not identify a comparison function for type {name}"))
}

/// A type without order has no equality either as far as arrays go; the message names what is needed.
fn no_equality(element: TypeId, error: Error) -> Error {
    if error.state() != SqlState::UNDEFINED_FUNCTION {
        return error;
    }
    let name = builtin().type_name(element);
    Error::new(SqlState::UNDEFINED_FUNCTION, format!("could not identify an equality operator for type {name}"))
}

fn equal(left: &Array<'_>, right: &Array<'_>) -> Result<bool> {
    check_same_element(left, right)?;
    if left.dimensions != right.dimensions {
        return Ok(false);
    }
    for (one, other) in left.items.iter().zip(&right.items) {
        if !items_equal(TypeId(left.element), one, other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn pair<'r, 'a>(arguments: &'r [Datum<'a>]) -> Result<[&'r Array<'a>; 2]> {
    match arguments {
        [left, right] => Ok([array(left)?, array(right)?]),
        _ => Err(Error::bug("a comparison of two arrays")),
    }
}

pub(super) fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    order(array(left)?, array(right)?)
}

/// The order of two vectors: the shorter one first, then by elements.
pub(super) fn vector_compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    let [left, right] = [array(left)?, array(right)?];
    let length = left.items.len().cmp(&right.items.len());
    if length.is_ne() { Ok(length) } else { order(left, right) }
}

macro_rules! comparisons {
    ($($name:ident, $pair:ident => $value:expr;)*) => {$(
        pub(super) fn $name<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let $pair = pair(arguments)?;
            Ok(Datum::Bool($value))
        }
    )*};
}

comparisons! {
    array_eq, both => equal(both[0], both[1])?;
    array_ne, both => !equal(both[0], both[1])?;
    array_lt, both => order(both[0], both[1])?.is_lt();
    array_le, both => order(both[0], both[1])?.is_le();
    array_gt, both => order(both[0], both[1])?.is_gt();
    array_ge, both => order(both[0], both[1])?.is_ge();
    array_contains, both => contains(both[0], both[1])?;
    array_contained, both => contains(both[1], both[0])?;
    array_overlap, both => overlaps(both[0], both[1])?;
}

macro_rules! vector_comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        pub(super) fn $name<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let [left, right] = arguments else { return Err(Error::bug("a comparison of two vectors")) };
            Ok(Datum::Bool(vector_compare(left, right)?.$test()))
        }
    )*};
}

vector_comparisons! {
    vector_eq => is_eq;
    vector_ne => is_ne;
    vector_lt => is_lt;
    vector_le => is_le;
    vector_gt => is_gt;
    vector_ge => is_ge;
}

/// `btarraycmp`
pub(super) fn array_cmp<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = pair(arguments)?;
    Ok(Datum::Int4(order(left, right)? as i32))
}

/// `btoidvectorcmp`: by length the difference, as PostgreSQL's.
pub(super) fn vector_cmp<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = pair(arguments)?;
    let difference = left.items.len() as i64 - right.items.len() as i64;
    let order = if difference == 0 { order(left, right)? as i64 } else { difference };
    Ok(Datum::Int4(order as i32))
}

pub(super) fn array_larger<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = pair(arguments)?;
    Ok(arguments[usize::from(order(left, right)?.is_le())].clone())
}

pub(super) fn array_smaller<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = pair(arguments)?;
    Ok(arguments[usize::from(order(left, right)?.is_ge())].clone())
}

fn contains(left: &Array<'_>, right: &Array<'_>) -> Result<bool> {
    check_same_element(left, right)?;
    for item in &right.items {
        if !has_item(left, item)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn overlaps(left: &Array<'_>, right: &Array<'_>) -> Result<bool> {
    check_same_element(left, right)?;
    for item in &right.items {
        if has_item(left, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an array has an element that is not NULL and equal to `item`.
fn has_item(array: &Array<'_>, item: &Datum<'_>) -> Result<bool> {
    for other in &array.items {
        if !item.is_null() && !other.is_null() && items_equal(TypeId(array.element), other, item)? {
            return Ok(true);
        }
    }
    Ok(false)
}
