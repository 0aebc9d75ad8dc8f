//! Rate limiter of compaction: a token bucket, stored as the one time at which all work so far is
//! paid for.
//!
//! Always true: between any two times no more than `rate` times their distance is done, plus 100 ms
//! of the rate and one step.

/// Idle time that earns credit, at most; it makes up for late wake-ups.
const BURST_NS: u64 = 100_000_000;
/// A step does the work of this fraction of a second, so that the rate is even.
const STEPS_A_SECOND: u64 = 16;
/// Upper limit for a step, so that closing need not wait long.
const STEP_BYTES_MAX: u64 = 4 << 20;

/// With a larger backlog than this (segments of one partition still to be merged), compaction runs
/// at normal priority.
pub(crate) const BACKLOG: usize = 32;
/// The rate doubles for each further group of segments of this size.
const BACKLOG_STEP: usize = 8;
/// The rate limit is lifted from this backlog on.
const BACKLOG_MAX: usize = 64;

/// The debt of work already done, expressed in time.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    /// Monotonic time in nanoseconds at which the debt is repaid.
    repaid_at: u64,
    /// Start of the present wait, if any.
    waiting_since: Option<u64>,
}

impl RateLimiter {
    /// Returns the time at which to ask again if the debt is not repaid at `now`.
    pub(crate) fn wait(&mut self, now: u64) -> Option<u64> {
        (self.repaid_at > now).then(|| {
            self.waiting_since.get_or_insert(now);
            self.repaid_at
        })
    }

    /// Ends a wait, whether or not the debt is repaid; returns its length in nanoseconds.
    pub(crate) fn end_wait(&mut self, now: u64) -> u64 {
        self.waiting_since.take().map_or(0, |since| now.saturating_sub(since))
    }

    /// Adds the cost of `bytes` read and written up to `now`, at `rate` bytes a second.
    pub(crate) fn spend(&mut self, bytes: u64, rate: u64, now: u64) {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
        let from = self.repaid_at.max(now.saturating_sub(BURST_NS));
        self.repaid_at = from.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
    }
}

/// The rate limit in bytes a second for a configured `rate` (0 = none) and a backlog; `None` =
/// unlimited. Queries open every segment that overlaps their time range, so the limit must not hold
/// while the backlog keeps growing.
pub(crate) fn limit(rate: u64, backlog: usize) -> Option<u64> {
    if rate == 0 || backlog >= BACKLOG_MAX {
        return None;
    }
    let doublings = backlog.saturating_sub(BACKLOG) / BACKLOG_STEP;
    Some(rate.saturating_mul(1 << doublings))
}

/// Bytes of one compaction step under this limit.
pub(crate) fn step_bytes(limit: Option<u64>) -> u64 {
    limit.map_or(STEP_BYTES_MAX, |rate| (rate / STEPS_A_SECOND).clamp(1, STEP_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs steps of `step_ns` each whenever the limiter allows; returns the bytes done until
    /// `end`.
    fn done_until(end: u64, rate: u64, step_ns: u64) -> u64 {
        let (mut limiter, mut now, mut done) = (RateLimiter::default(), 7 * SECOND, 0);
        let end = now + end;
        while now < end {
            if let Some(at) = limiter.wait(now) {
                now = at;
                continue;
            }
            limiter.end_wait(now);
            now += step_ns;
            done += step_bytes(Some(rate));
            limiter.spend(step_bytes(Some(rate)), rate, now);
        }
        done
    }

    #[test]
    fn bytes_never_exceed_the_rate_by_more_than_a_burst_and_a_step() {
        for rate in [1_000, 1 << 20, 50 << 20, 1 << 30] {
            for step_ns in [0, 1_000, 5_000_000] {
                let done = done_until(10 * SECOND, rate, step_ns);
                let burst = rate / 10 + step_bytes(Some(rate));
                // A machine slower than the rate is not slowed further.
                let able = (10 * SECOND).checked_div(step_ns).map_or(u64::MAX, |steps| steps * step_bytes(Some(rate)));
                let least = (10 * rate).min(able);
                assert!((least..=10 * rate + burst).contains(&done), "{rate} a second, steps of {step_ns} ns: {done}");
            }
        }
    }

    #[test]
    fn idle_time_earns_at_most_100_ms_of_credit() {
        let mut limiter = RateLimiter::default();
        let now = 3_600 * SECOND;
        limiter.spend(100, 1_000, now);
        assert_eq!(limiter.wait(now), None);
        limiter.spend(1, 1_000, now);
        assert_eq!(limiter.wait(now), Some(now + SECOND / 1_000));
        assert_eq!(limiter.wait(now + SECOND / 1_000), None);
    }

    #[test]
    fn wait_time_runs_from_the_first_refusal_to_the_next_step() {
        let mut limiter = RateLimiter::default();
        limiter.spend(2_000, 1_000, SECOND);
        assert_eq!(limiter.end_wait(SECOND), 0);
        assert_eq!(limiter.wait(SECOND), Some(29 * SECOND / 10));
        // Woken for another reason.
        assert_eq!(limiter.wait(2 * SECOND), Some(29 * SECOND / 10));
        assert_eq!(limiter.end_wait(29 * SECOND / 10), 19 * SECOND / 10);
        assert_eq!(limiter.end_wait(4 * SECOND), 0);
    }

    #[test]
    fn the_limit_doubles_with_the_backlog_and_is_lifted() {
        let expected =
            [(0, Some(5)), (32, Some(5)), (39, Some(5)), (40, Some(10)), (55, Some(20)), (63, Some(40)), (64, None)];
        for (backlog, limited) in expected {
            assert_eq!(limit(5, backlog), limited, "{backlog}");
            assert_eq!(limit(0, backlog), None, "none is set");
        }
    }
}
