//! Tests that walks equal a plain loop, and that hosts and queries are those of TSBS.

use std::sync::Arc;

use super::*;

fn workload(settings: &[&str]) -> Tsbs {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let config = Config::load_over(DEFAULTS, None, &settings).expect("valid settings");
    Tsbs::new(&Arc::new(config)).expect("valid workload")
}

fn refused(settings: &[&str]) -> String {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let config = Config::load_over(DEFAULTS, None, &settings).expect("valid settings");
    Tsbs::new(&Arc::new(config)).err().map(|error| error.to_string()).unwrap_or_default()
}

fn values(tsbs: &Tsbs, host: u32, field: u32, slots: &[u64]) -> Vec<i64> {
    let mut out = vec![0; slots.len()];
    tsbs.fill(host, field, slots, &mut out);
    out
}

/// The definition without caches: start, then one step for each tick.
fn plain_walk(seed: u64, host: u64, field: u64, ticks: u64) -> Vec<i64> {
    let stream = stream(seed, host, field);
    let mut state = below(at(seed, START_STREAM, host * 10 + field, 0), 100 << 20) as i32;
    let mut values = vec![i64::from(state >> 20)];
    for tick in 1..ticks {
        let lane = (draw(stream, tick / 4) >> (16 * (tick % 4))) & 0xFFFF;
        state = (state + STEPS[(lane >> 4) as usize]).clamp(0, 100 << 20);
        values.push(i64::from(state >> 20));
    }
    values
}

#[test]
fn any_order_of_ticks_gives_the_values_of_a_plain_walk() {
    let tsbs = workload(&[]);
    for (host, field) in [(0, 0), (57, 3), (99, 9)] {
        let plain = plain_walk(123, u64::from(host), u64::from(field), tsbs.ticks);
        // Far ahead, back, on by one, with gaps, then all ticks.
        for slots in [vec![20_000], vec![255, 256, 257], vec![258], vec![5, 9, 700, 701, 12_345, 25_919], vec![0]] {
            let expected: Vec<i64> = slots.iter().map(|slot| plain[*slot as usize]).collect();
            assert_eq!(values(&tsbs, host, field, &slots), expected, "host {host}, field {field}, slots {slots:?}");
        }
        let all: Vec<u64> = (0..tsbs.ticks).collect();
        assert_eq!(values(&tsbs, host, field, &all), plain);
        let backwards: Vec<u64> = all.iter().rev().copied().collect();
        assert!(values(&tsbs, host, field, &backwards).iter().rev().eq(&plain));
    }
}

#[test]
fn threads_that_share_a_workload_compute_the_same_values() {
    let shared = workload(&[]);
    let plain: Vec<Vec<i64>> = (0..10).map(|field| plain_walk(123, 4, field, 6_000)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (shared, plain) = (&shared, &plain);
            scope.spawn(move || {
                for round in 0..3_000u64 {
                    let slot = at(thread, round, 0, 0) % 6_000;
                    let field = (round % 10) as u32;
                    let seen = values(shared, 4, field, &[slot]);
                    assert_eq!(seen[0], plain[field as usize][slot as usize], "field {field}, slot {slot}");
                }
            });
        }
    });
}

/// Values of the first version: the data of a published result must never change.
#[test]
fn these_are_the_values_of_version_1() {
    let tsbs = workload(&[]);
    let of = |host, field, from: u64| values(&tsbs, host, field, &(from..from + 8).collect::<Vec<_>>());
    assert_eq!(of(0, 0, 0), GOLDEN_HOST_0);
    assert_eq!(of(42, 7, 25_000), GOLDEN_HOST_42);
    let sum = STEPS.iter().fold(0u64, |sum, step| crate::generate::mix(sum ^ *step as u64));
    assert_eq!(sum, GOLDEN_STEPS, "the table of steps differs on this machine");
    assert_eq!(tags(123, 7), GOLDEN_TAGS);
}

const GOLDEN_HOST_0: [i64; 8] = [50, 48, 48, 47, 47, 48, 47, 48];
const GOLDEN_HOST_42: [i64; 8] = [87, 86, 88, 90, 90, 91, 92, 93];
const GOLDEN_STEPS: u64 = 5_092_501_374_579_094_290;
const GOLDEN_TAGS: [&str; 10] =
    ["host_7", "us-east-1", "us-east-1b", "14", "Ubuntu15.10", "x86", "LON", "17", "1", "staging"];

#[test]
fn steps_are_normal_and_values_spread_over_all_percents() {
    let n = STEPS.len() as f64;
    let unit = f64::from(1 << FRACTION_BITS);
    let moment = |power: i32| STEPS.iter().map(|step| (f64::from(*step) / unit).powi(power)).sum::<f64>() / n;
    assert_eq!(STEPS.iter().map(|step| i64::from(*step)).sum::<i64>(), 0);
    assert!((moment(2).sqrt() - 1.0).abs() < 0.001, "deviation {}", moment(2).sqrt());
    assert!((moment(4) / moment(2).powi(2) - 3.0).abs() < 0.05, "kurtosis {}", moment(4));
    // 68.27 % are within one deviation, 95.45 % within two.
    let within = |bound: f64| STEPS.iter().filter(|step| f64::from(**step).abs() < bound * unit).count() as f64 / n;
    assert!((within(1.0) - 0.6827).abs() < 0.001 && (within(2.0) - 0.9545).abs() < 0.001);

    let tsbs = workload(&[]);
    let slots: Vec<u64> = (0..tsbs.ticks).collect();
    let (mut tens, mut moves, mut count) = ([0u32; 10], [0u32; 6], 0.0);
    for host in 0..100 {
        let values = values(&tsbs, host, 0, &slots);
        assert!(values.iter().all(|value| (0..=100).contains(value)));
        values.iter().for_each(|value| tens[(*value as usize / 10).min(9)] += 1);
        values.windows(2).for_each(|pair| moves[(pair[1] - pair[0]).unsigned_abs() as usize] += 1);
        count += values.len() as f64;
    }
    // A reflected walk spreads evenly; a clamped one dwells slightly longer at its ends.
    for (ten, seen) in tens.iter().enumerate() {
        let share = f64::from(*seen) / count;
        assert!((0.06..0.16).contains(&share), "{ten}0s: {share}");
    }
    assert!(moves[5] == 0 && f64::from(moves[0]) / count > 0.3, "values move by little: {moves:?}");
}

#[test]
fn hosts_have_ten_tags_of_the_choices_of_tsbs() {
    let tsbs = workload(&["DEVICE_NUMBER=1000"]);
    let schema = tsbs.schema();
    assert_eq!((schema.tables[0].tags.len(), schema.tables[0].fields.len()), (10, 10));
    let distinct = |tag: usize| {
        let mut values: Vec<&str> = schema.devices.iter().map(|device| device.tags[tag].as_str()).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    let counts: Vec<usize> = (0..10).map(distinct).collect();
    assert_eq!(counts, [1000, 9, 23, 100, 3, 2, 4, 20, 2, 3]);
    assert!(schema.devices.iter().all(|device| device.tags[2].starts_with(&device.tags[1])), "a region's datacentres");
}

#[test]
fn rows_start_at_the_start_time_and_are_ten_seconds_apart() {
    let tsbs = workload(&[]);
    let start = 1_451_606_400_000;
    assert_eq!((tsbs.time(3, 0), tsbs.time(3, 1)), (start, start + 10_000));
    assert_eq!(tsbs.time(0, tsbs.ticks), start + 3 * 86_400_000);
    assert_eq!(tsbs.schema().devices.len() as u64 * tsbs.ticks * 10, 25_920_000);
    assert_eq!(tsbs.slots_in(0, start..start + 10_001), 0..2);
    assert_eq!(tsbs.slots_in(0, start + 1..start + 10_000), 1..1);
    assert_eq!(tsbs.slots_in(0, 0..start), 0..0);
}

/// (kind, fields, hosts, window in seconds, shape's width in seconds)
#[test]
fn queries_are_those_of_tsbs() {
    let tsbs = workload(&[]);
    let expected: [(&str, usize, Option<usize>, i64, i64); 13] = [
        ("single-groupby-1-1-1", 1, Some(1), 3_600, 60),
        ("single-groupby-1-1-12", 1, Some(1), 43_200, 60),
        ("single-groupby-1-8-1", 1, Some(8), 3_600, 60),
        ("single-groupby-5-1-1", 5, Some(1), 3_600, 60),
        ("single-groupby-5-1-12", 5, Some(1), 43_200, 60),
        ("single-groupby-5-8-1", 5, Some(8), 3_600, 60),
        ("cpu-max-all-1", 10, Some(1), 28_800, 3_600),
        ("cpu-max-all-8", 10, Some(8), 28_800, 3_600),
        ("double-groupby-1", 1, None, 43_200, 3_600),
        ("double-groupby-5", 5, None, 43_200, 3_600),
        ("double-groupby-all", 10, None, 43_200, 3_600),
        ("high-cpu-all", 10, None, 43_200, 0),
        ("high-cpu-1", 10, Some(1), 43_200, 0),
    ];
    for (number, (name, fields, hosts, seconds, bucket)) in expected.into_iter().enumerate() {
        assert_eq!(tsbs.kinds()[number + 1].name, name);
        let query = tsbs.query(number + 1, 2, 9, None).expect("a question");
        let window = query.window.clone().expect("a window");
        assert_eq!((query.fields.len(), query.devices.as_ref().map(Vec::len)), (fields, hosts), "{name}");
        assert_eq!(window.end - window.start, seconds * 1_000, "{name}");
        match query.shape {
            Shape::Buckets { aggregate, width, by_device, .. } => {
                assert_eq!((width, query.order), (bucket * 1_000, Order::Ascending), "{name}");
                let by_host = name.starts_with("double");
                let function = if by_host { Aggregate::Avg } else { Aggregate::Max };
                assert_eq!((aggregate, by_device), (function, by_host), "{name}");
            }
            _ => assert_eq!((query.shape, query.filters), (Shape::Rows, vec![Filter { field: 0, above: 90.0 }])),
        }
    }
    let last = tsbs.query(14, 0, 0, None).expect("a question");
    assert_eq!((last.shape, last.window, last.fields.len()), (Shape::Latest, None, 10));
    let newest = tsbs.query(15, 0, 0, None).expect("a question");
    assert_eq!((newest.limit, newest.order), (Some(5), Order::Descending));
    let window = newest.window.expect("a window");
    assert!(window.start == i64::MIN && window.end > tsbs.start + 3_600_000 && window.end <= tsbs.time(0, tsbs.ticks));
}

#[test]
fn windows_are_spread_over_the_data_and_never_leave_it() {
    let tsbs = workload(&[]);
    let end = tsbs.time(0, tsbs.ticks);
    let mut eighths = [0; 8];
    for nth in 0..4_000 {
        let window = tsbs.query(1, 0, nth, None).expect("a question").window.expect("a window");
        assert!(window.start >= tsbs.start && window.end <= end);
        eighths[((window.start - tsbs.start) * 8 / (end - tsbs.start)) as usize] += 1;
    }
    assert!(eighths.iter().all(|count| (350..650).contains(count)), "{eighths:?}");

    let newest = tsbs.time(0, 720);
    for nth in 0..200 {
        let window = tsbs.query(1, 0, nth, Some(newest)).expect("a question").window.expect("a window");
        assert!(window.end <= newest + 10_000 && window.end - window.start == 3_600_000);
    }
    let short = tsbs.query(2, 0, 0, Some(newest)).expect("a question").window.expect("a window");
    assert_eq!(short, tsbs.start..newest + 10_000, "12 hours of 2 are all that is there");
}

#[test]
fn a_run_of_several_processes_writes_the_same_data_and_each_queries_its_own() {
    let whole = workload(&["DEVICE_NUMBER=20"]);
    let part = workload(&["DEVICE_NUMBER=10", "BENCHMARK_CLUSTER=true", "BENCHMARK_INDEX=1"]);
    let slots: Vec<u64> = (0..600).collect();
    for (host, field) in [(0, 0), (4, 5), (9, 9)] {
        assert_eq!(values(&whole, host + 10, field, &slots), values(&part, host, field, &slots));
        assert_eq!(whole.schema().devices[host as usize + 10].tags, part.schema().devices[host as usize].tags);
    }
    let devices = part.query(9, 0, 0, None).expect("a question").devices;
    assert_eq!(devices.map(|devices| devices.len()), Some(10), "the target has the others' hosts too");
}

#[test]
fn keys_that_would_change_the_data_are_refused_by_name() {
    for (setting, said) in [
        ("IS_OUT_OF_ORDER=true", "IS_OUT_OF_ORDER=true: the tsbs workload expects false"),
        ("SENSOR_NUMBER=11", "SENSOR_NUMBER=11: the tsbs workload expects 10"),
        ("LOOP=100000000", "LOOP=100000000: the tsbs workload expects LOOP x BATCH_SIZE_PER_WRITE at most 2^32"),
    ] {
        assert_eq!(refused(&[setting]), said);
    }
    let few = workload(&["DEVICE_NUMBER=4"]);
    let error = few.query(3, 0, 0, None).expect_err("8 of 4 hosts").to_string();
    assert_eq!(error, "DEVICE_NUMBER=4: single-groupby-1-8-1 reads 8 hosts at once");
}

#[test]
fn cached_states_stay_within_the_memory_limit() {
    for (hosts, ticks) in [(100, 25_920), (4_000, 25_920), (100_000, 25_920), (10_000, 4_000_000)] {
        let walks = Walks::new(1, 0, hosts, ticks);
        let bytes = walks.checkpoints.len() as u64 * 4;
        assert!(bytes <= CHECKPOINT_BYTES_MAX, "{hosts} hosts, {ticks} ticks: {bytes} bytes");
    }
}
