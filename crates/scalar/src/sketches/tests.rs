//! Estimates compared with exact results, and sketches that were split and merged.

use bumpalo::Bump;
use catalog::builtin;
use model::Datum;

use super::encoding::Sketch;
use super::{distinct, percentile};
use crate::context::{Context, DateStyle, IntervalStyle, Session};
use crate::registry;

/// Numbers that look random, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let hash = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// From 0 to 1, without 0.
    fn share(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

fn sketch(values: &[f64]) -> percentile::Sketch {
    let mut sketch = percentile::Sketch::default();
    values.iter().for_each(|value| sketch.add(*value));
    sketch
}

/// Distributions and the relative error that their span allows.
fn samples() -> Vec<(&'static str, Vec<f64>, f64)> {
    let mut chance = Chance(1);
    let mut all =
        |make: &mut dyn FnMut(&mut Chance) -> f64| (0..20_000).map(|_| make(&mut chance)).collect::<Vec<f64>>();
    vec![
        ("narrow", all(&mut |chance| 100.0 + 50.0 * chance.share()), 0.001),
        ("exponential", all(&mut |chance| -chance.share().ln() * 1e3), 0.01),
        ("both signs", all(&mut |chance| (chance.share() - 0.5) * 1e6), 0.01),
        ("fourteen powers of ten", all(&mut |chance| 10_f64.powf(14.0 * chance.share())), 0.01),
        ("300 powers of ten", all(&mut |chance| 10_f64.powf(-300.0 * chance.share())), 0.3),
        ("whole numbers", all(&mut |chance| (chance.next() % 40) as f64), 0.001),
    ]
}

#[test]
fn percentiles_are_within_the_error_of_exact_ones() {
    for (name, values, error) in samples() {
        let sketch = sketch(&values);
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for fraction in [0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
            let position = ((fraction * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len());
            let (exact, seen) = (sorted[position - 1], sketch.percentile(fraction).expect("values"));
            let is_near = (seen - exact).abs() <= error * 1.01 * exact.abs();
            assert!(is_near, "{name}: percentile {fraction} is {exact}, estimated {seen}");
        }
    }
}

#[test]
fn sketches_that_were_split_and_merged_are_that_of_all_values() {
    let mut chance = Chance(2);
    for (name, values, _) in samples() {
        let whole = sketch(&values);
        for parts in [2, 3, 17] {
            let mut split = vec![Vec::new(); parts];
            for value in &values {
                split[(chance.next() % parts as u64) as usize].push(*value);
            }
            let merged = split.iter().rev().fold(percentile::Sketch::default(), |mut merged, part| {
                merged.merge(&sketch(part));
                merged
            });
            assert_eq!(merged, whole, "{name} in {parts} parts");
        }
    }
}

#[test]
fn a_sketch_of_any_values_is_small() {
    let mut chance = Chance(3);
    let mut sketch = percentile::Sketch::default();
    for _ in 0..200_000 {
        sketch.add(f64::from_bits(chance.next()));
    }
    assert!(format!("{sketch:?}").matches('(').count() <= 2_050);
}

#[test]
fn counts_of_distinct_values_are_exact_for_few_and_near_for_many() {
    let mut chance = Chance(4);
    for count in [0_u64, 1, 10, 1_000, 1_024, 1_025, 2_000, 10_000, 50_000, 200_000, 1_000_000] {
        let mut sketch = distinct::Sketch::default();
        for _ in 0..count {
            let hash = chance.next();
            sketch.add(hash);
            sketch.add(hash);
        }
        let seen = sketch.estimate() as f64;
        let error = if count <= 1_024 { 0.0 } else { 0.025 };
        assert!((seen - count as f64).abs() <= error * count as f64, "{count} estimated as {seen}");
    }
}

#[test]
fn counts_that_were_split_and_merged_are_those_of_all_values() {
    for counts in [[5_u64, 7, 9], [900, 900, 900], [3, 20_000, 40], [20_000, 3, 20_000]] {
        let mut chance = Chance(5);
        let (mut whole, mut merged) = (distinct::Sketch::default(), distinct::Sketch::default());
        for count in counts {
            let mut part = distinct::Sketch::default();
            for _ in 0..count {
                let hash = chance.next() % 30_000;
                let hash = Chance(hash).next();
                whole.add(hash);
                part.add(hash);
            }
            merged.merge(&part);
        }
        assert_eq!(merged, whole, "{counts:?}");
    }
}

/// Sketches of all kinds and sizes.
fn stored() -> Vec<Sketch> {
    let mut found: Vec<Sketch> =
        samples().into_iter().map(|(_, values, _)| Sketch::Percentile(sketch(&values))).collect();
    found.push(Sketch::Percentile(sketch(&[f64::NAN, f64::INFINITY, 0.0, -0.0, -1e300, 5e-324])));
    found.push(Sketch::Percentile(percentile::Sketch::default()));
    for count in [0, 1, 1_024, 5_000] {
        let mut chance = Chance(6);
        let mut sketch = distinct::Sketch::default();
        (0..count).for_each(|_| sketch.add(chance.next()));
        found.push(Sketch::Distinct(sketch));
    }
    found
}

fn bytes(sketch: &Sketch) -> Vec<u8> {
    let mut out = Vec::new();
    sketch.write(&mut out);
    out
}

#[test]
fn a_sketch_is_read_as_it_was_written() {
    for sketch in stored() {
        assert_eq!(Sketch::read(&bytes(&sketch)).expect("a sketch"), sketch);
    }
}

#[test]
fn bytes_that_are_no_sketch_are_refused_and_changed_ones_do_no_harm() {
    let mut chance = Chance(8);
    for sketch in stored() {
        let bytes = bytes(&sketch);
        for end in (0..bytes.len()).step_by(1 + bytes.len() / 50) {
            assert!(Sketch::read(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
        for _ in 0..200 {
            let mut changed = bytes.clone();
            let at = (chance.next() % changed.len() as u64) as usize;
            changed[at] = chance.next() as u8;
            let Ok(mut read) = Sketch::read(&changed) else { continue };
            let _ = read.merge(&sketch);
            match &read {
                Sketch::Percentile(read) => drop(read.percentile(0.5)),
                Sketch::Distinct(read) => drop(read.estimate()),
            }
        }
    }
}

/// The bytes of a sketch of percentiles with buckets of positive values: their distances, zigzag, each with one value.
fn crafted(joins: u8, distances: &[u64]) -> Vec<u8> {
    let mut out = vec![b'P', 1, joins, 0, 0, 0, 0, 1];
    out.extend([1.0_f64, 2.0].into_iter().flat_map(f64::to_le_bytes));
    out.push(0);
    let mut push = |mut value: u64| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    push(distances.len() as u64);
    distances.iter().for_each(|distance| [*distance, 1].into_iter().for_each(&mut push));
    out
}

#[test]
fn a_bucket_out_of_range_is_refused() {
    for distance in [u64::MAX, u64::MAX - 1, 1 << 40, (2 << 20) + 4] {
        assert!(Sketch::read(&crafted(0, &[distance])).is_err(), "{distance}");
    }
    assert!(Sketch::read(&crafted(0, &[2 << 20])).is_ok());
    assert!(Sketch::read(&crafted(0, &[2, u64::MAX])).is_err());
    assert!(Sketch::read(&crafted(0, &[2, u64::MAX - 1])).is_err());
}

/// Buckets that are wider than the floats would need more and more joins.
#[test]
fn merged_sketches_of_any_bytes_need_no_more_joins_than_a_sketch_may_have() {
    let wide = |joins: u8, first: u64| crafted(joins, &[&[first][..], &[1_022; 2_000]].concat());
    for joins in [10, 20, 24] {
        assert!(Sketch::read(&wide(joins, 0)).is_err(), "{joins} joins");
    }
    assert!(Sketch::read(&crafted(24, &[2])).is_ok());
    assert!(Sketch::read(&crafted(24, &[4])).is_err());
    assert!(Sketch::read(&crafted(25, &[2])).is_err());
    let parts = [wide(0, 0), wide(0, 3), crafted(24, &[2]), wide(0, 201), crafted(5, &[2, 2, 2_000])];
    let parts: Vec<Sketch> = parts.iter().map(|part| Sketch::read(part).expect("a sketch")).collect();
    for first in 0..parts.len() {
        for second in 0..parts.len() {
            for third in 0..parts.len() {
                let mut merged = parts[first].clone();
                merged.merge(&parts[second]).expect("one kind");
                merged.merge(&parts[third]).expect("one kind");
                let Sketch::Percentile(sketch) = &merged else { panic!("another kind") };
                assert!(sketch.joins <= 24 && sketch.percentile(0.5).is_some_and(f64::is_finite));
                assert_eq!(Sketch::read(&bytes(&merged)).expect("a sketch"), merged);
            }
        }
    }
}

/// The bytes of `distinct_sketch` of values of a type, which are written as literals.
fn distinct_sketch(ty: &str, literals: &[&str], session: &Session) -> Vec<u8> {
    let arena = Bump::new();
    let utc = Session::default();
    let (ctx, reading) = (Context { arena: &arena, session }, Context { arena: &arena, session: &utc });
    let ty = match ty.strip_suffix("[]") {
        Some(element) => builtin().array_of(builtin().type_named(element).expect("a type")).expect("an array"),
        None => builtin().type_named(ty).expect("a type"),
    };
    let call = registry::resolve("distinct_sketch", &[ty]).expect("a function");
    let mut state = registry::aggregate(call.function).expect("an aggregate")(&call);
    for literal in literals {
        let value = registry::input(literal, ty, -1, &reading).expect("a value");
        state.update(&[value], &ctx).expect("a row");
    }
    match state.result(&ctx).expect("a result") {
        Datum::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stored_sketch_does_not_depend_on_the_settings_of_the_session() {
    let other = Session {
        zone: jiff::tz::TimeZone::get("Asia/Kolkata").expect("a time zone"),
        zone_name: "Asia/Kolkata".to_owned(),
        date_style: DateStyle::German,
        interval_style: IntervalStyle::Iso8601,
        ..Session::default()
    };
    for (ty, literal) in [
        ("timestamptz", "2026-03-29 01:30:00.5+00"),
        ("timestamp", "2026-03-29 01:30:00.5"),
        ("date", "2026-03-04"),
        ("time", "01:30"),
        ("timetz", "01:30+02"),
        ("interval", "1 day 2 hours"),
        ("timestamptz[]", "{2026-03-29 01:30+00,NULL}"),
        ("tstzrange", "[2026-03-29 01:30+00,infinity)"),
        ("tstzmultirange", "{[2026-03-29 01:30+00,)}"),
        ("bytea", "\\x00ff"),
        ("float8", "0.1"),
        ("point", "(0.1,-0)"),
    ] {
        let (here, there) = (Session::default(), &other);
        assert_eq!(distinct_sketch(ty, &[literal], &here), distinct_sketch(ty, &[literal], there), "{ty}");
    }
}

#[test]
fn equal_values_of_all_forms_and_sizes_are_one() {
    let session = Session::default();
    let groups: [&[(&str, &str)]; 12] = [
        &[("int2", "-7"), ("int4", "-7"), ("int8", "-7")],
        &[("float4", "0.5"), ("float8", "0.5")],
        &[("float4", "-0"), ("float8", "0")],
        &[("numeric", "1"), ("numeric", "1.00")],
        &[("date", "2026-01-01")],
        &[("timestamp", "2026-01-01")],
        &[("timestamptz", "2026-01-01Z"), ("timestamptz", "2026-01-01 05:30+05:30")],
        &[("numrange", "[1.0,2)"), ("numrange", "[1.00,2.0)")],
        &[("numrange", "(1.0,2)")],
        &[("numrange", "empty"), ("numrange", "(1,1)")],
        &[("nummultirange", "{[1.0,2)}"), ("nummultirange", "{[1,1.5],[1.5,2.00)}")],
        &[("point", "(0,1)"), ("point", "(-0,1)")],
    ];
    let mut seen = Vec::new();
    for group in groups {
        let sketches: Vec<_> = group.iter().map(|(ty, literal)| distinct_sketch(ty, &[literal], &session)).collect();
        assert!(sketches.windows(2).all(|pair| pair[0] == pair[1]), "{group:?}");
        assert!(!seen.contains(&sketches[0]), "{group:?}");
        seen.push(sketches[0].clone());
    }
}
