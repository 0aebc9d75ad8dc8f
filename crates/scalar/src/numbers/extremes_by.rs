//! `max_by` and `min_by`: the value of the row with the greatest or the least key.

use std::cmp::Ordering;

use catalog::TypeId;
use model::{Datum, Error, Result};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Accumulator, Aggregate};
use crate::value::{Value, copied};

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[
    ("max_by", |call| boxed(call, Ordering::Greater)),
    ("min_by", |call| boxed(call, Ordering::Less)),
    ("arg_max", |call| boxed(call, Ordering::Greater)),
    ("arg_min", |call| boxed(call, Ordering::Less)),
];

fn boxed(call: &Call, wanted: Ordering) -> Box<dyn Accumulator> {
    let ty = call.arguments.get(1).copied().unwrap_or_default();
    Box::new(ExtremeBy { wanted, ty, key: Value::NULL, value: Value::NULL })
}

/// The row with the extreme key. Of equal keys the one read first counts, so that ORDER BY in the call decides.
struct ExtremeBy {
    wanted: Ordering,
    /// Type of the keys.
    ty: TypeId,
    /// NULL before the first row with a key.
    key: Value,
    value: Value,
}

impl Accumulator for ExtremeBy {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let [value, key] = arguments else { return Err(Error::bug("an extreme by a key has two arguments")) };
        if key.is_null() {
            return Ok(());
        }
        // The first key is compared with itself, which refuses types without an order.
        let best = if self.key.is_null() { key.clone() } else { self.key.datum() };
        let order = registry::compare(self.ty, key, &best)?;
        if self.key.is_null() || order == self.wanted {
            self.key = Value::of(key);
            self.value = Value::of(value);
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(copied(&self.value.datum(), ctx.arena))
    }

    fn heap_size(&self) -> usize {
        self.key.heap_size() + self.value.heap_size()
    }
}
