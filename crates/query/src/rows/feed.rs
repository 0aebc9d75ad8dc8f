//! INSERT into a `rows` table of what DataFusion reads: of `columns` tables, functions, whatever else is not compiled.
//!
//! All rows are read before the first is put in, so that the statement does not meet its own. They are held meanwhile, in about the bytes
//! that they take in the table.

use std::sync::Arc;

use arrow_array::RecordBatch;
use compiled::{Incoming, Load, Loaded};
use datafusion::sql::sqlparser::ast::{self, SetExpr};
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
use crate::session::{Plan, Prepared, PreparedStatement, Session};
use crate::statement::Statement;
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

impl FeedPlan {
    /// What is read.
    pub(crate) fn source(&self) -> &Prepared {
        &self.source
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
    let read = read(session, plan, values).await?;
    let snapshot = session.newest();
    let settings = Arc::clone(&session.settings);
    let load = Load::of(&plan.insert, &plan.types, &Named { snapshot: &snapshot, settings: &settings });
    let load = load.map_err(|error| locate(error, parsed))?;
    drop(snapshot);
    let types: Vec<Type> = load.columns().iter().map(|column| column.ty).collect();
    let mut rows = Rows::batches(plan.columns.as_deref(), &types, &session.settings.time_zone());
    let count = put(session, &load, &read, &types, &mut rows).await.map_err(|error| locate(error, parsed))?;
    let seen = session.end_rows_statement();
    if plan.columns.is_some() {
        until_durable(session, seen).await?;
    }
    executed(rows, plan.columns.as_deref(), Verb::Insert, count)
}

async fn put(session: &mut Session, load: &Load, read: &Read, types: &[Type], rows: &mut Rows<'_>) -> Result<u64> {
    let clocks = Clocks(session.settings.zone().clone());
    let (count, dangling) = loop {
        let mut offset = |seconds| clocks.offset_at(seconds);
        let mut take = |row: &[model::Datum<'_>]| rows.take(row, types, &mut offset);
        let is_in = |loaded: &std::result::Result<Loaded, _>| matches!(loaded, Ok(Loaded::All { .. }));
        let loaded = within(session, &clocks, is_in, |txn, given, guard| load.run(txn, read, given, guard, &mut take))?;
        match loaded.map_err(|refused| refused.error)? {
            Loaded::All { rows, dangling } => break (rows, dangling),
            Loaded::Wait(event) => {
                rows.clear();
                wait(&event, session.settings.lock_timeout()).await?;
            }
        }
    };
    super::load::settled(session, load, &clocks, &dangling).await?;
    Ok(count)
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
}

async fn read(session: &mut Session, plan: &FeedPlan, values: &[Value]) -> Result<Read> {
    let Plan::Query(query) = &plan.source.0.plan else { return Err(Error::bug("a source that is no query")) };
    let ready = crate::query::ready(session, &plan.source, query, values).await?;
    let columns = ready.columns.clone();
    let encoder = Encoder::new(&columns, &session.settings.time_zone())?;
    let mut batches = ready.stream(Arc::clone(&plan.source.0.statement.0))?;
    // Literals are read as what they are put into.
    let form = |ty: &Option<Type>| if ty.is_some() { Form::Binary } else { Form::Text };
    let mut read = Read::new(plan.types.iter().map(form).collect());
    while let Some(batch) = batches.next().await {
        read.add(&encoder, &batch?)?;
    }
    Ok(read)
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
