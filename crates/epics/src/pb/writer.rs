//! Writer of chunks.

use std::io::{self, Write};
use std::ops::Range;

use super::wire::{encode_event, encode_header, escape};
use super::{Header, Payload};
use crate::calendar::{YEARS, start_of_year, year_of};
use crate::event::Event;
use crate::sample::{Nanos, Value};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// Elements of a value.
fn elements(value: &Value) -> usize {
    if let Value::Array(array) = value { array.len() } else { 1 }
}

/// Writes chunks, with a header at each change of PV, year or type of value.
///
/// The bytes are those that the Appliance writes for the same events, with one difference: its replies may have a
/// header without events before the first, and this writer only has one if there are no events at all.
pub struct Writer<W> {
    output: W,
    /// Bytes not yet written.
    buffer: Vec<u8>,
    /// One message before escaping; kept for its capacity.
    message: Vec<u8>,
    header: Option<Header>,
    /// Type of the present chunk, and the times of its year. Empty: no header was written for this PV.
    chunk: (Payload, Range<Nanos>),
    first_chunk: bool,
}

impl<W: Write> Writer<W> {
    /// A writer that writes to `output`.
    pub fn new(output: W) -> Writer<W> {
        Writer {
            output,
            buffer: Vec::with_capacity(BUFFER_BYTES + 1024),
            message: Vec::new(),
            header: None,
            chunk: (Payload::Float64, 0..0),
            first_chunk: true,
        }
    }

    /// Starts a PV. Its events follow; without any, `header` is written as it is, so that a client sees the metadata.
    ///
    /// # Errors
    /// Those of the output.
    pub fn start(&mut self, header: Header) -> io::Result<()> {
        self.end_pv()?;
        self.header = Some(header);
        Ok(())
    }

    /// Writes an event of the PV that was started last. The header's `payload` and `year` follow the event, and so does
    /// its `elements`, if it has any and the event has another type than `header` said, as statistics have.
    ///
    /// # Errors
    /// - `InvalidInput`: no PV was started, or the time is not in the years 1678 to 2261. Nothing was written.
    /// - Those of the output.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        let payload = Payload::of(&event.sample.value);
        if self.chunk.0 != payload || !self.chunk.1.contains(&event.time()) {
            self.start_chunk(payload, year_of(event.time()), elements(&event.sample.value))?;
        }
        self.message.clear();
        encode_event(event, self.chunk.1.start, &mut self.message);
        self.line()
    }

    /// Writes what is buffered and returns the output.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_pv()?;
        self.output.write_all(&self.buffer)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn end_pv(&mut self) -> io::Result<()> {
        if let (Some(header), true) = (&self.header, self.chunk.1.is_empty()) {
            let (payload, year) = (header.payload, header.year);
            self.start_chunk(payload, year, 1)?;
        }
        self.header = None;
        self.chunk.1 = 0..0;
        Ok(())
    }

    /// - `elements`: of the first event; the header's count is that of the header's type.
    fn start_chunk(&mut self, payload: Payload, year: i32, elements: usize) -> io::Result<()> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let header = self.header.as_ref().ok_or_else(|| invalid("event before the first PV".into()))?;
        if !YEARS.contains(&year) {
            return Err(invalid(format!("PV \"{}\": year {year} is not in {YEARS:?}", header.pv)));
        }
        if !std::mem::take(&mut self.first_chunk) {
            self.buffer.push(b'\n');
        }
        let elements = i32::try_from(elements).unwrap_or(i32::MAX);
        let elements = header.elements.map(|declared| if payload == header.payload { declared } else { elements });
        self.message.clear();
        encode_header(header, payload, year, elements, &mut self.message);
        let end = if year == *YEARS.end() { Nanos::MAX } else { start_of_year(year + 1) };
        self.chunk = (payload, start_of_year(year)..end);
        self.line()
    }

    /// Appends the message as a line.
    fn line(&mut self) -> io::Result<()> {
        escape(&self.message, &mut self.buffer);
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.output.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}
