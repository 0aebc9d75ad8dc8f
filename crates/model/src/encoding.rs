//! Bytes of values that have no fixed form: a tag, then the value, little-endian. The tag makes a value readable without
//! its type. Rows of `rows` tables store arrays, ranges and values of other types so (`rows::row`), and Arrow arrays carry
//! them as Binary.
//!
//! | tag | value                  | bytes after the tag                                                                    |
//! |----:|------------------------|----------------------------------------------------------------------------------------|
//! |   0 | NULL                   |                                                                                        |
//! |   1 | boolean                | 0 or 1                                                                                 |
//! | 2–6 | smallint, integer, bigint, real, double precision | in their width                                              |
//! |   7 | numeric of up to 38 digits | scale (2), length (1), the unscaled number in two's complement, as short as its sign allows |
//! |   8 | longer numeric         | 1 if negative, scale (2), length (4), ASCII digits                                     |
//! | 9–11 | NaN, infinity, -infinity of numeric |                                                                          |
//! | 12, 13 | text, bytea         | length (4), bytes                                                                      |
//! |  14 | uuid                   | its 16 bytes                                                                           |
//! | 15–18 | date, time, timestamp, timestamptz | days or microseconds since 1970, or since midnight: 4, 8, 8, 8          |
//! |  19 | interval               | months (4), days (4), microseconds (8)                                                 |
//! |  20 | oid and similar        | 4                                                                                      |
//! |  21 | timetz                 | microseconds since midnight (8), seconds west of UTC (4)                               |
//! |  22 | bit string             | bits (4), length (4), bytes                                                            |
//! | 23, 24 | address of IPv4, IPv6 | 4 or 16 bytes, then the length of the prefix (1)                                     |
//! |  25 | macaddr, macaddr8      | 8                                                                                      |
//! |  26 | array                  | OID of the elements (4), dimensions (4), length and lower bound of each (4 + 4), items  |
//! |  27 | row                    | count (4), OIDs (4 each), whether names follow (1), these as texts, items               |
//! | 28, 29 | empty range, range  | 29: for each bound whether it is inclusive (1), and a value, NULL for none              |
//! |  30 | multirange             | count (4), ranges with their tags                                                      |
//! |  31 | geometry               | kind (1), then points: count (4), x and y (8 + 8) each; a line three numbers; a circle its centre and a radius |
//!
//! Items are a count (4) and that many values with their tags.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{
    Array, ArrayDimension, Bits, Datum, Error, Geometry, Interval, Network, Numeric, Point, Range, RangeBound, Record,
    Result, TimeTz,
};

/// Maximum depth of values within values.
const DEPTH_MAX: usize = 64;

/// Appends the encoding of a value.
pub fn encode(datum: &Datum<'_>, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => out.push(0),
        Datum::Bool(value) => out.extend([1, u8::from(*value)]),
        Datum::Int2(value) => tagged(out, 2, &value.to_le_bytes()),
        Datum::Int4(value) => tagged(out, 3, &value.to_le_bytes()),
        Datum::Int8(value) => tagged(out, 4, &value.to_le_bytes()),
        Datum::Float4(value) => tagged(out, 5, &value.to_le_bytes()),
        Datum::Float8(value) => tagged(out, 6, &value.to_le_bytes()),
        Datum::Numeric(value) => encode_numeric(value, out),
        Datum::Text(text) => sized(out, 12, text.as_bytes()),
        Datum::Bytes(bytes) => sized(out, 13, bytes),
        Datum::Uuid(bytes) => tagged(out, 14, bytes),
        Datum::Date(value) => tagged(out, 15, &value.to_le_bytes()),
        Datum::Time(value) => tagged(out, 16, &value.to_le_bytes()),
        Datum::Timestamp(value) => tagged(out, 17, &value.to_le_bytes()),
        Datum::Timestamptz(value) => tagged(out, 18, &value.to_le_bytes()),
        Datum::Interval(value) => {
            tagged(out, 19, &value.months.to_le_bytes());
            out.extend(value.days.to_le_bytes());
            out.extend(value.micros.to_le_bytes());
        }
        Datum::Oid(value) => tagged(out, 20, &value.to_le_bytes()),
        Datum::TimeTz(value) => {
            tagged(out, 21, &value.micros.to_le_bytes());
            out.extend(value.west.to_le_bytes());
        }
        Datum::Bits(bits) => {
            tagged(out, 22, &bits.length.to_le_bytes());
            out.extend((bits.bytes.len() as u32).to_le_bytes());
            out.extend(bits.bytes);
        }
        Datum::Network(network) => {
            match network.address {
                IpAddr::V4(address) => tagged(out, 23, &address.octets()),
                IpAddr::V6(address) => tagged(out, 24, &address.octets()),
            }
            out.push(network.prefix);
        }
        Datum::Mac(value) => tagged(out, 25, &value.to_le_bytes()),
        Datum::Array(array) => {
            tagged(out, 26, &array.element.to_le_bytes());
            out.extend((array.dimensions.len() as u32).to_le_bytes());
            for dimension in &array.dimensions {
                out.extend(dimension.length.to_le_bytes());
                out.extend(dimension.lower.to_le_bytes());
            }
            encode_all(&array.items, out);
        }
        Datum::Record(record) => {
            tagged(out, 27, &(record.types.len() as u32).to_le_bytes());
            record.types.iter().for_each(|ty| out.extend(ty.to_le_bytes()));
            out.push(record.names.is_some().into());
            for name in record.names.iter().flat_map(|names| names.iter()) {
                out.extend((name.len() as u32).to_le_bytes());
                out.extend(name.as_bytes());
            }
            encode_all(&record.values, out);
        }
        Datum::Range(range) => encode_range(range, out),
        Datum::Multirange(ranges) => {
            tagged(out, 30, &(ranges.len() as u32).to_le_bytes());
            ranges.iter().for_each(|range| encode_range(range, out));
        }
        Datum::Geometry(geometry) => encode_geometry(geometry, out),
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend_from_slice(bytes);
}

fn sized(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    tagged(out, tag, &(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn encode_all(items: &[Datum<'_>], out: &mut Vec<u8>) {
    out.extend((items.len() as u32).to_le_bytes());
    items.iter().for_each(|item| encode(item, out));
}

fn encode_numeric(value: &Numeric, out: &mut Vec<u8>) {
    if let Some((unscaled, scale)) = value.as_decimal() {
        // Most numbers are short: the leading bytes that only repeat the sign are left out.
        let bytes = unscaled.to_le_bytes();
        let sign = if unscaled < 0 { 0xff } else { 0 };
        let mut length = bytes.len();
        while length > 1 && bytes[length - 1] == sign && (bytes[length - 2] ^ sign) & 0x80 == 0 {
            length -= 1;
        }
        tagged(out, 7, &(scale as u16).to_le_bytes());
        out.push(length as u8);
        out.extend_from_slice(&bytes[..length]);
        return;
    }
    let is_finite = value.with_digits(|negative, digits, scale| {
        tagged(out, 8, &[u8::from(negative)]);
        out.extend((scale as u16).to_le_bytes());
        out.extend((digits.len() as u32).to_le_bytes());
        out.extend_from_slice(digits);
    });
    if is_finite.is_none() {
        out.push(if value.is_nan() { 9 } else { 10 + u8::from(value.signum() < 0) });
    }
}

fn encode_range(range: &Range<'_>, out: &mut Vec<u8>) {
    match range {
        Range::Empty => out.push(28),
        Range::Between(low, high) => {
            out.push(29);
            for bound in [low, high] {
                out.push(u8::from(bound.inclusive));
                encode(&bound.value, out);
            }
        }
    }
}

fn encode_geometry(geometry: &Geometry, out: &mut Vec<u8>) {
    out.push(31);
    let points = |out: &mut Vec<u8>, kind: u8, points: &[Point]| {
        out.push(kind);
        out.extend((points.len() as u32).to_le_bytes());
        for point in points {
            out.extend(point.x.to_le_bytes());
            out.extend(point.y.to_le_bytes());
        }
    };
    match geometry {
        Geometry::Point(point) => points(out, 0, &[*point]),
        Geometry::Line(line) => {
            out.push(1);
            line.iter().for_each(|number| out.extend(number.to_le_bytes()));
        }
        Geometry::Segment(ends) => points(out, 2, ends),
        Geometry::Box(corners) => points(out, 3, corners),
        Geometry::Path { closed, points: list } => points(out, if *closed { 4 } else { 5 }, list),
        Geometry::Polygon(list) => points(out, 6, list),
        Geometry::Circle(centre, radius) => {
            points(out, 7, &[*centre]);
            out.extend(radius.to_le_bytes());
        }
    }
}

/// Reads an encoded value.
///
/// # Errors
/// XX001 for other bytes.
pub fn decode(bytes: &[u8]) -> Result<Datum<'_>> {
    let mut input = Input { rest: bytes };
    let datum = input.datum(0)?;
    if input.rest.is_empty() { Ok(datum) } else { Err(damaged()) }
}

fn damaged() -> Error {
    Error::corrupt("an encoded value is damaged")
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged())
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()? as usize;
        self.take(length)
    }

    /// A number of items of at least `bytes` bytes each, so that a wild number allocates no memory.
    fn count(&mut self, bytes: usize) -> Result<usize> {
        let count = self.u32()? as usize;
        if count.saturating_mul(bytes) <= self.rest.len() { Ok(count) } else { Err(damaged()) }
    }

    fn datum(&mut self, depth: usize) -> Result<Datum<'a>> {
        if depth > DEPTH_MAX {
            return Err(damaged());
        }
        Ok(match self.byte()? {
            0 => Datum::Null,
            1 => Datum::Bool(self.byte()? != 0),
            2 => Datum::Int2(i16::from_le_bytes(self.array()?)),
            3 => Datum::Int4(self.i32()?),
            4 => Datum::Int8(self.i64()?),
            5 => Datum::Float4(f32::from_le_bytes(self.array()?)),
            6 => Datum::Float8(self.f64()?),
            7 => self.small_numeric()?,
            8 => self.large_numeric()?,
            9 => Datum::Numeric(Numeric::NAN),
            10 => Datum::Numeric(Numeric::PLUS_INFINITY),
            11 => Datum::Numeric(Numeric::MINUS_INFINITY),
            12 => Datum::Text(std::str::from_utf8(self.sized()?).map_err(|_| damaged())?),
            13 => Datum::Bytes(self.sized()?),
            14 => Datum::Uuid(self.array()?),
            15 => Datum::Date(self.i32()?),
            16 => Datum::Time(self.i64()?),
            17 => Datum::Timestamp(self.i64()?),
            18 => Datum::Timestamptz(self.i64()?),
            19 => Datum::Interval(Interval { months: self.i32()?, days: self.i32()?, micros: self.i64()? }),
            20 => Datum::Oid(self.u32()?),
            21 => Datum::TimeTz(TimeTz { micros: self.i64()?, west: self.i32()? }),
            22 => {
                let length = self.u32()?;
                let bytes = self.sized()?;
                if bytes.len() != length.div_ceil(8) as usize {
                    return Err(damaged());
                }
                Datum::Bits(Bits { length, bytes })
            }
            tag @ (23 | 24) => {
                let address =
                    if tag == 23 { IpAddr::from(self.array::<4>()?) } else { IpAddr::from(self.array::<16>()?) };
                let prefix = self.byte()?;
                if prefix > if tag == 23 { 32 } else { 128 } {
                    return Err(damaged());
                }
                Datum::Network(Network { address, prefix })
            }
            25 => Datum::Mac(u64::from_le_bytes(self.array()?)),
            26 => self.array_value(depth)?,
            27 => {
                let count = self.count(4)?;
                let types: Box<[u32]> = (0..count).map(|_| self.u32()).collect::<Result<_>>()?;
                let names = if self.byte()? == 0 { None } else { Some(self.names(types.len())?) };
                let values = self.items(depth)?;
                if values.len() != types.len() {
                    return Err(damaged());
                }
                Datum::Record(Arc::new(Record { types, names, values }))
            }
            tag @ (28 | 29) => Datum::Range(Arc::new(self.range(tag, depth)?)),
            30 => {
                let count = self.count(1)?;
                let ranges = (0..count).map(|_| {
                    let tag = self.byte()?;
                    self.range(tag, depth)
                });
                Datum::Multirange(ranges.collect::<Result<Vec<_>>>()?.into())
            }
            31 => Datum::Geometry(Arc::new(self.geometry()?)),
            _ => return Err(damaged()),
        })
    }

    fn names(&mut self, count: usize) -> Result<Arc<[Box<str>]>> {
        let one = |_| {
            let length = self.u32()? as usize;
            std::str::from_utf8(self.take(length)?).map(Into::into).map_err(|_| damaged())
        };
        (0..count).map(one).collect()
    }

    fn items(&mut self, depth: usize) -> Result<Box<[Datum<'a>]>> {
        let count = self.count(1)?;
        (0..count).map(|_| self.datum(depth + 1)).collect()
    }

    fn small_numeric(&mut self) -> Result<Datum<'a>> {
        let scale = u32::from(self.u16()?);
        let length = usize::from(self.byte()?);
        let taken = self.take(length)?;
        let Some(last) = taken.last().filter(|_| length <= 16 && scale <= crate::numeric::SCALE_MAX) else {
            return Err(damaged());
        };
        let mut bytes = [if last & 0x80 != 0 { 0xff } else { 0 }; 16];
        bytes[..length].copy_from_slice(taken);
        Ok(Datum::Numeric(Numeric::new(i128::from_le_bytes(bytes), scale)))
    }

    fn large_numeric(&mut self) -> Result<Datum<'a>> {
        let negative = self.byte()? != 0;
        let scale = u32::from(self.u16()?);
        let digits = self.sized()?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(damaged());
        }
        Numeric::from_digits(negative, digits, -i64::from(scale), scale).map(Datum::Numeric)
    }

    fn array_value(&mut self, depth: usize) -> Result<Datum<'a>> {
        let element = self.u32()?;
        let count = self.count(8)?;
        let dimension = |input: &mut Self| Ok(ArrayDimension { length: input.i32()?, lower: input.i32()? });
        let dimensions: Box<[ArrayDimension]> = (0..count).map(|_| dimension(self)).collect::<Result<_>>()?;
        let items = self.items(depth)?;
        let product = dimensions.iter().try_fold(usize::from(!dimensions.is_empty()), |product, dimension| {
            product.checked_mul(usize::try_from(dimension.length).ok()?)
        });
        let has_end = |side: &ArrayDimension| side.lower.checked_add(side.length).is_some();
        if product != Some(items.len()) || !dimensions.iter().all(has_end) {
            return Err(damaged());
        }
        Ok(Datum::Array(Arc::new(Array { element, dimensions, items })))
    }

    fn range(&mut self, tag: u8, depth: usize) -> Result<Range<'a>> {
        match tag {
            28 => Ok(Range::Empty),
            29 => {
                let mut bound = || {
                    let inclusive = self.byte()? != 0;
                    Ok(RangeBound { inclusive, value: self.datum(depth + 1)? })
                };
                Ok(Range::Between(bound()?, bound()?))
            }
            _ => Err(damaged()),
        }
    }

    fn geometry(&mut self) -> Result<Geometry> {
        let kind = self.byte()?;
        if kind == 1 {
            return Ok(Geometry::Line([self.f64()?, self.f64()?, self.f64()?]));
        }
        let count = self.count(16)?;
        let points: Box<[Point]> =
            (0..count).map(|_| Ok(Point { x: self.f64()?, y: self.f64()? })).collect::<Result<_>>()?;
        let pair = || <[Point; 2]>::try_from(&*points).map_err(|_| damaged());
        Ok(match (kind, &*points) {
            (0, [point]) => Geometry::Point(*point),
            (2, _) => Geometry::Segment(pair()?),
            (3, _) => Geometry::Box(pair()?),
            (4 | 5, _) => Geometry::Path { closed: kind == 4, points },
            (6, _) => Geometry::Polygon(points),
            (7, [centre]) => Geometry::Circle(*centre, self.f64()?),
            _ => return Err(damaged()),
        })
    }
}

#[cfg(test)]
#[path = "encoding_tests.rs"]
mod tests;
