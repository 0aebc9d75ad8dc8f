//! Contents of the log records. Bytes: docs/format/record.md, pinned by the golden tests below.

use std::ops::Range;

use model::{Lsn, Result, TableId, TimeRange, limits};
use rows::RecordId;

use crate::Catalog;
use crate::catalog_object::{CatalogObject, NewState, ObjectKey};
use crate::codec::{Put, Take, unzigzag, zigzag};
use crate::sequence::SequenceState;

/// Bytes of a commit record before its items.
const COMMIT_HEADER_BYTES: usize = 1 + 8 + 8;
/// Bytes of an item record before the item.
pub(crate) const ITEM_HEADER_BYTES: usize = 1 + 8;
/// Bytes of a part record before its piece of the item.
const PART_HEADER_BYTES: usize = 1 + 8 + 1;
/// Largest item that fits into a record of its own; a larger one is written as parts.
pub(crate) const ITEM_BYTES_MAX: usize = limits::RECORD_PAYLOAD_BYTES_MAX - ITEM_HEADER_BYTES;
/// Largest piece of an item in a part record. Half a record: a log file ends where the next record
/// does not fit, so smaller parts leave less of it unused.
const PART_BYTES_MAX: usize = 512 << 10;

const _: () = assert!(PART_BYTES_MAX + PART_HEADER_BYTES <= limits::RECORD_PAYLOAD_BYTES_MAX);
/// Limit for the series numbers of one `Delete` or `Series` item, so that it fits a record.
pub(crate) const SERIES_PER_ITEM_MAX: usize = 128 << 10;

const RECORD_ITEM: u8 = 1;
const RECORD_COMMIT: u8 = 2;
const RECORD_PART: u8 = 3;

const ITEM_ROWS: u8 = 1;
const ITEM_SERIES: u8 = 2;
const ITEM_CREATE: u8 = 3;
const ITEM_ALTER: u8 = 4;
const ITEM_DROP: u8 = 5;
const ITEM_DELETE: u8 = 6;
const ITEM_ROW_CHANGES: u8 = 7;
const ITEM_SEQUENCE_VALUE: u8 = 8;
const ITEM_DELETE_SPANS: u8 = 9;

/// Largest encoding of a span of a `DeleteSpans` item: three varints.
pub(crate) const SPAN_BYTES_MAX: usize = 5 + 10 + 10;

/// One record of the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Part of a transaction; takes effect only with its commit record.
    Item { txn: u64, item: Item<'a> },
    /// A piece of an item that is larger than a record. The pieces of an item follow each other in
    /// its transaction; records of other transactions may lie between them.
    Part { txn: u64, is_last: bool, bytes: &'a [u8] },
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
    /// Deletes of single series, to be read by [`DeletedSpans`]. Several items of a table continue
    /// each other.
    DeleteSpans {
        table: TableId,
        spans: &'a [u8],
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
    Create(CatalogObject, NewState),
    /// The complete next version.
    Alter(CatalogObject, NewState),
    Drop(ObjectKey),
}

impl Ddl {
    /// Whether the change is one of temporary objects.
    ///
    /// - `catalog`: the catalog before it.
    pub(crate) fn is_temporary(&self, catalog: &Catalog) -> bool {
        match self {
            Ddl::Create(object, _) | Ddl::Alter(object, _) => object.is_temporary(),
            Ddl::Drop(key) => catalog.object(key).is_some_and(|object| object.is_temporary()),
        }
    }

    /// Returns a number above those of all tables, indexes, sequences and views that the change creates.
    pub(crate) fn next_number(&self) -> u32 {
        match self {
            Ddl::Create(object, _) | Ddl::Alter(object, _) => object.next_number(),
            Ddl::Drop(_) => 0,
        }
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

/// Encodes spans of series, sorted by series and time, as a `DeleteSpans` item of about `bytes_max`
/// bytes. Returns the number of spans in it too.
pub(crate) fn delete_spans_item(
    table: TableId,
    spans: impl Iterator<Item = (u32, TimeRange)>,
    bytes_max: usize,
) -> (Vec<u8>, usize) {
    let mut out = vec![ITEM_DELETE_SPANS];
    out.put_u32(table.0);
    let (mut count, mut last) = (0, (0, 0));
    for (series, times) in spans {
        out.put_varint((series - last.0).into());
        let before = if series == last.0 { last.1 } else { 0 };
        out.put_varint(zigzag(times.start.wrapping_sub(before)));
        out.put_varint(times.last.wrapping_sub(times.start).cast_unsigned());
        last = (series, times.last);
        count += 1;
        if out.len() + SPAN_BYTES_MAX > bytes_max {
            break;
        }
    }
    (out, count)
}

/// Decodes the spans of a `DeleteSpans` item.
pub(crate) struct DeletedSpans<'a> {
    take: Take<'a>,
    last: (u32, i64),
}

impl<'a> DeletedSpans<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> DeletedSpans<'a> {
        DeletedSpans { take: Take::new(bytes, "deleted spans"), last: (0, 0) }
    }

    fn next_span(&mut self) -> Result<(u32, TimeRange)> {
        let more = u32::try_from(self.take.varint()?).ok();
        let series = more.and_then(|more| self.last.0.checked_add(more));
        let series = series.ok_or_else(|| self.take.malformed("name no series"))?;
        let before = if series == self.last.0 { self.last.1 } else { 0 };
        let start = before.wrapping_add(unzigzag(self.take.varint()?));
        let last = start.checked_add_unsigned(self.take.varint()?);
        let last = last.ok_or_else(|| self.take.malformed("end after the last time"))?;
        self.last = (series, last);
        Ok((series, TimeRange { start, last }))
    }
}

impl Iterator for DeletedSpans<'_> {
    type Item = Result<(u32, TimeRange)>;

    /// After an error the remaining spans are undefined.
    fn next(&mut self) -> Option<Self::Item> {
        (!self.take.is_empty()).then(|| self.next_span())
    }
}

impl Record<'_> {
    pub(crate) fn txn(&self) -> u64 {
        match self {
            Record::Item { txn, .. } | Record::Part { txn, .. } | Record::Commit { txn, .. } => *txn,
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
        RECORD_PART => decode_part(txn, &mut take),
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

fn decode_part<'a>(txn: u64, take: &mut Take<'a>) -> Result<Record<'a>> {
    let more = take.u8()?;
    let bytes = take.rest();
    if more > 1 || bytes.is_empty() {
        return Err(take.malformed(&format!("is a part of {} bytes with flag {more}, expected 0 or 1", bytes.len())));
    }
    Ok(Record::Part { txn, is_last: more == 0, bytes })
}

/// Header of a record of an item.
pub(crate) struct ItemHeader {
    bytes: [u8; PART_HEADER_BYTES],
    length: usize,
}

impl ItemHeader {
    fn new(kind: u8, txn: u64, length: usize) -> ItemHeader {
        let mut bytes = [0; PART_HEADER_BYTES];
        bytes[0] = kind;
        bytes[1..9].copy_from_slice(&txn.to_le_bytes());
        ItemHeader { bytes, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Returns the header of the record that has the bytes of an item from `from` on, and the range of
/// these bytes, which follow the header. `from` is 0 or the end of the previous record.
pub(crate) fn item_record(txn: u64, item: &[u8], from: usize) -> (ItemHeader, Range<usize>) {
    assert!(from < item.len(), "BUG: a record of an item of {} bytes from byte {from} on", item.len());
    if item.len() <= ITEM_BYTES_MAX {
        return (ItemHeader::new(RECORD_ITEM, txn, ITEM_HEADER_BYTES), from..item.len());
    }
    let end = item.len().min(from + PART_BYTES_MAX);
    let mut header = ItemHeader::new(RECORD_PART, txn, PART_HEADER_BYTES);
    header.bytes[PART_HEADER_BYTES - 1] = u8::from(end < item.len());
    (header, from..end)
}

/// The records of an item.
pub(crate) fn item_records(txn: u64, item: &[u8]) -> impl Iterator<Item = (ItemHeader, &[u8])> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (header, range) = (from < item.len()).then(|| item_record(txn, item, from))?;
        from = range.end;
        Some((header, &item[range]))
    })
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
    let mut out = Vec::new();
    match ddl {
        Ddl::Create(object, state) | Ddl::Alter(object, state) => {
            out.put_u8(if matches!(ddl, Ddl::Create(..)) { ITEM_CREATE } else { ITEM_ALTER });
            object.encode(&mut out);
            state.encode(&mut out);
        }
        Ddl::Drop(key) => {
            out.put_u8(ITEM_DROP);
            key.encode(&mut out);
        }
    }
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

/// Decodes an item.
pub(crate) fn decode_item(bytes: &[u8]) -> Result<Item<'_>> {
    let mut take = Take::new(bytes, "item");
    let kind = take.u8()?;
    let item = match kind {
        ITEM_ROWS => Item::Rows { table: TableId(take.u32()?), batch: take.u32()?, rows: take.rest() },
        ITEM_SERIES => decode_series(&mut take)?,
        ITEM_DELETE => decode_delete(&mut take)?,
        ITEM_DELETE_SPANS => Item::DeleteSpans { table: TableId(take.u32()?), spans: take.rest() },
        ITEM_CREATE | ITEM_ALTER => {
            let object = CatalogObject::decode(&mut take)?;
            let state = NewState::decode(&mut take, &object, kind == ITEM_CREATE)?;
            Item::Ddl(if kind == ITEM_CREATE { Ddl::Create(object, state) } else { Ddl::Alter(object, state) })
        }
        ITEM_DROP => Item::Ddl(Ddl::Drop(ObjectKey::decode(&mut take)?)),
        ITEM_ROW_CHANGES => Item::RowChanges(take.rest()),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{Column, ColumnId, ColumnRole, DataType};

    use super::*;
    use crate::catalog_object::tests::{composite, domain, enum_type, row_table, sequence, table, view};

    fn create_table(table: model::Table) -> Ddl {
        Ddl::Create(CatalogObject::Table(Arc::new(table)), NewState::Kept)
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
            30, 0, 0, 0, 6, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
            1, 1, 0, 0, 0, 9, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn part_record_bytes_are_exactly_these() {
        let item: Vec<u8> = (0..=ITEM_BYTES_MAX).map(|at| at as u8).collect();
        let records: Vec<Vec<u8>> =
            item_records(5, &item).map(|(header, bytes)| [header.bytes(), bytes].concat()).collect();
        assert_eq!(records.iter().map(Vec::len).collect::<Vec<_>>(), [524_298, 524_290]);
        assert_eq!(records[0][..12], [3, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1]);
        assert_eq!(records[1][..12], [3, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn an_item_is_one_record_if_it_fits_and_parts_otherwise() {
        let part = PART_BYTES_MAX;
        let cases = [
            (1, vec![1]),
            (ITEM_BYTES_MAX, vec![ITEM_BYTES_MAX]),
            (ITEM_BYTES_MAX + 1, vec![part, part - 8]),
            (2 * part, vec![part, part]),
            (2 * part + 1, vec![part, part, 1]),
        ];
        for (bytes, expected) in cases {
            let item = vec![7; bytes];
            let (mut seen, mut joined, mut ends) = (Vec::new(), Vec::new(), 0);
            for (header, bytes) in item_records(9, &item) {
                let payload = [header.bytes(), bytes].concat();
                assert!(payload.len() <= limits::RECORD_PAYLOAD_BYTES_MAX);
                seen.push(bytes.len());
                assert_eq!(ends, 0, "a piece after the last one");
                if expected.len() > 1 {
                    let Record::Part { txn: 9, is_last, bytes } = Record::decode(Lsn(1), &payload).unwrap() else {
                        panic!("not a part")
                    };
                    joined.extend_from_slice(bytes);
                    ends += usize::from(is_last);
                }
            }
            assert_eq!(seen, expected, "{bytes}");
            assert!(expected.len() == 1 || (joined == item && ends == 1), "{bytes}");
        }
        for damaged in [&[3; 9][..], &[3; 10], &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1]] {
            assert!(Record::decode(Lsn(1), damaged).is_err(), "{damaged:?}");
        }
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
            7, 0x91, 3, 8, 3, b'a', b'b', 4, 0, 6, 1, 3, 3, 2, b'c',
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
    fn deleted_spans_bytes_are_exactly_these() {
        let times = |start, last| TimeRange { start, last };
        let spans = [
            (3, times(10, 10)),
            (3, times(12, 14)),
            (4, times(-1, 0)),
            (300, times(i64::MIN, i64::MAX)),
            (u32::MAX, times(i64::MAX, i64::MAX)),
        ];
        let (bytes, count) = delete_spans_item(TableId(7), spans[..3].iter().copied(), 1_000);
        assert_eq!((bytes.as_slice(), count), (&[9, 7, 0, 0, 0, 3, 20, 0, 0, 4, 2, 1, 1, 1][..], 3));
        for bytes_max in [0, SPAN_BYTES_MAX + 20, 1_000] {
            let (mut decoded, mut from) = (Vec::new(), 0);
            while from < spans.len() {
                let (bytes, count) = delete_spans_item(TableId(7), spans[from..].iter().copied(), bytes_max);
                assert!(count > 0 && bytes.len() <= bytes_max.max(5 + SPAN_BYTES_MAX));
                let Item::DeleteSpans { table: TableId(7), spans } = decode_item(&bytes).unwrap() else {
                    panic!("not spans")
                };
                decoded.extend(DeletedSpans::new(spans).map(|span| span.unwrap()));
                from += count;
            }
            assert_eq!(decoded, spans);
        }
        for damaged in [
            &[0][..],
            &[0, 0],
            &[0xff; 12],
            &[0, 0x80],
            &[0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 1],
        ] {
            assert!(DeletedSpans::new(damaged).any(|span| span.is_err()), "{damaged:?}");
        }
    }

    #[test]
    fn changes_of_the_catalog_round_trip_and_damaged_ones_are_refused_without_panic() {
        let state = SequenceState { last: 5, is_called: true };
        let objects = [
            (CatalogObject::Schema("s".into()), NewState::Kept, NewState::Kept),
            (CatalogObject::Table(Arc::new(table())), NewState::Kept, NewState::Kept),
            (CatalogObject::RowTable(row_table()), NewState::Kept, NewState::Emptied),
            (CatalogObject::RowTable(row_table()), NewState::Kept, NewState::Kept),
            (CatalogObject::Sequence(sequence()), NewState::Sequence(state), NewState::Kept),
            (CatalogObject::Sequence(sequence()), NewState::Sequence(state), NewState::Sequence(state)),
            (CatalogObject::View(view()), NewState::Kept, NewState::Kept),
            (CatalogObject::Type(enum_type()), NewState::Kept, NewState::Kept),
            (CatalogObject::Type(domain()), NewState::Kept, NewState::Kept),
            (CatalogObject::Type(composite()), NewState::Kept, NewState::Kept),
        ];
        let changes = objects.into_iter().flat_map(|(object, new, altered)| {
            let key = object.key();
            [Ddl::Create(object.clone(), new), Ddl::Alter(object, altered), Ddl::Drop(key)]
        });
        for ddl in changes {
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

    /// The state of a new sequence is part of its creation: without it replay would have a sequence
    /// that returns no values.
    #[test]
    fn states_that_an_object_cannot_have_are_refused() {
        let state = SequenceState { last: 5, is_called: true };
        for (object, is_new, state) in [
            (CatalogObject::Sequence(sequence()), true, NewState::Kept),
            (CatalogObject::Sequence(sequence()), false, NewState::Emptied),
            (CatalogObject::RowTable(row_table()), true, NewState::Emptied),
            (CatalogObject::Table(Arc::new(table())), false, NewState::Emptied),
            (CatalogObject::Schema("s".into()), true, NewState::Sequence(state)),
            (CatalogObject::View(view()), false, NewState::Emptied),
        ] {
            let mut bytes = vec![if is_new { ITEM_CREATE } else { ITEM_ALTER }];
            object.encode(&mut bytes);
            state.encode(&mut bytes);
            assert!(decode_item(&bytes).is_err(), "{object} {state:?}");
        }
    }

    #[test]
    fn every_item_round_trips() {
        let mut rows = begin_rows_item(TableId(7), 2);
        rows.extend_from_slice(b"rows");
        let items = vec![
            ddl_item(&create_table(table())),
            series_item(TableId(7), 2, 3, &[4, 5], &[(5, b"key")]),
            rows,
            ddl_item(&Ddl::Create(CatalogObject::Schema("s".into()), NewState::Kept)),
            delete_item(TableId(7), None, TimeRange::ALL),
            ddl_item(&Ddl::Drop(ObjectKey::Table(TableId(7)))),
        ];
        let payload = commit(&items);
        let Record::Commit { txn: 5, wall_ns: -3, items: decoded } = Record::decode(Lsn(1), &payload).unwrap() else {
            panic!("not a commit");
        };
        assert_eq!(decoded[0], Item::Ddl(create_table(table())));
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
        let payload = commit(&[ddl_item(&create_table(table()))]);
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
        assert!(ddl_item(&create_table(wide)).len() <= ITEM_BYTES_MAX);
    }
}
