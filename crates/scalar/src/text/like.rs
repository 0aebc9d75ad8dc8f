//! LIKE and ILIKE.

use model::{Datum, Error, Result, SqlState};

use super::arguments::{bytes, text};
use super::characters::lower;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("textlike", like::<true>),
    ("textnlike", like::<false>),
    ("like(text,text)", like::<true>),
    ("notlike(text,text)", like::<false>),
    ("bpcharlike", like::<true>),
    ("bpcharnlike", like::<false>),
    ("namelike", like::<true>),
    ("namenlike", like::<false>),
    ("like(name,text)", like::<true>),
    ("notlike(name,text)", like::<false>),
    ("texticlike", like_in_any_case::<true>),
    ("texticnlike", like_in_any_case::<false>),
    ("bpchariclike", like_in_any_case::<true>),
    ("bpcharicnlike", like_in_any_case::<false>),
    ("nameiclike", like_in_any_case::<true>),
    ("nameicnlike", like_in_any_case::<false>),
    ("bytealike", bytes_like::<true>),
    ("byteanlike", bytes_like::<false>),
    ("like(bytea,bytea)", bytes_like::<true>),
    ("notlike(bytea,bytea)", bytes_like::<false>),
    ("like_escape(text,text)", |arguments, _, ctx| {
        let (pattern, escape) = (text(arguments, 0)?, text(arguments, 1)?);
        let escaped = with_backslashes(pattern.chars(), escape.chars(), '\\')?;
        Ok(ctx.text(&escaped.into_iter().collect::<String>()))
    }),
    ("like_escape(bytea,bytea)", |arguments, _, ctx| {
        let (pattern, escape) = (bytes(arguments, 0)?, bytes(arguments, 1)?);
        Ok(ctx.bytes(&with_backslashes(pattern.iter().copied(), escape.iter().copied(), b'\\')?))
    }),
];

fn like<'a, const WANTED: bool>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (of, pattern) = (text(arguments, 0)?, text(arguments, 1)?);
    Ok(Datum::Bool(matches(of.as_bytes(), pattern.as_bytes(), character_bytes)? == WANTED))
}

fn like_in_any_case<'a, const WANTED: bool>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let lowered = |text: &str| match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => text.chars().map(lower).collect(),
    };
    let (of, pattern) = (lowered(text(arguments, 0)?), lowered(text(arguments, 1)?));
    Ok(Datum::Bool(matches(of.as_bytes(), pattern.as_bytes(), character_bytes)? == WANTED))
}

fn bytes_like<'a, const WANTED: bool>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Bool(matches(bytes(arguments, 0)?, bytes(arguments, 1)?, |_| 1)? == WANTED))
}

/// Length of the character that begins with a byte.
fn character_bytes(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

/// Whether a text matches a pattern. After a `%`, the rest of the pattern is tried at each place from left to right;
/// places before an earlier `%` need no second look, because it could only skip more.
///
/// # Errors
/// 22025 if the match arrives at a backslash that ends the pattern.
fn matches(text: &[u8], pattern: &[u8], character_bytes: fn(u8) -> usize) -> Result<bool> {
    let unfinished =
        || Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "LIKE pattern must not end with escape character");
    let (mut t, mut p) = (0, 0);
    // Places in the text and behind the `%` in the pattern from where to go on after a mismatch.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let one = text.get(t).copied();
        let is_match = match (pattern.get(p), one) {
            (None, None) => return Ok(true),
            (Some(b'%'), None) => return Ok(pattern[p..].iter().all(|byte| *byte == b'%')),
            (Some(b'%'), Some(_)) => {
                while let Some(wildcard @ (b'%' | b'_')) = pattern.get(p) {
                    if *wildcard == b'_' {
                        let Some(skipped) = text.get(t) else { return Ok(false) };
                        t += character_bytes(*skipped);
                    }
                    p += 1;
                }
                match &pattern[p..] {
                    [] => return Ok(true),
                    [b'\\'] => return Err(unfinished()),
                    _ => {}
                }
                let Some(at) = next_place(text, t, &pattern[p..]) else { return Ok(false) };
                t = at;
                retry = Some((t, p));
                continue;
            }
            // The text is at its end: more of it can only be missing elsewhere, too.
            (Some(_), None) => return Ok(false),
            (Some(b'_'), Some(one)) => {
                t += character_bytes(one);
                p += 1;
                continue;
            }
            (Some(b'\\'), one) => {
                p += 1;
                pattern.get(p).ok_or_else(unfinished)? == &one.unwrap_or(0)
            }
            (Some(wanted), one) => Some(*wanted) == one,
            (None, Some(_)) => false,
        };
        if is_match {
            t += 1;
            p += 1;
            continue;
        }
        let Some((from, behind)) = retry else { return Ok(false) };
        let next = from + text.get(from).map_or(1, |first| character_bytes(*first));
        let Some(at) = next_place(text, next, &pattern[behind..]) else { return Ok(false) };
        (t, p) = (at, behind);
        retry = Some((t, p));
    }
}

/// The next place in the text that has the bytes at the start of the pattern up to its first special character.
fn next_place(text: &[u8], from: usize, pattern: &[u8]) -> Option<usize> {
    let end = memchr::memchr3(b'%', b'_', b'\\', pattern).unwrap_or(pattern.len());
    let found = memchr::memmem::find(text.get(from..)?, &pattern[..end])?;
    Some(from + found)
}

/// The pattern with backslash as its escape character in place of another one.
fn with_backslashes<T: Copy + PartialEq>(
    pattern: impl Iterator<Item = T>,
    mut escape: impl Iterator<Item = T>,
    backslash: T,
) -> Result<Vec<T>> {
    let (escape, more) = (escape.next(), escape.next());
    if more.is_some() {
        return Err(Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    if escape == Some(backslash) {
        return Ok(pattern.collect());
    }
    let mut out = Vec::new();
    let mut is_escaped = false;
    for one in pattern {
        if Some(one) == escape && !is_escaped {
            out.push(backslash);
            is_escaped = true;
            continue;
        }
        if one == backslash && !is_escaped {
            out.push(backslash);
        }
        out.push(one);
        is_escaped = false;
    }
    Ok(out)
}
