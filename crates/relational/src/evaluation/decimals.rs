//! Arithmetic and sums of numerics that are decimals with a known number of digits, by whole columns.
//!
//! The number of digits bounds each result, so that nothing overflows: up to [`DIGITS_MAX`] digits are 128 bits wide, up to
//! [`WIDE_DIGITS_MAX`] 256 bits. Scales are PostgreSQL's: a sum has the larger one, a product the sum of both.

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Decimal128Array, Decimal256Array};
use arrow_schema::{DataType, Field, FieldRef};
use catalog::TypeId;
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::i256;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, Expr, GroupsAccumulator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use model::{Datum, Error, Numeric, Result};

use crate::arrow::Builder;
use crate::errors::external;
use crate::evaluation::evaluate::{compute, signature};

/// Maximum digits of values of 128 bits.
pub(crate) const DIGITS_MAX: u8 = 38;
/// Maximum digits of values of 256 bits.
pub(crate) const WIDE_DIGITS_MAX: u8 = 76;
/// With more digits, a sum of 10^14 values may need more than 128 bits.
pub(crate) const PLAIN_SUM_DIGITS_MAX: u8 = 24;

/// An expression of decimals, whose values are whole numbers of the last digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tree {
    /// A column of decimals or integers.
    Column(usize),
    Constant(i128),
    Add(Box<Tree>, Box<Tree>),
    Subtract(Box<Tree>, Box<Tree>),
    Multiply(Box<Tree>, Box<Tree>),
}

/// Values of a part of an expression.
enum Values<'a> {
    Column(&'a [i128]),
    Own(Vec<i128>),
    Constant(i128),
}

impl Tree {
    /// The values of all rows; `None` if one does not fit in 128 bits, which is only tested if `CHECKED`.
    fn values<'a, const CHECKED: bool>(&self, columns: &'a [Cow<'_, [i128]>]) -> Option<Values<'a>> {
        let operands = |left: &Tree, right: &Tree| -> Option<(Values<'a>, Values<'a>)> {
            Some((left.values::<CHECKED>(columns)?, right.values::<CHECKED>(columns)?))
        };
        match self {
            Tree::Column(at) => columns.get(*at).map(|column| Values::Column(column)),
            Tree::Constant(value) => Some(Values::Constant(*value)),
            Tree::Add(left, right) => {
                let (left, right) = operands(left, right)?;
                combined::<CHECKED>(left, right, i128::wrapping_add, i128::overflowing_add)
            }
            Tree::Subtract(left, right) => {
                let (left, right) = operands(left, right)?;
                combined::<CHECKED>(left, right, i128::wrapping_sub, i128::overflowing_sub)
            }
            Tree::Multiply(left, right) => {
                let (left, right) = operands(left, right)?;
                combined::<CHECKED>(left, right, i128::wrapping_mul, i128::overflowing_mul)
            }
        }
    }

    /// The value of a row in 256 bits.
    fn wide_value(&self, columns: &[Cow<'_, [i128]>], row: usize) -> i256 {
        let operands = |left: &Tree, right: &Tree| (left.wide_value(columns, row), right.wide_value(columns, row));
        match self {
            Tree::Column(at) => i256::from_i128(columns[*at][row]),
            Tree::Constant(value) => i256::from_i128(*value),
            Tree::Add(left, right) => {
                let (left, right) = operands(left, right);
                left.wrapping_add(right)
            }
            Tree::Subtract(left, right) => {
                let (left, right) = operands(left, right);
                left.wrapping_sub(right)
            }
            Tree::Multiply(left, right) => {
                let (left, right) = operands(left, right);
                left.wrapping_mul(right)
            }
        }
    }
}

/// Combines the values of two operands, in the memory of one of them if possible.
fn combined<'a, const CHECKED: bool>(
    left: Values<'a>,
    right: Values<'a>,
    plain: impl Fn(i128, i128) -> i128,
    checked: impl Fn(i128, i128) -> (i128, bool),
) -> Option<Values<'a>> {
    let mut overflows = false;
    let mut one = |left: i128, right: i128| {
        if !CHECKED {
            return plain(left, right);
        }
        let (value, is_beyond) = checked(left, right);
        overflows |= is_beyond;
        value
    };
    let values = match (left, right) {
        (Values::Constant(left), Values::Constant(right)) => Values::Constant(one(left, right)),
        (Values::Own(mut left), Values::Constant(right)) => {
            left.iter_mut().for_each(|value| *value = one(*value, right));
            Values::Own(left)
        }
        (Values::Constant(left), Values::Own(mut right)) => {
            right.iter_mut().for_each(|value| *value = one(left, *value));
            Values::Own(right)
        }
        (Values::Column(left), Values::Constant(right)) => {
            Values::Own(left.iter().map(|value| one(*value, right)).collect())
        }
        (Values::Constant(left), Values::Column(right)) => {
            Values::Own(right.iter().map(|value| one(left, *value)).collect())
        }
        (Values::Column(left), Values::Column(right)) => {
            Values::Own(left.iter().zip(right).map(|(left, right)| one(*left, *right)).collect())
        }
        (Values::Own(mut left), Values::Column(right)) => {
            left.iter_mut().zip(right).for_each(|(value, right)| *value = one(*value, *right));
            Values::Own(left)
        }
        (Values::Column(left), Values::Own(mut right)) => {
            right.iter_mut().zip(left).for_each(|(value, left)| *value = one(*left, *value));
            Values::Own(right)
        }
        (Values::Own(mut left), Values::Own(right)) => {
            left.iter_mut().zip(right).for_each(|(value, right)| *value = one(*value, right));
            Values::Own(left)
        }
    };
    (!overflows).then_some(values)
}

/// The function that computes an expression of decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    tree: Tree,
    scale: i8,
    /// Whether the values have 256 bits.
    is_wide: bool,
    signature: Signature,
}

impl Arithmetic {
    /// A call with arguments for the columns of the tree. Precondition: `digits` bound the values, and are at most
    /// [`WIDE_DIGITS_MAX`].
    pub(crate) fn call(tree: Tree, arguments: Vec<Expr>, digits: u8, scale: i8) -> Expr {
        let signature = signature(arguments.len(), Volatility::Immutable);
        ScalarUDF::from(Arithmetic { tree, scale, is_wide: digits > DIGITS_MAX, signature }).call(arguments)
    }

    fn run(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let mut nulls: Option<NullBuffer> = None;
        for column in columns {
            nulls = NullBuffer::union(nulls.as_ref(), column.nulls());
        }
        let columns: Vec<Cow<'_, [i128]>> = columns.iter().map(whole_numbers).collect::<Result<_>>()?;
        let values = match self.is_wide {
            true => self.tree.values::<true>(&columns),
            false => self.tree.values::<false>(&columns),
        };
        let values = values.map(|values| match values {
            Values::Own(values) => values,
            Values::Column(values) => values.to_vec(),
            Values::Constant(value) => vec![value; rows],
        });
        if !self.is_wide {
            let values = values.ok_or_else(|| Error::bug("a decimal of too many digits"))?;
            let values = Decimal128Array::new(values.into(), nulls);
            return Ok(Arc::new(values.with_precision_and_scale(DIGITS_MAX, self.scale).map_err(Error::bug)?));
        }
        let values: Vec<i256> = match values {
            Some(values) => values.into_iter().map(i256::from_i128).collect(),
            None => (0..rows).map(|row| self.tree.wide_value(&columns, row)).collect(),
        };
        let values = Decimal256Array::new(values.into(), nulls);
        Ok(Arc::new(values.with_precision_and_scale(WIDE_DIGITS_MAX, self.scale).map_err(Error::bug)?))
    }
}

/// The values of integers, or of decimals in units of their last digit; any for NULL.
fn whole_numbers(array: &ArrayRef) -> Result<Cow<'_, [i128]>> {
    Ok(match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().values().iter().map(|value| (*value).into()).collect(),
        DataType::Int32 => array.as_primitive::<Int32Type>().values().iter().map(|value| (*value).into()).collect(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().iter().map(|value| (*value).into()).collect(),
        DataType::Decimal128(..) => Cow::Borrowed(array.as_primitive::<Decimal128Type>().values()),
        other => return Err(Error::bug(format!("decimals of Arrow type {other}"))),
    })
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        "decimals"
    }

    fn schema_name(&self, arguments: &[Expr]) -> DfResult<String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| argument.schema_name().to_string()).collect();
        Ok(format!("decimals {:?}.{}({})", self.tree, self.scale, arguments.join(", ")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(match self.is_wide {
            true => DataType::Decimal256(WIDE_DIGITS_MAX, self.scale),
            false => DataType::Decimal128(DIGITS_MAX, self.scale),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        compute(&arguments, false, |columns, rows| self.run(columns, rows))
    }
}

/// `sum` of decimals with any number of digits and rows. The result is a numeric in the encoding of computed values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sum {
    scale: i8,
    signature: Signature,
}

impl Sum {
    /// The aggregate of decimals of a scale.
    pub(crate) fn udf(scale: i8) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Sum { scale, signature: signature(1, Volatility::Immutable) }))
    }
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        "decimal_sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Binary)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        let ty = DataType::Decimal256(WIDE_DIGITS_MAX, self.scale);
        Ok(vec![Arc::new(Field::new(format!("{}[sum]", arguments.name), ty, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(One(Sums::new(self.scale))))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Sums::new(self.scale)))
    }
}

/// The sums of groups; `None` for a group without values.
#[derive(Debug)]
struct Sums {
    scale: i8,
    sums: Vec<Option<i256>>,
}

impl Sums {
    fn new(scale: i8) -> Sums {
        Sums { scale, sums: Vec::new() }
    }

    fn add(
        &mut self,
        values: &ArrayRef,
        groups: impl Iterator<Item = usize>,
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.sums.resize(total, None);
        let nulls = values.nulls();
        let is_left_out = |row: usize| {
            nulls.is_some_and(|nulls| nulls.is_null(row))
                || filter.is_some_and(|filter| filter.is_null(row) || !filter.value(row))
        };
        let mut add = |row: usize, group: usize, value: i256| {
            if !is_left_out(row) {
                let sum = self.sums[group].unwrap_or(i256::ZERO);
                self.sums[group] = Some(sum.wrapping_add(value));
            }
        };
        match values.data_type() {
            DataType::Decimal128(..) => {
                let values = values.as_primitive::<Decimal128Type>().values();
                groups.zip(values.iter()).enumerate().for_each(|(row, (group, value))| {
                    add(row, group, i256::from_i128(*value));
                });
            }
            DataType::Decimal256(..) => {
                let values = values.as_primitive::<Decimal256Type>().values();
                groups.zip(values.iter()).enumerate().for_each(|(row, (group, value))| add(row, group, *value));
            }
            other => return Err(external(Error::bug(format!("a sum of decimals of Arrow type {other}")))),
        }
        Ok(())
    }

    fn states(&self, sums: &[Option<i256>]) -> DfResult<ArrayRef> {
        let states: Decimal256Array = sums.iter().copied().collect();
        Ok(Arc::new(states.with_precision_and_scale(WIDE_DIGITS_MAX, self.scale)?))
    }
}

/// The only argument.
fn only(values: &[ArrayRef]) -> DfResult<&ArrayRef> {
    match values {
        [values] => Ok(values),
        _ => Err(external(Error::bug("a sum of other than one column"))),
    }
}

/// A numeric of a number of units of its last digit.
fn numeric(value: i256, scale: i8) -> Result<Numeric> {
    let scale = u32::from(scale.max(0).unsigned_abs());
    if let Some(value) = value.to_i128() {
        return Ok(Numeric::new(value, scale));
    }
    let text = value.to_string();
    let digits = text.trim_start_matches('-').as_bytes();
    Numeric::from_digits(text.starts_with('-'), digits, -i64::from(scale), scale)
}

impl GroupsAccumulator for Sums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.add(only(values)?, groups.iter().copied(), filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.add(only(states)?, groups.iter().copied(), None, total)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> DfResult<Vec<ArrayRef>> {
        let values = only(values)?;
        let mut each = Sums::new(self.scale);
        each.add(values, 0..values.len(), filter, values.len())?;
        Ok(vec![each.states(&each.sums)?])
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        let sums = emit.take_needed(&mut self.sums);
        // The encoding of a numeric does not depend on a zone.
        let mut builder = Builder::new(TypeId::NUMERIC, &Arc::from("UTC"), sums.len());
        for sum in sums {
            let value = match sum {
                Some(sum) => Datum::Numeric(numeric(sum, self.scale).map_err(external)?),
                None => Datum::Null,
            };
            builder.push(&value).map_err(external)?;
        }
        Ok(builder.finish())
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let sums = emit.take_needed(&mut self.sums);
        Ok(vec![self.states(&sums)?])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Option<i256>>()
    }
}

/// The sum of all rows: that of a single group.
#[derive(Debug)]
struct One(Sums);

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.0.add(only(values)?, std::iter::repeat(0), None, 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.0.add(only(states)?, std::iter::repeat(0), None, 1)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.0.sums.resize(1, None);
        let states = self.0.states(&self.0.sums)?;
        Ok(vec![ScalarValue::try_from_array(&states, 0)?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.0.sums.resize(1, None);
        // A window function goes on after the first result.
        let kept = self.0.sums.clone();
        let value = self.0.evaluate(EmitTo::All)?;
        self.0.sums = kept;
        ScalarValue::try_from_array(&value, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.sums.capacity() * size_of::<Option<i256>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimals(values: &[Option<i128>], scale: i8) -> ArrayRef {
        let values: Decimal128Array = values.iter().copied().collect();
        Arc::new(values.with_precision_and_scale(DIGITS_MAX, scale).unwrap())
    }

    fn run(tree: Tree, is_wide: bool, columns: &[ArrayRef]) -> Vec<Option<String>> {
        let signature = signature(columns.len(), Volatility::Immutable);
        let found = Arithmetic { tree, scale: 0, is_wide, signature }.run(columns, columns[0].len()).unwrap();
        match found.data_type() {
            DataType::Decimal128(..) => {
                found.as_primitive::<Decimal128Type>().iter().map(|value| Some(value?.to_string())).collect()
            }
            _ => found.as_primitive::<Decimal256Type>().iter().map(|value| Some(value?.to_string())).collect(),
        }
    }

    #[test]
    fn values_of_more_than_128_bits_are_exact() {
        let column = || Box::new(Tree::Column(0));
        let large = 10_i128.pow(30);
        let columns = [decimals(&[Some(3), None, Some(large), Some(-large)], 0)];
        let less = Tree::Subtract(Box::new(Tree::Constant(10)), column());
        assert_eq!(
            run(less, false, &columns[..]),
            [Some("7".to_owned()), None, Some((10 - large).to_string()), Some((10 + large).to_string())]
        );
        let square = Tree::Multiply(column(), column());
        let expected = format!("1{}", "0".repeat(60));
        assert_eq!(run(square, true, &columns), [Some("9".to_owned()), None, Some(expected.clone()), Some(expected)]);
    }

    #[test]
    fn sums_are_exact_however_the_rows_are_split() {
        let largest = i128::MAX;
        let values = [Some(largest), Some(largest), None, Some(5), Some(largest), Some(-7)];
        let groups = [0, 0, 0, 1, 0, 1];
        let filter = BooleanArray::from(vec![true, true, true, true, true, false]);
        let shown = |mut sums: Sums| {
            let found = sums.evaluate(EmitTo::All).unwrap();
            let one = |row| crate::arrow::datum(found.as_ref(), row, TypeId::NUMERIC).map(|value| format!("{value:?}"));
            (0..found.len()).map(one).collect::<Result<Vec<_>>>().unwrap()
        };
        let mut whole = Sums::new(2);
        whole.update_batch(&[decimals(&values, 2)], &groups, Some(&filter), 3).unwrap();
        let whole = shown(whole);
        let expected = Numeric::new(largest, 2).add(&Numeric::new(largest, 2)).unwrap();
        let expected = expected.add(&Numeric::new(largest, 2)).unwrap();
        assert_eq!(whole[0], format!("{:?}", Datum::Numeric(expected)));
        assert_eq!(whole[1], format!("{:?}", Datum::Numeric(Numeric::new(5, 2))));
        assert_eq!(whole[2], "Null");
        for at in 0..=values.len() {
            let (left, right) = values.split_at(at);
            let mut merged = Sums::new(2);
            merged.update_batch(&[decimals(left, 2)], &groups[..at], Some(&filter.slice(0, at)), 3).unwrap();
            let rest = filter.slice(at, values.len() - at);
            let states = merged.convert_to_state(&[decimals(right, 2)], Some(&rest)).unwrap();
            merged.merge_batch(&states, &groups[at..], 3).unwrap();
            assert_eq!(shown(merged), whole, "{at}");
        }
    }
}
