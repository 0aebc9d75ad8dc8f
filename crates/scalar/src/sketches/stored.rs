//! Functions of sketches as values: made by an aggregate, merged by another one, asked by functions.

use model::{Datum, Error, Result, SqlState};

use super::encoding::Sketch;
use super::percentile::check_fraction;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Accumulator;

/// `merge_sketches(sketch)`: the sketch of the values of all sketches of one kind.
pub(super) fn merged(_: &Call) -> Box<dyn Accumulator> {
    Box::new(Merged(None))
}

struct Merged(Option<Sketch>);

impl Accumulator for Merged {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        let sketch = sketch(arguments)?;
        match &mut self.0 {
            Some(merged) => merged.merge(&sketch)?,
            None => self.0 = Some(sketch),
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.as_ref().map_or(Datum::Null, |sketch| bytes(sketch, ctx)))
    }

    fn heap_size(&self) -> usize {
        self.0.as_ref().map_or(0, Sketch::heap_size)
    }
}

/// A sketch as a value.
pub(super) fn bytes<'a>(sketch: &Sketch, ctx: &Context<'a>) -> Datum<'a> {
    let mut out = Vec::new();
    sketch.write(&mut out);
    ctx.bytes(&out)
}

fn sketch(arguments: &[Datum<'_>]) -> Result<Sketch> {
    match arguments.first() {
        Some(Datum::Bytes(bytes)) => Sketch::read(bytes),
        _ => Err(Error::bug("a sketch is bytea")),
    }
}

/// `sketch_percentile(sketch, fraction)`
pub(super) fn percentile<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let (sketch, Some(Datum::Float8(fraction))) = (sketch(arguments)?, arguments.get(1)) else {
        return Err(Error::bug("a fraction is a float"));
    };
    check_fraction(&Datum::Float8(*fraction))?;
    match sketch {
        Sketch::Percentile(sketch) => Ok(sketch.percentile(*fraction).map_or(Datum::Null, Datum::Float8)),
        Sketch::Distinct(_) => Err(other_kind("percentile_sketch")),
    }
}

/// `sketch_count_distinct(sketch)`
pub(super) fn count_distinct<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    match sketch(arguments)? {
        Sketch::Distinct(sketch) => Ok(Datum::Int8(i64::try_from(sketch.estimate()).unwrap_or(i64::MAX))),
        Sketch::Percentile(_) => Err(other_kind("distinct_sketch")),
    }
}

fn other_kind(made_by: &str) -> Error {
    let text = format!("the sketch is not one of {made_by}");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}
