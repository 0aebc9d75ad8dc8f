//! JSON validation with the semantics and messages of PostgreSQL's `json_in`. Text is stored
//! unchanged, so nothing is built.
//!
//! Sources: RFC 8259; PostgreSQL 15's `jsonapi.c` for error positions and messages.

use model::{Error, Result, SqlState};

/// Checks that `text` is valid JSON.
///
/// # Errors
/// 22P02, with the fault in the detail.
///
/// # Cost
/// One pass; one byte of memory per nesting level.
pub fn check(text: &str) -> Result<()> {
    let mut lexer = Lexer { text, at: 0 };
    let checked = validate(&mut lexer);
    checked.map_err(|detail| {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json").with_detail(detail)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// One of `{}[],:`
    Punctuation(u8),
    String(&'t str),
    /// A number, `true`, `false` or `null`.
    Scalar(&'t str),
    End,
}

/// Container of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Object,
    Array,
}

/// The error is the detail text.
type JsonResult<T> = std::result::Result<T, String>;

fn validate(lexer: &mut Lexer<'_>) -> JsonResult<()> {
    let mut containers: Vec<Container> = Vec::new();
    let mut token = lexer.next()?;
    loop {
        // A value starts here.
        match token {
            Token::Punctuation(b'{') => {
                token = lexer.next()?;
                if token != Token::Punctuation(b'}') {
                    token = member_name(lexer, token, "string or \"}\"")?;
                    containers.push(Container::Object);
                    continue;
                }
            }
            Token::Punctuation(b'[') => {
                token = lexer.next()?;
                if token != Token::Punctuation(b']') {
                    containers.push(Container::Array);
                    continue;
                }
            }
            Token::String(_) | Token::Scalar(_) => {}
            other => return Err(expected("JSON value", other)),
        }
        // The value ends here, and possibly its containers.
        loop {
            token = lexer.next()?;
            match (containers.last(), token) {
                (None, Token::End) => return Ok(()),
                (None, other) => return Err(expected("end of input", other)),
                (Some(Container::Object), Token::Punctuation(b'}'))
                | (Some(Container::Array), Token::Punctuation(b']')) => {
                    containers.pop();
                }
                (Some(Container::Object), Token::Punctuation(b',')) => {
                    let next = lexer.next()?;
                    token = member_name(lexer, next, "string")?;
                    break;
                }
                (Some(Container::Array), Token::Punctuation(b',')) => {
                    token = lexer.next()?;
                    break;
                }
                (Some(Container::Object), other) => return Err(expected("\",\" or \"}\"", other)),
                (Some(Container::Array), other) => return Err(expected("\",\" or \"]\"", other)),
            }
        }
    }
}

/// Parses a member's name, which must be `token`, and its colon; returns the token after them.
fn member_name<'t>(lexer: &mut Lexer<'t>, token: Token<'t>, what: &str) -> JsonResult<Token<'t>> {
    if !matches!(token, Token::String(_)) {
        return Err(expected(what, token));
    }
    match lexer.next()? {
        Token::Punctuation(b':') => lexer.next(),
        other => Err(expected("\":\"", other)),
    }
}

fn expected(what: &str, found: Token<'_>) -> String {
    let found = match found {
        Token::End => return "The input string ended unexpectedly.".to_owned(),
        Token::Punctuation(punctuation) => char::from(punctuation).to_string(),
        Token::String(text) | Token::Scalar(text) => text.to_owned(),
    };
    format!("Expected {what}, but found \"{found}\".")
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn peek(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn next(&mut self) -> JsonResult<Token<'t>> {
        while matches!(self.peek(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(first) = self.peek(start) else { return Ok(Token::End) };
        self.at += 1;
        match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => Ok(Token::Punctuation(first)),
            b'"' => self.string(start),
            b'-' | b'0'..=b'9' => self.number(start),
            _ => {
                self.at = start;
                self.skip(is_word_byte);
                // A character that starts no word is a token of its own.
                let width = self.text[start..].chars().next().map_or(1, char::len_utf8);
                self.at = self.at.max(start + width);
                match &self.text[start..self.at] {
                    word @ ("true" | "false" | "null") => Ok(Token::Scalar(word)),
                    other => Err(invalid(other)),
                }
            }
        }
    }

    fn skip(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let from = self.at;
        while self.peek(self.at).is_some_and(&wanted) {
            self.at += 1;
        }
        self.at > from
    }

    fn number(&mut self, start: usize) -> JsonResult<Token<'t>> {
        let digit = |byte: u8| byte.is_ascii_digit();
        self.at = start + usize::from(self.peek(start) == Some(b'-'));
        let mut is_good = if self.peek(self.at) == Some(b'0') {
            self.at += 1;
            true
        } else {
            self.skip(digit)
        };
        if self.peek(self.at) == Some(b'.') {
            self.at += 1;
            is_good &= self.skip(digit);
        }
        if matches!(self.peek(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(self.at), Some(b'+' | b'-')));
            is_good &= self.skip(digit);
        }
        is_good &= !self.skip(is_word_byte);
        let found = &self.text[start..self.at];
        if is_good { Ok(Token::Scalar(found)) } else { Err(invalid(found)) }
    }

    /// Parses a string whose opening quote is at `start`.
    fn string(&mut self, start: usize) -> JsonResult<Token<'t>> {
        loop {
            let Some(byte) = self.peek(self.at) else { return Err(invalid(&self.text[start..])) };
            self.at += 1;
            match byte {
                b'"' => return Ok(Token::String(&self.text[start..self.at])),
                ..b' ' => return Err(format!("Character with value 0x{byte:02x} must be escaped.")),
                b'\\' => self.escape(start)?,
                _ => {}
            }
        }
    }

    /// Parses the escape after a backslash, in the string that starts at `start`.
    fn escape(&mut self, start: usize) -> JsonResult<()> {
        let Some(next) = self.text[self.at..].chars().next() else { return Err(invalid(&self.text[start..])) };
        self.at += next.len_utf8();
        match next {
            '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' => Ok(()),
            'u' => {
                for _ in 0..4 {
                    match self.peek(self.at) {
                        Some(byte) if byte.is_ascii_hexdigit() => self.at += 1,
                        Some(_) => return Err("\"\\u\" must be followed by four hexadecimal digits.".to_owned()),
                        None => return Err(invalid(&self.text[start..])),
                    }
                }
                Ok(())
            }
            other => Err(format!("Escape sequence \"\\{other}\" is invalid.")),
        }
    }
}

/// Whether a byte belongs to a word. Non-ASCII bytes do, so that words end at character boundaries.
fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn invalid(token: &str) -> String {
    format!("Token \"{token}\" is invalid.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_json_is_accepted() {
        for text in [
            "1",
            " -0.5e+10 ",
            "0",
            "true",
            "null",
            "\"\"",
            "\"a\\\"\\u00e9\\n\"",
            "[]",
            "[ 1 , [ ] , {} ]",
            "{}",
            "{\"a\":1,\"a\":{\"b\":[null,false]}}",
            "\t{\"é\" : \"日本\"}\n",
            "\"\\u0000\"",
            "\"\\ud800\"",
        ] {
            assert!(check(text).is_ok(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(check(&format!("{deep}{}", "]".repeat(100_000))).is_ok());
        assert!(check(&deep).is_err());
    }

    /// Cases with the messages of PostgreSQL 15.
    #[test]
    fn invalid_json_is_refused_with_postgresqls_messages() {
        for (text, detail) in [
            ("", "The input string ended unexpectedly."),
            ("  ", "The input string ended unexpectedly."),
            ("{", "The input string ended unexpectedly."),
            ("{\"a\": }", "Expected JSON value, but found \"}\"."),
            ("{\"a\"", "The input string ended unexpectedly."),
            ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
            ("{\"a\":1", "The input string ended unexpectedly."),
            ("{\"a\":1,", "The input string ended unexpectedly."),
            ("{\"a\":1,}", "Expected string, but found \"}\"."),
            ("{a:1}", "Token \"a\" is invalid."),
            ("{1:2}", "Expected string or \"}\", but found \"1\"."),
            ("{,}", "Expected string or \"}\", but found \",\"."),
            ("[", "The input string ended unexpectedly."),
            ("[1", "The input string ended unexpectedly."),
            ("[1,", "The input string ended unexpectedly."),
            ("[1,]", "Expected JSON value, but found \"]\"."),
            ("[,1]", "Expected JSON value, but found \",\"."),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
            ("]", "Expected JSON value, but found \"]\"."),
            ("}", "Expected JSON value, but found \"}\"."),
            ("1 2", "Expected end of input, but found \"2\"."),
            ("{} x", "Token \"x\" is invalid."),
            ("tru", "Token \"tru\" is invalid."),
            ("nul", "Token \"nul\" is invalid."),
            ("truefalse", "Token \"truefalse\" is invalid."),
            ("01", "Token \"01\" is invalid."),
            ("1.", "Token \"1.\" is invalid."),
            ("1.e5", "Token \"1.e5\" is invalid."),
            (".5", "Token \".\" is invalid."),
            ("+1", "Token \"+\" is invalid."),
            ("-", "Token \"-\" is invalid."),
            ("--1", "Token \"-\" is invalid."),
            ("1e", "Token \"1e\" is invalid."),
            ("1e+", "Token \"1e+\" is invalid."),
            ("1x", "Token \"1x\" is invalid."),
            ("0x10", "Token \"0x10\" is invalid."),
            ("\"abc", "Token \"\"abc\" is invalid."),
            ("\"a\nb\"", "Character with value 0x0a must be escaped."),
            ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
            ("\"\\", "Token \"\"\\\" is invalid."),
            ("\"\\u12\"", "\"\\u\" must be followed by four hexadecimal digits."),
            ("\"\\u12g4\"", "\"\\u\" must be followed by four hexadecimal digits."),
            ("\"\\u12", "Token \"\"\\u12\" is invalid."),
            ("'a'", "Token \"'\" is invalid."),
            ("NaN", "Token \"NaN\" is invalid."),
            ("é", "Token \"é\" is invalid."),
            ("\"a\"\"b\"", "Expected end of input, but found \"\"b\"\"."),
            ("[1}", "Expected \",\" or \"]\", but found \"}\"."),
            ("{\"a\":1]", "Expected \",\" or \"}\", but found \"]\"."),
            ("{\"a\":1 \"b\":2}", "Expected \",\" or \"}\", but found \"\"b\"\"."),
            ("// x", "Token \"/\" is invalid."),
            ("@", "Token \"@\" is invalid."),
            ("\"\\é\"", "Escape sequence \"\\é\" is invalid."),
            ("[\"a\",é]", "Token \"é\" is invalid."),
            ("{\"a\":tru}", "Token \"tru\" is invalid."),
            ("\\", "Token \"\\\" is invalid."),
            ("€uro", "Token \"€uro\" is invalid."),
            ("#é", "Token \"#\" is invalid."),
        ] {
            let error = check(text).unwrap_err();
            assert_eq!(
                (error.state(), error.message()),
                (SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            );
            assert_eq!(error.detail(), Some(detail), "{text}");
        }
    }
}
