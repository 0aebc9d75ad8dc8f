//! Many runs in which the private server is killed (SIGKILL) at different times, each followed by
//! all checks.
//!
//! Only the restart time is measured. Once a check has found a transaction of unknown outcome, it
//! counts as acknowledged, so it must neither appear nor disappear later.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::check::{ExpectedState, Verdict};
use super::clients::ClientGroup;
use super::ledger::Ledger;
use super::report::{ErrorCount, Report};
use super::session::{Admin, Connector};
use super::{Settings, check_all};
use crate::error::Result;
use crate::report::format::{milliseconds, whole};
use crate::run::target_server::TargetServer;
use crate::run::{INTERRUPTED, Show};

/// Result of the kills.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Kills {
    /// Number of kills after which the server restarted and passed all checks.
    pub(crate) survived: u32,
    pub(crate) asked_for: u32,
    pub(crate) clients: usize,
    /// New orders acknowledged in all runs.
    pub(crate) new_orders: u64,
    /// Milliseconds from each kill until the server answered again.
    pub(crate) restart_ms: Vec<f64>,
    /// Failed attempts.
    pub(crate) errors: Vec<ErrorCount>,
}

/// Runs, kills, restarts and checks, until the number in the settings is reached or a check fails.
pub(super) fn run(
    settings: &Settings,
    connector: &Connector,
    target_server: &mut TargetServer,
    report: &mut Report,
    show: &mut dyn Show,
) -> Result<()> {
    let ledger = &Ledger::begin(&mut Admin::connect(connector, true)?, report.warehouses)?;
    let clients = settings.clients.first().copied().unwrap_or(1);
    let mut kills = Kills { asked_for: settings.kills, clients, ..Kills::default() };
    for cycle in 1..=settings.kills {
        let settings = &Settings { cycle, ..settings.clone() };
        let group = ClientGroup { settings, connector, ledger, clients, warehouses: report.warehouses };
        let point = group.run(target_server, show)?;
        point.errors.into_iter().for_each(|error| kills.count(error));
        kills.restart_ms.extend(point.outage.map(|outage| outage.restart_s * 1e3));
        let verdict = check_all(connector, &ExpectedState::Ledger(ledger), show, &format!("after kill {cycle}"))?;
        let passed = verdict.passed();
        report.after = Some(verdict);
        if !passed {
            break;
        }
        ledger.accept_tables(&mut Admin::connect(connector, true)?)?;
        kills.survived = cycle;
        if INTERRUPTED.load(Ordering::Relaxed) {
            report.notes.push("stopped by Ctrl-C; the results until then are checked and shown".to_owned());
            break;
        }
    }
    kills.new_orders = ledger.orders();
    report.kills = Some(kills);
    Ok(())
}

impl Kills {
    fn count(&mut self, error: ErrorCount) {
        let same = |one: &&mut ErrorCount| one.kind == error.kind && one.sqlstate == error.sqlstate;
        match self.errors.iter_mut().find(same) {
            Some(one) => one.count += error.count,
            None => self.errors.push(error),
        }
    }

    /// Renders the result for a terminal.
    pub(super) fn text(&self, after: Option<&Verdict>, out: &mut String) {
        let mut times = self.restart_ms.clone();
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times.get(((times.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or(0.0);
        let _ = writeln!(
            out,
            "\n{} of {} kills survived with all conditions and {} acknowledged new orders, {} clients",
            self.survived,
            self.asked_for,
            whole(self.new_orders),
            self.clients
        );
        let _ = writeln!(
            out,
            "  answered again after {} at the median, {} at most",
            milliseconds(at(0.5)),
            milliseconds(at(1.0))
        );
        if after.is_some_and(|verdict| !verdict.passed()) {
            let _ = writeln!(out, "  the check after kill {} FAILED", self.survived + 1);
        }
        for error in &self.errors {
            let _ =
                writeln!(out, "    {} {} x {}: {}", error.sqlstate, whole(error.count), error.kind, error.first.trim());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_are_counted_together_and_a_failed_check_is_shown() {
        let error = |state: &str, count| ErrorCount { sqlstate: state.to_owned(), count, ..ErrorCount::default() };
        let mut kills = Kills { survived: 6, asked_for: 9, restart_ms: vec![30.0, 10.0, 20.0], ..Kills::default() };
        [error("a", 1), error("b", 2), error("a", 40)].into_iter().for_each(|one| kills.count(one));
        let counts: Vec<u64> = kills.errors.iter().map(|error| error.count).collect();
        assert_eq!(counts, [41, 2]);
        let mut text = String::new();
        kills.text(Some(&Verdict::default()), &mut text);
        assert!(text.contains("6 of 9 kills") && text.contains("after kill 7 FAILED"), "{text}");
    }
}
