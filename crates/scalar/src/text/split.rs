//! Functions that split texts: `split_part`, `string_to_array`, `string_to_table`, `parse_ident`.

use std::sync::Arc;

use bumpalo::collections::Vec;
use catalog::TypeId;
use model::{Array, Datum, Error, Result};

use super::arguments::{bool, int4, invalid_parameter, text, text_or_null};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function, Rows, SetFunction};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: SETS, aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("split_part", split_part),
    ("string_to_array(text,text)", string_to_array),
    ("string_to_array(text,text,text)", string_to_array),
    ("parse_ident", parse_identifiers),
];

const SETS: &[(&str, SetFunction)] =
    &[("string_to_table(text,text)", string_to_table), ("string_to_table(text,text,text)", string_to_table)];

fn split_part<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (of, separator, number) = (text(arguments, 0)?, text(arguments, 1)?, int4(arguments, 2)?);
    let at = (number.unsigned_abs() as usize).checked_sub(1);
    let at = at.ok_or_else(|| invalid_parameter("field position must not be zero"))?;
    let field = match (separator, number > 0) {
        ("", _) => (at == 0).then_some(of),
        (separator, true) => of.split(separator).nth(at),
        // Separators are searched from the start even then: in `aaa` the first two letters are the separator `aa`.
        (separator, false) => {
            let count = of.split(separator).count();
            count.checked_sub(at + 1).and_then(|at| of.split(separator).nth(at))
        }
    };
    Ok(Datum::Text(field.unwrap_or("")))
}

/// The fields of a text, or `None` if the text is NULL. Without separator each character is a field.
fn fields<'a>(arguments: &[Datum<'a>]) -> Result<Option<std::vec::Vec<Datum<'a>>>> {
    let Some(of) = text_or_null(arguments, 0)? else { return Ok(None) };
    let null = if arguments.len() > 2 { text_or_null(arguments, 2)? } else { None };
    let field = |text: &'a str| if Some(text) == null { Datum::Null } else { Datum::Text(text) };
    Ok(Some(match text_or_null(arguments, 1)? {
        _ if of.is_empty() => std::vec::Vec::new(),
        None => of.char_indices().map(|(at, one)| field(&of[at..at + one.len_utf8()])).collect(),
        Some("") => vec![field(of)],
        Some(separator) => of.split(separator).map(field).collect(),
    }))
}

fn string_to_array<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let fields = fields(arguments)?;
    Ok(fields.map_or(Datum::Null, |fields| Datum::Array(Arc::new(Array::of(TypeId::TEXT.0, fields)))))
}

fn string_to_table<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    Ok(Box::new(fields(arguments)?.unwrap_or_default().into_iter().map(Ok)))
}

/// The parts of a qualified name.
fn parse_identifiers<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (whole, is_strict) = (text(arguments, 0)?, bool(arguments, 1)?);
    let invalid = || invalid_parameter(format!("string is not a valid identifier: \"{whole}\""));
    let mut parts = Vec::new_in(ctx.arena);
    let (mut rest, mut is_after_dot) = (trim_start(whole), false);
    loop {
        let is_missing = !rest.starts_with('"') && !rest.starts_with(is_identifier_start);
        if is_missing {
            return Err(match rest.starts_with('.') {
                true => invalid().with_detail("No valid identifier before \".\"."),
                false if is_after_dot => invalid().with_detail("No valid identifier after \".\"."),
                false => invalid(),
            });
        }
        let part;
        (part, rest) = identifier(rest, invalid, ctx)?;
        parts.push(part);
        rest = trim_start(rest);
        match rest.strip_prefix('.') {
            Some(after) => (rest, is_after_dot) = (trim_start(after), true),
            None if rest.is_empty() || !is_strict => break,
            None => return Err(invalid()),
        }
    }
    Ok(Datum::Array(Arc::new(Array::of(TypeId::TEXT.0, parts.iter().map(|part| Datum::Text(part)).collect()))))
}

/// The identifier at the start of a text, and the text after it.
fn identifier<'a>(text: &'a str, invalid: impl Fn() -> Error, ctx: &Context<'a>) -> Result<(&'a str, &'a str)> {
    let Some(mut quoted) = text.strip_prefix('"') else {
        let end = text.find(|one| !is_identifier_part(one)).unwrap_or(text.len());
        return Ok((ctx.arena.alloc_str(&text[..end].to_ascii_lowercase()), &text[end..]));
    };
    let mut name = String::new();
    loop {
        let end = quoted.find('"').ok_or_else(|| invalid().with_detail("String has unclosed double quotes."))?;
        name.push_str(&quoted[..end]);
        quoted = &quoted[end + 1..];
        let Some(after) = quoted.strip_prefix('"') else { break };
        name.push('"');
        quoted = after;
    }
    if name.is_empty() {
        return Err(invalid().with_detail("Quoted identifier must not be empty."));
    }
    Ok((ctx.arena.alloc_str(&name), quoted))
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c'])
}

fn is_identifier_start(one: char) -> bool {
    one == '_' || one.is_ascii_alphabetic() || !one.is_ascii()
}

fn is_identifier_part(one: char) -> bool {
    is_identifier_start(one) || one == '$' || one.is_ascii_digit()
}
