//! Every limit a user can meet. The manual (`docs/manual/limits.md`) is checked against these by a test.

/// Most columns a table can have, key and time included.
pub const COLUMNS_PER_TABLE_MAX: usize = 4_096;
/// Most series one table can have.
pub const SERIES_PER_TABLE_MAX: u32 = 100_000_000;
/// Most rows of a `rows` table, deleted ones that somebody may still see among them.
pub const ROWS_PER_TABLE_MAX: u64 = 1 << 32;
/// Most tables one database can have.
pub const TABLES_MAX: usize = 100_000;
/// Longest name of a table, column or schema, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Largest text or bytes value, in bytes.
pub const VALUE_BYTES_MAX: usize = 512 << 10;
/// Largest value that an expression computes, in bytes.
pub const COMPUTED_BYTES_MAX: usize = 64 << 20;
/// Largest encoded row, in bytes: a row must fit one log record.
pub const ROW_BYTES_MAX: usize = 960 << 10;
/// Largest key of an index of a `rows` table, in bytes.
pub const INDEX_KEY_BYTES_MAX: usize = 2_000;
/// Largest encoded series key, in bytes.
pub const KEY_BYTES_MAX: usize = 4 << 10;
/// Longest SQL statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 16 << 20;
/// Largest HTTP request body, after decompression, in bytes.
pub const HTTP_BODY_BYTES_MAX: usize = 64 << 20;
/// Largest Flight message, which is one record batch, however little memory there is, in bytes.
pub const FLIGHT_MESSAGE_BYTES_MIN: usize = 32 << 20;
/// Largest Flight message, however much memory there is, in bytes; between the two it is 1/16 of the memory budget.
pub const FLIGHT_MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Most statements, results and transactions that Flight clients have open.
pub const FLIGHT_OPEN_MAX: usize = 10_000;
/// Most parameters of a prepared statement.
pub const PARAMETERS_MAX: usize = 65_535;
/// Most client connections, unless `--max-connections` says otherwise.
pub const CONNECTIONS_DEFAULT: usize = 1_000;
/// Most bytes of uncommitted rows in one transaction, as a share of the memory budget: 1/4.
pub const TRANSACTION_MEMORY_SHARE: u64 = 4;
/// Most bytes of `rows` tables, as a share of the memory budget: 1/2.
pub const ROWS_MEMORY_SHARE: u64 = 2;
/// Memory that statements, results, requests and uncommitted rows have together, however small the budget, in bytes.
pub const WORK_MEMORY_BYTES_MIN: u64 = 64 << 20;
/// Largest payload of one log record, in bytes.
pub const RECORD_PAYLOAD_BYTES_MAX: usize = 1 << 20;
