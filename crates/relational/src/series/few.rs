//! Dense grouping: rows of few groups, in any order, aggregated in arrays indexed by group number.

use std::borrow::Cow;

use super::partial::Grouped;

/// Maximum number of group numbers, so that their state fits in the CPU cache.
const NUMBERS_MAX: usize = 1_024;
/// Minimum average number of rows per group number for dense grouping to pay off.
const ROWS_MIN: usize = 8;
/// Partial aggregates per group, so that neighbouring rows of one group do not depend on each other.
const LANES: usize = 4;

/// Rows with numbers, each of which stands for a group.
pub(super) struct Few<'a> {
    /// Number of each row.
    numbers: Cow<'a, [u32]>,
    /// Rows of each number.
    counts: Vec<usize>,
    /// Group of each number that occurs.
    pub(super) groups: Vec<usize>,
}

impl<'a> Few<'a> {
    /// Whether dense grouping pays off for this many rows and group numbers.
    pub(super) fn fits(rows: usize, numbers: usize) -> bool {
        numbers <= NUMBERS_MAX && numbers * ROWS_MIN <= rows
    }

    /// - `numbers`: number of each row, below `count`.
    /// - `group`: returns the group of a number; called once for each number that occurs, in ascending order.
    pub(super) fn of(numbers: Cow<'a, [u32]>, count: usize, group: impl FnMut(u32) -> usize) -> Few<'a> {
        let counts = by_number(&numbers, &numbers, count, 0, |rows, _| rows + 1, |a, b| a + b);
        let groups = (0..count as u32).filter(|number| counts[*number as usize] > 0).map(group).collect();
        Few { numbers, counts, groups }
    }

    /// Group of each row.
    pub(super) fn each(&self) -> Vec<usize> {
        let mut groups = self.groups.iter();
        let of_number = |rows: &usize| if *rows > 0 { groups.next().copied() } else { None };
        let of_number: Vec<usize> = self.counts.iter().map(of_number).map(Option::unwrap_or_default).collect();
        self.numbers.iter().map(|number| of_number[*number as usize]).collect()
    }
}

impl Grouped for Few<'_> {
    fn counts(&self) -> Vec<usize> {
        self.counts.iter().copied().filter(|rows| *rows > 0).collect()
    }

    fn folded<T: Copy, A: Copy>(
        &self,
        values: &[T],
        none: A,
        fold: impl Fn(A, T) -> A,
        join: impl Fn(A, A) -> A,
    ) -> Vec<A> {
        let folded = by_number(values, &self.numbers, self.counts.len(), none, fold, join);
        folded.into_iter().zip(&self.counts).filter(|(_, rows)| **rows > 0).map(|(all, _)| all).collect()
    }
}

/// Folds the values of each of `count` numbers.
fn by_number<T: Copy, A: Copy>(
    values: &[T],
    numbers: &[u32],
    count: usize,
    none: A,
    fold: impl Fn(A, T) -> A,
    join: impl Fn(A, A) -> A,
) -> Vec<A> {
    let mut lanes = vec![[none; LANES]; count];
    let ((values, last_values), (numbers, last_numbers)) = (values.as_chunks::<LANES>(), numbers.as_chunks::<LANES>());
    for (values, numbers) in values.iter().zip(numbers) {
        for (lane, (value, number)) in values.iter().zip(numbers).enumerate() {
            let all = &mut lanes[*number as usize][lane];
            *all = fold(*all, *value);
        }
    }
    for (value, number) in last_values.iter().zip(last_numbers) {
        let all = &mut lanes[*number as usize][0];
        *all = fold(*all, *value);
    }
    lanes.into_iter().map(|lanes| lanes.into_iter().fold(none, &join)).collect()
}
