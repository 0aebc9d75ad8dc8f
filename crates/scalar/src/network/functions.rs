//! Functions of `inet` and `cidr`.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::{Datum, Error, Network, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;

pub(super) fn of(arguments: &[Datum<'_>], at: usize) -> Result<Network> {
    match arguments.get(at) {
        Some(Datum::Network(network)) => Ok(*network),
        _ => Err(Error::bug("an address that is none")),
    }
}

/// Number of bits of an address.
pub(super) fn bits_max(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address as a number.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address of a number, of the same family as another one.
fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}

/// All bits of an address.
fn all_bits(like: IpAddr) -> u128 {
    if like.is_ipv4() { u32::MAX.into() } else { u128::MAX }
}

/// The bits behind a prefix.
fn host_bits(network: Network) -> u128 {
    all_bits(network.address).checked_shr(network.prefix.into()).unwrap_or(0)
}

/// A network without the bits behind its prefix.
pub(super) fn masked(network: Network) -> Network {
    let bits = number(network.address) & !host_bits(network);
    Network { address: address(bits, network.address), ..network }
}

fn whole(bits: u128, like: IpAddr) -> Datum<'static> {
    Datum::Network(Network { address: address(bits, like), prefix: bits_max(like) })
}

fn same_family(left: Network, right: Network) -> bool {
    left.address.is_ipv4() == right.address.is_ipv4()
}

fn order(arguments: &[Datum<'_>]) -> Result<Ordering> {
    let [left, right] = arguments else { return Err(Error::bug("a comparison of two addresses")) };
    left.compare(right).ok_or_else(|| Error::bug("addresses that are none"))
}

macro_rules! comparisons {
    ($($name:ident => $test:ident;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            Ok(Datum::Bool(order(arguments)?.$test()))
        }
    )*};
}

comparisons! {
    network_eq => is_eq;
    network_ne => is_ne;
    network_lt => is_lt;
    network_le => is_le;
    network_gt => is_gt;
    network_ge => is_ge;
}

/// `network_cmp`: the sign of what PostgreSQL returns, whose size depends on the platform.
pub(super) fn network_cmp<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(order(arguments)? as i32))
}

pub(super) fn network_larger<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(arguments[usize::from(order(arguments)?.is_le())].clone())
}

pub(super) fn network_smaller<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(arguments[usize::from(order(arguments)?.is_ge())].clone())
}

/// Whether the first bits of two addresses are equal, up to the shorter prefix.
fn agree(left: Network, right: Network) -> bool {
    let prefix = left.prefix.min(right.prefix);
    let first = |network: Network| masked(Network { prefix, ..network }).address;
    same_family(left, right) && first(left) == first(right)
}

macro_rules! containment {
    ($($name:ident, $left:ident, $right:ident => $value:expr;)*) => {$(
        pub(super) fn $name<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
            let ($left, $right) = (of(arguments, 0)?, of(arguments, 1)?);
            Ok(Datum::Bool($value))
        }
    )*};
}

containment! {
    network_sub, left, right => left.prefix > right.prefix && agree(left, right);
    network_subeq, left, right => left.prefix >= right.prefix && agree(left, right);
    network_sup, left, right => left.prefix < right.prefix && agree(left, right);
    network_supeq, left, right => left.prefix <= right.prefix && agree(left, right);
    network_overlap, left, right => agree(left, right);
    inet_same_family, left, right => same_family(left, right);
}

pub(super) fn broadcast<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    let bits = number(network.address) | host_bits(network);
    Ok(Datum::Network(Network { address: address(bits, network.address), ..network }))
}

pub(super) fn netmask<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    Ok(whole(all_bits(network.address) & !host_bits(network), network.address))
}

pub(super) fn hostmask<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    Ok(whole(host_bits(network), network.address))
}

pub(super) fn network<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Network(masked(of(arguments, 0)?)))
}

pub(super) fn masklen<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(of(arguments, 0)?.prefix.into()))
}

pub(super) fn family<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    Ok(Datum::Int4(if of(arguments, 0)?.address.is_ipv4() { 4 } else { 6 }))
}

/// A network with another prefix, where -1 is the whole address.
fn with_prefix(arguments: &[Datum<'_>]) -> Result<Network> {
    let network = of(arguments, 0)?;
    let Some(Datum::Int4(prefix)) = arguments.get(1) else { return Err(Error::bug("set_masklen")) };
    let bits_max = bits_max(network.address);
    let chosen = if *prefix == -1 { Some(bits_max) } else { u8::try_from(*prefix).ok() };
    let invalid = || Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid mask length: {prefix}"));
    let prefix = chosen.filter(|prefix| *prefix <= bits_max).ok_or_else(invalid)?;
    Ok(Network { prefix, ..network })
}

pub(super) fn set_masklen_inet<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    with_prefix(arguments).map(Datum::Network)
}

pub(super) fn set_masklen_cidr<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    with_prefix(arguments).map(|network| Datum::Network(masked(network)))
}

/// `inet_merge`: the smallest network with both addresses.
pub(super) fn inet_merge<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (left, right) = (of(arguments, 0)?, of(arguments, 1)?);
    if !same_family(left, right) {
        let text = "cannot merge addresses from different families";
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
    }
    let differing = number(left.address) ^ number(right.address);
    let common = differing.leading_zeros() - (128 - u32::from(bits_max(left.address)));
    let prefix = (common as u8).min(left.prefix).min(right.prefix);
    Ok(Datum::Network(masked(Network { prefix, ..left })))
}

pub(super) fn inetnot<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let network = of(arguments, 0)?;
    let bits = !number(network.address);
    Ok(Datum::Network(Network { address: address(bits, network.address), ..network }))
}

fn bitwise(arguments: &[Datum<'_>], name: &str, operation: fn(u128, u128) -> u128) -> Result<Network> {
    let (left, right) = (of(arguments, 0)?, of(arguments, 1)?);
    if !same_family(left, right) {
        return Err(different_sizes(name));
    }
    let bits = operation(number(left.address), number(right.address));
    Ok(Network { address: address(bits, left.address), prefix: left.prefix.max(right.prefix) })
}

fn different_sizes(name: &str) -> Error {
    let text = format!("cannot {name} inet values of different sizes");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

pub(super) fn inetand<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    bitwise(arguments, "AND", |left, right| left & right).map(Datum::Network)
}

pub(super) fn inetor<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    bitwise(arguments, "OR", |left, right| left | right).map(Datum::Network)
}

fn out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "result is out of range")
}

/// The address at a distance from another one.
fn moved(network: Network, distance: i128) -> Result<Network> {
    let bits = number(network.address).checked_add_signed(distance);
    let bits = bits.filter(|bits| *bits <= all_bits(network.address)).ok_or_else(out_of_range)?;
    Ok(Network { address: address(bits, network.address), ..network })
}

fn distance(arguments: &[Datum<'_>], at: usize) -> Result<i128> {
    match arguments.get(at) {
        Some(Datum::Int8(distance)) => Ok((*distance).into()),
        _ => Err(Error::bug("a distance of addresses")),
    }
}

pub(super) fn inetpl<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    moved(of(arguments, 0)?, distance(arguments, 1)?).map(Datum::Network)
}

pub(super) fn int8pl_inet<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    moved(of(arguments, 1)?, distance(arguments, 0)?).map(Datum::Network)
}

pub(super) fn inetmi_int8<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [_, Datum::Int8(distance)] = arguments else { return Err(Error::bug("inetmi_int8")) };
    // The smallest number has no opposite and stays as it is, as in PostgreSQL.
    moved(of(arguments, 0)?, distance.wrapping_neg().into()).map(Datum::Network)
}

pub(super) fn inetmi<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (left, right) = (of(arguments, 0)?, of(arguments, 1)?);
    if !same_family(left, right) {
        return Err(different_sizes("subtract"));
    }
    let (left, right) = (number(left.address), number(right.address));
    let distance = i64::try_from(left.abs_diff(right)).map_err(|_| out_of_range())?;
    Ok(Datum::Int8(if left < right { -distance } else { distance }))
}
