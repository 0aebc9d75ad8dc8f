//! Planning of SELECT, VALUES and WITH; a plan is reused by later executions.

use std::sync::Arc;

use arrow_schema::DataType as Arrow;
use engine::Catalog;
use model::Result;
use relational::series::Shape;
use relational::types::{OutputColumn, Value};
use relational::{Executor, Parameters};

use crate::binding::{self, Bound, Planned};
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::settings::Settings;
use crate::statement::{Command, Parsed, Statement};
use crate::tables::names_any;

/// A planned query, with the catalog and settings it was planned with.
pub(crate) struct QueryPlan {
    /// Absent if the plan is valid for one execution only (queries of catalog tables): it would keep a
    /// snapshot, and memory with it.
    pub(crate) plan: Option<relational::Plan>,
    pub(crate) columns: Vec<OutputColumn>,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Arrow types of the columns.
    pub(crate) fields: Vec<Arrow>,
    /// The plan is valid while catalog and settings are these; `None`: it is never reused.
    valid: Option<(Arc<Catalog>, Arc<Settings>)>,
    /// Whether it calls functions of users, which the session serves while it runs.
    pub(crate) calls_routines: bool,
    /// The plan of a series statement; `None` for other queries.
    pub(crate) series: Option<Arc<Shape>>,
    /// Why the row executor does not run it, for EXPLAIN; `None` if it reads no `rows` table.
    pub(crate) refusal: Option<String>,
}

/// Plans a query for `relational` and the series executor.
pub(crate) fn plan(session: &mut Session, statement: &Statement, declared: &[u32]) -> Result<QueryPlan> {
    let context = context(session, &statement.0);
    let bound = binding::bind(&context, &statement.0, declared)?;
    Ok(plan_bound(session, &context, &statement.0, bound)?.kept())
}

/// Plans a bound query for `relational` and the series executor. The plan is for one execution, if it is not [kept](QueryPlan::kept).
pub(crate) fn plan_bound(
    session: &mut Session,
    context: &Arc<StatementContext>,
    parsed: &Parsed,
    bound: Bound,
) -> Result<QueryPlan> {
    let executor = session.executor(context);
    let planned = plan_in(&executor, context, parsed, bound);
    session.keep(executor);
    planned
}

/// Snapshot of a query: the newest commit if the query names a `rows` table.
pub(crate) fn context(session: &mut Session, statement: &Parsed) -> Arc<StatementContext> {
    let reads_rows = match &statement.command {
        Command::Query(query) => names_any(session, query),
        _ => false,
    };
    if reads_rows { session.context_of_newest() } else { session.context() }
}

fn plan_in(executor: &Executor, context: &Arc<StatementContext>, parsed: &Parsed, bound: Bound) -> Result<QueryPlan> {
    let calls_routines = bound.calls_routines();
    let Planned { plan, columns, parameters, is_reusable } = bound.lower(context, parsed)?;
    let fields = plan.types();
    let valid = is_reusable.then(|| (Arc::clone(context.reads.snapshot.catalog()), Arc::clone(&context.settings)));
    let is_series = is_reusable && context.reads.rows_view.is_none() && context.settings.enables_series();
    let series = if is_series { executor.series(&plan).map(Arc::new) } else { None };
    Ok(QueryPlan { plan: Some(plan), columns, parameters, fields, valid, calls_routines, series, refusal: None })
}

impl QueryPlan {
    /// The plan as it is kept for later executions: without what is valid for one of them.
    pub(crate) fn kept(self) -> QueryPlan {
        QueryPlan { plan: self.plan.filter(|_| self.valid.is_some()), ..self }
    }

    /// Whether planning again would give the same plan.
    pub(crate) fn holds(&self, context: &StatementContext) -> bool {
        self.valid.as_ref().is_some_and(|(catalog, settings)| {
            Arc::ptr_eq(catalog, context.reads.snapshot.catalog()) && Arc::ptr_eq(settings, &context.settings)
        })
    }

    pub(crate) fn values(&self, values: &[Value], context: &Arc<StatementContext>) -> Result<Parameters> {
        binding::parameters(values, &self.parameters, context)
    }
}
