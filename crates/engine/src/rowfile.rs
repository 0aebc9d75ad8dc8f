//! Checkpoint files of `rows` tables: written by a checkpoint, read at the next start. Bytes:
//! docs/format/row-files.md, pinned by the golden test below.
//!
//! A table is written in parts, ranges of record numbers, each in a file of its own that is
//! rewritten when the part has changed. A file holds the newest committed version of each row when
//! it was read, so it is no consistent snapshot; replaying the log from the checkpoint's LSN makes
//! it one. Before a manifest names a file, the log must be durable up to
//! [`RowPartWriter::rows_lsn`].

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Env, File, Open};
use model::{Error, Lsn, Result, TableId};
use rows::{RecordId, Records};

use crate::codec::{Put, Take, unzigzag, zigzag};

/// "millrows" as bytes.
const MAGIC: &[u8; 8] = b"MILLROWS";
/// The version of files without large blocks, and of files with them.
const VERSION: u32 = 1;
const VERSION_LARGE: u32 = 2;
const HEADER_BYTES: usize = 8 + 4 + 4 + 8 + 4;
/// A block is closed when it reaches this size.
const BLOCK_BYTES: usize = 256 << 10;
/// Length and checksum of a block, before its body.
const BLOCK_HEADER_BYTES: usize = 4 + 4;
/// Upper limit for a block: one row may exceed the block size.
const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + model::limits::ROW_BYTES_MAX + 64;
/// Upper limit for a block of version 1, whose readers refuse larger ones as damage.
const SMALL_BLOCK_BYTES_MAX: usize = BLOCK_BYTES + (960 << 10) + 64;
/// Complete blocks of this size are written at once.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes read at a time: touching new memory costs more than reading into it.
const READ_BYTES: usize = 1 << 20;
/// The name of these files in error messages.
const WHAT: &str = "file of rows";
/// Records visited under one epoch guard, so that memory unlinked meanwhile can be freed.
const RECORDS_PER_GUARD: u64 = 1_024;

/// The checkpoint files of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFiles {
    /// The version of the table at which its records were created; files with another value are
    /// obsolete.
    pub since: u32,
    /// Parts by number, ascending.
    pub parts: Vec<RowPart>,
}

/// One part of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPart {
    /// Number of the part, which determines its record numbers.
    pub part: u64,
    /// Number of the file; 0 if the part has no rows.
    pub file: u64,
    /// All commits up to here are in the file.
    pub lsn: Lsn,
    /// Size of the file.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
}

impl RowFiles {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(self.since);
        put_parts(self.parts.iter(), self.parts.len(), out);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Result<RowFiles> {
        let files = RowFiles { since: take.u32()?, parts: take_parts(take)? };
        take.end()?;
        Ok(files)
    }

    /// Appends the difference to `old`: the version of the table, the numbers of removed parts, and
    /// all added or changed parts.
    pub(crate) fn encode_change(&self, old: &RowFiles, out: &mut Vec<u8>) {
        let place_in = |files: &RowFiles, part: u64| files.parts.binary_search_by_key(&part, |part| part.part).ok();
        let is_removed = |part: &&RowPart| place_in(self, part.part).is_none();
        let is_new = |part: &&RowPart| place_in(old, part.part).is_none_or(|at| old.parts[at] != **part);
        out.put_u32(self.since);
        out.put_u32(old.parts.iter().filter(is_removed).count() as u32);
        old.parts.iter().filter(is_removed).for_each(|part| out.put_u64(part.part));
        put_parts(self.parts.iter().filter(is_new), self.parts.iter().filter(is_new).count(), out);
    }

    /// Applies the bytes of [`RowFiles::encode_change`].
    pub(crate) fn apply_change(&mut self, take: &mut Take<'_>) -> Result<()> {
        self.since = take.u32()?;
        let mut parts: BTreeMap<u64, RowPart> = self.parts.iter().map(|part| (part.part, *part)).collect();
        for _ in 0..take.count(8)? {
            let part = take.u64()?;
            if parts.remove(&part).is_none() {
                return Err(take.malformed(&format!("removes part {part}, which does not exist")));
            }
        }
        parts.extend(take_parts(take)?.into_iter().map(|part| (part.part, part)));
        self.parts = parts.into_values().collect();
        take.end()
    }

    /// Numbers of the files.
    pub fn files(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|part| part.file).filter(|file| *file != 0)
    }
}

fn put_parts<'a>(parts: impl Iterator<Item = &'a RowPart>, count: usize, out: &mut Vec<u8>) {
    out.put_u32(count as u32);
    for part in parts {
        for number in [part.part, part.file, part.lsn.0, part.bytes, part.rows] {
            out.put_u64(number);
        }
    }
}

fn take_parts(take: &mut Take<'_>) -> Result<Vec<RowPart>> {
    let count = take.count(40)?;
    let mut parts: Vec<RowPart> = Vec::with_capacity(count);
    for _ in 0..count {
        let (part, file, lsn) = (take.u64()?, take.u64()?, Lsn(take.u64()?));
        let part = RowPart { part, file, lsn, bytes: take.u64()?, rows: take.u64()? };
        if parts.last().is_some_and(|last| last.part >= part.part) {
            return Err(take.malformed(&format!("have part {} twice or out of order", part.part)));
        }
        parts.push(part);
    }
    Ok(parts)
}

/// The path of a checkpoint file within the data directory.
#[must_use]
pub fn row_file_path(dir: &Path, file: u64) -> PathBuf {
    dir.join(format!("rows-{file:016x}.row"))
}

/// Writes a part in steps.
pub(crate) struct RowPartWriter {
    part: RowPart,
    path: PathBuf,
    file: Option<Arc<dyn File>>,
    next: u64,
    rows_lsn: Lsn,
    block: Block,
    table: TableId,
}

/// The block that is being filled.
struct Block {
    /// Space for length and checksum, then the body.
    bytes: Vec<u8>,
    last: (u64, u64),
    /// Size of the largest body of the file so far.
    largest: usize,
}

impl Default for Block {
    fn default() -> Block {
        Block { bytes: vec![0; BLOCK_HEADER_BYTES], last: (0, 0), largest: 0 }
    }
}

impl Block {
    fn is_empty(&self) -> bool {
        self.bytes.len() == BLOCK_HEADER_BYTES
    }

    /// Whether a row of `bytes` belongs to the next block.
    fn is_full_before(&self, bytes: usize) -> bool {
        !self.is_empty() && self.bytes.len() - BLOCK_HEADER_BYTES + bytes > BLOCK_BYTES
    }

    fn push(&mut self, record: RecordId, lsn: Lsn, row: &[u8]) {
        let delta = |now: u64, before: u64| zigzag(now.wrapping_sub(before).cast_signed());
        self.bytes.put_varint(delta(record.0, self.last.0));
        self.bytes.put_varint(delta(lsn.0, self.last.1));
        self.bytes.put_varint(row.len() as u64);
        self.bytes.extend_from_slice(row);
        self.last = (record.0, lsn.0);
    }

    /// Appends the block to `out` and starts the next one.
    fn take(&mut self, out: &mut Vec<u8>) {
        let body = self.bytes.len() - BLOCK_HEADER_BYTES;
        // A reader refuses larger ones.
        assert!(body <= BLOCK_BYTES_MAX, "BUG: a block of {body} bytes in a file of rows");
        let crc = crc32c::crc32c(&self.bytes[BLOCK_HEADER_BYTES..]);
        self.bytes[..4].copy_from_slice(&(body as u32).to_le_bytes());
        self.bytes[4..BLOCK_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.largest = self.largest.max(body);
        self.last = (0, 0);
        if out.is_empty() {
            // No copy: the block may be large.
            std::mem::swap(out, &mut self.bytes);
        } else {
            out.extend_from_slice(&self.bytes);
        }
        self.bytes.clear();
        self.bytes.resize(BLOCK_HEADER_BYTES, 0);
    }
}

impl RowPartWriter {
    /// Starts a part that has all commits up to `lsn`. The file is created with the first row.
    pub(crate) fn new(dir: &Path, table: TableId, part: u64, file: u64, lsn: Lsn) -> RowPartWriter {
        assert!(file != 0, "BUG: file number 0 means that a part has no file");
        RowPartWriter {
            part: RowPart { part, file, lsn, bytes: 0, rows: 0 },
            path: row_file_path(dir, file),
            file: None,
            next: 0,
            rows_lsn: Lsn::ZERO,
            block: Block::default(),
            table,
        }
    }

    /// The header for the blocks so far.
    fn header(&self) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.put_u32(if self.block.largest > SMALL_BLOCK_BYTES_MAX { VERSION_LARGE } else { VERSION });
        header.put_u32(self.table.0);
        header.put_u64(self.part.part);
        let sum = crc32c::crc32c(&header);
        header.put_u32(sum);
        header
    }

    /// Writes about `bytes` bytes; returns the part when it is complete.
    ///
    /// # Errors
    /// 58030, 53100. The file may exist.
    pub(crate) fn step(&mut self, env: &dyn Env, records: &Records, bytes: u64) -> Result<Option<RowPart>> {
        let range = records.part(self.part.part);
        let before = self.part.bytes;
        self.next = self.next.max(range.start);
        while self.next < range.end {
            if self.part.bytes - before >= bytes {
                return Ok(None);
            }
            let guard = &crossbeam_epoch::pin();
            let last = range.end.min(self.next + RECORDS_PER_GUARD);
            let (mut rows, mut rows_lsn) = (0, self.rows_lsn);
            // Blocks end between runs of records, unless rows are large.
            let mut full = Vec::new();
            let block = &mut self.block;
            let end = records.committed(self.next..last, guard, |record, lsn, row| {
                // A deletion leaves no row in the file, but a crash must not undo it either.
                rows_lsn = rows_lsn.max(lsn);
                let Some(row) = row else { return ControlFlow::Continue(()) };
                debug_assert!(range.contains(&record.0), "BUG: record {} in part {range:?}", record.0);
                if block.is_full_before(row.len()) {
                    block.take(&mut full);
                }
                block.push(record, lsn, row);
                rows += 1;
                if full.len() < WRITE_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            (self.part.rows, self.rows_lsn, self.next) = (self.part.rows + rows, rows_lsn, end);
            self.write(env, &full)?;
        }
        if !self.block.is_empty() {
            let mut last = Vec::new();
            self.block.take(&mut last);
            self.write(env, &last)?;
        }
        let (part, rows, bytes) = (self.part.part, self.part.rows, self.part.bytes);
        assert!(self.next == range.end, "BUG: part {part} ends at record {}, not {}", self.next, range.end);
        assert!(self.file.is_some() == (rows > 0), "BUG: part {part} has {rows} rows in {bytes} bytes");
        match &self.file {
            Some(file) => {
                if self.block.largest > SMALL_BLOCK_BYTES_MAX {
                    // The first block may have been small.
                    file.write_at(&self.header(), 0).map_err(|error| self.io("write", &error))?;
                }
                file.sync().map_err(|error| self.io("sync", &error))?;
            }
            None => self.part.file = 0,
        }
        Ok(Some(self.part))
    }

    fn write(&mut self, env: &dyn Env, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            let file = env.open(&self.path, Open::CreateNew).map_err(|error| self.io("make", &error))?;
            file.write_at(&self.header(), 0).map_err(|error| self.io("write", &error))?;
            self.part.bytes = HEADER_BYTES as u64;
            self.file = Some(file);
        }
        if let Some(file) = &self.file {
            file.write_at(bytes, self.part.bytes).map_err(|error| self.io("write", &error))?;
            self.part.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    fn io(&self, what: &str, error: &std::io::Error) -> Error {
        Error::io(format!("{what} {}", self.path.display()), error)
    }

    /// Number of the file, which may not exist yet; 0 if the finished part has no rows.
    pub(crate) fn file(&self) -> u64 {
        self.part.file
    }

    /// The newest commit of a row that was written or, being deleted, left out.
    pub(crate) fn rows_lsn(&self) -> Lsn {
        self.rows_lsn
    }
}

/// Callback for each row.
type RowCallback<'a> = &'a mut dyn FnMut(RecordId, Lsn, &[u8]) -> Result<()>;

/// Calls `each` with every row of a file.
///
/// # Errors
/// XX001 naming the file and the damage; 58030; any error of `each`.
pub(crate) fn read_rows(
    env: &dyn Env,
    dir: &Path,
    table: TableId,
    part: &RowPart,
    each: RowCallback<'_>,
) -> Result<()> {
    if part.file == 0 {
        return Ok(());
    }
    let path = row_file_path(dir, part.file);
    let io = |what: &str, error: &std::io::Error| Error::io(format!("{what} {}", path.display()), error);
    let file = env.open(&path, Open::Read).map_err(|error| io("open", &error))?;
    let bytes = file.bytes().map_err(|error| io("length of", &error))?;
    if bytes != part.bytes {
        return Err(Error::corrupt(format!("{} has {bytes} bytes, {} expected", path.display(), part.bytes)));
    }
    let mut reader = Reader { file: &*file, bytes, next: 0, buffer: Vec::new(), at: 0 };
    decode_rows(&mut reader, table, part, each).map_err(|error| error.context(path.display()))
}

/// Sequential reader of a file that buffers a piece of it.
struct Reader<'a> {
    file: &'a dyn File,
    /// Size of the file.
    bytes: u64,
    /// Offset of the next piece.
    next: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer already consumed.
    at: usize,
}

impl Reader<'_> {
    fn is_at_end(&self) -> bool {
        self.at == self.buffer.len() && self.next == self.bytes
    }

    /// Returns the next `count` bytes.
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        if self.buffer.len() - self.at < count {
            self.fill(count)?;
        }
        let from = self.at;
        self.at += count;
        Ok(&self.buffer[from..self.at])
    }

    fn fill(&mut self, count: usize) -> Result<()> {
        let kept = self.buffer.len() - self.at;
        let left = self.bytes - self.next;
        if (count - kept) as u64 > left {
            let left = kept as u64 + left;
            return Err(malformed(&format!("ends early: {count} bytes expected, {left} are left")));
        }
        let piece = left.min((count - kept).max(READ_BYTES) as u64);
        self.buffer.copy_within(self.at.., 0);
        self.buffer.resize(kept + piece as usize, 0);
        let read = self.file.read_at(&mut self.buffer[kept..], self.next);
        read.map_err(|error| Error::io("read", &error))?;
        (self.next, self.at) = (self.next + piece, 0);
        Ok(())
    }

    fn u32(&mut self) -> Result<u32> {
        Take::new(self.take(4)?, WHAT).u32()
    }
}

fn malformed(problem: &str) -> Error {
    Take::new(&[], WHAT).malformed(problem)
}

fn decode_rows(file: &mut Reader<'_>, table: TableId, part: &RowPart, each: RowCallback<'_>) -> Result<()> {
    let header = file.take(HEADER_BYTES)?;
    let (header, sum) = header.split_at(HEADER_BYTES - 4);
    if crc32c::crc32c(header) != Take::new(sum, WHAT).u32()? {
        return Err(malformed("has a damaged header"));
    }
    let mut fields = Take::new(header, "header of a file of rows");
    if fields.take(8)? != MAGIC {
        return Err(fields.malformed("does not begin with MILLROWS"));
    }
    let version = fields.u32()?;
    if !(VERSION..=VERSION_LARGE).contains(&version) {
        let known = format!("this program reads versions {VERSION} to {VERSION_LARGE}");
        return Err(fields.malformed(&format!("has version {version}; {known}")));
    }
    let seen = (TableId(fields.u32()?), fields.u64()?);
    if seen != (table, part.part) {
        return Err(
            fields.malformed(&format!("is of table {} part {}, expected {table} part {}", seen.0, seen.1, part.part))
        );
    }
    let mut rows = 0;
    while !file.is_at_end() {
        let (length, sum) = (file.u32()? as usize, file.u32()?);
        if length > BLOCK_BYTES_MAX {
            return Err(malformed(&format!("has a block of {length} bytes")));
        }
        let body = file.take(length)?;
        let seen = crc32c::crc32c(body);
        if seen != sum {
            return Err(malformed(&format!("has a block with checksum {seen:08x}, expected {sum:08x}")));
        }
        rows += decode_block(body, part.part, each)?;
    }
    if rows != part.rows {
        return Err(malformed(&format!("has {rows} rows, {} expected", part.rows)));
    }
    Ok(())
}

fn decode_block(body: &[u8], part: u64, each: RowCallback<'_>) -> Result<u64> {
    let mut take = Take::new(body, "block of a file of rows");
    let (mut record, mut lsn, mut rows) = (0u64, 0u64, 0);
    while !take.is_empty() {
        record = record.wrapping_add_signed(unzigzag(take.varint()?));
        lsn = lsn.wrapping_add_signed(unzigzag(take.varint()?));
        let length = usize::try_from(take.varint()?).unwrap_or(usize::MAX);
        let row = take.take(length)?;
        if Records::part_of(RecordId(record)) != part || lsn > i64::MAX.cast_unsigned() {
            return Err(take.malformed(&format!("has record {record} at LSN {lsn}")));
        }
        each(RecordId(record), Lsn(lsn), row)?;
        rows += 1;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use env::sim::SimEnv;

    use super::*;

    fn rows() -> Records {
        let records = Records::new();
        let guard = &crossbeam_epoch::pin();
        let mut restoring = records.restoring();
        for (record, lsn, row) in [(1, 300, Some("ab")), (2, 400, None), (4, 301, Some(""))] {
            restoring.put(RecordId(record), Lsn(lsn), row.map(|row: &str| row.as_bytes().into()), guard).unwrap();
        }
        drop(restoring);
        records
    }

    fn written(env: &SimEnv, records: &Records) -> (RowPart, Vec<u8>) {
        let dir = Path::new("/d");
        env.create_dir_all(dir).unwrap();
        let mut writer = RowPartWriter::new(dir, TableId(9), 0, 5, Lsn(200));
        let part = loop {
            if let Some(part) = writer.step(env, records, 1).unwrap() {
                break part;
            }
        };
        let mut bytes = vec![0; part.bytes as usize];
        env.open(&row_file_path(dir, 5), Open::Read).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(writer.rows_lsn(), Lsn(400), "a row that is not there says something too");
        (part, bytes)
    }

    #[test]
    fn row_file_bytes_are_exactly_these() {
        let env = SimEnv::new(1);
        let (part, bytes) = written(&env, &rows());
        assert_eq!(part, RowPart { part: 0, file: 5, lsn: Lsn(200), bytes: 45, rows: 2 });
        assert_eq!(bytes[..24], *b"MILLROWS\x01\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes[28..32], [9, 0, 0, 0]);
        assert_eq!(bytes[36..], [2, 0xd8, 4, 2, b'a', b'b', 6, 2, 0]);
        let mut seen = Vec::new();
        read_rows(&env, Path::new("/d"), TableId(9), &part, &mut |record, lsn, row| {
            seen.push((record.0, lsn.0, row.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, 300, b"ab".to_vec()), (4, 301, Vec::new())]);
    }

    #[test]
    fn a_file_with_a_block_that_older_programs_refuse_has_version_2() {
        let guard = &crossbeam_epoch::pin();
        for (large, expected) in [(0, 1), (SMALL_BLOCK_BYTES_MAX - 6, 1), (SMALL_BLOCK_BYTES_MAX, 2), (8 << 20, 2)] {
            let (env, records) = (SimEnv::new(1), Records::new());
            let mut restoring = records.restoring();
            let sizes = [10, large, 20];
            for (record, bytes) in (1..).zip(sizes) {
                let row = vec![record as u8; bytes].into_boxed_slice();
                restoring.put(RecordId(record), Lsn(400), Some(row), guard).unwrap();
            }
            drop(restoring);
            let (part, bytes) = written(&env, &records);
            assert_eq!(bytes[8], expected, "{large}");
            let mut seen = Vec::new();
            read_rows(&env, Path::new("/d"), TableId(9), &part, &mut |record, _, row| {
                assert!(row.iter().all(|byte| u64::from(*byte) == record.0));
                seen.push(row.len());
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, sizes);
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let env = SimEnv::new(1);
        let (part, bytes) = written(&env, &rows());
        let decode_of = |table, bytes: &[u8]| {
            let path = Path::new("/d/wild");
            _ = env.remove(path);
            let file = env.open(path, Open::CreateNew).unwrap();
            file.write_at(bytes, 0).unwrap();
            let mut reader = Reader { file: &*file, bytes: bytes.len() as u64, next: 0, buffer: Vec::new(), at: 0 };
            decode_rows(&mut reader, table, &part, &mut |_, _, _| Ok(()))
        };
        let decode = |bytes: &[u8]| decode_of(TableId(9), bytes);
        decode(&bytes).unwrap();
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
        assert!(decode_of(TableId(8), &bytes).is_err(), "another table's");
    }

    #[test]
    fn invalid_blocks_are_refused_without_panic() {
        for body in [&[0xff; 20][..], &[1, 0, 0], &[2, 2, 9], &[0, 1, 0], &[2]] {
            assert!(decode_block(body, 0, &mut |_, _, _| Ok(())).is_err(), "{body:?}");
        }
    }

    #[test]
    fn a_part_without_rows_has_no_file() {
        let env = SimEnv::new(1);
        let mut writer = RowPartWriter::new(Path::new("/d"), TableId(9), 0, 5, Lsn(200));
        let part = writer.step(&env, &Records::new(), 1).unwrap().unwrap();
        assert_eq!((part.file, part.rows, part.bytes), (0, 0, 0));
    }
}
