//! INSERT into a `rows` table of what DataFusion reads: of `columns` tables, functions, whatever else is not compiled.
//!
//! Rows are put in as they are read, some thousand at a time, where what is read cannot meet them. Elsewhere all of them are read before
//! the first is put in, so that the statement does not meet its own; meanwhile they are counted as memory of statements.

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
use crate::encode::Encoder;
use crate::errors::locate;
use crate::query::QueryPlan;
use crate::session::{Batches, Plan, Prepared, PreparedStatement, Session};
use crate::statement::{Command, Statement};
use crate::types::{OutputColumn, Value};

/// An INSERT whose source is planned by DataFusion.
pub(crate) struct FeedPlan {
    insert: ast::Insert,
    source: Prepared,
    /// Of the source's columns; `None`: literals, which have the type of what they are put into.
    types: Vec<Option<Type>>,
    /// OIDs
    pub(crate) parameters: Vec<u32>,
    /// `None` without RETURNING.
    pub(crate) columns: Option<Vec<OutputColumn>>,
}

/// Rows that are put in at a time, about.
const PART_ROWS: usize = 1_024;
/// The same in bytes.
const PART_BYTES: usize = 1 << 20;

impl FeedPlan {
    /// What is read.
    pub(crate) fn source(&self) -> &Prepared {
        &self.source
    }

    /// Would rows that are put in be read by the same statement? A source sees its snapshot, and what its transaction has changed, also
    /// later, if that had changed anything before.
    fn meets_its_own(&self, session: &mut Session, named: &Named<'_>, load: &Load) -> Result<bool> {
        if session.rows_txn()?.is_empty() {
            return Ok(false);
        }
        let Command::Sql(sql) = &self.source.0.statement.0.command else { return Ok(true) };
        Ok(named.names(sql, load.table().id()))
    }
}

/// Plans one; `None` if it is none, or has no source.
///
/// # Errors
/// As PostgreSQL's parse analysis.
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
    let sql = ast::Statement::Query(query.clone());
    let inner = Statement::of(sql.clone(), statement.0.sql.clone(), statement.0.offset);
    let source: QueryPlan = crate::query::plan(session, &inner, &sql, declared)?;
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

/// `of_file`: texts are read as what they are put into, as those of COPY are.
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

/// A literal in quotes, or NULL.
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

/// Runs one inside the session's transaction.
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
    // Two rows of one statement that are the same to ON CONFLICT are found among those put in at once.
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
        // Others run between two parts.
        tokio::task::yield_now().await;
    }
    let clocks = Clocks(session.settings.zone().clone());
    super::load::settled(session, &load, &clocks, &dangling).await.map_err(|error| locate(error, parsed))?;
    let seen = session.end_rows_statement();
    if plan.columns.is_some() {
        until_durable(session, seen).await?;
    }
    executed(rows, plan.columns.as_deref(), Verb::Insert, count)
}

/// Puts rows in; how many were inserted or changed, and those that refer to rows which are not there so far.
async fn put(
    session: &mut Session,
    load: &Load,
    read: &Read,
    types: &[Type],
    rows: &mut Rows<'_>,
) -> Result<(u64, Vec<(RecordId, Box<[u8]>)>)> {
    let clocks = Clocks(session.settings.zone().clone());
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

/// The rows of a source, in binary form.
#[derive(Default)]
pub(super) struct Read {
    bytes: Vec<u8>,
    /// Where each value ends in `bytes`, and whether there is one.
    ends: Vec<(usize, bool)>,
    /// Text or binary, for each column.
    forms: Vec<Form>,
    rows: usize,
    /// Its memory, where it is counted.
    held: Option<Reservation>,
}

/// What an INSERT reads.
struct Source {
    batches: Batches,
    encoder: Encoder,
    forms: Vec<Form>,
    /// What is left of a batch.
    batch: Option<RecordBatch>,
    ended: bool,
}

impl Source {
    async fn start(session: &mut Session, plan: &FeedPlan, values: &[Value]) -> Result<Source> {
        let Plan::Query(query) = &plan.source.0.plan else { return Err(Error::bug("a source that is no query")) };
        let ready = crate::query::ready(session, &plan.source, query, values).await?;
        let encoder = Encoder::new(&ready.columns.clone(), &session.settings.time_zone())?;
        let batches = ready.stream(Arc::clone(&plan.source.0.statement.0))?;
        // Literals are read as what they are put into.
        let form = |ty: &Option<Type>| if ty.is_some() { Form::Binary } else { Form::Text };
        Ok(Source { batches, encoder, forms: plan.types.iter().map(form).collect(), batch: None, ended: false })
    }

    /// The next rows, about so many; `None` at the end.
    ///
    /// # Errors
    /// Those of the query; 53200 when there is no memory for them.
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
    /// Without rows so far, whose values are in these forms.
    pub(super) fn new(forms: Vec<Form>) -> Read {
        Read { forms, ..Read::default() }
    }

    /// Adds the rows of a batch.
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
