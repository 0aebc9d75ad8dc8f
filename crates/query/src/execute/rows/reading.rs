//! Long compiled queries, which run on separate threads and send rows while they are produced.
//!
//! Always true:
//! - A streaming query occupies no thread, and pins nothing that it reads, while its client fetches no rows.
//! - Other queries block on their threads, at most [`READERS_WAITING_MAX`] at a time; the output of further
//!   ones is buffered and counted as memory of results.
//! - A result that waits for its client is counted too, which bounds their number; a result that fits in its
//!   first piece is not.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::rows::View;
use arrow_array::RecordBatch;
use bumpalo::Bump;
use compiled::Reading;
use engine::{Event, Reservation, Work};
use futures::Stream;
use model::{Datum, Error, Result, SqlState};
use pg::Form;
use relational::results::{CHUNK_BYTES, Chunk, batch_bytes};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::JoinHandle;

use super::run::{BatchMaker, Memory, planned_anew, until_durable, write_row};
use crate::errors::locate;
use crate::plan::rows::{ResultType, RowsPlan};
use crate::plan::{Plan, Prepared};
use crate::result::{Arguments, Executed, Outcome, OwnArguments};
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::context::StatementContext;
use crate::session::database::Database;

/// Capacity of the channel of result pieces.
const PIECES_MAX: usize = 1;
/// Memory counted for a result that waits for its client: pieces, plan, and unsent output.
const OPEN_BYTES: u64 = 3 * CHUNK_BYTES as u64;
/// Shorter pieces are covered by [`OPEN_BYTES`] or not counted.
const LONG_PIECE_BYTES: usize = 1 << 20;

/// Starts a query with its prepared plan or the plan `fresh`. Rows are messages in these formats, or batches
/// if `forms` is `None`.
pub(super) async fn start(
    session: &mut Session,
    prepared: &Prepared,
    mut fresh: Option<Box<RowsPlan>>,
    arguments: Arguments<'_>,
    forms: Option<Vec<Form>>,
) -> Result<Executed> {
    let context = loop {
        let context = session.context_of_newest();
        let plan = plan_of(prepared, fresh.as_deref())?;
        if plan.holds(&context.reads.snapshot, &context.settings) {
            break context;
        }
        fresh = Some(Box::new(planned_anew(session, prepared, plan)?));
    };
    let shows_own = !session.rows_txn()?.is_empty();
    // Rows must be durable before they are returned: a crash must not revoke them.
    until_durable(session, context.reads.snapshot.lsn()).await?;
    let plan = plan_of(prepared, fresh.as_deref())?;
    let (types, columns) = (plan.types.clone(), plan.columns.clone().unwrap_or_default());
    let zone = session.settings.time_zone();
    let view = context.reads.rows_view.clone().ok_or_else(|| Error::bug("a query of rows without their snapshot"))?;
    plan.compiled.tables_read().for_each(|table| view.note_table(table));
    let reader = Reader {
        view,
        clocks: match plan.needs_facts() {
            true => Clocks::with_facts(session, &context),
            false => Clocks::of(session),
        },
        arguments: arguments.to_own(),
        context,
        prepared: prepared.clone(),
        fresh,
        database: session.database.clone(),
        reading: Reading::default(),
        unwanted: Arc::default(),
    };
    Ok(match forms {
        Some(forms) => {
            let maker = ChunkMaker { clocks: reader.clocks.clone(), types, forms, chunk: ChunkMaker::empty() };
            Executed::Stream { chunks: Box::pin(reader.rows(maker)), shows_own }
        }
        None => {
            let batches = Box::pin(reader.rows(BatchMaker::new(&columns, &types, &zone)));
            Executed::Outcome(Outcome::Rows { columns, batches, tag: "SELECT".into() })
        }
    })
}

fn plan_of<'a>(prepared: &'a Prepared, fresh: Option<&'a RowsPlan>) -> Result<&'a RowsPlan> {
    match (fresh, &prepared.0.plan) {
        (Some(plan), _) => Ok(plan),
        (None, Plan::Rows(plan)) => Ok(plan),
        (None, _) => Err(Error::bug("a statement that is not compiled is read as if it were")),
    }
}

/// Assembles rows into pieces of the result.
trait Maker: Send + 'static {
    type Piece: Send + 'static;

    /// Size of a piece in bytes.
    fn bytes(piece: &Self::Piece) -> usize;

    /// Adds a row; returns a piece when there are enough rows.
    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<Self::Piece>>;

    /// Returns the remaining rows.
    fn rest(&mut self) -> Result<Option<Self::Piece>>;
}

impl Maker for BatchMaker {
    type Piece = RecordBatch;

    fn bytes(piece: &RecordBatch) -> usize {
        batch_bytes(piece)
    }

    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<RecordBatch>> {
        BatchMaker::row(self, row)
    }

    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        BatchMaker::rest(self)
    }
}

/// Assembles rows into DataRow messages.
struct ChunkMaker {
    clocks: Clocks,
    types: Vec<ResultType>,
    forms: Vec<Form>,
    chunk: Chunk,
}

impl ChunkMaker {
    fn empty() -> Chunk {
        Chunk { bytes: Vec::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8), rows: 0 }
    }

    fn take(&mut self) -> Chunk {
        std::mem::replace(&mut self.chunk, ChunkMaker::empty())
    }
}

impl Maker for ChunkMaker {
    type Piece = Chunk;

    fn bytes(piece: &Chunk) -> usize {
        piece.bytes.capacity()
    }

    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<Chunk>> {
        write_row(&mut self.chunk.bytes, row, &self.types, &self.forms, &self.clocks)?;
        self.chunk.rows += 1;
        Ok((self.chunk.bytes.len() >= CHUNK_BYTES).then(|| self.take()))
    }

    fn rest(&mut self) -> Result<Option<Chunk>> {
        Ok((self.chunk.rows > 0).then(|| self.take()))
    }
}

/// State of a running query.
struct Reader {
    prepared: Prepared,
    fresh: Option<Box<RowsPlan>>,
    arguments: OwnArguments,
    /// Pins the row versions of the snapshot.
    context: Arc<StatementContext>,
    view: View,
    clocks: Clocks,
    /// Database whose memory budget is charged.
    database: Database,
    reading: Reading,
    /// Set when the result was dropped.
    unwanted: Arc<AtomicBool>,
}

/// A query between two slices, and its rows that are not in a piece yet.
struct Job<M> {
    reader: Reader,
    maker: M,
}

/// State that a thread returns when it ends.
struct Left<M: Maker> {
    /// Pieces that were not sent, in order.
    pieces: VecDeque<M::Piece>,
    /// Memory reserved for these pieces.
    held: Reservation,
    /// The query, unless it has ended.
    next: Option<Box<Job<M>>>,
}

impl<M: Maker> Job<M> {
    /// Runs on a separate thread. Produces pieces until the channel is full if the query can be interrupted
    /// there, otherwise to its end.
    fn run(mut self: Box<Self>, sender: &Sender<Result<M::Piece>>) -> Result<Left<M>> {
        let reader = &mut self.reader;
        let cuttable = plan_of(&reader.prepared, reader.fresh.as_deref())?.compiled.goes_by_parts();
        let held = reader.database.engine().memory().reservation(Work::Results);
        let slots = reader.database.readers().clone();
        let mut left = Left { pieces: VecDeque::new(), held, next: None };
        while !reader.reading.is_done() {
            let maker = &mut self.maker;
            reader.part(&mut |row| {
                let Some(piece) = maker.row(row)? else { return Ok(ControlFlow::Continue(())) };
                let full = left.put(piece, sender, &slots, cuttable)?;
                Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if cuttable && !left.pieces.is_empty() {
                // Nothing that was read is pinned here, so the thread is released until more rows are
                // fetched.
                left.next = Some(self);
                return Ok(left);
            }
        }
        if let Some(piece) = self.maker.rest()? {
            left.put(piece, sender, &slots, cuttable)?;
        }
        Ok(left)
    }
}

impl<M: Maker> Left<M> {
    /// Sends a piece; returns true if the query should stop when it can. A query that cannot stop, or not
    /// yet, blocks until there is room if a slot is free; otherwise it buffers its output within the memory
    /// budget.
    fn put(
        &mut self,
        piece: M::Piece,
        sender: &Sender<Result<M::Piece>>,
        slots: &Semaphore,
        stops: bool,
    ) -> Result<bool> {
        // A piece of a long row. The connection reserves its copy among the messages to send.
        if M::bytes(&piece) > LONG_PIECE_BYTES {
            self.held.resize(self.held.bytes().max(M::bytes(&piece) as u64 + OPEN_BYTES))?;
        }
        let piece = if self.pieces.is_empty() {
            match sender.try_send(Ok(piece)) {
                Ok(()) => return Ok(false),
                Err(TrySendError::Closed(_)) => return Err(canceled()),
                Err(TrySendError::Full(piece)) => piece?,
            }
        } else {
            piece
        };
        self.held.resize(self.held.bytes().max(OPEN_BYTES))?;
        // One piece is included in the memory counted for a waiting result.
        if stops && self.pieces.is_empty() {
            self.pieces.push_back(piece);
            return Ok(true);
        }
        if let Ok(_slot) = slots.try_acquire() {
            for piece in self.pieces.drain(..).chain([piece]) {
                sender.blocking_send(Ok(piece)).map_err(|_| canceled())?;
            }
            self.held.shrink_to(OPEN_BYTES);
            return Ok(false);
        }
        self.held.grow(M::bytes(&piece) as u64)?;
        self.pieces.push_back(piece);
        Ok(true)
    }
}

impl Reader {
    /// Stream of pieces, produced on separate threads.
    fn rows<M: Maker>(self, maker: M) -> impl Stream<Item = Result<M::Piece>> + Send {
        futures::stream::unfold(Running::start(self, maker), |mut running| async move {
            let piece = running.next().await?;
            Some((piece, running))
        })
    }

    fn part(&mut self, take: &mut dyn FnMut(&[Datum<'_>]) -> Result<ControlFlow<()>>) -> Result<()> {
        let plan = plan_of(&self.prepared, self.fresh.as_deref())?;
        let arena = Bump::new();
        let params = self.arguments.get().datums(plan.compiled.params(), &arena, &self.clocks)?;
        let memory = Memory::new(&self.database);
        let check = |bytes| if self.unwanted.load(Ordering::Relaxed) { Err(canceled()) } else { memory.hold(bytes) };
        let numbers = Random(&self.context);
        let now = self.context.now_ns.div_euclid(1_000);
        let given = compiled::Session { check: &check, now, zone: &self.clocks, numbers: Some(&numbers) };
        let guard = crossbeam_epoch::pin();
        let ran = self.reading.part(&plan.compiled, &self.view, &params, given, &guard, take);
        ran.map_err(|error| locate(error, &self.prepared.0.statement.0))
    }
}

/// Error of a dropped result; no client sees it.
fn canceled() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "the result is not wanted any more")
}

/// A slice of a query on its thread: its pieces, and the state that it returns.
struct Running<M: Maker> {
    pieces: Receiver<Result<M::Piece>>,
    thread: Option<JoinHandle<Result<Left<M>>>>,
    /// State returned by the last thread.
    left: Option<Left<M>>,
    unwanted: Arc<AtomicBool>,
}

impl<M: Maker> Running<M> {
    fn start(reader: Reader, maker: M) -> Running<M> {
        let unwanted = Arc::clone(&reader.unwanted);
        let (pieces, thread) = started(Box::new(Job { reader, maker }));
        Running { pieces, thread: Some(thread), left: None, unwanted }
    }

    async fn next(&mut self) -> Option<Result<M::Piece>> {
        loop {
            if let Some(piece) = self.pieces.recv().await {
                return Some(piece);
            }
            if let Some(thread) = self.thread.take() {
                match thread.await {
                    Ok(Ok(left)) => self.left = Some(left),
                    Ok(Err(error)) => return Some(Err(error)),
                    // The thread panicked: rows are missing.
                    Err(ended) => return Some(Err(Error::bug(format!("a query stopped: {ended}")))),
                }
            }
            let left = self.left.as_mut()?;
            let piece = left.pieces.pop_front();
            if let Some(piece) = &piece {
                let held = left.held.bytes().saturating_sub(M::bytes(piece) as u64);
                left.held.shrink_to(held.max(OPEN_BYTES));
            }
            if left.pieces.is_empty() {
                // The next slice runs while this piece is sent.
                if let Some(job) = self.left.take().and_then(|left| left.next) {
                    let (pieces, thread) = started(job);
                    (self.pieces, self.thread) = (pieces, Some(thread));
                }
            }
            if let Some(piece) = piece {
                return Some(Ok(piece));
            }
        }
    }
}

/// Runs a slice of a query on a thread. The channel closes when the thread ends.
#[expect(clippy::type_complexity, reason = "two things taken apart at once")]
fn started<M: Maker>(job: Box<Job<M>>) -> (Receiver<Result<M::Piece>>, JoinHandle<Result<Left<M>>>) {
    let (sender, pieces) = tokio::sync::mpsc::channel(PIECES_MAX);
    (pieces, tokio::task::spawn_blocking(move || job.run(&sender)))
}

impl<M: Maker> Drop for Running<M> {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// Random numbers only: a read-only query uses no sequences.
struct Random<'a>(&'a StatementContext);

impl compiled::Numbers for Random<'_> {
    fn next(&self, _sequence: u32) -> Result<std::result::Result<i64, Event>> {
        Err(Error::bug("a query that only reads takes a number of a sequence"))
    }

    fn current(&self, _sequence: u32) -> Option<i64> {
        None
    }

    fn last(&self) -> Option<i64> {
        None
    }

    fn set(&self, _sequence: u32, _last: i64, _is_called: bool) -> Result<std::result::Result<(), Event>> {
        Err(Error::bug("a query that only reads sets a sequence"))
    }

    fn random(&self) -> u64 {
        self.0.engine.env().random()
    }
}
