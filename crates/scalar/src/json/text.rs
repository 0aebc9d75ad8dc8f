//! Strings in JSON text: with quotes and escapes, and without.

use std::fmt::Write;

use bumpalo::Bump;

/// Appends a string with quotes and escapes.
pub(super) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut copied = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            0x08 => "\\b",
            0x0C => "\\f",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            ..b' ' => "",
            _ => continue,
        };
        out.push_str(&text[copied..at]);
        copied = at + 1;
        if escape.is_empty() {
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[copied..]);
    out.push('"');
}

/// The text of a string that is written with quotes and has convertible escapes; without escapes it is borrowed.
pub(super) fn unquoted<'t>(written: &'t str, arena: &'t Bump) -> &'t str {
    let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
    if inner.contains('\\') { arena.alloc_str(&unescaped(inner)) } else { inner }
}

/// Whether a string that is written with quotes is this text.
pub(super) fn is_text(written: &str, text: &str) -> bool {
    let inner = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written);
    if inner.contains('\\') { unescaped(inner) == text } else { inner == text }
}

fn unescaped(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let kind = escape.chars().next().unwrap_or('\\');
        rest = &escape[kind.len_utf8().min(escape.len())..];
        match kind {
            'b' => text.push('\u{8}'),
            'f' => text.push('\u{c}'),
            'n' => text.push('\n'),
            'r' => text.push('\r'),
            't' => text.push('\t'),
            'u' => {
                let (one, after) = code_point(rest);
                text.push(one);
                rest = after;
            }
            other => text.push(other),
        }
    }
    text.push_str(rest);
    text
}

/// The character of the digits after `\u`, which may go on with a low surrogate, and the text behind it.
fn code_point(rest: &str) -> (char, &str) {
    let unit = |rest: &str| rest.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(first) = unit(rest) else { return (char::REPLACEMENT_CHARACTER, rest) };
    let rest = &rest[4..];
    if !(0xD800..0xDC00).contains(&first) {
        return (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    }
    match rest.strip_prefix("\\u").and_then(|low| Some((unit(low)?, &low[4..]))) {
        Some((low @ 0xDC00..0xE000, rest)) => {
            let code = 0x1_0000 + ((first - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
        }
        _ => (char::REPLACEMENT_CHARACTER, rest),
    }
}
