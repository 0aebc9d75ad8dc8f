//! Planning of INSERT … SELECT into a `rows` table from a query that the row executor does not run.

use std::sync::Arc;

use compiled::Load;
use model::Result;
use parser::ast as tree;
use relational::types::OutputColumn;

use super::query::{QueryPlan, plan_bound};
use super::rows::{Verb, output_column, placed, unsupported};
use crate::binding;
use crate::plan::{Plan, Prepared, PreparedStatement};
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Command, Purpose, Statement};
use crate::tables::Named;

/// An INSERT whose query the row executor does not run. It is bound again for each execution; this is what clients are told about it.
pub(crate) struct FeedPlan {
    pub(crate) insert: tree::Insert,
    /// The query, for EXPLAIN.
    source: Prepared,
    /// Why the row executor does not run the query.
    pub(crate) refusal: String,
    /// OIDs of the parameters.
    pub(crate) parameters: Vec<u32>,
    /// Columns of RETURNING; `None` without it.
    pub(crate) columns: Option<Vec<OutputColumn>>,
}

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
    let columns: Vec<OutputColumn> = load.columns().iter().map(output_column).collect();
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
pub(crate) struct Fed {
    pub(crate) context: Arc<StatementContext>,
    pub(crate) load: Load,
    pub(crate) query: QueryPlan,
    /// The query's tree, with the text of the INSERT.
    pub(crate) source: Statement,
}

impl Fed {
    pub(crate) fn of(
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
        let (load, query) = match lowered.map_err(|error| placed(error, statement))? {
            Ok(lowered) => lowered,
            Err(refused) => return Err(unsupported(Verb::Insert, &format!("{refusal} and {}", refused.reason))),
        };
        let source = binding::statement_of(binding::source_of_insert(insert)?, &statement.0, Purpose::Rows);
        let bound = binding::Bound::of_load(query, bound);
        let query = plan_bound(session, &context, &source.0, bound)?;
        Ok(Fed { context, load, query, source })
    }

    /// Whether the statement could read rows that it inserts. A source sees its snapshot and its
    /// transaction's own changes, including later ones if there were any when it started.
    pub(crate) fn meets_its_own(&self, session: &mut Session) -> Result<bool> {
        if session.rows_txn()?.is_empty() {
            return Ok(false);
        }
        let Command::Query(query) = &self.source.0.command else { return Ok(true) };
        let named = Named { snapshot: &self.context.reads.snapshot, settings: &self.context.settings };
        Ok(named.names_in(query, self.load.table().id()))
    }
}
