//! The first chunk of a block: series, times and operations of its rows. They share a chunk because
//! a merge needs all three, and a column-only read needs none.
//!
//! Series numbers and times are integer streams. Operations take one byte, `OPS_REPLACE`, if all
//! rows replace.

use model::{ColumnId, Result};

use crate::encoding::byte_io::{Reader, corrupt, push_varint};
use crate::encoding::{Features, Form, ints};
use crate::rows::{Op, Ops};

/// All rows have [`Op::Replace`].
const OPS_REPLACE: u8 = 0;
/// All rows have the operation that follows.
const OPS_ALL: u8 = 1;
/// A list of operations and an integer stream of indexes follow.
const OPS_EACH: u8 = 2;

const REPLACE: u8 = 0;
const MERGE: u8 = 1;
const KEEP: u8 = 2;
/// The number of columns and their ids follow.
const UPDATE: u8 = 3;

/// The decoded chunk.
pub(super) struct RowHeads {
    pub(super) series: Vec<u32>,
    pub(super) times: Vec<i64>,
    pub(super) ops: Ops,
}

/// Appends the chunk; returns the features that a reader needs.
pub(super) fn write(series: &[u32], times: &[i64], ops: &Ops, form: Form, out: &mut Vec<u8>) -> Features {
    let ints = |values: &[i64], bits: u32, out: &mut Vec<u8>| match form {
        Form::Compressed => ints::encode(values, out),
        Form::Plain => ints::encode_plain(values, 0, bits, out),
    };
    let (rows, of_times) = (series.len(), times.len());
    assert!(rows == of_times, "BUG: a block of {rows} series numbers and {of_times} times");
    let start = out.len();
    let wide: Vec<i64> = series.iter().map(|series| i64::from(*series)).collect();
    let mut features = ints(&wide, 32, out) | ints(times, 64, out);
    match ops {
        Ops::All(Op::Replace) => out.push(OPS_REPLACE),
        Ops::All(op) => {
            out.push(OPS_ALL);
            write_op(op, out);
        }
        Ops::Each { list, of } => {
            out.push(OPS_EACH);
            push_varint(out, list.len() as u64);
            list.iter().for_each(|op| write_op(op, out));
            assert!(of.len() == rows, "BUG: {} operations of {rows} rows", of.len());
            let wide: Vec<i64> = of.iter().map(|index| i64::from(*index)).collect();
            features |= ints(&wide, 8, out);
        }
    }
    debug_assert!(
        read(rows, &mut Reader::new(&out[start..]))
            .is_ok_and(|heads| heads.series == series && heads.times == times && heads.ops == *ops),
        "BUG: a rows chunk of {rows} rows that differs"
    );
    features
}

fn write_op(op: &Op, out: &mut Vec<u8>) {
    match op {
        Op::Replace => out.push(REPLACE),
        Op::Merge => out.push(MERGE),
        Op::Keep => out.push(KEEP),
        Op::Update(columns) => {
            out.push(UPDATE);
            push_varint(out, columns.len() as u64);
            columns.iter().for_each(|column| push_varint(out, column.0.into()));
        }
    }
}

/// Decodes the chunk of a block of `rows` rows.
pub(super) fn read(rows: usize, reader: &mut Reader<'_>) -> Result<RowHeads> {
    reader.note(|| "series ".into());
    let series = read_series(rows, reader).map_err(|error| error.context("series"))?;
    reader.note(|| "; times ".into());
    let times = ints::decode_vec(reader, rows).map_err(|error| error.context("times"))?;
    let ops = read_ops(rows, reader).map_err(|error| error.context("operations"))?;
    reader.finish("rows chunk")?;
    Ok(RowHeads { series, times, ops })
}

/// Fast path for one series: usual where series have many rows.
fn read_series(rows: usize, reader: &mut Reader<'_>) -> Result<Vec<u32>> {
    let wrong = || corrupt("a series number is out of range");
    if let Some(series) = ints::decode_constant(reader)? {
        return Ok(vec![u32::try_from(series).map_err(|_| wrong())?; rows]);
    }
    let series = ints::decode_vec(reader, rows)?;
    // One range check for all values is faster than one for each.
    let bits = series.iter().fold(0, |all, series| all | series);
    u32::try_from(bits).map_err(|_| wrong())?;
    Ok(series.iter().map(|series| *series as u32).collect())
}

fn read_ops(rows: usize, reader: &mut Reader<'_>) -> Result<Ops> {
    match reader.u8("form of the operations")? {
        OPS_REPLACE => Ok(Ops::All(Op::Replace)),
        OPS_ALL => {
            let op = read_op(reader)?;
            reader.note(|| format!("; every row {op:?}"));
            Ok(Ops::All(op))
        }
        OPS_EACH => {
            let count = reader.count(256, "number of operations")?;
            let list: Vec<Op> = (0..count).map(|_| read_op(reader)).collect::<Result<_>>()?;
            reader.note(|| format!("; one of {count} operations each: "));
            let of = ints::decode_vec(reader, rows)?;
            let index =
                |index: i64| usize::try_from(index).ok().filter(|index| *index < count).map(|index| index as u8);
            let of: Option<Vec<u8>> = of.into_iter().map(index).collect();
            Ok(Ops::Each { list, of: of.ok_or_else(|| corrupt(format!("an index is not below {count}")))? })
        }
        other => Err(corrupt(format!("form is {other}, at most {OPS_EACH} is known"))),
    }
}

fn read_op(reader: &mut Reader<'_>) -> Result<Op> {
    Ok(match reader.u8("operation")? {
        REPLACE => Op::Replace,
        MERGE => Op::Merge,
        KEEP => Op::Keep,
        UPDATE => {
            let count = reader.count(reader.remaining(), "number of updated columns")?;
            let column = |_| Ok(ColumnId(reader.count(u32::MAX as usize, "column number")? as u32));
            Op::Update((0..count).map(column).collect::<Result<_>>()?)
        }
        other => return Err(corrupt(format!("operation is {other}, at most {UPDATE} is known"))),
    })
}
