//! Parallel scans: unordered rows beyond the memory budget are read by several threads and passed on while they are
//! read.

use std::sync::Arc;

use columns::{ScanRequest, ScanStats};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use futures::StreamExt;
use model::{Error, Result};
use parking_lot::Mutex;

use super::shape::{Body, Count, Order, Rows, Shape};
use super::{Selected, project, relabelled};
use crate::errors::{convert, external};
use crate::memory::{ReadAhead, in_turn};
use crate::results::Batches;
use crate::scan::columns_scan::first_block_bytes;
use crate::scan::predicate::Kept;

/// Batches that each thread may read ahead of the consumer.
const BATCHES_AHEAD: usize = 2;

/// A running parallel scan.
pub struct Streamed {
    /// Ends after the first error.
    pub batches: Batches,
    /// Scan statistics, complete once `batches` has ended.
    pub stats: Arc<Mutex<ScanStats>>,
    /// Threads used.
    pub threads: usize,
}

impl Shape {
    /// Whether [`Shape::stream`] supports it.
    pub fn is_streamable(&self) -> bool {
        let is_whole = matches!(self.skip, Count::Of(0)) && self.fetch.is_none() && self.union.is_none();
        is_whole && matches!(&self.body, Body::Rows(rows) if rows.order == Order::Any)
    }

    /// Splits the scan for parallel reading. Blocks.
    ///
    /// - `threads`: maximum number of parts.
    ///
    /// # Errors
    /// Errors of reading block indexes.
    pub fn parts(selected: &Selected, threads: usize) -> Result<Vec<ScanRequest>> {
        let parts = selected.view.split(&selected.request, threads)?;
        Ok(if parts.is_empty() { vec![selected.request.clone()] } else { parts })
    }

    /// Starts to read all of `parts`. Dropping the stream cancels the scan.
    ///
    /// # Errors
    /// XX000 if the statement is not streamable.
    pub fn stream(self: &Arc<Self>, selected: Selected, parts: Vec<ScanRequest>) -> Result<Streamed> {
        if !self.is_streamable() {
            return Err(Error::bug("a statement that gives its rows at once"));
        }
        let stats: Arc<Mutex<ScanStats>> = Arc::default();
        let (threads, selected) = (parts.len(), Arc::new(selected));
        let ahead = ReadAhead::new(&selected.pool);
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.result), BATCHES_AHEAD * threads);
        for part in parts {
            let (shape, selected, stats) = (Arc::clone(self), Arc::clone(&selected), Arc::clone(&stats));
            let (out, mut reading) = (builder.tx(), ahead.reader());
            builder.spawn_blocking(move || {
                let Body::Rows(rows) = &shape.body else { return Ok(()) };
                reading.expect(first_block_bytes(&selected.view, &part))?;
                let is_long = reading.is_long();
                let mut refused = None;
                let mut send = |batch| match batch {
                    Some(batch) => reading.hand_on(&out, Ok(batch)).unwrap_or_else(|error| {
                        refused = Some(error);
                        false
                    }),
                    None => !out.is_closed(),
                };
                let read = shape.read_part(rows, &selected, part, is_long, &mut send).map_err(external)?;
                *stats.lock() += read;
                refused.map_or(Ok(()), Err)
            });
        }
        let batches = builder.build().map(move |batch| {
            ahead.taken(&batch);
            batch.map_err(|error| convert(&error))
        });
        Ok(Streamed { batches: Box::pin(batches), stats, threads })
    }

    /// Reads a part. Calls `send` for each batch, with `None` if no row passed; stops when `send` returns false.
    fn read_part(
        &self,
        rows: &Rows,
        selected: &Selected,
        part: ScanRequest,
        is_long: bool,
        send: &mut dyn FnMut(Option<arrow_array::RecordBatch>) -> bool,
    ) -> Result<ScanStats> {
        let mut passing = Kept::new(&selected.view, part, selected.keep.as_ref())?;
        while let Some(scanned) = in_turn(is_long, || passing.next())? {
            let batch = match scanned.batch.num_rows() {
                0 => None,
                _ => Some(project(&rows.outputs, &relabelled(&scanned.batch, &self.scanned)?, &self.result)?),
            };
            if !send(batch) {
                break;
            }
        }
        Ok(passing.scan().stats())
    }
}
