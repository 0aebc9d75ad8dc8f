//! What the recorded calls of `tests/time_series` cannot show: results while rows arrive, memory, and the choice of points.

use bumpalo::Bump;
use catalog::{TypeId, builtin};
use model::Datum;

use super::points::Point;
use crate::context::{Context, Session};
use crate::registry::{self, Accumulator};

/// Numbers that look random, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn accumulator(signature: &str) -> Box<dyn Accumulator> {
    let (name, types) = signature.trim_end_matches(')').split_once('(').expect("name(types)");
    let types: Vec<TypeId> = types.split(',').map(|ty| builtin().type_named(ty).expect("a type")).collect();
    let call = registry::resolve(name, &types).expect("a function");
    registry::aggregate(call.function).expect("an aggregate")(&call)
}

/// The result of an aggregate after each of some rows.
fn results<'a>(signature: &str, rows: &[Vec<Datum<'a>>], ctx: &Context<'a>) -> Vec<String> {
    let mut state = accumulator(signature);
    let step = |row: &Vec<Datum<'a>>| {
        state.update(row, ctx).expect("a row");
        format!("{:?}", state.result(ctx).expect("a result"))
    };
    rows.iter().map(step).collect()
}

/// Rows of each aggregate whose result does not depend on their order.
fn row<'a>(signature: &str, time: i64, value: f64) -> Vec<Datum<'a>> {
    let (time, value) = (Datum::Int8(time), Datum::Float8(value));
    let state = Datum::Text(["on", "off", "idle"][value_number(&value) % 3]);
    match signature.split('(').next() {
        Some("duration_in") => vec![Datum::Text("on"), state, time],
        Some("state_durations") => vec![state, time],
        Some("lttb" | "lttb_times" | "lttb_values") => vec![time, value, Datum::Int4(5)],
        _ if signature.ends_with(",text)") => vec![value, time, Datum::Text("linear")],
        _ => vec![value, time],
    }
}

fn value_number(value: &Datum<'_>) -> usize {
    let Datum::Float8(value) = value else { return 0 };
    *value as usize
}

const ORDERLESS: [&str; 11] = [
    "increase(float8,int8)",
    "rate(float8,int8)",
    "delta(float8,int8)",
    "time_weighted_average(float8,int8)",
    "time_weighted_average(float8,int8,text)",
    "time_weighted_integral(float8,int8)",
    "duration_in(text,text,int8)",
    "state_durations(text,int8)",
    "lttb(int8,float8,int4)",
    "lttb_times(int8,float8,int4)",
    "lttb_values(int8,float8,int4)",
];

#[test]
fn the_order_of_rows_changes_no_result() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let mut chance = Chance(7);
    for signature in ORDERLESS {
        for _ in 0..20 {
            let points: Vec<(i64, f64)> =
                (0..30).map(|_| (chance.below(25) as i64, chance.below(40) as f64 / 3.0)).collect();
            let mut sorted = points.clone();
            sorted.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let rows = |points: &[(i64, f64)]| -> Vec<_> {
                points.iter().map(|(time, value)| row(signature, *time, *value)).collect()
            };
            let (shuffled, sorted) =
                (results(signature, &rows(&points), &ctx), results(signature, &rows(&sorted), &ctx));
            assert_eq!(shuffled.last(), sorted.last(), "{signature} of {points:?}");
        }
    }
}

/// A window asks for the result after each row.
#[test]
fn a_result_between_rows_is_that_of_the_rows_so_far() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let mut chance = Chance(11);
    for signature in ORDERLESS {
        for is_sorted in [true, false] {
            let mut times: Vec<i64> = (0..40).map(|_| chance.below(30) as i64).collect();
            if is_sorted {
                times.sort_unstable();
            }
            let rows: Vec<_> = times.iter().map(|time| row(signature, *time, chance.below(40) as f64 / 3.0)).collect();
            let running = results(signature, &rows, &ctx);
            for (at, seen) in running.iter().enumerate() {
                let alone = results(signature, &rows[..=at], &ctx).pop();
                assert_eq!(alone.as_ref(), Some(seen), "{signature}, {at} rows");
            }
        }
    }
}

#[test]
fn memory_of_all_points_is_counted_and_that_of_the_copy_that_is_sorted() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    for signature in ORDERLESS {
        let mut state = accumulator(signature);
        let rows = 10_000_usize;
        for time in 0..rows as i64 {
            state.update(&row(signature, time, 1.0), &ctx).expect("a row");
        }
        let in_order = state.heap_size();
        assert!((rows * 16..rows * 64).contains(&in_order), "{signature}: {in_order} bytes");
        state.update(&row(signature, -1, 1.0), &ctx).expect("a row");
        assert!(state.heap_size() >= in_order + rows * 16, "{signature}");
    }
}

#[test]
fn memory_of_the_result_is_counted() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let mut histogram = accumulator("histogram(float8,float8,float8,int4)");
    assert_eq!(histogram.heap_size(), 0);
    let row = [Datum::Float8(1.0), Datum::Float8(0.0), Datum::Float8(9.0), Datum::Int4(1_000_000)];
    histogram.update(&row, &ctx).expect("a row");
    assert!(histogram.heap_size() > 8 * 1_000_002, "{} bytes", histogram.heap_size());
    let mut durations = accumulator("state_durations(text,int8)");
    let text = "x".repeat(1_000);
    durations.update(&[Datum::Text(&text), Datum::Int8(1)], &ctx).expect("a row");
    assert!(durations.heap_size() > 4 * text.len(), "{} bytes", durations.heap_size());
}

#[test]
fn sums_of_points_keep_a_few_bytes_of_a_candle() {
    let (arena, session) = (Bump::new(), Session::default());
    let ctx = Context { arena: &arena, session: &session };
    let mut state = accumulator("candlestick(int8,float8,float8)");
    for time in 0..1_000 {
        state.update(&[Datum::Int8(time), Datum::Float8(1.0), Datum::Float8(1.0)], &ctx).expect("a row");
    }
    assert_eq!(state.heap_size(), 0);
}

#[test]
fn lttb_keeps_the_ends_the_number_of_points_and_a_spike() {
    let wave = |at: i64| (at as f64 / 50.0).sin() + if at == 617 { 20.0 } else { 0.0 };
    let points: Vec<Point<f64>> = (0..1_000).map(|time| Point { time, value: wave(time) }).collect();
    for count in [2, 3, 10, 57, 998, 999, 1_000, 5_000] {
        let chosen = super::lttb::chosen(&points, count);
        assert_eq!(chosen.len(), count.min(points.len()));
        assert_eq!((chosen.first(), chosen.last()), (points.first(), points.last()));
        assert!(chosen.windows(2).all(|pair| pair[0].time < pair[1].time), "{count} points in order");
        assert!(count < 10 || chosen.iter().any(|point| point.time == 617), "the spike is among {count} points");
    }
}
