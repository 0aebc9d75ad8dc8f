//! PostgreSQL 15's lexical rules: a text as tokens, which borrow it.
//!
//! A [`Token`] is a kind and a range of bytes. What a quoted text or name stands for is computed only when asked for
//! ([`Token::string`], [`Token::name`]), and allocates only if the token has escapes.
//!
//! The plan cache walks the same tokens: a token's kind says whether it is a constant, its range what to cut out of the text
//! ([`Lexer::starting_at`] begins at any statement), and [`Token::string`] its value.
//!
//! Always true: tokens follow each other without overlap and begin and end at character boundaries; the last is
//! [`TokenKind::End`], whose range is empty.

mod escape;

use std::borrow::Cow;

use compact_str::CompactString;
use model::{Error, SqlState};

use crate::keyword::Keyword;

/// Longest name in bytes; the rest is cut at a character boundary.
pub const NAME_BYTES_MAX: usize = model::limits::NAME_BYTES_MAX;

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TokenKind {
    /// An unquoted name or key word.
    Word,
    /// `"…"`
    QuotedName,
    /// `U&"…"`, with its UESCAPE.
    UnicodeName,
    /// `'…'`, with its continuations on further lines.
    String,
    /// `E'…'`
    EscapeString,
    /// `U&'…'`, with its UESCAPE.
    UnicodeString,
    /// `$tag$…$tag$`
    DollarString,
    /// `B'…'`
    BitString,
    /// `X'…'`
    HexString,
    /// `$1`
    Parameter,
    /// Digits of a number that an `integer` holds.
    Integer,
    /// Another number.
    Number,
    /// An operator that has no kind of its own.
    Operator,
    /// `(`
    LeftParen,
    /// `)`
    RightParen,
    /// `[`
    LeftBracket,
    /// `]`
    RightBracket,
    /// `,`
    Comma,
    /// `;`
    Semicolon,
    /// `:`
    Colon,
    /// `.`
    Dot,
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Star,
    /// `/`
    Slash,
    /// `%`
    Percent,
    /// `^`
    Caret,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `=`
    Equal,
    /// `::`
    TypeCast,
    /// `..`
    DotDot,
    /// `:=`
    ColonEquals,
    /// `=>`
    EqualsGreater,
    /// `<=`
    LessEquals,
    /// `>=`
    GreaterEquals,
    /// `<>` or `!=`
    NotEquals,
    /// A character that no token begins with.
    Other,
    /// The end of the text.
    End,
}

/// A token: its kind and its range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Kind of the token.
    pub kind: TokenKind,
    /// A quoted token that stands for other bytes than those between its quotes.
    pub(crate) has_escapes: bool,
    /// The key word, if a [`TokenKind::Word`] is one.
    pub keyword: Option<Keyword>,
    /// The byte it begins at.
    pub start: u32,
    /// The byte behind it.
    pub end: u32,
}

impl Token {
    /// The token as written.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> &'a str {
        &sql[self.start as usize..self.end as usize]
    }

    /// The name that a word or quoted name stands for: folded to lower case unless quoted, and cut.
    ///
    /// # Errors
    /// 42601 for wrong Unicode escapes.
    pub fn name(&self, sql: &str) -> Result<CompactString, LexError> {
        let text = self.text(sql);
        match self.kind {
            TokenKind::QuotedName if !self.has_escapes => Ok(CompactString::new(cut(&text[1..text.len() - 1]))),
            TokenKind::QuotedName => Ok(CompactString::new(cut(&text[1..text.len() - 1].replace("\"\"", "\"")))),
            TokenKind::UnicodeName => Ok(CompactString::new(cut(&escape::unicode(text, self.start, '"')?))),
            _ => Ok(folded(cut(text))),
        }
    }

    /// The text that a string stands for; of bit strings, the bits or digits behind a `b` or `x`.
    ///
    /// # Errors
    /// 42601, 22025 and 22021 for wrong escapes.
    pub fn string<'a>(&self, sql: &'a str) -> Result<Cow<'a, str>, LexError> {
        let text = self.text(sql);
        match self.kind {
            TokenKind::String if !self.has_escapes => Ok(Cow::Borrowed(&text[1..text.len() - 1])),
            TokenKind::String => Ok(Cow::Owned(escape::joined(text))),
            TokenKind::EscapeString => escape::backslashes(text, self.start).map(Cow::Owned),
            TokenKind::UnicodeString => escape::unicode(text, self.start, '\'').map(Cow::Owned),
            TokenKind::DollarString => {
                let tag = text[1..].find('$').map_or(text.len(), |at| at + 2);
                Ok(Cow::Borrowed(&text[tag..text.len() - tag]))
            }
            TokenKind::BitString => Ok(Cow::Owned(format!("b{}", escape::joined(&text[1..])))),
            TokenKind::HexString => Ok(Cow::Owned(format!("x{}", escape::joined(&text[1..])))),
            _ => Ok(Cow::Borrowed(text)),
        }
    }

    /// Whether it is a text constant.
    #[must_use]
    pub fn is_string(&self) -> bool {
        use TokenKind as T;
        matches!(self.kind, T::String | T::EscapeString | T::UnicodeString | T::DollarString)
    }
}

/// Bytes to which a name is cut.
pub(crate) fn cut(name: &str) -> &str {
    if name.len() <= NAME_BYTES_MAX { name } else { &name[..name.floor_char_boundary(NAME_BYTES_MAX)] }
}

fn folded(word: &str) -> CompactString {
    if !word.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return CompactString::new(word);
    }
    let mut name = CompactString::new(word);
    name.make_ascii_lowercase();
    name
}

/// A text that is not made of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    state: SqlState,
    message: Cow<'static, str>,
    hint: Option<&'static str>,
    /// Place of the error, and the bytes that the message quotes, if it quotes any.
    start: u32,
    near: Option<u32>,
}

impl LexError {
    /// A message that ends with what is at `start .. end`.
    fn near(message: &'static str, start: u32, end: u32) -> LexError {
        LexError { state: SqlState::SYNTAX_ERROR, message: Cow::Borrowed(message), hint: None, start, near: Some(end) }
    }

    fn at(state: SqlState, message: impl Into<Cow<'static, str>>, start: u32) -> LexError {
        LexError { state, message: message.into(), hint: None, start, near: None }
    }

    fn hint(mut self, hint: &'static str) -> LexError {
        self.hint = Some(hint);
        self
    }

    /// The error with its place in `sql`, the whole text.
    #[must_use]
    pub fn into_error(self, sql: &str) -> Error {
        let message = match self.near {
            Some(end) if self.start as usize >= sql.len() || end <= self.start => {
                format!("{} at end of input", self.message)
            }
            Some(end) => format!("{} at or near \"{}\"", self.message, &sql[self.start as usize..end as usize]),
            None => self.message.into_owned(),
        };
        let error = Error::new(self.state, message).with_position(position(sql, self.start));
        match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// A byte of a text as PostgreSQL counts positions: in characters, from 1.
#[must_use]
pub fn position(sql: &str, byte: u32) -> u32 {
    let before = &sql.as_bytes()[..(byte as usize).min(sql.len())];
    let characters = before.iter().filter(|byte| (**byte as i8) >= -0x40).count();
    u32::try_from(characters).unwrap_or(u32::MAX - 1) + 1
}

/// Classes of bytes: tokens that a byte may begin or continue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Space,
    /// Letters, `_` and bytes of characters beyond ASCII.
    Letter,
    Digit,
    Dollar,
    Quote,
    DoubleQuote,
    /// A token of its own: `( ) [ ] , ;`.
    Single,
    Dot,
    Colon,
    /// Bytes of operators.
    Operator,
}

static CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0c => Class::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'$' => Class::Dollar,
            b'\'' => Class::Quote,
            b'"' => Class::DoubleQuote,
            b'(' | b')' | b'[' | b']' | b',' | b';' => Class::Single,
            b'.' => Class::Dot,
            b':' => Class::Colon,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<'
            | b'>' | b'=' => Class::Operator,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

fn is_space(byte: u8) -> bool {
    class(byte) == Class::Space
}

/// Whether a byte continues a word.
fn continues_word(byte: u8) -> bool {
    matches!(class(byte), Class::Letter | Class::Digit | Class::Dollar)
}

/// Walks the tokens of a text.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    sql: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Begins at the start of a text of less than 4 GiB; a longer one is read up to there.
    #[must_use]
    pub fn new(sql: &'a str) -> Lexer<'a> {
        let end = sql.floor_char_boundary(u32::MAX as usize - 1);
        Lexer { sql: &sql[..end], at: 0 }
    }

    /// Goes on at a byte that a token begins or ends at.
    #[must_use]
    pub fn starting_at(mut self, at: usize) -> Lexer<'a> {
        self.at = at;
        self
    }

    fn bytes(&self) -> &'a [u8] {
        self.sql.as_bytes()
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next token.
    ///
    /// # Errors
    /// Unterminated quotes and comments, and junk behind numbers. The lexer is then at the end.
    #[expect(
        clippy::should_implement_trait,
        reason = "it does not end by None: the last token is End, again and again"
    )]
    pub fn next(&mut self) -> Result<Token, LexError> {
        let token = self.lex();
        if token.is_err() {
            self.at = self.sql.len();
        }
        token
    }

    fn lex(&mut self) -> Result<Token, LexError> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(&first) = self.bytes().get(start) else { return Ok(self.token(TokenKind::End, start)) };
        match class(first) {
            Class::Letter => self.word(start),
            Class::Single => {
                self.at += 1;
                Ok(self.token(single(first), start))
            }
            Class::Digit => self.number(start),
            Class::Dot if self.peek(1).is_ascii_digit() => self.number(start),
            Class::Quote => self.quoted(TokenKind::String, start, 0),
            Class::DoubleQuote => self.quoted_name(TokenKind::QuotedName, start, 0),
            Class::Operator => self.operator(start),
            Class::Dollar => self.dollar(start),
            Class::Dot => Ok(self.of_two(b'.', TokenKind::DotDot, TokenKind::Dot, start)),
            Class::Colon if self.peek(1) == b'=' => {
                Ok(self.of_two(b'=', TokenKind::ColonEquals, TokenKind::Colon, start))
            }
            Class::Colon => Ok(self.of_two(b':', TokenKind::TypeCast, TokenKind::Colon, start)),
            Class::Space | Class::Other => {
                self.at += 1;
                Ok(self.token(TokenKind::Other, start))
            }
        }
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token { kind, has_escapes: false, keyword: None, start: start as u32, end: self.at as u32 }
    }

    fn of_two(&mut self, second: u8, both: TokenKind, one: TokenKind, start: usize) -> Token {
        let kind = if self.peek(1) == second { both } else { one };
        self.at += if kind == both { 2 } else { 1 };
        self.token(kind, start)
    }

    /// Blanks and comments.
    fn skip_blanks(&mut self) -> Result<(), LexError> {
        let bytes = self.bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                _ if is_space(byte) => self.at += 1,
                b'-' if self.peek(1) == b'-' => self.skip_line(),
                b'/' if self.peek(1) == b'*' => self.skip_comment()?,
                _ => break,
            }
        }
        Ok(())
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes()[self.at..];
        self.at += rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) -> Result<(), LexError> {
        let (bytes, start) = (self.bytes(), self.at);
        let mut depth = 1_usize;
        self.at += 2;
        while depth > 0 {
            match (bytes.get(self.at), self.peek(1)) {
                (Some(b'/'), b'*') => (depth, self.at) = (depth + 1, self.at + 2),
                (Some(b'*'), b'/') => (depth, self.at) = (depth - 1, self.at + 2),
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(self.unterminated("unterminated /* comment", start)),
            }
        }
        Ok(())
    }

    fn unterminated(&self, message: &'static str, start: usize) -> LexError {
        LexError::near(message, start as u32, self.sql.len() as u32)
    }

    fn word(&mut self, start: usize) -> Result<Token, LexError> {
        match (self.peek(0), self.peek(1)) {
            (b'e' | b'E', b'\'') => return self.quoted(TokenKind::EscapeString, start, 1),
            (b'b' | b'B', b'\'') => return self.quoted(TokenKind::BitString, start, 1),
            (b'x' | b'X', b'\'') => return self.quoted(TokenKind::HexString, start, 1),
            // The word NCHAR, and then a string.
            (b'n' | b'N', b'\'') => {
                self.at += 1;
                let token = self.token(TokenKind::Word, start);
                return Ok(Token { keyword: Some(Keyword::Nchar), ..token });
            }
            (b'u' | b'U', b'&') if self.peek(2) == b'\'' => {
                let token = self.quoted(TokenKind::UnicodeString, start, 2)?;
                return self.with_escape_character(token);
            }
            (b'u' | b'U', b'&') if self.peek(2) == b'"' => {
                let token = self.quoted_name(TokenKind::UnicodeName, start, 2)?;
                return self.with_escape_character(token);
            }
            _ => {}
        }
        let rest = &self.bytes()[start..];
        let length = rest.iter().position(|byte| !continues_word(*byte)).unwrap_or(rest.len());
        self.at += length;
        let token = self.token(TokenKind::Word, start);
        Ok(Token { keyword: Keyword::find(&rest[..length]), ..token })
    }

    /// A string from its first quote, `prefix` bytes behind its start, to its last.
    fn quoted(&mut self, kind: TokenKind, start: usize, prefix: usize) -> Result<Token, LexError> {
        let bytes = self.bytes();
        let mut has_escapes = false;
        self.at = start + prefix + 1;
        loop {
            let rest = &bytes[self.at..];
            let Some(length) = rest.iter().position(|byte| matches!(byte, b'\'' | b'\\')) else {
                return Err(self.unterminated(unterminated_message(kind), start));
            };
            self.at += length + 1;
            if rest[length] == b'\\' {
                // A character beyond ASCII needs no care: none of its bytes is a quote.
                if kind == TokenKind::EscapeString && self.at < bytes.len() {
                    self.at += 1;
                }
                continue;
            }
            let doubles = !matches!(kind, TokenKind::BitString | TokenKind::HexString);
            if doubles && self.peek(0) == b'\'' {
                self.at += 1;
            } else if let Some(next) = self.continuation() {
                self.at = next;
            } else {
                break;
            }
            has_escapes = true;
        }
        Ok(Token { has_escapes, ..self.token(kind, start) })
    }

    /// Behind a string's last quote: the byte behind the quote that continues it, after blanks with a line break.
    fn continuation(&self) -> Option<usize> {
        let bytes = self.bytes();
        let (mut at, mut has_line_break) = (self.at, false);
        loop {
            match bytes.get(at)? {
                b'\n' | b'\r' => (has_line_break, at) = (true, at + 1),
                byte if is_space(*byte) => at += 1,
                b'-' if bytes.get(at + 1) == Some(&b'-') => {
                    // A comment must be ended by a line break.
                    at += bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
                }
                b'\'' if has_line_break => return Some(at + 1),
                _ => return None,
            }
        }
    }

    fn quoted_name(&mut self, kind: TokenKind, start: usize, prefix: usize) -> Result<Token, LexError> {
        let bytes = self.bytes();
        let mut has_escapes = false;
        self.at = start + prefix + 1;
        loop {
            let Some(length) = bytes[self.at..].iter().position(|byte| *byte == b'"') else {
                return Err(self.unterminated("unterminated quoted identifier", start));
            };
            self.at += length + 1;
            if self.peek(0) != b'"' {
                break;
            }
            (has_escapes, self.at) = (true, self.at + 1);
        }
        if self.at - start == prefix + 2 {
            return Err(LexError::near("zero-length delimited identifier", start as u32, self.at as u32));
        }
        Ok(Token { has_escapes, ..self.token(kind, start) })
    }

    /// Takes `UESCAPE 'c'` into the token of a text with Unicode escapes.
    fn with_escape_character(&mut self, token: Token) -> Result<Token, LexError> {
        let behind = self.at;
        let next = self.lex()?;
        if next.keyword != Some(Keyword::Uescape) {
            self.at = behind;
            return Ok(token);
        }
        let character = self.lex()?;
        if !matches!(character.kind, TokenKind::String | TokenKind::EscapeString | TokenKind::DollarString) {
            let message = "UESCAPE must be followed by a simple string literal";
            return Err(LexError::near(message, character.start, character.end));
        }
        let value = character.string(self.sql)?;
        let mut bytes = value.bytes();
        if !matches!((bytes.next(), bytes.next()), (Some(byte), None) if escape::may_escape(byte)) {
            return Err(LexError::near("invalid Unicode escape character", character.start, character.end));
        }
        Ok(Token { end: character.end, ..token })
    }

    fn number(&mut self, start: usize) -> Result<Token, LexError> {
        let bytes = self.bytes();
        let digits = |at: usize| bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut kind = TokenKind::Integer;
        self.at += digits(start);
        // `1..10` is 1, `..` and 10.
        if self.peek(0) == b'.' && !(self.peek(1) == b'.' && self.at > start) {
            kind = TokenKind::Number;
            self.at += 1;
            self.at += digits(self.at);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            let exponent = digits((self.at + 1 + sign).min(bytes.len()));
            if exponent > 0 {
                kind = TokenKind::Number;
                self.at += 1 + sign + exponent;
            } else if sign == 1 {
                let message = "trailing junk after numeric literal";
                return Err(LexError::near(message, start as u32, self.at as u32 + 2));
            }
        }
        self.refuse_junk("trailing junk after numeric literal", start)?;
        if kind == TokenKind::Integer && !is_int4(&bytes[start..self.at]) {
            kind = TokenKind::Number;
        }
        Ok(self.token(kind, start))
    }

    fn refuse_junk(&self, message: &'static str, start: usize) -> Result<(), LexError> {
        if class(self.peek(0)) != Class::Letter || self.at >= self.sql.len() {
            return Ok(());
        }
        let length = self.bytes()[self.at..].iter().take_while(|byte| continues_word(**byte)).count();
        Err(LexError::near(message, start as u32, (self.at + length) as u32))
    }

    /// A parameter, a dollar-quoted string, or a lone `$`.
    fn dollar(&mut self, start: usize) -> Result<Token, LexError> {
        let bytes = self.bytes();
        let rest = &bytes[start + 1..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            self.at += 1 + digits;
            self.refuse_junk("trailing junk after parameter", start)?;
            return Ok(self.token(TokenKind::Parameter, start));
        }
        let tag = rest.iter().take_while(|byte| matches!(class(**byte), Class::Letter | Class::Digit)).count();
        if rest.get(tag) != Some(&b'$') {
            self.at += 1;
            return Ok(self.token(TokenKind::Other, start));
        }
        let delimiter = &self.sql[start..start + tag + 2];
        let body = start + delimiter.len();
        let Some(length) = self.sql[body..].find(delimiter) else {
            return Err(self.unterminated("unterminated dollar-quoted string", start));
        };
        self.at = body + length + delimiter.len();
        Ok(self.token(TokenKind::DollarString, start))
    }

    fn operator(&mut self, start: usize) -> Result<Token, LexError> {
        let rest = &self.bytes()[start..];
        let mut length = rest.iter().position(|byte| class(*byte) != Class::Operator).unwrap_or(rest.len());
        // Comments begin within what would be an operator; one at its start was skipped.
        let comment = rest[..length].windows(2).position(|pair| matches!(pair, b"--" | b"/*"));
        length = comment.unwrap_or(length);
        // A sign at the end belongs to the operand, unless the operator has a character that SQL's have not.
        if length > 1 && matches!(rest[length - 1], b'+' | b'-') {
            let special =
                |byte: &u8| matches!(byte, b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' | b'%');
            if !rest[..length].iter().any(special) {
                while length > 1 && matches!(rest[length - 1], b'+' | b'-') {
                    length -= 1;
                }
            }
        }
        self.at += length;
        if length > NAME_BYTES_MAX {
            return Err(LexError::near("operator too long", start as u32, self.at as u32));
        }
        Ok(self.token(operator_kind(&rest[..length]), start))
    }
}

fn unterminated_message(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::BitString => "unterminated bit string literal",
        TokenKind::HexString => "unterminated hexadecimal string literal",
        _ => "unterminated quoted string",
    }
}

fn single(byte: u8) -> TokenKind {
    match byte {
        b'(' => TokenKind::LeftParen,
        b')' => TokenKind::RightParen,
        b'[' => TokenKind::LeftBracket,
        b']' => TokenKind::RightBracket,
        b',' => TokenKind::Comma,
        _ => TokenKind::Semicolon,
    }
}

fn operator_kind(operator: &[u8]) -> TokenKind {
    match operator {
        b"+" => TokenKind::Plus,
        b"-" => TokenKind::Minus,
        b"*" => TokenKind::Star,
        b"/" => TokenKind::Slash,
        b"%" => TokenKind::Percent,
        b"^" => TokenKind::Caret,
        b"<" => TokenKind::Less,
        b">" => TokenKind::Greater,
        b"=" => TokenKind::Equal,
        b"=>" => TokenKind::EqualsGreater,
        b"<=" => TokenKind::LessEquals,
        b">=" => TokenKind::GreaterEquals,
        b"<>" | b"!=" => TokenKind::NotEquals,
        _ => TokenKind::Operator,
    }
}

fn is_int4(digits: &[u8]) -> bool {
    if digits.len() < 10 {
        return true;
    }
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = &digits[zeros..];
    digits.len() < 10 || digits.len() == 10 && digits <= b"2147483647".as_slice()
}
