//! The rows of a `columns` table that a condition on keys and times selects.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use engine::{SeriesFilter, TableView};
use model::{Result, TableRef, TimeRange};

use super::columns_table::{ColumnsTable, Selection};
use crate::errors::{OrError, external};

/// Rows of a `columns` table.
pub struct Selected {
    /// Their series.
    pub series: SeriesFilter,
    /// Their times.
    pub times: TimeRange,
    /// Whether the condition is false for all rows.
    pub is_nothing: bool,
}

/// The rows that the optimized plan of `SELECT time FROM table WHERE …` reads; `None` if it also filters them.
pub(crate) fn of_plan(plan: &LogicalPlan, table: &TableRef, view: &TableView, zone: &str) -> Result<Option<Selected>> {
    let mut selected = Selected { series: SeriesFilter::All, times: TimeRange::ALL, is_nothing: false };
    let mut is_exact = true;
    plan.apply(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                let schema = ColumnsTable::new(Arc::clone(table), zone).schema();
                let selection = Selection::of(table, &schema, view, &scan.filters).map_err(external)?;
                is_exact &= selection.exact;
                (selected.series, selected.times) = (selection.series, selection.times);
            }
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {}
            LogicalPlan::EmptyRelation(_) => selected.is_nothing = true,
            _ => is_exact = false,
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .or_error()?;
    Ok(is_exact.then_some(selected))
}
