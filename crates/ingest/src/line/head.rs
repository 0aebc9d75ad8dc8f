//! First part of a line: table and tags.

use std::borrow::Cow;

use model::{SqlState, TableName, limits};

use super::table::TableBuilder;
use super::{Fault, Head, Parse, Parser, quoted, skip_spaces};

/// Name and value of a tag.
pub(super) type Tag<'a> = (Cow<'a, str>, Cow<'a, str>);

/// Memory charged per table of the request and per distinct (table, tags), in addition to their
/// bytes.
const TABLE_BYTES: usize = 1_000;
const HEAD_BYTES: usize = 100;

impl<'a> Parser<'a> {
    /// Parses the head of a line: its table and key, and its bytes if the caller should cache them
    /// once the line is accepted. Moves `self.at` to the first field.
    pub(super) fn head(&mut self) -> Parse<(Head, Option<&'a [u8]>)> {
        let body = self.request.body;
        let Some(end) = head_end(body, self.at) else { return Err(Fault::syntax("the line has no fields")) };
        let raw = &body[self.at..end];
        self.at = end;
        skip_spaces(body, &mut self.at);
        if let Some(head) = self.heads.get(raw) {
            return Ok((*head, None));
        }
        self.budget.take(HEAD_BYTES + raw.len()).map_err(Fault::Request)?;
        Ok((self.new_head(raw)?, Some(raw)))
    }

    fn new_head(&mut self, raw: &'a [u8]) -> Parse<Head> {
        let mut parts = Unescaped { rest: Some(raw), separator: b',' };
        let table = unescape(parts.next().unwrap_or_default());
        let tags: Vec<Tag<'a>> = parts.take(limits::COLUMNS_PER_TABLE_MAX).map(tag).collect::<Parse<_>>()?;
        let number = self.table(&table)?;
        let build = &mut self.tables[number as usize];
        match build.key(&tags, &mut self.budget) {
            Ok(key) => Ok(Head { table: number, key }),
            Err(fault) => {
                build.refuse();
                Err(fault)
            }
        }
    }

    /// Returns the number of the table with this name in the request.
    fn table(&mut self, name: &str) -> Parse<u32> {
        if let Some(number) = self.table_names.get(name) {
            return Ok(*number);
        }
        check_name("table", name)?;
        self.budget.take(TABLE_BYTES + name.len()).map_err(Fault::Request)?;
        let table = TableName { schema: self.request.schema.to_owned(), table: name.to_owned() };
        let existing = self.catalog.table(&table);
        if existing.is_none() {
            self.new_tables += 1;
            if self.new_tables > limits::TABLES_MAX {
                let message = format!("table {table} would be a new table beyond the limit of {}", limits::TABLES_MAX);
                return Err(Fault::line(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
            }
        }
        if existing.is_some_and(|table| table.time_is_number()) {
            let message = format!("table {table} has a time column of type bigint, expected timestamptz");
            return Err(Fault::line(SqlState::DATATYPE_MISMATCH, message));
        }
        let number = self.tables.len() as u32;
        self.tables.push(TableBuilder::new(table, existing, self.request.inputs));
        self.table_names.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// Position of the first unescaped space; `None` if the line ends before it.
#[inline]
fn head_end(body: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at += memchr::memchr3(b' ', b'\\', b'\n', body.get(at..)?)?;
        match body[at] {
            b' ' => return Some(at),
            b'\n' => return None,
            // Skip the escaped character; `unescape` interprets it.
            _ if body.get(at + 1) == Some(&b'\n') => return None,
            _ => at += 2,
        }
    }
}

fn tag(part: &[u8]) -> Parse<Tag<'_>> {
    let mut sides = Unescaped { rest: Some(part), separator: b'=' };
    let name = unescape(sides.next().unwrap_or_default());
    check_name("tag", &name)?;
    let value = sides.next().unwrap_or_default();
    if value.is_empty() {
        return Err(Fault::syntax(format!("tag \"{name}\" has no value; omit tags without a value")));
    }
    if sides.next().is_some() {
        let message = format!(
            "tag \"{name}\" has the value {}, in which = must be written as \\=",
            quoted(&part[name.len() + 1..])
        );
        return Err(Fault::syntax(message));
    }
    Ok((name, unescape(value)))
}

/// Iterator over the parts between unescaped separators.
struct Unescaped<'a> {
    rest: Option<&'a [u8]>,
    separator: u8,
}

impl<'a> Iterator for Unescaped<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let Some(at) = find_unescaped(rest, self.separator) else { return self.rest.take() };
        self.rest = Some(&rest[at + 1..]);
        Some(&rest[..at])
    }
}

/// Position of the first unescaped `wanted`.
pub(super) fn find_unescaped(text: &[u8], wanted: u8) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(wanted, b'\\', text.get(at..)?)?;
        if text[at] == wanted {
            return Some(at);
        }
        at += 2;
    }
}

/// Removes the escapes of a name. The line was validated as UTF-8 and is only split at ASCII
/// characters.
pub(super) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(byte) = raw.get(at) {
        match raw.get(at + 1) {
            Some(next @ (b',' | b'=' | b' ' | b'\\')) if *byte == b'\\' => {
                out.push(*next);
                at += 2;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

pub(super) fn check_name(what: &str, name: &str) -> Parse<()> {
    if name.is_empty() {
        return Err(Fault::line(SqlState::INVALID_NAME, format!("a {what} name is empty")));
    }
    if name.len() > limits::NAME_BYTES_MAX {
        return Err(Fault::line(
            SqlState::INVALID_NAME,
            format!(
                "{what} name {} has {} bytes; the limit is {}",
                quoted(name.as_bytes()),
                name.len(),
                limits::NAME_BYTES_MAX
            ),
        ));
    }
    Ok(())
}
