//! Values of composite types: rows whose columns are those of the type. Their output, order and comparisons are those of all
//! rows.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::user_types::Attribute;
use model::{Datum, Error, Record, Result, SqlState, Type, user_types};

use crate::context::Context;
use crate::enums::spec_of;
use crate::expr::Call;
use crate::registry;

/// The value of a composite type with these columns.
pub(crate) fn value<'a>(attributes: &[Attribute], values: Vec<Datum<'a>>) -> Datum<'a> {
    let types = attributes.iter().map(|attribute| attribute.ty.oid()).collect();
    Datum::Record(Arc::new(Record { types, names: None, values: values.into() }))
}

/// The attributes of a composite type.
///
/// # Errors
/// 42704 if it was dropped.
pub(crate) fn attributes(ty: TypeId, ctx: &Context<'_>) -> Result<Vec<Attribute>> {
    let spec = spec_of(ty, ctx)?;
    spec.attributes().map(<[Attribute]>::to_vec).ok_or_else(|| Error::bug("a composite type without attributes"))
}

/// The value of a composite type as a row, which has the names of the columns.
pub(crate) fn named(value: Datum<'_>, ty: TypeId) -> Datum<'_> {
    match (value, user_types::attributes(ty.0)) {
        (Datum::Record(record), Some(attributes)) if record.names.is_none() => {
            let names: Arc<[Box<str>]> = attributes.into_iter().map(|one| one.name.into_boxed_str()).collect();
            Datum::Record(Arc::new(Record { names: Some(names), ..(*record).clone() }))
        }
        (value, _) => value,
    }
}

/// The name of a row's column: that of its type if the row has none.
pub(crate) fn column_name(record: &Record<'_>, ty: TypeId, at: usize) -> String {
    let own = record.names.as_ref().and_then(|names| names.get(at)).map(|name| name.to_string());
    let of_type = || Some(user_types::attributes(ty.0)?.get(at)?.name.clone());
    own.or_else(of_type).unwrap_or_else(|| format!("f{}", at + 1))
}

/// A value of an attribute, cut or checked by its declared length or precision.
pub(crate) fn fitted<'a>(value: Datum<'a>, ty: Type, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (id, typmod) = (TypeId(ty.oid()), ty.typmod());
    if typmod < 0 || value.is_null() {
        return Ok(value);
    }
    let Some(number) = builtin().length_cast(id) else { return Ok(value) };
    let Some(function) = registry::function(number) else { return Ok(value) };
    let count = builtin().function_row(number).map_or(2, |row| row.parameters.len());
    let arguments = [value, Datum::Int4(typmod), Datum::Bool(false)];
    let types = [id, TypeId::INT4, TypeId::BOOL];
    let call = Call { function: number, operator: None, arguments: types[..count].into(), result: id };
    function(&arguments[..count], &call, ctx)
}

/// Reads `(1,"a b",)`. An empty field is NULL.
pub(crate) fn input<'a>(text: &str, ty: TypeId, _: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let malformed = |detail: &str| {
        let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed record literal: \"{text}\""));
        error.with_detail(detail)
    };
    let is_blank = |one: char| matches!(one, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let rest = text.trim_start_matches(is_blank).strip_prefix('(');
    let mut rest = rest.ok_or_else(|| malformed("Missing left parenthesis."))?;
    let attributes = attributes(ty, ctx)?;
    let mut values = Vec::with_capacity(attributes.len());
    for (at, attribute) in attributes.iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| malformed("Too few columns."))?;
        }
        let (field, behind) = field(rest).ok_or_else(|| malformed("Unexpected end of input."))?;
        rest = behind;
        let value = match field {
            None => Datum::Null,
            Some(field) => {
                let value = registry::input(&field, TypeId(attribute.ty.oid()), attribute.ty.typmod(), ctx)?;
                fitted(value, attribute.ty, ctx)?
            }
        };
        values.push(value);
    }
    let rest = rest.strip_prefix(')').ok_or_else(|| malformed("Too many columns."))?;
    if !rest.trim_start_matches(is_blank).is_empty() {
        return Err(malformed("Junk after right parenthesis."));
    }
    Ok(value(&attributes, values))
}

/// The text of a field, which is `None` for NULL, and what follows it; `None` if the text ends in it.
fn field(text: &str) -> Option<(Option<String>, &str)> {
    if text.starts_with([',', ')']) {
        return Some((None, text));
    }
    let (mut field, mut is_quoted) = (String::new(), false);
    let mut characters = text.char_indices().peekable();
    while let Some((at, one)) = characters.next() {
        match one {
            ',' | ')' if !is_quoted => return Some((Some(field), &text[at..])),
            '\\' => field.push(characters.next()?.1),
            '"' if !is_quoted => is_quoted = true,
            '"' if characters.next_if(|(_, next)| *next == '"').is_some() => field.push('"'),
            '"' => is_quoted = false,
            other => field.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_in_postgresql() {
        let read = |text| field(text).map(|(field, rest)| (field, rest.to_owned()));
        let value = |text: &str, rest: &str| Some((Some(text.to_owned()), rest.to_owned()));
        for (text, expected) in [
            (",1)", Some((None, ",1)".to_owned()))),
            (")", Some((None, ")".to_owned()))),
            ("1,2)", value("1", ",2)")),
            (" a b )", value(" a b ", ")")),
            ("\"\",)", value("", ",)")),
            ("\"a,)\"\"b\\\"c\\\\\"d)", value("a,)\"b\"c\\d", ")")),
            ("\\,x)", value(",x", ")")),
            ("abc", None),
            ("\"abc)", None),
            ("abc\\", None),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }
}
