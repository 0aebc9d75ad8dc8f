//! COPY's text and CSV formats.

use model::Result;

use super::sink::{Sink, excerpt};
use super::{BUFFER_BYTES_KEPT, Format, Header, Options, malformed};

pub(super) struct Lines {
    options: Options,
    /// Line ending, determined by the first line.
    ending: Option<Ending>,
    /// Whether the header has been read, or there is none.
    header_done: bool,
    /// Whether `\.` was read: the rest is ignored.
    ended: bool,
    scan: Scan,
    force: Vec<Force>,
    /// Range of each field of the line in `unescaped`; `None`: NULL.
    fields: Vec<Option<std::ops::Range<usize>>>,
    unescaped: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Lf,
    Cr,
    CrLf,
}

/// Progress of the search for the end of the current line.
#[derive(Clone, Copy, Default)]
struct Scan {
    at: usize,
    in_quotes: bool,
    /// CSV: the previous byte was an escape character other than the quote.
    after_escape: bool,
    /// Newlines inside quotes.
    newlines: u64,
}

#[derive(Clone, Copy, Default)]
struct Force {
    null: bool,
    not_null: bool,
}

/// End of a line, and start of the next one.
struct End {
    at: usize,
    next: usize,
}

impl Lines {
    pub(super) fn new(options: Options, columns: usize) -> Lines {
        let mut force = vec![Force::default(); columns];
        for at in &options.force_null {
            force.get_mut(*at).into_iter().for_each(|force| force.null = true);
        }
        for at in &options.force_not_null {
            force.get_mut(*at).into_iter().for_each(|force| force.not_null = true);
        }
        Lines {
            ending: None,
            header_done: options.header == Header::None,
            ended: false,
            scan: Scan::default(),
            force,
            fields: Vec::with_capacity(columns),
            unescaped: Vec::new(),
            options,
        }
    }

    /// Bytes of buffers.
    pub(super) fn memory_bytes(&self) -> usize {
        self.unescaped.capacity()
    }

    pub(super) fn consume(&mut self, bytes: &[u8], rows: &mut impl Sink) -> Result<usize> {
        let mut at = 0;
        while !self.ended {
            let Some(end) = self.find_end(&bytes[at..], rows)? else { return Ok(at) };
            self.line(&bytes[at..at + end.at], rows)?;
            at += end.next;
        }
        Ok(bytes.len())
    }

    /// Ends the stream. The last line may lack its newline.
    pub(super) fn finish(&mut self, rest: &[u8], rows: &mut impl Sink) -> Result<()> {
        if self.ended || rest.is_empty() {
            return Ok(());
        }
        if self.scan.in_quotes {
            rows.set_line(rows.line() + 1 + self.scan.newlines);
            return Err(self.unterminated(rest, rows));
        }
        // A carriage return at the end of the stream ends the line.
        let line = match rest.strip_suffix(b"\r") {
            Some(line) if self.ending != Some(Ending::Lf) => line,
            _ => rest,
        };
        self.line(line, rows)
    }

    fn unterminated(&self, line: &[u8], rows: &impl Sink) -> model::Error {
        rows.in_line(malformed("unterminated CSV quoted field"), line)
    }

    /// Finds the end of the current line, if it has arrived.
    fn find_end(&mut self, bytes: &[u8], rows: &mut impl Sink) -> Result<Option<End>> {
        let found = match self.options.format {
            Format::Csv => self.find_csv_end(bytes),
            _ => self.find_text_end(bytes),
        };
        let Some(at) = found else { return Ok(None) };
        let ending = match (bytes[at], bytes.get(at + 1)) {
            (b'\n', _) => Ending::Lf,
            (_, Some(b'\n')) if self.ending != Some(Ending::Cr) => Ending::CrLf,
            // A newline may follow in the next piece.
            (_, None) if self.ending != Some(Ending::Cr) => {
                self.scan.at = at;
                return Ok(None);
            }
            _ => Ending::Cr,
        };
        rows.set_line(rows.line() + 1 + std::mem::take(&mut self.scan).newlines);
        let expected = *self.ending.get_or_insert(ending);
        if ending != expected {
            let line = &bytes[..at];
            return Err(self.mixed_ending(ending, line, rows));
        }
        Ok(Some(End { at, next: at + if ending == Ending::CrLf { 2 } else { 1 } }))
    }

    /// Error for a line ending that differs from the first one: probably unescaped data.
    #[cold]
    fn mixed_ending(&self, seen: Ending, line: &[u8], rows: &impl Sink) -> model::Error {
        let (what, escape) = match seen {
            Ending::Lf => ("newline", "\\n"),
            Ending::Cr | Ending::CrLf => ("carriage return", "\\r"),
        };
        let error = match self.options.format {
            Format::Csv => malformed(format!("unquoted {what} found in data"))
                .with_hint(format!("Use quoted CSV field to represent {what}.")),
            _ => malformed(format!("literal {what} found in data"))
                .with_hint(format!("Use \"{escape}\" to represent {what}.")),
        };
        rows.in_line(error, line)
    }

    /// Position of the first line ending that is not escaped.
    fn find_text_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.scan.at;
        loop {
            let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr3(b'\n', b'\r', b'\\', rest)) else {
                // One past the end if the last byte is a backslash: skip the escaped byte when it
                // arrives.
                self.scan.at = at.max(bytes.len());
                return None;
            };
            at += found;
            if bytes[at] != b'\\' {
                return Some(at);
            }
            at += 2;
        }
    }

    /// Position of the first line ending outside quotes.
    fn find_csv_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let Options { quote, escape, .. } = self.options;
        let scan = &mut self.scan;
        while let Some(byte) = bytes.get(scan.at) {
            if !scan.in_quotes && !scan.after_escape {
                match memchr::memchr3(b'\n', b'\r', quote, &bytes[scan.at..]) {
                    Some(found) => scan.at += found,
                    None => {
                        scan.at = bytes.len();
                        return None;
                    }
                }
                if bytes[scan.at] != quote {
                    return Some(scan.at);
                }
                scan.in_quotes = true;
                scan.at += 1;
                continue;
            }
            if *byte == escape && escape != quote {
                scan.after_escape = !scan.after_escape;
            } else {
                if *byte == quote && !scan.after_escape {
                    scan.in_quotes = false;
                }
                scan.newlines += u64::from(*byte == b'\n');
                scan.after_escape = false;
            }
            scan.at += 1;
        }
        None
    }

    fn line(&mut self, line: &[u8], rows: &mut impl Sink) -> Result<()> {
        if rows.line() == 0 {
            rows.set_line(1);
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        self.split(line, rows)?;
        if !self.header_done {
            self.header_done = true;
            return self.header(line, rows);
        }
        if self.fields.len() < rows.width() {
            let message = format!("missing data for column \"{}\"", rows.column_name(self.fields.len()));
            return Err(rows.in_line(malformed(message), line));
        }
        if self.fields.len() > rows.width() {
            return Err(rows.in_line(malformed("extra data after last expected column"), line));
        }
        rows.begin_row(line);
        for (field, range) in self.fields.iter().enumerate() {
            if let Some(range) = range {
                rows.put_text(field, &self.unescaped[range.clone()])?;
            }
        }
        rows.end_row()
    }

    fn header(&self, line: &[u8], rows: &impl Sink) -> Result<()> {
        if self.options.header != Header::Match {
            return Ok(());
        }
        if self.fields.len() != rows.width() {
            let message =
                format!("wrong number of fields in header line: got {}, expected {}", self.fields.len(), rows.width());
            return Err(rows.in_line(malformed(message), line));
        }
        for (field, range) in self.fields.iter().enumerate() {
            let seen = range.clone().map(|range| excerpt(&self.unescaped[range]));
            if seen.as_deref() != Some(rows.column_name(field)) {
                let seen = seen.map_or_else(|| "null value (\"\\N\")".to_owned(), |seen| format!("\"{seen}\""));
                let message = format!(
                    "column name mismatch in header line field {}: got {seen}, expected \"{}\"",
                    field + 1,
                    rows.column_name(field)
                );
                return Err(rows.in_line(malformed(message), line));
            }
        }
        Ok(())
    }

    fn split(&mut self, line: &[u8], rows: &impl Sink) -> Result<()> {
        self.fields.clear();
        self.unescaped.clear();
        self.unescaped.shrink_to(BUFFER_BYTES_KEPT);
        match self.options.format {
            Format::Csv => self.split_csv(line, rows),
            _ => {
                self.split_text(line, rows.width());
                Ok(())
            }
        }
    }

    /// Splits a line; stops after one field too many, since the line is refused then.
    fn split_text(&mut self, line: &[u8], width: usize) {
        let mut rest = Some(line);
        while let Some(text) = rest
            && self.fields.len() <= width
        {
            let end = text_field_end(text, self.options.delimiter);
            let raw = &text[..end];
            let field = if raw == self.options.null.as_bytes() {
                None
            } else {
                let start = self.unescaped.len();
                unescape_text(raw, &mut self.unescaped);
                Some(start..self.unescaped.len())
            };
            self.fields.push(field);
            rest = text.get(end + 1..);
        }
    }

    fn split_csv(&mut self, line: &[u8], rows: &impl Sink) -> Result<()> {
        let mut at = 0;
        while self.fields.len() <= rows.width() {
            let start = self.unescaped.len();
            let Some((end, quoted)) = self.csv_field(line, at) else { return Err(self.unterminated(line, rows)) };
            let force = self.force.get(self.fields.len()).copied().unwrap_or_default();
            let is_null_text = self.unescaped[start..] == *self.options.null.as_bytes();
            let is_null = if quoted { force.null } else { !force.not_null };
            self.fields.push(if is_null_text && is_null { None } else { Some(start..self.unescaped.len()) });
            if end >= line.len() {
                break;
            }
            at = end + 1;
        }
        Ok(())
    }

    /// Appends the field at `at` to `unescaped`; returns its end and whether any part was quoted.
    /// `None`: unterminated quote.
    fn csv_field(&mut self, line: &[u8], mut at: usize) -> Option<(usize, bool)> {
        let Options { delimiter, quote, escape, .. } = self.options;
        let mut quoted = false;
        loop {
            let rest = line.get(at..).unwrap_or_default();
            let Some(found) = memchr::memchr2(delimiter, quote, rest) else {
                self.unescaped.extend_from_slice(rest);
                return Some((line.len(), quoted));
            };
            self.unescaped.extend_from_slice(&rest[..found]);
            at += found;
            if line[at] == delimiter {
                return Some((at, quoted));
            }
            quoted = true;
            at = unquote(line, at + 1, quote, escape, &mut self.unescaped)?;
        }
    }
}

/// Appends a quoted part that starts at `at`; returns the position after its closing quote.
fn unquote(line: &[u8], mut at: usize, quote: u8, escape: u8, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        let rest = line.get(at..)?;
        let found = memchr::memchr2(quote, escape, rest)?;
        out.extend_from_slice(&rest[..found]);
        at += found;
        let next = line.get(at + 1).copied().filter(|next| *next == quote || *next == escape);
        match (line[at], next) {
            (byte, Some(next)) if byte == escape => {
                out.push(next);
                at += 2;
            }
            (byte, _) if byte == quote => return Some(at + 1),
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// Position of the first delimiter that is not escaped, or the length.
fn text_field_end(text: &[u8], delimiter: u8) -> usize {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(delimiter, b'\\', rest)) {
        at += found;
        if text[at] == delimiter {
            return at;
        }
        at += 2;
    }
    text.len()
}

fn unescape_text(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(found) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..found]);
        rest = unescape_one(&rest[found + 1..], out);
    }
    out.extend_from_slice(rest);
}

/// Appends the byte for the escape sequence after a backslash; returns the rest.
fn unescape_one<'a>(rest: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let Some((first, tail)) = rest.split_first() else {
        out.push(b'\\');
        return rest;
    };
    match first {
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'0'..=b'7' => return unescape_number(rest, 3, 8, out),
        b'x' if tail.first().is_some_and(u8::is_ascii_hexdigit) => return unescape_number(tail, 2, 16, out),
        other => out.push(*other),
    }
    tail
}

fn unescape_number<'a>(rest: &'a [u8], digits_max: usize, radix: u32, out: &mut Vec<u8>) -> &'a [u8] {
    let mut value = 0;
    let mut len = 0;
    while let Some(digit) = rest.get(len).and_then(|byte| (*byte as char).to_digit(radix))
        && len < digits_max
    {
        value = value * radix + digit;
        len += 1;
    }
    out.push(value as u8);
    &rest[len..]
}
