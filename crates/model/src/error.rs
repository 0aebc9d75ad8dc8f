//! One error type for the whole database: a few public kinds, chosen by how the caller reacts, an
//! SQLSTATE for clients, and a message with what failed, where, and the seen and expected values.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::TableName;

/// Result with [`Error`], used by every crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reaction expected from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Fix the request; nothing was changed.
    Invalid,
    /// The named object does not exist.
    NotFound,
    /// Run the transaction again.
    Conflict,
    /// Try again later: the server lacks a resource or is shutting down.
    Unavailable,
    /// The request is well-formed but not supported by this version.
    Unsupported,
    /// Check the machine: a file or disk operation failed.
    Io,
    /// Stored bytes differ from those written: restore.
    Corrupt,
    /// A bug in the database: report it.
    Bug,
}

/// A five-character SQLSTATE code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

macro_rules! states {
    ($($name:ident = $code:literal, $kind:ident, $doc:literal;)*) => {
        /// The SQLSTATEs that Millrace uses.
        impl SqlState {
            $(#[doc = $doc] pub const $name: SqlState = SqlState($code);)*

            /// The default kind of an error with this state.
            #[must_use]
            pub fn kind(self) -> ErrorKind {
                match self.0 {
                    $($code => ErrorKind::$kind,)*
                    _ => ErrorKind::Invalid,
                }
            }
        }
    };
}

states! {
    CONNECTION_FAILURE = "08006", Unavailable, "The connection was lost.";
    PROTOCOL_VIOLATION = "08P01", Invalid, "Bytes that violate the protocol.";
    FEATURE_NOT_SUPPORTED = "0A000", Unsupported, "Not supported by this version.";
    CARDINALITY_VIOLATION = "21000", Invalid, "One command would change a row twice, or a scalar subquery returned several rows.";
    DATA_EXCEPTION = "22000", Invalid, "An invalid value.";
    STRING_TOO_LONG = "22001", Invalid, "Text longer than its type permits.";
    NUMERIC_OUT_OF_RANGE = "22003", Invalid, "A number out of the range of its type.";
    INVALID_DATETIME_FORMAT = "22007", Invalid, "Text that is not a valid date or time.";
    DATETIME_OVERFLOW = "22008", Invalid, "A time outside 1677-09-21 .. 2262-04-11.";
    SUBSTRING_ERROR = "22011", Invalid, "A substring of negative length.";
    DIVISION_BY_ZERO = "22012", Invalid, "Division by zero.";
    CHARACTER_NOT_IN_REPERTOIRE = "22021", Invalid, "Bytes that are not UTF-8.";
    INVALID_ESCAPE_SEQUENCE = "22025", Invalid, "A LIKE pattern that ends with its escape character.";
    INVALID_LOG_ARGUMENT = "2201E", Invalid, "A logarithm that is not a real number.";
    INVALID_POWER_ARGUMENT = "2201F", Invalid, "A power or root that is not a real number.";
    INVALID_ROW_COUNT_IN_LIMIT = "2201W", Invalid, "A negative LIMIT.";
    INVALID_ROW_COUNT_IN_OFFSET = "2201X", Invalid, "A negative OFFSET.";
    INVALID_PARAMETER_VALUE = "22023", Invalid, "An argument or option with an invalid value.";
    INVALID_TEXT_REPRESENTATION = "22P02", Invalid, "Text that is not a valid value of its type.";
    INVALID_BINARY_REPRESENTATION = "22P03", Invalid, "Bytes that are not a valid value of their type.";
    BAD_COPY_FILE_FORMAT = "22P04", Invalid, "Malformed COPY data.";
    SEQUENCE_LIMIT_EXCEEDED = "2200H", Invalid, "The sequence has reached its bound.";
    NOT_NULL_VIOLATION = "23502", Invalid, "NULL in a NOT NULL column.";
    FOREIGN_KEY_VIOLATION = "23503", Invalid, "A referenced row is missing, or a row is still referenced.";
    UNIQUE_VIOLATION = "23505", Invalid, "The key exists.";
    CHECK_VIOLATION = "23514", Invalid, "A row that violates a CHECK of its table.";
    WITH_CHECK_OPTION_VIOLATION = "44000", Invalid, "A row that the view through which it was changed would not show.";
    ACTIVE_SQL_TRANSACTION = "25001", Invalid, "Not allowed inside a transaction.";
    READ_ONLY_SQL_TRANSACTION = "25006", Invalid, "A write in a read-only transaction.";
    NO_ACTIVE_SQL_TRANSACTION = "25P01", Invalid, "Only allowed inside a transaction.";
    IN_FAILED_SQL_TRANSACTION = "25P02", Invalid, "The transaction failed earlier; only ROLLBACK is accepted.";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03", Unavailable, "The transaction was idle for too long.";
    INVALID_SQL_STATEMENT_NAME = "26000", NotFound, "No such prepared statement.";
    TRIGGERED_DATA_CHANGE_VIOLATION = "27000", Invalid, "A function changed a row that the statement changes itself.";
    INVALID_AUTHORIZATION = "28000", Invalid, "The user may not connect.";
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01", Invalid, "Other objects depend on the object to be dropped.";
    INVALID_CURSOR_NAME = "34000", NotFound, "No such portal.";
    INVALID_CATALOG_NAME = "3D000", NotFound, "No such database.";
    INVALID_SCHEMA_NAME = "3F000", NotFound, "No such schema.";
    SERIALIZATION_FAILURE = "40001", Conflict, "The transaction conflicts with a concurrent one; run it again.";
    DEADLOCK_DETECTED = "40P01", Conflict, "Transactions wait for each other; run this one again.";
    CANT_CHANGE_RUNTIME_PARAM = "55P02", Invalid, "A setting that cannot be changed now.";
    SYNTAX_ERROR = "42601", Invalid, "The statement cannot be parsed.";
    DUPLICATE_COLUMN = "42701", Invalid, "The column exists.";
    DUPLICATE_ALIAS = "42712", Invalid, "Two tables of the statement have this name.";
    DUPLICATE_OBJECT = "42710", Invalid, "The constraint exists.";
    AMBIGUOUS_COLUMN = "42702", Invalid, "The name matches several columns.";
    UNDEFINED_COLUMN = "42703", NotFound, "No such column.";
    UNDEFINED_OBJECT = "42704", NotFound, "No such type or setting.";
    DUPLICATE_CURSOR = "42P03", Invalid, "The portal exists.";
    DUPLICATE_PREPARED_STATEMENT = "42P05", Invalid, "The prepared statement exists.";
    DUPLICATE_SCHEMA = "42P06", Invalid, "The schema exists.";
    DUPLICATE_TABLE = "42P07", Invalid, "The table exists.";
    INVALID_COLUMN_REFERENCE = "42P10", Invalid, "A column that cannot be used in this place.";
    INVALID_TABLE_DEFINITION = "42P16", Invalid, "An invalid table definition.";
    INDETERMINATE_DATATYPE = "42P18", Invalid, "The type of a parameter cannot be determined.";
    UNDEFINED_TABLE = "42P01", NotFound, "No such table.";
    UNDEFINED_PARAMETER = "42P02", NotFound, "No such parameter.";
    GROUPING_ERROR = "42803", Invalid, "A column that is neither grouped nor aggregated.";
    CANNOT_COERCE = "42846", Invalid, "No cast between these types.";
    DATATYPE_MISMATCH = "42804", Invalid, "A value of the wrong type.";
    WRONG_OBJECT_TYPE = "42809", Invalid, "The name is that of an object of another kind.";
    INVALID_FOREIGN_KEY = "42830", Invalid, "A foreign key that does not reference a unique key.";
    GENERATED_ALWAYS = "428C9", Invalid, "A value for a GENERATED ALWAYS column.";
    AMBIGUOUS_FUNCTION = "42725", Invalid, "Several functions or operators fit these types equally well.";
    UNDEFINED_FUNCTION = "42883", NotFound, "No such function or operator for these types.";
    RESERVED_NAME = "42939", Invalid, "A name reserved for the system.";
    INVALID_NAME = "42602", Invalid, "An invalid name.";
    INSUFFICIENT_RESOURCES = "53000", Unavailable, "The process or the machine lacks a resource, such as file handles.";
    OUT_OF_MEMORY = "53200", Unavailable, "The memory budget is used up.";
    DISK_FULL = "53100", Unavailable, "The disk is full.";
    TOO_MANY_CONNECTIONS = "53300", Unavailable, "No connection slot is free.";
    CONFIGURATION_LIMIT_EXCEEDED = "53400", Unavailable, "A configured limit was reached.";
    INVALID_SAVEPOINT_SPECIFICATION = "3B001", Invalid, "A savepoint of that name does not exist.";
    PROGRAM_LIMIT_EXCEEDED = "54000", Invalid, "A built-in limit was reached.";
    STATEMENT_TOO_COMPLEX = "54001", Invalid, "The statement nests too deeply.";
    TOO_MANY_COLUMNS = "54011", Invalid, "More columns than a table can have.";
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000", Unavailable, "Not possible in the present state.";
    LOCK_NOT_AVAILABLE = "55P03", Unavailable, "Another transaction or process holds the lock.";
    QUERY_CANCELED = "57014", Unavailable, "Cancelled by the user or a timeout.";
    ADMIN_SHUTDOWN = "57P01", Unavailable, "The server is shutting down.";
    CANNOT_CONNECT_NOW = "57P03", Unavailable, "The server is starting or stopping.";
    IDLE_SESSION_TIMEOUT = "57P05", Unavailable, "The client sent nothing for too long.";
    IO_ERROR = "58030", Io, "A file operation failed; the outcome may be unknown.";
    INTERNAL_ERROR = "XX000", Bug, "A bug in the database.";
    DATA_CORRUPTED = "XX001", Corrupt, "Stored bytes differ from those written.";
}

/// An error. Cheap to move: one pointer.
///
/// The message is one sentence without a full stop: what failed, where, seen and expected. `detail`
/// tells what is still safe; `hint` tells what to do. Lower layers add facts with
/// [`Error::context`], the protocol layer adds hints.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    place: Option<String>,
    position: Option<u32>,
    subject: Option<Subject>,
}

/// The object of an error, for programs that read PostgreSQL's error fields in addition to the
/// text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The table with the column or constraint.
    pub table: TableName,
    /// The column or constraint.
    pub part: Part,
}

/// A part of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Name of a column.
    Column(String),
    /// Name of a constraint or a unique index.
    Constraint(String),
}

impl Error {
    /// Creates an error with the default kind of `state`.
    #[must_use]
    pub fn new(state: SqlState, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind: state.kind(),
            state,
            message: message.into(),
            detail: None,
            hint: None,
            place: None,
            position: None,
            subject: None,
        }))
    }

    /// An error for unsupported requests (0A000).
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// An error for a bug in the database (XX000).
    #[must_use]
    pub fn bug(message: impl fmt::Display) -> Error {
        Error::new(SqlState::INTERNAL_ERROR, format!("BUG: {message}"))
    }

    /// Runs `work`, and turns an assertion that fails in it into an error of kind `Bug`.
    ///
    /// For work that changes nothing until it returns, or whose state is given up after the error: a broken invariant
    /// then stops that work, and the rest goes on.
    ///
    /// # Errors
    /// XX000, with the message of the assertion.
    pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
            Error::bug(text.trim_start_matches("BUG: "))
        })
    }

    /// An error for damaged data (XX001).
    #[must_use]
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(SqlState::DATA_CORRUPTED, message)
    }

    /// An error of a file operation: `what` names operation and path. A full disk gives 53100,
    /// other errors 58030.
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Error {
        let state = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
            _ => SqlState::IO_ERROR,
        };
        Error::new(state, format!("{what}: {error}"))
    }

    /// Sets a kind other than the default of the SQLSTATE.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Adds a detail: what is still safe, or further facts.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds a hint: what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the position in external data where the error occurred; PostgreSQL's CONTEXT field.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Error {
        self.0.place = Some(place.into());
        self
    }

    /// Adds the position in the statement, in characters from 1.
    #[must_use]
    pub fn with_position(mut self, position: u32) -> Error {
        self.0.position = Some(position);
        self
    }

    /// Removes the position.
    #[must_use]
    pub fn without_position(mut self) -> Error {
        self.0.position = None;
        self
    }

    /// Sets the column that the error is about.
    #[must_use]
    pub fn about_column(mut self, table: &TableName, column: impl Into<String>) -> Error {
        self.0.subject = Some(Subject { table: table.clone(), part: Part::Column(column.into()) });
        self
    }

    /// Sets the constraint that the error is about.
    #[must_use]
    pub fn about_constraint(mut self, table: &TableName, constraint: impl Into<String>) -> Error {
        self.0.subject = Some(Subject { table: table.clone(), part: Part::Constraint(constraint.into()) });
        self
    }

    /// Prefixes the message with `place: `.
    #[must_use]
    pub fn context(mut self, place: impl fmt::Display) -> Error {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// The reaction expected from the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE for clients.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// The message: what failed, where, seen and expected.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The detail: what is still safe, or further facts.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// The hint: what to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The position in external data where the error occurred.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// The position in the statement, in characters from 1.
    #[must_use]
    pub fn position(&self) -> Option<u32> {
        self.0.position
    }

    /// The column or constraint that the error is about.
    #[must_use]
    pub fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(detail) = &self.0.detail {
            write!(f, ". {detail}")?;
        }
        if let Some(place) = &self.0.place {
            write!(f, ". {place}")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, ". Hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?}): {self}", self.0.state, self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_assertion_becomes_an_error_of_kind_bug() {
        let (seen, text) = (3, "BUG: a constant text");
        let formatted = Error::contain(|| assert!(seen == 4, "BUG: {seen} rows, expected 4")).unwrap_err();
        assert_eq!((formatted.kind(), formatted.message()), (ErrorKind::Bug, "BUG: 3 rows, expected 4"));
        assert_eq!(Error::contain(|| std::panic::panic_any(text)).unwrap_err().message(), text);
        assert_eq!(Error::contain(|| 7), Ok(7));
    }

    #[test]
    fn a_full_disk_is_distinguished_from_other_io_errors() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Error::io("write x", &full).state(), SqlState::DISK_FULL);
        let other = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(Error::io("write x", &other).kind(), ErrorKind::Io);
    }

    #[test]
    fn display_gives_message_detail_place_and_hint_in_order() {
        let error = Error::new(SqlState::UNDEFINED_TABLE, "no table \"x\"").with_hint("create it").with_detail("d");
        assert_eq!(error.clone().with_place("line 3").to_string(), "no table \"x\". d. line 3. Hint: create it");
        assert_eq!(error.context("here").message(), "here: no table \"x\"");
    }
}
