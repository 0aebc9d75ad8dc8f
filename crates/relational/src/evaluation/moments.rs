//! `stddev` and `variance` of floats by whole columns, with PostgreSQL's method and so its rounding.
//!
//! Source: Youngs and Cramer, "Some Results Relevant to Choice of Sum and Sum-of-Product Algorithms", Technometrics 13 (1971);
//! states are combined as in PostgreSQL's `float8_combine`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use model::{Error, SqlState};

use crate::errors::external;

/// The function over the sum of squared differences from the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Measure {
    VariancePop,
    VarianceSamp,
    DeviationPop,
    DeviationSamp,
}

/// The aggregate of a name in `pg_proc`; `None` if it is none of these.
pub(crate) fn named(name: &str) -> Option<Arc<AggregateUDF>> {
    let measure = match name {
        "var_pop" => Measure::VariancePop,
        "var_samp" | "variance" => Measure::VarianceSamp,
        "stddev_pop" => Measure::DeviationPop,
        "stddev_samp" | "stddev" => Measure::DeviationSamp,
        _ => return None,
    };
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    Some(Arc::new(AggregateUDF::from(Moments { measure, signature })))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Moments {
    measure: Measure,
    signature: Signature,
}

impl AggregateUDFImpl for Moments {
    fn name(&self) -> &str {
        match self.measure {
            Measure::VariancePop => "variance_pop",
            Measure::VarianceSamp => "variance_samp",
            Measure::DeviationPop => "deviation_pop",
            Measure::DeviationSamp => "deviation_samp",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let field = |part: &str| Arc::new(Field::new(format!("{}[{part}]", arguments.name), DataType::Float64, true));
        Ok(["count", "sum", "squares"].map(field).into())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(One { measure: self.measure, state: State::default() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many { measure: self.measure, states: Vec::new() }))
    }
}

/// Number of values, their sum, and the sum of their squared differences from the mean.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    count: f64,
    sum: f64,
    squares: f64,
}

impl State {
    fn add(&mut self, value: f64) -> DfResult<()> {
        let before = *self;
        self.count += 1.0;
        self.sum += value;
        if before.count == 0.0 {
            // Infinities and NaN have no difference from themselves.
            self.squares = if value.is_finite() { 0.0 } else { f64::NAN };
            return Ok(());
        }
        let difference = value * self.count - self.sum;
        self.squares += difference * difference / (self.count * before.count);
        if self.sum.is_infinite() || self.squares.is_infinite() {
            if before.sum.is_finite() && value.is_finite() {
                return Err(overflow());
            }
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn merge(&mut self, other: State) -> DfResult<()> {
        if other.count == 0.0 {
            return Ok(());
        }
        if self.count == 0.0 {
            *self = other;
            return Ok(());
        }
        let sum = self.sum + other.sum;
        if sum.is_infinite() && self.sum.is_finite() && other.sum.is_finite() {
            return Err(overflow());
        }
        let difference = self.sum / self.count - other.sum / other.count;
        let count = self.count + other.count;
        let squares = self.squares + other.squares + self.count * other.count * difference * difference / count;
        if squares.is_infinite() && self.squares.is_finite() && other.squares.is_finite() {
            return Err(overflow());
        }
        *self = State { count, sum, squares };
        Ok(())
    }

    fn result(&self, measure: Measure) -> Option<f64> {
        let (least, divisor) = match measure {
            Measure::VariancePop | Measure::DeviationPop => (1.0, self.count),
            Measure::VarianceSamp | Measure::DeviationSamp => (2.0, self.count - 1.0),
        };
        if self.count < least {
            return None;
        }
        let variance = self.squares / divisor;
        Some(match measure {
            Measure::VariancePop | Measure::VarianceSamp => variance,
            Measure::DeviationPop | Measure::DeviationSamp => variance.sqrt(),
        })
    }
}

fn overflow() -> datafusion::common::DataFusionError {
    external(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow"))
}

/// The states in arrays of counts, sums and squares.
fn states(parts: &[ArrayRef]) -> DfResult<impl Iterator<Item = State> + '_> {
    let [count, sum, squares] = parts else { return Err(external(Error::bug("a state of other than three parts"))) };
    let part = |array: &'_ ArrayRef| array.as_primitive::<Float64Type>().clone();
    let (count, sum, squares) = (part(count), part(sum), part(squares));
    let state = move |row| State { count: count.value(row), sum: sum.value(row), squares: squares.value(row) };
    Ok((0..parts[0].len()).map(state))
}

/// Accumulates all rows.
#[derive(Debug)]
struct One {
    measure: Measure,
    state: State,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        values[0].as_primitive::<Float64Type>().iter().flatten().try_for_each(|value| self.state.add(value))
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> DfResult<()> {
        states(parts)?.try_for_each(|state| self.state.merge(state))
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let State { count, sum, squares } = self.state;
        Ok([count, sum, squares].map(|part| ScalarValue::Float64(Some(part))).into())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Float64(self.state.result(self.measure)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Accumulates the rows of groups.
#[derive(Debug)]
struct Many {
    measure: Measure,
    states: Vec<State>,
}

impl Many {
    fn taken(&mut self, emit: EmitTo) -> Vec<State> {
        emit.take_needed(&mut self.states)
    }

    fn each(
        &mut self,
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
        mut add: impl FnMut(&mut State, usize) -> DfResult<()>,
    ) -> DfResult<()> {
        self.states.resize(total, State::default());
        for (row, group) in groups.iter().enumerate() {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                add(&mut self.states[*group], row)?;
            }
        }
        Ok(())
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        let values = values[0].as_primitive::<Float64Type>();
        self.each(groups, filter, total, |state, row| match values.is_valid(row) {
            true => state.add(values.value(row)),
            false => Ok(()),
        })
    }

    fn merge_batch(&mut self, parts: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        let merged: Vec<State> = states(parts)?.collect();
        self.each(groups, None, total, |state, row| state.merge(merged[row]))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<Float64Type>();
        let mut each = Many { measure: self.measure, states: Vec::with_capacity(values.len()) };
        let rows: Vec<usize> = (0..values.len()).collect();
        each.each(&rows, filter, rows.len(), |state, row| match values.is_valid(row) {
            true => state.add(values.value(row)),
            false => Ok(()),
        })?;
        each.state(EmitTo::All)
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let measure = self.measure;
        let results = self.taken(emit).into_iter().map(|state| state.result(measure));
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let states = self.taken(emit);
        let part =
            |of: fn(&State) -> f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values(states.iter().map(of))) };
        Ok(vec![part(|state| state.count), part(|state| state.sum), part(|state| state.squares)])
    }

    fn size(&self) -> usize {
        self.states.capacity() * size_of::<State>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_the_same_however_the_rows_are_split() {
        let values = [100.0, 324.78, 0.09561, 42.0, -7.5];
        let whole = |measure, values: &[f64]| {
            let mut state = State::default();
            values.iter().for_each(|value| state.add(*value).unwrap());
            state.result(measure)
        };
        assert_eq!(whole(Measure::DeviationPop, &[100.0]), Some(0.0));
        assert_eq!(whole(Measure::DeviationSamp, &[100.0]), None);
        assert_eq!(whole(Measure::VariancePop, &[]), None);
        assert!(whole(Measure::VariancePop, &[f64::INFINITY, 1.0]).is_some_and(f64::is_nan));
        for at in 0..=values.len() {
            let (mut left, mut right) = (State::default(), State::default());
            values[..at].iter().for_each(|value| left.add(*value).unwrap());
            values[at..].iter().for_each(|value| right.add(*value).unwrap());
            left.merge(right).unwrap();
            let (merged, expected) =
                (left.result(Measure::VarianceSamp).unwrap(), whole(Measure::VarianceSamp, &values).unwrap());
            assert!((merged - expected).abs() < 1e-9 * expected, "{at}: {merged} {expected}");
        }
        let mut state = State::default();
        state.add(f64::MAX).unwrap();
        assert!(state.add(f64::MAX).is_err());
    }
}
