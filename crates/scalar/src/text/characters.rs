//! Characters of texts: places, case and classes.

/// The byte at which character `number`, from 0, begins; the length of the text if it has fewer.
pub(super) fn offset(text: &str, number: usize) -> usize {
    let Some(head) = text.as_bytes().get(..number) else { return text.len() };
    if head.is_ascii() {
        // The character at this place begins here: the one before it is complete.
        return number;
    }
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// Number of characters.
pub(super) fn count(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// A text without its first characters, up to a number of characters.
pub(super) fn part(text: &str, skipped: usize, taken: Option<usize>) -> &str {
    let rest = &text[offset(text, skipped)..];
    taken.map_or(rest, |taken| &rest[..offset(rest, taken)])
}

/// The text without its last bytes beyond a limit, with whole characters.
pub(super) fn clipped(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// The lower case of a character, which is one character as in C.
pub(super) fn lower(one: char) -> char {
    let mut mapped = one.to_lowercase();
    // The dotted capital I has two characters in lower case; the simple mapping is the first.
    mapped.next().unwrap_or(one)
}

/// The upper case of a character, which is one character as in C.
pub(super) fn upper(one: char) -> char {
    let mut mapped = one.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(upper), None) => upper,
        _ => upper_with_iota(one),
    }
}

/// The upper case of Greek vowels with iota, which the full mapping writes as two letters; other letters have no
/// simple one.
fn upper_with_iota(one: char) -> char {
    let distance = match one {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => 0,
    };
    char::from_u32(u32::from(one) + distance).unwrap_or(one)
}

/// Whether C's locale C.UTF-8 has it among the letters and digits.
pub(super) fn is_alphanumeric(one: char) -> bool {
    if one.is_ascii() { one.is_ascii_alphanumeric() } else { is_letter(one) }
}

/// Whether C's locale C.UTF-8 has it among the letters. They include the decimal digits of other scripts.
pub(super) fn is_letter(one: char) -> bool {
    if one.is_ascii() { one.is_ascii_alphabetic() } else { one.is_alphabetic() || is_decimal_digit(one) }
}

/// Whether it is a digit of another script than Latin.
fn is_decimal_digit(one: char) -> bool {
    /// The zeros of the scripts of the basic plane; nine more digits follow each.
    const ZEROS: [u32; 36] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20,
        0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0,
        0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    ];
    let code = u32::from(one);
    let following = ZEROS.partition_point(|zero| *zero <= code);
    following.checked_sub(1).is_some_and(|at| code - ZEROS[at] < 10)
}
