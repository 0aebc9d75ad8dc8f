//! Schedule of searches: which names a datagram asks for, and when.
//!
//! A name that was searched for `n` times waits 0.1 s × 2^n, at most the maximal period, before the next time. All names that have
//! waited equally often form a queue, so the schedule costs O(1) a search, however many names there are. Datagrams are
//! limited to a rate; names that are due wait for it, and newer names are searched for first.
//!
//! Always true: a name is in at most one queue with its current stamp; other entries of it are skipped.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::Instant;

/// Largest datagram: fits an Ethernet frame with room for tunnels.
pub(crate) const DATAGRAM_BYTES_MAX: usize = 1_400;
/// Time before the second search.
const FIRST_PERIOD: Duration = Duration::from_millis(100);
/// Level that names return to when a server may have appeared: their next search is at once, the one after it 1.6 s later.
const BOOST_LEVEL: usize = 4;
/// Least time between two boosts, so that a site that restarts does not cause a storm.
const BOOST_PERIOD: Duration = Duration::from_secs(5);
/// Datagrams that may be sent at once after a pause.
const BURST: f64 = 8.0;

/// Level of a name whose channel was lost, or that was found at a server that cannot be reached: the next search is 0.4 s later.
const LOST_LEVEL: usize = 3;

/// A name to search for, with the number of its channel.
pub(crate) type Search = (u32, Arc<str>);

/// Sizes of a protocol's search datagram.
#[derive(Clone, Copy)]
pub(crate) struct DatagramBytes {
    /// Bytes without names.
    pub(crate) fixed: usize,
    /// Bytes of a name of so many bytes.
    pub(crate) name: fn(usize) -> usize,
}

pub(crate) struct Schedule {
    sizes: DatagramBytes,
    waiting: FxHashMap<u32, Waiting>,
    /// By level, the number of searches so far: entries in the order in which they are due.
    levels: Vec<VecDeque<Entry>>,
    max_period: Duration,
    pace: Pace,
    boosted: Option<Instant>,
    /// A boost that waits for the end of [`BOOST_PERIOD`].
    boost_at: Option<Instant>,
    next_stamp: u32,
}

struct Waiting {
    name: Arc<str>,
    stamp: u32,
}

#[derive(Clone, Copy)]
struct Entry {
    due: Instant,
    channel: u32,
    stamp: u32,
}

impl Schedule {
    pub(crate) fn new(sizes: DatagramBytes, max_period: Duration, datagrams_per_second: u32, now: Instant) -> Schedule {
        // All entries of the last level have waited the maximal period, so that their order is that of their times.
        let levels = (0..).take_while(|&level| period(level) < max_period).count() + 2;
        Schedule {
            sizes,
            waiting: FxHashMap::default(),
            levels: vec![VecDeque::new(); levels],
            max_period,
            pace: Pace { per_second: f64::from(datagrams_per_second.max(1)), tokens: BURST, at: now },
            boosted: None,
            boost_at: None,
            next_stamp: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a name that is searched for at once.
    pub(crate) fn add(&mut self, channel: u32, name: Arc<str>, now: Instant) {
        self.enqueue(channel, name, 0, now);
    }

    /// Adds the name of a lost channel.
    ///
    /// - `refusals`: times in a row that a server was found and did not open it; each doubles the wait.
    pub(crate) fn add_lost(&mut self, channel: u32, name: Arc<str>, refusals: u32, now: Instant) {
        let level = (LOST_LEVEL + refusals as usize).min(self.levels.len() - 1);
        self.enqueue(channel, name, level, now + self.wait_before(level));
    }

    pub(crate) fn remove(&mut self, channel: u32) -> bool {
        self.waiting.remove(&channel).is_some()
    }

    /// A server may have appeared: names that wait long are searched for again, at most every five seconds.
    pub(crate) fn boost(&mut self, now: Instant) {
        let at = self.boosted.map_or(now, |boosted| now.max(boosted + BOOST_PERIOD));
        self.boost_at = Some(self.boost_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Time at which [`Schedule::datagram`] has something to do; `None` while no name waits.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let fronts = self.levels.iter().filter_map(|level| level.front()).map(|entry| entry.due);
        let due = fronts.min().map(|due| due.max(self.pace.ready_at(1)));
        [due, self.boost_at].into_iter().flatten().min()
    }

    /// Fills `names` with the names of the next datagram; none when no name is due, or when the rate does not permit a datagram yet.
    ///
    /// - `copies`: addresses that the datagram will be sent to.
    pub(crate) fn datagram(&mut self, copies: usize, now: Instant, names: &mut Vec<Search>) {
        names.clear();
        if self.boost_at.is_some_and(|at| at <= now) {
            self.boost_now(now);
        }
        if self.pace.ready_at(1) > now {
            return;
        }
        let mut datagram_bytes = self.sizes.fixed;
        for level in 0..self.levels.len() {
            while let Some((channel, bytes)) = self.first_due(level, now) {
                if datagram_bytes + bytes > DATAGRAM_BYTES_MAX && !names.is_empty() {
                    return self.pace.spend(copies, now);
                }
                datagram_bytes += bytes;
                self.search(level, channel, now, names);
            }
        }
        if !names.is_empty() {
            self.pace.spend(copies, now);
        }
    }

    /// The first name of a level that is due, with the bytes of its request. Stale entries before it are removed.
    fn first_due(&mut self, level: usize, now: Instant) -> Option<(u32, usize)> {
        loop {
            let entry = *self.levels[level].front()?;
            match self.waiting.get(&entry.channel).filter(|waiting| waiting.stamp == entry.stamp) {
                Some(_) if entry.due > now => return None,
                Some(waiting) => return Some((entry.channel, (self.sizes.name)(waiting.name.len()))),
                None => drop(self.levels[level].pop_front()),
            }
        }
    }

    /// Appends the first name of a level and puts the name into the next level.
    fn search(&mut self, level: usize, channel: u32, now: Instant, names: &mut Vec<Search>) {
        self.levels[level].pop_front();
        let next = (level + 1).min(self.levels.len() - 1);
        let due = now + self.wait_before(next);
        let Some(waiting) = self.waiting.get(&channel) else { return };
        names.push((channel, Arc::clone(&waiting.name)));
        self.levels[next].push_back(Entry { due, channel, stamp: waiting.stamp });
    }

    fn enqueue(&mut self, channel: u32, name: Arc<str>, level: usize, due: Instant) {
        self.next_stamp = self.next_stamp.wrapping_add(1);
        let stamp = self.next_stamp;
        self.waiting.insert(channel, Waiting { name, stamp });
        self.levels[level].push_back(Entry { due, channel, stamp });
    }

    fn boost_now(&mut self, now: Instant) {
        self.boosted = Some(now);
        self.boost_at = None;
        let kept = BOOST_LEVEL.min(self.levels.len() - 1);
        let later: Vec<Entry> = self.levels[kept..].iter_mut().flat_map(std::mem::take).collect();
        for entry in later {
            if self.waiting.get(&entry.channel).is_some_and(|waiting| waiting.stamp == entry.stamp) {
                self.levels[kept].push_back(Entry { due: now, ..entry });
            }
        }
    }

    /// Time between the search before a level and the search at it.
    fn wait_before(&self, level: usize) -> Duration {
        level.checked_sub(1).map_or(Duration::ZERO, |level| period(level as u32).min(self.max_period))
    }
}

fn period(level: u32) -> Duration {
    FIRST_PERIOD.saturating_mul(1_u32.checked_shl(level).unwrap_or(u32::MAX))
}

/// A token bucket.
struct Pace {
    per_second: f64,
    /// Tokens, which may be negative: a datagram for many addresses is sent whole, and paid later.
    tokens: f64,
    at: Instant,
}

impl Pace {
    fn ready_at(&self, tokens: usize) -> Instant {
        let missing = tokens as f64 - self.tokens;
        // One microsecond more, so that rounding never leaves the bucket just short.
        self.at + Duration::from_secs_f64((missing / self.per_second).max(0.0)) + Duration::from_micros(1)
    }

    fn spend(&mut self, tokens: usize, now: Instant) {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + earned).min(BURST) - tokens as f64;
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: DatagramBytes = DatagramBytes { fixed: 16, name: |bytes| 16 + (bytes + 1).next_multiple_of(8) };
    const MAX_PERIOD: Duration = Duration::from_secs(300);

    fn schedule(names: u32, now: Instant) -> Schedule {
        let mut schedule = Schedule::new(SIZES, MAX_PERIOD, 500, now);
        for channel in 0..names {
            schedule.add(channel, format!("SR:BPM{channel:06}:X").into(), now);
        }
        schedule
    }

    /// Runs the schedule from `start` for `time` and returns the datagrams with their times since `start`.
    fn run(schedule: &mut Schedule, start: Instant, time: Duration) -> Vec<(Duration, Vec<u32>)> {
        let mut sent = Vec::new();
        let mut now = start;
        let mut names = Vec::new();
        while let Some(due) = schedule.next_due().filter(|&due| due <= start + time) {
            now = now.max(due);
            schedule.datagram(1, now, &mut names);
            if !names.is_empty() {
                let bytes = names.iter().map(|(_, name)| (SIZES.name)(name.len())).sum::<usize>() + SIZES.fixed;
                assert!(bytes <= DATAGRAM_BYTES_MAX, "datagram of {bytes} bytes");
                sent.push((now - start, names.iter().map(|&(channel, _)| channel).collect()));
            }
        }
        sent
    }

    fn times_of(sent: &[(Duration, Vec<u32>)], channel: u32) -> Vec<f64> {
        sent.iter().filter(|(_, channels)| channels.contains(&channel)).map(|(at, _)| at.as_secs_f64()).collect()
    }

    #[test]
    fn a_name_is_searched_for_at_once_and_then_with_doubling_periods_up_to_the_maximum() {
        let start = Instant::now();
        let sent = run(&mut schedule(1, start), start, Duration::from_secs(1_200));
        let times = times_of(&sent, 0);
        let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(times[0] < 0.001);
        for (gap, expected) in
            gaps.iter().zip([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 300.0])
        {
            assert!((gap - expected).abs() < 0.001, "gap of {gap} s: expected {expected} s");
        }
    }

    #[test]
    fn a_hundred_thousand_names_cause_no_more_datagrams_a_second_than_the_limit() {
        let start = Instant::now();
        let sent = run(&mut schedule(100_000, start), start, Duration::from_secs(900));
        let mut by_second = vec![0; 901];
        sent.iter().for_each(|(at, _)| by_second[at.as_secs() as usize] += 1);
        assert!(by_second.iter().all(|&n| n <= 508), "{:?}", by_second.iter().max());
        let first_seven: usize = sent.iter().filter(|(at, _)| at.as_secs() < 7).map(|(_, names)| names.len()).sum();
        assert!(first_seven >= 100_000, "only {first_seven} searches in 7 s");
        let steady = by_second[600..].iter().sum::<u32>();
        assert!(steady < 6_000, "{steady} datagrams in 5 min, at a period of 5 min");
    }

    #[test]
    fn a_boost_searches_for_long_waiting_names_at_once_but_not_more_often_than_every_five_seconds() {
        let start = Instant::now();
        let mut schedule = schedule(10, start);
        run(&mut schedule, start, Duration::from_secs(200));
        let boosted = start + Duration::from_secs(200);
        schedule.boost(boosted);
        schedule.boost(boosted);
        let sent = run(&mut schedule, boosted, Duration::from_secs(2));
        assert_eq!(times_of(&sent, 3).len(), 2, "one at once, one 1.6 s later");
        schedule.boost(boosted + Duration::from_secs(2));
        let sent = run(&mut schedule, boosted + Duration::from_secs(2), Duration::from_secs(8));
        let times = times_of(&sent, 3);
        assert!(times.iter().any(|at| (at - 3.0).abs() < 0.01), "{times:?}");
    }

    #[test]
    fn a_removed_name_is_not_searched_for_and_a_name_added_again_is_searched_for_once_a_period() {
        let start = Instant::now();
        let mut schedule = schedule(2, start);
        schedule.remove(0);
        schedule.remove(1);
        schedule.add(1, "again".into(), start);
        let sent = run(&mut schedule, start, Duration::from_millis(50));
        assert_eq!(sent.iter().map(|(_, names)| names.clone()).collect::<Vec<_>>(), [[1]]);
    }
}
