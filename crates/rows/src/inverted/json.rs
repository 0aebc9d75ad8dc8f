//! Keys of jsonb, from its canonical text. There equal strings have equal texts, and equal numbers differ only in zeros at
//! the end of the fraction, so no string is unescaped and no number computed.

use model::{Error, Result};

use super::{Class, Column, Kind};

/// Appends the keys of a value that is stored.
pub(super) fn push_keys(column: Column, text: &str, out: &mut Vec<u64>) -> Result<()> {
    walk(column, text, &mut |part| match part {
        Part::Name(name) if column.class == Class::Json => out.push(column.hash(Kind::Name, 0, name)),
        Part::Name(_) | Part::Container { .. } => {}
        Part::Scalar(key) => out.push(key),
    })
}

/// Appends keys of every value that contains this one.
pub(super) fn push_sought(column: Column, text: &str, out: &mut Vec<u64>) -> Result<()> {
    let mut names = Vec::new();
    let mut has_empty = false;
    walk(column, text, &mut |part| match part {
        Part::Name(name) if column.class == Class::Json => names.push(column.hash(Kind::Name, 0, name)),
        Part::Name(_) => {}
        Part::Container { is_empty } => has_empty |= is_empty,
        Part::Scalar(key) => out.push(key),
    })?;
    // A scalar's path begins with a name, so only an empty container needs the name besides.
    if has_empty {
        out.extend(names);
    }
    Ok(())
}

/// The key of a name or string in the outermost container.
pub(super) fn name(column: Column, name: &str) -> u64 {
    column.hash(Kind::Name, 0, escaped(name).as_bytes())
}

/// The key of a scalar behind object keys.
pub(super) fn at_path<'p>(column: Column, path: impl IntoIterator<Item = &'p str>, text: &str) -> Result<u64> {
    let path = path.into_iter().fold(ROOT, |path, name| below(path, escaped(name).as_bytes()));
    let mut found = None;
    let mut input = Input { bytes: text.as_bytes(), at: 0 };
    input.skip();
    if !matches!(input.next()?, b'{' | b'[') {
        found = Some(input.scalar(column, path)?.0);
    }
    found.ok_or_else(malformed)
}

/// A string as canonical texts write it, without quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// A part of a value that a walk finds.
enum Part<'a> {
    /// A name of the outermost object, a string of the outermost array, or the outermost string.
    Name(&'a [u8]),
    /// A container.
    Container { is_empty: bool },
    /// The key of a scalar.
    Scalar(u64),
}

/// The path of the outermost value.
const ROOT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The path behind one more object key.
fn below(path: u64, name: &[u8]) -> u64 {
    Column { at: 0, class: Class::Json }.hash(Kind::Name, path, name)
}

fn malformed() -> Error {
    Error::corrupt("a jsonb value is no JSON")
}

/// Calls `f` with the parts of a canonical text, in order. Does not recurse, so no depth is too great.
fn walk<'a>(column: Column, text: &'a str, f: &mut dyn FnMut(Part<'a>)) -> Result<()> {
    let mut input = Input { bytes: text.as_bytes(), at: 0 };
    // Open containers: whether each is an object, and the path of the parent of its members.
    let mut open: Vec<(bool, u64)> = Vec::new();
    loop {
        // A value, with its name before it in an object.
        input.skip();
        let path = match open.last() {
            None => ROOT,
            Some((false, path)) => *path,
            Some((true, path)) => {
                let name = input.string()?;
                if open.len() == 1 {
                    f(Part::Name(name));
                }
                input.expect(b':')?;
                input.skip();
                below(*path, name)
            }
        };
        match input.next()? {
            byte @ (b'{' | b'[') => {
                input.at += 1;
                input.skip();
                let is_empty = matches!(input.next()?, b'}' | b']');
                f(Part::Container { is_empty });
                open.push((byte == b'{', path));
                if !is_empty {
                    continue;
                }
            }
            _ => {
                let (key, string) = input.scalar(column, path)?;
                if let Some(string) = string
                    && matches!(open.as_slice(), [] | [(false, _)])
                {
                    f(Part::Name(string));
                }
                f(Part::Scalar(key));
            }
        }
        // The next value follows, or the end of containers.
        loop {
            input.skip();
            match open.last() {
                None if input.at == input.bytes.len() => return Ok(()),
                None => return Err(malformed()),
                Some((is_object, _)) => {
                    let end = if *is_object { b'}' } else { b']' };
                    match input.next()? {
                        b',' => {
                            input.at += 1;
                            break;
                        }
                        byte if byte == end => {
                            input.at += 1;
                            open.pop();
                        }
                        _ => return Err(malformed()),
                    }
                }
            }
        }
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn next(&self) -> Result<u8> {
        self.bytes.get(self.at).copied().ok_or_else(malformed)
    }

    fn skip(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.skip();
        if self.next()? != byte {
            return Err(malformed());
        }
        self.at += 1;
        Ok(())
    }

    /// The text of a string between its quotes.
    fn string(&mut self) -> Result<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        let text = self.bytes.get(start..self.at).ok_or_else(malformed)?;
        self.at += 1;
        Ok(text)
    }

    /// The key of a scalar, and its text if it is a string.
    fn scalar(&mut self, column: Column, path: u64) -> Result<(u64, Option<&'a [u8]>)> {
        match self.next()? {
            b'"' => {
                let text = self.string()?;
                Ok((column.hash(Kind::String, path, text), Some(text)))
            }
            b't' | b'f' | b'n' => {
                let word = self.token();
                if !matches!(word, b"true" | b"false" | b"null") {
                    return Err(malformed());
                }
                Ok((column.hash(Kind::Word, path, word), None))
            }
            b'-' | b'0'..=b'9' => Ok((column.hash(Kind::Number, path, shortest(self.token())), None)),
            _ => Err(malformed()),
        }
    }

    fn token(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\n' | b'\t' | b'\r'));
        let token = &rest[..end.unwrap_or(rest.len())];
        self.at += token.len();
        token
    }
}

/// A decimal number without zeros at the end of its fraction.
fn shortest(number: &[u8]) -> &[u8] {
    if !number.contains(&b'.') {
        return number;
    }
    let end = number.iter().rposition(|byte| *byte != b'0').map_or(0, |last| last + 1);
    let number = &number[..end];
    number.strip_suffix(b".").unwrap_or(number)
}
