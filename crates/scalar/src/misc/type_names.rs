//! Names of types: `regtype`, `format_type`.

use catalog::{TypeId, builtin};
use model::{Datum, Error, Result, SqlState};

use super::type_limits;
use crate::context::Context;
use crate::expr::Call;

/// A name of SQL and the type it means, where that has another name in the catalog.
const SQL_NAMES: &[(&str, TypeId)] = &[
    ("int", TypeId::INT4),
    ("integer", TypeId::INT4),
    ("smallint", TypeId::INT2),
    ("bigint", TypeId::INT8),
    ("real", TypeId::FLOAT4),
    ("float", TypeId::FLOAT8),
    ("double precision", TypeId::FLOAT8),
    ("dec", TypeId::NUMERIC),
    ("decimal", TypeId::NUMERIC),
    ("boolean", TypeId::BOOL),
    ("char", TypeId::BPCHAR),
    ("character", TypeId::BPCHAR),
    ("nchar", TypeId::BPCHAR),
    ("national char", TypeId::BPCHAR),
    ("national character", TypeId::BPCHAR),
    ("char varying", TypeId::VARCHAR),
    ("character varying", TypeId::VARCHAR),
    ("nchar varying", TypeId::VARCHAR),
    ("national char varying", TypeId::VARCHAR),
    ("national character varying", TypeId::VARCHAR),
    ("bit varying", TypeId::VARBIT),
    ("time without time zone", TypeId::TIME),
    ("time with time zone", TypeId::TIMETZ),
    ("timestamp without time zone", TypeId::TIMESTAMP),
    ("timestamp with time zone", TypeId::TIMESTAMPTZ),
];

/// Fields of an interval, as bits of its type modifier.
const INTERVAL_FIELDS: &[(i32, &str)] = &[
    (1 << 2, " year"),
    (1 << 1, " month"),
    (1 << 3, " day"),
    (1 << 10, " hour"),
    (1 << 11, " minute"),
    (1 << 12, " second"),
    (1 << 2 | 1 << 1, " year to month"),
    (1 << 3 | 1 << 10, " day to hour"),
    (1 << 3 | 1 << 10 | 1 << 11, " day to minute"),
    (1 << 3 | 1 << 10 | 1 << 11 | 1 << 12, " day to second"),
    (1 << 10 | 1 << 11, " hour to minute"),
    (1 << 10 | 1 << 11 | 1 << 12, " hour to second"),
    (1 << 11 | 1 << 12, " minute to second"),
    (0x7fff, ""),
];

fn invalid_name(text: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{text}\""))
}

/// The type of a name as it is written in SQL, in the catalog, or as the name of a table; `None` if there is none.
fn type_of(text: &str, ctx: &Context<'_>) -> Result<Option<TypeId>> {
    let row_type = |error| {
        let number = ctx.session.objects.as_ref().and_then(|objects| objects.number(text, TypeId::REGTYPE).ok());
        number.map_or(error, |number| Ok(Some(TypeId(number))))
    };
    match builtin_type(text) {
        Ok(None) => row_type(Ok(None)),
        Err(error) if error.state() == SqlState::INVALID_SCHEMA_NAME => row_type(Err(error)),
        found => found,
    }
}

/// The type of a name, but for rows of tables.
fn builtin_type(text: &str) -> Result<Option<TypeId>> {
    let (name, is_array) = without_dimensions(text.trim()).ok_or_else(|| invalid_name(text))?;
    let (name, is_quoted) = match name.rsplit_once('.').map_or((None, name), |(schema, name)| (Some(schema), name)) {
        (None | Some("pg_catalog" | "\"pg_catalog\""), name) => {
            match name.strip_prefix('"').and_then(|name| name.rsplit_once('"')) {
                Some((name, "")) => (name.to_owned(), true),
                Some((name, modifiers)) if without_modifiers(modifiers).is_some_and(|rest| rest.is_empty()) => {
                    (name.to_owned(), true)
                }
                Some(_) => return Err(invalid_name(text)),
                None => (without_modifiers(name).ok_or_else(|| invalid_name(text))?, false),
            }
        }
        (Some(schema), _) if schema.contains('.') => {
            let text = format!("cross-database references are not implemented: {text}");
            return Err(Error::unsupported(text));
        }
        // Types of tables' rows are the only ones there.
        (Some("public" | "\"public\""), _) => return Ok(None),
        (Some(schema), _) => {
            let text = format!("schema \"{schema}\" does not exist");
            return Err(Error::new(SqlState::INVALID_SCHEMA_NAME, text));
        }
    };
    let name = name.as_str();
    if name.is_empty() || name.starts_with(|one: char| one.is_ascii_digit()) {
        return Err(invalid_name(text));
    }
    let of_sql = || SQL_NAMES.iter().find(|(sql, _)| *sql == name).map(|(_, ty)| *ty);
    let interval = || name.starts_with("interval ").then_some(TypeId::INTERVAL);
    let special = if is_quoted { None } else { of_sql().or_else(interval) };
    let Some(ty) = special.or_else(|| builtin().type_named(name)) else {
        return if name.contains([' ', '[']) && !is_quoted { Err(invalid_name(text)) } else { Ok(None) };
    };
    // `float(1)` to `float(24)` is real.
    let is_real = ty == TypeId::FLOAT8 && name == "float" && float_digits(text).is_some_and(|digits| digits <= 24);
    let ty = if is_real { TypeId::FLOAT4 } else { ty };
    let is_array = is_array && builtin().element_of(ty).is_none();
    Ok(if is_array { builtin().array_of(ty) } else { Some(ty) })
}

fn float_digits(text: &str) -> Option<u32> {
    text.split_once('(')?.1.split_once(')')?.0.trim().parse().ok()
}

/// A name without `[]`, `[3]` or ARRAY behind it, and whether there was one; `None` for brackets without their pair.
fn without_dimensions(name: &str) -> Option<(&str, bool)> {
    let mut rest = name;
    while let Some(inner) = rest.strip_suffix(']') {
        let (outer, number) = inner.rsplit_once('[')?;
        if !number.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        rest = outer.trim_end();
    }
    let is_array = rest.len() < name.len();
    let cut = rest.len().saturating_sub(" array".len());
    match rest.get(cut..) {
        Some(last) if last.eq_ignore_ascii_case(" array") => Some((rest[..cut].trim_end(), true)),
        _ => Some((rest, is_array)),
    }
}

/// A name in lower case with single blanks, without `(10, 2)`; `None` for parentheses without their pair.
fn without_modifiers(name: &str) -> Option<String> {
    let name = match name.split_once('(') {
        None if name.contains(')') => return None,
        None => name.to_owned(),
        Some((before, rest)) => {
            let (modifiers, after) = rest.split_once(')')?;
            let is_list = modifiers.split(',').all(|one| {
                let one = one.trim();
                !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            });
            if !is_list {
                return None;
            }
            format!("{before} {after}")
        }
    };
    let words: Vec<&str> = name.split_whitespace().collect();
    Some(words.join(" ").to_lowercase())
}

/// Reads a type's name or number.
pub(super) fn regtype_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if text == "-" {
        return Ok(Datum::Oid(0));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        let out_of_range = || {
            let text = format!("value \"{text}\" is out of range for type oid");
            Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text)
        };
        return text.parse().map(Datum::Oid).map_err(|_| out_of_range());
    }
    match type_of(text, ctx)? {
        Some(ty) => Ok(Datum::Oid(ty.0)),
        None => Err(Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", text.trim()))),
    }
}

/// The name of a type; `None` if there is no such type. Vectors have elements but are no arrays.
fn name_of(ty: TypeId, ctx: &Context<'_>) -> Option<String> {
    match ty {
        TypeId::INT2VECTOR => Some("int2vector".to_owned()),
        TypeId::OIDVECTOR => Some("oidvector".to_owned()),
        ty if builtin().type_row(ty).is_some() && !model::user_types::is_user(ty.0) => Some(builtin().type_name(ty)),
        ty => ctx.session.objects.as_ref().and_then(|objects| objects.name(ty.0, TypeId::REGTYPE)),
    }
}

/// Writes a type's name, or its number if there is no such type.
pub(super) fn regtype_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Oid(number) = datum else { return Err(Error::bug("a regtype that is no oid")) };
    match name_of(TypeId(*number), ctx) {
        Some(name) => text.push_str(&name),
        None if *number == 0 => text.push('-'),
        None => text.push_str(&number.to_string()),
    }
    Ok(())
}

/// `to_regtype`: NULL rather than an error if there is no such type.
pub(super) fn to_regtype<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Text(name)] = arguments else { return Err(Error::bug("to_regtype")) };
    match type_of(name, ctx) {
        Err(error) if error.state() == SqlState::INVALID_SCHEMA_NAME => Ok(Datum::Null),
        found => Ok(found?.map_or(Datum::Null, |ty| Datum::Oid(ty.0))),
    }
}

/// `format_type`: a type with its modifier.
pub(super) fn format_type<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Oid(number), modifier] = arguments else { return Ok(Datum::Null) };
    let ty = TypeId(*number);
    let modifier = if let Datum::Int4(modifier) = modifier { Some(*modifier) } else { None };
    Ok(ctx.text(&match builtin().type_row(ty) {
        None if *number == 0 => "-".to_owned(),
        None => name_of(ty, ctx).unwrap_or_else(|| "???".to_owned()),
        Some(row) => match row.element.filter(|_| row.name.starts_with('_')) {
            Some(element) => format!("{}[]", with_modifier(element, modifier, ctx)?),
            None => with_modifier(ty, modifier, ctx)?,
        },
    }))
}

/// `_pg_interval_type`: the fields of an interval with declared fields, in capitals.
pub(super) fn interval_type<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (ty, modifier) = type_limits::of(arguments)?;
    if ty != TypeId::INTERVAL {
        return Ok(Datum::Null);
    }
    let name = with_modifier(ty, Some(modifier), ctx)?;
    Ok(name.split_once(' ').map_or(Datum::Null, |(_, fields)| ctx.text(&fields.to_ascii_uppercase())))
}

fn with_modifier(ty: TypeId, modifier: Option<i32>, ctx: &Context<'_>) -> Result<String> {
    let name = name_of(ty, ctx).unwrap_or_default();
    let Some(modifier) = modifier.filter(|modifier| *modifier >= 0) else {
        // Without a length these two are not the SQL types of the name, which have length 1.
        return Ok(match ty {
            TypeId::BPCHAR if modifier.is_some() => "bpchar".to_owned(),
            TypeId::BIT if modifier.is_some() => "\"bit\"".to_owned(),
            _ => name,
        });
    };
    let zoned = |base: &str, zone: &str| format!("{base}({modifier}) {zone} time zone");
    Ok(match ty {
        TypeId::VARCHAR | TypeId::BPCHAR if modifier > 4 => format!("{name}({})", modifier - 4),
        TypeId::BIT | TypeId::VARBIT => format!("{name}({modifier})"),
        TypeId::NUMERIC if modifier >= 4 => {
            let packed = modifier - 4;
            // The scale is a number of 11 bits with a sign.
            let scale = ((packed & 0x7ff) ^ 1024) - 1024;
            format!("{name}({},{scale})", (packed >> 16) & 0xffff)
        }
        TypeId::TIME => zoned("time", "without"),
        TypeId::TIMETZ => zoned("time", "with"),
        TypeId::TIMESTAMP => zoned("timestamp", "without"),
        TypeId::TIMESTAMPTZ => zoned("timestamp", "with"),
        TypeId::INTERVAL => interval_name(modifier)?,
        _ => name,
    })
}

fn interval_name(modifier: i32) -> Result<String> {
    let (fields, digits) = (modifier >> 16 & 0x7fff, modifier & 0xffff);
    let invalid = || Error::new(SqlState::INTERNAL_ERROR, format!("invalid INTERVAL typmod: {modifier:#x}"));
    let (_, fields) = INTERVAL_FIELDS.iter().find(|(bits, _)| *bits == fields).ok_or_else(invalid)?;
    Ok(if digits == 0xffff { format!("interval{fields}") } else { format!("interval{fields}({digits})") })
}

/// `oidvectortypes`: the names of types, separated by commas.
pub(super) fn oidvectortypes<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Array(types)] = arguments else { return Err(Error::bug("oidvectortypes")) };
    let name = |ty: &Datum<'_>| match ty {
        Datum::Oid(0) => "-".to_owned(),
        Datum::Oid(number) => name_of(TypeId(*number), ctx).unwrap_or_else(|| "???".to_owned()),
        _ => "???".to_owned(),
    };
    let names: Vec<String> = types.items.iter().map(name).collect();
    Ok(ctx.text(&names.join(", ")))
}
