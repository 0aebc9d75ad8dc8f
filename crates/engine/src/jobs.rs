//! Background jobs: the list of them, and how a job runs, fails, stops and is measured.
//!
//! Words: a *job* is work that no caller does itself, for example flushing; a *step* is one bounded
//! piece of it; a *worker* of `env` calls the steps, on a thread or in a simulation. [`Job`] is what
//! a job implements, and owns the job's state. [`Jobs`] is the one list that opening, closing,
//! [`Stats`](crate::Stats) and so `/metrics` and the simulation walk over.
//!
//! Always true:
//! - Steps of one job never overlap, although a job may have two workers.
//! - An error of a step is expected (a full disk): it is counted and logged, and the job runs again
//!   after [`RETRY_NS`].
//! - A panic in a step is a broken invariant: the job never runs again, callers that wait for it
//!   receive the error, [`Engine::readiness`](crate::Engine::readiness) names it, and reads go on.
//!   Only the log's job ends the process, because callers wait for it in `wal`.
//! - Jobs stop in the order of the list, and the log is the last: nothing is queued that it might
//!   not live to write.
//!
//! Not here: jobs that run SQL, for example the refresh of a continuous aggregate. The engine is
//! below SQL. Such a job is registered with a scheduler above the SQL front, which keeps a list like
//! this one; the engine stores its definition as a catalog object and its progress in a table.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use env::{Event, Step, Worker};
use model::{Error, Result};
use parking_lot::Mutex;

use crate::compaction::Compaction;
use crate::dropped_files::DroppedFiles;
use crate::engine::{Inner, closing};
use crate::flush::Flush;
use crate::gc::RowGc;
use crate::log_writer::LogWriter;
use crate::retention::Retention;

/// Delay before the next step after a failed one (usually a full disk), in nanoseconds.
pub(crate) const RETRY_NS: u64 = 1_000_000_000;

/// Background work in steps.
pub(crate) trait Job: Send + Sync {
    /// The name in metrics, errors and the names of threads; at most 11 bytes.
    fn name(&self) -> &'static str;

    /// The workers that call [`Job::step`].
    fn workers(&self) -> &'static [Priority] {
        &[Priority::Normal]
    }

    /// Does one piece of work and returns when to run again. Never blocks.
    ///
    /// # Errors
    /// Failures that may pass. The step has answered the callers that wait for it.
    fn step(&self, inner: &Arc<Inner>, worker: Priority) -> Result<Step>;

    /// Counters and gauges of this job only.
    fn metrics(&self) -> Vec<&Metric> {
        Vec::new()
    }

    /// Whether commits that change the catalog wake the job.
    fn follows_catalog(&self) -> bool {
        false
    }

    /// Discards unfinished work. Called once, after the last step.
    fn abandon(&self, _: &Inner) {}

    /// Answers all callers that wait for the job. Called after the last step, and again when a
    /// caller starts to wait after it.
    fn release(&self, _: &Inner, _: &Error) {}

    /// Whether a broken invariant of this job must end the process.
    fn ends_process(&self) -> bool {
        false
    }
}

/// CPU priority of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Normal,
    /// Gets a small share when threads compete for a processor.
    Low,
}

/// A counter or gauge of a job.
#[derive(Debug)]
pub(crate) struct Metric {
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    value: AtomicU64,
}

/// Unit and meaning of a [`MetricValue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A count since the database was opened.
    Total,
    /// Nanoseconds since the database was opened.
    TotalNs,
    /// The present value.
    Gauge,
}

impl Metric {
    pub(crate) const fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Metric {
        Metric { name, help, kind, value: AtomicU64::new(0) }
    }

    pub(crate) const fn total(name: &'static str, help: &'static str) -> Metric {
        Metric::new(MetricKind::Total, name, help)
    }

    pub(crate) fn add(&self, count: u64) {
        self.value.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.value.store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    fn read(&self) -> MetricValue {
        MetricValue { name: self.name, help: self.help, kind: self.kind, value: self.get() }
    }
}

/// Value of a job's counter or gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricValue {
    /// Unique among all jobs, in the form `flush_bytes`.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Unit and meaning.
    pub kind: MetricKind,
    /// The value.
    pub value: u64,
}

/// State of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobState {
    /// Waits to be woken, or for a time.
    #[default]
    Idle,
    /// Has work.
    Running,
    /// One of its invariants is broken. It does not run again before the database is reopened.
    Broken,
    /// The database was closed.
    Closed,
}

impl JobState {
    /// Name of the state, for metrics and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            JobState::Idle => "idle",
            JobState::Running => "running",
            JobState::Broken => "broken",
            JobState::Closed => "closed",
        }
    }
}

/// State and statistics of a job. "Since start" means since this process opened the database.
#[derive(Clone, Debug)]
pub struct JobStats {
    /// Name of the job.
    pub name: &'static str,
    /// State of the job.
    pub state: JobState,
    /// Steps since start.
    pub steps: u64,
    /// Failed steps since start.
    pub failures: u64,
    /// Error of the last failed step.
    pub last_error: Option<Error>,
    /// Counters and gauges of this job only.
    pub metrics: Vec<MetricValue>,
}

#[derive(Default)]
struct Status {
    state: JobState,
    steps: u64,
    failures: u64,
    last_error: Option<Error>,
    /// Monotonic time before which no step is made; 0 = none.
    retry_at: u64,
}

/// Workers of one job, in the order of [`Job::workers`].
pub(crate) type JobWorkers = Arc<Vec<Worker>>;

/// A job in the list, with its state and statistics.
pub(crate) struct JobEntry<J: ?Sized = dyn Job> {
    /// Held during a step. Lock order: this, the job's own locks, then those of [`Inner`].
    turn: Mutex<()>,
    status: Mutex<Status>,
    /// Workers hold `Inner` and so this, which must not hold them.
    workers: OnceLock<Weak<Vec<Worker>>>,
    pub(crate) job: J,
}

impl<J> JobEntry<J> {
    fn new(job: J) -> Arc<JobEntry<J>> {
        Arc::new(JobEntry { turn: Mutex::new(()), status: Mutex::default(), workers: OnceLock::new(), job })
    }
}

impl<J: ?Sized> std::ops::Deref for JobEntry<J> {
    type Target = J;

    fn deref(&self) -> &J {
        &self.job
    }
}

impl<J: ?Sized> JobEntry<J> {
    /// Makes an idle job run soon.
    pub(crate) fn wake(&self) {
        for worker in self.workers.get().and_then(Weak::upgrade).iter().flat_map(|workers| workers.iter()) {
            worker.wake();
        }
    }

    /// Ends the pause after a failed step, because its cause may be gone.
    pub(crate) fn retry_now(&self) {
        self.status.lock().retry_at = 0;
        self.wake();
    }

    /// The error with which an invariant of the job broke, if it did.
    pub(crate) fn broken(&self) -> Option<Error> {
        let status = self.status.lock();
        if status.state == JobState::Broken { status.last_error.clone() } else { None }
    }
}

impl<J: Job + ?Sized> JobEntry<J> {
    /// Wakes one of the job's workers.
    pub(crate) fn wake_worker(&self, priority: Priority) {
        let at = self.job.workers().iter().position(|worker| *worker == priority);
        let at = at.expect("BUG: a job wakes a worker that it does not have");
        if let Some(workers) = self.workers.get().and_then(Weak::upgrade) {
            workers[at].wake();
        }
    }

    /// Called after a caller started to wait: the job may have stopped before it saw the caller.
    pub(crate) fn release_if_stopped(&self, inner: &Inner) {
        if inner.closing.load(Ordering::SeqCst) {
            self.job.release(inner, &closing());
        } else if let Some(error) = self.broken() {
            self.job.release(inner, &error);
        }
    }
}

impl JobEntry {
    fn start(self: &Arc<Self>, inner: &Arc<Inner>) -> JobWorkers {
        let name = self.job.name();
        let spawn = |priority: &Priority| {
            let (entry, inner, priority) = (Arc::clone(self), Arc::clone(inner), *priority);
            let env = Arc::clone(&inner.env);
            let step = Box::new(move || entry.run(&inner, priority));
            match priority {
                Priority::Normal => env.spawn(name, step),
                Priority::Low => env.spawn_low(&format!("{name}-low"), step),
            }
        };
        let workers: JobWorkers = Arc::new(self.job.workers().iter().map(spawn).collect());
        let is_first = self.workers.set(Arc::downgrade(&workers)).is_ok();
        assert!(is_first, "BUG: job {name} is started twice");
        workers
    }

    /// Runs one step of the job.
    fn run(&self, inner: &Arc<Inner>, worker: Priority) -> Step {
        let _turn = self.turn.lock();
        if let Err(step) = self.begin(inner.env.monotonic_ns()) {
            return step;
        }
        match catch_unwind(AssertUnwindSafe(|| self.job.step(inner, worker))) {
            Ok(Ok(step)) => {
                self.status.lock().state = if step == Step::Again { JobState::Running } else { JobState::Idle };
                step
            }
            Ok(Err(error)) => self.fail(error, inner.env.monotonic_ns()),
            Err(panic) if self.job.ends_process() => resume_unwind(panic),
            Err(panic) => self.break_off(inner, &*panic),
        }
    }

    /// Starts a step, or returns why there is none.
    fn begin(&self, now: u64) -> std::result::Result<(), Step> {
        let mut status = self.status.lock();
        if matches!(status.state, JobState::Broken | JobState::Closed) {
            return Err(Step::Finished);
        }
        if status.retry_at > now {
            return Err(Step::Until(status.retry_at));
        }
        status.state = JobState::Running;
        status.steps += 1;
        Ok(())
    }

    fn fail(&self, error: Error, now: u64) -> Step {
        tracing::warn!(job = self.job.name(), %error, "a background job failed; it will be tried again");
        let mut status = self.status.lock();
        status.state = JobState::Idle;
        status.failures += 1;
        status.last_error = Some(error);
        status.retry_at = now + RETRY_NS;
        Step::Until(status.retry_at)
    }

    /// Stops the job for good: what it would do next cannot be trusted.
    fn break_off(&self, inner: &Inner, panic: &(dyn Any + Send)) -> Step {
        let name = self.job.name();
        let error = broken_invariant(&format!("background job {name}"), panic)
            .with_hint("report it with the server's log, then restart; reads are still served");
        tracing::error!(job = name, %error, "a background job is stopped");
        {
            let mut status = self.status.lock();
            status.state = JobState::Broken;
            status.failures += 1;
            status.last_error = Some(error.clone());
        }
        self.job.abandon(inner);
        self.job.release(inner, &error);
        Step::Finished
    }

    fn close(&self, inner: &Inner, workers: &[Worker]) {
        workers.iter().for_each(Worker::stop);
        let mut status = self.status.lock();
        let was_running = !matches!(status.state, JobState::Broken | JobState::Closed);
        if status.state != JobState::Broken {
            status.state = JobState::Closed;
        }
        drop(status);
        if was_running {
            self.job.abandon(inner);
        }
        self.job.release(inner, &closing());
    }

    fn stats(&self) -> JobStats {
        let metrics = self.job.metrics().into_iter().map(Metric::read).collect();
        let status = self.status.lock();
        JobStats {
            name: self.job.name(),
            state: status.state,
            steps: status.steps,
            failures: status.failures,
            last_error: status.last_error.clone(),
            metrics,
        }
    }
}

/// The error for a panic, which is a broken invariant of `what`.
pub(crate) fn broken_invariant(what: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    Error::bug(format!("an invariant of {what} is broken: {text}"))
}

/// All jobs of an engine. Fields are for those who wake a job or read its state.
pub(crate) struct Jobs {
    pub(crate) compaction: Arc<JobEntry<Compaction>>,
    pub(crate) retention: Arc<JobEntry<Retention>>,
    pub(crate) dropped_files: Arc<JobEntry<DroppedFiles>>,
    pub(crate) flush: Arc<JobEntry<Flush>>,
    pub(crate) gc: Arc<JobEntry<RowGc>>,
    pub(crate) log: Arc<JobEntry<LogWriter>>,
    /// In the order in which they stop.
    list: Vec<Arc<JobEntry>>,
}

impl Jobs {
    pub(crate) fn new(retention: Retention, flush: Flush) -> Jobs {
        let compaction = JobEntry::new(Compaction::default());
        let retention = JobEntry::new(retention);
        let dropped_files = JobEntry::new(DroppedFiles);
        let flush = JobEntry::new(flush);
        let gc = JobEntry::new(RowGc::default());
        let log = JobEntry::new(LogWriter);
        let list: Vec<Arc<JobEntry>> = vec![
            compaction.clone(),
            retention.clone(),
            dropped_files.clone(),
            flush.clone(),
            gc.clone(),
            // Last: the others may have queued records.
            log.clone(),
        ];
        Jobs { compaction, retention, dropped_files, flush, gc, log, list }
    }

    /// Starts the workers of all jobs; the caller keeps them for [`Jobs::close`].
    pub(crate) fn start(&self, inner: &Arc<Inner>) -> Vec<JobWorkers> {
        self.list.iter().map(|entry| entry.start(inner)).collect()
    }

    /// Stops all jobs and answers the callers that wait for them.
    pub(crate) fn close(&self, inner: &Inner, workers: &[JobWorkers]) {
        assert!(workers.len() == self.list.len(), "BUG: closing stops {} of the jobs", workers.len());
        for (entry, workers) in self.list.iter().zip(workers) {
            entry.close(inner, workers);
        }
    }

    /// Called after a commit that changed the catalog.
    pub(crate) fn catalog_changed(&self) {
        self.list.iter().filter(|entry| entry.job.follows_catalog()).for_each(|entry| entry.wake());
    }

    pub(crate) fn stats(&self) -> Vec<JobStats> {
        self.list.iter().map(|entry| entry.stats()).collect()
    }

    /// The error of a job that is broken, if any is.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.list.iter().find_map(|entry| entry.broken())
    }
}

/// A caller that waits for a job.
pub(crate) struct Waiter {
    event: Event,
    error: Arc<Mutex<Option<Error>>>,
}

/// Work of a job that a caller requested.
pub struct Pending {
    /// Set when the work is done or has failed.
    pub event: Event,
    error: Arc<Mutex<Option<Error>>>,
}

impl Pending {
    /// Returns the outcome, once the event is set.
    ///
    /// # Errors
    /// The error of the job; no data is lost.
    pub fn result(&self) -> Result<()> {
        self.error.lock().take().map_or(Ok(()), Err)
    }
}

/// Callers that wait for a job, oldest first.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<Vec<Waiter>>);

impl Waiters {
    /// Adds a caller. Wake the job and call [`JobEntry::release_if_stopped`] afterwards.
    pub(crate) fn add(&self) -> Pending {
        let waiter = Waiter { event: Event::new(), error: Arc::default() };
        let pending = Pending { event: waiter.event.clone(), error: Arc::clone(&waiter.error) };
        self.0.lock().push(waiter);
        pending
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(crate) fn take(&self) -> Vec<Waiter> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(crate) fn answer_all(&self, error: Option<&Error>) {
        answer(self.take(), error);
    }

    /// Answers the first `count` callers; fewer if closing has answered them.
    pub(crate) fn answer_first(&self, count: usize, error: Option<&Error>) {
        let mut waiters = self.0.lock();
        let count = count.min(waiters.len());
        let answered = waiters.drain(..count).collect();
        drop(waiters);
        answer(answered, error);
    }
}

pub(crate) fn answer(waiters: Vec<Waiter>, error: Option<&Error>) {
    for waiter in waiters {
        assert!(!waiter.event.is_set(), "BUG: a caller that waits for a job is answered twice");
        *waiter.error.lock() = error.cloned();
        waiter.event.set();
    }
}

#[cfg(test)]
mod tests;
