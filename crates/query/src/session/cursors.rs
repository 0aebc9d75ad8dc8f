//! The open cursors of a session and their rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use futures::StreamExt;
use futures::stream::Fuse;
use model::{Error, Result, SqlState};
use pg_catalog::facts::OpenCursor;
use relational::Reserved;
use relational::results::Batches;
use relational::types::OutputColumn;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

use crate::statement::cursor::Direction;

/// Maximum bytes of rows that one cursor materialises.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// The cursors of a session, by name.
#[derive(Default)]
pub(crate) struct Cursors(pub(crate) BTreeMap<String, Cursor>);

pub(crate) struct Cursor {
    pub(crate) columns: Vec<OutputColumn>,
    pub(crate) rows: Rows,
    pub(crate) life: Life,
    pub(crate) shown: OpenCursor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Until the transaction ends, or is rolled back to where it had fewer savepoints.
    Transaction { savepoints: usize },
    /// Like `Transaction`, but the cursor survives COMMIT.
    Hold { savepoints: usize },
    /// Until it is closed.
    Session,
}

pub(crate) enum Rows {
    Passing(Arc<Mutex<Passing>>),
    Kept(Kept),
    /// The position is unknown after an error.
    Failed,
}

impl Cursors {
    /// The result columns of a cursor, if it exists.
    pub(crate) fn columns(&self, name: &str) -> Option<&[OutputColumn]> {
        self.0.get(name).map(|cursor| cursor.columns.as_slice())
    }

    /// The rows of `pg_cursors`; `None` if no cursor is open.
    pub(crate) fn listed(&self) -> Option<Arc<[OpenCursor]>> {
        (!self.0.is_empty()).then(|| self.0.values().map(|cursor| cursor.shown.clone()).collect())
    }

    pub(crate) fn close(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Marks a cursor whose FETCH failed or was cancelled: its position is unknown from then on.
    pub(crate) fn fail(&mut self, name: &str) {
        if let Some(cursor) = self.0.get_mut(name) {
            cursor.rows = Rows::Failed;
        }
    }

    pub(crate) fn close_all(&mut self) {
        self.0.clear();
    }

    /// Closes the cursors that do not survive the end of the transaction.
    pub(crate) fn end_transaction(&mut self, committed: bool) {
        self.0.retain(|_, cursor| {
            if committed && matches!(cursor.life, Life::Hold { .. }) {
                cursor.life = Life::Session;
            }
            cursor.life == Life::Session
        });
    }

    /// Closes the cursors that were declared after the savepoint: rollback left `left` savepoints.
    pub(crate) fn roll_back_to(&mut self, left: usize) {
        self.0.retain(|_, cursor| match cursor.life {
            Life::Transaction { savepoints } | Life::Hold { savepoints } => savepoints <= left,
            Life::Session => true,
        });
    }

    /// Assigns cursors to the enclosing savepoint after RELEASE left `left` savepoints.
    pub(crate) fn release(&mut self, left: usize) {
        for cursor in self.0.values_mut() {
            if let Life::Transaction { savepoints } | Life::Hold { savepoints } = &mut cursor.life {
                *savepoints = left.min(*savepoints);
            }
        }
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Result<&mut Cursor> {
        self.0.get_mut(name).ok_or_else(|| unknown(name))
    }
}

/// Runs work in a task of its own, so that it does not block the threads that serve sockets. Dropping the future
/// cancels the task.
pub(crate) async fn elsewhere<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let mut task = tokio::task::JoinSet::new();
    task.spawn(work);
    let done = task.join_next().await.ok_or_else(|| Error::bug("a task that is not there"))?;
    done.map_err(|error| Error::bug(format!("a query stopped: {error}")))?
}

pub(crate) fn failed(name: &str) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}

/// A cursor that produces its rows on FETCH.
pub(crate) struct Passing {
    batches: Fuse<Batches>,
    /// The rest of the batch that the last FETCH read.
    begun: Option<RecordBatch>,
    /// Rows that were fetched or skipped.
    gone: u64,
    /// Whether the client has not yet taken all rows of the last FETCH.
    busy: bool,
    _room: OwnedSemaphorePermit,
}

impl Passing {
    pub(crate) fn new(batches: Batches, room: OwnedSemaphorePermit) -> Passing {
        Passing { batches: batches.fuse(), begun: None, gone: 0, busy: false, _room: room }
    }

    /// The number of rows that a FETCH skips, and the number that it returns.
    pub(crate) fn way(&self, name: &str, direction: Direction) -> Result<(u64, u64)> {
        if self.busy {
            // A portal with a row limit still has to return rows.
            return Err(failed(name));
        }
        let here = i64::try_from(self.gone).unwrap_or(i64::MAX);
        Ok(match direction {
            Direction::Forward(count) if count > 0 => (0, count.unsigned_abs()),
            Direction::Relative(count) if count > 0 => (count.unsigned_abs() - 1, 1),
            Direction::Absolute(row) if row > here => ((row - here).unsigned_abs() - 1, 1),
            // Before the first row, moving back has no effect.
            Direction::Forward(_) | Direction::Relative(_) | Direction::Absolute(0) if self.gone == 0 => (0, 0),
            _ => return Err(only_forward()),
        })
    }

    /// The next rows, at most `rows_max`.
    pub(crate) fn rows(passing: &Arc<Mutex<Passing>>, rows_max: u64) -> Batches {
        let state = (Arc::clone(passing), rows_max);
        Box::pin(futures::stream::try_unfold(state, |(passing, left)| async move {
            let mut state = passing.lock().await;
            state.busy = left > 0;
            if left == 0 {
                return Ok(None);
            }
            let batch = state.next(left).await?;
            state.busy = batch.is_some();
            drop(state);
            Ok(batch.map(|batch| (batch.clone(), (passing, left - batch.num_rows() as u64))))
        }))
    }

    async fn next(&mut self, rows_max: u64) -> Result<Option<RecordBatch>> {
        let batch = loop {
            let batch = match self.begun.take() {
                Some(batch) => batch,
                None => match self.batches.next().await {
                    Some(batch) => batch?,
                    None => return Ok(None),
                },
            };
            if batch.num_rows() > 0 {
                break batch;
            }
        };
        let rows = usize::try_from(rows_max).unwrap_or(usize::MAX).min(batch.num_rows());
        self.begun = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
        self.gone += rows as u64;
        Ok(Some(batch.slice(0, rows)))
    }
}

fn only_forward() -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

/// The result of a FETCH from a materialised cursor.
pub(crate) struct Fetched {
    numbers: Range<usize>,
    /// Whether the rows are returned in reverse order.
    back: bool,
}

impl Fetched {
    pub(crate) fn rows(&self) -> u64 {
        self.numbers.len() as u64
    }
}

fn turned_round(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u32::try_from(batch.num_rows()).map_err(Error::bug)?;
    let indices: UInt32Array = (0..rows).rev().collect();
    arrow_select::take::take_record_batch(batch, &indices).map_err(Error::bug)
}

/// All rows of a materialised cursor.
pub(crate) struct Kept {
    batches: Vec<RecordBatch>,
    rows: usize,
    /// Number of the current row, from 1; 0 before the first row, `rows + 1` after the last one.
    at: usize,
    scroll: bool,
    _held: Reserved,
}

impl Kept {
    /// Materialises the rows.
    ///
    /// # Errors
    /// 53200 if they exceed the memory budget or [`KEPT_BYTES_MAX`].
    pub(crate) async fn of(batches: Batches, held: Reserved, scroll: bool) -> Result<Kept> {
        let (batches, held) = elsewhere(Kept::gather(batches, held)).await?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok(Kept { batches, rows, at: 0, scroll, _held: held })
    }

    async fn gather(mut batches: Batches, held: Reserved) -> Result<(Vec<RecordBatch>, Reserved)> {
        let mut gathered = Vec::new();
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            held.grow(batch.get_array_memory_size())?;
            if held.bytes() > KEPT_BYTES_MAX {
                let text = format!("the rows of the cursor take more than {} MiB", KEPT_BYTES_MAX >> 20);
                let hint = "without SCROLL and WITH HOLD, in a transaction that has changed nothing, they are not kept";
                return Err(Error::new(SqlState::OUT_OF_MEMORY, text).with_hint(hint));
            }
            gathered.push(batch);
        }
        Ok((gathered, held))
    }

    /// Moves the cursor; returns the numbers of the rows to return.
    pub(crate) fn fetch(&mut self, direction: Direction) -> Result<Fetched> {
        let end = self.rows + 1;
        let on = |from: usize, by: i64| from.saturating_add_signed(isize::try_from(by).unwrap_or(isize::MAX)).min(end);
        let to = match direction {
            Direction::Forward(by) | Direction::Relative(by) => on(self.at, by),
            Direction::Absolute(row) if row >= 0 => on(0, row),
            Direction::Absolute(row) => on(end, row),
        };
        // Fetching the current row again counts as moving back.
        let is_back = to < self.at || to == self.at && (1..end).contains(&to);
        if is_back && !self.scroll {
            return Err(only_forward());
        }
        let from = std::mem::replace(&mut self.at, to);
        let numbers = match direction {
            Direction::Forward(by) if by > 0 => from + 1..to + 1,
            Direction::Forward(by) if by < 0 => to..from,
            _ => to..to + 1,
        };
        let numbers = numbers.start.max(1)..numbers.end.min(end).max(1);
        Ok(Fetched { numbers, back: matches!(direction, Direction::Forward(by) if by < 0) })
    }

    /// The rows in the order of the FETCH; a batch is reversed only when it is read.
    pub(crate) fn rows(&self, fetched: &Fetched) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
        let mut slices = self.slices(fetched.numbers.clone());
        let back = fetched.back;
        if back {
            slices.reverse();
        }
        slices.into_iter().map(move |batch| if back { turned_round(&batch) } else { Ok(batch) })
    }

    /// The rows with these numbers, in ascending order.
    fn slices(&self, wanted: Range<usize>) -> Vec<RecordBatch> {
        let mut slices = Vec::new();
        let mut first = 1;
        for batch in &self.batches {
            let (from, to) = (wanted.start.max(first), wanted.end.min(first + batch.num_rows()));
            if from < to {
                slices.push(batch.slice(from - first, to - from));
            }
            first += batch.num_rows();
        }
        slices
    }
}

pub(crate) fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}
