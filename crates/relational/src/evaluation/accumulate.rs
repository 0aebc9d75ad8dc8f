//! Aggregates of crate `scalar` as aggregates of DataFusion, with DISTINCT and ORDER BY.
//!
//! The state of an aggregate cannot be merged with another one, so these run in one phase only (`nodes::aggregate`).

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use bumpalo::Bump;
use catalog::TypeId;
use datafusion::common::{Result as DfResult, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, GroupsAccumulator, Signature, Volatility};
use model::{Datum, Error, Result, SqlState};
use scalar::{Call, Context, Session, Value};

use crate::arrow::{arrow_type, datum, key};
use crate::errors::external;
use crate::evaluation::evaluate::{constant, signature};
use crate::evaluation::percentiles::{self, Percentiles};

/// An aggregate with the facts of its call.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) call: Call,
    /// Types of the arguments.
    pub(crate) arguments: Vec<TypeId>,
    /// Sort keys, whose values follow the arguments.
    pub(crate) order: Vec<Order>,
    pub(crate) distinct: bool,
    /// Whether the sort keys are arguments too, as in WITHIN GROUP.
    pub(crate) within_group: bool,
    /// Whether rows with a NULL argument are left out.
    pub(crate) is_strict: bool,
    pub(crate) ty: TypeId,
    pub(crate) session: Arc<Session>,
    pub(crate) zone: Arc<str>,
}

/// A sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) ty: TypeId,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

impl Order {
    /// Appends bytes by which the values are in order.
    pub(crate) fn push(self, value: &Datum<'_>, out: &mut Vec<u8>) -> Result<()> {
        if value.is_null() {
            out.push(if self.nulls_first { 0 } else { 2 });
            return Ok(());
        }
        out.push(1);
        let from = out.len();
        key::push(value, self.ty, out)?;
        if self.descending {
            out[from..].iter_mut().for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

/// The aggregate.
#[derive(Debug)]
pub(crate) struct Accumulate {
    spec: Arc<Spec>,
    signature: Signature,
}

impl Accumulate {
    pub(crate) fn new(spec: Spec) -> Accumulate {
        let signature = signature(spec.arguments.len() + spec.order.len(), Volatility::Immutable);
        Accumulate { spec: Arc::new(spec), signature }
    }
}

impl PartialEq for Accumulate {
    fn eq(&self, other: &Accumulate) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec)
    }
}

impl Eq for Accumulate {}

impl Hash for Accumulate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.spec).hash(state);
    }
}

impl AggregateUDFImpl for Accumulate {
    fn name(&self) -> &str {
        "accumulate"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(self.spec.ty, &self.spec.zone))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        percentiles::computes(&self.spec)
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Percentiles::new(&self.spec)))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(State::new(Arc::clone(&self.spec)).map_err(external)?))
    }
}

/// The error of groups whose states would have to be written to disk.
pub(super) fn out_of_memory() -> Error {
    let text = "the groups of this aggregate do not fit in the memory of the statement";
    Error::new(SqlState::OUT_OF_MEMORY, text)
}

/// The state of one group.
pub(crate) struct State {
    spec: Arc<Spec>,
    state: Box<dyn scalar::Accumulator>,
    /// Rows that wait until they can be sorted: their place in the order, the key of the arguments, the arguments.
    rows: Vec<(Vec<u8>, Vec<u8>, Vec<Value>)>,
    rows_bytes: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "State({:?}, {} rows)", self.spec.call, self.rows.len())
    }
}

impl State {
    pub(crate) fn new(spec: Arc<Spec>) -> Result<State> {
        let make =
            scalar::aggregate(spec.call.function).ok_or_else(|| Error::bug("an aggregate without implementation"))?;
        let state = make(&spec.call);
        Ok(State { spec, state, rows: Vec::new(), rows_bytes: 0 })
    }

    /// Adds the row of some columns: the arguments, then the sort keys.
    pub(crate) fn update<'a>(&mut self, values: &[Datum<'a>], ctx: &Context<'a>) -> Result<()> {
        let count = self.spec.arguments.len().min(values.len());
        let (arguments, keys) = values.split_at(count);
        let is_sorted = self.spec.distinct || !self.spec.order.is_empty();
        let is_null =
            arguments.iter().any(Datum::is_null) || (self.spec.within_group && keys.iter().any(Datum::is_null));
        if self.spec.is_strict && is_null {
            return Ok(());
        }
        if !is_sorted {
            return self.state.update(arguments, ctx);
        }
        let mut place = Vec::new();
        for (order, value) in self.spec.order.iter().zip(keys) {
            order.push(value, &mut place)?;
        }
        let mut same = Vec::new();
        if self.spec.distinct {
            for (value, ty) in arguments.iter().zip(&self.spec.arguments) {
                key::push_part(value, *ty, &mut same)?;
            }
        }
        let given = if self.spec.within_group { values } else { arguments };
        let row: Vec<Value> = given.iter().map(Value::of).collect();
        self.rows_bytes += place.len() + same.len() + size_of::<(Vec<u8>, Vec<u8>, Vec<Value>)>();
        self.rows_bytes += row.iter().map(|value| size_of::<Value>() + value.heap_size()).sum::<usize>();
        self.rows.push((place, same, row));
        Ok(())
    }

    /// Gives the rows that wait to the aggregate, in order.
    fn settle(&mut self) -> Result<()> {
        let mut rows = std::mem::take(&mut self.rows);
        self.rows_bytes = 0;
        // DISTINCT sorts by the arguments, as PostgreSQL does: array_agg(DISTINCT x) is in order.
        rows.sort_by(|a, b| match a.0.cmp(&b.0) {
            Ordering::Equal => a.1.cmp(&b.1),
            order => order,
        });
        if self.spec.distinct {
            rows.dedup_by(|a, b| a.1 == b.1);
        }
        let mut arena = Bump::new();
        for chunk in rows.chunks(1_024) {
            arena.reset();
            let ctx = Context { arena: &arena, session: &self.spec.session };
            for (_, _, row) in chunk {
                let values: Vec<Datum<'_>> = row.iter().map(Value::datum).collect();
                self.state.update(&values, &ctx)?;
            }
        }
        Ok(())
    }

    /// The aggregate of the rows so far.
    pub(crate) fn finish<'a>(&mut self, ctx: &Context<'a>) -> Result<Value> {
        self.settle()?;
        Ok(Value::of(&self.state.result(ctx)?))
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<State>() + self.rows_bytes + self.state.heap_size()
    }
}

impl Accumulator for State {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> DfResult<()> {
        let spec = Arc::clone(&self.spec);
        let types: Vec<TypeId> =
            spec.arguments.iter().copied().chain(spec.order.iter().map(|order| order.ty)).collect();
        let rows = columns.first().map_or(0, |column| column.len());
        let mut arena = Bump::new();
        let mut from = 0;
        while from < rows {
            arena.reset();
            let to = rows.min(from + 1_024);
            self.update_rows(columns, &types, from..to, &arena, &spec).map_err(external)?;
            from = to;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let spec = Arc::clone(&self.spec);
        let arena = Bump::new();
        let ctx = Context { arena: &arena, session: &spec.session };
        let value = self.finish(&ctx).map_err(external)?;
        constant(&value.datum(), spec.ty, &spec.zone).map_err(external)
    }

    fn size(&self) -> usize {
        self.bytes()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Err(external(out_of_memory()))
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DfResult<()> {
        Err(external(Error::bug("merging the states of an aggregate")))
    }
}

impl State {
    fn update_rows(
        &mut self,
        columns: &[ArrayRef],
        types: &[TypeId],
        rows: std::ops::Range<usize>,
        arena: &Bump,
        spec: &Spec,
    ) -> Result<()> {
        let ctx = Context { arena, session: &spec.session };
        let mut values = Vec::with_capacity(columns.len());
        for row in rows {
            values.clear();
            for (column, ty) in columns.iter().zip(types) {
                values.push(datum(column.as_ref(), row, *ty)?);
            }
            self.update(&values, &ctx)?;
        }
        Ok(())
    }
}
