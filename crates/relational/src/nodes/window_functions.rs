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
        // These are computed for all rows of a partition at once.
        Function::Aggregate(_) | Function::Locf | Function::Interpolate => {
            return Err(Error::bug("a function without a value of a row"));
        }
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

/// A value at a time.
#[derive(Clone, Copy)]
struct Point {
    time: i64,
    value: f64,
}

/// The values of `interpolate(value, time)`: a NULL between two values is on the line between them. Rows before the first and after
/// the last value stay NULL.
pub(super) struct Lines {
    /// Values of the rows of a partition.
    pub(super) values: Vec<Option<f64>>,
    /// The last row with a value and a time.
    before: Option<(usize, Point)>,
}

impl Lines {
    pub(super) fn new(rows: usize) -> Lines {
        Lines { values: vec![None; rows], before: None }
    }

    /// Adds the next row, and fills the rows between it and the value before.
    pub(super) fn add(&mut self, operands: &Operands, row: usize) -> Result<()> {
        let Datum::Float8(value) = operands.value(0, row)? else { return Ok(()) };
        self.values[row] = Some(value);
        let Some(time) = time_of(operands, row)? else { return Ok(()) };
        let point = Point { time, value };
        if let Some((last, from)) = self.before.replace((row, point)) {
            for gap in last + 1..row {
                // A value without a time is no end of a line, and stays as it is.
                if self.values[gap].is_none() {
                    self.values[gap] = time_of(operands, gap)?.map(|time| on_line(time, from, point));
                }
            }
        }
        Ok(())
    }
}

/// The time of a row: a timestamp in microseconds or a whole number. No distance to an infinite one is known.
fn time_of(operands: &Operands, row: usize) -> Result<Option<i64>> {
    Ok(match operands.value(1, row)? {
        Datum::Timestamp(i64::MIN | i64::MAX) | Datum::Timestamptz(i64::MIN | i64::MAX) => None,
        Datum::Int8(time) | Datum::Timestamp(time) | Datum::Timestamptz(time) => Some(time),
        _ => None,
    })
}

/// The value at a time on the line through two points; that of the first one if they have one time.
fn on_line(time: i64, from: Point, to: Point) -> f64 {
    let distance = |time: i64| (i128::from(time) - i128::from(from.time)) as f64;
    let length = distance(to.time);
    if length == 0.0 || from.value == to.value {
        return from.value;
    }
    let share = distance(time) / length;
    // The difference of two values may be too large.
    from.value * (1.0 - share) + to.value * share
}
