//! The clients, one thread and one connection each, and their measurements.
//!
//! Always true: a transaction is measured if it ended within the measured interval; its latency
//! spans from just before its first statement is built to its last answer, retries and rollbacks
//! included. The server's CPU time is read at both ends of the interval. Every acknowledged
//! transaction is in the ledger, measured or not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Settings;
use super::input::{Dealer, Input, Inputs, Kind, Terminal};
use super::ledger::Ledger;
use super::load::bar;
use super::population::DISTRICTS;
use super::random::{Constants, Random};
use super::report::{ErrorCount, KindResult, Outage, Point, SecondOfKind};
use super::session::{Connector, Session};
use super::transactions::{Client, Done};
use crate::engine::recorder::{Recorded, Recorder, Sample};
use crate::error::{Class, Error, Result};
use crate::measure::sampler::Sampler;
use crate::report::format;
use crate::result::ResourceSample;
use crate::run::target_server::TargetServer;
use crate::run::{INTERRUPTED, Show};
use crate::workload::OperationKind;

/// Rows of the result: the five transactions, and the new orders that the specification requires to
/// be rolled back.
pub(super) const KINDS: [OperationKind; 6] = [
    OperationKind { name: "NEW_ORDER", stored_name: "NEW_ORDER", title: "New-Order, committed" },
    OperationKind { name: "PAYMENT", stored_name: "PAYMENT", title: "Payment" },
    OperationKind { name: "ORDER_STATUS", stored_name: "ORDER_STATUS", title: "Order-Status" },
    OperationKind { name: "DELIVERY", stored_name: "DELIVERY", title: "Delivery, of ten districts" },
    OperationKind { name: "STOCK_LEVEL", stored_name: "STOCK_LEVEL", title: "Stock-Level" },
    OperationKind { name: "ROLLED_BACK", stored_name: "ROLLED_BACK", title: "New-Order, rolled back by its user" },
];
/// Index of the rolled-back new orders in [`KINDS`].
const ROLLED_BACK: usize = 5;
/// Stack size of a client thread. Stack frames are small, and 768 clients must not reserve
/// gigabytes.
const STACK_BYTES: usize = 512 << 10;
/// Pause after a connection broke, before the next attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Number of consecutive failures that end the run, unless the server was killed deliberately.
const FAILURES_IN_A_ROW_MAX: u32 = 100;

/// The clients of one run.
pub(super) struct ClientGroup<'a> {
    pub(super) settings: &'a Settings,
    pub(super) connector: &'a Connector,
    pub(super) ledger: &'a Ledger,
    pub(super) clients: usize,
    pub(super) warehouses: i32,
}

/// State shared by the clients of one run.
struct Shared {
    /// Each barrier is passed once: when all clients are connected, and when the clock starts.
    connected: Barrier,
    started: Barrier,
    clock: OnceLock<Clock>,
    recorder: Recorder,
    stopped: AtomicBool,
    /// Wakes clients that are in their think time.
    stop: (Mutex<bool>, Condvar),
    /// Round trips in the measured interval.
    trips: AtomicU64,
    retries: AtomicU64,
    /// All new orders so far, for the progress display.
    new_orders: AtomicU64,
    transactions: AtomicU64,
    skipped_districts: AtomicU64,
    errors: Mutex<BTreeMap<(usize, String), (u64, String)>>,
    fatal: Mutex<Option<Error>>,
}

/// The measured interval.
#[derive(Clone, Copy)]
struct Clock {
    from: Instant,
    until: Instant,
}

impl Shared {
    fn new(clients: usize, start: Instant) -> Shared {
        Shared {
            connected: Barrier::new(clients + 1),
            started: Barrier::new(clients + 1),
            clock: OnceLock::new(),
            recorder: Recorder::new(start, 0),
            stopped: AtomicBool::new(false),
            stop: (Mutex::new(false), Condvar::new()),
            trips: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            new_orders: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            skipped_districts: AtomicU64::new(0),
            errors: Mutex::default(),
            fatal: Mutex::new(None),
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        *locked(&self.stop.0) = true;
        self.stop.1.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends the run with this error, unless an earlier error already did.
    fn fail(&self, error: Error) {
        locked(&self.fatal).get_or_insert(error);
        self.stop();
    }

    /// Waits for `time`, or until the run ends.
    fn pause(&self, time: Duration) {
        let wait = self.stop.1.wait_timeout_while(locked(&self.stop.0), time, |stopped| !*stopped);
        drop(wait);
    }

    fn error(&self, kind: usize, state: &str, error: &Error) {
        let mut errors = locked(&self.errors);
        errors.entry((kind, state.to_owned())).or_insert_with(|| (0, error.message.clone())).0 += 1;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientGroup<'_> {
    /// Runs the clients for the time in the settings.
    pub(super) fn run(&self, target_server: &mut TargetServer, show: &mut dyn Show) -> Result<Point> {
        let product = self.connector.product.name();
        show.stage(&format!("{product}: connecting {} clients", self.clients));
        let start = Instant::now();
        let shared = Shared::new(self.clients, start);
        let sampler = Sampler::start(&target_server.pids, &target_server.dirs, start);
        let watched = std::thread::scope(|scope| {
            for number in 0..self.clients {
                let worker = Worker { group: self, shared: &shared, number };
                let thread = std::thread::Builder::new().name(format!("client {number}")).stack_size(STACK_BYTES);
                if let Err(error) = thread.spawn_scoped(scope, move || worker.work()) {
                    // The barriers would wait for the missing thread forever.
                    eprintln!("error: thread {number} of {}: {error}", self.clients);
                    std::process::exit(2);
                }
            }
            let watched = self.watch(&shared, &sampler, target_server, show);
            shared.stop();
            watched
        });
        let resources = sampler.stop();
        let fatal = locked(&shared.fatal).take();
        if let Some(error) = fatal {
            return Err(error);
        }
        Ok(self.point(shared, watched?, resources, start))
    }

    /// Starts the clock, displays progress, and kills the server if requested.
    fn watch(
        &self,
        shared: &Shared,
        sampler: &Sampler,
        target_server: &mut TargetServer,
        show: &mut dyn Show,
    ) -> Result<Watched> {
        shared.connected.wait();
        let begin = Instant::now();
        let from = begin + self.settings.warm_up;
        let clock = Clock { from, until: from + self.settings.length };
        // No other thread sets the clock.
        let _ = shared.clock.set(clock);
        shared.started.wait();
        let mut kill_at = self.settings.kill_server.then(|| from + self.kill_after());
        let mut watched = Watched { clock, ended: clock.until, before: None, after: None, outage: None };
        let mut live = Live { at: begin, orders: 0, transactions: 0 };
        loop {
            let now = Instant::now();
            if now >= from && watched.before.is_none() {
                watched.before = Some(sampler.now());
            }
            if kill_at.is_some_and(|at| now >= at) {
                kill_at = None;
                watched.outage = Some(kill(shared, sampler, target_server, show)?);
            }
            if now >= clock.until || shared.is_stopped() || INTERRUPTED.load(Ordering::Relaxed) {
                watched.ended = now.min(clock.until);
                watched.after = Some(sampler.now());
                return Ok(watched);
            }
            show.live(&|| self.progress(shared, &live, begin, clock));
            if live.at.elapsed() >= Duration::from_secs(2) {
                live = Live {
                    at: now,
                    orders: shared.new_orders.load(Ordering::Relaxed),
                    transactions: shared.transactions.load(Ordering::Relaxed),
                };
            }
            std::thread::sleep(Duration::from_millis(20).min(clock.until.saturating_duration_since(now)));
        }
    }

    /// Time of the kill: the middle of the measured interval, or a different time in each of many
    /// runs.
    fn kill_after(&self) -> Duration {
        let Settings { seed, cycle, length, .. } = self.settings;
        let percent = if *cycle == 0 { 50 } else { Random::new(*seed, 0x4B11, u64::from(*cycle)).within(5, 95) };
        length.mul_f64(f64::from(percent) / 100.0)
    }

    fn progress(&self, shared: &Shared, live: &Live, begin: Instant, clock: Clock) -> String {
        let seconds = live.at.elapsed().as_secs_f64().max(0.05);
        let since = |now: &AtomicU64, before: u64| (now.load(Ordering::Relaxed) - before) as f64 / seconds;
        let share = begin.elapsed().as_secs_f64() / (clock.until - begin).as_secs_f64().max(0.001);
        let errors: u64 = locked(&shared.errors).values().map(|(count, _)| count).sum();
        format!(
            "{} clients: {} {} new orders/min, {} transactions/s{}{}",
            self.clients,
            bar(share),
            format::whole((60.0 * since(&shared.new_orders, live.orders)) as u64),
            format::whole(since(&shared.transactions, live.transactions) as u64),
            if errors > 0 { format!(", {} ERRORS", format::whole(errors)) } else { String::new() },
            if Instant::now() < clock.from { ", warming up" } else { "" },
        )
    }

    /// Computes the figures of the run.
    fn point(&self, shared: Shared, watched: Watched, resources: Vec<ResourceSample>, start: Instant) -> Point {
        let seconds = (watched.ended - watched.clock.from.min(watched.ended)).as_secs_f64();
        let offset = (watched.clock.from - start).as_secs_f64();
        let recorded = shared.recorder.finish(&KINDS);
        let errors = shared.errors.into_inner().unwrap_or_else(PoisonError::into_inner);
        let error = |((kind, state), (count, first)): ((usize, String), (u64, String))| ErrorCount {
            kind: KINDS[kind].name.to_owned(),
            sqlstate: state,
            count,
            first,
        };
        let usage = |of: fn(&ResourceSample) -> Option<f64>| {
            Some(of(watched.after.as_ref()?)? - of(watched.before.as_ref()?)?).filter(|used| *used >= 0.0)
        };
        let mut point = Point {
            clients: self.clients,
            warm_up_s: self.settings.warm_up.as_secs_f64(),
            seconds,
            server_cpu_s: usage(|sample| sample.server_cpu_s),
            client_cpu_s: usage(|sample| Some(sample.client_cpu_s)).unwrap_or(0.0),
            host_cpu_s: usage(|sample| Some(sample.host_cpu_s)).unwrap_or(0.0),
            server_written_bytes: usage(|sample| sample.server_written_bytes.map(|bytes| bytes as f64)),
            server_rss_bytes: resources.iter().filter_map(|sample| sample.server_rss_bytes).max(),
            trips: shared.trips.into_inner(),
            retries: shared.retries.into_inner(),
            skipped_districts: shared.skipped_districts.into_inner(),
            errors: errors.into_iter().map(error).collect(),
            outage: watched.outage,
            ..Point::default()
        };
        point.kinds = kinds(&recorded, seconds);
        point.by_second = by_second(&recorded, offset);
        point.derive();
        point
    }
}

fn kinds(recorded: &Recorded, seconds: f64) -> Vec<KindResult> {
    let kind = |(operation, kind): (&crate::result::OperationResult, &OperationKind)| KindResult {
        name: operation.name.clone(),
        title: kind.title.to_owned(),
        ok: operation.ok,
        failed: operation.failed,
        per_minute: if seconds > 0.0 { operation.ok as f64 * 60.0 / seconds } else { 0.0 },
        latency_ms: operation.latency_ms.clone(),
        histogram: operation.histogram.clone(),
    };
    recorded.operations.iter().zip(&KINDS).map(kind).collect()
}

/// `offset`: the recorder's second at which the measured interval started.
fn by_second(recorded: &Recorded, offset: f64) -> Vec<SecondOfKind> {
    let second = |second: &crate::result::Second| SecondOfKind {
        at_s: f64::from(second.at_s) - offset,
        kind: KINDS[second.kind as usize].name.to_owned(),
        ok: second.ok,
        failed: second.failed,
        p50_ms: second.p50_ms,
        p99_ms: second.p99_ms,
        max_ms: second.max_ms,
    };
    recorded.seconds.iter().map(second).collect()
}

/// Measurements made outside the clients.
struct Watched {
    clock: Clock,
    ended: Instant,
    before: Option<ResourceSample>,
    after: Option<ResourceSample>,
    outage: Option<Outage>,
}

/// Counters at the previous display of progress.
struct Live {
    at: Instant,
    orders: u64,
    transactions: u64,
}

/// Kills the server with SIGKILL and restarts it on the same directory.
fn kill(shared: &Shared, sampler: &Sampler, target_server: &mut TargetServer, show: &mut dyn Show) -> Result<Outage> {
    let server = target_server.server.as_mut().ok_or_else(|| Error::setup("BUG: no private server to kill"))?;
    show.stage("killing the server (SIGKILL)");
    sampler.now();
    let acknowledged = shared.new_orders.load(Ordering::Relaxed);
    server.kill9()?;
    let killed = Instant::now();
    server.restart()?;
    target_server.pids = server.root_pids();
    sampler.replace_pids(&target_server.pids);
    let seconds = killed.elapsed().as_secs_f64();
    show.stage(&format!("the server answers again after {}", format::seconds(seconds)));
    Ok(Outage { new_orders_before: acknowledged, restart_s: seconds })
}

/// One client.
struct Worker<'a> {
    group: &'a ClientGroup<'a>,
    shared: &'a Shared,
    number: usize,
}

impl Worker<'_> {
    fn work(&self) {
        let session = Session::new(self.group.connector).and_then(|mut session| {
            session.connect()?;
            Ok(session)
        });
        let session = session.map_err(|error| self.shared.fail(error.during(format_args!("client {}", self.number))));
        self.shared.connected.wait();
        self.shared.started.wait();
        if let (Ok(mut session), Some(clock)) = (session, self.shared.clock.get())
            && let Err(error) = self.transactions(&mut session, *clock)
        {
            self.shared.fail(error);
        }
    }

    fn transactions(&self, session: &mut Session, clock: Clock) -> Result<()> {
        let settings = self.group.settings;
        let inputs = Inputs { warehouses: self.group.warehouses, constants: Constants::of_run(settings.seed) };
        // Clients of other runs (another number of clients, or a later cycle) must not repeat the
        // same inputs on the same tables.
        let stream = u64::from(settings.cycle) << 48 | (self.group.clients as u64) << 32 | self.number as u64;
        let mut random = Random::new(settings.seed, 0xC11E47, stream);
        let mut dealer = Dealer::new(settings.draw, settings.mix);
        let mut failures = 0;
        while !self.shared.is_stopped() && Instant::now() < clock.until {
            let kind = dealer.next(&mut random);
            let input = inputs.make(kind, self.terminal(&mut random), &mut random);
            let (keying, thinking) = kind.pauses_s();
            if settings.thinks {
                self.shared.pause(Duration::from_secs_f64(keying));
                if self.shared.is_stopped() {
                    return Ok(());
                }
            }
            failures = if self.one(session, kind, &input, clock)? { 0 } else { failures + 1 };
            let patience = if settings.kill_server { u32::MAX } else { FAILURES_IN_A_ROW_MAX };
            if failures >= patience {
                return Err(Error::new(
                    Class::Connection,
                    format!("client {}: {failures} failures in a row", self.number),
                ));
            }
            if settings.thinks {
                self.shared.pause(Duration::from_secs_f64(random.delay_s(thinking)));
            }
        }
        Ok(())
    }

    /// Terminal of the next transaction. With think time a client always uses the same terminal,
    /// ten for each warehouse; otherwise it is random, so that any number of clients loads all
    /// warehouses evenly.
    fn terminal(&self, random: &mut Random) -> Terminal {
        let warehouses = self.group.warehouses;
        if self.group.settings.thinks {
            let number = self.number as i32;
            Terminal { warehouse: number % warehouses + 1, district: number / warehouses % DISTRICTS + 1 }
        } else {
            Terminal { warehouse: random.within(1, warehouses), district: random.within(1, DISTRICTS) }
        }
    }

    /// Runs one transaction with its retries; returns false if it failed. An error means that the
    /// run cannot continue.
    fn one(&self, session: &mut Session, kind: Kind, input: &Input, clock: Clock) -> Result<bool> {
        let (began, trips_before) = (Instant::now(), session.trips);
        let mut attempts = 0;
        let done = loop {
            let settings = self.group.settings;
            let mut client = Client {
                session: &mut *session,
                product: self.group.connector.product,
                mode: settings.mode,
                committing: false,
            };
            let outcome = client.run(input);
            let committing = client.committing;
            match outcome {
                Ok(done) => break Some(done),
                Err(error) => {
                    let again = self.failed(session, kind, input, &error, committing)?;
                    if !again || attempts >= settings.retries || self.shared.is_stopped() {
                        break None;
                    }
                    attempts += 1;
                    self.shared.retries.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let ended = Instant::now();
        if let Some(done) = done {
            self.group.ledger.acknowledge(input, done);
        }
        let measured = (clock.from..clock.until).contains(&ended);
        self.count(kind, done, session.trips - trips_before, measured);
        let row = if done == Some(Done::RolledBack) { ROLLED_BACK } else { kind as usize };
        let latency = ended - began;
        self.shared.recorder.take(&mut vec![Sample {
            kind: row,
            ended,
            latency,
            service: latency,
            points: 1,
            ok: done.is_some(),
            warmup: !measured,
        }]);
        Ok(done.is_some())
    }

    fn count(&self, kind: Kind, done: Option<Done>, trips: u64, measured: bool) {
        let shared = self.shared;
        if measured {
            shared.trips.fetch_add(trips, Ordering::Relaxed);
        }
        if done.is_some() {
            shared.transactions.fetch_add(1, Ordering::Relaxed);
            let ordered = kind == Kind::NewOrder && done != Some(Done::RolledBack);
            shared.new_orders.fetch_add(u64::from(ordered), Ordering::Relaxed);
        }
        if let Some(Done::Delivered(mask)) = done {
            shared.skipped_districts.fetch_add(u64::from(DISTRICTS as u32 - mask.count_ones()), Ordering::Relaxed);
        }
    }

    /// Counts a failure, rolls the transaction back, and returns whether it may be retried.
    fn failed(
        &self,
        session: &mut Session,
        kind: Kind,
        input: &Input,
        error: &Error,
        committing: bool,
    ) -> Result<bool> {
        let state =
            if session.has_server_error() { session.sqlstate().to_owned() } else { error.class.name().to_owned() };
        self.shared.error(kind as usize, &state, error);
        if committing && error.class.outcome_unknown() {
            self.group.ledger.unknown(input);
        }
        if is_unsupported(&state, error) {
            return Err(error.clone());
        }
        if !session.is_connected() {
            // The next statement opens a new connection.
            self.shared.pause(RECONNECT_PAUSE);
            return Ok(false);
        }
        if let Err(error) = session.rollback() {
            self.shared.error(kind as usize, "rollback failed", &error);
        }
        Ok(is_conflict(&state, error))
    }
}

/// Returns whether a retry is pointless, because the product does not support the statement.
fn is_unsupported(state: &str, error: &Error) -> bool {
    let unsupported = state.len() == 5 && (state.starts_with("42") || state.starts_with("0A"));
    unsupported || matches!(error.class, Class::Setup | Class::Unsupported)
}

/// Returns whether the transaction was aborted because of a conflict. MariaDB reports a lock wait
/// timeout without a specific SQLSTATE.
fn is_conflict(state: &str, error: &Error) -> bool {
    state == "40001" || state == "40P01" || (state == "HY000" && error.message.contains("error 1205"))
}
