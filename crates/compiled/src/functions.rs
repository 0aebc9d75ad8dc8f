//! Functions by name.

use model::{Datum, Error, Numeric, Result, SqlState};

use crate::expr::{Expr, Frame, Function, Operator, arithmetic, compare};

/// What a function of these arguments gives; all but `NULLIF` give NULL for NULL.
pub(crate) fn call<'a>(function: Function, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
    let mut given: [Datum<'a>; 3] = Default::default();
    for (at, one) in of.iter().enumerate().take(given.len()) {
        given[at] = one.eval(frame)?;
    }
    let [first, second, third] = given;
    if function == Function::Nullif {
        let equal = compare(&first, &second)?.is_some_and(std::cmp::Ordering::is_eq);
        return Ok(if equal { Datum::Null } else { first });
    }
    let nulls = [&first, &second, &third].into_iter().take(of.len()).any(Datum::is_null);
    if nulls {
        return Ok(Datum::Null);
    }
    Ok(match (function, first, second, third) {
        (Function::Lower, Datum::Text(text), ..) => Datum::Text(frame.arena.alloc_str(&text.to_lowercase())),
        (Function::Upper, Datum::Text(text), ..) => Datum::Text(frame.arena.alloc_str(&text.to_uppercase())),
        (Function::Length, Datum::Text(text), ..) => Datum::Int4(text.chars().count() as i32),
        (Function::Length, Datum::Bytes(bytes), ..) => Datum::Int4(bytes.len() as i32),
        (Function::Trim, Datum::Text(text), set, _) => Datum::Text(text.trim_matches(in_set(&set))),
        (Function::TrimStart, Datum::Text(text), set, _) => Datum::Text(text.trim_start_matches(in_set(&set))),
        (Function::TrimEnd, Datum::Text(text), set, _) => Datum::Text(text.trim_end_matches(in_set(&set))),
        (Function::Left, Datum::Text(text), Datum::Int4(count), _) => {
            let keep = kept(text, count);
            Datum::Text(&text[..nth(text, keep)])
        }
        (Function::Right, Datum::Text(text), Datum::Int4(count), _) => {
            let skip = text.chars().count() as i64 - kept(text, count);
            Datum::Text(&text[nth(text, skip)..])
        }
        (Function::Substring, Datum::Text(text), Datum::Int4(start), Datum::Int4(count)) if of.len() == 3 => {
            if count < 0 {
                return Err(Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
            }
            Datum::Text(part(text, i64::from(start), Some(i64::from(count))))
        }
        (Function::Substring, Datum::Text(text), Datum::Int4(start), _) => {
            Datum::Text(part(text, i64::from(start), None))
        }
        (Function::Mod, first, second, _) => arithmetic(Operator::Modulo, first, second)?,
        (Function::Power, Datum::Float8(value), Datum::Float8(by), _) => power(value, by)?,
        (function, Datum::Float8(value), ..) => Datum::Float8(float(function, value)?),
        (function, Datum::Numeric(value), digits, _) => Datum::Numeric(numeric(function, &value, &digits)?),
        (Function::Abs, Datum::Int2(value), ..) => Datum::Int2(checked(value.checked_abs(), "smallint")?),
        (Function::Abs, Datum::Int4(value), ..) => Datum::Int4(checked(value.checked_abs(), "integer")?),
        (Function::Abs, Datum::Int8(value), ..) => Datum::Int8(checked(value.checked_abs(), "bigint")?),
        (Function::Abs, Datum::Float4(value), ..) => Datum::Float4(value.abs()),
        (function, first, ..) => return Err(Error::bug(format!("{function:?} of {}", first.type_name()))),
    })
}

fn checked<T>(value: Option<T>, ty: &str) -> Result<T> {
    value.ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range")))
}

/// The characters to trim: blanks unless said otherwise.
fn in_set<'s>(set: &'s Datum<'_>) -> impl Fn(char) -> bool + Copy + use<'s> {
    let set = if let Datum::Text(set) = set { set } else { " " };
    move |one| set.contains(one)
}

/// How many characters `left` and `right` keep: a negative count leaves out as many.
fn kept(text: &str, count: i32) -> i64 {
    if count >= 0 { i64::from(count) } else { (text.chars().count() as i64 + i64::from(count)).max(0) }
}

/// Where character number `count` begins.
fn nth(text: &str, count: i64) -> usize {
    let count = usize::try_from(count).unwrap_or(0);
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// Characters from `start` (the first is 1), which may lie before the text.
fn part(text: &str, start: i64, count: Option<i64>) -> &str {
    let end = count.map_or(i64::MAX, |count| start.saturating_add(count)).max(1);
    let (from, to) = (nth(text, start.max(1) - 1), nth(text, end - 1));
    text.get(from..to).unwrap_or("")
}

fn power(value: f64, by: f64) -> Result<Datum<'static>> {
    if value == 0.0 && by < 0.0 {
        return Err(Error::new(SqlState::INVALID_POWER_ARGUMENT, "zero raised to a negative power is undefined"));
    }
    if value < 0.0 && by.is_finite() && by.fract() != 0.0 {
        return Err(Error::new(
            SqlState::INVALID_POWER_ARGUMENT,
            "a negative number raised to a non-integer power yields a complex result",
        ));
    }
    let result = value.powf(by);
    if result.is_infinite() && value.is_finite() && by.is_finite() {
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow"));
    }
    Ok(Datum::Float8(result))
}

fn float(function: Function, value: f64) -> Result<f64> {
    Ok(match function {
        Function::Abs => value.abs(),
        Function::Ceil => value.ceil(),
        Function::Floor => value.floor(),
        Function::Round => value.round_ties_even(),
        Function::Sign if value > 0.0 => 1.0,
        Function::Sign if value < 0.0 => -1.0,
        Function::Sign => 0.0,
        Function::Sqrt if value < 0.0 => {
            return Err(Error::new(SqlState::INVALID_POWER_ARGUMENT, "cannot take square root of a negative number"));
        }
        Function::Sqrt => value.sqrt(),
        other => return Err(Error::bug(format!("{other:?} of double precision"))),
    })
}

fn numeric(function: Function, value: &Numeric, digits: &Datum<'_>) -> Result<Numeric> {
    match (function, digits) {
        (Function::Abs, _) => Ok(value.abs()),
        (Function::Ceil, _) => value.ceil(),
        (Function::Floor, _) => value.floor(),
        (Function::Sign, _) => Ok(value.sign()),
        (Function::Round, Datum::Int4(digits)) => value.round(*digits),
        (Function::Round, _) => value.round(0),
        (other, _) => Err(Error::bug(format!("{other:?} of numeric"))),
    }
}
