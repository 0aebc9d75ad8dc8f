//! Every limit that a user can reach. A test checks the manual (`docs/manual/limits.md`) against
//! these.

/// Maximum number of columns of a table, key and time included.
pub const COLUMNS_PER_TABLE_MAX: usize = 4_096;
/// Maximum number of series of one table.
pub const SERIES_PER_TABLE_MAX: u32 = 100_000_000;
/// Maximum number of rows of a `rows` table, including deleted ones that a snapshot may still see.
pub const ROWS_PER_TABLE_MAX: u64 = 1 << 32;
/// Maximum number of tables and views in one database.
pub const TABLES_MAX: usize = 100_000;
/// Maximum number of types that are created between two starts of the process.
pub const USER_TYPES_MAX: usize = 100_000;
/// Largest encoded definition of a view or a type, in bytes: it must fit one log record.
pub const VIEW_BYTES_MAX: usize = 512 << 10;
/// Maximum number of triggers of a table.
pub const TRIGGERS_PER_TABLE_MAX: usize = 200;
/// Maximum number of functions and procedures in one database.
pub const ROUTINES_MAX: usize = 20_000;
/// Largest encoded definition of a function or procedure, in bytes: it must fit one log record.
pub const ROUTINE_BYTES_MAX: usize = 512 << 10;
/// Maximum number of attributes of a composite type, as in PostgreSQL.
pub const ATTRIBUTES_MAX: usize = 1_600;
/// Maximum number of input parameters of a function or procedure, as in PostgreSQL.
pub const ROUTINE_PARAMETERS_MAX: usize = 100;
/// Maximum number of calls of functions within each other.
pub const ROUTINE_DEPTH_MAX: usize = 400;
/// Bytes of the payload of a notification from which it is too long, as in PostgreSQL.
pub const NOTIFY_PAYLOAD_BYTES_MAX: usize = 8_000;
/// Bytes of all notifications that listening sessions have not read, and of those that transactions will send.
pub const NOTIFICATION_BYTES_MAX: u64 = 64 << 20;
/// Bytes of the notifications of one transaction.
pub const NOTIFICATION_TXN_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of statements of a function in PL/pgSQL within each other.
pub const PLPGSQL_DEPTH_MAX: u32 = 200;
/// Maximum number of views above each other: a view of tables is one level.
pub const VIEW_LEVELS_MAX: usize = 32;
/// Maximum number of views that one statement reads, counting each as often as it is named.
pub const VIEWS_PER_STATEMENT_MAX: usize = 1_000;
/// Longest name of a table, column or schema, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Largest text or bytes value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Largest value that an expression computes, in bytes.
pub const COMPUTED_BYTES_MAX: usize = 64 << 20;
/// Largest encoded row, in bytes: a value of the largest size, and 1 MiB of others.
pub const ROW_BYTES_MAX: usize = 65 << 20;
/// Largest DEFAULT or CHECK expression of a table, as text, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 512 << 10;
/// Largest key of an index of a `rows` table, in bytes.
pub const INDEX_KEY_BYTES_MAX: usize = 2_000;
/// Largest encoded series key, in bytes.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Longest SQL statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;
/// Largest HTTP request body, after decompression, in bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 64 << 20;
/// Limit for a Flight message, which is one record batch, with a small memory budget, in bytes.
pub const FLIGHT_MESSAGE_BYTES_MIN: usize = 72 << 20;
/// Limit for a Flight message with a large memory budget, in bytes; between the two it is 1/16 of
/// the budget.
pub const FLIGHT_MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Maximum number of statements, results and transactions that Flight clients have open.
pub const FLIGHT_OPEN_MAX: usize = 10_000;
/// Maximum number of parameters of a prepared statement.
pub const PARAMETERS_MAX: usize = 65_535;
/// Maximum number of client connections, unless `--max-connections` is given.
pub const CONNECTIONS_DEFAULT: usize = 1_000;
/// Divisor of the memory budget that limits the uncommitted rows of one transaction: 1/4 of it.
pub const TRANSACTION_MEMORY_SHARE: u64 = 4;
/// Divisor of the memory budget that limits the bytes of `rows` tables: 1/2 of it.
pub const ROWS_MEMORY_SHARE: u64 = 2;
/// Memory that statements, results, requests and uncommitted rows have together at least, even with
/// a smaller budget, in bytes.
pub const WORK_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Largest payload of one log record, in bytes.
pub const RECORD_PAYLOAD_BYTES_MAX: usize = 1 << 20;
