//! Errors of Millrace inside of DataFusion's.

use datafusion::error::DataFusionError;
use model::Error;

/// Wraps an error.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The wrapped error; DataFusion's own as a refusal, since it builds no plan for the query.
pub(crate) fn internal(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => refused(&other.to_string()),
        },
        DataFusionError::Context(_, inner) => internal(*inner),
        other => refused(&other.to_string()),
    }
}

fn refused(detail: &str) -> Error {
    Error::unsupported("this query is not supported").with_detail(detail)
}
