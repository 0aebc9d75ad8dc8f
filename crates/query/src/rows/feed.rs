//! INSERT … SELECT into a `rows` table from a query that DataFusion runs: on `columns` tables, functions, and
//! everything that is not compiled.
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
use model::{Error, Result};
use parser::ast as tree;
use pg::Form;
use pg::types::oid;

use super::load::entered;
use super::run::{Executed, Rows, executed, until_durable, wait, within};
use super::zone::Clocks;
use super::{Named, ResultType, Verb};
use crate::binding;
use crate::context::StatementContext;
use crate::encode::Encoder;
use crate::errors::locate;
use crate::query::QueryPlan;
use crate::session::{Plan, Prepared, PreparedStatement, Session};
use crate::statement::{Command, Purpose, Statement};
use relational::types::{OutputColumn, Value};

/// An INSERT whose query DataFusion runs. It is bound again for each execution; this is what clients are told about it.
pub(crate) struct FeedPlan {
    insert: tree::Insert,
    /// The query, for EXPLAIN.
    source: Prepared,
    /// Why the row executor does not run the query.
    pub(crate) refusal: String,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Columns of RETURNING; `None` without it.
    pub(crate) columns: Option<Vec<OutputColumn>>,
}

/// Approximate number of rows inserted at once.
const PART_ROWS: usize = 1_024;
/// Approximate bytes inserted at once.
const PART_BYTES: usize = 1 << 20;

impl FeedPlan {
    /// Source query.
    pub(crate) fn source(&self) -> &Prepared {
        &self.source
    }
}

/// Plans an INSERT whose query the row executor does not run, for this reason.
///
/// # Errors
/// Errors of PostgreSQL's parse analysis; 0A000 for what neither executor supports.
pub(super) fn plan(
    session: &mut Session,
    statement: &Statement,
    insert: &tree::Insert,
    declared: &[u32],
    refusal: String,
) -> Result<FeedPlan> {
    let Fed { load, query, source, .. } = Fed::of(session, statement, insert, declared, &refusal)?;
    let columns: Vec<OutputColumn> = load.columns().iter().map(super::output_column).collect();
    let parameters = query.parameters.clone();
    let source = Prepared(Arc::new(PreparedStatement {
        statement: source,
        declared: parameters.clone(),
        parameters: parameters.clone(),
        columns: Some(query.columns.clone()),
        plan: Plan::Query(query.kept()),
    }));
    let columns = (!columns.is_empty()).then_some(columns);
    Ok(FeedPlan { insert: insert.clone(), source, refusal, parameters, columns })
}

/// An INSERT bound in a snapshot: what takes the rows, and the query that makes them.
struct Fed {
    context: Arc<StatementContext>,
    load: Load,
    query: QueryPlan,
    /// The query's tree, with the text of the INSERT.
    source: Statement,
}

impl Fed {
    fn of(
        session: &mut Session,
        statement: &Statement,
        insert: &tree::Insert,
        declared: &[u32],
        refusal: &str,
    ) -> Result<Fed> {
        let context = session.context_of_newest();
        let change = tree::Statement::Insert(Box::new(insert.clone()));
        let bound = binding::bind_change(&context, &statement.0, &change, declared)?;
        let tables = Named { snapshot: &context.reads.snapshot, settings: &context.settings };
        let lowered = compiled::lower_load(&bound.change, &tables, &bound.session);
        let (load, query) = match lowered.map_err(|error| super::placed(error, statement))? {
            Ok(lowered) => lowered,
            Err(refused) => return Err(super::unsupported(Verb::Insert, &format!("{refusal} and {}", refused.reason))),
        };
        let source = binding::statement_of(binding::source_of_insert(insert)?, &statement.0, Purpose::Rows);
        let bound = binding::Bound::of_load(query, bound);
        let query = crate::query::plan_bound(session, &context, &source.0, bound)?;
        Ok(Fed { context, load, query, source })
    }

    /// Whether the statement could read rows that it inserts. A source sees its snapshot and its
    /// transaction's own changes, including later ones if there were any when it started.
    fn meets_its_own(&self, session: &mut Session) -> Result<bool> {
        if session.rows_txn()?.is_empty() {
            return Ok(false);
        }
        let Command::Query(query) = &self.source.0.command else { return Ok(true) };
        let named = Named { snapshot: &self.context.reads.snapshot, settings: &self.context.settings };
        Ok(named.names_in(query, self.load.table().id()))
    }
}

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
    if entered(session, |named| named.find(name)).await?.is_none() {
        return Err(Error::unsupported("cached plan must not change result type"));
    }
    let fed = Fed::of(session, &prepared.0.statement, &plan.insert, &plan.parameters, &plan.refusal)?;
    let mut source = Source::start(session, &fed, values).await?;
    // ON CONFLICT detects duplicates only among rows that are inserted at once.
    let at_once = plan.columns.is_some() || plan.insert.on_conflict.is_some() || fed.meets_its_own(session)?;
    let clocks = Clocks::with_facts(session, &fed.context);
    let load = fed.load;
    let types: Vec<ResultType> = load.columns().iter().map(ResultType::of).collect();
    let mut rows = Rows::batches(plan.columns.as_deref(), &types, &session.settings.time_zone());
    let part_rows = if at_once { usize::MAX } else { PART_ROWS };
    let (mut count, mut dangling) = (0, Vec::new());
    while let Some(read) = source.rows(session, part_rows).await? {
        let part =
            put(session, &load, &read, (&types, &clocks), &mut rows).await.map_err(|error| locate(error, parsed))?;
        count += part.0;
        dangling.extend(part.1);
        // Yield to other tasks between two parts.
        tokio::task::yield_now().await;
    }
    super::load::settled(session, &load, &clocks, &dangling).await.map_err(|error| locate(error, parsed))?;
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
    (types, clocks): (&[ResultType], &Clocks),
    rows: &mut Rows<'_>,
) -> Result<(u64, Vec<(RecordId, Box<[u8]>)>)> {
    loop {
        let mut offset = |seconds| clocks.offset_at(seconds);
        let mut take = |row: &[model::Datum<'_>]| rows.take(row, types, &mut offset);
        let is_in = |loaded: &std::result::Result<Loaded, _>| matches!(loaded, Ok(Loaded::All { .. }));
        let loaded = within(session, clocks, is_in, |txn, given, guard| load.run(txn, read, given, guard, &mut take))?;
        match loaded.map_err(|refused| refused.error)? {
            Loaded::All { rows, dangling } => return Ok((rows, dangling)),
            Loaded::Wait(event) => {
                rows.clear();
                wait(&event, session.settings.lock_timeout()).await?;
            }
        }
    }
}

/// Rows of a source, encoded.
#[derive(Default)]
pub(super) struct Read {
    bytes: Vec<u8>,
    /// End of each value in `bytes`, and whether it is not NULL.
    ends: Vec<(usize, bool)>,
    /// Text or binary format, by column.
    forms: Vec<Form>,
    rows: usize,
    /// Reserved memory, if it is counted.
    held: Option<Reservation>,
}

/// Running source query of an INSERT.
struct Source {
    batches: relational::results::Batches,
    encoder: Encoder,
    forms: Vec<Form>,
    /// Remaining rows of the last batch.
    batch: Option<RecordBatch>,
    ended: bool,
}

impl Source {
    async fn start(session: &mut Session, fed: &Fed, values: &[Value]) -> Result<Source> {
        // Rows must be durable before others are made of them.
        until_durable(session, fed.context.reads.snapshot.lsn()).await?;
        let ready = crate::query::ready_of(session, &fed.context, &fed.source.0, &fed.query, values).await?;
        let mut columns = ready.columns.clone();
        // The load takes jsonb as json.
        columns.iter_mut().filter(|column| column.oid == oid::JSONB).for_each(|column| column.oid = oid::JSON);
        let encoder = Encoder::new(&columns, &session.settings.time_zone())?;
        let batches = ready.stream(Arc::clone(&fed.source.0))?;
        Ok(Source { batches, encoder, forms: vec![Form::Binary; fed.load.types().len()], batch: None, ended: false })
    }

    /// Reads about `rows_max` rows; `None` at the end.
    ///
    /// # Errors
    /// Errors of the query; 53200 if there is not enough memory for the rows.
    async fn rows(&mut self, session: &Session, rows_max: usize) -> Result<Option<Read>> {
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
    pub(super) fn new(forms: Vec<Form>) -> Read {
        Read { forms, ..Read::default() }
    }

    /// Appends the rows of a batch.
    pub(super) fn add(&mut self, encoder: &Encoder, batch: &RecordBatch) -> Result<()> {
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
