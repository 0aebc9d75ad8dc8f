//! Rows by partition, and the parts of rows that are far apart in time.
//!
//! A device with a wrong clock stamps a few rows with a time that is years from all others. A segment of all rows would
//! have a time range of years, and so would many of its blocks: no scan of a time range could skip them, and compaction
//! would take the segment for one of all partitions. The rows far from the others get a segment of their own.

use std::ops::Range;

use model::TimeRange;

/// Partitions of a time range are joined until about this many are left.
const PARTITIONS_MAX: i128 = 4_096;
/// Fewer empty partitions are no gap: data may be late, or written once a week.
pub(crate) const FAR_PARTITIONS: usize = if cfg!(test) { 3 } else { 32 };
/// Most parts.
const PARTS_MAX: usize = 4;

/// The partitions of a time range.
pub(crate) struct Partitions {
    times: TimeRange,
    length: i128,
    /// Number of the first partition.
    first: i128,
}

impl Partitions {
    /// The partitions of `times`, which is not empty. If partitions of `length` are too many, they are joined in pairs until they are few.
    pub(crate) fn new(length: i64, times: TimeRange) -> Partitions {
        assert!(!times.is_empty(), "BUG: partitions of no time");
        let mut length = i128::from(length.max(1));
        let span = i128::from(times.last) - i128::from(times.start);
        while span / length >= PARTITIONS_MAX {
            length *= 2;
        }
        Partitions { times, length, first: i128::from(times.start).div_euclid(length) }
    }

    /// Number of partitions.
    pub(crate) fn count(&self) -> usize {
        (i128::from(self.times.last).div_euclid(self.length) - self.first + 1) as usize
    }

    /// Position of the partition that contains `time`, which is within the time range.
    pub(crate) fn at(&self, time: i64) -> usize {
        (i128::from(time).div_euclid(self.length) - self.first) as usize
    }

    /// The part of the time range that is within these partitions.
    pub(crate) fn times(&self, partitions: Range<usize>) -> TimeRange {
        let start = (self.first + partitions.start as i128) * self.length;
        let last = (self.first + partitions.end as i128) * self.length - 1;
        TimeRange { start: clamp(start), last: clamp(last) }.intersect(&self.times)
    }

    /// Adds to `rows` the number of `times` in each partition; times outside the range are left out.
    pub(crate) fn count_rows(&self, times: &[i64], rows: &mut [usize]) {
        let (mut at, mut own) = (0, TimeRange::EMPTY);
        for time in times {
            // Neighbours nearly always share their partition.
            if !own.contains(*time) {
                if !self.times.contains(*time) {
                    continue;
                }
                at = self.at(*time);
                own = self.times(at..at + 1);
            }
            rows[at] += 1;
        }
    }
}

/// The nearest 64-bit time.
pub(crate) fn clamp(time: i128) -> i64 {
    time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Cuts the partitions from the first to the last occupied one at gaps of many empty ones, which are more than a third of them; again within each
/// part. Every occupied partition is in one of the parts, which begin and end with an occupied one, ascending.
///
/// The limit is a third, because in the middle between wrong times of the past and of the future, two gaps have nearly half each. (If partitions were joined
/// because of one row, others must be farther apart to be cut. They are near, compared with that row.)
pub(crate) fn parts(count: usize, is_occupied: impl Fn(usize) -> bool) -> Vec<Range<usize>> {
    let occupied: Vec<usize> = (0..count).filter(|at| is_occupied(*at)).collect();
    let (Some(first), Some(last)) = (occupied.first(), occupied.last()) else { return Vec::new() };
    let mut parts: Vec<Range<usize>> = std::iter::once(*first..last + 1).collect();
    while parts.len() < PARTS_MAX {
        let gaps = occupied.windows(2).map(|pair| pair[0] + 1..pair[1]).filter(|gap| gap.len() >= FAR_PARTITIONS);
        let cuts = |gap: &Range<usize>| {
            parts.iter().any(|part| part.contains(&gap.start) && part.contains(&gap.end) && 3 * gap.len() > part.len())
        };
        let Some(gap) = gaps.filter(cuts).max_by_key(Range::len) else { break };
        let Some(at) = parts.iter().position(|part| part.contains(&gap.start)) else { break };
        let end = std::mem::replace(&mut parts[at].end, gap.start);
        parts.insert(at + 1, gap.end..end);
    }
    parts
}

/// The time range within which others are near `times`.
pub(crate) fn surroundings(length: i64, times: &TimeRange) -> TimeRange {
    let far = i128::from(length.max(1)) * FAR_PARTITIONS as i128;
    TimeRange { start: clamp(i128::from(times.start) - far), last: clamp(i128::from(times.last) + far) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_widened_until_they_are_few() {
        let partitions = |length, times| Partitions::new(length, times);
        assert_eq!(partitions(100, TimeRange { start: 0, last: 4_096 * 100 - 1 }).length, 100);
        assert_eq!(partitions(100, TimeRange { start: 0, last: 4_096 * 100 }).length, 200);
        let all = partitions(1, TimeRange::ALL);
        assert!(all.length >= 1 << 52 && all.times(0..all.count()) == TimeRange::ALL, "{}", all.length);
    }

    #[test]
    fn times_are_counted_in_their_partitions() {
        let partitions = Partitions::new(100, TimeRange { start: -150, last: 249 });
        assert_eq!((partitions.count(), partitions.times(0..1)), (5, TimeRange { start: -150, last: -101 }));
        assert_eq!(partitions.times(1..5), TimeRange { start: -100, last: 249 });
        let mut rows = [0; 5];
        partitions.count_rows(&[-150, 0, 99, 100, -1, 249, 250, -151, i64::MIN, -101], &mut rows);
        assert_eq!(rows, [2, 1, 2, 1, 1]);
    }

    #[test]
    fn surroundings_are_as_long_as_a_gap() {
        let range = |start, last| TimeRange { start, last };
        for (times, expected) in [
            (range(0, 99), range(-300, 399)),
            (range(i64::MIN, 5), range(i64::MIN, 305)),
            (range(i64::MAX - 1, i64::MAX), range(i64::MAX - 301, i64::MAX)),
        ] {
            assert_eq!(surroundings(100, &times), expected, "{times:?}");
        }
    }

    #[test]
    fn rows_are_cut_where_a_third_of_their_time_is_empty() {
        let cases: [(&str, &[(usize, usize)]); 13] = [
            ("", &[]),
            ("...", &[]),
            ("..#..", &[(2, 3)]),
            ("####", &[(0, 4)]),
            ("#.#", &[(0, 3)]),
            // The gap is more than a third, and too short.
            ("#..#", &[(0, 4)]),
            ("#...#", &[(0, 1), (4, 5)]),
            ("##..##", &[(0, 6)]),
            ("#........##.#", &[(0, 1), (9, 13)]),
            // A clock that was never set, and one of the far future.
            ("#..............###.##.......#", &[(0, 1), (15, 21), (28, 29)]),
            // At most four, cut at the longest first.
            ("#................#........#.....#..#", &[(0, 1), (17, 18), (26, 27), (32, 36)]),
            ("#.#.#.#.#.#", &[(0, 11)]),
            ("#...#...#", &[(0, 9)]),
        ];
        for (pattern, expected) in cases {
            let occupied: Vec<bool> = pattern.chars().map(|partition| partition == '#').collect();
            let parts = parts(occupied.len(), |at| occupied[at]).into_iter().map(|part| (part.start, part.end));
            assert_eq!(parts.collect::<Vec<_>>(), expected, "{pattern}");
        }
    }
}
