//! Functions of DataFusion that make keys for sorting, grouping and joining, and the values of outer rows.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use catalog::TypeId;
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::is_not_null;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use model::Result;
use rustc_hash::FxHashSet;

use crate::arrow::datum;
use crate::arrow::key::{self, KeyKind};
use crate::evaluation::evaluate::{compute, signature};

/// The way in which values that are represented by an Arrow type are sorted, grouped and joined.
pub(crate) fn kind(ty: TypeId, arrow: &DataType) -> KeyKind {
    match arrow {
        DataType::Decimal128(..) | DataType::UInt64 => KeyKind::Native,
        _ => key::kind(ty),
    }
}

/// The expression whose native order and equality are PostgreSQL's of `expr`.
pub(crate) fn keyed(expr: Expr, ty: TypeId, arrow: &DataType) -> Expr {
    match kind(ty, arrow) {
        KeyKind::Native => expr,
        KeyKind::Float => ScalarUDF::from(FloatKey { signature: signature(1, Volatility::Immutable) }).call(vec![expr]),
        KeyKind::Bytes => bytes(expr, ty),
    }
}

/// Bytes that are the key of `expr`.
pub(crate) fn bytes(expr: Expr, ty: TypeId) -> Expr {
    ScalarUDF::from(Key { ty, signature: signature(1, Volatility::Immutable) }).call(vec![expr])
}

/// The keys of an array's values.
pub(crate) fn keys(array: &dyn Array, ty: TypeId) -> Result<ArrayRef> {
    let mut builder = BinaryBuilder::with_capacity(array.len(), array.len() * 16);
    let mut key = Vec::new();
    for row in 0..array.len() {
        let value = datum(array, row, ty)?;
        if value.is_null() {
            builder.append_null();
            continue;
        }
        key.clear();
        key::push(&value, ty, &mut key)?;
        crate::arrow::check_room(builder.values_slice().len(), key.len())?;
        builder.append_value(key.as_slice());
    }
    Ok(Arc::new(builder.finish()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    ty: TypeId,
    signature: Signature,
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        "sort_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        compute(&arguments, false, |columns, _| match columns {
            [column] => keys(column.as_ref(), self.ty),
            _ => Err(model::Error::bug("a key of other than one value")),
        })
    }
}

/// Makes equal floats equal bits.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FloatKey {
    signature: Signature,
}

impl ScalarUDFImpl for FloatKey {
    fn name(&self) -> &str {
        "float_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Float64))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        compute(&arguments, false, |columns, _| match columns {
            [column] => Ok(canonical_floats(column)),
            _ => Err(model::Error::bug("a key of other than one value")),
        })
    }
}

/// The key of a float without its wrapper, which makes equal floats equal bits; any other expression as it is.
#[must_use]
pub(crate) fn without_float_key(expr: &Expr) -> &Expr {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<FloatKey>() => call.args.first().unwrap_or(expr),
        _ => expr,
    }
}

/// The array with equal bits for equal floats; an array of another type as it is.
#[must_use]
pub(crate) fn canonical_floats(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value + 0.0 }),
        ),
        DataType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value + 0.0 }),
        ),
        _ => Arc::clone(array),
    }
}

/// The columns of an outer row, which a correlated subquery reads; set before each of its runs.
#[derive(Debug, Default)]
pub(crate) struct OuterRow(Mutex<Vec<ScalarValue>>);

impl OuterRow {
    pub(crate) fn set(&self, values: Vec<ScalarValue>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    fn get(&self, at: usize) -> Option<ScalarValue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(at).cloned()
    }
}

/// The keys that are asked for, all being whole numbers; `None`: every key but NULL is.
#[derive(Debug, Default)]
pub(crate) struct AskedKeys(Mutex<Option<Arc<FxHashSet<i64>>>>);

impl AskedKeys {
    pub(crate) fn set(&self, keys: Option<FxHashSet<i64>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = keys.map(Arc::new);
    }

    fn get(&self) -> Option<Arc<FxHashSet<i64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a key is asked for.
#[derive(Debug)]
pub(crate) struct IsAsked {
    keys: Arc<AskedKeys>,
    signature: Signature,
}

impl IsAsked {
    pub(crate) fn call(keys: Arc<AskedKeys>, key: Expr) -> Expr {
        // Volatile for the same reason as `Outer`.
        ScalarUDF::from(IsAsked { keys, signature: signature(1, Volatility::Volatile) }).call(vec![key])
    }
}

impl PartialEq for IsAsked {
    fn eq(&self, other: &IsAsked) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
    }
}

impl Eq for IsAsked {}

impl Hash for IsAsked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.keys).hash(state);
    }
}

impl ScalarUDFImpl for IsAsked {
    fn name(&self) -> &str {
        "is_asked"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        fn among<T: ArrowPrimitiveType>(column: &ArrayRef, keys: &FxHashSet<i64>) -> BooleanArray
        where
            i64: From<T::Native>,
        {
            let column = column.as_primitive::<T>();
            let found = BooleanBuffer::collect_bool(column.len(), |row| keys.contains(&column.value(row).into()));
            BooleanArray::new(found, column.nulls().cloned())
        }
        let keys = self.keys.get();
        compute(&arguments, false, |columns, _| match (columns, keys.as_deref()) {
            ([column], None) => Ok(Arc::new(is_not_null(column.as_ref()).map_err(model::Error::bug)?)),
            ([column], Some(keys)) => Ok(Arc::new(match column.data_type() {
                DataType::Int16 => among::<Int16Type>(column, keys),
                DataType::Int32 => among::<Int32Type>(column, keys),
                DataType::Int64 => among::<Int64Type>(column, keys),
                other => return Err(model::Error::bug(format!("keys of type {other}"))),
            })),
            _ => Err(model::Error::bug("a key of other than one value")),
        })
    }
}

/// Reads a column of the outer row.
#[derive(Debug)]
pub(crate) struct Outer {
    row: Arc<OuterRow>,
    at: usize,
    ty: DataType,
    signature: Signature,
}

impl Outer {
    pub(crate) fn call(row: Arc<OuterRow>, at: usize, ty: DataType) -> Expr {
        // A volatile function is neither folded nor pushed into scans, which keep the value of the first run.
        ScalarUDF::from(Outer { row, at, ty, signature: signature(0, Volatility::Volatile) }).call(Vec::new())
    }
}

impl PartialEq for Outer {
    fn eq(&self, other: &Outer) -> bool {
        Arc::ptr_eq(&self.row, &other.row) && self.at == other.at
    }
}

impl Eq for Outer {}

impl Hash for Outer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.row), self.at).hash(state);
    }
}

impl ScalarUDFImpl for Outer {
    fn name(&self) -> &str {
        "outer_column"
    }

    fn schema_name(&self, _: &[Expr]) -> DfResult<String> {
        Ok(format!("outer_column {:p}.{}", Arc::as_ptr(&self.row), self.at))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.ty.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(match self.row.get(self.at) {
            Some(value) => value,
            None => ScalarValue::try_from(&self.ty)?,
        }))
    }
}
