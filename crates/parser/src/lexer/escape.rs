//! Escapes in quoted texts.

use model::SqlState;

use super::{LexError, is_space};

/// Whether UESCAPE may name a byte.
pub(super) fn may_escape(byte: u8) -> bool {
    byte.is_ascii() && !byte.is_ascii_hexdigit() && !matches!(byte, b'+' | b'\'' | b'"') && !is_space(byte)
}

/// The pieces of a string between its quotes, with doubled quotes as they are. `quoted` begins with a quote.
fn pieces(quoted: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = quoted.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        // The next quote begins a piece; blanks and comments are between pieces, and may have quotes in them.
        while at < bytes.len() && bytes[at] != b'\'' {
            let is_comment = bytes[at] == b'-';
            at += if is_comment {
                bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len() - at)
            } else {
                1
            };
        }
        let start = at + 1;
        at = start;
        loop {
            at += bytes.get(at..)?.iter().position(|byte| *byte == b'\'')?;
            if bytes.get(at + 1) != Some(&b'\'') {
                break;
            }
            at += 2;
        }
        at += 1;
        Some((start, &quoted[start..at - 1]))
    })
}

/// A string without backslashes that has doubled quotes or continuations.
pub(super) fn joined(quoted: &str) -> String {
    pieces(quoted).map(|(_, piece)| piece.replace("''", "'")).collect()
}

/// An `E'…'` string; `start` is its place in the text.
pub(super) fn backslashes(token: &str, start: u32) -> Result<String, LexError> {
    let bytes = token.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    // A first half of a surrogate pair, whose second must follow.
    let mut first_half = None;
    let mut has_bytes = false;
    let mut at = 2;
    while at < bytes.len() {
        let place = start + at as u32;
        let byte = bytes[at];
        if first_half.is_some() && !(byte == b'\\' && matches!(bytes.get(at + 1), Some(b'u' | b'U'))) {
            return Err(pair(token, start, at));
        }
        match (byte, bytes.get(at + 1)) {
            (b'\'', Some(b'\'')) => at = push(&mut out, b'\'', at + 2),
            (b'\'', None) => break,
            (b'\'', Some(_)) => at = next_piece(bytes, at + 1),
            (b'\\', Some(b'u' | b'U')) => {
                let digits = if bytes[at + 1] == b'u' { 4 } else { 8 };
                let Some(code) = hex(bytes, at + 2, digits) else {
                    return Err(LexError::at(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape", place)
                        .hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX."));
                };
                let end = at + 2 + digits;
                match (first_half.take(), code) {
                    (None, 0xd800..=0xdbff) => first_half = Some(code),
                    (None, 0xdc00..=0xdfff) => return Err(pair(token, start, at)),
                    (Some(first), 0xdc00..=0xdfff) => push_code(&mut out, joined_pair(first, code), place, token, end)?,
                    (Some(_), _) => return Err(pair(token, start, at)),
                    (None, _) => push_code(&mut out, code, place, token, end)?,
                }
                at = end;
            }
            (b'\\', Some(b'x')) if bytes.get(at + 2).is_some_and(u8::is_ascii_hexdigit) => {
                let digits = 1 + usize::from(bytes.get(at + 3).is_some_and(u8::is_ascii_hexdigit));
                let value = hex(bytes, at + 2, digits).unwrap_or(0) as u8;
                has_bytes = true;
                at = push(&mut out, value, at + 2 + digits);
            }
            (b'\\', Some(b'0'..=b'7')) => {
                let digits = bytes[at + 1..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
                let value =
                    bytes[at + 1..=at + digits].iter().fold(0_u32, |all, digit| all * 8 + u32::from(digit - b'0'));
                has_bytes = true;
                at = push(&mut out, value as u8, at + 1 + digits);
            }
            (b'\\', Some(escaped)) => {
                let value = match escaped {
                    b'b' => 8,
                    b'f' => 12,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                };
                at = push(&mut out, value, at + 2);
            }
            _ => at = push(&mut out, byte, at + 1),
        }
    }
    if first_half.is_some() {
        return Err(pair(token, start, token.len() - 1));
    }
    if has_bytes && out.contains(&0) {
        return Err(invalid_bytes(&[0], start));
    }
    String::from_utf8(out).map_err(|error| {
        let from = error.utf8_error().valid_up_to();
        let end = (from + 2).min(error.as_bytes().len());
        invalid_bytes(&error.as_bytes()[from..end], start)
    })
}

fn invalid_bytes(bytes: &[u8], start: u32) -> LexError {
    let written: Vec<String> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", written.join(" "));
    LexError::at(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message, start)
}

fn push(out: &mut Vec<u8>, byte: u8, next: usize) -> usize {
    out.push(byte);
    next
}

/// Behind the quote that continues a string; there is one.
fn next_piece(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at] != b'\'' {
        at += match bytes[at] {
            b'-' => bytes[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(1),
            _ => 1,
        };
    }
    at + 1
}

fn hex(bytes: &[u8], from: usize, digits: usize) -> Option<u32> {
    let digits = bytes.get(from..from + digits)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn joined_pair(first: u32, second: u32) -> u32 {
    0x1_0000 + ((first & 0x3ff) << 10) + (second & 0x3ff)
}

/// The error of half a pair, which quotes the escape or character at `at`.
fn pair(token: &str, start: u32, at: usize) -> LexError {
    let rest = &token[token.floor_char_boundary(at)..];
    let escape = match rest.as_bytes() {
        [b'\\', b'u', ..] if hex(rest.as_bytes(), 2, 4).is_some() => Some(6),
        [b'\\', b'U', ..] if hex(rest.as_bytes(), 2, 8).is_some() => Some(10),
        _ => None,
    };
    let length = escape.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
    LexError::near("invalid Unicode surrogate pair", start + at as u32, start + (at + length) as u32)
}

fn push_code(out: &mut Vec<u8>, code: u32, place: u32, token: &str, end: usize) -> Result<(), LexError> {
    match char::from_u32(code).filter(|_| code != 0) {
        Some(character) => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            Ok(())
        }
        None => {
            let length = end.min(token.len()) as u32;
            Err(LexError::near("invalid Unicode escape value", place, place + length.min(10)))
        }
    }
}

/// A text of `U&` with its UESCAPE.
pub(super) fn unicode(token: &str, start: u32, quote: char) -> Result<String, LexError> {
    let (body, escape) = without_uescape(token, quote);
    let plain: String = if quote == '\'' { joined(&body[2..]) } else { body[3..body.len() - 1].replace("\"\"", "\"") };
    let mut out = String::with_capacity(plain.len());
    let mut first_half = None;
    let mut rest = plain.as_str();
    while let Some(character) = rest.chars().next() {
        let place = start + 3 + (plain.len() - rest.len()) as u32;
        let half = || LexError::at(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair", place);
        if character != escape {
            if first_half.is_some() {
                return Err(half());
            }
            out.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let bytes = rest.as_bytes();
        if bytes.get(1) == Some(&(escape as u8)) {
            if first_half.is_some() {
                return Err(half());
            }
            out.push(escape);
            rest = &rest[2..];
            continue;
        }
        let (code, length) = match (hex(bytes, 1, 4), bytes.get(1)) {
            (Some(code), _) => (code, 5),
            (None, Some(b'+')) if hex(bytes, 2, 6).is_some() => (hex(bytes, 2, 6).unwrap_or(0), 8),
            _ => {
                return Err(LexError::at(SqlState::SYNTAX_ERROR, "invalid Unicode escape", place)
                    .hint("Unicode escapes must be \\XXXX or \\+XXXXXX."));
            }
        };
        let code = match (first_half.take(), code) {
            (None, 0xd800..=0xdbff) => {
                first_half = Some(code);
                rest = &rest[length..];
                continue;
            }
            (Some(first), 0xdc00..=0xdfff) => joined_pair(first, code),
            (None, 0xdc00..=0xdfff) | (Some(_), _) => return Err(half()),
            (None, code) => code,
        };
        let Some(character) = char::from_u32(code).filter(|_| code != 0) else {
            return Err(LexError::at(SqlState::SYNTAX_ERROR, "invalid Unicode escape value", place));
        };
        out.push(character);
        rest = &rest[length..];
    }
    if first_half.is_some() {
        let place = start + 3 + plain.len() as u32;
        return Err(LexError::at(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair", place));
    }
    Ok(out)
}

/// The quoted part of a token, and its escape character.
fn without_uescape(token: &str, quote: char) -> (&str, char) {
    let bytes = token.as_bytes();
    let quote = quote as u8;
    let mut lexer = super::Lexer::new(token);
    let end = if quote == b'\'' {
        lexer.quoted(super::TokenKind::UnicodeString, 0, 2)
    } else {
        lexer.quoted_name(super::TokenKind::UnicodeName, 0, 2)
    };
    let Ok(quoted) = end else { return (token, '\\') };
    let end = quoted.end as usize;
    if end == bytes.len() {
        return (token, '\\');
    }
    // UESCAPE, and a string that was looked at.
    let character = lexer.lex().and_then(|_| lexer.lex()).and_then(|string| Ok(string.string(token)?.chars().next()));
    (&token[..end], character.ok().flatten().unwrap_or('\\'))
}
