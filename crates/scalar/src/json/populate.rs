//! Rows whose columns are members of JSON objects, as `json_to_record` and `json_populate_record` make them: each value is read as
//! one of its column's type. The binder names the columns.

use std::sync::Arc;

use catalog::{TypeId, builtin};
use model::{Array, ArrayDimension, Datum, Error, Record, Result, SqlState};

use super::arguments::text;
use super::lexer::Escapes;
use super::parse::parse;
use super::scan::{Kind, elements, kind, members};
use super::text::{is_text, unquoted};
use crate::arrays::DIMENSIONS_MAX;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Rows};
use crate::typmod::with_typmod;

/// The columns of the rows.
struct Columns<'a> {
    names: Vec<&'a str>,
    types: Box<[u32]>,
    typmods: Vec<i32>,
    /// The function that the statement calls, for messages.
    function: &'a str,
}

impl<'a> Columns<'a> {
    /// The columns as arguments say, behind the value.
    fn of(arguments: &[Datum<'a>]) -> Result<Columns<'a>> {
        let items = |at: usize| match arguments.get(at) {
            Some(Datum::Array(array)) => Ok(array.items.iter().cloned()),
            _ => Err(Error::bug("columns that are no array")),
        };
        let wrong = || Error::bug("a column of another type");
        let text = |item| if let Datum::Text(text) = item { Ok(text) } else { Err(wrong()) };
        let number = |item| if let Datum::Oid(number) = item { Ok(number) } else { Err(wrong()) };
        let integer = |item| if let Datum::Int4(integer) = item { Ok(integer) } else { Err(wrong()) };
        let columns = Columns {
            names: items(1)?.map(text).collect::<Result<_>>()?,
            types: items(2)?.map(number).collect::<Result<_>>()?,
            typmods: items(3)?.map(integer).collect::<Result<_>>()?,
            function: self::text(arguments, 4)?,
        };
        let width = columns.names.len();
        if columns.types.len() != width || columns.typmods.len() != width {
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "a column needs a name, a type and a modifier"));
        }
        Ok(columns)
    }

    /// The row of an object.
    fn row(&self, object: &'a str, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let mut found: Vec<Option<&'a str>> = vec![None; self.names.len()];
        for (key, value) in members(object) {
            // The last of several members of a name counts.
            let places = self.names.iter().zip(&mut found).filter(|(name, _)| is_text(key, name));
            places.for_each(|(_, place)| *place = Some(value));
        }
        let values = found.iter().enumerate().map(|(at, value)| match value {
            Some(value) => self.value(at, value, ctx),
            None => Ok(Datum::Null),
        });
        let values = values.collect::<Result<_>>()?;
        Ok(Datum::Record(Arc::new(Record { types: self.types.clone(), names: None, values })))
    }

    fn value(&self, at: usize, value: &'a str, ctx: &Context<'a>) -> Result<Datum<'a>> {
        let (ty, typmod) = (TypeId(self.types[at]), self.typmods[at]);
        let value = value.trim();
        let is_text = matches!(kind(value), Kind::String | Kind::Null);
        match builtin().element_of(builtin().base_type(ty)).filter(|_| !is_text && !is_vector(ty)) {
            None => scalar(value, ty, typmod, ctx),
            Some(_) if kind(value) != Kind::Array => {
                let hint = format!("See the value of key \"{}\".", self.names[at]);
                Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array").with_hint(hint))
            }
            Some(element) => {
                let mut filled =
                    Filled { key: self.names[at], element, typmod, lengths: Vec::new(), items: Vec::new() };
                filled.fill(value, 1, &mut Vec::new(), ctx)?;
                filled.array()
            }
        }
    }
}

/// Whether a type has elements and is no array.
fn is_vector(ty: TypeId) -> bool {
    matches!(ty, TypeId::INT2VECTOR | TypeId::OIDVECTOR)
}

/// A value as one of a type that is no array, or a text of an array.
fn scalar<'a>(value: &'a str, ty: TypeId, typmod: i32, ctx: &Context<'a>) -> Result<Datum<'a>> {
    match (kind(value), ty) {
        (Kind::Null, _) => Ok(Datum::Null),
        (_, TypeId::JSON | TypeId::JSONB) => registry::input(value, ty, -1, ctx),
        (Kind::String, _) => {
            let text = unquoted(value, ctx.arena);
            with_typmod(registry::input(text, ty, typmod, ctx)?, ty, typmod, false, ctx)
        }
        _ => with_typmod(registry::input(value, ty, typmod, ctx)?, ty, typmod, false, ctx),
    }
}

/// An array while it is filled.
struct Filled<'a> {
    key: &'a str,
    element: TypeId,
    typmod: i32,
    /// Length of each dimension; the first value that is no array tells their number.
    lengths: Vec<Option<usize>>,
    items: Vec<Datum<'a>>,
}

impl<'a> Filled<'a> {
    /// Adds the elements of an array at a depth. `place`: subscripts of the arrays around it.
    fn fill(&mut self, array: &'a str, depth: usize, place: &mut Vec<usize>, ctx: &Context<'a>) -> Result<()> {
        if depth > DIMENSIONS_MAX {
            let text = format!("number of array dimensions ({depth}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text));
        }
        let mut length = 0;
        for value in elements(array) {
            let value = value.trim();
            let is_array = kind(value) == Kind::Array;
            if self.lengths.is_empty() && !is_array {
                self.lengths = vec![None; depth];
            }
            place.push(length);
            match self.lengths.len() {
                known if known > 0 && depth >= known => {
                    self.items.push(scalar(value, self.element, self.typmod, ctx)?);
                }
                _ if is_array => self.fill(value, depth + 1, place, ctx)?,
                _ => {
                    let subscripts: String = place.iter().map(|at| format!("[{at}]")).collect();
                    let hint = format!("See the array element {subscripts} of key \"{}\".", self.key);
                    let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "expected JSON array");
                    return Err(error.with_hint(hint));
                }
            }
            place.pop();
            length += 1;
        }
        if self.lengths.is_empty() {
            self.lengths = vec![None; depth];
        }
        match self.lengths.get_mut(depth - 1) {
            Some(known @ None) => *known = Some(length),
            Some(Some(known)) if *known == length => {}
            _ => {
                let detail = "Multidimensional arrays must have sub-arrays with matching dimensions.";
                let error = Error::new(SqlState::INVALID_TEXT_REPRESENTATION, "malformed JSON array");
                return Err(error.with_detail(detail));
            }
        }
        Ok(())
    }

    fn array(self) -> Result<Datum<'a>> {
        let dimension = |length: &Option<usize>| {
            let length = i32::try_from(length.unwrap_or(0)).map_err(|_| Error::bug("an array of too many elements"))?;
            Ok(ArrayDimension { length, lower: 1 })
        };
        let dimensions = match self.items.is_empty() {
            true => Box::default(),
            false => self.lengths.iter().map(dimension).collect::<Result<_>>()?,
        };
        let items = self.items.into_boxed_slice();
        Ok(Datum::Array(Arc::new(Array { element: self.element.0, dimensions, items })))
    }
}

fn refused(text: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
}

/// Checks that the strings of a `json` value can be converted to text.
fn check<const JSONB: bool>(value: &str) -> Result<()> {
    if !JSONB && value.contains("\\u") { parse(value, Escapes::Convert, &mut ()) } else { Ok(()) }
}

/// The row of an object.
pub(super) fn record<'a, const JSONB: bool>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (object, columns) = (text(arguments, 0)?, Columns::of(arguments)?);
    match kind(object) {
        Kind::Object => {}
        Kind::Array => return Err(refused(format!("cannot call {} on an array", columns.function))),
        _ => return Err(refused(format!("cannot call {} on a scalar", columns.function))),
    }
    check::<JSONB>(object)?;
    columns.row(object, ctx)
}

/// The rows of an array of objects.
pub(super) fn records<'a, const JSONB: bool>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Rows<'a>> {
    let (array, columns) = (text(arguments, 0)?, Columns::of(arguments)?);
    match (kind(array), JSONB) {
        (Kind::Array, _) => {}
        (_, true) => return Err(refused(format!("cannot call {} on a non-array", columns.function))),
        (Kind::Object, false) => return Err(refused(format!("cannot call {} on an object", columns.function))),
        (_, false) => return Err(refused(format!("cannot call {} on a scalar", columns.function))),
    }
    check::<JSONB>(array)?;
    let ctx = *ctx;
    Ok(Box::new(elements(array).map(move |object| match kind(object) {
        Kind::Object => columns.row(object, &ctx),
        _ => Err(refused(format!("argument of {} must be an array of objects", columns.function))),
    })))
}
