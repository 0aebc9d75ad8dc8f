//! Searches for the highest write rate at which the 99th percentile of latency stays below a limit.

use std::time::Duration;

use super::{Run, Show};
use crate::engine::{End, Engine, Plan, Progress};
use crate::error::Result;

/// Duration of a trial at one rate; shorter in tests.
const TRIAL: Duration = Duration::from_millis(if cfg!(test) { 30 } else { 10_000 });
/// Warm-up of each trial, which is not measured.
const WARMUP: Duration = Duration::from_millis(if cfg!(test) { 3 } else { 2_000 });
/// Relative distance of the bounds at which the search ends.
const PRECISION: f64 = 0.05;
/// Share of a rate that a trial must reach.
const KEPT: f64 = 0.97;

/// Result of one trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// Requests a second.
    pub(crate) rate: f64,
    pub(crate) p99_ms: f64,
    pub(crate) kept: bool,
}

/// Doubles the rate, starting with an estimate from a short closed loop, until a trial exceeds the
/// limit; then bisects. Each trial is a phase of the result.
pub(crate) fn find_rate(run: &mut Run<'_>, engine: &Engine, limit: Duration, show: &mut dyn Show) -> Result<()> {
    let closed = trial(run, engine, 0.0, show)?;
    let (mut low, mut high) = (0.0, closed.rate * 1.5);
    let mut best: Option<Search> = None;
    let mut rate = closed.rate * 0.5;
    while high - low > PRECISION * high && !super::INTERRUPTED.load(std::sync::atomic::Ordering::Relaxed) {
        let tried = trial(run, engine, rate, show)?;
        if tried.kept && tried.p99_ms <= limit.as_secs_f64() * 1e3 {
            low = rate;
            best = Some(tried);
        } else {
            high = rate;
        }
        rate = (low + high) / 2.0;
    }
    let points = run.points_per_request();
    run.result.notes.push(match best {
        Some(best) => format!(
            "highest rate with p99 <= {:.1} ms: {:.0} requests/s = {:.0} points/s (p99 {:.2} ms); a closed loop \
             reached {:.0} requests/s",
            limit.as_secs_f64() * 1e3,
            best.rate,
            best.rate * points,
            best.p99_ms,
            closed.rate
        ),
        None => format!("no rate tried kept p99 <= {:.1} ms", limit.as_secs_f64() * 1e3),
    });
    Ok(())
}

/// Runs one phase of writes at `rate` requests a second; 0 means a closed loop.
fn trial(run: &mut Run<'_>, engine: &Engine, rate: f64, show: &mut dyn Show) -> Result<Search> {
    let kinds = run.workload.kinds().len();
    let plan = Plan {
        name: if rate > 0.0 { format!("rate {rate:.0}/s") } else { "closed loop".to_owned() },
        clients: run.config.data_client_number as usize,
        mix: (0..kinds).map(|kind| f64::from(u8::from(kind == 0))).collect(),
        end: End::Clock(TRIAL),
        rate,
        warmup: WARMUP,
    };
    show.stage(&format!("{}: {}", run.about.product, plan.name));
    let number = run.result.phases.len() as u32;
    let outcome = engine.run(&plan, number, &mut |progress: &Progress| show.progress(&plan, progress))?;
    let writes = &outcome.phase.operations[0];
    let reached = writes.ok as f64 / outcome.phase.elapsed_s.max(1e-9);
    let search = Search {
        rate: if rate > 0.0 { rate } else { reached },
        p99_ms: writes.latency_ms.p99,
        kept: writes.failed == 0 && reached >= KEPT * rate,
    };
    run.result.seconds.extend(outcome.seconds);
    run.result.phases.push(outcome.phase);
    Ok(search)
}
