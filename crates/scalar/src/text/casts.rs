//! Casts among texts, names and `"char"`, and the length limits of `char(n)` and `varchar(n)`.

use model::{Datum, Error, Result, SqlState};

use super::arguments::{bool, int4, text};
use super::characters::{clipped, part};
use super::io::{NAME_BYTES_MAX, char_byte, char_of, char_output, name};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function};

/// The modifier of `char(n)` and `varchar(n)` is n plus this.
const MODIFIER_OFFSET: i32 = 4;

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("bpchar(bpchar,int4,bool)", limited_blank_padded),
    ("varchar(varchar,int4,bool)", limited_varying),
    ("text(bpchar)", without_blanks),
    ("text(name)", same),
    ("text(char)", |arguments, call, ctx| {
        let mut out = String::new();
        char_output(&arguments[0], call.arguments[0], ctx, &mut out)?;
        Ok(ctx.text(&out))
    }),
    ("text(bool)", |arguments, _, _| Ok(Datum::Text(if bool(arguments, 0)? { "true" } else { "false" }))),
    ("varchar(name)", same),
    ("bpchar(name)", without_blanks),
    ("bpchar(char)", without_blanks),
    ("name(text)", truncated_name),
    ("name(varchar)", truncated_name),
    ("name(bpchar)", truncated_name),
    ("nameconcatoid", name_with_oid),
    ("char(text)", |arguments, _, ctx| Ok(char_of(char_byte(text(arguments, 0)?), ctx))),
    ("char(int4)", char_of_number),
    ("int4(char)", number_of_char),
];

fn same<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    text(arguments, 0).map(Datum::Text)
}

fn without_blanks<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Text(text(arguments, 0)?.trim_end_matches(' ')))
}

fn truncated_name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Text(name(text(arguments, 0)?)))
}

/// `name_oid`, with the name made shorter where it must.
fn name_with_oid<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(Datum::Oid(number)) = arguments.get(1) else { return Err(Error::bug("nameconcatoid")) };
    let suffix = format!("_{number}");
    let text = clipped(text(arguments, 0)?, NAME_BYTES_MAX - suffix.len());
    Ok(ctx.text(&format!("{text}{suffix}")))
}

/// The text without characters beyond a limit. Only an explicit cast may cut anything but blanks.
fn limited<'a>(arguments: &[Datum<'a>], type_name: &str) -> Result<&'a str> {
    let (text, modifier, is_explicit) = (text(arguments, 0)?, int4(arguments, 1)?, bool(arguments, 2)?);
    let Some(limit) = usize::try_from(modifier).ok().and_then(|limit| limit.checked_sub(MODIFIER_OFFSET as usize))
    else {
        return Ok(text);
    };
    if text.len() <= limit {
        return Ok(text);
    }
    let kept = part(text, 0, Some(limit));
    if is_explicit || text[kept.len()..].bytes().all(|byte| byte == b' ') {
        return Ok(kept);
    }
    Err(Error::new(SqlState::STRING_TOO_LONG, format!("value too long for type {type_name}({limit})")))
}

fn limited_blank_padded<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    limited(arguments, "character").map(|text| Datum::Text(text.trim_end_matches(' ')))
}

fn limited_varying<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    limited(arguments, "character varying").map(Datum::Text)
}

fn char_of_number<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let number = i8::try_from(int4(arguments, 0)?);
    let number = number.map_err(|_| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "\"char\" out of range"))?;
    Ok(char_of(number.cast_unsigned(), ctx))
}

/// The number of a `"char"`, whose byte is signed.
fn number_of_char<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let code = text(arguments, 0)?.chars().next().map_or(0, u32::from);
    Ok(Datum::Int4(i32::from((code as u8).cast_signed())))
}
