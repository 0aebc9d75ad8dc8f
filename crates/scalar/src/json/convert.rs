//! Values of any type as JSON.

use std::fmt::Write;

use catalog::{TypeId, builtin};
use model::{Array, Datum, Error, Record, Result, SqlState};

use super::moment::{date_text, timestamp_text, timestamptz_text};
use super::text::write_string;
use super::tree::{Json, canonical_number, check_string};
use crate::composite::column_name;
use crate::context::Context;
use crate::registry;

/// Text to write: `json` without blanks, or the canonical text of `jsonb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Jsonb,
}

impl Form {
    fn comma(self) -> &'static str {
        if self == Form::Json { "," } else { ", " }
    }

    fn colon(self) -> &'static str {
        if self == Form::Json { ":" } else { ": " }
    }
}

/// Appends a value as JSON: booleans and numbers bare, `json` as it is, arrays and rows as arrays and objects, dates
/// and times in ISO 8601, everything else as a string of its text.
///
/// # Errors
/// 22P02 and others for a `json` value that is no `jsonb`; those of the type's output.
pub(super) fn write_value(
    out: &mut String,
    value: &Datum<'_>,
    ty: TypeId,
    form: Form,
    ctx: &Context<'_>,
) -> Result<()> {
    match value {
        Datum::Null => out.push_str("null"),
        Datum::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Datum::Int2(value) => drop(write!(out, "{value}")),
        Datum::Int4(value) => drop(write!(out, "{value}")),
        Datum::Int8(value) if !is_shown_otherwise(ty) => drop(write!(out, "{value}")),
        Datum::Numeric(value) if value.is_finite() && !is_shown_otherwise(ty) => drop(write!(out, "{value}")),
        Datum::Float4(number) if number.is_finite() => write_number(out, value, ty, form, ctx)?,
        Datum::Float8(number) if number.is_finite() => write_number(out, value, ty, form, ctx)?,
        Datum::Array(array) => write_array(out, array, form, "", ctx)?,
        Datum::Record(record) => write_record(out, (record, ty), form, "", ctx)?,
        Datum::Text(text) => match (builtin().base_type(ty), form) {
            (TypeId::JSON, Form::Jsonb) => Json::parse(text, ctx.arena)?.write(out),
            (TypeId::JSON | TypeId::JSONB, _) => out.push_str(text),
            _ => write_string(out, &printed(value, ty, form, ctx)?),
        },
        _ => write_string(out, &printed(value, ty, form, ctx)?),
    }
    ctx.check_size(out.len())
}

/// Whether a type's values are represented by numbers and have another text: `tid`, `money`, `pg_lsn`, `xid8`.
fn is_shown_otherwise(ty: TypeId) -> bool {
    matches!(builtin().base_type(ty), TypeId::TID | TypeId(790 | 3220 | 5069))
}

fn write_number(out: &mut String, value: &Datum<'_>, ty: TypeId, form: Form, ctx: &Context<'_>) -> Result<()> {
    let text = printed(value, ty, form, ctx)?;
    out.push_str(&if form == Form::Json { text.into() } else { canonical_number(&text)? });
    Ok(())
}

/// The text of a value that is a string or key in JSON.
fn printed(value: &Datum<'_>, ty: TypeId, form: Form, ctx: &Context<'_>) -> Result<String> {
    let mut text = String::new();
    match value {
        Datum::Date(days) => text = date_text(*days),
        Datum::Timestamp(micros) => text = timestamp_text(*micros),
        Datum::Timestamptz(micros) => text = timestamptz_text(*micros, &ctx.session.zone),
        value => registry::output(value, ty, ctx, &mut text)?,
    }
    if form == Form::Jsonb {
        check_string(&text)?;
    }
    Ok(text)
}

/// Appends an array; `line` is put between its elements in addition to a comma.
pub(super) fn write_array(
    out: &mut String,
    array: &Array<'_>,
    form: Form,
    line: &str,
    ctx: &Context<'_>,
) -> Result<()> {
    let lengths: Vec<usize> =
        array.dimensions.iter().map(|dimension| usize::try_from(dimension.length).unwrap_or(0)).collect();
    write_dimension(out, &array.items, &lengths, (TypeId(array.element), form, line), ctx)
}

fn write_dimension(
    out: &mut String,
    items: &[Datum<'_>],
    lengths: &[usize],
    (element, form, line): (TypeId, Form, &str),
    ctx: &Context<'_>,
) -> Result<()> {
    out.push('[');
    let (length, inner) = lengths.split_first().map_or((0, lengths), |(length, inner)| (*length, inner));
    let parts = items.chunks((items.len() / length.max(1)).max(1));
    for (at, part) in parts.enumerate() {
        if at > 0 {
            out.push_str(form.comma());
            out.push_str(line);
        }
        match (inner, part) {
            ([], [item]) => write_value(out, item, element, form, ctx)?,
            _ => write_dimension(out, part, inner, (element, form, ""), ctx)?,
        }
    }
    out.push(']');
    Ok(())
}

/// Appends a row, with its type, as an object: a `jsonb` one with its keys in order, each once.
pub(super) fn write_record(
    out: &mut String,
    row: (&Record<'_>, TypeId),
    form: Form,
    line: &str,
    ctx: &Context<'_>,
) -> Result<()> {
    if form == Form::Json {
        return write_fields(out, row, form, line, ctx);
    }
    let mut fields = String::new();
    write_fields(&mut fields, row, form, line, ctx)?;
    Json::parse(&fields, ctx.arena)?.write(out);
    Ok(())
}

/// Appends a row as an object with its columns in order.
fn write_fields(
    out: &mut String,
    (record, row_type): (&Record<'_>, TypeId),
    form: Form,
    line: &str,
    ctx: &Context<'_>,
) -> Result<()> {
    let types = record.types.iter().map(|ty| TypeId(*ty)).chain(std::iter::repeat(TypeId::TEXT));
    out.push('{');
    for (at, (value, ty)) in record.values.iter().zip(types).enumerate() {
        if at > 0 {
            out.push_str(form.comma());
            out.push_str(line);
        }
        write_string(out, &column_name(record, row_type, at));
        out.push_str(form.colon());
        write_value(out, value, ty, form, ctx)?;
    }
    out.push('}');
    Ok(())
}

/// The text of a value as the key of an object.
///
/// # Errors
/// 22023 for an array, row or `json`.
pub(super) fn key_text(value: &Datum<'_>, ty: TypeId, form: Form, ctx: &Context<'_>) -> Result<String> {
    let is_json = matches!(builtin().base_type(ty), TypeId::JSON | TypeId::JSONB);
    match value {
        Datum::Bool(value) => Ok(value.to_string()),
        Datum::Array(_) | Datum::Record(_) => Err(not_scalar()),
        Datum::Text(_) if is_json => Err(not_scalar()),
        value => printed(value, ty, form, ctx),
    }
}

fn not_scalar() -> Error {
    let text = "key value must be scalar, not array, composite, or json";
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}
