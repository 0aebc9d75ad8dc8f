//! Keys of jsonb, from its canonical text: objects are behind arrays, booleans, numbers, strings and null; containers
//! with more parts are behind those with fewer.

use crate::sort_key::{push_bytes, push_numeric};
use crate::{Error, Numeric, Result};

/// Maximum depth of containers, which bounds the stack.
const DEPTH_MAX: usize = 256;

/// Appends the key of a canonical text.
pub(super) fn push(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let mut input = Input { rest: text.trim_ascii() };
    match input.rest.bytes().next() {
        Some(b'{') => out.push(1),
        Some(b'[') => {
            // An array alone is compared by its length, and behind a scalar, which counts as one element.
            out.push(0);
            let mut parts = Vec::new();
            let count = input.array(0, &mut parts)?;
            out.extend(count.to_be_bytes());
            out.push(1);
            out.extend(parts);
            return Ok(());
        }
        _ => {
            out.push(0);
            out.extend(1_u32.to_be_bytes());
            out.push(0);
        }
    }
    input.value(0, out)
}

struct Input<'a> {
    rest: &'a str,
}

fn malformed() -> Error {
    Error::corrupt("a jsonb value is no JSON")
}

impl Input<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\n', '\t', '\r']);
    }

    fn accept(&mut self, text: &str) -> bool {
        self.skip();
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn value(&mut self, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        self.skip();
        match self.rest.bytes().next() {
            Some(b'"') => {
                out.push(1);
                push_bytes(self.string()?.as_bytes(), out);
            }
            Some(b'[') => {
                let mut parts = Vec::new();
                let count = self.array(depth, &mut parts)?;
                out.push(0x10);
                out.extend(count.to_be_bytes());
                out.extend(parts);
            }
            Some(b'{') => {
                let mut parts = Vec::new();
                let count = self.object(depth, &mut parts)?;
                out.push(0x11);
                out.extend(count.to_be_bytes());
                out.extend(parts);
            }
            _ if self.accept("null") => out.push(0),
            _ if self.accept("false") => out.extend([3, 0]),
            _ if self.accept("true") => out.extend([3, 1]),
            _ => {
                let end = self.rest.find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'));
                let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                let number: Numeric = number.parse().map_err(|_| malformed())?;
                self.rest = rest;
                out.push(2);
                push_numeric(&number, out);
            }
        }
        Ok(())
    }

    fn array(&mut self, depth: usize, out: &mut Vec<u8>) -> Result<u32> {
        self.parts(depth, "[", "]", |input| input.value(depth + 1, out))
    }

    fn object(&mut self, depth: usize, out: &mut Vec<u8>) -> Result<u32> {
        self.parts(depth, "{", "}", |input| {
            input.skip();
            out.push(1);
            push_bytes(input.string()?.as_bytes(), out);
            if !input.accept(":") {
                return Err(malformed());
            }
            input.value(depth + 1, out)
        })
    }

    fn parts(
        &mut self,
        depth: usize,
        open: &str,
        close: &str,
        mut part: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<u32> {
        if depth > DEPTH_MAX {
            return Err(Error::unsupported("a jsonb value nests too deeply to be compared"));
        }
        if !self.accept(open) {
            return Err(malformed());
        }
        let mut count = 0;
        if self.accept(close) {
            return Ok(count);
        }
        loop {
            part(self)?;
            count += 1;
            if self.accept(close) {
                return Ok(count);
            }
            if !self.accept(",") {
                return Err(malformed());
            }
        }
    }

    fn string(&mut self) -> Result<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        if chars.next().map(|(_, c)| c) != Some('"') {
            return Err(malformed());
        }
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(text);
                }
                '\\' => match chars.next().ok_or_else(malformed)?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'u' => {
                        let mut code = 0;
                        for _ in 0..4 {
                            let digit = chars.next().and_then(|(_, c)| c.to_digit(16)).ok_or_else(malformed)?;
                            code = code * 16 + digit;
                        }
                        // Canonical texts write only control characters so.
                        text.push(char::from_u32(code).ok_or_else(malformed)?);
                    }
                    other => text.push(other),
                },
                other => text.push(other),
            }
        }
        Err(malformed())
    }
}
