//! Runs of consecutive rows of one group.

use std::ops::Range;

use super::partial::Grouped;

/// Minimum average number of rows per run for runs to pay off.
const ROWS_MIN: usize = 16;
/// Partial aggregates of a run, so that additions do not depend on each other.
const LANES: usize = 8;

/// Runs of consecutive rows of one group.
pub(super) struct Runs {
    ranges: Vec<Range<usize>>,
    /// Group of each run.
    pub(super) groups: Vec<usize>,
}

impl Runs {
    /// One run of all rows, at least one, in group 0.
    pub(super) fn one(rows: usize) -> Runs {
        Runs { ranges: std::iter::once(0..rows).collect(), groups: vec![0] }
    }

    /// Returns `None` if runs are too short.
    pub(super) fn of(groups: &[usize]) -> Option<Runs> {
        let mut runs = Runs { ranges: Vec::new(), groups: Vec::new() };
        let mut start = 0;
        for run in groups.chunk_by(|a, b| a == b) {
            runs.ranges.push(start..start + run.len());
            runs.groups.push(run[0]);
            start += run.len();
            if runs.groups.len() * ROWS_MIN > groups.len() {
                return None;
            }
        }
        Some(runs)
    }

    /// Group of each row.
    pub(super) fn each(&self) -> Vec<usize> {
        self.ranges.iter().zip(&self.groups).flat_map(|(range, group)| range.clone().map(|_| *group)).collect()
    }
}

impl Grouped for Runs {
    fn counts(&self) -> Vec<usize> {
        self.ranges.iter().map(Range::len).collect()
    }

    fn folded<T: Copy, A: Copy>(
        &self,
        values: &[T],
        none: A,
        fold: impl Fn(A, T) -> A,
        join: impl Fn(A, A) -> A,
    ) -> Vec<A> {
        let of_run = |range: &Range<usize>| {
            let mut lanes = [none; LANES];
            let (parts, rest) = values[range.clone()].as_chunks::<LANES>();
            for part in parts {
                lanes.iter_mut().zip(part).for_each(|(lane, value)| *lane = fold(*lane, *value));
            }
            let rest = rest.iter().fold(none, |all, value| fold(all, *value));
            lanes.into_iter().fold(rest, &join)
        };
        self.ranges.iter().map(of_run).collect()
    }
}
