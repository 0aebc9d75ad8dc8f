//! The result of a merge before its columns are built: for each row, the location of its values.
//! Columns are built one at a time, so the memory for a table of thousands of columns is that of
//! one column.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, new_null_array};
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

    /// Copies numeric values range by range, without decoding small batches to arrays first. `None`
    /// if a value may be NULL or the type is not numeric.
    fn gathered(&self, id: ColumnId, ty: DataType) -> Option<ArrayRef> {
        use arrow_array::types as arrow;
        match ty {
            DataType::Int16 => self.numbers::<arrow::Int16Type, 2>(id, ty, i16::from_le_bytes),
            DataType::Int32 => self.numbers::<arrow::Int32Type, 4>(id, ty, i32::from_le_bytes),
            DataType::Int64 => self.numbers::<arrow::Int64Type, 8>(id, ty, i64::from_le_bytes),
            DataType::UInt64 => self.numbers::<arrow::UInt64Type, 8>(id, ty, u64::from_le_bytes),
            DataType::Float32 => self.numbers::<arrow::Float32Type, 4>(id, ty, f32::from_le_bytes),
            DataType::Float64 => self.numbers::<arrow::Float64Type, 8>(id, ty, f64::from_le_bytes),
            DataType::Bool | DataType::Text | DataType::Bytes | DataType::Timestamp => None,
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
        let mut values = Vec::with_capacity(self.len());
        for range in &self.ranges {
            let rows = range.row as usize..(range.row + range.len) as usize;
            match &sources[range.run as usize] {
                Numbers::Array(from) => values.extend_from_slice(from.get(rows)?),
                Numbers::Packed(from) => values.extend(from.get(rows)?.iter().map(|bytes| read(*bytes))),
            }
        }
        Some(Arc::new(PrimitiveArray::<T>::new(values.into(), None)))
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

/// A numeric column without NULLs: an array or encoded bytes.
enum Numbers<'a, T: ArrowPrimitiveType, const N: usize> {
    Array(&'a [T::Native]),
    Packed(&'a [[u8; N]]),
}

impl<'a, T: ArrowPrimitiveType, const N: usize> Numbers<'a, T, N> {
    fn of(run: &'a SortedRun, id: ColumnId, ty: DataType) -> Option<Numbers<'a, T, N>> {
        if let Some(packed) = run.packed() {
            return Some(Numbers::Packed(packed.values(packed.position(id)?, ty)?.as_chunks().0));
        }
        let Some(Cow::Borrowed(values)) = run.column(id) else { return None };
        let values = values.as_primitive_opt::<T>().filter(|values| values.null_count() == 0)?;
        Some(Numbers::Array(values.values()))
    }
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
