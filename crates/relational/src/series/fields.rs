//! Grouping keys made of fields: distinct values are numbered in order of first occurrence. DataFusion's
//! `GroupValues` defines equality; it is called once per dictionary entry, once per distinct integer of a narrow
//! range, otherwise once per row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Int16Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow_schema::{DataType as Arrow, Field, Schema};
use datafusion::arrow::compute::take;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use model::{Error, Result};
use rustc_hash::FxHashMap;

use crate::errors::OrError;
use crate::scan::columns_table::relabel;

/// Maximum range of integers that are numbered through a direct look-up table.
const CLOSE_NUMBERS_MAX: usize = 4_096;

/// Numbers for the combined values of all GROUP BY fields.
pub(super) struct Fields {
    each: Vec<Values>,
    /// For each field after the first: maps the number of the preceding fields and the number of its value to a
    /// combined number.
    pairs: Vec<Pairs>,
}

/// Distinct values of one field.
struct Values {
    /// Position among the columns read.
    at: usize,
    ty: Arrow,
    known: Box<dyn GroupValues>,
}

#[derive(Default)]
struct Pairs {
    number_of: FxHashMap<(u32, u32), u32>,
    list: Vec<(u32, u32)>,
}

impl Pairs {
    fn number(&mut self, pair: (u32, u32)) -> u32 {
        let list = &mut self.list;
        *self.number_of.entry(pair).or_insert_with(|| {
            list.push(pair);
            list.len() as u32 - 1
        })
    }
}

impl Values {
    fn new(at: usize, ty: &Arrow) -> Result<Values> {
        let schema = Arc::new(Schema::new(vec![Field::new("field", ty.clone(), true)]));
        let known = new_group_values(schema, &GroupOrdering::None).or_error()?;
        Ok(Values { at, ty: ty.clone(), known })
    }

    /// Numbers of the dictionary's entries, and the rows' keys; `None` if the array is no dictionary with 32-bit keys
    /// or has NULLs.
    fn coded<'a>(&mut self, array: &'a ArrayRef) -> Result<Option<(Vec<u32>, &'a [u32])>> {
        let Some(coded) = array.as_any_dictionary_opt().filter(|coded| coded.keys().null_count() == 0) else {
            return Ok(None);
        };
        let Some(keys) = coded.keys().as_primitive_opt::<UInt32Type>() else { return Ok(None) };
        Ok(Some((self.intern(coded.values())?, keys.values())))
    }

    fn numbers(&mut self, array: &ArrayRef) -> Result<Vec<u32>> {
        if let Some((of_entries, keys)) = self.coded(array)? {
            return Ok(keys.iter().map(|key| of_entries[*key as usize]).collect());
        }
        let Some(coded) = array.as_any_dictionary_opt() else {
            let array = relabel(Arc::clone(array), &self.ty);
            let close = match array.data_type() {
                Arrow::Int16 => self.close_numbers::<Int16Type>(&array)?,
                Arrow::Int32 => self.close_numbers::<Int32Type>(&array)?,
                Arrow::Int64 => self.close_numbers::<Int64Type>(&array)?,
                _ => None,
            };
            return close.map_or_else(|| self.intern(&array), Ok);
        };
        let of_entries = self.intern(coded.values())?;
        let keys = coded.keys().as_primitive_opt::<UInt32Type>();
        let keys = keys.ok_or_else(|| Error::bug("a dictionary whose keys have no 32 bits"))?;
        let of_null = self.intern(&new_null_array(&self.ty, 1))?[0];
        Ok(keys.iter().map(|key| key.map_or(of_null, |key| of_entries[key as usize])).collect())
    }

    /// Numbers integers through a table indexed by the distance from the minimum; `None` if the range is wide or a
    /// value is NULL.
    fn close_numbers<T: ArrowPrimitiveType<Native: Into<i64> + Ord>>(
        &mut self,
        array: &ArrayRef,
    ) -> Result<Option<Vec<u32>>> {
        const VACANT: u32 = u32::MAX;
        let values = array.as_primitive::<T>().values();
        let (Some(least), Some(greatest)) = (values.iter().min(), values.iter().max()) else { return Ok(None) };
        let least: i64 = (*least).into();
        let width = (*greatest).into().checked_sub(least).map(|width| width.cast_unsigned() as usize);
        let Some(width) = width.filter(|width| *width < CLOSE_NUMBERS_MAX.min(values.len()) && array.null_count() == 0)
        else {
            return Ok(None);
        };
        let place = |value: T::Native| (value.into() - least) as usize;
        let mut number_of = vec![VACANT; width + 1];
        let mut firsts = Vec::new();
        for (row, value) in values.iter().enumerate() {
            if number_of[place(*value)] == VACANT {
                number_of[place(*value)] = row as u32;
                firsts.push(row as u32);
            }
        }
        let distinct = take(array, &UInt32Array::from(firsts.clone()), None).map_err(Error::bug)?;
        for (row, number) in firsts.into_iter().zip(self.intern(&distinct)?) {
            number_of[place(values[row as usize])] = number;
        }
        Ok(Some(values.iter().map(|value| number_of[place(*value)]).collect()))
    }

    fn intern(&mut self, array: &ArrayRef) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(array.len());
        self.known.intern(std::slice::from_ref(array), &mut numbers).or_error()?;
        Ok(numbers.into_iter().map(|number| number as u32).collect())
    }

    /// Removes and returns all values, in the order of their numbers.
    fn emit(&mut self) -> Result<ArrayRef> {
        let values = self.known.emit(EmitTo::All).or_error()?.pop();
        values.ok_or_else(|| Error::bug("values of a field that are none"))
    }
}

impl Fields {
    /// - `fields`: position among the columns read, and type.
    pub(super) fn new(fields: &[(usize, Arrow)]) -> Result<Fields> {
        let each: Vec<Values> = fields.iter().map(|(at, ty)| Values::new(*at, ty)).collect::<Result<_>>()?;
        let pairs = (1..each.len()).map(|_| Pairs::default()).collect();
        Ok(Fields { each, pairs })
    }

    /// [`Values::coded`] if there is only one field, otherwise `None`.
    pub(super) fn coded<'a>(&mut self, batch: &'a RecordBatch) -> Result<Option<(Vec<u32>, &'a [u32])>> {
        let [values] = self.each.as_mut_slice() else { return Ok(None) };
        values.coded(batch.column(values.at))
    }

    /// Combined number of each row's values; empty if there are no fields.
    pub(super) fn numbers(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let of_each = self.each.iter_mut().map(|values| values.numbers(batch.column(values.at)));
        let of_each = of_each.collect::<Result<Vec<_>>>()?;
        Ok(self.combined(of_each))
    }

    /// Combines the numbers of each field's values.
    fn combined(&mut self, of_each: Vec<Vec<u32>>) -> Vec<u32> {
        let mut of_each = of_each.into_iter();
        let mut numbers = of_each.next().unwrap_or_default();
        for (pairs, next) in self.pairs.iter_mut().zip(of_each) {
            let mut last = None;
            for (number, next) in numbers.iter_mut().zip(next) {
                let pair = (*number, next);
                *number = match last {
                    Some((same, number)) if same == pair => number,
                    _ => pairs.number(pair),
                };
                last = Some((pair, *number));
            }
        }
        numbers
    }

    /// Number of combined numbers assigned so far.
    pub(super) fn count(&self) -> usize {
        match self.pairs.last() {
            Some(pairs) => pairs.list.len(),
            None => self.each.first().map_or(0, |values| values.known.len()),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let values: usize = self.each.iter().map(|values| values.known.size()).sum();
        values + self.pairs.iter().map(|pairs| pairs.list.len() * 32).sum::<usize>()
    }

    /// Adds the values of `other`; returns the number here of each number there.
    pub(super) fn merge(&mut self, mut other: Fields) -> Result<Vec<u32>> {
        let count = other.count() as u32;
        let of_each = other.parts(&(0..count).collect::<Vec<u32>>());
        let mut here = Vec::with_capacity(self.each.len());
        for ((own, other), numbers) in self.each.iter_mut().zip(&mut other.each).zip(of_each) {
            let known = own.intern(&other.emit()?)?;
            here.push(numbers.into_iter().map(|number| known[number as usize]).collect());
        }
        Ok(self.combined(here))
    }

    /// For each field, the numbers of its own values.
    fn parts(&self, numbers: &[u32]) -> Vec<Vec<u32>> {
        let mut parts = Vec::with_capacity(self.each.len());
        let mut numbers = numbers.to_vec();
        for pairs in self.pairs.iter().rev() {
            let (before, own): (Vec<u32>, Vec<u32>) = numbers.iter().map(|number| pairs.list[*number as usize]).unzip();
            parts.push(own);
            numbers = before;
        }
        parts.push(numbers);
        parts.truncate(self.each.len());
        parts.reverse();
        parts
    }

    /// For each field, the values of these combined numbers. Removes all values.
    pub(super) fn values(&mut self, numbers: &[u32]) -> Result<Vec<ArrayRef>> {
        let parts = self.parts(numbers);
        let values = self.each.iter_mut().zip(parts);
        let values = values
            .map(|(values, numbers)| take(&values.emit()?, &UInt32Array::from(numbers), None).map_err(Error::bug));
        values.collect()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int16Array, Int32Array, Int64Array};

    use super::*;

    #[test]
    fn equal_numbers_have_one_number_whether_they_lie_close_together_or_not() {
        let close = |from: i64| (0..300).map(move |row| from + row * 7 % 31);
        let columns: Vec<(Vec<Option<i64>>, bool)> = vec![
            (close(-5).map(Some).collect(), true),
            (close(900).map(Some).collect(), true),
            (close(0).map(|value| Some(value * 1_000)).collect(), false),
            (close(0).map(|value| (value > 3).then_some(value)).collect(), false),
            (vec![Some(i64::from(i16::MIN)), Some(i64::from(i16::MAX)), Some(3)], false),
            (vec![Some(3)], true),
            (Vec::new(), false),
        ];
        for ty in [Arrow::Int16, Arrow::Int32, Arrow::Int64] {
            let mut values = Values::new(0, &ty).unwrap();
            let mut number_of: FxHashMap<Option<i64>, u32> = FxHashMap::default();
            for (column, is_close) in &columns {
                let column = column.iter().copied();
                let array: ArrayRef = match ty {
                    Arrow::Int16 => {
                        Arc::new(column.clone().map(|value| value.map(|value| value as i16)).collect::<Int16Array>())
                    }
                    Arrow::Int32 => {
                        Arc::new(column.clone().map(|value| value.map(|value| value as i32)).collect::<Int32Array>())
                    }
                    _ => Arc::new(column.clone().collect::<Int64Array>()),
                };
                let seen = match ty {
                    Arrow::Int16 => values.close_numbers::<Int16Type>(&array),
                    Arrow::Int32 => values.close_numbers::<Int32Type>(&array),
                    _ => values.close_numbers::<Int64Type>(&array),
                };
                assert_eq!(seen.unwrap().is_some(), *is_close, "{array:?}");
                let numbers = values.numbers(&array).unwrap();
                assert_eq!(numbers.len(), array.len());
                for (value, number) in column.zip(numbers) {
                    let value = if ty == Arrow::Int16 { value.map(|value| i64::from(value as i16)) } else { value };
                    assert_eq!(*number_of.entry(value).or_insert(number), number, "{value:?} of {ty}");
                }
            }
            let mut distinct: Vec<u32> = number_of.values().copied().collect();
            distinct.sort_unstable();
            assert_eq!(distinct, (0..number_of.len() as u32).collect::<Vec<_>>());
        }
    }
}
