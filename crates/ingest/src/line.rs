//! Line protocol: `table[,tag=value…] field=value[,field=value…] [timestamp]`, one row per line.
//!
//! | part   | rule                                                                                                  |
//! |--------|-------------------------------------------------------------------------------------------------------|
//! | line   | ends at `
//! ` or `\r
//! ` outside of strings; empty lines and lines that start with `#` are skipped      |
//! | names  | tables, tags, tag values, fields: `\,` `\=` `\ ` `\\` are escapes; any other `\` is literal           |
//! | tags   | in any order; empty values and duplicate names are refused; each tag is a key column of type text     |
//! | fields | `1.5` `-2e3` float · `1i` integer · `1u` unsigned · `"a"` text · `t T true True TRUE f …` boolean     |
//! |        | `1t` timestamp in microseconds, `1n` in nanoseconds, as written by QuestDB's clients                  |
//! |        | in strings `\"` and `\\` are escapes; of duplicate fields the last one counts                         |
//! | time   | an integer in the request's unit; default: the caller's time, truncated to that unit                  |
//!
//! Always true:
//! - A refused line has no effect: no value, column, table or key. Other lines are not affected.
//! - The meaning of a line depends only on the catalog and the accepted lines before it.
//! - Memory is bounded by [`Request::memory_bytes_max`]; everything proportional to (rows ×
//!   columns) is accounted for.
//!
//! Speed: a line that starts with the same bytes as an earlier one finds its series with one hash
//! lookup; a field in the same order as in earlier lines finds its column with one comparison.
//! Neither allocates.

mod fields;
mod head;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_select::take::take;
use engine::{Batch, Catalog, ColumnSpec, KeyList, Op, Ops, Rows, TableSpec, Txn};
use model::{ColumnId, ColumnRole, DataType, Error, KeyRef, Result, SqlState, Table, TableName, TableRef, key};

use self::table::TableBuilder;
use crate::{Inputs, number};

/// Refused lines with a description; further ones are only counted.
pub const ERRORS_MAX: usize = 100;

/// Unit of a request's timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// `ns`, `n`
    #[default]
    Nanosecond,
    /// `us`, `u`, `µ`
    Microsecond,
    /// `ms`
    Millisecond,
    /// `s`
    Second,
    /// `m`
    Minute,
    /// `h`
    Hour,
}

impl Unit {
    /// Parses a `precision` parameter.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Unit> {
        Some(match name {
            "ns" | "n" => Unit::Nanosecond,
            "us" | "u" | "µ" | "µs" => Unit::Microsecond,
            "ms" => Unit::Millisecond,
            "s" => Unit::Second,
            "m" => Unit::Minute,
            "h" => Unit::Hour,
            _ => return None,
        })
    }

    /// Nanoseconds per unit.
    #[must_use]
    pub fn nanoseconds(self) -> i64 {
        match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
            Unit::Hour => 3_600_000_000_000,
        }
    }
}

/// Input of the parser.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Schema of the tables; created if it does not exist.
    pub schema: &'a str,
    /// The request body.
    pub body: &'a [u8],
    /// Unit of its timestamps.
    pub unit: Unit,
    /// Time of lines without a timestamp.
    pub now_ns: i64,
    /// Memory limit for columns, including the space of absent values.
    pub memory_bytes_max: usize,
    /// Values of declared types.
    pub inputs: &'a dyn Inputs,
}

/// A refused line and the reason.
#[derive(Clone, Debug)]
pub struct LineError {
    /// Line number, from 1; the first one of a line that contains newlines.
    pub line: u64,
    /// The message starts with `line n: `.
    pub error: Error,
}

/// Result of the parser: one batch per table, ready for a transaction.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Schema to create first.
    pub new_schema: Option<String>,
    /// Tables with at least one row.
    pub tables: Vec<TableWrite>,
    /// The first [`ERRORS_MAX`] refused lines.
    pub errors: Vec<LineError>,
    /// Number of refused lines.
    pub refused: u64,
    /// Number of accepted lines, that is of rows.
    pub rows: u64,
    /// Number of field values.
    pub points: u64,
}

/// Rows for one table.
#[derive(Debug)]
pub struct TableWrite {
    /// Table name.
    pub name: TableName,
    /// The table, if it exists.
    pub table: Option<TableRef>,
    /// Definition of the table to create, if it does not exist.
    pub spec: Option<TableSpec>,
    /// Columns to add to an existing table, in order of appearance.
    pub new_columns: Vec<ColumnSpec>,
    op: Op,
    keys: KeyList,
    series: Vec<u32>,
    times: Vec<i64>,
    /// Start of each row's line in the body, if the table has rules.
    starts: Vec<usize>,
    columns: Vec<(String, Option<ColumnId>, ArrayRef)>,
    /// Rows to be written before these.
    first: Option<Batch>,
}

/// Parses a whole request body.
///
/// Refused lines are in [`Parsed::errors`]; [`Parsed::apply`] stores the others.
///
/// # Errors
/// 54000 if the columns would exceed [`Request::memory_bytes_max`]: the whole request is refused.
///
/// # Cost
/// One pass. About 100 bytes per distinct (table, tags), plus the columns.
pub fn parse(catalog: &Catalog, request: &Request<'_>) -> Result<Parsed> {
    let mut parser = Parser::new(catalog, *request);
    while parser.at < request.body.len() {
        parser.line()?;
    }
    parser.finish()
}

impl Parsed {
    /// Applies everything to a transaction: schema, tables, columns and rows.
    ///
    /// # Errors
    /// See [`Txn::create_table`], [`Txn::add_columns`] and [`Txn::write`]; do not commit the
    /// transaction then.
    pub fn apply(self, txn: &mut Txn) -> Result<()> {
        if let Some(schema) = &self.new_schema {
            txn.create_schema(schema)?;
        }
        for write in self.tables {
            write.apply(txn)?;
        }
        Ok(())
    }
}

impl Parsed {
    /// Refuses rows of an existing table with rules after parsing.
    ///
    /// - `write`: the place of the table in [`Parsed::tables`]; it is removed if no row is left.
    /// - `rows`: places of the rows, in order, with the reasons.
    /// - `body`: the request's body.
    ///
    /// # Errors
    /// XX000 only.
    pub fn refuse_rows(&mut self, write: usize, rows: Vec<(u32, Error)>, body: &[u8]) -> Result<()> {
        let of = &mut self.tables[write];
        let places: Vec<u32> = rows.iter().map(|(row, _)| *row).collect();
        let starts = of.starts.clone();
        self.points -= of.remove(&places)?;
        self.rows -= rows.len() as u64;
        self.refused += rows.len() as u64;
        if of.rows() == 0 {
            self.tables.remove(write);
        }
        for (row, error) in rows {
            if self.errors.len() == ERRORS_MAX {
                break;
            }
            let start = starts.get(row as usize).copied().unwrap_or(0);
            let line = 1 + memchr::memchr_iter(b'\n', &body[..start]).count() as u64;
            self.errors.push(LineError { line, error: error.context(format_args!("line {line}")) });
        }
        self.errors.sort_by_key(|error| error.line);
        Ok(())
    }
}

impl TableWrite {
    fn apply(mut self, txn: &mut Txn) -> Result<()> {
        let table = match (&self.table, &self.spec) {
            (Some(table), _) if self.new_columns.is_empty() => TableRef::clone(table),
            (Some(parsed), _) => {
                let is_as_parsed = txn.snapshot().catalog().table(&self.name) == Some(parsed);
                let added = txn.add_columns(&self.name, &self.new_columns)?;
                if is_as_parsed {
                    // New columns add no constraint.
                    self.table = Some(TableRef::clone(&added));
                }
                added
            }
            (None, Some(spec)) => txn.create_table(spec)?,
            (None, None) => return Err(Error::bug(format!("write to {} without a table", self.name))),
        };
        // The rows were checked against the table as it was when they were parsed.
        let checked = self.table.clone().unwrap_or_else(|| TableRef::clone(&table));
        if let Some(first) = self.first.take() {
            txn.write_checked(&checked, first)?;
        }
        txn.write_checked(&checked, self.into_batch(&table)?)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.times.len()
    }

    /// Keys, positions of the rows' keys, and times.
    #[must_use]
    pub fn identity(&self) -> (&KeyList, &[u32], &[i64]) {
        (&self.keys, &self.series, &self.times)
    }

    /// Values of a field of the existing table; `None` if no row has one.
    #[must_use]
    pub fn field(&self, id: ColumnId) -> Option<&ArrayRef> {
        self.columns.iter().find(|(_, known, _)| *known == Some(id)).map(|(_, _, array)| array)
    }

    /// Adds values of fields that the lines lack. In a table with a key the rows at these places are written first, with the
    /// values, in case that there are no stored rows of their keys and times.
    ///
    /// - `fields`: all values of these fields, those of the lines too.
    ///
    /// # Errors
    /// XX000 only.
    pub fn add_defaults(&mut self, fields: Vec<(ColumnId, ArrayRef)>, places: &[u32]) -> Result<()> {
        if self.op == Op::Replace {
            self.columns.retain(|(_, id, _)| fields.iter().all(|(other, _)| *id != Some(*other)));
            self.columns.extend(fields.into_iter().map(|(id, array)| (String::new(), Some(id), array)));
            return Ok(());
        }
        let known = self.columns.iter().filter_map(|(_, id, array)| Some(((*id)?, Arc::clone(array))));
        let mut columns: Vec<(ColumnId, ArrayRef)> =
            known.filter(|(id, _)| fields.iter().all(|(other, _)| id != other)).collect();
        columns.extend(fields);
        columns.sort_unstable_by_key(|(id, _)| *id);
        let of = UInt32Array::from(places.to_vec());
        for (_, array) in &mut columns {
            *array = take(array, &of, None).map_err(Error::bug)?;
        }
        let series = places.iter().map(|row| self.series[*row as usize]).collect();
        let times = places.iter().map(|row| self.times[*row as usize]).collect();
        self.first = Some(Batch::new(self.keys.clone(), Rows::new(series, times, Ops::All(Op::Keep), columns)));
        Ok(())
    }

    /// Removes rows, by their places in order. Returns the number of their values.
    fn remove(&mut self, rows: &[u32]) -> Result<u64> {
        let kept: Vec<u32> = (0..self.rows() as u32).filter(|row| rows.binary_search(row).is_err()).collect();
        let of = UInt32Array::from(kept.clone());
        let mut points = 0;
        for (_, _, array) in &mut self.columns {
            let before = array.len() - array.null_count();
            *array = take(array, &of, None).map_err(Error::bug)?;
            points += before - (array.len() - array.null_count());
        }
        let mut keys = KeyList::default();
        self.series = kept.iter().map(|row| keys.intern(self.keys.get(self.series[*row as usize]))).collect();
        self.keys = keys;
        self.times = kept.iter().map(|row| self.times[*row as usize]).collect();
        self.starts = kept.iter().map(|row| self.starts[*row as usize]).collect();
        self.remove_unused_columns()?;
        Ok(points as u64)
    }

    /// Removes the new columns of which no row has a value. A tag stays if one behind it does: keys have the values by place.
    fn remove_unused_columns(&mut self) -> Result<()> {
        let is_unused = |name: &str| {
            let mut found = self.columns.iter().filter(|(own, id, _)| id.is_none() && own == name);
            found.all(|(_, _, array)| array.null_count() == array.len())
        };
        let is_field = |column: &ColumnSpec| column.role == ColumnRole::Field;
        let unused: Vec<String> = self
            .new_columns
            .iter()
            .filter(|column| is_field(column) && is_unused(&column.name))
            .map(|column| column.name.clone())
            .collect();
        self.columns.retain(|(name, id, _)| id.is_some() || !unused.contains(name));
        self.new_columns.retain(|column| !is_field(column) || !unused.contains(&column.name));
        let old = self.table.iter().flat_map(|table| table.key_columns()).map(|column| column.ty);
        let new = self.new_columns.iter().filter(|column| !is_field(column)).map(|column| column.ty);
        let (mut types, new_count) = (old.collect::<Vec<DataType>>(), new.clone().count());
        types.extend(new);
        for _ in 0..new_count {
            let last = types.len() - 1;
            for key in self.keys.iter() {
                if key::value_at(key, &types, last)? != KeyRef::Null {
                    return Ok(());
                }
            }
            types.pop();
            let at = self.new_columns.iter().rposition(|column| !is_field(column));
            at.map(|at| self.new_columns.remove(at));
        }
        Ok(())
    }

    /// The rows as a batch for `table`, which must have all columns.
    ///
    /// # Errors
    /// XX000 (a bug) if a column is missing.
    pub fn into_batch(self, table: &Table) -> Result<Batch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (name, id, array) in self.columns {
            let id = id.or_else(|| table.column(&name).map(|column| column.id));
            let id = id.ok_or_else(|| Error::bug(format!("column \"{name}\" of {} does not exist", table.name)))?;
            columns.push((id, array));
        }
        columns.sort_unstable_by_key(|(id, _)| *id);
        Ok(Batch::new(self.keys, Rows::new(self.series, self.times, Ops::All(self.op), columns)))
    }
}

/// Accounts for memory before it is allocated.
struct Budget {
    left: usize,
    max: usize,
}

impl Budget {
    fn take(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Err(self.exceeded()),
        }
        Ok(())
    }

    #[cold]
    fn exceeded(&self) -> Error {
        Error::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("the columns of the request exceed {} bytes, absent values included", self.max),
        )
        .with_detail("no line of the request was stored")
        .with_hint("send fewer lines per request, or lines of a table with the same fields")
    }
}

/// Table and key of a line's head, the part before the fields.
#[derive(Clone, Copy)]
struct Head {
    table: u32,
    key: u32,
}

/// Reason for refusing a line.
enum Fault {
    /// The line is invalid; continue with the next one.
    Line(Error),
    /// The request as a whole is refused.
    Request(Error),
}

impl Fault {
    #[cold]
    fn line(state: SqlState, message: impl Into<String>) -> Fault {
        Fault::Line(Error::new(state, message))
    }

    #[cold]
    fn syntax(message: impl Into<String>) -> Fault {
        Fault::line(SqlState::INVALID_TEXT_REPRESENTATION, message)
    }
}

type Parse<T> = Result<T, Fault>;

struct Parser<'a> {
    catalog: &'a Catalog,
    request: Request<'a>,
    at: usize,
    /// Whether the whole body is UTF-8 without zero bytes; otherwise each line is checked.
    clean: bool,
    heads: HashMap<&'a [u8], Head>,
    tables: Vec<TableBuilder<'a>>,
    table_names: HashMap<String, u32>,
    new_tables: usize,
    budget: Budget,
    parsed: Parsed,
    /// Position up to which newlines were counted, and the line number there.
    counted: (usize, u64),
}

impl<'a> Parser<'a> {
    fn new(catalog: &'a Catalog, request: Request<'a>) -> Parser<'a> {
        let body = request.body;
        let new_schema = (!catalog.has_schema(request.schema)).then(|| request.schema.to_owned());
        Parser {
            catalog,
            request,
            at: 0,
            clean: std::str::from_utf8(body).is_ok() && memchr::memchr(0, body).is_none(),
            heads: HashMap::new(),
            tables: Vec::new(),
            table_names: HashMap::new(),
            new_tables: 0,
            budget: Budget { left: request.memory_bytes_max, max: request.memory_bytes_max },
            parsed: Parsed { new_schema, ..Parsed::default() },
            counted: (0, 1),
        }
    }

    /// Parses one line of any kind.
    fn line(&mut self) -> Result<()> {
        let body = self.request.body;
        while body.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        match body.get(self.at) {
            None => return Ok(()),
            Some(b'#') => {
                self.at = next_line(body, self.at);
                return Ok(());
            }
            Some(b'\n') => {
                self.at += 1;
                return Ok(());
            }
            Some(b'\r') if matches!(body.get(self.at + 1), None | Some(b'\n')) => {
                self.at += 1;
                return Ok(());
            }
            Some(_) => {}
        }
        let start = self.at;
        match self.row(start) {
            Ok(()) => Ok(()),
            Err(Fault::Line(error)) => {
                self.at = line_end(body, start);
                self.refuse(start, error);
                Ok(())
            }
            Err(Fault::Request(error)) => Err(error),
        }
    }

    /// Parses a line with a row; an error undoes all its effects.
    fn row(&mut self, start: usize) -> Parse<()> {
        if !self.clean {
            check_bytes(&self.request.body[start..line_end(self.request.body, start)])?;
        }
        let (head, new) = self.head()?;
        let table = &mut self.tables[head.table as usize];
        let mut at = self.at;
        match table.row(&self.request, &mut at, head.key, &mut self.budget) {
            Ok(points) => {
                table.accept(start);
                if let Some(raw) = new {
                    self.heads.insert(raw, head);
                }
                self.at = at;
                self.parsed.rows += 1;
                self.parsed.points += points as u64;
                Ok(())
            }
            Err(fault) => {
                table.refuse();
                Err(fault)
            }
        }
    }

    #[cold]
    fn refuse(&mut self, start: usize, error: Error) {
        self.parsed.refused += 1;
        if self.parsed.errors.len() < ERRORS_MAX {
            let (from, line) = self.counted;
            let line = line + memchr::memchr_iter(b'\n', &self.request.body[from..start]).count() as u64;
            self.counted = (start, line);
            self.parsed.errors.push(LineError { line, error: error.context(format_args!("line {line}")) });
        }
    }

    fn finish(mut self) -> Result<Parsed> {
        for table in self.tables {
            if let Some(write) = table.finish(&mut self.budget)? {
                self.parsed.tables.push(write);
            }
        }
        if self.parsed.tables.is_empty() {
            self.parsed.new_schema = None;
        }
        Ok(self.parsed)
    }
}

/// Start of the next physical line.
fn next_line(body: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found + 1)
}

/// End of the logical line that starts at `start`, including its newline; a best guess for an
/// invalid line.
///
/// A newline inside a string does not end the line: otherwise text from an untrusted source could
/// inject lines.
#[cold]
fn line_end(body: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut in_fields = false;
    let mut value_at = usize::MAX;
    while let Some(byte) = body.get(at) {
        match byte {
            b'\n' => return at + 1,
            b'\\' if !matches!(body.get(at + 1), None | Some(b'\n')) => at += 1,
            b' ' => in_fields = true,
            b'=' => value_at = at + 1,
            b'"' if in_fields && at == value_at => at = string_end(body, at + 1).unwrap_or(body.len()),
            _ => {}
        }
        at += 1;
    }
    body.len()
}

/// Position of the closing quote of a string whose content starts at `at`.
#[inline]
fn string_end(body: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr::memchr2(b'"', b'\\', &body[at..])?;
        if body[at] == b'"' {
            return Some(at);
        }
        at += 2;
        if at > body.len() {
            return None;
        }
    }
}

/// Refuses invalid UTF-8 and zero bytes.
#[cold]
fn check_bytes(line: &[u8]) -> Parse<()> {
    if let Err(error) = std::str::from_utf8(line) {
        let at = error.valid_up_to();
        let message = format!("byte {} (0x{:02x}) is not UTF-8", at + 1, line[at]);
        return Err(Fault::line(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message));
    }
    match memchr::memchr(0, line) {
        Some(at) => Err(Fault::line(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("byte {} is zero, which is not allowed in text", at + 1),
        )),
        None => Ok(()),
    }
}

/// Quotes the first bytes of a text for a message.
fn quoted(bytes: &[u8]) -> String {
    const EXCERPT_BYTES_MAX: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES_MAX)]);
    let more = if bytes.len() > EXCERPT_BYTES_MAX { "…" } else { "" };
    format!("\"{}{more}\"", text.escape_debug().to_string().replace("\\\"", "\""))
}

/// Parses the end of a line after its fields, `[ timestamp]`. Moves `at` past the newline.
fn timestamp(request: &Request<'_>, at: &mut usize) -> Parse<i64> {
    let body = request.body;
    let spaces = skip_spaces(body, at);
    let unit = request.unit.nanoseconds();
    let time = match body.get(*at) {
        None | Some(b'\n' | b'\r') => request.now_ns - request.now_ns.rem_euclid(unit),
        Some(_) if spaces => explicit_timestamp(body, at, unit)?,
        Some(_) => return Err(unexpected(body, *at, "a comma, a space or the end of the line")),
    };
    skip_spaces(body, at);
    if body.get(*at) == Some(&b'\r') {
        *at += 1;
    }
    match body.get(*at) {
        None => {}
        Some(b'\n') => *at += 1,
        Some(_) => return Err(unexpected(body, *at, "the end of the line after the timestamp")),
    }
    Ok(time)
}

fn explicit_timestamp(body: &[u8], at: &mut usize, unit: i64) -> Parse<i64> {
    let Some((value, len)) = number::scan_i64(&body[*at..]) else { return Err(bad_timestamp(body, *at)) };
    if !matches!(body.get(*at + len), None | Some(b' ' | b'\n' | b'\r')) {
        return Err(bad_timestamp(body, *at));
    }
    *at += len;
    let Some(time) = value.checked_mul(unit) else {
        return Err(Fault::line(
            SqlState::DATETIME_OVERFLOW,
            format!("timestamp {value} x {unit} ns lies outside 1677-09-21 .. 2262-04-11"),
        ));
    };
    Ok(time)
}

#[cold]
fn bad_timestamp(body: &[u8], at: usize) -> Fault {
    let word = word(body, at);
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        let message = format!("timestamp {} lies outside 1677-09-21 .. 2262-04-11", quoted(word));
        return Fault::line(SqlState::DATETIME_OVERFLOW, message);
    }
    Fault::line(SqlState::INVALID_DATETIME_FORMAT, format!("timestamp is {}, expected an integer", quoted(word)))
}

fn skip_spaces(body: &[u8], at: &mut usize) -> bool {
    let start = *at;
    while body.get(*at) == Some(&b' ') {
        *at += 1;
    }
    *at > start
}

/// The bytes from `at` up to the next comma, space or line end.
fn word(body: &[u8], at: usize) -> &[u8] {
    let rest = &body[at..];
    let len = rest.iter().position(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r')).unwrap_or(rest.len());
    &rest[..len]
}

#[cold]
fn unexpected(body: &[u8], at: usize, expected: &str) -> Fault {
    let seen = match body.get(at) {
        None | Some(b'\n') => "the line ends".to_owned(),
        Some(_) => {
            let rest = &body[at..];
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            format!("seen {}", quoted(&rest[..len]))
        }
    };
    Fault::syntax(format!("{seen}, expected {expected}"))
}
