//! Files as a table of DataFusion: `read_parquet`, `read_arrow`, and the input of COPY.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use model::{Error, Result, SqlState};
use scalar::Value;

use super::prune::row_groups;
use super::read::{Layout, Part, Source};
use super::{FileAccess, FileRoot, Found, Kind};
use crate::errors::external;
use crate::scan::TableSource;
use crate::scan::columns_table::{has_subquery, predicate};

/// Internal table function that stands for the input of a COPY.
pub const SOURCE: &str = "millrace_source_of_copy";
/// Batches buffered between the reader and the query.
const BATCHES_AHEAD: usize = 2;
/// Minimum number of rows for which files are split among threads.
const SPLIT_ROWS_MIN: u64 = 200_000;

/// Files as a table.
pub struct FilesTable(Arc<Source>);

impl FilesTable {
    /// Whether a function in FROM of this name reads files.
    pub fn is_function(name: &str) -> bool {
        kind_of(name).is_some() || name == SOURCE
    }

    /// The table of a function in FROM. An argument that is not constant is `None`. `zone` is the session's time zone.
    ///
    /// # Errors
    /// 22023 for arguments that name no files; those of opening the files.
    pub fn of_function(access: &FileAccess, zone: &str, name: &str, arguments: &[Option<Value>]) -> Result<FilesTable> {
        let source = match (kind_of(name), &access.input) {
            (Some(kind), _) => Arc::new(Source::open(named(access.root()?, name, arguments)?, kind, zone)?),
            (None, Some(source)) => Arc::clone(source),
            (None, None) => {
                return Err(Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}() does not exist")));
            }
        };
        Ok(FilesTable(source))
    }

    /// The columns that statements see.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    /// The files' rows, for a plan.
    #[must_use]
    pub fn source(self: &Arc<FilesTable>) -> TableSource {
        TableSource::of(Arc::clone(self) as Arc<dyn TableProvider>)
    }
}

fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "read_parquet" => Some(Kind::Parquet),
        "read_arrow" => Some(Kind::Arrow),
        _ => None,
    }
}

/// Files that the arguments name: texts, or arrays of them.
fn named(root: &FileRoot, name: &str, arguments: &[Option<Value>]) -> Result<Vec<Found>> {
    let mut patterns = Vec::new();
    for argument in arguments {
        let items = match argument {
            Some(Value::Array { items, .. }) => &items[..],
            Some(value) => std::slice::from_ref(value),
            None => return Err(no_paths(name)),
        };
        for item in items {
            let Value::Text(text) = item else { return Err(no_paths(name)) };
            patterns.push(text.to_string());
        }
    }
    if patterns.is_empty() {
        return Err(no_paths(name));
    }
    let mut found = Vec::new();
    for pattern in &patterns {
        found.extend(root.inputs(pattern)?);
    }
    Ok(found)
}

fn no_paths(name: &str) -> Error {
    let text = format!("{name}() takes paths of files, as texts that do not depend on rows");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, text)
        .with_hint(format!("{name}('2024/*.parquet'), or {name}('a', 'b')"))
}

impl fmt::Debug for FilesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilesTable({})", self.0.kind)
    }
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let is_parquet = self.0.kind == Kind::Parquet;
        let support = |filter: &&Expr| match is_parquet && !filter.is_volatile() && !has_subquery(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let source = Arc::clone(&self.0);
        let columns = projection.cloned().unwrap_or_else(|| (0..source.schema.fields().len()).collect());
        let schema = Arc::new(source.schema.project(&columns)?);
        let pruning = pruning(&source.schema, filters);
        let partitions = if limit.is_some() { 1 } else { state.config().target_partitions() };
        let parts = Parts::of(&source, pruning.as_ref(), partitions).map_err(external)?;
        Ok(Arc::new(FilesScan::new(source, columns, schema, parts, limit, !filters.is_empty())))
    }
}

/// Pruning predicate for row groups. Filters are inexact: DataFusion evaluates them on the rows as well.
fn pruning(schema: &SchemaRef, filters: &[Expr]) -> Option<PruningPredicate> {
    if filters.is_empty() {
        return None;
    }
    let predicate = predicate(schema, filters).ok()?;
    let pruning = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).try_build(predicate);
    pruning.ok().filter(|pruning| !pruning.always_true())
}

/// The work of a scan, split into partitions.
struct Parts {
    list: Vec<Vec<Part>>,
    row_groups: usize,
    row_groups_pruned: usize,
}

impl Parts {
    fn of(source: &Source, pruning: Option<&PruningPredicate>, partitions: usize) -> Result<Parts> {
        let mut units = Vec::new();
        let (mut row_groups_all, mut kept_all, mut rows) = (0, 0, 0);
        for (at, input) in source.inputs.iter().enumerate() {
            let Layout::Parquet(metadata) = &input.layout else {
                units.push((Part { input: at, row_groups: Vec::new() }, SPLIT_ROWS_MIN));
                rows += SPLIT_ROWS_MIN;
                continue;
            };
            let kept = row_groups(source, input, pruning)?;
            row_groups_all += metadata.metadata().num_row_groups();
            kept_all += kept.len();
            for group in kept {
                let count = u64::try_from(metadata.metadata().row_group(group).num_rows()).unwrap_or(0);
                units.push((Part { input: at, row_groups: vec![group] }, count));
                rows += count;
            }
        }
        let partitions = if rows < SPLIT_ROWS_MIN { 1 } else { partitions.clamp(1, units.len().max(1)) as u64 };
        let mut list: Vec<Vec<Part>> = vec![Vec::new(); partitions as usize];
        let mut before = 0;
        for (part, count) in units {
            let partition = (before * partitions / rows.max(1)).min(partitions - 1) as usize;
            before += count;
            match list[partition].last_mut() {
                // Adjacent row groups share one reader.
                Some(last) if last.input == part.input => last.row_groups.extend(part.row_groups),
                _ => list[partition].push(part),
            }
        }
        Ok(Parts { list, row_groups: row_groups_all, row_groups_pruned: row_groups_all - kept_all })
    }
}

/// Physical plan that scans files.
struct FilesScan {
    source: Arc<Source>,
    columns: Vec<usize>,
    schema: SchemaRef,
    parts: Parts,
    limit: Option<usize>,
    is_filtered: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FilesScan {
    fn new(
        source: Arc<Source>,
        columns: Vec<usize>,
        schema: SchemaRef,
        parts: Parts,
        limit: Option<usize>,
        is_filtered: bool,
    ) -> FilesScan {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(parts.list.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        FilesScan { source, columns, schema, parts, limit, is_filtered, properties, metrics }
    }
}

impl fmt::Debug for FilesScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilesScan({})", self.source.kind)
    }
}

impl DisplayAs for FilesScan {
    fn fmt_as(&self, _ty: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FilesScan: format={}, files={}, columns=[", self.source.kind, self.source.inputs.len())?;
        for (at, field) in self.schema.fields().iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, field.name())?;
        }
        write!(f, "]")?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if self.source.kind == Kind::Parquet {
            write!(f, ", row groups={} pruned={}", self.parts.row_groups, self.parts.row_groups_pruned)?;
        }
        write!(f, ", partitions={}", self.parts.list.len())
    }
}

impl ExecutionPlan for FilesScan {
    fn name(&self) -> &'static str {
        "FilesScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let parts = self.parts.list[partition].clone();
        let (source, columns, schema) = (Arc::clone(&self.source), self.columns.clone(), Arc::clone(&self.schema));
        let mut left = self.limit.unwrap_or(usize::MAX);
        let is_limited = self.limit.is_some();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let count = |name, value| MetricBuilder::new(&self.metrics).counter(name, partition).add(value);
        count("files", parts.len());
        count("row_groups", parts.iter().map(|part| part.row_groups.len()).sum());
        if partition == 0 {
            count("row_groups_pruned", self.parts.row_groups_pruned);
        }
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&self.schema), BATCHES_AHEAD);
        let out = builder.tx();
        builder.spawn_blocking(move || {
            for part in &parts {
                let batches = source.rows_of(part, &columns, &schema, is_limited.then_some(left)).map_err(external)?;
                for batch in batches {
                    let mut batch = batch.map_err(external);
                    if let Ok(batch) = &mut batch {
                        if batch.num_rows() > left {
                            *batch = batch.slice(0, left);
                        }
                        left -= batch.num_rows();
                        source.rows_read.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                        baseline.record_output(batch.num_rows());
                    }
                    let is_last = batch.is_err() || left == 0;
                    // A send error means that the receiver is gone.
                    if out.blocking_send(batch).is_err() || is_last {
                        return Ok(());
                    }
                }
            }
            baseline.done();
            Ok(())
        });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    /// Exact number of rows without filters, otherwise an upper bound.
    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        let rows = match partition {
            None => self.source.rows(),
            Some(_) => None,
        };
        let rows = rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX).min(self.limit.unwrap_or(usize::MAX)));
        let num_rows = match rows {
            Some(rows) if self.is_filtered => Precision::Inexact(rows),
            Some(rows) => Precision::Exact(rows),
            None => Precision::Absent,
        };
        // No column statistics: a file's bounds need not be values that occur in it.
        let column_statistics = vec![ColumnStatistics::new_unknown(); self.schema.fields().len()];
        Ok(Arc::new(Statistics { num_rows, total_byte_size: Precision::Absent, column_statistics }))
    }
}
