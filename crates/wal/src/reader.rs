//! Reads an open log by LSN while it is being written: for consumers and `inspect`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use env::{File, Open};
use model::{Error, Lsn, Result, SqlState};

use crate::format::{self, Decoded, FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES};
use crate::open::io_error;
use crate::{LogFile, Shared};

/// Bytes read at once: few for a consumer that follows closely, more while it catches up.
const WINDOW_BYTES_MIN: usize = 16 << 10;
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Iterates over durable records by LSN. After `None` it continues once more records are durable.
pub struct Reader {
    shared: Arc<Shared>,
    /// LSN of the next record.
    next: Lsn,
    /// Highest readable LSN in the present file, as of the last check.
    readable: Lsn,
    position: Option<Position>,
}

/// Position in a file.
struct Position {
    file: Arc<dyn File>,
    path: PathBuf,
    bytes: u64,
    number: u64,
    seed: u32,
    /// LSN of the record at `at`.
    lsn: Lsn,
    at: u64,
    /// Bytes from `window_at` on, all of which were durable when they were read.
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
    /// Range in `window` of the payload of the last record.
    payload: Range<usize>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, from: Lsn) -> Result<Reader> {
        let mut reader = Reader { shared, next: from.max(Lsn(1)), readable: Lsn::ZERO, position: None };
        reader.refresh()?;
        Ok(reader)
    }

    /// LSN of the next record.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.next
    }

    /// Returns the next durable record, or `None` when there is none yet. Skips durable marks.
    ///
    /// # Errors
    /// 55000 when the record was removed meanwhile; XX001 when it is damaged; 58030 for I/O.
    #[allow(clippy::should_implement_trait, reason = "it lends from its own buffer")]
    pub fn next(&mut self) -> Result<Option<(Lsn, &[u8])>> {
        loop {
            if self.next > self.readable && !self.refresh()? {
                return Ok(None);
            }
            let Some(position) = &mut self.position else {
                return Ok(None);
            };
            let lsn = position.advance()?;
            assert!(lsn <= self.readable, "BUG: read record {lsn}, of which only {} is durable", self.readable);
            if lsn < self.next {
                continue;
            }
            self.next = lsn.next();
            if !position.payload.is_empty() {
                break;
            }
        }
        Ok(self.position.as_ref().map(|position| (Lsn(self.next.0 - 1), &position.window[position.payload.clone()])))
    }

    /// Gets the durable LSN and the file of the next record from the log. Returns whether that
    /// record is readable now.
    fn refresh(&mut self) -> Result<bool> {
        let (durable, file, file_last) = {
            let state = self.shared.state.lock();
            let after = state.files.partition_point(|file| file.first_lsn <= self.next);
            let oldest = state.files.first().map_or(state.last.next(), |file| file.first_lsn);
            if after == 0 && self.next < oldest {
                return Err(removed(self.next, oldest));
            }
            let file = after.checked_sub(1).and_then(|at| state.files.get(at)).cloned();
            let file_last = state.files.get(after).map_or(Lsn(u64::MAX), |next| Lsn(next.first_lsn.0 - 1));
            (state.durable, file, file_last)
        };
        self.readable = durable.min(file_last);
        let Some(file) = file.filter(|_| self.next <= self.readable) else {
            return Ok(false);
        };
        match &mut self.position {
            // Bytes read ahead may be older than those that are durable now.
            Some(position) if position.number == file.number => position.forget_window(),
            position => *position = Some(self.shared.position(&file)?),
        }
        Ok(true)
    }
}

impl Shared {
    fn position(&self, log: &LogFile) -> Result<Position> {
        let path = log.path.clone();
        let file = self.env.open(&path, Open::Read).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => removed(log.first_lsn, log.first_lsn),
            _ => io_error("open", &path, &e),
        })?;
        let mut header = [0; FILE_HEADER_BYTES];
        file.read_at(&mut header, 0).map_err(|e| io_error("read", &path, &e))?;
        let header = FileHeader::decode(&header)
            .map_err(|what| Error::corrupt(format!("log file {}: {what}", path.display())))?;
        if (header.number, header.first_lsn) != (log.number, log.first_lsn) {
            let (number, first) = (log.number, log.first_lsn);
            let what = format!("it is file {} from record {} on", header.number, header.first_lsn);
            return Err(Error::corrupt(format!("log file {}: {what}, expected {number} from {first}", path.display())));
        }
        Ok(Position {
            file,
            path,
            bytes: log.bytes,
            number: header.number,
            seed: header.seed(),
            lsn: header.first_lsn,
            at: FILE_HEADER_BYTES as u64,
            window: Vec::new(),
            window_at: 0,
            window_bytes: WINDOW_BYTES_MIN,
            payload: 0..0,
        })
    }
}

impl Position {
    /// Steps over one record; returns its LSN and leaves its payload in the window.
    fn advance(&mut self) -> Result<Lsn> {
        self.fill(RECORD_HEADER_BYTES)?;
        let Some(bytes) = format::claimed_bytes(&self.window[self.offset()..]) else {
            return Err(self.damaged("an impossible length"));
        };
        self.fill(bytes)?;
        let what = match format::decode(&self.window, self.offset(), self.seed, self.lsn) {
            Decoded::Record(record) => {
                let (lsn, bytes) = (record.lsn, record.bytes());
                self.payload = self.offset() + RECORD_HEADER_BYTES..self.offset() + bytes;
                self.at += bytes as u64;
                self.lsn = lsn.next();
                return Ok(lsn);
            }
            Decoded::End => "zeros instead of a record".to_owned(),
            Decoded::Bad(what) => what,
        };
        Err(self.damaged(&what))
    }

    fn offset(&self) -> usize {
        (self.at - self.window_at) as usize
    }

    /// Makes `bytes` bytes from `at` on available in the window.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        let available = (self.window_at + self.window.len() as u64).saturating_sub(self.at);
        if self.at >= self.window_at && available >= bytes as u64 {
            return Ok(());
        }
        let left = self.bytes.saturating_sub(self.at);
        if left < bytes as u64 {
            return Err(self.damaged("the file ends"));
        }
        let count = left.min(self.window_bytes.max(bytes) as u64) as usize;
        self.window.resize(count, 0);
        self.window_at = self.at;
        self.window_bytes = (self.window_bytes * 2).min(WINDOW_BYTES_MAX);
        self.file.read_at(&mut self.window, self.at).map_err(|e| io_error("read", &self.path, &e))
    }

    fn forget_window(&mut self) {
        self.window.clear();
        self.window_at = self.at;
        self.window_bytes = WINDOW_BYTES_MIN;
    }

    fn damaged(&self, what: &str) -> Error {
        let path = self.path.display();
        Error::corrupt(format!("log file {path}: durable record {} at byte {}: {what}", self.lsn, self.at))
            .with_detail(format!("Records up to {} are intact", self.lsn.0 - 1))
    }
}

fn removed(wanted: Lsn, oldest: Lsn) -> Error {
    Error::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("log record {wanted} has been removed; the oldest kept is {oldest}"),
    )
    .with_hint("start from a new copy of the database")
}
