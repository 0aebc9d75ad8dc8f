//! One error type for the whole database: a few public kinds chosen by what the caller does next, an SQLSTATE
//! for clients, a text that says what failed, where, what was seen and what was expected.

use std::fmt;

use crate::TableName;

/// Shorthand used by every crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Fix the request; nothing was changed.
    Invalid,
    /// The named thing does not exist.
    NotFound,
    /// Run the transaction again.
    Conflict,
    /// Try again later: the server is short of something or shutting down.
    Unavailable,
    /// The request is well formed but not something this version does.
    Unsupported,
    /// Look at the machine: a file or disk operation failed.
    Io,
    /// Stored bytes are not what was written: restore.
    Corrupt,
    /// Our mistake: report it.
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
        /// The SQLSTATEs Millrace answers with.
        impl SqlState {
            $(#[doc = $doc] pub const $name: SqlState = SqlState($code);)*

            /// The kind an error with this state has unless set otherwise.
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
    CONNECTION_FAILURE = "08006", Unavailable, "The connection broke.";
    PROTOCOL_VIOLATION = "08P01", Invalid, "Bytes that are not the protocol.";
    FEATURE_NOT_SUPPORTED = "0A000", Unsupported, "Not something this version does.";
    CARDINALITY_VIOLATION = "21000", Invalid, "One command would change a row twice, or a subquery gave more than one row.";
    DATA_EXCEPTION = "22000", Invalid, "A bad value.";
    STRING_TOO_LONG = "22001", Invalid, "Text longer than its type.";
    NUMERIC_OUT_OF_RANGE = "22003", Invalid, "A number its type cannot hold.";
    INVALID_DATETIME_FORMAT = "22007", Invalid, "Text that is no date or time.";
    DATETIME_OVERFLOW = "22008", Invalid, "A time outside 1677-09-21 .. 2262-04-11.";
    SUBSTRING_ERROR = "22011", Invalid, "A substring of negative length.";
    DIVISION_BY_ZERO = "22012", Invalid, "Division by zero.";
    CHARACTER_NOT_IN_REPERTOIRE = "22021", Invalid, "Bytes that are not UTF-8.";
    INVALID_ESCAPE_SEQUENCE = "22025", Invalid, "A LIKE pattern that ends with its escape character.";
    INVALID_LOG_ARGUMENT = "2201E", Invalid, "A logarithm that is no real number.";
    INVALID_POWER_ARGUMENT = "2201F", Invalid, "A power or root that is no real number.";
    INVALID_ROW_COUNT_IN_LIMIT = "2201W", Invalid, "A negative LIMIT.";
    INVALID_ROW_COUNT_IN_OFFSET = "2201X", Invalid, "A negative OFFSET.";
    INVALID_PARAMETER_VALUE = "22023", Invalid, "An argument or option with a value it cannot have.";
    INVALID_TEXT_REPRESENTATION = "22P02", Invalid, "Text that is no value of its type.";
    INVALID_BINARY_REPRESENTATION = "22P03", Invalid, "Bytes that are no value of their type.";
    BAD_COPY_FILE_FORMAT = "22P04", Invalid, "COPY data that is malformed.";
    SEQUENCE_LIMIT_EXCEEDED = "2200H", Invalid, "A sequence at its end.";
    NOT_NULL_VIOLATION = "23502", Invalid, "NULL in a column that refuses it.";
    FOREIGN_KEY_VIOLATION = "23503", Invalid, "A row refers to none, or is referred to.";
    UNIQUE_VIOLATION = "23505", Invalid, "The key exists.";
    CHECK_VIOLATION = "23514", Invalid, "A row that its table's CHECK refuses.";
    ACTIVE_SQL_TRANSACTION = "25001", Invalid, "Not allowed inside a transaction.";
    READ_ONLY_SQL_TRANSACTION = "25006", Invalid, "A write in a read-only transaction.";
    NO_ACTIVE_SQL_TRANSACTION = "25P01", Invalid, "Only allowed inside a transaction.";
    IN_FAILED_SQL_TRANSACTION = "25P02", Invalid, "The transaction failed earlier; only ROLLBACK is accepted.";
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03", Unavailable, "The client left its transaction alone for too long.";
    INVALID_SQL_STATEMENT_NAME = "26000", NotFound, "No such prepared statement.";
    INVALID_AUTHORIZATION = "28000", Invalid, "The user may not connect.";
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01", Invalid, "Something else needs what is to be dropped.";
    INVALID_CURSOR_NAME = "34000", NotFound, "No such portal.";
    INVALID_CATALOG_NAME = "3D000", NotFound, "No such database.";
    INVALID_SCHEMA_NAME = "3F000", NotFound, "No such schema.";
    SERIALIZATION_FAILURE = "40001", Conflict, "The transaction met a concurrent change; run it again.";
    DEADLOCK_DETECTED = "40P01", Conflict, "Transactions wait for each other; run this one again.";
    CANT_CHANGE_RUNTIME_PARAM = "55P02", Invalid, "A setting that cannot be changed now.";
    SYNTAX_ERROR = "42601", Invalid, "The statement cannot be parsed.";
    DUPLICATE_COLUMN = "42701", Invalid, "The column exists.";
    DUPLICATE_ALIAS = "42712", Invalid, "The statement has two tables of this name.";
    DUPLICATE_OBJECT = "42710", Invalid, "The constraint exists.";
    AMBIGUOUS_COLUMN = "42702", Invalid, "The name fits several columns.";
    UNDEFINED_COLUMN = "42703", NotFound, "No such column.";
    UNDEFINED_OBJECT = "42704", NotFound, "No such type or setting.";
    DUPLICATE_CURSOR = "42P03", Invalid, "The portal exists.";
    DUPLICATE_PREPARED_STATEMENT = "42P05", Invalid, "The prepared statement exists.";
    DUPLICATE_SCHEMA = "42P06", Invalid, "The schema exists.";
    DUPLICATE_TABLE = "42P07", Invalid, "The table exists.";
    INVALID_COLUMN_REFERENCE = "42P10", Invalid, "A column that cannot be used there.";
    INVALID_TABLE_DEFINITION = "42P16", Invalid, "A table that cannot be made.";
    INDETERMINATE_DATATYPE = "42P18", Invalid, "The type of a parameter cannot be told.";
    UNDEFINED_TABLE = "42P01", NotFound, "No such table.";
    UNDEFINED_PARAMETER = "42P02", NotFound, "No such parameter.";
    GROUPING_ERROR = "42803", Invalid, "A column that is neither grouped nor aggregated.";
    CANNOT_COERCE = "42846", Invalid, "No cast between these types.";
    DATATYPE_MISMATCH = "42804", Invalid, "A value of the wrong type.";
    WRONG_OBJECT_TYPE = "42809", Invalid, "The name is that of something else.";
    INVALID_FOREIGN_KEY = "42830", Invalid, "A foreign key that refers to no key.";
    GENERATED_ALWAYS = "428C9", Invalid, "A value for a column that only its sequence gives values.";
    AMBIGUOUS_FUNCTION = "42725", Invalid, "Several functions or operators fit these types equally well.";
    UNDEFINED_FUNCTION = "42883", NotFound, "No such function or operator for these types.";
    RESERVED_NAME = "42939", Invalid, "A name the system keeps for itself.";
    INVALID_NAME = "42602", Invalid, "A name that cannot be one.";
    INSUFFICIENT_RESOURCES = "53000", Unavailable, "The process or the machine is short of something, like file handles.";
    OUT_OF_MEMORY = "53200", Unavailable, "The memory budget is used up.";
    DISK_FULL = "53100", Unavailable, "The disk is full.";
    TOO_MANY_CONNECTIONS = "53300", Unavailable, "No connection slot is free.";
    CONFIGURATION_LIMIT_EXCEEDED = "53400", Unavailable, "A configured limit was reached.";
    INVALID_SAVEPOINT_SPECIFICATION = "3B001", Invalid, "A savepoint of that name does not exist.";
    PROGRAM_LIMIT_EXCEEDED = "54000", Invalid, "A built-in limit was reached.";
    STATEMENT_TOO_COMPLEX = "54001", Invalid, "The statement nests too deeply.";
    TOO_MANY_COLUMNS = "54011", Invalid, "More columns than a table can have.";
    OBJECT_NOT_IN_PREREQUISITE_STATE = "55000", Unavailable, "Not possible in the present state.";
    LOCK_NOT_AVAILABLE = "55P03", Unavailable, "Somebody else holds the lock.";
    QUERY_CANCELED = "57014", Unavailable, "Cancelled by the user or a timeout.";
    ADMIN_SHUTDOWN = "57P01", Unavailable, "The server is shutting down.";
    CANNOT_CONNECT_NOW = "57P03", Unavailable, "The server is starting or stopping.";
    IDLE_SESSION_TIMEOUT = "57P05", Unavailable, "The client sent nothing for too long.";
    IO_ERROR = "58030", Io, "A file operation failed; the outcome may be unknown.";
    INTERNAL_ERROR = "XX000", Bug, "Our mistake.";
    DATA_CORRUPTED = "XX001", Corrupt, "Stored bytes are not what was written.";
}

/// What went wrong. Cheap to move: one pointer.
///
/// The message is one sentence without a full stop: what failed, where, seen and expected. `detail` says what
/// is still safe; `hint` says what to do. Lower layers add facts with [`Error::context`], the edge adds hints.
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

/// What an error is about, by name: programs read it from PostgreSQL's fields beside the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The table whose column or constraint it is.
    pub table: TableName,
    /// What of it.
    pub part: Part,
}

/// What of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A column, by name.
    Column(String),
    /// A constraint, or the index that keeps keys unique.
    Constraint(String),
}

impl Error {
    /// An error of the kind that belongs to `state`.
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

    /// Something this version does not do (0A000).
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    /// Our mistake (XX000).
    #[must_use]
    pub fn bug(message: impl fmt::Display) -> Error {
        Error::new(SqlState::INTERNAL_ERROR, format!("BUG: {message}"))
    }

    /// Stored bytes are not what was written (XX001).
    #[must_use]
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(SqlState::DATA_CORRUPTED, message)
    }

    /// A failed file operation: `what` names operation and path. A full disk becomes 53100, anything else 58030.
    #[must_use]
    pub fn io(what: impl fmt::Display, error: &std::io::Error) -> Error {
        let state = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => SqlState::DISK_FULL,
            _ => SqlState::IO_ERROR,
        };
        Error::new(state, format!("{what}: {error}"))
    }

    /// Sets the kind, where it differs from the one of the SQLSTATE.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Error {
        self.0.kind = kind;
        self
    }

    /// Adds what is still safe, or facts.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.0.detail = Some(detail.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds where in data from outside it was met: what PostgreSQL calls CONTEXT.
    #[must_use]
    pub fn with_place(mut self, place: impl Into<String>) -> Error {
        self.0.place = Some(place.into());
        self
    }

    /// Adds the place in the statement, in characters from 1.
    #[must_use]
    pub fn with_position(mut self, position: u32) -> Error {
        self.0.position = Some(position);
        self
    }

    /// Adds which column of a table it is about.
    #[must_use]
    pub fn about_column(mut self, table: &TableName, column: impl Into<String>) -> Error {
        self.0.subject = Some(Subject { table: table.clone(), part: Part::Column(column.into()) });
        self
    }

    /// Adds which constraint of a table it is about.
    #[must_use]
    pub fn about_constraint(mut self, table: &TableName, constraint: impl Into<String>) -> Error {
        self.0.subject = Some(Subject { table: table.clone(), part: Part::Constraint(constraint.into()) });
        self
    }

    /// Puts `place: ` before the message.
    #[must_use]
    pub fn context(mut self, place: impl fmt::Display) -> Error {
        self.0.message = format!("{place}: {}", self.0.message);
        self
    }

    /// What the caller does next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The SQLSTATE for clients.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// What failed, where, seen and expected.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What is still safe.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// What to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in data from outside it was met.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// Place in the statement, in characters from 1.
    #[must_use]
    pub fn position(&self) -> Option<u32> {
        self.0.position
    }

    /// What it is about, by name.
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
    fn full_disk_is_told_from_other_io_errors() {
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
