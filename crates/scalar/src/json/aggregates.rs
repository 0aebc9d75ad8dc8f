//! Aggregates that make arrays and objects.

use catalog::TypeId;
use model::{Datum, Error, Result, SqlState};

use super::convert::{Form, key_text, write_value};
use super::text::write_string;
use super::tree::Json;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::Accumulator;

/// The state of `json_agg` and `jsonb_agg`: the text so far, empty without rows.
struct ArrayState {
    out: String,
    form: Form,
    ty: TypeId,
}

pub(super) fn array<const JSONB: bool>(call: &Call) -> Box<dyn Accumulator> {
    let form = if JSONB { Form::Jsonb } else { Form::Json };
    Box::new(ArrayState { out: String::new(), form, ty: argument_type(call, 0) })
}

fn argument_type(call: &Call, at: usize) -> TypeId {
    call.arguments.get(at).copied().unwrap_or(TypeId::TEXT)
}

impl Accumulator for ArrayState {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let value = &arguments[0];
        let is_first = self.out.is_empty();
        self.out.push_str(if is_first { "[" } else { ", " });
        // PostgreSQL begins a line for each row and array.
        if !is_first && self.form == Form::Json && matches!(value, Datum::Array(_) | Datum::Record(_)) {
            self.out.push_str("\n ");
        }
        write_value(&mut self.out, value, self.ty, self.form, ctx)
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.out.is_empty() {
            return Ok(Datum::Null);
        }
        Ok(Datum::Text(ctx.arena.alloc_str(&format!("{}]", self.out))))
    }

    fn heap_size(&self) -> usize {
        self.out.capacity()
    }
}

/// The state of `json_object_agg` and `jsonb_object_agg`: the text of the members so far, empty without rows.
struct ObjectState {
    out: String,
    form: Form,
    types: [TypeId; 2],
}

pub(super) fn object<const JSONB: bool>(call: &Call) -> Box<dyn Accumulator> {
    let form = if JSONB { Form::Jsonb } else { Form::Json };
    Box::new(ObjectState { out: String::new(), form, types: [argument_type(call, 0), argument_type(call, 1)] })
}

impl Accumulator for ObjectState {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let [key, value] = arguments else { return Err(Error::bug("an aggregate of two arguments")) };
        if key.is_null() {
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"));
        }
        let key = key_text(key, self.types[0], self.form, ctx)?;
        self.out.push_str(if self.out.is_empty() { "{ " } else { ", " });
        write_string(&mut self.out, &key);
        self.out.push_str(" : ");
        write_value(&mut self.out, value, self.types[1], self.form, ctx)
    }

    fn result<'a>(&self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        if self.out.is_empty() {
            return Ok(Datum::Null);
        }
        let text = ctx.arena.alloc_str(&format!("{} }}", self.out));
        if self.form == Form::Json {
            return Ok(Datum::Text(text));
        }
        let mut canonical = String::with_capacity(text.len());
        Json::parse(text, ctx.arena)?.write(&mut canonical);
        Ok(ctx.text(&canonical))
    }

    fn heap_size(&self) -> usize {
        self.out.capacity()
    }
}
