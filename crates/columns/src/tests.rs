//! Helpers for the tests of this crate.

use std::sync::Arc;

use model::{Column, ColumnId, ColumnRole, DataType, Table, TableId, TableName, TableOptions, TableRef};

/// Columns: 0 `dev` text (key, when keyed), 1 `time`, 2 `a` double precision, 3 `b` bigint, 4 `c`
/// text.
pub(crate) fn table(keyed: bool) -> TableRef {
    table_of(keyed, true)
}

/// Like [`table`], compressed or not.
pub(crate) fn table_of(keyed: bool, compression: bool) -> TableRef {
    let column = |id, name: &str, ty, role| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        ty,
        nullable: role != ColumnRole::Time,
        role,
    };
    let mut columns = vec![
        column(1, "time", DataType::Timestamp, ColumnRole::Time),
        column(2, "a", DataType::Float64, ColumnRole::Field),
        column(3, "b", DataType::Int64, ColumnRole::Field),
        column(4, "c", DataType::Text, ColumnRole::Field),
    ];
    if keyed {
        columns.insert(0, column(0, "dev", DataType::Text, ColumnRole::Key));
    }
    Arc::new(Table {
        id: TableId(1),
        name: TableName::public("t"),
        version: 1,
        keyed,
        columns,
        next_column_id: ColumnId(5),
        options: TableOptions { partition_length: 100, compression, ..TableOptions::default() },
        rules: Arc::default(),
    })
}
