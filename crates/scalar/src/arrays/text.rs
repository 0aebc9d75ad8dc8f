//! Text forms of arrays and of `int2vector` and `oidvector`.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, ArrayDimension, Datum, Error, Result, SqlState};

use super::{DIMENSIONS_MAX, check_bounds, element_count, too_many_dimensions};
use crate::context::Context;
use crate::registry;

/// `box`, whose arrays separate elements by semicolons.
const BOX: TypeId = TypeId(603);

pub(super) fn delimiter(element: TypeId) -> char {
    if element == BOX { ';' } else { ',' }
}

/// White space of the array syntax.
fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn malformed(text: &str, detail: impl Into<String>) -> Error {
    let message = format!("malformed array literal: \"{text}\"");
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}

/// Reads an array.
pub(super) fn array_input<'a>(text: &str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let no_element = || Error::unsupported(format!("cannot accept a value of type {}", builtin().type_name(ty)));
    let element = builtin().element_of(ty).ok_or_else(no_element)?;
    let (explicit, body) = explicit_dimensions(text)?;
    let body = body.trim_start_matches(is_space);
    if !body.starts_with('{') {
        return Err(malformed(
            text,
            match explicit {
                None => "Array value must start with \"{\" or dimension information.",
                Some(_) => "Array contents must start with \"{\".",
            },
        ));
    }
    let Contents { lengths, elements } = Parser { text, delimiter: delimiter(element) }.contents(body)?;
    let dimensions = dimensions(text, &lengths, explicit)?;
    if element_count(&dimensions)? == 0 {
        return Ok(Datum::Array(Arc::new(Array::of(element.0, Vec::new()))));
    }
    check_bounds(&dimensions)?;
    let items = elements.iter().map(|item| match item {
        None => Ok(Datum::Null),
        Some(item) => registry::input(item, element, typmod, ctx),
    });
    let items = items.collect::<Result<_>>()?;
    Ok(Datum::Array(Arc::new(Array { element: element.0, dimensions, items })))
}

/// The dimensions of the contents, which those in front of it must match.
fn dimensions(text: &str, lengths: &[i32], explicit: Option<Vec<ArrayDimension>>) -> Result<Box<[ArrayDimension]>> {
    match explicit {
        None => Ok(lengths.iter().map(|length| ArrayDimension { length: *length, lower: 1 }).collect()),
        Some(explicit) if explicit.iter().map(|one| one.length).eq(lengths.iter().copied()) => Ok(explicit.into()),
        Some(_) => Err(malformed(text, "Specified array dimensions do not match array contents.")),
    }
}

/// The dimensions of a prefix such as `[2:3][1:4]=`, if there is one, and the text behind it.
fn explicit_dimensions(text: &str) -> Result<(Option<Vec<ArrayDimension>>, &str)> {
    let mut rest = text.trim_start_matches(is_space);
    let mut found = Vec::new();
    while let Some(after) = rest.strip_prefix('[') {
        if found.len() == DIMENSIONS_MAX {
            return Err(too_many_dimensions(found.len() + 1));
        }
        let introduces = || malformed(text, "\"[\" must introduce explicitly-specified array dimensions.");
        let (first, after) = bound(after).ok_or_else(introduces)?;
        let (lower, upper, after) = match after.strip_prefix(':') {
            None => (1, first, after),
            Some(after) => {
                let missing = || malformed(text, "Missing array dimension value.");
                let (upper, after) = bound(after).ok_or_else(missing)?;
                (first, upper, after)
            }
        };
        let unclosed = || malformed(text, "Missing \"]\" after array dimensions.");
        let after = after.strip_prefix(']').ok_or_else(unclosed)?;
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(Error::new(super::ARRAY_SUBSCRIPT, message));
        }
        // A length that does not fit matches no contents.
        let length = i32::try_from(i64::from(upper) - i64::from(lower) + 1).unwrap_or(i32::MAX);
        found.push(ArrayDimension { length, lower });
        rest = after.trim_start_matches(is_space);
    }
    if found.is_empty() {
        return Ok((None, rest));
    }
    let no_equals = || malformed(text, "Missing \"=\" after array dimensions.");
    Ok((Some(found), rest.strip_prefix('=').ok_or_else(no_equals)?))
}

/// A signed number at the start of a text; one beyond the range becomes the limit.
fn bound(text: &str) -> Option<(i32, &str)> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(text.len() - digits.len() + length);
    let limit = if number.starts_with('-') { i32::MIN } else { i32::MAX };
    (length > 0).then(|| (number.parse().unwrap_or(limit), rest))
}

/// The text between the outermost braces.
struct Contents {
    /// Lengths of the dimensions; none for the empty array.
    lengths: Vec<i32>,
    /// Texts of the elements; `None` is NULL.
    elements: Vec<Option<String>>,
}

/// The last token of the array syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Open,
    Element,
    Close,
    /// A delimiter, behind an element or behind an array.
    Delimiter {
        nested: bool,
    },
}

struct Parser<'t> {
    text: &'t str,
    delimiter: char,
}

impl Parser<'_> {
    fn contents(&self, body: &str) -> Result<Contents> {
        let mut last = None;
        let mut elements = Vec::new();
        // Numbers of items so far on the open levels, and the lengths of the levels that were closed once.
        let mut counts: Vec<i32> = Vec::new();
        let mut lengths: Vec<Option<i32>> = Vec::new();
        let mut rest = body;
        while let Some(one) = rest.chars().next() {
            let after = &rest[one.len_utf8()..];
            rest = match one {
                one if is_space(one) => after,
                '{' => {
                    if !matches!(last, None | Some(Last::Open | Last::Delimiter { nested: true })) {
                        return Err(self.unexpected(one));
                    }
                    if counts.len() == DIMENSIONS_MAX {
                        return Err(too_many_dimensions(counts.len() + 1));
                    }
                    counts.push(0);
                    lengths.resize(lengths.len().max(counts.len()), None);
                    last = Some(Last::Open);
                    after
                }
                '}' => {
                    let is_empty = last == Some(Last::Open) && counts.len() == 1 && lengths.len() == 1;
                    if !is_empty && !matches!(last, Some(Last::Element | Last::Close)) {
                        return Err(self.unexpected(one));
                    }
                    let count = counts.pop().unwrap_or_default();
                    self.check_length(&mut lengths[counts.len()], count)?;
                    last = Some(Last::Close);
                    let Some(outer) = counts.last_mut() else {
                        return self.finished(after, &lengths, elements);
                    };
                    *outer = outer.saturating_add(1);
                    after
                }
                one if one == self.delimiter => {
                    if !matches!(last, Some(Last::Element | Last::Close)) {
                        return Err(self.unexpected(one));
                    }
                    last = Some(Last::Delimiter { nested: last == Some(Last::Close) });
                    after
                }
                _ => {
                    if !matches!(last, Some(Last::Open | Last::Delimiter { nested: false })) {
                        return Err(malformed(self.text, "Unexpected array element."));
                    }
                    let (element, after) = self.element(rest)?;
                    // Elements are on the innermost level only.
                    if counts.len() != lengths.len() {
                        return Err(self.mismatch());
                    }
                    elements.push(element);
                    if let Some(count) = counts.last_mut() {
                        *count = count.saturating_add(1);
                    }
                    last = Some(Last::Element);
                    after
                }
            };
        }
        Err(self.unfinished())
    }

    fn finished(&self, rest: &str, lengths: &[Option<i32>], elements: Vec<Option<String>>) -> Result<Contents> {
        if !rest.trim_start_matches(is_space).is_empty() {
            return Err(malformed(self.text, "Junk after closing right brace."));
        }
        let lengths: Vec<i32> = lengths.iter().map(|length| length.unwrap_or_default()).collect();
        let count = lengths.iter().try_fold(1_usize, |count, length| count.checked_mul(*length as usize));
        match count {
            Some(0) => Ok(Contents { lengths: Vec::new(), elements }),
            // `{{1},{{2}}}` has as many levels as its deepest part, but not everywhere.
            count if count != Some(elements.len()) => Err(self.mismatch()),
            _ => Ok(Contents { lengths, elements }),
        }
    }

    fn check_length(&self, length: &mut Option<i32>, count: i32) -> Result<()> {
        match length {
            Some(length) if *length != count => Err(self.mismatch()),
            _ => {
                *length = Some(count);
                Ok(())
            }
        }
    }

    /// The element at the start of a text, and the text behind it.
    fn element<'r>(&self, rest: &'r str) -> Result<(Option<String>, &'r str)> {
        let mut element = String::new();
        let quoted = rest.starts_with('"');
        let mut chars = rest.char_indices().skip(usize::from(quoted));
        // Length of the element without the white space at its end, and whether it has an escape.
        let (mut kept, mut escaped) = (0, false);
        while let Some((at, one)) = chars.next() {
            match one {
                '\\' => {
                    let (_, one) = chars.next().ok_or_else(|| self.unfinished())?;
                    element.push(one);
                    (kept, escaped) = (element.len(), true);
                }
                '"' if quoted => return Ok((Some(element), &rest[at + 1..])),
                _ if quoted => element.push(one),
                '"' => return Err(malformed(self.text, "Unexpected array element.")),
                '{' => return Err(self.unexpected(one)),
                _ if one == '}' || one == self.delimiter => {
                    element.truncate(kept);
                    let is_null = !escaped && element.eq_ignore_ascii_case("NULL");
                    return Ok(((!is_null).then_some(element), &rest[at..]));
                }
                _ => {
                    element.push(one);
                    kept = if is_space(one) { kept } else { element.len() };
                }
            }
        }
        Err(self.unfinished())
    }

    fn unexpected(&self, one: char) -> Error {
        malformed(self.text, format!("Unexpected \"{one}\" character."))
    }

    fn unfinished(&self) -> Error {
        malformed(self.text, "Unexpected end of input.")
    }

    fn mismatch(&self) -> Error {
        malformed(self.text, "Multidimensional arrays must have sub-arrays with matching dimensions.")
    }
}

/// Writes an array.
pub(super) fn array_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Array(array) = datum else { return Err(Error::bug("an array that is none")) };
    if array.items.is_empty() {
        text.push_str("{}");
        return Ok(());
    }
    if array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        write_bounds(&array.dimensions, text);
        text.push('=');
    }
    let element = TypeId(array.element);
    let delimiter = delimiter(element);
    let mut item_text = String::new();
    // An array begins and ends with each item whose number is a multiple of its number of items.
    let sizes = inner_sizes(&array.dimensions);
    for (number, item) in array.items.iter().enumerate() {
        if number > 0 {
            text.push(delimiter);
        }
        text.extend(sizes.iter().filter(|size| number.is_multiple_of(**size)).map(|_| '{'));
        if item.is_null() {
            text.push_str("NULL");
        } else {
            item_text.clear();
            registry::output(item, element, ctx, &mut item_text)?;
            write_item(&item_text, delimiter, text);
        }
        text.extend(sizes.iter().filter(|size| (number + 1).is_multiple_of(**size)).map(|_| '}'));
    }
    Ok(())
}

/// The bounds of dimensions: `[2:3][1:4]`.
pub(super) fn write_bounds(dimensions: &[ArrayDimension], text: &mut String) {
    for dimension in dimensions {
        let upper = i64::from(dimension.lower) + i64::from(dimension.length) - 1;
        text.push_str(&format!("[{}:{upper}]", dimension.lower));
    }
}

/// For each dimension the number of elements of an array of this and all inner dimensions.
fn inner_sizes(dimensions: &[ArrayDimension]) -> Vec<usize> {
    let mut size = 1;
    let mut sizes = vec![1; dimensions.len()];
    for (dimension, slot) in dimensions.iter().zip(&mut sizes).rev() {
        size *= dimension.length.max(1) as usize;
        *slot = size;
    }
    sizes
}

fn write_item(item: &str, delimiter: char, text: &mut String) {
    let special = |one: char| matches!(one, '"' | '\\' | '{' | '}') || one == delimiter || is_space(one);
    if !item.is_empty() && !item.eq_ignore_ascii_case("NULL") && !item.contains(special) {
        return text.push_str(item);
    }
    text.push('"');
    for one in item.chars() {
        if matches!(one, '"' | '\\') {
            text.push('\\');
        }
        text.push(one);
    }
    text.push('"');
}

/// Reads `int2vector` or `oidvector`: numbers separated by white space.
pub(super) fn vector_input<'a>(text: &str, ty: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let element = if ty == TypeId::OIDVECTOR { TypeId::OID } else { TypeId::INT2 };
    let items = text.split(is_space).filter(|item| !item.is_empty());
    let items: Vec<Datum<'a>> = items.map(|item| registry::input(item, element, -1, ctx)).collect::<Result<_>>()?;
    // Vectors have subscripts from 0, and one dimension even without elements.
    let dimensions = Box::new([ArrayDimension { length: items.len() as i32, lower: 0 }]);
    Ok(Datum::Array(Arc::new(Array { element: element.0, dimensions, items: items.into() })))
}

/// Writes `int2vector` or `oidvector`.
pub(super) fn vector_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Array(array) = datum else { return Err(Error::bug("a vector that is none")) };
    for (at, item) in array.items.iter().enumerate() {
        if at > 0 {
            text.push(' ');
        }
        registry::output(item, TypeId(array.element), ctx, text)?;
    }
    Ok(())
}
