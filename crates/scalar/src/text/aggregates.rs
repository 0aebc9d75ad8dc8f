//! `string_agg`.

use model::{Datum, Result};

use super::arguments::{bytes, text};
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate, Family};

pub(crate) static FAMILY: Family = Family { types: &[], functions: &[], sets: &[], aggregates: AGGREGATES };

const AGGREGATES: &[(&str, Aggregate)] = &[
    ("string_agg(text,text)", |_| Box::new(JoinedText(None))),
    ("string_agg(bytea,bytea)", |_| Box::new(JoinedBytes(None))),
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

/// As [`JoinedText`], of `bytea`.
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
