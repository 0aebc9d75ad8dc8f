//! Parser of bracket expressions, `[a-z[:digit:]]`.

use model::Result;

use super::parse::{BAD_ESCAPE, Escape, Parser, Syntax, invalid};
use super::set::{CharSet, Class};

const OPEN_BRACKET: &str = "brackets [] not balanced";
const BAD_RANGE: &str = "invalid character range";
const BAD_ELEMENT: &str = "invalid collating element";
const BAD_CLASS: &str = "invalid character class";

/// Names of characters in `[.name.]`.
const NAMES: [(&str, u32); 80] = [
    ("NUL", 0),
    ("SOH", 1),
    ("STX", 2),
    ("ETX", 3),
    ("EOT", 4),
    ("ENQ", 5),
    ("ACK", 6),
    ("BEL", 7),
    ("alert", 7),
    ("BS", 8),
    ("backspace", 8),
    ("HT", 9),
    ("tab", 9),
    ("LF", 10),
    ("newline", 10),
    ("VT", 11),
    ("vertical-tab", 11),
    ("FF", 12),
    ("form-feed", 12),
    ("CR", 13),
    ("carriage-return", 13),
    ("SO", 14),
    ("SI", 15),
    ("DLE", 16),
    ("DC1", 17),
    ("DC2", 18),
    ("DC3", 19),
    ("DC4", 20),
    ("NAK", 21),
    ("SYN", 22),
    ("ETB", 23),
    ("CAN", 24),
    ("EM", 25),
    ("SUB", 26),
    ("ESC", 27),
    ("IS4", 28),
    ("IS3", 29),
    ("IS2", 30),
    ("IS1", 31),
    ("space", 32),
    ("exclamation-mark", 33),
    ("quotation-mark", 34),
    ("number-sign", 35),
    ("dollar-sign", 36),
    ("percent-sign", 37),
    ("ampersand", 38),
    ("apostrophe", 39),
    ("left-parenthesis", 40),
    ("right-parenthesis", 41),
    ("asterisk", 42),
    ("plus-sign", 43),
    ("comma", 44),
    ("hyphen", 45),
    ("hyphen-minus", 45),
    ("period", 46),
    ("full-stop", 46),
    ("slash", 47),
    ("solidus", 47),
    ("zero", 48),
    ("one", 49),
    ("two", 50),
    ("three", 51),
    ("four", 52),
    ("five", 53),
    ("six", 54),
    ("seven", 55),
    ("eight", 56),
    ("nine", 57),
    ("colon", 58),
    ("semicolon", 59),
    ("less-than-sign", 60),
    ("equals-sign", 61),
    ("greater-than-sign", 62),
    ("question-mark", 63),
    ("commercial-at", 64),
    ("left-square-bracket", 91),
    ("backslash", 92),
    ("right-square-bracket", 93),
    ("circumflex", 94),
    ("DEL", 127),
];
/// More names of characters.
const MORE_NAMES: [(&str, u32); 12] = [
    ("reverse-solidus", 92),
    ("circumflex-accent", 94),
    ("underscore", 95),
    ("low-line", 95),
    ("grave-accent", 96),
    ("left-brace", 123),
    ("left-curly-bracket", 123),
    ("vertical-line", 124),
    ("right-brace", 125),
    ("right-curly-bracket", 125),
    ("tilde", 126),
    ("hyphen-minus", 45),
];

/// A part of a bracket expression.
enum Item {
    /// A character, which may begin a range.
    Char(u32),
    Set(CharSet),
    /// `-` between two items.
    Dash,
}

/// Reads the expression behind its `[`.
pub(super) fn parse(parser: &mut Parser) -> Result<CharSet> {
    let is_complement = parser.eat("^");
    let (mut ranges, mut sets) = (Vec::new(), Vec::new());
    let mut is_first = true;
    loop {
        if !is_first && parser.eat("]") {
            break;
        }
        match item(parser, is_first)? {
            Item::Dash => return Err(invalid(BAD_RANGE)),
            Item::Set(set) => sets.push(set),
            Item::Char(low) => {
                let high = if is_dash(parser) { range_end(parser)? } else { low };
                if high < low {
                    return Err(invalid(BAD_RANGE));
                }
                ranges.push((low, high));
            }
        }
        is_first = false;
    }
    let mut set = CharSet::of_ranges(ranges);
    if parser.options.ignore_case {
        set = set.in_any_case();
    }
    let set = sets.iter().fold(set, |all, one| all.union(one));
    Ok(match is_complement {
        false => set,
        true if parser.options.newline_stops => set.union(&CharSet::of('\n'.into())).complement(),
        true => set.complement(),
    })
}

/// Whether the next character is a `-` that makes a range.
fn is_dash(parser: &Parser) -> bool {
    parser.peek(0) == Some('-') && parser.peek(1) != Some(']')
}

fn range_end(parser: &mut Parser) -> Result<u32> {
    parser.at += 1;
    match item(parser, false)? {
        Item::Char(code) => Ok(code),
        Item::Dash => Ok('-'.into()),
        Item::Set(_) => Err(invalid(BAD_RANGE)),
    }
}

fn item(parser: &mut Parser, is_first: bool) -> Result<Item> {
    if is_dash(parser) && !is_first {
        parser.at += 1;
        return Ok(Item::Dash);
    }
    let one = parser.next().ok_or_else(|| invalid(OPEN_BRACKET))?;
    if one == '\\' && parser.options.syntax == Syntax::Advanced {
        return match parser.escape()? {
            Escape::Char(code) => Ok(Item::Char(code)),
            Escape::Class(class, negative) => {
                Ok(Item::Set(if negative { class.set().complement() } else { class.set().clone() }))
            }
            Escape::Assert(_) | Escape::Backreference(_) => Err(invalid(BAD_ESCAPE)),
        };
    }
    if one != '[' {
        return Ok(Item::Char(one.into()));
    }
    match parser.peek(0) {
        None => Err(invalid(OPEN_BRACKET)),
        Some('.') => element(&delimited(parser, ".]")?).map(Item::Char),
        Some('=') => {
            let code = element(&delimited(parser, "=]")?)?;
            let set = CharSet::of(code);
            Ok(Item::Set(if parser.options.ignore_case { set.in_any_case() } else { set }))
        }
        Some(':') => {
            let class = Class::named(&delimited(parser, ":]")?).ok_or_else(|| invalid(BAD_CLASS))?;
            let is_case = matches!(class, Class::Lower | Class::Upper) && parser.options.ignore_case;
            Ok(Item::Set(if is_case { Class::Alpha } else { class }.set().clone()))
        }
        Some(_) => Ok(Item::Char(one.into())),
    }
}

/// The text behind a delimiter up to the closing one.
fn delimited(parser: &mut Parser, end: &str) -> Result<String> {
    parser.at += 1;
    let mut text = String::new();
    while !parser.eat(end) {
        text.push(parser.next().ok_or_else(|| invalid(OPEN_BRACKET))?);
    }
    Ok(text)
}

/// The character of a collating element: itself, or that of its name.
fn element(name: &str) -> Result<u32> {
    let mut chars = name.chars();
    if let (Some(one), None) = (chars.next(), chars.next()) {
        return Ok(one.into());
    }
    let named = NAMES.iter().chain(&MORE_NAMES).find(|(other, _)| *other == name);
    named.map(|(_, code)| *code).ok_or_else(|| invalid(BAD_ELEMENT))
}
