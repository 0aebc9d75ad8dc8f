//! Parser of Java `.properties` files.
//!
//! Follows the rules of `java.util.Properties.load` that occur in practice: `#` and `!` start a
//! comment, a key ends at the first unescaped `=`, `:` or blank, a backslash at the end of a line
//! continues it, `\uXXXX` is a UTF-16 unit. One difference: trailing blanks of values are removed,
//! because in a benchmark's file they are always a mistake.

/// A `key = value` entry with the line (from 1) where it starts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Parses the entries of `text` in order. The error has the line and a message.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    logical_lines(text).into_iter().map(|(line, text)| entry(line, &text).map_err(|message| (line, message))).collect()
}

/// Decodes a file as UTF-8, or as ISO 8859-1 (Java's default) if it is not valid UTF-8.
pub(crate) fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}').to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    }
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Joins lines that end with a backslash; drops blank lines and comments. Each has the number of
/// its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    let text = text.replace("\r\n", "\n");
    for (index, natural) in text.split(['\n', '\r']).enumerate() {
        let natural = natural.trim_start_matches(BLANKS);
        if !continues && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let backslashes = natural.chars().rev().take_while(|&c| c == '\\').count();
        let now_continues = backslashes % 2 == 1;
        let part = if now_continues { &natural[..natural.len() - 1] } else { natural };
        match lines.last_mut() {
            Some((_, line)) if continues => line.push_str(part),
            _ => lines.push((index + 1, part.to_owned())),
        }
        continues = now_continues;
    }
    lines
}

fn entry(line: usize, text: &str) -> Result<Entry, String> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = !escaped && (c == '=' || c == ':' || BLANKS.contains(&c));
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = text.split_at(end.unwrap_or(text.len()));
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_matches(BLANKS);
    Ok(Entry { line, key: unescape(key)?, value: unescape(value)? })
}

fn unescape(text: &str) -> Result<String, String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some('u')) => {
                units.push(hex_unit(&chars.by_ref().take(4).collect::<String>())?);
                continue;
            }
            ('\\', Some(other)) => other,
            ('\\', None) => continue,
            (plain, _) => plain,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "half of a surrogate pair in \\u escapes".to_owned())
}

fn hex_unit(digits: &str) -> Result<u16, String> {
    let is_hex = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = u16::from_str_radix(digits, 16).ok().filter(|_| is_hex);
    unit.ok_or_else(|| format!("\\u{digits} is not a character: expected four hex digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(usize, &str, &str)]) {
        let entries = parse(text).unwrap();
        let seen: Vec<_> = entries.iter().map(|e| (e.line, e.key.as_str(), e.value.as_str())).collect();
        assert_eq!(seen, expected, "{text:?}");
    }

    #[test]
    fn lines_follow_the_rules_of_java() {
        check("", &[]);
        check("# LOOP=1\n  ! LOOP=2\n\nLOOP=3", &[(4, "LOOP", "3")]);
        check(
            "LOOP = 3\nHOST: a\nPORT 6667\nX",
            &[(1, "LOOP", "3"), (2, "HOST", "a"), (3, "PORT", "6667"), (4, "X", "")],
        );
        check("LOOP=3\r\nHOST=a\rPORT=1", &[(1, "LOOP", "3"), (2, "HOST", "a"), (3, "PORT", "1")]);
        check("HOST=a,\\\n   b,\\\n#c\nPORT=1", &[(1, "HOST", "a,b,#c"), (4, "PORT", "1")]);
        check("A=x\\\\\nB=y", &[(1, "A", "x\\"), (2, "B", "y")]);
        check("A=Basic cm9v=\nB==:x", &[(1, "A", "Basic cm9v="), (2, "B", "=:x")]);
        check("a\\=b\\:c\\ d=1", &[(1, "a=b:c d", "1")]);
        check("A=\\u6d4b\\ud83d\\ude00\\t|", &[(1, "A", "测😀\t|")]);
        check("A=1   \t\nB=2 # not a comment", &[(1, "A", "1"), (2, "B", "2 # not a comment")]);
        check("A=x\\", &[(1, "A", "x")]);
    }

    #[test]
    fn a_bad_escape_names_its_line() {
        for (text, line) in [("A=1\nB=\\u12", 2), ("A=\\u+123", 1), ("\\uzzzz=1", 1), ("A=\\ud83d", 1)] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_iso_8859_1() {
        assert_eq!(decode(b"REMARK=caf\xe9"), "REMARK=caf\u{e9}");
        assert_eq!(decode("\u{feff}LOOP=1".as_bytes()), "LOOP=1");
    }
}
