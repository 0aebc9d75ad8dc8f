//! `money`: cents in 64 bits, with dollars as currency, as in the locale C.

use std::cmp::Ordering;
use std::fmt::Write;

use catalog::TypeId;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::aggregates::{first, integer as integer_argument};
use super::call::{
    argument, binary, compared, comparisons, division_by_zero, functions, invalid_input, out_of_range, unary,
};
use super::float::Float;
use super::integer::{Integer, order};
use crate::context::Context;
use crate::registry::{Accumulator, Aggregate, Function, TypeSupport};

const MONEY: TypeId = TypeId(790);
const CENTS: i64 = 100;
/// Digits behind the point.
const PLACES: usize = 2;

pub(super) const TYPES: &[(TypeId, TypeSupport)] = &[(MONEY, TypeSupport { input, output, compare: None })];

/// The text behind a prefix and the white space around it.
fn without_currency(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    text.strip_prefix(b"$").unwrap_or(text).trim_ascii_start()
}

/// Reads an amount: `-$1,234.56`, `(1234.56)`, `1234.56-`. The sum is kept negative, because the least amount has no
/// opposite.
fn input<'a>(text: &str, _: TypeId, _: i32, _: &Context<'a>) -> Result<Datum<'a>> {
    let out_of_range = || {
        let message = format!("value \"{text}\" is out of range for type money");
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
    };
    let unsigned = without_currency(text.as_bytes());
    let (mut negative, digits) = match unsigned {
        [b'-' | b'(', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, unsigned),
    };
    let mut rest = without_currency(digits);
    let (mut sum, mut places) = (0_i64, None);
    while let [next, behind @ ..] = rest {
        match next {
            b'0'..=b'9' if places != Some(PLACES) => {
                sum = shifted(sum, *next).ok_or_else(out_of_range)?;
                places = places.map(|places| places + 1);
            }
            b'.' if places.is_none() => places = Some(0),
            b',' => {}
            _ => break,
        }
        rest = behind;
    }
    if let [b'5'..=b'9', ..] = rest {
        sum = sum.checked_sub(1).ok_or_else(out_of_range)?;
    }
    for _ in places.unwrap_or(0)..PLACES {
        sum = shifted(sum, b'0').ok_or_else(out_of_range)?;
    }
    for next in rest.iter().skip_while(|next| next.is_ascii_digit()) {
        match next {
            b'-' => negative = true,
            b')' | b'+' | b'$' => {}
            next if next.is_ascii_whitespace() => {}
            _ => return Err(invalid_input("money", text)),
        }
    }
    let value = if negative { Some(sum) } else { sum.checked_neg() };
    value.map(Datum::Int8).ok_or_else(out_of_range)
}

/// A negative sum with another digit.
fn shifted(sum: i64, digit: u8) -> Option<i64> {
    sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0'))
}

fn output(datum: &Datum<'_>, _: TypeId, _: &Context<'_>, text: &mut String) -> Result<()> {
    let Datum::Int8(value) = datum else { return Err(Error::bug("output of another type as money")) };
    let (dollars, cents) = (value.unsigned_abs() / CENTS as u64, value.unsigned_abs() % CENTS as u64);
    text.push_str(if *value < 0 { "-$" } else { "$" });
    let digits = dollars.to_string();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    // Writing to a String cannot fail.
    let _ = write!(text, ".{cents:02}");
    Ok(())
}

pub(super) const COMPARISONS: &[(&str, Function)] = comparisons! { "cash_", "cash_cmp": order::<i64, i64>; };

/// The amount, if it is within 64 bits.
fn checked(value: Option<i64>) -> Result<i64> {
    value.ok_or_else(|| out_of_range("money"))
}

fn rounded(value: f64) -> Result<i64> {
    let whole = value.round_ties_even();
    let bound = -(i64::MIN as f64);
    checked((-bound..bound).contains(&whole).then_some(whole as i64))
}

fn times(value: i64, factor: f64) -> Result<i64> {
    rounded((value as f64).mul(factor)?)
}

fn divided(value: i64, divisor: f64) -> Result<i64> {
    rounded((value as f64).div(divisor)?)
}

pub(super) const FUNCTIONS: &[(&str, Function)] = functions! {
    "cash_pl" => binary(|left: i64, right: i64| checked(left.checked_add(right))),
    "cash_mi" => binary(|left: i64, right: i64| checked(left.checked_sub(right))),
    "cash_mul_int2" => binary(|value: i64, factor: i16| checked(value.checked_mul(factor.into()))),
    "cash_mul_int4" => binary(|value: i64, factor: i32| checked(value.checked_mul(factor.into()))),
    "cash_mul_int8" => binary(|value: i64, factor: i64| checked(value.checked_mul(factor))),
    "int2_mul_cash" => binary(|factor: i16, value: i64| checked(value.checked_mul(factor.into()))),
    "int4_mul_cash" => binary(|factor: i32, value: i64| checked(value.checked_mul(factor.into()))),
    "int8_mul_cash" => binary(|factor: i64, value: i64| checked(value.checked_mul(factor))),
    "cash_mul_flt4" => binary(|value: i64, factor: f32| times(value, factor.into())),
    "cash_mul_flt8" => binary(times),
    "flt4_mul_cash" => binary(|factor: f32, value: i64| times(value, factor.into())),
    "flt8_mul_cash" => binary(|factor: f64, value: i64| times(value, factor)),
    "cash_div_int2" => binary(|value: i64, divisor: i16| value.div(divisor.into())),
    "cash_div_int4" => binary(|value: i64, divisor: i32| value.div(divisor.into())),
    "cash_div_int8" => binary(|value: i64, divisor: i64| value.div(divisor)),
    "cash_div_flt4" => binary(|value: i64, divisor: f32| divided(value, divisor.into())),
    "cash_div_flt8" => binary(divided),
    "cash_div_cash" => binary(|left: i64, right: i64| {
        if right == 0 { Err(division_by_zero()) } else { Ok(left as f64 / right as f64) }
    }),
    "cashlarger" => binary(<i64 as Ord>::max),
    "cashsmaller" => binary(<i64 as Ord>::min),
    "money(int4)" => unary(|value: i32| Ok::<i64, Error>(i64::from(value) * CENTS)),
    "money(int8)" => unary(|value: i64| value.mul(CENTS)),
    "money(numeric)" => unary(|value: &Numeric| value.mul(&Numeric::from(CENTS))?.to_i64()),
    "numeric(money)" => unary(|value: i64| Numeric::new(value.into(), PLACES as u32)),
};

pub(super) const WORDS: &[(&str, Function)] = &[("cash_words", |arguments, _, ctx| {
    let value: i64 = argument(arguments, 0)?;
    Ok(ctx.text(&words(value)))
})];

/// An amount in English: `One hundred twenty three dollars and four cents`.
fn words(value: i64) -> String {
    const GROUPS: [(u64, &str); 6] = [
        (1_000_000_000_000_000, " quadrillion "),
        (1_000_000_000_000, " trillion "),
        (1_000_000_000, " billion "),
        (1_000_000, " million "),
        (1_000, " thousand "),
        (1, ""),
    ];
    let (dollars, cents) = (value.unsigned_abs() / CENTS as u64, value.unsigned_abs() % CENTS as u64);
    let mut text = if value < 0 { "minus ".to_owned() } else { String::new() };
    for (size, name) in GROUPS {
        let group = dollars / size % 1_000;
        if group > 0 {
            hundreds(group as usize, &mut text);
            text.push_str(name);
        }
    }
    if dollars == 0 {
        text.push_str("zero");
    }
    text.push_str(if dollars == 1 { " dollar and " } else { " dollars and " });
    hundreds(cents as usize, &mut text);
    text.push_str(if cents == 1 { " cent" } else { " cents" });
    let first = text.remove(0).to_ascii_uppercase();
    text.insert(0, first);
    text
}

/// A number below 1,000 in English.
fn hundreds(value: usize, text: &mut String) {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 10] = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
    let rest = value % 100;
    if value >= 100 {
        text.push_str(SMALL[value / 100]);
        text.push_str(" hundred");
        match rest {
            0 => return,
            1..20 => text.push_str(" and "),
            _ => text.push(' '),
        }
    }
    if rest < 20 {
        text.push_str(SMALL[rest]);
    } else {
        text.push_str(TENS[rest / 10]);
        if !rest.is_multiple_of(10) {
            text.push(' ');
            text.push_str(SMALL[rest % 10]);
        }
    }
}

pub(super) const AGGREGATES: &[(&str, Aggregate)] = &[("sum(money)", |_| Box::new(Sum(None)))];

struct Sum(Option<i64>);

impl Accumulator for Sum {
    fn update<'a>(&mut self, arguments: &[Datum<'a>], _: &Context<'a>) -> Result<()> {
        if let Some(value) = integer_argument(first(arguments)?)? {
            self.0 = Some(checked(self.0.unwrap_or(0).checked_add(value))?);
        }
        Ok(())
    }

    fn result<'a>(&self, _: &Context<'a>) -> Result<Datum<'a>> {
        Ok(self.0.map_or(Datum::Null, Datum::Int8))
    }
}
