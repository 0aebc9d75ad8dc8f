//! Verification of a whole segment: all checksums, all values, and the consistency of directory and
//! data.

use arrow_array::Array;
use model::{ColumnId, Error, Result};

use super::format::{self, HEADER_BYTES};
use super::reader::Directory;
use super::{BlockMeta, BlockRows, ColumnStats, Segment};
use crate::cache::CacheEntry;
use crate::encoding::Dense;

impl Segment {
    /// Reads the whole segment and verifies every checksum, the order of rows, and that index and
    /// statistics match the data. Each finding names the position and the problem. Memory: one
    /// column of one block at a time.
    ///
    /// # Errors
    /// 58030 when the file cannot be read; then the result is unknown. Damage is a finding, not an
    /// error.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        if let Some(directory) = keep_finding(self.directory(&mut 0), &mut findings)? {
            keep_finding(self.check_header(directory.version), &mut findings)?;
            for position in 0..directory.footer.columns.len() {
                let column = self.stats_at(&directory, position, &mut 0);
                keep_finding(column, &mut findings)?;
            }
            for block in 0..directory.entries.len() {
                self.check_block(&directory, block, &mut findings)?;
            }
            keep_finding(self.check_settled(&directory), &mut findings)?;
        }
        Ok(findings)
    }

    fn check_header(&self, version: u32) -> Result<()> {
        if self.meta().bytes < HEADER_BYTES as u64 {
            return Err(
                self.locate(Error::corrupt(format!("{} bytes are too few for a segment", self.meta().bytes)), "header")
            );
        }
        let seen = self.read_bytes(0, HEADER_BYTES as u64, &mut 0)?;
        let expected = format::header(self.meta().file, version);
        if seen == expected {
            return Ok(());
        }
        Err(self.locate(Error::corrupt(format!("bytes are {seen:02x?}, expected {expected:02x?}")), "header, byte 0"))
    }

    /// Reads every chunk separately, so that one finding does not hide another.
    fn check_block(&self, directory: &CacheEntry<Directory>, block: usize, findings: &mut Vec<String>) -> Result<()> {
        if let Some(rows) = keep_finding(self.read(block, &[], &mut 0), findings)? {
            let meta = meta_of(&rows);
            if meta.as_ref() != Some(&directory.entries[block].meta) {
                let text = format!("rows are {meta:?}, the index says {:?}", directory.entries[block].meta);
                findings.push(self.locate(Error::corrupt(text), format_args!("block {block}")).message().to_owned());
            }
        }
        for (position, column) in directory.footer.columns.iter().enumerate() {
            // Directories that do not load were reported before.
            let Ok(stats) = self.stats_at(directory, position, &mut 0) else { continue };
            if stats[block].bytes == 0 {
                continue;
            }
            if let Some(rows) = keep_finding(self.read(block, &[column.id], &mut 0), findings)? {
                let agrees = self.check_stats(block, column.id, directory, &rows, &stats[block]);
                keep_finding(agrees, findings)?;
                keep_finding(self.check_features(block, column.id, directory), findings)?;
            }
        }
        Ok(())
    }

    /// A reader that does not know all features of the values must have been warned by the footer.
    fn check_features(&self, block: usize, id: ColumnId, directory: &CacheEntry<Directory>) -> Result<()> {
        let used = self.chunk_features(directory, block, id)?;
        let unstated = used.minus(directory.footer.features);
        if unstated.is_empty() {
            return Ok(());
        }
        let text = format!("the values use features {unstated}, which the footer does not state");
        Err(self.locate(Error::corrupt(text), format_args!("block {block}, column {id}")))
    }

    fn check_stats(
        &self,
        block: usize,
        id: ColumnId,
        directory: &Directory,
        rows: &BlockRows,
        kept: &ColumnStats,
    ) -> Result<()> {
        let column = directory.footer.columns.iter().find(|column| column.id == id);
        let (Some(column), Some((_, array))) = (column, rows.columns.first()) else { return Ok(()) };
        let found = if array.null_count() == array.len() {
            ColumnStats::all_null(array.len())
        } else {
            let found = ColumnStats::of(column.ty, array, &Dense::of(column.ty, array)?);
            found.for_features(directory.footer.features)
        };
        if found.agrees_with(&kept.clone().with_short_maximum()) {
            return Ok(());
        }
        let text = format!("statistics are {kept:?}, the values give {found:?}");
        Err(self.locate(Error::corrupt(text), format_args!("block {block}, column {id}")))
    }

    /// Readers skip the merge of versions in a settled segment, therefore it must not repeat a
    /// (series, time).
    fn check_settled(&self, directory: &Directory) -> Result<()> {
        if !directory.footer.settled {
            return Ok(());
        }
        let mut last = None;
        for block in 0..directory.entries.len() {
            // Blocks that cannot be read were reported before.
            let Ok(rows) = self.read(block, &[], &mut 0) else { continue };
            for key in rows.series.iter().copied().zip(rows.times.iter().copied()) {
                if last.replace(key) == Some(key) {
                    let text = format!("the footer says settled, but {key:?} occurs twice");
                    return Err(self.locate(Error::corrupt(text), format_args!("block {block}")));
                }
            }
        }
        Ok(())
    }
}

/// Turns corruption into a finding; returns other errors.
fn keep_finding<T>(result: Result<T>, findings: &mut Vec<String>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == model::ErrorKind::Corrupt => {
            // The rows chunk is read with each column: report it once.
            let text = error.to_string();
            if !findings.contains(&text) {
                findings.push(text);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The index entry that these rows should have; `None` when they are not sorted.
fn meta_of(rows: &BlockRows) -> Option<BlockMeta> {
    let keys = || rows.series.iter().copied().zip(rows.times.iter().copied());
    let ordered = keys().zip(keys().skip(1)).all(|(a, b)| a <= b);
    let start = *rows.times.iter().min()?;
    let last = *rows.times.iter().max()?;
    let times = model::TimeRange { start, last };
    let meta = BlockMeta { rows: rows.series.len() as u32, first: keys().next()?, last: keys().next_back()?, times };
    ordered.then_some(meta)
}
