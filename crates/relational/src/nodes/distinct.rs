//! The first one of equal rows, in the order of the input, and LIMIT WITH TIES.

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use async_trait::async_trait;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result as DfResult, ScalarValue};
use model::{Error, SqlState};
use rustc_hash::FxHashSet;

use super::exec::{Run, Source};
use crate::errors::external;

/// Memory of a key in the set besides its bytes, about.
const KEY_BYTES: usize = 32;

/// Rows whose keys were not seen before.
pub(super) struct Distinct {
    source: Source,
    converter: Option<RowConverter>,
    seen: FxHashSet<Box<[u8]>>,
}

impl Distinct {
    pub(super) fn new(source: Source) -> Distinct {
        Distinct { source, converter: None, seen: FxHashSet::default() }
    }
}

fn converter<'c>(slot: &'c mut Option<RowConverter>, keys: &[ArrayRef]) -> DfResult<&'c mut RowConverter> {
    if slot.is_none() {
        let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
        *slot = Some(RowConverter::new(fields)?);
    }
    slot.as_mut().ok_or_else(|| external(Error::bug("no converter of keys")))
}

#[async_trait]
impl Run for Distinct {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        let Some(batch) = self.source.batch().await? else { return Ok(None) };
        let keys = self.source.values(&batch)?;
        if keys.is_empty() {
            // All rows are equal.
            let is_first = self.seen.insert(Box::default());
            return Ok(Some(batch.slice(0, usize::from(is_first && batch.num_rows() > 0))));
        }
        let rows = converter(&mut self.converter, &keys)?.convert_columns(&keys)?;
        let mut bytes = 0;
        let is_new = |at: usize| {
            let key = rows.row(at);
            let is_new = !self.seen.contains(key.as_ref());
            if is_new {
                bytes += key.as_ref().len() + KEY_BYTES;
                self.seen.insert(key.as_ref().into());
            }
            is_new
        };
        let mask: BooleanArray = (0..batch.num_rows()).map(is_new).map(Some).collect();
        self.source.memory.try_grow(bytes)?;
        let kept = filter_record_batch(&batch, &mask)?;
        Ok(Some(self.source.output(kept.columns().to_vec(), kept.num_rows())?))
    }
}

/// The first rows, and those that are equal to the last one of them.
pub(super) struct Ties {
    source: Source,
    converter: Option<RowConverter>,
    /// Rows to leave out and rows to give, once known.
    left: Option<(u64, Option<u64>)>,
    last: Option<OwnedRow>,
    is_over: bool,
}

impl Ties {
    pub(super) fn new(source: Source) -> Ties {
        Ties { source, converter: None, left: None, last: None, is_over: false }
    }
}

fn count(value: &ArrayRef, state: SqlState, name: &str) -> DfResult<Option<u64>> {
    match ScalarValue::try_from_array(value, 0)? {
        ScalarValue::Int64(Some(count)) => u64::try_from(count)
            .map(Some)
            .map_err(|_| external(Error::new(state, format!("{name} must not be negative")))),
        _ => Ok(None),
    }
}

#[async_trait]
impl Run for Ties {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        if self.is_over {
            return Ok(None);
        }
        let Some(batch) = self.source.batch().await? else { return Ok(None) };
        if batch.num_rows() == 0 {
            return Ok(Some(batch));
        }
        let mut keys = self.source.values(&batch)?;
        let (Some(offset), Some(limit)) = (keys.pop(), keys.pop()) else {
            return Err(external(Error::bug("LIMIT WITH TIES without its operands")));
        };
        if self.left.is_none() {
            let limit = count(&limit, SqlState::INVALID_ROW_COUNT_IN_LIMIT, "LIMIT")?;
            let offset = count(&offset, SqlState::INVALID_ROW_COUNT_IN_OFFSET, "OFFSET")?;
            self.left = Some((offset.unwrap_or(0), limit));
        }
        let Some((skip, fetch)) = &mut self.left else { return Ok(None) };
        let from = usize::try_from(*skip).unwrap_or(usize::MAX).min(batch.num_rows());
        *skip -= from as u64;
        let Some(fetch) = fetch else { return Ok(Some(batch.slice(from, batch.num_rows() - from))) };
        if *fetch == 0 && self.last.is_none() {
            self.is_over = true;
            return Ok(None);
        }
        let mut to = from + usize::try_from(*fetch).unwrap_or(usize::MAX).min(batch.num_rows() - from);
        *fetch -= (to - from) as u64;
        let rows = converter(&mut self.converter, &keys)?.convert_columns(&keys)?;
        if to > from {
            self.last = Some(rows.row(to - 1).owned());
        }
        if *fetch == 0
            && let Some(last) = &self.last
        {
            while to < batch.num_rows() && rows.row(to) == last.row() {
                to += 1;
            }
            self.is_over = to < batch.num_rows();
        }
        Ok(Some(batch.slice(from, to - from)))
    }
}
