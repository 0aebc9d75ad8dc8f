//! Contents of the log records. Bytes: docs/format/record.md, pinned by the golden tests below.

use std::sync::Arc;

use model::{
    Column, ColumnId, ColumnRole, DataType, Identity, Lsn, Referential, Result, RowCheck, RowColumn, RowForeignKey,
    RowIndex, RowSchema, RowSchemaRef, SequenceRef, SequenceSpec, Table, TableId, TableName, TableOptions, TimeRange,
    Type, limits,
};
use rows::{RecordId, RowTable};

use crate::catalog::{check_row_schema, check_shape};
use crate::codec::{Put, Take, unzigzag, zigzag};
use crate::sequence::{SequenceOps, SequenceState};

/// Bytes of a commit record before its items.
const COMMIT_HEADER_BYTES: usize = 1 + 8 + 8;
/// Bytes of an item record before the item.
const ITEM_HEADER_BYTES: usize = 1 + 8;
/// Largest item that fits into a record of its own.
#[cfg(test)]
pub(crate) const ITEM_BYTES_MAX: usize = limits::RECORD_PAYLOAD_BYTES_MAX - ITEM_HEADER_BYTES;
/// Limit for the series numbers of one `Delete` or `Series` item, so that it fits a record.
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
const ITEM_ROW_CHANGES: u8 = 9;
const ITEM_CREATE_ROW_TABLE: u8 = 10;
const ITEM_ALTER_ROW_TABLE: u8 = 11;
const ITEM_CREATE_SEQUENCE: u8 = 12;
const ITEM_ALTER_SEQUENCE: u8 = 13;
const ITEM_DROP_SEQUENCE: u8 = 14;
const ITEM_SEQUENCE_VALUE: u8 = 15;

/// One record of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Part of a transaction; takes effect only with its commit record.
    Item { txn: u64, item: Item<'a> },
    /// The end of a transaction; all its items take effect.
    Commit { txn: u64, wall_ns: i64, items: Vec<Item<'a>> },
}

/// One change. The items of a transaction are applied by kind: DDL, then deletes, then rows of both
/// stores, each kind in log order. (A DELETE removes matching rows that its own transaction wrote
/// earlier from their batches, so it has nothing to hide there.)
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// Rows of batch number `batch` of the transaction. Series numbers are local to the batch; the
    /// bytes are those of [`columns::Rows`].
    Rows {
        table: TableId,
        batch: u32,
        rows: &'a [u8],
    },
    /// Table-wide numbers of the local series `first ..` of a batch, with the keys of new series.
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
    /// Changes of `rows` tables, to be read by [`RowChanges`].
    RowChanges(&'a [u8]),
    /// The state of a sequence from now on.
    SequenceValue {
        id: u32,
        state: SequenceState,
    },
}

/// A change of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ddl {
    CreateTable(Arc<Table>),
    AlterTable(Arc<Table>),
    /// A table of either kind.
    DropTable(TableId),
    CreateSchema(String),
    DropSchema(String),
    CreateRowTable(RowSchemaRef),
    /// The complete next version; `discard_rows`: existing rows are discarded.
    AlterRowTable {
        schema: RowSchemaRef,
        discard_rows: bool,
    },
    CreateSequence(SequenceRef, SequenceState),
    /// With the new state if the sequence is restarted.
    AlterSequence(SequenceRef, Option<SequenceState>),
    DropSequence(u32),
}

impl Ddl {
    /// Returns a number above those of all tables, indexes and sequences that the change creates.
    pub(crate) fn next_number(&self) -> u32 {
        let last = match self {
            Ddl::CreateTable(table) | Ddl::AlterTable(table) => table.id.0,
            Ddl::CreateRowTable(schema) | Ddl::AlterRowTable { schema, .. } => {
                let indexes = schema.primary.iter().chain(&schema.secondary);
                indexes.map(|index| index.id).max().unwrap_or(0).max(schema.id.0)
            }
            Ddl::CreateSequence(sequence, _) | Ddl::AlterSequence(sequence, _) => sequence.id,
            Ddl::DropTable(_) | Ddl::DropSequence(_) | Ddl::CreateSchema(_) | Ddl::DropSchema(_) => return 0,
        };
        last.saturating_add(1)
    }
}

/// Encoder of a `RowChanges` item. The table is written only when it differs from that of the
/// previous change, so that one item serves all tables.
#[derive(Default)]
pub(crate) struct RowChangesItem {
    bytes: Vec<u8>,
    last: Option<(TableId, u64)>,
}

impl RowChangesItem {
    pub(crate) fn push(&mut self, table: TableId, record: RecordId, row: Option<&[u8]>) {
        // Replay refuses others, and the commit would be acknowledged by then.
        assert!(record.0 < rows::RECORDS_MAX, "BUG: a change of record {} is logged", record.0);
        if self.bytes.is_empty() {
            self.bytes.push(ITEM_ROW_CHANGES);
        }
        match self.last {
            Some((same, last)) if same == table => {
                let delta = zigzag(record.0.cast_signed().wrapping_sub(last.cast_signed()));
                self.bytes.put_varint(delta << 1);
            }
            _ => {
                self.bytes.put_varint(record.0 << 1 | 1);
                self.bytes.put_varint(table.0.into());
            }
        }
        self.last = Some((table, record.0));
        match row {
            None => self.bytes.put_varint(0),
            Some(row) => {
                self.bytes.put_varint(row.len() as u64 + 1);
                self.bytes.extend_from_slice(row);
            }
        }
    }

    /// Bytes so far; 0 if there are no changes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Decodes the bytes of [`RowChangesItem`] after their kind.
pub(crate) struct RowChanges<'a> {
    take: Take<'a>,
    last: Option<(TableId, u64)>,
}

impl<'a> RowChanges<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> RowChanges<'a> {
        RowChanges { take: Take::new(bytes, "row changes"), last: None }
    }

    fn next_change(&mut self) -> Result<(TableId, RecordId, Option<&'a [u8]>)> {
        let first = self.take.varint()?;
        let (table, record) = if first & 1 == 1 {
            let table = u32::try_from(self.take.varint()?).map_err(|_| self.take.malformed("name no table"))?;
            (TableId(table), first >> 1)
        } else {
            let (table, last) = self.last.ok_or_else(|| self.take.malformed("begin without a table"))?;
            (table, last.wrapping_add_signed(unzigzag(first >> 1)))
        };
        if record >= rows::RECORDS_MAX {
            return Err(self.take.malformed(&format!("name record {record}")));
        }
        self.last = Some((table, record));
        let row = match self.take.varint()? {
            0 => None,
            more => Some(self.take.take(usize::try_from(more - 1).unwrap_or(usize::MAX))?),
        };
        Ok((table, RecordId(record), row))
    }
}

impl<'a> Iterator for RowChanges<'a> {
    type Item = Result<(TableId, RecordId, Option<&'a [u8]>)>;

    /// After an error the remaining changes are undefined.
    fn next(&mut self) -> Option<Self::Item> {
        (!self.take.is_empty()).then(|| self.next_change())
    }
}

impl Record<'_> {
    pub(crate) fn txn(&self) -> u64 {
        match self {
            Record::Item { txn, .. } | Record::Commit { txn, .. } => *txn,
        }
    }

    /// Decodes a payload; `lsn` is for error messages.
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

/// Header of a record with one item; the item follows.
pub(crate) fn item_header(txn: u64) -> [u8; ITEM_HEADER_BYTES] {
    let mut header = [RECORD_ITEM; ITEM_HEADER_BYTES];
    header[1..].copy_from_slice(&txn.to_le_bytes());
    header
}

/// Whether the items fit into the commit record; otherwise they precede it.
pub(crate) fn commit_record_fits(items: &[&[u8]]) -> bool {
    let bytes: usize = items.iter().map(|item| item.len() + 4).sum();
    bytes + COMMIT_HEADER_BYTES <= limits::RECORD_PAYLOAD_BYTES_MAX
}

/// Header of a commit record; its items follow, each with a length.
pub(crate) fn commit_header(txn: u64, wall_ns: i64) -> [u8; COMMIT_HEADER_BYTES] {
    let mut header = [RECORD_COMMIT; COMMIT_HEADER_BYTES];
    header[1..9].copy_from_slice(&txn.to_le_bytes());
    header[9..].copy_from_slice(&wall_ns.to_le_bytes());
    header
}

/// Encodes the payload of a commit record.
#[cfg(test)]
pub(crate) fn encode_commit_record(txn: u64, wall_ns: i64, items: &[Vec<u8>], out: &mut Vec<u8>) {
    out.extend_from_slice(&commit_header(txn, wall_ns));
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
    assert!(ids.len() <= SERIES_PER_ITEM_MAX, "BUG: {} series in one item", ids.len());
    debug_assert!(new_keys.iter().all(|(id, _)| ids.contains(id)), "BUG: a key of a series that is not listed");
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
    assert!(series.is_none_or(|series| series.len() <= SERIES_PER_ITEM_MAX), "BUG: too many series in one item");
    debug_assert!(series.is_none_or(<[u32]>::is_sorted), "BUG: series of a delete out of order");
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
        Ddl::CreateRowTable(schema) => (ITEM_CREATE_ROW_TABLE, encode_row_table(schema)),
        Ddl::AlterRowTable { schema, discard_rows } => {
            let mut body = vec![u8::from(*discard_rows)];
            body.extend_from_slice(&encode_row_table(schema));
            (ITEM_ALTER_ROW_TABLE, body)
        }
        Ddl::CreateSequence(sequence, state) => {
            let mut body = Vec::new();
            sequence.encode(&mut body);
            state.encode(&mut body);
            (ITEM_CREATE_SEQUENCE, body)
        }
        Ddl::AlterSequence(sequence, state) => {
            let mut body = vec![u8::from(state.is_some())];
            sequence.encode(&mut body);
            state.iter().for_each(|state| state.encode(&mut body));
            (ITEM_ALTER_SEQUENCE, body)
        }
        Ddl::DropSequence(id) => (ITEM_DROP_SEQUENCE, id.to_le_bytes().to_vec()),
    };
    let mut out = vec![kind];
    out.extend_from_slice(&body);
    debug_assert!(
        decode_item(&out).is_ok_and(|item| item == Item::Ddl(ddl.clone())),
        "BUG: a change of the catalog is unreadable"
    );
    out
}

pub(crate) fn sequence_item(id: u32, state: SequenceState) -> Vec<u8> {
    let mut out = vec![ITEM_SEQUENCE_VALUE];
    out.put_u32(id);
    state.encode(&mut out);
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
        ITEM_ROW_CHANGES => Item::RowChanges(take.rest()),
        ITEM_CREATE_ROW_TABLE => Item::Ddl(Ddl::CreateRowTable(decode_row_table(&mut take)?)),
        ITEM_ALTER_ROW_TABLE => {
            let discard_rows = take.u8()? != 0;
            Item::Ddl(Ddl::AlterRowTable { schema: decode_row_table(&mut take)?, discard_rows })
        }
        ITEM_CREATE_SEQUENCE => {
            let sequence = Arc::new(SequenceSpec::decode(&mut take)?);
            Item::Ddl(Ddl::CreateSequence(sequence, SequenceState::decode(&mut take)?))
        }
        ITEM_ALTER_SEQUENCE => {
            let restarts = take.u8()? != 0;
            let sequence = Arc::new(SequenceSpec::decode(&mut take)?);
            let state = restarts.then(|| SequenceState::decode(&mut take)).transpose()?;
            Item::Ddl(Ddl::AlterSequence(sequence, state))
        }
        ITEM_DROP_SEQUENCE => Item::Ddl(Ddl::DropSequence(take.u32()?)),
        ITEM_SEQUENCE_VALUE => Item::SequenceValue { id: take.u32()?, state: SequenceState::decode(&mut take)? },
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

/// Bits of the flags of a table.
const TABLE_KEYED: u8 = 1;
const TABLE_UNCOMPRESSED: u8 = 2;

/// Encodes the definition of a `columns` table; also used in the manifest.
pub(crate) fn encode_table(table: &Table) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_u32(table.id.0);
    out.put_bytes(table.name.schema.as_bytes());
    out.put_bytes(table.name.table.as_bytes());
    out.put_u32(table.version);
    out.put_u8(u8::from(table.keyed) * TABLE_KEYED | u8::from(!table.options.compression) * TABLE_UNCOMPRESSED);
    out.put_u32(table.next_column_id.0);
    out.put_i64(table.options.partition_length);
    out.put_u32(table.columns.len() as u32);
    for column in &table.columns {
        out.put_u32(column.id.0);
        out.put_u8(column.ty as u8);
        out.put_u8(column.role as u8);
        out.put_u8(u8::from(column.nullable));
        out.put_bytes(column.name.as_bytes());
    }
    let TableOptions { retention_ns, history, .. } = table.options;
    if retention_ns.is_some() || history {
        out.put_i64(retention_ns.unwrap_or(0));
        out.put_u8(u8::from(history));
    }
    out
}

pub(crate) fn decode_table(take: &mut Take<'_>) -> Result<Table> {
    let id = TableId(take.u32()?);
    let name = TableName { schema: take.text()?.to_owned(), table: take.text()?.to_owned() };
    let version = take.u32()?;
    let flags = take.u8()?;
    if flags & !(TABLE_KEYED | TABLE_UNCOMPRESSED) != 0 {
        return Err(take.malformed(&format!("has table flags {flags}")));
    }
    let keyed = flags & TABLE_KEYED != 0;
    let next_column_id = ColumnId(take.u32()?);
    let mut options = TableOptions {
        partition_length: take.i64()?,
        compression: flags & TABLE_UNCOMPRESSED == 0,
        ..TableOptions::default()
    };
    let count = take.count(11)?;
    let columns = (0..count).map(|_| decode_column(take)).collect::<Result<Vec<_>>>()?;
    if !take.is_empty() {
        options.retention_ns = Some(take.i64()?).filter(|retention| *retention != 0);
        options.history = take.u8()? != 0;
    }
    let table = Table { id, name, version, keyed, columns, next_column_id, options };
    check_table(&table).map_err(|problem| take.malformed(&problem))?;
    Ok(table)
}

/// Checks the invariants of tables that all code relies on. Limits are not checked: they may have
/// been higher when the table was created.
fn check_table(table: &Table) -> std::result::Result<(), String> {
    check_shape(table).map_err(|error| error.to_string())?;
    let mut ids = std::collections::BTreeSet::new();
    let mut names = std::collections::BTreeSet::new();
    for column in &table.columns {
        if column.id >= table.next_column_id || !ids.insert(column.id) || !names.insert(&column.name) {
            return Err(format!("has a duplicate or invalid column \"{}\", number {}", column.name, column.id));
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

const COLUMN_NOT_NULL: u8 = 1;
const COLUMN_DROPPED: u8 = 2;
const COLUMN_DEFAULT: u8 = 4;
const COLUMN_MISSING: u8 = 8;
const INDEX_UNIQUE: u8 = 1;
const INDEX_CONSTRAINT: u8 = 2;

/// Encodes the schema of a `rows` table; also used in the manifest.
pub(crate) fn encode_row_table(schema: &RowSchema) -> Vec<u8> {
    let mut out = Vec::new();
    encode_row_schema(schema, &mut out);
    out
}

/// Decodes and validates the bytes of [`encode_row_table`].
pub(crate) fn decode_row_table(take: &mut Take<'_>) -> Result<RowSchemaRef> {
    let schema = Arc::new(decode_row_schema(take)?);
    let table = check_row_schema(&schema).and_then(|()| RowTable::new(Arc::clone(&schema)));
    table.map_err(|error| take.malformed(&error.to_string()))?;
    Ok(schema)
}

fn encode_row_schema(schema: &RowSchema, out: &mut Vec<u8>) {
    out.put_u32(schema.id.0);
    out.put_bytes(schema.name.schema.as_bytes());
    out.put_bytes(schema.name.table.as_bytes());
    out.put_u32(schema.version);
    out.put_u32(schema.columns.len() as u32);
    for column in &schema.columns {
        out.put_bytes(column.name.as_bytes());
        out.put_u32(column.ty.oid());
        out.put_u32(column.ty.typmod().cast_unsigned());
        let flag = |set, flag| if set { flag } else { 0 };
        out.put_u8(
            flag(column.not_null, COLUMN_NOT_NULL)
                | flag(column.dropped, COLUMN_DROPPED)
                | flag(column.default.is_some(), COLUMN_DEFAULT)
                | flag(column.missing.is_some(), COLUMN_MISSING),
        );
        out.put_u8(column.identity.map_or(0, |identity| identity as u8));
        if let Some(default) = &column.default {
            out.put_bytes(default.as_bytes());
        }
        if let Some(missing) = &column.missing {
            out.put_bytes(missing);
        }
    }
    out.put_u8(u8::from(schema.primary.is_some()));
    schema.primary.iter().for_each(|index| encode_index(index, out));
    out.put_u32(schema.secondary.len() as u32);
    schema.secondary.iter().for_each(|index| encode_index(index, out));
    out.put_u32(schema.checks.len() as u32);
    for check in &schema.checks {
        out.put_bytes(check.name.as_bytes());
        out.put_bytes(check.condition.as_bytes());
    }
    out.put_u32(schema.foreign_keys.len() as u32);
    for key in &schema.foreign_keys {
        out.put_bytes(key.name.as_bytes());
        encode_positions(&key.columns, out);
        out.put_u32(key.table.0);
        encode_positions(&key.referred, out);
        out.put_u8(key.on_delete as u8);
        out.put_u8(key.on_update as u8);
    }
}

fn encode_index(index: &RowIndex, out: &mut Vec<u8>) {
    out.put_u32(index.id);
    out.put_bytes(index.name.as_bytes());
    encode_positions(&index.columns, out);
    out.put_u8(if index.unique { INDEX_UNIQUE } else { 0 } | if index.constraint { INDEX_CONSTRAINT } else { 0 });
}

fn encode_positions(positions: &[usize], out: &mut Vec<u8>) {
    out.put_u32(positions.len() as u32);
    positions.iter().for_each(|at| out.put_u32(*at as u32));
}

fn decode_row_schema(take: &mut Take<'_>) -> Result<RowSchema> {
    let id = TableId(take.u32()?);
    let name = TableName { schema: take.text()?.to_owned(), table: take.text()?.to_owned() };
    let version = take.u32()?;
    let columns = (0..take.count(14)?).map(|_| decode_row_column(take)).collect::<Result<Vec<_>>>()?;
    let primary = if take.u8()? != 0 { Some(decode_index(take)?) } else { None };
    let secondary = (0..take.count(13)?).map(|_| decode_index(take)).collect::<Result<Vec<_>>>()?;
    let check =
        |take: &mut Take<'_>| Ok(RowCheck { name: take.text()?.to_owned(), condition: take.text()?.to_owned() });
    let checks = (0..take.count(8)?).map(|_| check(take)).collect::<Result<Vec<_>>>()?;
    let foreign_keys = (0..take.count(18)?).map(|_| decode_foreign_key(take)).collect::<Result<Vec<_>>>()?;
    Ok(RowSchema { id, name, version, columns, primary, secondary, checks, foreign_keys })
}

fn decode_row_column(take: &mut Take<'_>) -> Result<RowColumn> {
    let name = take.text()?.to_owned();
    let (oid, typmod) = (take.u32()?, take.u32()?.cast_signed());
    let ty = Type::from_oid(oid, typmod);
    let flags = take.u8()?;
    let identity = match take.u8()? {
        0 => None,
        code => {
            Some(Identity::from_code(code).ok_or_else(|| take.malformed(&format!("has a column of identity {code}")))?)
        }
    };
    let default = if flags & COLUMN_DEFAULT == 0 { None } else { Some(take.text()?.to_owned()) };
    let missing = if flags & COLUMN_MISSING == 0 { None } else { Some(take.bytes()?.into()) };
    Ok(RowColumn {
        name,
        ty: ty.ok_or_else(|| take.malformed(&format!("has a column of type {oid}, {typmod}")))?,
        not_null: flags & COLUMN_NOT_NULL != 0,
        default,
        identity,
        missing,
        dropped: flags & COLUMN_DROPPED != 0,
    })
}

fn decode_index(take: &mut Take<'_>) -> Result<RowIndex> {
    let (id, name, columns) = (take.u32()?, take.text()?.to_owned(), decode_positions(take)?);
    let flags = take.u8()?;
    let (unique, constraint) = (flags & INDEX_UNIQUE != 0, flags & INDEX_CONSTRAINT != 0);
    Ok(RowIndex { id, name, columns, unique, constraint })
}

fn decode_positions(take: &mut Take<'_>) -> Result<Vec<usize>> {
    (0..take.count(4)?).map(|_| Ok(take.u32()? as usize)).collect()
}

fn decode_foreign_key(take: &mut Take<'_>) -> Result<RowForeignKey> {
    let name = take.text()?.to_owned();
    let columns = decode_positions(take)?;
    let table = TableId(take.u32()?);
    let referred = decode_positions(take)?;
    let action = |take: &mut Take<'_>| {
        let code = take.u8()?;
        Referential::from_code(code).ok_or_else(|| take.malformed(&format!("has foreign key action {code}")))
    };
    let (on_delete, on_update) = (action(take)?, action(take)?);
    Ok(RowForeignKey { name, columns, table, referred, on_delete, on_update })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn row_table() -> RowSchemaRef {
        let column = |name: &str, ty, not_null| RowColumn { not_null, ..RowColumn::new(name, ty) };
        let index = |id, name: &str, columns: &[usize], unique| RowIndex {
            id,
            name: name.into(),
            columns: columns.into(),
            unique,
            constraint: unique,
        };
        let schema = RowSchema {
            id: TableId(8),
            name: TableName::public("r"),
            version: 3,
            columns: vec![
                column("id", Type::Int4, true),
                RowColumn {
                    default: Some("'x'".into()),
                    identity: Some(Identity::ByDefault),
                    missing: rows::row::alone(Type::Varchar(Some(9)), &model::Datum::Text("x")).unwrap(),
                    ..column("v", Type::Varchar(Some(9)), false)
                },
                RowColumn { dropped: true, ..column("gone", Type::Numeric(None), false) },
            ],
            primary: Some(index(9, "r_pkey", &[0], true)),
            secondary: vec![index(10, "r_v", &[1, 0], false)],
            checks: vec![RowCheck { name: "c".into(), condition: "id > 0".into() }],
            foreign_keys: vec![RowForeignKey {
                name: "f".into(),
                columns: vec![0],
                table: TableId(7),
                referred: vec![2],
                on_delete: Referential::Cascade,
                on_update: Referential::NoAction,
            }],
        };
        Arc::new(schema)
    }

    fn sequence() -> SequenceRef {
        let name = TableName::public("s");
        let (start, increment, min, max) = (1, 1, 1, 9);
        let owner = Some(model::SequenceOwner { table: TableId(8), column: 0 });
        Arc::new(SequenceSpec {
            id: 11,
            name,
            ty: Type::Int4,
            start,
            increment,
            min,
            max,
            cache: 1,
            cycle: false,
            owner,
        })
    }

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
    fn row_changes_bytes_are_exactly_these() {
        let mut item = RowChangesItem::default();
        item.push(TableId(8), RecordId(200), Some(b"ab"));
        item.push(TableId(8), RecordId(201), None);
        item.push(TableId(8), RecordId(199), Some(b""));
        item.push(TableId(3), RecordId(1), Some(b"c"));
        let bytes = item.finish();
        #[rustfmt::skip]
        let expected = [
            9, 0x91, 3, 8, 3, b'a', b'b', 4, 0, 6, 1, 3, 3, 2, b'c',
        ];
        assert_eq!(bytes, expected);
        let changes: Result<Vec<_>> = RowChanges::new(&bytes[1..]).collect();
        let expected: Vec<(TableId, RecordId, Option<&[u8]>)> = vec![
            (TableId(8), RecordId(200), Some(b"ab")),
            (TableId(8), RecordId(201), None),
            (TableId(8), RecordId(199), Some(b"")),
            (TableId(3), RecordId(1), Some(b"c")),
        ];
        assert_eq!(changes.unwrap(), expected);
        for damaged in [&[4][..], &[1][..], &[1, 8], &[1, 8, 9], &[0xff; 12], &[0xff, 0xff, 0xff, 0xff, 0xff, 1, 8, 0]]
        {
            assert!(RowChanges::new(damaged).any(|change| change.is_err()), "{damaged:?}");
        }
    }

    #[test]
    fn row_table_bytes_are_exactly_these() {
        let bytes = ddl_item(&Ddl::AlterRowTable { schema: row_table(), discard_rows: true });
        #[rustfmt::skip]
        let expected = [
            11, 1, 8, 0, 0, 0, 6, 0, 0, 0, b'p', b'u', b'b', b'l', b'i', b'c', 1, 0, 0, 0, b'r', 3, 0, 0, 0,
            3, 0, 0, 0,
            2, 0, 0, 0, b'i', b'd', 23, 0, 0, 0, 255, 255, 255, 255, 1, 0,
            1, 0, 0, 0, b'v', 0x13, 4, 0, 0, 13, 0, 0, 0, 12, 2, 3, 0, 0, 0, b'\'', b'x', b'\'',
            8, 0, 0, 0, 1, 0, 8, 0, 0, 0, 0, b'x',
            4, 0, 0, 0, b'g', b'o', b'n', b'e', 0xa4, 6, 0, 0, 255, 255, 255, 255, 2, 0,
            1, 9, 0, 0, 0, 6, 0, 0, 0, b'r', b'_', b'p', b'k', b'e', b'y', 1, 0, 0, 0, 0, 0, 0, 0, 3,
            1, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, b'r', b'_', b'v', 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 1, 0, 0, 0, b'c', 6, 0, 0, 0, b'i', b'd', b' ', b'>', b' ', b'0',
            1, 0, 0, 0, 1, 0, 0, 0, b'f', 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn items_of_rows_tables_round_trip_and_damaged_ones_are_refused_without_panic() {
        let state = SequenceState { last: 5, is_called: true };
        let all = [
            Ddl::CreateRowTable(row_table()),
            Ddl::AlterRowTable { schema: row_table(), discard_rows: false },
            Ddl::CreateSequence(sequence(), state),
            Ddl::AlterSequence(sequence(), None),
            Ddl::AlterSequence(sequence(), Some(state)),
            Ddl::DropSequence(11),
        ];
        for ddl in all {
            let bytes = ddl_item(&ddl);
            assert_eq!(decode_item(&bytes).unwrap(), Item::Ddl(ddl));
            for cut in 0..bytes.len() {
                assert!(decode_item(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 7, 0x7f, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] = value;
                    let _ = decode_item(&damaged);
                }
            }
        }
        let bytes = sequence_item(11, state);
        assert_eq!(decode_item(&bytes).unwrap(), Item::SequenceValue { id: 11, state });
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
    fn truncated_and_damaged_payloads_are_refused_without_panic() {
        let payload = commit(&[ddl_item(&Ddl::CreateTable(Arc::new(table())))]);
        for cut in 0..payload.len() {
            // A cut directly after the header is an empty commit, which is well-formed.
            assert_eq!(Record::decode(Lsn(1), &payload[..cut]).is_ok(), cut == COMMIT_HEADER_BYTES, "cut at {cut}");
        }
        for at in 0..payload.len() {
            for value in [0, 1, 7, 0xff] {
                let mut damaged = payload.clone();
                damaged[at] = value;
                let _ = Record::decode(Lsn(1), &damaged);
            }
        }
    }

    /// The bug: a table was taken from the log or the manifest unchecked; one without a time column
    /// then stopped the process at the first use of that column.
    #[test]
    fn invalid_table_definitions_are_refused() {
        let refused = |change: &dyn Fn(&mut Table)| {
            let mut wrong = table();
            change(&mut wrong);
            decode_table(&mut Take::new(&encode_table(&wrong), "table")).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(!refused(&|table| table.options.compression = false));
        assert!(refused(&|table| drop(table.columns.remove(0))), "no time");
        assert!(refused(&|table| table.columns[2].id = table.columns[1].id), "a column number twice");
        assert!(refused(&|table| table.columns[2].name = "dev".into()), "a column name twice");
        assert!(refused(&|table| table.next_column_id = ColumnId(2)), "a column that is still to come");
        assert!(refused(&|table| table.options.partition_length = 0), "a partition of nothing");
    }

    #[test]
    fn the_widest_table_fits_one_record() {
        let mut wide = table();
        for at in 3..limits::COLUMNS_PER_TABLE_MAX {
            wide.columns.push(Column {
                id: ColumnId(at as u32),
                name: format!("{at:0>width$}", width = limits::NAME_BYTES_MAX),
                ty: DataType::Int64,
                nullable: true,
                role: ColumnRole::Field,
            });
        }
        wide.next_column_id = ColumnId(limits::COLUMNS_PER_TABLE_MAX as u32);
        assert!(ddl_item(&Ddl::CreateTable(Arc::new(wide))).len() <= ITEM_BYTES_MAX);
    }
}
