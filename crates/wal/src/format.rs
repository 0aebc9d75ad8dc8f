//! Encoding of log files, as in docs/format/wal.md. Pure functions on slices; damaged bytes never
//! panic.

use model::Lsn;
use model::limits::RECORD_PAYLOAD_BYTES_MAX;

/// docs/format/wal.md, "File header".
pub(crate) const MAGIC: [u8; 8] = *b"MILLRLOG";
pub(crate) const VERSION: u32 = 1;
pub(crate) const FILE_HEADER_BYTES: usize = 64;
/// docs/format/wal.md, "Record".
pub(crate) const RECORD_HEADER_BYTES: usize = 24;

/// Upper limit for LSNs, so that arithmetic on an LSN read from a file cannot overflow.
const LSN_MAX: u64 = u64::MAX / 2;

/// The header of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Number of the database.
    pub identity: u64,
    /// Number of the file: 1 for the first ever, then consecutive.
    pub number: u64,
    /// LSN of the first record in the file.
    pub first_lsn: Lsn,
    /// Term of the writer, for fail-over.
    pub term: u64,
    /// Size of the file, reserved before its first record was written; 0 in files of an older
    /// version.
    pub reserved: u64,
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.identity.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first_lsn.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.term.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.reserved.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(FileHeader::decode(&bytes).as_ref(), Ok(self), "BUG: a file header that cannot be read");
        bytes
    }

    /// Decodes the header; the error describes the problem.
    pub(crate) fn decode(bytes: &[u8]) -> Result<FileHeader, String> {
        let Some(bytes) = bytes.get(..FILE_HEADER_BYTES) else {
            return Err(format!("{} bytes, shorter than its header of {FILE_HEADER_BYTES}", bytes.len()));
        };
        if bytes[..8] != MAGIC {
            return Err(format!("it starts with {:02x?}, not with \"MILLRLOG\"", &bytes[..8]));
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(format!("format version {version}; this program knows version {VERSION}"));
        }
        let (seen, expected) = (u32_at(bytes, 60), crc32c::crc32c(&bytes[..60]));
        if seen != expected {
            return Err(format!("header checksum {seen:08x}, expected {expected:08x}"));
        }
        let first_lsn = u64_at(bytes, 32);
        if !(1..=LSN_MAX).contains(&first_lsn) {
            return Err(format!("first LSN {first_lsn}, expected 1 to {LSN_MAX}"));
        }
        Ok(FileHeader {
            identity: u64_at(bytes, 16),
            number: u64_at(bytes, 24),
            first_lsn: Lsn(first_lsn),
            term: u64_at(bytes, 40),
            reserved: u64_at(bytes, 48),
        })
    }

    /// The initial value for the checksum of every record of this file.
    pub(crate) fn seed(&self) -> u32 {
        let mut prefix = [0; 24];
        prefix[..8].copy_from_slice(&self.identity.to_le_bytes());
        prefix[8..16].copy_from_slice(&self.term.to_le_bytes());
        prefix[16..].copy_from_slice(&self.number.to_le_bytes());
        crc32c::crc32c(&prefix)
    }
}

/// Appends a record without checksum and durable LSN, which [`seal`] adds when the target file is
/// known.
pub(crate) fn push_record(out: &mut Vec<u8>, lsn: Lsn, parts: &[&[u8]]) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
    for part in parts {
        out.extend_from_slice(part);
    }
    let payload_len = out.len() - start - RECORD_HEADER_BYTES;
    assert!(
        payload_len <= RECORD_PAYLOAD_BYTES_MAX,
        "BUG: record {lsn} has {payload_len} bytes, which no reader takes"
    );
    assert!((1..=LSN_MAX).contains(&lsn.0), "BUG: LSN {lsn}, at most {LSN_MAX} is read");
    out[start + 4..start + 8].copy_from_slice(&(payload_len as u32).to_le_bytes());
    out[start + 8..start + 16].copy_from_slice(&lsn.0.to_le_bytes());
}

/// Adds durable LSN and checksum to the records that [`push_record`] appended to `batch`.
pub(crate) fn seal(mut batch: &mut [u8], seed: u32, durable: Lsn) {
    while !batch.is_empty() {
        let end = RECORD_HEADER_BYTES + u32_at(batch, 4) as usize;
        let (record, rest) = batch.split_at_mut(end);
        let lsn = Lsn(u64_at(record, 8));
        debug_assert!(durable < lsn, "BUG: record {lsn} states that {durable} is durable");
        record[16..24].copy_from_slice(&durable.0.to_le_bytes());
        let crc = crc32c::crc32c_append(seed, &record[4..]);
        record[..4].copy_from_slice(&crc.to_le_bytes());
        batch = rest;
    }
}

/// Decodes a batch that was sealed; returns the LSN of the last record, or the problem. For debug assertions.
pub(crate) fn lsns(batch: &[u8], seed: u32, first: Lsn) -> Result<Lsn, String> {
    let (mut at, mut next) = (0, first);
    while at < batch.len() {
        match decode(batch, at, seed, next) {
            Decoded::Record(record) => at += record.bytes(),
            other => return Err(format!("record {next} at byte {at} of the batch: {other:?}")),
        }
        next = next.next();
    }
    Ok(Lsn(next.0 - 1))
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) durable: Lsn,
    /// Empty for a durable mark.
    pub(crate) payload: &'a [u8],
}

impl Record<'_> {
    pub(crate) fn bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.payload.len()
    }
}

/// Contents at an offset of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded<'a> {
    Record(Record<'a>),
    /// Zeros, or too few bytes for a record.
    End,
    /// Any other bytes, with a description of the problem.
    Bad(String),
}

/// Decodes the record at `at`, which must have LSN `expected`.
pub(crate) fn decode(bytes: &[u8], at: usize, seed: u32, expected: Lsn) -> Decoded<'_> {
    let Some(header) = bytes.get(at..).and_then(|rest| rest.get(..RECORD_HEADER_BYTES)) else {
        return Decoded::End;
    };
    if header.iter().all(|byte| *byte == 0) {
        return Decoded::End;
    }
    let payload_len = u32_at(header, 4) as usize;
    if payload_len > RECORD_PAYLOAD_BYTES_MAX {
        return Decoded::Bad(format!("payload of {payload_len} bytes, at most {RECORD_PAYLOAD_BYTES_MAX} expected"));
    }
    let end = at + RECORD_HEADER_BYTES + payload_len;
    let Some(record) = bytes.get(at..end) else {
        return Decoded::Bad(format!("it would end at byte {end}, after the end of the file at {}", bytes.len()));
    };
    let (seen, computed) = (u32_at(record, 0), crc32c::crc32c_append(seed, &record[4..]));
    if seen != computed {
        return Decoded::Bad(format!("checksum {seen:08x}, expected {computed:08x}"));
    }
    let (lsn, durable) = (Lsn(u64_at(record, 8)), Lsn(u64_at(record, 16)));
    if lsn != expected || durable >= lsn {
        return Decoded::Bad(format!("LSN {lsn} with durable LSN {durable}, expected LSN {expected}"));
    }
    Decoded::Record(Record { lsn, durable, payload: &record[RECORD_HEADER_BYTES..] })
}

/// Returns the size of the record according to its header, unverified; `None` when it is
/// impossible.
pub(crate) fn claimed_bytes(header: &[u8]) -> Option<usize> {
    let payload_len = u32_at(header.get(..RECORD_HEADER_BYTES)?, 4) as usize;
    (payload_len <= RECORD_PAYLOAD_BYTES_MAX).then_some(RECORD_HEADER_BYTES + payload_len)
}

/// Finds a good record after `at` that states that `bad` was durable: its offset and LSN.
///
/// Searches from every byte, because the length of a damaged record cannot be trusted. Only
/// candidates that would count are checksummed, so this is one pass over memory.
pub(crate) fn find_acknowledgement(bytes: &[u8], at: usize, seed: u32, bad: Lsn) -> Option<(usize, Lsn)> {
    // No record starts in the trailing zeros, though its payload may reach into them.
    let starts_end = (at + written_bytes(bytes.get(at..)?)).min((bytes.len() + 1).checked_sub(RECORD_HEADER_BYTES)?);
    (at..starts_end).find_map(|start| {
        let durable = u64_at(bytes, start + 16);
        let lsn = u64_at(bytes, start + 8);
        if durable < bad.0 || lsn <= durable {
            return None;
        }
        match decode(bytes, start, seed, Lsn(lsn)) {
            Decoded::Record(record) => Some((start, record.lsn)),
            _ => None,
        }
    })
}

/// Length without trailing zeros.
pub(crate) fn written_bytes(bytes: &[u8]) -> usize {
    const STEP: usize = 4096;
    let mut end = bytes.len();
    // Whole pages first: the compiler vectorises the fold, which it cannot do with `rposition`.
    while end >= STEP && bytes[end - STEP..end].iter().fold(0, |all, byte| all | byte) == 0 {
        end -= STEP;
    }
    bytes[..end].iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}
