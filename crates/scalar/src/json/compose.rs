//! `jsonb` values that other families compute.

use catalog::TypeId;
use model::{Datum, Result};

use super::convert::{Form, key_text, write_value};
use super::text::write_string;
use crate::context::Context;

/// The text of a value as the key of an object.
///
/// # Errors
/// 22023 for an array, row or `json`.
pub(crate) fn key(value: &Datum<'_>, ty: TypeId, ctx: &Context<'_>) -> Result<String> {
    key_text(value, ty, Form::Jsonb, ctx)
}

/// A `jsonb` object of members with their types. Of several members of one name the last one is kept.
///
/// # Errors
/// 54000 for an object that is too large.
pub(crate) fn object<'a>(mut members: Vec<(String, Datum<'_>, TypeId)>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    // The order of keys in `jsonb`.
    members.sort_by(|(a, ..), (b, ..)| (a.len(), a).cmp(&(b.len(), b)));
    let mut out = String::from("{");
    for (at, (name, value, ty)) in members.iter().enumerate() {
        if members.get(at + 1).is_some_and(|(next, ..)| next == name) {
            continue;
        }
        push_member(&mut out, name, value, *ty, ctx)?;
    }
    out.push('}');
    Ok(ctx.text(&out))
}

/// A `jsonb` array of objects with the same members, whose names are in the order of `jsonb`: by length, then by bytes.
///
/// # Errors
/// 54000 for an array that is too large.
pub(crate) fn objects<'v, 'a, const N: usize>(
    names: [&str; N],
    types: [TypeId; N],
    rows: impl Iterator<Item = [Datum<'v>; N]>,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let mut out = String::from("[");
    for row in rows {
        out.push_str(if out.len() > 1 { ", {" } else { "{" });
        for ((name, value), ty) in names.iter().zip(&row).zip(types) {
            push_member(&mut out, name, value, ty, ctx)?;
        }
        out.push('}');
    }
    out.push(']');
    Ok(ctx.text(&out))
}

/// Appends a member behind `{` or another member.
fn push_member(out: &mut String, name: &str, value: &Datum<'_>, ty: TypeId, ctx: &Context<'_>) -> Result<()> {
    if !out.ends_with('{') {
        out.push_str(", ");
    }
    write_string(out, name);
    out.push_str(": ");
    write_value(out, value, ty, Form::Jsonb, ctx)
}
