//! Splits JSON text into tokens. Details and contexts of errors are those of PostgreSQL's `json_in`.

use model::{Error, Result, SqlState};

/// Length of the text that the context of an error shows at most, in bytes.
const CONTEXT_BYTES: usize = 50;
/// An elision shorter than this is longer than the text it hides.
const ELIDED_BYTES_MIN: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    ObjectStart,
    ObjectEnd,
    ArrayStart,
    ArrayEnd,
    Comma,
    Colon,
    String,
    Number,
    True,
    False,
    Null,
    End,
}

/// Treatment of `\u` escapes: `json` keeps them as they are written, `jsonb` and the functions on texts convert them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// Only their syntax is checked.
    Keep,
    /// They must be characters: 22P05 for `\u0000`, 22P02 for an incomplete surrogate pair.
    Convert,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    escapes: Escapes,
    /// The current token.
    start: usize,
    end: usize,
    /// Line of the current token from 1, and its first byte.
    line: usize,
    line_start: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str, escapes: Escapes) -> Lexer<'t> {
        Lexer { text, escapes, start: 0, end: 0, line: 1, line_start: 0 }
    }

    /// Text of the current token.
    pub(super) fn token(&self) -> &'t str {
        &self.text[self.start..self.end]
    }

    pub(super) fn next(&mut self) -> Result<Token> {
        self.skip_space();
        self.start = self.end;
        let Some(first) = self.byte() else { return Ok(Token::End) };
        self.end += 1;
        Ok(match first {
            b'{' => Token::ObjectStart,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayStart,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        })
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.end).copied()
    }

    fn skip_space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.byte() {
            self.end += 1;
            if byte == b'\n' {
                self.line += 1;
                self.line_start = self.end;
            }
        }
    }

    fn skip(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let from = self.end;
        while self.byte().is_some_and(&wanted) {
            self.end += 1;
        }
        self.end > from
    }

    fn word(&mut self) -> Result<Token> {
        self.end = self.start;
        self.skip(is_word_byte);
        // A character that starts no word is a token of its own.
        let width = self.text[self.start..].chars().next().map_or(1, char::len_utf8);
        self.end = self.end.max(self.start + width);
        match self.token() {
            "true" => Ok(Token::True),
            "false" => Ok(Token::False),
            "null" => Ok(Token::Null),
            _ => Err(self.invalid_token()),
        }
    }

    fn number(&mut self) -> Result<Token> {
        let digit = |byte: u8| byte.is_ascii_digit();
        self.end = self.start + usize::from(self.text.as_bytes()[self.start] == b'-');
        let mut is_valid = if self.byte() == Some(b'0') {
            self.end += 1;
            true
        } else {
            self.skip(digit)
        };
        if self.byte() == Some(b'.') {
            self.end += 1;
            is_valid &= self.skip(digit);
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.end += 1;
            self.end += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            is_valid &= self.skip(digit);
        }
        is_valid &= !self.skip(is_word_byte);
        if is_valid { Ok(Token::Number) } else { Err(self.invalid_token()) }
    }

    fn string(&mut self) -> Result<Token> {
        let mut high_surrogate = false;
        loop {
            let Some(byte) = self.byte() else { return Err(self.invalid_token()) };
            if byte != b'\\' && high_surrogate {
                self.end += self.text[self.end..].chars().next().map_or(1, char::len_utf8);
                return Err(self.no_low_surrogate());
            }
            match byte {
                b'"' => {
                    self.end += 1;
                    return Ok(Token::String);
                }
                b'\\' => high_surrogate = self.escape(high_surrogate)?,
                ..b' ' => return Err(self.error(format!("Character with value 0x{byte:02x} must be escaped."))),
                _ => self.end += 1,
            }
        }
    }

    /// Parses an escape. Returns whether it is a high surrogate, after which a low one must follow.
    fn escape(&mut self, after_high: bool) -> Result<bool> {
        self.end += 1;
        let Some(kind) = self.text[self.end..].chars().next() else { return Err(self.invalid_token()) };
        self.end += kind.len_utf8();
        match kind {
            'u' => {
                let unit = self.code_unit()?;
                if self.escapes == Escapes::Keep { Ok(false) } else { self.check_unit(unit, after_high) }
            }
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' if after_high => Err(self.no_low_surrogate()),
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => Ok(false),
            other => Err(self.error(format!("Escape sequence \"\\{other}\" is invalid."))),
        }
    }

    fn code_unit(&mut self) -> Result<u16> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(next) = self.text[self.end..].chars().next() else { return Err(self.invalid_token()) };
            self.end += next.len_utf8();
            let Some(digit) = next.to_digit(16) else {
                return Err(self.error("\"\\u\" must be followed by four hexadecimal digits."));
            };
            unit = unit << 4 | digit as u16;
        }
        Ok(unit)
    }

    fn check_unit(&self, unit: u16, after_high: bool) -> Result<bool> {
        match unit {
            0xD800..0xDC00 if after_high => Err(self.error("Unicode high surrogate must not follow a high surrogate.")),
            0xD800..0xDC00 => Ok(true),
            0xDC00..0xE000 if after_high => Ok(false),
            0xDC00..0xE000 => Err(self.no_low_surrogate()),
            _ if after_high => Err(self.no_low_surrogate()),
            0 => {
                let error = Error::new(SqlState("22P05"), "unsupported Unicode escape sequence");
                let error = error.with_detail("\\u0000 cannot be converted to text.");
                Err(error.with_place(self.context(false)))
            }
            _ => Ok(false),
        }
    }

    fn no_low_surrogate(&self) -> Error {
        self.error("Unicode low surrogate must follow a high surrogate.")
    }

    fn invalid_token(&mut self) -> Error {
        if self.text[self.start..].starts_with('"') {
            self.end = self.text.len();
        }
        self.error(format!("Token \"{}\" is invalid.", self.token()))
    }

    /// An error at the current token, which is none of the expected ones.
    pub(super) fn unexpected(&self, expected: &str, found: Token) -> Error {
        if found == Token::End {
            return self.error_at("The input string ended unexpectedly.", true);
        }
        self.error(format!("Expected {expected}, but found \"{}\".", self.token()))
    }

    fn error(&self, detail: impl Into<String>) -> Error {
        self.error_at(detail, false)
    }

    fn error_at(&self, detail: impl Into<String>, at_end: bool) -> Error {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail(detail)
            .with_place(self.context(at_end))
    }

    /// The line up to the current token.
    fn context(&self, at_end: bool) -> String {
        let mut start = self.line_start;
        while self.end - start >= CONTEXT_BYTES {
            start += self.text[start..].chars().next().map_or(1, char::len_utf8);
        }
        if start - self.line_start < ELIDED_BYTES_MIN {
            start = self.line_start;
        }
        let prefix = if start > self.line_start { "..." } else { "" };
        let continues = !at_end && self.byte().is_some_and(|next| !matches!(next, b'\n' | b'\r'));
        let suffix = if continues { "..." } else { "" };
        format!("JSON data, line {}: {prefix}{}{suffix}", self.line, &self.text[start..self.end])
    }
}

/// Whether a byte belongs to a word. Non-ASCII bytes do, so that words end at character boundaries.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
