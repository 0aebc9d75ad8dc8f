//! Rows of one group that follow each other: sums and extremes of the run are made in one go and merged as a partial aggregate is,
//! where the accumulators would look up the group of each value.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType as Arrow, TimeUnit};

use super::groups::{Of, Source};

/// Runs have so many rows on average, or are not worth it.
const ROWS_MIN: usize = 16;

/// Neighbouring rows of one group.
pub(super) struct Runs {
    ranges: Vec<Range<usize>>,
    /// Of each run.
    pub(super) groups: Vec<usize>,
}

impl Runs {
    /// `None` where they are short.
    pub(super) fn of(groups: &[usize]) -> Option<Runs> {
        let mut runs = Runs { ranges: Vec::new(), groups: Vec::new() };
        let mut start = 0;
        for run in groups.chunk_by(|a, b| a == b) {
            runs.ranges.push(start..start + run.len());
            runs.groups.push(run[0]);
            start += run.len();
            if runs.groups.len() * ROWS_MIN > groups.len() {
                return None;
            }
        }
        Some(runs)
    }

    /// The state of an aggregate after each run; `None` where it is not simply told.
    ///
    /// - `column`: what is aggregated, if that is one.
    /// - `types`: of the state's parts.
    pub(super) fn states(&self, source: Source, column: Option<&ArrayRef>, types: &[Arrow]) -> Option<Vec<ArrayRef>> {
        let counts = || self.ranges.iter().map(Range::len);
        let column = column.filter(|column| column.null_count() == 0);
        match (source, types) {
            (Source::Rows, [Arrow::Int64]) => Some(vec![longs(counts())]),
            (Source::Count(_), [Arrow::Int64]) => column.map(|_| vec![longs(counts())]),
            (Source::Sum(_), [ty]) => Some(vec![self.sums(column?, ty)?]),
            (Source::Average(_), [Arrow::UInt64, ty @ Arrow::Float64]) => {
                let counts = PrimitiveArray::<UInt64Type>::from_iter_values(counts().map(|count| count as u64));
                Some(vec![Arc::new(counts), self.sums(column?, ty)?])
            }
            (Source::Least(Of::Field(_)), [ty]) => Some(vec![self.extremes(column?, ty, false)?]),
            (Source::Greatest(Of::Field(_)), [ty]) => Some(vec![self.extremes(column?, ty, true)?]),
            _ => None,
        }
    }

    fn sums(&self, column: &ArrayRef, ty: &Arrow) -> Option<ArrayRef> {
        if let (Arrow::Float64, Arrow::Float64) = (column.data_type(), ty) {
            let values = column.as_primitive::<Float64Type>().values();
            let sums = self.ranges.iter().map(|range| sum(&values[range.clone()]));
            return Some(Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(sums)));
        }
        let sums: Vec<i64> = match column.data_type() {
            Arrow::Int16 => self.whole_sums::<Int16Type>(column),
            Arrow::Int32 => self.whole_sums::<Int32Type>(column),
            Arrow::Int64 if *ty == Arrow::Int64 => self.whole_sums::<Int64Type>(column),
            Arrow::Int64 => self.exact_sums(column)?,
            _ => return None,
        };
        match ty {
            Arrow::Int64 => Some(Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(sums))),
            // Larger ones have no exact float, and row by row they would be rounded otherwise.
            Arrow::Float64 if sums.iter().all(|sum| sum.unsigned_abs() < 1 << 53) => {
                let sums = sums.into_iter().map(|sum| sum as f64);
                Some(Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(sums)))
            }
            _ => None,
        }
    }

    fn whole_sums<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, column: &ArrayRef) -> Vec<i64> {
        let values = column.as_primitive::<T>().values();
        let sum = |range: &Range<usize>| {
            values[range.clone()].iter().fold(0i64, |sum, value| sum.wrapping_add((*value).into()))
        };
        self.ranges.iter().map(sum).collect()
    }

    /// Of values so small that no sum can wrap.
    fn exact_sums(&self, column: &ArrayRef) -> Option<Vec<i64>> {
        let values = column.as_primitive::<Int64Type>().values();
        let all = values.iter().fold(0, |all, value| all | value.unsigned_abs());
        (all < 1 << 40).then(|| self.whole_sums::<Int64Type>(column))
    }

    fn extremes(&self, column: &ArrayRef, ty: &Arrow, greatest: bool) -> Option<ArrayRef> {
        if column.data_type() != ty {
            return None;
        }
        match ty {
            Arrow::Int16 => Some(self.extremes_of::<Int16Type>(column, greatest)),
            Arrow::Int32 => Some(self.extremes_of::<Int32Type>(column, greatest)),
            Arrow::Int64 => Some(self.extremes_of::<Int64Type>(column, greatest)),
            Arrow::Timestamp(TimeUnit::Nanosecond, zone) => {
                let moments = self.extremes_of::<TimestampNanosecondType>(column, greatest);
                let moments = moments.as_primitive::<TimestampNanosecondType>().clone();
                Some(Arc::new(moments.with_timezone_opt(zone.clone())))
            }
            Arrow::Float32 => self.float_extremes::<Float32Type>(column, greatest, |value| value.into()),
            Arrow::Float64 => self.float_extremes::<Float64Type>(column, greatest, |value| value),
            _ => None,
        }
    }

    fn extremes_of<T: ArrowPrimitiveType<Native: Ord>>(&self, column: &ArrayRef, greatest: bool) -> ArrayRef {
        let values = column.as_primitive::<T>().values();
        let extreme = |range: &Range<usize>| {
            let values = &values[range.clone()];
            let pick = |a: T::Native, b: &T::Native| if greatest { a.max(*b) } else { a.min(*b) };
            values[1..].iter().fold(values[0], pick)
        };
        Arc::new(PrimitiveArray::<T>::from_iter_values(self.ranges.iter().map(extreme)))
    }

    /// Not of NaN, nor where the sign of a zero would matter.
    fn float_extremes<T: ArrowPrimitiveType<Native: PartialOrd>>(
        &self,
        column: &ArrayRef,
        greatest: bool,
        wide: fn(T::Native) -> f64,
    ) -> Option<ArrayRef> {
        let values = column.as_primitive::<T>().values();
        let mut extremes = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            let values = &values[range.clone()];
            let mut extreme = values[0];
            let mut is_number = true;
            for value in values {
                is_number &= !wide(*value).is_nan();
                let takes = if greatest { *value > extreme } else { *value < extreme };
                extreme = if takes { *value } else { extreme };
            }
            if !is_number || wide(extreme) == 0.0 {
                return None;
            }
            extremes.push(extreme);
        }
        Some(Arc::new(PrimitiveArray::<T>::from_iter_values(extremes)))
    }
}

fn longs(values: impl Iterator<Item = usize>) -> ArrayRef {
    Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(values.map(|value| value as i64)))
}

/// Eight sums at a time, so that additions do not wait for each other.
fn sum(values: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let parts = values.chunks_exact(8);
    let rest: f64 = parts.remainder().iter().sum();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, value)| *sum += value);
    }
    sums.into_iter().sum::<f64>() + rest
}
