//! Is a text JSON? As PostgreSQL's `json_in` has it, with its words. Texts are kept as they come, so nothing is made of them here.
//!
//! Source: RFC 8259; what is an error where, and how it is called, is PostgreSQL 15's `jsonapi.c`.

use model::{Error, Result, SqlState};

/// Refuses what is no JSON.
///
/// # Errors
/// 22P02, with a detail that says what is wrong.
///
/// # Cost
/// One pass; a byte of memory for each level of nesting.
pub fn check(text: &str) -> Result<()> {
    let mut lexer = Lexer { text, at: 0 };
    let checked = document(&mut lexer);
    checked.map_err(|detail| {
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json").with_detail(detail)
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// One of `{}[],:`
    Mark(u8),
    String(&'t str),
    /// A number, or one of the three words.
    Scalar(&'t str),
    End,
}

/// What a value is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Object,
    Array,
}

/// Fails with the detail.
type Checked<T> = std::result::Result<T, String>;

fn document(lexer: &mut Lexer<'_>) -> Checked<()> {
    let mut inside: Vec<Inside> = Vec::new();
    let mut token = lexer.next()?;
    loop {
        // A value begins here.
        match token {
            Token::Mark(b'{') => {
                token = lexer.next()?;
                if token != Token::Mark(b'}') {
                    token = label(lexer, token, "string or \"}\"")?;
                    inside.push(Inside::Object);
                    continue;
                }
            }
            Token::Mark(b'[') => {
                token = lexer.next()?;
                if token != Token::Mark(b']') {
                    inside.push(Inside::Array);
                    continue;
                }
            }
            Token::String(_) | Token::Scalar(_) => {}
            other => return Err(expected("JSON value", other)),
        }
        // It ended, and perhaps what it is inside of.
        loop {
            token = lexer.next()?;
            match (inside.last(), token) {
                (None, Token::End) => return Ok(()),
                (None, other) => return Err(expected("end of input", other)),
                (Some(Inside::Object), Token::Mark(b'}')) | (Some(Inside::Array), Token::Mark(b']')) => {
                    inside.pop();
                }
                (Some(Inside::Object), Token::Mark(b',')) => {
                    let next = lexer.next()?;
                    token = label(lexer, next, "string")?;
                    break;
                }
                (Some(Inside::Array), Token::Mark(b',')) => {
                    token = lexer.next()?;
                    break;
                }
                (Some(Inside::Object), other) => return Err(expected("\",\" or \"}\"", other)),
                (Some(Inside::Array), other) => return Err(expected("\",\" or \"]\"", other)),
            }
        }
    }
}

/// The name of a member, which `token` must be, and a colon; gives the token behind.
fn label<'t>(lexer: &mut Lexer<'t>, token: Token<'t>, what: &str) -> Checked<Token<'t>> {
    if !matches!(token, Token::String(_)) {
        return Err(expected(what, token));
    }
    match lexer.next()? {
        Token::Mark(b':') => lexer.next(),
        other => Err(expected("\":\"", other)),
    }
}

fn expected(what: &str, found: Token<'_>) -> String {
    let found = match found {
        Token::End => return "The input string ended unexpectedly.".to_owned(),
        Token::Mark(mark) => char::from(mark).to_string(),
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

    fn next(&mut self) -> Checked<Token<'t>> {
        while matches!(self.peek(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let Some(first) = self.peek(start) else { return Ok(Token::End) };
        self.at += 1;
        match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => Ok(Token::Mark(first)),
            b'"' => self.string(start),
            b'-' | b'0'..=b'9' => self.number(start),
            _ => {
                self.at = start;
                self.skip(is_of_word);
                // What begins no word is a token of its own.
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

    fn number(&mut self, start: usize) -> Checked<Token<'t>> {
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
        is_good &= !self.skip(is_of_word);
        let found = &self.text[start..self.at];
        if is_good { Ok(Token::Scalar(found)) } else { Err(invalid(found)) }
    }

    /// `start` is where its quote stands.
    fn string(&mut self, start: usize) -> Checked<Token<'t>> {
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

    /// What stands behind a backslash in the string that begins at `start`.
    fn escape(&mut self, start: usize) -> Checked<()> {
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

/// May a byte stand in a word? All bytes of characters beyond ASCII may, so that words end between characters.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn invalid(token: &str) -> String {
    format!("Token \"{token}\" is invalid.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_json_is_taken() {
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

    /// Each with what PostgreSQL 15 says is wrong.
    #[test]
    fn what_is_no_json_is_refused_in_postgresqls_words() {
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
