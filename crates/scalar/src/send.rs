//! Binary forms of values, as PostgreSQL's send functions write them.

use catalog::TypeId;
use model::{Datum, Error, Geometry, Point, Range, RangeBound, Result};
use pg::time::{EPOCH_DAYS, EPOCH_MICROS};

use crate::numbers::tid;

const JSONPATH: TypeId = TypeId(4072);

/// Appends the binary form of a value, without its length; nothing for NULL.
///
/// # Errors
/// 0A000 for a type without binary form here.
pub fn send(datum: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Oid(_) if model::user_types::is_enum(ty.0) => crate::enums::send(datum, ty, out)?,
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Int8(value) if ty == TypeId::TID => {
            let (block, offset) = tid::parts(*value);
            out.extend_from_slice(&block.to_be_bytes());
            out.extend_from_slice(&offset.to_be_bytes());
        }
        Datum::Int8(value) | Datum::Time(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Oid(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float4(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Float8(value) => out.extend_from_slice(&value.to_be_bytes()),
        Datum::Numeric(value) => pg::numeric::write_binary(out, value),
        Datum::Text(text) => {
            match ty {
                TypeId::CHAR => {
                    out.push(pg::value::char_byte(text));
                    return Ok(());
                }
                // A version number.
                TypeId::JSONB | JSONPATH => out.push(1),
                _ => {}
            }
            out.extend_from_slice(text.as_bytes());
        }
        Datum::Bytes(bytes) => out.extend_from_slice(bytes),
        Datum::Uuid(uuid) => out.extend_from_slice(uuid),
        Datum::Date(days @ (i32::MIN | i32::MAX)) => out.extend_from_slice(&days.to_be_bytes()),
        Datum::Date(days) => out.extend_from_slice(&days.saturating_sub(EPOCH_DAYS).to_be_bytes()),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => out.extend_from_slice(&moment(*micros).to_be_bytes()),
        Datum::Interval(interval) => out.extend_from_slice(&pg::time::interval_binary(*interval)),
        Datum::TimeTz(time) => {
            out.extend_from_slice(&time.micros.to_be_bytes());
            out.extend_from_slice(&time.west.to_be_bytes());
        }
        Datum::Bits(bits) => {
            out.extend_from_slice(&(bits.length as i32).to_be_bytes());
            out.extend_from_slice(bits.bytes);
        }
        Datum::Network(network) => {
            // PostgreSQL's numbers of the address families, and the length of the address.
            let is_cidr = ty == TypeId(650);
            match network.address {
                std::net::IpAddr::V4(address) => {
                    out.extend_from_slice(&[2, network.prefix, u8::from(is_cidr), 4]);
                    out.extend_from_slice(&address.octets());
                }
                std::net::IpAddr::V6(address) => {
                    out.extend_from_slice(&[3, network.prefix, u8::from(is_cidr), 16]);
                    out.extend_from_slice(&address.octets());
                }
            }
        }
        Datum::Mac(bytes) => {
            let all = bytes.to_be_bytes();
            let is_short = ty == TypeId(829);
            out.extend_from_slice(if is_short { &all[2..] } else { &all });
        }
        Datum::Array(array) => {
            out.extend_from_slice(&(array.dimensions.len() as i32).to_be_bytes());
            out.extend_from_slice(&i32::from(array.items.iter().any(Datum::is_null)).to_be_bytes());
            out.extend_from_slice(&array.element.to_be_bytes());
            for dimension in &array.dimensions {
                out.extend_from_slice(&dimension.length.to_be_bytes());
                out.extend_from_slice(&dimension.lower.to_be_bytes());
            }
            for item in &array.items {
                with_length(item, TypeId(array.element), out)?;
            }
        }
        Datum::Record(record) => {
            out.extend_from_slice(&(record.values.len() as i32).to_be_bytes());
            for (value, ty) in record.values.iter().zip(&record.types) {
                out.extend_from_slice(&ty.to_be_bytes());
                with_length(value, TypeId(*ty), out)?;
            }
        }
        Datum::Range(range) => send_range(range, out)?,
        Datum::Multirange(ranges) => {
            out.extend_from_slice(&(ranges.len() as i32).to_be_bytes());
            for range in ranges.iter() {
                let mut bytes = Vec::new();
                send_range(range, &mut bytes)?;
                out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                out.extend_from_slice(&bytes);
            }
        }
        Datum::Geometry(geometry) => send_geometry(geometry, out),
    }
    Ok(())
}

/// Microseconds since 2000; the infinities stay as they are.
fn moment(micros: i64) -> i64 {
    if matches!(micros, i64::MIN | i64::MAX) { micros } else { micros.saturating_sub(EPOCH_MICROS) }
}

/// Appends a value with its length before it, which is -1 for NULL.
fn with_length(datum: &Datum<'_>, ty: TypeId, out: &mut Vec<u8>) -> Result<()> {
    if datum.is_null() {
        out.extend_from_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    }
    let mut bytes = Vec::new();
    send(datum, ty, &mut bytes)?;
    let length = i32::try_from(bytes.len()).map_err(|_| Error::unsupported("a value longer than 2 GiB"))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

/// Flags of a range's binary form.
pub(crate) const EMPTY: u8 = 1;
pub(crate) const LOWER_INCLUSIVE: u8 = 2;
pub(crate) const UPPER_INCLUSIVE: u8 = 4;
pub(crate) const LOWER_INFINITE: u8 = 8;
pub(crate) const UPPER_INFINITE: u8 = 16;

fn send_range(range: &Range<'_>, out: &mut Vec<u8>) -> Result<()> {
    let Range::Between(low, high) = range else {
        out.push(EMPTY);
        return Ok(());
    };
    let flag = |bound: &RangeBound<'_>, inclusive: u8, infinite: u8| match (bound.value.is_null(), bound.inclusive) {
        (true, _) => infinite,
        (false, true) => inclusive,
        (false, false) => 0,
    };
    out.push(flag(low, LOWER_INCLUSIVE, LOWER_INFINITE) | flag(high, UPPER_INCLUSIVE, UPPER_INFINITE));
    for bound in [low, high].into_iter().filter(|bound| !bound.value.is_null()) {
        with_length(&bound.value, TypeId::INVALID, out)?;
    }
    Ok(())
}

fn send_geometry(geometry: &Geometry, out: &mut Vec<u8>) {
    let mut numbers = |numbers: &[f64]| numbers.iter().for_each(|one| out.extend_from_slice(&one.to_be_bytes()));
    match geometry {
        Geometry::Point(point) => numbers(&[point.x, point.y]),
        Geometry::Line(line) => numbers(line),
        Geometry::Segment([from, to]) | Geometry::Box([from, to]) => numbers(&[from.x, from.y, to.x, to.y]),
        Geometry::Circle(centre, radius) => numbers(&[centre.x, centre.y, *radius]),
        Geometry::Path { closed, points } => {
            out.push(u8::from(*closed));
            send_points(points, out);
        }
        Geometry::Polygon(points) => send_points(points, out),
    }
}

fn send_points(points: &[Point], out: &mut Vec<u8>) {
    out.extend_from_slice(&(points.len() as i32).to_be_bytes());
    for point in points {
        out.extend_from_slice(&point.x.to_be_bytes());
        out.extend_from_slice(&point.y.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::{Context, Session, input};

    /// The bytes are those of PostgreSQL's `int4send`, `array_send`, `range_send` and others.
    #[test]
    fn binary_forms_are_those_of_postgresql() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        for (text, ty, expected) in [
            ("-2", TypeId::INT4, "fffffffe"),
            ("{1,NULL}", TypeId::INT4_ARRAY, "00000001000000010000001700000002000000010000000400000001ffffffff"),
            ("{}", TypeId::INT4_ARRAY, "000000000000000000000017"),
            ("{\"a\": 1}", TypeId::JSONB, "017b2261223a20317d"),
            ("1.50", TypeId::NUMERIC, "000200000000000200011388"),
            ("infinity", TypeId::TIMESTAMP, "7fffffffffffffff"),
            ("2000-01-02", TypeId::DATE, "00000001"),
            ("[1,5)", TypeId(3904), "02000000040000000100000004 00000005"),
        ] {
            let datum = input(text, ty, -1, &ctx).unwrap();
            let mut out = Vec::new();
            send(&datum, ty, &mut out).unwrap();
            let shown: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(shown, expected.replace(' ', ""), "{text}");
        }
    }
}
