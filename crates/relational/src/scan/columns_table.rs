//! DataFusion's table provider for a `columns` table: pushes projection, key predicates, time range, block
//! ranges and limit down to the store.
//!
//! Always true:
//! - A predicate is pushed down as `Exact`, so that DataFusion does not evaluate it again, only if it
//!   contains only key columns or compares the time with a constant.
//! - A provider holds a table's definition, not its rows: the scan takes the statement's snapshot when it is
//!   planned. A logical plan can therefore be reused across executions.

use std::fmt;
use std::sync::Arc;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType as Arrow, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use columns::ColumnRange;
use columns::segment::StatValue;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use engine::{ScanRequest, SeriesFilter, TableView};
use model::{ColumnId, ColumnRole, DataType, Error, Result, TableRef, TimeRange};

use crate::errors::{OrError, external};
use crate::scan::columns_scan::ColumnsScan;
use crate::scan::context::Slot;
use crate::scan::declared::plain;
use crate::scan::key_filter::{may_fail, series_of};
use crate::scan::predicate::Keep;
use crate::types::arrow_of;

/// Rows per batch read from the store.
pub const BATCH_ROWS: usize = 8_192;

/// A `columns` table.
pub(crate) struct ColumnsTable {
    table: TableRef,
    /// Positions in the table of the visible columns, ascending; they include the keys and the time.
    shown: Vec<usize>,
    /// Schema of the visible columns.
    schema: SchemaRef,
    /// Time that is read, in nanoseconds since 1970 UTC; `None`: the statement's snapshot.
    moment: Option<i64>,
}

impl ColumnsTable {
    /// All columns are visible. `zone` is the session's time zone, for the type of timestamps.
    pub(crate) fn new(table: TableRef, zone: &str) -> ColumnsTable {
        ColumnsTable::with(table, zone, |_| true)
    }

    /// Makes the keys, the time, and the fields for which `is_named` returns true visible.
    pub(crate) fn with(table: TableRef, zone: &str, is_named: impl Fn(&str) -> bool) -> ColumnsTable {
        let is_shown = |at: &usize| {
            let column = &table.columns[*at];
            column.role != ColumnRole::Field || is_named(&column.name)
        };
        let shown: Vec<usize> = (0..table.columns.len()).filter(is_shown).collect();
        let field = |at: &usize| {
            let column = &table.columns[*at];
            Field::new(&column.name, arrow_of(column.ty, zone), column.nullable)
        };
        let schema = Arc::new(Schema::new(shown.iter().map(field).collect::<Vec<_>>()));
        ColumnsTable { table, shown, schema, moment: None }
    }

    /// The table as it was at a moment, when its columns need not have been NOT NULL yet.
    pub(crate) fn at(self, moment: i64) -> ColumnsTable {
        let field = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
        let schema = Arc::new(Schema::new(self.schema.fields().iter().map(field).collect::<Vec<_>>()));
        ColumnsTable { moment: Some(moment), schema, ..self }
    }
}

impl ColumnsTable {
    /// Definition of the table.
    pub(crate) fn table(&self) -> &TableRef {
        &self.table
    }

    /// Whether this is a time travel read.
    pub(crate) fn is_of_the_past(&self) -> bool {
        self.moment.is_some()
    }

    /// Schema of the visible columns.
    pub(crate) fn arrow_schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl fmt::Debug for ColumnsTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnsTable({})", self.table.name)
    }
}

#[async_trait]
impl TableProvider for ColumnsTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match part(&self.table, &plain(&self.table, filter)) {
            Part::Keys if may_fail(filter) => TableProviderFilterPushDown::Inexact,
            Part::Keys | Part::Time(_) => TableProviderFilterPushDown::Exact,
            Part::Field(_) => TableProviderFilterPushDown::Inexact,
            Part::Other if is_sure(filter) => TableProviderFilterPushDown::Inexact,
            Part::Other => TableProviderFilterPushDown::Unsupported,
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
        let context = Slot::reads(state)?;
        let view = match self.moment {
            None => context.snapshot.table_by_id(self.table.id),
            Some(moment) => crate::scan::time_travel::view(&context, self.table.id, moment),
        };
        let view = view.map_err(external)?;
        let schema = match projection {
            Some(chosen) => Arc::new(self.schema.project(chosen)?),
            None => Arc::clone(&self.schema),
        };
        let columns: Vec<ColumnId> = match projection {
            Some(chosen) => chosen.iter().map(|at| self.table.columns[self.shown[*at]].id).collect(),
            None => self.shown.iter().map(|at| self.table.columns[*at].id).collect(),
        };
        let selection = Selection::of(&self.table, &self.schema, &view, filters).map_err(external)?;
        let keep = keep(selection.rest, &columns, &schema).filter(|_| limit.is_none());
        let request = ScanRequest {
            columns,
            times: selection.times,
            series: selection.series,
            ranges: selection.ranges,
            batch_rows: BATCH_ROWS.min(state.config().batch_size()),
            limit: limit.map(|limit| limit as u64),
            // With a scan predicate, text is filtered in its dictionary encoding.
            coded: keep.is_some(),
            columns_only: false,
        };
        Slot::note_longest(state, view.longest_value(&request).map_err(external)?);
        let partitions = state.config().target_partitions();
        let is_committed = context.is_committed;
        let scan = ColumnsScan::new(Arc::clone(&self.table), schema, view, (request, keep), partitions, is_committed);
        Ok(Arc::new(scan.map_err(external)?))
    }
}

/// Whether the predicate is deterministic and cannot fail.
pub(crate) fn is_sure(filter: &Expr) -> bool {
    !filter.is_volatile() && !has_subquery(filter) && !may_fail(filter)
}

/// Scan predicate: the conditions that cannot fail. The scan evaluates it before it reads the remaining
/// columns. DataFusion evaluates the conditions again above the scan.
fn keep(rest: Vec<Expr>, columns: &[ColumnId], schema: &SchemaRef) -> Option<Arc<Keep>> {
    let condition = rest.into_iter().filter(is_sure).reduce(Expr::and)?;
    let make = |condition: &Expr, schema: DFSchema| {
        predicate(&Arc::new(schema.as_arrow().clone()), std::slice::from_ref(condition)).ok()
    };
    Keep::new(&condition, columns, schema, make).map(Arc::new)
}

/// Classification of one conjunct of a WHERE.
enum Part {
    /// Contains only key columns.
    Keys,
    /// Exactly a range of times.
    Time(TimeRange),
    /// A bound on a field.
    Field(ColumnRange),
    /// The store cannot use it.
    Other,
}

/// The part of a conjunction that the store can evaluate.
pub(crate) struct Selection {
    pub(crate) times: TimeRange,
    pub(crate) series: SeriesFilter,
    pub(crate) ranges: Vec<ColumnRange>,
    /// Whether times, series and ranges together are equivalent to the conjunction.
    pub(crate) exact: bool,
    /// Conjuncts that must still be evaluated for each row.
    pub(crate) rest: Vec<Expr>,
}

impl Selection {
    pub(crate) fn of(table: &TableRef, schema: &SchemaRef, view: &TableView, filters: &[Expr]) -> Result<Selection> {
        let mut selection = Selection {
            times: TimeRange::ALL,
            series: SeriesFilter::All,
            ranges: Vec::new(),
            exact: true,
            rest: Vec::new(),
        };
        let mut keys = Vec::new();
        for filter in filters.iter().map(|filter| plain(table, filter)) {
            let filter = &filter;
            match part(table, filter) {
                Part::Keys => {
                    if may_fail(filter) {
                        selection.rest.push(filter.clone());
                    }
                    keys.push(filter.clone());
                }
                Part::Time(range) => selection.times = selection.times.intersect(&range),
                Part::Field(range) => {
                    selection.ranges.push(range);
                    selection.rest.push(filter.clone());
                    selection.exact = false;
                }
                Part::Other => {
                    selection.rest.push(filter.clone());
                    selection.exact = false;
                }
            }
        }
        if !keys.is_empty() {
            selection.series = SeriesFilter::Only(series_of(table, schema, view, &keys)?.into());
        }
        Ok(selection)
    }
}

fn part(table: &TableRef, filter: &Expr) -> Part {
    if is_about_keys(table, filter) {
        return Part::Keys;
    }
    if let Some(range) = time_range(table, filter) {
        return Part::Time(range);
    }
    field_range(table, filter).map_or(Part::Other, Part::Field)
}

/// Whether the predicate contains only key columns and is deterministic.
fn is_about_keys(table: &TableRef, filter: &Expr) -> bool {
    let columns = filter.column_refs();
    !columns.is_empty()
        && !filter.is_volatile()
        && !has_subquery(filter)
        && columns.iter().all(|column| role(table, column) == Some(ColumnRole::Key))
}

pub(crate) fn has_subquery(filter: &Expr) -> bool {
    use datafusion::common::tree_node::TreeNode;
    let found = filter.exists(|expr| {
        Ok(matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        ))
    });
    found.unwrap_or(true)
}

fn role(table: &TableRef, column: &Column) -> Option<ColumnRole> {
    table.column(&column.name).map(|column| column.role)
}

/// `column op constant`, with the column on either side.
fn comparison(filter: &Expr) -> Option<(&Column, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), Expr::Literal(value, _)) => Some((column, *op, value)),
        (Expr::Literal(value, _), Expr::Column(column)) => Some((column, op.swap()?, value)),
        _ => None,
    }
}

/// Time range of a conjunct that contains only the time column.
fn time_range(table: &TableRef, filter: &Expr) -> Option<TimeRange> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(time_range(table, left)?.intersect(&time_range(table, right)?))
        }
        Expr::Between(between) if !between.negated => {
            let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) =
                (between.expr.as_ref(), between.low.as_ref(), between.high.as_ref())
            else {
                return None;
            };
            if role(table, column)? != ColumnRole::Time {
                return None;
            }
            Some(TimeRange { start: time_of(table, low)?, last: time_of(table, high)? })
        }
        filter => {
            let (column, op, value) = comparison(filter)?;
            if role(table, column)? != ColumnRole::Time {
                return None;
            }
            range_of(op, time_of(table, value)?)
        }
    }
}

fn range_of(op: Operator, at: i64) -> Option<TimeRange> {
    Some(match op {
        Operator::Eq => TimeRange { start: at, last: at },
        Operator::Lt => TimeRange::half_open(i64::MIN, at),
        Operator::LtEq => TimeRange { start: i64::MIN, last: at },
        Operator::Gt => at.checked_add(1).map_or(TimeRange::EMPTY, |start| TimeRange { start, last: i64::MAX }),
        Operator::GtEq => TimeRange { start: at, last: i64::MAX },
        _ => return None,
    })
}

/// A constant of the time column's type, in the unit of the store.
fn time_of(table: &TableRef, value: &ScalarValue) -> Option<i64> {
    match (table.time_column().ty, value) {
        (DataType::Timestamp, ScalarValue::TimestampNanosecond(Some(value), _))
        | (DataType::Int64, ScalarValue::Int64(Some(value))) => Some(*value),
        _ => None,
    }
}

/// Bound on a field, for skipping blocks by their statistics.
fn field_range(table: &TableRef, filter: &Expr) -> Option<ColumnRange> {
    let (column, op, value) = comparison(filter)?;
    let column = table.column(&column.name).filter(|column| column.role == ColumnRole::Field)?;
    let value = stat_value(column.ty, value)?;
    let (min, max) = match op {
        Operator::Eq => (Some(value.clone()), Some(value)),
        Operator::Lt | Operator::LtEq => (None, Some(value)),
        // Statistics ignore NaN, and NaN is greater than every other value, so these blocks must not be
        // skipped.
        Operator::Gt | Operator::GtEq if !is_float(column.ty) => (Some(value), None),
        _ => return None,
    };
    Some(ColumnRange { column: column.id, min, max })
}

fn is_float(ty: DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float64)
}

fn stat_value(ty: DataType, value: &ScalarValue) -> Option<StatValue> {
    Some(match (ty, value) {
        (DataType::Bool, ScalarValue::Boolean(Some(value))) => StatValue::Int(i64::from(*value)),
        (DataType::Int16, ScalarValue::Int16(Some(value))) => StatValue::Int(i64::from(*value)),
        (DataType::Int32, ScalarValue::Int32(Some(value))) => StatValue::Int(i64::from(*value)),
        (DataType::Int64, ScalarValue::Int64(Some(value))) => StatValue::Int(*value),
        (DataType::UInt64, ScalarValue::UInt64(Some(value))) => StatValue::UInt(*value),
        (DataType::Timestamp, ScalarValue::TimestampNanosecond(Some(value), _)) => StatValue::Int(*value),
        (DataType::Float32, ScalarValue::Float32(Some(value))) if !value.is_nan() => {
            StatValue::Float(f64::from(*value))
        }
        (DataType::Float64, ScalarValue::Float64(Some(value))) if !value.is_nan() => StatValue::Float(*value),
        (DataType::Text, ScalarValue::Utf8(Some(value))) => StatValue::Bytes(value.as_bytes().to_vec()),
        (DataType::Bytes, ScalarValue::Binary(Some(value))) => StatValue::Bytes(value.clone()),
        _ => return None,
    })
}

pub(crate) type Predicate = Arc<dyn datafusion::physical_expr::PhysicalExpr>;

/// Conjunction of all filters as one physical expression over the schema's columns.
pub(crate) fn predicate(schema: &SchemaRef, filters: &[Expr]) -> Result<Predicate> {
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let all = filters.iter().cloned().reduce(Expr::and).ok_or_else(|| Error::bug("no predicate"))?;
    // The filters may qualify columns by an alias that the schema does not have.
    let all = all
        .transform(|expr| match expr {
            Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
            other => Ok(Transformed::no(other)),
        })
        .or_error()?
        .data;
    let schema = DFSchema::try_from(Arc::clone(schema)).or_error()?;
    let planning = datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext::default();
    datafusion::physical_expr::create_physical_expr(&all, &schema, &ExecutionProps::new(), &planning).or_error()
}

/// Changes a stored array to the type `ty`: decodes a dictionary and sets the session's time zone. Other
/// arrays are returned unchanged.
pub(crate) fn relabel(array: arrow_array::ArrayRef, ty: &Arrow) -> arrow_array::ArrayRef {
    match (array.data_type(), ty) {
        (Arrow::Dictionary(..), ty) if !matches!(ty, Arrow::Dictionary(..)) => {
            columns::uncoded(&array).unwrap_or(array)
        }
        (Arrow::Timestamp(_, have), Arrow::Timestamp(_, want)) if have != want => {
            let values = array.as_primitive::<arrow_array::types::TimestampNanosecondType>().clone();
            Arc::new(values.with_timezone_opt(want.clone()))
        }
        _ => array,
    }
}
