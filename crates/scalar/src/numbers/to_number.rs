//! `to_number`.

use model::numeric::Precision;
use model::{Datum, Error, Numeric, Result, SqlState};

use super::call::{argument, invalid_input};
use super::picture::{Anchor, Element, Picture};
use crate::context::Context;
use crate::registry::Function;

pub(super) const FUNCTIONS: &[(&str, Function)] = &[("to_number", |arguments, _, ctx| to_number(arguments, ctx))];

fn to_number<'a>(arguments: &[Datum<'a>], ctx: &Context<'a>) -> Result<Datum<'a>> {
    let (text, format): (&str, &str) = (argument(arguments, 0)?, argument(arguments, 1)?);
    if format.is_empty() {
        return Ok(Datum::Null);
    }
    let picture = Picture::parse(format, ctx)?;
    if picture.scientific {
        return Err(Error::unsupported("\"EEEE\" not supported for input"));
    }
    if picture.roman {
        return Err(Error::unsupported("\"RN\" not supported for input"));
    }
    let shift = picture.shift;
    let digits = picture.whole + shift.unwrap_or(0);
    let number = Reader::new(text, &picture).read();
    let value: Numeric = number.text.parse().map_err(|_| invalid_input("numeric", &number.text))?;
    let value = checked(value, digits + number.places, number.places)?;
    let Some(shift) = shift else { return Ok(Datum::Numeric(value)) };
    value.mul(&format!("1e-{shift}").parse::<Numeric>()?.round(shift.max(16) as i32)?).map(Datum::Numeric)
}

/// Checks that a number has at most the digits of its format, of which some were read behind the point.
fn checked(value: Numeric, digits: usize, places: usize) -> Result<Numeric> {
    if digits > 0 {
        return value.with_precision(Precision::new(digits as i64, places as i64)?);
    }
    if value.signum() != 0 {
        let detail = "A field with precision 0, scale 0 must round to an absolute value less than 1.";
        return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow").with_detail(detail));
    }
    Ok(value)
}

/// A number in the form that numeric's input accepts.
struct Number {
    text: String,
    places: usize,
}

/// Reads a text by a format: each part of the format takes what fits it.
struct Reader<'t, 'p, 'a> {
    picture: &'p Picture<'a>,
    /// Bytes that are left of the text. A digit of the format takes a byte, as in PostgreSQL, not a character.
    rest: &'t [u8],
    sign: Option<u8>,
    number: String,
    whole: usize,
    places: usize,
    point: bool,
}

impl<'t, 'p, 'a> Reader<'t, 'p, 'a> {
    fn new(text: &'t str, picture: &'p Picture<'a>) -> Reader<'t, 'p, 'a> {
        Reader { picture, rest: text.as_bytes(), sign: None, number: String::new(), whole: 0, places: 0, point: false }
    }

    fn read(mut self) -> Number {
        for element in &self.picture.elements {
            if self.rest.is_empty() {
                break;
            }
            match element {
                Element::Digit | Element::Zero | Element::Point => {
                    self.position(*element);
                    self.skip();
                }
                Element::Group => {
                    if self.rest.starts_with(b",") && !(self.number.is_empty() && self.picture.fill) {
                        self.skip();
                    }
                }
                Element::Currency => self.skip_other(1),
                Element::Ordinal { .. } => {
                    if self.sign != Some(b'-') && !self.picture.point {
                        self.skip_other(2);
                    }
                }
                Element::Minus => self.sign_or_other(b"-"),
                Element::Plus => self.sign_or_other(b"+"),
                Element::Sign => self.sign_or_other(b"-+"),
                Element::Roman { .. } => {}
                // Any character stands for that of the format.
                Element::Literal(_) => self.skip_character(),
            }
        }
        let sign = char::from(self.sign.unwrap_or(b' '));
        let digits = self.number.strip_suffix('.').unwrap_or(&self.number);
        Number { text: format!("{sign}{digits}"), places: self.places }
    }

    fn skip(&mut self) {
        self.rest = self.rest.get(1..).unwrap_or_default();
    }

    fn skip_character(&mut self) {
        let length = match self.rest.first() {
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(0xc0..) => 2,
            _ => 1,
        };
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn next_is(&self, test: impl FnOnce(u8) -> bool) -> bool {
        self.rest.first().copied().is_some_and(test)
    }

    /// Skips up to `count` characters that cannot belong to a number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            if self.next_is(|next| !b"0123456789.,+-".contains(&next)) {
                self.skip_character();
            }
        }
    }

    fn sign_or_other(&mut self, signs: &[u8]) {
        if self.next_is(|next| signs.contains(&next)) {
            self.sign = self.rest.first().copied();
            self.skip();
        } else {
            self.skip_other(1);
        }
    }

    /// Reads a digit or the point, with a sign in front of the first or behind the last one. The last character that
    /// was read is left to be skipped.
    fn position(&mut self, element: Element) {
        if self.rest.starts_with(b" ") {
            self.skip();
        }
        if self.sign.is_none() && element != Element::Point && self.whole + self.places == 0 {
            self.leading_sign();
        }
        let Some(next) = self.rest.first().copied() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.point && self.places == self.picture.fraction {
                return;
            }
            self.number.push(char::from(next));
            if self.point {
                self.places += 1;
            } else {
                self.whole += 1;
            }
            is_read = true;
        } else if next == b'.' && self.picture.point && !self.point {
            self.number.push('.');
            self.point = true;
            is_read = true;
        }
        if self.sign.is_none() && self.whole + self.places > 0 {
            self.trailing_sign(is_read);
        }
    }

    fn leading_sign(&mut self) {
        let negative = self.rest.starts_with(b"-")
            || self.picture.anchor != Some(Anchor::Before) && self.picture.bracket && self.rest.starts_with(b"<");
        if negative || self.rest.starts_with(b"+") {
            self.sign = Some(if negative { b'-' } else { b'+' });
            self.skip();
        }
    }

    fn trailing_sign(&mut self, is_read: bool) {
        if self.picture.anchor.is_some() {
            if is_read && matches!(self.rest, [_, b'-' | b'+', ..]) {
                self.skip();
                self.sign = self.rest.first().copied();
            }
        } else if !is_read && (self.picture.plus || self.picture.minus) && self.next_is(|next| b"+-".contains(&next)) {
            self.sign = self.rest.first().copied();
        }
    }
}
