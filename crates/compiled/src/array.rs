//! Array parameters: `= ANY ($1)`.
//!
//! An array parameter is kept in PostgreSQL's binary form; its elements are decoded and sorted once for each run, and are
//! then searched like the result of a subquery.

use std::sync::Arc;

use bumpalo::Bump;
use catalog::TypeId;
use model::{ArrayDimension, Datum, Error, Result, SqlState, Type};
use pg::Form;
use pg::array::{array_binary_header, parse_array_binary, parse_array_text};

use crate::cast::{self, Context, Zone};
use crate::subquery::SubqueryResult;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// A value.
    Plain(Type),
    /// An array with elements of this type, which has a variant of its own in [`Type`]. The value is a [`Datum::Bytes`]
    /// made by [`array_of_text`], [`array_of_binary`] or [`array_of`].
    Array(Type),
}

impl ParamType {
    /// The type with this OID in `pg_type`; `None` if neither it nor its element type is a column type.
    #[must_use]
    pub fn from_oid(oid: u32) -> Option<ParamType> {
        let ty = Type::from_oid(oid, -1)?;
        let Type::Other(other) = ty else { return Some(ParamType::Plain(ty)) };
        // Values of other types have no binary form without crate `scalar`.
        let element = other.element().filter(|element| !element.is_other());
        Some(element.map_or(ParamType::Plain(ty), ParamType::Array))
    }

    /// The OID in `pg_type`.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            ParamType::Plain(ty) => ty.oid(),
            ParamType::Array(of) => pg::types::Type::array_of(of.oid()).unwrap_or_default(),
        }
    }
}

/// Parses the text form of an array, `{1,2,NULL}`.
///
/// # Errors
/// 22P02 for malformed text or a malformed element.
pub fn array_of_text(text: &str, element: Type, zone: &dyn Zone) -> Result<Vec<u8>> {
    let arena = Bump::new();
    let read = |one: Option<_>| {
        one.map_or(Ok(Datum::Null), |one: std::borrow::Cow<'_, str>| cast::parse(&one, element, zone, &arena))
    };
    let values = match parse_array_text(text) {
        Ok(values) => values,
        // Several dimensions, or bounds.
        Err(error) if error.state() == SqlState::FEATURE_NOT_SUPPORTED => return other_array(text, element, zone),
        Err(error) => return Err(error),
    };
    let values = values.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(array_of(element, &values))
}

fn other_array(text: &str, element: Type, zone: &dyn Zone) -> Result<Vec<u8>> {
    let (arena, array) = (Bump::new(), TypeId(ParamType::Array(element).oid()));
    let array_type = Type::from_oid(array.0, -1).ok_or_else(|| Error::bug(format!("an array of type {array}")))?;
    let mut bytes = Vec::new();
    scalar::send(&cast::parse(text, array_type, zone, &arena)?, array, &mut bytes)?;
    Ok(bytes)
}

/// Checks the binary form of an array and copies it.
///
/// # Errors
/// 22P03 for malformed bytes; 42804 for another element type.
pub fn array_of_binary(bytes: &[u8], element: Type) -> Result<Vec<u8>> {
    let array = parse_array_binary(bytes)?;
    if array.element != element.oid() {
        let (sent, element) = (pg::types::Type::sql_name(array.element), element.sql_name());
        let text = format!("binary array of {sent}, expected elements of type {element}");
        return Err(Error::new(SqlState::DATATYPE_MISMATCH, text));
    }
    array.elements.into_iter().flatten().try_for_each(|value| pg::row_value::read_binary(element, value).map(drop))?;
    Ok(bytes.to_vec())
}

/// Encodes values as an array.
#[must_use]
pub fn array_of(element: Type, values: &[Datum<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    array_binary_header(&mut out, element.oid(), values.len(), values.iter().any(Datum::is_null));
    for value in values {
        if value.is_null() {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            continue;
        }
        // The binary form of a timestamp does not depend on the time zone.
        pg::backend::value(&mut out, |out| pg::row_value::write(out, value, element, Form::Binary, &mut |_| 0));
    }
    out
}

/// An array parameter as a value.
pub(crate) fn value_of(bytes: &[u8], element: Type) -> Result<Datum<'_>> {
    let array = parse_array_binary(bytes)?;
    let read = |one: Option<_>| one.map_or(Ok(Datum::Null), |one| pg::row_value::read_binary(element, one));
    let items = array.elements.into_iter().map(read).collect::<Result<_>>()?;
    let dimensions = array.dimensions.into_iter().map(|(length, lower)| ArrayDimension { length, lower }).collect();
    Ok(Datum::Array(Arc::new(model::Array { element: element.oid(), dimensions, items })))
}

/// A use of an array parameter in an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Array {
    /// Parameter number, from 0.
    pub(crate) param: usize,
    /// `from`: the element type; `to`: the type in which elements are compared.
    pub(crate) from: Type,
    pub(crate) to: Type,
}

impl Array {
    /// The elements, sorted; `None` if the array is NULL.
    pub(crate) fn read<'a>(
        &self,
        params: &'a [Datum<'a>],
        zone: &dyn Zone,
        arena: &'a Bump,
    ) -> Result<Option<SubqueryResult<'a>>> {
        let bytes = match params.get(self.param) {
            Some(Datum::Bytes(bytes)) => bytes,
            None | Some(Datum::Null) => return Ok(None),
            Some(other) => return Err(Error::bug(format!("{} as an array", other.type_name()))),
        };
        let mut answer = SubqueryResult::default();
        for element in parse_array_binary(bytes)?.elements {
            let value = element.map_or(Ok(Datum::Null), |bytes| pg::row_value::read_binary(self.from, bytes))?;
            // The cast is needed even from a type to itself: it removes trailing blanks of char(n).
            answer.push(cast::cast(value, self.to, Context::Explicit, zone, arena)?);
        }
        answer.sort();
        Ok(Some(answer))
    }
}
