//! Values for buckets without rows: last observation carried forward (`locf`) or linear interpolation between the two
//! nearest values (`interpolate`).
//!
//! Always true: positions on the line are the start times of buckets, so a day of 23 hours is shorter; a value is
//! never taken from another group.

use std::sync::Arc;

use arrow_array::builder::PrimitiveBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch, StructArray, new_null_array};
use arrow_schema::DataType;
use datafusion::arrow::compute::interleave;
use datafusion::common::Result;

use super::gap_fill_exec::Source;
use crate::errors::external;

/// Method that fills a column in buckets without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Method {
    /// Last observation carried forward; before the first one, the value of column `before`.
    Carry {
        /// Replace NULLs of rows too, rather than carry them.
        nulls_are_gaps: bool,
        before: Option<usize>,
    },
    /// Linear interpolation between the nearest values; NULLs of rows are replaced too. Columns `before` and `after`
    /// hold records (time, value) for use where no such value exists on that side.
    Line { before: Option<usize>, after: Option<usize> },
}

/// A column and its fill method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Filled {
    pub(super) column: usize,
    pub(super) method: Method,
}

/// Rows being filled: sorted by group and bucket, with the bucket column and the group number of each row.
pub(super) struct Work<'a> {
    pub(super) batch: &'a RecordBatch,
    pub(super) time: usize,
    pub(super) groups: &'a [u32],
}

impl Work<'_> {
    pub(super) fn time(&self, row: usize) -> Option<i64> {
        let times = self.batch.column(self.time).as_primitive_opt::<TimestampNanosecondType>()?;
        times.is_valid(row).then(|| times.value(row))
    }
}

/// Newest row with a value.
#[derive(Clone, Copy, Debug)]
struct Known {
    row: usize,
    time: i64,
}

/// State of one filled column across batches.
#[derive(Debug)]
pub(super) struct Filling {
    filled: Filled,
    group: u32,
    last: Option<Known>,
    /// By row: the first row at or after it in its group that has a value. Used for interpolation only.
    next: Vec<Option<u32>>,
    /// Whether no value has arrived since `begin`.
    awaits: bool,
}

impl Filling {
    pub(super) fn new(filled: Filled) -> Filling {
        Filling { filled, group: 0, last: None, next: Vec::new(), awaits: true }
    }

    pub(super) fn column(&self) -> usize {
        self.filled.column
    }

    /// Notes whether a batch has values; returns false while interpolation needs more rows.
    pub(super) fn sees(&mut self, batch: &RecordBatch) -> bool {
        let column = batch.column(self.filled.column);
        self.awaits &= column.null_count() == column.len();
        !self.awaits || !self.is_line()
    }

    fn is_line(&self) -> bool {
        matches!(self.filled.method, Method::Line { .. })
    }

    /// Value for row 0 of the next work, so that the newest value survives its row.
    pub(super) fn keep(&mut self, work: &RecordBatch) -> ArrayRef {
        let column = work.column(self.filled.column);
        match &mut self.last {
            Some(known) => {
                let value = column.slice(known.row, 1);
                known.row = 0;
                value
            }
            None => new_null_array(column.data_type(), 1),
        }
    }

    /// Starts on new work, whose row 0 belongs to the previous last group if `goes_on`. Returns the number of rows
    /// that can be output: those whose next value is known. `group_start` is the first row of the last group; `ended`
    /// says that it is complete.
    pub(super) fn begin(&mut self, work: &Work<'_>, goes_on: bool, group_start: usize, ended: bool) -> Result<usize> {
        self.group = 0;
        self.awaits = true;
        if !goes_on {
            self.last = None;
        }
        let rows = work.batch.num_rows();
        if !self.is_line() {
            return Ok(rows);
        }
        let column = work.batch.column(self.filled.column);
        let mut next: Option<u32> = None;
        self.next.clear();
        self.next.resize(rows, None);
        let mut ready = if ended { rows } else { group_start };
        for row in (0..rows).rev() {
            if work.groups.get(row + 1).is_some_and(|group| *group != work.groups[row]) {
                next = None;
            }
            if column.is_valid(row) && work.time(row).is_some() {
                next = Some(super::gap_fill_exec::index(row)?);
                ready = ready.max(row + 1);
            }
            self.next[row] = next;
        }
        Ok(ready)
    }

    /// Fills the column for `sources`, which follow those of the previous call.
    pub(super) fn values(&mut self, work: &Work<'_>, sources: &[Source]) -> Result<ArrayRef> {
        match self.filled.method {
            Method::Carry { nulls_are_gaps, before } => self.carried(work, sources, nulls_are_gaps, before),
            Method::Line { before, after } => match work.batch.column(self.filled.column).data_type() {
                DataType::Int16 => self.on_line::<Int16Type>(work, sources, before, after),
                DataType::Int32 => self.on_line::<Int32Type>(work, sources, before, after),
                DataType::Int64 => self.on_line::<Int64Type>(work, sources, before, after),
                DataType::Float32 => self.on_line::<Float32Type>(work, sources, before, after),
                DataType::Float64 => self.on_line::<Float64Type>(work, sources, before, after),
                other => Err(external(model::Error::bug(format!("a line through values of type {other}")))),
            },
        }
    }

    fn enter(&mut self, group: u32) {
        if self.group != group {
            self.group = group;
            self.last = None;
        }
    }

    fn carried(
        &mut self,
        work: &Work<'_>,
        sources: &[Source],
        nulls_are_gaps: bool,
        before: Option<usize>,
    ) -> Result<ArrayRef> {
        const OWN: usize = 0;
        const BEFORE: usize = 1;
        const NONE: usize = 2;
        let column = work.batch.column(self.filled.column);
        let null = new_null_array(column.data_type(), 1);
        let mut picks = Vec::with_capacity(sources.len());
        for source in sources {
            let row = source.row();
            self.enter(work.groups[row]);
            if let Source::Row(_) = source {
                let counts = column.is_valid(row) || !nulls_are_gaps;
                let time = work.time(row);
                if let (true, Some(time)) = (counts, time) {
                    self.last = Some(Known { row, time });
                }
                if counts || time.is_none() {
                    picks.push((OWN, row));
                    continue;
                }
            }
            picks.push(match self.last {
                Some(known) => (OWN, known.row),
                None if before.is_some() => (BEFORE, row),
                None => (NONE, 0),
            });
        }
        let before = before.map_or(&null, |at| work.batch.column(at));
        Ok(interleave(&[column.as_ref(), before.as_ref(), null.as_ref()], &picks)?)
    }

    fn on_line<T: ArrowPrimitiveType<Native: Linear>>(
        &mut self,
        work: &Work<'_>,
        sources: &[Source],
        before: Option<usize>,
        after: Option<usize>,
    ) -> Result<ArrayRef> {
        let values = work.batch.column(self.filled.column).as_primitive::<T>();
        let before = before.map(|at| Records::<T>::of(work.batch.column(at))).transpose()?;
        let after = after.map(|at| Records::<T>::of(work.batch.column(at))).transpose()?;
        let mut line = PrimitiveBuilder::<T>::with_capacity(sources.len());
        for source in sources {
            let row = source.row();
            self.enter(work.groups[row]);
            let time = match source {
                Source::Row(_) => work.time(row),
                Source::Gap(_, bucket) => Some(*bucket),
            };
            if let Source::Row(_) = source
                && values.is_valid(row)
            {
                self.last = time.map(|time| Known { row, time }).or(self.last);
                line.append_value(values.value(row));
                continue;
            }
            let Some(time) = time else {
                line.append_null();
                continue;
            };
            let left = self.last.map(|known| (known.time, values.value(known.row)));
            let left = left.or_else(|| before.as_ref()?.get(row)).filter(|(at, _)| *at < time);
            let next = self.next[row].map(|row| row as usize);
            let right = next.and_then(|row| Some((work.time(row)?, values.value(row)))).filter(|(at, _)| *at > time);
            let right = right.or_else(|| after.as_ref()?.get(row)).filter(|(at, _)| *at > time);
            line.append_option(
                left.zip(right).map(|((x0, y0), (x1, y1))| y0.toward(y1, x0.abs_diff(time), x0.abs_diff(x1))),
            );
        }
        Ok(Arc::new(line.finish()))
    }
}

/// A column of records (time, value).
struct Records<'a, T: ArrowPrimitiveType> {
    records: &'a StructArray,
    times: &'a arrow_array::PrimitiveArray<TimestampNanosecondType>,
    values: &'a arrow_array::PrimitiveArray<T>,
}

impl<'a, T: ArrowPrimitiveType> Records<'a, T> {
    fn of(column: &'a ArrayRef) -> Result<Records<'a, T>> {
        let records = column.as_struct_opt().filter(|records| records.num_columns() == 2);
        let parts = records.and_then(|records| {
            Some((records, records.column(0).as_primitive_opt()?, records.column(1).as_primitive_opt()?))
        });
        let (records, times, values) =
            parts.ok_or_else(|| external(model::Error::bug("a record that is no (time, value)")))?;
        Ok(Records { records, times, values })
    }

    fn get(&self, row: usize) -> Option<(i64, T::Native)> {
        let there = self.records.is_valid(row) && self.times.is_valid(row) && self.values.is_valid(row);
        there.then(|| (self.times.value(row), self.values.value(row)))
    }
}

/// Numbers that can be interpolated linearly.
trait Linear: Copy {
    /// Point at `part` of `whole` on the way to `to`; 0 < `part` < `whole`.
    fn toward(self, to: Self, part: u64, whole: u64) -> Self;
}

impl Linear for f64 {
    fn toward(self, to: f64, part: u64, whole: u64) -> f64 {
        // A constant line is exact.
        if self == to {
            return self;
        }
        let point = (self * (whole - part) as f64 + to * part as f64) / whole as f64;
        if point.is_finite() {
            return point;
        }
        // Overflowing products or infinite ends.
        let share = part as f64 / whole as f64;
        self * (1.0 - share) + to * share
    }
}

impl Linear for f32 {
    fn toward(self, to: f32, part: u64, whole: u64) -> f32 {
        f64::from(self).toward(f64::from(to), part, whole) as f32
    }
}

impl Linear for i64 {
    fn toward(self, to: i64, part: u64, whole: u64) -> i64 {
        // Exact: both factors are below 2^64.
        let way = u128::from(self.abs_diff(to)) * u128::from(part);
        let (steps, rest) = (way / u128::from(whole), way % u128::from(whole));
        let steps = i128::try_from(steps).unwrap_or(i128::MAX);
        // Largest integer at or below the point, and the point's distance above it in units of `1 / whole`.
        let (below, above) = if self <= to {
            (i128::from(self) + steps, rest)
        } else if rest == 0 {
            (i128::from(self) - steps, 0)
        } else {
            (i128::from(self) - steps - 1, u128::from(whole) - rest)
        };
        // Rounds halves away from zero, as PostgreSQL does for numeric.
        let up = match (above * 2).cmp(&u128::from(whole)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => below >= 0,
            std::cmp::Ordering::Greater => true,
        };
        // The result lies between the two values, so it fits.
        i64::try_from(below + i128::from(up)).unwrap_or(to)
    }
}

impl Linear for i32 {
    fn toward(self, to: i32, part: u64, whole: u64) -> i32 {
        i32::try_from(i64::from(self).toward(i64::from(to), part, whole)).unwrap_or(to)
    }
}

impl Linear for i16 {
    fn toward(self, to: i16, part: u64, whole: u64) -> i16 {
        i16::try_from(i64::from(self).toward(i64::from(to), part, whole)).unwrap_or(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_on_a_line_are_exact_and_round_halves_away_from_zero() {
        let cases: [(i64, i64, u64, u64, i64); 12] = [
            (0, 10, 1, 2, 5),
            (0, 5, 1, 2, 3),
            (0, -5, 1, 2, -3),
            (-5, 0, 1, 2, -3),
            (-1, 0, 1, 2, -1),
            (1, 0, 1, 2, 1),
            (-3, 3, 10, 50, -2),
            (-3, 3, 20, 50, -1),
            (-3, 3, 30, 50, 1),
            (i64::MIN, i64::MAX, 1, 2, -1),
            (i64::MAX, i64::MIN, u64::MAX - 1, u64::MAX, i64::MIN + 1),
            (i64::MAX, i64::MAX, 1, u64::MAX, i64::MAX),
        ];
        for (from, to, part, whole, expected) in cases {
            assert_eq!(from.toward(to, part, whole), expected, "{from} to {to}, {part} of {whole}");
        }
        assert_eq!((-3_i16).toward(3, 20, 50), -1);
        assert_eq!(i32::MAX.toward(i32::MIN, 1, 3), 715_827_882);
    }

    #[test]
    fn floats_on_a_line_keep_level_lines_and_infinities() {
        assert_eq!(0.1_f64.toward(0.1, 1, 3), 0.1);
        assert_eq!((-3.0_f64).toward(3.0, 10, 50), -1.8);
        assert_eq!(f64::INFINITY.toward(1.0, 1, 2), f64::INFINITY);
        assert_eq!(1.0_f64.toward(f64::NEG_INFINITY, 1, 2), f64::NEG_INFINITY);
        assert_eq!(f64::MAX.toward(f64::MIN, 1, 2), 0.0);
        assert!(f64::NAN.toward(1.0, 1, 2).is_nan());
        assert_eq!(1.0_f32.toward(2.0, 1, 4), 1.25);
    }
}
