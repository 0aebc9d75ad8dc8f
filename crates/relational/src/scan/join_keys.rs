//! Joins tell the scan of a `columns` table which keys they look for.
//!
//! A hash join reads one side completely before the other. Where the other side is a `columns` table that is joined by key
//! columns, its scan waits for the keys of the first side and reads only their series. DataFusion's own rule for this maps
//! conditions by column name, and both sides of a join may have a column of the same name; this one maps them by position.
//!
//! Always true: a scan waits only for a join that is above it in the same plan and was told of it, so the join completes the
//! filter. A plan that is run again has forgotten the filter (`reset_state` of both).

use std::any::Any;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use columns::OneOf;
use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, Literal, lit};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use engine::{ScanRequest, SeriesFilter, TableView};
use model::{Result, TableRef};

use crate::errors::OrError;
use crate::scan::columns_scan::ColumnsScan;
use crate::scan::key_filter::{Passing, key_value, series_by_keys};

/// The keys that a join looks for, known once its first side was read.
#[derive(Clone, Debug)]
pub(crate) struct JoinKeys {
    filter: Arc<dyn PhysicalExpr>,
    /// Names of the key columns, by position in the schema of the scan.
    keys: Vec<(usize, String)>,
}

/// Makes the joins of a plan tell their keys to scans.
pub(crate) fn tell_scans(plan: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        Ok(match told(&node)? {
            Some(join) => Transformed::yes(join),
            None => Transformed::no(node),
        })
    })
    .map(|told| told.data)
}

/// The join with a filter for a scan on its second side; `None` for all other operators.
fn told(node: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let Some(join) = hash_join(node).filter(|join| *join.partition_mode() == PartitionMode::CollectLeft) else {
        return Ok(None);
    };
    if let Some(told) = told_join(join)? {
        return Ok(Some(told));
    }
    if !is_better_swapped(join) {
        return Ok(None);
    }
    let swapped = join.swap_inputs(PartitionMode::CollectLeft)?;
    if let Some(join) = hash_join(&swapped) {
        return told_join(join);
    }
    // The order of the columns is restored above the join.
    let [child] = swapped.children()[..] else { return Ok(None) };
    let told = match hash_join(child) {
        Some(join) => told_join(join)?,
        None => None,
    };
    #[expect(deprecated, reason = "what replaces it asks which properties are kept, and here all are made anew")]
    told.map(|told| Arc::clone(&swapped).with_new_children(vec![told])).transpose()
}

fn hash_join(node: &Arc<dyn ExecutionPlan>) -> Option<&HashJoinExec> {
    let any: &dyn Any = node.as_ref();
    any.downcast_ref()
}

/// Whether the first side is a scan of a `columns` table and the second one some rows of other tables, which have no
/// statistics: then DataFusion leaves the sides as they were written.
fn is_better_swapped(join: &HashJoinExec) -> bool {
    let right = join.right();
    *join.join_type() == JoinType::Inner
        && right.output_partitioning().partition_count() == 1
        && right.output_ordering().is_none()
        && contains(right, &|any| any.is::<FilterExec>())
        && !contains(right, &|any| any.is::<ColumnsScan>())
}

fn contains(node: &Arc<dyn ExecutionPlan>, is_one: &dyn Fn(&dyn Any) -> bool) -> bool {
    let any: &dyn Any = node.as_ref();
    is_one(any) || node.children().into_iter().any(|child| contains(child, is_one))
}

fn told_join(join: &HashJoinExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    // Rows of the second side without a partner are in no result of these.
    let drops_others =
        matches!(join.join_type(), JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::RightSemi);
    if !drops_others {
        return Ok(None);
    }
    let position = |expr: &Arc<dyn PhysicalExpr>| column(expr).map(Column::index);
    let Some(columns) = join.on().iter().map(|(_, right)| position(right)).collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let keys = join.on().iter().map(|(_, right)| Arc::clone(right)).collect();
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(keys, lit(true)));
    let Some(right) = offered(join.right(), &filter, &columns)? else { return Ok(None) };
    let children = vec![Arc::clone(join.left()), right];
    let join = join.builder().with_new_children(children)?.build()?.with_dynamic_filter_expr(filter)?;
    Ok(Some(Arc::new(join)))
}

/// The operator with the filter in the scan below it; `None` if there is none that can use it. `columns` are those of the
/// operator's rows that the filter is about.
fn offered(
    node: &Arc<dyn ExecutionPlan>,
    filter: &Arc<DynamicFilterPhysicalExpr>,
    columns: &[usize],
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let any: &dyn Any = node.as_ref();
    if let Some(scan) = any.downcast_ref::<ColumnsScan>() {
        return Ok(scan.with_join_keys(filter, columns)?.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>));
    }
    let below = if let Some(projection) = any.downcast_ref::<ProjectionExec>() {
        let of = |at: &usize| projection.expr().get(*at).and_then(|one| column(&one.expr)).map(Column::index);
        columns.iter().map(of).collect::<Option<Vec<_>>>()
    } else if let Some(selection) = any.downcast_ref::<FilterExec>() {
        let of = |at: &usize| match selection.projection() {
            Some(projection) => projection.get(*at).copied(),
            None => Some(*at),
        };
        columns.iter().map(of).collect()
    } else if any.is::<CooperativeExec>() || any.is::<RepartitionExec>() {
        Some(columns.to_vec())
    } else {
        None
    };
    let (Some(below), [child]) = (below, &node.children()[..]) else { return Ok(None) };
    match offered(child, filter, &below)? {
        #[expect(deprecated, reason = "what replaces it asks which properties are kept, and here all are made anew")]
        Some(child) => Arc::clone(node).with_new_children(vec![child]).map(Some),
        None => Ok(None),
    }
}

fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<&Column> {
    let any: &dyn Any = expr.as_ref();
    any.downcast_ref::<Column>()
}

impl JoinKeys {
    /// The keys of a join, by names and positions of the key columns in the rows of the scan.
    pub(crate) fn new(filter: &Arc<DynamicFilterPhysicalExpr>, keys: Vec<(usize, String)>) -> DfResult<JoinKeys> {
        let columns = keys.iter().map(|(at, name)| Arc::new(Column::new(name, *at)) as Arc<dyn PhysicalExpr>).collect();
        let filter = Arc::clone(filter) as Arc<dyn PhysicalExpr>;
        Ok(JoinKeys { filter: filter.with_new_children(columns)?, keys })
    }

    /// The expression, which the join looks for in its plan.
    pub(crate) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.filter
    }

    /// Waits for the join's first side.
    pub(crate) async fn wait(&self) {
        if let Some(filter) = self.dynamic() {
            filter.wait_complete().await;
        }
    }

    fn dynamic(&self) -> Option<&DynamicFilterPhysicalExpr> {
        let any: &dyn Any = self.filter.as_ref();
        any.downcast_ref::<DynamicFilterPhysicalExpr>()
    }

    /// The request for the series that the join looks for. `schema` is that of the scan's rows.
    pub(crate) fn narrowed(
        &self,
        (table, schema): (&TableRef, &SchemaRef),
        view: &TableView,
        request: ScanRequest,
    ) -> Result<ScanRequest> {
        let Some(filter) = self.dynamic() else { return Ok(request) };
        let filter = filter.current().or_error()?;
        let mut lists = Vec::new();
        self.lists(table, &filter, &mut lists);
        let found = if lists.is_empty() {
            let positions: Vec<usize> = self.keys.iter().map(|(at, _)| *at).collect();
            let passing = Passing { table, view, schema, positions: &positions, predicate: &filter };
            match &request.series {
                SeriesFilter::All => passing.among(0..view.series_count()),
                SeriesFilter::Range(range) => passing.among(range.clone()),
                SeriesFilter::Only(list) => passing.among(list.iter().copied()),
            }?
        } else {
            let is_wanted = |one: &u32| match &request.series {
                SeriesFilter::All => true,
                SeriesFilter::Range(range) => range.contains(one),
                SeriesFilter::Only(list) => list.binary_search(one).is_ok(),
            };
            series_by_keys(table, view, &lists)?.into_iter().filter(is_wanted).collect()
        };
        Ok(ScanRequest { series: SeriesFilter::Only(found.into()), ..request })
    }

    /// Collects the conjuncts `key IN (…)` of a filter.
    fn lists(&self, table: &TableRef, filter: &Arc<dyn PhysicalExpr>, into: &mut Vec<OneOf>) {
        let any: &dyn Any = filter.as_ref();
        if let Some(both) = any.downcast_ref::<BinaryExpr>().filter(|both| *both.op() == Operator::And) {
            self.lists(table, both.left(), into);
            self.lists(table, both.right(), into);
        } else if let Some(list) = any.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
            into.extend(self.one_of(table, list));
        }
    }

    fn one_of(&self, table: &TableRef, list: &InListExpr) -> Option<OneOf> {
        let at = column(list.expr())?.index();
        let name = self.keys.iter().find(|(position, _)| *position == at).map(|(_, name)| name)?;
        let (place, key) = table.key_columns().enumerate().find(|(_, key)| key.name == *name)?;
        let value = |item: &Arc<dyn PhysicalExpr>| {
            let any: &dyn Any = item.as_ref();
            key_value(key.ty, any.downcast_ref::<Literal>()?.value())
        };
        Some(OneOf { column: place, values: list.list().iter().map(value).collect::<Option<_>>()? })
    }
}
