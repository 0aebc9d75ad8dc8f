//! Merged rows before their columns are made: where each row's values come from. Columns are made one at a time, so
//! that a row of thousands of them never costs more than one.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, new_null_array};
use arrow_select::filter::SlicesIterator;
use model::{ColumnId, DataType, Error, Result};

use crate::chunk::Chunk;
use crate::rows::{Op, Ops, arrow_type};

/// Runs at least this long on average are copied as runs, shorter ones value by value.
const RUN_ROWS_MIN: usize = 16;

/// Rows sorted by (series, time), and where their values lie.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) chunks: Vec<Arc<Chunk>>,
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// What each row does, as an index into `op_list`; empty when all replace.
    op_of: Vec<u32>,
    op_list: Vec<Op>,
    runs: Vec<Run>,
    overlays: Vec<Overlay>,
    /// Estimate of text and bytes.
    pub(crate) text_bytes: usize,
    indices: OnceCell<Vec<(usize, usize)>>,
}

/// Consecutive rows of one chunk's columns.
#[derive(Clone, Copy)]
struct Run {
    chunk: u32,
    row: u32,
    len: u32,
}

/// A newer version laid over part of a row. In order of `at`, and for one row oldest first.
#[derive(Clone)]
struct Overlay {
    at: u32,
    chunk: u32,
    row: u32,
    /// Exactly these columns; `None` = those that are not NULL.
    columns: Option<Arc<[ColumnId]>>,
}

impl Plan {
    pub(crate) fn len(&self) -> usize {
        self.times.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Makes a chunk's rows available; returns the number `push` knows it by.
    pub(crate) fn add_chunk(&mut self, chunk: Arc<Chunk>) -> u32 {
        self.chunks.push(chunk);
        (self.chunks.len() - 1) as u32
    }

    /// Appends the rows of a chunk's positions.
    pub(crate) fn push_range(&mut self, chunk: u32, range: Range<usize>) {
        let from = self.chunks[chunk as usize].clone();
        self.series.extend_from_slice(&from.series[range.clone()]);
        self.times.extend_from_slice(&from.times[range.clone()]);
        self.text_bytes += from.text_bytes_per_row * range.len();
        if from.consecutive() {
            self.push_run(chunk, from.row(range.start), range.len() as u32);
        } else {
            range.for_each(|at| self.push_run(chunk, from.row(at), 1));
        }
    }

    fn push_run(&mut self, chunk: u32, row: u32, len: u32) {
        match self.runs.last_mut() {
            Some(last) if last.chunk == chunk && last.row + last.len == row => last.len += len,
            _ => self.runs.push(Run { chunk, row, len }),
        }
    }

    /// Lays a chunk's row over the last row pushed.
    pub(crate) fn push_overlay(&mut self, chunk: u32, at: usize, columns: Option<Arc<[ColumnId]>>) {
        let row = self.chunks[chunk as usize].row(at);
        self.overlays.push(Overlay { at: (self.len() - 1) as u32, chunk, row, columns });
    }

    /// Says what the last `count` rows pushed do. Either called for all rows or for none.
    pub(crate) fn push_op(&mut self, op: &Op, count: usize) {
        let at = self.op_list.iter().position(|known| known == op).unwrap_or_else(|| {
            self.op_list.push(op.clone());
            self.op_list.len() - 1
        });
        self.op_of.resize(self.op_of.len() + count, at as u32);
    }

    /// As [`Plan::push_op`], for positions of a chunk.
    pub(crate) fn push_ops(&mut self, ops: &Ops, range: Range<usize>) {
        match ops {
            Ops::All(op) => self.push_op(op, range.len()),
            Ops::Each { .. } => range.for_each(|at| self.push_op(ops.get(at), 1)),
        }
    }

    /// What rows `range` do, or as many of them from the first on as fit one list of operations.
    pub(crate) fn ops(&self, range: Range<usize>) -> (Ops, usize) {
        if self.op_list.is_empty() {
            return (Ops::All(Op::Replace), range.len());
        }
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

    /// The rows that `mask` lets through. Of plans whose rows all stand for themselves.
    pub(crate) fn kept(&self, mask: &BooleanArray) -> Plan {
        debug_assert!(self.op_list.is_empty());
        let mut kept = Plan { chunks: self.chunks.clone(), ..Plan::default() };
        let (mut run, mut passed) = (0, 0);
        let mut overlays = self.overlays.iter().peekable();
        for (start, end) in SlicesIterator::new(mask) {
            let at = kept.len() as u32;
            kept.series.extend_from_slice(&self.series[start..end]);
            kept.times.extend_from_slice(&self.times[start..end]);
            let mut from = start;
            while from < end {
                let Run { chunk, row, len } = self.runs[run];
                if passed + len as usize <= from {
                    (run, passed) = (run + 1, passed + len as usize);
                    continue;
                }
                let to = end.min(passed + len as usize);
                kept.push_run(chunk, row + (from - passed) as u32, (to - from) as u32);
                from = to;
            }
            while let Some(overlay) = overlays.next_if(|overlay| (overlay.at as usize) < end) {
                if overlay.at as usize >= start {
                    kept.overlays.push(Overlay { at: at + overlay.at - start as u32, ..overlay.clone() });
                }
            }
        }
        kept
    }

    /// Has the columns read that were left for later, of the chunks that its rows are from.
    pub(crate) fn load(&self, bytes_read: &mut u64) -> Result<()> {
        let mut wanted = vec![false; self.chunks.len()];
        self.runs.iter().for_each(|run| wanted[run.chunk as usize] = true);
        self.overlays.iter().for_each(|overlay| wanted[overlay.chunk as usize] = true);
        let chunks = self.chunks.iter().zip(wanted).filter(|(_, wanted)| *wanted);
        chunks.map(|(chunk, _)| chunk).try_for_each(|chunk| chunk.load(bytes_read))
    }

    /// The values of a column; `None` when all are NULL, as far as can be told without looking at them.
    pub(crate) fn column(&self, id: ColumnId, ty: DataType) -> Result<Option<ArrayRef>> {
        // One run of an array is a slice of it.
        let copies = || self.runs.len() > 1 || self.chunks.iter().any(|chunk| chunk.packed().is_some());
        if self.overlays.is_empty()
            && copies()
            && let Some(values) = self.gathered(id, ty)
        {
            return Ok(Some(values));
        }
        let found: Vec<Option<Cow<'_, ArrayRef>>> = self.chunks.iter().map(|chunk| chunk.column(id)).collect();
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
            None if self.runs.len() * RUN_ROWS_MIN <= self.len() + RUN_ROWS_MIN => self.copy_runs(ty, &arrays),
            None => interleave(ty, &arrays, self.indices.get_or_init(|| self.plain_indices())),
        };
        values.map(Some)
    }

    /// Values copied run by run, from packed rows without making arrays of those first. `None` where a row may have no value,
    /// and for types whose values are not simply numbers.
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
            self.chunks.iter().map(|chunk| Numbers::of(chunk, id, ty)).collect::<Option<_>>()?;
        let mut values = Vec::with_capacity(self.len());
        for run in &self.runs {
            let rows = run.row as usize..(run.row + run.len) as usize;
            match &sources[run.chunk as usize] {
                Numbers::Array(from) => values.extend_from_slice(from.get(rows)?),
                Numbers::Packed(from) => values.extend(from.get(rows)?.iter().map(|bytes| read(*bytes))),
            }
        }
        Some(Arc::new(PrimitiveArray::<T>::new(values.into(), None)))
    }

    fn plain_indices(&self) -> Vec<(usize, usize)> {
        let mut indices = Vec::with_capacity(self.len());
        for run in &self.runs {
            indices.extend((run.row..run.row + run.len).map(|row| (run.chunk as usize, row as usize)));
        }
        indices
    }

    /// Where the values come from, if any overlay reaches this column.
    fn overlaid(&self, id: ColumnId, arrays: &[Option<&ArrayRef>]) -> Option<Vec<(usize, usize)>> {
        let covers = |overlay: &&Overlay| match &overlay.columns {
            Some(columns) => columns.binary_search(&id).is_ok(),
            None => arrays[overlay.chunk as usize].is_some_and(|values| values.is_valid(overlay.row as usize)),
        };
        let mut reaching = self.overlays.iter().filter(covers).peekable();
        reaching.peek()?;
        let mut indices = self.indices.get_or_init(|| self.plain_indices()).clone();
        for overlay in reaching {
            indices[overlay.at as usize] = (overlay.chunk as usize, overlay.row as usize);
        }
        Some(indices)
    }

    fn copy_runs(&self, ty: DataType, arrays: &[Option<&ArrayRef>]) -> Result<ArrayRef> {
        let part = |run: &Run| match arrays[run.chunk as usize] {
            Some(values) => values.slice(run.row as usize, run.len as usize),
            None => new_null_array(&arrow_type(ty), run.len as usize),
        };
        if let [run] = self.runs.as_slice() {
            return Ok(part(run));
        }
        let parts: Vec<ArrayRef> = self.runs.iter().map(part).collect();
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&parts).map_err(Error::bug)
    }
}

/// Values themselves instead of keys into a dictionary of them.
///
/// # Errors
/// XX000 when keys are not of their dictionary.
pub fn uncoded(values: &ArrayRef) -> Result<ArrayRef> {
    match values.as_any_dictionary_opt() {
        Some(coded) => arrow_select::take::take(coded.values(), coded.keys(), None).map_err(Error::bug),
        None => Ok(Arc::clone(values)),
    }
}

/// Where numbers come from that are all there.
enum Numbers<'a, T: ArrowPrimitiveType, const N: usize> {
    Array(&'a [T::Native]),
    Packed(&'a [[u8; N]]),
}

impl<'a, T: ArrowPrimitiveType, const N: usize> Numbers<'a, T, N> {
    fn of(chunk: &'a Chunk, id: ColumnId, ty: DataType) -> Option<Numbers<'a, T, N>> {
        if let Some(packed) = chunk.packed() {
            return Some(Numbers::Packed(packed.values(packed.position(id)?, ty)?.as_chunks().0));
        }
        let Some(Cow::Borrowed(values)) = chunk.column(id) else { return None };
        let values = values.as_primitive_opt::<T>().filter(|values| values.null_count() == 0)?;
        Some(Numbers::Array(values.values()))
    }
}

/// Values by (array, row); an array that is missing is all NULL.
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
