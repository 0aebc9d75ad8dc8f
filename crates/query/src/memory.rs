//! The memory of statements and results: DataFusion's pool as a client of the database's budget, and results cut so that little of them is
//! in flight.

use std::fmt;

use arrow_array::{Array, RecordBatch};
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use engine::{MemoryBudget, Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, SqlState};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::errors::external;
use crate::session::Batches;

/// Bytes of rows that are handed on at a time. Smaller results are not counted.
pub(crate) const RESULT_BYTES: usize = 256 << 10;
/// What a result that waits for its client takes at least: its plan, its state, buffers.
const OPEN_RESULT_BYTES: u64 = 128 << 10;
/// More rows are likely to follow a batch of so many.
const LONG_ROWS: usize = 1_024;

/// DataFusion's memory: what the budget has for statements. Operators that can spill have equal parts of it.
pub(crate) struct Pool {
    budget: MemoryBudget,
    /// No more than this, whatever the budget has.
    most: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Operators that can spill.
    spillers: u64,
    /// Bytes that they hold.
    spillable: u64,
    /// Bytes that others hold.
    fixed: u64,
}

impl Pool {
    pub(crate) fn new(budget: MemoryBudget, most: u64) -> Pool {
        Pool { budget, most, state: Mutex::default() }
    }

    fn size(&self) -> u64 {
        self.most.min(self.budget.max_of(Work::Statements))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statements({} of {} bytes)", self.reserved(), self.size())
    }
}

impl MemoryPool for Pool {
    fn name(&self) -> &str {
        "statements"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers += u64::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.state.lock().spillers -= u64::from(consumer.can_spill());
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let additional = additional as u64;
        let mut state = self.state.lock();
        self.budget.count(Work::Statements, additional);
        if reservation.consumer().can_spill() {
            state.spillable += additional;
        } else {
            state.fixed += additional;
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let shrink = shrink as u64;
        let mut state = self.state.lock();
        self.budget.release(Work::Statements, shrink);
        if reservation.consumer().can_spill() {
            state.spillable -= shrink;
        } else {
            state.fixed -= shrink;
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> DfResult<()> {
        let additional = additional as u64;
        let mut state = self.state.lock();
        let (size, held) = (self.size(), reservation.size() as u64);
        let can_spill = reservation.consumer().can_spill();
        let own = if can_spill {
            // One part is left for whoever comes next: what an operator has it gives back only when it asks for more.
            let parts = if state.spillers > 1 { state.spillers + 1 } else { 1 };
            size.saturating_sub(state.fixed) / parts
        } else {
            size
        };
        let fits = held + additional <= own && state.spillable + state.fixed + additional <= size;
        if !fits || self.budget.reserve(Work::Statements, additional).is_err() {
            let name = reservation.consumer().name();
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{additional} more bytes for {name} do not fit: it holds {held} bytes, all statements hold {}, of {size}",
                state.spillable + state.fixed
            )));
        }
        if can_spill {
            state.spillable += additional;
        } else {
            state.fixed += additional;
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        let state = self.state.lock();
        usize::try_from(state.spillable + state.fixed).unwrap_or(usize::MAX)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(usize::try_from(self.size()).unwrap_or(usize::MAX))
    }
}

/// Hands on a batch from a thread that reads a table; false if nobody wants any more. The thread waits for whoever takes the batches, if few
/// others do.
///
/// # Errors
/// 53400 where [`SCANS_WAITING_MAX`] threads wait already, so that there are always threads for others.
pub(crate) fn handed_on(out: &Sender<DfResult<RecordBatch>>, batch: DfResult<RecordBatch>) -> DfResult<bool> {
    let batch = match out.try_send(batch) {
        Ok(()) => return Ok(true),
        Err(TrySendError::Closed(_)) => return Ok(false),
        Err(TrySendError::Full(batch)) => batch,
    };
    let Ok(_waiting) = SCANS_WAITING.try_acquire() else {
        let text = format!("{SCANS_WAITING_MAX} scans wait for clients that do not take their rows");
        let error = Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, text);
        return Err(external(error.with_hint("read results that are open, or close them")));
    };
    Ok(out.blocking_send(batch).is_ok())
}

/// Threads that may wait for clients of tables' scans. The runtime has 512 for all that blocks.
const SCANS_WAITING_MAX: usize = 400;
static SCANS_WAITING: Semaphore = Semaphore::const_new(SCANS_WAITING_MAX);

/// Bytes of the values of a batch: of its rows alone, where it shares memory with others.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = |array: &arrow_array::ArrayRef| {
        let bytes = array.to_data().get_slice_memory_size();
        bytes.unwrap_or_else(|_| array.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}

/// The same rows in pieces of about [`RESULT_BYTES`]. A batch that is being handed on is counted as memory of results, unless it is all of
/// a short result; from the stream comes 53200 where the results that are open hold all of their memory.
pub(crate) fn counted(batches: Batches, budget: &MemoryBudget) -> Batches {
    let held = budget.reservation(Work::Results);
    let cutting = Cutting { batches, held, batch: None, next: 0, rows: 0 };
    Box::pin(futures::stream::try_unfold(cutting, |mut cutting| async move {
        Ok(cutting.next().await?.map(|piece| (piece, cutting)))
    }))
}

struct Cutting {
    batches: Batches,
    held: Reservation,
    /// What is left of it is handed on next.
    batch: Option<RecordBatch>,
    /// Its first row that is left.
    next: usize,
    /// Rows of a piece.
    rows: usize,
}

impl Cutting {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.batch.is_none() {
            // Whoever took the last piece is done with it.
            self.held.shrink_to(0);
            let Some(batch) = self.batches.next().await.transpose()? else { return Ok(None) };
            let bytes = batch_bytes(&batch);
            if bytes <= RESULT_BYTES {
                if batch.num_rows() >= LONG_ROWS {
                    self.held.resize(OPEN_RESULT_BYTES.max(bytes as u64))?;
                }
                return Ok(Some(batch));
            }
            self.held.resize(bytes as u64)?;
            let rows = batch.num_rows() as u64 * RESULT_BYTES as u64 / bytes as u64;
            self.rows = usize::try_from(rows).unwrap_or(usize::MAX).max(1);
            (self.batch, self.next) = (Some(batch), 0);
        }
        let Some(batch) = &self.batch else { return Ok(None) };
        let rows = self.rows.min(batch.num_rows() - self.next);
        let piece = batch.slice(self.next, rows);
        self.next += rows;
        if self.next == batch.num_rows() {
            self.batch = None;
        }
        Ok(Some(piece))
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
