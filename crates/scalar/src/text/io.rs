//! Text forms of texts, names, bytes, bit strings and uuids.

use catalog::TypeId;
use model::{Bits, Datum, Error, Result, SqlState};

use super::characters::clipped;
use super::{bits, digits};
use crate::context::Context;
use crate::registry::{Family, TypeSupport};

/// Maximum length of a name in bytes.
pub(super) const NAME_BYTES_MAX: usize = 63;

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: &[], sets: &[], aggregates: &[] };

const TEXT: TypeSupport = TypeSupport { input: text_input, output: text_output, compare: None };
const BITS: TypeSupport = TypeSupport { input: bits_input, output: bits_output, compare: None };

const TYPES: &[(TypeId, TypeSupport)] = &[
    (TypeId::TEXT, TEXT),
    (TypeId::VARCHAR, TEXT),
    (TypeId::UNKNOWN, TEXT),
    (TypeId::PG_NODE_TREE, TEXT),
    (TypeId::CSTRING, TEXT),
    (TypeId::BPCHAR, TypeSupport { input: blank_padded_input, ..TEXT }),
    (TypeId::NAME, TypeSupport { input: name_input, ..TEXT }),
    (TypeId::CHAR, TypeSupport { input: char_input, output: char_output, compare: None }),
    (TypeId::BYTEA, TypeSupport { input: bytes_input, output: bytes_output, compare: None }),
    (TypeId::BIT, BITS),
    (TypeId::VARBIT, BITS),
    (TypeId::UUID, TypeSupport { input: uuid_input, output: uuid_output, compare: None }),
];

fn text_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(ctx.text(text))
}

/// Trailing blanks are not held: they mean nothing for this type.
fn blank_padded_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(ctx.text(text.trim_end_matches(' ')))
}

fn name_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(ctx.text(name(text)))
}

/// The text as a name.
pub(super) fn name(text: &str) -> &str {
    clipped(text, NAME_BYTES_MAX)
}

fn char_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(char_of(char_byte(text), ctx))
}

/// The byte of a `"char"` as text: an octal escape, or else the first byte, which is 0 in an empty text.
pub(super) fn char_byte(text: &str) -> u8 {
    let octal = text.strip_prefix('\\').filter(|digits| digits.len() == 3);
    let octal = octal.filter(|digits| digits.bytes().all(|digit| matches!(digit, b'0'..=b'7')));
    let byte = octal.and_then(|digits| u16::from_str_radix(digits, 8).ok()).map(|code| code.to_le_bytes()[0]);
    byte.or(text.bytes().next()).unwrap_or(0)
}

/// A `"char"`: one byte, held as the character of this number, or as the empty text for 0.
pub(crate) fn char_of<'a>(byte: u8, ctx: &Context<'a>) -> Datum<'a> {
    if byte == 0 { Datum::Text("") } else { ctx.text(char::from(byte).encode_utf8(&mut [0; 4])) }
}

pub(super) fn char_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, out: &mut String) -> Result<()> {
    let Datum::Text(text) = datum else { return Ok(()) };
    match text.chars().next() {
        Some(one) if !one.is_ascii() => out.push_str(&format!("\\{:03o}", u32::from(one))),
        _ => out.push_str(text),
    }
    Ok(())
}

fn text_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, out: &mut String) -> Result<()> {
    if let Datum::Text(text) = datum {
        out.push_str(text);
    }
    Ok(())
}

/// Reads bytes in the hex form `\x00ff` or the escape form `\000\377`.
pub(super) fn bytes_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let bytes = match text.strip_prefix("\\x") {
        Some(hex) => digits::hex_decoded(hex, ctx)?,
        None => digits::escape_decoded(text, ctx)?,
    };
    Ok(Datum::Bytes(bytes))
}

fn bytes_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, out: &mut String) -> Result<()> {
    let Datum::Bytes(bytes) = datum else { return Ok(()) };
    if ctx.session.bytea_escape {
        digits::push_escapes(bytes, out);
        return Ok(());
    }
    ctx.check_size(bytes.len().saturating_mul(2).saturating_add(2))?;
    out.push_str("\\x");
    digits::push_hex(bytes, out);
    Ok(())
}

fn bits_input<'a>(text: &str, _: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let is_hex = text.starts_with(['x', 'X']);
    let written = if is_hex { &text[1..] } else { text.strip_prefix(['b', 'B']).unwrap_or(text) };
    let (width, what) = if is_hex { (4, "hexadecimal") } else { (1, "binary") };
    let count = written.len().saturating_mul(width);
    let bytes = bits::zeros(count, ctx)?;
    for (at, one) in written.chars().enumerate() {
        let digit = one.to_digit(1 << width).ok_or_else(|| {
            let text = format!("\"{one}\" is not a valid {what} digit");
            Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
        })?;
        // All digits before this one are ASCII, so `at` is also its byte.
        let bit = at * width;
        bytes[bit / 8] |= (digit << (8 - width - bit % 8)) as u8;
    }
    Ok(Datum::Bits(Bits { length: count as u32, bytes }))
}

fn bits_output(datum: &Datum<'_>, _: TypeId, ctx: &Context<'_>, out: &mut String) -> Result<()> {
    let Datum::Bits(bits) = datum else { return Ok(()) };
    ctx.check_size(bits.length as usize)?;
    out.extend((0..bits.length as usize).map(|at| if bits::is_set(bits.bytes, at) { '1' } else { '0' }));
    Ok(())
}

fn uuid_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    pg::value::parse_uuid(text).map(Datum::Uuid)
}

fn uuid_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, out: &mut String) -> Result<()> {
    let Datum::Uuid(uuid) = datum else { return Ok(()) };
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        digits::push_hex(&[*byte], out);
    }
    Ok(())
}
