//! Quoting, and `format`.

use model::{Datum, Error, Result, SqlState};

use super::arguments::{invalid_parameter, text};
use super::characters::count;
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{self, Family, Function};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: &[], aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("quote_ident", |arguments, _, ctx| {
        let mut out = String::new();
        push_identifier(text(arguments, 0)?, &mut out);
        Ok(ctx.text(&out))
    }),
    ("quote_literal(text)", |arguments, _, ctx| quoted(text(arguments, 0)?, ctx)),
    ("quote_literal(anyelement)", |arguments, call, ctx| quoted(&shown(arguments, call, 0, ctx)?, ctx)),
    ("quote_nullable(text)", quote_nullable),
    ("quote_nullable(anyelement)", quote_nullable),
    ("format(text)", format),
    ("format(text,any)", format),
];

/// Keywords that are no names without quotes, in order.
const KEYWORDS: [&str; 151] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// Appends a name, with quotes if it needs them.
fn push_identifier(name: &str, out: &mut String) {
    let is_start = |byte: u8| byte == b'_' || byte.is_ascii_lowercase();
    let is_plain = name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit())
        && KEYWORDS.binary_search(&name).is_err();
    if is_plain {
        out.push_str(name);
        return;
    }
    out.push('"');
    out.push_str(&name.replace('"', "\"\""));
    out.push('"');
}

/// Appends a text as a string constant.
fn push_literal(text: &str, out: &mut String) {
    if text.contains('\\') {
        out.push('E');
    }
    out.push('\'');
    for one in text.chars() {
        if matches!(one, '\'' | '\\') {
            out.push(one);
        }
        out.push(one);
    }
    out.push('\'');
}

fn quoted<'a>(text: &str, ctx: &Context<'a>) -> Result<Datum<'a>> {
    ctx.check_size(text.len().saturating_mul(2))?;
    let mut out = String::new();
    push_literal(text, &mut out);
    Ok(ctx.text(&out))
}

fn quote_nullable<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if arguments.first().is_none_or(Datum::is_null) {
        return Ok(Datum::Text("NULL"));
    }
    quoted(&shown(arguments, call, 0, ctx)?, ctx)
}

/// The text of an argument; the empty one for NULL.
fn shown(arguments: &[Datum<'_>], call: &Call, at: usize, ctx: &Context<'_>) -> Result<String> {
    let mut out = String::new();
    if let (Some(argument), Some(ty)) = (arguments.get(at), call.arguments.get(at)) {
        registry::output(argument, *ty, ctx, &mut out)?;
    }
    Ok(out)
}

/// A specifier such as `%2$-10s`.
struct Specifier {
    /// Argument from 1, if written.
    position: Option<usize>,
    is_left: bool,
    width: Width,
    /// `s`, `I` or `L`.
    conversion: char,
}

enum Width {
    /// Characters; negative for the left side.
    Fixed(i32),
    /// The width is the next argument.
    Next,
    /// The width is an argument, from 1.
    Argument(usize),
}

fn format<'a>(arguments: &[Datum<'a>], call: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(Datum::Text(pattern)) = arguments.first() else { return Ok(Datum::Null) };
    let mut out = String::new();
    let (mut rest, mut last) = (*pattern, 0);
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let specifier;
        (specifier, rest) = parsed(rest)?;
        let mut argument = |position: Option<usize>| {
            last = position.unwrap_or(last + 1);
            if last < arguments.len() { Ok(last) } else { Err(invalid_parameter("too few arguments for format()")) }
        };
        let width = match specifier.width {
            Width::Fixed(width) => width,
            Width::Next => width_of(arguments, call, argument(None)?, ctx)?,
            Width::Argument(position) => width_of(arguments, call, argument(Some(position))?, ctx)?,
        };
        let at = argument(specifier.position)?;
        let value = converted(specifier.conversion, arguments, call, at, ctx)?;
        push_padded(&value, width, specifier.is_left, &mut out, ctx)?;
    }
    out.push_str(rest);
    ctx.check_size(out.len())?;
    Ok(ctx.text(&out))
}

/// Reads the specifier behind a `%`, and returns the text after it.
fn parsed(text: &str) -> Result<(Specifier, &str)> {
    let unterminated =
        || invalid_parameter("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".");
    let not_empty = |rest: &str| if rest.is_empty() { Err(unterminated()) } else { Ok(()) };
    let numbered = |number: i32| match usize::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(invalid_parameter("format specifies argument 0, but arguments are numbered from 1")),
    };
    not_empty(text)?;
    let (number, mut rest) = digits(text)?;
    let (mut position, mut width, mut is_left) = (None, Width::Fixed(0), false);
    if let Some(number) = number {
        not_empty(rest)?;
        match rest.strip_prefix('$') {
            Some(after) => (position, rest) = (Some(numbered(number)?), after),
            None => width = Width::Fixed(number),
        }
    }
    if number.is_none() || position.is_some() {
        not_empty(rest)?;
        while let Some(after) = rest.strip_prefix('-') {
            (is_left, rest) = (true, after);
            not_empty(rest)?;
        }
        if let Some(after) = rest.strip_prefix('*') {
            not_empty(after)?;
            let (number, after) = digits(after)?;
            not_empty(after)?;
            (width, rest) = match number {
                None => (Width::Next, after),
                Some(number) => {
                    let ended = after.strip_prefix('$');
                    let after =
                        ended.ok_or_else(|| invalid_parameter("width argument position must be ended by \"$\""))?;
                    (Width::Argument(numbered(number)?), after)
                }
            };
        } else {
            let number;
            (number, rest) = digits(rest)?;
            width = Width::Fixed(number.unwrap_or(0));
        }
    }
    let conversion = rest.chars().next().ok_or_else(unterminated)?;
    if !matches!(conversion, 's' | 'I' | 'L') {
        return Err(invalid_parameter(format!("unrecognized format() type specifier \"{conversion}\""))
            .with_hint("For a single \"%\" use \"%%\"."));
    }
    Ok((Specifier { position, is_left, width, conversion }, &rest[1..]))
}

/// The number at the start of a text, if there is one.
fn digits(text: &str) -> Result<(Option<i32>, &str)> {
    let end = text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.is_empty() {
        return Ok((None, rest));
    }
    let number = number.parse();
    let number = number.map_err(|_| Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "number is out of range"))?;
    Ok((Some(number), rest))
}

/// The width that an argument says; NULL is none.
fn width_of(arguments: &[Datum<'_>], call: &Call, at: usize, ctx: &Context<'_>) -> Result<i32> {
    Ok(match &arguments[at] {
        Datum::Null => 0,
        Datum::Int4(width) => *width,
        Datum::Int2(width) => (*width).into(),
        _ => {
            let text = shown(arguments, call, at, ctx)?;
            let value = registry::input(&text, catalog::TypeId::INT4, -1, ctx)?;
            if let Datum::Int4(width) = value { width } else { 0 }
        }
    })
}

fn converted(conversion: char, arguments: &[Datum<'_>], call: &Call, at: usize, ctx: &Context<'_>) -> Result<String> {
    let is_null = arguments[at].is_null();
    let value = shown(arguments, call, at, ctx)?;
    let mut out = String::new();
    match conversion {
        'I' if is_null => {
            let text = "null values cannot be formatted as an SQL identifier";
            return Err(Error::new(SqlState("22004"), text));
        }
        'I' => push_identifier(&value, &mut out),
        'L' if is_null => out.push_str("NULL"),
        'L' => push_literal(&value, &mut out),
        _ => out = value,
    }
    Ok(out)
}

fn push_padded(value: &str, width: i32, is_left: bool, out: &mut String, ctx: &Context<'_>) -> Result<()> {
    let is_left = is_left || width < 0;
    if width == i32::MIN {
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "number is out of range"));
    }
    let padding = (width.unsigned_abs() as usize).saturating_sub(count(value));
    ctx.check_size(out.len().saturating_add(value.len()).saturating_add(padding))?;
    if is_left {
        out.push_str(value);
    }
    out.extend(std::iter::repeat_n(' ', padding));
    if !is_left {
        out.push_str(value);
    }
    Ok(())
}
