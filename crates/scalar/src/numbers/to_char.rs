//! `to_char` of numbers.

use bumpalo::collections::String as ArenaString;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::argument;
use super::picture::{Anchor, Element, Picture};
use crate::context::Context;
use crate::registry::Function;

/// Characters of the longest Roman number below 4000, MMMDCCCLXXXVIII.
const ROMAN_LENGTH: usize = 15;
/// Decimal digits that the float types always keep.
const FLOAT4_DIGITS: usize = 6;
const FLOAT8_DIGITS: usize = 15;
/// Places of scientific notation that are computed; zeros follow.
const FLOAT_PLACES_MAX: usize = 350;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("to_char(int4,text)", |arguments, _, ctx| {
        let value: i32 = argument(arguments, 0)?;
        integer_text(value.into(), arguments, ctx)
    }),
    ("to_char(int8,text)", |arguments, _, ctx| integer_text(argument(arguments, 0)?, arguments, ctx)),
    ("to_char(float4,text)", |arguments, _, ctx| {
        let value: f32 = argument(arguments, 0)?;
        float_text(value.into(), FLOAT4_DIGITS, arguments, ctx)
    }),
    ("to_char(float8,text)", |arguments, _, ctx| float_text(argument(arguments, 0)?, FLOAT8_DIGITS, arguments, ctx)),
    ("to_char(numeric,text)", |arguments, _, ctx| {
        let value: &Numeric = argument(arguments, 0)?;
        numeric_text(value, arguments, ctx)
    }),
];

/// The picture of a call; `None` if it is empty, as the result then is.
fn picture<'a>(arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Option<Picture<'a>>> {
    let format: &str = argument(arguments, 1)?;
    if format.is_empty() { Ok(None) } else { Picture::parse(format, ctx).map(Some) }
}

fn integer_text<'a>(value: i64, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(picture) = picture(arguments, ctx)? else { return Ok(Datum::Text("")) };
    if picture.roman {
        let value = i32::try_from(value).map_err(|_| super::call::out_of_range("integer"))?;
        return roman(value, picture, ctx);
    }
    exact_text(&Numeric::from(value), picture, ctx)
}

fn numeric_text<'a>(value: &Numeric, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(picture) = picture(arguments, ctx)? else { return Ok(Datum::Text("")) };
    if picture.roman { roman(value.to_i32()?, picture, ctx) } else { exact_text(value, picture, ctx) }
}

fn exact_text<'a>(value: &Numeric, mut picture: Picture<'a>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    if picture.scientific {
        let text = if value.is_finite() { scientific(value, picture.fraction)? } else { hashes(&picture) };
        return Ok(ctx.text(&text));
    }
    let mut value = value.clone();
    if let Some(shift) = picture.shift {
        value = value.mul(&format!("1e{shift}").parse()?)?;
        picture.whole += shift;
    }
    let text = value.round(picture.fraction as i32)?.to_string();
    written(&text, picture, ctx)
}

fn float_text<'a>(value: f64, digits: usize, arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let Some(mut picture) = picture(arguments, ctx)? else { return Ok(Datum::Text("")) };
    if picture.roman {
        return roman(value.round_ties_even() as i32, picture, ctx);
    }
    if picture.scientific {
        if !value.is_finite() {
            return Ok(ctx.text(&hashes(&picture)));
        }
        let places = picture.fraction.min(FLOAT_PLACES_MAX);
        let text = format!("{value:.places$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = format!("{mantissa}{}", "0".repeat(picture.fraction - places));
        return Ok(ctx.text(&with_exponent(&mantissa, exponent.parse().unwrap_or(0))));
    }
    let mut value = value;
    if let Some(shift) = picture.shift {
        value *= 10_f64.powf(shift as f64);
        picture.whole += shift;
    }
    // Digits that the type does not have are not shown.
    let whole = fixed(value.abs(), 0).len();
    picture.fraction = picture.fraction.min(digits.saturating_sub(whole));
    written(&fixed(value, picture.fraction), picture, ctx)
}

/// The number with some places, as C prints it.
fn fixed(value: f64, places: usize) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        (if value > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
    } else {
        format!("{value:.places$}")
    }
}

/// Scientific notation, with a blank for the sign of a positive number.
fn with_exponent(mantissa: &str, exponent: i64) -> String {
    let blank = if mantissa.starts_with('-') { "" } else { " " };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{blank}{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Scientific notation with some places. As in PostgreSQL, a mantissa that is rounded up to 10 remains so.
fn scientific(value: &Numeric, places: usize) -> Result<String> {
    let parts = value.with_digits(|negative, digits, scale| {
        let exponent = if digits.is_empty() { 0 } else { digits.len() as i64 - 1 - i64::from(scale) };
        // The digit behind the last place decides how that is rounded.
        let kept = &digits[..digits.len().min(places + 2)];
        let kept_places = kept.len().saturating_sub(1);
        let mantissa = Numeric::from_digits(negative, kept, -(kept_places as i64), kept_places as u32);
        (mantissa, exponent)
    });
    let (mantissa, exponent) = parts.ok_or_else(|| Error::bug("scientific notation of what is no number"))?;
    Ok(with_exponent(&mantissa?.round(places as i32)?.to_string(), exponent))
}

/// Scientific notation of what is no number.
fn hashes(picture: &Picture<'_>) -> String {
    format!(" {}.{}", "#".repeat(picture.whole), "#".repeat(picture.fraction + 4))
}

/// The text of a decimal number in a picture.
fn written<'a>(number: &str, picture: Picture<'a>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let negative = number.starts_with('-');
    let number = number.strip_prefix('-').unwrap_or(number);
    let whole = number.find('.').unwrap_or(number.len());
    let too_long = whole > picture.whole;
    let hashes = format!("{}.{}", "#".repeat(picture.whole), "#".repeat(picture.fraction));
    let number = if too_long { &hashes } else { number };
    let blanks = picture.whole.saturating_sub(whole);
    Writer::new(number.as_bytes(), negative, blanks, picture, ctx).write()
}

fn roman<'a>(number: i32, picture: Picture<'a>, ctx: &Context<'a>) -> Result<Datum<'a>> {
    let text = roman_number(number);
    Writer::new(text.as_bytes(), false, 0, picture.into_roman(), ctx).write()
}

fn roman_number(number: i32) -> String {
    const NUMBERS: [(i32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..4000).contains(&number) {
        return "#".repeat(ROMAN_LENGTH);
    }
    let (mut text, mut rest) = (String::new(), number);
    for (value, letters) in NUMBERS {
        while rest >= value {
            text.push_str(letters);
            rest -= value;
        }
    }
    text
}

/// Writes the digits of a number into a picture, from left to right.
struct Writer<'a, 'n> {
    picture: Picture<'a>,
    text: ArenaString<'a>,
    /// Digits with at most one point, without sign.
    number: &'n [u8],
    negative: bool,
    /// Digit positions in front of the number.
    blanks: usize,
    /// The next character of `number`.
    at: usize,
    /// Digit positions and points of the picture so far.
    column: usize,
    /// The column behind which the sign `S` or the bracket is written.
    last_column: Option<usize>,
    sign_written: bool,
    /// Whether the position before was a digit, so that a group separator is shown.
    in_number: bool,
    /// With `FM`, the last character of `number` that is shown; zeros behind it are left out.
    last_shown: Option<usize>,
    /// Nothing more is written.
    is_complete: bool,
}

impl<'a, 'n> Writer<'a, 'n> {
    fn new(
        number: &'n [u8],
        negative: bool,
        blanks: usize,
        mut picture: Picture<'a>,
        ctx: &Context<'a>,
    ) -> Writer<'a, 'n> {
        let sign_written = if picture.plus || picture.minus {
            // `MI` and `SG` write the sign where they are; `PL` writes plus only.
            picture.minus
        } else {
            picture.bracket &= negative || !picture.fill;
            if picture.anchor == Some(Anchor::Before) && picture.anchor_at == picture.whole {
                picture.anchor = Some(Anchor::After);
            }
            !negative && picture.fill && picture.anchor.is_none()
        };
        let columns = picture.whole + picture.fraction + usize::from(picture.point);
        let columns = columns + usize::from(blanks > 0) + usize::from(!sign_written && blanks == 0);
        let mut writer = Writer {
            text: ArenaString::with_capacity_in(picture.elements.len() + number.len(), ctx.arena),
            last_shown: None,
            picture,
            number,
            negative,
            blanks,
            at: 0,
            column: 0,
            last_column: columns.checked_sub(2),
            sign_written,
            in_number: false,
            is_complete: false,
        };
        writer.last_shown = writer.find_last_shown();
        writer
    }

    fn find_last_shown(&self) -> Option<usize> {
        let point = self.number.iter().position(|byte| *byte == b'.')?;
        if !self.picture.fill || !self.picture.point {
            return None;
        }
        let relevant = self.number[point..].iter().rposition(|byte| *byte != b'0').map_or(point, |at| point + at);
        if self.picture.zero_end <= self.blanks {
            return Some(relevant);
        }
        // Digits whose place in the picture is a 0 are shown.
        Some(relevant.max((self.number.len() - 1).min(self.picture.zero_end - self.blanks)))
    }

    fn write(mut self) -> Result<Datum<'a>> {
        for at in 0..self.picture.elements.len() {
            match self.picture.elements[at] {
                element @ (Element::Digit | Element::Zero | Element::Point) => self.position(element),
                Element::Group if self.in_number => self.text.push(','),
                Element::Group => self.pad(),
                Element::Currency => self.text.push(' '),
                Element::Roman { lower } => self.roman(lower),
                Element::Ordinal { lower } => self.ordinal(lower)?,
                Element::Minus if self.negative => self.text.push('-'),
                Element::Plus if !self.negative && !self.picture.roman => self.text.push('+'),
                Element::Minus | Element::Plus => self.pad(),
                // PostgreSQL's text ends here.
                Element::Sign if self.picture.roman => break,
                Element::Sign => self.text.push(if self.negative { '-' } else { '+' }),
                Element::Literal(literal) => self.text.push(literal),
            }
            if self.is_complete {
                break;
            }
        }
        Ok(Datum::Text(self.text.into_bump_str()))
    }

    /// A blank, unless `FM` suppresses it.
    fn pad(&mut self) {
        if !self.picture.fill {
            self.text.push(' ');
        }
    }

    fn roman(&mut self, lower: bool) {
        let number = String::from_utf8_lossy(self.number);
        let padding = if self.picture.fill { 0 } else { ROMAN_LENGTH.saturating_sub(number.len()) };
        self.text.extend(std::iter::repeat_n(' ', padding));
        let letters = number.chars();
        self.text.extend(letters.map(|letter| if lower { letter.to_ascii_lowercase() } else { letter }));
    }

    /// `st`, `nd`, `rd` or `th`, after a positive integer.
    fn ordinal(&mut self, lower: bool) -> Result<()> {
        if self.picture.roman || self.number.first() == Some(&b'#') || self.negative || self.picture.point {
            return Ok(());
        }
        let suffix = match self.number {
            [.., last] if !last.is_ascii_digit() => {
                let number = String::from_utf8_lossy(self.number);
                let message = format!("\"{number}\" is not a number");
                return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
            }
            [.., b'1', _] => "TH",
            [.., b'1'] => "ST",
            [.., b'2'] => "ND",
            [.., b'3'] => "RD",
            _ => "TH",
        };
        self.text.extend(suffix.chars().map(|one| if lower { one.to_ascii_lowercase() } else { one }));
        Ok(())
    }

    /// Whether the position is that of the 0 in front of the point, which a 9 does not show.
    fn is_hidden_zero(&self) -> bool {
        self.picture.zero_start.is_none()
            && self.at == 0
            && self.number.first() == Some(&b'0')
            && self.picture.fraction != 0
    }

    /// Whether nothing is shown behind the point.
    fn ends_at_point(&self) -> bool {
        self.last_shown.is_some_and(|last| self.number.get(last) == Some(&b'.'))
    }

    /// A digit or the point, or what stands for it.
    fn position(&mut self, element: Element) {
        if self.picture.roman {
            return;
        }
        self.in_number = false;
        let in_zeros = self.picture.zero_start.is_some_and(|start| start <= self.column);
        let begins = self.column >= self.blanks || self.picture.zero_start == Some(self.column);
        if !self.sign_written && begins && (!self.is_hidden_zero() || self.ends_at_point()) {
            self.leading_sign();
        }
        if self.column >= self.blanks {
            self.character(element);
        } else if in_zeros {
            self.text.push('0');
            self.in_number = true;
        } else {
            self.pad();
        }
        if self.last_column == Some(self.column) && self.last_shown != Some(self.at) && !self.is_complete {
            self.trailing_sign();
        }
        self.column += 1;
    }

    fn leading_sign(&mut self) {
        match self.picture.anchor {
            Some(Anchor::Before) => self.text.push(if self.negative { '-' } else { '+' }),
            Some(Anchor::After) => return,
            None if self.picture.bracket => self.text.push(if self.negative { '<' } else { ' ' }),
            None if self.negative => self.text.push('-'),
            None => self.pad(),
        }
        self.sign_written = true;
    }

    fn trailing_sign(&mut self) {
        if self.sign_written && self.picture.bracket {
            self.text.push(if self.negative { '>' } else { ' ' });
        } else if self.picture.anchor == Some(Anchor::After) {
            self.text.push(if self.negative { '-' } else { '+' });
        }
    }

    /// The next character of the number.
    fn character(&mut self, element: Element) {
        let is_left_out = self.last_shown.is_some_and(|last| self.at > last) && element != Element::Zero;
        match self.number.get(self.at) {
            Some(b'.') => self.text.push('.'),
            _ if is_left_out => {}
            // The picture has more positions than the number, whose text ends here.
            None => {
                self.is_complete = true;
                return;
            }
            Some(_) if self.is_hidden_zero() => {
                if self.picture.fill && self.ends_at_point() {
                    self.text.push('0');
                } else {
                    self.pad();
                }
            }
            Some(digit) => {
                self.text.push(char::from(*digit));
                self.in_number = true;
            }
        }
        self.at = self.number.len().min(self.at + 1);
    }
}
