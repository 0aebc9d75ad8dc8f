//! Values from their binary forms, as PostgreSQL's receive functions read them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{
    Array, ArrayDimension, Bits, Datum, Error, Geometry, Network, Point, Result, SqlState, TimeTz, Type, user_types,
};

use crate::arrays::DIMENSIONS_MAX;
use crate::composite;
use crate::context::Context;
use crate::numbers::tid;
use crate::ranges;
use crate::registry;
use crate::send::{EMPTY, LOWER_INCLUSIVE, LOWER_INFINITE, UPPER_INCLUSIVE, UPPER_INFINITE};

/// Numbers of the address families, as PostgreSQL sends them.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;
const CIDR: TypeId = TypeId(650);
/// Largest offset of a time zone, in seconds.
const OFFSET_MAX: i32 = 16 * 3_600;

/// Reads a value from its binary form.
///
/// # Errors
/// 22P03 for bytes that are not a value of the type, and others of class 22; 0A000 for a type without binary input.
pub fn receive<'a>(bytes: &'a [u8], ty: TypeId, ctx: &Context<'a>) -> Result<Datum<'a>> {
    receive_at(bytes, ty, ctx, 0)
}

fn malformed(ty: TypeId) -> Error {
    let text = format!("incorrect binary data format for type {}", builtin().type_name(ty));
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, text)
}

fn receive_at<'a>(bytes: &'a [u8], ty: TypeId, ctx: &Context<'a>, depth: usize) -> Result<Datum<'a>> {
    if let Some(plain) = Type::from_oid(ty.0, -1).filter(|ty| !ty.is_other()) {
        return pg::row_value::read_binary(plain, bytes);
    }
    if depth > DIMENSIONS_MAX {
        return Err(malformed(ty));
    }
    let mut input = Input { rest: bytes, ty };
    let value = match ty.0 {
        enum_type if user_types::is_enum(enum_type) => {
            let text = input.text()?;
            return registry::input(text, ty, -1, ctx);
        }
        18 => crate::text::io::char_of(input.byte()?, ctx),
        19 => {
            let text = input.text()?;
            return registry::input(text, ty, -1, ctx);
        }
        3802 | 4072 => {
            if input.byte()? != 1 {
                return Err(malformed(ty));
            }
            let text = input.text()?;
            return registry::input(text, ty, -1, ctx);
        }
        24 | 26 | 28 | 29 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191 => Datum::Oid(input.i32()?.cast_unsigned()),
        27 => {
            let block = input.i32()?.cast_unsigned();
            Datum::Int8(tid::tid(block, u16::from_be_bytes(input.array()?)))
        }
        790 => Datum::Int8(input.i64()?),
        1266 => {
            let (micros, west) = (input.i64()?, input.i32()?);
            if !(0..=86_400_000_000).contains(&micros) || west.checked_abs().is_none_or(|west| west >= OFFSET_MAX) {
                return Err(Error::new(SqlState::DATETIME_OVERFLOW, "time out of range"));
            }
            Datum::TimeTz(TimeTz { micros, west })
        }
        1560 | 1562 => input.bits()?,
        650 | 869 => input.network()?,
        600..=604 | 628 | 718 => Datum::Geometry(Arc::new(input.geometry()?)),
        774 => Datum::Mac(u64::from_be_bytes(input.array()?)),
        829 => {
            let short: [u8; 6] = input.array()?;
            let mut all = [0; 8];
            all[2..].copy_from_slice(&short);
            Datum::Mac(u64::from_be_bytes(all))
        }
        _ => match (builtin().element_of(ty), builtin().type_row(ty).map(|row| row.kind)) {
            (_, Some(catalog::TypeKind::Range)) => input.range(ctx, depth)?,
            (_, Some(catalog::TypeKind::Multirange)) => {
                let range = ranges::range_of(ty)?;
                let count = input.count()?;
                let mut items = Vec::new();
                for _ in 0..count {
                    let length = input.count()?;
                    items.push(receive_at(input.take(length)?, range, ctx, depth + 1)?);
                }
                ranges::multirange_of(&items)?
            }
            (_, Some(catalog::TypeKind::Composite)) => input.composite(ctx, depth)?,
            (Some(element), _) => input.array_of(element, ctx, depth)?,
            _ => {
                let text = format!("no binary input for type {}", builtin().type_name(ty));
                return Err(Error::unsupported(text));
            }
        },
    };
    if input.rest.is_empty() { Ok(value) } else { Err(malformed(ty)) }
}

struct Input<'a> {
    rest: &'a [u8],
    ty: TypeId,
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| malformed(self.ty))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| malformed(self.ty))
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// A row: its columns with their types.
    fn composite(&mut self, ctx: &Context<'a>, depth: usize) -> Result<Datum<'a>> {
        let attributes = composite::attributes(self.ty, ctx)?;
        let (count, wanted) = (self.count()?, attributes.len());
        if count != wanted {
            let text = format!("wrong number of columns: {count}, expected {wanted}");
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        let mut values = Vec::with_capacity(count);
        for (at, attribute) in attributes.iter().enumerate() {
            let (given, wanted) = (TypeId(self.i32()?.cast_unsigned()), TypeId(attribute.ty.oid()));
            if given != wanted {
                let name = |ty: TypeId| builtin().type_name(ty);
                let text = format!(
                    "binary data has type {given} ({}) instead of expected {wanted} ({}) in record column {}",
                    name(given),
                    name(wanted),
                    at + 1
                );
                return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
            }
            let value = match self.i32()? {
                -1 => Datum::Null,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed(self.ty))?;
                    let value = receive_at(self.take(length)?, wanted, ctx, depth + 1)?;
                    composite::fitted(value, attribute.ty, ctx)?
                }
            };
            values.push(value);
        }
        Ok(composite::value(&attributes, values))
    }

    /// A length or a number of parts.
    fn count(&mut self) -> Result<usize> {
        usize::try_from(self.i32()?).map_err(|_| malformed(self.ty))
    }

    fn text(&mut self) -> Result<&'a str> {
        pg::row_value::read_text(std::mem::take(&mut self.rest))
    }

    fn bits(&mut self) -> Result<Datum<'a>> {
        let length = self.count()?;
        let bytes = self.take(length.div_ceil(8))?;
        let unused = bytes.len() * 8 - length;
        match bytes.last() {
            Some(last) if last & ((1_u16 << unused) as u8).wrapping_sub(1) != 0 => Err(malformed(self.ty)),
            _ => Ok(Datum::Bits(Bits { length: length as u32, bytes })),
        }
    }

    fn network(&mut self) -> Result<Datum<'a>> {
        let [family, prefix, is_cidr, length] = self.array()?;
        let address = match (family, length) {
            (FAMILY_V4, 4) => Ipv4Addr::from(self.array::<4>()?).into(),
            (FAMILY_V6, 16) => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return Err(malformed(self.ty)),
        };
        let network = Network { address, prefix };
        let bits = 8 * length;
        let host = match address {
            std::net::IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            std::net::IpAddr::V6(address) => address.to_bits(),
        };
        let has_host = host.checked_shl(prefix.into()).unwrap_or(0) != 0;
        if prefix > bits || is_cidr > 1 || (self.ty == CIDR && has_host) {
            return Err(malformed(self.ty));
        }
        Ok(Datum::Network(network))
    }

    fn point(&mut self) -> Result<Point> {
        let [x, y] = [self.array()?, self.array()?].map(f64::from_be_bytes);
        Ok(Point { x, y })
    }

    fn points(&mut self) -> Result<Box<[Point]>> {
        let count = self.count()?;
        // A point has 16 bytes.
        if count == 0 || count > self.rest.len() / 16 {
            return Err(malformed(self.ty));
        }
        (0..count).map(|_| self.point()).collect()
    }

    fn geometry(&mut self) -> Result<Geometry> {
        Ok(match self.ty.0 {
            600 => Geometry::Point(self.point()?),
            601 => Geometry::Segment([self.point()?, self.point()?]),
            602 => {
                let closed = self.byte()? != 0;
                Geometry::Path { closed, points: self.points()? }
            }
            603 => Geometry::Box(crate::geometry::box_of_corners(self.point()?, self.point()?)),
            604 => Geometry::Polygon(self.points()?),
            628 => {
                let [a, b, c] = [self.array()?, self.array()?, self.array()?].map(f64::from_be_bytes);
                if a == 0.0 && b == 0.0 {
                    return Err(malformed(self.ty));
                }
                Geometry::Line([a, b, c])
            }
            _ => {
                let (centre, radius) = (self.point()?, f64::from_be_bytes(self.array()?));
                if radius < 0.0 {
                    return Err(malformed(self.ty));
                }
                Geometry::Circle(centre, radius)
            }
        })
    }

    fn array_of(&mut self, element: TypeId, ctx: &Context<'a>, depth: usize) -> Result<Datum<'a>> {
        let dimensions = self.count()?;
        let (_, sent) = (self.i32()?, TypeId(self.i32()?.cast_unsigned()));
        if dimensions > DIMENSIONS_MAX {
            return Err(malformed(self.ty));
        }
        if sent != element {
            let name = |ty| builtin().type_name(ty);
            let text = format!(
                "binary data has array element type {} ({}) instead of expected {} ({})",
                sent.0,
                name(sent),
                element.0,
                name(element)
            );
            return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
        }
        let mut sides = Vec::with_capacity(dimensions);
        let mut count = usize::from(dimensions > 0);
        for _ in 0..dimensions {
            let side = ArrayDimension { length: self.i32()?, lower: self.i32()? };
            let length = usize::try_from(side.length).map_err(|_| malformed(self.ty))?;
            count = count
                .checked_mul(length)
                .filter(|_| side.lower.checked_add(side.length).is_some())
                .ok_or_else(|| malformed(self.ty))?;
            sides.push(side);
        }
        // Each element has a length of four bytes.
        if count > self.rest.len() / 4 {
            return Err(malformed(self.ty));
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(match self.i32()? {
                -1 => Datum::Null,
                length => {
                    let length = usize::try_from(length).map_err(|_| malformed(self.ty))?;
                    receive_at(self.take(length)?, element, ctx, depth + 1)?
                }
            });
        }
        let dimensions = if items.is_empty() { Box::default() } else { sides.into() };
        Ok(Datum::Array(Arc::new(Array { element: element.0, dimensions, items: items.into() })))
    }

    fn range(&mut self, ctx: &Context<'a>, depth: usize) -> Result<Datum<'a>> {
        let element = ranges::element_of(self.ty)?;
        let flags = self.byte()?;
        if flags & EMPTY != 0 {
            return Ok(ranges::empty());
        }
        let mut bound = |infinite: u8, inclusive: u8| {
            if flags & infinite != 0 {
                return Ok((Datum::Null, false));
            }
            let length = self.count()?;
            Ok((receive_at(self.take(length)?, element, ctx, depth + 1)?, flags & inclusive != 0))
        };
        let (low, high) = (bound(LOWER_INFINITE, LOWER_INCLUSIVE)?, bound(UPPER_INFINITE, UPPER_INCLUSIVE)?);
        ranges::range_between(low, high)
    }
}

#[cfg(test)]
mod tests {
    use bumpalo::Bump;

    use super::*;
    use crate::Session;

    #[test]
    fn values_are_received_as_they_were_sent() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        for (name, text) in [
            ("char", "x"),
            ("name", "a b"),
            ("jsonb", "{\"a\": [1, null]}"),
            ("oid", "4294967295"),
            ("timetz", "12:34:56.7+02"),
            ("bit", "101"),
            ("varbit", ""),
            ("inet", "10.1.2.3/8"),
            ("inet", "::1"),
            ("cidr", "10.0.0.0/8"),
            ("macaddr", "08:00:2b:01:02:03"),
            ("macaddr8", "08:00:2b:01:02:03:04:05"),
            ("_int4", "[0:1][2:3]={{1,NULL},{3,4}}"),
            ("_text", "{}"),
            ("_jsonb", "{\"{}\"}"),
            ("int4range", "[1,5)"),
            ("numrange", "(,2.5]"),
            ("tstzrange", "empty"),
            ("datemultirange", "{[2020-01-01,2020-02-01),[2021-01-01,)}"),
            ("money", "$12.00"),
            ("point", "(1,-0.5)"),
            ("lseg", "[(1,2),(3,4)]"),
            ("path", "((1,2),(3,4))"),
            ("path", "[(1,2)]"),
            ("box", "(3,4),(1,2)"),
            ("_box", "{(3,4),(1,2);(5,6),(1,2)}"),
            ("polygon", "((1,2),(3,4),(5,6))"),
            ("line", "{1,2,3}"),
            ("circle", "<(1,2),3>"),
        ] {
            let ty = builtin().type_named(name).unwrap();
            let value = registry::input(text, ty, -1, &ctx).unwrap();
            let mut bytes = Vec::new();
            crate::send(&value, ty, &mut bytes).unwrap();
            let bytes = arena.alloc_slice_copy(&bytes);
            assert_eq!(receive(bytes, ty, &ctx).unwrap(), value, "{name}");
            for end in 0..bytes.len() {
                let _ = receive(&bytes[..end], ty, &ctx);
            }
        }
    }

    #[test]
    fn bytes_of_other_types_are_refused() {
        let (arena, session) = (Bump::new(), Session::default());
        let ctx = Context { arena: &arena, session: &session };
        let of = |name: &str| builtin().type_named(name).unwrap();
        for (ty, bytes) in [
            (of("jsonb"), &b"\x02{}"[..]),
            (of("bit"), &[0, 0, 0, 3, 0xff]),
            (of("cidr"), &[2, 8, 1, 4, 10, 1, 0, 0]),
            (of("inet"), &[2, 33, 0, 4, 10, 1, 0, 0]),
            (of("_int4"), &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]),
            (of("oid"), &[1, 2, 3, 4, 5]),
            (of("circle"), &[[0, 0], [0, 0], [0xbf, 0xf0]].map(|[a, b]| [a, b, 0, 0, 0, 0, 0, 0]).concat()),
            (of("line"), &[0; 24]),
            (of("polygon"), &[0x7f, 0xff, 0xff, 0xff]),
        ] {
            assert_eq!(receive(bytes, ty, &ctx).unwrap_err().state().0, "22P03", "{ty}");
        }
    }
}
