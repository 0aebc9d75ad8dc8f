//! `format`, `num_nulls`, `num_nonnulls` and `width_bucket`, which DataFusion lacks.

use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef, Int32Array, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use model::{Error, SqlState};

use super::external;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [General::Format, General::Nulls, General::NotNulls, General::WidthBucket]
        .map(|which| ScalarUDF::from(Function { which, signature: which.signature() }))
        .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum General {
    Format,
    Nulls,
    NotNulls,
    WidthBucket,
}

impl General {
    fn signature(self) -> Signature {
        match self {
            General::WidthBucket => {
                let float = DataType::Float64;
                let types = vec![float.clone(), float.clone(), float, DataType::Int32];
                Signature::exact(types, Volatility::Immutable)
            }
            _ => Signature::new(TypeSignature::VariadicAny, Volatility::Immutable),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    which: General,
    signature: Signature,
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.which {
            General::Format => "format",
            General::Nulls => "num_nulls",
            General::NotNulls => "num_nonnulls",
            General::WidthBucket => "width_bucket",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.which == General::Format { DataType::Utf8 } else { DataType::Int32 })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args
            .args
            .iter()
            .map(|value| value.clone().into_array(args.number_rows))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let rows = args.number_rows;
        let made: ArrayRef = match self.which {
            General::Format => Arc::new(formatted(&arrays, rows)?),
            General::Nulls => Arc::new(counted(&arrays, rows, true)),
            General::NotNulls => Arc::new(counted(&arrays, rows, false)),
            General::WidthBucket => Arc::new(buckets(&arrays, rows)?),
        };
        Ok(ColumnarValue::Array(made))
    }
}

fn formatted(arrays: &[ArrayRef], rows: usize) -> Result<StringArray> {
    let texts = arrays.iter().map(|array| cast(array, &DataType::Utf8)).collect::<std::result::Result<Vec<_>, _>>()?;
    let columns: Vec<&StringArray> = texts.iter().map(|array| array.as_string::<i32>()).collect();
    let mut out = StringBuilder::new();
    for row in 0..rows {
        let values: Vec<Option<&str>> =
            columns.iter().map(|column| column.is_valid(row).then(|| column.value(row))).collect();
        match values.split_first() {
            Some((Some(text), values)) => out.append_value(compiled::formatted(text, values).map_err(external)?),
            _ => out.append_null(),
        }
    }
    Ok(out.finish())
}

fn counted(arrays: &[ArrayRef], rows: usize, nulls: bool) -> Int32Array {
    let count = |row: usize| arrays.iter().filter(|array| array.is_null(row) == nulls).count();
    Int32Array::from_iter_values((0..rows).map(|row| i32::try_from(count(row)).unwrap_or(i32::MAX)))
}

fn buckets(arrays: &[ArrayRef], rows: usize) -> Result<Int32Array> {
    let [value, low, high, count] = arrays else { return Err(external(Error::bug("width_bucket of other arguments"))) };
    let [value, low, high] = [value, low, high].map(|array| array.as_primitive::<Float64Type>());
    let count = count.as_primitive::<Int32Type>();
    let bucket = |row: usize| -> Result<Option<i32>> {
        let all = value.is_valid(row) && low.is_valid(row) && high.is_valid(row) && count.is_valid(row);
        if !all {
            return Ok(None);
        }
        bucket(value.value(row), low.value(row), high.value(row), count.value(row)).map(Some).map_err(external)
    };
    (0..rows).map(bucket).collect()
}

fn bucket(value: f64, low: f64, high: f64, count: i32) -> model::Result<i32> {
    let invalid = |text: &str| Error::new(SqlState("2201G"), text);
    if count <= 0 {
        return Err(invalid("count must be greater than zero"));
    }
    if value.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    let beyond = || {
        let out_of_range = || Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "integer out of range");
        count.checked_add(1).ok_or_else(out_of_range)
    };
    let (before, behind) = if low < high { (value < low, value >= high) } else { (value > low, value <= high) };
    if before {
        return Ok(0);
    }
    if behind {
        return beyond();
    }
    // Halves the operands, so that no difference overflows.
    let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
    Ok(((part * f64::from(count)) as i32).min(count - 1) + 1)
}
