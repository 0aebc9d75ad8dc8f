//! Sort keys: bytes whose order and equality are those of PostgreSQL's values. `1.0` and `1.00` have the same key.
//!
//! The key of a part of a value ends itself, so that keys of arrays, rows and ranges are those of their parts in a row.

use crate::{Array, Datum, Error, Network, Numeric, Range, RangeBound, Result, SqlState, json_key};

/// OID of `char(n)`.
const BPCHAR: u32 = 1042;
/// OID of `jsonb`.
const JSONB: u32 = 3802;

/// Appends the key of a value; NULL has none.
///
/// - `ty`: OID of the type, not that of a domain; it decides between texts, `char(n)` and `jsonb`.
///
/// # Errors
/// 42883 for a type without order.
pub fn push(datum: &Datum<'_>, ty: u32, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend((*value ^ i16::MIN).to_be_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend((*value ^ i32::MIN).to_be_bytes()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
            out.extend((*value ^ i64::MIN).to_be_bytes());
        }
        Datum::Float4(value) => out.extend(float_bits((*value).into()).to_be_bytes()),
        Datum::Float8(value) => out.extend(float_bits(*value).to_be_bytes()),
        Datum::Numeric(value) => push_numeric(value, out),
        Datum::Text(text) => match ty {
            JSONB => json_key::push(text, out)?,
            BPCHAR => push_bytes(text.trim_end_matches(' ').as_bytes(), out),
            _ => push_bytes(text.as_bytes(), out),
        },
        Datum::Bytes(bytes) => push_bytes(bytes, out),
        Datum::Uuid(bytes) => out.extend_from_slice(bytes),
        Datum::Interval(value) => out.extend((value.span_micros() ^ i128::MIN).to_be_bytes()),
        Datum::Oid(value) => out.extend(value.to_be_bytes()),
        Datum::TimeTz(value) => {
            out.extend((value.utc_micros() ^ i64::MIN).to_be_bytes());
            out.extend((value.west ^ i32::MIN).to_be_bytes());
        }
        Datum::Bits(bits) => {
            push_bytes(bits.bytes, out);
            out.extend(bits.length.to_be_bytes());
        }
        Datum::Network(network) => push_network(network, out),
        Datum::Mac(value) => out.extend(value.to_be_bytes()),
        Datum::Array(array) => push_array(array, out)?,
        Datum::Record(record) => {
            for (value, ty) in record.values.iter().zip(&record.types) {
                push_part(value, *ty, out)?;
            }
            out.push(0);
        }
        Datum::Range(range) => push_range(range, out)?,
        Datum::Multirange(ranges) => {
            for range in &**ranges {
                out.push(1);
                push_range(range, out)?;
            }
            out.push(0);
        }
        Datum::Geometry(geometry) => {
            let text = format!("could not identify an ordering operator for type {}", geometry.type_name());
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, text));
        }
    }
    Ok(())
}

/// Appends the key of a value within another one; NULL is behind all others.
///
/// # Errors
/// As [`push`].
pub fn push_part(datum: &Datum<'_>, ty: u32, out: &mut Vec<u8>) -> Result<()> {
    if datum.is_null() {
        out.push(2);
        return Ok(());
    }
    out.push(1);
    push(datum, ty, out)
}

fn float_bits(value: f64) -> u64 {
    // Adding zero turns -0.0 into 0.0.
    let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
    if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits }
}

/// Bytes with an end that is before every byte.
pub(crate) fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 0]);
}

/// The class of the number, the power of ten of its first digit, and its digits; of negative numbers the complement.
pub(crate) fn push_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let sign = value.signum();
    if !value.is_finite() {
        return out.push(if value.is_nan() { 6 } else { (3 + 2 * sign) as u8 });
    }
    if sign == 0 {
        return out.push(3);
    }
    out.push((3 + sign) as u8);
    let from = out.len();
    value.with_digits(|_, digits, scale| {
        let power = digits.len() as i32 - scale as i32;
        out.extend((power ^ i32::MIN).to_be_bytes());
        let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        out.extend_from_slice(&digits[..end]);
        out.push(0);
    });
    if sign < 0 {
        out[from..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn push_network(network: &Network, out: &mut Vec<u8>) {
    let (family, bits) = match network.address {
        std::net::IpAddr::V4(address) => (4, u128::from(address.to_bits()) << 96),
        std::net::IpAddr::V6(address) => (6, address.to_bits()),
    };
    out.push(family);
    for bit in 0..u32::from(network.prefix).min(128) {
        out.push(1 + ((bits >> (127 - bit)) & 1) as u8);
    }
    out.push(0);
    out.extend(bits.to_be_bytes());
}

fn push_array(array: &Array<'_>, out: &mut Vec<u8>) -> Result<()> {
    for item in &array.items {
        push_part(item, array.element, out)?;
    }
    out.push(0);
    out.push(array.dimensions.len() as u8);
    array.dimensions.iter().for_each(|dimension| out.extend((dimension.length ^ i32::MIN).to_be_bytes()));
    array.dimensions.iter().for_each(|dimension| out.extend((dimension.lower ^ i32::MIN).to_be_bytes()));
    Ok(())
}

fn push_range(range: &Range<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Range::Between(low, high) = range else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    push_bound(low, false, out)?;
    push_bound(high, true, out)
}

/// A lower bound without value is before all others, an upper one behind them.
fn push_bound(bound: &RangeBound<'_>, is_upper: bool, out: &mut Vec<u8>) -> Result<()> {
    if bound.value.is_null() {
        out.push(if is_upper { 2 } else { 0 });
        return Ok(());
    }
    out.push(1);
    // No range has bounds whose key depends on the type.
    push(&bound.value, 0, out)?;
    out.push(u8::from(bound.inclusive == is_upper));
    Ok(())
}
