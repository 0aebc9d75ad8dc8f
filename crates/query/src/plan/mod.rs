//! Planning: a parsed statement becomes a typed one with the plan of the executor that runs it.

pub(crate) mod advisory;
pub(crate) mod call;
pub(crate) mod delete;
pub(crate) mod feed;
pub(crate) mod hypertable;
pub(crate) mod insert;
pub(crate) mod modify;
pub(crate) mod query;
pub(crate) mod routine;
pub(crate) mod rows;
pub(crate) mod sleep;
mod summary;
mod volatile;

use std::sync::Arc;

use model::{Error, Result, SqlState};
use parser::ast::{self as tree, Show, Statement as Change};
use pg::types::oid;
use relational::types::OutputColumn;

use self::advisory::Calls;
use self::feed::FeedPlan;
use self::insert::InsertPlan;
use self::modify::ModifyPlan;
use self::query::QueryPlan;
use self::routine::RowPlan;
use self::rows::{ChangePlan, RowsPlan};
use self::sleep::Sleep;
use crate::binding;
use crate::errors::locate;
use crate::session::Session;
use crate::settings::Settings;
use crate::statement::cursor::CursorStatement;
use crate::statement::maintenance::Maintenance;
use crate::statement::{Command, ExplainFormat, Statement};

/// A parsed and typed statement. [`Session::execute`] plans it again if the catalog has changed.
#[derive(Clone)]
pub struct Prepared(pub(crate) Arc<PreparedStatement>);

pub(crate) struct PreparedStatement {
    pub(crate) statement: Statement,
    /// Types that the client declared.
    pub(crate) declared: Vec<u32>,
    pub(crate) parameters: Vec<u32>,
    pub(crate) columns: Option<Vec<OutputColumn>>,
    pub(crate) plan: Plan,
}

/// Plan made when the statement was prepared.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for a statement, and a box would cost an allocation for each"
)]
pub(crate) enum Plan {
    Query(QueryPlan),
    Insert(Box<InsertPlan>),
    Rows(Box<RowsPlan>),
    /// EXECUTE of this statement.
    Execute(Prepared),
    /// DECLARE of a cursor for this query.
    Declare(Prepared),
    Feed(Box<FeedPlan>),
    /// UPDATE, DELETE, MERGE or INSERT … RETURNING of a `columns` table.
    Modify(Box<ModifyPlan>),
    Advisory(Box<Calls>),
    /// A query that calls functions of users and that the session computes itself.
    Row(Box<RowPlan>),
    /// Planned when it is executed.
    Other,
}

/// OIDs of the parameters, columns of the result, and the plan.
type Planned = (Vec<u32>, Option<Vec<OutputColumn>>, Plan);

impl Plan {
    /// Whether the statement calls functions of users outside the row executor.
    pub(crate) fn calls_routines(&self) -> bool {
        match self {
            Plan::Row(_) => true,
            Plan::Query(plan) => plan.calls_routines,
            Plan::Declare(prepared) | Plan::Execute(prepared) => prepared.0.plan.calls_routines(),
            _ => false,
        }
    }

    /// Whether the plan accepts several rows of parameters and inserts one row for each.
    pub(crate) fn takes_rows(&self) -> bool {
        match self {
            Plan::Rows(plan) => plan.takes_rows(),
            Plan::Insert(plan) => plan.takes_rows(),
            _ => false,
        }
    }
}

impl Prepared {
    /// Whether the statement accepts this many values.
    pub(crate) fn takes(&self, values: usize) -> bool {
        match values.checked_rem(self.0.parameters.len()) {
            Some(0) if self.0.plan.takes_rows() => values > 0,
            _ => values == self.0.parameters.len(),
        }
    }

    /// OIDs of `$1 ..`.
    #[must_use]
    pub fn parameters(&self) -> &[u32] {
        &self.0.parameters
    }

    /// Columns of the result; `None` for statements without one.
    #[must_use]
    pub fn columns(&self) -> Option<&[OutputColumn]> {
        self.0.columns.as_deref()
    }

    /// The statement before planning.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.0.statement
    }

    /// Whether the statement runs on the row executor, which runs it synchronously and returns its rows as
    /// messages ([`Session::execute_into`]).
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        match &self.0.plan {
            Plan::Rows(_) => true,
            Plan::Execute(inner) => inner.is_compiled(),
            _ => false,
        }
    }

    /// Whether the statement must not run inside a transaction. No implicit transaction may be started around
    /// it either.
    #[must_use]
    pub fn stands_alone(&self) -> bool {
        matches!(self.0.statement.0.command, Command::Maintenance(Maintenance::Vacuum { .. }))
    }
}

impl Session {
    /// Plans the statement of an EXECUTE again, because the tables that it names may have changed.
    ///
    /// # Errors
    /// 26000 for an unknown name; those of planning.
    pub(crate) fn plan_named(&mut self, name: &str) -> Result<Prepared> {
        let (statement, types) = self.named.get(name).cloned().ok_or_else(|| unknown_name(name))?;
        self.plan_statement(&statement, &types)
    }

    /// Plans a statement. `types`: OIDs that the client declared, 0 for unknown ones.
    ///
    /// # Errors
    /// Errors of PostgreSQL's parse analysis.
    pub(crate) fn plan_statement(&mut self, statement: &Statement, types: &[u32]) -> Result<Prepared> {
        let (parameters, columns, plan) = match &statement.0.command {
            Command::Query(query) => self.plan_query(statement, query, types)?,
            Command::Change(change) => self.plan_change(statement, change, types)?,
            Command::Explain(explain) => {
                let inner = self.plan_statement(&explain.statement, types)?;
                (inner.0.parameters.clone(), Some(explain_columns(explain.format)), Plan::Other)
            }
            Command::Execute(execute) => {
                let inner = self.plan_named(&execute.name)?;
                (Vec::new(), inner.0.columns.clone(), Plan::Execute(inner))
            }
            Command::Cursor(cursor) => self.plan_cursor(cursor, types)?,
            Command::Show(show) => (Vec::new(), Some(show_columns(show)), Plan::Other),
            Command::Summarize(query) => {
                let expanded = summary::expanded(self, &statement.0, query, types)?;
                return self.plan_statement(&expanded, types);
            }
            Command::Definition(Change::Call(written)) => {
                let planned = call::Planned::new(self, &statement.0, written, None, types)?;
                let columns = planned.columns();
                (planned.parameters, columns, Plan::Other)
            }
            _ if statement.0.parameters > 0 => {
                return Err(Error::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1")
                    .with_hint("this command takes none"));
            }
            _ => (Vec::new(), None, Plan::Other),
        };
        Ok(Prepared(Arc::new(PreparedStatement {
            statement: statement.clone(),
            declared: types.to_vec(),
            parameters,
            columns,
            plan,
        })))
    }

    /// Plans a query: for the row executor if that supports all of it, else for the others.
    fn plan_query(&mut self, statement: &Statement, query: &tree::Query, types: &[u32]) -> Result<Planned> {
        if let Some(sleep) = Sleep::of(query) {
            return Ok((sleep.parameters(types), Some(sleep.columns()), Plan::Other));
        }
        if let Some(call) = hypertable::Call::of(query) {
            return Ok((Vec::new(), Some(call.columns()), Plan::Other));
        }
        if let Some(calls) = Calls::plan(self, query, types)? {
            return Ok((calls.parameters(), Some(calls.columns()), Plan::Advisory(Box::new(calls))));
        }
        let context = query::context(self, &statement.0);
        let bound = binding::bind(&context, &statement.0, types)?;
        let refusal = match rows::plan_query(&context, statement, &bound, types, self.keeps_executor)? {
            Ok(plan) => return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Rows(Box::new(plan)))),
            Err(refusal) => refusal,
        };
        if let Some(plan) = RowPlan::of(&bound, &context) {
            return Ok((plan.parameters.clone(), Some(plan.columns.clone()), Plan::Row(Box::new(plan))));
        }
        let mut plan = query::plan_bound(self, &context, &statement.0, bound)?.kept();
        plan.refusal = context.reads.rows_view.is_some().then_some(refusal);
        Ok((plan.parameters.clone(), Some(plan.columns.clone()), Plan::Query(plan)))
    }

    /// Plans an INSERT, UPDATE or DELETE, for the store of its table.
    fn plan_change(&mut self, statement: &Statement, change: &Change, types: &[u32]) -> Result<Planned> {
        match rows::plan_change(self, statement, change, types)? {
            Some(ChangePlan::Rows(plan)) => {
                return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Rows(plan)));
            }
            Some(ChangePlan::Feed(plan)) => {
                return Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Feed(plan)));
            }
            None => {}
        }
        match change {
            Change::Insert(insert) if insert.returning.is_empty() || insert.on_conflict.is_some() => {
                let plan = insert::plan(self, statement, insert, types)?;
                Ok((plan.parameters.clone(), None, Plan::Insert(Box::new(plan))))
            }
            Change::Insert(_) | Change::Update(_) | Change::Delete(_) | Change::Merge(_) => {
                let plan = modify::plan(self, statement, change, types).map_err(|error| locate(error, &statement.0))?;
                Ok((plan.parameters.clone(), plan.columns.clone(), Plan::Modify(Box::new(plan))))
            }
            _ => Err(Error::bug("a change that is none")),
        }
    }

    fn plan_cursor(&mut self, cursor: &CursorStatement, types: &[u32]) -> Result<Planned> {
        Ok(match cursor {
            CursorStatement::Declare { query, .. } => {
                let query = self.plan_statement(query, types)?;
                (query.0.parameters.clone(), None, Plan::Declare(query))
            }
            CursorStatement::Fetch { name, only_move: false, .. } => {
                (Vec::new(), self.cursors.columns(name).map(<[OutputColumn]>::to_vec), Plan::Other)
            }
            CursorStatement::Fetch { .. } | CursorStatement::Close(_) => (Vec::new(), None, Plan::Other),
        })
    }
}

/// Error 26000.
pub(crate) fn unknown_name(name: &str) -> Error {
    Error::new(SqlState::INVALID_SQL_STATEMENT_NAME, format!("prepared statement \"{name}\" does not exist"))
}

/// The result column of EXPLAIN.
pub(crate) fn explain_columns(format: ExplainFormat) -> Vec<OutputColumn> {
    let oid = if format == ExplainFormat::Json { oid::JSON } else { oid::TEXT };
    vec![OutputColumn { name: "QUERY PLAN".to_owned(), oid, typmod: -1, origin: None }]
}

fn text_column(name: &str) -> OutputColumn {
    OutputColumn { name: name.to_owned(), oid: oid::TEXT, typmod: -1, origin: None }
}

/// Result columns of SHOW.
pub(crate) fn show_columns(show: &Show) -> Vec<OutputColumn> {
    match show {
        Show::All => ["name", "setting", "description"].map(text_column).to_vec(),
        Show::Variable(name) => {
            let known = Settings::default().all().into_keys().find(|known| known.eq_ignore_ascii_case(name));
            vec![text_column(known.as_deref().unwrap_or(name))]
        }
    }
}
