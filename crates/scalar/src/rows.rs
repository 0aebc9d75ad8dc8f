//! Rows: their text form and comparisons.

use std::cmp::Ordering;

use catalog::{TypeId, builtin};
use model::{Datum, Error, Record, Result, SqlState};

use crate::arrays::value_order;
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
    ("record_image_eq", record_image_eq),
    ("record_image_ne", record_image_ne),
    ("record_image_lt", record_image_lt),
    ("record_image_le", record_image_le),
    ("record_image_gt", record_image_gt),
    ("record_image_ge", record_image_ge),
    ("btrecordimagecmp", record_image_cmp),
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

fn compare(left: &Datum<'_>, right: &Datum<'_>) -> Result<Ordering> {
    compare_by(left, right, value_order)
}

/// The first pair of columns that are not equal decides. NULL is equal to NULL and after everything else.
fn compare_by(
    left: &Datum<'_>,
    right: &Datum<'_>,
    order: impl Fn(TypeId, &Datum<'_>, &Datum<'_>) -> Result<Ordering>,
) -> Result<Ordering> {
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
        let result = match (left.is_null(), right.is_null()) {
            (false, false) => order(TypeId(*left_type), left, right)?,
            (left, right) => left.cmp(&right),
        };
        if result.is_ne() {
            return Ok(result);
        }
    }
    if left.values.len() != right.values.len() {
        let text = "cannot compare record types with different numbers of columns";
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    Ok(Ordering::Equal)
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

/// The order of two values by what is stored, where equal values such as 1.0 and 1.00 differ. Whole numbers are ordered
/// as if they had no sign, as in PostgreSQL. Other types but text have the order of their text: their order in PostgreSQL
/// depends on its storage format.
fn image_order(ty: TypeId, left: &Datum<'_>, right: &Datum<'_>, ctx: &Context<'_>) -> Result<Ordering> {
    let whole = |datum: &Datum<'_>| match datum {
        Datum::Bool(value) => Some(u64::from(*value)),
        Datum::Int2(value) => Some(i64::from(*value) as u64),
        Datum::Int4(value) => Some(i64::from(*value) as u64),
        Datum::Int8(value) => Some(*value as u64),
        Datum::Oid(value) => Some(u64::from(*value)),
        _ => None,
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        return Ok(left.cmp(&right));
    }
    if let (Datum::Text(left), Datum::Text(right)) = (left, right) {
        return Ok(left.cmp(right));
    }
    let (mut left_text, mut right_text) = (String::new(), String::new());
    registry::output(left, ty, ctx, &mut left_text)?;
    registry::output(right, ty, ctx, &mut right_text)?;
    Ok(left_text.cmp(&right_text))
}

fn compare_images(arguments: &[Datum<'_>], ctx: &Context<'_>) -> Result<Ordering> {
    let [left, right] = arguments else { return Err(Error::bug("a comparison of two rows")) };
    compare_by(left, right, |ty, left, right| image_order(ty, left, right, ctx))
}

macro_rules! image_comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        fn $name<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
            Ok(Datum::Bool(compare_images(arguments, ctx)?.$test()))
        }
    )*};
}

image_comparisons! {
    record_image_eq => is_eq;
    record_image_ne => is_ne;
    record_image_lt => is_lt;
    record_image_le => is_le;
    record_image_gt => is_gt;
    record_image_ge => is_ge;
}

fn record_image_cmp<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(compare_images(arguments, ctx)? as i32))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bumpalo::Bump;

    use super::*;
    use crate::context::Session;

    fn row(values: Vec<(TypeId, Datum<'static>)>) -> Datum<'static> {
        let (types, values): (Vec<u32>, Vec<Datum<'static>>) =
            values.into_iter().map(|(ty, value)| (ty.0, value)).unzip();
        Datum::Record(Arc::new(Record { types: types.into(), names: None, values: values.into() }))
    }

    fn int(value: i32) -> (TypeId, Datum<'static>) {
        (TypeId::INT4, Datum::Int4(value))
    }

    fn text(value: &'static str) -> (TypeId, Datum<'static>) {
        (TypeId::TEXT, Datum::Text(value))
    }

    const NULL: (TypeId, Datum<'static>) = (TypeId::INT4, Datum::Null);

    #[test]
    fn rows_are_written_with_quotes_where_they_are_needed() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        let inner = (TypeId::RECORD, row(vec![int(1), text("x y")]));
        for (value, expected) in [
            (row(vec![]), "()"),
            (row(vec![NULL]), "()"),
            (row(vec![text("")]), "(\"\")"),
            (row(vec![int(1), text("a b"), NULL]), "(1,\"a b\",)"),
            (
                row(vec![text("a\"b"), text("a\\b"), text("a,b"), text("(x)")]),
                "(\"a\"\"b\",\"a\\\\b\",\"a,b\",\"(x)\")",
            ),
            (row(vec![inner, text("{}")]), "(\"(1,\"\"x y\"\")\",{})"),
        ] {
            let mut written = String::new();
            registry::output(&value, TypeId::RECORD, &ctx, &mut written).unwrap();
            assert_eq!(written, expected);
        }
        assert_eq!(registry::input("(1)", TypeId::RECORD, -1, &ctx).unwrap_err().state().0, "0A000");
    }

    #[test]
    fn the_first_columns_that_differ_decide() {
        for (left, right, expected) in [
            (row(vec![int(1), int(2)]), row(vec![int(1), int(3)]), Ok(Ordering::Less)),
            (row(vec![int(1), NULL]), row(vec![int(1), int(3)]), Ok(Ordering::Greater)),
            (row(vec![NULL]), row(vec![NULL]), Ok(Ordering::Equal)),
            (row(vec![int(2), text("a")]), row(vec![int(1), int(1)]), Ok(Ordering::Greater)),
            (row(vec![int(1), text("a")]), row(vec![int(1), int(1)]), Err("42804")),
            (row(vec![int(1)]), row(vec![int(1), int(1)]), Err("42804")),
        ] {
            let order = registry::compare(TypeId::RECORD, &left, &right);
            assert_eq!(order.map_err(|error| error.state().0), expected, "{left:?} and {right:?}");
        }
    }

    #[test]
    fn images_of_equal_values_may_differ() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        let numeric = |text: &str| (TypeId::NUMERIC, Datum::Numeric(text.parse().unwrap()));
        for (left, right, expected) in [
            (row(vec![numeric("1.0")]), row(vec![numeric("1.00")]), false),
            (row(vec![numeric("1.0")]), row(vec![numeric("1.0")]), true),
            (row(vec![NULL, text("a")]), row(vec![NULL, text("a")]), true),
        ] {
            assert_eq!(compare_images(&[left, right], &ctx).unwrap().is_eq(), expected);
        }
        let negative_is_after = compare_images(&[row(vec![int(-1)]), row(vec![int(1)])], &ctx).unwrap();
        assert_eq!(negative_is_after, Ordering::Greater);
    }
}
