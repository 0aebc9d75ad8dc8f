//! TsBlock: the column format of IoTDB's answers.
//!
//! All integers are big-endian.
//!
//! | size | field |
//! |---:|---|
//! | 4 | c, number of value columns |
//! | c | type codes, see `types` |
//! | 4 | n, number of rows |
//! | 1 + c | encodings of the time column and of each value column |
//! | … | the time column, then each value column |
//!
//! A column is one byte whether it may have nulls; if so, a bit per row, first row in the highest
//! bit, 1 for null; then the values. Encoding 0 has a bit per row (BOOLEAN), 1 four bytes (INT32,
//! FLOAT, DATE), 2 eight bytes (INT64, DOUBLE, TIMESTAMP), 3 length and bytes (TEXT, STRING, BLOB);
//! 1 to 3 only for rows that are not null. Encoding 4 is one value for all rows: the encoding of
//! the value, then a column of one row.
//!
//! Always true: memory is at most 64 times the given bytes (a null is a bit here and a value in
//! memory).

use super::thrift::{Cursor, Malformed};
use super::types::DataType;

/// A block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Block {
    pub(crate) rows: usize,
    /// Times of the rows in the tree dialect; zeros in the table dialect, where time is an ordinary
    /// column.
    pub(crate) times: Column,
    pub(crate) columns: Vec<Column>,
}

/// A column of a block.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    pub(crate) kind: DataType,
    values: Values,
    /// True for null; `None` if there are no nulls.
    nulls: Option<Vec<bool>>,
    /// Whether the first row is the value of all rows.
    repeated: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Values {
    Bool(Vec<bool>),
    /// 4 bytes: INT32, DATE, and the bits of a FLOAT.
    Four(Vec<u32>),
    /// 8 bytes: INT64, TIMESTAMP, and the bits of a DOUBLE.
    Eight(Vec<u64>),
    /// Start of each value, and end of the last.
    Bytes {
        starts: Vec<usize>,
        bytes: Vec<u8>,
    },
}

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    /// INT32; DATE as 10000·year + 100·month + day.
    Int32(i32),
    /// INT64, TIMESTAMP.
    Int64(i64),
    Float(f32),
    Double(f64),
    /// TEXT, STRING, BLOB.
    Bytes(&'a [u8]),
}

impl Column {
    /// Value of a row; null beyond the last row.
    pub(crate) fn cell(&self, row: usize) -> Cell<'_> {
        let row = if self.repeated { 0 } else { row };
        if self.nulls.as_ref().is_some_and(|nulls| nulls.get(row).copied().unwrap_or(true)) {
            return Cell::Null;
        }
        match &self.values {
            Values::Bool(values) => values.get(row).map_or(Cell::Null, |value| Cell::Bool(*value)),
            Values::Four(values) => values.get(row).map_or(Cell::Null, |bits| match self.kind {
                DataType::Float => Cell::Float(f32::from_bits(*bits)),
                _ => Cell::Int32(*bits as i32),
            }),
            Values::Eight(values) => values.get(row).map_or(Cell::Null, |bits| match self.kind {
                DataType::Double => Cell::Double(f64::from_bits(*bits)),
                _ => Cell::Int64(*bits as i64),
            }),
            Values::Bytes { starts, bytes } => match starts.get(row..).unwrap_or(&[]) {
                [start, end, ..] => Cell::Bytes(&bytes[*start..*end]),
                _ => Cell::Null,
            },
        }
    }
}

impl Block {
    /// Decodes one block.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Block, Malformed> {
        let mut cursor = Cursor { bytes, at: 0 };
        let count = cursor.count()?;
        let kinds = cursor.take(count)?.to_vec();
        let rows = cursor.count()?;
        let encodings = cursor.take(count.saturating_add(1))?.to_vec();
        let times = column(&mut cursor, DataType::Timestamp, encodings[0], rows)?;
        let mut columns = Vec::with_capacity(count);
        for (code, encoding) in kinds.iter().zip(&encodings[1..]) {
            let kind = DataType::of_code(*code).ok_or(cursor.error("a column of an unknown type"))?;
            columns.push(column(&mut cursor, kind, *encoding, rows)?);
        }
        if cursor.remaining() > 0 {
            return Err(cursor.error("bytes after the last column"));
        }
        Ok(Block { rows, times, columns })
    }
}

fn column(cursor: &mut Cursor<'_>, kind: DataType, encoding: u8, rows: usize) -> Result<Column, Malformed> {
    if encoding != 4 {
        return plain(cursor, kind, encoding, rows);
    }
    let inner = cursor.byte()?;
    Ok(Column { repeated: true, ..plain(cursor, kind, inner, 1)? })
}

fn plain(cursor: &mut Cursor<'_>, kind: DataType, encoding: u8, rows: usize) -> Result<Column, Malformed> {
    if encoding != expected_encoding(kind) {
        return Err(cursor.error("an encoding that does not match the type of its column"));
    }
    let nulls = if cursor.byte()? == 0 { None } else { Some(bits(cursor, rows)?) };
    let values = match encoding {
        0 => Values::Bool(bits(cursor, rows)?),
        1 => Values::Four(numbers(cursor, nulls.as_deref(), rows, u32::from_be_bytes)?),
        2 => Values::Eight(numbers(cursor, nulls.as_deref(), rows, u64::from_be_bytes)?),
        _ => byte_strings(cursor, nulls.as_deref(), rows)?,
    };
    Ok(Column { kind, values, nulls, repeated: false })
}

fn expected_encoding(kind: DataType) -> u8 {
    match kind {
        DataType::Boolean => 0,
        DataType::Int32 | DataType::Float | DataType::Date => 1,
        DataType::Int64 | DataType::Double | DataType::Timestamp => 2,
        DataType::Text | DataType::String | DataType::Blob => 3,
    }
}

fn bits(cursor: &mut Cursor<'_>, rows: usize) -> Result<Vec<bool>, Malformed> {
    let packed = cursor.take(rows.div_ceil(8))?;
    Ok((0..rows).map(|row| packed[row / 8] & (0x80 >> (row % 8)) != 0).collect())
}

fn numbers<const N: usize, T: Default + Copy>(
    cursor: &mut Cursor<'_>,
    nulls: Option<&[bool]>,
    rows: usize,
    read: impl Fn([u8; N]) -> T,
) -> Result<Vec<T>, Malformed> {
    let present = rows - nulls.map_or(0, |nulls| nulls.iter().filter(|null| **null).count());
    let length = present.checked_mul(N).ok_or(cursor.error("more rows than bytes"))?;
    let mut values = cursor.take(length)?.chunks_exact(N).map(|chunk| {
        let mut array = [0; N];
        array.copy_from_slice(chunk);
        read(array)
    });
    Ok(match nulls {
        None => values.collect(),
        Some(nulls) => nulls.iter().map(|null| if *null { None } else { values.next() }.unwrap_or_default()).collect(),
    })
}

fn byte_strings(cursor: &mut Cursor<'_>, nulls: Option<&[bool]>, rows: usize) -> Result<Values, Malformed> {
    // Each value has a length of four bytes: an excessive row count stops at the first missing one.
    let mut starts = Vec::with_capacity(rows.min(cursor.remaining()) + 1);
    let mut bytes = Vec::new();
    starts.push(0);
    for row in 0..rows {
        if !nulls.is_some_and(|nulls| nulls[row]) {
            let length = cursor.count()?;
            bytes.extend(cursor.take(length)?);
        }
        starts.push(bytes.len());
    }
    Ok(Values::Bytes { starts, bytes })
}
