//! Text forms of `inet` and `cidr`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use catalog::TypeId;
use model::{Datum, Error, Network, Result, SqlState};

use super::CIDR;
use super::functions::{bits_max, masked, of};
use crate::context::Context;
use crate::expr::Call;

/// Reads an address with or without the length of its prefix.
pub(super) fn input<'a>(text: &str, ty: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let is_cidr = ty == CIDR;
    let name = if is_cidr { "cidr" } else { "inet" };
    let invalid = || {
        let text = format!("invalid input syntax for type {name}: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
    };
    let network = if text.contains(':') { parse_v6(text) } else { parse_v4(text, is_cidr) };
    let network = network.ok_or_else(invalid)?;
    if is_cidr && masked(network) != network {
        let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid cidr value: \"{text}\""));
        return Err(error.with_detail("Value has bits set to right of mask."));
    }
    Ok(Datum::Network(network))
}

/// An IPv6 address. The length of the prefix has no leading zero.
fn parse_v6(text: &str) -> Option<Network> {
    let (address, prefix) = match text.split_once('/') {
        None => (text, 128),
        Some((_, prefix)) if prefix.len() > 1 && prefix.starts_with('0') => return None,
        Some((address, prefix)) => (address, number(prefix)?),
    };
    let address: Ipv6Addr = address.parse().ok()?;
    (prefix <= 128).then_some(Network { address: IpAddr::V6(address), prefix: prefix as u8 })
}

/// A number of digits only.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// An IPv4 address. The last octets may be left out if there is a prefix, and in a `cidr`.
fn parse_v4(text: &str, is_cidr: bool) -> Option<Network> {
    let (address, prefix) = match text.split_once('/') {
        None => (text, None),
        Some((address, prefix)) => (address, Some(number(prefix)?)),
    };
    let given = match address.strip_prefix("0x").or_else(|| address.strip_prefix("0X")) {
        Some(digits) if is_cidr => hexadecimal_octets(digits)?,
        _ => address.split('.').map(|one| number(one).and_then(|one| u8::try_from(one).ok())).collect::<Option<_>>()?,
    };
    if given.len() > 4 {
        return None;
    }
    let mut octets = [0; 4];
    octets[..given.len()].copy_from_slice(&given);
    let written = given.len() as u32 * 8;
    let prefix = match prefix {
        Some(prefix) if !is_cidr && prefix / 8 * 8 > written => return None,
        Some(prefix) => prefix,
        None if written == 32 => 32,
        None if is_cidr => class_prefix(octets[0], written),
        None => return None,
    };
    (prefix <= 32).then_some(Network { address: IpAddr::V4(Ipv4Addr::from(octets)), prefix: prefix as u8 })
}

/// Octets of two hexadecimal digits each; the last one may have only its first digit.
fn hexadecimal_octets(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        digits.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let octets = digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0));
    (!digits.is_empty()).then(|| octets.collect())
}

/// The prefix of a network of which only some bits were written: that of its historical class.
fn class_prefix(first: u8, written: u32) -> u32 {
    let class = match first {
        240.. => 32,
        224.. => 8,
        192.. => 24,
        128.. => 16,
        _ => 8,
    };
    if first == 224 && written <= 8 { 4 } else { written.max(class) }
}

/// Writes an address, with its prefix if that is not the whole address; a `cidr` always with it.
pub(super) fn output(datum: &Datum<'_>, ty: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Network(network) = datum else { return Err(Error::bug("an address that is none")) };
    write_address(network.address, text);
    if ty == CIDR || network.prefix != bits_max(network.address) {
        text.push_str(&format!("/{}", network.prefix));
    }
    Ok(())
}

fn write_address(address: IpAddr, text: &mut String) {
    match address {
        IpAddr::V4(address) => text.push_str(&address.to_string()),
        IpAddr::V6(address) => write_v6(address, text),
    }
}

/// Writes an IPv6 address. The longest run of at least two zero words becomes `::`; an IPv4 address behind it is written
/// as such.
fn write_v6(address: Ipv6Addr, text: &mut String) {
    let words = address.segments();
    let (start, length) = longest_zeros(&words);
    let (start, length) = if length < 2 { (8, 0) } else { (start, length) };
    let embeds_v4 = start == 0 && (length == 6 || (length == 5 && words[5] == 0xffff));
    for (at, word) in words.iter().enumerate() {
        if (start..start + length).contains(&at) {
            if at == start {
                text.push(':');
            }
            continue;
        }
        if at > 0 {
            text.push(':');
        }
        if embeds_v4 && at == 6 {
            let [.., a, b, c, d] = address.octets();
            return text.push_str(&Ipv4Addr::new(a, b, c, d).to_string());
        }
        text.push_str(&format!("{word:x}"));
    }
    if start + length == 8 && length > 0 {
        text.push(':');
    }
}

/// The first longest run of zeros: where it starts, and its length.
fn longest_zeros(words: &[u16]) -> (usize, usize) {
    let (mut best, mut run) = ((0, 0), (0, 0));
    for (at, word) in words.iter().enumerate() {
        run = match (word, run.1) {
            (0, 0) => (at, 1),
            (0, length) => (run.0, length + 1),
            _ => (0, 0),
        };
        if run.1 > best.1 {
            best = run;
        }
    }
    best
}

/// `abbrev(inet)`
pub(super) fn abbrev_inet<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(datum) = arguments.first() else { return Err(Error::bug("abbrev")) };
    let mut text = String::new();
    output(datum, super::INET, ctx, &mut text)?;
    Ok(ctx.text(&text))
}

/// `host`: the address alone.
pub(super) fn host<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let mut text = String::new();
    write_address(of(arguments, 0)?.address, &mut text);
    Ok(ctx.text(&text))
}

/// `text(inet)`: always with the prefix.
pub(super) fn text<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    let mut text = String::new();
    write_address(network.address, &mut text);
    Ok(ctx.text(&format!("{text}/{}", network.prefix)))
}

/// `abbrev(cidr)`: only the octets or words that the prefix reaches into.
pub(super) fn abbrev_cidr<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    let address = match network.address {
        IpAddr::V4(address) => {
            let octets = address.octets();
            let shown = usize::from(network.prefix.div_ceil(8)).max(1);
            octets.iter().take(shown).map(u8::to_string).collect::<Vec<_>>().join(".")
        }
        IpAddr::V6(address) => abbreviated_v6(address, network.prefix),
    };
    Ok(ctx.text(&format!("{address}/{}", network.prefix)))
}

/// The words of an IPv6 network that its prefix reaches into, at least two. Even a single zero word is left out.
fn abbreviated_v6(address: Ipv6Addr, prefix: u8) -> String {
    if prefix == 0 {
        return "::".to_owned();
    }
    let all = address.segments();
    let words = &all[..usize::from(prefix.div_ceil(16)).max(2)];
    let (start, length) = longest_zeros(words);
    let embeds_v4 = length != words.len() && start == 0 && (length == 6 || (length == 5 && all[5] == 0xffff));
    let mut text = String::new();
    for (at, word) in words.iter().enumerate() {
        let [high, low] = word.to_be_bytes();
        if (start..start + length).contains(&at) {
            text.push_str(if at == start { ":" } else { "" });
            text.push_str(if at + 1 == words.len() { ":" } else { "" });
        } else if embeds_v4 && at > 5 {
            text.push_str(&format!("{}{high}", if at == 6 { ':' } else { '.' }));
            if at != 7 || prefix > 120 {
                text.push_str(&format!(".{low}"));
            }
        } else {
            text.push_str(&format!("{}{word:x}", if at == 0 { "" } else { ":" }));
        }
    }
    text
}
