//! UPDATE, DELETE and MERGE of `columns` tables, and INSERT with RETURNING.
//!
//! A query computes the rows in the statement's snapshot, then they are written by the path of INSERT:
//! - UPDATE of fields writes the columns of SET of each row, which replace those of the stored row.
//! - UPDATE of the key or the time, and DELETE, hide each row by a delete of its key and time.
//! - In a table without a key, rows have no identity but their time: the rows of a time are deleted together, and those
//!   that the statement does not delete are written again.
//!
//! A DELETE by conditions on the key and one range of the time is a single delete, without a query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use columns::rows::time_values;
use engine::{Batch, KeyList, Op, OwnRowDeletes, Reservation, ScanRequest, SeriesFilter, TableView, Work};
use futures::StreamExt;
use model::{ColumnRole, Error, Result, SqlState, TimeRange};
use parser::ast::Statement as Change;
use pg_catalog::oids::{key_and_time, key_name};
use relational::counted;
use relational::scan::BATCH_ROWS;
use relational::types::{OutputColumn, Value};
use rustc_hash::FxHashSet;

use super::insert::{assign_to, batch_of, keys_of};
use super::query::{Over, ready_of};
use super::rows::until_durable;
use super::table_rules;
use crate::errors::locate;
use crate::plan::modify::{Branch, Modification, ModifyPlan};
use crate::plan::rows::Verb;
use crate::plan::{Prepared, delete};
use crate::result::Outcome;
use crate::session::Session;
use crate::statement::Command;

/// Runs an UPDATE, DELETE, MERGE or INSERT … RETURNING.
pub(crate) async fn execute(
    session: &mut Session,
    prepared: &Prepared,
    plan: &ModifyPlan,
    values: &[Value],
) -> Result<Outcome> {
    check_writable(session, plan.verb)?;
    if let Some(target) = range(session, prepared, plan, values)? {
        let rows = super::delete::hide(session, target).await?;
        return Ok(Outcome::command(plan.verb.tag(rows)));
    }
    let parsed = &prepared.0.statement.0;
    let mut running = Running::start(session, prepared, plan).await.map_err(|error| locate(error, parsed))?;
    let of = &running.of;
    let ready = ready_of(session, &of.context, &of.statement.0, &of.query, values).await?;
    let mut batches = ready.stream(session, Arc::clone(&of.statement.0)).await?;
    while let Some(batch) = batches.next().await {
        running.take(session, batch?)?;
        // The query may always be ahead: without a pause, a cancellation would not be seen.
        tokio::task::yield_now().await;
    }
    drop(batches);
    running.finish(session).await
}

/// Lines of EXPLAIN.
pub(crate) async fn describe(
    session: &mut Session,
    prepared: &Prepared,
    plan: &ModifyPlan,
    values: &[Value],
) -> Result<Vec<String>> {
    if let Some(target) = range(session, prepared, plan, values)? {
        let series = match &target.series {
            SeriesFilter::Only(list) => list.len().to_string(),
            _ => "all".to_owned(),
        };
        let times = target.times;
        let name = &target.table.name;
        return Ok(vec![format!("Delete: table={name}, series={series}, time=[{}, {}]", times.start, times.last)]);
    }
    let of = modification(session, prepared, plan)?;
    let ready = ready_of(session, &of.context, &of.statement.0, &of.query, values).await?;
    let mut lines = vec![format!("{:?}: table={}", of.verb, of.table.name)];
    lines.extend(ready.execution.plan().describe(false).into_iter().map(|line| format!("  {line}")));
    Ok(lines)
}

fn check_writable(session: &mut Session, verb: Verb) -> Result<()> {
    let writer = session.writer().map(|_| ());
    writer.map_err(|error| match error.state() {
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            let what = format!("{verb:?}").to_uppercase();
            Error::new(error.state(), format!("cannot execute {what} in a read-only transaction"))
        }
        _ => error,
    })
}

/// The series and times of a DELETE that is a single delete.
fn range(
    session: &mut Session,
    prepared: &Prepared,
    plan: &ModifyPlan,
    values: &[Value],
) -> Result<Option<delete::Target>> {
    let statement = &prepared.0.statement.0;
    match &statement.command {
        Command::Change(Change::Delete(delete)) => delete::target(session, statement, delete, values, &plan.parameters),
        _ => Ok(None),
    }
}

/// Plans the statement in its snapshot.
fn modification(session: &mut Session, prepared: &Prepared, plan: &ModifyPlan) -> Result<Modification> {
    let statement = &prepared.0.statement;
    let Command::Change(change) = &statement.0.command else {
        return Err(Error::bug("a change that is none"));
    };
    let of = Modification::of(session, statement, change, &plan.parameters, &mut table_rules::default_values)?;
    let shown = |columns: &Option<Vec<OutputColumn>>| {
        let types = |list: &Vec<OutputColumn>| list.iter().map(|one| (one.name.clone(), one.oid, one.typmod)).collect();
        columns.as_ref().map::<Vec<(String, u32, i32)>, _>(types)
    };
    if shown(&of.columns) != shown(&plan.columns) {
        return Err(Error::unsupported("cached plan must not change result type"));
    }
    Ok(of)
}

/// Rows of a table by key and time.
#[derive(Default)]
struct RowSet {
    keys: KeyList,
    /// Positions in `keys`, and times.
    rows: FxHashSet<(u32, i64)>,
}

impl RowSet {
    /// Adds the rows of a batch. Returns whether each was not in the set before.
    ///
    /// # Errors
    /// 54000 for more keys than a statement can name.
    fn add(&mut self, keys: &KeyList, series: &[u32], times: &[i64]) -> Result<Vec<bool>> {
        const KEY_BYTES_MAX: usize = 2 << 30;
        if self.keys.bytes() + keys.bytes() > KEY_BYTES_MAX {
            let text = format!("a statement can change rows of {KEY_BYTES_MAX} bytes of keys");
            return Err(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text).with_hint("change the rows in parts"));
        }
        let places: Vec<u32> = keys.iter().map(|key| self.keys.intern(key)).collect();
        let mut add = |(series, time): (&u32, &i64)| self.rows.insert((places[*series as usize], *time));
        Ok(series.iter().zip(times).map(&mut add).collect())
    }

    fn memory_bytes(&self) -> usize {
        // A slot of the hash table has a control byte.
        self.rows.capacity() * (size_of::<(u32, i64)>() + 1) * 8 / 7 + self.keys.memory_bytes()
    }
}

/// Rows in order, computed in pieces.
async fn sorted(rows: FxHashSet<(u32, i64)>) -> Vec<(u32, i64)> {
    const ROWS_SORTED: usize = 1 << 18;
    let mut rows: Vec<(u32, i64)> = rows.into_iter().collect();
    for piece in rows.chunks_mut(ROWS_SORTED) {
        piece.sort_unstable();
        tokio::task::yield_now().await;
    }
    // This sort finds the sorted pieces, and merges them.
    rows.sort();
    rows
}

/// The last row of a table without a key.
struct LastRow {
    time: i64,
    /// Whether rows of this time are changed, so that all of them are replaced.
    is_replaced: bool,
    row_number: Option<i64>,
}

/// A running UPDATE, DELETE, MERGE or INSERT.
struct Running {
    of: Modification,
    zone: Arc<str>,
    /// Rows changed so far, before the change. Of an UPDATE that moves no row, only if a row can occur several times.
    old: RowSet,
    /// Rows that MERGE has changed, before the change.
    touched: RowSet,
    /// The last row, in a table without a key.
    last: Option<LastRow>,
    /// Rows to write when all deletes are known, as the query gave them.
    kept: Vec<RecordBatch>,
    /// Rows of RETURNING.
    returned: Vec<RecordBatch>,
    /// Memory of the rows of `kept` and `returned`, and of all.
    row_bytes: usize,
    held: Reservation,
    count: u64,
}

impl Running {
    async fn start(session: &mut Session, prepared: &Prepared, plan: &ModifyPlan) -> Result<Running> {
        let of = modification(session, prepared, plan)?;
        if of.context.reads.rows_view.is_some() {
            until_durable(session, of.context.reads.snapshot.lsn()).await?;
        }
        let held = session.database.engine().memory().reservation(Work::Statements);
        let zone = session.settings.time_zone();
        let (kept, returned) = (Vec::new(), Vec::new());
        Ok(Running {
            of,
            zone,
            old: RowSet::default(),
            touched: RowSet::default(),
            last: None,
            kept,
            returned,
            row_bytes: 0,
            held,
            count: 0,
        })
    }

    /// Whether SET can change the key or the time of a row.
    fn moves(&self) -> bool {
        self.are_moved(&self.of.layout.assigned)
    }

    fn are_moved(&self, assigned: &[usize]) -> bool {
        assigned.iter().any(|at| self.of.table.columns[*at].role != ColumnRole::Field)
    }

    /// Rows of a MERGE.
    fn merge(&mut self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        let action = self.of.layout.action.ok_or_else(|| Error::bug("a MERGE without branches"))?;
        let actions = batch.column(action).as_primitive::<Int32Type>().clone();
        let branches = std::mem::take(&mut self.of.layout.branches);
        for (number, branch) in branches.iter().enumerate() {
            let is_it: BooleanArray = actions.iter().map(|action| Some(action == i32::try_from(number).ok())).collect();
            let rows = filter_record_batch(batch, &is_it).map_err(Error::bug)?;
            if rows.num_rows() > 0 {
                self.merge_branch(session, branch, rows)?;
            }
        }
        self.of.layout.branches = branches;
        Ok(())
    }

    fn merge_branch(&mut self, session: &mut Session, branch: &Branch, rows: RecordBatch) -> Result<()> {
        self.count += rows.num_rows() as u64;
        let is_moved = match branch {
            Branch::Nothing => return Ok(()),
            Branch::Insert => {
                self.keep(rows);
                return Ok(());
            }
            Branch::Delete => true,
            Branch::Update(assigned) => self.are_moved(assigned),
        };
        let (keys, series, times) = self.identity(&rows)?;
        if self.touched.add(&keys, &series, &times)?.contains(&false) {
            let text = "MERGE command cannot affect row a second time";
            let hint = "Ensure that not more than one source row matches any one target row.";
            return Err(Error::new(SqlState::CARDINALITY_VIOLATION, text).with_hint(hint));
        }
        if is_moved {
            self.old.add(&keys, &series, &times)?;
        }
        match branch {
            Branch::Update(_) if is_moved => self.keep(rows),
            Branch::Update(assigned) => self.update_fields(session, &rows, assigned)?,
            _ => {}
        }
        Ok(())
    }

    /// Writes the columns of SET of rows that stay where they are.
    fn update_fields(&self, session: &mut Session, rows: &RecordBatch, assigned: &[usize]) -> Result<()> {
        let table = &self.of.table;
        let mut fields: Vec<_> = assigned.iter().map(|at| table.columns[*at].id).collect();
        table_rules::with_constrained(session, table, &mut fields)?;
        fields.sort_unstable();
        let rows = self.new_rows(rows, &Op::Update(fields.into()))?;
        table_rules::write(session, table, rows)
    }

    fn take(&mut self, session: &mut Session, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        match self.of.layout.is_changed {
            Some(_) => self.take_times(&batch)?,
            None if self.of.verb == Verb::Insert => self.insert(session, &batch)?,
            None if self.of.verb == Verb::Merge => self.merge(session, &batch)?,
            None => self.take_rows(session, batch)?,
        }
        self.held.resize((self.row_bytes + self.old.memory_bytes() + self.touched.memory_bytes()) as u64)
    }

    /// Rows of an INSERT.
    fn insert(&mut self, session: &mut Session, batch: &RecordBatch) -> Result<()> {
        self.count += batch.num_rows() as u64;
        self.note_returned(batch)?;
        let rows = self.new_rows(batch, &Op::Replace)?;
        table_rules::write(session, &self.of.table, rows)
    }

    /// Rows of a table with a key.
    fn take_rows(&mut self, session: &mut Session, batch: RecordBatch) -> Result<()> {
        let is_update = self.of.verb == Verb::Update;
        let (moves, is_joined) = (self.moves(), self.of.layout.is_joined);
        let mut batch = batch;
        if is_joined || moves || !is_update {
            let (keys, series, times) = self.identity(&batch)?;
            let is_new = self.old.add(&keys, &series, &times)?;
            if is_new.iter().any(|is_new| !is_new) {
                batch = filter_record_batch(&batch, &BooleanArray::from(is_new)).map_err(Error::bug)?;
            }
        }
        self.count += batch.num_rows() as u64;
        self.note_returned(&batch)?;
        if is_update && moves {
            self.keep(batch);
        } else if is_update {
            self.update_fields(session, &batch, &self.of.layout.assigned)?;
        }
        Ok(())
    }

    /// Rows of a table without a key, ordered by time; of a time, the changed rows come first. Rows of a time without
    /// changed rows are left as they are.
    fn take_times(&mut self, batch: &RecordBatch) -> Result<()> {
        let (keys, series, times) = self.identity(batch)?;
        let layout = &self.of.layout;
        let is_changed = layout.is_changed.map(|at| batch.column(at).as_boolean().clone());
        let is_changed = is_changed.ok_or_else(|| Error::bug("rows without a key that are not told apart"))?;
        let numbers = layout.row_number.map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
        let (mut changed, mut others) = (vec![false; batch.num_rows()], vec![false; batch.num_rows()]);
        let mut changed_times = Vec::new();
        for (row, time) in times.iter().enumerate() {
            let is_changed = is_changed.is_valid(row) && is_changed.value(row);
            let number = numbers.as_ref().map(|numbers| numbers.value(row));
            let (is_replaced, repeats) = match &self.last {
                Some(last) if last.time == *time => (last.is_replaced, number.is_some() && number == last.row_number),
                _ => {
                    if is_changed {
                        changed_times.push(*time);
                    }
                    (is_changed, false)
                }
            };
            self.last = Some(LastRow { time: *time, is_replaced, row_number: number });
            changed[row] = is_changed && !repeats;
            others[row] = is_replaced && !is_changed && !repeats;
        }
        self.old.add(&keys, &series[..changed_times.len()], &changed_times)?;
        let filtered = |rows: Vec<bool>| filter_record_batch(batch, &BooleanArray::from(rows)).map_err(Error::bug);
        let (changed, others) = (filtered(changed)?, filtered(others)?);
        self.count += changed.num_rows() as u64;
        self.note_returned(&changed)?;
        if self.of.verb == Verb::Update && changed.num_rows() > 0 {
            self.keep(changed);
        }
        if others.num_rows() > 0 {
            self.keep(others);
        }
        Ok(())
    }

    fn keep(&mut self, batch: RecordBatch) {
        self.row_bytes += batch.get_array_memory_size();
        self.kept.push(batch);
    }

    fn note_returned(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.of.columns.is_none() || batch.num_rows() == 0 {
            return Ok(());
        }
        let places: Vec<usize> = self.of.layout.returning.clone().collect();
        let batch = batch.project(&places).map_err(Error::bug)?;
        self.row_bytes += batch.get_array_memory_size();
        self.returned.push(batch);
        Ok(())
    }

    /// Keys and times of rows before the change.
    fn identity(&self, batch: &RecordBatch) -> Result<(KeyList, Vec<u32>, Vec<i64>)> {
        let table = &self.of.table;
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; table.columns.len()];
        let identity = key_and_time(table).into_iter().zip(self.of.layout.identity.clone());
        for ((number, column), place) in identity {
            let at = usize::try_from(number - 1).map_err(Error::bug)?;
            arrays[at] = Some(assign_to(table, column, batch.column(place), &self.zone)?);
        }
        self.keys_and_times(&arrays, batch.num_rows())
    }

    fn keys_and_times(&self, arrays: &[Option<ArrayRef>], rows: usize) -> Result<(KeyList, Vec<u32>, Vec<i64>)> {
        let table = &self.of.table;
        let time = table.columns.iter().position(|column| column.role == ColumnRole::Time);
        let times = time.and_then(|at| arrays[at].as_ref()).and_then(|array| time_values(array));
        let times = times.ok_or_else(|| Error::bug("rows without time"))?.to_vec();
        let (keys, series) = keys_of(table, arrays, rows)?;
        Ok((keys, series, times))
    }

    /// Rows after the change, as they are written.
    fn new_rows(&self, batch: &RecordBatch, op: &Op) -> Result<Batch> {
        let table = &self.of.table;
        let columns = table.columns.iter().zip(self.of.layout.new.clone());
        let arrays = columns.map(|(column, place)| assign_to(table, column, batch.column(place), &self.zone).map(Some));
        batch_of(table, op, &arrays.collect::<Result<Vec<_>>>()?, batch.num_rows())
    }

    /// Writes what had to wait for the last row, and returns the result.
    async fn finish(mut self, session: &mut Session) -> Result<Outcome> {
        let deletes =
            matches!(self.of.verb, Verb::Delete | Verb::Merge) || self.of.layout.is_changed.is_some() || self.moves();
        if deletes && self.count > 0 {
            if self.of.table.keyed && !self.kept.is_empty() {
                self.check_unique().await?;
            }
            let old = std::mem::take(&mut self.old);
            self.held.grow((old.rows.len() * size_of::<(u32, i64)>()) as u64)?;
            let read_lsn = (!self.of.table.keyed).then(|| self.of.context.reads.snapshot.lsn());
            let deletes = OwnRowDeletes { rows: sorted(old.rows).await, keys: old.keys, read_lsn };
            self.held.resize((self.row_bytes + deletes.memory_bytes()) as u64)?;
            session.writer()?.delete_rows(self.of.table.id, deletes)?;
            self.held.shrink_to(self.row_bytes as u64);
            for batch in std::mem::take(&mut self.kept) {
                let rows = self.new_rows(&batch, &Op::Replace)?;
                table_rules::write(session, &self.of.table, rows)?;
                self.row_bytes -= batch.get_array_memory_size();
                self.held.shrink_to(self.row_bytes as u64);
                tokio::task::yield_now().await;
            }
        }
        let tag = self.of.verb.tag(self.count);
        let Some(columns) = self.of.columns.take() else { return Ok(Outcome::command(tag)) };
        let held = self.held;
        // The rows are counted until the client has taken them.
        let batches = futures::stream::iter(self.returned).map(move |batch| {
            let _ = &held;
            Ok(batch)
        });
        let batches = counted(Box::pin(batches), session.database.engine().memory());
        Ok(Outcome::Rows { columns, batches, tag: tag.into() })
    }

    /// Checks that no row gets the key and time of another one: of a second row of the statement, or of a row that it does not
    /// change.
    async fn check_unique(&mut self) -> Result<()> {
        let table = Arc::clone(&self.of.table);
        let mut new = RowSet::default();
        for batch in &self.kept {
            let columns = table.columns.iter().zip(self.of.layout.new.clone());
            let arrays = columns.map(|(column, place)| match column.role {
                ColumnRole::Field => Ok(None),
                ColumnRole::Key | ColumnRole::Time => {
                    let array = assign_to(&table, column, batch.column(place), &self.zone)?;
                    match !column.nullable && array.null_count() > 0 {
                        true => Err(crate::builder::null_error(&table, column)),
                        false => Ok(Some(array)),
                    }
                }
            });
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            let (keys, series, times) = self.keys_and_times(&arrays, batch.num_rows())?;
            if new.add(&keys, &series, &times)?.contains(&false) {
                return Err(self.duplicate());
            }
            tokio::task::yield_now().await;
        }
        // Once more for the rows whose series exist.
        self.held.grow(2 * new.memory_bytes() as u64)?;
        let old = &self.old;
        let places: Vec<Option<u32>> = new.keys.iter().map(|key| old.keys.find(key)).collect();
        let is_old =
            |(key, time): &(u32, i64)| places[*key as usize].is_some_and(|key| old.rows.contains(&(key, *time)));
        new.rows.retain(|row| !is_old(row));
        let view = self.of.context.reads.snapshot.table_by_id(table.id)?;
        let over = Over::default();
        let stop = Arc::clone(&over.0);
        let meets = tokio::task::spawn_blocking(move || meets_any(&view, &new, &stop)).await.map_err(Error::bug)??;
        self.held.resize((self.row_bytes + self.old.memory_bytes()) as u64)?;
        if meets { Err(self.duplicate()) } else { Ok(()) }
    }

    fn duplicate(&self) -> Error {
        let table = &self.of.table;
        let text = format!("duplicate key value violates unique constraint \"{}\"", key_name(table));
        let columns: Vec<&str> = key_and_time(table).into_iter().map(|(_, column)| column.name.as_str()).collect();
        Error::new(SqlState::UNIQUE_VIOLATION, text)
            .with_detail(format!("Two rows would have the same ({}) after the change.", columns.join(", ")))
    }
}

/// Whether one of the rows is in the table; without an answer if `stop` is set meanwhile.
fn meets_any(view: &TableView, rows: &RowSet, stop: &AtomicBool) -> Result<bool> {
    let numbers: Vec<Option<u32>> = rows.keys.iter().map(|key| view.lookup(key)).collect();
    let known = rows.rows.iter().filter_map(|(key, time)| Some((numbers[*key as usize]?, *time)));
    let known: FxHashSet<(u32, i64)> = known.collect();
    let mut series: Vec<u32> = known.iter().map(|(series, _)| *series).collect();
    series.sort_unstable();
    series.dedup();
    let times = known.iter().fold(TimeRange::EMPTY, |range, (_, time)| TimeRange {
        start: range.start.min(*time),
        last: range.last.max(*time),
    });
    if known.is_empty() {
        return Ok(false);
    }
    let request = ScanRequest {
        times,
        series: SeriesFilter::Only(series.into()),
        batch_rows: BATCH_ROWS,
        ..ScanRequest::all(Vec::new())
    };
    let mut scan = view.scan(request)?;
    while let Some(scanned) = scan.next_rows()? {
        if scanned.series.iter().zip(&scanned.times).any(|(series, time)| known.contains(&(*series, *time))) {
            return Ok(true);
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
    }
    Ok(false)
}
