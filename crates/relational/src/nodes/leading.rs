//! Drops rows that are not among the first ones of their group, below a sort that a window function or DISTINCT ON needs: the
//! newest row of each device, the ten largest values of each day. What is above chooses among the rows that are left.
//!
//! It may keep more rows than it must: those of each partition, and all when dropping them does not pay or the memory is full.
//! So it needs no order, no single partition and no disk.

use std::fmt;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef, SortOptions, TimeUnit};
use datafusion::arrow::compute::{interleave_record_batch, take_record_batch};
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{StreamExt, TryStreamExt};

use super::exec::{pause, visited};
use crate::errors::external;

/// Rows after which it is decided whether dropping rows pays: the first rows of many groups are all new.
const TRIAL_ROWS: usize = 1 << 20;
/// Rows that may be stored beyond twice those that are kept.
const SPARE_ROWS: usize = 64 << 10;
/// Batches between which other tasks run.
const BATCHES_PER_TURN: usize = 16;
/// The place of a row in a batch that is not stored yet.
const PRESENT: usize = usize::MAX;

/// The first rows of groups: the expressions are the keys of the groups, then those of the order.
#[derive(Clone, Debug)]
pub(crate) struct Leading {
    /// Number of keys of the groups.
    pub(crate) groups: usize,
    /// Directions of the other keys.
    pub(crate) order: Vec<SortOptions>,
    /// Rows of a group.
    pub(crate) count: usize,
}

#[derive(Debug)]
pub(super) struct LeadingExec {
    leading: Leading,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl LeadingExec {
    pub(super) fn new(
        leading: Leading,
        expressions: Vec<Arc<dyn PhysicalExpr>>,
        input: Arc<dyn ExecutionPlan>,
    ) -> LeadingExec {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.properties().output_partitioning().clone(),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        LeadingExec { leading, expressions, input, properties }
    }
}

impl DisplayAs for LeadingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeadingRowsExec: count={}", self.leading.count)?;
        self.expressions.iter().try_for_each(|expr| write!(f, ", {expr}"))
    }
}

impl ExecutionPlan for LeadingExec {
    fn name(&self) -> &str {
        "LeadingRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        visited(&self.expressions, visit)
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let [input] = inputs.try_into().map_err(|_| external(model::Error::bug("leading rows of other inputs")))?;
        Ok(Arc::new(LeadingExec::new(self.leading.clone(), self.expressions.clone(), input)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let schema = self.input.schema();
        let memory = MemoryConsumer::new("LeadingRows").register(context.memory_pool());
        let keys = Keys::new(&self.leading, self.expressions.clone(), &schema)?;
        let kept = Kept::new(self.leading.count, Arc::clone(&schema), memory);
        let batch_rows = context.session_config().batch_size();
        let running = Running { input, keys, kept, seen: 0, batches: 0, batch_rows, state: State::Choosing };
        let output = futures::stream::try_unfold(running, async |mut running: Running| {
            Ok(running.next().await?.map(|batch| (batch, running)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, output.into_stream().boxed())))
    }
}

/// Rows that go out, and their memory.
struct Emitted {
    batches: Vec<RecordBatch>,
    _held: MemoryReservation,
}

enum State {
    /// Rows are taken and chosen from.
    Choosing,
    /// Rows that were kept go out; behind them, those that are still to come if the flag says so.
    Emitting(Emitted, bool),
    /// All rows go out.
    Passing,
}

struct Running {
    input: SendableRecordBatchStream,
    keys: Keys,
    kept: Kept,
    seen: usize,
    batches: usize,
    batch_rows: usize,
    state: State,
}

impl Running {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            match &mut self.state {
                State::Passing => return self.input.next().await.transpose(),
                State::Emitting(emitted, has_more) => match emitted.batches.pop() {
                    Some(batch) => return Ok(Some(batch)),
                    None if *has_more => self.state = State::Passing,
                    None => return Ok(None),
                },
                State::Choosing => {
                    let Some(batch) = self.input.next().await.transpose()? else {
                        self.state = State::Emitting(self.kept.taken(self.batch_rows)?, false);
                        continue;
                    };
                    self.seen += batch.num_rows();
                    let fits = self.kept.add(batch, &mut self.keys)?;
                    let is_futile = self.seen >= TRIAL_ROWS && self.kept.live > self.seen / 2;
                    if !fits || is_futile {
                        self.keys.numbers = None;
                        self.state = State::Emitting(self.kept.taken(self.batch_rows)?, true);
                    }
                    self.batches += 1;
                    if self.batches.is_multiple_of(BATCHES_PER_TURN) {
                        pause().await;
                    }
                }
            }
        }
    }
}

/// Computes the groups of rows, and keys that compare as the rows of a group do.
struct Keys {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    groups: usize,
    /// Numbers of the groups; `None` without keys: one group.
    numbers: Option<Box<dyn GroupValues>>,
    order: Vec<SortOptions>,
    order_bytes: RowConverter,
}

/// Keys of the order of rows.
enum Orders {
    Numbers(Vec<u128>),
    Bytes(Rows),
}

/// The key of the order of one row.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Number(u128),
    Bytes(OwnedRow),
}

impl Keys {
    fn new(leading: &Leading, expressions: Vec<Arc<dyn PhysicalExpr>>, schema: &SchemaRef) -> DfResult<Keys> {
        let (groups, orders) = expressions.split_at(leading.groups.min(expressions.len()));
        let field = |(at, expr): (usize, &Arc<dyn PhysicalExpr>)| {
            Ok(Field::new(format!("g{at}"), expr.data_type(schema)?, true))
        };
        let fields = groups.iter().enumerate().map(field).collect::<DfResult<Vec<_>>>()?;
        let numbers = match fields.is_empty() {
            true => None,
            false => Some(new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?),
        };
        let order = orders.iter().zip(&leading.order);
        let order = order.map(|(expr, options)| Ok(SortField::new_with_options(expr.data_type(schema)?, *options)));
        let order_bytes = RowConverter::new(order.collect::<DfResult<Vec<_>>>()?)?;
        Ok(Keys { expressions, groups: leading.groups, numbers, order: leading.order.clone(), order_bytes })
    }

    /// The number of each row's group, and the keys of the order.
    fn of(&mut self, batch: &RecordBatch) -> DfResult<(Vec<usize>, Orders)> {
        let values = self.expressions.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
        let values = values.collect::<DfResult<Vec<_>>>()?;
        let (groups, orders) = values.split_at(self.groups.min(values.len()));
        let mut numbers = Vec::with_capacity(batch.num_rows());
        match &mut self.numbers {
            Some(known) => known.intern(groups, &mut numbers)?,
            None => numbers.resize(batch.num_rows(), 0),
        }
        let native = match (orders, &self.order[..]) {
            ([only], [options]) => numbers_of(only, *options),
            _ => None,
        };
        let orders = match native {
            Some(keys) => Orders::Numbers(keys),
            None => Orders::Bytes(self.order_bytes.convert_columns(orders)?),
        };
        Ok((numbers, orders))
    }

    fn group_count(&self) -> usize {
        self.numbers.as_ref().map_or(1, |known| known.len())
    }

    fn memory_bytes(&self) -> usize {
        self.numbers.as_ref().map_or(0, |known| known.size())
    }
}

/// Numbers that compare as the values of an array of numbers do, all below `u128::MAX`; `None` for other arrays.
fn numbers_of(array: &ArrayRef, options: SortOptions) -> Option<Vec<u128>> {
    let key = |bits: u64| 1 << 64 | u128::from(if options.descending { !bits } else { bits });
    let of_null = if options.nulls_first { 0 } else { 2 << 64 };
    let whole = |value: i64| key(value.cast_unsigned() ^ 1 << 63);
    // The total order of IEEE 754, which is that of sorts.
    let float = |value: f64| {
        let bits = value.to_bits().cast_signed();
        whole(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
    };
    macro_rules! keys {
        ($ty:ty, $of:expr) => {{
            let array = array.as_primitive::<$ty>();
            let of = $of;
            match array.nulls() {
                None => array.values().iter().map(|value| of(*value)).collect(),
                Some(_) => array.iter().map(|value| value.map_or(of_null, of)).collect(),
            }
        }};
    }
    Some(match array.data_type() {
        DataType::Int16 => keys!(Int16Type, |value: i16| whole(value.into())),
        DataType::Int32 => keys!(Int32Type, |value: i32| whole(value.into())),
        DataType::Int64 => keys!(Int64Type, whole),
        DataType::Date32 => keys!(Date32Type, |value: i32| whole(value.into())),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => keys!(TimestampNanosecondType, whole),
        DataType::Float32 => keys!(Float32Type, |value: f32| float(value.into())),
        DataType::Float64 => keys!(Float64Type, float),
        _ => return None,
    })
}

/// A row that is kept.
struct Entry {
    order: Order,
    /// Number of the stored batch, or [`PRESENT`].
    batch: usize,
    row: usize,
}

/// The rows that are kept, by groups.
struct Kept {
    count: usize,
    schema: SchemaRef,
    /// Entries of each group, in order.
    groups: Vec<Vec<Entry>>,
    /// The key of the last entry of each group that is full, if it is a number; else the largest number. Most rows are compared with
    /// nothing else.
    last: Vec<u128>,
    stored: Vec<RecordBatch>,
    /// Number of entries.
    live: usize,
    stored_rows: usize,
    /// Bytes of keys and entries, and of stored batches.
    key_bytes: usize,
    batch_bytes: usize,
    memory: MemoryReservation,
}

impl Kept {
    fn new(count: usize, schema: SchemaRef, memory: MemoryReservation) -> Kept {
        Kept {
            count,
            schema,
            groups: Vec::new(),
            last: Vec::new(),
            stored: Vec::new(),
            live: 0,
            stored_rows: 0,
            key_bytes: 0,
            batch_bytes: 0,
            memory,
        }
    }

    /// Takes those of a batch that may be among the first of their groups; false if the memory has no room for more.
    fn add(&mut self, batch: RecordBatch, keys: &mut Keys) -> DfResult<bool> {
        let (groups, orders) = keys.of(&batch)?;
        let new = keys.group_count().saturating_sub(self.groups.len());
        self.key_bytes += new * (size_of::<Vec<Entry>>() + size_of::<u128>()) * 2;
        self.groups.resize_with(keys.group_count().max(self.groups.len()), Vec::new);
        self.last.resize(self.groups.len(), u128::MAX);
        let mut entered = Vec::new();
        match orders {
            Orders::Numbers(numbers) => {
                for (row, (group, order)) in groups.into_iter().zip(numbers).enumerate() {
                    if order < self.last[group] {
                        self.enter(group, Order::Number(order), row);
                        entered.push((group, row));
                    }
                }
            }
            Orders::Bytes(bytes) => {
                for (row, group) in groups.into_iter().enumerate() {
                    let (entries, order) = (&self.groups[group], bytes.row(row));
                    let is_before = |last: &Entry| matches!(&last.order, Order::Bytes(last) if order < last.row());
                    if entries.len() < self.count || entries.last().is_some_and(is_before) {
                        self.enter(group, Order::Bytes(order.owned()), row);
                        entered.push((group, row));
                    }
                }
            }
        }
        self.store(&batch, &entered)?;
        if self.stored_rows > 2 * self.live + SPARE_ROWS {
            self.compact()?;
        }
        let bytes = keys.memory_bytes() + self.key_bytes + self.batch_bytes;
        Ok(self.memory.try_resize(bytes).is_ok())
    }

    /// Adds a row to its group, which loses its last one if it is full.
    fn enter(&mut self, group: usize, order: Order, row: usize) {
        let entries = &mut self.groups[group];
        if entries.len() == self.count
            && let Some(last) = entries.pop()
        {
            self.key_bytes -= entry_bytes(&last);
            self.live -= 1;
        }
        let at = entries.partition_point(|other| other.order <= order);
        let entry = Entry { order, batch: PRESENT, row };
        self.key_bytes += entry_bytes(&entry);
        self.live += 1;
        entries.insert(at, entry);
        if entries.len() == self.count
            && let Some(Entry { order: Order::Number(last), .. }) = entries.last()
        {
            self.last[group] = *last;
        }
    }

    /// Stores the rows of a batch that entered and were not pushed out again.
    fn store(&mut self, batch: &RecordBatch, entered: &[(usize, usize)]) -> DfResult<()> {
        let number = self.stored.len();
        let mut rows = Vec::with_capacity(entered.len());
        for (group, row) in entered {
            let present = self.groups[*group].iter_mut().find(|entry| entry.batch == PRESENT && entry.row == *row);
            if let Some(entry) = present {
                (entry.batch, entry.row) = (number, rows.len());
                rows.push(*row as u32);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let taken = take_record_batch(batch, &UInt32Array::from(rows))?;
        self.stored_rows += taken.num_rows();
        self.batch_bytes += taken.get_array_memory_size();
        self.stored.push(taken);
        Ok(())
    }

    /// Stores only the rows that are kept.
    fn compact(&mut self) -> DfResult<()> {
        let places: Vec<(usize, usize)> = self.groups.iter().flatten().map(|entry| (entry.batch, entry.row)).collect();
        let all = self.interleaved(&places)?;
        for (row, entry) in self.groups.iter_mut().flatten().enumerate() {
            (entry.batch, entry.row) = (0, row);
        }
        (self.stored_rows, self.batch_bytes) = (all.num_rows(), all.get_array_memory_size());
        self.stored = vec![all];
        Ok(())
    }

    fn interleaved(&self, places: &[(usize, usize)]) -> DfResult<RecordBatch> {
        if places.is_empty() {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let stored: Vec<&RecordBatch> = self.stored.iter().collect();
        Ok(interleave_record_batch(&stored, places)?)
    }

    /// The rows that are kept, of which none are left.
    fn taken(&mut self, batch_rows: usize) -> DfResult<Emitted> {
        let places: Vec<(usize, usize)> =
            std::mem::take(&mut self.groups).iter().flatten().map(|entry| (entry.batch, entry.row)).collect();
        let batches = places.chunks(batch_rows.max(1)).map(|places| self.interleaved(places));
        let batches = batches.collect::<DfResult<Vec<_>>>()?;
        let next = Kept::new(self.count, Arc::clone(&self.schema), self.memory.new_empty());
        let held = std::mem::replace(self, next).memory;
        // They are there already, even if there is no room for them.
        held.resize(batches.iter().map(RecordBatch::get_array_memory_size).sum());
        Ok(Emitted { batches, _held: held })
    }
}

fn entry_bytes(entry: &Entry) -> usize {
    // Groups that grow have room for as many entries again.
    let key = match &entry.order {
        Order::Number(_) => 0,
        Order::Bytes(bytes) => bytes.as_ref().len(),
    };
    key + 2 * size_of::<Entry>()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int64Array};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::physical_expr::expressions::col;

    use super::*;

    fn batch(rows: &[(i64, i64)]) -> RecordBatch {
        let column =
            |of: fn(&(i64, i64)) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.iter().map(of))) };
        RecordBatch::try_from_iter([("g", column(|row| row.0)), ("v", column(|row| row.1))]).unwrap()
    }

    fn kept(count: usize, bytes: usize) -> (Kept, Keys) {
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new("g", DataType::Int64, false),
            Field::new("v", DataType::Int64, false),
        ]));
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let memory = MemoryConsumer::new("test").register(&pool);
        let order = vec![SortOptions { descending: true, nulls_first: false }];
        let leading = Leading { groups: 1, order, count };
        let expressions = ["g", "v"].map(|name| col(name, &schema).unwrap()).into();
        let keys = Keys::new(&leading, expressions, &schema).unwrap();
        (Kept::new(count, schema, memory), keys)
    }

    fn rows(batches: &[RecordBatch]) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        for batch in batches {
            let column = |at: usize| batch.column(at).as_primitive::<Int64Type>();
            rows.extend(column(0).values().iter().copied().zip(column(1).values().iter().copied()));
        }
        rows.sort_unstable();
        rows
    }

    #[test]
    fn each_group_keeps_its_first_rows_also_when_all_enter_in_turn() {
        let (mut kept, mut keys) = kept(2, 1 << 30);
        // Every row is the first one of its group so far.
        for turn in 0..300_i64 {
            let values: Vec<(i64, i64)> = (0..1_000).map(|at| (at % 100, turn * 1_000 + at)).collect();
            assert!(kept.add(batch(&values), &mut keys).unwrap());
        }
        assert_eq!(kept.live, 200);
        assert!(kept.stored_rows <= 400 + SPARE_ROWS, "{}", kept.stored_rows);
        let expected: Vec<(i64, i64)> =
            (0..100).flat_map(|group| [(group, 299_800 + group), (group, 299_900 + group)]).collect();
        assert_eq!(rows(&kept.taken(64).unwrap().batches), expected);
        assert_eq!(kept.live, 0);
    }

    #[test]
    fn numbers_compare_as_the_values_of_sorts() {
        let floats: Vec<Option<f64>> = [f64::NEG_INFINITY, -1.5, -0.0, 0.0, 2.5, f64::INFINITY, f64::NAN]
            .into_iter()
            .map(Some)
            .chain([None])
            .collect();
        for (descending, nulls_first) in [(false, false), (false, true), (true, false), (true, true)] {
            let options = SortOptions { descending, nulls_first };
            let array: ArrayRef = Arc::new(Float64Array::from(floats.clone()));
            let keys = numbers_of(&array, options).unwrap();
            let bytes = RowConverter::new(vec![SortField::new_with_options(DataType::Float64, options)]).unwrap();
            let rows = bytes.convert_columns(&[array]).unwrap();
            for (one, other) in (0..floats.len()).flat_map(|one| (0..floats.len()).map(move |other| (one, other))) {
                assert_eq!(
                    keys[one].cmp(&keys[other]),
                    rows.row(one).cmp(&rows.row(other)),
                    "{one} {other} {options:?}"
                );
            }
            assert!(keys.iter().all(|key| *key < u128::MAX));
        }
    }

    #[test]
    fn full_memory_is_told_and_nothing_is_lost() {
        let (mut kept, mut keys) = kept(1, 50_000);
        let values: Vec<(i64, i64)> = (0..2_000).map(|at| (at, at)).collect();
        assert!(!kept.add(batch(&values), &mut keys).unwrap());
        assert_eq!(rows(&kept.taken(100).unwrap().batches), values);
    }
}
