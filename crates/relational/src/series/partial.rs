//! Partial aggregate states computed from whole columns and merged into DataFusion's accumulators, which would
//! otherwise look up the group of each value.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType as Arrow, TimeUnit};

use super::groups::{Of, Source};

/// Assignment of rows to groups, none of which is empty.
pub(super) trait Grouped {
    /// Number of rows of each group.
    fn counts(&self) -> Vec<usize>;

    /// Folds the values of each group, starting from `none`, the state without values. Partial folds are combined
    /// with `join`.
    fn folded<T: Copy, A: Copy>(
        &self,
        values: &[T],
        none: A,
        fold: impl Fn(A, T) -> A,
        join: impl Fn(A, A) -> A,
    ) -> Vec<A>;
}

/// Aggregate state for the rows of each group; `None` if it cannot be computed from whole columns.
///
/// - `column`: argument of the aggregate, if it is a column.
/// - `types`: types of the state's parts.
pub(super) fn states(
    rows: &impl Grouped,
    source: Source,
    column: Option<&ArrayRef>,
    types: &[Arrow],
) -> Option<Vec<ArrayRef>> {
    let counts = || rows.counts().into_iter();
    let longs =
        || -> ArrayRef { Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(counts().map(|count| count as i64))) };
    let column = column.filter(|column| column.null_count() == 0);
    match (source, types) {
        (Source::Rows, [Arrow::Int64]) => Some(vec![longs()]),
        (Source::Count(_), [Arrow::Int64]) => column.map(|_| vec![longs()]),
        (Source::Sum(_), [ty]) => Some(vec![sums(rows, column?, ty)?]),
        (Source::Average(_), [Arrow::UInt64, ty @ Arrow::Float64]) => {
            let counts = PrimitiveArray::<UInt64Type>::from_iter_values(counts().map(|count| count as u64));
            Some(vec![Arc::new(counts), sums(rows, column?, ty)?])
        }
        (Source::Least(Of::Field(_)), [ty]) => Some(vec![extremes(rows, column?, ty, false)?]),
        (Source::Greatest(Of::Field(_)), [ty]) => Some(vec![extremes(rows, column?, ty, true)?]),
        _ => None,
    }
}

fn sums(rows: &impl Grouped, column: &ArrayRef, ty: &Arrow) -> Option<ArrayRef> {
    let sums: Vec<i64> = match (column.data_type(), ty) {
        (Arrow::Float64, Arrow::Float64) => return Some(float_sums::<Float64Type>(rows, column)),
        (Arrow::Float32, Arrow::Float64) => return Some(float_sums::<Float32Type>(rows, column)),
        (Arrow::Int16, _) => whole_sums::<Int16Type>(rows, column),
        (Arrow::Int32, _) => whole_sums::<Int32Type>(rows, column),
        (Arrow::Int64, Arrow::Int64) => whole_sums::<Int64Type>(rows, column),
        (Arrow::Int64, _) => exact_sums(rows, column)?,
        _ => return None,
    };
    match ty {
        Arrow::Int64 => Some(Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(sums))),
        Arrow::Decimal128(..) => {
            let sums = PrimitiveArray::<Decimal128Type>::from_iter_values(sums.into_iter().map(i128::from));
            Some(Arc::new(sums.with_data_type(ty.clone())))
        }
        // Larger sums have no exact float, and row-by-row addition would round differently.
        Arrow::Float64 if sums.iter().all(|sum| sum.unsigned_abs() < 1 << 53) => {
            let sums = sums.into_iter().map(|sum| sum as f64);
            Some(Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(sums)))
        }
        _ => None,
    }
}

fn float_sums<T: ArrowPrimitiveType<Native: Into<f64>>>(rows: &impl Grouped, column: &ArrayRef) -> ArrayRef {
    let values = column.as_primitive::<T>().values();
    let sums = rows.folded(values, 0.0, |sum: f64, value| sum + value.into(), |a, b| a + b);
    Arc::new(PrimitiveArray::<Float64Type>::from_iter_values(sums))
}

fn whole_sums<T: ArrowPrimitiveType<Native: Into<i64>>>(rows: &impl Grouped, column: &ArrayRef) -> Vec<i64> {
    let values = column.as_primitive::<T>().values();
    rows.folded(values, 0, |sum: i64, value| sum.wrapping_add(value.into()), i64::wrapping_add)
}

/// Returns `None` if a value is so large that a sum could wrap.
fn exact_sums(rows: &impl Grouped, column: &ArrayRef) -> Option<Vec<i64>> {
    let values = column.as_primitive::<Int64Type>().values();
    let all = values.iter().fold(0, |all, value| all | value.unsigned_abs());
    (all < 1 << 40).then(|| whole_sums::<Int64Type>(rows, column))
}

fn extremes(rows: &impl Grouped, column: &ArrayRef, ty: &Arrow, greatest: bool) -> Option<ArrayRef> {
    if column.data_type() != ty {
        return None;
    }
    match ty {
        Arrow::Int16 => Some(extremes_of::<Int16Type>(rows, column, [i16::MAX, i16::MIN], greatest)),
        Arrow::Int32 => Some(extremes_of::<Int32Type>(rows, column, [i32::MAX, i32::MIN], greatest)),
        Arrow::Int64 => Some(extremes_of::<Int64Type>(rows, column, [i64::MAX, i64::MIN], greatest)),
        Arrow::Timestamp(TimeUnit::Nanosecond, zone) => {
            let moments = extremes_of::<TimestampNanosecondType>(rows, column, [i64::MAX, i64::MIN], greatest);
            let moments = moments.as_primitive::<TimestampNanosecondType>().clone();
            Some(Arc::new(moments.with_timezone_opt(zone.clone())))
        }
        Arrow::Float32 => {
            float_extremes::<Float32Type>(rows, column, [f32::INFINITY, f32::NEG_INFINITY], greatest, f32::is_nan)
        }
        Arrow::Float64 => {
            float_extremes::<Float64Type>(rows, column, [f64::INFINITY, f64::NEG_INFINITY], greatest, f64::is_nan)
        }
        _ => None,
    }
}

/// `ends`: largest and smallest value of the type.
fn extremes_of<T: ArrowPrimitiveType<Native: PartialOrd>>(
    rows: &impl Grouped,
    column: &ArrayRef,
    ends: [T::Native; 2],
    greatest: bool,
) -> ArrayRef {
    let values = column.as_primitive::<T>().values();
    let least = |a: T::Native, b: T::Native| if b < a { b } else { a };
    let most = |a: T::Native, b: T::Native| if b > a { b } else { a };
    let extremes = match greatest {
        true => rows.folded(values, ends[1], most, most),
        false => rows.folded(values, ends[0], least, least),
    };
    Arc::new(PrimitiveArray::<T>::from_iter_values(extremes))
}

/// Returns `None` if a value is NaN or an extreme is a zero, whose sign would matter.
fn float_extremes<T: ArrowPrimitiveType<Native: PartialOrd>>(
    rows: &impl Grouped,
    column: &ArrayRef,
    ends: [T::Native; 2],
    greatest: bool,
    is_nan: fn(T::Native) -> bool,
) -> Option<ArrayRef> {
    let values = column.as_primitive::<T>().values();
    if values.iter().fold(false, |any, value| any | is_nan(*value)) {
        return None;
    }
    let extremes = extremes_of::<T>(rows, column, ends, greatest);
    let zero = T::Native::default();
    (!extremes.as_primitive::<T>().values().contains(&zero)).then_some(extremes)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
    use model::ColumnId;

    use super::super::few::Few;
    use super::super::runs::Runs;
    use super::*;

    const FIELD: ColumnId = ColumnId(1);

    fn sources() -> Vec<(Source, Vec<Arrow>)> {
        let float = || vec![Arrow::Float64];
        vec![
            (Source::Rows, vec![Arrow::Int64]),
            (Source::Count(Of::Field(FIELD)), vec![Arrow::Int64]),
            (Source::Sum(FIELD), float()),
            (Source::Sum(FIELD), vec![Arrow::Int64]),
            (Source::Average(FIELD), vec![Arrow::UInt64, Arrow::Float64]),
        ]
    }

    /// Dense grouping has the same states as one run for each group.
    #[test]
    fn runs_and_few_groups_have_the_states_that_each_groups_values_have() {
        for rows in [16usize, 67, 300] {
            let whole = || (0..rows as i32).map(|row| row * 7_919 % 1_000 - 500);
            let columns: [ArrayRef; 5] = [
                Arc::new(whole().map(|value| value as i16).collect::<Int16Array>()),
                Arc::new(whole().collect::<Int32Array>()),
                Arc::new(whole().map(i64::from).collect::<Int64Array>()),
                Arc::new(whole().map(|value| value as f32 + 0.5).collect::<Float32Array>()),
                Arc::new(whole().map(|value| f64::from(value) + 0.5).collect::<Float64Array>()),
            ];
            // Two of three numbers occur, and rows alternate.
            let numbers: Vec<u32> = (0..rows).map(|row| [0, 2][row % 2]).collect();
            let few = Few::of(Cow::Borrowed(&numbers), 3, |number| number as usize + 10);
            assert_eq!(few.groups, [10, 12]);
            assert_eq!(few.each(), numbers.iter().map(|number| *number as usize + 10).collect::<Vec<_>>());
            for column in columns {
                let mut sources = sources();
                let own = vec![column.data_type().clone()];
                sources.push((Source::Least(Of::Field(FIELD)), own.clone()));
                sources.push((Source::Greatest(Of::Field(FIELD)), own));
                for (source, types) in sources {
                    let seen = states(&few, source, Some(&column), &types);
                    let of = |parity: usize| {
                        let rows: Vec<u32> = (0..rows as u32).filter(|row| *row as usize % 2 == parity).collect();
                        let rows = arrow_array::UInt32Array::from(rows);
                        let column = datafusion::arrow::compute::take(&column, &rows, None).unwrap();
                        states(&Runs::one(column.len()), source, Some(&column), &types)
                    };
                    let expected = of(0).zip(of(1)).map(|(even, odd)| {
                        let parts = even.iter().zip(&odd);
                        parts.map(|(a, b)| datafusion::arrow::compute::concat(&[a, b]).unwrap()).collect::<Vec<_>>()
                    });
                    assert_eq!(seen, expected, "{source:?} of {column:?}");
                }
            }
        }
    }

    #[test]
    fn sums_and_extremes_of_a_run_are_these() {
        let column: ArrayRef = Arc::new(Float32Array::from_iter_values((1..=20).map(|value| value as f32)));
        let runs = Runs::one(20);
        let state = |source, types: &[Arrow]| states(&runs, source, Some(&column), types).unwrap();
        let counts: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![20]));
        let sums: ArrayRef = Arc::new(Float64Array::from(vec![210.0]));
        assert_eq!(state(Source::Average(FIELD), &[Arrow::UInt64, Arrow::Float64]), [counts, sums]);
        for (source, extreme) in [(Source::Least(Of::Field(FIELD)), 1.0), (Source::Greatest(Of::Field(FIELD)), 20.0)] {
            let expected: ArrayRef = Arc::new(Float32Array::from(vec![extreme]));
            assert_eq!(state(source, &[Arrow::Float32]), [expected]);
        }
    }

    #[test]
    fn what_accumulators_round_or_order_otherwise_is_left_to_them() {
        let least = Source::Least(Of::Field(FIELD));
        let large: ArrayRef = Arc::new(Int64Array::from(vec![1 << 60, 1]));
        let cases: [(Source, ArrayRef, Arrow); 4] = [
            (least, Arc::new(Float64Array::from(vec![f64::NAN, 1.0])), Arrow::Float64),
            (least, Arc::new(Float64Array::from(vec![-0.0, 1.0])), Arrow::Float64),
            (least, Arc::new(Float64Array::from(vec![Some(1.0), None])), Arrow::Float64),
            (Source::Sum(FIELD), large, Arrow::Float64),
        ];
        for (source, column, ty) in cases {
            let seen = states(&Runs::one(column.len()), source, Some(&column), &[ty]);
            assert_eq!(seen, None, "{source:?} of {column:?}");
        }
    }
}
