//! Speed of PB, JSON and operators on one thread: `cargo run --release -p epics --example throughput [MILLIONS]`.

use std::convert::Infallible;

use epics::event::Event;
use epics::formats::{Format, Pv, Reply};
use epics::pb::{Header, Payload, Reader, Record};
use epics::processors::{Operator, Span};
use epics::sample::{Sample, Scalar, Severity, Value};

/// 2024-01-01
const START: i64 = 1_704_067_200_000_000_000;
/// Step of time that is no whole number of milliseconds, as those of IOCs are not.
const PERIOD: i64 = 100_023_417;

fn event(n: i64) -> Event {
    // A 16-bit converter, scaled, as most analog inputs are.
    let steps = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()) as u64 >> 52) as f64;
    let value = Value::Scalar(Scalar::Float64(12.5 + steps * 0.001_525_9));
    Sample { time: START + n * PERIOD, value, severity: Severity::None, status: 0 }.into()
}

/// Nanoseconds that this thread has run.
fn cpu_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds on a processor")
}

fn measure(name: &str, samples: i64, work: impl FnOnce() -> usize) {
    let before = cpu_nanos();
    let result = work();
    let nanos = (cpu_nanos() - before) as f64 / samples as f64;
    println!("{name:<22} {nanos:>7.1} ns/sample {:>7.2} M samples/s   ({result})", 1e3 / nanos);
}

fn reply(format: Format, samples: i64) -> Vec<u8> {
    let header = Header { payload: Payload::Float64, pv: "A".into(), year: 2024, elements: Some(1), fields: vec![] };
    let mut reply = Reply::new(format, Vec::with_capacity(samples as usize * 100));
    reply.start(&Pv::new(header)).expect("memory");
    (0..samples).for_each(|n| reply.event(&event(n)).expect("memory"));
    reply.finish().expect("memory")
}

fn main() {
    let samples = std::env::args().nth(1).and_then(|millions| millions.parse().ok()).unwrap_or(2) * 1_000_000;
    let mut raw = Vec::new();
    measure("make events", samples, || (0..samples).map(event).filter(|event| event.number() > Some(0.0)).count());
    measure("PB write", samples, || {
        raw = reply(Format::Raw, samples);
        raw.len()
    });
    measure("PB read", samples, || {
        Reader::new(raw.as_slice()).filter(|record| matches!(record, Ok(Record::Event(_)))).count()
    });
    for (name, format) in [("JSON write", Format::Json), ("QW write", Format::Qw), ("CSV write", Format::Csv)] {
        measure(name, samples, || reply(format, samples).len());
    }
    let span = Span { from: START, to: START + samples * PERIOD };
    for name in ["mean_60", "stats_60", "median_60", "lastFill_60", "optimized_1000", "nth_10"] {
        let operator = Operator::parse(name).expect("known");
        measure(name, samples, || operator.run((0..samples).map(|n| Ok::<_, Infallible>(event(n))), span).count());
    }
}
