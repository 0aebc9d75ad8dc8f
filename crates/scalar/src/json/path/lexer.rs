//! Splits a `jsonpath` into tokens, with PostgreSQL's messages.

use model::{Error, Result, SqlState};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// An operator or bracket.
    Sign(&'static str),
    /// A name or keyword without quotes.
    Word(String),
    /// Text in quotes.
    String(String),
    Variable(String),
    /// An integer without exponent.
    Integer(String),
    /// Another number.
    Decimal(String),
    End,
}

/// Operators and brackets, longer ones before those that they begin with.
const SIGNS: [&str; 29] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "$", "@", ".", "*", "[", "]", "{", "}", "(", ")", "?", ",", "!",
    "<", ">", "+", "-", "/", "%", "=", ":",
];

pub(super) struct Lexer<'t> {
    text: &'t str,
    /// The last token.
    start: usize,
    end: usize,
    is_word: bool,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Lexer<'t> {
        Lexer { text, start: 0, end: 0, is_word: false }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.end..]
    }

    fn byte(&self, offset: usize) -> Option<u8> {
        self.text.as_bytes().get(self.end + offset).copied()
    }

    pub(super) fn next(&mut self) -> Result<Token> {
        self.skip_blanks()?;
        self.start = self.end;
        let token = self.token()?;
        self.is_word = matches!(token, Token::Word(_));
        Ok(token)
    }

    fn token(&mut self) -> Result<Token> {
        let Some(first) = self.byte(0) else { return Ok(Token::End) };
        if first.is_ascii_digit() || (first == b'.' && self.byte(1).is_some_and(|next| next.is_ascii_digit())) {
            return self.number();
        }
        match first {
            b'"' => Ok(Token::String(self.quoted()?)),
            b'$' if self.byte(1) == Some(b'"') => {
                self.end += 1;
                Ok(Token::Variable(self.quoted()?))
            }
            b'$' if self.byte(1).is_some_and(|next| is_word_byte(next) && next != b'\\') => {
                self.end += 1;
                Ok(Token::Variable(self.word()?))
            }
            byte if is_word_byte(byte) => Ok(Token::Word(self.word()?)),
            _ => match SIGNS.into_iter().find(|sign| self.rest().starts_with(sign)) {
                Some(sign) => {
                    self.end += sign.len();
                    Ok(Token::Sign(if sign == "<>" { "!=" } else { sign }))
                }
                None => {
                    self.end += self.rest().chars().next().map_or(0, char::len_utf8);
                    Err(self.error("syntax error"))
                }
            },
        }
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0c']).len();
            self.end += blanks;
            if !self.rest().starts_with("/*") {
                return Ok(());
            }
            match self.rest().find("*/") {
                Some(length) => self.end += length + 2,
                None => {
                    self.end = self.text.len();
                    return Err(self.error("unexpected end of comment"));
                }
            }
        }
    }

    fn digits(&mut self) -> usize {
        let from = self.end;
        while self.byte(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.end += 1;
        }
        self.end - from
    }

    fn number(&mut self) -> Result<Token> {
        let word = self.rest().bytes().take_while(|byte| is_word_byte(*byte) && *byte != b'\\').count();
        let mut is_integer = true;
        if self.byte(0) == Some(b'0') {
            self.end += 1;
        } else {
            self.digits();
        }
        if self.byte(0) == Some(b'.') {
            is_integer = false;
            self.end += 1;
            self.digits();
        }
        if matches!(self.byte(0), Some(b'e' | b'E')) {
            let before = self.end;
            self.end += 1;
            self.end += usize::from(matches!(self.byte(0), Some(b'+' | b'-')));
            if self.digits() == 0 {
                self.end = before;
            } else {
                is_integer = false;
            }
        }
        let has_junk = self.byte(0).is_some_and(|byte| is_word_byte(byte) && byte != b'\\');
        let matched = self.end - self.start + usize::from(has_junk);
        if word > matched {
            // The longest match is a word, as in `0x1`.
            self.end = self.start;
            return Ok(Token::Word(self.word()?));
        }
        if has_junk {
            self.end += self.rest().chars().next().map_or(0, char::len_utf8);
            let text = &self.text[self.start..self.end];
            return Err(near("trailing junk after numeric literal", text));
        }
        let text = self.text[self.start..self.end].to_owned();
        Ok(if is_integer { Token::Integer(text) } else { Token::Decimal(text) })
    }

    fn word(&mut self) -> Result<String> {
        let mut word = String::new();
        while let Some(one) = self.rest().chars().next() {
            if one == '\\' {
                self.escape(&mut word)?;
            } else if one.is_ascii() && !is_word_byte(one as u8) {
                break;
            } else {
                word.push(one);
                self.end += one.len_utf8();
            }
        }
        Ok(word)
    }

    /// Text in quotes, the first of which is here.
    fn quoted(&mut self) -> Result<String> {
        let mut text = String::new();
        self.end += 1;
        while let Some(one) = self.rest().chars().next() {
            if one == '\\' {
                self.escape(&mut text)?;
                continue;
            }
            self.end += one.len_utf8();
            if one == '"' {
                return Ok(text);
            }
            text.push(one);
        }
        Err(self.error("unexpected end of quoted string"))
    }

    fn escape(&mut self, text: &mut String) -> Result<()> {
        let Some(kind) = self.rest()[1..].chars().next() else {
            self.end = self.text.len();
            return Err(self.error("unexpected end after backslash"));
        };
        match kind {
            'u' => return self.unicode(text),
            'x' => {
                let digits = self.rest().get(2..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
                let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
                    let shown = 2 + self.rest()[2..].bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                    return Err(near("invalid hex character sequence", &self.rest()[..shown]));
                };
                self.end += 4;
                return push_code(text, code);
            }
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'v' => text.push('\u{b}'),
            other => text.push(other),
        }
        self.end += 1 + kind.len_utf8();
        Ok(())
    }

    /// Characters as `\uXXXX` or `\u{X}`, of which two may be a surrogate pair.
    fn unicode(&mut self, text: &mut String) -> Result<()> {
        let surrogates = |detail: &str| {
            let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type jsonpath");
            Err(error.with_detail(detail))
        };
        let first = self.code_unit()?;
        match first {
            0xDC00..0xE000 => surrogates("Unicode low surrogate must follow a high surrogate."),
            0xD800..0xDC00 => {
                if !self.rest().starts_with("\\u") {
                    return surrogates("Unicode low surrogate must follow a high surrogate.");
                }
                match self.code_unit()? {
                    low @ 0xDC00..0xE000 => push_code(text, 0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00)),
                    0xD800..0xDC00 => surrogates("Unicode high surrogate must not follow a high surrogate."),
                    _ => surrogates("Unicode low surrogate must follow a high surrogate."),
                }
            }
            code => push_code(text, code),
        }
    }

    fn code_unit(&mut self) -> Result<u32> {
        let rest = self.rest();
        let hex = |from: usize, most: usize| rest[from..].bytes().take(most).take_while(u8::is_ascii_hexdigit).count();
        let (from, digits, after) = if rest[2..].starts_with('{') {
            let digits = hex(3, 6);
            (3, digits, usize::from(rest[3 + digits..].starts_with('}')))
        } else {
            (2, hex(2, 4), 1)
        };
        let is_complete = if from == 3 { digits > 0 && after == 1 } else { digits == 4 };
        if !is_complete {
            return Err(near("invalid unicode sequence", &rest[..from + digits]));
        }
        self.end += from + digits + usize::from(from == 3);
        Ok(u32::from_str_radix(&rest[from..from + digits], 16).unwrap_or(u32::MAX))
    }

    /// An error at the last token.
    pub(super) fn error(&self, message: &str) -> Error {
        let token = &self.text[self.start..self.end];
        // PostgreSQL's lexer has read to the end of the input when it knows the end of a word there.
        let reads_on = self.is_word && self.end == self.text.len();
        if token.is_empty() || reads_on {
            return at_end(message);
        }
        if message.starts_with("unexpected end") {
            return at_end(message);
        }
        near(message, if token.starts_with('"') { "\"" } else { token })
    }
}

fn at_end(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{message} at end of jsonpath input"))
}

fn near(message: &str, text: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, format!("{message} at or near \"{text}\" of jsonpath input"))
}

fn push_code(text: &mut String, code: u32) -> Result<()> {
    if code == 0 {
        let error = Error::new(SqlState("22P05"), "unsupported Unicode escape sequence");
        return Err(error.with_detail("\\u0000 cannot be converted to text."));
    }
    let one = char::from_u32(code);
    text.push(one.ok_or_else(|| Error::new(SqlState::SYNTAX_ERROR, "invalid Unicode code point"))?);
    Ok(())
}

/// Whether a byte belongs to a name. Non-ASCII bytes do, so that names end at character boundaries.
fn is_word_byte(byte: u8) -> bool {
    !matches!(
        byte,
        b'?' | b'%'
            | b'$'
            | b'.'
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'('
            | b')'
            | b'|'
            | b'&'
            | b'!'
            | b'='
            | b'<'
            | b'>'
            | b'@'
            | b'#'
            | b','
            | b'*'
            | b':'
            | b'-'
            | b'+'
            | b'/'
            | b'"'
            | b' '
            | b'\t'
            | b'\n'
            | b'\r'
            | b'\x0c'
    )
}
