//! Times of recent commits to a table without a key.
//!
//! Rows of such a table have no identity, so a transaction that changes one deletes all rows of its
//! time and writes the others again. Rows that another transaction commits to the same time
//! meanwhile would be lost: the transaction must be refused instead.
//!
//! # Cost
//! A commit adds one range. At most [`GROUPS_MAX`] ranges are kept, by merging those of neighbouring
//! commits: a transaction that read long ago may be refused although nobody wrote to its times.

use model::{Lsn, TimeRange};

/// Most ranges that are kept.
const GROUPS_MAX: usize = if cfg!(test) { 8 } else { 256 };

/// Ranges of times, each of one commit or of several neighbouring ones.
#[derive(Default)]
pub(crate) struct RecentTimes {
    /// The last commit, and the range from the first to the last time; in commit order.
    groups: Vec<(Lsn, TimeRange)>,
}

impl RecentTimes {
    /// Adds a commit, the newest one.
    pub(crate) fn add(&mut self, lsn: Lsn, times: TimeRange) {
        if times.is_empty() {
            return;
        }
        let last = self.groups.last().map_or(Lsn::ZERO, |(last, _)| *last);
        assert!(last < lsn, "BUG: the times of commit {lsn} are added after those of {last}");
        if self.groups.len() == GROUPS_MAX {
            let pairs = self.groups.chunks(2);
            let merged = pairs.map(|pair| match pair {
                [(_, older), (lsn, newer)] => (*lsn, older.union(newer)),
                _ => pair[0],
            });
            self.groups = merged.collect();
        }
        self.groups.push((lsn, times));
    }

    /// Whether a commit after `read` may have changed one of `times`, which are sorted.
    pub(crate) fn may_touch(&self, read: Lsn, times: &[i64]) -> bool {
        let from = self.groups.partition_point(|(lsn, _)| *lsn <= read);
        self.groups[from..].iter().any(|(_, range)| {
            let at = times.partition_point(|time| *time < range.start);
            times.get(at).is_some_and(|time| range.contains(*time))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: i64, last: i64) -> TimeRange {
        TimeRange { start, last }
    }

    #[test]
    fn only_times_of_later_commits_are_found() {
        let mut recent = RecentTimes::default();
        recent.add(Lsn(3), range(10, 20));
        recent.add(Lsn(5), TimeRange::EMPTY);
        recent.add(Lsn(7), range(40, 40));
        for (read, times, expected) in [
            (2, &[9, 21][..], false),
            (2, &[9, 15, 21], true),
            (2, &[20], true),
            (3, &[15], false),
            (6, &[15, 40], true),
            (7, &[15, 40], false),
            (0, &[], false),
        ] {
            assert_eq!(recent.may_touch(Lsn(read), times), expected, "{read} {times:?}");
        }
    }

    #[test]
    fn ranges_of_many_commits_are_merged_and_none_is_forgotten() {
        let mut recent = RecentTimes::default();
        for lsn in 1..1_000 {
            recent.add(Lsn(lsn), range(lsn.cast_signed() * 10, lsn.cast_signed() * 10 + 1));
            assert!(recent.groups.len() <= GROUPS_MAX);
        }
        for lsn in 1..1_000 {
            assert!(recent.may_touch(Lsn(lsn - 1), &[lsn.cast_signed() * 10]), "{lsn}");
        }
        assert!(!recent.may_touch(Lsn(998), &[9_980]));
        assert!(!recent.may_touch(Lsn(0), &[5, 10_000]));
    }
}
