//! Merges the members' results into one, as if a single tool had done all the work.
//!
//! Members start together, so that seconds since the start mean the same in all of them. Counts are
//! added. Latencies come from the merged histograms. Quantiles without a histogram (of single
//! seconds, and of service times in an open loop) cannot be added: the greatest of the members'
//! quantiles is taken, an upper bound of the true one.
//!
//! Members with the same target URL saw the same server: the greatest of their CPU times and byte
//! counts is taken. These are added over different targets.

use std::collections::BTreeMap;

use crate::engine::histogram;
use crate::error::{Error, Result};
use crate::measure::histogram as text;
use crate::result::{
    Checked, Failure, Latency, OperationResult, PhaseResult, RunResult, Second, ServerResult, Verification,
};

/// Merges the results of a run's members, in the order of their indices; at least one.
///
/// # Errors
/// The results are of different runs (other phases or operation kinds), or a histogram cannot be
/// decoded.
pub(crate) fn merge(results: Vec<RunResult>) -> Result<RunResult> {
    let first = results.first().ok_or_else(|| Error::setup("no results to merge"))?;
    let mut merged = first.clone();
    if results.len() == 1 {
        return Ok(merged);
    }
    merged.started = results.iter().map(|run| run.started.clone()).min().unwrap_or_default();
    merged.schema_s = greatest(results.iter().map(|run| run.schema_s));
    merged.target.url = distinct(results.iter().map(|run| run.target.url.as_str())).join(", ");
    for (key, value) in &mut merged.configuration {
        if key == "BENCHMARK_INDEX" {
            *value = format!("0 to {}", results.len() - 1);
        }
    }
    merged.phases = phases(&results)?;
    merged.seconds = seconds(&results);
    merged.server = server(&results);
    merged.verification = verification(&results);
    merged.failures = failures(&results);
    merged.notes = notes(&results);
    let stops = numbered(&results).filter_map(|(member, run)| run.stopped.as_ref().map(|why| (member, why)));
    merged.stopped = stops.map(|(member, why)| format!("member {member}: {why}")).reduce(|all, one| all + "; " + &one);
    // Resource samples are of one host and its clock: they cannot be added.
    let sees = |run: &&RunResult| run.resources.iter().any(|sample| sample.server_cpu_s.is_some());
    let (sampler, sampled) = numbered(&results).find(|(_, run)| sees(run)).unwrap_or((0, first));
    merged.resources.clone_from(&sampled.resources);
    merged.machine = sampled.machine.clone();
    merged.notes.push(format!("{} members; machine and resource samples are of member {sampler}", results.len()));
    Ok(merged)
}

fn numbered(results: &[RunResult]) -> impl Iterator<Item = (usize, &RunResult)> {
    results.iter().enumerate()
}

fn greatest(numbers: impl Iterator<Item = f64>) -> f64 {
    numbers.fold(0.0, f64::max)
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    texts.for_each(|text| {
        if !seen.contains(&text) {
            seen.push(text);
        }
    });
    seen
}

/// Greatest value per server, added over servers.
fn sum_over_servers<'a>(seen: impl Iterator<Item = (&'a RunResult, f64)>) -> f64 {
    let mut by_server: BTreeMap<&str, f64> = BTreeMap::new();
    for (run, number) in seen {
        let known = by_server.entry(&run.target.url).or_default();
        *known = known.max(number);
    }
    by_server.values().sum()
}

fn phases(results: &[RunResult]) -> Result<Vec<PhaseResult>> {
    let most = results.iter().map(|run| run.phases.len()).max().unwrap_or(0);
    (0..most).map(|number| phase(results, number)).collect()
}

fn phase(results: &[RunResult], number: usize) -> Result<PhaseResult> {
    let parts: Vec<(&RunResult, &PhaseResult)> =
        results.iter().filter_map(|run| run.phases.get(number).map(|phase| (run, phase))).collect();
    let phases = || parts.iter().map(|(_, phase)| *phase);
    let names = distinct(phases().map(|phase| phase.name.as_str()));
    if names.len() > 1 {
        return Err(Error::protocol(format!("members disagree on the name of phase {number}: {}", names.join(", "))));
    }
    let mut merged = parts[0].1.clone();
    let busy = || phases().filter(|phase| phase.elapsed_s > 0.0);
    merged.clients = phases().map(|phase| phase.clients).sum();
    merged.rate = phases().map(|phase| phase.rate).sum();
    merged.began_s = busy().map(|phase| phase.began_s).reduce(f64::min).unwrap_or(merged.began_s);
    merged.elapsed_s = greatest(busy().map(|phase| phase.began_s + phase.elapsed_s - merged.began_s));
    merged.client_cpu_s = phases().map(|phase| phase.client_cpu_s).sum();
    let seen = parts.iter().filter_map(|(run, phase)| phase.server_cpu_s.map(|cpu| (*run, cpu)));
    merged.server_cpu_s = phases().any(|phase| phase.server_cpu_s.is_some()).then(|| sum_over_servers(seen));
    merged.client_bound = phases().any(|phase| phase.client_bound);
    if let Some((member, bound)) = phases().enumerate().find(|(_, phase)| phase.client_bound) {
        merged.client_bound_why = format!("member {member}: {}", bound.client_bound_why);
    }
    let kinds = merged.operations.len();
    if phases().any(|phase| phase.operations.len() != kinds) {
        return Err(Error::protocol(format!(
            "members disagree on the number of operation kinds in phase {:?}",
            merged.name
        )));
    }
    merged.operations = (0..kinds)
        .map(|kind| {
            let of: Vec<&OperationResult> = phases().map(|phase| &phase.operations[kind]).collect();
            operation(&of, merged.elapsed_s, merged.rate > 0.0)
        })
        .collect::<Result<_>>()?;
    Ok(merged)
}

fn operation(of: &[&OperationResult], elapsed_s: f64, open_loop: bool) -> Result<OperationResult> {
    let mut merged = of[0].clone();
    merged.ok = of.iter().map(|o| o.ok).sum();
    merged.ok_points = of.iter().map(|o| o.ok_points).sum();
    merged.failed = of.iter().map(|o| o.failed).sum();
    merged.failed_points = of.iter().map(|o| o.failed_points).sum();
    merged.throughput = if elapsed_s > 0.0 { merged.ok_points as f64 / elapsed_s } else { 0.0 };
    merged.example = of.iter().find_map(|o| o.example.clone());
    merged.note = of.iter().find_map(|o| o.note.clone());
    let mut all = histogram::empty();
    for part in of {
        if part.histogram.is_empty() {
            continue;
        }
        let part = text::from_text(&part.histogram)
            .ok_or_else(|| Error::protocol(format!("{}: a histogram cannot be read", merged.name)))?;
        all.add(&part).map_err(|error| Error::protocol(format!("{}: histograms: {error:?}", merged.name)))?;
    }
    merged.histogram = text::to_text(&all);
    merged.latency_ms = histogram::latency(&all);
    merged.latency_ms.avg = mean(of.iter().map(|o| (o.latency_ms.avg, o.ok)));
    merged.latency_ms.slowest_thread = greatest(of.iter().map(|o| o.latency_ms.slowest_thread));
    let service = of.iter().map(|o| (&o.service_ms, o.ok));
    merged.service_ms = if open_loop {
        bound(service)
    } else {
        // In a closed loop a request is due when it is sent: latency and service time are equal.
        let (avg, slowest_thread) = (mean(service.map(|(l, n)| (l.avg, n))), merged.service_ms.slowest_thread);
        Latency { avg, slowest_thread, ..merged.latency_ms.clone() }
    };
    Ok(merged)
}

/// Mean of means, weighted by their counts.
fn mean(parts: impl Iterator<Item = (f64, u64)>) -> f64 {
    let (sum, count) = parts.fold((0.0, 0), |(sum, count), (mean, n)| (sum + mean * n as f64, count + n));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Upper bounds of the quantiles; mean, minimum and maximum are exact.
fn bound<'a>(parts: impl Iterator<Item = (&'a Latency, u64)>) -> Latency {
    let parts: Vec<(&Latency, u64)> = parts.filter(|(_, count)| *count > 0).collect();
    let most = |of: fn(&Latency) -> f64| greatest(parts.iter().map(|(latency, _)| of(latency)));
    Latency {
        avg: mean(parts.iter().map(|(latency, count)| (latency.avg, *count))),
        min: parts.iter().map(|(latency, _)| latency.min).reduce(f64::min).unwrap_or(0.0),
        p10: most(|l| l.p10),
        p25: most(|l| l.p25),
        median: most(|l| l.median),
        p75: most(|l| l.p75),
        p90: most(|l| l.p90),
        p95: most(|l| l.p95),
        p99: most(|l| l.p99),
        p999: most(|l| l.p999),
        max: most(|l| l.max),
        slowest_thread: most(|l| l.slowest_thread),
    }
}

fn seconds(results: &[RunResult]) -> Vec<Second> {
    let mut merged: BTreeMap<(u32, u32, u32), Second> = BTreeMap::new();
    for second in results.iter().flat_map(|run| &run.seconds) {
        let key = (second.phase, second.at_s, second.kind);
        let Some(sum) = merged.get_mut(&key) else {
            merged.insert(key, second.clone());
            continue;
        };
        sum.ok += second.ok;
        sum.points += second.points;
        sum.failed += second.failed;
        sum.p50_ms = sum.p50_ms.max(second.p50_ms);
        sum.p99_ms = sum.p99_ms.max(second.p99_ms);
        sum.max_ms = sum.max_ms.max(second.max_ms);
    }
    merged.into_values().collect()
}

fn server(results: &[RunResult]) -> Option<ServerResult> {
    let parts: Vec<(&RunResult, &ServerResult)> =
        results.iter().filter_map(|run| run.server.as_ref().map(|server| (run, server))).collect();
    let over = |of: fn(&ServerResult) -> f64| sum_over_servers(parts.iter().map(|(run, server)| (*run, of(server))));
    let mut merged = parts.first()?.1.clone();
    merged.write_cpu_s = over(|s| s.write_cpu_s);
    merged.points = parts.iter().map(|(_, server)| server.points).sum();
    merged.settled_bytes = over(|s| s.settled_bytes as f64) as u64;
    merged.rss_bytes_max = over(|s| s.rss_bytes_max as f64) as u64;
    merged.written_bytes = over(|s| s.written_bytes as f64) as u64;
    merged.settling_s = greatest(parts.iter().map(|(_, server)| server.settling_s));
    merged.settled = parts.iter().all(|(_, server)| server.settled);
    let points = merged.points as f64;
    merged.points_per_cpu_s = if merged.write_cpu_s > 0.0 { points / merged.write_cpu_s } else { 0.0 };
    merged.bytes_per_point = if points > 0.0 { merged.settled_bytes as f64 / points } else { 0.0 };
    let lags: Vec<&Latency> = parts.iter().filter_map(|(_, server)| server.lag_ms.as_ref()).collect();
    merged.lag_ms = (!lags.is_empty()).then(|| bound(lags.iter().map(|lag| (*lag, 1))));
    let fsyncs: Vec<&Latency> = parts.iter().filter_map(|(_, server)| server.fsync_ms.as_ref()).collect();
    merged.fsync_ms = (!fsyncs.is_empty()).then(|| bound(fsyncs.iter().map(|fsync| (*fsync, 1))));
    Some(merged)
}

fn verification(results: &[RunResult]) -> Verification {
    let parts = || results.iter().map(|run| &run.verification);
    let sum = |of: fn(&Verification) -> u64| parts().map(of).sum();
    let mut answers: Vec<Checked> = Vec::new();
    for checked in parts().flat_map(|part| &part.answers) {
        match answers.iter_mut().find(|known| known.name == checked.name) {
            None => answers.push(checked.clone()),
            Some(known) => {
                known.answers += checked.answers;
                known.checked += checked.checked;
                known.wrong += checked.wrong;
                known.undecided += checked.undecided;
            }
        }
    }
    let findings = numbered(results).flat_map(|(member, run)| {
        run.verification.findings.iter().map(move |finding| format!("member {member}: {finding}"))
    });
    Verification {
        on: parts().all(|part| part.on),
        passed: parts().all(|part| part.passed),
        answers,
        devices: sum(|part| part.devices),
        points_expected: sum(|part| part.points_expected),
        points_found: sum(|part| part.points_found),
        points_unknown: sum(|part| part.points_unknown),
        lost: sum(|part| part.lost),
        surplus: sum(|part| part.surplus),
        cpu_s: parts().map(|part| part.cpu_s).sum(),
        findings: findings.collect(),
    }
}

fn failures(results: &[RunResult]) -> Vec<Failure> {
    let mut merged: Vec<Failure> = Vec::new();
    for failure in results.iter().flat_map(|run| &run.failures) {
        let same = |known: &&mut Failure| known.operation == failure.operation && known.class == failure.class;
        match merged.iter_mut().find(same) {
            Some(known) => known.count += failure.count,
            None => merged.push(failure.clone()),
        }
    }
    merged
}

/// Notes that all members have, once; other notes with the number of their member.
fn notes(results: &[RunResult]) -> Vec<String> {
    let mut merged = Vec::new();
    for (member, run) in numbered(results) {
        for note in &run.notes {
            let by_all = results.iter().all(|other| other.notes.contains(note));
            let line = if by_all { note.clone() } else { format!("member {member}: {note}") };
            if !merged.contains(&line) {
                merged.push(line);
            }
        }
    }
    merged
}
