//! Reads segments; each part is loaded at its first use.

use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, UInt32Array};
use env::{Env, File, Open};
use model::{ColumnId, DataType, Error, Result, TimeRange};

use super::commit_times;
use super::format::{self, ColumnEntry, Footer, IndexEntry, Place, TRAILER_BYTES, Trailer, check_crc};
use super::rows_chunk::{self, RowHeads};
use super::{BlockMeta, BlockRows, ChunkDescription, ColumnStats, SegmentMeta, StatValue, file_name};
use crate::cache::{CacheEntry, SegmentCache, Slot};
use crate::encoding::byte_io::Reader;
use crate::encoding::{self, Features};
use crate::history;

/// Chunks with at most this gap are read together: saving a call is worth reading a few hundred
/// bytes.
const GAP_BYTES_MAX: u64 = 512;

/// A segment open for reading. Opening reads nothing: footer and block index are read and verified
/// at first use, a column's directory at the first use of the column. These and the open file are
/// cached until the [`SegmentCache`] evicts them; the next use loads them again. The path stays
/// valid: a file is only removed when the last holder drops its segment.
///
/// Memory after use: about 140 bytes per block, 12 bytes per block and used column, and the
/// statistics that were used.
pub struct Segment {
    env: Arc<dyn Env>,
    path: PathBuf,
    meta: SegmentMeta,
    file: Arc<Slot<Arc<dyn File>>>,
    directory: Arc<Slot<Directory>>,
    remove: AtomicBool,
}

/// The blocks of a segment, in order. Holding this keeps the segment's directory in memory.
pub struct Blocks(Arc<CacheEntry<Directory>>);

impl Deref for Blocks {
    type Target = [BlockMeta];

    fn deref(&self) -> &[BlockMeta] {
        &self.0.blocks
    }
}

/// The columns of a segment, by id. Holding this keeps the segment's directory in memory.
pub struct Columns(Arc<CacheEntry<Directory>>);

impl Deref for Columns {
    type Target = [(ColumnId, DataType)];

    fn deref(&self) -> &[(ColumnId, DataType)] {
        &self.0.columns
    }
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl std::fmt::Debug for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Verified footer and block index, and the column directories loaded so far.
pub(crate) struct Directory {
    pub(super) footer: Footer,
    /// Format version of the file.
    pub(super) version: u32,
    pub(super) entries: Vec<IndexEntry>,
    blocks: Vec<BlockMeta>,
    columns: Vec<(ColumnId, DataType)>,
    /// Directories, in the order of `columns`.
    loaded: Vec<OnceLock<LoadedColumn>>,
}

/// A column's directory.
pub(super) struct LoadedColumn {
    /// Chunk location for each block.
    pub(super) places: Vec<Place>,
    /// Encoded statistics; decoded at first use.
    stats_bytes: Vec<u8>,
    /// The list of commit times, in the column [`history::WRITTEN_AT`].
    commit_times: Vec<i64>,
    stats: OnceLock<Arc<[ColumnStats]>>,
}

/// A chunk to read.
struct WantedChunk {
    at: u64,
    place: Place,
    /// Index into [`Directory::columns`]; `None` for the rows chunk.
    column: Option<usize>,
}

/// Receives the series and times of a block; returns the range of rows to decode, or `None` for all rows.
type ChooseRange<'f> = &'f mut dyn FnMut(&[u32], &[i64]) -> Option<Range<usize>>;
/// Receives each chunk with its bytes, and the counter of bytes read.
type EachChunk<'f> = &'f mut dyn FnMut(&WantedChunk, &[u8], &mut u64) -> Result<()>;

impl Segment {
    /// The segment described by `meta`, with a cache of its own that has no limits.
    pub fn open(env: Arc<dyn Env>, dir: &Path, meta: SegmentMeta) -> Segment {
        Segment::open_in(&SegmentCache::default(), env, dir, meta)
    }

    /// The segment described by `meta`, with a shared cache.
    pub fn open_in(cache: &SegmentCache, env: Arc<dyn Env>, dir: &Path, meta: SegmentMeta) -> Segment {
        Segment {
            env,
            path: dir.join(file_name(meta.file)),
            meta,
            file: Slot::new(&cache.files),
            directory: Slot::new(&cache.directories),
            remove: AtomicBool::new(false),
        }
    }

    /// The segment's entry in the manifest.
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// The blocks, in order.
    ///
    /// # Errors
    /// 58030 when the file cannot be read; XX001 when it is damaged or does not match
    /// [`Segment::meta`].
    pub fn blocks(&self) -> Result<Blocks> {
        self.directory(&mut 0).map(Blocks)
    }

    /// The stored columns, by id.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn columns(&self) -> Result<Columns> {
        self.directory(&mut 0).map(Columns)
    }

    /// Whether every row has a single version, written by [`Op::Replace`](crate::Op::Replace). True
    /// after a full compaction.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn settled(&self) -> Result<bool> {
        Ok(self.directory(&mut 0)?.footer.settled)
    }

    /// Features that a reader of the segment must know.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn features(&self) -> Result<Features> {
        Ok(self.directory(&mut 0)?.footer.features)
    }

    /// Statistics of a column, one per block; `None` if the segment does not store the column (all
    /// NULL).
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn column_stats(&self, column: ColumnId) -> Result<Option<Arc<[ColumnStats]>>> {
        let directory = self.directory(&mut 0)?;
        match directory.position(column) {
            Some(position) => self.stats_at(&directory, position, &mut 0).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn stats_at(
        &self,
        directory: &CacheEntry<Directory>,
        position: usize,
        read: &mut u64,
    ) -> Result<Arc<[ColumnStats]>> {
        let loaded = self.load_column(directory, position, read)?;
        if let Some(stats) = loaded.stats.get() {
            return Ok(Arc::clone(stats));
        }
        let (id, ty) = directory.columns[position];
        let mut reader = Reader::new(&loaded.stats_bytes);
        let stats = format::read_stats(ty, &directory.entries, &loaded.places, &mut reader);
        let stats = stats.map_err(|error| self.locate(error, format_args!("statistics of column {id}")))?;
        let (found, blocks) = (stats.len(), directory.entries.len());
        assert!(found == blocks, "BUG: statistics of {found} of {blocks} blocks");
        let mut is_new = false;
        let stats = loaded.stats.get_or_init(|| {
            is_new = true;
            stats.into()
        });
        if is_new {
            directory.grow(stats_bytes(stats));
        }
        Ok(Arc::clone(stats))
    }

    /// Reads series, times and operations of a block, and the given columns, without those that are
    /// all NULL in the block. Adds the bytes read to `bytes_read`, including those of directories.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn read(&self, block: usize, columns: &[ColumnId], bytes_read: &mut u64) -> Result<BlockRows> {
        self.read_range(block, (columns, false), bytes_read, &mut |_, _| None).map(|(rows, _)| rows)
    }

    /// Like [`Segment::read`], but decodes only a range of rows of the columns. `part` receives the
    /// decoded series and times and returns that range, or `None` for all rows. Returns the range
    /// too; series, times and operations are always complete. `coded`: return dictionary-encoded
    /// text as a dictionary.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub(crate) fn read_range(
        &self,
        block: usize,
        (columns, coded): (&[ColumnId], bool),
        bytes_read: &mut u64,
        part: ChooseRange<'_>,
    ) -> Result<(BlockRows, Option<Range<usize>>)> {
        let directory = self.directory(bytes_read)?;
        let mut positions: Vec<usize> = columns.iter().filter_map(|column| directory.position(*column)).collect();
        positions.sort_unstable();
        positions.dedup();
        let wanted = self.chunks_to_read(&directory, block, &positions, bytes_read)?;
        self.read_wanted(&directory, block, (&wanted, coded), bytes_read, part)
    }

    /// The rows chunk of `block` and its chunks of the columns at `positions`, in file order.
    fn chunks_to_read(
        &self,
        directory: &CacheEntry<Directory>,
        block: usize,
        positions: &[usize],
        read: &mut u64,
    ) -> Result<Vec<WantedChunk>> {
        let entry = self.entry(directory, block)?;
        let mut wanted = vec![WantedChunk { at: entry.at, place: entry.rows, column: None }];
        for position in positions {
            let place = self.load_column(directory, *position, read)?.places[block];
            if place.bytes > 0 {
                wanted.push(WantedChunk { at: entry.at + u64::from(place.offset), place, column: Some(*position) });
            }
        }
        wanted.sort_by_key(|wanted| wanted.at);
        Ok(wanted)
    }

    fn read_wanted(
        &self,
        directory: &CacheEntry<Directory>,
        block: usize,
        (wanted, coded): (&[WantedChunk], bool),
        bytes_read: &mut u64,
        part: ChooseRange<'_>,
    ) -> Result<(BlockRows, Option<Range<usize>>)> {
        let rows = directory.entries[block].meta.rows as usize;
        let (mut heads, mut range) = (None, None);
        let mut columns = Vec::with_capacity(wanted.len());
        self.each_chunk(wanted, bytes_read, &mut |chunk, bytes, bytes_read| {
            match chunk.column {
                // The rows chunk comes first.
                None => {
                    let rows = self.decode_rows(block, rows, chunk, bytes)?;
                    range = part(&rows.series, &rows.times);
                    heads = Some(rows);
                }
                Some(position) => {
                    let which = (position, &range, coded);
                    columns.push(self.decode_column(directory, block, chunk, which, bytes, bytes_read)?);
                }
            }
            Ok(())
        })?;
        let Some(RowHeads { series, times, ops }) = heads else {
            return Err(Error::bug("the rows chunk was not read"));
        };
        columns.sort_by_key(|(id, _)| *id);
        Ok((BlockRows { series, times, ops, columns }, range))
    }

    /// Reads columns only, for a known range of rows. `columns` must be distinct.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub(crate) fn read_columns(
        &self,
        block: usize,
        (columns, coded): (&[ColumnId], bool),
        part: &Option<Range<usize>>,
        bytes_read: &mut u64,
    ) -> Result<Vec<(ColumnId, ArrayRef)>> {
        let directory = self.directory(bytes_read)?;
        let mut positions: Vec<usize> = columns.iter().filter_map(|column| directory.position(*column)).collect();
        positions.sort_unstable();
        let mut wanted = self.chunks_to_read(&directory, block, &positions, bytes_read)?;
        wanted.retain(|chunk| chunk.column.is_some());
        let mut read = Vec::with_capacity(wanted.len());
        self.each_chunk(&wanted, bytes_read, &mut |chunk, bytes, bytes_read| {
            if let Some(position) = chunk.column {
                read.push(self.decode_column(&directory, block, chunk, (position, part, coded), bytes, bytes_read)?);
            }
            Ok(())
        })?;
        read.sort_by_key(|(id, _)| *id);
        Ok(read)
    }

    /// Reads chunks, close ones together, and calls `each` with the bytes of each chunk.
    fn each_chunk(&self, wanted: &[WantedChunk], bytes_read: &mut u64, each: EachChunk<'_>) -> Result<()> {
        for group in wanted.chunk_by(|a, b| b.at <= a.at + u64::from(a.place.bytes) + GAP_BYTES_MAX) {
            let start = group[0].at;
            let end = group.iter().map(|chunk| chunk.at + u64::from(chunk.place.bytes)).max().unwrap_or(start);
            let bytes = self.read_bytes(start, end - start, bytes_read)?;
            assert!(bytes.len() as u64 == end - start, "BUG: read {} bytes, expected {}", bytes.len(), end - start);
            for chunk in group {
                let from = (chunk.at - start) as usize;
                each(chunk, &bytes[from..from + chunk.place.bytes as usize], bytes_read)?;
            }
        }
        Ok(())
    }

    fn decode_rows(&self, block: usize, rows: usize, chunk: &WantedChunk, bytes: &[u8]) -> Result<RowHeads> {
        check_crc("rows chunk", bytes, chunk.place.crc)
            .and_then(|()| rows_chunk::read(rows, &mut Reader::new(bytes)))
            .map_err(|error| self.locate(error, format_args!("block {block}, rows, byte {}", chunk.at)))
    }

    fn decode_column(
        &self,
        directory: &CacheEntry<Directory>,
        block: usize,
        chunk: &WantedChunk,
        (position, part, coded): (usize, &Option<Range<usize>>, bool),
        bytes: &[u8],
        bytes_read: &mut u64,
    ) -> Result<(ColumnId, ArrayRef)> {
        let (id, ty) = directory.columns[position];
        let rows = directory.entries[block].meta.rows as usize;
        let kept_coded = || if coded { encoding::decode_coded(ty, rows, bytes) } else { Ok(None) };
        let decode = || match (kept_coded()?, part) {
            (Some(values), None) => Ok(values),
            (Some(values), Some(part)) => Ok(values.slice(part.start, part.len())),
            (None, None) => encoding::decode(ty, rows, bytes),
            (None, Some(part)) => match encoding::decode_part(ty, rows, part.clone(), bytes)? {
                Some(values) => Ok(values),
                None => copy_range(&encoding::decode(ty, rows, bytes)?, part),
            },
        };
        let mut array = check_crc("chunk", bytes, chunk.place.crc).and_then(|()| decode());
        if history::is_history_column(id) {
            let list = self.commit_times(directory, bytes_read)?;
            array = array.and_then(|indexed| commit_times::resolve(&indexed, list));
        }
        let place = format_args!("block {block}, column {id}, byte {}", chunk.at);
        let array = array.map_err(|error| self.locate(error, place))?;
        let (seen, expected) = (array.len(), part.as_ref().map_or(rows, Range::len));
        assert!(seen == expected, "BUG: {seen} values of column {id} in block {block}, expected {expected}");
        Ok((id, array))
    }

    /// The list of commit times; empty if no row was written since the history began.
    fn commit_times<'a>(&self, directory: &'a CacheEntry<Directory>, bytes_read: &mut u64) -> Result<&'a [i64]> {
        match directory.position(history::WRITTEN_AT) {
            Some(position) => Ok(&self.load_column(directory, position, bytes_read)?.commit_times),
            None => Ok(&[]),
        }
    }

    /// Size of column directories, statistics, block index, footer and trailer.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn directory_bytes(&self) -> Result<u64> {
        Ok(self.meta.bytes - self.directory(&mut 0)?.footer.directories_at)
    }

    /// Describes the encoding of a column's chunk, for `millrace inspect`; `None` if all its values
    /// are NULL.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn describe_chunk(&self, block: usize, column: ColumnId) -> Result<Option<ChunkDescription>> {
        let directory = self.directory(&mut 0)?;
        let entry = self.entry(&directory, block)?;
        let Some(position) = directory.position(column) else { return Ok(None) };
        let place = self.load_column(&directory, position, &mut 0)?.places[block];
        if place.bytes == 0 {
            return Ok(None);
        }
        let stats = self.stats_at(&directory, position, &mut 0)?[block].clone();
        let at = entry.at + u64::from(place.offset);
        let bytes = self.read_bytes(at, place.bytes.into(), &mut 0)?;
        let encoding = check_crc("chunk", &bytes, place.crc)
            .and_then(|()| encoding::describe(directory.columns[position].1, entry.meta.rows as usize, &bytes))
            .map_err(|error| self.locate(error, format_args!("block {block}, column {column}, byte {at}")))?;
        Ok(Some(ChunkDescription { encoding, at, bytes: place.bytes, stats: Some(stats) }))
    }

    /// The features of a column's chunk.
    pub(super) fn chunk_features(
        &self,
        directory: &CacheEntry<Directory>,
        block: usize,
        id: ColumnId,
    ) -> Result<Features> {
        let Some(position) = directory.position(id) else { return Ok(Features::NONE) };
        let entry = self.entry(directory, block)?;
        let place = self.load_column(directory, position, &mut 0)?.places[block];
        let bytes = self.read_bytes(entry.at + u64::from(place.offset), place.bytes.into(), &mut 0)?;
        encoding::features(directory.columns[position].1, entry.meta.rows as usize, &bytes)
    }

    /// Describes the encoding of series, times and operations of a block, for `millrace inspect`.
    ///
    /// # Errors
    /// See [`Segment::blocks`].
    pub fn describe_rows(&self, block: usize) -> Result<ChunkDescription> {
        let directory = self.directory(&mut 0)?;
        let entry = self.entry(&directory, block)?;
        let bytes = self.read_bytes(entry.at, entry.rows.bytes.into(), &mut 0)?;
        let mut reader = Reader::tracing(&bytes);
        check_crc("rows chunk", &bytes, entry.rows.crc)
            .and_then(|()| rows_chunk::read(entry.meta.rows as usize, &mut reader))
            .map_err(|error| self.locate(error, format_args!("block {block}, rows, byte {}", entry.at)))?;
        Ok(ChunkDescription { encoding: reader.into_trace(), at: entry.at, bytes: entry.rows.bytes, stats: None })
    }

    /// Removes the file when the last holder drops the segment (compaction, DROP).
    pub fn remove_when_unused(&self) {
        self.remove.store(true, Ordering::Release);
    }

    fn entry<'a>(&self, directory: &'a Directory, block: usize) -> Result<&'a IndexEntry> {
        let blocks = directory.entries.len();
        directory
            .entries
            .get(block)
            .ok_or_else(|| Error::bug(format!("block {block} of the {blocks} blocks of {}", self.path.display())))
    }

    /// Footer and block index, from the cache or the file.
    pub(super) fn directory(&self, bytes_read: &mut u64) -> Result<Arc<CacheEntry<Directory>>> {
        self.directory.get_or_make(0, || {
            let directory = self.load_directory(bytes_read)?;
            let bytes = directory.memory_bytes();
            Ok((directory, bytes))
        })
    }

    fn load_directory(&self, bytes_read: &mut u64) -> Result<Directory> {
        let length = self.file()?.bytes().map_err(|error| self.io("length of", &error))?;
        if length != self.meta.bytes {
            let text = format!("file has {length} bytes, the manifest says {}", self.meta.bytes);
            return Err(self.locate(Error::corrupt(text), "length"));
        }
        let trailer_at = length.saturating_sub(TRAILER_BYTES as u64);
        let mut trailer = [0; TRAILER_BYTES];
        let bytes = self.read_bytes(trailer_at, length - trailer_at, bytes_read)?;
        if bytes.len() != TRAILER_BYTES {
            return Err(self.locate(Error::corrupt(format!("{length} bytes are too few for a segment")), "trailer"));
        }
        trailer.copy_from_slice(&bytes);
        let trailer = Trailer::read(&trailer).map_err(|error| self.locate(error, "trailer"))?;
        let Trailer { index_at, footer_at, .. } = trailer;
        if trailer.file != self.meta.file || index_at > footer_at || footer_at > trailer_at {
            let text = format!("{trailer:?} does not fit file {} of {length} bytes", self.meta.file);
            return Err(self.locate(Error::corrupt(text), "trailer"));
        }
        let bytes = self.read_bytes(index_at, trailer_at - index_at, bytes_read)?;
        let (index, footer) = bytes.split_at((footer_at - index_at) as usize);
        self.parse_directory(&trailer, index, footer)
    }

    fn parse_directory(&self, trailer: &Trailer, index: &[u8], footer: &[u8]) -> Result<Directory> {
        let footer = check_crc("footer", footer, trailer.footer_crc)
            .and_then(|()| Footer::read(trailer.version, footer))
            .map_err(|error| self.locate(error, format_args!("footer, byte {}", trailer.footer_at)))?;
        let entries = check_crc("block index", index, trailer.index_crc)
            .and_then(|()| format::read_index(footer.blocks, index))
            .map_err(|error| self.locate(error, format_args!("block index, byte {}", trailer.index_at)))?;
        self.check_consistent(&footer, trailer, &entries).map_err(|error| self.locate(error, "footer"))?;
        Ok(Directory {
            blocks: entries.iter().map(|entry| entry.meta.clone()).collect(),
            columns: footer.columns.iter().map(|column| (column.id, column.ty)).collect(),
            loaded: footer.columns.iter().map(|_| OnceLock::new()).collect(),
            footer,
            version: trailer.version,
            entries,
        })
    }

    /// Verifies that footer, index and manifest agree. Later code relies on it, above all on the
    /// offsets.
    fn check_consistent(&self, footer: &Footer, trailer: &Trailer, entries: &[IndexEntry]) -> Result<()> {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Err(Error::corrupt("the segment has no blocks"));
        };
        let blocks_end = last.at + u64::from(last.bytes);
        let columns_end = footer.columns.last().map_or(footer.directories_at, |column| column.at + column.bytes);
        if blocks_end != footer.directories_at || columns_end != trailer.index_at {
            return Err(Error::corrupt(format!(
                "blocks end at {blocks_end}, directories go from {} to {columns_end}, the index begins at {}",
                footer.directories_at, trailer.index_at
            )));
        }
        let times = entries.iter().fold(TimeRange::EMPTY, |all, entry| TimeRange {
            start: all.start.min(entry.meta.times.start),
            last: all.last.max(entry.meta.times.last),
        });
        let found = SegmentMeta {
            file: trailer.file,
            lsns: footer.lsns,
            times,
            series: (first.meta.first.0, last.meta.last.0),
            rows: entries.iter().map(|entry| u64::from(entry.meta.rows)).sum(),
            bytes: self.meta.bytes,
        };
        if found != self.meta || footer.rows != found.rows {
            return Err(Error::corrupt(format!("the file says {found:?}, the manifest {:?}", self.meta)));
        }
        Ok(())
    }

    /// A column's directory; loads it at first use.
    pub(super) fn load_column<'a>(
        &self,
        directory: &'a CacheEntry<Directory>,
        position: usize,
        bytes_read: &mut u64,
    ) -> Result<&'a LoadedColumn> {
        let slot = &directory.loaded[position];
        if let Some(loaded) = slot.get() {
            return Ok(loaded);
        }
        let column = &directory.footer.columns[position];
        let bytes = self.read_bytes(column.at, column.bytes, bytes_read)?;
        let loaded = parse_column(column, &directory.entries, &bytes).map_err(|error| {
            self.locate(error, format_args!("directory of column {}, byte {}", column.id, column.at))
        })?;
        let mut is_new = false;
        let loaded = slot.get_or_init(|| {
            is_new = true;
            loaded
        });
        if is_new {
            directory.grow(loaded.memory_bytes());
        }
        Ok(loaded)
    }

    fn file(&self) -> Result<Arc<CacheEntry<Arc<dyn File>>>> {
        self.file.get_or_make(1, || {
            let file = self.env.open(&self.path, Open::Read).map_err(|error| self.io("open", &error))?;
            Ok((file, 1))
        })
    }

    /// Reads `bytes` bytes at offset `at`. The caller has verified that they are within the file's
    /// stated size.
    pub(super) fn read_bytes(&self, at: u64, bytes: u64, bytes_read: &mut u64) -> Result<Vec<u8>> {
        let mut buffer = vec![0; bytes as usize];
        self.file()?
            .read_at(&mut buffer, at)
            .map_err(|error| self.io(format_args!("read {bytes} bytes at {at} of"), &error))?;
        *bytes_read += bytes;
        Ok(buffer)
    }

    /// Prefixes an error with file and position.
    pub(super) fn locate(&self, error: Error, place: impl std::fmt::Display) -> Error {
        let name = self.path.file_name().unwrap_or_default().display();
        error.context(format_args!("segment file {name}: {place}"))
    }

    fn io(&self, what: impl std::fmt::Display, error: &std::io::Error) -> Error {
        Error::io(format_args!("{what} {}", self.path.display()), error)
    }
}

/// A copy of values `part`, which does not hold on to the others.
fn copy_range(values: &ArrayRef, part: &Range<usize>) -> Result<ArrayRef> {
    let rows = UInt32Array::from_iter_values(part.start as u32..part.end as u32);
    arrow_select::take::take(values, &rows, None).map_err(Error::bug)
}

impl Directory {
    fn position(&self, column: ColumnId) -> Option<usize> {
        self.columns.binary_search_by_key(&column, |(id, _)| *id).ok()
    }

    /// Memory before any column is loaded.
    fn memory_bytes(&self) -> u64 {
        let block = size_of::<IndexEntry>() + size_of::<BlockMeta>();
        let column = size_of::<ColumnEntry>() + size_of::<(ColumnId, DataType)>() + size_of::<OnceLock<LoadedColumn>>();
        (size_of::<CacheEntry<Directory>>() + self.entries.len() * block + self.columns.len() * column) as u64
    }
}

impl LoadedColumn {
    /// Memory before the statistics are decoded.
    fn memory_bytes(&self) -> u64 {
        let places = self.places.len() * size_of::<Place>();
        (places + self.stats_bytes.len() + self.commit_times.len() * size_of::<i64>()) as u64
    }
}

/// Memory of decoded statistics.
fn stats_bytes(stats: &[ColumnStats]) -> u64 {
    let text = |value: &StatValue| match value {
        StatValue::Bytes(bytes) => bytes.len(),
        StatValue::Int(_) | StatValue::UInt(_) | StatValue::Float(_) => 0,
    };
    let texts = |stats: &ColumnStats| stats.range.as_ref().map_or(0, |(min, max)| text(min) + text(max));
    (size_of_val(stats) + stats.iter().map(texts).sum::<usize>()) as u64
}

fn parse_column(column: &ColumnEntry, entries: &[IndexEntry], bytes: &[u8]) -> Result<LoadedColumn> {
    check_crc("directory", bytes, column.crc)?;
    let mut reader = Reader::new(bytes);
    let commit_times = if column.id == history::WRITTEN_AT { commit_times::read(&mut reader)? } else { Vec::new() };
    let places = format::read_places(entries, &mut reader)?;
    assert!(places.len() == entries.len(), "BUG: chunks of {} of {} blocks", places.len(), entries.len());
    let stats_bytes = bytes[bytes.len() - reader.remaining()..].to_vec();
    Ok(LoadedColumn { places, stats_bytes, commit_times, stats: OnceLock::new() })
}

impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Segment").field(&self.meta).finish()
    }
}

impl Drop for Segment {
    /// A file that cannot be removed now is no longer in the manifest: the next open removes it.
    fn drop(&mut self) {
        if self.remove.load(Ordering::Acquire) {
            let _ = self.env.remove(&self.path);
        }
    }
}
