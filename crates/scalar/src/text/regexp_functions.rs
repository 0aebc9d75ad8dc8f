//! Functions and operators of regular expressions, and the translation of SQL's patterns (SIMILAR TO).

use std::rc::Rc;
use std::sync::Arc;

use catalog::TypeId;
use model::{Array, Datum, Error, Result, SqlState};

use super::arguments::{int4, invalid_parameter, length, text, text_or_null};
use super::characters::{count, offset};
use super::regexp::{Options, Regex, compiled};
use crate::context::Context;
use crate::expr::Call;
use crate::registry::{Family, Function, Rows, SetFunction};

pub(crate) static FAMILY: Family = Family { types: &[], functions: FUNCTIONS, sets: SETS, aggregates: &[] };

const FUNCTIONS: &[(&str, Function)] = &[
    ("textregexeq", operator::<false, true>),
    ("textregexne", operator::<false, false>),
    ("texticregexeq", operator::<true, true>),
    ("texticregexne", operator::<true, false>),
    ("bpcharregexeq", operator::<false, true>),
    ("bpcharregexne", operator::<false, false>),
    ("bpcharicregexeq", operator::<true, true>),
    ("bpcharicregexne", operator::<true, false>),
    ("nameregexeq", operator::<false, true>),
    ("nameregexne", operator::<false, false>),
    ("nameicregexeq", operator::<true, true>),
    ("nameicregexne", operator::<true, false>),
    ("regexp_like(text,text)", regexp_like),
    ("regexp_like(text,text,text)", regexp_like),
    ("regexp_match(text,text)", regexp_match),
    ("regexp_match(text,text,text)", regexp_match),
    ("regexp_replace(text,text,text)", replace_with_flags),
    ("regexp_replace(text,text,text,text)", replace_with_flags),
    ("regexp_replace(text,text,text,int4)", replace_from),
    ("regexp_replace(text,text,text,int4,int4)", replace_from),
    ("regexp_replace(text,text,text,int4,int4,text)", replace_from),
    ("regexp_split_to_array(text,text)", split_to_array),
    ("regexp_split_to_array(text,text,text)", split_to_array),
    ("regexp_count(text,text)", regexp_count),
    ("regexp_count(text,text,int4)", regexp_count),
    ("regexp_count(text,text,int4,text)", regexp_count),
    ("regexp_instr(text,text)", regexp_instr),
    ("regexp_instr(text,text,int4)", regexp_instr),
    ("regexp_instr(text,text,int4,int4)", regexp_instr),
    ("regexp_instr(text,text,int4,int4,int4)", regexp_instr),
    ("regexp_instr(text,text,int4,int4,int4,text)", regexp_instr),
    ("regexp_instr(text,text,int4,int4,int4,text,int4)", regexp_instr),
    ("regexp_substr(text,text)", regexp_substr),
    ("regexp_substr(text,text,int4)", regexp_substr),
    ("regexp_substr(text,text,int4,int4)", regexp_substr),
    ("regexp_substr(text,text,int4,int4,text)", regexp_substr),
    ("regexp_substr(text,text,int4,int4,text,int4)", regexp_substr),
    ("substring(text,text)", |arguments, _, _| matched_part(text(arguments, 0)?, text(arguments, 1)?)),
    ("substring(text,text,text)", |arguments, _, _| {
        let pattern = similar_pattern(text(arguments, 1)?, Some(text(arguments, 2)?))?;
        matched_part(text(arguments, 0)?, &pattern)
    }),
    ("similar_to_escape(text)", |arguments, _, ctx| Ok(ctx.text(&similar_pattern(text(arguments, 0)?, None)?))),
    ("similar_to_escape(text,text)", |arguments, _, ctx| {
        Ok(ctx.text(&similar_pattern(text(arguments, 0)?, Some(text(arguments, 1)?))?))
    }),
    ("similar_escape", |arguments, _, ctx| {
        let Some(pattern) = text_or_null(arguments, 0)? else { return Ok(Datum::Null) };
        Ok(ctx.text(&similar_pattern(pattern, text_or_null(arguments, 1)?)?))
    }),
];

const SETS: &[(&str, SetFunction)] = &[
    ("regexp_matches(text,text)", regexp_matches),
    ("regexp_matches(text,text,text)", regexp_matches),
    ("regexp_split_to_table(text,text)", split_to_table),
    ("regexp_split_to_table(text,text,text)", split_to_table),
];

/// Options of a function's flags.
#[derive(Default)]
struct Flags {
    options: Options,
    /// `g`
    is_global: bool,
}

impl Flags {
    /// The flags in an argument, if it is given.
    fn of(arguments: &[Datum<'_>], at: usize) -> Result<Flags> {
        let mut flags = Flags::default();
        if at >= arguments.len() {
            return Ok(flags);
        }
        for letter in text(arguments, at)?.chars() {
            // Extended expressions cannot be had by a flag of a function: in PostgreSQL too, `e` means basic ones
            // here.
            let letter = if letter == 'e' { 'b' } else { letter };
            if letter == 'g' {
                flags.is_global = true;
            } else if !flags.options.apply(letter) {
                return Err(invalid_parameter(format!("invalid regular expression option: \"{letter}\"")));
            }
        }
        Ok(flags)
    }

    /// The options for a function that has no use for `g`.
    fn for_one(self, function: &str) -> Result<Options> {
        if self.is_global {
            return Err(invalid_parameter(format!("{function}() does not support the \"global\" option")));
        }
        Ok(self.options)
    }
}

/// `~` and its like.
fn operator<'a, const ANY_CASE: bool, const WANTED: bool>(
    arguments: &[Datum<'a>],
    _: &Call,
    _: &Context<'a>,
) -> Result<Datum<'a>> {
    let options = Options { ignore_case: ANY_CASE, ..Options::default() };
    let regex = compiled(text(arguments, 1)?, options)?;
    Ok(Datum::Bool(regex.is_match(text(arguments, 0)?) == WANTED))
}

fn regexp_like<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let options = Flags::of(arguments, 2)?.for_one("regexp_like")?;
    Ok(Datum::Bool(compiled(text(arguments, 1)?, options)?.is_match(text(arguments, 0)?)))
}

/// The parts of a text that a match and its parentheses have.
type Captures = Vec<Option<(usize, usize)>>;

/// The matches of a pattern one after the other. After an empty match the search continues one character later.
struct Matches<'a> {
    regex: Rc<Regex>,
    text: &'a str,
    /// `None` after the last match.
    from: Option<usize>,
}

impl<'a> Matches<'a> {
    fn new(text: &'a str, from: usize, pattern: &str, options: Options) -> Result<Matches<'a>> {
        Ok(Matches { regex: compiled(pattern, options)?, text, from: Some(from) })
    }

    fn part(&self, place: Option<(usize, usize)>) -> Datum<'a> {
        place.map_or(Datum::Null, |(start, end)| Datum::Text(&self.text[start..end]))
    }

    /// The texts of the parentheses, or of the whole match if there are none.
    fn array(&self, captures: &Captures) -> Datum<'a> {
        let wanted = if self.regex.captures == 0 { &captures[..1] } else { &captures[1..] };
        let items = wanted.iter().map(|place| self.part(*place)).collect();
        Datum::Array(Arc::new(Array::of(TypeId::TEXT.0, items)))
    }
}

impl Iterator for Matches<'_> {
    type Item = Captures;

    fn next(&mut self) -> Option<Captures> {
        let found = self.regex.find(self.text, self.from?);
        self.from = found.as_ref().and_then(|captures| captures[0]).and_then(|(start, end)| match end > start {
            true => Some(end),
            false => self.text[end..].chars().next().map(|one| end + one.len_utf8()),
        });
        found
    }
}

fn regexp_match<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let options = Flags::of(arguments, 2)?.for_one("regexp_match");
    let options = options.map_err(|error| error.with_hint("Use the regexp_matches function instead."))?;
    let mut matches = Matches::new(text(arguments, 0)?, 0, text(arguments, 1)?, options)?;
    Ok(matches.next().map_or(Datum::Null, |captures| matches.array(&captures)))
}

fn regexp_matches<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    let flags = Flags::of(arguments, 2)?;
    let most = if flags.is_global { usize::MAX } else { 1 };
    let mut matches = Matches::new(text(arguments, 0)?, 0, text(arguments, 1)?, flags.options)?;
    let rows = std::iter::from_fn(move || {
        let captures = matches.next()?;
        Some(Ok(matches.array(&captures)))
    });
    Ok(Box::new(rows.take(most)))
}

/// The first parentheses of the first match, or the whole match.
fn matched_part<'a>(text: &'a str, pattern: &str) -> Result<Datum<'a>> {
    let mut matches = Matches::new(text, 0, pattern, Options::default())?;
    let wanted = matches.regex.captures.min(1);
    Ok(matches.next().map_or(Datum::Null, |captures| matches.part(captures[wanted])))
}

/// The texts between the matches. Empty matches at the end or directly behind a match do not split.
fn split<'a>(arguments: &[Datum<'a>], function: &str) -> Result<Vec<Datum<'a>>> {
    let of = text(arguments, 0)?;
    let options = Flags::of(arguments, 2)?.for_one(function)?;
    let mut fields = Vec::new();
    let mut from = 0;
    for (start, end) in Matches::new(of, 0, text(arguments, 1)?, options)?.filter_map(|captures| captures[0]) {
        if start < of.len() && end > from {
            fields.push(Datum::Text(&of[from..start]));
            from = end;
        }
    }
    fields.push(Datum::Text(&of[from..]));
    Ok(fields)
}

fn split_to_array<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let fields = split(arguments, "regexp_split_to_array")?;
    Ok(Datum::Array(Arc::new(Array::of(TypeId::TEXT.0, fields))))
}

fn split_to_table<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Rows<'a>> {
    Ok(Box::new(split(arguments, "regexp_split_to_table")?.into_iter().map(Ok)))
}

/// An argument that is at least `min`; 1 if it is not given.
fn number_from(min: i32, arguments: &[Datum<'_>], at: usize, name: &str) -> Result<usize> {
    if at >= arguments.len() {
        return Ok(1);
    }
    let value = int4(arguments, at)?;
    let checked = usize::try_from(value).ok().filter(|_| value >= min);
    checked.ok_or_else(|| invalid_parameter(format!("invalid value for parameter \"{name}\": {value}")))
}

fn replace_with_flags<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if let Some(Datum::Text(flags)) = arguments.get(3)
        && let Some(digit) = flags.chars().next().filter(char::is_ascii_digit)
    {
        let hint = "If you meant to use regexp_replace() with a start parameter, \
                    cast the fourth argument to integer explicitly.";
        return Err(invalid_parameter(format!("invalid regular expression option: \"{digit}\"")).with_hint(hint));
    }
    let flags = Flags::of(arguments, 3)?;
    let number = if flags.is_global { 0 } else { 1 };
    replaced(arguments, 0, number, flags.options, ctx)
}

fn replace_from<'a>(arguments: &[Datum<'a>], _: &Call, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let start = number_from(1, arguments, 3, "start")?;
    let number = number_from(0, arguments, 4, "n")?;
    let flags = Flags::of(arguments, 5)?;
    replaced(arguments, start - 1, number, flags.options, ctx)
}

/// The text with the match of a number replaced, or with all of them for 0.
fn replaced<'a>(
    arguments: &[Datum<'a>],
    start: usize,
    number: usize,
    options: Options,
    ctx: &Context<'a>,
) -> Result<Datum<'a>> {
    let (of, replacement) = (text(arguments, 0)?, text(arguments, 2)?);
    let mut out = String::new();
    let mut from = 0;
    // A start behind the text finds nothing, not even an empty match.
    let matches = Matches::new(of, offset(of, start), text(arguments, 1)?, options)?;
    let is_inside = start <= count(of);
    for (found, captures) in matches.take_while(|_| is_inside).enumerate() {
        if number > 0 && found + 1 < number {
            continue;
        }
        let Some((begin, end)) = captures[0] else { break };
        out.push_str(&of[from..begin]);
        push_replacement(replacement, of, &captures, &mut out);
        ctx.check_size(out.len())?;
        from = end;
        if number > 0 {
            break;
        }
    }
    if from == 0 && out.is_empty() {
        return Ok(Datum::Text(of));
    }
    out.push_str(&of[from..]);
    ctx.check_size(out.len())?;
    Ok(ctx.text(&out))
}

/// Appends a replacement, with `\1` to `\9` and `\&` replaced by the parts of the match.
fn push_replacement(replacement: &str, of: &str, captures: &Captures, out: &mut String) {
    let mut rest = replacement;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let part = match rest.as_bytes().first() {
            Some(digit @ b'1'..=b'9') => captures.get(usize::from(digit - b'0')).copied().flatten(),
            Some(b'&') => captures[0],
            Some(b'\\') => {
                out.push('\\');
                rest = &rest[1..];
                continue;
            }
            _ => {
                out.push('\\');
                continue;
            }
        };
        rest = &rest[1..];
        if let Some((start, end)) = part {
            out.push_str(&of[start..end]);
        }
    }
    out.push_str(rest);
}

/// The matches from the character of an argument on.
fn matches_from<'a>(arguments: &[Datum<'a>], start: usize, options: Options) -> Result<Matches<'a>> {
    let of = text(arguments, 0)?;
    let mut matches = Matches::new(of, offset(of, start - 1), text(arguments, 1)?, options)?;
    if start - 1 > count(of) {
        matches.from = None;
    }
    Ok(matches)
}

fn regexp_count<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let start = number_from(1, arguments, 2, "start")?;
    let options = Flags::of(arguments, 3)?.for_one("regexp_count")?;
    Ok(length(matches_from(arguments, start, options)?.count()))
}

/// The part of the match of a number that `regexp_instr` and `regexp_substr` mean. Without parentheses, the first
/// ones are the whole match.
fn numbered_part(mut matches: Matches<'_>, number: usize, parentheses: usize) -> Option<(usize, usize)> {
    let captures = matches.nth(number - 1)?;
    let parentheses = if matches.regex.captures == 0 && parentheses == 1 { 0 } else { parentheses };
    captures.get(parentheses).copied().flatten()
}

fn regexp_instr<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let start = number_from(1, arguments, 2, "start")?;
    let number = number_from(1, arguments, 3, "n")?;
    let wants_end = match arguments.len() > 4 {
        true => int4(arguments, 4)?,
        false => 0,
    };
    if !(0..=1).contains(&wants_end) {
        return Err(invalid_parameter(format!("invalid value for parameter \"endoption\": {wants_end}")));
    }
    let parentheses = if arguments.len() > 6 { number_from(0, arguments, 6, "subexpr")? } else { 0 };
    let options = Flags::of(arguments, 5)?.for_one("regexp_instr")?;
    let part = numbered_part(matches_from(arguments, start, options)?, number, parentheses);
    let of = text(arguments, 0)?;
    Ok(length(part.map_or(0, |(begin, end)| count(&of[..if wants_end == 1 { end } else { begin }]) + 1)))
}

fn regexp_substr<'a>(arguments: &[Datum<'a>], _: &Call, _: &Context<'a>) -> Result<Datum<'a>> {
    let start = number_from(1, arguments, 2, "start")?;
    let number = number_from(1, arguments, 3, "n")?;
    let parentheses = if arguments.len() > 5 { number_from(0, arguments, 5, "subexpr")? } else { 0 };
    let options = Flags::of(arguments, 4)?.for_one("regexp_substr")?;
    let part = numbered_part(matches_from(arguments, start, options)?, number, parentheses);
    let of = text(arguments, 0)?;
    Ok(part.map_or(Datum::Null, |(begin, end)| Datum::Text(&of[begin..end])))
}

/// The regular expression of a pattern of SIMILAR TO. The escape character is a backslash unless given; the empty one
/// is none.
///
/// Two escaped double quotes divide the pattern in three, of which the first takes as little as possible and the
/// second is the part that substring returns.
fn similar_pattern(pattern: &str, escape: Option<&str>) -> Result<String> {
    let mut escapes = escape.unwrap_or("\\").chars();
    let (escape, more) = (escapes.next(), escapes.next());
    if more.is_some() {
        return Err(Error::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let mut bracket = Bracket::default();
    let (mut is_escaped, mut quotes) = (false, 0);
    for one in pattern.chars() {
        if is_escaped {
            is_escaped = false;
            if one != '"' || bracket.depth > 0 {
                out.extend(['\\', one]);
                bracket.has_member = true;
                continue;
            }
            out.push_str(match quotes {
                0 => "){1,1}?(",
                1 => "){1,1}(?:",
                _ => {
                    let text = "SQL regular expression may not contain more than two escape-double-quote separators";
                    return Err(Error::new(SqlState("2200C"), text));
                }
            });
            quotes += 1;
            continue;
        }
        if Some(one) == escape {
            is_escaped = true;
            continue;
        }
        match one {
            one if bracket.depth > 0 => {
                if one == '\\' {
                    out.push(one);
                }
                out.push(one);
                bracket.read(one);
            }
            '[' => {
                bracket = Bracket { depth: 1, ..Bracket::default() };
                out.push(one);
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => out.extend(['\\', one]),
            one => out.push(one),
        }
    }
    out.push_str(")$");
    Ok(out)
}

/// A bracket expression in a pattern of SIMILAR TO.
#[derive(Default)]
struct Bracket {
    /// Brackets that are open.
    depth: usize,
    is_negated: bool,
    /// Whether the set has a character. The first one may be a closing bracket.
    has_member: bool,
}

impl Bracket {
    fn read(&mut self, one: char) {
        match one {
            ']' if self.has_member => self.depth -= 1,
            '[' => self.depth += 1,
            _ => {}
        }
        if one == '^' && !self.is_negated && !self.has_member {
            self.is_negated = true;
        } else {
            self.has_member = true;
        }
    }
}
