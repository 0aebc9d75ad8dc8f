//! Finds the parts of JSON text that is known to be valid, without a copy: the text of a part is a slice of the whole.

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// The type of a value, by its first byte.
pub(super) fn kind(text: &str) -> Kind {
    match text.trim_start().bytes().next() {
        Some(b'{') => Kind::Object,
        Some(b'[') => Kind::Array,
        Some(b'"') => Kind::String,
        Some(b't' | b'f') => Kind::Bool,
        Some(b'n') => Kind::Null,
        _ => Kind::Number,
    }
}

/// The texts of an array's elements; none if it is no array.
pub(super) fn elements(text: &str) -> Elements<'_> {
    let is_array = kind(text) == Kind::Array;
    Elements { rest: Rest { text: if is_array { text } else { "" }, at: 0 } }
}

pub(super) struct Elements<'t> {
    rest: Rest<'t>,
}

impl<'t> Iterator for Elements<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        self.rest.separator()?;
        self.rest.value()
    }
}

/// The members of an object, as (key with quotes, text of the value); none if it is no object.
pub(super) fn members(text: &str) -> Members<'_> {
    let is_object = kind(text) == Kind::Object;
    Members { rest: Rest { text: if is_object { text } else { "" }, at: 0 } }
}

pub(super) struct Members<'t> {
    rest: Rest<'t>,
}

impl<'t> Iterator for Members<'t> {
    type Item = (&'t str, &'t str);

    fn next(&mut self) -> Option<(&'t str, &'t str)> {
        self.rest.separator()?;
        let key = self.rest.value()?;
        self.rest.separator()?;
        Some((key, self.rest.value()?))
    }
}

/// The rest of a container's text.
struct Rest<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Rest<'t> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips the opening bracket, comma or colon before a value.
    fn separator(&mut self) -> Option<()> {
        self.skip_space();
        self.at += 1;
        self.skip_space();
        Some(())
    }

    /// The value here; `None` at the end of the container.
    fn value(&mut self) -> Option<&'t str> {
        let start = self.at;
        match self.byte()? {
            b']' | b'}' => return None,
            b'"' => self.skip_string(),
            b'[' | b'{' => self.skip_container(),
            _ => {
                let ends = |byte: u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                while self.byte().is_some_and(|byte| !ends(byte)) {
                    self.at += 1;
                }
            }
        }
        self.text.get(start..self.at)
    }

    fn skip_string(&mut self) {
        self.at = after_string(self.text.as_bytes(), self.at);
    }

    fn skip_container(&mut self) {
        let bytes = self.text.as_bytes();
        let (mut at, mut depth) = (self.at, 0_usize);
        while let Some(byte) = bytes.get(at) {
            if !IS_MARK[usize::from(*byte)] {
                at += 1;
                continue;
            }
            match byte {
                b'"' => {
                    at = after_string(bytes, at);
                    continue;
                }
                b'[' | b'{' => depth += 1,
                _ => depth = depth.saturating_sub(1),
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
        self.at = at;
    }
}

/// Whether a byte begins or ends a string or a container.
const IS_MARK: [bool; 256] = {
    let mut marks = [false; 256];
    let mut at = 0;
    while at < MARKS.len() {
        marks[MARKS[at] as usize] = true;
        at += 1;
    }
    marks
};
const MARKS: &[u8] = b"\"[]{}";

/// The place behind the string that begins at a place.
fn after_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}
