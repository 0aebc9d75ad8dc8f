//! Reading an open log by LSN, behind its writer: for consumers and `inspect`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use env::{File, Open};
use model::{Error, Lsn, Result, SqlState};

use crate::format::{self, Decoded, FILE_HEADER_BYTES, FileHeader, RECORD_HEADER_BYTES};
use crate::open::io_error;
use crate::{LogFile, Shared};

/// Bytes read at once: little for a consumer that follows, more while it catches up.
const WINDOW_BYTES_MIN: usize = 16 << 10;
const WINDOW_BYTES_MAX: usize = 1 << 20;

/// Walks durable records by LSN. Goes on after `None` when more has become durable.
pub struct Reader {
    shared: Arc<Shared>,
    /// The record to give next.
    next: Lsn,
    /// Durable records of the present file, when we last asked.
    readable: Lsn,
    place: Option<Place>,
}

/// Where in which file.
struct Place {
    file: Arc<dyn File>,
    path: PathBuf,
    bytes: u64,
    number: u64,
    seed: u32,
    /// The record at `at`.
    lsn: Lsn,
    at: u64,
    /// Bytes from `window_at` on, all of which were durable when they were read.
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
    /// Where in `window` the payload of the last record is.
    payload: Range<usize>,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, from: Lsn) -> Result<Reader> {
        let mut reader = Reader { shared, next: from.max(Lsn(1)), readable: Lsn::ZERO, place: None };
        reader.look_again()?;
        Ok(reader)
    }

    /// The LSN from which the reader goes on.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.next
    }

    /// The next durable record, or `None` when there is no further one yet. Skips the log's own marks.
    ///
    /// # Errors
    /// 55000 when the record was removed meanwhile; XX001 when it is damaged; 58030 for I/O.
    #[allow(clippy::should_implement_trait, reason = "it lends from its own buffer")]
    pub fn next(&mut self) -> Result<Option<(Lsn, &[u8])>> {
        loop {
            if self.next > self.readable && !self.look_again()? {
                return Ok(None);
            }
            let Some(place) = &mut self.place else {
                return Ok(None);
            };
            let lsn = place.advance()?;
            if lsn < self.next {
                continue;
            }
            self.next = lsn.next();
            if !place.payload.is_empty() {
                break;
            }
        }
        Ok(self.place.as_ref().map(|place| (Lsn(self.next.0 - 1), &place.window[place.payload.clone()])))
    }

    /// Asks the log for its durable LSN and the file of the next record. Answers whether that is readable now.
    fn look_again(&mut self) -> Result<bool> {
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
        match &mut self.place {
            // What was read ahead may be older than what became durable since.
            Some(place) if place.number == file.number => place.forget_window(),
            place => *place = Some(self.shared.place(&file)?),
        }
        Ok(true)
    }
}

impl Shared {
    fn place(&self, log: &LogFile) -> Result<Place> {
        let path = log.path.clone();
        let file = self.env.open(&path, Open::Read).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => removed(log.first_lsn, log.first_lsn),
            _ => io_error("open", &path, &e),
        })?;
        let mut header = [0; FILE_HEADER_BYTES];
        file.read_at(&mut header, 0).map_err(|e| io_error("read", &path, &e))?;
        let header = FileHeader::decode(&header)
            .map_err(|what| Error::corrupt(format!("log file {}: {what}", path.display())))?;
        Ok(Place {
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

impl Place {
    /// Steps over one record; gives its LSN and leaves its payload in the window.
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
        let has = (self.window_at + self.window.len() as u64).saturating_sub(self.at);
        if self.at >= self.window_at && has >= bytes as u64 {
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
    .with_hint("start again from a copy of the database")
}
