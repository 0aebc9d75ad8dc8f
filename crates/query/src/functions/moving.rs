//! Aggregates of floats over moving window frames that do not subtract rows which leave the frame.
//!
//! DataFusion subtracts them, and `1e20`, an infinity or NaN cannot be subtracted from a float: every later row of
//! the partition would be wrong. PostgreSQL recomputes each frame. Here the frame is a two-stack queue: the older
//! rows have a state for each suffix, the newer rows one state in total. Adding and removing a row costs amortised
//! constant time, and the state of the frame combines that of the longest suffix with that of the newer rows.
//!
//! Frames of up to [`IN_ORDER_MAX`] rows are aggregated in order for each row, which gives exactly PostgreSQL's
//! digits.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, FieldRef};
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};
use model::{Error, SqlState};

use super::external;

/// Maximum number of rows of a frame that is recomputed for each row.
const IN_ORDER_MAX: usize = 64;

/// Window function that replaces `inner`, if it aggregates floats.
///
/// `arguments`: argument types before coercion.
pub(crate) fn moving(inner: &Arc<AggregateUDF>, arguments: &[DataType]) -> Option<Arc<AggregateUDF>> {
    let kind = Kind::of(inner.name())?;
    // Sums of integers and decimals are exact, and so is subtraction from them. All other aggregates are computed in
    // floats.
    let is_ours = |ty: &DataType| match kind {
        Kind::Sum => ty.is_floating(),
        Kind::Average => ty.is_floating() || ty.is_integer(),
        _ => ty.is_numeric(),
    };
    if arguments.is_empty() || !arguments.iter().all(is_ours) || inner.inner().is::<Moving>() {
        return None;
    }
    Some(Arc::new(AggregateUDF::new_from_impl(Moving { kind, inner: AggregateUDF::clone(inner) })))
}

/// Supported aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Average,
    VarianceOfSample,
    Variance,
    DeviationOfSample,
    Deviation,
    CovarianceOfSample,
    Covariance,
    Correlation,
    Slope,
    Intercept,
    Count,
    Determination,
    AverageX,
    AverageY,
    SumXx,
    SumYy,
    SumXy,
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "sum" => Kind::Sum,
            "avg" | "mean" => Kind::Average,
            "var" | "var_samp" | "var_sample" | "variance" => Kind::VarianceOfSample,
            "var_pop" | "var_population" => Kind::Variance,
            "stddev" | "stddev_samp" => Kind::DeviationOfSample,
            "stddev_pop" => Kind::Deviation,
            "covar" | "covar_samp" => Kind::CovarianceOfSample,
            "covar_pop" => Kind::Covariance,
            "corr" => Kind::Correlation,
            "regr_slope" => Kind::Slope,
            "regr_intercept" => Kind::Intercept,
            "regr_count" => Kind::Count,
            "regr_r2" => Kind::Determination,
            "regr_avgx" => Kind::AverageX,
            "regr_avgy" => Kind::AverageY,
            "regr_sxx" => Kind::SumXx,
            "regr_syy" => Kind::SumYy,
            "regr_sxy" => Kind::SumXy,
            _ => return None,
        })
    }

    /// Result for a state, by PostgreSQL's rules (`float.c`).
    fn result(self, state: &State) -> Option<f64> {
        let State { n, sum_x, sum_y, xx, yy, xy, .. } = *state;
        match self {
            Kind::Count => return Some(n),
            Kind::VarianceOfSample | Kind::DeviationOfSample | Kind::CovarianceOfSample if n < 2.0 => return None,
            _ if n < 1.0 => return None,
            _ => {}
        }
        Some(match self {
            Kind::Sum => sum_x,
            Kind::Average | Kind::AverageX => sum_x / n,
            Kind::AverageY => sum_y / n,
            Kind::VarianceOfSample => xx / (n - 1.0),
            Kind::Variance => xx / n,
            Kind::DeviationOfSample => (xx / (n - 1.0)).sqrt(),
            Kind::Deviation => (xx / n).sqrt(),
            Kind::CovarianceOfSample => xy / (n - 1.0),
            Kind::Covariance => xy / n,
            Kind::SumXx => xx,
            Kind::SumYy => yy,
            Kind::SumXy => xy,
            Kind::Count => n,
            // A vertical line has no slope. A horizontal line has a slope but no correlation.
            _ if xx == 0.0 => return None,
            Kind::Correlation if yy == 0.0 => return None,
            Kind::Correlation => xy / (xx * yy).sqrt(),
            Kind::Determination if yy == 0.0 => 1.0,
            Kind::Determination => (xy * xy) / (xx * yy),
            Kind::Slope => xy / xx,
            Kind::Intercept => (sum_y - sum_x * xy / xx) / n,
        })
    }

    /// Whether it has two arguments, Y and X.
    fn is_of_pairs(self) -> bool {
        use Kind::{Average, Deviation, DeviationOfSample, Sum, Variance, VarianceOfSample};
        !matches!(self, Sum | Average | Variance | VarianceOfSample | Deviation | DeviationOfSample)
    }
}

/// Count, sums, and sums of squared deviations from the mean (Youngs and Cramer), of consecutive rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct State {
    n: f64,
    sum_x: f64,
    sum_y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
    /// Whether a value was an infinity or NaN.
    has_special: bool,
}

impl State {
    fn add(&mut self, x: f64, y: f64) {
        self.has_special |= !x.is_finite() || !y.is_finite();
        self.n += 1.0;
        self.sum_x += x;
        self.sum_y += y;
        if self.n > 1.0 {
            let (x, y) = (x * self.n - self.sum_x, y * self.n - self.sum_y);
            let scale = 1.0 / (self.n * (self.n - 1.0));
            self.xx += x * x * scale;
            self.yy += y * y * scale;
            self.xy += x * y * scale;
        }
        self.spoil();
    }

    /// Squared deviations of infinities are NaN.
    fn spoil(&mut self) {
        if self.has_special {
            let of = |sum: f64, squares: f64| if sum.is_finite() { squares } else { f64::NAN };
            (self.xx, self.yy) = (of(self.sum_x, self.xx), of(self.sum_y, self.yy));
            self.xy = of(self.sum_x, of(self.sum_y, self.xy));
        }
    }

    /// State of the rows of both.
    fn with(&self, other: &State) -> State {
        if self.n == 0.0 {
            return *other;
        }
        if other.n == 0.0 {
            return *self;
        }
        let n = self.n + other.n;
        let (x, y) = (self.sum_x / self.n - other.sum_x / other.n, self.sum_y / self.n - other.sum_y / other.n);
        let scale = self.n * other.n / n;
        let mut both = State {
            n,
            sum_x: self.sum_x + other.sum_x,
            sum_y: self.sum_y + other.sum_y,
            xx: self.xx + other.xx + x * x * scale,
            yy: self.yy + other.yy + y * y * scale,
            xy: self.xy + other.xy + x * y * scale,
            has_special: self.has_special || other.has_special,
        };
        both.spoil();
        both
    }

    fn of(pair: Option<(f64, f64)>) -> State {
        let mut state = State::default();
        if let Some((x, y)) = pair {
            state.add(x, y);
        }
        state
    }
}

/// Rows of a frame, oldest first.
#[derive(Debug)]
struct Frame {
    kind: Kind,
    /// Result type.
    ty: DataType,
    /// X and Y of each row; `None` for a row with a NULL, which is ignored.
    rows: VecDeque<Option<(f64, f64)>>,
    /// States of all suffixes of the older rows; the longest suffix is last.
    older: Vec<State>,
    /// State of the rows after the older ones.
    newer: State,
    /// State updates and combinations, counted for tests.
    steps: u64,
}

impl Frame {
    fn new(kind: Kind, ty: DataType) -> Frame {
        Frame { kind, ty, rows: VecDeque::new(), older: Vec::new(), newer: State::default(), steps: 0 }
    }

    fn push(&mut self, pair: Option<(f64, f64)>) {
        self.rows.push_back(pair);
        if let Some((x, y)) = pair {
            self.newer.add(x, y);
            self.steps += 1;
        }
    }

    fn pop(&mut self) {
        if self.older.is_empty() {
            let mut suffix = State::default();
            for pair in self.rows.iter().rev() {
                suffix = State::of(*pair).with(&suffix);
                self.older.push(suffix);
            }
            self.steps += self.rows.len() as u64;
            self.newer = State::default();
        }
        self.older.pop();
        self.rows.pop_front();
    }

    fn state(&mut self) -> State {
        if self.rows.len() > IN_ORDER_MAX {
            self.steps += 1;
            return self.older.last().map_or(self.newer, |older| older.with(&self.newer));
        }
        let mut state = State::default();
        self.rows.iter().flatten().for_each(|(x, y)| state.add(*x, *y));
        state
    }

    /// X and Y for each row of a batch; Y is zero for aggregates of one argument.
    fn pairs(&self, values: &[ArrayRef]) -> Result<Vec<Option<(f64, f64)>>> {
        let floats = |array: &ArrayRef| cast(array, &DataType::Float64);
        Ok(match values {
            [y, x, ..] if self.kind.is_of_pairs() => {
                let (y, x) = (floats(y)?, floats(x)?);
                let both = x.as_primitive::<Float64Type>().iter().zip(y.as_primitive::<Float64Type>());
                both.map(|(x, y)| x.zip(y)).collect()
            }
            [x, ..] => floats(x)?.as_primitive::<Float64Type>().iter().map(|x| x.map(|x| (x, 0.0))).collect(),
            [] => Vec::new(),
        })
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for pair in self.pairs(values)? {
            self.push(pair);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let leaving = values.first().map_or(0, |values| values.len());
        for _ in 0..leaving.min(self.rows.len()) {
            self.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.state();
        let result = self.kind.result(&state);
        if result.is_some_and(f64::is_infinite) && !state.has_special {
            return Err(external(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow")));
        }
        ScalarValue::Float64(result).cast_to(&self.ty)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(external(Error::bug("a window frame is not aggregated in parts")))
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        Err(external(Error::bug("a window frame is not aggregated in parts")))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<Option<(f64, f64)>>()
            + self.older.capacity() * size_of::<State>()
    }
}

/// A DataFusion aggregate that uses [`Frame`] for window frames.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    kind: Kind,
    inner: AggregateUDF,
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::new(self.kind, args.return_field.data_type().clone())))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(ty)
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::Float64Array;

    use super::*;

    /// Results of frames of `width` rows that end at each row, and the number of steps.
    fn slide(kind: Kind, values: &[f64], width: usize) -> (Vec<Option<f64>>, u64) {
        let mut frame = Frame::new(kind, DataType::Float64);
        let array = |at: usize| -> Vec<ArrayRef> {
            let one: ArrayRef = Arc::new(Float64Array::from(vec![values[at]]));
            vec![Arc::clone(&one), one]
        };
        let results = (0..values.len()).map(|at| {
            frame.update_batch(&array(at)).unwrap();
            if at >= width {
                frame.retract_batch(&array(at - width)).unwrap();
            }
            match frame.evaluate().unwrap() {
                ScalarValue::Float64(result) => result,
                other => panic!("{other}"),
            }
        });
        let results = results.collect();
        (results, frame.steps)
    }

    /// Regression F18: `avg(v) OVER (ROWS BETWEEN n PRECEDING AND CURRENT ROW)` returned 0 or NaN for every row after
    /// an outlier.
    #[test]
    fn a_value_that_left_the_frame_leaves_no_trace() {
        for width in [1, 3, 64, 65, 100, 1000] {
            for outlier in [1e20, -1e150, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                let mut values: Vec<f64> = (0..3 * width).map(|at| (at % 7) as f64).collect();
                let clean = values.clone();
                values[width / 2] = outlier;
                for kind in [Kind::Sum, Kind::Average, Kind::Variance, Kind::Deviation, Kind::Slope, Kind::SumXy] {
                    let (with, without) = (slide(kind, &values, width).0, slide(kind, &clean, width).0);
                    for at in width / 2 + width..values.len() {
                        let same = match (with[at], without[at]) {
                            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                            (a, b) => a == b,
                        };
                        assert!(
                            same,
                            "{kind:?} of {width} rows with {outlier} at {at}: {:?} {:?}",
                            with[at], without[at]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn frames_give_what_their_rows_give_alone() {
        let values: Vec<f64> = (0..500_i32).map(|at| f64::from(at.wrapping_mul(7919) % 101) / 8.0).collect();
        for kind in [Kind::Sum, Kind::Average, Kind::VarianceOfSample, Kind::DeviationOfSample, Kind::Covariance] {
            for width in [2, 63, 64, 65, 200] {
                let (results, _) = slide(kind, &values, width);
                for (at, result) in results.iter().enumerate() {
                    let mut state = State::default();
                    values[(at + 1).saturating_sub(width)..=at].iter().for_each(|x| state.add(*x, *x));
                    let expected = kind.result(&state);
                    let close = match (result, expected) {
                        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * b.abs().max(1.0),
                        (a, b) => *a == b,
                    };
                    assert!(close, "{kind:?} {width} {at}: {result:?} {expected:?}");
                }
            }
        }
    }

    /// Cost per row does not depend on the size of the frame.
    #[test]
    fn work_does_not_grow_with_the_frame() {
        let values: Vec<f64> = (0..50_000).map(f64::from).collect();
        let steps = |width| slide(Kind::Average, &values, width).1;
        assert!(steps(1_000) <= 3 * 50_000, "{}", steps(1_000));
        assert!(steps(10_000) <= 3 * 50_000, "{}", steps(10_000));
    }

    #[test]
    fn sums_beyond_the_range_of_floats_fail_and_infinities_do_not() {
        let mut frame = Frame::new(Kind::Sum, DataType::Float64);
        let array = |value: f64| -> Vec<ArrayRef> { vec![Arc::new(Float64Array::from(vec![value]))] };
        frame.update_batch(&array(1.7e308)).unwrap();
        frame.update_batch(&array(1.7e308)).unwrap();
        assert!(frame.evaluate().is_err());
        frame.retract_batch(&array(1.7e308)).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(1.7e308)));
        frame.update_batch(&array(f64::INFINITY)).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(f64::INFINITY)));
    }
}
