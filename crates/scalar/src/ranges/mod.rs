//! Ranges and multiranges.
//!
//! Most functions take a range or a multirange. Both are a list of spans in order that neither touch nor overlap, where
//! a range has at most one, so that each function is written once.
//!
//! The bounds of the built-in ranges have the order of [`Datum::compare`], and their type follows from the value:
//! neither needs the catalog.

mod aggregates;
mod combine;
mod construct;
mod predicates;
mod span;
mod text;

use std::cmp::Ordering;

use catalog::TypeId;
use model::{Datum, Error, Result};

use crate::registry::{Aggregate, Family, Function, SetFunction, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: SETS, aggregates: AGGREGATES };

/// A range type, its multirange type and the type of its bounds.
struct RangeType {
    range: TypeId,
    multirange: TypeId,
    element: TypeId,
}

const fn range_type(range: u32, multirange: u32, element: TypeId) -> RangeType {
    RangeType { range: TypeId(range), multirange: TypeId(multirange), element }
}

const RANGE_TYPES: [RangeType; 6] = [
    range_type(3904, 4451, TypeId::INT4),
    range_type(3926, 4536, TypeId::INT8),
    range_type(3906, 4532, TypeId::NUMERIC),
    range_type(3912, 4535, TypeId::DATE),
    range_type(3908, 4533, TypeId::TIMESTAMP),
    range_type(3910, 4534, TypeId::TIMESTAMPTZ),
];

/// The type of the bounds of a range or multirange type.
pub(crate) fn element_of(ty: TypeId) -> Result<TypeId> {
    let found = RANGE_TYPES.iter().find(|one| one.range == ty || one.multirange == ty);
    found.map(|one| one.element).ok_or_else(|| {
        let name = catalog::builtin().type_name(ty);
        Error::unsupported(format!("cannot accept a value of type {name}"))
    })
}

/// The range type of a multirange type.
pub(crate) fn range_of(multirange: TypeId) -> Result<TypeId> {
    let found = RANGE_TYPES.iter().find(|one| one.multirange == multirange);
    found.map(|one| one.range).ok_or_else(|| Error::bug("a multirange type that is none"))
}

/// The empty range.
pub(crate) fn empty<'a>() -> Datum<'a> {
    span::range_datum(None)
}

/// The range between two bounds, in canonical form; a bound is a value, NULL if it is infinite, and whether it is
/// inclusive.
///
/// # Errors
/// 22000 if the lower bound is behind the upper one.
pub(crate) fn range_between<'a>(low: (Datum<'a>, bool), high: (Datum<'a>, bool)) -> Result<Datum<'a>> {
    span::Span::new(low, high).map(span::range_datum)
}

/// The multirange of some ranges.
pub(crate) fn multirange_of<'a>(ranges: &[Datum<'a>]) -> Result<Datum<'a>> {
    let mut all = Vec::new();
    for range in ranges {
        all.extend(span::spans(range)?);
    }
    span::joined(all).map(span::multirange_datum)
}

const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::ANYRANGE, TypeSupport { input: text::range_input, output: text::range_output, compare: Some(compare) }),
    (
        TypeId::ANYMULTIRANGE,
        TypeSupport { input: text::multirange_input, output: text::multirange_output, compare: Some(compare) },
    ),
];

/// The order of two ranges or of two multiranges.
fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    left.compare(right).ok_or_else(|| Error::bug("a comparison of ranges of two types"))
}

const FUNCTIONS: &[(&str, Function)] = &[
    ("int4range(int4,int4)", construct::range),
    ("int4range(int4,int4,text)", construct::range),
    ("int8range(int8,int8)", construct::range),
    ("int8range(int8,int8,text)", construct::range),
    ("numrange(numeric,numeric)", construct::range),
    ("numrange(numeric,numeric,text)", construct::range),
    ("daterange(date,date)", construct::range),
    ("daterange(date,date,text)", construct::range),
    ("tsrange(timestamp,timestamp)", construct::range),
    ("tsrange(timestamp,timestamp,text)", construct::range),
    ("tstzrange(timestamptz,timestamptz)", construct::range),
    ("tstzrange(timestamptz,timestamptz,text)", construct::range),
    ("int4multirange()", construct::multirange),
    ("int4multirange(int4range)", construct::multirange),
    ("int4multirange(int4range[])", construct::multirange),
    ("int8multirange()", construct::multirange),
    ("int8multirange(int8range)", construct::multirange),
    ("int8multirange(int8range[])", construct::multirange),
    ("nummultirange()", construct::multirange),
    ("nummultirange(numrange)", construct::multirange),
    ("nummultirange(numrange[])", construct::multirange),
    ("datemultirange()", construct::multirange),
    ("datemultirange(daterange)", construct::multirange),
    ("datemultirange(daterange[])", construct::multirange),
    ("tsmultirange()", construct::multirange),
    ("tsmultirange(tsrange)", construct::multirange),
    ("tsmultirange(tsrange[])", construct::multirange),
    ("tstzmultirange()", construct::multirange),
    ("tstzmultirange(tstzrange)", construct::multirange),
    ("tstzmultirange(tstzrange[])", construct::multirange),
    ("multirange", construct::multirange),
    ("int4range_canonical", construct::canonical),
    ("int8range_canonical", construct::canonical),
    ("daterange_canonical", construct::canonical),
    ("lower(anyrange)", predicates::lower),
    ("lower(anymultirange)", predicates::lower),
    ("upper(anyrange)", predicates::upper),
    ("upper(anymultirange)", predicates::upper),
    ("isempty(anyrange)", predicates::is_empty),
    ("isempty(anymultirange)", predicates::is_empty),
    ("lower_inc(anyrange)", predicates::lower_inc),
    ("lower_inc(anymultirange)", predicates::lower_inc),
    ("upper_inc(anyrange)", predicates::upper_inc),
    ("upper_inc(anymultirange)", predicates::upper_inc),
    ("lower_inf(anyrange)", predicates::lower_inf),
    ("lower_inf(anymultirange)", predicates::lower_inf),
    ("upper_inf(anyrange)", predicates::upper_inf),
    ("upper_inf(anymultirange)", predicates::upper_inf),
    ("range_eq", predicates::equal),
    ("range_ne", predicates::not_equal),
    ("range_lt", predicates::less),
    ("range_le", predicates::less_equal),
    ("range_gt", predicates::greater),
    ("range_ge", predicates::greater_equal),
    ("range_cmp", predicates::order),
    ("multirange_eq", predicates::equal),
    ("multirange_ne", predicates::not_equal),
    ("multirange_lt", predicates::less),
    ("multirange_le", predicates::less_equal),
    ("multirange_gt", predicates::greater),
    ("multirange_ge", predicates::greater_equal),
    ("multirange_cmp", predicates::order),
    ("range_contains_elem", predicates::contains_element),
    ("multirange_contains_elem", predicates::contains_element),
    ("elem_contained_by_range", predicates::element_contained),
    ("elem_contained_by_multirange", predicates::element_contained),
    ("range_contains", predicates::contains),
    ("range_contains_multirange", predicates::contains),
    ("multirange_contains_range", predicates::contains),
    ("multirange_contains_multirange", predicates::contains),
    ("range_contained_by", predicates::contained),
    ("range_contained_by_multirange", predicates::contained),
    ("multirange_contained_by_range", predicates::contained),
    ("multirange_contained_by_multirange", predicates::contained),
    ("range_overlaps", predicates::overlaps),
    ("range_overlaps_multirange", predicates::overlaps),
    ("multirange_overlaps_range", predicates::overlaps),
    ("multirange_overlaps_multirange", predicates::overlaps),
    ("range_before", predicates::before),
    ("range_before_multirange", predicates::before),
    ("multirange_before_range", predicates::before),
    ("multirange_before_multirange", predicates::before),
    ("range_after", predicates::after),
    ("range_after_multirange", predicates::after),
    ("multirange_after_range", predicates::after),
    ("multirange_after_multirange", predicates::after),
    ("range_overleft", predicates::overleft),
    ("range_overleft_multirange", predicates::overleft),
    ("multirange_overleft_range", predicates::overleft),
    ("multirange_overleft_multirange", predicates::overleft),
    ("range_overright", predicates::overright),
    ("range_overright_multirange", predicates::overright),
    ("multirange_overright_range", predicates::overright),
    ("multirange_overright_multirange", predicates::overright),
    ("range_adjacent", predicates::adjacent),
    ("range_adjacent_multirange", predicates::adjacent),
    ("multirange_adjacent_range", predicates::adjacent),
    ("multirange_adjacent_multirange", predicates::adjacent),
    ("range_union", combine::range_union),
    ("range_intersect", combine::range_intersect),
    ("range_minus", combine::range_minus),
    ("range_merge(anyrange,anyrange)", combine::range_merge),
    ("range_merge(anymultirange)", combine::range_merge),
    ("multirange_union", combine::multirange_union),
    ("multirange_intersect", combine::multirange_intersect),
    ("multirange_minus", combine::multirange_minus),
];

const SETS: &[(&str, SetFunction)] = &[("unnest(anymultirange)", construct::unnest)];

const AGGREGATES: &[(&str, Aggregate)] = &[
    ("range_agg(anyrange)", aggregates::range_agg),
    ("range_agg(anymultirange)", aggregates::range_agg),
    ("range_intersect_agg(anyrange)", aggregates::range_intersect_agg),
    ("range_intersect_agg(anymultirange)", aggregates::range_intersect_agg),
];
