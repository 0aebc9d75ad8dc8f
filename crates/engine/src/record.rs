//! What the log's records mean. Bytes: docs/format/record.md, pinned by the golden test below.

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnRole, DataType, Lsn, Result, Table, TableId, TableName, TableOptions, TimeRange, limits,
};

use crate::catalog::check_shape;
use crate::codec::{Put, Take};

/// Bytes of a commit record before its items.
const COMMIT_HEADER_BYTES: usize = 1 + 8 + 8;
/// Bytes of an item record before its item.
#[cfg(test)]
const ITEM_HEADER_BYTES: usize = 1 + 8;
/// Largest item that fits a record of its own.
#[cfg(test)]
pub(crate) const ITEM_BYTES_MAX: usize = limits::RECORD_PAYLOAD_BYTES_MAX - ITEM_HEADER_BYTES;
/// Series numbers of one `Delete` or `Series` item, so that it fits a record.
pub(crate) const SERIES_PER_ITEM_MAX: usize = 128 << 10;

const RECORD_ITEM: u8 = 1;
const RECORD_COMMIT: u8 = 2;

const ITEM_ROWS: u8 = 1;
const ITEM_SERIES: u8 = 2;
const ITEM_CREATE_TABLE: u8 = 3;
const ITEM_ALTER_TABLE: u8 = 4;
const ITEM_DROP_TABLE: u8 = 5;
const ITEM_CREATE_SCHEMA: u8 = 6;
const ITEM_DROP_SCHEMA: u8 = 7;
const ITEM_DELETE: u8 = 8;

/// One record of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Part of a transaction; counts only once its commit record is there.
    Item { txn: u64, item: Item<'a> },
    /// The end of a transaction: with it, all its items count.
    Commit { txn: u64, wall_ns: i64, items: Vec<Item<'a>> },
}

/// One change. A transaction's items are applied by kind: DDL, then deletes, then rows, each kind in log order. (A DELETE drops
/// matching rows that its own transaction wrote before it from their batches, so that nothing is left for it to hide there.)
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// Rows of the transaction's batch number `batch`, whose series are local to that batch; bytes of [`columns::Rows`].
    Rows {
        table: TableId,
        batch: u32,
        rows: &'a [u8],
    },
    /// Numbers of the local series `first ..` of a batch, with the key of each that is new.
    Series {
        table: TableId,
        batch: u32,
        first: u32,
        ids: Vec<u32>,
        new_keys: Vec<(u32, &'a [u8])>,
    },
    Ddl(Ddl),
    Delete {
        table: TableId,
        series: Option<Vec<u32>>,
        times: TimeRange,
    },
}

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ddl {
    CreateTable(Arc<Table>),
    AlterTable(Arc<Table>),
    DropTable(TableId),
    CreateSchema(String),
    DropSchema(String),
}

impl Record<'_> {
    pub(crate) fn txn(&self) -> u64 {
        match self {
            Record::Item { txn, .. } | Record::Commit { txn, .. } => *txn,
        }
    }

    /// Reads a payload; `lsn` is for messages.
    pub(crate) fn decode(lsn: Lsn, payload: &[u8]) -> Result<Record<'_>> {
        decode(payload).map_err(|error| error.context(format!("log record {lsn}")))
    }
}

fn decode(payload: &[u8]) -> Result<Record<'_>> {
    let mut take = Take::new(payload, "record");
    let kind = take.u8()?;
    let txn = take.u64()?;
    match kind {
        RECORD_ITEM => Ok(Record::Item { txn, item: decode_item(take.rest())? }),
        RECORD_COMMIT => {
            let wall_ns = take.i64()?;
            let mut items = Vec::new();
            while !take.is_empty() {
                items.push(decode_item(take.bytes()?)?);
            }
            Ok(Record::Commit { txn, wall_ns, items })
        }
        other => Err(take.malformed(&format!("has kind {other}, which this version does not know"))),
    }
}

/// The payload of a record that holds one item.
pub(crate) fn encode_item_record(txn: u64, item: &[u8], out: &mut Vec<u8>) {
    out.put_u8(RECORD_ITEM);
    out.put_u64(txn);
    out.extend_from_slice(item);
}

/// Does a commit record hold these items, or must they go before it?
pub(crate) fn commit_record_fits(items: &[Vec<u8>]) -> bool {
    let bytes: usize = items.iter().map(|item| item.len() + 4).sum();
    bytes + COMMIT_HEADER_BYTES <= limits::RECORD_PAYLOAD_BYTES_MAX
}

/// The payload of a commit record.
pub(crate) fn encode_commit_record(txn: u64, wall_ns: i64, items: &[Vec<u8>], out: &mut Vec<u8>) {
    out.put_u8(RECORD_COMMIT);
    out.put_u64(txn);
    out.put_i64(wall_ns);
    for item in items {
        out.put_bytes(item);
    }
}

/// Starts a `Rows` item; the caller appends the rows' bytes.
pub(crate) fn begin_rows_item(table: TableId, batch: u32) -> Vec<u8> {
    let mut out = vec![ITEM_ROWS];
    out.put_u32(table.0);
    out.put_u32(batch);
    out
}

pub(crate) fn series_item(table: TableId, batch: u32, first: u32, ids: &[u32], new_keys: &[(u32, &[u8])]) -> Vec<u8> {
    let mut out = vec![ITEM_SERIES];
    out.put_u32(table.0);
    out.put_u32(batch);
    out.put_u32(first);
    out.put_u32(ids.len() as u32);
    for id in ids {
        out.put_u32(*id);
    }
    out.put_u32(new_keys.len() as u32);
    for (id, key) in new_keys {
        out.put_u32(*id);
        out.put_bytes(key);
    }
    out
}

pub(crate) fn delete_item(table: TableId, series: Option<&[u32]>, times: TimeRange) -> Vec<u8> {
    let mut out = vec![ITEM_DELETE];
    out.put_u32(table.0);
    out.put_i64(times.start);
    out.put_i64(times.last);
    out.put_u8(u8::from(series.is_some()));
    if let Some(series) = series {
        out.put_u32(series.len() as u32);
        for id in series {
            out.put_u32(*id);
        }
    }
    out
}

pub(crate) fn ddl_item(ddl: &Ddl) -> Vec<u8> {
    let (kind, body) = match ddl {
        Ddl::CreateTable(table) => (ITEM_CREATE_TABLE, encode_table(table)),
        Ddl::AlterTable(table) => (ITEM_ALTER_TABLE, encode_table(table)),
        Ddl::DropTable(id) => (ITEM_DROP_TABLE, id.0.to_le_bytes().to_vec()),
        Ddl::CreateSchema(name) => (ITEM_CREATE_SCHEMA, name.as_bytes().to_vec()),
        Ddl::DropSchema(name) => (ITEM_DROP_SCHEMA, name.as_bytes().to_vec()),
    };
    let mut out = vec![kind];
    out.extend_from_slice(&body);
    out
}

fn decode_item(bytes: &[u8]) -> Result<Item<'_>> {
    let mut take = Take::new(bytes, "item");
    let kind = take.u8()?;
    let item = match kind {
        ITEM_ROWS => Item::Rows { table: TableId(take.u32()?), batch: take.u32()?, rows: take.rest() },
        ITEM_SERIES => decode_series(&mut take)?,
        ITEM_DELETE => decode_delete(&mut take)?,
        ITEM_CREATE_TABLE => Item::Ddl(Ddl::CreateTable(Arc::new(decode_table(&mut take)?))),
        ITEM_ALTER_TABLE => Item::Ddl(Ddl::AlterTable(Arc::new(decode_table(&mut take)?))),
        ITEM_DROP_TABLE => Item::Ddl(Ddl::DropTable(TableId(take.u32()?))),
        ITEM_CREATE_SCHEMA => Item::Ddl(Ddl::CreateSchema(decode_name(&mut take)?)),
        ITEM_DROP_SCHEMA => Item::Ddl(Ddl::DropSchema(decode_name(&mut take)?)),
        other => return Err(take.malformed(&format!("has kind {other}, which this version does not know"))),
    };
    take.end()?;
    Ok(item)
}

fn decode_series<'a>(take: &mut Take<'a>) -> Result<Item<'a>> {
    let table = TableId(take.u32()?);
    let batch = take.u32()?;
    let first = take.u32()?;
    let count = take.count(4)?;
    let ids = (0..count).map(|_| take.u32()).collect::<Result<Vec<_>>>()?;
    let count = take.count(8)?;
    let new_keys = (0..count).map(|_| Ok((take.u32()?, take.bytes()?))).collect::<Result<Vec<_>>>()?;
    Ok(Item::Series { table, batch, first, ids, new_keys })
}

fn decode_delete<'a>(take: &mut Take<'a>) -> Result<Item<'a>> {
    let table = TableId(take.u32()?);
    let times = TimeRange { start: take.i64()?, last: take.i64()? };
    let series = match take.u8()? {
        0 => None,
        _ => {
            let count = take.count(4)?;
            Some((0..count).map(|_| take.u32()).collect::<Result<Vec<_>>>()?)
        }
    };
    Ok(Item::Delete { table, series, times })
}

fn decode_name(take: &mut Take<'_>) -> Result<String> {
    let bytes = take.rest();
    String::from_utf8(bytes.to_vec()).map_err(|_| take.malformed("holds a name that is not UTF-8"))
}

/// A table's definition; also in the manifest.
pub(crate) fn encode_table(table: &Table) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(table.id.0);
    out.put_bytes(table.name.schema.as_bytes());
    out.put_bytes(table.name.table.as_bytes());
    out.put_u32(table.version);
    out.put_u8(u8::from(table.keyed));
    out.put_u32(table.next_column_id.0);
    out.put_i64(table.options.partition_ns);
    out.put_u32(table.columns.len() as u32);
    for column in &table.columns {
        out.put_u32(column.id.0);
        out.put_u8(column.ty as u8);
        out.put_u8(column.role as u8);
        out.put_u8(u8::from(column.nullable));
        out.put_bytes(column.name.as_bytes());
    }
    out
}

pub(crate) fn decode_table(take: &mut Take<'_>) -> Result<Table> {
    let id = TableId(take.u32()?);
    let name = TableName { schema: take.text()?.to_owned(), table: take.text()?.to_owned() };
    let version = take.u32()?;
    let keyed = take.u8()? != 0;
    let next_column_id = ColumnId(take.u32()?);
    let options = TableOptions { partition_ns: take.i64()? };
    let count = take.count(11)?;
    let columns = (0..count).map(|_| decode_column(take)).collect::<Result<Vec<_>>>()?;
    let table = Table { id, name, version, keyed, columns, next_column_id, options };
    check_table(&table).map_err(|problem| take.malformed(&problem))?;
    Ok(table)
}

/// What everyone who has a table relies on. Limits are not checked: they may have been wider when it was made.
fn check_table(table: &Table) -> std::result::Result<(), String> {
    check_shape(table).map_err(|error| error.to_string())?;
    let mut ids = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for column in &table.columns {
        if column.id >= table.next_column_id || !ids.insert(column.id) || !names.insert(&column.name) {
            return Err(format!("has a second or impossible column \"{}\", number {}", column.name, column.id));
        }
    }
    Ok(())
}

fn decode_column(take: &mut Take<'_>) -> Result<Column> {
    let id = ColumnId(take.u32()?);
    let ty = take.u8()?;
    let role = take.u8()?;
    Ok(Column {
        id,
        ty: DataType::from_code(ty).ok_or_else(|| take.malformed(&format!("has column type {ty}")))?,
        role: ColumnRole::from_code(role).ok_or_else(|| take.malformed(&format!("has column role {role}")))?,
        nullable: take.u8()? != 0,
        name: take.text()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |id, name: &str, ty, role| Column {
            id: ColumnId(id),
            name: name.into(),
            ty,
            nullable: role != ColumnRole::Time,
            role,
        };
        Table {
            id: TableId(7),
            name: TableName::public("t"),
            version: 1,
            keyed: true,
            columns: vec![
                column(0, "time", DataType::Timestamp, ColumnRole::Time),
                column(1, "dev", DataType::Text, ColumnRole::Key),
                column(2, "v", DataType::Float64, ColumnRole::Field),
            ],
            next_column_id: ColumnId(3),
            options: TableOptions::default(),
        }
    }

    fn commit(items: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_commit_record(5, -3, items, &mut out);
        out
    }

    #[test]
    fn commit_record_bytes_are_exactly_these() {
        let bytes = commit(&[delete_item(TableId(7), Some(&[9]), TimeRange { start: 1, last: 2 })]);
        #[rustfmt::skip]
        let expected = [
            2, 5, 0, 0, 0, 0, 0, 0, 0, 253, 255, 255, 255, 255, 255, 255, 255,
            30, 0, 0, 0, 8, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
            1, 1, 0, 0, 0, 9, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn every_item_round_trips() {
        let mut rows = begin_rows_item(TableId(7), 2);
        rows.extend_from_slice(b"rows");
        let items = vec![
            ddl_item(&Ddl::CreateTable(Arc::new(table()))),
            series_item(TableId(7), 2, 3, &[4, 5], &[(5, b"key")]),
            rows,
            ddl_item(&Ddl::CreateSchema("s".into())),
            delete_item(TableId(7), None, TimeRange::ALL),
            ddl_item(&Ddl::DropTable(TableId(7))),
        ];
        let payload = commit(&items);
        let Record::Commit { txn: 5, wall_ns: -3, items: decoded } = Record::decode(Lsn(1), &payload).unwrap() else {
            panic!("not a commit");
        };
        assert_eq!(decoded[0], Item::Ddl(Ddl::CreateTable(Arc::new(table()))));
        assert_eq!(
            decoded[1],
            Item::Series { table: TableId(7), batch: 2, first: 3, ids: vec![4, 5], new_keys: vec![(5, b"key")] }
        );
        assert_eq!(decoded[2], Item::Rows { table: TableId(7), batch: 2, rows: b"rows" });
        assert_eq!(decoded[4], Item::Delete { table: TableId(7), series: None, times: TimeRange::ALL });
        assert_eq!(decoded.len(), 6);
    }

    #[test]
    fn cut_and_wild_payloads_are_refused_and_never_panic() {
        let payload = commit(&[ddl_item(&Ddl::CreateTable(Arc::new(table())))]);
        for cut in 0..payload.len() {
            // A cut exactly after the header is an empty commit, which is well formed.
            assert_eq!(Record::decode(Lsn(1), &payload[..cut]).is_ok(), cut == COMMIT_HEADER_BYTES, "cut at {cut}");
        }
        for at in 0..payload.len() {
            for value in [0, 1, 7, 0xff] {
                let mut wild = payload.clone();
                wild[at] = value;
                let _ = Record::decode(Lsn(1), &wild);
            }
        }
    }

    /// The bug: a table was taken from the log or the manifest as it was; one without a time column then ended the process
    /// where its time column was asked for.
    #[test]
    fn a_table_that_nobody_could_have_made_is_refused() {
        let refused = |change: &dyn Fn(&mut Table)| {
            let mut wrong = table();
            change(&mut wrong);
            decode_table(&mut Take::new(&encode_table(&wrong), "table")).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(refused(&|table| drop(table.columns.remove(0))), "no time");
        assert!(refused(&|table| table.columns[2].id = table.columns[1].id), "a column number twice");
        assert!(refused(&|table| table.columns[2].name = "dev".into()), "a column name twice");
        assert!(refused(&|table| table.next_column_id = ColumnId(2)), "a column that is still to come");
        assert!(refused(&|table| table.options.partition_ns = 0), "a partition of nothing");
    }

    #[test]
    fn the_widest_table_fits_one_record() {
        let mut wide = table();
        for at in 3..limits::COLUMNS_PER_TABLE_MAX {
            wide.columns.push(Column {
                id: ColumnId(at as u32),
                name: "n".repeat(limits::NAME_BYTES_MAX),
                ty: DataType::Int64,
                nullable: true,
                role: ColumnRole::Field,
            });
        }
        assert!(ddl_item(&Ddl::CreateTable(Arc::new(wide))).len() <= ITEM_BYTES_MAX);
    }
}
