//! Memory accounting of statements and results: DataFusion's memory pool as a consumer of the database's budget, and
//! back-pressure on results, which are cut into small pieces.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use engine::{MemoryBudget, Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, SqlState};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::errors::{convert, external};
use crate::results::{Batches, batch_bytes};

/// Bytes of rows passed on at a time. Smaller results are not charged to the budget.
pub const RESULT_BYTES: usize = 256 << 10;
/// Least share of a spillable operator that comes late.
const LATE_SHARE_MIN: u64 = 16 << 20;
/// Minimum charge for a long result that waits for its client: plan, operator state, buffers.
const OPEN_RESULT_BYTES: u64 = 128 << 10;
/// Shorter rows are encoded in buffers that are not counted.
const LONG_ROW_BYTES: usize = 1 << 20;
/// Shorter batches are not counted while they wait in a channel: usual ones have some 100 KiB.
const LONG_BATCH_BYTES: usize = 1 << 20;
/// A batch with at least this many rows is probably followed by more.
const LONG_ROWS: usize = 1_024;

/// DataFusion's memory pool over the budget's share for statements.
///
/// Three quarters go to the operators that ask first, because most of those that could spill hold little. Of the last quarter,
/// spillable operators have equal shares, so that those which come later can work. In a small pool, where such a share would
/// be too little to sort in, they have equal shares of all.
pub(crate) struct Pool {
    budget: MemoryBudget,
    /// Upper limit in bytes, even if the budget allows more.
    most: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of spillable operators.
    spillers: u64,
    /// Bytes held by spillable operators.
    spillable: u64,
    /// Bytes held by other operators.
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
        let (used, wanted) = (state.spillable + state.fixed + additional, held + additional);
        // One share is reserved for the next operator: an operator spills only when it asks for more memory, so the
        // memory that it holds cannot be reclaimed at once.
        let parts = if state.spillers > 1 { state.spillers + 1 } else { 1 };
        let late_share = size / 4 / parts;
        let is_fair = match (can_spill, late_share >= LATE_SHARE_MIN) {
            (false, _) => true,
            (true, true) => used <= size / 4 * 3 || wanted <= late_share,
            (true, false) => wanted <= size.saturating_sub(state.fixed) / parts,
        };
        let fits = used <= size && is_fair;
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

/// Memory of a statement, counted in the pool.
pub struct Reserved(MemoryReservation);

impl Reserved {
    pub(crate) fn new(name: &str, pool: &Arc<dyn MemoryPool>) -> Reserved {
        Reserved(MemoryConsumer::new(name).register(pool))
    }

    /// Bytes that are held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.size()
    }

    /// Takes more bytes.
    ///
    /// # Errors
    /// 53200 if there is not enough memory.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        self.0.try_grow(bytes).map_err(|error| convert(&error))
    }

    /// Sets the bytes that are held.
    ///
    /// # Errors
    /// 53200 if there is not enough memory.
    pub fn resize(&self, bytes: usize) -> Result<()> {
        self.0.try_resize(bytes).map_err(|error| convert(&error))
    }
}

/// The right of a thread to decode long rows.
struct Turn(());

/// Free turns.
static TURNS: LazyLock<Mutex<usize>> =
    LazyLock::new(|| Mutex::new(std::thread::available_parallelism().map_or(1, std::num::NonZero::get)));
static TURN_ENDED: Condvar = Condvar::new();

/// Reads a batch of a `columns` table; if its rows are long, in turn with other threads. The sizes of blocks are known exactly only
/// when they are decoded, so only as many threads decode long rows at a time as there are processors. `read` must not wait for
/// anything that reads tables.
pub(crate) fn in_turn<T>(is_long: bool, read: impl FnOnce() -> T) -> T {
    let _turn = is_long.then(|| {
        let mut free = TURNS.lock();
        TURN_ENDED.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Turn(())
    });
    read()
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.lock() += 1;
        TURN_ENDED.notify_one();
    }
}

/// Batches that a scan has read ahead of its consumer. Long ones are counted in the pool: channels between threads count
/// batches, not bytes.
pub(crate) struct ReadAhead(MemoryReservation);

impl ReadAhead {
    pub(crate) fn new(pool: &Arc<dyn MemoryPool>) -> Arc<ReadAhead> {
        Arc::new(ReadAhead(MemoryConsumer::new("ReadAhead").register(pool)))
    }

    /// The sending end, for a thread that scans.
    pub(crate) fn reader(self: &Arc<Self>) -> ScanReader {
        ScanReader { ahead: Arc::clone(self), block: self.0.new_empty() }
    }

    /// Notes that the consumer has taken a batch.
    pub(crate) fn taken(&self, batch: &DfResult<RecordBatch>) {
        if let Ok(batch) = batch {
            self.0.shrink(long_batch_bytes(batch));
        }
    }
}

/// A thread that scans a table. Besides the batches that it has passed on, it holds the block of which the last one was made.
pub(crate) struct ScanReader {
    ahead: Arc<ReadAhead>,
    /// About the bytes of the block: those of the longest batch so far.
    block: MemoryReservation,
}

impl ScanReader {
    /// Takes the memory that the first block will need, as far as it is known. What a refused scan has decoded would stay with
    /// its thread, since the allocator keeps it for the thread's next work.
    ///
    /// # Errors
    /// 53200 if there is not enough memory.
    pub(crate) fn expect(&self, bytes: usize) -> DfResult<()> {
        self.block.try_resize(bytes)
    }

    /// Whether the rows are known to be long.
    pub(crate) fn is_long(&self) -> bool {
        self.block.size() > 0
    }

    /// Passes on a batch from a thread that scans a table; false if the receiver is gone. If the channel is full, the
    /// thread blocks.
    ///
    /// # Errors
    /// 53200 for a long batch if there is not enough memory; 53400 if [`SCANS_WAITING_MAX`] threads are blocked already, so that
    /// the runtime always has free blocking threads.
    pub(crate) fn hand_on(
        &mut self,
        out: &Sender<DfResult<RecordBatch>>,
        batch: DfResult<RecordBatch>,
    ) -> DfResult<bool> {
        if let Ok(batch) = &batch {
            let bytes = long_batch_bytes(batch);
            self.block.try_resize(self.block.size().max(bytes))?;
            self.ahead.0.try_grow(bytes)?;
        }
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
}

/// Bytes of a batch, 0 for a short one.
fn long_batch_bytes(batch: &RecordBatch) -> usize {
    let bytes = batch_bytes(batch);
    if bytes > LONG_BATCH_BYTES { bytes } else { 0 }
}

/// Maximum number of scan threads blocked by slow clients. The runtime has 512 blocking threads.
const SCANS_WAITING_MAX: usize = 400;
static SCANS_WAITING: Semaphore = Semaphore::const_new(SCANS_WAITING_MAX);

/// Cuts the batches into pieces of about [`RESULT_BYTES`] and charges the current batch to the budget of results,
/// unless the result is short. The stream fails with 53200 if the open results have used up their budget.
pub fn counted(batches: Batches, budget: &MemoryBudget) -> Batches {
    let held = budget.reservation(Work::Results);
    let cutting = Cutting { batches, held, batch: None, next: 0, rows: 0 };
    Box::pin(futures::stream::try_unfold(cutting, |mut cutting| async move {
        Ok(cutting.next().await?.map(|piece| (piece, cutting)))
    }))
}

struct Cutting {
    batches: Batches,
    held: Reservation,
    /// The batch of which a part is still to be passed on.
    batch: Option<RecordBatch>,
    /// The first remaining row of `batch`.
    next: usize,
    /// Rows per piece.
    rows: usize,
}

impl Cutting {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.batch.is_none() {
            // The consumer asks for more, so it has finished with the last piece.
            self.held.shrink_to(0);
            let Some(batch) = self.batches.next().await.transpose()? else { return Ok(None) };
            let bytes = batch_bytes(&batch);
            if bytes <= RESULT_BYTES {
                if batch.num_rows() >= LONG_ROWS {
                    self.held.resize(OPEN_RESULT_BYTES.max(bytes as u64))?;
                }
                return Ok(Some(batch));
            }
            // A long row is encoded as a whole; as text, each byte of bytea has two digits.
            self.held.resize((bytes + 2 * longest_row(&batch)) as u64)?;
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

/// Upper bound of the bytes of text and bytes in one row, if the batch has more than [`LONG_ROW_BYTES`] of them.
fn longest_row(batch: &RecordBatch) -> usize {
    fn longest(offsets: &[i32]) -> usize {
        offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
    }
    let of_column = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8 => longest(array.as_string::<i32>().value_offsets()),
        DataType::Binary => longest(array.as_binary::<i32>().value_offsets()),
        _ => 0,
    };
    let row: usize = batch.columns().iter().map(of_column).sum();
    if row > LONG_ROW_BYTES { row } else { 0 }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
