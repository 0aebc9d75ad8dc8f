//! Bytes written as text: hexadecimal digits, base64, and escapes.

use bumpalo::collections::Vec;
use model::{Error, Result, SqlState};

use super::arguments::invalid_parameter;
use crate::context::Context;

const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64.
const BASE64_LINE: usize = 76;

/// Appends two hexadecimal digits for each byte.
pub(super) fn push_hex(bytes: &[u8], out: &mut String) {
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
}

/// Bytes of hexadecimal digits, with white space between pairs of them.
pub(super) fn hex_decoded<'a>(text: &str, ctx: &Context<'a>) -> Result<&'a [u8]> {
    let digit = |one: char| {
        let digit = one.to_digit(16).map(|digit| digit as u8);
        digit.ok_or_else(|| invalid_parameter(format!("invalid hexadecimal digit: \"{one}\"")))
    };
    let mut out = Vec::with_capacity_in(text.len() / 2, ctx.arena);
    let mut chars = text.chars();
    while let Some(one) = chars.next() {
        if matches!(one, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(one)?;
        let low = chars.next();
        let low = low.ok_or_else(|| invalid_parameter("invalid hexadecimal data: odd number of digits"))?;
        out.push(high << 4 | digit(low)?);
    }
    Ok(out.into_bump_slice())
}

/// Appends bytes as text: octal escapes for zero and bytes outside of ASCII, two backslashes for one. `byteaout`
/// escapes unprintable characters too.
fn push_escaped(bytes: &[u8], is_plain: impl Fn(u8) -> bool, out: &mut String) {
    out.reserve(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            byte if is_plain(*byte) => out.push(char::from(*byte)),
            byte => {
                let digits = [byte >> 6, byte >> 3 & 7, byte & 7];
                out.push('\\');
                out.extend(digits.map(|digit| char::from(b'0' + digit)));
            }
        }
    }
}

/// Appends the escape form of `bytea`.
pub(super) fn push_escapes(bytes: &[u8], out: &mut String) {
    push_escaped(bytes, |byte| (b' '..=b'~').contains(&byte), out);
}

/// Appends the form of `encode(bytes, 'escape')`.
pub(super) fn push_encode_escapes(bytes: &[u8], out: &mut String) {
    push_escaped(bytes, |byte| byte != 0 && byte.is_ascii(), out);
}

/// Bytes of the escape form.
pub(super) fn escape_decoded<'a>(text: &str, ctx: &Context<'a>) -> Result<&'a [u8]> {
    let mut out = Vec::with_capacity_in(text.len(), ctx.arena);
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                out.push(b'\\');
                tail
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                tail
            }
            (b'\\', _) => {
                return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea"));
            }
            (byte, tail) => {
                out.push(*byte);
                tail
            }
        };
    }
    Ok(out.into_bump_slice())
}

/// Appends base64 in lines of 76 characters.
pub(super) fn push_base64(bytes: &[u8], out: &mut String) {
    let mut column = 0;
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let joined = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let is_padding = at > group.len();
            out.push(if is_padding { '=' } else { char::from(BASE64[(joined >> (18 - 6 * at) & 63) as usize]) });
        }
        column += 4;
        if column == BASE64_LINE {
            out.push('\n');
            column = 0;
        }
    }
}

/// Bytes of base64, with white space anywhere.
pub(super) fn base64_decoded<'a>(text: &str, ctx: &Context<'a>) -> Result<&'a [u8]> {
    let mut out = Vec::with_capacity_in(text.len() / 4 * 3, ctx.arena);
    // A group is four digits of three bytes; after the first `=`, groups have as many bytes as its group.
    let (mut group, mut count, mut kept) = (0u32, 0, 3);
    for one in text.chars() {
        let digit = match one {
            ' ' | '\t' | '\n' | '\r' => continue,
            '=' if kept < 3 => 0,
            '=' if count >= 2 => {
                kept = count - 1;
                0
            }
            '=' => return Err(invalid_parameter("unexpected \"=\" while decoding base64 sequence")),
            one => base64_digit(one)?,
        };
        group = group << 6 | digit;
        count += 1;
        if count == 4 {
            let [_, first, second, third] = group.to_be_bytes();
            out.extend([first, second, third].into_iter().take(kept));
            (group, count) = (0, 0);
        }
    }
    if count != 0 {
        return Err(invalid_parameter("invalid base64 end sequence")
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out.into_bump_slice())
}

fn base64_digit(one: char) -> Result<u32> {
    Ok(match one {
        'A'..='Z' => u32::from(one) - u32::from('A'),
        'a'..='z' => u32::from(one) - u32::from('a') + 26,
        '0'..='9' => u32::from(one) - u32::from('0') + 52,
        '+' => 62,
        '/' => 63,
        _ => {
            let text = format!("invalid symbol \"{one}\" found while decoding base64 sequence");
            return Err(invalid_parameter(text));
        }
    })
}
