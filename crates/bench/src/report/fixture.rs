//! Deterministic, synthetic run results for the tests of reports.

use hdrhistogram::Histogram;

use super::matrix::tests::KINDS;
use crate::config::Config;
use crate::generate;
use crate::measure::histogram;
use crate::result::{
    Checked, Failure, Latency, Machine, OperationResult, PhaseResult, RESULT_FORMAT, ResourceSample, RunResult, Second,
    ServerResult, TargetResult, Verification,
};

const WRITE_S: u32 = 60;
const BATCH_POINTS: u64 = 100 * 300;

/// Uniform in [0, 1).
fn uniform(a: u64, b: u64, c: u64) -> f64 {
    generate::unit_interval(generate::at(99, a, b, c))
}

/// Rounds to four decimals, like a clock; such numbers also survive JSON exactly.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// A run of the canonical workload: a minute of writing, then each query kind.
pub(crate) fn run(target: &str, speed: f64) -> RunResult {
    let mut builder = RunBuilder::new(target, speed);
    let requests = |second: u32| {
        let stall = if second % 20 == 13 { 0.35 } else { 1.0 };
        speed * stall * (220.0 + 40.0 * uniform(1, u64::from(second), 0))
    };
    builder.phase("write", &[0], WRITE_S, |_, second| requests(second));
    for (kind, names) in KINDS.iter().enumerate().skip(1) {
        builder.settle(2.0);
        let seconds = if kind == 5 { 9 } else { 2 };
        builder.phase(names.0, &[kind], seconds, |_, _| 200.0 / f64::from(seconds));
    }
    builder.finish()
}

/// A run of one hour with all kinds mixed.
pub(crate) fn hour() -> RunResult {
    let mut builder = RunBuilder::new("millrace", 1.0);
    let kinds: Vec<usize> = (0..KINDS.len()).collect();
    builder.phase("mixed", &kinds, 3600, |kind, second| {
        let rate = if kind == 0 { 300.0 } else { 4.0 + 3.0 * kind as f64 };
        rate * (0.8 + 0.4 * uniform(kind as u64, u64::from(second), 5))
    });
    builder.finish()
}

/// A run with wrong answers.
pub(crate) fn failed() -> RunResult {
    let mut run = run("questdb", 0.5);
    run.verification.passed = false;
    run.verification.lost = 30_000;
    run.verification.answers[1].wrong = 3;
    run.verification.findings = vec![
        "TIME_RANGE of d_17, s_3 in [1640966400000, 1640966650000): 49 rows, expected 50; missing 1640966415000"
            .to_owned(),
        "d_17: count 29700, expected 30000".to_owned(),
    ];
    run
}

/// A run in which every text attempts HTML injection.
pub(crate) fn hostile() -> RunResult {
    const BAD: &str = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;]]>--><!--";
    let mut run = run("millrace", 1.0);
    for text in [&mut run.tool, &mut run.started, &mut run.workload] {
        *text = BAD.to_owned();
    }
    let target = &mut run.target;
    for text in [
        &mut target.name,
        &mut target.url,
        &mut target.product,
        &mut target.version,
        &mut target.write_path,
        &mut target.why,
        &mut target.durability,
        &mut target.proof,
    ] {
        *text = BAD.to_owned();
    }
    run.command = vec!["millrace".to_owned(), BAD.to_owned()];
    run.machine.cpu = BAD.to_owned();
    run.machine.kernel = BAD.to_owned();
    run.configuration.push((BAD.to_owned(), BAD.to_owned()));
    run.notes.push(BAD.to_owned());
    run.stopped = Some(BAD.to_owned());
    run.failures = vec![Failure { operation: BAD.into(), class: BAD.into(), count: 1, first: BAD.into() }];
    run.verification.findings.push(BAD.to_owned());
    run.verification.answers.iter_mut().for_each(|checked| checked.name = BAD.to_owned());
    for phase in &mut run.phases {
        phase.name = BAD.to_owned();
        phase.client_bound_why = BAD.to_owned();
        for operation in &mut phase.operations {
            operation.name = BAD.to_owned();
            operation.stored_name = BAD.to_owned();
            operation.example = Some(BAD.to_owned());
            operation.note = Some(BAD.to_owned());
        }
    }
    run
}

/// Builder of a result.
struct RunBuilder {
    run: RunResult,
    speed: f64,
    now_s: f64,
    server_cpu_s: f64,
    written: u64,
}

impl RunBuilder {
    fn new(target: &str, speed: f64) -> RunBuilder {
        let mut configuration: Vec<(String, String)> =
            Config::default().entries().map(|(key, value)| (key.to_owned(), value)).collect();
        for (key, value) in [("DEVICE_NUMBER", "100"), ("SENSOR_NUMBER", "300"), ("LOOP", "1000")] {
            configuration.iter_mut().filter(|pair| pair.0 == key).for_each(|pair| pair.1 = value.to_owned());
        }
        let run = RunResult {
            format: RESULT_FORMAT,
            tool: "millrace 0.0.0 (3f2c1de)".to_owned(),
            command: [
                "millrace",
                "bench",
                "iot",
                "--target",
                &format!("{target}://127.0.0.1:5432/test"),
                "--set",
                "REMARK=it's a test",
            ]
            .map(str::to_owned)
            .to_vec(),
            started: "2026-11-21T14:03:27+01:00".to_owned(),
            workload: "iot".to_owned(),
            target: target_result(target),
            machine: Machine {
                cpus: 2,
                cpu: "AMD EPYC".to_owned(),
                memory_bytes: 24 << 30,
                kernel: "Linux 6.1.0-28-amd64".to_owned(),
            },
            configuration,
            schema_s: 0.31,
            ..RunResult::default()
        };
        RunBuilder { run, speed, now_s: 1.0, server_cpu_s: 0.0, written: 0 }
    }

    /// Adds a phase. `rate` returns the requests a second of a kind at a second of the phase.
    fn phase(&mut self, name: &str, kinds: &[usize], seconds: u32, rate: impl Fn(usize, u32) -> f64) {
        let phase = self.run.phases.len() as u32;
        let began_s = self.now_s;
        let mut operations: Vec<OperationResult> = KINDS.iter().map(|kind| no_operation(kind.0, kind.1)).collect();
        let mut histograms: Vec<Histogram<u64>> = KINDS.iter().map(|_| Histogram::new(3).unwrap()).collect();
        for second in 0..seconds {
            for kind in kinds {
                let requests = rate(*kind, second).round() as u64;
                let at_s = began_s as u32 + second;
                let stored = self.second(phase, *kind, at_s, requests, &mut histograms[*kind]);
                operations[*kind].ok += stored.ok;
                operations[*kind].ok_points += stored.points;
                self.run.seconds.push(stored);
            }
            self.resources(second, name == "write" || name == "mixed");
        }
        for (operation, histogram) in operations.iter_mut().zip(&histograms) {
            describe(operation, histogram, f64::from(seconds));
        }
        self.run.phases.push(PhaseResult {
            name: name.to_owned(),
            clients: 20,
            rate: 0.0,
            elapsed_s: f64::from(seconds),
            began_s,
            operations,
            server_cpu_s: Some(rounded(f64::from(seconds) * 1.2)),
            client_cpu_s: rounded(f64::from(seconds) * 0.4),
            client_bound: false,
            client_bound_why: "the tool used 0.4 of 2 processors; against the null target it makes 31 M points/s"
                .to_owned(),
        });
    }

    fn second(&self, phase: u32, kind: usize, at_s: u32, requests: u64, histogram: &mut Histogram<u64>) -> Second {
        let typical_ms = if kind == 0 { 12.0 } else { 1.5 + 2.2 * kind as f64 } / self.speed;
        let mut latencies: Vec<f64> = (0..requests.clamp(1, 40))
            .map(|nth| {
                let u = uniform(kind as u64, u64::from(at_s), nth + 7);
                // A distribution with a tail and no negative values; it need not be log-normal.
                typical_ms * (0.6 + 0.5 * u + 0.3 * u.powi(8) + 9.0 * u.powi(200))
            })
            .collect();
        latencies.sort_by(f64::total_cmp);
        latencies.iter().for_each(|ms| histogram.record((ms * 1e6) as u64).unwrap());
        let percentile = |share: f64| rounded(latencies[((latencies.len() - 1) as f64 * share) as usize]);
        Second {
            at_s,
            phase,
            kind: kind as u32,
            ok: requests,
            points: requests * if kind == 0 { BATCH_POINTS } else { 1 + 49 * u64::from(kind > 1) },
            failed: 0,
            p50_ms: percentile(0.5),
            p99_ms: percentile(0.99),
            max_ms: percentile(1.0),
        }
    }

    /// Adds four samples for the second that starts at `now_s`.
    fn resources(&mut self, second: u32, writing: bool) {
        for quarter in 0..4 {
            self.now_s = rounded(self.now_s + 0.25);
            let noise = uniform(77, u64::from(second), quarter);
            self.server_cpu_s += 0.25 * (if writing { 1.25 } else { 0.7 } + 0.3 * noise);
            self.written += if writing { (3e6 * self.speed * (0.5 + noise)) as u64 } else { 0 };
            let at_s = self.now_s;
            self.run.resources.push(ResourceSample {
                at_s,
                server_cpu_s: Some(rounded(self.server_cpu_s)),
                server_rss_bytes: Some((180 << 20) + (f64::from(1 << 20) * (at_s * 2.0 + 30.0 * noise)) as u64),
                server_read_bytes: Some(0),
                server_written_bytes: Some(self.written * 2),
                data_bytes: Some(self.written - self.written % 4096),
                client_cpu_s: rounded(at_s * 0.4),
                host_cpu_s: rounded(self.server_cpu_s + at_s * 0.45),
                host_memory_bytes: (3 << 30) + (20 << 20) * second as u64 / 10,
                host_read_bytes: (at_s * 1e4) as u64,
                host_written_bytes: self.written * 2 + (at_s * 1e5) as u64,
                host_received_bytes: (at_s * 900.0) as u64,
                host_sent_bytes: (at_s * 1100.0) as u64,
            });
        }
    }

    fn settle(&mut self, seconds: f64) {
        self.now_s += seconds;
    }

    fn finish(mut self) -> RunResult {
        let points: u64 = self.run.phases.iter().map(|phase| phase.operations[0].ok_points).sum();
        let write_cpu_s = points as f64 / 5.84e6 / self.speed;
        let settled_bytes = (points as f64 * 0.61 / self.speed.sqrt()) as u64;
        let lag = Latency { avg: 2.1, min: 0.4, median: 1.8, p99: 9.3, max: 14.0, ..Latency::default() };
        self.run.server = Some(ServerResult {
            write_cpu_s: rounded(write_cpu_s),
            points,
            points_per_cpu_s: rounded(points as f64 / write_cpu_s),
            settled_bytes,
            bytes_per_point: rounded(settled_bytes as f64 / points as f64),
            settling_s: 3.2,
            settled: true,
            rss_bytes_max: 341 << 20,
            written_bytes: settled_bytes * 2,
            fsync_ms: Some(lag.clone()),
            lag_ms: Some(lag),
        });
        let checked =
            |kind: &(&str, &str)| Checked { name: kind.0.to_owned(), answers: 200, checked: 200, ..Checked::default() };
        self.run.verification = Verification {
            on: true,
            passed: true,
            answers: KINDS[1..].iter().map(checked).collect(),
            devices: 100,
            points_expected: points,
            points_found: points,
            cpu_s: 0.8,
            ..Verification::default()
        };
        self.run.notes = vec![
            "SET_OPERATION is not asked: OPERATION_PROPORTION gives it no share".to_owned(),
            "OP_INTERVAL is a key of early 2023; it is taken as OP_MIN_INTERVAL".to_owned(),
        ];
        self.run
    }
}

fn target_result(name: &str) -> TargetResult {
    let millrace = name == "millrace";
    TargetResult {
        name: name.to_owned(),
        url: format!("{name}://127.0.0.1:5432/test"),
        product: if millrace { "Millrace" } else { "QuestDB" }.to_owned(),
        version: if millrace { "0.0.0" } else { "9.3.4" }.to_owned(),
        write_path: if millrace { "COPY BINARY, one statement a request" } else { "line protocol over HTTP" }
            .to_owned(),
        why: "the manual names it as the fastest".to_owned(),
        durability: if millrace { "after fsync" } else { "before fsync" }.to_owned(),
        durable: millrace,
        proof: format!("tested with {}", if millrace { "Millrace 0.0.0" } else { "QuestDB 9.3.4" }),
    }
}

fn no_operation(name: &str, stored_name: &str) -> OperationResult {
    OperationResult { name: name.to_owned(), stored_name: stored_name.to_owned(), ..OperationResult::default() }
}

fn describe(operation: &mut OperationResult, histogram: &Histogram<u64>, elapsed_s: f64) {
    if operation.ok == 0 {
        operation.note = Some("its share of OPERATION_PROPORTION is 0".to_owned());
        return;
    }
    let ms = |share: f64| rounded(histogram.value_at_quantile(share) as f64 / 1e6);
    operation.throughput = rounded(operation.ok_points as f64 / elapsed_s);
    operation.latency_ms = Latency {
        avg: rounded(histogram.mean() / 1e6),
        min: rounded(histogram.min() as f64 / 1e6),
        p10: ms(0.10),
        p25: ms(0.25),
        median: ms(0.50),
        p75: ms(0.75),
        p90: ms(0.90),
        p95: ms(0.95),
        p99: ms(0.99),
        p999: ms(0.999),
        max: rounded(histogram.max() as f64 / 1e6),
        slowest_thread: rounded(elapsed_s * 990.0),
    };
    operation.service_ms = operation.latency_ms.clone();
    operation.histogram = histogram::to_text(histogram);
    operation.example = Some(format!("SELECT time, s_3 FROM test WHERE device = 'd_1' -- {}", operation.name));
}
