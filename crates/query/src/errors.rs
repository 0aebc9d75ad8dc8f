//! Translates errors of DataFusion and Arrow to PostgreSQL's: an SQLSTATE, a message without names of the
//! implementation, a position.

use arrow_schema::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use model::{Error, Result, SqlState};

use crate::statement::{NO_PLACE, Parsed};

/// Wraps our error in DataFusion's.
pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Converts results of DataFusion into ours.
pub(crate) trait OrError<T> {
    /// Converts without a position.
    fn or_error(self) -> Result<T>;
    /// Converts, and locates in the statement the name that the message quotes.
    fn or_error_in(self, parsed: &Parsed) -> Result<T>;
}

impl<T> OrError<T> for std::result::Result<T, DataFusionError> {
    fn or_error(self) -> Result<T> {
        self.map_err(|error| convert(&error))
    }

    fn or_error_in(self, parsed: &Parsed) -> Result<T> {
        self.map_err(|error| locate(convert(&error), parsed))
    }
}

/// Adds the position of the name that the message quotes, if it occurs in the statement.
pub(crate) fn locate(error: Error, parsed: &Parsed) -> Error {
    let names_something = matches!(
        error.state(),
        SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_FUNCTION
            | SqlState::AMBIGUOUS_COLUMN
            | SqlState::GROUPING_ERROR
            | SqlState::INVALID_TEXT_REPRESENTATION
            | SqlState::INVALID_DATETIME_FORMAT
            | SqlState::DUPLICATE_COLUMN
    );
    if error.position().is_some() || !names_something || parsed.offset == NO_PLACE {
        return error;
    }
    match quoted(error.message()).and_then(|name| find_name(&parsed.sql, &name)) {
        Some(at) => error.with_position(parsed.offset + at + 1),
        None => error,
    }
}

/// The text in quotes, without its qualifier; or the name before the parenthesis ("function f(integer) does not
/// exist").
fn quoted(message: &str) -> Option<String> {
    if let Some(rest) = message.strip_prefix("function ") {
        return rest.split('(').next().map(str::to_owned);
    }
    let start = message.find('"')?;
    let rest = &message[start + 1..];
    let name = rest[..rest.rfind('"')?].to_owned();
    Some(name.rsplit("\".\"").next().unwrap_or(&name).to_owned())
}

/// The number of characters before the first occurrence of `name` as a whole word.
fn find_name(sql: &str, name: &str) -> Option<u32> {
    if name.is_empty() {
        return None;
    }
    let lower = sql.to_ascii_lowercase();
    let needle = name.to_ascii_lowercase();
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    lower.match_indices(&needle).find_map(|(at, _)| {
        let before = lower[..at].chars().next_back();
        let after = lower[at + needle.len()..].chars().next();
        let whole = !inside(before) && !inside(after);
        whole.then(|| u32::try_from(lower[..at].chars().count()).unwrap_or(u32::MAX))
    })
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
        DataFusionError::SchemaError(error, _) => schema(error),
        DataFusionError::NotImplemented(message) => Error::unsupported(lower_first(&clean(message))),
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::IoError(error) => Error::io("spill file", error),
        DataFusionError::Configuration(message) => Error::new(SqlState::INVALID_PARAMETER_VALUE, clean(message)),
        DataFusionError::Plan(message) => plan(message),
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

fn arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::CastError(message) | ArrowError::ParseError(message) => cast(message),
        ArrowError::ExternalError(inner) => external_error(inner.as_ref())
            .unwrap_or_else(|| Error::new(SqlState::INTERNAL_ERROR, clean(&inner.to_string()))),
        ArrowError::ComputeError(message) | ArrowError::InvalidArgumentError(message) => execution(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(clean(message)),
        ArrowError::MemoryError(message) => exhausted(message),
        ArrowError::IoError(_, error) => Error::io("spill file", error),
        other => Error::bug(clean(&other.to_string())),
    }
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

fn schema(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            if let Some(relation) = &field.relation
                && !valid_fields
                    .iter()
                    .any(|valid| valid.relation.as_ref().is_some_and(|have| have.table() == relation.table()))
            {
                return Error::new(
                    SqlState::UNDEFINED_TABLE,
                    format!("missing FROM-clause entry for table \"{}\"", relation.table()),
                );
            }
            let error = Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", field.name));
            match nearest(&field.name, valid_fields.iter().map(|valid| valid.name.as_str())) {
                Some(near) => error.with_hint(format!("perhaps you meant to reference the column \"{near}\"")),
                None => error,
            }
        }
        SchemaError::AmbiguousReference { field } => {
            Error::new(SqlState::AMBIGUOUS_COLUMN, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(SqlState::DUPLICATE_COLUMN, format!("column name \"{name}\" appears more than once"))
                .with_hint("name the columns with AS")
        }
    }
}

/// The most similar of `names`, if it differs from `name` by at most 1 to 3 edits, depending on its length.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 2).clamp(1, 3);
    names.map(|other| (distance(name, other), other)).filter(|(far, _)| *far <= limit).min().map(|(_, other)| other)
}

/// Levenshtein distance of two names, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

fn plan(message: &str) -> Error {
    let message = clean(message);
    let lower = message.to_ascii_lowercase();
    if let Some(rest) = message.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or("").to_owned();
        let error = Error::new(SqlState::UNDEFINED_FUNCTION, format!("function {name}() does not exist"));
        let near = rest.split("Did you mean '").nth(1).and_then(|near| near.split('\'').next());
        // DataFusion's suggestion may have little in common with the name.
        return match near.and_then(|near| nearest(&name, std::iter::once(near))) {
            Some(near) => error.with_hint(format!("perhaps you meant {near}")),
            None => error.with_hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ),
        };
    }
    // Unwraps an error of one of our own functions about its arguments.
    if let Some((_, own)) = message.split_once("user-defined coercion failed with: External error: ") {
        let own = own.split(". No function matches").next().unwrap_or(own);
        return Error::new(SqlState::UNDEFINED_FUNCTION, own)
            .with_hint("no function takes these types; add explicit casts");
    }
    let function = lower.contains("no function matches")
        || lower.contains("candidate functions")
        || lower.contains("coercion from")
        || lower.contains("failed to coerce arguments")
        || lower.contains("does not support")
        || lower.contains("expects");
    let operator = lower.contains("cannot coerce")
        || lower.contains("cannot infer common argument type")
        || lower.contains("cannot get result type")
        || lower.contains("common type");
    if function || operator {
        let first = message.lines().next().unwrap_or(&message);
        return Error::new(SqlState::UNDEFINED_FUNCTION, lower_first(first))
            .with_hint("no function or operator takes these types; add explicit casts");
    }
    if lower.contains("group by") || lower.contains("aggregate") {
        return Error::new(SqlState::GROUPING_ERROR, lower_first(&message));
    }
    if lower.contains("placeholder") && lower.contains("conflicting types") {
        return Error::new(SqlState::DATATYPE_MISMATCH, lower_first(&message));
    }
    if lower.contains("unsupported") || lower.contains("not supported") || lower.contains("not implemented") {
        return Error::unsupported(lower_first(&message));
    }
    if lower.contains("unique expression names") || lower.contains("ambiguous") {
        return Error::new(SqlState::AMBIGUOUS_COLUMN, lower_first(&message));
    }
    if lower.contains("cannot cast") {
        return Error::new(SqlState("42846"), lower_first(&message));
    }
    if lower.contains("type") {
        return Error::new(SqlState::DATATYPE_MISMATCH, lower_first(&message));
    }
    Error::new(SqlState::SYNTAX_ERROR, lower_first(&message))
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

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let names = ["time", "temperature", "dev"];
        assert_eq!(nearest("tempertaure", names.into_iter()), Some("temperature"));
        assert_eq!(nearest("tiem", names.into_iter()), Some("time"));
        assert_eq!(nearest("pressure", names.into_iter()), None);
    }

    #[test]
    fn positions_point_at_whole_words() {
        assert_eq!(find_name("SELECT abc, é, ab FROM t", "ab"), Some(15));
        assert_eq!(quoted("relation \"s\".\"t\" does not exist").as_deref(), Some("t"));
    }
}
