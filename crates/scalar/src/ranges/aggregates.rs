//! `range_agg` and `range_intersect_agg`.

use model::{Datum, Error, Result};

use super::combine::intersection;
use super::span::{joined, multirange_datum, range_datum, spans};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Accumulator;
use crate::value::{Value, copied};

/// Ranges or multiranges of `range_agg`.
struct Union {
    ranges: Vec<Value>,
    heap_size: usize,
}

/// `range_agg`: the union of all ranges; NULL without any.
pub(super) fn range_agg(_: &Call) -> Box<dyn Accumulator> {
    Box::new(Union { ranges: Vec::new(), heap_size: 0 })
}

impl Accumulator for Union {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [range] = arguments else { return Err(Error::bug("range_agg")) };
        if !range.is_null() {
            let range = Value::of(range);
            self.heap_size += range.heap_size();
            self.ranges.push(range);
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.ranges.is_empty() {
            return Ok(Datum::Null);
        }
        let mut all = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            all.extend(spans(&copied(&range.datum(), ctx.arena))?);
        }
        joined(all).map(multirange_datum)
    }

    fn heap_size(&self) -> usize {
        self.heap_size + self.ranges.capacity() * size_of::<Value>()
    }
}

/// The intersection so far; NULL before the first range.
struct Intersection(Value);

/// `range_intersect_agg`
pub(super) fn range_intersect_agg(_: &Call) -> Box<dyn Accumulator> {
    Box::new(Intersection(Value::NULL))
}

impl Accumulator for Intersection {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [range] = arguments else { return Err(Error::bug("range_intersect_agg")) };
        if range.is_null() {
            return Ok(());
        }
        let common = match self.0.datum() {
            Datum::Null => {
                self.0 = Value::of(range);
                return Ok(());
            }
            so_far => intersection(&spans(&so_far)?, &spans(range)?)?,
        };
        let common = match range {
            Datum::Range(_) => range_datum(common.into_iter().next()),
            _ => multirange_datum(common),
        };
        self.0 = Value::of(&common);
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(copied(&self.0.datum(), ctx.arena))
    }

    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}
