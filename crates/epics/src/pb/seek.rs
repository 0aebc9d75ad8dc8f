//! Search by time in a file.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use super::wire::{decode_event, decode_header, unescape};
use super::{Header, LINE_BYTES_MAX, Reader};
use crate::calendar::start_of_year;
use crate::sample::Nanos;

impl<F: Read + Seek> Reader<F> {
    /// A reader of a file from the last event at or before `time` on; from the first event if all are later.
    ///
    /// - `file`: of one chunk, with increasing times, as the Appliance's stores are. Damaged lines are passed over.
    ///
    /// # Errors
    /// - `InvalidData`: the first line is no header.
    /// - Those of the file.
    ///
    /// # Cost
    /// Reads of 8 KiB, about log₂ of the file's bytes.
    pub fn open_at(file: F, time: Nanos) -> io::Result<Reader<F>> {
        let mut search = Search { file: BufReader::new(file), line: Vec::new(), scratch: Vec::new() };
        let header = search.header()?;
        let first = search.file.stream_position()?;
        let offset = search.last_at_or_before(&header, first, time)?;
        let mut file = search.file.into_inner();
        file.seek(SeekFrom::Start(offset))?;
        Ok(Reader::resume(file, header, offset))
    }
}

struct Search<F> {
    file: BufReader<F>,
    line: Vec<u8>,
    scratch: Vec<u8>,
}

impl<F: Read + Seek> Search<F> {
    fn header(&mut self) -> io::Result<Header> {
        self.file.rewind()?;
        self.read_line()?;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        unescape(line, &mut self.scratch)
            .and_then(decode_header)
            .map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, format!("header of a PB file: {fault}")))
    }

    /// Offset of the last event at or before `time`, or `first` if there is none.
    fn last_at_or_before(&mut self, header: &Header, first: u64, time: Nanos) -> io::Result<u64> {
        // Always true: the event at `low` is at or before `time`, or `low` is `first`; events from `high` on are later.
        let (mut low, mut high) = (first, self.end_of_last_line(first)?);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.event_from(header, middle, high)? {
                Some((offset, found)) if found <= time => low = offset,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Offset behind the last line feed, at least `first`: a line without one is not complete.
    fn end_of_last_line(&mut self, first: u64) -> io::Result<u64> {
        let mut end = self.file.seek(SeekFrom::End(0))?;
        let mut block = [0; 4096];
        while end > first {
            let start = first.max(end.saturating_sub(block.len() as u64));
            let block = &mut block[..(end - start) as usize];
            self.file.seek(SeekFrom::Start(start))?;
            self.file.read_exact(block)?;
            if let Some(at) = memchr::memrchr(b'\n', block) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(first)
    }

    /// Offset and time of the first intact event whose line starts in `from..until`.
    fn event_from(&mut self, header: &Header, from: u64, until: u64) -> io::Result<Option<(u64, Nanos)>> {
        self.file.seek(SeekFrom::Start(from - 1))?;
        let mut offset = from - 1 + self.read_line()?;
        while offset < until {
            let bytes = self.read_line()?;
            if bytes == 0 {
                break;
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let decoded = unescape(line, &mut self.scratch)
                .and_then(|message| decode_event(message, header.payload, start_of_year(header.year)));
            if let Ok((event, _)) = decoded {
                return Ok(Some((offset, event.time())));
            }
            offset += bytes;
        }
        Ok(None)
    }

    /// Reads a line and returns its bytes; a line that is too long comes in pieces, which no decoder accepts.
    fn read_line(&mut self) -> io::Result<u64> {
        self.line.clear();
        Ok(self.file.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut self.line)? as u64)
    }
}
