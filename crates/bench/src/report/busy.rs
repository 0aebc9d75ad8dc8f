//! Detects from a run's samples whether other programs kept the machine busy during the
//! measurement.

use super::format::percent;
use crate::result::RunResult;

/// Share of the machine's processors that other programs may use without a warning. Kernel work for
/// server and tool (write-back, interrupts) counts as other programs' work.
const OTHERS_SHARE_MAX: f64 = 0.15;
/// Shortest span of samples, in seconds, that is evaluated.
pub(crate) const SPAN_MIN_S: f64 = 2.0;

/// Heading of the warning.
pub(crate) const TITLE: &str = "This machine was busy";

/// Returns the processors that other programs used on average, and the machine's processors. `None`
/// if the samples do not allow it, for example because the server's processes cannot be inspected.
pub(crate) fn others(run: &RunResult) -> Option<(f64, f64)> {
    let (first, last) = (run.resources.first()?, run.resources.last()?);
    let span_s = last.at_s - first.at_s;
    let server_s = last.server_cpu_s? - first.server_cpu_s?;
    let tool_s = last.client_cpu_s - first.client_cpu_s;
    let all_s = last.host_cpu_s - first.host_cpu_s;
    let cpus = f64::from(run.machine.cpus);
    (span_s >= SPAN_MIN_S && cpus > 0.0).then(|| ((all_s - server_s - tool_s).max(0.0) / span_s, cpus))
}

/// Returns the share of other programs, if it exceeds the limit.
pub(crate) fn share(run: &RunResult) -> Option<f64> {
    others(run).and_then(|(others, cpus)| too_much(others, cpus))
}

/// Returns a warning for the reader of the figures, if the machine was busy.
pub(crate) fn warning(run: &RunResult) -> Option<String> {
    others(run).and_then(|(others, cpus)| sentence(others, cpus))
}

/// Returns the share `others / cpus`, if it exceeds the limit.
fn too_much(others: f64, cpus: f64) -> Option<f64> {
    Some(others / cpus).filter(|share| *share > OTHERS_SHARE_MAX)
}

/// Warning text if other programs used `others` of `cpus` processors on average; it follows
/// [`TITLE`].
pub(crate) fn sentence(others: f64, cpus: f64) -> Option<String> {
    let share = percent(too_much(others, cpus)?);
    Some(format!(
        "other programs used {others:.1} of {cpus} processors ({share}) while this ran; rates and latencies are worse than \
         on an idle machine, CPU figures less so"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Machine, ResourceSample};

    fn run(server_cpu_s: Option<f64>, host_cpu_s: f64) -> RunResult {
        let sample = |at_s: f64| ResourceSample {
            at_s,
            server_cpu_s: server_cpu_s.map(|cpu| cpu * at_s),
            client_cpu_s: 0.5 * at_s,
            host_cpu_s: host_cpu_s * at_s,
            ..ResourceSample::default()
        };
        let machine = Machine { cpus: 2, ..Machine::default() };
        RunResult { resources: vec![sample(0.0), sample(10.0)], machine, ..RunResult::default() }
    }

    #[test]
    fn a_machine_is_busy_if_other_programs_use_it() {
        let (others, cpus) = others(&run(Some(0.3), 2.0)).unwrap();
        assert!((others - 1.2).abs() < 1e-9 && cpus == 2.0);
        assert!(warning(&run(Some(0.3), 2.0)).unwrap().starts_with("other programs used 1.2 of 2 processors (60 %)"));
        assert_eq!(warning(&run(Some(1.3), 2.0)), None, "0.2 processors are the kernel's");
        assert_eq!(warning(&run(None, 2.0)), None, "a server that is not seen may be what uses them");
        assert_eq!(warning(&RunResult::default()), None);
    }
}
