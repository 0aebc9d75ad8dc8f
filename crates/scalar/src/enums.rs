//! Enum types. A value is the number of its label, in the order of the labels.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState, TypeSpec, TypeSpecRef, user_types};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function, TypeSupport};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

/// Support of every enum type.
pub(crate) const SUPPORT: TypeSupport = TypeSupport { input, output, compare: None };

const FUNCTIONS: &[(&str, Function)] = &[
    ("enum_eq", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] == numbers(a)?[1]))),
    ("enum_ne", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] != numbers(a)?[1]))),
    ("enum_lt", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] < numbers(a)?[1]))),
    ("enum_gt", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] > numbers(a)?[1]))),
    ("enum_le", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] <= numbers(a)?[1]))),
    ("enum_ge", |a, _, _| Ok(Datum::Bool(numbers(a)?[0] >= numbers(a)?[1]))),
    ("enum_cmp", |a, _, _| Ok(Datum::Int4(numbers(a)?[0].cmp(&numbers(a)?[1]) as i32))),
    ("enum_smaller", |a, _, _| Ok(Datum::Oid(numbers(a)?[0].min(numbers(a)?[1])))),
    ("enum_larger", |a, _, _| Ok(Datum::Oid(numbers(a)?[0].max(numbers(a)?[1])))),
    ("enum_first", |_, call, ctx| end(&*argument_type(call, ctx)?, false)),
    ("enum_last", |_, call, ctx| end(&*argument_type(call, ctx)?, true)),
    ("enum_range(anyenum)", |_, call, ctx| range(&*argument_type(call, ctx)?, None, None)),
    ("enum_range(anyenum,anyenum)", |a, call, ctx| range(&*argument_type(call, ctx)?, number(&a[0]), number(&a[1]))),
];

fn number(datum: &Datum<'_>) -> Option<u32> {
    if let Datum::Oid(number) = datum { Some(*number) } else { None }
}

fn numbers(arguments: &[Datum<'_>]) -> Result<[u32; 2]> {
    match arguments {
        [Datum::Oid(left), Datum::Oid(right)] => Ok([*left, *right]),
        _ => Err(Error::bug("a comparison of two enums")),
    }
}

/// The definition of a user type.
///
/// # Errors
/// 42704 if it was dropped.
pub(crate) fn spec_of(ty: TypeId, ctx: &Context<'_>) -> Result<TypeSpecRef> {
    let found = match &ctx.session.objects {
        Some(objects) => objects.user_type(ty.0),
        None => user_types::find(ty.0),
    };
    found.ok_or_else(|| Error::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {ty} does not exist")))
}

/// The type of a call's first argument.
fn argument_type(call: &Call, ctx: &Context<'_>) -> Result<TypeSpecRef> {
    match call.arguments.first() {
        Some(ty) if user_types::is_enum(ty.0) => spec_of(*ty, ctx),
        _ => Err(Error::unsupported("could not determine actual enum type")),
    }
}

/// The first or the last value of a type.
fn end<'a>(spec: &TypeSpec, is_last: bool) -> Result<Datum<'a>> {
    let label = if is_last { spec.labels().last() } else { spec.labels().first() };
    let label = label.ok_or_else(|| {
        let text = format!("enum {} contains no values", spec.name.table);
        Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).with_kind(model::ErrorKind::Invalid)
    })?;
    usable(spec, label.number)
}

/// The value with a number; error 55P04 if this transaction added it.
fn usable<'a>(spec: &TypeSpec, number: u32) -> Result<Datum<'a>> {
    if user_types::is_uncommitted(spec.oid, number) {
        let label = spec.label(number).unwrap_or_default();
        let text = format!("unsafe use of new value \"{label}\" of enum type {}", spec.name.table);
        let error = Error::new(SqlState("55P04"), text);
        return Err(error.with_hint("New enum values must be committed before they can be used."));
    }
    Ok(Datum::Oid(number))
}

fn range<'a>(spec: &TypeSpec, first: Option<u32>, last: Option<u32>) -> Result<Datum<'a>> {
    let is_in = |number: &u32| first.is_none_or(|first| first <= *number) && last.is_none_or(|last| *number <= last);
    let numbers = spec.labels().iter().map(|label| label.number).filter(is_in);
    let values = numbers.map(|number| usable(spec, number)).collect::<Result<_>>()?;
    Ok(Datum::Array(Arc::new(Array::of(spec.oid, values))))
}

fn input<'a>(text: &str, ty: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let spec = spec_of(ty, ctx)?;
    let number = spec.number(text).ok_or_else(|| {
        let text = format!("invalid input value for enum {}: \"{text}\"", spec.name.table);
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
    })?;
    usable(&spec, number)
}

fn output(datum: &Datum<'_>, ty: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let spec = spec_of(ty, ctx)?;
    let Datum::Oid(number) = datum else { return Err(Error::bug("an enum that is no number")) };
    let label = spec.label(*number);
    text.push_str(label.ok_or_else(|| Error::corrupt(format!("invalid internal value for enum: {number}")))?);
    Ok(())
}

/// Appends the label of a value.
pub(crate) fn send(datum: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    let (arena, session) = (bumpalo::Bump::new(), crate::Session::default());
    let mut text = String::new();
    output(datum, ty, &Context { arena: &arena, session: &session }, &mut text)?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}
