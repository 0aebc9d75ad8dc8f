//! Collects the clients' samples. Its lock is taken once for many samples.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::histogram;
use crate::error::Class;
use crate::result::{Failure, OperationResult, Second};
use crate::workload::OperationKind;

/// One finished operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) kind: usize,
    /// End of the operation.
    pub(crate) ended: Instant,
    /// From the scheduled time of sending to the end.
    pub(crate) latency: Duration,
    /// From the actual time of sending to the end.
    pub(crate) service: Duration,
    pub(crate) points: u64,
    pub(crate) ok: bool,
    /// Started during warm-up: not measured.
    pub(crate) warmup: bool,
}

/// Recorder of one phase.
pub(crate) struct Recorder {
    run_start: Instant,
    phase: u32,
    inner: Mutex<Inner>,
    /// Operations, written or read points, and failures so far, for progress.
    pub(crate) operations: AtomicU64,
    pub(crate) points: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Default)]
struct Inner {
    kinds: BTreeMap<usize, KindStats>,
    /// Seconds that may still receive samples, by second and kind.
    open: BTreeMap<(u32, usize), OpenSecond>,
    seconds: Vec<Second>,
    failures: BTreeMap<(usize, Class), (u64, String)>,
    first: Option<Instant>,
    last: Option<Instant>,
    service: Duration,
}

struct KindStats {
    ok: u64,
    ok_points: u64,
    failed: u64,
    failed_points: u64,
    latency: Histogram<u64>,
    service: Histogram<u64>,
    sum: Duration,
    slowest_client: Duration,
}

struct OpenSecond {
    ok: u64,
    points: u64,
    failed: u64,
    latency: Histogram<u64>,
}

/// Seconds for which a second stays open, because clients pass their samples late.
const OPEN_SECONDS: u32 = 3;

impl Default for KindStats {
    fn default() -> KindStats {
        KindStats {
            ok: 0,
            ok_points: 0,
            failed: 0,
            failed_points: 0,
            latency: histogram::empty(),
            service: histogram::empty(),
            sum: Duration::ZERO,
            slowest_client: Duration::ZERO,
        }
    }
}

impl Recorder {
    pub(crate) fn new(run_start: Instant, phase: u32) -> Recorder {
        Recorder {
            run_start,
            phase,
            inner: Mutex::default(),
            operations: AtomicU64::new(0),
            points: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds `samples` and empties the vector.
    pub(crate) fn take(&self, samples: &mut Vec<Sample>) {
        let points: u64 = samples.iter().filter(|sample| sample.ok).map(|sample| sample.points).sum();
        self.operations.fetch_add(samples.len() as u64, Ordering::Relaxed);
        self.points.fetch_add(points, Ordering::Relaxed);
        self.failed.fetch_add(samples.iter().filter(|sample| !sample.ok).count() as u64, Ordering::Relaxed);
        let mut inner = self.lock();
        for sample in samples.drain(..) {
            inner.add(&sample, self.run_start, self.phase);
        }
    }

    pub(crate) fn failure(&self, kind: usize, class: Class, message: &str) {
        let mut inner = self.lock();
        inner.failures.entry((kind, class)).or_insert_with(|| (0, message.to_owned())).0 += 1;
    }

    /// Adds the sums of one client's latencies by kind, when it ends.
    pub(crate) fn client_sums(&self, sums: &[Duration]) {
        let mut inner = self.lock();
        for (kind, sum) in sums.iter().enumerate().filter(|(_, sum)| !sum.is_zero()) {
            let stats = inner.kinds.entry(kind).or_default();
            stats.slowest_client = stats.slowest_client.max(*sum);
        }
    }

    /// Computes the results of the phase.
    pub(crate) fn finish(self, kinds: &[OperationKind]) -> Recorded {
        let mut inner = self.inner.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.close_before(u32::MAX, self.phase);
        let elapsed = inner.first.zip(inner.last).map_or(Duration::ZERO, |(first, last)| last - first);
        let nothing = KindStats::default();
        let operation = |(number, kind): (usize, &OperationKind)| {
            inner.kinds.get(&number).unwrap_or(&nothing).result(kind, elapsed)
        };
        let failure = |((kind, class), (count, first)): (&(usize, Class), &(u64, String))| Failure {
            operation: kinds[*kind].name.to_owned(),
            class: class.name().to_owned(),
            count: *count,
            first: first.clone(),
        };
        Recorded {
            elapsed,
            operations: kinds.iter().enumerate().map(operation).collect(),
            failures: inner.failures.iter().map(failure).collect(),
            seconds: inner.seconds,
            service: inner.service,
        }
    }
}

/// Measurements of a phase.
pub(crate) struct Recorded {
    /// From the first request to the last response.
    pub(crate) elapsed: Duration,
    pub(crate) operations: Vec<OperationResult>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) seconds: Vec<Second>,
    /// Sum of all service times.
    pub(crate) service: Duration,
}

impl Inner {
    fn add(&mut self, sample: &Sample, run_start: Instant, phase: u32) {
        if sample.warmup {
            return;
        }
        let began = sample.ended - sample.service;
        self.first = Some(self.first.map_or(began, |first| first.min(began)));
        self.last = Some(self.last.map_or(sample.ended, |last| last.max(sample.ended)));
        self.service += sample.service;
        let stats = self.kinds.entry(sample.kind).or_default();
        let nanos = sample.latency.as_nanos() as u64;
        if sample.ok {
            stats.ok += 1;
            stats.ok_points += sample.points;
            stats.latency.saturating_record(nanos);
            stats.service.saturating_record(sample.service.as_nanos() as u64);
            stats.sum += sample.latency;
        } else {
            stats.failed += 1;
            stats.failed_points += if sample.kind == 0 { sample.points } else { 0 };
        }
        let second = (sample.ended - run_start).as_secs() as u32;
        if second >= OPEN_SECONDS && !self.open.contains_key(&(second, sample.kind)) {
            self.close_before(second - OPEN_SECONDS, phase);
        }
        let open = self.open.entry((second, sample.kind)).or_insert_with(|| OpenSecond {
            ok: 0,
            points: 0,
            failed: 0,
            latency: histogram::coarse(),
        });
        if sample.ok {
            open.ok += 1;
            open.points += sample.points;
            open.latency.saturating_record(nanos);
        } else {
            open.failed += 1;
        }
    }

    fn close_before(&mut self, end: u32, phase: u32) {
        while let Some(entry) = self.open.first_entry().filter(|entry| entry.key().0 < end) {
            let ((at_s, kind), open) = entry.remove_entry();
            let latency = histogram::latency(&open.latency);
            self.seconds.push(Second {
                at_s,
                phase,
                kind: kind as u32,
                ok: open.ok,
                points: open.points,
                failed: open.failed,
                p50_ms: latency.median,
                p99_ms: latency.p99,
                max_ms: latency.max,
            });
        }
    }
}

impl KindStats {
    fn result(&self, kind: &OperationKind, elapsed: Duration) -> OperationResult {
        let mut latency_ms = histogram::latency(&self.latency);
        latency_ms.slowest_thread = self.slowest_client.as_secs_f64() * 1e3;
        if self.ok > 0 {
            // The histogram's mean uses the middles of its buckets; the sum is exact.
            latency_ms.avg = self.sum.as_secs_f64() * 1e3 / self.ok as f64;
        }
        let seconds = elapsed.as_secs_f64();
        OperationResult {
            name: kind.name.to_owned(),
            stored_name: kind.stored_name.to_owned(),
            ok: self.ok,
            ok_points: self.ok_points,
            failed: self.failed,
            failed_points: self.failed_points,
            throughput: if seconds > 0.0 { self.ok_points as f64 / seconds } else { 0.0 },
            latency_ms,
            service_ms: histogram::latency(&self.service),
            histogram: crate::measure::histogram::to_text(&self.latency),
            example: None,
            note: None,
        }
    }
}
