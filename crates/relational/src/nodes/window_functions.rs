//! The window functions that are no aggregates.

use model::{Datum, Error, Result, SqlState};

use super::frames::{Frames, Peers};
use super::window::{Function, Operands};

/// The value of a function for a row of a partition.
pub(super) fn value<'o>(
    function: &Function,
    operands: &'o Operands,
    frames: &Frames<'_>,
    peers: &Peers,
    rows: usize,
    row: usize,
) -> Result<Datum<'o>> {
    let whole = |number: usize| Datum::Int8(number as i64);
    Ok(match function {
        Function::RowNumber => whole(row + 1),
        Function::Rank => whole(peers.of(row).start + 1),
        Function::DenseRank => whole(peers.group[row] + 1),
        Function::PercentRank if rows <= 1 => Datum::Float8(0.0),
        Function::PercentRank => Datum::Float8(peers.of(row).start as f64 / (rows - 1) as f64),
        Function::CumeDist => Datum::Float8(peers.of(row).end as f64 / rows as f64),
        Function::Ntile => ntile(&operands.value(0, 0)?, rows, row)?,
        Function::Lag => neighbour(operands, rows, row, -1)?,
        Function::Lead => neighbour(operands, rows, row, 1)?,
        Function::FirstValue => match frames.of(row)?.first() {
            Some(part) => operands.value(0, part.start)?,
            None => Datum::Null,
        },
        Function::LastValue => match frames.of(row)?.last() {
            Some(part) => operands.value(0, part.end - 1)?,
            None => Datum::Null,
        },
        Function::NthValue => nth_value(operands, frames, row)?,
        Function::Aggregate(_) => return Err(Error::bug("an aggregate among the window functions")),
    })
}

/// The number of the bucket, if the rows are dealt out to some buckets whose sizes differ by one at most.
fn ntile(buckets: &Datum<'_>, rows: usize, row: usize) -> Result<Datum<'static>> {
    let Datum::Int4(buckets) = buckets else { return Ok(Datum::Null) };
    let Some(buckets) = usize::try_from(*buckets).ok().filter(|buckets| *buckets > 0) else {
        return Err(Error::new(SqlState("22014"), "argument of ntile must be greater than zero"));
    };
    let (size, larger) = (rows / buckets, rows % buckets);
    let in_larger = larger * (size + 1);
    let bucket = if row < in_larger { row / (size + 1) } else { larger + (row - in_larger) / size.max(1) };
    Ok(Datum::Int4(bucket as i32 + 1))
}

fn neighbour(operands: &Operands, rows: usize, row: usize, direction: i64) -> Result<Datum<'_>> {
    let distance = match operands.arguments.len() {
        0 | 1 => 1,
        _ => match operands.value(1, row)? {
            Datum::Int4(distance) => i64::from(distance),
            _ => return Ok(Datum::Null),
        },
    };
    let at = usize::try_from(row as i64 + direction * distance).ok().filter(|at| *at < rows);
    match at {
        Some(at) => operands.value(0, at),
        None => operands.value(2, row),
    }
}

fn nth_value<'o>(operands: &'o Operands, frames: &Frames<'_>, row: usize) -> Result<Datum<'o>> {
    let Datum::Int4(number) = operands.value(1, row)? else { return Ok(Datum::Null) };
    if number <= 0 {
        return Err(Error::new(SqlState("22016"), "argument of nth_value must be greater than zero"));
    }
    let mut left = number as usize - 1;
    for part in frames.of(row)? {
        if left < part.len() {
            return operands.value(0, part.start + left);
        }
        left -= part.len();
    }
    Ok(Datum::Null)
}
