//! Selects answers and checks them. The selection happens after an answer has arrived, so that the
//! target cannot treat selected queries differently.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{End, Plan, lock};
use crate::config::{Config, WorkMode};
use crate::generate::{mix, unit_interval};
use crate::ledger::{Before, Ledger};
use crate::measure::proc;
use crate::oracle::{self, Verdict};
use crate::query::{Query, Rows};
use crate::result::Checked;
use crate::workload::Workload;

/// Most values in deferred answers; further answers are checked at once.
const DEFERRED_POINTS_MAX: u64 = 4 << 20;
/// Most findings with full text.
const FINDINGS_MAX: usize = 50;

pub(super) struct Verifier {
    on: bool,
    /// Minimum share of checked answers, and minimum number of each kind.
    ratio: f64,
    minimum: u64,
    /// Whether the target acknowledges writes before they are visible.
    pub(super) eventual: bool,
    kinds: Vec<KindCounts>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct KindCounts {
    /// Expected number of answers, as far as known.
    expected: AtomicU64,
    answers: AtomicU64,
    chosen: AtomicU64,
}

#[derive(Default)]
struct Inner {
    deferred: Vec<Deferred>,
    points: u64,
    results: Vec<[u64; 3]>,
    findings: Vec<String>,
    cpu_s: f64,
}

struct Deferred {
    query: Query,
    answer: Rows,
    before: Before,
    statement: String,
}

impl Verifier {
    pub(super) fn new(config: &Config, kinds: usize, eventual: bool) -> Verifier {
        let reads_back = config.is_point_comparison || config.benchmark_work_mode == WorkMode::VerificationQuery;
        let everything = config.is_comparison || reads_back;
        Verifier {
            on: config.verify,
            ratio: if everything { 1.0 } else { config.verify_ratio },
            minimum: config.verify_min,
            eventual,
            kinds: (0..kinds).map(|_| KindCounts::default()).collect(),
            inner: Mutex::new(Inner { results: vec![[0; 3]; kinds], ..Inner::default() }),
        }
    }

    /// Adds the number of answers that a phase will have, if its plan determines it.
    pub(super) fn expect(&self, plan: &Plan) {
        let sum: f64 = plan.mix.iter().sum();
        let all = match plan.end {
            End::Operations(n) | End::Once(n) => n as f64,
            End::Loops(n) => n as f64 * plan.clients as f64,
            End::Clock(_) => 0.0,
        };
        for (kind, weight) in self.kinds.iter().zip(&plan.mix) {
            kind.expected.fetch_add((all * weight / sum.max(f64::MIN_POSITIVE)) as u64, Ordering::Relaxed);
        }
    }

    /// Whether to check the answer that has just arrived.
    pub(super) fn selects(&self, kind: usize, entropy: u64) -> bool {
        let of = &self.kinds[kind];
        let answers = of.answers.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.on {
            return false;
        }
        let expected = of.expected.load(Ordering::Relaxed);
        let left = expected.saturating_sub(answers);
        let owed = self.minimum.saturating_sub(of.chosen.load(Ordering::Relaxed));
        // Spreads the checks over the expected answers; if these are unknown or few, the first ones
        // are checked.
        let share = self.ratio.max(1.5 * owed as f64 / (left + 1) as f64);
        let chosen = share >= 1.0 || unit_interval(mix(entropy)) < share;
        of.chosen.fetch_add(u64::from(chosen), Ordering::Relaxed);
        chosen
    }

    /// Defers an answer until the end of the phase, or checks it now if too many are deferred.
    pub(super) fn check_or_defer(
        &self,
        workload: &dyn Workload,
        ledger: &Ledger,
        (query, before): (Query, Before),
        answer: Rows,
        statement: String,
    ) {
        let points = answer.points() + 1;
        let deferred = Deferred { query, answer, before, statement };
        let mut inner = lock(&self.inner);
        // During writes the expected answer changes: the answer is checked at once.
        if deferred.before.is_quiet() && inner.points + points <= DEFERRED_POINTS_MAX {
            inner.points += points;
            inner.deferred.push(deferred);
            return;
        }
        drop(inner);
        self.check(workload, ledger, &deferred);
    }

    fn check(&self, workload: &dyn Workload, ledger: &Ledger, deferred: &Deferred) {
        let cpu = proc::thread_cpu_s();
        let verdict = oracle::check(workload, &deferred.query, &deferred.answer, &ledger.view(&deferred.before));
        let cpu = proc::thread_cpu_s() - cpu;
        let mut inner = lock(&self.inner);
        inner.cpu_s += cpu;
        let kind = deferred.query.kind;
        inner.results[kind][0] += 1;
        match verdict {
            Verdict::Right => {}
            Verdict::Undecided => inner.results[kind][2] += 1,
            Verdict::Wrong(problem) => {
                inner.results[kind][1] += 1;
                let name = workload.kinds()[kind].name;
                if inner.findings.len() < FINDINGS_MAX {
                    inner.findings.push(format!("{name}: {problem}; query: {}", deferred.statement));
                }
            }
        }
    }

    /// Records an answer that could not be decoded, as a finding.
    pub(super) fn undecodable(&self, workload: &dyn Workload, kind: usize, message: &str) {
        let mut inner = lock(&self.inner);
        inner.results[kind][0] += 1;
        inner.results[kind][1] += 1;
        if inner.findings.len() < FINDINGS_MAX {
            inner.findings.push(format!("{}: the answer cannot be decoded: {message}", workload.kinds()[kind].name));
        }
    }

    /// Checks deferred answers. Returns results by kind, findings and CPU seconds.
    pub(super) fn results(&self, workload: &dyn Workload, ledger: &Ledger) -> (Vec<Checked>, Vec<String>, f64) {
        let deferred = {
            let mut inner = lock(&self.inner);
            inner.points = 0;
            std::mem::take(&mut inner.deferred)
        };
        deferred.iter().for_each(|deferred| self.check(workload, ledger, deferred));
        let inner = lock(&self.inner);
        let kinds = workload.kinds().iter().zip(&inner.results).zip(&self.kinds);
        let checked = kinds
            .map(|((kind, [checked, wrong, undecided]), of)| Checked {
                name: kind.name.to_owned(),
                answers: of.answers.load(Ordering::Relaxed),
                checked: *checked,
                wrong: *wrong,
                undecided: *undecided,
            })
            .collect();
        (checked, inner.findings.clone(), inner.cpu_s)
    }
}
