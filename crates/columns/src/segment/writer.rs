//! Writes segments: blocks as they arrive, everything else at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use env::{Env, File, Open};
use model::{ColumnId, DataType, Error, Lsn, Result, TimeRange};

use super::commit_times::CommitTimesWriter;
use super::format::{
    ColumnEntry, DirectoryWriter, Footer, IndexEntry, Place, Trailer, VERSION, header, read_index, write_index_entry,
};
use super::{BLOCK_ROWS_MAX, BlockMeta, BlockRows, ColumnStats, SegmentMeta, file_name, rows_chunk};
use crate::encoding::{self, Dense, Features, Form, encode_dense};
use crate::history;
use crate::rows::{Op, Ops};

/// Encoded bytes are written to the file in pieces of about this size.
const WRITE_BYTES: usize = 1 << 20;

/// Writes one segment: blocks in order, then the directories. The file appears under its name only
/// after [`SegmentWriter::finish`] has synced it. A writer that is dropped before removes its
/// `.tmp` file; if that fails, the next open removes it.
///
/// Memory, in addition to the caller's rows: one column of one block, up to 1 MiB of encoded bytes,
/// and the directories (about 30 bytes per block and column).
pub struct SegmentWriter {
    env: Arc<dyn Env>,
    file: Arc<dyn File>,
    number: u64,
    dir: PathBuf,
    path: PathBuf,
    temporary: PathBuf,
    columns: Vec<ColumnWriter>,
    form: Form,
    /// Encoded bytes that are not written yet; their file offset is `written`.
    buffer: Vec<u8>,
    written: u64,
    index: Vec<u8>,
    commit_times: CommitTimesWriter,
    last_entry: Option<IndexEntry>,
    totals: Totals,
    /// Features of all that was encoded.
    features: Features,
    renamed: bool,
    finished: bool,
}

struct ColumnWriter {
    id: ColumnId,
    ty: DataType,
    directory: DirectoryWriter,
}

/// Totals of all blocks so far.
struct Totals {
    rows: u64,
    blocks: u64,
    times: TimeRange,
    first_series: u32,
    settled: bool,
}

impl SegmentWriter {
    /// Creates the file, for `columns` (fields, sorted by id).
    ///
    /// # Errors
    /// 58030 or 53100 when the file cannot be created.
    pub fn create(env: Arc<dyn Env>, dir: &Path, file: u64, columns: &[(ColumnId, DataType)]) -> Result<SegmentWriter> {
        if !columns.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Error::bug("columns of a segment must be sorted by id"));
        }
        let path = dir.join(file_name(file));
        let temporary = env::temporary_path(&path);
        // A failed attempt may have left a file that it could not remove.
        match env.remove(&temporary) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io("remove", &temporary, &error)),
            _ => {}
        }
        let handle = env.open(&temporary, Open::CreateNew).map_err(|error| io("create", &temporary, &error))?;
        let column = |&(id, ty): &(ColumnId, DataType)| ColumnWriter { id, ty, directory: DirectoryWriter::default() };
        Ok(SegmentWriter {
            env,
            file: handle,
            number: file,
            dir: dir.to_owned(),
            path,
            temporary,
            columns: columns.iter().map(column).collect(),
            form: Form::Compressed,
            buffer: header(file, VERSION).to_vec(),
            written: 0,
            index: Vec::new(),
            commit_times: CommitTimesWriter::default(),
            last_entry: None,
            totals: Totals { rows: 0, blocks: 0, times: TimeRange::EMPTY, first_series: 0, settled: true },
            features: Features::NONE,
            renamed: false,
            finished: false,
        })
    }

    /// Sets the encoding of chunks; the default is [`Form::Compressed`].
    #[must_use]
    pub fn with_form(mut self, form: Form) -> SegmentWriter {
        self.form = form;
        self
    }

    /// Appends a block of 1 ..= BLOCK_ROWS_MAX sorted rows, whose first (series, time) is not
    /// before the previous block's last.
    ///
    /// # Errors
    /// 58030 or 53100 when writing fails; XX000 when the rows do not meet the conditions. The
    /// writer is unusable afterwards.
    pub fn write(&mut self, rows: &BlockRows) -> Result<()> {
        let meta = self.check_rows(rows)?;
        let at = self.position();
        self.features |= rows_chunk::write(&rows.series, &rows.times, &rows.ops, self.form, &mut self.buffer);
        let rows_place = self.place_since(at, at)?;
        let mut arrays = rows.columns.iter().peekable();
        for column in 0..self.columns.len() {
            let array = arrays.next_if(|(id, _)| *id == self.columns[column].id).map(|(_, array)| array);
            self.write_column(column, at, array)?;
        }
        if let Some((id, _)) = arrays.next() {
            return Err(Error::bug(format!("column {id} is not one of the segment's, or out of order")));
        }
        let bytes = u32::try_from(self.position() - at).map_err(|_| block_too_large())?;
        let rows_bytes = rows_place.bytes;
        assert!((1..=bytes).contains(&rows_bytes), "BUG: a rows chunk of {rows_bytes} bytes in a block of {bytes}");
        self.add_to_totals(rows, &meta);
        let entry = IndexEntry { meta, at, bytes, rows: rows_place };
        write_index_entry(self.last_entry.as_ref(), &entry, &mut self.index);
        self.last_entry = Some(entry);
        Ok(())
    }

    fn write_column(&mut self, column: usize, block_at: u64, array: Option<&ArrayRef>) -> Result<()> {
        let Some(array) = array.filter(|array| array.null_count() < array.len()) else {
            self.columns[column].directory.push_null();
            return Ok(());
        };
        let at = self.position();
        let ColumnWriter { id, ty, .. } = self.columns[column];
        let indexed = history::is_history_column(id).then(|| self.commit_times.indexed(array));
        let dense = Dense::of(ty, array).map_err(|error| error.context(format!("column {id}")))?;
        self.features |= match &indexed {
            Some(indexed) => encode_dense(&Dense::of(ty, indexed)?, indexed, self.form, &mut self.buffer),
            None => encode_dense(&dense, array, self.form, &mut self.buffer),
        };
        let place = self.place_since(at, block_at)?;
        let stats = ColumnStats::of(ty, array, &dense);
        debug_assert!(self.stats_agree(&place, column, array, &stats), "BUG: statistics of column {id}: {stats:?}");
        self.features |= stats.features();
        self.columns[column].directory.push(&place, &stats);
        if self.buffer.len() >= WRITE_BYTES { self.write_buffer() } else { Ok(()) }
    }

    /// Whether the chunk that was appended to the buffer last has these statistics. For debug assertions.
    fn stats_agree(&self, place: &Place, column: usize, array: &ArrayRef, stats: &ColumnStats) -> bool {
        let ColumnWriter { id, ty, .. } = self.columns[column];
        let chunk = &self.buffer[self.buffer.len() - place.bytes as usize..];
        let Ok(mut decoded) = encoding::decode(ty, array.len(), chunk) else { return false };
        if history::is_history_column(id) {
            let Ok(times) = self.commit_times.resolve(&decoded) else { return false };
            decoded = times;
        }
        let Ok(dense) = Dense::of(ty, &decoded) else { return false };
        ColumnStats::of(ty, &decoded, &dense).agrees_with(stats)
    }

    /// Location of the chunk that was appended to the buffer last.
    fn place_since(&self, at: u64, block_at: u64) -> Result<Place> {
        let chunk = &self.buffer[(at - self.written) as usize..];
        assert!(!chunk.is_empty(), "BUG: a chunk without bytes, which stands for all NULL");
        let offset = u32::try_from(at - block_at).map_err(|_| block_too_large())?;
        let bytes = u32::try_from(chunk.len()).map_err(|_| block_too_large())?;
        Ok(Place { offset, bytes, crc: crc32c::crc32c(chunk) })
    }

    /// Size of the file so far, including encoded bytes that are not written yet.
    pub(crate) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn write_buffer(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written).map_err(|error| io("write", &self.temporary, &error))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn check_rows(&self, rows: &BlockRows) -> Result<BlockMeta> {
        let count = rows.series.len();
        let lengths_agree = rows.times.len() == count
            && rows.columns.iter().all(|(_, array)| array.len() == count)
            && !matches!(&rows.ops, Ops::Each { of, .. } if of.len() != count);
        if count == 0 || count > BLOCK_ROWS_MAX || !lengths_agree {
            return Err(Error::bug(format!("a block of {count} series, {} times is malformed", rows.times.len())));
        }
        let key = |row: usize| (rows.series[row], rows.times[row]);
        let first = key(0);
        let after = self.last_entry.as_ref().map_or((0, i64::MIN), |entry| entry.meta.last);
        if first < after || (1..count).any(|row| key(row) < key(row - 1)) {
            return Err(Error::bug(format!("rows of a block are not sorted, or begin before {after:?}")));
        }
        let start = rows.times.iter().copied().min().unwrap_or_default();
        let last = rows.times.iter().copied().max().unwrap_or_default();
        Ok(BlockMeta { rows: count as u32, first, last: key(count - 1), times: TimeRange { start, last } })
    }

    fn add_to_totals(&mut self, rows: &BlockRows, meta: &BlockMeta) {
        let repeats_last = self.last_entry.as_ref().is_some_and(|entry| entry.meta.last == meta.first);
        let repeats = |row: usize| (rows.series[row], rows.times[row]) == (rows.series[row - 1], rows.times[row - 1]);
        let totals = &mut self.totals;
        if totals.blocks == 0 {
            totals.first_series = meta.first.0;
        }
        totals.settled &= all_replace(&rows.ops) && !repeats_last && !(1..rows.series.len()).any(repeats);
        totals.rows += u64::from(meta.rows);
        totals.blocks += 1;
        totals.times.start = totals.times.start.min(meta.times.start);
        totals.times.last = totals.times.last.max(meta.times.last);
    }

    /// Writes directories, index and footer, syncs and renames the file, syncs the folder.
    ///
    /// # Errors
    /// 58030 or 53100 when a step fails. Then no file has the segment's name, unless removing it
    /// failed too.
    pub fn finish(mut self, lsns: (Lsn, Lsn)) -> Result<SegmentMeta> {
        if self.last_entry.is_none() {
            return Err(Error::bug("a segment without rows"));
        }
        assert!(lsns.0 <= lsns.1, "BUG: a segment of commits {} to {}", lsns.0, lsns.1);
        self.write_end(lsns)?;
        let Some(last_entry) = self.last_entry.take() else { return Err(Error::bug("a segment without rows")) };
        self.write_buffer()?;
        self.file.sync().map_err(|error| io("sync", &self.temporary, &error))?;
        self.env.rename(&self.temporary, &self.path).map_err(|error| io("rename", &self.temporary, &error))?;
        self.renamed = true;
        self.env.sync_dir(&self.dir).map_err(|error| io("sync folder", &self.dir, &error))?;
        self.finished = true;
        Ok(SegmentMeta {
            file: self.number,
            lsns,
            times: self.totals.times,
            series: (self.totals.first_series, last_entry.meta.last.0),
            rows: self.totals.rows,
            bytes: self.written,
        })
    }

    fn write_end(&mut self, lsns: (Lsn, Lsn)) -> Result<()> {
        let directories_at = self.position();
        let mut entries = Vec::with_capacity(self.columns.len());
        for column in std::mem::take(&mut self.columns) {
            let (at, start) = (self.position(), self.buffer.len());
            if column.id == history::WRITTEN_AT {
                self.features |= self.commit_times.write(&mut self.buffer);
            }
            column.directory.write(&mut self.buffer);
            let directory = &self.buffer[start..];
            let (bytes, crc) = (directory.len() as u64, crc32c::crc32c(directory));
            entries.push(ColumnEntry { id: column.id, ty: column.ty, at, bytes, crc });
            if self.buffer.len() >= WRITE_BYTES {
                self.write_buffer()?;
            }
        }
        let index_at = self.position();
        let end = entries.last().map_or(directories_at, |column: &ColumnEntry| column.at + column.bytes);
        assert!(end == index_at, "BUG: directories end at {end}, the index begins at {index_at}");
        let blocks = self.totals.blocks;
        debug_assert!(
            read_index(blocks, &self.index).is_ok_and(|entries| entries.last() == self.last_entry.as_ref()),
            "BUG: an index of {blocks} blocks that cannot be read"
        );
        let index_crc = crc32c::crc32c(&self.index);
        self.buffer.append(&mut self.index);
        let (footer_at, start) = (self.position(), self.buffer.len());
        let Totals { rows, blocks, settled, .. } = self.totals;
        let features = self.features;
        let footer = Footer { features, rows, blocks, settled, lsns, directories_at, columns: entries };
        footer.write(&mut self.buffer);
        debug_assert_eq!(Footer::read(VERSION, &self.buffer[start..]).as_ref(), Ok(&footer), "BUG: footer");
        let footer_crc = crc32c::crc32c(&self.buffer[start..]);
        Trailer { index_at, footer_at, index_crc, footer_crc, file: self.number, version: VERSION }
            .write(&mut self.buffer);
        Ok(())
    }
}

impl Drop for SegmentWriter {
    /// Removes the file of an unfinished writer. Errors are ignored: the next open removes strays.
    fn drop(&mut self) {
        if !self.finished {
            let path = if self.renamed { &self.path } else { &self.temporary };
            let _ = self.env.remove(path);
        }
    }
}

fn all_replace(ops: &Ops) -> bool {
    match ops {
        Ops::All(op) => *op == Op::Replace,
        Ops::Each { list, of } => of.iter().all(|index| list.get(usize::from(*index)) == Some(&Op::Replace)),
    }
}

fn block_too_large() -> Error {
    Error::bug("a block of more than 4 GiB")
}

fn io(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::io(format!("{what} {}", path.display()), error)
}
