//! Sets of arrays' elements, and aggregates of arrays.

use std::sync::Arc;

use catalog::TypeId;
use model::{Array, ArrayDimension, Datum, Error, Record, Result};

use super::{
    ARRAY_SUBSCRIPT, Arguments, DIMENSIONS_MAX, NULL_NOT_ALLOWED, array, check_size, element_count, result_element,
    too_many_dimensions,
};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Accumulator, Rows};
use crate::value::{Value, copied};

/// `unnest(anyarray)`: all elements, whatever the dimensions.
pub(super) fn unnest<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let Some(Datum::Array(array)) = arguments.first() else { return Ok(Box::new(std::iter::empty())) };
    let array = Arc::clone(array);
    Ok(Box::new((0..array.items.len()).map(move |at| Ok(array.items[at].clone()))))
}

/// `_pg_expandarray`: the elements of an array of one dimension with their positions from 1.
pub(super) fn expand<'a>(arguments: Arguments<'_, 'a>, call: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let Some(Datum::Array(array)) = arguments.first() else { return Ok(Box::new(std::iter::empty())) };
    let array = Arc::clone(array);
    let element = call.arguments.first().and_then(|ty| catalog::builtin().element_of(*ty)).unwrap_or(TypeId::TEXT);
    let types = [element.0, TypeId::INT4.0];
    Ok(Box::new((0..array.items.len()).map(move |at| {
        let position = Datum::Int4(i32::try_from(at + 1).unwrap_or(i32::MAX));
        let values = [array.items[at].clone(), position].into();
        Ok(Datum::Record(Arc::new(Record { types: types.into(), names: None, values })))
    })))
}

/// `generate_subscripts`: the subscripts of a dimension, in reverse if the third argument is true.
pub(super) fn generate_subscripts<'a>(arguments: Arguments<'_, 'a>, _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let (Some(of), Some(Datum::Int4(number))) = (arguments.first(), arguments.get(1)) else {
        return Ok(Box::new(std::iter::empty()));
    };
    if arguments.iter().any(Datum::is_null) {
        return Ok(Box::new(std::iter::empty()));
    }
    let at = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
    let Some(ArrayDimension { length, lower }) = at.and_then(|at| array(of).ok()?.dimensions.get(at).copied()) else {
        return Ok(Box::new(std::iter::empty()));
    };
    let subscripts = (0..length).map(move |offset| Ok(Datum::Int4(lower.saturating_add(offset))));
    if matches!(arguments.get(2), Some(Datum::Bool(true))) {
        return Ok(Box::new(subscripts.rev()));
    }
    Ok(Box::new(subscripts))
}

/// Elements of `array_agg(anynonarray)`.
struct Elements {
    element: u32,
    items: Vec<Value>,
    heap_size: usize,
}

/// `array_agg(anynonarray)`
pub(super) fn array_agg(call: &Call) -> Box<dyn Accumulator> {
    Box::new(Elements { element: result_element(call), items: Vec::new(), heap_size: 0 })
}

impl Accumulator for Elements {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let [item] = arguments else { return Err(Error::bug("array_agg")) };
        check_size(self.items.len() + 1, ctx)?;
        let item = Value::of(item);
        self.heap_size += item.heap_size();
        self.items.push(item);
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.items.is_empty() {
            return Ok(Datum::Null);
        }
        let items = self.items.iter().map(|item| copied(&item.datum(), ctx.arena)).collect();
        Ok(Datum::Array(Arc::new(Array::of(self.element, items))))
    }

    fn heap_size(&self) -> usize {
        self.heap_size + self.items.capacity() * size_of::<Value>()
    }
}

/// Arrays of `array_agg(anyarray)`, which become the elements of an array with another dimension.
struct Arrays {
    element: u32,
    /// Dimensions that all arrays have; `None` before the first one.
    inner: Option<Box<[ArrayDimension]>>,
    count: i32,
    items: Vec<Value>,
    heap_size: usize,
}

/// `array_agg(anyarray)`
pub(super) fn array_agg_arrays(call: &Call) -> Box<dyn Accumulator> {
    Box::new(Arrays { element: result_element(call), inner: None, count: 0, items: Vec::new(), heap_size: 0 })
}

impl Accumulator for Arrays {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let Some(Datum::Array(array)) = arguments.first() else {
            return Err(Error::new(NULL_NOT_ALLOWED, "cannot accumulate null arrays"));
        };
        match &self.inner {
            None if array.items.is_empty() => {
                return Err(Error::new(ARRAY_SUBSCRIPT, "cannot accumulate empty arrays"));
            }
            None if array.dimensions.len() >= DIMENSIONS_MAX => {
                return Err(too_many_dimensions(array.dimensions.len() + 1));
            }
            None => self.inner = Some(array.dimensions.clone()),
            Some(inner) if *inner != array.dimensions => {
                return Err(Error::new(ARRAY_SUBSCRIPT, "cannot accumulate arrays of different dimensionality"));
            }
            Some(_) => {}
        }
        check_size(self.items.len() + array.items.len(), ctx)?;
        self.count = self.count.saturating_add(1);
        for item in &array.items {
            let item = Value::of(item);
            self.heap_size += item.heap_size();
            self.items.push(item);
        }
        Ok(())
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let Some(inner) = &self.inner else { return Ok(Datum::Null) };
        let outer = ArrayDimension { length: self.count, lower: 1 };
        let dimensions: Box<[ArrayDimension]> = std::iter::once(outer).chain(inner.iter().copied()).collect();
        element_count(&dimensions)?;
        let items = self.items.iter().map(|item| copied(&item.datum(), ctx.arena)).collect();
        Ok(Datum::Array(Arc::new(Array { element: self.element, dimensions, items })))
    }

    fn heap_size(&self) -> usize {
        self.heap_size + self.items.capacity() * size_of::<Value>()
    }
}
