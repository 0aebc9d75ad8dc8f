//! Tokens of formulas.

use std::ops::Range;

use model::{Error, Result, SqlState};

/// A token, and its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) place: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Number(f64),
    /// A name, with the parts that dots join.
    Name(String),
    /// The parts of a reference: text, and place of the text in the formula.
    Reference(Vec<(String, Range<usize>)>),
    Symbol(&'static str),
    End,
}

/// Longer symbols first.
const SYMBOLS: [&str; 14] = ["<>", "<=", ">=", "<", ">", "=", "+", "-", "*", "/", "\\", "^", "(", ")"];

/// Splits a text into tokens; the last one is the end.
///
/// # Errors
/// 42601 for a character that starts no token, and for a reference or number that does not end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { kind: Kind::End, place: at..at });
            return Ok(tokens);
        };
        let (kind, len) = match first {
            '[' => reference(text, at)?,
            ',' => (Kind::Symbol(","), 1),
            '0'..='9' | '.' => number(text, at)?,
            letter if letter.is_alphabetic() || letter == '_' => {
                let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
                let len = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                (Kind::Name(rest[..len].to_owned()), len)
            }
            other => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Kind::Symbol(symbol), symbol.len()),
                None => return Err(syntax(text, at, &format!("character \"{other}\" has no meaning in a formula"))),
            },
        };
        tokens.push(Token { kind, place: at..at + len });
        at += len;
    }
}

/// A number: digits, a fraction, an exponent, and a letter for its type in VB.NET.
fn number(text: &str, at: usize) -> Result<(Kind, usize)> {
    let bytes = &text.as_bytes()[at..];
    let digits = |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut len = digits(0);
    if bytes.get(len) == Some(&b'.') {
        len = digits(len + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(len) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let end = digits(len + 1 + sign);
        if end > len + 1 + sign {
            len = end;
        }
    }
    let digits = &text[at..at + len];
    let number: f64 =
        digits.parse().map_err(|_| syntax(text, at, &format!("found \"{digits}\", expected a number")))?;
    if number.is_infinite() {
        return Err(syntax(text, at, &format!("number {digits} is too large: expected at most {:e}", f64::MAX)));
    }
    let rest = &text[at + len..];
    let suffix = ["UI", "US", "UL", "R", "D", "F", "L", "I", "S", "#", "!", "@", "%", "&"];
    let suffix =
        suffix.iter().find(|suffix| rest.get(..suffix.len()).is_some_and(|own| own.eq_ignore_ascii_case(suffix)));
    len += suffix.map_or(0, |suffix| suffix.len());
    if let Some(letter) = text[at + len..].chars().next().filter(|letter| letter.is_alphanumeric() || *letter == '_') {
        return Err(syntax(text, at + len, &format!("found \"{letter}\", expected an operator behind the number")));
    }
    Ok((Kind::Number(number), len))
}

/// A reference, from its bracket on.
fn reference(text: &str, at: usize) -> Result<(Kind, usize)> {
    let mut parts = Vec::new();
    let mut from = at + 1;
    loop {
        let (part, place, end) = part(text, at, from)?;
        parts.push((part, place));
        from = end + 1;
        if text.as_bytes()[end] == b']' {
            return Ok((Kind::Reference(parts), from - at));
        }
    }
}

/// A part of a reference, from a place on: its text, the place of the text, and that of the comma or bracket behind it.
fn part(text: &str, bracket: usize, from: usize) -> Result<(String, Range<usize>, usize)> {
    let open = || syntax(text, bracket, "the reference has no closing bracket");
    let start = from + (text[from..].len() - text[from..].trim_start().len());
    if !text[start..].starts_with('"') {
        return plain_part(text, start).ok_or_else(open);
    }
    let (mut part, mut at) = (String::new(), start + 1);
    loop {
        let quote = at + text[at..].find('"').ok_or_else(open)?;
        part.push_str(&text[at..quote]);
        if !text[quote + 1..].starts_with('"') {
            let behind = quote + 1;
            let end = behind + (text[behind..].len() - text[behind..].trim_start().len());
            return match text[end..].chars().next() {
                Some(',' | ']') => Ok((part, start..behind, end)),
                _ => Err(syntax(text, behind, "expected \",\" or \"]\" behind a quoted name")),
            };
        }
        part.push('"');
        at = quote + 2;
    }
}

/// A part without quotes, in which `]]` is a bracket; nothing if it does not end.
fn plain_part(text: &str, start: usize) -> Option<(String, Range<usize>, usize)> {
    let mut end = start;
    loop {
        end += text[end..].find([',', ']'])?;
        if !text[end..].starts_with("]]") {
            break;
        }
        end += 2;
    }
    let part = text[start..end].trim_end();
    Some((part.replace("]]", "]"), start..start + part.len(), end))
}

/// A syntax error at a place of a text.
pub(super) fn syntax(text: &str, at: usize, problem: &str) -> Error {
    let position = text[..at].chars().count() + 1;
    Error::new(SqlState::SYNTAX_ERROR, format!("formula: {problem} (character {position})"))
}
