//! Arguments of the functions. A value of another type than the function's parameter is a bug of the caller.

use model::{Datum, Error, Result};

pub(super) fn text<'a>(arguments: &[Datum<'a>], at: usize) -> Result<&'a str> {
    match arguments.get(at) {
        Some(Datum::Text(text)) => Ok(text),
        _ => Err(Error::bug("an argument that is no text")),
    }
}

pub(super) fn int(arguments: &[Datum<'_>], at: usize) -> Result<i32> {
    match arguments.get(at) {
        Some(Datum::Int4(value)) => Ok(*value),
        _ => Err(Error::bug("an argument that is no integer")),
    }
}

pub(super) fn bool(arguments: &[Datum<'_>], at: usize, default: bool) -> Result<bool> {
    match arguments.get(at) {
        None => Ok(default),
        Some(Datum::Bool(value)) => Ok(*value),
        Some(_) => Err(Error::bug("an argument that is no boolean")),
    }
}

/// Texts of a `text[]`, or of the single arguments of a VARIADIC parameter.
pub(super) fn texts<'a>(arguments: &[Datum<'a>]) -> Result<Vec<Option<&'a str>>> {
    let items = match arguments {
        [Datum::Array(array)] => &*array.items,
        items => items,
    };
    let one = |item: &Datum<'a>| match item {
        Datum::Null => Ok(None),
        Datum::Text(text) => Ok(Some(*text)),
        _ => Err(Error::bug("an argument that is no text")),
    };
    items.iter().map(one).collect()
}
