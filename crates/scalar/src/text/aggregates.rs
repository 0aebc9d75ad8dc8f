//! Aggregates of texts, bytes and bit strings.

use model::{Bits, Datum, Error, Result, SqlState};

use super::arguments::{bits, bytes, text};
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate, Family};

pub(crate) static FAMILY: Family = Family { types: &[], functions: &[], sets: &[], aggregates: AGGREGATES };

const AGGREGATES: &[(&str, Aggregate)] = &[
    ("string_agg(text,text)", |_| Box::new(JoinedText(None))),
    ("string_agg(bytea,bytea)", |_| Box::new(JoinedBytes(None))),
    ("bit_and(bit)", |_| Box::new(CombinedBits { verb: "AND", combine: |left, right| left & right, bits: None })),
    ("bit_or(bit)", |_| Box::new(CombinedBits { verb: "OR", combine: |left, right| left | right, bits: None })),
    ("bit_xor(bit)", |_| Box::new(CombinedBits { verb: "XOR", combine: |left, right| left ^ right, bits: None })),
];

/// Texts that are not NULL, each but the first after its delimiter; `None` before the first one.
struct JoinedText(Option<String>);

impl Accumulator for JoinedText {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        if arguments.first().is_none_or(Datum::is_null) {
            return Ok(());
        }
        let added = text(arguments, 0)?;
        match &mut self.0 {
            None => self.0 = Some(added.to_owned()),
            Some(joined) => {
                if let Some(Datum::Text(delimiter)) = arguments.get(1) {
                    joined.push_str(delimiter);
                }
                joined.push_str(added);
                ctx.check_size(joined.len())?;
            }
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.as_deref().map_or(Datum::Null, |joined| ctx.text(joined)))
    }

    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, String::capacity)
    }
}

/// Like [`JoinedText`], of `bytea`.
struct JoinedBytes(Option<Vec<u8>>);

impl Accumulator for JoinedBytes {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        if arguments.first().is_none_or(Datum::is_null) {
            return Ok(());
        }
        let added = bytes(arguments, 0)?;
        match &mut self.0 {
            None => self.0 = Some(added.to_owned()),
            Some(joined) => {
                if let Some(Datum::Bytes(delimiter)) = arguments.get(1) {
                    joined.extend_from_slice(delimiter);
                }
                joined.extend_from_slice(added);
                ctx.check_size(joined.len())?;
            }
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.as_deref().map_or(Datum::Null, |joined| ctx.bytes(joined)))
    }

    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::capacity)
    }
}

/// Bit strings of one length, combined bit by bit; `None` before the first one.
struct CombinedBits {
    verb: &'static str,
    combine: fn(u8, u8) -> u8,
    /// Number of bits, and the bits.
    bits: Option<(u32, Vec<u8>)>,
}

impl Accumulator for CombinedBits {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if arguments.first().is_none_or(Datum::is_null) {
            return Ok(());
        }
        let added = bits(arguments, 0)?;
        let Some((length, bits)) = &mut self.bits else {
            self.bits = Some((added.length, added.bytes.to_vec()));
            return Ok(());
        };
        if *length != added.length {
            let text = format!("cannot {} bit strings of different sizes", self.verb);
            return Err(Error::new(SqlState("22026"), text));
        }
        bits.iter_mut().zip(added.bytes).for_each(|(byte, other)| *byte = (self.combine)(*byte, *other));
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.bits.as_ref().map_or(Datum::Null, |(length, bits)| {
            Datum::Bits(Bits { length: *length, bytes: ctx.arena.alloc_slice_copy(bits) })
        }))
    }

    fn heap_size(&self) -> usize {
        self.bits.as_ref().map_or(0, |(_, bits)| bits.capacity())
    }
}
