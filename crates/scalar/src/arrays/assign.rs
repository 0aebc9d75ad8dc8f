//! Assignments to elements and slices of arrays.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, ArrayDimension, Datum, Error, Result, SqlState};

use super::{ARRAY_SUBSCRIPT, DIMENSIONS_MAX, NULL_NOT_ALLOWED, check_size, element_count, too_many_dimensions};
use crate::composite;
use crate::context::Context;

/// A subscript of an assignment, with its values.
#[derive(Clone, Debug, PartialEq)]
pub enum Part<'a> {
    /// `[i]`
    Index(Datum<'a>),
    /// `[low:high]`, whose bounds may be missing.
    Slice(Option<Datum<'a>>, Option<Datum<'a>>),
    /// The place of an attribute of a composite type, in front of subscripts of the attribute.
    Field(usize),
}

fn subscript_error(text: &str) -> Error {
    Error::new(ARRAY_SUBSCRIPT, text)
}

fn number(of: &Datum<'_>) -> Result<i64> {
    match of {
        Datum::Int4(number) => Ok((*number).into()),
        Datum::Int2(number) => Ok((*number).into()),
        _ => Err(Error::new(NULL_NOT_ALLOWED, "array subscript in assignment must not be null")),
    }
}

/// The value of a column after `target[…] = value`.
///
/// - `ty`: type of the column: an array, `jsonb`, or a composite type.
///
/// # Errors
/// 2202E for subscripts that the array cannot have; 22004 for a NULL subscript; 54000 for an array that becomes too long;
/// those of jsonb paths.
pub fn assign_part<'a>(
    target: Datum<'a>,
    ty: TypeId,
    parts: &[Part<'a>],
    value: Datum<'a>,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    if let Some((Part::Field(at), rest)) = parts.split_first() {
        return field_assigned(target, ty, (*at, rest), value, ctx);
    }
    if ty == TypeId::JSONB {
        let keys: Vec<Datum<'_>> = parts
            .iter()
            .map(|part| match part {
                Part::Index(key) => key.clone(),
                Part::Slice(..) | Part::Field(_) => Datum::Null,
            })
            .collect();
        return crate::json::assign(&target, &keys, &value, ctx);
    }
    let element = builtin().element_of(builtin().base_type(ty)).unwrap_or_default();
    let array = match target {
        Datum::Array(array) => array,
        _ => Arc::new(Array::of(element.0, Vec::new())),
    };
    if parts.len() > DIMENSIONS_MAX {
        return Err(too_many_dimensions(parts.len()));
    }
    let assigned = match parts.iter().any(|part| matches!(part, Part::Slice(..))) {
        true => slice_assigned(&array, parts, &value, ctx)?,
        false => element_assigned(&array, parts, value, ctx)?,
    };
    Ok(Datum::Array(Arc::new(assigned)))
}

/// The row with another value of a field, or of a part of the field. NULL becomes a row of NULLs.
fn field_assigned<'a>(
    target: Datum<'a>,
    ty: TypeId,
    (at, rest): (usize, &[Part<'a>]),
    value: Datum<'a>,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let attributes = composite::attributes(ty, ctx)?;
    let mut values = match &target {
        Datum::Record(record) => record.values.to_vec(),
        _ => vec![Datum::Null; attributes.len()],
    };
    let (Some(attribute), Some(slot)) = (attributes.get(at), values.get_mut(at)) else {
        return Err(Error::bug("a field that the type lacks"));
    };
    *slot = match rest {
        [] => value,
        rest => assign_part(std::mem::take(slot), TypeId(attribute.ty.oid()), rest, value, ctx)?,
    };
    Ok(composite::value(&attributes, values))
}

fn element_assigned<'a>(
    array: &Array<'a>,
    parts: &[Part<'a>],
    value: Datum<'a>,
    ctx: &Context<'a>,
) -> Result<Array<'a>> {
    let mut at = Vec::with_capacity(parts.len());
    for part in parts {
        if let Part::Index(index) = part {
            at.push(number(index)?);
        }
    }
    if array.dimensions.is_empty() {
        let dimensions: Box<[_]> = at.iter().map(|lower| ArrayDimension { length: 1, lower: *lower as i32 }).collect();
        check_bounds(&dimensions)?;
        return Ok(Array { element: array.element, dimensions, items: Box::new([value]) });
    }
    if array.dimensions.len() != at.len() {
        return Err(subscript_error("wrong number of array subscripts"));
    }
    let mut grown = extended(array, &[(at[0], at[0])], ctx)?;
    let mut place = 0;
    for (dimension, at) in grown.dimensions.iter().zip(&at) {
        let offset = at - i64::from(dimension.lower);
        if !(0..i64::from(dimension.length)).contains(&offset) {
            return Err(subscript_error("array subscript out of range"));
        }
        place = place * dimension.length as usize + offset as usize;
    }
    grown.items[place] = value;
    Ok(grown)
}

/// The array, extended by NULLs up to a place if it has one dimension.
fn extended<'a>(array: &Array<'a>, to: &[(i64, i64)], ctx: &Context<'a>) -> Result<Array<'a>> {
    let ([dimension], [(low, high)]) = (&*array.dimensions, to) else { return Ok(array.clone()) };
    let (lower, length) = (i64::from(dimension.lower), i64::from(dimension.length));
    let before = (lower - low).max(0);
    let behind = (high - (lower + length - 1)).max(0);
    if before + behind == 0 {
        return Ok(array.clone());
    }
    let length = before + length + behind;
    let side = ArrayDimension { length: i32::try_from(length).unwrap_or(i32::MAX), lower: lower.min(*low) as i32 };
    let count = element_count(&[side])?;
    check_bounds(&[side])?;
    check_size(count, ctx)?;
    let nulls = |count: i64| std::iter::repeat_n(Datum::Null, count as usize);
    let items = nulls(before).chain(array.items.iter().cloned()).chain(nulls(behind)).collect();
    Ok(Array { element: array.element, dimensions: Box::new([side]), items })
}

/// The subscript behind the last one must be a number too.
fn check_bounds(dimensions: &[ArrayDimension]) -> Result<()> {
    match dimensions.iter().find(|side| side.lower.checked_add(side.length).is_none()) {
        Some(side) => {
            let text = format!("array lower bound is too large: {}", side.lower);
            Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
        }
        None => Ok(()),
    }
}

fn slice_assigned<'a>(
    array: &Array<'a>,
    parts: &[Part<'a>],
    value: &Datum<'a>,
    ctx: &Context<'a>,
) -> Result<Array<'a>> {
    let bound = |of: &Option<Datum<'a>>| of.as_ref().map(number).transpose();
    let mut bounds = Vec::with_capacity(parts.len());
    for part in parts {
        bounds.push(match part {
            // An index in a slice is its upper bound.
            Part::Index(index) => (Some(1), Some(number(index)?)),
            Part::Slice(low, high) => (bound(low)?, bound(high)?),
            Part::Field(_) => return Err(Error::bug("a field of an array")),
        });
    }
    let Datum::Array(source) = value else { return Ok(array.clone()) };
    let too_small = || subscript_error("source array too small");
    if array.dimensions.is_empty() {
        let mut dimensions = Vec::with_capacity(bounds.len());
        for (low, high) in &bounds {
            let (Some(low), Some(high)) = (low, high) else {
                let detail =
                    "When assigning to a slice of an empty array value, slice boundaries must be fully specified.";
                return Err(subscript_error("array slice subscript must provide both boundaries").with_detail(detail));
            };
            let length = high - low + 1;
            if length < 0 {
                return Err(subscript_error("upper bound cannot be less than lower bound"));
            }
            dimensions.push(ArrayDimension { length: i32::try_from(length).unwrap_or(i32::MAX), lower: *low as i32 });
        }
        let count = element_count(&dimensions)?;
        if source.items.len() < count {
            return Err(too_small());
        }
        check_bounds(&dimensions)?;
        if count == 0 {
            return Ok(array.clone());
        }
        let items = source.items[..count].into();
        return Ok(Array { element: array.element, dimensions: dimensions.into(), items });
    }
    if bounds.len() > array.dimensions.len() {
        return Err(subscript_error("wrong number of array subscripts"));
    }
    let mut full = Vec::with_capacity(array.dimensions.len());
    for (at, side) in array.dimensions.iter().enumerate() {
        let (low, high) = bounds.get(at).copied().unwrap_or((None, None));
        let last = i64::from(side.lower) + i64::from(side.length) - 1;
        let (low, high) = (low.unwrap_or(side.lower.into()), high.unwrap_or(last));
        if low > high {
            return Err(subscript_error("upper bound cannot be less than lower bound"));
        }
        if array.dimensions.len() > 1 && (low < side.lower.into() || high > last) {
            return Err(subscript_error("array subscript out of range"));
        }
        full.push((low, high));
    }
    // Bounds are 32 bits, so the product of two lengths fits, and more dimensions are within the array.
    let count = full.iter().try_fold(1_i64, |count, (low, high)| count.checked_mul(high - low + 1));
    if count.is_none_or(|count| (source.items.len() as i64) < count) {
        return Err(too_small());
    }
    let mut grown = extended(array, &full, ctx)?;
    let mut source = source.items.iter();
    for place in 0..grown.items.len() {
        let (mut rest, mut is_inside) = (place, true);
        for (side, (low, high)) in grown.dimensions.iter().zip(&full).rev() {
            let at = i64::from(side.lower) + (rest % side.length as usize) as i64;
            rest /= side.length as usize;
            is_inside &= (*low..=*high).contains(&at);
        }
        if is_inside && let Some(item) = source.next() {
            grown.items[place] = item.clone();
        }
    }
    Ok(grown)
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::{Session, input, output};

    /// The results are those of PostgreSQL's UPDATE of an `int4[]`.
    #[test]
    fn parts_of_arrays_are_assigned_as_in_postgresql() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        let index = |at: i32| Part::Index(Datum::Int4(at));
        let slice = |low: i32, high: i32| Part::Slice(Some(Datum::Int4(low)), Some(Datum::Int4(high)));
        let null = Part::Index(Datum::Null);
        for (target, parts, value, expected) in [
            ("{1,2,3}", vec![index(2)], "9", "{1,9,3}"),
            ("{1,2}", vec![index(5)], "9", "{1,2,NULL,NULL,9}"),
            ("{1}", vec![index(-1)], "9", "[-1:1]={9,NULL,1}"),
            ("{}", vec![index(3)], "9", "[3:3]={9}"),
            ("{}", vec![index(2), index(2)], "9", "[2:2][2:2]={{9}}"),
            ("{{1,2},{3,4}}", vec![index(2), index(1)], "9", "{{1,2},{9,4}}"),
            ("{{1,2},{3,4}}", vec![index(3), index(1)], "9", "2202E"),
            ("{1}", vec![index(1), index(1)], "9", "2202E"),
            ("{1}", vec![null], "9", "22004"),
            ("{1,2,3}", vec![slice(2, 3)], "{8,9}", "{1,8,9}"),
            ("{1,2,3}", vec![slice(5, 6)], "{8,9}", "{1,2,3,NULL,8,9}"),
            ("{1,2,3}", vec![slice(2, 3)], "{8}", "2202E"),
            ("{1,2,3}", vec![slice(3, 2)], "{8}", "2202E"),
            ("{}", vec![slice(2, 3)], "{8,9,10}", "[2:3]={8,9}"),
            ("{{1,2},{3,4}}", vec![slice(1, 2), slice(2, 2)], "{8,9}", "{{1,8},{3,9}}"),
        ] {
            let of = |text: &'static str| input(text, TypeId::INT4_ARRAY, -1, &ctx).unwrap();
            let value = if value.starts_with('{') { of(value) } else { Datum::Int4(value.parse().unwrap()) };
            let shown = match assign_part(of(target), TypeId::INT4_ARRAY, &parts, value, &ctx) {
                Ok(array) => {
                    let mut text = String::new();
                    output(&array, TypeId::INT4_ARRAY, &ctx, &mut text).unwrap();
                    text
                }
                Err(error) => error.state().0.to_owned(),
            };
            assert_eq!(shown, expected, "{target}: {parts:?}");
        }
    }
}
