//! Functions that make `json` and `jsonb` values of others.

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};

use super::arguments::bool;
use super::convert::{Form, key_text, write_array, write_record, write_value};
use super::text::write_string;
use super::tree::Json;
use crate::context::Context;
use crate::expr::Call;

/// Between the elements of a pretty array or row, behind the comma.
const LINE: &str = "\n ";

/// The form that a function of `json` or `jsonb` makes.
const fn form_of(is_jsonb: bool) -> Form {
    if is_jsonb { Form::Jsonb } else { Form::Json }
}

fn type_at(call: &Call, at: usize) -> TypeId {
    call.arguments.get(at).copied().unwrap_or(TypeId::TEXT)
}

pub(super) fn to_json<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    call: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let mut out = String::new();
    write_value(&mut out, &arguments[0], type_at(call, 0), form_of(JSONB), ctx)?;
    Ok(ctx.text(&out))
}

pub(super) fn array_to_json<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Datum::Array(array) = &arguments[0] else { return Err(Error::bug("array_to_json of no array")) };
    let line = if bool(arguments, 1, false)? { LINE } else { "" };
    let mut out = String::new();
    write_array(&mut out, array, Form::Json, line, ctx)?;
    Ok(ctx.text(&out))
}

pub(super) fn row_to_json<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Datum::Record(record) = &arguments[0] else { return Err(Error::bug("row_to_json of no row")) };
    let line = if bool(arguments, 1, false)? { LINE } else { "" };
    let mut out = String::new();
    write_record(&mut out, (record, type_at(call, 0)), Form::Json, line, ctx)?;
    Ok(ctx.text(&out))
}

pub(super) fn build_array<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    call: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let mut out = String::from("[");
    for (at, value) in arguments.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        write_value(&mut out, value, type_at(call, at), form_of(JSONB), ctx)?;
    }
    out.push(']');
    Ok(ctx.text(&out))
}

pub(super) fn build_object<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    call: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let form = form_of(JSONB);
    if !arguments.len().is_multiple_of(2) {
        let name = if JSONB { "jsonb_build_object" } else { "json_build_object" };
        let hint = format!("The arguments of {name}() must consist of alternating keys and values.");
        return Err(refused("argument list must have even number of elements").with_hint(hint));
    }
    let mut object = Object::new(form);
    for (pair, values) in arguments.chunks_exact(2).enumerate() {
        let at = pair * 2;
        if values[0].is_null() && JSONB {
            return Err(refused(format!("argument {}: key must not be null", at + 1)));
        }
        if values[0].is_null() {
            let error = refused(format!("argument {} cannot be null", at + 1));
            return Err(error.with_hint("Object keys should be text."));
        }
        let key = key_text(&values[0], type_at(call, at), form, ctx)?;
        object.add(&key, |out| write_value(out, &values[1], type_at(call, at + 1), form, ctx))?;
    }
    object.finish(ctx)
}

fn refused(message: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// An object of keys and texts: `json_object(keys and values)`.
pub(super) fn object_of_pairs<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let Datum::Array(array) = &arguments[0] else { return Err(Error::bug("json_object of no array")) };
    match &*array.dimensions {
        [] => {}
        [one] if one.length % 2 != 0 => return Err(subscripts("array must have even number of elements")),
        [_, two] if two.length != 2 => return Err(subscripts("array must have two columns")),
        [_] | [_, _] => {}
        _ => return Err(subscripts("wrong number of array subscripts")),
    }
    let mut object = Object::new(form_of(JSONB));
    for pair in array.items.chunks_exact(2) {
        object.add_text(&pair[0], &pair[1])?;
    }
    object.finish(ctx)
}

/// An object of an array of keys and one of texts.
pub(super) fn object_of_arrays<'a, const JSONB: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let [Datum::Array(keys), Datum::Array(values)] = arguments else {
        return Err(Error::bug("json_object of no arrays"));
    };
    let dimensions = |array: &Array<'_>| array.dimensions.len();
    if dimensions(keys) > 1 || dimensions(keys) != dimensions(values) {
        return Err(subscripts("wrong number of array subscripts"));
    }
    if keys.items.len() != values.items.len() {
        return Err(subscripts("mismatched array dimensions"));
    }
    let mut object = Object::new(form_of(JSONB));
    for (key, value) in keys.items.iter().zip(&values.items) {
        object.add_text(key, value)?;
    }
    object.finish(ctx)
}

fn subscripts(message: &str) -> Error {
    Error::new(SqlState("2202E"), message)
}

/// The text of an object. PostgreSQL writes `json` objects of functions with blanks around colons.
struct Object {
    out: String,
    form: Form,
}

impl Object {
    fn new(form: Form) -> Object {
        Object { out: String::from("{"), form }
    }

    fn add(&mut self, key: &str, write: impl FnOnce(&mut String) -> Result<()>) -> Result<()> {
        self.out.push_str(if self.out.len() > 1 { ", " } else { "" });
        write_string(&mut self.out, key);
        self.out.push_str(if self.form == Form::Json { " : " } else { ": " });
        write(&mut self.out)
    }

    fn add_text(&mut self, key: &Datum<'_>, value: &Datum<'_>) -> Result<()> {
        let Datum::Text(key) = key else {
            return Err(Error::new(SqlState("22004"), "null value not allowed for object key"));
        };
        self.add(key, |out| {
            match value {
                Datum::Text(text) => write_string(out, text),
                _ => out.push_str("null"),
            }
            Ok(())
        })
    }

    /// The object; a `jsonb` one with its keys in order.
    fn finish<'a>(mut self, ctx: &Context<'a>) -> Result<Datum<'a>> {
        self.out.push('}');
        ctx.check_size(self.out.len())?;
        if self.form == Form::Json {
            return Ok(ctx.text(&self.out));
        }
        let mut canonical = String::with_capacity(self.out.len());
        Json::parse(&self.out, ctx.arena)?.write(&mut canonical);
        Ok(ctx.text(&canonical))
    }
}
