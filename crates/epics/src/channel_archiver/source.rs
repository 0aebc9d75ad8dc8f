//! Random access to a file through a window.

use std::io::{self, Read, Seek, SeekFrom};

use super::Fault;

/// Bytes that a read takes at least: nodes, headers and most blocks of samples fit.
const WINDOW_BYTES: usize = 64 << 10;

/// A file, and the bytes of it that were read last.
pub(super) struct Source<R> {
    input: R,
    /// Bytes of the file when it was opened.
    bytes: u64,
    window: Vec<u8>,
    /// Offset of the window in the file.
    window_at: u64,
}

impl<R: Read + Seek> Source<R> {
    pub(super) fn new(mut input: R) -> Result<Source<R>, Fault> {
        let bytes = input.seek(SeekFrom::End(0)).map_err(|error| Fault::Io(error.kind()))?;
        Ok(Source { input, bytes, window: Vec::new(), window_at: 0 })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The `length` bytes at `offset`.
    pub(super) fn slice(&mut self, offset: u64, length: usize) -> Result<&[u8], Fault> {
        let end = offset.saturating_add(length as u64);
        if end > self.bytes {
            return Err(Fault::Truncated { end, bytes: self.bytes });
        }
        let inside = offset >= self.window_at && end <= self.window_at + self.window.len() as u64;
        if !inside {
            self.fill(offset, length)?;
        }
        let start = (offset - self.window_at) as usize;
        // A file that became shorter since it was opened fills less than was asked for.
        self.window.get(start..start + length).ok_or(Fault::Truncated { end, bytes: offset + self.window.len() as u64 })
    }

    pub(super) fn u32(&mut self, offset: u64) -> Result<u32, Fault> {
        Ok(be_u32(self.slice(offset, 4)?, 0))
    }

    fn fill(&mut self, offset: u64, length: usize) -> Result<(), Fault> {
        let wanted = (length.max(WINDOW_BYTES) as u64).min(self.bytes - offset);
        self.window.clear();
        self.window_at = offset;
        let read = |source: &mut Source<R>| -> io::Result<usize> {
            source.input.seek(SeekFrom::Start(offset))?;
            source.input.by_ref().take(wanted).read_to_end(&mut source.window)
        };
        let filled = read(self);
        // A large sample must not leave its memory to the small ones after it.
        self.window.shrink_to(WINDOW_BYTES.max(self.window.len()));
        filled.map(|_| ()).map_err(|error| {
            self.window.clear();
            Fault::Io(error.kind())
        })
    }
}

/// The number at `at`; callers check the length, a missing byte counts as 0.
pub(super) fn be_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

/// Like [`be_u32`].
pub(super) fn be_u16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |chunk| u16::from_be_bytes(*chunk))
}
