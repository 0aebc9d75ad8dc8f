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
use datafusion::sql::sqlparser::ast::{self, SetExpr};
use engine::{Reservation, Work};
use futures::StreamExt;
use model::{Error, Result, Type};
use pg::Form;
use pg::types::oid;

use super::load::entered;
use super::run::{Executed, Rows, executed, until_durable, wait, within};
use super::zone::Clocks;
use super::{Named, Verb};
use crate::binding;
use crate::encode::Encoder;
use crate::errors::locate;
use crate::query::QueryPlan;
use crate::session::{Batches, Plan, Prepared, PreparedStatement, Session};
use crate::statement::{Command, Statement, Wording};
use crate::types::{OutputColumn, Value};

/// An INSERT whose source is planned by DataFusion.
pub(crate) struct FeedPlan {
    insert: ast::Insert,
    source: Prepared,
    /// Types of the source's columns; `None`: literals, which take the type of the target column.
    types: Vec<Option<Type>>,
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

    /// Whether the statement could read rows that it inserts. A source sees its snapshot and its
    /// transaction's own changes, including later ones if there were any when it started.
    fn meets_its_own(&self, session: &mut Session, named: &Named<'_>, load: &Load) -> Result<bool> {
        if session.rows_txn()?.is_empty() {
            return Ok(false);
        }
        let Command::Query(query) = &self.source.0.statement.0.command else { return Ok(true) };
        Ok(named.names_in(query, load.table().id()))
    }
}

/// Plans an INSERT; `None` for one that is compiled or has no source.
///
/// # Errors
/// Errors of PostgreSQL's parse analysis.
pub(crate) fn plan_feed(
    session: &mut Session,
    statement: &Statement,
    insert: &ast::Insert,
    declared: &[u32],
) -> Result<Option<FeedPlan>> {
    let Some(query) = &insert.source else { return Ok(None) };
    let context = session.context();
    let ast::TableObject::TableName(name) = &insert.table else { return Ok(None) };
    if (Named { snapshot: &context.snapshot, settings: &context.settings }).find(name).is_none() {
        return Ok(None);
    }
    let inner = binding::statement_of(binding::source_of_insert(&statement.0)?, &statement.0, Wording::Source);
    let source = crate::query::plan(session, &inner, declared)?;
    let types = source_types(query, &source, session.input.is_some())?;
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let load = Load::of(insert, &types, &Named { snapshot: &snapshot, settings: &settings });
    let load = load.map_err(|error| locate(error, &statement.0))?;
    let columns: Vec<OutputColumn> = load.columns().iter().map(super::output_column).collect();
    let parameters = source.parameters.clone();
    let source = Prepared(Arc::new(PreparedStatement {
        statement: inner,
        declared: declared.to_vec(),
        parameters: parameters.clone(),
        columns: Some(source.columns.clone()),
        plan: Plan::Query(source),
    }));
    let columns = (!columns.is_empty()).then_some(columns);
    Ok(Some(FeedPlan { insert: insert.clone(), source, types, parameters, columns }))
}

/// Types of the source's columns. `of_file`: texts are read as the type of the target column, as in COPY.
fn source_types(query: &ast::Query, plan: &QueryPlan, of_file: bool) -> Result<Vec<Option<Type>>> {
    let literals = match &*query.body {
        SetExpr::Select(select) if select.projection.len() == plan.columns.len() => {
            select.projection.iter().map(is_literal).collect()
        }
        _ => vec![false; plan.columns.len()],
    };
    let of = |((column, null), literal): ((&OutputColumn, bool), bool)| {
        if literal || null || (of_file && column.oid == oid::TEXT) {
            return Ok(None);
        }
        type_of(column.oid).map(Some).ok_or_else(|| {
            let text = format!("column \"{}\" is of a type that rows tables do not have", column.name);
            Error::unsupported(text).with_hint("cast it to another type")
        })
    };
    plan.columns.iter().zip(plan.nulls()).zip(literals).map(of).collect()
}

/// Whether the item is a quoted literal or NULL.
fn is_literal(item: &ast::SelectItem) -> bool {
    let (ast::SelectItem::UnnamedExpr(ast::Expr::Value(value))
    | ast::SelectItem::ExprWithAlias { expr: ast::Expr::Value(value), .. }) = item
    else {
        return false;
    };
    matches!(value.value, ast::Value::SingleQuotedString(_) | ast::Value::Null)
}

fn type_of(oid: u32) -> Option<Type> {
    match oid {
        oid::NAME => Some(Type::Text),
        oid => Type::from_oid(oid, -1),
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
    let ast::TableObject::TableName(name) = &plan.insert.table else {
        return Err(Error::bug("an INSERT into nothing"));
    };
    if entered(session, name).await?.is_none() {
        return Err(Error::unsupported("cached plan must not change result type"));
    }
    let mut source = Source::start(session, plan, values).await?;
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let named = Named { snapshot: &snapshot, settings: &settings };
    let load = Load::of(&plan.insert, &plan.types, &named);
    let load = load.map_err(|error| locate(error, parsed))?;
    // ON CONFLICT detects duplicates only among rows that are inserted at once.
    let at_once = plan.columns.is_some() || plan.insert.on.is_some() || plan.meets_its_own(session, &named, &load)?;
    drop(snapshot);
    let types: Vec<Type> = load.columns().iter().map(|column| column.ty).collect();
    let mut rows = Rows::batches(plan.columns.as_deref(), &types, &session.settings.time_zone());
    let part_rows = if at_once { usize::MAX } else { PART_ROWS };
    let (mut count, mut dangling) = (0, Vec::new());
    while let Some(read) = source.rows(session, part_rows).await? {
        let part = put(session, &load, &read, &types, &mut rows).await.map_err(|error| locate(error, parsed))?;
        count += part.0;
        dangling.extend(part.1);
        // Yield to other tasks between two parts.
        tokio::task::yield_now().await;
    }
    let clocks = Clocks::of(session);
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
    types: &[Type],
    rows: &mut Rows<'_>,
) -> Result<(u64, Vec<(RecordId, Box<[u8]>)>)> {
    let clocks = Clocks::of(session);
    loop {
        let mut offset = |seconds| clocks.offset_at(seconds);
        let mut take = |row: &[model::Datum<'_>]| rows.take(row, types, &mut offset);
        let is_in = |loaded: &std::result::Result<Loaded, _>| matches!(loaded, Ok(Loaded::All { .. }));
        let loaded = within(session, &clocks, is_in, |txn, given, guard| load.run(txn, read, given, guard, &mut take))?;
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
    batches: Batches,
    encoder: Encoder,
    forms: Vec<Form>,
    /// Remaining rows of the last batch.
    batch: Option<RecordBatch>,
    ended: bool,
}

impl Source {
    async fn start(session: &mut Session, plan: &FeedPlan, values: &[Value]) -> Result<Source> {
        let Plan::Query(query) = &plan.source.0.plan else { return Err(Error::bug("a source that is no query")) };
        let ready = crate::query::ready(session, &plan.source, query, values).await?;
        let encoder = Encoder::new(&ready.columns.clone(), &session.settings.time_zone())?;
        let batches = ready.stream(Arc::clone(&plan.source.0.statement.0))?;
        // Literals are parsed as the type of the target column.
        let form = |ty: &Option<Type>| if ty.is_some() { Form::Binary } else { Form::Text };
        Ok(Source { batches, encoder, forms: plan.types.iter().map(form).collect(), batch: None, ended: false })
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
