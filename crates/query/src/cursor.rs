//! Cursors: DECLARE, FETCH, MOVE and CLOSE.
//!
//! A cursor reads the snapshot at its DECLARE. Rows are produced on FETCH and discarded. DECLARE materialises the rows
//! of:
//! - SCROLL and WITH HOLD cursors;
//! - cursors that lock rows;
//! - cursors in a transaction that has written, because its next write would change the rows;
//! - any further cursor while `PASSING_MAX` cursors of the database stream their rows.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use arrow_array::{RecordBatch, UInt32Array};
use futures::StreamExt;
use futures::stream::Fuse;
use model::{Error, Result, SqlState};
use parser::ast::{DeclareCursor, Fetch, FetchDirection};
use relational::Reserved;
use relational::results::Batches;
use tokio::sync::{Mutex, OwnedSemaphorePermit};

use crate::rows::{Arguments, Executed, Verb};
use crate::session::{Outcome, Plan, Prepared, Session};
use crate::statement::{Command, Statement};
use pg_catalog::facts::OpenCursor;
use relational::types::{OutputColumn, Value};

/// Maximum bytes of rows that one cursor materialises.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Maximum number of open cursors of a session.
const CURSORS_MAX: usize = 10_000;

/// A cursor statement.
pub(crate) enum CursorStatement {
    Declare {
        name: String,
        scroll: bool,
        hold: bool,
        query: Statement,
    },
    Fetch {
        name: String,
        direction: Direction,
        only_move: bool,
    },
    /// CLOSE; `None` closes all cursors.
    Close(Option<String>),
}

/// The direction and distance of a FETCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Up to this number of rows forward, backward if negative; 0 fetches the current row again.
    Forward(i64),
    /// The row with this number, from 1; negative numbers count from the end.
    Absolute(i64),
    /// The row at this distance from the current one.
    Relative(i64),
}

/// The count of FETCH ALL.
const ALL: i64 = i64::MAX;

impl CursorStatement {
    /// A DECLARE. `part` makes the statement of its query.
    ///
    /// # Errors
    /// 0A000 for BINARY.
    pub(crate) fn declare(declare: DeclareCursor, part: &dyn Fn(Command) -> Statement) -> Result<CursorStatement> {
        let DeclareCursor { name, binary, scroll, hold, query, .. } = declare;
        if binary {
            return Err(Error::unsupported("binary cursors are not supported")
                .with_hint("declare it without BINARY, and ask for the binary format when you fetch"));
        }
        let (name, scroll) = (name.to_string(), scroll == Some(true));
        Ok(CursorStatement::Declare { name, scroll, hold, query: part(Command::Query(query)) })
    }

    /// A FETCH or MOVE.
    pub(crate) fn fetch(fetch: &Fetch) -> CursorStatement {
        let direction = match fetch.direction {
            FetchDirection::Forward(count) => Direction::Forward(count.into()),
            FetchDirection::Backward(count) => Direction::Forward(-i64::from(count)),
            FetchDirection::Absolute(row) => Direction::Absolute(row.into()),
            FetchDirection::Relative(rows) => Direction::Relative(rows.into()),
            FetchDirection::ForwardAll => Direction::Forward(ALL),
            FetchDirection::BackwardAll => Direction::Forward(-ALL),
        };
        CursorStatement::Fetch { name: fetch.cursor.to_string(), direction, only_move: fetch.is_move }
    }
}

/// The cursors of a session, by name.
#[derive(Default)]
pub(crate) struct Cursors(std::collections::BTreeMap<String, Cursor>);

struct Cursor {
    columns: Vec<OutputColumn>,
    rows: Rows,
    life: Life,
    shown: OpenCursor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// Until the transaction ends, or is rolled back to where it had fewer savepoints.
    Transaction { savepoints: usize },
    /// Like `Transaction`, but the cursor survives COMMIT.
    Hold { savepoints: usize },
    /// Until it is closed.
    Session,
}

enum Rows {
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

    fn get_mut(&mut self, name: &str) -> Result<&mut Cursor> {
        self.0.get_mut(name).ok_or_else(|| unknown(name))
    }
}

fn unknown(name: &str) -> Error {
    Error::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// Runs FETCH, MOVE or CLOSE.
pub(crate) async fn execute(session: &mut Session, statement: &CursorStatement) -> Result<Outcome> {
    match statement {
        CursorStatement::Fetch { name, direction, only_move } => {
            let ended = Arc::new(AtomicBool::new(false));
            session.fetching = Some((name.clone(), Arc::clone(&ended)));
            match fetch(name, session.cursors.get_mut(name)?, *direction, *only_move).await? {
                Outcome::Rows { columns, batches, tag } => {
                    let end = futures::stream::poll_fn(move |_| {
                        ended.store(true, Ordering::Release);
                        Poll::Ready(None)
                    });
                    Ok(Outcome::Rows { columns, batches: Box::pin(batches.chain(end)), tag })
                }
                outcome => {
                    ended.store(true, Ordering::Release);
                    Ok(outcome)
                }
            }
        }
        CursorStatement::Close(Some(name)) if session.cursors.close(name) => Ok(Outcome::command("CLOSE CURSOR")),
        CursorStatement::Close(Some(name)) => Err(unknown(name)),
        CursorStatement::Close(None) => {
            session.cursors.close_all();
            Ok(Outcome::command("CLOSE CURSOR ALL"))
        }
        CursorStatement::Declare { .. } => Err(Error::bug("a cursor declared without its query")),
    }
}

/// Runs DECLARE. `query` is the planned query of the cursor.
pub(crate) async fn declare(
    session: &mut Session,
    (statement, sql): (&CursorStatement, &str),
    query: &Prepared,
    values: &[Value],
) -> Result<Outcome> {
    let CursorStatement::Declare { name, scroll, hold, .. } = statement else {
        return Err(Error::bug("a query of a cursor that is not declared"));
    };
    let Some(block) = &session.block else {
        return Err(Error::new(
            SqlState::NO_ACTIVE_SQL_TRANSACTION,
            "DECLARE CURSOR can only be used in transaction blocks",
        ));
    };
    let savepoints = block.savepoints.len();
    if session.cursors.0.contains_key(name) {
        return Err(Error::new(SqlState::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")));
    }
    if session.cursors.0.len() >= CURSORS_MAX {
        return Err(Error::new(
            SqlState::CONFIGURATION_LIMIT_EXCEEDED,
            format!("this session has {CURSORS_MAX} cursors already"),
        ));
    }
    let mut locks = false;
    let executed = match &query.0.plan {
        Plan::Rows(plan) if plan.verb == Verb::Select => {
            locks = !plan.is_read_only();
            crate::rows::execute(session, query, plan, Arguments::Values(values), None).await?
        }
        Plan::Query(_) => Executed::Outcome(crate::query::execute(session, query, values).await?),
        _ => return Err(Error::unsupported("DECLARE CURSOR must not contain data-modifying statements")),
    };
    let Executed::Outcome(Outcome::Rows { columns, batches, .. }) = executed else {
        return Err(Error::bug("a query without rows"));
    };
    let shows_own = session.txn().is_some_and(|txn| !txn.is_empty());
    let keeps = *scroll || *hold || shows_own || locks;
    let rows = match session.database.passing().filter(|_| !keeps) {
        Some(room) => Rows::Passing(Arc::new(Mutex::new(Passing::new(batches, room)))),
        None => {
            let held = session.database.runtime().reserved("cursor");
            Rows::Kept(Kept::of(batches, held, *scroll).await?)
        }
    };
    let life = if *hold { Life::Hold { savepoints } } else { Life::Transaction { savepoints } };
    let shown = OpenCursor {
        name: name.clone(),
        statement: sql.to_owned(),
        holdable: *hold,
        scrollable: *scroll,
        created_ns: session.database.engine().env().now_ns(),
    };
    session.cursors.0.insert(name.clone(), Cursor { columns, rows, life, shown });
    Ok(Outcome::command("DECLARE CURSOR"))
}

async fn fetch(name: &str, cursor: &mut Cursor, direction: Direction, only_move: bool) -> Result<Outcome> {
    let columns = cursor.columns.clone();
    let moved = |rows: u64| Ok(Outcome::command(format!("MOVE {rows}")));
    let batches: Batches = match &mut cursor.rows {
        Rows::Kept(kept) => {
            let fetched = kept.fetch(direction)?;
            if only_move {
                return moved(fetched.rows());
            }
            let rows = kept.rows(&fetched);
            Box::pin(futures::stream::iter(rows))
        }
        Rows::Passing(passing) => {
            let (skipped, rows) = passing.lock().await.way(name, direction)?;
            if skipped > 0 {
                elsewhere(counted(Passing::rows(passing, skipped))).await?;
            }
            Passing::rows(passing, rows)
        }
        Rows::Failed => return Err(failed(name)),
    };
    if only_move {
        return moved(elsewhere(counted(batches)).await?);
    }
    Ok(Outcome::Rows { columns, batches, tag: "FETCH".into() })
}

async fn counted(mut batches: Batches) -> Result<u64> {
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows() as u64;
    }
    Ok(rows)
}

/// Runs work in a task of its own, so that it does not block the threads that serve sockets. Dropping the future
/// cancels the task.
async fn elsewhere<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let mut task = tokio::task::JoinSet::new();
    task.spawn(work);
    let done = task.join_next().await.ok_or_else(|| Error::bug("a task that is not there"))?;
    done.map_err(|error| Error::bug(format!("a query stopped: {error}")))?
}

fn failed(name: &str) -> Error {
    Error::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}

/// A cursor that produces its rows on FETCH.
struct Passing {
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
    fn new(batches: Batches, room: OwnedSemaphorePermit) -> Passing {
        Passing { batches: batches.fuse(), begun: None, gone: 0, busy: false, _room: room }
    }

    /// The number of rows that a FETCH skips, and the number that it returns.
    fn way(&self, name: &str, direction: Direction) -> Result<(u64, u64)> {
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
    fn rows(passing: &Arc<Mutex<Passing>>, rows_max: u64) -> Batches {
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
struct Fetched {
    numbers: Range<usize>,
    /// Whether the rows are returned in reverse order.
    back: bool,
}

impl Fetched {
    fn rows(&self) -> u64 {
        self.numbers.len() as u64
    }
}

fn turned_round(batch: &RecordBatch) -> Result<RecordBatch> {
    let rows = u32::try_from(batch.num_rows()).map_err(Error::bug)?;
    let indices: UInt32Array = (0..rows).rev().collect();
    arrow_select::take::take_record_batch(batch, &indices).map_err(Error::bug)
}

/// All rows of a materialised cursor.
struct Kept {
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
    async fn of(batches: Batches, held: Reserved, scroll: bool) -> Result<Kept> {
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
    fn fetch(&mut self, direction: Direction) -> Result<Fetched> {
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
    fn rows(&self, fetched: &Fetched) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<CursorStatement> {
        let mut statements = crate::statement::parse(sql)?;
        let statement = statements.remove(0).0;
        match Arc::into_inner(statement).unwrap().command {
            Command::Cursor(cursor) => Ok(*cursor),
            _ => panic!("{sql} is of no cursor"),
        }
    }

    #[test]
    fn every_direction_is_understood_with_and_without_a_word_before_the_name() {
        for (words, expected) in [
            ("", Direction::Forward(1)),
            ("NEXT", Direction::Forward(1)),
            ("prior", Direction::Forward(-1)),
            ("FIRST", Direction::Absolute(1)),
            ("LAST", Direction::Absolute(-1)),
            ("ABSOLUTE 3", Direction::Absolute(3)),
            ("ABSOLUTE - 3", Direction::Absolute(-3)),
            ("RELATIVE +2", Direction::Relative(2)),
            ("0", Direction::Forward(0)),
            ("-7", Direction::Forward(-7)),
            ("ALL", Direction::Forward(ALL)),
            ("FORWARD", Direction::Forward(1)),
            ("FORWARD 12", Direction::Forward(12)),
            ("FORWARD ALL", Direction::Forward(ALL)),
            ("BACKWARD", Direction::Forward(-1)),
            ("BACKWARD 4", Direction::Forward(-4)),
            ("BACKWARD ALL", Direction::Forward(-ALL)),
        ] {
            for (verb, moves) in [("FETCH", false), ("move", true)] {
                for between in ["", "FROM", "in"] {
                    let sql = format!("{verb} {words} {between} \"C\"");
                    let CursorStatement::Fetch { name, direction, only_move } = parsed(&sql).unwrap() else {
                        panic!("{sql}")
                    };
                    assert_eq!((name.as_str(), direction, only_move), ("C", expected, moves), "{sql}");
                }
            }
        }
        let cursor_of_such_a_name = parsed("FETCH next").unwrap();
        assert!(matches!(cursor_of_such_a_name, CursorStatement::Fetch { name, .. } if name == "next"));
    }

    #[test]
    fn what_does_not_belong_there_is_refused_with_its_place() {
        for (sql, place, message) in [
            ("FETCH", 6, "syntax error at end of input"),
            ("FETCH 1 2 FROM c", 9, "syntax error at or near \"2\""),
            ("FETCH ABSOLUTE FROM c", 16, "syntax error at or near \"FROM\""),
            ("FETCH 99999999999 FROM c", 7, "syntax error at or near \"99999999999\""),
            ("FETCH c d", 9, "syntax error at or near \"d\""),
            ("CLOSE", 6, "syntax error at end of input"),
            ("DECLARE c FOR SELECT 1", 11, "syntax error at or near \"FOR\""),
            ("DECLARE c CURSOR FOR", 21, "syntax error at end of input"),
            ("DECLARE c CURSOR FOR UPDATE t SET a = 1", 22, "syntax error at or near \"UPDATE\""),
            ("DECLARE c NO CURSOR FOR SELECT 1", 14, "syntax error at or near \"CURSOR\""),
        ] {
            let error = parsed(sql).err().unwrap();
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{sql}: {error}");
            assert_eq!((error.position(), error.to_string().as_str()), (Some(place), message), "{sql}");
        }
    }
}
