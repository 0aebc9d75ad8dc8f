//! Functions of texts: length, case, padding, trimming, parts, search and concatenation.

use bumpalo::collections::String as ArenaString;
use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use super::arguments::{int4, invalid_parameter, length, overlaid_part, substring_part, text, too_long};
use super::characters::{count, is_alphanumeric, lower, offset, part, upper};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("length(text)", character_length),
    ("length(bpchar)", character_length),
    ("char_length(text)", character_length),
    ("char_length(bpchar)", character_length),
    ("character_length(text)", character_length),
    ("character_length(bpchar)", character_length),
    ("textlen", character_length),
    ("octet_length(text)", |arguments, _, _| Ok(length(text(arguments, 0)?.len()))),
    ("octet_length(bpchar)", |arguments, _, _| Ok(length(text(arguments, 0)?.len()))),
    ("bit_length(text)", |arguments, _, _| Ok(length(text(arguments, 0)?.len().saturating_mul(8)))),
    ("lower(text)", |arguments, _, ctx| Ok(lowered(text(arguments, 0)?, ctx))),
    ("upper(text)", |arguments, _, ctx| Ok(uppered(text(arguments, 0)?, ctx))),
    ("initcap", |arguments, _, ctx| capitalized(text(arguments, 0)?, ctx)),
    ("lpad(text,int4)", |arguments, _, ctx| padded(arguments, " ", Side::Left, ctx)),
    ("lpad(text,int4,text)", |arguments, _, ctx| padded(arguments, text(arguments, 2)?, Side::Left, ctx)),
    ("rpad(text,int4)", |arguments, _, ctx| padded(arguments, " ", Side::Right, ctx)),
    ("rpad(text,int4,text)", |arguments, _, ctx| padded(arguments, text(arguments, 2)?, Side::Right, ctx)),
    ("btrim(text)", |arguments, _, _| trimmed(text(arguments, 0)?, " ", true, true)),
    ("btrim(text,text)", |arguments, _, _| trimmed(text(arguments, 0)?, text(arguments, 1)?, true, true)),
    ("ltrim(text)", |arguments, _, _| trimmed(text(arguments, 0)?, " ", true, false)),
    ("ltrim(text,text)", |arguments, _, _| trimmed(text(arguments, 0)?, text(arguments, 1)?, true, false)),
    ("rtrim(text)", |arguments, _, _| trimmed(text(arguments, 0)?, " ", false, true)),
    ("rtrim(text,text)", |arguments, _, _| trimmed(text(arguments, 0)?, text(arguments, 1)?, false, true)),
    ("substr(text,int4)", |arguments, _, _| substring(arguments, None)),
    ("substr(text,int4,int4)", |arguments, _, _| substring(arguments, Some(int4(arguments, 2)?))),
    ("substring(text,int4)", |arguments, _, _| substring(arguments, None)),
    ("substring(text,int4,int4)", |arguments, _, _| substring(arguments, Some(int4(arguments, 2)?))),
    ("overlay(text,text,int4)", |arguments, _, ctx| {
        let replaced = i32::try_from(count(text(arguments, 1)?)).unwrap_or(i32::MAX);
        overlay(arguments, replaced, ctx)
    }),
    ("overlay(text,text,int4,int4)", |arguments, _, ctx| overlay(arguments, int4(arguments, 3)?, ctx)),
    ("position(text,text)", position),
    ("strpos", position),
    ("left", left),
    ("right", right),
    ("repeat", repeat),
    ("reverse", reverse),
    ("replace", replace),
    ("translate", translate),
    ("starts_with", |arguments, _, _| Ok(Datum::Bool(text(arguments, 0)?.starts_with(text(arguments, 1)?)))),
    ("ascii", |arguments, _, _| {
        Ok(Datum::Int4(text(arguments, 0)?.chars().next().map_or(0, |one| u32::from(one) as i32)))
    }),
    ("chr", chr),
    ("textcat", |arguments, _, ctx| joined(&[text(arguments, 0)?, text(arguments, 1)?], ctx)),
    ("textanycat", beside_text),
    ("anytextcat", beside_text),
    ("concat", |arguments, call, ctx| concatenated("", arguments, &call.arguments, ctx)),
    ("concat_ws", concat_with_separator),
];

enum Side {
    Left,
    Right,
}

fn character_length<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(length(count(text(arguments, 0)?)))
}

/// The text in lower case.
fn lowered<'a>(text: &str, ctx: &Context<'a>) -> Datum<'a> {
    if text.is_ascii() {
        let out = ctx.arena.alloc_str(text);
        out.make_ascii_lowercase();
        return Datum::Text(out);
    }
    mapped(text, lower, ctx)
}

/// The text in upper case.
fn uppered<'a>(text: &str, ctx: &Context<'a>) -> Datum<'a> {
    if text.is_ascii() {
        let out = ctx.arena.alloc_str(text);
        out.make_ascii_uppercase();
        return Datum::Text(out);
    }
    mapped(text, upper, ctx)
}

fn mapped<'a>(text: &str, map: fn(char) -> char, ctx: &Context<'a>) -> Datum<'a> {
    let mut out = ArenaString::with_capacity_in(text.len(), ctx.arena);
    out.extend(text.chars().map(map));
    Datum::Text(out.into_bump_str())
}

/// The text with the first letter of each word in upper case and the others in lower case.
fn capitalized<'a>(text: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut out = ArenaString::with_capacity_in(text.len(), ctx.arena);
    let mut in_word = false;
    for one in text.chars() {
        out.push(if in_word { lower(one) } else { upper(one) });
        in_word = is_alphanumeric(one);
    }
    Ok(Datum::Text(out.into_bump_str()))
}

/// The text filled up or cut to a number of characters.
fn padded<'a>(arguments: &[Datum<'a>], fill: &str, side: Side, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = text(arguments, 0)?;
    let wanted = usize::try_from(int4(arguments, 1)?).unwrap_or(0);
    let missing = wanted.saturating_sub(count(of));
    if missing == 0 || fill.is_empty() {
        return Ok(Datum::Text(part(of, 0, Some(wanted))));
    }
    // A character is at most four bytes, and every one of the padding has a place in `fill`.
    let whole = missing / count(fill);
    let bytes = whole.saturating_add(1).saturating_mul(fill.len()).saturating_add(of.len());
    ctx.check_size(bytes).map_err(|_| too_long())?;
    let padding = std::iter::repeat_n(fill, whole).chain([part(fill, 0, Some(missing - whole * count(fill)))]);
    let mut out = ArenaString::with_capacity_in(bytes, ctx.arena);
    match side {
        Side::Left => out.extend(padding.chain([of])),
        Side::Right => out.extend([of].into_iter().chain(padding)),
    }
    Ok(Datum::Text(out.into_bump_str()))
}

/// The text without the characters of a set at its ends.
fn trimmed<'a>(text: &'a str, set: &str, at_start: bool, at_end: bool) -> Result<Datum<'a>> {
    let in_set = |one: char| set.contains(one);
    let text = if at_start { text.trim_start_matches(in_set) } else { text };
    Ok(Datum::Text(if at_end { text.trim_end_matches(in_set) } else { text }))
}

fn substring<'a>(arguments: &[Datum<'a>], length: Option<i32>) -> Result<Datum<'a>> {
    let (skipped, taken) = substring_part(int4(arguments, 1)?, length)?;
    Ok(Datum::Text(part(text(arguments, 0)?, skipped, taken)))
}

fn overlay<'a>(arguments: &[Datum<'a>], replaced: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, with) = (text(arguments, 0)?, text(arguments, 1)?);
    let (before, end) = overlaid_part(int4(arguments, 2)?, replaced)?;
    joined(&[part(of, 0, Some(before)), with, part(of, end, None)], ctx)
}

/// The place of a text in another in characters, from 1; 0 if it is not there.
fn position<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = text(arguments, 0)?;
    let found = of.find(text(arguments, 1)?);
    Ok(length(found.map_or(0, |at| count(&of[..at]) + 1)))
}

/// The number of characters that `left(text, n)` and `right(text, n)` mean: all but -n if n is negative.
fn wanted_count(text: &str, number: i32) -> usize {
    match usize::try_from(number) {
        Ok(number) => number,
        Err(_) => count(text).saturating_sub(number.unsigned_abs() as usize),
    }
}

fn left<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = text(arguments, 0)?;
    Ok(Datum::Text(part(of, 0, Some(wanted_count(of, int4(arguments, 1)?)))))
}

/// The last characters. PostgreSQL takes all of them for the minimum of the integers, whose negation overflows there.
fn right<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let of = text(arguments, 0)?;
    let skipped = count(of).saturating_sub(wanted_count(of, int4(arguments, 1)?));
    Ok(Datum::Text(&of[offset(of, skipped)..]))
}

fn repeat<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, times) = (text(arguments, 0)?, usize::try_from(int4(arguments, 1)?).unwrap_or(0));
    let bytes = of.len().saturating_mul(times);
    ctx.check_size(bytes).map_err(|_| too_long())?;
    let mut out = ArenaString::with_capacity_in(bytes, ctx.arena);
    if bytes > 0 {
        out.extend(std::iter::repeat_n(of, times));
    }
    Ok(Datum::Text(out.into_bump_str()))
}

fn reverse<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let of = text(arguments, 0)?;
    let mut out = ArenaString::with_capacity_in(of.len(), ctx.arena);
    out.extend(of.chars().rev());
    Ok(Datum::Text(out.into_bump_str()))
}

fn replace<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, from, to) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    if from.is_empty() || !of.contains(from) {
        return Ok(Datum::Text(of));
    }
    if to.len() > from.len() {
        let found = of.matches(from).count();
        ctx.check_size(of.len().saturating_add(found.saturating_mul(to.len() - from.len())))?;
    }
    let mut out = ArenaString::with_capacity_in(of.len(), ctx.arena);
    for (number, piece) in of.split(from).enumerate() {
        if number > 0 {
            out.push_str(to);
        }
        out.push_str(piece);
    }
    Ok(Datum::Text(out.into_bump_str()))
}

/// The text with each character of `from` as the one at the same place in `to`, or without it if there is none.
fn translate<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (of, from, to) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    ctx.check_size(of.len().saturating_mul(4))?;
    let mut out = ArenaString::with_capacity_in(of.len(), ctx.arena);
    for one in of.chars() {
        match from.chars().position(|other| other == one) {
            None => out.push(one),
            Some(at) => out.extend(to.chars().nth(at)),
        }
    }
    Ok(Datum::Text(out.into_bump_str()))
}

fn chr<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let number = int4(arguments, 0)?;
    let limit = |text: String| Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    match u32::try_from(number) {
        Err(_) => Err(invalid_parameter("character number must be positive")),
        Ok(0) => limit("null character not permitted".to_owned()),
        Ok(code) => match char::from_u32(code) {
            Some(one) => Ok(ctx.text(one.encode_utf8(&mut [0; 4]))),
            None if code > 0x10_ffff => limit(format!("requested character too large for encoding: {code}")),
            None => limit(format!("requested character not valid for encoding: {code}")),
        },
    }
}

/// Texts one after the other.
fn joined<'a>(texts: &[&str], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let bytes = texts.iter().map(|text| text.len()).fold(0, usize::saturating_add);
    ctx.check_size(bytes)?;
    let mut out = ArenaString::with_capacity_in(bytes, ctx.arena);
    out.extend(texts.iter().copied());
    Ok(Datum::Text(out.into_bump_str()))
}

/// Values of any types as text, with a separator; NULL is left out.
/// A text beside a value that is cast to text, by which a boolean is a word.
fn beside_text<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let word = |value: &Datum<'a>| match value {
        Datum::Bool(true) => Datum::Text("true"),
        Datum::Bool(false) => Datum::Text("false"),
        value => value.clone(),
    };
    let words: Vec<Datum<'a>> = arguments.iter().map(word).collect();
    let shown = |ty: &TypeId| if *ty == TypeId::BOOL { TypeId::TEXT } else { *ty };
    let types: Vec<TypeId> = call.arguments.iter().map(shown).collect();
    concatenated("", &words, &types, ctx)
}

fn concatenated<'a>(
    separator: &str,
    arguments: &[Datum<'a>],
    types: &[TypeId],
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let mut out = String::new();
    let values = arguments.iter().zip(types).filter(|(argument, _)| !argument.is_null());
    for (number, (argument, ty)) in values.enumerate() {
        if number > 0 {
            out.push_str(separator);
        }
        match argument {
            Datum::Text(text) if *ty == TypeId::TEXT => out.push_str(text),
            other => registry::output(other, *ty, ctx, &mut out)?,
        }
        ctx.check_size(out.len())?;
    }
    Ok(ctx.text(&out))
}

fn concat_with_separator<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    match arguments {
        [Datum::Text(separator), values @ ..] => {
            let types = call.arguments.get(1..).unwrap_or_default();
            concatenated(separator, values, types, ctx)
        }
        _ => Ok(Datum::Null),
    }
}
