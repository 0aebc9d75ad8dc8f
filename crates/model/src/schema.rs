//! Schemas of `columns` tables.

use std::fmt;
use std::sync::Arc;

use crate::{ColumnId, TableId, TableRules};

/// The types of columns of `columns` tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DataType {
    /// `boolean`
    Bool = 1,
    /// `smallint`
    Int16 = 2,
    /// `integer`
    Int32 = 3,
    /// `bigint`
    Int64 = 4,
    /// Unsigned 64-bit, from line protocol's `u` suffix; `numeric(20)` for SQL clients.
    UInt64 = 5,
    /// `real`
    Float32 = 6,
    /// `double precision`; NaN bit patterns are preserved
    Float64 = 7,
    /// `text`, UTF-8
    Text = 8,
    /// `bytea`
    Bytes = 9,
    /// `timestamptz`, int64 nanoseconds since 1970 UTC
    Timestamp = 10,
}

impl DataType {
    /// Every type, in code order.
    pub const ALL: [DataType; 10] = [
        DataType::Bool,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Text,
        DataType::Bytes,
        DataType::Timestamp,
    ];

    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<DataType> {
        DataType::ALL.into_iter().find(|ty| *ty as u8 == code)
    }

    /// The SQL name.
    #[must_use]
    pub fn sql_name(self) -> &'static str {
        match self {
            DataType::Bool => "boolean",
            DataType::Int16 => "smallint",
            DataType::Int32 => "integer",
            DataType::Int64 => "bigint",
            DataType::UInt64 => "numeric(20)",
            DataType::Float32 => "real",
            DataType::Float64 => "double precision",
            DataType::Text => "text",
            DataType::Bytes => "bytea",
            DataType::Timestamp => "timestamp with time zone",
        }
    }

    /// Whether a key column can have this type. Floats cannot, because equal floats may have
    /// different bits.
    #[must_use]
    pub fn can_be_key(self) -> bool {
        !matches!(self, DataType::Float32 | DataType::Float64)
    }
}

/// The role of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ColumnRole {
    /// Part of the series key ("tag").
    Key = 1,
    /// The time of the table: a point in time, or an integer with a meaning given by the user.
    Time = 2,
    /// A measured value.
    Field = 3,
}

impl ColumnRole {
    /// Decodes the code in a file; `None` if it is unknown.
    #[must_use]
    pub fn from_code(code: u8) -> Option<ColumnRole> {
        [ColumnRole::Key, ColumnRole::Time, ColumnRole::Field].into_iter().find(|role| *role as u8 == code)
    }
}

/// One column of a `columns` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Number of the column; not reused within the table.
    pub id: ColumnId,
    /// Name, folded by SQL's rules.
    pub name: String,
    /// Type of the values.
    pub ty: DataType,
    /// Whether it may be NULL. Always false for the time; keys may be nullable (a missing tag is
    /// NULL).
    pub nullable: bool,
    /// Key, time or field.
    pub role: ColumnRole,
}

/// A table's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// Schema; `public` by default.
    pub schema: String,
    /// The name within its schema.
    pub table: String,
}

/// Start of the names of schemas that have the temporary objects of a session; its number follows.
pub const TEMPORARY_SCHEMA: &str = "pg_temp_";

impl TableName {
    /// Whether the object is temporary: it belongs to a session, and neither the log nor a checkpoint has it.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.schema.starts_with(TEMPORARY_SCHEMA)
    }

    /// A table of schema `public`.
    #[must_use]
    pub fn public(table: impl Into<String>) -> TableName {
        TableName { schema: "public".into(), table: table.into() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema == "public" {
            write!(f, "\"{}\"", self.table)
        } else {
            write!(f, "\"{}\".\"{}\"", self.schema, self.table)
        }
    }
}

/// Options of a `columns` table, from `WITH (…)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Length of a partition in units of the time column: nanoseconds, or the user's units if it is
    /// an integer. Default one day in nanoseconds.
    pub partition_length: i64,
    /// Whether values are compressed (the default), or stored uncompressed in the width of their
    /// type.
    pub compression: bool,
    /// Rows are dropped when their partition ended this many nanoseconds ago; `None` (the default):
    /// never. Always `None` if times are integers, because they have no relation to the clock.
    pub retention_ns: Option<i64>,
    /// Whether replaced and deleted rows are kept for time travel. Default false.
    pub history: bool,
}

impl TableOptions {
    /// One day in nanoseconds.
    pub const PARTITION_LENGTH_DEFAULT: i64 = 86_400_000_000_000;

    /// The retention horizon at wall time `now_ns`, which is the start of a partition; `i64::MIN`
    /// without retention.
    #[must_use]
    pub fn kept_from(&self, now_ns: i64) -> i64 {
        let Some(retention) = self.retention_ns else { return i64::MIN };
        let length = i128::from(self.partition_length.max(1));
        let start = (i128::from(now_ns) - i128::from(retention)).div_euclid(length) * length;
        i64::try_from(start).unwrap_or(i64::MIN)
    }
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            partition_length: TableOptions::PARTITION_LENGTH_DEFAULT,
            compression: true,
            retention_ns: None,
            history: false,
        }
    }
}

/// Schema of a `columns` table. Immutable: a change makes a new value with the next `version`.
///
/// Always true: exactly one column has role `Time`; ids and names are unique; an unkeyed table has
/// no key column; a keyed one may have none (line protocol without tags), and then its time alone
/// is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Number, unique among tables of both kinds.
    pub id: TableId,
    /// Schema and name.
    pub name: TableName,
    /// Incremented by every change of this table; a writer that validated against an older version
    /// must validate again.
    pub version: u32,
    /// Whether (key, time) is unique. Otherwise the table holds events and keeps duplicates.
    pub keyed: bool,
    /// Columns in the order of SQL's `*`.
    pub columns: Vec<Column>,
    /// Number of the next added column.
    pub next_column_id: ColumnId,
    /// Options of the table.
    pub options: TableOptions,
    /// Defaults, user types and CHECK constraints.
    pub rules: Arc<TableRules>,
}

impl Table {
    /// The column called `name`.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The column with this id.
    #[must_use]
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Column> {
        // Columns are numbered in order, so the column is usually at this index; tables may have
        // thousands.
        let near = self.columns.get(id.0 as usize).filter(|column| column.id == id);
        near.or_else(|| self.columns.iter().find(|column| column.id == id))
    }

    /// The time column.
    ///
    /// # Panics
    /// Never for a table created by `engine`, which validates it.
    #[must_use]
    pub fn time_column(&self) -> &Column {
        self.columns.iter().find(|column| column.role == ColumnRole::Time).expect("a table has a time column")
    }

    /// Whether the time column is an integer instead of a timestamp.
    #[must_use]
    pub fn time_is_number(&self) -> bool {
        self.time_column().ty == DataType::Int64
    }

    /// The key columns, in key order (the order of `columns`).
    pub fn key_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.role == ColumnRole::Key)
    }

    /// The field columns, in order.
    pub fn field_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.role == ColumnRole::Field)
    }
}

/// Tables are shared, never copied.
pub type TableRef = Arc<Table>;
