//! Comparisons of texts, names, bytes, bit strings and uuids.

use std::cmp::Ordering;

use model::{Datum, Result};

use super::arguments::{bits, bytes, text, uuid};
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

/// The functions of the operators of a type: signature, comparison and the condition on it.
macro_rules! comparisons {
    ($($name:literal = $compare:ident $condition:ident),* $(,)?) => {
        &[$(($name, |arguments, _, _| Ok($condition($compare(arguments)?)))),*]
    };
}

const FUNCTIONS: &[(&str, Function)] = comparisons! {
    "text_lt" = texts lt, "text_le" = texts le, "text_gt" = texts gt, "text_ge" = texts ge,
    "bttextcmp" = texts sign, "text_pattern_lt" = texts lt, "text_pattern_le" = texts le, "text_pattern_gt" = texts gt,
    "text_pattern_ge" = texts ge, "bttext_pattern_cmp" = texts sign,
    "nameeq" = texts eq, "namene" = texts ne, "namelt" = texts lt, "namele" = texts le, "namegt" = texts gt,
    "namege" = texts ge, "btnamecmp" = texts sign,
    "nameeqtext" = texts eq, "namenetext" = texts ne, "namelttext" = texts lt, "nameletext" = texts le,
    "namegttext" = texts gt, "namegetext" = texts ge, "btnametextcmp" = texts sign,
    "texteqname" = texts eq, "textnename" = texts ne, "textltname" = texts lt, "textlename" = texts le,
    "textgtname" = texts gt, "textgename" = texts ge, "bttextnamecmp" = texts sign,
    "bpchareq" = texts eq, "bpcharne" = texts ne, "bpcharlt" = texts lt, "bpcharle" = texts le, "bpchargt" = texts gt,
    "bpcharge" = texts ge, "bpcharcmp" = texts sign, "bpchar_pattern_lt" = texts lt, "bpchar_pattern_le" = texts le,
    "bpchar_pattern_gt" = texts gt, "bpchar_pattern_ge" = texts ge, "btbpchar_pattern_cmp" = texts sign,
    "chareq" = texts eq, "charne" = texts ne, "charlt" = texts lt, "charle" = texts le, "chargt" = texts gt,
    "charge" = texts ge, "btcharcmp" = char_difference number,
    "texteq" = text_equality is, "textne" = text_equality is_not,
    "byteaeq" = byte_strings eq, "byteane" = byte_strings ne, "bytealt" = byte_strings lt, "byteale" = byte_strings le,
    "byteagt" = byte_strings gt, "byteage" = byte_strings ge, "byteacmp" = byte_strings sign,
    "uuid_eq" = uuids eq, "uuid_ne" = uuids ne, "uuid_lt" = uuids lt, "uuid_le" = uuids le, "uuid_gt" = uuids gt,
    "uuid_ge" = uuids ge, "uuid_cmp" = uuids sign,
    "biteq" = bit_strings eq, "bitne" = bit_strings ne, "bitlt" = bit_strings lt, "bitle" = bit_strings le,
    "bitgt" = bit_strings gt, "bitge" = bit_strings ge, "bitcmp" = bit_strings sign,
    "varbiteq" = bit_strings eq, "varbitne" = bit_strings ne, "varbitlt" = bit_strings lt, "varbitle" = bit_strings le,
    "varbitgt" = bit_strings gt, "varbitge" = bit_strings ge, "varbitcmp" = bit_strings sign,
    "text_larger" = larger_text value, "text_smaller" = smaller_text value,
    "bpchar_larger" = larger_text value, "bpchar_smaller" = smaller_text value,
};

fn texts(arguments: &[Datum<'_>]) -> Result<Ordering> {
    Ok(text(arguments, 0)?.cmp(text(arguments, 1)?))
}

/// Whether two texts are equal: texts of different lengths need no comparison of their bytes.
fn text_equality(arguments: &[Datum<'_>]) -> Result<bool> {
    Ok(text(arguments, 0)? == text(arguments, 1)?)
}

fn byte_strings(arguments: &[Datum<'_>]) -> Result<Ordering> {
    Ok(bytes(arguments, 0)?.cmp(bytes(arguments, 1)?))
}

fn uuids(arguments: &[Datum<'_>]) -> Result<Ordering> {
    Ok(uuid(arguments, 0)?.cmp(&uuid(arguments, 1)?))
}

fn bit_strings(arguments: &[Datum<'_>]) -> Result<Ordering> {
    let (left, right) = (bits(arguments, 0)?, bits(arguments, 1)?);
    Ok(left.bytes.cmp(right.bytes).then(left.length.cmp(&right.length)))
}

/// The comparison of two `"char"` tells how far they are apart.
fn char_difference(arguments: &[Datum<'_>]) -> Result<i32> {
    let code = |text: &str| text.chars().next().map_or(0, |one| u32::from(one) as i32);
    Ok(code(text(arguments, 0)?) - code(text(arguments, 1)?))
}

fn larger_text<'a>(arguments: &[Datum<'a>]) -> Result<&'a str> {
    let (left, right) = (text(arguments, 0)?, text(arguments, 1)?);
    Ok(if left > right { left } else { right })
}

fn smaller_text<'a>(arguments: &[Datum<'a>]) -> Result<&'a str> {
    let (left, right) = (text(arguments, 0)?, text(arguments, 1)?);
    Ok(if left < right { left } else { right })
}

fn eq<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_eq())
}

fn ne<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_ne())
}

fn lt<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_lt())
}

fn le<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_le())
}

fn gt<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_gt())
}

fn ge<'a>(order: Ordering) -> Datum<'a> {
    Datum::Bool(order.is_ge())
}

fn sign<'a>(order: Ordering) -> Datum<'a> {
    Datum::Int4(order as i32)
}

fn number<'a>(number: i32) -> Datum<'a> {
    Datum::Int4(number)
}

fn is<'a>(condition: bool) -> Datum<'a> {
    Datum::Bool(condition)
}

fn is_not<'a>(condition: bool) -> Datum<'a> {
    Datum::Bool(!condition)
}

fn value(text: &str) -> Datum<'_> {
    Datum::Text(text)
}
