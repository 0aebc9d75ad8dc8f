//! Errors of Millrace inside of DataFusion's.

use datafusion::error::DataFusionError;
use model::Error;

/// Wraps an error.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The wrapped error, or DataFusion's as a bug.
pub(crate) fn internal(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::bug(other),
        },
        DataFusionError::Context(_, inner) => internal(*inner),
        other => Error::bug(other),
    }
}
