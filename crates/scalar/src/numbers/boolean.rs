//! `boolean`.

use std::cmp::Ordering;

use catalog::TypeId;
use model::{Datum, Error, Result};

use super::call::{binary, compared, comparisons, functions, invalid_input, trimmed};
use super::integer::order;
use crate::context::Context;
use crate::registry::{Function, TypeSupport};

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[(TypeId::BOOL, TypeSupport { input, output, compare: None })];

/// Reads `true`, `false`, `yes`, `no`, `on`, `off`, `1`, `0` or an unambiguous beginning of these words.
fn input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let word = trimmed(text);
    let begins = |whole: &str, length_min: usize| {
        word.len() >= length_min && whole.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || word == "1" {
        Ok(Datum::Bool(true))
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(Datum::Bool(false))
    } else {
        Err(invalid_input("boolean", text))
    }
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Bool(value) = datum else { return Err(Error::bug("output of another type as boolean")) };
    text.push(if *value { 't' } else { 'f' });
    Ok(())
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "bool", "btboolcmp": order::<bool, bool>; };

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "booland_statefunc" => binary(|left: bool, right: bool| left && right),
    "boolor_statefunc" => binary(|left: bool, right: bool| left || right),
};

/// The cast to text gives whole words.
pub(super) const TO_TEXT: &[(&str, Function)] = &[("text(bool)", |arguments, _, _| match arguments {
    [Datum::Bool(value)] => Ok(Datum::Text(if *value { "true" } else { "false" })),
    _ => Err(Error::bug("text(bool) of another type")),
})];
