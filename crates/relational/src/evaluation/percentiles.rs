//! `percentile_cont` of floats in groups: 8 bytes for each value, and time linear in their number.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array};
use catalog::{TypeId, builtin};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use model::{Error, Result};
use scalar::continuous_percentile;

use super::accumulate::{Spec, out_of_memory};
use crate::errors::external;

/// Whether an aggregate is one that this module computes: of one fraction and floats.
pub(super) fn computes(spec: &Spec) -> bool {
    let name = builtin().function_row(spec.call.function).map_or("", |row| row.name);
    let [order] = spec.order.as_slice() else { return false };
    name == "percentile_cont"
        && spec.within_group
        && !spec.distinct
        && order.ty == TypeId::FLOAT8
        && spec.arguments.as_slice() == [TypeId::FLOAT8]
}

/// The values of groups.
#[derive(Debug, Default)]
pub(super) struct Percentiles {
    is_descending: bool,
    groups: Vec<Group>,
    /// Bytes of all values.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Group {
    /// `None` for NULL.
    fraction: Option<f64>,
    values: Vec<f64>,
}

impl Percentiles {
    /// Precondition: [`computes`].
    pub(super) fn new(spec: &Spec) -> Percentiles {
        let is_descending = spec.order.first().is_some_and(|order| order.descending);
        Percentiles { is_descending, ..Percentiles::default() }
    }
}

impl GroupsAccumulator for Percentiles {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        let [fractions, values] = columns else { return Err(external(Error::bug("a percentile of other columns"))) };
        let (fractions, values) = (fractions.as_primitive::<Float64Type>(), values.as_primitive::<Float64Type>());
        self.groups.resize_with(total, Group::default);
        for (row, group) in groups.iter().enumerate() {
            if values.is_null(row) || filter.is_some_and(|filter| filter.is_null(row) || !filter.value(row)) {
                continue;
            }
            let group = &mut self.groups[*group];
            if group.values.is_empty() {
                group.fraction = fractions.is_valid(row).then(|| fractions.value(row));
            }
            let before = group.values.capacity();
            group.values.push(values.value(row));
            self.bytes += (group.values.capacity() - before) * size_of::<f64>();
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let is_descending = self.is_descending;
        let groups = emit.take_needed(&mut self.groups);
        let result = |group: Group| -> Result<Option<f64>> {
            let mut values = group.values;
            let Some(fraction) = group.fraction.filter(|_| !values.is_empty()) else { return Ok(None) };
            continuous_percentile(&mut values, fraction, is_descending).map(Some)
        };
        let results = groups.into_iter().map(result).collect::<Result<Float64Array>>();
        self.bytes = self.groups.iter().map(|group| group.values.capacity() * size_of::<f64>()).sum();
        Ok(Arc::new(results.map_err(external)?))
    }

    fn state(&mut self, _: EmitTo) -> DfResult<Vec<ArrayRef>> {
        Err(external(out_of_memory()))
    }

    fn merge_batch(&mut self, _: &[ArrayRef], _: &[usize], _: usize) -> DfResult<()> {
        Err(external(Error::bug("merging the states of an aggregate")))
    }

    fn convert_to_state(&self, _: &[ArrayRef], _: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        Err(external(Error::bug("the state of a row of an aggregate of one phase")))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Group>() + self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_has_its_values_and_fraction_and_nulls_are_left_out() {
        let mut percentiles = Percentiles::default();
        let fractions: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(0.5), Some(0.5), Some(0.5), Some(0.5), None, Some(0.5)]));
        let values: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(4.0), Some(1.0), None, Some(2.0), Some(7.0), Some(9.0)]));
        let filter = BooleanArray::from(vec![true, true, true, true, true, false]);
        percentiles.update_batch(&[fractions, values], &[0, 0, 0, 0, 1, 2], Some(&filter), 3).unwrap();
        assert!(percentiles.size() >= 4 * 8);
        let found = percentiles.evaluate(EmitTo::First(1)).unwrap();
        assert_eq!(found.as_primitive::<Float64Type>().value(0), 2.0);
        let rest = percentiles.evaluate(EmitTo::All).unwrap();
        assert_eq!(rest.null_count(), 2);
    }
}
