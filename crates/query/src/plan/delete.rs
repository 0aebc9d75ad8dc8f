//! Planning of DELETE from `columns` tables: the series and times that it removes.

use std::sync::Arc;

use engine::{SeriesFilter, TableView};
use model::{Error, Result, TableRef, TimeRange};
use parser::ast::{self as tree, Delete};
use relational::Executor;
use relational::scan::Selected;
use relational::types::Value;

use crate::binding;
use crate::errors::locate;
use crate::session::Session;
use crate::session::context::StatementContext;
use crate::statement::{Parsed, Statement};
use crate::tables::find_table;

/// The rows that a DELETE removes.
pub(crate) struct Target {
    pub(crate) table: TableRef,
    pub(crate) view: TableView,
    pub(crate) series: SeriesFilter,
    pub(crate) times: TimeRange,
    pub(crate) nothing: bool,
}

/// OIDs of the parameter types.
pub(crate) fn parameters(
    session: &mut Session,
    statement: &Statement,
    delete: &Delete,
    declared: &[u32],
) -> Result<Vec<u32>> {
    let context = session.context();
    let table = table_of(&context, delete).map_err(|error| locate(error, &statement.0))?;
    if statement.0.parameters == 0 {
        return Ok(Vec::new());
    }
    let query = as_query(delete, &table)?;
    Ok(binding::bind_query(&context, &statement.0, &query, declared)?.parameters().to_vec())
}

fn table_of(context: &StatementContext, delete: &Delete) -> Result<TableRef> {
    if !delete.using.is_empty() || !delete.returning.is_empty() {
        return Err(Error::unsupported("DELETE takes only FROM and WHERE on columns tables")
            .with_hint("USING and RETURNING are not supported"));
    }
    find_table(context, &delete.table.name)
}

/// The query `SELECT time FROM t WHERE …`, whose optimized plan shows the series and times that the condition selects.
fn as_query(delete: &Delete, table: &TableRef) -> Result<tree::Query> {
    if delete.with.is_some() {
        return Err(Error::unsupported("DELETE with WITH is not supported on columns tables"));
    }
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
    Ok(tree::Query {
        with: None,
        body: tree::QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
        at,
    })
}

/// Determines the series and the time range that a DELETE removes.
///
/// # Errors
/// 0A000 for a predicate that is not a condition on key columns and one time range.
pub(crate) fn target(
    session: &mut Session,
    parsed: &Parsed,
    delete: &Delete,
    values: &[Value],
    declared: &[u32],
) -> Result<Target> {
    let context = session.context();
    let table = table_of(&context, delete).map_err(|error| locate(error, parsed))?;
    let executor = session.executor(&context);
    let result = target_in(&executor, &context, (parsed, delete), table, values, declared);
    session.keep(executor);
    result.map_err(|error| locate(error, parsed))
}

fn target_in(
    executor: &Executor,
    context: &Arc<StatementContext>,
    (parsed, delete): (&Parsed, &Delete),
    table: TableRef,
    values: &[Value],
    declared: &[u32],
) -> Result<Target> {
    let bound = binding::bind_query(context, parsed, &as_query(delete, &table)?, declared)?;
    let planned = bound.lower(context, parsed)?;
    let values = binding::parameters(values, &planned.parameters, context)?;
    let view = context.reads.snapshot.table_by_id(table.id)?;
    if let Some(Selected { series, times, is_nothing }) = executor.select(&planned.plan, values, (&table, &view))? {
        return Ok(Target { table, view, series, times, nothing: is_nothing });
    }
    let keys: Vec<&str> = table.key_columns().map(|column| column.name.as_str()).collect();
    let time = &table.time_column().name;
    let may = if keys.is_empty() { "no key columns".to_owned() } else { format!("key columns ({})", keys.join(", ")) };
    Err(Error::unsupported(format!("DELETE FROM {} can only test key columns and one range of the time", table.name))
        .with_detail(format!("the table has {may} and the time \"{time}\""))
        .with_hint(format!(
            "write e.g. WHERE \"{time}\" >= '…' AND \"{time}\" < '…'; tests of other columns cannot delete rows yet"
        )))
}
