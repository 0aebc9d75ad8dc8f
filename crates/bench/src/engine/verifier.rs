//! Which answers are checked, and when: chosen after they came, so that nothing could be done differently for them.

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

/// Values in answers that may wait for the end of their phase; beyond, they are checked at once.
const WAITING_POINTS_MAX: u64 = 4 << 20;
/// Findings that are kept in full.
const FINDINGS_MAX: usize = 50;

pub(super) struct Verifier {
    on: bool,
    /// Least share of answers checked, and least number of each kind.
    ratio: f64,
    least: u64,
    /// The target may show a write later than it acknowledges it.
    pub(super) eventual: bool,
    kinds: Vec<OfKind>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct OfKind {
    /// Answers that will come, as far as is known.
    expected: AtomicU64,
    answers: AtomicU64,
    chosen: AtomicU64,
}

#[derive(Default)]
struct Inner {
    waiting: Vec<Waiting>,
    points: u64,
    results: Vec<[u64; 3]>,
    findings: Vec<String>,
    cpu_s: f64,
}

struct Waiting {
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
            least: config.verify_min,
            eventual,
            kinds: (0..kinds).map(|_| OfKind::default()).collect(),
            inner: Mutex::new(Inner { results: vec![[0; 3]; kinds], ..Inner::default() }),
        }
    }

    /// How many answers of each kind a phase will bring, as far as its plan says.
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

    /// Is the answer that just came to be checked?
    pub(super) fn chooses(&self, kind: usize, entropy: u64) -> bool {
        let of = &self.kinds[kind];
        let answers = of.answers.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.on {
            return false;
        }
        let expected = of.expected.load(Ordering::Relaxed);
        let left = expected.saturating_sub(answers);
        let owed = self.least.saturating_sub(of.chosen.load(Ordering::Relaxed));
        // Spread over what is expected; where that is not known or is few, the first ones.
        let share = self.ratio.max(1.5 * owed as f64 / (left + 1) as f64);
        let chosen = share >= 1.0 || unit_interval(mix(entropy)) < share;
        of.chosen.fetch_add(u64::from(chosen), Ordering::Relaxed);
        chosen
    }

    /// Keeps an answer for later, or checks it now if too much is kept.
    pub(super) fn take(
        &self,
        workload: &dyn Workload,
        ledger: &Ledger,
        (query, before): (Query, Before),
        answer: Rows,
        statement: String,
    ) {
        let points = answer.points() + 1;
        let waiting = Waiting { query, answer, before, statement };
        let mut inner = lock(&self.inner);
        // While somebody writes, what an answer may show changes: it is checked at once.
        if waiting.before.is_quiet() && inner.points + points <= WAITING_POINTS_MAX {
            inner.points += points;
            inner.waiting.push(waiting);
            return;
        }
        drop(inner);
        self.check(workload, ledger, &waiting);
    }

    fn check(&self, workload: &dyn Workload, ledger: &Ledger, waiting: &Waiting) {
        let cpu = proc::thread_cpu_s();
        let verdict = oracle::check(workload, &waiting.query, &waiting.answer, &ledger.view(&waiting.before));
        let cpu = proc::thread_cpu_s() - cpu;
        let mut inner = lock(&self.inner);
        inner.cpu_s += cpu;
        let kind = waiting.query.kind;
        inner.results[kind][0] += 1;
        match verdict {
            Verdict::Right => {}
            Verdict::Undecided => inner.results[kind][2] += 1,
            Verdict::Wrong(problem) => {
                inner.results[kind][1] += 1;
                let name = workload.kinds()[kind].name;
                if inner.findings.len() < FINDINGS_MAX {
                    inner.findings.push(format!("{name}: {problem}; asked: {}", waiting.statement));
                }
            }
        }
    }

    /// An answer that could not be decoded is a finding.
    pub(super) fn undecodable(&self, workload: &dyn Workload, kind: usize, message: &str) {
        let mut inner = lock(&self.inner);
        inner.results[kind][0] += 1;
        inner.results[kind][1] += 1;
        if inner.findings.len() < FINDINGS_MAX {
            inner.findings.push(format!("{}: the answer cannot be read: {message}", workload.kinds()[kind].name));
        }
    }

    /// Checks what waits; results by kind, findings, CPU seconds.
    pub(super) fn results(&self, workload: &dyn Workload, ledger: &Ledger) -> (Vec<Checked>, Vec<String>, f64) {
        let waiting = {
            let mut inner = lock(&self.inner);
            inner.points = 0;
            std::mem::take(&mut inner.waiting)
        };
        waiting.iter().for_each(|waiting| self.check(workload, ledger, waiting));
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
