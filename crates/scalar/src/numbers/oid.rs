//! `oid` and the types whose values are object or transaction numbers.

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState};

use super::call::{binary, compared, comparisons, functions, invalid_input, out_of_range, trimmed, unary};
use super::integer::order;
use super::unsigned::number_at_start;
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

const XID: TypeId = TypeId(28);
const CID: TypeId = TypeId(29);

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::OID, TypeSupport { input: oid_input, output, compare: None }),
    (XID, TypeSupport { input: transaction_input, output, compare: None }),
    (CID, TypeSupport { input: transaction_input, output, compare: None }),
];

/// Types whose text is the name of an object. Functions are built in, tables, schemas and roles are the session's objects;
/// the others have numbers as text.
pub(super) const ALIASES: &[(TypeId, TypeSupport)] = &[
    (TypeId::REGPROC, ALIAS),
    (TypeId::REGPROCEDURE, ALIAS),
    (TypeId::REGCLASS, ALIAS),
    (TypeId(3734), ALIAS), // regconfig
    (TypeId(3769), ALIAS), // regdictionary
    (TypeId::REGNAMESPACE, ALIAS),
    (TypeId::REGROLE, ALIAS),
    (TypeId(4191), ALIAS), // regcollation
];

const ALIAS: TypeSupport = TypeSupport { input: alias_input, output: alias_output, compare: None };

/// Reads a number, `-` for 0, or the name of an object.
fn alias_input<'a>(text: &str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    match text {
        "-" => Ok(Datum::Oid(0)),
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => oid_input(text, ty, typmod, ctx),
        _ => match (ty, ctx.session.objects.as_deref()) {
            (TypeId::REGPROC, objects) => match (function_named(text), objects) {
                (Err(error), Some(objects)) if error.state() == SqlState::UNDEFINED_FUNCTION => {
                    objects.number(text, ty).map(Datum::Oid)
                }
                (found, _) => found.map(Datum::Oid),
            },
            (TypeId::REGPROCEDURE, Some(objects)) => objects.number(text, ty).map(Datum::Oid),
            (TypeId::REGCLASS | TypeId::REGNAMESPACE | TypeId::REGROLE, Some(objects)) => {
                objects.number(text, ty).map(Datum::Oid)
            }
            _ => Err(Error::unsupported(format!("names of type {} are not supported", builtin().type_name(ty)))),
        },
    }
}

/// The number of the only function of a name.
fn function_named(text: &str) -> Result<u32> {
    let name = text.strip_prefix("pg_catalog.").unwrap_or(text).trim_matches('"');
    let mut found = builtin().functions_named(name);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.oid),
        (Some(_), Some(_)) => {
            let text = format!("more than one function named \"{text}\"");
            Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, text))
        }
        // Functions of `internal` values, which only the catalog names.
        (None, _) => match pg::type_functions::all().find(|(_, known)| *known == name) {
            Some((oid, _)) => Ok(oid),
            None => Err(Error::new(SqlState::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))),
        },
    }
}

fn alias_output(datum: &Datum<'_>, ty: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Oid(number) = datum else { return Err(Error::bug("output of another type as oid")) };
    let catalog = builtin();
    match ty {
        _ if *number == 0 => text.push('-'),
        TypeId::REGPROC | TypeId::REGPROCEDURE if catalog.function_row(*number).is_some() => {
            function_name(*number, ty == TypeId::REGPROCEDURE, text);
        }
        _ if let Some(name) = pg::type_functions::object_name(ty.0, *number).filter(|_| ty == TypeId::REGPROC) => {
            text.push_str(&name);
        }
        _ => match ctx.session.objects.as_deref().and_then(|objects| objects.name(*number, ty)) {
            Some(name) => text.push_str(&name),
            None => return output(datum, ty, ctx, text),
        },
    }
    Ok(())
}

/// Appends the name of a function, with the schema if the name alone is ambiguous, or with the types of its parameters.
fn function_name(number: u32, with_parameters: bool, text: &mut String) {
    let catalog = builtin();
    let Some(function) = catalog.function_row(number) else { return };
    if !with_parameters && catalog.functions_named(function.name).count() > 1 {
        text.push_str("pg_catalog.");
    }
    text.push_str(function.name);
    if with_parameters {
        let types: Vec<String> = function.parameters.iter().map(|ty| catalog.type_name(*ty)).collect();
        text.push('(');
        text.push_str(&types.join(","));
        text.push(')');
    }
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Oid(value) = datum else { return Err(Error::bug("output of another type as oid")) };
    // Writing to a String cannot fail.
    let _ = write!(text, "{value}");
    Ok(())
}

/// Reads an unsigned number; a negative one of 32 bits is taken modulo 2^32.
fn oid_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let number = trimmed(text);
    let digits = number.strip_prefix(['+', '-']).unwrap_or(number);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_input("oid", text));
    }
    let range = i64::from(i32::MIN)..=i64::from(u32::MAX);
    match number.parse::<i64>() {
        Ok(value) if range.contains(&value) => Ok(Datum::Oid(value as u32)),
        _ => {
            let message = format!("value \"{text}\" is out of range for type oid");
            Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message))
        }
    }
}

/// Reads the number that the text begins with, which may be octal or hexadecimal; there is no error.
fn transaction_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Oid(number_at_start(text) as u32))
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "oid", "btoidcmp": order::<u32, u32>; };

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "oidlarger" => binary(<u32 as Ord>::max),
    "oidsmaller" => binary(<u32 as Ord>::min),
    "oid(int8)" => unary(|value: i64| u32::try_from(value).map_err(|_| out_of_range("OID"))),
    "int8(oid)" => unary(|value: u32| i64::from(value)),
    "xideq" => binary(|left: u32, right: u32| left == right),
    "xidneq" => binary(|left: u32, right: u32| left != right),
    "xideqint4" => binary(|left: u32, right: i32| left == right as u32),
    "xidneqint4" => binary(|left: u32, right: i32| left != right as u32),
    "cideq" => binary(|left: u32, right: u32| left == right),
};
