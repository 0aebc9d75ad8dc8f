//! Distributed runs: members start together, results are merged, strangers are refused, lost
//! members are reported.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::engine::histogram;
use crate::error::{Class, Result};
use crate::generate::{at, below};
use crate::result::{
    Checked, Failure, Latency, OperationResult, PhaseResult, ResourceSample, Second, ServerResult, TargetResult,
    Verification,
};

fn identity() -> Identity {
    Identity::new("iot", &Config::default(), String::new())
}

/// A stop flag that lives as long as the process.
fn flag() -> &'static AtomicBool {
    Box::leak(Box::new(AtomicBool::new(false)))
}

/// Starts a coordinator on a free port; returns its address and the thread that returns its
/// results.
fn coordinator(members: u64, stop: &'static AtomicBool) -> (String, std::thread::JoinHandle<Result<ClusterResults>>) {
    let coordinator = Coordinator::bind("127.0.0.1:0", members, "open sesame", identity()).expect("a free port");
    let coordinator = coordinator.patience(Duration::from_secs(20));
    let address = coordinator.address().expect("bound").to_string();
    (address, std::thread::spawn(move || coordinator.run(stop, &mut |_| {})))
}

fn join(address: &str) -> Member {
    Member::join(address, "open sesame", &identity(), flag()).expect("a seat")
}

fn result_of(member: &Member) -> Result<RunResult> {
    let mut phase = PhaseResult { name: "write".to_owned(), elapsed_s: 1.0, ..PhaseResult::default() };
    phase.operations = vec![OperationResult { ok: member.index + 1, ..OperationResult::default() }];
    Ok(RunResult { phases: vec![phase], ..RunResult::default() })
}

#[test]
fn members_pass_points_together_and_their_results_come_in_order() {
    let (address, gathered) = coordinator(3, flag());
    let arrived = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let work = |delay: u64| {
        let (address, arrived) = (address.clone(), Arc::clone(&arrived));
        std::thread::spawn(move || {
            let member = join(&address);
            for (number, point) in ["created", "begin write"].into_iter().enumerate() {
                std::thread::sleep(Duration::from_millis(delay));
                arrived[number].fetch_add(1, Ordering::SeqCst);
                member.wait_at(point).expect("all come");
                assert_eq!(arrived[number].load(Ordering::SeqCst), 3, "passed {point} before all had come");
            }
            member.finish(&result_of(&member)).expect("arrived");
            (member.index, member.members)
        })
    };
    let threads: Vec<_> = [0, 30, 90].into_iter().map(work).collect();
    let mut seats: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    seats.sort_unstable();
    assert_eq!(seats, [(0, 3), (1, 3), (2, 3)]);
    let gathered = gathered.join().expect("no panic").expect("gathered");
    let counts: Vec<u64> = gathered.results.iter().map(|run| run.phases[0].operations[0].ok).collect();
    assert_eq!((counts, gathered.missing.len()), (vec![1, 2, 3], 0));
    let note = gathered.notes.last().expect("a note of the skew");
    assert!(note.starts_with("3 members passed 2 points together, at most "), "{note}");
}

#[test]
fn members_start_within_milliseconds_of_each_other() {
    let (address, gathered) = coordinator(4, flag());
    let begin = |_| {
        let address = address.clone();
        std::thread::spawn(move || {
            let member = join(&address);
            member.wait_at("begin").expect("all come");
            let began = Instant::now();
            member.finish(&result_of(&member)).expect("arrived");
            began
        })
    };
    let threads: Vec<_> = (0..4).map(begin).collect();
    let starts: Vec<Instant> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    let (first, last) = (starts.iter().min().expect("4"), starts.iter().max().expect("4"));
    // A wide margin: other tests use the machine at the same time.
    assert!(*last - *first < Duration::from_millis(250), "{:?}", *last - *first);
    assert!(gathered.join().expect("no panic").expect("gathered").missing.is_empty());
}

#[test]
fn member_with_other_settings_is_refused_with_the_difference() {
    let (address, gathered) = coordinator(1, flag());
    let refusal = |token: &str, identity: &Identity| {
        let error = Member::join(&address, token, identity, flag()).expect_err("refused");
        assert_eq!(error.class, Class::Setup);
        error.to_string()
    };
    assert!(refusal("guess", &identity()).ends_with("the token differs"));
    let mut config = Config::default();
    config.set_text("LOOP=7").expect("known");
    config.set_text("BENCHMARK_INDEX=7").expect("known");
    config.set_text("PORT=1").expect("known");
    let refused = refusal("open sesame", &Identity::new("iot", &config, String::new()));
    assert!(refused.ends_with("refuses this member: LOOP=7, the coordinator has 100"), "{refused}");
    let refused = refusal("open sesame", &Identity::new("tsbs", &Config::default(), String::new()));
    assert!(refused.ends_with("workload tsbs, the coordinator has iot"), "{refused}");
    let refused = refusal("open sesame", &Identity { version: "9.9.9".to_owned(), ..identity() });
    assert!(refused.contains("version 9.9.9"), "{refused}");

    let member = join(&address);
    let refused = refusal("open sesame", &identity());
    assert!(refused.ends_with("all 1 members have joined"), "{refused}");
    member.finish(&result_of(&member)).expect("arrived");
    let gathered = gathered.join().expect("no panic").expect("gathered");
    assert_eq!(gathered.notes.iter().filter(|note| note.starts_with("refused 127.0.0.1:")).count(), 5);
}

#[test]
fn passwords_are_not_sent() {
    let mut config = Config::default();
    config.set_text("PASSWORD=hunter2").expect("known");
    let text = serde_json::to_string(&Identity::new("iot", &config, String::new())).expect("json");
    assert!(text.contains("PASSWORD") && !text.contains("hunter2"), "{text}");
}

#[test]
fn lost_member_is_reported_and_the_others_continue() {
    let (address, gathered) = coordinator(3, flag());
    let lost = join(&address);
    let others: Vec<_> = (0..2)
        .map(|_| {
            let member = join(&address);
            std::thread::spawn(move || {
                member.wait_at("one").expect("all come");
                member.wait_at("two").expect("those left come");
                member.finish(&result_of(&member)).expect("arrived");
            })
        })
        .collect();
    lost.wait_at("one").expect("all come");
    drop(lost);
    others.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let gathered = gathered.join().expect("no panic").expect("gathered");
    assert_eq!(gathered.results.len(), 2);
    assert_eq!(gathered.missing.len(), 1);
    assert!(gathered.missing[0].starts_with("member 0 (127.0.0.1:"), "{:?}", gathered.missing);
    assert!(gathered.missing[0].contains("was lost"), "{:?}", gathered.missing);
}

#[test]
fn a_member_that_failed_or_left_is_not_waited_for() {
    let (address, gathered) = coordinator(3, flag());
    let (stays, leaves, fails) = (join(&address), join(&address), join(&address));
    leaves.leave().expect("sent");
    fails.finish(&Err(crate::error::Error::setup("no disk"))).expect("arrived");
    leaves.wait_at("anywhere").expect("passes at once");
    stays.wait_at("one").expect("nobody else is waited for");
    stays.finish(&result_of(&stays)).expect("arrived");
    leaves.finish(&result_of(&leaves)).expect("arrived");
    let gathered = gathered.join().expect("no panic").expect("gathered");
    assert_eq!(gathered.results.len(), 2);
    assert!(gathered.missing[0].ends_with("failed: no disk"), "{:?}", gathered.missing);
}

#[test]
fn members_at_different_points_fail_with_the_reason() {
    let (address, gathered) = coordinator(2, flag());
    let (one, two) = (join(&address), join(&address));
    let waits = std::thread::spawn(move || one.wait_at("here").expect_err("the other is elsewhere").to_string());
    assert!(two.wait_at("there").is_err());
    assert!(waits.join().expect("no panic").contains("waiting for the other members at \"here\""));
    let error = gathered.join().expect("no panic").expect_err("no result").to_string();
    assert!(error.contains("members wait at different points: here, there"), "{error}");
}

#[test]
fn a_stop_at_the_coordinator_stops_the_members() {
    let stop = flag();
    let (address, gathered) = coordinator(1, stop);
    let stopped = flag();
    let member = Member::join(&address, "open sesame", &identity(), stopped).expect("a seat");
    member.wait_at("begin").expect("all come");
    stop.store(true, Ordering::Relaxed);
    let began = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        assert!(began.elapsed() < Duration::from_secs(20), "the stop never arrived");
        std::thread::sleep(Duration::from_millis(5));
    }
    member.finish(&result_of(&member)).expect("arrived");
    assert_eq!(gathered.join().expect("no panic").expect("gathered").results.len(), 1);
}

#[test]
fn unauthenticated_connections_are_closed_without_effect() {
    let (address, gathered) = coordinator(1, flag());
    let closed = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&address).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        // The coordinator may close the connection during the write.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let outcome = stream.read_to_end(&mut answer);
        let reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
        assert!(outcome.is_ok() || outcome.as_ref().is_err_and(reset), "not closed: {outcome:?}");
        assert!(answer.is_empty());
    };
    closed(b"GET / HTTP/1.1\r\n\r\n");
    closed(b"{\"at\":{\"point\":\"begin\"}}\n");
    closed(&vec![b'x'; HELLO_BYTES_MAX + 2]);
    closed(&[b"{\"hello\":".as_slice(), &[b'['; 10_000], b"\n"].concat());
    let member = join(&address);
    member.finish(&result_of(&member)).expect("arrived");
    assert_eq!(gathered.join().expect("no panic").expect("gathered").results.len(), 1);
}

#[test]
fn too_few_members_end_in_an_error_that_counts_them() {
    let coordinator = Coordinator::bind("127.0.0.1:0", 2, "open sesame", identity()).expect("a free port");
    let coordinator = coordinator.patience(Duration::from_millis(300));
    let address = coordinator.address().expect("bound").to_string();
    let waits = std::thread::spawn(move || coordinator.run(flag(), &mut |_| {}));
    let member = join(&address);
    let error = waits.join().expect("no panic").expect_err("too few").to_string();
    assert!(error.starts_with("1 of 2 members joined"), "{error}");
    assert!(member.wait_at("begin").is_err(), "the coordinator is gone");
}

#[test]
fn addresses_are_on_loopback_unless_one_is_named() {
    for (given, address_) in
        [("7777", "127.0.0.1:7777"), (":7777", "127.0.0.1:7777"), ("0.0.0.0:1", "0.0.0.0:1"), ("h:2", "h:2")]
    {
        assert_eq!(address(given), address_);
    }
}

/// One operation, as measured by a client.
struct Sample {
    member: usize,
    kind: usize,
    second: u32,
    nanos: u64,
    points: u64,
    ok: bool,
}

const KINDS: usize = 3;

fn samples() -> Vec<Sample> {
    let sample = |n: u64| Sample {
        member: below(at(1, n, 0, 0), 3) as usize,
        kind: below(at(1, n, 1, 0), KINDS as u64) as usize,
        second: below(at(1, n, 2, 0), 5) as u32,
        nanos: 1_000 + below(at(1, n, 3, 0), 1 << (10 + below(at(1, n, 4, 0), 25))),
        points: 1 + below(at(1, n, 5, 0), 1_000),
        ok: below(at(1, n, 6, 0), 50) > 0,
    };
    (0..20_000).map(sample).collect()
}

/// The result of a tool that measured `samples`.
fn recorded<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> RunResult {
    let operation = |kind: usize| {
        let of = || samples.clone().filter(move |sample| sample.kind == kind);
        let mut latency = histogram::empty();
        of().filter(|sample| sample.ok).for_each(|sample| latency.saturating_record(sample.nanos));
        let sum = |what: fn(&Sample) -> u64, ok: bool| of().filter(|s| s.ok == ok).map(what).sum::<u64>();
        let (ok, total) = (sum(|_| 1, true), sum(|s| s.nanos, true));
        let mut latency_ms = histogram::latency(&latency);
        latency_ms.avg = total as f64 / 1e6 / ok as f64;
        OperationResult {
            name: format!("KIND_{kind}"),
            ok,
            ok_points: sum(|s| s.points, true),
            failed: sum(|_| 1, false),
            failed_points: sum(|s| s.points, false),
            throughput: sum(|s| s.points, true) as f64 / 5.0,
            service_ms: latency_ms.clone(),
            latency_ms,
            histogram: crate::measure::histogram::to_text(&latency),
            ..OperationResult::default()
        }
    };
    let mut seconds = Vec::new();
    for at_s in 0..5 {
        for kind in 0..KINDS {
            let of = || samples.clone().filter(move |sample| sample.kind == kind && sample.second == at_s);
            let count = |ok: bool| of().filter(|sample| sample.ok == ok).count() as u64;
            let points = of().filter(|sample| sample.ok).map(|sample| sample.points).sum();
            let max_ms = of().filter(|s| s.ok).map(|s| s.nanos as f64 / 1e6).fold(0.0, f64::max);
            let (ok, failed) = (count(true), count(false));
            let second = Second { at_s, phase: 0, kind: kind as u32, ok, points, failed, max_ms, ..Second::default() };
            seconds.push(second);
        }
    }
    let phase = PhaseResult {
        name: "mixed".to_owned(),
        clients: 4,
        elapsed_s: 5.0,
        operations: (0..KINDS).map(operation).collect(),
        ..PhaseResult::default()
    };
    RunResult { phases: vec![phase], seconds, ..RunResult::default() }
}

#[test]
fn merged_results_equal_one_recording_of_all_samples() {
    let samples = samples();
    let members = (0..3).map(|member| recorded(samples.iter().filter(move |sample| sample.member == member)));
    let merged = merge(members.collect()).expect("mergeable");
    let whole = recorded(samples.iter());
    assert_eq!(merged.phases[0].clients, 12);
    for (merged, whole) in merged.phases[0].operations.iter().zip(&whole.phases[0].operations) {
        let counts = |o: &OperationResult| (o.ok, o.ok_points, o.failed, o.failed_points);
        assert_eq!(counts(merged), counts(whole));
        assert_eq!(merged.histogram, whole.histogram, "{}", whole.name);
        let quantiles = |l: &Latency| [l.min, l.p10, l.p25, l.median, l.p75, l.p90, l.p95, l.p99, l.p999, l.max];
        assert_eq!(quantiles(&merged.latency_ms), quantiles(&whole.latency_ms), "{}", whole.name);
        assert_eq!(quantiles(&merged.service_ms), quantiles(&whole.service_ms), "a closed loop has one clock");
        assert!((merged.latency_ms.avg / whole.latency_ms.avg - 1.0).abs() < 1e-12);
        assert!((merged.throughput / whole.throughput - 1.0).abs() < 1e-12);
    }
    assert_eq!(merged.seconds.len(), whole.seconds.len());
    for (merged, whole) in merged.seconds.iter().zip(&whole.seconds) {
        let all = |s: &Second| (s.phase, s.at_s, s.kind, s.ok, s.points, s.failed, s.max_ms.to_bits());
        assert_eq!(all(merged), all(whole));
    }
}

#[test]
fn quantiles_that_cannot_be_added_are_bounded_by_the_greatest() {
    let of = |median: f64, count: u64| OperationResult {
        ok: count,
        service_ms: Latency { avg: median, min: median, median, max: median, ..Latency::default() },
        ..OperationResult::default()
    };
    let run = |median: f64, count| {
        let operations = vec![of(median, count)];
        RunResult {
            phases: vec![PhaseResult { rate: 5.0, operations, ..PhaseResult::default() }],
            ..RunResult::default()
        }
    };
    let merged = merge(vec![run(1.0, 30), run(3.0, 10), run(99.0, 0)]).expect("mergeable");
    let service = &merged.phases[0].operations[0].service_ms;
    assert_eq!((service.avg, service.min, service.median, service.max), (1.5, 1.0, 3.0, 3.0));
    assert_eq!(merged.phases[0].rate, 15.0);
}

#[test]
fn phase_spans_first_start_to_last_end() {
    let run = |began_s: f64, elapsed_s: f64, points: u64| {
        let operations = vec![OperationResult { ok: 1, ok_points: points, ..OperationResult::default() }];
        let phase = PhaseResult { began_s, elapsed_s, operations, ..PhaseResult::default() };
        RunResult { phases: vec![phase], ..RunResult::default() }
    };
    let merged = merge(vec![run(1.0, 4.0, 100), run(0.5, 2.0, 200), run(9.0, 0.0, 0)]).expect("mergeable");
    let phase = &merged.phases[0];
    assert_eq!((phase.began_s, phase.elapsed_s), (0.5, 4.5));
    assert_eq!(phase.operations[0].throughput, 300.0 / 4.5);
}

#[test]
fn one_server_seen_by_several_members_is_counted_once() {
    let run = |url: &str, cpu: f64| RunResult {
        target: TargetResult { url: url.to_owned(), ..TargetResult::default() },
        phases: vec![PhaseResult { server_cpu_s: Some(cpu), client_cpu_s: 1.0, ..PhaseResult::default() }],
        server: Some(ServerResult {
            write_cpu_s: cpu,
            points: 1_000,
            settled_bytes: 500,
            settled: true,
            ..ServerResult::default()
        }),
        ..RunResult::default()
    };
    let merged = merge(vec![run("a", 10.0), run("a", 12.0), run("b", 5.0)]).expect("mergeable");
    assert_eq!((merged.phases[0].server_cpu_s, merged.phases[0].client_cpu_s), (Some(17.0), 3.0));
    let server = merged.server.expect("seen");
    assert_eq!((server.write_cpu_s, server.points, server.settled_bytes), (17.0, 3_000, 1_000));
    assert_eq!((server.points_per_cpu_s, server.bytes_per_point), (3_000.0 / 17.0, 1.0 / 3.0));
    assert_eq!(merged.target.url, "a, b");
    let unseen = merge(vec![RunResult::default(), RunResult::default()]).expect("mergeable");
    assert!(unseen.server.is_none());
}

#[test]
fn one_failed_verification_fails_the_merged_result() {
    let run = |passed: bool, finding: &str| RunResult {
        verification: Verification {
            on: true,
            passed,
            answers: vec![Checked { name: "Q".to_owned(), answers: 10, checked: 5, ..Checked::default() }],
            lost: u64::from(!passed),
            findings: (!passed).then(|| finding.to_owned()).into_iter().collect(),
            ..Verification::default()
        },
        failures: vec![Failure {
            operation: "Q".to_owned(),
            class: "timeout".to_owned(),
            count: 2,
            first: "x".to_owned(),
        }],
        notes: vec!["same".to_owned(), finding.to_owned()],
        stopped: (!passed).then(|| "Ctrl-C".to_owned()),
        ..RunResult::default()
    };
    let merged = merge(vec![run(true, "fine"), run(false, "d_1: lost")]).expect("mergeable");
    let verification = &merged.verification;
    assert!(!verification.passed && verification.on && verification.lost == 1);
    assert_eq!(verification.findings, ["member 1: d_1: lost"]);
    assert_eq!((verification.answers.len(), verification.answers[0].checked), (1, 10));
    assert_eq!((merged.failures.len(), merged.failures[0].count), (1, 4));
    assert_eq!(merged.notes[..3], ["same", "member 0: fine", "member 1: d_1: lost"]);
    assert_eq!(merged.stopped.as_deref(), Some("member 1: Ctrl-C"));
}

#[test]
fn results_of_different_runs_are_not_merged() {
    let named = |name: &str| RunResult {
        phases: vec![PhaseResult { name: name.to_owned(), ..PhaseResult::default() }],
        ..RunResult::default()
    };
    assert!(merge(Vec::new()).is_err());
    assert_eq!(merge(vec![named("write")]).expect("itself").phases[0].name, "write");
    let error = merge(vec![named("write"), named("mixed")]).expect_err("other phases").to_string();
    assert_eq!(error, "members disagree on the name of phase 0: write, mixed");
    let mut damaged = named("write");
    damaged.phases[0].operations = vec![OperationResult { histogram: "!".to_owned(), ..OperationResult::default() }];
    assert!(merge(vec![damaged.clone(), damaged]).is_err());
    // A member that stopped early has fewer phases.
    let mut two = named("write");
    two.phases.push(PhaseResult { name: "Q1".to_owned(), clients: 5, ..PhaseResult::default() });
    let merged = merge(vec![named("write"), two]).expect("mergeable");
    assert_eq!((merged.phases.len(), merged.phases[1].clients), (2, 5));
}

#[test]
fn resource_samples_are_taken_from_the_member_that_saw_the_server() {
    let run = |cpu| RunResult {
        resources: vec![ResourceSample { server_cpu_s: cpu, client_cpu_s: 1.0, ..ResourceSample::default() }],
        ..RunResult::default()
    };
    let merged = merge(vec![run(None), run(Some(3.0))]).expect("mergeable");
    assert_eq!(merged.resources[0].server_cpu_s, Some(3.0));
    assert!(merged.notes.last().expect("a note").ends_with("of member 1"));
}
