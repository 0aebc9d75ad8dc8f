//! `min` and `max` of all types.

use std::cmp::Ordering;

use catalog::TypeId;
use model::{Datum, Error, Result};

use super::aggregates::first;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Accumulator, Aggregate};
use crate::value::Value;

/// Both aggregates of each type.
macro_rules! extremes {
    ($($ty:literal: $make:ident,)*) => {
        &[$(
            (concat!("min(", $ty, ")"), |call| $make(call, Ordering::Less)),
            (concat!("max(", $ty, ")"), |call| $make(call, Ordering::Greater)),
        )*]
    };
}

pub(super) const AGGREGATES: &[(&str, Aggregate)] = extremes! {
    "int2": plain,
    "int4": plain,
    "int8": plain,
    "float4": plain,
    "float8": plain,
    "numeric": plain,
    "oid": plain,
    "date": plain,
    "time": plain,
    "timetz": plain,
    "timestamp": plain,
    "timestamptz": plain,
    "interval": plain,
    "money": plain,
    "text": general,
    "bpchar": general,
    "inet": general,
    "pg_lsn": plain,
    "tid": plain,
    "xid8": plain,
    "anyenum": general,
    "anyarray": general,
};

/// Types whose order is [`Datum::compare`] need no look-up of their order for each row.
fn plain(_: &Call, wanted: Ordering) -> Box<dyn Accumulator> {
    Box::new(PlainExtreme { wanted, value: Datum::Null })
}

fn general(call: &Call, wanted: Ordering) -> Box<dyn Accumulator> {
    let ty = call.arguments.first().copied().unwrap_or_default();
    Box::new(Extreme { wanted, ty, value: Value::NULL })
}

/// The extreme of a type whose values have no text or bytes. Of equal values the last one is the result, which matters
/// for the scale of numerics.
struct PlainExtreme {
    wanted: Ordering,
    value: Datum<'static>,
}

impl Accumulator for PlainExtreme {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let argument = first(arguments)?;
        if argument.is_null() {
            return Ok(());
        }
        let is_kept = !self.value.is_null() && self.value.compare(argument) == Some(self.wanted);
        if !is_kept {
            let Value::Plain(value) = Value::of(argument) else { return Err(Error::bug("min or max of another type")) };
            self.value = value;
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.value.clone())
    }
}

struct Extreme {
    wanted: Ordering,
    ty: TypeId,
    value: Value,
}

impl Accumulator for Extreme {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let argument = first(arguments)?;
        if argument.is_null() {
            return Ok(());
        }
        let is_better =
            self.value.is_null() || registry::compare(self.ty, argument, &self.value.datum())? == self.wanted;
        if is_better {
            self.value = Value::of(argument);
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(crate::value::copied(&self.value.datum(), ctx.arena))
    }

    fn heap_size(&self) -> usize {
        self.value.heap_size()
    }
}
