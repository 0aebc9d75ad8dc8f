//! The generator's promises, and runs against Millrace, PostgreSQL and MariaDB.

use std::collections::HashSet;

use super::generator::{BATCH_MAX, Cursor, Day, Kind, Sample, Tables, is_maintenance, of_pv};
use super::*;
use crate::engine::{Plan, Progress};

struct Silent;

impl Show for Silent {
    fn stage(&mut self, _: &str) {}
    fn progress(&mut self, _: &Plan, _: &Progress) {}
}

fn shape(pvs: u32, rate: f64) -> Shape {
    Shape { seed: 7, pvs, rate, classes: Class::ALL.to_vec(), faults: true }
}

type WholeSample = (u32, i64, Option<u64>, Option<String>, Option<Vec<u8>>, u8, u8);

/// A sample with its text or elements.
fn whole_sample(sample: &Sample, heap: &[u8]) -> WholeSample {
    let bits = sample.number().map(f64::to_bits);
    let text = sample.text(heap).map(str::to_owned);
    (sample.pv, sample.time, bits, text, sample.elements(heap).map(<[u8]>::to_vec), sample.severity, sample.status)
}

/// All samples of the first `days` days, in order of arrival.
fn stream(population: &Population, days: i64, batch_length: i64) -> Vec<Sample> {
    let mut stream = Stream::new(population, batch_length);
    let (mut batch, mut samples) = (Batch::default(), Vec::new());
    while stream.next(days * DAY, &mut batch) {
        samples.extend(batch.arrived.iter().copied());
    }
    samples
}

#[test]
fn samples_of_a_pv_and_day_do_not_depend_on_the_order_of_generation() {
    let population = Population::new(&shape(200, 0.5));
    let tables = Tables::new();
    let of_day = |index: usize, number: u32| {
        let day = Day::new(&population, number);
        let pv = &population.pvs[index];
        let mut cursor = Cursor::new(&tables, pv, &day);
        let (mut batch, mut samples) = (Batch::default(), Vec::new());
        batch.clear(0, day.end());
        while cursor.next(&tables, pv, index as u32, &day, day.end(), &mut batch) {}
        samples.extend(batch.samples.iter().map(|sample| whole_sample(sample, &batch.heap)));
        samples
    };
    // Forwards by day, backwards by PV, and again.
    let pvs = population.pvs.len();
    let forwards: Vec<_> = (0..3).flat_map(|day| (0..pvs).map(move |pv| (pv, day))).collect();
    let seen: Vec<_> = forwards.iter().map(|(pv, day)| of_day(*pv, *day)).collect();
    let backwards: Vec<_> = forwards.iter().rev().map(|(pv, day)| of_day(*pv, *day)).collect();
    assert!(seen.iter().eq(backwards.iter().rev()));
    let count = |samples: &[Vec<_>]| samples.iter().map(Vec::len).sum::<usize>();
    assert!(count(&seen) > 100_000, "{}", count(&seen));

    // The stream of all PVs has the same samples, in order of arrival, with batches of any length.
    let mut expected: Vec<(u32, i64)> = seen.iter().flatten().map(|sample| (sample.0, sample.1)).collect();
    expected.sort_unstable();
    for length in [BATCH_MAX, 7 * SECOND] {
        let streamed = stream(&population, 3, length);
        let mut found: Vec<(u32, i64)> = streamed.iter().map(|sample| (sample.pv, sample.time)).collect();
        found.sort_unstable();
        assert!(found == expected, "{length}");
    }
    let mut one = Vec::new();
    of_pv(&population, 3, 3 * DAY, |sample, heap| {
        one.push(whole_sample(sample, heap));
        true
    });
    let days = [of_day(3, 0), of_day(3, 1), of_day(3, 2)].concat();
    assert_eq!(one, days);
}

#[test]
fn another_seed_gives_other_samples() {
    let of = |seed| stream(&Population::new(&Shape { seed, ..shape(100, 5.0) }), 1, BATCH_MAX);
    let (one, again, other) = (of(1), of(1), of(2));
    assert!(one == again && one != other);
}

#[test]
fn days_join_without_a_gap_or_a_repeated_stamp() {
    let population = Population::new(&shape(150, 4.0));
    let samples = stream(&population, 2, BATCH_MAX);
    let mut seen = HashSet::new();
    let identity = |sample: &Sample| (population.pvs[sample.pv as usize].name, sample.time);
    for sample in samples.iter().filter(|sample| !sample.repeats) {
        assert!(seen.insert(identity(sample)), "{sample:?}");
    }
    let repeats: Vec<_> = samples.iter().filter(|sample| sample.repeats).collect();
    assert!(!repeats.is_empty() && repeats.iter().all(|sample| seen.contains(&identity(sample))));
    // PV 0 has a sample in every slot, across midnight.
    let mut times: Vec<i64> = samples.iter().filter(|sample| sample.pv == 0).map(|sample| sample.time).collect();
    times.sort_unstable();
    let period = population.pvs[0].period;
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (gap - period).abs() < 1_000_000), "{:?}", gaps.iter().max());
    assert_eq!(times.len() as i64, (2 * DAY - population.pvs[0].phase - 1) / period + 1);
}

#[test]
fn a_restart_of_an_ioc_is_one_lost_connection_of_each_of_its_pvs() {
    let population = Population::new(&shape(2_000, 200.0));
    let samples = stream(&population, 2, BATCH_MAX);
    let lost: Vec<&Sample> = samples.iter().filter(|sample| sample.lost_until().is_some()).collect();
    let mut of_ioc = std::collections::HashMap::new();
    for sample in &lost {
        let pv = &population.pvs[sample.pv as usize];
        let until = sample.lost_until().unwrap();
        assert!((1..=180 * SECOND).contains(&(until - sample.time)), "{sample:?}");
        assert!(of_ioc.entry((pv.ioc, until)).or_insert_with(HashSet::new).insert(sample.pv), "twice: {sample:?}");
    }
    assert!(!of_ioc.is_empty());
    for ((ioc, until), pvs) in of_ioc {
        let day = ((until - START_NANOS) / DAY) as u32;
        let frequent = |pv: &pvs::Pv| pv.ioc == ioc && pv.days.contains(&day) && pv.rate() > 0.5 && !pv.healthy;
        let expected = population.pvs.iter().zip(0..).filter(|(pv, _)| frequent(pv)).map(|(_, index)| index);
        assert!(expected.collect::<Vec<u32>>().iter().all(|pv| pvs.contains(pv)), "IOC {ioc} on day {day}");
    }
}

#[test]
fn arrival_is_in_order_of_true_time_and_events_share_stamps() {
    let population = Population::new(&Shape { faults: false, ..shape(500, 200.0) });
    let mut stream = Stream::new(&population, BATCH_MAX);
    let mut batch = Batch::default();
    assert!(stream.next(DAY, &mut batch));
    let times: Vec<i64> = batch.arrived.iter().map(|sample| sample.time).collect();
    assert!(times.is_sorted() && times.len() > 10_000);
    let by_event = |sample: &&Sample| population.pvs[sample.pv as usize].by_event;
    let of_events: Vec<i64> = batch.arrived.iter().filter(by_event).map(|sample| sample.time).collect();
    let distinct: HashSet<&i64> = of_events.iter().collect();
    assert!(of_events.len() > times.len() / 5 && distinct.len() < of_events.len() * 9 / 10);
    let nanos = times.iter().filter(|time| **time % 1_000 != 0).count();
    assert!(nanos > times.len() * 9 / 10, "stamps have nanoseconds");
}

/// Counts of a span by class, alarms included.
fn counted(shape: &Shape, from: u32, days: u32) -> (Truth, f64) {
    let population = Population::new(shape);
    let mut truth = Truth::new(&population, true, Interval { from: 0, to: 0 });
    let tables = Tables::new();
    let mut batch = Batch::default();
    for number in from..from + days {
        let day = Day::new(&population, number);
        for (index, pv) in population.pvs.iter().enumerate() {
            batch.clear(0, day.end());
            let mut cursor = Cursor::new(&tables, pv, &day);
            while cursor.next(&tables, pv, index as u32, &day, day.end(), &mut batch) {}
            truth.add(&population, &batch);
        }
    }
    let expected = population.rate() * 86_400.0 * f64::from(days);
    (truth, expected)
}

#[test]
fn counts_classes_and_alarms_are_those_declared() {
    let (truth, expected) = counted(&shape(1_000, 40.0), 0, 1);
    assert!((truth.sent as f64 / expected - 1.0).abs() < 0.01, "{} of {expected}", truth.sent);
    for (class, count) in Class::ALL.iter().zip(truth.of_class) {
        let share = count as f64 / truth.sent as f64;
        assert!((share - class.share()).abs() < 0.01, "{}: {share}", class.name());
    }
    let alarms = truth.alarms as f64 / truth.sent as f64;
    assert!((0.002..0.01).contains(&alarms), "{alarms}");
    assert!((5e-6..1e-4).contains(&(truth.repeats as f64 / truth.sent as f64)), "{}", truth.repeats);
}

#[test]
fn spans_have_the_published_number_of_samples() {
    for (name, tolerance) in [(SpanName::HalfHour, 0.001), (SpanName::Week, 0.001), (SpanName::Month, 0.001)] {
        let days = name.length() as f64 / DAY as f64;
        let maintenance = (0..days.ceil() as u32).filter(|day| is_maintenance(*day)).count() as f64;
        let samples = PUBLISHED_RATE * 86_400.0 * (days - maintenance * (1.0 - generator::MAINTENANCE_RATE));
        let share = samples / name.published_samples() as f64;
        assert!((share - 1.0).abs() < tolerance, "{name:?}: {share}");
    }
    let (truth, expected) = counted(&shape(1_000, 40.0), 17, 1);
    assert!((truth.sent as f64 / expected - 0.2).abs() < 0.01, "{} of {expected}", truth.sent);
    let (half, _) = {
        let population = Population::new(&shape(1_000, PUBLISHED_RATE));
        let mut truth = Truth::new(&population, true, Interval { from: 0, to: 0 });
        let (mut stream, mut batch) = (Stream::new(&population, BATCH_MAX), Batch::default());
        while stream.next(SpanName::HalfHour.length(), &mut batch) {
            truth.add(&population, &batch);
        }
        (truth.sent, ())
    };
    assert!((half as f64 / 1_777_600.0 - 1.0).abs() < 0.02, "{half}");
}

#[test]
fn values_are_of_their_class() {
    let population = Population::new(&shape(1_000, 100.0));
    let (mut stream, mut batch) = (Stream::new(&population, BATCH_MAX), Batch::default());
    assert!(stream.next(DAY, &mut batch));
    let mut last = vec![f64::NEG_INFINITY; population.pvs.len()];
    let mut classes = HashSet::new();
    for sample in batch.samples.iter().filter(|sample| sample.lost_until().is_none()) {
        let pv = &population.pvs[sample.pv as usize];
        classes.insert(pv.class.name());
        match (pv.class, sample.number()) {
            (Class::Text, None) => assert!(sample.text(&batch.heap).is_some_and(|text| !text.is_empty())),
            (Class::Waveform, None) => {
                let bytes = sample.elements(&batch.heap).unwrap().len() as u32;
                assert_eq!(bytes, pv.size * if pv.floats { 4 } else { 2 });
                assert!((32..=4_096).contains(&pv.size));
            }
            (Class::Float32, Some(value)) => assert_eq!(f64::from(value as f32).to_bits(), value.to_bits()),
            (Class::Enum, Some(value)) => assert!((0.0..f64::from(pv.size)).contains(&value)),
            (Class::Long, Some(value)) => assert!((0.0..=pv.raw_max).contains(&value) && value.fract() == 0.0),
            (Class::Counter, Some(value)) => {
                let before = std::mem::replace(&mut last[sample.pv as usize], value);
                assert!(value > before || sample.repeats, "{} after {before}", value);
            }
            (Class::Int64, Some(_)) => {
                let exact = sample.exact().unwrap();
                assert_ne!(exact as f64 as i128, i128::from(exact));
            }
            (Class::Analog, Some(value)) => {
                let raw = (value - pv.offset) / pv.slope;
                assert!((raw - raw.round()).abs() < 1e-6, "{raw} is no step of the ADC");
            }
            (Class::Calc, Some(value)) => assert!(value.is_finite()),
            (class, value) => panic!("{}: {value:?}", class.name()),
        }
        assert_eq!(sample.kind == Kind::Exact, pv.class == Class::Int64);
    }
    assert_eq!(classes.len(), Class::ALL.len());
}

// ---------------------------------------------------------------------------------------------------------------------
// Runs against servers

fn settings() -> Settings {
    Settings {
        shape: shape(300, 300.0),
        reading: Reading::Sample,
        spans: vec![SpanName::HalfHour],
        batch: 10 * SECOND,
        connections: 1,
        repeat: 2,
        all_pvs_s: 20,
        scans: true,
        blocks: false,
        compact: true,
        keep: false,
        placing: TargetServerOptions { memory_mib: Some(512), ..TargetServerOptions::default() },
        command: Vec::new(),
        length: Some(90 * SECOND),
    }
}

fn run_on(target: &str, settings: &Settings) -> Report {
    let target = Target::parse(target).expect("a target");
    run(settings, &target, &mut Silent).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs everything and returns the report, which must have passed.
fn check_run(target: &str, settings: &Settings, queries: usize) -> Report {
    let report = run_on(target, settings);
    let text = report.text();
    assert!(report.passed() && report.failures.is_empty() && report.notes.is_empty(), "{text}");
    let span = &report.spans[0];
    assert!((span.samples as f64 / 27_000.0 - 1.0).abs() < 0.1 && span.stored <= span.samples, "{text}");
    assert_eq!(span.queries.len(), queries, "{text}");
    assert!(span.queries.iter().all(|query| query.rows > 0 && query.median_ms > 0.0), "{text}");
    assert!(span.server_cpu_s.is_some_and(|cpu_s| cpu_s > 0.0) && span.data_bytes > Some(0), "{text}");
    assert!(report.compaction.is_some() && text.contains("PASSED"), "{text}");
    report
}

#[test]
fn millrace_returns_every_sample_by_flight_and_by_copy() {
    let flight = check_run("millrace", &settings(), 10);
    let copy = check_run("millrace?write=copy", &Settings { blocks: true, repeat: 1, ..settings() }, 10);
    assert_eq!(flight.spans[0].stored, copy.spans[0].stored);
    assert_eq!(copy.blocks.iter().map(|block| block.lines).collect::<Vec<u64>>(), [100, 1_000, 10_000, 100_000]);
    let several = Settings { connections: 3, compact: true, scans: true, ..settings() };
    check_run("millrace", &several, 10);
}

#[test]
fn postgres_with_the_rdb_schema_returns_every_sample() {
    check_run("postgres", &Settings { blocks: true, repeat: 1, ..settings() }, 5);
}

#[test]
fn mariadb_with_the_rdb_schema_returns_every_sample() {
    check_run("mariadb", &Settings { blocks: true, repeat: 1, ..settings() }, 5);
}

#[test]
fn classes_are_written_alone_and_other_products_are_refused() {
    for class in [Class::Waveform, Class::Text, Class::Int64] {
        let alone = Shape { classes: vec![class], ..shape(300, 300.0) };
        let report = run_on("millrace", &Settings { shape: alone, compact: false, ..settings() });
        let of_class = &report.spans[0].of_class;
        assert!(report.passed() && report.failures.is_empty(), "{}", report.text());
        assert_eq!(of_class.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), [class.name()]);
    }
    let refused = run(&settings(), &Target::parse("questdb").expect("a target"), &mut Silent).err();
    assert!(refused.is_some_and(|error| error.message.contains("millrace, postgres or mariadb")));
}

#[test]
fn wrong_answers_are_found() {
    let digest = Digest { rows: 3, sum: 4 };
    let same = check(&Content::Samples(digest), &Content::Samples(digest));
    assert_eq!(same, Ok(()));
    let fewer = check(&Content::Samples(Digest { rows: 2, ..digest }), &Content::Samples(digest));
    assert!(fewer.is_err_and(|text| text.contains("read 2 samples, written 3")));
    let other = check(&Content::Samples(Digest { sum: 5, ..digest }), &Content::Samples(digest));
    assert!(other.is_err_and(|text| text.contains("checksum")));
}
