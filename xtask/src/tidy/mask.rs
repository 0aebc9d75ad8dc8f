//! Blanks comments, string contents and test items in Rust source, keeping line numbers, so that words can be
//! searched for.

/// Blanks comments and the contents of string and character literals; line breaks are kept.
pub(super) fn code(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_end(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => quoted_end(bytes, at + 1, b'"'),
            b'r' | b'b' | b'c' if !in_word(bytes, at) && raw_string(bytes, at).is_some() => {
                raw_string(bytes, at).unwrap_or(at + 1)
            }
            b'\'' => char_end(bytes, at),
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out, at, end);
        at = end.max(at + 1);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Blanks items under `#[cfg(test)]` in masked `code`.
pub(super) fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(found) = code.get(from..).and_then(|rest| rest.find("#[cfg(test)]")) {
        let start = from + found;
        let end = item_end(code.as_bytes(), start + "#[cfg(test)]".len());
        blank(&mut out, start, end);
        from = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// End of the item that starts after `at`: its closing brace or semicolon.
fn item_end(code: &[u8], at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, &byte) in code[at..].iter().enumerate() {
        match byte {
            b';' if depth == 0 => return at + offset + 1,
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(out: &mut [u8], from: usize, to: usize) {
    let to = to.min(out.len());
    for byte in &mut out[from..to] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |offset| at + offset)
}

fn block_comment_end(bytes: &[u8], at: usize) -> usize {
    let (mut depth, mut at) = (0_usize, at);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

fn quoted_end(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// End of a raw, byte or C string literal that starts at `at`, if there is one.
fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let prefix = rest.iter().take(2).take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    if !rest[..prefix].contains(&b'r') {
        return (hashes == 0).then(|| quoted_end(bytes, at + open + 1, b'"'));
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = at + open + 1;
    let end = bytes[body..].windows(close.len()).position(|window| window == close);
    Some(end.map_or(bytes.len(), |offset| body + offset + close.len()))
}

/// End of a character literal; for a lifetime only its tick.
fn char_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => quoted_end(bytes, at + 1, b'\''),
        Some(_) => {
            let width = std::str::from_utf8(&bytes[at + 1..(at + 5).min(bytes.len())])
                .ok()
                .and_then(|text| text.chars().next())
                .map_or(1, char::len_utf8);
            if bytes.get(at + 1 + width) == Some(&b'\'') { at + width + 2 } else { at + 1 }
        }
        None => bytes.len(),
    }
}

fn in_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_left() {
        let cases = [
            ("a // tokio::\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            (r#"f("std::fs \" x") g"#, "f(             ) g"),
            ("r#\"a \" b\"# c", "           c"),
            ("'\"' x '\\'' y", "    x      y"),
            ("fn f<'a>(x: &'a str)", "fn f< a>(x: & a str)"),
            ("b\"x\\\"\" y", "        y"),
        ];
        for (source, expected) in cases {
            let masked = code(source);
            assert_eq!(masked.len(), source.len(), "{source}");
            assert_eq!(masked.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
        }
    }

    #[test]
    fn test_items_are_blanked_and_following_code_is_not() {
        let source = "use a;\n#[cfg(test)]\nmod tests { fn f() { std::fs } }\nfn g() {}\n#[cfg(test)]\nmod t;\nuse b;";
        let left = without_tests(source);
        assert!(!left.contains("std::fs") && left.contains("fn g()") && left.contains("use b"));
        assert_eq!(left.lines().count(), source.lines().count());
    }
}
