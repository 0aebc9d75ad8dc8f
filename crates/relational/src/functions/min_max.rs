//! `min` and `max` that order floats as PostgreSQL does: `-Infinity` first, `NaN` last.
//!
//! DataFusion's own start a group at the largest finite number and skip NaN, so that a group of only `Infinity` would
//! return a number that no row has. Other types use DataFusion's functions.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, StatisticsArgs, Volatility,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

/// `min` and `max`.
pub(super) fn functions() -> Vec<AggregateUDF> {
    [End::Least, End::Greatest].map(|end| AggregateUDF::new_from_impl(Extreme::new(end))).into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Least,
    Greatest,
}

impl End {
    /// Whether `new` replaces `best`. NaN is greater than all numbers, whatever its sign.
    fn beats<T: PartialOrd + Copy>(self, new: T, best: T) -> bool {
        let nan = |value: T| value.partial_cmp(&value).is_none();
        match self {
            End::Least => new < best || (nan(best) && !nan(new)),
            End::Greatest => new > best || (nan(new) && !nan(best)),
        }
    }

    /// Initial value, which every value replaces or equals.
    fn start(self) -> f64 {
        match self {
            End::Least => f64::NAN,
            End::Greatest => f64::NEG_INFINITY,
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
        Extreme { end, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn theirs(&self) -> Arc<AggregateUDF> {
        match self.end {
            End::Least => min_udaf(),
            End::Greatest => max_udaf(),
        }
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        match self.end {
            End::Least => "min",
            End::Greatest => "max",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.theirs().coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.theirs().return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match args.return_field.data_type() {
            DataType::Float32 | DataType::Float64 => {
                Box::new(One { end: self.end, best: ScalarValue::try_from(args.return_field.data_type())? })
            }
            _ => self.theirs().accumulator(args)?,
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.theirs().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let end = self.end;
        Ok(match args.return_field.data_type() {
            DataType::Float32 => Box::new(
                PrimitiveGroupsAccumulator::<Float32Type, _>::new(&DataType::Float32, move |best, new| {
                    replace(end, best, new);
                })
                .with_starting_value(end.start() as f32),
            ),
            DataType::Float64 => Box::new(
                PrimitiveGroupsAccumulator::<Float64Type, _>::new(&DataType::Float64, move |best, new| {
                    replace(end, best, new);
                })
                .with_starting_value(end.start()),
            ),
            _ => self.theirs().create_groups_accumulator(args)?,
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.theirs().create_sliding_accumulator(args)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.theirs().value_from_stats(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

fn replace<T: PartialOrd + Copy>(end: End, best: &mut T, new: T) {
    if end.beats(new, *best) {
        *best = new;
    }
}

/// Aggregation without GROUP BY.
#[derive(Debug)]
struct One {
    end: End,
    best: ScalarValue,
}

impl One {
    /// Extreme of `best` and a batch.
    fn of<T: ArrowPrimitiveType<Native: PartialOrd>>(
        &self,
        best: Option<T::Native>,
        values: &ArrayRef,
    ) -> Option<T::Native> {
        let all = best.into_iter().chain(values.as_primitive::<T>().iter().flatten());
        all.reduce(|best, new| if self.end.beats(new, best) { new } else { best })
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.best = match self.best {
            ScalarValue::Float32(best) => ScalarValue::Float32(self.of::<Float32Type>(best, &values[0])),
            ScalarValue::Float64(best) => ScalarValue::Float64(self.of::<Float64Type>(best, &values[0])),
            ref other => {
                return Err(crate::errors::external(model::Error::bug(format!(
                    "extreme of floats over {}",
                    other.data_type()
                ))));
            }
        };
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.best.clone())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.best.clone()])
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}
