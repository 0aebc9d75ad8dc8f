//! Line protocol: `table[,tag=value…] field=value[,field=value…] [timestamp]`, one row a line.
//!
//! | part   | rule                                                                                                  |
//! |--------|-------------------------------------------------------------------------------------------------------|
//! | line   | ends at `\n` or `\r\n`, but not inside a string; empty ones and those that begin with `#` are skipped |
//! | names  | table, tags and their values, fields: `\,` `\=` `\ ` `\\` stand for the character; any other `\` is itself |
//! | tags   | in any order; an empty value and a name twice are refused; each is a key column of type text          |
//! | fields | `1.5` `-2e3` float · `1i` integer · `1u` unsigned · `"a"` text · `t T true True TRUE f …` boolean     |
//! |        | `1t` a time in microseconds, `1n` in nanoseconds, as QuestDB's clients write them                     |
//! |        | in a string `\"` and `\\` stand for the character; a name twice: the last one counts                  |
//! | time   | an integer in the unit of the request; without one, the time the caller gives, cut to that unit       |
//!
//! Always true:
//! - A refused line leaves nothing: no value, no column, no table, no key. The others are unaffected by it.
//! - What a line means depends only on the catalog and the accepted lines before it.
//! - Memory is bounded by [`Request::memory_bytes_max`]; nothing is proportional to (rows × columns) without being counted.
//!
//! Speed: a line that begins with the same bytes as one before needs one hash to find its series; a field that follows the same field
//! as last time needs one comparison to find its column. Neither allocates.

mod fields;
mod head;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use arrow_array::ArrayRef;
use engine::{Batch, Catalog, ColumnSpec, KeyList, Op, Ops, Rows, TableSpec, Txn};
use model::{ColumnId, Error, Result, SqlState, Table, TableName, TableRef};

use self::table::TableBuild;
use crate::number;

/// Refused lines that are described; further ones are only counted.
pub const ERRORS_MAX: usize = 100;

/// What a request's timestamps count.
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
    /// The unit a `precision` parameter names.
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

    /// Its length.
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

/// What to parse.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The schema of its tables; made if it is not there.
    pub schema: &'a str,
    /// The lines.
    pub body: &'a [u8],
    /// What its timestamps count.
    pub unit: Unit,
    /// The time of lines without one.
    pub now_ns: i64,
    /// Most bytes that the columns may take, absent values included.
    pub memory_bytes_max: usize,
}

/// A line that was refused, and why.
#[derive(Clone, Debug)]
pub struct LineError {
    /// From 1; of a line that spans several, the first.
    pub line: u64,
    /// Begins with `line n: `.
    pub error: Error,
}

/// What a request says: batches by table, ready for one transaction.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The schema that has to be made first.
    pub new_schema: Option<String>,
    /// Tables with at least one row.
    pub tables: Vec<TableWrite>,
    /// The first [`ERRORS_MAX`] refused lines.
    pub errors: Vec<LineError>,
    /// How many lines were refused.
    pub refused: u64,
    /// How many were accepted: the rows.
    pub rows: u64,
    /// Field values of the rows.
    pub points: u64,
}

/// The rows of one table.
#[derive(Debug)]
pub struct TableWrite {
    /// Its name.
    pub name: TableName,
    /// The table, if it was in the catalog.
    pub table: Option<TableRef>,
    /// The table to make, if it was not.
    pub spec: Option<TableSpec>,
    /// Columns to add to a table that is there, in the order of their first row.
    pub new_columns: Vec<ColumnSpec>,
    op: Op,
    keys: KeyList,
    series: Vec<u32>,
    times: Vec<i64>,
    columns: Vec<(String, Option<ColumnId>, ArrayRef)>,
}

/// Reads a whole body.
///
/// Refused lines are in [`Parsed::errors`]; the rest is to be stored by [`Parsed::apply`].
///
/// # Errors
/// 54000 when the columns would take more than [`Request::memory_bytes_max`]: nothing of the request can be stored.
///
/// # Cost
/// One pass. About 100 bytes for each distinct (table, tags), and the columns themselves.
pub fn parse(catalog: &Catalog, request: &Request<'_>) -> Result<Parsed> {
    let mut parser = Parser::new(catalog, *request);
    while parser.at < request.body.len() {
        parser.line()?;
    }
    parser.finish()
}

impl Parsed {
    /// Puts it all into a transaction: schema, tables, columns and rows.
    ///
    /// # Errors
    /// As [`Txn::create_table`], [`Txn::add_columns`] and [`Txn::write`]; the transaction is not to be committed then.
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

impl TableWrite {
    fn apply(self, txn: &mut Txn) -> Result<()> {
        let table = match (&self.table, &self.spec) {
            (Some(table), _) if self.new_columns.is_empty() => TableRef::clone(table),
            (Some(_), _) => txn.add_columns(&self.name, &self.new_columns)?,
            (None, Some(spec)) => txn.create_table(spec)?,
            (None, None) => return Err(Error::bug(format!("write to {} without a table", self.name))),
        };
        let id = table.id;
        txn.write(id, self.into_batch(&table)?)
    }

    /// The rows for `table`, which has all their columns.
    ///
    /// # Errors
    /// XX000 if it has not.
    pub fn into_batch(self, table: &Table) -> Result<Batch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for (name, id, array) in self.columns {
            let id = id.or_else(|| table.column(&name).map(|column| column.id));
            let id = id.ok_or_else(|| Error::bug(format!("column \"{name}\" of {} was not made", table.name)))?;
            columns.push((id, array));
        }
        columns.sort_unstable_by_key(|(id, _)| *id);
        Ok(Batch::new(self.keys, Rows::new(self.series, self.times, Ops::All(self.op), columns)))
    }
}

/// Counts memory before it is taken.
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
            format!("the request takes more than {} bytes as columns, absent values included", self.max),
        )
        .with_detail("nothing of it was stored")
        .with_hint("send fewer lines at a time, or lines of one table with the same fields")
    }
}

/// Which table and key a line's first part stands for.
#[derive(Clone, Copy)]
struct Head {
    table: u32,
    key: u32,
}

/// Why a line was not taken.
enum Fault {
    /// The line is bad; the next one may be good.
    Line(Error),
    /// The request is.
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
    /// Is the whole body UTF-8 without zero bytes? Then no part of it needs a look.
    clean: bool,
    heads: HashMap<&'a [u8], Head>,
    tables: Vec<TableBuild<'a>>,
    table_names: HashMap<String, u32>,
    new_tables: usize,
    budget: Budget,
    parsed: Parsed,
    /// Where lines were last counted, and the number of the line there.
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

    /// One line, whatever it is.
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

    /// A line that is to become a row; on a fault nothing of it stays.
    fn row(&mut self, start: usize) -> Parse<()> {
        if !self.clean {
            check_bytes(&self.request.body[start..line_end(self.request.body, start)])?;
        }
        let (head, new) = self.head()?;
        let table = &mut self.tables[head.table as usize];
        let mut at = self.at;
        match table.row(&self.request, &mut at, head.key, &mut self.budget) {
            Ok(points) => {
                table.accept();
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

/// Where the physical line at `at` ends and the next begins.
fn next_line(body: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &body[at..]).map_or(body.len(), |found| at + found + 1)
}

/// Where the logical line that starts at `start` ends, newline included, as well as that can be told of a bad line.
///
/// A newline inside a string does not end it: otherwise whoever controls a string could write lines of their own.
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

/// Where the closing quote of a string is whose contents begin at `at`.
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

/// Refuses bytes that no text may hold.
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
            format!("byte {} is zero, which text cannot hold", at + 1),
        )),
        None => Ok(()),
    }
}

/// Bytes as a message shows them: the first few, quoted.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]);
    let more = if bytes.len() > SHOWN_BYTES_MAX { "…" } else { "" };
    format!("\"{}{more}\"", text.escape_debug().to_string().replace("\\\"", "\""))
}

/// The rest of a line after its fields: `[ timestamp]` and the end. Leaves `at` behind the newline.
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
        let message = format!("timestamp {} lies outside 1677-09-21 .. 2262-04-11", shown(word));
        return Fault::line(SqlState::DATETIME_OVERFLOW, message);
    }
    Fault::line(SqlState::INVALID_DATETIME_FORMAT, format!("timestamp is {}, expected an integer", shown(word)))
}

fn skip_spaces(body: &[u8], at: &mut usize) -> bool {
    let start = *at;
    while body.get(*at) == Some(&b' ') {
        *at += 1;
    }
    *at > start
}

/// What stands at `at` up to the next comma, space or line end.
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
            format!("seen {}", shown(&rest[..len]))
        }
    };
    Fault::syntax(format!("{seen}, expected {expected}"))
}
