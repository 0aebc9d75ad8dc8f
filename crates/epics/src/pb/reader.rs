//! Reader of chunks.

use std::io::{self, Read};

use super::wire::{Fault, decode_event, decode_header, is_header, unescape};
use super::{Header, LINE_BYTES_MAX, Payload};
use crate::calendar::start_of_year;
use crate::event::Event;
use crate::sample::Nanos;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// A line of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A chunk starts: the events that follow are of this PV and type.
    Header(Header),
    /// An event of the chunk.
    Event(Event),
    /// A line was skipped.
    Damaged(Damage),
}

/// A line that was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset of the line's first byte in the stream.
    pub offset: u64,
    /// Bytes of the line, without its line feed.
    pub bytes: u64,
    /// Reason.
    pub fault: Fault,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line of {} bytes at offset {}: {}", self.bytes, self.offset, self.fault)
    }
}

/// Counts of what a reader has returned so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Headers.
    pub chunks: u64,
    /// Events.
    pub events: u64,
    /// Lines skipped.
    pub damaged: u64,
    /// Events whose severity or status EPICS does not have: they count as `INVALID`.
    pub unknown_alarms: u64,
}

/// Reads chunks: an iterator over the lines of a stream.
///
/// A damaged line is reported and skipped. After a damaged header, events are reported as [`Fault::NoHeader`] up to the
/// next header: a reader never guesses type or year. An error of the input ends the iteration.
///
/// Memory: one line and one read.
pub struct Reader<R> {
    input: R,
    /// Bytes read; the line at `start` is next, and none of the bytes up to `scanned` is a line feed.
    pub(super) buffer: Vec<u8>,
    start: usize,
    scanned: usize,
    /// Offset in the stream of the buffer's first byte.
    offset: u64,
    /// An unescaped line; kept for its capacity.
    scratch: Vec<u8>,
    line_bytes_max: usize,
    /// Type and start of the year of the present chunk.
    chunk: Option<(Payload, Nanos)>,
    /// Returned before the next line.
    pending: Option<Header>,
    report: Report,
    ended: bool,
}

/// A line, or the end.
enum Line {
    /// In the buffer at `start`, of this many bytes without its line feed.
    Whole(usize),
    /// Skipped.
    Damaged(Damage),
    End,
}

impl<R: Read> Reader<R> {
    /// A reader of lines of up to [`LINE_BYTES_MAX`].
    pub fn new(input: R) -> Reader<R> {
        Reader::with_line_bytes_max(input, LINE_BYTES_MAX)
    }

    /// A reader of lines of up to `line_bytes_max` bytes, which bounds its memory.
    pub fn with_line_bytes_max(input: R, line_bytes_max: usize) -> Reader<R> {
        Reader {
            input,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            offset: 0,
            scratch: Vec::new(),
            line_bytes_max,
            chunk: None,
            pending: None,
            report: Report::default(),
            ended: false,
        }
    }

    /// A reader of the rest of a chunk. Returns `header` first.
    ///
    /// - `input`: at the first byte of an event's line, `offset` bytes into the stream.
    pub fn resume(input: R, header: Header, offset: u64) -> Reader<R> {
        let mut reader = Reader::new(input);
        reader.chunk = Some((header.payload, start_of_year(header.year)));
        reader.pending = Some(header);
        reader.offset = offset;
        reader
    }

    /// Counts so far.
    pub fn report(&self) -> Report {
        self.report
    }

    /// The next record; `None` at the end.
    fn record(&mut self) -> io::Result<Option<Record>> {
        if let Some(header) = self.pending.take() {
            self.report.chunks += 1;
            return Ok(Some(Record::Header(header)));
        }
        loop {
            match self.line()? {
                Line::End => return Ok(None),
                Line::Whole(0) => {
                    self.chunk = None;
                    self.pass(0);
                }
                Line::Whole(bytes) => {
                    let decoded = self.decode(bytes);
                    let offset = self.offset + self.start as u64;
                    self.pass(bytes);
                    return Ok(Some(decoded.unwrap_or_else(|fault| {
                        self.report.damaged += 1;
                        Record::Damaged(Damage { offset, bytes: bytes as u64, fault })
                    })));
                }
                Line::Damaged(damage) => {
                    self.report.damaged += 1;
                    return Ok(Some(Record::Damaged(damage)));
                }
            }
        }
    }

    fn decode(&mut self, bytes: usize) -> Result<Record, Fault> {
        let line = &self.buffer[self.start..self.start + bytes];
        let message = unescape(line, &mut self.scratch)?;
        if is_header(message) {
            self.chunk = None;
            let header = decode_header(message)?;
            self.chunk = Some((header.payload, start_of_year(header.year)));
            self.report.chunks += 1;
            return Ok(Record::Header(header));
        }
        let (payload, year_start) = self.chunk.ok_or(Fault::NoHeader)?;
        let (event, ordinary) = decode_event(message, payload, year_start)?;
        self.report.events += 1;
        self.report.unknown_alarms += u64::from(!ordinary);
        Ok(Record::Event(event))
    }

    /// Passes a line of `bytes` and its line feed.
    fn pass(&mut self, bytes: usize) {
        self.start += bytes + 1;
        self.scanned = self.start;
    }

    fn line(&mut self) -> io::Result<Line> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
                let bytes = self.scanned + found - self.start;
                return if bytes > self.line_bytes_max { self.skip_line() } else { Ok(Line::Whole(bytes)) };
            }
            self.scanned = self.buffer.len();
            if self.scanned - self.start > self.line_bytes_max {
                return self.skip_line();
            }
            if self.fill()? == 0 {
                let bytes = (self.buffer.len() - self.start) as u64;
                let offset = self.offset + self.start as u64;
                self.start = self.buffer.len();
                return Ok(match bytes {
                    0 => Line::End,
                    _ => Line::Damaged(Damage { offset, bytes, fault: Fault::Unterminated }),
                });
            }
        }
    }

    /// Skips a line that is too long, without keeping its bytes.
    fn skip_line(&mut self) -> io::Result<Line> {
        let offset = self.offset + self.start as u64;
        // The first bytes may have been those of a header, so the events that follow may be of another chunk.
        let header = is_header(&self.buffer[self.start..]);
        self.chunk = self.chunk.filter(|_| !header);
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]);
            self.start = self.scanned + found.unwrap_or(self.buffer.len() - self.scanned);
            if found.is_some() || self.fill_after_drop()? == 0 {
                let bytes = self.offset + self.start as u64 - offset;
                self.start = (self.start + 1).min(self.buffer.len());
                self.scanned = self.start;
                return Ok(Line::Damaged(Damage { offset, bytes, fault: Fault::TooLong }));
            }
        }
    }

    fn fill_after_drop(&mut self) -> io::Result<usize> {
        self.scanned = self.buffer.len();
        self.fill()
    }

    /// Reads more bytes behind those from `start` on; 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.offset += self.start as u64;
        self.scanned -= self.start;
        self.start = 0;
        let used = self.buffer.len();
        // Reads grow with the line, so that a long line is not moved once per read.
        self.buffer.resize(used + READ_BYTES.max(used), 0);
        loop {
            match self.input.read(&mut self.buffer[used..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    self.buffer.truncate(used + *read.as_ref().unwrap_or(&0));
                    return read;
                }
            }
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        if self.ended {
            return None;
        }
        let record = self.record().transpose();
        self.ended = !matches!(record, Some(Ok(_)));
        record
    }
}
