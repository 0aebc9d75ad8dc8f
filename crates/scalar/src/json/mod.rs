//! `json`, `jsonb` and `jsonpath`.
//!
//! A `json` value is the text as it was written, which the input checks. A `jsonb` value is the text that PostgreSQL
//! prints for it: `{"a": 1, "bb": [1, 2]}`, keys in order and each once, numbers as `numeric` prints them. So `jsonb`
//! needs no output, and parts of both are slices of the text (`scan`). Operations that change or compare `jsonb` make
//! a tree of it (`tree`).
//!
//! Equal `jsonb` values may have different texts, because 1.0 equals 1.00. The order is not that of the texts.
//!
//! `jsonpath` values are the text that PostgreSQL prints for them.

mod access;
mod aggregates;
mod arguments;
mod build;
mod compose;
mod convert;
mod edit;
mod hash;
mod layout;
mod lexer;
mod moment;
mod parse;
mod path;
mod populate;
mod reformat;
mod scalars;
mod scan;
mod text;
mod tree;

pub use access::subscript;
pub(crate) use compose::{key, object, objects};
pub use edit::assign;
pub use path::{PathNeeds, path_needs};

use catalog::TypeId;

use crate::registry::{Aggregate, Family, Function, SetFunction, TypeSupport};

/// `jsonpath`, which the catalog's constants lack.
const JSONPATH: TypeId = TypeId(4072);

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: SETS, aggregates: AGGREGATES };

const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::JSON, TypeSupport { input: scalars::json_input, output: scalars::output, compare: None }),
    (
        TypeId::JSONB,
        TypeSupport { input: scalars::jsonb_input, output: scalars::output, compare: Some(scalars::compare) },
    ),
    (JSONPATH, TypeSupport { input: path::input, output: scalars::output, compare: None }),
];

const FUNCTIONS: &[(&str, Function)] = &[
    ("json_record", populate::record::<false>),
    ("jsonb_record", populate::record::<true>),
    ("json_object_field", access::object_field::<false, false>),
    ("json_object_field_text", access::object_field::<false, true>),
    ("jsonb_object_field", access::object_field::<true, false>),
    ("jsonb_object_field_text", access::object_field::<true, true>),
    ("json_array_element", access::array_element::<false, false>),
    ("json_array_element_text", access::array_element::<false, true>),
    ("jsonb_array_element", access::array_element::<true, false>),
    ("jsonb_array_element_text", access::array_element::<true, true>),
    ("json_extract_path", access::extract_path::<false, false>),
    ("json_extract_path_text", access::extract_path::<false, true>),
    ("jsonb_extract_path", access::extract_path::<true, false>),
    ("jsonb_extract_path_text", access::extract_path::<true, true>),
    ("json_typeof", access::type_of),
    ("jsonb_typeof", access::type_of),
    ("json_array_length", access::array_length),
    ("jsonb_array_length", access::array_length),
    ("jsonb_exists", access::exists),
    ("jsonb_exists_any", access::exists_any),
    ("jsonb_exists_all", access::exists_all),
    ("to_json", build::to_json::<false>),
    ("to_jsonb", build::to_json::<true>),
    ("array_to_json(anyarray)", build::array_to_json),
    ("array_to_json(anyarray,bool)", build::array_to_json),
    ("row_to_json(record)", build::row_to_json),
    ("row_to_json(record,bool)", build::row_to_json),
    ("json_build_array()", build::build_array::<false>),
    ("json_build_array(any)", build::build_array::<false>),
    ("jsonb_build_array()", build::build_array::<true>),
    ("jsonb_build_array(any)", build::build_array::<true>),
    ("json_build_object()", build::build_object::<false>),
    ("json_build_object(any)", build::build_object::<false>),
    ("jsonb_build_object()", build::build_object::<true>),
    ("jsonb_build_object(any)", build::build_object::<true>),
    ("json_object(text[])", build::object_of_pairs::<false>),
    ("jsonb_object(text[])", build::object_of_pairs::<true>),
    ("json_object(text[],text[])", build::object_of_arrays::<false>),
    ("jsonb_object(text[],text[])", build::object_of_arrays::<true>),
    ("jsonb_concat", edit::concat),
    ("jsonb_delete(jsonb,text)", edit::delete_keys),
    ("jsonb_delete(jsonb,text[])", edit::delete_keys),
    ("jsonb_delete(jsonb,int4)", edit::delete_index),
    ("jsonb_delete_path", edit::delete_path),
    ("jsonb_set", edit::set),
    ("jsonb_set_lax", edit::set_lax),
    ("jsonb_insert", edit::insert),
    ("jsonb_contains", edit::contains),
    ("jsonb_contained", edit::contained),
    ("json_strip_nulls", reformat::strip_nulls::<false>),
    ("jsonb_strip_nulls", reformat::strip_nulls::<true>),
    ("jsonb_pretty", reformat::pretty),
    ("jsonb_eq", scalars::equal),
    ("jsonb_ne", scalars::not_equal),
    ("jsonb_lt", scalars::less),
    ("jsonb_le", scalars::less_equal),
    ("jsonb_gt", scalars::greater),
    ("jsonb_ge", scalars::greater_equal),
    ("jsonb_cmp", scalars::cmp),
    ("jsonb_hash", hash::hash),
    ("jsonb_hash_extended", hash::hash_extended),
    ("bool(jsonb)", scalars::to_bool),
    ("int2(jsonb)", scalars::to_int2),
    ("int4(jsonb)", scalars::to_int4),
    ("int8(jsonb)", scalars::to_int8),
    ("float4(jsonb)", scalars::to_float4),
    ("float8(jsonb)", scalars::to_float8),
    ("numeric(jsonb)", scalars::to_numeric),
    ("json_send", scalars::send::<0>),
    ("jsonb_send", scalars::send::<1>),
    ("jsonpath_send", scalars::send::<1>),
    ("jsonb_path_exists", path::exists::<false>),
    ("jsonb_path_exists_tz", path::exists::<true>),
    ("jsonb_path_exists_opr", path::exists_operator),
    ("jsonb_path_match", path::matches::<false>),
    ("jsonb_path_match_tz", path::matches::<true>),
    ("jsonb_path_match_opr", path::matches_operator),
    ("jsonb_path_query_array", path::query_array::<false>),
    ("jsonb_path_query_array_tz", path::query_array::<true>),
    ("jsonb_path_query_first", path::query_first::<false>),
    ("jsonb_path_query_first_tz", path::query_first::<true>),
];

const SETS: &[(&str, SetFunction)] = &[
    ("json_object_keys", access::object_keys::<false>),
    ("jsonb_object_keys", access::object_keys::<true>),
    ("json_records", populate::records::<false>),
    ("jsonb_records", populate::records::<true>),
    ("json_each", access::each::<false, false>),
    ("json_each_text", access::each::<false, true>),
    ("jsonb_each", access::each::<true, false>),
    ("jsonb_each_text", access::each::<true, true>),
    ("json_array_elements", access::array_elements::<false, false>),
    ("json_array_elements_text", access::array_elements::<false, true>),
    ("jsonb_array_elements", access::array_elements::<true, false>),
    ("jsonb_array_elements_text", access::array_elements::<true, true>),
    ("jsonb_path_query", path::query::<false>),
    ("jsonb_path_query_tz", path::query::<true>),
];

const AGGREGATES: &[(&str, Aggregate)] = &[
    ("json_agg", aggregates::array::<false>),
    ("jsonb_agg", aggregates::array::<true>),
    ("json_object_agg", aggregates::object::<false>),
    ("jsonb_object_agg", aggregates::object::<true>),
];

#[cfg(test)]
mod tests;
