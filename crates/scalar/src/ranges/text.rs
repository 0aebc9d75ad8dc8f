//! Text forms of ranges and multiranges.

use catalog::TypeId;
use model::{Datum, Error, Range, RangeBound, Result, SqlState};

use super::element_of;
use super::span::{Span, joined, multirange_datum, range_datum};
use crate::context::Context;
use crate::registry;

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Reads a range such as `[1,5)` or `empty`.
pub(super) fn range_input<'a>(text: &str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    span_of(text, element_of(ty)?, typmod, ctx).map(range_datum)
}

fn span_of<'a>(text: &str, element: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Option<Span<'a>>> {
    let Some([(lower, lower_inclusive), (upper, upper_inclusive)]) = bounds(text)? else { return Ok(None) };
    let read = |bound: Option<String>| match bound {
        Some(bound) => registry::input(&bound, element, typmod, ctx),
        None => Ok(Datum::Null),
    };
    Span::new((read(lower)?, lower_inclusive), (read(upper)?, upper_inclusive))
}

/// The text of a bound, `None` if it is infinite, and whether it is inclusive.
type BoundText = (Option<String>, bool);

/// The bounds of a range; `None` for the empty one.
fn bounds(text: &str) -> Result<Option<[BoundText; 2]>> {
    let malformed = |detail: &str| {
        let message = format!("malformed range literal: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    };
    let unfinished = || malformed("Unexpected end of input.");
    let trimmed = text.trim_matches(is_space);
    if let Some(rest) = without_keyword(trimmed) {
        return if rest.is_empty() { Ok(None) } else { Err(malformed("Junk after \"empty\" key word.")) };
    }
    let Some(rest) = trimmed.strip_prefix(['[', '(']) else {
        return Err(malformed("Missing left parenthesis or bracket."));
    };
    let (lower, rest) = bound(rest).ok_or_else(unfinished)?;
    let rest = rest.strip_prefix(',').ok_or_else(|| malformed("Missing comma after lower bound."))?;
    let (upper, rest) = bound(rest).ok_or_else(unfinished)?;
    if rest.starts_with(',') {
        return Err(malformed("Too many commas."));
    }
    if rest.len() > 1 {
        return Err(malformed("Junk after right parenthesis or bracket."));
    }
    Ok(Some([(lower, trimmed.starts_with('[')), (upper, rest == "]")]))
}

/// The text behind the word `empty`.
fn without_keyword(text: &str) -> Option<&str> {
    let (word, rest) = text.split_at_checked("empty".len())?;
    word.eq_ignore_ascii_case("empty").then_some(rest)
}

/// The bound at the start of a text, and the text from its `,`, `)` or `]`; `None` if there is none of these.
fn bound(text: &str) -> Option<(Option<String>, &str)> {
    if text.starts_with([',', ')', ']']) {
        return Some((None, text));
    }
    let mut bound = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, one)) = chars.next() {
        match one {
            ',' | ')' | ']' if !quoted => return Some((Some(bound), &text[at..])),
            '\\' => bound.push(chars.next()?.1),
            '"' if quoted && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                bound.push('"');
            }
            '"' => quoted = !quoted,
            one => bound.push(one),
        }
    }
    None
}

/// Writes a range.
pub(super) fn range_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    match datum {
        Datum::Range(range) => write_range(range, ctx, text),
        _ => Err(Error::bug("a range that is none")),
    }
}

fn write_range(range: &Range<'_>, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Range::Between(lower, upper) = range else {
        text.push_str("empty");
        return Ok(());
    };
    text.push(if lower.inclusive { '[' } else { '(' });
    write_bound(lower, ctx, text)?;
    text.push(',');
    write_bound(upper, ctx, text)?;
    text.push(if upper.inclusive { ']' } else { ')' });
    Ok(())
}

fn write_bound(bound: &RangeBound<'_>, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let ty = match bound.value {
        Datum::Null => return Ok(()),
        Datum::Int4(_) => TypeId::INT4,
        Datum::Int8(_) => TypeId::INT8,
        Datum::Numeric(_) => TypeId::NUMERIC,
        Datum::Date(_) => TypeId::DATE,
        Datum::Timestamp(_) => TypeId::TIMESTAMP,
        Datum::Timestamptz(_) => TypeId::TIMESTAMPTZ,
        _ => return Err(Error::bug("a bound of another type")),
    };
    let start = text.len();
    registry::output(&bound.value, ty, ctx, text)?;
    let special = |one: char| matches!(one, '"' | '\\' | '(' | ')' | '[' | ']' | ',') || is_space(one);
    // Texts of these types have neither quotes nor backslashes in them.
    if text[start..].is_empty() || text[start..].contains(special) {
        text.insert(start, '"');
        text.push('"');
    }
    Ok(())
}

/// Reads a multirange such as `{[1,5),[7,9)}`.
pub(super) fn multirange_input<'a>(text: &str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let element = element_of(ty)?;
    let mut spans = Vec::new();
    for range in ranges(text)? {
        spans.extend(span_of(range, element, typmod, ctx)?);
    }
    joined(spans).map(multirange_datum)
}

/// The texts of the ranges of a multirange.
fn ranges(text: &str) -> Result<Vec<&str>> {
    let malformed = |detail: &str| {
        let message = format!("malformed multirange literal: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    };
    let unfinished = || malformed("Unexpected end of input.");
    let skip = |text| str::trim_start_matches(text, is_space);
    let rest = skip(text).strip_prefix('{').ok_or_else(|| malformed("Missing left brace."))?;
    let mut rest = skip(rest);
    let mut found = Vec::new();
    if !rest.starts_with('}') {
        loop {
            let length = match without_keyword(rest) {
                Some(after) => rest.len() - after.len(),
                None if rest.is_empty() => return Err(unfinished()),
                None if rest.starts_with(['[', '(']) => range_length(rest).ok_or_else(unfinished)?,
                None => return Err(malformed("Expected range start.")),
            };
            found.push(&rest[..length]);
            rest = skip(&rest[length..]);
            match rest.strip_prefix(',') {
                Some(after) => rest = skip(after),
                None if rest.starts_with('}') => break,
                None if rest.is_empty() => return Err(unfinished()),
                None => return Err(malformed("Expected comma or end of multirange.")),
            }
        }
    }
    if skip(&rest[1..]).is_empty() { Ok(found) } else { Err(malformed("Junk after closing right brace.")) }
}

/// Length of the range at the start of a text, to its `)` or `]`.
fn range_length(text: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    let end = text.bytes().position(|byte| {
        let ends = !quoted && !escaped && matches!(byte, b')' | b']');
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    Some(end? + 1)
}

/// Writes a multirange.
pub(super) fn multirange_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Multirange(ranges) = datum else { return Err(Error::bug("a multirange that is none")) };
    text.push('{');
    for (at, range) in ranges.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_range(range, ctx, text)?;
    }
    text.push('}');
    Ok(())
}
