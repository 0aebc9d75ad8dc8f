//! One-dimensional arrays, vectors (`int2vector`) and records, in text and binary format.

use std::borrow::Cow;

use model::{Error, Result, SqlState};

use crate::backend::{fixed, value};
use crate::types::Oid;

/// Writer of an array in text format, `{a,"b c",NULL}`.
pub struct ArrayText<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

/// Starts an array in text format.
pub fn array_text(out: &mut Vec<u8>) -> ArrayText<'_> {
    out.push(b'{');
    ArrayText { out, empty: true }
}

impl ArrayText<'_> {
    fn separate(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }

    /// Appends a NULL element.
    pub fn null(&mut self) {
        self.separate();
        self.out.extend_from_slice(b"NULL");
    }

    /// Appends the element that `write` produces, quoted if necessary.
    pub fn element(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.separate();
        let start = self.out.len();
        write(self.out);
        let element = &self.out[start..];
        if element.is_empty() || element.eq_ignore_ascii_case(b"NULL") || element.iter().any(|byte| is_special(*byte)) {
            quote(self.out, start, b'\\');
        }
    }

    /// Appends an inner array, which is never quoted.
    pub fn nested(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.separate();
        write(self.out);
    }

    /// Closes the array.
    pub fn finish(self) {
        self.out.push(b'}');
    }
}

/// Whether an array element with this byte must be quoted.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Quotes `out[start..]` in place: a quote is escaped with `escape`, a backslash is doubled.
fn quote(out: &mut Vec<u8>, start: usize, escape: u8) {
    let escapes = out[start..].iter().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    let mut from = out.len();
    out.resize(from + escapes + 2, b'"');
    let mut to = out.len() - 1;
    // Backwards, so that no byte is overwritten before it is moved.
    while from > start {
        from -= 1;
        to -= 1;
        let byte = out[from];
        out[to] = byte;
        if matches!(byte, b'"' | b'\\') {
            to -= 1;
            out[to] = if byte == b'"' { escape } else { b'\\' };
        }
    }
    out[start] = b'"';
}

/// Starts an array of `len` elements in binary format; append each element with its length.
/// `nulls`: whether any element is NULL.
pub fn array_binary_header(out: &mut Vec<u8>, element: Oid, len: usize, nulls: bool) {
    out.extend_from_slice(&u32::from(len > 0).to_be_bytes());
    out.extend_from_slice(&u32::from(nulls).to_be_bytes());
    out.extend_from_slice(&element.to_be_bytes());
    if len > 0 {
        out.extend_from_slice(&(len as u32).to_be_bytes());
        out.extend_from_slice(&1u32.to_be_bytes());
    }
}

/// Writer of a record in text format, `(1,"a b",)`.
pub struct RecordText<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

/// Starts a record in text format.
pub fn record_text(out: &mut Vec<u8>) -> RecordText<'_> {
    out.push(b'(');
    RecordText { out, empty: true }
}

impl RecordText<'_> {
    /// Appends a NULL field: an empty one.
    pub fn null(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }

    /// Appends the field that `write` produces, quoted if necessary.
    pub fn field(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.null();
        let start = self.out.len();
        write(self.out);
        let field = &self.out[start..];
        let special = |byte: &u8| matches!(byte, b'(' | b')') || (is_special(*byte) && !matches!(byte, b'{' | b'}'));
        if field.is_empty() || field.iter().any(special) {
            quote(self.out, start, b'"');
        }
    }

    /// Closes the record.
    pub fn finish(self) {
        self.out.push(b')');
    }
}

/// Appends a record field in binary format; `None`: NULL. The field count (i32) comes first.
pub fn record_binary_field(out: &mut Vec<u8>, ty: Oid, write: Option<impl FnOnce(&mut Vec<u8>)>) {
    out.extend_from_slice(&ty.to_be_bytes());
    match write {
        Some(write) => value(out, write),
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Appends an `int2vector` in text format: numbers separated by blanks.
pub fn int2vector_text(out: &mut Vec<u8>, values: &[i16]) {
    for (at, number) in values.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        crate::value::int_text(out, i64::from(*number));
    }
}

/// Appends an `int2vector` in binary format: an array with lower bound 0.
pub fn int2vector_binary(out: &mut Vec<u8>, values: &[i16]) {
    for word in [1, 0, crate::types::oid::INT2, values.len() as u32, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for number in values {
        fixed(out, number.to_be_bytes());
    }
}

fn malformed(text: &str, why: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("malformed array literal: \"{}\"", crate::value::excerpt(text)),
    )
    .with_detail(why)
}

/// Parses an array in text format; `None` is a NULL element.
///
/// # Errors
/// 22P02 for malformed text, 0A000 for more than one dimension and for bounds like `[2:3]=`.
pub fn parse_array_text(text: &str) -> Result<Vec<Option<Cow<'_, str>>>> {
    let inner = crate::value::trim(text);
    if inner.starts_with('[') {
        return Err(Error::unsupported("arrays with bounds are not supported"));
    }
    let inner = inner.strip_prefix('{').ok_or_else(|| malformed(text, "it must start with {"))?;
    let mut elements = Vec::new();
    let mut rest = crate::value::trim(inner);
    if let Some(after) = rest.strip_prefix('}') {
        return if after.is_empty() { Ok(elements) } else { Err(malformed(text, "text after the closing }")) };
    }
    loop {
        let (element, tail) = next_element(text, rest)?;
        elements.push(element);
        rest = match tail.as_bytes().first() {
            Some(b',') => tail[1..].trim_start(),
            Some(b'}') if tail.len() == 1 => return Ok(elements),
            Some(b'}') => return Err(malformed(text, "text after the closing }")),
            _ => return Err(malformed(text, "an element ends neither with , nor with }")),
        };
    }
}

/// Parses one element; the rest starts at its `,` or `}`.
fn next_element<'a>(text: &str, rest: &'a str) -> Result<(Option<Cow<'a, str>>, &'a str)> {
    match rest.as_bytes().first() {
        Some(b'{') => Err(Error::unsupported("arrays of arrays are not supported")),
        Some(b'"') => {
            let (element, tail) = quoted(text, &rest[1..])?;
            Ok((Some(element), tail.trim_start()))
        }
        _ => {
            let end = unquoted_end(rest).ok_or_else(|| malformed(text, "the closing } is missing"))?;
            let element = crate::value::trim(&rest[..end]);
            if element.is_empty() {
                return Err(malformed(text, "an element is missing"));
            }
            let null = element.eq_ignore_ascii_case("NULL");
            Ok(((!null).then(|| unescape(element)), &rest[end..]))
        }
    }
}

/// Length of an unquoted element. A backslash escapes the next byte.
fn unquoted_end(rest: &str) -> Option<usize> {
    let mut escaped = false;
    rest.bytes().position(|byte| {
        let ends = !escaped && matches!(byte, b',' | b'}');
        escaped = !escaped && byte == b'\\';
        ends
    })
}

fn quoted<'a>(text: &str, rest: &'a str) -> Result<(Cow<'a, str>, &'a str)> {
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = !escaped && byte == b'"';
        escaped = !escaped && byte == b'\\';
        ends
    });
    let end = end.ok_or_else(|| malformed(text, "a quote is not closed"))?;
    Ok((unescape(&rest[..end]), &rest[end + 1..]))
}

fn unescape(element: &str) -> Cow<'_, str> {
    if !element.contains('\\') {
        return Cow::Borrowed(element);
    }
    let mut out = String::with_capacity(element.len());
    let mut chars = element.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Cow::Owned(out)
}

/// An array in binary format.
#[derive(Debug)]
pub struct BinaryArray<'a> {
    /// OID of the elements' type.
    pub element: Oid,
    /// Length and lower bound of each dimension.
    pub dimensions: Vec<(i32, i32)>,
    /// The elements, those of the last dimension side by side; `None` is NULL.
    pub elements: Vec<Option<&'a [u8]>>,
}

impl BinaryArray<'_> {
    /// Whether it is a list: one dimension from 1, or none.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.dimensions.as_slice(), [] | [(_, 1)])
    }
}

/// Maximum number of dimensions, as in PostgreSQL.
const DIMENSIONS_MAX: u32 = 6;

/// Parses an array of any number of dimensions in binary format.
///
/// # Errors
/// 22P03 for malformed bytes, 54000 for more than six dimensions.
pub fn parse_array_binary(bytes: &[u8]) -> Result<BinaryArray<'_>> {
    let malformed =
        |what: &str| Error::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("invalid binary array: {what}"));
    let mut rest = bytes;
    let word = |rest: &mut &[u8]| {
        let (word, tail) = rest.split_first_chunk::<4>().ok_or_else(|| malformed("it ends too early"))?;
        *rest = tail;
        Ok::<u32, Error>(u32::from_be_bytes(*word))
    };
    let count = word(&mut rest)?;
    word(&mut rest)?;
    let element = word(&mut rest)?;
    if count > DIMENSIONS_MAX {
        let text = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
        return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
    }
    let mut dimensions = Vec::new();
    let mut items = usize::from(count > 0);
    for _ in 0..count {
        let (length, lower) = (word(&mut rest)?.cast_signed(), word(&mut rest)?.cast_signed());
        let all = usize::try_from(length).ok().filter(|_| lower.checked_add(length).is_some());
        items = all.and_then(|all| items.checked_mul(all)).ok_or_else(|| malformed("a dimension is out of range"))?;
        dimensions.push((length, lower));
    }
    // Each element has a length of four bytes.
    if items > rest.len() / 4 {
        return Err(malformed("it ends too early"));
    }
    let mut elements = Vec::with_capacity(items);
    for _ in 0..items {
        let length = word(&mut rest)?.cast_signed();
        let Ok(length) = usize::try_from(length) else {
            elements.push(None);
            continue;
        };
        let (value, tail) = rest.split_at_checked(length).ok_or_else(|| malformed("an element ends too early"))?;
        elements.push(Some(value));
        rest = tail;
    }
    if !rest.is_empty() {
        return Err(malformed("bytes after its last element"));
    }
    if elements.is_empty() {
        dimensions.clear();
    }
    Ok(BinaryArray { element, dimensions, elements })
}

#[cfg(test)]
#[path = "array_tests.rs"]
mod tests;
