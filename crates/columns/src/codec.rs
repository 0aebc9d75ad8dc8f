//! Encodes rows for log records: as raw columns or, above a few rows, as compressed chunks
//! (`log_encoding`). Format: docs/format/rows.md.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, PrimitiveArray, StringArray, new_null_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, ToByteSlice};
use model::{ColumnId, DataType, Result, limits};

use crate::bytes::{Reader, push_varint};
use crate::encoding::log_encoding;
use crate::rows::{Op, Ops, Rows, arrow_type, data_type, text_bytes, value_offsets};
use crate::small_batch::{SMALL_BATCH_BYTES_MAX, SMALL_BATCH_ROWS_MAX, SmallBatch};

/// First byte of raw columns.
const VERSION_RAW: u8 = 1;
/// First byte of compressed rows: columns, times and series are chunks and integer streams.
const VERSION_COMPRESSED: u8 = 2;
/// Rows smaller than this are not compressed: the overhead per column, in bytes and in time, would
/// outweigh the savings.
const COMPRESS_BYTES_MIN: usize = 4 << 10;
/// Limit of the memory of decoded rows, NULLs counted like other values: damaged bytes cannot cause
/// a larger allocation. Four times the limit of raw rows, because the raw encoding leaves out
/// NULLs.
const EXPANDED_BYTES_MAX: usize = 4 * limits::RECORD_PAYLOAD_BYTES_MAX;
/// Bytes that do not depend on the rows: header and column count, rounded up.
const HEADER_BYTES: usize = 32;
/// Size of a column's header.
pub(crate) const COLUMN_HEADER_BYTES: usize = 6;

pub(crate) const NULLS_NONE: u8 = 0;
pub(crate) const NULLS_SOME: u8 = 1;
const NULLS_ALL: u8 = 2;

const SERIES_SAME: u8 = 0;
const SERIES_EACH: u8 = 1;
const SERIES_PACKED: u8 = 2;

impl Rows {
    /// Appends rows `range` to `out`, uncompressed. Format: docs/format/rows.md.
    pub fn encode(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let (start, most) = (out.len(), self.encoded_bytes(range.clone()));
        out.reserve(most);
        self.begin(VERSION_RAW, range.clone(), out);
        encode_series(&self.series[range.clone()], out);
        extend_native(out, &self.times[range.clone()]);
        match self.as_small_batch() {
            Some(packed) if range == (0..self.len()) => {
                out.extend_from_slice(&(packed.len() as u16).to_le_bytes());
                out.extend_from_slice(packed.bytes());
            }
            _ => {
                let columns = self.columns();
                out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
                for (id, values) in columns.iter() {
                    encode_column(*id, &values.slice(range.start, range.len()), out);
                }
            }
        }
        // Records are split by the bound.
        let bytes = out.len() - start;
        assert!(bytes <= most, "BUG: {} rows take {bytes} bytes, at most {most} were expected", range.len());
        debug_assert!(self.is_encoded(range, &out[start..]), "BUG: encoded rows differ");
    }

    /// Whether `bytes` decode to rows `range`. For debug assertions.
    fn is_encoded(&self, range: Range<usize>, bytes: &[u8]) -> bool {
        let Ok(decoded) = Rows::decode(bytes) else { return false };
        let rows = self.slice(range);
        // Columns without values may be left out.
        let some = |columns: &[(ColumnId, ArrayRef)]| {
            let some = columns.iter().filter(|(_, values)| values.null_count() < values.len());
            some.cloned().collect::<Vec<_>>()
        };
        let (seen, expected) = (some(&decoded.columns()), some(&rows.columns()));
        (&decoded.series, &decoded.times, &decoded.ops) == (&rows.series, &rows.times, &rows.ops)
            && seen.len() == expected.len()
            && seen.iter().zip(&expected).all(|((id, a), (other, b))| id == other && crate::encoding::same(a, b))
    }

    /// Appends rows `range` with numbers bit-packed: a fraction of the size if values are close to
    /// each other or decimals. Falls back to [`Rows::encode`] for few rows or few bytes, and if the
    /// result would be larger.
    ///
    /// # Cost
    /// Per value, about as much as copying, checksumming and writing raw bytes:
    /// docs/decisions/0016-log-compression.md
    pub fn encode_compressed(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let raw_bytes = self.encoded_bytes(range.clone());
        let columns = self.arrays();
        if range.len() <= SMALL_BATCH_ROWS_MAX || raw_bytes < COMPRESS_BYTES_MIN || self.as_small_batch().is_some() {
            return self.encode(range, out);
        }
        let expanded: usize = columns.iter().map(|(_, values)| expanded_bytes(values, range.clone())).sum();
        if expanded + range.len() * ROW_BYTES > EXPANDED_BYTES_MAX {
            return self.encode(range, out);
        }
        let start = out.len();
        out.reserve(raw_bytes / 4);
        self.begin(VERSION_COMPRESSED, range.clone(), out);
        let mut scratch =
            Scratch { numbers: Vec::with_capacity(range.len()), chunk: Vec::with_capacity(range.len() * 8) };
        encode_compressed_series(&self.series[range.clone()], &mut scratch, out);
        log_encoding::write_ints(&self.times[range.clone()], &mut scratch.chunk);
        push_chunk(&mut scratch.chunk, out);
        encode_compressed_columns(columns, range.clone(), &mut scratch, out);
        if out.len() - start > raw_bytes {
            out.truncate(start);
            return self.encode(range, out);
        }
        debug_assert!(self.is_encoded(range, &out[start..]), "BUG: compressed rows differ");
    }

    fn begin(&self, version: u8, range: Range<usize>, out: &mut Vec<u8>) {
        out.push(version);
        out.extend_from_slice(&(range.len() as u32).to_le_bytes());
        encode_ops(&self.ops, range, out);
    }

    /// Decodes the output of [`Rows::encode`] or [`Rows::encode_compressed`]. All bytes are
    /// verified.
    ///
    /// # Errors
    /// XX001 with the reason and the byte position.
    pub fn decode(bytes: &[u8]) -> Result<Rows> {
        let mut reader = Reader::new("rows", bytes);
        match reader.u8()? {
            VERSION_RAW => {}
            VERSION_COMPRESSED => return Rows::decode_compressed(reader),
            version => {
                return Err(reader.wrong(format!("version {version}, this program reads up to {VERSION_COMPRESSED}")));
            }
        }
        let rows = reader.u32()? as usize;
        // Every row has a time of 8 bytes, which bounds the allocations below.
        if rows.checked_mul(8).is_none_or(|least| least > bytes.len()) {
            return Err(reader.wrong(format!("{rows} rows in {} bytes", bytes.len())));
        }
        let ops = decode_ops(&mut reader, rows)?;
        let series = decode_series(&mut reader, rows)?;
        let times = natives::<i64, 8>(reader.take(rows * 8)?, i64::from_le_bytes);
        let count = reader.u16()?;
        if rows <= SMALL_BATCH_ROWS_MAX && reader.left() <= SMALL_BATCH_BYTES_MAX {
            let packed = SmallBatch::read(&mut reader, rows, count.into())?;
            reader.end()?;
            return Ok(Rows::from_small_batch(series, times, ops, packed));
        }
        let mut columns: Vec<(ColumnId, ArrayRef)> = Vec::new();
        for _ in 0..count {
            let column = decode_column(&mut reader, rows)?;
            if columns.last().is_some_and(|last| last.0 >= column.0) {
                return Err(reader.wrong(format!("column {} is not in ascending order", column.0)));
            }
            columns.push(column);
        }
        reader.end()?;
        Ok(Rows::new(series, times, ops, columns))
    }

    fn decode_compressed(mut reader: Reader<'_>) -> Result<Rows> {
        let rows = reader.u32()? as usize;
        let mut left = ExpansionBudget(EXPANDED_BYTES_MAX);
        left.take(&reader, rows.saturating_mul(ROW_BYTES))?;
        let ops = decode_ops(&mut reader, rows)?;
        let series = decode_compressed_series(&mut reader, rows)?;
        let times = take_ints(&mut reader, rows, "times")?;
        let mut columns: Vec<(ColumnId, ArrayRef)> = Vec::new();
        for _ in 0..reader.u16()? {
            let column = decode_compressed_column(&mut reader, columns.last().map(|last| last.0), rows, &mut left)?;
            columns.push(column);
        }
        reader.end()?;
        Ok(Rows::new(series, times, ops, columns))
    }

    /// Upper bound of the size of [`Rows::encode`] for these rows; [`Rows::encode_compressed`] may
    /// add a few bytes per column.
    #[must_use]
    pub fn encoded_bytes(&self, range: Range<usize>) -> usize {
        let ops: usize = self.ops.list().iter().map(op_bytes).sum();
        let columns: usize = match self.as_small_batch() {
            // An overestimate for some of the rows; a small batch has few rows and bytes.
            Some(packed) => packed.bytes().len(),
            None => self.arrays().iter().map(|(_, values)| column_bytes(values, range.clone())).sum(),
        };
        HEADER_BYTES + ops + range.len() * 13 + columns
    }

    /// Splits the rows into ranges, in order, that encode to at most `encoded_bytes_max` each. A
    /// range of one row may be larger: [`Batch::check`](crate::Batch::check) limits its size.
    #[must_use]
    pub fn split(&self, encoded_bytes_max: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        self.split_into(0..self.len(), encoded_bytes_max, &mut ranges);
        let rows: usize = ranges.iter().map(Range::len).sum();
        assert!(rows == self.len(), "BUG: {rows} of {} rows after splitting", self.len());
        debug_assert!(ranges.is_sorted_by(|a, b| a.end == b.start), "BUG: {ranges:?} have gaps");
        ranges
    }

    /// Splits recursively. Records are at least about half full, and no sums per row over thousands
    /// of columns are needed.
    fn split_into(&self, range: Range<usize>, encoded_bytes_max: usize, ranges: &mut Vec<Range<usize>>) {
        if range.is_empty() {
            return;
        }
        let bytes = self.encoded_bytes(range.clone());
        if bytes <= encoded_bytes_max || range.len() == 1 {
            ranges.push(range);
            return;
        }
        // Enough parts if all rows have the same size; larger parts are split again.
        let parts = bytes.div_ceil(encoded_bytes_max).clamp(2, range.len());
        let each = range.len().div_ceil(parts);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + each);
            self.split_into(start..end, encoded_bytes_max, ranges);
            start = end;
        }
    }

    /// Upper bound of the encoded size of one row, without the contents of text and bytes.
    pub(crate) fn fixed_bytes_per_row(&self) -> usize {
        let ops: usize = self.ops.list().iter().map(op_bytes).sum();
        let columns = self.columns();
        let widths = columns.iter().map(|(_, values)| COLUMN_HEADER_BYTES + 1 + width(values.data_type()));
        HEADER_BYTES + ops + 13 + widths.sum::<usize>()
    }
}

fn op_bytes(op: &Op) -> usize {
    match op {
        Op::Update(columns) => 3 + columns.len() * 4,
        _ => 1,
    }
}

/// Encoded size of one value; for text and bytes, of its length.
fn width(ty: &arrow_schema::DataType) -> usize {
    ty.primitive_width().unwrap_or(if *ty == arrow_schema::DataType::Boolean { 1 } else { 4 })
}

fn column_bytes(values: &ArrayRef, range: Range<usize>) -> usize {
    let valid = match values.nulls() {
        None => range.len(),
        Some(nulls) => range.len() - nulls.slice(range.start, range.len()).null_count(),
    };
    let bitmap = if valid < range.len() { range.len().div_ceil(8) } else { 0 };
    let text = value_offsets(values).map_or(0, |offsets| (offsets[range.end] - offsets[range.start]) as usize);
    COLUMN_HEADER_BYTES + bitmap + valid * width(values.data_type()) + text
}

/// Remaining memory for decoded rows.
struct ExpansionBudget(usize);

impl ExpansionBudget {
    fn take(&mut self, reader: &Reader<'_>, bytes: usize) -> Result<()> {
        match self.0.checked_sub(bytes) {
            Some(left) => self.0 = left,
            None => {
                return Err(reader.wrong(format!("rows of more than {EXPANDED_BYTES_MAX} bytes when expanded")));
            }
        }
        Ok(())
    }
}

/// Size of a row's series number, time and operation.
const ROW_BYTES: usize = 13;

/// Memory of rows `range` of a column.
fn expanded_bytes(values: &ArrayRef, range: Range<usize>) -> usize {
    let text = value_offsets(values).map_or(0, |offsets| (offsets[range.end] - offsets[range.start]) as usize);
    range.len() * width(values.data_type()) + text
}

/// Appends `chunk` with its length in front, and clears it.
fn push_chunk(chunk: &mut Vec<u8>, out: &mut Vec<u8>) {
    push_varint(out, chunk.len() as u32);
    out.append(chunk);
}

fn take_chunk<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    let length = reader.varint()?;
    reader.take(length as usize)
}

fn take_ints(reader: &mut Reader<'_>, count: usize, what: &str) -> Result<Vec<i64>> {
    log_encoding::decode_ints(count, take_chunk(reader)?).map_err(|error| error.context(what))
}

/// Buffers that are reused for each column.
struct Scratch {
    numbers: Vec<i64>,
    chunk: Vec<u8>,
}

fn encode_compressed_columns(
    columns: &[(ColumnId, ArrayRef)],
    range: Range<usize>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let count_at = out.len();
    out.extend_from_slice(&[0; 2]);
    let (mut count, mut before) = (0u16, 0);
    for (id, values) in columns {
        // Slicing an array costs more than packing a few values, so a whole column is not sliced.
        let all = range.len() == values.len();
        let values = if all { Cow::Borrowed(values) } else { Cow::Owned(values.slice(range.start, range.len())) };
        if values.null_count() == values.len() {
            continue;
        }
        let ty = data_type(values.data_type()).expect("checked by Batch::check");
        push_varint(out, id.0 - before);
        (count, before) = (count + 1, id.0);
        out.push(ty as u8);
        log_encoding::encode(ty, &values, &mut scratch.numbers, &mut scratch.chunk);
        push_chunk(&mut scratch.chunk, out);
    }
    out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
}

fn encode_compressed_series(series: &[u32], scratch: &mut Scratch, out: &mut Vec<u8>) {
    let first = series.first().copied().unwrap_or(0);
    if series.iter().all(|series| *series == first) {
        return encode_series(series, out);
    }
    out.push(SERIES_PACKED);
    scratch.numbers.clear();
    scratch.numbers.extend(series.iter().copied().map(i64::from));
    log_encoding::write_ints(&scratch.numbers, &mut scratch.chunk);
    push_chunk(&mut scratch.chunk, out);
}

fn decode_compressed_series(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<u32>> {
    match reader.u8()? {
        SERIES_SAME => Ok(vec![reader.u32()?; rows]),
        SERIES_PACKED => {
            let numbers = take_ints(reader, rows, "series")?.into_iter().map(u32::try_from);
            numbers.collect::<std::result::Result<_, _>>().map_err(|_| reader.wrong("a series number above 32 bits"))
        }
        other => Err(reader.wrong(format!("series code {other}"))),
    }
}

fn decode_compressed_column(
    reader: &mut Reader<'_>,
    before: Option<ColumnId>,
    rows: usize,
    left: &mut ExpansionBudget,
) -> Result<(ColumnId, ArrayRef)> {
    let more = reader.varint()?;
    let Some(id) = before.map_or(0, |before| before.0).checked_add(more).filter(|_| before.is_none() || more > 0)
    else {
        return Err(reader.wrong(format!("a column {more} after column {}", before.map_or(0, |before| before.0))));
    };
    let (id, code) = (ColumnId(id), reader.u8()?);
    let Some(ty) = DataType::from_code(code) else {
        return Err(reader.wrong(format!("column {id} of type code {code}")));
    };
    let chunk = take_chunk(reader)?;
    left.take(reader, rows * width(&arrow_type(ty)))?;
    let values =
        log_encoding::decode(ty, rows, chunk, left.0).map_err(|error| error.context(format!("column {id}")))?;
    left.take(reader, text_bytes(&values))?;
    Ok((id, values))
}

fn encode_ops(ops: &Ops, range: Range<usize>, out: &mut Vec<u8>) {
    let list = ops.list();
    out.extend_from_slice(&(list.len() as u16).to_le_bytes());
    for op in list {
        match op {
            Op::Replace => out.push(0),
            Op::Merge => out.push(1),
            Op::Keep => out.push(2),
            Op::Update(columns) => {
                out.push(3);
                out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
                columns.iter().for_each(|id| out.extend_from_slice(&id.0.to_le_bytes()));
            }
        }
    }
    if let Ops::Each { list, of } = ops
        && list.len() > 1
    {
        out.extend_from_slice(&of[range]);
    }
}

fn decode_ops(reader: &mut Reader<'_>, rows: usize) -> Result<Ops> {
    let count = usize::from(reader.u16()?);
    if count == 0 || count > 256 {
        return Err(reader.wrong(format!("{count} operations, expected 1 to 256")));
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(decode_op(reader)?);
    }
    if list.len() == 1 {
        return Ok(Ops::All(list.remove(0)));
    }
    let of = reader.take(rows)?.to_vec();
    match of.iter().find(|at| usize::from(**at) >= count) {
        Some(at) => Err(reader.wrong(format!("operation {at} of {count}"))),
        None => Ok(Ops::Each { list, of }),
    }
}

fn decode_op(reader: &mut Reader<'_>) -> Result<Op> {
    Ok(match reader.u8()? {
        0 => Op::Replace,
        1 => Op::Merge,
        2 => Op::Keep,
        3 => {
            let count = usize::from(reader.u16()?);
            let ids: Arc<[ColumnId]> =
                natives::<u32, 4>(reader.take(count * 4)?, u32::from_le_bytes).into_iter().map(ColumnId).collect();
            if !ids.is_sorted_by(|a, b| a < b) {
                return Err(reader.wrong("updated columns not sorted by id"));
            }
            Op::Update(ids)
        }
        other => return Err(reader.wrong(format!("operation code {other}"))),
    })
}

fn encode_series(series: &[u32], out: &mut Vec<u8>) {
    let first = series.first().copied().unwrap_or(0);
    if series.iter().all(|series| *series == first) {
        out.push(SERIES_SAME);
        out.extend_from_slice(&first.to_le_bytes());
    } else {
        out.push(SERIES_EACH);
        extend_native(out, series);
    }
}

fn decode_series(reader: &mut Reader<'_>, rows: usize) -> Result<Vec<u32>> {
    match reader.u8()? {
        SERIES_SAME => Ok(vec![reader.u32()?; rows]),
        SERIES_EACH => Ok(natives::<u32, 4>(reader.take(rows * 4)?, u32::from_le_bytes)),
        other => Err(reader.wrong(format!("series code {other}"))),
    }
}

pub(crate) fn encode_column(id: ColumnId, values: &ArrayRef, out: &mut Vec<u8>) {
    let ty = data_type(values.data_type()).expect("checked by Batch::check");
    out.extend_from_slice(&id.0.to_le_bytes());
    out.push(ty as u8);
    let nulls = values.nulls().filter(|nulls| nulls.null_count() > 0);
    match nulls {
        None => out.push(NULLS_NONE),
        Some(nulls) if nulls.null_count() == nulls.len() => {
            out.push(NULLS_ALL);
            return;
        }
        Some(nulls) => {
            out.push(NULLS_SOME);
            push_bits(nulls.inner(), out);
        }
    }
    match ty {
        DataType::Bool => encode_bools(values.as_boolean(), nulls, out),
        DataType::Int16 => encode_primitive::<Int16Type>(values, nulls, out),
        DataType::Int32 => encode_primitive::<Int32Type>(values, nulls, out),
        DataType::Int64 => encode_primitive::<Int64Type>(values, nulls, out),
        DataType::UInt64 => encode_primitive::<UInt64Type>(values, nulls, out),
        DataType::Float32 => encode_primitive::<Float32Type>(values, nulls, out),
        DataType::Float64 => encode_primitive::<Float64Type>(values, nulls, out),
        DataType::Timestamp => encode_primitive::<TimestampNanosecondType>(values, nulls, out),
        DataType::Text => {
            let values = values.as_string::<i32>();
            encode_var(values.value_offsets(), values.value_data(), nulls, out);
        }
        DataType::Bytes => {
            let values = values.as_binary::<i32>();
            encode_var(values.value_offsets(), values.value_data(), nulls, out);
        }
    }
}

/// Appends a bitmap, lowest bit first, padded with zeros.
fn push_bits(bits: &BooleanBuffer, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bits.len().div_ceil(8), 0);
    for at in bits.set_indices() {
        out[start + at / 8] |= 1 << (at % 8);
    }
}

fn encode_bools(values: &BooleanArray, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) {
    match nulls {
        None => out.extend(values.values().iter().map(u8::from)),
        Some(nulls) => out.extend(nulls.valid_indices().map(|at| u8::from(values.value(at)))),
    }
}

fn encode_primitive<T: ArrowPrimitiveType>(values: &ArrayRef, nulls: Option<&NullBuffer>, out: &mut Vec<u8>) {
    let values = values.as_primitive::<T>().values();
    match nulls {
        None => extend_native(out, values),
        Some(nulls) => {
            let valid: Vec<T::Native> = nulls.valid_indices().map(|at| values[at]).collect();
            extend_native(out, &valid);
        }
    }
}

fn encode_var(offsets: &[i32], data: &[u8], nulls: Option<&NullBuffer>, out: &mut Vec<u8>) {
    let valid = |row: &usize| nulls.is_none_or(|nulls| nulls.is_valid(*row));
    for row in (0..offsets.len() - 1).filter(valid) {
        out.extend_from_slice(&((offsets[row + 1] - offsets[row]) as u32).to_le_bytes());
    }
    match nulls {
        None => out.extend_from_slice(&data[offsets[0] as usize..offsets[offsets.len() - 1] as usize]),
        Some(nulls) => {
            for row in nulls.valid_indices() {
                out.extend_from_slice(&data[offsets[row] as usize..offsets[row + 1] as usize]);
            }
        }
    }
}

/// Verifies a column without decoding it where possible; returns its id and the size of its text
/// and bytes values.
pub(crate) fn skip_column(reader: &mut Reader<'_>, rows: usize) -> Result<(ColumnId, usize)> {
    let width = match reader.rest() {
        [_, _, _, _, code, NULLS_NONE, ..] => DataType::from_code(*code).and_then(number_width),
        _ => None,
    };
    if let Some(width) = width {
        let id = ColumnId(reader.u32()?);
        reader.take(COLUMN_HEADER_BYTES - 4 + rows * width)?;
        return Ok((id, 0));
    }
    let (id, values) = decode_column(reader, rows)?;
    Ok((id, text_bytes(&values)))
}

/// Size of a value of a numeric type for which every bit pattern is valid.
fn number_width(ty: DataType) -> Option<usize> {
    match ty {
        DataType::Int16 => Some(2),
        DataType::Int32 | DataType::Float32 => Some(4),
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Timestamp => Some(8),
        DataType::Bool | DataType::Text | DataType::Bytes => None,
    }
}

pub(crate) fn decode_column(reader: &mut Reader<'_>, rows: usize) -> Result<(ColumnId, ArrayRef)> {
    let id = ColumnId(reader.u32()?);
    let code = reader.u8()?;
    let Some(ty) = DataType::from_code(code) else {
        return Err(reader.wrong(format!("column {id} of type code {code}")));
    };
    let nulls = match reader.u8()? {
        NULLS_NONE => None,
        NULLS_SOME => Some(take_nulls(reader, rows)?),
        NULLS_ALL => return Ok((id, new_null_array(&arrow_type(ty), rows))),
        other => return Err(reader.wrong(format!("null code {other}"))),
    };
    let values: ArrayRef = match ty {
        DataType::Bool => decode_bools(reader, rows, nulls)?,
        DataType::Int16 => decode_primitive::<Int16Type, 2>(reader, rows, nulls, i16::from_le_bytes)?,
        DataType::Int32 => decode_primitive::<Int32Type, 4>(reader, rows, nulls, i32::from_le_bytes)?,
        DataType::Int64 => decode_primitive::<Int64Type, 8>(reader, rows, nulls, i64::from_le_bytes)?,
        DataType::UInt64 => decode_primitive::<UInt64Type, 8>(reader, rows, nulls, u64::from_le_bytes)?,
        DataType::Float32 => decode_primitive::<Float32Type, 4>(reader, rows, nulls, f32::from_le_bytes)?,
        DataType::Float64 => decode_primitive::<Float64Type, 8>(reader, rows, nulls, f64::from_le_bytes)?,
        DataType::Timestamp => decode_primitive::<TimestampNanosecondType, 8>(reader, rows, nulls, i64::from_le_bytes)?,
        DataType::Text => {
            let (offsets, data) = decode_var(reader, rows, nulls.as_ref())?;
            let values = StringArray::try_new(offsets, data, nulls);
            Arc::new(values.map_err(|error| reader.wrong(format!("column {id}: {error}")))?)
        }
        DataType::Bytes => {
            let (offsets, data) = decode_var(reader, rows, nulls.as_ref())?;
            let values = BinaryArray::try_new(offsets, data, nulls);
            Arc::new(values.map_err(|error| reader.wrong(format!("column {id}: {error}")))?)
        }
    };
    Ok((id, values))
}

fn take_nulls(reader: &mut Reader<'_>, rows: usize) -> Result<NullBuffer> {
    let bits = reader.take(rows.div_ceil(8))?;
    Ok(NullBuffer::new(BooleanBuffer::new(Buffer::from(bits), 0, rows)))
}

fn valid_count(rows: usize, nulls: Option<&NullBuffer>) -> usize {
    nulls.map_or(rows, |nulls| rows - nulls.null_count())
}

fn decode_bools(reader: &mut Reader<'_>, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let bytes = reader.take(valid_count(rows, nulls.as_ref()))?;
    if let Some(byte) = bytes.iter().find(|byte| **byte > 1) {
        return Err(reader.wrong(format!("bool of value {byte}")));
    }
    let bits = scatter(bytes.to_vec(), rows, nulls.as_ref());
    Ok(Arc::new(BooleanArray::new(bits.into_iter().map(|bit| bit != 0).collect(), nulls)))
}

fn decode_primitive<T: ArrowPrimitiveType, const N: usize>(
    reader: &mut Reader<'_>,
    rows: usize,
    nulls: Option<NullBuffer>,
    read: fn([u8; N]) -> T::Native,
) -> Result<ArrayRef> {
    let bytes = reader.take(valid_count(rows, nulls.as_ref()) * N)?;
    let values = scatter(natives(bytes, read), rows, nulls.as_ref());
    let array = PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls);
    let zoned = matches!(T::DATA_TYPE, arrow_schema::DataType::Timestamp(_, _));
    Ok(Arc::new(if zoned { array.with_data_type(arrow_type(DataType::Timestamp)) } else { array }))
}

fn decode_var(reader: &mut Reader<'_>, rows: usize, nulls: Option<&NullBuffer>) -> Result<(OffsetBuffer<i32>, Buffer)> {
    let count = valid_count(rows, nulls);
    let lengths = scatter(natives::<u32, 4>(reader.take(count * 4)?, u32::from_le_bytes), rows, nulls);
    let total: u64 = lengths.iter().map(|length| u64::from(*length)).sum();
    if total > reader.left() as u64 || total > i32::MAX as u64 {
        return Err(reader.wrong(format!("values of {total} bytes, {} are left", reader.left())));
    }
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| *length as usize));
    Ok((offsets, Buffer::from(reader.take(total as usize)?)))
}

/// Distributes the values of valid rows over all rows; NULLs get the default.
fn scatter<T: Copy + Default>(values: Vec<T>, rows: usize, nulls: Option<&NullBuffer>) -> Vec<T> {
    let Some(nulls) = nulls else { return values };
    let mut all = vec![T::default(); rows];
    for (row, value) in nulls.valid_indices().zip(values) {
        all[row] = value;
    }
    all
}

/// Appends values in little-endian order.
fn extend_native<T: ArrowNativeType>(out: &mut Vec<u8>, values: &[T]) {
    if cfg!(target_endian = "little") {
        out.extend_from_slice(values.to_byte_slice());
    } else {
        for value in values {
            out.extend(value.to_byte_slice().iter().rev());
        }
    }
}

fn natives<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> Vec<T> {
    let (chunks, _) = bytes.as_chunks::<N>();
    chunks.iter().map(|chunk| read(*chunk)).collect()
}
