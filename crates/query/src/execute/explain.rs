//! EXPLAIN and EXPLAIN ANALYZE: the physical plan, with the store's pruning.

use std::sync::Arc;

use arrow_array::RecordBatch;
use futures::StreamExt;
use model::{Error, Result};
use relational::series::Streamed;
use relational::types::Value;

use crate::errors::locate;
use crate::execute::explain_format::document;
use crate::execute::query::{Long, located};
use crate::execute::rows;
use crate::plan::query::QueryPlan;
use crate::plan::{Plan, Prepared, explain_columns};
use crate::result::{Outcome, text_rows};
use crate::session::Session;
use crate::statement::{Command, Explain, ExplainFormat};

/// Runs an EXPLAIN.
pub(crate) async fn execute(session: &mut Session, prepared: &Prepared, values: &[Value]) -> Result<Outcome> {
    let Command::Explain(Explain { analyze, format, statement }) = &prepared.0.statement.0.command else {
        return Err(Error::bug("an EXPLAIN that is none"));
    };
    let analyze = *analyze;
    let inner = Box::pin(session.prepare(statement, &prepared.0.declared)).await?;
    let lines = match &inner.0.plan {
        Plan::Query(plan) => {
            let mut lines = query(session, &inner, values, analyze).await?;
            lines.extend(plan.refusal.as_deref().map(not_on_rows));
            lines
        }
        Plan::Insert(plan) => {
            let (head, source) = super::insert::describe(plan);
            let mut lines = vec![head];
            if let Some(source) = source {
                let found = match &source.0.plan {
                    Plan::Rows(plan) => plan.describe(),
                    _ => query(session, source, values, false).await?,
                };
                lines.extend(found.into_iter().map(|line| format!("  {line}")));
            }
            if analyze {
                lines.push(run(session, &inner, values).await?);
            }
            lines
        }
        Plan::Rows(plan) => {
            plan.compiled.check_constants().map_err(|error| locate(error, &inner.0.statement.0))?;
            let mut lines = plan.describe();
            lines.extend(rows::external::describe(session, &inner.0.statement, plan, values).await?);
            if analyze {
                lines.push(run(session, &inner, values).await?);
            }
            lines
        }
        Plan::Feed(plan) => {
            let mut lines = vec!["Insert of".to_owned()];
            lines.extend(
                query(session, plan.source(), values, false).await?.into_iter().map(|line| format!("  {line}")),
            );
            lines.push(not_on_rows(&plan.refusal));
            if analyze {
                lines.push(run(session, &inner, values).await?);
            }
            lines
        }
        Plan::Row(_) => vec!["Row of functions".to_owned()],
        Plan::Execute(_) | Plan::Declare(_) | Plan::Advisory(_) => vec!["Utility statement".to_owned()],
        Plan::Modify(plan) => {
            let mut lines = super::modify::describe(session, &inner, plan, values).await?;
            if analyze {
                lines.push(run(session, &inner, values).await?);
            }
            lines
        }
        Plan::Other => vec!["Utility statement".to_owned()],
    };
    let lines = match format {
        ExplainFormat::Text => lines,
        format => vec![document(&lines, *format)],
    };
    let rows = lines.into_iter().map(|line| vec![Some(line)]).collect();
    text_rows(explain_columns(*format), rows, "EXPLAIN")
}

/// Says why the row executor does not run a query.
fn not_on_rows(refusal: &str) -> String {
    format!("Not on the row executor: {refusal}")
}

async fn query(session: &mut Session, prepared: &Prepared, values: &[Value], analyze: bool) -> Result<Vec<String>> {
    let Plan::Query(plan) = &prepared.0.plan else {
        return Err(Error::bug("a query without a plan"));
    };
    if let Some(lines) = series(session, prepared, plan, values, analyze).await? {
        return Ok(lines);
    }
    let env = Arc::clone(session.database.engine().env());
    let started = env.monotonic_ns();
    let ready = super::query::ready(session, prepared, plan, values).await?;
    let physical = ready.execution.plan();
    if !analyze {
        return Ok(physical.describe(false));
    }
    let planned = env.monotonic_ns();
    let mut batches = ready.stream(session, Arc::clone(&prepared.0.statement.0)).await?;
    let mut rows = 0;
    while let Some(batch) = batches.next().await {
        rows += batch?.num_rows();
    }
    let done = env.monotonic_ns();
    let mut text = physical.describe(true);
    text.push(format!("Planning Time: {} ms", milliseconds(planned - started)));
    text.push(format!("Execution Time: {} ms", milliseconds(done - planned)));
    text.push(format!("Rows: {rows}"));
    Ok(text)
}

/// Describes the plan of a time series query, and with ANALYZE runs it. `None` if the query has no such plan or its
/// execution fell back to DataFusion.
async fn series(
    session: &mut Session,
    prepared: &Prepared,
    plan: &QueryPlan,
    values: &[Value],
    analyze: bool,
) -> Result<Option<Vec<String>>> {
    let Some(series) = &plan.series else { return Ok(None) };
    let mut lines = series.describe();
    if !analyze {
        return Ok(Some(lines));
    }
    let env = Arc::clone(session.database.engine().env());
    let started = env.monotonic_ns();
    let ran = match super::query::run_series(session, prepared, values)? {
        Some(ran) => Some(Long::Ran(ran)),
        None => super::query::run_long(session, prepared, values).await?,
    };
    let (rows, stats, by_statistics, threads) = match ran {
        None => return Ok(None),
        Some(Long::Ran(ran)) => {
            let rows = ran.batches.iter().map(RecordBatch::num_rows).sum();
            (rows, ran.stats, ran.by_statistics, ran.threads)
        }
        Some(Long::Streamed(Streamed { batches, stats, threads })) => {
            let mut batches = located(batches, &prepared.0.statement.0);
            let mut rows = 0;
            while let Some(batch) = batches.next().await {
                rows += batch?.num_rows();
            }
            let stats = *stats.lock();
            (rows, stats, 0, threads)
        }
    };
    lines.push(format!(
        "  segments={} pruned={}, blocks={} pruned={}, rows by statistics={by_statistics}, rows read={}, bytes read={}, threads={threads}",
        stats.segments, stats.segments_pruned, stats.blocks, stats.blocks_pruned, stats.rows, stats.bytes_read,
    ));
    lines.push(format!("Execution Time: {} ms", milliseconds(env.monotonic_ns() - started)));
    lines.push(format!("Rows: {rows}"));
    Ok(Some(lines))
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// Runs a statement of the row executor, or one that writes, for ANALYZE.
async fn run(session: &mut Session, inner: &Prepared, values: &[Value]) -> Result<String> {
    match Box::pin(session.execute(inner, values)).await? {
        Outcome::Command { tag } => Ok(format!("Done: {tag}")),
        Outcome::Rows { mut batches, .. } => {
            let mut rows = 0;
            while let Some(batch) = batches.next().await {
                rows += batch?.num_rows();
            }
            Ok(format!("Done: {rows} rows"))
        }
        _ => Err(Error::bug("a write that gave rows")),
    }
}
