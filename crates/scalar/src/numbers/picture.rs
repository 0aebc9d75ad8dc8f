//! The format of `to_char` and `to_number` for numbers, such as `FM999,990.00`.

use bumpalo::collections::Vec;
use model::{Error, Result, SqlState};

use crate::context::Context;

/// A part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    /// `9`
    Digit,
    /// `0`
    Zero,
    /// `.`, `D`
    Point,
    /// `,`, `G`
    Group,
    /// `L`
    Currency,
    /// `RN`
    Roman { lower: bool },
    /// `TH`
    Ordinal { lower: bool },
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `SG`
    Sign,
    /// A character that stands for itself.
    Literal(char),
}

/// The place of the sign `S`, which adjoins the digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Before,
    After,
}

/// A format with the facts about all of it.
pub(super) struct Picture<'a> {
    pub(super) elements: Vec<'a, Element>,
    /// Digits before the point.
    pub(super) whole: usize,
    /// Digits after the point.
    pub(super) fraction: usize,
    /// The digit position of the first `0`.
    pub(super) zero_start: Option<usize>,
    /// Digits up to the last `0`.
    pub(super) zero_end: usize,
    /// `V`: digits by which the number is shifted.
    pub(super) shift: Option<usize>,
    /// `S`
    pub(super) anchor: Option<Anchor>,
    /// Digits in front of `S`.
    pub(super) anchor_at: usize,
    /// Whether a point was read.
    pub(super) point: bool,
    /// `FM`: no padding.
    pub(super) fill: bool,
    /// `PR`: negative numbers in angle brackets.
    pub(super) bracket: bool,
    /// `MI` or `SG`
    pub(super) minus: bool,
    /// `PL` or `SG`
    pub(super) plus: bool,
    /// `RN`
    pub(super) roman: bool,
    /// `EEEE`
    pub(super) scientific: bool,
    /// `B`, which changes nothing, but does not go with `EEEE`.
    blank: bool,
}

/// Words of the format, each in upper and lower case. A word comes before its beginnings.
const WORDS: &[(&str, Word)] = &[
    (",", Word::Element(Element::Group)),
    (".", Word::Element(Element::Point)),
    ("0", Word::Element(Element::Zero)),
    ("9", Word::Element(Element::Digit)),
    ("B", Word::Blank),
    ("C", Word::Nothing),
    ("D", Word::Element(Element::Point)),
    ("EEEE", Word::Scientific),
    ("FM", Word::Fill),
    ("G", Word::Element(Element::Group)),
    ("L", Word::Element(Element::Currency)),
    ("MI", Word::Element(Element::Minus)),
    ("PL", Word::Element(Element::Plus)),
    ("PR", Word::Bracket),
    ("RN", Word::Element(Element::Roman { lower: false })),
    ("SG", Word::Element(Element::Sign)),
    ("SP", Word::Nothing),
    ("S", Word::Anchor),
    ("TH", Word::Element(Element::Ordinal { lower: false })),
    ("V", Word::Shift),
];

#[derive(Clone, Copy)]
enum Word {
    Element(Element),
    Anchor,
    Blank,
    Bracket,
    Fill,
    Scientific,
    Shift,
    Nothing,
}

/// The word that a text begins with and its length. Mixed case is no word.
fn word(text: &str) -> Option<(Word, usize)> {
    let (name, word) = WORDS.iter().find(|(name, _)| {
        text.get(..name.len()).is_some_and(|start| {
            start.eq_ignore_ascii_case(name)
                && !(start.bytes().any(|byte| byte.is_ascii_lowercase())
                    && start.bytes().any(|byte| byte.is_ascii_uppercase()))
        })
    })?;
    let lower = text.starts_with(|first: char| first.is_ascii_lowercase());
    let word = match word {
        Word::Element(Element::Roman { .. }) => Word::Element(Element::Roman { lower }),
        Word::Element(Element::Ordinal { .. }) => Word::Element(Element::Ordinal { lower }),
        word => *word,
    };
    Some((word, name.len()))
}

fn invalid(message: &str) -> Error {
    Error::new(SqlState::SYNTAX_ERROR, message)
}

impl<'a> Picture<'a> {
    /// Reads a format.
    ///
    /// # Errors
    /// 42601 for parts that exclude each other.
    pub(super) fn parse(text: &str, ctx: &Context<'a>) -> Result<Picture<'a>> {
        let mut picture = Picture {
            elements: Vec::with_capacity_in(text.len(), ctx.arena),
            whole: 0,
            fraction: 0,
            zero_start: None,
            zero_end: 0,
            shift: None,
            anchor: None,
            anchor_at: 0,
            point: false,
            fill: false,
            bracket: false,
            minus: false,
            plus: false,
            roman: false,
            scientific: false,
            blank: false,
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some((word, length)) = word(rest) {
                rest = &rest[length..];
                picture.add(word)?;
            } else if first == '"' {
                rest = picture.add_quoted(&rest[1..]);
            } else {
                // Outside of quotes a backslash is special before a quote only.
                let rest_of = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
                rest = picture.add_literal(rest_of);
            }
        }
        Ok(picture)
    }

    fn add_literal<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.chars();
        self.elements.extend(chars.next().map(Element::Literal));
        chars.as_str()
    }

    /// Adds the characters up to the closing quote; a backslash makes the next one literal.
    fn add_quoted<'t>(&mut self, text: &'t str) -> &'t str {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first == '"' {
                return &rest[1..];
            }
            let escaped = first == '\\' && rest.len() > 1;
            rest = self.add_literal(if escaped { &rest[1..] } else { rest });
        }
        rest
    }

    fn add(&mut self, word: Word) -> Result<()> {
        if self.scientific && !matches!(word, Word::Scientific) {
            return Err(invalid("\"EEEE\" must be the last pattern used"));
        }
        match word {
            Word::Element(element) => {
                self.count(element)?;
                self.elements.push(element);
            }
            Word::Anchor => self.add_anchor()?,
            Word::Blank => self.blank |= self.whole == 0 && self.fraction == 0 && self.zero_start.is_none(),
            Word::Bracket => {
                if self.anchor.is_some() || self.plus || self.minus {
                    return Err(invalid("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.bracket = true;
            }
            Word::Fill => self.fill = true,
            Word::Scientific => self.add_scientific()?,
            Word::Shift => {
                if self.point {
                    return Err(invalid("cannot use \"V\" and decimal point together"));
                }
                self.shift = self.shift.or(Some(0));
            }
            Word::Nothing => {}
        }
        Ok(())
    }

    /// Takes an element into the facts about the whole format.
    fn count(&mut self, element: Element) -> Result<()> {
        let exclusive = |name: &str, anchor: Option<Anchor>| match anchor {
            Some(_) => Err(invalid(&format!("cannot use \"S\" and \"{name}\" together"))),
            None => Ok(()),
        };
        match element {
            Element::Digit if self.bracket => return Err(invalid("\"9\" must be ahead of \"PR\"")),
            Element::Zero if self.bracket => return Err(invalid("\"0\" must be ahead of \"PR\"")),
            Element::Digit => match &mut self.shift {
                Some(shift) => *shift += 1,
                None => self.count_digit(),
            },
            Element::Zero => {
                if !self.point && self.zero_start.is_none() {
                    self.zero_start = Some(self.whole);
                }
                self.count_digit();
                self.zero_end = self.whole + self.fraction;
            }
            Element::Point if self.point => return Err(invalid("multiple decimal points")),
            Element::Point if self.shift.is_some() => {
                return Err(invalid("cannot use \"V\" and decimal point together"));
            }
            Element::Point => self.point = true,
            Element::Minus => {
                exclusive("MI", self.anchor)?;
                self.minus = true;
            }
            Element::Plus => {
                exclusive("PL", self.anchor)?;
                self.plus = true;
            }
            Element::Sign => {
                exclusive("SG", self.anchor)?;
                (self.minus, self.plus) = (true, true);
            }
            Element::Roman { .. } => self.roman = true,
            Element::Group | Element::Currency | Element::Ordinal { .. } | Element::Literal(_) => {}
        }
        Ok(())
    }

    fn count_digit(&mut self) {
        if self.point {
            self.fraction += 1;
        } else {
            self.whole += 1;
        }
    }

    fn add_anchor(&mut self) -> Result<()> {
        if self.anchor.is_some() {
            return Err(invalid("cannot use \"S\" twice"));
        }
        if self.plus || self.minus || self.bracket {
            return Err(invalid("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
        }
        self.anchor = Some(if self.point { Anchor::After } else { Anchor::Before });
        self.anchor_at = self.whole;
        Ok(())
    }

    fn add_scientific(&mut self) -> Result<()> {
        if self.scientific {
            return Err(invalid("cannot use \"EEEE\" twice"));
        }
        let has_others = self.blank
            || self.fill
            || self.anchor.is_some()
            || self.bracket
            || self.minus
            || self.plus
            || self.roman
            || self.shift.is_some();
        if has_others {
            let detail = "\"EEEE\" may only be used together with digit and decimal point patterns.";
            return Err(invalid("\"EEEE\" is incompatible with other formats").with_detail(detail));
        }
        self.scientific = true;
        Ok(())
    }

    /// The facts of a Roman number: nothing but `FM` counts.
    pub(super) fn into_roman(self) -> Picture<'a> {
        Picture {
            whole: 0,
            fraction: 0,
            zero_start: None,
            zero_end: 0,
            shift: None,
            anchor: None,
            anchor_at: 0,
            point: false,
            bracket: false,
            minus: false,
            plus: false,
            ..self
        }
    }
}
