//! Booleans and numbers.

use model::{Datum, Error, Result, SqlState};

use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function, TypeSupport};
use catalog::TypeId;

pub(crate) static FAMILY: Family = Family { types: TYPES, functions: FUNCTIONS, sets: &[], aggregates: &[] };

const TYPES: &[(TypeId, TypeSupport)] =
    &[(TypeId::INT4, TypeSupport { input: int4_input, output: int4_output, compare: None })];

const FUNCTIONS: &[(&str, Function)] = &[("int4pl", int4_add)];

fn int4_input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let invalid = || {
        let text = format!("invalid input syntax for type integer: \"{text}\"");
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, text)
    };
    text.trim().parse().map(Datum::Int4).map_err(|_| invalid())
}

fn int4_output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    if let Datum::Int4(value) = datum {
        text.push_str(&value.to_string());
    }
    Ok(())
}

fn int4_add<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let [Datum::Int4(left), Datum::Int4(right)] = arguments else { return Err(Error::bug("int4pl")) };
    let sum = left.checked_add(*right);
    sum.map(Datum::Int4).ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "integer out of range"))
}
