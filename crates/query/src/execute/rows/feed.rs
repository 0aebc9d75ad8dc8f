//! INSERT … SELECT into a `rows` table from a query that the row executor does not run.
//!
//! Rows are inserted as they are read, some thousand at a time, if the query cannot see them. Otherwise all
//! rows are read before the first is inserted, so that the statement does not read its own rows; their memory
//! is counted as memory of statements.

use std::sync::Arc;

use ::rows::RecordId;
use arrow_array::RecordBatch;
use compiled::{Incoming, Load, Loaded};
use engine::{Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, TriggerTiming};
use pg::Form;
use relational::types::{OutputColumn, Value};

use super::load::{enter_partitions, entered};
use super::run::{Rows, executed, until_durable, within};
use crate::encode::{Encoder, has_text_transport};
use crate::errors::locate;
use crate::execute::query::ready_of;
use crate::execute::routine;
use crate::plan::Prepared;
use crate::plan::feed::{Fed, FeedPlan};
use crate::plan::query::QueryPlan;
use crate::plan::rows::{ResultType, Verb};
use crate::result::Executed;
use crate::session::Session;
use crate::session::clocks::Clocks;
use crate::session::context::StatementContext;
use crate::session::database::wait;
use crate::session::known_calls::KnownCalls;
use crate::statement::Statement;
use crate::tables::{Changed, Named};

/// Approximate number of rows inserted at once.
const PART_ROWS: usize = 1_024;
/// Approximate bytes inserted at once.
const PART_BYTES: usize = 1 << 20;

/// Runs the INSERT inside the session's transaction.
pub(crate) async fn feed(
    session: &mut Session,
    prepared: &Prepared,
    plan: &FeedPlan,
    values: &[Value],
) -> Result<Executed> {
    session.writer()?;
    let parsed = &prepared.0.statement.0;
    let name = &plan.insert.table.name;
    let changed = |named: &Named<'_>| match named.changed(name) {
        Changed::Rows(table) => Some(table),
        _ => None,
    };
    if entered(session, changed).await?.is_none() {
        return Err(Error::unsupported("cached plan must not change result type"));
    }
    let fed = Fed::of(session, &prepared.0.statement, &plan.insert, &plan.parameters, &plan.refusal)?;
    let triggers = fed.load.statement_triggers();
    routine::trigger::fire_statement(session, &triggers, TriggerTiming::Before).await?;
    let mut source = Source::start(session, &fed.context, &fed.source, &fed.query, values).await?;
    // ON CONFLICT detects duplicates only among rows that are inserted at once.
    let at_once = plan.columns.is_some() || plan.insert.on_conflict.is_some() || fed.meets_its_own(session)?;
    let known = Arc::new(KnownCalls::new(Arc::clone(&fed.context.routines), &session.database));
    let load = fed.load;
    let clocks = match load.calls_routines() {
        true => Clocks::with_calls(session, &fed.context, &known),
        false => Clocks::with_facts(session, &fed.context),
    };
    enter_partitions(session, &load).await?;
    let types: Vec<ResultType> = load.columns().iter().map(ResultType::of).collect();
    let mut rows = Rows::batches(plan.columns.as_deref(), &types, &session.settings.time_zone());
    let part_rows = if at_once { usize::MAX } else { PART_ROWS };
    let before = session.rows_txn()?.changes_len();
    let (mut count, mut dangling) = (0, Vec::new());
    while let Some(read) = source.rows(session, part_rows).await? {
        let part = put(session, &load, &read, (&types, &clocks, &known), &mut rows)
            .await
            .map_err(|error| locate(error, parsed))?;
        count += part.0;
        dangling.extend(part.1);
        // Yield to other tasks between two parts.
        tokio::task::yield_now().await;
    }
    super::load::settled(session, &load, &clocks, &dangling, before).await.map_err(|error| locate(error, parsed))?;
    routine::trigger::fire_statement(session, &triggers, TriggerTiming::After).await?;
    let seen = session.end_rows_statement();
    if plan.columns.is_some() {
        until_durable(session, seen).await?;
    }
    executed(rows, plan.columns.as_deref(), Verb::Insert, count)
}

/// Inserts rows. Returns the number inserted or updated, and the rows whose foreign key has no referenced row
/// yet.
async fn put(
    session: &mut Session,
    load: &Load,
    read: &Read,
    (types, clocks, known): (&[ResultType], &Clocks, &KnownCalls),
    rows: &mut Rows<'_>,
) -> Result<(u64, Vec<(RecordId, Box<[u8]>)>)> {
    loop {
        let mut take = |row: &[model::Datum<'_>]| rows.take(row, types, clocks);
        let is_in =
            |loaded: &std::result::Result<Loaded, _>| matches!(loaded, Ok(Loaded::All { .. })) && !known.lacks_values();
        known.start();
        let loaded = within(session, clocks, is_in, |txn, given, guard| load.run(txn, read, given, guard, &mut take))?;
        if known.lacks_values() {
            rows.clear();
            session.end_rows_statement();
            routine::call_wanted(session, known).await?;
            continue;
        }
        match loaded.map_err(|refused| refused.error)? {
            Loaded::All { rows, dangling } => {
                let noted = known.take_noted();
                known.finish();
                routine::trigger::fire_noted(session, noted).await?;
                return Ok((rows, dangling));
            }
            Loaded::Wait(event) => {
                rows.clear();
                wait(&event, session.settings.lock_timeout()).await?;
            }
        }
    }
}

/// Rows of a source, encoded.
#[derive(Default)]
pub(crate) struct Read {
    bytes: Vec<u8>,
    /// End of each value in `bytes`, and whether it is not NULL.
    ends: Vec<(usize, bool)>,
    /// Text or binary format, by column.
    forms: Vec<Form>,
    rows: usize,
    /// Reserved memory, if it is counted.
    held: Option<Reservation>,
}

/// Running query whose rows a change takes.
pub(super) struct Source {
    batches: relational::results::Batches,
    encoder: Encoder,
    forms: Vec<Form>,
    /// Remaining rows of the last batch.
    batch: Option<RecordBatch>,
    ended: bool,
}

impl Source {
    pub(super) async fn start(
        session: &mut Session,
        context: &Arc<StatementContext>,
        statement: &Statement,
        query: &QueryPlan,
        values: &[Value],
    ) -> Result<Source> {
        // Rows must be durable before others are made of them.
        until_durable(session, context.reads.snapshot.lsn()).await?;
        let ready = ready_of(session, context, &statement.0, query, values).await?;
        let encoder = Encoder::new(&ready.columns, &session.settings.time_zone())?;
        // Arrow has no type for values that come as texts, in styles that every session reads alike.
        let form = |column: &OutputColumn| if has_text_transport(column.oid) { Form::Text } else { Form::Binary };
        let forms = ready.columns.iter().map(form).collect();
        let batches = ready.stream(session, Arc::clone(&statement.0)).await?;
        Ok(Source { batches, encoder, forms, batch: None, ended: false })
    }

    /// Reads about `rows_max` rows; `None` at the end.
    ///
    /// # Errors
    /// Errors of the query; 53200 if there is not enough memory for the rows.
    pub(super) async fn rows(&mut self, session: &Session, rows_max: usize) -> Result<Option<Read>> {
        let mut read = Read::new(self.forms.clone());
        read.held = Some(session.database.engine().memory().reservation(Work::Statements));
        while read.rows < rows_max && !self.ended && (rows_max == usize::MAX || read.bytes.len() < PART_BYTES) {
            let batch = match self.batch.take() {
                Some(batch) => batch,
                None => match self.batches.next().await.transpose()? {
                    Some(batch) => batch,
                    None => {
                        self.ended = true;
                        break;
                    }
                },
            };
            let rows = batch.num_rows().min(PART_ROWS);
            self.batch = (rows < batch.num_rows()).then(|| batch.slice(rows, batch.num_rows() - rows));
            read.add(&self.encoder, &batch.slice(0, rows))?;
        }
        Ok((read.rows > 0).then_some(read))
    }
}

impl Read {
    /// No rows; their values will be in these formats.
    pub(crate) fn new(forms: Vec<Form>) -> Read {
        Read { forms, ..Read::default() }
    }

    /// Appends the rows of a batch.
    pub(crate) fn add(&mut self, encoder: &Encoder, batch: &RecordBatch) -> Result<()> {
        let cells = encoder.batch(batch)?;
        for row in 0..batch.num_rows() {
            for (column, form) in self.forms.iter().enumerate() {
                let there = match form {
                    Form::Binary => cells.binary(row, column, &mut self.bytes)?,
                    Form::Text => cells.text(row, column, &mut self.bytes)?,
                };
                self.ends.push((self.bytes.len(), there));
            }
        }
        self.rows += batch.num_rows();
        if let Some(held) = &mut self.held {
            held.resize((self.bytes.capacity() + self.ends.capacity() * size_of::<(usize, bool)>()) as u64)?;
        }
        Ok(())
    }
}

impl Incoming for Read {
    fn rows(&self) -> usize {
        self.rows
    }

    fn form(&self, field: usize) -> Form {
        self.forms[field]
    }

    fn field(&self, row: usize, field: usize) -> Option<&[u8]> {
        let at = row * self.forms.len() + field;
        let (end, there) = *self.ends.get(at)?;
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(end, _)| *end);
        if there { self.bytes.get(begin..end) } else { None }
    }
}
