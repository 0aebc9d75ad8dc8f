//! The segments of a table, searchable by time.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use model::TimeRange;

use crate::segment::Segment;

/// Up to this many segments, a linear search is used.
const FEW: usize = if cfg!(test) { 3 } else { 32 };

/// The segments of a table, oldest first. Cloning shares them.
#[derive(Clone, Default)]
pub struct Segments(Arc<Inner>);

#[derive(Default)]
struct Inner {
    list: Vec<Arc<Segment>>,
    /// Built at first use: most states share the segments of their predecessor.
    by_time: OnceLock<ByTime>,
}

impl Segments {
    /// Positions of the segments that overlap `times`, ascending.
    ///
    /// # Cost
    /// Proportional to the segments found, plus a binary search. The first call sorts the segments.
    #[must_use]
    pub fn overlapping(&self, times: &TimeRange) -> Vec<usize> {
        let overlaps = |at: &usize| self[*at].meta().times.overlaps(times);
        if self.len() <= FEW {
            return (0..self.len()).filter(overlaps).collect();
        }
        let by_time = self.0.by_time.get_or_init(|| ByTime::of(self.iter().map(|segment| segment.meta().times)));
        let mut found: Vec<usize> = by_time.near(times).filter(overlaps).collect();
        found.sort_unstable();
        debug_assert!(found.iter().copied().eq((0..self.len()).filter(overlaps)), "BUG: segments within {times:?}");
        found
    }
}

impl Deref for Segments {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &[Arc<Segment>] {
        &self.0.list
    }
}

impl FromIterator<Arc<Segment>> for Segments {
    fn from_iter<I: IntoIterator<Item = Arc<Segment>>>(segments: I) -> Segments {
        Segments(Arc::new(Inner { list: segments.into_iter().collect(), by_time: OnceLock::new() }))
    }
}

impl fmt::Debug for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// An index of time ranges for overlap queries.
#[derive(Debug)]
pub(crate) struct ByTime {
    /// Start, the latest end of all items up to here, and item number; sorted.
    order: Vec<(i64, i64, u32)>,
}

impl ByTime {
    /// Indexes items by their time ranges; items are numbered from 0.
    pub(crate) fn of(times: impl Iterator<Item = TimeRange>) -> ByTime {
        let mut order: Vec<(i64, i64, u32)> =
            times.zip(0..).map(|(times, number)| (times.start, times.last, number)).collect();
        order.sort_unstable();
        let mut latest = i64::MIN;
        for (_, last, _) in &mut order {
            latest = latest.max(*last);
            *last = latest;
        }
        ByTime { order }
    }

    /// Superset of the items that overlap `times`, unordered.
    pub(crate) fn near(&self, times: &TimeRange) -> impl Iterator<Item = usize> {
        let from = self.order.partition_point(|(_, latest, _)| *latest < times.start);
        let to = self.order.partition_point(|(start, ..)| *start <= times.last);
        self.order.get(from..to).unwrap_or_default().iter().map(|(.., number)| *number as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use env::Env;
    use env::sim::SimEnv;
    use model::Lsn;

    use super::*;
    use crate::encoding::tests::Random;
    use crate::segment::SegmentMeta;

    #[test]
    fn segments_found_by_time_are_those_that_overlap() {
        let (mut random, env) = (Random(1), SimEnv::new(0));
        for count in 0..40 {
            let mut segment = |file| {
                let start = random.below(300) as i64;
                let length = if random.below(5) == 0 { random.below(300) } else { random.below(10) };
                let times = TimeRange { start, last: start + length as i64 };
                let meta = SegmentMeta { file, lsns: (Lsn(1), Lsn(1)), times, series: (0, 9), rows: 10, bytes: 1 };
                let env: Arc<dyn Env> = Arc::new(env.clone());
                Arc::new(Segment::open(env, Path::new("/"), meta))
            };
            let segments: Segments = (0..count).map(&mut segment).collect();
            for start in (-20..620).step_by(7) {
                for times in [TimeRange { start, last: start + 40 }, TimeRange { start, last: start - 1 }] {
                    let overlaps = |at: &usize| segments[*at].meta().times.overlaps(&times);
                    let expected: Vec<usize> = (0..segments.len()).filter(overlaps).collect();
                    assert_eq!(segments.overlapping(&times), expected, "{times:?} of {segments:?}");
                }
            }
        }
    }
}
