//! Checks log files without opening the log: for `millrace inspect` and `check`, and for fuzzing.

use std::path::Path;

use env::{Env, Open};
use model::{Lsn, Result};

use crate::format::{self, Decoded, FILE_HEADER_BYTES, FileHeader};
use crate::open::io_error;

/// Result of checking the bytes of one log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// The file header, if it is intact.
    pub header: Option<FileHeader>,
    /// Number of good records, without durable marks.
    pub records: u64,
    /// Payload bytes of the records.
    pub payload_bytes: u64,
    /// Number of durable marks.
    pub marks: u64,
    /// LSN of the last good record or mark; the first is in the header.
    pub last: Option<Lsn>,
    /// Highest durable LSN that a good record states.
    pub durable: Lsn,
    /// Offset of the end of the good records.
    pub end: u64,
    /// The problem with the header, or with the bytes at `end` that are not zeros: a torn tail, or
    /// damage.
    pub problem: Option<String>,
    /// Whether the problem is damage: the record at `end` was durable, or header or size are wrong,
    /// which are durable before the file gets its name.
    pub is_damaged: bool,
}

/// One file of a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// Name without the directory.
    pub name: String,
    /// Size of the file.
    pub bytes: u64,
    /// Result of checking its contents.
    pub check: FileCheck,
}

/// Checks the bytes of a log file and passes LSN and payload of each good record (empty for marks)
/// to `each`. Accepts any bytes; problems are in the result.
pub fn check_file_bytes(bytes: &[u8], each: &mut dyn FnMut(Lsn, &[u8])) -> FileCheck {
    let header = match FileHeader::decode(bytes) {
        Ok(header) => header,
        Err(problem) => return FileCheck { problem: Some(problem), is_damaged: true, ..FileCheck::default() },
    };
    let mut check = FileCheck { header: Some(header), ..FileCheck::default() };
    let (seed, mut at, mut next) = (header.seed(), FILE_HEADER_BYTES, header.first_lsn);
    let bad = loop {
        match format::decode(bytes, at, seed, next) {
            Decoded::Record(record) => {
                at += record.bytes();
                check.count(&record);
                each(record.lsn, record.payload);
            }
            Decoded::End => break None,
            Decoded::Bad(what) => break Some(what),
        }
        next = next.next();
    };
    check.end = at as u64;
    check.check_end(bytes, at, next, bad);
    check
}

impl FileCheck {
    fn count(&mut self, record: &format::Record<'_>) {
        self.last = Some(record.lsn);
        self.durable = self.durable.max(record.durable);
        if record.payload.is_empty() {
            self.marks += 1;
        } else {
            self.records += 1;
            self.payload_bytes += record.payload.len() as u64;
        }
    }

    fn check_end(&mut self, bytes: &[u8], at: usize, next: Lsn, bad: Option<String>) {
        let reserved = self.header.map_or(0, |header| header.reserved);
        if (bytes.len() as u64) < reserved {
            self.problem = Some(format!("{} bytes, {reserved} expected: the file was truncated", bytes.len()));
            self.is_damaged = true;
            return;
        }
        let junk = format::written_bytes(&bytes[at..]);
        if junk == 0 {
            return;
        }
        let what = bad.unwrap_or_else(|| "zeros".to_owned());
        self.problem = Some(format!("record {next} at byte {at}: {what}; {junk} bytes follow"));
        let seed = self.header.map_or(0, |header| header.seed());
        self.is_damaged = format::find_acknowledgement(bytes, at, seed, next).is_some();
    }
}

/// Checks every log file of a directory, oldest first.
///
/// # Errors
/// 58030 for I/O.
pub fn list_files(env: &dyn Env, dir: &Path) -> Result<Vec<FileSummary>> {
    let entries = env.list(dir).map_err(|e| io_error("list folder", dir, &e))?;
    let logs = entries.into_iter().filter(|entry| entry.name.ends_with(".log"));
    logs.map(|entry| {
        let path = dir.join(&entry.name);
        let file = env.open(&path, Open::Read).map_err(|e| io_error("open", &path, &e))?;
        let mut bytes = vec![0; usize::try_from(entry.bytes).unwrap_or(usize::MAX)];
        file.read_at(&mut bytes, 0).map_err(|e| io_error("read", &path, &e))?;
        let check = check_file_bytes(&bytes, &mut |_, _| {});
        Ok(FileSummary { name: entry.name, bytes: entry.bytes, check })
    })
    .collect()
}
