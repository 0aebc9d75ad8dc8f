//! `sign` that returns NaN for NaN, as PostgreSQL does; DataFusion's does not.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_schema::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

/// `sign`, alias of `signum`.
pub(super) fn function() -> ScalarUDF {
    let inner = datafusion::functions::math::signum().as_ref().clone();
    ScalarUDF::from(Sign { inner }).with_aliases(["sign"])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sign {
    inner: ScalarUDF,
}

impl ScalarUDFImpl for Sign {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(args.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let signs: ArrayRef = match arrays.as_slice() {
            [array] if *array.data_type() == DataType::Float64 => {
                let sign = |value: f64| if value.is_nan() || value == 0.0 { value + 0.0 } else { value.signum() };
                Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(sign))
            }
            [array] if *array.data_type() == DataType::Float32 => {
                let sign = |value: f32| if value.is_nan() || value == 0.0 { value + 0.0 } else { value.signum() };
                Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(sign))
            }
            _ => return self.inner.invoke_with_args(args),
        };
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&signs, 0)?));
        }
        Ok(ColumnarValue::Array(signs))
    }
}
