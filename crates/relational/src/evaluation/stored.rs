//! The function of DataFusion that makes computed values of stored ones.

use arrow_schema::DataType;
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast,
};
use model::Error;

use crate::arrow::stored::Shown;
use crate::evaluation::evaluate::{compute, signature};

/// The computed values of a stored column.
pub(crate) fn shown(column: Expr, by: &Shown) -> Expr {
    match by {
        // DataFusion knows casts, and compares their arguments where it can.
        Shown::Cast(to) => cast(column, to.clone()),
        by => {
            let signature = signature(1, Volatility::Immutable);
            ScalarUDF::from(StoredValues { by: by.clone(), signature }).call(vec![column])
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StoredValues {
    by: Shown,
    signature: Signature,
}

impl ScalarUDFImpl for StoredValues {
    fn name(&self) -> &str {
        "stored_values"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.by.arrow())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        compute(&arguments, false, |columns, _| match columns {
            [column] => self.by.convert(column),
            _ => Err(Error::bug("stored values of other than one column")),
        })
    }
}
