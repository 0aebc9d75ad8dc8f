//! What a table looks like.

use std::fmt;
use std::sync::Arc;

use crate::{ColumnId, TableId};

/// The types a stored column can have.
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
    /// Unsigned 64-bit, from line protocol's `u` suffix; shown to SQL clients as `numeric(20)`.
    UInt64 = 5,
    /// `real`
    Float32 = 6,
    /// `double precision`; NaN bit patterns are kept
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

    /// The type with this code in a file, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<DataType> {
        DataType::ALL.into_iter().find(|ty| *ty as u8 == code)
    }

    /// The name SQL knows it by.
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

    /// Can a key column have this type? Floats cannot: their equality is no identity.
    #[must_use]
    pub fn can_be_key(self) -> bool {
        !matches!(self, DataType::Float32 | DataType::Float64)
    }
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ColumnRole {
    /// Part of the series key ("tag").
    Key = 1,
    /// The table's time: a moment, or a whole number that counts whatever its user says.
    Time = 2,
    /// A measured value.
    Field = 3,
}

impl ColumnRole {
    /// The role with this code in a file, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<ColumnRole> {
        [ColumnRole::Key, ColumnRole::Time, ColumnRole::Field].into_iter().find(|role| *role as u8 == code)
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Never used again within the table.
    pub id: ColumnId,
    /// As the user wrote it (folded by SQL's rules before it comes here).
    pub name: String,
    /// Its type.
    pub ty: DataType,
    /// May it be NULL? Always false for the time, and free for keys (a missing tag is NULL).
    pub nullable: bool,
    /// What it is for.
    pub role: ColumnRole,
}

/// A table's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// `public` unless said otherwise.
    pub schema: String,
    /// The name within its schema.
    pub table: String,
}

impl TableName {
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

/// What `WITH (…)` says of a `columns` table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Length of a partition, in what the table's time counts: nanoseconds, or anything if that is a number. Default one day of the
    /// former.
    pub partition_length: i64,
    /// Are values written in the smallest form (the default), or as they are, each in so many bits as its type has?
    pub compression: bool,
    /// Rows go when their partition has been over for so many nanoseconds; `None` (the default): never. None where times are numbers,
    /// as no clock tells how old those are.
    pub retention_ns: Option<i64>,
    /// Are replaced and deleted rows kept, for reading the table as it was? Default no.
    pub history: bool,
}

impl TableOptions {
    /// One day of nanoseconds.
    pub const PARTITION_LENGTH_DEFAULT: i64 = 86_400_000_000_000;

    /// The start of the oldest partition that is kept at wall time `now_ns`; `i64::MIN` when all are.
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

/// One `columns` table. Immutable: a change makes a new value with the next `version`.
///
/// Always true: exactly one column has role `Time`; ids and names are unique; an unkeyed table has no key
/// column; a keyed one may have none (line protocol without tags): then time alone is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its number.
    pub id: TableId,
    /// Its name.
    pub name: TableName,
    /// Grows by one with every change of this table; a writer that prepared against an older one re-checks.
    pub version: u32,
    /// Is (key, time) unique? Otherwise the table holds events and keeps duplicates.
    pub keyed: bool,
    /// In the order SQL shows them.
    pub columns: Vec<Column>,
    /// The id the next added column takes.
    pub next_column_id: ColumnId,
    /// What `WITH (…)` said.
    pub options: TableOptions,
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
        // Columns are numbered in their order, so it stands at its number; tables may have thousands.
        let near = self.columns.get(id.0 as usize).filter(|column| column.id == id);
        near.or_else(|| self.columns.iter().find(|column| column.id == id))
    }

    /// The time column.
    ///
    /// # Panics
    /// Never for a table that was made by `engine`, which checks it.
    #[must_use]
    pub fn time_column(&self) -> &Column {
        self.columns.iter().find(|column| column.role == ColumnRole::Time).expect("a table has a time column")
    }

    /// Are times whole numbers, and not moments?
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
