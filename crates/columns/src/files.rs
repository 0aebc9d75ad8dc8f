//! A table's files in the manifest: description and encoding.

mod change;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Lsn, Result, TimeRange};

use crate::bytes::Reader;
use crate::segment::{SegmentMeta, file_name};
use crate::state::Tombstone;

/// A file with the keys of series `from .. to`: `series-<file as 16 hex digits>.ser`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeriesFile {
    /// File number, never reused.
    pub file: u64,
    /// First series.
    pub from: u32,
    /// End of the series (exclusive).
    pub to: u32,
}

/// A table's entry in the manifest: its files, tombstones, retention horizon and start of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFiles {
    /// Series files in order of series number, without gaps from 0.
    pub series_files: Vec<SeriesFile>,
    /// Segments, oldest first.
    pub segments: Vec<SegmentMeta>,
    /// Tombstones, oldest first.
    pub tombstones: Vec<Tombstone>,
    /// See [`TableState::kept_from`](crate::TableState::kept_from).
    pub kept_from: i64,
    /// See [`TableState::history_from`](crate::TableState::history_from).
    pub history_from: i64,
}

/// First manifest version with retention horizon, start of history and commit times of tombstones.
const VERSION_KEPT: u32 = 3;

impl Default for TableFiles {
    /// No files, no retention horizon, no history.
    fn default() -> TableFiles {
        TableFiles {
            series_files: Vec::new(),
            segments: Vec::new(),
            tombstones: Vec::new(),
            kept_from: i64::MIN,
            history_from: i64::MAX,
        }
    }
}

/// The path of segment file `file` within a data folder.
#[must_use]
pub fn segment_path(dir: &Path, file: u64) -> PathBuf {
    dir.join(file_name(file))
}

/// The path of series file `file` within a data folder.
#[must_use]
pub fn series_path(dir: &Path, file: u64) -> PathBuf {
    dir.join(format!("series-{file:016x}.ser"))
}

impl TableFiles {
    /// Number of series in the files.
    #[must_use]
    pub fn series_count(&self) -> u32 {
        self.series_files.last().map_or(0, |file| file.to)
    }

    /// Appends the encoding of this value. Little-endian; each list is a `u32` count and its items:
    ///
    /// - series files: file `u64`, from `u32`, to `u32`;
    /// - segments: file `u64`, lowest and highest LSN `u64`, first and last time `i64`, lowest and
    ///   highest series `u32`, rows `u64`, bytes `u64`;
    /// - tombstones: LSN `u64`, commit time `i64` (not in versions 1 and 2), first and last time
    ///   `i64`, then `u8` 0 = all series or 1 = a list: `u32` count, and that many series `u32`,
    ///   ascending;
    ///
    /// then (not in versions 1 and 2): retention horizon `i64`, start of the history (commit time)
    /// `i64`.
    ///
    /// No checksum and no version: the manifest has both.
    pub fn encode(&self, out: &mut Vec<u8>) {
        push_u32(out, self.series_files.len() as u32);
        self.series_files.iter().for_each(|file| encode_series_file(file, out));
        push_u32(out, self.segments.len() as u32);
        self.segments.iter().for_each(|segment| encode_segment(segment, out));
        push_u32(out, self.tombstones.len() as u32);
        self.tombstones.iter().for_each(|tombstone| encode_tombstone(tombstone, out));
        push_i64(out, self.kept_from);
        push_i64(out, self.history_from);
    }

    /// Decodes the output of [`TableFiles::encode`] at the front of `bytes`, in a manifest of
    /// format `version`, and advances `bytes`.
    ///
    /// # Errors
    /// XX001 when the bytes end early or are inconsistent.
    pub fn decode(bytes: &mut &[u8], version: u32) -> Result<TableFiles> {
        let mut reader = Reader::new("table files", bytes);
        let mut files = TableFiles::default();
        for _ in 0..reader.u32()? {
            files.series_files.push(decode_series_file(&mut reader)?);
        }
        check_series_files(&files.series_files, &reader)?;
        for _ in 0..reader.u32()? {
            files.segments.push(decode_segment(&mut reader)?);
        }
        for _ in 0..reader.u32()? {
            files.tombstones.push(decode_tombstone(&mut reader, version)?);
        }
        if version >= VERSION_KEPT {
            (files.kept_from, files.history_from) = (reader.i64()?, reader.i64()?);
        }
        *bytes = reader.rest();
        Ok(files)
    }
}

fn encode_series_file(file: &SeriesFile, out: &mut Vec<u8>) {
    push_u64(out, file.file);
    push_u32(out, file.from);
    push_u32(out, file.to);
}

fn decode_series_file(reader: &mut Reader<'_>) -> Result<SeriesFile> {
    Ok(SeriesFile { file: reader.u64()?, from: reader.u32()?, to: reader.u32()? })
}

/// Verifies that each file starts where the previous one ends.
fn check_series_files(files: &[SeriesFile], reader: &Reader<'_>) -> Result<()> {
    let mut count = 0;
    for SeriesFile { file, from, to } in files {
        if *from != count || to <= from {
            return Err(reader.wrong(format_args!("series file {file:x} of {from}..{to}")));
        }
        count = *to;
    }
    Ok(())
}

fn encode_segment(segment: &SegmentMeta, out: &mut Vec<u8>) {
    push_u64(out, segment.file);
    push_u64(out, segment.lsns.0.0);
    push_u64(out, segment.lsns.1.0);
    push_times(out, &segment.times);
    push_u32(out, segment.series.0);
    push_u32(out, segment.series.1);
    push_u64(out, segment.rows);
    push_u64(out, segment.bytes);
}

fn decode_segment(reader: &mut Reader<'_>) -> Result<SegmentMeta> {
    let segment = SegmentMeta {
        file: reader.u64()?,
        lsns: (Lsn(reader.u64()?), Lsn(reader.u64()?)),
        times: TimeRange { start: reader.i64()?, last: reader.i64()? },
        series: (reader.u32()?, reader.u32()?),
        rows: reader.u64()?,
        bytes: reader.u64()?,
    };
    let whole = segment.lsns.0 <= segment.lsns.1 && !segment.times.is_empty() && segment.series.0 <= segment.series.1;
    if whole { Ok(segment) } else { Err(reader.wrong(format_args!("segment {:x} has an empty range", segment.file))) }
}

fn encode_tombstone(tombstone: &Tombstone, out: &mut Vec<u8>) {
    push_u64(out, tombstone.lsn.0);
    push_i64(out, tombstone.committed);
    push_times(out, &tombstone.times);
    match &tombstone.series {
        None => out.push(0),
        Some(series) => {
            out.push(1);
            push_u32(out, series.len() as u32);
            series.iter().for_each(|number| push_u32(out, *number));
        }
    }
}

fn decode_tombstone(reader: &mut Reader<'_>, version: u32) -> Result<Tombstone> {
    let lsn = Lsn(reader.u64()?);
    let committed = if version >= VERSION_KEPT { reader.i64()? } else { i64::MIN };
    let times = TimeRange { start: reader.i64()?, last: reader.i64()? };
    let series: Option<Arc<[u32]>> = match reader.u8()? {
        0 => None,
        1 => {
            let count = reader.u32()? as usize;
            let (numbers, _) = reader.take(count.saturating_mul(4))?.as_chunks::<4>();
            Some(numbers.iter().map(|number| u32::from_le_bytes(*number)).collect())
        }
        other => return Err(reader.wrong(format_args!("tombstone of kind {other}"))),
    };
    if series.as_ref().is_some_and(|series| !series.is_sorted()) {
        return Err(reader.wrong("tombstone with series that are not sorted"));
    }
    Ok(Tombstone { lsn, committed, series, times })
}

fn push_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn push_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn push_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn push_times(out: &mut Vec<u8>, times: &TimeRange) {
    push_i64(out, times.start);
    push_i64(out, times.last);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> TableFiles {
        TableFiles {
            series_files: vec![SeriesFile { file: 3, from: 0, to: 7 }, SeriesFile { file: 9, from: 7, to: 8 }],
            segments: vec![SegmentMeta {
                file: 0x1_0000_0002,
                lsns: (Lsn(5), Lsn(6)),
                times: TimeRange { start: -1, last: i64::MAX },
                series: (0, 7),
                rows: 10,
                bytes: 1000,
            }],
            tombstones: vec![
                Tombstone { lsn: Lsn(8), committed: -5, series: None, times: TimeRange::ALL },
                Tombstone {
                    lsn: Lsn(9),
                    committed: 6,
                    series: Some([1, 4].into()),
                    times: TimeRange { start: 1, last: 2 },
                },
            ],
            kept_from: 100,
            history_from: 7,
        }
    }

    #[test]
    fn files_round_trip_and_leave_following_bytes() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        bytes.push(77);
        let mut rest = &bytes[..];
        assert_eq!(TableFiles::decode(&mut rest, 3).unwrap(), example());
        assert_eq!(rest, [77]);
    }

    /// Versions 1 and 2 end with the tombstones, which have no commit time.
    #[test]
    fn files_of_older_directories_are_read() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        bytes.truncate(bytes.len() - 16);
        let tombstones_at = bytes.len() - (8 + 8 + 16 + 1) - (8 + 8 + 16 + 1 + 4 + 8);
        for at in [tombstones_at + 33 + 8, tombstones_at + 8] {
            bytes.drain(at..at + 8);
        }
        let mut expected = TableFiles { kept_from: i64::MIN, history_from: i64::MAX, ..example() };
        expected.tombstones.iter_mut().for_each(|tombstone| tombstone.committed = i64::MIN);
        assert_eq!(TableFiles::decode(&mut &bytes[..], 2).unwrap(), expected);
    }

    #[test]
    fn truncated_files_are_refused() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        for cut in 0..bytes.len() {
            assert!(TableFiles::decode(&mut &bytes[..cut], 3).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn series_files_with_a_gap_are_refused() {
        let mut files = example();
        files.series_files[1].from = 8;
        files.series_files[1].to = 9;
        let mut bytes = Vec::new();
        files.encode(&mut bytes);
        assert!(TableFiles::decode(&mut &bytes[..], 3).unwrap_err().message().contains("series file 9 of 8..9"));
    }
}
