//! Second part of a line: fields and timestamp.

use model::{SqlState, limits};

use super::head::{check_name, find_unescaped, unescape};
use super::table::{FieldValue, TableBuilder};
use super::{Budget, Fault, Parse, Request, quoted, string_end, timestamp, unexpected, word};
use crate::number::{self, Decimal};

impl<'a> TableBuilder<'a> {
    /// Parses the fields and the timestamp of a line as the next row of series `key`; returns the
    /// number of values. Moves `at` past the line.
    pub(super) fn row(&mut self, request: &Request<'a>, at: &mut usize, key: u32, budget: &mut Budget) -> Parse<usize> {
        let body = request.body;
        let mut cursor = 0;
        loop {
            let slot = self.field(body, at, &mut cursor, budget)?;
            self.value(body, at, slot, budget)?;
            if body.get(*at) != Some(&b',') {
                break;
            }
            *at += 1;
        }
        let time = timestamp(request, at)?;
        self.push_row(key, time, budget)
    }

    /// Returns the slot of the field name at `at`; moves `at` past its `=`.
    #[inline]
    fn field(&mut self, body: &'a [u8], at: &mut usize, cursor: &mut usize, budget: &mut Budget) -> Parse<usize> {
        if let Some((name, slot)) = self.order.get(*cursor)
            && let Some(rest) = body[*at..].strip_prefix(*name)
            && rest.first() == Some(&b'=')
        {
            *cursor += 1;
            *at += name.len() + 1;
            return Ok(*slot as usize);
        }
        self.field_by_name(body, at, cursor, budget)
    }

    fn field_by_name(
        &mut self,
        body: &'a [u8],
        at: &mut usize,
        cursor: &mut usize,
        budget: &mut Budget,
    ) -> Parse<usize> {
        let rest = &body[*at..];
        let end = field_name_end(rest).ok_or_else(|| no_field(rest))?;
        let raw = &rest[..end];
        let name = unescape(raw);
        check_name("field", &name)?;
        let slot = self.slot(&name, budget)?;
        *cursor = self.follow(slot, raw);
        *at += end + 1;
        Ok(slot)
    }

    /// Parses the value at `at` into the current row.
    #[inline]
    fn value(&mut self, body: &[u8], at: &mut usize, slot: usize, budget: &mut Budget) -> Parse<()> {
        let text = &body[*at..];
        let len = match text.first() {
            Some(b'0'..=b'9' | b'-' | b'+' | b'.') => self.number(text, slot, budget)?,
            Some(b'"') => self.string(text, slot, budget)?,
            Some(b't' | b'T' | b'f' | b'F') => self.boolean(text, slot, budget)?,
            _ => return Err(self.no_value(body, *at, slot)),
        };
        *at += len;
        Ok(())
    }

    #[inline]
    fn number(&mut self, text: &[u8], slot: usize, budget: &mut Budget) -> Parse<usize> {
        let Some(decimal) = number::scan(text) else { return Err(self.no_value(text, 0, slot)) };
        let suffix = text.get(decimal.len).copied();
        let len = decimal.len + usize::from(matches!(suffix, Some(b'i' | b'u' | b't' | b'n')));
        if !matches!(text.get(len), None | Some(b',' | b' ' | b'\n' | b'\r')) {
            return Err(self.no_value(text, 0, slot));
        }
        let seen = match suffix {
            Some(b'i') => self.integer(decimal, text, slot)?,
            Some(b'u') => self.unsigned(decimal, text, slot)?,
            Some(b't') => self.questdb_timestamp(decimal, text, slot, 1_000)?,
            Some(b'n') => self.questdb_timestamp(decimal, text, slot, 1)?,
            _ => FieldValue::Float(decimal.to_f64(text)),
        };
        if matches!(seen, FieldValue::Float(value) if value.is_infinite()) {
            return Err(self.out_of_range(text, slot, "double precision"));
        }
        self.put(slot, seen, text, budget)?;
        Ok(len)
    }

    fn integer(&self, decimal: Decimal, text: &[u8], slot: usize) -> Parse<FieldValue<'static>> {
        if !decimal.integer {
            return Err(self.no_value(text, 0, slot));
        }
        decimal.to_i64(text).map(FieldValue::Integer).ok_or_else(|| self.out_of_range(text, slot, "bigint"))
    }

    fn unsigned(&self, decimal: Decimal, text: &[u8], slot: usize) -> Parse<FieldValue<'static>> {
        if !decimal.integer {
            return Err(self.no_value(text, 0, slot));
        }
        decimal.to_u64(text).map(FieldValue::Unsigned).ok_or_else(|| self.out_of_range(text, slot, "unsigned 64-bit"))
    }

    /// Converts a QuestDB timestamp in units of `unit` nanoseconds.
    fn questdb_timestamp(&self, decimal: Decimal, text: &[u8], slot: usize, unit: i64) -> Parse<FieldValue<'static>> {
        if !decimal.integer {
            return Err(self.no_value(text, 0, slot));
        }
        let nanoseconds = decimal.to_i64(text).and_then(|count| count.checked_mul(unit));
        nanoseconds.map(FieldValue::Timestamp).ok_or_else(|| self.out_of_range(text, slot, "timestamptz"))
    }

    fn string(&mut self, text: &[u8], slot: usize, budget: &mut Budget) -> Parse<usize> {
        let Some(end) = string_end(text, 1) else {
            return Err(Fault::syntax(format!("unterminated string in field \"{}\"", self.name_of(slot))));
        };
        if !matches!(text.get(end + 1), None | Some(b',' | b' ' | b'\n' | b'\r')) {
            return Err(unexpected(text, end + 1, "a comma, a space or the end of the line after a string"));
        }
        let raw = &text[1..end];
        if raw.len() > limits::VALUE_BYTES_MAX {
            let message = format!(
                "field \"{}\" has {} bytes; the limit is {}",
                self.name_of(slot),
                raw.len(),
                limits::VALUE_BYTES_MAX
            );
            return Err(Fault::line(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        budget.take(raw.len()).map_err(Fault::Request)?;
        match unescape_string(raw) {
            None => self.put(slot, FieldValue::Text(raw), text, budget)?,
            Some(value) => self.put(slot, FieldValue::Text(&value), text, budget)?,
        }
        Ok(end + 1)
    }

    fn boolean(&mut self, text: &[u8], slot: usize, budget: &mut Budget) -> Parse<usize> {
        let word = word(text, 0);
        let value = match word {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => true,
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => false,
            _ => return Err(self.no_value(text, 0, slot)),
        };
        self.put(slot, FieldValue::Bool(value), text, budget)?;
        Ok(word.len())
    }

    #[cold]
    fn no_value(&self, body: &[u8], at: usize, slot: usize) -> Fault {
        let seen = word(body, at);
        let name = self.name_of(slot);
        let lower = seen.strip_prefix(b"-").or(seen.strip_prefix(b"+")).unwrap_or(seen).to_ascii_lowercase();
        if matches!(lower.as_slice(), b"nan" | b"inf" | b"infinity") {
            let message = format!("field \"{name}\" is {}, which line protocol cannot represent", quoted(seen));
            return Fault::line(SqlState::NUMERIC_OUT_OF_RANGE, message);
        }
        if seen.is_empty() {
            return Fault::syntax(format!("field \"{name}\" has no value"));
        }
        let expected = "expected a number (1.5, 1i, 1u), a boolean (t, f) or a string in double quotes";
        Fault::syntax(format!("field \"{name}\" is {}, {expected}", quoted(seen)))
    }

    #[cold]
    fn out_of_range(&self, text: &[u8], slot: usize, ty: &str) -> Fault {
        let message = format!("field \"{}\" is {}, out of range for {ty}", self.name_of(slot), quoted(word(text, 0)));
        Fault::line(SqlState::NUMERIC_OUT_OF_RANGE, message)
    }
}

/// Length of the field name at the start of `rest`, up to its `=`.
fn field_name_end(rest: &[u8]) -> Option<usize> {
    let end = find_unescaped(rest, b'=')?;
    let stops = |byte: u8| find_unescaped(&rest[..end], byte).is_some();
    if memchr::memchr(b'\n', &rest[..end]).is_some() || stops(b',') || stops(b' ') { None } else { Some(end) }
}

#[cold]
fn no_field(rest: &[u8]) -> Fault {
    match word(rest, 0) {
        b"" => Fault::syntax("a field is missing, expected name=value"),
        seen => Fault::syntax(format!("seen {}, expected a field as name=value", quoted(seen))),
    }
}

/// Unescapes a string; `None` if it has no escapes.
fn unescape_string(raw: &[u8]) -> Option<Vec<u8>> {
    memchr::memchr(b'\\', raw)?;
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        match raw.get(at + 1) {
            Some(next @ (b'"' | b'\\')) if *byte == b'\\' => {
                out.push(*next);
                at += 2;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Some(out)
}
