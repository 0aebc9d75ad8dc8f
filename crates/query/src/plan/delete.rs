//! Planning of DELETE from `columns` tables: the series and times that it removes.

use std::sync::Arc;

use engine::{SeriesFilter, TableView};
use model::{Result, TableRef, TimeRange};
use parser::ast::{self as tree, Delete};
use relational::Executor;
use relational::scan::Selected;
use relational::types::Value;

use crate::binding;
use crate::errors::locate;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::Parsed;
use crate::tables::{find_table, names_any};

/// The rows that a DELETE removes.
pub(crate) struct Target {
    pub(crate) table: TableRef,
    pub(crate) view: TableView,
    pub(crate) series: SeriesFilter,
    pub(crate) times: TimeRange,
    pub(crate) nothing: bool,
}

/// The query `SELECT time FROM t WHERE …`, whose optimized plan shows the series and times that the condition selects.
fn as_query(delete: &Delete, table: &TableRef) -> tree::Query {
    let tree::TargetTable { name, only, alias } = delete.table.clone();
    let at = name.at;
    let alias = alias.map(|name| tree::Alias { name, columns: Vec::new() });
    let time = tree::Expr::new(tree::ExprKind::Column(tree::Ident::new(&table.time_column().name)), at);
    let relation = tree::Relation { name, only, alias, sample: None, as_of: None };
    let select = tree::Select {
        targets: vec![tree::Target { expr: time, alias: None }],
        from: vec![tree::TableExpr::Relation(Box::new(relation))],
        filter: delete.filter.clone(),
        ..tree::Select::default()
    };
    tree::Query {
        with: None,
        body: tree::QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
        at,
    }
}

/// Determines the series and the time range that a DELETE removes; `None` if it is not a DELETE by conditions on key columns
/// and one time range.
pub(crate) fn target(
    session: &mut Session,
    parsed: &Parsed,
    delete: &Delete,
    values: &[Value],
    declared: &[u32],
) -> Result<Option<Target>> {
    let has_current_of = |filter: &tree::Expr| matches!(filter.kind, tree::ExprKind::CurrentOf(_));
    let is_plain = delete.with.is_none() && delete.using.is_empty() && delete.returning.is_empty();
    if !is_plain || delete.filter.as_ref().is_some_and(has_current_of) {
        return Ok(None);
    }
    let context = session.context();
    let Ok(table) = find_table(&context, &delete.table.name) else { return Ok(None) };
    let query = as_query(delete, &table);
    if names_any(session, &query) {
        return Ok(None);
    }
    let executor = session.executor(&context);
    let result = target_in(&executor, &context, (parsed, &query), table, values, declared);
    session.keep(executor);
    result.map_err(|error| locate(error, parsed))
}

fn target_in(
    executor: &Executor,
    context: &Arc<StatementContext>,
    (parsed, query): (&Parsed, &tree::Query),
    table: TableRef,
    values: &[Value],
    declared: &[u32],
) -> Result<Option<Target>> {
    let bound = binding::bind_query(context, parsed, query, declared)?;
    let planned = bound.lower(context, parsed)?;
    let values = binding::parameters(values, &planned.parameters, context)?;
    let view = context.reads.snapshot.table_by_id(table.id)?;
    let selected = executor.select(&planned.plan, values, (&table, &view))?;
    Ok(selected.map(|Selected { series, times, is_nothing }| Target {
        table,
        view,
        series,
        times,
        nothing: is_nothing,
    }))
}
