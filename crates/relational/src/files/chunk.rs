//! A file for the Parquet reader, read by offset, so that threads can share it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Read-ahead for page headers.
const BUFFER_BYTES: usize = 16 << 10;

/// An open file of known length; counts the bytes read.
#[derive(Clone)]
pub(super) struct Shared {
    file: Arc<File>,
    len: u64,
    read: Arc<AtomicU64>,
}

impl Shared {
    pub(super) fn new(file: File, len: u64, read: Arc<AtomicU64>) -> Shared {
        Shared { file: Arc::new(file), len, read }
    }

    /// Cursor at the start of the file.
    pub(super) fn cursor(&self) -> Cursor {
        Cursor { shared: self.clone(), at: 0 }
    }
}

impl Length for Shared {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for Shared {
    type T = BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::with_capacity(BUFFER_BYTES, Cursor { shared: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // Rejects a length from a damaged file before memory is allocated for it.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len) {
            return Err(ParquetError::EOF(format!("bytes {start} to {length} further are not in the file")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Ok(bytes.into())
    }
}

/// Read position in a file.
pub(super) struct Cursor {
    shared: Shared,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.shared.file.read_at(out, self.at)?;
        self.at += count as u64;
        self.shared.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.shared.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
