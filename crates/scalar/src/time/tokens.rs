//! Splits the text of a date, time or interval into tokens.

use super::read::ReadError;
use super::words;

/// More tokens are refused.
const TOKENS_MAX: usize = 25;

/// The form of a token; it does not tell the meaning alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Digits, maybe with a fraction.
    Number,
    /// Digits with colons.
    Time,
    /// Digits or letters, with `-`, `/` or `.` between them: a date or the name of a zone.
    Date,
    /// A sign and digits: an offset, or a number of an interval.
    Signed,
    /// Letters.
    Word,
    /// A sign and letters.
    SignedWord,
}

/// Tokens in lower case.
pub(super) struct Tokens {
    text: String,
    list: [(Form, u16, u16); TOKENS_MAX],
    len: usize,
}

impl Tokens {
    /// The tokens of a text. `bytes_max` limits their length in total, with a separator after each.
    pub(super) fn of(text: &str, bytes_max: usize) -> Result<Tokens, ReadError> {
        let mut tokens = Tokens {
            text: String::with_capacity(text.len().min(bytes_max)),
            list: [(Form::Number, 0, 0); TOKENS_MAX],
            len: 0,
        };
        let mut rest = text.as_bytes();
        while let [first, after @ ..] = rest {
            if first.is_ascii_whitespace() || *first == 0x0b {
                rest = after;
                continue;
            }
            let start = tokens.text.len();
            let form = tokens.read(&mut rest)?;
            if tokens.text.len() == start {
                continue;
            }
            let place = tokens.list.get_mut(tokens.len).ok_or(ReadError::Format)?;
            if tokens.text.len() + tokens.len >= bytes_max {
                return Err(ReadError::Format);
            }
            *place = (form, start as u16, tokens.text.len() as u16);
            tokens.len += 1;
        }
        Ok(tokens)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, at: usize) -> Option<(Form, &str)> {
        let (form, start, end) = *self.list[..self.len].get(at)?;
        Some((form, &self.text[start.into()..end.into()]))
    }

    /// Whether a token has one of some forms.
    pub(super) fn has_form(&self, at: usize, forms: &[Form]) -> bool {
        self.get(at).is_some_and(|(form, _)| forms.contains(&form))
    }

    /// Reads a token to the end of the text; nothing is added for punctuation that only separates.
    fn read(&mut self, rest: &mut &[u8]) -> Result<Form, ReadError> {
        match rest[0] {
            b'0'..=b'9' => Ok(self.read_digits(rest)),
            b'.' => {
                self.take(rest, 1);
                self.take_while(rest, |c| c.is_ascii_digit());
                Ok(Form::Number)
            }
            c if c.is_ascii_alphabetic() => Ok(self.read_letters(rest)),
            b'+' | b'-' => {
                self.take(rest, 1);
                let blanks = rest.iter().take_while(|c| c.is_ascii_whitespace() || **c == 0x0b).count();
                *rest = &rest[blanks..];
                match rest.first() {
                    Some(c) if c.is_ascii_digit() => {
                        self.take_while(rest, |c| c.is_ascii_digit() || matches!(c, b':' | b'.' | b'-'));
                        Ok(Form::Signed)
                    }
                    Some(c) if c.is_ascii_alphabetic() => {
                        self.take_while(rest, |c| c.is_ascii_alphabetic());
                        Ok(Form::SignedWord)
                    }
                    _ => Err(ReadError::Format),
                }
            }
            c if c.is_ascii_punctuation() => {
                *rest = &rest[1..];
                Ok(Form::Word)
            }
            _ => Err(ReadError::Format),
        }
    }

    fn read_digits(&mut self, rest: &mut &[u8]) -> Form {
        self.take_while(rest, |c| c.is_ascii_digit());
        match rest.first() {
            Some(b':') => {
                self.take_while(rest, |c| c.is_ascii_digit() || matches!(c, b':' | b'.'));
                Form::Time
            }
            Some(delimiter @ (b'-' | b'/' | b'.')) => {
                self.take(rest, 1);
                if !rest.first().is_some_and(u8::is_ascii_digit) {
                    // The month may be a name, as in 08-Jan-1999.
                    self.take_while(rest, |c| c.is_ascii_alphanumeric() || c == *delimiter);
                    return Form::Date;
                }
                self.take_while(rest, |c| c.is_ascii_digit());
                if rest.first() == Some(delimiter) {
                    self.take_while(rest, |c| c.is_ascii_digit() || c == *delimiter);
                    return Form::Date;
                }
                if *delimiter == b'.' { Form::Number } else { Form::Date }
            }
            _ => Form::Number,
        }
    }

    fn read_letters(&mut self, rest: &mut &[u8]) -> Form {
        let start = self.text.len();
        self.take_while(rest, |c| c.is_ascii_alphabetic());
        let is_joined = match rest.first() {
            Some(b'-' | b'/' | b'.') => true,
            // A word before digits is a label or a month, unless it is the start of a zone such as EST5EDT.
            Some(c) if *c == b'+' || c.is_ascii_digit() => words::word(&self.text[start..]).is_none(),
            _ => false,
        };
        if !is_joined {
            return Form::Word;
        }
        self.take_while(rest, |c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'/' | b'_' | b'.' | b':'));
        Form::Date
    }

    fn take_while(&mut self, rest: &mut &[u8], wanted: impl Fn(u8) -> bool) {
        let count = rest.iter().take_while(|c| wanted(**c)).count();
        self.take(rest, count);
    }

    fn take(&mut self, rest: &mut &[u8], count: usize) {
        // Longer texts are refused by the caller, which would overflow the places of tokens.
        let (taken, after) = rest.split_at(count);
        if self.text.len() <= usize::from(u16::MAX) / 2 {
            self.text.extend(taken.iter().take(usize::from(u16::MAX) / 2).map(|c| char::from(c.to_ascii_lowercase())));
        }
        *rest = after;
    }
}

/// A leading integer with an optional sign, and the rest; 0 if there are no digits. `None` beyond 32 bits.
pub(super) fn leading_int(text: &str) -> Option<(i64, &str)> {
    let (value, rest) = leading_long(text)?;
    i32::try_from(value).ok().map(|value| (value.into(), rest))
}

/// A leading integer with an optional sign, and the rest; 0 if there are no digits. `None` beyond 64 bits.
pub(super) fn leading_long(text: &str) -> Option<(i64, &str)> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Some((0, text));
    }
    let (number, rest) = text.split_at(sign + digits);
    number.parse().ok().map(|value| (value, rest))
}

/// The fraction after a point, which `text` starts with, as a number below 1. Nothing may follow it.
pub(super) fn fraction(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('.')?;
    if digits.is_empty() {
        return Some(0.0);
    }
    digits.bytes().all(|c| c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Microseconds of a fraction of a second.
pub(super) fn fraction_micros(text: &str) -> Option<i64> {
    fraction(text).map(|fraction| (fraction * 1_000_000.0).round_ties_even() as i64)
}
