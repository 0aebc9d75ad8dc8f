//! Rows of the queries of a change that the row executor does not run: they are read before it, from the same snapshot, and their
//! memory is counted as memory of statements.

use std::sync::Arc;

use compiled::Incoming;
use model::{Error, Result};
use relational::types::Value;

use super::feed::{Read, Source};
use crate::binding::Bound;
use crate::errors::locate;
use crate::execute::query::ready_of;
use crate::plan::query::{QueryPlan, plan_bound};
use crate::plan::rows::RowsPlan;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Command, Purpose, Statement};

/// The rows, and the snapshot that they are of.
pub(crate) struct ExternalRows {
    pub(crate) context: Arc<StatementContext>,
    rows: Vec<Read>,
}

impl ExternalRows {
    /// Runs the queries of a statement.
    ///
    /// # Errors
    /// Errors of the queries; 53200 if there is not enough memory for their rows.
    pub(crate) async fn read(
        session: &mut Session,
        statement: &Statement,
        plan: &RowsPlan,
        values: &[Value],
    ) -> Result<ExternalRows> {
        let context = session.context_of_newest();
        let (part, queries) = planned(session, &context, statement, plan)?;
        let mut rows = Vec::with_capacity(queries.len());
        for query in &queries {
            let read = async {
                let mut source = Source::start(session, &context, &part, query, values).await?;
                source.rows(session, usize::MAX).await
            };
            rows.push(read.await.map_err(|error| locate(error, &statement.0))?.unwrap_or_default());
        }
        Ok(ExternalRows { context, rows })
    }

    pub(crate) fn rows(&self) -> Vec<&dyn Incoming> {
        self.rows.iter().map(|read| read as &dyn Incoming).collect()
    }
}

/// The plans of the queries, with the statement whose text their errors have places in.
fn planned(
    session: &mut Session,
    context: &Arc<StatementContext>,
    statement: &Statement,
    plan: &RowsPlan,
) -> Result<(Statement, Vec<QueryPlan>)> {
    let command = match &statement.0.command {
        Command::Change(change) => Command::Change(change.clone()),
        Command::Query(query) => Command::Query(query.clone()),
        _ => return Err(Error::bug("a statement of another kind with queries of another executor")),
    };
    let part = statement.0.part(command, Purpose::Rows);
    let mut plans = Vec::new();
    for query in plan.compiled.external_queries() {
        let bound = Bound::of_change(query.clone(), plan.files(), context);
        plans.push(plan_bound(session, context, &part.0, bound)?);
    }
    Ok((part, plans))
}

/// Lines of EXPLAIN.
///
/// # Errors
/// Those of planning.
pub(crate) async fn describe(
    session: &mut Session,
    statement: &Statement,
    plan: &RowsPlan,
    values: &[Value],
) -> Result<Vec<String>> {
    if !plan.has_external_queries() {
        return Ok(Vec::new());
    }
    let context = session.context_of_newest();
    let (part, queries) = planned(session, &context, statement, plan)?;
    let mut lines = Vec::new();
    for query in &queries {
        lines.push("Before it".to_owned());
        let ready = ready_of(session, &context, &part.0, query, values).await?;
        lines.extend(ready.execution.plan().describe(false).into_iter().map(|line| format!("  {line}")));
    }
    Ok(lines)
}
