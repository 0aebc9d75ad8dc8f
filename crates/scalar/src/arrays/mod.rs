//! Arrays: text forms, comparisons, functions, aggregates that make arrays, and numbers packed in bytes.

mod assign;
mod build;
mod compare;
mod inspect;
mod packed;
mod sets;
mod text;

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, ArrayDimension, Datum, Error, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Aggregate, Family, Function, SetFunction, TypeSupport};

pub use assign::{Part, assign_part};
pub(crate) use compare::value_order;

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: SETS, aggregates: AGGREGATES };

const VECTOR: TypeSupport =
    TypeSupport { input: text::vector_input, output: text::vector_output, compare: Some(compare::vector_compare) };

const TYPES: &[(TypeId, TypeSupport)] = &[
    (
        TypeId::ANYARRAY,
        TypeSupport { input: text::array_input, output: text::array_output, compare: Some(compare::compare) },
    ),
    (TypeId::INT2VECTOR, VECTOR),
    (TypeId::OIDVECTOR, VECTOR),
];

const FUNCTIONS: &[(&str, Function)] = &[
    ("array_eq", compare::array_eq),
    ("array_ne", compare::array_ne),
    ("array_lt", compare::array_lt),
    ("array_le", compare::array_le),
    ("array_gt", compare::array_gt),
    ("array_ge", compare::array_ge),
    ("btarraycmp", compare::array_cmp),
    ("array_larger", compare::array_larger),
    ("array_smaller", compare::array_smaller),
    ("arraycontains", compare::array_contains),
    ("arraycontained", compare::array_contained),
    ("arrayoverlap", compare::array_overlap),
    ("oidvectoreq", compare::vector_eq),
    ("oidvectorne", compare::vector_ne),
    ("oidvectorlt", compare::vector_lt),
    ("oidvectorle", compare::vector_le),
    ("oidvectorgt", compare::vector_gt),
    ("oidvectorge", compare::vector_ge),
    ("btoidvectorcmp", compare::vector_cmp),
    ("array_append", build::array_append),
    ("array_prepend", build::array_prepend),
    ("array_cat", build::array_cat),
    ("array_remove", build::array_remove),
    ("array_replace", build::array_replace),
    ("trim_array", build::trim_array),
    ("array_fill(anyelement,int4[])", build::array_fill),
    ("array_fill(anyelement,int4[],int4[])", build::array_fill),
    ("array_ndims", inspect::array_ndims),
    ("array_dims", inspect::array_dims),
    ("array_lower", inspect::array_lower),
    ("array_upper", inspect::array_upper),
    ("array_length", inspect::array_length),
    ("cardinality", inspect::cardinality),
    ("array_position(anycompatiblearray,anycompatible)", inspect::array_position),
    ("array_position(anycompatiblearray,anycompatible,int4)", inspect::array_position),
    ("array_positions", inspect::array_positions),
    ("array_to_string(anyarray,text)", inspect::array_to_string),
    ("array_to_string(anyarray,text,text)", inspect::array_to_string),
    ("unpack_numbers", packed::unpack),
    ("pack_numbers", packed::pack),
    ("repack_numbers", packed::repack),
];

const SETS: &[(&str, SetFunction)] = &[
    ("unnest(anyarray)", sets::unnest),
    ("generate_subscripts(anyarray,int4)", sets::generate_subscripts),
    ("generate_subscripts(anyarray,int4,bool)", sets::generate_subscripts),
    ("_pg_expandarray", sets::expand),
];

const AGGREGATES: &[(&str, Aggregate)] =
    &[("array_agg(anynonarray)", sets::array_agg), ("array_agg(anyarray)", sets::array_agg_arrays)];

/// Maximum number of dimensions, as in PostgreSQL.
pub(crate) const DIMENSIONS_MAX: usize = 6;
/// Maximum number of elements, as in PostgreSQL.
const ELEMENTS_MAX: usize = 134_217_727;

/// `array_subscript_error`
pub(crate) const ARRAY_SUBSCRIPT: SqlState = SqlState("2202E");
/// `null_value_not_allowed`
pub(crate) const NULL_NOT_ALLOWED: SqlState = SqlState("22004");

/// Arguments of a function.
type Arguments<'r, 'a> = &'r [Datum<'a>];

/// The array that an argument is.
fn array<'r, 'a>(argument: &'r Datum<'a>) -> Result<&'r Array<'a>> {
    match argument {
        Datum::Array(array) => Ok(array),
        _ => Err(Error::bug("an argument that is no array")),
    }
}

/// The type of the elements of the array that a call returns.
fn result_element(call: &Call) -> u32 {
    builtin().element_of(builtin().base_type(call.result)).unwrap_or_default().0
}

fn array_datum<'a>(element: u32, dimensions: Box<[ArrayDimension]>, items: Vec<Datum<'a>>) -> Datum<'a> {
    Datum::Array(Arc::new(Array { element, dimensions, items: items.into() }))
}

fn too_many_dimensions(count: usize) -> Error {
    let text = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
}

/// The number of elements of an array with these dimensions.
///
/// # Errors
/// 54000 if there were more than an array can have.
fn element_count(dimensions: &[ArrayDimension]) -> Result<usize> {
    if dimensions.is_empty() {
        return Ok(0);
    }
    let mut lengths = dimensions.iter().map(|dimension| usize::try_from(dimension.length).ok());
    let count = lengths.try_fold(1_usize, |count, length| count.checked_mul(length?));
    count.filter(|count| *count <= ELEMENTS_MAX).ok_or_else(|| {
        let text = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
    })
}

/// Checks that the subscript behind the last one is a number too.
fn check_bounds(dimensions: &[ArrayDimension]) -> Result<()> {
    match dimensions.iter().find(|dimension| dimension.lower.checked_add(dimension.length).is_none()) {
        None => Ok(()),
        Some(dimension) => {
            let text = format!("array lower bound is too large: {}", dimension.lower);
            Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
        }
    }
}

/// Checks the memory of an array before it is made.
fn check_size(count: usize, ctx: &Context<'_>) -> Result<()> {
    ctx.check_size(count.saturating_mul(size_of::<Datum<'_>>()))
}

/// The array whose elements are the elements of `arrays`, with another outer dimension.
///
/// # Errors
/// 2202E if their dimensions differ, 54000 above six dimensions.
pub(crate) fn nested_array<'a>(element: u32, arrays: &[Datum<'a>]) -> Result<Datum<'a>> {
    let mismatch = || {
        let text = "multidimensional arrays must have array expressions with matching dimensions";
        Error::new(ARRAY_SUBSCRIPT, text)
    };
    let mut inner: Option<&[ArrayDimension]> = None;
    let mut items = Vec::new();
    let mut count = 0;
    for array in arrays {
        // A NULL or empty array counts as nothing, unless others have elements.
        let Datum::Array(array) = array else { continue };
        if array.items.is_empty() {
            continue;
        }
        if array.dimensions.len() >= DIMENSIONS_MAX {
            return Err(too_many_dimensions(array.dimensions.len() + 1));
        }
        if **inner.get_or_insert(&array.dimensions) != *array.dimensions {
            return Err(mismatch());
        }
        count += 1;
        items.extend(array.items.iter().cloned());
    }
    let Some(inner) = inner else { return Ok(Datum::Array(Arc::new(Array::of(element, Vec::new())))) };
    if count != arrays.len() {
        return Err(mismatch());
    }
    let outer = ArrayDimension { length: count as i32, lower: 1 };
    let dimensions: Box<[ArrayDimension]> = std::iter::once(outer).chain(inner.iter().copied()).collect();
    element_count(&dimensions)?;
    Ok(array_datum(element, dimensions, items))
}

#[cfg(test)]
mod tests;
