//! Long queries that are compiled: on a thread of their own, rows going out while they are made.
//!
//! The thread waits for whoever takes the rows, so that few of them are in memory. A query that keeps nothing of the rows that went lets go
//! of what it reads while it waits; others hold up the freeing of memory that transactions let go, until they are done.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::rows::View;
use arrow_array::RecordBatch;
use bumpalo::Bump;
use compiled::Reading;
use engine::Event;
use futures::Stream;
use model::{Datum, Error, Result, SqlState, Type};
use pg::Form;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::JoinHandle;

use super::RowsPlan;
use super::run::{Arguments, BatchMaker, Executed, Memory, OwnArguments, planned_anew, until_durable, write_row};
use super::zone::Clocks;
use crate::context::StatementContext;
use crate::copy::{CHUNK_BYTES, Chunk};
use crate::database::Database;
use crate::errors::locate;
use crate::session::{Outcome, Plan, Prepared, Session};

/// Pieces of a result that wait to be taken.
const PIECES_MAX: usize = 4;

/// Begins a query, by the plan that it was prepared with, or a fresh one. Rows are messages in these forms, or batches.
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
        if plan.holds(&context.snapshot, &context.settings) {
            break context;
        }
        fresh = Some(Box::new(planned_anew(session, prepared, plan)?));
    };
    let shows_own = !session.rows_txn()?.is_empty();
    // What is shown must not be taken back by a crash.
    until_durable(session, context.snapshot.lsn()).await?;
    let plan = plan_of(prepared, fresh.as_deref())?;
    let (types, columns) = (plan.types.clone(), plan.columns.clone().unwrap_or_default());
    let zone = session.settings.time_zone();
    let view = context.rows_view.clone().ok_or_else(|| Error::bug("a query of rows without their snapshot"))?;
    plan.compiled.tables_read().for_each(|table| view.note_table(table));
    let reader = Reader {
        view,
        clocks: Clocks(session.settings.zone().clone()),
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

/// Makes pieces of rows.
trait Maker: Send + 'static {
    type Piece: Send + 'static;

    /// Takes a row; a piece, when there are rows enough.
    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<Self::Piece>>;

    /// The rows that are in no piece yet.
    fn rest(&mut self) -> Result<Option<Self::Piece>>;
}

impl Maker for BatchMaker {
    type Piece = RecordBatch;

    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<RecordBatch>> {
        BatchMaker::row(self, row)
    }

    fn rest(&mut self) -> Result<Option<RecordBatch>> {
        BatchMaker::rest(self)
    }
}

/// Makes messages of rows.
struct ChunkMaker {
    clocks: Clocks,
    types: Vec<Type>,
    forms: Vec<Form>,
    chunk: Chunk,
}

impl ChunkMaker {
    fn empty() -> Chunk {
        Chunk { bytes: Vec::new(), rows: 0 }
    }

    fn take(&mut self) -> Chunk {
        std::mem::replace(&mut self.chunk, ChunkMaker::empty())
    }
}

impl Maker for ChunkMaker {
    type Piece = Chunk;

    fn row(&mut self, row: &[Datum<'_>]) -> Result<Option<Chunk>> {
        let mut offset = |seconds| self.clocks.offset_at(seconds);
        write_row(&mut self.chunk.bytes, row, &self.types, &self.forms, &mut offset);
        self.chunk.rows += 1;
        Ok((self.chunk.bytes.len() >= CHUNK_BYTES).then(|| self.take()))
    }

    fn rest(&mut self) -> Result<Option<Chunk>> {
        Ok((self.chunk.rows > 0).then(|| self.take()))
    }
}

/// A query as it is read.
struct Reader {
    prepared: Prepared,
    fresh: Option<Box<RowsPlan>>,
    arguments: OwnArguments,
    /// Keeps the versions of rows.
    context: Arc<StatementContext>,
    view: View,
    clocks: Clocks,
    /// Whose memory it takes.
    database: Database,
    reading: Reading,
    /// Nobody wants more rows.
    unwanted: Arc<AtomicBool>,
}

impl Reader {
    /// The rows, as a thread makes them from now on.
    fn rows<M: Maker>(self, maker: M) -> impl Stream<Item = Result<M::Piece>> + Send {
        futures::stream::unfold(Running::start(self, maker), |mut running| async move {
            let piece = running.next().await?;
            Some((piece, running))
        })
    }

    /// On the thread: all pieces in turn.
    fn produce<M: Maker>(mut self, mut maker: M, sender: &Sender<Result<M::Piece>>) -> Result<()> {
        let cuttable = plan_of(&self.prepared, self.fresh.as_deref())?.compiled.goes_by_parts();
        while !self.reading.is_done() {
            let mut waiting = Vec::new();
            self.part(&mut |row| {
                let Some(piece) = maker.row(row)? else { return Ok(ControlFlow::Continue(())) };
                if !cuttable {
                    send(sender, piece)?;
                    return Ok(ControlFlow::Continue(()));
                }
                match sender.try_send(Ok(piece)) {
                    Ok(()) => Ok(ControlFlow::Continue(())),
                    Err(TrySendError::Full(piece)) => {
                        waiting.extend(piece.ok());
                        Ok(ControlFlow::Break(()))
                    }
                    Err(TrySendError::Closed(_)) => Err(canceled()),
                }
            })?;
            // Nothing of what was read is held by now.
            for piece in waiting {
                send(sender, piece)?;
            }
        }
        match maker.rest()? {
            Some(piece) => send(sender, piece),
            None => Ok(()),
        }
    }

    fn part(&mut self, take: &mut dyn FnMut(&[Datum<'_>]) -> Result<ControlFlow<()>>) -> Result<()> {
        let plan = plan_of(&self.prepared, self.fresh.as_deref())?;
        let arena = Bump::new();
        let params = self.arguments.get().datums(plan.compiled.params(), &arena)?;
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

fn send<T>(sender: &Sender<Result<T>>, piece: T) -> Result<()> {
    sender.blocking_send(Ok(piece)).map_err(|_| canceled())
}

/// Nobody is told.
fn canceled() -> Error {
    Error::new(SqlState::QUERY_CANCELED, "the result is not wanted any more")
}

/// The end of a query where its rows arrive; dropping it stops the query.
struct Running<T> {
    pieces: Receiver<Result<T>>,
    thread: Option<JoinHandle<()>>,
    unwanted: Arc<AtomicBool>,
}

impl<T: Send + 'static> Running<T> {
    fn start<M: Maker<Piece = T>>(reader: Reader, maker: M) -> Running<T> {
        let (sender, pieces) = tokio::sync::mpsc::channel(PIECES_MAX);
        let unwanted = Arc::clone(&reader.unwanted);
        let thread = tokio::task::spawn_blocking(move || {
            if let Err(error) = reader.produce(maker, &sender) {
                // Who is gone need not be told.
                let _ = sender.blocking_send(Err(error));
            }
        });
        Running { pieces, thread: Some(thread), unwanted }
    }

    async fn next(&mut self) -> Option<Result<T>> {
        if let Some(piece) = self.pieces.recv().await {
            return Some(piece);
        }
        // The end, unless it came by a panic: then rows are missing.
        let ended = self.thread.take()?.await;
        ended.err().map(|error| Err(Error::bug(format!("a query stopped: {error}"))))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// Random numbers alone: a query that only reads asks for no others.
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
