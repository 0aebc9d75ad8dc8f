//! Numbers packed in `bytea`, as devices send waveforms: `unpack_numbers`, `pack_numbers`, `repack_numbers`.

use bumpalo::collections::Vec as ArenaVec;
use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};
use std::sync::Arc;

use super::{Arguments, NULL_NOT_ALLOWED, array, check_size};
use crate::context::Context;
use crate::expr::Call;

/// Form of a number.
#[derive(Clone, Copy)]
enum Kind {
    /// Bytes of a signed integer.
    Signed(usize),
    /// Bytes of an unsigned integer.
    Unsigned(usize),
    Float4,
    Float8,
}

/// Form and order of the bytes of packed numbers.
#[derive(Clone, Copy)]
struct Format<'a> {
    name: &'a str,
    kind: Kind,
    is_big_endian: bool,
}

impl<'a> Format<'a> {
    /// The format of a name: that of a type, with `be` behind it for big-endian numbers.
    fn of(argument: &Datum<'a>) -> Result<Format<'a>> {
        let Datum::Text(name) = argument else { return Err(Error::bug("a format that is no text")) };
        let (kind, is_big_endian) = match name.strip_suffix("be") {
            Some(kind) => (kind, true),
            None => (*name, false),
        };
        let kind = match kind {
            "int1" => Kind::Signed(1),
            "int2" => Kind::Signed(2),
            "int4" => Kind::Signed(4),
            "int8" => Kind::Signed(8),
            "uint1" => Kind::Unsigned(1),
            "uint2" => Kind::Unsigned(2),
            "uint4" => Kind::Unsigned(4),
            "float4" => Kind::Float4,
            "float8" => Kind::Float8,
            _ => {
                let text = format!("unrecognized format of numbers: \"{name}\"");
                let hint = "Formats are int1, int2, int4, int8, uint1, uint2, uint4, float4, float8, and the same with \"be\" \
                            behind them for big-endian numbers.";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint(hint));
            }
        };
        Ok(Format { name, kind, is_big_endian })
    }

    /// Bytes of a number.
    fn size(&self) -> usize {
        match self.kind {
            Kind::Signed(size) | Kind::Unsigned(size) => size,
            Kind::Float4 => 4,
            Kind::Float8 => 8,
        }
    }

    /// The number of `bytes`, which are [`Format::size`].
    fn read(&self, bytes: &[u8]) -> f64 {
        let mut little = [0; 8];
        let size = bytes.len();
        little[..size].copy_from_slice(bytes);
        if self.is_big_endian {
            little[..size].reverse();
        }
        let bits = u64::from_le_bytes(little);
        let unused = 64 - 8 * size;
        match self.kind {
            Kind::Signed(_) => ((bits << unused) as i64 >> unused) as f64,
            Kind::Unsigned(_) => bits as f64,
            Kind::Float4 => f32::from_bits(bits as u32).into(),
            Kind::Float8 => f64::from_bits(bits),
        }
    }

    /// Appends a number.
    ///
    /// # Errors
    /// 22003 if the format cannot hold it.
    fn write(&self, number: f64, out: &mut ArenaVec<'_, u8>) -> Result<()> {
        let beyond =
            || Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("number {number} out of range for {}", self.name));
        let bits = match self.kind {
            Kind::Float8 => number.to_bits(),
            Kind::Float4 => {
                let short = number as f32;
                if short.is_infinite() && number.is_finite() {
                    return Err(beyond());
                }
                short.to_bits().into()
            }
            Kind::Signed(size) => {
                let (rounded, limit) = (number.round_ties_even(), 2_f64.powi(8 * size as i32 - 1));
                if !(-limit <= rounded && rounded < limit) {
                    return Err(beyond());
                }
                rounded as i64 as u64
            }
            Kind::Unsigned(size) => {
                let (rounded, limit) = (number.round_ties_even(), 2_f64.powi(8 * size as i32));
                if !(0.0 <= rounded && rounded < limit) {
                    return Err(beyond());
                }
                rounded as u64
            }
        };
        let mut bytes = bits.to_le_bytes();
        let bytes = &mut bytes[..self.size()];
        if self.is_big_endian {
            bytes.reverse();
        }
        out.extend_from_slice(bytes);
        Ok(())
    }

    /// The numbers of packed bytes.
    ///
    /// # Errors
    /// 22023 if the last number is cut.
    fn numbers<'b>(self, argument: &Datum<'b>) -> Result<impl ExactSizeIterator<Item = f64> + use<'b, 'a>> {
        let Datum::Bytes(bytes) = argument else { return Err(Error::bug("packed numbers that are no bytes")) };
        let size = self.size();
        if !bytes.len().is_multiple_of(size) {
            let text = format!("{} bytes are not a whole number of {}, which have {size}", bytes.len(), self.name);
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        Ok(bytes.chunks_exact(size).map(move |bytes| self.read(bytes)))
    }
}

/// `unpack_numbers(bytea, format)`
pub(super) fn unpack<'a>(arguments: Arguments<'_, 'a>, _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [packed, format] = arguments else { return Err(Error::bug("unpack_numbers")) };
    let numbers = Format::of(format)?.numbers(packed)?;
    check_size(numbers.len(), ctx)?;
    let items: Vec<Datum<'a>> = numbers.map(Datum::Float8).collect();
    Ok(Datum::Array(Arc::new(Array::of(TypeId::FLOAT8.0, items))))
}

/// `pack_numbers(float8[], format)`
pub(super) fn pack<'a>(arguments: Arguments<'_, 'a>, _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [numbers, format] = arguments else { return Err(Error::bug("pack_numbers")) };
    let (numbers, format) = (array(numbers)?, Format::of(format)?);
    let numbers = numbers.items.iter().map(|item| match item {
        Datum::Float8(number) => Ok(*number),
        Datum::Null => Err(Error::new(NULL_NOT_ALLOWED, "packed numbers cannot be NULL")),
        _ => Err(Error::bug("an element that is no number")),
    });
    packed(numbers, format, ctx)
}

/// `repack_numbers(bytea, format, format)`
pub(super) fn repack<'a>(arguments: Arguments<'_, 'a>, _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let [bytes, from, to] = arguments else { return Err(Error::bug("repack_numbers")) };
    let (from, to) = (Format::of(from)?, Format::of(to)?);
    packed(from.numbers(bytes)?.map(Ok), to, ctx)
}

fn packed<'a>(
    numbers: impl ExactSizeIterator<Item = Result<f64>>,
    format: Format<'_>,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let size = numbers.len().saturating_mul(format.size());
    ctx.check_size(size)?;
    let mut out = ArenaVec::with_capacity_in(size, ctx.arena);
    for number in numbers {
        format.write(number?, &mut out)?;
    }
    Ok(Datum::Bytes(out.into_bump_slice()))
}
