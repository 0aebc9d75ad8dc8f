//! Bound parameters of a compiled statement: exact values of the statement's types, in one buffer.

use std::ops::Range;

use bumpalo::Bump;
use compiled::ParamType;
use model::{Datum, Error, Result, SqlState};
use pg::Form;
use relational::types::Value;

use crate::session::clocks::Clocks;

/// Values for the parameters of one statement.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    bytes: Vec<u8>,
    values: Vec<Slot>,
}

#[derive(Clone, Debug)]
enum Slot {
    Plain(Datum<'static>),
    /// A value that owns its parts, such as an array.
    Other(scalar::Value),
    /// UTF-8 text in `bytes`.
    Text(Range<usize>),
    Bytes(Range<usize>),
}

impl Bound {
    /// Parses and appends the next value; `None` is NULL.
    pub(crate) fn push(&mut self, ty: ParamType, form: Form, bytes: Option<&[u8]>, clocks: &Clocks) -> Result<()> {
        let arena = Bump::new();
        let slot = match (bytes, ty) {
            (None, _) => Slot::Plain(Datum::Null),
            (Some(bytes), ParamType::Plain(ty)) => self.kept(match form {
                Form::Binary => compiled::parse_binary(bytes, ty, clocks, &arena)?,
                Form::Text => compiled::parse(text(bytes)?, ty, clocks, &arena)?,
            }),
            (Some(bytes), ParamType::Array(of)) => {
                let array = match form {
                    Form::Binary => compiled::array_of_binary(bytes, of)?,
                    Form::Text => compiled::array_of_text(text(bytes)?, of, clocks)?,
                };
                Slot::Bytes(self.append(&array))
            }
        };
        self.values.push(slot);
        Ok(())
    }

    /// Binds the constants of EXECUTE: strings are parsed as the parameter type, other constants are
    /// converted by assignment.
    pub(crate) fn of_constants(values: &[Value], types: &[ParamType], clocks: &Clocks) -> Result<Bound> {
        let mut bound = Bound::default();
        for (value, ty) in values.iter().zip(types) {
            if let Value::Text(text) = value {
                bound.push(*ty, Form::Text, Some(text.as_bytes()), clocks)?;
            } else {
                let arena = Bump::new();
                let slot = bound.kept(super::argument(value, *ty, &arena, clocks)?);
                bound.values.push(slot);
            }
        }
        Ok(bound)
    }

    fn kept(&mut self, datum: Datum<'_>) -> Slot {
        Slot::Plain(match datum {
            Datum::Text(text) => return Slot::Text(self.append(text.as_bytes())),
            Datum::Bytes(bytes) => return Slot::Bytes(self.append(bytes)),
            Datum::Null => Datum::Null,
            Datum::Bool(value) => Datum::Bool(value),
            Datum::Int2(value) => Datum::Int2(value),
            Datum::Int4(value) => Datum::Int4(value),
            Datum::Int8(value) => Datum::Int8(value),
            Datum::Float4(value) => Datum::Float4(value),
            Datum::Float8(value) => Datum::Float8(value),
            Datum::Numeric(value) => Datum::Numeric(value),
            Datum::Uuid(value) => Datum::Uuid(value),
            Datum::Date(value) => Datum::Date(value),
            Datum::Time(value) => Datum::Time(value),
            Datum::Timestamp(value) => Datum::Timestamp(value),
            Datum::Timestamptz(value) => Datum::Timestamptz(value),
            Datum::Interval(value) => Datum::Interval(value),
            other => return Slot::Other(scalar::Value::of(&other)),
        })
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        from..self.bytes.len()
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The values, `$1` first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Datum<'_>>> {
        self.values.iter().map(|slot| match slot {
            Slot::Plain(datum) => Ok(datum.clone()),
            Slot::Other(value) => Ok(value.datum()),
            Slot::Bytes(range) => Ok(Datum::Bytes(&self.bytes[range.clone()])),
            Slot::Text(range) => match std::str::from_utf8(&self.bytes[range.clone()]) {
                Ok(text) => Ok(Datum::Text(text)),
                Err(error) => Err(Error::bug(error)),
            },
        })
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let text = format!("invalid byte sequence for encoding \"UTF8\": {:#04x} at byte {at}", bytes[at]);
        Error::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, text)
    })
}
