//! `repeat`, `lpad` and `rpad` within a bound: a short statement could ask for more memory than there is, and what functions return is
//! counted only once it is there.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use model::{Error, SqlState};

use super::external;

/// Most bytes of one column of one batch.
const BATCH_BYTES_MAX: u64 = 64 << 20;

/// The three of them.
pub(super) fn functions() -> Vec<ScalarUDF> {
    use datafusion::functions::{
        string::repeat,
        unicode::{lpad, rpad},
    };
    [repeat(), lpad(), rpad()].map(|inner| ScalarUDF::from(Capped { inner: inner.as_ref().clone() })).into()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Capped {
    inner: ScalarUDF,
}

impl Capped {
    /// Bytes of the result: a text so many times over, or padded to so many characters.
    fn bytes(&self, texts: &ArrayRef, counts: &ArrayRef) -> Result<u64> {
        let texts = cast(texts, &DataType::Utf8)?;
        let counts = cast(counts, &DataType::Int64)?;
        let pairs = texts.as_string::<i32>().iter().zip(counts.as_primitive::<Int64Type>());
        let of_row = |(text, count): (Option<&str>, Option<i64>)| {
            let count = u64::try_from(count.unwrap_or(0)).unwrap_or(0);
            let text = text.map_or(0, str::len) as u64;
            if self.inner.name() == "repeat" { text.saturating_mul(count) } else { count.saturating_mul(4) }
        };
        Ok(pairs.map(of_row).fold(0, u64::saturating_add))
    }
}

impl ScalarUDFImpl for Capped {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<arrow_schema::FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // Constants are looked at once, whatever the batch has rows: they are folded to a constant.
        let arrays = ColumnarValue::values_to_arrays(args.args.get(..2).unwrap_or_default())?;
        if let [texts, counts] = arrays.as_slice()
            && self.bytes(texts, counts)? > BATCH_BYTES_MAX
        {
            let rows = texts.len();
            let message = format!("{} of {rows} rows gives more than {BATCH_BYTES_MAX} bytes", self.name());
            return Err(external(Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)));
        }
        self.inner.invoke_with_args(args)
    }
}
