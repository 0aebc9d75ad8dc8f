//! Aggregation by series, time buckets and fields. A row's group is looked up by numbers for these three, and
//! DataFusion's own accumulators aggregate, so that both executors sum, round and compare alike. Blocks without
//! overlapping versions contribute their statistics instead of their rows.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_schema::{DataType as Arrow, Field, Schema, SchemaRef};
use columns::rows::{time_array, time_values};
use columns::segment::{ColumnStats, StatSum, StatValue};
use columns::{Scanned, WholeBlock};
use datafusion::arrow::compute::take;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{EmitTo, Expr, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::scalar::ScalarValue;
use engine::TableView;
use model::{ColumnId, ColumnRole, DataType, Error, Result, Table, TimeRange};
use rustc_hash::FxHashMap;

use super::few::Few;
use super::fields::Fields;
use super::partial::{self, Grouped};
use super::runs::Runs;
use super::shape::{Bucket, By, Groups};
use crate::errors::OrError;
use crate::scan::columns_table::relabel;

type Physical = Arc<dyn PhysicalExpr>;

/// An aggregate function with its arguments and filter.
pub(super) struct Aggregated {
    function: Arc<AggregateFunctionExpr>,
    arguments: Vec<Physical>,
    filter: Option<Physical>,
    /// Block statistics that can answer it.
    pub(super) source: Option<Source>,
}

impl Aggregated {
    pub(super) fn new(
        function: Arc<AggregateFunctionExpr>,
        filter: Option<Physical>,
        source: Option<Source>,
    ) -> Aggregated {
        Aggregated { arguments: function.expressions(), function, filter, source }
    }

    /// Whether it uses the column at this position of the columns read.
    pub(super) fn looks_at(&self, position: usize) -> bool {
        let exprs = self.arguments.iter().chain(&self.filter);
        exprs.flat_map(collect_columns).any(|column| column.index() == position)
    }

    /// Aggregate state for the rows of each group; `None` if it cannot be computed from whole columns.
    fn states_of(
        &self,
        rows: &impl Grouped,
        columns: &[ColumnId],
        batch: &RecordBatch,
    ) -> Result<Option<Vec<ArrayRef>>> {
        let Some(source) = self.source.filter(|_| self.filter.is_none()) else { return Ok(None) };
        let position = source.field().and_then(|id| columns.iter().position(|column| *column == id));
        let fields = self.function.state_fields().or_error()?;
        let types: Vec<Arrow> = fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(partial::states(rows, source, position.map(|at| batch.column(at)), &types))
    }

    /// Field of the result.
    pub(super) fn field(&self) -> Field {
        self.function.field().as_ref().clone()
    }
}

/// Block statistics that answer an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// COUNT(*).
    Rows,
    Count(Of),
    Sum(ColumnId),
    Average(ColumnId),
    Least(Of),
    Greatest(Of),
    /// Value at the first time; the flag says whether a NULL counts.
    First(ColumnId, bool),
    /// Value at the last time; the flag says whether a NULL counts.
    Last(ColumnId, bool),
}

/// A column with statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Time,
    Field(ColumnId),
}

impl Source {
    /// Field whose statistics are needed.
    fn field(self) -> Option<ColumnId> {
        match self {
            Source::Rows => None,
            Source::Count(of) | Source::Least(of) | Source::Greatest(of) => match of {
                Of::Time => None,
                Of::Field(id) => Some(id),
            },
            Source::Sum(id) | Source::Average(id) | Source::First(id, _) | Source::Last(id, _) => Some(id),
        }
    }

    /// Statistics that answer a call over the table's columns.
    pub(super) fn of(call: &AggregateFunction, table: &Table) -> Option<Source> {
        let params = &call.params;
        let first = params.args.first()?;
        let skips_null = match params.filter.as_deref() {
            None => false,
            Some(Expr::IsNotNull(of)) if **of == *first => true,
            Some(_) => return None,
        };
        let name = call.func.name();
        if let (Expr::Literal(value, _), "count", false, 1) = (first, name, skips_null, params.args.len()) {
            return (!value.is_null()).then_some(Source::Rows);
        }
        match (name, params.args.as_slice()) {
            ("count", [of]) => Some(Source::Count(column(of, table, |_| true)?)),
            ("sum", [of]) => number(of, table).map(Source::Sum),
            ("avg", [of]) => number(of, table).map(Source::Average),
            ("min", [of]) => Some(Source::Least(column(of, table, is_fixed)?)),
            ("max", [of]) => Some(Source::Greatest(column(of, table, is_fixed)?)),
            ("first" | "last", [of, time]) => {
                let (Of::Field(id), Of::Time) = (column(of, table, is_fixed)?, column(time, table, is_fixed)?) else {
                    return None;
                };
                Some(if name == "first" { Source::First(id, !skips_null) } else { Source::Last(id, !skips_null) })
            }
            _ => None,
        }
    }

    /// Aggregate state for the rows of a block; `None` if statistics do not suffice.
    fn state(self, block: &WholeBlock<'_>, types: &[Arrow]) -> Result<Option<Vec<ScalarValue>>> {
        let times = block.meta().times;
        let rows = block.meta().rows;
        let field = match self {
            Source::Rows => return Ok(whole(types, rows.into()).map(|rows| vec![rows])),
            Source::Count(Of::Time) => return Ok(whole(types, rows.into()).map(|rows| vec![rows])),
            Source::Least(Of::Time) => return Ok(scalar(&StatValue::Int(times.start), types).map(|time| vec![time])),
            Source::Greatest(Of::Time) => return Ok(scalar(&StatValue::Int(times.last), types).map(|time| vec![time])),
            Source::Count(Of::Field(id))
            | Source::Sum(id)
            | Source::Average(id)
            | Source::Least(Of::Field(id))
            | Source::Greatest(Of::Field(id))
            | Source::First(id, _)
            | Source::Last(id, _) => id,
        };
        Ok(match block.stats(field)? {
            Some(stats) => self.state_of(&stats, rows, &times, types),
            None => self.state_of_nulls(&times, types)?,
        })
    }

    fn state_of(self, stats: &ColumnStats, rows: u32, times: &TimeRange, types: &[Arrow]) -> Option<Vec<ScalarValue>> {
        let count = rows - stats.nulls;
        // Statistics ignore NaN.
        if stats.has_nan && !matches!(self, Source::Count(_)) {
            return None;
        }
        match self {
            Source::Count(_) => Some(vec![whole(types, count.into())?]),
            Source::Sum(_) => Some(vec![sum(stats.sum?, types.first()?)?]),
            Source::Average(_) => {
                let Some(Arrow::UInt64) = types.first() else { return None };
                Some(vec![ScalarValue::UInt64(Some(count.into())), sum(stats.sum?, types.get(1)?)?])
            }
            Source::Least(_) => Some(vec![extreme(&stats.range.as_ref()?.0, types)?]),
            Source::Greatest(_) => Some(vec![extreme(&stats.range.as_ref()?.1, types)?]),
            Source::First(..) => at_time(stats.first.as_ref()?, times.start, types),
            Source::Last(..) => at_time(stats.last.as_ref()?, times.last, types),
            Source::Rows => None,
        }
    }

    fn state_of_nulls(self, times: &TimeRange, types: &[Arrow]) -> Result<Option<Vec<ScalarValue>>> {
        let null = |ty: &Arrow| ScalarValue::try_from(ty).or_error();
        Ok(match (self, types) {
            (Source::Count(_), [Arrow::Int64]) => Some(vec![ScalarValue::Int64(Some(0))]),
            // A count of 0 would be merged as a value; NULL is not.
            (Source::Average(_), [Arrow::UInt64, sum]) => Some(vec![ScalarValue::UInt64(None), null(sum)?]),
            (Source::First(_, true), [value, Arrow::Int64]) => {
                Some(vec![null(value)?, ScalarValue::Int64(Some(times.start))])
            }
            (Source::Last(_, true), [value, Arrow::Int64]) => {
                Some(vec![null(value)?, ScalarValue::Int64(Some(times.last))])
            }
            (Source::Sum(_) | Source::Least(_) | Source::Greatest(_), [value]) => Some(vec![null(value)?]),
            _ => None,
        })
    }
}

fn at_time(value: &StatValue, time: i64, types: &[Arrow]) -> Option<Vec<ScalarValue>> {
    (types.get(1) == Some(&Arrow::Int64)).then_some(())?;
    Some(vec![scalar(value, types)?, ScalarValue::Int64(Some(time))])
}

/// Column whose type satisfies `fits`.
fn column(expr: &Expr, table: &Table, fits: impl Fn(DataType) -> bool) -> Option<Of> {
    let Expr::Column(column) = expr else { return None };
    let column = table.column(&column.name).filter(|column| fits(column.ty))?;
    match column.role {
        ColumnRole::Time => Some(Of::Time),
        ColumnRole::Field => Some(Of::Field(column.id)),
        ColumnRole::Key => None,
    }
}

/// Numeric field, with or without a widening cast.
fn number(expr: &Expr, table: &Table) -> Option<ColumnId> {
    use DataType::{Float32, Float64, Int16, Int32, Int64};
    let (of, to) = match expr {
        Expr::Cast(cast) => (cast.expr.as_ref(), Some(cast.field.data_type())),
        expr => (expr, None),
    };
    matches!(to, None | Some(Arrow::Int64 | Arrow::Float64 | Arrow::Decimal128(_, 0))).then_some(())?;
    let is_exact = matches!(to, Some(Arrow::Int64 | Arrow::Decimal128(..)));
    let is_number = |ty| matches!(ty, Int16 | Int32 | Int64 | Float32 | Float64);
    let is_whole = |ty| matches!(ty, Int16 | Int32 | Int64);
    match column(of, table, |ty| is_number(ty) && (!is_exact || is_whole(ty)))? {
        Of::Field(id) => Some(id),
        Of::Time => None,
    }
}

/// Types whose values statistics store in full.
pub(super) fn is_fixed(ty: DataType) -> bool {
    use DataType::{Float32, Float64, Int16, Int32, Int64, Timestamp};
    matches!(ty, Int16 | Int32 | Int64 | Float32 | Float64 | Timestamp)
}

fn whole(types: &[Arrow], count: i64) -> Option<ScalarValue> {
    (types == [Arrow::Int64]).then_some(ScalarValue::Int64(Some(count)))
}

fn sum(sum: StatSum, ty: &Arrow) -> Option<ScalarValue> {
    Some(match (sum, ty) {
        (StatSum::Int(sum), Arrow::Int64) => ScalarValue::Int64(Some(i64::try_from(sum).ok()?)),
        (StatSum::Int(sum), Arrow::Decimal128(digits, 0)) => ScalarValue::Decimal128(Some(sum), *digits, 0),
        // Larger sums have no exact float, and row-by-row addition would round differently.
        (StatSum::Int(sum), Arrow::Float64) if sum.unsigned_abs() < 1 << 53 => ScalarValue::Float64(Some(sum as f64)),
        (StatSum::Float(sum), Arrow::Float64) => ScalarValue::Float64(Some(sum)),
        _ => return None,
    })
}

/// MIN or MAX. Statistics do not record the sign of a zero.
fn extreme(value: &StatValue, types: &[Arrow]) -> Option<ScalarValue> {
    let is_zero = matches!(value, StatValue::Float(value) if *value == 0.0);
    if is_zero { None } else { scalar(value, types) }
}

/// A value as the first of `types`.
pub(super) fn scalar(value: &StatValue, types: &[Arrow]) -> Option<ScalarValue> {
    Some(match (types.first()?, value) {
        (Arrow::Int16, StatValue::Int(value)) => ScalarValue::Int16(Some(i16::try_from(*value).ok()?)),
        (Arrow::Int32, StatValue::Int(value)) => ScalarValue::Int32(Some(i32::try_from(*value).ok()?)),
        (Arrow::Int64, StatValue::Int(value)) => ScalarValue::Int64(Some(*value)),
        (Arrow::Timestamp(arrow_schema::TimeUnit::Nanosecond, zone), StatValue::Int(value)) => {
            ScalarValue::TimestampNanosecond(Some(*value), zone.clone())
        }
        (Arrow::Float32, StatValue::Float(value)) => ScalarValue::Float32(Some(*value as f32)),
        (Arrow::Float64, StatValue::Float(value)) => ScalarValue::Float64(Some(*value)),
        _ => return None,
    })
}

/// Assignment of rows to groups.
enum OfRows<'a> {
    Runs(Runs),
    Few(Few<'a>),
    /// Group of each row.
    Each(Vec<usize>),
}

impl OfRows<'_> {
    fn each(groups: Vec<usize>) -> Self {
        Runs::of(&groups).map_or(OfRows::Each(groups), OfRows::Runs)
    }
}

/// Marker for an unassigned group.
const NONE: usize = usize::MAX;

/// Groups found so far.
pub(super) struct Grouper<'a> {
    shape: &'a Groups,
    view: &'a TableView,
    /// Arrow type of the time column in DataFusion's schema.
    time: Arrow,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// Key of each group: number of its key columns' values, start of its bucket, number of its fields' values.
    groups: Vec<(u32, i64, u32)>,
    group_of: FxHashMap<(u32, i64, u32), usize>,
    /// Group of each field number, used if the statement groups by fields alone.
    group_of_fields: Vec<usize>,
    kinds: Kinds,
    fields: Fields,
    /// States from block statistics that are not merged yet.
    pending: Pending,
    /// Whether neither rows nor blocks have been added.
    is_empty: bool,
}

#[derive(Default)]
struct Pending {
    /// Group of each block.
    groups: Vec<usize>,
    /// For each aggregate, a list for each part of its state, with a value for each block.
    states: Vec<Vec<Vec<ScalarValue>>>,
}

/// Partition of the series by the key columns of GROUP BY.
struct Kinds {
    /// Positions of the key columns. If empty, all series are of one kind; if all, each series is its own kind.
    columns: Vec<usize>,
    types: Vec<DataType>,
    known: FxHashMap<Vec<u8>, u32>,
    of: FxHashMap<u32, u32>,
    /// One series of each kind.
    examples: Vec<u32>,
}

impl Kinds {
    fn of(&mut self, series: u32, view: &TableView) -> Result<u32> {
        if self.columns.is_empty() {
            return Ok(0);
        }
        if let Some(kind) = self.of.get(&series) {
            return Ok(*kind);
        }
        let kind = if self.columns.len() == self.types.len() {
            self.examples.push(series);
            self.examples.len() as u32 - 1
        } else {
            let part = self.part(view.keys_of(&[series])?.get(0))?;
            let examples = &mut self.examples;
            *self.known.entry(part).or_insert_with(|| {
                examples.push(series);
                examples.len() as u32 - 1
            })
        };
        self.of.insert(series, kind);
        Ok(kind)
    }

    /// Encodes the selected columns of a key.
    fn part(&self, key: &[u8]) -> Result<Vec<u8>> {
        let mut values = vec![model::KeyValue::Null; self.types.len()];
        model::key::visit(key, &self.types, |column, value| values[column] = value.into())?;
        let chosen: Vec<model::KeyValue> = self.columns.iter().map(|at| values[*at].clone()).collect();
        // The canonical form drops trailing NULLs; the set of columns is the same for all keys, so it stays unique.
        Ok(model::key::encode(&chosen))
    }
}

impl<'a> Grouper<'a> {
    pub(super) fn new(shape: &'a Groups, view: &'a TableView, time: Arrow) -> Result<Grouper<'a>> {
        let table = &view.state().table;
        let mut columns = shape.keys.clone();
        columns.sort_unstable();
        columns.dedup();
        let accumulators = shape.aggregates.iter().map(|aggregate| aggregate.function.create_groups_accumulator());
        let mut grouper = Grouper {
            shape,
            view,
            time,
            accumulators: accumulators.collect::<datafusion::error::Result<_>>().or_error()?,
            groups: Vec::new(),
            group_of: FxHashMap::default(),
            group_of_fields: Vec::new(),
            fields: Fields::new(&shape.fields)?,
            kinds: Kinds {
                columns,
                types: table.key_columns().map(|column| column.ty).collect(),
                known: FxHashMap::default(),
                of: FxHashMap::default(),
                examples: Vec::new(),
            },
            pending: Pending { groups: Vec::new(), states: vec![Vec::new(); shape.aggregates.len()] },
            is_empty: true,
        };
        if shape.by.is_empty() {
            // Without GROUP BY there is one group, even without rows.
            grouper.group(0, 0, 0);
        }
        Ok(grouper)
    }

    fn group(&mut self, kind: u32, bucket: i64, fields: u32) -> usize {
        let groups = &mut self.groups;
        *self.group_of.entry((kind, bucket, fields)).or_insert_with(|| {
            groups.push((kind, bucket, fields));
            groups.len() - 1
        })
    }

    /// Adds a block by its statistics; false if they do not suffice.
    pub(super) fn take_block(&mut self, block: &WholeBlock<'_>) -> Result<bool> {
        let meta = block.meta();
        let (first, last) = (meta.first.0, meta.last.0);
        if first != last && !self.kinds.columns.is_empty() {
            return Ok(false);
        }
        let bucket = match &self.shape.bucket {
            None => 0,
            Some(bucket) => {
                let ends = self.buckets(bucket, vec![meta.times.start, meta.times.last])?;
                let ends = longs(&ends)?;
                if ends[0] != ends[1] {
                    return Ok(false);
                }
                ends[0]
            }
        };
        let mut states = Vec::with_capacity(self.shape.aggregates.len());
        for aggregate in &self.shape.aggregates {
            // A block of several series does not record which row is first in time.
            let is_end = matches!(aggregate.source, Some(Source::First(..) | Source::Last(..)));
            let Some(source) = aggregate.source.filter(|_| !is_end || first == last) else { return Ok(false) };
            let fields = aggregate.function.state_fields().or_error()?;
            let types: Vec<Arrow> = fields.iter().map(|field| field.data_type().clone()).collect();
            match source.state(block, &types)? {
                Some(state) => states.push(state),
                None => return Ok(false),
            }
        }
        let kind = self.kinds.of(first, self.view)?;
        let group = self.group(kind, bucket, 0);
        self.pending.groups.push(group);
        for (pending, state) in self.pending.states.iter_mut().zip(states) {
            pending.resize_with(state.len(), Vec::new);
            pending.iter_mut().zip(state).for_each(|(values, value)| values.push(value));
        }
        Ok(true)
    }

    /// Merges the states of blocks. Must run before rows are added: an accumulator that receives a batch without
    /// NULLs assumes that each group it knows of has a value.
    pub(super) fn merge_blocks(&mut self) -> Result<()> {
        let Pending { groups, states } = std::mem::take(&mut self.pending);
        if groups.is_empty() {
            return Ok(());
        }
        self.is_empty = false;
        for (state, accumulator) in states.into_iter().zip(&mut self.accumulators) {
            let arrays = state.into_iter().map(ScalarValue::iter_to_array);
            let arrays = arrays.collect::<datafusion::error::Result<Vec<ArrayRef>>>().or_error()?;
            accumulator.merge_batch(&arrays, &groups, self.groups.len()).or_error()?;
        }
        Ok(())
    }

    /// Adds rows.
    pub(super) fn take_rows(&mut self, rows: Scanned, scanned: &SchemaRef) -> Result<()> {
        let Scanned { series, times, batch } = rows;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.is_empty = false;
        let of_rows = self.groups_of(&series, times, &batch)?;
        let looked_at = self.looked_at(&batch, scanned)?;
        self.add_up(&of_rows, &looked_at)
    }

    fn add_up(&mut self, of_rows: &OfRows<'_>, batch: &RecordBatch) -> Result<()> {
        let (count, columns) = (self.groups.len(), &self.shape.columns);
        let each = OnceCell::new();
        for (aggregate, accumulator) in self.shape.aggregates.iter().zip(&mut self.accumulators) {
            let (states, groups) = match of_rows {
                OfRows::Runs(runs) => (aggregate.states_of(runs, columns, batch)?, &runs.groups),
                OfRows::Few(few) => (aggregate.states_of(few, columns, batch)?, &few.groups),
                OfRows::Each(groups) => (None, groups),
            };
            if let Some(states) = states {
                accumulator.merge_batch(&states, groups, count).or_error()?;
                continue;
            }
            let groups: &[usize] = match of_rows {
                OfRows::Runs(runs) => each.get_or_init(|| runs.each()),
                OfRows::Few(few) => each.get_or_init(|| few.each()),
                OfRows::Each(groups) => groups,
            };
            let arrays = aggregate.arguments.iter().map(|argument| {
                argument.evaluate(batch).and_then(|value| value.into_array(batch.num_rows())).or_error()
            });
            let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
            let filter = aggregate.filter.as_ref().map(|filter| super::mask(filter, batch)).transpose()?;
            accumulator.update_batch(&arrays, groups, filter.as_ref(), count).or_error()?;
        }
        Ok(())
    }

    /// Merges the groups of another grouper, which has aggregated other rows.
    pub(super) fn merge(&mut self, mut other: Grouper<'_>) -> Result<()> {
        if other.is_empty {
            return Ok(());
        }
        self.is_empty = false;
        let view = self.view;
        let kinds = other.kinds.examples.iter().map(|series| self.kinds.of(*series, view));
        let kinds = kinds.collect::<Result<Vec<u32>>>()?;
        let of_all = self.kinds.columns.is_empty();
        let kind = |kind: u32| if of_all { 0 } else { kinds[kind as usize] };
        let fields = self.fields.merge(other.fields)?;
        let number = |number: u32| fields.get(number as usize).copied().unwrap_or(0);
        let groups = other.groups.iter().map(|(of, bucket, fields)| self.group(kind(*of), *bucket, number(*fields)));
        let groups: Vec<usize> = groups.collect();
        let count = self.groups.len();
        for (own, other) in self.accumulators.iter_mut().zip(&mut other.accumulators) {
            let state = other.state(EmitTo::All).or_error()?;
            own.merge_batch(&state, &groups, count).or_error()?;
        }
        Ok(())
    }

    /// Group of each row. `series` and `times` have an entry for each row, unless [only fields](Groups::is_of_fields)
    /// are grouped by.
    fn groups_of<'b>(&mut self, series: &[u32], times: Vec<i64>, batch: &'b RecordBatch) -> Result<OfRows<'b>> {
        let rows = batch.num_rows();
        if self.shape.by.is_empty() {
            return Ok(OfRows::Runs(Runs::one(rows)));
        }
        let by_fields_alone = self.shape.is_of_fields();
        if by_fields_alone && let Some((of_entries, keys)) = self.fields.coded(batch)? {
            return Ok(match Few::fits(rows, of_entries.len()) {
                true => {
                    let group = |entry: u32| self.group(0, 0, of_entries[entry as usize]);
                    OfRows::Few(Few::of(Cow::Borrowed(keys), of_entries.len(), group))
                }
                false => OfRows::each(self.groups_of_keys(&of_entries, keys)),
            });
        }
        let fields = self.fields.numbers(batch)?;
        if by_fields_alone {
            let count = self.fields.count();
            return Ok(match Few::fits(rows, count) {
                true => OfRows::Few(Few::of(Cow::Owned(fields), count, |number| self.group(0, 0, number))),
                false => OfRows::each(self.groups_of_fields(&fields)),
            });
        }
        let buckets = self.shape.bucket.as_ref().map(|bucket| self.buckets(bucket, times)).transpose()?;
        let buckets = buckets.as_ref().map(longs).transpose()?;
        if self.kinds.columns.is_empty()
            && let Some(buckets) = buckets
            && let Some(few) = self.few_in_buckets(buckets, &fields)
        {
            return Ok(OfRows::Few(few));
        }
        let mut groups = Vec::with_capacity(rows);
        let mut last: Option<(u32, i64, u32, usize)> = None;
        for (row, series) in series.iter().enumerate() {
            let bucket = buckets.map_or(0, |buckets| buckets[row]);
            let fields = fields.get(row).copied().unwrap_or(0);
            let group = match last {
                Some((same, at, of, group)) if same == *series && at == bucket && of == fields => group,
                _ => {
                    let kind = self.kinds.of(*series, self.view)?;
                    self.group(kind, bucket, fields)
                }
            };
            last = Some((*series, bucket, fields, group));
            groups.push(group);
        }
        Ok(OfRows::each(groups))
    }

    /// Groups by bucket and field number densely; `None` if there are too many combinations.
    fn few_in_buckets<'b>(&mut self, buckets: &[i64], fields: &[u32]) -> Option<Few<'b>> {
        let width = self.fields.count();
        if fields.is_empty() {
            return None;
        }
        let mut starts: Vec<i64> = Vec::new();
        let mut numbers = Vec::with_capacity(fields.len());
        let mut at = 0;
        for (bucket, field) in buckets.iter().zip(fields) {
            if starts.get(at) != Some(bucket) {
                at = starts.iter().position(|start| start == bucket).unwrap_or_else(|| {
                    starts.push(*bucket);
                    starts.len() - 1
                });
                if !Few::fits(buckets.len(), starts.len() * width) {
                    return None;
                }
            }
            numbers.push((at * width) as u32 + field);
        }
        let group = |number: u32| self.group(0, starts[number as usize / width], number % width as u32);
        Some(Few::of(Cow::Owned(numbers), starts.len() * width, group))
    }

    /// Groups of rows by their keys into a dictionary; `of_entries` are the entries' numbers. Unused entries create
    /// no group.
    fn groups_of_keys(&mut self, of_entries: &[u32], keys: &[u32]) -> Vec<usize> {
        let mut known = vec![NONE; of_entries.len()];
        let mut groups = Vec::with_capacity(keys.len());
        groups.extend(keys.iter().map(|key| {
            let mut group = known[*key as usize];
            if group == NONE {
                group = self.group(0, 0, of_entries[*key as usize]);
                known[*key as usize] = group;
            }
            group
        }));
        groups
    }

    /// Groups of rows by the numbers of their fields' values.
    fn groups_of_fields(&mut self, numbers: &[u32]) -> Vec<usize> {
        self.group_of_fields.resize(self.fields.count(), NONE);
        let mut groups = Vec::with_capacity(numbers.len());
        for number in numbers {
            let mut group = self.group_of_fields[*number as usize];
            if group == NONE {
                group = self.group(0, 0, *number);
                self.group_of_fields[*number as usize] = group;
            }
            groups.push(group);
        }
        groups
    }

    /// Casts the columns that aggregates use to DataFusion's types; other columns are passed through.
    fn looked_at(&self, batch: &RecordBatch, scanned: &SchemaRef) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(scanned.fields()).zip(&self.shape.looked_at);
        let columns = columns.map(|((array, field), looked_at)| match looked_at {
            true => relabel(Arc::clone(array), field.data_type()),
            false => Arc::clone(array),
        });
        let arrays: Vec<ArrayRef> = columns.collect();
        let fields = arrays.iter().zip(scanned.fields());
        let fields = fields.map(|(array, field)| field.as_ref().clone().with_data_type(array.data_type().clone()));
        super::batch_of(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays, batch.num_rows())
    }

    /// Bucket of a time; 0 if the statement has no bucket.
    pub(super) fn bucket_of(&self, time: i64) -> Result<i64> {
        let Some(bucket) = &self.shape.bucket else { return Ok(0) };
        Ok(longs(&self.buckets(bucket, vec![time])?)?[0])
    }

    /// Number of groups in buckets after this one.
    pub(super) fn after(&self, bucket: i64) -> u64 {
        self.groups.iter().filter(|(_, of, _)| *of > bucket).count() as u64
    }

    /// Buckets of times, as an array of 64-bit integers.
    fn buckets(&self, bucket: &Bucket, times: Vec<i64>) -> Result<ArrayRef> {
        let rows = times.len();
        let times = relabel(time_array(self.view.state().table.time_column().ty, times), &self.time);
        let field = Field::new("time", self.time.clone(), false);
        let schema = Arc::new(Schema::new(vec![field]));
        let batch = RecordBatch::try_new(schema, vec![times]).map_err(Error::bug)?;
        bucket.of.evaluate(&batch).and_then(|value| value.into_array(rows)).or_error()
    }

    /// Bytes of the groups' state.
    pub(super) fn bytes(&self) -> usize {
        let accumulators: usize = self.accumulators.iter().map(|accumulator| accumulator.size()).sum();
        accumulators + self.groups.len() * 56 + self.kinds.of.len() * 16 + self.fields.bytes()
    }

    /// Batch of the groups: keys and aggregates.
    pub(super) fn finish(mut self) -> Result<RecordBatch> {
        let count = self.groups.len();
        let keys = self.view.key_columns_of(self.kinds.examples.iter().copied())?;
        let kinds = UInt32Array::from_iter_values(self.groups.iter().map(|(kind, ..)| *kind));
        let numbers: Vec<u32> = self.groups.iter().map(|(.., fields)| *fields).collect();
        let fields = self.fields.values(&numbers)?;
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for by in &self.shape.by {
            arrays.push(match by {
                By::Key(at) => take(&keys[self.shape.keys[*at]], &kinds, None).map_err(Error::bug)?,
                By::Bucket => self.bucket_array()?,
                By::Field(at) => Arc::clone(&fields[*at]),
            });
        }
        for (aggregate, accumulator) in self.shape.aggregates.iter().zip(&mut self.accumulators) {
            arrays.push(match self.is_empty && count > 0 {
                // The single group of an aggregation without rows.
                true => {
                    let mut accumulator = aggregate.function.create_accumulator().or_error()?;
                    accumulator.evaluate().and_then(|value| value.to_array()).or_error()?
                }
                false => accumulator.evaluate(EmitTo::All).or_error()?,
            });
        }
        let schema = &self.shape.grouped;
        let arrays = arrays.into_iter().zip(schema.fields()).map(|(array, field)| relabel(array, field.data_type()));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect(), &options).map_err(Error::bug)
    }

    fn bucket_array(&self) -> Result<ArrayRef> {
        let starts = self.groups.iter().map(|(_, bucket, _)| *bucket);
        let ty = self.shape.bucket.as_ref().map(|bucket| bucket.ty.clone());
        Ok(match ty.ok_or_else(|| Error::bug("groups by a bucket that is none"))? {
            Arrow::Int64 => Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(starts)),
            ty => Arc::new(PrimitiveArray::<TimestampNanosecondType>::from_iter_values(starts).with_data_type(ty)),
        })
    }
}

/// Values of an array of 64-bit integers or timestamps.
fn longs(array: &ArrayRef) -> Result<&[i64]> {
    time_values(array).map(|values| &values[..]).ok_or_else(|| Error::bug("buckets that are no times"))
}
