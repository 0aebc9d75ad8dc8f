//! Runs window functions. The input is in order, so a partition is a run of rows; it is kept in memory until its last row.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use async_trait::async_trait;
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use datafusion::common::Result as DfResult;
use datafusion::execution::memory_pool::MemoryReservation;
use model::{Datum, Result};
use scalar::{Context, Session, Value};

use super::exec::{Run, Source, pause};
use super::frames::{Frame, Frames, Peers};
use super::window_functions::Lines;
use super::{Operator, window_functions};
use crate::arrow::{Builder, datum};
use crate::errors::external;
use crate::evaluation::accumulate::{Spec, State};
use crate::evaluation::evaluate::Program;
use crate::results::batch_bytes;

/// Rows between pauses, at which the statement can be cancelled.
const PAUSE_ROWS: usize = 1_024;
/// Memory of an aggregate whose result takes about as long as a row.
const RESULT_BYTES: usize = 256;
/// Text of a call's values that needs no reservation.
const TEXT_BYTES_FREE: usize = 1 << 20;

/// Calls with the same partitions and order.
#[derive(Debug)]
pub(crate) struct Window {
    /// Number of keys of partitions: the first ones of the operator's expressions.
    pub(crate) partitions: usize,
    /// Number of sort keys, which follow.
    pub(crate) orders: usize,
    /// Types of the other expressions, which the programs are over.
    pub(crate) columns: Arc<[TypeId]>,
    pub(crate) calls: Vec<Call>,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: Function,
    pub(crate) arguments: Vec<Program>,
    pub(crate) filter: Option<Program>,
    pub(crate) frame: Frame,
    pub(crate) ty: TypeId,
}

/// A window function.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    /// `locf(value)`
    Locf,
    /// `interpolate(value, time)`
    Interpolate,
    Aggregate(Arc<Spec>),
}

impl Function {
    /// The window function of a name.
    pub(crate) fn named(name: &str) -> Option<Function> {
        Some(match name {
            "row_number" => Function::RowNumber,
            "rank" => Function::Rank,
            "dense_rank" => Function::DenseRank,
            "percent_rank" => Function::PercentRank,
            "cume_dist" => Function::CumeDist,
            "ntile" => Function::Ntile,
            "lag" => Function::Lag,
            "lead" => Function::Lead,
            "first_value" => Function::FirstValue,
            "last_value" => Function::LastValue,
            "nth_value" => Function::NthValue,
            "locf_over" => Function::Locf,
            "interpolate_over" => Function::Interpolate,
            _ => return None,
        })
    }
}

/// The values of a call's operands for the rows of a partition.
pub(super) struct Operands {
    pub(super) arguments: Vec<(ArrayRef, TypeId)>,
    filter: Option<ArrayRef>,
}

impl Operands {
    /// An argument of a row.
    pub(super) fn value(&self, argument: usize, row: usize) -> Result<Datum<'_>> {
        match self.arguments.get(argument) {
            Some((array, ty)) => datum(array.as_ref(), row, *ty),
            None => Ok(Datum::Null),
        }
    }

    fn passes(&self, row: usize) -> bool {
        self.filter.as_ref().is_none_or(|filter| {
            let filter = filter.as_boolean();
            filter.is_valid(row) && filter.value(row)
        })
    }
}

/// The running operator.
pub(super) struct Running {
    operator: Arc<Operator>,
    source: Source,
    converter: Option<RowConverter>,
    /// Batches of the partition that is being read, and its key.
    partition: Vec<RecordBatch>,
    key: Option<OwnedRow>,
    /// Complete partitions. Their memory is reserved, and that of `partition`.
    complete: std::collections::VecDeque<RecordBatch>,
    /// A computed partition, and the rows of it that were given.
    output: Option<(RecordBatch, usize)>,
    /// Memory of `output`.
    held: MemoryReservation,
    is_over: bool,
}

impl Running {
    pub(super) fn new(operator: Arc<Operator>, source: Source) -> Running {
        Running {
            operator,
            held: source.memory.new_empty(),
            source,
            converter: None,
            partition: Vec::new(),
            key: None,
            complete: std::collections::VecDeque::new(),
            output: None,
            is_over: false,
        }
    }

    /// Adds a batch to the partition, and completes partitions that end in it.
    fn read(&mut self, batch: RecordBatch, window: &Window) -> DfResult<()> {
        self.source.memory.try_grow(batch_bytes(&batch))?;
        if window.partitions == 0 || batch.num_rows() == 0 {
            self.partition.push(batch);
            return Ok(());
        }
        let mut keys = self.source.values(&batch)?;
        keys.truncate(window.partitions);
        if self.converter.is_none() {
            let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
            self.converter = Some(RowConverter::new(fields)?);
        }
        let Some(converter) = &mut self.converter else { return Ok(()) };
        let rows = converter.convert_columns(&keys)?;
        let mut from = 0;
        for row in 0..batch.num_rows() {
            if self.key.as_ref().is_some_and(|key| key.row() == rows.row(row)) {
                continue;
            }
            if self.key.is_some() {
                self.partition.push(batch.slice(from, row - from));
                from = row;
                self.complete()?;
            }
            self.key = Some(rows.row(row).owned());
        }
        self.partition.push(batch.slice(from, batch.num_rows() - from));
        Ok(())
    }

    /// Joins the batches of the partition, which is complete.
    fn complete(&mut self) -> DfResult<()> {
        let Some(first) = self.partition.first() else { return Ok(()) };
        if self.partition.len() == 1 {
            self.complete.extend(self.partition.pop());
            return Ok(());
        }
        let joining = self.source.memory.new_empty();
        joining.try_grow(self.partition.iter().map(batch_bytes).sum())?;
        let whole = concat_batches(&first.schema(), &self.partition)?;
        self.partition.clear();
        self.complete.push_back(whole);
        Ok(())
    }

    async fn compute(&mut self, batch: RecordBatch, window: &Window) -> DfResult<RecordBatch> {
        // The rows keep their reservation, in another place.
        let bytes = batch_bytes(&batch).min(self.source.memory.size());
        self.source.memory.shrink(bytes);
        self.held.grow(bytes);
        let values = self.source.values(&batch)?;
        let keys_count = window.partitions + window.orders;
        let order = values.get(window.partitions..keys_count).unwrap_or_default();
        let peers = peers(order, batch.num_rows())?;
        let inputs = values.get(keys_count..).unwrap_or_default();
        let mut columns = batch.columns().to_vec();
        for call in &window.calls {
            columns.push(window.call(call, inputs, &peers, batch.num_rows(), &self.held).await?);
        }
        self.source.output(columns, batch.num_rows())
    }
}

#[async_trait]
impl Run for Running {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        let operator = Arc::clone(&self.operator);
        let Operator::Window(window) = &*operator else { return Ok(None) };
        loop {
            if let Some((batch, given)) = &mut self.output {
                if *given < batch.num_rows() {
                    let count = self.source.batch_rows.min(batch.num_rows() - *given);
                    let part = batch.slice(*given, count);
                    *given += count;
                    return Ok(Some(part));
                }
                self.output = None;
                self.held.free();
            }
            if let Some(batch) = self.complete.pop_front() {
                let computed = self.compute(batch, window).await?;
                self.output = Some((computed, 0));
                continue;
            }
            if self.is_over {
                return Ok(None);
            }
            match self.source.batch().await? {
                Some(batch) => self.read(batch, window)?,
                None => {
                    self.is_over = true;
                    self.complete()?;
                }
            }
        }
    }
}

/// The values of a call. A value of each row may be that of one row, so they may be much longer than the partition.
struct Output<'h> {
    builder: Builder,
    held: &'h MemoryReservation,
    /// Bytes of text that memory is reserved for.
    reserved: usize,
}

impl Output<'_> {
    fn push(&mut self, value: &Datum<'_>) -> DfResult<()> {
        let length = match value {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let bytes = self.builder.text_bytes().saturating_add(length);
        if bytes > self.reserved.max(TEXT_BYTES_FREE) {
            // A builder doubles its room.
            self.held.try_grow(bytes.saturating_mul(2) - self.reserved)?;
            self.reserved = bytes.saturating_mul(2);
        }
        self.builder.push(value).map_err(external)
    }
}

/// Groups of rows with equal sort keys.
fn peers(order: &[ArrayRef], rows: usize) -> DfResult<Peers> {
    if order.is_empty() {
        return Ok(Peers { starts: vec![0, rows], group: vec![0; rows] });
    }
    let fields = order.iter().map(|key| SortField::new(key.data_type().clone())).collect();
    let keys: Rows = RowConverter::new(fields)?.convert_columns(order)?;
    let (mut starts, mut group) = (Vec::new(), Vec::with_capacity(rows));
    for row in 0..rows {
        if row == 0 || keys.row(row) != keys.row(row - 1) {
            starts.push(row);
        }
        group.push(starts.len() - 1);
    }
    starts.push(rows);
    Ok(Peers { starts, group })
}

impl Window {
    fn run(&self, program: &Program, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Program { columns: Arc::clone(&self.columns), ..program.clone() }.run(inputs, rows)
    }

    /// The values of a call; `held` grows by their memory.
    async fn call(
        &self,
        call: &Call,
        inputs: &[ArrayRef],
        peers: &Peers,
        rows: usize,
        held: &MemoryReservation,
    ) -> DfResult<ArrayRef> {
        let arguments = call.arguments.iter().map(|argument| Ok((self.run(argument, inputs, rows)?, argument.expr.ty)));
        let operands = Operands {
            arguments: arguments.collect::<Result<_>>().map_err(external)?,
            filter: call.filter.as_ref().map(|filter| self.run(filter, inputs, rows)).transpose().map_err(external)?,
        };
        let keys = call.frame.range.as_ref().map(|range| self.run(&range.value, inputs, rows));
        let keys = keys.transpose().map_err(external)?;
        let frames = Frames::new(&call.frame, peers, rows, keys.as_ref(), &self.session).map_err(external)?;
        let mut output = Output { builder: Builder::new(call.ty, &self.zone, rows), held, reserved: 0 };
        if let Function::Aggregate(spec) = &call.function {
            self.aggregate(spec, &operands, &frames, rows, &mut output).await?;
            return Ok(output.builder.finish());
        }
        match call.function {
            Function::Locf => carried(&operands, rows, &mut output).await?,
            Function::Interpolate => interpolated(&operands, rows, &mut output).await?,
            _ => {}
        }
        if matches!(call.function, Function::Locf | Function::Interpolate) {
            return Ok(output.builder.finish());
        }
        for row in 0..rows {
            if row % PAUSE_ROWS == 0 {
                pause().await;
            }
            let value = window_functions::value(&call.function, &operands, &frames, peers, rows, row);
            output.push(&value.map_err(external)?)?;
        }
        Ok(output.builder.finish())
    }

    /// An aggregate over the frame of each row. Rows are added as long as frames only grow at their end.
    async fn aggregate(
        &self,
        spec: &Arc<Spec>,
        operands: &Operands,
        frames: &Frames<'_>,
        rows: usize,
        output: &mut Output<'_>,
    ) -> DfResult<()> {
        let mut added: Vec<Range<usize>> = Vec::new();
        let mut state = State::new(Arc::clone(spec)).map_err(external)?;
        let mut result: Option<Value> = None;
        let mut arena = Bump::new();
        let (mut steps, mut held) = (0, 0);
        for row in 0..rows {
            let frame = frames.of(row).map_err(external)?;
            if frame != added || result.is_none() {
                let rest = match (added.as_slice(), frame.as_slice()) {
                    ([], frame) if result.is_some() || row == 0 => frame.to_vec(),
                    ([old], [new]) if old.start == new.start && old.end <= new.end => {
                        std::iter::once(old.end..new.end).collect()
                    }
                    _ => {
                        state = State::new(Arc::clone(spec)).map_err(external)?;
                        frame.clone()
                    }
                };
                for at in rest.into_iter().flatten() {
                    steps += 1;
                    if steps >= PAUSE_ROWS {
                        steps = 0;
                        arena.reset();
                        pause().await;
                    }
                    self.add(&mut state, operands, at, &arena).map_err(external)?;
                }
                added = frame;
                let bytes = state.bytes();
                output.held.try_grow(bytes.saturating_sub(held))?;
                held = held.max(bytes);
                // A result may look at all values again, and sort them.
                steps += bytes / RESULT_BYTES;
                if steps >= PAUSE_ROWS {
                    steps = 0;
                    arena.reset();
                    pause().await;
                }
                let ctx = Context { arena: &arena, session: &self.session };
                result = Some(state.finish(&ctx).map_err(external)?);
            }
            let value = result.as_ref().map_or(Datum::Null, Value::datum);
            output.push(&value)?;
        }
        Ok(())
    }

    fn add(&self, state: &mut State, operands: &Operands, row: usize, arena: &Bump) -> Result<()> {
        if !operands.passes(row) {
            return Ok(());
        }
        let count = operands.arguments.len();
        let values = (0..count).map(|argument| operands.value(argument, row)).collect::<Result<Vec<_>>>()?;
        state.update(&values, &Context { arena, session: &self.session })
    }
}

/// `locf` over a partition: a NULL has the last value before it.
async fn carried(operands: &Operands, rows: usize, output: &mut Output<'_>) -> DfResult<()> {
    let mut last = None;
    for row in 0..rows {
        if row % PAUSE_ROWS == 0 {
            pause().await;
        }
        if !operands.value(0, row).map_err(external)?.is_null() {
            last = Some(row);
        }
        let value = last.map_or(Ok(Datum::Null), |last| operands.value(0, last)).map_err(external)?;
        output.push(&value)?;
    }
    Ok(())
}

/// `interpolate` over a partition: a value depends on rows behind it.
async fn interpolated(operands: &Operands, rows: usize, output: &mut Output<'_>) -> DfResult<()> {
    output.held.try_grow(rows.saturating_mul(size_of::<Option<f64>>()))?;
    let mut lines = Lines::new(rows);
    for row in 0..rows {
        if row % PAUSE_ROWS == 0 {
            pause().await;
        }
        lines.add(operands, row).map_err(external)?;
    }
    for (row, value) in lines.values.iter().enumerate() {
        if row % PAUSE_ROWS == 0 {
            pause().await;
        }
        output.push(&value.map_or(Datum::Null, Datum::Float8))?;
    }
    Ok(())
}
