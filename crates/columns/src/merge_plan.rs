//! The result of a merge before its columns are built: for each row, the location of its values.
//! Columns are built one at a time, so the memory for a table of thousands of columns is that of
//! one column.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, ByteArrayType};
use arrow_array::{Array, ArrayRef, BooleanArray, GenericByteArray, PrimitiveArray, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_select::filter::SlicesIterator;
use model::{ColumnId, DataType, Error, Result};

use crate::rows::{Op, Ops, arrow_type};
use crate::sorted_run::SortedRun;

/// Ranges of at least this average length are copied as slices, shorter ones value by value.
const RANGE_ROWS_MIN: usize = 16;

/// Merged rows, sorted by (series, time), with the locations of their values.
#[derive(Default)]
pub(crate) struct MergePlan {
    pub(crate) runs: Vec<Arc<SortedRun>>,
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// Operation of each row, an index into `op_list`; empty if all are [`Op::Replace`].
    op_of: Vec<u32>,
    op_list: Vec<Op>,
    ranges: Vec<RowRange>,
    overlays: Vec<Overlay>,
    /// Bytes of text and bytes values: an estimate where they are small, an upper bound where newer
    /// versions overwrite them.
    pub(crate) text_bytes: usize,
    indices: OnceCell<Vec<(usize, usize)>>,
}

/// Consecutive rows of the columns of one sorted run.
#[derive(Clone, Copy)]
struct RowRange {
    run: u32,
    row: u32,
    len: u32,
}

/// A newer version that overwrites part of row `at`. Sorted by `at`; overlays of one row oldest
/// first.
#[derive(Clone)]
struct Overlay {
    at: u32,
    run: u32,
    row: u32,
    /// The columns that it overwrites; `None` = those in which it is not NULL.
    columns: Option<Arc<[ColumnId]>>,
}

impl MergePlan {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// (series, time) of the last row.
    pub(crate) fn last_key(&self) -> Option<(u32, i64)> {
        self.series.last().copied().zip(self.times.last().copied())
    }

    /// Adds a run and returns its number for the `push` methods.
    pub(crate) fn add_run(&mut self, run: Arc<SortedRun>) -> u32 {
        self.runs.push(run);
        (self.runs.len() - 1) as u32
    }

    /// Appends the rows at these positions of a run.
    pub(crate) fn push_range(&mut self, run: u32, range: Range<usize>) {
        let from = self.runs[run as usize].clone();
        self.series.extend_from_slice(&from.series[range.clone()]);
        self.times.extend_from_slice(&from.times[range.clone()]);
        debug_assert!(self.series.len() == self.times.len(), "BUG: {} series, {} times", self.series.len(), self.len());
        self.text_bytes += from.text.bytes(range.clone());
        if from.consecutive() {
            self.push_row_range(run, from.row(range.start), range.len() as u32);
        } else {
            range.for_each(|at| self.push_row_range(run, from.row(at), 1));
        }
    }

    fn push_row_range(&mut self, run: u32, row: u32, len: u32) {
        match self.ranges.last_mut() {
            Some(last) if last.run == run && last.row + last.len == row => last.len += len,
            _ => self.ranges.push(RowRange { run, row, len }),
        }
    }

    /// Overwrites the last row pushed with the row at position `at` of a run.
    pub(crate) fn push_overlay(&mut self, run: u32, at: usize, columns: Option<Arc<[ColumnId]>>) {
        self.text_bytes += self.runs[run as usize].text.bytes(at..at + 1);
        let row = self.runs[run as usize].row(at);
        self.overlays.push(Overlay { at: (self.len() - 1) as u32, run, row, columns });
    }

    /// Sets the operation of the last `count` rows pushed. To be called for all rows or for none.
    pub(crate) fn push_op(&mut self, op: &Op, count: usize) {
        let at = self.op_list.iter().position(|known| known == op).unwrap_or_else(|| {
            self.op_list.push(op.clone());
            self.op_list.len() - 1
        });
        self.op_of.resize(self.op_of.len() + count, at as u32);
    }

    /// Like [`MergePlan::push_op`], with the operations at these positions of a run.
    pub(crate) fn push_ops(&mut self, ops: &Ops, range: Range<usize>) {
        match ops {
            Ops::All(op) => self.push_op(op, range.len()),
            Ops::Each { .. } => range.for_each(|at| self.push_op(ops.get(at), 1)),
        }
    }

    /// Operations of a prefix of rows `range`, and its length: it ends before the 257th distinct
    /// operation.
    pub(crate) fn ops(&self, range: Range<usize>) -> (Ops, usize) {
        if self.op_list.is_empty() {
            return (Ops::All(Op::Replace), range.len());
        }
        let (ops, rows) = (self.op_of.len(), self.len());
        assert!(ops == rows, "BUG: {ops} operations of {rows} rows");
        let (mut list, mut of) = (Vec::<u32>::new(), Vec::with_capacity(range.len()));
        for op in &self.op_of[range] {
            let at = list.iter().position(|known| known == op).unwrap_or(list.len());
            if at == list.len() {
                if list.len() == 256 {
                    break;
                }
                list.push(*op);
            }
            of.push(at as u8);
        }
        let rows = of.len();
        let list: Vec<Op> = list.into_iter().map(|at| self.op_list[at as usize].clone()).collect();
        if list.len() == 1 { (Ops::All(list[0].clone()), rows) } else { (Ops::Each { list, of }, rows) }
    }

    /// The rows selected by `mask`. All operations must be [`Op::Replace`].
    pub(crate) fn filtered(&self, mask: &BooleanArray) -> MergePlan {
        assert!(self.op_list.is_empty(), "BUG: rows with {} operations are filtered", self.op_list.len());
        assert!(mask.len() == self.len(), "BUG: a mask of {} rows for {}", mask.len(), self.len());
        let mut kept = MergePlan { runs: self.runs.clone(), ..MergePlan::default() };
        let (mut range, mut passed) = (0, 0);
        let mut overlays = self.overlays.iter().peekable();
        for (start, end) in SlicesIterator::new(mask) {
            let at = kept.len() as u32;
            kept.series.extend_from_slice(&self.series[start..end]);
            kept.times.extend_from_slice(&self.times[start..end]);
            let mut from = start;
            while from < end {
                let RowRange { run, row, len } = self.ranges[range];
                if passed + len as usize <= from {
                    (range, passed) = (range + 1, passed + len as usize);
                    continue;
                }
                let to = end.min(passed + len as usize);
                kept.push_row_range(run, row + (from - passed) as u32, (to - from) as u32);
                from = to;
            }
            while let Some(overlay) = overlays.next_if(|overlay| (overlay.at as usize) < end) {
                if overlay.at as usize >= start {
                    kept.overlays.push(Overlay { at: at + overlay.at - start as u32, ..overlay.clone() });
                }
            }
        }
        let (rows, selected) = (kept.len(), mask.true_count());
        assert!(rows == selected, "BUG: kept {rows} rows, selected {selected}");
        kept
    }

    /// Reads the late columns of every run that the plan refers to.
    pub(crate) fn load(&self, bytes_read: &mut u64) -> Result<()> {
        let mut wanted = vec![false; self.runs.len()];
        self.ranges.iter().for_each(|range| wanted[range.run as usize] = true);
        self.overlays.iter().for_each(|overlay| wanted[overlay.run as usize] = true);
        let runs = self.runs.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        runs.map(|(run, _)| run).try_for_each(|run| run.load(bytes_read))
    }

    /// The values of a column; `None` if no run has the column (then all are NULL).
    pub(crate) fn column(&self, id: ColumnId, ty: DataType) -> Result<Option<ArrayRef>> {
        // A single range of an array is a slice, without a copy.
        let copies = || self.ranges.len() > 1 || self.runs.iter().any(|run| run.packed().is_some());
        if self.overlays.is_empty()
            && copies()
            && let Some(values) = self.gathered(id, ty)
        {
            assert!(values.len() == self.len(), "BUG: {} values of column {id}, {} rows", values.len(), self.len());
            return Ok(Some(values));
        }
        let found: Vec<Option<Cow<'_, ArrayRef>>> = self.runs.iter().map(|run| run.column(id)).collect();
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut arrays: Vec<Option<&ArrayRef>> = found.iter().map(Option::as_deref).collect();
        let plain;
        let coded = arrays.iter().flatten().filter(|values| values.as_any_dictionary_opt().is_some()).count();
        if coded > 0 && coded < arrays.len() {
            plain =
                found.iter().map(|values| values.as_deref().map(uncoded).transpose()).collect::<Result<Vec<_>>>()?;
            arrays = plain.iter().map(Option::as_ref).collect();
        }
        let values = match self.overlaid(id, &arrays) {
            Some(indices) => interleave(ty, &arrays, &indices),
            None if self.ranges.len() * RANGE_ROWS_MIN <= self.len() + RANGE_ROWS_MIN => self.copy_ranges(ty, &arrays),
            None => interleave(ty, &arrays, self.indices.get_or_init(|| self.plain_indices())),
        };
        let values = values?;
        assert!(values.len() == self.len(), "BUG: {} values of column {id}, {} rows", values.len(), self.len());
        Ok(Some(values))
    }

    /// Copies values range by range, without decoding numbers of small batches to arrays first. `None` for types and forms that are
    /// gathered value by value.
    fn gathered(&self, id: ColumnId, ty: DataType) -> Option<ArrayRef> {
        use arrow_array::types as arrow;
        match ty {
            DataType::Int16 => self.numbers::<arrow::Int16Type, 2>(id, ty, i16::from_le_bytes),
            DataType::Int32 => self.numbers::<arrow::Int32Type, 4>(id, ty, i32::from_le_bytes),
            DataType::Int64 => self.numbers::<arrow::Int64Type, 8>(id, ty, i64::from_le_bytes),
            DataType::UInt64 => self.numbers::<arrow::UInt64Type, 8>(id, ty, u64::from_le_bytes),
            DataType::Float32 => self.numbers::<arrow::Float32Type, 4>(id, ty, f32::from_le_bytes),
            DataType::Float64 => self.numbers::<arrow::Float64Type, 8>(id, ty, f64::from_le_bytes),
            DataType::Timestamp => self.numbers::<arrow::TimestampNanosecondType, 8>(id, ty, i64::from_le_bytes),
            DataType::Text => self.texts::<arrow::Utf8Type>(id),
            DataType::Bytes => self.texts::<arrow::BinaryType>(id),
            DataType::Bool => None,
        }
    }

    fn numbers<T: ArrowPrimitiveType, const N: usize>(
        &self,
        id: ColumnId,
        ty: DataType,
        read: fn([u8; N]) -> T::Native,
    ) -> Option<ArrayRef> {
        let sources: Vec<Numbers<'_, T, N>> =
            self.runs.iter().map(|run| Numbers::of(run, id, ty)).collect::<Option<_>>()?;
        if sources.iter().all(|source| matches!(source, Numbers::Missing)) {
            return None;
        }
        let mut values = Vec::with_capacity(self.len());
        let mut validity = Validity::default();
        for range in &self.ranges {
            let rows = range.row as usize..(range.row + range.len) as usize;
            match &sources[range.run as usize] {
                Numbers::Array(from, nulls) => {
                    values.extend_from_slice(from.get(rows.clone())?);
                    validity.push(*nulls, rows);
                }
                Numbers::Packed(from) => {
                    values.extend(from.get(rows.clone())?.iter().map(|bytes| read(*bytes)));
                    validity.push(None, rows);
                }
                Numbers::Missing => {
                    values.resize(values.len() + rows.len(), T::Native::default());
                    validity.push_all(rows.len(), false);
                }
            }
        }
        let array = PrimitiveArray::<T>::new(values.into(), validity.finish());
        Some(Arc::new(array.with_data_type(arrow_type(ty))))
    }

    fn texts<T: ByteArrayType<Offset = i32>>(&self, id: ColumnId) -> Option<ArrayRef> {
        let found: Vec<Option<Cow<'_, ArrayRef>>> = self.runs.iter().map(|run| run.column(id)).collect();
        if found.iter().all(Option::is_none) {
            return None;
        }
        // Values of dictionaries have no offsets of their own.
        let mut sources: Vec<Option<&GenericByteArray<T>>> = Vec::with_capacity(found.len());
        for values in &found {
            sources.push(values.as_deref().map(|values| values.as_bytes_opt::<T>().ok_or(())).transpose().ok()?);
        }
        let mut offsets: Vec<i32> = Vec::with_capacity(self.len() + 1);
        offsets.push(0);
        let mut bytes: Vec<u8> = Vec::new();
        let mut validity = Validity::default();
        for range in &self.ranges {
            let rows = range.row as usize..(range.row + range.len) as usize;
            let end = bytes.len();
            let Some(from) = &sources[range.run as usize] else {
                offsets.resize(offsets.len() + rows.len(), i32::try_from(end).ok()?);
                validity.push_all(rows.len(), false);
                continue;
            };
            let ends = from.value_offsets().get(rows.start..=rows.end)?;
            let first = ends[0];
            bytes.extend_from_slice(from.value_data().get(first as usize..ends[rows.len()] as usize)?);
            i32::try_from(bytes.len()).ok()?;
            offsets.extend(ends[1..].iter().map(|offset| offset - first + end as i32));
            validity.push(from.nulls(), rows);
        }
        let offsets = OffsetBuffer::new(offsets.into());
        // Texts are validated once more: safe code cannot skip it.
        let array = GenericByteArray::<T>::try_new(offsets, bytes.into(), validity.finish()).ok()?;
        Some(Arc::new(array))
    }

    fn plain_indices(&self) -> Vec<(usize, usize)> {
        let mut indices = Vec::with_capacity(self.len());
        for range in &self.ranges {
            indices.extend((range.row..range.row + range.len).map(|row| (range.run as usize, row as usize)));
        }
        indices
    }

    /// Value locations with the overlays applied; `None` if no overlay has this column.
    fn overlaid(&self, id: ColumnId, arrays: &[Option<&ArrayRef>]) -> Option<Vec<(usize, usize)>> {
        let covers = |overlay: &&Overlay| match &overlay.columns {
            Some(columns) => columns.binary_search(&id).is_ok(),
            None => arrays[overlay.run as usize].is_some_and(|values| values.is_valid(overlay.row as usize)),
        };
        let mut reaching = self.overlays.iter().filter(covers).peekable();
        reaching.peek()?;
        let mut indices = self.indices.get_or_init(|| self.plain_indices()).clone();
        for overlay in reaching {
            indices[overlay.at as usize] = (overlay.run as usize, overlay.row as usize);
        }
        Some(indices)
    }

    fn copy_ranges(&self, ty: DataType, arrays: &[Option<&ArrayRef>]) -> Result<ArrayRef> {
        let part = |range: &RowRange| match arrays[range.run as usize] {
            Some(values) => values.slice(range.row as usize, range.len as usize),
            None => new_null_array(&arrow_type(ty), range.len as usize),
        };
        if let [range] = self.ranges.as_slice() {
            return Ok(part(range));
        }
        let parts: Vec<ArrayRef> = self.ranges.iter().map(part).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&parts).map_err(Error::bug)
    }
}

/// Decodes a dictionary array to its values; returns other arrays unchanged.
///
/// # Errors
/// XX000 when a key is outside the dictionary.
pub fn uncoded(values: &ArrayRef) -> Result<ArrayRef> {
    match values.as_any_dictionary_opt() {
        Some(coded) => arrow_select::take::take(coded.values(), coded.keys(), None).map_err(Error::bug),
        None => Ok(Arc::clone(values)),
    }
}

/// A numeric column: an array and its NULLs, or encoded bytes without NULLs.
enum Numbers<'a, T: ArrowPrimitiveType, const N: usize> {
    Array(&'a [T::Native], Option<&'a NullBuffer>),
    Packed(&'a [[u8; N]]),
    /// All values are NULL.
    Missing,
}

impl<'a, T: ArrowPrimitiveType, const N: usize> Numbers<'a, T, N> {
    fn of(run: &'a SortedRun, id: ColumnId, ty: DataType) -> Option<Numbers<'a, T, N>> {
        if let Some(packed) = run.packed() {
            return match packed.position(id) {
                Some(at) => Some(Numbers::Packed(packed.values(at, ty)?.as_chunks().0)),
                None => Some(Numbers::Missing),
            };
        }
        match run.column(id) {
            None => Some(Numbers::Missing),
            Some(Cow::Borrowed(values)) => {
                let values = values.as_primitive_opt::<T>()?;
                Some(Numbers::Array(values.values(), values.nulls().filter(|nulls| nulls.null_count() > 0)))
            }
            Some(Cow::Owned(_)) => None,
        }
    }
}

/// Validity of values that are gathered. It has no bits before the first NULL.
#[derive(Default)]
struct Validity {
    /// Whole words of bits; the last bits are in `word`.
    words: Vec<u64>,
    word: u64,
    has_nulls: bool,
    len: usize,
}

impl Validity {
    /// Adds the rows of a column with these NULLs.
    fn push(&mut self, nulls: Option<&NullBuffer>, rows: Range<usize>) {
        let Some(nulls) = nulls else { return self.push_all(rows.len(), true) };
        self.begin();
        let (bytes, from) = (nulls.validity(), nulls.offset());
        let (mut at, end) = (from + rows.start, from + rows.end);
        while at < end {
            let count = (end - at).min(WORD_BITS - 7);
            self.push_word(bits_at(bytes, at), count);
            at += count;
        }
    }

    /// Adds `count` values that are all valid, or all NULL.
    fn push_all(&mut self, count: usize, valid: bool) {
        if valid && !self.has_nulls {
            self.len += count;
            return;
        }
        self.begin();
        let mut left = count;
        while left > 0 {
            let part = left.min(WORD_BITS);
            self.push_word(if valid { u64::MAX } else { 0 }, part);
            left -= part;
        }
    }

    /// Writes down the values so far, which are valid.
    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_nulls, true) {
            self.words.resize(self.len / WORD_BITS, u64::MAX);
            self.word = low_bits(self.len % WORD_BITS);
        }
    }

    /// Adds the low `count` bits, 1 to 64, of a word.
    fn push_word(&mut self, bits: u64, count: usize) {
        let (bits, used) = (bits & low_bits(count), self.len % WORD_BITS);
        self.word |= bits << used;
        self.len += count;
        if used + count >= WORD_BITS {
            self.words.push(self.word);
            // A shift by all 64 bits is none in Rust.
            self.word = if used == 0 { 0 } else { bits >> (WORD_BITS - used) };
        }
    }

    fn finish(mut self) -> Option<NullBuffer> {
        if !self.has_nulls {
            return None;
        }
        self.words.push(self.word);
        let bits = BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len);
        let nulls = NullBuffer::new(bits);
        (nulls.null_count() > 0).then_some(nulls)
    }
}

const WORD_BITS: usize = u64::BITS as usize;

/// The lowest `count` bits of a word, at most 64.
fn low_bits(count: usize) -> u64 {
    if count >= WORD_BITS { u64::MAX } else { (1 << count) - 1 }
}

/// At least 57 bits from position `at` of a bitmap on; those behind its end are 0.
fn bits_at(bytes: &[u8], at: usize) -> u64 {
    let from = &bytes[(at / 8).min(bytes.len())..];
    let word = match from.first_chunk::<8>() {
        Some(word) => u64::from_le_bytes(*word),
        None => from.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    word >> (at % 8)
}

/// Gathers values by (array, row); a missing array is all NULL.
fn interleave(ty: DataType, arrays: &[Option<&ArrayRef>], indices: &[(usize, usize)]) -> Result<ArrayRef> {
    let null = new_null_array(&arrow_type(ty), 1);
    let values: Vec<&dyn Array> = arrays.iter().map(|values| values.unwrap_or(&null).as_ref()).collect();
    let missing: Vec<bool> = arrays.iter().map(Option::is_none).collect();
    if !missing.contains(&true) {
        return arrow_select::interleave::interleave(&values, indices).map_err(Error::bug);
    }
    let place = |(array, row): &(usize, usize)| (*array, if missing[*array] { 0 } else { *row });
    let indices: Vec<(usize, usize)> = indices.iter().map(place).collect();
    arrow_select::interleave::interleave(&values, &indices).map_err(Error::bug)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::{BinaryArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray};

    use super::*;
    use crate::encoding::tests::Random;
    use crate::filter::Filter;
    use crate::merge::{Fold, Merger};
    use crate::rows::Rows;
    use crate::scan::ScanStats;
    use crate::sorted_run::{RowsSource, Source};

    const TYPES: [DataType; 5] =
        [DataType::Float64, DataType::Int64, DataType::Text, DataType::Bytes, DataType::Timestamp];

    /// A column of numbers as values of a type; `None` is NULL.
    fn array(ty: DataType, values: &[Option<i64>]) -> ArrayRef {
        let values = values.iter().copied();
        let text = |value: i64| "x".repeat(value as usize % 7) + &value.to_string();
        match ty {
            DataType::Float64 => {
                Arc::new(values.map(|value| value.map(|value| value as f64)).collect::<Float64Array>())
            }
            DataType::Text => Arc::new(values.map(|value| value.map(text)).collect::<StringArray>()),
            DataType::Bytes => Arc::new(values.map(|value| value.map(text)).collect::<BinaryArray>()),
            DataType::Timestamp => {
                let array = values.collect::<TimestampNanosecondArray>();
                Arc::new(array.with_data_type(arrow_type(DataType::Timestamp)))
            }
            _ => Arc::new(values.collect::<Int64Array>()),
        }
    }

    /// Columns with NULLs, columns that some sources lack, and small batches.
    #[test]
    fn columns_of_every_type_are_gathered_with_their_nulls() {
        for seed in 0..200 {
            let mut random = Random(seed + 1);
            let mut expected: BTreeMap<(u32, i64), [Option<i64>; 5]> = BTreeMap::new();
            let mut time = 0;
            let sources = (0..1 + random.below(6)).map(|_| {
                let count = 1 + random.below(100) as usize;
                let series: Vec<u32> = (0..count).map(|_| random.below(4) as u32).collect();
                let times: Vec<i64> = (0..count as i64).map(|at| time + at).collect();
                time += count as i64;
                // This many of 10 values are NULL; with 11 the column is absent.
                let nulls = [(); 5].map(|()| [0, 1, 5, 9, 10, 11][random.below(6) as usize]);
                let cells: Vec<[Option<i64>; 5]> = (0..count)
                    .map(|row| nulls.map(|nulls| (random.below(10) >= nulls).then_some(row as i64 * 3)))
                    .collect();
                expected.extend(series.iter().copied().zip(times.iter().copied()).zip(cells.iter().copied()));
                let present = (0..5).filter(|column| nulls[*column] < 11);
                let columns = present.map(|column| {
                    let values: Vec<Option<i64>> = cells.iter().map(|row| row[column]).collect();
                    (ColumnId(column as u32), array(TYPES[column], &values))
                });
                let rows = Rows::new(series, times, Ops::All(Op::Replace), columns.collect());
                let rows = match random.below(3) {
                    0 => rows.pack_if_small(),
                    1 => rows.grouped(4, || vec![2, 0, 3, 1]).unwrap(),
                    _ => rows,
                };
                Source::Rows(RowsSource::new(Arc::new(rows), Filter::all()).unwrap())
            });
            let mut merger = Merger::new(sources.collect(), Fold::Full);
            let mut stats = ScanStats::default();
            let mut rows = expected.into_iter();
            while let Some(plan) = merger.next(1 + random.below(80) as usize, &mut stats).unwrap() {
                let keys: Vec<(u32, i64)> = plan.series.iter().copied().zip(plan.times.iter().copied()).collect();
                let part: Vec<_> = rows.by_ref().take(plan.len()).collect();
                assert_eq!(keys, part.iter().map(|row| row.0).collect::<Vec<_>>(), "seed {seed}");
                for (column, ty) in TYPES.into_iter().enumerate() {
                    let values: Vec<Option<i64>> = part.iter().map(|row| row.1[column]).collect();
                    let wanted = array(ty, &values);
                    match plan.column(ColumnId(column as u32), ty).unwrap() {
                        Some(found) => assert_eq!(&found, &wanted, "seed {seed}, {ty:?}"),
                        None => assert!(values.iter().all(Option::is_none), "seed {seed}, {ty:?}"),
                    }
                }
            }
            assert_eq!(rows.next(), None, "seed {seed}");
        }
    }
}
