//! Functions of PostgreSQL's extensions `pgcrypto` and `uuid-ossp`, without those that encrypt or hash passwords.

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use model::{Datum, Error, Result, SqlState};
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::arguments::{bytes, int4, text};
use crate::context::Context;
use crate::registry::{Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("digest(text,text)", |arguments, _, ctx| digest(text(arguments, 0)?.as_bytes(), text(arguments, 1)?, ctx)),
    ("digest(bytea,text)", |arguments, _, ctx| digest(bytes(arguments, 0)?, text(arguments, 1)?, ctx)),
    ("hmac(text,text,text)", |arguments, _, ctx| {
        let (data, key) = (text(arguments, 0)?.as_bytes(), text(arguments, 1)?.as_bytes());
        authenticated(data, key, text(arguments, 2)?, ctx)
    }),
    ("hmac(bytea,bytea,text)", |arguments, _, ctx| {
        authenticated(bytes(arguments, 0)?, bytes(arguments, 1)?, text(arguments, 2)?, ctx)
    }),
    ("gen_random_bytes", |arguments, _, ctx| random_bytes(int4(arguments, 0)?, ctx)),
    ("uuid_nil", |_, _, _| Ok(Datum::Uuid([0; 16]))),
    ("uuid_ns_dns", |_, _, _| Ok(Datum::Uuid(namespace(0)))),
    ("uuid_ns_url", |_, _, _| Ok(Datum::Uuid(namespace(1)))),
    ("uuid_ns_oid", |_, _, _| Ok(Datum::Uuid(namespace(2)))),
    ("uuid_ns_x500", |_, _, _| Ok(Datum::Uuid(namespace(4)))),
    ("uuid_generate_v1", |_, _, ctx| time_uuid(ctx)),
    ("uuid_generate_v1mc", |_, _, ctx| time_uuid(ctx)),
    ("uuid_generate_v3", |arguments, _, _| {
        let (namespace, name) = (uuid(arguments)?, text(arguments, 1)?);
        Ok(Datum::Uuid(named_uuid(&Md5::new().chain_update(namespace).chain_update(name).finalize(), 3)))
    }),
    ("uuid_generate_v4", |_, _, ctx| random_uuid(ctx)),
    ("uuid_generate_v5", |arguments, _, _| {
        let (namespace, name) = (uuid(arguments)?, text(arguments, 1)?);
        Ok(Datum::Uuid(named_uuid(&Sha1::new().chain_update(namespace).chain_update(name).finalize(), 5)))
    }),
];

/// Most bytes of `gen_random_bytes`, as in PostgreSQL.
const RANDOM_BYTES_MAX: i32 = 1_024;
/// Time from the start of the Gregorian calendar to 1970, in units of 100 ns.
const GREGORIAN_TICKS: i64 = 0x01b2_1dd2_1381_4000;

fn refused(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// `digest`: the hash by an algorithm with this name, in letters of either case.
fn digest<'a>(data: &[u8], algorithm: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    Ok(match algorithm.to_ascii_lowercase().as_str() {
        "md5" => ctx.bytes(&Md5::digest(data)),
        "sha1" => ctx.bytes(&Sha1::digest(data)),
        "sha224" => ctx.bytes(&Sha224::digest(data)),
        "sha256" => ctx.bytes(&Sha256::digest(data)),
        "sha384" => ctx.bytes(&Sha384::digest(data)),
        "sha512" => ctx.bytes(&Sha512::digest(data)),
        _ => return Err(unknown(algorithm)),
    })
}

fn unknown(algorithm: &str) -> Error {
    refused(format!("Cannot use \"{algorithm}\": No such hash algorithm"))
}

/// `hmac`, RFC 2104.
fn authenticated<'a>(data: &[u8], key: &[u8], algorithm: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    fn tag<M: Mac + KeyInit>(data: &[u8], key: &[u8]) -> Result<Vec<u8>> {
        let mut mac = <M as KeyInit>::new_from_slice(key).map_err(Error::bug)?;
        mac.update(data);
        Ok(mac.finalize().into_bytes().to_vec())
    }
    let tag = match algorithm.to_ascii_lowercase().as_str() {
        "md5" => tag::<Hmac<Md5>>(data, key)?,
        "sha1" => tag::<Hmac<Sha1>>(data, key)?,
        "sha224" => tag::<Hmac<Sha224>>(data, key)?,
        "sha256" => tag::<Hmac<Sha256>>(data, key)?,
        "sha384" => tag::<Hmac<Sha384>>(data, key)?,
        "sha512" => tag::<Hmac<Sha512>>(data, key)?,
        _ => return Err(unknown(algorithm)),
    };
    Ok(ctx.bytes(&tag))
}

fn random_bytes<'a>(count: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if !(1..=RANDOM_BYTES_MAX).contains(&count) {
        return Err(Error::new(SqlState("39000"), "Length not in range"));
    }
    let outside = ctx.outside()?;
    let words = std::iter::repeat_with(|| outside.random().to_le_bytes());
    let bytes: Vec<u8> = words.flatten().take(count as usize).collect();
    Ok(ctx.bytes(&bytes))
}

fn uuid(arguments: &[Datum<'_>]) -> Result<[u8; 16]> {
    match arguments.first() {
        Some(Datum::Uuid(uuid)) => Ok(*uuid),
        _ => Err(Error::bug("a namespace that is no uuid")),
    }
}

/// A namespace of RFC 9562, appendix: they differ in their fourth byte.
fn namespace(number: u8) -> [u8; 16] {
    [0x6b, 0xa7, 0xb8, 0x10 + number, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8]
}

/// The bits of a version and of RFC 9562's variant in 128 other bits.
fn with_version(mut bytes: [u8; 16], version: u8) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | version << 4;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

/// Versions 3 and 5: the first bytes of a hash.
fn named_uuid(hash: &[u8], version: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    with_version(bytes, version)
}

fn random_uuid<'a>(ctx: &Context<'a>) -> Result<Datum<'a>> {
    let outside = ctx.outside()?;
    let bits = u128::from(outside.random()) << 64 | u128::from(outside.random());
    Ok(Datum::Uuid(with_version(bits.to_be_bytes(), 4)))
}

/// Version 1: the time, and a random node, which has the bit of a multicast address. Uuids of one microsecond differ in the
/// node and the clock sequence.
fn time_uuid<'a>(ctx: &Context<'a>) -> Result<Datum<'a>> {
    let outside = ctx.outside()?;
    let random = outside.random();
    let ticks =
        outside.now_micros().wrapping_mul(10).wrapping_add(GREGORIAN_TICKS).wrapping_add((random >> 60) as i64 % 10);
    let ticks = ticks.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&ticks[4..]);
    bytes[4..6].copy_from_slice(&ticks[2..4]);
    bytes[6..8].copy_from_slice(&ticks[..2]);
    bytes[8..].copy_from_slice(&random.to_be_bytes());
    bytes[10] |= 1;
    Ok(Datum::Uuid(with_version(bytes, 1)))
}
