//! Errors: ours inside of DataFusion's, and DataFusion's and Arrow's as PostgreSQL's, with an SQLSTATE and a message without
//! names of the implementation.

use arrow_schema::ArrowError;
use datafusion::error::DataFusionError;
use model::{Error, Result, SqlState};

/// Wraps an error for DataFusion.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts results of DataFusion into ours.
pub(crate) trait OrError<T> {
    /// Converts the error.
    fn or_error(self) -> Result<T>;
}

impl<T> OrError<T> for std::result::Result<T, DataFusionError> {
    fn or_error(self) -> Result<T> {
        self.map_err(|error| convert(&error))
    }
}

/// Converts an error of DataFusion.
pub(crate) fn convert(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match external_error(inner.as_ref()) {
            Some(error) => error,
            None => Error::new(SqlState::INTERNAL_ERROR, clean(&inner.to_string())),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => convert(inner),
        DataFusionError::Shared(inner) => convert(inner),
        DataFusionError::Collection(errors) => {
            errors.first().map_or_else(|| Error::bug("an error without a cause"), convert)
        }
        DataFusionError::ArrowError(error, _) => arrow(error),
        DataFusionError::NotImplemented(message) => Error::unsupported(lower_first(&clean(message))),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::IoError(error) => Error::io("spill file", error),
        DataFusionError::Configuration(message) => Error::new(SqlState::INVALID_PARAMETER_VALUE, clean(message)),
        DataFusionError::Plan(message) => plan(message),
        DataFusionError::SchemaError(error, _) => refused(&clean(&error.to_string())),
        DataFusionError::Execution(message) => execution(message),
        DataFusionError::ExecutionJoin(error) if error.is_cancelled() => {
            Error::new(SqlState::QUERY_CANCELED, "canceling statement due to shutdown")
        }
        other => Error::bug(clean(&other.strip_backtrace())),
    }
}

fn external_error(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Option<Error> {
    if let Some(error) = error.downcast_ref::<Error>() {
        return Some(error.clone());
    }
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return Some(convert(error));
    }
    error.downcast_ref::<ArrowError>().map(arrow)
}

fn clean(message: &str) -> String {
    let mut message = message.trim();
    for prefix in [
        "DataFusion error: ",
        "Error during planning: ",
        "Execution error: ",
        "Arrow error: ",
        "External error: ",
        "Optimizer rule",
    ] {
        message = message.strip_prefix(prefix).unwrap_or(message);
    }
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let message = message.split("This issue was likely caused by").next().unwrap_or(message).trim();
    message.trim_end_matches('.').replace("DataFusion", "the planner")
}

fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    // A word in capitals is an SQL keyword.
    if text.chars().nth(1).is_some_and(char::is_uppercase) {
        return text.to_owned();
    }
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}

/// 53200. Operators that can spill report it only after spilling did not help.
fn exhausted(message: &str) -> Error {
    let what =
        message.split(" for ").nth(1).and_then(|rest| rest.split(['[', ' ', '\n']).next()).unwrap_or("the query");
    Error::new(SqlState::OUT_OF_MEMORY, format!("out of memory: {what} needs more than the memory left for statements"))
        .with_detail(clean(message))
        .with_hint("read a shorter time range, add a LIMIT, or start the server with a larger --memory")
}

/// Converts an error of Arrow.
pub(crate) fn arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => cast(message),
        ArrowError::ExternalError(inner) => external_error(inner.as_ref())
            .unwrap_or_else(|| Error::new(SqlState::INTERNAL_ERROR, clean(&inner.to_string()))),
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => execution(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(clean(message)),
        ArrowError::MemoryError(message) => exhausted(message),
        ArrowError::OffsetOverflowError(_) => too_long(),
        ArrowError::IoError(_, error) => Error::io("spill file", error),
        other => Error::bug(clean(&other.to_string())),
    }
}

/// Arrays of text and bytes have offsets of 32 bits.
pub(crate) fn too_long() -> Error {
    let text = "the values of a column that are processed together are longer than 2 GiB";
    Error::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text)
        .with_hint("read fewer rows, or fewer of the long values, at a time")
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

fn overflow(message: &str) -> Error {
    let lower = message.to_ascii_lowercase();
    let ty = if lower.contains("decimal") || lower.contains("precision") {
        "numeric field overflow"
    } else {
        "value out of range"
    };
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, ty).with_detail(clean(message))
}

/// A failed conversion: of a text (22P02, 22007) or of a number (22003).
fn cast(message: &str) -> Error {
    let value = single_quoted(message);
    let target = [
        ("Timestamp", "timestamp with time zone"),
        ("timestamp", "timestamp with time zone"),
        ("Date", "date"),
        ("Time64", "time"),
        ("time", "time"),
    ]
    .into_iter()
    .find(|(name, _)| message.contains(name));
    if message.starts_with("Error parsing timestamp") || (message.contains("Cannot cast string") && target.is_some()) {
        let ty = target.map_or("timestamp with time zone", |(_, ty)| ty);
        return Error::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type {ty}: \"{value}\""),
        );
    }
    if message.contains("Interval") || message.contains("interval") {
        return Error::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{value}\""),
        );
    }
    if message.contains("Cannot cast string")
        || message.contains("Cannot cast value")
        || message.starts_with("Cannot cast")
    {
        let ty = type_in(message).unwrap_or("the type asked for");
        if matches!(ty, "smallint" | "integer" | "bigint") && is_integer(value) {
            let text = format!("value \"{value}\" is out of range for type {ty}");
            return Error::new(SqlState::NUMERIC_OUT_OF_RANGE, text);
        }
        return Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {ty}: \"{value}\""),
        );
    }
    if message.contains("Can't cast value") || message.contains("too large") || message.contains("verflow") {
        let ty = type_in(message).unwrap_or("value");
        return Error::new(SqlState::NUMERIC_OUT_OF_RANGE, format!("{ty} out of range")).with_detail(clean(message));
    }
    Error::new(SqlState::INVALID_TEXT_REPRESENTATION, lower_first(&clean(message)))
}

fn is_integer(text: &str) -> bool {
    let digits = text.trim().trim_start_matches(['+', '-']);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn single_quoted(message: &str) -> &str {
    let start = message.find('\'').map_or(0, |at| at + 1);
    let end = message.rfind('\'').filter(|end| *end >= start).unwrap_or(message.len());
    // Some messages quote more than one text, such as "Error parsing timestamp from 'x': error parsing date".
    message[start..end].split("': ").next().unwrap_or("").split("' to ").next().unwrap_or("")
}

fn type_in(message: &str) -> Option<&'static str> {
    let names = [
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("UInt64", "numeric(20)"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Decimal", "numeric"),
        ("Boolean", "boolean"),
        ("Interval", "interval"),
    ];
    let tail = message.rsplit(" to ").next().unwrap_or(message);
    names.into_iter().rev().find(|(name, _)| tail.contains(name)).map(|(_, ty)| ty)
}

/// The binder has checked names and types, so a plan that DataFusion does not accept is one that it cannot run.
fn plan(message: &str) -> Error {
    let message = clean(message);
    // An error of one of our own functions about its arguments.
    if let Some((_, own)) = message.split_once("user-defined coercion failed with: External error: ") {
        let own = own.split(". No function matches").next().unwrap_or(own);
        return Error::new(SqlState::UNDEFINED_FUNCTION, own)
            .with_hint("no function takes these types; add explicit casts");
    }
    refused(&message)
}

fn refused(detail: &str) -> Error {
    Error::unsupported("this query is not supported").with_detail(detail)
}

fn execution(message: &str) -> Error {
    let message = clean(message);
    let lower = message.to_ascii_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return division_by_zero();
    }
    if lower.contains("overflow") || lower.contains("out of range") {
        return overflow(&message);
    }
    if lower.contains("parsing timestamp") || lower.contains("parsing date") || lower.contains("cannot cast") {
        return cast(&message);
    }
    if lower.contains("more than one row") {
        return Error::new(
            SqlState::CARDINALITY_VIOLATION,
            "more than one row returned by a subquery used as an expression",
        );
    }
    Error::new(SqlState::DATA_EXCEPTION, lower_first(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: DataFusionError, state: &str, message: &str) {
        let converted = convert(&error);
        assert_eq!((converted.state().0, converted.message()), (state, message));
    }

    #[test]
    fn arrow_errors_become_postgresql_errors() {
        let cases = [
            (ArrowError::DivideByZero, "22012", "division by zero"),
            (
                ArrowError::CastError("Cannot cast string 'abc' to value of Int32 type".into()),
                "22P02",
                "invalid input syntax for type integer: \"abc\"",
            ),
            (ArrowError::CastError("Can't cast value 70000 to type Int16".into()), "22003", "smallint out of range"),
            (
                ArrowError::ParseError("Error parsing timestamp from 'soon': error parsing date".into()),
                "22007",
                "invalid input syntax for type timestamp with time zone: \"soon\"",
            ),
        ];
        for (error, state, message) in cases {
            check(DataFusionError::ArrowError(Box::new(error), None), state, message);
        }
    }

    #[test]
    fn our_own_errors_pass_through_theirs() {
        let ours = Error::new(SqlState::UNDEFINED_TABLE, "relation \"x\" does not exist");
        let wrapped = external(ours.clone()).context("while planning");
        assert_eq!(convert(&wrapped), ours);
        let arrow = ArrowError::ExternalError(Box::new(external(ours.clone())));
        assert_eq!(convert(&DataFusionError::ArrowError(Box::new(arrow), None)), ours);
    }
}
