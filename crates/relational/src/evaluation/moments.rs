//! Statistics of floats by whole columns: `stddev`, `variance`, `corr`, `covar_…` and `regr_…`, with PostgreSQL's method and so its
//! rounding. Crate `scalar` has the sums and the statistics; here are their accumulators.

use std::hash::{Hash, Hasher};
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
use model::{Error, Result};
use scalar::{FloatMoments, Pairs, moment_statistic, pair_statistic};

use crate::errors::external;

/// The aggregate of a name in `pg_proc`, and the number of its float arguments; `None` if it is none of these.
pub(crate) fn named(name: &'static str) -> Option<(Arc<AggregateUDF>, usize)> {
    let moments = moment_statistic(name).map(|of| (Statistic { name, of }.udf(), FloatMoments::ARGUMENTS));
    moments.or_else(|| pair_statistic(name).map(|of| (Statistic { name, of }.udf(), Pairs::ARGUMENTS)))
}

/// Sums over rows of floats.
trait Sums: Copy + Default + std::fmt::Debug + Send + Sync + 'static {
    /// Floats of a row.
    const ARGUMENTS: usize;
    /// Names of the parts of the state.
    const PARTS: &'static [&'static str];

    /// Adds a row of the arguments in their order.
    fn add(&mut self, row: [f64; 2]) -> Result<()>;

    fn merge(&mut self, other: &Self) -> Result<()>;

    /// A part of the state.
    fn part(&self, at: usize) -> f64;

    fn of_parts(part: impl Fn(usize) -> f64) -> Self;
}

impl Sums for FloatMoments {
    const ARGUMENTS: usize = 1;
    const PARTS: &'static [&'static str] = &["count", "sum", "squares"];

    fn add(&mut self, [value, _]: [f64; 2]) -> Result<()> {
        FloatMoments::add(self, value)
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        self.combine(other)
    }

    fn part(&self, at: usize) -> f64 {
        self.state()[at]
    }

    fn of_parts(part: impl Fn(usize) -> f64) -> Self {
        FloatMoments::of_state(std::array::from_fn(part))
    }
}

impl Sums for Pairs {
    const ARGUMENTS: usize = 2;
    const PARTS: &'static [&'static str] = &["count", "sum_x", "squares_x", "sum_y", "squares_y", "products"];

    fn add(&mut self, [y, x]: [f64; 2]) -> Result<()> {
        Pairs::add(self, x, y)
    }

    fn merge(&mut self, other: &Self) -> Result<()> {
        self.combine(other)
    }

    fn part(&self, at: usize) -> f64 {
        self.state()[at]
    }

    fn of_parts(part: impl Fn(usize) -> f64) -> Self {
        Pairs::of_state(std::array::from_fn(part))
    }
}

/// An aggregate that returns a statistic of sums.
struct Statistic<S> {
    name: &'static str,
    of: fn(&S) -> Option<f64>,
}

impl<S> Clone for Statistic<S> {
    fn clone(&self) -> Statistic<S> {
        Statistic { name: self.name, of: self.of }
    }
}

impl<S> std::fmt::Debug for Statistic<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl<S: Sums> Statistic<S> {
    fn udf(self) -> Arc<AggregateUDF> {
        let signature = Signature::exact(vec![DataType::Float64; S::ARGUMENTS], Volatility::Immutable);
        // The name differs from those of DataFusion, whose results do.
        let name = format!("float_{}", self.name);
        Arc::new(AggregateUDF::from(Function { statistic: self, name, signature }))
    }
}

#[derive(Debug)]
struct Function<S> {
    statistic: Statistic<S>,
    name: String,
    signature: Signature,
}

impl<S> PartialEq for Function<S> {
    fn eq(&self, other: &Function<S>) -> bool {
        self.name == other.name
    }
}

impl<S> Eq for Function<S> {}

impl<S> Hash for Function<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl<S: Sums> AggregateUDFImpl for Function<S> {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let field = |part: &&str| Arc::new(Field::new(format!("{}[{part}]", arguments.name), DataType::Float64, true));
        Ok(S::PARTS.iter().map(field).collect())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(One { statistic: self.statistic.clone(), sums: S::default() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many { statistic: self.statistic.clone(), sums: Vec::new() }))
    }
}

/// The arguments of rows; a row with a NULL has none.
struct Rows<'a> {
    /// The last column stands for further ones that the function does not have.
    columns: [&'a Float64Array; 2],
    has_nulls: bool,
}

impl<'a> Rows<'a> {
    fn of(columns: &'a [ArrayRef]) -> DfResult<Rows<'a>> {
        let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
            return Err(external(Error::bug("a statistic without arguments")));
        };
        let columns = [first, last].map(|column| column.as_primitive::<Float64Type>());
        Ok(Rows { columns, has_nulls: columns.iter().any(|column| column.null_count() > 0) })
    }

    fn len(&self) -> usize {
        self.columns[0].len()
    }

    fn row(&self, at: usize) -> Option<[f64; 2]> {
        let is_null = self.has_nulls && self.columns.iter().any(|column| column.is_null(at));
        (!is_null).then(|| self.columns.map(|column| column.value(at)))
    }
}

/// The sums in arrays of their parts.
fn states<S: Sums>(parts: &[ArrayRef]) -> DfResult<impl Iterator<Item = S> + '_> {
    if parts.len() != S::PARTS.len() {
        return Err(external(Error::bug("a state with other parts")));
    }
    let parts: Vec<&Float64Array> = parts.iter().map(|part| part.as_primitive::<Float64Type>()).collect();
    let rows = parts.first().map_or(0, |part| part.len());
    Ok((0..rows).map(move |row| S::of_parts(|at| parts[at].value(row))))
}

/// Accumulates all rows.
#[derive(Debug)]
struct One<S> {
    statistic: Statistic<S>,
    sums: S,
}

impl<S: Sums> Accumulator for One<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let rows = Rows::of(values)?;
        (0..rows.len()).filter_map(|at| rows.row(at)).try_for_each(|row| self.sums.add(row)).map_err(external)
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> DfResult<()> {
        states::<S>(parts)?.try_for_each(|sums| self.sums.merge(&sums)).map_err(external)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok((0..S::PARTS.len()).map(|at| ScalarValue::Float64(Some(self.sums.part(at)))).collect())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Float64((self.statistic.of)(&self.sums)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Accumulates the rows of groups.
#[derive(Debug)]
struct Many<S> {
    statistic: Statistic<S>,
    sums: Vec<S>,
}

impl<S: Sums> Many<S> {
    fn add(
        &mut self,
        rows: &Rows<'_>,
        groups: impl Iterator<Item = usize>,
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.sums.resize(total, S::default());
        for (at, group) in groups.enumerate() {
            if filter.is_some_and(|filter| filter.is_null(at) || !filter.value(at)) {
                continue;
            }
            if let Some(row) = rows.row(at) {
                self.sums[group].add(row).map_err(external)?;
            }
        }
        Ok(())
    }
}

impl<S: Sums> GroupsAccumulator for Many<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.add(&Rows::of(values)?, groups.iter().copied(), filter, total)
    }

    fn merge_batch(&mut self, parts: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.sums.resize(total, S::default());
        let mut merged = states::<S>(parts)?.zip(groups);
        merged.try_for_each(|(sums, group)| self.sums[*group].merge(&sums)).map_err(external)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let rows = Rows::of(values)?;
        let mut each = Many { statistic: self.statistic.clone(), sums: Vec::new() };
        each.add(&rows, 0..rows.len(), filter, rows.len())?;
        each.state(EmitTo::All)
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        Ok(Arc::new(sums.iter().map(self.statistic.of).collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let sums = emit.take_needed(&mut self.sums);
        let part =
            |at: usize| -> ArrayRef { Arc::new(Float64Array::from_iter_values(sums.iter().map(|one| one.part(at)))) };
        Ok((0..S::PARTS.len()).map(part).collect())
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<S>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(rows: &[(f64, f64)]) -> [ArrayRef; 2] {
        let column =
            |of: fn(&(f64, f64)) -> f64| -> ArrayRef { Arc::new(Float64Array::from_iter_values(rows.iter().map(of))) };
        [column(|row| row.0), column(|row| row.1)]
    }

    #[test]
    fn statistics_are_the_same_however_the_rows_are_split() {
        let rows = [(100.0, 1.0), (324.78, 2.5), (0.09561, -3.0), (42.0, 8.0), (-7.5, 0.25)];
        let of = pair_statistic("corr").unwrap();
        let many = || Many::<Pairs> { statistic: Statistic { name: "corr", of }, sums: Vec::new() };
        let result = |mut many: Many<Pairs>| many.evaluate(EmitTo::All).unwrap().as_primitive::<Float64Type>().value(0);
        let mut whole = many();
        whole.update_batch(&columns(&rows), &[0; 5], None, 1).unwrap();
        let whole = result(whole);
        for at in 0..=rows.len() {
            let (left, right) = rows.split_at(at);
            let mut merged = many();
            merged.update_batch(&columns(left), &vec![0; left.len()], None, 1).unwrap();
            let parts = merged.convert_to_state(&columns(right), None).unwrap();
            merged.merge_batch(&parts, &vec![0; right.len()], 1).unwrap();
            let merged = result(merged);
            assert!((merged - whole).abs() < 1e-12, "{at}: {merged} {whole}");
        }
    }

    #[test]
    fn rows_with_nulls_and_those_of_a_filter_are_left_out_and_an_overflow_is_an_error() {
        let of = moment_statistic("stddev_pop").unwrap();
        let mut many = Many::<FloatMoments> { statistic: Statistic { name: "stddev_pop", of }, sums: Vec::new() };
        let values: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(50.0)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), Some(true), None]);
        many.update_batch(&[values], &[0, 0, 0, 1], Some(&filter), 2).unwrap();
        let found = many.evaluate(EmitTo::All).unwrap();
        let found: Vec<Option<f64>> = found.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(found, [Some(1.0), None]);
        let large: ArrayRef = Arc::new(Float64Array::from(vec![f64::MAX, f64::MAX]));
        assert!(many.update_batch(&[large], &[0, 0], None, 1).is_err());
    }
}
