//! `first(value, time)` and `last(value, time)`: the value of the row with the smallest or greatest time.
//!
//! As in TimescaleDB, rows without a time are ignored and NULL values are not: the last value may be NULL. Among rows
//! with equal times the first one processed wins, so the result depends on the order of rows only for equal times.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array};
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, TypeSignature, Volatility,
};
use model::{Error, SqlState};

use crate::errors::external;
use crate::types::sql_name;

/// `first` and `last`.
pub(super) fn functions() -> Vec<AggregateUDF> {
    [End::First, End::Last].map(|end| AggregateUDF::new_from_impl(Extreme::new(end))).into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    First,
    Last,
}

impl End {
    /// Whether a row at `time` replaces the one at `best`.
    fn beats(self, time: i64, best: i64) -> bool {
        match self {
            End::First => time < best,
            End::Last => time > best,
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    end: End,
    signature: Signature,
}

impl Extreme {
    fn new(end: End) -> Extreme {
        Extreme { end, signature: Signature::new(TypeSignature::UserDefined, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        match self.end {
            End::First => "first",
            End::Last => "last",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let time = match types {
            [_, DataType::Timestamp(_, zone)] => DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()),
            [_, DataType::Date32 | DataType::Date64] => DataType::Timestamp(TimeUnit::Nanosecond, None),
            [_, ty] if ty.is_integer() || ty.is_null() => DataType::Int64,
            _ => {
                let types: Vec<String> = types.iter().map(sql_name).collect();
                let message = format!("function {}({}) does not exist", self.name(), types.join(", "));
                let hint = "the second argument is the time: a timestamp, a date or an integer";
                return Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(hint)));
            }
        };
        Ok(vec![types[0].clone(), time])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new(format_state_name(args.name, "value"), args.return_field.data_type().clone(), true);
        let time = Field::new(format_state_name(args.name, "time"), DataType::Int64, true);
        Ok(vec![Arc::new(value), Arc::new(time)])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Groups::new(self.end, args.return_field.data_type())?))
    }

    fn groups_accumulator_supported(&self, _args: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(self.end, args.return_field.data_type())?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Best row of each group so far. Values are kept as scalars: a batch creates one for each group that it improves.
/// Rows sorted by time improve a group once per batch (`first`: only once).
#[derive(Debug)]
struct Groups {
    end: End,
    null: ScalarValue,
    values: Vec<ScalarValue>,
    times: Vec<Option<i64>>,
    /// Row of the current batch that is a group's best, or `NO_ROW`; empty between batches.
    rows: Vec<u32>,
    /// Heap bytes of the values, not counting the vector.
    value_bytes: usize,
}

const NO_ROW: u32 = u32::MAX;

impl Groups {
    fn new(end: End, ty: &DataType) -> Result<Groups> {
        let null = ScalarValue::try_from(ty)?;
        Ok(Groups { end, null, values: Vec::new(), times: Vec::new(), rows: Vec::new(), value_bytes: 0 })
    }

    fn update(
        &mut self,
        values: &ArrayRef,
        times: &Int64Array,
        group_of: impl Fn(usize) -> Option<usize>,
        groups: usize,
    ) -> Result<()> {
        self.values.resize(groups, self.null.clone());
        self.times.resize(groups, None);
        self.rows.resize(groups, NO_ROW);
        let mut improved = Vec::new();
        for (row, time) in times.values().iter().enumerate() {
            let Some(group) = group_of(row).filter(|_| times.is_valid(row)) else { continue };
            if self.times[group].is_none_or(|best| self.end.beats(*time, best)) {
                self.times[group] = Some(*time);
                if self.rows[group] == NO_ROW {
                    improved.push(group);
                }
                self.rows[group] = u32::try_from(row).map_err(|_| external(Error::bug("a batch of 2^32 rows")))?;
            }
        }
        for group in improved {
            let row = std::mem::replace(&mut self.rows[group], NO_ROW);
            self.set(group, ScalarValue::try_from_array(values, row as usize)?);
        }
        Ok(())
    }

    fn set(&mut self, group: usize, mut value: ScalarValue) {
        // A nested value is a slice of its batch; without compaction it would keep the whole batch in memory.
        value.compact();
        self.value_bytes = self.value_bytes.saturating_sub(heap_bytes(&self.values[group])) + heap_bytes(&value);
        self.values[group] = value;
    }

    fn take(&mut self, emit: EmitTo) -> Result<(ArrayRef, ArrayRef)> {
        let values = emit.take_needed(&mut self.values);
        let times = emit.take_needed(&mut self.times);
        self.rows.truncate(self.values.len());
        self.value_bytes = self.value_bytes.saturating_sub(values.iter().map(heap_bytes).sum());
        let values = match values.is_empty() {
            true => self.null.to_array_of_size(0)?,
            false => ScalarValue::iter_to_array(values)?,
        };
        Ok((values, Arc::new(Int64Array::from(times))))
    }

    fn bytes(&self) -> usize {
        self.values.capacity() * size_of::<ScalarValue>()
            + self.times.capacity() * size_of::<Option<i64>>()
            + self.rows.capacity() * size_of::<u32>()
            + self.value_bytes
    }
}

fn heap_bytes(value: &ScalarValue) -> usize {
    value.size() - size_of::<ScalarValue>()
}

fn nanoseconds(times: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(times, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let passes = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        self.update(&values[0], &nanoseconds(&values[1])?, |row| passes(row).then(|| groups[row]), total)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update(&values[0], &nanoseconds(&values[1])?, |row| Some(groups[row]), total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(self.take(emit)?.0)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (values, times) = self.take(emit)?;
        Ok(vec![values, times])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let times = nanoseconds(&values[1])?;
        let times: ArrayRef = match filter {
            None => Arc::new(times),
            Some(filter) => {
                let dropped: BooleanArray = filter.iter().map(|passes| Some(passes != Some(true))).collect();
                datafusion::arrow::compute::nullif(&times, &dropped)?
            }
        };
        Ok(vec![Arc::clone(&values[0]), times])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes()
    }
}

/// Aggregation without GROUP BY: one group, number 0.
impl Accumulator for Groups {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.update(&values[0], &nanoseconds(&values[1])?, |_| Some(0), 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        Accumulator::update_batch(self, states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.values.first().unwrap_or(&self.null).clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let time = self.times.first().copied().flatten();
        Ok(vec![Accumulator::evaluate(self)?, ScalarValue::Int64(time)])
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes()
    }
}
