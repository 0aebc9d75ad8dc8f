//! `macaddr` of six bytes and `macaddr8` of eight.

use std::cmp::Ordering;

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;

/// The bytes between the halves of a six-byte address, where it is written with eight.
const MIDDLE: u64 = 0xfffe;
/// Bits of an address of six bytes.
const SIX_BYTES: u64 = (1 << 48) - 1;

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn invalid(name: &str, text: &str) -> Error {
    let text = format!("invalid input syntax for type {name}: \"{text}\"");
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
}

/// Reads `macaddr`: six octets, or groups of octets with two digits each.
pub(super) fn macaddr_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let trimmed = text.trim_matches(is_space);
    if let Some(octets) = separate_octets(trimmed) {
        let too_large = || {
            let text = format!("invalid octet value in \"macaddr\" value: \"{text}\"");
            Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text)
        };
        let octets = octets.iter().map(|octet| u8::try_from(*octet).map_err(|_| too_large()));
        return Ok(Datum::Mac(joined(&octets.collect::<Result<Vec<u8>>>()?)));
    }
    let grouped = || {
        let forms: [(char, &[usize]); 4] = [(':', &[6, 6]), ('-', &[6, 6]), ('.', &[4, 4, 4]), ('-', &[4, 4, 4])];
        let groups = |separator, lengths: &[usize]| trimmed.split(separator).map(str::len).eq(lengths.iter().copied());
        let form = forms.iter().find(|(separator, lengths)| groups(*separator, lengths));
        let separator = form.map(|(separator, _)| *separator);
        let is_form = separator.is_some() || trimmed.len() == 12;
        let digits: String = trimmed.chars().filter(|one| Some(*one) != separator).collect();
        let is_number = is_form && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_number { u64::from_str_radix(&digits, 16).ok() } else { None }
    };
    grouped().map(Datum::Mac).ok_or_else(|| invalid("macaddr", text))
}

/// Six hexadecimal numbers between colons or hyphens.
fn separate_octets(text: &str) -> Option<[u32; 6]> {
    let separator = if text.contains(':') { ':' } else { '-' };
    let mut octets = [0; 6];
    let mut parts = text.split(separator);
    for octet in &mut octets {
        let part = parts.next()?.trim_start_matches(is_space);
        let digits = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")).unwrap_or(part);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        *octet = u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
    }
    parts.next().is_none().then_some(octets)
}

fn joined(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

/// Reads `macaddr8`: six or eight octets of two digits, with one kind of separator between some of them or none.
pub(super) fn macaddr8_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    octets8(text.trim_start_matches(is_space)).map(Datum::Mac).ok_or_else(|| invalid("macaddr8", text))
}

fn octets8(text: &str) -> Option<u64> {
    let mut octets = Vec::with_capacity(8);
    let mut separator = None;
    let mut rest = text;
    // A single character at the end is of no account, as in PostgreSQL.
    while rest.len() > 1 {
        let (digits, after) = rest.split_at_checked(2)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        octets.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
        if let Some(one) = rest.chars().next().filter(|one| matches!(one, ':' | '-' | '.')) {
            if *separator.get_or_insert(one) != one {
                return None;
            }
            rest = &rest[1..];
        }
        let complete = matches!(octets.len(), 6 | 8);
        if complete && rest.starts_with(is_space) {
            rest = rest.trim_start_matches(is_space);
            if !rest.is_empty() {
                return None;
            }
        }
        if octets.len() > 8 {
            return None;
        }
    }
    match octets.len() {
        6 => Some(eight_bytes(joined(&octets))),
        8 => Some(joined(&octets)),
        _ => None,
    }
}

fn eight_bytes(six: u64) -> u64 {
    (six >> 24) << 40 | MIDDLE << 24 | (six & 0xff_ffff)
}

pub(super) fn macaddr_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    write_octets(&number(datum)?.to_be_bytes()[2..], text);
    Ok(())
}

pub(super) fn macaddr8_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    write_octets(&number(datum)?.to_be_bytes(), text);
    Ok(())
}

fn write_octets(octets: &[u8], text: &mut String) {
    let octets: Vec<String> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    text.push_str(&octets.join(":"));
}

fn number(datum: &Datum<'_>) -> Result<u64> {
    match datum {
        Datum::Mac(number) => Ok(*number),
        _ => Err(Error::bug("a macaddr that is none")),
    }
}

fn one(arguments: &[Datum<'_>]) -> Result<u64> {
    arguments.first().map_or_else(|| Err(Error::bug("a function of macaddr")), number)
}

fn both(arguments: &[Datum<'_>]) -> Result<[u64; 2]> {
    match arguments {
        [left, right] => Ok([number(left)?, number(right)?]),
        _ => Err(Error::bug("a function of two macaddr")),
    }
}

/// `macaddr(macaddr8)`
pub(super) fn macaddr<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let eight = one(arguments)?;
    if eight >> 24 & 0xffff != MIDDLE {
        let text = "macaddr8 data out of range to convert to macaddr";
        let hint = "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
                    xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.";
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text).with_hint(hint));
    }
    Ok(Datum::Mac(eight >> 40 << 24 | (eight & 0xff_ffff)))
}

/// `macaddr8(macaddr)`
pub(super) fn macaddr8<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(eight_bytes(one(arguments)?)))
}

/// `macaddr8_set7bit`: the bit that marks a modified EUI-64.
pub(super) fn macaddr8_set7bit<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(one(arguments)? | 0x02 << 56))
}

/// `trunc(macaddr)`: the manufacturer.
pub(super) fn macaddr_trunc<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(one(arguments)? >> 24 << 24))
}

/// `trunc(macaddr8)`
pub(super) fn macaddr8_trunc<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(one(arguments)? >> 40 << 40))
}

pub(super) fn macaddr_not<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(!one(arguments)? & SIX_BYTES))
}

pub(super) fn macaddr8_not<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Mac(!one(arguments)?))
}

pub(super) fn mac_and<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = both(arguments)?;
    Ok(Datum::Mac(left & right))
}

pub(super) fn mac_or<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [left, right] = both(arguments)?;
    Ok(Datum::Mac(left | right))
}

fn order(arguments: &[Datum<'_>]) -> Result<Ordering> {
    let [left, right] = both(arguments)?;
    Ok(left.cmp(&right))
}

macro_rules! comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            Ok(Datum::Bool(order(arguments)?.$test()))
        }
    )*};
}

comparisons! {
    mac_eq => is_eq;
    mac_ne => is_ne;
    mac_lt => is_lt;
    mac_le => is_le;
    mac_gt => is_gt;
    mac_ge => is_ge;
}

pub(super) fn mac_cmp<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(order(arguments)? as i32))
}
