//! PostgreSQL's `format`.

use std::iter::Peekable;
use std::str::Chars;

use model::{Datum, Error, Result, SqlState, limits};

use crate::ddl::quoted;
use crate::expr::{Expr, Frame};

/// Evaluates `format`; NULL if the format string is.
pub(super) fn format<'a>(of: &'a [Expr], frame: &Frame<'a>) -> Result<Datum<'a>> {
    let mut values = Vec::with_capacity(of.len());
    for one in of {
        values.push(match one.eval(frame)? {
            Datum::Text(text) => Some(text),
            _ => None,
        });
    }
    let Some((Some(text), values)) = values.split_first() else { return Ok(Datum::Null) };
    let out = formatted(text, values)?;
    frame.ctx.room(out.len())?;
    Ok(Datum::Text(frame.ctx.arena.alloc_str(&out)))
}

/// PostgreSQL's `format` with `%s`, `%I` and `%L`.
///
/// # Errors
/// 22023 for a malformed specifier or a missing argument; 22004 for NULL with `%I`; 54000 for a result that is too
/// long.
pub fn formatted(text: &str, values: &[Option<&str>]) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut next = 0;
    let mut chars = text.chars().peekable();
    while let Some(one) = chars.next() {
        if one != '%' {
            out.push(one);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mark = Mark::read(&mut chars)?;
        let width = match mark.width {
            Width::Fixed(width) => width,
            Width::Given(position) => {
                let text = argument(values, position, &mut next)?.unwrap_or("0");
                text.parse().map_err(|_| too_wide())?
            }
        };
        let value = argument(values, mark.position, &mut next)?;
        let value = match (mark.conversion, value) {
            ('s', value) => value.unwrap_or_default().to_owned(),
            ('I', Some(name)) => quoted(name),
            ('I', None) => {
                let text = "null values cannot be formatted as an SQL identifier";
                return Err(Error::new(SqlState("22004"), text));
            }
            (_, Some(value)) => literal(value),
            (_, None) => "NULL".to_owned(),
        };
        let missing = (width.unsigned_abs() as usize).saturating_sub(value.chars().count());
        if out.len().saturating_add(missing).saturating_add(value.len()) > limits::COMPUTED_BYTES_MAX {
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large"));
        }
        // A negative width means left-justified.
        let left = mark.left || width < 0;
        let blanks = std::iter::repeat_n(' ', missing);
        if left {
            out.push_str(&value);
            out.extend(blanks);
        } else {
            out.extend(blanks);
            out.push_str(&value);
        }
    }
    Ok(out)
}

/// The argument at a position from 1, or the next one.
fn argument<'v>(values: &[Option<&'v str>], position: Option<usize>, next: &mut usize) -> Result<Option<&'v str>> {
    let at = match position {
        Some(0) => {
            let text = "format specifies argument 0, but arguments are numbered from 1";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        Some(position) => position - 1,
        None => *next,
    };
    *next = at + 1;
    let few = || Error::new(SqlState::INVALID_PARAMETER_VALUE, "too few arguments for format()");
    values.get(at).copied().ok_or_else(few)
}

fn too_wide() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "number is out of range")
}

/// Quotes a text as an SQL literal.
fn literal(text: &str) -> String {
    let quotes = text.replace('\'', "''");
    if text.contains('\\') {
        format!(" E'{}'", quotes.replace('\\', "\\\\")).trim_start().to_owned()
    } else {
        format!("'{quotes}'")
    }
}

enum Width {
    Fixed(i32),
    /// `*`: the width is an argument, at this position or the next one.
    Given(Option<usize>),
}

/// A format specifier: the part after `%`.
struct Mark {
    position: Option<usize>,
    left: bool,
    width: Width,
    conversion: char,
}

impl Mark {
    /// Parses `[n$][-][width]type`.
    fn read(chars: &mut Peekable<Chars<'_>>) -> Result<Mark> {
        let mut position = None;
        let mut width = Width::Fixed(0);
        let mut left = false;
        let number = digits(chars)?;
        if number.is_some() && chars.next_if_eq(&'$').is_some() {
            position = number.map(|number| number as usize);
        } else if let Some(number) = number {
            width = Width::Fixed(number);
        }
        if !matches!(width, Width::Fixed(1..)) {
            while chars.next_if_eq(&'-').is_some() {
                left = true;
            }
            if chars.next_if_eq(&'*').is_some() {
                let given = digits(chars)?;
                if given.is_some() && chars.next_if_eq(&'$').is_none() {
                    let text = "width argument position must be ended by \"$\"";
                    return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text));
                }
                width = Width::Given(given.map(|given| given as usize));
            } else if let Some(number) = digits(chars)? {
                width = Width::Fixed(number);
            }
        }
        let hint = "For a single \"%\" use \"%%\".";
        match chars.next() {
            Some(conversion @ ('s' | 'I' | 'L')) => Ok(Mark { position, left, width, conversion }),
            Some(other) => {
                let text = format!("unrecognized format() type specifier \"{other}\"");
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, text).with_hint(hint))
            }
            None => {
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "unterminated format() type specifier")
                    .with_hint(hint))
            }
        }
    }
}

fn digits(chars: &mut Peekable<Chars<'_>>) -> Result<Option<i32>> {
    let mut number: Option<i32> = None;
    while let Some(digit) = chars.next_if(char::is_ascii_digit).and_then(|digit| digit.to_digit(10)) {
        let more = number.unwrap_or(0).checked_mul(10).and_then(|number| number.checked_add(digit as i32));
        number = Some(more.ok_or_else(too_wide)?);
    }
    Ok(number)
}
