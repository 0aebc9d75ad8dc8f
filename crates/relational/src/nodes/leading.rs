//! Drops rows that are not among the first ones of their group, below a sort that a window function or DISTINCT ON needs: the
//! newest row of each device, the ten largest values of each day. What is above chooses among the rows that are left.
//!
//! It may keep more rows than it must: those of each partition, and all when dropping them does not pay or the memory is full.
//! So it needs no order, no single partition and no disk.

use std::fmt;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{SchemaRef, SortOptions};
use datafusion::arrow::compute::{interleave_record_batch, take_record_batch};
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use rustc_hash::FxHashMap;

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

/// Computes the keys of rows as bytes that compare as the rows do.
struct Keys {
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    groups: usize,
    /// `None` without keys: one group.
    group_bytes: Option<RowConverter>,
    order_bytes: RowConverter,
}

impl Keys {
    fn new(leading: &Leading, expressions: Vec<Arc<dyn PhysicalExpr>>, schema: &SchemaRef) -> DfResult<Keys> {
        let (groups, orders) = expressions.split_at(leading.groups.min(expressions.len()));
        let group = groups.iter().map(|expr| Ok(SortField::new(expr.data_type(schema)?)));
        let group = group.collect::<DfResult<Vec<_>>>()?;
        let order = orders.iter().zip(&leading.order);
        let order = order.map(|(expr, options)| Ok(SortField::new_with_options(expr.data_type(schema)?, *options)));
        let group_bytes = if group.is_empty() { None } else { Some(RowConverter::new(group)?) };
        let order_bytes = RowConverter::new(order.collect::<DfResult<Vec<_>>>()?)?;
        Ok(Keys { expressions, groups: leading.groups, group_bytes, order_bytes })
    }

    fn of(&mut self, batch: &RecordBatch) -> DfResult<(Option<Rows>, Rows)> {
        let values = self.expressions.iter().map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()));
        let values = values.collect::<DfResult<Vec<_>>>()?;
        let (groups, orders) = values.split_at(self.groups.min(values.len()));
        let groups = self.group_bytes.as_mut().map(|bytes| bytes.convert_columns(groups)).transpose()?;
        Ok((groups, self.order_bytes.convert_columns(orders)?))
    }
}

/// A row that is kept.
struct Entry {
    order: OwnedRow,
    /// Number of the stored batch, or [`PRESENT`].
    batch: usize,
    row: usize,
}

/// The rows that are kept, by groups.
struct Kept {
    count: usize,
    schema: SchemaRef,
    numbers: FxHashMap<Box<[u8]>, usize>,
    /// Entries of each group, in order.
    groups: Vec<Vec<Entry>>,
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
            numbers: FxHashMap::default(),
            groups: Vec::new(),
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
        let mut entered = Vec::new();
        for row in 0..batch.num_rows() {
            let group = match &groups {
                Some(groups) => self.group(groups.row(row).as_ref()),
                None => self.group(&[]),
            };
            let entries = &mut self.groups[group];
            let order = orders.row(row);
            let is_full = entries.len() == self.count;
            if is_full && entries.last().is_some_and(|last| last.order.row() <= order) {
                continue;
            }
            if is_full && let Some(last) = entries.pop() {
                self.key_bytes -= entry_bytes(&last);
                self.live -= 1;
            }
            let entry = Entry { order: order.owned(), batch: PRESENT, row };
            self.key_bytes += entry_bytes(&entry);
            self.live += 1;
            let at = entries.partition_point(|other| other.order.row() <= order);
            entries.insert(at, entry);
            entered.push((group, row));
        }
        self.store(&batch, &entered)?;
        if self.stored_rows > 2 * self.live + SPARE_ROWS {
            self.compact()?;
        }
        Ok(self.memory.try_resize(self.key_bytes + self.batch_bytes).is_ok())
    }

    /// The number of a group.
    fn group(&mut self, key: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = self.groups.len();
        self.numbers.insert(key.into(), number);
        self.groups.push(Vec::new());
        self.key_bytes += key.len() + size_of::<(Box<[u8]>, usize)>() * 2 + size_of::<Vec<Entry>>() * 2;
        number
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
    entry.order.as_ref().len() + 2 * size_of::<Entry>()
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};
    use arrow_schema::{DataType, Field, Schema};
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
    fn full_memory_is_told_and_nothing_is_lost() {
        let (mut kept, mut keys) = kept(1, 50_000);
        let values: Vec<(i64, i64)> = (0..2_000).map(|at| (at, at)).collect();
        assert!(!kept.add(batch(&values), &mut keys).unwrap());
        assert_eq!(rows(&kept.taken(100).unwrap().batches), values);
    }
}
