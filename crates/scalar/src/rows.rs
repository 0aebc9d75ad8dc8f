//! Rows: their text form and comparisons.

use std::cmp::Ordering;

use catalog::{TypeId, builtin};
use model::{Datum, Error, Record, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Family, Function, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: &[], aggregates: &[] };

const TYPES: &[(TypeId, TypeSupport)] =
    &[(TypeId::RECORD, TypeSupport { input: record_input, output: record_output, compare: Some(compare) })];

const FUNCTIONS: &[(&str, Function)] = &[
    ("record_eq", record_eq),
    ("record_ne", record_ne),
    ("record_lt", record_lt),
    ("record_le", record_le),
    ("record_gt", record_gt),
    ("record_ge", record_ge),
    ("btrecordcmp", record_cmp),
];

fn record_input<'a>(_: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    Err(Error::unsupported("input of anonymous composite types is not implemented"))
}

/// Writes `(1,"a b",)`.
fn record_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let record = record(datum)?;
    let mut field = String::new();
    text.push('(');
    for (at, (value, ty)) in record.values.iter().zip(&record.types).enumerate() {
        if at > 0 {
            text.push(',');
        }
        if value.is_null() {
            continue;
        }
        field.clear();
        registry::output(value, TypeId(*ty), ctx, &mut field)?;
        write_field(&field, text);
    }
    text.push(')');
    Ok(())
}

fn write_field(field: &str, text: &mut String) {
    let special = |one: char| matches!(one, '"' | '\\' | '(' | ')' | ',' | ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    if !field.is_empty() && !field.contains(special) {
        return text.push_str(field);
    }
    text.push('"');
    for one in field.chars() {
        if matches!(one, '"' | '\\') {
            text.push(one);
        }
        text.push(one);
    }
    text.push('"');
}

fn record<'r, 'a>(datum: &'r Datum<'a>) -> Result<&'r Record<'a>> {
    match datum {
        Datum::Record(record) => Ok(record),
        _ => Err(Error::bug("a row that is none")),
    }
}

/// The first pair of columns that are not equal decides. NULL is equal to NULL and after everything else.
fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    let (left, right) = (record(left)?, record(right)?);
    let types = left.types.iter().zip(&right.types);
    let values = left.values.iter().zip(&right.values);
    for (at, ((left_type, right_type), (left, right))) in types.zip(values).enumerate() {
        if left_type != right_type {
            let name = |ty: &u32| builtin().type_name(TypeId(*ty));
            let (left, right) = (name(left_type), name(right_type));
            let text = format!("cannot compare dissimilar column types {left} and {right} at record column {}", at + 1);
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        let order = match (left.is_null(), right.is_null()) {
            (false, false) => column_order(TypeId(*left_type), left, right)?,
            (left, right) => left.cmp(&right),
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    if left.values.len() != right.values.len() {
        let text = "cannot compare record types with different numbers of columns";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    Ok(Ordering::Equal)
}

fn column_order(ty: TypeId, left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    registry::compare(ty, left, right).map_err(|error| {
        if error.state() != SqlState::UNDEFINED_FUNCTION {
            return error;
        }
        let text = format!("could not identify a comparison function for type {}", builtin().type_name(ty));
        Error::new(SqlState::UNDEFINED_FUNCTION, text)
    })
}

macro_rules! comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let [left, right] = arguments else { return Err(Error::bug("a comparison of two rows")) };
            Ok(Datum::Bool(compare(left, right)?.$test()))
        }
    )*};
}

comparisons! {
    record_eq => is_eq;
    record_ne => is_ne;
    record_lt => is_lt;
    record_le => is_le;
    record_gt => is_gt;
    record_ge => is_ge;
}

fn record_cmp<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = arguments else { return Err(Error::bug("btrecordcmp")) };
    Ok(Datum::Int4(compare(left, right)? as i32))
}
