//! The encoding of everything around the chunks: header, directories, block index, footer, trailer.
//! Bytes: docs/format/segment.md.
//!
//! ```text
//! header | blocks: (rows chunk, column chunks) ... | column directories | block index | footer | trailer
//! ```
//!
//! The trailer has a fixed size and locates index and footer. An open costs two reads, whatever the
//! number of columns.

use model::{ColumnId, DataType, Error, Lsn, Result, SqlState, TimeRange};

use super::{BLOCK_ROWS_MAX, BlockMeta, ColumnStats, stats};
use crate::encoding::byte_io::{Reader, corrupt, push_signed, push_varint};
use crate::encoding::{Features, KNOWN_FEATURES};

/// First and last bytes of a segment file.
pub(super) const MAGIC: [u8; 8] = *b"MILLRSEG";
/// The format version written. Raised only if the layout changes: an encoding gets a feature instead.
pub(super) const VERSION: u32 = 4;
/// The oldest format version that is read.
const VERSION_MIN: u32 = 3;
/// The first version whose footer has the features.
const VERSION_WITH_FEATURES: u32 = 4;
/// Features that a reader of any earlier version knows: one bit for each encoding of version 3.
const FEATURES_BEFORE: Features = Features::from_bits((1 << 21) - 1);

const _: () = assert!(FEATURES_BEFORE.minus(KNOWN_FEATURES).bits() == 0, "an encoding of version 3 is missing");
/// Size of the header, which precedes the first block.
pub(super) const HEADER_BYTES: usize = 20;
/// Size of the trailer, which follows the footer.
pub(super) const TRAILER_BYTES: usize = 48;
/// Size of the trailer's end that all versions share: version, checksum, magic.
const TRAILER_TAIL_BYTES: usize = 16;

/// Footer flag: every row has a single version, written by `Replace`.
const SETTLED: u8 = 1;

/// The start of the file: magic, version, file number.
pub(super) fn header(file: u64, version: u32) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    bytes[12..].copy_from_slice(&file.to_le_bytes());
    bytes
}

/// The fixed end of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) index_at: u64,
    pub(super) footer_at: u64,
    pub(super) index_crc: u32,
    pub(super) footer_crc: u32,
    pub(super) file: u64,
    pub(super) version: u32,
}

impl Trailer {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.index_at.to_le_bytes());
        out.extend_from_slice(&self.footer_at.to_le_bytes());
        out.extend_from_slice(&self.index_crc.to_le_bytes());
        out.extend_from_slice(&self.footer_crc.to_le_bytes());
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&MAGIC);
    }

    /// Reads a trailer. Checks the version before the checksum: the layout of another version may
    /// differ.
    pub(super) fn read(bytes: &[u8; TRAILER_BYTES]) -> Result<Trailer> {
        let (body, tail) = bytes.split_at(TRAILER_BYTES - TRAILER_TAIL_BYTES);
        let mut reader = Reader::new(tail);
        let version = reader.u32("version")?;
        let crc = reader.u32("checksum")?;
        if reader.take(8, "magic")? != MAGIC {
            return Err(corrupt(
                "trailer does not end with the magic of a segment: the file is truncated or not a segment",
            ));
        }
        check_version(version)?;
        check_crc("trailer", &bytes[..TRAILER_BYTES - 12], crc)?;
        let mut reader = Reader::new(body);
        Ok(Trailer {
            index_at: reader.u64("trailer")?,
            footer_at: reader.u64("trailer")?,
            index_crc: reader.u32("trailer")?,
            footer_crc: reader.u32("trailer")?,
            file: reader.u64("trailer")?,
            version,
        })
    }
}

pub(super) fn check_version(version: u32) -> Result<()> {
    if (VERSION_MIN..=VERSION).contains(&version) {
        return Ok(());
    }
    Err(corrupt(format!("format version is {version}, this program reads versions {VERSION_MIN} to {VERSION}"))
        .with_hint("open it with the program that wrote it"))
}

fn check_features(features: Features) -> Result<()> {
    let unknown = features.minus(KNOWN_FEATURES);
    if unknown.is_empty() {
        return Ok(());
    }
    let message = format!("uses features {features}; this program knows {KNOWN_FEATURES}, and not {unknown}");
    Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("open it with the program that wrote it, or a newer one"))
}

pub(super) fn check_crc(what: &str, bytes: &[u8], expected: u32) -> Result<()> {
    let seen = crc32c::crc32c(bytes);
    if seen == expected {
        return Ok(());
    }
    Err(corrupt(format!("{what}: checksum {seen:08x}, expected {expected:08x}")))
}

/// Location of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// Offset from the start of the block.
    pub(super) offset: u32,
    /// Size; 0 if all values are NULL and there is no chunk.
    pub(super) bytes: u32,
    pub(super) crc: u32,
}

/// A block's entry in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) meta: BlockMeta,
    /// Offset of the block in the file.
    pub(super) at: u64,
    /// Size of the block.
    pub(super) bytes: u32,
    /// The rows chunk.
    pub(super) rows: Place,
}

/// Appends `entry`, as differences from the previous one.
pub(super) fn write_index_entry(previous: Option<&IndexEntry>, entry: &IndexEntry, out: &mut Vec<u8>) {
    let (last_series, first_time) = previous.map_or((0, 0), |entry| (entry.meta.last.0, entry.meta.first.1));
    let meta = &entry.meta;
    let before = previous.map_or((0, i64::MIN), |entry| entry.meta.last);
    let ordered = before <= meta.first && meta.first <= meta.last;
    assert!(ordered, "BUG: a block from {:?} to {:?} after {before:?}", meta.first, meta.last);
    assert!(meta.rows as usize <= BLOCK_ROWS_MAX, "BUG: a block of {} rows, at most {BLOCK_ROWS_MAX}", meta.rows);
    push_varint(out, meta.rows.into());
    push_varint(out, entry.bytes.into());
    push_varint(out, entry.rows.bytes.into());
    out.extend_from_slice(&entry.rows.crc.to_le_bytes());
    push_varint(out, (meta.first.0 - last_series).into());
    push_varint(out, (meta.last.0 - meta.first.0).into());
    push_signed(out, meta.first.1.wrapping_sub(first_time));
    push_signed(out, meta.last.1.wrapping_sub(meta.first.1));
    push_varint(out, meta.first.1.min(meta.last.1).wrapping_sub(meta.times.start).cast_unsigned());
    push_varint(out, meta.times.last.wrapping_sub(meta.first.1.max(meta.last.1)).cast_unsigned());
}

fn read_index_entry(previous: Option<&IndexEntry>, reader: &mut Reader<'_>) -> Result<IndexEntry> {
    let (last, first_time) = previous.map_or(((0, i64::MIN), 0), |entry| (entry.meta.last, entry.meta.first.1));
    let at = previous.map_or(HEADER_BYTES as u64, |entry| entry.at + u64::from(entry.bytes));
    let rows = reader.count(BLOCK_ROWS_MAX, "rows of a block")? as u32;
    let bytes = reader.count(u32::MAX as usize, "bytes of a block")? as u32;
    let rows_bytes = reader.count(bytes as usize, "bytes of a rows chunk")? as u32;
    let place = Place { offset: 0, bytes: rows_bytes, crc: reader.u32("checksum of a rows chunk")? };
    let first_series = read_series(last.0, reader)?;
    let last_series = read_series(first_series, reader)?;
    let first = (first_series, first_time.wrapping_add(reader.signed("first time")?));
    let end = (last_series, first.1.wrapping_add(reader.signed("last time")?));
    let start = first.1.min(end.1).wrapping_sub_unsigned(reader.varint("earliest time")?);
    let latest = first.1.max(end.1).wrapping_add_unsigned(reader.varint("latest time")?);
    let times = TimeRange { start, last: latest };
    let ordered = last <= first && first <= end && start <= first.1.min(end.1) && latest >= first.1.max(end.1);
    if rows == 0 || !ordered {
        return Err(corrupt(format!("block of {rows} rows from {first:?} to {end:?} after {last:?} is out of order")));
    }
    Ok(IndexEntry { meta: BlockMeta { rows, first, last: end, times }, at, bytes, rows: place })
}

fn read_series(from: u32, reader: &mut Reader<'_>) -> Result<u32> {
    let delta = reader.count(u32::MAX as usize, "series number")? as u32;
    from.checked_add(delta).ok_or_else(|| corrupt(format!("series number {from} + {delta} is out of range")))
}

/// Reads the index of `count` blocks.
pub(super) fn read_index(count: u64, bytes: &[u8]) -> Result<Vec<IndexEntry>> {
    // Every entry has more than 8 bytes, so a corrupt count is refused before memory is allocated.
    if count > bytes.len() as u64 / 8 {
        return Err(corrupt(format!("block index: {} bytes cannot describe {count} blocks", bytes.len())));
    }
    let mut reader = Reader::new(bytes);
    let mut entries: Vec<IndexEntry> = Vec::with_capacity(count as usize);
    for block in 0..count {
        let entry = read_index_entry(entries.last(), &mut reader);
        entries.push(entry.map_err(|error| error.context(format!("block index, block {block}")))?);
    }
    reader.finish("block index")?;
    Ok(entries)
}

/// A column's entry in the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ColumnEntry {
    pub(super) id: ColumnId,
    pub(super) ty: DataType,
    /// Offset of the column's directory in the file.
    pub(super) at: u64,
    /// Size of the column's directory.
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

/// The footer: totals of the segment, and the locations of the column directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Features that a reader of the blocks must know.
    pub(super) features: Features,
    pub(super) rows: u64,
    pub(super) blocks: u64,
    pub(super) settled: bool,
    pub(super) lsns: (Lsn, Lsn),
    /// Offset of the first column's directory: the end of the last block.
    pub(super) directories_at: u64,
    /// Columns, sorted by id.
    pub(super) columns: Vec<ColumnEntry>,
}

impl Footer {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        push_varint(out, self.features.bits());
        push_varint(out, self.rows);
        push_varint(out, self.blocks);
        out.push(if self.settled { SETTLED } else { 0 });
        push_varint(out, self.lsns.0.0);
        push_varint(out, self.lsns.1.0);
        push_varint(out, self.directories_at);
        push_varint(out, self.columns.len() as u64);
        let mut next_id = 0;
        for column in &self.columns {
            push_varint(out, (column.id.0 - next_id).into());
            out.push(column.ty as u8);
            push_varint(out, column.bytes);
            out.extend_from_slice(&column.crc.to_le_bytes());
            next_id = column.id.0 + 1;
        }
    }

    /// Reads the footer of a segment of `version`. Checks the features first: they may change all that follows.
    ///
    /// # Errors
    /// 0A000 for an unknown feature; XX001 otherwise.
    pub(super) fn read(version: u32, bytes: &[u8]) -> Result<Footer> {
        let mut reader = Reader::new(bytes);
        let features = if version < VERSION_WITH_FEATURES {
            FEATURES_BEFORE
        } else {
            Features::from_bits(reader.varint("features")?)
        };
        check_features(features)?;
        let rows = reader.varint("rows")?;
        let blocks = reader.varint("blocks")?;
        let settled = reader.u8("flags")? & SETTLED != 0;
        let lsns = (Lsn(reader.varint("lowest LSN")?), Lsn(reader.varint("highest LSN")?));
        let directories_at = reader.varint("place of the directories")?;
        let count = reader.count(reader.remaining() / 7, "number of columns")?;
        let columns = read_columns(count, directories_at, &mut reader)?;
        reader.finish("footer")?;
        Ok(Footer { features, rows, blocks, settled, lsns, directories_at, columns })
    }
}

fn read_columns(count: usize, directories_at: u64, reader: &mut Reader<'_>) -> Result<Vec<ColumnEntry>> {
    let mut columns = Vec::with_capacity(count);
    let (mut at, mut next_id) = (directories_at, 0u64);
    for _ in 0..count {
        let id = next_id + reader.count(u32::MAX as usize, "column number")? as u64;
        let id = u32::try_from(id).map_err(|_| corrupt(format!("column number {id} is out of range")))?;
        let code = reader.u8("column type")?;
        let ty = DataType::from_code(code).ok_or_else(|| corrupt(format!("column {id} has unknown type {code}")))?;
        let bytes = reader.varint("directory length")?;
        columns.push(ColumnEntry { id: ColumnId(id), ty, at, bytes, crc: reader.u32("directory checksum")? });
        at = at
            .checked_add(bytes)
            .ok_or_else(|| corrupt(format!("directory of column {id} has a length out of range")))?;
        next_id = u64::from(id) + 1;
    }
    Ok(columns)
}

/// Builds a column's directory: locations of all chunks first, then their statistics, so that
/// reading values parses the locations only.
#[derive(Default)]
pub(super) struct DirectoryWriter {
    places: Vec<u8>,
    stats: Vec<u8>,
}

impl DirectoryWriter {
    /// Adds a block in which all values are NULL.
    pub(super) fn push_null(&mut self) {
        push_varint(&mut self.places, 0);
    }

    pub(super) fn push(&mut self, place: &Place, stats: &ColumnStats) {
        assert!(place.bytes > 0, "BUG: a chunk without bytes stands for all NULL, and has no statistics");
        push_varint(&mut self.places, place.bytes.into());
        push_varint(&mut self.places, place.offset.into());
        self.places.extend_from_slice(&place.crc.to_le_bytes());
        stats::write(stats, &mut self.stats);
    }

    /// Appends the directory to `out`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.places);
        out.extend_from_slice(&self.stats);
    }
}

/// Reads the chunk locations of a directory; `reader` is then at the statistics.
pub(super) fn read_places(blocks: &[IndexEntry], reader: &mut Reader<'_>) -> Result<Vec<Place>> {
    let place = |(block, entry): (usize, &IndexEntry)| {
        let place = read_place(entry.bytes, reader);
        place.map_err(|error| error.context(format!("block {block}")))
    };
    blocks.iter().enumerate().map(place).collect()
}

fn read_place(block_bytes: u32, reader: &mut Reader<'_>) -> Result<Place> {
    let bytes = reader.count(block_bytes as usize, "bytes of a chunk")? as u32;
    if bytes == 0 {
        return Ok(Place::default());
    }
    let offset = reader.count((block_bytes - bytes) as usize, "offset of a chunk")? as u32;
    Ok(Place { offset, bytes, crc: reader.u32("checksum of a chunk")? })
}

/// Reads the statistics, which follow the locations.
pub(super) fn read_stats(
    ty: DataType,
    blocks: &[IndexEntry],
    places: &[Place],
    reader: &mut Reader<'_>,
) -> Result<Vec<ColumnStats>> {
    let mut all = Vec::with_capacity(blocks.len());
    for (block, (entry, place)) in blocks.iter().zip(places).enumerate() {
        let rows = entry.meta.rows;
        all.push(match place.bytes {
            0 => ColumnStats::all_null(rows as usize),
            bytes => stats::read(ty, rows, bytes, reader).map_err(|error| error.context(format!("block {block}")))?,
        });
    }
    reader.finish("directory")?;
    Ok(all)
}
