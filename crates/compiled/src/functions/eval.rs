//! Evaluation of scalar functions.

use model::{Datum, Error, Numeric, Result, SqlState};

use super::format;
use crate::datetime;
use crate::exec::ExecContext;
use crate::expr::{Expr, Frame, Function, Operator, arithmetic, compare};

/// Evaluates a function. All are strict (NULL for a NULL argument) except `nullif`, `num_nulls`, `num_nonnulls`,
/// `concat`, `concat_ws` and `format`.
pub(crate) fn call<'a>(function: Function, of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
    if matches!(function, Function::Concat | Function::ConcatWith) {
        return concat(of, function == Function::ConcatWith, frame);
    }
    let arena = frame.ctx.arena;
    match function {
        Function::Format => return format::format(of, frame),
        Function::Nulls | Function::NotNulls => {
            let mut count = 0;
            for one in of {
                count += i32::from(one.eval(frame)?.is_null() == (function == Function::Nulls));
            }
            return Ok(Datum::Int4(count));
        }
        Function::WidthBucket => return width_bucket(of, frame),
        _ => {}
    }
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
        (Function::Lower, Datum::Text(text), ..) => {
            frame.ctx.room(text.len())?;
            Datum::Text(arena.alloc_str(&text.to_lowercase()))
        }
        (Function::Upper, Datum::Text(text), ..) => {
            frame.ctx.room(text.len())?;
            Datum::Text(arena.alloc_str(&text.to_uppercase()))
        }
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
        (Function::Position, Datum::Text(text), Datum::Text(part), _) => Datum::Int4(position(text, part)),
        (Function::Replace, Datum::Text(text), Datum::Text(from), Datum::Text(to)) => {
            Datum::Text(replaced(text, from, to, frame.ctx)?)
        }
        (Function::PadStart | Function::PadEnd, Datum::Text(text), Datum::Int4(length), fill) => {
            Datum::Text(arena.alloc_str(&padded(text, length, &fill, function == Function::PadStart, frame.ctx)?))
        }
        (Function::Repeat, Datum::Text(text), Datum::Int4(count), _) => {
            Datum::Text(arena.alloc_str(&text.repeat(times(text, count, frame.ctx)?)))
        }
        (Function::Reverse, Datum::Text(text), ..) => {
            frame.ctx.room(text.len())?;
            Datum::Text(arena.alloc_str(&text.chars().rev().collect::<String>()))
        }
        (Function::SplitPart, Datum::Text(text), Datum::Text(by), Datum::Int4(number)) => {
            Datum::Text(split_part(text, by, number)?)
        }
        (Function::Ascii, Datum::Text(text), ..) => Datum::Int4(text.chars().next().map_or(0, |one| one as i32)),
        (Function::Chr, Datum::Int4(code), ..) => Datum::Text(arena.alloc_str(&character(code)?)),
        (Function::Initcap, Datum::Text(text), ..) => {
            frame.ctx.room(text.len())?;
            Datum::Text(arena.alloc_str(&initcap(text)))
        }
        (Function::StartsWith, Datum::Text(text), Datum::Text(with), _) => Datum::Bool(text.starts_with(with)),
        (Function::OctetLength, Datum::Text(text), ..) => Datum::Int4(text.len() as i32),
        (Function::Times, Datum::Interval(value), Datum::Float8(by), _) => Datum::Interval(datetime::times(value, by)?),
        (Function::Over, Datum::Interval(value), Datum::Float8(by), _) => Datum::Interval(datetime::over(value, by)?),
        (Function::DateTrunc, Datum::Text(field), value, _) => {
            datetime::truncated(field, &value, frame.ctx.session.zone)?
        }
        (Function::DatePart(part), value, ..) => {
            part.of(&value, frame.ctx.session.zone)?.map_or(Datum::Null, Datum::Numeric)
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

/// Bucket of a value in an equi-width histogram, from 1; 0 below the first bucket, `count + 1` above the last.
fn width_bucket<'a>(of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
    let invalid = |text: &str| Error::new(SqlState("2201G"), text);
    let mut given: [Datum<'a>; 4] = Default::default();
    for (at, one) in of.iter().enumerate().take(given.len()) {
        given[at] = one.eval(frame)?;
        if given[at].is_null() {
            return Ok(Datum::Null);
        }
    }
    let [value, low, high, Datum::Int4(count)] = given else { return Err(Error::bug("width_bucket of no count")) };
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    let order =
        |left: &Datum<'_>, right: &Datum<'_>| compare(left, right)?.ok_or_else(|| Error::bug("width_bucket of NULL"));
    let rising = match order(&low, &high)? {
        std::cmp::Ordering::Equal => return Err(invalid("lower bound cannot equal upper bound")),
        order => order.is_lt(),
    };
    let is_number = |value: &Datum<'_>| match value {
        Datum::Float8(value) => (!value.is_nan(), value.is_finite()),
        Datum::Numeric(value) => (!value.is_nan(), value.is_finite()),
        _ => (false, false),
    };
    if ![&value, &low, &high].into_iter().all(|one| is_number(one).0) {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !is_number(&low).1 || !is_number(&high).1 {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    let (first, last) = if rising { (&low, &high) } else { (&high, &low) };
    let (below, above) = (order(&value, first)?, order(&value, last)?);
    let beyond = count.checked_add(1).ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "integer out of range"));
    let bucket = match rising {
        true if below.is_lt() => 0,
        true if above.is_ge() => beyond?,
        false if above.is_gt() => 0,
        false if below.is_le() => beyond?,
        _ => match (value, low, high) {
            (Datum::Float8(value), Datum::Float8(low), Datum::Float8(high)) => {
                // Halved, so that differences do not overflow.
                let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
                ((part * f64::from(count)) as i32).min(count - 1) + 1
            }
            (Datum::Numeric(value), Datum::Numeric(low), Datum::Numeric(high)) => {
                let part = value.sub(&low)?.mul(&Numeric::from(i64::from(count)))?.div(&high.sub(&low)?)?;
                part.floor()?.to_i32()?.min(count - 1) + 1
            }
            _ => return Err(Error::bug("width_bucket of several types")),
        },
    };
    Ok(Datum::Int4(bucket))
}

/// Joins texts, ignoring NULLs. With `separated` the first argument is the separator; the result is NULL if that
/// is.
fn concat<'a>(of: &'a [Expr], separated: bool, frame: &Frame<'a>) -> Result<Datum<'a>> {
    let mut all = bumpalo::collections::String::new_in(frame.ctx.arena);
    let (between, of) = match of.split_first() {
        Some((between, rest)) if separated => match between.eval(frame)? {
            Datum::Text(between) => (between, rest),
            _ => return Ok(Datum::Null),
        },
        _ => ("", of),
    };
    let mut is_first = true;
    for one in of {
        if let Datum::Text(text) = one.eval(frame)? {
            frame.ctx.room(all.len() + between.len() + text.len())?;
            if !std::mem::take(&mut is_first) {
                all.push_str(between);
            }
            all.push_str(text);
        }
    }
    Ok(Datum::Text(all.into_bump_str()))
}

/// Position of `part` in characters, from 1; 0 if it does not occur.
fn position(text: &str, part: &str) -> i32 {
    text.find(part).map_or(0, |at| text[..at].chars().count() as i32 + 1)
}

/// `replace`. The result's size is checked before it is allocated.
fn replaced<'a>(text: &'a str, from: &str, to: &str, ctx: &ExecContext<'a>) -> Result<&'a str> {
    if from.is_empty() {
        return Ok(text);
    }
    if to.len() > from.len() {
        let found = text.matches(from).count();
        ctx.room(text.len().saturating_add(found.saturating_mul(to.len() - from.len())))?;
    } else {
        ctx.room(text.len())?;
    }
    Ok(ctx.arena.alloc_str(&text.replace(from, to)))
}

/// `lpad`, `rpad`: pads or truncates to `length` characters.
fn padded(text: &str, length: i32, fill: &Datum<'_>, before: bool, ctx: &ExecContext<'_>) -> Result<String> {
    let fill = if let Datum::Text(fill) = fill { fill } else { " " };
    let length = usize::try_from(length).unwrap_or(0);
    let missing = length.saturating_sub(text.chars().count());
    if missing == 0 || fill.is_empty() {
        return Ok(text.chars().take(length).collect());
    }
    let widest = fill.chars().map(char::len_utf8).max().unwrap_or(1);
    ctx.room(text.len().saturating_add(missing.saturating_mul(widest)))?;
    let fill = fill.chars().cycle().take(missing);
    Ok(if before { fill.chain(text.chars()).collect() } else { text.chars().chain(fill).collect() })
}

fn times(text: &str, count: i32, ctx: &ExecContext<'_>) -> Result<usize> {
    let count = usize::try_from(count).unwrap_or(0);
    ctx.room(text.len().saturating_mul(count))?;
    Ok(count)
}

/// `split_part`: fields count from 1, or from the end if negative.
fn split_part<'a>(text: &'a str, by: &str, number: i32) -> Result<&'a str> {
    if number == 0 {
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let at = number.unsigned_abs() as usize - 1;
    // An empty delimiter splits nothing.
    let found = match (by.is_empty(), number > 0) {
        (true, _) => (at == 0).then_some(text),
        (false, true) => text.split(by).nth(at),
        (false, false) => text.rsplit(by).nth(at),
    };
    Ok(found.unwrap_or(""))
}

fn character(code: i32) -> Result<String> {
    let fail = |text: String| Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text);
    match code {
        ..0 => Err(fail("character number must be positive".into())),
        0 => Err(fail("null character not permitted".into())),
        code => {
            let found = char::from_u32(code.unsigned_abs());
            found.map(String::from).ok_or_else(|| fail(format!("requested character too large for encoding: {code}")))
        }
    }
}

/// `initcap`: the first letter of each word in upper case, the others in lower case.
fn initcap(text: &str) -> String {
    let mut inside = false;
    let mut all = String::with_capacity(text.len());
    for one in text.chars() {
        if inside {
            all.extend(one.to_lowercase());
        } else {
            all.extend(one.to_uppercase());
        }
        inside = one.is_alphanumeric();
    }
    all
}

fn logarithm(value: f64) -> Result<f64> {
    let fail = |what: &str| Error::new(SqlState::INVALID_LOG_ARGUMENT, format!("cannot take logarithm of {what}"));
    if value == 0.0 {
        return Err(fail("zero"));
    }
    if value < 0.0 { Err(fail("a negative number")) } else { Ok(value) }
}

fn exponential(value: f64) -> Result<f64> {
    let result = value.exp();
    let wrong = if result.is_infinite() && value.is_finite() { "overflow" } else { "underflow" };
    if (result.is_infinite() || result == 0.0) && value.is_finite() {
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("value out of range: {wrong}")));
    }
    Ok(result)
}

fn checked<T>(value: Option<T>, ty: &str) -> Result<T> {
    value.ok_or_else(|| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range")))
}

/// Predicate for the characters to trim; blanks by default.
fn in_set<'s>(set: &'s Datum<'_>) -> impl Fn(char) -> bool + Copy + use<'s> {
    let set = if let Datum::Text(set) = set { set } else { " " };
    move |one| set.contains(one)
}

/// Characters that `left` and `right` keep; a negative count drops that many.
fn kept(text: &str, count: i32) -> i64 {
    if count >= 0 { i64::from(count) } else { (text.chars().count() as i64 + i64::from(count)).max(0) }
}

/// Byte offset of character number `count`.
fn nth(text: &str, count: i64) -> usize {
    let count = usize::try_from(count).unwrap_or(0);
    text.char_indices().nth(count).map_or(text.len(), |(at, _)| at)
}

/// `substring`: `start` counts from 1 and may lie before the text.
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
        Function::Trunc => value.trunc(),
        Function::Exp => exponential(value)?,
        Function::Ln => logarithm(value)?.ln(),
        Function::Log => logarithm(value)?.log10(),
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
        (Function::Trunc, Datum::Int4(digits)) => value.trunc(*digits),
        (Function::Trunc, _) => value.trunc(0),
        (other, _) => Err(Error::bug(format!("{other:?} of numeric"))),
    }
}
